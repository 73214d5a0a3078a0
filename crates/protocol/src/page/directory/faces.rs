//! Gets and puts of an extent that is mapped see and change what the hosts that map it see. They go through its directory.
//!
//! The home's own host maps the bytes at home themselves. So a command need not drop that host's copy or fetch its page. A put is then like
//! a store of another thread.

use super::*;

impl Directory {
    /// A get, or a part of one, needs to read the page at home; a put needs to write it there.
    ///
    /// [`Output::Ready`] follows, at once or later; or [`Output::Failed`]. Gets and puts of several pages hold one page at a time, or ask
    /// for them in ascending order. So they never wait for each other. One face asks for a page once at a time.
    ///
    /// **Cost**: no message while nobody else has the page (for a get: owns it). Two for each host that has to be asked.
    // FEATURE: EU-F15 EU-F17
    pub fn recall(&mut self, page: Page, face: Face, access: Access) {
        assert!(page.0 < self.entries.count(), "a face's range is checked before");
        self.ask(page, QueuedRequest { who: Who::Face(face), access });
    }

    /// A put is done with a page, or a get or put gives up before it could begin.
    pub fn release(&mut self, page: Page, face: Face) {
        let Some(Busy { transit, queue }) = self.busy.get_mut(&page) else { return };
        queue.retain(|request| request.who != Who::Face(face));
        match transit {
            Transit::Held { face: holder } if *holder == Some(face) => self.release_held(page),
            Transit::Downgrading { request, .. } if request.is_some_and(|request| request.who == Who::Face(face)) => {
                *request = None;
            }
            Transit::Recalling { face: waiting, .. } | Transit::Clearing { face: waiting, .. } if *waiting == Some(face) => {
                *waiting = None;
            }
            _ => {}
        }
    }

    /// Serves a face.
    pub(super) fn open(&mut self, page: Page, entry: Entry, request: QueuedRequest, face: Face) -> Option<(Event, Transit)> {
        let Entry { version, holding } = entry;
        match (holding, request.access) {
            (Holding::Owned { owner }, Access::Read) if owner != self.own => {
                self.send(owner, page, ToHost::Recall { era: version, keeps: true, hold_us: 0 });
                Some((Event::ReadOwned, Transit::Downgrading { owner, request: Some(request) }))
            }
            (Holding::Owned { owner }, Access::Write) if owner != self.own => {
                self.send(owner, page, ToHost::Recall { era: version, keeps: false, hold_us: 0 });
                Some((Event::NeedOwned, Transit::Recalling { owner, face: Some(face) }))
            }
            (Holding::Free { sharers }, Access::Write) if !sharers.without(self.own).is_empty() => {
                let awaits = sharers.without(self.own);
                for sharer in awaits.iter() {
                    self.send(sharer, page, ToHost::Invalidate { version, tell: None });
                }
                Some((Event::HoldShared, Transit::Clearing { awaits, face: Some(face) }))
            }
            (_, access) => {
                self.outputs.push_back(Output::Ready(page, face));
                (access == Access::Write).then_some((Event::Hold, Transit::Held { face: Some(face) }))
            }
        }
    }

    /// A host that was to drop its copy has, or is gone; `last` if it was the last.
    pub(super) fn on_cleared(&mut self, page: Page, event: Event, last: Event) {
        let Some(Busy { transit: Transit::Clearing { awaits, face }, .. }) = self.busy.get(&page) else {
            unreachable!("copies are being dropped")
        };
        if !awaits.is_empty() {
            return self.step(page, event, |_| {});
        }
        let face = *face;
        let Entry { version, holding } = self.entries.get(page);
        let Holding::Free { sharers } = holding else { unreachable!("an owned page is recalled") };
        // Hosts that dropped the version will not take it again.
        let own = if sharers.has(self.own) { Hosts::one(self.own) } else { Hosts::NONE };
        self.entries.set(page, Entry { version: version.next(), holding: Holding::Free { sharers: own } });
        self.turn(page, last, Transit::Held { face });
        match face {
            Some(face) => self.outputs.push_back(Output::Ready(page, face)),
            // The waiting stage went: only this releases the page.
            None => self.release_held(page),
        }
    }

    fn release_held(&mut self, page: Page) {
        let entry = self.entries.get(page);
        let event = match &entry.holding {
            Holding::Free { sharers } if sharers.is_empty() => Event::Release,
            Holding::Free { .. } => Event::ReleaseShared,
            _ => Event::ReleaseOwned,
        };
        self.settle(page, event, entry);
    }
}
