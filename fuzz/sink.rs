//! The sink of the targets that feed links: takes bodies up to a limit, in small windows.

use hanare_fabric::{Refusal, Sink};
use hanare_memory::Window;
use hanare_protocol::wire::head::Head;

/// Bodies longer than this are refused, so that a run measures the link and not the allocator.
const BODY_LEN_MAX: u64 = 64 << 10;

/// Keeps the body that arrives, and counts messages.
#[derive(Default)]
pub struct Body {
    bytes: Vec<u8>,
    /// Messages that came.
    pub count: usize,
}

// SAFETY: the bytes stay until the message is complete; targets keep the sink longer than the link.
unsafe impl Sink for Body {
    fn place(&mut self, head: &Head, at: u64) -> Result<Window, Refusal> {
        if head.body_len > BODY_LEN_MAX {
            return Err(Refusal("too long".into()));
        }
        if at == 0 {
            self.bytes = vec![0; head.body_len as usize];
        }
        let at = at as usize;
        let len = (self.bytes.len() - at).min(100);
        // SAFETY: the bytes are kept, and not used until the message is complete.
        Ok(unsafe { Window::of_mut(&mut self.bytes) }.slice(at, len))
    }

    fn message(&mut self, _: &Head) {
        self.count += 1;
    }
}
