//! Makes messages of an incoming stream: where the next bytes go, head or the sink's windows.
//!
//! ```text
//!            32 bytes, decoded            window full, body not
//! between ---------------------> body ---------------------------+
//!    ^                            |  ^---- the sink's next window + (none while the sink says "not yet")
//!    +---- all of the body -------+
//! ```
//!
//! Input is never trusted: a head that does not decode and a body that the sink refuses end the link.

use crate::ending::Ending;
use crate::link::{Progress, Sink};
use hanare_memory::Window;
use hanare_memory::guard::copy;
use hanare_protocol::wire::head::{HEAD_LEN, Head};

/// The incoming stream's state.
pub(crate) enum Inbox {
    /// Between messages, or inside a head.
    Head {
        /// Bytes of it so far.
        bytes: [u8; HEAD_LEN],
        /// Their number.
        have: usize,
    },
    /// Inside a body.
    Body {
        /// Its message.
        head: Head,
        /// Bytes of the body that came before this window.
        at: u64,
        /// Window for the next bytes: `filled` of it are there, fewer than its length. Empty while the sink has no place yet.
        window: Window,
        /// Bytes in the window.
        filled: usize,
    },
}

impl Inbox {
    pub(crate) fn new() -> Inbox {
        Inbox::Head { bytes: [0; HEAD_LEN], have: 0 }
    }

    /// True if the next byte belongs to a head.
    pub(crate) fn is_between(&self) -> bool {
        matches!(self, Inbox::Head { .. })
    }

    /// True if the stream may end here.
    pub(crate) fn is_whole(&self) -> bool {
        matches!(self, Inbox::Head { have: 0, .. })
    }

    /// Asks the sink for another place where its last one is no longer good, or where it had none yet. Returns true if bytes of the body
    /// may be taken, or none are awaited. Nothing but the caller writes into the window.
    pub(crate) fn has_place(&mut self, sink: &mut dyn Sink) -> Result<bool, Ending> {
        if let Inbox::Body { at, window, filled, .. } = self
            && !window.is_empty()
            && !sink.keeps(*filled)
        {
            (*at, *window) = (*at + *filled as u64, Window::empty());
            *filled = 0;
        }
        self.find_place(sink)
    }

    fn find_place(&mut self, sink: &mut dyn Sink) -> Result<bool, Ending> {
        let Inbox::Body { head, at, window, .. } = self else { return Ok(true) };
        if window.is_empty() {
            *window = place(head, *at, sink)?;
        }
        Ok(!window.is_empty())
    }

    /// Window for the next body bytes, to be received straight into; [`Inbox::filled`] says how many came.
    pub(crate) fn rest(&self) -> Option<Window> {
        match self {
            Inbox::Head { .. } => None,
            Inbox::Body { window, filled, .. } => Some(window.slice(*filled, window.len() - filled)),
        }
    }

    /// True if the body goes on behind this window.
    pub(crate) fn has_windows_to_come(&self) -> bool {
        match self {
            Inbox::Head { .. } => false,
            Inbox::Body { head, at, window, .. } => *at + (window.len() as u64) < head.body_len,
        }
    }

    /// Bytes of the body that have not come.
    pub(crate) fn body_rest(&self) -> u64 {
        match self {
            Inbox::Head { .. } => 0,
            Inbox::Body { head, at, filled, .. } => head.body_len - at - *filled as u64,
        }
    }

    /// Counts `len` bytes that came straight into [`Inbox::rest`].
    pub(crate) fn filled(&mut self, len: usize, sink: &mut dyn Sink, done: &mut Progress) -> Result<(), Ending> {
        let Inbox::Body { window, filled, .. } = self else { unreachable!("bytes came straight into no window") };
        *filled += len;
        assert!(*filled <= window.len(), "more bytes came than the window has");
        if *filled == window.len() { self.next_window(sink, done) } else { Ok(()) }
    }

    /// Copies the bytes of `from` to where they belong, and returns the number of bytes used. That is all, unless the sink lets no message
    /// begin, or has no place yet.
    pub(crate) fn take(&mut self, from: Window, sink: &mut dyn Sink, done: &mut Progress) -> Result<usize, Ending> {
        let mut used = 0;
        while used < from.len() && self.find_place(sink)? {
            let left = from.len() - used;
            match self {
                Inbox::Head { bytes, have } => {
                    if !sink.may_begin() {
                        break;
                    }
                    let len = left.min(HEAD_LEN - *have);
                    from.slice(used, len).read_into(&mut bytes[*have..*have + len])?;
                    *have += len;
                    used += len;
                    if *have == HEAD_LEN {
                        let head = Head::decode(bytes)?;
                        self.begin(head, sink, done)?;
                    }
                }
                Inbox::Body { window, filled, .. } => {
                    let len = left.min(window.len() - *filled);
                    copy(from.slice(used, len), window.slice(*filled, len))?;
                    used += len;
                    self.filled(len, sink, done)?;
                }
            }
        }
        Ok(used)
    }

    fn begin(&mut self, head: Head, sink: &mut dyn Sink, done: &mut Progress) -> Result<(), Ending> {
        if head.body_len == 0 {
            return self.end(&head, sink, done);
        }
        *self = Inbox::Body { head, at: 0, window: place(&head, 0, sink)?, filled: 0 };
        Ok(())
    }

    /// The window is full: asks for the next, or ends the message.
    fn next_window(&mut self, sink: &mut dyn Sink, done: &mut Progress) -> Result<(), Ending> {
        let Inbox::Body { head, at, window, filled } = self else { unreachable!("no window outside a body") };
        *at += *filled as u64;
        if *at == head.body_len {
            let head = *head;
            return self.end(&head, sink, done);
        }
        *window = place(head, *at, sink)?;
        *filled = 0;
        Ok(())
    }

    fn end(&mut self, head: &Head, sink: &mut dyn Sink, done: &mut Progress) -> Result<(), Ending> {
        *self = Inbox::new();
        done.messages += 1;
        sink.message(head);
        Ok(())
    }
}

/// Asks the sink for a window and cuts it at the body's end.
fn place(head: &Head, at: u64, sink: &mut dyn Sink) -> Result<Window, Ending> {
    let window = sink.place(head, at).map_err(|refusal| Ending::Garbage(refusal.0))?;
    let rest = usize::try_from(head.body_len - at).unwrap_or(usize::MAX);
    Ok(window.slice(0, window.len().min(rest)))
}
