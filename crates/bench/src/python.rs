//! Calls of the package `hanare`, beside what others in Python need for the same. It is `python -m hanare.bench` of an interpreter that has
//! it.

use crate::Options;
use crate::report::{Better, Report, Row};
use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The bench's name.
pub const NAME: &str = "python";

/// The variable that names the interpreter.
const INTERPRETER: &str = "HANARE_PYTHON";

/// Output of the package's bench.
#[derive(Debug, Deserialize)]
struct Printed {
    rows: Vec<PrintedRow>,
}

#[derive(Debug, Deserialize)]
struct PrintedRow {
    case: String,
    value: f64,
    unit: String,
    peer: Option<String>,
    peer_value: Option<f64>,
    peer_missing: Option<String>,
    goal: Option<f64>,
}

/// Runs it.
pub fn run(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Report> {
    measure(&interpreter(std::env::var_os(INTERPRETER), options), options, progress)
}

fn measure(python: &Path, options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Report> {
    let has_package = Command::new(python).args(["-c", "import hanare.bench"]).stdin(Stdio::null()).output();
    let advice = format!("install the package (`pip install .`), or name an interpreter that has it by {INTERPRETER}");
    let has_package = has_package.with_context(|| format!("{} cannot be started: {advice}", python.display()))?;
    let said = String::from_utf8_lossy(&has_package.stderr);
    let reason = said.trim().lines().last().unwrap_or_default();
    ensure!(has_package.status.success(), "{} has no package hanare: {advice} ({reason})", python.display());
    progress("python -m hanare.bench");
    let mut command = Command::new(python);
    command.args(["-m", "hanare.bench", "--json"]).args(options.quick.then_some("--quick"));
    command.stdin(Stdio::null()).stderr(Stdio::inherit());
    let ended = command.output().with_context(|| format!("{} cannot be started", python.display()))?;
    ensure!(ended.status.success(), "`{} -m hanare.bench` ended with {}", python.display(), ended.status);
    read(&String::from_utf8_lossy(&ended.stdout))
}

/// The interpreter that is named, that beside the command, or that of the search path.
fn interpreter(named: Option<OsString>, options: &Options) -> PathBuf {
    let named = named.filter(|value| !value.is_empty()).map(PathBuf::from);
    let beside = || Some(options.command.parent()?.join("python3")).filter(|path| path.is_file());
    named.or_else(beside).unwrap_or_else(|| PathBuf::from("python3"))
}

/// Reads what the package printed.
fn read(printed: &str) -> Result<Report> {
    let printed: Printed = serde_json::from_str(printed.trim()).context("the package printed no results")?;
    let mut report = Report::new(NAME);
    for row in printed.rows {
        ensure!(row.unit == "us", "a row of the package is in {}, not in us", row.unit);
        let ours = Row::alone(row.case, row.value, "us", Better::Lower);
        report.rows.push(match (row.peer, row.peer_value, row.peer_missing) {
            (Some(peer), Some(value), _) => ours.beside(peer, value, row.goal),
            (Some(peer), None, Some(reason)) => ours.missing(&peer, &reason, row.goal),
            _ => ours,
        });
    }
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_the_package_are_rows_of_the_report() {
        let printed = r#"{"bench": "python", "rows": [
            {"case": "a", "value": 2.0, "unit": "us", "better": "lower", "peer": "redis-py", "peer_value": 5.0, "ratio": 2.5, "goal": 3, "met": false},
            {"case": "b", "value": 2.0, "unit": "us", "better": "lower", "peer": "lmdb", "peer_missing": "pip install lmdb", "goal": 1},
            {"case": "c", "value": 2.0, "unit": "us", "better": "lower"}], "claims": []}"#;
        let report = read(printed).unwrap();
        assert_eq!(report.rows[0], Row::alone("a", 2.0, "us", Better::Lower).beside("redis-py", 5.0, Some(3.0)));
        assert!(report.rows[0].is_below());
        assert_eq!(report.rows[1].beside.as_ref().unwrap().peer, "lmdb (missing: pip install lmdb)");
        assert_eq!(report.rows[2].beside, None);
        assert!(read("Traceback").is_err());
    }

    #[test]
    fn an_interpreter_beside_the_command_comes_before_the_search_path() {
        let folder = tempfile::tempdir().unwrap();
        let options = Options { command: folder.path().join("hanare"), ..Options::here() };
        std::fs::write(folder.path().join("python3"), "").unwrap();
        assert_eq!(interpreter(None, &options), folder.path().join("python3"));
        assert_eq!(interpreter(Some("python3.13".into()), &options), PathBuf::from("python3.13"));
        assert!(measure(&folder.path().join("python3"), &options, &mut |_| {}).unwrap_err().to_string().contains("pip install"));
    }
}
