//! Completions and man pages, from the one definition of the command.

use crate::arguments;
use crate::print;
use anyhow::{Context, Result};
use clap_complete::Shell;
use std::path::Path;

/// Writes a shell's completions to standard output.
pub fn completions(shell: Shell) {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut arguments::command(), "hanare", &mut text);
    print::text(&String::from_utf8_lossy(&text));
}

/// Writes `hanare.1` and a page for each subcommand into a folder, which is made where it is missing.
pub fn pages(folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    clap_mangen::generate_to(arguments::command().disable_help_subcommand(true), folder)
        .with_context(|| format!("cannot write man pages into {}", folder.display()))
}
