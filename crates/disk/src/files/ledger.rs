//! The log that all mounts of a file system share. All apply the records of all, in one order.
//!
//! The ledger lies in regions of the pool. `NAME@super` holds one word, the *head*: the number of the log that counts, and its length.
//! `NAME@STEM.log.N` holds a snapshot of the state and the frames of records since. A frame counts when the head, exchanged by
//! compare-and-swap, covers it. A mount that dies before has changed nothing, a mount that dies after has changed all. [`super::turn`]
//! keeps mounts from trying at once.

use super::log::{Head, View, follow, frame, load_log};
use super::parts::Parts;
use super::record::Record;
use super::refusal::{Result, refused};
use super::tree::Tree;
use super::turn::{Turn, TurnOutcome, Turns};
use hanare::{CreateOptions, Error, NodeId, Operator, Placement, Pool, Region};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};

/// First bytes of a file system's first region.
const MAGIC: u64 = u64::from_le_bytes(*b"hanarefs");

/// Version of the log.
const VERSION: u64 = 2;

/// Offset of the number that is part of all other regions' names.
const STEM: u64 = 24;

/// Offset of the table of mounts' progress: a word for each.
const MARKS: u64 = 4096;

/// Length of `NAME@super`: long enough that the mounts of its host can map it. So a look at the head is a load.
const SUPER_LEN: u64 = 64 << 10;

/// Most tries to read a log that others replace meanwhile.
const READ_TRIES: u32 = 8;

/// One mount's view of the shared log.
pub struct Ledger {
    turns: Turns,
    view: RwLock<View>,
    /// The mount's threads stand in one line before they stand in the pool's.
    line: Mutex<()>,
}

impl Ledger {
    /// Opens a file system; makes it, empty, where it is not there.
    ///
    /// **Errors**: the pool's. [`Error::NotTrusted`] for a region of a user that the pool's handle does not trust. [`Error::BadUse`] if a
    /// region of that name is something else, or has another number of copies.
    pub fn open(pool: &Pool, name: &str, copies: Option<u8>, fresh: impl Fn() -> Tree) -> Result<Ledger, Error> {
        let front = open_front(pool, &format!("{name}@super"), copies)?;
        let (is_made, front_name) = (front.created(), front.name().to_owned());
        // A failure leaves no region.
        Ledger::begin(pool, name, front, fresh).inspect_err(|_| {
            if is_made {
                let _ = pool.remove(&front_name);
            }
        })
    }

    fn begin(pool: &Pool, name: &str, front: Region, fresh: impl Fn() -> Tree) -> Result<Ledger, Error> {
        // The first mount draws it; the others take what is there.
        let drawn = draw()?;
        let stem = match front.compare_and_swap_word(STEM, 0, drawn)? {
            0 => drawn,
            there => there,
        };
        let turns = Turns { pool: pool.clone(), parts: Parts::new(pool, name, stem, &front), front };
        // A mount that died while it made the file system left no head: it is made again.
        loop {
            let before = turns.head()?;
            if before.word() != 0 {
                break;
            }
            if let Some(turn) = turns.take_next(before)? {
                let at = turns.front.layout().extents().next().map_or(pool.node(), |extent| extent.node);
                turns.front.put_values(0, &[MAGIC, VERSION])?;
                turns.begin_log(&turn, before, at, &fresh())?;
            }
        }
        let view = RwLock::new(load(&turns)?);
        Ok(Ledger { turns, view, line: Mutex::new(()) })
    }

    /// Removes a file system that [`Ledger::open`] made here, unless others are its mounts, or something is in it.
    pub fn remove_unused(&self) -> Result<()> {
        let is_unused = |tree: &Tree| tree.sessions.is_empty() && tree.count() == 1;
        if !self.turns.front.created() || !self.commit(|tree| Ok((Vec::new(), is_unused(tree))))? {
            return Ok(());
        }
        let what = "a file system that nobody uses";
        let removed =
            self.turns.pool.remove(self.turns.front.name()).and_then(|()| self.turns.parts.remove(self.known().log.name()));
        removed.map_err(|error| refused(what, &error))
    }

    /// The file system's first region.
    pub fn front(&self) -> &Region {
        &self.turns.front
    }

    /// The other regions.
    pub fn parts(&self) -> &Parts {
        &self.turns.parts
    }

    /// The state, as the newest change of any mount left it. **Cost**: a load where the head is on this host, else a message each way.
    pub fn view(&self) -> Result<RwLockReadGuard<'_, View>> {
        self.catch_up()?;
        Ok(self.known())
    }

    /// The state as far as it is known here.
    pub fn known(&self) -> RwLockReadGuard<'_, View> {
        self.view.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the change that `decide` returns for the newest state, while nobody else makes any. No records are no change. `decide` is
    /// called again where the change fails, so it must have no effects of its own.
    ///
    /// **Errors**: those of `decide`; the pool's.
    pub fn commit<T>(&self, mut decide: impl FnMut(&Tree) -> Result<(Vec<Record>, T)>) -> Result<T> {
        let what = "a change of files";
        let _alone = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let Some(mut turn) = self.take_turn().map_err(|error| refused(what, &error))? else { continue };
            self.catch_up()?;
            if self.known().head.log != turn.log {
                continue;
            }
            let (records, done) = decide(&self.known().tree)?;
            if records.is_empty() {
                return Ok(done);
            }
            let held = turn.check().and_then(|()| self.append(&mut turn, &records));
            match held {
                Ok(true) => return Ok(done),
                // The mount did not move for a while, or its turn was lost.
                Ok(false) => tracing::warn!("another mount made a change out of turn; this one is tried again"),
                // Another node is the pool's home of names now, and the head has not moved.
                Err(Error::LockLost { .. }) => {}
                Err(error) => return Err(refused(what, &error)),
            }
        }
    }

    /// Waits for this mount's turn, or takes it from a mount that stopped. `None`: try again.
    fn take_turn(&self) -> Result<Option<Turn>, Error> {
        match self.turns.take()? {
            TurnOutcome::Turn(turn) => Ok(Some(turn)),
            TurnOutcome::Stopped(at) => {
                self.try_catch_up()?;
                let turn = self.replace(at)?;
                if turn.is_some() {
                    self.turns.say_who_stopped(at.log);
                }
                Ok(turn)
            }
        }
    }

    /// Replaces the log by one that begins with the state that is known here. `None` if that is not the state of this head any more.
    fn replace(&self, before: Head) -> Result<Option<Turn>, Error> {
        let Some(turn) = self.turns.take_next(before)? else { return Ok(None) };
        let begun = {
            let known = self.known();
            let at = known.log.layout().extents().next().map_or(self.turns.pool.node(), |extent| extent.node);
            if known.head == before { self.turns.begin_log(&turn, before, at, &known.tree)? } else { None }
        };
        let Some((head, log)) = begun else { return Ok(None) };
        let mut view = self.view.write().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have read the new log.
        if view.head == before {
            (view.head, view.log) = (head, Arc::new(log));
        }
        Ok(Some(turn))
    }

    /// Writes a frame and moves the head over it; `false` where the head was moved by others. A log that is full is replaced, and the turn
    /// with it.
    fn append(&self, turn: &mut Turn, records: &[Record]) -> Result<bool, Error> {
        for is_again in [false, true] {
            let (before, log) = {
                let known = self.known();
                (known.head, known.log.clone())
            };
            if before.log != turn.log {
                return Ok(false);
            }
            let frame = frame(before.log, records);
            let head = Head { tail: before.tail + frame.len() as u64, ..before };
            if head.tail > log.len() && is_again {
                return Err(Error::LimitReached { what: "bytes of one change of files".to_owned(), limit: log.len() });
            }
            if head.tail <= log.len() {
                return self.put_frame(&log, before, head, &frame, records);
            }
            match self.replace(before)? {
                Some(next) => *turn = next,
                None => return Ok(false),
            }
        }
        Ok(false)
    }

    fn put_frame(&self, log: &Arc<Region>, before: Head, head: Head, frame: &[u8], records: &[Record]) -> Result<bool, Error> {
        let put = log.put(before.tail, frame);
        if put.is_err() && self.turns.head()? != before {
            return Ok(false);
        }
        put?;
        if !self.turns.exchange(before, head)? {
            return Ok(false);
        }
        let mut view = self.view.write().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have found the frame in the log, and applied it, because the head covers it.
        if view.head == before {
            view.tree.apply_frame(records);
            (view.head, view.log) = (head, log.clone());
        }
        Ok(true)
    }

    /// Applies records that others have added.
    fn catch_up(&self) -> Result<()> {
        self.try_catch_up().map_err(|error| refused("a look at the files", &error))
    }

    fn try_catch_up(&self) -> Result<(), Error> {
        let head = self.turns.head()?;
        if self.known().head == head {
            return Ok(());
        }
        let mut view = self.view.write().unwrap_or_else(PoisonError::into_inner);
        let head = self.turns.head()?;
        if view.head.log != head.log || !follow(&mut view, head)? {
            *view = load(&self.turns)?;
        }
        Ok(())
    }

    /// Publishes this mount's position: no call here uses an earlier state any more.
    pub fn mark(&self, slot: u32, position: u64) -> Result<()> {
        let at = MARKS + 8 * u64::from(slot);
        let before = self.turns.front.fetch_word(at, Operator::Swap, position);
        before.map(drop).map_err(|error| refused("a mark of files", &error))
    }

    /// Position of the slowest mount.
    pub fn slowest(&self) -> Result<u64> {
        let mut marks = vec![0u64; super::tree::SESSION_COUNT_MAX as usize];
        self.turns.front.get_values(MARKS, &mut marks).map_err(|error| refused("the marks of files", &error))?;
        let known = self.known();
        let slots = known.tree.sessions.values().map(|session| marks[session.slot as usize]);
        Ok(slots.min().unwrap_or(0))
    }
}

/// Opens the first region of a file system, or makes it.
fn open_front(pool: &Pool, name: &str, copies: Option<u8>) -> Result<Region, Error> {
    let placement = Placement::Node(NodeId(0));
    let options = CreateOptions { placement, copies: copies.unwrap_or(1), refuse_lost: true, ..CreateOptions::default() };
    let made = pool.create_or_attach(name, SUPER_LEN, &options);
    // The log goes to this host's node where the pool's first node is not there.
    let front = made.or_else(|error| match error {
        Error::NodeLost { .. } | Error::BadPlacement { .. } | Error::PoolFull { .. } => {
            pool.create_or_attach(name, SUPER_LEN, &CreateOptions { placement: Placement::Local, ..options.clone() })
        }
        other => Err(other),
    })?;
    let mut first = [0u64; 3];
    front.get_values(0, &mut first)?;
    let other = |reason: &str| Err(Error::BadUse { region: name.to_owned(), reason: reason.to_owned() });
    match first {
        _ if copies.is_some_and(|copies| copies != front.copies()) => {
            let there = front.copies();
            let reason =
                format!("{there} of the nodes hold each byte of this file system; leave --copies out, or give another --name");
            Err(Error::BadUse { region: name.to_owned(), reason })
        }
        [0, 0, 0] | [MAGIC, VERSION, _] => Ok(front),
        [MAGIC, _, _] => other("this file system is of another version; mount it with the hanare that made it"),
        _ => other("it holds no file system; give another --name"),
    }
}

/// A number above 0 that nobody can guess. **Errors**: [`Error::System`].
pub(super) fn draw() -> Result<u64, Error> {
    let mut bytes = [0; 8];
    let drawn = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    drawn.map_err(|error| Error::System { what: "draw a random number".to_owned(), reason: error.to_string() })?;
    Ok(u64::from_le_bytes(bytes).max(1))
}

/// Reads the log that counts.
fn load(turns: &Turns) -> Result<View, Error> {
    let mut tries = 0;
    loop {
        match load_log(&turns.parts, turns.head()?) {
            // The log was replaced meanwhile.
            Err(Error::UnknownRegion { .. } | Error::GrantRefused { .. } | Error::Garbage { .. }) if tries < READ_TRIES => {
                tries += 1
            }
            loaded => return loaded,
        }
    }
}
