//! Queues' words in the extents of this node, for [`hanare_home::QueueArrays`], which decides. Units that find no room go to [`Spill`]s.
//!
//! Safety: windows are of an extent that its `Held` keeps alive.

use super::spill::{Spill, Spills};
use hanare_home::{QueueMemory, QueueWords};
use hanare_memory::Window;
use hanare_protocol::id::Gid;
use hanare_protocol::queue::layout::{LINE_LEN, WORD_LEN};
use hanare_protocol::queue::{QueueForm, Ring};
use hanare_protocol::{Error, Result};
use hanare_ring::array::Array;
use hanare_ring::{Corrupt, Shared, Words, lane};
use std::sync::Arc;

/// An extent's bytes, where arrays of queues may begin.
pub(crate) struct ExtentQueues<'a> {
    pub gid: Gid,
    pub window: Window,
    pub spills: &'a Arc<Spills>,
}

impl QueueMemory for ExtentQueues<'_> {
    type Words = SharedQueues;

    fn len_bytes(&self) -> u64 {
        self.window.len() as u64
    }

    fn line(&self, at: u64) -> Result<[u8; LINE_LEN as usize]> {
        let mut line = [0; LINE_LEN as usize];
        let read = self.window.slice(at as usize, line.len()).read_into(&mut line);
        read.map_err(|lost| Error::System { what: "reading a queue".to_owned(), reason: format!("{lost:?}") })?;
        Ok(line)
    }

    fn words(&self, (at, len): (u64, u64), form: QueueForm, count: u64) -> SharedQueues {
        let words = Shared::new(self.window.slice(at as usize, len as usize));
        SharedQueues { array: Array::new(words, form, count), gid: self.gid, at, spills: self.spills.clone() }
    }
}

/// The words of an array of queues, which programs of this host use at the same time.
pub(crate) struct SharedQueues {
    array: Array<Shared>,
    gid: Gid,
    at: u64,
    spills: Arc<Spills>,
}

impl SharedQueues {
    fn corrupt(&self, bad: Corrupt) -> Error {
        corrupt(self.gid, self.at, bad)
    }
}

impl QueueWords for SharedQueues {
    type Store = Spill;
    type Lane = QueueLaneMemory;

    fn queue_at(&self, queue: u64) -> u64 {
        self.array.queue_at(queue)
    }

    fn load(&self, at: u64) -> u64 {
        self.array.words().load((at / WORD_LEN) as usize)
    }

    fn store(&self, at: u64, value: u64) {
        self.array.words().store((at / WORD_LEN) as usize, value);
    }

    fn swap(&self, at: u64, value: u64) -> u64 {
        self.array.words().swap((at / WORD_LEN) as usize, value)
    }

    fn lane(&self, queue: u64, lane: u32) -> Result<QueueLaneMemory> {
        let writer = lane::Writer::new(*self.array.words(), self.array.place(queue, lane)).map_err(|bad| self.corrupt(bad))?;
        Ok(QueueLaneMemory { writer, gid: self.gid, at: self.at })
    }

    fn free_to(&self, queue: u64, lane: u32, head: u64) -> Result<()> {
        let reading = lane::Reader::new(*self.array.words(), self.array.place(queue, lane));
        reading.and_then(|mut reading| reading.free_to(head)).map_err(|bad| self.corrupt(bad))
    }

    fn tell_news(&self, queue: u64) {
        self.array.tell_news(queue);
    }

    fn settle_tail(&self, queue: u64, lane: u32) {
        self.array.place(queue, lane).settle_tail(self.array.words());
    }

    fn put_on_board(&self, queue: u64) {
        self.array.board().set(queue);
    }

    fn take_from_board(&self, most: usize) -> Vec<u64> {
        let mut ready = Vec::with_capacity(most);
        self.array.board().take(most, &mut ready);
        ready
    }

    fn tell_reader(&self, queue: u64) {
        let _ = self.array.tell_reader(queue);
    }

    fn tell_writers(&self, queue: u64) {
        let _ = self.array.tell_writers(queue);
    }

    fn call_set(&self, queue: u64) {
        let _ = self.array.wake(queue, self.array.call_set(queue));
    }

    fn hand_over(&self, queue: u64) {
        self.array.hand_over(queue);
    }

    fn spill(&self) -> Spill {
        Spill::new(self.spills.clone())
    }
}

fn corrupt(gid: Gid, at: u64, bad: Corrupt) -> Error {
    Error::NoQueue { region: gid.to_string(), offset: at, reason: bad.to_string() }
}

/// A lane, as its home appends to it.
pub(crate) struct QueueLaneMemory {
    writer: lane::Writer<Shared>,
    gid: Gid,
    at: u64,
}

impl Ring for QueueLaneMemory {
    fn push(&mut self, unit: &[u8]) -> Result<bool> {
        self.writer.push(unit).map_err(|bad| corrupt(self.gid, self.at, bad))
    }
}

#[cfg(test)]
mod tests;
