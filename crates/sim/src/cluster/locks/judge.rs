//! A naive model of who has what and who waits, fed with what crosses the machines' borders; it shares no code with them.

use crate::check::{Check, check};
use hanare_protocol::id::{Gid, Slot};
use hanare_protocol::lock::{Claimant, Recalled};
use hanare_protocol::name::extent_of_name;
use hanare_protocol::wire::sync::Mode;
use hanare_protocol::{Error, Result as Outcome};
use std::collections::{BTreeMap, BTreeSet};

/// A lock as the model sees it.
#[derive(Debug, Default)]
struct Seen {
    /// Holders, with their modes, and true for those told that it was abandoned.
    holders: Vec<(Claimant, Mode, bool)>,
    /// Waiting claimants, in the order in which they came, with their deadlines.
    queue: Vec<(Claimant, Mode, Option<u64>)>,
    /// True if the last exclusive holder died with it, or may have it from a life of the home before.
    is_orphan: bool,
}

impl Seen {
    /// True if another may have it beside the present holders.
    fn has_room(&self, mode: Mode) -> bool {
        self.holders.is_empty() || self.holders.iter().all(|(_, other, _)| *other == mode) && self.holders.len() < most_in(mode)
    }
}

/// True for a lock or group at a name, and not at a byte.
pub(super) fn is_word(name: &str) -> bool {
    extent_of_name(name).is_none()
}

/// Most holders of a lock in a mode.
pub(super) fn most_in(mode: Mode) -> usize {
    match mode {
        Mode::Exclusive => 1,
        Mode::Shared => usize::MAX,
        Mode::OneOf(count) => count as usize,
    }
}

/// Parties that came together.
#[derive(Debug)]
struct Together {
    count: u32,
    parties: BTreeSet<Claimant>,
    /// Waiting parties.
    arrived: BTreeSet<Claimant>,
    /// Parties that are to be told that all arrived.
    owed: BTreeSet<Claimant>,
    is_broken: bool,
}

/// The model.
#[derive(Debug, Default)]
pub(super) struct Model {
    locks: BTreeMap<String, Seen>,
    groups: BTreeMap<u64, Together>,
    /// Last group instance under each name.
    latest: BTreeMap<String, u64>,
    group_count: u64,
    /// True if there was a home of names before: programs may have locks from that.
    doubts_words: bool,
    /// Extents whose home before is lost: programs may have locks from that.
    doubts_bytes: BTreeSet<(Gid, Slot)>,
    leases: SeenLeases,
}

/// Takings by which locks are leased.
#[derive(Debug, Default)]
struct SeenLeases {
    all: BTreeSet<Claimant>,
    /// Leases that no thread uses.
    kept: BTreeSet<Claimant>,
    /// Leases that a node gave up.
    yielded: BTreeSet<Claimant>,
    /// Leases whose connection ended for the home.
    detached: BTreeSet<Claimant>,
}

impl SeenLeases {
    fn end(&mut self, who: Claimant) {
        for those in [&mut self.all, &mut self.kept, &mut self.detached] {
            those.remove(&who);
        }
    }
}

impl Model {
    /// The home is one of these locks, and another was it, or may have been. Returns the claimants that have some from its own time before.
    pub fn begin(&mut self, is_it: impl Fn(&str) -> bool) -> Vec<Claimant> {
        let before: Vec<(String, Seen)> = self.locks.extract_if(.., |name, _| is_it(name)).collect();
        let holders: Vec<Claimant> = before.iter().flat_map(|(_, seen)| seen.holders.iter().map(|(who, ..)| *who)).collect();
        holders.iter().for_each(|who| self.leases.end(*who));
        holders
    }

    /// The home is that of names, and there was one before.
    pub fn doubt_words(&mut self) {
        self.doubts_words = true;
    }

    /// The home follows another one that is lost.
    pub fn doubt_bytes(&mut self, gid: Gid, slot: Slot) {
        self.locks.retain(|name, _| extent_of_name(name) != Some((gid, slot)));
        self.doubts_bytes.insert((gid, slot));
    }

    /// Records a claim for a lock.
    pub fn on_asked(&mut self, name: &str, who: Claimant, mode: Mode, until_ms: Option<u64>) {
        let is_orphan = match extent_of_name(name) {
            Some(extent) => self.doubts_bytes.contains(&extent),
            None => self.doubts_words,
        };
        let seen = self.locks.entry(name.to_owned()).or_insert_with(|| Seen { is_orphan, ..Seen::default() });
        seen.queue.push((who, mode, until_ms));
    }

    /// Checks a grant: no excluding holder, no earlier claimant that waits, and a true word on whether the lock was abandoned.
    pub fn on_granted(&mut self, who: Claimant, abandoned: bool) -> Check {
        let place = |seen: &Seen| seen.queue.iter().position(|(other, ..)| *other == who);
        let found = self.locks.iter_mut().find_map(|(name, seen)| place(seen).map(|at| (name, seen, at)));
        let (name, seen, at) = found.ok_or_else(|| format!("{who:?} is granted what it does not ask for"))?;
        check(at == 0, || format!("{who:?} gets '{name}' before those who came first: {seen:?}"))?;
        let (_, mode, _) = seen.queue.remove(at);
        check(seen.has_room(mode), || format!("lock '{name}' is granted to {who:?} though others have it: {seen:?}"))?;
        check(abandoned == seen.is_orphan, || format!("{who:?} is told {abandoned} of '{name}' being abandoned: {seen:?}"))?;
        seen.is_orphan = false;
        seen.holders.push((who, mode, abandoned));
        Ok(())
    }

    /// Gives a lock back.
    pub fn on_given_back(&mut self, who: Claimant) {
        self.locks.values_mut().for_each(|seen| seen.holders.retain(|(other, ..)| *other != who));
        self.leases.end(who);
    }

    /// A lock is leased to one that has it.
    pub fn on_leased(&mut self, who: Claimant) {
        self.leases.all.insert(who);
    }

    /// Returns true while a taking has a lease.
    pub fn has_lease(&self, who: Claimant) -> bool {
        self.leases.all.contains(&who)
    }

    /// Number of leases.
    pub fn lease_count(&self) -> usize {
        self.leases.all.len()
    }

    /// Records that a lock is given back and its lease kept.
    pub fn on_kept(&mut self, who: Claimant) {
        self.leases.kept.insert(who);
    }

    /// Checks that a kept lease may be used: no node has said that it will not.
    pub fn on_taken_again(&mut self, who: Claimant) -> Check {
        check(!self.leases.yielded.contains(&who), || format!("{who:?} takes what its node has taken back"))?;
        self.leases.kept.remove(&who);
        Ok(())
    }

    /// A node says whether one has a lock, which is so.
    pub fn judge_answer(&mut self, who: Claimant, recalled: Recalled) -> Check {
        if !self.leases.all.contains(&who) {
            return Ok(());
        }
        let is_kept = self.leases.kept.contains(&who);
        let is_so = recalled == if is_kept { Recalled::Kept } else { Recalled::Held };
        check(is_so, || format!("{recalled:?} is said of {who:?}: {:?}", self.leases))?;
        if is_kept {
            self.leases.yielded.insert(who);
        }
        Ok(())
    }

    /// The home hears what a node says of a lock that is leased, or hears nothing for long.
    pub fn on_recalled(&mut self, who: Claimant, recalled: Recalled) {
        if !self.leases.all.contains(&who) {
            return;
        }
        if recalled == Recalled::Held && !self.leases.detached.contains(&who) {
            return self.leases.end(who);
        }
        for seen in self.locks.values_mut() {
            let has = seen.holders.iter().any(|(other, ..)| *other == who);
            seen.is_orphan |= has && recalled != Recalled::Kept;
        }
        self.on_given_back(who);
    }

    /// Checks a refusal to wait: others have the lock.
    pub fn on_busy(&mut self, who: Claimant) -> Check {
        let place = |seen: &Seen| seen.queue.iter().position(|(other, ..)| *other == who);
        let found = self.locks.values_mut().find_map(|seen| place(seen).map(|at| (seen, at)));
        let (seen, at) = found.ok_or_else(|| format!("{who:?} is told of others, and asks for nothing"))?;
        let (_, mode, _) = seen.queue[at];
        check(at > 0 || !seen.has_room(mode), || format!("{who:?} is told of others: {seen:?}"))?;
        seen.queue.remove(at);
        Ok(())
    }

    /// Records the end of a wait: earlier replies were not heard.
    pub fn on_withdrawn(&mut self, who: Claimant) {
        for seen in self.locks.values_mut() {
            seen.is_orphan |= seen.holders.iter().any(|(other, _, was_told)| *other == who && *was_told);
            seen.queue.retain(|(other, ..)| *other != who);
        }
        self.on_given_back(who);
    }

    /// Checks a claimant that has waited long enough.
    pub fn on_late(&mut self, who: Claimant, now_ms: u64) -> Check {
        let places = self.locks.values_mut().map(|seen| &mut seen.queue);
        let mut found = places.filter_map(|queue| Some((queue.iter().position(|(other, ..)| *other == who)?, queue)));
        let (at, queue) = found.next().ok_or_else(|| format!("{who:?} is told to be late, and does not wait"))?;
        let (_, _, until_ms) = queue.remove(at);
        check(until_ms.is_some_and(|until| until <= now_ms), || format!("{who:?} waits until {until_ms:?}, and is late already"))
    }

    /// A connection ended for the home.
    pub fn on_link_gone(&mut self, link: u64) {
        for seen in self.locks.values_mut() {
            let leases = &mut self.leases;
            let goes = |who: &Claimant| who.link == link && !leases.all.contains(who);
            seen.is_orphan |= seen.holders.iter().any(|(who, mode, _)| goes(who) && *mode != Mode::Shared);
            seen.holders.retain(|(who, ..)| !goes(who));
            let detached = seen.holders.iter().map(|(who, ..)| *who).filter(|who| who.link == link);
            leases.detached.extend(detached);
            seen.queue.retain(|(who, ..)| who.link != link);
        }
        let of_link = |who: &&Claimant| who.link == link;
        let gone: Vec<Claimant> = self.groups.values().flat_map(|group| &group.parties).filter(of_link).copied().collect();
        gone.into_iter().for_each(|who| self.on_party_gone(who));
    }

    /// Claimants that have a lock or wait for one over a connection.
    pub fn claims_of(&self, link: u64) -> Vec<Claimant> {
        let holders = self.locks.values().flat_map(|seen| seen.holders.iter().map(|(who, ..)| *who));
        let waiting = self.locks.values().flat_map(|seen| seen.queue.iter().map(|(who, ..)| *who));
        holders.chain(waiting).filter(|who| who.link == link).collect()
    }

    /// Locks that nobody has since who had them alone is gone.
    pub fn orphan_count(&self) -> usize {
        self.locks.values().filter(|seen| seen.is_orphan && seen.holders.is_empty()).count()
    }

    /// Checks a join.
    pub fn on_joined(&mut self, name: &str, count: u32, who: Claimant) -> Check {
        let latest = self.latest.get(name).copied();
        let is_open = |id: &u64| self.groups.get(id).is_some_and(|group| !group.is_broken);
        let id = latest.filter(is_open).unwrap_or_else(|| {
            self.group_count += 1;
            self.latest.insert(name.to_owned(), self.group_count);
            let (parties, arrived, owed) = Default::default();
            self.groups.insert(self.group_count, Together { count, parties, arrived, owed, is_broken: false });
            self.group_count
        });
        let group = self.groups.get_mut(&id).expect("just found or made");
        group.parties.insert(who);
        check(group.parties.len() <= count as usize, || format!("more than {count} parties: {group:?}"))
    }

    fn group(&mut self, who: Claimant) -> Result<&mut Together, String> {
        let found = self.groups.values_mut().find(|group| group.parties.contains(&who));
        found.ok_or_else(|| format!("{who:?} is no party"))
    }

    /// Checks an arrival that waits.
    pub fn on_met(&mut self, who: Claimant) -> Check {
        let group = self.group(who)?;
        group.arrived.insert(who);
        let is_due = group.arrived.len() < group.count as usize && !group.is_broken;
        check(is_due, || format!("{who:?} waits where nobody is missing, or one is gone: {group:?}"))
    }

    /// The last one arrived.
    pub fn on_all_met(&mut self, who: Claimant) -> Check {
        let group = self.group(who)?;
        group.arrived.insert(who);
        let is_due = group.arrived.len() == group.count as usize && group.arrived == group.parties && !group.is_broken;
        check(is_due, || format!("{who:?} is let through before all have arrived: {group:?}"))?;
        group.owed = std::mem::take(&mut group.arrived);
        group.owed.remove(&who);
        Ok(())
    }

    /// Checks the reply to a party that waited.
    pub fn on_told(&mut self, who: Claimant, outcome: &Outcome<()>) -> Check {
        let group = self.group(who)?;
        let is_due = match outcome {
            Ok(()) => group.owed.remove(&who),
            Err(_) => group.is_broken && group.arrived.remove(&who),
        };
        check(is_due, || format!("{who:?} is told {outcome:?}: {group:?}"))
    }

    /// Checks the refusal of an arrival.
    pub fn on_refused(&mut self, who: Claimant, error: &Error) -> Check {
        let group = self.group(who)?;
        check(group.is_broken, || format!("{who:?} is refused ({error}), and no party went: {group:?}"))
    }

    /// A party left, or its connection ended.
    pub fn on_party_gone(&mut self, who: Claimant) {
        for group in self.groups.values_mut().filter(|group| group.parties.contains(&who)) {
            group.is_broken = true;
            group.parties.remove(&who);
            group.arrived.remove(&who);
            group.owed.remove(&who);
        }
        self.groups.retain(|_, group| !group.parties.is_empty());
    }

    /// After every event nobody waits for what could be had, or beyond its bound, and nobody waits in vain.
    pub fn judge(&self, now_ms: u64) -> Check {
        for (name, seen) in &self.locks {
            let forgotten = seen.queue.first().filter(|(_, mode, _)| seen.has_room(*mode));
            check(forgotten.is_none(), || format!("{forgotten:?} waits for '{name}', which it could have: {seen:?}"))?;
            let late = seen.queue.iter().find(|(_, _, until)| until.is_some_and(|until| until < now_ms));
            check(late.is_none(), || format!("{late:?} waits for '{name}' beyond its bound"))?;
        }
        for group in self.groups.values() {
            check(group.owed.is_empty(), || format!("{:?} are not told that all arrived", group.owed))?;
            check(!group.is_broken || group.arrived.is_empty(), || format!("somebody waits for one that is gone: {group:?}"))?;
        }
        Ok(())
    }

    /// Checks a party that waits at the end: then not all parties came.
    pub fn judge_lonely(&self, who: Claimant) -> Check {
        let group = self.groups.values().find(|group| group.arrived.contains(&who));
        let is_due = group.is_some_and(|group| group.arrived.len() < group.count as usize);
        check(is_due, || format!("{who:?} waits at the end: {group:?}"))
    }
}
