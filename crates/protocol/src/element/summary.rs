//! Summary of the numbers that a reduction has read.

use super::Element;
use super::exact_sum::{ExactSum, LIMB_COUNT};
use std::fmt;

/// A number of some kind: whole ones in 128 bits, floating-point ones in binary64. Every element of every kind is exactly one
/// of these.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// A whole number.
    Whole(i128),
    /// A floating-point number.
    Float(f64),
}

/// Numbers that a reduction counts: from `low` to `high`, both included. NaN lies in no range.
///
/// Whole numbers below 2^64 and floating-point numbers as they are; the kind of elements decides which pair is used.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Range {
    /// For whole numbers, cut to what the kind of element can hold.
    Whole(i128, i128),
    /// For floating-point numbers.
    Float(f64, f64),
}

/// Bytes of a range on the wire.
pub const RANGE_LEN: u64 = 32;

impl Range {
    /// The bytes to send.
    pub fn encode(&self) -> [u8; RANGE_LEN as usize] {
        let (low, high) = match *self {
            Range::Whole(low, high) => (low, high),
            Range::Float(low, high) => (i128::from(low.to_bits()), i128::from(high.to_bits())),
        };
        let mut bytes = [0; RANGE_LEN as usize];
        bytes[..16].copy_from_slice(&low.to_le_bytes());
        bytes[16..].copy_from_slice(&high.to_le_bytes());
        bytes
    }

    /// Reads what [`Range::encode`] wrote for elements of that kind.
    pub fn decode(bytes: &[u8; RANGE_LEN as usize], element: Element) -> Range {
        let number = |at: usize| i128::from_le_bytes(bytes[at..at + 16].try_into().expect("16 bytes"));
        let (low, high) = (number(0), number(16));
        if element.is_float() {
            Range::Float(f64::from_bits(low as u64), f64::from_bits(high as u64))
        } else {
            Range::Whole(low, high)
        }
    }

    /// The range that leaves nothing out but NaN.
    pub fn all(element: Element) -> Range {
        if element.is_float() { Range::Float(f64::NEG_INFINITY, f64::INFINITY) } else { Range::Whole(i128::MIN, i128::MAX) }
    }
}

/// Count, sum, least and greatest of the numbers in the range.
///
/// Merging summaries of parts gives that of the whole, bit for bit, whatever the parts.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// Numbers in the range.
    pub count: u64,
    sum: Sum,
    /// The least in the range; `None` when there was none.
    pub min: Option<Value>,
    /// The greatest in the range.
    pub max: Option<Value>,
}

#[derive(Clone, Debug, PartialEq)]
enum Sum {
    Whole(i128),
    Float(Box<ExactSum>),
}

/// Bytes of a summary on the wire, for any kind of element.
pub const SUMMARY_LEN: u64 = 8 + 16 + 16 + 8 * (LIMB_COUNT as u64 + 1);

impl Summary {
    /// The summary of no numbers.
    pub fn new(element: Element) -> Summary {
        let sum = if element.is_float() { Sum::Float(Box::default()) } else { Sum::Whole(0) };
        Summary { count: 0, sum, min: None, max: None }
    }

    /// The sum: of whole numbers exact, of floating-point numbers exact and then rounded once.
    pub fn sum(&self) -> Value {
        match &self.sum {
            Sum::Whole(sum) => Value::Whole(*sum),
            Sum::Float(sum) => Value::Float(sum.value()),
        }
    }

    /// Takes in `count` whole numbers with that sum, least and greatest. For a kernel that looked at them.
    pub fn take_whole(&mut self, count: u64, sum: i128, min: i128, max: i128) {
        let Sum::Whole(own) = &mut self.sum else { panic!("a summary of floating-point numbers") };
        if count > 0 {
            *own += sum;
            self.take_bounds(count, Value::Whole(min), Value::Whole(max));
        }
    }

    /// Takes in floating-point numbers, all of which are in the range.
    pub fn take_floats(&mut self, values: impl Iterator<Item = f64>) {
        let Sum::Float(own) = &mut self.sum else { panic!("a summary of whole numbers") };
        let (mut count, mut min, mut max) = (0, f64::INFINITY, f64::NEG_INFINITY);
        for value in values {
            own.add(value);
            count += 1;
            min = lesser(min, value);
            max = greater(max, value);
        }
        if count > 0 {
            self.take_bounds(count, Value::Float(min), Value::Float(max));
        }
    }

    /// Takes in `count` floating-point numbers whose exact sum is that of `parts`, with their least and greatest. For a
    /// kernel that looked at them; an infinity is a part as it is.
    pub fn take_float_parts(&mut self, count: u64, parts: &[f64], min: f64, max: f64) {
        let Sum::Float(own) = &mut self.sum else { panic!("a summary of whole numbers") };
        if count > 0 {
            parts.iter().for_each(|part| own.add(*part));
            self.take_bounds(count, Value::Float(min), Value::Float(max));
        }
    }

    fn take_bounds(&mut self, count: u64, min: Value, max: Value) {
        self.count += count;
        self.min = Some(self.min.map_or(min, |own| own.lesser(min)));
        self.max = Some(self.max.map_or(max, |own| own.greater(max)));
    }

    /// Takes in all that another summary of the same kind of elements tells.
    pub fn merge(&mut self, other: &Summary) {
        match (&mut self.sum, &other.sum) {
            (Sum::Whole(own), Sum::Whole(theirs)) => *own += theirs,
            (Sum::Float(own), Sum::Float(theirs)) => own.merge(theirs),
            _ => panic!("summaries of different kinds"),
        }
        if let (Some(min), Some(max)) = (other.min, other.max) {
            self.take_bounds(other.count, min, max);
        }
    }

    /// The bytes to send.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(SUMMARY_LEN as usize);
        bytes.extend_from_slice(&self.count.to_le_bytes());
        for bound in [self.min, self.max] {
            // Every element fits 64 bits: a u64 above i64::MAX keeps its bits, and the reader knows the kind.
            let bits = match bound {
                None => 0,
                Some(Value::Whole(value)) => value as u64,
                Some(Value::Float(value)) => value.to_bits(),
            };
            bytes.extend_from_slice(&bits.to_le_bytes());
        }
        match &self.sum {
            Sum::Whole(sum) => bytes.extend_from_slice(&sum.to_le_bytes()),
            Sum::Float(sum) => {
                bytes.extend_from_slice(&[0; 16]);
                sum.encode(&mut bytes);
            }
        }
        bytes.resize(SUMMARY_LEN as usize, 0);
        bytes
    }

    /// Reads what [`Summary::encode`] wrote for elements of that kind. `None`: it makes no sense.
    pub fn decode(bytes: &[u8], element: Element) -> Option<Summary> {
        let word = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        let count = word(0)?;
        let bound = |bits: u64| match element {
            Element::F32 | Element::F64 => Value::Float(f64::from_bits(bits)),
            // No summary has 128-bit elements.
            Element::U8 | Element::U16 | Element::U32 | Element::U64 | Element::U128 => Value::Whole(i128::from(bits)),
            _ => Value::Whole(i128::from(bits as i64)),
        };
        let (min, max) = (bound(word(8)?), bound(word(16)?));
        let sum = match element.is_float() {
            true => Sum::Float(Box::new(ExactSum::decode(bytes.get(40..)?)?)),
            false => Sum::Whole(i128::from_le_bytes(bytes.get(24..40)?.try_into().ok()?)),
        };
        let is_right = bytes.len() as u64 == SUMMARY_LEN;
        is_right.then(|| Summary { count, sum, min: (count > 0).then_some(min), max: (count > 0).then_some(max) })
    }
}

/// The number as people write it: the shortest text that is read back as the same.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Whole(value) => value.fmt(f),
            Value::Float(value) => value.fmt(f),
        }
    }
}

impl Value {
    /// The nearest binary64.
    pub fn as_f64(self) -> f64 {
        match self {
            Value::Whole(value) => value as f64,
            Value::Float(value) => value,
        }
    }

    fn lesser(self, other: Value) -> Value {
        match (self, other) {
            (Value::Whole(a), Value::Whole(b)) => Value::Whole(a.min(b)),
            (Value::Float(a), Value::Float(b)) => Value::Float(lesser(a, b)),
            _ => panic!("values of different kinds"),
        }
    }

    fn greater(self, other: Value) -> Value {
        match (self, other) {
            (Value::Whole(a), Value::Whole(b)) => Value::Whole(a.max(b)),
            (Value::Float(a), Value::Float(b)) => Value::Float(greater(a, b)),
            _ => panic!("values of different kinds"),
        }
    }
}

/// The lesser of two numbers that are no NaN. Zero is greater than its negative, so that the result does not hang on the order.
fn lesser(a: f64, b: f64) -> f64 {
    if b.total_cmp(&a).is_lt() { b } else { a }
}

/// The greater of two; see [`lesser`].
fn greater(a: f64, b: f64) -> f64 {
    if b.total_cmp(&a).is_gt() { b } else { a }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_prints_as_a_number() {
        assert_eq!(format!("{} {:.2} {:>4}", Value::Whole(-3), Value::Float(0.125), Value::Whole(7)), "-3 0.12    7");
        assert_eq!((Value::Whole(2).as_f64(), Value::Float(0.5).as_f64()), (2.0, 0.5));
    }

    #[test]
    fn a_summary_survives_the_wire() {
        let mut whole = Summary::new(Element::U64);
        whole.take_whole(3, i128::from(u64::MAX) * 2, 0, i128::from(u64::MAX));
        let mut negative = Summary::new(Element::I16);
        negative.take_whole(2, -40_000, -32_768, -7232);
        let mut float = Summary::new(Element::F32);
        float.take_floats([1.5, -2.5, 1e30].into_iter());
        for (summary, element) in [
            (whole, Element::U64),
            (negative, Element::I16),
            (float, Element::F32),
            (Summary::new(Element::F64), Element::F64),
            (Summary::new(Element::I8), Element::I8),
        ] {
            let bytes = summary.encode();
            assert_eq!(bytes.len() as u64, SUMMARY_LEN);
            let back = Summary::decode(&bytes, element).unwrap();
            assert_eq!((back.count, back.sum(), back.min, back.max), (summary.count, summary.sum(), summary.min, summary.max));
            assert_eq!(back.encode(), bytes);
            assert_eq!(Summary::decode(&bytes[1..], element), None);
        }
    }

    #[test]
    fn parts_merge_to_the_whole() {
        let values = [3.5, -1.0, 1e200, -1e200, 7.0];
        let mut whole = Summary::new(Element::F64);
        whole.take_floats(values.into_iter());
        let mut front = Summary::new(Element::F64);
        front.take_floats(values[..2].iter().copied());
        let mut back = Summary::new(Element::F64);
        back.take_floats(values[2..].iter().copied());
        back.merge(&front);
        assert_eq!(
            (back.count, back.sum(), back.min, back.max),
            (5, Value::Float(9.5), Some(Value::Float(-1e200)), Some(Value::Float(1e200)))
        );
        assert_eq!(back.sum(), whole.sum());
        // The exact sum of these parts is that of the numbers.
        let mut parts = Summary::new(Element::F64);
        parts.take_float_parts(5, &[1e200, 9.5, -1e200], -1e200, 1e200);
        assert_eq!(parts.encode(), whole.encode());
    }

    #[test]
    fn the_order_of_zeros_is_told_in_no_summary() {
        for values in [[0.0, -0.0], [-0.0, 0.0]] {
            let mut summary = Summary::new(Element::F64);
            summary.take_floats(values.into_iter());
            let bits = |value| if let Some(Value::Float(value)) = value { value.to_bits() } else { panic!("a number") };
            assert_eq!((bits(summary.min), bits(summary.max)), ((-0.0f64).to_bits(), 0));
        }
    }
}
