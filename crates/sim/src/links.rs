//! Connections of clients to one home: each keeps order and loses nothing until it breaks, and either side sees its end at its own time.

use crate::network::Ordered;
use std::collections::BTreeMap;

/// A connection, as long as one side holds it.
#[derive(Debug)]
pub(crate) struct Link {
    pub client: u64,
    path: Ordered,
    /// When it broke: what would arrive later does not.
    cut_at: Option<u64>,
    pub is_open_at_home: bool,
    pub is_open_at_client: bool,
}

impl Link {
    pub fn new(client: u64) -> Link {
        Link { client, path: Ordered::default(), cut_at: None, is_open_at_home: true, is_open_at_client: true }
    }

    /// After how many milliseconds a message that is sent at this moment arrives, if it does.
    pub fn arrival(&mut self, now_ms: u64, delay_ms: u64, to_home: bool) -> Option<u64> {
        let after = if to_home { self.path.there(now_ms, delay_ms) } else { self.path.back(now_ms, delay_ms) };
        self.cut_at.is_none_or(|cut| now_ms + after <= cut).then_some(after)
    }

    /// True if an arriving message is one of a connection that is there for its receiver.
    pub fn is_open(&self, now_ms: u64, at_home: bool) -> bool {
        let is_open = if at_home { self.is_open_at_home } else { self.is_open_at_client };
        is_open && self.cut_at.is_none_or(|cut| now_ms <= cut)
    }

    /// True if it has not broken.
    pub fn is_whole(&self) -> bool {
        self.cut_at.is_none()
    }

    /// Stalls it: nothing passes until then; nothing is lost.
    pub fn stall(&mut self, until_ms: u64) {
        self.path.stall(until_ms);
    }

    /// From then on nothing that is under way arrives.
    pub fn cut(&mut self, at_ms: u64) {
        self.cut_at.get_or_insert(at_ms);
    }

    /// The client ends. Returns after how many milliseconds all that it sent has arrived.
    pub fn end_at_client(&mut self, now_ms: u64) -> u64 {
        self.is_open_at_client = false;
        self.path.there(now_ms, 0)
    }
}

/// The connections that have not broken.
pub(crate) fn whole(links: &BTreeMap<u64, Link>) -> Vec<u64> {
    links.iter().filter(|(_, link)| link.is_whole()).map(|(id, _)| *id).collect()
}

/// The connections that the home holds.
pub(crate) fn at_home(links: &BTreeMap<u64, Link>) -> Vec<u64> {
    links.iter().filter(|(_, link)| link.is_open_at_home).map(|(id, _)| *id).collect()
}
