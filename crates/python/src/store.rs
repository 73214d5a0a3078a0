//! Stores as Python sees them: buffers by keys. The crate `hanare-dict` is the store; each call releases the interpreter's lock.

use crate::dictionary::key;
use crate::errors::raise;
use crate::memory::{ObjectBytes, check_apart};
use crate::pool::Pool;
use crate::waiting::{Came, Pending, begin};
use hanare::{Error, Result};
use hanare_dict::{Item, Key, Stamp, StoreOptions, Told, kind};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::collections::BTreeMap;
use std::time::Duration;

/// A store that is open in this process.
#[pyclass(frozen, module = "hanare._hanare")]
pub struct Store {
    store: hanare_dict::Store,
}

/// Seconds as a duration. **Errors**: `ValueError` for less than none.
fn duration(seconds: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(seconds).map_err(|odd| PyValueError::new_err(format!("{seconds} s: {odd}")))
}

fn durations(seconds: Option<f64>) -> PyResult<Option<Duration>> {
    seconds.map(duration).transpose()
}

fn key_of(key: &Bound<'_, PyAny>) -> PyResult<Key<'static>> {
    Ok(Key::of_coded(key::encode(key)?))
}

fn keys_of(keys: &[Bound<'_, PyAny>]) -> PyResult<Vec<Key<'static>>> {
    keys.iter().map(key_of).collect()
}

/// Why a put with a deadline did not end. It may have been made.
fn late(name: &str, deadline: Duration) -> Error {
    let (peer, what) = (format!("store '{name}'"), "a put".to_owned());
    Error::Timeout { peer, what, after_ms: u64::try_from(deadline.as_millis()).unwrap_or(u64::MAX) }
}

impl Store {
    /// Makes a call without the interpreter's lock.
    fn run<T: Send>(&self, py: Python<'_>, call: impl FnOnce(&hanare_dict::Store) -> Result<T> + Send) -> PyResult<T> {
        py.detach(|| call(&self.store)).map_err(raise)
    }

    /// The same within a deadline; `None` where it passes. On this host, where reads wait for nobody, there is none.
    fn read_within<T: Send + 'static>(
        &self,
        py: Python<'_>,
        deadline: Option<f64>,
        call: impl FnOnce(&hanare_dict::Store) -> Result<T> + Send + 'static,
    ) -> PyResult<Option<T>> {
        match durations(deadline)? {
            Some(deadline) if !self.store.is_here() => self.run(py, |store| store.within(deadline, call)),
            _ => self.run(py, |store| call(store).map(Some)),
        }
    }
}

#[pymethods]
impl Store {
    #[new]
    #[allow(clippy::too_many_arguments, reason = "Python's own class gives them by position")]
    fn new(
        py: Python<'_>,
        pool: &Pool,
        name: &str,
        bytes: u64,
        evict: &str,
        entries: Option<u64>,
        place: &str,
        copies: u8,
        mode: u32,
        attributes: BTreeMap<String, Vec<u8>>,
        tries: u32,
    ) -> PyResult<Store> {
        let (evict, placement) = (evict.parse().map_err(raise)?, place.parse().map_err(raise)?);
        let attributes = attributes.into_iter().collect();
        let options = StoreOptions { bytes, evict, entries, placement, copies, mode, attributes, tries };
        let store = py.detach(|| hanare_dict::Store::open(&pool.pool, name, &options)).map_err(raise)?;
        Ok(Store { store })
    }

    /// The name of its rule of making room.
    #[getter]
    fn evict(&self) -> &'static str {
        self.store.evict().name()
    }

    /// True if the call that opened it made it.
    #[getter]
    fn created(&self) -> bool {
        self.store.created()
    }

    /// An attribute of its region.
    fn attribute<'py>(&self, py: Python<'py>, name: &str) -> Option<Bound<'py, PyBytes>> {
        self.store.attributes().get(name).map(|value| PyBytes::new(py, value))
    }

    /// True if gets send no message.
    #[getter]
    fn is_here(&self) -> bool {
        self.store.is_here()
    }

    /// A key's value; `None` without one, or after the deadline.
    fn get<'py>(&self, py: Python<'py>, key: &Bound<'py, PyAny>, deadline: Option<f64>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let key = key_of(key)?;
        let found = self.read_within(py, deadline, move |store| store.get(&key))?;
        Ok(found.flatten().map(|(_, bytes)| PyBytes::new(py, &bytes)))
    }

    /// Reads each key's value into a buffer. Returns their lengths, `None` where there is no value.
    fn get_many(
        &self,
        py: Python<'_>,
        keys: Vec<Bound<'_, PyAny>>,
        into: Vec<Bound<'_, PyAny>>,
        deadline: Option<f64>,
    ) -> PyResult<Vec<Option<usize>>> {
        let coded = keys_of(&keys)?;
        if keys.len() != into.len() {
            return Err(PyValueError::new_err(format!("{} keys, and {} buffers", keys.len(), into.len())));
        }
        let mut lent = into.iter().map(ObjectBytes::new_mut).collect::<PyResult<Vec<ObjectBytes>>>()?;
        check_apart(&lent)?;
        let deadline = durations(deadline)?.filter(|_| !self.store.is_here());
        let mut buffers: Vec<&mut [u8]> = lent.iter_mut().map(ObjectBytes::bytes_mut).collect();
        let told: Vec<Option<Told>> = self.run(py, |store| match deadline {
            Some(deadline) => store.get_many_within(&coded, &mut buffers, deadline),
            None => store.get_many(&coded, &mut buffers),
        })?;
        for (index, told) in told.iter().enumerate() {
            if let Some(told) = told.filter(|told| told.len > lent[index].len()) {
                let (key, len) = (keys[index].repr()?, lent[index].len());
                return Err(PyValueError::new_err(format!("the value of {key} has {} bytes, its buffer {len}", told.len)));
            }
        }
        Ok(told.into_iter().map(|told| told.map(|told| told.len)).collect())
    }

    /// True for each key that is there.
    fn contains(&self, py: Python<'_>, keys: Vec<Bound<'_, PyAny>>, deadline: Option<f64>) -> PyResult<Vec<bool>> {
        let (coded, count) = (keys_of(&keys)?, keys.len());
        let there = self.read_within(py, deadline, move |store| store.contains_many(&coded))?;
        Ok(there.unwrap_or_else(|| vec![false; count]))
    }

    /// Number of keys, from the first on, that are all there.
    fn prefix(&self, py: Python<'_>, keys: Vec<Bound<'_, PyAny>>, deadline: Option<f64>) -> PyResult<usize> {
        let coded = keys_of(&keys)?;
        Ok(self.read_within(py, deadline, move |store| store.known_prefix(&coded))?.unwrap_or(0))
    }

    /// Sets a key's value. **Errors**: `Timeout` after the deadline.
    fn put(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        ttl: Option<f64>,
        deadline: Option<f64>,
    ) -> PyResult<()> {
        let (key, ttl, lent) = (key_of(key)?, durations(ttl)?, ObjectBytes::new(value)?);
        let Some(deadline) = durations(deadline)? else {
            return self.run(py, |store| store.put(&key, kind::PLAIN, lent.bytes(), ttl));
        };
        let bytes = lent.bytes().to_vec();
        let done = self.run(py, |store| store.within(deadline, move |store| store.put(&key, kind::PLAIN, &bytes, ttl)))?;
        done.ok_or_else(|| raise(late(self.store.name(), deadline)))
    }

    /// Sets values, or those of keys that are not there. Returns true for each key that is there.
    fn put_many(
        &self,
        py: Python<'_>,
        keys: Vec<Bound<'_, PyAny>>,
        values: Vec<Bound<'_, PyAny>>,
        ttl: Option<f64>,
        replaces: bool,
    ) -> PyResult<Vec<bool>> {
        if keys.len() != values.len() {
            return Err(PyValueError::new_err(format!("{} keys, and {} values", keys.len(), values.len())));
        }
        let (coded, ttl) = (keys_of(&keys)?, durations(ttl)?);
        let lent = values.iter().map(ObjectBytes::new).collect::<PyResult<Vec<ObjectBytes>>>()?;
        let each = coded.iter().zip(&lent);
        let items: Vec<Item<'_>> = each.map(|(key, lent)| Item { key, kind: kind::PLAIN, bytes: lent.bytes() }).collect();
        self.run(py, |store| if replaces { store.put_many(&items, ttl) } else { store.put_new_many(&items, ttl) })
    }

    /// Takes keys away. Returns true for each that was there.
    fn remove_many(&self, py: Python<'_>, keys: Vec<Bound<'_, PyAny>>) -> PyResult<Vec<bool>> {
        let coded = keys_of(&keys)?;
        self.run(py, |store| store.remove_many(&coded))
    }

    /// Takes a key away. Returns true if it was there.
    fn remove(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let key = key_of(key)?;
        self.run(py, |store| store.remove(&key))
    }

    /// Answers if a key is there, and in how many seconds it ends.
    fn ttl(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<(bool, Option<f64>)> {
        let key = key_of(key)?;
        let ttl = self.run(py, |store| store.ttl(&key))?;
        Ok((ttl.is_some(), ttl.flatten().map(|ttl| ttl.as_secs_f64())))
    }

    /// Sets when a key ends. Returns false without such a key.
    fn expire(&self, py: Python<'_>, key: &Bound<'_, PyAny>, ttl: Option<f64>) -> PyResult<bool> {
        let (key, ttl) = (key_of(key)?, durations(ttl)?);
        self.run(py, |store| store.expire(&key, ttl))
    }

    /// Keeps a key from leaving for so long. Returns false without such a key.
    fn pin(&self, py: Python<'_>, key: &Bound<'_, PyAny>, seconds: f64) -> PyResult<bool> {
        let (key, ahead) = (key_of(key)?, duration(seconds)?);
        self.run(py, |store| store.pin(&key, ahead))
    }

    /// Ends all pins of a key. Returns false without such a key.
    fn unpin(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let key = key_of(key)?;
        self.run(py, |store| store.unpin(&key))
    }

    /// The stamp of a key's value, 0 where it is not there.
    fn stamp(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<u64> {
        let key = key_of(key)?;
        self.run(py, |store| store.stamp(&key)).map(|stamp| stamp.0)
    }

    /// Begins to wait for another value than that of the stamp. Comes to its stamp, or `None` after that number of seconds.
    fn watch(&self, key: &Bound<'_, PyAny>, since: u64, seconds: Option<f64>) -> PyResult<Pending> {
        let (key, store) = (key_of(key)?, self.store.clone());
        let deadline = durations(seconds)?;
        Ok(begin(move |ending| {
            let told = store.watch_while(&key, Stamp(since), deadline, || ending.is_wanted());
            let came = |stamp: Option<Stamp>| -> Came {
                Box::new(move |py| Ok(stamp.map(|stamp| stamp.0).into_pyobject(py)?.into_any()))
            };
            ending.end(told.map(came));
        }))
    }

    /// Keys from a point on, and the next point; 0 at the end.
    fn scan<'py>(&self, py: Python<'py>, at: u64, wanted: usize) -> PyResult<(u64, Vec<Bound<'py, PyAny>>)> {
        let (next, keys) = self.run(py, |store| store.scan(at, wanted))?;
        Ok((next, keys.iter().map(|coded| key::decode(py, coded)).collect::<PyResult<_>>()?))
    }

    fn len(&self, py: Python<'_>) -> PyResult<u64> {
        self.run(py, hanare_dict::Store::len)
    }

    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        self.run(py, hanare_dict::Store::clear)
    }

    /// Bytes of the store, bytes that keys and values take, and bytes that nobody links.
    fn stat(&self, py: Python<'_>) -> PyResult<(u64, u64, u64)> {
        let stat = self.run(py, hanare_dict::Store::stat)?;
        Ok((stat.bytes, stat.linked, stat.unlinked))
    }

    fn sweep(&self, py: Python<'_>) -> PyResult<u64> {
        self.run(py, hanare_dict::Store::sweep)
    }

    /// Gives back what this program keeps for its next puts.
    fn give_back(&self, py: Python<'_>) {
        py.detach(|| self.store.give_back());
    }

    /// Removes the store from the pool.
    fn destroy(&self, py: Python<'_>) -> PyResult<()> {
        self.run(py, hanare_dict::Store::destroy)
    }
}
