//! The models are a program of their own, `hanare-models`, so that a build of `hanare` needs none of them.
//!
//! The program is found beside this command and started with a question as JSON on its standard input. It answers on the standard output
//! that both share.

use anyhow::{Context, Result};
use serde::Serialize;
use serde_json::Value;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

/// The program, as it is built and installed.
const PROGRAM: &str = "hanare-models";

/// Words of a command that the models answer.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Question {
    Model(Value),
    Report(Value),
    WhatIf(Value),
}

/// Today, this version, and the commit it was built from.
#[derive(Serialize)]
struct Made {
    date: String,
    version: &'static str,
    commit: &'static str,
}

/// A question, and who asks.
#[derive(Serialize)]
struct Asked {
    made: Made,
    question: Question,
}

/// The program that was built or installed with this command.
pub fn find() -> Result<PathBuf> {
    let own = std::env::current_exe()?;
    let folder = own.parent().unwrap_or(Path::new("/"));
    let places = [folder.join(PROGRAM), folder.join("../lib/hanare").join(PROGRAM)];
    let found = places.into_iter().find(|place| place.is_file());
    found.with_context(|| {
        format!("no {PROGRAM} beside this command: `cargo install {PROGRAM}` puts it there, in the sources `make models`, and packages bring it")
    })
}

/// Has a question answered on standard output, and gives the status of that.
pub fn ask(question: Question) -> Result<i32> {
    let program = find()?;
    let mut child = Command::new(&program).stdin(Stdio::piped()).spawn().with_context(|| program.display().to_string())?;
    let asked = Asked { made: made(), question };
    let input = child.stdin.take().context("standard input is piped")?;
    // A reply to a question that was not read to the end counts, and comes first.
    let sent = serde_json::to_writer(input, &asked);
    let status = child.wait()?;
    if status.success() {
        sent.with_context(|| program.display().to_string())?;
    }
    Ok(status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)))
}

fn made() -> Made {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    Made {
        date: day(seconds / 86_400),
        version: env!("CARGO_PKG_VERSION"),
        commit: option_env!("BUILT_FROM").unwrap_or_default(),
    }
}

/// The date of a day counted from 1 January 1970, as `2026-01-31`: years of March to February, in eras of 400.
fn day(days: u64) -> String {
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::day;

    #[test]
    fn days_have_their_dates() {
        for (days, date) in [(0, "1970-01-01"), (59, "1970-03-01"), (11_016, "2000-02-29"), (20_484, "2026-01-31")] {
            assert_eq!(day(days), date);
        }
    }
}
