//! Programs: one command at a time, given up after a bound; killed at any moment, with a successor on the same host.

use super::*;
use crate::network::Ordered;
use hanare_protocol::id::{Grant, Slot};
use hanare_protocol::session::Series;
use hanare_protocol::shape::{Shape, Strided};
use hanare_protocol::wire::command::{Command, Op};
use hanare_protocol::wire::head::{Head, Kind};
use std::rc::Rc;

/// Time that a program waits for a reply.
const BOUND_MS: u64 = 1_000;

/// A program's way to its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Tcp,
    Ucx,
    Ring,
}

/// Programs that write one block, one after another.
#[derive(Debug)]
pub(super) struct Line {
    pub node: u64,
    pub way: Way,
    /// Number of the line's program; a dead one has none.
    life: Option<u64>,
    lives: u64,
    series: Series,
    connection: Option<u64>,
    version: u64,
    /// Words of that version, and the connection on which it was sent.
    words: Words,
    sent_on: Option<u64>,
    pub answered_ms: u64,
    /// Packets of its host do not pass until then.
    cut_until_ms: u64,
    path: Ordered,
}

/// A connection, and what its kernels know of it.
#[derive(Debug)]
pub(super) struct Channel {
    pub line: u64,
    pub way: Way,
    pub series: Option<Series>,
    /// The command that its program asks about.
    pub asks: Option<GivenUp>,
    is_open: bool,
    /// Events that the kernel of the program's host sends when packets pass again.
    queue: Vec<Event>,
    /// Events that the node's kernel sends then.
    answers: Vec<Event>,
    /// The last event that was sent to the node is there then.
    arrived_ms: u64,
}

impl Line {
    pub fn throw(host: u64, nodes: u64, dice: &mut Dice) -> Line {
        let way = dice.pick(&[Way::Tcp, Way::Ucx, Way::Ring]);
        Line {
            node: if way == Way::Ring { host } else { dice.below(nodes) },
            way,
            life: None,
            lives: 0,
            series: Series(0),
            connection: None,
            version: 0,
            words: Words { count: 0, step: 1 },
            sent_on: None,
            answered_ms: 0,
            cut_until_ms: 0,
            path: Ordered::default(),
        }
    }
}

impl Channel {
    /// True if bytes reach the node after its program's death: kernels have them, and send those again that were lost. A kernel sends
    /// nothing for the dead, the library's sockets do.
    fn goes_on(&self, now_ms: u64) -> bool {
        self.arrived_ms >= now_ms || self.way == Way::Ucx && !self.queue.is_empty()
    }
}

impl CommandWorld {
    fn line(&mut self, line: u64) -> &mut Line {
        &mut self.lines[line as usize]
    }

    fn is_cut(&self, line: u64) -> bool {
        self.lines[line as usize].cut_until_ms > self.now_ms
    }

    /// Packets of the line's host are lost for a while.
    pub(super) fn cut(&mut self, line: u64) {
        if self.lines[line as usize].way == Way::Ring || self.is_cut(line) {
            return;
        }
        let time = self.dice.pick(&[300, 1_500, 2_500, 6_000]);
        self.note(format!("line {line} is cut off for {time} ms"));
        self.count("paths cut");
        self.line(line).cut_until_ms = self.now_ms + time;
        self.at(time, Event::Heal { line });
    }

    /// Packets pass: the timers of kernels run until they send again what was not acknowledged.
    pub(super) fn on_heal(&mut self, line: u64) -> Check {
        self.line(line).cut_until_ms = self.line(line).cut_until_ms.min(self.now_ms);
        let ids: Vec<u64> = self.connections.iter().filter(|(_, there)| there.line == line).map(|(id, _)| *id).collect();
        for connection in ids {
            let after = self.dice.between(200, 1_500);
            self.at(after, Event::Resend { connection });
        }
        Ok(())
    }

    /// Kernels send again.
    pub(super) fn on_resend(&mut self, connection: u64) -> Check {
        let Some(there) = self.connections.get_mut(&connection) else { return Ok(()) };
        let line = there.line;
        if self.lines[line as usize].cut_until_ms > self.course.now_ms {
            return Ok(());
        }
        let (queue, answers) = (std::mem::take(&mut there.queue), std::mem::take(&mut there.answers));
        queue.into_iter().for_each(|event| self.at_node(connection, event));
        answers.into_iter().for_each(|event| self.at_program(line, event));
        Ok(())
    }

    fn at_node(&mut self, connection: u64, event: Event) {
        let line = self.connections[&connection].line;
        let delay = if self.lines[line as usize].way == Way::Ring { 0 } else { self.dice.between(0, 2) };
        let state = &mut self.lines[line as usize];
        let after = state.path.there(self.course.now_ms, delay);
        self.at(after, event);
        self.connections.get_mut(&connection).expect("just seen").arrived_ms = self.now_ms + after;
    }

    fn at_program(&mut self, line: u64, event: Event) {
        let delay = self.dice.between(0, 2);
        let state = &mut self.lines[line as usize];
        let after = state.path.back(self.course.now_ms, delay);
        self.at(after, event);
    }

    /// A program's kernel sends, or keeps what cannot pass.
    fn send(&mut self, connection: u64, event: Event) {
        let (line, waits) = (self.connections[&connection].line, !self.connections[&connection].queue.is_empty());
        match self.is_cut(line) || waits {
            true => self.connections.get_mut(&connection).expect("it sends").queue.push(event),
            false => self.at_node(connection, event),
        }
    }

    /// A node's kernel sends, or keeps what cannot pass.
    pub(super) fn send_back(&mut self, connection: u64, event: Event) {
        let Some(there) = self.connections.get(&connection) else { return };
        let (line, waits) = (there.line, !there.answers.is_empty());
        match self.is_cut(line) || waits {
            true => self.connections.get_mut(&connection).expect("just seen").answers.push(event),
            false => self.at_program(line, event),
        }
    }

    /// A program gives its connection up, or died with it.
    fn close(&mut self, connection: u64) {
        let Some(there) = self.connections.get_mut(&connection) else { return };
        there.is_open = false;
        let (line, way) = (there.line, there.way);
        if way == Way::Tcp && !self.course.has(Defect::SendOn) {
            there.queue.clear();
        }
        if self.is_cut(line) {
            self.count("resets lost");
        } else {
            self.at_node(connection, Event::Reset { connection });
        }
    }

    fn connect(&mut self, line: u64) {
        self.connection_count += 1;
        let id = self.connection_count;
        let state = &mut self.lines[line as usize];
        state.connection = Some(id);
        let series = (state.way != Way::Ring).then_some(state.series);
        let asks = state.sent_on.map(|connection| GivenUp { connection, version: state.version, words: state.words });
        let made =
            Channel { line, way: state.way, series, asks, is_open: true, queue: Vec::new(), answers: Vec::new(), arrived_ms: 0 };
        self.connections.insert(id, made);
        self.send(id, Event::Greeting { connection: id });
    }

    /// The next program of the line begins.
    pub(super) fn on_successor(&mut self, line: u64) -> Check {
        if self.lines[line as usize].life.is_some() {
            return Ok(());
        }
        self.series_count += 1;
        let series = Series(self.series_count);
        let state = self.line(line);
        state.lives += 1;
        // The new program knows nothing of its predecessor's connections.
        (state.life, state.series, state.sent_on) = (Some(state.lives), series, None);
        self.connect(line);
        self.await_answer(line);
        Ok(())
    }

    pub(super) fn kill(&mut self, line: u64) {
        let (node, is_cut) = (self.lines[line as usize].node, self.is_cut(line));
        let theirs = self.connections.iter().filter(|(_, there)| there.line == line);
        let mut unheard = theirs.filter(|(_, there)| is_cut || !there.is_open);
        if unheard.any(|(id, there)| there.goes_on(self.now_ms) || self.has_work(node, *id)) {
            self.count("deaths that nobody could hear of, put off");
            return;
        }
        let Some(life) = self.line(line).life.take() else { return };
        self.note(format!("program {life} of line {line} is killed"));
        self.count("programs killed");
        if let Some(connection) = self.line(line).connection.take() {
            self.close(connection);
        }
        let after = self.dice.between(5, 500);
        self.at(after, Event::Successor { line });
    }

    pub(super) fn on_welcome(&mut self, connection: u64) -> Check {
        let Some(there) = self.connections.get(&connection).filter(|there| there.is_open) else { return Ok(()) };
        let line = there.line;
        let life = self.line(line).life.expect("a connection that is open has a program");
        self.at(0, Event::Next { line, life });
        Ok(())
    }

    /// The next command; a program that is to die unheard of does so.
    pub(super) fn on_next(&mut self, line: u64, life: u64) -> Check {
        if life == u64::MAX {
            self.kill(line);
            return Ok(());
        }
        let state = self.line(line);
        let Some(connection) = state.connection.filter(|_| state.life == Some(life)) else { return Ok(()) };
        let is_copy = self.dice.chance(2_000);
        let words = Words { count: self.dice.between(1, PIECE_COUNT_MAX), step: self.dice.between(1, 2) };
        let state = self.line(line);
        (state.version, state.words, state.sent_on) = (state.version + 1, words, Some(connection));
        for piece in message(line, state.version, words, is_copy) {
            self.send(connection, Event::Piece { connection, piece });
        }
        self.await_answer(line);
        Ok(())
    }

    fn await_answer(&mut self, line: u64) {
        let state = &self.lines[line as usize];
        let (life, version) = (state.life.expect("it waits"), state.version);
        self.at(BOUND_MS, Event::Bound { line, life, version });
    }

    pub(super) fn on_answer(&mut self, connection: u64, version: u64) -> Check {
        let Some(there) = self.connections.get(&connection).filter(|there| there.is_open) else { return Ok(()) };
        let line = there.line;
        let now_ms = self.now_ms;
        let state = self.line(line);
        if state.version != version {
            return Ok(());
        }
        state.answered_ms = now_ms;
        let Words { count, step } = state.words;
        let life = state.life.expect("a connection that is open has a program");
        self.answered[line as usize] = version;
        self.touched.insert(line);
        (0..count).for_each(|word| self.floors[line as usize][(word * step) as usize] = version);
        self.count("answers");
        let after = self.dice.between(0, 20);
        self.at(after, Event::Next { line, life });
        Ok(())
    }

    /// No answer has come: the program gives up, and goes on over another connection.
    pub(super) fn on_bound(&mut self, line: u64, life: u64, version: u64) -> Check {
        let state = &self.lines[line as usize];
        let waits = state.life == Some(life) && state.version == version && self.answered[line as usize] < version.max(1);
        if !waits {
            return Ok(());
        }
        self.count("commands given up");
        self.note(format!("line {line} gives version {version} up"));
        if self.lines[line as usize].way == Way::Ring {
            // The ring to this host's node is made once: its program is told, and goes on waiting.
            self.await_answer(line);
            return Ok(());
        }
        if let Some(connection) = self.line(line).connection.take() {
            self.close(connection);
        }
        self.connect(line);
        self.await_answer(line);
        Ok(())
    }
}

/// The pieces of the message that writes a version of a line: a put of its words, or a copy from another node. A copy's source begins at
/// the byte that has the version's number.
fn message(line: u64, version: u64, Words { count, step }: Words, is_copy: bool) -> Vec<Piece> {
    let (len, offset) = (count * WORD_LEN, line * LINE_LEN);
    let shape = match step {
        1 => Shape::contiguous(offset, len),
        _ => Strided { offset, block: WORD_LEN, count, stride: step * WORD_LEN }.into(),
    };
    let command = |op, shape: &Shape<'_>| Command::new(op, 0, Slot(0), Grant::default(), shape).encode();
    let commands = match is_copy {
        true => vec![command(Op::CopyFrom { address_len: 1 }, &Shape::contiguous(version, len)), command(Op::CopyTo, &shape)],
        false => vec![command(Op::Put, &shape)],
    };
    let operand: Vec<Rc<[u8]>> = match is_copy {
        true => vec![Rc::from([b"a", b"b"][version as usize % 2].as_slice())],
        false => (0..count).map(|_| Rc::from(&version.to_le_bytes()[..])).collect(),
    };
    let body_len = commands.iter().map(|command| command.len() as u64).sum::<u64>() + if is_copy { 1 } else { len };
    let head = Head { count: commands.len() as u32, body_len, ..Head::new(Kind::Commands, version) };
    let front = Piece { head, begins: true, bytes: commands.concat().into() };
    let rest = operand.into_iter().map(|bytes| Piece { head, begins: false, bytes });
    std::iter::once(front).chain(rest).collect()
}
