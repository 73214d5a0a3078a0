//! A node's membership and lender, driven as its process drives them.

use super::*;
use crate::harness::due;

impl Cluster {
    pub(super) fn on_tick_node(&mut self, node: usize, life: u64) -> Check {
        let Some(process) = self.hosts[node].process.as_mut().filter(|process| process.life == life) else { return Ok(()) };
        process.tick_at = None;
        process.member.set_memory(process.lender.memory());
        process.member.tick(self.course.now_ms);
        self.drain_node(node)
    }

    pub(super) fn on_made(&mut self, node: usize, life: u64, order: u64, gid: Gid, lens: &[u64]) -> Check {
        let refuses = self.is_rough && self.dice.chance(200);
        let Some(process) = self.hosts[node].process.as_mut().filter(|process| process.life == life) else { return Ok(()) };
        let made = match refuses {
            true => Err(hanare_protocol::Error::System { what: "memfd_create".into(), reason: "too many open files".into() }),
            false => process.lender.make(gid, lens),
        };
        let (epoch, held) = (process.lender.epoch, made.clone().unwrap_or_default());
        process.member.made(order, made);
        self.granted(node, epoch, &held);
        self.drain_node(node)
    }

    pub(super) fn granted(&mut self, node: usize, epoch: Epoch, held: &[ReportedExtent]) {
        let Some((id, _)) = self.hosts[node].process.as_ref().and_then(|process| process.member.identity()) else { return };
        for extent in held {
            self.checks.on_granted(extent.read, id, epoch, extent.gid);
            self.checks.on_granted(extent.write, id, epoch, extent.gid);
        }
    }

    pub(super) fn on_regranted(&mut self, node: usize, life: u64, epoch: Epoch) -> Check {
        let Some(process) = self.hosts[node].process.as_mut().filter(|process| process.life == life) else { return Ok(()) };
        let held: Vec<ReportedExtent> = process.lender.extents.values().copied().collect();
        process.member.regranted(self.course.now_ms, epoch, held);
        self.drain_node(node)
    }

    /// Acts on all outputs of a node's membership.
    pub fn drain_node(&mut self, node: usize) -> Check {
        loop {
            let Some(process) = self.hosts[node].process.as_mut() else { return Ok(()) };
            let (life, connection) = (process.life, process.connection);
            let Some(output) = process.member.poll() else { break };
            match output {
                member::Output::Send(message) => {
                    if let Some(peer) = connection {
                        self.transmit(peer, Event::ToHome { peer, message });
                    }
                }
                member::Output::Make { order, gid, lens, .. } => {
                    let is_slow = self.is_rough && self.dice.chance(200);
                    let after = if is_slow { self.dice.between(1_000, 9_000) } else { self.dice.between(0, 20) };
                    self.at(after, Event::Made { node, life, order, gid, lens });
                }
                member::Output::Free { slots } => {
                    if self.course.has(Defect::FreeNothing) {
                        continue;
                    }
                    let freed = slots.iter().all(|slot| process.lender.extents.remove(slot).is_some());
                    check(freed, || format!("{} frees {slots:?}, of which it has not all", name(node)))?;
                }
                member::Output::NewEpoch { node: id, epoch, .. } => self.begin_epoch(node, life, id, epoch),
                member::Output::AskDone { request, result, .. } => self.on_answered(node, request, result)?,
                member::Output::Joined { node: id, epoch, .. } => self.note(format!("{} is {id} in {epoch}", name(node))),
                member::Output::NodeLost { .. } => self.count("nodes told that a node is lost"),
                member::Output::Refused(_) => self.count("joins refused"),
                // Locks and copies are simulated in worlds of their own.
                member::Output::Home(_)
                | member::Output::Holder { .. }
                | member::Output::Recall { .. }
                | member::Output::Recalled { .. }
                | member::Output::RecallAll => {}
            }
        }
        self.schedule_node(node);
        Ok(())
    }

    /// A node begins an epoch: grants of the old one fail from here on.
    pub(super) fn begin_epoch(&mut self, node: usize, life: u64, id: NodeId, epoch: Epoch) {
        self.count("epochs begun");
        let Some(process) = self.hosts[node].process.as_mut() else { return };
        if self.course.has(Defect::KeepGrants) {
            process.lender.epoch = epoch;
            return self.at(0, Event::Regranted { node, life, epoch });
        }
        for extent in process.lender.regrant(epoch) {
            self.checks.on_granted(extent.read, id, epoch, extent.gid);
            self.checks.on_granted(extent.write, id, epoch, extent.gid);
        }
        let after = self.dice.pick(&[0, 0, 5, 100]);
        self.at(after, Event::Regranted { node, life, epoch });
    }

    pub(super) fn schedule_node(&mut self, node: usize) {
        let Some(process) = self.hosts[node].process.as_mut() else { return };
        let life = process.life;
        if let Some(due) = due(process.member.next_deadline(), &mut process.tick_at, self.course.now_ms) {
            self.at(due, Event::TickNode { node, life });
        }
    }
}
