//! Long messages between keepers travel in pieces, one after another: the next leaves when the one before has arrived.
//!
//! A snapshot of any length passes links in this way that take short messages. Messages behind it wait, but for those without an order.
//! A promise is not said, nor heard, while a long message is under way to that keeper: the engine says it again, and would answer it by
//! another long one.

use super::message::Said;
use crate::control_link::ControlLink;
use hanare_fabric::LinkError;
use hanare_protocol::limits::{KEEPER_MESSAGE_LEN_MAX, KEEPER_PIECE_LEN, KEEPER_WAITING_LEN_MAX};
use hanare_protocol::wire::control;
use std::collections::VecDeque;

/// A message on its way out, and those behind it.
#[derive(Debug, Default)]
pub(super) struct SentPieces {
    /// The pieces of the long message that are left.
    rest: VecDeque<Vec<u8>>,
    /// True while a piece is under way.
    is_busy: bool,
    behind: VecDeque<Vec<u8>>,
    behind_len: usize,
}

/// Why a link ends.
type Ending = String;

impl SentPieces {
    /// True while a long message is under way.
    pub fn is_busy(&self) -> bool {
        self.is_busy
    }

    /// The bytes to send now for a message, if any are. **Errors**: it is too long, or too much waits.
    pub fn send(&mut self, said: &Said) -> Result<Option<Vec<u8>>, Ending> {
        if self.is_busy && said.is_promise() {
            return Ok(None);
        }
        let bytes = control::encode(said);
        if self.is_busy && !said.may_overtake() {
            self.behind_len = self.behind_len.saturating_add(bytes.len());
            self.behind.push_back(bytes);
            // A single long message may wait, whatever its length.
            let is_much = self.behind_len > KEEPER_WAITING_LEN_MAX && self.behind.len() > 1;
            return if is_much { Err("it does not read its messages".to_owned()) } else { Ok(None) };
        }
        self.begin(bytes).map(Some)
    }

    /// Sends a message, or its first piece.
    fn begin(&mut self, bytes: Vec<u8>) -> Result<Vec<u8>, Ending> {
        if bytes.len() <= KEEPER_PIECE_LEN {
            return Ok(bytes);
        }
        if bytes.len() > KEEPER_MESSAGE_LEN_MAX {
            return Err(format!("a message of {} bytes is too long for keepers", bytes.len()));
        }
        self.rest = bytes.chunks(KEEPER_PIECE_LEN).map(<[u8]>::to_vec).collect();
        self.is_busy = true;
        Ok(self.next_piece().unwrap_or_default())
    }

    fn next_piece(&mut self) -> Option<Vec<u8>> {
        let bytes = self.rest.pop_front()?;
        Some(control::encode(&Said::Piece { bytes, is_last: self.rest.is_empty() }))
    }

    /// A piece has arrived. Returns what to send now. **Errors**: no piece was under way, or the next message is too long.
    pub fn on_more(&mut self) -> Result<Vec<Vec<u8>>, Ending> {
        if !self.is_busy {
            return Err("it says that a piece came, and there was none".to_owned());
        }
        if let Some(piece) = self.next_piece() {
            return Ok(vec![piece]);
        }
        self.is_busy = false;
        let mut now = Vec::new();
        while !self.is_busy {
            let Some(bytes) = self.behind.pop_front() else { break };
            self.behind_len = self.behind_len.saturating_sub(bytes.len());
            now.push(self.begin(bytes)?);
        }
        Ok(now)
    }
}

/// A message on its way in.
#[derive(Debug, Default)]
pub(super) struct ReceivedPieces(Vec<u8>);

impl ReceivedPieces {
    /// Takes a piece in. Returns the message, once it is whole. **Errors**: it is too long, or none.
    pub fn take(&mut self, bytes: &[u8], is_last: bool) -> Result<Option<Said>, Ending> {
        if self.0.len().saturating_add(bytes.len()) > KEEPER_MESSAGE_LEN_MAX {
            return Err("its message is too long".to_owned());
        }
        self.0.extend_from_slice(bytes);
        if !is_last {
            return Ok(None);
        }
        match control::decode(&std::mem::take(&mut self.0)) {
            Ok(Said::Piece { .. } | Said::More) => Err("a piece of pieces".to_owned()),
            Ok(said) => Ok(Some(said)),
            Err(malformed) => Err(malformed.0.to_owned()),
        }
    }
}

/// Sends what there is. **Errors**: the link's.
pub(super) fn send_all(link: &mut ControlLink, all: impl IntoIterator<Item = Vec<u8>>) -> Result<(), LinkError> {
    all.into_iter().try_for_each(|bytes| link.send_frame(bytes.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn long(len: usize) -> Said {
        Said::Refused("a".repeat(len))
    }

    /// Returns the messages that arrive, while the other side takes one piece after another.
    fn arrive(sender: &mut SentPieces, sent: &mut VecDeque<Vec<u8>>) -> Vec<Said> {
        let (mut receiver, mut all) = (ReceivedPieces::default(), Vec::new());
        while let Some(bytes) = sent.pop_front() {
            assert!(bytes.len() < KEEPER_PIECE_LEN + 100, "each is short");
            match control::decode(&bytes).unwrap() {
                Said::Piece { bytes, is_last } => {
                    all.extend(receiver.take(&bytes, is_last).unwrap());
                    sent.extend(sender.on_more().unwrap());
                }
                said => all.push(said),
            }
        }
        all
    }

    fn lens(all: &[Said]) -> Vec<usize> {
        all.iter().map(|said| if let Said::Refused(text) = said { text.len() } else { 0 }).collect()
    }

    #[test]
    fn long_messages_arrive_whole_and_in_order_with_those_behind_them() {
        let (mut sender, mut sent) = (SentPieces::default(), VecDeque::new());
        let lengths = [3, 5 * KEEPER_PIECE_LEN, 1, 2 * KEEPER_PIECE_LEN + 7, 2];
        for len in lengths {
            sent.extend(sender.send(&long(len)).unwrap());
        }
        assert_eq!((sent.len(), sender.is_busy()), (2, true));
        assert_eq!(lens(&arrive(&mut sender, &mut sent)), lengths);
        assert!(!sender.is_busy());
    }

    #[test]
    fn what_is_too_long_or_never_read_ends_the_link() {
        assert!(ReceivedPieces::default().take(&control::encode(&Said::More), true).is_err());
        assert!(SentPieces::default().on_more().is_err());
        let mut full = ReceivedPieces(vec![0; KEEPER_MESSAGE_LEN_MAX]);
        assert!(full.take(&[1], false).is_err());
        let mut sender = SentPieces::default();
        sender.send(&long(2 * KEEPER_PIECE_LEN)).unwrap();
        let half = KEEPER_WAITING_LEN_MAX / 2;
        assert_eq!(sender.send(&long(half)), Ok(None));
        assert!(sender.send(&long(half)).is_err());
    }
}
