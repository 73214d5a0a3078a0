//! Nodes: what lies in their kernels, and the service that drives the home's commands as `hanare-node` does.

use super::programs::Way;
use super::sources::Sources;
use super::*;
use crate::served_link::{LinkStep, ServedLink};
use hanare_home::{Bytes, EndedLinks, Rounds, Vector, Vectors};
use hanare_protocol::error::Happened;
use hanare_protocol::id::Gid;
use hanare_protocol::session::Sessions;
use hanare_protocol::wire::exchange::Question;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

/// Something that lies in a connection's buffer.
#[derive(Clone, Debug)]
enum Arrived {
    Greeting,
    Piece(Piece),
}

/// The kernel's part of a connection.
#[derive(Debug, Default)]
struct Buffer {
    held: VecDeque<Arrived>,
    is_reset: bool,
}

/// A node.
pub(super) struct Node {
    pub sessions: Sessions,
    buffers: BTreeMap<u64, Buffer>,
    links: BTreeMap<u64, ServedLink<Rc<Vectors>>>,
    ended_links: EndedLinks,
    pub sources: Sources,
    rounds: Rounds,
    /// Connections that the rounds have.
    awake: BTreeSet<u64>,
    /// Connections of which events tell.
    told: BTreeSet<u64>,
    memory: Rc<Vectors>,
    region: Vector,
    pub stopped_until_ms: u64,
    is_awake: bool,
    /// True if the service has not run since it was stopped.
    pub was_stopped: bool,
}

impl Node {
    /// A node with memory for lines.
    pub fn new(lines: u64) -> Node {
        let (memory, region) = Vectors::of(Gid(1), (lines * LINE_LEN) as usize);
        Node {
            sessions: Sessions::default(),
            buffers: BTreeMap::new(),
            links: BTreeMap::new(),
            ended_links: EndedLinks::default(),
            sources: Sources::default(),
            rounds: Rounds::default(),
            awake: BTreeSet::new(),
            told: BTreeSet::new(),
            memory: Rc::new(memory),
            region,
            stopped_until_ms: 0,
            is_awake: false,
            was_stopped: false,
        }
    }

    /// True if the kernel knows that the other end of a connection is closed.
    pub fn is_reset(&self, connection: u64) -> bool {
        self.buffers.get(&connection).is_some_and(|buffer| buffer.is_reset)
    }

    /// A word of a line.
    pub fn word(&self, line: u64, word: u64) -> u64 {
        self.region.load_word(line * LINE_LEN + word * WORD_LEN, WORD_LEN).expect("a vector has its bytes")
    }
}

impl CommandWorld {
    fn node_of(&self, connection: u64) -> u64 {
        self.lines[self.connections[&connection].line as usize].node
    }

    /// True if a node has received bytes of a connection, and is not done with them.
    pub(super) fn has_work(&self, node: u64, connection: u64) -> bool {
        let node = &self.nodes[node as usize];
        let is_under_way = |link: &ServedLink<Rc<Vectors>>| link.commands.waits_for_others();
        node.links.get(&connection).is_some_and(is_under_way)
            || node.buffers.get(&connection).is_some_and(|buffer| !buffer.held.is_empty())
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
        self.wake(node, connection);
        Ok(())
    }

    /// The service is to run; once is enough.
    fn wake(&mut self, node: u64, connection: u64) {
        self.node(node).told.insert(connection);
        if !std::mem::replace(&mut self.node(node).is_awake, true) {
            self.at(0, Event::Serve { node });
        }
    }

    pub(super) fn on_reset(&mut self, connection: u64) -> Check {
        let node = self.node_of(connection);
        self.node(node).buffers.entry(connection).or_default().is_reset = true;
        self.wake(node, connection);
        Ok(())
    }

    /// The service takes events, in any order, and gives the connections that are awake a round of turns.
    pub(super) fn on_serve(&mut self, node: u64) -> Check {
        let now_ms = self.now_ms;
        self.node(node).is_awake = false;
        if self.node(node).stopped_until_ms > now_ms {
            return Ok(());
        }
        self.go_on(node);
        let mut told: Vec<u64> = std::mem::take(&mut self.node(node).told).into_iter().collect();
        for at in (1..told.len()).rev() {
            let other = self.dice.below(at as u64 + 1) as usize;
            told.swap(at, other);
        }
        for connection in told {
            let user = self.user_of(connection);
            let node = self.node(node);
            if node.awake.insert(connection) {
                node.rounds.push(user, connection);
            }
        }
        self.round(node)?;
        if !self.node(node).rounds.is_empty() {
            self.node(node).is_awake = true;
            self.at(1, Event::Serve { node });
        }
        Ok(())
    }

    /// Words of the connection's line may have changed.
    pub(super) fn touch(&mut self, connection: u64) {
        let line = self.connections[&connection].line;
        self.touched.insert(line);
    }

    /// Lines are of two users.
    fn user_of(&self, connection: u64) -> Option<u32> {
        Some((self.connections[&connection].line % 2) as u32)
    }

    fn round(&mut self, node: u64) -> Check {
        let now_ms = self.now_ms;
        let mut now = Duration::from_millis(now_ms);
        let mut without: BTreeSet<_> = self.nodes[node as usize].awake.iter().map(|id| self.user_of(*id)).collect();
        self.node(node).rounds.begin();
        while let Some((user, connection)) = self.node(node).rounds.next(now) {
            without.remove(&user);
            if self.node(node).sessions.on_turn(now_ms) && self.looks() {
                self.close_ended(node);
            }
            let has_moved = self.turn(node, connection)?;
            now += Duration::from_micros(self.dice.between(1, 60));
            let node = self.node(node);
            node.rounds.had_turn(user, has_moved);
            match node.buffers.get(&connection) {
                Some(buffer) if has_moved || !buffer.held.is_empty() => node.rounds.push(user, connection),
                _ => {
                    node.awake.remove(&connection);
                }
            }
            if self.has(Defect::ServeOneUser) {
                break;
            }
        }
        check(without.is_empty(), || format!("users {without:?} of node {node} had no turn in a round"))
    }

    /// The service goes on: after events that it waited for, or after a stop.
    pub(super) fn go_on(&mut self, node: u64) {
        let now_ms = self.now_ms;
        if !std::mem::take(&mut self.node(node).was_stopped) {
            self.node(node).sessions.on_waited(now_ms);
        }
    }

    pub(super) fn looks(&self) -> bool {
        !self.has(Defect::ServeTheDead)
    }

    fn close_ended(&mut self, node: u64) {
        let ended: Vec<u64> = self.node(node).buffers.iter().filter(|(_, buffer)| buffer.is_reset).map(|(id, _)| *id).collect();
        ended.into_iter().for_each(|connection| self.end(node, connection));
    }

    /// The node closes a connection: nothing in its buffer is read.
    pub(super) fn end(&mut self, node: u64, connection: u64) {
        let there = self.node(node);
        there.sessions.on_ended(connection);
        if let Some(link) = there.links.remove(&connection) {
            there.ended_links.remember(connection.into(), link.commands.outcomes());
        }
        there.buffers.remove(&connection);
        if !self.has(Defect::KeepFetching) {
            self.end_fetches(node, connection);
        }
    }

    /// A connection's turn: a greeting, or a piece, and its effect. Returns true if anything moved.
    fn turn(&mut self, node: u64, connection: u64) -> Result<bool, String> {
        let way = self.connections[&connection].way;
        let looks = way != Way::Ring && self.looks();
        let Some(buffer) = self.node(node).buffers.get_mut(&connection) else { return Ok(false) };
        if buffer.is_reset && (looks || buffer.held.is_empty()) {
            self.end(node, connection);
            return Ok(true);
        }
        if let Some(Arrived::Greeting) = buffer.held.front() {
            buffer.held.pop_front();
            self.greet(node, connection)?;
            return Ok(true);
        }
        let Node { buffers, links, .. } = self.node(node);
        let (Some(buffer), Some(link)) = (buffers.get_mut(&connection), links.get_mut(&connection)) else {
            // Bytes on a connection that the node has closed are discarded.
            buffers.remove(&connection);
            return Ok(true);
        };
        let mut received = None;
        if let Some(Arrived::Piece(piece)) = buffer.held.front()
            && link.takes(piece)?
        {
            received = Some((piece.head.seq, piece.begins));
            buffer.held.pop_front();
        }
        self.touch(connection);
        if let Some((version, true)) = received
            && self.has(Defect::AnswerFirst)
        {
            self.send_back(connection, Event::Answer { connection, version });
        }
        self.answer(node, connection)?;
        self.count("turns");
        Ok(received.is_some())
    }

    /// The rest of the connection's messages is done, and answers leave.
    fn answer(&mut self, node: u64, connection: u64) -> Check {
        let now = Duration::from_millis(self.now_ms);
        let Some(link) = self.node(node).links.get_mut(&connection) else { return Ok(()) };
        let mut answered = Vec::new();
        loop {
            match link.step(now)? {
                LinkStep::Nothing => break,
                LinkStep::Answer(version, Ok(_)) => answered.push(version),
                other => return Err(format!("{other:?}, where no extent has copies")),
            }
        }
        let fetches = link.commands.answers.take_fetches();
        for version in answered {
            self.send_back(connection, Event::Answer { connection, version });
        }
        for fetch in fetches {
            self.fetch(node, connection, fetch);
        }
        Ok(())
    }

    fn greet(&mut self, node: u64, connection: u64) -> Check {
        let series = self.connections[&connection].series;
        let there = self.node(node);
        let earlier = there.sessions.on_greeted(connection, series);
        there.links.insert(connection, ServedLink::new(there.memory.clone()));
        let earlier = earlier.filter(|_| !self.has(Defect::ServeBoth));
        if let Some(earlier) = earlier {
            self.count("connections ended by their successor");
            self.end(node, earlier);
        }
        self.send_back(connection, Event::Welcome { connection });
        let Some(asked) = self.connections[&connection].asks else { return Ok(()) };
        let question = Question { connection: asked.connection.into(), seq: asked.version };
        if self.has(Defect::ServeBoth) {
            return Ok(());
        }
        if self.nodes[node as usize].links.contains_key(&asked.connection) {
            self.end(node, asked.connection);
        }
        let happened = self.nodes[node as usize].ended_links.happened(question);
        self.on_told(self.connections[&connection].line, asked, happened)
    }

    /// A program is told what became of a command that it gave up.
    fn on_told(&mut self, line: u64, GivenUp { version, words, .. }: GivenUp, happened: Happened) -> Check {
        match happened {
            Happened::Unknown => {
                self.count("commands of which nothing is known");
                Ok(())
            }
            Happened::No => {
                self.count("commands known not to be done");
                self.undone.insert((line, version));
                self.touched.insert(line);
                Ok(())
            }
            Happened::Yes => {
                self.count("commands known to be done");
                let (node, Words { count, step }) = (&self.nodes[self.lines[line as usize].node as usize], words);
                let oldest = (0..count).map(|word| node.word(line, word * step)).min().unwrap_or(version);
                check(oldest >= version, || format!("line {line}: version {version} is said to be done, and {oldest} is there"))
            }
        }
    }

    /// All bytes of a copy are in their place.
    pub(super) fn fetched(&mut self, node: u64, connection: u64) -> Check {
        if let Some(link) = self.node(node).links.get_mut(&connection) {
            link.commands.answers.fetched(Ok(()));
        }
        self.answer(node, connection)
    }
}
