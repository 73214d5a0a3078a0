//! The kinds of commands, and what each leaves in a region: every word tells where it belongs and which round wrote it.

use super::ledger::Ledger;
use hanare::{Indexed, Strided};
use std::str::FromStr;

/// What a client does over and over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Get,
    Put,
    GetStrided,
    PutStrided,
    Gather,
    Scatter,
    Copy,
    CopyStrided,
    Fill,
    Compare,
    Reduce,
    Update,
    Fetch,
    Swap,
    Batch,
}

impl Kind {
    pub const ALL: [Kind; 15] = [
        Kind::Get,
        Kind::Put,
        Kind::GetStrided,
        Kind::PutStrided,
        Kind::Gather,
        Kind::Scatter,
        Kind::Copy,
        Kind::CopyStrided,
        Kind::Fill,
        Kind::Compare,
        Kind::Reduce,
        Kind::Update,
        Kind::Fetch,
        Kind::Swap,
        Kind::Batch,
    ];

    /// The name of its region, and of the one it copies from.
    pub fn names(self) -> (String, String) {
        (format!("{self:?}"), format!("{self:?}-from"))
    }

    /// Whether it copies from another region.
    pub fn copies(self) -> bool {
        matches!(self, Kind::Copy | Kind::CopyStrided | Kind::Batch)
    }

    /// What word `i` of its region holds at first.
    pub fn initial(self, words: u64, i: u64) -> u64 {
        match self {
            Kind::Update | Kind::Fetch | Kind::Swap => 0,
            Kind::Batch if Part::of(words, i) == Part::Counted => 0,
            _ => word(0, i),
        }
    }

    /// Whether a round counts word `i` up by one.
    fn counts(self, words: u64, i: u64) -> bool {
        matches!(self, Kind::Update | Kind::Fetch | Kind::Swap) || self == Kind::Batch && Part::of(words, i) == Part::Counted
    }

    /// What word `i` holds after a round, if nothing disturbed it.
    pub fn after(self, round: u64, words: u64, i: u64) -> u64 {
        let written = match self {
            Kind::Put => true,
            Kind::PutStrided => is_spread(i, words, 2),
            Kind::Scatter => i.is_multiple_of(4),
            Kind::Batch => match Part::of(words, i) {
                Part::Put => true,
                Part::PutStrided => is_spread(i % (words / Part::COUNT), words / Part::COUNT, 2),
                Part::Filled => return if round == 0 { word(0, i) } else { filled(round, i) },
                Part::Copied => return if round == 0 { word(0, i) } else { copied(round, i) },
                Part::Counted | Part::Still => false,
            },
            Kind::Fill if round > 0 => return filled(round, i),
            Kind::Copy if round > 0 => return copied(round, i),
            Kind::CopyStrided if round > 0 && is_spread(i, words, 3) => return copied(round, i / 5 * 3 + i % 5),
            _ => false,
        };
        if written { word(round, i) } else { self.initial(words, i) }
    }

    /// Whether word `i` may hold `found` after what the ledger says. A word may be torn where a round was cut off.
    pub fn allows(self, ledger: &Ledger, words: u64, i: u64, found: u64) -> bool {
        if self.counts(words, i) {
            return ledger.counts().contains(&found);
        }
        if found == self.after(ledger.last, words, i) {
            return true;
        }
        let allowed: Vec<[u8; 8]> = ledger.rounds().map(|round| self.after(round, words, i).to_le_bytes()).collect();
        let bytes = found.to_le_bytes();
        (0..8).all(|at| allowed.iter().any(|word| word[at] == bytes[at]))
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Kind, String> {
        Kind::ALL.into_iter().find(|kind| format!("{kind:?}") == text).ok_or_else(|| format!("no kind '{text}'"))
    }
}

/// What a batch does with each eighth of its region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Put,
    Still,
    Filled,
    Counted,
    Copied,
    PutStrided,
}

impl Part {
    pub const COUNT: u64 = 8;

    fn of(words: u64, i: u64) -> Part {
        match i / (words / Part::COUNT) {
            0 => Part::Put,
            2 => Part::Filled,
            3 => Part::Counted,
            4 => Part::Copied,
            5 => Part::PutStrided,
            _ => Part::Still,
        }
    }
}

/// Word `i` as a round writes it.
pub fn word(round: u64, i: u64) -> u64 {
    (round + 1) << 32 | i
}

/// Words of a fill's pattern.
pub const PATTERN_WORDS: u64 = 8;

pub fn filled(round: u64, i: u64) -> u64 {
    word(round, i % PATTERN_WORDS)
}

/// Words that a copy's source is longer than its target: each round begins at another.
pub const SHIFTS: u64 = 16;

/// Word `i` of what a round copies.
fn copied(round: u64, i: u64) -> u64 {
    word(0, i + round % SHIFTS)
}

/// The source of a copy of so many words.
pub fn copy_source(round: u64, at: u64, words: u64) -> Strided {
    Strided::contiguous((at + round % SHIFTS) * 8, words * 8)
}

/// The first few words of every five.
pub fn spread(at: u64, words: u64, block_words: u64) -> Strided {
    Strided { offset: at * 8, block: block_words * 8, count: words / 5, stride: 40 }
}

/// Whether [`spread`] touches word `i` of so many.
fn is_spread(i: u64, words: u64, block_words: u64) -> bool {
    i % 5 < block_words && i / 5 < words / 5
}

/// The words that [`spread`] touches, in order.
pub fn spread_words(words: u64, block_words: u64) -> impl Iterator<Item = u64> {
    (0..words / 5).flat_map(move |k| 5 * k..5 * k + block_words)
}

/// Every fourth word, in no order that memory likes. The count of words is a power of two.
pub fn indices(words: u64) -> Vec<u32> {
    let count = words / 4;
    (0..count).map(|k| (4 * (k * 7919 % count)) as u32).collect()
}

pub fn elements(indices: &[u32]) -> Indexed<'_> {
    Indexed::elements(0, 8, indices)
}

/// So many words as bytes.
pub fn bytes(words: impl Iterator<Item = u64>) -> Vec<u8> {
    words.flat_map(u64::to_le_bytes).collect()
}

/// Bytes as words.
pub fn words(bytes: &[u8]) -> impl Iterator<Item = u64> {
    bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap()))
}
