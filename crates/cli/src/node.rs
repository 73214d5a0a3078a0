//! `hanare node`: the process that lends this host's memory and serves its clients.

use crate::journal;
use crate::prometheus;
use crate::run::children;
use crate::run::signals::{self, Event};
use crate::{log, print, size};
use anyhow::{Context, Result};
use clap::Args;
use hanare::node::{Node, NodeOptions};
use hanare_protocol::wire::greeting::Sealing;
use rustix::process::{Pid, Signal};
use serde_json::json;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

/// Lends this host's memory to a pool and serves its clients.
#[derive(Args, Clone, Debug)]
#[command(
    after_help = "The node that others join is the coordinator: it keeps the names of regions in a journal under HANARE_STATE, so that it may be \
    started again. Nobody gets into a pool without its key, a file of mode 0600: a coordinator that is not given one draws it beside its \
    journal (HANARE_STATE/pool.key), where this user's other nodes on this host find it; copy it to the same place on other hosts. \
    SIGTERM and Ctrl-C end it in good order."
)]
pub struct Options {
    /// Memory to lend.
    #[arg(long, value_name = "SIZE", value_parser = size::parse_some)]
    pub memory: u64,
    /// Address for other nodes and remote clients, host:port; port 0 lets the system choose [default: 127.0.0.1:7411, or with --join 127.0.0.1:0].
    #[arg(long, value_name = "ADDR")]
    pub listen: Option<String>,
    /// Join the pool whose coordinator listens there; without it this node is a coordinator.
    #[arg(long, value_name = "ADDR")]
    pub join: Option<String>,
    /// File with the pool's key [default: HANARE_KEY, else pool.key beside the journal].
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// Seal nothing, where the other side is told so too: whoever is on the wire reads and changes all of it.
    #[arg(long)]
    pub plain: bool,
    /// Name shown in listings [default: the host's name].
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Socket for clients of this host: a path, or @NAME without a file [default: HANARE_NODE, else $XDG_RUNTIME_DIR/hanare/node.sock].
    #[arg(long, value_name = "SOCKET")]
    pub socket: Option<String>,
    /// Serve the status as Prometheus metrics at http://ADDR/metrics.
    #[arg(long, value_name = "ADDR")]
    pub prometheus: Option<String>,
    /// File of mode 0600 with the token that scrapers bring (Authorization: Bearer); needed beyond loopback.
    #[arg(long, value_name = "FILE", requires = "prometheus")]
    pub prometheus_token: Option<PathBuf>,
    /// Print the line that says it is ready (or why not) as JSON.
    #[arg(long)]
    pub json: bool,
    /// Have this number in the pool, where no other node has it.
    #[arg(long, value_name = "NUMBER", hide = true)]
    pub number: Option<u32>,
    /// Belong to the launcher with this process number: keep nothing on disk, and end when it ends.
    #[arg(long, value_name = "PID", hide = true)]
    pub embedded_in: Option<i32>,
}

/// Runs the node until a signal or a failure ends it.
pub fn run(options: &Options) -> Result<i32> {
    let result = start_and_wait(options);
    match &result {
        // The launcher reads one line, whatever comes of it, and tells the user.
        Err(error) if options.json => {
            print::json(&json!({ "error": format!("{error:#}") }))?;
            Ok(1)
        }
        _ => result.map(|()| 0),
    }
}

fn start_and_wait(options: &Options) -> Result<()> {
    let events = signals::catch()?;
    if let Some(launcher) = options.embedded_in.and_then(Pid::from_raw) {
        anyhow::ensure!(children::die_with(launcher, Signal::KILL)?, "the launch was given up");
    }
    // A launcher tells of nodes that come and go by itself.
    log::begin(if options.embedded_in.is_some() { "error" } else { "warn" })?;
    let told = tell_of_end(events)?;
    let Some(node) = start(node_options(options)?, &told)? else {
        let reason = "it was told to end before it was ready";
        if options.json {
            return print::json(&json!({ "error": reason }));
        }
        eprintln!("hanare: {reason}");
        return Ok(());
    };
    if let Some(at) = &options.prometheus {
        prometheus::serve(at, options.prometheus_token.as_deref(), node.socket())?;
    }
    if options.json {
        print::json(&json!({ "node": node.id().0, "address": node.address(), "socket": node.socket() }))?;
    } else {
        let lent = size::show(options.memory);
        let (address, socket) = (node.address(), node.socket());
        print::line(&format!("{} lends {lent} at {address}; programs of this host attach at {socket}", node.id()));
    }
    let stops = node.clone();
    std::thread::Builder::new().name("end".to_owned()).spawn(move || {
        let is_end = |step: &Step| matches!(step, Step::End);
        told.1.iter().find(is_end);
        stops.stop();
    })?;
    Ok(node.wait()?)
}

/// What the main thread waits for while the node starts.
enum Step {
    /// It started, or could not.
    Started(hanare_protocol::Result<Node>),
    /// A signal tells it to end.
    End,
}

/// Passes on the first signal that ends a node.
fn tell_of_end(events: Receiver<Event>) -> Result<(Sender<Step>, Receiver<Step>)> {
    let (sender, steps) = channel();
    let told = sender.clone();
    std::thread::Builder::new().name("told".to_owned()).spawn(move || {
        // The other signals mean nothing to a node.
        let ending = |event: &Event| {
            matches!(event, Event::Signal { signal: Signal::TERM | Signal::INT | Signal::HUP | Signal::QUIT, .. })
        };
        events.iter().find(ending);
        let _ = told.send(Step::End);
    })?;
    Ok((sender, steps))
}

/// Starts the node; `None` where it was told to end before it was ready: it has nothing of anybody's then.
fn start(options: NodeOptions, (sender, steps): &(Sender<Step>, Receiver<Step>)) -> Result<Option<Arc<Node>>> {
    let started = sender.clone();
    let start = move || {
        let _ = started.send(Step::Started(Node::start(options)));
    };
    std::thread::Builder::new().name("start".to_owned()).spawn(start)?;
    match steps.recv()? {
        Step::Started(node) => Ok(Some(Arc::new(node?))),
        Step::End => Ok(None),
    }
}

fn node_options(options: &Options) -> Result<NodeOptions> {
    let mut node = NodeOptions::new(options.memory)?;
    // A coordinator is found by its port; a node that joins tells it where it listens.
    let port = if options.join.is_some() { "127.0.0.1:0" } else { "127.0.0.1:7411" };
    node.listen = options.listen.clone().unwrap_or_else(|| port.to_owned());
    node.join = options.join.clone();
    node.key = options.key.clone().or(node.key);
    if options.plain {
        node.sealing = Sealing::Plain;
    }
    node.name = options.name.clone().unwrap_or(node.name);
    node.number = options.number;
    node.socket = options.socket.clone().unwrap_or(node.socket);
    if options.embedded_in.is_none() {
        make_folder(Path::new(&node.socket).parent().filter(|_| !node.socket.starts_with('@')))?;
        if options.join.is_none() {
            make_folder(Some(&hanare::settings::state_folder()))?;
            node.journal = Some(journal::place());
        }
    }
    Ok(node)
}

/// Makes a folder that only this user may enter.
fn make_folder(folder: Option<&Path>) -> Result<()> {
    let Some(folder) = folder.filter(|folder| !folder.as_os_str().is_empty()) else { return Ok(()) };
    let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.with_context(|| format!("cannot make {}", folder.display()))
}
