//! The links of a chain, each with a verdict: for a person, or as JSON. Pure.

use std::io::{self, Write};

use anstyle::{AnsiColor, Style};
use credential_exec::error::{Error, Kind, printable};
use serde::Serialize;
use serde_json::json;

/// How a link is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mark {
    /// It holds.
    Ok,
    /// It holds for now, or in part.
    Warning,
    /// It is broken.
    Broken,
    /// It was not looked at, since one before it is broken.
    Skipped,
}

/// One link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// What it is.
    pub link: String,
    /// How it is.
    pub verdict: Mark,
    /// What was found.
    pub cause: String,
    /// What to do about it; empty where nothing is to be done.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub remedy: String,
    /// The exit code that it stands for.
    #[serde(skip)]
    pub code: u8,
}

/// All links, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checks(Vec<Check>);

impl Checks {
    /// A link that holds.
    pub fn ok(&mut self, link: &str, found: impl Into<String>) {
        self.add(link, Mark::Ok, found.into(), String::new(), 0);
    }

    /// A link that holds for now.
    pub fn warn(&mut self, link: &str, found: impl Into<String>, remedy: impl Into<String>) {
        self.add(link, Mark::Warning, found.into(), remedy.into(), 0);
    }

    /// A broken link.
    pub fn broken(&mut self, link: &str, error: &Error) {
        self.add(link, Mark::Broken, error.cause.clone(), error.remedy.clone(), error.kind.code());
    }

    /// Links that were not looked at.
    pub fn skipped(&mut self, links: &[&str], why: &str) {
        for link in links {
            self.add(link, Mark::Skipped, why.to_owned(), String::new(), 0);
        }
    }

    /// Takes in a link that holds, or is broken; whether it holds.
    pub fn take<T>(
        &mut self,
        link: &str,
        result: Result<T, Error>,
        found: impl FnOnce(&T) -> String,
    ) -> Option<T> {
        match result {
            Ok(value) => {
                let found = found(&value);
                self.ok(link, found);
                Some(value)
            }
            Err(error) => {
                self.broken(link, &error);
                None
            }
        }
    }

    fn add(&mut self, link: &str, verdict: Mark, cause: String, remedy: String, code: u8) {
        self.0.push(Check { link: link.to_owned(), verdict, cause, remedy, code });
    }

    /// The first broken link.
    pub fn first_broken(&self) -> Option<&Check> {
        self.0.iter().find(|check| check.verdict == Mark::Broken)
    }

    /// The exit code of the first broken link; 0 where none is.
    pub fn code(&self) -> u8 {
        self.first_broken().map_or(0, |check| if check.code == 0 { Kind::Failed.code() } else { check.code })
    }

    /// Prints them for a person: the first broken link, then all of them.
    pub fn print(&self, color: bool, out: &mut dyn Write) -> io::Result<()> {
        let width = self.0.iter().map(|check| check.link.len()).max().unwrap_or_default();
        for check in &self.0 {
            let (word, of) = match check.verdict {
                Mark::Ok => ("ok", AnsiColor::Green),
                Mark::Warning => ("warning", AnsiColor::Yellow),
                Mark::Broken => ("BROKEN", AnsiColor::Red),
                Mark::Skipped => ("-", AnsiColor::BrightBlack),
            };
            let style = if color { of.on_default() } else { Style::new() };
            let (link, cause) = (printable(&check.link), printable(&check.cause));
            writeln!(out, "{style}{word:7}{style:#}  {link:width$}  {cause}")?;
            if !check.remedy.is_empty() {
                writeln!(out, "{:7}  {:width$}  try: {}", "", "", printable(&check.remedy))?;
            }
        }
        match self.first_broken() {
            Some(check) => writeln!(out, "\nThe first broken link is: {}", printable(&check.link)),
            None => writeln!(out, "\nEverything holds."),
        }
    }

    /// Prints them as one JSON document.
    pub fn json(&self, out: &mut dyn Write) -> io::Result<()> {
        let first = self.first_broken().map(|check| check.link.as_str());
        serde_json::to_writer_pretty(&mut *out, &json!({"firstBroken": first, "items": self.0}))?;
        writeln!(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_broken_link_gives_the_code_and_stands_last() {
        let mut checks = Checks::default();
        checks.ok("kubeconfig", "/x");
        checks.broken("hub", &Error::new(Kind::Unreachable, "down").remedy("start it"));
        checks.skipped(&["cluster"], "needs the hub");
        checks.broken("kubectl", &Error::new(Kind::NotFound, "gone"));
        let mut out = Vec::new();
        checks.print(false, &mut out).unwrap();
        insta::assert_snapshot!(String::from_utf8(out).unwrap(), @r"
        ok       kubeconfig  /x
        BROKEN   hub         down
                             try: start it
        -        cluster     needs the hub
        BROKEN   kubectl     gone

        The first broken link is: hub
        ");
        assert_eq!((checks.code(), Checks::default().code()), (5, 0));
        let mut out = Vec::new();
        checks.json(&mut out).unwrap();
        let json: serde_json::Value = serde_json::from_slice(&out).unwrap();
        assert_eq!((&json["firstBroken"], &json["items"][1]["verdict"]), (&json!("hub"), &json!("broken")));
    }
}
