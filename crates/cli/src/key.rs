//! `hanare key`: the file that lets hosts into one pool.

use crate::print;
use anyhow::Result;
use hanare::node::{default_key_file, new_key_file};
use std::path::PathBuf;

/// What to do with a key.
#[derive(clap::Subcommand, Clone, Debug)]
pub enum Command {
    /// Draw a key into a file of mode 0600 and print its name; copy it to the pool's other hosts
    New {
        /// The file, which must not exist [default: where this user's nodes look for it].
        file: Option<PathBuf>,
    },
}

/// Does it.
pub fn run(command: Command) -> Result<()> {
    let Command::New { file } = command;
    let file = file.unwrap_or_else(default_key_file);
    new_key_file(&file)?;
    print::line(&file.display().to_string());
    Ok(())
}
