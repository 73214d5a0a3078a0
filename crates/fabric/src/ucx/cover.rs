//! Sealed frames: nobody between the two sides reads or changes the stream's bytes.
//!
//! ```text
//! frame  =  [FrameHead]  [seal of: bytes that follow from a window, 4 bytes | bytes of the stream]
//! ```
//!
//! A frame's number goes into its seal, so a frame that is changed, moved or repeated does not open. Counters of a head are not sealed: a
//! forger of them can only end the link. Bytes from windows are not sealed, because a network card moves them. Where a connection has to
//! be sealed all bytes go in frames.

use super::frame::FRAME_LEN;
use crate::tcp::{SealKeys, TAG_LEN};

/// Bytes before those of the stream.
const PREFIX_LEN: usize = 4;

/// Bytes that a seal adds to a frame.
const SEAL_LEN: usize = PREFIX_LEN + TAG_LEN;

/// Seal of a link's frames.
#[derive(Clone)]
pub(super) struct FrameCover {
    keys: SealKeys,
    /// True if no byte goes from a window as it is.
    pub(super) is_whole: bool,
}

impl FrameCover {
    pub(super) fn new(keys: SealKeys, is_whole: bool) -> FrameCover {
        FrameCover { keys, is_whole }
    }

    /// Most bytes of the stream in a frame.
    pub(super) const ROOM: usize = FRAME_LEN - SEAL_LEN;

    /// Seals frame `seq`, whose [`FrameCover::place`] has `len` bytes. Returns the frame's length; `None` when all numbers are used.
    pub(super) fn seal(&self, seq: u64, direct_len: u32, (plain, len): (&mut [u8], usize), sealed: &mut [u8]) -> Option<usize> {
        plain.first_chunk_mut::<PREFIX_LEN>()?.copy_from_slice(&direct_len.to_le_bytes());
        self.keys.seal_frame(seq, &plain[..PREFIX_LEN + len], sealed).ok()
    }

    /// Part of a sealed buffer for the bytes of the stream.
    pub(super) fn place(plain: &mut [u8], len: usize) -> &mut [u8] {
        &mut plain[PREFIX_LEN..PREFIX_LEN + len]
    }

    /// Memory for the longest frame before it is sealed.
    pub(super) fn memory() -> Box<[u8]> {
        vec![0; PREFIX_LEN + FrameCover::ROOM].into_boxed_slice()
    }

    /// Opens frame `seq` into `plain`, if the peer sealed it with this `direct_len`. Returns the number of the stream's bytes in it, for
    /// [`FrameCover::opened`].
    pub(super) fn open(&self, seq: u64, direct_len: u32, sealed: &[u8], plain: &mut Vec<u8>) -> Option<usize> {
        if sealed.len() < SEAL_LEN || sealed.len() > FRAME_LEN || self.is_whole && direct_len > 0 {
            return None;
        }
        plain.resize(sealed.len(), 0);
        let len = self.keys.open_frame(seq, sealed, plain).ok()?;
        plain.truncate(len);
        plain.starts_with(&direct_len.to_le_bytes()).then_some(len - PREFIX_LEN)
    }

    /// The bytes of the stream in what was opened.
    pub(super) fn opened(plain: &[u8]) -> &[u8] {
        &plain[PREFIX_LEN..]
    }
}
