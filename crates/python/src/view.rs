//! Mapped memory with Python's buffer protocol: what a NumPy array stands on.
//!
//! Safety invariants of this module:
//!
//! 1. A buffer that was given out holds its [`View`], and the view its mapping: the memory stays mapped as long as anybody can reach it.
//! 2. Buffers of a region that was opened for reading are read-only.
//! 3. No reference to the bytes exists here; others may change them at any time, as they may change any memory that programs share.

use crate::errors::raise;
use hanare::{BoundShape, LocalMapping, Rights, SharedMapping, Strided};
use pyo3::exceptions::{PyBufferError, PyRuntimeError};
use pyo3::ffi;
use pyo3::prelude::*;
use std::ffi::c_int;

enum Mapped {
    Local(LocalMapping),
    Shared(SharedMapping),
}

/// A region's bytes in this program's memory. Unmapped with the last object that reaches them.
#[pyclass(frozen, weakref, module = "hanare._hanare")]
pub struct View {
    mapped: Mapped,
    rights: Rights,
}

impl View {
    pub fn local(mapping: LocalMapping, rights: Rights) -> View {
        View { mapped: Mapped::Local(mapping), rights }
    }

    pub fn shared(mapping: SharedMapping, rights: Rights) -> View {
        View { mapped: Mapped::Shared(mapping), rights }
    }

    fn start(&self) -> (*mut u8, usize) {
        match &self.mapped {
            Mapped::Local(mapping) => (mapping.ptr(), mapping.len()),
            Mapped::Shared(mapping) => (mapping.ptr(), mapping.len() as usize),
        }
    }

    /// Bytes that can be bound to a lock.
    ///
    /// **Errors**: `BadUse` for a mapping that is not one of locks' data; `OutOfRange`.
    pub fn bytes(&self, offset: u64, len: u64) -> PyResult<BoundShape> {
        match &self.mapped {
            Mapped::Local(_) => {
                Err(PyRuntimeError::new_err("it is mapped as this host's own memory, and not for the data of locks"))
            }
            Mapped::Shared(mapping) => mapping.bytes(Strided::contiguous(offset, len)).map_err(raise),
        }
    }

    fn with_shared(&self, py: Python<'_>, call: impl FnOnce(&SharedMapping) -> hanare::Result<()> + Send) -> PyResult<()> {
        match &self.mapped {
            Mapped::Local(_) => Ok(()),
            Mapped::Shared(mapping) => py.detach(|| call(mapping)).map_err(raise),
        }
    }
}

#[pymethods]
impl View {
    /// Length in bytes.
    #[getter]
    fn len(&self) -> usize {
        self.start().1
    }

    /// True if the bytes are this host's own, and all there.
    #[getter]
    fn is_local(&self) -> bool {
        matches!(self.mapped, Mapped::Local(_))
    }

    /// Makes stores to a range visible to others.
    fn flush(&self, py: Python<'_>, offset: u64, len: u64) -> PyResult<()> {
        self.with_shared(py, |mapping| mapping.flush(offset, len))
    }

    /// Lets this program see what others made visible in a range.
    fn update(&self, py: Python<'_>, offset: u64, len: u64) -> PyResult<()> {
        self.with_shared(py, |mapping| mapping.update(offset, len))
    }

    /// Brings the pages of a range here.
    fn touch(&self, py: Python<'_>, offset: u64, len: u64) -> PyResult<()> {
        self.with_shared(py, |mapping| mapping.touch(offset, len))
    }

    /// Gives out the bytes.
    ///
    /// # Safety
    /// `buffer` is the interpreter's.
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, buffer: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let (start, len) = slf.get().start();
        let is_read_only = slf.get().rights != Rights::Write;
        let len = isize::try_from(len).map_err(|_| PyBufferError::new_err("longer than the address space"))?;
        // SAFETY: the memory stays mapped while the buffer holds `slf` (invariant 1).
        match unsafe { ffi::PyBuffer_FillInfo(buffer, slf.as_ptr(), start.cast(), len, c_int::from(is_read_only), flags) } {
            0 => Ok(()),
            _ => Err(PyErr::take(slf.py()).unwrap_or_else(|| PyRuntimeError::new_err("no buffer"))),
        }
    }
}
