//! A node's thread: one message at a time, and what it answers.
use std::collections::VecDeque;

use hanare_protocol::limits::SPIN_YIELD_US;
use hanare_protocol::wire::command::COMMAND_LEN;
use hanare_protocol::wire::control;
use hanare_protocol::wire::head::HEAD_LEN;
use hanare_protocol::wire::sync::{Arrival, SyncAnswer};

use super::{Body, Event, LockMessage, Message, World};
use crate::time::Picos;
use crate::what_if::path::{Expense, Path};

/// A node in a run.
#[derive(Default)]
pub(super) struct Node {
    queue: VecDeque<Box<Message>>,
    is_busy: bool,
    idle_since: Picos,
    /// The time its thread worked.
    pub(super) busy: Picos,
}

impl Node {
    /// Its thread works, or waits and has not parked. A thread that never worked has parked.
    pub(super) fn is_awake(&self, now: Picos) -> bool {
        self.is_busy || (self.busy > Picos::ZERO && now.since(self.idle_since) <= Picos::us(SPIN_YIELD_US))
    }
}

impl World<'_> {
    pub(super) fn on_node(&mut self, message: Box<Message>) {
        let node = message.to;
        self.nodes[node].queue.push_back(message);
        if !self.nodes[node].is_busy {
            let idle = self.engine.now().since(self.nodes[node].idle_since);
            let is_parked = idle > Picos::us(SPIN_YIELD_US);
            let wake = if is_parked { Picos::from_ns_f64(self.setting.costs.wake) } else { Picos::ZERO };
            self.serve(node, wake);
        }
    }

    /// The node's thread takes the first of its queue, having woken up.
    fn serve(&mut self, node: usize, wake: Picos) {
        let now = self.engine.now();
        let Some(mut message) = self.nodes[node].queue.pop_front() else {
            self.nodes[node].is_busy = false;
            self.nodes[node].idle_since = now;
            return;
        };
        self.nodes[node].is_busy = true;
        let span = self.node_work(&message);
        let (start, end) = self.work(node, now + wake, span);
        message.path.add(Expense::Node, now - message.arrived);
        message.path.add(Expense::Waking, wake);
        message.path.add(Expense::Processor, start - now - wake);
        message.path.add(Expense::Serving, span);
        self.nodes[node].busy += span;
        if self.trace.is_some() {
            self.chart(&format!("node {node}"), "service", message.kind, start, end);
        }
        self.engine.schedule(end, Event::Served(message));
    }

    fn node_work(&self, message: &Message) -> Picos {
        let Message { from, to, bytes, .. } = *message;
        let request = Picos::from_ns_f64(self.software(from, to).node);
        let taking = self.at_the_end(from, to, bytes);
        match &message.body {
            Body::Command { work, pulls, answer } => {
                let asking = pulls.map_or(Picos::ZERO, |(source, _)| Picos::from_ns_f64(self.software(to, source).client / 2.0));
                request + taking + *work + asking + self.at_one_end(to, from, *answer)
            }
            Body::Pull { len, .. } => request + taking + self.at_one_end(to, from, HEAD_LEN as u64 + *len),
            // It is a client of the source, and answers.
            Body::Pulled { .. } => Picos::from_ns_f64(self.software(from, to).client / 2.0) + taking,
            Body::Arrive(_) => request + taking,
            // A letter is one way: what follows from it is another letter.
            Body::Letter(letter) => Picos(request.0 / 2) + taking + self.answer_work(letter),
            // Nodes ask each other one way, too.
            Body::Lock(LockMessage::Recall | LockMessage::Recalled(_), _) => Picos(request.0 / 2) + taking,
            Body::Lock(..) => request + taking,
            Body::Answer | Body::Released | Body::Installed | Body::Told => unreachable!("answers go to ranks"),
        }
    }

    pub(super) fn on_served(&mut self, message: Message) {
        let Message { rank, from, to: node, begun, path, kind, body, .. } = message;
        let now = self.engine.now();
        match body {
            Body::Command { pulls: Some((source, len)), answer, .. } => {
                let bytes = (HEAD_LEN + COMMAND_LEN) as u64;
                let body = Body::Pull { origin: from, len, answer };
                self.send(Message { rank, from: node, to: source, bytes, kind, begun, arrived: now, path, body }, false);
            }
            Body::Pull { origin, len, answer } => {
                let bytes = HEAD_LEN as u64 + len;
                let body = Body::Pulled { origin, answer };
                self.send(Message { rank, from: node, to: from, bytes, kind, begun, arrived: now, path, body }, false);
            }
            Body::Command { answer, .. } | Body::Pulled { answer, .. } => {
                let to = if let Body::Pulled { origin, .. } = body { origin } else { from };
                let body = Body::Answer;
                self.send(Message { rank, from: node, to, bytes: answer, kind, begun, arrived: now, path, body }, true);
            }
            Body::Arrive(arrival) => self.on_arrival(node, arrival, &path),
            Body::Letter(letter) => self.hear(letter, begun, &path, message.bytes),
            Body::Lock(said, number) => self.on_lock(rank, number, said, &path),
            Body::Answer | Body::Released | Body::Installed | Body::Told => unreachable!("answers go to ranks"),
        }
        self.serve(node, Picos::ZERO);
    }

    /// An arrival has been heard at the jobs' home: the product's rules say who is released.
    fn on_arrival(&mut self, home: usize, arrival: Arrival, path: &Path) {
        self.jobs.on_arrive(arrival);
        let now = self.engine.now();
        let bytes = (HEAD_LEN + control::encode(&SyncAnswer::Done).len()) as u64;
        while let Some(reply) = self.jobs.poll() {
            reply.outcome.expect("no rank of a model dies");
            let (rank, path, body) = (reply.who.rank.0 as usize, path.clone(), Body::Released);
            let to = self.node_of(rank);
            self.send(Message { rank, from: home, to, bytes, kind: "barrier", begun: now, arrived: now, path, body }, true);
        }
    }
}
