//! Extents with copies: writes of commands that go to copies first, and the connections to nodes that have those.

use super::{SeatedLink, ServiceLoop};
use crate::data::connection::Connection;
use crate::extent::NodeExtent;
use crate::extents::Extents;
use crate::lost::lost_memory;
use crate::notices::ToControl;
use hanare_home::{CopyInput, CopyMemory, CopyOutput, Input, Need};
use hanare_memory::Window;
use hanare_memory::exec::{Exec, Stage};
use hanare_protocol::Result;
use hanare_protocol::id::Slot;
use hanare_protocol::shape::Shape;
use hanare_protocol::wire::copies::ExtentWrite;
use hanare_protocol::wire::greeting::Role;
use std::sync::Arc;

/// The extents that have copies, for the rules.
pub(super) struct CopiedExtents<'a>(&'a Extents);

impl CopyMemory for CopiedExtents<'_> {
    type Extent = (Slot, Arc<NodeExtent>);

    fn len_bytes(&self, (_, held): &Self::Extent) -> u64 {
        held.len()
    }

    fn has(&self, (slot, held): &Self::Extent) -> bool {
        self.0.find(held.gid(), *slot).is_some_and(|opened| Arc::ptr_eq(opened.held(), held))
    }

    fn apply(&mut self, (_, held): &Self::Extent, entry: &ExtentWrite) -> Result<Vec<u8>> {
        apply(held, entry)
    }

    fn read(&self, (_, held): &Self::Extent, offset: u64, len: u64) -> Result<Vec<u8>> {
        let mut bytes = vec![0; len as usize];
        held.reach().window().slice(offset as usize, bytes.len()).read_into(&mut bytes).map_err(|lost| lost_memory(&lost))?;
        Ok(bytes)
    }

    fn write(&mut self, (_, held): &Self::Extent, offset: u64, bytes: &[u8]) -> Result<()> {
        held.will_write([(offset, bytes.len() as u64)]);
        held.reach().window().slice(offset as usize, bytes.len()).write_from(bytes).map_err(|lost| lost_memory(&lost))
    }

    fn set_open(&mut self, (_, held): &Self::Extent, is_open: bool) {
        held.set_open(is_open);
    }
}

/// Carries out a write that lies inside. Returns the elements before it, where the operation gives them.
fn apply(held: &NodeExtent, entry: &ExtentWrite) -> Result<Vec<u8>> {
    let mut exec = Exec::new(entry.op);
    // SAFETY: the operand is borrowed for this call, and only read.
    let operand = unsafe { Window::of(&entry.operand) };
    if !entry.op.streams_operand() {
        exec.hold(operand).map_err(|lost| lost_memory(&lost))?;
    }
    held.will_write(entry.ranges.iter().copied());
    let mut olds = vec![0; if entry.op.gives_old() { entry.len_bytes() as usize } else { 0 }];
    // SAFETY: the vector is not touched until the stages that get its windows have ended.
    let olds_window = unsafe { Window::of_mut(&mut olds) };
    let (reach, mut done) = (held.reach(), 0);
    for (offset, len) in &entry.ranges {
        let shape = Shape::contiguous(*offset, *len).check("of a peer", held.len())?;
        let stage = Stage { memory: reach.window(), shape: &shape, at: 0, len: *len, stream_at: done };
        let part = |window: Window, factor: u64| match window.len() {
            0 => window,
            _ => window.slice((done * factor) as usize, (len * factor) as usize),
        };
        let operand = if entry.op.streams_operand() { part(operand, entry.op.operand_factor()) } else { Window::empty() };
        exec.stage(stage, operand, part(olds_window, 1)).map_err(|lost| lost_memory(&lost))?;
        done += len;
    }
    drop(reach);
    Ok(olds)
}

impl ServiceLoop {
    /// Homes and copies hear of an event; what comes of it leaves at once.
    pub(super) fn tell_copies(&mut self, input: CopyInput<'_, (Slot, Arc<NodeExtent>), u64>) {
        let extents = self.extents.clone();
        self.copies.handle(self.now, input, &mut CopiedExtents(&extents));
        self.serve_copies();
    }

    /// Has the write that a link waits for sent to copies. Returns whether the link goes on at once: it waits for nothing, or cannot write.
    pub(super) fn write_to_copies(&mut self, id: u64, need: &Need) -> bool {
        let Some(place) = self.places.get(&id) else { return true };
        match place.seat.write() {
            Ok(Some(entry)) => {
                self.tell_copies(CopyInput::Write { at: (need.gid, need.slot), asker: id, entry });
                false
            }
            Ok(None) => {
                tracing::error!("a command on an extent with copies waits for no write");
                true
            }
            Err(error) => self.go_on(id, Err(error)).is_none_or(|need| self.recall(id, need)),
        }
    }

    /// Does what the rules order.
    fn serve_copies(&mut self) {
        while let Some(output) = self.copies.poll() {
            match output {
                CopyOutput::Applied { asker, outcome } => {
                    let next = self.places.get_mut(&asker).and_then(|place| place.seat.applied(self.now, outcome));
                    self.wake(asker);
                    if let Some(need) = next {
                        self.recall(asker, need);
                    }
                    // Words that requests wait for may have changed.
                    self.tell_home(Input::Changed);
                }
                CopyOutput::Say { extent, message } => self.control.send(ToControl::Holder(extent, message)),
                CopyOutput::Dial { node, address } => self.peers.dial_wire(Role::Copies, self.me, node, address),
                CopyOutput::Send { place, bytes } => {
                    let Some(SeatedLink { seat: Connection::Wire(_, wire), .. }) = self.places.get_mut(&place) else { continue };
                    match wire.send_bytes(bytes) {
                        Ok(()) => self.wake(place),
                        Err(error) => self.end(place, &error),
                    }
                }
                CopyOutput::Close { place } => drop(self.unseat(place)),
            }
        }
    }
}
