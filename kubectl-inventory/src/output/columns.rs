//! A short list in kubectl's look: left-aligned columns three spaces apart, nothing after the last cell.

use std::io::{self, Write};

use credential_exec::error::printable;
use unicode_width::UnicodeWidthStr;

const GAP: usize = 3;

/// Prints the headers and the rows, each as long as the headers.
///
/// # Errors
/// Those of the writer.
pub fn print(headers: &[&str], rows: &[Vec<String>], out: &mut dyn Write) -> io::Result<()> {
    let headers: Vec<String> = headers.iter().map(|&header| header.to_owned()).collect();
    let rows: Vec<Vec<String>> = std::iter::once(&headers)
        .chain(rows)
        .map(|row| row.iter().map(|cell| printable(cell)).collect())
        .collect();
    let width = |column: usize| rows.iter().map(|row| row[column].width()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..headers.len()).map(width).collect();
    for row in &rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            line.push_str(cell);
            line.extend(std::iter::repeat_n(' ', width + GAP - cell.width()));
        }
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell_and_lines_end_with_text() {
        let mut out = Vec::new();
        let row = |a: &str, b: &str| vec![a.to_owned(), b.to_owned()];
        print(&["A", "B"], &[row("wide", "x"), row("é", "a\u{1b}")], &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "A      B\nwide   x\né      a\\u{1b}\n");
    }
}
