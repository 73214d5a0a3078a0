//! Policy of pages: the order in which a program's pages leave, and the touches that bring a whole block. No I/O, no clock.
//!
//! ```text
//!              while there is room
//! probation ---------------------------> main
//!     ^  |                               ^  |
//!     |  | beyond a quarter              |  | probation is small, or as every 16th page
//!     |  v                               |  v
//!   comes late <------- absent -------> comes soon
//! ```
//!
//! The kernel tells of touches of absent pages alone. So a page shows its worth by coming back soon: before three quarters of what may
//! be here have left. Pages of a stream come back soon in a loop, too. Only every fourth group of them goes to main, so that a loop over
//! too much memory keeps one part of it here.
//!
//! Touches in no order that gather in few blocks bring whole blocks: so few that they fit here together.
//!
//! SOURCE: [2Q, Johnson and Shasha, VLDB 1994] for the two queues and the remembered departures; shares are from traces of accesses
//! (docs/main_memory.md).

use super::block::{Number, PAGES, runs};
use std::collections::{HashMap, VecDeque};

/// Divisor: the part of the pages that is on probation.
const PROBATION: u64 = 4;

/// Pages on probation that leave for one of main, so that none stays for ever.
const AGING: u64 = 16;

/// Groups of a stream that come back soon, for one that goes to main.
const STREAMS: u64 = 4;

/// A block's touches outside of streams, beyond its share, that bring all of it.
const LONE_WHOLE: u64 = 4;

/// Pages of one block that came together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cohort {
    /// The block.
    pub number: Number,
    /// Its pages.
    pub pages: u64,
}

/// Pages in the order in which they came.
#[derive(Default)]
struct Queue {
    turns: VecDeque<Cohort>,
    pages: u64,
}

/// A block: each of its pages is in one queue at most.
#[derive(Default)]
struct Marks {
    probation: u64,
    main: u64,
    /// Touches outside of streams, each so many units as blocks may be here. Two units go with each such touch of any block.
    heat: u64,
    /// Count of such touches at the last of this block.
    heat_at: u64,
    /// For each page, how many had left when it did; 0 where it never did.
    left_at: Option<Box<[u32; PAGES as usize]>>,
}

/// The order of one program's pages.
#[derive(Default)]
pub struct Policy {
    marks: HashMap<Number, Marks>,
    probation: Queue,
    main: Queue,
    /// Pages that left. It may wrap: then a page seems to have left of late.
    left: u32,
    /// Touches outside of streams.
    lone: u64,
    /// Groups of a stream that came back soon.
    streams: u64,
    /// Pages on probation that took their turn since one of main did.
    passed: u64,
}

/// Pages that came.
pub struct Arrival {
    /// The block.
    pub number: Number,
    /// Its pages.
    pub pages: u64,
    /// True if they are part of a stream.
    pub is_stream: bool,
}

impl Queue {
    fn push(&mut self, turn: Cohort) {
        if turn.pages != 0 {
            self.pages += u64::from(turn.pages.count_ones());
            self.turns.push_back(turn);
        }
    }

    fn pop(&mut self) -> Option<Cohort> {
        let turn = self.turns.pop_front()?;
        self.pages -= u64::from(turn.pages.count_ones());
        Some(turn)
    }
}

impl Policy {
    /// Takes note of pages that came; `capacity` pages of the program may be here.
    pub fn on_brought(&mut self, arrival: &Arrival, capacity: u64) {
        let Arrival { number, pages, is_stream } = *arrival;
        let marks = self.marks.entry(number).or_default();
        // Pages that were made zero and came again keep their old turn.
        let fresh = pages & !marks.probation & !marks.main;
        let window = capacity - capacity / 4;
        let is_soon = |page: &u32, left_at: &[u32; PAGES as usize]| {
            let at = left_at[*page as usize];
            at != 0 && u64::from(self.left.wrapping_sub(at)) < window
        };
        let mut soon = marks.left_at.as_ref().map_or(0, |left_at| {
            runs(fresh).flatten().filter(|page| is_soon(page, left_at)).fold(0, |all, page| all | 1 << page)
        });
        if is_stream && soon != 0 {
            self.streams += 1;
            soon = if self.streams.is_multiple_of(STREAMS) { soon } else { 0 };
        }
        marks.main |= soon;
        marks.probation |= fresh & !soon;
        self.main.push(Cohort { number, pages: soon });
        self.probation.push(Cohort { number, pages: fresh & !soon });
        self.fill_main(capacity);
    }

    /// While there is room, main takes what is first on probation.
    fn fill_main(&mut self, capacity: u64) {
        let probation = capacity / PROBATION;
        while self.probation.pages > probation && self.main.pages < capacity - probation {
            let Some(turn) = self.probation.pop() else { return };
            let marks = self.marks.entry(turn.number).or_default();
            marks.probation &= !turn.pages;
            marks.main |= turn.pages;
            self.main.push(turn);
        }
    }

    /// Takes note of a touch outside of streams, and says whether all of its block is to come.
    pub fn on_lone(&mut self, number: Number, capacity: u64) -> bool {
        self.lone += 1;
        let blocks = (capacity / u64::from(PAGES)).max(1);
        let marks = self.marks.entry(number).or_default();
        marks.heat = marks.heat.saturating_sub(2 * (self.lone - marks.heat_at)) + blocks;
        marks.heat_at = self.lone;
        let is_hot = marks.heat >= LONE_WHOLE * blocks;
        if is_hot {
            marks.heat = 0;
        }
        is_hot
    }

    /// Takes out the pages whose turn it is. Some may not be here any more.
    pub fn next(&mut self) -> Option<Cohort> {
        let all = self.probation.pages + self.main.pages;
        let oldest = self.main.turns.front().map_or(0, |turn| u64::from(turn.pages.count_ones()));
        let is_aged = oldest > 0 && self.passed >= AGING * oldest;
        if oldest > 0 && (is_aged || self.probation.pages <= all / PROBATION) {
            self.passed = 0;
            let turn = self.main.pop()?;
            self.marks.entry(turn.number).or_default().main &= !turn.pages;
            return Some(turn);
        }
        let turn = self.probation.pop()?;
        self.passed += u64::from(turn.pages.count_ones());
        self.marks.entry(turn.number).or_default().probation &= !turn.pages;
        Some(turn)
    }

    /// Gives a turn back that could not be taken: another comes when all others had theirs.
    pub fn put_back(&mut self, turn: Cohort) {
        let marks = self.marks.entry(turn.number).or_default();
        let pages = turn.pages & !marks.main & !marks.probation;
        marks.main |= pages;
        self.main.push(Cohort { pages, ..turn });
    }

    /// Number of turns.
    pub fn turns(&self) -> usize {
        self.probation.turns.len() + self.main.turns.len()
    }

    /// Takes note that pages left.
    pub fn on_left(&mut self, turn: Cohort) {
        let marks = self.marks.entry(turn.number).or_default();
        let left_at = marks.left_at.get_or_insert_with(|| Box::new([0; PAGES as usize]));
        for page in runs(turn.pages).flatten() {
            self.left = self.left.wrapping_add(1).max(1);
            left_at[page as usize] = self.left;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// A program of which so many pages may be here.
    struct Program {
        policy: Policy,
        here: HashSet<u64>,
        limit: usize,
        /// Pages that came; touches that were outside of streams; whole blocks that came.
        fetched: usize,
        lone: usize,
        whole: usize,
    }

    impl Program {
        fn new(limit: usize) -> Program {
            Program { policy: Policy::default(), here: HashSet::new(), limit, fetched: 0, lone: 0, whole: 0 }
        }

        fn bring(&mut self, number: Number, pages: u64, is_stream: bool) {
            let block = number * u64::from(PAGES);
            let new = runs(pages).flatten().filter(|page| self.here.insert(block + u64::from(*page)));
            let pages = new.fold(0u64, |all, page| all | 1 << page);
            self.fetched += pages.count_ones() as usize;
            self.policy.on_brought(&Arrival { number, pages, is_stream }, self.limit as u64);
            while self.here.len() > self.limit {
                let turn = self.policy.next().expect("what is here has a turn");
                let block = turn.number * u64::from(PAGES);
                let gone = runs(turn.pages).flatten().filter(|page| self.here.remove(&(block + u64::from(*page))));
                let pages = gone.fold(0u64, |all, page| all | 1 << page);
                self.policy.on_left(Cohort { pages, ..turn });
            }
        }

        /// All pages of a block, one after the other.
        fn sweep(&mut self, number: Number) {
            self.bring(number, u64::MAX, true);
        }

        /// A page, in no order.
        fn touch(&mut self, page: u64) {
            let (number, bit) = (page / u64::from(PAGES), page % u64::from(PAGES));
            if !self.here.contains(&page) {
                self.lone += 1;
                let is_whole = self.policy.on_lone(number, self.limit as u64);
                self.whole += usize::from(is_whole);
                self.bring(number, if is_whole { u64::MAX } else { 1 << bit }, false);
            }
        }
    }

    /// Numbers in no order.
    fn random(seed: &mut u64) -> u64 {
        *seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        *seed >> 33
    }

    #[test]
    fn a_loop_over_more_than_fits_keeps_a_part_of_it() {
        let mut program = Program::new(64 * 64);
        let rounds = 20;
        for _ in 0..rounds {
            (0..96).for_each(|number| program.sweep(number));
        }
        let all = rounds * 96 * 64;
        assert!(program.fetched < all * 3 / 4, "first in, first out would bring {all} pages, not {}", program.fetched);
    }

    #[test]
    fn pages_that_come_back_soon_outlive_a_stream() {
        let (mut program, mut seed) = (Program::new(64 * 64), 1);
        (0..256).for_each(|number| program.sweep(number));
        // A single page of each of 128 blocks is hot: blocks are no measure.
        let mut hot = |program: &mut Program, touches: usize| {
            let before = program.lone;
            (0..touches).for_each(|_| program.touch(random(&mut seed) % 128 * 64));
            program.lone - before
        };
        for number in 0..64 {
            hot(&mut program, 64);
            program.sweep(128 + number);
        }
        let before = program.lone;
        let mut late = 0;
        for number in 0..64 {
            late += hot(&mut program, 64);
            program.sweep(192 + number);
        }
        assert_eq!(late, program.lone - before);
        assert!(late < 64, "hot pages left {late} times");
    }

    #[test]
    fn what_was_of_use_once_goes() {
        let mut program = Program::new(64 * 64);
        (0..64).for_each(|number| program.sweep(number));
        for round in 1..400 {
            (0..4).for_each(|number| program.sweep(round * 4 + 64 + number));
        }
        assert!(!program.here.iter().any(|page| *page < 64 * 64), "the first pages are of no use any more");
    }

    #[test]
    fn touches_of_few_blocks_bring_whole_ones_and_those_of_many_do_not() {
        let whole = |blocks: u64| {
            let (mut program, mut seed) = (Program::new(64 * 64), 1);
            (0..256).for_each(|number| program.sweep(number));
            (0..8000).for_each(|_| program.touch(random(&mut seed) % (blocks * 64)));
            (program.whole, program.lone)
        };
        let (few, lone) = whole(16);
        assert!((16..=32).contains(&few) && lone < 200, "{few} of 16 blocks came by {lone} touches");
        let (many, lone) = whole(256);
        assert!(many < 16 && lone > 4000, "{many} of 256 blocks came by {lone} touches");
    }

    #[test]
    fn a_page_has_one_turn_however_often_it_comes() {
        let mut policy = Policy::default();
        for _ in 0..100 {
            policy.on_brought(&Arrival { number: 1, pages: 0b11, is_stream: false }, 4096);
        }
        assert_eq!((policy.turns(), policy.next()), (1, Some(Cohort { number: 1, pages: 0b11 })));
        assert_eq!(policy.next(), None);
        policy.put_back(Cohort { number: 1, pages: 0b10 });
        policy.on_brought(&Arrival { number: 1, pages: 0b11, is_stream: false }, 4096);
        let turns = [policy.next(), policy.next()];
        assert_eq!(turns.iter().flatten().fold(0, |all, turn| all ^ turn.pages), 0b11);
        assert_eq!(policy.next(), None);
    }
}
