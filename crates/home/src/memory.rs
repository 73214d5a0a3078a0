//! Memory as a home reaches it: over the lent extents in a node, over vectors in the simulator.

use hanare_protocol::Result;
use hanare_protocol::id::{Gid, Grant, Rights, Slot};
use hanare_protocol::page::{Access, Face};
use hanare_protocol::queue::PortId;

/// The extents of a home.
///
/// Every call returns at once. A call that reaches bytes may fail, because the kernel may have no memory for them.
pub trait Memory {
    /// An extent that was opened. A clone is cheap, and keeps the extent's memory.
    type Extent: Bytes + Clone;

    /// Opens the extent of that slot. **Errors**: [`hanare_protocol::Error::GrantRefused`].
    fn open(&self, slot: Slot, grant: Grant, need: Rights) -> Result<Self::Extent>;

    /// Finds an extent that was opened before. `None` when its region was removed.
    fn find(&self, gid: Gid, slot: Slot) -> Option<Self::Extent>;

    /// Returns true while the region has that extent here.
    fn has(&self, gid: Gid, slot: Slot) -> bool;

    /// Returns true while hosts map the region coherently: its newest pages may be on them.
    fn is_coherent(&self, gid: Gid) -> bool;

    /// Brings pages home. [`Input::Recalled`](crate::Input::Recalled) follows where the answer is [`Recall::Waits`].
    ///
    /// **Errors**: [`hanare_protocol::Error::PageLost`]; `LimitReached` where too many wait for a page.
    fn recall(&mut self, need: Need) -> Result<Recall>;

    /// Lets others have the pages of a recall that was [`Recall::Ready`].
    fn release(&mut self, face: Face);
}

/// One extent.
pub trait Bytes {
    /// The region that it belongs to.
    fn gid(&self) -> Gid;

    /// Its slot at this home.
    fn slot(&self) -> Slot;

    /// Its length in bytes.
    fn len_bytes(&self) -> u64;

    /// Returns true where hosts map it, or are about to: its bytes may be read only after a recall.
    fn is_by_pages(&self) -> bool;

    /// Reads bytes that lie inside it.
    fn read(&self, offset: u64, into: &mut [u8]) -> Result<()>;

    /// Writes bytes that lie inside it.
    fn write(&self, offset: u64, bytes: &[u8]) -> Result<()>;

    /// Reads an aligned word of 2, 4 or 8 bytes by one load.
    fn load_word(&self, offset: u64, len: u64) -> Result<u64>;

    /// Notes that the region's heap begins here. **Errors**: the heap began in a life of the node before this one, and its table is lost.
    fn begin_heap(&self) -> Result<()>;

    /// Runs `with` on the array of queues that begins at `offset`. **Errors**: [`hanare_protocol::Error::NoQueue`].
    fn with_queues<T>(&self, offset: u64, with: impl FnOnce(&mut dyn QueueArray) -> Result<T>) -> Result<T>;
}

/// An array of queues in use.
pub trait QueueArray {
    /// A writer takes a lane. Returns its number, and how many units the home has of this writer.
    fn open_lane(&mut self, queue: u64, writer: PortId, uid: u32) -> Result<(u32, u64)>;

    /// A writer whose connection broke goes on with its lane. Returns how many units the home has of it.
    fn resume_lane(&mut self, queue: u64, lane: u32, writer: PortId) -> Result<u64>;

    /// A writer is done with its lane.
    fn close_lane(&mut self, queue: u64, lane: u32, writer: PortId);

    /// A writer's connection ended.
    fn break_lane(&mut self, queue: u64, lane: u32, writer: PortId);

    /// A reader takes queues.
    fn open_reader(&mut self, first: u64, count: u64, reader: PortId) -> Result<()>;

    /// A reader is done with its queues.
    fn close_reader(&mut self, first: u64, reader: PortId);

    /// A reader's connection ended.
    fn break_reader(&mut self, first: u64, reader: PortId);

    /// The reader of all leaves a queue to the board.
    fn leave(&mut self, queue: u64, reader: PortId) -> Result<()>;

    /// The reader has freed a lane up to `head`.
    fn free(&mut self, lane: (u64, u32), reader: PortId, head: u64) -> Result<()>;

    /// Takes queues from the board, for the reader of all.
    fn take_ready(&mut self, reader: PortId) -> Result<Vec<u64>>;

    /// The reader knows that a lane's writer is dead.
    fn tell(&mut self, lane: (u64, u32), reader: PortId) -> Result<()>;
}

/// Pages that have to be at home.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    /// The region.
    pub gid: Gid,
    /// The extent.
    pub slot: Slot,
    /// Reads leave copies where they are.
    pub access: Access,
    /// Numbers of pages of the extent, ascending, each once.
    pub pages: Vec<u64>,
}

/// The answer to a [`Need`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recall {
    /// The pages are at home; [`Memory::release`] follows.
    Ready(Face),
    /// [`Input::Recalled`](crate::Input::Recalled) follows.
    Waits(Face),
}
