//! States of a home, and of a copy as its home sees it.

use crate::table::Row;

/// State of a home.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HomeLogState {
    /// The home was elected, and other copies lack writes that it has applied.
    Filling,
    /// The home answers.
    Open,
    /// The home answers no more, because another is to be home. Writes that it has taken go on.
    Releasing,
    /// A copy has heard of a higher term, and nobody has said who is its home.
    Overtaken,
    /// Another is home.
    Deposed,
}

/// An event of a home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HomeLogEvent {
    /// All copies have what it has.
    Filled,
    /// Another is to be home.
    Release,
    /// The node stays home, in a higher term.
    Reopen,
    /// A copy has heard of a higher term.
    Overtake,
    /// A higher term has another home.
    Depose,
}

/// Every transition of a home.
pub const HOMES: &[Row<HomeLogState, HomeLogEvent>] = &[
    Row { event: HomeLogEvent::Filled, from: &[HomeLogState::Filling], to: HomeLogState::Open },
    Row { event: HomeLogEvent::Release, from: &[HomeLogState::Filling, HomeLogState::Open], to: HomeLogState::Releasing },
    Row { event: HomeLogEvent::Reopen, from: &[HomeLogState::Releasing, HomeLogState::Overtaken], to: HomeLogState::Filling },
    Row {
        event: HomeLogEvent::Overtake,
        from: &[HomeLogState::Filling, HomeLogState::Open, HomeLogState::Releasing],
        to: HomeLogState::Overtaken,
    },
    Row {
        event: HomeLogEvent::Depose,
        from: &[HomeLogState::Filling, HomeLogState::Open, HomeLogState::Releasing, HomeLogState::Overtaken],
        to: HomeLogState::Deposed,
    },
];

/// State of a copy, as its home sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PeerState {
    /// Ranges are on their way. It does not count.
    Making,
    /// All ranges are sent. It counts, and the coordinator does not know it.
    Counts,
    /// The copy has all, and the coordinator is asked to admit it.
    Asked,
    /// The copy is of the set.
    Member,
    /// The copy is silent, and the coordinator is asked to drop it. It counts until then.
    Silent,
}

/// An event of a copy at its home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerEvent {
    /// The last range was sent.
    Sent,
    /// The copy has said that it has all.
    Ask,
    /// The coordinator has it in the set.
    Admit,
    /// The copy does not answer.
    Silent,
}

/// Every transition of a copy at its home. Those that are dropped, and those that are silent before anybody asked for them, are forgotten.
pub const PEERS: &[Row<PeerState, PeerEvent>] = &[
    Row { event: PeerEvent::Sent, from: &[PeerState::Making], to: PeerState::Counts },
    Row { event: PeerEvent::Ask, from: &[PeerState::Counts], to: PeerState::Asked },
    Row { event: PeerEvent::Admit, from: &[PeerState::Asked], to: PeerState::Member },
    Row { event: PeerEvent::Silent, from: &[PeerState::Asked, PeerState::Member], to: PeerState::Silent },
];

impl PeerState {
    /// True if the coordinator may know the copy.
    pub(super) fn is_known(self) -> bool {
        matches!(self, PeerState::Asked | PeerState::Member | PeerState::Silent)
    }
}
