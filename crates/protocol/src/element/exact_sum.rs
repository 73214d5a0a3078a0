//! Sums of floating-point numbers without rounding, in any order and any grouping.
//!
//! The sum is a fixed-point number wide enough for every finite binary64. It is kept in 64-bit *limbs* of 32 bits each, so additions carry
//! nothing. A number touches three neighbouring limbs at most. A limb takes 2^30 numbers before its carries must be passed on.
//! [after Kulisch's long accumulator; R. Neal, "Fast exact summation using small and large superaccumulators"]

/// Bits of a limb's own; the rest of its 64 bits holds carries until they are passed on.
const LIMB_BITS: u32 = 32;

/// Limbs: binary64 reaches from 2^-1074 to below 2^1024; two more hold the carries of 2^63 numbers.
pub(super) const LIMB_COUNT: usize = (1074 + 1024) / LIMB_BITS as usize + 3;

/// Numbers added before carries are passed on. Each adds less than 2^32 to a limb, so 2^30 stay well within 63 bits.
const PENDING_MAX: u32 = 1 << 30;

/// An exact sum of binary64 numbers. NaN and infinities are remembered beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExactSum {
    limbs: [i64; LIMB_COUNT],
    pending: u32,
    has_nan: bool,
    has_plus_infinity: bool,
    has_minus_infinity: bool,
}

impl Default for ExactSum {
    fn default() -> ExactSum {
        ExactSum { limbs: [0; LIMB_COUNT], pending: 0, has_nan: false, has_plus_infinity: false, has_minus_infinity: false }
    }
}

impl ExactSum {
    /// Adds a number. **Cost**: a few ns, no branch that depends on the number but the check for infinities.
    #[inline]
    pub fn add(&mut self, value: f64) {
        let bits = value.to_bits();
        let exponent = (bits >> 52 & 0x7ff) as u32;
        if exponent == 0x7ff {
            return self.add_special(value);
        }
        let fraction = bits & ((1 << 52) - 1);
        // A subnormal has the least exponent and no hidden bit.
        let (mantissa, shift) = if exponent == 0 { (fraction, 0) } else { (fraction | 1 << 52, exponent - 1) };
        let (limb, within) = ((shift / LIMB_BITS) as usize, shift % LIMB_BITS);
        let wide = u128::from(mantissa) << within;
        let sign = if bits >> 63 == 0 { 1 } else { -1 };
        let low = |wide: u128| (wide as u32) as i64;
        self.limbs[limb] += sign * low(wide);
        self.limbs[limb + 1] += sign * low(wide >> LIMB_BITS);
        self.limbs[limb + 2] += sign * low(wide >> (2 * LIMB_BITS));
        self.pending += 1;
        if self.pending >= PENDING_MAX {
            self.carry();
        }
    }

    #[cold]
    fn add_special(&mut self, value: f64) {
        self.has_nan |= value.is_nan();
        self.has_plus_infinity |= value == f64::INFINITY;
        self.has_minus_infinity |= value == f64::NEG_INFINITY;
    }

    /// Adds all that another sum holds.
    pub fn merge(&mut self, other: &ExactSum) {
        let mut other = other.clone();
        other.carry();
        self.carry();
        for (own, theirs) in self.limbs.iter_mut().zip(other.limbs) {
            *own += theirs;
        }
        self.pending = 2;
        self.has_nan |= other.has_nan;
        self.has_plus_infinity |= other.has_plus_infinity;
        self.has_minus_infinity |= other.has_minus_infinity;
        self.carry();
    }

    /// Passes carries on, so that every limb but the last is below 2^32 and not negative.
    fn carry(&mut self) {
        let mut carry = 0i64;
        for limb in &mut self.limbs[..LIMB_COUNT - 1] {
            let whole = *limb + carry;
            carry = whole >> LIMB_BITS;
            *limb = whole & ((1 << LIMB_BITS) - 1);
        }
        self.limbs[LIMB_COUNT - 1] += carry;
        self.pending = 0;
    }

    /// The sum, rounded once to the nearest number (ties to even). Opposite infinities, or a NaN, make it NaN.
    pub fn value(&self) -> f64 {
        if self.has_nan || (self.has_plus_infinity && self.has_minus_infinity) {
            return f64::NAN;
        }
        if self.has_plus_infinity || self.has_minus_infinity {
            return if self.has_plus_infinity { f64::INFINITY } else { f64::NEG_INFINITY };
        }
        let mut sum = self.clone();
        sum.carry();
        let is_negative = sum.limbs[LIMB_COUNT - 1] < 0;
        if is_negative {
            sum.limbs.iter_mut().for_each(|limb| *limb = -*limb);
            sum.carry();
        }
        let magnitude = sum.rounded();
        if is_negative { -magnitude } else { magnitude }
    }

    /// The nearest number to limbs that are carried and not negative.
    fn rounded(&self) -> f64 {
        let Some(top) = self.limbs.iter().rposition(|limb| *limb != 0) else { return 0.0 };
        // The last limb may hold more than 32 bits; sums that large are beyond every finite number.
        if top == LIMB_COUNT - 1 && self.limbs[top] >> LIMB_BITS != 0 {
            return f64::INFINITY;
        }
        let limb = |index: Option<usize>| index.map_or(0, |index| self.limbs[index] as u128);
        let below = |steps: usize| top.checked_sub(steps);
        // The highest 96 bits, then whether anything lies below them.
        let mut head = limb(Some(top)) << 64 | limb(below(1)) << 32 | limb(below(2));
        let sticky = below(3).is_some_and(|rest| self.limbs[..=rest].iter().any(|limb| *limb != 0));
        // The place of head's lowest bit above 2^-1074; negative where limbs below the first were taken as zero.
        let mut place = (top as i64 - 2) * i64::from(LIMB_BITS);
        if place < 0 {
            head >>= -place as u32;
            place = 0;
        }
        let bits = 128 - head.leading_zeros();
        if bits <= 53 {
            // Exact: at place 0 it is a subnormal or a small number; elsewhere it cannot be this short.
            return scale(head as f64, place);
        }
        let drop = bits - 53;
        let kept = (head >> drop) as u64;
        let rest = head & ((1 << drop) - 1);
        let half = 1u128 << (drop - 1);
        let up = rest > half || (rest == half && (sticky || kept & 1 == 1));
        scale((kept + u64::from(up)) as f64, place + i64::from(drop))
    }

    /// Its bytes: a word for each limb, then one of flags.
    pub(super) fn encode(&self, into: &mut Vec<u8>) {
        let mut sum = self.clone();
        sum.carry();
        sum.limbs.iter().for_each(|limb| into.extend_from_slice(&limb.to_le_bytes()));
        let flags = u64::from(sum.has_nan) | u64::from(sum.has_plus_infinity) << 1 | u64::from(sum.has_minus_infinity) << 2;
        into.extend_from_slice(&flags.to_le_bytes());
    }

    /// Reads what `encode` wrote. `None`: no sum encodes to that.
    pub(super) fn decode(bytes: &[u8]) -> Option<ExactSum> {
        let mut words = bytes.chunks_exact(8).map(|word| i64::from_le_bytes(word.try_into().expect("a chunk")));
        let mut sum = ExactSum::default();
        for limb in &mut sum.limbs {
            *limb = words.next()?;
        }
        let flags = words.next()?;
        let is_carried = sum.limbs[..LIMB_COUNT - 1].iter().all(|limb| (0..1 << LIMB_BITS).contains(limb));
        // Far more than any sum reaches, far less than would overflow.
        let is_sane = sum.limbs[LIMB_COUNT - 1].unsigned_abs() < 1 << 40;
        (sum.has_nan, sum.has_plus_infinity, sum.has_minus_infinity) = (flags & 1 != 0, flags & 2 != 0, flags & 4 != 0);
        (is_carried && is_sane && flags & !7 == 0 && words.next().is_none()).then_some(sum)
    }
}

/// `value * 2^(place - 1074)` for whole numbers below 2^54, exact unless it is beyond every finite number.
fn scale(value: f64, place: i64) -> f64 {
    let mut exponent = place - 1074;
    let mut value = value;
    // Powers of two of at most 2^1000 at a time are numbers, and every product but the last is exact. `value` is large when it is scaled
    // down.
    while exponent < -1000 {
        // value below 2^54 times 2^-1000 is still normal.
        value *= f64::from_bits((1023 - 1000) << 52);
        exponent += 1000;
    }
    while exponent > 900 {
        value *= f64::from_bits((1023 + 900) << 52);
        exponent -= 900;
    }
    value * f64::from_bits(((1023 + exponent) as u64) << 52)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sum(values: &[f64]) -> f64 {
        let mut sum = ExactSum::default();
        values.iter().for_each(|value| sum.add(*value));
        sum.value()
    }

    fn any_finite() -> impl Strategy<Value = f64> {
        any::<u64>().prop_map(f64::from_bits).prop_filter("finite", |value| value.is_finite())
    }

    proptest! {
        #[test]
        fn one_number_is_itself(value in any_finite()) {
            prop_assert_eq!(sum(&[value]), value);
        }

        #[test]
        fn two_numbers_sum_as_the_processor_rounds(a in any_finite(), b in any_finite()) {
            prop_assert_eq!(sum(&[a, b]), a + b);
        }

        #[test]
        fn near_numbers_sum_as_the_processor_rounds(a in any_finite(), factor in -4.0f64..4.0) {
            let b = a * factor;
            prop_assume!(b.is_finite());
            prop_assert_eq!(sum(&[a, b]), a + b);
        }

        #[test]
        fn order_and_grouping_change_nothing(mut values in proptest::collection::vec(any_finite(), 0..40), cut in 0usize..40) {
            let whole = sum(&values);
            let (front, back) = values.split_at(cut.min(values.len()));
            let part = |values: &[f64]| {
                let mut sum = ExactSum::default();
                values.iter().for_each(|value| sum.add(*value));
                let mut bytes = Vec::new();
                sum.encode(&mut bytes);
                ExactSum::decode(&bytes).unwrap()
            };
            let mut merged = part(back);
            merged.merge(&part(front));
            prop_assert_eq!(merged.value(), whole);
            values.reverse();
            prop_assert_eq!(sum(&values), whole);
            let cancelled: Vec<f64> = values.iter().map(|value| -value).chain(values.iter().copied()).chain([1.5]).collect();
            prop_assert_eq!(sum(&cancelled), 1.5);
        }

        #[test]
        fn whole_numbers_sum_like_whole_numbers(values in proptest::collection::vec(-1i64 << 40..1 << 40, 0..100)) {
            let floats: Vec<f64> = values.iter().map(|value| *value as f64).collect();
            prop_assert_eq!(sum(&floats), values.iter().sum::<i64>() as f64);
        }

        #[test]
        fn any_bytes_are_a_sum_or_refused(bytes in proptest::collection::vec(any::<u8>(), (LIMB_COUNT + 1) * 8)) {
            if let Some(sum) = ExactSum::decode(&bytes) {
                let _ = sum.value();
            }
        }
    }

    #[test]
    fn what_is_lost_in_a_running_sum_is_kept() {
        assert_eq!(sum(&[1e300, 1.0, -1e300]), 1.0);
        assert_eq!(sum(&[f64::MAX, f64::MAX, -f64::MAX]), f64::MAX);
        assert_eq!(sum(&[f64::MAX, f64::MAX]), f64::INFINITY);
        assert_eq!(sum(&[5e-324, 5e-324]), 1e-323);
        assert!(sum(&[f64::INFINITY, f64::NEG_INFINITY]).is_nan());
        assert_eq!(sum(&[f64::NEG_INFINITY, 1.0]), f64::NEG_INFINITY);
        assert_eq!(sum(&[]), 0.0);
    }
}
