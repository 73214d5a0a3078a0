//! Programs: one message at a time, given up after a while. They die at any moment, and have successors.

use super::blocks::BlockWrite;
use super::links::{LinkClient, SendLink};
use super::messages::{Message, Route};
use super::{Cluster, Defect, Event, Piece, ProcessLife, SendEvent, region_of};
use crate::check::{Check, check};
use crate::cluster::process::address;
use crate::cluster::words;
use hanare_protocol::Error;
use hanare_protocol::error::Happened;
use hanare_protocol::wire::exchange::{Query, Question, Reply};
use std::collections::BTreeMap;

/// Time that a program waits for an answer.
const LATE_MS: u64 = 1_000;
/// Times from an answer to the next message, and from one try to reach a home to the next.
const PAUSES: [u64; 4] = [0, 5, 50, 300];
const TRIES: [u64; 3] = [50, 100, 200];

/// Programs that write one block, one after another.
#[derive(Debug, Default)]
pub(super) struct Line {
    pub program: Option<Sender>,
    /// The number of the last message, which is the version that it writes.
    seq: u64,
    pub answered_ms: u64,
}

/// A program.
#[derive(Debug)]
pub(super) struct Sender {
    pub life: u64,
    /// Its node.
    pub at: ProcessLife,
    /// Its connections, by home.
    links: BTreeMap<ProcessLife, u64>,
    waits: Option<Sent>,
    /// The message that it gave up, until it knows what became of that.
    lost: Option<Sent>,
    /// Words of its second block that copies may be made from, and their version.
    prepared: Option<BlockWrite>,
}

/// A message, or a question about another one, which has no commands.
#[derive(Debug)]
struct Sent {
    link: u64,
    home: ProcessLife,
    message: Message,
    /// The newest versions that were answered when it was sent, of the words that it reads.
    floors: Vec<Vec<u64>>,
}

/// True for the errors of a home that is lost, or is home no more, and of memory that failed.
fn is_expected(error: &Error) -> bool {
    matches!(error, Error::GrantRefused { .. } | Error::NodeLost { .. } | Error::Broken { .. } | Error::System { .. })
}

impl Cluster {
    fn line(&mut self, line: usize) -> &mut Line {
        &mut self.senders_mut().lines[line]
    }

    fn sender(&mut self, line: usize) -> Option<&mut Sender> {
        self.line(line).program.as_mut()
    }

    /// A program begins on a host whose node takes part, when all homes know of the end of those before.
    pub(super) fn begin_sender(&mut self, line: usize) -> Check {
        let runs = |host: usize| Some((host, self.hosts[host].process.as_ref()?.life));
        let nodes: Vec<ProcessLife> =
            (0..self.hosts.len()).filter(|host| !self.hosts[*host].is_stopped).filter_map(runs).collect();
        if nodes.is_empty() || (self.has_unheard_end(line) && !self.has(Defect::SendOn)) {
            self.at(50, Event::Send(SendEvent::Begin { line }));
            return Ok(());
        }
        let senders = self.senders_mut();
        senders.programs_ever += 1;
        let (life, at) = (senders.programs_ever, senders.dice.pick(&nodes));
        let (links, waits, lost, prepared) = Default::default();
        senders.lines[line].program = Some(Sender { life, at, links, waits, lost, prepared });
        self.plan_sender(line, &[0]);
        Ok(())
    }

    /// A program dies, with its connections.
    pub(super) fn kill_sender(&mut self, line: usize) {
        let Some(sender) = self.line(line).program.take() else { return };
        self.note(format!("program {} of line {line} dies", sender.life));
        self.count("senders that died");
        sender.links.into_values().for_each(|link| self.end_send_link(link));
        let after = self.senders_mut().dice.between(5, 500);
        self.at(after, Event::Send(SendEvent::Begin { line }));
    }

    /// A program has its next turn after a while.
    fn plan_sender(&mut self, line: usize, pauses: &[u64]) {
        let Some(life) = self.sender(line).map(|sender| sender.life) else { return };
        let after = self.senders_mut().dice.pick(pauses);
        self.at(after, Event::Send(SendEvent::Turn { line, life }));
    }

    /// The next message. A program that gave one up asks first what became of that.
    pub(super) fn on_sender_turn(&mut self, line: usize, life: u64) -> Check {
        let (is_rough, since_ms) = (self.is_rough, self.plan.rough_ms());
        let has_enough = !is_rough && self.line(line).answered_ms > since_ms;
        let Some(sender) = self.sender(line).filter(|sender| sender.life == life) else { return Ok(()) };
        if sender.waits.is_some() {
            return Ok(());
        }
        if let Some(Sent { home, link, message, .. }) = &sender.lost {
            let (home, question) = (*home, Question { connection: (*link).into(), seq: message.seq });
            if self.process(home).is_some() {
                let seq = self.next_seq(line);
                let (head, body) = Query::Ask(question).encode(seq);
                let piece = Piece { head, begins: true, bytes: body.into() };
                return self.send_message(line, home, Message::new(seq), vec![piece]);
            }
            self.sender(line).into_iter().for_each(|sender| sender.lost = None);
            self.count("lost messages whose home is gone");
        }
        if has_enough { Ok(()) } else { self.send_next(line) }
    }

    /// The home of a region, and its extent there, as a program of words knows it, while its process runs.
    pub(super) fn route(&self, program: usize) -> Option<(ProcessLife, Route)> {
        let view = self.word_view(program)?;
        let (extent, grant) = (view.layout.extents().next()?, *view.grants.first()?);
        Some((self.home_of_view(view)?, Route { slot: extent.slot, grant, node: extent.node, address: None }))
    }

    /// The program of words whose knowledge of a block's region a line shares.
    fn guide(line: usize, which: usize) -> usize {
        region_of(line, which) + words::REGION_COUNT * (line % (words::PROGRAM_COUNT / words::REGION_COUNT))
    }

    /// A line's homes are lost, or are none any more: its regions are opened again.
    fn open_regions(&mut self, line: usize) -> Check {
        (0..2).try_for_each(|which| self.open_again(Cluster::guide(line, which)).map(drop))
    }

    fn send_next(&mut self, line: usize) -> Check {
        let [own, other] = [0, 1].map(|which| self.route(Cluster::guide(line, which)));
        let (Some(own), Some(other)) = (own, other) else {
            self.plan_sender(line, &TRIES);
            return self.open_regions(line);
        };
        let prepared = self.sender(line).and_then(|sender| sender.prepared.take());
        let seq = self.next_seq(line);
        let (mut message, dice) = (Message::new(seq), &mut self.senders_mut().dice);
        let home = if let Some(BlockWrite { words, version, .. }) = prepared {
            let is_near = own.0 == other.0;
            let address = (!is_near).then(|| address(other.0.0));
            let from = Route { address, ..other.1 };
            let (first, rest) = words.split_at(dice.below(words.len() as u64) as usize);
            for words in [first, rest].into_iter().filter(|words| !words.is_empty()) {
                message.add_copy(line, version, words, (&from, &own.1));
            }
            self.count(if is_near { "copies at one home" } else { "copies from another home" });
            own.0
        } else if dice.chance(3_000) {
            message.add_write(dice, (line, 1), &other.1);
            other.0
        } else {
            (0..dice.below(4)).for_each(|_| message.add_write(dice, (line, 0), &own.1));
            own.0
        };
        if message.is_empty() || self.senders_mut().dice.chance(3_000) {
            let which = usize::from(message.writes.first().is_some_and(|write| write.which == 1));
            message.add_read((line, which), if which == 0 { &own.1 } else { &other.1 });
        }
        let pieces = message.pieces(&mut self.senders_mut().dice);
        self.send_message(line, home, message, pieces)
    }

    fn next_seq(&mut self, line: usize) -> u64 {
        let line = self.line(line);
        line.seq += 1;
        line.seq
    }

    fn send_message(&mut self, line: usize, home: ProcessLife, message: Message, pieces: Vec<Piece>) -> Check {
        let Some(sender) = self.sender(line) else { return Ok(()) };
        let (known, client) =
            (sender.links.get(&home).copied(), LinkClient::Program { line, life: sender.life, is_ring: sender.at == home });
        let link = known.unwrap_or_else(|| self.connect_to_home(SendLink { home, client }));
        let blocks = &self.senders_mut().blocks[line];
        let floors = message.reads.iter().map(|read| blocks[read.which].floors_of(&read.words)).collect();
        let seq = message.seq;
        if let Some(sender) = self.sender(line) {
            sender.links.insert(home, link);
            sender.waits = Some(Sent { link, home, message, floors });
        }
        pieces.into_iter().for_each(|piece| self.send_piece(link, piece));
        self.at(LATE_MS, Event::Send(SendEvent::Late { line, seq }));
        Ok(())
    }

    /// A message has no answer: its program gives it up, and its connection.
    pub(super) fn on_sender_late(&mut self, line: usize, seq: u64) -> Check {
        let is_it = |sent: &&Sent| sent.message.seq == seq;
        let link = self.sender(line).and_then(|sender| sender.waits.as_ref().filter(is_it).map(|sent| sent.link));
        match link.map(|link| (link, self.send_link(link).is_some_and(|link| link.client.is_ring()))) {
            Some((link, false)) => self.give_up_send_link(link),
            Some((_, true)) => {
                // The ring to a host's node is made once: its program goes on waiting.
                self.count("messages that rings wait with");
                self.at(LATE_MS, Event::Send(SendEvent::Late { line, seq }));
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// A program's connection has ended: it does not know what became of the message there.
    pub(super) fn on_sender_link_ended(&mut self, line: usize, life: u64, link: u64) -> Check {
        let Some(sender) = self.sender(line).filter(|sender| sender.life == life) else { return Ok(()) };
        sender.links.retain(|_, other| *other != link);
        let Some(sent) = sender.waits.take_if(|sent| sent.link == link) else { return Ok(()) };
        let seq = sent.message.seq;
        if !sent.message.is_empty() {
            sender.lost = Some(sent);
            self.note(format!("line {line} gives message {seq} on link {link} up"));
            self.count("messages given up");
        }
        self.open_regions(line)?;
        self.plan_sender(line, &PAUSES);
        Ok(())
    }

    /// An answer reaches a program.
    pub(super) fn on_sender_answer(&mut self, (line, life): (usize, u64), link: u64, piece: &Piece) -> Check {
        let Some(sender) = self.sender(line).filter(|sender| sender.life == life) else { return Ok(()) };
        let is_it = |sent: &mut Sent| (sent.link, sent.message.seq) == (link, piece.head.seq);
        let Some(sent) = sender.waits.take_if(is_it) else { return Ok(()) };
        let reply = Reply::decode(&piece.head, &piece.bytes).map_err(|malformed| malformed.0.to_owned())?;
        let mut pauses = &PAUSES[..];
        match reply {
            Reply::Done => self.on_message_done(line, sent, &piece.bytes)?,
            Reply::Refused(error) => {
                check(is_expected(&error), || format!("message {} of line {line} is refused: {error:?}", sent.message.seq))?;
                self.count("messages refused");
                self.on_told(line, &sent.message.writes, error.happened());
                self.open_regions(line)?;
                pauses = &TRIES;
            }
            Reply::Told(happened) => {
                if let Some(lost) = self.sender(line).and_then(|sender| sender.lost.take()) {
                    self.note(format!("line {line}: of message {} on link {} is told {happened:?}", lost.message.seq, lost.link));
                    self.on_told(line, &lost.message.writes, happened);
                    self.count(match happened {
                        Happened::Yes => "lost messages known to be done",
                        Happened::No => "lost messages known not to be done",
                        Happened::Unknown => "lost messages of which nothing is known",
                    });
                }
            }
            other => return Err(format!("line {line} is answered {other:?}")),
        }
        self.plan_sender(line, pauses);
        Ok(())
    }

    /// A program is told what became of its writes.
    fn on_told(&mut self, line: usize, writes: &[BlockWrite], happened: Happened) {
        let blocks = &mut self.senders_mut().blocks[line];
        for write in writes {
            match happened {
                Happened::Yes => blocks[write.which].on_done(write),
                Happened::No => blocks[write.which].on_undone(write),
                Happened::Unknown => {}
            }
        }
        self.senders_mut().touched.insert(line);
    }

    /// A message is answered: what it wrote stays, and what it read is not older than what was answered before.
    fn on_message_done(&mut self, line: usize, sent: Sent, results: &[u8]) -> Check {
        let (now_ms, message) = (self.now_ms, sent.message);
        let blocks = &self.senders_mut().blocks[line];
        let mut results = results.chunks(8).map(|word| word.try_into().map_or(0, u64::from_le_bytes));
        for (read, floors) in message.reads.iter().zip(&sent.floors) {
            for (word, floor) in read.words.iter().zip(floors) {
                let version = results.next().ok_or("an answer has fewer bytes than were asked for")?;
                let own = message.writes.iter().filter(|write| write.which == read.which && write.words.contains(word));
                let own = own.map(|write| write.version).max().filter(|_| read.is_last).unwrap_or(0);
                blocks[read.which].check_word(*word, version, own.max(*floor))?;
            }
        }
        self.on_told(line, &message.writes, Happened::Yes);
        self.count("messages answered");
        if !message.reads.is_empty() {
            self.count("messages answered with words");
        }
        self.line(line).answered_ms = now_ms;
        let prepared = message.writes.into_iter().find(|write| write.which == 1);
        if let Some(sender) = self.sender(line) {
            sender.prepared = prepared;
        }
        Ok(())
    }
}
