//! A host's reactions to messages on pages: the other half of the directory.
//!
//! A host has a word ([`PageWord`]) and a frame for each page. Threads of its programs and its node change the word. These rules are the
//! node's part. They act on messages of homes and other hosts. They take pages from programs, for others or to make room, and clean up
//! after dead threads. They work on a [`HostMemory`]. It is shared memory and mappings in the product, plain numbers ([`Plain`]) in the
//! explorer and the simulator.
//!
//! | file | holds |
//! |---|---|
//! | `messages` | the effect of each message |
//! | `grants` | grants, and notices about owners that are gone |
//! | `takes` | pages that are being taken, and the purpose |
//! | `flush` | pages that were stored to, and that go to all holders of their bytes |
//! | `holds` | pages that are kept for a while although another host waits for them |
//! | `plain` | words, slots and frames without shared memory |
//!
//! # Versions
//!
//! A host without a copy remembers a *minimum version*. It is the newest version that it was told to drop, or gave away. A grant to read is
//! installed only if its version is above it, in any order of arrival. So an invalidation that meets a page being fetched raises the
//! minimum version and is acknowledged at once. The grant that it overtook is void, and the host asks again, firmly ([`ToHome::Request`]).
//!
//! # What waits
//!
//! A message may concern a page that is being taken, or whose frame a thread is filling. Then it counts as still on its way; other pages go
//! on. [`Host::turn`] hears it when that is over. A grant to write waits until all that it names have dropped their copies.

mod flush;
mod grants;
mod holds;
mod messages;
mod plain;
mod takes;

pub use flush::BegunFlush;
use flush::OpenFlush;
pub use plain::Plain;
pub use takes::Why;

use super::hosts::{HostId, Hosts};
use super::message::{Access, Page, Ticket, ToHome, ToHost, Version};
use super::word::{Change, Fault, PageWord, State};
use crate::error::Corrupt;
use holds::Holds;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;

/// The node's slot for requests that it makes itself.
const OWN_SLOT: u16 = 0;

/// A host's memory of a region, which its rules look at and change.
///
/// **Ordering**: threads of programs change words and slots at the same time; frames only as their words let them.
pub trait HostMemory {
    /// A page's bytes.
    type Bytes: Clone;

    /// Number of pages.
    fn page_count(&self) -> u64;
    /// Number of slots: one that a word or a message names may be any.
    fn slot_count(&self) -> u16;
    /// Index of a page's home among the region's homes.
    fn home_of(&self, page: Page) -> usize;
    /// The host's number at the home of a page.
    fn me(&self, page: Page) -> HostId;

    /// The word of a page.
    fn look(&self, page: Page) -> PageWord;
    /// Changes a word by a rule, and wakes who is parked on it.
    fn change<T>(&mut self, page: Page, rule: impl Fn(PageWord) -> Result<Change<T>, Corrupt>) -> Result<T, Corrupt>;
    /// A page is as if it had never been here, whatever was under way.
    fn forget(&mut self, page: Page);
    /// A slot touches a page ([`PageWord::fault`]): it says where it is, and a claim has a number of its own.
    fn fault(&mut self, page: Page, slot: u16, access: Access) -> Result<Fault, Corrupt>;
    /// A slot is at no page any more.
    fn clear_slot(&mut self, slot: u16);
    /// The page that a slot's thread claimed and that has not come. The thread may live, and go on meanwhile.
    fn claim(&self, slot: u16) -> Result<Option<Page>, Corrupt>;
    /// The thread of a slot is dead. Returns the page that it had claimed, which nobody fetches for it.
    fn end_slot(&mut self, slot: u16) -> Result<Option<Page>, Corrupt>;
    /// The number of a slot's last request.
    fn number(&self, slot: u16) -> u32;
    /// A number for a slot's next request, if its last one has the number `last` still. Its thread may live, and have begun another.
    fn next_number(&mut self, slot: u16, last: u32) -> Option<u32>;
    /// True if no program maps a marked page at this moment.
    fn is_clear(&self, page: Page) -> bool;

    /// Puts bytes that came for a slot into a page's frame. Returns false where there was no room.
    fn fill(&mut self, page: Page, slot: u16, bytes: &Self::Bytes) -> bool;
    /// The bytes in a page's frame.
    fn read(&mut self, page: Page) -> Option<Self::Bytes>;
    /// Keeps all programs from storing to marked pages. [`HostMemory::take`] does so itself.
    fn protect(&mut self, _pages: Range<u64>) {}
    /// Gives a frame back.
    fn punch(&mut self, page: Page);
    /// Takes neighbouring pages of one home from all programs, in that manner, and returns the bytes where they are wanted.
    fn take(&mut self, pages: Range<u64>, manner: Manner) -> Option<Vec<Self::Bytes>>;
    /// A page has been taken.
    fn on_taken(&mut self, _why: &Why) {}
}

/// In which way a page is taken from the programs. Neighbours that are taken in the same way are taken together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Manner {
    /// Index of their home among the region's homes.
    pub home: usize,
    /// True if a readable copy stays for programs.
    pub keeps: bool,
    /// True if the bytes go somewhere; else they are copies that no program can store to.
    pub wants_bytes: bool,
}

/// A message that a host sends.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum HostOutput<B> {
    /// To the page's home.
    Home {
        /// About which page.
        page: Page,
        /// The message.
        message: ToHome,
        /// The page's bytes, where [`ToHome::has_bytes`] says so.
        bytes: Option<B>,
    },
    /// To another host.
    Host {
        /// Its number at the page's home.
        to: HostId,
        /// About which page.
        page: Page,
        /// The message.
        message: ToHost,
        /// The page's bytes, where [`ToHost::has_bytes`] says so.
        bytes: Option<B>,
    },
    /// To a home: all pages of a flush have left.
    Flush {
        /// Index of the home.
        home: usize,
        /// The flush.
        number: u64,
        /// Number of its pages there.
        count: u64,
    },
}

impl<B> HostOutput<B> {
    fn home(page: Page, message: ToHome) -> HostOutput<B> {
        HostOutput::Home { page, message, bytes: None }
    }
}

/// Acknowledgements of those who drop their copies for a grant to write.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Collecting<B> {
    /// Confirmations that came before the grant: hosts that dropped a copy of that version.
    Early { version: Version, from: Hosts },
    /// The grant waits for these.
    Granted { ticket: Ticket, version: Version, bytes: Option<B>, awaits: Hosts },
}

/// The node's part of a region's pages on one host.
///
/// **Cost**: about 100 bytes for each page that something is under way for.
// FEATURE: EU-F12 EU-F13
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Host<B> {
    /// Pages that are being taken from programs, and what for.
    takes: BTreeMap<Page, Why>,
    /// Pages with messages that wait until a thread has filled their frame.
    filling: BTreeSet<Page>,
    /// Messages that wait until a page's taking or filling has ended.
    waiting: BTreeMap<Page, VecDeque<(ToHost, Option<B>)>>,
    collecting: BTreeMap<Page, Collecting<B>>,
    holds: Holds<B>,
    /// The flush whose pages are being taken.
    flush: Option<OpenFlush>,
    /// Slots of dead threads whose claims are still open; nobody gets them.
    dead_slots: BTreeSet<u16>,
}

impl<B> Default for Host<B> {
    fn default() -> Host<B> {
        Host {
            takes: BTreeMap::new(),
            filling: BTreeSet::new(),
            waiting: BTreeMap::new(),
            collecting: BTreeMap::new(),
            holds: Holds::default(),
            flush: None,
            dead_slots: BTreeSet::new(),
        }
    }
}

impl<B: Clone> Host<B> {
    /// True if messages on a page wait: it is being taken, or filled.
    fn is_held(&self, page: Page) -> bool {
        self.takes.contains_key(&page) || self.filling.contains(&page)
    }

    /// True while pages are being taken, or their filling is waited for.
    pub fn is_taking(&self) -> bool {
        !self.takes.is_empty() || !self.filling.is_empty() || self.flush.is_some()
    }

    /// Messages on these pages are void, and none of them is waited for.
    pub fn forget(&mut self, is_meant: impl Fn(Page) -> bool) {
        self.holds.forget(&is_meant);
        self.takes.retain(|page, _| !is_meant(*page));
        self.filling.retain(|page| !is_meant(*page));
        self.waiting.retain(|page, _| !is_meant(*page));
        self.collecting.retain(|page, _| !is_meant(*page));
    }

    /// True if a program may have the slots: no claim in their names is open.
    pub fn is_free(&self, slots: Range<u16>) -> bool {
        self.dead_slots.range(slots).next().is_none()
    }

    /// Slots of the dead whose claims were granted, or failed, may be given out again.
    pub fn settle_dead_slots(&mut self, place: &impl HostMemory<Bytes = B>) {
        if self.dead_slots.is_empty() {
            return;
        }
        let words = (0..place.page_count()).map(|page| place.look(Page(page)));
        let claimed: BTreeSet<u16> = words.filter(|word| word.is_claimed()).map(PageWord::claimer).collect();
        self.dead_slots.retain(|slot| claimed.contains(slot));
    }

    /// The threads of slots are gone, or belong to the region no more. Their claims are asked for again in their names. Frames that dead
    /// threads (`is_over`) were filling are given up; other threads fill theirs to the end.
    ///
    /// **Errors**: [`Corrupt`], after all slots were handled.
    pub fn part<P: HostMemory<Bytes = B>>(
        &mut self,
        place: &mut P,
        slots: Range<u16>,
        is_over: bool,
        outputs: &mut Vec<HostOutput<B>>,
    ) -> Result<(), Corrupt> {
        let (mut claims, mut outcome) = (Vec::new(), Ok(()));
        for slot in slots {
            let Ok(Some(page)) = place.end_slot(slot) else { continue };
            if is_over && place.look(page).is_being_filled() {
                place.punch(page);
                outcome = outcome.and(place.change(page, |word| word.unfill(slot)));
            }
            self.dead_slots.insert(slot);
            claims.push((page, slot));
        }
        claims.into_iter().for_each(|(page, slot)| self.repeat(place, page, slot, outputs));
        outcome
    }

    /// Threads do not know what became of their requests, and wait. Their claims are asked for again in their names.
    ///
    /// The threads live: their slots stay theirs. They may have got their pages before this is heard, and be at others. Those are asked for
    /// twice, and come once.
    ///
    /// **Errors**: [`Corrupt`], after all slots were handled.
    pub fn take_over<P: HostMemory<Bytes = B>>(
        &mut self,
        place: &mut P,
        slots: Range<u16>,
        outputs: &mut Vec<HostOutput<B>>,
    ) -> Result<(), Corrupt> {
        let mut outcome = Ok(());
        for slot in slots {
            match place.claim(slot) {
                Ok(Some(page)) => self.repeat(place, page, slot, outputs),
                claim => outcome = outcome.and(claim.map(drop)),
            }
        }
        outcome
    }

    /// The request of a page again: nobody knows whether the thread of the slot sent it. A home that heard a request to write knows
    /// it again by its ticket; one to read is another request.
    fn repeat<P: HostMemory<Bytes = B>>(&mut self, place: &mut P, page: Page, slot: u16, outputs: &mut Vec<HostOutput<B>>) {
        if slot >= place.slot_count() {
            return;
        }
        // The number first: a thread that has gone on since has another, or claims the page no more.
        let number = place.number(slot);
        let word = place.look(page);
        if word.claimer() != slot {
            return;
        }
        let want = match word.state() {
            Ok(State::Fetching) => {
                let Some(number) = place.next_number(slot, number) else { return };
                ToHome::Request { ticket: Ticket { slot, number }, access: Access::Read, has: None, firm: false }
            }
            Ok(state @ (State::FetchingWrite | State::Upgrading | State::TakingUpgrade)) => {
                let ticket = Ticket { slot, number: number.max(1) };
                let has = (state == State::Upgrading).then(|| word.version());
                ToHome::Request { ticket, access: Access::Write, has, firm: false }
            }
            _ => return,
        };
        outputs.push(HostOutput::home(page, want));
    }

    /// Another host is gone. It may have been about to send a page of that home that is being fetched for reading. Such pages are asked for
    /// again. The home asks again for pages that are to be written.
    pub fn on_host_gone<P: HostMemory<Bytes = B>>(&mut self, place: &mut P, home: usize, outputs: &mut Vec<HostOutput<B>>) {
        let is_read = |page: &Page| place.look(*page).state() == Ok(State::Fetching) && place.home_of(*page) == home;
        let fetching: Vec<Page> = pages(place).filter(is_read).collect();
        for page in fetching {
            let slot = place.look(page).claimer();
            self.repeat(place, page, slot, outputs);
        }
    }

    /// A home is gone: its replies do not come. Threads that wait ask it again, and find out. Copies stay readable, and owned pages usable.
    pub fn on_home_lost<P: HostMemory<Bytes = B>>(&mut self, place: &mut P, home: usize) {
        let is_waited_for = |page: &Page| place.look(*page).is_asked_for() && place.home_of(*page) == home;
        let waiting: Vec<Page> = pages(place).filter(is_waited_for).collect();
        for page in waiting {
            let slot = place.look(page).claimer();
            // A thread that touches it finds the senseless state.
            let _ = self.fail(place, page, slot);
        }
    }

    /// Ends the fetch of a page; its waiters look again. A thread that has given up by itself, or has a reply, is left alone.
    fn fail<P: HostMemory<Bytes = B>>(&mut self, place: &mut P, page: Page, slot: u16) -> Result<(), Corrupt> {
        if slot >= place.slot_count() {
            return Err(Corrupt("a page claimed by a slot that there is not"));
        }
        if place.change(page, |word| word.fail(slot))?.is_some() {
            place.clear_slot(slot);
            self.collecting.remove(&page);
        }
        Ok(())
    }
}

/// All pages of a place.
fn pages<P: HostMemory>(place: &P) -> impl Iterator<Item = Page> + use<P> {
    (0..place.page_count()).map(Page)
}

/// True if the request that a message names claims the page.
fn is_of<P: HostMemory>(place: &P, page: Page, ticket: Ticket) -> bool {
    place.look(page).claimer() == ticket.slot && place.number(ticket.slot) == ticket.number
}

fn acknowledge<P: HostMemory>(place: &P, page: Page, version: Version, tell: Option<HostId>) -> HostOutput<P::Bytes> {
    match tell {
        Some(to) => HostOutput::Host { to, page, message: ToHost::Ack { from: place.me(page), version }, bytes: None },
        None => HostOutput::home(page, ToHome::Ack { version }),
    }
}

#[cold]
fn taken_by_nobody() -> Corrupt {
    Corrupt("a page that is taken by nobody is being taken")
}
