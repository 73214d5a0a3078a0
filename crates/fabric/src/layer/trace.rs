//! Writes what passes as events in Chrome's trace format: one JSON object a line, in an array that need not end.
//!
//! A request and its answer are one span, named after the request's kind; everything else is a point in time. Load the
//! file in `chrome://tracing` or Perfetto.
//!
//! **Source**: "Trace Event Format", the JSON array form and its async events (phases `b` and `e`) and instants (`i`).

use super::pass_on;
use crate::link::{Link, LinkError, Progress, Refusal, Sink};
use hanare_memory::Window;
use hanare_protocol::wire::head::{Head, Kind};
use serde_json::json;
use std::io::Write;
use std::time::Instant;

/// A link that writes events. The first failure to write ends the tracing, not the link.
pub struct Trace<L, W> {
    link: L,
    out: Out<W>,
}

struct Out<W> {
    out: Option<W>,
    origin: Instant,
    peer: String,
}

impl<L: Link, W: Write + Send> Trace<L, W> {
    /// Traces what passes over `link` into `out`; times count from `origin`, so that several links fit one picture.
    pub fn over(link: L, mut out: W, origin: Instant) -> Trace<L, W> {
        let is_open = out.write_all(b"[\n").is_ok();
        let peer = link.peer().to_owned();
        Trace { link, out: Out { out: is_open.then_some(out), origin, peer } }
    }

    /// Whether events are still written.
    pub fn is_tracing(&self) -> bool {
        self.out.out.is_some()
    }
}

/// Which way a message goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Out,
    In,
}

impl<W: Write> Out<W> {
    fn event(&mut self, head: &Head, way: Way) {
        let Some(out) = &mut self.out else { return };
        let (phase, is_asked) = match head.kind {
            Kind::Commands | Kind::Arrive | Kind::Ping | Kind::Ask | Kind::Sync => ("b", way == Way::Out),
            Kind::Done | Kind::Refused | Kind::Released | Kind::Pong | Kind::Told | Kind::Synced => ("e", way == Way::In),
            Kind::Control | Kind::Name | Kind::Working => ("i", way == Way::Out),
        };
        let event = json!({
            "name": name(head.kind),
            "cat": if is_asked { "asked" } else { "served" },
            "ph": phase,
            "id": head.seq,
            "ts": self.origin.elapsed().as_nanos() as f64 / 1e3,
            "pid": std::process::id(),
            "tid": self.peer,
            "s": "p",
            "args": { "kind": format!("{:?}", head.kind), "way": if way == Way::Out { "out" } else { "in" },
                      "body_len": head.body_len, "count": head.count, "detail": head.detail },
        });
        if writeln!(out, "{event},").is_err() {
            self.out = None;
        }
    }
}

/// Both ends of a span carry one name.
fn name(kind: Kind) -> &'static str {
    match kind {
        Kind::Commands | Kind::Done | Kind::Refused => "commands",
        Kind::Control => "control",
        Kind::Ask | Kind::Told => "question",
        Kind::Name => "name",
        Kind::Working => "working",
        Kind::Arrive | Kind::Released => "barrier",
        Kind::Ping | Kind::Pong => "ping",
        Kind::Sync | Kind::Synced => "shared",
    }
}

/// The caller's sink, with an event for each message.
struct Seen<'a, W> {
    sink: &'a mut dyn Sink,
    out: &'a mut Out<W>,
}

// SAFETY: the windows are the inner sink's, which promises the same.
unsafe impl<W: Write> Sink for Seen<'_, W> {
    fn place(&mut self, head: &Head, at: u64) -> Result<Window, Refusal> {
        self.sink.place(head, at)
    }

    fn message(&mut self, head: &Head) {
        self.out.event(head, Way::In);
        self.sink.message(head);
    }

    fn may_begin(&self) -> bool {
        self.sink.may_begin()
    }
}

impl<L: Link, W: Write + Send> Link for Trace<L, W> {
    pass_on!(unsent_len event needs_write_event doze peer);

    unsafe fn send(&mut self, head: &Head, body: &[Window]) -> Result<(), LinkError> {
        self.out.event(head, Way::Out);
        // SAFETY: the caller's promise is passed on.
        unsafe { self.link.send(head, body) }
    }

    unsafe fn extend(&mut self, body: &[Window]) -> Result<(), LinkError> {
        // SAFETY: the caller's promise is passed on.
        unsafe { self.link.extend(body) }
    }

    fn progress(&mut self, sink: &mut dyn Sink) -> Result<Progress, LinkError> {
        self.link.progress(&mut Seen { sink, out: &mut self.out })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::{Store, TCP, pump};

    #[test]
    fn a_request_and_its_answer_are_one_span_on_either_side() {
        let (one, other) = TCP.pair();
        let (mut one_out, mut other_out) = (Vec::new(), Vec::new());
        let origin = Instant::now();
        {
            let mut one = Trace::over(one, &mut one_out, origin);
            let mut other = Trace::over(other, &mut other_out, origin);
            // SAFETY: there are no windows.
            unsafe {
                one.send(&Head::new(Kind::Commands, 7), &[]).unwrap();
                other.send(&Head::new(Kind::Done, 7), &[]).unwrap();
            }
            pump((&mut one, &mut Store::new()), (&mut other, &mut Store::new()), |one, other| {
                one.messages.len() + other.messages.len() == 2
            });
            assert!(one.is_tracing());
        }
        for (out, category) in [(one_out, "asked"), (other_out, "served")] {
            let text = String::from_utf8(out).unwrap();
            let array = format!("{}]", text.trim_end().trim_end_matches(','));
            let events: Vec<serde_json::Value> = serde_json::from_str(&array).unwrap();
            let mut phases: Vec<&str> = events.iter().map(|event| event["ph"].as_str().unwrap()).collect();
            phases.sort();
            assert_eq!(phases, ["b", "e"]);
            assert!(events.iter().all(|event| event["cat"] == category && event["id"] == 7 && event["name"] == "commands"));
        }
    }
}
