//! An extent's bytes at one moment, read while commands go on changing them.
//!
//! From the moment on, whoever is about to change bytes that were not read yet has them copied first. Commands of the node do. Nobody hears
//! of what programs store to a mapping, or put to memory of their own host that they reach as it is.

use hanare_memory::Window;
use std::collections::BTreeMap;
use std::io::{Error, Result};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes that are copied together: a short put has some 5 us more.
const PART_LEN: u64 = 64 << 10;

/// Most bytes that are kept of an extent which is changed faster than it is read. Bytes beyond are read as they are.
const KEPT_BYTES: usize = 256 << 20;

/// The moment, and the bytes that have changed since.
#[derive(Default)]
pub(super) struct Image {
    is_taken: AtomicBool,
    state: Mutex<ImageParts>,
}

#[derive(Default)]
struct ImageParts {
    /// True for each part that was read, or copied.
    settled: Vec<bool>,
    /// Copied bytes of parts that were not read.
    kept: BTreeMap<u64, Vec<u8>>,
    kept_len: usize,
    /// A part was changed that could not be copied.
    is_mixed: bool,
}

impl Image {
    fn state(&self) -> MutexGuard<'_, ImageParts> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The moment is now, for an extent of that length.
    pub fn begin(&self, len: u64) {
        *self.state() = ImageParts { settled: vec![false; len.div_ceil(PART_LEN) as usize], ..ImageParts::default() };
        // ORDERING: who changes bytes from now on sees this by the lock of the table of extents, behind which both are ordered.
        self.is_taken.store(true, Ordering::Relaxed);
    }

    /// All of it was read. Says whether all bytes were those of the moment.
    pub fn end(&self) -> bool {
        self.is_taken.store(false, Ordering::Relaxed);
        !std::mem::take(&mut *self.state()).is_mixed
    }

    /// Bytes of the memory are about to change.
    ///
    /// **Cost**: one load while no image is taken. Else a copy of each part that is changed for the first time.
    #[inline]
    pub fn will_write(&self, memory: Window, ranges: impl IntoIterator<Item = (u64, u64)>) {
        if self.is_taken.load(Ordering::Relaxed) {
            self.keep(memory, ranges);
        }
    }

    #[cold]
    fn keep(&self, memory: Window, ranges: impl IntoIterator<Item = (u64, u64)>) {
        let mut parts = self.state();
        for (offset, len) in ranges.into_iter().filter(|(_, len)| *len > 0) {
            for part in offset / PART_LEN..=(offset + len - 1) / PART_LEN {
                parts.keep(memory, part);
            }
        }
    }

    /// Reads bytes as they were at the moment, in order: each is read once.
    pub fn read(&self, memory: Window, offset: u64, into: &mut [u8]) -> Result<()> {
        let mut parts = self.state();
        let mut done = 0;
        while done < into.len() {
            let at = offset + done as u64;
            let (part, skip) = (at / PART_LEN, (at % PART_LEN) as usize);
            let len = (PART_LEN as usize - skip).min(into.len() - done);
            parts.read(memory, (part, skip), &mut into[done..done + len])?;
            done += len;
        }
        Ok(())
    }
}

impl ImageParts {
    fn keep(&mut self, memory: Window, part: u64) {
        let Some(settled) = self.settled.get_mut(part as usize) else { return };
        if std::mem::replace(settled, true) {
            return;
        }
        let begin = (part * PART_LEN) as usize;
        let mut bytes = vec![0; (memory.len() - begin).min(PART_LEN as usize)];
        if self.kept_len + bytes.len() > KEPT_BYTES || memory.slice(begin, bytes.len()).read_into(&mut bytes).is_err() {
            self.is_mixed = true;
            return;
        }
        self.kept_len += bytes.len();
        self.kept.insert(part, bytes);
    }

    fn read(&mut self, memory: Window, (part, skip): (u64, usize), into: &mut [u8]) -> Result<()> {
        if let Some(kept) = self.kept.get(&part) {
            into.copy_from_slice(&kept[skip..skip + into.len()]);
            if skip + into.len() == kept.len() {
                let kept = self.kept.remove(&part).map_or(0, |kept| kept.len());
                self.kept_len -= kept;
            }
            return Ok(());
        }
        if let Some(settled) = self.settled.get_mut(part as usize) {
            *settled = true;
        }
        let at = part as usize * PART_LEN as usize + skip;
        memory
            .slice(at, into.len())
            .read_into(into)
            .map_err(|_| Error::other("the system could not supply a page of the node's memory"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEN: usize = 3 * PART_LEN as usize + 100;

    #[test]
    fn bytes_are_those_of_the_moment_whatever_is_written_meanwhile() {
        let mut bytes = vec![1_u8; LEN];
        // SAFETY: nobody uses the buffer but through copies of this window, which the test ends with.
        let memory = unsafe { Window::of_mut(&mut bytes) };
        let image = Image::default();
        let write = |offset: u64, len: usize, value: u8| {
            image.will_write(memory, [(offset, len as u64)]);
            memory.slice(offset as usize, len).write_from(&vec![value; len]).unwrap();
        };
        write(0, 10, 2);
        image.begin(LEN as u64);
        let mut read = vec![0; LEN];
        let half = PART_LEN as usize * 3 / 2;
        write(PART_LEN - 1, 2, 9);
        image.read(memory, 0, &mut read[..PART_LEN as usize]).unwrap();
        write(5, 1, 9);
        image.read(memory, PART_LEN, &mut read[PART_LEN as usize..half]).unwrap();
        write(0, LEN, 9);
        image.read(memory, half as u64, &mut read[half..]).unwrap();
        assert!(read[..10] == [2; 10] && read[10..].iter().all(|byte| *byte == 1));
        assert!(image.state().kept.is_empty() && image.state().kept_len == 0);
        assert!(image.end());
        write(0, LEN, 3);
        assert!(image.state().kept.is_empty());
    }
}
