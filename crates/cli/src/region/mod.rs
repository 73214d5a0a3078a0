//! `hanare region`: named ranges of pool memory.

mod copy;
mod listing;
pub mod npy;

use crate::size;
use anyhow::Result;
use clap::{Args, Subcommand};
use hanare::{CreateOptions, Pool};
use hanare_protocol::place::Placement;

pub use copy::{CopyOptions, load, save};

/// Creates, lists, describes, resizes, removes and copies regions.
#[derive(Subcommand, Clone, Debug)]
pub enum Command {
    /// Create a region.
    Create(CreateArguments),
    /// List the regions.
    Ls {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Describe one region.
    Stat {
        /// The region.
        name: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Make a region longer.
    Resize {
        /// The region.
        name: String,
        /// Its length from now on.
        #[arg(value_parser = size::parse_some)]
        size: u64,
    },
    /// Remove regions; programs that have one mapped keep their mapping.
    Rm {
        /// The regions.
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
    },
    /// Copy between regions, .npy files and raw files.
    Cp(CopyOptions),
}

/// What a new region is to be.
#[derive(Args, Clone, Debug)]
pub struct CreateArguments {
    /// Its name: up to 255 bytes, as a file's.
    pub name: String,
    /// Its length: bytes, or 64K, 2GiB ...
    #[arg(value_parser = size::parse_some)]
    pub size: u64,
    #[command(flatten)]
    pub place: PlaceArguments,
}

/// Where a new region goes, and who may use it.
#[derive(Args, Clone, Debug)]
pub struct PlaceArguments {
    /// Where its bytes go: local, node=K, or interleave=CHUNK over all nodes.
    #[arg(long, value_name = "PLACE", default_value = "local", value_parser = size::placement)]
    pub place: Placement,
    /// Who may read and write it, as a file's mode.
    #[arg(long, default_value = "0600", value_parser = mode)]
    pub mode: u32,
}

impl PlaceArguments {
    /// In the words of the library.
    pub fn options(&self) -> CreateOptions {
        CreateOptions { placement: self.place, mode: self.mode }
    }
}

fn mode(text: &str) -> Result<u32, String> {
    match u32::from_str_radix(text, 8) {
        Ok(mode) if mode & !0o666 == 0 => Ok(mode),
        _ => Err("write the bits for reading and writing in octal, as in 0600 or 0644".to_owned()),
    }
}

/// Does what was asked.
pub fn run(command: &Command) -> Result<()> {
    let pool = Pool::attach_alone()?;
    match command {
        Command::Create(new) => {
            pool.create(&new.name, new.size, &new.place.options())?;
        }
        Command::Ls { json } => listing::list(&pool.list()?, *json)?,
        Command::Stat { name, json } => {
            let (region, pages) = (pool.stat(name)?, pool.page_stats()?);
            listing::describe(&region, pages.iter().find(|stat| stat.gid == region.gid), *json)?;
        }
        Command::Resize { name, size } => {
            pool.resize(name, *size)?;
        }
        Command::Rm { names } => names.iter().try_for_each(|name| pool.remove(name))?,
        Command::Cp(options) => copy::run(&pool, options)?,
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_has_only_bits_for_reading_and_writing() {
        assert_eq!(mode("0644"), Ok(0o644));
        assert_eq!(mode("600"), Ok(0o600));
        assert!(mode("0755").is_err() && mode("8").is_err() && mode("").is_err());
    }
}
