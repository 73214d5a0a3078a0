//! A remote access over a line that is up, phase by phase: table 2, and the access inside every longer flow.
//!
//! Read: the requesting OPC sends the address packet, the home's OPC reads its memory as a proxy and returns the data
//! packet with AAck in front. Write: the home acknowledges the address packet, which ends the processor's write; the data
//! packet follows. AAck frees the address path, so the next read starts while the data packet still arrives; the next
//! write starts only behind its data packet.
use super::bus;
use super::timing::{Access, PASSES, Timing};
use crate::time::Picos;

/// What a phase's time is spent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// The arbiter's program, or its logic.
    Arbiter,
    /// Setting up a data line.
    SetUp,
    /// Buses, memory, CK and caches of the nodes.
    Node,
    /// Processing and clock crossings of OPC.
    Opc,
    /// Bytes on a line.
    Serial,
    /// Parallel-serial conversion and optics.
    Conversion,
    /// Fibre: the part that grows with distance.
    Fibre,
    /// Waiting for a part that serves another.
    Wait,
}

impl Cause {
    /// All causes, in the order of the legends.
    pub const ALL: [Cause; 8] =
        [Cause::Arbiter, Cause::SetUp, Cause::Node, Cause::Opc, Cause::Serial, Cause::Conversion, Cause::Fibre, Cause::Wait];

    /// The words of the legends.
    pub fn name(self) -> &'static str {
        match self {
            Cause::Arbiter => "arbiter",
            Cause::SetUp => "line set-up",
            Cause::Node => "node (bus, memory, CK)",
            Cause::Opc => "OPC",
            Cause::Serial => "bytes on the line",
            Cause::Conversion => "conversion and optics",
            Cause::Fibre => "fibre",
            Cause::Wait => "waiting",
        }
    }
}

/// A step of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phase {
    /// At the requesting node, on the line, or at the home.
    pub place: Place,
    /// The name of the step.
    pub name: &'static str,
    /// What the time is spent on.
    pub cause: Cause,
    /// How long.
    pub span: Picos,
}

/// Where a phase happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The node that asks.
    Requester,
    /// The data line.
    Line,
    /// The node whose memory it is.
    Home,
}

/// An access as its phases: the response, and what must pass before the next one starts.
pub struct Flow {
    /// Phases of the response, in order.
    pub response: Vec<Phase>,
    /// Phases of the interval between two accesses, in order.
    pub interval: Vec<Phase>,
}

/// The sum of phases.
pub fn total(phases: &[Phase]) -> Picos {
    phases.iter().map(|phase| phase.span).sum()
}

/// The sum of phases of one cause.
pub fn share(phases: &[Phase], cause: Cause) -> Picos {
    phases.iter().filter(|phase| phase.cause == cause).map(|phase| phase.span).sum()
}

fn pass(timing: &Timing, place: Place, name: &'static str, crossing: Picos) -> Phase {
    Phase { place, name, cause: Cause::Opc, span: timing.processing + crossing }
}

/// A packet's way over the data line: its bytes, conversion, fibre, and the wait for the receiver's clock.
fn packet(timing: &Timing, bytes: u64, name: &'static str, waits: &'static str) -> [Phase; 4] {
    let on_line = |cause, name, span| Phase { place: Place::Line, name, cause, span };
    [
        on_line(Cause::Serial, name, timing.byte * bytes),
        on_line(Cause::Conversion, "conversion and optics", timing.data_const),
        on_line(Cause::Fibre, "fibre", timing.fibre),
        on_line(Cause::Node, waits, timing.phase),
    ]
}

/// The flow of one access to another node's memory, line up and no coherence action.
// FEATURE: EU-F4 EU-F15 EU-F24
pub fn remote(timing: &Timing, access: Access) -> Flow {
    if access.is_write { write(timing, access) } else { read(timing, access) }
}

fn read(timing: &Timing, access: Access) -> Flow {
    use Place::{Home, Requester};
    let beats = timing.opc(timing.beats(access));
    let node = |place, name, span| Phase { place, name, cause: Cause::Node, span };
    let mut shared = vec![pass(timing, Requester, "OPC sends the address", timing.crossing_out)];
    shared.extend(packet(timing, timing.p_addr, "address packet", "wait for the home's clock"));
    shared.push(pass(timing, Home, "OPC takes the address", timing.crossing_in));
    shared.push(node(Home, "memory read by proxy", timing.bus(bus::response(timing, access, false))));
    shared.push(node(Home, "beats into the sender", beats));
    shared.push(pass(timing, Home, "OPC sends AAck and data", timing.crossing_out));
    let back = packet(timing, timing.data_packet(access), "data packet", "wait for the requester's clock");
    let takes = pass(timing, Requester, "OPC takes AAck and data", timing.crossing_in);

    let mut response = shared.clone();
    response.extend(back);
    response.push(takes);
    response.push(node(Requester, "beats to the bus", beats));
    // The head of the data packet carries AAck: the next address need not wait for the packet's bytes.
    let mut interval = shared;
    interval.extend(back.into_iter().filter(|phase| phase.cause != Cause::Serial));
    interval.push(takes);
    interval.push(node(Requester, "request and grant", timing.bus(timing.restart)));
    Flow { response, interval }
}

fn write(timing: &Timing, access: Access) -> Flow {
    use Place::{Home, Requester};
    let beats = timing.beats(access);
    let node = |place, name, span| Phase { place, name, cause: Cause::Node, span };
    // OPC takes the beats at its own clock: the first with the tenures, the others one a cycle.
    let tenure = timing.bus(bus::response(timing, Access { is_burst: false, ..access }, false)) + timing.opc(beats - 1);
    let mut response = vec![
        node(Requester, "data tenure into OPC", tenure),
        pass(timing, Requester, "OPC sends the address", timing.crossing_out),
    ];
    response.extend(packet(timing, timing.p_addr, "address packet", "wait for the home's clock"));
    response.push(pass(timing, Home, "OPC takes the address", timing.crossing_in));
    response.push(node(Home, "address tenure by proxy", timing.bus(timing.address_tenure)));
    response.push(pass(timing, Home, "OPC sends AAck", timing.crossing_out));
    // SOURCE: [EU §6.3]: Twb has one packet's bytes, so AAck itself is a code in the idle stream.
    response.extend(packet(timing, 0, "AAck", "wait for the requester's clock").into_iter().skip(1));
    response.push(pass(timing, Requester, "OPC takes AAck", timing.crossing_in));

    let mut interval = response.clone();
    interval.push(node(Requester, "beats into the sender", timing.opc(beats)));
    interval.extend(packet(timing, timing.data_packet(access), "data packet", "").into_iter().take(1));
    interval.push(node(Requester, "request and grant", timing.bus(timing.restart)));
    Flow { response, interval }
}

/// Bytes per second of repeated accesses.
pub fn bytes_per_second(timing: &Timing, access: Access) -> f64 {
    let bytes = if access.is_burst { timing.block } else { timing.width };
    bytes as f64 / total(&remote(timing, access).interval).as_s()
}

/// The processing of OPC at a pass that makes `measured` out of a flow whose own processing is `timing.processing`.
///
/// Responses and intervals hold four passes each, so the difference is divided by four.
pub fn processing_for(timing: &Timing, phases: fn(&Timing) -> Picos, measured: Picos) -> Picos {
    let bare = Timing { processing: Picos::ZERO, ..timing.clone() };
    Picos(measured.since(phases(&bare)).0 / PASSES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::papers::euphoria::analytic::Optimised;
    use crate::papers::euphoria::parameters;

    #[test]
    fn without_processing_and_on_one_clock_the_flow_is_the_equation() {
        let parameters = parameters().with("opc.processing", 0.0).with("opc.domains", 0.0);
        let timing = Timing::new(&parameters);
        let equation = Optimised::new(&parameters);
        let near = |got: f64, want: f64| assert!((got - want).abs() < 0.05, "{got} is not {want}");
        let (read, write) = (remote(&timing, Access::BURST_READ), remote(&timing, Access::BURST_WRITE));
        near(total(&read.response).as_ns(), equation.trb());
        near(total(&write.response).as_ns(), equation.twb());
        near(bytes_per_second(&timing, Access::BURST_READ) / 1e6, equation.thr());
        near(bytes_per_second(&timing, Access::BURST_WRITE) / 1e6, equation.thw());
    }

    #[test]
    fn the_default_processing_is_solved_from_the_read_throughput() {
        let timing = Timing::new(&parameters());
        let interval = Picos::from_ns_f64(32.0 / 10.7 * 1e3);
        let solved = processing_for(&timing, |t| total(&remote(t, Access::BURST_READ).interval), interval);
        assert!((solved.as_ns() - timing.processing.as_ns()).abs() < 0.5, "{solved}");
    }
}
