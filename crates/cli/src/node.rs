//! `hanare node`: the process that lends this host's memory and serves its clients.

use crate::drain;
use crate::journal;
use crate::notify;
use crate::prometheus;
use crate::run::children;
use crate::run::signals::{self, Event};
use crate::{log, print, size};
use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use hanare::node::{FormerJournal, HostTerms, KeepFree, Node, NodeOptions, Persist, SocketAccess, Source};
use hanare::{Huge, NodeId, Pool};
use hanare_protocol::numa::NumaWish;
use hanare_protocol::wire::greeting::Sealing;
use rustix::fs::{MemfdFlags, Mode, fchmod, memfd_create};
use rustix::process::{Pid, Signal};
use serde_json::json;
use std::fs::DirBuilder;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, ToSocketAddrs, UdpSocket};
use std::num::NonZero;
use std::os::fd::IntoRawFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// Port of a coordinator that names no other.
const PORT: u16 = 7411;

/// Lends this host's memory to a pool and serves its clients.
#[derive(Args, Clone, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "The node that others join is the coordinator: it keeps the names of regions in a journal under HANARE_STATE, so that it may be \
    started again. Nobody gets into a pool without its key, a file of mode 0600: a coordinator that is not given one draws it beside its \
    journal (HANARE_STATE/pool.key), where this user's other nodes on this host find it; copy it to the same place on other hosts. \
    SIGTERM and Ctrl-C end it in good order; the bytes of regions go with it, unless --persist keeps them."
)]
pub struct Options {
    /// What to do with nodes of the pool; without it, be one.
    #[command(subcommand)]
    pub other: Option<Other>,
    /// Memory to lend: the most that regions here have. It is taken from the machine as they are made. A keeper may lend 0.
    #[arg(long, required = true, value_name = "SIZE", value_parser = size::parse, default_value = "1", hide_default_value = true)]
    pub memory: u64,
    /// NUMA nodes of this host to lend from, as 0 or 0,2-3, or all. Memory is bound to one; of several it comes in turn, page by page.
    #[arg(long, value_name = "N[,N...]", value_parser = numa, conflicts_with = "dax")]
    pub numa: Option<NumaWish>,
    /// Lend the first bytes of a DAX device, or of a file, which is wiped: /dev/daxX.Y, or a file of mode 0600. Programs reach it by commands, and have no pointers to it.
    #[arg(long, value_name = "PATH")]
    pub dax: Option<PathBuf>,
    /// Huge pages: auto takes reserved ones, else those that the kernel joins; never takes small ones, which coherent mappings need [default: HANARE_HUGE, else auto].
    #[arg(long, value_name = "WISH", value_parser = huge)]
    pub huge: Option<Huge>,
    /// Memory to take from the machine at the start, so that the first regions come sooner.
    #[arg(long, value_name = "SIZE", value_parser = size::parse, default_value = "32M")]
    pub prefault: u64,
    /// Memory of this host, and of the control group, that stays free for others. Where less is free, memory goes back to the host and regions move to other nodes; 0 for never [default: HANARE_KEEP_FREE, else a thirty-second part, 1GiB at most].
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub keep_free: Option<u64>,
    /// Bytes a second that this node sends to copies that are made and by drains, as 200MiB. Commands are not counted [default: HANARE_COPY_RATE, else no bound].
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub copy_rate: Option<u64>,
    /// Threads that move the bytes of links, where several move many: sealing and copies then use as many processors [default: HANARE_NODE_THREADS, else a quarter of the processors].
    #[arg(long, value_name = "K", value_parser = threads)]
    pub threads: Option<NonZero<usize>>,
    /// Address for other nodes and remote clients, host:port; port 0 lets the system choose [default: 127.0.0.1:7411; with --join the address by which this host reaches ADDR, and any port].
    #[arg(long, value_name = "ADDR")]
    pub listen: Option<String>,
    /// Join the pool whose coordinator listens there, host or host:port [port: 7411]; without it this node is a coordinator.
    #[arg(long, value_name = "ADDR")]
    pub join: Option<String>,
    /// Keep the pool's names at these nodes together, three or five, host or host:port [port: 7411]. Every node of the pool gets the same list. One of those in the list is the coordinator, and another follows when it is lost.
    #[arg(long, value_name = "A,B,C", value_delimiter = ',', conflicts_with = "join")]
    pub keepers: Vec<String>,
    /// Begin the keepers' names with a journal: that of the coordinator that this node was before the pool had keepers [without FILE: the one under HANARE_STATE]. All other keepers are given --keepers alone. Once the keepers have begun, it does nothing.
    #[arg(long, value_name = "FILE", requires = "keepers")]
    pub from_journal: Option<Option<PathBuf>>,
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
    /// Write all regions' bytes on this node to DIR at a good end (SIGTERM, Ctrl-C), and read them at the start.
    #[arg(long, value_name = "DIR")]
    pub persist: Option<PathBuf>,
    /// Write them every so many seconds, too: after a bad end the start has those of then.
    #[arg(long, value_name = "SECONDS", requires = "persist", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub persist_every: Option<u64>,
    /// At SIGTERM move what the node holds to other nodes first, for SECONDS at most [without a number: 300]. Another signal ends it at once.
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "300", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub drain_on_term: Option<u64>,
    /// Who may connect to the socket file, as a file's mode; 0666 lets all users of this host in. Regions have modes of their own.
    #[arg(long, value_name = "MODE", value_parser = socket_mode)]
    pub socket_mode: Option<u32>,
    /// Group of the socket file: a name, or a number.
    #[arg(long, value_name = "GROUP", value_parser = group)]
    pub socket_group: Option<u32>,
    /// Write what the node has to say as lines of JSON.
    #[arg(long)]
    pub log_json: bool,
    /// Serve metrics at http://ADDR/metrics, and /healthz and /readyz.
    #[arg(long, value_name = "ADDR")]
    pub prometheus: Option<String>,
    /// File of mode 0600 with the token that scrapers bring (Authorization: Bearer); needed beyond loopback.
    #[arg(long, value_name = "FILE", requires = "prometheus")]
    pub prometheus_token: Option<PathBuf>,
    /// Print the line that says it is ready (or why not) as JSON.
    #[arg(long)]
    pub json: bool,
    /// File with the bytes that this node and free memory have together, for tests.
    #[arg(long, value_name = "FILE", hide = true)]
    pub host_memory: Option<PathBuf>,
    /// Have this number in the pool, where no other node has it.
    #[arg(long, value_name = "NUMBER", hide = true)]
    pub number: Option<u32>,
    /// Belong to the launcher with this process number: keep nothing on disk, and end when it ends.
    #[arg(long, value_name = "PID", hide = true)]
    pub embedded_in: Option<i32>,
}

/// What is done with nodes of the pool.
#[derive(Subcommand, Clone, Debug)]
pub enum Other {
    /// Take a node that does not come back out of the list: bytes that it could have brought back are lost
    Rm {
        /// Its number, as `hanare status` shows it.
        number: u32,
    },
    /// Move what a node holds to other nodes while programs use it, so that the node may end
    Drain(drain::Options),
}

/// Runs the node until a signal or a failure ends it.
pub fn run(options: &Options) -> Result<i32> {
    match &options.other {
        Some(Other::Rm { number }) => return Ok(Pool::attach_alone()?.forget_node(NodeId(*number)).map(|()| 0)?),
        Some(Other::Drain(options)) => return drain::run(options),
        None => {}
    }
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
    hanare::node::keep_freed_memory();
    if let Some(launcher) = options.embedded_in.and_then(Pid::from_raw) {
        anyhow::ensure!(children::die_with(launcher, Signal::KILL)?, "the launch was given up");
    }
    // A launcher tells of nodes that come and go by itself.
    log::begin(if options.embedded_in.is_some() { "error" } else { "warn" }, options.log_json)?;
    let told = tell_of_end(events)?;
    let started = start(node_options(options)?, &told).map_err(|error| tell_of_the_running_node(error, options));
    let Some(node) = started? else {
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
    notify::tell("READY=1");
    let socket = node.socket().to_owned();
    notify::watch(move || Pool::attach_as(&socket, None, None).is_ok())?;
    let (stops, says_so, drains) = (node.clone(), !options.json, options.drain_on_term.map(Duration::from_secs));
    std::thread::Builder::new().name("end".to_owned()).spawn(move || {
        let first = told.1.iter().find_map(|step| if let Step::End(signal) = step { Some(signal) } else { None });
        notify::tell("STOPPING=1");
        if let Some(limit) = drains.filter(|_| first == Some(Signal::TERM)) {
            let is_told_again = |pause| matches!(told.1.recv_timeout(pause), Ok(Step::End(_)));
            if let Err(error) = drain::before_end(stops.socket(), limit, is_told_again) {
                eprintln!("hanare: {} ends with what it holds: {error:#}", stops.id());
            }
        }
        if says_so && holds_nothing(&stops) {
            print::line(&format!("{} ends; it holds no region", stops.id()));
        }
        stops.stop();
    })?;
    Ok(node.wait()?)
}

/// True if no region has bytes on the node.
fn holds_nothing(node: &Node) -> bool {
    let own = Pool::attach_as(node.socket(), None, None).and_then(|pool| pool.own_status());
    own.is_ok_and(|status| status.regions == 0)
}

/// Event that the main thread waits for while the node starts.
enum Step {
    /// Started, or the error.
    Started(hanare_protocol::Result<Node>),
    /// A signal tells it to end.
    End(Signal),
}

/// Passes on the signals that end a node.
fn tell_of_end(events: Receiver<Event>) -> Result<(Sender<Step>, Receiver<Step>)> {
    let (sender, steps) = channel();
    let told = sender.clone();
    std::thread::Builder::new().name("told".to_owned()).spawn(move || {
        // The other signals mean nothing to a node.
        let ending = |event: Event| match event {
            Event::Signal { signal: signal @ (Signal::TERM | Signal::INT | Signal::HUP | Signal::QUIT), .. } => Some(signal),
            _ => None,
        };
        events.iter().filter_map(ending).try_for_each(|signal| told.send(Step::End(signal))).ok();
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
        Step::End(_) => Ok(None),
    }
}

/// Names the node of this user that runs already, where this one could not start for it.
fn tell_of_the_running_node(error: anyhow::Error, options: &Options) -> anyhow::Error {
    let text = format!("{error:#}");
    let is_taken = ["in use", "already", "writes"].iter().any(|word| text.contains(word));
    let running = (is_taken && options.embedded_in.is_none()).then(Pool::attach_alone).and_then(Result::ok);
    let Some((own, status)) = running.and_then(|pool| Some((pool.node(), pool.status().ok()?))) else { return error };
    match status.nodes.iter().find(|node| node.node == own) {
        Some(node) => {
            error.context(format!("{own} of this user runs already, at {}: programs attach to it as they are", node.address))
        }
        None => error,
    }
}

fn node_options(options: &Options) -> Result<NodeOptions> {
    let mut node = NodeOptions::new(options.memory)?;
    // A coordinator is found by its port; a node that joins tells it where it listens.
    node.join = options.join.as_deref().map(with_port);
    node.keepers = options.keepers.iter().map(|keeper| with_port(keeper)).collect();
    node.listen = match (&options.listen, node.join.as_ref().or(node.keepers.first())) {
        (Some(listen), _) => listen.clone(),
        (None, None) => format!("127.0.0.1:{PORT}"),
        (None, Some(join)) => format!("{}:0", local_address(join).unwrap_or_else(|| "127.0.0.1".to_owned())),
    };
    // A keeper knows itself in the list by the address that others are told: as it was written, not as the system resolves it.
    let listed = node.keepers.iter().find(|keeper| **keeper == node.listen);
    node.advertise = node.advertise.or_else(|| listed.cloned());
    if options.embedded_in.is_none() {
        node.ahead = options.prefault.min(options.memory);
    }
    node.source = match (&options.dax, &options.numa) {
        (Some(path), _) => Source::Dax(path.clone()),
        (None, wish) => Source::Memory(wish.clone()),
    };
    node.huge = options.huge.unwrap_or(node.huge);
    node.promises = Some(hanare::settings::memory_folder());
    node.host = HostTerms {
        keep_free: options.keep_free.map_or(node.host.keep_free, KeepFree::Bytes),
        told: options.host_memory.clone(),
    };
    node.copy_rate = options.copy_rate.map_or(Ok(node.copy_rate), hanare::settings::copy_rate)?;
    node.threads = options.threads.unwrap_or(node.threads);
    node.access = SocketAccess { mode: options.socket_mode, group: options.socket_group };
    node.key = options.key.clone().or(node.key);
    if options.plain {
        node.sealing = Sealing::Plain;
    }
    node.name = options.name.clone().unwrap_or(node.name);
    let named = options.from_journal.clone().flatten();
    let former = FormerJournal { path: named.unwrap_or_else(journal::place), is_wanted: options.from_journal.is_some() };
    node.former_journal = Some(former).filter(|former| former.is_wanted || options.embedded_in.is_none());
    let every = options.persist_every.map(Duration::from_secs);
    node.persist = options.persist.clone().map(|folder| Persist { folder, every });
    node.number = options.number;
    node.socket = options.socket.clone().unwrap_or(node.socket);
    if options.embedded_in.is_none() {
        let is_shared = node.access != SocketAccess::default();
        make_folder(
            Path::new(&node.socket).parent().filter(|_| !node.socket.starts_with('@')),
            if is_shared { 0o711 } else { 0o700 },
        )?;
        if options.join.is_none() {
            make_folder(Some(&hanare::settings::state_folder()), 0o700)?;
            node.journal = Some(if node.keepers.is_empty() { journal::place() } else { journal::keepers_place(&node.name) });
        }
    } else if !node.keepers.is_empty() {
        node.journal = Some(file_in_memory()?);
    }
    Ok(node)
}

/// A keeper's file that goes with this process, which never begins again.
fn file_in_memory() -> Result<PathBuf> {
    let file = memfd_create("hanare-keeper", MemfdFlags::CLOEXEC).context("cannot make a file for the keeper")?;
    fchmod(&file, Mode::RUSR | Mode::WUSR)?;
    Ok(PathBuf::from(format!("/proc/self/fd/{}", file.into_raw_fd())))
}

/// An address with the usual port where it has none.
pub fn with_port(address: &str) -> String {
    let has_port = address
        .rsplit_once(':')
        .is_some_and(|(host, port)| port.parse::<u16>().is_ok() && (!host.contains(':') || host.ends_with(']')));
    match address {
        _ if has_port => address.to_owned(),
        _ if address.contains(':') && !address.starts_with('[') => format!("[{address}]:{PORT}"),
        _ => format!("{address}:{PORT}"),
    }
}

/// Address of this host towards another: the kernel's choice for a datagram, which is not sent.
fn local_address(to: &str) -> Option<String> {
    let to = to.to_socket_addrs().ok()?.next()?;
    let any: IpAddr = if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect(to).ok()?;
    let ip = socket.local_addr().ok()?.ip();
    Some(if ip.is_ipv6() { format!("[{ip}]") } else { ip.to_string() })
}

fn threads(text: &str) -> Result<NonZero<usize>, String> {
    let count = text.parse().ok().and_then(hanare::settings::threads_of);
    count.ok_or_else(|| format!("write a number from 1 to {}", hanare_protocol::limits::NODE_THREAD_COUNT_MAX))
}

fn numa(text: &str) -> Result<NumaWish, String> {
    text.parse()
}

fn huge(text: &str) -> Result<Huge, String> {
    match text {
        "auto" => Ok(Huge::Auto),
        "never" => Ok(Huge::Never),
        _ => Err("write auto or never".to_owned()),
    }
}

fn socket_mode(text: &str) -> Result<u32, String> {
    match u32::from_str_radix(text, 8) {
        Ok(mode) if mode & !0o777 == 0 => Ok(mode),
        _ => Err("write a file's mode in octal, as in 0660 or 0666".to_owned()),
    }
}

fn group(text: &str) -> Result<u32, String> {
    if let Ok(number) = text.parse() {
        return Ok(number);
    }
    let groups = std::fs::read_to_string("/etc/group").unwrap_or_default();
    let mut lines = groups.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let found = lines.find(|line| line.first() == Some(&text)).and_then(|line| line.get(2)?.parse().ok());
    found.ok_or_else(|| format!("/etc/group has no group '{text}'; a number is taken, too"))
}

/// Makes a folder of that mode, if it is not there.
fn make_folder(folder: Option<&Path>, mode: u32) -> Result<()> {
    let Some(folder) = folder.filter(|folder| !folder.as_os_str().is_empty()) else { return Ok(()) };
    let made = DirBuilder::new().recursive(true).mode(mode).create(folder);
    made.with_context(|| format!("cannot make {}", folder.display()))?;
    // Its name is known, and may be below /tmp: whoever made it first has the socket and the key in it.
    if folder == hanare::settings::runtime_folder() {
        hanare::settings::check_folder(folder)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_without_a_port_gets_the_usual_one() {
        for (given, means) in [
            ("10.0.0.1", "10.0.0.1:7411"),
            ("alpha", "alpha:7411"),
            ("alpha:80", "alpha:80"),
            ("::1", "[::1]:7411"),
            ("[::1]", "[::1]:7411"),
            ("[::1]:80", "[::1]:80"),
        ] {
            assert_eq!(with_port(given), means);
        }
    }

    #[test]
    fn a_node_that_joins_listens_where_it_reaches_the_coordinator() {
        assert_eq!(local_address("127.0.0.1:7411").as_deref(), Some("127.0.0.1"));
        assert_eq!(local_address("no host"), None);
    }

    #[test]
    fn modes_and_groups_are_read() {
        assert_eq!((socket_mode("0660"), group("0")), (Ok(0o660), Ok(0)));
        assert!(socket_mode("1777").is_err() && socket_mode("rw").is_err() && group("no such group").is_err());
    }
}
