//! The parties of a group as one of them reaches the others: a queue in memory of each party's host.
//!
//! ```text
//! party 0: region on its host  [ roster | queue: a lane from each other party ]
//! party 1: region on its host  [        | queue                               ]   ...
//! ```
//!
//! A party that waits for another for long looks whether that one still reads its own queue.

use super::failure::{Failure, Outcome};
use super::{Group, GroupKind};
use crate::client::own_region::OwnRegion;
use crate::client::pool::Pool;
use crate::client::queue::{ReadPort, Unread, WritePort};
use crate::client::region::Region;
use hanare_protocol::id::{ClientId, Rank};
use hanare_protocol::limits::{COLLECTIVE_PARTY_COUNT_MAX, DEATH_LOOK_MS};
use hanare_protocol::queue::layout::{LINE_LEN, QueueForm, READER_AT};
use hanare_protocol::{Error, Result};
use std::collections::VecDeque;
use std::time::Duration;

/// Time that a party waits for another before it checks on that one.
pub(super) const LOOK: Duration = Duration::from_millis(DEATH_LOOK_MS);

/// In a party's region: the roster, and in an entry of it the node and the client. The queue follows.
const ENTRY_LEN: u64 = 16;

/// The state of a queue's reader that lives.
const READS: u64 = 1;
/// And of one that has died.
const BROKEN: u64 = 2;

/// Text on a party that went without leaving.
pub(super) const ENDED: &str = "its process or its connection ended";

/// Time that a party that finds another gone waits for the home to name the first.
const FIRST: Duration = Duration::from_millis(DEATH_LOOK_MS);

struct PartyReach {
    region: Region,
    writer: Option<WritePort>,
}

/// The parties, and this one's own queue. Left in order when dropped.
pub(super) struct Parties {
    /// Given back before the region goes, in this order.
    peers: Vec<Option<PartyReach>>,
    pub inbox: PartyInbox,
    own: OwnRegion,
    /// The group's regions have this before their parties' numbers.
    stem: String,
    group: String,
    is_job: bool,
    pub me: u32,
    form: QueueForm,
    clients: Vec<ClientId>,
    /// The nodes of the parties.
    pub nodes: Vec<u64>,
}

impl Parties {
    /// Meets the others three times: all have a queue of this form; all are in the roster; all have read it. `purpose` tells the regions
    /// from the group's other ones. `other` is what this party has made besides, `ahead` its memory for bytes that go before headers.
    ///
    /// A party that cannot make its region, or cannot find the roster, meets the others all the same. It stays out of the roster. All fail
    /// then, and none waits for another.
    pub fn open<T>(
        group: &Group,
        purpose: &str,
        form: QueueForm,
        other: Result<T>,
        ahead: impl Fn(&T) -> Option<&Region>,
    ) -> Result<(Parties, T)> {
        let (pool, parties, me) = (&group.pool, group.parties, group.me);
        if parties > COLLECTIVE_PARTY_COUNT_MAX {
            let what = format!("{parties} parties of a group that exchanges");
            return Err(Error::LimitReached { what, limit: COLLECTIVE_PARTY_COUNT_MAX.into() });
        }
        let stem = group.stem(purpose);
        let queue_at = roster_len(parties);
        let make = |other: T| {
            let own = OwnRegion::new(pool, &format!("{stem}{me}"), queue_at + form.array_len(1)?)?;
            own.region.make_queues(queue_at, 1, &form)?;
            let mut reader = pool.open_queues(own.region.name(), queue_at)?.queue(0)?.reader()?;
            reader.keep_broken();
            Ok((other, own, reader))
        };
        let made = other.and_then(make);
        group.barrier()?;
        let missing = |party: usize| {
            let reason = format!("party {party} could not open its part; its own error says why");
            Error::BadGroup { name: group.name.clone(), asked: parties, parties, reason }
        };
        let enter = |made| {
            let first = pool.open_trusted(&format!("{stem}0")).map_err(|error| match error {
                Error::UnknownRegion { .. } => missing(0),
                other => other,
            })?;
            first.put_values(u64::from(me) * ENTRY_LEN, &[u64::from(pool.node().0), pool.client().0])?;
            Ok((made, first))
        };
        let entered = made.and_then(enter);
        group.barrier()?;
        let mut roster = vec![[0u64; 2]; parties as usize];
        let read = entered.and_then(|(made, first)| first.get_values(0, roster.as_flattened_mut()).map(|()| made));
        let read = read.map(|(other, own, mut reader)| {
            let has_remote = roster.iter().any(|entry| entry[0] != u64::from(pool.node().0));
            // Without links, parts and messages come by the node.
            if has_remote && let Err(error) = reader.link(ahead(&other)) {
                tracing::debug!("no links to this party: {error}");
            }
            (other, own, reader)
        });
        group.barrier()?;
        let (other, own, reader) = read?;
        // No client has the number 0.
        if let Some(party) = roster.iter().position(|entry| entry[1] == 0) {
            return Err(missing(party));
        }
        let peers = Parties {
            peers: (0..parties).map(|_| None).collect(),
            inbox: PartyInbox { reader, seen: (0..parties).map(|_| VecDeque::new()).collect() },
            own,
            stem,
            group: group.name.clone(),
            is_job: matches!(group.kind, GroupKind::Job),
            me,
            form,
            clients: roster.iter().map(|entry| ClientId(entry[1])).collect(),
            nodes: roster.iter().map(|entry| entry[0]).collect(),
        };
        Ok((peers, other))
    }

    pub fn count(&self) -> u32 {
        self.form.ports
    }

    pub fn pool(&self) -> &Pool {
        &self.own.pool
    }

    /// The name of this party's region.
    pub fn own_name(&self) -> &str {
        self.own.region.name()
    }

    /// Fails where a party is gone that is waited for.
    pub fn look_at(&mut self, party: u32) -> Outcome<()> {
        if self.is_job {
            self.own.pool.shared.check_deaths()?;
        }
        self.find(party)
    }

    /// Fails where a party is gone, whose connection ended: it may be there, and come back over another.
    pub fn find(&mut self, party: u32) -> Outcome<()> {
        let at = roster_len(self.count()) + self.form.queue_at(1, 0) + READER_AT;
        let mut state = [0u64];
        let seen = self.peer(party)?.region.get_values(at, &mut state);
        match (seen, state) {
            (Ok(()), [READS]) => Ok(()),
            (Ok(()), [BROKEN]) => Err(Failure::gone(party, ENDED)),
            (Ok(()), _) => Err(Failure::left(party)),
            (Err(error), _) => Err(Failure::on_the_way(party, error)),
        }
    }

    fn peer(&mut self, party: u32) -> Outcome<&mut PartyReach> {
        let peer = &mut self.peers[party as usize];
        if peer.is_none() {
            let region = self.own.pool.open_trusted(&format!("{}{party}", self.stem));
            let region = region.map_err(|error| Failure::on_the_way(party, error))?;
            *peer = Some(PartyReach { region, writer: None });
        }
        Ok(peer.as_mut().expect("it was just opened"))
    }

    #[inline]
    pub fn writer(&mut self, to: u32) -> Outcome<&mut WritePort> {
        if self.peers[to as usize].as_ref().is_none_or(|peer| peer.writer.is_none()) {
            self.open_writer(to)?;
        }
        let writer = self.peers[to as usize].as_mut().and_then(|peer| peer.writer.as_mut());
        Ok(writer.expect("it was just opened"))
    }

    #[cold]
    fn open_writer(&mut self, to: u32) -> Outcome<()> {
        let (pool, name) = (&self.own.pool, format!("{}{to}", self.stem));
        let queue = pool.open_queues(&name, roster_len(self.count())).and_then(|queues| queues.queue(0));
        let mut writer = queue.and_then(|queue| queue.writer()).map_err(|error| Failure::on_the_way(to, error))?;
        writer.let_link();
        self.peer(to)?.writer = Some(writer);
        Ok(())
    }

    /// True if a party of this host reads its queue; `None` of one elsewhere. **Cost**: a load.
    #[inline]
    pub fn reads_here(&mut self, party: u32) -> Outcome<Option<bool>> {
        self.writer(party)?.is_read().map_err(|error| Failure::on_the_way(party, error))
    }

    /// Waits until what was sent to the others, or to all of them but one, is at their hosts. Says to whom it could not be sent.
    pub fn settle(&mut self, but: Option<u32>) -> Vec<(u32, Error)> {
        self.settle_by(but, WritePort::publish)
    }

    /// Waits until what was sent counts, and cannot be lost with a connection. Says to whom it could not be sent.
    pub fn settle_for_good(&mut self) -> Vec<(u32, Error)> {
        self.settle_by(None, WritePort::publish_counted)
    }

    fn settle_by(&mut self, but: Option<u32>, settle: impl Fn(&mut WritePort) -> Result<()>) -> Vec<(u32, Error)> {
        let unsettled = |(party, peer): (usize, &mut Option<PartyReach>)| {
            if but == Some(party as u32) {
                return None;
            }
            let writer = peer.as_mut()?.writer.as_mut().filter(|writer| !writer.is_settled())?;
            Some((party as u32, settle(writer).err()?))
        };
        self.peers.iter_mut().enumerate().filter_map(unsettled).collect()
    }

    /// Names the rank that went first, if the job's home says so soon. The others may have gone because of it.
    pub fn first_to_go(&self, failure: Failure) -> Failure {
        let Failure::Gone { party, reason, has_left: false, is_told: false } = failure else { return failure };
        match self.own.pool.shared.first_death(FIRST).filter(|_| self.is_job) {
            Some(Error::RankGone { rank, reason }) => Failure::gone(rank.0, &reason),
            _ => Failure::gone(party, &reason),
        }
    }

    /// A failure as programs see it.
    pub fn error(&self, failure: Failure) -> Error {
        self.error_of(self.first_to_go(failure))
    }

    /// The same as [`Parties::error`], of a failure that names the first already.
    pub fn error_of(&self, failure: Failure) -> Error {
        match failure {
            Failure::Gone { party, reason, .. } if self.is_job => Error::RankGone { rank: Rank(party), reason },
            Failure::Gone { party, reason, .. } => {
                Error::PartyGone { group: self.group.clone(), party: self.clients[party as usize], reason }
            }
            Failure::Unlike { reason, .. } => self.bad(reason),
            Failure::Own(error) => error,
        }
    }

    pub fn bad(&self, reason: String) -> Error {
        Error::BadGroup { name: self.group.clone(), asked: self.count(), parties: self.count(), reason }
    }
}

fn roster_len(parties: u32) -> u64 {
    (u64::from(parties) * ENTRY_LEN).next_multiple_of(LINE_LEN)
}

/// The party's queue; its units are freed in any order.
///
/// A mailbox reads and frees each unit before it sees the next, at the reader itself.
pub(super) struct PartyInbox {
    pub reader: ReadPort,
    /// Units of each lane that were seen and not freed, each with a mark when it was taken. A lane of a party that left goes to another,
    /// and units are taken in any order.
    seen: Vec<VecDeque<(Unread, bool)>>,
}

impl PartyInbox {
    /// The next unit, waited for as long. **Errors**: those of [`ReadPort::see`].
    pub fn see(&mut self, bound: Duration) -> Result<Unread> {
        let unread = self.reader.see(Some(bound))?;
        self.seen[unread.lane() as usize].push_back((unread, false));
        Ok(unread)
    }

    /// The next unit that has come.
    pub fn try_see(&mut self) -> Result<Option<Unread>> {
        let unread = self.reader.try_see()?;
        if let Some(unread) = unread {
            self.seen[unread.lane() as usize].push_back((unread, false));
        }
        Ok(unread)
    }

    pub fn read(&self, unread: &Unread, at: usize, into: &mut [u8]) {
        self.reader.read(unread, at, into);
    }

    /// Its bytes from `at` on.
    pub fn rest(&self, unread: &Unread, at: usize) -> Vec<u8> {
        let mut bytes = vec![0; unread.len() - at];
        self.read(unread, at, &mut bytes);
        bytes
    }

    /// Frees a unit, as soon as those before it in its lane were taken.
    pub fn free(&mut self, unread: &Unread) -> Result<()> {
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
}
