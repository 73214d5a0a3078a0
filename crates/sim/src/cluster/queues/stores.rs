//! Programs that store images to regions: words in all ranges of the extent, in parts that count together, as a flush of a mapping.
//!
//! Each image has one number in all of its words. A home that is asked has a whole image: one that was released last, or one whose last part
//! was sent and not answered. A program that dies in a flush has changed nothing, or all.

use super::{Cluster, Defect, Outcome, QueueAsk, QueueReply, region_of};
use crate::check::{Check, check};
use crate::cluster::memory::SimExtent;
use crate::cluster::words::word_at;
use hanare_home::Bytes;
use hanare_protocol::Error;
use hanare_protocol::copies::{Once, UpdateCall};
use hanare_protocol::error::Happened;
use hanare_protocol::id::ClientId;
use hanare_protocol::wire::stores::StorePart;
use std::collections::BTreeSet;

/// Words of an image, and those of each part.
const WORD_COUNT: usize = 8;
const PART_WORD_COUNT: usize = 3;
/// Bytes from a word of the region to one of its image.
const BEHIND_WORD: u64 = 64;

/// A program's flush, and its calls.
#[derive(Debug, Default)]
pub(super) struct Storer {
    flush: Option<SimFlush>,
    /// Number of its last call.
    number: u64,
}

#[derive(Clone, Copy, Debug)]
struct SimFlush {
    image: u64,
    /// First word that was not stored.
    next: usize,
}

/// Images of a region.
#[derive(Debug, Default)]
pub(super) struct ImageLog {
    begun: u64,
    released: u64,
    /// Images that were sent, and not answered.
    open: BTreeSet<u64>,
    /// A program was told that memory has failed, and no image was released since: the last holder may have some of its words.
    is_void: bool,
}

impl ImageLog {
    /// A program begins to store the next image.
    fn begin(&mut self) -> u64 {
        self.begun += 1;
        self.open.insert(self.begun);
        self.begun
    }

    fn release(&mut self, image: u64) {
        self.open.remove(&image);
        (self.released, self.is_void) = (image, false);
    }

    /// Checks what a holder has.
    pub fn judge(&self, region: usize, extent: &SimExtent) -> Check {
        if self.is_void {
            return Ok(());
        }
        let words: [u64; WORD_COUNT] = std::array::from_fn(|word| extent.word(image_at(word)));
        check(words.iter().all(|word| *word == words[0]), || format!("region {region} has a torn image: {words:?}"))?;
        let is_known = words[0] == self.released || self.open.contains(&words[0]);
        check(is_known, || format!("region {region} has image {}, and {self:?}", words[0]))
    }
}

fn image_at(word: usize) -> u64 {
    word_at(word) + BEHIND_WORD
}

/// The part of a call that begins with a word.
fn part_of(ClientId(client): ClientId, number: u64, SimFlush { image, next }: SimFlush) -> StorePart {
    let end = WORD_COUNT.min(next + PART_WORD_COUNT);
    let call = UpdateCall { client, sequence: 0, number, is_repeat: false };
    StorePart {
        once: Once { call, at: 8 * next as u64 },
        is_last: end == WORD_COUNT,
        ranges: (next..end).map(|word| (image_at(word), 8)).collect(),
        operand: image.to_le_bytes().repeat(end - next),
    }
}

/// True where a home has lost earlier parts of a call: no part of it has an effect.
pub(super) fn is_gone(error: &Error) -> bool {
    matches!(error, Error::Broken { happened: Happened::No, .. })
}

impl Cluster {
    /// A program does its next thing.
    pub(super) fn go_on_storing(&mut self, program: usize) -> Check {
        let is_rough = self.is_rough;
        let Some((_, me)) = self.storer(program) else { return Ok(()) };
        if me.flush.is_none() {
            if !is_rough {
                self.end_queue_program(program, false);
                return Ok(());
            }
            let image = self.queues_mut().images[region_of(program)].begin();
            self.begin_flush(program, image);
        }
        let Some((id, me)) = self.storer(program) else { return Ok(()) };
        let Some(flush) = me.flush else { return Ok(()) };
        let part = part_of(id, me.number, flush);
        self.call_queue(program, QueueAsk::Store(part))
    }

    /// A flush begins, as a call of its own.
    fn begin_flush(&mut self, program: usize, image: u64) {
        if let Some((_, me)) = self.storer(program) {
            (me.number, me.flush) = (me.number + 1, Some(SimFlush { image, next: 0 }));
        }
    }

    /// A part is answered.
    pub(super) fn on_stored(&mut self, program: usize, outcome: Outcome<QueueReply>) -> Check {
        let is_rough = self.is_rough;
        let Some((_, me)) = self.storer(program) else { return Ok(()) };
        let Some(flush) = &mut me.flush else { return Ok(()) };
        let image = flush.image;
        match outcome {
            Ok(QueueReply::Done) if flush.next + PART_WORD_COUNT < WORD_COUNT => {
                flush.next += PART_WORD_COUNT;
                self.go_on_with_queue(program)
            }
            Ok(QueueReply::Done) => {
                me.flush = None;
                self.queues_mut().images[region_of(program)].release(image);
                self.count("flushes");
                self.plan_queue_turn(program, &[5, 50, 500]);
                Ok(())
            }
            Err(error) if is_gone(&error) => {
                self.count("flushes begun again");
                self.begin_flush(program, image);
                self.plan_queue_turn(program, &[0, 10, 100]);
                Ok(())
            }
            Err(Error::System { .. }) => {
                self.count("flushes that memory failed");
                self.queues_mut().images[region_of(program)].is_void = true;
                self.begin_flush(program, image);
                self.plan_queue_turn(program, &[10, 100]);
                Ok(())
            }
            // A node of the last release knows no such stores.
            Err(Error::TooOld { .. }) => {
                me.flush = None;
                self.count("flushes that are not whole");
                if is_rough {
                    self.plan_queue_turn(program, &[500, 2_000]);
                } else {
                    self.end_queue_program(program, false);
                }
                Ok(())
            }
            other => Err(format!("a part of image {image} is answered {other:?}")),
        }
    }

    /// A defect: a home has the stores of a part before the last one.
    pub(super) fn store_early(&self, extent: &SimExtent, part: &StorePart) {
        if self.has(Defect::ApplyParts) && !part.is_last {
            for ((at, _), word) in part.ranges.iter().zip(part.operand.chunks_exact(8)) {
                extent.write(*at, word).expect("a vector has its bytes");
            }
        }
    }
}
