//! Connections between nodes. Each keeps order and loses nothing until it breaks, and either side sees its end at its own time.
//!
//! Every node makes the connections that its own messages leave by. For a while a live node cannot be reached; a try that failed may succeed
//! after all, beside the next.

use super::{Defect, Event, Life, PageWorld, SILENCE_MS};
use crate::check::{Check, check};
use hanare_home::PageInput;
use hanare_protocol::id::NodeId;
use hanare_protocol::limits::{ANSWER_MS, REACH_MS};
use hanare_protocol::versions::NEWEST;

/// A connection breaks with one of so many messages that a network without connections would lose.
const LOSSES_A_BREAK: u64 = 10;
/// Time after [`REACH_MS`] that a node may still be dialed: a try and a pause.
const GIVE_UP_LATE_MS: u64 = 1_000;
/// Time that a try takes, at most.
const TRY_MS: u64 = 200;

/// Numbers of connections are behind those of threads' links and commands: a node has one numbering for all.
const WIRES_FROM: u64 = 1 << 40;

impl PageWorld {
    /// True if a try to reach a life succeeds at this moment.
    pub(super) fn is_reached(&self, from: Life, to: Life) -> bool {
        let is_cut = self.cuts.get(&(from, to)).is_some_and(|until_ms| self.now_ms < *until_ms);
        self.processes.contains_key(&to) && !self.still.contains_key(&to) && !is_cut
    }

    /// A node begins a try to reach another.
    pub(super) fn dial(&mut self, from: Life, node: usize) {
        let after = self.dice.pick(&[0, 1, 20, TRY_MS]);
        self.count("tries to connect");
        self.at(after, Event::Tried { from, node, is_spare: false });
    }

    /// The outcome of a try.
    pub(super) fn on_tried(&mut self, from: Life, node: usize, is_spare: bool) -> Check {
        if !self.processes.contains_key(&from) {
            return Ok(());
        }
        let there = self.nodes[node].filter(|to| self.is_reached(from, *to));
        let named = NodeId(node as u32);
        let Some(to) = there else {
            return if is_spare { Ok(()) } else { self.on_not_reached(from, node) };
        };
        self.unreached.remove(&(from, node));
        let number = WIRES_FROM + self.draw();
        self.count("connections made");
        let place = self.wires.make(number, self.course.now_ms, from, to);
        self.tell(from, PageInput::Dialed { node: named, place: Some(place), spoken: NEWEST })
    }

    fn on_not_reached(&mut self, from: Life, node: usize) -> Check {
        let (now_ms, named) = (self.now_ms, NodeId(node as u32));
        let tries = self.unreached.entry((from, node)).or_insert(now_ms..now_ms);
        if now_ms - tries.end > GIVE_UP_LATE_MS {
            // The node was given up meanwhile, at its first try after it stood still itself. This try is for a new channel.
            *tries = now_ms..now_ms;
        }
        tries.end = now_ms;
        let away_ms = now_ms - tries.start;
        let is_late = away_ms > REACH_MS + GIVE_UP_LATE_MS;
        check(!is_late, || format!("life {from} has not reached node {node} for {away_ms} ms, and does not give it up"))?;
        self.count("tries to connect that failed");
        if self.has(Defect::KeepDead) || self.has(Defect::DialOnce) && away_ms > 0 {
            return Ok(());
        }
        if self.has(Defect::GiveUpSoon) {
            return self.give_up(from, node);
        }
        if self.has(Defect::DialForEver) {
            let place = 2 * (WIRES_FROM + self.draw());
            self.tell(from, PageInput::Dialed { node: named, place: Some(place), spoken: NEWEST })?;
            return self.tell(from, PageInput::WireGone { place });
        }
        if self.dice.chance(1_000) {
            let after = self.dice.between(100, 400);
            self.at(after, Event::Tried { from, node, is_spare: true });
        }
        if away_ms + TRY_MS >= REACH_MS {
            // The node may be given up with this try. A later one is of a channel that begins anew.
            self.unreached.remove(&(from, node));
        }
        self.tell(from, PageInput::Dialed { node: named, place: None, spoken: NEWEST })
    }

    /// Sends a frame, which breaks the connection with it now and then.
    pub(super) fn send(&mut self, life: Life, place: u64, bytes: Vec<u8>) {
        let Some(other) = self.wires.at(place ^ 1).filter(|_| self.wires.is_open_at(place)) else { return };
        let Some((bytes, is_late)) = self.tamper((life, other), place, bytes) else { return };
        let (breaks, delay_ms, now_ms) = (self.weather.loss / LOSSES_A_BREAK, self.delay_ms(), self.now_ms);
        let is_broken = self.dice.chance(breaks);
        if is_broken {
            self.wires.cut(place / 2, now_ms + delay_ms / 2);
        }
        self.count("frames");
        match self.wires.arrival(place, now_ms, delay_ms) {
            Some(after) => self.at(after + if is_late { 500 } else { 0 }, Event::Frame { place: place ^ 1, bytes }),
            None => self.count("messages lost"),
        }
        if is_broken {
            self.break_wire(place / 2);
        }
    }

    pub(super) fn on_frame(&mut self, place: u64, bytes: Vec<u8>) -> Check {
        if !self.wires.is_open(place, self.now_ms) {
            self.count("messages lost");
            return Ok(());
        }
        let Some(life) = self.wires.at(place).filter(|life| self.processes.contains_key(life)) else { return Ok(()) };
        let bytes = self.arrives(bytes);
        self.tell(life, PageInput::Frames { place, frames: &[bytes] })
    }

    /// A side closes a connection; the other sees it later.
    pub(super) fn close(&mut self, place: u64) {
        self.wires.cut(place / 2, self.course.now_ms);
        self.wires.close(place);
        let after = self.dice.pick(&[0, 1, 50, 500]);
        self.at(after, Event::WireEnded { place: place ^ 1 });
    }

    /// A connection has broken. Each end notices later.
    fn break_wire(&mut self, number: u64) {
        self.count("connections that broke");
        for place in [2 * number, 2 * number + 1] {
            let after = self.dice.pick(&[0, 1, 50, 500]);
            self.at(after, Event::WireEnded { place });
        }
    }

    pub(super) fn on_wire_ended(&mut self, place: u64) -> Check {
        let Some(life) = self.wires.at(place) else { return Ok(()) };
        if self.wires.close(place) { self.tell(life, PageInput::WireGone { place }) } else { Ok(()) }
    }

    /// The connections of a life that is over end; of some ends the network says nothing before it gives up to send again.
    pub(super) fn end_wires_of(&mut self, gone: Life, is_soon_told: bool, (from_ms, to_ms): (u64, u64)) {
        let those: Vec<u64> = self.wires.of(gone).collect();
        for place in those {
            self.wires.cut(place / 2, self.course.now_ms);
            self.wires.close(place);
            let is_soon = is_soon_told || self.dice.chance(5_000);
            let after = if is_soon { self.dice.between(from_ms, to_ms) } else { self.dice.between(SILENCE_MS, ANSWER_MS) };
            self.at(after, Event::WireEnded { place: place ^ 1 });
        }
    }

    /// The connections from a life to another break, and for a while no other can be made that way.
    pub(super) fn cut(&mut self, from: Life, to: Life) {
        let now_ms = self.now_ms;
        let until_ms = now_ms + self.dice.pick(&[0, 300, 1_000, 2_000]);
        let is_there = |place: &u64| place.is_multiple_of(2) && self.wires.at(place ^ 1) == Some(to);
        let those: Vec<u64> = self.wires.of(from).filter(is_there).map(|place| place / 2).collect();
        if those.is_empty() {
            return;
        }
        self.note(format!("{from} does not reach {to} until {until_ms} ms"));
        self.count("ways that were cut");
        self.cuts.insert((from, to), until_ms);
        for number in those {
            self.wires.cut(number, now_ms);
            self.break_wire(number);
        }
    }
}
