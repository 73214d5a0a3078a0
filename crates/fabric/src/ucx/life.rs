//! Life of the peer. It decides when a link over UCX has ended, by the connection beside it, the endpoint and the frames.
//!
//! The two sides greeted each other over TCP, and that connection stays open. A side that goes in good order says there how many frames it
//! sent. The kernel closes it when a process dies, at once and on every transport. UCX itself finds the death of a peer's host by its
//! keep-alive.
//!
//! ```text
//!             Bye                    Settled: all its frames were taken, or they are not coming
//!   Live ------------> Parting ------------------------------------+
//!     |                                                            v
//!     +-------------> Orphaned -----------------------------------> Over
//!       Gone                         Settled: what had arrived was taken, and nothing more comes
//! ```

use hanare_protocol::table::{self, Row};
use std::time::{Duration, Instant};

/// Phase of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The peer is there, as far as is known.
    Live,
    /// The peer said that it goes.
    Parting,
    /// The peer is gone, or the way to it.
    Orphaned,
    /// The peer sends no more.
    Over,
}

/// An event of the endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// The peer says that it goes, and how many frames it sent.
    Bye,
    /// The connection beside the link closed without a word, or the endpoint broke.
    Gone,
    /// All arrivals were taken.
    Settled,
}

/// Every transition.
pub(super) const TABLE: &[Row<Phase, Event>] = &[
    Row { event: Event::Bye, from: &[Phase::Live], to: Phase::Parting },
    Row { event: Event::Gone, from: &[Phase::Live], to: Phase::Orphaned },
    Row { event: Event::Gone, from: &[Phase::Parting], to: Phase::Parting },
    Row { event: Event::Gone, from: &[Phase::Orphaned], to: Phase::Orphaned },
    Row { event: Event::Settled, from: &[Phase::Parting, Phase::Orphaned], to: Phase::Over },
];

/// Time to wait for missing frames of a parting peer while none comes. The frames left before the peer said that it goes.
pub(super) const PARTING_TIME: Duration = Duration::from_secs(2);

/// Time without a frame after which a dead peer's last frames have all come.
pub(super) const QUIET_TIME: Duration = Duration::from_millis(50);

/// The state, with its data.
#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Live,
    /// Time of the last arrival, and number of frames that the peer sent in all.
    Parting {
        quiet_since: Instant,
        frame_count: u64,
    },
    /// Time of the last arrival, and the sign of the peer's end.
    Orphaned {
        quiet_since: Instant,
        reason: String,
    },
    /// The reason that users see.
    Over {
        reason: String,
    },
}

/// State of the peer's life.
#[derive(Clone, Debug)]
pub(super) struct Life(State);

impl Life {
    pub(super) fn new() -> Life {
        Life(State::Live)
    }

    pub(super) fn phase(&self) -> Phase {
        match &self.0 {
            State::Live => Phase::Live,
            State::Parting { .. } => Phase::Parting,
            State::Orphaned { .. } => Phase::Orphaned,
            State::Over { .. } => Phase::Over,
        }
    }

    fn allows(&self, event: Event, to: Phase) -> bool {
        table::next(TABLE, self.phase(), event) == Some(to)
    }

    /// The peer says that it goes. A second time is nonsense, and changes nothing.
    pub(super) fn on_bye(&mut self, frame_count: u64, now: Instant) {
        if self.allows(Event::Bye, Phase::Parting) {
            self.0 = State::Parting { quiet_since: now, frame_count };
        }
    }

    /// The peer is gone; the first reason stands.
    pub(super) fn on_gone(&mut self, reason: &str, now: Instant) {
        if self.phase() != Phase::Orphaned && self.allows(Event::Gone, Phase::Orphaned) {
            self.0 = State::Orphaned { quiet_since: now, reason: reason.to_owned() };
        }
    }

    /// Reports a look at arrivals. `taken` frames were taken in all; `is_idle` when nothing came, `is_held` when bytes wait for the sink.
    pub(super) fn on_look(&mut self, taken: u64, is_idle: bool, is_held: bool, now: Instant) {
        let reason = match &mut self.0 {
            State::Parting { frame_count, .. } if taken >= *frame_count => "it closed the link".to_owned(),
            State::Parting { quiet_since, .. } if !is_idle || is_held => {
                *quiet_since = now;
                return;
            }
            State::Parting { quiet_since, .. } if now.duration_since(*quiet_since) >= PARTING_TIME => {
                "it closed the link, and its last messages were lost".to_owned()
            }
            State::Orphaned { quiet_since, .. } if !is_idle || is_held => {
                *quiet_since = now;
                return;
            }
            State::Orphaned { quiet_since, reason } if now.duration_since(*quiet_since) >= QUIET_TIME => std::mem::take(reason),
            _ => return,
        };
        if self.allows(Event::Settled, Phase::Over) {
            self.0 = State::Over { reason };
        }
    }

    /// The reason for the end, once the peer's life is over.
    pub(super) fn over(&self) -> Option<&str> {
        match &self.0 {
            State::Over { reason } => Some(reason),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table() {
        let expected = "\
Bye            Live                               -> Parting
Gone           Live                               -> Orphaned
Gone           Parting                            -> Parting
Gone           Orphaned                           -> Orphaned
Settled        Parting, Orphaned                  -> Over
";
        assert_eq!(table::print(TABLE), expected);
        assert_eq!(table::contradiction(TABLE), None);
    }

    #[test]
    fn a_parting_peer_is_gone_when_its_frames_were_taken() {
        let now = Instant::now();
        let mut life = Life::new();
        life.on_bye(3, now);
        life.on_gone("its process ended", now);
        life.on_look(2, true, false, now + PARTING_TIME / 2);
        assert_eq!(life.phase(), Phase::Parting);
        life.on_look(3, true, false, now + PARTING_TIME / 2);
        assert_eq!(life.over(), Some("it closed the link"));
    }

    #[test]
    fn frames_that_never_come_are_not_waited_for_but_those_that_are_held_are() {
        let now = Instant::now();
        let mut life = Life::new();
        life.on_bye(3, now);
        life.on_look(2, true, true, now + 2 * PARTING_TIME);
        assert_eq!(life.phase(), Phase::Parting);
        life.on_look(2, true, false, now + 3 * PARTING_TIME);
        assert!(life.over().is_some_and(|reason| reason.contains("lost")));
    }

    #[test]
    fn a_dead_peer_s_last_frames_are_taken_first() {
        let now = Instant::now();
        let mut life = Life::new();
        life.on_gone("its process ended", now);
        life.on_gone("another reason", now);
        life.on_look(0, false, false, now + QUIET_TIME);
        life.on_look(1, true, false, now + QUIET_TIME + QUIET_TIME / 2);
        assert_eq!(life.phase(), Phase::Orphaned, "something came half a time ago");
        life.on_look(1, true, false, now + 2 * QUIET_TIME);
        assert_eq!(life.over(), Some("its process ended"));
        life.on_bye(3, now);
        assert_eq!(life.phase(), Phase::Over, "the dead say nothing");
    }
}
