//! The frames in use, up to a limit, in the order in which the clock's hand passes them. Signal handlers of many threads use it at a
//! time, so it has no map, lock or allocation.
//!
//! ```text
//! used   [ p9 ][ p2 ][ free ][ p7 ] ... never used        pages: the slot of each page
//!                      |
//! free: 2 -> next of 2 -> ...
//! ```
//!
//! The touched page is in the slot's word. A slot belongs to the thread that holds its page.

use hanare_protocol::Result;
use hanare_ring::own_page::Numbers;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};

/// The slots of a mapping.
pub(super) struct Slots {
    /// For each slot its page plus 1, or 0.
    pages: Numbers,
    /// For each free slot the one behind it in the list of free ones, plus 1, or 0.
    next: Numbers,
    /// For each page its slot plus 1, or 0.
    slots: Numbers,
    /// The first free slot plus 1 in the low half. The high half counts changes, so that an exchange never takes a changed list for an
    /// unchanged one.
    free: AtomicU64,
    /// Slots that were ever used.
    used: AtomicU32,
    /// Slots in use.
    taken: AtomicU64,
    hand: AtomicU64,
}

impl Slots {
    /// Room for `limit` frames of `pages` pages.
    pub fn new(limit: u64, pages: u64) -> Result<Slots> {
        let limit = limit.min(pages).min(u64::from(u32::MAX - 1));
        let (free, used, taken, hand) = Default::default();
        Ok(Slots {
            pages: Numbers::new(limit)?,
            next: Numbers::new(limit)?,
            slots: Numbers::new(pages)?,
            free,
            used,
            taken,
            hand,
        })
    }

    /// Slots in use.
    pub fn taken_count(&self) -> u64 {
        self.taken.load(Relaxed).min(self.limit())
    }

    /// Slots that may still be taken.
    pub fn free_count(&self) -> u64 {
        self.limit() - self.taken_count()
    }

    /// Most frames.
    pub fn limit(&self) -> u64 {
        self.pages.count()
    }

    /// Takes a slot for a page that the caller holds; says whether there was one.
    pub fn admit(&self, page: u64) -> bool {
        let Some(slot) = self.pop().or_else(|| self.fresh()) else { return false };
        self.slots.at(page).store(slot + 1, Relaxed);
        // A page's number fits: mappings are shorter than 2^44 bytes.
        self.pages.at(slot.into()).store(page as u32 + 1, Relaxed);
        self.taken.fetch_add(1, Relaxed);
        true
    }

    /// Gives back the slot of a page that the caller holds, if it has one.
    pub fn remove(&self, page: u64) {
        let Some(slot) = self.slots.at(page).swap(0, Relaxed).checked_sub(1) else { return };
        self.pages.at(slot.into()).store(0, Relaxed);
        self.taken.fetch_sub(1, Relaxed);
        self.push(slot);
    }

    /// The next page that the hand comes to; `None` for a free slot.
    pub fn turn(&self) -> Option<u64> {
        let used = u64::from(self.used.load(Relaxed));
        let at = (used > 0).then(|| self.hand.fetch_add(1, Relaxed) % used)?;
        u64::from(self.pages.at(at).load(Relaxed)).checked_sub(1)
    }

    /// Steps of the hand that pass every page twice.
    pub fn two_rounds(&self) -> u64 {
        2 * u64::from(self.used.load(Relaxed))
    }

    fn fresh(&self) -> Option<u32> {
        let limit = self.limit() as u32;
        self.used.fetch_update(Relaxed, Relaxed, |used| (used < limit).then_some(used + 1)).ok()
    }

    fn pop(&self) -> Option<u32> {
        // ORDERING: pairs with `push`: the first slot's next one is what was stored before it became the first.
        let pop = |free: u64| {
            let slot = (free as u32).checked_sub(1)?;
            Some(changed(free, self.next.at(slot.into()).load(Relaxed)))
        };
        self.free.fetch_update(Acquire, Acquire, pop).ok().map(|free| free as u32 - 1)
    }

    fn push(&self, slot: u32) {
        let push = |free: u64| {
            self.next.at(slot.into()).store(free as u32, Relaxed);
            Some(changed(free, slot + 1))
        };
        // ORDERING: pairs with `pop`.
        let _ = self.free.fetch_update(Release, Relaxed, push);
    }
}

/// The list with another first slot.
fn changed(free: u64, first: u32) -> u64 {
    ((free >> 32).wrapping_add(1) << 32) | u64::from(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_taken_up_to_the_limit_and_again() {
        let slots = Slots::new(3, 10).unwrap();
        assert_eq!((slots.turn(), slots.two_rounds(), slots.free_count()), (None, 0, 3));
        assert!(slots.admit(9) && slots.admit(4) && slots.admit(0));
        assert!(!slots.admit(5));
        assert_eq!([slots.turn(), slots.turn(), slots.turn(), slots.turn()].map(Option::unwrap), [9, 4, 0, 9]);
        slots.remove(4);
        slots.remove(4);
        slots.remove(7);
        assert_eq!(slots.free_count(), 1);
        assert!(slots.admit(7) && !slots.admit(8));
        assert_eq!([slots.turn(), slots.turn()].map(Option::unwrap), [7, 0]);
        assert_eq!(Slots::new(100, 10).unwrap().limit(), 10, "no more than there are pages");
    }

    #[test]
    fn threads_never_share_a_slot() {
        let slots = Slots::new(8, 64).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let slots = &slots;
                scope.spawn(move || {
                    for turn in 0..5000u64 {
                        let page = thread * 16 + turn % 16;
                        if slots.admit(page) {
                            let slot = u64::from(slots.slots.at(page).load(Relaxed)) - 1;
                            assert_eq!(slots.pages.at(slot).load(Relaxed), page as u32 + 1);
                            slots.remove(page);
                        }
                    }
                });
            }
        });
        assert_eq!(slots.free_count(), 8);
        assert!((0..8).all(|page| slots.admit(page)) && !slots.admit(8), "none was lost");
    }
}
