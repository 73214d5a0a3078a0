//! Forms of queues, for people and as JSON.

use crate::size;
use hanare::{Overflow, QueueForm, Queues, Unit};
use serde_json::{Value, json};

/// Treatment of a unit without room.
pub fn overflow(form: &QueueForm) -> &'static str {
    match form.overflow {
        Overflow::Refuse => "refuse",
        Overflow::Wait => "wait",
        Overflow::Spill => "spill",
    }
}

/// Units of a queue: their kind and their length in bytes.
pub fn unit(form: &QueueForm) -> (&'static str, u32) {
    match form.unit {
        Unit::Blocks { len } => ("block", len),
        Unit::Records { len_max } => ("record", len_max),
    }
}

/// Form of an array of queues, in a line.
pub fn in_words(queues: &Queues) -> String {
    let (form, (kind, len)) = (queues.form(), unit(queues.form()));
    let (count, bytes) = (queues.count(), size::show(len.into()));
    format!("{count} of {kind}s of {bytes}, {} deep, {} writers each, overflow: {}", form.depth, form.ports, overflow(form))
}

/// The same as JSON.
pub fn as_value(queues: &Queues) -> Value {
    let (form, (kind, len)) = (queues.form(), unit(queues.form()));
    json!({
        "count": queues.count(), "unit": kind, "bytes": len, "depth": form.depth, "ports": form.ports, "overflow": overflow(form),
    })
}
