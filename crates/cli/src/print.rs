//! Listings: a table for people, or JSON for programs.

use anyhow::Result;
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use serde_json::Value;
use std::io::{ErrorKind, Write};

/// The status of a program that a closed pipe ended, as a shell shows it: 128 and SIGPIPE.
const CLOSED_PIPE: i32 = 141;

/// Prints text to standard output as it is; styles go where it is no terminal.
///
/// A reader that has seen enough, such as `head`, ends the command without a word.
pub fn text(text: &str) {
    let mut stdout = anstream::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::BrokenPipe => std::process::exit(CLOSED_PIPE),
        Err(error) => {
            eprintln!("hanare: cannot write to standard output: {error}");
            std::process::exit(1);
        }
    }
}

/// Prints text and ends its line.
pub fn line(words: &str) {
    text(&format!("{words}\n"));
}

/// A column of a listing.
#[derive(Clone, Copy)]
pub enum Column {
    /// Text, to the left.
    Text(&'static str),
    /// A number, to the right.
    Number(&'static str),
}

/// Prints rows under their columns' names, without lines, so that it reads well and cuts well.
pub fn table(columns: &[Column], rows: Vec<Vec<String>>) {
    line(&layout(columns, rows));
}

fn layout(columns: &[Column], rows: Vec<Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(columns.iter().map(|column| match column {
        Column::Text(name) | Column::Number(name) => *name,
    }));
    table.add_rows(rows);
    for (column, kind) in table.column_iter_mut().zip(columns) {
        column.set_padding((0, 2));
        if let Column::Number(_) = kind {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

/// Prints one JSON value on one line.
pub fn json(value: &Value) -> Result<()> {
    line(&serde_json::to_string(value)?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_end_and_texts_begin_in_one_column() {
        let rows = vec![vec!["a".to_owned(), "7".to_owned()], vec!["long".to_owned(), "700".to_owned()]];
        let text = layout(&[Column::Text("NAME"), Column::Number("BYTES")], rows);
        assert_eq!(text, "NAME  BYTES\na         7\nlong    700");
    }
}
