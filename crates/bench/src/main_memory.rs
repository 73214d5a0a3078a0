//! A plain C program with more memory than it may keep here: the rest on another node over TCP, beside all of it here, and beside the
//! kernel's swap to a file and to zram under a control group of the same size.

use crate::Options;
use crate::cage::{Cage, Swap};
use crate::compare::{bytes, compare};
use crate::nodes::Nodes;
use crate::peers::program::Compiled;
use crate::report::Report;
use crate::turns::{Contestant, Figures, take_turns};
use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::process::Command;

/// The bench's name.
pub const NAME: &str = "main-memory";

/// Bytes of the program's array.
const LEN: u64 = 256 << 20;
const LEN_QUICK: u64 = 64 << 20;

/// Random updates.
const UPDATES: u32 = 50_000;
const UPDATES_QUICK: u32 = 500;

/// What is measured: the figure's name, and what it is one of.
const FIGURES: [(&str, &str); 3] = [("update", "random update"), ("sweep", "page of a sweep"), ("sort", "page of a quicksort")];

/// How much of a sweep's speed is to be left.
const GOAL_SWEEP: f64 = 0.5;

/// Runs it.
pub fn run(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Report> {
    let (len, updates) = if options.quick { (LEN_QUICK, UPDATES_QUICK) } else { (LEN, UPDATES) };
    progress("starting nodes");
    let nodes = Nodes::start(options, options.nodes_or(2).max(2), 2 * len)?;
    let compiled = Compiled::new(options)?;
    let program = compiled.build("gcc", "main_memory", &[])?;
    let words = [(len >> 20).to_string(), updates.to_string()];
    let mut contestants = vec![Contestant::peer("all in memory", Ok(|| figures(Command::new(&program).args(&words))))];
    for share in [2, 4] {
        let limit = len / share;
        let (nodes, program, words) = (&nodes, &program, &words);
        let ours = move || {
            let mut command = Command::new(&options.command);
            command.args(["run", "-n", "1", "--main-memory", &format!("{}M", limit >> 20), "--"]).arg(program).args(words);
            figures(command.env("HANARE_NODE", nodes.socket(0)))
        };
        contestants.push(Contestant::ours(&format!("hanare, {} of {} here", bytes(limit), bytes(len)), ours));
        for (name, swap) in [("swap file", Swap::File), ("zram", Swap::Zram)] {
            let turn = move || {
                let cage = Cage::new(limit, swap, 2 * len)?;
                figures(cage.command(program).args(words))
            };
            contestants.push(Contestant::peer(name, Ok(turn)));
        }
    }
    let outcomes = take_turns(options.rounds().min(3), contestants, progress)?;
    let [memory, shares @ ..] = &outcomes[..] else { unreachable!("all in memory is a contestant") };
    let mut report = Report::new(NAME);
    for outcomes in shares.chunks_exact(3) {
        let [ours, swap, zram] = outcomes else { unreachable!("there are three for a share") };
        for (key, what) in FIGURES {
            let case = format!("{what}, {}", ours.name);
            let goal = (key == "sweep").then_some(GOAL_SWEEP);
            report.rows.push(compare(case.clone(), ours, key, memory, key, goal)?);
            report.rows.push(compare(case.clone(), ours, key, swap, key, Some(1.0))?);
            report.rows.push(compare(case, ours, key, zram, key, Some(1.0))?);
        }
    }
    Ok(report)
}

/// What the program says of itself: a name and ns a line.
fn figures(command: &mut Command) -> Result<Figures> {
    let program = Path::new(command.get_program()).to_owned();
    let ended = command.output().with_context(|| format!("cannot start {}", program.display()))?;
    ensure!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr).trim());
    let said = String::from_utf8_lossy(&ended.stdout);
    let read = |line: &str| {
        let (name, ns) = line.split_once(' ')?;
        Some((name.to_owned(), ns.parse().ok()?))
    };
    let figures: Figures = said.lines().filter_map(read).collect();
    ensure!(figures.len() == FIGURES.len(), "the program said {said:?}");
    Ok(figures)
}
