//! Pages of an extent with copies on other nodes.

use super::{Access, Directory, Entry, Event, Holding, HostId, Hosts, Page, QueuedRequest, Transit, Version, Who};

impl Directory {
    /// The directory of an extent with copies on other nodes. A page goes home before another host gets it, so that nobody sees a store that could
    /// still be lost. Where an owner is lost the bytes at home count: its last release. No page of such an extent is lost.
    ///
    /// The home's own host has frames like any other: no host has the number `own`.
    pub fn with_copies(self) -> Directory {
        Directory { has_copies: true, ..self }
    }

    /// True if a host's bytes of a page, in that version, are the newest or may be: it owns the page, or a grant to write it is on its way.
    /// The home may put them at home, where nobody else looks at them.
    pub fn may_put(&self, page: Page, host: HostId, version: Version) -> bool {
        if page.0 >= self.entries.count() {
            return false;
        }
        let entry = self.entries.get(page);
        let is_next =
            |request: &QueuedRequest| request.is_of(host) && request.access == Access::Write && version == entry.version.next();
        match self.busy.get(&page).map(|busy| &busy.transit) {
            Some(Transit::Granting { request, .. }) if request.access == Access::Write => is_next(request),
            _ => entry.holding == (Holding::Owned { owner: host }) && version == entry.version,
        }
    }

    /// The bytes at home count again, and the page's requests are served. What its owner stored since they came goes with it.
    ///
    /// Hosts were to drop their copies for a writer that died. They may have them still, which show the bytes at home.
    pub(super) fn fall_back(&mut self, page: Page, dead: Option<HostId>) {
        let Entry { version, holding } = self.entries.get(page);
        let mut sharers = match holding {
            Holding::Free { sharers } => sharers,
            Holding::Owned { .. } | Holding::Lost => Hosts::NONE,
        };
        sharers = dead.map_or(sharers.clone(), |dead| sharers.without(dead));
        let event = if sharers.is_empty() { Event::FallBack } else { Event::TakeBack };
        // The owner's version is never good again.
        let entry = Entry { version: version.next(), holding: Holding::Free { sharers } };
        let waits = match self.busy.get(&page).map(|busy| &busy.transit) {
            None => return self.step(page, event, |this| this.entries.set(page, entry)),
            Some(Transit::Downgrading { request, .. }) => *request,
            Some(Transit::Recalling { face, .. }) => {
                face.map(|face| QueuedRequest { who: Who::Face(face), access: Access::Write })
            }
            Some(_) => None,
        };
        let live = waits.filter(|request| !dead.is_some_and(|dead| request.is_of(dead)));
        live.into_iter().for_each(|request| self.push_front(page, request));
        self.settle(page, event, entry);
    }
}
