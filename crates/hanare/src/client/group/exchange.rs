//! Exchange of parts of vectors between parties.
//!
//! A part is a record in the lane of who sends it, behind a header. On one host that is a store into shared memory; between hosts
//! parts for one party go in one `append`, whose answer nobody waits for. The reader takes each party's parts in their order and folds them from
//! where they lie.
//!
//! A party that waits for another for long sees to it that its own parts have come, and looks whether that one is there. Who finds that it is not
//! tells all.

use super::Group;
use super::failure::{Failure, Outcome};
use super::peers::{ENDED, LOOK, Parties};
use crate::client::attachment::Membership;
use crate::client::queue::Unread;
use hanare_protocol::collective::header::{HEADER_LEN, PartHeader, PartHeaderKind};
use hanare_protocol::collective::{Collective, Fold, PartyHosts, PartyPlan, Source};
use hanare_protocol::element::{Element, Operator, fold};
use hanare_protocol::limits::{COLLECTIVE_FEW_COUNT, COLLECTIVE_LEN_MAX, COLLECTIVE_LEN_OF_MANY};
use hanare_protocol::queue::layout::{Overflow, QueueForm, Unit};
use hanare_protocol::{Error, Result};
use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError, TryLockError};

/// The exchange of a group, made by its first operation.
#[derive(Default)]
pub(crate) struct ExchangeOf(Mutex<Option<Result<Exchange>>>);

/// An operation and its vectors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GroupWork {
    pub collective: Collective,
    /// The folds' element; only operations that fold look at it and at `operator`.
    pub element: Element,
    pub operator: Operator,
    /// Bytes of the vector, or of one block.
    pub len: usize,
    /// The same at all parties.
    pub digest: u64,
}

/// A party's memory. A buffer of one block is a part's own; others have the blocks of all parties.
pub(crate) struct Buffers<'a> {
    /// Bytes to send; without any, bytes are received.
    pub from: Option<&'a [u8]>,
    pub into: &'a mut [u8],
}

/// Bytes that are folded at a time: two such pieces, and the part's own, lie in a usual L1 cache.
const FOLD_LEN: usize = 8 << 10;

/// A party's state for its group's operations.
struct Exchange {
    peers: Parties,
    hosts: PartyHosts,
    /// Parts that came of each party and were not taken.
    arrived: Vec<VecDeque<(Unread, PartHeader)>>,
    /// The writer of each lane that was written.
    writers: Vec<Option<u32>>,
    /// Parties that ended and whose parts are all read: only who waits for one of them fails.
    gone: BTreeSet<u32>,
    operations: u64,
    /// Why an operation fails that others have begun, and which it is: those before it may still succeed.
    ending: Option<(u64, Failure)>,
    plan: Option<(Collective, Arc<PartyPlan>)>,
    failed: Option<Error>,
    /// Sources of a fold that are other parties.
    taken: Vec<Option<Unread>>,
    /// Room for a fold.
    room: Box<[[u8; FOLD_LEN]; 2]>,
}

impl Membership for ExchangeOf {
    fn leave(&self) {
        let place = match self.0.try_lock() {
            Ok(place) => Some(place),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        };
        if let Some(mut place) = place {
            *place = Some(Err(has_left("group")));
        }
    }
}

/// The error of a call on what the program has left.
pub(super) fn has_left(what: &str) -> Error {
    let reason = format!("the program has left this {what}, because it detached; attach anew and open it again");
    Error::BadUse { region: format!("of a {what}"), reason }
}

impl ExchangeOf {
    /// Does an operation with all parties.
    pub fn run(&self, group: &Group, work: &GroupWork, buffers: Buffers<'_>) -> Result<()> {
        let mut exchange = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A party that could not open its own would meet the others out of step if it tried again.
        let exchange = exchange.get_or_insert_with(|| Exchange::open(group)).as_mut().map_err(|error| error.clone())?;
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

impl Exchange {
    fn open(group: &Group) -> Result<Exchange> {
        let parties = group.parties;
        let unit = Unit::Records { len_max: part_len_max(parties) + HEADER_LEN as u32 };
        let form = QueueForm { unit, depth: 3, ports: parties, overflow: Overflow::Wait };
        let (peers, ()) = Parties::open(group, "parts", form, Ok(()), |()| None)?;
        Ok(Exchange {
            hosts: PartyHosts::new(&peers.nodes),
            peers,
            arrived: (0..parties).map(|_| VecDeque::new()).collect(),
            writers: vec![None; parties as usize],
            gone: BTreeSet::new(),
            operations: 0,
            ending: None,
            plan: None,
            failed: None,
            taken: Vec::new(),
            room: Box::new([[0; FOLD_LEN]; 2]),
        })
    }

    fn plan(&mut self, collective: Collective) -> Arc<PartyPlan> {
        match &self.plan {
            Some((of, plan)) if *of == collective => plan.clone(),
            _ => {
                let plan = Arc::new(PartyPlan::new(collective, &self.hosts, self.peers.me));
                self.plan = Some((collective, plan.clone()));
                plan
            }
        }
    }

    fn run(&mut self, work: &GroupWork, buffers: Buffers<'_>) -> Outcome<()> {
        self.check_ending()?;
        let plan = self.plan(work.collective);
        let pieces = Pieces::new(work, &plan, part_len_max(self.peers.count()));
        for piece in 0..pieces.count() {
            for step in &plan.steps {
                for (index, (to, part)) in step.sends.iter().enumerate() {
                    // All-to-all names a part after the other side: the sender's part is the receiver's number, and the reverse.
                    let name = if work.collective == Collective::AllToAll { self.peers.me } else { *part };
                    let header = self.header(work, name, piece);
                    let from = buffers.from.unwrap_or(buffers.into);
                    let bytes = &from[pieces.range(*part, piece, from.len())];
                    let is_last = step.sends.get(index + 1).is_none_or(|(next, _)| next != to);
                    self.send(*to, &header, bytes, is_last)?;
                }
                for fold in &step.folds {
                    let range = pieces.range(fold.part, piece, buffers.into.len());
                    self.fold(fold, work, piece, &mut buffers.into[range])?;
                }
            }
        }
        Ok(())
    }

    fn header(&self, work: &GroupWork, part: u32, piece: u32) -> PartHeader {
        let GroupWork { digest, .. } = *work;
        PartHeader { from: self.peers.me, part, piece, kind: PartHeaderKind::Part, operation: self.operations, digest }
    }

    fn send(&mut self, to: u32, header: &PartHeader, bytes: &[u8], is_last: bool) -> Outcome<()> {
        loop {
            let claimed = self.peers.writer(to)?.claim(HEADER_LEN + bytes.len(), Some(LOOK));
            match claimed {
                Ok(()) => break,
                Err(Error::NotInTime { .. }) => {
                    let seen = self.peers.look_at(to);
                    self.take_in()?;
                    seen?;
                }
                Err(error) => return Err(Failure::on_the_way(to, error)),
            }
        }
        let writer = self.peers.writer(to)?;
        writer.fill(0, &header.encode());
        writer.fill(HEADER_LEN, bytes);
        writer.keep();
        if is_last { writer.publish_started().map_err(|error| Failure::on_the_way(to, error)) } else { Ok(()) }
    }

    /// The fold of what comes for a part, and of the part.
    fn fold(&mut self, what: &Fold, work: &GroupWork, piece: u32, part: &mut [u8]) -> Outcome<()> {
        let header = self.header(work, what.part, piece);
        let mut taken = std::mem::take(&mut self.taken);
        for source in &what.sources {
            taken.push(match source {
                Source::Own => None,
                Source::From(party) => Some(self.expect(*party, &header, part.len())?),
            });
        }
        self.fold_all(&taken, work, part);
        taken.drain(..).flatten().try_for_each(|unread| self.peers.inbox.free(&unread))?;
        self.taken = taken;
        Ok(())
    }

    /// Sets the part to the fold of what was taken, in its order; the part's own bytes are where nothing was. Some at a time, so that they stay
    /// in the cache from the first source to the last.
    fn fold_all(&mut self, taken: &[Option<Unread>], work: &GroupWork, part: &mut [u8]) {
        let inbox = &self.peers.inbox;
        if let [Some(only)] = taken {
            return inbox.read(only, HEADER_LEN, part);
        }
        let [sum, next] = &mut *self.room;
        for (index, own) in part.chunks_mut(FOLD_LEN).enumerate() {
            let at = HEADER_LEN + index * FOLD_LEN;
            let (sum, next) = (&mut sum[..own.len()], &mut next[..own.len()]);
            for (place, source) in taken.iter().enumerate() {
                match (place, source) {
                    (0, None) => sum.copy_from_slice(own),
                    (0, Some(unread)) => inbox.read(unread, at, sum),
                    (_, None) => fold(work.operator, work.element, sum, own),
                    (_, Some(unread)) => {
                        inbox.read(unread, at, next);
                        fold(work.operator, work.element, sum, next);
                    }
                }
            }
            own.copy_from_slice(sum);
        }
    }

    /// The part that comes next from a party, which is to be as the header says, and as long.
    fn expect(&mut self, from: u32, like: &PartHeader, len: usize) -> Outcome<Unread> {
        let (unread, header) = self.next_from(from)?;
        let expected = PartHeader { from, ..*like };
        if header != expected || unread.len() != HEADER_LEN + len {
            let reason = format!(
                "party {from} called another operation than party {}, or with vectors of another length, kind or root: \
                 all parties call the same ones in the same order",
                self.peers.me
            );
            return Err(Failure::unlike(reason));
        }
        Ok(unread)
    }

    fn next_from(&mut self, from: u32) -> Outcome<(Unread, PartHeader)> {
        loop {
            if let Some(next) = self.arrived[from as usize].pop_front() {
                return Ok(next);
            }
            if self.gone.contains(&from) {
                return Err(Failure::gone(from, ENDED));
            }
            match self.peers.inbox.see(LOOK) {
                Ok(unread) => self.sort(unread)?,
                Err(Error::NotInTime { .. }) => {
                    // The other party may wait for a part of this one that was lost with a connection.
                    let unsettled = self.peers.settle(None).into_iter().next();
                    let settled = unsettled.map_or(Ok(()), |(to, error)| Err(Failure::on_the_way(to, error)));
                    let seen = self.peers.look_at(from).and(settled);
                    // Parts sent before it went count.
                    self.take_in()?;
                    if self.arrived[from as usize].is_empty() {
                        seen?;
                    }
                }
                Err(error) => self.lane_failed(error)?,
            }
        }
    }

    /// Sorts what has come by parties.
    fn take_in(&mut self) -> Outcome<()> {
        loop {
            match self.peers.inbox.try_see() {
                Ok(Some(unread)) => self.sort(unread)?,
                Ok(None) => return Ok(()),
                Err(error) => self.lane_failed(error)?,
            }
        }
    }

    /// A party's connection ended: notes whether the party did. One that wrote nothing yet is found out by who waits for it.
    fn lane_failed(&mut self, error: Error) -> Outcome<()> {
        let Error::WriterGone { lane, .. } = error else { return Err(Failure::from(error)) };
        let party = self.writers.get(lane as usize).copied().flatten();
        self.gone.extend(party.filter(|party| self.peers.find(*party).is_err()));
        Ok(())
    }

    /// Fails where another party has failed in this operation, or in one before it.
    fn check_ending(&self) -> Outcome<()> {
        match &self.ending {
            Some((operation, failure)) if *operation <= self.operations => Err(failure.clone()),
            _ => Ok(()),
        }
    }

    fn sort(&mut self, unread: Unread) -> Outcome<()> {
        let mut bytes = [0; HEADER_LEN];
        if unread.len() >= HEADER_LEN {
            self.peers.inbox.read(&unread, 0, &mut bytes);
        }
        let header = PartHeader::decode(&bytes, self.peers.count()).ok().filter(|_| unread.len() >= HEADER_LEN);
        let Some(header) = header else {
            return Err(Failure::unlike(format!("a program wrote into the region '{}'", self.peers.own_name())));
        };
        self.writers[unread.lane() as usize] = Some(header.from);
        let words = || String::from_utf8_lossy(&self.peers.inbox.rest(&unread, HEADER_LEN)).into_owned();
        let failure = match header.kind {
            PartHeaderKind::Part => {
                self.arrived[header.from as usize].push_back((unread, header));
                return Ok(());
            }
            PartHeaderKind::Gone => Failure::Gone { party: header.part, reason: words(), has_left: false, is_told: true },
            PartHeaderKind::Unlike => Failure::Unlike { reason: words(), is_told: true },
        };
        self.peers.inbox.free(&unread)?;
        if self.ending.as_ref().is_none_or(|(operation, _)| header.operation < *operation) {
            self.ending = Some((header.operation, failure));
        }
        self.check_ending()
    }

    /// Ends all further operations, and tells the others where they may not know. A party that cannot be told, or was taken for gone, finds out
    /// when it looks at this one: this one reads no more.
    fn fail(&mut self, failure: Failure) -> Error {
        let failure = self.told_before(failure);
        let failure = self.peers.first_to_go(failure);
        // Others may need what was sent before for an operation that succeeds.
        let gone = if let Failure::Gone { party, .. } = &failure { Some(*party) } else { None };
        self.peers.settle(gone);
        if let Some((kind, part, words)) = failure.news() {
            let header = PartHeader { from: self.peers.me, part, piece: 0, kind, operation: self.operations, digest: 0 };
            let mut words = words.into_bytes();
            words.truncate(part_len_max(self.peers.count()) as usize);
            let others = (0..self.peers.count())
                .filter(|party| *party != self.peers.me && !(kind == PartHeaderKind::Gone && *party == part));
            for party in others.collect::<Vec<_>>() {
                self.tell(party, &header, &words);
            }
        }
        self.peers.inbox.reader.leave_early();
        let error = self.peers.error_of(failure);
        self.failed = Some(error.clone());
        error
    }

    /// A party that has failed tells why, and then reads no more. So what it has told comes before what this party found out about it.
    fn told_before(&mut self, failure: Failure) -> Failure {
        let is_found = matches!(failure, Failure::Gone { is_told: false, .. });
        match if is_found { self.take_in() } else { Ok(()) } {
            Err(told) if told.news().is_none() => told,
            _ => failure,
        }
    }

    /// Tells one party, if it can be told. One that is gone is found out by those who wait for it.
    fn tell(&mut self, party: u32, header: &PartHeader, words: &[u8]) {
        let told = self.peers.writer(party).ok().and_then(|writer| {
            writer.claim(HEADER_LEN + words.len(), Some(LOOK)).ok()?;
            writer.fill(0, &header.encode());
            writer.fill(HEADER_LEN, words);
            writer.commit().ok()
        });
        if told.is_none() {
            tracing::debug!(party, "could not be told of its group's failure");
        }
    }
}

/// Division of an operation's bytes into pieces, done one after another, and of pieces into parts.
struct Pieces {
    /// Bytes of the vector, or of a block.
    len: usize,
    /// Bytes of a piece.
    piece_len: usize,
    /// Number of parts of a vector; `None` for blocks, which are parts themselves.
    parts: Option<u32>,
    element_len: usize,
}

impl Pieces {
    fn new(work: &GroupWork, plan: &PartyPlan, part_len_max: u32) -> Pieces {
        let is_vector =
            matches!(work.collective, Collective::Broadcast { .. } | Collective::Reduce { .. } | Collective::AllReduce { .. });
        let most = part_len_max as usize;
        // A lane has room for three of the longest records, less what is left empty at its end.
        let together = if is_vector { most } else { (2 * most / plan.burst as usize).saturating_sub(2 * HEADER_LEN) };
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
