//! `hanare mount`: the pool as a folder.

use crate::run::signals::{self, Event};
use crate::{log, print, size, users};
use anyhow::{Context, Result, anyhow};
use clap::{Args, ValueEnum};
use hanare::Pool;
use hanare_disk::files::{self, MountOptions};
use rustix::process::Signal;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Command;

/// Makes the pool a folder: files that programs use unchanged, and that other hosts may mount at the same time.
#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Without a command it stays until Ctrl-C, SIGTERM or umount. With one it runs the command, unmounts, and gives its status. \
    What a program wrote is seen on other hosts when the file is synced or closed here and opened there (or a second later); -o coherent \
    shows every write at once. Regions are files too, in the folder itself. An ordinary user needs fusermount3 (package fuse3)."
)]
pub struct Options {
    /// The folder.
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    /// Name of the file system in the pool; it is made where it is not there [default: files, or files-UID for other users than root].
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Nodes that hold each byte of a file system that is made, 1 to 3: from 2 on its files outlive a node.
    #[arg(long, value_name = "N", value_parser = size::copies())]
    pub copies: Option<u8>,
    /// Mount regions of this user, too, by name or number; programs get no rights by files then. May be given again.
    #[arg(long, value_name = "USER", value_parser = users::parse)]
    pub trust: Vec<u32>,
    /// coherent: every host sees each write at once. ro: nothing may be changed.
    #[arg(short = 'o', value_name = "OPTION", value_delimiter = ',')]
    pub options: Vec<Word>,
    /// A command to run while it is mounted.
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// A word behind `-o`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Word {
    /// Every host sees each write at once.
    Coherent,
    /// Nothing may be changed.
    Ro,
}

/// Mounts, and stays until it is unmounted or the command has ended.
pub fn run(options: &Options) -> Result<i32> {
    let events = signals::catch()?;
    // The kernel connection's words on an unmount by somebody else are of no use, nor those on a call that was interrupted before its
    // reply.
    log::begin("warn,fuser=error,fuser::reply=off", false)?;
    let pool = Pool::attach_alone()?;
    let has = |word| options.options.contains(&word);
    let words = MountOptions {
        name: options.name.clone(),
        copies: options.copies,
        trusted: options.trust.clone(),
        is_coherent: has(Word::Coherent),
        is_read_only: has(Word::Ro),
    };
    let folder = std::path::absolute(&options.folder)?;
    let mounted = files::mount(&pool, &folder, &words).map_err(|error| match error {
        hanare::Error::NotTrusted { .. } => anyhow!("{error}; or give another --name"),
        hanare::Error::NoPermission { .. } => {
            anyhow!("{error}; give another --name, or have that user or root remove the region")
        }
        other => other.into(),
    })?;
    let unmounter = mounted.unmounter();
    let (program, words) = match options.command.split_first() {
        Some(parts) => parts,
        None => {
            print::line(&format!("files at {}; Ctrl-C or umount ends it", folder.display()));
            std::thread::Builder::new().name("end".to_owned()).spawn(move || {
                let is_end = |event: &Event| {
                    matches!(event, Event::Signal { signal, .. } if [Signal::INT, Signal::TERM, Signal::HUP].contains(signal))
                };
                if events.iter().any(|event| is_end(&event)) {
                    unmounter.unmount();
                }
            })?;
            mounted.wait()?;
            return Ok(0);
        }
    };
    let status = Command::new(program).args(words).status();
    unmounter.unmount();
    mounted.wait()?;
    let status = status.with_context(|| format!("cannot run {}", program.to_string_lossy()))?;
    Ok(status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)))
}
