//! Hosts that a home could not reach and does without, until they have heard so.
//!
//! ```text
//!            cannot be reached             Forgot, or its life is over
//!   a sharer ------------------> fenced -------------------------------> forgotten
//!                                |    ^
//!                                +----+ due: is told, again and again
//! ```
//!
//! A fenced host may live, not know of it, and use stale copies. So it is told to drop all. Only `Forgot` confirms that. A `Leave`
//! crossed the notice, and its host waits until a home says that it does not know it.

use super::life::{Life, Over};
use super::sharers::Sharer;
use crate::id::NodeId;
use crate::limits::{ASK_AGAIN_MS, FENCED_COUNT_MAX};
use std::collections::VecDeque;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct FencedHost<N> {
    node: NodeId,
    life: Life,
    share: u64,
    notice: N,
    told_ms: Option<u64>,
}

/// The hosts that homes of one node did without. `N` is the notice to such a host.
///
/// - At most [`FENCED_COUNT_MAX`]; the oldest goes first.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FencedHosts<N>(VecDeque<FencedHost<N>>);

impl<N> Default for FencedHosts<N> {
    fn default() -> FencedHosts<N> {
        FencedHosts(VecDeque::new())
    }
}

impl<N: Clone> FencedHosts<N> {
    /// A home does without this sharer, which may live.
    pub fn fence(&mut self, sharer: &Sharer, notice: N) {
        if self.0.len() >= FENCED_COUNT_MAX {
            self.0.pop_front();
        }
        let Sharer { who, share, .. } = sharer;
        self.0.push_back(FencedHost { node: who.node, life: who.life, share: *share, notice, told_ms: None });
    }

    /// True if no host is to be told.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Notices due at `now_ms`: hosts not told for [`ASK_AGAIN_MS`], because a connection that breaks may lose a notice.
    pub fn due(&mut self, now_ms: u64) -> Vec<N> {
        let is_due = |told_ms: u64| now_ms.saturating_sub(told_ms) >= ASK_AGAIN_MS;
        let mut due = Vec::new();
        for host in self.0.iter_mut().filter(|host| host.told_ms.is_none_or(is_due)) {
            host.told_ms = Some(now_ms);
            due.push(host.notice.clone());
        }
        due
    }

    /// The host that had this share has dropped all.
    pub fn on_forgot(&mut self, share: u64) {
        self.0.retain(|host| host.share != share);
    }

    /// Lives of a node are over: nobody there is to be told. One that cannot be reached may live.
    pub fn on_lives_over(&mut self, node: NodeId, over: Over) {
        if over != Over::All {
            self.0.retain(|host| host.node != node || !host.life.is_over(over));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{Epoch, Incarnation, Rights};
    use crate::page::HostId;
    use crate::page::membership::sharers::{Joiner, Sharers};

    fn sharer(node: u32, epoch: u64, share: u64) -> Sharer {
        let life = Life { epoch: Epoch(epoch), process: Some(Incarnation(epoch.into())) };
        let who = Joiner { node: NodeId(node), life, address: String::new(), key: share, readers: None };
        let mut sharers = Sharers::new(HostId(0));
        let (host, _) = sharers.join(who, (share, Rights::Write), false);
        sharers.get(host).expect("it has joined").clone()
    }

    #[test]
    fn a_host_is_told_again_and_again_until_it_has_dropped_all() {
        let mut fenced = FencedHosts::default();
        fenced.fence(&sharer(1, 1, 10), 'a');
        assert_eq!(fenced.due(500), ['a']);
        fenced.fence(&sharer(2, 1, 11), 'b');
        assert_eq!(fenced.due(500 + ASK_AGAIN_MS - 1), ['b']);
        assert_eq!(fenced.due(500 + ASK_AGAIN_MS), ['a']);
        fenced.on_forgot(10);
        assert_eq!(fenced.due(u64::MAX), ['b']);
        fenced.on_forgot(11);
        assert!(fenced.is_empty());
    }

    #[test]
    fn a_life_that_goes_on_is_told_although_one_before_is_over() {
        let mut fenced = FencedHosts::default();
        fenced.fence(&sharer(1, 5, 10), 'a');
        for over in [Over::UpTo(Epoch(4)), Over::AllBut(Incarnation(5)), Over::All] {
            fenced.on_lives_over(NodeId(1), over);
        }
        fenced.on_lives_over(NodeId(2), Over::UpTo(Epoch(5)));
        assert_eq!(fenced.due(0), ['a']);
        fenced.on_lives_over(NodeId(1), Over::UpTo(Epoch(5)));
        assert!(fenced.is_empty());
    }

    #[test]
    fn hosts_without_end_do_not_fill_the_memory() {
        let mut fenced = FencedHosts::default();
        (0..=FENCED_COUNT_MAX as u64).for_each(|share| fenced.fence(&sharer(1, 1, share), share));
        assert_eq!(fenced.due(0).first(), Some(&1), "the oldest goes first");
    }
}
