//! The processor: its program, cache hits, misses to own memory, and what it hands to OPC.
//!
//! Loads block; one store waits for its block in the write buffer while loads go on, and further stores to that block merge.
use super::log::Part;
use super::{Answered, Block, Cluster, Event, Kind, Mesi, Op, Running};
use crate::papers::euphoria::bus;
use crate::papers::euphoria::flow::Cause;
use crate::papers::euphoria::timing::Access;
use crate::time::Picos;

impl Cluster {
    /// Runs a node's program until it must wait.
    pub(super) fn advance(&mut self, index: usize) {
        loop {
            let node = &mut self.nodes[index];
            if node.load.is_some() || node.is_computing {
                return;
            }
            node.is_blocked = false;
            let Some(op) = node.program.front().copied() else {
                if node.store.is_none() && node.finished.is_none() {
                    node.finished = Some(self.engine.now());
                }
                return;
            };
            if !self.try_op(index, op) {
                self.nodes[index].is_blocked = true;
                return;
            }
        }
    }

    /// Performs one operation; false where it must be tried again later.
    fn try_op(&mut self, index: usize, op: Op) -> bool {
        let is_done = match op {
            Op::Compute(cycles) => {
                self.nodes[index].is_computing = true;
                self.engine.schedule_in(self.timing.cpu(cycles), Event::Computed(index));
                true
            }
            Op::Read(block) => self.try_read(index, block),
            Op::Write(block) => self.try_write(index, block),
            Op::Sync => self.try_sync(index),
            Op::Signal(flag) => {
                let is_quiet = self.nodes[index].store.is_none();
                if is_quiet {
                    self.flags.insert(flag);
                    (0..self.nodes.len()).filter(|other| *other != index).for_each(|other| self.wake(other));
                }
                is_quiet
            }
            Op::Await(flag) => self.flags.contains(&flag),
        };
        if is_done {
            self.nodes[index].program.pop_front();
        }
        is_done
    }

    /// Lets a program that could not go on try again.
    pub(super) fn wake(&mut self, index: usize) {
        if self.nodes[index].is_blocked || self.nodes[index].program.is_empty() {
            self.engine.schedule(self.engine.now(), Event::Wake(index));
        }
    }

    fn try_read(&mut self, index: usize, block: Block) -> bool {
        let node = &mut self.nodes[index];
        if node.store == Some(block) {
            return false;
        }
        if node.cache.touch(block).is_none() {
            let access = self.start(index, block, Kind::Load);
            self.nodes[index].load = Some(access);
            self.miss(access);
        }
        true
    }

    fn try_write(&mut self, index: usize, block: Block) -> bool {
        let is_deferred = self.is_deferred;
        let node = &mut self.nodes[index];
        match (node.cache.touch(block), node.store) {
            (Some(Mesi::Modified), _) => {}
            (Some(Mesi::Exclusive), _) => node.cache.set_state(block, Mesi::Modified),
            (Some(Mesi::Shared), _) if is_deferred => {
                node.cache.set_state(block, Mesi::Modified);
                node.deferred.insert(block);
            }
            (_, Some(waiting)) => return waiting == block,
            (_, None) => {
                node.store = Some(block);
                let access = self.start(index, block, Kind::Store);
                self.miss(access);
            }
        }
        true
    }

    pub(super) fn start(&mut self, node: usize, block: Block, kind: Kind) -> usize {
        self.running.push(Running {
            node,
            block,
            kind,
            started: self.engine.now(),
            is_overtaken: false,
            was_overtaken: false,
            has_lock: false,
            awaited: 0,
            channel: None,
        });
        self.running.len() - 1
    }

    fn miss(&mut self, access: usize) {
        self.counts.misses += 1;
        let Running { node, block, .. } = self.running[access];
        if block.home() == node { self.access_own(access) } else { self.offer(access) }
    }

    /// Own memory: CK checks the directory; without copies elsewhere memory answers at once.
    // FEATURE: EU-F12 EU-F17
    pub(super) fn access_own(&mut self, access: usize) {
        let Running { node, block, kind, .. } = self.running[access];
        let holders = self.directory.get(&block).map(|entry| entry.holders(node, kind == Kind::Store)).unwrap_or_default();
        if holders.is_empty() && !self.locked.contains(&block) {
            let end = self.memory(access, "own memory", Access::BURST_READ);
            self.engine.schedule(end, Event::Own(access));
        } else {
            self.request_coherence(access);
        }
    }

    /// A checked access to own memory; returns when it answers.
    pub(super) fn memory(&mut self, access: usize, name: &'static str, kind: Access) -> Picos {
        let span = self.timing.bus(bus::response(&self.timing, kind, true));
        let node = self.running[access].node;
        let taken = self.nodes[node].bus.take(self.engine.now(), span);
        self.step(access, Part::Bus(node), name, Cause::Node, taken.start, span)
    }

    pub(super) fn on_own_answer(&mut self, access: usize) {
        let Running { node, block, kind, has_lock, .. } = self.running[access];
        let is_taken = self.directory.get(&block).is_some_and(|entry| !entry.holders(node, kind == Kind::Store).is_empty());
        if !has_lock && (is_taken || self.locked.contains(&block)) {
            // Another node's access was decided on meanwhile: CK has this one retried.
            self.access_own(access);
            return;
        }
        self.unlock(access);
        self.finish(access);
    }

    /// The block is in the cache: the processor goes on, and what the block drove out leaves.
    pub(super) fn finish(&mut self, access: usize) {
        let Running { node: index, block, kind, started, .. } = self.running[access];
        let state = self.state_after(index, block, kind);
        self.answered.push(Answered { node: index, block, start: started, end: self.engine.now() });
        let driven_out = self.nodes[index].cache.fill(block, state);
        if let Some((victim, Mesi::Modified)) = driven_out {
            self.cast_out(index, victim);
        }
        match kind {
            Kind::Load => self.nodes[index].load = None,
            _ => self.nodes[index].store = None,
        }
        self.advance(index);
    }

    fn state_after(&self, node: usize, block: Block, kind: Kind) -> Mesi {
        let is_elsewhere = self.directory.get(&block).is_some_and(|entry| !entry.holders(node, true).is_empty());
        match kind {
            Kind::Store => Mesi::Modified,
            // A remote reader is a sharer for the directory, which does not know its cache.
            _ if is_elsewhere || block.home() != node => Mesi::Shared,
            _ => Mesi::Exclusive,
        }
    }

    fn cast_out(&mut self, index: usize, victim: Block) {
        let access = self.start(index, victim, Kind::CastOut);
        if victim.home() == index {
            self.memory(access, "own write-back", Access::BURST_WRITE);
        } else {
            self.offer(access);
        }
    }
}
