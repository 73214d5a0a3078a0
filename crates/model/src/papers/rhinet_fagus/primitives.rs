//! The four primitives between two nodes: latency, bandwidth, and the fit of the one constant that is fitted.
//!
//! A transfer is cut into pages, since neighbouring virtual pages are not neighbours in memory. A sending interface takes
//! one page after the other; a Pull asks for one page after the other.
use super::tables::{Tables, Unknown};
use super::transport::{Origin, Piece, Port, Rhinet, pair};
use crate::engine::Engine;
use crate::parameters::Parameters;
use crate::time::Picos;
use crate::trace::Trace;

/// A command of a user process to its interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Primitive {
    /// Local memory to (GID, offset).
    Push,
    /// (GID, offset) to local memory.
    Pull,
    /// Push of whole pages, with or without the Network Page Cache.
    PushPage(PageMode),
    /// Into the receiver's registered buffer.
    Send,
}

/// What Push Page does with the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageMode {
    /// DMA and send.
    Normal,
    /// DMA, send, and keep in the named line at the same time.
    PageCaching,
    /// Send the named line.
    SendFromCache,
}

impl Primitive {
    /// All, with the three modes of Push Page.
    pub const ALL: [Primitive; 6] = [
        Primitive::Push,
        Primitive::Pull,
        Primitive::PushPage(PageMode::Normal),
        Primitive::PushPage(PageMode::PageCaching),
        Primitive::PushPage(PageMode::SendFromCache),
        Primitive::Send,
    ];

    /// The paper's name.
    pub fn name(self) -> &'static str {
        match self {
            Primitive::Push => "Push",
            Primitive::Pull => "Pull",
            Primitive::PushPage(PageMode::Normal) => "Push Page, Normal",
            Primitive::PushPage(PageMode::PageCaching) => "Push Page, Page Caching",
            Primitive::PushPage(PageMode::SendFromCache) => "Push Page, Send from Cache",
            Primitive::Send => "Send",
        }
    }

    fn words(self, parameters: &Parameters) -> u64 {
        parameters.count(match self {
            Primitive::Push => "nic.push_words",
            Primitive::Pull => "nic.pull_words",
            Primitive::PushPage(_) => "nic.page_words",
            Primitive::Send => "nic.send_words",
        })
    }

    /// The receiving interface finds the physical address of a byte: a Send goes to the registered buffer and needs no GID.
    fn resolve(self, tables: &mut Tables, offset: u64) -> Result<u64, Unknown> {
        let address = if self == Primitive::Send { BUFFER + offset } else { tables.of_gid(GID, offset)? };
        tables.physical(address)
    }

    fn origin(self) -> Origin {
        if self == Primitive::PushPage(PageMode::SendFromCache) { Origin::Cache } else { Origin::Host }
    }

    /// Whether it moves whole pages only.
    pub fn is_paged(self) -> bool {
        matches!(self, Primitive::PushPage(_))
    }
}

/// The registered buffer of either node: its GID, and a virtual address at a page's start.
const GID: u32 = 1;
const BUFFER: u64 = 1 << 30;

enum Event {
    /// A host issues the primitive.
    Issue { node: usize },
    /// A sending interface turns to a page.
    Page { from: usize, index: u64 },
    /// A page is in the receiver's memory.
    Arrived { at: usize, index: u64 },
    /// A Pull's request reaches the remote interface.
    Request { at: usize, index: u64 },
    /// A host has seen its completion.
    Seen { node: usize },
}

struct World<'a> {
    rhinet: Rhinet,
    primitive: Primitive,
    words: u64,
    poll: Picos,
    len_bytes: u64,
    rounds_left: u64,
    ports: [Port; 2],
    tables: [Tables; 2],
    engine: Engine<Event>,
    trace: Option<&'a mut Trace>,
}

/// Time of one transfer of `len_bytes`: half of a round trip, or for a Pull from issue to arrival.
// FEATURE: RF-F1 RF-F5 RF-F6 RF-F7 RF-F10 RF-F11 RF-F20
pub fn transfer(parameters: &Parameters, primitive: Primitive, len_bytes: u64, trace: Option<&mut Trace>) -> Picos {
    let rhinet = Rhinet::new(parameters);
    let tables = [(); 2].map(|()| {
        let mut tables = Tables::new(rhinet.page_bytes);
        tables.register(GID, BUFFER, len_bytes);
        tables
    });
    let mut world = World {
        rhinet,
        tables,
        primitive,
        words: primitive.words(parameters),
        poll: parameters.picos("host.poll"),
        len_bytes,
        rounds_left: if primitive == Primitive::Pull { 1 } else { 2 },
        ports: [Port::default(), Port::default()],
        engine: Engine::new(),
        trace,
    };
    world.engine.schedule(Picos::ZERO, Event::Issue { node: 0 });
    let transfers = world.rounds_left;
    while let Some((now, event)) = world.engine.pop() {
        world.step(now, event);
    }
    Picos(world.engine.now().0 / transfers)
}

impl World<'_> {
    fn step(&mut self, now: Picos, event: Event) {
        match event {
            Event::Issue { node } => {
                let ready = now + self.rhinet.command(self.words);
                self.span(node, "host", "writes the command", now, ready);
                let next = if self.primitive == Primitive::Pull {
                    self.ask(ready, node, 0);
                    return;
                } else {
                    Event::Page { from: node, index: 0 }
                };
                self.engine.schedule(ready, next);
            }
            Event::Request { at, index } => {
                // The remote interface resolves GID and page, then does what a Push does.
                let lookups = self.lookups(at, index);
                let ready = now + self.rhinet.lookup * lookups;
                self.span(at, "interface", "resolves the request", now, ready);
                self.engine.schedule(ready, Event::Page { from: at, index });
            }
            Event::Page { from, index } => self.on_page(now, from, index),
            Event::Arrived { at, index } => self.on_arrived(now, at, index),
            Event::Seen { node } => {
                self.rounds_left -= 1;
                if self.rounds_left > 0 {
                    self.engine.schedule(now, Event::Issue { node });
                }
            }
        }
    }

    fn ask(&mut self, now: Picos, node: usize, index: u64) {
        let arrives = now + self.rhinet.request();
        self.span(node, "link", "request", now, arrives);
        self.engine.schedule(arrives, Event::Request { at: 1 - node, index });
    }

    /// Look-ups until an interface knows where a page of the transfer lies in its host's memory.
    fn lookups(&mut self, at: usize, index: u64) -> u64 {
        let tables = &mut self.tables[at];
        let found = self.primitive.resolve(tables, index * self.rhinet.page_bytes);
        assert!(found.is_ok(), "the buffer is registered: {found:?}");
        tables.take_lookups()
    }

    fn on_page(&mut self, now: Picos, from: usize, index: u64) {
        let page = self.rhinet.page_bytes;
        let piece = Piece { len_bytes: page.min(self.len_bytes - index * page), origin: self.primitive.origin() };
        let lookups = self.lookups(1 - from, index);
        let [out, into] = pair(&mut self.ports, from, 1 - from);
        let moved = self.rhinet.move_piece(out, into, now, piece, lookups);
        self.span(from, "bus", "page out", moved.start, moved.sent);
        self.span(1 - from, "bus", "page in", moved.sent, moved.arrived);
        self.engine.schedule(moved.arrived, Event::Arrived { at: 1 - from, index });
        if self.primitive != Primitive::Pull && (index + 1) * page < self.len_bytes {
            self.engine.schedule(moved.sent, Event::Page { from, index: index + 1 });
        }
    }

    fn on_arrived(&mut self, now: Picos, at: usize, index: u64) {
        let is_last = (index + 1) * self.rhinet.page_bytes >= self.len_bytes;
        if is_last {
            self.engine.schedule(now + self.poll, Event::Seen { node: at });
        } else if self.primitive == Primitive::Pull {
            self.ask(now, at, index + 1);
        }
    }

    fn span(&mut self, node: usize, part: &str, name: &str, start: Picos, end: Picos) {
        if let Some(trace) = self.trace.as_deref_mut() {
            let part = trace.part(&format!("{}: node {node}", self.primitive.name()), part);
            trace.span(part, name, start, end);
        }
    }
}

/// The transfer size at which bandwidths are read, as the longest of the paper's barrier test.
pub const LONG: u64 = 512 * 1024;

/// MB/s of a long transfer.
pub fn bandwidth(parameters: &Parameters, primitive: Primitive) -> f64 {
    LONG as f64 / transfer(parameters, primitive, LONG, None).as_us()
}

/// The parameters with the DMA set-up fitted so that `primitive` reaches `megabytes_per_second`.
///
/// Bisection on the model itself: bandwidth falls with the set-up.
pub fn fitted(parameters: &Parameters, primitive: Primitive, megabytes_per_second: f64) -> Parameters {
    let (mut low, mut high) = (0.0, 50.0);
    for _ in 0..40 {
        let middle = f64::midpoint(low, high);
        if bandwidth(&parameters.fitted("dma.setup", middle), primitive) > megabytes_per_second {
            low = middle;
        } else {
            high = middle;
        }
    }
    parameters.fitted("dma.setup", high)
}

#[cfg(test)]
mod tests {
    use super::super::parameters;
    use super::*;
    use crate::facts::facts;

    #[test]
    fn the_default_set_up_is_the_fit_to_push() {
        let fit = fitted(&parameters(), Primitive::Push, facts().number("rf.push_bw"));
        assert!((fit.get("dma.setup") - parameters().get("dma.setup")).abs() < 0.02, "{}", fit.get("dma.setup"));
    }

    #[test]
    fn page_caching_costs_what_normal_costs() {
        let time = |mode| transfer(&parameters(), Primitive::PushPage(mode), LONG, None);
        assert_eq!(time(PageMode::Normal), time(PageMode::PageCaching));
        assert!(time(PageMode::SendFromCache) < time(PageMode::Normal));
    }

    #[test]
    fn a_pull_of_two_pages_asks_twice() {
        let time = |len| transfer(&parameters(), Primitive::Pull, len, None);
        let second = time(8192) - time(4096);
        let push = |len| transfer(&parameters(), Primitive::Push, len, None);
        assert!(second > push(8192) - push(4096));
    }
}
