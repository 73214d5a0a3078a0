//! `hanare scrub`: the copies of regions, compared page by page while programs use them.

use crate::progress::Progress;
use crate::{print, size};
use anyhow::Result;
use clap::Args;
use hanare::{CopyDifference, NodeId, Pool, Rights, ScrubReport};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Lines about differences; `--json` has more.
const LINE_COUNT: usize = 20;

/// Regions, and what is to be done about copies that differ.
#[derive(Args, Clone, Debug)]
#[command(
    after_help = "All holders of some bytes take digests at one place in the order of writes, so programs may write meanwhile. The home's bytes are \
    those that programs read. A copy that differs is named, and the home goes on without it: another is made of the home's bytes. Where two copies agree \
    against their home, nobody is dropped. Ctrl-C ends it at any moment. It ends with status 1 where something differs, or was not compared."
)]
pub struct Options {
    /// The regions.
    #[arg(required = true, value_name = "NAME")]
    pub names: Vec<String>,
    /// Name copies that differ, and change nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Compares the copies of each region.
pub fn run(options: &Options) -> Result<i32> {
    let pool = Pool::attach_alone()?;
    let mut reports = Vec::new();
    for name in &options.names {
        let region = pool.open_for(name, if options.dry_run { Rights::Read } else { Rights::Write })?;
        let mut progress = Progress::start(name, region.len());
        let report = region.scrub(!options.dry_run, |len| progress.advance(len))?;
        progress.finish();
        if !options.json {
            lines(name, &report).iter().for_each(|line| print::line(line));
        }
        reports.push((name.as_str(), report));
    }
    if options.json {
        print::json(&json!({ "regions": reports.iter().map(|(name, report)| value(name, report)).collect::<Vec<_>>() }))?;
    }
    Ok(if reports.iter().all(|(_, report)| is_whole(report)) { 0 } else { 1 })
}

fn is_whole(report: &ScrubReport) -> bool {
    (report.differing, report.unheard, report.alone) == (0, 0, 0) && report.dropped.is_empty()
}

fn lines(name: &str, report: &ScrubReport) -> Vec<String> {
    let mut lines: Vec<String> = report.differences.iter().take(LINE_COUNT).map(|differs| difference(name, differs)).collect();
    if report.differences.len() > LINE_COUNT {
        lines.push(format!("{name}: and so on; {} lie in pages that differ", size::show(report.differing)));
    }
    for (bytes, what) in [
        (report.alone, "have no copy now: `hanare region ls` shows when all copies are there again"),
        (report.unheard, "were not compared: a copy did not answer; `hanare status` shows its node"),
    ] {
        if bytes > 0 {
            lines.push(format!("{name}: {} {what}", size::show(bytes)));
        }
    }
    for node in &report.dropped {
        lines.push(format!("{name}: the copy on {node} counts no more; another is made of the home's bytes"));
    }
    if is_whole(report) {
        lines.push(format!("{name}: {} are the same on {}", size::show(report.compared), list(&report.nodes)));
    }
    lines
}

fn difference(name: &str, differs: &CopyDifference) -> String {
    let CopyDifference { offset, len, home, nodes, is_home_alone } = differs;
    let (others, len) = (list(&nodes.iter().copied().collect()), size::show(*len));
    match is_home_alone {
        false => format!("{name}: {len} at byte {offset}: {others} and {home}, the home, differ"),
        true => format!(
            "{name}: {len} at byte {offset}: {home}, the home, alone differs from {others}. Write these bytes anew, or let `hanare node drain {}` \
            make a copy the home",
            home.0
        ),
    }
}

/// Nodes in words.
fn list(nodes: &BTreeSet<NodeId>) -> String {
    let names: Vec<String> = nodes.iter().map(NodeId::to_string).collect();
    match names.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => names.concat(),
    }
}

fn value(name: &str, report: &ScrubReport) -> Value {
    let numbers = |nodes: &mut dyn Iterator<Item = &NodeId>| nodes.map(|node| node.0).collect::<Vec<_>>();
    let differences = report.differences.iter().map(|differs| {
        json!({
            "offset": differs.offset, "bytes": differs.len, "home": differs.home.0, "nodes": numbers(&mut differs.nodes.iter()),
            "home_alone": differs.is_home_alone,
        })
    });
    json!({
        "region": name, "compared": report.compared, "unheard": report.unheard, "alone": report.alone, "differing": report.differing,
        "nodes": numbers(&mut report.nodes.iter()), "dropped": numbers(&mut report.dropped.iter()),
        "differences": differences.collect::<Vec<_>>(),
    })
}
