//! Sessions: the connections that a node carries out commands for. The rule ends a connection that was given up, or whose process is
//! gone, before any later command is answered.
//!
//! A client opens one connection after another to a node, never two at once. They form a *series*, which has a random number. The greeting
//! of each names the series. The network may hold bytes of an earlier connection back for any time.
//!
//! ```text
//!            Greet                  Succeed, End
//!   Unknown --------> Served -----------------------> Ended
//! ```
//!
//! | rule | reason |
//! |---|---|
//! | The node ends the earlier connection of a series before it serves the next. | The client gave it up: its bytes may still lie in the node's receive buffer. |
//! | Bytes fetched for a session are written only while the node serves that session. | A copy's requester may be dead, and its target written by others. |
//! | After a pause of the service, the node first ends connections whose peers are gone. | A successor of a dead client may wait in another buffer. |

use crate::limits::PAUSE_MS;
use crate::table::{self, Row};
use std::collections::BTreeMap;

/// The number of a client's connections to one node, one after another. Random, so that nobody else can end them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Series(pub u64);

/// The states of a connection, as the table names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Not greeted.
    Unknown,
    /// Its commands are carried out.
    Served,
    /// No command of it is carried out any more.
    Ended,
}

/// An event of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The connection was greeted.
    Greet,
    /// The next connection of its series was greeted.
    Succeed,
    /// The connection ended by itself, or its peer is gone.
    End,
}

/// Every transition of a connection.
pub const TABLE: &[Row<Phase, Event>] = &[
    Row { event: Event::Greet, from: &[Phase::Unknown], to: Phase::Served },
    Row { event: Event::Succeed, from: &[Phase::Served], to: Phase::Ended },
    Row { event: Event::End, from: &[Phase::Served], to: Phase::Ended },
];

/// The connections that a node serves, by the numbers that their driver gives them. State grows with connections, not with their past.
#[derive(Clone, Debug, Default)]
pub struct Sessions {
    /// The series of each connection that is served. The ring of a client on the node's own host, made once, has none.
    served: BTreeMap<u64, Option<Series>>,
    current: BTreeMap<Series, u64>,
    turned_ms: u64,
}

impl Sessions {
    fn phase(&self, session: u64) -> Phase {
        if self.served.contains_key(&session) { Phase::Served } else { Phase::Unknown }
    }

    fn step(&self, session: u64, event: Event) {
        let next = table::next(TABLE, self.phase(session), event);
        assert!(next.is_some(), "session {session} is {:?} at {event:?}: its driver gives each number once", self.phase(session));
    }

    /// A connection was greeted. Returns the earlier one of its series: the driver ends it before it reads the new one.
    pub fn on_greeted(&mut self, session: u64, series: Option<Series>) -> Option<u64> {
        self.step(session, Event::Greet);
        self.served.insert(session, series);
        let earlier = self.current.insert(series?, session)?;
        self.step(earlier, Event::Succeed);
        self.served.remove(&earlier);
        Some(earlier)
    }

    /// A connection ended. One that is not served is no news.
    pub fn on_ended(&mut self, session: u64) {
        if !self.serves(session) {
            return;
        }
        self.step(session, Event::End);
        if let Some(Some(series)) = self.served.remove(&session)
            && self.current.get(&series) == Some(&session)
        {
            self.current.remove(&series);
        }
    }

    /// True if the connection's commands may be applied.
    pub fn serves(&self, session: u64) -> bool {
        self.served.contains_key(&session)
    }

    /// The service is about to serve a connection. True after a pause: the driver first ends each connection whose peer is gone.
    ///
    /// `now_ms` is a clock that never goes back.
    pub fn on_turn(&mut self, now_ms: u64) -> bool {
        let paused_ms = now_ms.saturating_sub(std::mem::replace(&mut self.turned_ms, now_ms));
        paused_ms >= PAUSE_MS
    }

    /// The service waited for events, which tell of peers that are gone: that was no pause.
    pub fn on_waited(&mut self, now_ms: u64) {
        self.turned_ms = now_ms;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table() {
        let expected = "\
Greet          Unknown                            -> Served
Succeed        Served                             -> Ended
End            Served                             -> Ended
";
        assert_eq!(table::print(TABLE), expected);
        assert_eq!(table::contradiction(TABLE), None);
    }

    #[test]
    fn the_next_connection_of_a_series_ends_the_one_before() {
        let mut sessions = Sessions::default();
        assert_eq!(sessions.on_greeted(1, Some(Series(7))), None);
        assert_eq!(sessions.on_greeted(2, Some(Series(8))), None);
        assert_eq!(sessions.on_greeted(3, Some(Series(7))), Some(1));
        assert!(!sessions.serves(1) && sessions.serves(2) && sessions.serves(3));
        // The driver tells of the end that it was told to make.
        sessions.on_ended(1);
        assert_eq!(sessions.on_greeted(4, Some(Series(7))), Some(3), "the end of the first is no news of the second");
    }

    #[test]
    fn one_that_ended_by_itself_has_no_successor() {
        let mut sessions = Sessions::default();
        assert_eq!(sessions.on_greeted(1, Some(Series(7))), None);
        sessions.on_ended(1);
        assert_eq!(sessions.on_greeted(2, Some(Series(7))), None);
    }

    #[test]
    fn rings_of_this_host_have_no_series() {
        let mut sessions = Sessions::default();
        assert_eq!((sessions.on_greeted(1, None), sessions.on_greeted(2, None)), (None, None));
        assert!(sessions.serves(1) && sessions.serves(2));
    }

    #[test]
    fn a_pause_is_noticed_once() {
        let mut sessions = Sessions::default();
        assert!(!sessions.on_turn(PAUSE_MS - 1));
        assert!(sessions.on_turn(2 * PAUSE_MS));
        assert!(!sessions.on_turn(2 * PAUSE_MS + 1));
        sessions.on_waited(9 * PAUSE_MS);
        assert!(!sessions.on_turn(9 * PAUSE_MS + 1), "events tell who is gone");
    }
}
