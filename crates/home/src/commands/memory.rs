//! A home's memory, as commands use it: over mapped extents in a node, over vectors in the simulator.

use hanare_protocol::id::{Gid, Slot};
use hanare_protocol::shape::{Checked, Shape};
use hanare_protocol::wire::command::{Command, Op};
use hanare_protocol::wire::face::ProgramFace;
use hanare_protocol::{Error, Result};
use std::ops::Range;

/// The extents of a home, as the commands of one link reach them.
pub trait CommandMemory {
    /// An extent, as one command reaches it.
    type Extent: CommandExtent;
    /// The moves of one command's bytes.
    type Execution: Execution<Extent = Self::Extent>;

    /// Opens the extent that a command names, and checks that the shape lies inside.
    ///
    /// A command that changes bytes as they are keeps hosts from mapping the extent until [`CommandExtent::let_go`].
    ///
    /// **Errors**: [`Error::GrantRefused`] for a grant of another epoch or with fewer rights. Those of [`Shape::check`].
    /// [`Error::BadElement`] for an operation that the processor does not have.
    fn admit(&self, command: &Command, shape: Shape<'static>) -> Result<(Self::Extent, Checked<'static>)>;

    /// Begins the moves of a command of `len` bytes.
    fn begin(&self, op: Op, len: u64) -> Self::Execution;

    /// Notes the face by which the link's program uses the pool: that of all its commands from here on.
    fn used_by(&mut self, face: ProgramFace);

    /// Notes that a command was refused.
    fn refused(&self, error: &Error);

    /// Has a command reach an extent by pages from here on, where hosts are about to map it.
    fn give_way(&self, extent: &mut Self::Extent);
}

/// An extent, as one command reaches it.
pub trait CommandExtent: Clone {
    /// The region that it belongs to.
    fn gid(&self) -> Gid;

    /// Its slot at this home.
    fn slot(&self) -> Slot;

    /// Returns true where hosts map it, or are about to: the pages of each stage come home first.
    fn is_by_pages(&self) -> bool;

    /// Returns true where other nodes have copies of its bytes: a write goes to them first.
    fn has_copies(&self) -> bool;

    /// Returns true where a link may read and write its bytes where they lie.
    fn stays(&self) -> bool;

    /// Writes bytes of the stream of a shape, from its byte `at` on. **Errors**: those of an [`Execution`].
    fn write_stream(&self, shape: &Checked<'static>, at: u64, bytes: &[u8]) -> Result<()>;

    /// The command changes bytes no more: hosts may map the extent.
    fn let_go(&mut self);
}

/// Bytes of a command's stream.
#[derive(Clone, Copy, Debug)]
pub struct StageBytes<'a> {
    /// The command's shape in its extent.
    pub shape: &'a Checked<'static>,
    /// The first byte in the shape's stream.
    pub at: u64,
    /// The number of bytes.
    pub len: u64,
}

/// The moves of one command's bytes.
///
/// **Errors**: [`Error::System`] for memory that the kernel could not supply. Part of a move may be done then.
pub trait Execution {
    /// The extent that it moves bytes of.
    type Extent;
    /// The result of a command.
    type Result;

    /// Keeps the next bytes of an operand that is no stream.
    fn hold(&mut self, bytes: &[u8]) -> Result<()>;

    /// The bytes of an operand that is no stream.
    fn held(&self) -> &[u8];

    /// Does a stage. `operand` has its bytes of an operand that is a stream.
    fn stage(&mut self, extent: &Self::Extent, stage: StageBytes<'_>, operand: &[u8]) -> Result<()>;

    /// Keeps the elements before a stage that was done elsewhere.
    fn keep_olds(&mut self, olds: &[u8]);

    /// Reads bytes of a command's stream.
    fn read(extent: &Self::Extent, stage: StageBytes<'_>) -> Result<Vec<u8>>;

    /// Appends the operand to a lane of the array of queues that begins at `offset`.
    fn append(&mut self, extent: &Self::Extent, offset: u64, lane: u32) -> Result<()>;

    /// Copies a range of the stream from one shape to another.
    fn copy(source: CopyEnd<'_, Self::Extent>, target: CopyEnd<'_, Self::Extent>, range: Range<u64>) -> Result<()>;

    /// All bytes of the command are moved: fills in the result that only the whole stream gives.
    fn conclude(&mut self);

    /// The result of a command that was concluded.
    fn into_result(self) -> Self::Result;
}

/// An end of a copy: the extent, and its bytes.
pub type CopyEnd<'a, E> = (&'a E, &'a Checked<'static>);
