//! NumPy's file format: the header before the elements.
//!
//! ```text
//! \x93NUMPY  major minor  header length (2 bytes in version 1, 4 from version 2)  Python dictionary, padded  elements
//! ```
//!
//! SOURCE: NEP 1 and `numpy.lib.format`. Only arrays in C order whose elements have a fixed size are taken: their bytes are what a
//! region holds. A file is input from anyone: lengths are bounded and products checked.

use anyhow::{Context, Result, bail, ensure};
use std::io::{Read, Write};

const MAGIC: &[u8; 6] = b"\x93NUMPY";
/// Longest header that is read: far beyond any real one, small enough to refuse garbage.
const HEADER_LEN_MAX: usize = 64 << 10;
/// The elements begin at a multiple of this, as NumPy writes them, so that they can be mapped.
const ALIGNMENT: usize = 64;

/// What an array's elements are and how they lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Array {
    /// NumPy's type string, for example `<f8`.
    pub dtype: String,
    /// Elements along each axis; the last one varies fastest.
    pub shape: Vec<u64>,
}

impl Array {
    /// Bytes of all elements.
    pub fn len_bytes(&self) -> Result<u64> {
        let element = element_len(&self.dtype)?;
        self.shape.iter().try_fold(element, |product, axis| product.checked_mul(*axis)).context("the array is beyond 64 bits")
    }

    /// Reads the header; the reader stands at the first element after it.
    pub fn read(reader: &mut impl Read) -> Result<Array> {
        let mut start = [0; 8];
        reader.read_exact(&mut start).context("it is too short for a .npy file")?;
        ensure!(start[..6] == *MAGIC, "it does not begin as a .npy file does");
        let header_len = match start[6] {
            1 => u16::from_le_bytes(read_array(reader)?) as usize,
            2 | 3 => u32::from_le_bytes(read_array(reader)?) as usize,
            version => bail!(".npy version {version} is not known (1 to 3 are)"),
        };
        ensure!(header_len <= HEADER_LEN_MAX, "its header claims {header_len} bytes, more than {HEADER_LEN_MAX}");
        let mut header = vec![0; header_len];
        reader.read_exact(&mut header).context("it ends within its header")?;
        Array::from_dictionary(std::str::from_utf8(&header).context("its header is not text")?)
    }

    fn from_dictionary(text: &str) -> Result<Array> {
        let entries =
            text.trim().strip_prefix('{').and_then(|text| text.strip_suffix('}')).context("its header is no dictionary")?;
        ensure!(
            !value(entries, "fortran_order")?.starts_with("True"),
            "it is in Fortran order; save it with numpy.ascontiguousarray"
        );
        let dtype = quoted(value(entries, "descr")?).context("its elements are records; only plain element types are taken")?;
        element_len(dtype)?;
        let shape =
            value(entries, "shape")?.strip_prefix('(').and_then(|text| text.split_once(')')).context("it has no shape")?.0;
        let shape = shape.split(',').map(str::trim).filter(|axis| !axis.is_empty());
        let shape = shape.map(|axis| axis.parse().with_context(|| format!("its shape holds '{axis}'"))).collect::<Result<_>>()?;
        let array = Array { dtype: dtype.to_owned(), shape };
        array.len_bytes()?;
        Ok(array)
    }

    /// Writes a version 1 header (version 2 where that is too short).
    pub fn write(&self, writer: &mut impl Write) -> Result<()> {
        let axes: String = self.shape.iter().map(|axis| format!("{axis}, ")).collect();
        let axes = if self.shape.len() > 1 { axes.trim_end_matches(", ") } else { axes.trim_end() };
        let dictionary = format!("{{'descr': '{}', 'fortran_order': False, 'shape': ({axes}), }}", self.dtype);
        let version = if dictionary.len() + ALIGNMENT < usize::from(u16::MAX) { 1 } else { 2 };
        let before = if version == 1 { 10 } else { 12 };
        let header_len = (before + dictionary.len() + 1).next_multiple_of(ALIGNMENT) - before;
        writer.write_all(MAGIC)?;
        writer.write_all(&[version, 0])?;
        match version {
            1 => writer.write_all(&(header_len as u16).to_le_bytes())?,
            _ => writer.write_all(&(header_len as u32).to_le_bytes())?,
        }
        writeln!(writer, "{dictionary:<width$}", width = header_len - 1)?;
        Ok(())
    }
}

fn read_array<const N: usize>(reader: &mut impl Read) -> Result<[u8; N]> {
    let mut bytes = [0; N];
    reader.read_exact(&mut bytes).context("it ends within its header")?;
    Ok(bytes)
}

/// What stands after `'key':` in the dictionary.
fn value<'a>(entries: &'a str, key: &str) -> Result<&'a str> {
    let find = |quote: char| {
        let mark = format!("{quote}{key}{quote}");
        entries.find(&mark).map(|at| &entries[at + mark.len()..])
    };
    let after = find('\'').or_else(|| find('"')).with_context(|| format!("its header has no {key}"))?;
    Ok(after.trim_start().strip_prefix(':').with_context(|| format!("its header has no {key}"))?.trim_start())
}

fn quoted(text: &str) -> Option<&str> {
    let quote = text.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
    text[1..].split_once(quote).map(|(inside, _)| inside)
}

/// Bytes of an element of NumPy's type string: a byte order, a kind, and a length (in units of four bytes for `U`).
fn element_len(dtype: &str) -> Result<u64> {
    let bad = || format!("element type '{dtype}' cannot be used; plain ones like <f8, <i4 or |u1 can");
    let mut characters = dtype.chars();
    let (order, kind) = (characters.next().with_context(bad)?, characters.next().with_context(bad)?);
    ensure!(matches!(order, '<' | '>' | '|' | '='), bad());
    // Dates carry their unit after the length: M8[ns].
    let count: u64 = characters.as_str().split('[').next().unwrap_or_default().parse().with_context(bad)?;
    let unit = match kind {
        'b' | 'i' | 'u' | 'f' | 'c' | 'm' | 'M' | 'S' | 'V' => 1,
        'U' => 4,
        _ => bail!(bad()),
    };
    ensure!((1..=1 << 20).contains(&count), bad());
    ensure!(!dtype.contains(['\'', '"', '\\', '\n']), bad());
    Ok(count * unit)
}

/// Reads an element type as people write it: `<f8`, `f8`, or a name such as `float64`.
pub fn parse_dtype(text: &str) -> Result<String, String> {
    const NAMES: &[(&str, &str)] = &[
        ("float16", "<f2"),
        ("float32", "<f4"),
        ("float64", "<f8"),
        ("double", "<f8"),
        ("int8", "|i1"),
        ("int16", "<i2"),
        ("int32", "<i4"),
        ("int64", "<i8"),
        ("uint8", "|u1"),
        ("uint16", "<u2"),
        ("uint32", "<u4"),
        ("uint64", "<u8"),
        ("complex64", "<c8"),
        ("complex128", "<c16"),
        ("bool", "|b1"),
    ];
    let dtype = match NAMES.iter().find(|(name, _)| *name == text) {
        Some((_, dtype)) => (*dtype).to_owned(),
        None if text.starts_with(|c: char| c.is_ascii_alphabetic()) => {
            format!("{}{text}", if text.ends_with('1') && text.len() == 2 { '|' } else { '<' })
        }
        None => text.to_owned(),
    };
    element_len(&dtype).map_err(|error| error.to_string())?;
    Ok(dtype)
}

/// Reads a shape as people write it: `1024x1024` or `1024,1024`.
pub fn parse_shape(text: &str) -> Result<Vec<u64>, String> {
    let axes = text.split(['x', ',']).map(|axis| axis.trim().parse());
    axes.collect::<Result<_, _>>().map_err(|_| format!("'{text}' is no shape: write the axes as 1024x1024"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn file(version: u8, dictionary: &str) -> Vec<u8> {
        let mut bytes = [&MAGIC[..], &[version, 0]].concat();
        match version {
            1 => bytes.extend((dictionary.len() as u16).to_le_bytes()),
            _ => bytes.extend((dictionary.len() as u32).to_le_bytes()),
        }
        bytes.extend(dictionary.as_bytes());
        bytes
    }

    #[test]
    fn what_numpy_writes_is_read_in_every_version() {
        let text = "{'descr': '<f8', 'fortran_order': False, 'shape': (1024, 3), }          \n";
        for version in 1..=3 {
            let array = Array::read(&mut &file(version, text)[..]).unwrap();
            assert_eq!(array, Array { dtype: "<f8".to_owned(), shape: vec![1024, 3] });
            assert_eq!(array.len_bytes().unwrap(), 1024 * 3 * 8);
        }
        let scalar = Array::read(&mut &file(1, "{'descr': '|u1', 'fortran_order': False, 'shape': ()}")[..]).unwrap();
        assert_eq!(scalar.len_bytes().unwrap(), 1);
    }

    #[test]
    fn what_no_region_can_hold_is_refused_with_the_reason() {
        for (text, reason) in [
            ("{'descr': '<f8', 'fortran_order': True, 'shape': (2,)}", "Fortran"),
            ("{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (2,)}", "records"),
            ("{'descr': '|O', 'fortran_order': False, 'shape': (2,)}", "cannot be used"),
            ("{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999, 99999999999)}", "64 bits"),
            ("{'descr': '<f8', 'fortran_order': False, 'shape': (-1,)}", "shape"),
            ("{'descr': '<f8', 'fortran_order': False}", "shape"),
            ("not a dictionary", "dictionary"),
        ] {
            let error = format!("{:#}", Array::read(&mut &file(1, text)[..]).unwrap_err());
            assert!(error.contains(reason), "{text}: {error}");
        }
        assert!(Array::read(&mut &b"\x93NUMPY\x09\0"[..]).is_err());
        assert!(Array::read(&mut &b"\x93NUMPY\x02\0\xff\xff\xff\xff"[..]).is_err());
    }

    #[test]
    fn element_types_have_names() {
        assert_eq!(parse_dtype("float64").as_deref(), Ok("<f8"));
        assert_eq!(parse_dtype("i4").as_deref(), Ok("<i4"));
        assert_eq!(parse_dtype(">c16").as_deref(), Ok(">c16"));
        assert!(parse_dtype("O").is_err() && parse_dtype("").is_err() && parse_dtype("<f8'").is_err());
        assert_eq!(parse_shape("2x3"), Ok(vec![2, 3]));
        assert!(parse_shape("2x").is_err());
    }

    proptest! {
        #[test]
        fn any_array_is_read_as_it_was_written(shape in prop::collection::vec(0u64..1000, 0..6), dtype in "[<>][iufc][1248]") {
            let array = Array { dtype, shape };
            let mut bytes = Vec::new();
            array.write(&mut bytes).unwrap();
            prop_assert_eq!(bytes.len() % ALIGNMENT, 0);
            prop_assert_eq!(bytes.last(), Some(&b'\n'));
            prop_assert_eq!(Array::read(&mut &bytes[..]).unwrap(), array);
        }

        #[test]
        fn any_bytes_are_an_array_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200), text in "[{}'()a-z<0-9:, ]{0,80}") {
            let _ = Array::read(&mut &bytes[..]);
            let _ = Array::read(&mut &file(1, &text)[..]);
            let _ = Array::read(&mut &file(1, &format!("{{{text}'descr': '<f8', 'fortran_order': False, 'shape': ({text})}}"))[..]);
        }
    }
}
