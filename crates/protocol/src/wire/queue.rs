//! Messages between the ports of queues and the node that holds them: requests, and appends.
//!
//! An append is a command whose operand is
//!
//! ```text
//! queue | writer | number of the first unit | blocks one after another, or records: a length word each, and bytes up to a word's border
//! ```
//!
//! and whose result is that of [`encode_appended`]. Numbers are 64-bit words.

use super::Malformed;
use crate::id::{ClientId, Grant, Slot};
use crate::limits::{QUEUE_APPEND_LEN_MAX, QUEUE_GONE_COUNT_MAX};
use crate::queue::layout::WORD_LEN;
use crate::queue::{Appended, NoSpill, PortId, QueueForm, Unit};
use serde::{Deserialize, Serialize};

/// Bytes before the units of an append.
pub const APPEND_FRONT_LEN: usize = 24;
/// Bytes of its result.
pub const APPENDED_LEN: u64 = 48;

/// An array of queues, as its node finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArrayAt {
    /// The extent's slot.
    pub slot: Slot,
    /// The right to write it.
    pub grant: Grant,
    /// The array's first byte in the extent.
    pub offset: u64,
}

/// A port's request to its queue's node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum QueueRequest {
    /// A writer comes; answered by its lane.
    OpenLane {
        /// The queue.
        queue: u64,
        /// The writer.
        writer: u64,
    },
    /// A writer goes on in its lane over another connection; answered by its lane.
    ResumeLane {
        /// The queue.
        queue: u64,
        /// Its lane.
        lane: u32,
        /// The writer.
        writer: u64,
    },
    /// A writer leaves.
    CloseLane {
        /// The queue.
        queue: u64,
        /// Its lane.
        lane: u32,
        /// The writer.
        writer: u64,
    },
    /// A reader comes.
    OpenReader {
        /// The first of its queues.
        first: u64,
        /// Number of queues that it reads.
        count: u64,
        /// The reader.
        reader: u64,
    },
    /// A reader leaves.
    CloseReader {
        /// The first of its queues.
        first: u64,
        /// The reader.
        reader: u64,
    },
    /// The reader has freed a lane up to there: writers are woken, and spilled units come back.
    Free {
        /// The queue.
        queue: u64,
        /// The lane.
        lane: u32,
        /// The reader.
        reader: u64,
        /// The lane's head.
        head: u64,
    },
    /// The reader of all queues leaves one to the board, whether or not it has something.
    Leave {
        /// The queue.
        queue: u64,
        /// The reader.
        reader: u64,
    },
    /// The reader of all queues takes from the board those that have something; answered by their numbers.
    TakeReady {
        /// The reader.
        reader: u64,
    },
    /// The reader was told of a writer's death.
    Tell {
        /// The queue.
        queue: u64,
        /// The lane.
        lane: u32,
        /// The reader.
        reader: u64,
    },
}

impl QueueRequest {
    /// The port that asks, with its queue, or one of them.
    pub fn port(&self) -> (u64, PortId) {
        let (queue, port) = match *self {
            QueueRequest::OpenLane { queue, writer }
            | QueueRequest::ResumeLane { queue, writer, .. }
            | QueueRequest::CloseLane { queue, writer, .. } => (queue, writer),
            QueueRequest::OpenReader { first, reader, .. } | QueueRequest::CloseReader { first, reader } => (first, reader),
            QueueRequest::Free { queue, reader, .. }
            | QueueRequest::Leave { queue, reader }
            | QueueRequest::Tell { queue, reader, .. } => (queue, reader),
            QueueRequest::TakeReady { reader } => (0, reader),
        };
        (queue, PortId(port))
    }

    /// True if the port comes.
    pub fn opens(&self) -> bool {
        matches!(self, QueueRequest::OpenLane { .. } | QueueRequest::ResumeLane { .. } | QueueRequest::OpenReader { .. })
    }

    /// True if the port leaves.
    pub fn closes(&self) -> bool {
        matches!(self, QueueRequest::CloseLane { .. } | QueueRequest::CloseReader { .. })
    }
}

/// A call on an array of queues that all holders of its extent carry out, where that has copies.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct QueueCall {
    /// The array's first byte in the extent.
    pub offset: u64,
    /// The call.
    pub what: QueueChange,
}

/// The change of an array of queues by a call.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum QueueChange {
    /// A port's request.
    Port {
        /// The request.
        request: QueueRequest,
        /// The program's user.
        uid: u32,
        /// The program.
        client: ClientId,
    },
    /// Units for a lane.
    Append {
        /// The lane.
        lane: u32,
        /// The operand of the command.
        #[serde(with = "crate::packed_bytes")]
        operand: Vec<u8>,
    },
    /// Programs of these ports are gone: each with its queue, or one of them.
    Gone {
        /// The ports.
        ports: Vec<(u64, PortId)>,
    },
}

impl QueueCall {
    /// Refuses a call that no home sends to copies of an extent of that length. **Errors**: [`Malformed`], with the reason.
    pub fn check(&self, extent_len: u64) -> Result<(), Malformed> {
        if self.offset >= extent_len {
            return Err(Malformed("a call on queues beyond their extent"));
        }
        match &self.what {
            QueueChange::Append { operand, .. } if operand.len() as u64 > QUEUE_APPEND_LEN_MAX => {
                Err(Malformed("a longer append than any command"))
            }
            QueueChange::Gone { ports } if ports.len() > QUEUE_GONE_COUNT_MAX => Err(Malformed("more ports than go in one call")),
            _ => Ok(()),
        }
    }

    /// Bytes of memory that it takes beside its own.
    pub fn memory_len(&self) -> u64 {
        match &self.what {
            QueueChange::Append { operand, .. } => operand.len() as u64,
            QueueChange::Gone { ports } => size_of_val(&ports[..]) as u64,
            QueueChange::Port { .. } => 0,
        }
    }
}

/// An append without its units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AppendFront {
    /// The queue.
    pub queue: u64,
    /// The appending port.
    pub writer: PortId,
    /// The number of its first unit.
    pub seq: u64,
}

impl AppendFront {
    /// The bytes to send.
    pub fn encode(&self) -> [u8; APPEND_FRONT_LEN] {
        words([self.queue, self.writer.0, self.seq])
    }

    /// Reads it, and what follows.
    pub fn decode(bytes: &[u8]) -> Result<(AppendFront, &[u8]), Malformed> {
        let (front, units) = bytes.split_first_chunk::<APPEND_FRONT_LEN>().ok_or(Malformed("an append without its numbers"))?;
        let [queue, writer, seq] = numbers(front);
        Ok((AppendFront { queue, writer: PortId(writer), seq }, units))
    }
}

/// The units of an append, each of a length that the form allows. Refused as a whole before the first is taken.
pub fn units<'u>(mut bytes: &'u [u8], form: &QueueForm) -> Result<Vec<&'u [u8]>, Malformed> {
    let mut units = Vec::new();
    while !bytes.is_empty() {
        let len = match form.unit {
            Unit::Blocks { len } => u64::from(len),
            Unit::Records { .. } => {
                let (word, rest) = bytes.split_first_chunk::<8>().ok_or(Malformed("a record without a length"))?;
                bytes = rest;
                u64::from_le_bytes(*word)
            }
        };
        let frame =
            len.checked_next_multiple_of(WORD_LEN).filter(|frame| len <= form.unit_len_max() && *frame <= bytes.len() as u64);
        let frame = frame.ok_or(Malformed("a unit that leaves its append"))?;
        let (unit, rest) = bytes.split_at(frame as usize);
        units.push(unit.get(..len as usize).ok_or(Malformed("a unit that leaves its append"))?);
        bytes = rest;
    }
    Ok(units)
}

/// The result of an append, and the lane's head after it. So each answer tells of room that the reader has given back.
pub fn encode_appended(appended: &Appended, head: u64) -> [u8; APPENDED_LEN as usize] {
    let (refused, used, limit) = match appended.refused {
        None => (0, 0, 0),
        Some(NoSpill::PoolFull) => (1, 0, 0),
        Some(NoSpill::OverQuota { used, limit }) => (2, used, limit),
        Some(NoSpill::NotYet) => (3, 0, 0),
    };
    words([appended.accepted, appended.spilled, refused, used, limit, head])
}

/// Reads the result of an append.
pub fn decode_appended(bytes: &[u8; APPENDED_LEN as usize]) -> (Appended, u64) {
    let [accepted, spilled, refused, used, limit, head] = numbers(bytes);
    let refused = match refused {
        0 => None,
        2 => Some(NoSpill::OverQuota { used, limit }),
        3 => Some(NoSpill::NotYet),
        _ => Some(NoSpill::PoolFull),
    };
    (Appended { accepted, spilled, refused }, head)
}

fn words<const COUNT: usize, const LEN: usize>(words: [u64; COUNT]) -> [u8; LEN] {
    const { assert!(COUNT * 8 == LEN) };
    let mut bytes = [0; LEN];
    bytes.as_chunks_mut::<8>().0.iter_mut().zip(words).for_each(|(bytes, word)| *bytes = word.to_le_bytes());
    bytes
}

fn numbers<const COUNT: usize, const LEN: usize>(bytes: &[u8; LEN]) -> [u64; COUNT] {
    const { assert!(COUNT * 8 == LEN) };
    let mut words = [0; COUNT];
    bytes.as_chunks::<8>().0.iter().zip(&mut words).for_each(|(bytes, word)| *word = u64::from_le_bytes(*bytes));
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::Overflow;
    use proptest::prelude::*;

    fn form(unit: Unit) -> QueueForm {
        QueueForm { unit, depth: 4, ports: 1, overflow: Overflow::Wait }
    }

    /// Adds a unit to those of an append.
    fn push_unit(units: &mut Vec<u8>, form: &QueueForm, unit: &[u8]) {
        if let Unit::Records { .. } = form.unit {
            units.extend_from_slice(&(unit.len() as u64).to_le_bytes());
        }
        units.extend_from_slice(unit);
        units.resize(units.len().next_multiple_of(WORD_LEN as usize), 0);
    }

    proptest! {
        #[test]
        fn units_survive_the_wire(lens in prop::collection::vec(0usize..40, 0..20), is_blocks: bool) {
            let form = form(if is_blocks { Unit::Blocks { len: 20 } } else { Unit::Records { len_max: 40 } });
            let sent: Vec<Vec<u8>> = lens.iter().map(|len| vec![*len as u8; if is_blocks { 20 } else { *len }]).collect();
            let mut bytes = Vec::new();
            sent.iter().for_each(|unit| push_unit(&mut bytes, &form, unit));
            prop_assert_eq!(units(&bytes, &form).unwrap(), sent.iter().map(Vec::as_slice).collect::<Vec<_>>());
        }

        #[test]
        fn any_bytes_are_units_or_refused(bytes: Vec<u8>, small: bool, is_blocks: bool) {
            let bytes: Vec<u8> = bytes.iter().enumerate().map(|(k, byte)| if small && k % 8 > 0 { 0 } else { *byte }).collect();
            let form = form(if is_blocks { Unit::Blocks { len: 20 } } else { Unit::Records { len_max: 40 } });
            let _ = AppendFront::decode(&bytes);
            for unit in units(&bytes, &form).unwrap_or_default() {
                prop_assert!(form.check_unit("q", unit.len() as u64).is_ok());
            }
        }
    }

    #[test]
    fn numbers_survive_the_wire() {
        let front = AppendFront { queue: 1, writer: PortId(u64::MAX), seq: 3 };
        assert_eq!(AppendFront::decode(&[&front.encode()[..], b"rest"].concat()), Ok((front, &b"rest"[..])));
        let over = NoSpill::OverQuota { used: 5, limit: u64::MAX };
        for refused in [None, Some(NoSpill::PoolFull), Some(over), Some(NoSpill::NotYet)] {
            let appended = Appended { accepted: 7, spilled: 1 << 40, refused };
            assert_eq!(decode_appended(&encode_appended(&appended, 3 << 50)), (appended, 3 << 50));
        }
    }
}
