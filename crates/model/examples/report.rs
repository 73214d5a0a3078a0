//! The report without the rest of the program: `cargo run -p hanare-model --example report -- FILE.html`, or `--json`.
use std::path::Path;
use std::process::ExitCode;

use hanare_model::report::{self, Made};

fn main() -> ExitCode {
    let Some(out) = std::env::args().nth(1) else {
        eprintln!("usage: report FILE.html | --json");
        return ExitCode::FAILURE;
    };
    let mut progress = |done: usize, total: usize, name: &str| eprintln!("{done:>3} of {total}  {name}");
    let made = Made { date: "an unknown day".to_string(), version: env!("CARGO_PKG_VERSION").to_string(), commit: String::new() };
    let text = report::gather(hanare_model::papers(), &mut progress).and_then(|gathered| match out.as_str() {
        "--json" => Ok(report::json(&gathered, &made)),
        _ => report::write(Path::new(&out), &gathered, &made).map(|summary| format!("{out}: {summary}\n")),
    });
    match text {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
