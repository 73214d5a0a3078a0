//! Verdicts on the claims of the matrix product.
use super::product::Sweep;
use crate::claim::ClaimResult;
use crate::papers::virtual_queue::product::Scheme;

/// The model's inputs: table 1, the matrix, the node.
pub const CALIBRATED_ON: [&str; 8] = [
    "vq.t1.cache.capacity",
    "vq.t1.cache.block",
    "vq.t1.memory.latency",
    "vq.t1.memory.bandwidth",
    "vq.t1.network.latency",
    "vq.t1.network.bandwidth",
    "vq.matrix",
    "vq.load_store_units",
];

/// The counts at which a processor's rows of A do not fit its cache; 512 KB / P against 64 KB.
const FEW: [usize; 3] = [2, 4, 8];

/// The least hit ratio of VQ's context caches over the counts with communication.
pub fn context_hits(sweep: &Sweep) -> Option<f64> {
    let runs = sweep.counts.iter().filter(|count| **count > 1).filter_map(|count| sweep.of(Scheme::Vq, *count));
    runs.map(|run| run.contexts.hit_ratio()).min_by(f64::total_cmp)
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn at(sweep: &Sweep, scheme: Scheme, count: usize) -> f64 {
    sweep.of(scheme, count).map_or(f64::NAN, |run| run.efficiency)
}

fn shown(sweep: &Sweep, scheme: Scheme) -> String {
    let values = sweep.efficiencies(scheme).into_iter().map(|(count, value)| format!("{count}: {value:.3}"));
    format!("{} {}", scheme.name(), values.collect::<Vec<_>>().join(", "))
}

/// VQ-C1 to C8, C10 and C11; none where the sweep lacks the counts they speak of.
pub fn on_the_product(sweep: &Sweep) -> Vec<ClaimResult> {
    if ![1, 2, 4, 8, 16, 32, 64].iter().all(|count| sweep.counts.contains(count)) {
        return Vec::new();
    }
    vec![
        cc_against_plain(sweep),
        plain(sweep),
        synchronisation(sweep),
        few_processors_cc(sweep),
        many_processors_cc(sweep),
        few_processors_queues(sweep),
        no_overflow(sweep),
        never_beats(sweep),
        hit_ratio(sweep),
        comparable(sweep),
    ]
}

fn parallel(sweep: &Sweep) -> Vec<usize> {
    sweep.counts.iter().copied().filter(|count| *count > 1).collect()
}

fn cc_against_plain(sweep: &Sweep) -> ClaimResult {
    let holds = parallel(sweep).iter().all(|count| at(sweep, Scheme::Cc, *count) > at(sweep, Scheme::CcPlain, *count));
    ClaimResult::judged(
        "VQ-C1",
        holds,
        format!("{}; {}", shown(sweep, Scheme::Cc), shown(sweep, Scheme::CcPlain)),
        "From two processors on; on one there is no communication and both are the same program.",
        &CALIBRATED_ON,
    )
}

fn plain(sweep: &Sweep) -> ClaimResult {
    let values: Vec<f64> = parallel(sweep).iter().map(|count| at(sweep, Scheme::CcPlain, *count)).collect();
    let losses: Vec<f64> = values.windows(2).map(|pair| 1.0 - pair[1] / pair[0]).collect();
    let is_flattening = losses.windows(2).all(|pair| pair[1] <= pair[0]) && losses.iter().all(|loss| *loss < 0.2);
    let alone = at(sweep, Scheme::CcPlain, 1);
    ClaimResult::judged(
        "VQ-C2",
        is_flattening && values[0] < alone,
        shown(sweep, Scheme::CcPlain),
        format!(
            "The loss comes with the first remote loads; each doubling after that costs {} or less, and less each time, because only the remote share grows, not the distance.",
            percent(losses.iter().copied().fold(0.0, f64::max))
        ),
        &CALIBRATED_ON,
    )
}

fn synchronisation(sweep: &Sweep) -> ClaimResult {
    let shares = parallel(sweep).into_iter().filter_map(|count| sweep.of(Scheme::Cc, count)).map(|run| run.synchronisation);
    let most = shares.fold(0.0, f64::max);
    ClaimResult::judged(
        "VQ-C3",
        most < 0.05,
        format!("at most {} of the processors' time", percent(most)),
        "Store barriers, flags and locks are simulated message by message; one producer and one consumer share a buffer.",
        &CALIBRATED_ON,
    )
}

fn few_processors_cc(sweep: &Sweep) -> ClaimResult {
    let drops = FEW.map(|count| 1.0 - at(sweep, Scheme::Cc, count) / at(sweep, Scheme::Vq, count));
    let cached = FEW.iter().filter_map(|count| sweep.of(Scheme::Cc, *count)).map(|run| run.updates_cached).fold(0.0, f64::max);
    let list = FEW.iter().zip(drops).map(|(count, drop)| format!("{count}: {}", percent(drop)));
    ClaimResult::judged(
        "VQ-C4",
        cached < 0.01 && drops.iter().all(|drop| *drop >= 0.1),
        format!("below VQ by {}; {} of the updates find their block", list.collect::<Vec<_>>().join(", "), percent(cached)),
        "The buffer is pushed out and no update finds it, as the paper says, but a buffer block is missed once and then used for all of a processor's rows, so the loss is strong only where the buffer is what keeps A from fitting (8). At 2 and 4 every scheme has dropped as far.",
        &CALIBRATED_ON,
    )
}

fn many_processors_cc(sweep: &Sweep) -> ClaimResult {
    let many: Vec<usize> = sweep.counts.iter().copied().filter(|count| *count > FEW[2]).collect();
    let holds = many.iter().all(|count| {
        let cc = at(sweep, Scheme::Cc, *count);
        cc < at(sweep, Scheme::Vq, *count) && cc < at(sweep, Scheme::Vr, *count)
    });
    let last = many.last().copied().unwrap_or(1);
    let disturbed = sweep.of(Scheme::Cc, last).map_or(0.0, |run| run.disturbed);
    let gap = 1.0 - at(sweep, Scheme::Cc, last) / at(sweep, Scheme::Vq, last);
    ClaimResult::judged(
        "VQ-C5",
        holds && disturbed > gap / 2.0,
        format!("on {last}: {} below VQ, {} of the time taken by updates", percent(gap), percent(disturbed)),
        "Each update of a cached block takes the cache's port for its four words; queues have buffers with two ports.",
        &CALIBRATED_ON,
    )
}

fn few_processors_queues(sweep: &Sweep) -> ClaimResult {
    let alone = at(sweep, Scheme::Vq, 1);
    let ratios = [2, 4].map(|count| [Scheme::Vq, Scheme::Vr].map(|scheme| at(sweep, scheme, count) / alone));
    let worst = ratios.iter().flatten().map(|ratio| (ratio - 1.0).abs()).fold(0.0, f64::max);
    ClaimResult::judged(
        "VQ-C6",
        worst <= 0.02,
        format!("within {} on 2 and 4 processors", percent(worst)),
        "Rows of A overflow the cache on one processor and on four alike; the stream adds a store a word to hundreds of loads.",
        &CALIBRATED_ON,
    )
}

fn no_overflow(sweep: &Sweep) -> ClaimResult {
    let alone = at(sweep, Scheme::Vq, 1);
    let many: Vec<usize> = sweep.counts.iter().copied().filter(|count| *count > FEW[2]).collect();
    let holds = many.iter().all(|count| at(sweep, Scheme::Vq, *count) > alone && at(sweep, Scheme::Vr, *count) > alone);
    ClaimResult::judged(
        "VQ-C7",
        holds,
        shown(sweep, Scheme::Vq),
        "From 16 processors on the rows of A fit, and only the stream's blocks are not in the cache.",
        &CALIBRATED_ON,
    )
}

fn never_beats(sweep: &Sweep) -> ClaimResult {
    let margin = parallel(sweep).into_iter().map(|count| at(sweep, Scheme::Vq, count) / at(sweep, Scheme::Vr, count) - 1.0);
    let best = margin.fold(f64::NEG_INFINITY, f64::max);
    ClaimResult::judged(
        "VQ-C8",
        best <= 0.0,
        format!("at best {:.2} % behind", -best * 100.0),
        "The same program; a block of VQ is written to main memory and read again unless the reader waits for it.",
        &CALIBRATED_ON,
    )
}

fn hit_ratio(sweep: &Sweep) -> ClaimResult {
    let least = context_hits(sweep).unwrap_or(0.0);
    ClaimResult::judged(
        "VQ-C10",
        least >= 0.98,
        format!("{} or more", percent(least)),
        "Write port, ring buffer and read port together; each context is fetched once, and a quick run has few accesses to spread that over.",
        &CALIBRATED_ON,
    )
    .stating(&["vq.hit_ratio"])
}

fn comparable(sweep: &Sweep) -> ClaimResult {
    let ratios = parallel(sweep).into_iter().map(|count| at(sweep, Scheme::Vq, count) / at(sweep, Scheme::Vr, count));
    let least = ratios.fold(f64::INFINITY, f64::min);
    ClaimResult::judged(
        "VQ-C11",
        least >= 0.95,
        format!("{} of VR or more", percent(least)),
        "Over every processor count; comparable is judged as a twentieth.",
        &CALIBRATED_ON,
    )
}
