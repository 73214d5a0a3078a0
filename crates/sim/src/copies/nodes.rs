//! A node: homes and copies of extents, as it drives them by messages and its clock.

use super::{
    COORDINATOR, CopyWorld, Defect, EXTENT_COUNT, Entry, Event, LEASE_MS, LOOK_MS, Message, SILENT_MS, WORD_COUNT, index, node_id,
};
use hanare_protocol::copies::{CopyLog, CopyOutput, HolderSet, HomeLog, HomeOutput, PeerState, Position, Term, Writers};
use hanare_protocol::id::NodeId;
use std::collections::BTreeMap;

/// A node's part of one extent.
#[derive(Clone, Debug, Default)]
pub(super) struct ExtentPart {
    pub home: Option<HomeLog<Entry>>,
    pub copy: CopyLog<Entry>,
    pub words: [u64; WORD_COUNT],
    pub known: Writers<u64, u64>,
    /// Programs whose additions wait here, with the number of each.
    pub waiting: BTreeMap<u64, u64>,
    /// When each copy was heard last.
    heard_ms: BTreeMap<usize, u64>,
    /// The write that a defect keeps back.
    late: Option<Entry>,
}

/// A node.
#[derive(Clone, Debug)]
pub(super) struct CopyHost {
    pub is_dead: bool,
    /// The coordinator does not reach it.
    pub is_cut: bool,
    /// Other nodes do not reach it either; programs do.
    pub is_alone: bool,
    pub is_still: bool,
    /// Messages that come while it stands still.
    pub inbox: Vec<Event>,
    pub lease_until_ms: u64,
    pub extents: Vec<ExtentPart>,
}

impl CopyHost {
    /// A node with what these sets give it; none for one that begins anew.
    pub fn new(node: usize, sets: &[HolderSet]) -> CopyHost {
        let mut extents = vec![ExtentPart::default(); EXTENT_COUNT];
        for (held, set) in extents.iter_mut().zip(sets) {
            if set.home == node_id(node) {
                held.home = Some(HomeLog::new(node_id(node), set, WORD_COUNT as u64));
            } else if set.copies.contains(&node_id(node)) {
                held.copy = CopyLog::empty(set.term);
            }
        }
        CopyHost {
            is_dead: false,
            is_cut: false,
            is_alone: false,
            is_still: false,
            inbox: Vec::new(),
            lease_until_ms: LEASE_MS,
            extents,
        }
    }

    pub fn die(&mut self) {
        *self = CopyHost { is_dead: true, ..CopyHost::new(0, &[]) };
    }

    /// True if a home here wants to go on without that node, or makes it.
    pub fn doubts(&self, extent: usize, node: usize) -> bool {
        let home = self.extents[extent].home.as_ref();
        home.is_some_and(|home| home.peers().any(|(peer, state)| index(peer) == node && state == PeerState::Silent))
    }
}

/// The set that a home would make for itself without a copy.
fn without(home: &HomeLog<Entry>, node: usize, copy: NodeId) -> HolderSet {
    let copies = home.peers().map(|(peer, _)| peer).filter(|peer| *peer != copy).collect();
    HolderSet { term: Term(home.term().0 + 1), home: node_id(node), copies }
}

impl CopyWorld {
    /// True if the home of an extent at this node answers.
    pub(super) fn is_open(&self, node: usize, extent: usize) -> bool {
        let host = &self.hosts[node];
        let has_lease = self.now_ms < host.lease_until_ms || self.has(Defect::ForgetLease);
        let home = host.extents[extent].home.as_ref();
        !host.is_dead && has_lease && home.is_some_and(HomeLog::is_open)
    }

    pub(super) fn look_as_node(&mut self, node: usize) {
        self.at(LOOK_MS, Event::Look(node));
        let (now_ms, host) = (self.now_ms, &self.hosts[node]);
        if host.is_dead || host.is_still {
            return;
        }
        self.send(node, COORDINATOR, 0, Message::Renew { sent_ms: now_ms });
        for extent in 0..EXTENT_COUNT {
            let held = &mut self.hosts[node].extents[extent];
            let Some(home) = &mut held.home else { continue };
            let peers: Vec<(NodeId, PeerState)> = home.peers().collect();
            home.ask_again();
            for (peer, state) in peers {
                let heard_ms = *held.heard_ms.entry(index(peer)).or_insert(now_ms);
                if state == PeerState::Making {
                    home.send_range(peer);
                } else if now_ms > heard_ms + SILENT_MS {
                    self.course.counts.entry("silent copies").and_modify(|count| *count += 1).or_insert(1);
                    home.on_silent(peer);
                    if self.course.defect == Some(Defect::DropAlone) {
                        home.on_set(&without(home, node, peer));
                    }
                } else {
                    home.ask(peer);
                }
            }
            self.drive_home(node, extent);
        }
    }

    /// Carries out what a home wants.
    pub(super) fn drive_home(&mut self, node: usize, extent: usize) {
        while let Some(output) = self.hosts[node].extents[extent].home.as_mut().and_then(HomeLog::poll) {
            match output {
                HomeOutput::Write { to, term, position, stable, entry } => {
                    let is_made = |home: &HomeLog<Entry>| home.peers().any(|peer| peer == (to, PeerState::Making));
                    if self.has(Defect::MissWhileMade) && self.hosts[node].extents[extent].home.as_ref().is_some_and(is_made) {
                        continue;
                    }
                    self.send(node, index(to), extent, Message::Write { term, position, stable, entry });
                }
                HomeOutput::Ask { to, term } => self.send(node, index(to), extent, Message::Ask { term }),
                HomeOutput::Make { to, term, at } => self.send(node, index(to), extent, Message::Make { term, at }),
                HomeOutput::Range { to, term, range } => {
                    let word = range as usize;
                    let value = self.hosts[node].extents[extent].words[word];
                    self.send(node, index(to), extent, Message::Range { term, word, value });
                    if self.has(Defect::AdmitEarly) {
                        let epoch = self.coordinator.epoch(index(to));
                        self.send(node, COORDINATOR, extent, Message::Admit { term, node: to, epoch });
                    }
                }
                HomeOutput::Made { to, term } => {
                    self.count("copies made");
                    let known = self.hosts[node].extents[extent].known.clone();
                    self.send(node, index(to), extent, Message::Made { term, known });
                }
                HomeOutput::Apply { entry, .. } if !self.has(Defect::ApplyFirst) => self.apply(node, extent, entry),
                HomeOutput::Drop { term, node: copy } => self.send(node, COORDINATOR, extent, Message::Drop { term, node: copy }),
                HomeOutput::Admit { term, node: copy, epoch } => {
                    self.send(node, COORDINATOR, extent, Message::Admit { term, node: copy, epoch });
                }
                HomeOutput::Deposed => self.count("homes deposed"),
                HomeOutput::Apply { .. } | HomeOutput::Open => {}
            }
        }
    }

    /// An addition at a node, which answers the program where that waits here.
    pub(super) fn apply(&mut self, node: usize, extent: usize, (program, number, word): Entry) {
        let held = &mut self.hosts[node].extents[extent];
        let before = held.words[word];
        held.words[word] += 1;
        held.known.applied(program, number, before);
        if held.home.is_some() && held.waiting.get(&program) == Some(&number) {
            held.waiting.remove(&program);
            self.answer(node, extent, program as usize, number, Some(before));
        }
    }

    /// An addition is asked for at an open home.
    pub(super) fn add(&mut self, node: usize, extent: usize, entry: Entry) {
        let (program, number, _) = entry;
        let is_twice = self.has(Defect::AddTwice);
        let held = &mut self.hosts[node].extents[extent];
        if held.waiting.get(&program) == Some(&number) || held.known.is_past(&program, number) {
            return;
        }
        if let Some(before) = held.known.result(&program, number).copied().filter(|_| !is_twice) {
            self.count("additions that the home before had done");
            return self.answer(node, extent, program as usize, number, Some(before));
        }
        let wrote = held.home.as_mut().and_then(|home| home.write(entry));
        if wrote.is_some() {
            held.waiting.insert(program, number);
            if self.has(Defect::ApplyFirst) {
                self.apply(node, extent, entry);
            }
            self.drive_home(node, extent);
        }
    }

    fn on_copy(&mut self, (from, node): (usize, usize), extent: usize, outputs: impl IntoIterator<Item = CopyOutput<Entry>>) {
        for output in outputs {
            match output {
                CopyOutput::Apply { entry, .. } if self.has(Defect::ApplyLate) => {
                    let late = self.hosts[node].extents[extent].late.replace(entry);
                    late.into_iter().for_each(|entry| self.apply(node, extent, entry));
                }
                CopyOutput::Apply { entry, .. } => self.apply(node, extent, entry),
                CopyOutput::Has { term, position } => self.send(node, from, extent, Message::Has { term, position }),
                CopyOutput::Stale { term } => self.send(node, from, extent, Message::Stale { term }),
                CopyOutput::IsFrozen { term, position } => {
                    let is_least = self.has(Defect::ElectLeast);
                    let position = if is_least { Position(u64::MAX - position.0) } else { position };
                    self.send(node, COORDINATOR, extent, Message::IsFrozen { term, position });
                }
            }
        }
    }

    pub(super) fn on_node(&mut self, from: usize, node: usize, extent: usize, message: Message) {
        let now_ms = self.now_ms;
        let held = &mut self.hosts[node].extents[extent];
        match message {
            Message::Renewed { sent_ms } => {
                let host = &mut self.hosts[node];
                host.lease_until_ms = host.lease_until_ms.max(sent_ms + LEASE_MS);
            }
            Message::Write { term, position, stable, entry } if held.home.is_none() => {
                let outputs = held.copy.write(term, (position, entry), stable);
                self.on_copy((from, node), extent, outputs);
            }
            Message::Ask { term } if held.home.is_none() => {
                let output = held.copy.ask(term);
                self.on_copy((from, node), extent, output);
            }
            Message::Make { term, at } if held.home.as_ref().is_none_or(|home| home.term() < term) => {
                (held.home, held.late) = (None, None);
                held.waiting.clear();
                let output = held.copy.make(term, at);
                self.on_copy((from, node), extent, output);
            }
            Message::Range { term, word, value } if held.copy.takes_range(term) => held.words[word] = value,
            Message::Made { term, known } if held.home.is_none() => {
                held.known = known;
                let output = held.copy.made(term);
                self.on_copy((from, node), extent, [output]);
            }
            Message::Freeze { term } if held.home.is_none() => {
                let output = held.copy.freeze(term);
                self.on_copy((from, node), extent, output);
            }
            Message::Elect { set, has } => self.on_elected(node, extent, &set, &has),
            Message::Has { term, position } => {
                held.heard_ms.insert(from, now_ms);
                held.home.iter_mut().for_each(|home| home.on_has(node_id(from), term, position));
            }
            Message::Stale { term } => held.home.iter_mut().for_each(|home| home.on_stale(term)),
            Message::Set(set) => held.home.iter_mut().for_each(|home| home.on_set(&set)),
            Message::MakeAt { node: copy, epoch } => {
                held.heard_ms.insert(index(copy), now_ms);
                held.home.iter_mut().for_each(|home| home.make(copy, epoch));
            }
            _ => {}
        }
        self.drive_home(node, extent);
    }

    fn on_elected(&mut self, node: usize, extent: usize, set: &HolderSet, has: &BTreeMap<NodeId, Position>) {
        let held = &mut self.hosts[node].extents[extent];
        if let Some(home) = &mut held.home {
            return home.on_set(set);
        }
        if let Some(log) = held.copy.elect(set.term) {
            held.heard_ms.clear();
            held.home = Some(HomeLog::elected(node_id(node), set, WORD_COUNT as u64, log, has));
            self.count("homes elected");
        }
    }

    pub(super) fn nodes_reconnected(&mut self, one: usize, other: usize) {
        for (node, peer) in [(one, other), (other, one)] {
            for extent in 0..EXTENT_COUNT {
                self.hosts[node].extents[extent].home.iter_mut().for_each(|home| home.on_reconnected(node_id(peer)));
                self.drive_home(node, extent);
            }
        }
    }
}
