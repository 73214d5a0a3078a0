//! The words of the pages whose frames are one process's own, by the rules of [`hanare_protocol::page::own_page`]. Its threads change them,
//! also inside signal handlers.
//!
//! ```text
//! bits 0..3   state
//! bit  3      somebody is parked until the page is released
//! bit  4      touched since the clock's hand passed
//! ```

mod numbers;

pub use numbers::Numbers;

use crate::wait::{Backoff, Step};
use hanare_protocol::page::own_page::{Event, State};
use rustix::thread::futex;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

const STATE_MASK: u32 = 0x7;
const PARKED: u32 = 1 << 3;
const TOUCHED: u32 = 1 << 4;

fn state_of(word: u32) -> State {
    // A word holds the number of a state, or none that this module wrote.
    State::ALL[(word & STATE_MASK) as usize]
}

/// The word after an event, or `None` where the table does not allow it.
fn after(word: u32, event: Event) -> Option<u32> {
    let to = state_of(word).after(event)?;
    let kept = if event == Event::Release { word & TOUCHED } else { word & !STATE_MASK };
    Some(kept | to as u32)
}

/// The words of a mapping's pages: 4 bytes each, as far as pages were used. All methods are async-signal-safe.
pub struct OwnPages(Numbers);

impl OwnPages {
    /// All absent.
    pub fn new(pages: u64) -> hanare_protocol::Result<OwnPages> {
        Numbers::new(pages).map(OwnPages)
    }

    /// The state at this moment. For skipping pages, never for deciding.
    pub fn look(&self, page: u64) -> State {
        // ORDERING: a page that is seen as not held any more is as its holder left it.
        state_of(self.0.at(page).load(Acquire))
    }

    /// Takes a page, and says in which state it was; `None` if somebody holds it.
    ///
    /// **Cost**: one exchange.
    pub fn try_hold(&self, page: u64) -> Option<State> {
        let word = self.0.at(page);
        let mut old = word.load(Relaxed);
        loop {
            let new = after(old, Event::Hold)?;
            // ORDERING: pairs with the release: the holder before has left frame and twin as the state says.
            match word.compare_exchange_weak(old, new, Acquire, Relaxed) {
                Ok(_) => return Some(state_of(old)),
                Err(now) => old = now,
            }
        }
    }

    /// Takes a page, and waits while another thread holds it: pauses, yields, then parks. The caller holds no other page.
    pub fn hold(&self, page: u64) -> State {
        let mut backoff = Backoff::new();
        loop {
            if let Some(state) = self.try_hold(page) {
                return state;
            }
            if backoff.step() == Step::Park {
                self.park(page);
            }
        }
    }

    fn park(&self, page: u64) {
        let word = self.0.at(page);
        let seen = word.load(Relaxed);
        if after(seen, Event::Hold).is_some() {
            return;
        }
        let parked = seen | PARKED;
        if seen == parked || word.compare_exchange(seen, parked, Relaxed, Relaxed).is_ok() {
            // Whatever it returns, the word is looked at again.
            let _ = futex::wait(word, futex::Flags::PRIVATE, parked, None);
        }
    }

    /// A step of the thread that holds the page.
    pub fn step(&self, page: u64, event: Event) {
        self.change(page, event);
    }

    /// Releases a held page, and wakes the threads that wait for it.
    ///
    /// **Cost**: one exchange; a system call where somebody is parked.
    pub fn release(&self, page: u64) {
        let old = self.change(page, Event::Release);
        if old & PARKED != 0 {
            let _ = futex::wake(self.0.at(page), futex::Flags::PRIVATE, i32::MAX as u32);
        }
    }

    fn change(&self, page: u64, event: Event) -> u32 {
        // ORDERING: releases what the holder did; pairs with `try_hold`.
        let changed = self.0.at(page).fetch_update(AcqRel, Relaxed, |word| after(word, event));
        changed.unwrap_or_else(|word| panic!("{event:?} of a page in state {:?}", state_of(word)))
    }

    /// A page was used.
    pub fn touch(&self, page: u64) {
        let word = self.0.at(page);
        if word.load(Relaxed) & TOUCHED == 0 {
            word.fetch_or(TOUCHED, Relaxed);
        }
    }

    /// True if a page was used since the last call.
    pub fn take_touch(&self, page: u64) -> bool {
        let word = self.0.at(page);
        word.load(Relaxed) & TOUCHED != 0 && word.fetch_and(!TOUCHED, Relaxed) & TOUCHED != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hanare_protocol::page::own_page::State::{Absent, Dirty, HeldAbsent};
    use std::sync::atomic::AtomicU64;

    #[test]
    fn a_held_page_is_nobody_else_s_and_comes_back_as_it_was_left() {
        let words = OwnPages::new(3).unwrap();
        assert_eq!(words.try_hold(1), Some(Absent));
        assert_eq!((words.try_hold(1), words.try_hold(2)), (None, Some(Absent)));
        words.touch(1);
        words.step(1, Event::Fill);
        words.step(1, Event::Open);
        words.release(1);
        assert_eq!((words.look(0), words.look(1), words.look(2)), (Absent, Dirty, HeldAbsent));
        assert_eq!((words.take_touch(1), words.take_touch(1)), (true, false));
        assert_eq!(words.hold(1), Dirty);
    }

    #[test]
    #[should_panic(expected = "Drop of a page in state HeldDirty")]
    fn a_page_whose_changes_are_not_home_is_not_dropped() {
        let words = OwnPages::new(1).unwrap();
        words.hold(0);
        words.step(0, Event::Fill);
        words.step(0, Event::Open);
        words.step(0, Event::Drop);
    }

    #[test]
    fn threads_that_wait_are_woken() {
        let (words, sum) = (OwnPages::new(1).unwrap(), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for turn in 0..200 {
                        words.hold(0);
                        let seen = sum.load(Relaxed);
                        if turn % 50 == 0 {
                            // Long enough for the others to park.
                            std::thread::sleep(std::time::Duration::from_millis(1));
                        }
                        sum.store(seen + 1, Relaxed);
                        words.release(0);
                    }
                });
            }
        });
        assert_eq!(sum.load(Relaxed), 800);
    }
}
