//! Homes of pages whose bytes have copies. Their writes have a place in the order of writes. They come and go with the home of the extent.

use super::Pages;
use super::home::PageHome;
use super::memory::{NotShared, PageMemory};
use super::outgoing::Outgoing;
use super::routes::PageRoutes;
use hanare_protocol::copies::{MappingHost, PageTable};
use hanare_protocol::id::{Gid, NodeId, Slot};
use hanare_protocol::page::Consistency;
use hanare_protocol::page::membership::{Life, Over};
use hanare_protocol::wire::copies::ExtentWrite;
use hanare_protocol::wire::page::NodeMessage;
use hanare_protocol::{Error, Result};
use std::sync::Arc;

/// Memberships at homes that have gone to other nodes: hosts may speak of them for a while.
const SILENT_SHARE_COUNT: usize = 1024;

/// Lives of nodes that ended, as far as the next home of an extent wants to know.
const LIVES_OVER_COUNT: usize = 64;

/// A write of a region's pages, on its way to the copies.
pub(crate) struct WriteOfPages {
    pub gid: Gid,
    pub slot: Slot,
    /// Its number at the home of the pages.
    pub number: u64,
    pub write: ExtentWrite,
}

impl<M: PageMemory> Pages<M> {
    /// True if hosts map a region coherently whose pages lie here: its bytes are reached through its directory alone.
    pub fn is_coherent(&self, gid: Gid) -> bool {
        self.homes.get(&gid).is_some_and(|home| home.consistency() == Consistency::Coherent)
    }

    /// Regions with copies whose home is here, and that hosts map coherently.
    pub(crate) fn copied_homes(&self) -> Vec<(Gid, Slot)> {
        self.homes.iter().filter_map(|(gid, home)| Some((*gid, home.copied_slot()?))).collect()
    }

    /// The next write that goes to the copies; [`Pages::on_written`] follows.
    pub(crate) fn next_write(&mut self) -> Option<WriteOfPages> {
        self.homes.iter_mut().find_map(|(gid, home)| {
            let slot = home.copied_slot()?;
            let (number, write) = home.next_write()?;
            Some(WriteOfPages { gid: *gid, slot, number, write })
        })
    }

    /// All holders have a write, or it was refused.
    pub(crate) fn on_written(&mut self, gid: Gid, number: u64, outcome: Result<()>) {
        let mut outgoing = self.outbox();
        let Some(home) = self.homes.get_mut(&gid) else { return };
        home.on_written(number, outcome, &mut outgoing);
        while let Some(host) = home.next_lost() {
            if let Some((share, _)) = home.leave(host, true, &mut outgoing) {
                self.shares.remove(&share);
            }
        }
        while let Some(host) = home.next_left() {
            outgoing.messages.extend(home.on_handed_over(host, false));
        }
        self.post(outgoing);
        self.try_pending_joins();
        self.end_returns();
        self.let_leavers_go();
        self.drop_left_homes();
        self.settle();
    }

    /// Writes that were refused go again, and hosts that have given up are forgotten.
    pub(super) fn write_again(&mut self) {
        let (mut outgoing, waiting) = (self.outbox(), self.join_queue.iter().map(|pending| pending.join.key).collect());
        for home in self.homes.values_mut().filter(|home| home.waits_for_clock()) {
            home.forget_unjoined(&waiting);
            home.try_again(&mut outgoing);
        }
        self.post(outgoing);
    }

    /// Makes this node the home of pages: it has become that of their extent. Hosts that map it are asked for their pages.
    pub(crate) fn begin_home(&mut self, (gid, slot): (Gid, Slot), len: u64, table: &PageTable) {
        let Some((me, _)) = self.me else { return };
        let memory = match self.memory.open_home((gid, slot), me) {
            Ok(memory) => memory,
            Err(NotShared { error, .. }) => return tracing::error!("{gid}: its pages are not taken over: {error}"),
        };
        let parts = (PageRoutes::of_extent(me, slot, len), memory);
        let is_over = |host: &MappingHost| {
            let life = Life { epoch: host.epoch, process: Some(host.process) };
            self.lives_over.iter().any(|(node, over)| *node == host.node && life.is_over(*over))
        };
        let home = PageHome::of(gid, (gid.to_string(), Consistency::Coherent), parts, Vec::new());
        let mut home = home.in_place_of_another(table, is_over);
        self.number_writes(&mut home);
        self.shares.extend(home.shares().into_iter().map(|(share, host)| (share, (gid, host))));
        self.homes.insert(gid, home);
        self.ask_again();
        self.end_returns();
        self.settle();
    }

    /// Another node is the home of an extent: the next home speaks to the hosts. Commands that wait for pages go there. If the region was removed,
    /// hosts hear that it is not shared.
    pub(crate) fn end_home(&mut self, gid: Gid, was_removed: bool) {
        let Some(mut home) = self.homes.remove(&gid) else { return };
        let node = self.me.map_or(NodeId(0), |(me, _)| me);
        if !was_removed {
            self.silent_shares.extend(home.shares().into_iter().map(|(share, _)| share));
            let excess = self.silent_shares.len().saturating_sub(SILENT_SHARE_COUNT);
            self.silent_shares.drain(..excess);
        }
        // Their senders keep the pages until the next home has asked for them, and no longer.
        let patience_ms = if was_removed { 0 } else { self.answer_ms().saturating_mul(4) };
        let until_ms = self.now_ms().saturating_add(patience_ms);
        self.held_late.extend(home.arrivals().map(|arrival| (until_ms, arrival)));
        let unsent = |(share, page, message, bytes)| {
            let message = NodeMessage::ToHome { share, page, message };
            Arc::new(Outgoing { node, address: self.terms.address.clone(), message, bytes: Some(bytes) })
        };
        let local: Vec<Arc<Outgoing>> = home.take_local().into_iter().map(unsent).collect();
        self.keep_unsent(if was_removed { Vec::new() } else { local });
        self.shares.retain(|_, (of, _)| *of != gid);
        for face in self.recalls.of_region(gid) {
            let _ = self.recalls.give_up(face, |gid, _| Err(Error::GrantRefused { gid, node }));
        }
        self.settle();
    }

    /// Numbers the writes of a home that begins.
    pub(super) fn number_writes(&mut self, home: &mut PageHome<M::Pages>) {
        home.number_from(self.homes_begun << 32);
        self.homes_begun = self.homes_begun.wrapping_add(1);
    }

    /// Confirms messages to homes that have gone to other nodes, when those have what they brought.
    pub(super) fn let_late_go(&mut self) {
        let now_ms = self.now_ms();
        for (_, arrival) in self.held_late.extract_if(.., |(until_ms, _)| *until_ms <= now_ms) {
            self.wires.let_go(arrival);
        }
    }

    /// Notes lives of a node that are over: the next home of an extent does not wait for its host.
    pub(super) fn note_over(&mut self, node: NodeId, over: Over) {
        if over == Over::All {
            return;
        }
        if self.lives_over.len() >= LIVES_OVER_COUNT {
            self.lives_over.pop_front();
        }
        self.lives_over.push_back((node, over));
    }
}
