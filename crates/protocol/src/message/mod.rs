//! Messages with a head and a body: which receive gets which message. Decided by the receiver, for itself.
//!
//! A message has an *envelope*: who sends it, a context and a tag. A receive wants a context, and a sender and a tag or any. **Source**: [D3 §6.1]
//! rank, context and tag are compared by the receiving host; order and wildcards as in MPI.
//!
//! ```text
//! on_arrival ──> the first posted receive that fits ──> matched        on_post ──> the first kept message that fits ──> matched
//!            └─> none: kept                                            └─> none: posted
//! ```
//!
//! - No kept message fits a posted receive.
//! - A receive takes two fitting messages of one sender in the order in which they were sent: they arrive so.

pub mod header;
pub mod part;
pub mod receive_ring;

use std::collections::VecDeque;

/// A message's description beside its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Envelope {
    /// The party that sends it.
    pub from: u32,
    /// Keeps the messages of libraries and phases apart.
    pub context: u32,
    /// The sender's tag.
    pub tag: u32,
}

/// Messages that a receive takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Wanted {
    /// From whom; `None` from anybody.
    pub from: Option<u32>,
    /// In which context.
    pub context: u32,
    /// The tag; `None` for any.
    pub tag: Option<u32>,
}

impl Wanted {
    /// True if it takes such a message.
    pub fn fits(&self, envelope: &Envelope) -> bool {
        self.context == envelope.context
            && self.from.is_none_or(|from| from == envelope.from)
            && self.tag.is_none_or(|tag| tag == envelope.tag)
    }
}

/// The number of a posted receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PostId(pub u64);

/// Immediate result of a receive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Posted<M> {
    /// The receive has a message that had come before.
    Matched(Envelope, M),
    /// The receive waits: [`Matching::on_arrival`] names it when its message comes.
    Waits(PostId),
}

/// Receives that wait and messages that nobody wanted so far, both in their order.
#[derive(Clone, Debug)]
pub struct Matching<M> {
    posted: VecDeque<(PostId, Wanted)>,
    kept: VecDeque<(Envelope, M)>,
    next: u64,
}

impl<M> Default for Matching<M> {
    fn default() -> Matching<M> {
        Matching { posted: VecDeque::new(), kept: VecDeque::new(), next: 0 }
    }
}

impl<M> Matching<M> {
    /// A receive is posted.
    ///
    /// **Cost**: a look at each kept message up to the one that fits.
    pub fn on_post(&mut self, want: Wanted) -> Posted<M> {
        let found = self.kept.iter().position(|(envelope, _)| want.fits(envelope));
        if let Some((envelope, message)) = found.and_then(|at| self.kept.remove(at)) {
            return Posted::Matched(envelope, message);
        }
        let id = PostId(self.next);
        self.next += 1;
        self.posted.push_back((id, want));
        Posted::Waits(id)
    }

    /// A message arrives. Gives it back with the receive that gets it; `None` where it is kept.
    ///
    /// **Cost**: a look at each posted receive up to the one that fits.
    pub fn on_arrival(&mut self, envelope: Envelope, message: M) -> Option<(PostId, M)> {
        let found = self.posted.iter().position(|(_, want)| want.fits(&envelope));
        match found.and_then(|at| self.posted.remove(at)) {
            Some((id, _)) => Some((id, message)),
            None => {
                self.kept.push_back((envelope, message));
                None
            }
        }
    }

    /// The kept message that such a receive would get.
    pub fn probe(&self, want: &Wanted) -> Option<(&Envelope, &M)> {
        self.kept.iter().find(|(envelope, _)| want.fits(envelope)).map(|(envelope, message)| (envelope, message))
    }

    /// Takes a receive back; false where it has its message, or was taken back before.
    pub fn cancel(&mut self, id: PostId) -> bool {
        let at = self.posted.iter().position(|(posted, _)| *posted == id);
        at.and_then(|at| self.posted.remove(at)).is_some()
    }

    /// Messages that a waiting receive takes.
    pub fn want(&self, id: PostId) -> Option<Wanted> {
        self.posted.iter().find(|(posted, _)| *posted == id).map(|(_, want)| *want)
    }

    /// Number of kept messages.
    pub fn kept_count(&self) -> usize {
        self.kept.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    enum Event {
        Arrive(Envelope),
        Post(Wanted),
        /// Cancels a receive, by its index among those so far.
        Cancel(usize),
        Probe(Wanted),
    }

    fn envelopes() -> impl Strategy<Value = Envelope> {
        (0u32..3, 0u32..2, 0u32..3).prop_map(|(from, context, tag)| Envelope { from, context, tag })
    }

    fn wants() -> impl Strategy<Value = Wanted> {
        let any = |what: std::ops::Range<u32>| proptest::option::of(what);
        (any(0..3), 0u32..2, any(0..3)).prop_map(|(from, context, tag)| Wanted { from, context, tag })
    }

    fn events() -> impl Strategy<Value = Vec<Event>> {
        let event = prop_oneof![
            4 => envelopes().prop_map(Event::Arrive),
            4 => wants().prop_map(Event::Post),
            1 => (0usize..20).prop_map(Event::Cancel),
            1 => wants().prop_map(Event::Probe),
        ];
        proptest::collection::vec(event, 0..60)
    }

    /// Plays the whole log again with nothing but its own text: which arrival each receive has, by their places in the log.
    fn naive(log: &[Event]) -> Vec<(usize, usize)> {
        let mut pairs: Vec<(usize, usize)> = Vec::new();
        let mut cancelled: Vec<usize> = Vec::new();
        let posts: Vec<usize> = (0..log.len()).filter(|at| matches!(log[*at], Event::Post(_))).collect();
        for now in 0..log.len() {
            let is_free = |at: &usize, pairs: &[(usize, usize)]| pairs.iter().all(|(post, arrival)| post != at && arrival != at);
            match &log[now] {
                Event::Post(want) => {
                    let fits = |at: &usize| matches!(&log[*at], Event::Arrive(envelope) if want.fits(envelope));
                    if let Some(at) = (0..now).filter(fits).find(|at| is_free(at, &pairs)) {
                        pairs.push((now, at));
                    }
                }
                Event::Arrive(envelope) => {
                    let fits = |at: &usize| matches!(&log[*at], Event::Post(want) if want.fits(envelope));
                    let waits = |at: &usize| is_free(at, &pairs) && !cancelled.contains(at);
                    if let Some(at) = (0..now).filter(fits).find(waits) {
                        pairs.push((at, now));
                    }
                }
                Event::Cancel(place) => cancelled.extend(posts.get(*place).filter(|at| **at < now && is_free(at, &pairs))),
                Event::Probe(_) => {}
            }
        }
        pairs
    }

    proptest! {
        // FEATURE: D3-F14
        #[test]
        fn any_order_of_arrivals_and_receives_matches_as_a_log_played_anew(log in events()) {
            let mut matching = Matching::default();
            let mut ids: Vec<(usize, Option<PostId>)> = Vec::new();
            let mut pairs = Vec::new();
            for (now, event) in log.iter().enumerate() {
                match event {
                    Event::Post(want) => match matching.on_post(*want) {
                        Posted::Matched(envelope, arrival) => {
                            prop_assert!(matches!(&log[arrival], Event::Arrive(sent) if *sent == envelope));
                            pairs.push((now, arrival));
                            ids.push((now, None));
                        }
                        Posted::Waits(id) => {
                            prop_assert_eq!(matching.want(id), Some(*want));
                            ids.push((now, Some(id)));
                        }
                    },
                    Event::Arrive(envelope) => {
                        if let Some((id, message)) = matching.on_arrival(*envelope, now) {
                            prop_assert_eq!(message, now);
                            pairs.push((ids.iter().find(|(_, posted)| *posted == Some(id)).unwrap().0, now));
                        }
                    }
                    Event::Cancel(place) => {
                        if let Some((_, Some(id))) = ids.get(*place) {
                            let was_waiting = matching.want(*id).is_some();
                            prop_assert_eq!(matching.cancel(*id), was_waiting);
                            prop_assert!(!matching.cancel(*id), "once");
                        }
                    }
                    Event::Probe(want) => {
                        let seen = matching.probe(want).map(|(_, message)| *message);
                        let mut asked = log[..now].to_vec();
                        asked.push(Event::Post(*want));
                        let gets = naive(&asked).into_iter().find(|(post, _)| *post == now).map(|(_, arrival)| arrival);
                        prop_assert_eq!(seen, gets);
                    }
                }
                prop_assert_eq!(&pairs, &naive(&log[..=now]));
            }
        }
    }
}
