//! Names and the life of a region: decides what a region's name means at each moment.
//!
//! ```text
//!             Create              Made                 Grow
//!   Absent ----------> Creating --------> Ready <================> Growing
//!     ^                   |                 |     Grown, GrowFails    |
//!     |       CreateFails |          Remove |   NodeDies              | NodeDies
//!     +-------------------+                 |  +------> Lost <--------+
//!     +-------------------------------------+             | Remove
//!     +---------------------------------------------------+
//! ```
//!
//! While a region is created its name is taken, but nothing of it is seen: whoever asks for the name waits for the outcome. While it
//! grows it is used at its old length, and whoever would resize or remove it waits. `Creating` and `Growing` live in memory only: a
//! coordinator that restarts finds the region as it was before, and its nodes free what they made for it.

use super::asks::AskKey;
use super::journal::Ledger;
use super::records::ExtentCopies;
use crate::attributes::Attributes;
use crate::copies::Term;
use crate::id::{Gid, NodeId, User};
use crate::placement::{Extent, Placement, Span};
use crate::table::Row;
use crate::wire::control::ReportedExtent;

/// The states of a region, as the table names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// No such region.
    Absent,
    /// Its extents are being made.
    Creating,
    /// The region can be used.
    Ready,
    /// The region can be used at its old length while extents for more are being made.
    Growing,
    /// Some of its bytes are gone for good.
    Lost,
}

/// An event of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Somebody creates it.
    Create,
    /// Its extents are made.
    Made,
    /// Its extents could not be made.
    CreateFails,
    /// Somebody makes it longer.
    Grow,
    /// Its additional extents are made.
    Grown,
    /// Its additional extents could not be made.
    GrowFails,
    /// A node with bytes of it is gone for good.
    NodeDies,
    /// Somebody removes it.
    Remove,
}

/// Every transition of a region.
pub const TABLE: &[Row<Phase, Event>] = &[
    Row { event: Event::Create, from: &[Phase::Absent], to: Phase::Creating },
    Row { event: Event::Made, from: &[Phase::Creating], to: Phase::Ready },
    Row { event: Event::CreateFails, from: &[Phase::Creating], to: Phase::Absent },
    Row { event: Event::Grow, from: &[Phase::Ready], to: Phase::Growing },
    Row { event: Event::Grown, from: &[Phase::Growing], to: Phase::Ready },
    // A region that is lost while it grows: what is made belongs to it until it is removed.
    Row { event: Event::Grown, from: &[Phase::Lost], to: Phase::Lost },
    Row { event: Event::GrowFails, from: &[Phase::Growing], to: Phase::Ready },
    Row { event: Event::GrowFails, from: &[Phase::Lost], to: Phase::Lost },
    Row { event: Event::NodeDies, from: &[Phase::Ready, Phase::Growing, Phase::Lost], to: Phase::Lost },
    Row { event: Event::Remove, from: &[Phase::Ready, Phase::Lost], to: Phase::Absent },
];

/// An extent that is being made.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub node: NodeId,
    pub len: u64,
    pub order: u64,
    pub made: Option<ReportedExtent>,
    /// Position of a copy's home among the parts.
    pub copy_of: Option<usize>,
}

/// Extents that are being made, for a new region or one that grows.
#[derive(Clone, Debug)]
pub(super) struct Growth {
    pub gid: Gid,
    pub name: String,
    pub by: AskKey,
    pub owner: User,
    pub mode: u32,
    pub placement: Placement,
    pub copies: u8,
    /// True if its homes may change: it has copies, or had some.
    pub has_holders: bool,
    pub attributes: Attributes,
    /// A lost region whose place this one takes.
    pub instead: Option<Gid>,
    pub chunk: u64,
    pub parts: Vec<Part>,
    /// True if the region is there already.
    pub grows: bool,
    pub since_ms: u64,
}

impl Growth {
    /// Bytes that are being made, copies among them.
    pub fn len(&self) -> u64 {
        self.parts.iter().map(|part| part.len).fold(0, u64::saturating_add)
    }

    /// The span, and the copies of its extents, once all parts are made.
    pub fn span(&self) -> Option<(Span, Vec<ExtentCopies>)> {
        let extent = |part: &Part| part.made.map(|made| Extent { node: part.node, slot: made.slot, len: part.len });
        let all = self.parts.iter().map(extent).collect::<Option<Vec<_>>>()?;
        let of = |home: Option<usize>| {
            let those = self.parts.iter().zip(&all).filter(move |(part, _)| part.copy_of == home);
            those.map(|(_, extent)| *extent).collect::<Vec<_>>()
        };
        let extents = of(None);
        let len = extents.iter().map(|extent| extent.len).fold(0, u64::saturating_add);
        let holders = |index| ExtentCopies { term: Term::FIRST, copies: of(Some(index)) };
        let holders = if self.has_holders { (0..extents.len()).map(holders).collect() } else { Vec::new() };
        Some((Span { len, chunk: self.chunk, extents }, holders))
    }
}

/// The state of a region, of which the ledger knows what lasts and `growth` what does not.
pub(super) fn phase(ledger: &Ledger, growth: Option<&Growth>, gid: Gid) -> Phase {
    match (ledger.regions.get(&gid), growth) {
        (None, None) => Phase::Absent,
        (None, Some(_)) => Phase::Creating,
        (Some(region), _) if !region.lost.is_empty() => Phase::Lost,
        (Some(_), Some(_)) => Phase::Growing,
        (Some(_), None) => Phase::Ready,
    }
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "numbers of a test")]
mod tests {
    use super::*;
    use crate::table;

    #[test]
    fn the_table_is_this() {
        assert_eq!(table::contradiction(TABLE), None);
        assert_eq!(
            table::print(TABLE),
            "\
Create         Absent                             -> Creating
Made           Creating                           -> Ready
CreateFails    Creating                           -> Absent
Grow           Ready                              -> Growing
Grown          Growing                            -> Ready
Grown          Lost                               -> Lost
GrowFails      Growing                            -> Ready
GrowFails      Lost                               -> Lost
NodeDies       Ready, Growing, Lost               -> Lost
Remove         Ready, Lost                        -> Absent
"
        );
    }
}
