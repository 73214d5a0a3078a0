//! Coherence between nodes: every case of figure 9, the steps of figure 8, and the claims on them.
use super::cases::{Case, Measured, measure};
use crate::claim::{Check, Judgement, Limit};
use crate::outcome::{Axis, Outcome, Plot, Table, Tolerance};
use crate::papers::euphoria::flow::Cause;
use crate::papers::euphoria::rules::RULES;
use crate::parameters::Parameters;

const OWN_DIRTY: Case = Case { is_own: true, is_dirty: true, ..Case::BEST };
const OWN_CLEAN: Case = Case { is_own: true, ..Case::BEST };

fn cases() -> Vec<Case> {
    let other = |is_dirty, is_icc_hit| Case { is_dirty, is_icc_hit, ..Case::BEST };
    let own = |is_icc_hit| Case { is_icc_hit, ..OWN_DIRTY };
    vec![OWN_CLEAN, own(true), own(false), other(false, true), other(false, false), other(true, true), other(true, false)]
}

/// Figures 4, 8 and 9.
pub fn run(parameters: &Parameters) -> Outcome {
    let mut outcome = Outcome::new();
    let measured: Vec<(Case, Measured)> = cases().into_iter().map(|case| (case, measure(parameters, case))).collect();
    let names: Vec<String> = measured.iter().map(|(case, _)| case.name()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut columns = vec![("case", ""), ("response", "us"), ("line set up first", "us")];
    columns.extend(Cause::ALL.iter().map(|cause| (cause.name(), "us")));
    let mut table = Table::new("A burst read by case, lines up (figure 9)", &columns);
    for (case, run) in &measured {
        let dark = measure(parameters, Case { is_line_up: false, ..*case });
        let mut row = vec![case.name().into(), run.response().as_us().into(), dark.response().as_us().into()];
        row.extend(run.by_cause().into_iter().map(|(_, span)| span.as_us().into()));
        table.row(row);
        outcome.headline(case.name(), "us", run.response().as_us());
    }
    outcome.tables.push(table);
    let mut plot = Plot::bars("A burst read by case and phase", &names, Axis::new("time", "us")).figure("EU figure 9").stacked();
    for cause in Cause::ALL {
        let values: Vec<f64> = measured.iter().map(|(_, run)| run.share(cause).as_us()).collect();
        plot.bar(cause.name(), &values);
    }
    outcome.plots.push(plot);
    outcome.plots.push(ck_delays(parameters));
    let worst = measure(parameters, Case::WORST);
    let ratio = worst.response().as_us() / measure(parameters, Case::BEST).response().as_us();
    outcome.produce("eu.worst_best_ratio", ratio, Tolerance::Relative(0.1));
    outcome
        .note("Of the arbiter's steps only the wavelength arbitration was measured; every other step is taken to cost as much.");
    outcome.trace = Some(worst.cluster.log().to_trace());
    outcome
}

/// Figure 8: an access to own memory with the block dirty elsewhere, by cause.
fn ck_delays(parameters: &Parameters) -> Plot {
    let mut plot = Plot::bars("Delays of a coherence operation of CK", &["ICC hit", "ICC miss"], Axis::new("time", "us"))
        .figure("EU figure 8")
        .stacked();
    let runs = [true, false].map(|is_icc_hit| measure(parameters, Case { is_icc_hit, ..OWN_DIRTY }));
    for cause in Cause::ALL {
        plot.bar(cause.name(), &runs.each_ref().map(|run| run.share(cause).as_us()));
    }
    plot
}

/// EU-C7.
pub fn software_dominates(parameters: &Parameters) -> Option<Judgement> {
    let run = measure(parameters, OWN_DIRTY);
    let all = run.response().as_us();
    let of = |cause| run.share(cause).as_us();
    let (software, nodes, fibre) = (of(Cause::Arbiter), of(Cause::Node) + of(Cause::Opc), of(Cause::Fibre));
    let lines = of(Cause::Serial) + of(Cause::Conversion);
    let named = || {
        vec![
            Check::new("the arbiter's software, of the response", software / all, "", Limit::Above(RULES.word("dominates"))),
            Check::new("nodes over fibre", nodes / fibre, "x", Limit::Above(1.0)),
            Check::new("fibre, of the response", fibre / all, "", Limit::Below(RULES.word("negligible"))),
        ]
    };
    let second = Check::new("nodes over bytes and conversion", nodes / lines, "x", Limit::Above(1.0));
    Some(
        Judgement::new(
            format!("software {software:.1} us, nodes {nodes:.1} us, bytes and conversion {lines:.1} us, fibre {fibre:.2} us of {all:.1} us"),
            "Own memory, block dirty in another node, ICC hit. Bytes on the lines and their conversion, which the claim does not name, take longer than the nodes; control packets' length is our choice.",
            named(),
        )
        .or("rank of the three parts that are named", "nodes second of all parts", named().into_iter().chain([second]).collect()),
    )
}

/// EU-C8.
pub fn worst_against_best(parameters: &Parameters) -> Option<Judgement> {
    let ratio = |is_line_up| {
        let us = |case: Case| measure(parameters, Case { is_line_up, ..case }).response().as_us();
        us(Case::WORST) / us(Case::BEST)
    };
    let (up, dark) = (ratio(true), ratio(false));
    let check = |ratio| vec![Check::fact(&RULES, "eu.worst_best_ratio", "worst case over best", ratio)];
    Some(
        Judgement::new(
            format!("{up:.2} times with the lines up, {dark:.2} times when each line is set up first"),
            "The count of the arbiter's steps follows from the packets of section 2; each is taken to cost what the one measured step costs.",
            check(up),
        )
        .or("lines up, as in figure 4", "each line set up first", check(dark)),
    )
}

/// EU-C9.
pub fn write_back_overhead(parameters: &Parameters) -> Option<Judgement> {
    let dirty = measure(parameters, OWN_DIRTY).response().as_us();
    let clean = measure(parameters, OWN_CLEAN).response().as_us();
    Some(Judgement::new(
        format!("{dirty:.1} us against {clean:.2} us"),
        "The request, the dummy access, the write-back and the result pass through the arbiter's program.",
        vec![Check::new("own memory, dirty elsewhere over clean", dirty / clean, "x", Limit::Above(RULES.word("large")))],
    ))
}
