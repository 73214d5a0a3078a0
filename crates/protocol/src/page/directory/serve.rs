//! Requests are served, one after the other, as long as nothing has to be waited for.

use super::*;

impl Directory {
    /// Serves a queue until a request leaves something under way, or nobody waits.
    pub(super) fn advance(&mut self, page: Page, mut queue: VecDeque<QueuedRequest>) {
        while let Some(request) = queue.pop_front() {
            let from = self.phase(page);
            let Entry { version, holding } = self.entries.get(page);
            let served = match (holding, request.who) {
                (Holding::Lost, _) => {
                    self.refuse(page, request, Refusal::Lost);
                    continue;
                }
                (Holding::Free { sharers }, Who::Host { .. }) => self.grant(page, version, sharers, request),
                (Holding::Owned { owner }, Who::Host { host, ticket, .. }) if owner != host && self.is_elsewhere(request) => {
                    let (era, access) = (version, request.access);
                    self.send(owner, page, ToHost::Forward { era, to: host, ticket, access, hold_us: 0 });
                    match request.access {
                        Access::Read => Some((Event::ReadOwned, Transit::Downgrading { owner, request: Some(request) })),
                        Access::Write => Some((Event::WriteOwned, Transit::Transferring { owner, request })),
                    }
                }
                // The home's own host needs the bytes where they lie, and copies need them, too. And an owner that asks has evicted the
                // page. Its bytes are on their way, or come when it is reminded.
                (Holding::Owned { owner }, Who::Host { host, .. }) => {
                    let keeps = request.access == Access::Read && owner != host;
                    self.send(owner, page, ToHost::Recall { era: version, keeps, hold_us: 0 });
                    if keeps {
                        Some((Event::ReadOwned, Transit::Downgrading { owner, request: Some(request) }))
                    } else {
                        queue.push_front(request);
                        Some((Event::NeedOwned, Transit::Recalling { owner, face: None }))
                    }
                }
                (holding, Who::Face(face)) => self.open(page, Entry { version, holding }, request, face),
            };
            let Some((event, transit)) = served else { continue };
            self.busy.insert(page, Busy { transit, queue });
            let to = self.phase(page);
            assert_eq!(rows::next(TABLE, from, event), Some(to), "{event:?} in {from:?}");
            return;
        }
    }

    /// Grants what is at home to a host; the copies of others are dropped first where it will write.
    fn grant(&mut self, page: Page, version: Version, mut sharers: Hosts, request: QueuedRequest) -> Option<(Event, Transit)> {
        let Who::Host { host, ticket, has, firm } = request.who else { unreachable!("a host is granted a page") };
        let access = request.access;
        match access {
            Access::Read => {
                let grant = ToHost::Grant { ticket, version, access, has_bytes: host != self.own, awaits: Hosts::NONE, firm };
                self.send(host, page, grant);
                sharers.insert(host);
                let shared = Entry { version, holding: Holding::Free { sharers } };
                match firm {
                    true => self.entries.set(page, shared),
                    false => self.step(page, Event::Read, |this| this.entries.set(page, shared)),
                }
                firm.then_some((Event::ReadFirm, Transit::Granting { request, awaits: Hosts::NONE }))
            }
            Access::Write => {
                let has_bytes = host != self.own && !(sharers.has(host) && has == Some(version));
                let awaits = sharers.without(host);
                for sharer in awaits.iter() {
                    self.send(sharer, page, ToHost::Invalidate { version, tell: Some(host) });
                }
                let (version, awaited) = (version.next(), awaits.clone());
                self.send(host, page, ToHost::Grant { ticket, version, access, has_bytes, awaits: awaited, firm: true });
                Some((Event::Write, Transit::Granting { request, awaits }))
            }
        }
    }
}
