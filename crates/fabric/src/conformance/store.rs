//! A sink that keeps every message.

use crate::link::{Refusal, Sink};
use hanare_memory::Window;
use hanare_protocol::wire::head::Head;

/// Keeps heads and bodies; gives windows of at most `piece_len` bytes.
pub(crate) struct Store {
    pub(crate) messages: Vec<(Head, Vec<u8>)>,
    pub(crate) piece_len: usize,
    pub(crate) lets_begin: bool,
    /// How often it says "not yet" before it gives a place; counted down in `left`.
    pub(crate) not_yet: u32,
    pub(crate) left: u32,
    /// Whether it takes back the first window of each body, once some of its bytes have come.
    pub(crate) takes_back: bool,
    pub(crate) has_taken_back: bool,
    /// Bodies longer than this are refused.
    pub(crate) body_len_max: u64,
    pub(crate) body: Vec<u8>,
}

impl Store {
    pub(crate) fn new() -> Store {
        Store {
            messages: Vec::new(),
            piece_len: usize::MAX,
            lets_begin: true,
            not_yet: 0,
            left: 0,
            takes_back: false,
            has_taken_back: false,
            body_len_max: 256 << 20,
            body: Vec::new(),
        }
    }

    pub(crate) fn of_pieces(piece_len: usize) -> Store {
        Store { piece_len, ..Store::new() }
    }

    pub(crate) fn seqs(&self) -> Vec<u64> {
        self.messages.iter().map(|(head, _)| head.seq).collect()
    }
}

// SAFETY: the body's memory stays where it is from its first window until the message is complete; the store outlives
// the links of its test.
unsafe impl Sink for Store {
    fn place(&mut self, head: &Head, at: u64) -> Result<Window, Refusal> {
        if head.body_len > self.body_len_max {
            return Err(Refusal("a body too long for this store".into()));
        }
        if self.left > 0 {
            self.left -= 1;
            return Ok(Window::empty());
        }
        self.left = self.not_yet;
        self.has_taken_back &= at > 0;
        if at == 0 {
            self.body = vec![0; head.body_len as usize];
        }
        let at = at as usize;
        let len = self.piece_len.min(self.body.len() - at);
        // SAFETY: the body is kept, and not used until the message is complete.
        Ok(unsafe { Window::of_mut(&mut self.body) }.slice(at, len))
    }

    fn keeps(&mut self, filled: usize) -> bool {
        let takes_back = self.takes_back && filled > 0 && !self.has_taken_back;
        self.has_taken_back |= takes_back;
        !takes_back
    }

    fn message(&mut self, head: &Head) {
        self.messages.push((*head, std::mem::take(&mut self.body)));
    }

    fn may_begin(&self) -> bool {
        self.lets_begin
    }
}
