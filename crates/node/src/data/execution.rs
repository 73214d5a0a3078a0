//! The moves of a command's bytes. `hanare-home` decides which are next.

use crate::counts::{Counts, CountsByFace, Timing};
use crate::extent::Writing;
use crate::extents::{Extents, Opened};
use crate::lost::lost_memory;
use hanare_home::{CommandExtent, CommandMemory, CopyEnd, Execution, StageBytes, runs};
use hanare_memory::exec::{self, Exec, Stage};
use hanare_memory::{Window, vector};
use hanare_protocol::element::Element;
use hanare_protocol::id::{ClientId, Gid, Slot};
use hanare_protocol::limits::STAGE_LEN;
use hanare_protocol::shape::{Checked, Shape};
use hanare_protocol::wire::command::{Command, Op};
use hanare_protocol::wire::control::CommandOrigin;
use hanare_protocol::wire::face::ProgramFace;
use hanare_protocol::{Error, Result};
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

/// The node's extents, for the commands of one link.
pub(crate) struct CommandExtents {
    pub extents: Arc<Extents>,
    /// The program; 0 for a node.
    pub client: ClientId,
    pub from: CommandOrigin,
    /// The counts of the link's user, and those of its face.
    pub faces: CountsByFace,
    pub counts: Arc<Counts>,
}

/// An extent, as one command reaches it.
#[derive(Clone)]
pub(crate) struct ReachedExtent {
    pub opened: Opened,
    /// Keeps hosts from mapping the extent, while a command changes its bytes as they are.
    writing: Option<Writing>,
}

/// A command under way.
pub(crate) struct NodeExecution {
    op: Op,
    exec: Exec,
    /// The result, where it is not read from the extent as it leaves: old values, a difference, a summary.
    pub result: Vec<u8>,
    _watch: Timing,
}

impl CommandExtents {
    /// A part of stores was taken that came at that time. It counts as a put of `len` bytes.
    pub fn stored(&self, len: u64, begun: Instant) {
        drop(self.counts.watch_since(&Op::Put, self.from, len, begun));
    }
}

impl CommandMemory for CommandExtents {
    type Extent = ReachedExtent;
    type Execution = NodeExecution;

    fn admit(&self, command: &Command, shape: Shape<'static>) -> Result<(ReachedExtent, Checked<'static>)> {
        let (opened, shape, writing) = self.extents.admit(command, shape)?;
        if command.op.element() == Some(Element::U128) {
            exec::check(command.op, "of a peer", &shape)?;
        }
        if self.client != ClientId(0) {
            opened.held().usage().moved(self.client.node(), shape.len());
        }
        Ok((ReachedExtent { opened, writing }, shape))
    }

    fn begin(&self, op: Op, len: u64) -> NodeExecution {
        NodeExecution { op, exec: Exec::new(op), result: Vec::new(), _watch: self.counts.watch(&op, self.from, len) }
    }

    fn used_by(&mut self, face: ProgramFace) {
        self.counts = self.faces.of(face);
    }

    fn refused(&self, error: &Error) {
        self.counts.refused(error);
    }

    fn give_way(&self, extent: &mut ReachedExtent) {
        if extent.writing.is_some() && extent.opened.give_way(&self.extents) {
            extent.writing = None;
        }
    }
}

impl CommandExtent for ReachedExtent {
    fn gid(&self) -> Gid {
        self.opened.held().gid()
    }

    fn slot(&self) -> Slot {
        self.opened.slot()
    }

    fn is_by_pages(&self) -> bool {
        self.opened.is_by_pages()
    }

    fn has_copies(&self) -> bool {
        self.opened.held().has_copies()
    }

    fn stays(&self) -> bool {
        self.opened.stays().is_some()
    }

    fn write_stream(&self, shape: &Checked<'static>, at: u64, bytes: &[u8]) -> Result<()> {
        let held = self.opened.held();
        held.will_write(runs(shape, at, bytes.len() as u64));
        let reach = held.reach();
        // SAFETY: the bytes are borrowed for this call, and only read.
        let bytes = unsafe { Window::of(bytes) };
        vector::scatter_part(bytes, reach.window(), shape, at).map_err(|lost| lost_memory(&lost))
    }

    fn let_go(&mut self) {
        self.writing = None;
    }
}

impl NodeExecution {
    /// A place for an operand that is no stream, of which nothing has come.
    pub fn hold_place(&mut self, len: u64) -> Window {
        self.exec.hold_place(len as usize)
    }

    /// Room for the next old values.
    fn olds(&mut self, len: u64) -> Window {
        let old = self.result.len();
        self.result.resize(old + len as usize, 0);
        // SAFETY: the result is not touched until the stage that gets the window has ended.
        unsafe { Window::of_mut(&mut self.result) }.slice(old, len as usize)
    }
}

impl Execution for NodeExecution {
    type Extent = ReachedExtent;
    type Result = Vec<u8>;

    fn hold(&mut self, bytes: &[u8]) -> Result<()> {
        // SAFETY: the bytes are borrowed for this call, and only read.
        self.exec.hold(unsafe { Window::of(bytes) }).map_err(|lost| lost_memory(&lost))
    }

    fn held(&self) -> &[u8] {
        self.exec.held()
    }

    fn stage(&mut self, extent: &ReachedExtent, StageBytes { shape, at, len }: StageBytes<'_>, operand: &[u8]) -> Result<()> {
        let olds = if self.op.gives_old() { self.olds(len) } else { Window::empty() };
        let held = extent.opened.held();
        if self.op.writes() {
            held.will_write(runs(shape, at, len));
        }
        let reach = held.reach();
        let stage = Stage { memory: reach.window(), shape, at, len, stream_at: at };
        // SAFETY: the operand is borrowed for this call, and only read.
        let operand = unsafe { Window::of(operand) };
        self.exec.stage(stage, operand, olds).map_err(|lost| lost_memory(&lost))
    }

    fn keep_olds(&mut self, olds: &[u8]) {
        self.result.extend_from_slice(olds);
    }

    fn read(extent: &ReachedExtent, StageBytes { shape, at, len }: StageBytes<'_>) -> Result<Vec<u8>> {
        let mut bytes = vec![0; len as usize];
        gather_stream((extent, shape), at, &mut bytes)?;
        Ok(bytes)
    }

    fn append(&mut self, extent: &ReachedExtent, offset: u64, lane: u32) -> Result<()> {
        self.result = extent.opened.held().append(offset, lane, self.exec.held())?.to_vec();
        Ok(())
    }

    fn copy(source: CopyEnd<'_, ReachedExtent>, target: CopyEnd<'_, ReachedExtent>, range: Range<u64>) -> Result<()> {
        copy_range(source, target, range)
    }

    fn conclude(&mut self) {
        if let Some(told) = self.exec.told() {
            self.result = told;
        }
    }

    fn into_result(self) -> Vec<u8> {
        self.result
    }
}

/// Copies bytes of a stream from byte `at` on.
pub(super) fn gather_stream((extent, shape): CopyEnd<'_, ReachedExtent>, at: u64, into: &mut [u8]) -> Result<()> {
    let reach = extent.opened.held().reach();
    // SAFETY: the buffer is borrowed for this call.
    let into = unsafe { Window::of_mut(into) };
    vector::gather_part(reach.window(), shape, at, into).map_err(|lost| lost_memory(&lost))
}

/// Copies a range of the stream of a pair. It is done at once if a side is contiguous and both stay where they are, else through a buffer.
fn copy_range(
    (from, source): CopyEnd<'_, ReachedExtent>,
    (to, target): CopyEnd<'_, ReachedExtent>,
    Range { start: at, end }: Range<u64>,
) -> Result<()> {
    to.opened.held().will_write(runs(target, at, end - at));
    if let (Some(read), Some(written)) = (from.opened.stays(), to.opened.stays()) {
        let part = |window: Window, offset: u64| window.slice((offset + at) as usize, (end - at) as usize);
        match (source.range(), target.range()) {
            (Some((offset, _)), _) => {
                return vector::scatter_part(part(read, offset), written, target, at).map_err(|lost| lost_memory(&lost));
            }
            (_, Some((offset, _))) => {
                return vector::gather_part(read, source, at, part(written, offset)).map_err(|lost| lost_memory(&lost));
            }
            _ => {}
        }
    }
    let mut buffer = vec![0; STAGE_LEN.min((end - at) as usize)];
    let mut at = at;
    while at < end {
        let len = (end - at).min(buffer.len() as u64) as usize;
        gather_stream((from, source), at, &mut buffer[..len])?;
        // SAFETY: the buffer is borrowed for this iteration, and only read.
        let bytes = unsafe { Window::of(&buffer[..len]) };
        let reach = to.opened.held().reach();
        vector::scatter_part(bytes, reach.window(), target, at).map_err(|lost| lost_memory(&lost))?;
        at += len as u64;
    }
    Ok(())
}
