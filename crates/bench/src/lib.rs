//! Benches, each beside its peers: both run in turn in one call, and what is compared are medians.
//!
//! | module | holds |
//! |---|---|
//! | [`report`] | what a bench comes to: rows, claims, the table and the JSON object |
//! | [`page`] | the performance page of the book, from kept results |
//! | [`turns`] | the harness that lets contestants run in turn |
//! | [`nodes`] | pools of nodes for a bench, each node a process |
//! | [`peers`] | the programs beside us: C sources compiled when a bench runs, and servers that are installed |
//! | [`usage`] | what a program and its nodes used of the CPUs, where a row says what its limit is |
//! | [`table`] | regions full of numbers that can be checked |
//! | [`cage`] | programs in a control group, with the kernel's swap |
//! | [`compare`] | rows from two contestants' medians |
//! | [`programs`] | the papers' programs in main memory, by threads, on mapped memory and by MPI |
//! | [`get`], [`strided`], [`gather`], [`copy`], [`copies`], [`drain`], [`gups`], [`scan`], [`matmul`], [`lu`], [`himeno`], [`quicksort`], [`ported`], [`fault`], [`coherence`], [`locks`], [`fair`], [`node_threads`], [`files`], [`blocks`], [`main_memory`], [`wisconsin`], [`barrier`], [`collectives`], [`queue`], [`queues`], [`halo`], [`pingpong`], [`primitives`], [`python`] | one module a bench |
//! | [`basics`] | single operations, which `hanare what-if` is calibrated with |
//!
//! A bench is added by a module and its line in [`list`].

#![forbid(unsafe_code)]

pub mod barrier;
pub mod basics;
pub mod blocks;
pub mod cage;
pub mod coherence;
pub mod collectives;
pub mod compare;
pub mod copies;
pub mod copy;
pub mod drain;
pub mod fair;
pub mod fault;
pub mod files;
pub mod gather;
pub mod get;
pub mod gups;
pub mod halo;
pub mod himeno;
pub mod locks;
pub mod lu;
pub mod machine;
pub mod main_memory;
pub mod matmul;
pub mod node_threads;
pub mod nodes;
pub mod page;
pub mod peers;
pub mod pingpong;
pub mod ported;
pub mod primitives;
pub mod programs;
pub mod python;
pub mod queue;
pub mod queues;
pub mod quicksort;
pub mod report;
pub mod scan;
pub mod strided;
pub mod table;
pub mod turns;
pub mod usage;
pub mod wisconsin;

pub use report::{Claim, Report, Row};

use anyhow::{Result, bail};
use std::path::PathBuf;
use std::time::Duration;

/// Options of a bench.
#[derive(Clone, Debug)]
pub struct Options {
    /// A short run that shows that all works; its figures are worth little.
    pub quick: bool,
    /// Nodes of the pool that is measured; `None` for what the bench is meant for.
    pub nodes: Option<u32>,
    /// Ranks of the job that is measured; `None` for what the bench is meant for.
    pub ranks: Option<u32>,
    /// The `hanare` command, by which nodes and jobs are started.
    pub command: PathBuf,
    /// Folder with the C sources of the peers.
    pub peers: PathBuf,
    /// Folder with the built programs of `apps/`.
    pub apps: PathBuf,
}

impl Options {
    /// A full run from the folder of the sources, with the command that is running.
    pub fn here() -> Options {
        Options {
            quick: false,
            nodes: None,
            ranks: None,
            command: std::env::current_exe().unwrap_or_else(|_| PathBuf::from("/proc/self/exe")),
            peers: find("HANARE_PEERS", "bench/peers"),
            apps: find("HANARE_APPS", "out/apps"),
        }
    }

    /// Nodes to start: as many as asked for, else what the bench is meant for.
    pub(crate) fn nodes_or(&self, meant: usize) -> usize {
        self.nodes.map_or(meant, |count| count as usize)
    }

    /// About how long one figure of a turn is measured; as in the peers' programs.
    pub(crate) fn budget(&self) -> Duration {
        Duration::from_millis(if self.quick { 10 } else { 60 })
    }

    /// Rounds of a contest: an odd number, so that a median is a measured value.
    pub(crate) fn rounds(&self) -> usize {
        if self.quick { 1 } else { 5 }
    }
}

/// Finds a folder that a variable names, or in the sources: below the working folder, or below that of the command's build.
fn find(variable: &str, folder: &str) -> PathBuf {
    let named = std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from);
    let from_build = || Some(std::env::current_exe().ok()?.ancestors().nth(3)?.join(folder));
    let beneath = PathBuf::from(folder);
    named.unwrap_or_else(|| if beneath.is_dir() { beneath } else { from_build().filter(|path| path.is_dir()).unwrap_or(beneath) })
}

/// Runs a bench; the last argument hears what is being done.
type Run = fn(&Options, &mut dyn FnMut(&str)) -> Result<Report>;

/// A bench as it is listed.
#[derive(Clone, Copy, Debug)]
pub struct Bench {
    /// Its name in `hanare bench NAME`.
    pub name: &'static str,
    /// Its measurement, in a line.
    pub about: &'static str,
    run: Run,
}

/// All benches.
pub fn list() -> &'static [Bench] {
    &[
        Bench { name: get::NAME, about: "get and put on one host, and get between two over TCP", run: get::run },
        Bench { name: strided::NAME, about: "elements at a stride, on one host and between two", run: strided::run },
        Bench { name: gather::NAME, about: "random elements by their indices, on one host and between two", run: gather::run },
        Bench { name: copy::NAME, about: "bytes from node to node that the client never touches", run: copy::run },
        Bench { name: copies::NAME, about: "writes that two or three nodes have, beside one", run: copies::run },
        Bench { name: drain::NAME, about: "bytes that leave a drained node, beside a bare socket", run: drain::run },
        Bench { name: gups::NAME, about: "random 64-bit updates in batches, on one node and over two", run: gups::run },
        Bench { name: scan::NAME, about: "count and sum of a table on another node that stays there", run: scan::run },
        Bench { name: matmul::NAME, about: "the matrix product of the drivers paper in five variants", run: matmul::run },
        Bench { name: lu::NAME, about: "LU decomposition on mapped memory of one node and several", run: lu::run },
        Bench { name: himeno::NAME, about: "Himeno's benchmark on mapped memory of one node and several", run: himeno::run },
        Bench { name: quicksort::NAME, about: "quicksort on mapped memory of one node and several", run: quicksort::run },
        Bench { name: ported::NAME, about: "programs for threads as ranks, by the port kit", run: ported::run },
        Bench { name: fault::NAME, about: "touches of mapped pages that are not here", run: fault::run },
        Bench { name: coherence::NAME, about: "accesses to a variable that other hosts have", run: coherence::run },
        Bench { name: locks::NAME, about: "locks alone, wanted by two hosts, and with bytes bound to them", run: locks::run },
        Bench { name: fair::NAME, about: "one program beside many of another user", run: fair::run },
        Bench {
            name: node_threads::NAME,
            about: "bytes that one node moves with one thread and with two",
            run: node_threads::run,
        },
        Bench { name: files::NAME, about: "files of the pool through the kernel, beside tmpfs", run: files::run },
        Bench { name: blocks::NAME, about: "a region as a disk by nbdkit, beside its memory plugin", run: blocks::run },
        Bench {
            name: main_memory::NAME,
            about: "an unchanged program's memory on another node, beside swap",
            run: main_memory::run,
        },
        Bench { name: wisconsin::NAME, about: "queries over regions and files, beside a disk's", run: wisconsin::run },
        Bench { name: barrier::NAME, about: "an empty barrier of ranks on nodes of their own", run: barrier::run },
        Bench { name: collectives::NAME, about: "all-reduce by 2 and 4 ranks on two nodes", run: collectives::run },
        Bench { name: basics::NAME, about: "single operations, which what-if is calibrated with", run: basics::run },
        Bench { name: queue::NAME, about: "blocks through a queue on one host, beside rings of one process", run: queue::run },
        Bench { name: queues::NAME, about: "few active queues among many, read by one thread", run: queues::run },
        Bench { name: pingpong::NAME, about: "a message one way in the four conditions of DIMMnet-3", run: pingpong::run },
        Bench { name: primitives::NAME, about: "RHiNET's primitives, a page each, to another node", run: primitives::run },
        Bench { name: halo::NAME, about: "exchange of halos in 3 and 4 dimensions on two nodes", run: halo::run },
        Bench { name: python::NAME, about: "calls of the package hanare, where an interpreter has it", run: python::run },
    ]
}

/// Runs a bench; `progress` hears what is being done.
///
/// **Errors**: an unknown name, or that our own side failed. A peer that fails or is missing is named in its rows.
pub fn run(name: &str, options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Report> {
    match list().iter().find(|bench| bench.name == name) {
        Some(bench) => {
            let watch = machine::OthersWatch::start();
            let mut report = (bench.run)(options, progress)?;
            report.machine.others = watch.others();
            Ok(report)
        }
        None => bail!("no bench is called '{name}'; `hanare bench --list` names them"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_others_are_refused() {
        let mut names: Vec<_> = list().iter().map(|bench| bench.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), list().len());
        let error = run("nothing", &Options::here(), &mut |_| {}).unwrap_err();
        assert!(error.to_string().contains("--list"));
    }

    #[test]
    fn the_peers_sources_are_found() {
        let sources = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../bench/peers");
        let shared = [
            "figures.h",
            "window.h",
            "echo.c",
            "relay.c",
            "ucx_get.c",
            "local_loop.c",
            "main_memory.c",
            "numpy_product.py",
            "duckdb_join.py",
            "duckdb_scan.py",
        ];
        let mpi = [
            "mpi_window.c",
            "mpi_strided.c",
            "mpi_gather.c",
            "mpi_gups.c",
            "mpi_lu.c",
            "mpi_himeno.c",
            "mpi_all_reduce.c",
            "mpi_halo.c",
            "mpi_pingpong.c",
        ];
        for name in shared.into_iter().chain(mpi) {
            assert!(sources.join(name).is_file(), "{name}");
        }
    }
}
