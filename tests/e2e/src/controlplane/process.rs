//! A server that ends with the test that started it.

use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// How long a server may take until it is ready.
const PATIENCE: Duration = Duration::from_secs(120);

/// A server of ours, killed when this is dropped. Its standard input is held open: our own build ends
/// when it closes, so that a killed test leaves nothing behind.
pub(super) struct Process {
    what: &'static str,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts it with its log, and its home, in a folder.
    pub(super) fn start(
        what: &'static str,
        command: Vec<&Path>,
        dir: &Path,
        flags: &[String],
    ) -> Result<Self, String> {
        let log = dir.join(format!("{what}.log"));
        let open = || File::options().create(true).append(true).open(&log);
        let (program, first) = command.split_first().ok_or("no command")?;
        let child = open()
            .and_then(|out| Ok((out, open()?)))
            .and_then(|(out, err)| {
                Command::new(program)
                    .args(first)
                    .args(flags)
                    .env("CONTROLPLANE_END_WITH_STDIN", "1")
                    .env("HOME", dir)
                    .stdin(Stdio::piped())
                    .stdout(out)
                    .stderr(err)
                    .spawn()
            })
            .map_err(|error| format!("{what} ({}) cannot be started: {error}", program.display()))?;
        Ok(Self { what, child, log })
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    fn last_words(&self) -> String {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<_> = log.lines().collect();
        lines[lines.len().saturating_sub(12)..].join("\n")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits for servers until they are ready. An error when one ended before that, or after [`PATIENCE`].
pub(super) fn wait(servers: &mut [&mut Process], mut ready: impl FnMut() -> bool) -> Result<(), String> {
    let deadline = Instant::now() + PATIENCE;
    while !ready() {
        for server in &mut *servers {
            if let Ok(Some(status)) = server.child.try_wait() {
                return Err(format!("{} ended, {status}: {}", server.what, server.last_words()));
            }
        }
        if Instant::now() > deadline {
            let words: Vec<_> = servers.iter().map(|server| server.last_words()).collect();
            return Err(format!("not ready after {PATIENCE:?}: {}", words.join("\n")));
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Loopback ports that nobody listens on.
pub(super) fn free_ports<const N: usize>() -> Result<[u16; N], String> {
    let free = |_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let listeners: Vec<_> = (0..N).map(free).collect::<Result<_, _>>().map_err(no_port)?;
    let mut ports = [0; N];
    for (port, listener) in ports.iter_mut().zip(&listeners) {
        *port = listener.local_addr().map_err(no_port)?.port();
    }
    Ok(ports)
}

fn no_port(error: std::io::Error) -> String {
    format!("no free loopback port: {error}")
}

/// Whether somebody listens on a loopback port.
pub(super) fn listens(port: u16) -> bool {
    TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok()
}
