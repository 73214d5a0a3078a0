//! The homes and copies of a node, driven as its process drives them, and the connections between nodes.

use super::process::{Process, ProcessLife, address};
use super::queues::is_of_queue;
use super::senders::is_of_sender;
use super::{Cluster, Defect, Event, FrameBox};
use crate::check::Check;
use hanare_home::{CopyInput, CopyOutput, Input, Output, PageVectors, SyncOutput, WireOutput};
use hanare_protocol::id::NodeId;
use hanare_protocol::versions::OLDEST;
use hanare_protocol::wire::copies::{CopiedExtent, FromHolder};

/// Faults break a connection after that: one that broke again and again would be a fault of its ends.
const REST_MS: u64 = 3_000;

/// Time for which a connection loses frames, where nobody is told.
const LOST_MS: u64 = 100;

impl Cluster {
    /// The process of a life, while it runs.
    pub(super) fn process(&mut self, (node, life): ProcessLife) -> Option<&mut Process> {
        self.hosts[node].process.as_mut().filter(|process| process.life == life)
    }

    /// A node's home hears of an event, and what comes of it is done.
    pub(super) fn tell<'a>(&mut self, at: ProcessLife, input: impl Into<Input<'a, PageVectors>>) -> Check {
        let now_ms = self.now_ms;
        let Some(process) = self.process(at) else { return Ok(()) };
        process.lender.has_lease = process.member.homes_until_ms() > now_ms;
        let outputs = process.served.tell(now_ms, input.into(), &process.lender);
        self.take(at, outputs)
    }

    /// Does what a node's home orders.
    pub(super) fn take(&mut self, at: ProcessLife, outputs: Vec<Output<PageVectors>>) -> Check {
        for output in outputs {
            match output {
                Output::Copies(CopyOutput::Applied { asker, outcome }) if is_of_sender(asker) => {
                    self.on_sender_applied(at, asker, outcome)?;
                }
                Output::Copies(CopyOutput::Applied { asker, outcome }) if is_of_queue(asker) => {
                    self.on_queue_applied(at, asker, outcome)?;
                }
                Output::Copies(CopyOutput::Applied { asker, outcome }) => self.on_applied(at, asker, outcome)?,
                Output::Copies(CopyOutput::Say { extent, message }) => self.say(at, extent, message)?,
                Output::Copies(CopyOutput::Wire(output)) => self.do_wire(at, output),
                Output::Sync(SyncOutput::Answer(waiter, outcome)) if is_of_queue(waiter.link) => {
                    self.on_queue_answered(waiter, outcome)?;
                }
                Output::Sync(output) => self.take_of_locks(at, output)?,
                Output::Pages(_) => return Err("no program asked for pages".to_owned()),
            }
        }
        let now_ms = self.now_ms;
        let due = self.process(at).and_then(|process| process.served.next_tick(now_ms));
        if let Some(after) = due.filter(|_| !self.has(Defect::ForgetBounds)) {
            let late_ms = if self.has(Defect::TickLate) { 40 } else { 0 };
            self.at(after + late_ms, Event::Serve { at });
        }
        Ok(())
    }

    pub(super) fn on_serve(&mut self, at: ProcessLife) -> Check {
        self.tell(at, Input::Tick)?;
        self.drain_node(at.0)
    }

    /// A holder says something to the coordinator.
    fn say(&mut self, at: ProcessLife, extent: CopiedExtent, message: FromHolder) -> Check {
        match &message {
            FromHolder::Drop { node: copy, .. } => {
                self.count("silent copies");
                let Some(process) = self.process(at) else { return Ok(()) };
                process.doubted.insert((extent, *copy));
            }
            FromHolder::Admit { .. } => self.count("copies made"),
            FromHolder::Broken => self.count("writes that failed"),
            FromHolder::Released { .. } if self.process(at).is_some_and(|process| process.served.is_overtaken(extent)) => {
                self.count("homes overtaken by an election");
                self.judge_home(at, extent, true);
            }
            FromHolder::Released { .. } => self.count("homes that stopped for another"),
            FromHolder::Stays { .. } => self.count("homes that stayed because of locks"),
            FromHolder::IsFrozen { .. } => {}
        }
        let Some(message) = self.tampered(at, extent, message)? else { return Ok(()) };
        if let Some(process) = self.process(at) {
            process.member.say_as_holder(extent, message);
        }
        Ok(())
    }

    fn do_wire(&mut self, at: ProcessLife, output: WireOutput) {
        match output {
            WireOutput::Dial { node, address } => {
                let after = self.dice.between(1, 50);
                self.at(after, Event::Dialed { from: at, node, address });
            }
            WireOutput::Send { place, frame } => self.send_frame(place, frame.into_bytes()),
            WireOutput::Close { place } => {
                self.wires.cut(place / 2, self.course.now_ms);
                self.wires.close(place);
                let after = self.dice.pick(&[0, 1, 50, 300]);
                self.at(after, Event::WireEnded { place: place ^ 1 });
            }
        }
    }

    /// A node's try to reach another ends. The kernel of a node that stands still takes connections.
    pub(super) fn on_dialed(&mut self, from: ProcessLife, node: NodeId, to: &str) -> Check {
        let is_cut = |node: usize| self.hosts[node].is_alone;
        let host = (0..self.hosts.len()).find(|host| address(*host) == to && !is_cut(*host) && !is_cut(from.0));
        let taker = host.and_then(|host| Some((host, self.hosts[host].process.as_ref()?.life)));
        let Some(process) = self.process(from) else { return Ok(()) };
        let me = process.member.identity().map(|(node, _)| node);
        let place = taker.zip(me).map(|(taker, me)| {
            self.wires_ever += 1;
            let place = self.wires.make(self.wires_ever, self.course.now_ms, from, taker);
            self.at(0, Event::Came { place: place ^ 1, node: me });
            place
        });
        let spoken = taker.map_or(OLDEST, |taker| self.spoken_between(from.0, taker.0));
        self.tell(from, CopyInput::Dialed { node, place, spoken })?;
        self.drain_node(from.0)
    }

    /// A node with homes has made a connection.
    pub(super) fn on_came(&mut self, place: u64, node: NodeId) -> Check {
        let Some(at) = self.wires.at(place).filter(|_| self.wires.is_open(place, self.now_ms)) else { return Ok(()) };
        self.tell(at, CopyInput::Came { node, place })?;
        self.drain_node(at.0)
    }

    fn send_frame(&mut self, place: u64, bytes: Vec<u8>) {
        let Some(bytes) = self.tampered_frame(place, bytes) else { return };
        let (now_ms, delay_ms) = (self.now_ms, self.delay_ms());
        match self.wires.arrival(place, now_ms, delay_ms) {
            Some(after) => self.at(after, Event::Frame { place: place ^ 1, frame: FrameBox(bytes) }),
            None => self.count("frames lost with their connection"),
        }
    }

    pub(super) fn on_frame(&mut self, place: u64, bytes: Vec<u8>) -> Check {
        let Some(at) = self.wires.at(place).filter(|_| self.wires.is_open(place, self.now_ms)) else {
            self.count("frames lost with their connection");
            return Ok(());
        };
        self.tell(at, CopyInput::Frames { place, frames: &[bytes] })?;
        self.drain_node(at.0)
    }

    /// An end of a connection is seen to have ended.
    pub(super) fn on_wire_ended(&mut self, place: u64) -> Check {
        let Some(at) = self.wires.at(place) else { return Ok(()) };
        if !self.wires.close(place) {
            return Ok(());
        }
        self.tell(at, CopyInput::Gone { place })?;
        self.drain_node(at.0)
    }

    /// A connection breaks: what is under way is lost, and each end finds it out at its own time.
    fn break_wire(&mut self, number: u64) {
        self.wires.cut(number, self.course.now_ms);
        for place in [2 * number, 2 * number + 1] {
            let after = self.dice.between(1, 300);
            self.at(after, Event::WireEnded { place });
        }
    }

    /// A connection of a node to another breaks.
    pub(super) fn break_a_wire(&mut self, node: usize) {
        let Some(life) = self.hosts[node].process.as_ref().map(|process| process.life) else { return };
        let now_ms = self.now_ms;
        let is_ripe = |place: &u64| self.wires.whole_since(*place).is_some_and(|made_ms| now_ms >= made_ms + REST_MS);
        let ripe: Vec<u64> = self.wires.of((node, life)).filter(is_ripe).map(|place| place / 2).collect();
        if ripe.is_empty() {
            return;
        }
        self.count("connections between nodes broken");
        let number = self.dice.pick(&ripe);
        if self.has(Defect::ForgetLost) {
            return self.wires.lose(number, now_ms + LOST_MS);
        }
        self.break_wire(number);
    }

    /// All connections of a process to others break.
    pub(super) fn break_wires_of(&mut self, at: ProcessLife) {
        let is_whole = |place: &u64| self.wires.whole_since(*place).is_some();
        let all: Vec<u64> = self.wires.of(at).filter(is_whole).map(|place| place / 2).collect();
        all.into_iter().for_each(|number| self.break_wire(number));
    }
}
