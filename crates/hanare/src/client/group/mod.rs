//! Groups of parties: barriers, kept at the pool's home, and collective operations.
//!
//! | module | holds |
//! |---|---|
//! | `carrying` | barriers that carry what parties have stored |
//! | `collective` | the operations, as programs call them |
//! | `exchange` | how parts go from party to party |
//! | `message`, `mailbox`, `arrivals`, `fetching`, `sends`, `sending`, `begun` | messages with a head and a body, matched by their receiver |
//! | `peers` | a queue in memory of each party's host |
//! | `failure` | why a group cannot go on, told to all |

mod arrivals;
mod begun;
mod carrying;
mod collective;
mod exchange;
mod failure;
mod fetching;
mod mailbox;
mod message;
mod peers;
mod receive_memory;
mod sending;
mod sends;

pub use arrivals::ReceiveId;
pub use collective::Number;
pub(crate) use exchange::ExchangeOf;
pub use mailbox::{Mailbox, MailboxOptions};
pub use message::Message;
pub use sends::{Body, LastingBody, SendId};

use super::locks::{ended, patience};
use super::pool::Pool;
use super::region::Region;
use super::remote::Remote;
use super::request::Patience;
use super::shared::SharedMapping;
use super::sync_address::SyncTarget;
use hanare_protocol::error::Happened;
use hanare_protocol::id::PartyName;
use hanare_protocol::wire::sync::{Party, SyncAnswer, SyncRequest};
use hanare_protocol::{Error, Result};
use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A place among parties that meet: the ranks of a job, or those who joined under a name. Left when dropped.
///
/// Each handle is one party: threads that meet each have their own.
pub struct Group {
    pool: Pool,
    name: String,
    parties: u32,
    /// The calling party.
    me: u32,
    kind: GroupKind,
    /// Held while it waits: a party arrives once at a time.
    arrival: Mutex<()>,
    exchange: Arc<ExchangeOf>,
}

/// The tie between a group's clients.
enum GroupKind {
    /// Ranks of a job.
    Job,
    /// Clients that joined under a name or at a byte of a region.
    Joined(JoinedRank),
}

/// A place in a group that was joined.
struct JoinedRank {
    /// Its number.
    number: u64,
    /// The group's home, and the connection that holds the membership.
    home: Arc<Remote>,
    connection: u128,
    /// No other group instance of the pool has it.
    stem: String,
}

/// A range of a mapping.
#[derive(Clone, Copy)]
pub struct Part<'a> {
    /// The mapping.
    pub mapping: &'a SharedMapping,
    /// Its first byte.
    pub offset: u64,
    /// Its length in bytes.
    pub len: u64,
}

impl Pool {
    /// News for other parties if this one goes.
    fn party_name(&self) -> PartyName {
        let rank = self.shared.job.map(|job| job.rank);
        PartyName { client: self.client(), rank, process: std::process::id(), node: self.node() }
    }

    /// Becomes one of the `parties` of a group, which exists by being joined. Any client whom its name is [permitted](Pool::permit) may be a party, or several.
    ///
    /// **Cost**: one message each way to the pool's home. **Errors**: [`Error::BadName`]. [`Error::NoPermission`] if the name is another
    /// user's. [`Error::BadGroup`] if others gave another number, or all parties are there. [`Error::NodeLost`].
    pub fn group(&self, name: &str, parties: u32) -> Result<Group> {
        self.join(&SyncTarget::name(&self.shared, name)?, parties, |instance| {
            let name: String = name.chars().take(32).collect();
            format!("{instance}-{name}")
        })
    }

    /// Becomes a party of the group at a place; `stem` is what a group instance's regions have in their names.
    fn join(&self, place: &SyncTarget<'_>, parties: u32, stem: impl Fn(u64) -> String) -> Result<Group> {
        let number = self.shared.claims.next();
        let (answer, home) = place
            .ask(|home, address| {
                let join = SyncRequest::Join { address, parties, number, client: self.party_name() };
                Ok((home.ask_sync(&join, Patience::Usual)?, home.clone()))
            })
            .map_err(ended)?;
        let (instance, me, connection) = match answer {
            (SyncAnswer::Joined { instance, party }, connection) if party < parties => (instance, party, connection),
            _ => return Err(Error::Garbage { peer: home.node().to_string(), reason: "no place in a group".to_owned() }),
        };
        let kind = GroupKind::Joined(JoinedRank { number, connection, home, stem: stem(instance) });
        let exchange = Arc::default();
        self.shared.enter(&exchange);
        Ok(Group { pool: self.clone(), name: place.title(), parties, me, kind, arrival: Mutex::default(), exchange })
    }

    /// The group of all ranks of this program's job; of a program that was started alone, a group of one. Handles of one program
    /// are one party: their operations come one after another.
    pub fn job_group(&self) -> Group {
        let exchange = self.shared.exchange();
        let (parties, me) = (self.ranks(), self.rank());
        let kind = GroupKind::Job;
        Group { pool: self.clone(), name: "job".to_owned(), parties, me, kind, arrival: Mutex::default(), exchange }
    }
}

impl Region {
    /// Becomes one of the `parties` of the group at a byte of the region. The byte's node keeps the group, for barriers and all other
    /// calls ([`Pool::group`]). The byte itself is neither read nor written. A program may be a party if it may write the region.
    ///
    /// **Cost**: one message each way to that node. **Errors**: as for [`Pool::group`]. [`Error::OutOfRange`]. [`Error::BadUse`] if the
    /// region was opened for reading. [`Error::UnknownRegion`] if it is removed, also while others are waited for.
    pub fn group_at(&self, offset: u64, parties: u32) -> Result<Group> {
        let pool = Pool::of(self.shared.clone());
        // The node counts group instances, and no byte is another's.
        pool.join(&SyncTarget::byte(self, offset, false)?, parties, |instance| format!("at-{instance}-{}+{offset}", self.gid().0))
    }
}

impl Group {
    /// The group's name; of one in a region the region's, and the offset.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The number of parties.
    pub fn parties(&self) -> u32 {
        self.parties
    }

    /// The party's number, from 0: its rank, or the count of those that joined before.
    pub fn number(&self) -> u32 {
        self.me
    }

    /// Waits until every party is here, as often as this one. No deadline while all parties live, and none for those that are
    /// still to join.
    ///
    /// **Ordering**: as for [`Pool::barrier`]: all parties then see what any of them wrote by calls that returned. **Cost**: one message
    /// each way. **Errors**: in a job those of [`Pool::barrier`]. Else [`Error::PartyGone`] with the client's id when a party left or
    /// ended, this one's connection included. To go on, drop the group and join it again. [`Error::NodeLost`] where the home is gone, or as
    /// for [`Pool::check_stores`].
    pub fn barrier(&self) -> Result<()> {
        let GroupKind::Joined(rank) = &self.kind else { return self.pool.barrier() };
        let _alone = self.arrival.lock().unwrap_or_else(PoisonError::into_inner);
        self.pool.release_stores()?;
        fence(Ordering::SeqCst);
        self.check_rank(rank)?;
        let meet = SyncRequest::Arrive(Party::Place(rank.number), None);
        crate::trace::slice("group barrier", || rank.home.ask_sync(&meet, patience(None))).map_err(|error| self.failed(error))?;
        fence(Ordering::SeqCst);
        Ok(())
    }

    /// Refuses a place whose connection has broken; it ends at the home, too.
    fn check_rank(&self, JoinedRank { home, connection, .. }: &JoinedRank) -> Result<()> {
        if home.connection() == Some(*connection) {
            return Ok(());
        }
        home.end(*connection, Duration::MAX);
        Err(self.is_out())
    }

    /// Why the barrier of a group that was joined failed.
    fn failed(&self, error: Error) -> Error {
        match error {
            Error::Broken { happened: Happened::No | Happened::Yes, .. } => self.is_out(),
            Error::UnknownRegion { .. } => Error::UnknownRegion { name: self.name.clone() },
            error => ended(error),
        }
    }

    /// Prefix of the names of this instance's regions for a purpose.
    fn stem(&self, purpose: &str) -> String {
        match (&self.kind, self.pool.shared.job) {
            (GroupKind::Joined(JoinedRank { stem, .. }), _) => format!(".group-{stem}.{purpose}."),
            (GroupKind::Job, Some(who)) => format!(".job-{:032x}.{purpose}.", who.job.0),
            // Each program that was started alone is a group of its own.
            (GroupKind::Job, None) => format!(".client-{:016x}.{purpose}.", self.pool.client().0),
        }
    }

    /// The calling party itself is gone.
    fn is_out(&self) -> Error {
        let reason = "its connection to the pool's home broke".to_owned();
        Error::PartyGone { group: self.name.clone(), party: self.pool.client(), reason }
    }
}

impl std::fmt::Debug for Group {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Group").field("name", &self.name).field("parties", &self.parties).finish_non_exhaustive()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let GroupKind::Joined(JoinedRank { number, home, connection, .. }) = &self.kind else { return };
        if home.connection() == Some(*connection) {
            // The party has left when its connection has ended at the latest.
            let _ = home.ask_sync(&SyncRequest::Leave { number: *number }, Patience::Usual);
        }
    }
}
