//! Extents that hosts map: from here on they are reached through their pages alone.

use super::{ExtentFiles, Extents};
use crate::extent::NodeExtent;
use hanare_home::NotShared;
use hanare_protocol::Error;
use hanare_protocol::id::{Gid, Grant, Rights, Slot};
use hanare_protocol::page::direct_access::Standing;
use std::sync::Arc;

impl Extents {
    /// From here on an extent is reached through its pages alone, until [`Extents::unshare`]. Clients lose the right to reach it as it is.
    ///
    /// **Cost**: where clients had the right, a barrier in their threads. **Errors**: [`Error::GrantRefused`]; [`Error::BadUse`] where clients
    /// gave out pointers, or programs use queues of an extent with copies. It passes while commands that began before are under way: those that
    /// come after are done by pages, until [`Extents::cancel_share_wait`]. Of an extent with copies there are no files: all hosts have frames.
    pub fn share(&self, gid: Gid, slot: Slot, grant: Grant) -> Result<(Arc<NodeExtent>, ExtentFiles), NotShared> {
        let mut entries = self.write();
        let node = entries.node;
        let entry = entries.of_mut(gid, slot).filter(|entry| entry.allows(grant).is_some() && !entry.is_closed);
        let entry = entry.ok_or(Error::GrantRefused { gid, node })?;
        let bad_use = |reason: String| Error::BadUse { region: gid.to_string(), reason };
        let has_copies = entry.held.has_copies();
        if has_copies && entry.held.uses_queues() {
            return Err(bad_use(
                "programs use queues in it; map it explicit or entry, or make the queues in another region".to_owned(),
            )
            .into());
        }
        if !has_copies {
            self.check_gives_files(gid)?;
        }
        entry.is_wanted = true;
        match entry.direct.take_back(gid, self.thread_slots().clients()) {
            Standing::Free => {}
            Standing::Pinned(count) => {
                let reason =
                    format!("{count} program(s) of {node} have pointers to its memory as it is; let them unmap it first");
                return Err(bad_use(reason).into());
            }
            Standing::Busy(count) => {
                let reason =
                    format!("{count} program(s) of {node} do not end a command that they began on its memory; see to them");
                return Err(NotShared::passing(bad_use(reason)));
            }
        }
        if entry.shares == 0 && entry.held.is_written() {
            let reason = format!("{node} has commands on it under way that do not end; see to the programs that began them");
            return Err(NotShared::passing(bad_use(reason)));
        }
        entry.shares += 1;
        let held = entry.held.clone();
        drop(entries);
        if has_copies {
            return Ok((held, Vec::new()));
        }
        let files = held.with_own_file(|extent| extent.files(Rights::Write));
        if files.is_err() {
            self.unshare(slot, &held);
        }
        Ok((held, files?))
    }

    /// From here on an extent with copies is reached through its pages alone, until [`Extents::unshare`]: hosts map it, and its home was elsewhere.
    pub fn share_home(&self, gid: Gid, slot: Slot) -> Result<Arc<NodeExtent>, NotShared> {
        let mut entries = self.write();
        let node = entries.node;
        let entry = entries.of_mut(gid, slot).filter(|entry| entry.held.has_copies()).ok_or(Error::GrantRefused { gid, node })?;
        entry.shares += 1;
        Ok(entry.held.clone())
    }

    /// Ends the wait to share an extent: it is shared, or given up. The slot may be another region's by now.
    pub fn cancel_share_wait(&self, gid: Gid, slot: Slot) {
        if let Some(entry) = self.write().of_mut(gid, slot) {
            entry.is_wanted = false;
        }
    }

    /// Removes one home. After the last the extent has all accesses again. The slot of a removed region may have another extent.
    pub fn unshare(&self, slot: Slot, held: &Arc<NodeExtent>) {
        if let Some(entry) = self.write().of_mut(held.gid(), slot).filter(|entry| Arc::ptr_eq(&entry.held, held)) {
            entry.shares = entry.shares.saturating_sub(1);
        }
    }

    /// Hosts map an extent of a region, and get and put its pages by commands, until [`Extents::forget_mapping`]. Not all of their programs would
    /// follow it to another node.
    ///
    /// **Errors**: [`Error::BadUse`] for one with copies: nobody tells such a mapping where its next home is.
    pub fn note_mapping(&self, gid: Gid, slot: Slot) -> Result<(), NotShared> {
        let mut entries = self.write();
        let node = entries.node;
        let entry = entries.of_mut(gid, slot).filter(|entry| !entry.is_closed).ok_or(Error::GrantRefused { gid, node })?;
        if entry.held.has_copies() {
            let reason = "it has got copies since it was opened; open it again, and map it anew".to_owned();
            return Err(Error::BadUse { region: gid.to_string(), reason }.into());
        }
        entry.mappings += 1;
        Ok(())
    }

    /// The slot of a removed region may have another extent.
    pub fn forget_mapping(&self, gid: Gid, slot: Slot) {
        if let Some(entry) = self.write().of_mut(gid, slot) {
            entry.mappings = entry.mappings.saturating_sub(1);
        }
    }
}
