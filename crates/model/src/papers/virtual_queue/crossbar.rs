//! The network: a crossbar, so that only a node's own ports can be busy.
use super::machine::Machine;
use crate::station::Station;
use crate::time::Picos;

/// The ports of every node.
pub struct Crossbar {
    out: Vec<Station>,
    into: Vec<Station>,
    port_busy: Picos,
    word_busy: Picos,
    latency: Picos,
}

impl Crossbar {
    /// Idle ports of `nodes` nodes.
    pub fn new(machine: &Machine, nodes: usize) -> Crossbar {
        let ports = || (0..nodes).map(|_| Station::new()).collect();
        Crossbar {
            out: ports(),
            into: ports(),
            port_busy: machine.port_busy,
            word_busy: machine.word_busy,
            latency: machine.network_latency,
        }
    }

    /// A block from one node to another; returns when its last word is there.
    pub fn block(&mut self, now: Picos, from: usize, to: usize) -> Picos {
        let sent = self.out[from].take(now, self.port_busy);
        self.into[to].take(sent.start + self.latency, self.port_busy).end
    }

    /// A word (a request, an acknowledgement, a flag); it fits between blocks and waits for none.
    pub fn word(&self, now: Picos) -> Picos {
        now + self.word_busy + self.latency
    }
}
