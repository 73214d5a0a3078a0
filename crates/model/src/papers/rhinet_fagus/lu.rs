//! LU decomposition on Fagus: row-cyclic, one barrier a step, on one processor a node that computes and serves messages.
//!
//! Two threads share a node's processor: the program's own thread, which computes and waits at barriers, and the library's
//! thread, which handles messages. Node 0 serves the barrier by the product's own rules for barriers of jobs ([`Jobs`]): whom
//! they release gets the next pivot row, unless it owns that, and then its release. How a thread learns of a completion decides when the other one runs:
//!
//! - polling with sched_yield: whoever polls in vain hands the processor to a thread that computes, for up to a time slice;
//! - interrupts: the library's thread sleeps, and is run at once when its completion comes;
//! - spin, then park: it looks for a while first, and pays the interrupt only for what takes longer.
use std::collections::VecDeque;

use hanare_protocol::group::Jobs;
use hanare_protocol::id::{JobId, JobRank, Rank};
use hanare_protocol::wire::sync::Arrival;

use super::coherence::HostCosts;
use super::transport::{Origin, Piece, Port, Transport, pair};
use crate::engine::Engine;
use crate::parameters::Parameters;
use crate::time::Picos;
use crate::trace::Trace;

/// How threads learn of completions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// Looking, and yielding when in vain.
    PollingYield,
    /// Sleeping until an interrupt.
    Interrupt,
    /// Looking for a while, then sleeping.
    SpinPark,
}

impl Completion {
    /// All, in the order of the parameter's choices.
    pub const ALL: [Completion; 3] = [Completion::PollingYield, Completion::Interrupt, Completion::SpinPark];

    /// The name of the choice.
    pub fn name(self) -> &'static str {
        match self {
            Completion::PollingYield => "polling with sched_yield",
            Completion::Interrupt => "interrupts",
            Completion::SpinPark => "spin, then park",
        }
    }
}

/// What a run cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Run {
    /// From start to the last node's end.
    pub total: Picos,
    /// The longest a node computed.
    pub compute: Picos,
    /// Sum over the steps of the time from the last arrival at the barrier until the last node left it.
    pub barrier: Picos,
    /// Of that, the time the network moved pivot rows out of the server.
    pub rows: Picos,
    /// Arrivals and releases that passed between nodes; rows are none.
    pub messages: u64,
}

#[derive(Clone, Copy)]
enum Message {
    /// That node has come to the barrier.
    Arrive(usize),
    Release,
}

/// What the library's thread does next.
#[derive(Clone, Copy)]
enum Action {
    Handle(Message),
    /// Move the pivot row to a node, page by page.
    Row {
        to: usize,
        left_bytes: u64,
        is_first: bool,
    },
    Send {
        to: usize,
        message: Message,
    },
    ReleaseOwn,
}

enum Event {
    /// A node's own thread has finished its step, unless it was pushed back since.
    Computed { node: usize, turn: u64 },
    /// A message is in a node's memory.
    Arrived { at: usize, message: Message },
    /// The library's thread of a node may go on, unless it was let go earlier.
    Go { node: usize, go: u64 },
}

#[derive(Clone, Copy, PartialEq)]
enum Own {
    /// Computing until then.
    Computing {
        until: Picos,
    },
    /// At the barrier.
    Waiting,
    Finished,
}

struct Node {
    own: Own,
    step: u64,
    turn: u64,
    computed: Picos,
    actions: VecDeque<Action>,
    /// The library's thread is in the middle of something until its `Go`.
    is_busy: bool,
    go: u64,
    /// When the own thread began to wait.
    idle_since: Picos,
}

struct World<'a> {
    order: u64,
    element_bytes: u64,
    flops: f64,
    page_bytes: u64,
    message_bytes: u64,
    uses_cache: bool,
    own_first: bool,
    completion: Completion,
    transport: &'a Transport,
    costs: HostCosts,
    poll: Picos,
    yielding: Picos,
    waking: Picos,
    spin: Picos,
    quantum: Picos,
    jobs: Jobs,
    messages: u64,
    released: usize,
    last_arrival: Picos,
    complete: Picos,
    barrier: Picos,
    rows: Picos,
    nodes: Vec<Node>,
    ports: Vec<Port>,
    engine: Engine<Event>,
    trace: Option<&'a mut Trace>,
}

const SERVER: usize = 0;

/// The time one node needs for one step: its rows below the pivot, each updated to the right of it.
fn step_time(world_order: u64, step: u64, nodes: u64, node: u64, flops: f64) -> Picos {
    let below = |limit: u64| (limit + nodes - 1 - node) / nodes;
    let rows = below(world_order) - below(step + 1);
    let flop = rows as f64 * (2.0 * (world_order - step - 1) as f64 + 1.0);
    Picos::from_ns_f64(flop / flops * 1e9)
}

/// Runs the decomposition on `nodes` nodes; one node computes without Fagus.
// FEATURE: RF-F17 RF-F21
pub fn run(
    parameters: &Parameters,
    transport: &Transport,
    completion: Completion,
    nodes: usize,
    trace: Option<&mut Trace>,
) -> Run {
    let order = parameters.count("lu.order");
    let flops = parameters.get("lu.rate") * 1e6;
    if nodes == 1 {
        let compute = (0..order).map(|step| step_time(order, step, 1, 0, flops)).sum();
        return Run { total: compute, compute, barrier: Picos::ZERO, rows: Picos::ZERO, messages: 0 };
    }
    let node = |_| Node {
        own: Own::Waiting,
        step: 0,
        turn: 0,
        computed: Picos::ZERO,
        actions: VecDeque::new(),
        is_busy: false,
        go: 0,
        idle_since: Picos::ZERO,
    };
    let mut world = World {
        order,
        element_bytes: parameters.bytes("lu.element"),
        flops,
        page_bytes: parameters.bytes("npc.line"),
        message_bytes: parameters.bytes("fagus.message"),
        uses_cache: parameters.is_on("npc.use"),
        own_first: parameters.choice("lu.release") == 0,
        // Ethernet's sockets sleep in the kernel whatever RHiNET does.
        completion: if matches!(transport, Transport::Ethernet(_)) { Completion::Interrupt } else { completion },
        transport,
        costs: HostCosts::new(parameters, transport),
        poll: parameters.picos("host.poll"),
        yielding: parameters.picos("host.yield"),
        waking: parameters.picos("host.interrupt") + parameters.picos("host.wake"),
        spin: parameters.picos("host.spin"),
        quantum: parameters.picos("host.quantum"),
        jobs: Jobs::new(),
        messages: 0,
        released: 0,
        last_arrival: Picos::ZERO,
        complete: Picos::ZERO,
        barrier: Picos::ZERO,
        rows: Picos::ZERO,
        nodes: (0..nodes).map(node).collect(),
        ports: vec![Port::default(); nodes],
        engine: Engine::new(),
        trace,
    };
    for node in 0..nodes {
        world.compute(Picos::ZERO, node, 0);
    }
    while let Some((now, event)) = world.engine.pop() {
        world.handle(now, event);
    }
    assert!(world.nodes.iter().all(|node| node.own == Own::Finished), "the decomposition stopped before its end");
    Run {
        total: world.engine.now(),
        compute: world.nodes.iter().map(|node| node.computed).max().unwrap_or_default(),
        barrier: world.barrier,
        rows: world.rows,
        messages: world.messages,
    }
}

impl World<'_> {
    fn handle(&mut self, now: Picos, event: Event) {
        match event {
            Event::Computed { node, turn } if self.nodes[node].turn == turn => self.on_computed(now, node),
            Event::Computed { .. } => {}
            Event::Arrived { at, message } => {
                self.nodes[at].actions.push_back(Action::Handle(message));
                self.wake(now, at);
            }
            Event::Go { node, go } if self.nodes[node].go == go => {
                self.nodes[node].is_busy = false;
                self.next_action(now, node);
            }
            Event::Go { .. } => {}
        }
    }

    /// Starts a node's own thread on a step.
    fn compute(&mut self, now: Picos, node: usize, step: u64) {
        let span = step_time(self.order, step, self.nodes.len() as u64, node as u64, self.flops);
        self.nodes[node].computed += span;
        self.nodes[node].own = Own::Computing { until: now + span };
        self.nodes[node].turn += 1;
        let turn = self.nodes[node].turn;
        self.engine.schedule(now + span, Event::Computed { node, turn });
        self.span(node, "own thread", || format!("step {step}"), now, now + span);
    }

    fn on_computed(&mut self, now: Picos, node: usize) {
        self.nodes[node].own = Own::Waiting;
        self.nodes[node].idle_since = now;
        if self.completion == Completion::PollingYield {
            // Whoever yielded to this thread has the processor again.
            self.nodes[node].go += 1;
            self.nodes[node].is_busy = false;
        }
        self.last_arrival = self.last_arrival.max(now);
        let step = self.nodes[node].step;
        if node == SERVER {
            self.arrive(now, SERVER);
        } else {
            self.nodes[node].actions.push_front(Action::Send { to: SERVER, message: Message::Arrive(node) });
            // The owner of the next pivot row brings it along.
            if self.owner(step + 1) == node && self.row_bytes(step) > 0 {
                let row = Action::Row { to: SERVER, left_bytes: self.row_bytes(step), is_first: true };
                self.nodes[node].actions.push_front(row);
            }
        }
        self.next_action(now, node);
    }

    fn owner(&self, row: u64) -> usize {
        (row % self.nodes.len() as u64) as usize
    }

    /// Bytes of the pivot row after `step` that others need.
    fn row_bytes(&self, step: u64) -> u64 {
        (self.order - step - 1) * self.element_bytes
    }

    /// The server hears of an arrival; the rules say whom it releases.
    fn arrive(&mut self, now: Picos, from: usize) {
        let ranks = self.nodes.len() as u32;
        let who = JobRank { job: JobId(0), rank: Rank(from as u32), ranks };
        self.jobs.on_arrive(Arrival { who, generation: self.nodes[from].step });
        let mut released = Vec::new();
        while let Some(reply) = self.jobs.poll() {
            reply.outcome.expect("no node of the model is ever gone");
            released.push(reply.who.rank.0 as usize);
        }
        if released.is_empty() {
            return;
        }
        self.released = 0;
        self.complete = self.last_arrival;
        let step = self.nodes[SERVER].step;
        let (owner, row_bytes) = (self.owner(step + 1), self.row_bytes(step));
        let mut is_first = true;
        for to in released.into_iter().filter(|to| *to != SERVER) {
            if to != owner && row_bytes > 0 {
                self.nodes[SERVER].actions.push_back(Action::Row { to, left_bytes: row_bytes, is_first });
                is_first = false;
            }
            self.nodes[SERVER].actions.push_back(Action::Send { to, message: Message::Release });
        }
        if self.own_first {
            self.leave(now, SERVER);
        } else {
            self.nodes[SERVER].actions.push_back(Action::ReleaseOwn);
        }
    }

    /// A node's own thread leaves the barrier.
    fn leave(&mut self, now: Picos, node: usize) {
        self.released += 1;
        if self.released == self.nodes.len() {
            self.barrier += now.since(self.complete);
        }
        self.nodes[node].step += 1;
        let step = self.nodes[node].step;
        if step < self.order {
            self.compute(now, node, step);
        } else {
            self.nodes[node].own = Own::Finished;
        }
    }

    /// A message came: the library's thread runs as soon as its way of waiting lets it.
    fn wake(&mut self, now: Picos, node: usize) {
        if self.nodes[node].is_busy || self.nodes[node].actions.len() > 1 {
            return;
        }
        let is_computing = matches!(self.nodes[node].own, Own::Computing { .. });
        let waited = now.since(self.nodes[node].idle_since);
        let delay = match self.completion {
            // Behind a computing thread: its slice, or until it waits itself.
            Completion::PollingYield if is_computing => self.quantum,
            Completion::PollingYield => self.poll + self.yielding,
            Completion::SpinPark if !is_computing && waited < self.spin => self.poll,
            Completion::Interrupt | Completion::SpinPark => self.waking,
        };
        if self.completion != Completion::PollingYield {
            self.push_back(now, node, delay);
        }
        self.go_at(now + delay, node);
    }

    fn go_at(&mut self, at: Picos, node: usize) {
        self.nodes[node].is_busy = true;
        self.nodes[node].go += 1;
        let go = self.nodes[node].go;
        self.engine.schedule(at, Event::Go { node, go });
    }

    /// The library's thread takes its next action, if the processor is its own now.
    fn next_action(&mut self, now: Picos, node: usize) {
        if self.nodes[node].is_busy {
            return;
        }
        let Some(action) = self.nodes[node].actions.pop_front() else { return };
        let was_computing = matches!(self.nodes[node].own, Own::Computing { .. });
        let (worked, waits_until) = self.act(now, node, action);
        if was_computing {
            self.push_back(now, node, worked.since(now));
        }
        let is_computing = matches!(self.nodes[node].own, Own::Computing { .. });
        let resume = match (waits_until, self.completion, self.costs.copy) {
            (None, ..) | (_, _, Some(_)) => worked,
            // In vain: the processor goes to the computing thread, until it waits or its slice ends.
            (Some(_), Completion::PollingYield, None) if is_computing => worked + self.yielding + self.quantum,
            (Some(done), Completion::PollingYield, None) => done.max(worked) + self.yielding,
            (Some(done), Completion::SpinPark, None) if done.since(worked) <= self.spin => {
                self.push_back(worked, node, done.since(worked));
                done.max(worked) + self.poll
            }
            (Some(done), Completion::SpinPark | Completion::Interrupt, None) => {
                self.push_back(worked, node, self.waking);
                done.max(worked) + self.waking
            }
        };
        self.go_at(resume, node);
    }

    /// Processor time taken from a computing thread.
    fn push_back(&mut self, now: Picos, node: usize, taken: Picos) {
        if let Own::Computing { until } = self.nodes[node].own
            && until > now
        {
            let until = until + taken;
            self.nodes[node].own = Own::Computing { until };
            self.nodes[node].turn += 1;
            let turn = self.nodes[node].turn;
            self.engine.schedule(until, Event::Computed { node, turn });
        }
    }

    /// Does an action; returns when the thread's own work is done, and what it then waits for.
    fn act(&mut self, now: Picos, node: usize, action: Action) -> (Picos, Option<Picos>) {
        match action {
            Action::Handle(message) => {
                let worked = now + self.costs.receiving(self.message_bytes);
                self.span(node, "library's thread", || "handles a message".to_string(), now, worked);
                match message {
                    Message::Arrive(from) => self.arrive(worked, from),
                    Message::Release => self.leave(worked, node),
                }
                (worked, None)
            }
            Action::Row { to, left_bytes, is_first } => {
                let len_bytes = self.page_bytes.min(left_bytes);
                // The first receiver's pages are kept in their lines for the others.
                let origin = if self.uses_cache && !is_first { Origin::Cache } else { Origin::Host };
                let done = self.transmit(now, node, to, Piece { len_bytes: self.page_bytes, origin }, None);
                if left_bytes > len_bytes {
                    self.nodes[node].actions.push_front(Action::Row { to, left_bytes: left_bytes - len_bytes, is_first });
                }
                done
            }
            Action::Send { to, message } => {
                self.messages += 1;
                self.transmit(now, node, to, Piece { len_bytes: self.message_bytes, origin: Origin::Host }, Some(message))
            }
            Action::ReleaseOwn => {
                self.leave(now, node);
                (now, None)
            }
        }
    }

    fn transmit(&mut self, now: Picos, from: usize, to: usize, piece: Piece, message: Option<Message>) -> (Picos, Option<Picos>) {
        let worked = now + self.costs.sending(piece.len_bytes);
        let moved = self.transport.move_piece(pair(&mut self.ports, from, to), worked, piece);
        self.span(from, "library's thread", || format!("sends {} B to node {to}", piece.len_bytes), now, worked);
        self.span(from, "network", || format!("{} B to node {to}", piece.len_bytes), moved.start, moved.arrived);
        match message {
            Some(message) => self.engine.schedule(moved.arrived, Event::Arrived { at: to, message }),
            None => self.rows += moved.sent.since(moved.start),
        }
        (worked, Some(moved.sent))
    }

    fn span(&mut self, node: usize, part: &str, name: impl FnOnce() -> String, start: Picos, end: Picos) {
        // A chart of the first steps is enough to see who waits for whom.
        if self.nodes[node].step < CHART_STEPS
            && let Some(trace) = self.trace.as_deref_mut()
        {
            let part = trace.part(&format!("{}, {}: node {node}", self.transport.name(), self.completion.name()), part);
            trace.span(part, name(), start, end);
        }
    }
}

const CHART_STEPS: u64 = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::papers::rhinet_fagus::parameters;

    #[test]
    fn a_barrier_is_two_messages_for_each_node_but_the_server_as_in_the_product() {
        let small = parameters().with("lu.order", 64.0);
        for transport in Transport::both(&small) {
            for nodes in 2..=4 {
                let run = run(&small, &transport, Completion::Interrupt, nodes, None);
                assert_eq!(run.messages, 64 * 2 * (nodes as u64 - 1));
            }
        }
    }
}
