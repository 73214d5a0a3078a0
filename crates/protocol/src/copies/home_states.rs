//! States and outputs of a home, and states of a copy as its home sees it.

use super::{Position, Term};
use crate::id::NodeId;
use crate::table::Row;

/// Result of an input, in order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum HomeOutput<E> {
    /// A copy gets a write.
    Write {
        /// Receiver.
        to: NodeId,
        /// The home's term.
        term: Term,
        /// The write's place.
        position: Position,
        /// All copies have the writes up to this one.
        stable: Position,
        /// The write.
        entry: E,
    },
    /// A copy is asked how far it is.
    Ask {
        /// Receiver.
        to: NodeId,
        /// The home's term.
        term: Term,
    },
    /// A copy begins anew.
    Make {
        /// Receiver.
        to: NodeId,
        /// The home's term.
        term: Term,
        /// Its bytes come as of this write.
        at: Position,
    },
    /// A copy gets a range's bytes, as they are at this moment.
    Range {
        /// Receiver.
        to: NodeId,
        /// The home's term.
        term: Term,
        /// Number of the range.
        range: u64,
    },
    /// A copy has got all ranges.
    Made {
        /// Receiver.
        to: NodeId,
        /// The home's term.
        term: Term,
    },
    /// The write is applied to the home's bytes, and is answered. Nobody has seen it before.
    Apply {
        /// The write's place.
        position: Position,
        /// The write.
        entry: E,
    },
    /// The coordinator is asked to drop a silent copy.
    Drop {
        /// The home's term.
        term: Term,
        /// The copy.
        node: NodeId,
    },
    /// The coordinator is asked to admit a copy that has all.
    Admit {
        /// The home's term.
        term: Term,
        /// The copy.
        node: NodeId,
        /// The coordinator's order by which the node has the extent. What it had by another one is no copy.
        order: u64,
    },
    /// The home answers from here on.
    Open,
    /// The home answers nothing that comes from here on. It may be opened again.
    Close,
    /// The coordinator is told that the home has stopped, and that all copies have the writes that it answered.
    Released {
        /// The home's term.
        term: Term,
    },
    /// The home answers nothing, unless a set of a higher term names it again. Those who asked for writes that wait send them again.
    Deposed,
}

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
