//! Messages for pages of mappings on the timeline. The threads that fault count them, and each event tells those since the last.

use super::Trace;
use serde_json::{Value, json};
use std::sync::PoisonError;

/// Messages of an attachment for pages so far, and the nodes that they went to since this was last read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PageTotals {
    /// Requests.
    pub messages: u64,
    pub bytes_sent: u64,
    pub bytes_received: u64,
    /// Pages that homes granted later: other hosts send them to this host's node.
    pub pages_later: u64,
    /// A bit for each node; nodes from 63 on share the last.
    pub nodes: u64,
}

/// The counts of the program's attachments, and their sums as they were last told.
#[derive(Default)]
pub(super) struct Exchanged {
    of: Vec<Box<dyn Fn() -> PageTotals + Send>>,
    told: PageTotals,
}

impl Trace {
    /// Tells also of the messages that are counted there.
    pub(crate) fn count_pages(&self, read: impl Fn() -> PageTotals + Send + 'static) {
        self.exchanged.lock().unwrap_or_else(PoisonError::into_inner).of.push(Box::new(read));
    }

    /// Messages for pages since the last call: requests, bytes sent and received, pages that come later, and the nodes. None if there was
    /// none.
    pub(super) fn exchanged(&self) -> Option<Value> {
        let mut exchanged = self.exchanged.lock().unwrap_or_else(PoisonError::into_inner);
        let sums = exchanged.of.iter().map(|read| read()).fold(PageTotals::default(), |sums, more| PageTotals {
            messages: sums.messages + more.messages,
            bytes_sent: sums.bytes_sent + more.bytes_sent,
            bytes_received: sums.bytes_received + more.bytes_received,
            pages_later: sums.pages_later + more.pages_later,
            nodes: sums.nodes | more.nodes,
        });
        let told = std::mem::replace(&mut exchanged.told, PageTotals { nodes: 0, ..sums });
        let messages = sums.messages.saturating_sub(told.messages);
        if messages == 0 {
            // The nodes of messages that are under way belong to the next event.
            exchanged.told.nodes = told.nodes | sums.nodes;
            return None;
        }
        let bits = told.nodes | sums.nodes;
        let nodes: Vec<u32> = (0..u64::BITS).filter(|bit| bits >> bit & 1 == 1).collect();
        Some(json!({
            "messages": messages,
            "bytes_sent": sums.bytes_sent.saturating_sub(told.bytes_sent),
            "bytes_received": sums.bytes_received.saturating_sub(told.bytes_received),
            "pages_later": sums.pages_later.saturating_sub(told.pages_later),
            "nodes": nodes,
        }))
    }
}
