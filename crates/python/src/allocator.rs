//! NumPy's memory (NEP 49) in regions of this host: what `hanare.allocator` hands to NumPy.
//!
//! ```text
//! capsule ── Handler ── Source ── arenas: a region each, mapped, its name removed at once
//! ```
//!
//! An arena without a name costs nothing after a kill: the node takes the memory back when its client has ended.
//!
//! Safety invariants of this module:
//!
//! 1. NumPy's arrays hold the capsule, the capsule its [`Handler`], the handler its [`Source`]: arenas outlive every array in them.
//! 2. Blocks of an arena never overlap: each is taken out of the free ones under the lock, and comes back once.
//! 3. NumPy's calls come from any thread, with or without the interpreter's lock: nothing here touches the interpreter.
//! 4. No reference to the bytes exists here: other programs have no name for them, but children made by fork share them.

use crate::errors::raise;
use crate::pool::Pool;
use hanare::{CreateOptions, Error, LocalMapping};
use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi;
use pyo3::prelude::*;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::{CStr, c_char, c_void};
use std::mem::ManuallyDrop;
use std::ptr::null_mut;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Blocks are multiples of so many bytes, and begin at them: a cache line, and more than any element's alignment.
const GRANULE_LEN: usize = 64;

/// Arenas double in length up to this: beyond, an arena that stays empty but for one array wastes too much.
const GROWN_ARENA_LEN: usize = 1 << 30;

/// SOURCE: NumPy's table of its C functions, `numpy/__multiarray_api.h`.
const SET_HANDLER: usize = 304;

/// SOURCE: NEP 49; the name that NumPy looks for.
const CAPSULE_NAME: &CStr = c"mem_handler";

type SetHandler = unsafe extern "C" fn(*mut ffi::PyObject) -> *mut ffi::PyObject;

/// `PyDataMem_Handler` of NumPy, version 1.
#[repr(C)]
struct Handler {
    name: [c_char; 127],
    version: u8,
    source: *const Source,
    malloc: unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void,
    calloc: unsafe extern "C" fn(*mut c_void, usize, usize) -> *mut c_void,
    realloc: unsafe extern "C" fn(*mut c_void, *mut c_void, usize) -> *mut c_void,
    free: unsafe extern "C" fn(*mut c_void, *mut c_void, usize),
}

const _: () = assert!(size_of::<Handler>() == 168);

/// A mapped region, and which of its bytes are given out.
struct Arena {
    mapping: LocalMapping,
    /// Length of the block that begins at an offset.
    taken: HashMap<usize, usize>,
    /// Free ranges by where they begin, and by length.
    free: BTreeMap<usize, usize>,
    by_len: BTreeSet<(usize, usize)>,
    /// Bytes from here on were never given out: they are zero.
    fresh: usize,
}

impl Arena {
    fn new(mapping: LocalMapping) -> Arena {
        let len = mapping.len() / GRANULE_LEN * GRANULE_LEN;
        let (free, by_len) = (BTreeMap::from([(0, len)]), BTreeSet::from([(len, 0)]));
        Arena { mapping, taken: HashMap::new(), free, by_len, fresh: 0 }
    }

    fn start(&self) -> usize {
        self.mapping.ptr() as usize
    }

    /// Takes the shortest free range that is long enough: where the block begins, and how many of its bytes may be other than zero.
    fn take(&mut self, len: usize) -> Option<(usize, usize)> {
        let (whole, begin) = *self.by_len.range((len, 0)..).next()?;
        self.unlist(begin, whole);
        if whole > len {
            self.list(begin + len, whole - len);
        }
        self.taken.insert(begin, len);
        let used = self.fresh.saturating_sub(begin).min(len);
        self.fresh = self.fresh.max(begin + len);
        Some((begin, used))
    }

    /// Gives a block back; free neighbours become one range.
    fn give(&mut self, begin: usize) {
        let Some(mut len) = self.taken.remove(&begin) else { return };
        let mut first = begin;
        if let Some((&before, &before_len)) = self.free.range(..begin).next_back()
            && before + before_len == begin
        {
            self.unlist(before, before_len);
            (first, len) = (before, len + before_len);
        }
        if let Some(&after_len) = self.free.get(&(first + len)) {
            self.unlist(first + len, after_len);
            len += after_len;
        }
        self.list(first, len);
    }

    fn list(&mut self, begin: usize, len: usize) {
        self.free.insert(begin, len);
        self.by_len.insert((len, begin));
    }

    fn unlist(&mut self, begin: usize, len: usize) {
        self.free.remove(&begin);
        self.by_len.remove(&(len, begin));
    }
}

struct State {
    /// The process that the arenas are of: a child made by fork has its own.
    process: u32,
    pool: ManuallyDrop<hanare::Pool>,
    /// Arenas by address.
    arenas: BTreeMap<usize, Arena>,
    /// Arenas of the parent: blocks in them are read, never given out or back.
    inherited: ManuallyDrop<Vec<BTreeMap<usize, Arena>>>,
    /// Number of arenas made.
    made: u64,
    failed: Option<Error>,
}

/// Source of the memory.
struct Source {
    socket: String,
    first_len: usize,
    state: Mutex<State>,
}

impl Drop for Source {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if state.process != std::process::id() {
            // The parent ends its own arenas.
            std::mem::forget(std::mem::take(&mut state.arenas));
            return;
        }
        state.arenas.clear();
        // SAFETY: nobody uses the pool after this.
        unsafe { ManuallyDrop::drop(&mut state.pool) };
    }
}

fn rounded(size: usize) -> Option<usize> {
    size.max(1).checked_next_multiple_of(GRANULE_LEN).filter(|len| isize::try_from(*len).is_ok())
}

impl Source {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state of this process, attached anew in a child made by fork.
    fn own_state(&self) -> hanare::Result<MutexGuard<'_, State>> {
        let mut state = self.state();
        if state.process != std::process::id() {
            let pool = hanare::Pool::attach_to(&self.socket, None)?;
            let arenas = std::mem::take(&mut state.arenas);
            state.inherited.push(arenas);
            // The parent's attachment is left as it is: ending it would be talk on the parent's connections.
            state.pool = ManuallyDrop::new(pool);
            state.process = std::process::id();
        }
        Ok(state)
    }

    /// A block, and how many of its bytes, from the first on, may be other than zero.
    fn allocate(&self, size: usize) -> hanare::Result<(*mut u8, usize)> {
        let full = |len: usize| Error::HeapFull { region: "NumPy's memory".to_owned(), asked: len as u64, free: 0, largest: 0 };
        let len = rounded(size).ok_or_else(|| full(size))?;
        let mut state = self.own_state()?;
        for arena in state.arenas.values_mut() {
            if let Some((begin, used)) = arena.take(len) {
                return Ok((arena.mapping.ptr().wrapping_add(begin), used));
            }
        }
        let planned = self.first_len.saturating_mul(1 << state.made.min(20)).min(GROWN_ARENA_LEN).max(len);
        let made = self.map(&mut state, planned).or_else(|error| match planned > len {
            true => self.map(&mut state, len),
            false => Err(error),
        });
        let mut arena = Arena::new(made?);
        let (begin, used) = arena.take(len).ok_or_else(|| full(len))?;
        let address = arena.mapping.ptr().wrapping_add(begin);
        state.arenas.insert(arena.start(), arena);
        Ok((address, used))
    }

    /// Makes a region, maps it, and takes its name away: the node lends the memory as long as it is mapped.
    fn map(&self, state: &mut State, len: usize) -> hanare::Result<LocalMapping> {
        let name = format!("hanare.numpy.{}.{}.{}", state.pool.node().0, state.pool.client().0, state.made);
        let region = state.pool.create(&name, len as u64, &CreateOptions { copies: 1, ..CreateOptions::default() })?;
        let mapped = region.map_local();
        state.made += 1;
        // A name that cannot be taken away stays in listings; the memory serves all the same.
        let _ = state.pool.remove(&name);
        mapped
    }

    fn free(&self, address: *mut u8) {
        let mut state = self.state();
        if state.process != std::process::id() {
            return;
        }
        let Some((&start, arena)) = state.arenas.range_mut(..=address as usize).next_back() else { return };
        arena.give(address as usize - start);
        let is_last = state.arenas.len() == 1;
        if !is_last && state.arenas.get(&start).is_some_and(|arena| arena.taken.is_empty()) {
            state.arenas.remove(&start);
        }
    }

    /// Length of the block at an address.
    fn len_of(&self, address: *mut u8) -> Option<usize> {
        let state = self.state();
        let found = |arenas: &BTreeMap<usize, Arena>| {
            let (start, arena) = arenas.range(..=address as usize).next_back()?;
            arena.taken.get(&(address as usize - start)).copied()
        };
        found(&state.arenas).or_else(|| state.inherited.iter().find_map(found))
    }

    /// The block's address, or null, with the reason kept.
    fn address(&self, size: usize) -> (*mut u8, usize) {
        self.allocate(size).unwrap_or_else(|error| {
            self.state().failed = Some(error);
            (null_mut(), 0)
        })
    }
}

/// # Safety
/// Like `malloc`, of the handler's source (invariant 1).
unsafe extern "C" fn malloc(source: *mut c_void, size: usize) -> *mut c_void {
    // SAFETY: invariant 1.
    unsafe { &*source.cast::<Source>() }.address(size).0.cast()
}

/// # Safety
/// Like [`malloc`].
unsafe extern "C" fn calloc(source: *mut c_void, count: usize, size: usize) -> *mut c_void {
    let Some(len) = count.checked_mul(size) else { return null_mut() };
    // SAFETY: invariant 1.
    let (address, used) = unsafe { &*source.cast::<Source>() }.address(len);
    if !address.is_null() {
        // SAFETY: the block has at least so many bytes, and nobody else has it (invariant 2).
        unsafe { address.write_bytes(0, used) };
    }
    address.cast()
}

/// # Safety
/// Like [`malloc`]; `old` is null, or a block of the same source.
unsafe extern "C" fn realloc(source: *mut c_void, old: *mut c_void, size: usize) -> *mut c_void {
    // SAFETY: invariant 1.
    let from = unsafe { &*source.cast::<Source>() };
    let len = if old.is_null() { 0 } else { from.len_of(old.cast()).unwrap_or(0) };
    if len > 0 && rounded(size) == Some(len) {
        return old;
    }
    let (address, _) = from.address(size);
    if !address.is_null() && !old.is_null() {
        // SAFETY: both blocks have so many bytes, and do not overlap (invariant 2).
        unsafe { address.copy_from_nonoverlapping(old.cast(), len.min(size)) };
        from.free(old.cast());
    }
    address.cast()
}

/// # Safety
/// Like [`realloc`]; the block has no user after this.
unsafe extern "C" fn free(source: *mut c_void, block: *mut c_void, _: usize) {
    if !block.is_null() {
        // SAFETY: invariant 1.
        unsafe { &*source.cast::<Source>() }.free(block.cast());
    }
}

/// # Safety
/// Called once, by the interpreter, when nobody has the capsule any more.
unsafe extern "C" fn end(capsule: *mut ffi::PyObject) {
    // SAFETY: the capsule was made with that name and a handler's box, which nobody else has.
    unsafe {
        let handler = ffi::PyCapsule_GetPointer(capsule, CAPSULE_NAME.as_ptr()).cast::<Handler>();
        if !handler.is_null() {
            drop(Arc::from_raw((*handler).source));
            drop(Box::from_raw(handler));
        }
    }
}

/// NumPy's allocator in the pool.
#[pyclass(frozen, module = "hanare._hanare")]
pub struct Allocator {
    capsule: Py<PyAny>,
    source: Arc<Source>,
}

#[pymethods]
impl Allocator {
    /// An allocator whose first arena has `len` bytes.
    #[new]
    fn new(py: Python<'_>, pool: &Pool, socket: String, len: usize) -> PyResult<Allocator> {
        let state = State {
            process: std::process::id(),
            pool: ManuallyDrop::new(pool.pool.clone()),
            arenas: BTreeMap::new(),
            inherited: ManuallyDrop::new(Vec::new()),
            made: 0,
            failed: None,
        };
        let source = Arc::new(Source { socket, first_len: len, state: Mutex::new(state) });
        let mut name = [0; 127];
        for (at, byte) in b"hanare".iter().enumerate() {
            name[at] = *byte as c_char;
        }
        let handler = Handler { name, version: 1, source: Arc::into_raw(source.clone()), malloc, calloc, realloc, free };
        let handler = Box::into_raw(Box::new(handler));
        // SAFETY: the interpreter's lock is held; the capsule owns the handler from here on.
        let capsule =
            unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyCapsule_New(handler.cast(), CAPSULE_NAME.as_ptr(), Some(end))) };
        Ok(Allocator { capsule: capsule?.unbind(), source })
    }

    /// Has NumPy take this thread's or task's memory from here on from it; what it took it from before.
    fn enter<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        set(self.capsule.bind(py))
    }

    /// Has NumPy take memory from what it was before.
    #[staticmethod]
    fn leave(before: &Bound<'_, PyAny>) -> PyResult<()> {
        set(before).map(|_| ())
    }

    /// Bytes of blocks that arrays have, and of the arenas.
    fn lens(&self) -> (usize, usize) {
        let state = self.source.state();
        let taken = state.arenas.values().map(|arena| arena.taken.values().sum::<usize>()).sum();
        (taken, state.arenas.values().map(|arena| arena.mapping.len()).sum())
    }

    /// Why the last block could not be had, as an exception; `None` where every one was.
    fn failure(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        let failed = self.source.state().failed.clone();
        failed.map(|error| raise(error).into_value(py).into_any())
    }
}

/// Sets NumPy's handler; the one before.
fn set<'py>(capsule: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = capsule.py();
    let table = py.import("numpy._core._multiarray_umath")?.getattr("_ARRAY_API")?;
    // SAFETY: the capsule of NumPy's functions has no name, and its table lives as long as NumPy.
    let functions = unsafe { ffi::PyCapsule_GetPointer(table.as_ptr(), std::ptr::null()) }.cast::<*const c_void>();
    if functions.is_null() {
        return Err(PyErr::take(py).unwrap_or_else(|| PyRuntimeError::new_err("NumPy has no table of functions")));
    }
    // SAFETY: since NumPy 1.22 the function stands at that place of the table, and has that type.
    let set_handler = unsafe { std::mem::transmute::<*const c_void, SetHandler>(*functions.add(SET_HANDLER)) };
    // SAFETY: the interpreter's lock is held; the function takes a capsule of that name, and gives a reference of ours.
    unsafe { Bound::from_owned_ptr_or_err(py, set_handler(capsule.as_ptr())) }
}
