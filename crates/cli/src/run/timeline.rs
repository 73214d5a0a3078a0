//! A job's timeline: the ranks' files (`HANARE_TRACE`) become one when the job is over.

use crate::trace;
use std::path::{Path, PathBuf};

/// Files of a job's ranks that become one timeline, and the setting that names it. Without a name for the whole (`%r`, `%p`) there are
/// none.
fn parts(variables: &[(String, String)], ranks: u32) -> Option<(String, Vec<PathBuf>)> {
    let given = variables.iter().rev().find(|(name, _)| name == SETTING).map(|(_, value)| value.clone());
    let text = given.or_else(|| std::env::var(SETTING).ok()).filter(|text| !text.is_empty() && !text.contains("%r"))?;
    let files = hanare::timeline_files(&text, ranks)?;
    Some((text, files))
}

/// Removes what a job before has left where ranks write their timelines: of a rank that runs nothing it would count as its own.
pub fn clear(variables: &[(String, String)], ranks: u32) {
    for file in parts(variables, ranks).map(|(_, files)| files).unwrap_or_default() {
        let _ = std::fs::remove_file(file);
    }
}

/// Joins the timelines of the ranks of a job on this host, which have the launcher's folder, in the file that the setting names. Where ranks
/// name files of their own (`%r`, `%p`) they stay.
///
/// Joins the parts. Parts that cannot be joined stay, and a line says why: the job's outcome is its own.
pub fn join(variables: &[(String, String)], ranks: u32) {
    let Some((text, files)) = parts(variables, ranks) else { return };
    let there: Vec<PathBuf> = files.into_iter().filter(|file| file.is_file()).collect();
    if there.is_empty() {
        return;
    }
    match trace::join(&there, Path::new(&text)) {
        Ok(()) => there.iter().for_each(|file| drop(std::fs::remove_file(file))),
        Err(error) => eprintln!("hanare: the timelines of the ranks stay apart: {error:#}"),
    }
}

const SETTING: &str = "HANARE_TRACE";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_job_before_has_left_is_no_part_of_this_ones_timeline() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let variables = vec![(SETTING.to_owned(), path("out.json").to_str().unwrap().to_owned())];
        for rank in 0..3 {
            std::fs::write(path(&format!("out.{rank}.json")), format!("[\n{{\"rank\":{rank}}}\n]\n")).unwrap();
        }
        std::fs::write(path("out.json"), "[]").unwrap();
        clear(&variables, 2);
        assert!(!path("out.0.json").exists() && !path("out.1.json").exists());
        assert!(path("out.2.json").exists() && path("out.json").exists(), "of no rank of this job");
        std::fs::write(path("out.0.json"), "[\n{\"rank\":\"new\"}\n]\n").unwrap();
        join(&variables, 2);
        let joined = std::fs::read_to_string(path("out.json")).unwrap();
        assert!(joined.contains("new") && !joined.contains('1'), "{joined}");
    }
}
