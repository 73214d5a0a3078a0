//! The report without the rest of the program: `cargo run -p hanare-model --example report -- FILE.html`, or `--json`.
use std::path::Path;
use std::process::ExitCode;

use hanare_model::report;

fn main() -> ExitCode {
    let Some(out) = std::env::args().nth(1) else {
        eprintln!("usage: report FILE.html | --json");
        return ExitCode::FAILURE;
    };
    let mut progress = |done: usize, total: usize, name: &str| eprintln!("{done:>3} of {total}  {name}");
    let text = if out == "--json" {
        report::json(None, &mut progress)
    } else {
        report::write(Path::new(&out), None, &mut progress).map(|summary| format!("{out}: {summary:?}\n"))
    };
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
