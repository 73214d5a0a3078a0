//! Named groups: any client may be a party, or several. Clients that join under a name come into one *group instance*, until all parties of
//! the group are there.
//!
//! A party goes by leaving or by the end of its connection; the others get its name and the cause. They leave and join again to go on.
//! Under the same name a new group instance has begun by then, with the parties that came again. A group instance that all have left is not
//! kept.

use super::{PartyReply, Phase, Rounds};
use crate::error::{Error, Result};
use crate::id::PartyName;
use crate::limits::{GROUP_COUNT_MAX, LINK_CLAIM_COUNT_MAX, RANK_COUNT_MAX};
use crate::lock::{Claimant, one_less};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A party's place in its group instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartySlot {
    /// The group instance's number: no other of this home's life has it.
    pub instance: u64,
    /// Number of parties that joined before.
    pub party: u32,
}

/// Parties that meet.
///
/// - There are never more parties than the group has; in a broken one, fewer.
/// - Arrived parties are parties of the group.
#[derive(Clone, Debug, PartialEq, Eq)]
struct GroupInstance {
    name: String,
    count: u32,
    parties: BTreeMap<Claimant, PartyName>,
    rounds: Rounds<Claimant>,
}

impl GroupInstance {
    fn phase(&self) -> Phase {
        self.rounds.phase()
    }

    fn bad(&self, asked: u32, reason: &str) -> Error {
        Error::BadGroup { name: self.name.clone(), asked, parties: self.count, reason: reason.to_owned() }
    }

    /// Returns how many joined before.
    fn on_join(&mut self, who: Claimant, count: u32, name: PartyName) -> Result<u32> {
        if count != self.count {
            return Err(self.bad(count, "give the number that the others gave, or another name"));
        }
        if self.parties.len() >= self.count as usize {
            return Err(self.bad(count, "all of its parties are there; wait until one leaves, or use another name"));
        }
        // Parties do not join after one has left, so the number is free; it is below `count`, a `u32`.
        let party = self.parties.len() as u32;
        self.parties.insert(who, name);
        self.rounds.on_join();
        Ok(party)
    }

    /// A party arrives; returns whom to release when it was the last.
    fn on_meet(&mut self, who: Claimant) -> Result<BTreeSet<Claimant>> {
        if self.rounds.waits(who) {
            return Err(self.bad(self.count, "this party waits there already; let each thread be a party of its own"));
        }
        self.rounds.on_meet(who, self.count)
    }

    /// A party goes; returns the others that wait in vain, and why.
    fn on_go(&mut self, who: Claimant, reason: &str) -> (BTreeSet<Claimant>, Error) {
        let party = self.parties.remove(&who).expect("the caller found it here");
        let (group, reason) = (self.name.clone(), format!("{party}: {reason}"));
        let error = Error::PartyGone { group, party: party.client, reason };
        let mut waiting = self.rounds.on_go(error.clone(), self.parties.is_empty());
        waiting.remove(&who);
        (waiting, error)
    }
}

/// The groups of a pool. One is kept as long as it has a party.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Groups {
    instances: BTreeMap<u64, GroupInstance>,
    /// The group instance of each name that began last.
    latest: BTreeMap<String, u64>,
    /// The group instance of each party.
    parties: BTreeMap<Claimant, u64>,
    /// Number of parties of each connection.
    links: BTreeMap<u64, usize>,
    births: u64,
    replies: VecDeque<PartyReply<Claimant>>,
}

impl Groups {
    /// No group yet.
    pub fn new() -> Groups {
        Groups::default()
    }

    /// Number of group instances.
    pub fn count(&self) -> usize {
        self.instances.len()
    }

    /// The names of all group instances.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.instances.values().map(|instance| instance.name.as_str())
    }

    /// Number of parties of a connection.
    pub fn count_of(&self, link: u64) -> usize {
        self.links.get(&link).copied().unwrap_or_default()
    }

    /// The name of a party's group.
    pub fn name_of(&self, who: Claimant) -> Option<&str> {
        self.parties.get(&who).and_then(|instance| self.instances.get(instance)).map(|instance| instance.name.as_str())
    }

    /// The state of the group instance that began last under a name.
    pub fn phase(&self, name: &str) -> Phase {
        self.latest.get(name).map_or(Phase::Empty, |instance| self.instances[instance].phase())
    }

    /// Joins a group of `count`; returns the party's number.
    ///
    /// **Errors**: [`Error::BadGroup`] where the group has another number of parties, or all of them; [`Error::LimitReached`].
    pub fn on_join(&mut self, name: &str, count: u32, who: Claimant, party: PartyName) -> Result<PartySlot> {
        let bad = |reason: &str| {
            Err(Error::BadGroup { name: name.to_owned(), asked: count, parties: count, reason: reason.to_owned() })
        };
        if count == 0 {
            return bad("nobody can meet there; a group has at least 1 party");
        }
        if count > RANK_COUNT_MAX {
            return Err(Error::LimitReached { what: format!("{count} parties of a group"), limit: RANK_COUNT_MAX.into() });
        }
        if self.count_of(who.link) == LINK_CLAIM_COUNT_MAX {
            return Err(Error::LimitReached {
                what: "places of one client in groups".to_owned(),
                limit: LINK_CLAIM_COUNT_MAX as u64,
            });
        }
        if self.parties.contains_key(&who) {
            return bad("the number of this place has been used before");
        }
        let latest = self.latest.get(name).copied().filter(|instance| self.instances[instance].phase() != Phase::Broken);
        let id = match latest {
            Some(instance) => instance,
            None => self.begin(name, count)?,
        };
        let party = self.instances.get_mut(&id).expect("it was just found").on_join(who, count, party)?;
        self.parties.insert(who, id);
        *self.links.entry(who.link).or_default() += 1;
        Ok(PartySlot { instance: id, party })
    }

    fn begin(&mut self, name: &str, count: u32) -> Result<u64> {
        if self.instances.len() >= GROUP_COUNT_MAX {
            return Err(Error::LimitReached { what: "named groups at once".to_owned(), limit: GROUP_COUNT_MAX as u64 });
        }
        self.births += 1;
        let instance = GroupInstance { name: name.to_owned(), count, parties: BTreeMap::new(), rounds: Rounds::new() };
        self.instances.insert(self.births, instance);
        self.latest.insert(name.to_owned(), self.births);
        Ok(self.births)
    }

    /// A party arrives at its group's barrier. Answers follow by [`Groups::poll`], all of them when the last has arrived.
    ///
    /// **Errors**: [`Error::PartyGone`] when another party went; [`Error::BadGroup`] when it waits there already, or is no party.
    pub fn on_meet(&mut self, who: Claimant) -> Result<()> {
        let released = self.instance(who)?.on_meet(who)?;
        self.replies.extend(released.into_iter().map(|who| PartyReply { who, outcome: Ok(()) }));
        Ok(())
    }

    /// A party leaves its group.
    ///
    /// **Errors**: [`Error::BadGroup`] when it is no party.
    pub fn on_leave(&mut self, who: Claimant) -> Result<()> {
        self.instance(who)?;
        self.go(who, "it left the group");
        Ok(())
    }

    /// A connection ended: its parties are gone.
    pub fn on_link_gone(&mut self, link: u64) {
        let gone: Vec<Claimant> = self.parties.range(Claimant::all_of(link)).map(|(who, _)| *who).collect();
        gone.into_iter().for_each(|who| self.go(who, "its process or its connection ended"));
        // Its own have nobody who could be told of each other's end.
        self.replies.retain(|reply| reply.who.link != link);
    }

    /// The next reply to a party that waited.
    pub fn poll(&mut self) -> Option<PartyReply<Claimant>> {
        self.replies.pop_front()
    }

    fn instance(&mut self, who: Claimant) -> Result<&mut GroupInstance> {
        let instance = self.parties.get(&who).and_then(|id| self.instances.get_mut(id));
        let reason = || "it is no party; join first".to_owned();
        instance.ok_or_else(|| Error::BadGroup { name: String::new(), asked: 0, parties: 0, reason: reason() })
    }

    fn go(&mut self, who: Claimant, reason: &str) {
        let Some(id) = self.parties.remove(&who) else { return };
        one_less(&mut self.links, who.link);
        let instance = self.instances.get_mut(&id).expect("a party's instance is kept");
        let (waiting, error) = instance.on_go(who, reason);
        self.replies.extend(waiting.into_iter().map(|who| PartyReply { who, outcome: Err(error.clone()) }));
        if instance.phase() == Phase::Empty {
            let GroupInstance { name, .. } = self.instances.remove(&id).expect("as just seen");
            if self.latest.get(&name) == Some(&id) {
                self.latest.remove(&name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{ClientId, NodeId, Rank};
    use proptest::prelude::*;

    fn who(link: u64) -> Claimant {
        Claimant { link, number: 0 }
    }

    fn named(client: u64) -> PartyName {
        let rank = client.is_multiple_of(2).then_some(Rank(client as u32 - 100));
        PartyName { client: ClientId(client), rank, process: 4711, node: NodeId(3) }
    }

    fn join(groups: &mut Groups, count: u32, link: u64) -> Result<PartySlot> {
        groups.on_join("g", count, who(link), named(100 + link))
    }

    fn told(groups: &mut Groups) -> Vec<(u64, bool)> {
        std::iter::from_fn(|| groups.poll()).map(|reply| (reply.who.link, reply.outcome.is_ok())).collect()
    }

    #[test]
    fn parties_meet_round_after_round() {
        let mut groups = Groups::new();
        let first = join(&mut groups, 2, 0).unwrap();
        assert_eq!(groups.on_meet(who(0)), Ok(()), "the other may join later");
        assert_eq!(join(&mut groups, 2, 1), Ok(PartySlot { party: 1, ..first }));
        assert_eq!(told(&mut groups), []);
        assert_eq!(groups.on_meet(who(1)), Ok(()));
        assert_eq!(told(&mut groups), [(0, true), (1, true)]);
        assert_eq!(groups.on_meet(who(1)), Ok(()));
        assert_eq!(told(&mut groups), []);
        assert_eq!(groups.on_meet(who(0)), Ok(()));
        assert_eq!(told(&mut groups), [(0, true), (1, true)]);
        groups.on_leave(who(0)).unwrap();
        groups.on_leave(who(1)).unwrap();
        assert_eq!((groups.count(), groups.latest.len(), groups.parties.len()), (0, 0, 0), "nothing is kept");
    }

    #[test]
    fn who_goes_is_named_to_those_who_wait_and_those_who_come() {
        let mut groups = Groups::new();
        for link in 0..3 {
            join(&mut groups, 3, link).unwrap();
        }
        groups.on_meet(who(0)).unwrap();
        groups.on_link_gone(2);
        let reason = "rank 2, process 4711 on the host of node 3: its process or its connection ended".into();
        let gone = Error::PartyGone { group: "g".into(), party: ClientId(102), reason };
        assert_eq!(groups.poll(), Some(PartyReply { who: who(0), outcome: Err(gone.clone()) }));
        assert_eq!(groups.on_meet(who(1)), Err(gone));
        groups.on_link_gone(1);
        groups.on_leave(who(0)).unwrap();
        assert_eq!(groups.count(), 0);
    }

    #[test]
    fn parties_that_die_together_are_not_told_of_each_other() {
        let mut groups = Groups::new();
        join(&mut groups, 3, 1).unwrap();
        join(&mut groups, 3, 2).unwrap();
        let second = Claimant { link: 1, number: 1 };
        groups.on_join("g", 3, second, named(101)).unwrap();
        groups.on_meet(second).unwrap();
        groups.on_meet(who(2)).unwrap();
        groups.on_link_gone(1);
        assert_eq!(told(&mut groups), [(2, false)]);
    }

    #[test]
    fn who_leaves_and_comes_again_meets_those_who_do_too() {
        let mut groups = Groups::new();
        for link in 0..2 {
            join(&mut groups, 2, link).unwrap();
        }
        groups.on_leave(who(0)).unwrap();
        let again = join(&mut groups, 2, 0).unwrap();
        assert_eq!((again.instance, again.party), (2, 0), "an instance and numbers of its own");
        assert_eq!(groups.on_meet(who(0)), Ok(()));
        groups.on_leave(who(1)).unwrap();
        assert_eq!(told(&mut groups), [], "that was another instance");
        join(&mut groups, 2, 1).unwrap();
        assert_eq!(groups.on_meet(who(1)), Ok(()));
        assert_eq!(told(&mut groups), [(0, true), (1, true)]);
    }

    #[test]
    fn numbers_that_do_not_agree_and_one_too_many_are_refused_with_both_numbers() {
        let mut groups = Groups::new();
        join(&mut groups, 2, 0).unwrap();
        let text = join(&mut groups, 3, 1).unwrap_err().to_string();
        assert!(text.contains("'g' has 2 parties") && text.contains("3 were asked for"), "{text}");
        join(&mut groups, 2, 1).unwrap();
        assert!(join(&mut groups, 2, 2).unwrap_err().to_string().contains("all of its parties"));
        assert!(join(&mut groups, 2, 1).unwrap_err().to_string().contains("used before"));
        assert!(matches!(groups.on_join("h", 0, who(3), named(103)), Err(Error::BadGroup { .. })));
        assert!(matches!(groups.on_join("h", u32::MAX, who(3), named(103)), Err(Error::LimitReached { .. })));
        groups.on_meet(who(0)).unwrap();
        assert!(groups.on_meet(who(0)).unwrap_err().to_string().contains("already"));
        assert!(matches!(groups.on_meet(who(9)), Err(Error::BadGroup { .. })));
        assert!(matches!(groups.on_leave(who(9)), Err(Error::BadGroup { .. })));
        assert_eq!(groups.count(), 1, "refusals leave nothing");
        assert_eq!(groups.on_meet(who(1)), Ok(()));
        assert_eq!(told(&mut groups), [(0, true), (1, true)], "and disturb nobody");
    }

    proptest! {
        /// No party is released before all have arrived as often, and none waits with one that is gone.
        #[test]
        fn no_history_releases_early_or_leaves_one_waiting(steps in prop::collection::vec((0..4u64, 0..8u32), 1..200)) {
            let mut groups = Groups::new();
            // For each: party or not, the group instance, its rounds there, and whether it waits.
            let mut parties: [Option<(u64, u64, bool)>; 4] = [None; 4];
            for (link, action) in steps {
                let at = link as usize;
                match (action, parties[at]) {
                    (0..=2, None) => {
                        if join(&mut groups, 3, link).is_ok() {
                            parties[at] = Some((groups.parties[&who(link)], 0, false));
                        }
                    }
                    (1..=5, Some((instance, rounds, false))) => match groups.on_meet(who(link)) {
                        Ok(()) => parties[at] = Some((instance, rounds, true)),
                        Err(error) => assert!(matches!(error, Error::PartyGone { .. }), "{error}"),
                    },
                    (6, Some(_)) => {
                        groups.on_link_gone(link);
                        parties[at] = None;
                    }
                    (7, Some((_, _, false))) => {
                        groups.on_leave(who(link)).unwrap();
                        parties[at] = None;
                    }
                    _ => continue,
                }
                for (link, is_release) in told(&mut groups) {
                    let (instance, rounds, waits) = parties[link as usize].unwrap();
                    prop_assert!(waits);
                    parties[link as usize] = Some((instance, rounds + u64::from(is_release), false));
                }
                for (instance, state) in &groups.instances {
                    let here: Vec<_> = parties.iter().flatten().filter(|party| party.0 == *instance).collect();
                    prop_assert_eq!(here.len(), state.parties.len());
                    let least = here.iter().map(|party| party.1).min();
                    prop_assert!(here.iter().all(|party| Some(party.1) == least), "one is a round ahead");
                    let waiting = here.iter().filter(|party| party.2).count();
                    prop_assert!(waiting < 3 && (waiting == 0 || state.phase() == Phase::Gathering));
                }
            }
        }
    }
}
