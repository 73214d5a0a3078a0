//! A number for each thread of a process, small and its own while it lives. It is the thread's place in memory that the process shares with
//! its node.
//!
//! Threads beyond [`OWN_COUNT`], ending threads, and all threads of children made by fork have the slot [`SHARED`] together. A child has
//! its parent's memory, and would change its parent's slots.

use std::cell::Cell;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Slots that one thread has alone.
pub const OWN_COUNT: usize = 118;

/// The slot of all threads that have none of their own.
pub const SHARED: usize = OWN_COUNT;

/// A thread that has not asked yet.
const UNKNOWN: usize = usize::MAX;

const WORD_BITS: usize = u64::BITS as usize;

/// A bit for each slot that a thread has.
static TAKEN: [AtomicU64; OWN_COUNT.div_ceil(WORD_BITS)] = [const { AtomicU64::new(0) }; OWN_COUNT.div_ceil(WORD_BITS)];

/// True if this process was made by fork.
static IS_CHILD: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Without a destructor, so that a look at it is one load.
    static SLOT: Cell<usize> = const { Cell::new(UNKNOWN) };
    static LEAVING: Leaving = const { Leaving };
}

/// Gives the slot back when its thread ends.
struct Leaving;

impl Drop for Leaving {
    fn drop(&mut self) {
        let slot = SLOT.replace(SHARED);
        if slot < OWN_COUNT && !IS_CHILD.load(Ordering::Relaxed) {
            // ORDERING: pairs with the `fetch_or` in `free_slot`: this thread's stores to its slot are there before the next thread has it.
            TAKEN[slot / WORD_BITS].fetch_and(!(1 << (slot % WORD_BITS)), Ordering::Release);
        }
    }
}

/// The slot of this thread, [`SHARED`] or below it.
///
/// **Cost**: a load of a thread's own variable; once a thread a search.
#[inline]
pub fn here() -> usize {
    match SLOT.get() {
        UNKNOWN => take(),
        slot => slot,
    }
}

#[cold]
fn take() -> usize {
    static INSTALL: Once = Once::new();
    INSTALL.call_once(|| {
        // SAFETY: the handler is a function of this library, which is never unloaded; it stores to an atomic and to its thread's own
        // variable.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
    let may_own = !IS_CHILD.load(Ordering::Relaxed) && LEAVING.try_with(|_| ()).is_ok();
    let slot = may_own.then(free_slot).flatten().unwrap_or(SHARED);
    SLOT.set(slot);
    slot
}

fn free_slot() -> Option<usize> {
    (0..OWN_COUNT).find(|slot| {
        let bit = 1 << (slot % WORD_BITS);
        // ORDERING: pairs with the end of the thread that had it.
        TAKEN[slot / WORD_BITS].fetch_or(bit, Ordering::Acquire) & bit == 0
    })
}

/// Runs in a child made by fork, on its only thread.
unsafe extern "C" fn in_child() {
    IS_CHILD.store(true, Ordering::Relaxed);
    SLOT.set(SHARED);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::sync::{Arc, Barrier};

    #[test]
    fn threads_that_live_at_once_have_slots_of_their_own_and_the_rest_share_one() {
        let count = OWN_COUNT + 10;
        let together = Arc::new(Barrier::new(count));
        let threads: Vec<_> = (0..count)
            .map(|_| {
                let together = together.clone();
                std::thread::spawn(move || {
                    let slot = here();
                    assert_eq!(slot, here());
                    together.wait();
                    slot
                })
            })
            .collect();
        let slots: Vec<usize> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        let own: Vec<usize> = slots.iter().copied().filter(|slot| *slot < OWN_COUNT).collect();
        assert_eq!(own.iter().collect::<BTreeSet<_>>().len(), own.len(), "no two have the same");
        assert!(own.len() < count && slots.iter().all(|slot| *slot <= SHARED));
        let after = std::thread::spawn(here).join().unwrap();
        assert!(after < OWN_COUNT, "the slots of threads that ended are given anew");
    }
}
