//! Locks, groups and barriers. A lock belongs to the thread that took it: here that is the worker that waited for it. The worker keeps
//! the lock until any thread or task of the program has it give the lock back.

use crate::errors::raise;
use crate::view::View;
use crate::waiting::{Ending, Pending, begin, nothing, pending};
use hanare::BoundShape;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Terms of a claim for a lock.
#[derive(Clone, Copy)]
pub struct Asked {
    pub is_shared: bool,
    /// `None`: as long as it takes.
    pub bound: Option<Duration>,
}

/// Message to the thread that has a lock.
enum Told {
    Bind(Vec<BoundShape>, Ending),
    GiveBack(Ending),
}

/// A lock that is held. Given back when it is dropped.
#[pyclass(frozen, module = "hanare._hanare")]
pub struct Held {
    name: String,
    was_abandoned: bool,
    is_torn: bool,
    /// Taken when it is given back.
    thread: Mutex<Option<Sender<Told>>>,
}

#[pymethods]
impl Held {
    /// Its name.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// True if the holder before ended without giving it back.
    #[getter]
    fn was_abandoned(&self) -> bool {
        self.was_abandoned
    }

    /// True if bytes that are bound to it are a mixture of two releases.
    #[getter]
    fn is_torn(&self) -> bool {
        self.is_torn
    }

    /// Begins to bind ranges of mappings to it, in the place of what was bound: triples of a mapping, an offset and a length.
    fn bind(&self, ranges: Vec<(Bound<'_, View>, u64, u64)>) -> PyResult<Pending> {
        let shapes = ranges.iter().map(|(view, offset, len)| view.get().bytes(*offset, *len)).collect::<PyResult<Vec<_>>>()?;
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.tell(thread, |ending| Told::Bind(shapes, ending))
    }

    /// Begins to give it back.
    fn release(&self) -> PyResult<Pending> {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.tell(thread, Told::GiveBack)
    }
}

impl Held {
    fn tell(&self, thread: Option<Sender<Told>>, what: impl FnOnce(Ending) -> Told) -> PyResult<Pending> {
        let thread = thread.ok_or_else(|| PyRuntimeError::new_err(format!("lock '{}' was given back before", self.name)))?;
        let (pending, ending) = pending();
        thread.send(what(ending)).map_err(|_| PyRuntimeError::new_err(format!("lock '{}' has no thread any more", self.name)))?;
        Ok(pending)
    }
}

/// Begins to take a lock.
pub fn lock(pool: hanare::Pool, name: String, asked: Asked) -> Pending {
    begin(move |ending| {
        let taken = match asked {
            Asked { is_shared: false, bound: None } => pool.lock(&name),
            Asked { is_shared: true, bound: None } => pool.lock_shared(&name),
            Asked { is_shared: false, bound: Some(bound) } => pool.lock_within(&name, bound),
            Asked { is_shared: true, bound: Some(bound) } => pool.lock_shared_within(&name, bound),
        };
        let mut guard = match taken {
            Ok(guard) => guard,
            Err(error) => return ending.end(Err(error)),
        };
        let (sender, told) = channel::<Told>();
        let (was_abandoned, is_torn) = (guard.was_abandoned(), guard.is_torn());
        let held = Held { name, was_abandoned, is_torn, thread: Mutex::new(Some(sender)) };
        ending.end(Ok(Box::new(|py| Ok(Bound::new(py, held)?.into_any()))));
        loop {
            match told.recv() {
                Ok(Told::Bind(shapes, bound)) => bound.end(guard.bind(&shapes).map(|()| nothing())),
                Ok(Told::GiveBack(unlocked)) => return unlocked.end(guard.unlock().map(|()| nothing())),
                // The lock has no user any more.
                Err(_) => return drop(guard),
            }
        }
    })
}

/// A place in a named group of parties that meet.
#[pyclass(frozen, module = "hanare._hanare")]
pub struct Group {
    group: Arc<hanare::Group>,
}

/// Joins a group.
pub fn join(py: Python<'_>, pool: &hanare::Pool, name: &str, parties: u32) -> PyResult<Group> {
    let group = py.detach(|| pool.group(name, parties)).map_err(raise)?;
    Ok(Group { group: Arc::new(group) })
}

#[pymethods]
impl Group {
    /// Its name.
    #[getter]
    fn name(&self) -> &str {
        self.group.name()
    }

    /// The number of parties.
    #[getter]
    fn parties(&self) -> u32 {
        self.group.parties()
    }

    /// Begins to wait for all parties.
    fn barrier(&self) -> Pending {
        let group = self.group.clone();
        begin(move |ending| ending.end(group.barrier().map(|()| nothing())))
    }
}

/// Begins to wait for all ranks of the job.
pub fn barrier(pool: hanare::Pool) -> Pending {
    begin(move |ending| ending.end(pool.barrier().map(|()| nothing())))
}
