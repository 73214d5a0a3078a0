//! Frames to other nodes. A frame of a long write shares the write's operand with the home. The home keeps it until all copies have it.

use hanare_protocol::limits::PAGE_LEN;
use hanare_protocol::wire::control::encode;
use hanare_protocol::wire::copies::{CopiedExtent, CopyFrame, ExtentWrite, ToCopy};
use std::sync::Arc;

/// A frame: bytes, and the operand of a write between the two parts of them, where it has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WireFrame {
    bytes: Vec<u8>,
    /// The place of the operand in the bytes, and the write.
    shared: Option<(usize, Arc<ExtentWrite>)>,
}

impl From<Vec<u8>> for WireFrame {
    fn from(bytes: Vec<u8>) -> WireFrame {
        WireFrame { bytes, shared: None }
    }
}

impl WireFrame {
    /// A home's message to a copy. **Cost**: a short operand is copied.
    pub fn to_copy(extent: CopiedExtent, message: ToCopy) -> WireFrame {
        match message {
            ToCopy::Write { term, position, stable, entry } if entry.operand.len() as u64 >= PAGE_LEN => {
                let (ranges, once, call) = (entry.ranges.clone(), entry.once, entry.call.clone());
                let short = ExtentWrite { op: entry.op, ranges, operand: Vec::new(), once, call };
                let message = ToCopy::Write { term, position, stable, entry: Arc::new(short) };
                WireFrame::around(encode(&CopyFrame::ToCopy(extent, message)), entry)
            }
            message => encode(&CopyFrame::ToCopy(extent, message)).into(),
        }
    }

    /// The frame of a write, from that of the same write with no operand. Behind an operand's length stands what [`ExtentWrite`] has behind it.
    fn around(mut bytes: Vec<u8>, entry: Arc<ExtentWrite>) -> WireFrame {
        let rest = encode(&(&entry.once, &entry.call));
        bytes.truncate(bytes.len() - rest.len() - encode(&0usize).len());
        bytes.extend(encode(&entry.operand.len()));
        let at = bytes.len();
        bytes.extend(rest);
        WireFrame { bytes, shared: Some((at, entry)) }
    }

    /// The frame's bytes, in three parts.
    pub fn parts(&self) -> [&[u8]; 3] {
        match &self.shared {
            Some((at, entry)) => [&self.bytes[..*at], &entry.operand, &self.bytes[*at..]],
            None => [&self.bytes, &[], &[]],
        }
    }

    /// Its length in bytes.
    pub fn len_bytes(&self) -> usize {
        self.parts().iter().map(|part| part.len()).sum()
    }

    /// The frame in one piece. **Cost**: an operand that is shared is copied.
    pub fn into_bytes(self) -> Vec<u8> {
        if self.shared.is_none() { self.bytes } else { self.parts().concat() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hanare_protocol::copies::{Once, Position, Term, UpdateCall};
    use hanare_protocol::id::Gid;
    use hanare_protocol::wire::copies::ExtentCall;

    #[test]
    fn a_frame_with_a_shared_operand_is_the_same_on_the_wire() {
        let extent = CopiedExtent { gid: Gid(7), index: 3 };
        let call = UpdateCall { client: 300, sequence: 2, number: 1000, is_repeat: false };
        let put = |len: usize| ExtentWrite::put(vec![(70_000, len as u64)], (0..len).map(|k| k as u8).collect());
        let lens = [0, 1, PAGE_LEN as usize - 1, PAGE_LEN as usize, 16_383, 16_384, 262_144];
        for write in lens.map(put) {
            for (once, call) in [(None, None), (Some(Once { call, at: 200 }), Some(ExtentCall::Store { is_last: true }))] {
                let entry = Arc::new(ExtentWrite { once, call, ..write.clone() });
                let message = ToCopy::Write { term: Term(1), position: Position(900), stable: Position(899), entry };
                let frame = WireFrame::to_copy(extent, message.clone());
                let is_long = write.operand.len() as u64 >= PAGE_LEN;
                assert_eq!(frame.shared.is_some(), is_long);
                let whole = encode(&CopyFrame::ToCopy(extent, message));
                assert_eq!((frame.len_bytes(), frame.into_bytes()), (whole.len(), whole));
            }
        }
    }
}
