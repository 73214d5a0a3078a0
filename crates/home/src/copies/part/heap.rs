//! The heap of a region, and the calls that were done: what goes on where the order of writes ends or begins.

use super::CopiedPart;
use crate::memory::Bytes;
use hanare_protocol::copies::DoneCalls;
use hanare_protocol::heap::Heap;

impl<E: Bytes, A: Copy> CopiedPart<E, A> {
    /// The heap of the region, if it has begun and lies here.
    pub fn heap(&self) -> Option<&Heap> {
        self.heap.as_ref()
    }

    /// The region's heap, and the calls that were done.
    pub fn take_memory(&mut self) -> (Option<Heap>, DoneCalls) {
        (self.heap.take(), std::mem::take(&mut self.done))
    }

    /// The same of a part before this one.
    pub fn bring_memory(&mut self, (heap, done): (Option<Heap>, DoneCalls)) {
        (self.heap, self.done) = (heap, done);
        self.note_heap();
    }

    /// The region had a heap before it had copies.
    pub fn bring_heap(&mut self, heap: Heap) {
        self.heap = Some(heap);
        self.note_heap();
    }

    /// A node that writes its extents down says where heaps begin. It may end before it hears that it is home.
    pub(super) fn note_heap(&self) {
        if self.heap.is_some() {
            let _ = self.extent.begin_heap();
        }
    }
}
