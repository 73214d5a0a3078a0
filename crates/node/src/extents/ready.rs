//! Extents that are made ready for copies on other nodes: nobody reaches them as they are any more, and their writes have an order.

use super::{Entry, Extents};
use hanare_protocol::id::{Gid, NodeId, Slot};
use hanare_protocol::page::direct_access::Standing;
use hanare_protocol::wire::control::ReportedExtent;
use hanare_protocol::{Error, Result};
use hanare_ring::lease::clients::LeasesOfClients;
use hanare_ring::thread_slots::ThreadSlots;
use std::sync::Arc;

/// Extents that are ready for copies.
#[derive(Debug)]
pub(crate) struct ReadyExtents {
    /// All that were asked for, in that order.
    pub reports: Vec<ReportedExtent>,
    /// Slots of those that were not ready before.
    pub new: Vec<Slot>,
}

impl Extents {
    /// Makes extents of a region ready for copies, all or none: direct access ends, and grants are new ones. `None` while earlier commands are
    /// under way. Then later ones are refused until another call, or [`Extents::cancel_ready`].
    ///
    /// **Cost**: where clients had direct access, a barrier in their threads. **Errors**: [`Error::BadUse`] for what keeps an extent from it, in
    /// words for the user.
    pub fn make_ready(&self, gid: Gid, slots: &[Slot]) -> Result<Option<ReadyExtents>> {
        self.try_ready(gid, slots).inspect_err(|_| self.cancel_ready(gid))
    }

    fn try_ready(&self, gid: Gid, slots: &[Slot]) -> Result<Option<ReadyExtents>> {
        let mut entries = self.write();
        let (node, mut is_quiet, mut new) = (entries.node, true, Vec::new());
        for slot in slots {
            let entry = entries.of_mut(gid, *slot).ok_or(Error::GrantRefused { gid, node })?;
            if entry.held.has_copies() {
                continue;
            }
            entry.may_be_ready()?;
            new.push(*slot);
            is_quiet &= entry.close(node, &self.thread_slots())?;
        }
        if !is_quiet {
            return Ok(None);
        }
        // All grants before the first change: what fails has changed nothing but grants.
        for slot in slots {
            entries.of_mut(gid, *slot).map_or(Ok(()), Entry::renew_grants)?;
        }
        for slot in &new {
            entries.of_mut(gid, *slot).into_iter().for_each(Entry::take_copies);
        }
        let report = |slot: &Slot| Some(entries.of(gid, *slot)?.report(slot.0 as usize));
        Ok(Some(ReadyExtents { reports: slots.iter().filter_map(report).collect(), new }))
    }

    /// Extents of a region are not made ready: they are as before.
    pub fn cancel_ready(&self, gid: Gid) {
        let mut entries = self.write();
        entries.slots.iter_mut().flatten().filter(|entry| entry.held.gid() == gid).for_each(|entry| entry.is_closed = false);
    }
}

impl Entry {
    /// Refuses what does not pass by itself.
    fn may_be_ready(&self) -> Result<()> {
        if self.shares > 0 || self.mappings > 0 {
            return self.refuse("hosts map it; let their programs unmap it");
        }
        if self.held.has_queues() {
            return self.refuse("queues lie in it, which have no copies; make them anew on another node, and remove these");
        }
        Ok(())
    }

    /// Ends the wait for commands under way. The look at them found nobody else who has the extent.
    fn take_copies(&mut self) {
        self.is_closed = false;
        if let Some(held) = Arc::get_mut(&mut self.held) {
            held.take_copies();
        }
    }

    fn refuse<T>(&self, reason: &str) -> Result<T> {
        Err(Error::BadUse { region: self.held.gid().to_string(), reason: reason.to_owned() })
    }

    /// Lets no command begin. Returns true if none is under way.
    fn close(&mut self, node: NodeId, clients: &LeasesOfClients<ThreadSlots>) -> Result<bool> {
        self.is_closed = true;
        match self.direct.take_back(self.held.gid(), clients.clients()) {
            Standing::Pinned(count) => {
                self.refuse(&format!("{count} programs of {node} have pointers to its memory; let them unmap it"))
            }
            Standing::Busy(_) => Ok(false),
            // A command keeps its extent.
            Standing::Free => Ok(Arc::strong_count(&self.held) == 1),
        }
    }
}
