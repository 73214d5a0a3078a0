//! The Python face: the module `hanare._hanare`, on which the package `hanare` (beside this folder, in Python) stands.
//!
//! | module | holds |
//! |---|---|
//! | `errors` | the pool's errors as exceptions of `hanare.errors` |
//! | `memory` | bytes that Python objects lend for a call |
//! | `shapes` | shapes as tuples |
//! | `pool`, `region` | the pool's handles: commands, names, listings |
//! | `allocator` | NumPy's memory in regions of this host |
//! | `view` | mapped memory with Python's buffer protocol |
//! | `waiting` | waits that Ctrl-C ends and event loops watch |
//! | `sync` | locks, groups and barriers as such waits |
//! | `queue` | queues and their ports |
//! | `dictionary` | dictionaries: keys as bytes, and bytes of values as objects |
//! | `store` | stores: buffers by keys, one by one and in batches |
//!
//! Arrays and most other faces are Python: this module moves bytes and does nothing else. The interpreter's lock is released in each call that
//! waits, or moves more than [`memory::BRIEF_LEN`] bytes.

mod allocator;
mod dictionary;
mod errors;
mod memory;
mod pool;
mod queue;
mod region;
mod shapes;
mod store;
mod sync;
mod view;
mod waiting;

use pyo3::prelude::*;

/// A key for a pool of one program, as a key file has it.
#[pyfunction]
fn draw_key() -> PyResult<String> {
    hanare::node::draw_key().map_err(errors::raise)
}

/// Bytes of memory that this machine, or this process's control group, has available, if it says so.
#[pyfunction]
fn available_memory() -> Option<u64> {
    hanare::available_memory()
}

/// The socket of this host's node, as the settings say.
#[pyfunction]
fn node_socket() -> String {
    hanare::settings::node_socket()
}

#[pymodule]
fn _hanare(module: &Bound<'_, PyModule>) -> PyResult<()> {
    hanare::face::use_as(hanare::ProgramFace::Python);
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<pool::Pool>()?;
    module.add_class::<region::Region>()?;
    module.add_class::<view::View>()?;
    module.add_class::<allocator::Allocator>()?;
    module.add_class::<waiting::Pending>()?;
    module.add_class::<sync::Held>()?;
    module.add_class::<sync::Group>()?;
    module.add_class::<queue::Queue>()?;
    module.add_class::<queue::Writer>()?;
    module.add_class::<queue::Reader>()?;
    module.add_class::<store::Store>()?;
    dictionary::add_to(module)?;
    module.add_function(wrap_pyfunction!(draw_key, module)?)?;
    module.add_function(wrap_pyfunction!(available_memory, module)?)?;
    module.add_function(wrap_pyfunction!(node_socket, module)?)
}
