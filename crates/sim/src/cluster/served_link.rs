//! A link as a node serves it: the buffers of a message that comes, and the home's commands.

use super::commands::{LinkCommand, Opened, Piece, refused};
use super::memory::SimExtent;
use hanare_home::{
    Buffers, Bytes, Destination, Execution, Fetch, LinkCommands, LinkOutcomes, Next, Response, StageBytes, VectorExecution,
};
use hanare_protocol::Result as Outcome;
use hanare_protocol::error::Happened;
use hanare_protocol::id::{Gid, Grant, Slot};
use hanare_protocol::limits::STAGE_LEN;
use hanare_protocol::wire::Malformed;
use hanare_protocol::wire::command::{COMMAND_LEN, Command};
use hanare_protocol::wire::copies::ExtentWrite;
use hanare_protocol::wire::exchange::{Query, Question, Reply, name_head};
use hanare_protocol::wire::head::{Head, Kind};
use std::rc::Rc;
use std::time::Duration;

/// The next thing that a link has for its driver.
#[derive(Debug)]
pub(crate) enum LinkStep {
    /// A write to an extent with copies, for the home of that extent.
    Write((Gid, Slot), ExtentWrite),
    /// The answer to the message of that number: the bytes of its results.
    Answer(u64, Outcome<Vec<u8>>),
    /// The answer to a question about a command that was lost.
    Told(u64, Happened),
    /// The link waits for something else to happen.
    Nothing,
}

/// The buffers of a message that comes in pieces.
#[derive(Debug)]
pub(crate) struct Receiver {
    pub front: Vec<u8>,
    lists: Vec<u64>,
    pub stage: Vec<u8>,
    /// The place of the next bytes, the number of those that are there, and of bytes of the message's body.
    destination: Destination,
    filled: u64,
    at: u64,
    /// Bytes that are received of a piece of which others wait.
    taken: usize,
}

/// The party that says where bytes of messages belong, and takes those that no buffer has.
pub(crate) trait Destinations {
    fn place(&mut self, head: &Head, at: u64, buffers: Buffers<'_>) -> Result<Destination, Malformed>;

    fn put(&mut self, destination: Destination, filled: u64, bytes: &[u8]) -> Outcome<()>;

    /// The message is whole.
    fn message(&mut self, head: &Head, buffers: Buffers<'_>);
}

impl Default for Receiver {
    fn default() -> Receiver {
        let (front, lists, stage, filled, at, taken) = Default::default();
        Receiver { front, lists, stage, destination: Destination::Later, filled, at, taken }
    }
}

impl Receiver {
    /// Receives a piece, as far as it has a place. Returns true if all of it is received. **Errors**: the link would end.
    pub fn receive(&mut self, piece: &Piece, places: &mut impl Destinations) -> Result<bool, String> {
        while self.taken < piece.bytes.len() {
            if self.filled == self.room() {
                let buffers = Buffers { front: &self.front, lists: &self.lists, stage: &self.stage };
                let placed = places.place(&piece.head, self.at, buffers);
                (self.destination, self.filled) = (placed.map_err(|malformed| malformed.0.to_owned())?, 0);
                if self.destination == Destination::Later {
                    return Ok(false);
                }
                self.prepare();
            }
            let rest = &piece.bytes[self.taken..];
            let len = (self.room() - self.filled).min(rest.len() as u64);
            self.put(&rest[..len as usize], places).map_err(|error| error.to_string())?;
            (self.filled, self.at, self.taken) = (self.filled + len, self.at + len, self.taken + len as usize);
        }
        self.taken = 0;
        if self.at == piece.head.body_len {
            places.message(&piece.head, Buffers { front: &self.front, lists: &self.lists, stage: &self.stage });
            self.front.clear();
            (self.destination, self.filled, self.at) = (Destination::Later, 0, 0);
        }
        Ok(true)
    }

    fn room(&self) -> u64 {
        match self.destination {
            Destination::Front(len) | Destination::Lists(len) | Destination::Held(len) => len,
            Destination::Extent { len, .. } | Destination::Stage(len) | Destination::Nowhere(len) => len,
            Destination::Later => 0,
        }
    }

    fn prepare(&mut self) {
        match self.destination {
            Destination::Front(len) => {
                self.lists.clear();
                self.front.resize(len as usize, 0);
            }
            Destination::Lists(len) => self.lists = vec![0; len as usize / 8],
            Destination::Stage(_) | Destination::Nowhere(_) => self.stage.resize(STAGE_LEN, 0),
            _ => {}
        }
    }

    fn put(&mut self, bytes: &[u8], places: &mut impl Destinations) -> Outcome<()> {
        let at = self.filled as usize;
        match self.destination {
            Destination::Front(_) => self.front[at..][..bytes.len()].copy_from_slice(bytes),
            Destination::Lists(_) => {
                (at..).zip(bytes).for_each(|(at, byte)| self.lists[at / 8] |= u64::from(*byte) << (at % 8 * 8))
            }
            Destination::Stage(_) | Destination::Nowhere(_) => self.stage[at..][..bytes.len()].copy_from_slice(bytes),
            destination => return places.put(destination, self.filled, bytes),
        }
        Ok(())
    }
}

impl Destinations for LinkCommands<Opened, ()> {
    fn place(&mut self, head: &Head, at: u64, buffers: Buffers<'_>) -> Result<Destination, Malformed> {
        self.incoming.place(head, at, buffers)
    }

    fn put(&mut self, destination: Destination, filled: u64, bytes: &[u8]) -> Outcome<()> {
        let Some(current) = self.incoming.current() else { return Ok(()) };
        match destination {
            Destination::Extent { offset, .. } => Bytes::write(current.extent(), offset + filled, bytes),
            _ => current.execution.hold(bytes),
        }
    }

    fn message(&mut self, head: &Head, buffers: Buffers<'_>) {
        self.incoming.message(head, buffers);
    }
}

/// A link of a program to a home, and the message that comes on it.
pub(crate) struct CommandLink {
    commands: LinkCommands<Opened, ()>,
    opened: Opened,
    /// Extents that the commands of the message name.
    extents: Vec<(Slot, Grant)>,
    receiver: Receiver,
    /// An answer of which more is left: its number, its length, and the bytes that are given.
    partly: Option<(u64, u64, Vec<u8>)>,
}

impl std::fmt::Debug for CommandLink {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "a link with {} bytes of a message", self.receiver.at)
    }
}

impl CommandLink {
    /// A link that nothing has named: its commands count as often as they come.
    pub fn new() -> CommandLink {
        let opened = Opened::default();
        let (extents, receiver, partly) = Default::default();
        CommandLink { commands: LinkCommands::new(opened.clone()), opened, extents, receiver, partly }
    }

    /// A link of that program. **Errors**: the link would end.
    pub fn of_client(client: u64) -> Result<CommandLink, String> {
        CommandLink::named(u128::from(client) << 64 | 1)
    }

    /// A link of that name. **Errors**: the link would end.
    pub fn named(name: u128) -> Result<CommandLink, String> {
        let mut link = CommandLink::new();
        link.receives(&Piece { head: name_head(name), begins: true, bytes: Rc::default() }, false, |_, _| Err(refused()))?;
        match link.commands.take_queries()[..] {
            [(_, Query::Name(taken))] if taken == name => Ok(link),
            ref other => Err(format!("a name is taken for {other:?}")),
        }
    }

    /// A message of one command comes, whose extent its node opens so. Returns true if it is taken now: one at a time is.
    ///
    /// **Errors**: the link would end.
    pub fn takes(&mut self, seq: u64, command: &LinkCommand<'_>, extent: Outcome<SimExtent>) -> Result<bool, String> {
        self.receives(&command.message(seq), false, |_, _| extent.clone())
    }

    /// A piece of a message comes, whose extents its node opens so. Returns true if all of it was received now. A message begins when
    /// those before it are answered, and its bytes wait for copies of those before them. `is_shared` is true while several users want turns.
    ///
    /// **Errors**: the link would end.
    pub fn receives(
        &mut self,
        piece: &Piece,
        is_shared: bool,
        open: impl Fn(Slot, Grant) -> Outcome<SimExtent>,
    ) -> Result<bool, String> {
        self.commands.begin_round(is_shared);
        let is_begun = self.receiver.at > 0;
        let has_taken = (is_begun || self.commands.incoming.may_begin()) && {
            if !is_begun {
                self.extents = extents_of(piece)?;
            }
            self.opened.set(self.extents.iter().map(|(slot, grant)| ((*slot, *grant), open(*slot, *grant))).collect());
            let has_taken = self.receiver.receive(piece, &mut self.commands);
            self.opened.set(Vec::new());
            has_taken?
        };
        self.commands.end_round();
        Ok(has_taken)
    }

    /// Copies and home have done the first write that [`CommandLink::step`] gave and that has no outcome, or have not.
    pub fn applied(&mut self, outcome: Outcome<Vec<u8>>) {
        self.commands.applied(outcome, &self.receiver.stage);
    }

    /// Questions that have come about lost commands, with the number of each. **Errors**: the link would end.
    pub fn take_questions(&mut self) -> Result<Vec<(u64, Question)>, String> {
        let question = |(seq, query)| match query {
            Query::Ask(question) => Ok((seq, question)),
            other => Err(format!("a program asks {other:?}")),
        };
        self.commands.take_queries().into_iter().map(question).collect()
    }

    /// Answers a question.
    pub fn tell(&mut self, seq: u64, happened: Happened) {
        self.commands.answers.push(seq, Response::Reply(Reply::Told(happened)));
    }

    /// Bytes of other nodes that copies need; told once.
    pub fn take_fetches(&mut self) -> Vec<Fetch<SimExtent>> {
        self.commands.answers.take_fetches()
    }

    /// A fetch that it waits for has ended.
    pub fn fetched(&mut self, outcome: Outcome<()>) {
        self.commands.answers.fetched(outcome);
    }

    /// Its name, and the outcomes of its requests if it ended now.
    pub fn end(&self) -> (u128, LinkOutcomes) {
        (self.commands.incoming.name().unwrap_or_default(), self.commands.outcomes())
    }

    /// Does what is left of messages, until something is to be done or to be waited for.
    pub fn step(&mut self, now_ms: u64) -> Result<LinkStep, String> {
        loop {
            while let Some(need) = self.commands.need() {
                if let Some(write) = self.commands.write(&self.receiver.stage).map_err(|error| error.to_string())? {
                    self.commands.goes_ahead(&write, &self.receiver.stage);
                    return Ok(LinkStep::Write((need.gid, need.slot), write));
                }
                self.commands.recalled(Ok(()), &self.receiver.stage);
            }
            match self.commands.answers.next(Duration::from_millis(now_ms), 0) {
                Next::Nothing => return Ok(LinkStep::Nothing),
                Next::Again | Next::Others => {}
                Next::Reply(seq, Reply::Done) => return Ok(LinkStep::Answer(seq, Ok(Vec::new()))),
                Next::Reply(seq, Reply::Refused(error)) => return Ok(LinkStep::Answer(seq, Err(error))),
                Next::Reply(seq, Reply::Told(happened)) => return Ok(LinkStep::Told(seq, happened)),
                Next::Reply(seq, reply) => return Err(format!("message {seq} is answered {reply:?}")),
                Next::Granted(..) | Next::Later => return Err("an answer that nobody asked for".to_owned()),
                Next::Send => {
                    if let Some((seq, bytes)) = self.send().map_err(|error| error.to_string())? {
                        return Ok(LinkStep::Answer(seq, Ok(bytes)));
                    }
                }
            }
        }
    }

    /// Gives the next bytes of an answer. Returns its number and all its bytes where it is whole.
    fn send(&mut self) -> Outcome<Option<(u64, Vec<u8>)>> {
        let mut parts = self.commands.answers.begin_parts();
        let mut bytes = Vec::new();
        while let Some((part, command)) = parts.next_part() {
            let (at, len) = (part.at, part.len);
            match command.holds_result() {
                true => bytes.extend_from_slice(&command.execution.result()[at as usize..][..len as usize]),
                false => bytes.extend(VectorExecution::read(command.extent(), StageBytes { shape: &command.shape, at, len })?),
            }
        }
        let begun = parts.give(bytes.len() as u64);
        self.commands.answers.end_parts(0);
        let begun = begun.map(|(seq, total)| (seq, total, Vec::new()));
        let Some((seq, total, mut given)) = begun.or(self.partly.take()) else { return Ok(None) };
        given.append(&mut bytes);
        if given.len() as u64 == total {
            return Ok(Some((seq, given)));
        }
        self.partly = Some((seq, total, given));
        Ok(None)
    }
}

/// Extents that the commands of a message name, which begins with a piece that has all of them.
fn extents_of(piece: &Piece) -> Result<Vec<(Slot, Grant)>, String> {
    if piece.head.kind != Kind::Commands {
        return Ok(Vec::new());
    }
    let commands = piece.bytes.chunks_exact(COMMAND_LEN).take(piece.head.count as usize);
    let extent = |bytes: &[u8]| {
        let command = bytes.first_chunk().map(Command::decode).ok_or("a command of fewer bytes")?;
        command.map(|command| (command.slot, command.grant)).map_err(|malformed| malformed.0.to_owned())
    };
    commands.map(extent).collect()
}
