//! State shared by each client of this host and the node: its threads' slots, and the locks leased to it.

use hanare_protocol::id::ClientId;
use hanare_protocol::limits::{ENDED_LEASE_PROGRAM_COUNT_MAX, LEASE_MS};
use hanare_protocol::lock::Recalled;
use hanare_ring::thread_slots::{ThreadSlots, monotonic_ns};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Least step of the time that leases hold: the node is asked for it at each turn.
const STEP_NS: u64 = LEASE_MS * 1_000_000 / 16;

/// Clients that have ended, each with the state of locks that were leased to it, by the numbers of their takings.
type EndedLeases = VecDeque<(ClientId, Vec<(u64, Recalled)>)>;

/// The slots of all clients of this host.
#[derive(Default)]
pub(crate) struct ThreadSlotsOfAll {
    slots: Mutex<BTreeMap<ClientId, ThreadSlots>>,
    /// Until when leases hold; changed with `slots` locked.
    until_ns: AtomicU64,
    /// Locked after `slots`.
    ended: Mutex<EndedLeases>,
}

impl ThreadSlotsOfAll {
    pub fn lock(&self) -> MutexGuard<'_, BTreeMap<ClientId, ThreadSlots>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ended(&self) -> MutexGuard<'_, EndedLeases> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A client has come.
    pub fn enter(&self, client: ClientId, slots: ThreadSlots) {
        let mut all = self.lock();
        slots.leases().hold_until(self.until_ns.load(Ordering::Relaxed));
        all.insert(client, slots);
    }

    /// A client has ended, and all of its threads. Its held and kept locks are remembered, because their home will ask. Returns its slots,
    /// which are of no use any more.
    pub fn end(&self, client: ClientId) -> Option<ThreadSlots> {
        let mut all = self.lock();
        let slots = all.remove(&client)?;
        let leased = slots.leases().recall_all();
        if !leased.is_empty() {
            let mut ended = self.ended();
            if ended.len() >= ENDED_LEASE_PROGRAM_COUNT_MAX {
                ended.pop_front();
            }
            ended.push_back((client, leased));
        }
        Some(slots)
    }

    /// A lock's home wants it back, and it is leased to a client. `None` where nothing is known of it.
    pub fn recall(&self, client: ClientId, number: u64) -> Option<Recalled> {
        let all = self.lock();
        let recalled = match all.get(&client) {
            Some(slots) => slots.leases().recall(number),
            None => {
                let ended = self.ended();
                let leased = ended.iter().find(|(other, _)| *other == client)?.1.iter().find(|(other, _)| *other == number)?;
                leased.1
            }
        };
        Some(recalled).filter(|recalled| *recalled != Recalled::Unknown)
    }

    /// No client may take a lock again that is leased to it, until leases are said to hold again.
    pub fn recall_all(&self) {
        self.hold_for(0);
        self.recall_words();
    }

    /// No client may take a lock again that is leased to it at this moment.
    pub fn recall_words(&self) {
        self.lock().values().for_each(|slots| drop(slots.leases().recall_all()));
    }

    /// Locks that are leased may be taken again for so many milliseconds.
    pub fn hold_for(&self, left_ms: u64) {
        let until_ns = if left_ms == 0 { 0 } else { monotonic_ns().saturating_add(left_ms.saturating_mul(1_000_000)) };
        let before_ns = self.until_ns.load(Ordering::Relaxed);
        if until_ns == before_ns || until_ns > 0 && until_ns.abs_diff(before_ns) < STEP_NS {
            return;
        }
        let all = self.lock();
        self.until_ns.store(until_ns, Ordering::Relaxed);
        all.values().for_each(|slots| slots.leases().hold_until(until_ns));
    }
}
