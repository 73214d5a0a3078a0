//! Parallel quicksort: a real sort whose block accesses the cluster runs.
use crate::claim::{Check, Judgement, Limit};
use crate::memo::memo;
use crate::outcome::{Axis, Outcome, Plot, Table};
use crate::papers::euphoria::cluster::{Block, Cluster, Op};
use crate::parameters::Parameters;

const KEYS_PER_BLOCK: usize = 8;
/// Ranges up to this length are sorted by insertion.
const SHORT: usize = 8;
const PARTITIONED: u32 = 1;
const SORTED: u32 = 2;

/// The program a sort leaves behind: blocks touched and cycles between them.
struct Tape {
    ops: Vec<Op>,
    cycles: u64,
    compare: u64,
    /// Blocks touched last; touching them again is a hit that needs no operation.
    recent: [(usize, bool); 4],
    next: usize,
}

impl Tape {
    fn new(compare: u64) -> Tape {
        Tape { ops: Vec::new(), cycles: 0, compare, recent: [(usize::MAX, false); 4], next: 0 }
    }

    fn touch(&mut self, key: usize, is_write: bool) {
        let block = key / KEYS_PER_BLOCK;
        self.cycles += self.compare;
        if self.recent.iter().any(|(known, was_written)| *known == block && (*was_written || !is_write)) {
            return;
        }
        self.ops.push(Op::Compute(std::mem::take(&mut self.cycles)));
        let block_of = Block::of(0, block as u64);
        self.ops.push(if is_write { Op::Write(block_of) } else { Op::Read(block_of) });
        self.recent[self.next] = (block, is_write);
        self.next = (self.next + 1) % self.recent.len();
    }

    fn finish(mut self) -> Vec<Op> {
        self.ops.push(Op::Compute(self.cycles));
        self.ops
    }
}

/// Hoare's partition of `keys[low..high]`; returns where the upper part starts.
fn partition(keys: &mut [u32], low: usize, high: usize, tape: &mut Tape) -> usize {
    let middle = (low + high - 1) / 2;
    // The median of three goes to the middle, where the partition needs its pivot.
    for (a, b) in [(low, middle), (middle, high - 1), (low, middle)] {
        tape.touch(a, false);
        tape.touch(b, false);
        if keys[a] > keys[b] {
            keys.swap(a, b);
            tape.touch(a, true);
            tape.touch(b, true);
        }
    }
    let pivot = keys[middle];
    let (mut left, mut right) = (low, high - 1);
    loop {
        while {
            tape.touch(left, false);
            keys[left] < pivot
        } {
            left += 1;
        }
        while {
            tape.touch(right, false);
            keys[right] > pivot
        } {
            right -= 1;
        }
        if left >= right {
            return right + 1;
        }
        keys.swap(left, right);
        tape.touch(left, true);
        tape.touch(right, true);
        left += 1;
        right -= 1;
    }
}

fn insertion(keys: &mut [u32], low: usize, high: usize, tape: &mut Tape) {
    for start in low + 1..high {
        let mut at = start;
        tape.touch(at, false);
        while at > low && keys[at - 1] > keys[at] {
            keys.swap(at - 1, at);
            tape.touch(at - 1, true);
            tape.touch(at, true);
            at -= 1;
        }
    }
}

fn quicksort(keys: &mut [u32], low: usize, high: usize, tape: &mut Tape) {
    let mut open = vec![(low, high)];
    while let Some((low, high)) = open.pop() {
        if high - low <= SHORT {
            insertion(keys, low, high, tape);
        } else {
            let middle = partition(keys, low, high, tape);
            open.extend([(middle, high), (low, middle)]);
        }
    }
}

fn keys(parameters: &Parameters) -> Vec<u32> {
    let mut state = parameters.count("seed");
    let draw = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u32
    };
    (0..parameters.count("sort.keys")).map(draw).collect()
}

/// Seconds on one processor with the keys in its own memory.
fn alone(parameters: &Parameters) -> f64 {
    let (mut keys, mut tape) = (keys(parameters), Tape::new(parameters.count("sort.compare")));
    let count = keys.len();
    quicksort(&mut keys, 0, count, &mut tape);
    let mut cluster = Cluster::new(parameters);
    cluster.load_program(0, tape.finish());
    cluster.run().as_s()
}

/// Two nodes' run.
struct Together {
    seconds: f64,
    /// When node 0 had its last miss: about the end of its own part.
    own_seconds: f64,
    /// Share of the keys that node 1 sorts.
    remote_share: f64,
}

/// Milliseconds on one processor and on two nodes.
pub(super) fn milliseconds(parameters: &Parameters) -> (f64, f64) {
    *memo("euphoria quicksort", parameters, |parameters| (alone(parameters) * 1e3, together(parameters).seconds * 1e3))
}

/// Both nodes' programs, and the share of the keys that node 1 sorts: node 0 partitions once, then each node sorts a part in
/// node 0's memory.
// FEATURE: EU-F20
pub(super) fn programs(parameters: &Parameters) -> ([Vec<Op>; 2], f64) {
    let mut keys = keys(parameters);
    let count = keys.len();
    let mut tapes = [(); 2].map(|()| Tape::new(parameters.count("sort.compare")));
    let middle = partition(&mut keys, 0, count, &mut tapes[0]);
    let [mut here, mut there] = tapes;
    here.ops.push(Op::Sync);
    here.ops.push(Op::Signal(PARTITIONED));
    there.ops.push(Op::Await(PARTITIONED));
    quicksort(&mut keys, 0, middle, &mut here);
    quicksort(&mut keys, middle, count, &mut there);
    let mut here = here.finish();
    let mut there = there.finish();
    there.extend([Op::Sync, Op::Signal(SORTED)]);
    // The end of node 0's own part is seen before it waits for the other's.
    here.push(Op::Await(SORTED));
    ([here, there], (count - middle) as f64 / count as f64)
}

fn together(parameters: &Parameters) -> Together {
    let ([here, there], remote_share) = programs(parameters);
    let mut cluster = Cluster::new(parameters);
    cluster.load_program(0, here);
    cluster.load_program(1, there);
    let end = cluster.run().as_s();
    let own = cluster.answered().iter().filter(|answered| answered.node == 0).map(|answered| answered.end).max();
    Together { seconds: end, own_seconds: own.map_or(end, |last| last.as_s()), remote_share }
}

/// One processor against two nodes, today and optimised.
pub fn run(parameters: &Parameters) -> Outcome {
    let optimised = super::optimised::optimise(parameters);
    let mut outcome = Outcome::new();
    let columns = [
        ("system", ""),
        ("one processor", "ms"),
        ("two nodes", "ms"),
        ("node 0's last miss", "ms"),
        ("keys of node 1", "%"),
        ("speed-up", "x"),
    ];
    let mut table = Table::new(format!("Quicksort of {} keys", parameters.count("sort.keys")), &columns);
    let mut plot = Plot::bars("Quicksort", &["today", "optimised"], Axis::log("time", "ms"));
    let results = [("today", parameters), ("optimised", &optimised)].map(|(name, system)| {
        let one = alone(system) * 1e3;
        let two = together(system);
        let ms = two.seconds * 1e3;
        table.row(vec![
            name.into(),
            one.into(),
            ms.into(),
            (two.own_seconds * 1e3).into(),
            (two.remote_share * 100.0).into(),
            (one / ms).into(),
        ]);
        (one, ms)
    });
    plot.bar("one processor", &results.map(|result| result.0));
    plot.bar("two nodes", &results.map(|result| result.1));
    outcome.tables.push(table);
    outcome.plots.push(plot);
    outcome.headline("one processor", "ms", results[0].0);
    outcome.headline("two nodes", "ms", results[0].1);
    outcome
}

/// EU-C12.
pub fn slower_on_two(parameters: &Parameters) -> Option<Judgement> {
    let ((one, two), (one_optimised, two_optimised)) =
        (milliseconds(parameters), milliseconds(&super::optimised::optimise(parameters)));
    Some(Judgement::new(
        format!("{two:.1} ms on two nodes, {one:.1} ms on one; optimised {two_optimised:.1} against {one_optimised:.1} ms"),
        "The second node reads and writes back its half over the line, block by block; the paper's size is not given, ours overflows the cache in one processor.",
        vec![Check::new("two nodes over one processor", two / one, "x", Limit::Above(1.0))],
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::papers::euphoria::parameters;

    #[test]
    fn the_sort_sorts_and_touches_every_block() {
        let mut sorted = keys(&parameters().with("sort.keys", 1000.0));
        let mut tape = Tape::new(1);
        let mut expected = sorted.clone();
        expected.sort_unstable();
        quicksort(&mut sorted, 0, 1000, &mut tape);
        assert_eq!(sorted, expected);
        let ops = tape.finish();
        assert!((0..125).all(|block| ops.contains(&Op::Read(Block::of(0, block)))));
    }
}
