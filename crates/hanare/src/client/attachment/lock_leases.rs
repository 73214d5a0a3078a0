//! Locks that are leased to the program: the table of [`hanare_ring::lease::table`], for all threads. A child made by fork has none.

use super::granted_lock::GrantedLock;
use hanare_memory::fork::Lineage;
use hanare_protocol::lock::Mode;
use hanare_ring::Shared;
use hanare_ring::lease::Leases;
use hanare_ring::lease::table::{self, LeaseTable, LeasedLock, Taking, Wish};
use hanare_ring::thread_slots::monotonic_ns;
use std::sync::{Mutex, MutexGuard, PoisonError};

pub(crate) type Again = table::Again<GrantedLock>;
pub(crate) type GrantOf<'a> = table::GrantOf<'a, GrantedLock>;
pub(crate) type Lease = table::Lease<GrantedLock>;

impl Taking for GrantedLock {
    fn is_mine(&self) -> bool {
        GrantedLock::is_mine(self)
    }

    fn connection(&self) -> u128 {
        self.connection
    }
}

/// The locks that are leased to a program.
pub(crate) struct LockLeases {
    lineage: Lineage,
    table: Mutex<LeaseTable<GrantedLock>>,
}

impl Default for LockLeases {
    fn default() -> LockLeases {
        LockLeases { lineage: Lineage::here(), table: Mutex::default() }
    }
}

impl LockLeases {
    /// `None` in a child made by fork: the words are its parent's.
    fn table(&self) -> Option<MutexGuard<'_, LeaseTable<GrantedLock>>> {
        self.lineage.is_here().then(|| self.table.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// [`LeaseTable::take`], for this thread.
    pub fn take(&self, words: &Leases<Shared>, name: &str, mode: Mode) -> Again {
        let again = self.table().map_or(Again::Ask, |table| table.take(words, name, mode, monotonic_ns));
        if let Again::Taken(lease) = &again {
            lease.taking.set_mine(true);
        }
        again
    }

    /// Locks that are leased and held.
    pub fn held(&self) -> Vec<String> {
        let Some(table) = self.table() else { return Vec::new() };
        table.takings().filter(|taking| taking.is_held()).map(|taking| taking.key.clone()).collect()
    }

    /// [`Leases::keep`].
    pub fn keep(&self, words: &Leases<Shared>, leased: LeasedLock) -> bool {
        self.lineage.is_here() && words.keep(leased, monotonic_ns())
    }

    /// [`LeaseTable::wish`].
    pub fn wish(&self, words: &Leases<Shared>, name: &str, mode: Mode, number: u64) -> Wish {
        self.table().map_or(Wish::none(number), |mut table| table.wish(words, name, (mode, number), monotonic_ns()))
    }

    /// [`LeaseTable::spare`].
    pub fn spare(&self, words: &Leases<Shared>, name: &str) -> Option<Lease> {
        self.table()?.spare(words, name, monotonic_ns())
    }

    /// [`LeaseTable::answered`].
    pub fn answered(&self, words: &Leases<Shared>, request: (&str, Wish), grant: GrantOf<'_>) -> Option<LeasedLock> {
        self.table()?.answered(words, request, grant, monotonic_ns())
    }

    /// [`LeaseTable::failed`].
    pub fn failed(&self, words: &Leases<Shared>, wish: &Wish) {
        if let Some(mut table) = self.table() {
            table.failed(words, wish, monotonic_ns());
        }
    }

    /// [`LeaseTable::ended`].
    pub fn ended(&self, words: &Leases<Shared>, name: &str, leased: LeasedLock, knows: bool) {
        if let Some(mut table) = self.table() {
            table.ended(words, (name, leased), knows, monotonic_ns());
        }
    }
}
