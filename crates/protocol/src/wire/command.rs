//! Vector commands as they travel: 64 bytes each, run by the node that owns the memory.
//!
//! N-dimensional, indexed, atomic and reducing commands join as further [`Op`]s; those that need more than
//! these 64 bytes bring a descriptor at the front of their data.

use super::Malformed;
use crate::id::{Grant, Slot};
use crate::shape::Strided;
use zerocopy::byteorder::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Bytes of a command.
pub const COMMAND_LEN: usize = 64;

/// What a command does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Op {
    /// Read the shape's bytes into the reply. **Source**: [D2 Table 2] VL, VLS, RVL; [RF §3] Pull. FEATURE: RF-F6
    Get = 1,
    /// Write the request's bytes into the shape. **Source**: [D2 Table 2] VS, VSS, RVS; [RF §3] Push. FEATURE: RF-F5
    Put = 2,
    /// The source of a copy: read into the node's hands. Must be followed by its [`Op::CopyTo`].
    CopyFrom = 3,
    /// The target of the copy whose source came just before; moves as many bytes.
    CopyTo = 4,
}

/// One command on one extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// What to do.
    pub op: Op,
    /// The node on which `slot` is; only the source of a copy may name another node than the one that runs it.
    pub node: u32,
    /// The extent.
    pub slot: Slot,
    /// The right to do it.
    pub grant: Grant,
    /// The bytes of the extent that it touches.
    pub shape: Strided,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Raw {
    op: u8,
    zero: [u8; 3],
    slot: U32,
    node: U32,
    spare: U32,
    grant: [u8; 16],
    offset: U64,
    block: U64,
    count: U64,
    stride: U64,
}

const _: () = assert!(size_of::<Raw>() == COMMAND_LEN);

impl Command {
    /// The bytes to send.
    pub fn encode(&self) -> [u8; COMMAND_LEN] {
        let raw = Raw {
            op: self.op as u8,
            zero: [0; 3],
            slot: self.slot.0.into(),
            node: self.node.into(),
            spare: 0.into(),
            grant: self.grant.0,
            offset: self.shape.offset.into(),
            block: self.shape.block.into(),
            count: self.shape.count.into(),
            stride: self.shape.stride.into(),
        };
        zerocopy::transmute!(raw)
    }

    /// Reads a command; its shape and grant are checked by the node against the extent.
    pub fn decode(bytes: &[u8; COMMAND_LEN]) -> Result<Command, Malformed> {
        let raw: Raw = zerocopy::transmute!(*bytes);
        if raw.zero != [0; 3] || raw.spare.get() != 0 {
            return Err(Malformed("not a command"));
        }
        let op = [Op::Get, Op::Put, Op::CopyFrom, Op::CopyTo].into_iter().find(|op| *op as u8 == raw.op);
        Ok(Command {
            op: op.ok_or(Malformed("unknown command"))?,
            node: raw.node.get(),
            slot: Slot(raw.slot.get()),
            grant: Grant(raw.grant),
            shape: Strided { offset: raw.offset.get(), block: raw.block.get(), count: raw.count.get(), stride: raw.stride.get() },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes_are_a_command_or_refused(bytes: [u8; 32], more: [u8; 32]) {
            let mut whole = [0; COMMAND_LEN];
            whole[..32].copy_from_slice(&bytes);
            whole[32..].copy_from_slice(&more);
            if let Ok(command) = Command::decode(&whole) {
                prop_assert_eq!(command.encode(), whole);
            }
        }

        #[test]
        fn a_command_survives_the_wire(slot: u32, node: u32, grant: [u8; 16], offset: u64, block: u64, count: u64, stride: u64) {
            let shape = Strided { offset, block, count, stride };
            let command = Command { op: Op::Put, node, slot: Slot(slot), grant: Grant(grant), shape };
            prop_assert_eq!(Command::decode(&command.encode()), Ok(command));
        }
    }
}
