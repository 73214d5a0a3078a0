//! Messages between keepers.

use super::engine::{AskedRound, KeeperMessage};
use serde::{Deserialize, Serialize};

/// A message between keepers. The one that connected says hello first.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Said {
    /// The keeper that connected.
    Hello(KeeperHello),
    /// The answer to a hello: the disk's name is written down.
    Met,
    /// The answer to a hello that does not fit: why the connection ends.
    Refused(String),
    /// A message of the engine.
    Engine(Box<KeeperMessage>),
    /// The keeper that leads asks if another one is elected.
    Round(AskedRound),
    /// The answer: the keeper had promised nothing to a later leader when it was asked that.
    NoOther(AskedRound),
}

/// A keeper, as it says who it is.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct KeeperHello {
    /// The keepers' addresses, in order of their numbers.
    pub keepers: Vec<String>,
    /// Its number.
    pub number: u64,
    /// The name of its disk.
    pub disk: u128,
}
