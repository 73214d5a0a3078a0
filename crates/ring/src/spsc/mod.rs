//! A ring of records in shared memory: one producer, one consumer, each in any process.
//!
//! The producer claims room, writes the bytes, and commits by storing the record's length word. The length word lies in the cache line
//! where the record begins, so a small record costs one line transfer. Before it commits, the producer clears the next length word. That
//! word may hold bytes of an earlier lap, which must not pass for a record. A producer that dies at any step loses at most its uncommitted
//! record.
//!
//! A record is contiguous. If it does not fit before the end of the data, the rest there is padding.

use crate::layout::{
    CAPACITY_WORD, DATA_WORD, HEAD_WORD, IS_PADDING, IS_RECORD, LEN_SHIFT, MAGIC, MAGIC_WORD, VERSION, VERSION_WORD, WORD_LEN,
    is_capacity, ring_len,
};
use crate::words::{Shared, Words};
use hanare_memory::Window;
use hanare_protocol::Corrupt;

/// Lays a ring out in memory that is all zero, before either side is made.
pub fn format<W: Words>(words: &W, capacity: usize) {
    assert!(is_capacity(capacity) && words.count() * WORD_LEN >= ring_len(capacity), "a ring fits its memory");
    words.store(CAPACITY_WORD, capacity as u64);
    words.store(VERSION_WORD, VERSION);
    // ORDERING: pairs with the load in `check`: a side that finds the magic finds the rest.
    words.store(MAGIC_WORD, MAGIC);
}

/// The capacity of the ring in `words`, once, so that what the memory says later does not matter.
fn check<W: Words>(words: &W) -> Result<usize, Corrupt> {
    if words.load(MAGIC_WORD) != MAGIC {
        return Err(Corrupt("no ring is there"));
    }
    if words.load(VERSION_WORD) != VERSION {
        return Err(Corrupt("another version of the layout"));
    }
    match usize::try_from(words.load(CAPACITY_WORD)) {
        Ok(capacity) if is_capacity(capacity) && words.count() * WORD_LEN >= ring_len(capacity) => Ok(capacity),
        _ => Err(Corrupt("a capacity that is none")),
    }
}

/// Bytes that a record of `len` bytes takes: its length word, and its bytes padded.
const fn record_len(len: usize) -> usize {
    WORD_LEN + len.next_multiple_of(WORD_LEN)
}

#[derive(Clone, Copy, Debug)]
struct Data {
    capacity: usize,
}

impl Data {
    fn offset(self, position: u64) -> usize {
        position as usize & (self.capacity - 1)
    }

    fn word(self, position: u64) -> usize {
        DATA_WORD + self.offset(position) / WORD_LEN
    }

    fn byte(self, position: u64) -> usize {
        DATA_WORD * WORD_LEN + self.offset(position)
    }

    fn to_end(self, position: u64) -> usize {
        self.capacity - self.offset(position)
    }
}

/// The writing side of a ring.
#[derive(Debug)]
pub struct Producer<W> {
    words: W,
    data: Data,
    /// Begin of the next record (or its padding).
    position: u64,
    /// The consumer's position as last read.
    head: u64,
    claim: Option<Claim>,
}

/// Room taken and not committed.
#[derive(Clone, Copy, Debug)]
struct Claim {
    /// Position of its length word, behind the padding if there is some.
    start: u64,
    len: usize,
}

impl<W: Words> Producer<W> {
    /// The writing side of a freshly formatted ring. There is one at a time.
    pub fn new(words: W) -> Result<Producer<W>, Corrupt> {
        let data = Data { capacity: check(&words)? };
        Ok(Producer { words, data, position: 0, head: 0, claim: None })
    }

    /// The longest record that can be claimed now; `None` when not even an empty one can.
    ///
    /// **Cost**: no shared memory is read while at least `enough` bytes are known to be free.
    pub fn room(&mut self, enough: usize) -> Result<Option<usize>, Corrupt> {
        let known = self.room_known();
        if known.is_some_and(|len| len >= enough) {
            return Ok(known);
        }
        self.refresh()?;
        Ok(self.room_known())
    }

    fn room_known(&self) -> Option<usize> {
        let to_end = self.data.to_end(self.position);
        // A record needs its length word, and the next one's has to be cleared.
        let fits = |free: usize, run: usize| {
            free.checked_sub(WORD_LEN).map(|free| free.min(run)).and_then(|room| room.checked_sub(WORD_LEN))
        };
        let here = fits(self.free(), to_end);
        let behind_padding = self.free().checked_sub(to_end).and_then(|free| fits(free, self.data.capacity));
        here.max(behind_padding)
    }

    fn free(&self) -> usize {
        self.data.capacity - (self.position - self.head) as usize
    }

    fn refresh(&mut self) -> Result<(), Corrupt> {
        // ORDERING: pairs with the store in `Consumer::release`: what is overwritten next has been read.
        let head = self.words.load(HEAD_WORD);
        // The consumer never goes back, nor past what was written; the difference is small even where numbers wrap.
        let is_sane =
            head.wrapping_sub(self.head) <= self.position.wrapping_sub(self.head) && head.is_multiple_of(WORD_LEN as u64);
        self.head = if is_sane { head } else { return Err(Corrupt("the consumer is where nothing was written")) };
        Ok(())
    }

    /// Takes room for a record of `len` bytes, or says that there is none. A claim before is given up.
    pub fn claim(&mut self, len: usize) -> Result<bool, Corrupt> {
        self.claim = None;
        if self.room(len)?.is_none_or(|room| room < len) {
            return Ok(false);
        }
        let to_end = self.data.to_end(self.position);
        let padding = if record_len(len) <= to_end { 0 } else { to_end };
        self.claim = Some(Claim { start: self.position + padding as u64, len });
        Ok(true)
    }

    /// Writes bytes of the claimed record, from byte `at` of it on.
    pub fn write(&mut self, at: usize, bytes: &[u8]) {
        let claim = self.claim.expect("room was claimed");
        assert!(at <= claim.len && bytes.len() <= claim.len - at, "bytes lie in their claim");
        self.words.write(self.data.byte(claim.start) + WORD_LEN + at, bytes);
    }

    /// Makes the first `len` bytes of the claimed record visible to the consumer.
    pub fn commit(&mut self, len: usize) {
        let claim = self.claim.take().expect("room was claimed");
        assert!(len <= claim.len, "no more is committed than was claimed");
        let next = claim.start + record_len(len) as u64;
        self.words.store(self.data.word(next), 0);
        let word = (len as u64) << LEN_SHIFT | IS_RECORD;
        // ORDERING: pairs with the load in `Consumer::peek`: the record's bytes and the cleared word behind it are
        // visible to whoever sees the length. Behind padding the consumer gets here by the padding's word alone.
        self.words.store(self.data.word(claim.start), word);
        if claim.start != self.position {
            self.words.store(self.data.word(self.position), IS_PADDING);
        }
        self.position = next;
    }

    /// Claims, writes and commits one record of the given parts, or says that there is no room.
    ///
    /// **Cost**: one copy. One shared line written for each line of the record, none read while the ring is known to have room.
    pub fn push(&mut self, parts: &[&[u8]]) -> Result<bool, Corrupt> {
        let len = parts.iter().map(|part| part.len()).sum();
        if !self.claim(len)? {
            return Ok(false);
        }
        let mut at = 0;
        for part in parts {
            self.write(at, part);
            at += part.len();
        }
        self.commit(len);
        Ok(true)
    }

    /// The memory.
    pub fn words(&self) -> &W {
        &self.words
    }
}

impl Producer<Shared> {
    /// The claimed record's bytes, to be filled without another copy.
    pub fn window(&self) -> Window {
        let claim = self.claim.expect("room was claimed");
        self.words.window(self.data.byte(claim.start) + WORD_LEN, claim.len)
    }
}

/// A record that the consumer may read until it releases it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    start: u64,
    len: usize,
}

impl Record {
    /// Its length in bytes; checked to lie inside the ring.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// The reading side of a ring.
#[derive(Debug)]
pub struct Consumer<W> {
    words: W,
    data: Data,
    position: u64,
}

impl<W: Words> Consumer<W> {
    /// The reading side of a ring, at its first record. There is one at a time.
    pub fn new(words: W) -> Result<Consumer<W>, Corrupt> {
        let data = Data { capacity: check(&words)? };
        Ok(Consumer { words, data, position: 0 })
    }

    /// The next record, if one is committed. It stays the next until released.
    ///
    /// **Cost**: one shared word read; two at the end of the data. **Errors**: [`Corrupt`] for a length that leaves
    /// the ring.
    #[inline]
    pub fn peek(&mut self) -> Result<Option<Record>, Corrupt> {
        loop {
            let word = self.words.load(self.data.word(self.position));
            if word == 0 {
                return Ok(None);
            }
            if word == IS_PADDING && self.data.offset(self.position) != 0 {
                self.position += self.data.to_end(self.position) as u64;
                continue;
            }
            let len = word >> LEN_SHIFT;
            let room = self.data.to_end(self.position) - WORD_LEN;
            if word & ((1 << LEN_SHIFT) - 1) != IS_RECORD || len > room as u64 {
                return Err(Corrupt("a record that leaves the ring"));
            }
            return Ok(Some(Record { start: self.position, len: len as usize }));
        }
    }

    /// Copies bytes of a record out, from byte `at` of it on.
    pub fn read(&self, record: &Record, at: usize, into: &mut [u8]) {
        assert!(at <= record.len && into.len() <= record.len - at, "bytes lie in their record");
        self.words.read(self.data.byte(record.start) + WORD_LEN + at, into);
    }

    /// Gives a record's room back to the producer; windows and reads of it end before.
    pub fn release(&mut self, record: Record) {
        assert_eq!(record.start, self.position, "records are released in order");
        self.position += record_len(record.len) as u64;
        self.words.store(HEAD_WORD, self.position);
    }

    /// The memory.
    pub fn words(&self) -> &W {
        &self.words
    }
}

impl Consumer<Shared> {
    /// A record's bytes where they lie. The producer may be wrong and change them: copy, then validate.
    pub fn window(&self, record: &Record) -> Window {
        self.words.window(self.data.byte(record.start) + WORD_LEN, record.len)
    }
}

#[cfg(test)]
mod tests;
