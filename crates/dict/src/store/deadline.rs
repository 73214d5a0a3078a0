//! Calls that count as misses when they are late.
//!
//! A call on another host ends when its node answers, or after the pool's own timeout. A cache cannot wait that long. So a thread makes the
//! call, and the program goes on when its deadline has passed. The thread ends with the call.

use super::Store;
use crate::dict::Told;
use crate::key::Key;
use hanare::{Error, Result};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

/// Threads of one store. Where all of them are late, further calls are misses at once.
const THREADS: usize = 32;
/// Threads that wait for the next call, as long as the store is open.
const IDLE: usize = 4;
/// Bytes of values that a thread reads before they are copied. They are still in the processor's cache then, and memory for them is used again.
const PIECE_LEN: usize = 2 << 20;

type Call = Box<dyn FnOnce() + Send>;

/// Threads that make calls for others.
#[derive(Default)]
pub struct Workers {
    idle: Mutex<Vec<Sender<Call>>>,
    count: Arc<AtomicUsize>,
}

impl Store {
    /// Makes a call with a deadline; `None` where it is late. A late change may or may not have been made, or may still be.
    ///
    /// **Cost**: two changes of threads.
    pub fn within<T: Send + 'static>(
        &self,
        deadline: Duration,
        call: impl FnOnce(&Store) -> Result<T> + Send + 'static,
    ) -> Result<Option<T>> {
        let (tell, told) = channel();
        let store = self.clone();
        let work = move || {
            let done = call(&store);
            drop(store);
            // A caller whose deadline has passed has left.
            let _ = tell.send(done);
        };
        if !start(&self.workers, Box::new(work))? {
            return Ok(None);
        }
        match told.recv_timeout(deadline) {
            Ok(done) => done.map(Some),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(Error::System {
                what: "a call with a deadline".to_owned(),
                reason: "its thread ended; see the message above".to_owned(),
            }),
        }
    }
}

impl Store {
    /// [`Store::get_many`] with a deadline. Keys that were not read by then do not count as there, and their buffers have the bytes of before.
    ///
    /// **Cost**: as for [`Store::within`] and [`Store::get_many`] for each 2 MiB of buffers, and a copy of the values.
    pub fn get_many_within(&self, keys: &[Key<'_>], into: &mut [&mut [u8]], deadline: Duration) -> Result<Vec<Option<Told>>> {
        if keys.len() != into.len() {
            return self.get_many(keys, into);
        }
        let begun = Instant::now();
        let mut all = vec![None; keys.len()];
        let (mut first, mut buffers) = (0, Vec::new());
        while first < keys.len() {
            let end = first + piece(&into[first..]);
            let left = deadline.saturating_sub(begun.elapsed());
            let Some(told) = self.get_some_within(&keys[first..end], &mut into[first..end], &mut buffers, left)? else { break };
            all[first..end].copy_from_slice(&told);
            first = end;
        }
        Ok(all)
    }

    /// Reads a piece of a batch through `buffers`, which a late thread keeps; `None` where it is late.
    fn get_some_within(
        &self,
        keys: &[Key<'_>],
        into: &mut [&mut [u8]],
        buffers: &mut Vec<Vec<u8>>,
        deadline: Duration,
    ) -> Result<Option<Vec<Option<Told>>>> {
        let its: Vec<Key<'static>> = keys.iter().map(Key::to_owned_key).collect();
        let mut lent = std::mem::take(buffers);
        lent.resize_with(into.len(), Vec::new);
        lent.iter_mut().zip(into.iter()).for_each(|(buffer, into)| buffer.resize(into.len(), 0));
        let read = self.within(deadline, move |store| {
            let mut into: Vec<&mut [u8]> = lent.iter_mut().map(Vec::as_mut_slice).collect();
            let told = store.get_many(&its, &mut into)?;
            Ok((told, lent))
        })?;
        let Some((told, lent)) = read else { return Ok(None) };
        for ((told, into), buffer) in told.iter().zip(into).zip(&lent) {
            if let Some(told) = told
                && let Some(into) = into.get_mut(..told.len)
            {
                into.copy_from_slice(&buffer[..told.len]);
            }
        }
        *buffers = lent;
        Ok(Some(told))
    }
}

/// Number of buffers, from the first on, of a piece of a batch: one at least.
fn piece(into: &[&mut [u8]]) -> usize {
    let mut len = 0;
    let fits = |into: &&&mut [u8]| {
        len += into.len();
        len <= PIECE_LEN
    };
    into.iter().take_while(fits).count().max(1)
}

/// Has a thread make the call. Returns false where too many are late.
fn start(workers: &Arc<Workers>, mut call: Call) -> Result<bool> {
    loop {
        let idle = workers.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let Some(idle) = idle else { break };
        match idle.send(call) {
            Ok(()) => return Ok(true),
            Err(back) => call = back.0,
        }
    }
    let counted = Counted(workers.count.clone());
    if counted.0.fetch_add(1, Ordering::Relaxed) >= THREADS {
        return Ok(false);
    }
    let its = Arc::downgrade(workers);
    let spawned = std::thread::Builder::new().name("hanare-store".to_owned()).spawn(move || {
        let _counted = counted;
        work(&its, call);
    });
    match spawned {
        Ok(_) => Ok(true),
        Err(error) => Err(Error::System { what: "a thread for a call with a deadline".to_owned(), reason: error.to_string() }),
    }
}

/// A thread that counts until it ends.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Makes a call, and those that come, until enough other threads wait or the store is closed.
fn work(workers: &Weak<Workers>, mut call: Call) {
    loop {
        call();
        let Some(calls) = workers.upgrade().and_then(|workers| wait_for_calls(&workers)) else { return };
        match calls.recv() {
            Ok(next) => call = next,
            Err(_) => return,
        }
    }
}

/// Joins the threads that wait; `None` where there are enough.
fn wait_for_calls(workers: &Workers) -> Option<Receiver<Call>> {
    let (sender, receiver) = channel();
    let mut idle = workers.idle.lock().unwrap_or_else(PoisonError::into_inner);
    (idle.len() < IDLE).then(|| {
        idle.push(sender);
        receiver
    })
}
