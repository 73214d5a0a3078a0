//! Frames and messages on their way, and what defects change of them.

use super::{COORDINATOR, CopyWorld, Defect, Message, node_id};
use hanare_protocol::copies::Position;
use hanare_protocol::wire::control::decode;
use hanare_protocol::wire::copies::{CopyFrame, FromHolder, ToCopy};

impl CopyWorld {
    /// A holder's message, as the coordinator gets it.
    pub(super) fn tampered(&self, message: FromHolder) -> FromHolder {
        match message {
            FromHolder::IsFrozen { term, position } if self.has(Defect::ElectLeast) => {
                FromHolder::IsFrozen { term, position: Position(u64::MAX - position.0) }
            }
            other => other,
        }
    }

    /// A frame, as its receiver gets it, if it does.
    pub(super) fn tampered_frame(&mut self, node: usize, place: u64, bytes: Vec<u8>) -> Option<Vec<u8>> {
        if !self.has(Defect::AdmitEarly) && !self.has(Defect::MissWhileMade) {
            return Some(bytes);
        }
        let (Ok(CopyFrame::ToCopy(extent, message)), Some((_, to))) = (decode::<CopyFrame>(&bytes), self.ends(place)) else {
            return Some(bytes);
        };
        let number = extent.gid.0 as usize;
        match message {
            ToCopy::Make { term, .. } => {
                self.making.insert((node, to, number));
                if self.has(Defect::AdmitEarly) {
                    let (copy, epoch) = (node_id(to), self.coordinator.epoch(to));
                    self.send(node, COORDINATOR, number, Message::FromHolder(FromHolder::Admit { term, node: copy, epoch }));
                }
            }
            ToCopy::Made { .. } => {
                self.making.remove(&(node, to, number));
            }
            ToCopy::Write { .. } if self.has(Defect::MissWhileMade) && self.making.contains(&(node, to, number)) => return None,
            _ => {}
        }
        Some(bytes)
    }
}
