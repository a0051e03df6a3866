//! Everything about one thing, in the look of `kubectl describe`: names and values, two spaces apart, and
//! sections indented by two.

use std::io::{self, Write};

use credential_exec::error::printable;
use unicode_width::UnicodeWidthStr;

use super::columns;

/// A value is shown up to here.
const LONGEST: usize = 1_000;

/// A part of a description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// A name and its values, one a line.
    Field(String, Vec<String>),
    /// A name with parts below it.
    Section(String, Vec<Part>),
    /// A name with rows below it.
    Table(String, Vec<&'static str>, Vec<Vec<String>>),
}

impl Part {
    /// A name with one value; none where it is empty.
    pub fn field(name: &str, value: impl Into<String>) -> Self {
        Self::Field(
            name.to_owned(),
            Some(value.into()).filter(|value| !value.is_empty()).into_iter().collect(),
        )
    }

    fn name(&self) -> &str {
        match self {
            Self::Field(name, _) | Self::Section(name, _) | Self::Table(name, ..) => name,
        }
    }
}

/// Prints the parts.
///
/// # Errors
/// Those of the writer.
pub fn print(parts: &[Part], out: &mut dyn Write) -> io::Result<()> {
    print_at(0, parts, out)
}

fn print_at(indent: usize, parts: &[Part], out: &mut dyn Write) -> io::Result<()> {
    let width = parts.iter().map(|part| printable(part.name()).width()).max().unwrap_or(0) + 3;
    let margin = " ".repeat(indent);
    for part in parts {
        let name = format!("{}:", printable(part.name()));
        let beside = |value: &str| format!("{margin}{name}{}{value}", " ".repeat(width - name.width()));
        match part {
            Part::Field(_, values) => {
                writeln!(
                    out,
                    "{}",
                    beside(&values.first().map_or_else(|| "<none>".to_owned(), |value| shown(value)))
                )?;
                for value in values.iter().skip(1) {
                    writeln!(out, "{margin}{}{}", " ".repeat(width), shown(value))?;
                }
            }
            Part::Section(_, parts) if !parts.is_empty() => {
                writeln!(out, "{margin}{name}")?;
                print_at(indent + 2, parts, out)?;
            }
            Part::Table(_, headers, rows) if !rows.is_empty() => {
                writeln!(out, "{margin}{name}")?;
                let rows: Vec<Vec<String>> =
                    rows.iter().map(|row| row.iter().map(|cell| shown(cell)).collect()).collect();
                let mut table = Vec::new();
                columns::print(headers, &rows, &mut table)?;
                for line in String::from_utf8_lossy(&table).lines() {
                    writeln!(out, "{margin}  {line}")?;
                }
            }
            Part::Section(..) | Part::Table(..) => writeln!(out, "{}", beside("<none>"))?,
        }
    }
    Ok(())
}

/// Safe for a terminal, and not endless.
fn shown(value: &str) -> String {
    match value.char_indices().nth(LONGEST) {
        Some((at, _)) => {
            format!("{}… ({} more characters)", printable(&value[..at]), value[at..].chars().count())
        }
        None => printable(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_aligned_and_what_is_not_there_is_said() {
        let parts = [
            Part::field("Name", "cluster1"),
            Part::field("Display Name", ""),
            Part::Field("Labels".into(), vec!["a=b".into(), "c=\u{1b}[0m".into()]),
            Part::Table(
                "Conditions".into(),
                vec!["Type", "Status"],
                vec![vec!["Joined".into(), "True".into()]],
            ),
            Part::Section(
                "Ways".into(),
                vec![Part::Section("ocm".into(), vec![Part::field("Server", "https://x")])],
            ),
            Part::Section("Contexts".into(), Vec::new()),
        ];
        let mut out = Vec::new();
        print(&parts, &mut out).unwrap();
        insta::assert_snapshot!(String::from_utf8(out).unwrap(), @r#"
        Name:          cluster1
        Display Name:  <none>
        Labels:        a=b
                       c=\u{1b}[0m
        Conditions:
          Type     Status
          Joined   True
        Ways:
          ocm:
            Server:  https://x
        Contexts:      <none>
        "#);
    }

    #[test]
    fn a_megabyte_is_not_printed() {
        let mut out = Vec::new();
        print(&[Part::field("Property", "x".repeat(1 << 20))], &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.len() < 1_100 && text.contains("1047576 more characters"), "{}", text.len());
    }
}
