//! Requests on extents with copies: those that have their place among the writes.

use crate::copies::CopyAsker;
use crate::home::Home;
use crate::locks::AtOnce;
use crate::memory::{Bytes, Memory};
use crate::open_stores::StoresAt;
use crate::pages::PageMemory;
use crate::waiter::Waiter;
use hanare_protocol::Error;
use hanare_protocol::copies::DigestCall;
use hanare_protocol::id::{ClientId, Grant, Rights, Slot, User};
use hanare_protocol::wire::Malformed;
use hanare_protocol::wire::copies::{ExtentCall, ExtentWrite};
use hanare_protocol::wire::queue::{ArrayAt, QueueCall, QueueChange, QueueRequest};
use hanare_protocol::wire::stores::StorePart;
use hanare_protocol::wire::sync::SyncAnswer;
use std::time::Duration;

impl<P: PageMemory, E: Bytes + Clone> Home<P, E> {
    /// A port asks something.
    pub(crate) fn ask_queue<M: Memory>(
        &mut self,
        (now, waiter): (Duration, Waiter),
        (client, user): (ClientId, User),
        (at, request): (ArrayAt, QueueRequest),
        memory: &M,
    ) -> AtOnce {
        let extent = memory.open(at.slot, at.grant, Rights::Write)?;
        let gid = extent.gid();
        if !self.copies.has(gid, at.slot) {
            return self.queues.on_request((waiter.link, user.uid), at, request, memory).map(Some);
        }
        self.check_not_mapped(gid)?;
        let call = QueueCall { offset: at.offset, what: QueueChange::Port { request, uid: user.uid, client } };
        call.check(extent.len_bytes())
            .map_err(|Malformed(reason)| Error::BadUse { region: gid.to_string(), reason: reason.to_owned() })?;
        self.queues.on_call(waiter.link, (gid, at.slot), &call)?;
        let comes = request.opens().then(|| request.port().1);
        let write = ExtentWrite::call(ExtentCall::Queue(call));
        self.copies.write(now, (gid, at.slot), CopyAsker::Queue(waiter, comes), write);
        Ok(None)
    }

    /// A part of stores comes.
    pub(crate) fn store<M: Memory>(
        &mut self,
        (now, waiter): (Duration, Waiter),
        user: User,
        (slot, grant): (Slot, Grant),
        part: StorePart,
        memory: &M,
    ) -> AtOnce {
        let extent = memory.open(slot, grant, Rights::Write)?;
        let (gid, call, is_last) = (extent.gid(), part.once.call, part.is_last);
        let (write, at) = (part.into_write(), StoresAt { gid, slot, call });
        let bad = |Malformed(reason)| Error::BadUse { region: gid.to_string(), reason: reason.to_owned() };
        // Stores to pages that hosts have go one by one, as puts.
        let checked = match self.copies.has(gid, slot) && !self.pages.is_coherent(gid) {
            true => write.check(extent.len_bytes()).map_err(bad),
            false => Err(bad(Malformed("it has no copies, so stores do not count together"))),
        };
        let part = (write.memory_len(), is_last);
        if let Err(error) = checked.and_then(|()| self.open_stores.begin((waiter.link, user.uid), at, part)) {
            if self.open_stores.end_call(waiter.link, &at) {
                self.copies.forget_stores(now, at);
            }
            return Err(error);
        }
        self.copies.write(now, (gid, slot), CopyAsker::Store(waiter, at, is_last), write);
        Ok(None)
    }

    /// Begins to compare the copies of an extent.
    pub(crate) fn compare<M: Memory>(
        &mut self,
        (now, waiter): (Duration, Waiter),
        (slot, grant): (Slot, Grant),
        call: DigestCall,
        memory: &M,
    ) -> AtOnce {
        let extent = memory.open(slot, grant, if call.drops { Rights::Write } else { Rights::Read })?;
        let gid = extent.gid();
        let bad = |Malformed(reason)| Error::BadUse { region: gid.to_string(), reason: reason.to_owned() };
        call.check(extent.len_bytes()).map_err(bad)?;
        if !self.copies.has(gid, slot) {
            return Ok(Some(SyncAnswer::Compared(Box::default())));
        }
        let write = ExtentWrite::call(ExtentCall::Digests(call));
        self.copies.write(now, (gid, slot), CopyAsker::Compare(waiter), write);
        Ok(None)
    }
}
