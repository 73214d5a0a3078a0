//! Numbers in regions: their kinds, what updates do to them, and the summary that a reduction makes of them.
//!
//! A summary does not depend on the split of the numbers over nodes, nor on their order. Whole numbers are summed in 128 bits,
//! floating-point numbers exactly ([`ExactSum`]) and rounded once.

mod exact_sum;
mod fold;
mod summary;

pub use exact_sum::ExactSum;
pub use fold::{fold, folds};
pub use summary::{RANGE_LEN, Range, SUMMARY_LEN, Summary, Value};

use std::fmt;

/// A kind of number, little-endian in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Element {
    /// 8 bits, unsigned.
    U8 = 1,
    /// 8 bits, signed.
    I8 = 2,
    /// 16 bits, unsigned.
    U16 = 3,
    /// 16 bits, signed.
    I16 = 4,
    /// 32 bits, unsigned.
    U32 = 5,
    /// 32 bits, signed.
    I32 = 6,
    /// 64 bits, unsigned.
    U64 = 7,
    /// 64 bits, signed.
    I64 = 8,
    /// IEEE 754 binary32.
    F32 = 9,
    /// IEEE 754 binary64.
    F64 = 10,
    /// 128 bits, unsigned: for updates, fetches and compare-and-swap, as of a pointer and its count. No reduction takes them.
    U128 = 11,
}

impl Element {
    /// All kinds.
    pub const ALL: [Element; 11] = [
        Element::U8,
        Element::I8,
        Element::U16,
        Element::I16,
        Element::U32,
        Element::I32,
        Element::U64,
        Element::I64,
        Element::F32,
        Element::F64,
        Element::U128,
    ];

    /// Bytes of one.
    pub fn len(self) -> u64 {
        match self {
            Element::U8 | Element::I8 => 1,
            Element::U16 | Element::I16 => 2,
            Element::U32 | Element::I32 | Element::F32 => 4,
            Element::U64 | Element::I64 | Element::F64 => 8,
            Element::U128 => 16,
        }
    }

    /// Always false.
    pub fn is_empty(self) -> bool {
        false
    }

    /// True for a floating-point kind.
    pub fn is_float(self) -> bool {
        matches!(self, Element::F32 | Element::F64)
    }

    /// The kind of that number on the wire.
    pub fn decode(byte: u8) -> Option<Element> {
        Element::ALL.into_iter().find(|element| *element as u8 == byte)
    }
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Element::U8 => "u8",
            Element::I8 => "i8",
            Element::U16 => "u16",
            Element::I16 => "i16",
            Element::U32 => "u32",
            Element::I32 => "i32",
            Element::U64 => "u64",
            Element::I64 => "i64",
            Element::F32 => "f32",
            Element::F64 => "f64",
            Element::U128 => "u128",
        })
    }
}

/// Result of an update from an element and its operand, one atomic step each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Operator {
    /// The sum; whole numbers wrap around.
    Add = 1,
    /// The lesser; of floating-point numbers the one that is no NaN.
    Min = 2,
    /// The greater; of floating-point numbers the one that is no NaN.
    Max = 3,
    /// Bitwise and.
    And = 4,
    /// Bitwise or.
    Or = 5,
    /// Bitwise exclusive or.
    Xor = 6,
    /// The operand.
    Swap = 7,
    /// The element as it is: nothing is written, the operand means nothing, and the right to read is enough. For fetches.
    Load = 8,
}

impl Operator {
    /// All operators.
    pub const ALL: [Operator; 8] =
        [Operator::Add, Operator::Min, Operator::Max, Operator::And, Operator::Or, Operator::Xor, Operator::Swap, Operator::Load];

    /// The operator of that number on the wire.
    pub fn decode(byte: u8) -> Option<Operator> {
        Operator::ALL.into_iter().find(|operator| *operator as u8 == byte)
    }

    /// True if elements of that kind can be updated so: 32, 64 and 128 bits; bitwise for whole numbers alone.
    pub fn fits(self, element: Element) -> bool {
        let is_bitwise = matches!(self, Operator::And | Operator::Or | Operator::Xor);
        element.len() >= 4 && !(is_bitwise && element.is_float())
    }
}

impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Operator::Add => "add",
            Operator::Min => "min",
            Operator::Max => "max",
            Operator::And => "and",
            Operator::Or => "or",
            Operator::Xor => "xor",
            Operator::Swap => "swap",
            Operator::Load => "load",
        })
    }
}
