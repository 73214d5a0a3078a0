//! Messages of a program with large memory in the pool to its keeper (`hanare run --main-memory`), over a local socket of packets.
//!
//! ```text
//! program: Hello (its userfaultfd, a socket of its hand) -> keeper: an id
//! program: Reserve -> keeper: whether the pool has room for what the program may write; Return gives room back
//! program: Free  -> keeper: holds the blocks; program: gives the pages back, Freed -> keeper: they are zero
//! program: MayFork -> keeper: whether there is room for a child's copy
//! program: Fork (over a further socket, which the child inherits) -> keeper: a ticket, and nothing moves; the kernel copies
//! parent:  Forked; child: Child with the ticket, Hello, over a socket of its own; then it closes the inherited one
//! keeper:  Zaps in one packet (to the hand) -> hand: the pages are out of the program
//! ```

use super::Malformed;

/// Bytes of a block, the unit of eviction. Shorter allocations do not lie in the pool. With 64 pages a shoot-down (22 us where measured)
/// costs less than copying them. One word says which of them are here.
pub const BLOCK_LEN: u64 = 64 * crate::limits::PAGE_LEN;

/// Bytes of a call.
pub const CALL_LEN: usize = 24;

/// Bytes of an answer.
pub const ANSWER_LEN: usize = 8;

/// The answer that refuses.
pub const REFUSED: u64 = u64::MAX;

/// The variable that names the keeper's socket.
pub const VARIABLE: &str = "HANARE_MAIN_MEMORY";

/// A call of a program, or of its keeper to the program's hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Its arena begins and is so long; with two descriptors. Answered by the program's id.
    Hello {
        /// First byte.
        start: u64,
        /// Length in bytes, whole blocks.
        len: u64,
    },
    /// The program with this id is about to fork. Answered by a ticket when nothing moves; it is good while the connection is there.
    Fork {
        /// The parent's id.
        parent: u64,
    },
    /// A child of a fork begins, with this ticket; its Hello follows. No answer.
    Child {
        /// Ticket that its parent got.
        ticket: u64,
    },
    /// The parent of a fork goes on. No answer.
    Forked,
    /// These pages will be zero. Answered when nobody works on their blocks.
    Free {
        /// First byte, on a page's boundary.
        start: u64,
        /// Length in bytes, whole pages.
        len: u64,
    },
    /// The pages of the last Free are out of the program. No answer.
    Freed,
    /// To the hand: take these pages out of the program. Several may be in one packet, which is answered when all is done.
    Zap {
        /// First byte.
        start: u64,
        /// Length in bytes.
        len: u64,
    },
    /// The program may write further blocks from here on. Answered by 0, or [`REFUSED`] where the pool has no room for them.
    Reserve {
        /// Count of blocks.
        blocks: u64,
    },
    /// The program gives reserved blocks back. No answer.
    Return {
        /// Count of blocks.
        blocks: u64,
    },
    /// The program wants to fork: a Fork follows. Answered as a [`Call::Reserve`] of all that the program has reserved.
    MayFork,
}

impl Call {
    /// The call's bytes.
    pub fn encode(self) -> [u8; CALL_LEN] {
        let words = match self {
            Call::Hello { start, len } => [0, start, len],
            Call::Fork { parent } => [1, parent, 0],
            Call::Forked => [2, 0, 0],
            Call::Free { start, len } => [3, start, len],
            Call::Freed => [4, 0, 0],
            Call::Zap { start, len } => [5, start, len],
            Call::Child { ticket } => [6, ticket, 0],
            Call::Reserve { blocks } => [7, blocks, 0],
            Call::Return { blocks } => [8, blocks, 0],
            Call::MayFork => [9, 0, 0],
        };
        let mut bytes = [0; CALL_LEN];
        bytes.chunks_exact_mut(8).zip(words).for_each(|(to, word)| to.copy_from_slice(&word.to_le_bytes()));
        bytes
    }

    /// Reads one. **Errors**: another length, an unknown number.
    pub fn decode(bytes: &[u8]) -> Result<Call, Malformed> {
        let bytes: &[u8; CALL_LEN] = bytes.try_into().map_err(|_| Malformed("a call of main memory of another length"))?;
        let mut words = [0; CALL_LEN / 8];
        bytes.as_chunks().0.iter().zip(&mut words).for_each(|(bytes, word)| *word = u64::from_le_bytes(*bytes));
        let [number, start, len] = words;
        Ok(match number {
            0 => Call::Hello { start, len },
            1 => Call::Fork { parent: start },
            2 => Call::Forked,
            3 => Call::Free { start, len },
            4 => Call::Freed,
            5 => Call::Zap { start, len },
            6 => Call::Child { ticket: start },
            7 => Call::Reserve { blocks: start },
            8 => Call::Return { blocks: start },
            9 => Call::MayFork,
            _ => return Err(Malformed("an unknown call of main memory")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::ARENA_LEN_MAX;

    #[test]
    fn what_was_written_is_read_and_what_is_none_is_refused() {
        let calls = [
            Call::Hello { start: 1 << 40, len: ARENA_LEN_MAX },
            Call::Fork { parent: 7 },
            Call::Child { ticket: 8 },
            Call::Forked,
            Call::Free { start: 4096, len: 8192 },
            Call::Freed,
            Call::Zap { start: 0, len: 4096 },
            Call::Reserve { blocks: 3 },
            Call::Return { blocks: u64::MAX },
            Call::MayFork,
        ];
        for call in calls {
            assert_eq!(Call::decode(&call.encode()), Ok(call));
        }
        assert!(Call::decode(&[0; CALL_LEN - 1]).is_err() && Call::decode(&[10; CALL_LEN]).is_err());
    }
}
