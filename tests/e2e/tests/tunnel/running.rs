//! Programs that go on while a test does something else.

use std::cell::OnceCell;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

/// A kubectl that goes on until it is dropped, and its lines.
pub struct Running {
    child: Child,
    /// Its lines so far.
    pub lines: Receiver<String>,
    port: OnceCell<u16>,
}

impl Running {
    pub fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("kubectl runs");
        let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        let (send, lines) = channel();
        thread::spawn(move || stdout.lines().map_while(Result::ok).try_for_each(|line| send.send(line)));
        Self { child, lines, port: OnceCell::new() }
    }

    #[track_caller]
    pub fn line(&self) -> String {
        self.lines.recv_timeout(Duration::from_secs(60)).expect("a line of kubectl")
    }

    #[track_caller]
    pub fn until(&self, wanted: &str) {
        while self.line() != wanted {}
    }

    /// The local port, for a port-forward.
    #[track_caller]
    pub fn port(&self) -> u16 {
        *self.port.get_or_init(|| {
            let line = self.line();
            let port =
                line.strip_prefix("Forwarding from 127.0.0.1:").and_then(|rest| rest.split(' ').next());
            port.and_then(|port| port.parse().ok()).unwrap_or_else(|| panic!("no port: {line}"))
        })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
