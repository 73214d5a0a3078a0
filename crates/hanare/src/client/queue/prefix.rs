//! Bytes that go before an append in its message, so that its units count only where the bytes are there.
//!
//! ```text
//! message:  put of the bytes | append of the units          the node does one after the other, or nothing of it
//! ```
//!
//! Safety: the bytes last as long as the append. They are its own, or belong to a call that waits for its end.

use crate::client::drafts::Drafts;
use crate::client::region::Region;
use crate::client::remote::Remote;
use hanare_memory::Window;
use hanare_protocol::Result;
use hanare_protocol::shape::Shape;
use hanare_protocol::wire::command::{Command, Op};
use std::borrow::Cow;
use std::sync::Arc;

/// Bytes that the queue's node puts into a region before it appends. A broken connection may repeat the put, which must do no harm.
pub(crate) struct BodyPrefix {
    region: Arc<Region>,
    at: u64,
    bytes: Window,
    _own: Cow<'static, [u8]>,
}

impl BodyPrefix {
    /// Bytes that go to `at` of the region.
    pub fn new(region: &Arc<Region>, at: u64, bytes: Cow<'static, [u8]>) -> BodyPrefix {
        // SAFETY: the bytes stay where they are while their owner, which is kept, moves. They are only read.
        let window = unsafe { Window::of(&bytes) };
        BodyPrefix { region: region.clone(), at, bytes: window, _own: bytes }
    }

    /// Bytes of a call that waits for the end of the append.
    ///
    /// # Safety
    /// The bytes stay as they are until then.
    pub(super) unsafe fn of_call(region: &Arc<Region>, at: u64, bytes: &[u8]) -> BodyPrefix {
        // SAFETY: as the caller promises.
        let window = unsafe { Window::of(bytes) };
        BodyPrefix { region: region.clone(), at, bytes: window, _own: Cow::Borrowed(&[]) }
    }

    /// True if they fit one message with an append at that node. A message is admitted whole or not at all.
    pub(super) fn fits(&self, node: &Arc<Remote>) -> bool {
        self.region.routes().extents().len() == 1 && Arc::ptr_eq(&self.region.extent_route(0).remote, node)
    }

    /// Its first byte in the region, and the bytes.
    pub(super) fn place(&self) -> (u64, Window) {
        (self.at, self.bytes)
    }

    pub(super) fn draft(&self, drafts: &mut Drafts<'_>) -> Result<()> {
        self.region.refresh_if_refused()?;
        let (route, shape) = (self.region.extent_route(0), Shape::contiguous(self.at, self.bytes.len() as u64));
        drafts.push_plain(&route, &Command::new(Op::Put, route.node, route.slot, route.grant, &shape), self.bytes);
        Ok(())
    }

    /// Puts them alone.
    pub(super) fn put(&self) -> Result<()> {
        // SAFETY: as for the window; nobody writes them.
        self.region.put(self.at, unsafe { std::slice::from_raw_parts(self.bytes.ptr(), self.bytes.len()) })
    }
}
