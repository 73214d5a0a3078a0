//! The optimised system: one clock, no OPC processing, an arbiter in hardware, the line up; figures 10 and 11.
use super::cases::{Case, measure};
use crate::claim::{Check, Judgement, Limit};
use crate::facts::facts;
use crate::outcome::{Axis, Outcome, Plot, Table, Tolerance};
use crate::papers::euphoria::analytic::Optimised;
use crate::papers::euphoria::flow::{remote, total};
use crate::papers::euphoria::rules::RULES;
use crate::papers::euphoria::timing::{Access, Timing};
use crate::parameters::Parameters;

const CLEAN_HIT: Case = Case::BEST;
const CLEAN_MISS: Case = Case { is_icc_hit: false, ..Case::BEST };

/// The same system with the optimisations of [EU §6.2] and [EU §6.3].
pub fn optimise(parameters: &Parameters) -> Parameters {
    parameters.with("opc.domains", 0.0).with("opc.processing", 0.0).with("arbiter.kind", 1.0)
}

fn at(parameters: &Parameters, distance: f64, carrier: f64) -> Parameters {
    optimise(parameters).with("line.distance", distance).with("line.carrier", carrier)
}

fn response(parameters: &Parameters, case: Case) -> f64 {
    measure(parameters, case).response().as_us()
}

struct Point {
    formula: f64,
    hit: f64,
    miss: f64,
    overlapped: f64,
}

fn point(parameters: &Parameters) -> Point {
    let overlapped = parameters.with("arbiter.is_overlapped", 1.0);
    Point {
        formula: Optimised::new(parameters).trb() / 1e3,
        hit: response(parameters, CLEAN_HIT),
        miss: response(parameters, CLEAN_MISS),
        overlapped: response(&overlapped, CLEAN_HIT),
    }
}

fn sweep(outcome: &mut Outcome, title: &str, axis: Axis, figure: &str, points: &[(f64, Point)]) {
    let target = facts().fact("eu.target_response").printed().numbers()[0];
    let head = [
        (axis.label.as_str(), axis.unit.as_str()),
        ("formula", "us"),
        ("clean, ICC hit", "us"),
        ("clean, ICC miss", "us"),
        ("hit, overlapped", "us"),
    ];
    let mut table = Table::new(title, &head);
    for (x, p) in points {
        table.row(vec![(*x).into(), p.formula.into(), p.hit.into(), p.miss.into(), p.overlapped.into()]);
    }
    let mut plot = Plot::new(title, axis.clone(), Axis::new("burst read response", "us")).figure(figure);
    plot.line("formula, no coherence action", points.iter().map(|(x, p)| (*x, p.formula)));
    plot.line("clean, ICC hit", points.iter().map(|(x, p)| (*x, p.hit)));
    plot.line("clean, ICC miss", points.iter().map(|(x, p)| (*x, p.miss)));
    plot.line("clean, ICC hit, access beside the check", points.iter().map(|(x, p)| (*x, p.overlapped)));
    plot.line("goal", points.iter().map(|(x, _)| (*x, target)));
    outcome.tables.push(table);
    outcome.plots.push(plot);
}

fn throughput_plot(title: &str, axis: Axis, points: impl Iterator<Item = (f64, Optimised)> + Clone, figure: &str) -> Plot {
    let mut plot = Plot::new(title, axis, Axis::new("throughput", "MB/s")).figure(figure);
    plot.line("read", points.clone().map(|(x, equation)| (x, equation.thr())));
    plot.line("write", points.map(|(x, equation)| (x, equation.thw())));
    plot
}

const RATES: [f64; 10] = [100.0, 150.0, 200.0, 250.0, 350.0, 500.0, 700.0, 1000.0, 1400.0, 2000.0];

/// Figure 10: against the line rate, at 10 m.
pub fn run_rate(parameters: &Parameters) -> Outcome {
    let distance = facts().number("eu.fig10_distance");
    let mut outcome = Outcome::new();
    let points: Vec<(f64, Point)> = RATES.iter().map(|rate| (*rate, point(&at(parameters, distance, *rate)))).collect();
    let axis = Axis::log("carrier", "MHz");
    sweep(&mut outcome, "Optimised burst read against the line rate, 10 m", axis.clone(), "EU figure 10", &points);
    let equation = Optimised::new(&optimise(parameters));
    let equations = RATES.iter().map(|rate| (*rate, equation.at(distance, *rate)));
    outcome.plots.push(throughput_plot(
        "Throughput by the equations against the line rate, 10 m",
        axis,
        equations,
        "EU figure 10",
    ));

    let (hit, miss) = (hit_today(parameters), miss_fast(parameters));
    outcome.produce("eu.target_response", hit.max(miss), Tolerance::Exact);
    outcome.headline("clean, ICC hit, 250 MHz", "us", hit);
    outcome.headline("clean, ICC miss, 1 GHz", "us", miss);
    outcome
}

/// At the carrier of today, 10 m.
fn hit_today(parameters: &Parameters) -> f64 {
    let (distance, carrier) = (facts().number("eu.fig10_distance"), facts().number("eu.carrier"));
    response(&at(parameters, distance, carrier), CLEAN_HIT)
}

/// At the carrier of the text's miss, 10 m.
fn miss_fast(parameters: &Parameters) -> f64 {
    let (distance, carrier) = (facts().number("eu.fig10_distance"), facts().number("eu.fig10_miss_rate"));
    response(&at(parameters, distance, carrier), CLEAN_MISS)
}

/// Cycles of a slower step that is still "a few hundred ns": 20 of the arbiter's 33 MHz are 606 ns.
const SLOWER_STEP: f64 = 20.0;

fn within_goal(parameters: &Parameters, of: fn(&Parameters) -> f64, reason: &str) -> Judgement {
    let (us, slower) = (of(parameters), of(&parameters.with("arbiter.hardware_step", SLOWER_STEP)));
    let check = |us| vec![Check::fact(&RULES, "eu.target_response", "response", us)];
    Judgement::new(format!("{us:.2} us; {slower:.2} us with a step of {SLOWER_STEP} cycles"), reason, check(us)).or(
        "a step of the arbiter in 13 cycles of 33 MHz",
        "a step in 20 cycles, which is a few hundred ns too",
        check(slower),
    )
}

/// EU-C14.
pub fn goal_hit(parameters: &Parameters) -> Option<Judgement> {
    let reason = "One look of a hardware arbiter, as long as a memory read at 33 MHz, then the access; control packets are as long as address packets. The same curve misses the goal at 100 m (EU-C16).";
    Some(within_goal(parameters, hit_today, reason))
}

/// EU-C15.
pub fn goal_miss(parameters: &Parameters) -> Option<Judgement> {
    Some(within_goal(
        parameters,
        miss_fast,
        "Two looks of a hardware arbiter and the directory's fetch from the home, then the access.",
    ))
}

/// EU-C17.
pub fn rate_and_distance(parameters: &Parameters) -> Option<Judgement> {
    let distance = facts().number("eu.fig10_distance");
    let by_rate = RATES.map(|rate| {
        let there = at(parameters, distance, rate);
        [response(&there, CLEAN_HIT), Optimised::new(&there).trb()]
    });
    let falls = by_rate.windows(2).all(|pair| pair[1][0] < pair[0][0] && pair[1][1] < pair[0][1]);
    let access = |distance: f64| {
        let timing = Timing::new(&at(parameters, distance, 250.0));
        total(&remote(&timing, Access::BURST_READ).response).as_ns()
    };
    let slopes = [(access(50.0) - access(0.0)) / 50.0, (access(200.0) - access(50.0)) / 150.0];
    let hit = |distance: f64| response(&at(parameters, distance, 250.0), CLEAN_HIT) * 1e3;
    let with_arbiter = (hit(200.0) - hit(50.0)) / 150.0;
    Some(Judgement::new(
        format!("{:.2} ns/m for the access, {with_arbiter:.2} ns/m with a serial arbiter trip", slopes[0]),
        "Both ways of the packets over twice 5.085 ns/m, which the model takes; falls with the rate at every point of the sweep. With the arbiter's trip before the access, as the model's own hits have it, the response rises by half more.",
        vec![
            Check::is("the response falls with the rate at every point", falls),
            Check::new("slope near over slope far", slopes[0] / slopes[1], "x", Limit::Near { printed: 1.0, tolerance: 0.001 }),
            Check::new("slope of the access", slopes[0], "ns/m", Limit::Near { printed: 10.17, tolerance: RULES.allowed(10.17) }),
        ],
    ))
}

/// Figure 11: against the distance, at 250 MHz.
pub fn run_distance(parameters: &Parameters) -> Outcome {
    let carrier = facts().number("eu.carrier");
    let distances = [0.0, 10.0, 25.0, 50.0, 75.0, 100.0, 125.0, 150.0, 175.0, 200.0];
    let mut outcome = Outcome::new();
    let points: Vec<(f64, Point)> = distances.iter().map(|d| (*d, point(&at(parameters, *d, carrier)))).collect();
    let axis = Axis::new("distance between nodes", "m");
    sweep(&mut outcome, "Optimised burst read against the distance, 250 MHz", axis.clone(), "EU figure 11", &points);
    let equation = Optimised::new(&optimise(parameters));
    let equations = distances.iter().map(|d| (*d, equation.at(*d, carrier)));
    outcome.plots.push(throughput_plot(
        "Throughput by the equations against the distance, 250 MHz",
        axis,
        equations,
        "EU figure 11",
    ));

    let target_distance = facts().number("eu.target_distance");
    let target = facts().fact("eu.target_response").printed().numbers()[0];
    let there = point(&at(parameters, target_distance, carrier));
    let limit = |has_trip| equation.at(target_distance, carrier).distance_limit(target * 1e3, has_trip);
    outcome.headline("clean, ICC hit, 100 m", "us", there.hit);
    outcome.headline("the same, access beside the check", "us", there.overlapped);
    outcome.note(format!(
        "The bare formula stays within 5 us up to {:.0} m; with the arbiter's round trip and no work in it, up to {:.0} m.",
        limit(false),
        limit(true)
    ));
    outcome
}

/// EU-C16.
pub fn goal_far(parameters: &Parameters) -> Option<Judgement> {
    let (distance, carrier) = (facts().number("eu.target_distance"), facts().number("eu.carrier"));
    let there = at(parameters, distance, carrier);
    let us = response(&there, CLEAN_HIT);
    let limit = Optimised::new(&there).distance_limit(5e3, true);
    Some(Judgement::new(
        format!("{us:.2} us"),
        format!(
            "With the arbiter's trip before the access the printed constants alone exceed 5 us beyond {limit:.0} m; the goal is met only if the access runs beside the arbiter's check, which the text does not say."
        ),
        vec![Check::fact(&RULES, "eu.target_response", "response at 100 m", us)],
    ))
}
