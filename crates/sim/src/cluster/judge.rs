//! Invariants after every event, and at the end.

use super::*;
use hanare_protocol::Error;
use hanare_protocol::coordinator::AskKey;
use hanare_protocol::wire::copies::ToHolder;

impl Cluster {
    /// A coordinator says something that it decided then.
    pub(super) fn judge_message(&mut self, peer: Peer, message: &ToNode, decided_ms: u64) -> Check {
        self.judge_told(peer, message, decided_ms)?;
        self.judge_order(peer, message, decided_ms)?;
        match message {
            ToNode::Welcome { node, epoch, .. } => self.checks.on_welcome(*node, *epoch),
            ToNode::Reply { request, result } => {
                let Some(incarnation) = self.asker(peer) else { return Ok(()) };
                let key = AskKey { incarnation, request: *request };
                match result {
                    Ok(answer) => self.checks.on_answer(key, answer, decided_ms),
                    Err(Error::TenantRefused { .. }) => self.checks.on_key_refused(key),
                    Err(_) => Ok(()),
                }
            }
            ToNode::Holder {
                extent, message: ToHolder::Elect { set, .. } | ToHolder::Set(set) | ToHolder::Release(set), ..
            } => self.keepers.as_mut().map_or(Ok(()), |keepers| keepers.on_told(*extent, set)),
            _ => Ok(()),
        }
    }

    /// The node's life at the other end of a connection.
    fn asker(&self, peer: Peer) -> Option<Incarnation> {
        let connection = self.connections.open.get(&peer)?;
        let process = self.hosts[connection.node].process.as_ref()?;
        (process.life == connection.node_life).then_some(process.incarnation)
    }

    /// After every event: the coordinator's state against the model.
    pub(super) fn is_true(&self) -> Check {
        let Some(home) = self.home() else { return Ok(()) };
        let holds = |node: NodeId, life: Incarnation, slot, gid, len| {
            let process = self.hosts.iter().filter_map(|host| host.process.as_ref());
            let mut of_life = process.filter(|process| process.incarnation == life && self.is_node(process, node));
            of_life.all(|process| process.lender.extents.get(&slot).is_some_and(|extent| (extent.gid, extent.len) == (gid, len)))
        };
        // The model knows what is committed, and the coordinator what it has appended.
        if self.is_settled(home) {
            self.checks.on_settled(&home.coordinator, QUOTA, holds)?;
        }
        self.judge_bounds()
    }

    pub(super) fn is_node(&self, process: &Process, node: NodeId) -> bool {
        process.member.identity().is_none_or(|(id, _)| id == node)
    }

    /// At the end: nothing is left over.
    pub(super) fn is_at_rest(&self) -> Check {
        self.programs.judge_rest()?;
        self.judge_words()?;
        self.judge_queues()?;
        self.judge_releases()?;
        self.judge_tenants()?;
        self.judge_locks_at_rest()?;
        self.judge_entries()?;
        let home = self.home().ok_or("the coordinator is not back")?;
        check(home.coordinator.ask_count() <= 64, || format!("{} requests are remembered", home.coordinator.ask_count()))?;
        let replayed: Vec<_> = self.replayed().regions().cloned().collect();
        let live: Vec<_> = home.coordinator.regions().cloned().collect();
        check(replayed == live, || {
            let other = replayed.iter().zip(&live).find(|(replayed, live)| replayed != live);
            format!("the journal restores other regions, as {other:?}")
        })?;
        for (node, host) in self.hosts.iter().enumerate() {
            let process = host.process.as_ref().ok_or_else(|| format!("{} is not back", name(node)))?;
            check(process.member.phase() == member::Phase::Member, || format!("{} is no member", name(node)))?;
            check(process.member.ask_count() == 0, || format!("{} has requests without an answer", name(node)))?;
            self.judge_shortage(process)?;
            let id = process.member.identity().ok_or_else(|| format!("{} has no number", name(node)))?.0;
            let holds: std::collections::BTreeSet<_> =
                process.lender.extents.values().map(|extent| (extent.slot, extent.gid)).collect();
            let should = self.checks.extents_on(id, process.incarnation);
            check(holds == should, || format!("{} holds {holds:?}, and regions have {should:?}", name(node)))?;
        }
        Ok(())
    }

    pub(super) fn replayed(&self) -> Coordinator {
        let records = self.keepers.as_ref().map_or(&self.journal.records[..], |keepers| keepers.truth.records());
        Coordinator::restore(coordinator::Settings::new(&name(self.home_at)), records.iter().cloned(), self.now_ms)
    }
}
