//! Showing what many commands say: never two clusters in one line, and never one inside the other where whole
//! outputs are asked for.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::str::FromStr;

use anstyle::{AnsiColor, Style};
use credential_exec::error::printable;
use serde_json::json;

use super::child::Stream;
use super::{End, Outcome};

/// How outputs are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// Each line as it comes, behind its cluster's name.
    #[default]
    Prefix,
    /// Each cluster's output whole, below a heading.
    Group,
    /// One JSON document a cluster, each on a line of its own.
    Json,
    /// Each cluster's output whole, as it is.
    Raw,
}

impl Form {
    /// Its spellings.
    pub const CHOICES: [&str; 4] = ["prefix", "group", "json", "raw"];
}

impl FromStr for Form {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "prefix" => Ok(Self::Prefix),
            "group" => Ok(Self::Group),
            "json" => Ok(Self::Json),
            "raw" => Ok(Self::Raw),
            _ => Err(format!("{text:?} is none of {}", Self::CHOICES.join(", "))),
        }
    }
}

/// What is said about a whole run.
pub struct Printer<'a> {
    out: &'a mut dyn Write,
    err: &'a mut dyn Write,
    form: Form,
    color: bool,
    /// The longest name.
    width: usize,
    /// Where outputs come in the fleet's order: what is done and waits for its turn, and whose turn it is.
    waiting: Option<(BTreeMap<usize, Outcome>, usize)>,
    progress: Option<Progress>,
    failed: io::Result<()>,
}

/// How far a run is, on a terminal.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    all: usize,
    done: usize,
    failed: usize,
}

/// Begins a line anew on a terminal.
const CLEAR: &str = "\r\u{1b}[K";

impl<'a> Printer<'a> {
    /// For a run on clusters of these names. `in_order` is whether outputs come in the fleet's order, `terminal`
    /// whether stderr is one.
    pub fn new(
        (out, err): (&'a mut dyn Write, &'a mut dyn Write),
        form: Form,
        in_order: bool,
        color: bool,
        terminal: bool,
        names: &[&str],
    ) -> Self {
        let width = names.iter().map(|name| name.len()).max().unwrap_or_default();
        let progress = terminal.then_some(Progress { all: names.len(), ..Progress::default() });
        let waiting = in_order.then(|| (BTreeMap::new(), 0));
        Self { out, err, form, color, width, waiting, progress, failed: Ok(()) }
    }

    /// Whether lines are shown as they come, so that an outcome holds none of them.
    pub fn streams(&self) -> bool {
        self.form == Form::Prefix && self.waiting.is_none()
    }

    /// Whether nobody reads any more.
    pub fn is_broken(&self) -> bool {
        self.failed.is_err()
    }

    /// A line as it comes.
    pub fn line(&mut self, number: usize, name: &str, stream: Stream, line: &[u8]) {
        self.clear();
        let shown = self.prefixed(number, name, stream, line);
        self.note(shown);
        self.show_progress();
    }

    /// What became of a cluster, with what was not shown of it yet.
    pub fn outcome(&mut self, number: usize, outcome: Outcome) {
        if let Some(progress) = &mut self.progress {
            progress.done += 1;
            progress.failed += usize::from(outcome.end.code() != 0);
        }
        self.clear();
        match self.waiting.take() {
            None => self.whole(number, &outcome),
            Some((mut done, mut turn)) => {
                done.insert(number, outcome);
                while let Some(outcome) = done.remove(&turn) {
                    self.whole(turn, &outcome);
                    turn += 1;
                }
                self.waiting = Some((done, turn));
            }
        }
        self.show_progress();
    }

    /// Ends the run's output: what waited for a turn that never came, and what could not be written.
    ///
    /// # Errors
    /// The first failure to write.
    pub fn finish(mut self) -> io::Result<()> {
        self.clear();
        if let Some((done, _)) = self.waiting.take() {
            for (number, outcome) in done {
                self.whole(number, &outcome);
            }
        }
        self.failed
    }

    fn whole(&mut self, number: usize, outcome: &Outcome) {
        let shown = match self.form {
            Form::Prefix => self.whole_prefixed(number, outcome),
            Form::Group => self.group(number, outcome),
            Form::Json => self.json(outcome),
            Form::Raw => self.raw(number, outcome),
        };
        self.note(shown);
    }

    fn whole_prefixed(&mut self, number: usize, outcome: &Outcome) -> io::Result<()> {
        for line in lines(&outcome.stdout) {
            self.prefixed(number, &outcome.name, Stream::Out, line)?;
        }
        self.complaints(number, outcome)
    }

    /// What it said on stderr, and why it did not end by itself.
    fn complaints(&mut self, number: usize, outcome: &Outcome) -> io::Result<()> {
        for line in lines(&outcome.stderr) {
            self.prefixed(number, &outcome.name, Stream::Err, line)?;
        }
        match &outcome.end {
            End::Exited(_) | End::Stopped => Ok(()),
            end => {
                let words = printable(&end.words());
                self.prefixed(number, &outcome.name, Stream::Err, words.as_bytes())
            }
        }
    }

    fn group(&mut self, number: usize, outcome: &Outcome) -> io::Result<()> {
        let state = match &outcome.end {
            End::Exited(0) => String::new(),
            end => format!(" ({})", printable(&end.words())),
        };
        let style = self.style(number);
        writeln!(self.out, "{style}==> {}{state} <=={style:#}", printable(&outcome.name))?;
        self.out.write_all(&ended(&outcome.stdout))?;
        self.out.flush()?;
        for line in lines(&outcome.stderr) {
            self.prefixed(number, &outcome.name, Stream::Err, line)?;
        }
        Ok(())
    }

    fn raw(&mut self, number: usize, outcome: &Outcome) -> io::Result<()> {
        self.out.write_all(&ended(&outcome.stdout))?;
        self.out.flush()?;
        self.complaints(number, outcome)
    }

    fn json(&mut self, outcome: &Outcome) -> io::Result<()> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let mut document = json!({
            "name": outcome.name,
            "namespace": outcome.namespace,
            "exitCode": outcome.end.code(),
            "stdout": text(&outcome.stdout),
            "stderr": text(&outcome.stderr),
            "durationSeconds": (outcome.took.as_secs_f64() * 1000.0).round() / 1000.0,
        });
        if !matches!(outcome.end, End::Exited(_)) {
            document["error"] = json!(outcome.end.words());
        }
        writeln!(self.out, "{document}")?;
        self.out.flush()
    }

    fn prefixed(&mut self, number: usize, name: &str, stream: Stream, line: &[u8]) -> io::Result<()> {
        let style = self.style(number);
        let width = self.width + 1;
        let name = format!("{}:", printable(name));
        let to: &mut dyn Write = match stream {
            Stream::Out => self.out,
            Stream::Err => self.err,
        };
        write!(to, "{style}{name:width$}{style:#} ")?;
        to.write_all(line)?;
        to.write_all(b"\n")?;
        to.flush()
    }

    fn style(&self, number: usize) -> Style {
        const COLORS: [AnsiColor; 6] = [
            AnsiColor::Cyan,
            AnsiColor::Green,
            AnsiColor::Magenta,
            AnsiColor::Yellow,
            AnsiColor::Blue,
            AnsiColor::Red,
        ];
        match self.color {
            true => COLORS[number % COLORS.len()].on_default(),
            false => Style::new(),
        }
    }

    fn clear(&mut self) {
        if self.progress.is_some() {
            let _ = write!(self.err, "{CLEAR}").and_then(|()| self.err.flush());
        }
    }

    fn show_progress(&mut self) {
        if let Some(Progress { all, done, failed }) = self.progress {
            let failed = if failed > 0 { format!(", {failed} failed") } else { String::new() };
            let shown = write!(self.err, "{CLEAR}{done}/{all} clusters{failed}");
            let _ = shown.and_then(|()| self.err.flush());
        }
    }

    fn note(&mut self, shown: io::Result<()>) {
        if self.failed.is_ok() {
            self.failed = shown;
        }
    }
}

/// The lines of a whole output.
fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let text = text.strip_suffix(b"\n").unwrap_or(text);
    text.split(|byte| *byte == b'\n').filter(move |_| !text.is_empty())
}

/// A whole output with an end to its last line.
fn ended(text: &[u8]) -> Vec<u8> {
    let mut text = text.to_owned();
    if !text.is_empty() && !text.ends_with(b"\n") {
        text.push(b'\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn outcome(name: &str, code: u8, stdout: &str, stderr: &str) -> Outcome {
        Outcome {
            name: name.into(),
            namespace: "fleet".into(),
            end: End::Exited(code),
            stdout: stdout.into(),
            stderr: stderr.into(),
            took: Duration::from_millis(1234),
        }
    }

    fn shown(form: Form, in_order: bool, outcomes: Vec<(usize, Outcome)>) -> (String, String) {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let mut printer =
            Printer::new((&mut out, &mut err), form, in_order, false, false, &["c1", "cluster2"]);
        for (number, outcome) in outcomes {
            printer.outcome(number, outcome);
        }
        printer.finish().unwrap();
        (String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap())
    }

    #[test]
    fn each_form_keeps_clusters_apart() {
        let both =
            || vec![(1, outcome("cluster2", 1, "x", "bad\nworse\n")), (0, outcome("c1", 0, "a\n\nb\n", ""))];
        let (out, err) = shown(Form::Prefix, false, both());
        assert_eq!(out, "cluster2: x\nc1:       a\nc1:       \nc1:       b\n");
        assert_eq!(err, "cluster2: bad\ncluster2: worse\n");
        let (out, err) = shown(Form::Group, false, both());
        assert_eq!(out, "==> cluster2 (exit code 1) <==\nx\n==> c1 <==\na\n\nb\n");
        assert_eq!(err, "cluster2: bad\ncluster2: worse\n");
        let (out, _) = shown(Form::Raw, true, both());
        assert_eq!(out, "a\n\nb\nx\n");
        let (out, err) = shown(Form::Json, true, both());
        assert_eq!(
            out.lines().next().unwrap(),
            r#"{"name":"c1","namespace":"fleet","exitCode":0,"stdout":"a\n\nb\n","stderr":"","durationSeconds":1.234}"#
        );
        assert_eq!((out.lines().count(), err.as_str()), (2, ""));
    }

    #[test]
    fn an_order_that_misses_one_still_shows_all() {
        let (out, _) =
            shown(Form::Raw, true, vec![(2, outcome("c", 0, "c", "")), (1, outcome("b", 0, "b", ""))]);
        assert_eq!(out, "b\nc\n");
    }
}
