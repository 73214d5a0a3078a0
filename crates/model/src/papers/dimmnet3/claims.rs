//! Verdicts on what the paper says of its measurement.
use super::exchange::ping_pong;
use super::machine::{Machine, Nic};
use super::ping_pong::Measurement;
use super::programs::{Command, Condition, Step, entry_data_bytes, receive, send};
use crate::claim::ClaimResult;

/// What the machine of the measurement was fitted to, and the printed inputs it is built of.
const CALIBRATION: &[&str] =
    &["d3.public.d2_min_oneway", "d3.env.cpu_clock", "d3.env.dimmnet2_clock", "d3.env.cable", "d3.header", "d3.envelope"];

const FITTED: &str = "The interface's pipeline is fitted to a public one-way time; nothing is fitted to figure 7, which is lost.";

/// How much longer VL+BOTF takes than LHC, in microseconds.
pub struct Gap {
    /// At the size where it is least, one way.
    pub least: f64,
    /// At the size where it is greatest, one way.
    pub greatest: f64,
    /// The smallest size from which on it exceeds 1 us one way.
    pub size: Option<u64>,
}

fn shared_sizes(measured: &Measurement, first: Condition, second: Condition) -> Vec<(u64, f64, f64)> {
    let both = |&size: &u64| Some((size, measured.us(first, size)?, measured.us(second, size)?));
    measured.sizes.iter().filter_map(both).collect()
}

/// The lead of LHC over VL+BOTF.
pub fn vector_load_gap(measured: &Measurement) -> Gap {
    let pairs = shared_sizes(measured, Condition::VlBotfLhs, Condition::LhcLhs);
    let gaps: Vec<(u64, f64)> = pairs.iter().map(|(size, vl, lhc)| (*size, vl - lhc)).collect();
    let below = gaps.iter().rposition(|gap| gap.1 <= 1.0);
    Gap {
        least: gaps.iter().map(|gap| gap.1).fold(f64::INFINITY, f64::min),
        greatest: gaps.iter().map(|gap| gap.1).fold(0.0, f64::max),
        size: gaps.get(below.map_or(0, |index| index + 1)).map(|gap| gap.0),
    }
}

fn ratios(measured: &Measurement, first: Condition, second: Condition) -> (f64, f64) {
    let ratios: Vec<f64> = shared_sizes(measured, first, second).iter().map(|(_, a, b)| a / b).collect();
    (ratios.iter().copied().fold(f64::INFINITY, f64::min), ratios.iter().copied().fold(0.0, f64::max))
}

fn external_reads(steps: &[Step]) -> usize {
    steps.iter().filter(|step| matches!(step, Step::Issue(Command::VectorLoad { .. }))).count()
}

/// The claims on figure 7.
pub fn ping_pong_claims(machine: &Machine, measured: &Measurement) -> Vec<ClaimResult> {
    vec![
        shortest(measured),
        near(measured),
        far(measured),
        two_reads(machine, measured),
        behind_vector_load(measured),
        sizes(machine, measured),
        step(machine, measured),
    ]
}

fn shortest(measured: &Measurement) -> ClaimResult {
    let others = [Condition::Botf, Condition::VlBotfLhs, Condition::LhcLhs];
    let least = others.map(|other| ratios(measured, other, Condition::BotfLhs).0);
    let holds = least.iter().all(|ratio| *ratio >= 1.0);
    let text = format!(
        "against BOTF+IPUSH+LHS, at the closest size: BOTF+IPUSH {:.2}x, VL+BOTF {:.2}x, LHC {:.2}x",
        least[0], least[1], least[2]
    );
    let reason = format!(
        "{FITTED} With no data VL+BOTF has nothing to load and is the same as BOTF. BOTF writes data that LHC has to read from SO-DIMM; how close the two come depends on the time of a window store."
    );
    ClaimResult::judged("D3-C1", holds, text, reason, CALIBRATION)
}

fn near(measured: &Measurement) -> ClaimResult {
    let (least, greatest) = ratios(measured, Condition::LhcLhs, Condition::BotfLhs);
    // "Somewhat" is read as at most a third.
    let text = format!("LHC takes {least:.2} to {greatest:.2} times as long");
    ClaimResult::judged("D3-C2", least >= 1.0 && greatest <= 1.33, text, FITTED, CALIBRATION)
}

fn far(measured: &Measurement) -> ClaimResult {
    let (least, greatest) = ratios(measured, Condition::Botf, Condition::LhcLhs);
    let leads = gaps(measured, Condition::Botf, Condition::LhcLhs);
    let lags = gaps(measured, Condition::LhcLhs, Condition::BotfLhs);
    let text = format!(
        "BOTF+IPUSH takes {:.2} to {:.2} us longer than LHC ({least:.2} to {greatest:.2} times); LHC takes {:.2} to {:.2} us longer than BOTF+IPUSH+LHS",
        leads.0, leads.1, lags.0, lags.1
    );
    let reason = format!(
        "{FITTED} \"Somewhat\" of the same figure is read as at most a third, so \"far\" as more than a third at every size. The lead in time is several times the distance that \"somewhat\" names, but the ratio falls with size since every condition ends in the same uncached loads."
    );
    ClaimResult::judged("D3-C3", least > 1.33, text, reason, CALIBRATION)
}

/// Least and greatest lead, in microseconds, of the second condition over the first.
fn gaps(measured: &Measurement, first: Condition, second: Condition) -> (f64, f64) {
    let gaps: Vec<f64> = shared_sizes(measured, first, second).iter().map(|(_, a, b)| a - b).collect();
    (gaps.iter().copied().fold(f64::INFINITY, f64::min), gaps.iter().copied().fold(f64::NEG_INFINITY, f64::max))
}

fn two_reads(machine: &Machine, measured: &Measurement) -> ClaimResult {
    let reads = [Condition::Botf, Condition::BotfLhs].map(|condition| external_reads(&receive(machine, condition, 8)));
    let gap = |size| measured.us(Condition::Botf, size).unwrap_or(0.0) - measured.us(Condition::BotfLhs, size).unwrap_or(0.0);
    // The second read begins with the first data byte.
    let second = gap(16) - gap(8);
    let text = format!(
        "{} SO-DIMM reads against {}: +{:.2} us at 8 B, +{:.2} us at 16 B, where the body's read comes in",
        reads[0],
        reads[1],
        gap(8),
        gap(16)
    );
    let reason = format!(
        "{FITTED} A host reads SO-DIMM by a vector load, a poll of its flag and loads of the window, which is the reading of the procedure taken here."
    );
    ClaimResult::judged("D3-C4", reads == [2, 0] && gap(16) > 0.5 && second > 0.0, text, reason, CALIBRATION)
}

fn behind_vector_load(measured: &Measurement) -> ClaimResult {
    let gap = vector_load_gap(measured);
    let from = gap.size.map_or("at no size".to_string(), |size| format!("from {size} B on"));
    let text = format!(
        "{:.2} to {:.2} us one way (over 1 us {from}), {:.2} to {:.2} us a round trip",
        gap.least,
        gap.greatest,
        2.0 * gap.least,
        2.0 * gap.greatest
    );
    let reason = format!(
        "{FITTED} Judged at every size and one way, the stricter reading, since the paper does not say whether its figure halves the round trip."
    );
    ClaimResult::judged("D3-C5", gap.least > 1.0, text, reason, CALIBRATION).stating(&["d3.vl_botf_excess"])
}

fn sizes(machine: &Machine, measured: &Measurement) -> ClaimResult {
    let first = Condition::MEASURED
        .map(|condition| measured.sizes.iter().find(|size| measured.us(condition, **size).is_some()).copied().unwrap_or(0));
    let text = format!("first sizes in the order of the conditions: {first:?} B");
    let reason = format!(
        "An LHC body cannot be empty; its least is taken as one word of the module's bus ({} B), and 16 B follow with the envelope.",
        machine.lhc_body_bytes_min
    );
    ClaimResult::judged("D3-C8", first == [8, 8, 8, 16], text, reason, &["d3.envelope"]).stating(&["d3.lhc_size_min"])
}

fn step(machine: &Machine, measured: &Measurement) -> ClaimResult {
    let limit = entry_data_bytes(machine) + machine.envelope_bytes;
    let rise = |from: u64, to: u64| {
        measured.us(Condition::BotfLhs, to).unwrap_or(0.0) - measured.us(Condition::BotfLhs, from).unwrap_or(0.0)
    };
    let (at_limit, before) = (rise(limit, limit + 8), rise(limit - 8, limit));
    let text =
        format!("BOTF+IPUSH+LHS rises by {at_limit:.2} us from {limit} to {} B, by {before:.2} us a step before", limit + 8);
    let reason = "The entry is chosen as one 64 B line of the host; with the 16 B envelope part the 48 B limit follows, and with it the step of one SO-DIMM read.";
    ClaimResult::judged(
        "D3-C9",
        limit == 56 && at_limit > 2.0 * before.max(0.0) && at_limit > 0.2,
        text,
        reason,
        &["d3.lhs_envelope_part", "d3.envelope"],
    )
    .stating(&["d3.lhs_data_limit"])
}

/// The claims that need messages longer than measured, or the processors' time.
pub fn lengths(machine: &Machine, measured: &Measurement) -> Vec<ClaimResult> {
    let busy = |condition, size| measured.exchange(condition, size).map_or(0.0, |exchange| exchange.send_busy.as_us());
    let (short, long) = (128, 65_536);
    let loads = [short, long].map(|size| busy(Condition::VlBotfLhs, size) / busy(Condition::LhcLhs, size));
    vec![
        ClaimResult::judged(
            "D3-C6",
            loads.iter().all(|ratio| *ratio > 1.5),
            format!("sender's processor: {:.1}x that of LHC at {short} B, {:.0}x at {long} B", loads[0], loads[1]),
            format!("{FITTED} Loads of the Prefetch Window and stores to the Write Window are counted, polling is not."),
            CALIBRATION,
        ),
        whole_messages(machine, measured),
    ]
}

/// BOTF is cut by the window whatever its size, LHC by none: the printed 512 B take no part in the verdict.
fn whole_messages(machine: &Machine, measured: &Measurement) -> ClaimResult {
    let long = 65_536;
    let windows = [128, 256, 512, 1024, 4096];
    let counts = windows.map(|window_bytes| {
        let other = Machine { nic: Nic { window_bytes, ..machine.nic.clone() }, ..machine.clone() };
        let issues =
            |condition, data: u64| send(&other, condition, data).iter().filter(|step| matches!(step, Step::Issue(_))).count();
        let room = window_bytes - other.header_bytes - other.envelope_bytes;
        (issues(Condition::BotfLhs, room), issues(Condition::BotfLhs, room + 1), issues(Condition::LhcLhs, long))
    });
    let written: u64 =
        send(machine, Condition::LhcLhs, long).iter().map(|step| if let Step::Fill(len) = step { *len } else { 0 }).sum();
    let busy = |size| measured.exchange(Condition::LhcLhs, size).map(|exchange| exchange.send_busy);
    let packets = measured.exchange(Condition::BotfLhs, long).map_or(0, |exchange| exchange.packets);
    let holds = counts.iter().all(|count| *count == (1, 2, 1)) && written == machine.envelope_bytes && busy(16) == busy(long);
    ClaimResult::judged(
        "D3-C7",
        holds,
        format!(
            "{long} B take {packets} BOTF messages of the host, or one LHC request with {written} B written and {:.2} us of processor at any length",
            busy(long).map_or(0.0, |busy| busy.as_us())
        ),
        format!(
            "Run with windows of {windows:?} B: one byte more than fits makes a second BOTF message of each, and none of LHC. That the window has 512 B is an input."
        ),
        &["d3.header", "d3.envelope"],
    )
}

/// The claim on pure control messages: envelope alone.
pub fn control(machine: &Machine, rounds: u64) -> Vec<ClaimResult> {
    let us =
        |condition: Condition| ping_pong(machine, condition, condition.data_bytes_min(machine), rounds, None).one_way.as_us();
    let best = us(Condition::BotfLhs);
    let others = [Condition::Botf, Condition::VlBotfLhs, Condition::LhcLhs].map(us);
    let aotf = us(Condition::AotfLhs);
    vec![ClaimResult::judged(
        "D3-C10",
        others.iter().all(|other| *other >= best),
        format!(
            "{best:.2} us against BOTF+IPUSH {:.2}, VL+BOTF {:.2}, LHC {:.2} us (its shortest, 16 B)",
            others[0], others[1], others[2]
        ),
        format!(
            "{FITTED} Among the measured conditions; AOTF, which the paper names and did not measure, would take {aotf:.2} us with LHS."
        ),
        CALIBRATION,
    )]
}
