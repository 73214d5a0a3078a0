//! Invariants of every state that a log builds. A snapshot is input, because any program that may write the log's region wrote it.

use super::bytes::{FILE_LEN_MAX, is_place};
use super::names::is_name;
use super::{Inode, Kind, SESSION_COUNT_MAX, Tree};
use crate::files::record::{Ino, ROOT};
use crate::files::space::Run;
use std::collections::{BTreeMap, BTreeSet};

/// Limit of numbers that are counted up: no file system sees this number of changes.
const PLAUSIBLE_COUNT: u64 = 1 << 62;

/// Why a state is none that records build.
pub type Unsound = &'static str;

impl Tree {
    /// Refuses a state that no records build, and so all numbers, places and names that could break a mount.
    ///
    /// **Cost**: a look at each file, block run and name.
    pub fn check(&self) -> Result<(), Unsound> {
        let ensure = |holds: bool, why: Unsound| if holds { Ok(()) } else { Err(why) };
        ensure(self.position < PLAUSIBLE_COUNT && self.next < PLAUSIBLE_COUNT, "its numbers are used up")?;
        ensure(self.inodes.keys().all(|ino| *ino < self.next), "a file has a number that was never given")?;
        ensure(self.parent(ROOT) == Some(ROOT), "it has no root")?;
        self.check_sessions()?;
        self.check_blocks()?;
        self.check_names()?;
        ensure(self.orphans.keys().all(|ino| self.inodes.contains_key(ino)), "a file without a name is not there")?;
        let is_sound = |(ino, locks): (&Ino, &crate::files::locks::Locks)| self.inodes.contains_key(ino) && locks.are_sound();
        ensure(self.locks.iter().all(is_sound), "locks make no sense")
    }

    fn check_sessions(&self) -> Result<(), Unsound> {
        let slots: BTreeSet<u32> = self.sessions.values().map(|session| session.slot).collect();
        if slots.len() < self.sessions.len() || slots.iter().any(|slot| *slot >= SESSION_COUNT_MAX) {
            return Err("mounts have no places of their own");
        }
        let mut making: Vec<u32> = self.sessions.values().flat_map(|session| &session.making).copied().collect();
        let is_given = |number: &u32| *number < self.space.next && !self.space.segments.contains_key(number);
        making.sort_unstable();
        match making.iter().all(is_given) && making.windows(2).all(|two| two[0] < two[1]) {
            true => Ok(()),
            false => Err("a data region's number was never given, or twice"),
        }
    }

    /// Each block of a data region is free, reserved, waiting or a file's, once.
    fn check_blocks(&self) -> Result<(), Unsound> {
        let mut runs: Vec<Run> = self.space.free.iter().chain(self.space.limbo()).collect();
        self.sessions.values().for_each(|session| runs.extend(session.reserve.iter()));
        for inode in self.inodes.values() {
            let Kind::File { size, blocks } = &inode.kind else { continue };
            let mut end = 0;
            for (place, run) in blocks.iter() {
                if place < end || !is_place(place, run) || *size > FILE_LEN_MAX {
                    return Err("a file's blocks make no sense");
                }
                end = place + u64::from(run.count);
                runs.push(run);
            }
            if *size > FILE_LEN_MAX {
                return Err("a file is too long");
            }
        }
        runs.sort_by_key(|run| (run.segment, run.block));
        let is_apart = |two: &[Run]| two[0].segment < two[1].segment || two[0].end() <= u64::from(two[1].block);
        if runs.iter().any(|run| run.count == 0) || !runs.windows(2).all(is_apart) {
            return Err("a block is in two places");
        }
        let mut counts = BTreeMap::<u32, u64>::new();
        for run in &runs {
            if self.space.segments.get(&run.segment).is_none_or(|segment| run.end() > u64::from(segment.blocks)) {
                return Err("a block is in no data region");
            }
            *counts.entry(run.segment).or_default() += u64::from(run.count);
        }
        let is_whole = |(number, segment): (&u32, &crate::files::space::Segment)| {
            *number < self.space.next && counts.get(number) == Some(&u64::from(segment.blocks))
        };
        if self.space.segments.iter().all(is_whole) { Ok(()) } else { Err("blocks are lost") }
    }

    /// Each folder that has a name hangs below the root, and each link is counted.
    fn check_names(&self) -> Result<(), Unsound> {
        let mut links = BTreeMap::<Ino, u32>::new();
        for (ino, inode) in &self.inodes {
            let Kind::Folder { names, .. } = &inode.kind else { continue };
            if !self.is_orphan(*ino) {
                *links.entry(*ino).or_default() += 2;
            }
            for (name, child) in names {
                let Some(found) = self.inodes.get(child).filter(|_| is_name(name)) else {
                    return Err("a name stands for nothing");
                };
                if found.is_folder() && (self.parent(*child) != Some(*ino) || *child == ROOT || self.is_orphan(*child)) {
                    return Err("a folder is in two places");
                }
                *links.entry(if found.is_folder() { *ino } else { *child }).or_default() += 1;
            }
        }
        let is_counted = |(ino, inode): (&Ino, &Inode)| {
            inode.links == links.get(ino).copied().unwrap_or(0) && (inode.links == 0) == self.is_orphan(*ino)
        };
        if !self.inodes.iter().all(is_counted) {
            return Err("links are not as many as counted");
        }
        let reached = self.folders_below_root();
        let hangs = |(ino, inode): (&Ino, &Inode)| !inode.is_folder() || self.is_orphan(*ino) || reached.contains(ino);
        if self.inodes.iter().all(hangs) { Ok(()) } else { Err("a folder hangs nowhere") }
    }

    fn folders_below_root(&self) -> BTreeSet<Ino> {
        let (mut reached, mut next) = (BTreeSet::from([ROOT]), vec![ROOT]);
        while let Some(folder) = next.pop() {
            let inside = self.names(folder).into_iter().flatten().map(|(_, child)| *child);
            let folders = inside.filter(|child| self.names(*child).is_some());
            next.extend(folders.filter(|child| reached.insert(*child)));
        }
        reached
    }
}
