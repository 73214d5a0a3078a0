//! The parts of one host with its board, typed: what a store, a load, a command and a hop cost.
use super::banks::MemoryShape;
use super::boards::{Board, HostInterface, serial_bytes_per_second};
use crate::parameters::Parameters;
use crate::time::Picos;

/// How the host's processor treats stores to the Write Window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowAttribute {
    /// Every store is a bus transaction of its own.
    Uncached,
    /// Stores gather in a line buffer that leaves whole.
    WriteCombining,
}

/// The host: what its processor pays to reach the board.
#[derive(Clone, Debug)]
pub struct Host {
    /// Processor clock in hertz.
    pub clock_hertz: u64,
    /// Bytes one uncached load or store moves.
    pub access_bytes: u64,
    /// From the processor to the board's pins.
    pub out: Picos,
    /// The board answers a load.
    pub answer: Picos,
    /// From the board's pins back into a register.
    pub back: Picos,
    /// From one posted store to the next.
    pub store: Picos,
    /// Draining the write-combining buffers.
    pub fence: Picos,
    /// Bytes of a write-combining buffer.
    pub line_bytes: u64,
    /// Moving one such buffer over the memory bus.
    pub line_transfer: Picos,
    /// The Write Window's attribute.
    pub attribute: WindowAttribute,
    /// Whether the Prefetch Window is read through the cache, line by line.
    pub is_read_cached: bool,
    /// Dropping a cached line before it is read again.
    pub line_flush: Picos,
    /// One turn of a polling loop beside the load.
    pub poll_loop: Picos,
    /// Comparing rank, context and tag.
    pub matching: Picos,
}

impl Host {
    /// One uncached load, from issue to result.
    pub fn load(&self) -> Picos {
        self.out + self.answer + self.back
    }

    /// Reading `len_bytes` of on-chip memory by uncached loads.
    pub fn loads(&self, len_bytes: u64) -> Picos {
        self.load() * len_bytes.div_ceil(self.access_bytes)
    }

    /// Reading `len_bytes` of the Prefetch Window: as it is mapped, uncached or by whole lines.
    pub fn window_loads(&self, len_bytes: u64) -> Picos {
        if self.is_read_cached {
            (self.line_flush + self.load() + self.line_transfer) * len_bytes.div_ceil(self.line_bytes)
        } else {
            self.loads(len_bytes)
        }
    }

    /// Writing `len_bytes` into the Write Window, until the processor may issue the command.
    ///
    /// A fence before the command keeps it from overtaking combined stores; uncached stores keep their order.
    pub fn stores(&self, len_bytes: u64) -> Picos {
        match self.attribute {
            WindowAttribute::Uncached => self.store * len_bytes.div_ceil(self.access_bytes),
            WindowAttribute::WriteCombining => self.line_transfer * len_bytes.div_ceil(self.line_bytes) + self.fence,
        }
    }

    /// Issuing a command of `len_bytes` (uncached, so that it starts at once).
    pub fn command(&self, len_bytes: u64) -> Picos {
        self.store * len_bytes.div_ceil(self.access_bytes)
    }

    /// `count` processor cycles.
    pub fn cycles(&self, count: u64) -> Picos {
        Picos::from_cycles(count, self.clock_hertz)
    }
}

/// The board's network interface: its pipeline and its on-chip memories.
#[derive(Clone, Debug)]
pub struct Nic {
    /// Taking a command apart.
    pub command: Picos,
    /// Making a packet of window and memory contents.
    pub packetise: Picos,
    /// Taking a packet apart and deciding where it goes.
    pub receive: Picos,
    /// One access to an on-chip memory.
    pub onchip: Picos,
    /// Bytes of a Write Window or Prefetch Window.
    pub window_bytes: u64,
    /// Write Windows the host may fill before it must wait.
    pub windows: usize,
    /// Bytes of an LH buffer entry.
    pub lh_entry_bytes: u64,
    /// Bytes the host reads for the envelope from an LH buffer entry.
    pub envelope_part_bytes: u64,
    /// Bytes of a packet-reception status.
    pub status_bytes: u64,
    /// Bytes of each kind of command word.
    pub command_bytes: CommandBytes,
    /// Extra latency of the serial link between Frontend and Backend, one way; zero where they are one board.
    pub crossing: Picos,
    /// Bytes per second of that serial link; none where Frontend and Backend are one board.
    pub serial_bytes_per_second: Option<u64>,
}

/// Bytes the host writes to issue a command.
#[derive(Clone, Copy, Debug)]
pub struct CommandBytes {
    /// BOTF: window and length.
    pub botf: u64,
    /// Vector load: address, length, stride and window.
    pub vector: u64,
    /// LHC: header fields, memory address, lengths.
    pub lhc: u64,
}

/// The network: links, cables and the switch between two hosts.
#[derive(Clone, Debug)]
pub struct Wire {
    /// Payload bytes per second and direction.
    pub bytes_per_second: u64,
    /// Bytes the link adds to a packet.
    pub overhead_bytes: u64,
    /// Largest body of one packet.
    pub packet_bytes: u64,
    /// From the first bit at one interface to the first bit at the other.
    pub hop: Picos,
}

/// One host with its board.
#[derive(Clone, Debug)]
pub struct Machine {
    /// The processor's side.
    pub host: Host,
    /// The board's chip.
    pub nic: Nic,
    /// The board's SO-DIMMs.
    pub memory: MemoryShape,
    /// The way to the other machine.
    pub wire: Wire,
    /// Bytes of the 16 B packet header.
    pub header_bytes: u64,
    /// Bytes of the MPI envelope.
    pub envelope_bytes: u64,
    /// Fewest body bytes of an LHC message.
    pub lhc_body_bytes_min: u64,
}

impl Machine {
    /// The machine of the measurement, with the board and host interface the parameters choose.
    pub fn new(parameters: &Parameters) -> Machine {
        Machine::with(parameters, Board::chosen(parameters), HostInterface::chosen(parameters))
    }

    /// A machine with another board or host interface than the parameters name.
    pub fn with(parameters: &Parameters, board: Board, interface: &HostInterface) -> Machine {
        Machine {
            host: host(parameters, interface),
            nic: nic(parameters, interface.needs_frontend),
            memory: board.memory(parameters),
            wire: wire(parameters, board),
            header_bytes: parameters.bytes("message.header"),
            envelope_bytes: parameters.bytes("message.envelope"),
            lhc_body_bytes_min: parameters.bytes("lhc.body_min"),
        }
    }

    /// Why these sizes do not go together, if they do not.
    pub fn contradiction(&self) -> Option<String> {
        let (window, entry) = (self.nic.window_bytes, self.nic.lh_entry_bytes);
        let first = self.header_bytes + self.envelope_bytes;
        if window <= first {
            return Some(format!("nic.window = {window} B cannot hold message.header and message.envelope ({first} B) and data"));
        }
        if entry <= self.nic.envelope_part_bytes {
            let part = self.nic.envelope_part_bytes;
            return Some(format!("nic.lh_entry = {entry} B cannot hold nic.envelope_part ({part} B) and data"));
        }
        None
    }

    /// The same machines with one cable instead of the switch between them.
    pub fn without_switch(mut self, parameters: &Parameters) -> Machine {
        self.wire.hop = serdes_and_cable(parameters);
        self
    }
}

fn host(parameters: &Parameters, interface: &HostInterface) -> Host {
    let clock_hertz = parameters.hertz("host.cpu_clock");
    let line_bytes = parameters.bytes("host.wc_line");
    let way = parameters.picos("host.chipset") + interface.extra(parameters);
    let clock = |hertz: u64| Picos::from_ns_f64(parameters.get("host.answer") * 1e9 / hertz as f64);
    Host {
        clock_hertz,
        access_bytes: parameters.bytes("host.access"),
        out: parameters.picos("host.request") + way,
        answer: interface.hertz(parameters).map_or(Picos::ZERO, clock),
        back: way + parameters.picos("host.response"),
        store: parameters.picos("host.store"),
        fence: parameters.picos("host.fence"),
        line_bytes,
        line_transfer: Picos::from_bytes(line_bytes, interface.peak_bytes_per_second(parameters)),
        attribute: [WindowAttribute::Uncached, WindowAttribute::WriteCombining][parameters.choice("host.window_attribute")],
        is_read_cached: parameters.choice("host.read_attribute") == 1,
        line_flush: parameters.picos("host.line_flush"),
        poll_loop: Picos::from_cycles(parameters.count("host.poll_loop"), clock_hertz),
        matching: Picos::from_cycles(parameters.count("host.matching"), clock_hertz),
    }
}

fn nic(parameters: &Parameters, is_split: bool) -> Nic {
    let hertz = parameters.hertz("nic.clock");
    let cycles = |key| Picos::from_cycles(parameters.count(key), hertz);
    Nic {
        command: cycles("nic.command"),
        packetise: cycles("nic.packetise"),
        receive: cycles("nic.receive"),
        onchip: cycles("nic.onchip"),
        window_bytes: parameters.bytes("nic.window"),
        windows: parameters.count("nic.windows") as usize,
        lh_entry_bytes: parameters.bytes("nic.lh_entry"),
        envelope_part_bytes: parameters.bytes("nic.envelope_part"),
        status_bytes: parameters.bytes("nic.status"),
        command_bytes: CommandBytes {
            botf: parameters.bytes("nic.botf_command"),
            vector: parameters.bytes("nic.vector_command"),
            lhc: parameters.bytes("nic.lhc_command"),
        },
        crossing: if is_split { parameters.picos("serial.latency") } else { Picos::ZERO },
        serial_bytes_per_second: is_split.then(|| serial_bytes_per_second(parameters)),
    }
}

fn wire(parameters: &Parameters, board: Board) -> Wire {
    let own = Wire {
        bytes_per_second: board.network_bytes_per_second(parameters),
        overhead_bytes: parameters.bytes("link.overhead"),
        packet_bytes: parameters.bytes("link.packet"),
        // Two cables and the switch, cut through; each cable ends in a serialiser and a deserialiser.
        hop: serdes_and_cable(parameters) * 2 + parameters.picos("switch.latency"),
    };
    match parameters.network() {
        Some(network) => {
            Wire { bytes_per_second: network.bytes_per_second, hop: network.latency + network.overhead, overhead_bytes: 0, ..own }
        }
        None => own,
    }
}

fn serdes_and_cable(parameters: &Parameters) -> Picos {
    let cable_ns = parameters.get("link.cable") * parameters.get("link.propagation");
    parameters.picos("link.serdes") + Picos::from_ns_f64(cable_ns)
}
