//! What the two hosts of the ping-pong do, step by step, in each condition.
//!
//! SOURCE: [D3 §6.1]; the order of the steps is the paper's, their cost is the machine's.
use super::machine::Machine;
use crate::time::Picos;

/// How a message is sent and received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// The host writes everything; the receiver's hardware appends to a FIFO in SO-DIMM.
    Botf,
    /// The same, with the message's front in the LH buffer.
    BotfLhs,
    /// Data first loaded from SO-DIMM into the Prefetch Window, then as [`Condition::BotfLhs`].
    VlBotfLhs,
    /// On-chip head and SO-DIMM body joined by hardware, received with LHS.
    LhcLhs,
    /// [`Condition::BotfLhs`] with the overflow prefetched for the receiving host.
    BotfLhsHtp,
    /// A short message that its own stores start, received with LHS.
    AotfLhs,
}

impl Condition {
    /// The conditions the paper measured, in its order.
    pub const MEASURED: [Condition; 4] = [Condition::Botf, Condition::BotfLhs, Condition::VlBotfLhs, Condition::LhcLhs];

    /// The paper's name.
    pub fn name(self) -> &'static str {
        match self {
            Condition::Botf => "BOTF+IPUSH",
            Condition::BotfLhs => "BOTF+IPUSH+LHS",
            Condition::VlBotfLhs => "VL+BOTF+IPUSH+LHS",
            Condition::LhcLhs => "LHC+IPUSH+LHS",
            Condition::BotfLhsHtp => "BOTF+IPUSH+LHS+HTP",
            Condition::AotfLhs => "AOTF+IPUSH+LHS",
        }
    }

    /// Whether the receiver keeps the front of a message on chip.
    pub fn has_lhs(self) -> bool {
        self != Condition::Botf
    }

    /// Fewest data bytes it can send beside the envelope.
    pub fn data_bytes_min(self, machine: &Machine) -> u64 {
        if self == Condition::LhcLhs { machine.lhc_body_bytes_min } else { 0 }
    }
}

/// What the host asks of its board.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Send `len_bytes` of the Write Window as one packet of a message.
    Botf {
        /// Header, envelope and data.
        len_bytes: u64,
        /// Whether it begins the message, and carries the envelope.
        is_first: bool,
        /// Whether it ends the message.
        is_last: bool,
    },
    /// Send what the stores brought.
    Aotf {
        /// Header, envelope and data.
        len_bytes: u64,
    },
    /// Read `len_bytes` of SO-DIMM into the Prefetch Window.
    VectorLoad {
        /// Bytes asked for.
        len_bytes: u64,
    },
    /// Send the window's head and `body_bytes` of SO-DIMM as one message.
    Lhc {
        /// Bytes from SO-DIMM.
        body_bytes: u64,
    },
}

/// What a host polls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flag {
    /// The Prefetch Flag: a vector load is done.
    Prefetch,
    /// The packet-reception status in LLCM.
    Status,
    /// The valid word of the next LH buffer entry.
    Head,
}

/// One step of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Stores into the Write Window.
    Fill(u64),
    /// A command to the board.
    Issue(Command),
    /// Loads of a flag until it is up.
    Poll(Flag),
    /// Loads of on-chip memory.
    Read(u64),
    /// Loads of the Prefetch Window.
    ReadWindow(u64),
    /// Comparing rank, context and tag.
    Match,
    /// Beginning to poll later, to sweep the phase between polling and arrival.
    Delay(Picos),
    /// The end of one message's reception.
    Received,
}

/// The sender's steps for one message of `data_bytes` beside the envelope.
// FEATURE: D3-F2 D3-F3 D3-F4 D3-F9
pub fn send(machine: &Machine, condition: Condition, data_bytes: u64) -> Vec<Step> {
    let (header, envelope) = (machine.header_bytes, machine.envelope_bytes);
    match condition {
        Condition::LhcLhs => vec![Step::Fill(envelope), Step::Issue(Command::Lhc { body_bytes: data_bytes })],
        Condition::AotfLhs => vec![Step::Issue(Command::Aotf { len_bytes: header + envelope + data_bytes })],
        Condition::VlBotfLhs if data_bytes > 0 => {
            packets(machine, data_bytes).flat_map(|packet| loaded(machine, packet)).collect()
        }
        _ => packets(machine, data_bytes)
            .flat_map(|packet| [Step::Fill(packet.len_bytes(machine)), Step::Issue(packet.command(machine))])
            .collect(),
    }
}

/// The data of one BOTF packet.
#[derive(Clone, Copy)]
struct Packet {
    data_bytes: u64,
    is_first: bool,
    is_last: bool,
}

impl Packet {
    fn command(self, machine: &Machine) -> Command {
        Command::Botf { len_bytes: self.len_bytes(machine), is_first: self.is_first, is_last: self.is_last }
    }

    fn len_bytes(self, machine: &Machine) -> u64 {
        machine.header_bytes + if self.is_first { machine.envelope_bytes } else { 0 } + self.data_bytes
    }
}

/// A message longer than the Write Window goes as several packets, each with a header of its own.
fn packets(machine: &Machine, data_bytes: u64) -> impl Iterator<Item = Packet> + use<> {
    let room = machine.nic.window_bytes - machine.header_bytes;
    let first = data_bytes.min(room - machine.envelope_bytes);
    let rest = data_bytes - first;
    let count = rest.div_ceil(room);
    let others = (0..count).map(move |index| Packet {
        data_bytes: room.min(rest - index * room),
        is_first: false,
        is_last: index + 1 == count,
    });
    std::iter::once(Packet { data_bytes: first, is_first: true, is_last: count == 0 }).chain(others)
}

/// A packet whose data come from SO-DIMM through the host: the header is written while the vector load runs.
fn loaded(machine: &Machine, packet: Packet) -> Vec<Step> {
    vec![
        Step::Issue(Command::VectorLoad { len_bytes: packet.data_bytes }),
        Step::Fill(machine.header_bytes),
        Step::Poll(Flag::Prefetch),
        Step::ReadWindow(packet.data_bytes),
        Step::Fill(packet.len_bytes(machine) - machine.header_bytes),
        Step::Issue(packet.command(machine)),
    ]
}

/// Data bytes one LH buffer entry keeps beside its envelope part.
pub fn entry_data_bytes(machine: &Machine) -> u64 {
    machine.nic.lh_entry_bytes - machine.nic.envelope_part_bytes
}

/// The receiver's steps for one message, from its first poll until the data are in main memory.
// FEATURE: D3-F7 D3-F8 D3-F10
pub fn receive(machine: &Machine, condition: Condition, data_bytes: u64) -> Vec<Step> {
    let mut steps = Vec::new();
    if condition.has_lhs() {
        let on_chip = data_bytes.min(entry_data_bytes(machine));
        steps.extend([Step::Poll(Flag::Head), Step::Read(machine.nic.envelope_part_bytes), Step::Match, Step::Read(on_chip)]);
        let fits_one_packet = packets(machine, data_bytes).count() == 1;
        if condition == Condition::BotfLhsHtp && data_bytes > on_chip && fits_one_packet {
            steps.extend([Step::Poll(Flag::Prefetch), Step::ReadWindow(data_bytes - on_chip)]);
        } else {
            steps.extend(read_memory(machine, data_bytes - on_chip));
        }
    } else {
        steps.extend([Step::Poll(Flag::Status), Step::Read(machine.nic.status_bytes)]);
        steps.extend(read_memory(machine, machine.envelope_bytes));
        steps.push(Step::Match);
        steps.extend(read_memory(machine, data_bytes));
    }
    steps.push(Step::Received);
    steps
}

/// Reading `len_bytes` of SO-DIMM by the host, a window at a time: vector load, poll, loads.
// FEATURE: D3-F13
fn read_memory(machine: &Machine, len_bytes: u64) -> Vec<Step> {
    let window = machine.nic.window_bytes;
    (0..len_bytes.div_ceil(window))
        .flat_map(|index| {
            let piece = window.min(len_bytes - index * window);
            [Step::Issue(Command::VectorLoad { len_bytes: piece }), Step::Poll(Flag::Prefetch), Step::ReadWindow(piece)]
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::parameters;
    use super::*;

    fn vector_loads(steps: &[Step]) -> usize {
        steps.iter().filter(|step| matches!(step, Step::Issue(Command::VectorLoad { .. }))).count()
    }

    #[test]
    fn the_receiver_reads_external_memory_as_the_paper_says() {
        let machine = Machine::new(&parameters());
        for (condition, data_bytes, reads) in [
            (Condition::Botf, 0, 1),
            (Condition::Botf, 8, 2),
            (Condition::BotfLhs, 48, 0),
            (Condition::BotfLhs, 56, 1),
            (Condition::LhcLhs, 48, 0),
            (Condition::LhcLhs, 120, 1),
        ] {
            assert_eq!(vector_loads(&receive(&machine, condition, data_bytes)), reads, "{condition:?} {data_bytes}");
        }
    }

    // FEATURE: D3-F2
    #[test]
    fn a_long_botf_message_fills_the_window_several_times() {
        let machine = Machine::new(&parameters());
        let fills = |data| send(&machine, Condition::BotfLhs, data).iter().filter(|step| matches!(step, Step::Fill(_))).count();
        assert_eq!((fills(488), fills(489), fills(488 + 496), fills(488 + 497)), (1, 2, 2, 3));
        let lhc = send(&machine, Condition::LhcLhs, 65_536);
        assert_eq!(lhc, [Step::Fill(8), Step::Issue(Command::Lhc { body_bytes: 65_536 })]);
    }

    // FEATURE: D3-F2
    #[test]
    fn no_packet_is_longer_than_the_window() {
        let machine = Machine::new(&parameters());
        for step in send(&machine, Condition::VlBotfLhs, 5_000) {
            if let Step::Issue(Command::Botf { len_bytes, .. }) = step {
                assert!(len_bytes <= machine.nic.window_bytes);
            }
        }
    }
}
