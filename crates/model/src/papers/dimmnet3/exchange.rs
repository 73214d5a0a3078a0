//! Two hosts with their boards exchange messages: the event model behind the ping-pong.
//!
//! A host runs its steps one after the other; commands, packets and flags travel between the parts as events. Each board
//! has four stations that work first asked, first served: the command unit, the SO-DIMM, the outgoing link and the
//! receiving unit.
use super::machine::Machine;
use super::programs::{self, Command, Condition, Flag, Step};
use crate::engine::Engine;
use crate::station::Station;
use crate::time::Picos;
use crate::trace::Trace;

/// What an exchange cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// Half of the mean round trip.
    pub one_way: Picos,
    /// Processor time of the sender for one message, waiting not counted.
    pub send_busy: Picos,
    /// Processor time of the receiver for one message, waiting not counted.
    pub receive_busy: Picos,
    /// Network messages that carried it.
    pub packets: u64,
}

enum Event {
    /// The host takes its next step.
    Next(usize),
    /// A polling load reaches the board.
    Sample(usize, Flag, Picos),
    /// A command reaches the board.
    Command(usize, Command),
    /// The board puts a flag up.
    Raise(usize, Flag),
    /// A Write Window may be filled again.
    WindowFree(usize),
    /// A packet has arrived whole.
    Arrive(usize, Packet),
}

#[derive(Clone, Copy)]
struct Packet {
    /// Bytes for the receiving host, header not counted.
    len_bytes: u64,
    /// Whether it begins a message.
    is_first: bool,
    /// Whether it ends a message.
    is_last: bool,
}

#[derive(Default)]
struct Side {
    program: Vec<Step>,
    next: usize,
    up: [u64; 3],
    windows_free: usize,
    waits_for_window: bool,
    busy: Picos,
    received: u64,
    sent_packets: u64,
    finished: Picos,
    command: Station,
    memory: Station,
    link: Station,
    receive: Station,
}

struct World<'a> {
    machine: &'a Machine,
    condition: Condition,
    sides: [Side; 2],
    engine: Engine<Event>,
    trace: Option<&'a mut Trace>,
}

/// Runs `rounds` round trips of messages with `data_bytes` beside the envelope.
///
/// The phase between polling and arrival is swept evenly over the rounds, so that the mean is free of it.
// FEATURE: D3-F23
pub fn ping_pong(machine: &Machine, condition: Condition, data_bytes: u64, rounds: u64, trace: Option<&mut Trace>) -> Exchange {
    let send = programs::send(machine, condition, data_bytes);
    let receive = programs::receive(machine, condition, data_bytes);
    let period = machine.host.load() + machine.host.poll_loop;
    let mut sides = [Side::default(), Side::default()];
    for round in 0..rounds {
        // Two different orders of the same phases, so that the two hosts do not move in step.
        let phases = [round, (round * 7 + 3) % rounds].map(|turn| Picos(period.0 * turn / rounds));
        sides[0].program.extend(send.iter().copied());
        for (side, phase) in sides.iter_mut().zip(phases) {
            side.program.push(Step::Delay(phase));
            side.program.extend(receive.iter().copied());
        }
        sides[1].program.extend(send.iter().copied());
    }
    sides.iter_mut().for_each(|side| side.windows_free = machine.nic.windows);
    let mut world = World { machine, condition, sides, engine: Engine::new(), trace };
    world.engine.schedule(Picos::ZERO, Event::Next(0));
    world.engine.schedule(Picos::ZERO, Event::Next(1));
    while let Some((now, event)) = world.engine.pop() {
        world.handle(now, event);
    }
    assert!(world.sides.iter().all(|side| side.received == rounds), "the exchange stopped before its end");
    world.exchange(rounds, &send)
}

impl World<'_> {
    fn exchange(&self, rounds: u64, send: &[Step]) -> Exchange {
        let busy = |steps: &[Step]| steps.iter().map(|step| self.cost(*step)).sum::<Picos>();
        let both: Picos = self.sides.iter().map(|side| side.busy).sum();
        let send_busy = busy(send);
        Exchange {
            one_way: Picos(self.sides[0].finished.0 / (2 * rounds)),
            send_busy,
            receive_busy: Picos(both.0 / (2 * rounds)).since(send_busy),
            packets: self.sides[0].sent_packets / rounds,
        }
    }

    /// Processor time of a step; polling and delays are waiting, not work.
    fn cost(&self, step: Step) -> Picos {
        let host = &self.machine.host;
        match step {
            Step::Fill(len_bytes) => host.stores(len_bytes),
            Step::Issue(Command::Aotf { len_bytes }) => host.stores(len_bytes),
            Step::Issue(Command::Botf { .. }) => host.command(self.machine.nic.command_bytes.botf),
            Step::Issue(Command::VectorLoad { .. }) => host.command(self.machine.nic.command_bytes.vector),
            Step::Issue(Command::Lhc { .. }) => host.command(self.machine.nic.command_bytes.lhc),
            Step::Read(len_bytes) => host.loads(len_bytes),
            Step::ReadWindow(len_bytes) => host.window_loads(len_bytes),
            Step::Match => host.matching,
            Step::Poll(_) | Step::Delay(_) | Step::Received => Picos::ZERO,
        }
    }

    fn handle(&mut self, now: Picos, event: Event) {
        match event {
            Event::Next(side) => self.on_next(now, side),
            Event::Sample(side, flag, issued) => self.on_sample(now, side, flag, issued),
            Event::Command(side, command) => self.on_command(now, side, command),
            Event::Raise(side, flag) => {
                self.sides[side].up[flag as usize] += 1;
                self.mark(side, "flags", format!("{flag:?} up"), now);
            }
            Event::WindowFree(side) => {
                self.sides[side].windows_free += 1;
                if std::mem::take(&mut self.sides[side].waits_for_window) {
                    self.engine.schedule(now, Event::Next(side));
                }
            }
            Event::Arrive(side, packet) => self.on_arrive(now, side, packet),
        }
    }

    fn on_next(&mut self, now: Picos, side: usize) {
        let Some(&step) = self.sides[side].program.get(self.sides[side].next) else {
            self.sides[side].finished = now;
            return;
        };
        if matches!(step, Step::Fill(_)) && self.sides[side].windows_free == 0 {
            self.sides[side].waits_for_window = true;
            return;
        }
        let cost = self.cost(step);
        self.sides[side].busy += cost;
        self.sides[side].next += 1;
        match step {
            Step::Poll(flag) => {
                self.engine.schedule(now + self.machine.host.out, Event::Sample(side, flag, now));
                return;
            }
            Step::Delay(span) => {
                self.engine.schedule(now + span, Event::Next(side));
                return;
            }
            // Posted stores reach the board after the processor went on.
            Step::Issue(command) => {
                if matches!(command, Command::Botf { .. }) {
                    self.sides[side].windows_free -= 1;
                }
                self.engine.schedule(now + cost + self.machine.host.out, Event::Command(side, command));
            }
            Step::Received => self.sides[side].received += 1,
            _ => {}
        }
        self.span(side, "host", || step_name(step), now, now + cost);
        self.engine.schedule(now + cost, Event::Next(side));
    }

    fn on_sample(&mut self, now: Picos, side: usize, flag: Flag, issued: Picos) {
        let host = &self.machine.host;
        let result = issued + host.load();
        let count = &mut self.sides[side].up[flag as usize];
        if *count > 0 {
            *count -= 1;
            self.engine.schedule(result.max(now), Event::Next(side));
        } else {
            let again = result + host.poll_loop;
            self.engine.schedule(again + host.out, Event::Sample(side, flag, again));
        }
        self.span(side, "host", || format!("poll {flag:?}"), issued, result);
    }

    fn on_command(&mut self, now: Picos, side: usize, command: Command) {
        let nic = &self.machine.nic;
        let taken = self.sides[side].command.take(now + nic.crossing, nic.command);
        self.span(side, "command unit", || command_name(command), taken.start, taken.end);
        match command {
            Command::Botf { len_bytes, is_first, is_last } => {
                let packet = Packet { len_bytes: len_bytes - self.machine.header_bytes, is_first, is_last };
                let sent = self.transmit(side, taken.end + nic.packetise, len_bytes, packet);
                self.engine.schedule(sent, Event::WindowFree(side));
            }
            Command::Aotf { len_bytes } => {
                let packet = Packet { len_bytes: len_bytes - self.machine.header_bytes, is_first: true, is_last: true };
                self.transmit(side, taken.end + nic.packetise, len_bytes, packet);
            }
            Command::VectorLoad { len_bytes } => self.load(side, taken.end, len_bytes),
            Command::Lhc { body_bytes } => self.join(side, taken.end, body_bytes),
        }
    }

    /// A vector load: SO-DIMM, Prefetch Window, Prefetch Flag.
    fn load(&mut self, side: usize, asked: Picos, len_bytes: u64) {
        let nic = &self.machine.nic;
        let read = self.sides[side].memory.take(asked, self.machine.memory.access(len_bytes));
        let carried = nic.serial_bytes_per_second.map_or(Picos::ZERO, |rate| Picos::from_bytes(len_bytes, rate));
        self.span(side, "SO-DIMM", || format!("read {len_bytes} B"), read.start, read.end);
        self.engine.schedule(read.end + carried + nic.crossing + nic.onchip, Event::Raise(side, Flag::Prefetch));
    }

    /// LHC: the head from the window, the body from SO-DIMM, packet by packet as the memory yields it.
    fn join(&mut self, side: usize, asked: Picos, body_bytes: u64) {
        let (packet_bytes, header, envelope) =
            (self.machine.wire.packet_bytes, self.machine.header_bytes, self.machine.envelope_bytes);
        let count = body_bytes.div_ceil(packet_bytes);
        for index in 0..count {
            let body = packet_bytes.min(body_bytes - index * packet_bytes);
            let access = self.machine.memory.access(body);
            let read = self.sides[side].memory.take(asked, access);
            self.span(side, "SO-DIMM", || format!("body {body} B"), read.start, read.end);
            let head = if index == 0 { envelope } else { 0 };
            let packet = Packet { len_bytes: head + body, is_first: index == 0, is_last: index + 1 == count };
            // The link is slower than the memory, so it may start with the first burst.
            let first_burst = read.start + access.since(self.machine.memory.stream(body));
            self.transmit(side, first_burst + self.machine.nic.packetise, header + head + body, packet);
        }
    }

    /// Puts a packet on the link and returns when the last byte has left.
    fn transmit(&mut self, side: usize, ready: Picos, len_bytes: u64, packet: Packet) -> Picos {
        let wire = &self.machine.wire;
        let span = Picos::from_bytes(len_bytes + wire.overhead_bytes, wire.bytes_per_second);
        let taken = self.sides[side].link.take(ready, span);
        self.sides[side].sent_packets += 1;
        self.engine.schedule(taken.end + wire.hop, Event::Arrive(1 - side, packet));
        self.span(side, "link", || format!("{len_bytes} B"), taken.start, taken.end);
        taken.end
    }

    fn on_arrive(&mut self, now: Picos, side: usize, packet: Packet) {
        let nic = &self.machine.nic;
        let memory = &self.machine.memory;
        let taken = self.sides[side].receive.take(now, nic.receive);
        self.span(side, "receiving unit", || format!("{} B", packet.len_bytes), taken.start, taken.end);
        if !self.condition.has_lhs() {
            let stored = self.sides[side].memory.take(taken.end, memory.access(packet.len_bytes));
            self.span(side, "SO-DIMM", || format!("append {} B", packet.len_bytes), stored.start, stored.end);
            // One status a message, with its last packet where the sender had to split it.
            if packet.is_last {
                self.engine.schedule(stored.end + nic.onchip + nic.crossing, Event::Raise(side, Flag::Status));
            }
            return;
        }
        let on_chip = if packet.is_first { self.machine.envelope_bytes + programs::entry_data_bytes(self.machine) } else { 0 };
        let overflow = packet.len_bytes.saturating_sub(on_chip);
        let mut complete = taken.end;
        if overflow > 0 {
            let stored = self.sides[side].memory.take(taken.end, memory.access(overflow));
            self.span(side, "SO-DIMM", || format!("overflow {overflow} B"), stored.start, stored.end);
            // A head is seen before its overflow is stored; the vector load behind it queues after the store.
            complete = if packet.is_first { taken.end } else { stored.end };
            if self.condition == Condition::BotfLhsHtp && packet.is_first && packet.is_last {
                self.load(side, stored.end, overflow);
            }
        }
        if packet.is_last {
            self.engine.schedule(complete + nic.onchip + nic.crossing, Event::Raise(side, Flag::Head));
        }
    }

    fn span(&mut self, side: usize, part: &str, name: impl FnOnce() -> String, start: Picos, end: Picos) {
        if let Some(trace) = self.trace.as_deref_mut() {
            let part = trace.part(&format!("{}: node {side}", self.condition.name()), part);
            trace.span(part, name(), start, end);
        }
    }

    fn mark(&mut self, side: usize, part: &str, name: String, at: Picos) {
        if let Some(trace) = self.trace.as_deref_mut() {
            let part = trace.part(&format!("{}: node {side}", self.condition.name()), part);
            trace.mark(part, name, at);
        }
    }
}

fn step_name(step: Step) -> String {
    match step {
        Step::Fill(len_bytes) => format!("write {len_bytes} B into the Write Window"),
        Step::Issue(command) => format!("issue {}", command_name(command)),
        Step::Read(len_bytes) => format!("read {len_bytes} B on chip"),
        Step::ReadWindow(len_bytes) => format!("read {len_bytes} B of the Prefetch Window"),
        Step::Match => "compare rank, context, tag".to_string(),
        Step::Poll(flag) => format!("poll {flag:?}"),
        Step::Delay(_) => "begin to poll later".to_string(),
        Step::Received => "received".to_string(),
    }
}

fn command_name(command: Command) -> String {
    match command {
        Command::Botf { len_bytes, .. } => format!("BOTF {len_bytes} B"),
        Command::Aotf { len_bytes } => format!("AOTF {len_bytes} B"),
        Command::VectorLoad { len_bytes } => format!("VL {len_bytes} B"),
        Command::Lhc { body_bytes } => format!("LHC body {body_bytes} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::parameters;
    use super::*;

    fn run(condition: Condition, data_bytes: u64) -> Exchange {
        ping_pong(&Machine::new(&parameters()), condition, data_bytes, 16, None)
    }

    #[test]
    fn equal_runs_are_equal() {
        assert_eq!(run(Condition::LhcLhs, 64), run(Condition::LhcLhs, 64));
    }

    #[test]
    fn the_mean_does_not_depend_on_the_number_of_rounds() {
        let machine = Machine::new(&parameters());
        let mean = |rounds| ping_pong(&machine, Condition::BotfLhs, 8, rounds, None).one_way.as_ns();
        assert!((mean(16) / mean(64) - 1.0).abs() < 0.03, "{} {}", mean(16), mean(64));
    }

    #[test]
    fn long_messages_arrive_whole_in_every_condition() {
        for condition in Condition::MEASURED {
            let exchange = run(condition, 10_000);
            let packets = if condition == Condition::LhcLhs { 5 } else { 21 };
            assert_eq!(exchange.packets, packets, "{condition:?}");
        }
    }

    #[test]
    fn latency_grows_with_size() {
        for condition in Condition::MEASURED {
            assert!(run(condition, 8).one_way < run(condition, 120).one_way, "{condition:?}");
        }
    }

    #[test]
    fn hardware_prefetch_shortens_an_overflowing_message() {
        assert!(run(Condition::BotfLhsHtp, 120).one_way < run(Condition::BotfLhs, 120).one_way);
    }
}
