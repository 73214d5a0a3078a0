//! Tuned loops over local memory of the same pages, and DuckDB on local data. They are the measure for remote memory.

use super::program::{self, Compiled};
use super::session::Session;
use crate::Options;
use crate::turns::{Contestant, Figures};
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};

/// The loops' name in rows.
pub const LOOP_NAME: &str = "tuned local loop";

/// A contestant that runs `local_loop KIND PAGES WORDS...`, compiled for this processor.
pub fn local_loop<'a>(compiled: &Compiled, kind: &str, pages: &str, words: &[String]) -> Contestant<'a> {
    let start = || -> Result<Session> {
        let program = compiled.build("cc", "local_loop", &["-march=native"])?;
        Session::start(&program, &[&[kind.to_owned(), pages.to_owned()], words].concat(), &[])
    };
    Contestant::peer(LOOP_NAME, start().map(|mut session| move || -> Result<Figures> { session.turn() }))
}

/// A contestant that scans `len` bytes with DuckDB, where Python has it.
pub fn duckdb<'a>(options: &Options, len: u64) -> Contestant<'a> {
    let start = |script: &PathBuf| -> Result<(String, Session)> {
        ensure!(script.is_file(), "{} is not there; run this in the folder of the sources", script.display());
        let script = script.to_str().context("the folder's name is no text")?;
        let version = program::run(Path::new("python3"), &[script, "version"], &[])?;
        Ok((version, Session::start(Path::new("python3"), &[script.to_owned(), len.to_string()], &[])?))
    };
    let (name, session) = match start(&options.peers.join("duckdb_scan.py")) {
        Ok((version, session)) => (format!("DuckDB {}, all CPUs, local", version.trim()), Ok(session)),
        Err(error) => ("DuckDB".to_owned(), Err(error)),
    };
    Contestant::peer(&name, session.map(|mut session| move || -> Result<Figures> { session.turn() }))
}
