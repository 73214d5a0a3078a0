//! The arbiter in software and in hardware, step by step of the optimisation.
use super::cases::{Case, measure};
use crate::claim::{Check, Judgement, Limit};
use crate::outcome::{Axis, Outcome, Plot, Table};
use crate::papers::euphoria::rules::RULES;
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
    outcome.headline("a step in hardware", "ns", step);
    outcome
}

/// EU-C18.
pub fn hardware_step(parameters: &Parameters) -> Option<Judgement> {
    let step = Timing::new(&parameters.with("arbiter.kind", 1.0)).step.as_ns();
    let program = Timing::new(&parameters.with("arbiter.kind", 0.0)).step.as_us();
    Some(
        Judgement::new(
            format!("{step:.0} ns against {program:.1} us"),
            "A step in hardware is one look into the memory that holds ICC, a single read at 33 MHz; the program's step is the measured arbitration.",
            vec![
                Check::new("a step in hardware", step, "ns", Limit::AtLeast(RULES.word("a few hundred ns, least"))),
                Check::new("a step in hardware", step, "ns", Limit::Below(RULES.word("a few hundred ns, most"))),
                Check::new("a step of the program", program, "us", Limit::AtLeast(RULES.word("tens of microseconds"))),
            ],
        )
        .identity("both steps are inputs: 13 cycles were chosen, and the arbitration was measured."),
    )
}
