//! Repeatable pseudo-random numbers for access patterns.

/// A splitmix64 sequence: the same seed gives the same numbers everywhere.
#[derive(Clone, Debug)]
pub struct Sequence {
    state: u64,
}

impl Sequence {
    /// The sequence of a seed.
    pub fn new(seed: u64) -> Sequence {
        Sequence { state: seed }
    }

    /// The next number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        ((u128::from(mixed) * u128::from(bound)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_below_and_spread() {
        let mut sequence = Sequence::new(7);
        let mut counts = [0_u32; 8];
        (0..8_000).for_each(|_| counts[sequence.below(8) as usize] += 1);
        assert!(counts.iter().all(|count| (850..1150).contains(count)), "seed 7: {counts:?}");
    }
}
