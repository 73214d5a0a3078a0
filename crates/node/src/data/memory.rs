//! The node's extents as its home reaches them.

use crate::extent::{NodeExtent, Writing};
use crate::extents::{Extents, Opened};
use crate::lost::lost_memory;
use crate::queues::SharedQueues;
use hanare_home::{Bytes, Memory, QueueArray};
use hanare_memory::exec::{Exec, Stage};
use hanare_memory::{Window, vector};
use hanare_protocol::Result;
use hanare_protocol::id::{Gid, Grant, Rights, Slot};
use hanare_protocol::queue::PortTable;
use hanare_protocol::shape::Shape;
use hanare_protocol::wire::copies::ExtentWrite;

impl Memory for Extents {
    type Extent = Opened;

    fn open(&self, slot: Slot, grant: Grant, need: Rights) -> Result<Opened> {
        Extents::open(self, slot, grant, need)
    }

    fn find(&self, gid: Gid, slot: Slot) -> Option<Opened> {
        Extents::find(self, gid, slot)
    }

    fn has(&self, gid: Gid, slot: Slot) -> bool {
        Extents::has(self, gid, slot)
    }

    fn answers(&self, gid: Gid, slot: Slot) -> bool {
        Extents::answers(self, gid, slot)
    }
}

impl Bytes for Opened {
    type Queues = SharedQueues;

    fn gid(&self) -> Gid {
        self.held().gid()
    }

    fn slot(&self) -> Slot {
        Opened::slot(self)
    }

    fn len_bytes(&self) -> u64 {
        self.held().len()
    }

    fn is_by_pages(&self) -> bool {
        Opened::is_by_pages(self)
    }

    fn apply(&self, write: &ExtentWrite) -> Result<Vec<u8>> {
        let _writing = Writing::ordered(self.held());
        apply(self.held(), write)
    }

    fn set_open(&self, is_open: bool) {
        self.held().set_open(is_open);
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        let reach = self.held().reach();
        reach.window().slice(offset as usize, into.len()).read_into(into).map_err(|lost| lost_memory(&lost))
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.held().will_write([(offset, bytes.len() as u64)]);
        let reach = self.held().reach();
        reach.window().slice(offset as usize, bytes.len()).write_from(bytes).map_err(|lost| lost_memory(&lost))
    }

    fn load_word(&self, offset: u64, len: u64) -> Result<u64> {
        let reach = self.held().reach();
        vector::load_word(reach.window(), offset, len).map_err(|lost| lost_memory(&lost))
    }

    fn begin_heap(&self) -> Result<()> {
        self.held().begin_heap()
    }

    fn with_queues<T>(&self, offset: u64, with: impl FnOnce(&mut QueueArray<'_, SharedQueues>) -> Result<T>) -> Result<T> {
        self.held().with_queues(offset, with)
    }

    fn ports(&self) -> Vec<PortTable> {
        self.held().ports()
    }

    fn set_ports(&self, ports: &[PortTable]) -> bool {
        self.held().set_ports(ports)
    }
}

/// Carries out a write that lies inside. Returns the elements before it, where the operation gives them.
fn apply(held: &NodeExtent, write: &ExtentWrite) -> Result<Vec<u8>> {
    let mut exec = Exec::new(write.op);
    // SAFETY: the operand is borrowed for this call, and only read.
    let operand = unsafe { Window::of(&write.operand) };
    if !write.op.streams_operand() {
        exec.hold(operand).map_err(|lost| lost_memory(&lost))?;
    }
    held.will_write(write.ranges.iter().copied());
    let mut olds = vec![0; if write.op.gives_old() { write.len_bytes() as usize } else { 0 }];
    // SAFETY: the vector is not touched until the stages that get its windows have ended.
    let olds_window = unsafe { Window::of_mut(&mut olds) };
    let (reach, mut done) = (held.reach(), 0);
    for (offset, len) in &write.ranges {
        let shape = Shape::contiguous(*offset, *len).check("of a peer", held.len())?;
        let stage = Stage { memory: reach.window(), shape: &shape, at: 0, len: *len, stream_at: done };
        let part = |window: Window, factor: u64| match window.len() {
            0 => window,
            _ => window.slice((done * factor) as usize, (len * factor) as usize),
        };
        let operand = if write.op.streams_operand() { part(operand, write.op.operand_factor()) } else { Window::empty() };
        exec.stage(stage, operand, part(olds_window, 1)).map_err(|lost| lost_memory(&lost))?;
        done += len;
    }
    drop(reach);
    Ok(olds)
}
