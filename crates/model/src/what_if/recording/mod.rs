//! Programs as `hanare run --record DIR` kept them: the timeline of each rank, read back as steps.
//!
//! ```text
//! events of a rank ── timeline: what its thread did ── waits: who ended a wait ── steps ── replay (here): how long all of it took
//! ```
//!
//! The timeline is the product's own (`HANARE_TRACE`). Slices on a thread are its waits, with each request's node and bytes, and the messages
//! for pages. Between slices the thread computed. The timeline tells what its own writing took, and that is left out. Time before the end of
//! a command that was begun without waiting counts as waiting, because nothing says since when the thread waited.
//!
//! The reader follows one thread of a rank, because nothing says how threads waited for each other.
mod steps;
#[cfg(test)]
mod tests;
mod timeline;
mod waits;

use std::path::Path;

use serde_json::Value;

use super::WhatIfError;
use super::program::{Phase, Program, Step};
use crate::time::Picos;
use hanare_protocol::limits::{BATCH_COUNT_MAX, NODE_COUNT_MAX, RANK_COUNT_MAX, WHAT_IF_RECORDING_LEN_MAX};
use timeline::Timeline;

/// The file that names the run, in its folder.
pub const RUN_FILE: &str = "run.json";

/// The run that was recorded: [`RUN_FILE`].
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct RecordedRun {
    /// The program's words.
    pub program: Vec<String>,
    /// Nodes of the pool.
    pub nodes: usize,
    /// Ranks of the job.
    pub ranks: usize,
    /// The host; empty where it was not written down.
    #[serde(default)]
    pub host: String,
}

/// Steps that took a time by themselves: no other rank decided it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OwnTime {
    /// The first of the steps.
    pub from: usize,
    /// The step behind them, which is [`Step::Kept`].
    pub to: usize,
    /// Their time.
    pub took: Picos,
}

/// A recording.
#[derive(Clone, Debug)]
pub struct Recording {
    /// The run that was recorded.
    pub made: RecordedRun,
    /// The ranks' steps.
    pub program: Program,
    /// Entries whose time no other rank decided, by rank.
    pub taken: Vec<Vec<OwnTime>>,
    /// From the first event to the last of each rank, without the writing of the timeline.
    pub spans: Vec<Picos>,
    /// Time of it that each rank waited for others.
    pub waited: Vec<Picos>,
}

fn bad(file: &Path, problem: impl Into<String>) -> WhatIfError {
    WhatIfError::Recording { file: file.display().to_string(), problem: problem.into() }
}

fn read(file: &Path) -> Result<String, WhatIfError> {
    let len = std::fs::metadata(file).map_err(|error| bad(file, error.to_string()))?.len();
    if len > WHAT_IF_RECORDING_LEN_MAX {
        return Err(bad(file, format!("{len} bytes are more than the {WHAT_IF_RECORDING_LEN_MAX} of a recording")));
    }
    std::fs::read_to_string(file).map_err(|error| bad(file, error.to_string()))
}

/// Reads a folder of a recorded run: how it was made, and what its ranks did.
///
/// **Errors**: [`WhatIfError::Recording`]: a file is missing or not such a timeline, or has what cannot be followed.
pub fn load(folder: &Path) -> Result<Recording, WhatIfError> {
    let file = folder.join(RUN_FILE);
    let made = made(&read(&file)?).map_err(|problem| bad(&file, problem))?;
    let files: Vec<_> = (0..made.ranks).map(|rank| folder.join(format!("rank-{rank}.json"))).collect();
    let texts = files.iter().map(|file| read(file)).collect::<Result<Vec<_>, _>>()?;
    parse(made, &texts).map_err(|(rank, problem)| bad(&files[rank], problem))
}

/// Reads [`RUN_FILE`].
///
/// **Errors**: it has another form, or counts that no run has.
pub fn made(text: &str) -> Result<RecordedRun, String> {
    let made: RecordedRun = serde_json::from_str(text).map_err(|error| error.to_string())?;
    if made.nodes == 0 || made.nodes > NODE_COUNT_MAX || made.ranks == 0 || made.ranks > RANK_COUNT_MAX as usize {
        return Err(format!("a run of {} ranks on {} nodes", made.ranks, made.nodes));
    }
    Ok(made)
}

/// Reads the timelines of a run, one for each rank.
///
/// **Errors**: the rank, and what is wrong with its timeline.
pub fn parse(made: RecordedRun, texts: &[String]) -> Result<Recording, (usize, String)> {
    let read_events = |(rank, text): (usize, &String)| serde_json::from_str(text).map_err(|error| (rank, error.to_string()));
    let events: Vec<Vec<Value>> = texts.iter().enumerate().map(read_events).collect::<Result<_, _>>()?;
    of_events(made, &events)
}

fn of_events(made: RecordedRun, events: &[Vec<Value>]) -> Result<Recording, (usize, String)> {
    let mut timelines: Vec<Timeline<'_>> = Vec::with_capacity(events.len());
    for (rank, events) in events.iter().enumerate() {
        timelines.push(timeline::read(events).map_err(|problem| (rank, problem))?);
    }
    let waits = waits::Waits::of(&timelines);
    let begins = timelines.iter().filter_map(|timeline| Some(timeline.entries.first()?.begin));
    let first = begins.reduce(f64::min).unwrap_or(0.0);
    let (mut ranks, mut taken, mut spans, mut waited) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (rank, timeline) in timelines.iter().enumerate() {
        let own = steps::RankSteps::of(timeline, &waits, (rank, made.nodes), first).map_err(|problem| (rank, problem))?;
        ranks.push(vec![Phase { steps: own.steps, times: 1, depth: BATCH_COUNT_MAX as u64 }]);
        taken.push(own.taken);
        waited.push(own.waited);
        let wrote: f64 = timeline.entries.iter().map(|entry| entry.wrote + entry.wrote_before).sum();
        let last = timeline.entries.iter().map(|entry| entry.end).fold(first, f64::max);
        spans.push(Picos::from_ns_f64((last - first - wrote).max(0.0) * 1e3));
    }
    let program = Program { name: made.program.join(" "), ranks, rank_count: Some(made.ranks) };
    Ok(Recording { made, program, taken, spans, waited })
}

impl Recording {
    /// From the first event of any rank to the last, without the writing of the timelines.
    pub fn span(&self) -> Picos {
        self.spans.iter().copied().max().unwrap_or_default()
    }

    /// The nodes of the pool, by the last one that was asked.
    pub fn nodes_asked(&self) -> usize {
        let steps = self.program.ranks.iter().flatten().flat_map(|phase| &phase.steps);
        let asked = steps.filter_map(|step| if let Step::Requests(requests) = step { Some(requests) } else { None });
        asked.flatten().map(|(node, _)| node + 1).max().unwrap_or(0)
    }

    /// The steps of a rank.
    pub fn steps_mut(&mut self, rank: usize) -> &mut [Step] {
        &mut self.program.ranks[rank][0].steps
    }
}
