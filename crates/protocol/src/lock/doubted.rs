//! Locks that programs may have from a home before: the first to take one is told that it was abandoned.

use super::state::Lock;
use super::{Claimant, Locks, Phase, RecallStep, one_less};
use crate::id::{Gid, Slot};
use crate::name::extent_of_name;
use std::collections::BTreeSet;

/// The locks of which a home cannot know if anybody holds them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Doubted {
    /// True for locks at names.
    pub names: bool,
    /// True for locks at all bytes.
    pub bytes: bool,
    /// Extents whose home was lost, with the locks at their bytes.
    pub extents: BTreeSet<(Gid, Slot)>,
}

impl Doubted {
    pub fn has(&self, name: &str) -> bool {
        match extent_of_name(name) {
            Some(extent) => self.bytes || self.extents.contains(&extent),
            None => self.names,
        }
    }
}

impl Locks {
    /// Another home had the locks at names: clients may have some from that one.
    pub fn doubt_words(&mut self) {
        self.known.get_or_insert_default().retain(|name| extent_of_name(name).is_some());
        self.doubted.names = true;
    }

    /// The home of an extent is lost, and the home here follows it: clients may have locks at its bytes from that one.
    pub fn doubt_bytes(&mut self, gid: Gid, slot: Slot) {
        self.known.get_or_insert_default().retain(|name| extent_of_name(name) != Some((gid, slot)));
        self.doubted.extents.insert((gid, slot));
    }

    /// Forgets locks of which another home may have given out any since. Who has one, or waits for it, has no claim any more. Returns those.
    pub fn forget(&mut self, is_it: impl Fn(&str) -> bool) -> Vec<Claimant> {
        let forgotten: Vec<(String, Lock)> = self.locks.extract_if(.., |name, _| is_it(name)).collect();
        self.recalls.extend(forgotten.iter().filter_map(|(_, lock)| lock.asked()).map(RecallStep::End));
        let mut gone: BTreeSet<Claimant> = self.claims.extract_if(.., |_, name| is_it(name)).map(|(who, _)| who).collect();
        gone.iter().for_each(|who| one_less(&mut self.links, who.link));
        for (name, _) in &forgotten {
            let asleep = self.sleepers.wake_all_of(name);
            asleep.iter().for_each(|claim| one_less(&mut self.links, claim.who.link));
            gone.extend(asleep.into_iter().map(|claim| claim.who));
        }
        gone.extend(self.detached.extract_if(.., |_, name| is_it(name)).map(|(who, _)| who));
        self.grants.retain(|grant| !gone.contains(&grant.who));
        self.busy.retain(|who| !gone.contains(who));
        gone.into_iter().collect()
    }

    /// True if programs may have locks at the bytes of an extent that nobody has as far as is known: a holder was lost, or an earlier home.
    pub fn leaves_doubt(&self, gid: Gid, slot: Slot) -> bool {
        let is_there = |name: &str| extent_of_name(name) == Some((gid, slot));
        let is_orphaned = |(name, lock): (&String, &Lock)| lock.phase() == Phase::Orphaned && is_there(name);
        self.doubted.bytes || self.doubted.extents.contains(&(gid, slot)) || self.locks.iter().any(is_orphaned)
    }

    /// Extents are no more, but for those that are there.
    pub fn on_freed(&mut self, is_there: impl Fn(Gid, Slot) -> bool) {
        self.doubted.extents.retain(|(gid, slot)| is_there(*gid, *slot));
    }

    /// Regions have their bytes from a life before this one: so clients may have locks at their bytes, too.
    pub fn with_bytes_of_another_life(self) -> Locks {
        let known = Some(self.known.unwrap_or_default());
        let doubted = Doubted { bytes: true, ..self.doubted };
        Locks { known, doubted, ..self }
    }
}
