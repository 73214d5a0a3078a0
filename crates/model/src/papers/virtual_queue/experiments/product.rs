//! Figure 6: efficiency against processors, and the claims on it.
use super::claims;
use crate::outcome::{Axis, Outcome, Plot, Table, Tolerance};
use crate::papers::virtual_queue::product::{Measured, ORDERS, Scheme, run_on};
use crate::parameters::Parameters;

/// Every scheme on every processor count.
pub struct Sweep {
    /// Processor counts, ascending.
    pub counts: Vec<usize>,
    /// By scheme as in [`Scheme::ALL`], then by count.
    pub runs: [Vec<Measured>; 4],
}

impl Sweep {
    /// Runs the counts from `first` on, doubling, as far as the matrix divides.
    pub fn run(parameters: &Parameters, first: usize, last: usize) -> Sweep {
        let fits = |count: &usize| crate::papers::virtual_queue::product::Plan::new(parameters, *count).is_some();
        let counts: Vec<usize> =
            std::iter::successors(Some(first), |count| Some(count * 2)).take_while(|count| *count <= last).filter(fits).collect();
        let runs = Scheme::ALL.map(|scheme| counts.iter().filter_map(|count| run_on(parameters, scheme, *count)).collect());
        Sweep { counts, runs }
    }

    /// The run of a scheme on a count.
    pub fn of(&self, scheme: Scheme, count: usize) -> Option<&Measured> {
        let scheme = Scheme::ALL.iter().position(|other| *other == scheme)?;
        let index = self.counts.iter().position(|other| *other == count)?;
        self.runs[scheme].get(index)
    }

    /// Efficiencies of a scheme, by count.
    pub fn efficiencies(&self, scheme: Scheme) -> Vec<(usize, f64)> {
        let pairs = self.counts.iter().map(|count| (*count, self.of(scheme, *count)));
        pairs.filter_map(|(count, run)| run.map(|run| (count, run.efficiency))).collect()
    }

    fn tables(&self, title: &str) -> Vec<Table> {
        let mut efficiency =
            Table::new(title, &[("processors", ""), ("CC", "of peak"), ("CC'", "of peak"), ("VQ", "of peak"), ("VR", "of peak")]);
        let columns = [
            ("processors", ""),
            ("scheme", ""),
            ("hit ratio", ""),
            ("synchronisation", "of time"),
            ("cache port taken", "of time"),
            ("memory busy", "of time"),
            ("updates that found their block", ""),
            ("bypassed", "of blocks"),
            ("context hits", ""),
            ("events", "count"),
        ];
        let mut details = Table::new("Where the time goes", &columns);
        for (index, count) in self.counts.iter().enumerate() {
            let mut row = vec![(*count as u64).into()];
            row.extend(self.runs.iter().map(|runs| runs[index].efficiency.into()));
            efficiency.row(row);
            for (scheme, runs) in Scheme::ALL.iter().zip(&self.runs) {
                let run = &runs[index];
                let is = |condition: bool, value: f64| condition.then_some(value);
                details.row(vec![
                    (*count as u64).into(),
                    scheme.name().into(),
                    run.hit_ratio.into(),
                    is(*scheme == Scheme::Cc, run.synchronisation).into(),
                    is(*scheme == Scheme::Cc, run.disturbed).into(),
                    run.memory_use.into(),
                    is(*scheme == Scheme::Cc && *count > 1, run.updates_cached).into(),
                    is(*scheme == Scheme::Vq && *count > 1, run.bypassed).into(),
                    is(*scheme == Scheme::Vq && *count > 1, run.contexts.hit_ratio()).into(),
                    run.events.into(),
                ]);
            }
        }
        vec![efficiency, details]
    }

    fn plot(&self, title: &str) -> Plot {
        let mut plot = Plot::new(title, Axis::log("processors", ""), Axis::new("FLOPC of peak", ""));
        // VQ last: it lies on VR and would be hidden below it.
        for scheme in [Scheme::Cc, Scheme::CcPlain, Scheme::Vr, Scheme::Vq] {
            plot.line(scheme.name(), self.efficiencies(scheme).into_iter().map(|(count, value)| (count as f64, value)));
        }
        plot
    }
}

/// Why a product cannot be run on some of these processor counts.
pub fn refusal(parameters: &Parameters, counts: &[usize]) -> Option<Outcome> {
    let fails = |count: &&usize| crate::papers::virtual_queue::product::Plan::new(parameters, **count).is_none();
    counts.iter().find(fails).map(|count| {
        let (order, block) = (parameters.get("matrix.order"), parameters.get("cache.block"));
        Outcome::refuse(format!(
            "matrix.order={order}, cache.block={block} B: a row does not divide into whole blocks among {count} processors"
        ))
    })
}

/// Figure 6.
pub fn run(parameters: &Parameters) -> Outcome {
    if let Some(refused) = refusal(parameters, &[1]) {
        return refused;
    }
    let last = parameters.count("product.processors") as usize;
    let sweep = Sweep::run(parameters, 1, last);
    let mut outcome = Outcome::new();
    outcome.tables = sweep.tables("Efficiency of the matrix product");
    outcome.plots.push(sweep.plot("Matrix product: efficiency against processors").figure("VQ figure 6"));
    for scheme in Scheme::ALL {
        if let Some(run) = sweep.of(scheme, *sweep.counts.last().unwrap_or(&1)) {
            outcome.headline(format!("{}, most processors", scheme.name()), "of peak", run.efficiency);
        }
    }
    // SOURCE: [VQ §6]: two loads for a multiply-add, which is two operations.
    let peak = parameters.get("node.load_store_units") * 2.0 / crate::facts::facts().number("vq.loads_per_madd");
    outcome.produce("vq.peak", peak, Tolerance::Exact);
    outcome.produce("vq.t1.cache.block_dw", parameters.get("cache.block") / 8.0, Tolerance::Exact);
    if let Some(hits) = claims::context_hits(&sweep) {
        outcome.produce("vq.hit_ratio", hits * 100.0, Tolerance::Relative(0.02));
    }
    outcome.note("Simulated in blocks of four words: every cache look-up, memory, port and queue access is an event or exact in its order; loads that hit are charged in one piece.");
    outcome.note("The paper does not say which loop streams; here rows of A stay and columns of B travel a ring. product.order changes how many rows a column meets at a time, in every scheme.");
    outcome
}

/// Up to 1024 processors: rings of as many processors as there are rows, each with a part of the inner dimension.
pub fn run_scale(parameters: &Parameters) -> Outcome {
    let sized = parameters.with("matrix.order", parameters.get("scale.order"));
    if let Some(refused) = refusal(&sized, &[64]) {
        return refused;
    }
    let sweep = Sweep::run(&sized, 64, 1024);
    let mut outcome = Outcome::new();
    outcome.tables = sweep.tables("Efficiency beyond one processor a row");
    outcome.plots.push(sweep.plot("Matrix product on up to 1024 processors"));
    if let Some(run) = sweep.of(Scheme::Vq, 1024) {
        outcome.headline("VQ, 1024 processors", "of peak", run.efficiency);
    }
    outcome.note(format!("Order {}; --set scale.order=256 runs the paper's.", parameters.get("scale.order")));
    outcome
}

/// The claims that depend on the order of the loops, in every order.
pub fn run_orders(parameters: &Parameters) -> Outcome {
    if let Some(refused) = refusal(parameters, &[1, 2, 4, 8, 16, 32, 64]) {
        return refused;
    }
    let judged: [(&str, claims::Judged); 4] = [
        ("VQ-C1", claims::cc_against_plain),
        ("VQ-C2", claims::plain),
        ("VQ-C4", claims::few_processors_cc),
        ("VQ-C6", claims::few_processors_queues),
    ];
    let mut columns = vec![("order", "")];
    columns.extend(judged.iter().map(|(id, _)| (*id, "")));
    let mut verdicts = Table::new("Four claims in four orders of the loops, the same for every scheme", &columns);
    let mut values = Table::new(
        "What they rest on",
        &[("order", ""), ("processors", ""), ("CC", "of peak"), ("CC'", "of peak"), ("VQ", "of peak"), ("VR", "of peak")],
    );
    for (index, (name, _)) in ORDERS.iter().enumerate() {
        let ordered = parameters.with("product.order", index as f64);
        let holds = |judge: claims::Judged| match judge(&ordered) {
            Some(judgement) if judgement.holds() => "holds",
            Some(_) => "fails",
            None => "-",
        };
        let mut row = vec![(*name).into()];
        row.extend(judged.iter().map(|(_, judge)| holds(*judge).into()));
        verdicts.row(row);
        for count in [1_usize, 2, 4, 8, 16, 64] {
            let mut row = vec![(*name).into(), (count as u64).into()];
            row.extend(Scheme::ALL.map(|scheme| run_on(&ordered, scheme, count).map(|run| run.efficiency).into()));
            values.row(row);
        }
    }
    let mut outcome = Outcome::new();
    outcome.tables = vec![verdicts, values];
    outcome.note("A claim is judged here in its first reading; the paper's text names no order.");
    outcome
}
