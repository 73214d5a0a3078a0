//! Programs as `hanare run --record DIR` kept them: the timeline of each rank, read back as steps.
//!
//! The timeline is the product's own (`HANARE_TRACE`): slices on a thread for what it waited for, and for each request its
//! node and bytes. Between slices the thread computed. What the writing of the timeline took lies in these gaps too: the
//! shortest gap of a rank is taken for it and subtracted from all. Time before the end of a command that was begun without waiting
//! is taken for waiting, because nothing says since when the thread did.
//!
//! One thread of a rank can be followed, because nothing says how threads waited for each other.
use std::path::Path;

use serde_json::Value;

use super::WhatIfError;
use super::program::{Lengths, Phase, Place, Program, Step};
use crate::time::Picos;
use hanare_protocol::limits::WHAT_IF_RECORDING_LEN_MAX;
use hanare_protocol::wire::head::HEAD_LEN;

/// The file that names the run, in its folder.
pub const RUN_FILE: &str = "run.json";

/// What a recording must have been made on: [`RUN_FILE`].
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct RecordedRun {
    /// The program's words.
    pub program: Vec<String>,
    /// Nodes of the pool.
    pub nodes: usize,
    /// Ranks of the job.
    pub ranks: usize,
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
/// **Errors**: [`WhatIfError::Recording`]: a file is missing or not such a timeline, or has what cannot be predicted.
pub fn load(folder: &Path) -> Result<(RecordedRun, Program), WhatIfError> {
    let file = folder.join(RUN_FILE);
    let made: RecordedRun = serde_json::from_str(&read(&file)?).map_err(|error| bad(&file, error.to_string()))?;
    if made.nodes == 0 || made.ranks == 0 || made.ranks > hanare_protocol::limits::RANK_COUNT_MAX as usize {
        return Err(bad(&file, format!("a run of {} ranks on {} nodes", made.ranks, made.nodes)));
    }
    let mut ranks = Vec::new();
    for rank in 0..made.ranks {
        let file = folder.join(format!("rank-{rank}.json"));
        let events: Vec<Value> = serde_json::from_str(&read(&file)?).map_err(|error| bad(&file, error.to_string()))?;
        let steps = steps(&events).map_err(|problem| bad(&file, problem))?;
        ranks.push(vec![Phase { steps, times: 1, depth: hanare_protocol::limits::BATCH_COUNT_MAX as u64 }]);
    }
    let name = made.program.join(" ");
    Ok((made.clone(), Program { name, ranks, rank_count: Some(made.ranks) }))
}

/// What a slice is to the steps.
#[derive(Clone, Copy, PartialEq)]
enum Sort {
    /// The thread waited for it.
    Waited,
    /// A command was begun: it takes no time of its own.
    Begun,
    /// A command begun before is over: so many requests of others are still open.
    Over { left: u64 },
}

/// A slice of the thread, with the requests that it sent meanwhile.
struct Slice<'a> {
    name: &'a str,
    sort: Sort,
    begin: f64,
    end: f64,
    bytes: u64,
    requests: Vec<(usize, u64)>,
}

fn micros(event: &Value, key: &str) -> Result<f64, String> {
    event[key].as_f64().filter(|time| time.is_finite() && *time >= 0.0).ok_or_else(|| format!("an event without {key}: {event}"))
}

/// `request to node3` as 3.
fn node_of(name: &str) -> Result<usize, String> {
    let digits = name.trim_start_matches(|letter: char| !letter.is_ascii_digit());
    digits.parse().map_err(|_| format!("\"{name}\" names no node"))
}

/// The slices of a rank's one thread, in order.
fn slices(events: &[Value]) -> Result<Vec<Slice<'_>>, String> {
    let mut found: Vec<Slice<'_>> = Vec::new();
    let mut open: Vec<Slice<'_>> = Vec::new();
    // Commands that were begun and are not over, by id, with their places among the slices.
    let mut begun: Vec<(&Value, usize)> = Vec::new();
    let mut thread = None;
    for event in events {
        let (phase, name) = (event["ph"].as_str().unwrap_or_default(), event["name"].as_str().unwrap_or_default());
        if phase == "M" {
            continue;
        }
        if *thread.get_or_insert(&event["tid"]) != &event["tid"] {
            return Err("more than one thread uses the pool; how they wait for each other is not recorded".to_string());
        }
        let at = micros(event, "ts")?;
        let bytes = event["args"]["bytes"].as_u64().unwrap_or(0);
        let slice = |sort, end| Slice { name, sort, begin: at, end, bytes, requests: Vec::new() };
        match phase {
            "B" => open.push(slice(Sort::Waited, at)),
            "X" => found.push(slice(Sort::Waited, at + micros(event, "dur")?)),
            "E" => {
                let mut ended = open.pop().ok_or("a slice ends that never began")?;
                ended.end = at;
                match open.last_mut() {
                    // What lies inside another belongs to it.
                    Some(outer) => outer.requests.append(&mut ended.requests),
                    None => found.push(ended),
                }
            }
            "b" if event["cat"] == "request" => {
                let bytes = event["args"]["bytes_sent"].as_u64().ok_or("a request without bytes")?;
                let last = begun.last().map(|(_, place)| *place);
                let sender = open.last_mut().or(last.and_then(|place| found.get_mut(place)));
                sender.ok_or("a request of no command")?.requests.push((node_of(name)?, bytes));
            }
            "b" if event["cat"] == "command" => {
                begun.push((&event["id2"], found.len()));
                found.push(slice(Sort::Begun, at));
            }
            "e" if event["cat"] == "command" => {
                begun.retain(|(id, _)| *id != &event["id2"]);
                let left = begun.iter().map(|(_, place)| found[*place].requests.len() as u64).sum();
                found.push(slice(Sort::Over { left }, at));
            }
            _ => {}
        }
    }
    match open.is_empty() {
        true => Ok(found),
        false => Err("the program ended inside a command".to_string()),
    }
}

/// The steps of a rank: computing in the gaps, and what the slices say.
fn steps(events: &[Value]) -> Result<Vec<Step>, String> {
    let slices = slices(events)?;
    let gaps: Vec<f64> = slices.windows(2).map(|pair| (pair[1].begin - pair[0].end).max(0.0)).collect();
    let shortest = gaps.iter().copied().fold(f64::INFINITY, f64::min);
    let mut steps = Vec::new();
    for (position, slice) in slices.iter().enumerate() {
        let gap = position.checked_sub(1).and_then(|before| gaps.get(before));
        // Before the end of a command that was begun the thread waited for it: since when, nothing says.
        if let Some(gap) = gap.filter(|_| !matches!(slice.sort, Sort::Over { .. })) {
            steps.push(compute(gap - shortest));
        }
        steps.extend(step(slice)?);
    }
    Ok(steps)
}

fn compute(micros: f64) -> Step {
    Step::Compute(Picos::from_ns_f64(micros.max(0.0) * 1e3))
}

fn step(slice: &Slice<'_>) -> Result<Vec<Step>, String> {
    let head = HEAD_LEN as u64;
    if let Sort::Over { left } = slice.sort {
        return Ok(vec![Step::Wait { left }]);
    }
    Ok(match slice.name {
        "barrier" => vec![Step::Barrier],
        "flush" => Vec::new(),
        name if name.starts_with("fault") => {
            vec![Step::Touch { writes: name.contains("write") || name.contains("store"), place: Place::Spread }]
        }
        "touch" | "update" | "take a lock" | "group barrier" | "wait for a word" | "go through the mapping" => {
            return Err(format!("it has a \"{}\", which is not in the model", slice.name));
        }
        // Done on memory of this host: it takes as long there.
        _ if slice.requests.is_empty() => vec![compute(slice.end - slice.begin)],
        name => {
            let returns = matches!(name, "get" | "fetch" | "compare and swap" | "batch");
            let parts = slice.requests.len() as u64;
            let answer = head + if returns { slice.bytes / parts } else { 0 };
            let lengths = |sent: u64| Lengths { request: head + sent, answer };
            let requests = Step::Requests(slice.requests.iter().map(|(node, sent)| (*node, lengths(*sent))).collect());
            if slice.sort == Sort::Begun { vec![requests] } else { vec![requests, Step::Wait { left: 0 }] }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn event(phase: &str, name: &str, category: &str, at: f64, args: Value) -> Value {
        json!({ "ph": phase, "name": name, "cat": category, "ts": at, "pid": 0, "tid": 9, "args": args })
    }

    fn get(at: f64) -> [Value; 4] {
        [
            event("B", "get", "command", at, json!({ "bytes": 4096 })),
            event("b", "request to node1", "request", at + 1.0, json!({ "bytes_sent": 64 })),
            event("e", "request to node1", "request", at + 9.0, json!({})),
            event("E", "get", "command", at + 10.0, json!({})),
        ]
    }

    #[test]
    fn gets_barriers_and_the_work_between_become_steps() {
        let mut events = vec![json!({ "ph": "M", "name": "process_name" })];
        events.extend(get(100.0));
        events.extend(get(112.0));
        events.extend([event("B", "barrier", "wait", 152.0, json!({})), event("E", "barrier", "wait", 160.0, json!({}))]);
        let request = Step::Requests(vec![(1, Lengths { request: 96, answer: 32 + 4096 })]);
        let wanted = [
            request.clone(),
            Step::Wait { left: 0 },
            // The shortest gap, 2 us, is the writing of the timeline.
            Step::Compute(Picos::ZERO),
            request,
            Step::Wait { left: 0 },
            Step::Compute(Picos::us(28)),
            Step::Barrier,
        ];
        assert_eq!(steps(&events).unwrap(), wanted);
    }

    #[test]
    fn commands_under_way_together_stay_so() {
        let with = |mut event: Value, id: u64| {
            event["id2"] = json!({ "local": id });
            event
        };
        let begin = |id: u64, at: f64| {
            let args = json!({ "bytes": 8 });
            let request = event("b", "request to node1", "request", at + 0.5, json!({ "bytes_sent": 64 }));
            [with(event("b", "get", "command", at, args), id), with(request, 10 + id)]
        };
        let over = |id: u64, at: f64| with(event("e", "get", "command", at, json!({})), id);
        let events = [&begin(1, 10.0)[..], &begin(2, 15.0), &[over(1, 90.0), over(2, 95.0)]].concat();
        let request = Step::Requests(vec![(1, Lengths { request: 96, answer: 40 })]);
        let wanted = [request.clone(), Step::Compute(Picos::ZERO), request, Step::Wait { left: 1 }, Step::Wait { left: 0 }];
        assert_eq!(steps(&events).unwrap(), wanted);
    }

    #[test]
    fn what_cannot_be_followed_is_said() {
        let nobodys = [event("b", "request to node1", "request", 1.0, json!({ "bytes_sent": 64 }))];
        assert!(steps(&nobodys).unwrap_err().contains("no command"));
        let mut two = get(1.0).to_vec();
        two.push(json!({ "ph": "X", "name": "get", "ts": 3.0, "dur": 1.0, "tid": 10 }));
        assert!(steps(&two).unwrap_err().contains("more than one thread"));
        assert!(steps(&get(1.0)[..2]).unwrap_err().contains("inside a command"));
        let word = [event("B", "wait for a word", "wait", 1.0, json!({})), event("E", "", "wait", 2.0, json!({}))];
        assert!(steps(&word).unwrap_err().contains("wait for a word"));
    }

    #[test]
    fn a_folder_that_is_none_is_named() {
        assert!(load(Path::new("/nowhere/at/all")).unwrap_err().to_string().starts_with("/nowhere/at/all/run.json"));
    }
}
