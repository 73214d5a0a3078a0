//! The question: a program, a network, nodes; and what is asked around it, so that the answer says what decides it.
use hanare_protocol::limits::{NODE_COUNT_MAX, RANK_COUNT_MAX, WHAT_IF_CORE_COUNT_MAX};

use super::costs::SoftwareCosts;
use super::path::Expense;
use super::program::{Program, Step, VectorCommand};
use super::replay::Replay;
use super::simulate::{self, Run, Setting};
use super::{WhatIfError, pattern};
use crate::network::{Network, Way};
use crate::time::Picos;
use crate::topology::Kind;
use crate::unit;

/// A change of one thing, and the time with it.
#[derive(Clone, Debug, PartialEq)]
pub struct Elasticity {
    /// The change, in words.
    pub change: &'static str,
    /// The time with it.
    pub end: Picos,
}

/// A value of a sweep.
#[derive(Clone, Debug, PartialEq)]
pub struct Swept {
    /// The value, in the key's own unit.
    pub value: f64,
    /// The time on the network.
    pub end: Picos,
    /// The time on the other network, where there is one.
    pub against: Option<Picos>,
}

/// A sweep: times by the values of a key, and where one network overtakes the other, or one more node stops paying.
#[derive(Clone, Debug, PartialEq)]
pub struct Sweep {
    /// The key.
    pub key: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// The values in order.
    pub rows: Vec<Swept>,
    /// Values between two rows at which the two networks' times are equal.
    pub crossings: Vec<f64>,
}

/// The answer.
pub struct Answer {
    /// The run.
    pub run: Run,
    /// Least and greatest time, as far as what was held out of the calibration tells; none beyond it.
    pub interval: Option<(Picos, Picos)>,
    /// What changes would do, the greatest first.
    pub elasticities: Vec<Elasticity>,
    /// The time on the other network, with its name.
    pub against: Option<(String, Picos)>,
    /// The sweep, where one was asked for.
    pub sweep: Option<Sweep>,
    /// What of the question was not validated.
    pub beyond: Vec<String>,
    /// The recording where it was made, of a recording.
    pub replay: Option<Replay>,
    /// The end where the host holds answers up as it did at calibration: the mean, where [`Run::end`] is of medians.
    pub held_up: Option<Picos>,
}

/// Questions beside the one setting.
#[derive(Clone, Copy, Default)]
pub struct Around<'a> {
    /// Another network.
    pub against: Option<&'a Network>,
    /// `KEY=A..B`.
    pub sweep: Option<&'a str>,
    /// Answers also what was not validated.
    pub may_go_beyond: bool,
}

/// The keys of a sweep with their units.
const KEYS: [(&str, &str); 5] = [("latency", "us"), ("bandwidth", "Gb/s"), ("nodes", ""), ("ranks", ""), ("cores", "")];
/// Rows of a sweep over a time or rate.
const STEPS: usize = 11;

/// What was measured here: the largest of everything among a calibration's rows.
#[derive(Default)]
struct Measured {
    verbs: Vec<&'static str>,
    bytes: u64,
    elements: u64,
    depth: u64,
    ranks: usize,
    touches: bool,
    stores: bool,
    walks: bool,
    locks: bool,
}

impl Measured {
    fn of(costs: &SoftwareCosts) -> Measured {
        let mut all = Measured::default();
        for program in costs.points.iter().filter_map(|point| pattern::parse(&point.pattern).ok()) {
            all.ranks = all.ranks.max(program.rank_count.unwrap_or(1));
            all.touches |= program.has(|step| matches!(step, Step::Touch { .. }));
            all.stores |= program.has(is_store);
            all.walks |= program.has(is_walk);
            all.locks |= program.has(|step| *step == Step::Lock);
            for phase in program.ranks.iter().flatten() {
                all.depth = all.depth.max(phase.depth);
                for command in phase.steps.iter().filter_map(command_of) {
                    all.verbs.push(command.verb.name());
                    all.bytes = all.bytes.max(command.bytes());
                    all.elements = all.elements.max(command.elements);
                }
            }
        }
        all
    }
}

fn command_of(step: &Step) -> Option<&VectorCommand> {
    if let Step::Command(command) = step { Some(command) } else { None }
}

fn is_store(step: &Step) -> bool {
    matches!(step, Step::Touch { writes: true, .. })
}

fn is_walk(step: &Step) -> bool {
    matches!(step, Step::Bring { .. })
}

/// What of a question nobody has compared with a measurement.
///
/// Latency and rate of a network through the kernel are compared by the nightly run; other ways onto a network are not, because
/// no such network is here.
fn beyond(program: &Program, setting: &Setting, is_recorded: bool) -> Vec<String> {
    let measured = Measured::of(&setting.costs);
    let mut found = Vec::new();
    match setting.network.way {
        Way::Kernel => {}
        Way::Bypass => found.push("no network without the kernel was measured".to_string()),
        Way::Loads { .. } => found.push("no network of loads and stores was measured".to_string()),
    }
    let mut above = |what: &str, asked: u64, most: u64| {
        if asked > most {
            found.push(format!("{asked} {what}, and at most {most} were measured"));
        }
    };
    above("nodes", setting.nodes as u64, measured.ranks.max(2) as u64);
    above("ranks", setting.ranks as u64, measured.ranks as u64);
    let phases = || program.ranks.iter().flatten();
    if !is_recorded {
        above("commands under way", phases().map(|phase| phase.depth).max().unwrap_or(0), measured.depth);
    }
    let commands = || phases().flat_map(|phase| &phase.steps).filter_map(command_of);
    above("bytes of a command", commands().map(VectorCommand::bytes).max().unwrap_or(0), measured.bytes);
    above("elements of a command", commands().map(|command| command.elements).max().unwrap_or(0), measured.elements);
    let mut unknown: Vec<&str> =
        commands().map(|command| command.verb.name()).filter(|verb| !measured.verbs.contains(verb)).collect();
    unknown.sort_unstable();
    unknown.dedup();
    found.extend(unknown.into_iter().map(|verb| format!("no {verb} was measured")));
    if program.has(|step| matches!(step, Step::Touch { .. })) && !measured.touches {
        found.push("no touch of a page was measured".to_string());
    }
    if program.has(is_store) && !measured.stores {
        found.push("no store to a shared page was measured".to_string());
    }
    if program.has(is_walk) && !measured.walks {
        found.push("no walk through pages was measured".to_string());
    }
    if program.has(|step| *step == Step::Lock) && !measured.locks {
        found.push("no lock was measured".to_string());
    }
    if setting.topology != Kind::Switch && setting.nodes > 2 {
        found.push("no network of several switches was measured".to_string());
    }
    if setting.costs.residuals().is_empty() {
        found.push("the calibration held nothing out".to_string());
    }
    found
}

/// Refuses what cannot be run at all.
fn check(setting: &Setting) -> Result<(), WhatIfError> {
    let within = |what: &str, given: usize, most: usize| match (1..=most).contains(&given) {
        true => Ok(()),
        false => Err(WhatIfError::Options(format!("{what} cannot be {given}: 1 to {most}"))),
    };
    within("--nodes", setting.nodes, NODE_COUNT_MAX)?;
    within("--ranks", setting.ranks, RANK_COUNT_MAX as usize)?;
    within("--cores", setting.cores, WHAT_IF_CORE_COUNT_MAX)
}

/// Answers a question. A recording comes with its replay, and with what speaks against it.
///
/// **Cost**: a run for each elasticity and each value of the sweep. **Errors**: [`WhatIfError::Refused`] where the question goes
/// beyond what was validated, unless it may; then there is no interval.
pub fn ask(
    program: &Program,
    setting: &Setting,
    around: &Around<'_>,
    replay: Option<(Replay, Vec<String>)>,
) -> Result<Answer, WhatIfError> {
    check(setting)?;
    let (replay, objections) = replay.unzip();
    let objections = objections.unwrap_or_default();
    let beyond = [objections, beyond(program, setting, replay.is_some())].concat();
    if !beyond.is_empty() && !around.may_go_beyond {
        let reasons = format!("{}; --beyond answers all the same, without an interval", beyond.join("; "));
        return Err(WhatIfError::Refused { reasons });
    }
    let run = simulate::run(program, setting)?;
    let off = setting.costs.residual(0.9).filter(|_| beyond.is_empty());
    let interval = off.map(|off| interval(&run, off, replay.as_ref()));
    let quiet = Setting { is_traced: false, ..setting.clone() };
    let elasticities = elasticities(program, &quiet, &run)?;
    let other = |network: &Network| {
        let run = simulate::run(program, &Setting { network: network.clone(), ..quiet.clone() })?;
        Ok::<_, WhatIfError>((network.name.clone(), run.end))
    };
    let against = around.against.map(other).transpose()?;
    let sweep = around.sweep.map(|text| follow(text, program, &quiet, around.against)).transpose()?;
    // The kept time of a recording contains the delays of its host.
    let holds_up = replay.is_none() && setting.costs.held_up.mean > 0.0;
    let held_up = holds_up.then(|| simulate::run(program, &Setting { is_held_up: true, ..quiet.clone() }));
    let held_up = held_up.transpose()?.map(|run| run.end);
    Ok(Answer { run, interval, elasticities, against, sweep, beyond, replay, held_up })
}

/// The error of operations held out, for all but the program's own work, and the error of a recording's replay.
fn interval(run: &Run, off: f64, replay: Option<&Replay>) -> (Picos, Picos) {
    let own = run.path.of(Expense::Computing) + run.path.of(Expense::Kept);
    let part = run.end.since(own).0 as f64;
    let replayed = replay.map_or(0.0, |replay| replay.residual().abs() * run.end.0 as f64);
    // Measured is predicted over one plus the residual, whichever way that was off.
    let (low, high) = (part / (1.0 + off) - replayed, part / (1.0 - off.min(0.9)) + replayed);
    (Picos((own.0 as f64 + low).max(0.0) as u64), own + Picos(high as u64))
}

/// What a change does to a setting.
type Change = fn(&mut Setting);

/// The changes that are tried, each with the causes without which it changes nothing.
const CHANGES: &[(&str, Change, &[Expense])] = &[
    ("latency halved", |s| s.network.latency = Picos(s.network.latency.0 / 2), &[Expense::Latency, Expense::Memory]),
    (
        "bandwidth doubled",
        |s| s.network.bytes_per_second = s.network.bytes_per_second.saturating_mul(2),
        &[Expense::Bytes, Expense::Link, Expense::Memory],
    ),
    ("the library's work halved", |s| halve(&mut s.costs, true), &[Expense::Library]),
    ("the nodes' work halved", |s| halve(&mut s.costs, false), &[Expense::Serving, Expense::Node]),
    ("nobody parks", |s| s.costs.wake = 0.0, &[Expense::Waking]),
    ("twice the processors", |s| s.cores *= 2, &[Expense::Processor]),
];

fn halve(costs: &mut SoftwareCosts, is_client: bool) {
    for software in [&mut costs.kernel, &mut costs.bypass] {
        *(if is_client { &mut software.client } else { &mut software.node }) /= 2.0;
    }
    *(if is_client { &mut costs.fault } else { &mut costs.element }) /= 2.0;
}

fn elasticities(program: &Program, setting: &Setting, run: &Run) -> Result<Vec<Elasticity>, WhatIfError> {
    let mut found = Vec::new();
    for (name, change, causes) in CHANGES {
        if causes.iter().all(|cause| run.path.of(*cause) == Picos::ZERO) {
            continue;
        }
        let mut changed = setting.clone();
        change(&mut changed);
        found.push(Elasticity { change: name, end: simulate::run(program, &changed)?.end });
    }
    found.sort_by_key(|elasticity| elasticity.end);
    Ok(found)
}

/// Runs for each value of `KEY=A..B`: times and rates in equal ratios, counts doubling.
fn follow(text: &str, program: &Program, setting: &Setting, against: Option<&Network>) -> Result<Sweep, WhatIfError> {
    let known = || KEYS.map(|(key, _)| key).join(", ");
    let form = || WhatIfError::Options(format!("--sweep \"{text}\": expected KEY=A..B with a key of {}", known()));
    let (key, range) = text.split_once('=').ok_or_else(form)?;
    let (key, unit) = *KEYS.iter().find(|(known, _)| *known == key.trim()).ok_or_else(form)?;
    let (first, last) = range.split_once("..").ok_or_else(form)?;
    let read = |given: &str| value(given.trim(), unit).filter(|value| *value > 0.0).ok_or_else(form);
    let (first, last) = (read(first)?, read(last)?);
    if first > last || last / first > 1e9 {
        return Err(form());
    }
    let values: Vec<f64> = match unit {
        "" => std::iter::successors(Some(first), |value| Some(value * 2.0)).take_while(|value| *value <= last).collect(),
        _ => (0..STEPS).map(|step| first * (last / first).powf(step as f64 / (STEPS - 1) as f64)).collect(),
    };
    let mut rows = Vec::new();
    for value in values {
        let mut changed = setting.clone();
        set(&mut changed, key, value);
        check(&changed)?;
        let end = simulate::run(program, &changed)?.end;
        // The other network stays as it is where the network's own numbers are swept.
        let other = |network: &Network| simulate::run(program, &Setting { network: network.clone(), ..changed.clone() });
        let against = against.map(other).transpose()?.map(|run| run.end);
        rows.push(Swept { value, end, against });
    }
    let crossings = crossings(&rows);
    Ok(Sweep { key, unit, rows, crossings })
}

fn value(given: &str, to: &str) -> Option<f64> {
    let split = given.find(|letter: char| letter.is_ascii_alphabetic() && letter != 'e').unwrap_or(given.len());
    let number: f64 = given[..split].trim().parse().ok()?;
    match (to, &given[split..]) {
        ("", "") => (number.fract() == 0.0).then_some(number),
        ("", _) | (_, "") => None,
        (to, unit) => unit::convert(number, unit.trim(), to),
    }
}

fn set(setting: &mut Setting, key: &str, value: f64) {
    match key {
        "latency" => setting.network.latency = Picos((value * 1e6).round() as u64),
        "bandwidth" => setting.network.bytes_per_second = (value * 1e9 / 8.0).round() as u64,
        "nodes" => {
            // A host more for each node more, and a rank on it where there was one for each.
            let ranks_follow = setting.ranks == setting.nodes;
            setting.nodes = value as usize;
            setting.hosts = setting.nodes;
            setting.ranks = if ranks_follow { setting.nodes } else { setting.ranks };
        }
        "ranks" => setting.ranks = value as usize,
        _ => setting.cores = value as usize,
    }
}

/// Values at which the two times are equal, between rows on a scale of equal ratios.
fn crossings(rows: &[Swept]) -> Vec<f64> {
    let lead = |row: &Swept| row.against.map(|other| (row.end.0 as f64 / other.0.max(1) as f64).ln());
    let between = |pair: &[Swept]| {
        let (one, two) = (lead(&pair[0])?, lead(&pair[1])?);
        let crosses = one != two && (one <= 0.0) != (two <= 0.0);
        crosses.then(|| pair[0].value * (pair[1].value / pair[0].value).powf(one / (one - two)))
    };
    rows.windows(2).filter_map(between).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::what_if::costs::round_numbers;

    fn setting() -> Setting {
        Setting {
            hosts: 2,
            nodes: 2,
            ranks: 1,
            is_blocked: false,
            cores: 2,
            network: Network { latency: Picos::us(5), bytes_per_second: 125_000_000, ..Network::here() },
            topology: Kind::Switch,
            costs: round_numbers(),
            recorded_crowd: None,
            is_held_up: false,
            is_traced: false,
            is_timed: false,
        }
    }

    fn asked(program: &Program, around: &Around<'_>) -> Result<Answer, WhatIfError> {
        ask(program, &setting(), around, None)
    }

    #[test]
    fn a_replay_that_speaks_against_a_recording_refuses_it() {
        let program = pattern::parse("get 4KiB x100").unwrap();
        let replay = Replay { recorded: Picos::ms(10), model: Picos::ms(6), here: Picos::ms(11), ..Replay::default() };
        let of = |objections: Vec<String>| ask(&program, &setting(), &Around::default(), Some((replay.clone(), objections)));
        assert!(of(vec!["it is off".to_string()]).err().unwrap().to_string().contains("refused: it is off"));
        let (replayed, alone) = (of(Vec::new()).unwrap(), asked(&program, &Around::default()).unwrap());
        let width = |answer: &Answer| answer.interval.unwrap().1 - answer.interval.unwrap().0;
        let wider = (width(&replayed) - width(&alone)).0 as f64;
        assert!((wider / (0.2 * alone.run.end.0 as f64) - 1.0).abs() < 1e-3, "a tenth on either side: {wider}");
    }

    #[test]
    fn what_a_host_holds_up_is_told_beside_the_medians() {
        let program = pattern::parse("get 4KiB, compute 1us x100").unwrap();
        // Without latency, so that nobody parks for the longer wait.
        let mut held = Setting { network: Network::here(), ..setting() };
        held.costs.held_up.mean = 7_000.0;
        let answer = ask(&program, &held, &Around::default(), None).unwrap();
        assert_eq!(answer.held_up.unwrap() - answer.run.end, Picos::us(7) * 100);
        assert_eq!(asked(&program, &Around::default()).unwrap().held_up, None);
    }

    #[test]
    fn what_was_not_measured_is_refused_and_named() {
        let program = pattern::parse("scan 64MiB depth 4").unwrap();
        let line = asked(&program, &Around::default()).err().unwrap().to_string();
        for part in ["refused", "no scan was measured", "67108864 bytes", "4 commands under way", "--beyond"] {
            assert!(line.contains(part), "{line} lacks {part}");
        }
        let answer = asked(&program, &Around { may_go_beyond: true, ..Around::default() }).unwrap();
        assert!(answer.interval.is_none() && answer.beyond.len() == 3, "{:?}", answer.beyond);
        let lock = asked(&pattern::parse("lock, get 8B, unlock x5").unwrap(), &Around::default()).err().unwrap().to_string();
        assert!(lock.contains("no lock was measured"), "{lock}");
    }

    #[test]
    fn the_interval_is_as_wide_as_what_was_held_out_is_off() {
        let program = pattern::parse("get 4KiB x100").unwrap();
        let answer = asked(&program, &Around::default()).unwrap();
        let (low, high) = answer.interval.unwrap();
        let ratio = |end: Picos| end.0 as f64 / answer.run.end.0 as f64;
        assert!((ratio(low) - 1.0 / 1.1).abs() < 1e-6 && (ratio(high) - 1.0 / 0.9).abs() < 1e-6);
    }

    #[test]
    fn what_decides_comes_first_and_what_does_not_matter_is_left_out() {
        let program = pattern::parse("get 4KiB x100").unwrap();
        let answer = asked(&program, &Around::default()).unwrap();
        assert_eq!(answer.elasticities[0].change, "bandwidth doubled");
        assert!(answer.elasticities.iter().all(|change| change.end <= answer.run.end && change.change != "twice the processors"));
    }

    #[test]
    fn a_sweep_says_where_one_network_overtakes_the_other() {
        let program = pattern::parse("get 8B x100").unwrap();
        // Below latencies at which the node parks: there the time leaps.
        let other = Network { latency: Picos::us(10), ..setting().network };
        let answer =
            asked(&program, &Around { against: Some(&other), sweep: Some("latency=2us..20us"), may_go_beyond: false }).unwrap();
        let sweep = answer.sweep.unwrap();
        assert_eq!((sweep.rows.len(), sweep.crossings.len()), (11, 1));
        assert!((sweep.crossings[0] / 10.0 - 1.0).abs() < 0.1, "{:?}", sweep.crossings);
        for bad in ["latency=1us", "weight=1us..2us", "latency=2us..1us", "nodes=1us..2us", "latency=1..2"] {
            assert!(asked(&program, &Around { sweep: Some(bad), ..Around::default() }).is_err(), "{bad}");
        }
    }
}
