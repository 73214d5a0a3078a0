//! Which frames to give back when the host's limit is reached: a clock with a second chance.
//!
//! ```text
//!            hand
//!             v
//!   [ p9 ][ p2* ][ p7 ][    ][ p4* ]        * touched since the hand passed
//! ```
//!
//! The hand goes round: a frame that was touched since it last passed is spared once, one that was not is a victim. "Touched"
//! is what the node sees: that a client faulted on the page, or that the node used it for another; a page that is mapped is not
//! seen to be used, so a page that matters to a client costs it one fault a round. Pure policy: it knows no page table; the
//! caller takes the victims and says so with [`Clock::remove`].

use std::collections::HashMap;

/// A slot without a page.
const FREE: u64 = u64::MAX;

#[derive(Clone, Copy, Debug)]
struct Slot {
    page: u64,
    is_touched: bool,
}

/// The frames in use, up to a limit, in the order in which the hand passes them.
///
/// 16 bytes a frame of the limit and about 20 a frame in use, whatever the region's size.
#[derive(Clone, Debug)]
pub struct Clock {
    slots: Vec<Slot>,
    free: Vec<u32>,
    place: HashMap<u64, u32>,
    hand: usize,
}

impl Clock {
    /// A clock of at most `limit` frames, at least one.
    pub fn new(limit: u32) -> Clock {
        let slots = vec![Slot { page: FREE, is_touched: false }; limit.max(1) as usize];
        let free = (0..slots.len() as u32).rev().collect();
        Clock { slots, free, place: HashMap::new(), hand: 0 }
    }

    /// Most frames.
    pub fn limit(&self) -> usize {
        self.slots.len()
    }

    /// Frames in use.
    pub fn frame_count(&self) -> usize {
        self.place.len()
    }

    /// Frames that may still be admitted.
    pub fn free_count(&self) -> usize {
        self.free.len()
    }

    /// Whether a page has a frame.
    pub fn has(&self, page: u64) -> bool {
        self.place.contains_key(&page)
    }

    /// Counts a page's frame, and says whether there was room. One that is counted already is touched.
    #[must_use = "a page without room must not be filled"]
    pub fn admit(&mut self, page: u64) -> bool {
        assert_ne!(page, FREE, "a page's number");
        if self.touch(page) {
            return true;
        }
        let Some(slot) = self.free.pop() else { return false };
        self.slots[slot as usize] = Slot { page, is_touched: true };
        self.place.insert(page, slot);
        true
    }

    /// Spares a page once; says whether it is here.
    pub fn touch(&mut self, page: u64) -> bool {
        let slot = self.place.get(&page);
        slot.is_some_and(|&slot| {
            self.slots[slot as usize].is_touched = true;
            true
        })
    }

    /// A page's frame was given back; says whether it was here.
    pub fn remove(&mut self, page: u64) -> bool {
        let Some(slot) = self.place.remove(&page) else { return false };
        self.slots[slot as usize].page = FREE;
        self.free.push(slot);
        true
    }

    /// Up to `count` pages to give back, ascending, so that neighbours go in one call. Nothing is removed.
    ///
    /// `may_take` is asked last, and marks the page in its word: a page that it refuses (someone is fetching it, or its
    /// installer is stopped) is passed over. A page is proposed once a call. **Cost**: at most two rounds of the hand.
    pub fn victims(&mut self, count: usize, mut may_take: impl FnMut(u64) -> bool) -> Vec<u64> {
        let mut victims = Vec::with_capacity(count.min(self.frame_count()));
        let mut proposed = std::collections::HashSet::new();
        for _ in 0..2 * self.slots.len() {
            if victims.len() == count {
                break;
            }
            let at = self.hand;
            self.hand = (at + 1) % self.slots.len();
            let slot = &mut self.slots[at];
            if slot.page == FREE {
                continue;
            }
            if slot.is_touched {
                slot.is_touched = false;
            } else if proposed.insert(slot.page) && may_take(slot.page) {
                victims.push(slot.page);
            }
        }
        victims.sort_unstable();
        victims
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_touched_frame_is_spared_once() {
        let mut clock = Clock::new(4);
        assert!((0..4).all(|page| clock.admit(page)));
        assert!(!clock.admit(4), "full");
        assert_eq!(clock.victims(1, |_| true), [0], "all were touched: the first round spares them");
        assert!(clock.remove(0) && clock.admit(4));
        assert!(clock.touch(1));
        assert_eq!(clock.victims(2, |_| true), [2, 3]);
        assert_eq!(clock.victims(2, |page| page != 4), [1, 2], "4 is new, then refused; 1 was spared once");
        assert!(!clock.remove(9) && !clock.touch(9));
    }

    #[derive(Clone, Debug)]
    enum Step {
        Admit(u64),
        Touch(u64),
        Remove(u64),
        Victims(usize, u64),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            3 => (0..12u64).prop_map(Step::Admit),
            2 => (0..12u64).prop_map(Step::Touch),
            1 => (0..12u64).prop_map(Step::Remove),
            2 => (0..6usize, 1..5u64).prop_map(|(count, refused)| Step::Victims(count, refused)),
        ];
        prop::collection::vec(step, 0..60)
    }

    proptest! {
        #[test]
        fn the_limit_holds_and_untouched_frames_go_first(limit in 1..9u32, steps in steps()) {
            let mut clock = Clock::new(limit);
            // Each page in use, and whether it was touched since it was last looked at.
            let mut model: std::collections::BTreeMap<u64, bool> = Default::default();
            for step in steps {
                match step {
                    Step::Admit(page) => {
                        let fits = model.contains_key(&page) || model.len() < limit as usize;
                        prop_assert_eq!(clock.admit(page), fits);
                        if fits {
                            model.insert(page, true);
                        }
                    }
                    Step::Touch(page) => {
                        prop_assert_eq!(clock.touch(page), model.contains_key(&page));
                        model.entry(page).and_modify(|is_touched| *is_touched = true);
                    }
                    Step::Remove(page) => prop_assert_eq!(clock.remove(page), model.remove(&page).is_some()),
                    Step::Victims(count, refused) => {
                        let victims = clock.victims(count, |page| !page.is_multiple_of(refused) || refused == 1);
                        prop_assert!(victims.is_sorted() && victims.iter().all(|page| model.contains_key(page)));
                        let may_go = |page: u64| !page.is_multiple_of(refused) || refused == 1;
                        prop_assert!(victims.iter().all(|&page| may_go(page)));
                        prop_assert_eq!(victims.len(), count.min(model.keys().filter(|&&page| may_go(page)).count()));
                        // A touched one goes only when no untouched one that may go stays.
                        let is_left = |page: &u64| may_go(*page) && !victims.contains(page);
                        let left_untouched = model.iter().any(|(page, touched)| !touched && is_left(page));
                        prop_assert!(!(left_untouched && victims.iter().any(|page| model[page])));
                        for (page, is_touched) in &mut model {
                            *is_touched = clock.slots.iter().any(|slot| slot.page == *page && slot.is_touched);
                        }
                    }
                }
                prop_assert_eq!(clock.frame_count(), model.len());
                prop_assert_eq!(clock.free_count(), clock.limit() - model.len());
                prop_assert!((0..12).all(|page| clock.has(page) == model.contains_key(&page)));
            }
        }
    }
}
