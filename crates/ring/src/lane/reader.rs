//! The reading side of a lane.

use super::{Committed, LaneLayout, LanePosition};
use crate::Corrupt;
use crate::layout::WORD_LEN;
use crate::words::Words;
use hanare_protocol::queue::layout::Unit;

/// The reading side of a lane.
#[derive(Debug)]
pub struct Reader<W> {
    words: W,
    place: LaneLayout,
    /// Begin of the first unit that was not freed.
    head: u64,
    /// Begin of the first unit that was not seen, and its offset from the lane's begin.
    next: u64,
    position: LanePosition,
    /// Tail of a lane of blocks as last read.
    tail: u64,
}

/// A committed unit that was not freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Index of its bytes in the words.
    at: usize,
    len: usize,
    /// Begin of the next.
    end: u64,
}

impl Seen {
    /// Its first byte in the words.
    pub fn at(&self) -> usize {
        self.at
    }

    /// Its length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True for a record of no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl<W: Words> Reader<W> {
    /// Goes on at the first unit that the lane's last reader has not freed. **Errors**: [`Corrupt`].
    pub fn new(words: W, place: LaneLayout) -> Result<Reader<W>, Corrupt> {
        let head = words.load(place.head);
        // A writer of records stores their words before the tail, which may be behind the head just now.
        let tail = if let Unit::Blocks { .. } = place.unit { words.load(place.tail) } else { head };
        place.used(head, tail)?;
        Ok(Reader { words, place, head, next: head, position: place.position(head), tail })
    }

    /// Reads the tail again. True if there are units that were not seen.
    fn look(&mut self) -> Result<bool, Corrupt> {
        let tail = self.words.load(self.place.tail);
        // The tail never goes back behind what was seen.
        if self.place.used(self.head, tail)? < self.next.wrapping_sub(self.head) {
            return Err(Corrupt("a tail that went back"));
        }
        self.tail = tail;
        Ok(self.next != tail)
    }

    /// The next committed unit that was not seen. It stays where it is until it is freed; several may be seen before.
    ///
    /// **Cost**: for records, no shared line but the unit's own. For blocks one more, if there are none up to the tail last read.
    /// **Errors**: [`Corrupt`].
    #[inline(always)]
    #[allow(clippy::should_implement_trait, reason = "it may fail, and there is no last unit")]
    pub fn next(&mut self) -> Result<Option<Seen>, Corrupt> {
        let (at, len, taken) = match self.place.unit {
            Unit::Blocks { len } => {
                if self.next == self.tail && !self.look()? {
                    return Ok(None);
                }
                (self.position.offset, len as usize, u64::from(len).next_multiple_of(WORD_LEN as u64))
            }
            Unit::Records { len_max } => {
                let Some(Committed { position, len, frame, padding }) = self.place.record(&self.words, self.position, len_max)?
                else {
                    return Ok(None);
                };
                if self.held() + padding + frame > self.place.len {
                    return Err(Corrupt("more records than a lane holds"));
                }
                (position.offset + WORD_LEN as u64, len, padding + frame)
            }
        };
        let end = self.next.wrapping_add(taken);
        self.next = end;
        self.position = self.place.behind(self.position, taken);
        Ok(Some(Seen { at: self.place.bytes + at as usize, len, end }))
    }

    /// Copies bytes of a unit out, from byte `at` of it on.
    #[inline]
    pub fn read(&self, seen: &Seen, at: usize, into: &mut [u8]) {
        assert!(at <= seen.len && into.len() <= seen.len - at, "bytes lie in their unit");
        self.words.read(seen.at + at, into);
    }

    /// Gives the room of a unit, and of all before it, back to the writer. Windows and reads of them end before.
    ///
    /// **Cost**: one store to the heads' line.
    #[inline]
    pub fn free(&mut self, seen: &Seen) {
        let (freed, most) = (seen.end.wrapping_sub(self.head), self.next.wrapping_sub(self.head));
        assert!(freed <= most, "units are freed in order, each once");
        self.head = seen.end;
        // ORDERING: pairs with the load in `Writer::look`: the units were read before they are overwritten.
        self.words.store(self.place.head, self.head);
    }

    /// Frees in another reader's name up to a position that it sent, which is input. **Errors**: [`Corrupt`] for a position outside the
    /// units that are there.
    pub fn free_to(&mut self, head: u64) -> Result<(), Corrupt> {
        let used = self.place.used(self.head, self.place.tail(&self.words))?;
        let freed = head.wrapping_sub(self.head);
        if freed > used {
            return Err(Corrupt("more freed than is there"));
        }
        self.place.used(head, self.head.wrapping_add(used))?;
        self.head = head;
        self.words.store(self.place.head, head);
        self.rewind();
        Ok(())
    }

    /// Bytes of units that were seen and not freed.
    pub fn held(&self) -> u64 {
        self.next.wrapping_sub(self.head)
    }

    /// Begin of the first unit that was not freed.
    pub fn head(&self) -> u64 {
        self.head
    }

    /// Sees again what was seen and not freed.
    pub fn rewind(&mut self) {
        (self.next, self.position) = (self.head, self.place.position(self.head));
    }

    /// True if a unit is there that was not seen. **Cost**, **Errors**: as for [`Reader::next`].
    #[inline]
    pub fn has_more(&mut self) -> Result<bool, Corrupt> {
        match self.place.unit {
            Unit::Blocks { .. } => Ok(self.next != self.tail || self.look()?),
            Unit::Records { len_max } => Ok(self.place.record(&self.words, self.position, len_max)?.is_some()),
        }
    }
}
