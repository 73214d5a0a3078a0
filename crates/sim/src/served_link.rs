//! A link as a node serves it: the buffers of a message that comes, and the home's commands.

use hanare_home::{
    Buffers, Bytes, CommandExtent, CommandMemory, Destination, Execution, LinkCommands, Next, StageBytes, VectorExecution,
};
use hanare_protocol::Result as Outcome;
use hanare_protocol::id::{Gid, Slot};
use hanare_protocol::limits::STAGE_LEN;
use hanare_protocol::wire::copies::ExtentWrite;
use hanare_protocol::wire::exchange::{Query, Reply, name_head};
use hanare_protocol::wire::head::Head;
use std::rc::Rc;
use std::time::Duration;

/// A piece of a message.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    pub head: Head,
    /// The message begins with it.
    pub begins: bool,
    pub bytes: Rc<[u8]>,
}

/// The next thing that a link has for its driver.
#[derive(Debug)]
pub(crate) enum LinkStep {
    /// A write to an extent with copies, for the home of that extent.
    Write((Gid, Slot), ExtentWrite),
    /// The answer to the message of that number: the bytes of its results.
    Answer(u64, Outcome<Vec<u8>>),
    /// The link waits for something else to happen.
    Nothing,
}

/// A link, and the message that comes on it.
pub(crate) struct ServedLink<M: CommandMemory> {
    pub commands: LinkCommands<M, ()>,
    front: Vec<u8>,
    lists: Vec<u64>,
    stage: Vec<u8>,
    /// The place of the next bytes, the number of those that are there, and of bytes of the message's body.
    destination: Destination,
    filled: u64,
    at: u64,
    /// An answer of which more is left: its number, its length, and the bytes that are given.
    partly: Option<(u64, u64, Vec<u8>)>,
}

impl<M: CommandMemory> std::fmt::Debug for ServedLink<M> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "a link with {} bytes of a message", self.at)
    }
}

impl<E, M> ServedLink<M>
where
    E: Bytes + CommandExtent,
    M: CommandMemory<Extent = E, Execution = VectorExecution<E>>,
{
    pub fn new(memory: M) -> ServedLink<M> {
        let (front, lists, stage, filled, at, partly) = Default::default();
        let (commands, destination) = (LinkCommands::new(memory), Destination::Later);
        ServedLink { commands, front, lists, stage, destination, filled, at, partly }
    }

    /// The same, where the connection's name has told whose it is. **Errors**: the link would end.
    pub fn of_client(memory: M, client: u64) -> Result<ServedLink<M>, String> {
        let mut link = ServedLink::new(memory);
        let name = u128::from(client) << 64 | 1;
        link.takes(&Piece { head: name_head(name), begins: true, bytes: Rc::default() })?;
        match link.commands.take_queries()[..] {
            [(_, Query::Name(taken))] if taken == name => Ok(link),
            ref other => Err(format!("a name is taken for {other:?}")),
        }
    }

    /// A piece of a message comes. Returns true if it was received now: a message begins when those before it are answered.
    ///
    /// **Errors**: the link would end.
    pub fn takes(&mut self, piece: &Piece) -> Result<bool, String> {
        self.commands.begin_round(false);
        let may_take = self.may_take(piece);
        if may_take {
            self.receive(piece)?;
        }
        self.commands.end_round();
        Ok(may_take)
    }

    fn may_take(&self, piece: &Piece) -> bool {
        let begins = self.at == 0 && self.destination == Destination::Later;
        (begins == piece.begins) && (!begins || self.commands.incoming.may_begin())
    }

    fn receive(&mut self, piece: &Piece) -> Result<(), String> {
        let mut rest = &piece.bytes[..];
        while !rest.is_empty() {
            if self.filled == self.room() {
                let buffers = Buffers { front: &self.front, lists: &self.lists, stage: &self.stage };
                let placed = self.commands.incoming.place(&piece.head, self.at, buffers);
                (self.destination, self.filled) = (placed.map_err(|malformed| malformed.0.to_owned())?, 0);
                if self.destination == Destination::Later {
                    return Err("a message that waits in its midst".to_owned());
                }
                self.prepare();
            }
            let len = (self.room() - self.filled).min(rest.len() as u64);
            let (now, later) = rest.split_at(len as usize);
            self.put(now)?;
            (rest, self.filled, self.at) = (later, self.filled + len, self.at + len);
        }
        if self.at == piece.head.body_len {
            let buffers = Buffers { front: &self.front, lists: &self.lists, stage: &self.stage };
            self.commands.incoming.message(&piece.head, buffers);
            self.front.clear();
            (self.destination, self.filled, self.at) = (Destination::Later, 0, 0);
        }
        Ok(())
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
            Destination::Stage(_) | Destination::Nowhere(_) => self.stage.resize(STAGE_LEN, 0),
            _ => {}
        }
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), String> {
        let at = self.filled as usize;
        match self.destination {
            Destination::Front(_) => self.front[at..][..bytes.len()].copy_from_slice(bytes),
            Destination::Stage(_) | Destination::Nowhere(_) => self.stage[at..][..bytes.len()].copy_from_slice(bytes),
            Destination::Extent { offset, .. } => {
                let current = self.commands.incoming.current().ok_or("bytes of no command")?;
                Bytes::write(current.extent(), offset + self.filled, bytes).map_err(|error| error.to_string())?;
            }
            Destination::Held(_) => {
                let current = self.commands.incoming.current().ok_or("bytes of no command")?;
                current.execution.hold(bytes).map_err(|error| error.to_string())?;
            }
            Destination::Lists(_) | Destination::Later => {
                return Err(format!("{:?} for a program's bytes", self.destination));
            }
        }
        Ok(())
    }

    /// Copies and home have done the first write that [`ServedLink::step`] gave and that has no outcome, or have not.
    pub fn applied(&mut self, outcome: Outcome<Vec<u8>>) {
        self.commands.applied(outcome, &self.stage);
    }

    /// Does what is left of messages, until something is to be done or to be waited for.
    pub fn step(&mut self, now: Duration) -> Result<LinkStep, String> {
        loop {
            if let Some(need) = self.commands.need() {
                if let Some(write) = self.commands.write(&self.stage).map_err(|error| error.to_string())? {
                    self.commands.goes_ahead(&write, &self.stage);
                    return Ok(LinkStep::Write((need.gid, need.slot), write));
                }
                self.commands.recalled(Ok(()), &self.stage);
            }
            match self.commands.answers.next(now, 0) {
                Next::Nothing => return Ok(LinkStep::Nothing),
                Next::Again | Next::Others => {}
                Next::Reply(seq, Reply::Done) => return Ok(LinkStep::Answer(seq, Ok(Vec::new()))),
                Next::Reply(seq, Reply::Refused(error)) => return Ok(LinkStep::Answer(seq, Err(error))),
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
                false => bytes.extend(M::Execution::read(command.extent(), StageBytes { shape: &command.shape, at, len })?),
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
