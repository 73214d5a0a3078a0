//! `hanare nbd`: a region as a disk, by nbdkit and our plugin.

use crate::size;
use anyhow::{Context, Result, bail};
use clap::Args;
use hanare::Pool;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Makes a region a network block device: nbdkit serves it, for qemu, libnbd and every other NBD client.
#[derive(Args, Clone, Debug)]
#[command(
    after_help = "It runs nbdkit (Debian: package nbdkit) in the foreground. With a command it runs that in a shell where $uri is the device, \
    and ends with it: hanare nbd NAME -- nbdinfo '$uri'. For TLS and filters start nbdkit yourself: nbdkit --filter=cow hanare NAME."
)]
pub struct Options {
    /// The region.
    pub name: String,
    /// Make it so long where it is not there.
    #[arg(long, value_name = "SIZE", value_parser = size::parse_some)]
    pub create: Option<u64>,
    /// Let nobody write.
    #[arg(short = 'r', long)]
    pub read_only: bool,
    /// Unix socket to serve at [default: nbd-NAME.sock in the folder of the node's socket].
    #[arg(long, value_name = "PATH", conflicts_with = "port")]
    pub socket: Option<PathBuf>,
    /// TCP port to serve at, on loopback.
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,
    /// A command to run in a shell while it is served, with $uri.
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// The file of the plugin, as it is built.
const BUILT: &str = "libnbdkit_hanare_plugin.so";

/// The same, as nbdkit's folder of plugins has it.
const INSTALLED: &str = "nbdkit/plugins/nbdkit-hanare-plugin.so";

/// Becomes nbdkit.
pub fn run(options: &Options) -> Result<i32> {
    if options.create.is_none() {
        // nbdkit starts the command before it opens the region: what is wrong with that is said first.
        Pool::attach_alone()?.stat(&options.name)?;
    }
    let mut nbdkit = Command::new("nbdkit");
    nbdkit.arg("-f");
    if options.read_only {
        nbdkit.arg("-r");
    }
    match (&options.socket, options.port) {
        (Some(socket), _) => drop(nbdkit.arg("-U").arg(std::path::absolute(socket)?)),
        (None, Some(port)) => drop(nbdkit.args(["-i", "127.0.0.1", "-p", &port.to_string()])),
        (None, None) if !options.command.is_empty() => drop(nbdkit.args(["-U", "-"])),
        (None, None) => {
            let folder = hanare::settings::runtime_folder();
            std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
            let socket = folder.join(format!("nbd-{}.sock", options.name));
            println!("serving {} at nbd+unix:///?socket={}", options.name, socket.display());
            nbdkit.arg("-U").arg(socket);
        }
    }
    if !options.command.is_empty() {
        nbdkit.arg("--run").arg(shell_line(&options.command));
    }
    nbdkit.arg(plugin()).arg(format!("region={}", options.name));
    nbdkit.args(options.create.map(|len| format!("size={len}")));
    let error = nbdkit.exec();
    if error.kind() == std::io::ErrorKind::NotFound {
        bail!("no nbdkit: install it (Debian: apt install nbdkit), then run this again");
    }
    Err(error).context("cannot run nbdkit")
}

/// The plugin that was built or installed with this command; else that of nbdkit's own folder.
fn plugin() -> OsString {
    let own = std::env::current_exe().unwrap_or_default();
    let folder = own.parent().unwrap_or(Path::new("/"));
    let places = [folder.join(BUILT), folder.join("deps").join(BUILT), folder.join("../lib").join(INSTALLED)];
    places.into_iter().find(|place| place.is_file()).map_or_else(|| OsString::from("hanare"), PathBuf::into_os_string)
}

/// One word is a line for the shell as it is. Several are quoted so that only variables mean something.
fn shell_line(words: &[OsString]) -> OsString {
    if let [line] = words {
        return line.clone();
    }
    let mut line = OsString::new();
    for word in words {
        line.push(if line.is_empty() { "\"" } else { " \"" });
        for part in word.to_string_lossy().chars() {
            if matches!(part, '"' | '\\' | '`') {
                line.push("\\");
            }
            line.push(OsStr::new(&part.to_string()));
        }
        line.push("\"");
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_reach_the_shell_as_they_are_but_for_variables() {
        let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        assert_eq!(shell_line(&words(&["nbdinfo $uri | wc"])), "nbdinfo $uri | wc");
        let line = shell_line(&words(&["printf", "%s|", "a b", "\"q\"", "`x`", "\\", "$uri"]));
        let out = Command::new("sh").arg("-c").arg(line).env("uri", "nbd://").output().unwrap();
        assert_eq!(String::from_utf8(out.stdout).unwrap(), "a b|\"q\"|`x`|\\|nbd://|");
    }
}
