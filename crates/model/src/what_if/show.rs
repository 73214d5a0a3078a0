//! The answer as text, as JSON and as a plot.
use serde_json::{Value, json};

use super::ask::{Answer, Sweep};
use super::calibrate::Comparison;
use super::costs::{HeldUp, Predicted, SoftwareCosts};
use super::path::Expense;
use super::program::Program;
use super::replay::Replay;
use super::simulate::Setting;
use crate::outcome::{Axis, Plot};
use crate::statistics;
use crate::text;
use crate::time::Picos;

/// What was asked, in words, for the first line of an answer.
fn question(program: &Program, setting: &Setting) -> String {
    let Setting { nodes, ranks, cores, .. } = setting;
    let count = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    format!(
        "{}: {} on {} of {}, {}",
        program.name,
        count(*ranks, "rank"),
        count(*nodes, "node"),
        count(*cores, "processor"),
        setting.network.name
    )
}

fn share(part: Picos, whole: Picos) -> f64 {
    if whole == Picos::ZERO { 0.0 } else { part.0 as f64 / whole.0 as f64 * 100.0 }
}

/// Times of what was waited for, in microseconds, as the answer tells them.
struct AnswerTimes {
    median: f64,
    mean: statistics::Mean,
    p99: f64,
}

/// Mean and percentile contain the host's delays, which a run by medians has not.
fn waits(times: &[Picos], held_up: HeldUp) -> Option<AnswerTimes> {
    let micros: Vec<f64> = times.iter().map(|time| time.as_us()).collect();
    let mean = statistics::mean(&micros)?;
    let mut sorted = micros;
    sorted.sort_by(f64::total_cmp);
    let at = |share: f64| sorted[((sorted.len() - 1) as f64 * share).round() as usize];
    // A width below what is printed of the mean is none: all answers took the same.
    let half_width = mean.half_width.filter(|half| *half > 1e-3 * mean.value);
    let mean = statistics::Mean { value: mean.value + held_up.mean / 1e3, half_width };
    Some(AnswerTimes { median: at(0.5), mean, p99: at(0.99) + held_up.p99 / 1e3 })
}

/// The least share of the time that is worth a line.
const SHARE_MIN: f64 = 0.05;

fn change(end: Picos, base: Picos) -> String {
    let percent = (end.0 as f64 / base.0.max(1) as f64 - 1.0) * 100.0;
    if percent.abs() < 0.05 { "nothing".to_string() } else { format!("{percent:+.1} %") }
}

/// The answer for a terminal.
pub fn as_text(program: &Program, setting: &Setting, answer: &Answer) -> String {
    let run = &answer.run;
    let mut parts = vec![format!("{}\n", question(program, setting))];
    let interval = match &answer.interval {
        Some((low, high)) => format!(", {low} to {high} as far as what was held out tells"),
        None => String::new(),
    };
    parts.push(format!("{}{interval}\n", run.end));
    if let Some(end) = answer.held_up {
        parts.push(format!(
            "{end} where the host holds answers up as it did at calibration: the mean, where the line above is of medians\n"
        ));
    }
    parts.extend(answer.replay.as_ref().map(replay));
    parts.extend(answer.beyond.iter().map(|reason| format!("  not validated: {reason}\n")));
    if let Some((name, end)) = &answer.against {
        parts.push(format!("  {name}: {end} ({})\n", change(*end, run.end)));
    }
    parts.push("\n".to_string());
    let spent: Vec<Vec<String>> = Expense::ALL
        .iter()
        .filter(|cause| share(run.path.of(**cause), run.end) >= SHARE_MIN)
        .map(|cause| {
            let span = run.path.of(*cause);
            vec![cause.name().to_string(), span.to_string(), format!("{:.1} %", share(span, run.end))]
        })
        .collect();
    let heads = |names: [&str; 3]| names.map(String::from);
    parts.push(text::columns(&heads(["along the critical path", "time", "share"]), &spent, &[false, true, true]));
    let kinds: Vec<Vec<String>> = run
        .traffic
        .iter()
        .map(|(kind, traffic)| vec![kind.to_string(), traffic.messages.to_string(), traffic.bytes.to_string()])
        .collect();
    if !kinds.is_empty() {
        parts.push("\n".to_string());
        parts.push(text::columns(&heads(["messages", "count", "bytes"]), &kinds, &[false, true, true]));
    }
    if !answer.elasticities.is_empty() {
        let rows: Vec<Vec<String>> =
            answer.elasticities.iter().map(|e| vec![e.change.to_string(), change(e.end, run.end)]).collect();
        parts.push("\n".to_string());
        parts.push(text::columns(&["with", "time"].map(String::from), &rows, &[false, true]));
    }
    parts.push("\n".to_string());
    if let Some(AnswerTimes { median, mean, p99 }) = waits(&run.times, held_up(setting, answer)) {
        let half = mean.half_width.map_or(String::new(), |half| format!(" +- {} (95 % interval)", text::number(half)));
        let [median, mean, p99] = [median, mean.value, p99].map(text::number);
        parts.push(format!("an answer takes {median} us (median), {mean}{half} us (mean), {p99} us (99th percentile)\n"));
    }
    let (link, node) = run.busiest;
    parts.push(format!("busiest link {:.1} %, busiest node {:.1} % of the time\n", link * 100.0, node * 100.0));
    if let Some(sweep) = &answer.sweep {
        parts.push(format!("\n{}", sweep_as_text(sweep, answer.against.as_ref().map(|(name, _)| name.as_str()))));
    }
    parts.push(format!("\n{}", calibration_line(&setting.costs)));
    parts.concat()
}

/// The host's delays, where the run has none of them.
fn held_up(setting: &Setting, answer: &Answer) -> HeldUp {
    if answer.replay.is_some() { HeldUp::default() } else { setting.costs.held_up }
}

/// The recording where it was made.
fn replay(replay: &Replay) -> String {
    format!(
        "  recorded: {}; replayed there by the model alone {} ({:+.1} %), with {} kept as recorded {} ({:+.1} %)\n",
        replay.recorded,
        replay.model,
        replay.alone() * 100.0,
        replay.kept,
        replay.here,
        replay.residual() * 100.0
    )
}

fn sweep_as_text(sweep: &Sweep, against: Option<&str>) -> String {
    let mut heads = vec![text::head(sweep.key, sweep.unit), "time".to_string()];
    heads.extend(against.map(str::to_string));
    let row = |row: &super::ask::Swept| {
        let mut cells = vec![text::number(row.value), row.end.to_string()];
        cells.extend(row.against.map(|end| end.to_string()));
        cells
    };
    let rows: Vec<Vec<String>> = sweep.rows.iter().map(row).collect();
    let is_right = vec![true; heads.len()];
    let crossing = |value: &f64| format!("equal at {} = {} {}\n", sweep.key, text::number(*value), sweep.unit);
    text::columns(&heads, &rows, &is_right) + &sweep.crossings.iter().map(crossing).collect::<String>()
}

/// Whose costs these are, when they were measured, and how far they were off where nothing was fitted.
pub fn calibration_line(costs: &SoftwareCosts) -> String {
    let off = match (costs.residual(0.5), costs.residual(0.9)) {
        (Some(median), Some(most)) => {
            let held = costs.residuals().len();
            format!(
                "{held} cases held out are off by {:.1} % (median) and {:.1} % (90th percentile)",
                median * 100.0,
                most * 100.0
            )
        }
        _ => "nothing was held out".to_string(),
    };
    let SoftwareCosts { host, date, build, load, .. } = costs;
    format!("software as measured on {host}, {date}, {build}, load {load:.1}: {off}\n")
}

fn points(points: &[Predicted]) -> String {
    let us = |ns: f64| text::number(ns / 1e3);
    let has_tails = points.iter().any(|point| point.tail.is_some());
    let row = |point: &Predicted| {
        let what = if point.is_fitted { "fitted" } else { "held out" };
        let off = format!("{:+.1} %", point.residual() * 100.0);
        let mut cells = vec![point.pattern.clone(), what.to_string(), us(point.measured), us(point.predicted), off];
        let tail = point.tail.map_or([String::new(), String::new()], |tail| [us(tail.mean), us(tail.p99)]);
        cells.extend(tail.into_iter().filter(|_| has_tails));
        cells
    };
    let mut heads = ["pattern", "", "measured [us]", "predicted [us]", "off by"].map(String::from).to_vec();
    heads.extend(["mean [us]", "99 of 100 [us]"].map(String::from).into_iter().filter(|_| has_tails));
    let is_right: Vec<bool> = (0..heads.len()).map(|column| column > 1).collect();
    text::columns(&heads, &points.iter().map(row).collect::<Vec<_>>(), &is_right)
}

/// The rows of a calibration: measured and predicted.
pub fn calibration(costs: &SoftwareCosts) -> String {
    points(&costs.points) + &calibration_line(costs)
}

/// A comparison for programs.
pub fn comparison_json(comparison: &Comparison) -> Value {
    let (median, most) = comparison.errors().unzip();
    json!({
        "network": comparison.network,
        "costs_measured_on": comparison.measured,
        "rows": comparison.points,
        "held_out": { "rows": comparison.held_out().count(), "median": median, "p90": most, "wrong_orders": comparison.misordered() },
        "holds": comparison.holds(),
    })
}

/// A comparison with a measurement, and whether it holds.
pub fn comparison(comparison: &Comparison, costs: &SoftwareCosts) -> String {
    let (median, most) = comparison.errors().unwrap_or((f64::NAN, f64::NAN));
    let verdict = if comparison.holds() { "holds" } else { "DOES NOT HOLD" };
    let orders: String = comparison
        .misordered()
        .iter()
        .map(|(fast, slow)| format!("  {fast} was faster than {slow}, and is predicted slower\n"))
        .collect();
    format!(
        "over {}:\n{}{} rows held out are off by {:.1} % (median, 15 asked) and {:.1} % (90th percentile, 30 asked): {verdict}\n{orders}{}",
        comparison.network,
        points(&comparison.points),
        comparison.held_out().count(),
        median * 100.0,
        most * 100.0,
        calibration_line(costs)
    )
}

fn us(time: Picos) -> Value {
    json!(time.as_us())
}

/// The answer as one JSON object; times in microseconds.
pub fn as_json(program: &Program, setting: &Setting, answer: &Answer) -> String {
    let run = &answer.run;
    let spent: serde_json::Map<String, Value> =
        Expense::ALL.iter().map(|cause| (cause.name().to_string(), us(run.path.of(*cause)))).collect();
    let traffic: serde_json::Map<String, Value> = run
        .traffic
        .iter()
        .map(|(kind, traffic)| (kind.to_string(), json!({ "messages": traffic.messages, "bytes": traffic.bytes })))
        .collect();
    let sweep = answer.sweep.as_ref().map(|sweep| {
        let row = |row: &super::ask::Swept| json!({ "value": row.value, "us": us(row.end), "against_us": row.against.map(us) });
        let rows: Vec<Value> = sweep.rows.iter().map(row).collect();
        json!({ "key": sweep.key, "unit": sweep.unit, "rows": rows, "crossings": sweep.crossings })
    });
    let elasticities: Vec<Value> = answer.elasticities.iter().map(|e| json!({ "change": e.change, "us": us(e.end) })).collect();
    let costs = &setting.costs;
    let value = json!({
        "program": program.name,
        "network": { "name": setting.network.name, "sources": setting.network.sources },
        "nodes": setting.nodes, "ranks": setting.ranks, "cores": setting.cores,
        "us": us(run.end),
        "interval_us": answer.interval.map(|(low, high)| json!([us(low), us(high)])),
        "beyond": answer.beyond,
        "rank_us": run.ends.iter().copied().map(us).collect::<Vec<_>>(),
        "critical_path_us": spent,
        "messages": traffic,
        "elasticities": elasticities,
        "against": answer.against.as_ref().map(|(name, end)| json!({ "name": name, "us": us(*end) })),
        "sweep": sweep,
        "held_up_us": answer.held_up.map(us),
        "replay": answer.replay.as_ref().map(|replay| json!({
            "recorded_us": us(replay.recorded), "model_us": us(replay.model), "here_us": us(replay.here), "kept_us": us(replay.kept),
            "waits_us": { "recorded": us(replay.waits.0), "replayed": us(replay.waits.1) },
            "model_off": replay.alone(), "here_off": replay.residual(),
        })),
        "answer_us": waits(&run.times, held_up(setting, answer)).map(|AnswerTimes { median, mean, p99 }| json!({
            "median": median, "mean": mean.value, "half_width_95": mean.half_width, "p99": p99,
        })),
        "busiest": { "link": run.busiest.0, "node": run.busiest.1 },
        "events": run.events,
        "calibration": { "host": costs.host, "date": costs.date, "build": costs.build, "load": costs.load,
            "median_off": costs.residual(0.5), "p90_off": costs.residual(0.9) },
    });
    format!("{value:#}\n")
}

/// The sweep as a plot.
pub fn plot(program: &Program, setting: &Setting, sweep: &Sweep, against: Option<&str>) -> Plot {
    let mut plot = Plot::new(question(program, setting), Axis::log(sweep.key, sweep.unit), Axis::log("time", "us"));
    plot.line(&setting.network.name, sweep.rows.iter().map(|row| (row.value, row.end.as_us())));
    if let Some(name) = against {
        plot.line(name, sweep.rows.iter().filter_map(|row| Some((row.value, row.against?.as_us()))));
    }
    plot
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measured_means_and_tails_stand_beside_the_medians() {
        let row = Predicted::held_out("get 8B", 10_000.0, 11_000.0);
        assert!(!points(std::slice::from_ref(&row)).contains("mean"));
        let tail = Some(crate::what_if::costs::Tail { mean: 14_500.0, p99: 96_000.0 });
        let table = points(&[Predicted { tail, ..row.clone() }, row]);
        assert!(table.contains("mean [us]") && table.contains("14.5") && table.contains("96"), "{table}");
    }

    #[test]
    fn a_comparison_for_programs_tells_the_held_out_errors_alone() {
        let fitted = Predicted { is_fitted: true, ..Predicted::held_out("touch", 1.0, 9.0) };
        let rows = [Predicted::held_out("get 8B", 100.0, 110.0), fitted];
        let told = comparison_json(&Comparison { network: "lab".into(), measured: "a day".into(), points: rows.to_vec() });
        assert_eq!((&told["network"], &told["held_out"]["rows"], &told["holds"]), (&json!("lab"), &json!(1), &json!(true)));
        assert!((told["held_out"]["median"].as_f64().unwrap() - 0.1).abs() < 1e-9, "{told}");
        assert_eq!((told["rows"][1]["pattern"].as_str(), told["rows"][1]["is_fitted"].as_bool()), (Some("touch"), Some(true)));
    }

    #[test]
    fn answers_that_all_take_the_same_have_no_width_and_a_tail_of_the_host() {
        // A width of some 1e-15 us stood here once: rounding.
        let times = vec![Picos(12_030_100); 1000];
        let AnswerTimes { median, mean, p99 } = waits(&times, HeldUp { mean: 2_000.0, p99: 50_000.0 }).unwrap();
        assert!((median - 12.0301).abs() < 1e-9 && (mean.value - 14.0301).abs() < 1e-9 && (p99 - 62.0301).abs() < 1e-9);
        assert_eq!(mean.half_width, None);
        let spread: Vec<Picos> = (0..1000).map(|k| Picos::us(1 + k / 10)).collect();
        assert!(waits(&spread, HeldUp::default()).unwrap().mean.half_width.is_some());
        assert!(waits(&[], HeldUp::default()).is_none());
    }
}
