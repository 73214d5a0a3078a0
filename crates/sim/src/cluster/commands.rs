//! Commands of programs on extents of the pool, and the memory that they reach: that of a node's process.

use super::memory::SimExtent;
use hanare_home::{Bytes, CommandExtent, CommandMemory, VectorExecution, write_runs};
use hanare_protocol::id::{Gid, Grant, NodeId, Slot};
use hanare_protocol::shape::{Checked, Shape};
use hanare_protocol::wire::command::{Command, Op};
use hanare_protocol::wire::face::ProgramFace;
use hanare_protocol::wire::head::{Head, Kind};
use hanare_protocol::{Error, Result};
use std::cell::RefCell;
use std::rc::Rc;

/// A piece of a message.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    pub head: Head,
    /// The message begins with it.
    pub begins: bool,
    pub bytes: Rc<[u8]>,
}

/// A program's command, as a message of a link.
#[derive(Debug)]
pub(crate) struct LinkCommand<'a> {
    pub op: Op,
    pub at: (Slot, Grant),
    pub shape: Shape<'a>,
    pub operand: Vec<u8>,
    /// Its call, as a head has it; 0 for none.
    pub call: u64,
}

impl LinkCommand<'_> {
    /// The message of that number.
    pub fn message(&self, seq: u64) -> Piece {
        let LinkCommand { op, at: (slot, grant), shape, operand, call } = self;
        let front = Command::new(*op, 0, *slot, *grant, shape).encode();
        let body_len = (front.len() + operand.len()) as u64;
        let head = Head { count: 1, body_len, detail: *call, ..Head::new(Kind::Commands, seq) };
        Piece { head, begins: true, bytes: [&front[..], operand].concat().into() }
    }
}

/// The error for an extent that is not open.
pub(crate) fn refused() -> Error {
    Error::GrantRefused { gid: Gid(0), node: NodeId(0) }
}

/// An extent of the message that comes, as its process opens it.
type OpenedExtent = ((Slot, Grant), Result<SimExtent>);

/// The extents of that message.
#[derive(Clone, Debug, Default)]
pub(crate) struct Opened(Rc<RefCell<Vec<OpenedExtent>>>);

impl Opened {
    pub fn set(&self, extents: Vec<OpenedExtent>) {
        self.0.replace(extents);
    }
}

impl CommandMemory for Opened {
    type Extent = SimExtent;
    type Execution = VectorExecution<SimExtent>;

    fn admit(&self, command: &Command, shape: Shape<'static>) -> Result<(SimExtent, Checked<'static>)> {
        let (opened, wanted) = (self.0.borrow(), (command.slot, command.grant));
        let extent =
            opened.iter().find(|(named, _)| *named == wanted).map_or_else(|| Err(refused()), |(_, extent)| extent.clone())?;
        let shape = shape.check("an extent", extent.len_bytes())?;
        Ok((extent, shape))
    }

    fn begin(&self, op: Op, _len: u64) -> VectorExecution<SimExtent> {
        VectorExecution::new(op)
    }

    fn used_by(&mut self, _face: ProgramFace) {}

    fn refused(&self, _error: &Error) {}

    fn give_way(&self, _extent: &mut SimExtent) {}
}

impl CommandExtent for SimExtent {
    fn gid(&self) -> Gid {
        Bytes::gid(self)
    }

    fn slot(&self) -> Slot {
        Bytes::slot(self)
    }

    fn is_by_pages(&self) -> bool {
        self.is_copied() || self.is_mapped()
    }

    fn has_copies(&self) -> bool {
        self.is_copied()
    }

    fn stays(&self) -> bool {
        !CommandExtent::is_by_pages(self)
    }

    fn write_stream(&self, shape: &Checked<'static>, at: u64, bytes: &[u8]) -> Result<()> {
        if self.is_away() {
            return Err(Error::IsMapped { gid: CommandExtent::gid(self) });
        }
        write_runs(self, shape, at, bytes)
    }

    fn let_go(&mut self) {}
}
