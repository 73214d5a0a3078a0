//! Commands on mapped pages: a command runs at the home, in stages. Each stage first recalls its pages.
//!
//! ```text
//!   Need ──┬── nobody else has a page of it ────────────────────────────────> done at once
//!          └── asked of the directory ── hosts send pages, drop copies ──────> PageOutput::Recalled ── done ── PageInput::Release
//! ```
//!
//! [`Recalls`](hanare_protocol::page::Recalls) decides which stage waits for what, and for how long. A stage that writes holds its pages
//! from there on until it is done. A stage that reads holds nothing. What lies at home since its pages came is as new as anything that was
//! stored before the stage began.
//!
//! # Why no two stages wait for each other
//!
//! - A stage asks one directory for all its pages at one moment, in ascending order. Every page serves requests in the order in which
//!   they came. So of two stages the one that asked first is first at each page that both want.
//! - A stage that holds pages waits for hosts alone. Operands arrive before it asks, results leave after it, and hosts give up pages by
//!   themselves.
//! - A stage holds pages of one home. A copy has the bytes of its source before it asks for its target's pages.

use super::Pages;
use super::events::{Asker, PageOutput};
use super::home::PageHome;
use super::memory::{HomePages, PageMemory};
use crate::memory::{Need, Recall};
use hanare_protocol::Result;
use hanare_protocol::id::Gid;
use hanare_protocol::page::recalls::{HomeStanding, StagePages};
use hanare_protocol::page::{Access, Consistency, Face};
use std::collections::BTreeMap;
use std::time::Duration;

impl<M: PageMemory> Pages<M> {
    /// Brings pages home for a stage, or a word: see [`Home::recall`](crate::Home::recall).
    // FEATURE: EU-F15 EU-F17
    pub(crate) fn recall(&mut self, now: Duration, asker: Asker, need: Need) -> Result<Recall> {
        self.now = self.now.max(now);
        let home = self.homes.get(&need.gid).filter(|home| home.consistency() == Consistency::Coherent);
        let Some(pages) = home.and_then(|home| home.routes().pages_of(need.slot, &need.pages)) else {
            return Ok(Recall::Ready(self.recalls.next_face()));
        };
        let now_ms = self.now_ms();
        let face = self.recalls.begin(asker, (need.gid, need.access, pages), now_ms);
        self.ask_for_pages(face);
        self.settle_but(Some(face));
        match self.recalls.tell(face) {
            None => Ok(Recall::Waits(face)),
            Some(Ok(())) => Ok(Recall::Ready(face)),
            Some(Err(error)) => {
                self.recalls.end(face);
                Err(error)
            }
        }
    }

    /// The node ends: all pages of its regions that hosts map come home, and are held here. Until they are, their extents lack pages.
    pub(super) fn bring_home(&mut self) {
        let homes = self.homes.iter().filter(|(_, home)| home.consistency() == Consistency::Coherent);
        let homes: Vec<_> = homes.map(|(gid, home)| (*gid, home.elsewhere(), home.memory().clone())).collect();
        let now_ms = self.now_ms();
        self.ending.get_or_insert_default();
        for (gid, pages, memory) in homes.into_iter().filter(|(_, pages, _)| !pages.is_empty()) {
            memory.set_lacks_pages(true);
            let face = self.recalls.begin(Asker::End, (gid, Access::Write, pages), now_ms);
            self.ending.get_or_insert_default().push((face, memory));
            self.ask_for_pages(face);
        }
    }

    /// Pages of a region are home before the node ends, or will not come.
    fn on_home_at_end(&mut self, face: Face, outcome: &Result<()>) {
        let Some(ending) = &mut self.ending else { return };
        for (_, memory) in ending.extract_if(.., |(known, _)| *known == face) {
            match outcome {
                Ok(()) => memory.set_lacks_pages(false),
                Err(error) => tracing::error!("pages of a region did not come home before this node's end: {error}"),
            }
        }
    }

    /// A stage is done, or will not be: its pages serve others.
    pub(crate) fn release(&mut self, face: Face) {
        let ended = self.recalls.end(face);
        self.let_go(ended);
        self.settle();
    }

    /// A link has ended: what its commands asked for or hold goes to others.
    pub(super) fn forget_link(&mut self, link: u64) {
        self.recalls.of(Asker::Link(link)).into_iter().for_each(|face| self.release(face));
    }

    fn let_go(&mut self, freed: impl IntoIterator<Item = StagePages<Gid>>) {
        let mut outgoing = self.outbox();
        for StagePages { face, region, pages, .. } in freed {
            if let Some(home) = self.homes.get_mut(&region).filter(|home| !home.is_returning()) {
                home.release(face, &pages, &mut outgoing);
            }
        }
        self.post(outgoing);
    }

    /// Asks for the pages of stages whose homes are back, or gone.
    pub(super) fn ask_unasked(&mut self) {
        self.recalls.unasked(|gid| standing(&self.homes, gid)).into_iter().for_each(|face| self.ask_for_pages(face));
    }

    /// True if stages wait for pages of a region, of which a fresh directory would know nothing.
    pub(super) fn has_waiting_stages(&self, gid: Gid) -> bool {
        let standing = |of| if of == gid { HomeStanding::Unmapped } else { HomeStanding::Here };
        !self.recalls.unasked(standing).is_empty()
    }

    fn ask_for_pages(&mut self, face: Face) {
        let homes = &self.homes;
        let Some(StagePages { region, pages, access, .. }) = self.recalls.ask(face, |gid| standing(homes, gid)) else { return };
        let mut outgoing = self.outbox();
        if let Some(home) = self.homes.get_mut(&region) {
            home.recall(face, &pages, access, &mut outgoing);
        }
        self.post(outgoing);
    }

    /// Takes note of what homes say of pages. The asker is told by an action, unless it is the one that asks just now.
    pub(super) fn hear_of_recalls(&mut self, asking: Option<Face>) {
        if self.recalls.is_empty() {
            return;
        }
        let mut freed = Vec::new();
        for home in self.homes.values_mut() {
            while let Some((page, face, outcome)) = home.next_news() {
                freed.extend(self.recalls.on_page(face, page, outcome));
            }
        }
        self.let_go(freed);
        for (asker, face, outcome) in self.recalls.tell_all(asking) {
            match asker {
                Asker::End => self.on_home_at_end(face, &outcome),
                Asker::Word => self.of_words.push_back((face, outcome)),
                Asker::Link(link) => self.outputs.push_back(PageOutput::Recalled { link, face, outcome }),
            }
        }
    }

    /// Homes that are back are asked; who waits too long is told.
    pub(super) fn tick_recalls(&mut self) {
        if self.recalls.is_empty() {
            return;
        }
        self.ask_unasked();
        let (late, bound) = (self.recalls.late(self.now_ms()), Duration::from_millis(self.recalls.patience_ms()));
        for face in late {
            let home = |gid| self.homes.get(&gid);
            let freed = self.recalls.give_up(face, |gid, page| home(gid).map_or(Ok(()), |home| Err(home.is_late(page, bound))));
            self.let_go(freed);
        }
    }
}

/// The state of the home of a region's pages.
fn standing<H: HomePages>(homes: &BTreeMap<Gid, PageHome<H>>, gid: Gid) -> HomeStanding {
    match homes.get(&gid) {
        None => HomeStanding::Unmapped,
        Some(home) if home.is_returning() => HomeStanding::Away,
        Some(_) => HomeStanding::Here,
    }
}
