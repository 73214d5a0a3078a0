//! Random elements of 8 bytes of a large table by their indices, on one host and between two over TCP. Beside them are MPI's indexed
//! datatype, MPI's single gets with 64 of them under way, and a loop over local memory.
//!
// FEATURE: D3-F13

use crate::Options;
use crate::compare::{bytes, compare};
use crate::nodes::Nodes;
use crate::peers::local::local_loop;
use crate::peers::mpi::{Link, Mpi};
use crate::peers::program::Compiled;
use crate::report::{Report, Row};
use crate::table;
use crate::turns::{Contestant, Figures, Outcome, Random, take_turns, time_step};
use anyhow::Result;
use hanare::{Indexed, Placement, Region};

/// The bench's name.
pub const NAME: &str = "gather";

const ELEMENT_LEN: u64 = 8;

/// Bytes of the table.
const TABLE_LEN: u64 = 1 << 30;
const TABLE_LEN_QUICK: u64 = 64 << 20;

/// Elements of a list.
const COUNTS: [u64; 2] = [4 << 10, 256 << 10];

/// Memory that each node lends beyond the table.
const MEMORY_TO_SPARE: u64 = 128 << 20;

/// Runs it.
pub fn run(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Report> {
    let len = if options.quick { TABLE_LEN_QUICK } else { TABLE_LEN };
    let words: Vec<String> = [len].iter().chain(&COUNTS).map(u64::to_string).collect();
    progress("starting nodes and filling their memory");
    let nodes = Nodes::start(options, options.nodes_or(2), len + MEMORY_TO_SPARE)?;
    let pool = nodes.attach(0)?;
    let near = table::create(&pool, "bench-near", len, Placement::Local)?;
    let far = table::create(&pool, "bench-far", len, Placement::Node(table::far(&pool)?[0]))?;
    let compiled = Compiled::new(options)?;
    let mut contestants =
        vec![Contestant::ours("hanare", || ours(options, &near, &far)), local_loop(&compiled, "gather", nodes.pages()?, &words)];
    for link in [Link::Local, Link::Tcp] {
        contestants.extend(Mpi::ALL.map(|mpi| mpi.contestant(&compiled, "mpi_gather", link, &words)));
    }
    let outcomes = take_turns(options.rounds(), contestants, progress)?;
    let [ours, tuned, near_mpi @ .., open, mpich] = &outcomes[..] else { unreachable!("there are six contestants") };
    let mut report = Report::new(NAME);
    for count in COUNTS {
        let name =
            |place: &str| format!("gather {} of {}, lists of {count}, {place}: an element", bytes(ELEMENT_LEN), bytes(len));
        report.rows.push(compare(
            name("same host"),
            ours,
            &format!("near_{count}"),
            tuned,
            &format!("indexed_{count}"),
            Some(0.9),
        )?);
        for peer in near_mpi {
            report.rows.extend(mpi_rows(&name("same host"), ours, &format!("near_{count}"), peer, count, None)?);
        }
        for peer in [open, mpich] {
            report.rows.extend(mpi_rows(&name("2 nodes, tcp"), ours, &format!("far_{count}"), peer, count, Some(1.0))?);
        }
    }
    Ok(report)
}

/// Ahead of the better of MPI's is ahead of each.
fn mpi_rows(name: &str, ours: &Outcome, key: &str, peer: &Outcome, count: u64, goal: Option<f64>) -> Result<Vec<Row>> {
    let ways = [("indexed", "indexed datatype"), ("rget", "64 outstanding MPI_Rget")];
    let row = |(way, what): (&str, &str)| {
        let peer = Outcome { name: format!("{} {what}", peer.name), ..peer.clone() };
        compare(name.to_owned(), ours, key, &peer, &format!("{way}_{count}"), goal)
    };
    ways.into_iter().map(row).collect()
}

/// Lists of `count` indices that are used in turn: so many that none finds its elements in a cache. As in the peers' programs.
fn list_count(count: u64) -> u64 {
    ((1 << 20) / count).clamp(4, 256)
}

fn ours(options: &Options, near: &Region, far: &Region) -> Result<Figures> {
    let mut random = Random::SEED;
    let mut figures = Figures::new();
    for count in COUNTS {
        let element_count = near.len() / ELEMENT_LEN;
        let list = |random: &mut Random| (0..count).map(|_| random.below(element_count) as u32).collect::<Vec<u32>>();
        let lists: Vec<Vec<u32>> = (0..list_count(count)).map(|_| list(&mut random)).collect();
        let mut buffer = vec![0; (count * ELEMENT_LEN) as usize];
        for (place, region) in [("near", near), ("far", far)] {
            let mut turns = lists.iter().cycle();
            let mut next = || &turns.next().expect("a cycle never ends")[..];
            let mut used = next();
            let ns = time_step(options.budget(), || {
                used = next();
                region.get_shape(Indexed::elements(0, ELEMENT_LEN, used), &mut buffer)
            })?;
            table::check(&buffer, used.iter().map(|index| u64::from(*index)))?;
            figures.insert(format!("{place}_{count}"), ns / count as f64);
        }
    }
    Ok(figures)
}
