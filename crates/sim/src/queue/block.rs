//! What writers send and readers see.

use hanare_protocol::queue::PortId;

/// A block: its writer, and its number from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    pub writer: PortId,
    pub number: u64,
}

impl Block {
    pub fn bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.writer.0.to_le_bytes());
        bytes[8..].copy_from_slice(&self.number.to_le_bytes());
        bytes
    }

    pub fn read(bytes: &[u8]) -> Block {
        let word = |at: usize| u64::from_le_bytes(*bytes[at..].first_chunk().expect("blocks have two words"));
        Block { writer: PortId(word(0)), number: word(8) }
    }
}
