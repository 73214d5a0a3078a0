//! `hanare run`: programs as ranks of a job, on the running pool or on one of their own.
//!
//! | file | holds |
//! |---|---|
//! | [`guard`] | the outer process, which cleans up when the inner one is killed |
//! | [`nodes`] | the nodes of a pool that lives as long as the launch |
//! | [`job`] | the ranks from start to end |
//! | [`rank`] | how a rank's process becomes the user's program |
//! | [`output`] | its output, line by line |
//! | [`teller`] | tells the pool of ranks that ended |
//! | [`children`], [`signals`] | ended processes and signals, as values and events |

pub mod children;
pub mod guard;
pub mod job;
pub mod nodes;
mod output;
pub mod rank;
pub mod signals;
mod teller;

use crate::size;
use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use hanare::Pool;
use hanare_protocol::Error;
use hanare_protocol::limits::RANK_COUNT_MAX;
use nodes::Nodes;
use rustix::process::Pid;
use std::ffi::OsString;

/// Memory that a node of an embedded pool lends unless told otherwise: enough to try things, little enough for any laptop.
pub const MEMORY_DEFAULT: u64 = 512 << 20;

/// Runs a program as the ranks of a job, on the running pool or on one started for it.
#[derive(Args, Clone, Debug)]
#[command(
    after_help = "A pool of its own is started where no node answers at HANARE_NODE or the default socket, or where --nodes is given; it ends with \
    the job. Ranks are placed round robin over its nodes. A rank that fails ends the job, and its status is the command's: 128 + N for signal N."
)]
pub struct Options {
    /// Start a pool of N nodes on this machine; they treat each other as strangers.
    #[arg(long, value_name = "N")]
    pub nodes: Option<u32>,
    /// How many ranks to run [default: one a node].
    #[arg(short = 'n', long = "ranks", value_name = "RANKS", value_parser = clap::value_parser!(u32).range(1..=i64::from(RANK_COUNT_MAX)))]
    pub ranks: Option<u32>,
    /// Memory that each node of the started pool lends [default: 512MiB].
    #[arg(long, value_name = "SIZE", value_parser = size::parse_some)]
    pub memory: Option<u64>,
    /// What moves bytes between nodes.
    #[arg(long, value_name = "FABRIC", default_value = "tcp")]
    pub fabric: Fabric,
    /// Let large allocations of the program live in the pool, with SIZE of local memory as their cache (not in this build).
    #[arg(long, value_name = "SIZE", value_parser = size::parse_some)]
    pub main_memory: Option<u64>,
    /// The program and its arguments.
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    pub program: Vec<OsString>,
}

/// What moves bytes between nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Fabric {
    /// Any two machines.
    Tcp,
    /// InfiniBand, RoCE, Slingshot; not in this build.
    Ucx,
}

impl Fabric {
    /// Refuses a fabric that this build has not.
    pub fn check(self) -> Result<()> {
        match self {
            Fabric::Tcp => Ok(()),
            Fabric::Ucx => bail!("the ucx fabric is not in this build; use --fabric tcp (`hanare info` lists the fabrics)"),
        }
    }
}

/// Refuses, before any process is started, what cannot be done.
pub fn check(options: &Options) -> Result<()> {
    options.fabric.check()?;
    if options.main_memory.is_some() {
        bail!("--main-memory is not in this build; the program can use regions (hanare.h, crate hanare) instead");
    }
    rank::Program::find(&options.program).map(|_| ())
}

/// Runs the job in the inner process and returns its status.
pub fn run(options: &Options, guard: Pid) -> Result<i32> {
    let events = signals::catch()?;
    guard::enter(guard)?;
    let program = rank::Program::find(&options.program)?;
    let (mut nodes, sockets) = pool(options)?;
    let ranks = options.ranks.unwrap_or(sockets.len() as u32);
    let plan = job::Plan { program, ranks, sockets, lines: None };
    let mut around = job::Surroundings { events: &events, guard, nodes: &mut nodes };
    let failure = job::run(&plan, &mut around)?;
    drop(nodes);
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
    let count = options.nodes.unwrap_or(1) as usize;
    let nodes = Nodes::start(count, options.memory.unwrap_or(MEMORY_DEFAULT)).context("cannot start a pool")?;
    let sockets = nodes.sockets();
    Ok((nodes, sockets))
}
