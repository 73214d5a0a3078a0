//! Hosts that want to join a home, and cannot yet. A home waits for obstacles that pass by themselves, and for no longer than its patience.
//!
//! ```text
//!            admit, or refuse
//! comes ------------------------> answered
//!   |  passes                        ^
//!   v                                |  admit, refuse; or it passes still, and patience is over
//! waits ---- due, again and again ---+
//!   |
//!   +---- it has left, its life is over, or the home begins anew: dropped without an answer
//! ```
//!
//! Each host is answered once, or is gone. A host that leaves while it waits has another key by then. Let in by the old key, it would be a
//! sharer that does not know of it. Hosts are tried in the order in which they came. Two obstacles pass by themselves: commands that were
//! under way when a host came, and the return of a home taken for lost. All else is refused at once, because waiting does not help. So are
//! hosts for which there is no room: each host is there once for each region.

use crate::limits::JOIN_QUEUE_COUNT_MAX;
use std::collections::VecDeque;

/// A host that wants to join, until it is answered.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Waiting<J> {
    /// The waiting host.
    pub who: J,
    /// When it is refused, if it is not let in.
    until_ms: u64,
}

/// The outcome of a try.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Tried<T, E> {
    /// Let in.
    Admitted(T),
    /// Refused for good.
    Refused(E),
    /// Refused for the moment; it passes by itself.
    NotYet(E),
}

/// The hosts that wait at a home. `J` is a host's request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct JoinQueue<J> {
    patience_ms: u64,
    waiting: VecDeque<Waiting<J>>,
}

impl<J> JoinQueue<J> {
    /// An empty queue. A host waits at most `patience_ms`.
    pub fn new(patience_ms: u64) -> JoinQueue<J> {
        JoinQueue { patience_ms, waiting: VecDeque::new() }
    }

    /// True if no host waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The waiting hosts.
    pub fn iter(&self) -> impl Iterator<Item = &J> {
        self.waiting.iter().map(|waiting| &waiting.who)
    }

    /// A host comes. It is tried at once.
    pub fn come(&self, who: J, now_ms: u64) -> Waiting<J> {
        Waiting { who, until_ms: now_ms.saturating_add(self.patience_ms) }
    }

    /// The waiting hosts, to be tried in this order; report each by [`JoinQueue::tried`].
    #[must_use = "they wait for an answer"]
    pub fn due(&mut self) -> VecDeque<Waiting<J>> {
        std::mem::take(&mut self.waiting)
    }

    /// A host was tried. Returns the answer that it gets, unless it waits on.
    #[must_use = "it waits for an answer"]
    pub fn tried<T, E>(&mut self, waiting: Waiting<J>, tried: Tried<T, E>, now_ms: u64) -> Option<(J, Result<T, E>)> {
        match tried {
            Tried::Admitted(joined) => Some((waiting.who, Ok(joined))),
            Tried::Refused(error) => Some((waiting.who, Err(error))),
            Tried::NotYet(error) if now_ms >= waiting.until_ms || self.waiting.len() >= JOIN_QUEUE_COUNT_MAX => {
                Some((waiting.who, Err(error)))
            }
            Tried::NotYet(_) => {
                self.waiting.push_back(waiting);
                None
            }
        }
    }

    /// Some have ended, and hear nothing. Returns them.
    pub fn drop_those(&mut self, has_ended: impl Fn(&J) -> bool) -> Vec<J> {
        let (ended, rest) =
            std::mem::take(&mut self.waiting).into_iter().partition::<Vec<_>, _>(|waiting| has_ended(&waiting.who));
        self.waiting = rest.into();
        ended.into_iter().map(|waiting| waiting.who).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn not_yet(join_queue: &mut JoinQueue<u8>, waiting: Waiting<u8>, now_ms: u64) -> Option<(u8, Result<(), &'static str>)> {
        join_queue.tried(waiting, Tried::NotYet("busy"), now_ms)
    }

    #[test]
    fn who_waits_is_tried_in_order_and_refused_when_patience_is_over() {
        let mut join_queue = JoinQueue::new(100);
        for (who, now_ms) in [(1, 0), (2, 50)] {
            let waiting = join_queue.come(who, now_ms);
            assert_eq!(not_yet(&mut join_queue, waiting, now_ms), None);
        }
        let mut due = join_queue.due();
        assert!(join_queue.is_empty());
        assert_eq!(not_yet(&mut join_queue, due.pop_front().unwrap(), 100), Some((1, Err("busy"))));
        assert_eq!(not_yet(&mut join_queue, due.pop_front().unwrap(), 100), None);
        let waiting = join_queue.due().pop_front().unwrap();
        assert_eq!(join_queue.tried::<_, ()>(waiting, Tried::Admitted("in"), 500), Some((2, Ok("in"))));
    }

    #[test]
    fn what_does_not_pass_is_refused_at_once_and_who_has_ended_hears_nothing() {
        let mut join_queue = JoinQueue::new(100);
        let waiting = join_queue.come(1, 0);
        assert_eq!(join_queue.tried::<(), _>(waiting, Tried::Refused("mapped otherwise"), 0), Some((1, Err("mapped otherwise"))));
        for who in [1, 2, 3] {
            let waiting = join_queue.come(who, 0);
            assert_eq!(not_yet(&mut join_queue, waiting, 0), None);
        }
        assert_eq!(join_queue.drop_those(|who| *who == 2), [2]);
        let who: Vec<u8> = join_queue.due().into_iter().map(|waiting| waiting.who).collect();
        assert_eq!(who, [1, 3]);
    }

    #[test]
    fn those_who_come_without_end_do_not_fill_the_memory() {
        let mut join_queue = JoinQueue::new(100);
        let come = |join_queue: &mut JoinQueue<u8>, who| {
            let waiting = join_queue.come(who, 0);
            not_yet(join_queue, waiting, 0)
        };
        assert!((0..JOIN_QUEUE_COUNT_MAX).all(|_| come(&mut join_queue, 1).is_none()));
        assert_eq!(come(&mut join_queue, 2), Some((2, Err("busy"))));
        join_queue.drop_those(|who| *who == 1);
        assert_eq!(come(&mut join_queue, 2), None);
    }
}
