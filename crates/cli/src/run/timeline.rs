//! One timeline of a job: the ranks' files (`HANARE_TRACE`) become one when the job is over.

use crate::trace;
use std::path::{Path, PathBuf};

/// Joins the timelines of the ranks of a job on this host, which have the launcher's folder, in the file that the setting names. Where ranks
/// name files of their own (`%r`, `%p`) they stay.
///
/// What cannot be joined stays, and a line says why: the job's outcome is its own.
pub fn join(variables: &[(String, String)], ranks: u32) {
    let given = variables.iter().rev().find(|(name, _)| name == SETTING).map(|(_, value)| value.clone());
    let Some(text) = given.or_else(|| std::env::var(SETTING).ok()).filter(|text| !text.is_empty() && !text.contains("%r")) else {
        return;
    };
    let there: Vec<PathBuf> =
        hanare::timeline_files(&text, ranks).unwrap_or_default().into_iter().filter(|file| file.is_file()).collect();
    if there.is_empty() {
        return;
    }
    match trace::join(&there, Path::new(&text)) {
        Ok(()) => there.iter().for_each(|file| drop(std::fs::remove_file(file))),
        Err(error) => eprintln!("hanare: the timelines of the ranks stay apart: {error:#}"),
    }
}

const SETTING: &str = "HANARE_TRACE";
