//! The thread that does what a thread in a fault may not: it allocates, takes locks, and makes connections.
//!
//! A thread for each attachment, from its first mapping on; it sleeps until its bell is rung.

use super::Shared;
use crate::client::threads;
use hanare_protocol::{Error, Result};
use rustix::event::{EventfdFlags, eventfd};
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Bytes of the thread's stack: it connects and proves the pool's key, no more.
const STACK_LEN: usize = 256 << 10;

/// Orders of threads that the reconnector carries out.
pub(crate) trait Reconnect: Send + Sync {
    /// Does what is ordered just now.
    fn carry_out(&self, shared: &Shared);
}

/// An attachment's reconnector.
#[derive(Default)]
pub(crate) struct Reconnector(Mutex<Option<Arc<Bench>>>);

/// The thread's work.
struct Bench {
    bell: Arc<OwnedFd>,
    orders: Mutex<Vec<Weak<dyn Reconnect>>>,
    is_over: AtomicBool,
}

impl Shared {
    /// Lets the reconnector carry out these orders whenever its bell is rung, as long as they are there. `orders` makes them with the bell.
    /// Not for a signal handler.
    ///
    /// **Errors**: [`Error::System`] where no thread can be started.
    pub fn reconnect_on_order<O: Reconnect + 'static>(
        self: &Arc<Shared>,
        orders: impl FnOnce(Arc<OwnedFd>) -> O,
    ) -> Result<Arc<O>> {
        let mut reconnector = self.reconnector.0.lock().unwrap_or_else(PoisonError::into_inner);
        let bench = match &*reconnector {
            Some(bench) => bench,
            None => reconnector.insert(start(Arc::downgrade(self))?),
        };
        let orders = Arc::new(orders(bench.bell.clone()));
        let mut all = bench.orders.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|orders| orders.strong_count() > 0);
        let weak: Weak<O> = Arc::downgrade(&orders);
        all.push(weak);
        Ok(orders)
    }
}

/// Starts the thread. It is not waited for: it may be the one that drops the attachment.
fn start(shared: Weak<Shared>) -> Result<Arc<Bench>> {
    let bell = eventfd(0, EventfdFlags::CLOEXEC).map_err(|errno| system("make an event", &errno.into()))?;
    let bench = Arc::new(Bench { bell: Arc::new(bell), orders: Mutex::default(), is_over: AtomicBool::new(false) });
    let its = bench.clone();
    threads::start("hanare-reconn", STACK_LEN, move || run(&its, &shared))?;
    Ok(bench)
}

fn run(bench: &Bench, shared: &Weak<Shared>) {
    loop {
        let _ = rustix::io::read(&*bench.bell, &mut [0; 8]);
        if bench.is_over.load(Acquire) {
            return;
        }
        let orders: Vec<Arc<dyn Reconnect>> = {
            let all = bench.orders.lock().unwrap_or_else(PoisonError::into_inner);
            all.iter().filter_map(Weak::upgrade).collect()
        };
        let Some(shared) = shared.upgrade() else { return };
        orders.iter().for_each(|orders| orders.carry_out(&shared));
    }
}

impl Drop for Reconnector {
    fn drop(&mut self) {
        if let Some(bench) = self.0.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            bench.is_over.store(true, Release);
            let _ = rustix::io::write(&*bench.bell, &1u64.to_ne_bytes());
        }
    }
}

fn system(what: &str, error: &std::io::Error) -> Error {
    Error::System { what: what.to_owned(), reason: error.to_string() }
}
