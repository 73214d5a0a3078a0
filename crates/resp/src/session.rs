//! A connection: commands as they come, and their replies.

use crate::reply::Replies;
use crate::shared::{Connection, Shared};
use hanare_dict::Store;
use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

/// Time for a client to take its replies.
const REPLY: Duration = Duration::from_secs(60);

/// A connection, with what its client said of it.
pub struct Session<'s> {
    pub shared: &'s Shared,
    pub store: Store,
    pub replies: Replies,
    /// True for a client that proved who it is, or need not.
    pub is_known: bool,
    /// True after the client's last command.
    pub is_over: bool,
    pub id: u64,
    pub name: Vec<u8>,
    pub connection: &'s mut dyn Connection,
    /// The connection's end, found while replies were sent within a command.
    pub broken: Option<io::Error>,
}

impl<'s> Session<'s> {
    /// Bytes of replies from which they are sent before the next command.
    pub const LONG: usize = 64 << 10;

    pub fn new(shared: &'s Shared, id: u64, connection: &'s mut dyn Connection) -> Session<'s> {
        Session {
            shared,
            store: shared.store.clone(),
            replies: Replies::default(),
            is_known: shared.secret.is_none(),
            is_over: false,
            id,
            name: Vec::new(),
            connection,
            broken: None,
        }
    }

    /// Sends replies, where they are long. An error ends the connection after the command.
    pub fn flush_some(&mut self) {
        if self.replies.bytes.len() >= Session::LONG
            && self.broken.is_none()
            && let Err(error) = self.flush()
        {
            self.broken = Some(error);
        }
    }

    /// Sends the replies. **Errors**: [`ErrorKind::TimedOut`] for a client that does not take them.
    pub fn flush(&mut self) -> io::Result<()> {
        let (until, mut sent) = (Instant::now() + REPLY, 0);
        while sent < self.replies.bytes.len() {
            self.connection.set_write_timeout(time_left(Some(until))?)?;
            match self.connection.write(&self.replies.bytes[sent..]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(more) => sent += more,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.replies.bytes.clear();
        self.replies.bytes.shrink_to(Session::LONG);
        Ok(())
    }
}

/// Time until a moment. **Errors**: [`ErrorKind::TimedOut`] where it has passed.
pub fn time_left(until: Option<Instant>) -> io::Result<Option<Duration>> {
    let Some(until) = until else { return Ok(None) };
    match until.checked_duration_since(Instant::now()) {
        Some(left) if !left.is_zero() => Ok(Some(left)),
        _ => Err(ErrorKind::TimedOut.into()),
    }
}
