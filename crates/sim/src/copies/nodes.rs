//! A node's process under virtual time, and connections between nodes.

use super::memory::{ExtentMemory, SimExtent, addition};
use super::{COORDINATOR, CopyWorld, Defect, Event, FrameBox, LEASE_MS, LOOK_MS, Message, index, name, node_id, number};
use crate::harness::due;
use crate::network::Ordered;
use hanare_home::{Copies, CopyInput, CopyOutput, WireOutput};
use hanare_protocol::copies::{HolderSet, Once, Term, UpdateCall};
use hanare_protocol::id::{Epoch, Slot};
use hanare_protocol::wire::control::NodeAddress;
use hanare_protocol::wire::copies::{ExtentWrite, FromHolder, ToHolder};
use std::collections::BTreeSet;
use std::time::Duration;

/// A node.
#[derive(Debug, Default)]
pub(super) struct CopyHost {
    pub is_dead: bool,
    /// The coordinator does not reach it.
    pub is_cut: bool,
    /// Other nodes do not reach it either; programs do.
    pub is_alone: bool,
    pub is_still: bool,
    /// Events that come while it stands still.
    pub inbox: Vec<Event>,
    pub lease_until_ms: u64,
    pub copies: Copies<SimExtent, (usize, u64)>,
    pub memory: ExtentMemory,
    /// Copies that homes here want dropped: extent and node.
    pub doubted: BTreeSet<(usize, usize)>,
    tick_at: Option<u64>,
}

impl CopyHost {
    pub fn dead() -> CopyHost {
        CopyHost { is_dead: true, ..CopyHost::default() }
    }
}

/// A connection between two nodes, by the one that made it. It keeps order, and loses nothing until it breaks.
#[derive(Clone, Copy, Debug)]
pub(super) struct CopyConnection {
    from: usize,
    to: usize,
    path: Ordered,
    /// Faults break it after that.
    rests_until_ms: u64,
}

impl CopyWorld {
    /// A node begins, with what these sets give it; none for one that begins anew.
    pub(super) fn begin_node(&mut self, node: usize, sets: &[HolderSet]) {
        self.hosts[node].lease_until_ms = self.course.now_ms + LEASE_MS;
        self.hosts[node].memory.is_late = self.has(Defect::ApplyLate);
        self.hosts[node].copies.set_identity(node_id(node));
        for (extent, set) in sets.iter().enumerate() {
            if set.home == node_id(node) || set.copies.contains(&node_id(node)) {
                self.make(node, extent, set.clone());
                // The first homes know their copies.
                self.hold(node, extent, ToHolder::Set(set.clone()));
            }
        }
    }

    /// The node makes an extent of zeros.
    fn make(&mut self, node: usize, extent: usize, set: HolderSet) {
        self.hosts[node].memory.make(extent);
        self.tell(node, CopyInput::Made { extent: name(extent), set, slot: Slot(extent as u32) });
    }

    fn hold(&mut self, node: usize, extent: usize, message: ToHolder) {
        let address = |node: usize| NodeAddress { node: node_id(node), epoch: Epoch(1), address: format!("n{node}") };
        let nodes = (0..self.hosts.len()).map(address).collect();
        self.tell(node, CopyInput::Holder { extent: name(extent), nodes, message });
    }

    /// A node's process hears of an event, and does what comes of it.
    fn tell(&mut self, node: usize, input: CopyInput<'_>) {
        self.with_copies(node, |copies, now, memory| copies.handle(now, input, memory));
    }

    /// Does something with a node's homes and copies, and what comes of it.
    fn with_copies(&mut self, node: usize, with: impl FnOnce(&mut Copies<SimExtent, (usize, u64)>, Duration, &ExtentMemory)) {
        let now = Duration::from_millis(self.now_ms);
        let host = &mut self.hosts[node];
        with(&mut host.copies, now, &host.memory);
        while let Some(output) = self.hosts[node].copies.poll() {
            self.act_for(node, output);
        }
        let now_ms = self.now_ms;
        let host = &mut self.hosts[node];
        let deadline_ms = host.copies.deadline().map(|due| due.as_millis() as u64);
        if let Some(after) = due(deadline_ms, &mut host.tick_at, now_ms) {
            self.at(after, Event::Tick(node));
        }
    }

    fn act_for(&mut self, node: usize, output: CopyOutput<(usize, u64)>) {
        match output {
            CopyOutput::Applied { asker: (program, asked), outcome } => {
                if let (Ok(olds), false) = (outcome, self.has(Defect::ApplyFirst)) {
                    let old = u64::from_le_bytes(olds[..8].try_into().expect("8 bytes"));
                    self.answer(program, asked, old);
                }
            }
            CopyOutput::Say { extent, message } => self.say_for(node, number(extent), message),
            CopyOutput::Wire(WireOutput::Dial { node: to, .. }) => {
                let after = self.dice.between(1, 50);
                self.at(after, Event::Dialed { from: node, to: index(to) });
            }
            CopyOutput::Wire(WireOutput::Send { place, bytes }) => self.send_frame(node, place, bytes),
            CopyOutput::Wire(WireOutput::Close { place }) => self.break_connection(place),
        }
    }

    /// A holder says something to the coordinator.
    fn say_for(&mut self, node: usize, extent: usize, message: FromHolder) {
        match &message {
            FromHolder::Drop { term, node: copy } => {
                self.hosts[node].doubted.insert((extent, index(*copy)));
                self.count("silent copies");
                if self.has(Defect::WaitForEver) {
                    return;
                }
                if self.has(Defect::DropAlone) {
                    let set = HolderSet { term: Term(term.0 + 1), home: node_id(node), copies: BTreeSet::new() };
                    return self.hold(node, extent, ToHolder::Set(set));
                }
            }
            FromHolder::Admit { .. } => self.count("copies made"),
            FromHolder::Broken => self.count("writes that failed"),
            FromHolder::IsFrozen { .. } => {}
        }
        let message = self.tampered(message);
        self.send(node, COORDINATOR, extent, Message::FromHolder(message));
    }

    pub(super) fn look_as_node(&mut self, node: usize) {
        self.at(LOOK_MS, Event::Look(node));
        let now_ms = self.now_ms;
        if !self.hosts[node].is_dead && !self.hosts[node].is_still {
            self.send(node, COORDINATOR, 0, Message::Renew { sent_ms: now_ms });
        }
    }

    pub(super) fn on_tick(&mut self, node: usize) {
        self.hosts[node].tick_at = None;
        if self.may_act(node, Event::Tick(node)) {
            self.with_copies(node, |copies, now, _| copies.tick(now));
        }
    }

    /// False where a node is dead, or stands still; then it hears of the event later.
    fn may_act(&mut self, node: usize, event: Event) -> bool {
        let host = &mut self.hosts[node];
        if host.is_still && !host.is_dead {
            host.inbox.push(event);
        }
        !host.is_dead && !host.is_still
    }

    /// True if the home of an extent at this node answers.
    pub(super) fn is_open(&self, node: usize, extent: usize) -> bool {
        let host = &self.hosts[node];
        let has_lease = self.now_ms < host.lease_until_ms || self.has(Defect::ForgetLease);
        !host.is_dead && has_lease && host.memory.is_open(extent)
    }

    /// An addition is asked for at an open home: the program's call of that number, perhaps not for the first time.
    pub(super) fn add(&mut self, node: usize, extent: usize, (program, asked, word): (usize, u64, usize), call: UpdateCall) {
        if self.hosts[node].memory.count(extent, program) >= call.number {
            self.count("additions that were done before");
        }
        let once = (!self.has(Defect::AddTwice)).then_some(Once { call, at: 0 });
        let write = ExtentWrite { once, ..addition(word, program) };
        if self.has(Defect::ApplyFirst) {
            let olds = self.hosts[node].memory.apply_early(extent, &write);
            let old = u64::from_le_bytes(olds[..8].try_into().expect("8 bytes"));
            self.answer(program, asked, old);
        }
        let at = (name(extent).gid, Slot(extent as u32));
        self.with_copies(node, |copies, now, _| copies.write(now, at, (program, asked), write));
    }

    /// A message of the coordinator.
    pub(super) fn on_node(&mut self, node: usize, extent: usize, message: Message) {
        match message {
            Message::Renewed { sent_ms } => {
                let host = &mut self.hosts[node];
                host.lease_until_ms = host.lease_until_ms.max(sent_ms + LEASE_MS);
            }
            Message::MakeEmpty(set) => {
                self.make(node, extent, set);
                let epoch = self.coordinator.epoch(node);
                self.send(node, COORDINATOR, extent, Message::MadeEmpty(epoch));
            }
            Message::ToHolder(message) => {
                match &message {
                    ToHolder::Elect { set, .. } if !self.hosts[node].memory.is_open(extent) && set.home == node_id(node) => {
                        self.count("homes elected");
                    }
                    ToHolder::Set(set) => {
                        self.hosts[node].doubted.retain(|(at, copy)| *at != extent || set.copies.contains(&node_id(*copy)))
                    }
                    _ => {}
                }
                self.hold(node, extent, message);
            }
            Message::FromHolder(_) | Message::MadeEmpty(_) | Message::Renew { .. } => {}
        }
    }

    pub(super) fn coordinator_met(&mut self, node: usize) {
        if !self.hosts[node].is_dead {
            self.with_copies(node, |copies, now, _| copies.on_coordinator_met(now));
        }
    }

    /// A node tries to reach another.
    pub(super) fn on_dialed(&mut self, from: usize, to: usize) {
        if !self.may_act(from, Event::Dialed { from, to }) {
            return;
        }
        let is_there = |node: usize| !self.hosts[node].is_dead && !self.hosts[node].is_alone;
        // The kernel of a node that stands still takes connections.
        let made = (is_there(from) && is_there(to)).then(|| {
            self.places_ever += 1;
            self.places_ever
        });
        if let Some(place) = made {
            let rests_until_ms = self.now_ms + LEASE_MS;
            self.connections.insert(place, CopyConnection { from, to, path: Ordered::default(), rests_until_ms });
            self.came(place, from, to);
        }
        self.tell(from, CopyInput::Dialed { node: node_id(to), place: made });
    }

    fn came(&mut self, place: u64, from: usize, to: usize) {
        if self.may_act(to, Event::Frame { place, to, frame: FrameBox(Vec::new()) }) {
            self.tell(to, CopyInput::Came { node: node_id(from), place });
        }
    }

    /// A frame leaves a node by a connection.
    fn send_frame(&mut self, node: usize, place: u64, bytes: Vec<u8>) {
        let Some(bytes) = self.tampered_frame(node, place, bytes) else { return };
        let (now_ms, delay_ms) = (self.now_ms, self.delay_ms());
        let Some(connection) = self.connections.get_mut(&place) else { return };
        let (to, after) = match connection.from == node {
            true => (connection.to, connection.path.there(now_ms, delay_ms)),
            false => (connection.from, connection.path.back(now_ms, delay_ms)),
        };
        self.at(after, Event::Frame { place, to, frame: FrameBox(bytes) });
    }

    pub(super) fn on_frame(&mut self, place: u64, to: usize, FrameBox(bytes): FrameBox) {
        let Some(connection) = self.connections.get(&place).copied() else {
            return self.count("messages lost with their connection");
        };
        if !self.may_act(to, Event::Frame { place, to, frame: FrameBox(bytes.clone()) }) {
            return;
        }
        match bytes.is_empty() {
            true => self.tell(to, CopyInput::Came { node: node_id(connection.from), place }),
            false => self.tell(to, CopyInput::Frames { place, frames: &[bytes] }),
        }
    }

    /// The nodes of a connection, the one that made it first.
    pub(super) fn ends(&self, place: u64) -> Option<(usize, usize)> {
        self.connections.get(&place).map(|connection| (connection.from, connection.to))
    }

    /// A connection breaks: what is under way is lost, and each end finds it out in its own time.
    fn break_connection(&mut self, place: u64) {
        let Some(CopyConnection { from, to, .. }) = self.connections.remove(&place) else { return };
        if self.has(Defect::ForgetLost) {
            // Another is there at once, and nobody knows.
            let rests_until_ms = self.now_ms + LEASE_MS;
            self.connections.insert(place, CopyConnection { from, to, path: Ordered::default(), rests_until_ms });
            return;
        }
        for at in [from, to] {
            let after = self.dice.between(1, 300);
            self.at(after, Event::Gone { place, at });
        }
    }

    /// A connection of a node breaks.
    pub(super) fn break_one(&mut self, node: usize) {
        let now_ms = self.now_ms;
        let is_ripe = |connection: &CopyConnection| {
            (connection.from == node || connection.to == node) && now_ms >= connection.rests_until_ms
        };
        let ripe: Vec<u64> =
            self.connections.iter().filter(|(_, connection)| is_ripe(connection)).map(|(place, _)| *place).collect();
        if !ripe.is_empty() {
            self.count("connections broken");
            let place = self.dice.pick(&ripe);
            self.break_connection(place);
        }
    }

    /// All connections of a node break.
    pub(super) fn break_all_of(&mut self, node: usize) {
        let those = |connection: &CopyConnection| connection.from == node || connection.to == node;
        let places: Vec<u64> =
            self.connections.iter().filter(|(_, connection)| those(connection)).map(|(place, _)| *place).collect();
        for place in places {
            let ends = self.connections.remove(&place).map(|connection| [connection.from, connection.to]);
            for at in ends.into_iter().flatten() {
                let after = self.dice.between(1, 300);
                self.at(after, Event::Gone { place, at });
            }
        }
    }

    pub(super) fn on_gone(&mut self, place: u64, at: usize) {
        if self.may_act(at, Event::Gone { place, at }) {
            self.tell(at, CopyInput::Gone { place });
        }
    }
}
