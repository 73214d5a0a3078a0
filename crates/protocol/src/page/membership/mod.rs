//! Membership: a host joins the homes of a region, and leaves them.
//!
//! ```text
//!   a host: Sharing                                     a home: Sharers
//!   ---------------                                     --------------
//!   a program will map it     ---- Join { key } ---->   a sharer, or the same sharer once more
//!   all homes have answered   <--- Joined { share } -
//!   the program may map it
//!       ...
//!   the last program unmaps;
//!   all pages go home         ---- WriteBack ... --->
//!   nothing is here           ---- Leave { share } ->   drains: pages that it passed on are on their way
//!   forgets the region        <--- Left { key } -----   forgets the sharer
//! ```
//!
//! A home that was taken for lost and is back sends `Returned`. The host returns its pages and leaves, and may join again by another key. A
//! host that does not know what it had sends `Forgot`. A host that its home did without gets `Returned`, too, and drops all.
//!
//! | file | decides |
//! |---|---|
//! | `sharing` | at the host: which program's turn it is to ask the homes, when a region is left, which messages each home gets |
//! | `sharers` | at the home: the sharers, which lives are over, when a sharer that leaves may go |
//! | `join_queue` | at the home: which hosts wait to be let in, for what, and for how long |
//! | `fenced` | at the home: hosts that it did without, which get notices again and again |
//! | `returned_pages` | at the host: homes that came back and have all, and may ask once more |
//! | `life` | which lives of a node are over |
//! | `table` | every transition of a region on a host, of a home as the host knows it, and of a sharer |
//!
//! Time is an input. `table.txt` is the table as text; `explore` tries all orders of a host and its homes.

#[cfg(test)]
mod explore;
pub mod fenced;
pub mod join_queue;
pub mod life;
pub mod returned_pages;
pub mod sharers;
pub mod sharing;
pub mod table;
#[cfg(test)]
mod tests;

pub use fenced::FencedHosts;
pub use join_queue::{JoinQueue, Tried, Waiting};
pub use life::{Life, Over};
pub use returned_pages::ReturnedPages;
pub use sharers::{Joiner, Sharer, Sharers};
pub use sharing::{Action, MapRequest, Refused, ReturnOutcome, Sharing};
