//! Measures this machine for the report, bench by bench: kept after each, so that a run that was stopped goes on.

use super::run_bench;
use anyhow::{Context, Result, bail};
use hanare_bench::report::Verdict;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Measurements for a claim, in the report's form.
#[derive(Clone, Serialize, Deserialize)]
pub struct Measured {
    /// The value with its unit, as one short text.
    value: String,
    /// `reproduced` or `differs`.
    verdict: String,
}

/// Measurements by claim id.
pub type Measurements = BTreeMap<String, Measured>;

/// A bench's results.
#[derive(Serialize, Deserialize)]
struct BenchResults {
    /// Its time.
    seconds: f64,
    claims: Measurements,
}

/// Measurements so far, by bench; only for the version that measured them.
#[derive(Default, Serialize, Deserialize)]
struct Progress {
    version: String,
    benches: BTreeMap<String, BenchResults>,
}

impl Progress {
    /// Results of an earlier run of this version; another version's are not this one's.
    fn read(file: &Path) -> Result<Progress> {
        let fresh = || Progress { version: env!("CARGO_PKG_VERSION").to_owned(), ..Progress::default() };
        let text = match std::fs::read_to_string(file) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(fresh()),
            Err(error) => bail!("{}: {error}", file.display()),
        };
        let kept: Progress = serde_json::from_str(&text)
            .with_context(|| format!("{}: not a record of measurements; remove it or measure with --afresh", file.display()))?;
        Ok(if kept.version == env!("CARGO_PKG_VERSION") { kept } else { fresh() })
    }

    fn write(&self, file: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self)?;
        // Whole or not at all: a run that is killed here must find a record that can be read.
        let beside = file.with_extension("json.new");
        std::fs::write(&beside, text).with_context(|| format!("{}", beside.display()))?;
        std::fs::rename(&beside, file).with_context(|| format!("{}", file.display()))
    }

    fn claims(&self) -> Measurements {
        self.benches.values().flat_map(|kept| kept.claims.clone()).collect()
    }
}

/// The record beside the page: `report.html` has `report.measured.json`.
fn file_beside(page: &Path) -> PathBuf {
    page.with_extension("measured.json")
}

/// Runs every bench that no earlier run has done, and gives all claims. `page` is called after each with all that is known.
pub fn all(out: &Path, afresh: bool, page: &mut dyn FnMut(&Measurements) -> Result<()>) -> Result<Measurements> {
    let file = file_beside(out);
    let mut progress = if afresh {
        Progress { version: env!("CARGO_PKG_VERSION").to_owned(), ..Progress::default() }
    } else {
        Progress::read(&file)?
    };
    page(&progress.claims())?;
    // The package's bench bears on no claim, and needs more than this command.
    let names: Vec<&str> =
        hanare_bench::list().iter().map(|bench| bench.name).filter(|name| *name != hanare_bench::python::NAME).collect();
    let known = names.iter().filter(|name| progress.benches.contains_key(**name)).count();
    if known > 0 {
        eprintln!("{known} of {} benches were measured before ({}); --afresh measures them again", names.len(), file.display());
    }
    for (position, name) in names.iter().enumerate() {
        if progress.benches.contains_key(*name) {
            continue;
        }
        eprintln!("bench {} of {}: {name}{}", position + 1, names.len(), estimate(&progress, &names));
        let started = Instant::now();
        let report = run_bench(name, false, None, None)?;
        let claims = report.claims.into_iter().map(|claim| {
            let verdict = match claim.verdict {
                Verdict::Reproduced => "reproduced",
                Verdict::NotReproduced => "differs",
            };
            (claim.id.to_owned(), Measured { value: claim.value.to_string(), verdict: verdict.to_owned() })
        });
        let kept = BenchResults { seconds: started.elapsed().as_secs_f64(), claims: claims.collect() };
        progress.benches.insert((*name).to_owned(), kept);
        progress.write(&file)?;
        page(&progress.claims())?;
    }
    Ok(progress.claims())
}

/// Estimate of the rest's time, from a bench's time so far; nothing before the first.
fn estimate(progress: &Progress, names: &[&str]) -> String {
    let done = progress.benches.len();
    if done == 0 {
        return ", some minutes a bench".to_owned();
    }
    let mean = progress.benches.values().map(|kept| kept.seconds).sum::<f64>() / done as f64;
    let left = names.iter().filter(|name| !progress.benches.contains_key(**name)).count();
    format!(", about {:.0} min to go", (mean * left as f64 / 60.0).max(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(seconds: f64) -> BenchResults {
        let measured = Measured { value: "1.9x".to_owned(), verdict: "differs".to_owned() };
        BenchResults { seconds, claims: Measurements::from([("D2-C10".to_owned(), measured)]) }
    }

    #[test]
    fn a_record_is_read_back_and_another_versions_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let file = file_beside(&folder.path().join("report.html"));
        assert!(Progress::read(&file).unwrap().benches.is_empty());
        let mut progress = Progress::read(&file).unwrap();
        progress.benches.insert("get".to_owned(), kept(30.0));
        progress.write(&file).unwrap();
        assert_eq!(Progress::read(&file).unwrap().claims()["D2-C10"].value, "1.9x");
        progress.version = "0.0.1".to_owned();
        progress.write(&file).unwrap();
        assert!(Progress::read(&file).unwrap().benches.is_empty());
        std::fs::write(&file, "{").unwrap();
        assert!(Progress::read(&file).err().unwrap().to_string().contains("--afresh"));
    }

    #[test]
    fn the_estimate_counts_what_is_left() {
        let mut progress = Progress::default();
        progress.benches.insert("one".to_owned(), kept(90.0));
        progress.benches.insert("two".to_owned(), kept(150.0));
        assert_eq!(estimate(&progress, &["one", "two", "three", "four", "five"]), ", about 6 min to go");
    }
}
