//! A host is gone: what it had is resolved, and nobody waits for it any more.

use super::*;

impl Directory {
    /// A host's node is lost, or it has let go of the whole extent. Its owned pages that were not written back are lost, and its open
    /// tasks are done without it. Pages of the home's own host lie at home, so none is lost. When that host comes again it has nothing,
    /// and its requests have new numbers.
    ///
    /// The driver drops what comes from it afterwards: its epoch is over.
    ///
    /// **Cost**: a scan of the directory, 16 bytes a page; messages only for pages that something is under way for.
    pub fn on_host_lost(&mut self, host: HostId) {
        self.seen.retain(|(who, _), _| *who != host);
        let busy: Vec<Page> = self.busy.keys().copied().collect();
        busy.into_iter().for_each(|page| self.lose_under_way(page, host));
        for page in self.entries.with(host) {
            let Entry { version, holding } = self.entries.get(page);
            match holding {
                Holding::Owned { .. } if host == self.own || !self.busy.contains_key(&page) => self.lose_owner(page, host),
                Holding::Free { sharers } => {
                    let sharers = sharers.without(host);
                    let event = if sharers.is_empty() { Event::LastSharerLost } else { Event::SharerLost };
                    let entry = Entry { version, holding: Holding::Free { sharers } };
                    match self.busy.contains_key(&page) {
                        true => self.entries.set(page, entry),
                        false => self.step(page, event, |this| this.entries.set(page, entry)),
                    }
                }
                _ => {}
            }
        }
    }

    fn lose_under_way(&mut self, page: Page, host: HostId) {
        let Some(Busy { transit, queue }) = self.busy.get_mut(&page) else { return };
        queue.retain(|request| !request.is_of(host));
        let transit = transit.clone();
        match transit {
            Transit::Granting { request, .. } if request.is_of(host) => match request.access {
                Access::Write if host == self.own => self.take_back(page),
                // The new owner may have stored already.
                Access::Write => self.lose(page, Some(host)),
                Access::Read => self.end_firm(page, host),
            },
            Transit::Granting { request, awaits } if awaits.has(host) => {
                // The home vouches for the dead: the one that waits knows nothing of it.
                let Who::Host { host: to, .. } = request.who else { unreachable!("a host is granted a page") };
                let version = self.version(page);
                self.send(to, page, ToHost::Ack { from: host, version });
            }
            Transit::Downgrading { owner, .. } | Transit::Transferring { owner, .. } if owner == host && host == self.own => {
                self.lose_owner(page, host);
            }
            Transit::Downgrading { owner, request: Some(request) } if owner == host && self.is_elsewhere(request) => {
                self.inquire(page, request);
            }
            Transit::Transferring { owner, request } if owner == host => self.inquire(page, request),
            Transit::Downgrading { owner, .. } | Transit::Recalling { owner, .. } if owner == host => {
                self.lose_owner(page, host);
            }
            Transit::Downgrading { owner, request: Some(request) } if request.is_of(host) => {
                self.alter(page, Transit::Downgrading { owner, request: None });
            }
            Transit::Transferring { owner, request } if request.is_of(host) => {
                let era = self.version(page);
                self.send(owner, page, ToHost::Recall { era, keeps: false, hold_us: 0 });
                self.turn(page, Event::ReceiverLost, Transit::Recalling { owner, face: None });
            }
            Transit::Clearing { mut awaits, face } if awaits.has(host) => {
                awaits.remove(host);
                self.alter(page, Transit::Clearing { awaits, face });
                self.on_cleared(page, Event::Ack, Event::LastAckLost);
            }
            Transit::Asking { request } if request.is_of(host) => self.lose(page, Some(host)),
            _ => {}
        }
    }

    /// The newest bytes of a page went with its owner, but for those that lie at home.
    fn lose_owner(&mut self, page: Page, owner: HostId) {
        if owner == self.own {
            let heard = self.on_put_back(owner, page, self.version(page));
            debug_assert_eq!(heard, Heard::Acted);
        } else {
            self.lose(page, Some(owner));
        }
    }

    /// The home's own host is gone, with a grant to write on its way to it. If it stored, all others had dropped their copies. If not,
    /// copies of some may still be good, and they show the bytes at home.
    fn take_back(&mut self, page: Page) {
        let Holding::Free { sharers } = self.entries.get(page).holding else { unreachable!("what is at home was granted") };
        let sharers = sharers.without(self.own);
        let event = if sharers.is_empty() { Event::PutBack } else { Event::TakeBack };
        let version = self.version(page).next();
        self.settle(page, event, Entry { version, holding: Holding::Free { sharers } });
    }

    /// Continues a transit that has lost a participant.
    fn alter(&mut self, page: Page, transit: Transit) {
        self.busy.get_mut(&page).expect("something is under way").transit = transit;
    }

    /// True if an owner answers the request itself. It is of another host than the home's own, which the home answers. Where the extent has
    /// copies the home answers all.
    pub(super) fn is_elsewhere(&self, request: QueuedRequest) -> bool {
        !self.has_copies && matches!(request.who, Who::Host { host, .. } if host != self.own)
    }

    /// Asks the host that a dead owner was to send the page to whether it came.
    fn inquire(&mut self, page: Page, request: QueuedRequest) {
        let Who::Host { host, ticket, .. } = request.who else { unreachable!("an owner sends to a host") };
        let (access, version) = (request.access, self.version(page));
        let version = if access == Access::Write { version.next() } else { version };
        self.send(host, page, ToHost::OwnerGone { ticket, access, version });
        self.turn(page, Event::SenderLost, Transit::Asking { request });
    }

    /// The reader of a firm grant is gone.
    fn end_firm(&mut self, page: Page, host: HostId) {
        let Entry { version, holding } = self.entries.get(page);
        let Holding::Free { sharers } = holding else { unreachable!("what is at home was granted") };
        let sharers = sharers.without(host);
        let event = if sharers.is_empty() { Event::ReaderLost } else { Event::SharerLost };
        self.settle(page, event, Entry { version, holding: Holding::Free { sharers } });
    }
}
