//! Asking the home of a page, and of those behind it, and taking in what it grants.

use super::denied::{Asked, ClaimPatience, Claimed, Denied, Here};
use super::resolver::{OWN_COUNT, Resolver};
use crate::client::shared::endpoint::Broken;
use crate::client::shared::fault_contexts::{FaultContextGuard, LANE_PAGE_COUNT, Tools};
use crate::client::shared::orders::FindHomes;
use crate::trace::{Means, Seen};
use hanare_memory::frames::Run;
use hanare_protocol::Result;
use hanare_protocol::limits::PAGE_LEN;
use hanare_protocol::page::install_steps::{Act, End, InstallSteps, Ruling};
use hanare_protocol::page::word::{Fault, Installed, State};
use hanare_protocol::page::{Access, Ticket};
use hanare_protocol::wire::exchange::{crowded_head, granted_pages_len, page_requests_head, settled_head};
use hanare_protocol::wire::page::{GRANTED_LEN, Granted, Outcome, PAGE_REQUEST_LEN, PageRequest, Settled};
use hanare_ring::page_word::slot;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

/// Pages received before they are put into the frames, while the next ones arrive.
const FILL_COUNT: usize = 16;
/// Pages fetched between two looks at how many frames there are.
const CROWD_COUNT: u64 = 256;

/// Pages that come along: those behind it, if they have the same home and no thread of this host is at them.
#[derive(Clone, Copy)]
struct Along {
    home: usize,
    access: Access,
    /// Behind the last.
    end: u64,
    /// True if others give them up.
    is_sure: bool,
}

impl Resolver {
    /// Asks the home of a page, and for as many behind it as the stream of faults is worth.
    pub(super) fn fetch<'a>(
        &'a self,
        lane: &mut FaultContextGuard<'a>,
        claimed: Claimed,
        access: Access,
        seen: &mut Seen,
    ) -> Result<Asked, Denied> {
        seen.by(if claimed.has.is_some() { Means::Upgraded } else { Means::Fetched });
        let page = claimed.page;
        let is_own = self.homes.is_own(self.homes.of(page));
        let stream = self.streams.find(page, if is_own { OWN_COUNT - 1 } else { 0 });
        let (asked, next) = self.fetch_until(lane, claimed, access, page + 1 + stream.ahead, stream.is_sure);
        self.streams.go_on(stream, page, next, self.period_at(page, next));
        seen.ahead = seen.ahead.max((next - page - 1) as u16);
        asked
    }

    /// Asks the home for a page, and for those behind it up to `end`. Also returns the first that was not asked for.
    ///
    /// More than a message holds is asked for over two lanes in turn, if another is free. The home gathers one half while this thread takes
    /// in the other.
    pub(super) fn fetch_until<'a>(
        &'a self,
        lane: &mut FaultContextGuard<'a>,
        claimed: Claimed,
        access: Access,
        end: u64,
        is_sure: bool,
    ) -> (Result<Asked, Denied>, u64) {
        let along = Along { home: self.homes.of(claimed.page), access, end: end.min(self.frames.page_count()), is_sure };
        let mut next = claimed.page;
        let mut count = match self.ask(lane, Some(claimed), next, along) {
            Ok(count) => count,
            Err(broken) => return (Err(Denied::Home(along.home, broken)), next + 1),
        };
        next += count as u64;
        let mut second = if count == LANE_PAGE_COUNT && next < along.end { self.lanes.try_take() } else { None };
        let (mut current, mut other) = (lane, second.as_mut());
        let mut first = None;
        loop {
            let behind = match &mut other {
                // A thread that touches these finds out why they cannot be asked for.
                Some(lane) if next < along.end => self.ask(lane, None, next, along).unwrap_or(0),
                _ => 0,
            };
            next += behind as u64;
            let taken = self.receive(current, (along.home, count));
            let is_answering = !matches!(taken, Err(Denied::Home(..)));
            first.get_or_insert(taken);
            let Some(lane) = other.take_if(|_| behind > 0) else { break };
            if !is_answering {
                let index = lane.index();
                self.abandon(lane.tools(), index, (along.home, behind));
                break;
            }
            other = Some(std::mem::replace(&mut current, lane));
            count = behind;
        }
        (first.expect("the first was received"), next)
    }

    /// Brings the first of pages `page .. end` that is not here in that way, and those behind it. Returns the first that was not looked at.
    /// A touch finds out what cannot be had so. All of it is left to touches where a home of bytes with copies has no next one.
    ///
    /// Not for the handler of a fault, but as async-signal-safe.
    pub(super) fn bring_some(&self, page: u64, end: u64, access: Access) -> u64 {
        let Some(page) = (page..end).find(|page| self.is_wanted(*page, access)) else { return end };
        let mut lane = self.lanes.take();
        let slot = self.slot(lane.index(), 0);
        let is_free = self.is_slot_free(lane.index(), 0);
        let Some(claimed) = is_free.then(|| self.claim(page, slot, access)).flatten() else { return page + 1 };
        let (asked, next) = self.fetch_until(&mut lane, claimed, access, end, true);
        let mut patience = ClaimPatience::new(self.patience());
        match asked {
            // The lane is kept until it came; the one who touches it says what is wrong.
            Ok(Asked::Later) => drop(self.await_claim(page, slot, &mut lane, &mut patience)),
            Err(denied) if self.homes.moves() && !self.may_ask_again(lane.tools(), &mut patience, &denied) => return end,
            _ => {}
        }
        next
    }

    /// Claims pages and asks their home for them: the touched one if there is one, and those behind it. Returns how many.
    fn ask(&self, lane: &mut FaultContextGuard<'_>, touched: Option<Claimed>, page: u64, along: Along) -> Result<usize, Broken> {
        let (index, tools) = (lane.index(), lane.tools());
        let is_touched = touched.is_some();
        let mut put = |k: usize, claimed: Claimed| {
            let Claimed { page, has, access, firm } = claimed;
            let slot = self.slot(index, k);
            let ticket = Ticket { slot, number: self.words.number(slot) };
            // A lane's first slot is kept for what is touched: it asks for nothing that comes later.
            let tries = if k == 0 { !is_touched } else { !along.is_sure };
            let request = PageRequest { page, ticket, access, has, firm, tries };
            tools.numbers[k] = page;
            tools.message[k * PAGE_REQUEST_LEN..(k + 1) * PAGE_REQUEST_LEN].copy_from_slice(&request.encode());
        };
        let mut count = 0;
        let mut is_upgrade = false;
        if let Some(claimed) = touched {
            is_upgrade = claimed.has.is_some();
            put(0, claimed);
            count = 1;
        }
        while count < LANE_PAGE_COUNT && page + (count as u64) < along.end && self.is_slot_free(index, count) {
            let next = page + count as u64;
            if self.homes.of(next) != along.home {
                break;
            }
            let Some(claimed) = self.claim(next, self.slot(index, count), along.access) else { break };
            is_upgrade |= count == 0 && claimed.has.is_some();
            put(count, claimed);
            count += 1;
        }
        if count == 0 {
            return Ok(0);
        }
        let sent = self.send_requests(tools, (along.home, count));
        if sent.is_err() {
            self.hand_over(tools, index, count);
        }
        sent?;
        let slot = self.slot(index, 0);
        self.words.count(slot, if is_upgrade { slot::UPGRADED } else { slot::FETCHED }, count as u64);
        self.words.count(slot, slot::PREFETCHED, (count - usize::from(is_touched)) as u64);
        Ok(count)
    }

    /// Receives what was asked for, puts it into its places and maps it.
    fn receive(&self, lane: &mut FaultContextGuard<'_>, (home, count): (usize, usize)) -> Result<Asked, Denied> {
        let (index, tools) = (lane.index(), lane.tools());
        if let Err(broken) = self.receive_records(tools, (home, count)) {
            match broken {
                Broken::NotShared => self.fail_all(tools, index, count),
                _ => self.hand_over(tools, index, count),
            }
            return Err(Denied::Home(home, broken));
        }
        let asked = self.take_in(tools, index, (home, count))?;
        self.look_at_crowd(tools, count as u64);
        Ok(asked)
    }

    /// Ends a connection on which nobody will receive what was asked for.
    fn abandon(&self, tools: &mut Tools, lane: usize, (home, count): (usize, usize)) {
        tools.endpoints[home].give_up(Broken::Closed);
        self.hand_over(tools, lane, count);
    }

    /// Distance from a page to its like in the home's next chunk, if all up to the present chunk's end was fetched.
    fn period_at(&self, page: u64, next: u64) -> Option<u64> {
        let is_at_border = next < self.frames.page_count() && self.homes.of(next) != self.homes.of(page);
        self.homes.period(page).filter(|_| is_at_border)
    }

    /// True if a page is not here in that way, and no thread is at it.
    fn is_wanted(&self, page: u64, access: Access) -> bool {
        match self.words.look(page).state() {
            Ok(State::Absent) => true,
            Ok(State::Shared) => access == Access::Write,
            _ => false,
        }
    }

    /// Claims a page that was not touched, if it is not here in that way.
    pub(super) fn claim(&self, page: u64, slot: u16, access: Access) -> Option<Claimed> {
        if !self.is_wanted(page, access) {
            return None;
        }
        match self.words.fault(page, slot, access) {
            Ok(Fault::Fetch { access, .. }) => Some(Claimed { page, has: None, access, firm: false }),
            Ok(Fault::Upgrade { has }) => Some(Claimed { page, has: Some(has), access, firm: false }),
            Ok(Fault::Map(_)) => {
                self.leave(page, slot);
                None
            }
            Ok(Fault::Wait(_)) | Err(_) => None,
        }
    }

    /// True if a slot's read-ahead has come, so that it can ask again.
    pub(super) fn is_slot_free(&self, lane: usize, k: usize) -> bool {
        let ahead = &self.ahead[lane * LANE_PAGE_COUNT + k];
        let Some(page) = ahead.load(Relaxed).checked_sub(1) else { return true };
        let is_open = self.is_claimed_by(page, self.slot(lane, k));
        if !is_open {
            ahead.store(0, Relaxed);
        }
        !is_open
    }

    /// Sends the records in `message`.
    fn send_requests(&self, tools: &mut Tools, (home, count): (usize, usize)) -> Result<(), Broken> {
        tools.seq += 1;
        let head = page_requests_head(tools.seq, tools.endpoints[home].share(), count);
        tools.endpoints[home].send(&[&head.encode(), &tools.message[..count * PAGE_REQUEST_LEN]])
    }

    /// Receives the records of the answer; the pages are still to come.
    fn receive_records(&self, tools: &mut Tools, (home, count): (usize, usize)) -> Result<(), Broken> {
        let endpoint = &tools.endpoints[home];
        let head = endpoint.receive_head(tools.seq)?;
        let Some(pages_len) = granted_pages_len(&head, count) else { return Err(endpoint.give_up(Broken::Nonsense)) };
        endpoint.receive(&mut tools.operands[..count * GRANTED_LEN])?;
        let (mut with_bytes, mut later, mut is_shared) = (0, 0, true);
        let asked = tools.message.as_chunks().0;
        for (record, asked) in tools.operands[..count * GRANTED_LEN].as_chunks().0.iter().zip(asked) {
            let granted = Granted::decode(record).map_err(|_| endpoint.give_up(Broken::Nonsense))?;
            with_bytes += u64::from(granted.has_bytes);
            // Leave to store to a page that is here brings no bytes.
            let is_wanted = || PageRequest::decode(asked).is_ok_and(|request| request.has.is_none());
            later += u64::from(granted.outcome == Outcome::Later && is_wanted());
            is_shared &= granted.outcome != Outcome::NotShared;
        }
        endpoint.count_later(later);
        match (with_bytes * PAGE_LEN == pages_len, is_shared || pages_len > 0) {
            (true, true) => Ok(()),
            (true, false) => Err(Broken::NotShared),
            (false, _) => Err(endpoint.give_up(Broken::Nonsense)),
        }
    }

    /// Puts what was granted in its place, tells the home, and maps it: the steps of [`hanare_protocol::page::install_steps`].
    fn take_in(&self, tools: &mut Tools, lane: usize, (home, count): (usize, usize)) -> Result<Asked, Denied> {
        let mut installs = [InstallSteps::new(Ruling::Refused); LANE_PAGE_COUNT];
        let installs = &mut installs[..count];
        (0..count).for_each(|k| installs[k] = InstallSteps::new(ruling_of(decode(&tools.operands, k))));
        if let Err(denied) = self.receive_pages(tools, lane, home, installs) {
            self.abandon(tools, lane, (home, count));
            return Err(denied);
        }
        let mut first = Ok(());
        for (k, install) in installs.iter_mut().enumerate() {
            if let Err(denied) = self.go_on(tools, (lane, k), install) {
                first = Err(denied);
            }
            if install.act() == Act::End(End::Later) && k > 0 {
                self.ahead[lane * LANE_PAGE_COUNT + k].store(tools.numbers[k] + 1, Relaxed);
            }
        }
        self.acknowledge(tools, home, installs)?;
        break_off(tools, home, installs);
        let is_mapped = self.map_granted(tools, lane, installs)?;
        first?;
        match installs.first().map(InstallSteps::act) {
            Some(Act::End(End::Later)) => Ok(Asked::Later),
            Some(Act::End(End::Overtaken)) => Ok(Asked::Overtaken),
            Some(Act::End(End::Lost)) => Err(Denied::Gone),
            _ if is_mapped => Ok(Asked::Mapped),
            _ => Ok(Asked::Again),
        }
    }

    /// Goes on with an answer as far as its page word alone is concerned.
    fn go_on(&self, tools: &Tools, (lane, k): (usize, usize), install: &mut InstallSteps) -> Result<(), Denied> {
        let (granted, page, slot) = (decode(&tools.operands, k), tools.numbers[k], self.slot(lane, k));
        let access = access_of(granted);
        loop {
            match (install.act(), access) {
                (Act::Fill, Some(access)) => {
                    let fill = self.words.fill(page, slot, granted.version, access).map_err(|_| damaged())?;
                    install.on_fill(fill, self.is_asked_for_by(page, slot));
                }
                (Act::Publish, _) => {
                    let installed = self.words.filled(page, slot, granted.version).map_err(|_| damaged())?;
                    self.on_installed(page, slot, installed, install);
                }
                (Act::Grant, Some(access)) => {
                    let installed = self.words.grant(page, slot, granted.version, access).map_err(|_| damaged())?;
                    self.on_installed(page, slot, installed, install);
                }
                (Act::Undo, _) => {
                    if let Ok(changed) = self.words.fail_fill(page, slot) {
                        self.wake(page, changed);
                    }
                    install.done();
                }
                (Act::GiveUp, _) => {
                    self.fail(page, slot);
                    install.done();
                }
                _ => return Ok(()),
            }
        }
    }

    /// A page may be here: wakes who waited for it.
    fn on_installed(&self, page: u64, slot: u16, installed: Installed, install: &mut InstallSteps) {
        if let Installed::Here(changed) = installed {
            self.wake(page, changed);
        }
        install.on_installed(installed, self.is_asked_for_by(page, slot));
    }

    /// Tells the home of the grants that it waits for, in one message. It knows them by the numbers that were asked with: the node may have
    /// asked for the same page since, with others.
    fn acknowledge(&self, tools: &mut Tools, home: usize, installs: &mut [InstallSteps]) -> Result<(), Denied> {
        let mut count = 0;
        for (k, install) in installs.iter_mut().enumerate().filter(|(_, install)| install.act() == Act::Acknowledge) {
            let asked = tools.message[k * PAGE_REQUEST_LEN..].first_chunk().map(PageRequest::decode);
            let Some(Ok(PageRequest { page, ticket, .. })) = asked else { return Err(damaged()) };
            let done = Settled { page, ticket, version: decode(&tools.operands, k).version };
            tools.message[count * PAGE_REQUEST_LEN..(count + 1) * PAGE_REQUEST_LEN].copy_from_slice(&done.encode());
            count += 1;
            install.done();
        }
        if count == 0 {
            return Ok(());
        }
        let head = settled_head(tools.endpoints[home].share(), count);
        let sent = tools.endpoints[home].send(&[&head.encode(), &tools.message[..count * PAGE_REQUEST_LEN]]);
        sent.map_err(|broken| Denied::Home(home, broken))
    }

    /// Receives the pages that come along, and puts them into the frames, some while the others are on their way.
    fn receive_pages(&self, tools: &mut Tools, lane: usize, home: usize, installs: &mut [InstallSteps]) -> Result<(), Denied> {
        let (mut k, count) = (0, installs.len());
        while k < count {
            if !decode(&tools.operands, k).has_bytes {
                k += 1;
                continue;
            }
            let first = k;
            while k < count && k - first < FILL_COUNT && decode(&tools.operands, k).has_bytes {
                k += 1;
            }
            let bytes = &mut tools.pages[..(k - first) * PAGE_LEN as usize];
            tools.endpoints[home].receive(bytes).map_err(|broken| Denied::Home(home, broken))?;
            self.fill_granted(tools, lane, first..k, installs)?;
        }
        Ok(())
    }

    /// Puts received pages into the frames, if their grants are good and their claims still those of their slots. Meanwhile the node may
    /// have got others for a thread that died, and programs may have stored to them since.
    fn fill_granted(&self, tools: &Tools, lane: usize, which: Range<usize>, installs: &mut [InstallSteps]) -> Result<(), Denied> {
        let mut begin = which.start;
        while begin < which.end {
            let mut end = begin;
            while end < which.end {
                self.go_on(tools, (lane, end), &mut installs[end])?;
                if installs[end].act() != Act::Put {
                    break;
                }
                end += 1;
            }
            if end > begin {
                let bytes = &tools.pages[(begin - which.start) * PAGE_LEN as usize..(end - which.start) * PAGE_LEN as usize];
                self.fill_run(tools, lane, begin..end, (bytes, installs))?;
            }
            // The one that ended the run is not to be filled.
            begin = end + 1;
        }
        Ok(())
    }

    /// Fills frames that are this thread's to fill, and says that the pages are here. Where there is no memory for all of them, those
    /// that it lasts for are here.
    fn fill_run(
        &self,
        tools: &Tools,
        lane: usize,
        which: Range<usize>,
        (bytes, installs): (&[u8], &mut [InstallSteps]),
    ) -> Result<(), Denied> {
        let run = Run { first: tools.numbers[which.start], count: which.len() as u64 };
        let mut filled = self.frames.fill(run, bytes);
        let is_whole = filled.is_ok();
        for (k, bytes) in which.zip(bytes.chunks(PAGE_LEN as usize)) {
            let page = Run::one(tools.numbers[k]);
            let is_here = is_whole || self.frames.fill(page, bytes).inspect_err(|refused| filled = Err(*refused)).is_ok();
            installs[k].on_put(is_here);
            self.go_on(tools, (lane, k), &mut installs[k])?;
            self.filled.fetch_add(u64::from(is_here), Relaxed);
        }
        filled.map_err(|_| Denied::Here(Here::NoMemory))
    }

    /// Maps what was granted, in runs of pages that may be used in the same way. Says whether the first was mapped.
    fn map_granted(&self, tools: &Tools, lane: usize, installs: &mut [InstallSteps]) -> Result<bool, Denied> {
        let count = installs.len();
        // A page that came for writing, to a thread that reads, is mapped for reading. So its first store is seen.
        let access = |k: usize| {
            let granted = access_of(decode(&tools.operands, k)).filter(|_| installs[k].act() == Act::Map)?;
            Some(if self.words.look(tools.numbers[k]).is_written() { granted } else { Access::Read })
        };
        let enter = |k: usize, access| self.words.enter(tools.numbers[k], self.slot(lane, k), access).unwrap_or(false);
        let (mut k, mut is_first_mapped) = (0, false);
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
                self.leave(tools.numbers[at], self.slot(lane, at));
            }
            mapped?;
            is_first_mapped |= first == 0;
            // The one that would not be entered is passed over.
            k += usize::from(k < count && access(k) == Some(same));
        }
        installs.iter_mut().filter(|install| install.act() == Act::Map).for_each(InstallSteps::done);
        Ok(is_first_mapped)
    }

    /// Now and then: the node is told when the frames are more than they may be.
    pub(super) fn look_at_crowd(&self, tools: &mut Tools, count: u64) {
        let before = self.filled.load(Relaxed);
        if before / CROWD_COUNT == before.saturating_sub(count) / CROWD_COUNT {
            return;
        }
        if self.frames.present_count().is_ok_and(|present| present > self.frames_max) {
            // A failed message means that the node is gone, and so is the region soon.
            let _ = tools.endpoints[self.homes.own()].send(&[&crowded_head(self.gid).encode()]);
        }
    }
}

/// A record's ruling, for its requester.
fn ruling_of(granted: Granted) -> Ruling {
    match granted.outcome {
        Outcome::Read | Outcome::Write => Ruling::Granted { has_bytes: granted.has_bytes, firm: granted.firm },
        Outcome::Later => Ruling::Later,
        Outcome::Lost => Ruling::Lost,
        Outcome::NotNow | Outcome::Full | Outcome::NotShared => Ruling::Refused,
    }
}

fn damaged() -> Denied {
    Denied::Here(Here::Damaged)
}

/// Ends the connection to a home that waits to hear of a grant whose claim is gone. What it was told before arrives.
fn break_off(tools: &Tools, home: usize, installs: &mut [InstallSteps]) {
    let gone = installs.iter_mut().filter(|install| install.act() == Act::Break);
    if gone.map(InstallSteps::done).count() > 0 {
        tools.endpoints[home].give_up(Broken::Closed);
    }
}

/// A record's access.
fn access_of(granted: Granted) -> Option<Access> {
    match granted.outcome {
        Outcome::Read => Some(Access::Read),
        Outcome::Write => Some(Access::Write),
        _ => None,
    }
}

fn decode(operands: &[u8], k: usize) -> Granted {
    let record = operands[k * GRANTED_LEN..].first_chunk().expect("as many as were received");
    Granted::decode(record).unwrap_or(Granted::without(Outcome::Full))
}
