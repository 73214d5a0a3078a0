//! Numbers and tables as text for a terminal.
use crate::facts::{Fact, Relation};
use crate::table::{Cell, Table};
use crate::tolerance::Tolerance;

/// A number as a reader wants it: whole numbers whole, others with four significant digits, very small or large ones with an exponent.
pub fn number(value: f64) -> String {
    if !value.is_finite() {
        return if value.is_nan() { "?".to_string() } else { "never".to_string() };
    }
    let size = value.abs();
    if value == value.trunc() && size < 1e12 {
        return format!("{value}");
    }
    if !(1e-4..1e12).contains(&size) {
        return format!("{value:.3e}");
    }
    let whole_digits = if size < 1.0 { 0 } else { size.log10().floor() as usize + 1 };
    let leading_zeros = if size < 1.0 { (-size.log10()).floor() as usize } else { 0 };
    let decimals = (4 + leading_zeros).saturating_sub(whole_digits);
    let text = format!("{value:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_string() } else { text }
}

/// How closely a fact is met, as words: `exactly`, `to 0.5` (in the fact's unit), `to 3 %`; a bound is kept or not.
pub fn closeness(fact: &Fact, tolerance: Tolerance) -> String {
    match (fact.rel, tolerance) {
        (Relation::AtLeast | Relation::AtMost, _) => "as a bound".to_string(),
        (Relation::Range, _) => "as a range".to_string(),
        (_, Tolerance::Exact) => "exactly".to_string(),
        (_, Tolerance::Absolute(distance)) => format!("to {}", number(distance)),
        (_, Tolerance::Relative(share)) => format!("to {} %", number(share * 100.0)),
    }
}

/// A cell as text; an empty one as a dash.
pub fn cell(cell: &Cell) -> String {
    match cell {
        Cell::Number(value) => number(*value),
        Cell::Text(text) => text.clone(),
        Cell::Empty(()) => "-".to_string(),
    }
}

/// A column's head: its name and, in brackets, its unit.
pub fn head(name: &str, unit: &str) -> String {
    if unit.is_empty() { name.to_string() } else { format!("{name} [{unit}]") }
}

/// Whether a column holds numbers, which are aligned at the right.
pub fn is_numeric(table: &Table, column: usize) -> bool {
    table.rows.iter().all(|row| !matches!(row[column], Cell::Text(_)))
}

/// A table with aligned columns, its title above, a newline at the end.
pub fn table(table: &Table) -> String {
    let heads: Vec<String> = table.columns.iter().map(|column| head(&column.name, &column.unit)).collect();
    let rows: Vec<Vec<String>> = table.rows.iter().map(|row| row.iter().map(cell).collect()).collect();
    let is_right: Vec<bool> = (0..heads.len()).map(|column| is_numeric(table, column)).collect();
    format!("{}\n{}", table.title, columns(&heads, &rows, &is_right))
}

/// Aligned columns under underlined heads.
pub fn columns(heads: &[String], rows: &[Vec<String>], is_right: &[bool]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([heads[column].chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..heads.len()).map(width).collect();
    let line = |cells: &[String]| {
        let padded = cells
            .iter()
            .zip(&widths)
            .zip(is_right)
            .map(|((text, width), is_right)| if *is_right { format!("{text:>width$}") } else { format!("{text:<width$}") });
        format!("  {}\n", padded.collect::<Vec<_>>().join("  ")).trim_end().to_string() + "\n"
    };
    let rule: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
    let body: String = rows.iter().map(|row| line(row)).collect();
    line(heads) + &line(&rule) + &body
}

/// Text broken at spaces into lines of at most `width` characters, each after `indent`.
pub fn wrapped(text: &str, indent: &str, width: usize) -> String {
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() && indent.len() + line.chars().count() + 1 + word.chars().count() > width {
            lines.push(format!("{indent}{line}\n"));
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    if !line.is_empty() {
        lines.push(format!("{indent}{line}\n"));
    }
    lines.concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        let shown = [0.0, 1.0, 136865.0, 4.270833, 13.0989, 0.024062, 68559.278, 1e13, 1.5e-7, f64::INFINITY, -2.5].map(number);
        assert_eq!(shown, ["0", "1", "136865", "4.271", "13.1", "0.02406", "68559", "1.000e13", "1.500e-7", "never", "-2.5"]);
    }

    #[test]
    fn numbers_stand_at_the_right() {
        let mut sample = Table::new("times", &[("call", ""), ("time", "us")]);
        sample.row(vec!["read".into(), 4.27.into()]);
        sample.row(vec!["a longer name".into(), Cell::Empty(())]);
        let expected = "times\n  call           time [us]\n  -------------  ---------\n  read                4.27\n  a longer name          -\n";
        assert_eq!(table(&sample), expected);
    }

    #[test]
    fn closeness_follows_the_fact() {
        let words = |key: &str, tolerance| closeness(crate::facts::facts().fact(key), tolerance);
        assert_eq!(words("d2.atdram_loss", Tolerance::Exact), "as a bound");
        assert_eq!(words("d2.t6.t_all.p1", Tolerance::Relative(0.001)), "to 0.1 %");
    }

    #[test]
    fn words_are_never_lost() {
        let text = "one two three four five six seven";
        let lines = wrapped(text, "  ", 14);
        assert!(lines.lines().all(|line| line.len() <= 14), "{lines}");
        assert_eq!(lines.split_whitespace().collect::<Vec<_>>().join(" "), text);
    }
}
