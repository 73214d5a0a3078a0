//! Commands on pages that hosts map: a command is done at the home, a stage at a time, and each stage has its pages brought home first.
//!
//! ```text
//!   Need ──┬── nobody else has a page of it ────────────────────────────────> done at once
//!          └── asked of the directory ── hosts send pages, drop copies ──────> Action::Recalled ── done ── release
//! ```
//!
//! A stage that writes holds its pages from there on until it is done. A stage that reads holds nothing: what lies at home since its
//! pages came is as new as anything that was stored before the stage began.
//!
//! # Why no two stages wait for each other
//!
//! - A stage asks one directory for all its pages at one moment, in ascending order. Every page serves requests in the order in which
//!   they came. So of two stages the one that asked first is first at each page that both want.
//! - Nothing but hosts is waited for while pages are held: operands lie in this node's memory before a stage asks, and results leave
//!   after it is done. Hosts give pages up by themselves.
//! - A stage holds pages of one home. A copy has the bytes of its source before it asks for its target's pages.

use super::{Action, SharedRegions};
use hanare_protocol::Result;
use hanare_protocol::id::{Gid, Slot};
use hanare_protocol::page::{Access, Consistency, Face, Page};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// Pages that a stage of a command needs.
pub(crate) struct Need {
    pub gid: Gid,
    pub slot: Slot,
    pub access: Access,
    /// Numbers of pages of the extent, ascending, each once.
    pub pages: Vec<u64>,
}

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asker {
    /// The commands of that link.
    Link(u64),
    /// Somebody who waits for a word.
    Word,
}

/// What can be said of a need at once.
pub(crate) enum Recall {
    /// The stage may be done; [`SharedRegions::release`] follows.
    Ready(Face),
    /// [`Action::Recalled`] follows.
    Waits(Face),
}

/// Stages whose pages are asked for or held.
#[derive(Default)]
pub(super) struct Recalls {
    asked: BTreeMap<Face, StageRecall>,
    count: u64,
}

struct StageRecall {
    asker: Asker,
    gid: Gid,
    access: Access,
    pages: Vec<Page>,
    state: StageState,
    until: Instant,
}

enum StageState {
    /// The home is away, or comes back.
    Unasked,
    /// These are not here yet.
    Waits(BTreeSet<Page>),
    Over(Result<()>),
    /// The asker knows.
    Told,
}

impl StageRecall {
    fn is_over(&self) -> bool {
        matches!(self.state, StageState::Over(_))
    }
}

impl Recalls {
    /// Whether somebody waits for pages.
    pub fn any_wait(&self) -> bool {
        self.asked.values().any(|asked| !matches!(asked.state, StageState::Told))
    }

    /// A home forgets what it was asked for, since it comes back.
    pub fn ask_anew(&mut self) {
        let waiting = self.asked.values_mut().filter(|asked| matches!(asked.state, StageState::Waits(_)));
        waiting.for_each(|asked| asked.state = StageState::Unasked);
    }
}

impl SharedRegions {
    /// How long a stage waits for hosts: who asked hears which host was silent before it gives up itself.
    fn recall_bound(&self) -> Duration {
        self.bound - self.bound / 4
    }

    /// Brings pages home for a stage.
    ///
    /// **Cost**: two messages for each host that owns a page of it, or, where the stage writes, has a copy of one. **Errors**: [`hanare_protocol::Error::PageLost`]; `LimitReached` where too many wait for a page.
    // FEATURE: EU-F15 EU-F17
    pub fn recall(&mut self, asker: Asker, need: Need) -> Result<Recall> {
        self.recalls.count += 1;
        let face = Face(self.recalls.count);
        let Some(home) = self.homes.get(&need.gid).filter(|home| home.consistency() == Consistency::Coherent) else {
            return Ok(Recall::Ready(face));
        };
        let Some(pages) = home.memory().pages_of(need.slot, &need.pages) else { return Ok(Recall::Ready(face)) };
        let Need { gid, access, .. } = need;
        let until = Instant::now() + self.recall_bound();
        self.recalls.asked.insert(face, StageRecall { asker, gid, access, pages, state: StageState::Unasked, until });
        self.ask_for_pages(face);
        self.settle_but(Some(face));
        let Some(asked) = self.recalls.asked.get_mut(&face).filter(|asked| asked.is_over()) else {
            return Ok(Recall::Waits(face));
        };
        match std::mem::replace(&mut asked.state, StageState::Told) {
            StageState::Over(Err(error)) => {
                self.recalls.asked.remove(&face);
                Err(error)
            }
            _ => Ok(Recall::Ready(face)),
        }
    }

    /// A stage is done, or will not be: its pages serve others.
    pub fn release(&mut self, face: Face) {
        let Some(asked) = self.recalls.asked.remove(&face) else { return };
        self.let_go(face, &asked.pages, asked.gid);
        self.settle();
    }

    /// A link has ended: what its commands asked for or hold goes to others.
    pub fn forget_link(&mut self, link: u64) {
        let its = self.recalls.asked.iter().filter(|(_, asked)| asked.asker == Asker::Link(link));
        let its: Vec<Face> = its.map(|(face, _)| *face).collect();
        its.into_iter().for_each(|face| self.release(face));
    }

    fn let_go(&mut self, face: Face, pages: &[Page], gid: Gid) {
        let mut outgoing = Vec::new();
        if let Some(home) = self.homes.get_mut(&gid).filter(|home| !home.is_returning()) {
            home.release(face, pages, &mut outgoing);
        }
        self.send_all(outgoing);
    }

    fn ask_for_pages(&mut self, face: Face) {
        let Some(asked) = self.recalls.asked.get_mut(&face) else { return };
        let mut outgoing = Vec::new();
        match self.homes.get_mut(&asked.gid) {
            // Nobody maps it any more.
            None => asked.state = StageState::Over(Ok(())),
            Some(home) if home.is_returning() => {}
            Some(home) => {
                asked.state = StageState::Waits(asked.pages.iter().copied().collect());
                home.recall(face, &asked.pages, asked.access, &mut outgoing);
            }
        }
        self.send_all(outgoing);
    }

    /// Takes note of what homes say of pages; the asker is told by an action, unless it is the one that asks just now.
    pub(super) fn hear_of_recalls(&mut self, asking: Option<Face>) {
        if self.recalls.asked.is_empty() {
            return;
        }
        let mut failed = Vec::new();
        for home in self.homes.values_mut() {
            while let Some((page, face, outcome)) = home.next_news() {
                let Some(asked) = self.recalls.asked.get_mut(&face) else { continue };
                let StageState::Waits(waits) = &mut asked.state else { continue };
                waits.remove(&page);
                if outcome.is_err() {
                    failed.push((face, asked.gid, asked.pages.clone()));
                }
                if outcome.is_err() || waits.is_empty() {
                    asked.state = StageState::Over(outcome);
                }
            }
        }
        failed.into_iter().for_each(|(face, gid, pages)| self.let_go(face, &pages, gid));
        for (face, asked) in self.recalls.asked.iter_mut().filter(|(face, asked)| asked.is_over() && Some(**face) != asking) {
            if let StageState::Over(outcome) = std::mem::replace(&mut asked.state, StageState::Told) {
                self.actions.push_back(Action::Recalled { asker: asked.asker, face: *face, outcome });
            }
        }
    }

    /// Homes that are back are asked; who waits too long is told.
    pub(super) fn tick_recalls(&mut self) {
        let is_unasked = |asked: &StageRecall| match asked.state {
            StageState::Unasked => true,
            StageState::Waits(_) => !self.homes.contains_key(&asked.gid),
            StageState::Over(_) | StageState::Told => false,
        };
        let unasked = self.recalls.asked.iter().filter(|(_, asked)| is_unasked(asked));
        let unasked: Vec<Face> = unasked.map(|(face, _)| *face).collect();
        unasked.into_iter().for_each(|face| self.ask_for_pages(face));
        let now = Instant::now();
        let is_waiting = |asked: &StageRecall| matches!(asked.state, StageState::Unasked | StageState::Waits(_));
        let late = self.recalls.asked.iter().filter(|(_, asked)| is_waiting(asked) && asked.until <= now);
        let late: Vec<(Face, Gid, Vec<Page>)> = late.map(|(face, asked)| (*face, asked.gid, asked.pages.clone())).collect();
        let bound = self.recall_bound();
        for (face, gid, pages) in late {
            self.let_go(face, &pages, gid);
            let Some(asked) = self.recalls.asked.get_mut(&face) else { continue };
            let waits = match &asked.state {
                StageState::Waits(waits) => waits.first().copied(),
                _ => None,
            };
            let page = waits.or(pages.first().copied()).unwrap_or(Page(0));
            let late = self.homes.get(&gid).map_or(Ok(()), |home| Err(home.is_late(page, bound)));
            asked.state = StageState::Over(late);
        }
    }
}
