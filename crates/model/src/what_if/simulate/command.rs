//! What a command becomes: work on memory of this host, loads over a network that has them, or requests to nodes.
use super::rank::Doing;
use super::{Body, Message, Outgoing, World};
use crate::network::Way;
use crate::time::Picos;
use crate::what_if::path::Expense;
use crate::what_if::program::{Lengths, Place, VectorCommand, Verb};

impl World<'_> {
    /// The parts of a command, each with its node.
    fn parts(&self, rank: usize, command: VectorCommand) -> Vec<(usize, VectorCommand)> {
        let nodes = self.setting.nodes;
        match command.place {
            Place::Spread if command.verb == Verb::Fetch => vec![(self.ranks[rank].round as usize % nodes, command)],
            Place::Spread => {
                let count = nodes as u64;
                let part = |node: u64| match command.verb.has_elements() {
                    true => VectorCommand { elements: (command.elements + count - 1 - node) / count, ..command },
                    false => VectorCommand { len: (command.len + count - 1 - node) / count, ..command },
                };
                let all = (0..count).map(|node| (node as usize, part(node)));
                all.filter(|(_, part)| part.bytes() > 0).collect()
            }
            place => vec![(self.target(rank, place), command)],
        }
    }

    /// The node that a place means to a rank.
    pub(super) fn target(&self, rank: usize, place: Place) -> usize {
        let (here, nodes) = (self.node_of(rank), self.setting.nodes);
        match place {
            Place::Near => here,
            Place::Far => (here + 1) % nodes,
            Place::Node(node) => node % nodes,
            Place::Spread => self.ranks[rank].touched as usize % nodes,
        }
    }

    /// Begins a command.
    pub(super) fn begin(&mut self, rank: usize, command: VectorCommand) {
        let here = self.node_of(rank);
        let mut local = self.cutting(command);
        let mut requests = Vec::new();
        for (node, part) in self.parts(rank, command) {
            match (node == here, self.setting.network.way) {
                (true, _) => local += self.near(&part),
                (false, Way::Loads { line, outstanding }) => local += self.loads(here, node, &part, (line, outstanding)),
                (false, _) => {
                    let costs = &self.setting.costs;
                    let work = match part.verb {
                        verb if verb.has_elements() => part.elements as f64 * costs.element,
                        Verb::Scan => part.len as f64 * costs.near_byte,
                        _ => 0.0,
                    };
                    let work = Picos::from_ns_f64(work);
                    let source = (node + 1) % self.setting.nodes;
                    let pulls = (part.verb == Verb::Copy && source != node).then_some((source, part.len));
                    requests.push(Outgoing { node, lengths: part.lengths(part.elements), work, pulls, kind: part.verb.name() });
                }
            }
        }
        match requests.is_empty() {
            true => self.rank_works(rank, Expense::Memory, local, Doing::Next),
            false => self.make(rank, requests, local),
        }
    }

    /// The client's work to find the node of each element of a list.
    fn cutting(&self, command: VectorCommand) -> Picos {
        let is_cut = command.place == Place::Spread && command.verb.has_elements() && self.setting.nodes > 1;
        let elements = if is_cut { command.elements } else { 0 };
        Picos::from_ns_f64(elements as f64 * self.setting.costs.spread_element)
    }

    /// Begins requests whose lengths are known. A request to this host's own node goes to it all the same, as it did.
    pub(super) fn begin_requests(&mut self, rank: usize, requests: &[(usize, Lengths)]) {
        let nodes = self.setting.nodes;
        let request = |(node, lengths): &(usize, Lengths)| Outgoing {
            node: *node % nodes,
            lengths: *lengths,
            work: Picos::ZERO,
            pulls: None,
            kind: "recorded",
        };
        self.make(rank, requests.iter().map(request).collect(), Picos::ZERO);
    }

    /// The client's half of the work for requests, and what it does itself meanwhile.
    pub(super) fn make(&mut self, rank: usize, requests: Vec<Outgoing>, local: Picos) {
        let here = self.node_of(rank);
        let sending = requests.iter().map(|request| {
            let client = self.software(here, request.node).client / 2.0;
            Picos::from_ns_f64(client) + self.at_one_end(here, request.node, request.lengths.request)
        });
        let span = sending.sum::<Picos>() + local;
        self.rank_works(rank, Expense::Library, span, Doing::Post(requests));
    }

    /// Requests leave.
    pub(super) fn post(&mut self, rank: usize, requests: Vec<Outgoing>) {
        let (from, now) = (self.node_of(rank), self.engine.now());
        self.ranks[rank].fan = requests.len() as u64;
        self.ranks[rank].under_way += requests.len() as u64;
        for Outgoing { node, lengths, work, pulls, kind } in requests {
            let body = Body::Command { work, pulls, answer: lengths.answer };
            let path = self.ranks[rank].path.clone();
            let message = Message { rank, from, to: node, bytes: lengths.request, kind, begun: now, arrived: now, path, body };
            self.send(message, false);
        }
    }

    /// A command on memory of this host.
    fn near(&self, command: &VectorCommand) -> Picos {
        let costs = &self.setting.costs;
        let has_elements = command.verb.has_elements();
        let (elements, bytes) = if has_elements { (command.elements, 0) } else { (0, command.bytes()) };
        Picos::from_ns_f64(costs.near_call + costs.element * elements as f64 + costs.near_byte * bytes as f64)
    }

    /// A command by loads and stores: `outstanding` lines are under way at a time, and the link is held for all of them.
    fn loads(&mut self, here: usize, node: usize, command: &VectorCommand, (line, outstanding): (u64, u64)) -> Picos {
        let lines = match command.verb.has_elements() {
            true => command.elements * command.len.div_ceil(line),
            false => command.len.div_ceil(line),
        };
        let network = &self.setting.network;
        let (latency, hop, span) = (network.latency, network.hop, network.on_line(lines * line));
        let now = self.engine.now();
        let passed = self.links.send(node, here, now, span, hop);
        self.count("lines loaded or stored", lines, lines * line);
        // Switches are passed on the way there and back.
        let answer = latency + hop * (2 * passed.hops);
        let paced = answer * lines.div_ceil(outstanding);
        Picos::from_ns_f64(self.setting.costs.near_call) + paced.max(answer + passed.end.since(now))
    }
}
