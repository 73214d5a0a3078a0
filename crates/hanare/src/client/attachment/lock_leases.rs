//! Locks that are leased to the program. It takes them again and gives them back in words that it shares with its node.
//!
//! The words are those of [`hanare_protocol::lock::lease`]. This file says which word is of which lock, and when a lease is worth asking
//! for. If the home may still use a word, the word is put aside until no home asks for it any more.

use super::granted_lock::GrantedLock;
use hanare_memory::fork::Lineage;
use hanare_protocol::limits::{FAR_RECALL_MS, LEASE_COUNT, LEASE_NAME_COUNT_MAX, LEASE_TAKING_COUNT, LEASE_TAKING_COUNT_MAX};
use hanare_protocol::lock::Mode;
use hanare_protocol::lock::lease::{LeaseEvent, LeasePhase};
use hanare_protocol::wire::sync::LeaseWish;
use hanare_ring::Shared;
use hanare_ring::lease::Leases;
use hanare_ring::thread_slots::monotonic_ns;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Time that a home may ask for a lock whose lease it believes in.
const ASKED: Duration = Duration::from_millis(FAR_RECALL_MS);

/// The word of a lock that is leased to the program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeasedLock {
    slot: usize,
    /// The number of the taking that it was leased by.
    number: u64,
    /// True if data are bound to the lock.
    pub has_data: bool,
}

/// A lock that is leased to the program, as it was taken.
#[derive(Clone)]
pub(crate) struct Lease {
    pub leased: LeasedLock,
    pub taking: Arc<GrantedLock>,
}

/// Result of a request for a lock.
#[derive(Clone, Copy)]
pub(crate) struct GrantOf<'a> {
    /// The connection that the answer came on.
    pub connection: u128,
    /// The taking, where the lock is leased.
    pub leased: Option<&'a Arc<GrantedLock>>,
    /// True if data are bound to it.
    pub has_data: bool,
}

/// Result of a try without a message.
pub(crate) enum Again {
    /// The thread has the lock.
    Taken(Lease),
    /// The thread had it before.
    Mine,
    /// The home is to be asked.
    Ask,
    /// The lease is over, and its word stands as if a thread had the lock. A message has to give it back.
    Return(Lease),
}

/// A request's wish for a lease, and the use of the words when it is answered.
pub(crate) struct Wish {
    pub wire: LeaseWish,
    /// The word for the lease that is asked for.
    slot: Option<usize>,
    number: u64,
}

/// Record of a lock's name.
struct Known {
    lease: Option<Lease>,
    /// Takings by message since the last recall, and from how many on a lease is asked for.
    takings: u32,
    needed: u32,
}

impl Default for Known {
    fn default() -> Known {
        Known { lease: None, takings: 0, needed: LEASE_TAKING_COUNT }
    }
}

impl Known {
    /// The lock was wanted elsewhere: a lease is asked for later than the last time.
    fn on_recalled(&mut self) {
        self.takings = 0;
        self.needed = self.needed.saturating_mul(2).min(LEASE_TAKING_COUNT_MAX);
    }
}

/// - A word is free, or of one lease or request, or put aside.
#[derive(Default)]
struct Table {
    names: HashMap<String, Known>,
    free: Vec<usize>,
    /// Number of words that were ever used.
    used: usize,
    /// Words put aside, and since when.
    aside: VecDeque<(usize, u64, Instant)>,
}

/// The locks that are leased to a program.
pub(crate) struct LockLeases {
    lineage: Lineage,
    table: Mutex<Table>,
}

impl Default for LockLeases {
    fn default() -> LockLeases {
        LockLeases { lineage: Lineage::here(), table: Mutex::default() }
    }
}

impl LockLeases {
    /// `None` in a child made by fork: the words are its parent's.
    fn table(&self) -> Option<MutexGuard<'_, Table>> {
        self.lineage.is_here().then(|| self.table.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes a lock alone that is kept; looks whether this thread has it already. **Cost**: a search and an exchange; no system call.
    pub fn take(&self, words: &Leases<Shared>, name: &str, mode: Mode) -> Again {
        let Some(table) = self.table() else { return Again::Ask };
        let Some(lease) = table.names.get(name).and_then(|known| known.lease.as_ref()) else { return Again::Ask };
        let (leased, taking) = (lease.leased, &lease.taking);
        match words.phase(leased.slot, leased.number) {
            LeasePhase::Held | LeasePhase::Wanted if taking.is_mine() => return Again::Mine,
            // Others may share it with this program: the home has to know.
            LeasePhase::Kept if mode == Mode::Exclusive => {}
            _ => return Again::Ask,
        }
        // The home goes on without an answer long after leases are over: a thread that had the lock in time counts as dead.
        match words.step(leased.slot, leased.number, LeaseEvent::Take) {
            Ok(_) if words.holds(monotonic_ns()) => {
                taking.set_mine(true);
                Again::Taken(lease.clone())
            }
            Ok(_) if words.step(leased.slot, leased.number, LeaseEvent::Keep).is_ok() => Again::Ask,
            Ok(_) => Again::Return(lease.clone()),
            Err(_) => Again::Ask,
        }
    }

    /// Locks that are leased and held.
    pub fn held(&self) -> Vec<String> {
        let Some(table) = self.table() else { return Vec::new() };
        let leases = table.names.values().filter_map(|known| known.lease.as_ref());
        leases.filter(|lease| lease.taking.is_held()).map(|lease| lease.taking.key.clone()).collect()
    }

    /// Keeps a leased lock that was taken: it is given back, and no message says so. **Cost**: an exchange.
    pub fn keep(&self, words: &Leases<Shared>, leased: LeasedLock) -> bool {
        self.lineage.is_here() && words.holds(monotonic_ns()) && words.step(leased.slot, leased.number, LeaseEvent::Keep).is_ok()
    }

    /// The wish for a lease in a request by that number.
    pub fn wish(&self, words: &Leases<Shared>, name: &str, mode: Mode, number: u64) -> Wish {
        let mut wish = Wish { wire: LeaseWish::default(), slot: None, number };
        let Some(mut table) = self.table() else { return wish };
        if table.names.len() >= LEASE_NAME_COUNT_MAX && !table.names.contains_key(name) {
            table.names.retain(|_, known| known.lease.is_some());
        }
        let known = table.names.entry(name.to_owned()).or_default();
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
        table.free.extend(forgotten.map(|lease| lease.leased.slot));
        if wants {
            wish.slot = table.free_slot(words).filter(|slot| words.ask(*slot, number));
            wish.wire.keeps = wish.slot.is_some();
        }
        wish
    }

    /// A lease that is to be given back by a message, because there is a word for no other. Its word stands as if a thread had the lock.
    pub fn spare(&self, words: &Leases<Shared>, name: &str) -> Option<Lease> {
        let mut table = self.table()?;
        let wants = |known: &Known| known.lease.is_none() && known.takings.saturating_add(1) >= known.needed;
        if !table.names.get(name).is_some_and(wants) || table.free_slot(words).map(|slot| table.free.push(slot)).is_some() {
            return None;
        }
        let mut leases = table.names.values().filter_map(|known| known.lease.as_ref());
        leases.find(|lease| words.step(lease.leased.slot, lease.leased.number, LeaseEvent::Take).is_ok()).cloned()
    }

    /// A request was answered: the lock was granted, `leased` or not, or others have it. Returns the lease.
    pub fn answered(&self, words: &Leases<Shared>, (name, wish): (&str, Wish), grant: GrantOf<'_>) -> Option<LeasedLock> {
        let mut table = self.table()?;
        let GrantOf { connection, leased, has_data } = grant;
        let over = wish.wire.returns.and_then(|number| {
            let known = table.names.get_mut(name)?;
            let lease = known.lease.take_if(|lease| lease.leased.number == number)?;
            known.on_recalled();
            Some(lease)
        });
        if let Some(over) = over {
            table.end(words, over.leased, over.taking.connection == connection);
        }
        let own = LeasedLock { slot: wish.slot?, number: wish.number, has_data };
        let taking = leased.filter(|_| words.step(own.slot, own.number, LeaseEvent::Lend).is_ok());
        let Some(taking) = taking.cloned() else {
            table.end(words, own, leased.is_none());
            return None;
        };
        table.names.entry(name.to_owned()).or_default().lease = Some(Lease { leased: own, taking });
        Some(own)
    }

    /// A request was refused, or nobody knows what became of it.
    pub fn failed(&self, words: &Leases<Shared>, wish: &Wish) {
        if let (Some(mut table), Some(slot)) = (self.table(), wish.slot) {
            table.end(words, LeasedLock { slot, number: wish.number, has_data: false }, false);
        }
    }

    /// A lock that was leased went back by a message, and the home `knows`; or nobody can say.
    pub fn ended(&self, words: &Leases<Shared>, name: &str, leased: LeasedLock, knows: bool) {
        let Some(mut table) = self.table() else { return };
        if let Some(known) = table.names.get_mut(name)
            && known.lease.take_if(|lease| lease.leased.number == leased.number).is_some()
            && words.phase(leased.slot, leased.number) == LeasePhase::Wanted
        {
            known.on_recalled();
        }
        table.end(words, leased, knows);
    }
}

impl Table {
    /// A word that is of no lock.
    fn free_slot(&mut self, words: &Leases<Shared>) -> Option<usize> {
        while self.aside.front().is_some_and(|(.., since)| since.elapsed() > ASKED)
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
    fn end(&mut self, words: &Leases<Shared>, leased: LeasedLock, home_knows: bool) {
        match home_knows && words.step(leased.slot, leased.number, LeaseEvent::End).is_ok() {
            true => self.free.push(leased.slot),
            false => self.aside.push_back((leased.slot, leased.number, Instant::now())),
        }
    }
}
