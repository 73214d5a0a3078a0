//! One shared region as one rank sees it: mapped where its bytes are on this host, else a private copy with a twin.
//!
//! The program loads from and stores to the map and the copy at any time, except that it does not store during
//! [`SharedRegion::flush`] and [`SharedRegion::update`].
//!
//! Safety invariants of this module:
//!
//! 1. The copy is private memory of the mapping, and lives as long as it.
//! 2. Slices of the copy exist only inside `fetch`, `flush` and `update`, one caller at a time (the lock), while by the
//!    header's rule nobody stores to it.

use super::diff::{extend, merge, next_run};
use hanare::{LocalMapping, Pool, Region, Result};
use hanare_protocol::limits::BATCH_COUNT_MAX;
use hanare_protocol::shape::Strided;
use std::ops::Range;
use std::sync::atomic::{Ordering, fence};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes that an update brings at once.
const STAGE_LEN: usize = 4 << 20;

/// A region behind one pointer. Unmapped when dropped.
pub struct SharedRegion {
    pool: Pool,
    region: Region,
    mapping: LocalMapping,
    /// The twins of all copied ranges, one behind the other.
    twin: Mutex<Vec<u8>>,
}

/// A copied range: where it is in the region (and in the mapping), and where its twin begins.
struct Part {
    range: Range<u64>,
    twin_at: usize,
}

impl SharedRegion {
    /// Maps what is here and brings the rest.
    ///
    /// **Cost**: bytes of other nodes cross once, unless the region is new and so all zero.
    pub fn new(pool: Pool, region: Region) -> Result<SharedRegion> {
        let mapping = region.map_partly()?;
        let copied: u64 = mapping.absent().iter().map(|range| range.end - range.start).sum();
        let twin = Mutex::new(vec![0; copied as usize]);
        let shared = SharedRegion { pool, region, mapping, twin };
        if !shared.region.created() {
            shared.fetch()?;
        }
        Ok(shared)
    }

    /// The addresses of its bytes.
    pub fn addresses(&self) -> Range<usize> {
        let start = self.mapping.ptr().addr();
        start..start + self.mapping.len()
    }

    /// Its first byte.
    pub fn ptr(&self) -> *mut u8 {
        self.mapping.ptr()
    }

    fn parts(&self) -> impl Iterator<Item = Part> {
        let ranges = self.mapping.absent().iter().cloned();
        ranges.scan(0, |next, range| {
            let twin_at = *next;
            *next += (range.end - range.start) as usize;
            Some(Part { range, twin_at })
        })
    }

    fn lock(&self) -> MutexGuard<'_, Vec<u8>> {
        self.twin.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The copy of a range.
    ///
    /// # Safety
    /// The range is copied, no other slice of it is in use, and invariant 2 holds.
    #[expect(clippy::mut_from_ref, reason = "the copy belongs to the program; the caller holds the lock")]
    unsafe fn copy(&self, range: &Range<u64>) -> &mut [u8] {
        // SAFETY: invariants 1 and 2; the window is checked to hold the range, and is not used after this call.
        unsafe {
            let window = self.mapping.window().slice(range.start as usize, (range.end - range.start) as usize);
            std::slice::from_raw_parts_mut(window.ptr(), window.len())
        }
    }

    /// Brings all copied ranges, straight to where the program sees them.
    fn fetch(&self) -> Result<()> {
        let mut twin = self.lock();
        self.pool.batch(|batch| {
            self.parts().try_for_each(|part| {
                // SAFETY: called before the pointer is known to the program; ranges do not overlap.
                batch.get(&self.region, part.range.start, unsafe { self.copy(&part.range) })
            })
        })?;
        for part in self.parts() {
            // SAFETY: as above; the batch has ended.
            let copy = unsafe { self.copy(&part.range) };
            twin[part.twin_at..][..copy.len()].copy_from_slice(copy);
        }
        Ok(())
    }

    /// Sends the copied bytes that differ from the twin, and only those.
    ///
    /// **Cost**: one message each way for every [`BATCH_COUNT_MAX`] patterns. **Errors**: as for [`Region::put`]; what was
    /// not acknowledged still differs from the twin, so that the next flush sends it again.
    ///
    /// FEATURE: D2-F7
    pub fn flush(&self) -> Result<()> {
        // ORDERING: stores to mapped bytes come before whatever tells another rank of them.
        fence(Ordering::SeqCst);
        let mut twin = self.lock();
        let mut patterns: Vec<(Strided, usize)> = Vec::new();
        for part in self.parts() {
            // SAFETY: the lock is held, and the program does not store meanwhile (invariant 2).
            let copy = unsafe { self.copy(&part.range) };
            let mut at = 0;
            while let Some(run) = next_run(copy, &twin[part.twin_at..][..copy.len()], at) {
                at = run.end;
                let run = part.range.start + run.start as u64..part.range.start + run.end as u64;
                let twin_at = part.twin_at + (run.start - part.range.start) as usize;
                if patterns.last_mut().is_some_and(|(last, last_at)| goes_on(last, *last_at, &run, twin_at)) {
                    continue;
                }
                if patterns.len() == BATCH_COUNT_MAX {
                    self.send(&mut twin, &patterns)?;
                    patterns.clear();
                }
                patterns.push((Strided::contiguous(run.start, run.end - run.start), twin_at));
            }
        }
        self.send(&mut twin, &patterns)
    }

    /// Sends patterns, each with where its twin begins. The twin takes the new bytes first and is what is sent, so that it
    /// is what the home has, whatever a program does that breaks the rule.
    fn send(&self, twin: &mut [u8], patterns: &[(Strided, usize)]) -> Result<()> {
        if patterns.is_empty() {
            return Ok(());
        }
        let mut packed = Vec::new();
        for (pattern, twin_at) in patterns {
            for (at, home) in blocks(pattern, *twin_at) {
                // SAFETY: patterns come from copied ranges, the lock is held, and the program does not store meanwhile.
                let new = unsafe { self.copy(&(home..home + pattern.block)) };
                twin[at..][..new.len()].copy_from_slice(new);
                if pattern.count > 1 {
                    packed.extend_from_slice(new);
                }
            }
        }
        let sent = self.pool.batch(|batch| {
            let mut packed = &packed[..];
            patterns.iter().try_for_each(|(pattern, twin_at)| {
                let len = (pattern.block * pattern.count) as usize;
                let bytes = if pattern.count > 1 { split_off(&mut packed, len) } else { &twin[*twin_at..][..len] };
                batch.put_strided(&self.region, *pattern, bytes)
            })
        });
        sent.inspect_err(|_| self.spoil(twin, patterns))
    }

    /// Makes the twin differ from the copy in every byte of the patterns.
    #[cold]
    fn spoil(&self, twin: &mut [u8], patterns: &[(Strided, usize)]) {
        for (pattern, twin_at) in patterns {
            for (at, home) in blocks(pattern, *twin_at) {
                // SAFETY: as in `send`.
                let new = unsafe { self.copy(&(home..home + pattern.block)) };
                twin[at..][..new.len()].iter_mut().zip(new).for_each(|(twin, new)| *twin = !*new);
            }
        }
    }

    /// Brings the copied ranges again, keeping bytes that were stored and not flushed.
    ///
    /// FEATURE: D2-F7
    pub fn update(&self) -> Result<()> {
        // ORDERING: loads of mapped bytes come after whatever told us of them.
        fence(Ordering::SeqCst);
        let mut twin = self.lock();
        let mut fresh = vec![0; STAGE_LEN.min(twin.len())];
        let mut pieces = self.parts().flat_map(cut).peekable();
        while pieces.peek().is_some() {
            let mut room = fresh.len();
            let fitting = |piece: &Part| {
                let len = (piece.range.end - piece.range.start) as usize;
                let fits = len <= room;
                room -= if fits { len } else { 0 };
                fits
            };
            let stage = next_while(&mut pieces, fitting);
            self.update_stage(&mut twin, &stage, &mut fresh)?;
        }
        Ok(())
    }

    /// Brings pieces that together fit `fresh`.
    fn update_stage(&self, twin: &mut [u8], stage: &[Part], fresh: &mut [u8]) -> Result<()> {
        self.pool.batch(|batch| {
            let mut rest = &mut *fresh;
            stage.iter().try_for_each(|piece| {
                let (into, behind) = std::mem::take(&mut rest).split_at_mut((piece.range.end - piece.range.start) as usize);
                rest = behind;
                batch.get(&self.region, piece.range.start, into)
            })
        })?;
        let mut fresh = &*fresh;
        for piece in stage {
            // SAFETY: the lock is held, and the program does not store meanwhile (invariant 2).
            let copy = unsafe { self.copy(&piece.range) };
            let len = copy.len();
            merge(copy, &mut twin[piece.twin_at..][..len], split_off(&mut fresh, len));
        }
        Ok(())
    }
}

/// Whether a run joins the pattern: it must lie as far on in the twin as in the region.
fn goes_on(last: &mut Strided, last_at: usize, run: &Range<u64>, twin_at: usize) -> bool {
    run.start - last.offset == (twin_at - last_at) as u64 && extend(last, run)
}

/// Where each block of a pattern is in the twin, and in the region.
fn blocks(pattern: &Strided, twin_at: usize) -> impl Iterator<Item = (usize, u64)> + use<> {
    let Strided { offset, count, stride, .. } = *pattern;
    (0..count).map(move |k| (twin_at + (k * stride) as usize, offset + k * stride))
}

/// Cuts a part into pieces that fit a stage.
fn cut(part: Part) -> impl Iterator<Item = Part> {
    part.range.clone().step_by(STAGE_LEN).map(move |start| Part {
        range: start..part.range.end.min(start + STAGE_LEN as u64),
        twin_at: part.twin_at + (start - part.range.start) as usize,
    })
}

fn next_while<T>(items: &mut std::iter::Peekable<impl Iterator<Item = T>>, mut fits: impl FnMut(&T) -> bool) -> Vec<T> {
    std::iter::from_fn(|| items.next_if(&mut fits)).collect()
}

fn split_off<'a>(bytes: &mut &'a [u8], len: usize) -> &'a [u8] {
    let (front, behind) = bytes.split_at(len);
    *bytes = behind;
    front
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_longer_than_a_stage_is_cut_without_a_gap() {
        let part = Part { range: 100..100 + 2 * STAGE_LEN as u64 + 5, twin_at: 40 };
        let pieces: Vec<_> = cut(part).map(|piece| (piece.range, piece.twin_at)).collect();
        let stage = STAGE_LEN as u64;
        let borders = [100, 100 + stage, 100 + 2 * stage, 105 + 2 * stage];
        assert_eq!(
            pieces.iter().map(|piece| piece.0.clone()).collect::<Vec<_>>(),
            borders.windows(2).map(|b| b[0]..b[1]).collect::<Vec<_>>()
        );
        assert_eq!(pieces.iter().map(|piece| piece.1).collect::<Vec<_>>(), [40, 40 + STAGE_LEN, 40 + 2 * STAGE_LEN]);
    }

    #[test]
    fn a_pattern_does_not_cross_to_a_range_whose_twin_lies_elsewhere() {
        let mut pattern = Strided::contiguous(0, 8);
        assert!(!goes_on(&mut pattern, 0, &(8192..8200), 4096), "a mapped page lies between");
        assert!(goes_on(&mut pattern, 0, &(64..72), 64));
    }
}
