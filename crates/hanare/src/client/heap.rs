//! A region as a heap: blocks taken and given back by any client, the same offsets for all.

use super::call_numbers::NumberedCall;
use super::region::Region;
use hanare_protocol::copies::UpdateCall;
use hanare_protocol::heap::{HeapCall, HeapWish};
use hanare_protocol::id::{Grant, Slot};
use hanare_protocol::wire::command::Op;
use hanare_protocol::wire::sync::{SyncAnswer, SyncRequest};
use hanare_protocol::{Error, Result};

/// The heap of a region: which bytes of it are given out. It is the same for all who open the region, and goes with it.
///
/// The bytes are used as any of the region, by get and put or through a map. Only the nodes that hold the region's first extent know, beside
/// the bytes, which blocks are taken. With copies each call counts once, whichever of them is lost meanwhile. The first 64 bytes of the region are never given out. So offset 0 can stand for no block, and programs
/// keep their first offset there. A region that is used as a heap is not put into by other ways.
#[derive(Clone, Copy, Debug)]
pub struct Heap<'r> {
    region: &'r Region,
}

impl Region {
    /// The region as a heap, all free until the first block is taken. It has the length that the handle knows. After a resize, take blocks
    /// through a handle of a new [`crate::Pool::open`].
    pub fn heap(&self) -> Heap<'_> {
        Heap { region: self }
    }
}

impl Heap<'_> {
    /// Takes a block of `len` bytes, and returns its offset in the region: a multiple of `align`, which is a power of two.
    ///
    /// Blocks are multiples of 64 bytes (of more in regions beyond 256 GiB), so two never share a cache line. Their bytes are
    /// what they were.
    ///
    /// **Cost**: one message each way to the node of the region's first byte. **Errors**: [`Error::HeapFull`] with the free bytes.
    /// [`Error::LimitReached`] for too many blocks. [`Error::BadSetting`] for no bytes, or another alignment. [`Error::BadUse`] where the
    /// region was opened for reading. [`Error::Broken`] where the connection broke: a block may have been taken that nobody knows.
    pub fn allocate(&self, len: u64, align: u64) -> Result<u64> {
        self.call(HeapWish::Allocate { len, align })
    }

    /// Gives back the block that begins at `offset`, whoever took it.
    ///
    /// **Cost**: as for [`Heap::allocate`]. **Errors**: [`Error::NoBlock`] where none begins there, as after a block was
    /// given back twice; [`Error::BadUse`], [`Error::Broken`].
    pub fn free(&self, offset: u64) -> Result<()> {
        self.call(HeapWish::Free { offset }).map(drop)
    }

    /// Bytes of the block that begins at `offset`, whoever took it. They are as many as were asked for, or some more. All may be used.
    ///
    /// **Cost**: as for [`Heap::allocate`]. **Errors**: as for [`Heap::free`].
    pub fn block_len(&self, offset: u64) -> Result<u64> {
        match self.ask(false, |slot, grant, _| SyncRequest::BlockLen { slot, grant, offset })? {
            SyncAnswer::BlockLen { len } => Ok(len),
            _ => Err(Error::Garbage { peer: "the heap's node".to_owned(), reason: "no block".to_owned() }),
        }
    }

    fn call(&self, wish: HeapWish) -> Result<u64> {
        let call = HeapCall { region_len: self.region.len(), wish };
        match self.ask(true, |slot, grant, once| SyncRequest::Heap { slot, grant, call, once })? {
            SyncAnswer::Block { offset } => Ok(offset),
            _ => Err(Error::Garbage { peer: "the heap's node".to_owned(), reason: "no block".to_owned() }),
        }
    }

    /// Asks the heap's home. With copies a call that `changes` the heap counts once, at the next home, too.
    fn ask(&self, changes: bool, request: impl Fn(Slot, Grant, Option<UpdateCall>) -> SyncRequest) -> Result<SyncAnswer> {
        let region = self.region;
        region.check_rights(Op::Put)?;
        let mut number = if region.copies() > 1 && changes { region.shared.calls.begin() } else { None };
        let may_repeat = !changes || number.is_some();
        let answer = region.ask_home(0, may_repeat, |slot, grant| {
            let once = number.as_mut().map(NumberedCall::named);
            request(slot, grant, once)
        });
        // The node knows the region by its number.
        answer.map_err(|error| match error {
            Error::NoBlock { offset, .. } => Error::NoBlock { region: region.name().to_owned(), offset },
            Error::HeapFull { asked, free, largest, .. } => {
                Error::HeapFull { region: region.name().to_owned(), asked, free, largest }
            }
            other => other,
        })
    }
}
