//! The parameters of one run as spans of time: what the parts of the model look up.
use crate::parameters::Parameters;
use crate::time::Picos;

/// Number of times an access passes an OPC: out and in at both nodes.
pub const PASSES: u64 = 4;

/// Kinds of access, as in the paper's tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// A whole block (burst) instead of one beat (single).
    pub is_burst: bool,
    /// A write instead of a read.
    pub is_write: bool,
}

impl Access {
    /// All four, in the order of the tables: single read, single write, burst read, burst write.
    pub const ALL: [Access; 4] = [
        Access { is_burst: false, is_write: false },
        Access { is_burst: false, is_write: true },
        Access { is_burst: true, is_write: false },
        Access { is_burst: true, is_write: true },
    ];
    /// A read of a block.
    pub const BURST_READ: Access = Access::ALL[2];
    /// A write of a block.
    pub const BURST_WRITE: Access = Access::ALL[3];

    /// The words of the tables.
    pub fn name(self) -> &'static str {
        match (self.is_burst, self.is_write) {
            (false, false) => "single read",
            (false, true) => "single write",
            (true, false) => "burst read",
            (true, true) => "burst write",
        }
    }
}

/// Cycle counts and spans of one run; immutable.
#[derive(Clone, Debug)]
pub struct Timing {
    /// Bus clock in hertz.
    pub bus_hertz: u64,
    /// Clock of OPC in hertz; the bus clock where a node has one domain.
    pub opc_hertz: u64,
    /// Processor clock in hertz.
    pub cpu_hertz: u64,
    /// Bytes of a block.
    pub block: u64,
    /// Bytes of a beat.
    pub width: u64,
    /// Bus cycles of one beat's tenures.
    pub transfer: u64,
    /// Bus cycles of an address tenure.
    pub address_tenure: u64,
    /// Bus cycles from a retry to the next request.
    pub back_off: u64,
    /// Bus cycles from an accepted address to the end of the next address tenure.
    pub next_address: u64,
    /// Bus cycles of request and grant.
    pub restart: u64,
    /// Bus cycles a single read waits for the memory.
    pub wait_single: u64,
    /// Bus cycles a burst read waits for the memory.
    pub wait_burst: u64,
    /// Bus cycles the memory needs after a burst.
    pub recovery: u64,
    /// Bus cycles of CK's directory check.
    pub check: u64,
    /// Bus cycles of CK's least step.
    pub lookup: u64,
    /// A crossing from the bus clock to the OPC clock.
    pub crossing_out: Picos,
    /// A crossing from the OPC clock to the bus clock.
    pub crossing_in: Picos,
    /// Processing of OPC at each pass.
    pub processing: Picos,
    /// Mean wait for the receiving node's clock edge, F.
    pub phase: Picos,
    /// Time of a byte on a line, V.
    pub byte: Picos,
    /// Fibre between nodes, one way.
    pub fibre: Picos,
    /// Fibre to the arbiter, one way.
    pub arbiter_fibre: Picos,
    /// Conversion and optics of a data line.
    pub data_const: Picos,
    /// Conversion and optics of the arbitration line.
    pub arbitration_const: Picos,
    /// PLL lock: the set-up without its two initialisation checks.
    pub lock: Picos,
    /// Bytes of an address packet.
    pub p_addr: u64,
    /// Bytes of a burst's data packet.
    pub p_data: u64,
    /// Bytes of a control packet.
    pub p_control: u64,
    /// A wavelength arbitration.
    pub arbitration: Picos,
    /// Any other step of the arbiter.
    pub step: Picos,
}

impl Timing {
    /// Reads the parameters once.
    pub fn new(parameters: &Parameters) -> Timing {
        let p = parameters;
        let bus_hertz = p.hertz("bus.clock");
        let has_two_domains = p.choice("opc.domains") == 1;
        let opc_hertz = if has_two_domains { p.hertz("opc.clock") } else { bus_hertz };
        let crossing = |hertz: u64| {
            if has_two_domains { Picos((p.get("opc.synchroniser") * 1e12 / hertz as f64).round() as u64) } else { Picos::ZERO }
        };
        let metres = |length: f64| Picos::from_ns_f64(p.get("line.fibre_delay") * length);
        let distance = p.get_in("line.distance", "m");
        // SOURCE: [EU §6.3]: V = 10^4 / f with f in MHz: ten bits a byte, one bit a carrier cycle.
        let byte = Picos::from_cycles(10, p.hertz("line.carrier"));
        let cycles = |key: &str| p.count(key);
        let is_hardware = p.choice("arbiter.kind") == 1;
        let hardware = Picos::from_cycles(cycles("arbiter.hardware_step"), p.hertz("arbiter.clock"));
        Timing {
            bus_hertz,
            opc_hertz,
            cpu_hertz: p.hertz("node.cpu_clock"),
            block: p.bytes("cache.block"),
            width: p.bytes("bus.width"),
            transfer: cycles("bus.transfer"),
            address_tenure: cycles("bus.address_tenure"),
            back_off: cycles("bus.back_off"),
            next_address: cycles("bus.next_address"),
            restart: cycles("bus.restart"),
            wait_single: cycles("memory.wait_single"),
            wait_burst: cycles("memory.wait_burst"),
            recovery: cycles("memory.recovery"),
            check: cycles("ck.check"),
            lookup: cycles("ck.lookup"),
            crossing_out: crossing(opc_hertz),
            crossing_in: crossing(bus_hertz),
            processing: p.picos("opc.processing"),
            phase: Picos((p.get("line.phase") * 1e12 / bus_hertz as f64).round() as u64),
            byte,
            fibre: metres(distance),
            arbiter_fibre: metres(distance * p.get("line.arbiter_share")),
            data_const: p.picos("line.data_const"),
            arbitration_const: p.picos("line.arbitration_const"),
            lock: lock(p),
            p_addr: p.bytes("packet.address"),
            p_data: p.bytes("packet.data"),
            p_control: p.bytes("packet.control"),
            arbitration: if is_hardware { hardware } else { p.picos("arbiter.arbitration") },
            step: if is_hardware { hardware } else { p.picos("arbiter.step") },
        }
    }

    /// A count of bus cycles.
    pub fn bus(&self, cycles: u64) -> Picos {
        Picos::from_cycles(cycles, self.bus_hertz)
    }

    /// A count of OPC cycles.
    pub fn opc(&self, cycles: u64) -> Picos {
        Picos::from_cycles(cycles, self.opc_hertz)
    }

    /// A count of processor cycles.
    pub fn cpu(&self, cycles: u64) -> Picos {
        Picos::from_cycles(cycles, self.cpu_hertz)
    }

    /// The beats of an access.
    pub fn beats(&self, access: Access) -> u64 {
        if access.is_burst { self.block.div_ceil(self.width) } else { 1 }
    }

    /// The data packet of an access on the line: a burst's, less the beats a single does not carry.
    pub fn data_packet(&self, access: Access) -> u64 {
        if access.is_burst { self.p_data } else { self.p_data.saturating_sub(self.block.saturating_sub(self.width)) }
    }

    /// A control packet between a node and the arbiter: serial time, conversion, fibre.
    pub fn control(&self) -> Picos {
        self.byte * self.p_control + self.arbitration_const + self.arbiter_fibre
    }

    /// A data line's delay, D_dat.
    pub fn data_line(&self) -> Picos {
        self.data_const + self.fibre
    }
}

/// The part of the measured set-up that is not the two check packets, which depend on distance and rate.
///
/// SOURCE: [EU §5.1.3]: 44,143 ns, measured at 11.2 m and 250 MHz.
fn lock(p: &Parameters) -> Picos {
    use crate::facts::facts;
    let fibre = Picos::from_ns_f64(p.get("line.fibre_delay") * facts().number("eu.distance"));
    let byte = Picos::from_cycles(10, (facts().number("eu.carrier") * 1e6) as u64);
    let check = byte * p.bytes("packet.control") + p.picos("line.data_const") + fibre;
    p.picos("line.setup").since(check * 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::facts;
    use crate::papers::euphoria::parameters;

    #[test]
    fn a_byte_and_the_lines_have_the_printed_delays() {
        // FEATURE: EU-F6 EU-F7
        let timing = Timing::new(&parameters());
        assert_eq!(timing.byte, Picos::ns(40));
        let near = |got: Picos, ns: f64| assert!((got.as_ns() - ns).abs() < 0.01, "{got} is not {ns} ns");
        near(timing.data_line(), 235.1 + 5.085 * 11.2);
        near(timing.arbitration_const + timing.arbiter_fibre, 207.5 + 5.085 * 5.6);
    }

    #[test]
    fn the_set_up_at_the_papers_distance_is_the_measured_one() {
        let timing = Timing::new(&parameters());
        let check = timing.byte * timing.p_control + timing.data_line();
        assert_eq!(timing.lock + check * 2, Picos::from_ns_f64(facts().number("eu.line_setup")));
    }
}
