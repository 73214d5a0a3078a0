//! Messages about pages to other nodes: each arrives once, over connections that break and are made anew.
//!
//! Every node makes the connections that its own messages leave by ([`Dialing`] says when); what comes back on one are receipts. A node that
//! cannot be reached, or whose process is another one, is lost.

use super::outgoing::{Arrival, Outgoing, Speaker};
use crate::wire_output::WireOutput;
use hanare_protocol::id::{Incarnation, NodeId};
use hanare_protocol::page::dialing::{Dialed, Phase};
use hanare_protocol::page::{Answering, Courier, Dialing};
use hanare_protocol::versions::OLDEST;
use hanare_protocol::wire::page::{Frame, NodeMessage, encode_frame};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Messages heard before a receipt is sent.
const RECEIPT_COUNT: u32 = 32;

/// The message that a connection brought.
pub(super) enum Brought {
    Nothing,
    /// A message that is heard for the first time, and from which life of which node.
    Message(Arrival, NodeMessage),
    /// Another life of a node answers: the one before is over.
    Another(NodeId, Incarnation),
}

/// The messages to one node, and the connection that they leave by.
struct Channel {
    address: String,
    /// Differs for each channel that this process begins, so that the other end knows messages that are numbered anew. Without it, a
    /// node that was forgotten and met again would take the next channel's messages for repetitions.
    number: u64,
    courier: Courier<Arc<Outgoing>>,
    answering: Answering,
    /// The connection, by its place in the service.
    dialing: Dialing<u64>,
    /// The version of the wire that its last connection spoke.
    spoken: u32,
}

/// All channels, and the messages heard of other nodes' channels.
pub(super) struct Wires {
    me: Option<NodeId>,
    life: Incarnation,
    /// Network address of this node.
    address: String,
    /// Number of channels that were ever begun.
    begun: u64,
    channels: BTreeMap<NodeId, Channel>,
    heard: BTreeMap<Speaker, Courier<()>>,
    /// Connections of others, who made them, and the addresses at which those are reached.
    from: BTreeMap<u64, (Speaker, String)>,
}

impl Wires {
    pub fn new(life: Incarnation, address: String) -> Wires {
        Wires { me: None, life, address, begun: 0, channels: BTreeMap::new(), heard: BTreeMap::new(), from: BTreeMap::new() }
    }

    pub fn set_me(&mut self, me: NodeId) {
        self.me = Some(me);
    }

    /// The address of a node that messages went to, or that has a connection to this one.
    pub fn address_of(&self, node: NodeId) -> Option<String> {
        let own = (self.me == Some(node)).then(String::new);
        let said = || self.from.values().find(|(known, _)| known.0 == node).map(|(_, address)| address);
        own.or_else(|| self.channels.get(&node).map(|channel| &channel.address).or_else(said).cloned())
    }

    /// Number of messages that other nodes may not have heard.
    pub fn unconfirmed_count(&self) -> usize {
        self.channels.values().map(|channel| channel.courier.unconfirmed_count()).sum()
    }

    /// Sends a message, now or when there is a connection.
    pub fn send<O: From<WireOutput>>(&mut self, outgoing: Outgoing, now_ms: u64, outputs: &mut VecDeque<O>) {
        let node = outgoing.node;
        let channel = self.channels.entry(node).or_insert_with(|| {
            self.begun += 1;
            Channel {
                address: outgoing.address.clone(),
                number: self.begun,
                courier: Courier::default(),
                answering: Answering::default(),
                dialing: Dialing::default(),
                spoken: OLDEST,
            }
        });
        let outgoing = Arc::new(outgoing);
        let number = channel.courier.send(outgoing.clone());
        if let Some(place) = channel.dialing.place() {
            outputs.push_back(WireOutput::Send { place, frame: frame(number, &outgoing, channel.spoken).into() }.into());
        } else if channel.dialing.want(now_ms) {
            outputs.push_back(WireOutput::Dial { node, address: channel.address.clone() }.into());
        }
    }

    /// A connection was made, that speaks a version of the wire, or not. Returns the node if it is lost.
    pub fn dialed<O: From<WireOutput>>(
        &mut self,
        node: NodeId,
        made: Option<(u64, u32)>,
        now_ms: u64,
        outputs: &mut VecDeque<O>,
    ) -> Option<NodeId> {
        let (made, spoken) = made.unzip();
        let (Some(me), Some(channel)) = (self.me, self.channels.get_mut(&node)) else {
            outputs.extend(made.map(|place| WireOutput::Close { place }.into()));
            return None;
        };
        let place = match (channel.dialing.tried(made, now_ms), made) {
            (Dialed::Up, Some(place)) => place,
            (Dialed::Lost, _) => return Some(node),
            // The connection may have been made for a channel that has ended since.
            (Dialed::Spare, made) => {
                outputs.extend(made.map(|place| WireOutput::Close { place }.into()));
                return None;
            }
            (Dialed::Up | Dialed::Again, _) => return None,
        };
        channel.spoken = spoken.unwrap_or(OLDEST);
        let hail = Frame::Hail { node: me, life: self.life, address: self.address.clone(), channel: channel.number };
        outputs.push_back(WireOutput::Send { place, frame: encode_frame(&hail, None).into() }.into());
        for (number, outgoing) in channel.courier.unconfirmed() {
            outputs.push_back(WireOutput::Send { place, frame: frame(number, outgoing, channel.spoken).into() }.into());
        }
        None
    }

    /// A connection has ended.
    pub fn ended<O: From<WireOutput>>(&mut self, place: u64, now_ms: u64, outputs: &mut VecDeque<O>) {
        self.from.remove(&place);
        for (node, channel) in &mut self.channels {
            if channel.dialing.ended(place, now_ms) {
                outputs.push_back(WireOutput::Dial { node: *node, address: channel.address.clone() }.into());
            }
        }
    }

    /// True if a node is to be dialed again; [`Wires::tick`] is then due soon.
    pub fn waits(&self) -> bool {
        self.channels.values().any(|channel| channel.dialing.phase() == Phase::Waiting)
    }

    pub fn tick<O: From<WireOutput>>(&mut self, now_ms: u64, outputs: &mut VecDeque<O>) {
        for (node, channel) in &mut self.channels {
            if channel.dialing.is_due(now_ms) {
                outputs.push_back(WireOutput::Dial { node: *node, address: channel.address.clone() }.into());
            }
        }
    }

    /// A frame arrived.
    pub fn hear<O: From<WireOutput>>(&mut self, place: u64, frame: Frame, outputs: &mut VecDeque<O>) -> Brought {
        match frame {
            Frame::Hail { node, life, address, channel } => {
                let who = (node, life, channel);
                // Later frames on connections of an older life are ignored.
                self.from.retain(|_, (known, _)| known.0 != node || *known == who);
                self.from.insert(place, (who, address));
                // A node has one life at a time.
                self.heard.retain(|known, _| known.0 != node || *known == who);
                outputs
                    .push_back(WireOutput::Send { place, frame: encode_frame(&Frame::Answers(self.life), None).into() }.into());
                Brought::Nothing
            }
            Frame::Answers(life) => {
                let channel = self.channels.iter_mut().find(|(_, channel)| channel.dialing.place() == Some(place));
                let another = channel.and_then(|(node, channel)| channel.answering.hear(life).then_some(*node));
                another.map_or(Brought::Nothing, |node| Brought::Another(node, life))
            }
            Frame::Heard(receipt) => {
                if let Some(channel) = self.channels.values_mut().find(|channel| channel.dialing.place() == Some(place)) {
                    channel.courier.confirm(&receipt);
                }
                Brought::Nothing
            }
            Frame::Message(number, message) => {
                let Some(from) = self.from.get(&place).map(|(from, _)| *from) else { return Brought::Nothing };
                let courier = self.heard.entry(from).or_default();
                let is_new = courier.hear(number);
                if let Some(receipt) = courier.receipt_after(RECEIPT_COUNT) {
                    outputs
                        .push_back(WireOutput::Send { place, frame: encode_frame(&Frame::Heard(receipt), None).into() }.into());
                }
                if is_new { Brought::Message(Arrival { from, number }, message) } else { Brought::Nothing }
            }
        }
    }

    /// A message is not confirmed before [`Wires::let_go`]: its sender keeps it for the next home.
    pub fn hold(&mut self, Arrival { from, number }: Arrival) {
        self.heard.entry(from).and_modify(|courier| courier.hold(number));
    }

    /// A message may be confirmed.
    pub fn let_go(&mut self, Arrival { from, number }: Arrival) {
        self.heard.entry(from).and_modify(|courier| courier.let_go(number));
    }

    /// Messages that a node may not have heard.
    pub fn unconfirmed(&self, node: NodeId) -> impl Iterator<Item = &Arc<Outgoing>> {
        self.channels.get(&node).into_iter().flat_map(|channel| channel.courier.unconfirmed().map(|(_, outgoing)| outgoing))
    }

    /// The node was taken for lost: its unsent messages are void. Returns them.
    pub fn begin_anew<O: From<WireOutput>>(&mut self, outputs: &mut VecDeque<O>) -> Vec<Arc<Outgoing>> {
        let mut void = Vec::new();
        for channel in std::mem::take(&mut self.channels).into_values() {
            outputs.extend(channel.dialing.place().map(|place| WireOutput::Close { place }.into()));
            void.extend(channel.courier.unconfirmed().map(|(_, outgoing)| outgoing.clone()));
        }
        void
    }

    /// A node is lost: nothing more is said to it, nor heard from this life of it. Returns what it may not have heard.
    pub fn forget<O: From<WireOutput>>(&mut self, node: NodeId, outputs: &mut VecDeque<O>) -> Vec<Arc<Outgoing>> {
        let channel = self.channels.remove(&node);
        let from: Vec<u64> = self.from.iter().filter(|(_, (known, _))| known.0 == node).map(|(place, _)| *place).collect();
        for place in from {
            self.from.remove(&place);
            outputs.push_back(WireOutput::Close { place }.into());
        }
        let Some(channel) = channel else { return Vec::new() };
        outputs.extend(channel.dialing.place().map(|place| WireOutput::Close { place }.into()));
        channel.courier.unconfirmed().map(|(_, outgoing)| outgoing.clone()).collect()
    }
}

fn frame(number: u64, outgoing: &Outgoing, spoken: u32) -> Vec<u8> {
    encode_frame(&Frame::Message(number, outgoing.message.clone().as_of(spoken)), outgoing.bytes.as_deref())
}
