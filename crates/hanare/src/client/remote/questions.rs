//! Questions to a node: about itself, and on a request whose connection broke.

use super::{ASK, Patience, Remote};
use hanare_protocol::error::Happened;
use hanare_protocol::wire::backing::Backing;
use hanare_protocol::wire::exchange::{Query, Question, Reply};
use hanare_protocol::wire::face::FaceCounts;
use hanare_protocol::wire::look::{Look, Seen};
use hanare_protocol::{Error, Result};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

impl Remote {
    /// Asks something that has no memory but its own. `left` bounds its way there, `bound` the answer's.
    fn query(&self, query: &Query, patience: Patience, (left, bound): (Duration, Duration)) -> Result<Option<Reply>> {
        let until = Instant::now() + bound;
        let mut request = self.draft();
        request.set_query(query, patience);
        // SAFETY: such a request has no memory but its own.
        let seq = unsafe { self.post_within(request, left) }?;
        let mut told = None;
        self.settle(seq, until.saturating_duration_since(Instant::now()), |request| told = request.take_reply())?;
        Ok(told)
    }

    fn garbage(&self) -> Error {
        Error::Garbage { peer: self.node.to_string(), reason: "an answer to another question".to_owned() }
    }

    /// Asks for the node's clock, in nanoseconds since 1970.
    pub fn clock(&self) -> Result<u64> {
        match self.query(&Query::Ping, Patience::Usual, (self.bound, self.bound))? {
            Some(Reply::Pong { unix_ns }) => Ok(unix_ns),
            _ => Err(self.garbage()),
        }
    }

    /// Asks what the node has and did.
    ///
    /// **Errors**: [`Error::NotInTime`] where nothing came within its patience: the connection stays.
    pub fn look(&self, look: &Look, patience: Patience) -> Result<Seen> {
        match self.query(&Query::Look(look.clone()), patience, (self.left(patience), self.bound))? {
            Some(Reply::Seen(seen)) => Ok(*seen),
            _ => Err(self.garbage()),
        }
    }

    /// Asks for the memory behind the node's extents.
    ///
    /// **Errors**: as for [`Remote::look`].
    pub fn backing(&self, look: &Look, patience: Patience) -> Result<Backing> {
        match self.query(&Query::Backing(look.clone()), patience, (self.left(patience), self.bound))? {
            Some(Reply::Backing(backing)) => Ok(*backing),
            _ => Err(self.garbage()),
        }
    }

    /// Asks for the node's counts by face.
    ///
    /// **Errors**: as for [`Remote::look`].
    pub fn face_counts(&self, patience: Patience) -> Result<FaceCounts> {
        match self.query(&Query::Faces, patience, (self.left(patience), self.bound))? {
            Some(Reply::Faces(counts)) => Ok(*counts),
            _ => Err(self.garbage()),
        }
    }

    /// Time for a question on its way there.
    fn left(&self, patience: Patience) -> Duration {
        patience.end().map_or(self.bound, |until| self.bound.min(until.saturating_duration_since(Instant::now())))
    }

    /// Ends a connection of this client at the node, too, because it broke here. Locks that were taken on it go to others. A node that
    /// cannot be asked within `patience` finds out by itself.
    pub fn end(&self, connection: u128, patience: Duration) {
        let _ = self.ask(Question { connection, seq: 0 }, patience.min(ASK));
    }

    /// A request's result; the node is asked where the connection broke and the request must not be repeated.
    pub(super) fn explain(
        &self,
        outcome: Result<()>,
        connection: Option<u128>,
        seq: u64,
        what: &str,
        patience: Duration,
    ) -> Result<()> {
        if matches!(outcome, Err(Error::GrantRefused { .. })) {
            self.refusals.fetch_add(1, Ordering::Relaxed);
        }
        match (outcome, connection) {
            (Err(broke @ (Error::NodeLost { .. } | Error::Timeout { .. } | Error::Garbage { .. })), Some(connection)) => {
                let happened = self.ask(Question { connection, seq }, patience);
                let reason = match broke {
                    Error::NodeLost { reason, .. } => reason,
                    other => other.to_string(),
                };
                Err(Error::Broken { node: self.node, what: what.to_owned(), reason, happened })
            }
            (other, _) => other,
        }
    }

    /// Asks what became of a request. A node that cannot be asked leaves it unknown.
    fn ask(&self, question: Question, patience: Duration) -> Happened {
        if self.lock().mute == Some(question.connection) {
            return Happened::Unknown;
        }
        let patience = self.bound.min(patience);
        match self.query(&Query::Ask(question), Patience::Usual, (patience, patience)) {
            Ok(Some(Reply::Told(happened))) => happened,
            Ok(_) => Happened::Unknown,
            Err(_) => {
                self.lock().mute = Some(question.connection);
                Happened::Unknown
            }
        }
    }
}
