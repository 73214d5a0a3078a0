//! A lock that was taken, and which of them each thread has.

use crate::client::remote::Remote;
use crate::client::threads::this_thread;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};

/// The thread of a lock that nobody has.
const NOBODY: u64 = u64::MAX;

thread_local! {
    /// Locks that this thread has, of all attachments.
    static HELD: RefCell<Vec<Arc<GrantedLock>>> = const { RefCell::new(Vec::new()) };
}

/// A lock as its home granted it: a thread has it, or the program keeps it because it is leased.
pub(crate) struct GrantedLock {
    /// The program's key for it.
    pub key: String,
    /// People's name for it.
    pub title: String,
    pub home: Arc<Remote>,
    /// The program's number of it.
    pub number: u64,
    /// The connection that it came on.
    pub connection: u128,
    /// Address of the attachment's claims, which tells them from those of others.
    pub claims: usize,
    pub state: LockState,
}

/// State of a lock that was taken.
pub(crate) struct LockState {
    thread: AtomicU64,
    /// True if its thread knows that it was lost.
    is_told: AtomicBool,
}

impl LockState {
    /// A lock of this thread.
    pub fn mine() -> LockState {
        LockState { thread: AtomicU64::new(this_thread()), is_told: AtomicBool::new(false) }
    }
}

impl GrantedLock {
    /// True while the connection of its grant lasts.
    pub fn is_connected(&self) -> bool {
        self.home.connection() == Some(self.connection)
    }

    /// True if a thread has it.
    pub fn is_held(&self) -> bool {
        self.state.thread.load(Relaxed) != NOBODY
    }

    /// True if this thread has it.
    pub fn is_mine(&self) -> bool {
        self.state.thread.load(Relaxed) == this_thread()
    }

    /// A thread has it again, or none.
    pub fn set_mine(&self, is_mine: bool) {
        self.state.thread.store(if is_mine { this_thread() } else { NOBODY }, Relaxed);
    }

    /// True if its thread knows that it was lost.
    pub fn is_told(&self) -> bool {
        self.state.is_told.load(Relaxed)
    }

    /// Its thread knows that it was lost.
    pub fn tell(&self) {
        self.state.is_told.store(true, Relaxed);
    }

    /// A lost lock of these claims that this thread has and was not told of.
    pub fn lost(claims: usize) -> Option<Arc<GrantedLock>> {
        let is_own = |taking: &GrantedLock| taking.claims == claims && taking.is_mine() && !taking.is_told();
        let is_lost = |taking: &&Arc<GrantedLock>| is_own(taking) && !taking.is_connected();
        HELD.try_with(|held| held.borrow().iter().find(is_lost).cloned()).ok().flatten()
    }

    /// Enters it among those of this thread. **Cost**: no system call, and no lock.
    pub fn enter(self: &Arc<GrantedLock>) {
        let _ = HELD.try_with(|held| {
            let mut held = held.borrow_mut();
            // A lock that another thread gave back, against the rules, is left over.
            held.retain(|taking| taking.is_mine());
            held.push(self.clone());
        });
    }

    /// Takes it out again.
    pub fn leave(&self) {
        let _ = HELD.try_with(|held| {
            let mut held = held.borrow_mut();
            if let Some(at) = held.iter().rposition(|taking| std::ptr::eq(&**taking, self)) {
                held.swap_remove(at);
            }
        });
    }
}
