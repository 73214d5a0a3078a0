//! Words, slots and frames without shared memory, for whoever drives the rules alone.

use super::{HostMemory, Manner};
use crate::error::Corrupt;
use crate::page::hosts::HostId;
use crate::page::message::{Access, Page};
use crate::page::word::{Change, Fault, PageWord};
use std::collections::BTreeMap;
use std::ops::Range;

/// A thread's slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct PlainThreadSlot {
    /// The page it is at, and whether it maps that.
    at: Option<(Page, bool)>,
    /// The number of its last request.
    number: u32,
}

/// The pages of one home at a host.
///
/// **Cost**: nothing for pages that were never there.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Plain<B> {
    me: HostId,
    /// True if the frames are the home's own memory, where bytes stay when pages are taken.
    is_home: bool,
    page_count: u64,
    slot_count: u16,
    /// Words of pages that were there.
    words: BTreeMap<Page, PageWord>,
    slots: BTreeMap<u16, PlainThreadSlot>,
    frames: BTreeMap<Page, B>,
}

impl<B: Clone> Plain<B> {
    /// A place of `pages` pages, none of which was ever there, and `slots` slots.
    pub fn new(me: HostId, is_home: bool, pages: u64, slots: u16) -> Plain<B> {
        let (words, taken, frames) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Plain { me, is_home, page_count: pages, slot_count: slots, words, slots: taken, frames }
    }

    fn slot(&mut self, slot: u16) -> &mut PlainThreadSlot {
        assert!(slot < self.slot_count, "slot {slot} of {}", self.slot_count);
        self.slots.entry(slot).or_default()
    }

    /// A frame's content.
    pub fn frame(&self, page: Page) -> Option<&B> {
        self.frames.get(&page)
    }

    /// Puts bytes into a frame, or gives it back.
    pub fn set_frame(&mut self, page: Page, bytes: Option<B>) {
        match bytes {
            Some(bytes) => drop(self.frames.insert(page, bytes)),
            None => drop(self.frames.remove(&page)),
        }
    }

    /// A thread that was let in has mapped the page.
    pub fn leave(&mut self, page: Page, slot: u16) -> Result<(), Corrupt> {
        self.change(page, PageWord::leave)?;
        self.clear_slot(slot);
        Ok(())
    }

    /// The number of pages that something is in the frame of.
    pub fn present_count(&self) -> usize {
        self.frames.len()
    }
}

impl<B: Clone> HostMemory for Plain<B> {
    type Bytes = B;

    fn page_count(&self) -> u64 {
        self.page_count
    }

    fn slot_count(&self) -> u16 {
        self.slot_count
    }

    fn home_of(&self, _: Page) -> usize {
        0
    }

    fn me(&self, _: Page) -> HostId {
        self.me
    }

    fn look(&self, page: Page) -> PageWord {
        self.words.get(&page).copied().unwrap_or(PageWord::NEVER)
    }

    fn change<T>(&mut self, page: Page, rule: impl Fn(PageWord) -> Result<Change<T>, Corrupt>) -> Result<T, Corrupt> {
        let Change { word, value } = rule(self.look(page))?;
        self.words.insert(page, word);
        Ok(value)
    }

    fn forget(&mut self, page: Page) {
        self.words.remove(&page);
    }

    fn fault(&mut self, page: Page, slot: u16, access: Access) -> Result<Fault, Corrupt> {
        let fault = self.change(page, |word| word.fault(slot, access))?;
        let is_claim = matches!(fault, Fault::Fetch { .. } | Fault::Upgrade { .. });
        self.slot(slot).at = match fault {
            Fault::Map(_) => Some((page, true)),
            Fault::Wait(_) => None,
            Fault::Fetch { .. } | Fault::Upgrade { .. } => Some((page, false)),
        };
        if is_claim {
            let last = self.number(slot);
            self.next_number(slot, last);
        }
        Ok(fault)
    }

    fn clear_slot(&mut self, slot: u16) {
        self.slot(slot).at = None;
    }

    fn claim(&self, slot: u16) -> Result<Option<Page>, Corrupt> {
        let Some((page, _)) = self.slots.get(&slot).and_then(|slot| slot.at) else { return Ok(None) };
        let word = self.look(page);
        word.state()?;
        Ok(Some(page).filter(|_| word.is_claimed() && word.claimer() == slot))
    }

    fn end_slot(&mut self, slot: u16) -> Result<Option<Page>, Corrupt> {
        let claim = self.claim(slot);
        self.clear_slot(slot);
        claim
    }

    fn number(&self, slot: u16) -> u32 {
        self.slots.get(&slot).map_or(0, |slot| slot.number)
    }

    fn next_number(&mut self, slot: u16, last: u32) -> Option<u32> {
        let number = &mut self.slot(slot).number;
        let is_last = *number == last;
        *number = if is_last { last.wrapping_add(1).max(1) } else { *number };
        is_last.then_some(*number)
    }

    fn is_clear(&self, page: Page) -> bool {
        self.look(page).installers() == 0 || self.slots.values().all(|slot| slot.at != Some((page, true)))
    }

    fn fill(&mut self, page: Page, _: u16, bytes: &B) -> bool {
        self.set_frame(page, Some(bytes.clone()));
        true
    }

    fn read(&mut self, page: Page) -> Option<B> {
        self.frame(page).cloned()
    }

    fn punch(&mut self, page: Page) {
        if !self.is_home {
            self.set_frame(page, None);
        }
    }

    fn take(&mut self, pages: Range<u64>, manner: Manner) -> Option<Vec<B>> {
        let bytes = if manner.wants_bytes { pages.clone().map(|page| self.read(Page(page))).collect() } else { None };
        if !manner.keeps {
            pages.for_each(|page| self.punch(Page(page)));
        }
        bytes
    }
}
