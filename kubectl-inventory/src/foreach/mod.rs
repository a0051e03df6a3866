//! Running one command on many clusters: what the command does, how it is run, and how its output is shown.

pub mod child;
pub mod print;
pub mod verb;

use std::time::Duration;

/// What became of one cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The cluster's name.
    pub name: String,
    /// Its namespace on the hub.
    pub namespace: String,
    /// How it ended.
    pub end: End,
    /// Everything on stdout that was not shown yet.
    pub stdout: Vec<u8>,
    /// Everything on stderr that was not shown yet.
    pub stderr: Vec<u8>,
    /// How long it took, from its start to its end.
    pub took: Duration,
}

/// How a command on one cluster ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// By itself, with this exit code.
    Exited(u8),
    /// By us, after this time.
    TimedOut(Duration),
    /// By us, because the whole run ended.
    Stopped,
    /// It was not run: why, and the exit code for that.
    NotRun(String, u8),
}

impl End {
    /// The exit code that stands for it.
    pub fn code(&self) -> u8 {
        match self {
            Self::Exited(code) | Self::NotRun(_, code) => *code,
            Self::TimedOut(_) => 5,
            Self::Stopped => 130,
        }
    }

    /// The same in words.
    pub fn words(&self) -> String {
        match self {
            Self::Exited(code) => format!("exit code {code}"),
            Self::TimedOut(after) => format!("timed out after {} s", after.as_secs_f32()),
            Self::Stopped => "stopped".to_owned(),
            Self::NotRun(why, _) => why.clone(),
        }
    }
}

/// The exit code of the whole run: 0 where all succeeded, that of the failures where they agree, else 1.
pub fn merged<'a>(ends: impl IntoIterator<Item = &'a End>) -> u8 {
    let mut codes = ends.into_iter().map(End::code).filter(|code| *code != 0);
    let Some(first) = codes.next() else { return 0 };
    if codes.all(|code| code == first) { first } else { 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_code_stands_for_all() {
        let ends = |codes: &[u8]| codes.iter().map(|code| End::Exited(*code)).collect::<Vec<_>>();
        for (codes, expected) in
            [(&[][..], 0), (&[0, 0], 0), (&[0, 3, 0], 3), (&[3, 3], 3), (&[3, 1], 1), (&[4, 5, 0], 1)]
        {
            assert_eq!(merged(&ends(codes)), expected, "{codes:?}");
        }
        let slow = End::TimedOut(Duration::from_secs(2));
        assert_eq!(merged([&slow, &End::Exited(0)]), 5);
    }
}
