//! The performance page of the book: a Markdown file of kept results, with the machine that they come from.
//!
//! Measurements are not made here. A page shows a file's figures, so that a quiet hour's can be written up later.

use crate::machine::{BUSY, percent};
use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use std::fmt::Write;

/// A result as `--json` prints it. A page is made from a file that anybody may have written: only what is read here is taken.
#[derive(Debug, Deserialize)]
struct SavedResult {
    bench: String,
    machine: SavedMachine,
    rows: Vec<SavedRow>,
}

#[derive(Debug, Deserialize)]
struct SavedMachine {
    cpu: String,
    cpus: usize,
    memory: u64,
    kernel: String,
    others: f64,
    hanare: String,
}

#[derive(Debug, Deserialize)]
struct SavedRow {
    case: String,
    value: f64,
    unit: String,
    peer: Option<String>,
    peer_value: Option<f64>,
    ratio: Option<f64>,
    goal: Option<f64>,
    met: Option<bool>,
}

impl SavedMachine {
    /// Terms in which two results must agree to stand under one machine.
    fn line(&self) -> String {
        let gib = self.memory as f64 / f64::from(1 << 30);
        format!("{} CPUs ({}), {gib:.1} GiB, Linux {}, hanare {}", self.cpus, self.cpu, self.kernel, self.hanare)
    }
}

/// Writes the page from results: lines of JSON, as `hanare bench NAME --json` prints them. A bench that stands there twice shows its last.
///
/// **Errors**: a line that is no result, by its number; no result at all.
pub fn page(lines: &str) -> Result<String> {
    let mut kept: Vec<SavedResult> = Vec::new();
    for (number, line) in lines.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let result: SavedResult =
            serde_json::from_str(line).with_context(|| format!("line {} is no result of `hanare bench --json`", number + 1))?;
        kept.retain(|earlier| earlier.bench != result.bench);
        kept.push(result);
    }
    ensure!(!kept.is_empty(), "there is no result of `hanare bench --json`");
    let mut machines: Vec<String> = kept.iter().map(|result| result.machine.line()).collect();
    machines.sort_unstable();
    machines.dedup();
    let mut page = String::from(HEAD);
    for machine in &machines {
        write!(page, "\n- {}", plain(machine))?;
    }
    page.push('\n');
    for result in &kept {
        section(&mut page, result, machines.len() > 1)?;
    }
    Ok(page)
}

/// Text above the figures.
const HEAD: &str = "# Performance

Written by `hanare bench --page` from kept results; no figure is typed by hand. Each row is a median of runs in turn with its peer, on one
machine: *nodes* that a row names are processes that treat each other as strangers, over loopback TCP unless it says otherwise. A ratio
above 1 means that Hanare is better; a goal is the ratio that was asked for. `hanare bench NAME` measures yours.

```sh
hanare bench all --json > results.json                       # half an hour; nothing else should run
hanare bench --page docs/performance.md --from results.json
```

Measured on:
";

fn section(page: &mut String, result: &SavedResult, with_machine: bool) -> Result<()> {
    let about = super::list().iter().find(|bench| bench.name == result.bench).map_or("", |bench| bench.about);
    write!(page, "\n## {}\n\n{about}.", plain(&result.bench))?;
    if with_machine {
        write!(page, " On {}.", plain(&result.machine.line()))?;
    }
    if result.machine.others > BUSY {
        write!(
            page,
            " **The machine was busy**: others had {} of it. These figures are worth little.",
            percent(result.machine.others)
        )?;
    }
    page.push_str("\n\n| case | Hanare | peer | peer's | ratio | goal |\n|---|---|---|---|---|---|\n");
    for row in &result.rows {
        let with_unit = |value: f64| format!("{value} {}", plain(&row.unit));
        let goal = match (row.goal, row.met) {
            (Some(goal), Some(true)) => format!("{goal}, met"),
            (Some(goal), Some(false)) => format!("{goal}, **missed**"),
            (Some(goal), None) => format!("{goal}, open"),
            (None, _) => String::new(),
        };
        let peer = row.peer.as_deref().map(|peer| plain(&brief(peer))).unwrap_or_default();
        let theirs = row.peer_value.map(with_unit).unwrap_or_default();
        let ratio = row.ratio.map(|ratio| format!("{ratio:.2}")).unwrap_or_default();
        writeln!(page, "| {} | {} | {peer} | {theirs} | {ratio} | {goal} |", plain(&row.case), with_unit(row.value))?;
    }
    Ok(())
}

/// A peer's name. Of a missing one only the cause in a few words: the rest names folders of the machine.
fn brief(peer: &str) -> String {
    match peer.split_once(" (missing: ") {
        Some((name, why)) => format!("{name} (missing: {})", why.trim_end_matches(')').split(": ").next().unwrap_or_default()),
        None => peer.to_owned(),
    }
}

/// A text that means nothing to Markdown and stays in its cell.
fn plain(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control()).fold(String::new(), |mut plain, letter| {
        if "|*_`<>[]\\".contains(letter) {
            plain.push('\\');
        }
        plain.push(letter);
        plain
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Better, Report, Row};

    fn report(bench: &'static str, value: f64) -> Report {
        let mut report = Report::new(bench);
        report.machine.others = 0.05;
        report.rows.push(Row::alone("get 8 B", value, "us", Better::Lower).beside("Open MPI 4|x", 4.0, Some(1.0)));
        report.rows.push(Row::alone("alone", 5.0, "GB/s", Better::Higher));
        report
    }

    #[test]
    fn a_page_has_the_last_of_each_bench_and_its_machine_once() {
        let lines = [report("get", 8.0), report("gups", 1.0), report("get", 2.0)].map(|report| report.json()).join("\n");
        let page = page(&lines).unwrap();
        assert!(page.contains("| get 8 B | 2 us | Open MPI 4\\|x | 4 us | 2.00 | 1, met |"), "{page}");
        assert!(page.contains("| alone | 5 GB/s |  |  |  |  |"), "{page}");
        assert_eq!((page.matches("\n## get\n").count(), page.matches("\n## gups\n").count()), (1, 1));
        assert!(!page.contains("| 8 us |") && !page.contains("busy"), "{page}");
        assert_eq!(page.matches(" CPUs (").count(), 1);
    }

    #[test]
    fn a_missing_peer_is_named_without_folders_of_the_machine() {
        let mut report = report("get", 8.0);
        let row = Row::alone("x", 1.0, "us", Better::Lower);
        report.rows.push(row.missing("Open MPI", "mpicc cannot build it: /home/a/x.c:6: no mpi.h", Some(1.0)));
        let page = page(&report.json()).unwrap();
        assert!(page.contains("| Open MPI (missing: mpicc cannot build it) |  |  | 1, open |"), "{page}");
    }

    #[test]
    fn what_is_no_result_is_refused_by_its_line_and_a_busy_machine_is_told() {
        let mut busy = report("get", 8.0);
        busy.machine.others = 0.3;
        assert!(page(&busy.json()).unwrap().contains("**The machine was busy**: others had 30 % of it."));
        let wrong = page(&format!("{}\n{{\"bench\":\"x\"}}\n", busy.json())).unwrap_err();
        assert!(wrong.to_string().contains("line 2"), "{wrong}");
        assert!(page("\n").is_err());
    }
}
