//! `hanare-models`: what `hanare model`, `hanare report` and `hanare what-if` start.
//!
//! `hanare` has the words, their help and the benches; this program has the models. It reads one [`Asked`] as JSON from standard input,
//! writes the answer to standard output, and ends with a line on standard error where there is none. So a build of `hanare` needs no model.
//!
//! | module | does |
//! |---|---|
//! | [`page`] | the report |
//! | [`predict`] | predictions, and the calibration that they count from |
#![forbid(unsafe_code)]

mod page;
mod predict;

use anyhow::{Context, Result, ensure};
use hanare_model::command;
use hanare_model::report::Made;
use serde::Deserialize;
use std::io::{ErrorKind, Write};
use std::process::ExitCode;

/// The status of a program that a closed pipe ended, as a shell shows it: 128 and SIGPIPE.
const CLOSED_PIPE: u8 = 141;

/// A question, and who asks.
#[derive(Deserialize)]
struct Asked {
    /// The version of `hanare` that asks, its day and its commit.
    made: Made,
    question: Words,
}

/// The words of a command.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Words {
    /// Without a paper, those that there are.
    Model(command::Options),
    Report(page::ReportWords),
    WhatIf(Box<predict::WhatIfWords>),
}

fn main() -> ExitCode {
    if std::env::args_os().len() > 1 {
        eprintln!("hanare-models is started by hanare: see hanare model --help");
        return ExitCode::from(2);
    }
    let answer = match answer() {
        Ok(answer) => answer,
        Err(error) => {
            // The error is one line, whatever it holds.
            let text = format!("{error:#}");
            eprintln!("hanare: {}", text.lines().map(str::trim).collect::<Vec<_>>().join(" "));
            return ExitCode::FAILURE;
        }
    };
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(answer.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        // A reader that has seen enough, such as `head`, ends the command without a word.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => ExitCode::from(CLOSED_PIPE),
        Err(error) => {
            eprintln!("hanare: cannot write to standard output: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Reads the question, and answers it by a text for standard output.
fn answer() -> Result<String> {
    let asked: serde_json::Value = serde_json::from_reader(std::io::stdin().lock()).context("hanare-models: no question")?;
    let (version, own) = (asked["made"]["version"].as_str().unwrap_or_default(), env!("CARGO_PKG_VERSION"));
    ensure!(version == own, "hanare is of version {version} and hanare-models beside it of {own}; install both anew");
    let Asked { made, question } = serde_json::from_value(asked).context("hanare-models: another question than it knows")?;
    match question {
        Words::Model(words) if words.paper.is_empty() => Ok(command::list(None, words.json)?),
        Words::Model(words) => Ok(command::run(&words)?),
        Words::Report(words) => words.answer(&made),
        Words::WhatIf(words) => words.answer(&made),
    }
}
