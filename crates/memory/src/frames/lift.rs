//! Pages that are lifted out of a memory file: taken from all mappings with their bytes, by one shoot-down.
//!
//! A pipe gets a page itself, not a copy of it. So what is stored to the page until the file gives it up is among what the pipe brings, and
//! nobody has to be kept from storing before. In that way a page is taken by one call that shoots translations down; to protect, read and
//! punch it takes two.
//!
//! That holds where the file has usual pages: where the kernel has joined some to a larger one, it wipes the bytes of each that is punched.
//! [`PagePipe::open`] tries it. Where pages were joined since, [`Unlifted::Wiped`] says so: nobody takes the zeros for bytes.

use super::{Frames, Run};
use crate::file;
use hanare_protocol::limits::PAGE_LEN;
use rustix::fs::{SeekFrom, seek};
use rustix::io::{Errno, read};
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_getpipe_size, pipe_with, splice};
use std::cell::Cell;
use std::os::fd::OwnedFd;

/// A pipe that pages are lifted by, one run after another.
#[derive(Debug)]
pub struct PagePipe {
    out: OwnedFd,
    into: OwnedFd,
    /// As many pages as it holds.
    room: u64,
    /// Something of other pages may be in it: it is used no more.
    is_spoilt: Cell<bool>,
}

/// Why pages were not lifted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unlifted {
    /// They are as they were: protect, read and punch them.
    Untouched,
    /// They are gone, and so are their bytes.
    Wiped,
}

impl PagePipe {
    /// A pipe, if this kernel lifts pages by pipes.
    ///
    /// **Cost**: 50 us, and two descriptors.
    pub fn open() -> Option<PagePipe> {
        let (out, into) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).ok()?;
        let room = fcntl_getpipe_size(&into).ok()? as u64 / PAGE_LEN;
        let pipe = PagePipe { out, into, room, is_spoilt: Cell::new(false) };
        pipe.works().then_some(pipe)
    }

    /// Whether a store that comes after a page is in the pipe is among what the pipe brings.
    fn works(&self) -> bool {
        let (before, after) = ([1; PAGE_LEN as usize], [2; PAGE_LEN as usize]);
        let len = file::HUGE_PAGE_LEN / PAGE_LEN;
        // In the middle of what would be one page where the kernel makes larger ones.
        let run = Run { first: len / 2, count: 1 };
        let Ok(frames) = Frames::new("lifted", len) else { return false };
        let is_lent = frames.fill(run, &before).is_ok() && self.put(&frames, run).is_some();
        let is_stored = is_lent && frames.fill(run, &after).is_ok();
        is_stored && matches!(self.end(&frames, run), Ok(bytes) if bytes == after)
    }

    /// Takes pages away from all clients, with their bytes.
    ///
    /// Held: the pages, marked in their words, with no installer left. Publish afterwards, and only then send the bytes.
    /// **Cost**: 6 us for a page, and 22 us a run for the shoot-down where a thread of a client runs on another processor.
    pub fn lift(&self, frames: &Frames, run: Run) -> Result<Vec<u8>, Unlifted> {
        self.put(frames, run).ok_or(Unlifted::Untouched)?;
        self.end(frames, run)
    }

    /// Puts pages into the pipe, all or none.
    fn put(&self, frames: &Frames, run: Run) -> Option<()> {
        let len = run.len_bytes();
        let (mut from, mut done) = (frames.check(run, len), 0);
        if run.count > self.room || self.is_spoilt.get() {
            return None;
        }
        while done < len {
            match splice(&frames.file, Some(&mut from), &self.into, None, len - done, SpliceFlags::NONBLOCK) {
                Ok(count) if count > 0 => done += count,
                Err(Errno::INTR) => {}
                _ => {
                    let _ = self.bytes(done);
                    return None;
                }
            }
        }
        Some(())
    }

    /// Punches pages that are in the pipe, and reads them from there.
    fn end(&self, frames: &Frames, run: Run) -> Result<Vec<u8>, Unlifted> {
        let len = run.len_bytes();
        let at = frames.check(run, len);
        let punched = frames.punch(run);
        let bytes = self.bytes(len).ok_or(Unlifted::Wiped)?;
        punched.map_err(|_| Unlifted::Untouched)?;
        let is_blank = |page: &[u8]| page.iter().all(|byte| *byte == 0);
        // What is punched is still there where it is a part of a larger page.
        let is_there = || matches!(seek(&frames.file, SeekFrom::Data(at)), Ok(data) if data < at + len as u64);
        let is_wiped = bytes.chunks(PAGE_LEN as usize).any(is_blank) && is_there();
        if is_wiped { Err(Unlifted::Wiped) } else { Ok(bytes) }
    }

    /// What is in the pipe.
    fn bytes(&self, len: usize) -> Option<Vec<u8>> {
        let (mut bytes, mut have) = (vec![0; len], 0);
        while have < len {
            match read(&self.out, &mut bytes[have..]) {
                Ok(count) if count > 0 => have += count,
                Err(Errno::INTR) => {}
                _ => {
                    self.is_spoilt.set(true);
                    return None;
                }
            }
        }
        Some(bytes)
    }
}
