//! A node's membership and lender, driven as its process drives them.

use super::process::{ProcessLife, ReadyOrder};
use super::*;
use crate::harness::due;
use hanare_home::{CopyInput, Input, PageInput};
use hanare_protocol::error::Error;
use hanare_protocol::page::membership::Over;
use hanare_protocol::wire::control::NodeAddress;
use hanare_protocol::wire::copies::ToHolder;

impl Cluster {
    pub(super) fn on_tick_node(&mut self, node: usize, life: u64) -> Check {
        let Some(process) = self.hosts[node].process.as_mut().filter(|process| process.life == life) else { return Ok(()) };
        process.tick_at = None;
        process.member.set_memory(process.lender.memory());
        process.member.tick(self.course.now_ms);
        self.leave_silent(node)?;
        self.drain_node(node)
    }

    pub(super) fn on_made(&mut self, (node, life): ProcessLife, order: u64, gid: Gid, lens: &[u64], copied: Copied) -> Check {
        let refuses = self.is_rough && self.dice.chance(200);
        let Some(process) = self.hosts[node].process.as_mut().filter(|process| process.life == life) else { return Ok(()) };
        let made = match refuses {
            true => Err(hanare_protocol::Error::System { what: "memfd_create".into(), reason: "too many open files".into() }),
            false => process.lender.make(gid, lens, copied.is_some()),
        };
        let (epoch, held) = (process.lender.epoch, made.clone().unwrap_or_default());
        if let (Some((extent, set)), [made]) = (copied, &held[..]) {
            self.tell((node, life), CopyInput::Made { extent, set, order, slot: made.slot })?;
        }
        if let Some(process) = self.process((node, life)) {
            process.member.made(order, made);
        }
        self.granted(node, epoch, &held);
        self.drain_node(node)
    }

    /// Commands that were under way have ended.
    pub(super) fn on_quiet(&mut self, at: ProcessLife, order: u64) -> Check {
        let refuses = self.is_rough && self.dice.chance(200);
        let Some(process) = self.process(at) else { return Ok(()) };
        let Some(place) = process.readying.iter().position(|ready| ready.order == order) else { return Ok(()) };
        let first = process.readying[place].extents.first();
        let waits = process.readying[..place].iter().any(|before| before.extents.first() == first);
        let slots = process.readying[place].extents.iter().map(|(_, slot)| *slot);
        if waits || process.lender.is_in_use(slots) {
            // Orders on one region are carried out in turn, and wait for commands.
            self.at(10, Event::Quiet { at, order });
            return Ok(());
        }
        let ReadyOrder { set, extents, .. } = process.readying.remove(place);
        let slots = extents.iter().map(|(_, slot)| *slot);
        let ready = if refuses { None } else { process.lender.make_ready(slots, set.is_some()) };
        let Some(ready) = ready else {
            process.lender.reopen();
            process.member.made_ready(order, Err(not_ready()));
            return self.drain_node(at.0);
        };
        self.count(if set.is_some() { "extents made ready for copies" } else { "extents that have no copies any more" });
        for ((extent, slot), (_, is_new)) in extents.into_iter().zip(&ready) {
            match &set {
                Some(set) => self.tell(at, CopyInput::Made { extent, set: set.clone(), order, slot })?,
                None if *is_new => self.tell(at, CopyInput::Ended { extent })?,
                None => {}
            }
        }
        let reports: Vec<ReportedExtent> = ready.into_iter().map(|(report, _)| report).collect();
        let Some(process) = self.process(at) else { return Ok(()) };
        let epoch = process.lender.epoch;
        process.member.made_ready(order, Ok(reports.clone()));
        self.granted(at.0, epoch, &reports);
        self.drain_node(at.0)
    }

    /// The node joins anew: nothing is made ready meanwhile.
    fn cancel_ready(&mut self, at: ProcessLife) {
        let Some(process) = self.process(at) else { return };
        process.lender.reopen();
        for ready in std::mem::take(&mut process.readying) {
            process.member.made_ready(ready.order, Err(not_ready()));
        }
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
                    if let Some(peer) = connection.filter(|_| !self.is_forgotten(&message)) {
                        self.transmit(peer, Event::ToHome { peer, message });
                    }
                }
                member::Output::Make { order, gid, lens, copied } => {
                    let is_slow = self.is_rough && self.dice.chance(200);
                    let after = if is_slow { self.dice.between(1_000, 9_000) } else { self.dice.between(0, 20) };
                    self.at(after, Event::Made { node, life, order, gid, lens, copied });
                }
                member::Output::MakeReady { order, set, extents, .. } => {
                    process.lender.close(extents.iter().map(|(_, slot)| *slot));
                    process.readying.push(ReadyOrder { order, set, extents });
                    let after = self.dice.between(0, 500);
                    self.at(after, Event::Quiet { at: (node, life), order });
                }
                member::Output::Free { slots } => {
                    if self.course.has(Defect::FreeNothing) {
                        continue;
                    }
                    let freed = process.lender.free(&slots);
                    check(freed, || format!("{} frees {slots:?}, of which it has not all", name(node)))?;
                    self.forget_uses((node, life), &slots);
                    self.tell((node, life), Input::Freed)?;
                }
                member::Output::NewEpoch { node: id, epoch, .. } => {
                    self.cancel_ready((node, life));
                    self.tell((node, life), PageInput::Identity { node: id, epoch })?;
                    self.begin_epoch(node, life, id, epoch);
                }
                member::Output::AskDone { request, result, .. } => self.on_answered(node, request, result)?,
                member::Output::Joined { node: id, epoch, .. } => {
                    self.cancel_ready((node, life));
                    self.note(format!("{} is {id} in {epoch}", name(node)));
                    self.tell((node, life), Input::Member(true))?;
                }
                member::Output::Holder { extent, nodes, message } => {
                    let was_home = process.served.home_slot(extent).is_some();
                    self.on_holder((node, life), extent, (nodes, message), was_home)?;
                }
                member::Output::RecallAll => {
                    process.leases.recall_all();
                    self.cancel_ready((node, life));
                    if !self.has(Defect::GiveUpUnheard) {
                        self.tell((node, life), Input::Member(false))?;
                    }
                }
                member::Output::NodeLost { node: lost, epoch, .. } => {
                    process.leases.recall_words();
                    self.count("nodes told that a node is lost");
                    self.tell((node, life), PageInput::NodeLost { node: lost, over: Over::UpTo(epoch) })?;
                }
                member::Output::Recall { client, number, home } => self.on_recall((node, life), home, client, number)?,
                member::Output::Recalled { client, number, recalled } => {
                    self.on_lease_answer((node, life), client, number, recalled)?;
                }
                member::Output::Refused(error) => self.on_refused((node, life), &error),
                member::Output::Home(_) => {}
            }
        }
        self.hold_leases(node);
        self.schedule_node(node);
        self.turn_names(node)
    }

    /// The coordinator says something about an extent: copies that are none any more are not doubted.
    fn on_holder(
        &mut self,
        at: ProcessLife,
        of: CopiedExtent,
        (nodes, message): (Vec<NodeAddress>, ToHolder),
        was_home: bool,
    ) -> Check {
        match &message {
            ToHolder::Elect { has, .. } if !has.is_empty() => self.count("homes elected with copies"),
            ToHolder::Elect { .. } => self.count("homes told of their sets"),
            ToHolder::Set(set) => {
                if let Some(process) = self.process(at) {
                    process.doubted.retain(|(extent, copy)| *extent != of || set.copies.contains(copy));
                }
            }
            ToHolder::Release { .. } => self.count("homes asked to stop for another"),
            ToHolder::Freeze { .. } | ToHolder::Make { .. } => {}
        }
        let elected = if let ToHolder::Elect { stopped, .. } = message { Some(stopped).filter(|_| !was_home) } else { None };
        self.tell(at, CopyInput::Holder { extent: of, nodes, message })?;
        if let Some(stopped) = elected {
            self.judge_home(at, of, !stopped);
        }
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

fn not_ready() -> Error {
    Error::BadUse { region: "of the simulator".to_owned(), reason: "programs use it".to_owned() }
}
