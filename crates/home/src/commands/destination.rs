//! Places of a message's bytes.

use super::command::AdmittedCommand;
use super::memory::{CommandExtent, CommandMemory};
use hanare_protocol::wire::command::Op;

/// Puts of up to this many bytes in a row are asked of a link at once.
const DIRECT_BLOCK_MIN: u64 = 4096;

/// The buffers of the driver, as they were filled.
#[derive(Clone, Copy, Debug)]
pub struct Buffers<'a> {
    /// Commands, or the body of a query.
    pub front: &'a [u8],
    /// The commands' lists.
    pub lists: &'a [u64],
    /// Bytes of operands: at most [`STAGE_LEN`](hanare_protocol::limits::STAGE_LEN).
    pub stage: &'a [u8],
}

/// The place of the next bytes of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// All of [`Buffers::front`], which is made this long. The lists are emptied.
    Front(u64),
    /// All of [`Buffers::lists`], which is made this many bytes long.
    Lists(u64),
    /// Bytes of the extent of [`Incoming::current`](super::Incoming::current), in place.
    Extent {
        /// The first of them.
        offset: u64,
        /// Their number.
        len: u64,
    },
    /// The operand that the execution of [`Incoming::current`](super::Incoming::current) keeps, of this length.
    Held(u64),
    /// The first bytes of [`Buffers::stage`].
    Stage(u64),
    /// The same, but nobody wants them.
    Nowhere(u64),
    /// Nowhere yet: they are left with the link until pages are at home.
    Later,
}

/// The next bytes of an operand that can go to their place without the stage: their number, and the place. An append's are kept until they
/// are whole.
pub(super) fn in_place<M: CommandMemory>(command: &AdmittedCommand<M>, left: u64, most: u64) -> Option<(u64, Destination)> {
    match command.op {
        Op::Append { .. } if command.taken() == 0 => Some((command.operand_len(), Destination::Held(command.operand_len()))),
        Op::Put if command.extent().stays() => {
            let taken = command.taken();
            let (offset, len) = match command.shape.range() {
                Some((offset, _)) => (offset + taken, left.min(most)),
                None => {
                    let block = command.shape.shape().block();
                    let begins = block >= DIRECT_BLOCK_MIN && taken.is_multiple_of(block);
                    begins.then(|| (command.shape.block_offset(taken / block), block))?
                }
            };
            Some((len, Destination::Extent { offset, len }))
        }
        _ => None,
    }
}
