//! Blocks that writers send and readers see.

use hanare_protocol::queue::PortId;

/// Bytes of a block.
pub(crate) const BLOCK_LEN: u64 = 16;

/// A block: its writer, and its number from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    pub writer: PortId,
    pub number: u64,
}

impl Block {
    pub fn bytes(self) -> [u8; BLOCK_LEN as usize] {
        let mut bytes = [0; BLOCK_LEN as usize];
        bytes[..8].copy_from_slice(&self.writer.0.to_le_bytes());
        bytes[8..].copy_from_slice(&self.number.to_le_bytes());
        bytes
    }

    pub fn of([writer, number]: [u64; 2]) -> Block {
        Block { writer: PortId(writer), number }
    }
}
