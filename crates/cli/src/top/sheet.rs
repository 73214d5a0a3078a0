//! A table that is sorted by any of its columns, and filtered by a word.

use crate::print::Column;
use hanare::Gid;
use std::cmp::Ordering;

/// A cell: its text, and its number where it has one.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// Shown form.
    pub text: String,
    /// Sorting key.
    pub number: Option<f64>,
}

impl Cell {
    /// Text, which is sorted as such.
    pub fn text(text: impl Into<String>) -> Cell {
        Cell { text: text.into(), number: None }
    }

    /// A number as it is.
    pub fn count(number: u64) -> Cell {
        Cell { text: short(number as f64, 1000.0), number: Some(number as f64) }
    }

    /// A number that is shown in full.
    pub fn number(number: u64) -> Cell {
        Cell { text: number.to_string(), number: Some(number as f64) }
    }

    /// Bytes.
    pub fn bytes(bytes: f64) -> Cell {
        Cell { text: short(bytes, 1024.0), number: Some(bytes) }
    }

    /// A number a second; unknown before the second sample.
    pub fn rate(rate: Option<f64>) -> Cell {
        match rate {
            Some(rate) => Cell { text: short(rate, 1000.0), number: Some(rate) },
            None => Cell { text: "-".to_owned(), number: None },
        }
    }
}

/// A number in at most five characters: `999`, `1.2K`, `34M`.
fn short(number: f64, step: f64) -> String {
    let mut rest = number;
    for suffix in ["", "K", "M", "G", "T"] {
        if rest < 999.5 {
            return match suffix {
                "" => format!("{rest:.0}"),
                _ if rest < 9.95 => format!("{rest:.1}{suffix}"),
                _ => format!("{rest:.0}{suffix}"),
            };
        }
        rest /= step;
    }
    format!("{rest:.0}P")
}

/// Subject of a row, for a closer look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A region.
    Region(Gid),
    /// A job, as rows name it.
    Job(String),
}

/// A row.
#[derive(Clone, Debug, PartialEq)]
pub struct SheetRow {
    /// Its cells, as many as there are columns.
    pub cells: Vec<Cell>,
    /// Subject of a closer look.
    pub target: Option<Target>,
}

/// A table.
#[derive(Clone, Debug)]
pub struct Sheet {
    /// Names of columns, their widths, and whether they are numbers.
    pub heads: &'static [Head],
    /// The rows.
    pub rows: Vec<SheetRow>,
}

/// A column's head.
#[derive(Clone, Copy, Debug)]
pub struct Head {
    /// Its name.
    pub name: &'static str,
    /// Width on a screen in characters; text takes the rest.
    pub width: u16,
    /// True if it is to the right.
    pub is_number: bool,
}

/// Order of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Order {
    /// Sorting column; `None` for the order in which they came.
    pub column: Option<usize>,
    /// The other way round.
    pub reversed: bool,
}

impl Sheet {
    /// The columns of a listing.
    pub fn columns(&self) -> Vec<Column> {
        let column = |head: &Head| if head.is_number { Column::Number(head.name) } else { Column::Text(head.name) };
        self.heads.iter().map(column).collect()
    }

    /// The texts of all cells.
    pub fn texts(&self) -> Vec<Vec<String>> {
        self.rows.iter().map(|row| row.cells.iter().map(|cell| cell.text.clone()).collect()).collect()
    }

    /// Keeps the rows of which a cell has the word in it, whatever its case, and orders them.
    pub fn arrange(&mut self, word: &str, order: Order) {
        let word = word.to_lowercase();
        self.rows.retain(|row| row.cells.iter().any(|cell| cell.text.to_lowercase().contains(&word)));
        if let Some(column) = order.column.filter(|column| *column < self.heads.len()) {
            self.rows.sort_by(|a, b| compare(&a.cells[column], &b.cells[column]));
        }
        if order.reversed {
            self.rows.reverse();
        }
    }
}

/// Numbers by size, the largest first; text by letters; numbers before text.
fn compare(a: &Cell, b: &Cell) -> Ordering {
    match (a.number, b.number) {
        (Some(a), Some(b)) => b.total_cmp(&a),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => a.text.cmp(&b.text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADS: &[Head] =
        &[Head { name: "NAME", width: 8, is_number: false }, Head { name: "COUNT", width: 5, is_number: true }];

    fn sheet() -> Sheet {
        let row = |name: &str, count| SheetRow { cells: vec![Cell::text(name), Cell::count(count)], target: None };
        Sheet { heads: HEADS, rows: vec![row("beta", 9), row("Alpha", 1_200), row("gamma", 100)] }
    }

    fn names(word: &str, order: Order) -> Vec<String> {
        let mut sheet = sheet();
        sheet.arrange(word, order);
        sheet.texts().into_iter().map(|mut row| row.swap_remove(0)).collect()
    }

    #[test]
    fn rows_are_sorted_by_size_or_letters_and_filtered_by_a_word() {
        let by = |column, reversed| Order { column, reversed };
        assert_eq!(names("", Order::default()), ["beta", "Alpha", "gamma"]);
        assert_eq!(names("", by(Some(0), false)), ["Alpha", "beta", "gamma"]);
        assert_eq!(names("", by(Some(1), false)), ["Alpha", "gamma", "beta"], "9 < 100 < 1.2K");
        assert_eq!(names("", by(Some(1), true)), ["beta", "gamma", "Alpha"]);
        assert_eq!(names("ALPHA", Order::default()), ["Alpha"]);
        assert_eq!(names("1.2k", Order::default()), ["Alpha"]);
        assert!(names("delta", Order::default()).is_empty());
    }

    #[test]
    fn numbers_are_short() {
        let counts = [0, 999, 1_000, 9_940, 34_000_000, u64::MAX].map(|count| Cell::count(count).text);
        assert_eq!(counts, ["0", "999", "1.0K", "9.9K", "34M", "18447P"]);
        assert_eq!(Cell::bytes(16_777_216.0).text, "16M");
        assert_eq!((Cell::rate(None).text, Cell::rate(Some(1500.0)).text), ("-".to_owned(), "1.5K".to_owned()));
    }
}
