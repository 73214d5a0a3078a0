//! Copies of an extent on other nodes. An answered write survives the loss of any node that holds it, but the last.
//!
//! ```text
//!                      Write(position)                          Freeze, Elect
//!   home  ------------------------------------> copy  <---------------------------- coordinator
//!  [`HomeLog`] <------------------------------- [`CopyLog`]                          [`Holders`]
//!                      Has(position)                             Drop, Admit, Set
//! ```
//!
//! The home gives each write a position, and sends it to all copies. It applies the write when all of them have it, and then answers. So nobody,
//! a load of the home's own host included, sees bytes that could still be lost. A copy applies a write as soon as it has it, in order.
//!
//! | rule | where |
//! |---|---|
//! | The home applies a write when all copies that count have it | [`HomeLog`] |
//! | A copy that is silent goes on counting until the coordinator has dropped it | [`HomeLog::on_silent`] |
//! | Only the coordinator names a home, each time in a higher term; copies refuse the writes of a lower one | [`Holders`], [`CopyLog`] |
//! | Copies are frozen before one of them is elected, and the one with the most writes is | [`Holders::on_frozen`] |
//! | The elected home shows nothing until all other copies have what it has | [`HomeLog::elected`] |
//! | A home that lives stops before another is elected in its place | [`HomeLog::release`], [`Holders::on_move`] |
//! | A home that an election overtakes says so: the coordinator that began the election may be dead | [`HomeLog::is_overtaken`] |
//! | A copy that is made anew counts before the coordinator admits it, and is admitted when it has all | [`HomeLog::make`] |
//! | A node that began anew is not the copy that a home made before | the caller, by the node's epoch |
//! | A home answers nothing when its lease is over; the coordinator elects another only then | the caller |
//! | An update that a client sends again is not applied again, at no home | [`DoneCalls`]; the exploration has it |
//! | Stores of one release have their effect with their last part, at all holders or at none | [`PendingStores`] |
//! | The next home first gets the pages of hosts that map the extent coherently | [`PageTable`] |

mod copy;
mod digests;
mod done;
#[cfg(test)]
mod explore;
mod holders;
mod home;
mod home_states;
mod page_table;
mod pending_stores;
#[cfg(test)]
mod writers;

pub use copy::{CopyLog, CopyOutput};
pub use digests::{Comparison, DifferentPage, DigestCall};
pub use done::{DoneBefore, DoneCalls, Once, UpdateCall};
pub use holders::{HolderOutput, HolderSet, Holders, HoldersState};
pub use home::HomeLog;
pub use home_states::{HomeOutput, PeerState};
pub use page_table::{MappingHost, PageChange, PageTable};
pub use pending_stores::{PartOfStores, PartRefusal, PendingStores};
#[cfg(test)]
use writers::Writers;

use serde::{Deserialize, Serialize};

/// Number of a set of holders: each change of the set has a higher one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Term(pub u64);

impl Term {
    /// The number of an extent's first set of holders.
    pub(crate) const FIRST: Term = Term(1);

    pub(crate) fn next(self) -> Term {
        Term(self.0.saturating_add(1))
    }
}

/// Place of a write in the order of its extent's writes; the first has 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Position(pub u64);

impl Position {
    fn next(self) -> Position {
        Position(self.0.saturating_add(1))
    }
}
