//! A file system's log in its region: a snapshot of the state, and frames of records behind it.

use super::parts::Parts;
use super::record::Record;
use super::tree::Tree;
use hanare::{Error, NodeId, Placement, Region};
use std::sync::Arc;

/// Offset of the head in `NAME@super`.
pub const HEAD: u64 = 16;

/// Bytes before the snapshot in a log: its length, and its checksum.
const LOG_HEAD_LEN: u64 = 16;

/// Bytes before a frame's records: their length, and their checksum.
const FRAME_HEAD_LEN: usize = 16;

/// Shortest log: some ten thousand changes.
const LOG_LEN_MIN: u64 = 1 << 20;

/// Ratio of a log's length to its snapshot's: so snapshots cost little beside the records between them.
const LOG_GROWTH: u64 = 4;

/// Bits of the head that are the log's length; those above are the log's number.
const TAIL_BITS: u32 = 40;

/// Number of logs that a file system may have, one after the other. Some numbers are left for mounts that stop.
pub const LOGS: u64 = (1 << (u64::BITS - TAIL_BITS)) - 64;

/// The log that counts, and its length in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    pub log: u64,
    pub tail: u64,
}

impl Head {
    pub fn word(self) -> u64 {
        self.log << TAIL_BITS | self.tail
    }

    pub fn of(word: u64) -> Head {
        Head { log: word >> TAIL_BITS, tail: word & ((1 << TAIL_BITS) - 1) }
    }
}

/// A mount's view.
pub struct View {
    /// The state.
    pub tree: Tree,
    /// End of the applied part.
    pub head: Head,
    /// The log that counts.
    pub log: Arc<Region>,
}

/// Makes a log that begins with a snapshot. The caller has its lock.
pub fn write_log(parts: &Parts, log: u64, at: NodeId, tree: &Tree) -> Result<(Head, Region), Error> {
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
    let put =
        region.put_values(0, &[snapshot.len() as u64, sum(log, &snapshot)]).and_then(|()| region.put(LOG_HEAD_LEN, &snapshot));
    match put {
        Ok(()) => Ok((Head { log, tail }, region)),
        Err(error) => {
            let _ = parts.remove(&name);
            Err(error)
        }
    }
}

/// Reads a log up to a head. **Errors**: the pool's; [`Error::NotTrusted`]; [`Error::Garbage`].
pub fn load_log(parts: &Parts, head: Head) -> Result<View, Error> {
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

/// Applies the frames up to a head of the same log. `false` if the bytes are no frames, as in a log that was replaced.
pub fn follow(view: &mut View, head: Head) -> Result<bool, Error> {
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
pub fn frame(log: u64, records: &[Record]) -> Vec<u8> {
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

/// Reads a log whose region any program may have written; the state stays whole, whatever comes. The first byte tells whether a snapshot
/// comes first. Then come the snapshot and bodies of frames, each behind two bytes of its length.
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
        vec![
            Record::Start { session: 7 },
            Record::Number { session: 7 },
            Record::Segment { session: 7, segment: 0, key: "node=0".to_owned(), blocks: 64 },
        ],
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
