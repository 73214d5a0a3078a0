//! Queues: ports that a program's thread or task uses. A wait is cut into short ones, between which signals are looked for.

use crate::errors::raise;
use crate::memory::ObjectBytes;
use crate::waiting::{Pending, begin, nothing};
use hanare::{CreateOptions, Error, Overflow, QueueForm, Unit};
use pyo3::exceptions::{PyRuntimeError, PyTimeoutError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

/// Time between looks for the program's signals in a wait.
const STEP: Duration = Duration::from_millis(50);

/// A queue that was opened.
#[pyclass(frozen, module = "hanare._hanare")]
pub struct Queue {
    queue: hanare::Queue,
}

/// Form of a queue: bytes of its blocks, or longest record; blocks of a lane; lanes; treatment of further units.
pub type Form<'a> = (Option<u32>, Option<u32>, u32, u32, &'a str);

fn form((block, record, depth, ports, overflow): Form<'_>) -> PyResult<QueueForm> {
    let unit = match (block, record) {
        (Some(len), None) => Unit::Blocks { len },
        (None, Some(len_max)) => Unit::Records { len_max },
        _ => return Err(PyValueError::new_err("a queue has either blocks of one length or records up to one")),
    };
    let overflow = match overflow {
        "refuse" => Overflow::Refuse,
        "wait" => Overflow::Wait,
        "spill" => Overflow::Spill,
        other => return Err(PyValueError::new_err(format!("overflow is 'refuse', 'wait' or 'spill', not '{other}'"))),
    };
    Ok(QueueForm { unit, depth, ports, overflow })
}

/// Makes a queue.
pub fn create(
    py: Python<'_>,
    pool: &hanare::Pool,
    name: &str,
    wanted: Form<'_>,
    (place, mode, copies): (&str, u32, Option<u8>),
) -> PyResult<Queue> {
    let copies = copies.unwrap_or_default();
    let options = CreateOptions { placement: place.parse().map_err(raise)?, mode, copies, ..CreateOptions::default() };
    let form = form(wanted)?;
    let queue = py.detach(|| pool.create_queue(name, &form, &options)).map_err(raise)?;
    Ok(Queue { queue })
}

/// Opens a queue.
pub fn open(py: Python<'_>, pool: &hanare::Pool, name: &str) -> PyResult<Queue> {
    let queue = py.detach(|| pool.open_queue(name)).map_err(raise)?;
    Ok(Queue { queue })
}

#[pymethods]
impl Queue {
    /// Bytes of each block, or `None`; longest record, or `None`; depth; ports; overflow.
    #[getter]
    fn form(&self) -> (Option<u32>, Option<u32>, u32, u32, &'static str) {
        let form = self.queue.form();
        let (block, record) = match form.unit {
            Unit::Blocks { len } => (Some(len), None),
            Unit::Records { len_max } => (None, Some(len_max)),
        };
        let overflow = match form.overflow {
            Overflow::Refuse => "refuse",
            Overflow::Wait => "wait",
            Overflow::Spill => "spill",
        };
        (block, record, form.depth, form.ports, overflow)
    }

    /// True if it has a reader, and each lane's contents.
    fn stat(&self, py: Python<'_>) -> PyResult<(bool, Vec<LaneStat>)> {
        let stat = py.detach(|| self.queue.stat()).map_err(raise)?;
        let lanes = stat.lanes.iter().map(|lane| (lane.has_writer, lane.bytes, lane.bytes_ever, lane.spilled)).collect();
        Ok((stat.has_reader, lanes))
    }

    /// Becomes a writer.
    fn writer(&self, py: Python<'_>) -> PyResult<Writer> {
        let port = py.detach(|| self.queue.writer()).map_err(raise)?;
        Ok(Writer { port: Port::new(port) })
    }

    /// Becomes the reader.
    fn reader(&self, py: Python<'_>) -> PyResult<Reader> {
        let port = py.detach(|| self.queue.reader()).map_err(raise)?;
        Ok(Reader { port: Port::new(port), late: Mutex::new(None) })
    }
}

/// A lane: true if it has a writer, its bytes, all its bytes ever, units in the spill.
type LaneStat = (bool, u64, u64, u64);

/// A port of one thread or task at a time, until it is closed.
struct Port<P>(Arc<Mutex<Option<P>>>);

impl<P: Send> Port<P> {
    fn new(port: P) -> Port<P> {
        Port(Arc::new(Mutex::new(Some(port))))
    }

    fn lock(&self) -> PyResult<MutexGuard<'_, Option<P>>> {
        match self.0.try_lock() {
            Ok(port) => Ok(port),
            Err(TryLockError::Poisoned(poisoned)) => Ok(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => Err(PyRuntimeError::new_err("another thread or task uses this port just now")),
        }
    }

    /// Runs `work` on the port without the interpreter's lock.
    fn with<T: Send>(&self, py: Python<'_>, work: impl FnOnce(&mut P) -> hanare::Result<T> + Send) -> PyResult<T> {
        let mut port = self.lock()?;
        let port = port.as_mut().ok_or_else(closed)?;
        py.detach(|| work(port)).map_err(raise)
    }
}

/// Tries `step` for so long at a time until it has come, `timeout` seconds at most; a signal's exception ends the wait.
fn wait<P: Send, T: Send>(
    py: Python<'_>,
    port: &mut P,
    timeout: Option<f64>,
    mut step: impl FnMut(&mut P, Duration) -> hanare::Result<T> + Send,
) -> PyResult<T> {
    // A time beyond any clock is no bound.
    let bound = timeout.and_then(|seconds| Duration::try_from_secs_f64(seconds.max(0.0)).ok());
    let deadline = bound.and_then(|bound| Instant::now().checked_add(bound));
    loop {
        let bound = deadline.map_or(STEP, |end| STEP.min(end.saturating_duration_since(Instant::now())));
        match py.detach(|| step(port, bound)) {
            Err(Error::NotInTime { .. }) if deadline.is_some_and(|end| Instant::now() >= end) => {
                return Err(PyTimeoutError::new_err("what was waited for did not come in time"));
            }
            Err(Error::NotInTime { .. }) => py.check_signals()?,
            other => return other.map_err(raise),
        }
    }
}

fn closed() -> PyErr {
    PyValueError::new_err("the port is closed")
}

/// A queue's writer.
#[pyclass(frozen, module = "hanare._hanare")]
pub struct Writer {
    port: Port<hanare::WritePort>,
}

#[pymethods]
impl Writer {
    /// The lane that it writes.
    #[getter]
    fn lane(&self, py: Python<'_>) -> PyResult<u32> {
        self.port.with(py, |port| Ok(port.lane()))
    }

    /// Sends a unit, waiting `timeout` seconds at most for room.
    #[pyo3(signature = (data, timeout=None))]
    fn send(&self, py: Python<'_>, data: &Bound<'_, PyAny>, timeout: Option<f64>) -> PyResult<()> {
        let data = ObjectBytes::new(data)?;
        let bytes = data.bytes();
        let mut port = self.port.lock()?;
        wait(py, port.as_mut().ok_or_else(closed)?, timeout, |port, bound| port.send_within(bytes, Some(bound)))
    }

    /// Sends a unit if there is room just now.
    fn try_send(&self, py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<bool> {
        let data = ObjectBytes::new(data)?;
        let bytes = data.bytes();
        self.port.with(py, |port| port.try_send(bytes))
    }

    /// Sends all units of a list, which the reader sees at once as far as there is room.
    fn send_all(&self, py: Python<'_>, units: Vec<Bound<'_, PyAny>>) -> PyResult<()> {
        let lent: Vec<ObjectBytes> = units.iter().map(ObjectBytes::new).collect::<PyResult<_>>()?;
        let (bytes, mut at): (Vec<&[u8]>, usize) = (lent.iter().map(ObjectBytes::bytes).collect(), 0);
        let mut port = self.port.lock()?;
        wait(py, port.as_mut().ok_or_else(closed)?, None, |port, bound| {
            while let Some(unit) = bytes.get(at) {
                port.claim(unit.len(), Some(bound))?;
                port.fill(0, unit);
                port.keep();
                at += 1;
            }
            port.publish()
        })
    }

    /// Begins to send a unit, for a task. Who gives the wait up may have sent it.
    fn begin_send(&self, data: &Bound<'_, PyAny>) -> PyResult<Pending> {
        let bytes = ObjectBytes::new(data)?.bytes().to_vec();
        let port = self.port.0.clone();
        Ok(begin(move |ending| {
            let mut port = port.lock().unwrap_or_else(PoisonError::into_inner);
            let sent = loop {
                let Some(port) = port.as_mut() else {
                    break Err(Error::BadUse { region: String::new(), reason: "the port is closed".to_owned() });
                };
                match port.send_within(&bytes, Some(STEP)) {
                    Err(Error::NotInTime { .. }) if ending.is_wanted() => {}
                    other => break other,
                }
            };
            drop(port);
            ending.end(sent.map(|()| nothing()));
        }))
    }

    /// Leaves the queue. Does nothing where it was left before.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        match self.port.lock()?.take() {
            Some(port) => py.detach(|| port.close()).map_err(raise),
            None => Ok(()),
        }
    }
}

/// A queue's reader.
#[pyclass(frozen, module = "hanare._hanare")]
pub struct Reader {
    port: Port<hanare::ReadPort>,
    /// An error that came behind units that were given.
    late: Mutex<Option<Error>>,
}

impl Reader {
    fn late(&self) -> MutexGuard<'_, Option<Error>> {
        self.late.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn raise_late(&self) -> PyResult<()> {
        self.late().take().map_or(Ok(()), |error| Err(raise(error)))
    }
}

/// Takes a unit out as bytes, and frees it.
fn take<'py>(py: Python<'py>, port: &mut hanare::ReadPort, unit: &hanare::Unread) -> PyResult<Bound<'py, PyBytes>> {
    let bytes = PyBytes::new_with(py, unit.len(), |into| {
        port.read(unit, 0, into);
        Ok(())
    })?;
    py.detach(|| port.free(unit)).map_err(raise)?;
    Ok(bytes)
}

#[pymethods]
impl Reader {
    /// The next unit, for which it waits `timeout` seconds at most.
    #[pyo3(signature = (timeout=None))]
    fn receive<'py>(&self, py: Python<'py>, timeout: Option<f64>) -> PyResult<Bound<'py, PyBytes>> {
        let mut port = self.port.lock()?;
        let port = port.as_mut().ok_or_else(closed)?;
        self.raise_late()?;
        let unit = wait(py, port, timeout, |port, bound| port.see(Some(bound)))?;
        take(py, port, &unit)
    }

    /// The units that are there, `count` at most; none where there are none.
    fn receive_ready<'py>(&self, py: Python<'py>, count: usize) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        let mut port = self.port.lock()?;
        let port = port.as_mut().ok_or_else(closed)?;
        self.raise_late()?;
        let mut units = Vec::new();
        while units.len() < count {
            match py.detach(|| port.try_see()) {
                Ok(Some(unit)) => units.push(take(py, port, &unit)?),
                Ok(None) => break,
                Err(error) if units.is_empty() => return Err(raise(error)),
                // Units that were taken out are given; the next call gets the error.
                Err(error) => {
                    *self.late() = Some(error);
                    break;
                }
            }
        }
        Ok(units)
    }

    /// A descriptor that is readable once there may be something, after [`Reader::arm`]; closed with this.
    fn fileno(&self, py: Python<'_>) -> PyResult<i32> {
        self.port.with(py, |port| Ok(port.event()?.as_raw_fd()))
    }

    /// Has the descriptor become readable with the next unit.
    fn arm(&self, py: Python<'_>) -> PyResult<()> {
        self.port.with(py, hanare::ReadPort::arm)
    }

    /// Leaves the queue. Does nothing where it was left before.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        match self.port.lock()?.take() {
            Some(port) => py.detach(|| port.close()).map_err(raise),
            None => Ok(()),
        }
    }
}
