//! Commands on vectors: puts, gets, fills, copies and appends.

use super::{Vector, Vectors};
use crate::commands::{CommandExtent, CommandMemory, CopyEnd, Execution, StageBytes, runs};
use crate::memory::{Bytes, Memory};
use hanare_protocol::id::{Gid, Rights, Slot};
use hanare_protocol::shape::{Checked, Shape};
use hanare_protocol::wire::command::{Command, Op};
use hanare_protocol::wire::copies::ExtentWrite;
use hanare_protocol::wire::face::ProgramFace;
use hanare_protocol::wire::queue::encode_appended;
use hanare_protocol::{Error, Result};
use std::marker::PhantomData;
use std::ops::Range;
use std::rc::Rc;

/// Vectors, for the commands of one link.
impl CommandMemory for Rc<Vectors> {
    type Extent = Vector;
    type Execution = VectorExecution<Vector>;

    fn admit(&self, command: &Command, shape: Shape<'static>) -> Result<(Vector, Checked<'static>)> {
        let need = if command.op.writes() { Rights::Write } else { Rights::Read };
        let extent = self.open(command.slot, command.grant, need)?;
        let shape = shape.check("a vector", extent.len_bytes())?;
        Ok((extent, shape))
    }

    fn begin(&self, op: Op, _len: u64) -> VectorExecution<Vector> {
        VectorExecution::new(op)
    }

    fn used_by(&mut self, _face: ProgramFace) {}

    fn refused(&self, _error: &Error) {}

    fn give_way(&self, _extent: &mut Vector) {}
}

impl CommandExtent for Vector {
    fn gid(&self) -> Gid {
        Bytes::gid(self)
    }

    fn slot(&self) -> Slot {
        Bytes::slot(self)
    }

    fn is_by_pages(&self) -> bool {
        Bytes::is_by_pages(self) || self.has_copies
    }

    fn has_copies(&self) -> bool {
        self.has_copies
    }

    fn stays(&self) -> bool {
        !CommandExtent::is_by_pages(self)
    }

    fn write_stream(&self, shape: &Checked<'static>, at: u64, bytes: &[u8]) -> Result<()> {
        write_runs(self, shape, at, bytes)
    }

    fn let_go(&mut self) {}
}

/// Writes bytes of the stream of a shape to an extent of a simulator, from the stream's byte `at` on.
pub fn write_runs(extent: &impl Bytes, shape: &Checked<'static>, at: u64, bytes: &[u8]) -> Result<()> {
    let mut rest = bytes;
    for (offset, run) in runs(shape, at, bytes.len() as u64) {
        let (written, behind) = rest.split_at(run as usize);
        extent.write(offset, written)?;
        rest = behind;
    }
    Ok(())
}

/// A command on an extent of a simulator under way.
#[derive(Debug)]
pub struct VectorExecution<E> {
    op: Op,
    held: Vec<u8>,
    result: Vec<u8>,
    extent: PhantomData<E>,
}

impl<E> VectorExecution<E> {
    /// A command of which nothing was done.
    pub fn new(op: Op) -> VectorExecution<E> {
        VectorExecution { op, held: Vec::new(), result: Vec::new(), extent: PhantomData }
    }

    /// The bytes of its result that are there.
    pub fn result(&self) -> &[u8] {
        &self.result
    }
}

impl<E: Bytes + CommandExtent> Execution for VectorExecution<E> {
    type Extent = E;
    type Result = Vec<u8>;

    fn hold(&mut self, bytes: &[u8]) -> Result<()> {
        self.held.extend_from_slice(bytes);
        Ok(())
    }

    fn held(&self) -> &[u8] {
        &self.held
    }

    fn stage(&mut self, extent: &E, StageBytes { shape, at, len }: StageBytes<'_>, operand: &[u8]) -> Result<()> {
        match self.op {
            Op::Put => extent.write_stream(shape, at, &operand[..len as usize]),
            Op::Fill { .. } => {
                let stream = self.held.iter().cycle().skip(at as usize % self.held.len());
                extent.write_stream(shape, at, &stream.take(len as usize).copied().collect::<Vec<u8>>())
            }
            op => {
                let operand = if op.streams_operand() { operand } else { &self.held };
                let ranges = runs(shape, at, len).collect();
                let olds = extent.apply(&ExtentWrite { op, ..ExtentWrite::put(ranges, operand.to_vec()) })?;
                self.result.extend(olds);
                Ok(())
            }
        }
    }

    fn keep_olds(&mut self, olds: &[u8]) {
        self.result.extend_from_slice(olds);
    }

    fn read(extent: &E, StageBytes { shape, at, len }: StageBytes<'_>) -> Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(len as usize);
        for (offset, run) in runs(shape, at, len) {
            let mut read = vec![0; run as usize];
            extent.read(offset, &mut read)?;
            bytes.append(&mut read);
        }
        Ok(bytes)
    }

    fn append(&mut self, extent: &E, offset: u64, lane: u32) -> Result<()> {
        let (appended, head) = extent.with_queues(offset, |array| array.append(lane, &self.held))?;
        self.result = encode_appended(&appended, head).to_vec();
        Ok(())
    }

    fn copy((source, from): CopyEnd<'_, E>, (target, to): CopyEnd<'_, E>, range: Range<u64>) -> Result<()> {
        let (at, len) = (range.start, range.end - range.start);
        let bytes = Self::read(source, StageBytes { shape: from, at, len })?;
        target.write_stream(to, at, &bytes)
    }

    fn conclude(&mut self) {}

    fn into_result(self) -> Vec<u8> {
        self.result
    }
}
