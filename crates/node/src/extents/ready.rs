//! Extents that are made ready for copies on other nodes: nobody reaches them as they are any more, and their writes have an order. And the way
//! back.

use super::{Entry, Extents};
use hanare_protocol::id::{Gid, NodeId, Slot};
use hanare_protocol::page::direct_access::Standing;
use hanare_protocol::wire::control::ReportedExtent;
use hanare_protocol::{Error, Result};
use hanare_ring::lease::clients::LeasesOfClients;
use hanare_ring::thread_slots::ThreadSlots;
use std::sync::Arc;

/// State of extents that are to be ready for copies, or not any more.
#[derive(Debug)]
pub(crate) enum Readiness {
    /// Commands are under way on them.
    Busy,
    /// The service alone has them: it is to let go of their order of writes.
    Quiet,
    /// All are as ordered.
    Changed(ReadyExtents),
}

/// Extents that are as ordered.
#[derive(Debug)]
pub(crate) struct ReadyExtents {
    /// All that were asked for, in that order.
    pub reports: Vec<ReportedExtent>,
}

impl Extents {
    /// Makes extents of a region ready for copies, all or none: direct access ends, and grants are new ones. If not `is_ready`, ends that. While
    /// others have them, commands that come are refused until another call, or [`Extents::cancel_ready`].
    ///
    /// **Cost**: where clients had direct access, a barrier in their threads. **Errors**: [`Error::BadUse`] for what keeps an extent from it, in
    /// words for the user.
    pub fn make_ready(&self, gid: Gid, slots: &[Slot], is_ready: bool) -> Result<Readiness> {
        self.try_ready(gid, slots, is_ready).inspect_err(|_| self.cancel_ready(gid))
    }

    fn try_ready(&self, gid: Gid, slots: &[Slot], is_ready: bool) -> Result<Readiness> {
        let mut entries = self.write();
        let (node, mut others, mut new) = (entries.node, 0, Vec::new());
        for slot in slots {
            let entry = entries.of_mut(gid, *slot).ok_or(Error::GrantRefused { gid, node })?;
            if entry.held.has_copies() == is_ready {
                continue;
            }
            match is_ready {
                true => entry.may_be_ready()?,
                false => entry.is_mapped_nowhere()?,
            }
            new.push(*slot);
            others = others.max(entry.close(node, &self.thread_slots())?);
        }
        match others {
            0 => {}
            1 if !is_ready => return Ok(Readiness::Quiet),
            _ => return Ok(Readiness::Busy),
        }
        // All grants before the first change: what fails has changed nothing but grants.
        for slot in slots {
            entries.of_mut(gid, *slot).map_or(Ok(()), Entry::renew_grants)?;
        }
        for slot in &new {
            entries.of_mut(gid, *slot).into_iter().for_each(|entry| entry.set_ready(is_ready));
        }
        let report = |slot: &Slot| Some(entries.of(gid, *slot)?.report(slot.0 as usize));
        Ok(Readiness::Changed(ReadyExtents { reports: slots.iter().filter_map(report).collect() }))
    }

    /// True if an extent of a region is ready for copies.
    pub fn has_copies(&self, gid: Gid, slot: Slot) -> bool {
        self.read().of(gid, slot).is_some_and(|entry| entry.held.has_copies())
    }

    /// Extents of a region are not made ready: they are as before.
    pub fn cancel_ready(&self, gid: Gid) {
        let mut entries = self.write();
        entries.slots.iter_mut().flatten().filter(|entry| entry.held.gid() == gid).for_each(|entry| entry.is_closed = false);
    }
}

impl Entry {
    /// Refuses an extent that hosts map coherent: with copies its pages go other ways than without.
    fn is_mapped_nowhere(&self) -> Result<()> {
        if self.shares > 0 { self.refuse("hosts map it coherent; let their programs unmap it") } else { Ok(()) }
    }

    /// Refuses what does not pass by itself.
    fn may_be_ready(&self) -> Result<()> {
        self.is_mapped_nowhere()?;
        if self.mappings > 0 {
            return self
                .refuse("programs map it that cannot follow it: of an older release, or of too many extents; let them unmap it");
        }
        if self.held.uses_queues() {
            return self.refuse(
                "programs use queues in it, or units of these are spilled; let them leave, or make such queues anew with copies",
            );
        }
        if self.held.has_lost_heap() {
            return self.refuse("a heap lies in it whose table was not on disk; copy its bytes to a new region");
        }
        if self.held.has_restored_queues() {
            return self.refuse("queues lie in it that were read back from disk; make them anew with copies, and remove these");
        }
        Ok(())
    }

    /// Ends the wait for commands under way. The look at them found nobody else who has the extent.
    fn set_ready(&mut self, is_ready: bool) {
        self.is_closed = false;
        match Arc::get_mut(&mut self.held) {
            Some(held) if is_ready => held.take_copies(),
            Some(held) => held.end_copies(),
            None => {}
        }
    }

    fn refuse<T>(&self, reason: &str) -> Result<T> {
        Err(Error::BadUse { region: self.held.gid().to_string(), reason: reason.to_owned() })
    }

    /// Lets no command begin. Returns the number of those that have the extent: commands under way, and the service for its order of writes.
    fn close(&mut self, node: NodeId, clients: &LeasesOfClients<ThreadSlots>) -> Result<usize> {
        self.is_closed = true;
        match self.direct.take_back(self.held.gid(), clients.clients()) {
            Standing::Pinned(count) => {
                self.refuse(&format!("{count} programs of {node} have pointers to its memory; let them unmap it"))
            }
            Standing::Busy(_) => Ok(usize::MAX),
            // A command keeps its extent.
            Standing::Free => Ok(Arc::strong_count(&self.held).saturating_sub(1)),
        }
    }
}
