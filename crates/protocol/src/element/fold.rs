//! Elements of one vector combined with those of another, as collectives do it: plain memory of one thread.

use super::{Element, Operator};

/// True if vectors of that kind can be combined so: bitwise for whole numbers alone; never [`Operator::Swap`] and [`Operator::Load`].
pub fn folds(operator: Operator, element: Element) -> bool {
    match operator {
        Operator::Add | Operator::Min | Operator::Max => true,
        Operator::And | Operator::Or | Operator::Xor => !element.is_float(),
        Operator::Swap | Operator::Load => false,
    }
}

/// Sets each element of `own` to the operator's result on it and on its counterpart in `other`, in this order.
///
/// Both have the same length, a whole number of elements. The result depends on these bytes alone. Of numbers that compare equal the own
/// stays, of a NaN and a number the number. An operator that does not fit ([`folds`]) leaves `own` as it is.
pub fn fold(operator: Operator, element: Element, own: &mut [u8], other: &[u8]) {
    macro_rules! whole {
        ($type:ty) => {
            each::<{ size_of::<$type>() }>(
                own,
                other,
                match operator {
                    Operator::Add => |a, b| <$type>::from_le_bytes(a).wrapping_add(<$type>::from_le_bytes(b)).to_le_bytes(),
                    Operator::Min => |a, b| <$type>::from_le_bytes(a).min(<$type>::from_le_bytes(b)).to_le_bytes(),
                    Operator::Max => |a, b| <$type>::from_le_bytes(a).max(<$type>::from_le_bytes(b)).to_le_bytes(),
                    Operator::And => |a, b| (<$type>::from_le_bytes(a) & <$type>::from_le_bytes(b)).to_le_bytes(),
                    Operator::Or => |a, b| (<$type>::from_le_bytes(a) | <$type>::from_le_bytes(b)).to_le_bytes(),
                    Operator::Xor => |a, b| (<$type>::from_le_bytes(a) ^ <$type>::from_le_bytes(b)).to_le_bytes(),
                    Operator::Swap | Operator::Load => |a, _| a,
                },
            )
        };
    }
    macro_rules! float {
        ($type:ty) => {
            match operator {
                Operator::Add => each(own, other, |a, b| (<$type>::from_le_bytes(a) + <$type>::from_le_bytes(b)).to_le_bytes()),
                Operator::Min => each(own, other, |a, b| {
                    let (x, y) = (<$type>::from_le_bytes(a), <$type>::from_le_bytes(b));
                    if y < x || x.is_nan() { b } else { a }
                }),
                Operator::Max => each(own, other, |a, b| {
                    let (x, y) = (<$type>::from_le_bytes(a), <$type>::from_le_bytes(b));
                    if y > x || x.is_nan() { b } else { a }
                }),
                _ => {}
            }
        };
    }
    match element {
        Element::U8 => whole!(u8),
        Element::I8 => whole!(i8),
        Element::U16 => whole!(u16),
        Element::I16 => whole!(i16),
        Element::U32 => whole!(u32),
        Element::I32 => whole!(i32),
        Element::U64 => whole!(u64),
        Element::I64 => whole!(i64),
        Element::U128 => whole!(u128),
        Element::F32 => float!(f32),
        Element::F64 => float!(f64),
    }
}

/// A loop for each type and operator, so that the compiler makes vector instructions of it.
#[inline(always)]
fn each<const LEN: usize>(own: &mut [u8], other: &[u8], step: impl Fn([u8; LEN], [u8; LEN]) -> [u8; LEN]) {
    for (own, other) in own.as_chunks_mut::<LEN>().0.iter_mut().zip(other.as_chunks::<LEN>().0) {
        *own = step(*own, *other);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folded<const LEN: usize>(operator: Operator, element: Element, own: &[[u8; LEN]], other: &[[u8; LEN]]) -> Vec<u8> {
        let mut own = own.as_flattened().to_vec();
        fold(operator, element, &mut own, other.as_flattened());
        own
    }

    #[test]
    fn whole_numbers_wrap_and_compare_by_their_sign() {
        let bytes = |values: [i16; 3]| values.map(i16::to_le_bytes);
        let (own, other) = (bytes([i16::MAX, -5, 0b1100]), bytes([1, 3, 0b1010]));
        let expect = |operator, values| {
            assert_eq!(folded(operator, Element::I16, &own, &other), bytes(values).as_flattened(), "{operator}");
        };
        expect(Operator::Add, [i16::MIN, -2, 22]);
        expect(Operator::Min, [1, -5, 0b1010]);
        expect(Operator::Max, [i16::MAX, 3, 0b1100]);
        expect(Operator::And, [1, 3, 0b1000]);
        expect(Operator::Or, [i16::MAX, -5, 0b1110]);
        expect(Operator::Xor, [i16::MAX - 1, -8, 0b0110]);
        let unsigned = folded(Operator::Max, Element::U16, &own, &other);
        assert_eq!(unsigned, bytes([i16::MAX, -5, 0b1100]).as_flattened(), "-5 is a large number there");
    }

    #[test]
    fn of_a_nan_and_a_number_the_number_stays_and_of_equals_the_own() {
        let bytes = |values: [f32; 4]| values.map(f32::to_le_bytes);
        let (own, other) = (bytes([f32::NAN, 2.0, -0.0, 1.5]), bytes([1.0, f32::NAN, 0.0, -3.0]));
        let expect = |operator, values: [f32; 4]| {
            assert_eq!(folded(operator, Element::F32, &own, &other), bytes(values).as_flattened(), "{operator}");
        };
        expect(Operator::Min, [1.0, 2.0, -0.0, -3.0]);
        expect(Operator::Max, [1.0, 2.0, -0.0, 1.5]);
        let sums = folded(Operator::Add, Element::F64, &[1e300f64.to_le_bytes()], &[1.0f64.to_le_bytes()]);
        assert_eq!(sums, 1e300f64.to_le_bytes());
    }

    #[test]
    fn what_does_not_fit_is_said() {
        assert!(folds(Operator::Add, Element::U8) && folds(Operator::Max, Element::F32) && folds(Operator::Xor, Element::I8));
        assert!(!folds(Operator::And, Element::F64) && !folds(Operator::Swap, Element::U64));
    }
}
