//! Names at a home that another node may follow: who waits is sent on, and what is asked later is refused.

use super::{ArrivedParty, Locks, WaitingLock};
use crate::events::SyncOutput;
use crate::waiter::Waiter;
use hanare_protocol::group::Groups;
use hanare_protocol::id::NodeId;
use hanare_protocol::lock::Claimant;
use hanare_protocol::name::extent_of_name;
use hanare_protocol::name_owners::NameOwners;
use hanare_protocol::wire::sync::{Party, SyncAddress, SyncRequest};
use hanare_protocol::{Error, Result};

/// The refusal of a node that is not the pool's home. The program asks its own node for the home. (A lost node would mean to it that the
/// connection broke.)
fn moved(me: NodeId) -> Error {
    Error::NoCoordinator { reason: format!("{me} is not the pool's home of names, or not any more") }
}

fn is_word(name: &str) -> bool {
    extent_of_name(name).is_none()
}

impl Locks {
    /// The node `me` is the pool's home from here on, or not any more. Locks and groups at bytes of its regions go on.
    ///
    /// A home that begins knows nothing of the one before, as after another life, but of ranks that are gone. It forgets locks that programs have from
    /// an earlier time as home.
    /// At one that ends, those who wait are refused: nobody gets a lock that the next home gives to another.
    pub fn set_pool_home(&mut self, me: NodeId, is_home: bool) {
        self.not_home = (!is_home).then_some(me);
        self.locks.doubt_words();
        self.names = NameOwners::default();
        self.begun.clear();
        self.jobs.forget_rounds();
        let waiting: Vec<Claimant> =
            self.waiting.iter().filter(|(_, waiting)| is_word(&waiting.wanted.name)).map(|(who, _)| *who).collect();
        for who in waiting {
            self.data.on_withdraw(who);
            self.locks.on_withdraw(who);
            self.leases.end(who);
            self.recount(who.link);
            if let Some(WaitingLock { seq, .. }) = self.wait_no_more(who) {
                self.outputs.push_back(SyncOutput::Answer(Waiter { link: who.link, seq }, Err(moved(me))));
            }
        }
        if is_home {
            // Another home may have given out since what programs have from an earlier time of this one.
            self.forget_held(is_word, |_| moved(me));
        }
        let arrived: Vec<ArrivedParty> = self.arrived.keys().copied().filter(|party| self.is_at_word(*party)).collect();
        for party in arrived {
            self.tell_party(party, Err(moved(me)));
            if let ArrivedParty::Place(who) = party {
                let _ = self.groups.on_leave(who);
                self.recount(who.link);
            }
        }
        let told = std::mem::take(&mut self.deaths);
        let told = told.into_iter().map(|(link, (_, seq))| SyncOutput::Answer(Waiter { link, seq }, Err(moved(me))));
        self.outputs.extend(told);
        self.settle();
    }

    fn is_at_word(&self, party: ArrivedParty) -> bool {
        match party {
            ArrivedParty::Rank(_) => true,
            ArrivedParty::Place(who) => Groups::name_of(&self.groups, who).is_some_and(is_word),
        }
    }

    /// Refuses what the pool's home alone does, where this node is none.
    pub fn ensure_home(&self, link: u64, request: &SyncRequest) -> Result<()> {
        let Some(me) = self.not_home else { return Ok(()) };
        let who = |number| Claimant { link, number };
        let is_homes = match request {
            SyncRequest::Lock { address, .. } | SyncRequest::Join { address, .. } => matches!(address, SyncAddress::Name(_)),
            SyncRequest::Permit { .. } | SyncRequest::AwaitDeath { .. } | SyncRequest::Arrive(Party::Rank(_), _) => true,
            SyncRequest::Arrive(Party::Place(number), _) => self.is_at_word(ArrivedParty::Place(who(*number))),
            SyncRequest::Sleep { number, .. } => self.locks.held(who(*number)).is_some_and(|(name, _)| is_word(name)),
            _ => false,
        };
        if is_homes { Err(moved(me)) } else { Ok(()) }
    }
}
