//! Waiting for what other threads of this host, or its node, do to a page; and telling those who wait.

use super::denied::{ClaimPatience, Denied, Here};
use super::resolver::Resolver;
use crate::client::shared::endpoint::Broken;
use crate::client::shared::fault_contexts::{FaultContextGuard, LANE_PAGE_COUNT, Tools};
use crate::client::shared::orders::FindHomes;
use hanare_protocol::Result;
use hanare_protocol::limits::SPIN_ANSWER_US;
use hanare_protocol::page::word::{Changed, PageWord};
use hanare_protocol::wire::exchange::take_over_head;
use hanare_ring::wait::{Backoff, Step};
use rustix::event::Timespec;
use rustix::thread::futex;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

/// Time that a thread sleeps before it looks again by itself.
const NAP: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// Time that a thread yields for others before it sleeps. They are three hops away, and a wake costs as much as those.
const SPIN_OTHERS_US: u64 = 2 * SPIN_ANSWER_US;

impl Resolver {
    pub(super) fn is_claimed_by(&self, page: u64, slot: u16) -> bool {
        let word = self.words.look(page);
        word.is_claimed() && word.claimer() == slot
    }

    /// True if a claim of this slot still waits for a reply.
    pub(super) fn is_asked_for_by(&self, page: u64, slot: u16) -> bool {
        let word = self.words.look(page);
        word.is_asked_for() && word.claimer() == slot
    }

    pub(super) fn fail(&self, page: u64, slot: u16) {
        if let Ok(Some(changed)) = self.words.fail(page, slot) {
            self.wake(page, changed);
        }
    }

    /// A thread does not know what a home made of its requests. Its claims stay open, and this host's node asks for them again. A page that
    /// is granted to nobody would be lost when this host leaves. If the node hears nothing, all of it is given up.
    pub(super) fn hand_over(&self, tools: &mut Tools, lane: usize, count: usize) {
        let head = take_over_head(self.gid, self.slot(lane, 0), count as u16).encode();
        let tell = |tools: &Tools| tools.endpoints[self.homes.own()].send(&[&head]).is_ok();
        let is_told = tell(tools) || tools.renew(self.homes.own(), Broken::Closed) && tell(tools);
        if !is_told {
            return self.fail_all(tools, lane, count);
        }
        for (k, page) in tools.numbers[..count].iter().enumerate() {
            self.ahead[lane * LANE_PAGE_COUNT + k].store(page + 1, Relaxed);
        }
    }

    /// Ends the fetches of a context's message.
    pub(super) fn fail_all(&self, tools: &Tools, lane: usize, count: usize) {
        (0..count).for_each(|k| self.fail(tools.numbers[k], self.slot(lane, k)));
    }

    /// The word on which threads wait for a page: the low half of its word.
    pub(super) fn futex(&self, page: u64) -> &AtomicU32 {
        let window = self.words.memory().window(self.words.at(page) * 8, 4);
        // SAFETY: a word of memory that lives as long as this, at its boundary; it is touched by atomics only.
        unsafe { AtomicU32::from_ptr(window.ptr().cast()) }
    }

    pub(super) fn wake(&self, page: u64, changed: Changed) {
        if changed.wakes {
            let _ = futex::wake(self.futex(page), futex::Flags::empty(), i32::MAX as u32);
        }
    }

    /// Waits until a page's word is another than `seen`.
    pub(super) fn doze(&self, page: u64, seen: PageWord, patience: &mut ClaimPatience) -> Result<(), Denied> {
        let mut backoff = Backoff::with_budget(Duration::from_micros(SPIN_OTHERS_US));
        loop {
            let now = self.words.look(page);
            if now.state() != seen.state() || now.claimer() != seen.claimer() || now.version() != seen.version() {
                // Others are served: that is no silence, however many there are.
                patience.begin_anew();
                return Ok(());
            }
            if backoff.step() == Step::Park {
                patience.check()?;
                if let Some(value) = self.words.doze(page, now) {
                    let _ = futex::wait(self.futex(page), futex::Flags::empty(), value, Some(&NAP));
                }
                return Ok(());
            }
        }
    }

    /// Waits until a lane's first slot has what was handed over to the node in its name.
    pub(super) fn await_first_slot(
        &self,
        slot: u16,
        lane: &mut FaultContextGuard<'_>,
        patience: &mut ClaimPatience,
    ) -> Result<(), Denied> {
        match self.ahead[lane.index() * LANE_PAGE_COUNT].load(Relaxed).checked_sub(1) {
            Some(page) if !self.is_slot_free(lane.index(), 0) => self.await_claim(page, slot, lane, patience),
            _ => Ok(()),
        }
    }

    /// True if a page that was not given is to be asked for again. A reset of one connection is not the end of a home. Bytes with copies may
    /// have another one, which this host's node knows from then on. The node has taken over what was claimed.
    pub(super) fn may_ask_again(&self, tools: &mut Tools, patience: &mut ClaimPatience, denied: &Denied) -> bool {
        let (home, why) = match denied {
            Denied::Home(home, why) => (*home, *why),
            Denied::Here(Here::Late) if self.homes.moves() => (0, Broken::TimedOut),
            _ => return false,
        };
        patience.begin_anew();
        tools.renew_again(&mut patience.renewals, home, Some(why))
    }

    /// Waits until what this slot claimed has come, or has failed: this host's node brings it.
    pub(super) fn await_claim(
        &self,
        page: u64,
        slot: u16,
        lane: &mut FaultContextGuard<'_>,
        patience: &mut ClaimPatience,
    ) -> Result<(), Denied> {
        loop {
            if !self.is_claimed_by(page, slot) {
                return Ok(());
            }
            let now = self.words.look(page);
            let mut dozed = self.doze(page, now, patience);
            let is_claimed = dozed.is_ok() && self.is_claimed_by(page, slot);
            // The end of one connection is not that of the node, if it takes another.
            if is_claimed && lane.endpoint(self.homes.own()).is_ended() && !lane.tools().renew(self.homes.own(), Broken::Closed) {
                dozed = Err(Denied::Here(Here::Ended));
            } else if is_claimed && self.homes.moves() && lane.endpoint(0).is_ended() {
                // The node hears of the next home from this thread alone.
                dozed = Err(Denied::Home(0, Broken::Closed));
            }
            if let Err(denied) = &dozed
                && self.homes.moves()
                && self.may_ask_again(lane.tools(), patience, denied)
            {
                continue;
            }
            if let Err(denied) = dozed {
                self.fail(page, slot);
                return Err(denied);
            }
        }
    }
}
