//! The dictionary's table and blocks: what each of its calls does, without a step of Python between the call and the bytes.
//!
//! | module | holds |
//! |---|---|
//! | `key` | keys as bytes |
//! | `digest` | hashes and checksums |
//! | `bucket` | words, and buckets as bytes |
//! | `blocks` | heaps one after another, and the blocks of this process that nobody links |
//! | `plan` | a bucket as it was read, and the one that is to take its place |
//! | `table` | looking a key up, and changing its entry |
//!
//! `hanare/dictionary.py` says how a table is made anew, and calls again where a call here finds that others changed something.
//!
//! The interpreter's lock is never taken while a lock of this module is held.

mod blocks;
mod bucket;
mod digest;
mod key;
mod plan;
mod table;

use crate::memory::Lent;
use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

create_exception!(
    hanare._hanare,
    Changed,
    PyException,
    "Bytes were another's by the time they were read, or another program was faster."
);
create_exception!(hanare._hanare, Frozen, PyException, "The word never changes again: the table is made anew.");
create_exception!(hanare._hanare, Full, PyException, "No heap that is there has room.");

/// Why a step of the dictionary was not done.
#[derive(Debug)]
pub enum Fault {
    Changed,
    Frozen,
    Full,
    Pool(hanare::Error),
}

impl From<hanare::Error> for Fault {
    fn from(error: hanare::Error) -> Fault {
        Fault::Pool(error)
    }
}

impl From<Fault> for PyErr {
    fn from(fault: Fault) -> PyErr {
        match fault {
            Fault::Changed => Changed::new_err(()),
            Fault::Frozen => Frozen::new_err(()),
            Fault::Full => Full::new_err(()),
            Fault::Pool(error) => crate::errors::raise(error),
        }
    }
}

/// Runs a step, without the interpreter's lock where it may wait for a node or moves much.
fn step<T: Send>(py: Python<'_>, may_wait: bool, work: impl FnOnce() -> Result<T, Fault> + Send) -> PyResult<T> {
    let done = if may_wait { py.detach(work) } else { work() };
    Ok(done?)
}

/// The checksum of bytes in parts that follow each other.
#[pyfunction]
fn checksum(py: Python<'_>, parts: Vec<Bound<'_, PyAny>>) -> PyResult<u32> {
    let parts = parts.iter().map(Lent::new).collect::<PyResult<Vec<Lent>>>()?;
    let mut digest = digest::Digest::new(0);
    py.detach(|| parts.iter().for_each(|part| digest.update(part.bytes())));
    Ok(digest.finish() as u32)
}

/// Reads a key that was written as bytes.
#[pyfunction]
fn decode_key<'py>(py: Python<'py>, coded: &Bound<'py, PyBytes>) -> PyResult<Bound<'py, PyAny>> {
    key::decode(py, coded.as_bytes())
}

/// Adds what Python needs of it.
pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("Changed", py.get_type::<Changed>())?;
    module.add("Frozen", py.get_type::<Frozen>())?;
    module.add("Full", py.get_type::<Full>())?;
    module.add("GRANULE", bucket::GRANULE)?;
    module.add("VIEWED_LEN_MIN", blocks::VIEWED_LEN_MIN)?;
    module.add("PLACE", bucket::PLACE)?;
    module.add("PLAIN", table::PLAIN)?;
    module.add_class::<blocks::Blocks>()?;
    module.add_class::<table::Table>()?;
    module.add_function(wrap_pyfunction!(checksum, module)?)?;
    module.add_function(wrap_pyfunction!(decode_key, module)?)
}
