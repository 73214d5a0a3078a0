//! Timelines as a trace of OpenTelemetry: OTLP in JSON, as collectors read it from files.
//!
//! Each process is a resource. A slice is a span in the slice around it, a request to a node the span of a client. All files together are
//! one trace. Its number comes from what is in them, so the same timelines are the same trace each time.

use super::{Id, Traced, write_whole};
use anyhow::Result;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::path::Path;

/// Kinds of spans, as OTLP numbers them.
const INTERNAL: u8 = 1;
const CLIENT: u8 = 3;

/// The event that tells from which day on the times of a timeline count.
const DAY: &str = "day";

/// Seconds of a day.
const DAY_S: u64 = 86_400;

/// A time in which a process did something.
struct TracedSpan {
    number: u64,
    /// The number of the span around it.
    parent: Option<u64>,
    name: String,
    kind: u8,
    begin_us: f64,
    end_us: f64,
    attributes: Vec<Value>,
    failure: Option<String>,
}

/// A process's spans.
#[derive(Default)]
struct TracedProcess {
    name: String,
    /// Begin of the day from which its times count, in seconds since 1970.
    day_s: Option<u64>,
    last_us: f64,
    spans: Vec<TracedSpan>,
    /// Slices of each thread that have not ended, by their places among the spans.
    open: BTreeMap<i64, Vec<usize>>,
    /// The same of requests, by their names.
    requests: BTreeMap<String, usize>,
}

/// The spans of all files, as far as they were read. All stay in memory to the end: the number of the trace, which each of them names, comes
/// from the last event, too.
#[derive(Default)]
pub struct Spans {
    processes: BTreeMap<u64, TracedProcess>,
    /// Processes of the file that is read.
    in_file: BTreeSet<u64>,
    trace: DefaultHasher,
    /// Number of spans.
    count: u64,
}

impl Spans {
    /// Takes an event of a file.
    pub fn take(&mut self, event: &Traced) {
        (event.pid, event.name.as_str(), event.ts.to_bits()).hash(&mut self.trace);
        self.in_file.insert(event.pid);
        self.processes.entry(event.pid).or_default().take(event, &mut self.count);
    }

    /// A file has ended. Its processes that told no day have the one by which it was written.
    pub fn end_file(&mut self, file: &Path) -> Result<()> {
        let written = std::fs::metadata(file)?.modified()?.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        for pid in std::mem::take(&mut self.in_file) {
            let process = self.processes.entry(pid).or_default();
            process.day_s.get_or_insert_with(|| day_of(written.as_secs(), process.last_us));
        }
        Ok(())
    }

    /// Writes them as one trace. **Errors**: nothing is left at `out` then.
    pub fn write(self, out: &Path) -> Result<()> {
        let halves = [0u64, 1].map(|half| {
            let mut of_half = self.trace.clone();
            half.hash(&mut of_half);
            of_half.finish()
        });
        let trace = format!("{:016x}{:016x}", halves[0].max(1), halves[1]);
        let resources: Vec<Value> = self.processes.into_iter().map(|(pid, process)| process.resource(pid, &trace)).collect();
        write_whole(out, |file| {
            serde_json::to_writer(&mut *file, &json!({ "resourceSpans": resources }))?;
            Ok(writeln!(file)?)
        })
    }
}

/// Begin of the day that a timeline tells, in seconds since 1970. A file may say anything.
fn told_day(args: &Value) -> Option<u64> {
    args["unix_s"].as_u64().filter(|seconds| *seconds < 1 << 33)
}

/// The day of a timeline that does not tell it: its last event is before its file was written.
fn day_of(written_s: u64, last_us: f64) -> u64 {
    let last_s = (last_us / 1e6) as u64;
    // A minute for clocks that differ.
    let days = (written_s + 60).saturating_sub(last_s) / DAY_S;
    days * DAY_S
}

impl TracedProcess {
    fn take(&mut self, event: &Traced, count: &mut u64) {
        if event.ph == "M" {
            match event.name.as_str() {
                "process_name" => event.args["name"].as_str().unwrap_or_default().clone_into(&mut self.name),
                DAY => self.day_s = told_day(&event.args).or(self.day_s),
                _ => {}
            }
            return;
        }
        if !event.is_timed() {
            return;
        }
        self.last_us = self.last_us.max(event.ts + event.dur);
        let place = self.spans.len();
        match (event.ph.as_str(), &event.id2) {
            ("X", _) => self.add(event, INTERNAL, count),
            ("B", _) => {
                self.add(event, INTERNAL, count);
                self.open.entry(event.tid).or_default().push(place);
            }
            ("b", Some(Id { local })) => {
                self.requests.insert(local.clone(), place);
                self.add(event, CLIENT, count);
            }
            ("E", _) => {
                let ended = self.open.get_mut(&event.tid).and_then(Vec::pop);
                self.end(ended, event);
            }
            ("e", Some(Id { local })) => {
                let ended = self.requests.remove(local);
                self.end(ended, event);
            }
            _ => {}
        }
    }

    fn add(&mut self, event: &Traced, kind: u8, count: &mut u64) {
        *count += 1;
        let around = self.open.get(&event.tid).and_then(|open| open.last());
        self.spans.push(TracedSpan {
            number: *count,
            parent: around.map(|place| self.spans[*place].number),
            name: event.name.clone(),
            kind,
            begin_us: event.ts,
            end_us: event.ts + event.dur,
            attributes: attributes(&event.cat, event.tid, &event.args),
            failure: failure(&event.args),
        });
    }

    fn end(&mut self, place: Option<usize>, event: &Traced) {
        let Some(span) = place.and_then(|place| self.spans.get_mut(place)) else { return };
        span.end_us = event.ts.max(span.begin_us);
        span.failure = span.failure.take().or_else(|| failure(&event.args));
    }

    /// The process as a resource with its spans. Slices that a killed program did not end lasted to its last event.
    fn resource(mut self, pid: u64, trace: &str) -> Value {
        let open: Vec<usize> = self.open.into_values().flatten().chain(self.requests.into_values()).collect();
        for place in open {
            self.spans[place].end_us = self.last_us;
        }
        let day_us = self.day_s.unwrap_or_default() as f64 * 1e6;
        let spans: Vec<Value> = self.spans.iter().map(|span| span.value(trace, day_us)).collect();
        json!({
            "resource": { "attributes": [text("service.name", "hanare"), text("process.command", &self.name), number("hanare.process", pid)] },
            "scopeSpans": [{ "scope": { "name": "hanare" }, "spans": spans }],
        })
    }
}

impl TracedSpan {
    fn value(&self, trace: &str, day_us: f64) -> Value {
        // A day's microseconds and a fraction are exact in a double; nanoseconds since 1970 are not.
        let nanos = |us: f64| (day_us as u64).saturating_mul(1000).saturating_add((us * 1e3) as u64).to_string();
        let mut span = json!({
            "traceId": trace,
            "spanId": id(self.number),
            "name": self.name,
            "kind": self.kind,
            "startTimeUnixNano": nanos(self.begin_us),
            "endTimeUnixNano": nanos(self.end_us),
            "attributes": self.attributes,
        });
        if let Some(parent) = self.parent {
            span["parentSpanId"] = id(parent).into();
        }
        if let Some(why) = &self.failure {
            span["status"] = json!({ "code": 2, "message": why });
        }
        span
    }
}

fn id(number: u64) -> String {
    format!("{number:016x}")
}

fn text(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}

/// Whole numbers of 64 bits are strings in this format.
fn number(key: &str, value: u64) -> Value {
    json!({ "key": key, "value": { "intValue": value.to_string() } })
}

fn attributes(category: &str, thread: i64, args: &Value) -> Vec<Value> {
    let told = args.as_object().into_iter().flatten().filter(|(key, _)| *key != "outcome").map(|(key, value)| {
        let key = format!("hanare.{key}");
        match value {
            Value::String(value) => text(&key, value),
            Value::Bool(value) => json!({ "key": key, "value": { "boolValue": value } }),
            Value::Number(value) => match value.as_i64() {
                Some(whole) => json!({ "key": key, "value": { "intValue": whole.to_string() } }),
                None => json!({ "key": key, "value": { "doubleValue": value } }),
            },
            other => text(&key, &other.to_string()),
        }
    });
    let thread = json!({ "key": "thread.id", "value": { "intValue": thread.to_string() } });
    [text("hanare.category", category), thread].into_iter().chain(told).collect()
}

/// The error with which something ended, if it did.
fn failure(args: &Value) -> Option<String> {
    args["outcome"].as_str().filter(|outcome| *outcome != "ok").map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(ph: &str, name: &str, ts: f64, more: Value) -> Value {
        let mut event = json!({ "name": name, "cat": "command", "ph": ph, "ts": ts, "pid": 3, "tid": 5 });
        event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        event
    }

    fn spans_of(events: &[Value]) -> (Value, Vec<Value>) {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("in"), folder.path().join("out"));
        std::fs::write(&from, serde_json::to_string(events).unwrap()).unwrap();
        let write = || {
            let read =
                |spans: Option<&mut Spans>| crate::trace::read(std::slice::from_ref(&from), spans).unwrap().report().value();
            let mut spans = Spans::default();
            assert_eq!(read(Some(&mut spans)), read(None), "one pass tells the same");
            spans.write(&to).unwrap();
        };
        write();
        let first = std::fs::read_to_string(&to).unwrap();
        write();
        assert_eq!(first, std::fs::read_to_string(&to).unwrap(), "the same timeline is the same trace");
        assert!(first.ends_with("}\n") && first.lines().count() == 1);
        let told: Value = serde_json::from_str(&first).unwrap();
        let resource = &told["resourceSpans"][0];
        let spans = resource["scopeSpans"][0]["spans"].as_array().unwrap().clone();
        (resource["resource"].clone(), spans)
    }

    #[test]
    fn slices_and_requests_are_spans_in_those_around_them() {
        let (resource, spans) = spans_of(&[
            json!({ "name": "process_name", "ph": "M", "pid": 3, "args": { "name": "rank 3" } }),
            json!({ "name": "day", "ph": "M", "pid": 3, "args": { "unix_s": 1_700_006_400 } }),
            event("B", "put", 10.5, json!({ "args": { "bytes": 8, "region": "a", "far": true, "share": 0.5 } })),
            event("b", "request to node1", 11.0, json!({ "id2": { "local": "0x1" }, "args": {} })),
            event("e", "request to node1", 14.0, json!({ "id2": { "local": "0x1" }, "args": { "outcome": "ok" } })),
            event("E", "put", 20.0, json!({ "args": { "outcome": "node 1 is lost" } })),
            event("X", "fault, fetched", 30.0, json!({ "dur": 5.0 })),
            event("B", "get", 40.0, json!({})),
            event("i", "faults dropped", 50.0, json!({})),
        ]);
        assert!(resource["attributes"].as_array().unwrap().contains(&text("process.command", "rank 3")));
        let told = |at: usize, key: &str| spans[at][key].as_str().unwrap_or_default().to_owned();
        assert_eq!(
            spans.iter().map(|span| span["name"].as_str().unwrap()).collect::<Vec<_>>(),
            ["put", "request to node1", "fault, fetched", "get"]
        );
        assert_eq!(
            (told(0, "startTimeUnixNano"), told(0, "endTimeUnixNano")),
            ("1700006400000010500".to_owned(), "1700006400000020000".to_owned())
        );
        assert_eq!((told(1, "parentSpanId"), &spans[1]["kind"]), (told(0, "spanId"), &json!(3)));
        assert_eq!(spans[0]["status"], json!({ "code": 2, "message": "node 1 is lost" }));
        assert!(spans[1].get("status").is_none() && spans[2].get("parentSpanId").is_none());
        assert_eq!(told(3, "endTimeUnixNano"), "1700006400000050000", "it lasted to the last event");
        let of_put = spans[0]["attributes"].as_array().unwrap();
        assert!(of_put.contains(&json!({ "key": "hanare.bytes", "value": { "intValue": "8" } })));
        assert!(of_put.contains(&text("hanare.region", "a")));
        let ids: std::collections::BTreeSet<_> = (0..4).map(|at| told(at, "spanId")).collect();
        assert!(ids.len() == 4 && ids.iter().all(|id| id.len() == 16) && told(0, "traceId").len() == 32);
    }

    #[test]
    fn a_timeline_without_its_day_has_the_one_before_its_file_was_written() {
        let noon = 43_200_000_000.0;
        assert_eq!(day_of(1_700_006_400 + 50_000, noon), 1_700_006_400);
        assert_eq!(day_of(1_700_006_400 + 10, DAY_S as f64 * 1e6 - 1e6), 1_700_006_400 - 86_400, "it was written after midnight");
    }
}
