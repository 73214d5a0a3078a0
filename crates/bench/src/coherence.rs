//! Cost of writing and reading a variable of 4 bytes that others have, or had. It lies in own memory and another's, clean and dirty, on two
//! to four nodes. Beside it stand as many bare messages as the protocol sends one after another, and a bare message that goes by as many
//! processes.
//!
// FEATURE: EU-F13 EU-F14 EU-F15 EU-F18 EU-F23

use crate::Options;
use crate::compare::{Part, baseline, compare, with_parts};
use crate::nodes::Nodes;
use crate::peers::program::Compiled;
use crate::peers::relay;
use crate::report::{Report, Row};
use crate::turns::{Contestant, Figures, Outcome, median, take_turns};
use crate::usage::Watch;
use anyhow::Result;
use hanare::{Consistency, CreateOptions, NodeId, Placement, Pool, SharedMapping};
use std::time::Instant;

/// The bench's name.
pub const NAME: &str = "coherence";

const PAGE_LEN: u64 = 4096;

/// Pages, one for each measurement of a case.
const PAGE_COUNT: u64 = 200;
const PAGE_COUNT_QUICK: u64 = 24;

/// Pages between two measurements, so that no stream of faults is followed.
const APART: u64 = 67;

/// Memory that each node lends.
const MEMORY: u64 = 160 << 20;

/// Limit on an access's time beside its bare messages.
const TIMES_MAX: f64 = 1.6;

/// A case: earlier accesses and their hosts, the measured access, and the number of messages in a row until the program goes on.
struct Case {
    key: &'static str,
    what: &'static str,
    /// Nodes that it needs; the first is the home.
    nodes: usize,
    /// Node and whether it writes, in order; the last access is the one that is measured.
    accesses: &'static [(usize, bool)],
    hops: u32,
    /// The way of the messages from the program by nodes and back, as the peer `relay` reads it. Messages to its own node are in it.
    way: &'static str,
}

/// Cases of the table in `protocol::page`.
const CASES: &[Case] = &[
    Case { key: "read_clean", what: "read, another's memory, clean", nodes: 2, accesses: &[(1, false)], hops: 2, way: "0" },
    Case {
        key: "read_dirty",
        what: "read, another's memory, dirty in a third",
        nodes: 3,
        accesses: &[(1, true), (2, false)],
        hops: 3,
        way: "012",
    },
    Case {
        key: "read_own_dirty",
        what: "read, own memory, dirty elsewhere",
        nodes: 2,
        accesses: &[(1, true), (0, false)],
        hops: 2,
        way: "010",
    },
    Case {
        key: "write_alone",
        what: "write, another's memory, nobody has it",
        nodes: 2,
        accesses: &[(1, true)],
        hops: 2,
        way: "0",
    },
    Case {
        key: "write_shared",
        what: "write, another's memory, invalidating a copy",
        nodes: 3,
        accesses: &[(1, false), (2, false), (1, true)],
        hops: 3,
        way: "021",
    },
    Case {
        key: "write_own",
        what: "write, own memory, invalidating a copy",
        nodes: 2,
        accesses: &[(1, false), (0, true)],
        hops: 2,
        way: "010",
    },
    Case {
        key: "write_own_3",
        what: "write, own memory, invalidating three copies",
        nodes: 4,
        accesses: &[(1, false), (2, false), (3, false), (0, true)],
        hops: 2,
        way: "0+123",
    },
    Case {
        key: "write_dirty",
        what: "write, another's memory, dirty in a third",
        nodes: 3,
        accesses: &[(1, true), (2, true)],
        hops: 3,
        way: "012",
    },
    Case {
        key: "write_own_dirty",
        what: "write, own memory, dirty elsewhere",
        nodes: 2,
        accesses: &[(1, true), (0, true)],
        hops: 2,
        way: "010",
    },
];

/// Parts of an access's time, in figures and in rows: a mean over all of them.
const PARTS: [Part; 4] = [
    Part { key: "computing", name: "computing, the program and its nodes", unit: "us", scale: 1e-3 },
    Part { key: "queued", name: "queued for a CPU, the program and its nodes", unit: "us", scale: 1e-3 },
    Part { key: "switches", name: "a CPU given up or taken away", unit: "times", scale: 1.0 },
    Part { key: "moved", name: "moved", unit: "KB", scale: 1e-3 },
];

/// Runs it.
pub fn run(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Report> {
    progress("starting nodes");
    let most = CASES.iter().map(|case| case.nodes).max().unwrap_or(1);
    let nodes = Nodes::start(options, most, MEMORY)?;
    let count = if options.quick { PAGE_COUNT_QUICK } else { PAGE_COUNT };
    let compiled = Compiled::new(options)?;
    let bare = relay::contestant(&compiled, count, CASES.iter().map(|case| (case.key, case.way)));
    let contestants = vec![Contestant::ours("hanare", || ours(&nodes, count)), bare];
    let outcomes = take_turns(options.rounds(), contestants, progress)?;
    let mut report = Report::new(NAME);
    for case in CASES {
        report.rows.extend(rows(case, &outcomes[0], &outcomes[1])?);
    }
    Ok(report)
}

/// A case beside its messages, and beside a message through as many processes. Below its goal, it also says what the limit is.
fn rows(case: &Case, ours: &Outcome, relay: &Outcome) -> Result<Vec<Row>> {
    let Case { key, what, nodes, hops, .. } = case;
    let title = format!("4 B, {nodes} nodes, tcp: {what}");
    let bare = baseline(ours, &format!("{hops} bare messages, one after another"));
    let first = compare(title.clone(), ours, key, &bare, &format!("hops_{hops}"), Some(1.0 / TIMES_MAX))?;
    let through = compare(title, ours, key, &relay::through(relay, case.way), key, None)?;
    with_parts(vec![first, through], ours, &format!("{key}_"), &PARTS)
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
    nodes.settle()?;
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
        nodes.settle()?;
        figures.extend(measure(case, (&pools, &mappings), nodes, count)?);
        drop(mappings);
        pools[0].remove(&name)?;
    }
    pools[0].remove("bench-bare")?;
    Ok(figures)
}

/// The median time of the last access, on a page of its own each, and what all of them used.
///
/// All pages have the accesses before it first. So the last ones follow each other at once, as the bare messages do. What is counted
/// meanwhile is theirs alone.
fn measure(case: &Case, (pools, mappings): (&[Pool], &[SharedMapping]), nodes: &Nodes, count: u64) -> Result<Figures> {
    let (last, before) = case.accesses.split_last().expect("a case has an access");
    let access = |(node, writes): (usize, bool), page: u64| {
        let offset = page * APART * PAGE_LEN + 64;
        match writes {
            true => mappings[node].write(offset, &(node as u32).to_le_bytes()),
            false => mappings[node].read(offset, &mut [0; 4]),
        }
    };
    for access_before in before {
        (0..count).try_for_each(|page| access(*access_before, page))?;
    }
    let moved = moved(pools, last.0)?;
    let watch = Watch::begin(nodes.processes())?;
    let mut times = Vec::with_capacity(count as usize);
    for page in 0..count {
        let start = Instant::now();
        access(*last, page)?;
        times.push(start.elapsed().as_nanos() as f64);
    }
    let used = watch.end()?.all();
    let moved = self::moved(pools, last.0)? - moved;
    let parts = [("computing", used.cpu), ("queued", used.queued), ("switches", used.parks + used.yields), ("moved", moved)];
    let parts = parts.map(|(part, sum)| (format!("{}_{part}", case.key), sum / count as f64));
    Ok(parts.into_iter().chain([(case.key.to_owned(), median(times))]).collect())
}

/// Bytes to and from a program so far, and of pages that other hosts gave back to their homes.
fn moved(pools: &[Pool], program: usize) -> Result<f64> {
    let traffic = pools[program].traffic();
    let mut recalled = 0;
    for pool in pools {
        recalled += pool.page_stats()?.iter().map(|stat| stat.recalled).sum::<u64>();
    }
    Ok((traffic.bytes_sent + traffic.bytes_received + recalled * PAGE_LEN) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_lead_by_nodes_of_the_case_and_as_far_as_its_hops() {
        for case in CASES {
            let stops: Vec<usize> = case.way.split('+').flat_map(str::chars).map(|node| node as usize - '0' as usize).collect();
            assert!(stops[0] == 0 && stops.iter().all(|node| *node < case.nodes), "{}", case.key);
            let last = case.accesses.last().map(|access| access.0);
            // The home asks its sharers at once, so they count as one. Messages to the program's own node are not hops.
            let legs = case.way.find('+').map_or(stops.len() + 1, |_| 4) as u32;
            let own = if last == Some(0) { 2 } else { u32::from(stops.len() > 1) };
            assert_eq!(legs - own, case.hops, "{}", case.key);
        }
    }
}
