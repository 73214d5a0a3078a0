//! Regions full of numbers that tell where they are, so that every bench can check what it was brought.

use anyhow::{Result, ensure};
use hanare::{CreateOptions, NodeId, Placement, Pool, Region};

/// Bytes put at once.
const PIECE_LEN: u64 = 1 << 20;

/// The 64-bit word number `k` of every table, as good as random: splitmix64.
pub fn word(k: u64) -> u64 {
    let mixed = k.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Makes a region of `len` bytes (whole words) and fills it.
pub fn create(pool: &Pool, name: &str, len: u64, placement: Placement) -> Result<Region> {
    let region = pool.create(name, len, &CreateOptions { placement, ..CreateOptions::default() })?;
    let mut bytes = Vec::with_capacity(PIECE_LEN as usize);
    for offset in (0..len).step_by(PIECE_LEN as usize) {
        bytes.clear();
        bytes.extend((offset / 8..(offset + PIECE_LEN).min(len) / 8).flat_map(|k| word(k).to_le_bytes()));
        region.put(offset, &bytes)?;
    }
    Ok(region)
}

/// Another node than the one that this program is attached to, in order of numbers.
pub fn far(pool: &Pool) -> Result<Vec<NodeId>> {
    let mut nodes: Vec<NodeId> = pool.status()?.nodes.iter().map(|node| node.node).filter(|node| *node != pool.node()).collect();
    nodes.sort();
    ensure!(!nodes.is_empty(), "the pool has one node; this bench needs two");
    Ok(nodes)
}

/// Fails unless the bytes are the words of these numbers, in order.
pub fn check(bytes: &[u8], numbers: impl Iterator<Item = u64>) -> Result<()> {
    let wrong = bytes.chunks(8).zip(numbers).find(|(bytes, k)| **bytes != word(*k).to_le_bytes());
    ensure!(wrong.is_none(), "a get brought other bytes than were put: {wrong:?}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_words_are_found() {
        let bytes: Vec<u8> = [3, 5].into_iter().flat_map(|k| word(k).to_le_bytes()).collect();
        assert!(check(&bytes, [3, 5].into_iter()).is_ok());
        assert!(check(&bytes, [3, 4].into_iter()).is_err());
        assert_ne!(word(0), word(1));
    }
}
