//! Claims that end: given back, given up, or gone with their connection.

use super::state::{Lock, Parting};
use super::{Claimant, Locks, Phase, one_less};
use std::collections::BTreeMap;

impl Locks {
    /// A connection ended: its locks go on to others, which are told.
    pub fn on_link_gone(&mut self, link: u64) {
        // First of all: an abandonment wakes nobody that is gone.
        for who in self.sleepers.of_link(link) {
            self.forget_sleeper(who);
        }
        let gone: Vec<Claimant> = self.claims.range(Claimant::all_of(link)).map(|(who, _)| *who).collect();
        // First those that wait: no lock goes to one that is gone, which would take the news of the abandonment with it.
        let (holding, waiting): (Vec<_>, Vec<_>) = gone.into_iter().partition(|who| self.has(*who));
        // All claims of a lock at once. No place goes to a claimant that is gone, and the next is told of the dead, once.
        let mut by_lock: BTreeMap<String, Vec<Claimant>> = BTreeMap::new();
        for who in waiting.into_iter().chain(holding) {
            by_lock.entry(self.claims[&who].clone()).or_default().push(who);
        }
        by_lock.into_iter().for_each(|(name, those)| self.let_all_go(&name, &those, Parting::Dead));
        self.grants.retain(|grant| grant.who.link != link);
        self.busy.retain(|who| who.link != link);
    }

    /// Releases a lock, or ends a wait for it; a claimant with neither changes nothing.
    pub(super) fn let_go(&mut self, who: Claimant, how: Parting) {
        if let Some(name) = self.claims.get(&who).cloned() {
            self.let_all_go(&name, &[who], how);
        }
    }

    fn let_all_go(&mut self, name: &str, those: &[Claimant], how: Parting) {
        for who in those {
            self.claims.remove(who);
            one_less(&mut self.links, who.link);
        }
        self.change(name, |lock| those.iter().for_each(|who| lock.let_go(*who, how)));
        let lock = self.locks.get(name).filter(|lock| lock.phase() == Phase::Detached);
        if let Some(who) = lock.and_then(Lock::asked).filter(|who| those.contains(who)) {
            self.detached.insert(who, name.to_owned());
        }
    }
}
