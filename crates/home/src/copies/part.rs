//! Home or copy of one extent at this node.

mod applying;
mod heap;
mod pages;
mod ranges;
mod stores;

use super::pace::Pace;
use super::waiting::WaitingCommand;
use super::wires::CopyWires;
use super::{CopyOutput, Replies, say};
use crate::memory::Bytes;
use crate::queue_calls::is_refusal;
use crate::wire_frame::WireFrame;
use hanare_protocol::copies::{
    CopyLog, CopyOutput as LogOutput, DoneBefore, DoneCalls, HolderSet, HomeLog, HomeOutput, PageTable, PeerState, PendingStores,
    Position, Term, UpdateCall,
};
use hanare_protocol::error::Happened;
use hanare_protocol::heap::Heap;
use hanare_protocol::id::{Gid, NodeId, Slot};
use hanare_protocol::limits::STAGE_LEN;
use hanare_protocol::wire::Malformed;
use hanare_protocol::wire::copies::{CopiedExtent, ExtentCall, ExtentWrite, FromCopy, FromHolder, ToCopy};
use hanare_protocol::wire::sync::SyncRequest;
use hanare_protocol::{Error, Result};
use ranges::Heard;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use stores::HeardStores;

/// The part.
#[derive(Debug)]
pub(super) struct CopiedPart<E, A> {
    extent: E,
    /// The coordinator's order by which it was made.
    order: u64,
    home: Option<HomeLog<Arc<ExtentWrite>>>,
    copy: CopyLog<Arc<ExtentWrite>>,
    /// Commands that wait for their writes.
    askers: BTreeMap<Position, WaitingCommand<A>>,
    heard: BTreeMap<NodeId, Heard>,
    /// A copy to be made when the home is open.
    to_make: Option<(NodeId, u64)>,
    ranges: u64,
    broken: Broken,
    /// Updates that were done.
    done: DoneCalls,
    /// The heap of the region, if it has begun and lies here.
    heap: Option<Heap>,
    /// Stores that wait for the last part of their release.
    pending: PendingStores<Arc<ExtentWrite>>,
    heard_stores: HeardStores,
    /// The hosts that map the extent coherently.
    pages: PageTable,
}

/// A part whose bytes could not be written is neither home nor copy, until a home makes it anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Broken {
    No,
    /// The coordinator has not been told.
    Untold,
    Told,
}

impl<E: Bytes, A: Copy> CopiedPart<E, A> {
    /// An extent that was made together with all its holders, or for a home to make a copy of it.
    pub fn new(me: NodeId, set: &HolderSet, (order, extent): (u64, E)) -> CopiedPart<E, A> {
        let ranges = extent.len_bytes().div_ceil(STAGE_LEN as u64);
        // Opened by its home.
        extent.set_open(false);
        let home = (set.home == me).then(|| HomeLog::new(me, set, ranges));
        let copy = if set.copies.contains(&me) { CopyLog::empty(set.term) } else { CopyLog::default() };
        CopiedPart {
            extent,
            order,
            home,
            copy,
            askers: BTreeMap::new(),
            heard: BTreeMap::new(),
            to_make: None,
            ranges,
            broken: Broken::No,
            done: DoneCalls::default(),
            heap: None,
            pending: PendingStores::default(),
            heard_stores: HeardStores::new(),
            pages: PageTable::default(),
        }
    }

    pub fn is_home(&self) -> bool {
        self.home.is_some()
    }

    /// True if this node is its home, and another may be.
    pub fn is_overtaken(&self) -> bool {
        self.home.as_ref().is_some_and(HomeLog::is_overtaken)
    }

    /// True if this node is the home of the extent in that slot.
    pub fn is_home_in(&self, slot: Slot) -> bool {
        self.home.is_some() && self.extent.slot() == slot && self.broken == Broken::No
    }

    /// Its extent is no more: commands that wait hear that this node has it no longer.
    pub fn end(self, me: NodeId, outputs: &mut VecDeque<CopyOutput<A>>) {
        let outcome = |waiting: WaitingCommand<A>| CopyOutput::Applied { asker: waiting.asker, outcome: Err(moved(me)) };
        outputs.extend(self.askers.into_values().map(outcome));
    }

    /// The extent's region and slot.
    pub fn at(&self) -> (Gid, Slot) {
        (self.extent.gid(), self.extent.slot())
    }

    /// The coordinator's order by which it was made.
    pub fn order(&self) -> u64 {
        self.order
    }

    pub fn has_peer(&self, node: NodeId) -> bool {
        self.home.as_ref().is_some_and(|home| home.peers().any(|(peer, _)| peer == node))
    }

    /// The nodes whose copies count, or are made.
    pub fn peers(&self) -> Vec<NodeId> {
        self.home.iter().flat_map(HomeLog::peers).map(|(node, _)| node).collect()
    }

    /// Returns true while copies are to confirm something, or the coordinator is.
    pub fn awaits_copies(&self) -> bool {
        let Some(home) = self.home.as_ref().filter(|home| !home.is_deposed() || home.is_overtaken()) else { return false };
        !self.askers.is_empty()
            || !home.is_open()
            || self.to_make.is_some()
            || !self.pending.is_empty()
            || home.peers().any(|(_, state)| state != PeerState::Member)
    }

    pub fn ask_again(&mut self) {
        self.home.iter_mut().for_each(HomeLog::ask_again);
        if self.broken == Broken::Told {
            self.broken = Broken::Untold;
        }
    }

    pub fn on_set(&mut self, set: &HolderSet) {
        let was_overtaken = self.is_overtaken();
        self.home.iter_mut().for_each(|home| home.on_set(set));
        if was_overtaken && !self.is_overtaken() {
            // Copies and programs count as heard of from here on.
            self.heard.clear();
            self.heard_stores.clear();
        }
    }

    /// Another node is to be home of the set that this one may not have heard of.
    pub fn release(&mut self, me: NodeId, set: &HolderSet) {
        self.elect(me, set, &BTreeMap::new());
        self.home.iter_mut().for_each(|home| home.release(set.term));
    }

    pub fn freeze(&mut self, term: Term, extent: CopiedExtent, outputs: &mut VecDeque<CopyOutput<A>>) {
        if self.broken != Broken::No {
            return;
        }
        if let Some(home) = &mut self.home {
            return home.freeze(term);
        }
        if let Some(LogOutput::IsFrozen { term, position }) = self.copy.freeze(term) {
            outputs.push_back(say(extent, FromHolder::IsFrozen { term, position }));
        }
    }

    pub fn elect(&mut self, me: NodeId, set: &HolderSet, has: &BTreeMap<NodeId, Position>) {
        if self.broken != Broken::No {
            return;
        }
        if self.home.is_some() {
            return self.on_set(set);
        }
        if let Some(log) = self.copy.elect(set.term) {
            self.heard.clear();
            self.home = Some(HomeLog::elected(me, set, self.ranges, log, has));
        }
    }

    /// The home makes a copy on a node.
    pub fn make(&mut self, node: NodeId, order: u64, now: Duration) {
        let Some(home) = &mut self.home else { return };
        if home.make(node, order) {
            self.heard.insert(node, Heard::new(now));
        } else if !home.is_open() {
            // The coordinator says it once: a home that was just elected waits for its copies first.
            self.to_make = Some((node, order));
        }
    }

    pub fn on_reconnected(&mut self, node: NodeId, now: Duration) {
        if let Some(home) = &mut self.home {
            self.heard.insert(node, Heard::new(now));
            home.on_reconnected(node);
        }
    }

    pub fn on_silent(&mut self, node: NodeId) {
        self.home.iter_mut().for_each(|home| home.on_silent(node));
    }

    /// A command writes. A part that its call has done before is not done again. Returns the elements before where nothing is left to do.
    ///
    /// **Errors**: nothing is done. [`Error::GrantRefused`]: this node does not answer as home, or the call is still under way;
    /// [`Error::Broken`]: nobody knows any more if a repeated call was done.
    pub fn write(&mut self, now: Duration, (me, asker): (NodeId, A), mut write: ExtentWrite) -> Result<Option<Vec<u8>>> {
        self.hear_stores(now, &write);
        let refused = || Error::GrantRefused { gid: self.extent.gid(), node: me };
        // Another part of a call without a number may be done: it must not be sent again as one that did nothing.
        let closed = if write.once.is_none() { moved(me) } else { refused() };
        let home = self.home.as_mut().filter(|home| home.is_open()).ok_or(closed)?;
        let mut olds = Vec::new();
        if let Some(once) = write.once {
            let is_its = |call: UpdateCall| (call.client, call.number) == (once.call.client, once.call.number);
            // Stages of one sending may be under way together; a repetition waits for the end of the sending before.
            if once.call.is_repeat && self.askers.values().any(|waiting| waiting.call.is_some_and(is_its)) {
                return Err(refused());
            }
            match self.done.before(&once, write.len_bytes()) {
                DoneBefore::Nothing => {}
                DoneBefore::Bytes { len, olds } if len == write.len_bytes() => return Ok(Some(olds)),
                DoneBefore::Bytes { len, olds: before } => (write, olds) = (write.skip(len), before),
                // A put that is done again has its effect at another time, no more.
                DoneBefore::Unknown if !write.is_once() => {}
                DoneBefore::Unknown => return Err(unknown(me)),
            }
        }
        let call = write.once.map(|once| once.call);
        if self.askers.is_empty() {
            // Copies are expected to confirm from here on.
            for (node, _) in home.peers() {
                self.heard.entry(node).or_default().at = now;
            }
        }
        let position = home.write(Arc::new(write)).ok_or_else(refused)?;
        self.askers.insert(position, WaitingCommand::new(asker, call, olds));
        Ok(None)
    }

    /// Asks copies that are to confirm something how far they are, and gives up those that are silent.
    pub fn look_at_copies(&mut self, now: Duration, silent: Duration) {
        if let Some((node, order)) = self.to_make.take() {
            self.make(node, order, now);
        }
        let Some(home) = &mut self.home else { return };
        home.ask_again();
        if home.is_deposed() {
            return;
        }
        let peers: Vec<(NodeId, PeerState)> = home.peers().collect();
        for (node, state) in peers {
            let waits = state != PeerState::Member || !self.askers.is_empty() || !home.is_open();
            let heard = self.heard.entry(node).or_insert_with(|| Heard::new(now));
            if waits && now.saturating_sub(heard.at) >= silent {
                home.on_silent(node);
            } else if waits && state != PeerState::Making {
                home.ask(node);
            }
        }
    }

    /// A copy's message.
    pub fn on_from_copy(&mut self, now: Duration, node: NodeId, message: FromCopy) {
        let Some(home) = &mut self.home else { return };
        if let Some(heard) = self.heard.get_mut(&node) {
            heard.at = now;
        }
        match message {
            FromCopy::Has { term, position } => home.on_has(node, term, position),
            FromCopy::Stale { term } => home.on_stale(term),
            FromCopy::Digests { term, position, digests } => {
                let counts = home.peers().any(|(peer, state)| peer == node && state != PeerState::Making);
                if counts
                    && term == home.term()
                    && let Some(waiting) = self.askers.get_mut(&position)
                {
                    waiting.on_digests(node, digests);
                }
            }
            FromCopy::Took { term, .. } if term <= home.term() => {
                if let Some(heard) = self.heard.get_mut(&node) {
                    heard.confirmed = heard.ranges.pop_front().unwrap_or(heard.confirmed);
                }
            }
            FromCopy::Took { .. } => {}
        }
    }

    /// A home's message. **Errors**: one that no home sends.
    pub fn on_to_copy(&mut self, message: ToCopy) -> Result<Replies, Malformed> {
        if let Some(replies) = self.turn_away(term_of(&message), matches!(message, ToCopy::Make { .. })) {
            return Ok(replies);
        }
        let outputs = match message {
            ToCopy::Write { term, position, stable, entry } => {
                entry.check(self.extent.len_bytes())?;
                self.copy.write(term, (position, entry), stable)
            }
            ToCopy::Ask { term } => self.copy.ask(term).into_iter().collect(),
            ToCopy::Make { term, at } => {
                let stale = self.copy.make(term, at);
                if stale.is_none() {
                    // The bytes that were here are void.
                    (self.home, self.broken, self.done, self.heap) = (None, Broken::No, DoneCalls::default(), None);
                    (self.pending, self.pages) = (PendingStores::default(), PageTable::default());
                    self.extent.set_open(false);
                    self.extent.set_ports(&[]);
                }
                stale.into_iter().collect()
            }
            ToCopy::Range { term, range, bytes } => return self.take_range(term, range, &bytes),
            ToCopy::Made { term, done, heap, ports } => {
                if !done.is_within_limits() {
                    return Err(Malformed("more updates than an extent remembers"));
                }
                let outcome = self.copy.made(term);
                if matches!(outcome, LogOutput::Has { .. }) {
                    (self.done, self.heap) = (done, heap);
                    self.note_heap();
                    if !self.extent.set_ports(&ports) {
                        return Err(Malformed("ports that no queues have"));
                    }
                }
                vec![outcome]
            }
            ToCopy::Pending { term, entry } => return self.take_pending(term, entry),
            ToCopy::Pages { term, table } => {
                table.check()?;
                if self.copy.takes_range(term) {
                    self.pages = table;
                }
                Vec::new()
            }
        };
        Ok(self.carry_out(outputs))
    }

    /// The replies to a message that this part does not take. Only a home of a later term makes a home or a broken part a copy again.
    fn turn_away(&self, term: Term, makes: bool) -> Option<Replies> {
        match &self.home {
            Some(home) if term < home.term() => Some(vec![FromCopy::Stale { term: home.term() }]),
            Some(home) if term == home.term() || !makes => Some(Vec::new()),
            _ if self.broken != Broken::No && !makes => Some(Vec::new()),
            _ => None,
        }
    }

    /// Does what the copy's rules order.
    fn carry_out(&mut self, outputs: Vec<LogOutput<Arc<ExtentWrite>>>) -> Replies {
        let mut replies = Vec::new();
        for output in outputs {
            match output {
                LogOutput::Apply { position, entry } => match self.apply_noted(&entry) {
                    Ok(digests) if matches!(entry.call, Some(ExtentCall::Digests(_))) => {
                        replies.push(FromCopy::Digests { term: self.copy.term(), position, digests });
                    }
                    Ok(_) => {}
                    Err(error) if is_refusal(&entry, &error) => {}
                    Err(error) => {
                        self.break_down(&error);
                        return Vec::new();
                    }
                },
                LogOutput::Has { term, position } => replies.push(FromCopy::Has { term, position }),
                LogOutput::Stale { term } => replies.push(FromCopy::Stale { term }),
                // The coordinator freezes, no home.
                LogOutput::IsFrozen { .. } => {}
            }
        }
        replies
    }

    /// Bytes could not be written: what is here is no copy any more. The coordinator is told, and others go on without it.
    fn break_down(&mut self, error: &Error) {
        tracing::error!("a copy is given up, because its bytes could not be written: {error}");
        self.broken = Broken::Untold;
    }

    /// Carries out what the home's rules order.
    pub fn drive(&mut self, extent: CopiedExtent, wires: &mut CopyWires, pace: &mut Pace, outputs: &mut VecDeque<CopyOutput<A>>) {
        self.hold_back();
        loop {
            self.carry_out_all(extent, wires, outputs);
            // A copy is whole when all that is applied is in its ranges.
            if !self.send_ranges(extent, pace) {
                break;
            }
        }
        if self.broken == Broken::Untold {
            self.broken = Broken::Told;
            outputs.push_back(say(extent, FromHolder::Broken));
        }
    }

    fn carry_out_all(&mut self, extent: CopiedExtent, wires: &mut CopyWires, outputs: &mut VecDeque<CopyOutput<A>>) {
        while let Some(output) = self.home.as_mut().and_then(HomeLog::poll) {
            let (to, message) = match output {
                HomeOutput::Write { to, term, position, stable, entry } => {
                    self.count_written(to, &entry);
                    (to, ToCopy::Write { term, position, stable, entry })
                }
                HomeOutput::Ask { to, term } => (to, ToCopy::Ask { term }),
                HomeOutput::Make { to, term, at } => (to, ToCopy::Make { term, at }),
                HomeOutput::Made { to, term } => {
                    // A node of the last release does not know them. A flush that waits is sent in pieces then.
                    let knows_them = wires.speaks(to, SyncRequest::STORES_SINCE);
                    for entry in self.pending.parts().filter(|_| knows_them) {
                        wires.send(to, || WireFrame::to_copy(extent, ToCopy::Pending { term, entry: entry.clone() }), outputs);
                    }
                    if knows_them && self.pages != PageTable::default() {
                        let table = self.pages.clone();
                        wires.send(to, || WireFrame::to_copy(extent, ToCopy::Pages { term, table }), outputs);
                    }
                    let (done, heap, ports) = (self.done.clone(), self.heap.clone(), self.extent.ports());
                    (to, ToCopy::Made { term, done, heap, ports })
                }
                HomeOutput::Range { to, term, range } => {
                    match self.frame_of(extent, term, range) {
                        Ok(frame) => wires.send(to, || frame.into(), outputs),
                        Err(error) => {
                            tracing::error!("a copy is not made, because bytes could not be read: {error}");
                            self.on_silent(to);
                        }
                    }
                    continue;
                }
                HomeOutput::Apply { position, entry } => {
                    self.apply(position, &entry, outputs);
                    continue;
                }
                HomeOutput::Drop { term, node } => {
                    outputs.push_back(say(extent, FromHolder::Drop { term, node }));
                    continue;
                }
                HomeOutput::Admit { term, node, order } => {
                    outputs.push_back(say(extent, FromHolder::Admit { term, node, order }));
                    continue;
                }
                HomeOutput::Close => {
                    self.extent.set_open(false);
                    continue;
                }
                HomeOutput::Released { term } => {
                    // Whoever has the locks, too, may know better.
                    outputs.push_back(say(extent, FromHolder::Released { term, leaves_doubt: true }));
                    continue;
                }
                HomeOutput::Open => {
                    self.extent.set_open(true);
                    continue;
                }
                HomeOutput::Deposed => {
                    self.depose(outputs);
                    continue;
                }
            };
            wires.send(to, || WireFrame::to_copy(extent, message), outputs);
        }
    }
}

/// The error for a command whose write may be at another home, or nowhere.
pub(super) fn moved(me: NodeId) -> Error {
    Error::NodeLost { node: me, reason: "another node has become home of these bytes".to_owned() }
}

/// The error for a repeated call of which nobody knows any more whether it was done.
fn unknown(me: NodeId) -> Error {
    let reason = "others had too many updates since it was sent first".to_owned();
    Error::Broken { node: me, what: "an update".to_owned(), reason, happened: Happened::Unknown }
}

fn term_of(message: &ToCopy) -> Term {
    match message {
        ToCopy::Write { term, .. } | ToCopy::Ask { term } | ToCopy::Make { term, .. } => *term,
        ToCopy::Range { term, .. } | ToCopy::Made { term, .. } | ToCopy::Pending { term, .. } => *term,
        ToCopy::Pages { term, .. } => *term,
    }
}
