//! The product with one thing changed: memory ports, on-chip buffers, reuse of a column, speed of the ring buffer's cache.
use super::product::refusal;
use crate::claim::{Check, Judgement, Limit};
use crate::outcome::{Axis, Outcome, Plot, Table};
use crate::papers::virtual_queue::machine::{Machine, count};
use crate::papers::virtual_queue::product::{Measured, ORDERS, Scheme, run_on};
use crate::papers::virtual_queue::rules::RULES;
use crate::parameters::Parameters;

fn measure(parameters: &Parameters, scheme: Scheme, processors: usize) -> Measured {
    run_on(parameters, scheme, processors).unwrap_or_default()
}

/// VQ with and without contention between queue traffic and misses, against VR.
pub fn run_contention(parameters: &Parameters) -> Outcome {
    if let Some(refused) = refusal(parameters, &[2, 4, 16, 32]) {
        return refused;
    }
    let split = parameters.with("memory.is_split", 1.0);
    let fast = parameters.with("memory.bandwidth", 8.0);
    let columns = [
        ("processors", ""),
        ("VQ", "of peak"),
        ("VQ, own memory port", "of peak"),
        ("VR", "of peak"),
        ("VQ's memory busy", "of time"),
        ("hit ratio", ""),
        ("gap", "%"),
        ("gap, own port", "%"),
        ("gap, memory 8 times as wide", "%"),
    ];
    let mut table = Table::new("What sets VQ and VR apart", &columns);
    let counts = [2, 4, 16, 32];
    let gap = |vq: &Measured, vr: &Measured| (1.0 - vq.efficiency / vr.efficiency) * 100.0;
    let rows = counts.map(|processors| {
        let vr = measure(parameters, Scheme::Vr, processors);
        let vq = measure(parameters, Scheme::Vq, processors);
        let apart = measure(&split, Scheme::Vq, processors);
        let wide = gap(&measure(&fast, Scheme::Vq, processors), &measure(&fast, Scheme::Vr, processors));
        let gaps = [gap(&vq, &vr), gap(&apart, &vr)];
        table.row(vec![
            (processors as u64).into(),
            vq.efficiency.into(),
            apart.efficiency.into(),
            vr.efficiency.into(),
            vq.memory_use.into(),
            vq.hit_ratio.into(),
            gaps[0].into(),
            gaps[1].into(),
            wide.into(),
        ]);
        (gaps, vq.memory_use)
    });
    let mut outcome = Outcome::new();
    outcome.tables.push(table);
    let mut plot = Plot::bars("VQ's distance from VR", &["2", "4", "16", "32"], Axis::new("efficiency lost", "%"));
    plot.bar("one memory", &rows.map(|row| row.0[0]));
    plot.bar("own memory port for queues", &rows.map(|row| row.0[1]));
    outcome.plots.push(plot);
    outcome
}

/// VQ-C9.
pub fn contention_not_bandwidth(parameters: &Parameters) -> Option<Judgement> {
    let split = parameters.with("memory.is_split", 1.0);
    let run = |parameters: &Parameters, scheme, count| run_on(parameters, scheme, count);
    let mut gaps = Vec::new();
    for count in [2, 4, 16, 32] {
        let (vq, vr, apart) =
            (run(parameters, Scheme::Vq, count)?, run(parameters, Scheme::Vr, count)?, run(&split, Scheme::Vq, count)?);
        let gap = |vq: &Measured| (1.0 - vq.efficiency / vr.efficiency) * 100.0;
        gaps.push((gap(&vq), gap(&apart), vq.memory_use));
    }
    let few = &gaps[..2];
    let greatest =
        |of: fn(&(f64, f64, f64)) -> f64, gaps: &[(f64, f64, f64)]| gaps.iter().map(of).fold(f64::NEG_INFINITY, f64::max);
    let cause = || {
        vec![
            Check::new(
                "gap on 2 and 4, least",
                few.iter().map(|gap| gap.0).fold(f64::INFINITY, f64::min),
                "%",
                Limit::Above(0.0),
            ),
            Check::new(
                "gap with an own port over the gap",
                greatest(|gap| gap.1 / gap.0, few),
                "",
                Limit::Below(RULES.word("because of")),
            ),
            Check::new("memory busy", greatest(|gap| gap.2, few), "", Limit::Below(RULES.word("not bandwidth"))),
            Check::new("gap on 16 and 32", greatest(|gap| gap.0, &gaps[2..]), "%", Limit::Below(RULES.word("insignificant"))),
        ]
    };
    let appears = Check::new("greatest gap", greatest(|gap| gap.0, &gaps), "%", Limit::AtLeast(RULES.word("appears")));
    Some(
        Judgement::new(
            format!(
                "on 2 and 4 processors {:.2} and {:.2} %, with an own port {:.2} and {:.2} %, memory busy {:.0} %; on 16 and 32 {:.3} and {:.3} %",
                gaps[0].0, gaps[1].0, gaps[0].1, gaps[1].1, gaps[1].2 * 100.0, gaps[2].0, gaps[3].0
            ),
            "A memory port of their own for the queues takes the difference away while the one memory is busy for a quarter of the time, so waiting behind each other is its cause, not bandwidth. But the paper speaks of a difference that its figure shows, and this one is too small for any figure.",
            cause(),
        )
        .or("the cause of the difference", "a difference that appears in figure 6", cause().into_iter().chain([appears]).collect()),
    )
}

/// Two-port buffers against buffers in the on-chip cache.
pub fn run_on_chip(parameters: &Parameters) -> Outcome {
    if let Some(refused) = refusal(parameters, &[2, 8, 16, 32, 64]) {
        return refused;
    }
    let inside = parameters.with("units.are_in_cache", 1.0);
    let mut table = Table::new(
        "Where the buffers are",
        &[
            ("processors", ""),
            ("two-port buffers", "of peak"),
            ("in the cache", "of peak"),
            ("port taken", "of time"),
            ("CC", "of peak"),
        ],
    );
    let mut plot = Plot::new("Buffers in the on-chip cache", Axis::log("processors", ""), Axis::new("FLOPC of peak", ""));
    let mut lines = [Vec::new(), Vec::new(), Vec::new()];
    for processors in [2, 8, 16, 32, 64] {
        let [outside, within, cc] = [(parameters, Scheme::Vq), (&inside, Scheme::Vq), (parameters, Scheme::Cc)]
            .map(|(p, scheme)| measure(p, scheme, processors));
        table.row(vec![
            (processors as u64).into(),
            outside.efficiency.into(),
            within.efficiency.into(),
            within.disturbed.into(),
            cc.efficiency.into(),
        ]);
        for (line, run) in lines.iter_mut().zip([&outside, &within, &cc]) {
            line.push((processors as f64, run.efficiency));
        }
    }
    for (name, line) in ["two-port buffers", "in the cache", "CC"].into_iter().zip(lines) {
        plot.line(name, line);
    }
    let mut outcome = Outcome::new();
    outcome.tables.push(table);
    outcome.plots.push(plot);
    outcome
        .note("In the cache a block passes the port when it enters the write buffer's line and when it fills the read buffer.");
    outcome
}

/// A column used for fewer rows at a time streams more often.
pub fn run_reuse(parameters: &Parameters) -> Outcome {
    if let Some(refused) = refusal(parameters, &[4]) {
        return refused;
    }
    let columns = [
        ("rows a column meets", "count"),
        ("CC", "of peak"),
        ("VQ", "of peak"),
        ("VR", "of peak"),
        ("updates that found their block", ""),
        ("VQ bypassed", "of blocks"),
    ];
    let mut table = Table::new("Reuse of a column on 4 processors", &columns);
    let mut plot =
        Plot::new("Reuse of a column on 4 processors", Axis::log("rows a column meets", "count"), Axis::new("FLOPC of peak", ""));
    let mut lines = [Vec::new(), Vec::new(), Vec::new()];
    let rows = parameters.count("matrix.order") as usize / 4;
    for (index, (_, most)) in ORDERS.iter().enumerate() {
        let reuse = (*most).min(rows) as u64;
        let sized = parameters.with("product.order", index as f64);
        let runs = [Scheme::Cc, Scheme::Vq, Scheme::Vr].map(|scheme| measure(&sized, scheme, 4));
        table.row(vec![
            reuse.into(),
            runs[0].efficiency.into(),
            runs[1].efficiency.into(),
            runs[2].efficiency.into(),
            runs[0].updates_cached.into(),
            runs[1].bypassed.into(),
        ]);
        for (line, run) in lines.iter_mut().zip(&runs) {
            line.push((reuse as f64, run.efficiency));
        }
    }
    for (name, line) in ["CC", "VQ", "VR"].into_iter().zip(lines) {
        plot.line(name, line);
    }
    let mut outcome = Outcome::new();
    outcome.tables.push(table);
    outcome.plots.push(plot);
    outcome
}

/// The ring buffer's cache: slower and slower, against the paper's rule.
// FEATURE: VQ-F22
pub fn run_ring_cache(parameters: &Parameters) -> Outcome {
    let processors = 16;
    if let Some(refused) = refusal(parameters, &[processors]) {
        return refused;
    }
    let base = measure(parameters, Scheme::Vq, processors);
    let machine = Machine::new(parameters);
    let block = count(machine.memory_busy) as f64;
    // SOURCE: [VQ §4.3]: access cycles = block access cycles of main memory / share of its accesses that are for queues.
    let rule = block / base.queue_share;
    let mut table = Table::new(
        format!("Access time of the ring buffer's cache, {processors} processors"),
        &[("access", "cycles"), ("VQ", "of peak"), ("lost", "%")],
    );
    let mut plot = Plot::new("Speed of the ring buffer's cache", Axis::log("access", "cycles"), Axis::new("FLOPC of peak", ""));
    let mut line = Vec::new();
    for access in [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0] {
        let run = measure(&parameters.with("ring.access", access), Scheme::Vq, processors);
        let lost = (1.0 - run.efficiency / base.efficiency) * 100.0;
        table.row(vec![access.into(), run.efficiency.into(), lost.into()]);
        line.push((access, run.efficiency));
    }
    plot.line("VQ", line);
    let mut outcome = Outcome::new();
    outcome.tables.push(table);
    outcome.plots.push(plot);
    outcome.headline("access time by the paper's rule", "cycles", rule);
    outcome.note(format!("{:.0} % of the memory's accesses are for the queue, so the rule allows {rule:.1} cycles; it is made for a memory without a pause, and ours is busy for {:.0} % of the time.", base.queue_share * 100.0, base.memory_use * 100.0));
    outcome
}
