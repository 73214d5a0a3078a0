//! A barrier of two nodes that forces a transfer: node 0 serves the barrier and owns the pages, node 1 gets them.
use super::coherence::HostCosts;
use super::primitives::PageMode;
use super::transport::{Origin, Piece, Port, Transport, pair};
use crate::engine::Engine;
use crate::parameters::Parameters;
use crate::station::Station;
use crate::time::Picos;

enum Event {
    /// A control message is in a node's memory.
    Message { at: usize },
    /// The server turns to the next page.
    Page(u64),
    /// A page is in the client's memory.
    PageArrived(u64),
    /// The client has handled everything.
    Left,
}

struct World<'a> {
    transport: &'a Transport,
    costs: HostCosts,
    message_bytes: u64,
    page_bytes: u64,
    origin: Origin,
    pages: u64,
    pages_unacknowledged_max: u64,
    unacknowledged: u64,
    next_page: u64,
    ports: Vec<Port>,
    processors: [Station; 2],
    engine: Engine<Event>,
}

const SERVER: usize = 0;
const CLIENT: usize = 1;

/// Throughput in MB/s of a barrier for each size.
// FEATURE: RF-F15
pub fn sweep(parameters: &Parameters, transport: &Transport, sizes: &[u64], mode: PageMode) -> Vec<f64> {
    sizes.iter().map(|&size| size as f64 / barrier(parameters, transport, size, mode).as_us()).collect()
}

/// Time of one barrier that moves `len_bytes`, both nodes entering at once.
pub fn barrier(parameters: &Parameters, transport: &Transport, len_bytes: u64, mode: PageMode) -> Picos {
    let page_bytes = parameters.bytes("npc.line");
    let mut world = World {
        transport,
        costs: HostCosts::new(parameters, transport),
        message_bytes: parameters.bytes("fagus.message"),
        page_bytes,
        origin: if mode == PageMode::SendFromCache { Origin::Cache } else { Origin::Host },
        pages: len_bytes.div_ceil(page_bytes),
        pages_unacknowledged_max: match transport {
            // RHiNET keeps order and loses nothing; UDP must not overrun the receiver's socket buffer, of which the kernel's
            // own bookkeeping takes half.
            Transport::Rhinet(_) => u64::MAX,
            Transport::Ethernet(ethernet) => (ethernet.buffer_bytes / 2 / page_bytes).max(1),
        },
        unacknowledged: 0,
        next_page: 0,
        ports: vec![Port::default(); 2],
        processors: [Station::new(), Station::new()],
        engine: Engine::new(),
    };
    world.send_message(Picos::ZERO, CLIENT);
    world.run()
}

impl World<'_> {
    fn run(mut self) -> Picos {
        while let Some((now, event)) = self.engine.pop() {
            match event {
                Event::Message { at: SERVER } => {
                    // The client's arrival, or an acknowledgement: either lets pages go.
                    let handled = self.processors[SERVER].take(now, self.costs.receiving(self.message_bytes)).end;
                    self.unacknowledged = 0;
                    self.engine.schedule(handled, Event::Page(self.next_page));
                }
                Event::Message { .. } => {
                    let handled = self.processors[CLIENT].take(now, self.costs.receiving(self.message_bytes)).end;
                    self.engine.schedule(handled, Event::Left);
                }
                Event::Page(index) => self.on_page(now, index),
                Event::PageArrived(index) => self.on_page_arrived(now, index),
                Event::Left => return now,
            }
        }
        unreachable!("the release always arrives")
    }

    fn on_page(&mut self, now: Picos, index: u64) {
        if index == self.pages {
            self.send_message(now, SERVER);
            return;
        }
        let piece = Piece { len_bytes: self.page_bytes, origin: self.origin };
        let work = self.processors[SERVER].take(now, self.costs.sending(self.page_bytes));
        let moved = self.transport.move_piece(pair(&mut self.ports, SERVER, CLIENT), work.end, piece);
        self.engine.schedule(moved.arrived, Event::PageArrived(index));
        self.next_page = index + 1;
        self.unacknowledged += 1;
        if self.unacknowledged < self.pages_unacknowledged_max || self.next_page == self.pages {
            // The next command is written while this page moves; the interface takes it when it is free.
            self.engine.schedule(work.end, Event::Page(self.next_page));
        }
    }

    fn on_page_arrived(&mut self, now: Picos, index: u64) {
        if self.costs.copy.is_none() {
            return;
        }
        let handled = self.processors[CLIENT].take(now, self.costs.receiving(self.page_bytes)).end;
        if (index + 1).is_multiple_of(self.pages_unacknowledged_max) && index + 1 < self.pages {
            self.send_message(handled, CLIENT);
        }
    }

    fn send_message(&mut self, now: Picos, from: usize) {
        let to = SERVER + CLIENT - from;
        let work = self.processors[from].take(now, self.costs.sending(self.message_bytes));
        let piece = Piece { len_bytes: self.message_bytes, origin: Origin::Host };
        let moved = self.transport.move_piece(pair(&mut self.ports, from, to), work.end, piece);
        self.engine.schedule(moved.arrived, Event::Message { at: to });
    }
}

#[cfg(test)]
mod tests {
    use super::super::parameters;
    use super::*;

    #[test]
    fn throughput_grows_with_whole_pages() {
        for transport in Transport::both(&parameters()) {
            let sizes: Vec<u64> = (1..=128).map(|pages| pages * 4096).collect();
            let rates = sweep(&parameters(), &transport, &sizes, PageMode::Normal);
            assert!(rates[127] > rates[7] && rates[7] > rates[0], "{}: {rates:?}", transport.name());
        }
    }

    #[test]
    fn part_of_a_page_costs_the_page() {
        let [rhinet, _] = Transport::both(&parameters());
        let time = |len| barrier(&parameters(), &rhinet, len, PageMode::Normal);
        assert_eq!(time(1024), time(4096));
        assert!(time(4097) > time(4096));
    }
}
