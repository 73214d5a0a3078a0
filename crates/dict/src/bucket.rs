//! Words of a table, and the buckets that they lead to, as bytes.
//!
//! ```text
//! word    frozen 1 bit | tag 15 | segment 6 | granules 12 | place 30, in granules; place 0 is no bucket
//! bucket  checksum of the rest u32 | bytes u32 | entries u32 | tag u16 | 0 u16 | number of its word u64 | entry entry ...
//! entry   bytes of key u32, of value u32 | far u64 | checksum of the value u32, if it is far | kind u8 | form u8 | 0 0 | times | key |
//!         value, unless it is far
//! times   nothing, or with form 1: end u64, end of its pin u64, both in milliseconds since 1970
//! ```
//!
//! All of it is input: any program of the pool may have written it.

use super::Fault;
use super::digest::checksum;
use super::times::Times;

/// Blocks begin at multiples of this number of bytes, and their lengths are multiples of it.
pub const GRANULE: u64 = 64;

/// Bytes of a bucket's head.
pub const HEAD_LEN: usize = 24;
const ENTRY_HEAD_LEN: usize = 24;

/// Form of an entry that has times, and the bytes of those.
const TIMED: u8 = 1;
const TIMES_LEN: usize = 16;

/// The part of a word that is its bucket's place.
pub const PLACE: u64 = (1 << 30) - 1;
const TAG: u64 = (1 << 15) - 1;
/// In place of the granules of a longer bucket, whose head has its length.
const GRANULES_ALL: u64 = (1 << 12) - 1;

/// Begin of a block: its heap, and the number of granules from the heap's begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At {
    pub segment: u32,
    pub place: u32,
}

impl At {
    /// The begin as one number, which is 0 for no block: granule 0 is never one's.
    pub fn far(self) -> u64 {
        u64::from(self.segment) << 32 | u64::from(self.place)
    }

    pub fn of_far(far: u64) -> At {
        At { segment: (far >> 32) as u32, place: far as u32 }
    }

    /// The block at that offset of a heap; `None` for a place that no entry can name.
    pub fn of_offset(segment: u32, offset: u64) -> Option<At> {
        u32::try_from(offset / GRANULE).ok().map(|place| At { segment, place })
    }

    pub fn offset(self) -> u64 {
        u64::from(self.place) * GRANULE
    }

    /// Offset in its heap of the count of its holders.
    pub fn count_offset(self) -> u64 {
        8 * u64::from(self.place % 8)
    }
}

/// Length of a block that holds `len` bytes.
pub fn rounded(len: u64) -> u64 {
    len.div_ceil(GRANULE) * GRANULE
}

/// Place of a bucket. The tag counts its changes; a frozen one never changes again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word(pub u64);

impl Word {
    /// The word for a bucket of `len` bytes; `None` for a place that no word can name.
    pub fn to(tag: u16, at: At, len: u64) -> Option<Word> {
        let place = u64::from(at.place);
        let granules = len.div_ceil(GRANULE).min(GRANULES_ALL);
        let fits = place != 0 && place <= PLACE && at.segment < 1 << 6;
        fits.then(|| Word(u64::from(tag) << 48 | u64::from(at.segment) << 42 | granules << 30 | place))
    }

    /// The word for no bucket.
    pub fn to_none(tag: u16) -> Word {
        Word(u64::from(tag) << 48)
    }

    /// The bit that makes every later swap of a word fail.
    pub const FROZEN: u64 = 1 << 63;

    pub fn is_frozen(self) -> bool {
        self.0 & Word::FROZEN != 0
    }

    /// True if it leads to no bucket.
    pub fn is_none(self) -> bool {
        self.0 & PLACE == 0
    }

    pub fn tag(self) -> u16 {
        (self.0 >> 48 & TAG) as u16
    }

    /// The tag of the word that comes in its place.
    pub fn next_tag(self) -> u16 {
        self.tag().wrapping_add(1) & TAG as u16
    }

    pub fn at(self) -> At {
        At { segment: (self.0 >> 42 & 63) as u32, place: (self.0 & PLACE) as u32 }
    }

    /// Bytes of the bucket's block, if the word has them.
    pub fn block_len(self) -> Option<u64> {
        Some(self.0 >> 30 & GRANULES_ALL).filter(|granules| *granules < GRANULES_ALL).map(|granules| granules * GRANULE)
    }
}

/// A key's value: its bytes, or where they lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value<'a> {
    pub kind: u8,
    /// The bytes, where it is not far.
    pub bytes: &'a [u8],
    /// Their number, wherever they are.
    pub len: u32,
    /// [`At::far`] of its block; 0 for one whose bytes are here.
    pub far: u64,
    pub checksum: u32,
    pub times: Times,
}

/// A key and its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    pub key: &'a [u8],
    pub value: Value<'a>,
}

impl Entry<'_> {
    /// Most bytes that it takes in a bucket.
    pub fn len_max(&self) -> usize {
        ENTRY_HEAD_LEN + TIMES_LEN + self.key.len() + self.value.bytes.len()
    }
}

/// Length of the bucket whose first bytes are `raw`, by its head. **Errors**: [`Fault::Changed`] where the memory has another use by now.
pub fn whole_len(raw: &[u8], number: u64, word: Word) -> Result<usize, Fault> {
    let head: &[u8; HEAD_LEN] = raw.first_chunk().ok_or(Fault::Changed)?;
    let is_its = u64_at(head, 16) == number && u16_at(head, 12) == word.tag();
    let len = u64::from(u32_at(head, 4));
    let fits = len >= HEAD_LEN as u64 && word.block_len().is_none_or(|most| len <= most);
    if is_its && fits { Ok(len as usize) } else { Err(Fault::Changed) }
}

/// Checks a bucket of which all bytes were read. **Errors**: [`Fault::Changed`] where they are not those of one moment.
pub fn check(raw: &[u8]) -> Result<(), Fault> {
    let head: &[u8; HEAD_LEN] = raw.first_chunk().ok_or(Fault::Changed)?;
    if checksum(&raw[4..]) == u32_at(head, 0) { Ok(()) } else { Err(Fault::Changed) }
}

/// The entries of a bucket that was checked; none of one that has no bytes.
pub struct Entries<'a> {
    left: u32,
    rest: &'a [u8],
}

impl<'a> Entries<'a> {
    pub fn of(raw: &'a [u8]) -> Entries<'a> {
        match raw.split_first_chunk::<HEAD_LEN>() {
            Some((head, rest)) => Entries { left: u32_at(head, 8), rest },
            None => Entries { left: 0, rest: &[] },
        }
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<Entry<'a>, Fault>;

    fn next(&mut self) -> Option<Result<Entry<'a>, Fault>> {
        self.left = self.left.checked_sub(1)?;
        let taken = take_entry(self.rest);
        // Entries behind a senseless one are not looked for.
        self.rest = taken.map_or(&[], |(_, rest)| rest);
        Some(taken.map(|(entry, _)| entry).ok_or(Fault::Changed)).inspect(|taken| {
            if taken.is_err() {
                self.left = 0;
            }
        })
    }
}

fn take_entry(raw: &[u8]) -> Option<(Entry<'_>, &[u8])> {
    let (head, rest) = raw.split_first_chunk::<ENTRY_HEAD_LEN>()?;
    let (key_len, len, far) = (u32_at(head, 0), u32_at(head, 4), u64_at(head, 8));
    let (times, rest) = match head[21] {
        TIMED => {
            let (times, rest) = rest.split_first_chunk::<TIMES_LEN>()?;
            (Times { expires: u64_at(times, 0), pinned: u64_at(times, 8) }, rest)
        }
        _ => (Times::default(), rest),
    };
    let (key, rest) = rest.split_at_checked(key_len as usize)?;
    let (bytes, rest) = rest.split_at_checked(if far == 0 { len as usize } else { 0 })?;
    let value = Value { kind: head[20], bytes, len, far, checksum: u32_at(head, 16), times };
    Some((Entry { key, value }, rest))
}

/// A bucket that is being written.
pub struct Writing {
    bytes: Vec<u8>,
    pub count: u32,
}

impl Writing {
    pub fn new() -> Writing {
        Writing::with_room(0)
    }

    /// The same, with room for entries of `len` bytes: to grow costs more than to write.
    pub fn with_room(len: usize) -> Writing {
        let mut bytes = Vec::with_capacity(HEAD_LEN + len);
        bytes.resize(HEAD_LEN, 0);
        Writing { bytes, count: 0 }
    }

    pub fn push(&mut self, entry: &Entry<'_>) {
        let Entry { key, value } = entry;
        self.count += 1;
        let mut head = [0; ENTRY_HEAD_LEN + TIMES_LEN];
        head[..4].copy_from_slice(&(key.len() as u32).to_le_bytes());
        head[4..8].copy_from_slice(&value.len.to_le_bytes());
        head[8..16].copy_from_slice(&value.far.to_le_bytes());
        head[16..20].copy_from_slice(&value.checksum.to_le_bytes());
        head[20] = value.kind;
        head[21] = if value.times.are_set() { TIMED } else { 0 };
        head[24..32].copy_from_slice(&value.times.expires.to_le_bytes());
        head[32..].copy_from_slice(&value.times.pinned.to_le_bytes());
        self.bytes.extend_from_slice(&head[..if value.times.are_set() { head.len() } else { ENTRY_HEAD_LEN }]);
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value.bytes);
    }

    /// Bytes of its block.
    pub fn block_len(&self) -> u64 {
        rounded(self.bytes.len() as u64)
    }

    /// Its bytes, for the word of that number and tag. `None` where they are too many for a bucket's head.
    pub fn finish(mut self, number: u64, tag: u16) -> Option<Vec<u8>> {
        let len = u32::try_from(self.bytes.len()).ok()?;
        self.bytes[4..8].copy_from_slice(&len.to_le_bytes());
        self.bytes[8..12].copy_from_slice(&self.count.to_le_bytes());
        self.bytes[12..14].copy_from_slice(&tag.to_le_bytes());
        self.bytes[16..24].copy_from_slice(&number.to_le_bytes());
        let sum = checksum(&self.bytes[4..]);
        self.bytes[..4].copy_from_slice(&sum.to_le_bytes());
        Some(self.bytes)
    }
}

fn u16_at<const N: usize>(bytes: &[u8; N], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at<const N: usize>(bytes: &[u8; N], at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|index| bytes[at + index]))
}

fn u64_at<const N: usize>(bytes: &[u8; N], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|index| bytes[at + index]))
}
