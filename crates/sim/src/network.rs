//! Connections between nodes and the coordinator, and what the network does to messages on them.
//!
//! In some runs a connection is harsher than TCP: it loses, reorders and duplicates. Machines must not rely on more than that a closed
//! connection stays closed. Orders about copies need a connection that keeps order and loses nothing until it breaks: so it is in the other
//! runs.

use crate::dice::Dice;
use hanare_protocol::coordinator::Peer;
use std::collections::BTreeMap;

/// Faults of the network, in parts of 10,000.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weather {
    pub loss: u64,
    pub duplication: u64,
    pub delay_ms_max: u64,
}

impl Weather {
    /// Fair weather: nothing is lost; a little delay stays.
    pub const FAIR: Weather = Weather { loss: 0, duplication: 0, delay_ms_max: 2 };

    /// Weather by the dice: most runs are mild, some awful.
    pub fn throw(dice: &mut Dice) -> Weather {
        Weather {
            loss: dice.pick(&[0, 0, 50, 500, 1500]),
            duplication: dice.pick(&[0, 100, 2000]),
            delay_ms_max: dice.pick(&[1, 10, 100, 800]),
        }
    }

    /// After how many milliseconds each copy of a message arrives.
    pub fn arrivals(&self, dice: &mut Dice) -> Vec<u64> {
        let copies = if dice.chance(self.loss) {
            0
        } else if dice.chance(self.duplication) {
            2
        } else {
            1
        };
        (0..copies).map(|_| dice.between(0, self.delay_ms_max)).collect()
    }
}

/// A path that keeps order, each way: none of its messages overtakes another.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ordered {
    there_ms: u64,
    back_ms: u64,
}

impl Ordered {
    /// After how many milliseconds a message arrives at the other end that takes so long by itself.
    pub fn there(&mut self, now_ms: u64, delay_ms: u64) -> u64 {
        self.there_ms = self.there_ms.max(now_ms + delay_ms);
        self.there_ms - now_ms
    }

    /// The same for a message that comes back.
    pub fn back(&mut self, now_ms: u64, delay_ms: u64) -> u64 {
        self.back_ms = self.back_ms.max(now_ms + delay_ms);
        self.back_ms - now_ms
    }

    /// Stalls it: nothing passes until then; nothing is lost.
    pub fn stall(&mut self, until_ms: u64) {
        (self.there_ms, self.back_ms) = (self.there_ms.max(until_ms), self.back_ms.max(until_ms));
    }
}

/// A connection of a node process to the coordinator's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Connection {
    pub node: usize,
    pub node_life: u64,
    /// The host of the coordinator, and its life.
    pub home: (usize, u64),
    pub is_open_at_node: bool,
    pub is_open_at_home: bool,
    /// Messages pass no more, and an end may not know.
    pub is_cut: bool,
    pub path: Ordered,
}

/// All connections that one side still holds.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    next: u64,
    pub open: BTreeMap<Peer, Connection>,
}

impl Connections {
    pub fn open(&mut self, (node, node_life): (usize, u64), home: (usize, u64)) -> Peer {
        self.next += 1;
        let (is_cut, path) = Default::default();
        let connection = Connection { node, node_life, home, is_open_at_node: true, is_open_at_home: true, is_cut, path };
        self.open.insert(Peer(self.next), connection);
        Peer(self.next)
    }

    /// Closes a side; forgets the connection when both have.
    pub fn close(&mut self, peer: Peer, at_node: bool) {
        if let Some(connection) = self.open.get_mut(&peer) {
            match at_node {
                true => connection.is_open_at_node = false,
                false => connection.is_open_at_home = false,
            }
            if !connection.is_open_at_node && !connection.is_open_at_home {
                self.open.remove(&peer);
            }
        }
    }
}
