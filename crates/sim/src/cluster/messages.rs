//! Messages between nodes and the coordinator, and connections that open and close.

use super::*;
use crate::network::Connection;
use hanare_protocol::versions::NEWEST;
use hanare_protocol::wire::copies::{FromHolder, ToHolder};

impl Cluster {
    pub(super) fn on_connect(&mut self, node: usize, life: u64) -> Check {
        let home = self.home_for(node);
        let Some(process) = self.process((node, life)) else { return Ok(()) };
        if process.connection.is_some() {
            return Ok(());
        }
        let Some(home) = home else {
            let after = self.dice.between(100, 500);
            self.at(after, Event::Connect { node, life });
            return Ok(());
        };
        let spoken = if self.course.has(Defect::SpeakNewest) { NEWEST } else { self.spoken_between(node, home.0) };
        let peer = self.connections.open((node, life), home);
        let now_ms = self.now_ms;
        if let Some(process) = self.process((node, life)) {
            (process.connection, process.heard_ms) = (Some(peer), now_ms);
            process.member.connected(now_ms, spoken);
        }
        self.drain_node(node)
    }

    /// The coordinator to which a node connects, if it reaches one.
    fn home_for(&mut self, node: usize) -> Option<ProcessLife> {
        let reaches = |at: usize| at == node || !(self.hosts[node].is_partitioned || self.hosts[at].is_stopped);
        if self.keepers.is_some() {
            return self.reign_for(node);
        }
        self.homes.iter().find(|(at, _)| reaches(**at)).map(|(at, home)| (*at, home.life))
    }

    /// Sends between a node and the coordinator; the coordinator's own node is not on the network.
    pub(super) fn transmit(&mut self, peer: Peer, event: Event) {
        let Some(connection) = self.connections.open.get(&peer).copied() else { return };
        if connection.node == connection.home.0 {
            return self.at(0, event);
        }
        let is_partitioned = |host: usize| self.hosts[host].is_partitioned;
        if is_partitioned(connection.node) || is_partitioned(connection.home.0) || connection.is_cut {
            return self.count("messages lost");
        }
        if self.terms != Terms::Harsh {
            return self.transmit_in_order(peer, event);
        }
        if self.deliver(|| event.clone()) == 1 {
            self.count("messages");
        }
    }

    /// The same over a connection that keeps order.
    fn transmit_in_order(&mut self, peer: Peer, event: Event) {
        let (now_ms, delay_ms) = (self.now_ms, self.delay_ms());
        let Some(connection) = self.connections.open.get_mut(&peer) else { return };
        let after = match &event {
            // A defect: the wish comes late.
            Event::ToHome { message: FromNode::Holder { message: FromHolder::Admit { .. }, .. }, .. }
                if self.course.has(Defect::AdmitDead) =>
            {
                self.course.dice.between(2_000, 4_000)
            }
            // The next copy, which takes the place of the wish's, is filled late.
            Event::ToNode { message: ToNode::Holder { message: ToHolder::Make { .. }, .. }, .. }
                if self.course.has(Defect::AdmitDead) =>
            {
                self.course.dice.between(2_000, 4_000)
            }
            Event::ToHome { .. } => connection.path.there(now_ms, delay_ms),
            _ => connection.path.back(now_ms, delay_ms),
        };
        self.count("messages");
        self.at(after, event);
    }

    pub(super) fn on_to_home(&mut self, peer: Peer, message: FromNode) -> Check {
        let is_open = |connection: &Connection| connection.is_open_at_home && !connection.is_cut;
        let Some((at, life)) = self.connections.open.get(&peer).filter(|it| is_open(it)).map(|connection| connection.home) else {
            return Ok(());
        };
        let message = if self.has(Defect::AdmitDead) { self.renewed(peer, message) } else { message };
        let message = self.as_newer(message);
        if let FromNode::UsedElsewhere(extents) = &message {
            self.hear_use(extents);
        }
        if self.homes.get(&at).is_some_and(|home| home.life == life) {
            self.judge_heard(at, &message)?;
        }
        let Some(home) = self.homes.get_mut(&at).filter(|home| home.life == life) else { return Ok(()) };
        if !matches!(message, FromNode::Renew { .. }) {
            let line = format!("coordinator <- {peer:?} {message:?}");
            home.coordinator.handle(self.course.now_ms, peer, message);
            self.note(line);
        } else {
            home.coordinator.handle(self.course.now_ms, peer, message);
        }
        self.drain_home(at)
    }

    pub(super) fn on_to_node(&mut self, peer: Peer, message: ToNode) -> Check {
        let Some(connection) =
            self.connections.open.get(&peer).copied().filter(|connection| connection.is_open_at_node && !connection.is_cut)
        else {
            return Ok(());
        };
        if let ToNode::ClientKnown { client, gone: true } = message {
            self.end_is_known(client);
        }
        if !matches!(message, ToNode::Renewed { .. }) {
            self.note(format!("{} <- {message:?}", name(connection.node)));
        }
        if let Some(process) = self.hosts[connection.node].process.as_mut().filter(|process| process.life == connection.node_life)
        {
            process.heard_ms = self.course.now_ms;
            process.member.handle(self.course.now_ms, message);
        }
        self.drain_node(connection.node)
    }

    pub(super) fn on_closed_at_home(&mut self, peer: Peer) -> Check {
        let Some((at, life)) = self.connections.open.get(&peer).map(|connection| connection.home) else { return Ok(()) };
        self.forget_release(peer);
        self.connections.close(peer, false);
        match self.homes.get_mut(&at).filter(|home| home.life == life) {
            Some(home) => home.coordinator.disconnected(self.course.now_ms, peer, "connection reset"),
            None => return Ok(()),
        }
        self.note(format!("coordinator: {peer:?} is closed"));
        self.drain_home(at)
    }

    pub(super) fn on_closed_at_node(&mut self, peer: Peer) -> Check {
        let Some(connection) = self.connections.open.get(&peer).copied() else { return Ok(()) };
        self.connections.close(peer, true);
        let (node, life) = (connection.node, connection.node_life);
        let Some(process) = self.hosts[node].process.as_mut().filter(|process| process.connection == Some(peer)) else {
            return Ok(());
        };
        process.connection = None;
        process.member.disconnected();
        if self.course.has(Defect::ForgetExtents) {
            process.lender.extents.clear();
        }
        let after = self.dice.between(10, 500);
        self.at(after, Event::Connect { node, life });
        self.drain_node(node)
    }
}
