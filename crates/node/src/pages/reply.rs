//! The reply to a thread's page requests, as it leaves.

use super::SharedMemory;
use hanare_home::{PageBody, PageReply};
use hanare_memory::Window;
use hanare_protocol::limits::PAGE_LEN;

/// A reply as it leaves.
pub(crate) struct SealedReply {
    /// Number of records.
    pub count: usize,
    pub records: Vec<u8>,
    /// The pages, where they lie.
    pub pages: Vec<Window>,
    /// Keeps the bytes that the windows show.
    _reply: PageReply<SharedMemory>,
}

impl SealedReply {
    /// Ready to leave.
    pub fn new(reply: PageReply<SharedMemory>) -> SealedReply {
        let (mut records, mut pages) = (Vec::new(), Vec::new());
        for (granted, body) in reply.answers() {
            records.extend_from_slice(&granted.encode());
            match body {
                PageBody::None => {}
                PageBody::Here(view) => pages.push(view.window),
                // SAFETY: the copy's bytes stay where they are while the box moves, as long as this lives, and are only read.
                PageBody::Copy(copy) => pages.push(unsafe { Window::of(copy) }),
            }
        }
        let count = reply.answers().len();
        SealedReply { count, records, pages, _reply: reply }
    }

    /// Bytes of the pages.
    pub fn pages_len(&self) -> u64 {
        self.pages.len() as u64 * PAGE_LEN
    }
}
