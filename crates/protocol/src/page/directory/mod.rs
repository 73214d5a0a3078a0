//! The directory of an extent, at the home of its pages. It decides which hosts may read each page, and which may write it. It does so for
//! all hosts that map it, and for commands.
//!
//! The directory is the paper's coherency keeper and the coherence half of its arbiter. There is no one place for all requests: each home
//! keeps the directory of its own memory. [EU §1, §2.2, §2.3]
//!
//! ```text
//!                     Write (first invalidates all sharers)                   DoneWrite
//!       +------------------------------------------------> Granting --------------------------+
//!       |                                                   | ^                               |
//!       |  +----------- DoneRead, TakeBack -----------------+ | ReadFirm                      |
//!       |  v                                                  |                               v
//!     Home / Shared <----------------------- PutBack --------------------------------------- Owned
//!       |  ^  ^  ^  ^                                                                        | | |
//!       |  |  |  |  +--- WriteBack ---- Downgrading <--------------- ReadOwned --------------+ | |
//!       |  |  |  |                           | SenderLost                                      | |
//!       |  |  |  +--- WriteBack, PutBack - Asking ---- DoneWrite --> Owned, BytesLost --> Lost  | |
//!       |  |  |                              | SenderLost                                      | |
//!       |  |  +------ PutBack --------- Transferring <------------- WriteOwned ----------------+ |
//!       |  |                                 | ReceiverLost     (DoneWrite --> Owned)            |
//!       |  +--------- PutBack ----------- Recalling <-------------- NeedOwned -------------------+
//!       |                                    | PutBackHeld
//!       |                                    v
//!       +-- HoldShared --> Clearing -----> Held -- Release... --> Home, Shared, Owned
//!                                 AckLast    ^-- Hold ---------- Home, Shared, Owned
//! ```
//!
//! (`BytesLost` leads to `Lost` from wherever a host that died may have had the newest bytes.)
//!
//! # What is kept true
//!
//! - A page has one owner, or several hosts have copies of the bytes at home. A new owner stores nothing before all hosts with copies
//!   have confirmed that they dropped them.
//! - A page whose newest bytes are gone is [`Phase::Lost`], and every request for it is refused. It never shows older bytes or zeros. Only
//!   the death of its owner may lose a page.
//! - Every request is answered, in the order of arrival at the home.
//!
//! # Costs
//!
//! See [the module above](super#costs).

mod copied;
mod faces;
mod lost;
mod returning;
mod serve;
mod table;

pub use returning::Returning;
pub use table::{Event, Phase, TABLE};

use super::entries::{Entries, Entry, Holding};
use super::hosts::{HostId, Hosts};
use super::message::{Access, Page, Refusal, Ticket, ToHome, ToHost, Version};
use crate::error::Error;
use crate::limits::PAGE_QUEUE_MAX;
use crate::table as rows;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A get or put, or a part of one, on which the home's data path works. It is a number of the driver's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Face(pub u64);

/// An action for the driver. It drains all of them after each input, before anything else happens to the extent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Output {
    /// A message to a host; with the page's bytes as they are at home now, where [`ToHost::has_bytes`] says so.
    Send(HostId, Page, ToHost),
    /// A face may begin. One that reads reads now, and need not say when it is done. One that writes has the page until
    /// [`Directory::release`].
    Ready(Page, Face),
    /// A face fails: the page's newest bytes are gone ([`Refusal::Lost`]), or too many wait ([`Refusal::Full`]).
    Failed(Page, Face, Refusal),
}

/// Effect of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// The directory acted on it. Bytes that came with it go to their place before the outputs are drained.
    Acted,
    /// Another message overtook it, or it is a repetition: bytes that came with it are of no use. Worth counting.
    Stale,
}

/// The requester.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Who {
    Host { host: HostId, ticket: Ticket, has: Option<Version>, firm: bool },
    Face(Face),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct QueuedRequest {
    who: Who,
    access: Access,
}

impl QueuedRequest {
    fn is_of(&self, host: HostId) -> bool {
        matches!(self.who, Who::Host { host: who, .. } if who == host)
    }

    fn is_ticket(&self, host: HostId, ticket: Ticket) -> bool {
        matches!(self.who, Who::Host { host: who, ticket: number, .. } if (who, number) == (host, ticket))
    }
}

/// A page's transit, and the events that the home waits for.
///
/// - The page's entry is as it was before, but for `Clearing` and `Held`, whose copies elsewhere are out of it.
/// - A grant for writing that is under way is of the version after the entry's.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Transit {
    /// Waits for `Done` of a host's request. `awaits` are to acknowledge to it.
    Granting { request: QueuedRequest, awaits: Hosts },
    /// Waits for the owner's `WriteBack`. Who wanted it may be gone.
    Downgrading { owner: HostId, request: Option<QueuedRequest> },
    /// Waits for `Done` of a host's request.
    Transferring { owner: HostId, request: QueuedRequest },
    /// Waits for the owner's `WriteBack`, for a face, or for whoever is first in the queue.
    Recalling { owner: HostId, face: Option<Face> },
    /// Waits for acknowledgements. The face may have gone.
    Clearing { awaits: Hosts, face: Option<Face> },
    /// Waits for a face; without one it is over at once.
    Held { face: Option<Face> },
    /// Waits for `Done`, `WriteBack` or `Abandoned` of a host's request.
    Asking { request: QueuedRequest },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Busy {
    transit: Transit,
    queue: VecDeque<QueuedRequest>,
}

/// The directory of the pages of one extent.
///
/// **Cost**: 16 bytes a page. About 100 bytes and its queue for each page in transit. 8 bytes for each thread slot of a host that ever
/// asked.
///
/// **Source**: the coherency keeper [EU §1]. Requests combined with the access [EU §2.3]. Read-end notices, and accesses by proxy of the
/// home [EU §2.1]. `FEATURE: EU-F12 EU-F13 EU-F15 EU-F16`
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Directory {
    /// The home's own host: its frames are the bytes at home.
    own: HostId,
    /// See [`Directory::with_copies`].
    has_copies: bool,
    entries: Entries,
    busy: BTreeMap<Page, Busy>,
    /// The newest request of each slot that was heard.
    seen: BTreeMap<(HostId, u16), u32>,
    outputs: VecDeque<Output>,
}

impl Directory {
    /// The directory of an extent of `pages` pages, none of which anybody has. `own` is the number of the home's own host.
    pub fn new(pages: u64, own: HostId) -> Directory {
        let entries = Entries::new(pages);
        Directory { own, has_copies: false, entries, busy: BTreeMap::new(), seen: BTreeMap::new(), outputs: VecDeque::new() }
    }

    /// The state of a page.
    pub fn phase(&self, page: Page) -> Phase {
        match self.busy.get(&page).map(|busy| &busy.transit) {
            None => match self.entries.get(page).holding {
                Holding::Free { sharers } if sharers.is_empty() => Phase::Home,
                Holding::Free { .. } => Phase::Shared,
                Holding::Owned { .. } => Phase::Owned,
                Holding::Lost => Phase::Lost,
            },
            Some(Transit::Granting { .. }) => Phase::Granting,
            Some(Transit::Downgrading { .. }) => Phase::Downgrading,
            Some(Transit::Transferring { .. }) => Phase::Transferring,
            Some(Transit::Recalling { .. }) => Phase::Recalling,
            Some(Transit::Clearing { .. }) => Phase::Clearing,
            Some(Transit::Held { .. }) => Phase::Held,
            Some(Transit::Asking { .. }) => Phase::Asking,
        }
    }

    /// The version of the bytes that are good.
    pub fn version(&self, page: Page) -> Version {
        self.entries.get(page).version
    }

    /// The host whose bytes alone are good.
    pub fn owner(&self, page: Page) -> Option<HostId> {
        match self.entries.get(page).holding {
            Holding::Owned { owner } => Some(owner),
            Holding::Free { .. } | Holding::Lost => None,
        }
    }

    /// True if a host could be granted a page without asking anybody else.
    pub fn is_free_for(&self, page: Page, host: HostId, access: Access) -> bool {
        if page.0 >= self.entries.count() || self.busy.contains_key(&page) {
            return false;
        }
        match self.entries.get(page).holding {
            Holding::Free { sharers } => access == Access::Read || sharers.without(host).is_empty(),
            Holding::Owned { .. } | Holding::Lost => false,
        }
    }

    /// True if a host was told to pass a page on, and its arrival is not confirmed.
    ///
    /// A host that has sent everything and leaves is given up ([`Directory::on_host_lost`]) only when this is over. Its pages may still be
    /// on their way. A host that waits for one would be told that it does not come.
    pub fn is_passing_on(&self, host: HostId) -> bool {
        self.busy.values().any(|busy| matches!(busy.transit, Transit::Transferring { owner, .. } if owner == host))
    }

    /// The pages that somebody else may have, or is about to get. Those whose newest bytes are gone are not among them.
    pub fn elsewhere(&self) -> BTreeSet<Page> {
        let is_good = |page: &Page| self.entries.get(*page).holding != Holding::Lost;
        self.entries.used().chain(self.busy.keys().copied()).filter(is_good).collect()
    }

    /// True if a transit of a page is under way.
    pub fn is_busy(&self, page: Page) -> bool {
        self.busy.contains_key(&page)
    }

    /// Number of pages with a transit under way.
    #[cfg(test)]
    pub fn busy_count(&self) -> usize {
        self.busy.len()
    }

    /// The next thing to do.
    pub fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// A message of a host.
    ///
    /// **Ordering**: messages may come in any order, each once; a [`ToHome::Request`] may be repeated at any time. Messages of a host that
    /// was given up by [`Directory::on_host_lost`] are not passed on. **Errors**: [`Error::Garbage`] for a message that no correct host
    /// sends.
    pub fn handle(&mut self, from: HostId, page: Page, message: ToHome) -> Result<Heard, Error> {
        if page.0 >= self.entries.count() {
            return Err(garbage(from, format!("page {} of an extent of {} pages", page.0, self.entries.count())));
        }
        Ok(match message {
            ToHome::Request { ticket, access, has, firm } => self.on_request(from, page, ticket, access, has, firm),
            ToHome::Done { ticket, version } => self.on_done(from, page, ticket, version),
            ToHome::WriteBack { version, keeps: true } => self.on_write_back(from, page, version),
            ToHome::WriteBack { version, keeps: false } => self.on_put_back(from, page, version),
            ToHome::Missing { version } => self.on_missing(from, page, version),
            ToHome::Abandoned { ticket } => self.on_abandoned(from, page, ticket),
            ToHome::Ack { version } => self.on_ack(from, page, version),
            ToHome::Store { version, .. } if self.may_put(page, from, version) => Heard::Acted,
            ToHome::Store { .. } => Heard::Stale,
        })
    }

    fn on_request(
        &mut self,
        host: HostId,
        page: Page,
        ticket: Ticket,
        access: Access,
        has: Option<Version>,
        firm: bool,
    ) -> Heard {
        let seen = self.seen.entry((host, ticket.slot)).or_insert(0);
        if (ticket.number.wrapping_sub(*seen) as i32) <= 0 {
            return Heard::Stale;
        }
        *seen = ticket.number;
        self.ask(page, QueuedRequest { who: Who::Host { host, ticket, has, firm }, access });
        Heard::Acted
    }

    /// Serves a request, or puts it in the page's queue.
    fn ask(&mut self, page: Page, request: QueuedRequest) {
        match self.busy.get_mut(&page) {
            Some(busy) if busy.queue.len() < PAGE_QUEUE_MAX => busy.queue.push_back(request),
            Some(_) => self.refuse(page, request, Refusal::Full),
            None => self.advance(page, VecDeque::from([request])),
        }
    }

    /// The host that a grant was on its way to has it.
    fn on_done(&mut self, from: HostId, page: Page, ticket: Ticket, version: Version) -> Heard {
        let Some(Busy { transit, .. }) = self.busy.get(&page) else { return Heard::Stale };
        let (Transit::Granting { request, .. } | Transit::Transferring { request, .. } | Transit::Asking { request }) = transit
        else {
            return Heard::Stale;
        };
        let (request, entry) = (*request, self.entries.get(page));
        match request.access {
            _ if !request.is_ticket(from, ticket) => return Heard::Stale,
            Access::Write if version != entry.version.next() => return Heard::Stale,
            Access::Write => self.settle(page, Event::DoneWrite, Entry { version, holding: Holding::Owned { owner: from } }),
            Access::Read => self.settle(page, Event::DoneRead, entry),
        }
        Heard::Acted
    }

    /// The owner keeps a copy; or the reader that its sender's death left alone has one.
    fn on_write_back(&mut self, from: HostId, page: Page, version: Version) -> Heard {
        let entry = self.entries.get(page);
        let Some(Busy { transit, .. }) = self.busy.get(&page).filter(|_| entry.version == version) else { return Heard::Stale };
        let mut sharers = Hosts::one(from);
        match *transit {
            Transit::Downgrading { owner, request } if owner == from => match request {
                Some(QueuedRequest { who: Who::Face(face), .. }) => self.outputs.push_back(Output::Ready(page, face)),
                Some(request) if !self.is_elsewhere(request) => self.push_front(page, request),
                Some(QueuedRequest { who: Who::Host { host, .. }, .. }) => sharers.insert(host),
                None => {}
            },
            Transit::Asking { request } if request.is_of(from) && request.access == Access::Read => {}
            _ => return Heard::Stale,
        }
        self.settle(page, Event::WriteBack, Entry { version, holding: Holding::Free { sharers } });
        Heard::Acted
    }

    /// The page came home, and who owned it keeps nothing: it was recalled, or has been evicted.
    fn on_put_back(&mut self, from: HostId, page: Page, version: Version) -> Heard {
        let entry = self.entries.get(page);
        let is_owner = |owner: HostId| owner == from && version == entry.version;
        // The host to which a grant is on its way has got it, and given it up: this overtook its `Done`.
        let is_next =
            |request: &QueuedRequest| request.is_of(from) && request.access == Access::Write && version == entry.version.next();
        let mut free = Entry { version, holding: Holding::Free { sharers: Hosts::NONE } };
        match self.busy.get(&page).map(|busy| busy.transit.clone()) {
            None if entry.holding == (Holding::Owned { owner: from }) && is_owner(from) => {
                self.step(page, Event::PutBack, |this| this.entries.set(page, free));
                return Heard::Acted;
            }
            Some(Transit::Granting { request, .. } | Transit::Transferring { request, .. } | Transit::Asking { request })
                if is_next(&request) => {}
            // The home's own host evicts while a face writes to what it had.
            Some(Transit::Held { .. }) if entry.holding == (Holding::Owned { owner: from }) && is_owner(from) => {
                self.step(page, Event::PutBackHeld, |this| this.entries.set(page, free));
                return Heard::Acted;
            }
            // The owner evicted before it heard of the request, which it will ignore: the home serves it after all.
            Some(Transit::Downgrading { owner, request }) if is_owner(owner) => {
                request.into_iter().for_each(|request| self.push_front(page, request));
            }
            Some(Transit::Transferring { owner, request }) if is_owner(owner) => self.push_front(page, request),
            Some(Transit::Recalling { owner, face }) if is_owner(owner) => {
                // The owner's version is never good again: it may have been told so.
                free.version = version.next();
                if let Some(face) = face {
                    self.entries.set(page, free);
                    self.turn(page, Event::PutBackHeld, Transit::Held { face: Some(face) });
                    self.outputs.push_back(Output::Ready(page, face));
                    return Heard::Acted;
                }
            }
            _ => return Heard::Stale,
        }
        self.settle(page, Event::PutBack, free);
        Heard::Acted
    }

    /// The owner passed the page on to a host that died.
    fn on_missing(&mut self, from: HostId, page: Page, version: Version) -> Heard {
        match self.busy.get(&page).map(|busy| &busy.transit) {
            // An owner passes no page on that goes home first.
            Some(Transit::Recalling { owner, .. }) if *owner == from && version == self.version(page) && !self.has_copies => {
                self.lose(page, None);
            }
            _ => return Heard::Stale,
        }
        Heard::Acted
    }

    /// The host that was to get the page from one that died has not got it.
    fn on_abandoned(&mut self, from: HostId, page: Page, ticket: Ticket) -> Heard {
        match self.busy.get(&page).map(|busy| &busy.transit) {
            Some(Transit::Asking { request }) if request.is_ticket(from, ticket) => self.lose(page, None),
            _ => return Heard::Stale,
        }
        Heard::Acted
    }

    /// A copy has been dropped for a face.
    fn on_ack(&mut self, from: HostId, page: Page, version: Version) -> Heard {
        let is_asked = self.version(page) == version;
        match self.busy.get_mut(&page).map(|busy| &mut busy.transit) {
            Some(Transit::Clearing { awaits, .. }) if is_asked && awaits.has(from) => {
                awaits.remove(from);
                self.on_cleared(page, Event::Ack, Event::AckLast);
            }
            _ => return Heard::Stale,
        }
        Heard::Acted
    }

    fn push_front(&mut self, page: Page, request: QueuedRequest) {
        self.busy.get_mut(&page).expect("something is under way").queue.push_front(request);
    }

    /// The transit is over: the page is as `entry` says, and waiting requests are served.
    fn settle(&mut self, page: Page, event: Event, entry: Entry) {
        let mut queue = VecDeque::new();
        self.step(page, event, |this| {
            queue = this.busy.remove(&page).expect("something is under way").queue;
            this.entries.set(page, entry);
        });
        self.advance(page, queue);
    }

    /// The page's newest bytes are gone. All hosts that wait for them are told, but for the dead.
    fn lose(&mut self, page: Page, dead: Option<HostId>) {
        if self.has_copies {
            return self.fall_back(page, dead);
        }
        let entry = Entry { version: self.version(page), holding: Holding::Lost };
        let Some(Busy { transit, .. }) = self.busy.get(&page) else {
            return self.step(page, Event::BytesLost, |this| this.entries.set(page, entry));
        };
        let request = match *transit {
            Transit::Granting { request, .. } | Transit::Transferring { request, .. } | Transit::Asking { request } => {
                Some(request)
            }
            Transit::Downgrading { request, .. } => request,
            Transit::Recalling { face, .. } | Transit::Clearing { face, .. } => {
                face.map(|face| QueuedRequest { who: Who::Face(face), access: Access::Write })
            }
            Transit::Held { .. } => None,
        };
        let live = request.filter(|request| !dead.is_some_and(|dead| request.is_of(dead)));
        live.into_iter().for_each(|request| self.refuse(page, request, Refusal::Lost));
        self.settle(page, Event::BytesLost, entry);
    }

    /// Goes from one thing under way to another.
    fn turn(&mut self, page: Page, event: Event, to: Transit) {
        self.step(page, event, |this| this.busy.get_mut(&page).expect("something is under way").transit = to);
    }

    /// Forgets which requests of a host were heard: for the proof that this memory is needed.
    #[cfg(test)]
    pub(super) fn forget(&mut self, host: HostId) {
        self.seen.retain(|(who, _), _| *who != host);
    }

    /// Makes a transition, and holds it against the table.
    fn step(&mut self, page: Page, event: Event, change: impl FnOnce(&mut Directory)) {
        let from = self.phase(page);
        change(self);
        let to = self.phase(page);
        assert_eq!(rows::next(TABLE, from, event), Some(to), "{event:?} in {from:?}");
    }

    fn send(&mut self, to: HostId, page: Page, message: ToHost) {
        self.outputs.push_back(Output::Send(to, page, message));
    }

    fn refuse(&mut self, page: Page, request: QueuedRequest, reason: Refusal) {
        match request.who {
            Who::Host { host, ticket, .. } => {
                // A refusal may go with the thread that it went to: who repeats the request is refused once more.
                if let Some(seen) = self.seen.get_mut(&(host, ticket.slot)).filter(|seen| **seen == ticket.number) {
                    *seen = ticket.number.wrapping_sub(1);
                }
                self.send(host, page, ToHost::Refused { ticket, reason });
            }
            Who::Face(face) => self.outputs.push_back(Output::Failed(page, face, reason)),
        }
    }
}

#[cold]
fn garbage(from: HostId, reason: String) -> Error {
    Error::Garbage { peer: from.to_string(), reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_this() {
        assert_eq!(rows::contradiction(TABLE), None);
        assert_eq!(rows::print(TABLE), include_str!("table.txt"));
    }
}
