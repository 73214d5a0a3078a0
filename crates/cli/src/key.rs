//! `hanare key`: the file that lets hosts into one pool.

use crate::print;
use anyhow::Result;
use hanare::node::{default_key_file, drop_old_keys, new_key_file, rotate_key_file};
use std::path::{Path, PathBuf};

/// What to do with a key.
#[derive(clap::Subcommand, Clone, Debug)]
pub enum Command {
    /// Draw a key into a file of mode 0600 and print its name; copy it to the pool's other hosts
    New {
        /// The file, which must not exist [default: where this user's nodes look for it].
        file: Option<PathBuf>,
    },
    /// Put a new key before the old one in a file: nodes that have the file take both within a second, and go on
    #[command(
        after_help = "To replace a pool's key while it runs: `hanare key rotate` on one host, copy the file over that of each other host, and when \
        all have it `hanare key drop-old` on each. Nodes prove a key that both sides have. Connections that are there go on, also those of a \
        host that did not get the new key: its node has to be stopped to shut it out."
    )]
    Rotate {
        /// The file [default: where this user's nodes look for it].
        file: Option<PathBuf>,
    },
    /// Drop all keys of a file but the newest: who has only an old one gets in no more
    DropOld {
        /// The file [default: where this user's nodes look for it].
        file: Option<PathBuf>,
    },
}

/// Does it.
pub fn run(command: Command) -> Result<()> {
    let (change, file): (fn(&Path) -> hanare::Result<()>, _) = match command {
        Command::New { file } => (new_key_file, file),
        Command::Rotate { file } => (rotate_key_file, file),
        Command::DropOld { file } => (drop_old_keys, file),
    };
    let file = file.unwrap_or_else(default_key_file);
    change(&file)?;
    print::line(&file.display().to_string());
    Ok(())
}
