//! Table 4: copies of 4 KB between local and remote memory, coherence active.
use std::rc::Rc;

use crate::claim::{Check, Judgement, Limit};
use crate::facts::facts;
use crate::memo::memo;
use crate::outcome::{Axis, Outcome, Plot, Table, Tolerance};
use crate::papers::euphoria::cluster::{Block, Cluster, Counts, Op};
use crate::papers::euphoria::rules::RULES;
use crate::parameters::Parameters;

/// Copies before the timed ones: they fill the cache, so that every further copy drives dirty blocks out.
const WARM_COPIES: u64 = 8;

/// Source and destination, as the table's key.
pub(super) const PLACES: [(bool, bool, &str, &str); 4] = [
    (false, false, "local to local", "eu.t4.local_local"),
    (false, true, "local to remote", "eu.t4.local_remote"),
    (true, false, "remote to local", "eu.t4.remote_local"),
    (true, true, "remote to remote", "eu.t4.remote_remote"),
];

struct Copied {
    seconds: f64,
    counts: Counts,
}

/// The loop of `count` copies from the one with this number on: node 0 copies, remote is node 1's memory.
pub(super) fn program(
    parameters: &Parameters,
    [is_source_remote, is_target_remote]: [bool; 2],
    first: u64,
    count: u64,
) -> Vec<Op> {
    let blocks = parameters.bytes("copy.size") / parameters.bytes("cache.block");
    // The target lies half a node's memory away, so that no block is source and target.
    let target_base = 1 << 21;
    let ops = (first * blocks..(first + count) * blocks).flat_map(|index| {
        let source = Block::of(usize::from(is_source_remote), index);
        let target = Block::of(usize::from(is_target_remote), target_base + index);
        [Op::Read(source), Op::Compute(parameters.count("copy.loop")), Op::Write(target)]
    });
    ops.collect()
}

/// Seconds for all copies of the table; node 0's processor copies, remote is node 1's memory.
// FEATURE: EU-F19
fn copy(parameters: &Parameters, is_source_remote: bool, is_target_remote: bool) -> Copied {
    let mut cluster = Cluster::new(parameters);
    let (simulated, times) = (parameters.count("copy.simulated"), parameters.count("copy.times"));
    let program = |first, count| program(parameters, [is_source_remote, is_target_remote], first, count);
    cluster.load_program(0, program(0, WARM_COPIES));
    let started = cluster.run();
    let before = cluster.counts();
    cluster.load_program(0, program(WARM_COPIES, simulated));
    let ended = cluster.run();
    let after = cluster.counts();
    let counts = Counts {
        requests: after.requests - before.requests,
        icc_misses: after.icc_misses - before.icc_misses,
        set_ups: after.set_ups - before.set_ups,
        write_backs: after.write_backs - before.write_backs,
        overtaken: after.overtaken - before.overtaken,
        ..after
    };
    Copied { seconds: (ended - started).as_s() * times as f64 / simulated as f64, counts }
}

/// Table 4 and the claims on it.
pub fn run(parameters: &Parameters) -> Outcome {
    let mut outcome = Outcome::new();
    let columns = [
        ("from, to", ""),
        ("model", "s"),
        ("paper", "s"),
        ("per block", "us"),
        ("line set-ups", "per block"),
        ("overtaken", "per block"),
        ("write-backs", "per block"),
    ];
    let mut table = Table::new("1000 copies of 4 KB (table 4)", &columns);
    let mut plot = Plot::bars("1000 copies of 4 KB", &PLACES.map(|place| place.2), Axis::log("time", "s"));
    let blocks = parameters.bytes("copy.size") / parameters.bytes("cache.block");
    let simulated = (blocks * parameters.count("copy.simulated")) as f64;
    let all = (blocks * parameters.count("copy.times")) as f64;
    let seconds = PLACES.map(|(source, target, name, fact)| {
        let copied = copy(parameters, source, target);
        let per_block = |count: u64| count as f64 / simulated;
        let counts = copied.counts;
        table.row(vec![
            name.into(),
            copied.seconds.into(),
            facts().cell(fact),
            (copied.seconds * 1e6 / all).into(),
            per_block(counts.set_ups).into(),
            per_block(counts.overtaken).into(),
            per_block(counts.write_backs).into(),
        ]);
        // No value of table 4 went in; the count of the arbiter's steps is our reading of section 2.
        outcome.produce(fact, copied.seconds, Tolerance::Relative(0.1));
        outcome.headline(name, "s", copied.seconds);
        copied.seconds
    });
    plot.bar("model", &seconds);
    plot.printed("paper", &PLACES.map(|place| place.3));
    outcome.tables.push(table);
    outcome.plots.push(plot);
    outcome.note("ICC is cold: every block is copied once, so each first request fetches its directory entry.");
    outcome.note("A store miss that the bus retries is overtaken by the next remote load and asked for again; this happens only where both source and target are remote.");
    outcome
}

/// Table 4 in seconds, in the order of [`PLACES`].
pub(super) fn seconds(parameters: &Parameters) -> Rc<[f64; 4]> {
    memo("euphoria copies", parameters, |parameters| {
        PLACES.map(|(source, target, _, _)| copy(parameters, source, target).seconds)
    })
}

/// EU-C10.
pub fn order(parameters: &Parameters) -> Option<Judgement> {
    let [local_local, local_remote, remote_local, remote_remote] = *seconds(parameters);
    Some(Judgement::new(
        format!("{local_local:.3}, {remote_local:.1}, {local_remote:.1}, {remote_remote:.1} s"),
        "The cluster runs the copy loop block by block; no value of table 4 went in.",
        vec![
            Check::new("local-local over remote-local", local_local / remote_local, "x", Limit::Below(RULES.word("much less"))),
            Check::new("remote-local over local-remote", remote_local / local_remote, "x", Limit::Below(1.0)),
            Check::new(
                "remote-remote over local-remote",
                remote_remote / local_remote,
                "x",
                Limit::Above(RULES.word("much more")),
            ),
        ],
    ))
}

/// EU-C11.
pub fn more_than_twice(parameters: &Parameters) -> Option<Judgement> {
    let [_, local_remote, remote_local, remote_remote] = *seconds(parameters);
    let ratios = [remote_remote / local_remote, remote_remote / remote_local];
    let check = |what: &str, ratio| {
        Check::new(format!("remote-remote over {what}"), ratio, "x", Limit::Above(RULES.word("more than twice")))
    };
    Some(Judgement::new(
        format!("{:.2} and {:.2} times", ratios[0], ratios[1]),
        "Two remote reads and a write-back a block, and a store miss that a load overtakes once a block, as the paper's explanation has it; how often it happens is our reading.",
        vec![check("local-remote", ratios[0]), check("remote-local", ratios[1])],
    ))
}
