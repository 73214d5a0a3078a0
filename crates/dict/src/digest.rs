//! A digest of bytes: the hash of a key, and the checksum of a bucket or a value. All programs of a pool compute the same one.
//!
//! Blocks of 64 bytes go into four lanes, each by one multiplication whose halves are combined. The digest finds bytes of another moment;
//! it is no proof against a writer that chooses bytes for it.

/// Bytes of a block.
const BLOCK_LEN: usize = 64;

/// The first digits of pi behind the point, base 16.
const DIGITS: [u64; 6] = [
    0x243f_6a88_85a3_08d3,
    0x1319_8a2e_0370_7344,
    0xa409_3822_299f_31d0,
    0x082e_fa98_ec4e_6c89,
    0x4528_21e6_38d0_1377,
    0xbe54_66cf_34e9_0c6c,
];

/// A digest of bytes that come in parts. Where the borders between parts lie makes no difference.
pub struct Digest {
    lanes: [u64; 4],
    len: u64,
    /// The bytes of a block that is not full yet.
    rest: [u8; BLOCK_LEN],
    rest_len: usize,
}

impl Digest {
    pub fn new(seed: u64) -> Digest {
        Digest { lanes: lanes(seed), len: 0, rest: [0; BLOCK_LEN], rest_len: 0 }
    }

    pub fn update(&mut self, mut bytes: &[u8]) {
        self.len = self.len.wrapping_add(bytes.len() as u64);
        if self.rest_len > 0 {
            let (filled, later) = bytes.split_at(bytes.len().min(BLOCK_LEN - self.rest_len));
            self.rest[self.rest_len..self.rest_len + filled.len()].copy_from_slice(filled);
            self.rest_len += filled.len();
            if self.rest_len < BLOCK_LEN {
                return;
            }
            (self.lanes, self.rest_len, bytes) = (mixed(self.lanes, &self.rest), 0, later);
        }
        let (blocks, rest) = bytes.as_chunks::<BLOCK_LEN>();
        self.lanes = blocks.iter().fold(self.lanes, mixed);
        self.rest[..rest.len()].copy_from_slice(rest);
        self.rest_len = rest.len();
    }

    pub fn finish(self) -> u64 {
        finished(self.lanes, &self.rest[..self.rest_len], self.len)
    }
}

/// The digest of bytes that lie one after another.
pub fn digest(seed: u64, bytes: &[u8]) -> u64 {
    let (blocks, rest) = bytes.as_chunks::<BLOCK_LEN>();
    finished(blocks.iter().fold(lanes(seed), mixed), rest, bytes.len() as u64)
}

/// A digest of no seed in half as many bytes.
pub fn checksum(bytes: &[u8]) -> u32 {
    digest(0, bytes) as u32
}

/// The lanes before the first block.
#[inline]
fn lanes(seed: u64) -> [u64; 4] {
    let [first, second, third, fourth, ..] = DIGITS;
    [first, second, third, fourth].map(|digits| digits ^ seed)
}

/// The digest of `len` bytes whose whole blocks are in the lanes.
#[inline]
fn finished(mut lanes: [u64; 4], rest: &[u8], len: u64) -> u64 {
    if !rest.is_empty() {
        // Word by word: a load waits for long where its bytes were stored in other pieces.
        let mut last = [0; BLOCK_LEN / 8];
        let (words, end) = rest.as_chunks::<8>();
        last.iter_mut().zip(words).for_each(|(word, bytes)| *word = u64::from_le_bytes(*bytes));
        if !end.is_empty() {
            last[words.len()] = end.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
        }
        lanes = mixed_words(lanes, |at| last[at]);
    }
    let [a, b, c, d] = lanes;
    // The length makes a difference between bytes and the same bytes with zeros behind them.
    fold(fold(a ^ DIGITS[4], b ^ len) ^ DIGITS[5], fold(c ^ DIGITS[5], d ^ len) ^ DIGITS[4])
}

#[inline]
fn mixed(lanes: [u64; 4], block: &[u8; BLOCK_LEN]) -> [u64; 4] {
    let (words, _) = block.as_chunks::<8>();
    mixed_words(lanes, |at| u64::from_le_bytes(words[at]))
}

#[inline]
fn mixed_words(lanes: [u64; 4], word: impl Fn(usize) -> u64) -> [u64; 4] {
    std::array::from_fn(|lane| fold(word(2 * lane) ^ DIGITS[lane + 1], word(2 * lane + 1) ^ lanes[lane]))
}

#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_programs_compute_the_same_digest_whatever_the_parts() {
        let bytes: Vec<u8> = (0..500u32).map(|at| (at % 251) as u8).collect();
        // Another program computed these, from the description.
        let wanted = [
            (0, 0x561828553581cc3b),
            (1, 0x8b422d5c931622c7),
            (7, 0x78c1c38d4b925c10),
            (8, 0xc4386b2ee7d6b830),
            (17, 0x36e99f360081dc1c),
            (63, 0x92b3b4e5857600a8),
            (64, 0x62e418bc84e8f1bd),
            (65, 0x7a2b8ef6b2d5d3d2),
            (129, 0x3971057e457c858d),
            (500, 0xddfdcba0d73d5df0),
        ];
        for (len, wanted) in wanted {
            assert_eq!(digest(7, &bytes[..len]), wanted, "{len} bytes");
        }
        for len in 0..200 {
            for part in [1, 3, 8, 63, 64, 65] {
                let mut parts = Digest::new(7);
                bytes[..len].chunks(part).for_each(|part| parts.update(part));
                assert_eq!(parts.finish(), digest(7, &bytes[..len]), "{len} bytes in parts of {part}");
            }
        }
    }
}
