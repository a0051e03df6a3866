//! What a tunnel has to say, in a file of bounded size that its owner alone may read. It holds causes of
//! errors, never a credential.

use std::cell::RefCell;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;

use crate::env::Env;
use crate::error::printable;

/// The size that a log never grows beyond, and what is kept of one that would, in bytes.
const LARGEST: u64 = 256 << 10;
const KEPT: i64 = 64 << 10;

/// Opens a log for appending, making it with mode 0600 if need be. `None` where that cannot be done.
pub fn open(path: &Path) -> Option<File> {
    crate::os::open_private_rw(path).ok()?;
    OpenOptions::new().read(true).append(true).open(path).ok()
}

/// A tunnel's log.
pub struct Log {
    file: Option<RefCell<File>>,
    env: Env,
}

impl Log {
    /// The log at this path; without a file nothing is kept.
    pub fn new(path: &Path, env: &Env) -> Self {
        Self { file: open(path).map(RefCell::new), env: env.clone() }
    }

    /// Adds a line, with the time before it.
    pub fn line(&self, text: &str) {
        let Some(file) = &self.file else { return };
        let now = jiff::Timestamp::try_from(self.env.clock()).unwrap_or_default();
        let mut file = file.borrow_mut();
        let _ = writeln!(file, "{now:.0} {}", printable(text));
        if file.metadata().is_ok_and(|meta| meta.len() > LARGEST) {
            shorten(&mut file);
        }
    }
}

/// Keeps the end. Whoever else appends to it goes on after that.
fn shorten(file: &mut File) {
    let mut end = Vec::new();
    let read = file.seek(SeekFrom::End(-KEPT)).and_then(|_| file.read_to_end(&mut end));
    let whole_lines = end.iter().position(|&byte| byte == b'\n').map_or(&end[..], |at| &end[at + 1..]);
    let _ = read.and_then(|_| file.set_len(0)).and_then(|()| file.write_all(whole_lines));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_keeps_the_newest_lines_within_its_size() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let log = Log::new(&path, &Env::of([("X", "")]));
        for number in 0..10_000 {
            log.line(&format!("line {number} {}", "x".repeat(50)));
            assert!(std::fs::metadata(&path).unwrap().len() <= LARGEST + 100);
        }
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.ends_with(&format!("line 9999 {}\n", "x".repeat(50))));
        assert!(text.lines().all(|line| line.starts_with("1970-01-01T00:00:00Z line ")), "{text:.200}");
    }

    #[test]
    fn a_line_is_one_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        Log::new(&path, &Env::of([("X", "")])).line("a\nb\u{1b}[0m");
        assert_eq!(std::fs::read_to_string(path).unwrap().lines().count(), 1);
    }
}
