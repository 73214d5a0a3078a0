//! Keepers: the nodes that hold the coordinator's journal together, so that it goes on when one of them is lost.
//!
//! | module | holds |
//! |---|---|
//! | `entry` | entries of the common log, and snapshots of it |
//! | `store` | a keeper's file |
//! | `engine` | the engine by which they agree, and what this one read |
//! | `message` | what they say to each other |
//! | `links` | their connections |
//!
//! An operator names them; each has the same list. A keeper's number is its place in the list, sorted. At their first start all keepers tell
//! each other the names of their disks, and write them down. From there on a keeper with another disk takes no part: it does not know what
//! it promised.

mod engine;
mod entry;
mod links;
mod message;
mod store;
#[cfg(test)]
mod tests;

pub(crate) use engine::{Rule, SharedEngine};
pub(crate) use links::Keepers;

use hanare_protocol::{Error, Result};

/// Numbers of keepers that go on when a minority is lost.
const COUNTS: [usize; 2] = [3, 5];

/// The list in order, if it can be one.
///
/// **Errors**: [`Error::BadSetting`].
pub(crate) fn sorted(keepers: &[String]) -> Result<Vec<String>> {
    let mut sorted = keepers.to_vec();
    sorted.sort();
    sorted.dedup();
    if COUNTS.contains(&sorted.len()) && sorted.len() == keepers.len() {
        return Ok(sorted);
    }
    Err(Error::BadSetting {
        key: "--keepers".to_owned(),
        value: keepers.join(","),
        reason: "name 3 keepers or 5, each once: of 3 one may be lost, of 5 two".to_owned(),
    })
}
