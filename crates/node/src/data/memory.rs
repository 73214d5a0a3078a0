//! The node's extents as its home reaches them.

use crate::extents::{Extents, Opened};
use crate::lost::lost_memory;
use crate::queues::SharedQueues;
use hanare_home::{Bytes, Memory, QueueArray};
use hanare_memory::vector;
use hanare_protocol::Result;
use hanare_protocol::id::{Gid, Grant, Rights, Slot};

impl Memory for Extents {
    type Extent = Opened;

    fn open(&self, slot: Slot, grant: Grant, need: Rights) -> Result<Opened> {
        Extents::open(self, slot, grant, need)
    }

    fn find(&self, gid: Gid, slot: Slot) -> Option<Opened> {
        Extents::find(self, gid, slot)
    }

    fn has(&self, gid: Gid, slot: Slot) -> bool {
        Extents::has(self, gid, slot)
    }
}

impl Bytes for Opened {
    type Queues = SharedQueues;

    fn gid(&self) -> Gid {
        self.held().gid()
    }

    fn slot(&self) -> Slot {
        Opened::slot(self)
    }

    fn len_bytes(&self) -> u64 {
        self.held().len()
    }

    fn is_by_pages(&self) -> bool {
        Opened::is_by_pages(self)
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        let reach = self.held().reach();
        reach.window().slice(offset as usize, into.len()).read_into(into).map_err(|lost| lost_memory(&lost))
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.held().will_write([(offset, bytes.len() as u64)]);
        let reach = self.held().reach();
        reach.window().slice(offset as usize, bytes.len()).write_from(bytes).map_err(|lost| lost_memory(&lost))
    }

    fn load_word(&self, offset: u64, len: u64) -> Result<u64> {
        let reach = self.held().reach();
        vector::load_word(reach.window(), offset, len).map_err(|lost| lost_memory(&lost))
    }

    fn begin_heap(&self) -> Result<()> {
        self.held().begin_heap()
    }

    fn with_queues<T>(&self, offset: u64, with: impl FnOnce(&mut QueueArray<'_, SharedQueues>) -> Result<T>) -> Result<T> {
        self.held().with_queues(offset, with)
    }
}
