//! The log that all mounts of a file system share: what each adds, all apply, in one order.
//!
//! It lies in regions of the pool. `NAME@super` holds one word, the *head*: which log counts, and how long it is. `NAME@log.N` holds a
//! snapshot of the state and the frames of records since. A frame counts when the head, exchanged by compare-and-swap, covers it: a mount
//! that dies before has changed nothing, one that dies after has changed all. The lock `NAME@log` keeps mounts from trying at once.

use super::parts::Parts;
use super::record::Record;
use super::refusal::{Result, refused};
use super::tree::Tree;
use hanare::{CreateOptions, Error, NodeId, Operator, Placement, Pool, Region};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

/// First bytes of a file system's first region.
const MAGIC: u64 = u64::from_le_bytes(*b"hanarefs");

/// Version of the log.
const VERSION: u64 = 1;

/// Where the head is in `NAME@super`.
const HEAD: u64 = 16;

/// Where the table begins in which mounts say how far they have come: a word for each.
const MARKS: u64 = 4096;

/// Length of `NAME@super`: long enough to be mapped by the mounts of its host, so that a look at the head is a load.
const SUPER_LEN: u64 = 64 << 10;

/// Bytes before the snapshot in a log: its length, and its checksum.
const LOG_HEAD_LEN: u64 = 16;

/// Bytes before a frame's records: their length, and their checksum.
const FRAME_HEAD_LEN: usize = 16;

/// Shortest log: some ten thousand changes.
const LOG_LEN_MIN: u64 = 1 << 20;

/// How often longer a log is than its snapshot: so much is written between two snapshots that they cost little beside it.
const LOG_GROWTH: u64 = 4;

/// Bits of the head that say how long the log is; those above say which log.
const TAIL_BITS: u32 = 40;

/// How long a mount waits for the others to make their changes.
const TURN_BOUND: Duration = Duration::from_secs(10);

/// How often a log is read again that was replaced meanwhile.
const READ_TRIES: u32 = 8;

/// Which log counts, and its length in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Head {
    log: u64,
    tail: u64,
}

impl Head {
    fn word(self) -> u64 {
        self.log << TAIL_BITS | self.tail
    }

    fn of(word: u64) -> Head {
        Head { log: word >> TAIL_BITS, tail: word & ((1 << TAIL_BITS) - 1) }
    }
}

/// What this mount knows.
pub struct View {
    /// The state.
    pub tree: Tree,
    head: Head,
    /// The log that counts.
    pub log: Arc<Region>,
}

/// The shared log, as one mount has it.
pub struct Ledger {
    pool: Pool,
    parts: Parts,
    front: Region,
    view: RwLock<View>,
    /// This mount's threads stand in one line before they stand in the pool's.
    turn: Mutex<()>,
}

impl Ledger {
    /// Opens a file system; makes it, empty, where it is not there.
    ///
    /// **Errors**: the pool's; [`Error::NotTrusted`] for a region of a user that the pool's handle does not trust; [`Error::BadUse`] where a region of
    /// that name is something else.
    pub fn open(pool: &Pool, name: &str, fresh: impl Fn() -> Tree) -> Result<Ledger, Error> {
        let turn = pool.lock_within(&format!("{name}@log"), TURN_BOUND)?;
        let options = CreateOptions { placement: Placement::Node(NodeId(0)), refuse_lost: true, ..CreateOptions::default() };
        let front_name = format!("{name}@super");
        let made = pool.create_or_attach(&front_name, SUPER_LEN, &options);
        // Where the pool's first node is not there, this host's keeps the log.
        let front = made.or_else(|error| match error {
            Error::NodeLost { .. } | Error::BadPlacement { .. } | Error::PoolFull { .. } => {
                pool.create_or_attach(&front_name, SUPER_LEN, &CreateOptions { placement: Placement::Local, ..options.clone() })
            }
            other => Err(other),
        })?;
        let parts = Parts::new(pool, name, &front);
        let mut first = [0u64; 3];
        front.get_values(0, &mut first)?;
        let other = |reason: &str| Error::BadUse { region: front_name.clone(), reason: reason.to_owned() };
        match first {
            // A mount that died while it made the file system left no head: it is made again.
            [_, _, 0] => {
                let at = front.layout().extents().next().map_or(pool.node(), |extent| extent.node);
                let head = write_log(&parts, 1, at, &fresh())?.0;
                front.put_values(0, &[MAGIC, VERSION])?;
                front.compare_and_swap_word(HEAD, 0, head.word())?;
            }
            [MAGIC, VERSION, _] => {}
            [MAGIC, _, _] => return Err(other("this file system is of another version; mount it with the hanare that made it")),
            _ => return Err(other("it holds no file system; give another --name")),
        }
        turn.unlock()?;
        let view = RwLock::new(load(&parts, &front)?);
        Ok(Ledger { pool: pool.clone(), parts, front, view, turn: Mutex::new(()) })
    }

    /// The file system's first region.
    pub fn front(&self) -> &Region {
        &self.front
    }

    /// The other regions.
    pub fn parts(&self) -> &Parts {
        &self.parts
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

    /// Makes a change: `decide` says which, from the newest state, while nobody else makes any. No records, no change.
    ///
    /// **Errors**: those of `decide`; the pool's.
    pub fn commit<T>(&self, mut decide: impl FnMut(&Tree) -> Result<(Vec<Record>, T)>) -> Result<T> {
        let what = "a change of files";
        let _alone = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let turn =
            self.pool.lock_within(&format!("{}@log", self.parts.name()), TURN_BOUND).map_err(|error| refused(what, &error))?;
        loop {
            self.catch_up()?;
            let (records, done) = decide(&self.known().tree)?;
            if records.is_empty() {
                return Ok(done);
            }
            let held = turn.check().and_then(|()| self.append(&records));
            match held.map_err(|error| refused(what, &error))? {
                true => return Ok(done),
                // Only a mount that was taken for lost can have come between.
                false => tracing::warn!("another mount made a change out of turn; this one is tried again"),
            }
        }
    }

    /// Writes a frame and moves the head over it; `false` where the head was moved by others.
    fn append(&self, records: &[Record]) -> Result<bool, Error> {
        let (mut before, mut log) = {
            let known = self.known();
            (known.head, known.log.clone())
        };
        let frame = frame(before.log, records);
        let mut head = Head { tail: before.tail + frame.len() as u64, ..before };
        let mut frame = frame;
        if head.tail > log.len() {
            let (known, at) = (self.known(), log.layout().extents().next().map_or(self.pool.node(), |extent| extent.node));
            let (fresh, region) = write_log(&self.parts, before.log + 1, at, &known.tree)?;
            drop(known);
            if self.front.compare_and_swap_word(HEAD, before.word(), fresh.word())? != before.word() {
                return Ok(false);
            }
            // Mounts that still read the old one find it gone, and look at the head again.
            let _ = self.parts.remove(&self.parts.log(before.log));
            (before, log) = (fresh, Arc::new(region));
            frame = self::frame(before.log, records);
            head = Head { tail: before.tail + frame.len() as u64, ..before };
            if head.tail > log.len() {
                return Err(Error::LimitReached { what: "bytes of one change of files".to_owned(), limit: log.len() });
            }
        }
        log.put(before.tail, &frame)?;
        if self.front.compare_and_swap_word(HEAD, before.word(), head.word())? != before.word() {
            return Ok(false);
        }
        let mut view = self.view.write().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have found the frame in the log, and applied it, since the head covers it.
        if view.head != head {
            view.tree.apply_frame(records);
            (view.head, view.log) = (head, log);
        }
        Ok(true)
    }

    /// Applies what others have added.
    fn catch_up(&self) -> Result<()> {
        self.try_catch_up().map_err(|error| refused("a look at the files", &error))
    }

    fn try_catch_up(&self) -> Result<(), Error> {
        let head = self.head()?;
        if self.known().head == head {
            return Ok(());
        }
        let mut view = self.view.write().unwrap_or_else(PoisonError::into_inner);
        let head = self.head()?;
        if view.head.log != head.log || !follow(&mut view, head)? {
            *view = load(&self.parts, &self.front)?;
        }
        Ok(())
    }

    fn head(&self) -> Result<Head, Error> {
        let mut word = [0u64];
        self.front.get_values(HEAD, &mut word)?;
        Ok(Head::of(word[0]))
    }

    /// Says how far this mount has come: nothing here uses what it knew before that position.
    pub fn mark(&self, slot: u32, position: u64) -> Result<()> {
        let at = MARKS + 8 * u64::from(slot);
        let before = self.front.fetch_word(at, Operator::Swap, position);
        before.map(drop).map_err(|error| refused("a mark of files", &error))
    }

    /// How far the mount has come that is slowest.
    pub fn slowest(&self) -> Result<u64> {
        let mut marks = vec![0u64; super::tree::SESSION_COUNT_MAX as usize];
        self.front.get_values(MARKS, &mut marks).map_err(|error| refused("the marks of files", &error))?;
        let known = self.known();
        let slots = known.tree.sessions.values().map(|session| marks[session.slot as usize]);
        Ok(slots.min().unwrap_or(0))
    }
}

/// Makes a log that begins with a snapshot.
fn write_log(parts: &Parts, log: u64, at: NodeId, tree: &Tree) -> Result<(Head, Region), Error> {
    let snapshot = postcard::to_stdvec(tree).map_err(|error| garbage(parts, &error.to_string()))?;
    let tail = (LOG_HEAD_LEN + snapshot.len() as u64).next_multiple_of(8);
    let len = (tail * LOG_GROWTH).max(LOG_LEN_MIN);
    let name = parts.log(log);
    let region = match parts.create(&name, len, Placement::Node(at)) {
        Err(Error::NameTaken { .. }) => {
            // A mount died before its log counted.
            parts.remove(&name)?;
            parts.create(&name, len, Placement::Node(at))
        }
        made => made,
    }?;
    region.put_values(0, &[snapshot.len() as u64, sum(log, &snapshot)])?;
    region.put(LOG_HEAD_LEN, &snapshot)?;
    Ok((Head { log, tail }, region))
}

/// Reads the log that counts.
fn load(parts: &Parts, front: &Region) -> Result<View, Error> {
    let mut tries = 0;
    loop {
        let mut word = [0u64];
        front.get_values(HEAD, &mut word)?;
        match load_log(parts, Head::of(word[0])) {
            // It was replaced meanwhile.
            Err(Error::UnknownRegion { .. } | Error::GrantRefused { .. } | Error::Garbage { .. }) if tries < READ_TRIES => {
                tries += 1
            }
            loaded => return loaded,
        }
    }
}

fn load_log(parts: &Parts, head: Head) -> Result<View, Error> {
    let log = Arc::new(parts.open(&parts.log(head.log))?);
    let mut first = [0u64; 2];
    log.get_values(0, &mut first)?;
    let [len, expected] = first;
    let begin = LOG_HEAD_LEN.checked_add(len).and_then(|end| end.checked_next_multiple_of(8)).filter(|begin| *begin <= head.tail);
    let begin = begin.filter(|_| head.tail <= log.len()).ok_or_else(|| garbage(parts, "a log's lengths do not fit"))?;
    let mut snapshot = vec![0; len as usize];
    log.get(LOG_HEAD_LEN, &mut snapshot)?;
    if sum(head.log, &snapshot) != expected {
        return Err(garbage(parts, "a snapshot's checksum is wrong"));
    }
    let tree: Tree = postcard::from_bytes(&snapshot).map_err(|error| garbage(parts, &error.to_string()))?;
    tree.check().map_err(|why| garbage(parts, &format!("a snapshot of which {why}")))?;
    let mut view = View { tree, head: Head { tail: begin, ..head }, log };
    if follow(&mut view, head)? { Ok(view) } else { Err(garbage(parts, "a frame's checksum is wrong")) }
}

/// Applies the frames up to a head of the same log; `false` where they are not what was written, as in a log that was replaced.
fn follow(view: &mut View, head: Head) -> Result<bool, Error> {
    if head.tail < view.head.tail || head.tail > view.log.len() {
        return Ok(false);
    }
    let mut bytes = vec![0; (head.tail - view.head.tail) as usize];
    match view.log.get(view.head.tail, &mut bytes) {
        Err(Error::UnknownRegion { .. } | Error::GrantRefused { .. }) => return Ok(false),
        got => got?,
    }
    let mut rest = bytes.as_slice();
    while !rest.is_empty() {
        let Some((records, len)) = unframe(head.log, rest) else { return Ok(false) };
        view.tree.apply_frame(&records);
        view.head.tail += len as u64;
        rest = &rest[len..];
    }
    Ok(true)
}

/// Records as they lie in the log.
fn frame(log: u64, records: &[Record]) -> Vec<u8> {
    let body = postcard::to_stdvec(records).unwrap_or_else(|error| unreachable!("memory takes any record: {error}"));
    let mut frame = Vec::with_capacity(FRAME_HEAD_LEN + body.len() + 8);
    frame.extend((body.len() as u64).to_le_bytes());
    frame.extend(sum(log, &body).to_le_bytes());
    frame.extend(&body);
    frame.resize(frame.len().next_multiple_of(8), 0);
    frame
}

/// The first frame of some bytes, and its length there.
fn unframe(log: u64, bytes: &[u8]) -> Option<(Vec<Record>, usize)> {
    let (head, rest) = bytes.split_at_checked(FRAME_HEAD_LEN)?;
    let word = |at: usize| head[at..at + 8].try_into().map(u64::from_le_bytes).ok();
    let len = usize::try_from(word(0)?).ok()?;
    let body = rest.get(..len)?;
    (sum(log, body) == word(8)?).then_some(())?;
    let end = FRAME_HEAD_LEN.checked_add(len)?.checked_next_multiple_of(8)?;
    (end <= bytes.len()).then_some((postcard::from_bytes(body).ok()?, end))
}

/// A checksum that differs between logs, so that bytes of an old one never pass.
fn sum(log: u64, bytes: &[u8]) -> u64 {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&log.to_le_bytes());
    hasher.update(bytes);
    u64::from_le_bytes(hasher.finalize().as_bytes()[..8].try_into().unwrap_or_default())
}

fn garbage(parts: &Parts, reason: &str) -> Error {
    Error::Garbage { peer: format!("the log of file system '{}'", parts.name()), reason: reason.to_owned() }
}

/// What a log holds, as any program that may write its region could have it: a byte that says whether a snapshot comes first, and then
/// the snapshot and bodies of frames, each behind two bytes of its length. Whatever comes, the state stays whole.
#[cfg(any(test, fuzzing))]
pub(crate) fn fuzz_log(bytes: &[u8]) {
    if let Some((_, len)) = unframe(1, bytes) {
        assert!(len <= bytes.len() && len.is_multiple_of(8));
    }
    let Some((first, mut rest)) = bytes.split_first() else { return };
    let mut parts = std::iter::from_fn(|| {
        let ([low, high], more) = rest.split_first_chunk()?;
        let (part, more) = more.split_at(usize::from(u16::from_le_bytes([*low, *high])).min(more.len()));
        rest = more;
        Some(part)
    });
    let mut tree = match first & 1 {
        0 => Tree::new(0, 0, 0o755, super::Stamp::default()),
        _ => match parts.next().map(postcard::from_bytes::<Tree>) {
            Some(Ok(tree)) if tree.check().is_ok() => tree,
            _ => return,
        },
    };
    for part in parts.take(64) {
        let Ok(records) = postcard::from_bytes::<Vec<Record>>(part) else { continue };
        let framed = frame(7, &records);
        assert_eq!(unframe(7, &framed), Some((records.clone(), framed.len())));
        tree.apply_frame(&records);
        assert_eq!(tree.check(), Ok(()), "{records:?}");
    }
    let again = postcard::to_stdvec(&tree).map(|bytes| postcard::from_bytes::<Tree>(&bytes));
    assert_eq!(again, Ok(Ok(tree)));
}

/// Logs that [`fuzz_log`] begins with: each kind of record, and a snapshot of what they build.
#[cfg(test)]
pub(crate) fn fuzz_seeds() -> Vec<Vec<u8>> {
    use super::record::{Attributes, Claim, Fresh, ROOT};
    use super::space::Run;
    let time = super::Stamp::default();
    let make = |name: &[u8], what| Record::Make { parent: ROOT, name: name.to_vec(), what, mode: 0o644, uid: 1, gid: 1, time };
    let run = |block, count| Run { segment: 0, block, count };
    let claim = Claim { session: 7, owner: 1, pid: 2, start: 3, end: 9, exclusive: true };
    let set = Attributes { size: Some(5000), mode: Some(0o600), ..Attributes::default() };
    let (name, new_name, value) = (b"a".to_vec(), b"b".to_vec(), Some(b"v".to_vec()));
    let frames = [
        vec![Record::Start { session: 7 }, Record::Segment { key: "node=0".to_owned(), blocks: 64 }],
        vec![make(b"a", Fresh::File), make(b"f", Fresh::Folder), make(b"l", Fresh::Link { target: b"a".to_vec() })],
        vec![Record::Reserve { session: 7, runs: vec![run(0, 8)] }, Record::Hold { session: 7, ino: 2 }],
        vec![Record::Write { session: 7, ino: 2, size: 9000, time, runs: vec![(0, run(0, 2)), (4, run(2, 1))] }],
        vec![Record::Set { ino: 2, set, time }, Record::Punch { ino: 2, from: 0, to: 1, time }],
        vec![Record::Xattr { ino: 2, name: name.clone(), value, time }, Record::Lock { ino: 2, claim }],
        vec![Record::Link { ino: 2, parent: 3, name: name.clone(), time }, Record::Unlock { ino: 2, claim }],
        vec![Record::Rename { parent: ROOT, name: name.clone(), new_parent: 3, new_name, exchange: false, time }],
        vec![Record::Unlink { parent: 3, name, time }, Record::Return { session: 7, runs: vec![run(5, 2)] }],
        vec![Record::Release { session: 7, ino: 2 }, Record::Reclaim { upto: 9 }, Record::DropSegment { segment: 0 }],
        vec![Record::End { session: 7 }, Record::Reclaim { upto: 99 }],
    ];
    let part = |bytes: Vec<u8>| [&(bytes.len() as u16).to_le_bytes()[..], &bytes].concat();
    let body = |records: &Vec<Record>| part(postcard::to_stdvec(records).expect("memory takes any record"));
    let mut tree = Tree::new(0, 0, 0o755, time);
    frames[..6].iter().for_each(|records| tree.apply_frame(records));
    let snapshot = part(postcard::to_stdvec(&tree).expect("memory takes any state"));
    let all: Vec<u8> = frames.iter().flat_map(body).collect();
    let rest: Vec<u8> = frames[6..].iter().flat_map(body).collect();
    vec![[&[0][..], &all].concat(), [&[1][..], &snapshot, &rest].concat(), frame(1, &frames[0])]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_comes_back_and_a_torn_one_does_not() {
        let records = [Record::Start { session: 7 }, Record::Reclaim { upto: 9 }];
        let bytes = frame(3, &records);
        assert_eq!(unframe(3, &bytes), Some((records.to_vec(), bytes.len())));
        assert_eq!(unframe(4, &bytes), None, "of another log");
        for at in 0..FRAME_HEAD_LEN + 3 {
            let mut torn = bytes.clone();
            torn[at] ^= 1;
            assert_eq!(unframe(3, &torn), None, "byte {at}");
            assert_eq!(unframe(3, &bytes[..at]), None, "cut at {at}");
        }
    }
}
