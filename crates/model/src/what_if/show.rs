//! The answer as text, as JSON and as a plot.
use serde_json::{Value, json};

use super::ask::{Answer, Sweep};
use super::calibrate::Comparison;
use super::costs::{Predicted, SoftwareCosts};
use super::path::Expense;
use super::program::Program;
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

/// The mean time of what was waited for, in microseconds.
fn waits(times: &[Picos]) -> Option<statistics::Mean> {
    statistics::mean(&times.iter().map(|time| time.as_us()).collect::<Vec<_>>())
}

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
    parts.extend(answer.beyond.iter().map(|reason| format!("  not validated: {reason}\n")));
    if let Some((name, end)) = &answer.against {
        parts.push(format!("  {name}: {end} ({})\n", change(*end, run.end)));
    }
    parts.push("\n".to_string());
    let spent: Vec<Vec<String>> = Expense::ALL
        .iter()
        .filter(|cause| run.path.of(**cause) > Picos::ZERO)
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
    if let Some(mean) = waits(&run.times) {
        let half = mean.half_width.map_or(String::new(), |half| format!(" +- {}", text::number(half)));
        parts.push(format!("an answer takes {}{half} us (mean and 95 % interval)\n", text::number(mean.value)));
    }
    let (link, node) = run.busiest;
    parts.push(format!("busiest link {:.1} %, busiest node {:.1} % of the time\n", link * 100.0, node * 100.0));
    if let Some(sweep) = &answer.sweep {
        parts.push(format!("\n{}", sweep_as_text(sweep, answer.against.as_ref().map(|(name, _)| name.as_str()))));
    }
    parts.push(format!("\n{}", calibration_line(&setting.costs)));
    parts.concat()
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
    let rows: Vec<Vec<String>> = points
        .iter()
        .map(|point| {
            let what = if point.is_fitted { "fitted" } else { "held out" };
            let us = |ns: f64| text::number(ns / 1e3);
            let off = format!("{:+.1} %", point.residual() * 100.0);
            vec![point.pattern.clone(), what.to_string(), us(point.measured), us(point.predicted), off]
        })
        .collect();
    let heads = ["pattern", "", "measured [us]", "predicted [us]", "off by"].map(String::from);
    text::columns(&heads, &rows, &[false, false, true, true, true])
}

/// The rows of a calibration: measured and predicted.
pub fn calibration(costs: &SoftwareCosts) -> String {
    points(&costs.points) + &calibration_line(costs)
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
        "over {}:\n{}off by {:.1} % (median, 15 asked) and {:.1} % (90th percentile, 30 asked): {verdict}\n{orders}{}",
        comparison.network,
        points(&comparison.points),
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
        "answer_us": waits(&run.times).map(|mean| json!({ "mean": mean.value, "half_width_95": mean.half_width })),
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
