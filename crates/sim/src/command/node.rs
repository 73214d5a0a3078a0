//! Nodes: what lies in their kernels, and what their service does with it, as `hanare`'s does.

use super::programs::Way;
use super::*;
use hanare_protocol::session::Sessions;
use std::collections::BTreeSet;

/// Something that lies in a connection's buffer.
#[derive(Clone, Copy, Debug)]
enum Arrived {
    Greeting,
    Piece(Piece),
}

/// What the kernel holds of a connection.
#[derive(Debug, Default)]
struct Buffer {
    held: VecDeque<Arrived>,
    is_reset: bool,
}

/// A node.
#[derive(Debug, Default)]
pub(super) struct Node {
    sessions: Sessions,
    buffers: BTreeMap<u64, Buffer>,
    served: BTreeSet<u64>,
    /// Those whose copy waits for its source.
    fetching: BTreeSet<u64>,
    pub stopped_until_ms: u64,
    is_awake: bool,
    /// Whether the service has not run since it was stopped.
    pub was_stopped: bool,
}

impl CommandWorld {
    fn node_of(&self, connection: u64) -> u64 {
        self.lines[self.connections[&connection].line as usize].node
    }

    /// Whether a node has received something of a connection, and is not done with it.
    pub(super) fn has_work(&self, node: u64, connection: u64) -> bool {
        let node = &self.nodes[node as usize];
        node.fetching.contains(&connection) || node.buffers.get(&connection).is_some_and(|buffer| !buffer.held.is_empty())
    }

    fn node(&mut self, node: u64) -> &mut Node {
        &mut self.nodes[node as usize]
    }

    pub(super) fn on_greeting(&mut self, connection: u64) -> Check {
        self.arrive(connection, Arrived::Greeting)
    }

    pub(super) fn on_piece(&mut self, connection: u64, piece: Piece) -> Check {
        self.arrive(connection, Arrived::Piece(piece))
    }

    fn arrive(&mut self, connection: u64, held: Arrived) -> Check {
        let node = self.node_of(connection);
        let buffer = self.node(node).buffers.entry(connection).or_default();
        if !buffer.is_reset {
            buffer.held.push_back(held);
        }
        self.wake(node);
        Ok(())
    }

    /// The service is to run; once is enough.
    fn wake(&mut self, node: u64) {
        if !std::mem::replace(&mut self.node(node).is_awake, true) {
            self.at(0, Event::Serve { node });
        }
    }

    pub(super) fn on_reset(&mut self, connection: u64) -> Check {
        let node = self.node_of(connection);
        self.node(node).buffers.entry(connection).or_default().is_reset = true;
        self.wake(node);
        Ok(())
    }

    /// The service gives each connection a turn, in any order; what is left waits for the next.
    pub(super) fn on_serve(&mut self, node: u64) -> Check {
        let now_ms = self.now_ms;
        self.node(node).is_awake = false;
        if self.node(node).stopped_until_ms > now_ms {
            return Ok(());
        }
        self.go_on(node);
        let mut order: Vec<u64> = self.node(node).buffers.keys().copied().collect();
        for at in (1..order.len()).rev() {
            let other = self.dice.below(at as u64 + 1) as usize;
            order.swap(at, other);
        }
        for connection in order {
            if self.node(node).sessions.on_turn(now_ms) && self.looks() {
                self.close_ended(node);
            }
            self.turn(node, connection)?;
        }
        if self.node(node).buffers.values().any(|buffer| !buffer.held.is_empty()) {
            self.node(node).is_awake = true;
            self.at(1, Event::Serve { node });
        }
        Ok(())
    }

    /// The service goes on: after events that it waited for, or after a stop.
    fn go_on(&mut self, node: u64) {
        let now_ms = self.now_ms;
        if !std::mem::take(&mut self.node(node).was_stopped) {
            self.node(node).sessions.on_waited(now_ms);
        }
    }

    fn looks(&self) -> bool {
        !self.has(Defect::ServeTheDead)
    }

    fn close_ended(&mut self, node: u64) {
        let ended: Vec<u64> = self.node(node).buffers.iter().filter(|(_, buffer)| buffer.is_reset).map(|(id, _)| *id).collect();
        ended.into_iter().for_each(|connection| self.end(node, connection));
    }

    /// The node closes a connection: nothing in its buffer is read.
    fn end(&mut self, node: u64, connection: u64) {
        let node = self.node(node);
        node.sessions.on_ended(connection);
        node.served.remove(&connection);
        node.buffers.remove(&connection);
    }

    /// One connection's turn: a greeting, or a piece.
    fn turn(&mut self, node: u64, connection: u64) -> Check {
        let way = self.connections[&connection].way;
        let looks = way != Way::Ring && self.looks();
        let Some(buffer) = self.node(node).buffers.get_mut(&connection) else { return Ok(()) };
        if buffer.is_reset && (looks || buffer.held.is_empty()) {
            self.end(node, connection);
            return Ok(());
        }
        if buffer.held.is_empty() {
            return Ok(());
        }
        let held = self.node(node).buffers.get_mut(&connection).and_then(|buffer| buffer.held.pop_front());
        match held.expect("just seen") {
            Arrived::Greeting => self.greet(node, connection),
            Arrived::Piece(piece) => self.take(node, connection, piece)?,
        }
        Ok(())
    }

    fn greet(&mut self, node: u64, connection: u64) {
        let series = self.connections[&connection].series;
        let earlier = self.node(node).sessions.on_greeted(connection, series);
        self.node(node).served.insert(connection);
        let earlier = earlier.filter(|_| !self.has(Defect::ServeBoth));
        if let Some(earlier) = earlier {
            self.count("connections ended by their successor");
            self.end(node, earlier);
        }
        self.send_back(connection, Event::Welcome { connection });
    }

    fn take(&mut self, node: u64, connection: u64, piece: Piece) -> Check {
        if !self.node(node).served.contains(&connection) {
            return Ok(());
        }
        if piece.is_copy {
            self.count("copies");
            self.node(node).fetching.insert(connection);
            let after = self.dice.pick(&[1, 30, 900, 3_000]);
            self.at(after, Event::Fetched { node, connection, piece });
            return Ok(());
        }
        self.write(piece)?;
        if piece.is_last {
            self.send_back(connection, Event::Answer { connection, version: piece.version });
        }
        Ok(())
    }

    /// Bytes of another node are here; a node that is stopped takes them when it goes on.
    pub(super) fn on_fetched(&mut self, node: u64, connection: u64, piece: Piece) -> Check {
        let wait = self.node(node).stopped_until_ms.saturating_sub(self.now_ms);
        if wait > 0 {
            self.at(wait, Event::Fetched { node, connection, piece });
            return Ok(());
        }
        self.node(node).fetching.remove(&connection);
        // Its service looks first whether who asked is dead.
        self.go_on(node);
        if self.looks() && self.node(node).buffers.get(&connection).is_some_and(|buffer| buffer.is_reset) {
            self.end(node, connection);
        }
        if !self.has(Defect::KeepFetching) && !self.node(node).sessions.serves(connection) {
            self.count("fetches cancelled");
            return Ok(());
        }
        self.write(piece)?;
        self.send_back(connection, Event::Answer { connection, version: piece.version });
        Ok(())
    }
}
