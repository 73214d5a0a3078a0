//! Own memory: tables 1 and 3, and the claims on them.
use crate::claim::ClaimResult;
use crate::facts::facts;
use crate::outcome::{Axis, Outcome, Plot, Table, Tolerance};
use crate::papers::euphoria::bus::{memory_busy, response, steady};
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
    outcome.claims.extend([local_writes(&timing), checked_accesses(&timing), checked_reads_are_faster(&timing)]);
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
        table.row(vec![row.access.name().into(), ck.into(), cycles.into(), ns.into(), facts().number(row.time).into()]);
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
            facts().number(fact).into(),
        ]);
        outcome.produce(fact, rate, Tolerance::Absolute(0.05));
        if !is_active && !is_write {
            outcome.produce("eu.t1.spacing", steady.interval, Tolerance::Exact);
            outcome.produce("eu.t1.retries", steady.retries, Tolerance::Exact);
        }
    }
    outcome.tables.push(table);
}

/// EU-C1 with the bus calibrated on table 3: interval of checked reads and writes, and the check.
fn local_writes(timing: &Timing) -> ClaimResult {
    let number = |key: &str| facts().number(key);
    let interval = |key: &str| (timing.block as f64 * timing.bus_hertz as f64 / (number(key) * 1e6)).round() as u64;
    let check = number("eu.t3.extra_cycles") as u64;
    let next_address = interval("eu.t3.throughput.read").saturating_sub(check);
    let period = interval("eu.t3.throughput.write").saturating_sub(next_address + 3 * timing.lookup) / 2;
    let transfer = number("eu.t3.single.write.cycles") as u64 - check;
    let fitted = Timing {
        check,
        next_address,
        transfer,
        wait_single: number("eu.t1.single.read.cycles") as u64 - transfer,
        wait_burst: (number("eu.t1.burst.read.cycles") as u64 + 1).saturating_sub(transfer + timing.beats(Access::BURST_READ)),
        address_tenure: period.saturating_sub(timing.back_off).max(1),
        ..timing.clone()
    };
    let (read, write) = (steady(&fitted, false, false, BURSTS), steady(&fitted, true, false, BURSTS));
    let writes = [1, 3].map(|index| response(&fitted, Access::ALL[index], false));
    let reads = [0, 2].map(|index| response(&fitted, Access::ALL[index], false));
    let holds = writes[0] < reads[0] && writes[1] < reads[1] && read.interval == write.interval && read.interval == 22.0;
    let rate = read.bytes_per_second(timing.block, timing.bus_hertz) / 1e6;
    ClaimResult::judged(
        "EU-C1",
        holds,
        format!("write {} and {} cycles against read {} and {}; {} cycles and {rate:.1} MB/s for both", writes[0], writes[1], reads[0], reads[1], read.interval),
        "The write buffer hides the memory's wait; reads and writes occupy the same memory and are retried on the same grid. Bus timing solved from table 3 and the read responses; spacing, writes and throughput follow.",
        &["eu.t3.extra_cycles", "eu.t3.throughput.read", "eu.t3.throughput.write", "eu.t3.single.write.cycles", "eu.t1.single.read.cycles", "eu.t1.burst.read.cycles"],
    )
    .stating(&["eu.t1.single.write", "eu.t1.single.write.cycles", "eu.t1.burst.write", "eu.t1.burst.write.cycles", "eu.t1.throughput.read", "eu.t1.throughput.write", "eu.t1.spacing", "eu.t1.retries"])
}

/// EU-C4: table 3 from table 1 and the check alone.
fn checked_accesses(timing: &Timing) -> ClaimResult {
    let grown: Vec<u64> = Access::ALL.iter().map(|a| response(timing, *a, true) - response(timing, *a, false)).collect();
    let burst_write = response(timing, Access::BURST_WRITE, false);
    // "Stays near": a tenth of the response, which the check of a write would exceed nine times.
    let holds = grown[..3].iter().all(|more| *more * 10 > burst_write) && grown[3] * 10 <= burst_write;
    ClaimResult::judged(
        "EU-C4",
        holds,
        format!("+{}, +{}, +{} and +{} cycles", grown[0], grown[1], grown[2], grown[3]),
        "Every address waits for the check, beside which the memory already works; a write-back of an exclusive block costs CK one look, chosen as one cycle. No value of table 3 went in.",
        &["eu.t1.single.write.cycles", "eu.t1.single.read.cycles", "eu.t1.burst.read.cycles", "eu.t3.extra_cycles"],
    )
    .stating(&["eu.t3.single.read", "eu.t3.single.read.cycles", "eu.t3.single.write", "eu.t3.single.write.cycles", "eu.t3.burst.read", "eu.t3.burst.read.cycles", "eu.t3.burst.write", "eu.t3.burst.write.cycles"])
}

/// EU-C5 for every bus that table 1 leaves possible.
fn checked_reads_are_faster(timing: &Timing) -> ClaimResult {
    let spacing = facts().number("eu.t1.spacing") as u64;
    let retries = facts().number("eu.t1.retries") as u64;
    let mut intervals = Vec::new();
    for period in timing.address_tenure..spacing / retries {
        let possible =
            Timing { next_address: spacing - retries * period, back_off: period - timing.address_tenure, ..timing.clone() };
        let inactive = steady(&possible, false, false, BURSTS);
        if inactive.interval == spacing as f64 && memory_busy(&possible) <= spacing {
            intervals.push(steady(&possible, false, true, BURSTS).interval);
        }
    }
    let slowest = intervals.iter().copied().fold(0.0, f64::max);
    let fastest = intervals.iter().copied().fold(f64::INFINITY, f64::min);
    ClaimResult::judged(
        "EU-C5",
        !intervals.is_empty() && slowest < spacing as f64,
        format!("every {fastest} to {slowest} cycles against {spacing}"),
        "CK lets a checked address through in the cycle in which the memory is free, while retries come on a grid. Holds for every retry period that gives table 1's spacing with its two retries.",
        &["eu.t1.spacing", "eu.t1.retries", "eu.t3.extra_cycles", "eu.t1.burst.read.cycles", "eu.twb.cycles"],
    )
    .stating(&["eu.t3.throughput.read", "eu.t1.throughput.read"])
}
