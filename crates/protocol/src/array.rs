//! The terms of an array in a region: element type, order and shape, as in the header of a .npy file.
//!
//! An array's terms are three attributes of the region, each written as Python writes it. `descr` is `<f8`, or a list of a record's
//! fields. `fortran_order` is `True` or `False`, and `shape` is like `(1024, 3)`.
//!
//! SOURCE: NEP 1 and `numpy.lib.format`.

use crate::attributes::Attributes;
use crate::error::{Error, Result};
use crate::size::Size;
use std::collections::BTreeMap;
use std::fmt;

/// The names of the three attributes.
const NAMES: [&str; 3] = ["descr", "fortran_order", "shape"];

/// Elements and order of an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Array {
    /// NumPy's type string, for example `<f8`; for records the list of their fields, as `[('x', '<f8'), ('n', '<i4')]`.
    pub descr: String,
    /// True if the first axis varies fastest, not the last.
    pub fortran_order: bool,
    /// Elements along each axis.
    pub shape: Vec<u64>,
}

impl Array {
    /// An array whose last axis varies fastest.
    pub fn new(descr: &str, shape: &[u64]) -> Array {
        Array { descr: descr.to_owned(), fortran_order: false, shape: shape.to_vec() }
    }

    /// The array that a region's attributes tell of; `None` where they tell of none.
    ///
    /// **Errors**: [`Error::BadSetting`] for terms that no array has.
    pub fn of(attributes: &Attributes) -> Result<Option<Array>> {
        let [Some(descr), order, Some(shape)] = NAMES.map(|name| attributes.get(name)) else { return Ok(None) };
        let text = |bytes: &'_ [u8]| String::from_utf8_lossy(bytes).into_owned();
        let fortran_order = match order.unwrap_or(b"False") {
            b"True" => true,
            b"False" => false,
            other => return Err(bad("fortran_order", &text(other), "write True or False")),
        };
        let (descr, shape) = (text(descr), text(shape));
        let axes = parse_shape(&shape).ok_or_else(|| bad("shape", &shape, "write the axes as (1024, 3)"))?;
        let array = Array { descr, fortran_order, shape: axes };
        array.check().map(|()| Some(array))
    }

    /// The same for a region of that many bytes. **Errors**: also for an array of another length.
    pub fn of_region(attributes: &Attributes, len: u64) -> Result<Option<Array>> {
        let Some(array) = Array::of(attributes)? else { return Ok(None) };
        match array.len_bytes()? {
            Some(needed) if needed != len => {
                let reason = format!("it has {:#}, the region {:#}", Size(needed), Size(len));
                Err(bad("shape", &array.to_string(), &reason))
            }
            _ => Ok(Some(array)),
        }
    }

    /// The array in a region's terms.
    pub fn attributes(&self) -> Attributes {
        self.terms().into_iter().collect()
    }

    /// The same as changes of a region's attributes; `None` takes the terms of an array away.
    pub fn changes(array: Option<&Array>) -> BTreeMap<String, Option<Vec<u8>>> {
        match array {
            Some(array) => array.terms().into_iter().map(|(name, value)| (name.to_owned(), Some(value.into()))).collect(),
            None => NAMES.iter().map(|name| ((*name).to_owned(), None)).collect(),
        }
    }

    fn terms(&self) -> [(&'static str, String); 3] {
        let order = if self.fortran_order { "True" } else { "False" };
        let [descr, fortran_order, shape] = NAMES;
        [(descr, self.descr.clone()), (fortran_order, order.to_owned()), (shape, self.written_shape())]
    }

    /// The shape as Python writes it.
    pub fn written_shape(&self) -> String {
        match self.shape.as_slice() {
            [only] => format!("({only},)"),
            axes => format!("({})", axes.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")),
        }
    }

    /// The number of elements. **Errors**: [`Error::BadSetting`] beyond 64 bits.
    pub fn count(&self) -> Result<u64> {
        let product = self.shape.iter().try_fold(1_u64, |product, axis| product.checked_mul(*axis));
        product.ok_or_else(|| bad("shape", &self.written_shape(), "its elements are beyond 64 bits"))
    }

    /// Bytes of all elements; `None` for records, whose length NumPy alone knows.
    ///
    /// **Errors**: [`Error::BadSetting`] beyond 64 bits, and for elements that have no bytes of their own.
    pub fn len_bytes(&self) -> Result<Option<u64>> {
        let count = self.count()?;
        let Some(element) = element_len(&self.descr)? else { return Ok(None) };
        let beyond = || bad("shape", &self.written_shape(), "the array is beyond 64 bits");
        count.checked_mul(element).map(Some).ok_or_else(beyond)
    }

    /// Refuses what no array is. **Errors**: as for [`Array::len_bytes`].
    pub fn check(&self) -> Result<()> {
        self.len_bytes().map(drop)
    }
}

/// `<f8 1024x3`, and `F` behind it where the first axis varies fastest.
impl fmt::Display for Array {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let axes = self.shape.iter().map(u64::to_string).collect::<Vec<_>>().join("x");
        let descr = if self.descr.starts_with('[') { "record" } else { &self.descr };
        write!(f, "{descr} {}{}", if axes.is_empty() { "()" } else { &axes }, if self.fortran_order { " F" } else { "" })
    }
}

fn bad(term: &str, value: &str, reason: &str) -> Error {
    let shown: String = value.chars().take(80).flat_map(char::escape_default).collect();
    Error::BadSetting { key: format!("the array's {term}"), value: shown, reason: reason.to_owned() }
}

/// Bytes of an element of NumPy's type string. That is a byte order, a kind, and a length, which `U` counts in four bytes.
pub fn element_len(descr: &str) -> Result<Option<u64>> {
    let wrong = || bad("element type", descr, "plain types like <f8, <i4 or |u1 can be used, and records of them");
    if descr.starts_with('[') {
        let is_whole = literal(descr).is_some_and(|(_, rest)| rest.is_empty());
        let has_objects = ["'|O'", "\"|O\"", "'O'"].iter().any(|object| descr.contains(object));
        let is_plain = descr.chars().all(|c| !c.is_control());
        return if is_whole && is_plain && !has_objects { Ok(None) } else { Err(wrong()) };
    }
    let mut characters = descr.chars();
    let (Some(order), Some(kind)) = (characters.next(), characters.next()) else { return Err(wrong()) };
    // Dates carry their unit after the length: M8[ns].
    let (count, unit) = characters.as_str().split_once('[').unwrap_or((characters.as_str(), "]"));
    let count: u64 = count.parse().map_err(|_| wrong())?;
    let factor: u64 = match kind {
        'b' | 'i' | 'u' | 'f' | 'c' | 'm' | 'M' | 'S' | 'V' => 1,
        'U' => 4,
        _ => return Err(wrong()),
    };
    let is_unit = unit.strip_suffix(']').is_some_and(|unit| unit.chars().all(|c| c.is_ascii_alphanumeric()));
    let fits = matches!(order, '<' | '>' | '|' | '=') && (1..=1 << 20).contains(&count) && is_unit;
    if fits { Ok(Some(count.saturating_mul(factor))) } else { Err(wrong()) }
}

/// Splits a literal of Python, which a comma, a colon or the end ends, from what follows it. `None` where brackets or quotes do not match.
pub fn literal(text: &str) -> Option<(&str, &str)> {
    let (mut open, mut quote, mut is_escaped) = (Vec::new(), None, false);
    for (at, c) in text.char_indices() {
        match (quote, c) {
            _ if is_escaped => is_escaped = false,
            (Some(_), '\\') => is_escaped = true,
            (Some(inside), c) if c == inside => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(c),
            (None, '(') => open.push(')'),
            (None, '[') => open.push(']'),
            (None, '{') => open.push('}'),
            (None, ')' | ']' | '}') if open.last() == Some(&c) => drop(open.pop()),
            (None, ')' | ']' | '}') => return None,
            (None, ',' | ':') if open.is_empty() => return Some((text[..at].trim(), &text[at..])),
            (None, _) => {}
        }
    }
    (open.is_empty() && quote.is_none()).then(|| (text.trim(), ""))
}

/// Reads a shape as Python writes it.
pub fn parse_shape(text: &str) -> Option<Vec<u64>> {
    let axes = text.trim().strip_prefix('(')?.strip_suffix(')')?;
    axes.split(',').map(str::trim).filter(|axis| !axis.is_empty()).map(|axis| axis.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_terms_are_kept_as_attributes() {
        for shape in [vec![], vec![7], vec![1024, 3]] {
            let array = Array { fortran_order: true, ..Array::new("<f8", &shape) };
            assert_eq!(Array::of(&array.attributes()), Ok(Some(array.clone())));
        }
        assert_eq!(Array::new("<f8", &[1024, 3]).attributes().get("shape"), Some(&b"(1024, 3)"[..]));
        assert_eq!(Array::new("<f8", &[1024, 3]).to_string(), "<f8 1024x3");
        assert_eq!(Array::of(&Attributes::default()), Ok(None));
    }

    #[test]
    fn terms_that_no_array_has_are_refused() {
        let of = |descr: &str, order: &str, shape: &str| {
            Array::of(&Attributes::from_iter([("descr", descr), ("fortran_order", order), ("shape", shape)]))
        };
        assert!(of("<f8", "True", "(2,)").is_ok());
        for (descr, order, shape) in [
            ("<f8", "maybe", "(2,)"),
            ("<f8", "True", "2"),
            ("<f8", "True", "(-1,)"),
            ("|O", "True", "(2,)"),
            ("<f8', 'x': '", "True", "(2,)"),
            ("[('a', '|O')]", "True", "(2,)"),
            ("[('a', '<f8')], 'x': [1]", "True", "(2,)"),
            ("[('a', '<f8')\n]", "True", "(2,)"),
            ("<f8", "True", "(99999999999, 99999999999)"),
            ("[('a', '<f8')]", "True", "(99999999999, 99999999999)"),
        ] {
            assert!(of(descr, order, shape).is_err(), "{descr} {order} {shape}");
        }
    }

    #[test]
    fn elements_have_lengths_and_records_have_none() {
        for (descr, len) in [("<f8", 8), ("|u1", 1), ("<U3", 12), ("<M8[ns]", 8), ("|S5", 5), (">c16", 16)] {
            assert_eq!(element_len(descr), Ok(Some(len)), "{descr}");
        }
        assert_eq!(element_len("[('x', '<f8'), ('n', '<i4', (2,))]"), Ok(None));
        assert!(element_len("").is_err() && element_len("<f0").is_err() && element_len("<M8[n's]").is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_a_literal_and_a_rest_or_none(text: String) {
            if let Some((literal, rest)) = literal(&text) {
                prop_assert!(literal.len() + rest.len() <= text.len());
            }
            let _ = (element_len(&text), parse_shape(&text));
        }
    }
}
