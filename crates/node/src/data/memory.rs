//! The node's memory as its home reaches it: extents, and the pages of regions that hosts map.

use crate::extents::{Extents, Opened};
use crate::lost::lost_memory;
use crate::pages::SharedRegions;
use crate::queues::SharedQueues;
use hanare_home::{Asker, Bytes, Memory, Need, PageInput, QueueArray, Recall};
use hanare_memory::vector;
use hanare_protocol::Result;
use hanare_protocol::id::{Gid, Grant, Rights, Slot};
use hanare_protocol::page::Face;
use std::time::Duration;

/// Memory that the service lends its home for one input or output.
pub(crate) struct NodeMemory<'a> {
    pub extents: &'a Extents,
    pub pages: &'a mut SharedRegions,
    /// The time of the input or output.
    pub now: Duration,
}

impl Memory for NodeMemory<'_> {
    type Extent = Opened;

    fn open(&self, slot: Slot, grant: Grant, need: Rights) -> Result<Opened> {
        self.extents.open(slot, grant, need)
    }

    fn find(&self, gid: Gid, slot: Slot) -> Option<Opened> {
        self.extents.find(gid, slot)
    }

    fn has(&self, gid: Gid, slot: Slot) -> bool {
        self.extents.has(gid, slot)
    }

    fn is_coherent(&self, gid: Gid) -> bool {
        self.pages.is_coherent(gid)
    }

    fn recall(&mut self, need: Need) -> Result<Recall> {
        self.pages.recall(self.now, Asker::Word, need)
    }

    fn release(&mut self, face: Face) {
        self.pages.handle(self.now, PageInput::Release(face));
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
