//! Fagus' cache control between one server and its clients: invalidation on a write, update on a read.
//!
//! The server sends one invalidation after the other; clients answer each. Clients read at the same moment, their
//! requests reach the server, and the server answers them in the order of arrival.
use super::transport::{Origin, Piece, Port, Transport, pair};
use crate::engine::Engine;
use crate::parameters::Parameters;
use crate::station::Station;
use crate::time::Picos;
use crate::trace::Trace;

/// Times of the fastest and of the slowest client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extremes {
    /// Fastest.
    pub least: Picos,
    /// Slowest.
    pub greatest: Picos,
}

/// What a host spends on messages, besides the network.
#[derive(Clone, Copy, Debug)]
pub struct HostCosts {
    /// Until a message is on its way.
    pub send: Picos,
    /// From a message's arrival until its content is handled.
    pub receive: Picos,
    /// Bytes per second of a copy that every byte pays at each end; none where the interface moves them.
    pub copy: Option<u64>,
}

impl HostCosts {
    /// The costs on a network whose hosts wait for nothing else: both sides poll, or block in a socket.
    pub fn new(parameters: &Parameters, transport: &Transport) -> HostCosts {
        let handle = parameters.picos("fagus.handle");
        match transport {
            Transport::Rhinet(rhinet) => HostCosts {
                send: rhinet.command(parameters.count("nic.send_words")),
                receive: parameters.picos("host.poll") + parameters.picos("host.yield") + handle,
                copy: None,
            },
            Transport::Ethernet(_) => HostCosts {
                send: parameters.picos("ethernet.send"),
                receive: parameters.picos("ethernet.receive") + handle,
                copy: Some(parameters.bytes_per_second("host.copy")),
            },
        }
    }

    /// The sender's work on `len_bytes`.
    pub fn sending(&self, len_bytes: u64) -> Picos {
        self.send + self.copying(len_bytes)
    }

    /// The receiver's work on `len_bytes`.
    pub fn receiving(&self, len_bytes: u64) -> Picos {
        self.receive + self.copying(len_bytes)
    }

    fn copying(&self, len_bytes: u64) -> Picos {
        self.copy.map_or(Picos::ZERO, |rate| Picos::from_bytes(len_bytes, rate))
    }
}

enum Event {
    /// The server turns to the next client of a write.
    Tell(usize),
    /// A message for a node is in its memory.
    Arrived { at: usize, from: usize, len_bytes: u64 },
    /// A node has handled a message.
    Handled { at: usize, from: usize },
    /// A client reads its invalid copy.
    Read(usize),
}

struct World<'a> {
    transport: &'a Transport,
    costs: HostCosts,
    message_bytes: u64,
    region_bytes: u64,
    uses_cache: bool,
    is_update: bool,
    ports: Vec<Port>,
    processors: Vec<Station>,
    updates: u64,
    done: Vec<Picos>,
    engine: Engine<Event>,
    trace: Option<&'a mut Trace>,
}

/// Node 0 serves, the others are its clients.
const SERVER: usize = 0;

impl<'a> World<'a> {
    fn new(
        parameters: &Parameters,
        transport: &'a Transport,
        nodes: usize,
        is_update: bool,
        trace: Option<&'a mut Trace>,
    ) -> World<'a> {
        World {
            transport,
            costs: HostCosts::new(parameters, transport),
            message_bytes: parameters.bytes("fagus.message"),
            // An update moves all pages of the region; a small variable is alone on one.
            region_bytes: parameters.bytes("fagus.variable").next_multiple_of(parameters.bytes("npc.line")),
            uses_cache: parameters.is_on("npc.use"),
            is_update,
            ports: vec![Port::default(); nodes],
            processors: vec![Station::new(); nodes],
            updates: 0,
            done: vec![Picos::ZERO; nodes],
            engine: Engine::new(),
            trace,
        }
    }

    fn run(mut self) -> Extremes {
        while let Some((now, event)) = self.engine.pop() {
            match event {
                Event::Tell(client) => {
                    let sent = self.send(now, SERVER, client, self.message_bytes, Origin::Host);
                    if client + 1 < self.ports.len() {
                        self.engine.schedule(sent, Event::Tell(client + 1));
                    }
                }
                Event::Read(client) => {
                    self.send(now, client, SERVER, self.message_bytes, Origin::Host);
                }
                Event::Arrived { at, from, len_bytes } => {
                    let handled = self.processors[at].take(now, self.costs.receiving(len_bytes));
                    self.span(at, "processor", || format!("handles {len_bytes} B of node {from}"), handled.start, handled.end);
                    self.engine.schedule(handled.end, Event::Handled { at, from });
                }
                Event::Handled { at, from } => self.on_handled(now, at, from),
            }
        }
        let clients = &self.done[SERVER + 1..];
        Extremes {
            least: clients.iter().copied().min().unwrap_or_default(),
            greatest: clients.iter().copied().max().unwrap_or_default(),
        }
    }

    fn on_handled(&mut self, now: Picos, at: usize, from: usize) {
        if at == SERVER && self.is_update {
            // The first client's page is kept in its line; the others get the same version from there.
            let origin = if self.uses_cache && self.updates > 0 { Origin::Cache } else { Origin::Host };
            self.updates += 1;
            self.send(now, SERVER, from, self.region_bytes, origin);
        } else if at == SERVER {
            self.done[from] = now;
        } else if self.is_update {
            self.done[at] = now;
        } else {
            self.send(now, at, SERVER, self.message_bytes, Origin::Host);
        }
    }

    /// A node sends; returns when its processor is through with it.
    fn send(&mut self, now: Picos, from: usize, to: usize, len_bytes: u64, origin: Origin) -> Picos {
        let work = self.processors[from].take(now, self.costs.sending(len_bytes));
        let moved = self.transport.move_piece(pair(&mut self.ports, from, to), work.end, Piece { len_bytes, origin });
        self.span(from, "processor", || format!("sends {len_bytes} B to node {to}"), work.start, work.end);
        self.span(from, "network", || format!("{len_bytes} B to node {to} ({origin:?})"), moved.start, moved.arrived);
        self.engine.schedule(moved.arrived, Event::Arrived { at: to, from, len_bytes });
        work.end
    }

    fn span(&mut self, node: usize, part: &str, name: impl FnOnce() -> String, start: Picos, end: Picos) {
        if let Some(trace) = self.trace.as_deref_mut() {
            let part = trace.part(&format!("{}: node {node}", self.transport.name()), part);
            trace.span(part, name(), start, end);
        }
    }
}

/// The server writes: each client's time until the server knows its copy invalid.
pub fn invalidate(parameters: &Parameters, transport: &Transport, nodes: usize) -> Extremes {
    let mut world = World::new(parameters, transport, nodes, false, None);
    world.engine.schedule(Picos::ZERO, Event::Tell(SERVER + 1));
    world.run()
}

/// All clients read at once: each client's time until its copy is current.
// FEATURE: RF-F16
pub fn update(parameters: &Parameters, transport: &Transport, nodes: usize, trace: Option<&mut Trace>) -> Extremes {
    let mut world = World::new(parameters, transport, nodes, true, trace);
    for client in SERVER + 1..nodes {
        world.engine.schedule(Picos::ZERO, Event::Read(client));
    }
    world.run()
}

#[cfg(test)]
mod tests {
    use super::super::parameters;
    use super::*;

    #[test]
    fn one_client_is_fastest_and_slowest() {
        for transport in Transport::both(&parameters()) {
            let update = update(&parameters(), &transport, 2, None);
            assert_eq!(update.least, update.greatest);
        }
    }

    #[test]
    fn the_last_client_waits_for_the_others() {
        for transport in Transport::both(&parameters()) {
            let [three, four] = [3, 4].map(|nodes| update(&parameters(), &transport, nodes, None));
            assert!(three.greatest > three.least && four.greatest > three.greatest, "{}", transport.name());
        }
    }

    #[test]
    fn the_page_cache_shortens_later_updates() {
        let [rhinet, _] = Transport::both(&parameters());
        let with = update(&parameters(), &rhinet, 4, None);
        let without = update(&parameters().with("npc.use", 0.0), &rhinet, 4, None);
        assert!(with.greatest < without.greatest);
    }
}
