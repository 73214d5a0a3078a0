//! NumPy's file format: the header before the elements.
//!
//! ```text
//! \x93NUMPY  major minor  header length (2 bytes in version 1, 4 from version 2)  Python dictionary, padded  elements
//! ```
//!
//! SOURCE: NEP 1 and `numpy.lib.format`. Only arrays whose elements have a fixed size are taken: their bytes are what a region holds,
//! and the header's terms are kept with it ([`Array`]). A file is input from anyone: lengths are bounded and products checked.

use anyhow::{Context, Result, bail, ensure};
use hanare_protocol::array::{self, Array};
use std::collections::BTreeMap;
use std::io::{Read, Write};

const MAGIC: &[u8; 6] = b"\x93NUMPY";
/// Longest header that is read: far beyond any real one, small enough to refuse garbage.
const HEADER_LEN_MAX: usize = 64 << 10;
/// The elements begin at a multiple of this, as NumPy writes them, so that they can be mapped.
const ALIGNMENT: usize = 64;
/// Digits for which NumPy leaves room at the axis along which a file may grow.
const AXIS_DIGIT_COUNT: usize = 21;

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
    from_dictionary(std::str::from_utf8(&header).context("its header is not text")?)
}

fn from_dictionary(text: &str) -> Result<Array> {
    let no_dictionary = "its header is no dictionary";
    let mut rest = text.trim().strip_prefix('{').and_then(|text| text.strip_suffix('}')).context(no_dictionary)?.trim();
    let mut entries = BTreeMap::new();
    while !rest.is_empty() {
        let (key, after) = array::literal(rest).context(no_dictionary)?;
        let (value, after) = after.strip_prefix(':').and_then(array::literal).context(no_dictionary)?;
        entries.insert(unquoted(key).context(no_dictionary)?, value);
        rest = after.strip_prefix(',').unwrap_or(after).trim();
    }
    let entry = |key: &str| entries.get(key).copied().with_context(|| format!("its header has no {key}"));
    let descr = entry("descr")?;
    let fortran_order = match entry("fortran_order")? {
        "True" => true,
        "False" => false,
        other => bail!("its fortran_order is '{other}'"),
    };
    let shape = array::parse_shape(entry("shape")?).context("its shape is none")?;
    let array = Array { descr: unquoted(descr).unwrap_or(descr).to_owned(), fortran_order, shape };
    array.check()?;
    Ok(array)
}

/// Writes the header as NumPy does: version 1, or 2 where that is too short, with room for the axis along which the file may grow.
pub fn write(array: &Array, writer: &mut impl Write) -> Result<()> {
    let descr = if array.descr.starts_with('[') { array.descr.clone() } else { format!("'{}'", array.descr) };
    let order = if array.fortran_order { "True" } else { "False" };
    let shape = array.written_shape();
    let mut dictionary = format!("{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}");
    let grows = if array.fortran_order { array.shape.last() } else { array.shape.first() };
    if let Some(axis) = grows {
        dictionary.extend(std::iter::repeat_n(' ', AXIS_DIGIT_COUNT.saturating_sub(axis.to_string().len())));
    }
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

fn read_array<const N: usize>(reader: &mut impl Read) -> Result<[u8; N]> {
    let mut bytes = [0; N];
    reader.read_exact(&mut bytes).context("it ends within its header")?;
    Ok(bytes)
}

/// Text between a literal's quotes.
fn unquoted(text: &str) -> Option<&str> {
    let quote = text.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
    let inside = text[1..].strip_suffix(quote)?;
    (!inside.contains([quote, '\\'])).then_some(inside)
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
    array::element_len(&dtype).map_err(|error| error.to_string())?;
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
    use hanare_fuzz::drive;
    use proptest::prelude::*;

    /// Bytes that a header may have allocated, however long it says that it is.
    const MOST: usize = 1 << 20;

    /// A file's beginning; what is read of it is written so that it is read again.
    fn npy(bytes: &[u8]) {
        let Ok(array) = read(&mut &bytes[..]) else { return };
        let mut written = Vec::new();
        write(&array, &mut written).unwrap();
        assert_eq!(read(&mut &written[..]).unwrap(), array);
    }

    #[test]
    fn files_of_any_bytes() {
        let record = "{'descr': [('x', '<f8'), (('t', 'n'), '<i4', (2,))], 'fortran_order': True, 'shape': (2, 3), }";
        let plain = "{'descr': '<f8', 'fortran_order': False, 'shape': (7,), }";
        drive(
            "npy",
            &[file(1, record), file(2, plain), file(3, "{'descr': '|V8', 'fortran_order': True, 'shape': ()}")],
            MOST,
            npy,
        );
    }

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
            assert_eq!(read(&mut &file(version, text)[..]).unwrap(), Array::new("<f8", &[1024, 3]));
        }
        let scalar = read(&mut &file(1, "{'descr': '|u1', 'fortran_order': True, 'shape': ()}")[..]).unwrap();
        assert_eq!(scalar, Array { fortran_order: true, ..Array::new("|u1", &[]) });
        let text = "{'descr': [('shape', '<f8'), (('a, b', 'c'), '<i4', (2,))], 'fortran_order': False, 'shape': (2,), }";
        let record = read(&mut &file(1, text)[..]).unwrap();
        assert_eq!(record, Array::new("[('shape', '<f8'), (('a, b', 'c'), '<i4', (2,))]", &[2]));
    }

    #[test]
    fn a_header_is_written_as_numpy_writes_it() {
        let written = |array: &Array| {
            let mut bytes = Vec::new();
            write(array, &mut bytes).unwrap();
            String::from_utf8_lossy(&bytes[10..]).into_owned()
        };
        let text = "{'descr': '<f8', 'fortran_order': False, 'shape': (100, 30), }";
        assert_eq!(written(&Array::new("<f8", &[100, 30])), format!("{text:<117}\n"));
        let text = "{'descr': [('x', '<f8')], 'fortran_order': True, 'shape': (7,), }";
        assert_eq!(written(&Array { fortran_order: true, ..Array::new("[('x', '<f8')]", &[7]) }), format!("{text:<117}\n"));
    }

    #[test]
    fn what_no_region_can_hold_is_refused_with_the_reason() {
        for (text, reason) in [
            ("{'descr': '<f8', 'fortran_order': maybe, 'shape': (2,)}", "maybe"),
            ("{'descr': '|O', 'fortran_order': False, 'shape': (2,)}", "plain types"),
            ("{'descr': [('a', '|O')], 'fortran_order': False, 'shape': (2,)}", "plain types"),
            ("{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999, 99999999999)}", "64 bits"),
            ("{'descr': '<f8', 'fortran_order': False, 'shape': (-1,)}", "shape"),
            ("{'descr': '<f8', 'fortran_order': False}", "shape"),
            ("{'descr': '<f8', 'fortran_order'}", "dictionary"),
            ("not a dictionary", "dictionary"),
        ] {
            let error = format!("{:#}", read(&mut &file(1, text)[..]).unwrap_err());
            assert!(error.contains(reason), "{text}: {error}");
        }
        assert!(read(&mut &b"\x93NUMPY\x09\0"[..]).is_err());
        assert!(read(&mut &b"\x93NUMPY\x02\0\xff\xff\xff\xff"[..]).is_err());
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
        fn any_array_is_read_as_it_was_written(
            shape in prop::collection::vec(0u64..1000, 0..6), descr in "[<>][iufc][1248]", fortran_order: bool
        ) {
            let array = Array { descr, fortran_order, shape };
            let mut bytes = Vec::new();
            write(&array, &mut bytes).unwrap();
            prop_assert_eq!(bytes.len() % ALIGNMENT, 0);
            prop_assert_eq!(bytes.last(), Some(&b'\n'));
            prop_assert_eq!(read(&mut &bytes[..]).unwrap(), array);
        }

        #[test]
        fn any_bytes_are_an_array_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200), text in "[{}'()a-z<0-9:, ]{0,80}") {
            let _ = read(&mut &bytes[..]);
            let _ = read(&mut &file(1, &text)[..]);
            let _ = read(&mut &file(1, &format!("{{{text}'descr': '<f8', 'fortran_order': False, 'shape': ({text})}}"))[..]);
        }
    }
}
