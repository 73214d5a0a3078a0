//! `hanare run`: programs as ranks of a job, on the running pool or on one of their own.
//!
//! | file | holds |
//! |---|---|
//! | [`guard`] | the outer process, which cleans up when the inner one is killed |
//! | [`nodes`] | the nodes of a pool that lives as long as the launch |
//! | [`job`] | the ranks from start to end, wherever they run |
//! | [`ranks`] | those of this host |
//! | [`hosts`] | those of other hosts, reached by ssh |
//! | [`link`], [`frame_writer`] | messages of launcher and deputy, and their way out of the deputy |
//! | [`rank`] | how a rank's process becomes the user's program |
//! | [`output`] | its output, line by line |
//! | [`end_reporter`] | tells the pool of ranks that ended |
//! | [`main_memory`] | programs whose large memory lies in the pool |
//! | [`record`] | keeps what ranks do, for `hanare what-if` |
//! | [`timeline`] | one timeline of all ranks |
//! | [`verdict`] | the table at the end of a job that failed |
//! | [`sharing`] | the line about pages that went to and fro between ranks |
//! | [`scratch`] | where UCX keeps shared memory of a launch |
//! | [`children`], [`signals`] | ended processes and signals, as values and events |

pub mod children;
mod end_reporter;
mod frame_writer;
pub mod guard;
pub mod hosts;
pub mod job;
pub mod link;
pub mod main_memory;
pub mod nodes;
mod output;
pub mod rank;
mod ranks;
mod record;
mod scratch;
mod sharing;
pub mod signals;
mod timeline;
mod verdict;

use crate::fabric;
use crate::size;
use anyhow::{Context, Result, bail};
use clap::Args;
use hanare::Pool;
use hanare_protocol::Error;
use hanare_protocol::limits::RANK_COUNT_MAX;
use hosts::Hosts;
use hosts::list::List;
use nodes::Nodes;
use rustix::process::Pid;
use signals::Event;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender};

/// Memory that a node of an embedded pool lends unless told otherwise: enough to try things, little enough for any laptop.
pub const MEMORY_DEFAULT: u64 = 512 << 20;

/// Runs a program as the ranks of a job, on the running pool or on one started for it.
#[derive(Args, Clone, Debug)]
#[command(
    after_help = "A pool of its own is started where no node answers at HANARE_NODE or the default socket, or where --nodes is given; it ends with \
    the job. Ranks are placed round robin over its nodes. A rank that fails ends the job, and its status is the command's: 128 + N for signal N.\n\n\
    With --hosts or --hostfile each host gets a node of such a pool and a block of the ranks. It is reached by ssh without questions (HANARE_SSH \
    holds another command, as ssh -p 2222), needs the same build of hanare, and the folder that this command is run in; HANARE_... variables \
    go there too. A host file has a host on each line, as Open MPI and MPICH read it: host, host slots=N or host:N."
)]
pub struct Options {
    /// Start a pool of N nodes on this machine; they treat each other as strangers.
    #[arg(long, value_name = "N")]
    pub nodes: Option<u32>,
    /// Start a pool of one node on each of these hosts, by ssh, and run the ranks there.
    #[arg(long, value_name = "A,B:SLOTS,...", conflicts_with_all = ["nodes", "hostfile"])]
    pub hosts: Option<String>,
    /// The same with hosts from a file.
    #[arg(long, value_name = "FILE", conflicts_with = "nodes")]
    pub hostfile: Option<PathBuf>,
    /// How many ranks to run [default: one a node, or one for each slot of the hosts].
    #[arg(short = 'n', long = "ranks", value_name = "RANKS", value_parser = clap::value_parser!(u32).range(1..=i64::from(RANK_COUNT_MAX)))]
    pub ranks: Option<u32>,
    /// Memory that each node of the started pool lends [default: 512MiB].
    #[arg(long, value_name = "SIZE", value_parser = size::parse_some)]
    pub memory: Option<u64>,
    /// What moves bytes between hosts [default: ucx where all have RDMA, else tcp].
    #[arg(long, value_name = "FABRIC", value_parser = fabric::parser())]
    pub fabric: Option<String>,
    /// Seal nothing between the hosts: whoever is on the wire reads and changes all of it.
    #[arg(long)]
    pub plain: bool,
    /// Have N nodes hold each byte of what ranks create, 1 to 3, where a rank does not say.
    #[arg(long, value_name = "N", value_parser = size::copies())]
    pub copies: Option<u8>,
    /// Let large memory of the program live on other nodes, with at most SIZE of it here at a time.
    #[arg(long, value_name = "SIZE", value_parser = size::parse_some, conflicts_with_all = ["hosts", "hostfile"])]
    pub main_memory: Option<u64>,
    /// Keep what each rank does in this folder, for `hanare what-if --trace DIR`.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["hosts", "hostfile"])]
    pub record: Option<PathBuf>,
    /// Set a variable for the ranks, on other hosts too; without a value it is this command's own. May be repeated.
    #[arg(short = 'x', long = "env", value_name = "VAR[=VALUE]", value_parser = variable)]
    pub variables: Vec<(String, String)>,
    /// The program and its arguments; `--` may stand before it.
    #[arg(trailing_var_arg = true, required = true, value_name = "PROGRAM")]
    pub program: Vec<OsString>,
}

/// Reads `VAR=VALUE`, or `VAR` as it is set here.
fn variable(text: &str) -> Result<(String, String), String> {
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, value.to_owned()),
        None => match std::env::var(text) {
            Ok(value) => (text, value),
            Err(std::env::VarError::NotPresent) => return Err(format!("{text} is not set here; write {text}=VALUE")),
            Err(std::env::VarError::NotUnicode(_)) => return Err(format!("the value of {text} is not UTF-8")),
        },
    };
    match name.is_empty() || name.contains('\0') || value.contains('\0') {
        true => Err(format!("'{text}' names no variable")),
        false => Ok((name.to_owned(), value)),
    }
}

/// Refuses, before any process is started, what cannot be done.
pub fn check(options: &Options) -> Result<()> {
    match hosts(options)? {
        // Each host finds out if the program is there.
        Some(list) => {
            list.blocks(options.ranks.unwrap_or(list.slots()))?;
            hosts::words(&options.program).map(|_| ())
        }
        None => {
            let program = rank::Program::find(&options.program)?;
            options.main_memory.map_or(Ok(()), |limit| main_memory::check(limit, &program))
        }
    }
}

/// The hosts, where the job is to run on such.
fn hosts(options: &Options) -> Result<Option<List>> {
    match (&options.hosts, &options.hostfile) {
        (Some(words), _) => List::from_words(words).map(Some),
        (None, Some(file)) => List::from_file(file).map(Some),
        (None, None) => Ok(None),
    }
}

/// Variables of the ranks, on all hosts.
fn variables(options: &Options) -> Vec<(String, String)> {
    let copies = options.copies.map(|copies| ("HANARE_COPIES".to_owned(), copies.to_string()));
    copies.into_iter().chain(options.variables.iter().cloned()).collect()
}

/// Runs the job in the inner process and returns its status.
pub fn run(options: &Options, guard: Pid) -> Result<i32> {
    let (sender, events) = signals::catch_with()?;
    guard::enter(guard)?;
    let _scratch = scratch::Scratch::of_guard();
    if let Some(list) = hosts(options)? {
        return run_on(list, options, &sender, &events, guard);
    }
    let program = rank::Program::find(&options.program)?;
    let (mut nodes, sockets) = pool(options)?;
    let ranks = options.ranks.unwrap_or(sockets.len() as u32);
    let mut variables = variables(options);
    if let Some(folder) = &options.record {
        variables.push(record::begin(folder, &options.program, sockets.len(), ranks)?);
    }
    timeline::clear(&options.variables, ranks);
    let keeper = options.main_memory.map(|limit| main_memory::start(limit, &sockets[0], &mut variables)).transpose()?;
    let sharing = sharing::Sharing::before(&sockets, nodes.sockets().is_empty());
    let plan = job::Plan { program, ranks, sockets, variables, lines: None };
    let mut around = job::Surroundings { events: &events, sender: &sender, guard, nodes: &mut nodes };
    let failure = job::run(&plan, &mut around)?;
    sharing.tell(ranks);
    timeline::join(&options.variables, ranks);
    drop(keeper);
    drop(nodes);
    Ok(failure.map_or(0, |failure| failure.end.status()))
}

/// Runs the job on other hosts and returns its status.
fn run_on(list: List, options: &Options, sender: &Sender<Event>, events: &Receiver<Event>, guard: Pid) -> Result<i32> {
    let plan = hosts::Plan {
        ranks: options.ranks.unwrap_or(list.slots()),
        list,
        memory: options.memory.unwrap_or(MEMORY_DEFAULT),
        program: hosts::words(&options.program)?,
        variables: variables(options),
    };
    check_no_tenant()?;
    let mut hosts = Hosts::start(&plan, events, sender, guard)?;
    let name = Path::new(&plan.program[0]).file_name().map_or(plan.program[0].as_str().into(), |name| name.to_string_lossy());
    let failure = job::run_crew(&mut hosts, plan.ranks, &name, events, guard)?;
    drop(hosts);
    Ok(failure.map_or(0, |failure| failure.end.status()))
}

/// The pool to run on: its nodes where they were started here, and the sockets that ranks attach to.
fn pool(options: &Options) -> Result<(Nodes, Vec<String>)> {
    let socket = hanare::settings::node_socket();
    let is_named = std::env::var_os("HANARE_NODE").is_some_and(|value| !value.is_empty());
    if options.nodes.is_none() {
        match Pool::attach_to(&socket, None) {
            Ok(_) if options.memory.is_some() => {
                bail!("--memory is for a pool of its own, and a node answers at {socket}; give --nodes too to start one")
            }
            Ok(_) => return Ok((Nodes::default(), vec![socket])),
            // A node that was asked for by name must be there; the default one may be.
            Err(Error::NoNode { .. }) if !is_named => {}
            Err(error) => return Err(error.into()),
        }
    }
    check_no_tenant()?;
    let count = options.nodes.unwrap_or(1) as usize;
    let nodes = Nodes::start(count, options.memory.unwrap_or(MEMORY_DEFAULT)).context("cannot start a pool")?;
    let sockets = nodes.sockets();
    Ok((nodes, sockets))
}

/// Refuses a tenant's key where a launch starts a pool of its own.
fn check_no_tenant() -> Result<()> {
    if let Some(file) = hanare::settings::tenant() {
        bail!(
            "HANARE_TENANT names {}, a tenant of another pool, and this launch starts a pool of its own: unset it, or name that pool's node in \
             HANARE_NODE",
            file.0.display()
        );
    }
    Ok(())
}
