//! Locks that are leased to one program: the word of each, and when a lease is worth asking for.
//!
//! A word that its home may still ask for is put aside until no home does.

use super::Leases;
use crate::words::Exchange;
use hanare_protocol::limits::{FAR_RECALL_MS, LEASE_COUNT, LEASE_NAME_COUNT_MAX, LEASE_TAKING_COUNT, LEASE_TAKING_COUNT_MAX};
use hanare_protocol::lock::Mode;
use hanare_protocol::lock::lease::{LeaseEvent, LeasePhase};
use hanare_protocol::wire::sync::LeaseWish;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Time that a home may ask for a lock whose lease it believes in.
const ASKED_NS: u64 = FAR_RECALL_MS * 1_000_000;

/// A lock as its home granted it to the program.
pub trait Taking {
    /// True if the calling thread has it.
    fn is_mine(&self) -> bool;
    /// The connection that it came on.
    fn connection(&self) -> u128;
}

/// The word of a lock that is leased to the program.
#[derive(Clone, Copy, Debug)]
pub struct LeasedLock {
    slot: usize,
    /// The number of the taking that it was leased by.
    number: u64,
    /// True if data are bound to the lock.
    pub has_data: bool,
}

/// A lock that is leased to the program, as it was taken.
#[derive(Debug)]
pub struct Lease<T> {
    /// Its word.
    pub leased: LeasedLock,
    /// Its taking.
    pub taking: Arc<T>,
}

impl<T> Clone for Lease<T> {
    fn clone(&self) -> Lease<T> {
        Lease { leased: self.leased, taking: self.taking.clone() }
    }
}

/// Result of a request for a lock.
#[derive(Debug)]
pub struct GrantOf<'a, T> {
    /// The connection that the answer came on.
    pub connection: u128,
    /// The taking, where the lock is leased.
    pub leased: Option<&'a Arc<T>>,
    /// True if data are bound to it.
    pub has_data: bool,
}

/// Result of a try without a message.
#[derive(Debug)]
pub enum Again<T> {
    /// The program has the lock. The caller says which thread.
    Taken(Lease<T>),
    /// The thread had it before.
    Mine,
    /// The home is to be asked.
    Ask,
    /// The lease is over, and its word stands as if a thread had the lock. A message has to give it back.
    Return(Lease<T>),
}

/// A request's wish for a lease, and the use of the words when it is answered.
#[derive(Debug)]
pub struct Wish {
    /// The wish, as the home gets it.
    pub wire: LeaseWish,
    /// The word for the lease that is asked for.
    slot: Option<usize>,
    number: u64,
}

impl Wish {
    /// A request by that number wants no lease.
    pub fn none(number: u64) -> Wish {
        Wish { wire: LeaseWish::default(), slot: None, number }
    }
}

/// Record of a lock's name.
#[derive(Debug)]
struct Known<T> {
    lease: Option<Lease<T>>,
    /// Takings by message since the last recall, and from how many on a lease is asked for.
    takings: u32,
    needed: u32,
}

impl<T> Default for Known<T> {
    fn default() -> Known<T> {
        Known { lease: None, takings: 0, needed: LEASE_TAKING_COUNT }
    }
}

impl<T> Known<T> {
    /// The lock was wanted elsewhere: a lease is asked for later than the last time.
    fn on_recalled(&mut self) {
        self.takings = 0;
        self.needed = self.needed.saturating_mul(2).min(LEASE_TAKING_COUNT_MAX);
    }
}

/// The locks that are leased to a program. Times are those of the words.
///
/// - A word is free, or of one lease or request, or put aside.
#[derive(Debug)]
pub struct LeaseTable<T> {
    names: BTreeMap<String, Known<T>>,
    free: Vec<usize>,
    /// Number of words that were ever used.
    used: usize,
    /// Words put aside, with their numbers, and since when.
    aside: VecDeque<(usize, u64, u64)>,
}

impl<T> Default for LeaseTable<T> {
    fn default() -> LeaseTable<T> {
        LeaseTable { names: BTreeMap::new(), free: Vec::new(), used: 0, aside: VecDeque::new() }
    }
}

impl<T: Taking> LeaseTable<T> {
    /// Takes a lock alone that is kept; looks whether this thread has it already. The clock is looked at when the word is taken.
    ///
    /// **Cost**: a search and an exchange; no system call.
    pub fn take<W: Exchange>(&self, words: &Leases<W>, name: &str, mode: Mode, now_ns: impl FnOnce() -> u64) -> Again<T> {
        let Some(lease) = self.names.get(name).and_then(|known| known.lease.as_ref()) else { return Again::Ask };
        let leased = lease.leased;
        match words.phase(leased.slot, leased.number) {
            LeasePhase::Held | LeasePhase::Wanted if lease.taking.is_mine() => return Again::Mine,
            // Others may share it with this program: the home has to know.
            LeasePhase::Kept if mode == Mode::Exclusive => {}
            _ => return Again::Ask,
        }
        // The home goes on without an answer long after leases are over: a thread that had the lock in time counts as dead.
        match words.step(leased.slot, leased.number, LeaseEvent::Take) {
            Ok(_) if words.holds(now_ns()) => Again::Taken(lease.clone()),
            Ok(_) if words.step(leased.slot, leased.number, LeaseEvent::Keep).is_ok() => Again::Ask,
            Ok(_) => Again::Return(lease.clone()),
            Err(_) => Again::Ask,
        }
    }

    /// The locks that are leased.
    pub fn takings(&self) -> impl Iterator<Item = &Arc<T>> {
        self.names.values().filter_map(|known| known.lease.as_ref()).map(|lease| &lease.taking)
    }

    /// The wish for a lease in a request by that number.
    pub fn wish<W: Exchange>(&mut self, words: &Leases<W>, name: &str, (mode, number): (Mode, u64), now_ns: u64) -> Wish {
        let mut wish = Wish::none(number);
        if self.names.len() >= LEASE_NAME_COUNT_MAX && !self.names.contains_key(name) {
            self.names.retain(|_, known| known.lease.is_some());
        }
        let known = self.names.entry(name.to_owned()).or_default();
        known.takings = known.takings.saturating_add(1);
        // The words of another life of the node know nothing of it.
        let forgotten = known.lease.take_if(|lease| words.phase(lease.leased.slot, lease.leased.number) == LeasePhase::Empty);
        if let Some(leased) = known.lease.as_ref().map(|lease| lease.leased) {
            // The lock is to be shared, or the lease is over.
            if words.phase(leased.slot, leased.number) == LeasePhase::Kept {
                let _ = words.step(leased.slot, leased.number, LeaseEvent::Recall);
            }
            if words.phase(leased.slot, leased.number) == LeasePhase::Gone {
                wish.wire.returns = Some(leased.number);
            }
            return wish;
        }
        let wants = mode == Mode::Exclusive && known.takings >= known.needed;
        self.free.extend(forgotten.map(|lease| lease.leased.slot));
        if wants {
            wish.slot = self.free_slot(words, now_ns).filter(|slot| words.ask(*slot, number));
            wish.wire.keeps = wish.slot.is_some();
        }
        wish
    }

    /// A lease that is to be given back by a message, because there is a word for no other. Its word stands as if a thread had the lock.
    pub fn spare<W: Exchange>(&mut self, words: &Leases<W>, name: &str, now_ns: u64) -> Option<Lease<T>> {
        let wants = |known: &Known<T>| known.lease.is_none() && known.takings.saturating_add(1) >= known.needed;
        if !self.names.get(name).is_some_and(wants) || self.free_slot(words, now_ns).map(|slot| self.free.push(slot)).is_some() {
            return None;
        }
        let mut leases = self.names.values().filter_map(|known| known.lease.as_ref());
        leases.find(|lease| words.step(lease.leased.slot, lease.leased.number, LeaseEvent::Take).is_ok()).cloned()
    }

    /// A request was answered: the lock was granted, `leased` or not, or others have it. Returns the lease.
    pub fn answered<W: Exchange>(
        &mut self,
        words: &Leases<W>,
        (name, wish): (&str, Wish),
        grant: GrantOf<'_, T>,
        now_ns: u64,
    ) -> Option<LeasedLock> {
        let GrantOf { connection, leased, has_data } = grant;
        let over = wish.wire.returns.and_then(|number| {
            let known = self.names.get_mut(name)?;
            let lease = known.lease.take_if(|lease| lease.leased.number == number)?;
            known.on_recalled();
            Some(lease)
        });
        if let Some(over) = over {
            self.end(words, over.leased, over.taking.connection() == connection, now_ns);
        }
        let own = LeasedLock { slot: wish.slot?, number: wish.number, has_data };
        let taking = leased.filter(|_| words.step(own.slot, own.number, LeaseEvent::Lend).is_ok());
        let Some(taking) = taking.cloned() else {
            self.end(words, own, leased.is_none(), now_ns);
            return None;
        };
        self.names.entry(name.to_owned()).or_default().lease = Some(Lease { leased: own, taking });
        Some(own)
    }

    /// A request was refused, or nobody knows what became of it.
    pub fn failed<W: Exchange>(&mut self, words: &Leases<W>, wish: &Wish, now_ns: u64) {
        if let Some(slot) = wish.slot {
            self.end(words, LeasedLock { slot, number: wish.number, has_data: false }, false, now_ns);
        }
    }

    /// A lock that was leased went back by a message, and the home `knows`; or nobody can say.
    pub fn ended<W: Exchange>(&mut self, words: &Leases<W>, (name, leased): (&str, LeasedLock), knows: bool, now_ns: u64) {
        if let Some(known) = self.names.get_mut(name)
            && known.lease.take_if(|lease| lease.leased.number == leased.number).is_some()
            && words.phase(leased.slot, leased.number) == LeasePhase::Wanted
        {
            known.on_recalled();
        }
        self.end(words, leased, knows, now_ns);
    }

    /// A word that is of no lock.
    fn free_slot<W: Exchange>(&mut self, words: &Leases<W>, now_ns: u64) -> Option<usize> {
        while self.aside.front().is_some_and(|(.., since_ns)| now_ns.saturating_sub(*since_ns) > ASKED_NS)
            && let Some((slot, number, _)) = self.aside.pop_front()
        {
            let _ = words.step(slot, number, LeaseEvent::End);
            self.free.push(slot);
        }
        self.free.pop().or_else(|| {
            let fresh = Some(self.used).filter(|used| *used < LEASE_COUNT);
            self.used += usize::from(fresh.is_some());
            fresh
        })
    }

    /// A word is of no use any more.
    fn end<W: Exchange>(&mut self, words: &Leases<W>, leased: LeasedLock, home_knows: bool, now_ns: u64) {
        match home_knows && words.step(leased.slot, leased.number, LeaseEvent::End).is_ok() {
            true => self.free.push(leased.slot),
            false => self.aside.push_back((leased.slot, leased.number, now_ns)),
        }
    }
}

impl<W: Exchange> Leases<W> {
    /// Program: keeps a leased lock that was taken: it is given back, and no message says so. **Cost**: an exchange.
    pub fn keep(&self, leased: LeasedLock, now_ns: u64) -> bool {
        self.holds(now_ns) && self.step(leased.slot, leased.number, LeaseEvent::Keep).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::WORD_LEN;
    use crate::lease::LEASES_LEN;
    use crate::testing::Steps;
    use hanare_protocol::lock::Recalled;

    /// The connection of a taking; no thread has the lock.
    impl Taking for u128 {
        fn is_mine(&self) -> bool {
            false
        }

        fn connection(&self) -> u128 {
            *self
        }
    }

    fn begun() -> (LeaseTable<u128>, Leases<Steps>) {
        let words = Leases::new(Steps::new(LEASES_LEN + WORD_LEN), 1);
        words.hold_until(u64::MAX);
        (LeaseTable::default(), words)
    }

    fn is_wanted(table: &mut LeaseTable<u128>, words: &Leases<Steps>, number: u64) -> Wish {
        table.wish(words, "a", (Mode::Exclusive, number), 0)
    }

    /// A lease of lock `a` over a connection, by the second taking.
    fn leased(table: &mut LeaseTable<u128>, words: &Leases<Steps>, connection: u128) -> LeasedLock {
        assert!(!is_wanted(table, words, 0).wire.keeps, "the first taking asks for none");
        let wish = is_wanted(table, words, 1);
        assert!(wish.wire.keeps);
        let taking = Arc::new(connection);
        let grant = GrantOf { connection, leased: Some(&taking), has_data: false };
        table.answered(words, ("a", wish), grant, 0).unwrap()
    }

    #[test]
    fn a_leased_lock_is_taken_again_until_it_is_recalled_and_then_it_is_asked_for_later() {
        let (mut table, words) = begun();
        let lock = leased(&mut table, &words, 7);
        assert!(words.keep(lock, 0));
        assert!(matches!(table.take(&words, "a", Mode::Shared, || 0), Again::Ask));
        assert!(matches!(table.take(&words, "a", Mode::Exclusive, || 0), Again::Taken(_)));
        assert!(words.keep(lock, 0));
        assert_eq!(words.recall(1), Recalled::Kept);
        assert!(matches!(table.take(&words, "a", Mode::Exclusive, || 0), Again::Ask));
        let wish = is_wanted(&mut table, &words, 2);
        assert_eq!((wish.wire.returns, wish.wire.keeps), (Some(1), false));
        assert!(table.answered(&words, ("a", wish), GrantOf { connection: 7, leased: None, has_data: false }, 0).is_none());
        let asks: Vec<bool> = (3..8).map(|number| is_wanted(&mut table, &words, number).wire.keeps).collect();
        assert_eq!(asks, [false, false, false, true, true]);
    }

    #[test]
    fn a_lease_that_is_over_when_the_clock_is_looked_at_is_kept_again_or_given_back() {
        let (mut table, words) = begun();
        let lock = leased(&mut table, &words, 7);
        assert!(words.keep(lock, 0));
        words.hold_until(5);
        assert!(matches!(table.take(&words, "a", Mode::Exclusive, || 5), Again::Ask));
        let recalled = || {
            words.recall(1);
            5
        };
        assert!(matches!(table.take(&words, "a", Mode::Exclusive, recalled), Again::Return(_)));
    }

    #[test]
    fn a_word_that_its_home_may_ask_for_is_put_aside_until_no_home_does() {
        let (mut table, words) = begun();
        let lock = leased(&mut table, &words, 7);
        table.ended(&words, ("a", lock), false, 0);
        assert_eq!(words.recall(1), Recalled::Held, "it is answered for");
        assert_eq!(table.free_slot(&words, ASKED_NS), Some(1));
        assert_eq!(table.free_slot(&words, ASKED_NS + 1), Some(0));
        assert_eq!(words.recall(1), Recalled::Unknown);
    }
}
