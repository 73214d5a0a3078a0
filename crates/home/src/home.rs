//! The object: each input goes to the parts that decide it, and the outputs wait here to be taken.

use crate::copies::{Copies, CopyAsker, CopyInput, CopyOutput, blocks, compared};
use crate::events::{Counts, Input, Output, SyncOutput};
use crate::heaps::Heaps;
use crate::locks::{AtOnce, LockTerms, Locks, SleepAsks, WantedLock};
use crate::memory::{Bytes, Memory, Need, Recall};
use crate::open_stores::OpenStores;
use crate::pages::{Asker, PageInput, PageMemory, Pages, WriteOfPages};
use crate::queue_calls::answered;
use crate::queue_doubts::PortDoubts;
use crate::queue_ports::{GonePorts, LaneAt, QueuePorts};
use crate::waiter::Waiter;
use crate::words::{WordMemory, Words};
use hanare_protocol::error::Happened;
use hanare_protocol::id::{ClientId, Gid, Rights, Slot, User};
use hanare_protocol::limits::QUEUE_GONE_COUNT_MAX;
use hanare_protocol::lock::lease::PROGRAM_LIFE;
use hanare_protocol::lock::{Claim, Claimant};
use hanare_protocol::queue::PortId;
use hanare_protocol::wire::copies::{CopiedExtent, ExtentCall, ExtentWrite, FromHolder, ToHolder};
use hanare_protocol::wire::look::LockStat;
use hanare_protocol::wire::queue::{QueueCall, QueueChange};
use hanare_protocol::wire::sync::{Mode, SyncAnswer, SyncRequest};
use hanare_protocol::{Error, Result};
use std::fmt;
use std::num::NonZero;
use std::time::Duration;

/// News of copies for the home.
enum PolledCopies {
    /// An output for the driver.
    Output(CopyOutput<u64>),
    /// All holders have a write of pages.
    Pages,
}

/// The home of the regions that one node holds.
pub struct Home<P: PageMemory, E> {
    locks: Locks,
    words: Words,
    pub(crate) queues: QueuePorts,
    port_doubts: PortDoubts,
    pub(crate) open_stores: OpenStores,
    heaps: Heaps,
    pub(crate) pages: Pages<P>,
    pub(crate) copies: Copies<E, CopyAsker>,
}

impl<P: PageMemory, E> fmt::Debug for Home<P, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Home").field("locks", &self.locks).field("words", &self.words).finish_non_exhaustive()
    }
}

impl<P: PageMemory, E: Bytes + Clone> Home<P, E> {
    /// A home without requests; `life` is a random number of this life of its node.
    pub fn new(terms: LockTerms, life: u64, pages: Pages<P>) -> Home<P, E> {
        let (words, queues, port_doubts, open_stores, heaps, copies) = Default::default();
        Home { locks: Locks::new(terms, life), words, queues, port_doubts, open_stores, heaps, pages, copies }
    }

    /// Bounds the bytes that go each second to copies that are made, of all extents together; `None` for no bound.
    pub fn set_copy_rate(&mut self, rate: Option<NonZero<u64>>) {
        self.copies.set_rate(rate);
    }

    /// An event happens; [`Home::poll`] gives what comes of it.
    pub fn handle<M: Memory<Extent = E>>(&mut self, now: Duration, input: Input<'_, P>, memory: &M) {
        match input {
            // The other parts have no answer to it before the home is polled.
            Input::Pages(input) => return self.on_pages(now, input, memory),
            Input::Copies(input) => {
                self.on_copies(now, input, memory);
                self.follow_homes(memory);
            }
            Input::Request { waiter, from, request } => self.on_request(now, waiter, from, request, memory),
            Input::LinkGone { link } => {
                self.pages.on_link_gone(now, link);
                self.words.forget(link);
                let copies = &self.copies;
                let gone = self.queues.forget(link, memory, |gid, slot| copies.has(gid, slot));
                self.tell_gone(now, gone);
                let open = self.open_stores.forget(link);
                open.into_iter().for_each(|at| self.copies.forget_stores(now, at));
                self.locks.forget(link);
            }
            Input::LeaseAnswer { client, number: PROGRAM_LIFE, recalled } => self.port_doubts.on_answer(client, recalled),
            Input::LeaseAnswer { client, number, recalled } => self.locks.on_recalled(client, number, recalled),
            Input::Member(is_member) => {
                self.locks.set_member(now, is_member);
                self.port_doubts.set_member(now, is_member);
                if is_member {
                    self.copies.on_coordinator_met(now);
                }
            }
            Input::PoolHome(me, is_home) => self.locks.set_pool_home(me, is_home),
            Input::RankGone { job, rank, ranks, reason, died } => self.locks.on_rank_gone(job, rank, ranks, &reason, died),
            Input::Freed => {
                self.pages.on_freed(now);
                self.copies.on_freed(memory);
                self.locks.on_freed(memory);
                self.heaps.on_freed(memory);
                self.follow_homes(memory);
            }
            Input::Changed => {
                let mut memory = WordMemory { now, memory, pages: &mut self.pages };
                self.words.look_at_some(&mut memory, self.locks.outputs());
            }
            Input::Tick => {
                self.tick(now, memory);
                self.follow_homes(memory);
            }
        }
        self.locks.ask_for_leases(now);
    }

    fn on_copies<M: Memory<Extent = E>>(&mut self, now: Duration, input: CopyInput<'_>, memory: &M) {
        match input {
            // A lock would be free at the next home, though a program has it.
            CopyInput::Holder { extent, message: ToHolder::Release(set), .. }
                if self.copies.slot_of(extent).is_some_and(|slot| self.locks.are_at(extent.gid, slot))
                    || self.pages.is_coherent(extent.gid) =>
            {
                self.copies.stay(extent, set.term);
            }
            CopyInput::Holder { extent, .. } => {
                let leaves_no_doubt = matches!(input, CopyInput::Holder { message: ToHolder::Elect { stopped: true, .. }, .. });
                let (before, was_overtaken) = (self.home_slot(extent), self.copies.is_overtaken(extent));
                self.copies.handle(now, input, memory);
                let Some(slot) = self.home_slot(extent) else { return };
                // Programs may have locks at the bytes from a home that was lost.
                if before.is_none() {
                    self.locks.begin_bytes(extent.gid, slot, !leaves_no_doubt);
                }
                if before.is_none() || (was_overtaken && !self.copies.is_overtaken(extent)) {
                    self.port_doubts.add((extent.gid, slot));
                }
            }
            CopyInput::Made { extent, slot, .. } => {
                self.copies.handle(now, input, memory);
                // The region may have had a heap before it had copies.
                if let Some(heap) = self.heaps.take(extent.gid, slot) {
                    self.copies.bring_heap(extent, heap);
                }
            }
            CopyInput::Ended { extent } => {
                let slot = self.copies.slot_of(extent);
                let heap = self.copies.end(extent);
                self.heaps.bring(slot.zip(heap).map(|(slot, heap)| ((extent.gid, slot), heap)));
            }
            _ => self.copies.handle(now, input, memory),
        }
    }

    /// The lane of a queue's writer, if its program has one here.
    pub fn lane_of(&self, writer: PortId) -> Option<LaneAt> {
        self.queues.lane_of(writer)
    }

    /// Number of ports of a link.
    #[cfg(test)]
    pub(crate) fn port_count(&self, link: u64) -> usize {
        self.queues.count(link)
    }

    /// The slot of an extent whose writes are ordered here, by its home.
    pub fn home_slot(&self, extent: CopiedExtent) -> Option<Slot> {
        self.copies.slot_of(extent).filter(|_| self.copies.is_home(extent))
    }

    /// True if this node is the extent's home, and another may be: a coordinator has begun an election.
    pub fn is_overtaken(&self, extent: CopiedExtent) -> bool {
        self.copies.is_overtaken(extent)
    }

    /// The next output, drained after each input, [`Home::recall`] and [`Home::turn`]. An answer that brings pages reads them here, so
    /// that no others wait in memory.
    pub fn poll<M: Memory<Extent = E>>(&mut self, memory: &M) -> Option<Output<P>> {
        loop {
            while let Some((face, outcome)) = self.pages.poll_word() {
                self.words.recalled(face, outcome, memory, self.locks.outputs());
                self.pages.release(face);
            }
            if let Some(output) = self.pages.poll() {
                return Some(Output::Pages(output));
            }
            while let Some(WriteOfPages { gid, slot, number, write }) = self.pages.next_write() {
                self.copies.write(self.copies.now(), (gid, slot), CopyAsker::Pages(gid, number), write);
            }
            match self.poll_copies() {
                Some(PolledCopies::Output(output)) => return Some(Output::Copies(output)),
                // A page that all holders have brings others on.
                Some(PolledCopies::Pages) => {}
                None => break,
            }
        }
        let told = self.locks.poll(memory).or_else(|| self.locks.poll_brought(memory));
        told.map(|output| Output::Sync(self.locks.in_words_of_user(output)))
    }

    /// The next output of copies for the driver. Calls on heaps have their answers here.
    fn poll_copies(&mut self) -> Option<PolledCopies> {
        loop {
            match self.copies.poll()? {
                CopyOutput::Applied { asker: CopyAsker::Link(asker), outcome } => {
                    return Some(PolledCopies::Output(CopyOutput::Applied { asker, outcome }));
                }
                CopyOutput::Applied { asker: CopyAsker::Pages(gid, number), outcome } => {
                    self.pages.on_written(gid, number, outcome.map(drop));
                    return Some(PolledCopies::Pages);
                }
                CopyOutput::Applied { asker: CopyAsker::Heap(waiter), outcome } => {
                    self.locks.outputs().push_back(SyncOutput::Answer(waiter, blocks(outcome)));
                }
                CopyOutput::Applied { asker: CopyAsker::Compare(waiter), outcome } => {
                    self.locks.outputs().push_back(SyncOutput::Answer(waiter, compared(outcome)));
                }
                CopyOutput::Applied { asker: CopyAsker::Queue(waiter, comes), outcome } => {
                    if let (Some(port), Err(_)) = (comes, &outcome) {
                        self.queues.refused(waiter.link, port);
                    }
                    self.locks.outputs().push_back(SyncOutput::Answer(waiter, answered(outcome)));
                }
                CopyOutput::Applied { asker: CopyAsker::Gone(gid, slot), outcome } => {
                    // The home did not take the call, and looks again later.
                    if outcome.is_err() {
                        self.port_doubts.add((gid, slot));
                    }
                }
                CopyOutput::Applied { asker: CopyAsker::Store(waiter, at, is_last), outcome } => {
                    let is_over = outcome.as_ref().map_or_else(ends_stores, |_| is_last);
                    let was_open = self.open_stores.end(waiter.link, &at, is_over);
                    if was_open && outcome.is_err() {
                        self.copies.forget_stores(self.copies.now(), at);
                    }
                    self.locks.outputs().push_back(SyncOutput::Answer(waiter, outcome.map(|_| SyncAnswer::Done)));
                }
                // The next home drops them, when their program has been silent for long.
                CopyOutput::Applied { asker: CopyAsker::ForgetStores, .. } => {}
                CopyOutput::Say { extent, message: FromHolder::Released { term, .. } } => {
                    let leaves_doubt = self.stops_in_doubt(extent);
                    let message = FromHolder::Released { term, leaves_doubt };
                    return Some(PolledCopies::Output(CopyOutput::Say { extent, message }));
                }
                CopyOutput::Say { extent, message } => return Some(PolledCopies::Output(CopyOutput::Say { extent, message })),
                CopyOutput::Wire(output) => return Some(PolledCopies::Output(CopyOutput::Wire(output))),
            }
        }
    }

    /// Returns true if the next home of an extent cannot know all about the locks at its bytes. A home that is overtaken forgets those that
    /// programs have. So nobody gets one here after the next home has given it to another.
    fn stops_in_doubt(&mut self, extent: CopiedExtent) -> bool {
        let Some(slot) = self.copies.slot_of(extent) else { return true };
        if !self.copies.is_overtaken(extent) {
            return self.locks.leaves_doubt(extent.gid, slot);
        }
        self.locks.begin_bytes(extent.gid, slot, true);
        true
    }

    /// When [`Input::Tick`] is due; `None` for never.
    pub fn deadline(&self) -> Option<Duration> {
        let parts = [self.locks.deadline(), self.words.deadline(), self.pages.deadline(), self.copies.deadline()];
        parts.into_iter().chain([self.port_doubts.deadline()]).flatten().min()
    }

    /// Brings pages home for a stage of the commands of a link.
    ///
    /// **Cost**: two messages for each host that owns a page; where the stage writes, for each with a copy. **Errors**:
    /// [`hanare_protocol::Error::PageLost`]; `LimitReached` where too many wait for a page.
    pub fn recall(&mut self, now: Duration, link: u64, need: Need) -> Result<Recall> {
        self.pages.recall(now, Asker::Link(link), need)
    }

    /// A stage of the commands of a link writes to an extent with copies. [`CopyOutput::Applied`] follows: a refusal where the home has let go
    /// of the extent meanwhile.
    ///
    /// **Cost**: a message to each copy, and one back.
    pub fn write(&mut self, now: Duration, link: u64, at: (Gid, Slot), write: ExtentWrite) {
        if let Some(ExtentCall::Queue(call)) = &write.call {
            if let Err(error) = self.check_not_mapped(at.0) {
                return self.copies.refuse(CopyAsker::Link(link), error);
            }
            // An append comes from a port, which is refused where there is none.
            let _ = self.queues.on_call(link, at, call);
        }
        self.copies.write(now, at, CopyAsker::Link(link), write);
    }

    /// Goes on with pages that are being taken. Returns whether anything moved.
    pub fn turn(&mut self, now: Duration) -> bool {
        self.pages.turn(now)
    }

    /// The shared regions, to look at.
    pub fn pages(&self) -> &Pages<P> {
        &self.pages
    }

    fn on_pages<M: Memory<Extent = E>>(&mut self, now: Duration, input: PageInput<'_, P>, memory: &M) {
        let is_identity = matches!(input, PageInput::Identity { .. });
        if let PageInput::Identity { node, .. } = input {
            self.copies.set_identity(node);
        }
        self.pages.handle(now, input);
        if is_identity {
            self.follow_homes(memory);
        }
    }

    /// The parts that are due have their time.
    fn tick(&mut self, now: Duration, memory: &impl Memory) {
        let is_due = |deadline: Option<Duration>| deadline.is_some_and(|due| due <= now);
        if is_due(self.pages.deadline()) {
            self.pages.tick(now);
        }
        if is_due(self.copies.deadline()) {
            self.copies.tick(now);
        }
        if is_due(self.locks.deadline()) {
            self.locks.tick(now);
        }
        self.look_at_ports(now, memory);
        self.words.tick(&mut WordMemory { now, memory, pages: &mut self.pages }, self.locks.outputs());
    }

    /// Looks for ports of which this home has not heard, and asks if their programs live.
    fn look_at_ports(&mut self, now: Duration, memory: &impl Memory) {
        if self.port_doubts.deadline().is_none_or(|due| due > now) {
            return;
        }
        let copies = &self.copies;
        let gone = self.port_doubts.look(now, &self.queues, memory, |gid, slot| copies.is_home_at(gid, slot));
        while let Some(client) = self.port_doubts.next_asked(now) {
            self.locks.outputs().push_back(SyncOutput::Recall { client, number: PROGRAM_LIFE });
        }
        self.tell_gone(now, gone);
    }

    /// Has all holders of extents with copies know of ports that are gone.
    fn tell_gone(&mut self, now: Duration, gone: GonePorts) {
        for ((gid, slot, offset), ports) in gone {
            for ports in ports.chunks(QUEUE_GONE_COUNT_MAX) {
                let call = QueueCall { offset, what: QueueChange::Gone { ports: ports.to_vec() } };
                let write = ExtentWrite::call(ExtentCall::Queue(call));
                self.copies.write(now, (gid, slot), CopyAsker::Gone(gid, slot), write);
            }
        }
    }

    /// The locks that a user may see, with the programs of their links, and how many there are.
    pub fn locks_seen_by(&self, user: User, client_of: impl Fn(u64) -> ClientId) -> (Vec<LockStat>, u64) {
        self.locks.seen_by(user, client_of)
    }

    /// The sizes of the tables.
    pub fn counts(&self) -> Counts {
        let (locks, leases, lock_waits) = self.locks.counts();
        Counts { locks, leases, lock_waits, word_waits: self.words.count() }
    }

    fn on_request<M: Memory>(&mut self, now: Duration, waiter: Waiter, from: (ClientId, User), request: SyncRequest, memory: &M) {
        let may = self.locks.ensure_home(waiter.link, &request);
        let may = may.and_then(|()| self.locks.may(waiter.link, from.1, &request));
        let outcome = may.and_then(|()| self.begin((now, waiter), from, request, memory));
        let answer = outcome.transpose().map(|outcome| SyncOutput::Answer(waiter, outcome));
        self.locks.outputs().extend(answer);
    }

    fn begin<M: Memory>(
        &mut self,
        (now, waiter): (Duration, Waiter),
        (client, user): (ClientId, User),
        request: SyncRequest,
        memory: &M,
    ) -> AtOnce {
        let who = |number| Claimant { link: waiter.link, number };
        match request {
            SyncRequest::Lock { address, mode, number, thread, bound_ms, known, lease } => {
                let rights = if mode == Mode::Shared { Rights::Read } else { Rights::Write };
                let name = self.locks.find(address, rights, user, memory)?;
                let wanted = WantedLock { name, known, uid: user.uid, client, lease };
                self.locks.lock(now, wanted, Claim { who: who(number), thread, mode }, (bound_ms, waiter.seq))
            }
            SyncRequest::Sleep { number, condition, next, thread, bound_ms, known } => {
                let claim = Claim { who: who(next), thread, mode: Mode::Exclusive };
                let asks = SleepAsks { seq: waiter.seq, wait_ms: bound_ms, known, user, client };
                self.locks.sleep(now, (who(number), condition), claim, asks, memory)
            }
            SyncRequest::Notify { number, condition, all } => self.locks.notify(who(number), condition, all),
            SyncRequest::Publish { number, publication } => self.locks.publish(who(number), user.uid, publication),
            SyncRequest::Release { number, publication, places, keeps } => {
                self.locks.release((who(number), user.uid, keeps), publication, &places, memory)
            }
            SyncRequest::Redone { number } => self.locks.redone(who(number)),
            SyncRequest::Unlock { number } => self.locks.unlock(who(number)),
            SyncRequest::Withdraw { number } => self.locks.withdraw(who(number)),
            SyncRequest::Join { address, parties, number, client } => {
                let name = self.locks.find(address, Rights::Write, user, memory)?;
                self.locks.join(&name, parties, who(number), client)
            }
            SyncRequest::Permit { name, mode } => self.locks.permit(&name, mode, user),
            SyncRequest::Arrive(party, carried) => self.locks.arrive(party, carried, waiter, memory),
            SyncRequest::Leave { number } => self.locks.leave(who(number)),
            SyncRequest::AwaitDeath { job } => self.locks.await_death(job, waiter),
            SyncRequest::Wait { words, bound_ms } => {
                let mut memory = WordMemory { now, memory, pages: &mut self.pages };
                self.words.wait((words, bound_ms), (waiter, user.uid), &mut memory)
            }
            SyncRequest::Heap { slot, grant, call, once } => {
                let extent = memory.open(slot, grant, Rights::Write)?;
                if !self.copies.has(extent.gid(), slot) {
                    return Ok(Some(SyncAnswer::Blocks(self.heaps.call((memory, &extent), user.uid, &call)?)));
                }
                self.heaps.admit((memory, &extent), user.uid, &call, self.copies.heap(extent.gid(), slot))?;
                self.copies.write(now, (extent.gid(), slot), CopyAsker::Heap(waiter), ExtentWrite::heap(call, once));
                Ok(None)
            }
            SyncRequest::BlockLen { slot, grant, offset } => {
                let extent = memory.open(slot, grant, Rights::Write)?;
                let gid = extent.gid();
                let len = match self.copies.has(gid, slot) {
                    true => self.copies.heap(gid, slot).and_then(|heap| heap.block_len(offset)),
                    false => self.heaps.block_len(&extent, offset),
                };
                Ok(Some(SyncAnswer::BlockLen { len: len.ok_or(Error::NoBlock { region: gid.to_string(), offset })? }))
            }
            SyncRequest::Compare { slot, grant, call } => self.compare((now, waiter), (slot, grant), call, memory),
            SyncRequest::Queue(at, request) => self.ask_queue((now, waiter), (client, user), (at, request), memory),
            SyncRequest::Store { slot, grant, part } => self.store((now, waiter), user, (slot, grant), part, memory),
        }
    }
}

/// True if a refusal of a part ends its release. After any other the program sends the part again.
fn ends_stores(error: &Error) -> bool {
    matches!(error, Error::LimitReached { .. } | Error::BadUse { .. } | Error::Broken { happened: Happened::No, .. })
}
