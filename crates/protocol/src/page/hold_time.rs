//! Hold time: the host that may keep pages of a region which hosts take from each other, and how long. Decided at their home.
//!
//! Two programs that write different bytes of the same pages would take each page from each other at every access. So while such pages go
//! to and fro often, one host at a time has the *hold time*. It keeps its pages until the time is over, as long as it works on them
//! ([`super::host`] sees to that). Its own requests are served at once. Then the hold time passes to the host that has waited longest.
//!
//! ```text
//!            demand of a host, pages go to and fro            its time is over, a host was made to wait
//!   nobody ------------------------------------> one host -------------------------------------------> the next host
//!     ^                                              |
//!     +----- its time is over, and nobody waits -----+
//! ```
//!
//! A home has one hold time for all its pages. Else a program with one of its pages that waits for the next would delay all others for
//! nothing. A region at several homes has several. A host may wait at one home and be waited for at another, for two hold times at most.
//!
//! The directory knows nothing of it. A page that is kept for a while is a message that is on its way for a while.
//!
//! **Source**: the time window of Mirage (Fleisch and Popek 1989), which is one of each page.

use super::hosts::HostId;
use crate::limits::PAGE_HOLD_US;
use std::collections::VecDeque;

/// Returns within the time in which they are forgotten, from which on pages go to and fro often.
const HEAT_MIN: u32 = 16;
/// Most that are counted: what was is forgotten soon after it ended.
const HOTTEST: u32 = 2 * HEAT_MIN;
/// The time in which one return is forgotten. Two hold times: pages that move once a hold time are still seen.
const COOL_US: u64 = 2 * PAGE_HOLD_US as u64;

/// The host that may keep pages of a home.
///
/// **Cost**: some 50 bytes, and 2 for each host that waits for its hold time.
#[derive(Clone, Debug, Default)]
pub struct HoldTimes {
    /// Number of recent returns, and the time of the last count.
    heat: u32,
    heat_us: u64,
    holder: Option<HostId>,
    until_us: u64,
    /// Hosts that were made to wait, each once, in order.
    next: VecDeque<HostId>,
}

impl HoldTimes {
    /// A host asked for a page that it had before, and that others have to give up.
    pub fn on_return(&mut self, now_us: u64) {
        self.cool(now_us);
        self.heat = (self.heat + 1).min(HOTTEST);
    }

    /// The owner of a page is asked to give it up for a host. Returns for how many microseconds it may keep the page: 0, or until the end
    /// of its hold time.
    pub fn on_demand(&mut self, by: HostId, owner: HostId, now_us: u64) -> u32 {
        self.cool(now_us);
        self.pass_on(now_us);
        if self.heat < HEAT_MIN {
            (self.holder, self.next) = (None, VecDeque::new());
            return 0;
        }
        match self.holder {
            None => {
                self.begin(by, now_us);
                0
            }
            Some(holder) if holder == owner && by != owner => {
                if !self.next.contains(&by) {
                    self.next.push_back(by);
                }
                self.until_us.saturating_sub(now_us).min(u64::from(PAGE_HOLD_US)) as u32
            }
            Some(_) => 0,
        }
    }

    /// A host has left, or is lost.
    pub fn on_host_gone(&mut self, host: HostId) {
        self.holder = self.holder.filter(|holder| *holder != host);
        self.next.retain(|next| *next != host);
    }

    fn begin(&mut self, host: HostId, from_us: u64) {
        (self.holder, self.until_us) = (Some(host), from_us.saturating_add(u64::from(PAGE_HOLD_US)));
    }

    /// Hold times that are over pass to those who wait.
    fn pass_on(&mut self, now_us: u64) {
        while self.holder.is_some() && now_us >= self.until_us {
            match self.next.pop_front() {
                Some(next) => self.begin(next, self.until_us),
                None => self.holder = None,
            }
        }
    }

    /// Returns of long ago are forgotten.
    fn cool(&mut self, now_us: u64) {
        let forgotten = now_us.saturating_sub(self.heat_us) / COOL_US;
        if forgotten > 0 {
            self.heat = self.heat.saturating_sub(u32::try_from(forgotten).unwrap_or(u32::MAX));
            self.heat_us = now_us;
        }
    }
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "numbers of a test")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HOLD: u64 = PAGE_HOLD_US as u64;

    /// A home whose pages go to and fro.
    fn hot(now_us: u64) -> HoldTimes {
        let mut hold_times = HoldTimes::default();
        (0..HOTTEST).for_each(|_| hold_times.on_return(now_us));
        hold_times
    }

    #[test]
    fn nobody_keeps_a_page_that_moves_seldom() {
        let mut hold_times = HoldTimes::default();
        for turn in 0..1_000 {
            let now_us = turn * COOL_US;
            hold_times.on_return(now_us);
            let (by, owner) = (HostId((turn % 2) as u16), HostId((turn % 2) as u16 ^ 1));
            assert_eq!(hold_times.on_demand(by, owner, now_us), 0);
        }
        let mut hold_times = hot(0);
        assert_eq!(hold_times.on_demand(HostId(1), HostId(2), 0), 0);
        assert_ne!(hold_times.on_demand(HostId(2), HostId(1), 1), 0);
        let later = u64::from(HOTTEST) * COOL_US;
        assert_eq!([(1, 2), (2, 1)].map(|(by, owner)| hold_times.on_demand(HostId(by), HostId(owner), later)), [0, 0]);
    }

    #[test]
    fn two_hosts_have_it_in_turn() {
        let mut hold_times = hot(0);
        let (one, two) = (HostId(1), HostId(2));
        assert_eq!(hold_times.on_demand(one, two, 0), 0, "who asks first has it");
        assert_eq!(hold_times.on_demand(two, one, 100), PAGE_HOLD_US - 100);
        assert_eq!(hold_times.on_demand(one, two, 200), 0, "and gets all that it asks for");
        assert_eq!(hold_times.on_demand(one, two, HOLD + 100), PAGE_HOLD_US - 100, "the other's turn has come");
        assert_eq!(hold_times.on_demand(two, one, HOLD + 200), 0);
        hold_times.on_host_gone(two);
        assert_eq!(hold_times.on_demand(HostId(3), two, HOLD + 300), 0, "it is gone");
    }

    proptest! {
        /// At each moment at most one host is waited for. Nobody waits for longer than a hold time.
        #[test]
        fn one_host_at_a_time_has_it(steps in prop::collection::vec((0..4u16, 1..4u16, 0..HOLD), 1..200)) {
            let (mut hold_times, mut now_us) = (hot(0), 0);
            let mut last: Option<(HostId, u64)> = None;
            for (by, distance, after_us) in steps {
                now_us += after_us;
                hold_times.on_return(now_us);
                let (by, owner) = (HostId(by), HostId((by + distance) % 4));
                let hold_us = u64::from(hold_times.on_demand(by, owner, now_us));
                prop_assert!(hold_us <= HOLD);
                if hold_us == 0 {
                    continue;
                }
                let this = (owner, now_us + hold_us);
                let is_next = last.is_none_or(|last| last == this || last.1 <= now_us);
                prop_assert!(is_next, "{last:?} is not over, and {this:?} is waited for");
                last = Some(this);
            }
        }
    }

    #[test]
    fn all_have_their_turns_in_order() {
        let (mut hold_times, mut holders) = (hot(0), Vec::new());
        for step in 0..16 * 8 {
            let now_us = step * HOLD / 8;
            hold_times.on_return(now_us);
            for by in 0..4 {
                for owner in (0..4).filter(|owner| *owner != by) {
                    if hold_times.on_demand(HostId(by), HostId(owner), now_us) > 0 && holders.last() != Some(&owner) {
                        holders.push(owner);
                    }
                }
            }
        }
        assert!(holders.len() >= 15, "{holders:?}");
        let is_in_order = |turn: &[u16]| (0..4).all(|host| turn.contains(&host));
        assert!(holders[..holders.len() / 4 * 4].chunks(4).all(is_in_order), "{holders:?}");
    }
}
