//! The first remote access, packet by packet: line request, arbitration, set-up, access, end.
use super::cases::{Case, measure};
use crate::claim::{Check, Judgement, Limit};
use crate::outcome::{Axis, Outcome, Plot, Table};
use crate::papers::euphoria::flow::{Cause, remote, total};
use crate::papers::euphoria::rules::RULES;
use crate::papers::euphoria::timing::{Access, Timing};
use crate::parameters::Parameters;
use crate::time::Picos;
use crate::trace::Trace;

const FIRST: Case = Case { is_line_up: false, ..Case::BEST };

/// Figures 3, 5 and 6: the packets, the link delay's components, the delay of each phase.
// FEATURE: EU-F22
pub fn run(parameters: &Parameters) -> Outcome {
    let measured = measure(parameters, FIRST);
    let mut outcome = Outcome::new();
    let columns = [("step", ""), ("spent on", ""), ("start", "ns"), ("length", "ns")];
    let mut table = Table::new("A remote read, line not set up (figure 3)", &columns);
    for step in measured.cluster.log().steps() {
        let start = step.start.since(measured.answered.start);
        table.row(vec![step.name.into(), step.cause.name().into(), start.as_ns().into(), (step.end - step.start).as_ns().into()]);
    }
    outcome.tables.push(table);
    let mut plot = Plot::bars("Delay of a remote read by phase", &["line not set up", "line up"], Axis::new("time", "us"))
        .figure("EU figure 6")
        .stacked();
    let up = measure(parameters, Case::BEST);
    for cause in Cause::ALL {
        plot.bar(cause.name(), &[measured.share(cause).as_us(), up.share(cause).as_us()]);
    }
    outcome.plots.push(plot);
    outcome.plots.push(link_delay(parameters));
    outcome.headline("first remote read", "us", measured.response().as_us());
    outcome.trace = Some(measured.cluster.log().to_trace());
    outcome
}

/// EU-C6.
pub fn most_of_the_delay(parameters: &Parameters) -> Option<Judgement> {
    let run = measure(parameters, FIRST);
    let all = run.response().as_us();
    let (arbiter, set_up) = (run.share(Cause::Arbiter).as_us(), run.share(Cause::SetUp).as_us());
    let share = (arbiter + set_up) / all;
    Some(Judgement::new(
        format!("{:.0} % of {all:.1} us: arbiter {arbiter:.1}, set-up {set_up:.1} us", share * 100.0),
        "Run packet by packet with the two measured times of the arbiter and the set-up; everything else of the access comes from tables 1 and 2.",
        vec![Check::new("arbiter and set-up, of the response", share, "", Limit::Above(RULES.word("most")))],
    ))
}

fn link_delay(parameters: &Parameters) -> Plot {
    let mut plot = Plot::new("Delay of the lines against their length", Axis::new("fibre", "m"), Axis::new("delay", "ns"))
        .figure("EU figure 5");
    let points = |delay: fn(&Timing) -> Picos, share: f64| {
        (0..=10).map(move |step| {
            let length = f64::from(step) * 20.0;
            let timing = Timing::new(&parameters.with("line.distance", length / share));
            (length, delay(&timing).as_ns())
        })
    };
    plot.line("data line: conversion, optics, fibre", points(Timing::data_line, 1.0));
    plot.line(
        "arbitration line",
        points(|t| t.arbitration_const + t.arbiter_fibre, parameters.get("line.arbiter_share").max(0.01)),
    );
    plot.line("fibre alone", points(|t| t.fibre, 1.0));
    plot
}

/// Figure 7: the timeline of a burst write over a line that is up, two writes in a row.
pub fn run_write(parameters: &Parameters) -> Outcome {
    let timing = Timing::new(parameters);
    let flow = remote(&timing, Access::BURST_WRITE);
    let mut outcome = Outcome::new();
    let columns = [("phase", ""), ("spent on", ""), ("start", "ns"), ("length", "ns")];
    let mut table = Table::new("A burst write, line up (figure 7)", &columns);
    let mut plot = Plot::timeline("Timeline of a burst write, line up", Axis::new("time", "ns")).figure("EU figure 7");
    let mut trace = Trace::new();
    let mut at = Picos::ZERO;
    for (index, phase) in flow.interval.iter().enumerate() {
        let end = at + phase.span;
        table.row(vec![phase.name.into(), phase.cause.name().into(), at.as_ns().into(), phase.span.as_ns().into()]);
        plot.span(&format!("{} {}", index + 1, phase.name), phase.cause.name(), at.as_ns(), end.as_ns());
        let part = trace.part("burst write", &format!("{:?}", phase.place).to_lowercase());
        trace.span(part, phase.name, at, end);
        at = end;
    }
    let requester = trace.part("burst write", "requester");
    trace.mark(requester, "the processor's write has ended", total(&flow.response));
    outcome.tables.push(table);
    outcome.plots.push(plot);
    outcome.headline("burst write response", "ns", total(&flow.response).as_ns());
    outcome.headline("burst write interval", "ns", at.as_ns());
    outcome.trace = Some(trace);
    outcome
}
