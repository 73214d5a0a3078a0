//! A region as a disk, by nbdkit and our plugin, beside nbdkit's memory plugin; read by nbdcopy.

use crate::Options;
use crate::compare::{compare, compare_rates};
use crate::nodes::Nodes;
use crate::report::Report;
use crate::table;
use crate::turns::{Contestant, Figures, Outcome, take_turns};
use anyhow::{Context, Result, ensure};
use hanare::{CreateOptions, Placement};
use std::process::Command;

/// The bench's name.
pub const NAME: &str = "nbd";

/// Bytes of the disk.
const DISK_LEN: u64 = 128 << 20;
const DISK_LEN_QUICK: u64 = 8 << 20;

/// Memory that each node lends beyond the disk.
const MEMORY_TO_SPARE: u64 = 128 << 20;

/// Reads of the disk: the figure's name, bytes of a request, requests at a time.
const READS: [(&str, u64, u32); 3] = [("one", 4 << 10, 1), ("sixteen", 4 << 10, 16), ("long", 1 << 20, 16)];

/// Goal for the speed of a disk on another node beside one in local memory.
const GOAL_FAR: f64 = 0.7;

/// Runs it.
pub fn run(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Report> {
    let len = if options.quick { DISK_LEN_QUICK } else { DISK_LEN };
    progress("starting nodes");
    let nodes = Nodes::start(options, options.nodes_or(2).max(2), len + MEMORY_TO_SPARE)?;
    let pool = nodes.attach(0)?;
    let far = table::far(&pool)?[0];
    pool.create("bench-near", len, &CreateOptions::default())?;
    pool.create("bench-far", len, &CreateOptions { placement: Placement::Node(far), ..CreateOptions::default() })?;
    let ours = |name: &'static str| {
        let nodes = &nodes;
        move || {
            let mut command = Command::new(&options.command);
            command.args(["nbd", name, "--"]).env("HANARE_NODE", nodes.socket(0));
            turn(command, len)
        }
    };
    let memory = || {
        let mut command = Command::new("nbdkit");
        command.args(["-U", "-", "memory", &len.to_string(), "--run"]);
        turn(command, len)
    };
    let contestants = vec![
        Contestant::ours("hanare nbd, this host", ours("bench-near")),
        Contestant::ours("hanare nbd, other node", ours("bench-far")),
        Contestant::peer("nbdkit memory", Ok(memory)),
    ];
    let outcomes = take_turns(options.rounds(), contestants, progress)?;
    let [near, far, memory] = &outcomes[..] else { unreachable!("there are three contestants") };
    let mut report = Report::new(NAME);
    report.rows = rows("this host", len, near, memory, 1.0)?;
    report.rows.extend(rows("other node, tcp", len, far, memory, GOAL_FAR)?);
    Ok(report)
}

fn rows(host: &str, len: u64, ours: &Outcome, memory: &Outcome, goal: f64) -> Result<Vec<crate::Row>> {
    let goal = Some(goal);
    Ok(vec![
        compare(format!("read of 4 KiB, one at a time, {host}"), ours, "one", memory, "one", goal)?,
        compare(format!("read of 4 KiB, 16 at a time, {host}"), ours, "sixteen", memory, "sixteen", goal)?,
        compare_rates(
            format!("read of 1 MiB, 16 at a time, {host}"),
            (len as f64, "GB/s"),
            (ours, "long"),
            (memory, "long"),
            goal,
        )?,
    ])
}

/// Reads the whole disk in each way. Short requests are told by their mean, the long ones by the time of all.
fn turn(mut server: Command, len: u64) -> Result<Figures> {
    let read = |(_, request, depth): (&str, u64, u32)| {
        format!(
            "begin=$(date +%s%N); nbdcopy --connections=1 --requests={depth} --request-size={request} $uri null: || exit 1; \
             echo $(($(date +%s%N) - begin))"
        )
    };
    // A filled disk has no holes, which are not read at all. The filling and the first read are not counted: each page is new to them.
    let fill = format!("nbdcopy -- [ nbdkit pattern {len} ] $uri && nbdcopy $uri null: || exit 1");
    let lines: Vec<String> = [fill].into_iter().chain(READS.map(read)).collect();
    let ended = server.arg(lines.join("; ")).output().context("cannot start nbdkit (package nbdkit)")?;
    ensure!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr).trim());
    let said = String::from_utf8_lossy(&ended.stdout);
    let times: Vec<f64> = said.lines().filter_map(|line| line.trim().parse().ok()).collect();
    ensure!(times.len() == READS.len(), "nbdcopy said {said:?}");
    let figure = |((key, request, _), ns): ((&str, u64, u32), f64)| {
        let share = if request < 1 << 20 { len as f64 / request as f64 } else { 1.0 };
        (key.to_owned(), ns / share)
    };
    Ok(READS.into_iter().zip(times).map(figure).collect())
}
