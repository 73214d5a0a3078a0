//! Tables that a reader understands without the paper.
use serde::Serialize;

/// A table with named columns.
#[derive(Clone, Debug, Serialize)]
pub struct Table {
    /// What it holds.
    pub title: String,
    /// The columns.
    pub columns: Vec<Column>,
    /// The rows, each as long as `columns`.
    pub rows: Vec<Vec<Cell>>,
}

/// The head of a column.
#[derive(Clone, Debug, Serialize)]
pub struct Column {
    /// What it holds.
    pub name: String,
    /// The unit of its numbers; empty for words and ratios without one.
    pub unit: String,
}

impl Table {
    /// An empty table; columns as (name, unit).
    pub fn new(title: impl Into<String>, columns: &[(&str, &str)]) -> Table {
        let columns = columns.iter().map(|(name, unit)| Column { name: (*name).to_string(), unit: (*unit).to_string() });
        Table { title: title.into(), columns: columns.collect(), rows: Vec::new() }
    }

    /// Adds a row; a row of another length than the columns is a defect of the model and panics.
    pub fn row(&mut self, cells: Vec<Cell>) {
        assert_eq!(cells.len(), self.columns.len(), "a row of table {:?} has the wrong length", self.title);
        self.rows.push(cells);
    }
}

/// One entry of a table.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Cell {
    /// A number in the column's unit.
    Number(f64),
    /// Words.
    Text(String),
    /// Nothing to show.
    Empty(()),
}

impl From<f64> for Cell {
    fn from(number: f64) -> Cell {
        Cell::Number(number)
    }
}

impl From<u64> for Cell {
    fn from(number: u64) -> Cell {
        Cell::Number(number as f64)
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Cell {
        Cell::Text(text.to_string())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Cell {
        Cell::Text(text)
    }
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(option: Option<T>) -> Cell {
        option.map_or(Cell::Empty(()), Into::into)
    }
}
