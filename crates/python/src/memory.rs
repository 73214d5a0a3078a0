//! Bytes that Python objects lend for a call, by the buffer protocol.
//!
//! Safety invariants of this module:
//!
//! 1. A buffer keeps its object's memory where it is, and mapped, as long as the [`ObjectBytes`] lives.
//! 2. Only C-contiguous buffers are taken; those that are written to are not read-only.
//! 3. Other threads of the program may change the bytes during a call, as they may change any buffer that a system call works on. The
//!    slices given out become windows of the command at once, and nothing else looks at them.

use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::prelude::*;

/// Calls that move more release the interpreter's lock: below, taking it again may cost more than the copy.
pub const BRIEF_LEN: usize = 64 << 10;

/// A Python object's bytes.
pub struct ObjectBytes {
    buffer: PyUntypedBuffer,
}

impl ObjectBytes {
    /// Bytes to read from.
    ///
    /// **Errors**: `BufferError` where the object has no bytes, or not one after another.
    pub fn new(object: &Bound<'_, PyAny>) -> PyResult<ObjectBytes> {
        let buffer = PyUntypedBuffer::get(object)?;
        match buffer.is_c_contiguous() {
            true => Ok(ObjectBytes { buffer }),
            false => Err(PyBufferError::new_err("the buffer's bytes do not lie one after another")),
        }
    }

    /// Bytes to write to.
    ///
    /// **Errors**: as for [`ObjectBytes::new`], and `BufferError` where the object is read-only.
    pub fn new_mut(object: &Bound<'_, PyAny>) -> PyResult<ObjectBytes> {
        let lent = ObjectBytes::new(object)?;
        match lent.buffer.readonly() {
            true => Err(PyBufferError::new_err("the buffer is read-only")),
            false => Ok(lent),
        }
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.buffer.len_bytes()
    }

    /// The bytes, to read from.
    pub fn bytes(&self) -> &[u8] {
        if self.len() == 0 {
            return &[];
        }
        // SAFETY: invariants 1 and 3.
        unsafe { std::slice::from_raw_parts(self.buffer.buf_ptr().cast(), self.len()) }
    }

    /// The bytes, to write to. For a [`ObjectBytes::new_mut`].
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        if self.len() == 0 {
            return &mut [];
        }
        // SAFETY: invariants 1, 2 and 3.
        unsafe { std::slice::from_raw_parts_mut(self.buffer.buf_ptr().cast(), self.len()) }
    }

    /// The bytes as a list of indices of 4 or 8 bytes.
    ///
    /// **Errors**: `ValueError` for items of another length, or at odd addresses.
    pub fn indices(&self) -> PyResult<hanare::Indices<'_>> {
        let (pointer, count) = (self.buffer.buf_ptr(), self.buffer.item_count());
        if count == 0 {
            return Ok(hanare::Indices::from(&[] as &[u64]));
        }
        match self.buffer.item_size() {
            4 if pointer.cast::<u32>().is_aligned() => {
                // SAFETY: invariants 1 and 3; the alignment was just looked at.
                Ok(unsafe { std::slice::from_raw_parts::<u32>(pointer.cast(), count) }.into())
            }
            8 if pointer.cast::<u64>().is_aligned() => {
                // SAFETY: as above.
                Ok(unsafe { std::slice::from_raw_parts::<u64>(pointer.cast(), count) }.into())
            }
            other => Err(PyValueError::new_err(format!("indices have 4 or 8 bytes, not {other}"))),
        }
    }
}

/// Checks that no byte is in two buffers: each is written to on its own.
///
/// **Errors**: `ValueError`.
pub fn check_apart(buffers: &[ObjectBytes]) -> PyResult<()> {
    let mut ranges: Vec<(usize, usize)> = buffers.iter().map(|lent| (lent.buffer.buf_ptr() as usize, lent.len())).collect();
    ranges.sort_unstable();
    match ranges.windows(2).any(|pair| pair[0].0 + pair[0].1 > pair[1].0) {
        true => Err(PyValueError::new_err("two of the buffers have bytes in common")),
        false => Ok(()),
    }
}

/// Runs the work of a call, without the interpreter's lock where it waits for others or moves much.
pub fn run<T: Send>(py: Python<'_>, may_wait: bool, len: usize, work: impl FnOnce() -> hanare::Result<T> + Send) -> PyResult<T> {
    let done = if may_wait || len > BRIEF_LEN { py.detach(work) } else { work() };
    done.map_err(crate::errors::raise)
}
