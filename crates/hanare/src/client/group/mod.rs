//! Groups of parties: barriers, kept at the pool's home, and collective operations.
//!
//! | module | holds |
//! |---|---|
//! | `collective` | the operations, as programs call them |
//! | `exchange` | how parts go from party to party |
//! | `message`, `mailbox`, `arrivals`, `fetching`, `sending` | messages with a head and a body, matched by their receiver |
//! | `peers` | a queue in memory of each party's host |
//! | `failure` | why a group cannot go on, told to all |

mod arrivals;
mod collective;
mod exchange;
mod failure;
mod fetching;
mod mailbox;
mod message;
mod peers;
mod sending;

pub use arrivals::ReceiveId;
pub use collective::Number;
pub(crate) use exchange::ExchangeOf;
pub use mailbox::{Mailbox, MailboxOptions};
pub use message::Message;
pub use sending::{Body, LastingBody, SendId};

use super::locks::{ended, patience};
use super::pool::Pool;
use super::request::Patience;
use super::shared::SharedMapping;
use hanare_protocol::error::Happened;
use hanare_protocol::id::PartyName;
use hanare_protocol::name::check_name;
use hanare_protocol::wire::sync::{SyncAnswer, SyncRequest};
use hanare_protocol::{Error, Result};
use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A place among parties that meet: the ranks of a job, or those who joined under a name. Left when dropped.
///
/// One place is one party: threads that meet each have their own.
pub struct Group {
    pool: Pool,
    name: String,
    parties: u32,
    /// This party.
    me: u32,
    kind: GroupKind,
    /// Held while it waits: a party arrives once at a time.
    arrival: Mutex<()>,
    exchange: Arc<ExchangeOf>,
}

/// What makes clients a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GroupKind {
    /// They are the ranks of a job.
    Job,
    /// They joined under a name.
    Named {
        /// The number of this place.
        number: u64,
        /// The connection that it is held by.
        connection: u128,
        sitting: u64,
    },
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
    /// What other parties are told, should this one go.
    fn party_name(&self) -> PartyName {
        let rank = self.shared.job.map(|job| job.rank);
        PartyName { client: self.client(), rank, process: std::process::id(), node: self.node() }
    }

    /// Becomes one of the `parties` of a group, which exists by being joined. Any client whom its name is [permitted](Pool::permit) may be a party, or several.
    ///
    /// **Cost**: one message each way to the pool's home. **Errors**: [`Error::BadName`]; [`Error::NoPermission`] where the name is another user's; [`Error::BadGroup`] where others
    /// gave another number, or where all parties are there; [`Error::NodeLost`].
    pub fn group(&self, name: &str, parties: u32) -> Result<Group> {
        check_name(name)?;
        let number = self.shared.claims.next();
        let join = SyncRequest::Join { name: name.to_owned(), parties, number, client: self.party_name() };
        let home = self.shared.home()?;
        let (sitting, me, connection) = match home.ask_sync(&join, Patience::Usual).map_err(ended)? {
            (SyncAnswer::Joined { sitting, party }, connection) if party < parties => (sitting, party, connection),
            _ => return Err(Error::Garbage { peer: home.node().to_string(), reason: "no place in a group".to_owned() }),
        };
        let kind = GroupKind::Named { number, connection, sitting };
        let exchange = Arc::default();
        Ok(Group { pool: self.clone(), name: name.to_owned(), parties, me, kind, arrival: Mutex::default(), exchange })
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

impl Group {
    /// The group's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How many parties it has.
    pub fn parties(&self) -> u32 {
        self.parties
    }

    /// This party's number, from 0: its rank, or how many had joined before.
    pub fn number(&self) -> u32 {
        self.me
    }

    /// Waits until every party is here, as often as this one. No deadline while all parties live, and none for those that are
    /// still to join.
    ///
    /// **Ordering**: as for [`Pool::barrier`]: what any party wrote by calls that returned is seen by all afterwards.
    /// **Cost**: one message each way. **Errors**: of a job those of [`Pool::barrier`]; else [`Error::PartyGone`] with the client's id when a party left or ended, this
    /// one's connection included: drop the group and join it anew to go on; [`Error::NodeLost`] where the home is gone, or as for [`Pool::check_stores`].
    pub fn barrier(&self) -> Result<()> {
        let GroupKind::Named { number, connection, .. } = self.kind else { return self.pool.barrier() };
        let _alone = self.arrival.lock().unwrap_or_else(PoisonError::into_inner);
        self.pool.check_stores()?;
        fence(Ordering::SeqCst);
        let home = self.pool.shared.home()?;
        if home.connection() != Some(connection) {
            home.end(connection, Duration::MAX);
            return Err(self.is_out());
        }
        let meet = SyncRequest::Meet { number };
        match crate::trace::slice("group barrier", || home.ask_sync(&meet, patience(None))) {
            Ok(_) => {
                fence(Ordering::SeqCst);
                Ok(())
            }
            Err(Error::Broken { happened: Happened::No | Happened::Yes, .. }) => Err(self.is_out()),
            Err(error) => Err(ended(error)),
        }
    }

    /// As [`Group::barrier`], and carries what the parties have stored: this party's stores to the parts that it gives are made
    /// visible before it arrives, and what others gave of the parts that it takes is here, ready to be read, when it goes on.
    ///
    /// **Cost**: as [`SharedMapping::flush`], [`Group::barrier`] and [`SharedMapping::bring`] of those parts, one after the other; where a
    /// mapping is coherent only the last two move anything. **Errors**: theirs. One that comes before it
    /// arrives leaves the others waiting: drop the group, and they are told. **Source**: [RF §3.4]
    // FEATURE: RF-F15
    pub fn barrier_with(&self, gives: &[Part<'_>], takes: &[Part<'_>]) -> Result<()> {
        gives.iter().try_for_each(|part| part.mapping.flush(part.offset, part.len))?;
        self.barrier()?;
        takes.iter().try_for_each(|part| part.mapping.bring(part.offset, part.len))
    }

    /// What the names of this sitting's regions begin with that serve a purpose.
    fn stem(&self, purpose: &str) -> String {
        match (self.kind, self.pool.shared.job) {
            (GroupKind::Named { sitting, .. }, _) => {
                let name: String = self.name.chars().take(32).collect();
                format!(".group-{sitting}-{name}.{purpose}.")
            }
            (GroupKind::Job, Some(who)) => format!(".job-{:032x}.{purpose}.", who.job.0),
            // Each program that was started alone is a group of its own.
            (GroupKind::Job, None) => format!(".client-{:016x}.{purpose}.", self.pool.client().0),
        }
    }

    /// This party itself is gone.
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
        let GroupKind::Named { number, connection, .. } = self.kind else { return };
        let Ok(home) = self.pool.shared.home() else { return };
        if home.connection() == Some(connection) {
            // It has left when its connection has ended at the latest.
            let _ = home.ask_sync(&SyncRequest::Leave { number }, Patience::Usual);
        }
    }
}
