//! The states of the pages of one block, 64 or fewer: a set of pages takes each step together.

use super::{Aim, Event, PageStep, State, TABLE, next_step};

/// Most pages of a block.
pub const PAGE_COUNT: u32 = u64::BITS;

/// Words that hold the bits of the pages' states.
const PLANE_COUNT: usize = 3;

/// The states of a block's pages. A set of pages is a word with a bit for each.
///
/// **Cost**: 24 bytes; a step is some 40 operations, however many pages take it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageStates {
    /// Bit `k` of each page's number of its state.
    planes: [u64; PLANE_COUNT],
}

impl PageStates {
    /// The pages that are in a state.
    pub fn of(&self, state: State) -> u64 {
        let plane = |k: usize| if state as usize >> k & 1 == 1 { self.planes[k] } else { !self.planes[k] };
        (0..PLANE_COUNT).fold(u64::MAX, |pages, k| pages & plane(k))
    }

    fn of_those(&self, is_wanted: impl Fn(State) -> bool) -> u64 {
        State::ALL.into_iter().filter(|state| is_wanted(*state)).fold(0, |pages, state| pages | self.of(state))
    }

    /// The pages that have a frame.
    pub fn here(&self) -> u64 {
        self.of_those(State::is_here)
    }

    /// The pages with stores that are not home.
    pub fn dirty(&self) -> u64 {
        self.of_those(State::is_dirty)
    }

    /// The pages that are held.
    pub fn held(&self) -> u64 {
        self.of_those(State::is_held)
    }

    /// The held pages among some whose next step is that one.
    pub fn next(&self, aim: Aim, step: PageStep, pages: u64) -> u64 {
        pages & self.of_those(|state| state.is_held() && next_step(aim, state) == step)
    }

    /// Pages take a step. The table allows it to all of them.
    pub fn step(&mut self, event: Event, pages: u64) {
        let mut left = pages;
        let rows = TABLE.iter().filter(|row| row.event == event);
        let moves: [(u64, Option<State>); State::ALL.len()] = State::ALL.map(|state| {
            let those = pages & self.of(state);
            let to = rows.clone().find(|row| row.from.contains(&state)).map(|row| row.to);
            left &= if to.is_some() { !those } else { u64::MAX };
            (those, to)
        });
        assert_eq!(left, 0, "{event:?} of pages in {self:?}");
        moves.into_iter().filter_map(|(those, to)| Some((those, to?))).for_each(|(those, to)| self.set(those, to));
    }

    fn set(&mut self, pages: u64, state: State) {
        for (k, plane) in self.planes.iter_mut().enumerate() {
            *plane = *plane & !pages | if state as usize >> k & 1 == 1 { pages } else { 0 };
        }
    }

    /// The states of pages become those that their holder has in its own copy.
    pub fn take_over(&mut self, pages: u64, from: &PageStates) {
        for (plane, from) in self.planes.iter_mut().zip(from.planes) {
            *plane = *plane & !pages | from & pages;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::Access;
    use crate::table;
    use proptest::prelude::*;

    const EVENTS: [Event; 8] =
        [Event::Hold, Event::Fill, Event::Open, Event::Close, Event::Settle, Event::Drop, Event::Discard, Event::Release];

    proptest! {
        /// A set of pages takes the steps that each page would take alone.
        #[test]
        fn pages_step_together_as_each_alone(steps in prop::collection::vec((0..EVENTS.len(), any::<u64>()), 1..100)) {
            let (mut states, mut alone) = (PageStates::default(), [State::Absent; PAGE_COUNT as usize]);
            for (event, wanted) in steps {
                let event = EVENTS[event];
                let may = |page: &usize| wanted >> page & 1 == 1 && alone[*page].after(event).is_some();
                let pages = (0..alone.len()).filter(may).fold(0u64, |all, page| all | 1 << page);
                states.step(event, pages);
                for page in (0..alone.len()).filter(|page| pages >> page & 1 == 1) {
                    alone[page] = table::next(TABLE, alone[page], event).expect("it may");
                }
                let those = |is: &dyn Fn(State) -> bool| (0..alone.len()).filter(|page| is(alone[*page])).fold(0u64, |all, page| all | 1 << page);
                for state in State::ALL {
                    prop_assert_eq!(states.of(state), those(&|other| other == state));
                }
                prop_assert_eq!((states.here(), states.dirty()), (those(&State::is_here), those(&State::is_dirty)));
                prop_assert_eq!(states.held(), those(&State::is_held));
                let fetched = those(&|state| state == State::HeldAbsent);
                prop_assert_eq!(states.next(Aim::Touch(Access::Write), PageStep::Fetch, wanted), fetched & wanted);
            }
        }
    }

    #[test]
    #[should_panic(expected = "Drop of pages")]
    fn a_page_whose_changes_are_not_home_is_not_dropped() {
        let mut states = PageStates::default();
        states.step(Event::Hold, 0b11);
        states.step(Event::Fill, 0b11);
        states.step(Event::Open, 0b10);
        states.step(Event::Drop, 0b11);
    }

    #[test]
    fn each_holder_answers_for_its_own_pages() {
        let mut states = PageStates::default();
        states.step(Event::Hold, 0b01);
        let mut own = states;
        own.step(Event::Fill, 0b01);
        states.step(Event::Hold, 0b10);
        states.take_over(0b01, &own);
        assert_eq!((states.of(State::HeldClean), states.of(State::HeldAbsent)), (0b01, 0b10));
    }
}
