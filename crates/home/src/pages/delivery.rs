//! Messages between homes and hosts: what each comes to, and how they leave.

use super::Pages;
use super::home::PageHome;
use super::host::{PageHost, PeerHost};
use super::memory::{PageBytes, PageMemory};
use super::outgoing::{Outbox, Outgoing};
use super::request::HostKey;
use hanare_protocol::Result;
use hanare_protocol::id::{Incarnation, NodeId};
use hanare_protocol::page::{Face, HostId, HostOutput, Page, ToHome, ToHost};
use hanare_protocol::wire::page::NodeMessage;
use std::collections::BTreeSet;

impl<M: PageMemory> Pages<M> {
    /// All messages of this node to itself, what they want taken, and what comes of that.
    pub(super) fn settle(&mut self) {
        self.settle_but(None);
    }

    /// The same while a stage asks for its pages, which is told by the answer to that.
    pub(super) fn settle_but(&mut self, asking: Option<Face>) {
        loop {
            while let Some(Outgoing { node, message, bytes, .. }) = self.local.pop_front() {
                self.on_node_message((node, self.terms.life), message, bytes);
            }
            if self.take() {
                continue;
            }
            self.hear_of_recalls(asking);
            if self.local.is_empty() {
                return;
            }
        }
    }

    pub(super) fn on_node_message(
        &mut self,
        (from, life): (NodeId, Incarnation),
        message: NodeMessage,
        bytes: Option<PageBytes>,
    ) {
        let outcome = match message {
            join @ (NodeMessage::Join(_) | NodeMessage::JoinFollowing(_)) => {
                self.on_join(from, life, join);
                Ok(())
            }
            NodeMessage::Joined { key, result } => {
                self.on_joined(key, (from, life), result);
                Ok(())
            }
            NodeMessage::Returned { key, share, address, takes } => {
                self.on_returned((from, life, &address), (key, share), takes);
                Ok(())
            }
            NodeMessage::Leave { share } => {
                self.on_leave(share);
                Ok(())
            }
            NodeMessage::Forgot { share } => {
                self.on_forgot(share);
                self.say_not_shared(from, share)
            }
            NodeMessage::NotShared { share } => self.on_not_shared(from, share),
            NodeMessage::Left { key } => {
                self.on_left(key);
                Ok(())
            }
            NodeMessage::Introduce { key, host, node, address, its_key } => {
                if let Some((to, home)) = self.keys.get(&key).copied()
                    && let Some(known) = self.hosts.get_mut(&to)
                {
                    known.homes[home].peers.insert(host, PeerHost { node, address, key: its_key });
                }
                Ok(())
            }
            NodeMessage::ToHome { share, page, message } => {
                let told = self
                    .with_home(share, |home, host, outgoing| home.on_message(host, page, message, bytes.as_deref(), outgoing));
                told.unwrap_or_else(|| self.say_not_shared(from, share))
            }
            NodeMessage::ToHost { key, page, message } => self.on_message_to_host((key, page), message, bytes),
            NodeMessage::Flush { share, number, count } => self.on_flush(from, share, (number, count)),
            NodeMessage::Flushed { key, number, result } => {
                self.on_flushed(key, number, result);
                Ok(())
            }
            NodeMessage::HostGone { key } => {
                if let Some((to, home)) = self.keys.get(&key).copied() {
                    self.with_host(to, |host, outputs| host.on_host_gone(home, outputs));
                }
                Ok(())
            }
        };
        if let Err(error) = outcome {
            tracing::warn!("{from} about pages: {error}");
        }
    }

    fn on_message_to_host(&mut self, (key, page): (u64, Page), message: ToHost, bytes: Option<PageBytes>) -> Result<()> {
        let (mut outcome, now_us) = (Ok(()), self.now_us());
        match self.keys.get(&key).copied() {
            Some((to, home)) => {
                self.with_host(to, |host, outputs| {
                    outcome = host.on_message((home, page), message, bytes, now_us, outputs);
                });
                self.look_at_holds(to);
            }
            None => self.give_straight_back(key, page, &message, bytes),
        }
        outcome
    }

    /// A host has sent all pages of a flush.
    fn on_flush(&mut self, from: NodeId, share: u64, flush: (u64, u64)) -> Result<()> {
        let told = self.with_home(share, |home, host, outgoing| {
            home.on_flush(host, flush, outgoing);
            Ok(())
        });
        told.unwrap_or_else(|| self.say_not_shared(from, share))
    }

    /// Runs `with` on the home that a share is for, and sends what comes of it. `None` where the share is over.
    pub(super) fn with_home(
        &mut self,
        share: u64,
        with: impl FnOnce(&mut PageHome<M::Pages>, HostId, &mut Outbox) -> Result<()>,
    ) -> Option<Result<()>> {
        let (gid, host) = self.shares.get(&share).copied()?;
        let mut outgoing = self.outbox();
        let home = self.homes.get_mut(&gid)?;
        let outcome = with(home, host, &mut outgoing);
        self.post(outgoing);
        Some(outcome)
    }

    pub(super) fn with_host(
        &mut self,
        key: HostKey,
        with: impl FnOnce(&mut PageHost<M::Frames>, &mut Vec<HostOutput<PageBytes>>),
    ) {
        let now_ms = self.now_ms();
        let Some(host) = self.hosts.get_mut(&key) else { return };
        let mut outputs = Vec::new();
        with(host, &mut outputs);
        let is_left = host.part_stuck(&mut outputs) && host.is_unused();
        if host.is_given_up() || is_left {
            // The homes must not wait for what it does not know any more.
            host.sharing.give_up(now_ms);
        }
        self.send_outputs(key, outputs);
    }

    /// Messages of a host to its homes, and to other hosts.
    fn send_outputs(&mut self, key: HostKey, outputs: Vec<HostOutput<PageBytes>>) {
        let (mut unheard, mut has_sent) = (BTreeSet::new(), false);
        for output in outputs {
            let Some(host) = self.hosts.get(&key) else { return };
            let (node, address, message, bytes) = match output {
                HostOutput::Home { page, message, bytes } => {
                    let home = host.home_of_page(page);
                    let asks = matches!(message, ToHome::Request { .. });
                    let share = host.sharing.share(home).filter(|_| !asks || !host.awaits_home());
                    let (route, Some(share)) = (&host.homes[home], share) else {
                        unheard.extend(asks.then_some(home));
                        continue;
                    };
                    let sent = (route.node, route.address.clone(), NodeMessage::ToHome { share, page, message }, bytes);
                    has_sent |= matches!(message, ToHome::WriteBack { .. });
                    sent
                }
                HostOutput::Flush { home, number, count } => {
                    // A home that begins anew gets all pages, the flush's among them.
                    let (route, Some(share)) = (&host.homes[home], host.sharing.share(home)) else { continue };
                    (route.node, route.address.clone(), NodeMessage::Flush { share, number, count }, None)
                }
                HostOutput::Host { to, page, message, bytes } => {
                    let Some(peer) = host.homes[host.home_of_page(page)].peers.get(&to) else { continue };
                    (peer.node, peer.address.clone(), NodeMessage::ToHost { key: peer.key, page, message }, bytes)
                }
            };
            self.send(Outgoing { node, address, message, bytes });
        }
        // A request in a dead thread's name has no reply where the membership is over. Its claim would stay for ever.
        if let Some(host) = self.hosts.get_mut(&key) {
            host.flushes.has_sent |= has_sent;
            unheard.into_iter().for_each(|home| host.fail_claims(home));
        }
    }

    /// An empty outbox for an event of this moment.
    pub(super) fn outbox(&self) -> Outbox {
        Outbox { now_us: self.now_us(), messages: Vec::new(), heard: self.hearing, holds: false, let_go: Vec::new() }
    }

    pub(super) fn post(&mut self, outbox: Outbox) {
        outbox.heard.filter(|_| outbox.holds).into_iter().for_each(|arrival| self.wires.hold(arrival));
        outbox.let_go.iter().for_each(|arrival| self.wires.let_go(*arrival));
        self.send_all(outbox.messages);
    }

    pub(super) fn send_all(&mut self, outgoing: impl IntoIterator<Item = Outgoing>) {
        outgoing.into_iter().for_each(|outgoing| self.send(outgoing));
    }

    pub(super) fn send(&mut self, outgoing: Outgoing) {
        let outgoing = match &mut self.open_reply {
            Some(reply) => reply.keep(outgoing),
            None => Some(outgoing),
        };
        let Some(outgoing) = outgoing else { return };
        let node = outgoing.node;
        if outgoing.message.has_bytes() && outgoing.bytes.is_none() {
            // Whoever waits for it is told by its bound: bytes are not made up.
            return tracing::error!("a page for {node} could not be read, and is not sent");
        }
        if self.me.is_some_and(|(me, _)| me == node) {
            return self.local.push_back(outgoing);
        }
        let now_ms = self.now_ms();
        self.wires.send(outgoing, now_ms, &mut self.outputs);
    }
}
