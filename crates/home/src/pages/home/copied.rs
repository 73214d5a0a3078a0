//! Pages whose bytes have copies on other nodes: what hosts send home counts when all holders have it.
//!
//! ```text
//!   a host                      the home                                  copies
//!   ------                      --------                                  ------
//!   WriteBack ----------------> a write with its version ---------------> noted
//!                               all have it: the directory hears of it
//!   Store ... Flush ----------> one write, or parts that count together -> done by all or none
//!   <--------------- Flushed    all have it
//! ```
//!
//! To the directory such a message is one that was on its way for longer. Where a host is lost, its writes that are under way end first. The
//! home goes on in order: while a write is refused, because another home may be elected, later ones wait behind it.
//!
//! All holders know the hosts ([`PageTable`](hanare_protocol::copies::PageTable)), before these get a page. The next home asks those hosts for
//! their pages, and begins when it has them.

mod flush;
mod hosts;

use super::{Again, HomePages, Outbox, PageHome, outgoing_to};
use crate::pages::memory::PageBytes;
use crate::pages::outgoing::Arrival;
use flush::{Flush, put};
use hanare_protocol::copies::PageChange;
use hanare_protocol::id::{Rights, Slot};
use hanare_protocol::limits::FLUSH_PAGE_COUNT_MAX;
use hanare_protocol::page::directory::Output;
use hanare_protocol::page::{Heard, HostId, Page, ToHome};
use hanare_protocol::wire::copies::{ExtentCall, ExtentWrite};
use hanare_protocol::wire::page::NodeMessage;
use hanare_protocol::{Error, Result};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// State of such a home beside the directory.
pub(in crate::pages) struct CopiedPages {
    slot: Slot,
    /// Writes that not all holders have, by their numbers, in order.
    writes: BTreeMap<u64, PageWrite>,
    last: u64,
    /// Pages on their way home among them.
    backs: BTreeSet<(HostId, Page)>,
    /// Writes that go to the copies next.
    ready: VecDeque<u64>,
    /// Writes that were refused. None goes to the copies before those have gone again.
    refused: BTreeSet<u64>,
    /// Pages of flushes whose last message has not come, by host.
    coming: BTreeMap<HostId, ComingFlush>,
    /// Hosts that are lost, whose writes are under way.
    losing: BTreeSet<HostId>,
    /// Hosts that have handed over all to this home, whose writes are under way.
    leaving: BTreeSet<HostId>,
    /// Hosts that all holders know, or are about to.
    known: BTreeMap<u64, KnownHost>,
    /// Grants that wait until this node answers for the extent again.
    unsaid: VecDeque<Output>,
    /// All holders know that it begins anew.
    has_begun: bool,
}

/// Flushes of one host under way. A host begins another one when the first took too long.
const FLUSHES_OF_HOST: usize = 2;

#[derive(Default)]
struct ComingFlush {
    number: u64,
    came: u64,
    /// The number that has to come, once it is known.
    count: Option<u64>,
    pages: Vec<(Page, PageBytes)>,
}

struct KnownHost {
    share: u64,
    rights: Rights,
    /// The holders know, or why they will not.
    outcome: Option<Result<()>>,
}

/// A write that all holders are to have.
enum PageWrite {
    /// A page comes home.
    Back {
        host: HostId,
        page: Page,
        message: ToHome,
        bytes: PageBytes,
        arrival: Option<Arrival>,
        has_version: bool,
    },
    Flush(Flush),
    Hosts(PageChange),
}

impl PageWrite {
    fn host(&self) -> Option<HostId> {
        match self {
            PageWrite::Back { host, .. } | PageWrite::Flush(Flush { host, .. }) => Some(*host),
            PageWrite::Hosts(_) => None,
        }
    }
}

impl CopiedPages {
    pub fn new(slot: Slot) -> CopiedPages {
        CopiedPages {
            slot,
            writes: BTreeMap::new(),
            backs: BTreeSet::new(),
            last: 0,
            ready: VecDeque::new(),
            refused: BTreeSet::new(),
            coming: BTreeMap::new(),
            losing: BTreeSet::new(),
            leaving: BTreeSet::new(),
            known: BTreeMap::new(),
            unsaid: VecDeque::new(),
            has_begun: false,
        }
    }

    /// Numbers a write. [`CopiedPages::write`] also sends it to the copies.
    fn add(&mut self, write: PageWrite) {
        self.last += 1;
        self.writes.insert(self.last, write);
    }

    fn write(&mut self, write: PageWrite) {
        self.add(write);
        match self.refused.is_empty() {
            true => self.ready.push_back(self.last),
            false => {
                self.refused.insert(self.last);
            }
        }
    }

    /// The flush of a host that comes. A host has one at a time: a later one ends those before.
    fn coming_of(&mut self, host: HostId, number: u64) -> &mut ComingFlush {
        let coming = self.coming.entry(host).or_default();
        if coming.number != number {
            *coming = ComingFlush { number, ..ComingFlush::default() };
        }
        coming
    }

    /// True if an earlier write of the same host was refused.
    fn is_behind_refused(&self, number: u64) -> bool {
        let Some(host) = self.writes.get(&number).and_then(PageWrite::host) else { return false };
        let is_its = |earlier: &u64| self.writes.get(earlier).and_then(PageWrite::host) == Some(host);
        self.refused.range(..number).any(is_its)
    }

    fn has_writes_of(&self, host: HostId) -> bool {
        self.writes.values().any(|write| write.host() == Some(host))
    }

    /// The numbers of a host's writes.
    fn writes_of(&self, host: HostId) -> BTreeSet<u64> {
        self.writes.iter().filter(|(_, write)| write.host() == Some(host)).map(|(number, _)| *number).collect()
    }
}

impl<H: HomePages> PageHome<H> {
    /// The slot of its extent, where that has copies.
    pub fn copied_slot(&self) -> Option<Slot> {
        self.copied.as_ref().map(|copied| copied.slot)
    }

    /// Numbers its writes from there on: none has the number of a home before.
    pub fn number_from(&mut self, first: u64) {
        if let Some(copied) = &mut self.copied {
            copied.last = first;
        }
    }

    /// Messages that are not confirmed, because not all holders have their pages.
    pub fn arrivals(&self) -> impl Iterator<Item = Arrival> {
        let writes = self.copied.iter().flat_map(|copied| copied.writes.values());
        writes.filter_map(|write| if let PageWrite::Back { arrival, .. } = write { *arrival } else { None })
    }

    /// Pages on their way home from hosts of this very node, which keep no bytes of them.
    pub fn take_local(&mut self) -> Vec<(u64, Page, ToHome, PageBytes)> {
        let Some(copied) = &mut self.copied else { return Vec::new() };
        let is_local = |_: &u64, write: &mut PageWrite| matches!(write, PageWrite::Back { arrival: None, .. });
        let local: Vec<(u64, PageWrite)> = copied.writes.extract_if(.., is_local).collect();
        let page = |(_, write)| match write {
            PageWrite::Back { host, page, message, bytes, .. } => {
                self.sharers.get(host).map(|sharer| (sharer.share, page, message, bytes))
            }
            _ => None,
        };
        local.into_iter().filter_map(page).collect()
    }

    /// True while a write, a grant or a host waits for the clock.
    pub fn waits_for_clock(&self) -> bool {
        self.has_unjoined() || self.copied.as_ref().is_some_and(|copied| !copied.refused.is_empty() || !copied.unsaid.is_empty())
    }

    /// True while not all holders have what hosts sent.
    pub fn has_writes(&self) -> bool {
        self.copied.as_ref().is_some_and(|copied| !copied.writes.is_empty())
    }

    /// True while not all holders have what a host sent.
    pub(super) fn has_writes_of(&self, host: HostId) -> bool {
        self.copied.as_ref().is_some_and(|copied| copied.has_writes_of(host))
    }

    /// All hosts have handed over: the holders are told that it begins anew. Returns true when they know, and have all.
    pub(super) fn has_begun_anew(&mut self) -> bool {
        let Some(copied) = &mut self.copied else { return true };
        if !copied.writes.is_empty() {
            return false;
        }
        if !copied.has_begun {
            copied.has_begun = true;
            copied.known.clear();
            copied.write(PageWrite::Hosts(PageChange::Begins));
            return false;
        }
        true
    }

    /// A page with bytes comes from a host. Returns true if the message counts later, when all holders have the bytes, or not at all.
    pub(super) fn on_page_to_copies(
        &mut self,
        (host, page): (HostId, Page),
        message: ToHome,
        bytes: Option<&[u8]>,
        outgoing: &mut Outbox,
    ) -> bool {
        let (Some(copied), Some(bytes)) = (&mut self.copied, bytes) else { return false };
        match (message, &mut self.returning) {
            (ToHome::WriteBack { version, .. }, Some(returning)) => {
                if returning.on_write_back(host, page, version) == Heard::Stale {
                    return true;
                }
            }
            (ToHome::WriteBack { version, .. }, None) => {
                if !self.directory.may_put(page, host, version) {
                    return false;
                }
            }
            (ToHome::Store { version, flush }, None) => {
                let is_good = self.directory.may_put(page, host, version);
                let coming = copied.coming_of(host, flush);
                coming.came += 1;
                if is_good && coming.pages.len() < FLUSH_PAGE_COUNT_MAX {
                    coming.pages.push((page, bytes.into()));
                }
                self.begin_flush(host, outgoing);
                return true;
            }
            // The host flushes again when it has joined anew.
            _ => return true,
        }
        if !copied.backs.insert((host, page)) {
            // A host sends a page once.
            return true;
        }
        let arrival = outgoing.hold();
        copied.write(PageWrite::Back { host, page, message, bytes: bytes.into(), arrival, has_version: true });
        true
    }

    /// All pages of a flush were sent.
    pub fn on_flush(&mut self, host: HostId, (number, count): (u64, u64), outgoing: &mut Outbox) {
        let Some(copied) = self.copied.as_mut().filter(|_| self.returning.is_none()) else { return };
        copied.coming_of(host, number).count = Some(count);
        self.begin_flush(host, outgoing);
    }

    /// Begins a flush whose pages have all come.
    fn begin_flush(&mut self, host: HostId, outgoing: &mut Outbox) {
        let Some(copied) = &mut self.copied else { return };
        if copied.coming.get(&host).is_none_or(|coming| coming.count != Some(coming.came)) {
            return;
        }
        let Some(ComingFlush { number, mut pages, .. }) = copied.coming.remove(&host) else { return };
        pages.sort_unstable_by_key(|(page, _)| *page);
        let is_flush = |write: &&PageWrite| matches!(write, PageWrite::Flush(flush) if flush.host == host);
        if copied.writes.values().filter(is_flush).count() >= FLUSHES_OF_HOST {
            let (what, limit) = ("flushes of one host under way".to_owned(), FLUSHES_OF_HOST as u64);
            return self.say_flushed(host, number, Err(Error::LimitReached { what, limit }), outgoing);
        }
        let awaits = copied.writes_of(host);
        let flush = Flush { host, number, pages, left: 0, awaits, in_pieces: false, failed: None };
        if flush.pages.is_empty() && flush.awaits.is_empty() {
            return self.say_flushed(host, number, Ok(()), outgoing);
        }
        if flush.pages.is_empty() {
            copied.add(PageWrite::Flush(flush));
        } else {
            copied.write(PageWrite::Flush(flush));
        }
    }

    fn say_flushed(&mut self, host: HostId, number: u64, result: Result<()>, outgoing: &mut Outbox) {
        if let Some(sharer) = self.sharers.get(host) {
            outgoing.push(outgoing_to(sharer, NodeMessage::Flushed { key: sharer.who.key, number, result }, None));
        }
    }

    /// The next write that goes to the copies, with its number.
    pub fn next_write(&mut self) -> Option<(u64, ExtentWrite)> {
        loop {
            let copied = self.copied.as_mut()?;
            let number = *copied.ready.front()?;
            let routes = &self.routes;
            let next = match copied.writes.get_mut(&number) {
                Some(PageWrite::Back { page, message: ToHome::WriteBack { version, .. }, bytes, has_version, .. }) => {
                    let call = has_version.then_some(ExtentCall::Page(*version));
                    Some(ExtentWrite { call, ..put(routes.place(*page), bytes) })
                }
                Some(PageWrite::Hosts(change)) => Some(ExtentWrite::call(ExtentCall::Hosts(change.clone()))),
                Some(PageWrite::Flush(flush)) => {
                    let share = self.sharers.get(flush.host).map_or(0, |sharer| sharer.share);
                    let part = flush.part(share, |page| routes.place(page));
                    if part.is_some() && !flush.is_all_given() {
                        return part.map(|part| (number, part));
                    }
                    part
                }
                _ => None,
            };
            copied.ready.pop_front();
            if next.is_some() {
                return next.map(|next| (number, next));
            }
        }
    }

    /// All holders have a write, or it was refused.
    pub fn on_written(&mut self, number: u64, outcome: Result<()>, outgoing: &mut Outbox) {
        let Some(copied) = &mut self.copied else { return };
        let is_refused = matches!(outcome, Err(Error::GrantRefused { .. } | Error::NodeLost { .. }));
        if copied.is_behind_refused(number) {
            // An earlier write of its host goes again: so does this one, behind it.
            if let Some(PageWrite::Flush(flush)) = copied.writes.get_mut(&number) {
                flush.left = flush.left.saturating_sub(1);
                if flush.left > 0 {
                    return;
                }
                flush.failed = None;
            }
            copied.refused.insert(number);
            return;
        }
        match copied.writes.get_mut(&number) {
            None => return,
            Some(PageWrite::Flush(flush)) => {
                flush.left = flush.left.saturating_sub(1);
                match outcome {
                    Err(error) if is_refused || !flush.in_pieces => flush.failed = Some(error),
                    Err(error) => {
                        flush.failed.get_or_insert(error);
                    }
                    Ok(()) => {}
                }
                return self.end_flush(number, outgoing);
            }
            Some(_) if is_refused => {
                copied.refused.insert(number);
                return;
            }
            // A holder that does not know versions is of the last release.
            Some(PageWrite::Back { has_version, .. }) if *has_version && matches!(outcome, Err(Error::TooOld { .. })) => {
                *has_version = false;
                copied.refused.insert(number);
                return;
            }
            Some(_) => {}
        }
        match copied.writes.remove(&number) {
            Some(PageWrite::Back { host, page, message, arrival, .. }) => {
                copied.backs.remove(&(host, page));
                outgoing.let_go.extend(arrival);
                self.on_back((host, page), message, outgoing);
            }
            Some(PageWrite::Hosts(PageChange::Joins(host))) => {
                if let Some(known) = copied.known.get_mut(&host.key) {
                    known.outcome = Some(outcome);
                }
            }
            _ => {}
        }
        self.end_waits(number, outgoing);
    }

    /// Flushes of the host wait for this write no more.
    fn end_waits(&mut self, number: u64, outgoing: &mut Outbox) {
        let Some(copied) = &mut self.copied else { return };
        let mut those = Vec::new();
        for (at, write) in &mut copied.writes {
            if let PageWrite::Flush(flush) = write
                && flush.awaits.remove(&number)
            {
                those.push(*at);
            }
        }
        those.into_iter().for_each(|at| self.end_flush(at, outgoing));
    }

    /// A flush ends when all holders have its parts, and all before it.
    fn end_flush(&mut self, number: u64, outgoing: &mut Outbox) {
        let Some(copied) = &mut self.copied else { return };
        let is_ready = copied.ready.contains(&number) || copied.refused.contains(&number);
        let Some(PageWrite::Flush(flush)) = copied.writes.get_mut(&number).filter(|_| !is_ready) else { return };
        if flush.left > 0 || !flush.awaits.is_empty() {
            return;
        }
        match flush.failed.take() {
            Some(Error::GrantRefused { .. } | Error::NodeLost { .. }) => {
                copied.refused.insert(number);
                return;
            }
            // The parts do not count together: each counts by itself.
            Some(_) if !flush.in_pieces => {
                flush.in_pieces = true;
                copied.refused.insert(number);
                return;
            }
            failed => {
                let (host, at) = (flush.host, flush.number);
                copied.writes.remove(&number);
                self.say_flushed(host, at, failed.map_or(Ok(()), Err), outgoing);
            }
        }
        self.end_waits(number, outgoing);
    }

    /// A page is at home, and all holders have it.
    fn on_back(&mut self, (host, page): (HostId, Page), message: ToHome, outgoing: &mut Outbox) {
        if self.returning.is_some() || self.sharer(host).is_none() {
            return;
        }
        let heard = match self.hear(host, page, message, outgoing.now_us) {
            Ok(heard) => heard,
            Err(error) => return tracing::warn!("a page that came home: {error}"),
        };
        if let Some(Again { host, page, grant }) = self.direct.on_message(host, page, &message, heard)
            && let Err(error) = self.act(Output::Send(host, page, grant), outgoing)
        {
            tracing::warn!("a page that came home: {error}");
        }
        self.drain(outgoing);
    }

    /// Refused writes go again, in order, and grants that waited are said.
    pub fn try_again(&mut self, outgoing: &mut Outbox) {
        let answers = self.memory.answers();
        let Some(copied) = self.copied.as_mut().filter(|_| answers) else { return };
        let again = std::mem::take(&mut copied.refused);
        copied.ready.extend(again);
        for output in std::mem::take(&mut copied.unsaid) {
            if let Err(error) = self.say(output, outgoing) {
                tracing::warn!("a grant that waited: {error}");
            }
        }
    }

    /// Keeps a grant while another node may be home. Returns it if it may be said.
    pub(super) fn may_say(&mut self, output: Output, is_grant: bool) -> Option<Output> {
        match &mut self.copied {
            Some(copied) if is_grant && !self.memory.answers() => {
                copied.unsaid.push_back(output);
                None
            }
            _ => Some(output),
        }
    }
}
