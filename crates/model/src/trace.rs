//! Timing charts of a run, in the Chrome trace form that Perfetto opens.
//!
//! The parts of a model become threads, grouped by what they belong to; spans and marks stand on them.
use std::fmt::Write;

use crate::time::Picos;

/// A line of the chart: one part of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartId(usize);

struct Part {
    group: usize,
    name: String,
}

struct Span {
    part: PartId,
    name: String,
    start: Picos,
    /// None for a mark, which has no length.
    end: Option<Picos>,
}

/// A chart in the making.
#[derive(Default)]
pub struct Trace {
    groups: Vec<String>,
    parts: Vec<Part>,
    spans: Vec<Span>,
}

impl Trace {
    /// An empty chart.
    pub fn new() -> Trace {
        Trace::default()
    }

    /// The line of a part (`OPC`) in its group (`node 0`); asked twice, it is the same line.
    pub fn part(&mut self, group: &str, name: &str) -> PartId {
        let known = self.groups.iter().position(|other| other == group);
        let group = known.unwrap_or_else(|| {
            self.groups.push(group.to_string());
            self.groups.len() - 1
        });
        let known = self.parts.iter().position(|part| part.group == group && part.name == name);
        PartId(known.unwrap_or_else(|| {
            self.parts.push(Part { group, name: name.to_string() });
            self.parts.len() - 1
        }))
    }

    /// Adds a span on a part.
    pub fn span(&mut self, part: PartId, name: impl Into<String>, start: Picos, end: Picos) {
        self.spans.push(Span { part, name: name.into(), start, end: Some(end) });
    }

    /// Adds a moment on a part.
    pub fn mark(&mut self, part: PartId, name: impl Into<String>, at: Picos) {
        self.spans.push(Span { part, name: name.into(), start: at, end: None });
    }

    /// The number of spans and marks.
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// The chart as Chrome trace JSON; times in microseconds with all picoseconds kept.
    pub fn to_json(&self) -> String {
        let mut events = Vec::with_capacity(self.groups.len() + self.parts.len() + self.spans.len());
        for (index, name) in self.groups.iter().enumerate() {
            let name = quoted(name);
            events.push(format!(r#"{{"ph":"M","name":"process_name","pid":{},"args":{{"name":{name}}}}}"#, index + 1));
        }
        for (index, part) in self.parts.iter().enumerate() {
            let (pid, tid, name) = (part.group + 1, index + 1, quoted(&part.name));
            events.push(format!(r#"{{"ph":"M","name":"thread_name","pid":{pid},"tid":{tid},"args":{{"name":{name}}}}}"#));
        }
        events.extend(self.spans.iter().map(|span| self.span_json(span)));
        format!("{{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n{}\n]}}\n", events.join(",\n"))
    }

    fn span_json(&self, span: &Span) -> String {
        let (pid, tid) = (self.parts[span.part.0].group + 1, span.part.0 + 1);
        let mut text = format!(r#"{{"name":{},"pid":{pid},"tid":{tid},"ts":{}"#, quoted(&span.name), micros(span.start));
        let end = match span.end {
            Some(end) => write!(text, r#","ph":"X","dur":{}}}"#, micros(end.since(span.start))),
            None => write!(text, r#","ph":"i","s":"t"}}"#),
        };
        end.expect("a String takes every write");
        text
    }
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn micros(time: Picos) -> String {
    format!("{}.{:06}", time.0 / 1_000_000, time.0 % 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_keep_their_picoseconds() {
        let mut trace = Trace::new();
        let bus = trace.part("node 0", "bus");
        assert_eq!(trace.part("node 0", "bus"), bus);
        trace.span(bus, "read \"A\"", Picos(1_500_001), Picos(2_500_002));
        trace.mark(bus, "hit", Picos::ns(7));
        let value: serde_json::Value = serde_json::from_str(&trace.to_json()).unwrap();
        let events = value["traceEvents"].as_array().unwrap();
        assert_eq!(events.len(), 4);
        assert_eq!((events[2]["ts"].as_f64(), events[2]["dur"].as_f64()), (Some(1.500001), Some(1.000001)));
        assert_eq!(events[2]["name"], "read \"A\"");
        assert_eq!(events[3]["ph"], "i");
    }
}
