//! Everything the process is told by its surroundings, in one value: variables, home, clock,
//! terminal. Code that takes an [`Env`] can be tested without touching the real one.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::SystemTime;

/// Whether stdin is a terminal; without the standard library's handle, which brings a buffer of 8 KiB.
fn stdin_is_terminal() -> bool {
    #[cfg(unix)]
    return rustix::stdio::stdin().is_terminal();
    #[cfg(not(unix))]
    std::io::stdin().is_terminal()
}

/// The surroundings of one run.
#[derive(Clone, Debug)]
pub struct Env {
    vars: Option<BTreeMap<OsString, OsString>>,
    /// The moment this run started.
    pub now: SystemTime,
    /// Whether a person could type an answer on stdin.
    pub stdin_is_terminal: bool,
}

impl Env {
    /// The real surroundings. Variables are looked up when asked for.
    pub fn real() -> Self {
        Self { vars: None, now: SystemTime::now(), stdin_is_terminal: stdin_is_terminal() }
    }

    /// Surroundings made of these variables alone, at the epoch, without a terminal.
    pub fn of<K: Into<OsString>, V: Into<OsString>>(vars: impl IntoIterator<Item = (K, V)>) -> Self {
        Self {
            vars: Some(vars.into_iter().map(|(k, v)| (k.into(), v.into())).collect()),
            now: SystemTime::UNIX_EPOCH,
            stdin_is_terminal: false,
        }
    }

    /// A variable that is set and not empty.
    pub fn os(&self, name: &str) -> Option<OsString> {
        let value = match &self.vars {
            Some(vars) => vars.get(OsStr::new(name)).cloned(),
            None => std::env::var_os(name),
        };
        value.filter(|v| !v.is_empty())
    }

    /// A variable that is set, not empty and UTF-8.
    pub fn var(&self, name: &str) -> Option<String> {
        self.os(name)?.into_string().ok()
    }

    /// A variable that holds a path.
    pub fn path(&self, name: &str) -> Option<PathBuf> {
        self.os(name).map(PathBuf::from)
    }

    /// The home directory: `$HOME`, on Windows `%USERPROFILE%`, as client-go has it.
    pub fn home(&self) -> Option<PathBuf> {
        self.path("HOME").or_else(|| if cfg!(windows) { self.path("USERPROFILE") } else { None })
    }

    /// The time now, which for made-up surroundings stands still.
    pub fn clock(&self) -> SystemTime {
        if self.vars.is_some() { self.now } else { SystemTime::now() }
    }
}
