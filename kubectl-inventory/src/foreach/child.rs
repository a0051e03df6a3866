//! One command as a process of its own: its output taken in line by line, its end by itself, by a limit, or
//! with the whole run. Whatever it started ends with it.

use std::pin::Pin;
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::watch;

use super::End;

/// How long a process has to end by itself after it was told to.
const GRACE: Duration = Duration::from_secs(2);

/// Where a line of a command's output came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Its stdout.
    Out,
    /// Its stderr.
    Err,
}

/// Runs the command to its end; `line` gets each line without its end.
///
/// `stop` turns true when the whole run is to end.
pub async fn run(
    mut command: Command,
    input: Option<&[u8]>,
    limit: Option<Duration>,
    mut stop: watch::Receiver<bool>,
    mut line: impl FnMut(Stream, &[u8]),
) -> (End, Duration) {
    let started = Instant::now();
    let stdin = if input.is_some() { Stdio::piped() } else { Stdio::null() };
    command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    #[cfg(unix)]
    command.process_group(0);
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            let program = command.as_std().get_program().to_string_lossy().into_owned();
            return (End::NotRun(format!("{program} cannot be run: {error}"), 1), started.elapsed());
        }
    };
    let group = Group::of(&child);
    let feed = feed(child.stdin.take(), input);
    let read = read(child.stdout.take(), child.stderr.take(), &mut line);
    let talk = async {
        tokio::join!(read, feed);
    };
    tokio::pin!(talk);
    let mut said = false;
    let cut = tokio::select! {
        () = ended(&mut child, talk.as_mut(), &mut said) => None,
        () = after(limit) => limit.map(End::TimedOut),
        _ = stop.wait_for(|stop| *stop) => Some(End::Stopped),
    };
    if cut.is_some() {
        group.terminate(&mut child);
        let _ = tokio::time::timeout(GRACE, ended(&mut child, talk.as_mut(), &mut said)).await;
    }
    // What it left running, and would keep its output open.
    group.kill(&mut child);
    let status = child.wait().await;
    if !said {
        talk.await;
    }
    (cut.unwrap_or_else(|| End::Exited(code(status.ok()))), started.elapsed())
}

/// Waits until the process has ended, taking in meanwhile what it says.
async fn ended(child: &mut Child, mut talk: Pin<&mut impl Future<Output = ()>>, said: &mut bool) {
    loop {
        tokio::select! {
            _ = child.wait() => break,
            () = &mut talk, if !*said => *said = true,
        }
    }
    if !*said && tokio::time::timeout(GRACE, talk).await.is_ok() {
        *said = true;
    }
}

async fn after(limit: Option<Duration>) {
    match limit {
        Some(limit) => tokio::time::sleep(limit).await,
        None => std::future::pending().await,
    }
}

/// Gives it what it is to read; one that does not want it all is no failure.
async fn feed(stdin: Option<tokio::process::ChildStdin>, input: Option<&[u8]>) {
    if let (Some(mut stdin), Some(input)) = (stdin, input) {
        let _ = stdin.write_all(input).await;
    }
}

/// Takes in both streams to their ends.
async fn read(
    out: Option<impl AsyncRead + Unpin>,
    err: Option<impl AsyncRead + Unpin>,
    line: &mut impl FnMut(Stream, &[u8]),
) {
    let (mut out, mut err) = (out.map(BufReader::new), err.map(BufReader::new));
    let (mut out_line, mut err_line) = (Vec::new(), Vec::new());
    while out.is_some() || err.is_some() {
        tokio::select! {
            more = next(&mut out, &mut out_line) => {
                if !more { out = None; }
                complete(&mut out_line, |text| line(Stream::Out, text));
            }
            more = next(&mut err, &mut err_line) => {
                if !more { err = None; }
                complete(&mut err_line, |text| line(Stream::Err, text));
            }
        }
    }
}

/// Adds to the line until it is whole; false at the end of the stream. Waits for ever where there is none.
async fn next(from: &mut Option<BufReader<impl AsyncRead + Unpin>>, line: &mut Vec<u8>) -> bool {
    match from {
        // What was read of a line stays in it when the other stream comes first.
        Some(from) => from.read_until(b'\n', line).await.is_ok_and(|read| read > 0),
        None => std::future::pending().await,
    }
}

fn complete(line: &mut Vec<u8>, mut take: impl FnMut(&[u8])) {
    if !line.is_empty() {
        take(line.strip_suffix(b"\n").unwrap_or(line));
        line.clear();
    }
}

/// The exit code; of one that a signal ended, as a shell has it.
fn code(status: Option<ExitStatus>) -> u8 {
    let Some(status) = status else { return 1 };
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return u8::try_from(128 + signal).unwrap_or(1);
    }
    status.code().map_or(1, |code| u8::try_from(code & 0xff).unwrap_or(1))
}

/// A process and everything that it started.
struct Group {
    #[cfg(unix)]
    leader: Option<rustix::process::Pid>,
}

#[cfg(unix)]
impl Group {
    fn of(child: &Child) -> Self {
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok());
        Self { leader: pid.and_then(rustix::process::Pid::from_raw) }
    }

    fn terminate(&self, _: &mut Child) {
        self.signal(rustix::process::Signal::TERM);
    }

    fn kill(&self, _: &mut Child) {
        self.signal(rustix::process::Signal::KILL);
    }

    fn signal(&self, signal: rustix::process::Signal) {
        if let Some(leader) = self.leader {
            let _ = rustix::process::kill_process_group(leader, signal);
        }
    }
}

/// There are no groups of processes here: the process alone is ended.
#[cfg(not(unix))]
impl Group {
    fn of(_: &Child) -> Self {
        Self {}
    }

    fn terminate(&self, child: &mut Child) {
        let _ = child.start_kill();
    }

    fn kill(&self, child: &mut Child) {
        let _ = child.start_kill();
    }
}
