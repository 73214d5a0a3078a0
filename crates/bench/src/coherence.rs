//! What it costs to write and to read a variable of 4 bytes that others have, or had: in own memory and another's, clean and
//! dirty, on two to four nodes; beside as many bare messages as the protocol sends one after another.
//!
// FEATURE: EU-F13 EU-F14 EU-F15 EU-F23

use crate::Options;
use crate::compare::{baseline, compare};
use crate::nodes::Nodes;
use crate::report::Report;
use crate::turns::{Contestant, Figures, median, take_turns};
use anyhow::Result;
use hanare::{Consistency, CreateOptions, NodeId, Placement, SharedMapping};
use std::time::Instant;

/// The bench's name.
pub const NAME: &str = "coherence";

const PAGE_LEN: u64 = 4096;

/// Pages, one for each measurement of a case.
const PAGE_COUNT: u64 = 200;
const PAGE_COUNT_QUICK: u64 = 24;

/// Pages between two measurements, so that no stream of faults is followed.
const APART: u64 = 67;

/// What each node lends.
const MEMORY: u64 = 160 << 20;

/// How much slower than its bare messages an access may be.
const TIMES_MAX: f64 = 1.6;

/// A case: who did what before, what is measured, and how many messages follow one another until the program goes on.
struct Case {
    key: &'static str,
    what: &'static str,
    /// Nodes that it needs; the first is the home.
    nodes: usize,
    /// Node and whether it writes, in order; the last access is the one that is measured.
    accesses: &'static [(usize, bool)],
    hops: u32,
}

/// As in the table of `protocol::page`.
const CASES: &[Case] = &[
    Case { key: "read_clean", what: "read, another's memory, clean", nodes: 2, accesses: &[(1, false)], hops: 2 },
    Case {
        key: "read_dirty",
        what: "read, another's memory, dirty in a third",
        nodes: 3,
        accesses: &[(1, true), (2, false)],
        hops: 3,
    },
    Case {
        key: "read_own_dirty",
        what: "read, own memory, dirty elsewhere",
        nodes: 2,
        accesses: &[(1, true), (0, false)],
        hops: 2,
    },
    Case { key: "write_alone", what: "write, another's memory, nobody has it", nodes: 2, accesses: &[(1, true)], hops: 2 },
    Case {
        key: "write_shared",
        what: "write, another's memory, invalidating a copy",
        nodes: 3,
        accesses: &[(1, false), (2, false), (1, true)],
        hops: 3,
    },
    Case {
        key: "write_own",
        what: "write, own memory, invalidating a copy",
        nodes: 2,
        accesses: &[(1, false), (0, true)],
        hops: 2,
    },
    Case {
        key: "write_own_3",
        what: "write, own memory, invalidating three copies",
        nodes: 4,
        accesses: &[(1, false), (2, false), (3, false), (0, true)],
        hops: 2,
    },
    Case {
        key: "write_dirty",
        what: "write, another's memory, dirty in a third",
        nodes: 3,
        accesses: &[(1, true), (2, true)],
        hops: 3,
    },
    Case {
        key: "write_own_dirty",
        what: "write, own memory, dirty elsewhere",
        nodes: 2,
        accesses: &[(1, true), (0, true)],
        hops: 2,
    },
];

/// Runs it.
pub fn run(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Report> {
    progress("starting nodes");
    let most = CASES.iter().map(|case| case.nodes).max().unwrap_or(1);
    let nodes = Nodes::start(options, most, MEMORY)?;
    let count = if options.quick { PAGE_COUNT_QUICK } else { PAGE_COUNT };
    let outcomes = take_turns(options.rounds(), vec![Contestant::ours("hanare", || ours(&nodes, count))], progress)?;
    let ours = &outcomes[0];
    let mut report = Report::new(NAME);
    for Case { key, what, nodes, hops, .. } in CASES {
        let case = format!("4 B, {nodes} nodes, tcp: {what}");
        let bare = baseline(ours, &format!("{hops} bare messages, one after another"));
        report.rows.push(compare(case, ours, key, &bare, &format!("hops_{hops}"), Some(1.0 / TIMES_MAX))?);
    }
    Ok(report)
}

fn ours(nodes: &Nodes, count: u64) -> Result<Figures> {
    let pools: Vec<_> =
        (0..CASES.iter().map(|case| case.nodes).max().unwrap_or(1)).map(|k| nodes.attach(k)).collect::<Result<_>>()?;
    let options = CreateOptions { placement: Placement::Node(NodeId(pools[0].node().0)), ..CreateOptions::default() };
    let len = count * APART * PAGE_LEN;
    let mut figures = Figures::new();
    // A bare message each way: a get of the variable.
    let bare = pools[0].create_or_attach("bench-bare", PAGE_LEN, &options)?;
    let far = pools[1].open(bare.name())?;
    let mut variable = [0; 4];
    let times = (0..count * 4).map(|_| {
        let start = Instant::now();
        far.get(64, &mut variable).map(|()| start.elapsed().as_nanos() as f64)
    });
    let both_ways = median(times.collect::<hanare::Result<_>>()?);
    for hops in [2u32, 3] {
        figures.insert(format!("hops_{hops}"), both_ways / 2.0 * f64::from(hops));
    }
    for case in CASES {
        let name = format!("bench-{}", case.key);
        pools[0].create_or_attach(&name, len, &options)?;
        let mappings: Vec<SharedMapping> =
            pools[..case.nodes].iter().map(|pool| pool.open(&name)?.map(Consistency::Coherent)).collect::<hanare::Result<_>>()?;
        figures.insert(case.key.to_owned(), median(measure(case, &mappings, count)?));
        drop(mappings);
        pools[0].remove(&name)?;
    }
    pools[0].remove("bench-bare")?;
    Ok(figures)
}

/// The times of the last access, on a page of its own each.
fn measure(case: &Case, mappings: &[SharedMapping], count: u64) -> hanare::Result<Vec<f64>> {
    let (last, before) = case.accesses.split_last().expect("a case has an access");
    let access = |(node, writes): (usize, bool), page: u64| {
        let offset = page * APART * PAGE_LEN + 64;
        match writes {
            true => mappings[node].write(offset, &(node as u32).to_le_bytes()),
            false => mappings[node].read(offset, &mut [0; 4]),
        }
    };
    let mut times = Vec::new();
    for page in 0..count {
        before.iter().try_for_each(|access_before| access(*access_before, page))?;
        let start = Instant::now();
        access(*last, page)?;
        times.push(start.elapsed().as_nanos() as f64);
    }
    Ok(times)
}
