//! Requests of programs to the homes of their data. One without an answer goes to the home of that moment.

use super::frames::{PAGE_COUNT, PAGE_LEN, Page};
use super::{Cluster, Defect, Event, ProcessLife};
use crate::check::Check;
use crate::cluster::commands::LinkCommand;
use crate::cluster::entries::EntryEvent;
use crate::cluster::locks::{self, LockEvent};
use crate::cluster::memory::SimExtent;
use crate::cluster::process::{LinkUse, Opener};
use crate::cluster::served_link::{CommandLink, LinkStep};
use crate::cluster::words;
use hanare_home::{Bytes, Memory};
use hanare_protocol::Result as Outcome;
use hanare_protocol::id::{Gid, Grant, Rights, Slot};
use hanare_protocol::limits::STAGE_LEN;
use hanare_protocol::lock::Claimant;
use hanare_protocol::shape::Shape;
use hanare_protocol::wire::command::Op;
use hanare_protocol::wire::control::Answer;
use hanare_protocol::wire::sync::SyncRequest;

/// First byte of data in the region of locks at bytes; in a region of words they lie behind the words, the counts and the queue.
const BEHIND_LOCKS: u64 = 1024;
const BEHIND_WORDS: u64 = 2 * STAGE_LEN as u64 + 3 * 1024;

/// A request to a home of data.
#[derive(Clone, Copy, Debug)]
pub(super) enum Access {
    /// The bytes of a page.
    Fetch(usize),
    /// A byte at a place, by one that has its lock.
    Put { at: usize, byte: u8, who: Claimant },
}

impl Access {
    fn page(self) -> usize {
        match self {
            Access::Fetch(page) => page,
            Access::Put { at, .. } => at / PAGE_LEN,
        }
    }
}

/// A request on its way, by a view of the region.
#[derive(Clone, Debug)]
pub(crate) struct EntryAccess {
    client: u64,
    number: u64,
    pub at: ProcessLife,
    place: (Slot, Grant),
    /// The region, where its bytes are locks, too.
    region: Option<Gid>,
    what: Access,
}

/// The place in its region of a byte of data.
pub(super) fn offset_of(region: Option<Gid>, at: usize) -> u64 {
    at as u64 + if region.is_some() { BEHIND_LOCKS } else { BEHIND_WORDS }
}

/// A page's bytes at a home.
pub(super) fn page_of(extent: &SimExtent, region: Option<Gid>, page: usize) -> Page {
    let mut bytes = Page::default();
    extent.read(offset_of(region, page * PAGE_LEN), &mut bytes).expect("vectors have their bytes");
    bytes
}

impl Cluster {
    /// A program begins a request.
    pub(super) fn access_data(&mut self, client: u64, what: Access) -> Check {
        let Some(entries) = &mut self.entries else { return Ok(()) };
        entries.accesses += 1;
        let number = entries.accesses;
        if let Some(me) = entries.programs.get_mut(&client) {
            me.accesses.insert(number, what);
        }
        self.send_access(client, number)
    }

    fn send_access(&mut self, client: u64, number: u64) -> Check {
        let Some(me) = self.entry(client) else { return Ok(()) };
        let Some(what) = me.accesses.get(&number).copied() else { return Ok(()) };
        let (view, region) = (me.views[what.page()].clone(), me.region);
        let patience = self.dice.between(500, 1_500);
        self.at(patience, Event::Entry(EntryEvent::Late(client, number)));
        let Some(view) = view else { return self.look_for_data(client, what.page()) };
        let home = view.layout.extents().next().zip(self.home_of_view(&view));
        if let Some((extent, at)) = home {
            let slowly = if self.has(Defect::LetDeadWrite) { self.dice.pick(&[0, 2_000]) } else { 0 };
            let (place, after) = ((extent.slot, view.grants[0]), self.delay_ms() + slowly);
            let access = EntryAccess { client, number, at, place, region, what };
            self.at(after, Event::Entry(EntryEvent::Access(access)));
        }
        Ok(())
    }

    /// A program has no answer: it asks for the home of today, and there again.
    pub(super) fn on_access_late(&mut self, client: u64, number: u64) -> Check {
        let Some(what) = self.entry(client).and_then(|me| me.accesses.get(&number).copied()) else { return Ok(()) };
        self.count("requests for data that are sent again");
        self.look_for_data(client, what.page())?;
        self.send_access(client, number)
    }

    /// A program asks its node for the region of a page.
    fn look_for_data(&mut self, client: u64, page: usize) -> Check {
        let Some(me) = self.entry(client) else { return Ok(()) };
        let (at, id, is_at_bytes) = (me.at, me.id, me.region.is_some());
        let opener = Opener::Entries(client, page);
        if self.hosts[at.0].is_stopped
            || self.process(at).is_none_or(|process| process.opens.values().any(|open| *open == opener))
        {
            return Ok(());
        }
        let (uid, what) = match is_at_bytes {
            true => (locks::UID, self.lock_region()),
            false => (words::user_of_region(page), self.word_request(page)),
        };
        self.ask_region(at.0, (uid, id), what, opener)
    }

    /// A program has an answer about the region of a page.
    pub(crate) fn on_data_opened(&mut self, client: u64, page: usize, result: Outcome<Answer>) -> Check {
        let (Some(me), Ok(Answer::Region(view))) = (self.entry(client), result) else { return Ok(()) };
        let is_another = me.region.is_some_and(|gid| gid != view.gid);
        match me.link.filter(|_| is_another) {
            // Its locks are lost with their region.
            Some(link) => self.on_link_closed_at_client(link),
            None => {
                me.views[page] = Some(view);
                Ok(())
            }
        }
    }

    /// A request reaches a home.
    pub(super) fn on_access(&mut self, access: EntryAccess) -> Check {
        let EntryAccess { client, number, at, place, region, what } = access;
        let (now_ms, lets_dead_write) = (self.now_ms, self.has(Defect::LetDeadWrite));
        let Some(process) = self.process(at) else { return Ok(()) };
        process.lender.has_lease = process.member.homes_until_ms() > now_ms;
        let Ok(extent) = process.lender.open(place.0, place.1, Rights::Write) else {
            self.count("requests for data that found no home");
            return Ok(());
        };
        let judge = self.entries.as_ref().map(|entries| &entries.judge).ok_or("a request for data in a run without any")?;
        let (op, shape, operand) = match what {
            Access::Fetch(page) => {
                judge.judge_page(region, page, page_of(&extent, region, page))?;
                (Op::Get, Shape::contiguous(offset_of(region, page * PAGE_LEN), PAGE_LEN as u64), Vec::new())
            }
            Access::Put { who, .. } if !judge.has(who) && !lets_dead_write => {
                self.count("stores of the dead refused");
                return Ok(());
            }
            Access::Put { at, byte, .. } => (Op::Put, Shape::contiguous(offset_of(region, at), 1), vec![byte]),
        };
        let mut link = CommandLink::new();
        link.takes(number, &LinkCommand { op, at: place, shape, operand, call: 0 }, Ok(extent))?;
        self.go_on_accessing(at, client, link)
    }

    /// A link does what is left of its request.
    pub(crate) fn go_on_accessing(&mut self, at: ProcessLife, client: u64, mut link: CommandLink) -> Check {
        match link.step(self.now_ms)? {
            LinkStep::Write(place, write) => self.write_extent(at, place, write, LinkUse::Accesses(client, Box::new(link))),
            LinkStep::Answer(number, Ok(bytes)) => {
                let after = self.delay_ms();
                self.at(after, Event::Entry(EntryEvent::Accessed(client, number, bytes)));
                Ok(())
            }
            other => Err(format!("a request of program {client} for data has {other:?}")),
        }
    }

    /// An answer of a home.
    pub(super) fn on_accessed(&mut self, client: u64, number: u64, bytes: &[u8]) -> Check {
        let Some(me) = self.entry(client) else { return Ok(()) };
        match me.accesses.remove(&number) {
            Some(Access::Fetch(page)) => me.frames.come(page, bytes.try_into().map_err(|_| "a page of another length")?),
            Some(Access::Put { at, byte, .. }) => me.frames.twin[at] = byte,
            None => return Ok(()),
        }
        if me.accesses.is_empty() {
            self.at(0, Event::Lock(LockEvent::Thread { client, thread: 0 }));
        }
        Ok(())
    }

    /// The bytes of the extent of a release that spoils them.
    pub(crate) fn before_release(&mut self, home: ProcessLife, asks: &SyncRequest) -> Option<(SimExtent, Vec<u8>)> {
        let spoils = self.has(Defect::PutHalf) || self.has(Defect::AnswerBeforePut);
        let (SyncRequest::Release { places, .. }, true) = (asks, spoils) else { return None };
        let extent = self.process(home)?.lender.open(places.first()?.slot, places.first()?.grant, Rights::Write).ok()?;
        let before = extent.bytes();
        Some((extent, before))
    }

    /// Takes back what a release put: half of it, or all of it until the release has been answered.
    pub(crate) fn spoil(&mut self, asks: &SyncRequest, before: Option<(SimExtent, Vec<u8>)>) {
        let (SyncRequest::Release { places, .. }, Some((extent, before))) = (asks, before) else { return };
        let (is_half, after) = (self.has(Defect::PutHalf), extent.bytes());
        for place in places.iter().skip(if is_half { places.len() / 2 } else { 0 }) {
            put(&extent, place.offset, before[place.offset as usize]);
            if !is_half {
                let late = EntryEvent::Put(extent.clone(), place.offset, after[place.offset as usize]);
                self.at(5, Event::Entry(late));
            }
        }
    }
}

/// A defect: a byte changes beside all commands.
pub(super) fn put(extent: &SimExtent, offset: u64, byte: u8) {
    extent.write(offset, &[byte]).expect("an extent without copies does not fail");
}

const _: () = assert!(PAGE_COUNT <= words::REGION_COUNT, "each page has a region of words");
