//! Words, seats and frames without shared memory: one page after the other in a vector, for whoever drives the rules alone.

use super::{Manner, Place};
use crate::error::Corrupt;
use crate::page::hosts::HostId;
use crate::page::message::{Access, Page};
use crate::page::word::{Change, Fault, PageWord};
use std::ops::Range;

/// A thread's seat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Seat {
    /// The page it is at, and whether it maps that.
    at: Option<(Page, bool)>,
    /// The number of its last request.
    number: u32,
}

/// The pages of one home at a host.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Plain<B> {
    me: HostId,
    /// Whether the frames are the home's own memory, where bytes stay when pages are taken.
    is_home: bool,
    words: Vec<PageWord>,
    seats: Vec<Seat>,
    frames: Vec<Option<B>>,
}

impl<B: Clone> Plain<B> {
    /// A place of `pages` pages, none of which was ever there, and `seats` seats.
    pub fn new(me: HostId, is_home: bool, pages: u64, seats: u16) -> Plain<B> {
        let seats = vec![Seat::default(); usize::from(seats)];
        Plain { me, is_home, words: vec![PageWord::NEVER; pages as usize], seats, frames: vec![None; pages as usize] }
    }

    /// What is in a frame.
    pub fn frame(&self, page: Page) -> Option<&B> {
        self.frames[page.0 as usize].as_ref()
    }

    /// Puts bytes into a frame, or gives it back.
    pub fn set_frame(&mut self, page: Page, bytes: Option<B>) {
        self.frames[page.0 as usize] = bytes;
    }

    /// A thread that was let in has mapped the page.
    pub fn leave(&mut self, page: Page, seat: u16) -> Result<(), Corrupt> {
        self.change(page, PageWord::leave)?;
        self.clear_seat(seat);
        Ok(())
    }

    /// The number of pages that something is in the frame of.
    pub fn present_count(&self) -> usize {
        self.frames.iter().flatten().count()
    }
}

impl<B: Clone> Place for Plain<B> {
    type Bytes = B;

    fn page_count(&self) -> u64 {
        self.words.len() as u64
    }

    fn seat_count(&self) -> u16 {
        self.seats.len() as u16
    }

    fn home_of(&self, _: Page) -> usize {
        0
    }

    fn me(&self, _: Page) -> HostId {
        self.me
    }

    fn look(&self, page: Page) -> PageWord {
        self.words[page.0 as usize]
    }

    fn change<T>(&mut self, page: Page, rule: impl Fn(PageWord) -> Result<Change<T>, Corrupt>) -> Result<T, Corrupt> {
        let Change { word, value } = rule(self.look(page))?;
        self.words[page.0 as usize] = word;
        Ok(value)
    }

    fn forget(&mut self, page: Page) {
        self.words[page.0 as usize] = PageWord::NEVER;
    }

    fn fault(&mut self, page: Page, seat: u16, access: Access) -> Result<Fault, Corrupt> {
        let fault = self.change(page, |word| word.fault(seat, access))?;
        let is_claim = matches!(fault, Fault::Fetch { .. } | Fault::Upgrade { .. });
        self.seats[usize::from(seat)].at = match fault {
            Fault::Map(_) => Some((page, true)),
            Fault::Wait(_) => None,
            Fault::Fetch { .. } | Fault::Upgrade { .. } => Some((page, false)),
        };
        if is_claim {
            self.next_number(seat);
        }
        Ok(fault)
    }

    fn clear_seat(&mut self, seat: u16) {
        self.seats[usize::from(seat)].at = None;
    }

    fn bury(&mut self, seat: u16) -> Result<Option<Page>, Corrupt> {
        let Some((page, _)) = self.seats[usize::from(seat)].at.take() else { return Ok(None) };
        let word = self.look(page);
        word.state()?;
        Ok(Some(page).filter(|_| word.is_claimed() && word.claimer() == seat))
    }

    fn number(&self, seat: u16) -> u32 {
        self.seats[usize::from(seat)].number
    }

    fn next_number(&mut self, seat: u16) -> u32 {
        let number = &mut self.seats[usize::from(seat)].number;
        *number = number.wrapping_add(1).max(1);
        *number
    }

    fn is_clear(&self, page: Page) -> bool {
        self.look(page).installers() == 0 || self.seats.iter().all(|seat| seat.at != Some((page, true)))
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
