//! A link as a node serves it: the buffers of a message that comes, and the home's commands.

use super::Piece;
use hanare_home::{Buffers, Bytes, Destination, Execution, LinkCommands, Next, Vectors};
use hanare_protocol::limits::STAGE_LEN;
use hanare_protocol::wire::exchange::Reply;
use std::rc::Rc;
use std::time::Duration;

/// A link, and the message that comes on it.
pub(super) struct ServedLink {
    pub commands: LinkCommands<Rc<Vectors>, ()>,
    front: Vec<u8>,
    lists: Vec<u64>,
    stage: Vec<u8>,
    /// The place of the next bytes, the number of those that are there, and of bytes of the message's body.
    destination: Destination,
    filled: u64,
    at: u64,
}

impl ServedLink {
    pub fn new(memory: Rc<Vectors>) -> ServedLink {
        ServedLink {
            commands: LinkCommands::new(memory),
            front: Vec::new(),
            lists: Vec::new(),
            stage: Vec::new(),
            destination: Destination::Later,
            filled: 0,
            at: 0,
        }
    }

    /// Returns true if a piece may be received now. A message begins when those before it are answered.
    pub fn may_take(&self, piece: &Piece) -> bool {
        let begins = self.at == 0 && self.destination == Destination::Later;
        (begins == piece.begins) && (!begins || self.commands.incoming.may_begin())
    }

    /// Bytes of a message arrive. **Errors**: the link would end.
    pub fn receive(&mut self, piece: &Piece) -> Result<(), String> {
        let mut rest = &piece.bytes[..];
        while !rest.is_empty() {
            if self.filled == self.room() {
                let buffers = Buffers { front: &self.front, lists: &self.lists, stage: &self.stage };
                let placed = self.commands.incoming.place(&piece.head, self.at, buffers);
                (self.destination, self.filled) = (placed.map_err(|malformed| malformed.0.to_owned())?, 0);
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
                current.extent().write(offset + self.filled, bytes).map_err(|error| error.to_string())?;
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

    /// Does what is left of messages, and returns the numbers of those that are answered.
    pub fn answer(&mut self, now: Duration) -> Result<Vec<u64>, String> {
        let (answers, mut answered) = (&mut self.commands.answers, Vec::new());
        loop {
            match answers.next(now, 0) {
                Next::Nothing => return Ok(answered),
                Next::Again | Next::Others => {}
                Next::Reply(seq, Reply::Done) => answered.push(seq),
                Next::Reply(seq, reply) => return Err(format!("message {seq} is answered {reply:?}")),
                Next::Granted(..) | Next::Later => return Err("an answer that nobody asked for".to_owned()),
                Next::Send => {
                    let parts = answers.begin_parts();
                    answered.extend(parts.give(0).map(|(seq, _)| seq));
                    answers.end_parts(0);
                }
            }
        }
    }
}
