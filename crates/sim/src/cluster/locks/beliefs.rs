//! Locks that threads take themselves to have: never more than their homes let in, and none at the end.

use super::Cluster;
use super::clients::{Client, GrantedLock, Waits};
use super::judge::{is_word, most_in};
use super::leases::ProgramTaking;
use crate::check::{Check, check};
use hanare_protocol::lock::Claimant;
use hanare_protocol::wire::sync::{Mode, Party, SyncRequest};
use hanare_ring::lease::table::Again;

impl Cluster {
    /// Checks the threads that believe to have a lock, over connections that the home has not given up. A single thread has it, or all have it
    /// in one mode, which lets in as many. Threads that have it from a former home are not told. The first at the next home is.
    pub(super) fn judge_belief(&self, name: &str) -> Check {
        let is_open = |held: &&GrantedLock| {
            let who = held.taking.who();
            let home = held.taking.home;
            let is_of_today = if is_word(name) { self.may_answer_names(home) } else { self.may_answer_byte(home, name) };
            is_of_today && self.locks.links.is_open_at_home(who.link) && !self.locks.given_up.contains(&who)
        };
        let have: Vec<&GrantedLock> = self.believers(name).filter(is_open).collect();
        let most = have.iter().map(|held| most_in(held.mode)).min().unwrap_or_default();
        let is_one_mode = have.iter().all(|held| held.mode == have[0].mode);
        check(is_one_mode && have.len() <= most, || format!("lock '{name}' is held twice: {have:?}"))
    }

    /// The locks of a name that threads believe to have.
    fn believers(&self, name: &str) -> impl Iterator<Item = &GrantedLock> {
        let all = self.locks.clients.values().flat_map(|client| &client.threads).flat_map(|thread| &thread.held);
        all.filter(move |held| held.taking.name == name)
    }

    /// A thread that believes to have a lock alone, over any connection.
    pub(super) fn believer(&self, name: &str) -> Option<&ProgramTaking> {
        self.believers(name).find(|held| held.mode == Mode::Exclusive).map(|held| &*held.taking)
    }

    /// At the end a program has nothing, and waits only for parties that never came. What it could take again, its home knows.
    pub(super) fn judge_client(&self, id: u64, client: &Client) -> Check {
        for thread in &client.threads {
            check(thread.held.is_empty(), || format!("program {id} has not got back to giving back: {thread:?}"))?;
            match &thread.waits {
                None => {}
                Some(Waits { request: SyncRequest::Arrive(Party::Place(number), _), link, .. }) => {
                    let home = self.locks.links.get(*link).and_then(|link| self.locks.homes.get(&link.home));
                    let service = home.ok_or_else(|| format!("program {id} waits for nobody"))?;
                    service.model.judge_lonely(Claimant { link: *link, number: *number })?;
                }
                Some(waits) => return Err(format!("program {id} has no answer to {waits:?}")),
            }
        }
        for taking in client.table.takings() {
            let again = client.table.take(&client.words, &taking.name, Mode::Exclusive, || self.now_ns());
            let is_known = self.locks.homes.get(&taking.home).is_some_and(|service| service.model.has_lease(taking.who()));
            check(is_known || !matches!(again, Again::Taken(_)), || {
                format!("program {id} could take {taking:?}, and the home does not know")
            })?;
        }
        Ok(())
    }
}
