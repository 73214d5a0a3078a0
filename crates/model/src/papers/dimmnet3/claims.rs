//! How the paper's statements on its measurement are judged.
use std::rc::Rc;

use super::exchange::ping_pong;
use super::machine::Machine;
use super::ping_pong::{Measurement, measure, paper_sizes};
use super::programs::{Command, Condition, Step, entry_data_bytes, receive, send};
use super::rules::RULES;
use crate::claim::{Check, Judgement, Limit};
use crate::memo::memo;
use crate::parameters::Parameters;

const FITTED: &str = "The interface's pipeline is fitted to a public one-way time; nothing is fitted to figure 7, which is lost.";

/// A message far beyond every window.
const LONG: u64 = 65_536;

/// The machine, where its sizes go together.
fn machine(parameters: &Parameters) -> Option<Machine> {
    let machine = Machine::new(parameters);
    machine.contradiction().is_none().then_some(machine)
}

/// The four conditions at the paper's sizes.
fn measured(parameters: &Parameters) -> Option<Rc<Measurement>> {
    machine(parameters)?;
    Some(memo("dimmnet3 conditions", parameters, |parameters| {
        measure(&Machine::new(parameters), &paper_sizes(), parameters.count("pingpong.rounds"))
    }))
}

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

/// D3-C1.
pub fn shortest(parameters: &Parameters) -> Option<Judgement> {
    let measured = measured(parameters)?;
    let others = [Condition::Botf, Condition::VlBotfLhs, Condition::LhcLhs];
    let least = others.map(|other| ratios(&measured, other, Condition::BotfLhs).0);
    let names = ["BOTF+IPUSH", "VL+BOTF+IPUSH+LHS", "LHC+IPUSH+LHS"];
    let checks = names.iter().zip(least).map(|(name, ratio)| {
        Check::new(format!("{name} over BOTF+IPUSH+LHS at the closest size"), ratio, "x", Limit::AtLeast(1.0))
    });
    let text = format!(
        "against BOTF+IPUSH+LHS, at the closest size: BOTF+IPUSH {:.2}x, VL+BOTF {:.2}x, LHC {:.2}x",
        least[0], least[1], least[2]
    );
    let reason = format!(
        "{FITTED} With no data VL+BOTF has nothing to load and is the same as BOTF. BOTF writes data that LHC has to read from SO-DIMM; how close the two come depends on the time of a window store."
    );
    Some(Judgement::new(text, reason, checks.collect()))
}

/// D3-C2.
pub fn near(parameters: &Parameters) -> Option<Judgement> {
    let (least, greatest) = ratios(&*measured(parameters)?, Condition::LhcLhs, Condition::BotfLhs);
    let checks = vec![
        Check::new("LHC over BOTF+IPUSH+LHS, least", least, "x", Limit::AtLeast(1.0)),
        Check::new("LHC over BOTF+IPUSH+LHS, greatest", greatest, "x", Limit::AtMost(RULES.word("somewhat"))),
    ];
    Some(Judgement::new(format!("LHC takes {least:.2} to {greatest:.2} times as long"), FITTED, checks))
}

/// D3-C3.
pub fn far(parameters: &Parameters) -> Option<Judgement> {
    let measured = measured(parameters)?;
    let (least, greatest) = ratios(&measured, Condition::Botf, Condition::LhcLhs);
    let leads = gaps(&measured, Condition::Botf, Condition::LhcLhs);
    let lags = gaps(&measured, Condition::LhcLhs, Condition::BotfLhs);
    let text = format!(
        "BOTF+IPUSH takes {:.2} to {:.2} us longer than LHC ({least:.2} to {greatest:.2} times); LHC takes {:.2} to {:.2} us longer than BOTF+IPUSH+LHS",
        leads.0, leads.1, lags.0, lags.1
    );
    let reason = format!(
        "{FITTED} The lead in time is several times the distance that \"somewhat\" names, but the ratio falls with size because every condition ends in the same uncached loads."
    );
    let check = Check::new("BOTF+IPUSH over LHC, least", least, "x", Limit::Above(RULES.word("far")));
    Some(Judgement::new(text, reason, vec![check]))
}

/// Least and greatest lead, in microseconds, of the second condition over the first.
fn gaps(measured: &Measurement, first: Condition, second: Condition) -> (f64, f64) {
    let gaps: Vec<f64> = shared_sizes(measured, first, second).iter().map(|(_, a, b)| a - b).collect();
    (gaps.iter().copied().fold(f64::INFINITY, f64::min), gaps.iter().copied().fold(f64::NEG_INFINITY, f64::max))
}

/// D3-C4.
pub fn two_reads(parameters: &Parameters) -> Option<Judgement> {
    let (machine, measured) = (machine(parameters)?, measured(parameters)?);
    let reads = [Condition::Botf, Condition::BotfLhs].map(|condition| external_reads(&receive(&machine, condition, 8)));
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
    let checks = vec![
        Check::is("two SO-DIMM reads without LHS and none with it", reads == [2, 0]),
        Check::new("cost of leaving LHS out, 16 B", gap(16), "us", Limit::Above(RULES.word("strongly"))),
        Check::new("cost of the second read", second, "us", Limit::Above(0.0)),
    ];
    Some(Judgement::new(text, reason, checks))
}

/// D3-C5.
pub fn behind_vector_load(parameters: &Parameters) -> Option<Judgement> {
    let gap = vector_load_gap(&*measured(parameters)?);
    let from = gap.size.map_or("at no size".to_string(), |size| format!("from {size} B on"));
    let text = format!(
        "{:.2} to {:.2} us one way (over 1 us {from}), {:.2} to {:.2} us a round trip",
        gap.least,
        gap.greatest,
        2.0 * gap.least,
        2.0 * gap.greatest
    );
    let reason = format!(
        "{FITTED} Judged at every size. The paper lists send, receive, receive and send as one trial and does not say whether its figure halves it."
    );
    let check = |trips: f64| vec![Check::fact(&RULES, "d3.vl_botf_excess", "lead of LHC over VL+BOTF, least", trips * gap.least)];
    let finding = format!(
        "One way only the smallest message misses ({:.2} us at 16 B); as a round trip, which section 6.1 describes, every size exceeds 1 us.",
        gap.least
    );
    Some(Judgement::new(text, reason, check(1.0)).or("one way", "a round trip", check(2.0)).finding(finding))
}

/// D3-C8.
pub fn sizes(parameters: &Parameters) -> Option<Judgement> {
    let (machine, measured) = (machine(parameters)?, measured(parameters)?);
    let first = Condition::MEASURED
        .map(|condition| measured.sizes.iter().find(|size| measured.us(condition, **size).is_some()).copied().unwrap_or(0));
    let text = format!("first sizes in the order of the conditions: {first:?} B");
    let reason = format!(
        "The shortest LHC body is {} B, chosen so that with the envelope 16 B follow; any other value gives another first size.",
        machine.lhc_body_bytes_min
    );
    let check = Check::fact(&RULES, "d3.lhc_size_min", "first size of LHC", first[3] as f64);
    let others =
        Check::is("all others start with the envelope alone", first[..3].iter().all(|size| *size == machine.envelope_bytes));
    Some(Judgement::new(text, reason, vec![check, others]))
}

/// D3-C9.
pub fn step(parameters: &Parameters) -> Option<Judgement> {
    let (machine, measured) = (machine(parameters)?, measured(parameters)?);
    let limit = entry_data_bytes(&machine) + machine.envelope_bytes;
    let rise = |from: u64, to: u64| {
        measured.us(Condition::BotfLhs, to).unwrap_or(0.0) - measured.us(Condition::BotfLhs, from).unwrap_or(0.0)
    };
    let (at_limit, before) = (rise(limit, limit + 8), rise(limit - 8, limit));
    let text =
        format!("BOTF+IPUSH+LHS rises by {at_limit:.2} us from {limit} to {} B, by {before:.2} us a step before", limit + 8);
    let reason = "An entry of 64 B is the 48 B of the claim and the 16 B that the receiver reads for the envelope. Taken as one line of the host, which has 128 B by section 2.1.1, the limit would be 112 B.";
    let data = Check::fact(&RULES, "d3.lhs_data_limit", "data served from the LH buffer", entry_data_bytes(&machine) as f64);
    let step = Check::new(
        "step at the limit over the step before",
        at_limit / before.max(1e-3),
        "x",
        Limit::Above(RULES.word("well above")),
    );
    Some(Judgement::new(text, reason, vec![data, step]))
}

/// D3-C6.
pub fn load(parameters: &Parameters) -> Option<Judgement> {
    machine(parameters)?;
    let (short, long) = (128, LONG);
    let measured = memo("dimmnet3 long messages", parameters, |parameters| measure(&Machine::new(parameters), &[short, long], 2));
    let busy = |condition, size| measured.exchange(condition, size).map_or(0.0, |exchange| exchange.send_busy.as_us());
    let loads = [short, long].map(|size| busy(Condition::VlBotfLhs, size) / busy(Condition::LhcLhs, size));
    let check = |size: u64, ratio| {
        Check::new(
            format!("sender's processor time over LHC's, {size} B"),
            ratio,
            "x",
            Limit::Above(RULES.word("raises the load")),
        )
    };
    Some(Judgement::new(
        format!("sender's processor: {:.1}x that of LHC at {short} B, {:.0}x at {long} B", loads[0], loads[1]),
        format!("{FITTED} Loads of the Prefetch Window and stores to the Write Window are counted, polling is not."),
        vec![check(short, loads[0]), check(long, loads[1])],
    ))
}

/// D3-C7: BOTF is cut by the window whatever its size, LHC by none. The printed 512 B take no part.
pub fn whole_messages(parameters: &Parameters) -> Option<Judgement> {
    let windows = [128_u64, 256, 1024, 4096];
    let mut is_cut = true;
    let mut is_free = true;
    let mut busy = Vec::new();
    for window_bytes in windows {
        let machine = machine(&parameters.fitted("nic.window", window_bytes as f64))?;
        let issues =
            |condition, data: u64| send(&machine, condition, data).iter().filter(|step| matches!(step, Step::Issue(_))).count();
        let room = window_bytes - machine.header_bytes - machine.envelope_bytes;
        is_cut &= issues(Condition::BotfLhs, room) == 1 && issues(Condition::BotfLhs, room + 1) == 2;
        let steps = send(&machine, Condition::LhcLhs, LONG);
        let written: u64 = steps.iter().map(|step| if let Step::Fill(len) = step { *len } else { 0 }).sum();
        is_free &= issues(Condition::LhcLhs, LONG) == 1 && written == machine.envelope_bytes;
        let bodies = [machine.lhc_body_bytes_min, LONG];
        busy.extend(bodies.map(|body| ping_pong(&machine, Condition::LhcLhs, body, 2, None).send_busy));
    }
    let text = format!(
        "one byte more than fits makes a second BOTF message of each; {LONG} B are one LHC request and {:.2} us of processor at any length",
        busy[0].as_us()
    );
    let reason = format!("Run with windows of {windows:?} B in place of the printed 512, which takes no part.");
    let checks = vec![
        Check::is("a BOTF message ends at the window, whatever its size", is_cut),
        Check::is("one LHC request, with the envelope alone written by the host, carries any length", is_free),
        Check::is(
            "the sender's processor time of LHC does not depend on the length",
            busy.windows(2).all(|pair| pair[0] == pair[1]),
        ),
    ];
    Some(Judgement::new(text, reason, checks))
}

/// D3-C10: pure control messages, envelope alone.
pub fn control(parameters: &Parameters) -> Option<Judgement> {
    let machine = machine(parameters)?;
    let rounds = parameters.count("pingpong.rounds");
    let us =
        |condition: Condition| ping_pong(&machine, condition, condition.data_bytes_min(&machine), rounds, None).one_way.as_us();
    let best = us(Condition::BotfLhs);
    let others = [Condition::Botf, Condition::VlBotfLhs, Condition::LhcLhs].map(us);
    let aotf = us(Condition::AotfLhs);
    let names = ["BOTF+IPUSH", "VL+BOTF+IPUSH+LHS", "LHC+IPUSH+LHS"];
    let check = |(name, other): (&&str, &f64)| {
        Check::new(format!("{name} over BOTF+IPUSH+LHS, shortest message"), other / best, "x", Limit::AtLeast(1.0))
    };
    Some(Judgement::new(
        format!(
            "{best:.2} us against BOTF+IPUSH {:.2}, VL+BOTF {:.2}, LHC {:.2} us (its shortest, 16 B)",
            others[0], others[1], others[2]
        ),
        format!(
            "{FITTED} Among the measured conditions; AOTF, which the paper names and did not measure, would take {aotf:.2} us with LHS."
        ),
        names.iter().zip(&others).map(check).collect(),
    ))
}
