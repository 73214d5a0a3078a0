//! Frames with bytes of a copy that is made, written and read without a copy of the bytes. Most bytes between homes and copies are such frames.

use super::control::encode;
use super::copies::CopiedExtent;
use crate::copies::Term;

/// The numbers of [`CopyFrame::ToCopy`](super::copies::CopyFrame::ToCopy) and [`ToCopy::Range`](super::copies::ToCopy::Range) on the wire.
const RANGE: (u32, u32) = (0, 3);

/// A frame with a [`ToCopy::Range`](super::copies::ToCopy::Range), whose bytes stay where they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeFrame<'f> {
    /// The extent.
    pub extent: CopiedExtent,
    /// The home's term.
    pub term: Term,
    /// Number of the range.
    pub range: u64,
    /// The bytes.
    pub bytes: &'f [u8],
}

impl RangeFrame<'_> {
    /// The frame of such a message. `read` reads the range's `len` bytes to their place in it.
    ///
    /// **Cost**: the bytes are not copied. **Errors**: those of `read`.
    pub fn write<E>(
        (extent, term, range): (CopiedExtent, Term, u64),
        len: usize,
        read: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<Vec<u8>, E> {
        let front = [encode(&(RANGE.0, extent, RANGE.1, term, range)), encode(&len)].concat();
        let begin = front.len();
        let mut frame = Vec::with_capacity(begin.saturating_add(len));
        frame.extend_from_slice(&front);
        frame.resize(begin.saturating_add(len), 0);
        read(&mut frame[begin..])?;
        Ok(frame)
    }
}

impl<'f> RangeFrame<'f> {
    /// Reads a frame. `None` for any other one, and for what is none.
    ///
    /// **Cost**: the bytes are not copied.
    pub fn read(frame: &'f [u8]) -> Option<RangeFrame<'f>> {
        let ((to_copy, extent, kind, term, range), rest) = postcard::take_from_bytes(frame).ok()?;
        let (bytes, rest) = postcard::take_from_bytes(rest).ok()?;
        ((to_copy, kind) == RANGE && rest.is_empty()).then_some(RangeFrame { extent, term, range, bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::copies::Position;
    use crate::id::Gid;
    use crate::wire::copies::{CopyFrame, FromCopy, ToCopy};

    #[test]
    fn the_frame_of_a_range_is_that_message_and_is_read_where_it_lies() {
        let (extent, term, bytes) = (CopiedExtent { gid: Gid(700), index: 3 }, Term(9), vec![7; 100_000]);
        let message = ToCopy::Range { term, range: 1 << 40, bytes: bytes.clone() };
        let frame = RangeFrame::write((extent, term, 1 << 40), bytes.len(), |into| {
            into.copy_from_slice(&bytes);
            Ok::<(), ()>(())
        });
        let frame = frame.unwrap();
        assert_eq!(frame, encode(&CopyFrame::ToCopy(extent, message)));
        assert_eq!(RangeFrame::read(&frame), Some(RangeFrame { extent, term, range: 1 << 40, bytes: &bytes }));
        assert_eq!(RangeFrame::read(&frame[..frame.len() - 1]), None);
        assert_eq!(RangeFrame::read(&[&frame[..], &[0]].concat()), None);
        for message in [ToCopy::Ask { term }, ToCopy::Make { term, at: Position(0) }] {
            assert_eq!(RangeFrame::read(&encode(&CopyFrame::ToCopy(extent, message))), None);
        }
        assert_eq!(RangeFrame::read(&encode(&CopyFrame::FromCopy(extent, FromCopy::Stale { term }))), None);
        assert_eq!(RangeFrame::write((extent, term, 0), 1, |_| Err("unread")), Err("unread"));
    }
}
