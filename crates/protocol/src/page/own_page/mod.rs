//! A page whose frame is one process's own, and whose home is elsewhere. One thread at a time changes the page's frame, its twin and its
//! entry in the page table. The others wait.
//!
//! ```text
//!         Hold                 Fill                  Open                    Close
//!  Absent <----> HeldAbsent ---------> HeldClean ---------> HeldDirty ------------------> HeldClosed
//!         Release     ^  Drop            | ^ |                 | ^                          |  |
//!                     +------------------+ | |                 | | Hold                     |  |
//!                                          | |                 v |                          |  |
//!                                          | | Release        Dirty <------- Release -------+  |
//!                                     Hold | v                                                 |
//!                                        Clean      HeldClean <------------ Settle ------------+
//! ```
//!
//! | state | frame | twin, where there are twins | mapped |
//! |---|---|---|---|
//! | `Absent` | none | none | no |
//! | `Clean` | the home's bytes, as they were | none | not, or write-protected |
//! | `Dirty` | those and this process's stores | the home's bytes, as they were | any |
//! | `HeldClosed` | the same, and no store is under way | the same | write-protected |
//! | `Held…` | as the state says, changed by the one who holds it | | |
//!
//! A thread holds a page through all of a fault, flush, update or eviction. So there is no count of mapping threads, as in
//! [`super::word`]: processes that may die at any step share that word. The threads that share this page only die together.
//!
//! [`next_step`] says the next step with a held page, for each aim. A step that succeeds leads on by its event ([`PageStep::event`]). Where
//! a step fails, the holder releases the page in the state that it has.
//!
//! | user | its states lie in |
//! |---|---|
//! | explicit mappings (`hanare`) | words that signal handlers change: `hanare_ring::own_page` |
//! | main memory of unchanged programs (`hanare-disk`) | [`PageStates`], for each block, under a lock |
//!
//! Each user chooses by itself which pages come together and which leave first. `explore` tries all orders of threads, evictions and
//! failures with each rule switched off in turn. `table.txt` and `steps.txt` are the tables as text.

#[cfg(test)]
mod explore;
mod states;

pub use states::{PAGE_COUNT, PageStates};

use super::Access;
use crate::table::{self, Row};

/// The state of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// No frame.
    Absent = 0,
    /// The home's bytes.
    Clean = 1,
    /// Clean bytes with this process's stores, and a twin.
    Dirty = 2,
    /// `Absent`, held.
    HeldAbsent = 3,
    /// `Clean`, held.
    HeldClean = 4,
    /// `Dirty`, held.
    HeldDirty = 5,
    /// `HeldDirty`, write-protected: its bytes stay as they are.
    HeldClosed = 6,
}

/// An event of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A thread takes the page for itself.
    Hold,
    /// The home's bytes are in the frame.
    Fill,
    /// The page may become writable: its twin is made.
    Open,
    /// The page is write-protected.
    Close,
    /// All changes are home.
    Settle,
    /// The frame is given back.
    Drop,
    /// The program has given up the bytes: they are zeros, here and at home.
    Discard,
    /// The thread has done with the page.
    Release,
}

use State::{Absent, Clean, Dirty, HeldAbsent, HeldClean, HeldClosed, HeldDirty};

/// Every transition of a page.
pub const TABLE: &[Row<State, Event>] = &[
    Row { event: Event::Hold, from: &[Absent], to: HeldAbsent },
    Row { event: Event::Hold, from: &[Clean], to: HeldClean },
    Row { event: Event::Hold, from: &[Dirty], to: HeldDirty },
    Row { event: Event::Fill, from: &[HeldAbsent], to: HeldClean },
    Row { event: Event::Open, from: &[HeldClean], to: HeldDirty },
    Row { event: Event::Close, from: &[HeldDirty], to: HeldClosed },
    Row { event: Event::Settle, from: &[HeldClosed], to: HeldClean },
    Row { event: Event::Drop, from: &[HeldClean], to: HeldAbsent },
    Row { event: Event::Discard, from: &[HeldAbsent, HeldClean, HeldDirty], to: HeldAbsent },
    Row { event: Event::Release, from: &[HeldAbsent], to: Absent },
    Row { event: Event::Release, from: &[HeldClean], to: Clean },
    Row { event: Event::Release, from: &[HeldDirty, HeldClosed], to: Dirty },
];

impl State {
    /// All of them, by their numbers.
    pub const ALL: [State; 7] = [Absent, Clean, Dirty, HeldAbsent, HeldClean, HeldDirty, HeldClosed];

    /// The state that an event leads to, or `None` where the table does not allow it.
    pub fn after(self, event: Event) -> Option<State> {
        table::next(TABLE, self, event)
    }

    /// True if the page has a frame.
    pub const fn is_here(self) -> bool {
        !matches!(self, Absent | HeldAbsent)
    }

    /// True if the page has stores that are not home.
    pub const fn is_dirty(self) -> bool {
        matches!(self, Dirty | HeldDirty | HeldClosed)
    }

    /// True if a thread has the page for itself.
    pub const fn is_held(self) -> bool {
        matches!(self, HeldAbsent | HeldClean | HeldDirty | HeldClosed)
    }
}

/// The aim with which a page is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Aim {
    /// A thread touched the page.
    Touch(Access),
    /// The process's stores are to be home.
    Flush,
    /// The frame is wanted for another page.
    Evict,
}

/// The next step with a held page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PageStep {
    /// Fetches the home's bytes and puts them into a frame. A frame that was filled in part is given back.
    Fetch,
    /// Makes the twin, before any store.
    Open,
    /// Maps the page for that access: the last step.
    Map(Access),
    /// Write-protects the page in all threads' sight, before it is read.
    Close,
    /// Reads the page and sends what was stored to its home.
    Send,
    /// Gives the frame back.
    Drop,
    /// No step is left.
    Release,
}

impl PageStep {
    /// The event of the step that succeeded.
    pub const fn event(self) -> Option<Event> {
        match self {
            PageStep::Fetch => Some(Event::Fill),
            PageStep::Open => Some(Event::Open),
            PageStep::Close => Some(Event::Close),
            PageStep::Send => Some(Event::Settle),
            PageStep::Drop => Some(Event::Drop),
            PageStep::Map(_) | PageStep::Release => None,
        }
    }
}

/// The next step with a page in that state. The page is held, or will be.
pub const fn next_step(aim: Aim, state: State) -> PageStep {
    match (aim, state) {
        (Aim::Touch(_), Absent | HeldAbsent) => PageStep::Fetch,
        (Aim::Touch(Access::Read), Clean | HeldClean) => PageStep::Map(Access::Read),
        (Aim::Touch(Access::Write), Clean | HeldClean) => PageStep::Open,
        // A flush that failed left it protected, or it is not mapped.
        (Aim::Touch(_), Dirty | HeldDirty | HeldClosed) => PageStep::Map(Access::Write),
        (Aim::Flush | Aim::Evict, Dirty | HeldDirty) => PageStep::Close,
        (Aim::Flush | Aim::Evict, HeldClosed) => PageStep::Send,
        (Aim::Evict, Clean | HeldClean) => PageStep::Drop,
        (Aim::Flush, Clean | HeldClean) | (Aim::Flush | Aim::Evict, Absent | HeldAbsent) => PageStep::Release,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AIMS: [Aim; 4] = [Aim::Touch(Access::Read), Aim::Touch(Access::Write), Aim::Flush, Aim::Evict];

    #[test]
    fn the_tables_are_those_in_the_text_and_say_one_thing() {
        assert_eq!(table::print(TABLE), include_str!("table.txt"));
        assert_eq!(table::contradiction(TABLE), None);
        let held = || State::ALL.into_iter().filter(|state| state.is_held());
        let line = |aim, state| format!("{:<14} {:<14} {:?}\n", format!("{aim:?}"), format!("{state:?}"), next_step(aim, state));
        let text: String = AIMS.into_iter().flat_map(|aim| held().map(move |state| line(aim, state))).collect();
        assert_eq!(text, include_str!("steps.txt"));
    }

    #[test]
    fn each_step_leads_on_by_its_event_until_none_is_left() {
        for (aim, first) in AIMS.into_iter().flat_map(|aim| State::ALL.map(|state| (aim, state))) {
            let mut state = first.after(Event::Hold).unwrap_or(first);
            let mut steps = 0;
            while let Some(event) = next_step(aim, state).event() {
                state = state.after(event).unwrap_or_else(|| panic!("{event:?} in {state:?}, with {aim:?}"));
                steps += 1;
                assert!(steps < 4, "{aim:?} from {first:?} does not end");
            }
            assert!(state.after(Event::Release).is_some_and(|state| !state.is_held()));
        }
    }

    #[test]
    fn states_have_their_numbers_and_a_page_is_held_before_it_changes() {
        for (number, state) in State::ALL.into_iter().enumerate() {
            assert_eq!(state as usize, number);
            assert_eq!(state.is_held(), state.after(Event::Release).is_some());
            assert_eq!(!state.is_held(), state.after(Event::Hold).is_some());
            let kept = state.after(Event::Hold).or(state.after(Event::Release)).expect("held or not");
            assert_eq!((kept.is_here(), kept.is_dirty()), (state.is_here(), state.is_dirty()));
        }
    }
}
