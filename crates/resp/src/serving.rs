//! The course of a connection: commands as they come, carried out in order, within bounds of time.

use crate::commands::carry_out;
use crate::request::{Fault, Incoming};
use crate::session::{Session, time_left};
use std::io::{self, ErrorKind};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Time for a client to prove who it is, and to end a command that has begun.
const PROOF: Duration = Duration::from_secs(10);
const COMMAND: Duration = Duration::from_secs(60);

/// Serves until the client leaves. **Errors**: those of the connection; [`ErrorKind::TimedOut`] for a client that is too slow.
pub fn serve(session: &mut Session<'_>) -> io::Result<()> {
    let mut incoming = Incoming::default();
    let mut held = session.shared.command_memory();
    let (begun, mut command_begun) = (Instant::now(), None);
    loop {
        if let Err(Fault(text)) = carry_out_all(session, &mut incoming)? {
            session.replies.error(&text);
            return session.flush();
        }
        session.flush()?;
        if session.is_over {
            return Ok(());
        }
        if !held.set(incoming.len()) {
            session.replies.error("ERR the service has no memory for more long commands now; try again");
            return session.flush();
        }
        let until = match incoming.len() {
            0 => {
                command_begun = None;
                (!session.is_known).then(|| begun + PROOF)
            }
            _ => Some(*command_begun.get_or_insert_with(Instant::now) + if session.is_known { COMMAND } else { PROOF }),
        };
        session.connection.set_read_timeout(time_left(until)?)?;
        match incoming.fill(|into| session.connection.read(into)) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Carries out the commands that have come. The inner error is a request that is none.
fn carry_out_all(session: &mut Session<'_>, incoming: &mut Incoming) -> io::Result<Result<(), Fault>> {
    while !session.is_over {
        match incoming.next(session.is_known) {
            Ok(Some(words)) => {
                session.shared.commands.fetch_add(1, Ordering::Relaxed);
                carry_out(session, &words);
            }
            Ok(None) => break,
            Err(fault) => return Ok(Err(fault)),
        }
        session.flush_some();
        if let Some(error) = session.broken.take() {
            return Err(error);
        }
    }
    Ok(Ok(()))
}
