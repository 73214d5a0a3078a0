//! Keys as bytes, so that equal keys are equal bytes in every program.
//!
//! ```text
//! s utf-8, with lone surrogates | b bytes | i digits of a whole number | f eight bytes of another number | n None
//! t length u32, key, length u32, key ...
//! ```

use hanare::Error;
use pyo3::exceptions::{PyRecursionError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyFloat, PyInt, PyString, PyTuple};

/// Tuples in each other, at most.
const DEPTH: usize = 200;

/// Writes a key. **Errors**: `TypeError` for what is no key.
pub fn encode(key: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    let mut into = Vec::with_capacity(64);
    encode_into(key, &mut into, 0)?;
    Ok(into)
}

fn encode_into(key: &Bound<'_, PyAny>, into: &mut Vec<u8>, depth: usize) -> PyResult<()> {
    if let Ok(text) = key.cast::<PyString>() {
        into.push(b's');
        match text.to_str() {
            Ok(text) => into.extend_from_slice(text.as_bytes()),
            Err(_) => {
                let bytes = text.call_method1("encode", ("utf-8", "surrogatepass"))?;
                into.extend_from_slice(bytes.cast::<PyBytes>()?.as_bytes());
            }
        }
    } else if let Ok(bytes) = key.cast::<PyBytes>() {
        into.push(b'b');
        into.extend_from_slice(bytes.as_bytes());
    } else if let Ok(bytes) = key.cast::<PyByteArray>() {
        into.push(b'b');
        into.extend_from_slice(&bytes.to_vec());
    } else if key.cast::<PyInt>().is_ok() {
        encode_whole(key, into)?;
    } else if let Ok(float) = key.cast::<PyFloat>() {
        let value = float.value();
        if value.is_finite() && value.fract() == 0.0 {
            return encode_whole(key, into);
        }
        into.push(b'f');
        into.extend_from_slice(&value.to_le_bytes());
    } else if key.is_none() {
        into.push(b'n');
    } else if let Ok(parts) = key.cast::<PyTuple>() {
        if depth == DEPTH {
            return Err(PyRecursionError::new_err(format!("a key has more than {DEPTH} tuples in each other")));
        }
        into.push(b't');
        for part in parts.iter() {
            let begin = into.len();
            into.extend_from_slice(&[0; 4]);
            encode_into(&part, into, depth + 1)?;
            let len = (into.len() - begin - 4) as u32;
            into[begin..begin + 4].copy_from_slice(&len.to_le_bytes());
        }
    } else {
        let kind = key.get_type().name()?;
        return Err(PyTypeError::new_err(format!("a key is a text, bytes, a number, None, or a tuple of those; not {kind}")));
    }
    Ok(())
}

/// Writes the digits of a number that is whole.
fn encode_whole(key: &Bound<'_, PyAny>, into: &mut Vec<u8>) -> PyResult<()> {
    into.push(b'i');
    let digits = match key.cast::<PyInt>().ok().and_then(|whole| whole.extract::<i64>().ok()) {
        Some(short) => short.to_string(),
        None => key.py().get_type::<PyInt>().call1((key,))?.str()?.to_str()?.to_owned(),
    };
    into.extend_from_slice(digits.as_bytes());
    Ok(())
}

/// Reads a key. **Errors**: [`Error::Garbage`] for bytes that no program writes.
pub fn decode<'py>(py: Python<'py>, coded: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    decode_within(py, coded, 0)
}

fn decode_within<'py>(py: Python<'py>, coded: &[u8], depth: usize) -> PyResult<Bound<'py, PyAny>> {
    let (kind, rest) = coded.split_first().ok_or_else(garbage)?;
    let text = || std::str::from_utf8(rest);
    match kind {
        b's' => match text() {
            Ok(text) => Ok(PyString::new(py, text).into_any()),
            Err(_) => PyBytes::new(py, rest).call_method1("decode", ("utf-8", "surrogatepass")).map_err(|_| garbage()),
        },
        b'b' => Ok(PyBytes::new(py, rest).into_any()),
        b'i' => {
            let digits = text().map_err(|_| garbage())?;
            match digits.parse::<i64>() {
                Ok(short) => Ok(short.into_pyobject(py)?.into_any()),
                Err(_) => py.get_type::<PyInt>().call1((digits,)).map_err(|_| garbage()),
            }
        }
        b'f' => Ok(PyFloat::new(py, f64::from_le_bytes(rest.try_into().map_err(|_| garbage())?)).into_any()),
        b'n' if rest.is_empty() => Ok(py.None().into_bound(py)),
        b't' if depth < DEPTH => {
            let (mut parts, mut rest) = (Vec::new(), rest);
            while let Some((len, from)) = rest.split_first_chunk::<4>() {
                let (part, after) = from.split_at_checked(u32::from_le_bytes(*len) as usize).ok_or_else(garbage)?;
                parts.push(decode_within(py, part, depth + 1)?);
                rest = after;
            }
            if rest.is_empty() { Ok(PyTuple::new(py, parts)?.into_any()) } else { Err(garbage()) }
        }
        _ => Err(garbage()),
    }
}

fn garbage() -> PyErr {
    let reason = "a key of a dictionary makes no sense".to_owned();
    crate::errors::raise(Error::Garbage { peer: "a program of the pool".to_owned(), reason })
}
