//! How the claims on the matrix product are judged.
use super::product::Sweep;
use crate::claim::{Check, Judgement, Limit};
use crate::papers::virtual_queue::product::Scheme;
use crate::papers::virtual_queue::rules::RULES;
use crate::parameters::Parameters;

/// A judgement on the product.
pub type Judged = fn(&Parameters) -> Option<Judgement>;

/// The counts that the claims speak of.
const COUNTS: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];

fn sweep(parameters: &Parameters) -> Option<Sweep> {
    let sweep = Sweep::run(parameters, 1, 64);
    (sweep.counts == COUNTS).then_some(sweep)
}

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

fn parallel(sweep: &Sweep) -> Vec<usize> {
    sweep.counts.iter().copied().filter(|count| *count > 1).collect()
}

/// VQ-C1.
pub fn cc_against_plain(parameters: &Parameters) -> Option<Judgement> {
    let sweep = sweep(parameters)?;
    let ratio = |count| at(&sweep, Scheme::Cc, count) / at(&sweep, Scheme::CcPlain, count);
    let least = parallel(&sweep).into_iter().map(ratio).fold(f64::INFINITY, f64::min);
    Some(Judgement::new(
        format!("{}; {}", shown(&sweep, Scheme::Cc), shown(&sweep, Scheme::CcPlain)),
        "From two processors on; on one there is no communication and both are the same program. Both run the same order of the loops.",
        vec![Check::new("CC over CC', least", least, "x", Limit::Above(1.0))],
    )
    .or(
        "CC leads at every count",
        "CC leads by what figure 6 could show, as in VQ-C9",
        vec![Check::new("CC over CC', least", least, "x", Limit::AtLeast(1.0 + RULES.word("appears") / 100.0))],
    ))
}

/// VQ-C2.
pub fn plain(parameters: &Parameters) -> Option<Judgement> {
    let sweep = sweep(parameters)?;
    let values: Vec<f64> = parallel(&sweep).iter().map(|count| at(&sweep, Scheme::CcPlain, *count)).collect();
    let losses = values.windows(2).map(|pair| 1.0 - pair[1] / pair[0]);
    let greatest = losses.fold(f64::NEG_INFINITY, f64::max);
    let first = values[0] / at(&sweep, Scheme::CcPlain, 1);
    Some(Judgement::new(
        shown(&sweep, Scheme::CcPlain),
        "The loss should come with the first remote loads, and little more after that because only the remote share grows, not the distance. A cache that holds the rows of A from 16 processors on lifts the curve where a block meets many rows.",
        vec![
            Check::new("two processors over one", first, "x", Limit::Below(1.0)),
            Check::new("greatest loss a doubling", greatest, "", Limit::Below(RULES.word("only a little"))),
            Check::new(
                "greatest gain a doubling",
                -values.windows(2).map(|pair| 1.0 - pair[1] / pair[0]).fold(f64::INFINITY, f64::min),
                "",
                Limit::AtMost(RULES.share),
            ),
        ],
    ))
}

/// VQ-C3.
pub fn synchronisation(parameters: &Parameters) -> Option<Judgement> {
    let sweep = sweep(parameters)?;
    let shares = parallel(&sweep).into_iter().filter_map(|count| sweep.of(Scheme::Cc, count)).map(|run| run.synchronisation);
    let most = shares.fold(0.0, f64::max);
    Some(Judgement::new(
        format!("at most {} of the processors' time", percent(most)),
        "Store barriers, flags and locks are simulated message by message; one producer and one consumer share a buffer.",
        vec![Check::new("synchronisation, of the processors' time", most, "", Limit::Below(RULES.word("hardly shows")))],
    ))
}

/// VQ-C4.
pub fn few_processors_cc(parameters: &Parameters) -> Option<Judgement> {
    let sweep = sweep(parameters)?;
    let drops = FEW.map(|count| 1.0 - at(&sweep, Scheme::Cc, count) / at(&sweep, Scheme::Vq, count));
    let cached = FEW.iter().filter_map(|count| sweep.of(Scheme::Cc, *count)).map(|run| run.updates_cached).fold(0.0, f64::max);
    let list = FEW.iter().zip(drops).map(|(count, drop)| format!("{count}: {}", percent(drop)));
    let text =
        format!("below VQ by {}; {} of the updates find their block", list.collect::<Vec<_>>().join(", "), percent(cached));
    let checks = |drops: &[f64]| {
        vec![
            Check::new("updates that find their block", cached, "", Limit::Below(RULES.word("do not reach"))),
            Check::new(
                "CC below VQ, least",
                drops.iter().copied().fold(f64::INFINITY, f64::min),
                "",
                Limit::AtLeast(RULES.word("strongly")),
            ),
        ]
    };
    Some(
        Judgement::new(
            text,
            "The buffer is pushed out and no update finds it, as the paper says. Where a block meets every row it is missed once and then used for all of them, so the loss is strong only where the buffer is what keeps A from fitting (8).",
            checks(&drops),
        )
        .finding("No order of the loops that was tried satisfies this claim and VQ-C6 together on 2, 4 and 8 processors: orders that make CC lose also move VQ away from the one-processor efficiency. Table: hanare model virtual-queue orders."),
    )
}

/// VQ-C5.
pub fn many_processors_cc(parameters: &Parameters) -> Option<Judgement> {
    let sweep = sweep(parameters)?;
    let many: Vec<usize> = sweep.counts.iter().copied().filter(|count| *count > FEW[2]).collect();
    let over = |scheme| {
        let ratios = many.iter().map(|count| at(&sweep, Scheme::Cc, *count) / at(&sweep, scheme, *count));
        ratios.fold(0.0, f64::max)
    };
    let last = many.last().copied().unwrap_or(1);
    let disturbed = sweep.of(Scheme::Cc, last).map_or(0.0, |run| run.disturbed);
    let gap = 1.0 - at(&sweep, Scheme::Cc, last) / at(&sweep, Scheme::Vq, last);
    Some(Judgement::new(
        format!("on {last}: {} below VQ, {} of the time taken by updates", percent(gap), percent(disturbed)),
        "Each update of a cached block takes the cache's port for its four words; queues have buffers with two ports.",
        vec![
            Check::new("CC over VQ, 16 processors and more, greatest", over(Scheme::Vq), "x", Limit::Below(1.0)),
            Check::new("CC over VR, 16 processors and more, greatest", over(Scheme::Vr), "x", Limit::Below(1.0)),
            Check::new("time taken by updates, of the gap", disturbed / gap, "", Limit::Above(RULES.word("because of"))),
        ],
    ))
}

/// VQ-C6.
pub fn few_processors_queues(parameters: &Parameters) -> Option<Judgement> {
    let sweep = sweep(parameters)?;
    let alone = at(&sweep, Scheme::Vq, 1);
    let worst = |counts: &[usize]| {
        let of = |count: &usize| [Scheme::Vq, Scheme::Vr].map(|scheme| (at(&sweep, scheme, *count) / alone - 1.0).abs());
        counts.iter().flat_map(of).fold(0.0, f64::max)
    };
    let (two, three) = (worst(&FEW[..2]), worst(&FEW));
    let check = |worst| vec![Check::new("distance from the one-processor efficiency", worst, "", Limit::AtMost(RULES.share))];
    Some(
        Judgement::new(
            format!("within {} on 2 and 4 processors, within {} on 2, 4 and 8", percent(two), percent(three)),
            "Rows of A overflow the cache on one processor and on four alike. On 8 they just fit, so long as nothing else needs the cache.",
            check(two),
        )
        .or("few are 2 and 4", "few are 2, 4 and 8, as in VQ-C4", check(three))
        .finding("No order of the loops that was tried satisfies this claim and VQ-C4 together; see there."),
    )
}

/// VQ-C7.
pub fn no_overflow(parameters: &Parameters) -> Option<Judgement> {
    let sweep = sweep(parameters)?;
    let alone = at(&sweep, Scheme::Vq, 1);
    let many = sweep.counts.iter().copied().filter(|count| *count > FEW[2]);
    let least = many
        .flat_map(|count| [Scheme::Vq, Scheme::Vr].map(|scheme| at(&sweep, scheme, count) / alone))
        .fold(f64::INFINITY, f64::min);
    Some(Judgement::new(
        shown(&sweep, Scheme::Vq),
        "From 16 processors on the rows of A fit, and only the stream's blocks are not in the cache.",
        vec![Check::new("16 processors and more over one, least", least, "x", Limit::Above(1.0))],
    ))
}

/// VQ-C8.
pub fn never_beats(parameters: &Parameters) -> Option<Judgement> {
    let sweep = sweep(parameters)?;
    let ratios = parallel(&sweep).into_iter().map(|count| at(&sweep, Scheme::Vq, count) / at(&sweep, Scheme::Vr, count));
    let best = ratios.fold(f64::NEG_INFINITY, f64::max);
    Some(Judgement::new(
        format!("at best {:.2} % behind", (1.0 - best) * 100.0),
        "The same program; a block of VQ is written to main memory and read again unless the reader waits for it.",
        vec![Check::new("VQ over VR, greatest", best, "x", Limit::AtMost(1.0))],
    ))
}

/// VQ-C10.
pub fn hit_ratio(parameters: &Parameters) -> Option<Judgement> {
    let least = context_hits(&sweep(parameters)?).unwrap_or(0.0);
    Some(Judgement::new(
        format!("{} or more", percent(least)),
        "Write port, ring buffer and read port together; each context is fetched once, and a quick run has few accesses to spread that over.",
        vec![Check::fact(&RULES, "vq.hit_ratio", "context hits, least", least * 100.0)],
    ))
}

/// VQ-C11.
pub fn comparable(parameters: &Parameters) -> Option<Judgement> {
    let sweep = sweep(parameters)?;
    let ratios = parallel(&sweep).into_iter().map(|count| at(&sweep, Scheme::Vq, count) / at(&sweep, Scheme::Vr, count));
    let least = ratios.fold(f64::INFINITY, f64::min);
    Some(Judgement::new(
        format!("{} of VR or more", percent(least)),
        "Over every processor count.",
        vec![Check::new("VQ over VR, least", least, "x", Limit::AtLeast(RULES.word("comparable")))],
    ))
}
