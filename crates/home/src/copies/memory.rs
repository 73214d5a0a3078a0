//! Extents with copies, as their homes and copies reach them.

use hanare_protocol::Result;
use hanare_protocol::wire::copies::ExtentWrite;

/// Extents of this node. Every call returns at once.
pub trait CopyMemory {
    /// An extent. It keeps its memory.
    type Extent;

    /// Its length in bytes.
    fn len_bytes(&self, extent: &Self::Extent) -> u64;

    /// Returns true while it belongs to its region.
    fn has(&self, extent: &Self::Extent) -> bool;

    /// Carries out a write that lies inside. Returns the elements before it, where the operation gives them.
    ///
    /// **Errors**: memory that the kernel does not supply. Part of it may be done.
    fn apply(&mut self, extent: &Self::Extent, entry: &ExtentWrite) -> Result<Vec<u8>>;

    /// Reads bytes that lie inside. **Errors**: as of [`CopyMemory::apply`].
    fn read(&self, extent: &Self::Extent, offset: u64, len: u64) -> Result<Vec<u8>>;

    /// Writes bytes that lie inside. **Errors**: as of [`CopyMemory::apply`].
    fn write(&mut self, extent: &Self::Extent, offset: u64, bytes: &[u8]) -> Result<()>;

    /// Commands are admitted from here on, or refused.
    fn set_open(&mut self, extent: &Self::Extent, is_open: bool);
}
