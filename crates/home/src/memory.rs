//! Memory as a home reaches it: over the lent extents in a node, over vectors in the simulator.

use crate::queue_arrays::QueueArray;
use crate::queue_words::QueueWords;
use hanare_protocol::Result;
use hanare_protocol::id::{Gid, Grant, Rights, Slot};
use hanare_protocol::page::{Access, Face};
use hanare_protocol::queue::PortTable;
use hanare_protocol::wire::copies::ExtentWrite;

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

    /// Returns false for an extent with copies of which another node may be home. True for all others.
    fn answers(&self, gid: Gid, slot: Slot) -> bool;
}

/// An extent.
pub trait Bytes {
    /// The words of its arrays of queues.
    type Queues: QueueWords;

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

    /// Carries out a write that lies inside, of a region with copies. Returns the elements before it, where the operation gives them. Part of a
    /// write that fails may be done.
    fn apply(&self, write: &ExtentWrite) -> Result<Vec<u8>>;

    /// Commands on an extent with copies are admitted from here on, or refused.
    fn set_open(&self, is_open: bool);

    /// Reads an aligned word of 2, 4 or 8 bytes by one load.
    fn load_word(&self, offset: u64, len: u64) -> Result<u64>;

    /// Notes that the region's heap begins here. **Errors**: the heap began in a life of the node before this one, and its table is lost.
    fn begin_heap(&self) -> Result<()>;

    /// Runs `with` on the array of queues that begins at `offset`. **Errors**: [`hanare_protocol::Error::NoQueue`].
    fn with_queues<T>(&self, offset: u64, with: impl FnOnce(&mut QueueArray<'_, Self::Queues>) -> Result<T>) -> Result<T>;

    /// The ports of its arrays of queues that are in use.
    fn ports(&self) -> Vec<PortTable>;

    /// Takes the ports that a home has told of, in place of its own. False for those that no home has.
    fn set_ports(&self, ports: &[PortTable]) -> bool;
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
    /// The pages are at home; [`PageInput::Release`](crate::PageInput::Release) follows.
    Ready(Face),
    /// [`PageOutput::Recalled`](crate::PageOutput::Recalled) follows.
    Waits(Face),
}
