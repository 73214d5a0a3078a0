//! Dictionaries as Python sees them: keys as bytes, the interpreter's lock around steps that wait, and bytes of values as Python's objects.
//!
//! The crate `hanare-dict` is the dictionary. `hanare/dictionary.py` makes bytes of values, and values of bytes.
//!
//! Safety invariants of this module:
//!
//! 1. Bytes of a value are written into an object that only this call knows.
//! 2. A [`ValueBuffer`] has its bytes mapped, and each buffer that was given out keeps it alive. They are read-only.

pub mod key;

use crate::errors::raise;
use crate::memory::ObjectBytes;
use crate::pool::Pool;
use hanare_dict::{GRANULE, Hold, Key, Options, Sink, Told, VIEWED_LEN_MIN, Waiter, Walk, Writers, kind};
use pyo3::exceptions::{PyMemoryError, PyRuntimeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyList};
use std::cell::RefCell;
use std::ffi::c_int;
use std::sync::Mutex;

/// Arrays of at least so many bytes are made by NumPy, which does not fill them first.
const ARRAY_LEN: usize = 4096;

/// Gives the interpreter's lock to others in steps that may wait; a signal's exception ends long work.
struct Interpreter;

thread_local! {
    /// The exception of a signal that ended a call of this thread.
    static SIGNAL: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

impl Waiter for Interpreter {
    fn wait<T: Send>(&self, step: impl FnOnce() -> T + Send) -> T {
        Python::attach(|py| py.detach(step))
    }

    fn goes_on(&self) -> bool {
        let signal = Python::attach(|py| py.check_signals()).err();
        let goes_on = signal.is_none();
        SIGNAL.set(signal);
        goes_on
    }
}

/// A signal's exception, or that of the error.
fn raised(error: hanare::Error) -> PyErr {
    SIGNAL.take().unwrap_or_else(|| raise(error))
}

/// A value's bytes as an object that is made for them.
struct Made<'py> {
    py: Python<'py>,
    /// True if the bytes of arrays may be written to.
    is_writable: bool,
    object: Option<Bound<'py, PyAny>>,
    /// Set for a writable array; else the object is bytes.
    lent: Option<ObjectBytes>,
    failed: Option<PyErr>,
}

impl<'py> Made<'py> {
    fn new(py: Python<'py>, is_writable: bool) -> Made<'py> {
        Made { py, is_writable, object: None, lent: None, failed: None }
    }

    fn make(&mut self, value: u8, len: usize) -> PyResult<()> {
        let py = self.py;
        self.lent = None;
        if !self.is_writable || !matches!(value, kind::BESIDE | kind::ARRAY) {
            let len = isize::try_from(len).map_err(|_| PyMemoryError::new_err(()))?;
            // SAFETY: nobody reads the bytes before they are written; the pointer is a new object's, or NULL with an exception set.
            let made = unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyBytes_FromStringAndSize(std::ptr::null(), len))? };
            self.object = Some(made);
            return Ok(());
        }
        let made = match len {
            ARRAY_LEN.. => py.import("numpy")?.call_method1("empty", (len, "u1"))?,
            _ => PyByteArray::new(py, &vec![0; len]).into_any(),
        };
        self.lent = Some(ObjectBytes::new_mut(&made)?);
        self.object = Some(made);
        Ok(())
    }
}

impl Sink for Made<'_> {
    fn room(&mut self, value: u8, len: usize) -> Option<&mut [u8]> {
        // An object of before has bytes of another moment.
        self.failed = self.make(value, len).err();
        if self.failed.is_some() {
            return None;
        }
        if let Some(lent) = &mut self.lent {
            return Some(lent.bytes_mut());
        }
        let made = self.object.as_ref()?.as_ptr();
        // SAFETY: it is a bytes object of that length, which only this knows (invariant 1) and keeps.
        Some(unsafe { std::slice::from_raw_parts_mut(ffi::PyBytes_AsString(made).cast(), len) })
    }
}

/// A value: its kind, its bytes, and whether none but this user, and none but users that are trusted, may have written it.
type ValueTuple<'py> = (u8, Bound<'py, PyAny>, bool, bool);

/// A dictionary that is open in this process.
#[pyclass(frozen, module = "hanare._hanare")]
pub struct Dictionary {
    dict: hanare_dict::Dict<Interpreter>,
}

impl Dictionary {
    fn value<'py>(&self, py: Python<'py>, coded: &[u8], is_writable: bool) -> PyResult<Option<(Told, Bound<'py, PyAny>)>> {
        let mut made = Made::new(py, is_writable);
        let told = self.dict.read(&Key::from_coded(coded), &mut made).map_err(raised)?;
        match (told, made.failed, made.object) {
            (_, Some(failed), _) => Err(failed),
            (Some(told), None, Some(object)) => Ok(Some((told, object))),
            _ => Ok(None),
        }
    }
}

fn tuple<'py>(value: u8, object: Bound<'py, PyAny>, writers: Writers) -> ValueTuple<'py> {
    (value, object, writers.alone, writers.vouched)
}

#[pymethods]
impl Dictionary {
    #[new]
    #[pyo3(signature = (pool, name, place, copies, buckets, memory, mode, tries))]
    #[allow(clippy::too_many_arguments, reason = "Python's own class gives them by position")]
    fn new(
        py: Python<'_>,
        pool: &Pool,
        name: &str,
        place: &str,
        copies: u8,
        buckets: u64,
        memory: u64,
        mode: u32,
        tries: u32,
    ) -> PyResult<Dictionary> {
        let placement = place.parse().map_err(raise)?;
        let options = Options { placement, copies, buckets, memory, mode, tries, ..Options::default() };
        let opened = py.detach(|| hanare_dict::Dict::open_with(&pool.pool, name, &options, Interpreter));
        Ok(Dictionary { dict: opened.map_err(raised)? })
    }

    /// Answers two questions of the regions that are open: may none but this user have written them, and none but users that are trusted?
    #[getter]
    fn writers(&self) -> (bool, bool) {
        let Writers { alone, vouched } = self.dict.writers();
        (alone, vouched)
    }

    /// A key's value: bytes, or a tuple of another one's kind, bytes and writers; `None` without one.
    fn get<'py>(&self, py: Python<'py>, key: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some((told, object)) = self.value(py, &key::encode(key)?, true)? else { return Ok(None) };
        match told.kind {
            kind::PLAIN => Ok(Some(object)),
            other => Ok(Some(tuple(other, object, told.writers).into_pyobject(py)?.into_any())),
        }
    }

    /// A key's value as a tuple, its bytes in place where they are long and of this host; `None` without one.
    fn view<'py>(&self, py: Python<'py>, key: &Bound<'py, PyAny>) -> PyResult<Option<ValueTuple<'py>>> {
        let coded = key::encode(key)?;
        let is_wanted = |value| matches!(value, kind::PLAIN | kind::BESIDE | kind::ARRAY);
        if let Some(hold) = self.dict.hold(&Key::from_coded(&coded), is_wanted).map_err(raised)? {
            let (value, writers) = (hold.kind(), hold.writers());
            return Ok(Some(tuple(value, Bound::new(py, ValueBuffer(hold))?.into_any(), writers)));
        }
        Ok(self.value(py, &coded, false)?.map(|(told, object)| tuple(told.kind, object, told.writers)))
    }

    /// Sets a key's value: bytes, or a list of buffers that follow each other.
    fn set(&self, key: &Bound<'_, PyAny>, kind: u8, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let coded = key::encode(key)?;
        let key = Key::from_coded(&coded);
        if let Ok(bytes) = value.cast::<PyBytes>() {
            return self.dict.set(&key, kind, bytes.as_bytes()).map_err(raised);
        }
        let parts = value.cast::<PyList>()?.iter().map(|part| ObjectBytes::new(&part)).collect::<PyResult<Vec<ObjectBytes>>>()?;
        let parts: Vec<&[u8]> = parts.iter().map(ObjectBytes::bytes).collect();
        self.dict.set_parts(&key, kind, &parts).map_err(raised)
    }

    /// Takes a key away; says whether it was there.
    fn remove(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        self.dict.remove(&Key::from_coded(&key::encode(key)?)).map_err(raised)
    }

    fn contains(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        self.dict.contains(&Key::from_coded(&key::encode(key)?)).map_err(raised)
    }

    fn len(&self) -> PyResult<usize> {
        self.dict.len().map_err(raised)
    }

    fn clear(&self) -> PyResult<()> {
        self.dict.clear().map_err(raised)
    }

    /// Words of the table, bytes of its heaps, bytes that keys and values take, and bytes that nobody links.
    fn stat(&self) -> PyResult<(u64, u64, u64, u64)> {
        let stat = self.dict.stat().map_err(raised)?;
        Ok((stat.buckets, stat.capacity, stat.linked, stat.unlinked))
    }

    fn sweep(&self) -> PyResult<u64> {
        self.dict.sweep().map_err(raised)
    }

    /// Gives back what this program keeps for its next writes.
    fn give_back(&self) {
        self.dict.give_back();
    }

    /// Removes the dictionary from the pool.
    fn destroy(&self) -> PyResult<()> {
        self.dict.destroy().map_err(raised)
    }
}

/// Progress of a walk over all keys.
#[pyclass(frozen, module = "hanare._hanare")]
pub struct Cursor(Mutex<Walk>);

#[pymethods]
impl Cursor {
    #[new]
    fn new() -> Cursor {
        Cursor(Mutex::default())
    }

    /// The next keys; none at the end.
    fn next<'py>(&self, py: Python<'py>, dictionary: &Dictionary) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let mut walk = self.0.try_lock().map_err(|_| PyRuntimeError::new_err("another thread iterates with it"))?;
        let keys = dictionary.dict.next_keys(&mut walk).map_err(raised)?;
        keys.iter().map(|coded| key::decode(py, coded)).collect()
    }
}

/// The bytes of a long value in place, held as long as there is a buffer of them.
#[pyclass(frozen, module = "hanare._hanare")]
pub struct ValueBuffer(Hold);

#[pymethods]
impl ValueBuffer {
    /// Gives out the bytes.
    ///
    /// # Safety
    /// `buffer` is the interpreter's.
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, buffer: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let (start, len) = (slf.get().0.ptr().cast_mut(), slf.get().0.len() as isize);
        // SAFETY: invariant 2; the buffer is read-only, so that nobody writes by the pointer.
        match unsafe { ffi::PyBuffer_FillInfo(buffer, slf.as_ptr(), start.cast(), len, 1, flags) } {
            0 => Ok(()),
            _ => Err(PyErr::take(slf.py()).unwrap_or_else(|| PyRuntimeError::new_err("no buffer"))),
        }
    }
}

/// Reads a key that was written as bytes.
#[pyfunction]
fn decode_key<'py>(py: Python<'py>, coded: &Bound<'py, PyBytes>) -> PyResult<Bound<'py, PyAny>> {
    key::decode(py, coded.as_bytes())
}

/// Adds what Python needs of it.
pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("GRANULE", GRANULE)?;
    module.add("VIEWED_LEN_MIN", VIEWED_LEN_MIN)?;
    for (name, number) in [
        ("PLAIN", kind::PLAIN),
        ("PICKLED", kind::PICKLED),
        ("BESIDE", kind::BESIDE),
        ("JSON", kind::JSON),
        ("ARRAY", kind::ARRAY),
    ] {
        module.add(name, number)?;
    }
    module.add_class::<Dictionary>()?;
    module.add_class::<Cursor>()?;
    module.add_class::<ValueBuffer>()?;
    module.add_function(wrap_pyfunction!(decode_key, module)?)
}
