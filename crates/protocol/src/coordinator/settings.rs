//! The coordinator's settings.

use crate::id::Incarnation;
use crate::limits;

/// Copies that are made at once, of all extents of the pool, because making one takes bandwidth of two nodes. As many regions are made ready.
pub(super) const MAKING_COUNT: usize = 16;

/// Moves that one rebalancing has at most: the next one goes on.
pub(super) const MOVE_COUNT: usize = 1000;

/// Time to the next try to make a copy, to make a region ready, or to move a home.
pub(super) const REMAKE_MS: u64 = limits::LEASE_MS;

/// Settings of a coordinator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Time that a node is a member without renewing, in milliseconds.
    pub lease_ms: u64,
    /// Time that a live node may take to make extents, in milliseconds.
    pub make_ms: u64,
    /// Bytes that a user may have in regions, and spilled by queues; `None` for no limit.
    pub quota: Option<u64>,
    /// The name of the coordinator's own node. It becomes node 0 where the pool begins, and keeps its number where it has one.
    pub home: String,
    /// The life of that node; another node that has its name by chance is refused. `None` takes every life of the name for it.
    pub home_life: Option<Incarnation>,
}

impl Settings {
    /// The defaults of [`limits`] for a coordinator on the node of that name.
    pub fn new(home: &str) -> Settings {
        Settings { lease_ms: limits::LEASE_MS, make_ms: limits::MAKE_MS, quota: None, home: home.to_owned(), home_life: None }
    }
}
