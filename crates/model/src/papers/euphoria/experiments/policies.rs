//! Coherence policies on a program that shares and synchronises, and ICC's capacity.
use crate::outcome::{Axis, Outcome, Plot, Table};
use crate::papers::euphoria::cluster::{Block, Cluster, Counts, Op};
use crate::parameters::Parameters;

/// Node 0 writes shared blocks, node 1 reads them, round after round; the blocks lie in node 2.
fn share(parameters: &Parameters, is_deferred: bool) -> (f64, Counts) {
    let mut cluster = Cluster::new(&parameters.with("coherence.policy", f64::from(u8::from(is_deferred))));
    let blocks = parameters.count("defer.blocks");
    let rounds = parameters.count("defer.rounds") as u32;
    let each = |op: fn(Block) -> Op| (0..blocks).map(move |index| op(Block::of(2, index)));
    let (mut writer, mut reader) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        // Two passes over the blocks: the policies differ in what the second one costs.
        writer.extend(each(Op::Write).chain(each(Op::Write)));
        writer.extend([Op::Sync, Op::Signal(2 * round), Op::Await(2 * round + 1)]);
        reader.push(Op::Await(2 * round));
        reader.extend(each(Op::Read));
        reader.extend([Op::Sync, Op::Signal(2 * round + 1)]);
    }
    cluster.load_program(0, writer);
    cluster.load_program(1, reader);
    (cluster.run().as_us(), cluster.counts())
}

/// Immediate against deferred coherence.
// FEATURE: EU-F10
pub fn run(parameters: &Parameters) -> Outcome {
    let mut outcome = Outcome::new();
    let columns = [("policy", ""), ("time", "us"), ("requests", "count"), ("dummy accesses", "count"), ("lines set up", "count")];
    let mut table = Table::new("A producer and a consumer that synchronise", &columns);
    for (name, is_deferred) in [("immediate", false), ("deferred", true)] {
        let (time, counts) = share(parameters, is_deferred);
        table.row(vec![name.into(), time.into(), counts.requests.into(), counts.dummies.into(), counts.set_ups.into()]);
        outcome.headline(name, "us", time);
    }
    outcome.tables.push(table);
    let mut plot =
        Plot::new("Coherence policies against the blocks shared", Axis::log("blocks", "count"), Axis::log("time", "us"));
    let counts = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0];
    for (name, is_deferred) in [("immediate", false), ("deferred", true)] {
        plot.line(name, counts.map(|blocks| (blocks, share(&parameters.with("defer.blocks", blocks), is_deferred).0)));
    }
    outcome.plots.push(plot);
    outcome.note("The deferred policy is the authors' later protocol in outline (ICPADS 1996, from its abstract): stores to shared blocks merge until the next synchronisation.");
    outcome
}

/// Hit ratio when a remote array is read twice, each reading with a cold cache.
fn hit_ratio(parameters: &Parameters, blocks: u64) -> f64 {
    // A cache of one block sends every read to the arbiter.
    let parameters = super::optimised::optimise(&parameters.with("cache.capacity", 1.0).with("cache.ways", 1.0));
    let mut cluster = Cluster::new(&parameters);
    cluster.bring_up(0, 1);
    let program: Vec<Op> = (0..2).flat_map(|_| (0..blocks).map(|index| Op::Read(Block::of(1, index)))).collect();
    cluster.load_program(0, program);
    cluster.run();
    let counts = cluster.counts();
    1.0 - counts.icc_misses as f64 / counts.requests as f64
}

/// ICC's capacity against a working set of 1024 blocks.
pub fn run_icc(parameters: &Parameters) -> Outcome {
    const BLOCKS: u64 = 1024;
    let entry = parameters.bytes("icc.entry") as f64;
    let mut outcome = Outcome::new();
    let mut table =
        Table::new("ICC hit ratio, 1024 remote blocks read twice", &[("entries", "count"), ("lru", "%"), ("direct", "%")]);
    let mut lines = [Vec::new(), Vec::new()];
    for entries in [128.0, 256.0, 512.0, 768.0, 1024.0, 2048.0] {
        let sized = parameters.with("icc.capacity", entries * entry / (1024.0 * 1024.0));
        let ratios = [0.0, 1.0].map(|organisation| hit_ratio(&sized.with("icc.organisation", organisation), BLOCKS) * 100.0);
        table.row(vec![entries.into(), ratios[0].into(), ratios[1].into()]);
        lines[0].push((entries, ratios[0]));
        lines[1].push((entries, ratios[1]));
    }
    let mut plot = Plot::new("ICC hit ratio against its capacity", Axis::log("entries", "count"), Axis::new("hit ratio", "%"));
    let [lru, direct] = lines;
    plot.line("LRU", lru);
    plot.line("direct-mapped", direct);
    let whole = parameters.bytes("icc.capacity") as f64 / entry;
    outcome.note(format!(
        "At {} B an entry, the 64 MB of ICC hold {:.0} entries: the directories of {:.1} nodes.",
        entry,
        whole,
        whole / 4_194_304.0
    ));
    outcome.headline("entries of ICC", "count", whole);
    outcome.tables.push(table);
    outcome.plots.push(plot);
    outcome
}
