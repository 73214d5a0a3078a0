//! Letters about pages to other nodes: each arrives once, over connections that break and are made anew.
//!
//! Every node makes the connections that its own letters leave by; what comes back on one are receipts. A node that cannot be
//! reached for [`GIVE_UP`], or whose process is another one, is lost.

use super::home::PageBytes;
use hanare_protocol::id::{Incarnation, NodeId};
use hanare_protocol::page::{Answering, Courier};
use hanare_protocol::wire::page::{Frame, Letter, encode_frame};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a node that was reached before is dialed again before it is lost: with the time to notice, below 5 s.
const GIVE_UP: Duration = Duration::from_millis(3500);

/// How long after a failure the next try begins.
const AGAIN: Duration = Duration::from_millis(100);

/// Letters heard before a receipt is sent.
const RECEIPT_COUNT: u32 = 32;

/// What the service is to do for letters.
pub(super) enum Errand {
    /// Connect to a node.
    Dial(NodeId, String),
    /// Send a frame over a connection.
    Send(u64, Vec<u8>),
    /// Close a connection.
    Close(u64),
}

/// A letter, with its page.
pub(super) type Sheet = Arc<(Letter, Option<PageBytes>)>;

/// What a frame brings.
pub(super) enum Brought {
    Nothing,
    /// A letter that is heard for the first time, and from which life of which node.
    Letter(NodeId, Incarnation, Letter),
    /// Another life of a node answers: the one before is over.
    Another(NodeId, Incarnation),
}

/// The way to one node.
struct Way {
    address: String,
    /// By what the other end knows that its letters are numbered anew. A node that was forgotten and is talked to again takes the
    /// letters of the next way for no repetition of those of this one.
    number: u64,
    courier: Courier<Sheet>,
    answering: Answering,
    /// The connection's place in the service.
    place: Option<u64>,
    is_dialing: bool,
    /// When the connection broke, or was first wanted.
    since: Instant,
    again: Option<Instant>,
}

/// All ways, and what was heard from whom.
pub(super) struct Wires {
    me: Option<NodeId>,
    life: Incarnation,
    /// Ways that were ever begun.
    begun: u64,
    ways: HashMap<NodeId, Way>,
    heard: HashMap<Speaker, (Courier<()>, u32)>,
    /// Connections of others, and who made them.
    from: HashMap<u64, Speaker>,
}

/// Who says something: a node, in which life, by which of its ways.
type Speaker = (NodeId, Incarnation, u64);

impl Wires {
    pub fn new(life: Incarnation) -> Wires {
        Wires { me: None, life, begun: 0, ways: HashMap::new(), heard: HashMap::new(), from: HashMap::new() }
    }

    pub fn set_me(&mut self, me: NodeId) {
        self.me = Some(me);
    }

    /// Where a node is reached that letters went to.
    pub fn address_of(&self, node: NodeId) -> Option<String> {
        let own = (self.me == Some(node)).then(String::new);
        own.or_else(|| Some(self.ways.get(&node)?.address.clone()))
    }

    /// Sends a letter, now or when there is a connection.
    pub fn send(&mut self, node: NodeId, address: &str, letter: Letter, bytes: Option<PageBytes>, errands: &mut Vec<Errand>) {
        let way = self.ways.entry(node).or_insert_with(|| {
            self.begun += 1;
            Way {
                address: address.to_owned(),
                number: self.begun,
                courier: Courier::default(),
                answering: Answering::default(),
                place: None,
                is_dialing: false,
                since: Instant::now(),
                again: None,
            }
        });
        let sheet: Sheet = Arc::new((letter, bytes));
        let number = way.courier.send(sheet.clone());
        match way.place {
            Some(place) => errands.push(Errand::Send(place, frame(number, &sheet))),
            None if !way.is_dialing && way.again.is_none() => {
                way.is_dialing = true;
                errands.push(Errand::Dial(node, way.address.clone()));
            }
            None => {}
        }
    }

    /// A connection was made, or not. Returns the node if it is lost.
    pub fn dialed(&mut self, node: NodeId, place: Option<u64>, errands: &mut Vec<Errand>) -> Option<NodeId> {
        let (Some(me), Some(way)) = (self.me, self.ways.get_mut(&node)) else {
            errands.extend(place.map(Errand::Close));
            return None;
        };
        if way.place.is_some() {
            // The connection was made for a way that has ended since.
            errands.extend(place.map(Errand::Close));
            return None;
        }
        way.is_dialing = false;
        let Some(place) = place else {
            if way.since.elapsed() >= GIVE_UP {
                return Some(node);
            }
            way.again = Some(Instant::now() + AGAIN);
            return None;
        };
        way.place = Some(place);
        errands.push(Errand::Send(place, encode_frame(&Frame::Hail { node: me, life: self.life, way: way.number }, None)));
        for (number, sheet) in way.courier.unconfirmed() {
            errands.push(Errand::Send(place, frame(number, sheet)));
        }
        None
    }

    /// A connection has ended.
    pub fn ended(&mut self, place: u64, errands: &mut Vec<Errand>) {
        self.from.remove(&place);
        let way = self.ways.iter_mut().find(|(_, way)| way.place == Some(place));
        if let Some((node, way)) = way {
            (way.place, way.is_dialing, way.since) = (None, true, Instant::now());
            errands.push(Errand::Dial(*node, way.address.clone()));
        }
    }

    /// Whether somebody is to be dialed again; then [`Wires::tick`] is called soon.
    pub fn waits(&self) -> bool {
        self.ways.values().any(|way| way.again.is_some())
    }

    pub fn tick(&mut self, errands: &mut Vec<Errand>) {
        let now = Instant::now();
        for (node, way) in &mut self.ways {
            if way.again.is_some_and(|again| again <= now) {
                (way.again, way.is_dialing) = (None, true);
                errands.push(Errand::Dial(*node, way.address.clone()));
            }
        }
    }

    /// A frame arrived.
    pub fn hear(&mut self, place: u64, frame: Frame, errands: &mut Vec<Errand>) -> Brought {
        match frame {
            Frame::Hail { node, life, way } => {
                let who = (node, life, way);
                // What still comes over connections of another life of it is not heard.
                self.from.retain(|_, known| known.0 != node || *known == who);
                self.from.insert(place, who);
                // A node has one life at a time.
                self.heard.retain(|known, _| known.0 != node || *known == who);
                errands.push(Errand::Send(place, encode_frame(&Frame::Answers(self.life), None)));
                Brought::Nothing
            }
            Frame::Answers(life) => {
                let way = self.ways.iter_mut().find(|(_, way)| way.place == Some(place));
                let another = way.and_then(|(node, way)| way.answering.hear(life).then_some(*node));
                another.map_or(Brought::Nothing, |node| Brought::Another(node, life))
            }
            Frame::Heard(receipt) => {
                if let Some(way) = self.ways.values_mut().find(|way| way.place == Some(place)) {
                    way.courier.confirm(&receipt);
                }
                Brought::Nothing
            }
            Frame::Letter(number, letter) => {
                let Some(from) = self.from.get(&place).copied() else { return Brought::Nothing };
                let (courier, owed) = self.heard.entry(from).or_default();
                let is_new = courier.hear(number);
                *owed += 1;
                if *owed >= RECEIPT_COUNT
                    && let Some(receipt) = courier.receipt()
                {
                    *owed = 0;
                    errands.push(Errand::Send(place, encode_frame(&Frame::Heard(receipt), None)));
                }
                if is_new { Brought::Letter(from.0, from.1, letter) } else { Brought::Nothing }
            }
        }
    }

    /// This node was taken for lost: what it had to say is void. Returns that.
    pub fn begin_anew(&mut self, errands: &mut Vec<Errand>) -> Vec<Sheet> {
        let mut void = Vec::new();
        for (_, way) in self.ways.drain() {
            errands.extend(way.place.map(Errand::Close));
            void.extend(way.courier.unconfirmed().map(|(_, sheet)| sheet.clone()));
        }
        void
    }

    /// A node is lost: nothing more is said to it, nor heard from this life of it. Returns what it may not have heard.
    pub fn forget(&mut self, node: NodeId, errands: &mut Vec<Errand>) -> Vec<Sheet> {
        let way = self.ways.remove(&node);
        let from: Vec<u64> = self.from.iter().filter(|(_, known)| known.0 == node).map(|(place, _)| *place).collect();
        for place in from {
            self.from.remove(&place);
            errands.push(Errand::Close(place));
        }
        let Some(way) = way else { return Vec::new() };
        errands.extend(way.place.map(Errand::Close));
        way.courier.unconfirmed().map(|(_, sheet)| sheet.clone()).collect()
    }
}

fn frame(number: u64, sheet: &Sheet) -> Vec<u8> {
    encode_frame(&Frame::Letter(number, sheet.0.clone()), sheet.1.as_deref())
}
