//! The one error type of both binaries: what happened, what to do about it, and the exit code.

use std::fmt;

/// Why a command failed, as the exit code tells it. The numbers are documented and never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Anything that has no code of its own.
    Failed = 1,
    /// The command line, or a file that the person wrote, cannot be acted on.
    Usage = 2,
    /// The named cluster, account or Secret does not exist.
    NotFound = 3,
    /// The hub knows who asks, or does not want to, and refuses.
    Refused = 4,
    /// The other side cannot be reached, or did not answer in time.
    Unreachable = 5,
}

impl Kind {
    /// The process exit code.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// The kind that a stored exit code stands for; unknown codes are [`Kind::Failed`].
    pub fn from_code(code: u8) -> Self {
        match code {
            2 => Self::Usage,
            3 => Self::NotFound,
            4 => Self::Refused,
            5 => Self::Unreachable,
            _ => Self::Failed,
        }
    }
}

/// A failure: one line of cause, one of remedy. Neither ever holds a credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// Decides the exit code.
    pub kind: Kind,
    /// What happened, naming what the person can change.
    pub cause: String,
    /// What to do next; empty where there is nothing to add.
    pub remedy: String,
}

/// A result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error without a remedy yet; see [`Error::remedy`].
    pub fn new(kind: Kind, cause: impl Into<String>) -> Self {
        Self { kind, cause: cause.into(), remedy: String::new() }
    }

    /// The same error with what to do about it.
    #[must_use]
    pub fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = remedy.into();
        self
    }

    /// The same error with `context: ` before its cause.
    #[must_use]
    pub fn context(mut self, context: impl fmt::Display) -> Self {
        self.cause = format!("{context}: {}", self.cause);
        self
    }

    /// Cause and remedy in one line, safe for a terminal.
    pub fn one_line(&self) -> String {
        let cause = printable(&self.cause);
        if self.remedy.is_empty() { cause } else { format!("{cause}; {}", printable(&self.remedy)) }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.one_line())
    }
}

impl std::error::Error for Error {}

/// Text from elsewhere made safe for a terminal: control characters (and with them escape
/// sequences, line breaks and the bidirectional overrides) become `\u{..}` escapes.
pub fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        let reorders =
            matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if c.is_control() || reorders { out.extend(c.escape_unicode()) } else { out.push(c) }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_one_line_whatever_its_text_holds() {
        let error = Error::new(Kind::Refused, "a\n\u{1b}[31mb\u{202e}").remedy("do\rthis");
        assert_eq!(error.one_line(), r"a\u{a}\u{1b}[31mb\u{202e}; do\u{d}this");
    }

    #[test]
    fn kinds_survive_being_stored_as_their_code() {
        for kind in [Kind::Failed, Kind::Usage, Kind::NotFound, Kind::Refused, Kind::Unreachable] {
            assert_eq!(Kind::from_code(kind.code()), kind);
        }
    }
}
