//! The model command without the rest of the program: `cargo run -p hanare-model --example model -- PAPER [EXPERIMENT] [OPTIONS]`.
use std::process::ExitCode;

use hanare_model::command::{self, Options};

fn main() -> ExitCode {
    match options(std::env::args().skip(1)).and_then(|options| match options {
        Some(options) => command::run(&options).map_err(|error| error.to_string()),
        None => command::list(None, false).map_err(|error| error.to_string()),
    }) {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(line) => {
            eprintln!("{line}");
            ExitCode::FAILURE
        }
    }
}

fn options(mut arguments: impl Iterator<Item = String>) -> Result<Option<Options>, String> {
    let Some(paper) = arguments.next() else { return Ok(None) };
    let mut options = Options { paper, ..Options::default() };
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument}: a value is missing"));
        match argument.as_str() {
            "--set" => options.set.push(value()?),
            "--sweep" => options.sweep = Some(value()?),
            "--network" => options.network = Some(value()?.into()),
            "--plot" => options.plot = Some(value()?.into()),
            "--trace" => options.trace = Some(value()?.into()),
            "--json" => options.json = true,
            _ if options.experiment.is_none() && !argument.starts_with('-') => options.experiment = Some(argument),
            _ => return Err(format!("{argument}: not understood")),
        }
    }
    Ok(Some(options))
}
