//! Coherence between nodes: issue requests, dummy bus accesses, write-backs, results; and the deferred policy's batches.
//!
//! The deferred policy follows the authors' later protocol in outline: a store to a shared block does not wait for the
//! other copies; the stores of a phase merge and are invalidated together when the processor synchronises. Programs that
//! synchronise before they share see the same values.
use std::collections::BTreeSet;

use super::arbiter::Message;
use super::log::Part;
use super::{Block, Cluster, Event, Kind, Mesi, Running};
use crate::papers::euphoria::flow::Cause;
use crate::papers::euphoria::timing::Access;

impl Cluster {
    /// CK has the access retried and asks the arbiter for the coherence work of an access to own memory.
    // FEATURE: EU-F13
    pub(super) fn request_coherence(&mut self, access: usize) {
        let node = self.running[access].node;
        let check = self.timing.bus(self.timing.check);
        let checked = self.step(access, Part::Bus(node), "directory check, retry", Cause::Node, self.engine.now(), check);
        let travels = self.control(access, node, "coherence request") - self.engine.now();
        self.engine.schedule(checked + travels, Event::AtArbiter(Message::Coherence(access)));
    }

    /// The arbiter knows the entry: asks the holders that stand in the way, or grants.
    pub(super) fn decide(&mut self, access: usize) {
        let Running { node, block, kind, .. } = self.running[access];
        let holders = self.directory.get(&block).map(|entry| entry.holders(node, kind == Kind::Store)).unwrap_or_default();
        if holders.is_empty() {
            self.grant(access);
            return;
        }
        self.running[access].awaited = holders.len();
        for holder in holders {
            let arrives = self.control(access, holder, "issue request");
            self.engine.schedule(arrives, Event::Issue { node: holder, access });
        }
    }

    /// CK of a holder issues a dummy bus access; snooping finds the block dirty, clean, on its way out, or gone.
    pub(super) fn on_issue(&mut self, node: usize, access: usize) {
        self.counts.dummies += 1;
        let Running { block, kind, .. } = self.running[access];
        let span = self.timing.bus(self.timing.address_tenure + self.timing.check);
        let held = self.nodes[node].cache.state(block);
        match (held, kind) {
            (Some(_), Kind::Store) => {
                self.nodes[node].cache.remove(block);
            }
            (Some(_), _) => self.nodes[node].cache.set_state(block, Mesi::Shared),
            (None, _) => {}
        }
        let end = self.step(access, Part::Bus(node), "dummy access", Cause::Node, self.engine.now(), span);
        if held == Some(Mesi::Modified) {
            // OPC sends a block the arbiter asked for beside its processor's own access, or two nodes could wait for each other.
            let push = self.timing.bus(crate::papers::euphoria::bus::response(&self.timing, Access::BURST_WRITE, true));
            let pushed = self.step(access, Part::Bus(node), "snoop write-back", Cause::Node, end, push);
            let demanded = self.start(node, block, Kind::Demanded(access));
            let travels = self.control(demanded, node, "line request") - self.engine.now();
            self.engine.schedule(pushed + travels, Event::AtArbiter(Message::Line(demanded)));
        } else if self.is_departing(node, block) {
            self.nodes[node].departing.push((block, access));
        } else {
            let travels = self.control(access, node, "issue done") - self.engine.now();
            self.engine.schedule(end + travels, Event::AtArbiter(Message::Done(access)));
        }
    }

    fn is_departing(&self, node: usize, block: Block) -> bool {
        let leaves = |access: &usize| self.running[*access].kind == Kind::CastOut && self.running[*access].block == block;
        self.nodes[node].queued.iter().chain(&self.nodes[node].opc_busy).any(leaves)
    }

    /// A cast-out arrived at its home: whoever asked for the block meanwhile may go on.
    pub(super) fn answer_departed(&mut self, node: usize, block: Block) {
        let (answered, rest): (Vec<_>, Vec<_>) = self.nodes[node].departing.drain(..).partition(|entry| entry.0 == block);
        self.nodes[node].departing = rest;
        for (_, access) in answered {
            self.issue_done(node, access);
        }
    }

    pub(super) fn issue_done(&mut self, node: usize, access: usize) {
        let arrives = self.control(access, node, "issue done");
        self.engine.schedule(arrives, Event::AtArbiter(Message::Done(access)));
    }

    /// A holder has answered; the last answer grants the access.
    pub(super) fn on_done(&mut self, access: usize) {
        self.running[access].awaited -= 1;
        if self.running[access].awaited == 0 {
            self.clear_holders(access);
            self.grant(access);
        }
    }

    fn clear_holders(&mut self, access: usize) {
        let Running { block, kind, .. } = self.running[access];
        let entry = self.directory.entry(block).or_default();
        if kind == Kind::Store {
            entry.owner = None;
            entry.sharers.clear();
        } else if let Some(owner) = entry.owner.take() {
            entry.sharers.insert(owner);
        }
    }

    /// The directory learns that a node holds the block.
    pub(super) fn record_holder(&mut self, access: usize) {
        let Running { node, block, kind, .. } = self.running[access];
        let entry = self.directory.entry(block).or_default();
        if kind == Kind::Store {
            entry.owner = Some(node);
            entry.sharers.clear();
        } else {
            entry.sharers.insert(node);
        }
    }

    /// The result reached CK: the retried access passes.
    pub(super) fn on_result(&mut self, access: usize) {
        let update = self.timing.bus(self.timing.check);
        let node = self.running[access].node;
        self.step(access, Part::Bus(node), "directory update", Cause::Node, self.engine.now(), update);
        let end = self.memory(access, "retried access", Access::BURST_READ);
        self.engine.schedule(end, Event::Own(access));
    }

    /// A synchronisation sends the deferred stores as one request; false while it is not over.
    pub(super) fn try_sync(&mut self, index: usize) -> bool {
        let node = &self.nodes[index];
        if node.store.is_some() || node.batch_awaited > 0 {
            return false;
        }
        if node.deferred.is_empty() {
            return true;
        }
        self.nodes[index].batch_awaited = usize::MAX;
        let arrives = self.control(0, index, "deferred stores");
        self.engine.schedule(arrives, Event::AtArbiter(Message::Batch(index)));
        false
    }

    fn others_of_batch(&self, index: usize) -> BTreeSet<usize> {
        let blocks = self.nodes[index].deferred.iter();
        let others = blocks.filter_map(|block| self.directory.get(block)).flat_map(|entry| entry.holders(index, true));
        let homes = self.nodes[index].deferred.iter().map(|block| block.home()).filter(|home| *home != index);
        others.chain(homes).collect()
    }

    pub(super) fn on_batch(&mut self, index: usize) {
        self.counts.requests += 1;
        let others = self.others_of_batch(index);
        self.nodes[index].batch_awaited = others.len().max(1);
        if others.is_empty() {
            self.on_batch_done(index);
        }
        for node in others {
            let arrives = self.control(index, node, "batch of invalidations");
            self.engine.schedule(arrives, Event::IssueBatch { node, from: index });
        }
    }

    /// A node drops every block of a batch, one dummy access each.
    pub(super) fn on_issue_batch(&mut self, node: usize, from: usize) {
        let blocks: Vec<Block> = self.nodes[from].deferred.iter().copied().collect();
        let held = blocks.iter().filter(|block| self.nodes[node].cache.remove(**block).is_some()).count() as u64;
        self.counts.dummies += held;
        let span = self.timing.bus(self.timing.address_tenure + self.timing.check) * held;
        let end = self.step(from, Part::Bus(node), "dummy accesses", Cause::Node, self.engine.now(), span);
        let travels = self.control(from, node, "batch done") - self.engine.now();
        self.engine.schedule(end + travels, Event::AtArbiter(Message::BatchDone(from)));
    }

    pub(super) fn on_batch_done(&mut self, index: usize) {
        self.nodes[index].batch_awaited -= 1;
        if self.nodes[index].batch_awaited > 0 {
            return;
        }
        for block in std::mem::take(&mut self.nodes[index].deferred) {
            let entry = self.directory.entry(block).or_default();
            entry.sharers.clear();
            entry.owner = (block.home() != index).then_some(index);
        }
        let arrives = self.control(index, index, "synchronised");
        self.engine.schedule(arrives, Event::Synchronised(index));
    }

    pub(super) fn on_synchronised(&mut self, index: usize) {
        self.wake(index);
    }
}
