//! `hanare nbd`: a region as a disk, by nbdkit and our plugin.

mod port;

use crate::run::signals::{self, Event};
use crate::size;
use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use hanare::{CreateOptions, Error, Pool};
use port::Port;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::ffi::{OsStr, OsString};
use std::io::{ErrorKind, IsTerminal};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

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
    /// Nodes that hold each of its bytes, 1 to 3, where it is made: from 2 on the disk outlives a node.
    #[arg(long, value_name = "N", requires = "create", value_parser = size::copies())]
    pub copies: Option<u8>,
    /// Let nobody write.
    #[arg(short = 'r', long)]
    pub read_only: bool,
    /// Unix socket to serve at [default: nbd-NAME.sock in the folder of the node's socket].
    #[arg(long, value_name = "PATH", conflicts_with = "port")]
    pub socket: Option<PathBuf>,
    /// TCP port to serve at, on loopback, to programs of this user and of root.
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,
    /// Let every user of this host read and write the region by that port.
    #[arg(long, requires = "port")]
    pub anyone: bool,
    /// A command to run in a shell while it is served, with $uri.
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// The file of the plugin, as it is built.
const BUILT: &str = "libnbdkit_hanare_plugin.so";

/// The same, as nbdkit's folder of plugins has it.
const INSTALLED: &str = "nbdkit/plugins/nbdkit-hanare-plugin.so";

/// Time between two looks whether nbdkit has begun: it tells nobody.
const LOOK: Duration = Duration::from_millis(10);

/// Time for a command to end by itself after its disk has gone.
const GRACE: Duration = Duration::from_secs(10);

/// Becomes nbdkit, or has it serve while a command runs.
///
/// FEATURE: D3-F19
pub fn run(options: &Options) -> Result<i32> {
    // A fault of the region is reported first.
    find_or_make(options)?;
    if let Some(port) = options.port {
        return run_at_port(options, port);
    }
    let mut nbdkit = nbdkit(options);
    if options.command.is_empty() {
        let place = ServedAt::of(options)?;
        if options.socket.is_none() {
            println!("serving {} at {}", options.name, place.uri());
        }
        place.tell(&mut nbdkit);
        tell_region(&mut nbdkit, options);
        return Err(not_run(&nbdkit.exec()));
    }
    let folder = tempfile::tempdir().context("cannot make a folder for a socket")?;
    let place = match options.socket {
        None => ServedAt::Socket(folder.path().join("socket")),
        Some(_) => ServedAt::of(options)?,
    };
    place.tell(&mut nbdkit);
    let begun = folder.path().join("begun");
    nbdkit.arg("--exit-with-parent").arg("-P").arg(&begun);
    tell_region(&mut nbdkit, options);
    let events = signals::catch()?;
    let mut server = nbdkit.spawn().map_err(|error| not_run(&error))?;
    // The server writes this file when connections are taken in.
    while !begun.exists() {
        if let Some(ended) = server.try_wait()? {
            bail!("nbdkit ended with {ended}");
        }
        std::thread::sleep(LOOK);
    }
    let status = Accompanied::start(options, &place)?.accompany(Some(&mut server), &events)?;
    end(&server, Signal::TERM);
    server.wait()?;
    Ok(code(status))
}

/// Looks for the region, and makes it where that is wanted.
fn find_or_make(options: &Options) -> Result<()> {
    let pool = Pool::attach_alone()?;
    let copies = options.copies.unwrap_or(1);
    if let Some(len) = options.create {
        match pool.create(&options.name, len, &CreateOptions { copies, ..CreateOptions::default() }) {
            Err(Error::NameTaken { .. }) => {}
            made => return made.map(drop).map_err(Into::into),
        }
    }
    let there = pool.stat(&options.name)?.copies;
    if options.copies.is_some() && there != copies {
        bail!(
            "region '{}' is there, and {there} of the nodes hold each of its bytes; leave --copies out, or take another name",
            options.name
        );
    }
    Ok(())
}

/// The same at a TCP port, where each connection has an nbdkit of its own.
fn run_at_port(options: &Options, number: u16) -> Result<i32> {
    let (port, place) = (Port::open(number, options.anyone)?, ServedAt::Port(number));
    let each = options.clone();
    let serve = move || {
        port.serve(|| {
            let mut nbdkit = nbdkit(&each);
            nbdkit.args(["-s", "--exit-with-parent"]);
            tell_region(&mut nbdkit, &each);
            nbdkit
        })
    };
    if options.command.is_empty() {
        return serve().map(|()| 0);
    }
    let events = signals::catch()?;
    let server = std::thread::Builder::new().name("port".to_owned()).spawn(serve)?;
    let status = Accompanied::start(options, &place)?.accompany(None, &events)?;
    match server.is_finished().then(|| server.join()) {
        Some(Ok(Err(error))) => Err(error),
        _ => Ok(code(status)),
    }
}

/// nbdkit, in the foreground.
fn nbdkit(options: &Options) -> Command {
    let mut nbdkit = Command::new("nbdkit");
    nbdkit.arg("-f");
    if options.read_only {
        nbdkit.arg("-r");
    }
    nbdkit
}

fn code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

/// A command, and whether its process group is its own.
struct Accompanied {
    process: Child,
    is_apart: bool,
}

impl Accompanied {
    /// Starts it. A group apart would get nothing of the terminal, so a command that reads from one stays in ours.
    fn start(options: &Options, place: &ServedAt) -> Result<Accompanied> {
        let mut command = Command::new("sh");
        place.name(command.arg("-c").arg(shell_line(&options.command)));
        let is_apart = !std::io::stdin().is_terminal();
        if is_apart {
            command.process_group(0);
        }
        Ok(Accompanied { process: command.spawn().context("cannot run sh")?, is_apart })
    }

    /// Waits for its end, and passes signals on to it. Without its disk it is ended: it could wait for that without bound.
    fn accompany(&mut self, mut server: Option<&mut Child>, events: &Receiver<Event>) -> Result<ExitStatus> {
        let mut lost = None;
        loop {
            if let Some(status) = self.process.try_wait()? {
                return Ok(status);
            }
            match lost {
                None => {
                    if let Some(server) = server.as_mut()
                        && let Some(ended) = server.try_wait()?
                    {
                        eprintln!("hanare: nbdkit ended with {ended}; ending the command");
                        lost = Some(Instant::now());
                        self.end_all(Signal::TERM);
                    }
                }
                Some(since) if since.elapsed() > GRACE => self.signal(Signal::KILL),
                Some(_) => {}
            }
            // Both may have ended before their signals were caught.
            match events.recv_timeout(Duration::from_secs(1)) {
                // The terminal told its own group already.
                Ok(Event::Signal { signal, from_terminal })
                    if (self.is_apart || !from_terminal) && [Signal::INT, Signal::TERM, Signal::HUP].contains(&signal) =>
                {
                    self.signal(signal);
                }
                _ => {}
            }
        }
    }

    /// Signals its group, where that is its own, else its shell.
    fn signal(&self, signal: Signal) {
        if self.is_apart {
            // The process may have ended already.
            let _ = kill_process_group(Pid::from_child(&self.process), signal);
        } else {
            end(&self.process, signal);
        }
    }

    /// Signals all that it started: its group, or ours where we lead it, as the terminal would. Nobody else's group is touched.
    fn end_all(&self, signal: Signal) {
        let own = rustix::process::getpid();
        if !self.is_apart && rustix::process::getpgrp() == own {
            let _ = kill_process_group(own, signal);
        } else {
            self.signal(signal);
        }
    }
}

/// Sends a signal to a child that was not waited for.
fn end(child: &Child, signal: Signal) {
    // The process may have ended already.
    let _ = kill_process(Pid::from_child(child), signal);
}

fn not_run(error: &std::io::Error) -> anyhow::Error {
    match error.kind() {
        ErrorKind::NotFound => anyhow!("no nbdkit: install it (Debian: apt install nbdkit), then run this again"),
        _ => anyhow!("cannot run nbdkit: {error}"),
    }
}

/// The plugin, and the region that it serves.
fn tell_region(nbdkit: &mut Command, options: &Options) {
    nbdkit.arg(plugin()).arg(format!("region={}", options.name));
}

/// Address of the device.
enum ServedAt {
    Socket(PathBuf),
    Port(u16),
}

impl ServedAt {
    /// The socket that was asked for, or one beside that of the node.
    fn of(options: &Options) -> Result<ServedAt> {
        match &options.socket {
            Some(socket) => Ok(ServedAt::Socket(std::path::absolute(socket)?)),
            None => {
                let folder = hanare::settings::runtime_folder();
                std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
                Ok(ServedAt::Socket(folder.join(format!("nbd-{}.sock", options.name))))
            }
        }
    }

    fn tell(&self, nbdkit: &mut Command) {
        if let ServedAt::Socket(socket) = self {
            nbdkit.arg("-U").arg(socket);
        }
    }

    fn uri(&self) -> String {
        match self {
            ServedAt::Socket(socket) => format!("nbd+unix:///?socket={}", socket.display()),
            ServedAt::Port(port) => format!("nbd://127.0.0.1:{port}"),
        }
    }

    /// The variables that nbdkit's own option for commands has.
    fn name(&self, command: &mut Command) {
        let (socket, port, old) = match self {
            ServedAt::Socket(socket) => (socket.clone(), String::new(), format!("nbd:unix:{}", socket.display())),
            ServedAt::Port(port) => (PathBuf::new(), port.to_string(), format!("nbd:127.0.0.1:{port}")),
        };
        command.env("uri", self.uri()).env("unixsocket", socket).env("port", port).env("nbd", old).env("exportname", "");
    }
}

/// The plugin that was built or installed with this command; else that of nbdkit's own folder.
fn plugin() -> OsString {
    let own = std::env::current_exe().unwrap_or_default();
    let folder = own.parent().unwrap_or(Path::new("/"));
    let places = [folder.join(BUILT), folder.join("deps").join(BUILT), folder.join("../lib").join(INSTALLED)];
    places.into_iter().find(|place| place.is_file()).map_or_else(|| OsString::from("hanare"), PathBuf::into_os_string)
}

/// A single word is a line for the shell as it is. Several are quoted so that only variables mean something.
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
