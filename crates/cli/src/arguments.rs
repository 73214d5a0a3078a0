//! The command's words: one definition, from which its help, completions and man pages come.

use crate::{
    demo, forward, journal, keeper, key, mount, nbd, node, queue, rebalance, region, run, scrub, serve, store, tenant, top,
    trace, what_if,
};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use clap_complete::Shell;
use std::ffi::OsString;
use std::path::PathBuf;

/// Memory in addition to main memory: one pool made of RAM that many machines lend.
#[derive(Parser, Debug)]
#[command(
    name = "hanare",
    version,
    max_term_width = 110,
    disable_help_subcommand = true,
    after_help = "Sizes: a number of bytes, or with K, M, G, T (powers of 1024; KiB, MiB ... are the same) or KB, MB, GB, TB (powers of 1000).\n\
        Exit status: 0 done, 1 refused or failed (one line on standard error says why), 2 wrong usage; `run` gives its program's status."
)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Run a program as the ranks of a job
    Run(run::Options),
    /// Lend this host's memory to a pool and serve its clients
    Node(node::Options),
    /// Show the pool's nodes and what they lend
    Status {
        /// Print JSON.
        #[arg(long)]
        json: bool,
        /// Show it anew every so many seconds, until Ctrl-C [default: 1].
        #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "1", value_parser = clap::value_parser!(u64).range(1..=86_400))]
        watch: Option<u64>,
    },
    /// Watch nodes, regions, programs, locks and pages that go to and fro, live
    Top(top::Options),
    /// Create, list, describe, resize, remove and copy regions
    #[command(subcommand)]
    Region(region::Command),
    /// Spread the pool's bytes over its nodes again, as after a node has joined
    Rebalance(rebalance::Options),
    /// Compare the copies of regions, and replace those that differ
    Scrub(scrub::Options),
    /// Make the pool a folder, for programs that know only files
    Mount(mount::Options),
    /// Make a region a network block device
    Nbd(nbd::Options),
    /// Serve what the pool has to clients of other systems
    #[command(subcommand)]
    Serve(serve::Serve),
    /// Create, list and describe queues, and pipe through them
    #[command(subcommand)]
    Queue(queue::Command),
    /// Show stores of keys and values, and how full they are
    #[command(subcommand)]
    Store(store::Command),
    /// Draw the key that lets hosts into one pool
    #[command(subcommand)]
    Key(key::Command),
    /// Check a coordinator's journal, or print its records
    #[command(subcommand)]
    Journal(journal::Command),
    /// Make, list and remove tenants: users of the pool for services that run as one user
    #[command(subcommand)]
    Tenant(tenant::Command),
    /// Show the nodes that keep the pool's names together
    #[command(subcommand)]
    Keeper(keeper::Command),
    /// Show what this machine offers, the fabrics, and every setting
    Info {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Try what this machine and its node do, and say what to type where something is wrong
    Doctor {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Tell where the time of a job went, by its timelines
    Trace(trace::Options),
    /// Measure beside peers
    Bench(forward::BenchOptions),
    /// Ask a timing model of a paper's hardware
    Model(forward::ModelOptions),
    /// Predict what a program would do on another network, or on more nodes
    WhatIf(what_if::WhatIfOptions),
    /// Write the report that holds papers, models and measurements side by side
    Report(forward::ReportOptions),
    /// Run the cluster simulator under a seed
    Sim(forward::SimOptions),
    /// Show in a minute what the pool is for
    Demo(demo::Options),
    /// Print completions for a shell
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Write man pages into a folder
    Man {
        /// The folder.
        dir: PathBuf,
    },
}

/// The commands by what they are for, as the help lists them.
const GROUPS: [(&str, &[&str]); 3] = [
    ("Use the pool", &["demo", "run", "region", "queue", "store", "mount", "nbd", "serve", "status", "top"]),
    ("Operate it", &["node", "keeper", "key", "tenant", "doctor", "scrub", "rebalance", "journal", "info", "completions", "man"]),
    ("Measure and model", &["bench", "model", "report", "sim", "trace", "what-if"]),
];

/// The definition, with its help in groups.
pub fn command() -> clap::Command {
    let command = Arguments::command();
    let about = |name: &str| command.find_subcommand(name).and_then(|found| found.get_about()).map(ToString::to_string);
    let line = |name: &&str| format!("  {name:<12} {}\n", about(name).unwrap_or_default());
    let group = |(title, names): &(&str, &[&str])| format!("{title}:\n{}\n", names.iter().map(line).collect::<String>());
    let groups: String = GROUPS.iter().map(group).collect();
    command.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}Options:\n{{options}}{{after-help}}"
    ))
}

/// Reads the words of a command line; ends the process with a help or a refusal where they are none.
pub fn read(words: &[OsString]) -> Arguments {
    let read = Arguments::from_arg_matches(&command().get_matches_from(words));
    read.unwrap_or_else(|error| error.exit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_stands_in_one_group_of_the_help() {
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        grouped.sort_unstable();
        let command = Arguments::command();
        let mut all: Vec<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
        all.sort_unstable();
        assert_eq!(grouped, all);
    }

    #[test]
    fn the_definition_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn the_words_of_the_contract_are_taken() {
        for line in [
            "hanare run --nodes 2 -n 4 --memory 1G --fabric tcp -- ./program -x",
            "hanare run --main-memory 2G -- ./program",
            "hanare run --hosts a,b --plain -- ./program",
            "hanare run --hosts a,b:2 -n 3 --memory 1G -- ./program",
            "hanare run --hostfile hosts -- ./program",
            "hanare node --memory 4GiB --listen 0.0.0.0:7411 --join a:7411 --key k --name n --prometheus 127.0.0.1:9000",
            "hanare node --memory 4GiB --plain",
            "hanare status --json",
            "hanare top",
            "hanare trace out.json",
            "hanare trace out.0.json out.1.json --out out.json --json",
            "hanare trace out.json --otlp spans.json",
            "hanare top --once --json",
            "hanare top --every 5 --json",
            "hanare key new",
            "hanare key new pool.key",
            "hanare region create a 4GiB --place interleave=64K --mode 0644",
            "hanare region cp a.npy a",
            "hanare region cp a b.npy --shape 2x3 --dtype float64",
            "hanare region set a copies=2",
            "hanare region rm a b",
            "hanare mount dir",
            "hanare mount dir --name projects -o coherent,ro -- make -j2",
            "hanare nbd disk --create 1G -- nbdinfo $uri",
            "hanare serve redis --store kv --listen 127.0.0.1:6379",
            "hanare serve redis --store kv --socket redis.sock --bytes 1G --evict ttl --place node=1 --clients 10 --threads 2",
            "hanare queue create q --block 64 --depth 16 --ports 4 --overflow spill --place node=1 --mode 0644",
            "hanare queue ls --json",
            "hanare queue stat q",
            "hanare queue send q --create --lines",
            "hanare queue recv q --writers 2 --within 3s",
            "hanare sim --seed 7 --nodes 3 --minutes 5",
            "hanare bench get --quick --nodes 2 -n 2 --fabric tcp --json",
            "hanare bench --list",
            "hanare model euphoria run --set a=1 --set b=2 --sweep c=1..4 --network n.toml --plot p.svg",
            "hanare report --measure --out r.html",
            "hanare info",
            "hanare demo --memory 64M",
            "hanare demo matmul --n 64",
        ] {
            Arguments::try_parse_from(line.split(' ')).unwrap_or_else(|error| panic!("{line}: {error}"));
        }
        for line in [
            "hanare run",
            "hanare run -n 0 -- x",
            "hanare run --hosts a --nodes 2 -- x",
            "hanare run --hosts a --hostfile f -- x",
            "hanare node",
            "hanare region create a 0",
            "hanare region create a 1 --mode 777",
        ] {
            assert_eq!(Arguments::try_parse_from(line.split(' ')).unwrap_err().exit_code(), 2, "{line}");
        }
    }
}
