//! Counts of page actions of a mapping, and of the bytes that it moved.

use crate::trace::PageTotals;
use hanare_fabric::Traffic;
use hanare_protocol::id::NodeId;
use hanare_protocol::limits::PAGE_LEN;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// The counts, as they grow: also from signal handlers.
#[derive(Debug, Default)]
pub(crate) struct PageCounters {
    pub faults: AtomicU64,
    pub fetches: AtomicU64,
    pub prefetched: AtomicU64,
    pub twins: AtomicU64,
    pub diff_bytes: AtomicU64,
    pub evictions: AtomicU64,
    pub kept: AtomicU64,
}

/// The counts at one moment, since the mapping was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageCounts {
    /// Touches that the kernel could not serve.
    pub faults: u64,
    /// Pages brought from their homes, those fetched ahead among them.
    pub fetches: u64,
    /// Pages brought before they were touched.
    pub prefetched: u64,
    /// Pages whose clean bytes were kept before the first write.
    pub twins: u64,
    /// Changed bytes that were sent home.
    pub diff_bytes: u64,
    /// Pages given back to make room for others.
    pub evictions: u64,
    /// Pages that an update found as they are at home, so that they stayed.
    pub kept: u64,
    /// Copies that were to be written.
    pub upgrades: u64,
    /// Pages that others had to give up first.
    pub waits: u64,
}

impl PageCounters {
    /// The counts as they are.
    pub fn read(&self) -> PageCounts {
        PageCounts {
            faults: self.faults.load(Relaxed),
            fetches: self.fetches.load(Relaxed),
            prefetched: self.prefetched.load(Relaxed),
            twins: self.twins.load(Relaxed),
            diff_bytes: self.diff_bytes.load(Relaxed),
            evictions: self.evictions.load(Relaxed),
            kept: self.kept.load(Relaxed),
            ..PageCounts::default()
        }
    }
}

/// Adds to a count.
pub(crate) fn count(counter: &AtomicU64, more: u64) {
    counter.fetch_add(more, Relaxed);
}

/// Messages and bytes of all connections on which faulting threads speak, as they grow.
#[derive(Debug, Default)]
pub(crate) struct FaultTraffic {
    pub messages_sent: AtomicU64,
    pub bytes_sent: AtomicU64,
    pub messages_received: AtomicU64,
    pub bytes_received: AtomicU64,
    /// Nodes that messages went to since the timeline looked: [`PageTotals::nodes`].
    nodes: AtomicU64,
    /// Part of the received bytes that nodes had brought for mappings that ended.
    brought_len: AtomicU64,
    /// Pages that homes granted later: they come to this host's node from another host.
    pub pages_later: AtomicU64,
}

impl FaultTraffic {
    /// Counts a message of `len` bytes to a node. Async-signal-safe.
    pub fn sent(&self, node: NodeId, len: u64) {
        count(&self.messages_sent, 1);
        count(&self.bytes_sent, len);
        self.nodes.fetch_or(1 << node.0.min(u64::BITS - 1), Relaxed);
    }

    /// Counts messages and bytes that came.
    pub fn received(&self, messages: u32, len: u64) {
        count(&self.messages_received, messages.into());
        count(&self.bytes_received, len);
    }

    /// The counts for the timeline, which begins its list of nodes again.
    pub fn totals(&self) -> PageTotals {
        let Traffic { messages_sent: messages, bytes_sent, bytes_received, .. } = self.read();
        let bytes_received = bytes_received.saturating_sub(self.brought_len.load(Relaxed));
        let pages_later = self.pages_later.load(Relaxed);
        PageTotals { messages, bytes_sent, bytes_received, pages_later, nodes: self.nodes.swap(0, Relaxed) }
    }

    /// Traffic of pages that the node brought: a message each. The count is from memory that programs share, and may be nonsense.
    pub fn brought(pages: u64) -> Traffic {
        Traffic { messages_received: pages, bytes_received: pages.saturating_mul(PAGE_LEN), ..Traffic::default() }
    }

    /// Keeps what a mapping that ends has counted.
    pub fn add_brought(&self, pages: u64) {
        let more = FaultTraffic::brought(pages);
        count(&self.messages_received, more.messages_received);
        count(&self.bytes_received, more.bytes_received);
        count(&self.brought_len, more.bytes_received);
    }

    /// The counts as they are.
    pub fn read(&self) -> Traffic {
        Traffic {
            messages_sent: self.messages_sent.load(Relaxed),
            bytes_sent: self.bytes_sent.load(Relaxed),
            messages_received: self.messages_received.load(Relaxed),
            bytes_received: self.bytes_received.load(Relaxed),
        }
    }
}
