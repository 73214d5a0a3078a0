//! How parts of vectors go from party to party.
//!
//! ```text
//! party 0: region on its host  [ roster | queue: a lane from each other party ]
//! party 1: region on its host  [        | queue                               ]   ...
//! ```
//!
//! A part is a record in the lane of who sends it, behind a note. On one host that is a store into shared memory; between hosts
//! parts for one party go in one `append`. The reader takes each party's parts in their order and folds them from where they lie.
//!
//! A party that waits for another for long looks whether that one still reads its own queue. Who finds that it does not tells all.

use super::failure::{Failure, Outcome};
use super::{Group, GroupKind};
use crate::client::pool::{CreateOptions, Pool};
use crate::client::queue::{ReadPort, Unread, WritePort};
use crate::client::region::Region;
use hanare_protocol::collective::note::{NOTE_LEN, Note, NoteKind};
use hanare_protocol::collective::{Collective, Fold, Hosts, Plan, Source};
use hanare_protocol::element::{Element, Operator, fold};
use hanare_protocol::id::{ClientId, Rank};
use hanare_protocol::limits::{
    COLLECTIVE_FEW_COUNT, COLLECTIVE_LEN_MAX, COLLECTIVE_LEN_OF_MANY, COLLECTIVE_PARTY_COUNT_MAX, DEATH_LOOK_MS,
};
use hanare_protocol::queue::layout::{LINE_LEN, Overflow, QueueForm, READER_AT, Unit};
use hanare_protocol::{Error, Result};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The exchange of a group, made by its first operation.
#[derive(Default)]
pub(crate) struct ExchangeOf(Mutex<Option<Exchange>>);

/// How long a party waits for another before it looks whether that one is there.
const LOOK: Duration = Duration::from_millis(DEATH_LOOK_MS);

/// In a party's region: the roster, and in an entry of it the node and the client. The queue follows.
const ENTRY_LEN: u64 = 16;

/// The state of a queue's reader that lives.
const READS: u64 = 1;
/// And of one that has died.
const BROKEN: u64 = 2;

/// An operation and its vectors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    pub collective: Collective,
    /// What folds do; of operations that fold, nothing else is looked at.
    pub element: Element,
    pub operator: Operator,
    /// Bytes of the vector, or of one block.
    pub len: usize,
    /// The same at all parties.
    pub digest: u64,
}

/// A party's memory. A buffer of one block is a part's own; others have the blocks of all parties.
pub(crate) struct Buffers<'a> {
    /// What is sent; what is received where there is none.
    pub from: Option<&'a [u8]>,
    pub into: &'a mut [u8],
}

/// A region that goes with its owner.
struct OwnRegion {
    pool: Pool,
    name: String,
}

impl Drop for OwnRegion {
    fn drop(&mut self) {
        // Where the pool is gone, so is the region.
        let _ = self.pool.remove(&self.name);
    }
}

struct Peer {
    region: Region,
    writer: Option<WritePort>,
}

/// What a party has at hand of its group. Left in order when dropped.
struct Exchange {
    /// Given back before the region goes, in this order.
    peers: Vec<Option<Peer>>,
    reader: ReadPort,
    region: OwnRegion,
    /// The group's regions have this before their parties' numbers.
    stem: String,
    group: String,
    is_job: bool,
    me: u32,
    form: QueueForm,
    hosts: Hosts,
    clients: Vec<ClientId>,
    /// What came of each party and was not taken.
    arrived: Vec<VecDeque<(Unread, Note)>>,
    /// Who writes each lane, of those that wrote.
    writers: Vec<Option<u32>>,
    /// What was seen of each lane and not freed, and whether it was taken: a lane of a party that left is another's next, and parties' parts
    /// are taken in an order of their own.
    seen: Vec<VecDeque<(Unread, bool)>>,
    operations: u64,
    plan: Option<(Collective, Arc<Plan>)>,
    failed: Option<Error>,
    spare: [Vec<u8>; 2],
}

impl ExchangeOf {
    /// Does an operation with all parties.
    pub fn run(&self, group: &Group, work: &Work, buffers: Buffers<'_>) -> Result<()> {
        let mut exchange = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if exchange.is_none() {
            *exchange = Some(Exchange::open(group)?);
        }
        let exchange = exchange.as_mut().expect("it was just made");
        if let Some(failed) = &exchange.failed {
            return Err(failed.clone());
        }
        match exchange.run(work, buffers) {
            Ok(()) => {
                exchange.operations += 1;
                Ok(())
            }
            Err(failure) => Err(exchange.fail(failure)),
        }
    }
}

/// Bytes of the longest part.
fn part_len_max(parties: u32) -> u32 {
    if parties <= COLLECTIVE_FEW_COUNT { COLLECTIVE_LEN_MAX } else { COLLECTIVE_LEN_OF_MANY }
}

fn roster_len(parties: u32) -> u64 {
    (u64::from(parties) * ENTRY_LEN).next_multiple_of(LINE_LEN)
}

/// A region of this party's, on its host. What one of that name left that died goes.
fn make_region(pool: &Pool, name: &str, len: u64) -> Result<(OwnRegion, Region)> {
    let create = || pool.create(name, len, &CreateOptions::default());
    let region = match create() {
        Err(Error::NameTaken { .. }) => {
            pool.remove(name)?;
            create()
        }
        other => other,
    }?;
    Ok((OwnRegion { pool: pool.clone(), name: name.to_owned() }, region))
}

impl Exchange {
    /// Meets the others three times: all have a queue; all are in the roster; all have read it.
    fn open(group: &Group) -> Result<Exchange> {
        let (pool, parties, me) = (&group.pool, group.parties, group.me);
        if parties > COLLECTIVE_PARTY_COUNT_MAX {
            let what = format!("{parties} parties of a group with collective operations");
            return Err(Error::LimitReached { what, limit: COLLECTIVE_PARTY_COUNT_MAX.into() });
        }
        let stem = match (group.kind, pool.shared.job) {
            (GroupKind::Named { sitting, .. }, _) => {
                format!(".group-{sitting}-{}.", group.name.chars().take(32).collect::<String>())
            }
            (GroupKind::Job, who) => format!(".job-{:032x}.", who.map_or(0, |who| who.job.0)),
        };
        let unit = Unit::Records { len_max: part_len_max(parties) + NOTE_LEN as u32 };
        let form = QueueForm { unit, depth: 3, ports: parties, overflow: Overflow::Wait };
        let queue_at = roster_len(parties);
        let (own, region) = make_region(pool, &format!("{stem}{me}"), queue_at + form.array_len(1)?)?;
        region.make_queues(queue_at, 1, &form)?;
        let reader = pool.open_queues(&own.name, queue_at)?.queue(0)?.reader()?;
        group.barrier()?;
        let first = pool.open(&format!("{stem}0"))?;
        first.put_values(u64::from(me) * ENTRY_LEN, &[u64::from(pool.node().0), pool.client().0])?;
        group.barrier()?;
        let mut roster = vec![[0u64; 2]; parties as usize];
        first.get_values(0, roster.as_flattened_mut())?;
        group.barrier()?;
        let nodes: Vec<u64> = roster.iter().map(|entry| entry[0]).collect();
        Ok(Exchange {
            peers: (0..parties).map(|_| None).collect(),
            reader,
            region: own,
            stem,
            group: group.name.clone(),
            is_job: group.kind == GroupKind::Job,
            me,
            form,
            hosts: Hosts::new(&nodes),
            clients: roster.iter().map(|entry| ClientId(entry[1])).collect(),
            arrived: (0..parties).map(|_| VecDeque::new()).collect(),
            writers: vec![None; parties as usize],
            seen: (0..parties).map(|_| VecDeque::new()).collect(),
            operations: 0,
            plan: None,
            failed: None,
            spare: [Vec::new(), Vec::new()],
        })
    }

    fn parties(&self) -> u32 {
        self.form.ports
    }

    fn plan(&mut self, collective: Collective) -> Arc<Plan> {
        match &self.plan {
            Some((of, plan)) if *of == collective => plan.clone(),
            _ => {
                let plan = Arc::new(Plan::new(collective, &self.hosts, self.me));
                self.plan = Some((collective, plan.clone()));
                plan
            }
        }
    }

    fn run(&mut self, work: &Work, buffers: Buffers<'_>) -> Outcome<()> {
        let plan = self.plan(work.collective);
        let pieces = Pieces::new(work, &plan, part_len_max(self.parties()));
        for piece in 0..pieces.count() {
            for step in &plan.steps {
                for (index, (to, part)) in step.sends.iter().enumerate() {
                    // What all-to-all calls a part is the receiver's to the sender, and the sender's to the receiver.
                    let name = if work.collective == Collective::AllToAll { self.me } else { *part };
                    let note = self.note(work, name, piece);
                    let from = buffers.from.unwrap_or(buffers.into);
                    let bytes = &from[pieces.range(*part, piece, from.len())];
                    let is_last = step.sends.get(index + 1).is_none_or(|(next, _)| next != to);
                    self.send(*to, &note, bytes, is_last)?;
                }
                for fold in &step.folds {
                    let range = pieces.range(fold.part, piece, buffers.into.len());
                    self.fold(fold, work, piece, &mut buffers.into[range])?;
                }
            }
        }
        Ok(())
    }

    fn note(&self, work: &Work, part: u32, piece: u32) -> Note {
        let Work { digest, .. } = *work;
        Note { from: self.me, part, piece, kind: NoteKind::Part, operation: self.operations, digest }
    }

    fn send(&mut self, to: u32, note: &Note, bytes: &[u8], is_last: bool) -> Outcome<()> {
        loop {
            let claimed = self.writer(to)?.claim(NOTE_LEN + bytes.len(), Some(LOOK));
            match claimed {
                Ok(()) => break,
                Err(Error::NotInTime { .. }) => {
                    let seen = self.look_at(to);
                    self.take_in()?;
                    seen?;
                }
                Err(error) => return Err(Failure::on_the_way(to, error)),
            }
        }
        let writer = self.writer(to)?;
        writer.fill(0, &note.encode());
        writer.fill(NOTE_LEN, bytes);
        writer.keep();
        if is_last { writer.publish().map_err(|error| Failure::on_the_way(to, error)) } else { Ok(()) }
    }

    /// The fold of what comes for a part, and of the part.
    fn fold(&mut self, what: &Fold, work: &Work, piece: u32, part: &mut [u8]) -> Outcome<()> {
        let note = self.note(work, what.part, piece);
        let (first, further) = what.sources.split_first().expect("a fold has a source");
        if let (Source::From(party), []) = (first, further) {
            return self.take(*party, &note, part);
        }
        let [mut sum, mut next] = std::mem::take(&mut self.spare);
        sum.resize(part.len(), 0);
        next.resize(part.len(), 0);
        match first {
            Source::Own => sum.copy_from_slice(part),
            Source::From(party) => self.take(*party, &note, &mut sum)?,
        }
        for source in further {
            match source {
                Source::Own => fold(work.operator, work.element, &mut sum, part),
                Source::From(party) => {
                    self.take(*party, &note, &mut next)?;
                    fold(work.operator, work.element, &mut sum, &next);
                }
            }
        }
        part.copy_from_slice(&sum);
        self.spare = [sum, next];
        Ok(())
    }

    /// Takes the part that comes next from a party, which is to be as the note says.
    fn take(&mut self, from: u32, like: &Note, into: &mut [u8]) -> Outcome<()> {
        let (unread, note) = self.next_from(from)?;
        let expected = Note { from, ..*like };
        if note != expected || unread.len() != NOTE_LEN + into.len() {
            let reason = format!(
                "party {from} called another operation than party {}, or with vectors of another length, kind or root: \
                 all parties call the same ones in the same order",
                self.me
            );
            return Err(Failure::unlike(reason));
        }
        self.reader.read(&unread, NOTE_LEN, into);
        Ok(self.free(&unread)?)
    }

    /// Frees a unit, as soon as those before it in its lane were taken.
    fn free(&mut self, unread: &Unread) -> Result<()> {
        let seen = &mut self.seen[unread.lane() as usize];
        if let Some((_, is_taken)) = seen.iter_mut().find(|(other, _)| other.offset() == unread.offset()) {
            *is_taken = true;
        }
        while let Some((taken, true)) = seen.front() {
            self.reader.free(taken)?;
            seen.pop_front();
        }
        Ok(())
    }

    fn next_from(&mut self, from: u32) -> Outcome<(Unread, Note)> {
        loop {
            if let Some(next) = self.arrived[from as usize].pop_front() {
                return Ok(next);
            }
            match self.reader.see(Some(LOOK)) {
                Ok(unread) => self.sort(unread)?,
                Err(Error::NotInTime { .. }) => {
                    let seen = self.look_at(from);
                    // What it sent before it went counts.
                    self.take_in()?;
                    if self.arrived[from as usize].is_empty() {
                        seen?;
                    }
                }
                Err(error) => return Err(self.lane_failed(error)),
            }
        }
    }

    /// Sorts what has come by parties.
    fn take_in(&mut self) -> Outcome<()> {
        loop {
            match self.reader.try_see() {
                Ok(Some(unread)) => self.sort(unread)?,
                Ok(None) => return Ok(()),
                Err(error) => return Err(self.lane_failed(error)),
            }
        }
    }

    fn lane_failed(&self, error: Error) -> Failure {
        let Error::WriterGone { lane, .. } = error else { return Failure::from(error) };
        match self.writers.get(lane as usize) {
            Some(Some(party)) => Failure::gone(*party, "its process or its connection ended"),
            _ => Failure::unlike("a party ended before it took part".to_owned()),
        }
    }

    fn sort(&mut self, unread: Unread) -> Outcome<()> {
        let mut bytes = [0; NOTE_LEN];
        if unread.len() >= NOTE_LEN {
            self.reader.read(&unread, 0, &mut bytes);
        }
        let note = Note::decode(&bytes, self.parties()).ok().filter(|_| unread.len() >= NOTE_LEN);
        let Some(note) = note else {
            return Err(Failure::unlike(format!("a program wrote into the region '{}'", self.region.name)));
        };
        let words = || {
            let mut words = vec![0; unread.len() - NOTE_LEN];
            self.reader.read(&unread, NOTE_LEN, &mut words);
            String::from_utf8_lossy(&words).into_owned()
        };
        match note.kind {
            NoteKind::Part => {
                self.writers[unread.lane() as usize] = Some(note.from);
                self.seen[unread.lane() as usize].push_back((unread, false));
                self.arrived[note.from as usize].push_back((unread, note));
                Ok(())
            }
            // These are never freed: nothing is done after them.
            NoteKind::Gone => Err(Failure::Gone { party: note.part, reason: words(), is_told: true }),
            NoteKind::Unlike => Err(Failure::Unlike { reason: words(), is_told: true }),
        }
    }

    /// Fails where a party is gone that is waited for.
    fn look_at(&mut self, party: u32) -> Outcome<()> {
        if self.is_job {
            self.region.pool.shared.check_deaths()?;
        }
        let at = roster_len(self.parties()) + self.form.queue_at(1, 0) + READER_AT;
        let mut state = [0u64];
        let seen = self.peer(party)?.region.get_values(at, &mut state);
        match (seen, state) {
            (Ok(()), [READS]) => Ok(()),
            (Ok(()), [BROKEN]) => Err(Failure::gone(party, "its process or its connection ended")),
            (Ok(()), _) => Err(Failure::gone(party, "it left")),
            (Err(error), _) => Err(Failure::on_the_way(party, error)),
        }
    }

    fn peer(&mut self, party: u32) -> Outcome<&mut Peer> {
        let peer = &mut self.peers[party as usize];
        if peer.is_none() {
            let region = self.region.pool.open(&format!("{}{party}", self.stem));
            let region = region.map_err(|error| Failure::on_the_way(party, error))?;
            *peer = Some(Peer { region, writer: None });
        }
        Ok(peer.as_mut().expect("it was just opened"))
    }

    fn writer(&mut self, to: u32) -> Outcome<&mut WritePort> {
        if self.peer(to)?.writer.is_none() {
            let (pool, name) = (&self.region.pool, format!("{}{to}", self.stem));
            let queue = pool.open_queues(&name, roster_len(self.parties())).and_then(|queues| queues.queue(0));
            let writer = queue.and_then(|queue| queue.writer()).map_err(|error| Failure::on_the_way(to, error))?;
            self.peer(to)?.writer = Some(writer);
        }
        Ok(self.peer(to)?.writer.as_mut().expect("it was just opened"))
    }

    /// Ends all further operations, and tells the others where they may not know.
    fn fail(&mut self, failure: Failure) -> Error {
        if let Some((kind, part, words)) = failure.news() {
            let note = Note { from: self.me, part, piece: 0, kind, operation: self.operations, digest: 0 };
            let mut words = words.into_bytes();
            words.truncate(part_len_max(self.parties()) as usize);
            let others = (0..self.parties()).filter(|party| *party != self.me && !(kind == NoteKind::Gone && *party == part));
            for party in others.collect::<Vec<_>>() {
                self.tell(party, &note, &words);
            }
        }
        let error = match failure {
            Failure::Gone { party, reason, .. } if self.is_job => Error::RankGone { rank: Rank(party), reason },
            Failure::Gone { party, reason, .. } => {
                Error::PartyGone { group: self.group.clone(), party: self.clients[party as usize], reason }
            }
            Failure::Unlike { reason, .. } => self.bad(reason),
            Failure::Own(error) => error,
        };
        self.failed = Some(error.clone());
        error
    }

    /// Tells one party, if it can be told. One that is gone is found out by those who wait for it.
    fn tell(&mut self, party: u32, note: &Note, words: &[u8]) {
        let told = self.writer(party).ok().and_then(|writer| {
            writer.claim(NOTE_LEN + words.len(), Some(LOOK)).ok()?;
            writer.fill(0, &note.encode());
            writer.fill(NOTE_LEN, words);
            writer.commit().ok()
        });
        if told.is_none() {
            tracing::debug!(party, "could not be told of its group's failure");
        }
    }

    fn bad(&self, reason: String) -> Error {
        Error::BadGroup { name: self.group.clone(), asked: self.parties(), parties: self.parties(), reason }
    }
}

/// How an operation's bytes are divided into pieces, which are done one after another, and those into parts.
struct Pieces {
    /// Bytes of the vector, or of a block.
    len: usize,
    /// Of a piece.
    piece_len: usize,
    /// Of vectors, which are divided into so many parts; blocks are parts.
    parts: Option<u32>,
    element_len: usize,
}

impl Pieces {
    fn new(work: &Work, plan: &Plan, part_len_max: u32) -> Pieces {
        let is_vector =
            matches!(work.collective, Collective::Broadcast { .. } | Collective::Reduce { .. } | Collective::AllReduce { .. });
        let most = part_len_max as usize;
        // A lane has room for three of the longest records, less what is left empty at its end.
        let together = if is_vector { most } else { (2 * most / plan.burst as usize).saturating_sub(2 * NOTE_LEN) };
        let piece_len = (together.min(most) / 8 * 8).max(8);
        let parts = is_vector.then_some(plan.parts);
        Pieces { len: work.len, piece_len, parts, element_len: work.element.len() as usize }
    }

    fn count(&self) -> u32 {
        self.len.div_ceil(self.piece_len) as u32
    }

    /// A part of a piece, in a buffer of so many bytes.
    fn range(&self, part: u32, piece: u32, buffer_len: usize) -> Range<usize> {
        let begin = piece as usize * self.piece_len;
        let end = self.len.min(begin + self.piece_len);
        match self.parts {
            Some(parts) => {
                let elements = (end - begin) / self.element_len;
                let at = |part: u32| begin + elements * part as usize / parts as usize * self.element_len;
                at(part)..at(part + 1)
            }
            None => {
                let base = if buffer_len == self.len { 0 } else { part as usize * self.len };
                base + begin..base + end
            }
        }
    }
}
