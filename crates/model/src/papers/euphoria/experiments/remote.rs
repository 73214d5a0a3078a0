//! Another node's memory over a line that is up: table 2 and the claims on it.
use crate::claim::{Check, Judgement, Limit};
use crate::facts::facts;
use crate::outcome::{Axis, Outcome, Plot, Table, Tolerance};
use crate::papers::euphoria::flow::{Cause, bytes_per_second, processing_for, remote, share, total};
use crate::papers::euphoria::rules::RULES;
use crate::papers::euphoria::timing::{Access, Timing};
use crate::parameters::Parameters;
use crate::time::Picos;

const RESPONSES: [&str; 4] = ["eu.t2.single.read", "eu.t2.single.write", "eu.t2.burst.read", "eu.t2.burst.write"];

/// Table 2, and what a single clock domain would change.
pub fn run(parameters: &Parameters) -> Outcome {
    let timing = Timing::new(parameters);
    let mut outcome = Outcome::new();
    responses(&mut outcome, &timing);
    throughputs(&mut outcome, &timing);
    domains(&mut outcome, parameters);
    let rate = parameters.hertz("line.carrier") as f64 * 0.8 / 1e6;
    outcome.produce("eu.line_rate", rate, Tolerance::Exact);
    cycles_of_the_equations(&mut outcome, &timing);
    outcome
}

fn responses(outcome: &mut Outcome, timing: &Timing) {
    let mut table =
        Table::new("Response of another node's memory (table 2)", &[("access", ""), ("model", "ns"), ("paper", "ns")]);
    for (access, fact) in Access::ALL.into_iter().zip(RESPONSES) {
        let ns = total(&remote(timing, access).response).as_ns();
        table.row(vec![access.name().into(), ns.into(), facts().cell(fact)]);
        // A fit to the read interval alone, so the responses are predictions; the single write's is the least good.
        outcome.produce(fact, ns, Tolerance::Relative(0.04));
        outcome.headline(access.name(), "ns", ns);
    }
    outcome.tables.push(table);
}

fn throughputs(outcome: &mut Outcome, timing: &Timing) {
    let mut table = Table::new(
        "Repeated bursts to another node's memory",
        &[("access", ""), ("interval", "ns"), ("model", "MB/s"), ("paper", "MB/s")],
    );
    let facts_of = [(Access::BURST_READ, "eu.t2.throughput.read"), (Access::BURST_WRITE, "eu.t2.throughput.write")];
    let rates = facts_of.map(|(access, fact)| {
        let interval = total(&remote(timing, access).interval).as_ns();
        let rate = bytes_per_second(timing, access) / 1e6;
        table.row(vec![access.name().into(), interval.into(), rate.into(), facts().cell(fact)]);
        outcome.produce(fact, rate, Tolerance::Relative(0.01));
        rate
    });
    outcome.produce("eu.t2.read_write_ratio", rates[0] / rates[1], Tolerance::Relative(0.05));
    outcome.headline("read throughput", "MB/s", rates[0]);
    outcome.headline("write throughput", "MB/s", rates[1]);
    outcome.tables.push(table);
}

/// The equations' cycles are sums of parts: a proxy's access, two copies of the beats, an address tenure, a restart.
fn cycles_of_the_equations(outcome: &mut Outcome, timing: &Timing) {
    let one_clock = Timing { opc_hertz: timing.bus_hertz, ..timing.clone() };
    let cycles = |span: Picos| (span.as_ns() * one_clock.bus_hertz as f64 / 1e9).round();
    let node_part = |phases: &[crate::papers::euphoria::flow::Phase]| {
        cycles(share(phases, Cause::Node).since(phases.iter().filter(|p| p.name.starts_with("wait")).map(|p| p.span).sum()))
    };
    let read = remote(&one_clock, Access::BURST_READ);
    let write = remote(&one_clock, Access::BURST_WRITE);
    for (fact, phases) in [
        ("eu.trb.cycles", &read.response),
        ("eu.twb.cycles", &write.response),
        ("eu.thr.cycles", &read.interval),
        ("eu.thw.cycles", &write.interval),
    ] {
        outcome.produce(fact, node_part(phases), Tolerance::Exact);
    }
}

// FEATURE: EU-F24
fn domains(outcome: &mut Outcome, parameters: &Parameters) {
    let variants = [
        ("two clock domains (today)", parameters.with("opc.domains", 1.0)),
        ("one clock domain", parameters.with("opc.domains", 0.0)),
        ("one clock domain, no OPC processing (equations)", parameters.with("opc.domains", 0.0).with("opc.processing", 0.0)),
    ];
    let columns = [("nodes", ""), ("burst read", "ns"), ("burst write", "ns"), ("read", "MB/s"), ("write", "MB/s")];
    let mut table = Table::new("Clock domains", &columns);
    let mut plot =
        Plot::bars("Where a remote burst read's time goes", &variants.each_ref().map(|v| v.0), Axis::new("time", "ns")).stacked();
    let flows = variants.each_ref().map(|(name, variant)| {
        let timing = Timing::new(variant);
        let (read, write) = (remote(&timing, Access::BURST_READ), remote(&timing, Access::BURST_WRITE));
        let rates = [Access::BURST_READ, Access::BURST_WRITE].map(|access| bytes_per_second(&timing, access) / 1e6);
        table.row(vec![
            (*name).into(),
            total(&read.response).as_ns().into(),
            total(&write.response).as_ns().into(),
            rates[0].into(),
            rates[1].into(),
        ]);
        read.response
    });
    for cause in [Cause::Node, Cause::Opc, Cause::Serial, Cause::Conversion, Cause::Fibre] {
        plot.bar(cause.name(), &flows.each_ref().map(|phases| share(phases, cause).as_ns()));
    }
    outcome.tables.push(table);
    outcome.plots.push(plot);
}

fn solved(parameters: &Parameters, phases: fn(&Timing) -> Picos, measured: Picos) -> Parameters {
    // The default was solved from Table 2 too: nothing of it may remain.
    let timing = Timing::new(&parameters.fitted("opc.processing", 0.0));
    parameters.fitted("opc.processing", processing_for(&timing, phases, measured).as_ns())
}

/// OPC's processing from the read throughput alone.
pub fn on_read_throughput(parameters: &Parameters) -> Parameters {
    let block = parameters.bytes("cache.block") as f64;
    let interval = Picos::from_ns_f64(block / facts().number("eu.t2.throughput.read") * 1e3);
    solved(parameters, |t| total(&remote(t, Access::BURST_READ).interval), interval)
}

/// OPC's processing from the burst read's response alone.
pub fn on_read_response(parameters: &Parameters) -> Parameters {
    let response = Picos::from_ns_f64(facts().number("eu.t2.burst.read"));
    solved(parameters, |t| total(&remote(t, Access::BURST_READ).response), response)
}

/// EU-C2.
pub fn table_2(parameters: &Parameters) -> Option<Judgement> {
    let timing = Timing::new(parameters);
    let ns = Access::ALL.map(|access| total(&remote(&timing, access).response).as_ns());
    let checks = Access::ALL.iter().zip(RESPONSES).zip(ns);
    Some(Judgement::new(
        format!("burst {:.0} / {:.0} ns, single {:.0} / {:.0} ns", ns[2], ns[3], ns[0], ns[1]),
        "One unknown, OPC's processing at a pass; the four responses follow. The single write is the least good.",
        checks.map(|((access, fact), got)| Check::fact(&RULES, fact, access.name(), got)).collect(),
    ))
}

/// EU-C3.
pub fn read_against_write(parameters: &Parameters) -> Option<Judgement> {
    let timing = Timing::new(parameters);
    let ratio = bytes_per_second(&timing, Access::BURST_READ) / bytes_per_second(&timing, Access::BURST_WRITE);
    Some(Judgement::new(
        format!("{ratio:.2}"),
        "AAck frees the address path while a read's data still arrive; a write's data packet must be gone first.",
        vec![Check::fact(&RULES, "eu.t2.read_write_ratio", "read throughput over write", ratio)],
    ))
}

/// EU-C13.
pub fn internal_overhead(parameters: &Parameters) -> Option<Judgement> {
    let timing = Timing::new(parameters);
    let shares = [Access::BURST_READ, Access::BURST_WRITE].map(|access| {
        let interval = remote(&timing, access).interval;
        let internal = share(&interval, Cause::Opc) + share(&interval, Cause::Node);
        let largest = [Cause::Serial, Cause::Conversion, Cause::Fibre].into_iter().map(|cause| share(&interval, cause)).max();
        (internal.as_ns() / total(&interval).as_ns(), internal.as_ns() / largest.map_or(f64::NAN, |other| other.as_ns()))
    });
    let over = |(_, ratio): (f64, f64), what: &str| {
        Check::new(format!("internal processing over the next part, {what}"), ratio, "x", Limit::Above(1.0))
    };
    Some(Judgement::new(
        format!("{:.0} % of a read's and {:.0} % of a write's interval", shares[0].0 * 100.0, shares[1].0 * 100.0),
        "Processing in OPC, buses and memory is the largest part of both steady states, and more than half of the reads'; of a write's interval the bytes on the line take nearly as much.",
        vec![
            over(shares[0], "reads"),
            over(shares[1], "writes"),
            Check::new("internal processing, of a read's interval", shares[0].0, "", Limit::Above(RULES.word("most"))),
        ],
    ))
}
