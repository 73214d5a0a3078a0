//! The writing side of a lane.

use super::{LaneLayout, LanePosition, NOTHING, PADDING};
use crate::Corrupt;
use crate::layout::WORD_LEN;
use crate::words::Words;
use hanare_protocol::queue::layout::Unit;

/// The writing side of a lane.
#[derive(Debug)]
pub struct Writer<W> {
    words: W,
    place: LaneLayout,
    /// Begin of the next unit: behind all that was kept or committed.
    next: u64,
    /// The same, counted from the lane's begin.
    position: LanePosition,
    /// The tail as stored last.
    tail: u64,
    /// The head as last read.
    head: u64,
    claim: Option<Room>,
    /// Word of the first kept record, which commits all of them.
    withheld: Option<(usize, u64)>,
}

/// Distance ahead of a block at which lines are asked for. While one comes from the reader, some eight blocks of a line are written.
const AHEAD_LEN: u64 = 512;

#[derive(Clone, Copy, Debug)]
struct Room {
    /// Bytes left empty before it, up to the lane's end.
    padding: u64,
    /// Begin of its bytes, from the lane's begin.
    at: u64,
    len: usize,
    /// Bytes of its frame.
    frame: u64,
}

impl<W: Words> Writer<W> {
    /// Goes on where the lane's last writer committed. **Errors**: [`Corrupt`].
    pub fn new(words: W, place: LaneLayout) -> Result<Writer<W>, Corrupt> {
        let (head, tail) = (words.load(place.head), place.tail(&words));
        place.used(head, tail)?;
        Ok(Writer { words, place, next: tail, position: place.position(tail), tail, head, claim: None, withheld: None })
    }

    /// Free bytes behind the kept units. Reads the head only where fewer than `wanted` are known to be free.
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

    /// Takes room for a unit of `len` bytes, of a length that the queue's form allows. False if there is none.
    ///
    /// **Cost**: no shared line while the room last seen suffices. **Errors**: [`Corrupt`].
    #[inline]
    pub fn claim(&mut self, len: usize) -> Result<bool, Corrupt> {
        self.claim = self.room(len)?;
        Ok(self.claim.is_some())
    }

    /// Room for a unit behind those that were kept.
    #[inline(always)]
    fn room(&mut self, len: usize) -> Result<Option<Room>, Corrupt> {
        let LanePosition { offset, .. } = self.position;
        let to_end = self.place.len - offset;
        let room = match self.place.unit {
            Unit::Blocks { .. } => Room { padding: 0, at: offset, len, frame: (len as u64).next_multiple_of(WORD_LEN as u64) },
            Unit::Records { .. } => {
                let frame = WORD_LEN as u64 + (len as u64).next_multiple_of(WORD_LEN as u64);
                let padding = if frame <= to_end { 0 } else { to_end };
                let at = if padding == 0 { offset } else { 0 };
                Room { padding, at: at + WORD_LEN as u64, len, frame }
            }
        };
        let taken = room.padding + room.frame;
        let free = self.free(taken)?;
        if free < taken {
            return Ok(None);
        }
        // Stores wait for their lines one after another, unless the lines were asked for before.
        if free > AHEAD_LEN {
            let ahead = self.place.behind(self.position, AHEAD_LEN).offset;
            self.words.will_write(self.place.bytes + ahead as usize);
        }
        // Early: the line comes while the record is filled. In a full lane the word there is that of the first unread record.
        if matches!(self.place.unit, Unit::Records { .. }) && free > taken {
            self.words.store(self.place.word(self.place.behind(self.position, taken).offset), NOTHING);
        }
        Ok(Some(room))
    }

    /// Fills bytes of the claimed unit, from byte `at` of it on.
    #[inline]
    pub fn fill(&mut self, at: usize, bytes: &[u8]) {
        let claim = self.claim.expect("a unit is claimed before it is filled");
        assert!(at <= claim.len && bytes.len() <= claim.len - at, "bytes lie in their unit");
        self.words.write(self.place.bytes + claim.at as usize + at, bytes);
    }

    /// Adds the claimed unit to those that the next [`Writer::publish`] commits. False where nothing is claimed.
    #[inline]
    pub fn keep(&mut self) -> bool {
        let Some(claim) = self.claim.take() else { return false };
        self.keep_room(claim);
        true
    }

    #[inline]
    fn keep_room(&mut self, room: Room) {
        if let Unit::Records { .. } = self.place.unit {
            self.keep_record(room);
        }
        let taken = room.padding + room.frame;
        self.next = self.next.wrapping_add(taken);
        self.position = self.place.behind(self.position, taken);
    }

    /// Stores a record's words. Withholds the word by which the reader gets to the first kept record: that word commits all of them.
    #[inline]
    fn keep_record(&mut self, claim: Room) {
        let own = self.place.behind(self.position, claim.padding);
        let (word, value) = (self.place.word(own.offset), own.lap | (claim.len as u64 + 1));
        let way = if claim.padding == 0 {
            (word, value)
        } else {
            self.words.store(word, value);
            (self.place.word(self.position.offset), self.position.lap | PADDING)
        };
        match self.withheld {
            None => self.withheld = Some(way),
            Some(_) => self.words.store(way.0, way.1),
        }
    }

    /// Commits all kept units: from here on the reader sees them.
    ///
    /// **Cost**: one store to the tail's line. For records two to that line, which their reader does not touch, and one to the first of
    /// their words.
    #[inline(always)]
    pub fn publish(&mut self) {
        if self.next != self.tail {
            if let Some((word, value)) = self.withheld.take() {
                self.words.store(self.place.tail_to_be, self.next);
                // ORDERING: pairs with the load in `LaneLayout::record`: the records' bytes, their other words and the zero behind them are
                // visible before this word.
                self.words.store(word, value);
            }
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

    /// Gives the claimed unit up: nobody sees it. Kept units stay kept.
    pub fn abandon(&mut self) {
        self.claim = None;
    }

    /// Copies a unit in and commits it, with all kept units; false where there is no room. A claim is abandoned. **Errors**: [`Corrupt`].
    #[inline]
    pub fn push(&mut self, unit: &[u8]) -> Result<bool, Corrupt> {
        self.claim = None;
        let Some(room) = self.room(unit.len())? else { return Ok(false) };
        self.words.write(self.place.bytes + room.at as usize, unit);
        self.keep_room(room);
        self.publish();
        Ok(true)
    }

    /// Takes note of units that the lane's home appended in this writer's name; nothing is kept or claimed meanwhile.
    pub fn catch_up(&mut self) -> Result<(), Corrupt> {
        let (head, tail) = (self.words.load(self.place.head), self.place.tail(&self.words));
        self.place.used(head, tail)?;
        self.withheld = None;
        (self.next, self.tail, self.head, self.position, self.claim) = (tail, tail, head, self.place.position(tail), None);
        Ok(())
    }
}
