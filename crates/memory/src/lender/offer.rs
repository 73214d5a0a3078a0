//! The bytes that a lender offers: less where its host runs short of memory, and more when memory has been free again for a while.
//!
//! The driver looks from time to time, and tells what it saw ([`Offer::on_look`]).
//!
//! | the host | the lender |
//! |---|---|
//! | has less free than it is to keep, or its programs wait for memory while little is free | has no slab that no extent has ([`Terms::has_spare`]) |
//! | could not give all that is lent | offers what is there, but no less than is used |
//! | lacks half of what it is to keep, or has lacked something for [`MOVE_AFTER_MS`] | offers less than is used, so that extents leave |
//! | could give more for [`GROW_AFTER_MS`] | offers the least that could be given in that time |
//!
//! Offers are multiples of a step. One that grows leaves a step free besides, so that small changes on the host move nothing.

use hanare_protocol::size::Size;
use std::fmt;

/// Time for which a host lacks memory before extents leave: a compiler's peak is over by then.
pub(super) const MOVE_AFTER_MS: u64 = 2_000;

/// Time for which memory is free before it is lent again.
pub(super) const GROW_AFTER_MS: u64 = 10_000;

/// Programs that wait for memory count where less is free than four times the bytes to keep. Else their own control group holds them up.
const NEAR_COUNT: u64 = 4;

/// Steps of all that is lent at most.
const STEP_COUNT: u64 = 64;

/// The smallest step.
const STEP_LEN_MIN: u64 = 1 << 20;

/// A look at the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Look {
    pub now_ms: u64,
    /// Bytes that the lender has taken from the machine.
    pub populated: u64,
    /// Bytes in extents.
    pub used: u64,
    /// Bytes that are free beyond those that the host is to keep; below zero where it lacks some. `None` where the system does not say.
    pub room: Option<i128>,
    /// Bytes that the host is to keep free.
    pub keeps: u64,
    /// True if programs of the host wait for memory.
    pub is_stalled: bool,
}

/// Terms of the lender until the next look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Terms {
    /// Bytes that it offers.
    pub bytes: u64,
    /// True if it may have slabs that no extent has.
    pub has_spare: bool,
}

/// More could be lent.
#[derive(Clone, Copy, Debug)]
struct Rise {
    since_ms: u64,
    /// The least that could be lent since then.
    least: u64,
}

/// A limit for which less is lent than was to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostShortage {
    /// The limit: the machine, or a control group by its folder.
    pub limit: String,
    /// Bytes that are free within it.
    pub left: u64,
    /// Bytes that are to stay free.
    pub keeps: u64,
}

impl fmt::Display for HostShortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} has {} free, and is to keep {}", self.limit, Size(self.left), Size(self.keeps))
    }
}

impl HostShortage {
    /// Bytes that are free beyond those that are kept; below zero where some are missing.
    pub(super) fn room(&self) -> i128 {
        i128::from(self.left) - i128::from(self.keeps)
    }
}

/// The rules' state.
#[derive(Debug)]
pub(super) struct Offer {
    /// Bytes to lend where there is memory enough.
    most: u64,
    bytes: u64,
    short_since_ms: Option<u64>,
    rise: Option<Rise>,
    /// When the host was short, or its programs waited, the last time.
    pressed_ms: Option<u64>,
}

impl Offer {
    pub fn new(most: u64) -> Offer {
        Offer { most, bytes: most, short_since_ms: None, rise: None, pressed_ms: None }
    }

    /// Takes in a look.
    pub fn on_look(&mut self, look: &Look) -> Terms {
        let room = look.room.unwrap_or(i128::from(u64::MAX));
        let could_lend = i128::from(look.populated).saturating_add(room);
        let is_short = room < 0;
        let is_stalled = look.is_stalled && room < i128::from(look.keeps.saturating_mul(NEAR_COUNT));
        self.short_since_ms = is_short.then(|| self.short_since_ms.unwrap_or(look.now_ms));
        if is_short || is_stalled {
            self.pressed_ms = Some(look.now_ms);
        }
        let fits = self.in_steps(could_lend, 0);
        let more = self.in_steps(could_lend, self.step());
        if fits < self.bytes {
            let least = if self.must_move(look, room) { 0 } else { look.used };
            self.bytes = fits.max(least).min(self.bytes);
            self.rise = None;
        } else if more > self.bytes && !is_stalled && !is_short {
            self.rise(look.now_ms, more);
        } else {
            self.rise = None;
        }
        let is_calm = self.pressed_ms.is_none_or(|at_ms| look.now_ms.saturating_sub(at_ms) >= GROW_AFTER_MS);
        Terms { bytes: self.bytes, has_spare: is_calm && self.bytes == self.most }
    }

    /// True if extents are to leave.
    fn must_move(&self, look: &Look, room: i128) -> bool {
        let is_severe = room < -i128::from(look.keeps / 2);
        let is_old = |since_ms: u64| look.now_ms.saturating_sub(since_ms) >= MOVE_AFTER_MS;
        is_severe || self.short_since_ms.is_some_and(is_old)
    }

    fn rise(&mut self, now_ms: u64, more: u64) {
        let rise = self.rise.get_or_insert(Rise { since_ms: now_ms, least: more });
        rise.least = rise.least.min(more);
        if now_ms.saturating_sub(rise.since_ms) >= GROW_AFTER_MS {
            self.bytes = rise.least;
            self.rise = None;
        }
    }

    fn step(&self) -> u64 {
        (self.most / STEP_COUNT).max(STEP_LEN_MIN)
    }

    /// The offer where `could_lend` bytes could be lent, and some of them stay free. It is all that is to be lent, or whole steps.
    fn in_steps(&self, could_lend: i128, stays_free: u64) -> u64 {
        let bytes = could_lend.saturating_sub(stays_free.into()).clamp(0, self.most.into()) as u64;
        if bytes == self.most { bytes } else { bytes / self.step() * self.step() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MIB: u64 = 1 << 20;
    const MOST: u64 = 256 * MIB;
    const KEEPS: u64 = 64 * MIB;

    /// A machine: what its programs use, and a lender that does what it is told.
    struct Machine {
        total: u64,
        others: u64,
        used: u64,
        spare: u64,
        now_ms: u64,
        is_stalled: bool,
        offer: Offer,
    }

    impl Machine {
        fn new(total: u64) -> Machine {
            Machine { total, others: 0, used: 0, spare: 0, now_ms: 0, is_stalled: false, offer: Offer::new(MOST) }
        }

        /// Looks once, and gives back what is not to be kept.
        fn look(&mut self) -> Terms {
            let populated = self.used + self.spare;
            let free = i128::from(self.total) - i128::from(self.others) - i128::from(populated);
            let room = Some(free - i128::from(KEEPS));
            let (now_ms, used, is_stalled) = (self.now_ms, self.used, self.is_stalled);
            let terms = self.offer.on_look(&Look { now_ms, populated, used, room, keeps: KEEPS, is_stalled });
            let spare = if terms.has_spare { self.spare } else { 0 };
            self.spare = spare.min(terms.bytes.saturating_sub(self.used));
            terms
        }

        /// Looks for so long.
        fn pass(&mut self, ms: u64) -> Terms {
            let until_ms = self.now_ms + ms;
            while self.now_ms < until_ms {
                self.now_ms += 200;
                self.look();
            }
            self.look()
        }
    }

    fn whole() -> Terms {
        Terms { bytes: MOST, has_spare: true }
    }

    #[test]
    fn a_host_with_memory_enough_lends_all_of_it() {
        let mut machine = Machine { used: 100 * MIB, spare: 156 * MIB, ..Machine::new(1024 * MIB) };
        assert_eq!(machine.look(), whole());
        machine.others = 1024 * MIB - KEEPS - MOST;
        assert_eq!(machine.pass(60_000), whole(), "to the last byte");
    }

    #[test]
    fn free_slabs_go_first_and_that_may_be_enough() {
        let mut machine = Machine { used: 100 * MIB, spare: 100 * MIB, ..Machine::new(400 * MIB) };
        machine.others = 150 * MIB;
        let terms = machine.pass(30_000);
        assert_eq!((terms, machine.spare), (Terms { bytes: 184 * MIB, has_spare: false }, 0), "of 186 MiB that could be lent");
    }

    #[test]
    fn extents_leave_where_free_slabs_are_not_enough() {
        let mut machine = Machine { used: 100 * MIB, spare: 100 * MIB, ..Machine::new(400 * MIB) };
        machine.others = 256 * MIB;
        assert_eq!(machine.look(), Terms { bytes: 80 * MIB, has_spare: false }, "far below what the host is to keep");
        // The same, where little is missing: the first looks wait.
        let mut machine = Machine { used: 100 * MIB, spare: 0, others: 256 * MIB, ..Machine::new(400 * MIB) };
        assert_eq!(machine.look().bytes, 100 * MIB);
        assert_eq!(machine.pass(MOVE_AFTER_MS - 200).bytes, 100 * MIB);
        assert_eq!(machine.pass(200).bytes, 80 * MIB);
        machine.used = 80 * MIB;
        assert_eq!(machine.pass(60_000).bytes, 80 * MIB, "and no more leave");
        // A neighbour alone takes more than there is.
        machine.others = 500 * MIB;
        assert_eq!(machine.look().bytes, 0);
    }

    #[test]
    fn a_peak_that_is_over_soon_moves_nothing() {
        let mut machine = Machine { used: 100 * MIB, ..Machine::new(400 * MIB) };
        for _ in 0..20 {
            machine.others = 250 * MIB;
            assert_eq!(machine.pass(MOVE_AFTER_MS - 400).bytes, 100 * MIB);
            machine.others = 0;
            assert_eq!(machine.pass(200).bytes, 100 * MIB, "what is free for a moment is not lent");
        }
    }

    #[test]
    fn it_grows_back_when_memory_was_free_for_a_while() {
        let mut machine = Machine { used: 100 * MIB, spare: 20 * MIB, others: 400 * MIB, ..Machine::new(600 * MIB) };
        assert_eq!(machine.pass(5_000).bytes, 136 * MIB);
        machine.others = 300 * MIB;
        assert_eq!(machine.pass(GROW_AFTER_MS - 400).bytes, 136 * MIB);
        // The least of the time counts.
        machine.others = 350 * MIB;
        machine.pass(200);
        machine.others = 0;
        assert_eq!(machine.pass(400).bytes, 180 * MIB, "186 MiB were free, and a step of 4 MiB stays so");
        assert_eq!(machine.pass(GROW_AFTER_MS + 400), whole());
    }

    #[test]
    fn programs_that_wait_for_memory_take_the_spare_slabs_and_no_extent() {
        let mut machine = Machine { used: 100 * MIB, spare: 100 * MIB, ..Machine::new(1024 * MIB) };
        machine.is_stalled = true;
        assert_eq!(machine.look(), whole(), "a limit of their own holds them up");
        machine.others = 660 * MIB;
        assert_eq!(machine.look(), Terms { bytes: MOST, has_spare: false });
        machine.is_stalled = false;
        assert!(!machine.pass(GROW_AFTER_MS - 200).has_spare);
        assert_eq!(machine.pass(200), whole());
        // The offer does not grow meanwhile.
        machine.others = 900 * MIB;
        let less = machine.look().bytes;
        (machine.others, machine.is_stalled) = (660 * MIB, true);
        assert_eq!(machine.pass(60_000).bytes, less);
        machine.is_stalled = false;
        assert_eq!(machine.pass(GROW_AFTER_MS + 200).bytes, MOST);
    }

    #[test]
    fn odd_numbers_break_nothing() {
        let mut offer = Offer::new(u64::MAX);
        let look = Look { populated: u64::MAX, used: u64::MAX, keeps: u64::MAX, ..Look::default() };
        assert_eq!(offer.on_look(&look).bytes, u64::MAX, "a system that says nothing");
        assert_eq!(offer.on_look(&Look { room: Some(i128::MIN), ..look }).bytes, 0);
        // A clock that goes back.
        for now_ms in [5_000, 0, u64::MAX] {
            offer.on_look(&Look { now_ms, room: Some(i128::MAX), ..look });
        }
        assert_eq!(offer.bytes, u64::MAX);
        // A lender of less than a step, and of nothing.
        for most in [4096, 0] {
            let mut offer = Offer::new(most);
            assert_eq!(offer.on_look(&Look { room: Some(-1), ..Look::default() }).bytes, 0);
            assert_eq!(offer.on_look(&Look { now_ms: 20_000, room: Some(1 << 30), ..Look::default() }).bytes, 0);
            assert_eq!(offer.on_look(&Look { now_ms: 40_000, room: Some(1 << 30), ..Look::default() }).bytes, most);
        }
    }

    proptest! {
        #[test]
        fn a_machine_settles_within_its_bound_and_comes_back(others: Vec<u16>, used in 0u64..256, seed in 0u64..64) {
            let mut machine = Machine { used: used * MIB, spare: seed * MIB, ..Machine::new(600 * MIB) };
            for part in others {
                machine.others = u64::from(part % 600) * MIB;
                let terms = machine.pass(3_000);
                prop_assert!(terms.bytes <= MOST);
                // Extents leave as they are told to.
                machine.used = machine.used.min(terms.bytes);
                let free = i128::from(600 * MIB) - i128::from(machine.others) - i128::from(machine.used + machine.spare);
                prop_assert!(free >= i128::from(KEEPS) || machine.used + machine.spare == 0, "{free} {terms:?}");
                let again = machine.pass(3_000);
                prop_assert!(again.bytes >= terms.bytes, "{terms:?} {again:?}: what was enough is enough");
            }
            machine.others = 0;
            prop_assert_eq!(machine.pass(3 * GROW_AFTER_MS), whole());
        }
    }
}
