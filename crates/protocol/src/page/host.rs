//! What a host has of the pages of an extent, and what it does with what it is told: the other half of the directory.
//!
//! ```text
//!             Fetch               GrantRead                  Upgrade
//!   Absent ----------> Fetching ------------> Shared ---------------------> Upgrading
//!     ^ ^ ^              | |  ^                | | ^                          | | |
//!     | | +-- Refuse ----+ |  +----------------|-|-|-- Invalidate ------------+ | |
//!     | |      Abandon     |                   | | +----- RefuseUpgrade --------+ |
//!     | +-- Invalidate ----|-------------------+ |                                |
//!     | |   Evict          | GrantEarly          | ForwardRead                    | GrantEarly
//!     | |                  +----> Collecting <---|--------------------------------+
//!     | |                  |          | AckLast  |
//!     | |        GrantWrite|          v          |
//!     | +-- Evict -----------------> Owned ------+
//!     +---- ForwardWrite, Recall ----+  (GrantWrite of Upgrading leads there too)
//! ```
//!
//! # Versions
//!
//! A host that has no copy remembers a *floor*: the newest version that it was told to drop, or gave away. A grant to read is
//! installed only if its version is above the floor, whatever overtook what. So an invalidation that meets a page being
//! fetched raises the floor and is acknowledged at once; the grant that it overtook is void, and the host asks again, firmly
//! ([`ToHome::Want`]).
//!
//! # Taking a page from the programs
//!
//! An invalidation, a forward or a recall takes a page from programs that have it mapped; that takes time ([`Copies::take`]
//! says whether, and how). The driver takes the page first and hands the message in afterwards: to the rules a message whose
//! page is being taken is one that is still on its way.

use super::directory::Heard;
use super::hosts::{HostId, Hosts};
use super::message::{Access, Page, Refusal, Ticket, ToHome, ToHost, Version};
use crate::error::Error;
use crate::table::{self, Row};
use std::collections::{BTreeMap, VecDeque};

/// The states of a page at a host, as the table names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// No copy is here.
    Absent,
    /// A grant is asked for.
    Fetching,
    /// A copy is here, for reading.
    Shared,
    /// A copy is here, and a grant to write is asked for.
    Upgrading,
    /// The grant to write is here, and not all others have dropped their copies.
    Collecting,
    /// The page is here, for writing.
    Owned,
}

/// What happens to a page at a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A program touches a page that is not here.
    Fetch,
    /// A program stores to a copy.
    Upgrade,
    /// The grant to read comes.
    GrantRead,
    /// It was overtaken by an invalidation.
    GrantVoid,
    /// Who was to send it may be gone.
    AskAgain,
    /// The grant to write comes, and nobody else has a copy any more.
    GrantWrite,
    /// The grant to write comes before all have dropped their copies.
    GrantEarly,
    /// Somebody dropped a copy before the grant came.
    AckEarly,
    /// Somebody dropped a copy, and others have not.
    Ack,
    /// The last copy was dropped.
    AckLast,
    /// The copy is no longer good.
    Invalidate,
    /// An older copy than that which is here is no longer good.
    InvalidateOld,
    /// Another host is to get a copy, or the home is to get the bytes.
    ForwardRead,
    /// Another host is to get the page.
    ForwardWrite,
    /// The home is to get the page.
    Recall,
    /// There is no room for it.
    Evict,
    /// Its sender is gone, and it had come.
    Salvage,
    /// Its sender is gone, and it had not come.
    Abandon,
    /// The request fails.
    Refuse,
    /// The request to write fails; the copy stays.
    RefuseUpgrade,
}

use Phase::{Absent, Collecting, Fetching, Owned, Shared, Upgrading};

/// Every transition of a page at a host.
pub const TABLE: &[Row<Phase, Event>] = &[
    Row { event: Event::Fetch, from: &[Absent], to: Fetching },
    Row { event: Event::Upgrade, from: &[Shared], to: Upgrading },
    Row { event: Event::GrantRead, from: &[Fetching], to: Shared },
    Row { event: Event::GrantVoid, from: &[Fetching], to: Fetching },
    Row { event: Event::AskAgain, from: &[Fetching], to: Fetching },
    Row { event: Event::GrantWrite, from: &[Fetching, Upgrading], to: Owned },
    Row { event: Event::GrantEarly, from: &[Fetching, Upgrading], to: Collecting },
    Row { event: Event::AckEarly, from: &[Fetching], to: Fetching },
    Row { event: Event::AckEarly, from: &[Upgrading], to: Upgrading },
    Row { event: Event::Ack, from: &[Collecting], to: Collecting },
    Row { event: Event::AckLast, from: &[Collecting], to: Owned },
    Row { event: Event::Invalidate, from: &[Absent, Shared], to: Absent },
    Row { event: Event::Invalidate, from: &[Fetching, Upgrading], to: Fetching },
    Row { event: Event::InvalidateOld, from: &[Shared], to: Shared },
    Row { event: Event::InvalidateOld, from: &[Upgrading], to: Upgrading },
    Row { event: Event::ForwardRead, from: &[Owned], to: Shared },
    Row { event: Event::ForwardWrite, from: &[Owned], to: Absent },
    Row { event: Event::Recall, from: &[Owned], to: Absent },
    Row { event: Event::Evict, from: &[Shared, Owned], to: Absent },
    Row { event: Event::Salvage, from: &[Shared], to: Shared },
    Row { event: Event::Salvage, from: &[Upgrading], to: Upgrading },
    Row { event: Event::Abandon, from: &[Fetching], to: Absent },
    Row { event: Event::Refuse, from: &[Fetching, Collecting], to: Absent },
    Row { event: Event::RefuseUpgrade, from: &[Upgrading], to: Shared },
];

/// Who acknowledged before the grant that names them came, and which version.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Early {
    version: Version,
    from: Hosts,
}

impl Early {
    /// One for an older version, which the home repeats in the name of a dead host, says nothing of this one.
    fn add(&mut self, host: HostId, version: Version) {
        if self.from.is_empty() || version.is_after(self.version) {
            *self = Early { version, from: Hosts::NONE };
        }
        if self.version == version {
            self.from.insert(host);
        }
    }
}

/// What a host has of a page, and knows of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Local {
    Absent { floor: Version },
    Fetching { floor: Version, ticket: Ticket, access: Access, early: Early },
    Shared { version: Version },
    Upgrading { version: Version, ticket: Ticket, early: Early },
    Collecting { version: Version, ticket: Ticket, awaits: Hosts },
    Owned { version: Version },
}

impl Local {
    /// What is known of a page that was never here.
    const UNKNOWN: Local = Local::Absent { floor: Version(Version::FIRST.0 - 1) };

    fn phase(&self) -> Phase {
        match self {
            Local::Absent { .. } => Phase::Absent,
            Local::Fetching { .. } => Phase::Fetching,
            Local::Shared { .. } => Phase::Shared,
            Local::Upgrading { .. } => Phase::Upgrading,
            Local::Collecting { .. } => Phase::Collecting,
            Local::Owned { .. } => Phase::Owned,
        }
    }

    /// The newest version that is known not to be good here.
    fn floor(&self) -> Version {
        match self {
            Local::Absent { floor } | Local::Fetching { floor, .. } => *floor,
            Local::Shared { version } | Local::Upgrading { version, .. } => version.prev(),
            Local::Collecting { version, .. } | Local::Owned { version } => version.prev(),
        }
    }

    fn copy(&self) -> Option<Version> {
        match self {
            Local::Shared { version } | Local::Upgrading { version, .. } => Some(*version),
            _ => None,
        }
    }

    /// The request that is under way.
    fn ticket(&self) -> Option<Ticket> {
        match self {
            Local::Fetching { ticket, .. } | Local::Upgrading { ticket, .. } | Local::Collecting { ticket, .. } => Some(*ticket),
            _ => None,
        }
    }
}

/// What became of a program's touch of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touch {
    /// The page may be used that way: map it, and go on.
    Have,
    /// It has been asked for.
    Asked,
    /// It was asked for before: wait, and touch again.
    Wait,
}

/// How a page is to be taken from the programs that have it mapped, before a message is handed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Take {
    /// They may go on reading: write-protect it, then read its bytes.
    Protect,
    /// They may not: write-protect it, read its bytes (of an owned one), and remove it from all of them.
    Drop,
}

/// What the host's rules want done. The driver drains all of it after each input.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Output {
    /// A message to the page's home; with the page's bytes where [`ToHome::has_bytes`] says so.
    ToHome(Page, ToHome),
    /// A message to another host; with the page's bytes where [`ToHost::has_bytes`] says so.
    ToHost(HostId, Page, ToHost),
    /// The page may be used: map it for those who wait, and wake them.
    Installed(Page, Access),
    /// Nobody here gets the page: those who wait fail.
    Failed(Page, Refusal),
}

/// The pages of one extent at one host.
///
/// A page whose state lies in a page word in memory shared with programs follows the same rules there; this is their whole,
/// for the node's own use (prefetch, requests of programs that died), for simulation and for model checking.
///
/// **Cost**: about 80 bytes for each page that ever was here; no allocation for a message between hosts below 64, but for the
/// queue of outputs.
// FEATURE: EU-F12 EU-F13
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Copies {
    me: HostId,
    pages: BTreeMap<Page, Local>,
    /// The last request of each seat.
    numbers: BTreeMap<u16, u32>,
    outputs: VecDeque<Output>,
}

impl Copies {
    /// A host that has nothing. A host that learns that it was taken for lost begins anew with this, having removed all pages
    /// from its programs.
    pub fn new(me: HostId) -> Copies {
        Copies { me, pages: BTreeMap::new(), numbers: BTreeMap::new(), outputs: VecDeque::new() }
    }

    /// The state of a page here.
    pub fn phase(&self, page: Page) -> Phase {
        self.local(page).phase()
    }

    /// The version of what is here for reading or writing.
    pub fn version(&self, page: Page) -> Option<Version> {
        match self.local(page) {
            Local::Owned { version } => Some(*version),
            other => other.copy(),
        }
    }

    /// The request that is under way for a page.
    pub fn ticket(&self, page: Page) -> Option<Ticket> {
        self.local(page).ticket()
    }

    /// The next thing to do.
    pub fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// A program touches a page, from a seat that has no other request under way.
    ///
    /// **Cost**: nothing where the page is here in that way (`FEATURE: EU-F17`); else one message.
    pub fn touch(&mut self, page: Page, access: Access, seat: u16) -> Touch {
        let busy = |local: &Local| local.ticket().is_some_and(|ticket| ticket.seat == seat);
        match (self.local(page).clone(), access) {
            (Local::Owned { .. }, _) | (Local::Shared { .. } | Local::Upgrading { .. }, Access::Read) => Touch::Have,
            (Local::Absent { floor }, _) => {
                debug_assert!(!self.pages.values().any(busy), "a seat has one request at a time");
                let ticket = self.number(seat);
                self.step(page, Event::Fetch, Local::Fetching { floor, ticket, access, early: Early::default() });
                self.tell_home(page, ToHome::Want { ticket, access, has: None, firm: false });
                Touch::Asked
            }
            (Local::Shared { version }, Access::Write) => {
                debug_assert!(!self.pages.values().any(busy), "a seat has one request at a time");
                let ticket = self.number(seat);
                self.step(page, Event::Upgrade, Local::Upgrading { version, ticket, early: Early::default() });
                self.tell_home(page, ToHome::Want { ticket, access, has: Some(version), firm: false });
                Touch::Asked
            }
            _ => Touch::Wait,
        }
    }

    /// The request of a page again, for a seat whose thread died and left nobody knowing whether it was sent.
    pub fn repeat(&mut self, page: Page) {
        let message = match self.local(page) {
            Local::Fetching { ticket, access, .. } => ToHome::Want { ticket: *ticket, access: *access, has: None, firm: false },
            Local::Upgrading { ticket, version, .. } => {
                ToHome::Want { ticket: *ticket, access: Access::Write, has: Some(*version), firm: false }
            }
            _ => return,
        };
        self.tell_home(page, message);
    }

    /// Lets go of a page to make room, after it has been taken from the programs ([`Take::Drop`]). Says whether there was one
    /// to let go of.
    ///
    /// **Cost**: a copy goes without a word (the home may send one invalidation in vain); an owned page goes home.
    pub fn evict(&mut self, page: Page) -> bool {
        match *self.local(page) {
            Local::Shared { version } => self.step(page, Event::Evict, Local::Absent { floor: version.prev() }),
            Local::Owned { version } => {
                self.step(page, Event::Evict, Local::Absent { floor: version.prev() });
                self.tell_home(page, ToHome::WriteBack { version, keeps: false });
            }
            _ => return false,
        }
        true
    }

    /// Whether the page has to be taken from the programs before `message` is handed in, and how.
    pub fn take(&self, page: Page, message: &ToHost) -> Option<Take> {
        match (self.local(page), message) {
            (local, ToHost::Invalidate { version, .. }) => {
                local.copy().filter(|copy| !copy.is_after(*version)).map(|_| Take::Drop)
            }
            (Local::Owned { version }, ToHost::Forward { era, access: Access::Read, .. }) if version == era => {
                Some(Take::Protect)
            }
            (Local::Owned { version }, ToHost::Forward { era, .. }) if version == era => Some(Take::Drop),
            (Local::Owned { version }, ToHost::Recall { era, keeps }) if version == era => {
                Some(if *keeps { Take::Protect } else { Take::Drop })
            }
            _ => None,
        }
    }

    /// A message of the page's home, or of another host.
    ///
    /// **Ordering**: messages may come in any order, each once (an acknowledgement may be repeated).
    /// **Errors**: [`Error::Garbage`] for what no correct home or host sends.
    pub fn handle(&mut self, page: Page, message: ToHost) -> Result<Heard, Error> {
        Ok(match message {
            ToHost::Grant { access: Access::Read, ticket, version, firm, .. } => self.on_grant_read(page, ticket, version, firm),
            ToHost::Grant { access: Access::Write, ticket, version, awaits, .. } => {
                return self.on_grant_write(page, ticket, version, awaits);
            }
            ToHost::Invalidate { version, tell } => return self.on_invalidate(page, version, tell),
            ToHost::Forward { era, to, ticket, access } => self.on_forward(page, era, to, ticket, access),
            ToHost::Recall { era, keeps } => self.on_recall(page, era, keeps),
            ToHost::OwnerGone { ticket, access, version } => self.on_owner_gone(page, ticket, access, version),
            ToHost::Ack { from, version } => self.on_ack(page, from, version),
            ToHost::Refused { ticket, reason } if self.local(page).ticket() == Some(ticket) => self.on_refused(page, reason),
            ToHost::Refused { .. } => Heard::Stale,
        })
    }

    /// Another host is lost: it may have been the one that was to send a page that the home believes to be here. Pages that
    /// are being fetched for reading are asked for again; for those that are to be written the home sees to it.
    ///
    /// To be called for each host that maps the extent, once the membership says that it is lost; when exactly does not matter.
    pub fn on_host_lost(&mut self) {
        let is_read = |local: &Local| matches!(local, Local::Fetching { access: Access::Read, .. });
        let fetching: Vec<Page> = self.pages.iter().filter(|(_, local)| is_read(local)).map(|(page, _)| *page).collect();
        for page in fetching {
            self.ask_again(page, Event::AskAgain, false);
        }
    }

    /// The home is gone: what was asked for does not come. Copies stay readable, and owned pages usable.
    pub fn on_home_lost(&mut self) {
        let waiting: Vec<Page> = self.pages.iter().filter(|(_, local)| local.ticket().is_some()).map(|(page, _)| *page).collect();
        for page in waiting {
            self.on_refused(page, Refusal::Lost);
        }
    }

    /// The home was taken for lost and is back: all that was asked for fails, all that is owned goes home, and copies go. The pages
    /// have been taken from the programs ([`Take::Drop`]). When the outputs are drained this host leaves; what still comes to it
    /// under its old name is given straight back where it is a page to write, and dropped else.
    pub fn hand_over(&mut self) {
        self.on_home_lost();
        let pages: Vec<Page> = self.pages.keys().copied().collect();
        for page in pages {
            self.evict(page);
        }
    }

    /// Whatever request it answers, a grant to read above the floor is good: what would have made it stale would have raised
    /// the floor.
    fn on_grant_read(&mut self, page: Page, ticket: Ticket, version: Version, firm: bool) -> Heard {
        if firm {
            // The home waits, whether the grant is of use or not.
            self.tell_home(page, ToHome::Done { ticket, version });
        }
        match *self.local(page) {
            Local::Fetching { floor, access: Access::Read, .. } if version.is_after(floor) => {
                self.step(page, Event::GrantRead, Local::Shared { version });
                self.outputs.push_back(Output::Installed(page, Access::Read));
                return Heard::Acted;
            }
            Local::Fetching { access: Access::Read, ticket: waits, .. } if waits == ticket => {
                self.ask_again(page, Event::GrantVoid, true);
            }
            _ => {}
        }
        Heard::Stale
    }

    /// Asks for a page to read once more; what comes of the request before is welcome all the same.
    fn ask_again(&mut self, page: Page, event: Event, firm: bool) {
        let Local::Fetching { floor, ticket, access, .. } = *self.local(page) else { unreachable!("it is being fetched") };
        let ticket = self.number(ticket.seat);
        self.step(page, event, Local::Fetching { floor, ticket, access, early: Early::default() });
        self.tell_home(page, ToHome::Want { ticket, access, has: None, firm });
    }

    fn on_grant_write(&mut self, page: Page, ticket: Ticket, version: Version, mut awaits: Hosts) -> Result<Heard, Error> {
        let early = match self.local(page) {
            local if local.ticket() != Some(ticket) => return Ok(Heard::Stale),
            Local::Fetching { early, access: Access::Write, .. } | Local::Upgrading { early, .. } => early,
            _ => return Err(garbage("a grant to write for a request to read, or a second one")),
        };
        if early.version == version.prev() {
            awaits.subtract(&early.from);
        }
        match awaits.is_empty() {
            true => self.own(page, Event::GrantWrite, ticket, version),
            false => self.step(page, Event::GrantEarly, Local::Collecting { version, ticket, awaits }),
        }
        Ok(Heard::Acted)
    }

    fn own(&mut self, page: Page, event: Event, ticket: Ticket, version: Version) {
        self.step(page, event, Local::Owned { version });
        self.tell_home(page, ToHome::Done { ticket, version });
        self.outputs.push_back(Output::Installed(page, Access::Write));
    }

    fn on_ack(&mut self, page: Page, from: HostId, version: Version) -> Heard {
        match self.local(page).clone() {
            Local::Fetching { floor, ticket, access, mut early } => {
                early.add(from, version);
                self.step(page, Event::AckEarly, Local::Fetching { floor, ticket, access, early });
            }
            Local::Upgrading { version: copy, ticket, mut early } => {
                early.add(from, version);
                self.step(page, Event::AckEarly, Local::Upgrading { version: copy, ticket, early });
            }
            Local::Collecting { version: granted, ticket, mut awaits } if granted == version.next() && awaits.has(from) => {
                awaits.remove(from);
                match awaits.is_empty() {
                    true => self.own(page, Event::AckLast, ticket, granted),
                    false => self.step(page, Event::Ack, Local::Collecting { version: granted, ticket, awaits }),
                }
            }
            _ => return Heard::Stale,
        }
        Heard::Acted
    }

    fn on_invalidate(&mut self, page: Page, version: Version, tell: Option<HostId>) -> Result<Heard, Error> {
        match self.local(page).clone() {
            Local::Absent { floor } => {
                self.step(page, Event::Invalidate, Local::Absent { floor: floor.newest(version) });
            }
            Local::Fetching { floor, ticket, access, early } => {
                let floor = floor.newest(version);
                self.step(page, Event::Invalidate, Local::Fetching { floor, ticket, access, early });
            }
            local if local.copy().is_some_and(|copy| copy.is_after(version)) => {
                self.step(page, Event::InvalidateOld, local);
            }
            Local::Shared { .. } => self.step(page, Event::Invalidate, Local::Absent { floor: version }),
            Local::Upgrading { ticket, early, .. } => {
                let access = Access::Write;
                self.step(page, Event::Invalidate, Local::Fetching { floor: version, ticket, access, early });
            }
            // One of long ago, for the home's own host, which is gone.
            Local::Collecting { version: owned, .. } | Local::Owned { version: owned } if owned.is_after(version.next()) => {}
            Local::Collecting { .. } | Local::Owned { .. } => return Err(garbage("an invalidation of what this host owns")),
        }
        match tell {
            Some(host) => self.outputs.push_back(Output::ToHost(host, page, ToHost::Ack { from: self.me, version })),
            None => self.tell_home(page, ToHome::Ack { version }),
        }
        Ok(Heard::Acted)
    }

    fn on_forward(&mut self, page: Page, era: Version, to: HostId, ticket: Ticket, access: Access) -> Heard {
        if *self.local(page) != (Local::Owned { version: era }) {
            return Heard::Stale;
        }
        let version = if access == Access::Write { era.next() } else { era };
        let firm = access == Access::Write;
        let grant = ToHost::Grant { ticket, version, access, has_bytes: true, awaits: Hosts::NONE, firm };
        self.outputs.push_back(Output::ToHost(to, page, grant));
        match access {
            Access::Read => self.keep(page, era),
            Access::Write => self.step(page, Event::ForwardWrite, Local::Absent { floor: era }),
        }
        Heard::Acted
    }

    /// The owner writes back, and keeps a copy.
    fn keep(&mut self, page: Page, version: Version) {
        self.step(page, Event::ForwardRead, Local::Shared { version });
        self.tell_home(page, ToHome::WriteBack { version, keeps: true });
    }

    fn on_recall(&mut self, page: Page, era: Version, keeps: bool) -> Heard {
        let local = self.local(page);
        if *local != (Local::Owned { version: era }) {
            // Evicted, and on its way home; or passed on, to a host that is gone.
            if !era.is_after(local.floor()) {
                self.tell_home(page, ToHome::Missing { version: era });
            }
            return Heard::Stale;
        }
        if keeps {
            self.keep(page, era);
        } else {
            self.step(page, Event::Recall, Local::Absent { floor: era });
            self.tell_home(page, ToHome::WriteBack { version: era, keeps: false });
        }
        Heard::Acted
    }

    fn on_owner_gone(&mut self, page: Page, ticket: Ticket, access: Access, version: Version) -> Heard {
        let local = self.local(page).clone();
        if local.ticket() == Some(ticket) && matches!(local, Local::Fetching { .. }) {
            self.step(page, Event::Abandon, Local::Absent { floor: version });
            self.tell_home(page, ToHome::Abandoned { ticket });
            self.outputs.push_back(Output::Failed(page, Refusal::Lost));
            return Heard::Acted;
        }
        match access {
            // It came, and the home has been told, or is about to be.
            Access::Write => return Heard::Stale,
            Access::Read if local.copy() == Some(version) => {
                self.step(page, Event::Salvage, local);
                self.tell_home(page, ToHome::WriteBack { version, keeps: true });
            }
            Access::Read => self.tell_home(page, ToHome::Abandoned { ticket }),
        }
        Heard::Acted
    }

    fn on_refused(&mut self, page: Page, reason: Refusal) -> Heard {
        match *self.local(page) {
            Local::Upgrading { version, .. } => self.step(page, Event::RefuseUpgrade, Local::Shared { version }),
            ref local => {
                let floor = local.floor();
                self.step(page, Event::Refuse, Local::Absent { floor });
            }
        }
        self.outputs.push_back(Output::Failed(page, reason));
        Heard::Acted
    }

    fn local(&self, page: Page) -> &Local {
        self.pages.get(&page).unwrap_or(&Local::UNKNOWN)
    }

    /// Makes a transition, and holds it against the table.
    fn step(&mut self, page: Page, event: Event, to: Local) {
        let from = self.phase(page);
        assert_eq!(table::next(TABLE, from, event), Some(to.phase()), "{event:?} in {from:?}");
        self.pages.insert(page, to);
    }

    fn tell_home(&mut self, page: Page, message: ToHome) {
        self.outputs.push_back(Output::ToHome(page, message));
    }

    /// The next request of a seat.
    fn number(&mut self, seat: u16) -> Ticket {
        let number = self.numbers.entry(seat).or_insert(0);
        *number = number.wrapping_add(1);
        Ticket { seat, number: *number }
    }
}

#[cold]
fn garbage(reason: &str) -> Error {
    Error::Garbage { peer: "the page's home".to_owned(), reason: reason.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_this() {
        assert_eq!(table::contradiction(TABLE), None);
        assert_eq!(table::print(TABLE), include_str!("host.txt"));
    }
}
