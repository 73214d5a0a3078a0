//! `hanare journal`: what a coordinator that was stopped has written.

use crate::print;
use anyhow::{Context, Result};
use clap::Subcommand;
use hanare::node::read_journal;
use hanare_protocol::coordinator::Record;
use std::path::{Path, PathBuf};

/// What to do with a journal.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Read every record and say whether all are as they were written
    Check {
        /// The journal [default: the one under HANARE_STATE].
        file: Option<PathBuf>,
    },
    /// Print every record as a line of JSON
    Export {
        /// The journal [default: the one under HANARE_STATE].
        file: Option<PathBuf>,
    },
}

/// Runs the command. Its coordinator must have ended: a journal belongs to one process at a time.
pub fn run(command: &Command) -> Result<()> {
    match command {
        Command::Check { file } => {
            let (path, records) = read(file.as_deref())?;
            print::line(&format!("{}: {} records, all as they were written", path.display(), records.len()));
        }
        Command::Export { file } => {
            for record in read(file.as_deref())?.1 {
                print::line(&serde_json::to_string(&record)?);
            }
        }
    }
    Ok(())
}

/// The place of a node's journal. The host's name is in it, because hosts may share a home.
pub fn place() -> PathBuf {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    hanare::settings::state_folder().join(format!("journal-{host}.redb"))
}

/// The place of a keeper's file.
pub fn keepers_place(name: &str) -> PathBuf {
    hanare::settings::state_folder().join(format!("keeper-{name}.redb"))
}

fn read(file: Option<&Path>) -> Result<(PathBuf, Vec<Record>)> {
    let path = file.map_or_else(place, Path::to_owned);
    std::fs::metadata(&path).with_context(|| format!("no journal at {}", path.display()))?;
    let records = read_journal(&path)?;
    Ok((path, records))
}
