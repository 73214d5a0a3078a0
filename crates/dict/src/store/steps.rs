//! Changes of many words: bytes are put by one message to each node, then the words are swapped by another.

use crate::Fault;
use crate::blocks::LooseBlocks;
use crate::bucket::{At, Word};
use crate::mark::Mark;
use crate::plan::{Looked, Plan};
use crate::table::Table;
use hanare::{Element, Error, Happened, Indexed, Indices, Result};
use std::borrow::Cow;
use std::time::Instant;

/// A plan, with its blocks.
pub(super) struct Step<'v> {
    pub plan: Plan,
    /// The block of its bucket, if that has entries.
    pub at: Option<At>,
    /// Values that its bucket leads to, which are not in their blocks yet.
    pub values: Vec<(At, &'v [u8])>,
}

/// A step whose bucket has its bytes.
struct Ready<'v> {
    step_at: usize,
    number: u64,
    words: (Word, Word),
    raw: Vec<u8>,
    len: u64,
    freed: Vec<(At, u64)>,
    mark: Option<Mark>,
    values: Vec<(At, &'v [u8])>,
}

impl<'v> Ready<'v> {
    /// `None` for a bucket that is too long, or whose place no word can name.
    fn new(step_at: usize, step: Step<'v>) -> Option<Ready<'v>> {
        let Step { plan, at, values } = step;
        let (len, tag) = (plan.bucket_len(), plan.word.next_tag());
        let Plan { number, word, writing, freed, mark, .. } = plan;
        let (fresh, raw) = match at {
            Some(at) => (Word::to(tag, at, len)?, writing.finish(number, tag)?),
            None => (Word::to_none(tag), Vec::new()),
        };
        Some(Ready { step_at, number, words: (word, fresh), raw, len, freed, mark, values })
    }
}

impl Table {
    /// Carries steps out, each on another word. True for each that was; the others found another word than they were planned for. Blocks that
    /// are not linked then are loose.
    ///
    /// **Cost**: on this host no message; else two to each node, however many steps. With copies one for each step. **Errors**: those of a batch. Steps may have been carried
    /// out, and their blocks are lost until a sweep; with [`Happened::No`] none was.
    pub(super) fn carry_out_many(&self, steps: Vec<Step<'_>>, loose: &mut LooseBlocks) -> std::result::Result<Vec<bool>, Fault> {
        let mut done = vec![false; steps.len()];
        let mut ready = Vec::with_capacity(steps.len());
        for (step_at, step) in steps.into_iter().enumerate() {
            let len = step.plan.bucket_len();
            let (at, values) = (step.at, step.values.clone());
            match Ready::new(step_at, step) {
                Some(step) => ready.push(step),
                None => {
                    at.into_iter().for_each(|at| loose.add(at, len));
                    values.into_iter().for_each(|(at, bytes)| loose.add(at, bytes.len() as u64));
                }
            }
        }
        let begun = if self.is_here { None } else { Some(Instant::now()) };
        // Before the swaps no block is linked. One node does a list of them whole or not.
        let is_whole = ready.len() == 1 || self.is_at_one_node() && !self.swaps_singly();
        let put = self.put_many(&ready).map_err(|error| (error, true));
        let swapped = match put.and_then(|()| self.swap_many(&ready).map_err(|error| (error, is_whole))) {
            Ok(swapped) => swapped,
            // The next look asks for the grants of today.
            Err((Error::GrantRefused { .. }, true)) => vec![false; ready.len()],
            Err((error, is_known)) => {
                if is_known && error.happened() == Happened::No {
                    ready.iter().for_each(|step| step.let_loose(loose));
                }
                return Err(error.into());
            }
        };
        for (step, is_first) in ready.into_iter().zip(swapped) {
            if !is_first {
                step.let_loose(loose);
                continue;
            }
            done[step.step_at] = true;
            let Ready { number, words: (old, fresh), raw, freed, mark, .. } = step;
            self.note(number, Looked { word: fresh, mark: mark.unwrap_or_default(), raw }, begun);
            match old.block_len() {
                Some(len) if !old.is_none() => loose.add(old.at(), len),
                _ => self.free_bucket(old),
            }
            freed.into_iter().for_each(|(at, len)| loose.add(at, len));
        }
        Ok(done)
    }

    /// Puts values and buckets into their blocks, which no other program knows.
    fn put_many(&self, ready: &[Ready<'_>]) -> Result<()> {
        let values = ready.iter().flat_map(|step| step.values.iter().copied());
        let buckets = ready.iter().filter(|step| !step.raw.is_empty()).map(|step| (step.words.1.at(), step.raw.as_slice()));
        let puts: Vec<(At, &[u8])> = values.chain(buckets).collect();
        if puts.is_empty() {
            return Ok(());
        }
        self.pool.batch(|batch| {
            puts.iter().try_for_each(|(at, bytes)| batch.put(&self.buckets.segment(at.segment)?.region, at.offset(), bytes))
        })
    }

    /// True if words are swapped one by one. A swap that is sent again to bytes with copies counts once. A list of swaps may not.
    fn swaps_singly(&self) -> bool {
        self.is_here || self.words.copies() > 1
    }

    /// Swaps words, and sets the marks of those that were swapped, or of all where that is one message. True for each word that was swapped.
    fn swap_many(&self, ready: &[Ready<'_>]) -> Result<Vec<bool>> {
        if ready.is_empty() {
            return Ok(Vec::new());
        }
        if self.swaps_singly() {
            let swap = |step: &Ready<'_>| {
                let (old, fresh) = step.words;
                let is_first = self.words.compare_and_swap_word(self.offset(step.number), old.0, fresh.0)? == old.0;
                if let Some(mark) = step.mark.filter(|_| is_first) {
                    self.put_mark(step.number, mark);
                }
                Ok(is_first)
            };
            return ready.iter().map(swap).collect();
        }
        let (marked, marks): (Vec<u64>, Vec<u64>) = ready.iter().filter_map(|step| Some((step.number, step.mark?.0))).unzip();
        let numbers: Vec<u64> = ready.iter().map(|step| step.number).collect();
        let bytes = |words: &mut dyn Iterator<Item = u64>| words.flat_map(u64::to_le_bytes).collect::<Vec<u8>>();
        let marks = bytes(&mut marks.into_iter());
        let (old, fresh) =
            (bytes(&mut ready.iter().map(|step| step.words.0.0)), bytes(&mut ready.iter().map(|step| step.words.1.0)));
        let mut before = vec![0; old.len()];
        let at = |offset, numbers: Vec<u64>| Indexed {
            offset,
            block: 8,
            scale: self.offset(1),
            indices: Indices::Wide(Cow::Owned(numbers)),
        };
        self.pool.batch(|batch| {
            if !marks.is_empty() {
                batch.put_shape(&self.words, at(8, marked), &marks)?;
            }
            batch.compare_and_swap(&self.words, at(0, numbers), Element::U64, &old, &fresh, &mut before)
        })?;
        Ok(before.chunks_exact(8).zip(old.chunks_exact(8)).map(|(before, old)| before == old).collect())
    }
}

impl Ready<'_> {
    /// The blocks that it did not link.
    fn let_loose(&self, loose: &mut LooseBlocks) {
        loose.add(self.words.1.at(), self.len);
        self.values.iter().for_each(|(at, bytes)| loose.add(*at, bytes.len() as u64));
    }
}
