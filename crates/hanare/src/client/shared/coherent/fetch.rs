//! Asking the home of a page, and of those behind it, and taking in what it grants.

use super::resolver::{Asked, Denied, Resolver};
use crate::client::shared::counters::seat;
use crate::client::shared::endpoint::Broken;
use crate::client::shared::lanes::{LANE_PAGE_COUNT, LaneGuard, Tools};
use hanare_memory::frames::Run;
use hanare_protocol::Result;
use hanare_protocol::limits::PAGE_LEN;
use hanare_protocol::page::{Access, Ticket, Version};
use hanare_protocol::wire::head::{Head, Kind};
use hanare_protocol::wire::page::{GRANTED_LEN, Granted, Outcome, Settled, WANT_LEN, Want};
use hanare_ring::page_word::word::State;
use hanare_ring::page_word::{Fault, Granted as Installed};
use std::sync::atomic::Ordering::Relaxed;

/// Pages received before they are put into the frames, while the next ones arrive.
const FILL_COUNT: usize = 16;
/// Pages fetched between two looks at how many frames there are.
const CROWD_COUNT: u64 = 256;

impl Resolver {
    /// Asks the home of a page that this seat claimed, and for neighbours.
    pub(super) fn fetch(
        &self,
        lane: &mut LaneGuard<'_>,
        page: u64,
        access: Access,
        has: Option<Version>,
        firm: bool,
    ) -> Result<Asked, Denied> {
        let (index, home) = (lane.index(), self.home_of(page));
        let (extra, is_stream) = self.window(page, self.homes[home].is_own);
        let tools = lane.tools();
        let put = |tools: &mut Tools, k: usize, page: u64, has: Option<Version>| {
            let seat = self.seat(index, k);
            let ticket = Ticket { seat, number: self.words.next_number(seat) };
            // Where a stream of faults goes on, others give up what it will touch next, too.
            let want = Want { page, ticket, access, has, firm: k == 0 && firm, tries: k > 0 && !is_stream };
            tools.numbers[k] = page;
            tools.message[k * WANT_LEN..(k + 1) * WANT_LEN].copy_from_slice(&want.encode());
        };
        put(tools, 0, page, has);
        let mut wanted = 1;
        while (wanted as u64) <= extra && wanted < LANE_PAGE_COUNT && self.is_seat_free(index, wanted) {
            let next = page + wanted as u64;
            if next >= self.frames.page_count() || self.home_of(next) != home {
                break;
            }
            let Some(has) = self.claim(next, self.seat(index, wanted), access) else { break };
            put(tools, wanted, next, has);
            wanted += 1;
        }
        let exchanged = self.exchange(tools, (home, wanted));
        if exchanged.is_err() {
            for k in 0..wanted {
                self.fail(tools.numbers[k], self.seat(index, k));
            }
        }
        exchanged.map_err(|broken| Denied::Home(home, broken))?;
        let seat = self.seat(index, 0);
        self.words.count(seat, if has.is_some() { seat::UPGRADED } else { seat::FETCHED }, wanted as u64);
        self.words.count(seat, seat::PREFETCHED, wanted as u64 - 1);
        let outcome = self.take_in(tools, index, (home, wanted))?;
        self.look_at_crowd(tools, wanted as u64);
        Ok(outcome)
    }

    /// Claims a neighbour that is not here in that way; returns the version of the copy that is.
    pub(super) fn claim(&self, page: u64, seat: u16, access: Access) -> Option<Option<Version>> {
        let is_wanted = match self.words.look(page).state() {
            Ok(State::Absent) => true,
            Ok(State::Shared) => access == Access::Write,
            _ => false,
        };
        if !is_wanted {
            return None;
        }
        match self.words.fault(page, seat, access) {
            Ok(Fault::Fetch { .. }) => Some(None),
            Ok(Fault::Upgrade { has }) => Some(Some(has)),
            Ok(Fault::Map(_)) => {
                self.leave(page, seat);
                None
            }
            Ok(Fault::Wait(_)) | Err(_) => None,
        }
    }

    /// Whether what a seat asked for ahead has come, so that it can ask again.
    pub(super) fn is_seat_free(&self, lane: usize, k: usize) -> bool {
        let ahead = &self.ahead[lane * LANE_PAGE_COUNT + k];
        let Some(page) = ahead.load(Relaxed).checked_sub(1) else { return true };
        let is_open = self.is_claimed_by(page, self.seat(lane, k));
        if !is_open {
            ahead.store(0, Relaxed);
        }
        !is_open
    }

    /// Sends the records in `message`, and receives those of the answer; the pages are still to come.
    fn exchange(&self, tools: &mut Tools, (home, count): (usize, usize)) -> Result<(), Broken> {
        tools.seq += 1;
        let body_len = (count * WANT_LEN) as u64;
        let head = Head { count: count as u32, body_len, detail: self.homes[home].share, ..Head::new(Kind::Want, tools.seq) };
        let endpoint = &tools.endpoints[home];
        endpoint.send(&[&head.encode(), &tools.message[..count * WANT_LEN]])?;
        let head = endpoint.receive_head(tools.seq)?;
        let records_len = (count * GRANTED_LEN) as u64;
        let pages_len =
            head.body_len.checked_sub(records_len).filter(|len| len % PAGE_LEN == 0 && *len <= count as u64 * PAGE_LEN);
        let (Kind::Granted, Some(pages_len), true) = (head.kind, pages_len, head.count as usize == count) else {
            return Err(endpoint.give_up(Broken::Nonsense));
        };
        endpoint.receive(&mut tools.operands[..count * GRANTED_LEN])?;
        let mut with_bytes = 0;
        for record in tools.operands[..count * GRANTED_LEN].as_chunks().0 {
            let granted = Granted::decode(record).map_err(|_| endpoint.give_up(Broken::Nonsense))?;
            with_bytes += u64::from(granted.has_bytes);
        }
        if with_bytes * PAGE_LEN == pages_len { Ok(()) } else { Err(endpoint.give_up(Broken::Nonsense)) }
    }

    /// Puts what was granted in its place, and maps it.
    pub(super) fn take_in(&self, tools: &mut Tools, lane: usize, (home, count): (usize, usize)) -> Result<Asked, Denied> {
        if let Err(denied) = self.receive_pages(tools, (home, count)) {
            // What was granted goes to the node, which the home finds to talk to when this connection ends.
            tools.endpoints[home].give_up(Broken::Closed);
            (0..count).for_each(|k| self.fail(tools.numbers[k], self.seat(lane, k)));
            return Err(denied);
        }
        let (mut settled, mut first) = (0, Ok(Asked::Again));
        for k in 0..count {
            let (page, seat) = (tools.numbers[k], self.seat(lane, k));
            let granted = decode(&tools.operands, k);
            let ticket = Ticket { seat, number: self.words.number(seat) };
            let access = match granted.outcome {
                Outcome::Read => Access::Read,
                Outcome::Write => Access::Write,
                Outcome::Later => {
                    match k {
                        0 => first = Ok(Asked::Later),
                        _ => self.ahead[lane * LANE_PAGE_COUNT + k].store(page + 1, Relaxed),
                    }
                    continue;
                }
                other => {
                    self.fail(page, seat);
                    if k == 0 && other == Outcome::Lost {
                        first = Err(Denied::Gone);
                    }
                    continue;
                }
            };
            if granted.firm {
                let done = Settled { page, ticket, version: granted.version };
                tools.message[settled * WANT_LEN..(settled + 1) * WANT_LEN].copy_from_slice(&done.encode());
                settled += 1;
            }
            match self.words.grant(page, seat, granted.version, access) {
                Ok(Installed::Here(changed)) => self.wake(page, changed),
                // An invalidation was faster: the next request is one that nothing overtakes.
                Ok(Installed::Void) => {
                    if k == 0 {
                        first = Ok(Asked::Overtaken);
                    }
                    if granted.has_bytes {
                        let _ = self.frames.punch(Run::one(page));
                    }
                    self.fail(page, seat);
                }
                Ok(Installed::Gone) => {}
                Err(_) => first = Err(Denied::Here("its page words are damaged")),
            }
        }
        if settled > 0 {
            let (body_len, detail) = ((settled * WANT_LEN) as u64, self.homes[home].share);
            let head = Head { count: settled as u32, body_len, detail, ..Head::new(Kind::Settled, 0) };
            let sent = tools.endpoints[home].send(&[&head.encode(), &tools.message[..settled * WANT_LEN]]);
            sent.map_err(|broken| Denied::Home(home, broken))?;
        }
        self.map_granted(tools, lane, count)?;
        first
    }

    /// Receives the pages that come along, and puts them into the frames, some while the others are on their way.
    pub(super) fn receive_pages(&self, tools: &mut Tools, (home, count): (usize, usize)) -> Result<(), Denied> {
        let mut k = 0;
        while k < count {
            if !decode(&tools.operands, k).has_bytes {
                k += 1;
                continue;
            }
            let first = k;
            while k < count && k - first < FILL_COUNT && decode(&tools.operands, k).has_bytes {
                k += 1;
            }
            let run = Run { first: tools.numbers[first], count: (k - first) as u64 };
            let bytes = &mut tools.pages[..run.len_bytes()];
            tools.endpoints[home].receive(bytes).map_err(|broken| Denied::Home(home, broken))?;
            self.frames.fill(run, bytes).map_err(|_| Denied::Here("this host has no memory for it"))?;
            self.filled.fetch_add(run.count, Relaxed);
        }
        Ok(())
    }

    /// Maps what was granted, in runs of pages that may be used in the same way.
    pub(super) fn map_granted(&self, tools: &Tools, lane: usize, count: usize) -> Result<(), Denied> {
        let access = |k: usize| match decode(&tools.operands, k).outcome {
            Outcome::Read => Some(Access::Read),
            Outcome::Write => Some(Access::Write),
            _ => None,
        };
        let enter = |k: usize, access| self.words.enter(tools.numbers[k], self.seat(lane, k), access).unwrap_or(false);
        let mut k = 0;
        while k < count {
            let Some(same) = access(k).filter(|access| enter(k, *access)) else {
                k += 1;
                continue;
            };
            let first = k;
            k += 1;
            while k < count && access(k) == Some(same) && enter(k, same) {
                k += 1;
            }
            let mapped = self.map_run(tools.numbers[first], (k - first) as u64, same);
            for at in first..k {
                self.leave(tools.numbers[at], self.seat(lane, at));
            }
            mapped?;
            // The one that would not be entered is passed over.
            k += usize::from(k < count && access(k) == Some(same));
        }
        Ok(())
    }

    /// Now and then: the node is told when the frames are more than they may be.
    pub(super) fn look_at_crowd(&self, tools: &mut Tools, count: u64) {
        let before = self.filled.load(Relaxed);
        if before / CROWD_COUNT == before.saturating_sub(count) / CROWD_COUNT {
            return;
        }
        if self.frames.present_count().is_ok_and(|present| present > self.frames_max) {
            let head = Head { detail: self.gid.0, ..Head::new(Kind::Crowded, 0) };
            // Where it cannot be told, the node is gone, and so is the region soon.
            let _ = tools.endpoints[self.own].send(&[&head.encode()]);
        }
    }
}

fn decode(operands: &[u8], k: usize) -> Granted {
    let record = operands[k * GRANTED_LEN..].first_chunk().expect("as many as were received");
    Granted::decode(record).unwrap_or(Granted::without(Outcome::Full))
}
