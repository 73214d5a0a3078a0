//! Leases of locks: the words that programs share with their nodes, the homes' questions, and the nodes' answers.

use super::{Cluster, Defect, Event, LockEvent, ProcessLife};
use crate::check::Check;
use hanare_home::Input;
use hanare_protocol::id::{ClientId, NodeId};
use hanare_protocol::lock::{Claimant, Recalled};
use hanare_ring::lease::table::Taking;

/// A lock as its home granted it to a program.
#[derive(Debug)]
pub(super) struct ProgramTaking {
    pub name: String,
    pub number: u64,
    pub link: u64,
    pub home: ProcessLife,
}

impl ProgramTaking {
    pub fn who(&self) -> Claimant {
        Claimant { link: self.link, number: self.number }
    }
}

impl Taking for ProgramTaking {
    /// A thread takes its locks in the order of their names, each once.
    fn is_mine(&self) -> bool {
        false
    }

    fn connection(&self) -> u128 {
        u128::from(self.link)
    }
}

impl Cluster {
    /// The time of leases, by the clock of all hosts.
    pub(super) fn now_ns(&self) -> u64 {
        self.now_ms * 1_000_000
    }

    /// Leases of the programs of a node hold as long as the node is a member.
    pub(in crate::cluster) fn hold_leases(&mut self, node: usize) {
        let (now_ms, now_ns) = (self.now_ms, self.now_ns());
        if let Some(process) = &mut self.hosts[node].process {
            let left_ms = process.member.leases_until_ms(now_ms).saturating_sub(now_ms);
            process.leases.hold_for(left_ms, now_ns);
        }
    }

    /// A home wants a lease back. Its node looks at words of its own programs itself, member or not.
    pub(super) fn ask_for_lease(&mut self, at: ProcessLife, client: ClientId, number: u64) -> Check {
        if !self.locks.asked.insert((at, client, number)) && self.has(Defect::AskOnce) {
            return Ok(());
        }
        self.count("recalls");
        let Some(process) = self.process(at) else { return Ok(()) };
        if process.member.identity().is_none_or(|(node, _)| node != client.node()) {
            process.member.recall_lock(client, number);
        } else if let Some(recalled) = self.look_at_lease(at, client, number)? {
            self.at(0, Event::Lock(LockEvent::Recalled { at, client, number, recalled }));
        }
        Ok(())
    }

    /// A home's question reaches a program's node.
    pub(in crate::cluster) fn on_recall(&mut self, at: ProcessLife, home: NodeId, client: ClientId, number: u64) -> Check {
        if let Some(recalled) = self.look_at_lease(at, client, number)?
            && let Some(process) = self.process(at)
        {
            process.member.recalled(home, client, number, recalled);
        }
        Ok(())
    }

    /// A node looks at a program's word.
    fn look_at_lease(&mut self, at: ProcessLife, client: ClientId, number: u64) -> Result<Option<Recalled>, String> {
        let (yields, buries, is_soft) = (self.has(Defect::YieldHeld), self.has(Defect::BuryKept), self.has(Defect::RecallSoftly));
        let Some(process) = self.process(at) else { return Ok(None) };
        let words = process.leases.clients().get(&client).map(|leases| leases.words().clone());
        words.iter().filter(|_| is_soft).for_each(|words| words.stop_after(0));
        let recalled = process.leases.recall(client, number);
        words.iter().for_each(|words| words.stop_after(usize::MAX));
        let recalled = match recalled {
            Some(Recalled::Held) if yields => Some(Recalled::Kept),
            Some(Recalled::Kept) if buries && words.is_none() => Some(Recalled::Held),
            recalled => recalled,
        };
        if let Some(recalled) = recalled {
            self.note(format!("host {} says of lock {number} of {client:?}: {recalled:?}", at.0));
            if let Some((home, who)) = self.locks.leases.get(&(client, number)).copied()
                && let Some(service) = self.locks.homes.get_mut(&home)
            {
                service.model.judge_answer(who, recalled)?;
            }
        }
        Ok(recalled)
    }

    /// A node's answer reaches the home.
    pub(in crate::cluster) fn on_lease_answer(
        &mut self,
        at: ProcessLife,
        client: ClientId,
        number: u64,
        recalled: Recalled,
    ) -> Check {
        if let Some((_, who)) = self.locks.leases.get(&(client, number)).copied().filter(|(home, _)| *home == at)
            && let Some(service) = self.locks.homes.get_mut(&at).filter(|service| service.model.has_lease(who))
        {
            service.model.on_recalled(who, recalled);
            self.count(if recalled == Recalled::Kept { "locks that were kept" } else { "locks that were held" });
        }
        self.tell(at, Input::LeaseAnswer { client, number, recalled })?;
        self.drain_node(at.0)
    }
}
