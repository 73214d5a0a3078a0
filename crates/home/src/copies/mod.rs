//! Extents with copies on other nodes: the homes and copies of one node.
//!
//! A node drives one [`Copies`] with commands that write, orders of the coordinator, frames of other nodes and its clock:
//!
//! ```text
//! copies.handle(now, input, memory)
//! while let Some(output) = copies.poll() { ... }
//! sleep until copies.deadline(), then copies.handle(now, CopyInput::Tick, memory)
//! ```
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
//! | `memory` | what it asks of extents |
//! | `part` | this node's part of one extent: home or copy |
//! | `wires` | connections to nodes with copies, and from nodes with homes |

mod events;
mod memory;
mod part;
#[cfg(test)]
mod tests;
mod wires;

pub use events::{CopyInput, CopyOutput};
pub use memory::CopyMemory;

use hanare_protocol::Error;
use hanare_protocol::copies::HolderSet;
use hanare_protocol::id::{Gid, NodeId, Slot};
use hanare_protocol::limits::LEASE_MS;
use hanare_protocol::wire::control::{NodeAddress, decode, encode};
use hanare_protocol::wire::copies::{CopiedExtent, CopyFrame, ExtentWrite, FromCopy, FromHolder, ToCopy, ToHolder};
use part::CopiedPart;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use wires::CopyWires;

/// Time between looks at copies that have not confirmed a write.
const LOOK_PAUSE: Duration = Duration::from_millis(LEASE_MS / 12);

/// A copy that has confirmed nothing for so long is silent: the home goes on without it when the coordinator says so.
const SILENT: Duration = Duration::from_millis(LEASE_MS);

/// The homes and copies of one node. `A` names a command that waits for its write.
#[derive(Debug)]
pub struct Copies<X, A> {
    me: Option<NodeId>,
    parts: BTreeMap<CopiedExtent, CopiedPart<X, A>>,
    /// Each extent by its place at this node.
    slots: BTreeMap<Slot, CopiedExtent>,
    /// Extents whose home awaits something of a copy or the coordinator.
    awaiting: BTreeSet<CopiedExtent>,
    wires: CopyWires,
    /// When copies were looked at last.
    looked: Duration,
    outputs: VecDeque<CopyOutput<A>>,
}

impl<X, A> Default for Copies<X, A> {
    fn default() -> Self {
        let (parts, slots, awaiting, wires) = Default::default();
        Copies { me: None, parts, slots, awaiting, wires, looked: Duration::ZERO, outputs: VecDeque::new() }
    }
}

impl<X, A: Copy> Copies<X, A> {
    /// An event happens; [`Copies::poll`] gives what comes of it.
    pub fn handle<M: CopyMemory<Extent = X>>(&mut self, now: Duration, input: CopyInput<'_, X, A>, memory: &mut M) {
        match input {
            CopyInput::Identity(me) => self.me = Some(me),
            CopyInput::Made { extent, set, at } => self.on_made(extent, &set, at, memory),
            CopyInput::Freed => self.drop_freed(memory),
            CopyInput::Holder { extent, nodes, message } => self.on_holder(now, extent, nodes, message, memory),
            CopyInput::CoordinatorMet => {
                let extents: Vec<CopiedExtent> = self.parts.keys().copied().collect();
                for extent in extents {
                    self.with_part(now, extent, memory, |part, _| part.ask_again());
                }
            }
            CopyInput::Write { at, asker, entry } => self.on_write(now, at, asker, entry, memory),
            CopyInput::Dialed { node, place } => self.on_dialed(now, node, place, memory),
            CopyInput::Came { node, place } => self.wires.came(node, place),
            CopyInput::Frames { place, frames } => frames.iter().for_each(|bytes| self.on_frame(now, place, bytes, memory)),
            CopyInput::Gone { place } => {
                let dial = self.wires.gone(place, now);
                self.outputs.extend(dial.map(|(node, address)| CopyOutput::Dial { node, address }));
            }
            CopyInput::Tick => self.tick(now, memory),
        }
    }

    /// The next output, drained after each input.
    pub fn poll(&mut self) -> Option<CopyOutput<A>> {
        self.outputs.pop_front()
    }

    /// When [`CopyInput::Tick`] is due; `None` for never.
    pub fn deadline(&self) -> Option<Duration> {
        let waits = self.wires.waits() || !self.awaiting.is_empty();
        waits.then(|| self.looked + LOOK_PAUSE)
    }

    /// True if the region's extent of that slot has copies: its writes go by [`CopyInput::Write`]. A slot may have another region's extent by
    /// now.
    pub fn has(&self, gid: Gid, slot: Slot) -> bool {
        self.slots.get(&slot).is_some_and(|extent| extent.gid == gid)
    }

    fn on_made<M: CopyMemory<Extent = X>>(
        &mut self,
        extent: CopiedExtent,
        set: &HolderSet,
        (slot, at): (Slot, X),
        memory: &mut M,
    ) {
        let Some(me) = self.me else { return };
        let mut part = CopiedPart::new(me, set, (slot, at), memory);
        part.drive(extent, memory, &mut self.wires, &mut self.outputs);
        self.slots.insert(slot, extent);
        if let Some(before) = self.parts.insert(extent, part) {
            self.slots.retain(|other, of| *of != extent || *other == slot);
            before.end(me, &mut self.outputs);
        }
    }

    fn drop_freed<M: CopyMemory<Extent = X>>(&mut self, memory: &M) {
        let Some(me) = self.me else { return };
        let freed: Vec<_> = self.parts.extract_if(.., |_, part| !memory.has(&part.at)).collect();
        for (extent, part) in freed {
            self.slots.remove(&part.slot);
            self.awaiting.remove(&extent);
            part.end(me, &mut self.outputs);
        }
    }

    fn on_holder<M: CopyMemory<Extent = X>>(
        &mut self,
        now: Duration,
        extent: CopiedExtent,
        nodes: Vec<NodeAddress>,
        message: ToHolder,
        memory: &mut M,
    ) {
        let Some(me) = self.me else { return };
        nodes.into_iter().for_each(|node| self.wires.know(node.node, node.address));
        self.with_part(now, extent, memory, |part, outputs| match message {
            ToHolder::Set(set) => part.on_set(&set),
            ToHolder::Freeze { term } => part.freeze(term, extent, outputs),
            ToHolder::Elect { set, has } => part.elect(me, &set, &has),
            ToHolder::Make { node, epoch } => part.make(node, epoch, now),
        });
    }

    fn on_write<M: CopyMemory<Extent = X>>(
        &mut self,
        now: Duration,
        (gid, slot): (Gid, Slot),
        asker: A,
        entry: ExtentWrite,
        memory: &mut M,
    ) {
        let mut is_taken = false;
        if let Some(extent) = self.slots.get(&slot).copied().filter(|extent| extent.gid == gid) {
            self.with_part(now, extent, memory, |part, _| is_taken = part.write(now, asker, Arc::new(entry)).is_ok());
        }
        if !is_taken {
            let outcome = Err(Error::GrantRefused { gid, node: self.me.unwrap_or(NodeId(0)) });
            self.outputs.push_back(CopyOutput::Applied { asker, outcome });
        }
    }

    fn on_dialed<M: CopyMemory<Extent = X>>(&mut self, now: Duration, node: NodeId, place: Option<u64>, memory: &mut M) {
        match self.wires.dialed(node, place, now) {
            wires::Tried::Up => self.with_homes_of(now, node, memory, CopiedPart::on_reconnected),
            wires::Tried::Lost => self.with_homes_of(now, node, memory, CopiedPart::on_silent),
            wires::Tried::Spare => self.outputs.extend(place.map(|place| CopyOutput::Close { place })),
            wires::Tried::Again => {}
        }
    }

    /// Tells all homes here that have a copy on that node.
    fn with_homes_of<M: CopyMemory<Extent = X>>(
        &mut self,
        now: Duration,
        node: NodeId,
        memory: &mut M,
        with: impl Fn(&mut CopiedPart<X, A>, NodeId, Duration),
    ) {
        let those: Vec<CopiedExtent> =
            self.parts.iter().filter(|(_, part)| part.has_peer(node)).map(|(extent, _)| *extent).collect();
        for extent in those {
            self.with_part(now, extent, memory, |part, _| with(part, node, now));
        }
    }

    fn on_frame<M: CopyMemory<Extent = X>>(&mut self, now: Duration, place: u64, bytes: &[u8], memory: &mut M) {
        let outcome = match decode::<CopyFrame>(bytes) {
            Ok(CopyFrame::ToCopy(extent, message)) => self.on_copy_message(now, place, extent, message, memory),
            Ok(CopyFrame::FromCopy(extent, message)) => {
                if let Some(node) = self.wires.dialed_node(place) {
                    self.with_part(now, extent, memory, |part, _| part.on_from_copy(now, node, message));
                }
                Ok(())
            }
            Err(malformed) => Err(malformed),
        };
        if let Err(malformed) = outcome {
            tracing::warn!("a connection about copies was closed: {}", malformed.0);
            self.outputs.push_back(CopyOutput::Close { place });
            let dial = self.wires.gone(place, now);
            self.outputs.extend(dial.map(|(node, address)| CopyOutput::Dial { node, address }));
        }
    }

    /// A home's message to a copy here.
    fn on_copy_message<M: CopyMemory<Extent = X>>(
        &mut self,
        now: Duration,
        place: u64,
        extent: CopiedExtent,
        message: ToCopy,
        memory: &mut M,
    ) -> Result<(), hanare_protocol::wire::Malformed> {
        if self.wires.caller(place).is_none() {
            return Err(hanare_protocol::wire::Malformed("a write by a node that is no caller"));
        }
        // An extent that is freed meanwhile, or not made yet, takes nothing: its home hears nothing of it.
        let Some(part) = self.parts.get_mut(&extent) else { return Ok(()) };
        let replies = part.on_to_copy(message, memory)?;
        for reply in replies {
            let bytes = encode(&CopyFrame::FromCopy(extent, reply));
            self.outputs.push_back(CopyOutput::Send { place, bytes });
        }
        self.with_part(now, extent, memory, |_, _| {});
        Ok(())
    }

    fn tick<M: CopyMemory<Extent = X>>(&mut self, now: Duration, memory: &mut M) {
        if now < self.looked + LOOK_PAUSE {
            return;
        }
        self.looked = now;
        self.outputs.extend(self.wires.tick(now).map(|(node, address)| CopyOutput::Dial { node, address }));
        for extent in self.awaiting.clone() {
            self.with_part(now, extent, memory, |part, _| part.look_at_copies(now, SILENT));
        }
    }

    /// Runs `with` on this node's part of an extent, if it has one, and carries out what comes of it.
    fn with_part<M: CopyMemory<Extent = X>>(
        &mut self,
        now: Duration,
        extent: CopiedExtent,
        memory: &mut M,
        with: impl FnOnce(&mut CopiedPart<X, A>, &mut VecDeque<CopyOutput<A>>),
    ) {
        let Some(part) = self.parts.get_mut(&extent) else { return };
        if self.awaiting.is_empty() {
            // Looks begin with the first write that waits.
            self.looked = self.looked.max(now);
        }
        with(part, &mut self.outputs);
        self.wires.set_now(now);
        part.drive(extent, memory, &mut self.wires, &mut self.outputs);
        match part.awaits_copies() {
            true => self.awaiting.insert(extent),
            false => self.awaiting.remove(&extent),
        };
    }
}

/// A message of a holder to the coordinator.
fn say<A>(extent: CopiedExtent, message: FromHolder) -> CopyOutput<A> {
    CopyOutput::Say { extent, message }
}

/// A message of a home to a copy, as it travels.
fn to_copy(extent: CopiedExtent, message: ToCopy) -> Vec<u8> {
    encode(&CopyFrame::ToCopy(extent, message))
}

/// Replies of a copy, in order.
type Replies = Vec<FromCopy>;
