//! Own memory: tables 1 and 3, and the claims on them.
use crate::claim::{Check, Judgement, Limit};
use crate::facts::facts;
use crate::outcome::{Axis, Outcome, Plot, Table, Tolerance};
use crate::papers::euphoria::bus::{memory_busy, response, steady};
use crate::papers::euphoria::rules::RULES;
use crate::papers::euphoria::timing::{Access, Timing};
use crate::parameters::Parameters;

/// Bursts in a steady state; the pattern repeats from the second on.
const BURSTS: u64 = 1_000;

struct Row {
    access: Access,
    is_active: bool,
    time: &'static str,
    cycles: &'static str,
}

const fn row(access: usize, is_active: bool, time: &'static str, cycles: &'static str) -> Row {
    Row { access: Access::ALL[access], is_active, time, cycles }
}

const ROWS: [Row; 8] = [
    row(0, false, "eu.t1.single.read", "eu.t1.single.read.cycles"),
    row(1, false, "eu.t1.single.write", "eu.t1.single.write.cycles"),
    row(2, false, "eu.t1.burst.read", "eu.t1.burst.read.cycles"),
    row(3, false, "eu.t1.burst.write", "eu.t1.burst.write.cycles"),
    row(0, true, "eu.t3.single.read", "eu.t3.single.read.cycles"),
    row(1, true, "eu.t3.single.write", "eu.t3.single.write.cycles"),
    row(2, true, "eu.t3.burst.read", "eu.t3.burst.read.cycles"),
    row(3, true, "eu.t3.burst.write", "eu.t3.burst.write.cycles"),
];

const THROUGHPUTS: [(bool, bool, &str); 4] = [
    (false, false, "eu.t1.throughput.read"),
    (true, false, "eu.t1.throughput.write"),
    (false, true, "eu.t3.throughput.read"),
    (true, true, "eu.t3.throughput.write"),
];

/// Tables 1 and 3.
// FEATURE: EU-F18
pub fn run(parameters: &Parameters) -> Outcome {
    let timing = Timing::new(parameters);
    let mut outcome = Outcome::new();
    responses(&mut outcome, &timing);
    throughputs(&mut outcome, &timing);
    outcome.produce("eu.directory_entries", (parameters.bytes("node.memory") / timing.block) as f64, Tolerance::Exact);
    outcome.note(
        "The text's 13 extra cycles (suspect: the tables differ by 12, 13, 8 and 1) fit all four entries when the memory's wait runs beside the check and a write-back of an exclusive block is not checked.",
    );
    outcome
}

fn responses(outcome: &mut Outcome, timing: &Timing) {
    let columns = [("access", ""), ("CK", ""), ("model", "cycles"), ("model", "ns"), ("paper", "ns")];
    let mut table = Table::new("Response of own memory (tables 1 and 3)", &columns);
    let mut plot = Plot::bars(
        "Response of own memory",
        &["single read", "single write", "burst read", "burst write"],
        Axis::new("response", "ns"),
    );
    let (mut inactive, mut active) = (Vec::new(), Vec::new());
    for row in &ROWS {
        let cycles = response(timing, row.access, row.is_active);
        let ns = timing.bus(cycles).as_ns();
        let ck = if row.is_active { "active" } else { "inactive" };
        table.row(vec![row.access.name().into(), ck.into(), cycles.into(), ns.into(), facts().cell(row.time)]);
        outcome.produce(row.time, ns, Tolerance::Absolute(0.5));
        outcome.produce(row.cycles, cycles as f64, Tolerance::Exact);
        if row.is_active {
            active.push(ns)
        } else {
            inactive.push(ns)
        }
        outcome.headline(format!("{}, CK {ck}", row.access.name()), "ns", ns);
    }
    plot.bar("CK inactive", &inactive);
    plot.bar("CK active", &active);
    let keys = |is_active: bool| ROWS.iter().filter(|row| row.is_active == is_active).map(|row| row.time).collect::<Vec<_>>();
    plot.printed("paper, CK inactive", &keys(false));
    plot.printed("paper, CK active", &keys(true));
    outcome.tables.push(table);
    outcome.plots.push(plot);
}

fn throughputs(outcome: &mut Outcome, timing: &Timing) {
    let columns =
        [("access", ""), ("CK", ""), ("interval", "cycles"), ("retries", "count"), ("model", "MB/s"), ("paper", "MB/s")];
    let mut table = Table::new("Repeated bursts to own memory", &columns);
    for (is_write, is_active, fact) in THROUGHPUTS {
        let steady = steady(timing, is_write, is_active, BURSTS);
        let rate = steady.bytes_per_second(timing.block, timing.bus_hertz) / 1e6;
        table.row(vec![
            if is_write { "burst write" } else { "burst read" }.into(),
            if is_active { "active" } else { "inactive" }.into(),
            steady.interval.into(),
            steady.retries.into(),
            rate.into(),
            facts().cell(fact),
        ]);
        outcome.produce(fact, rate, Tolerance::Absolute(0.05));
        if !is_active && !is_write {
            outcome.produce("eu.t1.spacing", steady.interval, Tolerance::Exact);
            outcome.produce("eu.t1.retries", steady.retries, Tolerance::Exact);
        }
    }
    outcome.tables.push(table);
}

/// The bus solved from table 3 and the read responses of table 1, without the writes and throughputs of table 1.
pub fn on_table_3(parameters: &Parameters) -> Parameters {
    let number = |key: &str| facts().number(key);
    let (block, width) = (parameters.bytes("cache.block"), parameters.bytes("bus.width"));
    let interval = |key: &str| (block as f64 * parameters.hertz("bus.clock") as f64 / (number(key) * 1e6)).round();
    let check = number("eu.t3.extra_cycles");
    let next_address = interval("eu.t3.throughput.read") - check;
    let period = (interval("eu.t3.throughput.write") - next_address - 3.0 * parameters.get("ck.lookup")) / 2.0;
    let transfer = number("eu.t3.single.write.cycles") - check;
    parameters
        .fitted("ck.check", check)
        .fitted("bus.next_address", next_address)
        .fitted("bus.transfer", transfer)
        .fitted("memory.wait_single", number("eu.t1.single.read.cycles") - transfer)
        .fitted("memory.wait_burst", number("eu.t1.burst.read.cycles") + 1.0 - transfer - block.div_ceil(width) as f64)
        .fitted("bus.address_tenure", (period - parameters.get("bus.back_off")).floor())
}

/// EU-C1.
pub fn local_writes(parameters: &Parameters) -> Option<Judgement> {
    let timing = Timing::new(parameters);
    let (read, write) = (steady(&timing, false, false, BURSTS), steady(&timing, true, false, BURSTS));
    let of = |index: usize| response(&timing, Access::ALL[index], false);
    let (reads, writes) = ([of(0), of(2)], [of(1), of(3)]);
    let rate = read.bytes_per_second(timing.block, timing.bus_hertz) / 1e6;
    Some(Judgement::new(
        format!(
            "write {} and {} cycles against read {} and {}; {} cycles and {rate:.1} MB/s for both",
            writes[0], writes[1], reads[0], reads[1], read.interval
        ),
        "The write buffer hides the memory's wait; reads and writes occupy the same memory and are retried on the same grid. The single write's 11 cycles come back out of table 3 through the text's 13 and are shown, not judged; burst write, spacing and throughput follow.",
        vec![
            Check::new("burst write over burst read", writes[1] as f64 / reads[1] as f64, "x", Limit::Below(1.0)),
            Check::fact(&RULES, "eu.t1.spacing", "interval of burst reads", read.interval),
            Check::new(
                "interval of writes less that of reads",
                write.interval - read.interval,
                "cycles",
                Limit::Near { printed: 0.0, tolerance: 0.0 },
            ),
        ],
    ))
}

/// EU-C4: table 3 from table 1 and the check alone.
pub fn checked_accesses(parameters: &Parameters) -> Option<Judgement> {
    let timing = Timing::new(parameters);
    let grown: Vec<u64> = Access::ALL.iter().map(|a| response(&timing, *a, true) - response(&timing, *a, false)).collect();
    let burst_write = response(&timing, Access::BURST_WRITE, false) as f64;
    let share = |index: usize| grown[index] as f64 / burst_write;
    let least = grown[..3].iter().min().map_or(0.0, |more| *more as f64 / burst_write);
    Some(Judgement::new(
        format!("+{}, +{}, +{} and +{} cycles", grown[0], grown[1], grown[2], grown[3]),
        "Every address waits for the check, beside which the memory already works; a write-back of an exclusive block costs CK one look, chosen as one cycle, and two would exceed a tenth. The check's 13 cycles are Table 3 less Table 1 for the single write.",
        vec![
            Check::new(
                "least growth of the other three, of a burst write's response",
                least,
                "",
                Limit::Above(RULES.word("stays near")),
            ),
            Check::new("growth of the burst write, of its response", share(3), "", Limit::AtMost(RULES.word("stays near"))),
        ],
    ))
}

/// EU-C5 for every bus that table 1 leaves possible.
pub fn checked_reads_are_faster(parameters: &Parameters) -> Option<Judgement> {
    let spacing = facts().number("eu.t1.spacing");
    let retries = facts().number("eu.t1.retries");
    let tenure = parameters.get("bus.address_tenure");
    let mut intervals = Vec::new();
    for period in tenure as u64..(spacing / retries) as u64 {
        let possible = parameters
            .fitted("bus.next_address", spacing - retries * period as f64)
            .fitted("bus.back_off", period as f64 - tenure);
        let possible = Timing::new(&possible);
        let inactive = steady(&possible, false, false, BURSTS);
        if inactive.interval == spacing && memory_busy(&possible) as f64 <= spacing {
            intervals.push(steady(&possible, false, true, BURSTS).interval);
        }
    }
    let slowest = intervals.iter().copied().fold(f64::NAN, f64::max);
    let fastest = intervals.iter().copied().fold(f64::INFINITY, f64::min);
    Some(Judgement::new(
        format!("every {fastest} to {slowest} cycles against {spacing}"),
        "CK lets a checked address through in the cycle in which the memory is free, while retries come on a grid. Holds for every retry period that gives table 1's spacing with its two retries.",
        vec![Check::new("slowest interval of checked reads over the unchecked", slowest / spacing, "x", Limit::Below(1.0))],
    ))
}
