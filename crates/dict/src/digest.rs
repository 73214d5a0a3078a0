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
        let [first, second, third, fourth, ..] = DIGITS;
        Digest { lanes: [first, second, third, fourth].map(|digits| digits ^ seed), len: 0, rest: [0; BLOCK_LEN], rest_len: 0 }
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

    pub fn finish(mut self) -> u64 {
        if self.rest_len > 0 {
            self.rest[self.rest_len..].fill(0);
            self.lanes = mixed(self.lanes, &self.rest);
        }
        let [a, b, c, d] = self.lanes;
        // The length makes a difference between bytes and the same bytes with zeros behind them.
        fold(fold(a ^ DIGITS[4], b ^ self.len) ^ DIGITS[5], fold(c ^ DIGITS[5], d ^ self.len) ^ DIGITS[4])
    }
}

/// The digest of bytes that lie one after another.
pub fn digest(seed: u64, bytes: &[u8]) -> u64 {
    let mut digest = Digest::new(seed);
    digest.update(bytes);
    digest.finish()
}

/// A digest of no seed in half as many bytes.
pub fn checksum(bytes: &[u8]) -> u32 {
    digest(0, bytes) as u32
}

#[inline]
fn mixed(lanes: [u64; 4], block: &[u8; BLOCK_LEN]) -> [u64; 4] {
    let (words, _) = block.as_chunks::<8>();
    let word = |at: usize| u64::from_le_bytes(words[at]);
    std::array::from_fn(|lane| fold(word(2 * lane) ^ DIGITS[lane + 1], word(2 * lane + 1) ^ lanes[lane]))
}

#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}
