//! Frames on their way: what they say is counted, and defects change it.
//!
//! The rules are those that nodes run. So a defect changes the inputs and outputs of a node, as if the node did otherwise.

use super::{Defect, Life, PageWorld};
use hanare_protocol::id::{Gid, Incarnation};
use hanare_protocol::page::{Access, Hosts, ToHome, ToHost};
use hanare_protocol::wire::page::{Frame, Join, NodeMessage, decode_frame, encode_frame};
use std::collections::{BTreeMap, BTreeSet};

/// A key that no host has: what is said to it is heard by nobody.
const NOBODY: u64 = u64::MAX;

/// Knowledge from the frames that were sent.
#[derive(Debug, Default)]
pub(super) struct Tampering {
    /// Each connection's channel.
    channels: BTreeMap<u64, u64>,
    /// The highest number sent by a life on a channel.
    sent: BTreeMap<(Life, u64), u64>,
    /// The life that answered at a node.
    answered: BTreeMap<(Life, usize), Incarnation>,
    /// Keys of hosts that were let in.
    joined: BTreeSet<u64>,
    /// Keys that a defect made, and those that they stand for.
    aliases: BTreeMap<u64, u64>,
}

impl PageWorld {
    /// A frame leaves: it is counted, and changed or dropped by a defect. Says, too, whether it is late.
    pub(super) fn tamper(&mut self, (from, to): (Life, Life), place: u64, bytes: Vec<u8>) -> Option<(Vec<u8>, bool)> {
        let Ok((frame, page)) = decode_frame(&bytes) else { return Some((bytes, false)) };
        let page = (!page.is_empty()).then_some(page);
        match frame {
            Frame::Hail { node, life, address, channel } => {
                self.tampering.channels.insert(place / 2, channel);
                let channel = if self.has(Defect::HearTwice) { NOBODY - self.draw() } else { channel };
                Some((encode_frame(&Frame::Hail { node, life, address, channel }, None), false))
            }
            Frame::Message(number, message) => {
                let channel = self.tampering.channels.get(&(place / 2)).copied().unwrap_or(0);
                let highest = self.tampering.sent.entry((from, channel)).or_default();
                let is_again = number <= std::mem::replace(highest, number.max(*highest));
                if is_again {
                    self.count("messages sent again");
                }
                if is_again && self.has(Defect::SendOnce) {
                    return None;
                }
                let is_late = self.has(Defect::LeaveEarly)
                    && matches!(message, NodeMessage::ToHome { message: ToHome::WriteBack { .. }, .. });
                let message = self.change(message);
                self.note(format!("{from} to {to}: {message:?}"));
                if !is_again {
                    self.observe((from, to), &message);
                }
                Some((encode_frame(&Frame::Message(number, message), page), is_late))
            }
            Frame::Answers(life) => {
                let node = self.processes.get(&from).map_or(0, |process| process.node);
                let before = *self.tampering.answered.entry((to, node)).or_insert(life);
                if before == life {
                    return Some((bytes, false));
                }
                if self.has(Defect::TakeForOld) {
                    return Some((encode_frame(&Frame::Answers(before), None), false));
                }
                self.tampering.answered.insert((to, node), life);
                self.tell_of_another(node, before.0 as Life);
                Some((bytes, false))
            }
            Frame::Heard(_) => Some((bytes, false)),
        }
    }

    /// A frame arrives: keys that a defect made are those that they stand for.
    pub(super) fn arrives(&mut self, bytes: Vec<u8>) -> Vec<u8> {
        let aliases = &self.tampering.aliases;
        if aliases.is_empty() {
            return bytes;
        }
        let Ok((Frame::Message(number, mut message), page)) = decode_frame(&bytes) else { return bytes };
        let key = match &mut message {
            NodeMessage::Joined { key, .. } | NodeMessage::Left { key } | NodeMessage::Introduce { key, .. } => key,
            NodeMessage::ToHost { key, .. } | NodeMessage::HostGone { key } | NodeMessage::Returned { key, .. } => key,
            _ => return bytes,
        };
        *key = aliases.get(key).copied().unwrap_or(*key);
        encode_frame(&Frame::Message(number, message), (!page.is_empty()).then_some(page))
    }

    fn change(&mut self, message: NodeMessage) -> NodeMessage {
        let nothing = NodeMessage::HostGone { key: NOBODY };
        match message {
            NodeMessage::Forgot { share } if self.has(Defect::ForgetShares) => NodeMessage::Leave { share },
            NodeMessage::Leave { .. } if self.has(Defect::LeaveSilently) => nothing,
            NodeMessage::Returned { takes: false, .. } | NodeMessage::NotShared { .. } if self.has(Defect::DismissSilently) => {
                nothing
            }
            NodeMessage::Join(join) if self.has(Defect::JoinAnew) && self.tampering.joined.contains(&join.key) => {
                let key = NOBODY / 2 + self.draw();
                self.tampering.aliases.insert(key, join.key);
                NodeMessage::Join(Join { key, ..join })
            }
            NodeMessage::ToHost { key, page, message } if self.has(Defect::GrantEarly) => {
                let message = match message {
                    ToHost::Grant { ticket, version, access: access @ Access::Write, has_bytes, firm, .. } => {
                        ToHost::Grant { ticket, version, access, has_bytes, awaits: Hosts::NONE, firm }
                    }
                    other => other,
                };
                NodeMessage::ToHost { key, page, message }
            }
            other => other,
        }
    }

    fn observe(&mut self, (from, to): (Life, Life), message: &NodeMessage) {
        match message {
            NodeMessage::Join(_) => self.count("hosts that asked to join"),
            NodeMessage::Joined { key, result: Ok(joined) } => {
                self.count("hosts that were let in");
                self.tampering.joined.insert(*key);
                self.shares.entry((Gid(from), to)).or_default().insert(joined.share);
            }
            NodeMessage::Joined { result: Err(_), .. } => self.count("hosts that were not let in"),
            NodeMessage::Left { .. } => drop(self.shares.remove(&(Gid(from), to))),
            NodeMessage::Leave { .. } => {
                self.count("hosts that left");
                if self.processes.get(&from).is_some_and(|process| process.is_impatient) {
                    // Pages that it was granted may still be on their way.
                    self.excuse(from, Gid(to));
                }
            }
            NodeMessage::Forgot { .. } => {
                self.count("shares forgotten");
                self.excuse(from, Gid(to));
            }
            NodeMessage::NotShared { .. } => self.count("hosts told that a share is over"),
            NodeMessage::Returned { takes: true, .. } => self.count("hosts asked by a home that came back"),
            NodeMessage::Returned { takes: false, .. } => self.count("hosts told that their home did without them"),
            NodeMessage::ToHost { message: ToHost::Recall { hold_us, .. } | ToHost::Forward { hold_us, .. }, .. }
                if *hold_us > 0 =>
            {
                self.count("pages that might be kept");
            }
            _ => {}
        }
    }
}
