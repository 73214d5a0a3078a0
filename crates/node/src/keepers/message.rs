//! Messages between keepers.

use super::engine::{AskedRound, KeeperMessage};
use super::store::Base;
use hanare_protocol::keeper_list::KeeperList;
use omnipaxos::messages::Message;
use omnipaxos::messages::sequence_paxos::PaxosMsg;
use serde::{Deserialize, Serialize};

/// A message between keepers. The one that connected says hello first.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Said {
    /// The keeper that connected.
    Hello(KeeperHello),
    /// The answer to a hello: both are of the same edition.
    Met,
    /// The answer to a hello: the caller is to come again, because this node has not the caller's edition, or both have none.
    Later {
        /// The name of the disk here.
        disk: u128,
    },
    /// The answer to a hello of an earlier edition.
    Base(Box<Base>),
    /// The answer to a hello that does not fit: why the connection ends.
    Refused(String),
    /// A message of the engine.
    Engine(Box<KeeperMessage>),
    /// The keeper that leads asks if another one is elected.
    Round(AskedRound),
    /// The answer: the keeper had promised nothing to a later leader when it was asked that.
    NoOther(AskedRound),
    /// A piece of a long message.
    Piece { bytes: Vec<u8>, is_last: bool },
    /// A piece has arrived.
    More,
}

impl Said {
    /// True of messages whose order does not matter: they say that the keeper lives, or what it has promised.
    pub fn may_overtake(&self) -> bool {
        match self {
            Said::Engine(message) => matches!(**message, Message::BLE(_)),
            Said::Round(_) | Said::NoOther(_) => true,
            _ => false,
        }
    }

    /// True of messages that the engine repeats, and answers by a long one each time.
    pub fn is_promise(&self) -> bool {
        let Said::Engine(message) = self else { return false };
        matches!(&**message, Message::SequencePaxos(message) if matches!(message.msg, PaxosMsg::Promise(_)))
    }
}

/// A keeper, as it says who it is.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct KeeperHello {
    /// Its address.
    pub address: String,
    /// The name of its disk.
    pub disk: u128,
    /// The list of the edition whose base it has. Where it has none: the keepers that an operator named, or nobody.
    pub list: KeeperList,
}
