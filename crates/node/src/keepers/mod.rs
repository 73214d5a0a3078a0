//! Keepers: the nodes that hold the coordinator's journal together, so that it goes on when one of them is lost.
//!
//! | module | holds |
//! |---|---|
//! | `entry` | entries of the common log, and snapshots of it |
//! | `store` | a keeper's file |
//! | `engine` | the engine by which they agree, and what this one read |
//! | `message`, `pieces` | what they say to each other; long messages in pieces |
//! | `links`, `meeting` | their connections; who meets whom, and who is behind |
//! | `founders`, `founding` | the keepers at their first start; who begins the first edition, and with which records |
//!
//! An operator names the first of them. At their first start all tell each other the names of their disks. One begins edition 1 of the list, and
//! the others get it from there. From there on a keeper with another disk takes no part: it does not know what it promised. An
//! operator may give its seat to the other disk, and change the list (`protocol/src/coordinator/keeper_changes.rs`).

mod engine;
mod entry;
mod founders;
mod founding;
mod links;
mod meeting;
mod message;
mod pieces;
mod store;
#[cfg(test)]
mod tests;

pub(crate) use engine::{Rule, SharedEngine};
pub(crate) use links::Keepers;

use hanare_fabric::link::Link;
use hanare_fabric::tcp::Greeted;
use hanare_protocol::coordinator::Record;
use hanare_protocol::limits::KEEPER_COUNT_MAX;
use hanare_protocol::versions::OLDEST;
use hanare_protocol::{Error, Result};
use store::Identity;

/// Numbers of keepers at a first start: they go on when a minority is lost, and each further one counts.
const COUNTS: [usize; 2] = [3, 5];

/// The list in order, if it can name keepers of a pool.
///
/// **Errors**: [`Error::BadSetting`].
pub(crate) fn sorted(keepers: &[String]) -> Result<Vec<String>> {
    let mut sorted = keepers.to_vec();
    sorted.sort();
    sorted.dedup();
    if (1..=KEEPER_COUNT_MAX).contains(&sorted.len()) && sorted.len() == keepers.len() {
        return Ok(sorted);
    }
    Err(Error::BadSetting {
        key: "--keepers".to_owned(),
        value: keepers.join(","),
        reason: format!("name the keepers, each once: {KEEPER_COUNT_MAX} at most"),
    })
}

/// True if the build at the other end can read all records of the log. New ones are written where all keepers can read them, so one that cannot is
/// older than it was.
fn can_read(engine: &SharedEngine, greeted: &Greeted) -> bool {
    let needs = engine.lock().records().iter().map(Record::since).max().unwrap_or(OLDEST);
    let can_read = greeted.spoken >= needs;
    if !can_read {
        let (peer, speaks) = (greeted.link.peer(), greeted.spoken);
        tracing::error!(
            "the keeper at {peer} speaks wire version {speaks}, and the log has records of {needs}: it takes no part"
        );
    }
    can_read
}

/// Checks how a node was started against its file.
fn check(identity: &Identity, named: &[String], address: &str) -> Result<()> {
    let refuse = |key: &str, value: String, reason: String| Err(Error::BadSetting { key: key.to_owned(), value, reason });
    let Identity { own, list, .. } = identity;
    let known = list.seats.values().find(|seat| seat.disk == Some(*own));
    if let Some(seat) = known.filter(|seat| seat.address != address) {
        let reason = format!(
            "this keeper's pool knows it at {0}; start it with --listen {0}, or add it there and remove it here",
            seat.address
        );
        return refuse("--listen", address.to_owned(), reason);
    }
    if list.edition > 0 && list.addresses() != named {
        tracing::warn!("the keepers are {}: --keepers is older, and this node's file counts", list.addresses().join(", "));
    }
    if list.edition == 0 && list.number_at(address).is_some() && !COUNTS.contains(&list.seats.len()) {
        let reason = "at a first start name 3 keepers or 5, each once: of 3 one may be lost, of 5 two".to_owned();
        return refuse("--keepers", named.join(","), reason);
    }
    Ok(())
}
