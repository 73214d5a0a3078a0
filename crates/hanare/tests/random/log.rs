//! What one thread of a program did: a line before and one after each operation, each written by one call, so that a kill at any
//! moment loses the last line at most.

use crate::processes::now;
use hanare::Strided;
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

/// An operation that has not ended.
pub const NEVER: u64 = u64::MAX;

macro_rules! kinds {
    ($($name:ident),* $(,)?) => {
        /// What was done.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum What { $($name),* }

        impl What {
            const ALL: &[What] = &[$(What::$name),*];
        }
    };
}

kinds! {
    // The value is the client's id.
    Attach,
    // Bytes of one writer; the value is the number of the write. By pointer, then by command.
    Store, Write, Put, PutStrided,
    // Any bytes.
    Load, Read, Get, GetStrided,
    // Words that all write.
    RegisterStore, RegisterPut, RegisterLoad, RegisterGet,
    // The result is the old value. A swap that expects has that in `expected`.
    RegisterSwap, RegisterCompareSwap,
    // Words that all add one to. The result is the old value, but for `AddUpdate`.
    Add, AddCommand, AddUpdate, CountLoad, CountGet,
    // A section under a lock; the place is the record's number. The bytes are [`Section`]'s.
    Section,
    Barrier, Flush, Update, Remap, Sweep,
}

/// One operation.
#[derive(Clone, Debug)]
pub struct Op {
    pub what: What,
    pub shape: Strided,
    pub value: u64,
    pub expected: u64,
    pub begin: u64,
    pub end: u64,
    pub result: u64,
    pub bytes: Vec<u8>,
}

impl Op {
    pub fn new(what: What, shape: Strided, value: u64) -> Op {
        Op { what, shape, value, expected: 0, begin: 0, end: NEVER, result: 0, bytes: Vec::new() }
    }

    pub fn on_range(what: What, at: u64, len: u64, value: u64) -> Op {
        Op::new(what, Strided::contiguous(at, len), value)
    }

    pub fn has_ended(&self) -> bool {
        self.end != NEVER
    }

    /// The places of its bytes, in order.
    pub fn places(&self) -> impl Iterator<Item = u64> + use<> {
        let shape = self.shape;
        (0..shape.count).flat_map(move |k| (0..shape.block).map(move |j| shape.offset + k * shape.stride + j))
    }

    pub fn touches(&self, at: u64) -> bool {
        let Strided { offset, block, count, stride } = self.shape;
        at >= offset && (at - offset) / stride.max(1) < count && (at - offset) % stride.max(1) < block
    }
}

impl std::fmt::Display for Op {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Strided { offset, block, count, stride } = self.shape;
        let end = if self.has_ended() { self.end.to_string() } else { "never".to_owned() };
        write!(f, "{}..{end} {:?} at {offset} + {count} x {block} every {stride}", self.begin, self.what)?;
        write!(f, ", value {:#x}, expected {:#x}, result {:#x}", self.value, self.expected, self.result)
    }
}

/// What a section under a lock found: the moments between which it surely held the lock, and the words of its record.
pub struct Section {
    pub taken: u64,
    pub leaving: u64,
    pub was_abandoned: bool,
    pub words: Vec<u64>,
}

impl Section {
    pub fn to_bytes(&self) -> Vec<u8> {
        let head = [self.taken, self.leaving, u64::from(self.was_abandoned)];
        head.iter().chain(&self.words).flat_map(|word| word.to_le_bytes()).collect()
    }

    pub fn of(bytes: &[u8]) -> Section {
        let words = words_of(bytes);
        Section { taken: words[0], leaving: words[1], was_abandoned: words[2] != 0, words: words[3..].to_vec() }
    }
}

pub fn words_of(bytes: &[u8]) -> Vec<u64> {
    bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect()
}

/// Words of a line, whose bytes follow.
const LINE: usize = 10;

/// The log of one thread.
pub struct Log {
    file: File,
}

impl Log {
    pub fn create(path: &Path) -> Log {
        Log { file: File::create(path).unwrap() }
    }

    fn line(&mut self, words: [u64; LINE], bytes: &[u8]) {
        let mut line: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        line.extend_from_slice(bytes);
        // A second call would leave half a line to a kill between them.
        assert_eq!(self.file.write(&line).unwrap(), line.len());
    }

    /// Does an operation, and notes it before and after; what it found are a result and bytes.
    pub fn note(&mut self, op: Op, act: impl FnOnce() -> (u64, Vec<u8>)) -> (u64, Vec<u8>) {
        let Strided { offset, block, count, stride } = op.shape;
        let what = op.what as u64;
        self.line([0, what, offset, block, count, stride, op.value, op.expected, now(), 0], &[]);
        let (result, bytes) = act();
        // A store is in memory when its end is noted.
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
        self.line([1, what, result, 0, 0, 0, 0, 0, now(), bytes.len() as u64], &bytes);
        (result, bytes)
    }
}

/// Reads what a thread noted; nothing where it never came to its first line.
pub fn read(path: &Path) -> Vec<Op> {
    let mut bytes = Vec::new();
    if let Ok(mut file) = File::open(path) {
        file.read_to_end(&mut bytes).unwrap();
    }
    let (mut ops, mut rest) = (Vec::<Op>::new(), &bytes[..]);
    // A kill may cut off the last line: a long one is written page by page.
    while let Some((line, behind)) = rest.split_at_checked(LINE * 8) {
        let words = words_of(line);
        rest = behind;
        let what = What::ALL[words[1] as usize];
        if words[0] == 0 {
            let shape = Strided { offset: words[2], block: words[3], count: words[4], stride: words[5] };
            ops.push(Op { expected: words[7], begin: words[8], ..Op::new(what, shape, words[6]) });
        } else {
            let op = ops.last_mut().unwrap();
            assert_eq!(op.what, what, "an end without its beginning");
            let Some((bytes, behind)) = rest.split_at_checked(words[9] as usize) else { break };
            (op.result, op.end, op.bytes, rest) = (words[2], words[8], bytes.to_vec(), behind);
        }
    }
    ops
}
