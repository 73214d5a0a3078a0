//! The way of bytes between two hosts: the network interface with its bus and link, or 100BASE Ethernet.
//!
//! Both are a sending part, a delay and a receiving part that overlap on one transfer; on RHiNET the two parts of a host
//! are the same PCI bus. The hosts' own work stands beside it, since it is what the two configurations differ in.
use crate::parameters::Parameters;
use crate::station::Station;
use crate::time::Picos;

/// A piece of a transfer: at most one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Bytes.
    pub len_bytes: u64,
    /// Where the sending interface takes them from.
    pub origin: Origin,
}

/// Where the bytes of a piece come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Host memory, by DMA (Push, Send, Push Page in its Normal and Page Caching modes).
    Host,
    /// A line of the Network Page Cache (Send from Cache).
    Cache,
}

/// When a piece left and arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    /// The sender's part was taken from here.
    pub start: Picos,
    /// The sender's part is free again; the sender's completion.
    pub sent: Picos,
    /// The last byte is in the receiver's memory, and its completion flag behind it.
    pub arrived: Picos,
}

/// The parts of one host that a transfer takes.
///
/// RHiNET uses the first three, Ethernet the others.
#[derive(Clone, Debug, Default)]
pub struct Port {
    dma: Station,
    bus: Station,
    sdram: Station,
    line_out: Station,
    line_in: Station,
}

/// The network interface RHiNET-2/NI0 in its NI-NPC configuration.
#[derive(Clone, Debug)]
pub struct Rhinet {
    /// One burst on the bus, both ends included.
    pub burst: Picos,
    /// Bytes of a burst.
    pub burst_bytes: u64,
    /// Setting up a DMA, once a piece.
    pub setup: Picos,
    /// One word the host writes.
    pub word: Picos,
    /// Taking a command or packet apart.
    pub decode: Picos,
    /// One table look-up.
    pub lookup: Picos,
    /// Optics, fibre, switch.
    pub latency: Picos,
    /// Bytes per second of the link.
    pub link_rate: u64,
    /// Header bytes of a packet.
    pub header_bytes: u64,
    /// Bytes per second out of the interface's SDRAM.
    pub cache_rate: u64,
    /// Bytes of a page and of a line.
    pub page_bytes: u64,
}

/// 100BASE Ethernet with UDP/IP.
#[derive(Clone, Debug)]
pub struct Ethernet {
    rate: u64,
    payload_bytes: u64,
    frame_bytes: u64,
    udp_bytes: u64,
    switch: Picos,
    /// Page size, at which datagrams are cut.
    pub page_bytes: u64,
    /// Bytes in flight before an acknowledgement is waited for.
    pub buffer_bytes: u64,
}

impl Rhinet {
    /// The interface of the parameters.
    pub fn new(parameters: &Parameters) -> Rhinet {
        let bus_hertz = parameters.hertz("pci.clock");
        let nic_hertz = parameters.hertz("nic.clock");
        let burst_bytes = parameters.bytes("pci.burst");
        let data = burst_bytes.div_ceil(parameters.count("pci.width") / 8);
        let around: u64 =
            ["pci.arbitration", "pci.address", "pci.wait", "pci.turnaround"].map(|key| parameters.count(key)).iter().sum();
        let cycles = |key| Picos::from_cycles(parameters.count(key), nic_hertz);
        Rhinet {
            burst: Picos::from_cycles(around + data, bus_hertz),
            burst_bytes,
            setup: parameters.picos("dma.setup"),
            word: Picos::from_cycles(parameters.count("pci.write"), bus_hertz),
            decode: cycles("nic.decode"),
            lookup: cycles("nic.lookup"),
            latency: parameters.picos("link.latency") + parameters.picos("switch.latency"),
            link_rate: parameters.bytes_per_second("link.rate"),
            header_bytes: parameters.bytes("link.header"),
            cache_rate: parameters.bytes_per_second("npc.rate"),
            page_bytes: parameters.bytes("npc.line"),
        }
    }

    /// The bus time of `len_bytes`.
    pub fn dma(&self, len_bytes: u64) -> Picos {
        self.burst * len_bytes.div_ceil(self.burst_bytes)
    }

    /// `words` command words from the host, and their decoding.
    pub fn command(&self, words: u64) -> Picos {
        self.word * words + self.decode
    }

    fn link(&self, len_bytes: u64) -> Picos {
        Picos::from_bytes(self.header_bytes + len_bytes, self.link_rate)
    }

    /// A packet without data, from interface to interface: a Pull request.
    pub fn request(&self) -> Picos {
        self.link(0) + self.latency + self.decode
    }

    /// Moves a piece; `lookups` are those of the receiving interface before it can write.
    ///
    /// The link carries what the bus yields while the bus goes on, and the receiving bus writes what the link brings.
    // FEATURE: RF-F2
    pub fn move_piece(&self, from: &mut Port, to: &mut Port, asked: Picos, piece: Piece, lookups: u64) -> Moved {
        let burst_bytes = piece.len_bytes.min(self.burst_bytes);
        let (taken, first, last) = match piece.origin {
            Origin::Host => {
                // One DMA after the other; the bus is free while the next is set up.
                let before = self.lookup + self.setup;
                let engine = from.dma.take(asked, before + self.dma(piece.len_bytes));
                let read = from.bus.take(engine.start + before, self.dma(piece.len_bytes));
                (read, read.start + self.burst, read.end)
            }
            Origin::Cache => {
                let fill = Picos::from_bytes(burst_bytes, self.cache_rate);
                let read = from.sdram.take(asked, Picos::from_bytes(piece.len_bytes, self.cache_rate));
                (read, read.start + fill, read.end)
            }
        };
        let flight = self.link(burst_bytes) + self.latency + self.decode + self.lookup * lookups;
        let (write_from, write_until) = (first + flight, last + flight + self.burst);
        let span = self.dma(piece.len_bytes);
        let written = to.bus.take(write_from, span);
        let arrived = written.end.max(write_until) + self.word;
        Moved { start: taken.start, sent: taken.end, arrived }
    }
}

impl Ethernet {
    /// The network of the parameters.
    pub fn new(parameters: &Parameters) -> Ethernet {
        Ethernet {
            rate: parameters.bytes_per_second("ethernet.rate"),
            payload_bytes: parameters.bytes("ethernet.payload"),
            frame_bytes: parameters.bytes("ethernet.frame"),
            udp_bytes: parameters.bytes("ethernet.udp"),
            switch: parameters.picos("ethernet.switch"),
            page_bytes: parameters.bytes("npc.line"),
            buffer_bytes: parameters.bytes("ethernet.buffer"),
        }
    }

    /// The line time of one datagram.
    pub fn line(&self, len_bytes: u64) -> Picos {
        let datagram = len_bytes + self.udp_bytes;
        let frames = datagram.div_ceil(self.payload_bytes);
        Picos::from_bytes(datagram + frames * self.frame_bytes, self.rate)
    }

    /// Moves one datagram through the switch, which forwards a frame when it has it whole.
    pub fn move_datagram(&self, from: &mut Port, to: &mut Port, asked: Picos, len_bytes: u64) -> Moved {
        let line = self.line(len_bytes);
        let sent = from.line_out.take(asked, line);
        let last = (len_bytes + self.udp_bytes).min(self.payload_bytes) + self.frame_bytes;
        let frame = Picos::from_bytes(last, self.rate);
        let received = to.line_in.take(sent.start + frame + self.switch, line);
        Moved { start: sent.start, sent: sent.end, arrived: received.end.max(sent.end + self.switch + frame) }
    }
}

/// Either network.
#[derive(Clone, Debug)]
pub enum Transport {
    /// RHiNET.
    Rhinet(Rhinet),
    /// 100BASE Ethernet.
    Ethernet(Ethernet),
}

impl Transport {
    /// Both, RHiNET first.
    // FEATURE: RF-F13 RF-F22
    pub fn both(parameters: &Parameters) -> [Transport; 2] {
        [Transport::Rhinet(Rhinet::new(parameters)), Transport::Ethernet(Ethernet::new(parameters))]
    }

    /// The configuration's name.
    pub fn name(&self) -> &'static str {
        match self {
            Transport::Rhinet(_) => "Fagus/RHiNET",
            Transport::Ethernet(_) => "Fagus/Ethernet",
        }
    }

    /// Moves one piece from port to port.
    pub fn move_piece(&self, ports: [&mut Port; 2], asked: Picos, piece: Piece) -> Moved {
        let [from, to] = ports;
        match self {
            // The receiver looks up GID and page.
            Transport::Rhinet(rhinet) => rhinet.move_piece(from, to, asked, piece, 2),
            Transport::Ethernet(ethernet) => ethernet.move_datagram(from, to, asked, piece.len_bytes),
        }
    }
}

/// Two different ports of one list.
pub fn pair(ports: &mut [Port], from: usize, to: usize) -> [&mut Port; 2] {
    ports.get_disjoint_mut([from, to]).expect("a transfer has two different ends")
}

#[cfg(test)]
mod tests {
    use super::super::parameters;
    use super::*;

    #[test]
    fn a_burst_is_its_clocks() {
        let rhinet = Rhinet::new(&parameters());
        // 2 + 1 + 9 + 8 + 1 clocks of 33 MHz.
        assert_eq!(rhinet.burst, Picos::from_cycles(21, 33_000_000));
        assert_eq!(rhinet.dma(4096), rhinet.burst * 128);
        assert_eq!(rhinet.dma(1), rhinet.burst);
    }

    #[test]
    fn a_page_from_the_cache_needs_no_bus_at_the_sender() {
        let rhinet = Rhinet::new(&parameters());
        let time = |origin| {
            let (mut from, mut to) = (Port::default(), Port::default());
            let moved = rhinet.move_piece(&mut from, &mut to, Picos::ZERO, Piece { len_bytes: 4096, origin }, 2);
            (moved.arrived, from.bus.busy())
        };
        let (host, cache) = (time(Origin::Host), time(Origin::Cache));
        assert!(cache.0 + rhinet.setup <= host.0, "{cache:?} {host:?}");
        assert_eq!(cache.1, Picos::ZERO);
    }

    #[test]
    fn a_page_on_ethernet_is_three_frames() {
        let ethernet = Ethernet::new(&parameters());
        assert_eq!(ethernet.line(4096), Picos::from_bytes(4096 + 8 + 3 * 58, 12_500_000));
    }
}
