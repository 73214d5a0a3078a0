//! Tables of a sample: state, and changes a second since the sample before.

use super::sample::{LockSample, NodeSample, RegionSample, RunSample, Sample, called};
use super::sheet::{Cell, Head, Sheet, SheetRow, Target};
use crate::faces::FaceSum;
use crate::look;
use hanare::ProgramFace;
use hanare_protocol::lock::Mode;

/// Subject of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topic {
    /// Nodes.
    Nodes,
    /// Regions.
    Regions,
    /// Programs.
    Programs,
    /// Locks.
    Locks,
    /// Pages to and fro.
    Pages,
    /// Faces of the programs that sent commands.
    Faces,
}

impl Topic {
    /// All of them, in their order on the screen.
    pub const ALL: [Topic; 6] = [Topic::Nodes, Topic::Regions, Topic::Programs, Topic::Locks, Topic::Pages, Topic::Faces];

    /// Its title.
    pub fn title(self) -> &'static str {
        match self {
            Topic::Nodes => "nodes",
            Topic::Regions => "regions",
            Topic::Programs => "programs",
            Topic::Locks => "locks",
            Topic::Pages => "to and fro",
            Topic::Faces => "faces",
        }
    }
}

const fn text(name: &'static str, width: u16) -> Head {
    Head { name, width, is_number: false }
}

const fn number(name: &'static str, width: u16) -> Head {
    Head { name, width, is_number: true }
}

const NODES: &[Head] = &[
    number("NODE", 4),
    text("NAME", 12),
    text("STATE", 6),
    number("LENT", 5),
    number("USED", 5),
    number("PROGRAMS", 8),
    number("COMMANDS/S", 10),
    number("BYTES/S", 7),
    number("FAULTS/S", 8),
    number("HOPS/S", 6),
];

const REGIONS: &[Head] = &[
    text("NAME", 14),
    number("SIZE", 5),
    number("PROGRAMS", 8),
    number("HOSTS", 5),
    number("FRAMES", 6),
    number("FAULTS/S", 8),
    number("FETCHED/S", 9),
    number("HOPS/S", 6),
    number("RETURNS", 7),
];

const PROGRAMS: &[Head] =
    &[text("PROGRAM", 22), number("NODE", 4), number("PROCESS", 8), number("USER", 6), text("RANK", 10), text("JOB", 12)];

const LOCKS: &[Head] = &[text("NAME", 18), text("HELD", 6), text("BY", 22), number("WAIT", 5), text("WAITING", 22)];

const PAGES: &[Head] = &[
    text("REGION", 14),
    text("PAGES", 18),
    number("TIMES", 9),
    number("TIMES/S", 7),
    number("UNDER WAY", 9),
    text("NODES", 10),
    number("HOME", 4),
];

const FACES: &[Head] = &[
    text("FACE", 12),
    number("COMMANDS", 8),
    number("BYTES", 6),
    number("COMMANDS/S", 10),
    number("BYTES/S", 7),
    number("MEAN US", 7),
    number("REFUSED", 7),
];

/// A table of a sample; what happens a second is told by the one before.
pub fn of(kind: Topic, sample: &Sample, before: Option<&Sample>) -> Sheet {
    let before = before.map(|before| (before, sample.at.saturating_duration_since(before.at).as_secs_f64()));
    let (heads, rows): (&[Head], Vec<SheetRow>) = match kind {
        Topic::Nodes => (NODES, sample.nodes.iter().map(|node| node_row(node, before)).collect()),
        Topic::Regions => (REGIONS, sample.regions.iter().map(|region| region_row(region, before)).collect()),
        Topic::Programs => (PROGRAMS, sample.programs.iter().map(program_row).collect()),
        Topic::Locks => (LOCKS, sample.locks.iter().map(lock_row).collect()),
        Topic::Pages => (PAGES, sample.runs.iter().map(|run| run_row(run, before)).collect()),
        Topic::Faces => (FACES, sample.faces.iter().map(|(face, sum)| face_row(*face, sum, before)).collect()),
    };
    Sheet { heads, rows }
}

/// The sample before, and how many seconds it is older.
type Before<'s> = Option<(&'s Sample, f64)>;

/// Growth in a second. A counter that began again meanwhile grew from 0.
fn rate(now: u64, before: Option<(u64, f64)>) -> Cell {
    let grown = before.filter(|(_, seconds)| *seconds > 0.0);
    Cell::rate(grown.map(|(then, seconds)| (if now < then { now } else { now - then }) as f64 / seconds))
}

fn node_row(node: &NodeSample, before: Before<'_>) -> SheetRow {
    let older = before.and_then(|(sample, seconds)| {
        let is_same = |old: &&NodeSample| (old.status.node, old.status.epoch) == (node.status.node, node.status.epoch);
        Some((sample.nodes.iter().find(is_same)?, seconds))
    });
    let grown = |of: fn(&NodeSample) -> u64| rate(of(node), older.map(|(old, seconds)| (of(old), seconds)));
    let state = match (node.status.alive, node.answers) {
        (false, _) => "lost",
        (true, true) if node.status.memory.withheld() > 0 => "gives back",
        (true, true) => "alive",
        (true, false) => "silent",
    };
    let bytes = grown(|node| node.bytes);
    let cells = vec![
        Cell::number(node.status.node.0.into()),
        Cell::text(&node.status.name),
        Cell::text(state),
        Cell::bytes(node.status.memory.lent as f64),
        Cell::bytes(node.status.memory.used as f64),
        Cell::count(node.status.memory.clients.into()),
        grown(|node| node.commands),
        bytes.number.map_or(bytes.clone(), Cell::bytes),
        grown(|node| node.traffic.faults),
        grown(|node| node.traffic.hops),
    ];
    SheetRow { cells, target: None }
}

fn region_row(region: &RegionSample, before: Before<'_>) -> SheetRow {
    let older =
        before.and_then(|(sample, seconds)| Some((sample.regions.iter().find(|old| old.stat.gid == region.stat.gid)?, seconds)));
    let grown = |of: fn(&RegionSample) -> u64| rate(of(region), older.map(|(old, seconds)| (of(old), seconds)));
    let cells = vec![
        Cell::text(&region.stat.name),
        Cell::bytes(region.stat.len as f64),
        Cell::count(region.programs),
        Cell::count(region.hosts),
        Cell::count(region.frames),
        grown(|region| region.traffic.faults),
        grown(|region| region.traffic.fetched),
        grown(|region| region.traffic.hops),
        Cell::count(region.returns),
    ];
    SheetRow { cells, target: Some(Target::Region(region.stat.gid)) }
}

fn program_row(program: &super::sample::ProgramSample) -> SheetRow {
    let job = program.stat.job;
    let named = job.map(|job| format!("{:032x}", job.job.0)[..12].to_owned());
    let cells = vec![
        Cell::text(called(program.stat.client, Some(program))),
        Cell::number(program.node.0.into()),
        Cell::number(program.stat.process.into()),
        Cell::number(program.stat.user.into()),
        Cell::text(job.map_or_else(String::new, |job| format!("{} of {}", job.rank.0, job.ranks))),
        Cell::text(named.clone().unwrap_or_default()),
    ];
    SheetRow { cells, target: named.map(Target::Job) }
}

fn lock_row(lock: &LockSample) -> SheetRow {
    let named = |names: &[String], count: u64| match count.saturating_sub(names.len() as u64) {
        0 => names.join(", "),
        more => format!("{} and {more} more", names.join(", ")),
    };
    let mode = if lock.stat.mode == Mode::Exclusive { "alone" } else { "shared" };
    let (held, wait) = lock.stat.counts;
    let cells = vec![
        Cell::text(&lock.stat.name),
        Cell::text(mode),
        Cell::text(named(&lock.holders, held)),
        Cell::number(wait),
        Cell::text(named(&lock.waiters, wait)),
    ];
    SheetRow { cells, target: None }
}

fn run_row(run: &RunSample, before: Before<'_>) -> SheetRow {
    let is_same = |old: &&RunSample| (old.gid, old.run.first, old.run.count) == (run.gid, run.run.first, run.run.count);
    let older = before.and_then(|(sample, seconds)| Some((sample.runs.iter().find(is_same)?.run.returns, seconds)));
    let nodes: Vec<String> = run.run.nodes.iter().map(|node| node.0.to_string()).collect();
    let cells = vec![
        Cell::text(&run.region),
        Cell { text: look::pages(&run.run), number: Some(-(run.run.first as f64)) },
        Cell::count(run.run.returns),
        rate(run.run.returns, older),
        Cell { text: look::seconds(run.run.micros), number: Some(run.run.micros as f64) },
        Cell::text(nodes.join(",")),
        Cell::number(run.home.0.into()),
    ];
    SheetRow { cells, target: Some(Target::Region(run.gid)) }
}

fn face_row(face: ProgramFace, sum: &FaceSum, before: Before<'_>) -> SheetRow {
    let older = before.map(|(sample, seconds)| (sample.faces.get(&face).copied().unwrap_or_default(), seconds));
    // A node that is silent takes its counts with it, which is no rate.
    let older = older.filter(|(old, _)| old.commands <= sum.commands && old.bytes <= sum.bytes);
    let bytes = rate(sum.bytes, older.map(|(old, seconds)| (old.bytes, seconds)));
    let mean = sum.micros as f64 / sum.commands.max(1) as f64;
    let cells = vec![
        Cell::text(face.name()),
        Cell::count(sum.commands),
        Cell::bytes(sum.bytes as f64),
        rate(sum.commands, older.map(|(old, seconds)| (old.commands, seconds))),
        bytes.number.map_or(bytes.clone(), Cell::bytes),
        Cell { text: format!("{mean:.1}"), number: Some(mean) },
        Cell::count(sum.refused),
    ];
    SheetRow { cells, target: None }
}
