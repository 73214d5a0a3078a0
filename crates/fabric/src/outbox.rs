//! Unsent bytes of a link: heads and windows in order, with a position inside the first.

use hanare_memory::{Lost, Window, guard};
use hanare_protocol::wire::head::{HEAD_LEN, Head};
use std::collections::VecDeque;

/// Pieces that fit without growing: sixteen small messages of three windows.
const PIECE_COUNT: usize = 64;

/// A piece of the stream that leaves.
pub(crate) enum Piece {
    /// A head, kept here.
    Head([u8; HEAD_LEN]),
    /// Body bytes, where the sender has them.
    Body(Window),
}

impl Piece {
    fn len(&self) -> usize {
        match self {
            Piece::Head(_) => HEAD_LEN,
            Piece::Body(window) => window.len(),
        }
    }
}

/// The unsent part of the outgoing stream.
///
/// - `first_sent` is less than the first piece's length; no piece is empty.
/// - `owed` body bytes were promised by the last head and not given yet.
pub(crate) struct Outbox {
    pieces: VecDeque<Piece>,
    first_sent: usize,
    unsent_len: u64,
    owed: u64,
}

impl Outbox {
    pub(crate) fn new() -> Outbox {
        Outbox { pieces: VecDeque::with_capacity(PIECE_COUNT), first_sent: 0, unsent_len: 0, owed: 0 }
    }

    /// Appends a head and the first part of its body.
    pub(crate) fn begin(&mut self, head: &Head, body: &[Window]) {
        assert!(self.owed == 0, "a message was begun while {} bytes of the one before are missing", self.owed);
        self.pieces.push_back(Piece::Head(head.encode()));
        self.unsent_len += HEAD_LEN as u64;
        self.owed = head.body_len;
        self.extend(body);
    }

    /// Appends the next part of the body.
    pub(crate) fn extend(&mut self, body: &[Window]) {
        for window in body.iter().filter(|window| !window.is_empty()) {
            let len = window.len() as u64;
            assert!(len <= self.owed, "{len} bytes of body were given where {} are missing", self.owed);
            self.owed -= len;
            self.unsent_len += len;
            self.pieces.push_back(Piece::Body(*window));
        }
    }

    pub(crate) fn unsent_len(&self) -> u64 {
        self.unsent_len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// The unsent pieces in order, each with the bytes of it that are sent already.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = (&Piece, usize)> {
        let skips = std::iter::once(self.first_sent).chain(std::iter::repeat(0));
        self.pieces.iter().zip(skips)
    }

    /// Copies the first unsent bytes to `to`, which is no longer than they are.
    pub(crate) fn copy_to(&self, to: Window) -> Result<(), Lost> {
        let mut at = 0;
        for (piece, skip) in self.pieces() {
            let len = (piece.len() - skip).min(to.len() - at);
            if len == 0 {
                break;
            }
            match piece {
                Piece::Head(bytes) => to.slice(at, len).write_from(&bytes[skip..skip + len])?,
                Piece::Body(window) => guard::copy(window.slice(skip, len), to.slice(at, len))?,
            }
            at += len;
        }
        Ok(())
    }

    /// Takes note that the next `len` bytes are sent.
    pub(crate) fn sent(&mut self, mut len: usize) {
        self.unsent_len -= len as u64;
        while let Some(first) = self.pieces.front() {
            let rest = first.len() - self.first_sent;
            if len < rest {
                self.first_sent += len;
                return;
            }
            len -= rest;
            self.first_sent = 0;
            self.pieces.pop_front();
        }
        assert!(len == 0, "more was sent than there was");
    }

    /// Forgets everything: the link has ended.
    pub(crate) fn clear(&mut self) {
        self.pieces.clear();
        (self.first_sent, self.unsent_len, self.owed) = (0, 0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hanare_protocol::wire::head::Kind;
    use proptest::prelude::*;

    /// The stream that is left, byte for byte.
    fn stream(outbox: &Outbox) -> Vec<u8> {
        let mut bytes = vec![0; outbox.unsent_len() as usize];
        // SAFETY: the buffer outlives the call.
        outbox.copy_to(unsafe { Window::of_mut(&mut bytes) }).unwrap();
        bytes
    }

    proptest! {
        #[test]
        fn what_is_left_is_the_stream_after_what_was_sent(
            mut bodies in prop::collection::vec(prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 0..4), 0..6),
            cuts in prop::collection::vec(0..60usize, 0..12),
        ) {
            let mut outbox = Outbox::new();
            let mut whole = Vec::new();
            for (seq, body) in bodies.iter_mut().enumerate() {
                let body_len = body.iter().map(|part| part.len() as u64).sum();
                let head = Head { body_len, ..Head::new(Kind::Control, seq as u64) };
                whole.extend_from_slice(&head.encode());
                body.iter().for_each(|part| whole.extend_from_slice(part));
                // SAFETY: the bodies outlive the outbox's use of them and are only read.
                let windows: Vec<_> = body.iter_mut().map(|part| unsafe { Window::of_mut(part) }).collect();
                outbox.begin(&head, &windows);
            }
            for cut in cuts {
                let cut = cut.min(whole.len());
                whole.drain(..cut);
                outbox.sent(cut);
                prop_assert_eq!(stream(&outbox), whole.clone());
                prop_assert_eq!(outbox.unsent_len(), whole.len() as u64);
                prop_assert_eq!(outbox.is_empty(), whole.is_empty());
            }
        }
    }

    #[test]
    #[should_panic(expected = "bytes of the one before are missing")]
    fn a_message_inside_a_body_is_a_programmer_error() {
        let mut outbox = Outbox::new();
        outbox.begin(&Head { body_len: 1, ..Head::new(Kind::Control, 0) }, &[]);
        outbox.begin(&Head::new(Kind::Ping, 1), &[]);
    }

    #[test]
    #[should_panic(expected = "bytes of body were given")]
    fn more_body_than_promised_is_a_programmer_error() {
        let mut bytes = [0; 2];
        // SAFETY: the buffer outlives the call.
        let window = unsafe { Window::of_mut(&mut bytes) };
        Outbox::new().begin(&Head { body_len: 1, ..Head::new(Kind::Control, 0) }, &[window]);
    }
}
