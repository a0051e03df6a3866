//! Times two commands by turns. Each run has a parent of its own, as each kubectl is one: the plugin
//! takes a second question of the same parent for a refused token and asks the hub. That parent is
//! this program again, started with [`ONCE`]; it takes the time around start and end of the command
//! only, so its own start does not count.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use super::{Outcome, stdout_of};

/// First argument of the parent.
pub const ONCE: &str = "once";

/// Line of the parent's report.
const MARK: &str = "nanoseconds: ";

/// A command, its environment complete.
#[derive(Clone)]
pub struct Run {
    program: PathBuf,
    args: Vec<OsString>,
    env: Vec<(String, OsString)>,
}

impl Run {
    pub fn new(program: impl Into<PathBuf>) -> Self {
        Self { program: program.into(), args: Vec::new(), env: Vec::new() }
    }

    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    pub fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.env.push((name.to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Runs it once, untimed.
    pub fn output(&self) -> Outcome<String> {
        stdout_of(&mut self.command(), &self.program)
    }

    /// The command itself.
    pub fn command(&self) -> Command {
        self.under(None)
    }

    /// The command, or another one that is given it as arguments.
    fn under(&self, other: Option<(&Path, &[&str])>) -> Command {
        let mut command = match other {
            None => Command::new(&self.program),
            Some((other, first)) => {
                let mut command = Command::new(other);
                command.args(first).arg(&self.program);
                command
            }
        };
        command.args(&self.args).env_clear().envs(self.env.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Milliseconds from start to end.
    fn time(&self) -> Outcome<f64> {
        let this = std::env::current_exe().map_err(|error| error.to_string())?;
        let output = self
            .under(Some((&this, &[ONCE])))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .output()
            .map_err(|error| error.to_string())?;
        let said = String::from_utf8_lossy(&output.stderr);
        let nanoseconds = said.lines().find_map(|line| line.strip_prefix(MARK)?.parse::<f64>().ok());
        match nanoseconds {
            Some(nanoseconds) if output.status.success() => Ok(nanoseconds / 1e6),
            _ => Err(format!("{} fails: {said}", self.program.display())),
        }
    }
}

/// The parent: runs the command, which inherits everything, and tells on stderr how long it took.
pub fn once(command: &[OsString]) -> ExitCode {
    let Some((program, args)) = command.split_first() else { return ExitCode::FAILURE };
    let mut command = Command::new(program);
    command.args(args);
    let started = Instant::now();
    let status = command.status();
    let took = started.elapsed();
    let mut err = io::stderr().lock();
    let told = match status {
        Ok(status) if status.success() => writeln!(err, "{MARK}{}", took.as_nanos()).is_ok(),
        Ok(status) => writeln!(err, "{status}").is_err(),
        Err(error) => writeln!(err, "{error}").is_err(),
    };
    if told { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The times of two commands, in milliseconds.
pub struct Pair {
    ours: Vec<f64>,
    theirs: Vec<f64>,
}

impl Pair {
    /// Takes both times by turns, now one first, now the other, after one of each that does not count.
    pub fn of(n: usize, ours: &dyn Fn() -> Outcome<f64>, theirs: &dyn Fn() -> Outcome<f64>) -> Outcome<Self> {
        ours()?;
        theirs()?;
        let mut pair = Self { ours: Vec::new(), theirs: Vec::new() };
        for round in 0..n {
            if round % 2 == 0 {
                pair.ours.push(ours()?);
                pair.theirs.push(theirs()?);
            } else {
                pair.theirs.push(theirs()?);
                pair.ours.push(ours()?);
            }
        }
        Ok(pair)
    }

    pub fn ratio(&self) -> f64 {
        median(&self.ours) / median(&self.theirs)
    }

    pub fn medians(&self) -> String {
        format!(
            "medians {:.3} ms and {:.3} ms, fastest {:.3} and {:.3}, n={}",
            median(&self.ours),
            median(&self.theirs),
            fastest(&self.ours),
            fastest(&self.theirs),
            self.ours.len()
        )
    }
}

/// Times both by turns. Before each run something may be prepared.
pub fn pairs(
    n: usize,
    ours: &Run,
    theirs: &Run,
    before_ours: impl Fn() -> Outcome<()>,
    before_theirs: impl Fn() -> Outcome<()>,
) -> Outcome<Pair> {
    let time_ours = || before_ours().and_then(|()| ours.time());
    let time_theirs = || before_theirs().and_then(|()| theirs.time());
    Pair::of(n, &time_ours, &time_theirs)
}

/// The most memory that it had at once, in MiB; the greatest of three runs.
pub fn peak(run: &Run) -> Outcome<f64> {
    const WAIT4: &str = "import os, sys
null = (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)
pid = os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ, file_actions=[null])
_, status, usage = os.wait4(pid, 0)
print(usage.ru_maxrss)
sys.exit(status != 0)";
    let python = Path::new("python3");
    let mut most = 0.0_f64;
    for _ in 0..3 {
        let said = stdout_of(&mut run.under(Some((python, &["-c", WAIT4]))), &run.program)?;
        let kibibytes: f64 = said.trim().parse().map_err(|_| format!("not a size: {said}"))?;
        most = most.max(kibibytes / 1024.0);
    }
    Ok(most)
}

fn median(times: &[f64]) -> f64 {
    let mut times = times.to_vec();
    times.sort_by(f64::total_cmp);
    let middle = times.len() / 2;
    if times.len() % 2 == 1 { times[middle] } else { f64::midpoint(times[middle - 1], times[middle]) }
}

fn fastest(times: &[f64]) -> f64 {
    times.iter().copied().fold(f64::INFINITY, f64::min)
}
