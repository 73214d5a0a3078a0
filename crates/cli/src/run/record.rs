//! `--record DIR`: the timeline of every rank in one folder, and beside them what was run on how many nodes.

use anyhow::{Context, Result, ensure};
use serde_json::json;
use std::ffi::OsString;
use std::path::Path;

/// The file that names the run, in its folder. `hanare-models` reads it (`model`, `what_if/recording`).
const RUN_FILE: &str = "run.json";

/// Makes the folder and says which variable has the ranks keep what they do in it. A folder that holds a recording is refused: two
/// runs in one would be read as one.
pub fn begin(folder: &Path, program: &[OsString], nodes: usize, ranks: u32) -> Result<(String, String)> {
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let folder = folder.canonicalize().with_context(|| folder.display().to_string())?;
    let file = folder.join(RUN_FILE);
    ensure!(!file.exists(), "{} holds a recording already; name another folder", folder.display());
    let path = folder.join("rank-%r.json");
    let path = path.to_str().with_context(|| format!("{} is not UTF-8", folder.display()))?.to_owned();
    let program: Vec<_> = program.iter().map(|word| word.to_string_lossy()).collect();
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let made = json!({ "program": program, "nodes": nodes, "ranks": ranks, "host": host });
    std::fs::write(&file, serde_json::to_string_pretty(&made)?).with_context(|| file.display().to_string())?;
    Ok(("HANARE_TRACE".to_owned(), path))
}
