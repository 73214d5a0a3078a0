//! The arbiter in software and in hardware, step by step of the optimisation.
use super::cases::{Case, measure};
use crate::claim::ClaimResult;
use crate::outcome::{Axis, Outcome, Plot, Table};
use crate::papers::euphoria::timing::Timing;
use crate::parameters::Parameters;

/// What each optimisation gains, for three accesses.
pub fn run(parameters: &Parameters) -> Outcome {
    let software = parameters.with("arbiter.kind", 0.0);
    let hardware = parameters.with("arbiter.kind", 1.0);
    let systems = [
        ("today: software, two clocks", software.clone()),
        ("hardware arbiter", hardware.clone()),
        ("and one clock domain", hardware.with("opc.domains", 0.0)),
        ("and no OPC processing", super::optimised::optimise(parameters)),
        ("and access beside the check", super::optimised::optimise(parameters).with("arbiter.is_overlapped", 1.0)),
    ];
    let cases = [Case { is_line_up: false, ..Case::BEST }, Case::BEST, Case::WORST];
    let mut outcome = Outcome::new();
    let columns = [("system", ""), ("first use of the line", "us"), ("clean, ICC hit", "us"), ("dirty, ICC miss", "us")];
    let mut table = Table::new("A remote burst read under each optimisation", &columns);
    let mut plot =
        Plot::bars("A remote burst read under each optimisation", &systems.each_ref().map(|s| s.0), Axis::log("response", "us"));
    let responses = systems.each_ref().map(|(name, system)| {
        let responses = cases.map(|case| measure(system, case).response().as_us());
        table.row(vec![(*name).into(), responses[0].into(), responses[1].into(), responses[2].into()]);
        responses
    });
    for (index, name) in ["first use of the line", "clean, ICC hit", "dirty, ICC miss"].into_iter().enumerate() {
        plot.bar(name, &responses.each_ref().map(|of| of[index]));
    }
    outcome.tables.push(table);
    outcome.plots.push(plot);
    let step = Timing::new(&hardware).step.as_ns();
    let program = Timing::new(&software).step.as_us();
    outcome.headline("a step in hardware", "ns", step);
    outcome.claims.push(
        ClaimResult::judged(
            "EU-C18",
            (100.0..1000.0).contains(&step) && program >= 10.0,
            format!("{step:.0} ns against {program:.1} us"),
            "A step in hardware is one look into the memory that holds ICC, a single read at 33 MHz; the program's step is the measured arbitration.",
            &["eu.t1.single.read.cycles", "eu.arbiter_bus", "eu.arbitration_time"],
        )
        .stating(&["eu.hw_arbiter_step"]),
    );
    outcome
}
