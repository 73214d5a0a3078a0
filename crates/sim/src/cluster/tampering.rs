//! Defects of extents with copies: what is done to frames and messages on their way.

use super::process::ProcessLife;
use super::{Cluster, Defect, Event};
use crate::check::Check;
use hanare_home::CopyInput;
use hanare_protocol::coordinator::Peer;
use hanare_protocol::copies::{HolderSet, Position, Term};
use hanare_protocol::wire::control::{FromNode, decode};
use hanare_protocol::wire::copies::{CopiedExtent, CopyFrame, FromHolder, ToCopy, ToHolder};
use std::collections::BTreeSet;

impl Cluster {
    /// A holder's message, as it leaves its node, if it does.
    pub(super) fn tampered(
        &mut self,
        at: ProcessLife,
        extent: CopiedExtent,
        message: FromHolder,
    ) -> Result<Option<FromHolder>, String> {
        match message {
            FromHolder::IsFrozen { term, position } if self.has(Defect::ElectLeast) => {
                Ok(Some(FromHolder::IsFrozen { term, position: Position(u64::MAX - position.0) }))
            }
            FromHolder::Drop { .. } if self.has(Defect::WaitForEver) => Ok(None),
            FromHolder::Drop { term, .. } if self.has(Defect::DropAlone) => self.go_on_alone(at, extent, term).map(|()| None),
            other => Ok(Some(other)),
        }
    }

    /// A home takes itself for the only holder.
    fn go_on_alone(&mut self, at: ProcessLife, extent: CopiedExtent, term: Term) -> Check {
        let me = self.process(at).and_then(|process| process.member.identity());
        let Some((home, _)) = me else { return Ok(()) };
        let set = HolderSet { term: Term(term.0 + 1), home, copies: BTreeSet::new() };
        self.tell(at, CopyInput::Holder { extent, nodes: Vec::new(), message: ToHolder::Set(set) })
    }

    /// A wish to admit a copy, as of the order of today. One of an order before is heard again and again.
    pub(super) fn renewed(&mut self, peer: Peer, message: FromNode) -> FromNode {
        let FromNode::Holder { extent, message: FromHolder::Admit { term, node, order } } = message else { return message };
        let today = self.order_of(extent).unwrap_or(order);
        if today != order && self.dice.chance(9_800) {
            self.at(10, Event::ToHome { peer, message });
        }
        FromNode::Holder { extent, message: FromHolder::Admit { term, node, order: today } }
    }

    /// The order by which a copy of an extent is made at present.
    fn order_of(&self, extent: CopiedExtent) -> Option<u64> {
        self.home().and_then(|home| home.coordinator.making_order(extent))
    }

    /// A frame that leaves an end, as its receiver gets it, if it does.
    pub(super) fn tampered_frame(&mut self, place: u64, bytes: Vec<u8>) -> Option<Vec<u8>> {
        if self.has(Defect::ForgetHeads) || self.has(Defect::LosePart) {
            return Some(self.tampered_call(bytes));
        }
        if !self.has(Defect::AdmitEarly) && !self.has(Defect::MissWhileMade) {
            return Some(bytes);
        }
        let (Ok(CopyFrame::ToCopy(extent, message)), Some(from), Some(to)) =
            (decode::<CopyFrame>(&bytes), self.wires.at(place), self.wires.at(place ^ 1))
        else {
            return Some(bytes);
        };
        match message {
            ToCopy::Make { term, .. } => {
                self.making.insert((from, to, extent));
                let order = self.order_of(extent).unwrap_or_default();
                let copy = self.process(to).and_then(|process| process.member.identity());
                if let (Some((node, _)), true) = (copy, self.has(Defect::AdmitEarly))
                    && let Some(process) = self.process(from)
                {
                    process.member.say_as_holder(extent, FromHolder::Admit { term, node, order });
                }
            }
            ToCopy::Made { .. } => drop(self.making.remove(&(from, to, extent))),
            ToCopy::Write { .. } if self.has(Defect::MissWhileMade) && self.making.contains(&(from, to, extent)) => return None,
            _ => {}
        }
        Some(bytes)
    }
}
