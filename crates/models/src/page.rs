//! The report: a page or its numbers, with what `hanare` measured for it.

use anyhow::Result;
use hanare_model::report::{self, Made, Measurements};
use serde::Deserialize;
use std::io::IsTerminal;
use std::path::PathBuf;

/// The words of `hanare report`.
#[derive(Deserialize)]
pub struct ReportWords {
    out: PathBuf,
    json: bool,
    /// Measured claims; none where nothing was measured.
    measured: Option<Measurements>,
    /// True if more will be measured: the page is written, and nothing is said.
    goes_on: bool,
}

impl ReportWords {
    /// Writes the page, or gives its numbers.
    pub fn answer(&self, made: &Made) -> Result<String> {
        let is_shown = std::io::stderr().is_terminal() && !self.goes_on;
        let mut progress = |done: usize, count: usize, what: &str| {
            if is_shown {
                // The line is written over, and cleared at the end.
                let line = if done < count { format!("{done} of {count}  {what}") } else { String::new() };
                eprint!("\r\x1b[K{line}");
            }
        };
        let mut gathered = report::gather(hanare_model::papers(), &mut progress)?;
        if let Some(measured) = &self.measured {
            gathered = gathered.measured(measured)?;
        }
        if self.json {
            return Ok(report::json(&gathered, made));
        }
        let summary = report::write(&self.out, &gathered, made)?;
        Ok(if self.goes_on { String::new() } else { format!("{}: {summary}\n", self.out.display()) })
    }
}
