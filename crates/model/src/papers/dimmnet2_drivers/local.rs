//! The local matrix product in four forms, figure 8, and what happens beyond main memory.
use crate::claim::{Check, Judgement, Limit};
use crate::outcome::{Axis, Outcome, Plot, Table};
use crate::parameters::Parameters;

use super::calibration::{Program, solved};
use super::cluster::predict;
use super::rules::RULES;
use super::windows::{Attribute, Windows};

/// The forms of the program. SOURCE: [D2 §6.4, Figs 2 and 3]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    MainMemory,
    /// Mapped files on AT-dRAM; the program's text is that of main memory.
    Mapped,
    /// Windows and commands, column elements of B one by one.
    Elements,
    /// Windows and commands, columns of B by one strided load.
    Strided,
}

const FORMS: [(&str, Form); 4] = [
    ("main memory", Form::MainMemory),
    ("AT-dRAM, mapped file", Form::Mapped),
    ("MT-dNET, no stride command", Form::Elements),
    ("MT-dNET, stride command", Form::Strided),
];

/// Time of one product in milliseconds.
fn product(form: Form, order: u64, attribute: Attribute, parameters: &Parameters) -> f64 {
    let windows = Windows::new(parameters, attribute);
    let of_order = parameters.with("matrix.order", order as f64);
    let mapped = predict(Program::Matrix, 1, &of_order).parts;
    let row = order * 8;
    match form {
        Form::MainMemory => mapped.calc,
        Form::Mapped => mapped.total() - mapped.barrier,
        Form::Elements => with_windows(order, &windows, order as f64 * windows.load(8), row, parameters),
        Form::Strided => with_windows(order, &windows, windows.load_strided(order), row, parameters),
    }
}

/// Per row of A a load and a store, per element of C a column of B and a product of vectors that lie in the cache.
fn with_windows(order: u64, windows: &Windows, column_ns: f64, row_bytes: u64, parameters: &Parameters) -> f64 {
    let order = order as f64;
    let madd_ns = parameters.get("cpu.madd") * 1e9 / parameters.get_in("cpu.clock", "Hz");
    let rows = order * (windows.load(row_bytes) + windows.store(row_bytes));
    (rows + order * order * (column_ns + order * madd_ns)) / 1e6
}

/// The experiment on figure 8.
pub fn run(parameters: &Parameters) -> Outcome {
    let mut outcome = Outcome::new();
    let orders = [128_u64, 256, 512, 1024];
    let mut table = Table::new(
        "Local matrix product",
        &[
            ("order", ""),
            ("main memory", "ms"),
            ("AT-dRAM", "ms"),
            ("MT-dNET, no stride", "ms"),
            ("MT-dNET, stride", "ms"),
            ("stride gains", "x"),
            ("gain, uncached", "x"),
        ],
    );
    let gain = |order: u64, attribute: Attribute| {
        product(Form::Elements, order, attribute, parameters) / product(Form::Strided, order, attribute, parameters)
    };
    for order in orders {
        let times = FORMS.map(|(_, form)| product(form, order, Attribute::DriverDefault, parameters));
        let mut row = vec![order.into()];
        row.extend(times.map(Into::into));
        row.push(gain(order, Attribute::DriverDefault).into());
        row.push(gain(order, Attribute::Uncached).into());
        table.row(row);
    }
    let mut plot = Plot::new("Local matrix product", Axis::log("order", ""), Axis::log("time", "ms"));
    for (name, form) in FORMS {
        plot.line(name, orders.map(|order| (order as f64, product(form, order, Attribute::DriverDefault, parameters))));
    }
    outcome.tables.push(table);
    outcome.plots.push(plot.figure("D2 figure 8"));

    let time = |form: Form| product(form, 1024, Attribute::DriverDefault, parameters);
    let slowdown = time(Form::Mapped) / time(Form::MainMemory);
    let gains = [gain(1024, Attribute::DriverDefault), gain(1024, Attribute::Uncached)];
    outcome.headline("AT-dRAM over main memory, order 1024", "x", slowdown);
    outcome.headline("stride command's gain, order 1024", "x", gains[0]);
    outcome.headline("the same with uncached windows", "x", gains[1]);
    outcome.note(
        "Main memory's time of other orders is that of 1024 scaled by the cube; caches make small orders faster than this.",
    );
    outcome
}

/// D2-C7.
pub fn as_fast(parameters: &Parameters) -> Option<Judgement> {
    let time = |form| product(form, 1024, Attribute::DriverDefault, parameters);
    let slowdown = time(Form::Mapped) / time(Form::MainMemory);
    Some(Judgement::new(
        format!("{slowdown:.4} of main memory's time at order 1024"),
        "24 MB are paged in once against N^3 computation; operation times come from Himeno's table. Main memory's time is the computation of the measured total by assumption, so the ratio is that of two cells of Table 6.",
        vec![Check::new("AT-dRAM over main memory", slowdown, "x", Limit::Below(RULES.word("about as fast")))],
    ))
}

/// D2-C8.
pub fn stride(parameters: &Parameters) -> Option<Judgement> {
    let gain =
        |attribute| product(Form::Elements, 1024, attribute, parameters) / product(Form::Strided, 1024, attribute, parameters);
    let (intended, uncached) = (gain(Attribute::DriverDefault), gain(Attribute::Uncached));
    let check = |gain| vec![Check::fact(&RULES, "d2.stride_gain", "gain of the stride command", gain)];
    Some(
        Judgement::new(
            format!("{uncached:.1}x with uncached windows, {intended:.1}x with the intended ones"),
            "The form without the command is not described, nor with which windows it was measured; here it loads each element by a command of its own. \
             Both windows gain more than the paper says; the uncached ones, which the hardware allowed, come near.",
            check(uncached),
        )
        .or("uncached windows", "the intended windows", check(intended)),
    )
}

/// D2-C20.
pub fn one_text(_: &Parameters) -> Option<Judgement> {
    Some(
        Judgement::nothing("", "A statement about source text, not about time, so a timing model has nothing to say.").finding(
            "The product shows it: in apps/matmul the triple loop is one function, which the programs call with pointers to main memory and to regions of the pool; their tests check the product element by element.",
        ),
    )
}

/// The experiment on data that outgrow main memory: passes over an array, paged from disk or from AT-dRAM.
pub fn run_beyond(parameters: &Parameters) -> Outcome {
    let mut outcome = Outcome::new();
    let mut table = Table::new(
        "A pass over an array, after the first",
        &[
            ("array over main memory", "x"),
            ("paged from disk, in sequence", "ms"),
            ("paged from disk, at random", "ms"),
            ("AT-dRAM, in sequence", "ms"),
            ("AT-dRAM gains, in sequence", "x"),
            ("at random", "x"),
        ],
    );
    let shares = [0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 4.0, 8.0];
    let passes = shares.map(|share| (share, Pass::new(share, parameters)));
    let mut plot = Plot::new(
        "Beyond main memory: speed of AT-dRAM over paging to disk",
        Axis::log("array over main memory", "x"),
        Axis::log("gain", "x"),
    );
    for (share, pass) in &passes {
        let gains = (pass.sequential / pass.pool, pass.random / pass.pool_random);
        table.row(vec![
            (*share).into(),
            pass.sequential.into(),
            pass.random.into(),
            pass.pool.into(),
            gains.0.into(),
            gains.1.into(),
        ]);
    }
    plot.line("in sequence", passes.iter().map(|(share, pass)| (*share, pass.sequential / pass.pool)));
    plot.line("at random", passes.iter().map(|(share, pass)| (*share, pass.random / pass.pool_random)));
    outcome.tables.push(table);
    outcome.plots.push(plot);
    let gain = |pass: &Pass| pass.sequential / pass.pool;
    outcome.headline("gain at twice the main memory, in sequence", "x", gain(&passes[5].1));
    outcome
}

/// D2-C9.
pub fn beyond(parameters: &Parameters) -> Option<Judgement> {
    let gain = |share| {
        let pass = Pass::new(share, parameters);
        pass.sequential / pass.pool
    };
    let (inside, outside) = (gain(0.5), gain(2.0));
    Some(
        Judgement::new(
            format!("{inside:.2}x inside main memory, {outside:.1}x at twice its size, reading in sequence"),
            "Least-recently-used paging: a pass over more than fits misses every page. The disk's rate and seek are not the paper's.",
            vec![Check::new("gain at twice main memory over the gain inside it", outside / inside, "x", Limit::Above(1.0))],
        )
        .identity("inside main memory nothing is paged by either, and the disk was chosen slower than the pool."),
    )
}

/// One pass over an array after the first, in milliseconds, including a touch of 1 ns a byte.
struct Pass {
    sequential: f64,
    random: f64,
    pool: f64,
    pool_random: f64,
}

impl Pass {
    fn new(share: f64, parameters: &Parameters) -> Pass {
        let memory = parameters.get_in("memory.size", "B");
        let page = parameters.get_in("page.size", "B");
        let pages = share * memory / page;
        let touch = share * memory / 1e6;
        // Sequential passes under least-recently-used replacement miss everything or nothing; random ones miss what is not resident.
        let missed = if share > 1.0 { pages } else { 0.0 };
        let missed_at_random = pages * (1.0 - 1.0 / share).max(0.0);
        let os = parameters.get_in("os.page", "ms");
        let from_pool = os + page / parameters.get_in("io.unit", "B") * solved(1, parameters).read;
        let streamed = os + page * 1e3 / parameters.get_in("disk.rate", "B/s");
        Pass {
            sequential: touch + missed * streamed,
            random: touch + missed_at_random * (streamed + parameters.get_in("disk.seek", "ms")),
            pool: touch + missed * from_pool,
            pool_random: touch + missed_at_random * from_pool,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::papers::dimmnet2_drivers::parameters;

    #[test]
    fn nothing_is_paged_while_the_array_fits() {
        let pass = Pass::new(1.0, &parameters());
        assert!(pass.sequential == pass.pool && pass.random == pass.pool_random);
    }
}
