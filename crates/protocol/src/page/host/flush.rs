//! Flushes: stores of this host's programs go to all holders of the bytes, as they are at one moment. The pages stay.

use super::takes::RUN_COUNT_MAX;
use super::{Host, HostMemory, HostOutput, Why, pages};
use crate::error::Corrupt;
use crate::page::message::{Page, ToHome, Version};
use crate::page::word::PageWord;
use std::collections::BTreeSet;
use std::ops::Range;

/// A flush whose pages are being taken.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct OpenFlush {
    number: u64,
    /// Number of homes that hear of it.
    homes: usize,
    /// Pages that were being taken when it began, and whose bytes go home: those go ahead.
    awaits: BTreeSet<Page>,
}

/// A flush that has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BegunFlush {
    /// Number of its pages, and of those that go home before.
    pub count: usize,
    /// True if more pages may be left for the next one.
    pub is_cut: bool,
}

impl<B: Clone> Host<B> {
    /// Begins a flush of at most `most` pages: those that were stored to since the last one, or `all` that are owned. [`HostOutput::Flush`] tells each of that number of homes when all have left. No other is under way.
    ///
    /// **Cost**: a look at each page's word. Then a call for each run of pages and client, which shoots down translations; a copy of each page.
    pub fn begin_flush<P: HostMemory<Bytes = B>>(
        &mut self,
        place: &mut P,
        (number, homes): (u64, usize),
        (most, all): (usize, bool),
    ) -> Result<BegunFlush, Corrupt> {
        // Pages of a flush before, which a thread kept from being taken, and pages on their way home.
        let is_sent = |why: &Why| matches!(why, Why::Recall { .. } | Why::Forward { .. } | Why::Evict { .. });
        let awaits: BTreeSet<Page> = self.takes.iter().filter(|(_, why)| is_sent(why)).map(|(page, _)| *page).collect();
        let (mut count, mut is_cut) = (self.flushed().count(), false);
        for page in pages(place).filter(|page| all || place.look(*page).is_written()).collect::<Vec<Page>>() {
            if count >= most {
                is_cut = true;
                break;
            }
            if let Some(era) = place.change(page, |word| word.take_to_flush(all))? {
                self.begin_take(page, Why::Flush { era });
                count += 1;
            }
        }
        let count = count + awaits.len();
        self.flush = Some(OpenFlush { number, homes, awaits });
        Ok(BegunFlush { count, is_cut })
    }

    /// A flush without pages is nothing.
    pub fn end_flush(&mut self) {
        self.flush = None;
    }

    /// The pages of the flush that is under way.
    fn flushed(&self) -> impl Iterator<Item = Page> + '_ {
        self.takes.iter().filter(|(_, why)| matches!(why, Why::Flush { .. })).map(|(page, _)| *page)
    }

    /// True if the flush that is under way can take its pages: no thread is mapping one of them.
    pub(super) fn may_flush(&self, place: &impl HostMemory<Bytes = B>) -> bool {
        let Some(OpenFlush { awaits, .. }) = &self.flush else { return false };
        let is_taken =
            |page: &Page| self.takes.get(page).is_none_or(|why| matches!(why, Why::Flush { .. } | Why::Invalidate { .. }));
        awaits.iter().all(is_taken) && self.flushed().all(|page| place.is_clear(page))
    }

    /// Takes all pages of the flush, if nobody is mapping one of them. No thread stores to any from before the first is read until the last was.
    /// Returns whether it did.
    pub(super) fn go_on_flushing<P: HostMemory<Bytes = B>>(
        &mut self,
        place: &mut P,
        outputs: &mut Vec<HostOutput<B>>,
    ) -> Result<bool, Corrupt> {
        if !self.may_flush(place) {
            return Ok(false);
        }
        let Some(OpenFlush { number, homes, .. }) = self.flush else { return Ok(false) };
        let those: Vec<Page> = self.flushed().collect();
        runs(&those).for_each(|run| place.protect(run));
        let bytes: Vec<Option<B>> = those.iter().map(|page| place.read(*page)).collect();
        let mut counts = vec![0; homes];
        for (page, bytes) in those.iter().zip(bytes) {
            let home = place.home_of(*page);
            counts.get_mut(home).into_iter().for_each(|count| *count += 1);
            self.publish(place, *page, bytes, outputs)?;
        }
        self.flush = None;
        outputs.extend(counts.into_iter().enumerate().map(|(home, count)| HostOutput::Flush { home, number, count }));
        those.iter().try_for_each(|page| self.act_on_waiting(place, *page, outputs))?;
        Ok(true)
    }

    /// Publishes a page that was read for a flush.
    pub(super) fn publish_flushed<P: HostMemory<Bytes = B>>(
        &mut self,
        place: &mut P,
        (page, version): (Page, Version),
        bytes: Option<B>,
        outputs: &mut Vec<HostOutput<B>>,
    ) -> Result<(), Corrupt> {
        place.change(page, PageWord::flushed)?;
        place.on_taken(&Why::Flush { era: version });
        let flush = self.flush.as_ref().map_or(0, |flush| flush.number);
        outputs.push(HostOutput::Home { page, message: ToHome::Store { version, flush }, bytes });
        Ok(())
    }
}

/// Neighbours of ascending pages.
fn runs(pages: &[Page]) -> impl Iterator<Item = Range<u64>> + '_ {
    let mut rest = pages;
    std::iter::from_fn(move || {
        let first = rest.first()?.0;
        let count = rest.iter().zip(first..).take_while(|(page, next)| page.0 == *next).take(RUN_COUNT_MAX as usize).count();
        rest = &rest[count..];
        Some(first..first + count as u64)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::host::Plain;
    use crate::page::hosts::HostId;
    use crate::page::message::Access;
    use crate::page::word::{Fault, State};

    const SLOT: u16 = 1;

    /// A host that owns pages and has stored a letter to each.
    fn host(pages: &[u64]) -> (Host<char>, Plain<char>) {
        let mut place = Plain::new(HostId(1), false, 100, 4);
        pages.iter().for_each(|page| store(&mut place, Page(*page), 'a'));
        (Host::default(), place)
    }

    /// A thread stores to a page, which comes where it is not here.
    fn store(place: &mut Plain<char>, page: Page, letter: char) {
        if let Fault::Fetch { .. } = place.fault(page, SLOT, Access::Write).unwrap() {
            place.change(page, |word| word.grant(SLOT, Version(5), Access::Write)).unwrap();
            place.clear_slot(SLOT);
            place.fault(page, SLOT, Access::Write).unwrap();
        }
        place.set_frame(page, Some(letter));
        place.leave(page, SLOT).unwrap();
    }

    fn flush(host: &mut Host<char>, place: &mut Plain<char>, most: usize) -> (Vec<(u64, char)>, u64, bool) {
        let mut outputs = Vec::new();
        let is_cut = host.begin_flush(place, (7, 1), (most, false)).unwrap().is_cut;
        while host.turn(place, &mut outputs).unwrap() {}
        let Some(HostOutput::Flush { home: 0, number: 7, count }) = outputs.pop() else { panic!("{outputs:?}") };
        let page = |output| match output {
            HostOutput::Home { page, message: ToHome::Store { version: Version(5), flush: 7 }, bytes: Some(bytes) } => {
                (page.0, bytes)
            }
            other => panic!("{other:?}"),
        };
        (outputs.into_iter().map(page).collect(), count, is_cut)
    }

    #[test]
    fn what_was_stored_goes_once_and_the_pages_stay() {
        let (mut host, mut place) = host(&[3, 4, 9]);
        assert_eq!(flush(&mut host, &mut place, 100), (vec![(3, 'a'), (4, 'a'), (9, 'a')], 3, false));
        assert!([3, 4, 9].iter().all(|page| place.look(Page(*page)).state() == Ok(State::Owned)));
        assert_eq!(flush(&mut host, &mut place, 100), (vec![], 0, false), "nothing was stored since");
        store(&mut place, Page(4), 'b');
        assert_eq!(flush(&mut host, &mut place, 100), (vec![(4, 'b')], 1, false));
    }

    #[test]
    fn a_flush_of_all_has_what_one_before_had() {
        let (mut host, mut place) = host(&[3, 4]);
        flush(&mut host, &mut place, 100);
        let mut outputs = Vec::new();
        assert_eq!(host.begin_flush(&mut place, (8, 1), (100, true)), Ok(BegunFlush { count: 2, is_cut: false }));
        while host.turn(&mut place, &mut outputs).unwrap() {}
        assert!(matches!(outputs[..], [_, _, HostOutput::Flush { number: 8, count: 2, .. }]));
    }

    #[test]
    fn a_flush_has_a_bound_and_the_next_has_the_rest() {
        let (mut host, mut place) = host(&[1, 2, 3]);
        assert_eq!(flush(&mut host, &mut place, 2), (vec![(1, 'a'), (2, 'a')], 2, true));
        assert_eq!(flush(&mut host, &mut place, 2), (vec![(3, 'a')], 1, false));
    }

    #[test]
    fn no_page_is_read_while_a_thread_maps_one_of_them() {
        let (mut host, mut place) = host(&[1, 2]);
        assert_eq!(place.fault(Page(2), SLOT, Access::Write).unwrap(), Fault::Map(Access::Write));
        let mut outputs = Vec::new();
        host.begin_flush(&mut place, (7, 1), (100, false)).unwrap();
        assert!(!host.turn(&mut place, &mut outputs).unwrap() && outputs.is_empty() && host.is_taking());
        place.leave(Page(2), SLOT).unwrap();
        assert!(host.turn(&mut place, &mut outputs).unwrap());
        assert_eq!(outputs.len(), 3);
    }

    #[test]
    fn a_recall_that_comes_meanwhile_is_heard_behind_it() {
        let (mut host, mut place) = host(&[1]);
        let mut outputs = Vec::new();
        host.begin_flush(&mut place, (7, 1), (100, false)).unwrap();
        let recall = crate::page::ToHost::Recall { era: Version(5), keeps: false, hold_us: 0 };
        host.on_message(&mut place, Page(1), recall, None, &mut outputs).unwrap();
        while host.turn(&mut place, &mut outputs).unwrap() {}
        let last = outputs.pop();
        assert!(matches!(last, Some(HostOutput::Home { message: ToHome::WriteBack { version: Version(5), keeps: false }, .. })));
    }

    #[test]
    fn pages_that_are_taken_for_others_go_ahead() {
        let (mut host, mut place) = host(&[1]);
        assert_eq!(place.fault(Page(1), SLOT, Access::Write).unwrap(), Fault::Map(Access::Write));
        let mut outputs = Vec::new();
        let recall = crate::page::ToHost::Recall { era: Version(5), keeps: false, hold_us: 0 };
        host.on_message(&mut place, Page(1), recall, None, &mut outputs).unwrap();
        let begun = host.begin_flush(&mut place, (7, 1), (100, false)).unwrap();
        assert_eq!(begun, BegunFlush { count: 1, is_cut: false });
        assert!(!host.turn(&mut place, &mut outputs).unwrap() && outputs.is_empty());
        place.leave(Page(1), SLOT).unwrap();
        while host.turn(&mut place, &mut outputs).unwrap() {}
        assert!(matches!(
            &outputs[..],
            [HostOutput::Home { message: ToHome::WriteBack { .. }, .. }, HostOutput::Flush { number: 7, count: 0, .. }]
        ));
    }

    #[test]
    fn pages_of_a_flush_that_did_not_end_are_those_of_the_next() {
        let (mut host, mut place) = host(&[1, 2]);
        assert_eq!(place.fault(Page(2), SLOT, Access::Write).unwrap(), Fault::Map(Access::Write));
        let mut outputs = Vec::new();
        host.begin_flush(&mut place, (7, 1), (100, false)).unwrap();
        assert!(!host.turn(&mut place, &mut outputs).unwrap());
        assert_eq!(host.begin_flush(&mut place, (8, 1), (100, false)), Ok(BegunFlush { count: 2, is_cut: false }));
        place.leave(Page(2), SLOT).unwrap();
        while host.turn(&mut place, &mut outputs).unwrap() {}
        assert_eq!(outputs.len(), 3);
        assert!(matches!(outputs[2], HostOutput::Flush { number: 8, count: 2, .. }));
    }

    #[test]
    fn runs_are_neighbours() {
        let pages: Vec<Page> = [1, 2, 3, 7, 9].into_iter().chain(100..180).map(Page).collect();
        assert_eq!(runs(&pages).collect::<Vec<_>>(), [1..4, 7..8, 9..10, 100..164, 164..180]);
    }
}
