//! The keepers at their first start, before there is an edition of their list.

use crate::journal::Journal;
use hanare_protocol::coordinator::Record;
use std::collections::BTreeMap;

/// Another keeper at its first start.
#[derive(Clone, Copy)]
pub(super) struct Founder {
    /// The name of its disk.
    pub disk: u128,
    /// When it said hello.
    pub at_ms: u64,
    /// True if it brings a journal.
    pub brings: bool,
}

/// The keepers at their first start, as this one knows them.
#[derive(Default)]
pub(super) struct Founders {
    /// The others, by number.
    pub known: BTreeMap<u64, Founder>,
    /// The journal that this one brings, with its records.
    pub brought: Option<(Journal, Vec<Record>)>,
}
