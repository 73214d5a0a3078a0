//! A connection's turn: bytes that have come are read, whole commands are carried out in order, and their replies sent together.
//!
//! No step waits for the client. A client that does not take its replies has no further command carried out until it does.

use crate::commands::carry_out;
use crate::request::{Fault, Incoming};
use crate::session::Session;
use crate::shared::{Part, Shared};
use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Time for a client to prove who it is, and to end a command that has begun. The third is for each [`Session::LONG`] bytes of replies.
const PROOF: Duration = Duration::from_secs(10);
const COMMAND: Duration = Duration::from_secs(60);
const REPLY: Duration = Duration::from_secs(60);
/// The last where memory is short.
const REPLY_SHORT: Duration = Duration::from_secs(1);

/// Bytes that are read and replied in one turn, about.
const TURN_LEN: usize = 256 << 10;

/// Replies that a thread keeps room for.
const ROOM_LEN: usize = 2 * Session::LONG;

/// A connection after its turn.
#[derive(Debug, PartialEq, Eq)]
pub enum After {
    /// The client has the next step.
    Waits,
    /// More can be done at once.
    GoesOn,
    /// The connection is over.
    Ends,
}

/// Buffers of a thread for the connection whose turn it is.
#[derive(Default)]
pub struct Buffers {
    incoming: Vec<u8>,
    replies: Vec<u8>,
}

/// A connection.
pub struct Connection {
    socket: OwnedFd,
    session: Session,
    incoming: Incoming,
    /// Bytes of the replies that were sent.
    sent: usize,
    /// True if bytes may wait at the socket, and if the client's end is among what comes.
    may_read: bool,
    has_end: bool,
    since: Instant,
    command_since: Option<Instant>,
    /// Moment since when replies wait, and bytes that were taken since then.
    reply_since: Option<Instant>,
    taken: usize,
    held: Part,
    owed: Part,
}

impl Connection {
    pub fn new(socket: OwnedFd, shared: Arc<Shared>, id: u64) -> Connection {
        let (held, owed) = (shared.held.part(), shared.owed.part());
        Connection {
            socket,
            session: Session::new(shared, id),
            incoming: Incoming::default(),
            sent: 0,
            may_read: true,
            has_end: false,
            since: Instant::now(),
            command_since: None,
            reply_since: None,
            taken: 0,
            held,
            owed,
        }
    }

    /// Notes events of the socket.
    pub fn hear(&mut self, flags: EventFlags) {
        self.may_read |= flags.intersects(EventFlags::IN | EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR);
        self.has_end |= flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR);
    }

    /// Does what can be done without waiting for the client, and not much of it.
    pub fn turn(&mut self, buffers: &mut Buffers) -> After {
        self.incoming.borrow(&mut buffers.incoming);
        if self.session.replies.bytes.is_empty() {
            std::mem::swap(&mut self.session.replies.bytes, &mut buffers.replies);
        }
        // A client that breaks off is gone; nobody is there to tell.
        let after = self.go_on().unwrap_or(After::Ends);
        self.incoming.give_back(&mut buffers.incoming);
        let replies = &mut self.session.replies.bytes;
        if replies.is_empty() {
            let mut room = std::mem::take(replies);
            room.shrink_to(ROOM_LEN);
            buffers.replies = room;
        }
        match after {
            After::Ends => After::Ends,
            after => self.within_bounds(after),
        }
    }

    fn go_on(&mut self) -> Result<After, Errno> {
        let mut left = TURN_LEN;
        loop {
            if !self.send()? {
                return Ok(After::Waits);
            }
            if self.session.is_over {
                return Ok(After::Ends);
            }
            if left == 0 {
                return Ok(After::GoesOn);
            }
            self.carry_out_some();
            let replied = self.session.replies.bytes.len();
            if replied > 0 || self.session.is_over {
                left = left.saturating_sub(replied);
                continue;
            }
            // No whole command is left.
            if !self.may_read {
                return Ok(After::Waits);
            }
            match self.read()? {
                None => return Ok(After::Waits),
                Some(0) => return Ok(After::Ends),
                Some(read) => left = left.saturating_sub(read),
            }
        }
    }

    /// Carries out the commands that have come, until their replies are long.
    fn carry_out_some(&mut self) {
        let mut count = 0;
        while !self.session.is_over && !self.session.is_long() {
            match self.incoming.next(self.session.is_known) {
                Ok(true) => {
                    carry_out(&mut self.session, self.incoming.words());
                    if self.session.answered == 0 {
                        self.incoming.pass();
                        count += 1;
                    }
                }
                Ok(false) => break,
                Err(Fault(text)) => self.end_with(&text),
            }
        }
        self.session.shared.commands.fetch_add(count, Ordering::Relaxed);
    }

    /// Ends the connection after a last word.
    fn end_with(&mut self, text: &str) {
        self.session.replies.error(text);
        self.session.is_over = true;
    }

    /// Reads what has come. `None` where nothing has.
    fn read(&mut self) -> Result<Option<usize>, Errno> {
        let room = self.incoming.room();
        let len = room.len();
        loop {
            match recv(&self.socket, &mut *room, RecvFlags::DONTWAIT) {
                Ok((read, _)) => {
                    // Less than there is room for is all that has come. What comes later is told.
                    self.may_read = read == len || self.has_end;
                    self.incoming.came(read);
                    return Ok(Some(read));
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    self.may_read = false;
                    return Ok(None);
                }
                Err(errno) => return Err(errno),
            }
        }
    }

    /// Sends replies. Returns false where the client has to take some before more are sent.
    fn send(&mut self) -> Result<bool, Errno> {
        let replies = &mut self.session.replies.bytes;
        while self.sent < replies.len() {
            match send(&self.socket, &replies[self.sent..], SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(more) => (self.sent, self.taken) = (self.sent + more, self.taken + more),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(false),
                Err(errno) => return Err(errno),
            }
        }
        replies.clear();
        self.sent = 0;
        Ok(true)
    }

    /// Counts the memory and the time that the connection takes.
    fn within_bounds(&mut self, after: After) -> After {
        let owed = self.session.replies.bytes.len() - self.sent;
        if !self.owed.set(self.session.replies.bytes.len()) {
            tracing::warn!(
                "client {}: replies that clients do not take fill the memory for them; it is disconnected",
                self.session.id
            );
            return After::Ends;
        }
        let is_within = self.held.set(self.incoming.held());
        if !is_within && owed == 0 {
            self.end_with("ERR the service has no memory for more long commands now; try again");
            return After::GoesOn;
        }
        if owed == 0 {
            self.reply_since = None;
        } else if self.reply_since.is_none() || self.taken >= Session::LONG {
            (self.reply_since, self.taken) = (Some(Instant::now()), 0);
        }
        let has_begun = after == After::Waits && owed == 0 && self.incoming.len() > 0;
        self.command_since = if has_begun { self.command_since.or_else(|| Some(Instant::now())) } else { None };
        after
    }

    /// True if the client has to do something in time.
    pub fn has_deadline(&self) -> bool {
        !self.session.is_known || self.command_since.is_some() || self.reply_since.is_some()
    }

    /// True if the client did not do it.
    pub fn is_late(&self, now: Instant) -> bool {
        let is_over = |since: Option<Instant>, time| since.is_some_and(|since| now.saturating_duration_since(since) >= time);
        let reply = if self.session.shared.owed.is_short() { REPLY_SHORT } else { REPLY };
        if is_over(self.reply_since, reply) {
            let bytes = self.session.replies.bytes.len() - self.sent;
            tracing::warn!("client {} does not take {bytes} bytes of replies; it is disconnected", self.session.id);
            return true;
        }
        let command = if self.session.is_known { COMMAND } else { PROOF };
        is_over(self.command_since, command) || !self.session.is_known && is_over(Some(self.since), PROOF)
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.session.shared.connected.fetch_sub(1, Ordering::Relaxed);
    }
}
