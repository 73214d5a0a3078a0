//! A region as a heap: blocks taken and given back by any client, the same offsets for all.

use super::call_numbers::NumberedCall;
use super::region::Region;
use hanare_protocol::copies::UpdateCall;
use hanare_protocol::heap::{HeapCall, HeapWish};
use hanare_protocol::id::{Grant, Slot};
use hanare_protocol::limits::HEAP_WISH_COUNT_MAX;
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
            _ => Err(no_block()),
        }
    }

    /// Takes blocks by one message: for each length a block as [`Heap::allocate`] takes it, or the reason that there is none. One that is refused
    /// keeps no other from being taken.
    ///
    /// **Cost**: as for [`Heap::allocate`]. **Errors**: [`Error::LimitReached`] for more than [`HEAP_WISH_COUNT_MAX`] lengths. Of the whole
    /// call, too: [`Error::BadUse`], [`Error::Broken`].
    pub fn allocate_many(&self, lens: &[u64], align: u64) -> Result<Vec<Result<u64>>> {
        self.call_many(lens.iter().map(|len| HeapWish::Allocate { len: *len, align }).collect())
    }

    /// Gives blocks back by one message, each as [`Heap::free`] does. **Cost** and **errors**: as for [`Heap::allocate_many`].
    pub fn free_many(&self, offsets: &[u64]) -> Result<Vec<Result<()>>> {
        let freed = self.call_many(offsets.iter().map(|offset| HeapWish::Free { offset: *offset }).collect())?;
        Ok(freed.into_iter().map(|answer| answer.map(drop)).collect())
    }

    fn call(&self, wish: HeapWish) -> Result<u64> {
        let mut answers = self.call_many(vec![wish])?;
        answers.pop().unwrap_or_else(|| Err(no_block()))
    }

    fn call_many(&self, wishes: Vec<HeapWish>) -> Result<Vec<Result<u64>>> {
        if wishes.is_empty() {
            return Ok(Vec::new());
        }
        if wishes.len() > HEAP_WISH_COUNT_MAX {
            let what = "blocks of one call on a heap".to_owned();
            return Err(Error::LimitReached { what, limit: HEAP_WISH_COUNT_MAX as u64 });
        }
        let call = HeapCall { region_len: self.region.len(), wishes };
        let asked = self.ask(true, |slot, grant, once| SyncRequest::Heap { slot, grant, call: call.clone(), once })?;
        let SyncAnswer::Blocks(answers) = asked else { return Err(no_block()) };
        if answers.len() != call.wishes.len() {
            return Err(no_block());
        }
        let each = call.wishes.iter().zip(answers);
        Ok(each.map(|(wish, answer)| answer.map_err(|refusal| wish.error(refusal, self.region.name()))).collect())
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
            other => other,
        })
    }
}

fn no_block() -> Error {
    Error::Garbage { peer: "the heap's node".to_owned(), reason: "no block".to_owned() }
}
