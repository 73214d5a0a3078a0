//! Decides which mount may change a file system's log: the holder of the lock with the name of the log that counts.
//!
//! ```text
//! waits ──the lock of log N──> its turn
//!   └─ neither the lock nor a change for a while ──the lock of log N+1, or N+2, ...──> a snapshot as log N+1, the head exchanged ──> its
//!   turn
//! ```
//!
//! A mount that is stopped with the lock holds the others up no longer than that. When it goes on, its frame goes to a log that is removed.
//! Its exchange of the head fails. So it has changed nothing, and tries again.

use super::log::{HEAD, Head, LOGS, write_log};
use super::parts::Parts;
use super::tree::Tree;
use hanare::{ClientId, Error, LockGuard, NodeId, Pool, Region};
use std::time::{Duration, Instant};

/// Longest time for which a mount keeps its turn without a change.
const STALL: Duration = Duration::from_secs(5);

/// Longest wait for a turn while others make their changes.
const TURN_BOUND: Duration = Duration::from_secs(20);

/// Mounts in a row that may be stopped while they replace a log.
const REPLACE_TRIES: u64 = 3;

/// Longest search for a lock's holder.
const SEARCH: Duration = Duration::from_secs(2);

/// A turn to change the log.
pub struct Turn {
    /// The log that is this mount's to change.
    pub log: u64,
    lock: LockGuard,
}

impl Turn {
    /// **Errors**: [`Error::LockLost`] where others may have the turn by now.
    pub fn check(&self) -> Result<(), Error> {
        self.lock.check()
    }
}

/// Outcome of waiting for a turn.
pub enum TurnOutcome {
    /// The mount has it.
    Turn(Turn),
    /// Another mount has it, and has not moved the head from there for a while.
    Stopped(Head),
}

/// The regions and locks by which mounts agree.
pub struct Turns {
    pub pool: Pool,
    pub parts: Parts,
    /// `NAME@super`.
    pub front: Region,
}

impl Turns {
    /// The head: the log that counts, and its length.
    pub fn head(&self) -> Result<Head, Error> {
        let mut word = [0u64];
        self.front.get_values(HEAD, &mut word)?;
        Ok(Head::of(word[0]))
    }

    /// Moves the head; `false` where others did.
    pub fn exchange(&self, before: Head, after: Head) -> Result<bool, Error> {
        Ok(self.front.compare_and_swap_word(HEAD, before.word(), after.word())? == before.word())
    }

    /// Waits for a turn.
    ///
    /// **Errors**: the pool's; [`Error::NotInTime`] where others make one change after the other.
    pub fn take(&self) -> Result<TurnOutcome, Error> {
        let begun = Instant::now();
        loop {
            let seen = self.head()?;
            let error = match self.lock(seen.log)? {
                Ok(turn) => return Ok(TurnOutcome::Turn(turn)),
                Err(error) => error,
            };
            if self.head()? == seen {
                return Ok(TurnOutcome::Stopped(seen));
            }
            if begun.elapsed() > TURN_BOUND {
                return Err(error);
            }
        }
    }

    /// The turn at a log that will replace the one of this head; `None` where the head has moved.
    ///
    /// **Errors**: the pool's; [`Error::NotInTime`] where several mounts in a row stopped at this.
    pub fn take_next(&self, before: Head) -> Result<Option<Turn>, Error> {
        let mut last = None;
        if before.log >= LOGS {
            return Err(Error::LimitReached { what: "logs of a file system, one after the other".to_owned(), limit: LOGS });
        }
        for log in before.log + 1..=before.log + REPLACE_TRIES {
            match self.lock(log)? {
                Ok(turn) => return Ok((self.head()? == before).then_some(turn)),
                Err(error) => last = Some(error),
            }
        }
        Err(last.unwrap_or_else(|| unreachable!("it is tried at least once")))
    }

    /// Makes the log of a turn, which begins with this state, and moves the head to it. `None` if the head has moved.
    pub fn begin_log(&self, turn: &Turn, before: Head, at: NodeId, tree: &Tree) -> Result<Option<(Head, Region)>, Error> {
        let (fresh, region) = write_log(&self.parts, turn.log, at, tree)?;
        turn.check()?;
        if !self.exchange(before, fresh)? {
            let _ = self.parts.remove(&self.parts.log(turn.log));
            return Ok(None);
        }
        // Mounts that still read the old log find it gone, and look at the head again. Logs in between are of mounts that stopped.
        for old in before.log..turn.log {
            let _ = self.parts.remove(&self.parts.log(old));
        }
        Ok(Some((fresh, region)))
    }

    /// Takes the lock of a log. The inner error: others have it, or it is the lock of another user's mount.
    fn lock(&self, log: u64) -> Result<Result<Turn, Error>, Error> {
        let take = || self.pool.lock_within(&self.parts.log(log), STALL);
        // The first call after the loss of a turn only reports it.
        let taken = take().or_else(|error| if matches!(error, Error::LockLost { .. }) { take() } else { Err(error) });
        match taken {
            Ok(lock) => Ok(Ok(Turn { log, lock })),
            Err(error @ (Error::NotInTime { .. } | Error::NoPermission { .. })) => Ok(Err(error)),
            Err(error) => Err(error),
        }
    }

    /// Logs which program stopped with the lock of a log. A thread of its own asks the nodes, because some may not answer.
    pub fn say_who_stopped(&self, log: u64) {
        let (pool, name, lock) = (self.pool.clone(), self.parts.name().to_owned(), self.parts.log(log));
        let say = move || {
            let holder = holder(&pool, &lock).unwrap_or_else(|| "another mount".to_owned());
            tracing::warn!("{holder} had its turn at file system '{name}' and made no change for {STALL:?}; going on without it");
        };
        let _ = std::thread::Builder::new().name("holder".to_owned()).spawn(say);
    }
}

/// The holder of a lock, in words.
fn holder(pool: &Pool, name: &str) -> Option<String> {
    let begun = Instant::now();
    let (mut holder, mut programs) = (None::<ClientId>, Vec::new());
    for node in pool.status().ok()?.nodes.iter().filter(|node| node.alive) {
        let Ok(seen) = pool.look(node, &[], 0) else { continue };
        holder = holder.or_else(|| seen.locks.iter().find(|lock| lock.name == name)?.holders.first().copied());
        programs.extend(seen.programs.iter().map(|program| (program.client, program.process, node.node)));
        let found = programs.iter().find(|(client, ..)| Some(*client) == holder);
        if let Some((_, process, node)) = found {
            return Some(format!("process {process} on node {}", node.0));
        }
        if begun.elapsed() > SEARCH {
            break;
        }
    }
    holder.map(|client| format!("program {} of the pool", client.0))
}
