//! The operating system's cost of a call and of a page: Tables 4 and 5, equations (1) to (3), figure 5.
// FEATURE: D2-F16
use crate::claim::{Check, Judgement, Limit};
use crate::facts::facts;
use crate::outcome::{Axis, Outcome, Plot, Table, Tolerance};
use crate::parameters::Parameters;

use super::equations::{Run, os_per_call, os_per_page, total};
use super::rules::RULES;

/// What equations (1) to (3) yield from Table 4, in microseconds.
#[derive(Clone, Copy, Debug)]
pub struct Estimate {
    /// A ReadFile, from the 1 and 4 KB runs.
    pub read: f64,
    /// A WriteFile, from the 4 and 16 KB runs.
    pub write: f64,
    /// A page read through a mapped file, by equation (3).
    pub mmap_read: f64,
    /// A page written through a mapped file, from the 4 and 16 KB runs.
    pub mmap_write: f64,
    /// Milliseconds of a read of the whole file that are transfer, by equation (1).
    pub read_transfer: f64,
    /// Milliseconds of a write of the whole file that are transfer, by equation (1).
    pub write_transfer: f64,
}

/// The estimate for the parameters' file size.
pub fn estimate(parameters: &Parameters) -> Estimate {
    let size = parameters.get_in("file.size", "B");
    let run = |key: &str, call_kb: f64| Run { total: parameters.get(key), call_count: size / (call_kb * 1024.0) };
    let read_4k = run("file.read.4k", 4.0);
    let write_16k = run("file.write.16k", 16.0);
    let read = os_per_call(run("file.read.1k", 1.0), read_4k);
    let write = os_per_call(run("file.write.4k", 4.0), write_16k);
    let read_transfer = read_4k.total - read * read_4k.call_count;
    let write_transfer = write_16k.total - write * write_16k.call_count;
    let page_count = size / parameters.get_in("page.size", "B");
    Estimate {
        read: read * 1e3,
        write: write * 1e3,
        mmap_read: os_per_page(parameters.get("file.mmfread.4k"), read_transfer, page_count) * 1e3,
        mmap_write: os_per_call(run("file.mmfwrite.4k", 4.0), run("file.mmfwrite.16k", 16.0)) * 1e3,
        read_transfer,
        write_transfer,
    }
}

/// Time of a whole-file run with calls of `call_bytes`, by equation (1), in milliseconds.
pub fn file_time(os_us: f64, transfer: f64, call_bytes: f64, parameters: &Parameters) -> f64 {
    let size = parameters.get_in("file.size", "B");
    total(os_us / 1e3, size / call_bytes, size, transfer / size)
}

/// The experiment.
pub fn run(parameters: &Parameters) -> Outcome {
    let mut outcome = Outcome::new();
    let found = estimate(parameters);
    let caption = estimate(&parameters.with("file.size", facts().number("d2.testfile_caption")));
    let mut table = Table::new(
        "Operating system's cost of an operation, from Table 4",
        &[("operation", ""), ("from", ""), ("model", "us"), ("with 120 MB", "us"), ("Table 5", "us")],
    );
    for (name, from, got, small, fact) in [
        ("ReadFile", "eq 2, 1 and 4 KB", found.read, caption.read, "d2.t5.read"),
        ("WriteFile", "eq 2, 4 and 16 KB", found.write, caption.write, "d2.t5.write"),
        ("mapped file, read", "eq 3", found.mmap_read, caption.mmap_read, "d2.t5.mmfread"),
        ("mapped file, write", "eq 2, 4 and 16 KB", found.mmap_write, caption.mmap_write, "d2.t5.mmfwrite"),
    ] {
        table.row(vec![name.into(), from.into(), got.into(), small.into(), facts().cell(fact)]);
    }
    outcome.tables.push(table);
    outcome.plots.push(figure_5(&found, parameters));
    // Table 4 prints whole milliseconds: a difference is known to 1 ms, which is 0.026 us over 38400 calls and 0.0065 us over
    // 153600; Table 5 adds half of its last digit.
    outcome.produce("d2.t5.read", found.read, Tolerance::Absolute(0.0115));
    outcome.produce("d2.t5.write", found.write, Tolerance::Absolute(0.031));
    outcome.produce("d2.t5.mmfwrite", found.mmap_write, Tolerance::Absolute(0.031));
    outcome.produce("d2.t5.mmfread", found.mmap_read, Tolerance::Absolute(0.031));
    let predicted = predict_third_points(&found, parameters);
    outcome.produce("d2.t4.read.16k", predicted.0, Tolerance::Relative(RULES.share));
    outcome.produce("d2.t4.write.1k", predicted.1, Tolerance::Relative(RULES.share));
    outcome.headline("ReadFile", "us", found.read);
    outcome.headline("WriteFile", "us", found.write);
    outcome.headline("mapped file, page read", "us", found.mmap_read);
    outcome.note("Suspect: the caption says 120 MB, the text 200 MB; Table 5 follows only with 200 MiB. The 9.87 us of a mapped read follow from neither.");
    outcome
}

/// Totals of the runs that the estimate does not use: reads by 16 KB and writes by 1 KB.
fn predict_third_points(found: &Estimate, parameters: &Parameters) -> (f64, f64) {
    (
        file_time(found.read, found.read_transfer, 16.0 * 1024.0, parameters),
        file_time(found.write, found.write_transfer, 1024.0, parameters),
    )
}

fn figure_5(found: &Estimate, parameters: &Parameters) -> Plot {
    let mut plot =
        Plot::new("Whole-file time against the number of calls", Axis::new("calls", "thousand"), Axis::new("time", "ms"));
    let size = parameters.get_in("file.size", "B");
    let thousand = |call_kb: f64| size / (call_kb * 1024.0) / 1e3;
    let line = |os: f64, transfer: f64| {
        [64.0, 16.0, 4.0, 2.0, 1.0].map(|call_kb| (thousand(call_kb), file_time(os, transfer, call_kb * 1024.0, parameters)))
    };
    plot.line("ReadFile, eq 1", line(found.read, found.read_transfer));
    plot.line("WriteFile, eq 1", line(found.write, found.write_transfer));
    let measured = |kind: &str| {
        [(16.0, "16k"), (4.0, "4k"), (1.0, "1k")].map(|(kb, name)| (thousand(kb), parameters.get(&format!("file.{kind}.{name}"))))
    };
    plot.line("ReadFile, Table 4", measured("read"));
    plot.line("WriteFile, Table 4", measured("write"));
    plot.figure("D2 figure 5")
}

/// D2-C1.
pub fn linear(parameters: &Parameters) -> Option<Judgement> {
    let (read, write) = predict_third_points(&estimate(parameters), parameters);
    let checks = vec![
        Check::fact(&RULES, "d2.t4.read.16k", "ReadFile by 16 KB, on the line through 1 and 4 KB", read),
        Check::fact(&RULES, "d2.t4.write.1k", "WriteFile by 1 KB, on the line through 4 and 16 KB", write),
    ];
    Some(Judgement::new(
        format!("third points on the line: {read:.1} ms (read), {write:.1} ms (write)"),
        "The line of equation (1) is drawn through two measured points of each curve; the third, which it does not use, decides.",
        checks,
    ))
}

/// D2-C2.
pub fn pages_cost_more(parameters: &Parameters) -> Option<Judgement> {
    let found = estimate(parameters);
    Some(Judgement::new(
        format!("{:.2} against {:.2} us; {:.2} against {:.2} us", found.mmap_read, found.read, found.mmap_write, found.write),
        "Estimated from Table 4 alone. The order holds; equation (3) gives 13.10 us where the paper prints 9.87, which no reading yields.",
        vec![
            Check::new("mapped read over ReadFile", found.mmap_read / found.read, "x", Limit::Above(1.0)),
            Check::new("mapped write over WriteFile", found.mmap_write / found.write, "x", Limit::Above(1.0)),
        ],
    ))
}

/// D2-C19. Table 4 prints whole milliseconds: a difference is known to 1 ms, which is 0.026 us over 38,400 calls and
/// 0.0065 us over 153,600; Table 5 adds half of its last digit.
pub fn consistent(parameters: &Parameters) -> Option<Judgement> {
    let found = estimate(parameters);
    let near = |printed: f64, tolerance: f64| Limit::Near { printed, tolerance };
    Some(Judgement::new(
        format!("{:.2}, {:.2}, {:.2} us (mapped read: {:.2})", found.read, found.write, found.mmap_write, found.mmap_read),
        "Equation (2) on 200 MiB, within the rounding of Table 4's milliseconds; the fourth entry, 9.87 us, does not follow. Arithmetic on the paper's own table: it tests the paper's consistency, not a model.",
        vec![
            Check::new("ReadFile", found.read, "us", near(4.27, 0.0115)),
            Check::new("WriteFile", found.write, "us", near(3.75, 0.031)),
            Check::new("mapped write", found.mmap_write, "us", near(4.39, 0.031)),
        ],
    ))
}

/// The experiment on repeated access: whole passes over the file by calls and through a mapping.
pub fn run_passes(parameters: &Parameters) -> Outcome {
    let mut outcome = Outcome::new();
    let by_calls = parameters.get("file.read.4k");
    let mapped = parameters.get("file.mmfread.4k");
    // Pages that stay in memory cost a user nothing more; what does not fit is read again.
    let (size, memory) = (parameters.get_in("file.size", "B"), parameters.get_in("memory.size", "B"));
    let fits = size <= memory;
    let again = if fits { 0.0 } else { mapped };
    let time = |pass: u64| (by_calls * pass as f64, mapped + again * (pass - 1) as f64);
    let mut table = Table::new(
        "Passes over the test file",
        &[("passes", ""), ("ReadFile by 4 KB", "ms"), ("mapped file", "ms"), ("mapped is faster by", "x")],
    );
    let mut plot = Plot::new("Repeated access: mapped file against ReadFile", Axis::new("passes", ""), Axis::new("time", "ms"));
    let passes = [1, 2, 3, 4, 6, 8, 10];
    for pass in passes {
        let (calls, mapping) = time(pass);
        table.row(vec![pass.into(), calls.into(), mapping.into(), (calls / mapping).into()]);
    }
    plot.line("ReadFile", passes.map(|pass| (pass as f64, time(pass).0)));
    plot.line("mapped file", passes.map(|pass| (pass as f64, time(pass).1)));
    outcome.tables.push(table);
    outcome.plots.push(plot);
    let crossing = (1..=1_000).find(|pass| time(*pass).1 < time(*pass).0);
    outcome.headline("pass from which mapping is faster", "", crossing.map_or(f64::INFINITY, |pass| pass as f64));
    if !fits {
        outcome.note("The file does not fit the main memory: every pass faults again under least-recently-used replacement.");
    }
    outcome
}

/// D2-C3.
pub fn repeated(parameters: &Parameters) -> Option<Judgement> {
    let (by_calls, mapped) = (parameters.get("file.read.4k"), parameters.get("file.mmfread.4k"));
    let fits = parameters.get_in("file.size", "B") <= parameters.get_in("memory.size", "B");
    let again = if fits { 0.0 } else { mapped };
    let crossing = (1..=1_000_u32).find(|pass| mapped + again * f64::from(pass - 1) < by_calls * f64::from(*pass));
    Some(Judgement::new(
        crossing.map_or("never faster".to_string(), |pass| format!("faster from pass {pass} on")),
        "A page's cost is paid at its first access, a call's at every access: a constant against a line that rises crosses for any positive times.",
        vec![Check::is("a mapping becomes faster after some number of passes", crossing.is_some())],
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::papers::dimmnet2_drivers::parameters;

    #[test]
    fn both_file_sizes_give_the_derived_estimates() {
        let near = |got: f64, key: &str| assert!((got - facts().number(key)).abs() < 0.0006, "{key}: {got}");
        let found = estimate(&parameters());
        near(found.read, "d2.check.t5.read_200MiB");
        near(found.write, "d2.check.t5.write_200MiB");
        near(found.mmap_write, "d2.check.t5.mmfwrite_200MiB");
        let caption = estimate(&parameters().with("file.size", 120.0));
        near(caption.read, "d2.check.t5.read_120MiB");
        near(caption.write, "d2.check.t5.write_120MiB");
        near(caption.mmap_write, "d2.check.t5.mmfwrite_120MiB");
        // The derived value was computed with the printed 4.27 us in place of the estimate.
        assert!((found.mmap_read - facts().number("d2.check.t5.mmfread_200MiB")).abs() < 0.002, "{}", found.mmap_read);
    }

    #[test]
    fn a_file_beyond_memory_faults_every_pass() {
        let outcome = run_passes(&parameters().with("file.size", 1024.0));
        assert!(outcome.headlines[0].value.is_infinite());
    }
}
