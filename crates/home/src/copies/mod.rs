//! Extents with copies on other nodes: the homes and copies of one node.
//!
//! A node's [`Home`](crate::Home) has one [`Copies`]. It hands it commands that write, orders of the coordinator, frames of other nodes and
//! the time.
//!
//! A home sends each write to its copies, and applies it when all of them have it: [`CopyOutput::Applied`] then lets the command go on. The rules
//! are those of [`hanare_protocol::copies`].
//!
//! A home makes the connections to its copies, and copies answer on them. What a broken connection loses is sent again. A connection that is idle
//! costs nothing: only a home with writes under way asks copies how far they are.
//!
//! | module | holds |
//! |---|---|
//! | `events` | inputs and outputs |
//! | `part` | this node's part of one extent: home or copy; stores that wait for their last part (`part/stores`) |
//! | `waiting` | commands that wait for their writes |
//! | `wires` | connections to nodes with copies, and from nodes with homes |

mod events;
mod pace;
mod part;
#[cfg(test)]
mod tests;
mod waiting;
mod wires;

pub(crate) use events::{CopyAsker, blocks, compared};
pub use events::{CopyInput, CopyOutput};

use crate::memory::{Bytes, Memory};
use crate::open_stores::StoresAt;
use crate::wire_output::WireOutput;
use hanare_protocol::Error;
use hanare_protocol::copies::{DoneCalls, HolderSet, PageTable, Term};
use hanare_protocol::heap::Heap;
use hanare_protocol::id::{Gid, NodeId, Slot};
use hanare_protocol::limits::LEASE_MS;
use hanare_protocol::page::dialing::Dialed;
use hanare_protocol::wire::Malformed;
use hanare_protocol::wire::control::{NodeAddress, decode, encode};
use hanare_protocol::wire::copies::{CopiedExtent, CopyFrame, ExtentCall, ExtentWrite, FromCopy, FromHolder, ToHolder};
use hanare_protocol::wire::range_frame::RangeFrame;
use hanare_protocol::wire::sync::SyncRequest;
use pace::Pace;
use part::CopiedPart;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::num::NonZero;
use std::time::Duration;
use wires::CopyWires;

/// Time between looks at copies that have not confirmed a write.
const LOOK_PAUSE: Duration = Duration::from_millis(LEASE_MS / 12);

/// A copy that has confirmed nothing for so long is silent: the home goes on without it when the coordinator says so.
const SILENT: Duration = Duration::from_millis(LEASE_MS);

/// The homes and copies of one node. `A` names a command that waits for its write.
#[derive(Debug)]
pub struct Copies<E, A> {
    me: Option<NodeId>,
    parts: BTreeMap<CopiedExtent, CopiedPart<E, A>>,
    /// Each extent by its place at this node.
    slots: BTreeMap<Slot, CopiedExtent>,
    /// Extents whose home awaits something of a copy or the coordinator.
    awaiting: BTreeSet<CopiedExtent>,
    wires: CopyWires,
    pace: Pace,
    /// Calls that were done on extents whose order of writes has ended, with their slots: it may begin again.
    ended: BTreeMap<CopiedExtent, (Slot, DoneCalls)>,
    /// When copies were looked at last.
    looked: Duration,
    outputs: VecDeque<CopyOutput<A>>,
}

impl<E, A> Default for Copies<E, A> {
    fn default() -> Self {
        let (parts, slots, awaiting, wires, pace, ended) = Default::default();
        Copies { me: None, parts, slots, awaiting, wires, pace, ended, looked: Duration::ZERO, outputs: VecDeque::new() }
    }
}

impl<E: Bytes, A: Copy> Copies<E, A> {
    /// An event happens; [`Copies::poll`] gives what comes of it.
    pub fn handle<M: Memory<Extent = E>>(&mut self, now: Duration, input: CopyInput<'_>, memory: &M) {
        match input {
            CopyInput::Made { extent, set, order, slot } => {
                if let Some(found) = memory.find(extent.gid, slot) {
                    self.on_made(extent, &set, order, found);
                }
            }
            CopyInput::Ended { extent } => drop(self.end(extent)),
            CopyInput::Holder { extent, nodes, message } => self.on_holder(now, extent, nodes, message),
            CopyInput::Dialed { node, place, spoken } => self.on_dialed(now, node, place, spoken),
            CopyInput::Came { node, place } => self.wires.came(node, place),
            CopyInput::Frames { place, frames } => frames.iter().for_each(|bytes| self.on_frame(now, place, bytes)),
            CopyInput::Gone { place } => {
                let dial = self.wires.gone(place, now);
                self.outputs.extend(dial.map(|(node, address)| WireOutput::Dial { node, address }.into()));
            }
        }
    }

    /// The node's number in its pool.
    pub fn set_identity(&mut self, me: NodeId) {
        self.me = Some(me);
    }

    /// Bounds the bytes that go each second to copies that are made.
    pub fn set_rate(&mut self, rate: Option<NonZero<u64>>) {
        self.pace.set_rate(rate);
    }

    /// The connection to the coordinator is new: what it was told before may not have come.
    pub fn on_coordinator_met(&mut self, now: Duration) {
        let extents: Vec<CopiedExtent> = self.parts.keys().copied().collect();
        for extent in extents {
            self.with_part(now, extent, |part, _| part.ask_again());
        }
    }

    /// The next output, drained after each input.
    pub fn poll(&mut self) -> Option<CopyOutput<A>> {
        self.outputs.pop_front()
    }

    /// When [`Copies::tick`] is due; `None` for never.
    pub fn deadline(&self) -> Option<Duration> {
        let waits = self.wires.waits() || !self.awaiting.is_empty();
        let look = waits.then(|| self.looked + LOOK_PAUSE);
        [look, self.pace.deadline()].into_iter().flatten().min()
    }

    /// True if the region's extent of that slot has copies: its writes go by [`Copies::write`]. A slot may have another region's extent by
    /// now.
    pub fn has(&self, gid: Gid, slot: Slot) -> bool {
        self.slots.get(&slot).is_some_and(|extent| extent.gid == gid)
    }

    /// The slot of an extent here.
    pub fn slot_of(&self, extent: CopiedExtent) -> Option<Slot> {
        self.parts.get(&extent).map(|part| part.at().1)
    }

    /// The home of that term does not stop for another now.
    pub fn stay(&mut self, extent: CopiedExtent, term: Term) {
        self.outputs.push_back(say(extent, FromHolder::Stays { term }));
    }

    /// The home of an extent that was made ready for copies has the heap that the region had before.
    pub fn bring_heap(&mut self, extent: CopiedExtent, heap: Heap) {
        self.parts.entry(extent).and_modify(|part| part.bring_heap(heap));
    }

    /// An extent has no copies any more. Returns the heap of the region, if it has begun and lies here.
    pub fn end(&mut self, extent: CopiedExtent) -> Option<Heap> {
        let mut part = self.parts.remove(&extent)?;
        let (_, slot) = part.at();
        self.slots.remove(&slot);
        self.awaiting.remove(&extent);
        let (heap, done) = part.take_memory();
        self.ended.insert(extent, (slot, done));
        part.end(self.me.unwrap_or(NodeId(0)), &mut self.outputs);
        heap
    }

    /// True if this node is the extent's home.
    pub fn is_home(&self, extent: CopiedExtent) -> bool {
        self.parts.get(&extent).is_some_and(CopiedPart::is_home)
    }

    /// True if this node is the extent's home, and another may be.
    pub fn is_overtaken(&self, extent: CopiedExtent) -> bool {
        self.parts.get(&extent).is_some_and(CopiedPart::is_overtaken)
    }

    /// True if this node is the home of the region's extent of that slot.
    pub fn is_home_at(&self, gid: Gid, slot: Slot) -> bool {
        self.slots.get(&slot).is_some_and(|extent| extent.gid == gid && self.is_home(*extent))
    }

    /// The heap of a region that begins in that slot, as its home here knows it.
    pub fn heap(&self, gid: Gid, slot: Slot) -> Option<&Heap> {
        let extent = self.slots.get(&slot).filter(|extent| extent.gid == gid)?;
        self.parts.get(extent)?.heap()
    }

    /// A command's write is refused.
    pub fn refuse(&mut self, asker: A, error: Error) {
        self.outputs.push_back(CopyOutput::Applied { asker, outcome: Err(error) });
    }

    /// True if this node is the home of the region's extent of that slot, or may be again.
    pub fn serves(&self, gid: Gid, slot: Slot) -> bool {
        let part = self.slots.get(&slot).filter(|extent| extent.gid == gid).and_then(|extent| self.parts.get(extent));
        part.is_some_and(CopiedPart::serves)
    }

    /// Extents that hosts map coherently and whose home is here: region, slot and those hosts.
    ///
    /// **Cost**: a look at each extent.
    pub fn mapped(&self) -> impl Iterator<Item = (Gid, Slot, &PageTable)> {
        let is_home = |part: &&CopiedPart<E, A>| part.serves() && !part.is_overtaken() && !part.pages().is_empty();
        let those = self.parts.values().filter(is_home);
        those.map(|part| (part.at().0, part.at().1, part.pages()))
    }

    fn on_made(&mut self, extent: CopiedExtent, set: &HolderSet, order: u64, found: E) {
        let Some(me) = self.me else { return };
        // An order that was given up meanwhile, and is carried out late. The coordinator has what it made freed.
        if self.parts.get(&extent).is_some_and(|part| part.order() > order) {
            return;
        }
        let slot = found.slot();
        let mut part = CopiedPart::new(me, set, (order, found));
        if set.home == me && set.copies.is_empty() {
            // An extent that was here before: it was ready already, or is so again.
            let before = self.parts.get_mut(&extent).filter(|before| before.is_home_in(slot)).map(CopiedPart::take_memory);
            let ended = self.ended.remove(&extent).filter(|(of, _)| *of == slot).map(|(_, done)| (None, done));
            part.bring_memory(before.or(ended).unwrap_or_default());
        }
        part.drive(extent, &mut self.wires, &mut self.pace, &mut self.outputs);
        self.slots.insert(slot, extent);
        if let Some(before) = self.parts.insert(extent, part) {
            self.slots.retain(|other, of| *of != extent || *other == slot);
            before.end(me, &mut self.outputs);
        }
    }

    /// Extents are no more.
    pub fn on_freed<M: Memory<Extent = E>>(&mut self, memory: &M) {
        let Some(me) = self.me else { return };
        let is_freed = |part: &CopiedPart<E, A>| {
            let (gid, slot) = part.at();
            !memory.has(gid, slot)
        };
        let freed: Vec<_> = self.parts.extract_if(.., |_, part| is_freed(part)).collect();
        for (extent, part) in freed {
            self.slots.remove(&part.at().1);
            self.awaiting.remove(&extent);
            part.end(me, &mut self.outputs);
        }
        self.ended.retain(|extent, (slot, _)| memory.has(extent.gid, *slot));
    }

    fn on_holder(&mut self, now: Duration, extent: CopiedExtent, nodes: Vec<NodeAddress>, message: ToHolder) {
        let Some(me) = self.me else { return };
        nodes.into_iter().for_each(|node| self.wires.know(node.node, node.address));
        self.with_part(now, extent, |part, outputs| match message {
            ToHolder::Set(set) => part.on_set(&set),
            ToHolder::Freeze { term } => part.freeze(term, extent, outputs),
            ToHolder::Elect { set, has, .. } => part.elect(me, &set, &has),
            ToHolder::Release(set) => part.release(me, &set),
            ToHolder::Make { node, order } => part.make(node, order, now),
        });
    }

    /// A command's stage writes; [`CopyOutput::Applied`] follows, with the name of the command.
    pub fn write(&mut self, now: Duration, (gid, slot): (Gid, Slot), asker: A, write: ExtentWrite) {
        let me = self.me.unwrap_or(NodeId(0));
        self.wires.set_now(now);
        let mut told = Err(if write.once.is_none() { part::moved(me) } else { Error::GrantRefused { gid, node: me } });
        if let Err(error) = self.may_store(gid, slot, &write) {
            told = Err(error);
        } else if let Some(extent) = self.slots.get(&slot).copied().filter(|extent| extent.gid == gid) {
            self.with_part(now, extent, |part, _| told = part.write(now, (me, asker), write));
        }
        self.outputs.extend(told.transpose().map(|outcome| CopyOutput::Applied { asker, outcome }));
    }

    /// Refuses calls that a copy's node does not know.
    fn may_store(&mut self, gid: Gid, slot: Slot, write: &ExtentWrite) -> Result<(), Error> {
        if !write.is_since_28() {
            return Ok(());
        }
        let part = self.slots.get(&slot).filter(|extent| extent.gid == gid).and_then(|extent| self.parts.get(extent));
        for node in part.map(CopiedPart::peers).unwrap_or_default() {
            match self.wires.spoken(node, &mut self.outputs) {
                Some(speaks) if speaks >= SyncRequest::STORES_SINCE => {}
                Some(speaks) => return Err(Error::TooOld { peer: node.to_string(), speaks, needs: SyncRequest::STORES_SINCE }),
                // The program asks again.
                None => return Err(Error::GrantRefused { gid, node: self.me.unwrap_or(NodeId(0)) }),
            }
        }
        Ok(())
    }

    /// True if all copies of an extent know of parts of stores, and of their end.
    fn know_stores(&self, extent: CopiedExtent) -> bool {
        let peers = self.parts.get(&extent).map(CopiedPart::peers).unwrap_or_default();
        peers.into_iter().all(|node| self.wires.speaks(node, SyncRequest::STORES_SINCE))
    }

    fn on_dialed(&mut self, now: Duration, node: NodeId, place: Option<u64>, spoken: u32) {
        match self.wires.dialed(node, place.map(|place| (place, spoken)), now) {
            Dialed::Up => self.with_homes_of(now, node, |part| part.on_reconnected(node, now)),
            Dialed::Lost => self.with_homes_of(now, node, |part| part.on_silent(node)),
            Dialed::Spare => self.outputs.extend(place.map(|place| WireOutput::Close { place }.into())),
            Dialed::Again => {}
        }
    }

    /// Tells all homes here that have a copy on that node.
    fn with_homes_of(&mut self, now: Duration, node: NodeId, with: impl Fn(&mut CopiedPart<E, A>)) {
        let those: Vec<CopiedExtent> =
            self.parts.iter().filter(|(_, part)| part.has_peer(node)).map(|(extent, _)| *extent).collect();
        for extent in those {
            self.with_part(now, extent, |part, _| with(part));
        }
    }

    fn on_frame(&mut self, now: Duration, place: u64, bytes: &[u8]) {
        let range =
            RangeFrame::read(bytes).map(|frame| self.on_copy_message(now, place, frame.extent, |part| part.on_range(&frame)));
        let outcome = range.unwrap_or_else(|| self.on_other_frame(now, place, bytes));
        if let Err(malformed) = outcome {
            tracing::warn!("a connection about copies was closed: {}", malformed.0);
            self.outputs.push_back(WireOutput::Close { place }.into());
            let dial = self.wires.gone(place, now);
            self.outputs.extend(dial.map(|(node, address)| WireOutput::Dial { node, address }.into()));
        }
    }

    fn on_other_frame(&mut self, now: Duration, place: u64, bytes: &[u8]) -> Result<(), Malformed> {
        match decode::<CopyFrame>(bytes)? {
            CopyFrame::ToCopy(extent, message) => self.on_copy_message(now, place, extent, |part| part.on_to_copy(message)),
            CopyFrame::FromCopy(extent, message) => {
                if let Some(node) = self.wires.dialed_node(place) {
                    self.with_part(now, extent, |part, _| part.on_from_copy(now, node, message));
                }
                Ok(())
            }
        }
    }

    /// A home's message to a copy here.
    fn on_copy_message(
        &mut self,
        now: Duration,
        place: u64,
        extent: CopiedExtent,
        take: impl FnOnce(&mut CopiedPart<E, A>) -> Result<Replies, Malformed>,
    ) -> Result<(), Malformed> {
        if self.wires.caller(place).is_none() {
            return Err(Malformed("a write by a node that is no caller"));
        }
        // An extent that is freed meanwhile, or not made yet, takes nothing: its home hears nothing of it.
        let Some(part) = self.parts.get_mut(&extent) else { return Ok(()) };
        let replies = take(part)?;
        for reply in replies {
            let frame = encode(&CopyFrame::FromCopy(extent, reply)).into();
            self.outputs.push_back(WireOutput::Send { place, frame }.into());
        }
        self.with_part(now, extent, |_, _| {});
        Ok(())
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Duration) {
        while let Some(extent) = self.pace.next_turn(now) {
            self.with_part(now, extent, |_, _| {});
        }
        if now < self.looked + LOOK_PAUSE {
            return;
        }
        self.looked = now;
        self.outputs.extend(self.wires.tick(now).map(|(node, address)| WireOutput::Dial { node, address }.into()));
        for extent in self.awaiting.clone() {
            let know_stores = self.know_stores(extent);
            self.with_part(now, extent, |part, _| {
                if know_stores {
                    part.look_at_stores(now);
                }
                part.look_at_copies(now, SILENT);
            });
        }
    }

    /// Runs `with` on this node's part of an extent, if it has one, and carries out what comes of it.
    fn with_part(
        &mut self,
        now: Duration,
        extent: CopiedExtent,
        with: impl FnOnce(&mut CopiedPart<E, A>, &mut VecDeque<CopyOutput<A>>),
    ) {
        let is_idle = self.deadline().is_none();
        let Some(part) = self.parts.get_mut(&extent) else { return };
        if is_idle {
            // Looks begin with the first write that waits.
            self.looked = self.looked.max(now);
        }
        with(part, &mut self.outputs);
        self.wires.set_now(now);
        self.pace.set_now(now);
        part.drive(extent, &mut self.wires, &mut self.pace, &mut self.outputs);
        match part.awaits_copies() {
            true => self.awaiting.insert(extent),
            false => self.awaiting.remove(&extent),
        };
    }
}

impl<E: Bytes> Copies<E, CopyAsker> {
    /// The time of the last event that concerned an extent.
    pub fn now(&self) -> Duration {
        self.wires.now()
    }

    /// The last part of some stores will not come.
    pub fn forget_stores(&mut self, now: Duration, StoresAt { gid, slot, call }: StoresAt) {
        let write = ExtentWrite::call(ExtentCall::ForgetStores(call));
        self.write(now, (gid, slot), CopyAsker::ForgetStores, write);
    }
}

/// A message of a holder to the coordinator.
fn say<A>(extent: CopiedExtent, message: FromHolder) -> CopyOutput<A> {
    CopyOutput::Say { extent, message }
}

/// Replies of a copy, in order.
type Replies = Vec<FromCopy>;
