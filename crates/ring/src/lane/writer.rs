//! The writing side of a lane.

use super::{PADDING, Place};
use crate::layout::WORD_LEN;
use crate::spsc::Corrupt;
use crate::words::Words;
use hanare_protocol::queue::layout::Unit;

/// The writing side of a lane.
#[derive(Debug)]
pub struct Writer<W> {
    words: W,
    place: Place,
    /// Where the next unit begins: behind all that was kept or committed.
    next: u64,
    /// The same, counted from the lane's begin.
    offset: u64,
    /// The tail as stored last.
    tail: u64,
    /// The head as last read.
    head: u64,
    claim: Option<Room>,
}

#[derive(Clone, Copy, Debug)]
struct Room {
    /// Bytes left empty before it, up to the lane's end.
    padding: u64,
    /// Where its bytes are, from the lane's begin.
    at: u64,
    len: usize,
    /// Bytes of its frame.
    frame: u64,
}

impl<W: Words> Writer<W> {
    /// Goes on where the lane's last writer committed. **Errors**: [`Corrupt`].
    pub fn new(words: W, place: Place) -> Result<Writer<W>, Corrupt> {
        let (head, tail) = (words.load(place.head), words.load(place.tail));
        place.used(head, tail)?;
        Ok(Writer { words, place, next: tail, offset: tail % place.len, tail, head, claim: None })
    }

    /// Bytes that are free behind what was kept, looking at the head only where that may help.
    #[inline]
    fn free(&mut self, wanted: u64) -> Result<u64, Corrupt> {
        let free = self.place.len - self.next.wrapping_sub(self.head);
        if free >= wanted { Ok(free) } else { self.look() }
    }

    #[cold]
    fn look(&mut self) -> Result<u64, Corrupt> {
        let head = self.words.load(self.place.head);
        let used = self.place.used(head, self.next)?;
        self.head = head;
        Ok(self.place.len - used)
    }

    /// Takes room for a unit of `len` bytes, of a length that the queue's form allows; false where there is none. A claim that was not
    /// committed is abandoned.
    ///
    /// **Cost**: no shared line while the room last seen suffices. **Errors**: [`Corrupt`].
    #[inline]
    pub fn claim(&mut self, len: usize) -> Result<bool, Corrupt> {
        self.claim = None;
        let to_end = self.place.len - self.offset;
        let claim = match self.place.unit {
            Unit::Blocks { .. } => {
                Room { padding: 0, at: self.offset, len, frame: (len as u64).next_multiple_of(WORD_LEN as u64) }
            }
            Unit::Records { .. } => {
                let frame = WORD_LEN as u64 + (len as u64).next_multiple_of(WORD_LEN as u64);
                let padding = if frame <= to_end { 0 } else { to_end };
                let at = if padding == 0 { self.offset } else { 0 };
                Room { padding, at: at + WORD_LEN as u64, len, frame }
            }
        };
        if self.free(claim.padding + claim.frame)? < claim.padding + claim.frame {
            return Ok(false);
        }
        self.claim = Some(claim);
        Ok(true)
    }

    /// Fills bytes of the claimed unit, from byte `at` of it on.
    #[inline]
    pub fn fill(&mut self, at: usize, bytes: &[u8]) {
        let claim = self.claim.expect("a unit is claimed before it is filled");
        assert!(at <= claim.len && bytes.len() <= claim.len - at, "bytes lie in their unit");
        self.words.write(self.place.bytes + claim.at as usize + at, bytes);
    }

    /// Has the claimed unit committed with the next [`Writer::publish`]. False where nothing is claimed.
    #[inline]
    pub fn keep(&mut self) -> bool {
        let Some(claim) = self.claim.take() else { return false };
        if let Unit::Records { .. } = self.place.unit {
            let word = |at: u64| (self.place.bytes + at as usize) / WORD_LEN;
            if claim.padding > 0 {
                self.words.store(word(self.offset), PADDING);
            }
            self.words.store(word(claim.at) - 1, claim.len as u64);
        }
        self.next = self.next.wrapping_add(claim.padding + claim.frame);
        let end = self.offset + claim.padding + claim.frame;
        self.offset = if end >= self.place.len { end - self.place.len } else { end };
        true
    }

    /// Commits all that was kept: from here on the reader sees it.
    ///
    /// **Cost**: one store to the tail's line.
    #[inline]
    pub fn publish(&mut self) {
        if self.next != self.tail {
            self.tail = self.next;
            // ORDERING: pairs with the load in `Reader::look`: the units' bytes are visible before the tail.
            self.words.store(self.place.tail, self.tail);
        }
    }

    /// Commits the claimed unit, and all that was kept.
    #[inline]
    pub fn commit(&mut self) {
        self.keep();
        self.publish();
    }

    /// The claimed unit's first byte in the words, and its length.
    pub fn claimed(&self) -> Option<(usize, usize)> {
        self.claim.map(|claim| (self.place.bytes + claim.at as usize, claim.len))
    }

    /// Gives the claimed unit up: nobody sees it. What was kept stays kept.
    pub fn abandon(&mut self) {
        self.claim = None;
    }

    /// Copies a unit in and commits it; false where there is no room. **Errors**: [`Corrupt`].
    pub fn push(&mut self, unit: &[u8]) -> Result<bool, Corrupt> {
        let has_room = self.claim(unit.len())?;
        if has_room {
            self.fill(0, unit);
            self.commit();
        }
        Ok(has_room)
    }

    /// Takes note of units that the lane's home appended in this writer's name; nothing is kept or claimed meanwhile.
    pub fn catch_up(&mut self) -> Result<(), Corrupt> {
        let (head, tail) = (self.words.load(self.place.head), self.words.load(self.place.tail));
        self.place.used(head, tail)?;
        (self.next, self.tail, self.head, self.offset, self.claim) = (tail, tail, head, tail % self.place.len, None);
        Ok(())
    }
}
