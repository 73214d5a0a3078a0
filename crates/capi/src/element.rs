//! Elements, operators, ranges and summaries of the header.

use crate::argument::sized;
use crate::border::{Failure, Outcome};
use hanare::{Element, Modify, Operator, Range, Summary, Value};
use std::ffi::c_int;

/// The kind of numbers that the header's number stands for.
pub fn element(number: c_int) -> Outcome<Element> {
    let known = u8::try_from(number).ok().and_then(Element::decode);
    known.ok_or_else(|| Failure::Argument(format!("element {number} is none of HANARE_U8 … HANARE_U128")))
}

/// An update of the header's numbers of element and operator.
pub fn modify(element_number: c_int, operator: c_int) -> Outcome<Modify> {
    let known = u8::try_from(operator).ok().and_then(Operator::decode);
    let operator = known.ok_or_else(|| Failure::Argument(format!("operator {operator} is none of HANARE_ADD … HANARE_LOAD")))?;
    Ok(Modify { operator, element: element(element_number)? })
}

/// `hanare_range` of the header.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CRange {
    struct_size: usize,
    signed_low: i64,
    signed_high: i64,
    unsigned_low: u64,
    unsigned_high: u64,
    float_low: f64,
    float_high: f64,
}

/// The caller's range for elements of that kind; `NULL` leaves nothing out.
///
/// # Safety
/// `NULL`, or the caller's struct.
pub unsafe fn range(ptr: *const CRange, element: Element) -> Outcome<Range> {
    if ptr.is_null() {
        return Ok(Range::all(element));
    }
    // SAFETY: promised by the caller; the struct begins with its size.
    let given = unsafe { sized(ptr, "range") }?;
    Ok(match kind(element) {
        Kind::Signed => Range::Whole(given.signed_low.into(), given.signed_high.into()),
        Kind::Unsigned => Range::Whole(given.unsigned_low.into(), given.unsigned_high.into()),
        Kind::Float => Range::Float(given.float_low, given.float_high),
    })
}

enum Kind {
    Signed,
    Unsigned,
    Float,
}

fn kind(element: Element) -> Kind {
    match element {
        Element::I8 | Element::I16 | Element::I32 | Element::I64 => Kind::Signed,
        Element::U8 | Element::U16 | Element::U32 | Element::U64 | Element::U128 => Kind::Unsigned,
        Element::F32 | Element::F64 => Kind::Float,
    }
}

/// `hanare_summary` of the header.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct CSummary {
    struct_size: usize,
    count: u64,
    sum: f64,
    sum_low: u64,
    sum_high: i64,
    signed_min: i64,
    signed_max: i64,
    unsigned_min: u64,
    unsigned_max: u64,
    float_min: f64,
    float_max: f64,
}

impl CSummary {
    /// The summary of elements of that kind, field by field as the header says.
    pub fn of(summary: &Summary, element: Element) -> CSummary {
        let mut given = CSummary { struct_size: size_of::<CSummary>(), count: summary.count, ..CSummary::default() };
        match summary.sum() {
            Value::Whole(sum) => (given.sum, given.sum_low, given.sum_high) = (sum as f64, sum as u64, (sum >> 64) as i64),
            Value::Float(sum) => given.sum = sum,
        }
        match (summary.min, summary.max) {
            (Some(Value::Whole(min)), Some(Value::Whole(max))) if matches!(kind(element), Kind::Signed) => {
                (given.signed_min, given.signed_max) = (min as i64, max as i64);
            }
            (Some(Value::Whole(min)), Some(Value::Whole(max))) => {
                (given.unsigned_min, given.unsigned_max) = (min as u64, max as u64);
            }
            (Some(Value::Float(min)), Some(Value::Float(max))) => (given.float_min, given.float_max) = (min, max),
            _ => {}
        }
        given
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_headers_numbers_are_the_librarys() {
        let header = include_str!("../include/hanare.h");
        let number = |name: &str| -> c_int {
            let start = format!("{name} = ");
            let line = header.lines().find_map(|line| line.trim_start().strip_prefix(&start)).unwrap_or_else(|| panic!("{name}"));
            let digits = line.split(|c: char| !c.is_ascii_digit()).next().unwrap();
            digits.parse().unwrap()
        };
        for kind in Element::ALL {
            assert_eq!(element(number(&format!("HANARE_{}", kind.to_string().to_uppercase()))).unwrap(), kind);
        }
        for operator in Operator::ALL {
            let name = format!("HANARE_{}", operator.to_string().to_uppercase());
            assert_eq!(modify(8, number(&name)).unwrap(), Modify { operator, element: Element::I64 });
        }
        for unknown in [0, 12, -1, 256 + 7] {
            assert!(element(unknown).is_err() && modify(7, unknown + 1000).is_err(), "{unknown}");
        }
    }

    #[test]
    fn a_whole_sum_is_two_halves_and_the_nearest_double() {
        let mut summary = Summary::new(Element::I64);
        summary.take_whole(3, -3, -7, 4);
        let told = CSummary::of(&summary, Element::I64);
        assert_eq!((told.count, told.sum, told.sum_low, told.sum_high), (3, -3.0, u64::MAX - 2, -1));
        assert_eq!((told.signed_min, told.signed_max, told.unsigned_min, told.unsigned_max), (-7, 4, 0, 0));
        let mut summary = Summary::new(Element::U64);
        summary.take_whole(2, 2 * i128::from(u64::MAX), 5, i128::from(u64::MAX));
        let told = CSummary::of(&summary, Element::U64);
        assert_eq!((told.sum_low, told.sum_high, told.unsigned_min, told.unsigned_max), (u64::MAX - 1, 1, 5, u64::MAX));
        assert_eq!(CSummary::of(&Summary::new(Element::F64), Element::F64).count, 0);
    }

    #[test]
    fn a_range_is_that_of_the_elements_kind() {
        let given = CRange {
            struct_size: size_of::<CRange>(),
            signed_low: -5,
            signed_high: 5,
            unsigned_low: 1,
            unsigned_high: u64::MAX,
            float_low: -0.5,
            float_high: 0.5,
        };
        // SAFETY: the struct is there.
        let of = |element| unsafe { range(&given, element) }.unwrap();
        assert_eq!(of(Element::I8), Range::Whole(-5, 5));
        assert_eq!(of(Element::U64), Range::Whole(1, u64::MAX.into()));
        assert_eq!(of(Element::F32), Range::Float(-0.5, 0.5));
        // SAFETY: NULL.
        assert_eq!(unsafe { range(std::ptr::null(), Element::U8) }.unwrap(), Range::all(Element::U8));
    }
}
