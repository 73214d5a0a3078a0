//! Waits that Ctrl-C ends and event loops watch: each runs on a thread of its own, which never touches the interpreter.
//!
//! ```text
//! begin ── worker waits ── outcome ──┬── Pending.result: sleeps, and looks for signals every SIGNAL_MS
//!                                    └── Pending.fileno: readable when it is there
//! ```
//!
//! A caller that gives a wait up drops its [`Pending`]; the awaited thing is dropped when it comes, a lock given back with it.

use crate::errors::raise;
use pyo3::exceptions::{PyOSError, PyRuntimeError};
use pyo3::prelude::*;
use rustix::event::{EventfdFlags, eventfd};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// Time between a waiter's looks for signals of its program: too short for a user to notice, and no load.
const SIGNAL_MS: u64 = 50;

/// Idle threads that are kept for the next wait.
const IDLE_COUNT: usize = 16;

/// The awaited thing, which becomes a Python object where it is taken.
pub type Came = Box<dyn for<'py> FnOnce(Python<'py>) -> PyResult<Bound<'py, PyAny>> + Send>;

/// The mere end.
pub fn nothing() -> Came {
    Box::new(|py| Ok(py.None().into_bound(py)))
}

#[derive(Default)]
struct Inner {
    outcome: Option<hanare::Result<Came>>,
    is_over: bool,
    bell: Option<OwnedFd>,
}

#[derive(Default)]
struct Wait {
    inner: Mutex<Inner>,
    over: Condvar,
}

impl Wait {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The other end of a [`Pending`].
pub struct Ending(Weak<Wait>);

impl Ending {
    /// Ends the wait; what came is dropped where nobody waits any more.
    pub fn end(&self, outcome: hanare::Result<Came>) {
        let Some(wait) = self.0.upgrade() else { return };
        let mut inner = wait.inner();
        (inner.outcome, inner.is_over) = (Some(outcome), true);
        if let Some(bell) = &inner.bell {
            // A bell that is full rings already.
            let _ = rustix::io::write(bell, &1u64.to_ne_bytes());
        }
        wait.over.notify_all();
    }

    /// True if anybody still waits.
    pub fn is_wanted(&self) -> bool {
        self.0.strong_count() > 0
    }
}

/// Something that is waited for.
#[pyclass(frozen, module = "hanare._hanare")]
pub struct Pending {
    wait: Arc<Wait>,
}

/// A wait that nothing has been begun for.
pub fn pending() -> (Pending, Ending) {
    let wait = Arc::new(Wait::default());
    let ending = Ending(Arc::downgrade(&wait));
    (Pending { wait }, ending)
}

/// Begins a wait: `work` runs on a thread that may wait as long as it likes.
pub fn begin(work: impl FnOnce(Ending) + Send + 'static) -> Pending {
    let (pending, ending) = pending();
    hand_over(Box::new(move || work(ending)));
    pending
}

#[pymethods]
impl Pending {
    /// Waits for it, `timeout` seconds at most; a signal's exception ends the wait, too.
    #[pyo3(signature = (timeout=None))]
    fn result<'py>(&self, py: Python<'py>, timeout: Option<f64>) -> PyResult<Bound<'py, PyAny>> {
        let deadline = timeout.map(|seconds| Instant::now() + Duration::try_from_secs_f64(seconds).unwrap_or_default());
        loop {
            let step = Duration::from_millis(SIGNAL_MS);
            let left = deadline.map_or(step, |end| step.min(end.saturating_duration_since(Instant::now())));
            let is_over = py.detach(|| {
                let inner = self.wait.inner();
                let waited = self.wait.over.wait_timeout_while(inner, left, |inner| !inner.is_over);
                waited.unwrap_or_else(PoisonError::into_inner).0.is_over
            });
            if is_over {
                return self.take(py);
            }
            py.check_signals()?;
            if deadline.is_some_and(|end| Instant::now() >= end) {
                return Err(pyo3::exceptions::PyTimeoutError::new_err("what was waited for did not come in time"));
            }
        }
    }

    /// True if it has come.
    fn done(&self) -> bool {
        self.wait.inner().is_over
    }

    /// A descriptor that is readable when it has come; closed with this.
    fn fileno(&self) -> PyResult<i32> {
        let mut inner = self.wait.inner();
        if let Some(bell) = &inner.bell {
            return Ok(bell.as_raw_fd());
        }
        let bell = eventfd(u32::from(inner.is_over), EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let bell = bell.map_err(|error| PyOSError::new_err((error.raw_os_error(), error.to_string())))?;
        Ok(inner.bell.insert(bell).as_raw_fd())
    }
}

impl Pending {
    fn take<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let outcome = self.wait.inner().outcome.take();
        let came = outcome.ok_or_else(|| PyRuntimeError::new_err("its result was taken before"))?.map_err(raise)?;
        came(py)
    }
}

type Job = Box<dyn FnOnce() + Send>;

/// Threads that have nothing to do, of the process with that number: a child made by fork has none of them.
static IDLE: Mutex<(u32, Vec<Sender<Job>>)> = Mutex::new((0, Vec::new()));

fn idle() -> MutexGuard<'static, (u32, Vec<Sender<Job>>)> {
    let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
    if idle.0 != std::process::id() {
        // Their channels are the parent's: nobody listens here.
        std::mem::forget(std::mem::take(&mut idle.1));
        idle.0 = std::process::id();
    }
    idle
}

fn hand_over(job: Job) {
    let next = idle().1.pop();
    let job = match next {
        Some(worker) => match worker.send(job) {
            Ok(()) => return,
            Err(unsent) => unsent.0,
        },
        None => job,
    };
    std::thread::spawn(move || {
        job();
        loop {
            let (sender, jobs) = channel::<Job>();
            {
                let mut idle = idle();
                if idle.1.len() >= IDLE_COUNT {
                    return;
                }
                idle.1.push(sender);
            }
            match jobs.recv() {
                Ok(job) => job(),
                Err(_) => return,
            }
        }
    });
}
