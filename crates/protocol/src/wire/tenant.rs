//! Requests of operators about tenants, and what they are told.

use crate::tenant::KeyHash;
use serde::{Deserialize, Serialize};

/// An operator's wish about tenants. Since version 28.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TenantWish {
    /// Lists tenants by name; answered by [`Answer::Tenants`](super::control::Answer::Tenants).
    List {
        /// Only names after this one.
        after: String,
    },
    /// Makes a tenant; answered by [`Answer::Ok`](super::control::Answer::Ok).
    Create {
        /// Its name.
        name: String,
        /// The hash of its key.
        hash: KeyHash,
        /// Bytes that it may have; `None` for as many as a user may.
        quota: Option<u64>,
    },
    /// Changes a tenant; answered by [`Answer::Ok`](super::control::Answer::Ok).
    Alter {
        /// Its name.
        name: String,
        /// The hash of another key: that of before is none any more.
        hash: Option<KeyHash>,
        /// Another quota, which may be that of users.
        quota: Option<Option<u64>>,
    },
    /// Removes a tenant. Answered by [`Answer::Ok`](super::control::Answer::Ok), or by the tenant where it has regions left: then it is to be
    /// said again.
    Remove {
        /// Its name.
        name: String,
        /// True if its regions go with it; else it must have none.
        with_regions: bool,
    },
}

/// A tenant as an operator sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TenantStat {
    /// Its name.
    pub name: String,
    /// Its number as a user.
    pub number: u32,
    /// Its own quota in bytes.
    pub quota: Option<u64>,
    /// Bytes of its regions with their copies, and of what its queues may have spilled.
    pub used: u64,
    /// Its regions.
    pub regions: u64,
}
