//! Ports of queues on the timeline.

use super::current;
use serde_json::json;

/// The life of a queue's port, as an async slice; what it did is said at its end.
#[derive(Debug)]
pub(crate) struct PortLife {
    id: Option<u64>,
    name: &'static str,
    /// Units kept, or seen.
    pub units: u64,
    /// Times that it slept.
    pub waits: u64,
}

impl PortLife {
    /// A port of a queue opens.
    pub fn begin(name: &'static str, queue: impl FnOnce() -> String) -> PortLife {
        let id = current().map(|trace| {
            let id = trace.id();
            trace.async_event("b", name, "queue", trace.now(), id, json!({ "queue": queue() }));
            id
        });
        PortLife { id, name, units: 0, waits: 0 }
    }

    /// Ends the port's event.
    pub fn end(&self) {
        if let (Some(trace), Some(id)) = (current(), self.id) {
            trace.async_event("e", self.name, "queue", trace.now(), id, json!({ "units": self.units, "waits": self.waits }));
        }
    }
}
