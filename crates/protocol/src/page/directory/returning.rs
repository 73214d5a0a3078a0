//! A home that was taken for lost and is back decides which of its pages are good. It asks all hosts that mapped them, and begins again
//! when they have replied.
//!
//! The home's silence lost messages in both directions, so nothing goes on that was under way. Each host is told to send home what
//! it owns, to drop the rest, and to leave. Until all have left, or are lost, nobody gets a page.
//!
//! | a page, when the home fell silent | is good when | is lost when |
//! |---|---|---|
//! | at home, perhaps with copies | always: copies are dropped | never |
//! | owned by the home's own host | always: its bytes are the home's | never |
//! | owned by another | the owner sends it | the owner leaves without it, or is lost |
//! | granted to a writer, which has not said so | the writer sends it, or leaves without it: it never came there | the writer is lost |
//! | under way from one owner to the next | either sends it | one is lost and the other leaves without it, or is lost too |
//! | lost | never | always |
//!
//! A page on its way between two hosts that live comes home from the one that it reaches. [`Returning::ends`] bounds the wait.

use super::*;
use crate::limits::REACH_MS;
use std::collections::BTreeSet;

/// State that a returned home waits for.
///
/// **Cost**: some 60 bytes for each page that was not good at home. A scan of the directory to make it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Returning {
    awaited: BTreeMap<Page, Awaited>,
    /// Hosts that have not left, and are not lost.
    hosts: BTreeSet<HostId>,
    lost: BTreeSet<Page>,
    /// When the last host had answered.
    heard_all_ms: Option<u64>,
    /// At a home that has no directory of before ([`Returning::without_directory`]): versions in which pages came home.
    came: Option<BTreeMap<Page, Version>>,
}

/// A page whose newest bytes may be elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Awaited {
    /// Hosts that may send it, and as which version.
    from: Vec<(HostId, Version)>,
    /// True if it may be on its way from the first to the second.
    moves: bool,
    /// True if the home's bytes are the newest where a host leaves without it.
    may_be_home: bool,
}

impl Returning {
    /// Pages that `directory` says are elsewhere. `sharers` are all hosts that it knows, with the home's own.
    pub fn new(directory: &Directory, sharers: impl IntoIterator<Item = HostId>) -> Returning {
        let hosts = sharers.into_iter().collect();
        let mut returning = Returning { awaited: BTreeMap::new(), hosts, lost: BTreeSet::new(), heard_all_ms: None, came: None };
        for page in directory.entries.used() {
            returning.take_over(directory, page);
        }
        // A page may be under way that was never granted to write before.
        directory.busy.keys().for_each(|page| returning.take_over(directory, *page));
        returning
    }

    /// A home of bytes with copies in another one's place. It knows the hosts, and the versions in which pages came home before. Of a page
    /// the newest bytes count, of all that hosts send and those at home.
    pub fn without_directory(hosts: impl IntoIterator<Item = HostId>, came: BTreeMap<Page, Version>) -> Returning {
        let hosts = hosts.into_iter().collect();
        Returning { awaited: BTreeMap::new(), hosts, lost: BTreeSet::new(), heard_all_ms: None, came: Some(came) }
    }

    fn take_over(&mut self, directory: &Directory, page: Page) {
        let Entry { version, holding } = directory.entries.get(page);
        let next = |request: &QueuedRequest| match request.who {
            Who::Host { host, .. } => (host, version.next()),
            Who::Face(_) => unreachable!("a host is granted a page"),
        };
        let (from, moves, may_be_home) = match (directory.busy.get(&page).map(|busy| &busy.transit), holding) {
            (Some(Transit::Granting { request, .. }), _) if request.access == Access::Write => (vec![next(request)], false, true),
            (Some(Transit::Transferring { owner, request }), _) if *owner == directory.own => (vec![next(request)], false, true),
            (Some(Transit::Transferring { owner, request }), _) => (vec![(*owner, version), next(request)], true, false),
            (Some(Transit::Asking { request }), _) if request.access == Access::Write => (vec![next(request)], false, false),
            (Some(Transit::Asking { .. }), _) => (Vec::new(), false, false),
            (_, Holding::Owned { owner }) => (vec![(owner, version)], false, false),
            (_, Holding::Lost) => (Vec::new(), false, false),
            (_, Holding::Free { .. }) => return,
        };
        if from.iter().any(|(host, _)| *host == directory.own) {
            return;
        }
        if from.is_empty() {
            self.lost.insert(page);
        } else {
            self.awaited.insert(page, Awaited { from, moves, may_be_home });
        }
    }

    /// True if a host has not replied yet.
    pub fn awaits(&self, host: HostId) -> bool {
        self.hosts.contains(&host)
    }

    /// A host sends a page home. Bytes of [`Heard::Acted`] are the newest; others are of no use.
    pub fn on_write_back(&mut self, from: HostId, page: Page, version: Version) -> Heard {
        if let Some(came) = &mut self.came {
            // A host may send again what came home long ago. Puts and flushes of that page may have come since, in no version of theirs.
            if !self.hosts.contains(&from) || came.get(&page).is_some_and(|known| !version.is_after(*known)) {
                return Heard::Stale;
            }
            came.insert(page, version);
            return Heard::Acted;
        }
        match self.awaited.get(&page) {
            Some(awaited) if awaited.from.contains(&(from, version)) => {
                self.awaited.remove(&page);
                Heard::Acted
            }
            _ => Heard::Stale,
        }
    }

    /// A host has sent home all that it had.
    pub fn on_left(&mut self, host: HostId) {
        self.hosts.remove(&host);
        self.without(host, |awaited| awaited.moves, |awaited| awaited.may_be_home);
    }

    /// A host is lost, with what it had.
    pub fn on_host_lost(&mut self, host: HostId) {
        self.hosts.remove(&host);
        self.without(host, |_| false, |_| false);
    }

    /// A host sends nothing any more. Pages of which `stays` is true stay awaited; others that it had alone are good at home, or lost.
    fn without(&mut self, host: HostId, stays: impl Fn(&Awaited) -> bool, is_good: impl Fn(&Awaited) -> bool) {
        let (hosts, lost) = (&self.hosts, &mut self.lost);
        self.awaited.retain(|page, awaited| {
            if stays(awaited) || !awaited.from.iter().any(|(from, _)| *from == host) {
                return true;
            }
            awaited.from.retain(|(from, _)| *from != host);
            awaited.moves = false;
            if awaited.from.iter().any(|(from, _)| hosts.contains(from)) {
                return true;
            }
            if !is_good(awaited) {
                lost.insert(*page);
            }
            false
        });
    }

    /// True if every page is good, or lost. After all have replied, a page between two hosts is waited for while a silent node counts as
    /// there. Then it is lost.
    pub fn ends(&mut self, now_ms: u64) -> bool {
        if !self.hosts.is_empty() {
            return false;
        }
        if now_ms.saturating_sub(*self.heard_all_ms.get_or_insert(now_ms)) > REACH_MS {
            self.lost.extend(std::mem::take(&mut self.awaited).into_keys());
        }
        self.is_over()
    }

    /// True if every page is good, or lost.
    pub fn is_over(&self) -> bool {
        self.hosts.is_empty() && self.awaited.is_empty()
    }

    /// The pages whose newest bytes are gone.
    pub fn lost(&self) -> impl Iterator<Item = Page> + '_ {
        self.lost.iter().copied()
    }
}

impl Directory {
    /// The directory of a home that is back: nobody has a page, and those of `lost` are refused.
    pub fn after_return(pages: u64, own: HostId, lost: impl IntoIterator<Item = Page>) -> Directory {
        let mut directory = Directory::new(pages, own);
        for page in lost {
            directory.entries.set(page, Entry { version: Version::FIRST, holding: Holding::Lost });
        }
        directory
    }

    /// The pages whose newest bytes are gone.
    ///
    /// **Cost**: a scan of the directory, 16 bytes a page.
    pub fn lost(&self) -> impl Iterator<Item = Page> + '_ {
        self.entries.used().filter(|page| self.entries.get(*page).holding == Holding::Lost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: HostId = HostId(0);
    const A: HostId = HostId(1);
    const B: HostId = HostId(2);
    const PAGE: Page = Page(3);

    fn want(directory: &mut Directory, host: HostId, number: u32, access: Access) -> Ticket {
        let ticket = Ticket { slot: 0, number };
        directory.handle(host, PAGE, ToHome::Request { ticket, access, has: None, firm: false }).unwrap();
        ticket
    }

    fn owned_by(host: HostId) -> Directory {
        let mut directory = Directory::new(8, OWN);
        let ticket = want(&mut directory, host, 1, Access::Write);
        directory.handle(host, PAGE, ToHome::Done { ticket, version: Version(2) }).unwrap();
        directory
    }

    fn lost(returning: &Returning) -> Vec<Page> {
        assert!(returning.is_over(), "{returning:?}");
        returning.lost().collect()
    }

    #[test]
    fn an_owner_that_sends_its_page_keeps_it_good() {
        let mut returning = Returning::new(&owned_by(B), [OWN, A, B]);
        assert_eq!(returning.on_write_back(A, PAGE, Version(2)), Heard::Stale, "another's bytes");
        assert_eq!(returning.on_write_back(B, PAGE, Version(1)), Heard::Stale, "older bytes");
        assert_eq!(returning.on_write_back(B, PAGE, Version(2)), Heard::Acted);
        assert_eq!(returning.on_write_back(B, PAGE, Version(2)), Heard::Stale, "a repetition");
        for host in [OWN, A, B] {
            assert!(!returning.is_over(), "{host} may have copies");
            returning.on_left(host);
        }
        assert_eq!(lost(&returning), []);
    }

    #[test]
    fn an_owner_that_is_gone_or_has_nothing_loses_its_page() {
        for is_lost in [false, true] {
            let mut returning = Returning::new(&owned_by(B), [A, B]);
            if is_lost {
                returning.on_host_lost(B)
            } else {
                returning.on_left(B)
            }
            returning.on_left(A);
            assert_eq!(lost(&returning), [PAGE]);
            let mut after = Directory::after_return(8, OWN, returning.lost());
            let ticket = want(&mut after, A, 1, Access::Read);
            let refused = ToHost::Refused { ticket, reason: Refusal::Lost };
            assert_eq!(after.poll(), Some(Output::Send(A, PAGE, refused)));
        }
    }

    #[test]
    fn the_homes_own_host_has_the_bytes_that_are_at_home() {
        let mut returning = Returning::new(&owned_by(OWN), [OWN]);
        returning.on_left(OWN);
        assert_eq!(lost(&returning), []);
    }

    #[test]
    fn a_grant_that_may_not_have_come_is_good_at_home_unless_its_writer_is_gone() {
        let granting = || {
            let mut directory = Directory::new(8, OWN);
            want(&mut directory, B, 1, Access::Write);
            Returning::new(&directory, [B])
        };
        let (mut leaves, mut dies, mut stored) = (granting(), granting(), granting());
        leaves.on_left(B);
        assert_eq!(lost(&leaves), []);
        dies.on_host_lost(B);
        assert_eq!(lost(&dies), [PAGE]);
        assert_eq!(stored.on_write_back(B, PAGE, Version(2)), Heard::Acted);
        stored.on_host_lost(B);
        assert_eq!(lost(&stored), []);
    }

    #[test]
    fn a_page_on_its_way_comes_from_whom_it_reaches() {
        let moving = || {
            let mut directory = owned_by(A);
            want(&mut directory, B, 1, Access::Write);
            Returning::new(&directory, [A, B])
        };
        for (from, version) in [(A, Version(2)), (B, Version(3))] {
            let mut returning = moving();
            returning.on_left(B);
            assert!(!returning.ends(u64::MAX), "a host has not answered");
            returning.on_left(A);
            assert!(!returning.ends(1_000) && !returning.ends(1_000 + REACH_MS), "it is on its way");
            assert!(returning.clone().ends(1_001 + REACH_MS), "it was");
            assert_eq!(returning.on_write_back(from, PAGE, version), Heard::Acted);
            assert_eq!(lost(&returning), []);
        }
        for (first, second) in [(A, B), (B, A)] {
            let mut returning = moving();
            returning.on_left(first);
            returning.on_host_lost(second);
            assert_eq!(lost(&returning), [PAGE]);
            let mut returning = moving();
            returning.on_host_lost(second);
            assert!(!returning.is_over(), "{first} may have it");
            returning.on_left(first);
            assert_eq!(lost(&returning), [PAGE]);
        }
    }

    #[test]
    fn what_was_lost_before_stays_lost() {
        let mut directory = owned_by(B);
        directory.on_host_lost(B);
        assert_eq!(directory.lost().collect::<Vec<_>>(), [PAGE]);
        assert_eq!(lost(&Returning::new(&directory, [])), [PAGE]);
    }
}
