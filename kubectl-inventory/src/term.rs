//! The terminal: whether to colour, and an output that minds a closed pipe as little as `head` does.

use std::io::{self, Write};
use std::str::FromStr;

use credential_exec::env::Env;
use credential_exec::error::{Error, Kind};

/// When to colour (`--color`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Color {
    /// On a terminal, unless `NO_COLOR` is set or the terminal is dumb.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

impl Color {
    /// What `--color` may be.
    pub const CHOICES: [&str; 3] = ["auto", "always", "never"];

    /// Whether to colour what goes to an output that is, or is not, a terminal.
    pub fn enabled(self, env: &Env, is_terminal: bool) -> bool {
        match self {
            Self::Always => true,
            Self::Never => false,
            Self::Auto => {
                is_terminal
                    && env.os("NO_COLOR").is_none()
                    && env.var("TERM").is_none_or(|term| term != "dumb")
            }
        }
    }
}

impl FromStr for Color {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "always" => Ok(Self::Always),
            "never" => Ok(Self::Never),
            _ => Err(format!("{text:?} is none of {}", Self::CHOICES.join(", "))),
        }
    }
}

/// The process's stdout; where it is coloured, a Windows console is told so.
pub fn stdout(colored: bool) -> Box<dyn Write> {
    let stdout = io::stdout();
    if colored { Box::new(anstream::AutoStream::always(stdout)) } else { Box::new(stdout) }
}

/// What it means when an answer does not reach its reader.
pub fn not_written(error: io::Error) -> Error {
    Error::new(Kind::Failed, format!("the answer cannot be written: {error}"))
}

/// An output whose reader may leave: from then on everything written is dropped, without an error.
#[derive(Debug)]
pub struct Pipe<W> {
    inner: W,
    closed: bool,
}

impl<W: Write> Pipe<W> {
    /// An output whose reader is there.
    pub fn new(inner: W) -> Self {
        Self { inner, closed: false }
    }

    /// Whether the reader has left.
    pub fn closed(&self) -> bool {
        self.closed
    }

    fn mind<T>(&mut self, result: io::Result<T>, dropped: T) -> io::Result<T> {
        match result {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.closed = true;
                Ok(dropped)
            }
            other => other,
        }
    }
}

impl<W: Write> Write for Pipe<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.closed {
            return Ok(bytes.len());
        }
        let result = self.inner.write(bytes);
        self.mind(result, bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.closed {
            return Ok(());
        }
        let result = self.inner.flush();
        self.mind(result, ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Gone;

    impl Write for Gone {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn colour_needs_a_terminal_that_wants_it() {
        let plain = Env::of([("TERM", "xterm")]);
        assert!(Color::Auto.enabled(&plain, true));
        assert!(!Color::Auto.enabled(&plain, false));
        assert!(!Color::Auto.enabled(&Env::of([("NO_COLOR", "1")]), true));
        assert!(Color::Auto.enabled(&Env::of([("NO_COLOR", "")]), true));
        assert!(!Color::Auto.enabled(&Env::of([("TERM", "dumb")]), true));
        assert!(Color::Always.enabled(&Env::of([("NO_COLOR", "1")]), false));
        assert!(!Color::Never.enabled(&plain, true));
    }

    #[test]
    fn an_unknown_colour_choice_names_the_known_ones() {
        assert_eq!(
            "sometimes".parse::<Color>(),
            Err(r#""sometimes" is none of auto, always, never"#.to_owned())
        );
        for choice in Color::CHOICES {
            assert!(choice.parse::<Color>().is_ok());
        }
    }

    #[test]
    fn a_reader_that_left_is_no_error() {
        let mut pipe = Pipe::new(Gone);
        assert!(!pipe.closed());
        pipe.write_all(b"a line\n").expect("dropped");
        assert!(pipe.closed());
        pipe.write_all(b"another\n").and_then(|()| pipe.flush()).expect("dropped");
    }
}
