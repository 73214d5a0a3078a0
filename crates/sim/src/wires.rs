//! Connections between nodes: each keeps order and loses nothing until it breaks, and either end sees its end at its own time.

use crate::links::Link;
use std::collections::BTreeMap;

/// A connection. Its two ends have the places `2 n` (of who made it) and `2 n + 1`.
#[derive(Debug)]
struct PeerWire<N> {
    maker: N,
    taker: N,
    link: Link,
    made_ms: u64,
    /// A defect: frames that arrive until then are lost, and nobody is told.
    lost_until_ms: u64,
}

/// All connections that an end still has. `N` names a node's process.
#[derive(Debug)]
pub(crate) struct Wires<N>(BTreeMap<u64, PeerWire<N>>);

impl<N> Default for Wires<N> {
    fn default() -> Wires<N> {
        Wires(BTreeMap::new())
    }
}

/// True if a place is of who made its connection.
fn is_maker(place: u64) -> bool {
    place.is_multiple_of(2)
}

impl<N: Copy + PartialEq> Wires<N> {
    /// A connection is made. Returns the maker's place.
    pub fn make(&mut self, number: u64, now_ms: u64, maker: N, taker: N) -> u64 {
        self.0.insert(number, PeerWire { maker, taker, link: Link::default(), made_ms: now_ms, lost_until_ms: 0 });
        2 * number
    }

    /// The process at an end.
    pub fn at(&self, place: u64) -> Option<N> {
        self.0.get(&(place / 2)).map(|wire| if is_maker(place) { wire.maker } else { wire.taker })
    }

    /// True if an end has not been closed.
    pub fn is_open_at(&self, place: u64) -> bool {
        let is_open =
            |PeerWire { link, .. }: &PeerWire<N>| if is_maker(place) { link.is_open_at_client } else { link.is_open_at_home };
        self.0.get(&(place / 2)).is_some_and(is_open)
    }

    /// After how many milliseconds a frame arrives that leaves an end at this moment, if it does.
    pub fn arrival(&mut self, from: u64, now_ms: u64, delay_ms: u64) -> Option<u64> {
        let is_open = self.is_open_at(from);
        self.0.get_mut(&(from / 2)).filter(|_| is_open)?.link.arrival(now_ms, delay_ms, is_maker(from))
    }

    /// True if an arriving frame is one of a connection that is there for its receiver.
    pub fn is_open(&self, place: u64, now_ms: u64) -> bool {
        self.0.get(&(place / 2)).is_some_and(|wire| now_ms >= wire.lost_until_ms && wire.link.is_open(now_ms, !is_maker(place)))
    }

    /// An end is closed. Returns false if it was before.
    pub fn close(&mut self, place: u64) -> bool {
        let Some(PeerWire { link, .. }) = self.0.get_mut(&(place / 2)) else { return false };
        let end = if is_maker(place) { &mut link.is_open_at_client } else { &mut link.is_open_at_home };
        let was_open = std::mem::replace(end, false);
        if !link.is_open_at_client && !link.is_open_at_home {
            self.0.remove(&(place / 2));
        }
        was_open
    }

    /// From then on nothing that is under way arrives.
    pub fn cut(&mut self, number: u64, at_ms: u64) {
        if let Some(wire) = self.0.get_mut(&number) {
            wire.link.cut(at_ms);
        }
    }

    /// A defect: frames that arrive until then are lost, and no end is told.
    pub fn lose(&mut self, number: u64, until_ms: u64) {
        if let Some(wire) = self.0.get_mut(&number) {
            (wire.made_ms, wire.lost_until_ms) = (until_ms, until_ms);
        }
    }

    /// The ends of a process's connections.
    pub fn of(&self, who: N) -> impl Iterator<Item = u64> {
        let those = self.0.iter().filter(move |(_, wire)| wire.maker == who || wire.taker == who);
        those.map(move |(number, wire)| 2 * number + u64::from(wire.maker != who))
    }

    /// The moment at which a connection was made, if it has not broken.
    pub fn whole_since(&self, place: u64) -> Option<u64> {
        self.0.get(&(place / 2)).filter(|wire| wire.link.is_whole()).map(|wire| wire.made_ms)
    }
}
