//! Commands of programs on extents of the pool: links as a node serves them, over the memory of its process.

use super::memory::SimExtent;
use crate::served_link::{LinkStep, Piece, ServedLink};
use hanare_home::{Bytes, CommandExtent, CommandMemory, VectorExecution, write_runs};
use hanare_protocol::id::{Gid, Grant, NodeId, Slot};
use hanare_protocol::shape::{Checked, Shape};
use hanare_protocol::wire::command::{Command, Op};
use hanare_protocol::wire::face::ProgramFace;
use hanare_protocol::wire::head::{Head, Kind};
use hanare_protocol::{Error, Result};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

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

/// A link of a program to a home.
#[derive(Debug)]
pub(crate) struct CommandLink {
    opened: Opened,
    served: ServedLink<Opened>,
}

impl CommandLink {
    /// A link that nothing has named: its commands count as often as they come.
    pub fn new() -> CommandLink {
        let opened = Opened::default();
        CommandLink { served: ServedLink::new(opened.clone()), opened }
    }

    /// A link of that program. **Errors**: the link would end.
    pub fn of_client(client: u64) -> std::result::Result<CommandLink, String> {
        let opened = Opened::default();
        Ok(CommandLink { served: ServedLink::of_client(opened.clone(), client)?, opened })
    }

    /// A message comes, whose extent its node opens so. Returns true if it is taken now: one at a time is.
    pub fn takes(&mut self, seq: u64, command: &LinkCommand<'_>, extent: Result<SimExtent>) -> std::result::Result<bool, String> {
        let LinkCommand { op, at: (slot, grant), shape, operand, call } = command;
        let front = Command::new(*op, 0, *slot, *grant, shape).encode();
        let body_len = (front.len() + operand.len()) as u64;
        let head = Head { count: 1, body_len, detail: *call, ..Head::new(Kind::Commands, seq) };
        let piece = Piece { head, begins: true, bytes: [&front[..], operand].concat().into() };
        self.opened.0.replace(Some(extent));
        let is_taken = self.served.takes(&piece);
        self.opened.0.replace(None);
        is_taken
    }

    /// See [`ServedLink::applied`].
    pub fn applied(&mut self, outcome: Result<Vec<u8>>) {
        self.served.applied(outcome);
    }

    /// See [`ServedLink::step`].
    pub fn step(&mut self, now_ms: u64) -> std::result::Result<LinkStep, String> {
        self.served.step(Duration::from_millis(now_ms))
    }
}

/// The extent of the message that comes, as its process opens it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Opened(Rc<RefCell<Option<Result<SimExtent>>>>);

impl CommandMemory for Opened {
    type Extent = SimExtent;
    type Execution = VectorExecution<SimExtent>;

    fn admit(&self, _command: &Command, shape: Shape<'static>) -> Result<(SimExtent, Checked<'static>)> {
        let refused = || Err(Error::GrantRefused { gid: Gid(0), node: NodeId(0) });
        let extent = self.0.take().unwrap_or_else(refused)?;
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
        self.is_copied()
    }

    fn has_copies(&self) -> bool {
        self.is_copied()
    }

    fn stays(&self) -> bool {
        !self.is_copied()
    }

    fn write_stream(&self, shape: &Checked<'static>, at: u64, bytes: &[u8]) -> Result<()> {
        write_runs(self, shape, at, bytes)
    }

    fn let_go(&mut self) {}
}
