//! Data bound to locks. Programs with locks ([`super::locks`]) take some whose bytes lie side by side in pages, and store. They release the
//! bytes one by one at the homes of two pages, or together at the lock's home. Then they give the locks back.
//!
//! | a lock is | its data lie in | their home |
//! |---|---|---|
//! | a byte of a region | the same region: in some runs with a copy, in others without | that of the lock |
//! | a name, in runs within the budget | two regions of words, with copies | any node |
//!
//! Homes of data know nothing of locks. They take no stores of a program whose lock another may have. The product has that by connections that end
//! together. A path between two hosts may be slower: a known limit, and not played here.
//! A program that binds data, or is told that they are torn, stores all of them anew.
//!
//! | module | holds |
//! |---|---|
//! | `programs` | what programs do with the data of their locks, and what comes of answers |
//! | `releases` | releases, as programs send them |
//! | `accesses` | requests to the homes of data |
//! | `frames` | pages of a program, and what an update, a release and a loss do to them |
//! | `judge` | what each lock's bytes are to be |

mod accesses;
mod frames;
mod judge;
mod programs;
mod releases;

use super::memory::SimExtent;
use super::process::ProcessLife;
use super::{Cluster, Defect, Event, Terms, locks, words};
use crate::Plan;
use crate::check::Check;
use accesses::EntryAccess;
use frames::PAGE_COUNT;
use hanare_protocol::Result as Outcome;
use hanare_protocol::entry::{Condition, DataGrant, Stores};
use hanare_protocol::lock::{Claimant, Mode};
use hanare_protocol::wire::sync::{SyncAnswer, SyncRequest};
use judge::{DataLock, EntryJudge};
use programs::EntryProgram;
use std::collections::BTreeMap;

/// Something that happens to data of locks.
#[derive(Clone, Debug)]
pub(crate) enum EntryEvent {
    /// A request reaches a home of data.
    Access(EntryAccess),
    /// A program's request of that number is answered.
    Accessed(u64, u64, Vec<u8>),
    /// A request has had no answer for long.
    Late(u64, u64),
    /// A defect: a byte of a release that was answered reaches its home.
    Put(SimExtent, u64, u8),
    Fault,
}

/// All programs with data, and what they released.
#[derive(Debug)]
pub(super) struct Entries {
    /// Holders of the region of locks at bytes.
    copies: u8,
    /// Programs with data, by their numbers among those with locks.
    programs: BTreeMap<u64, EntryProgram>,
    judge: EntryJudge,
    /// Number of the last request to a home of data.
    accesses: u64,
    /// The last byte that was stored.
    stored: u8,
}

/// Data of locks, in a run that has some.
pub(super) fn entries(plan: Plan, terms: Terms, defect: Option<Defect>) -> Option<Entries> {
    let is_played = defect.map_or(plan.seed % 4 == 1, Defect::is_of_entries) && terms != Terms::Harsh;
    let copies = if plan.nodes > 1 { 1 + (plan.seed / 4 % 2) as u8 } else { 1 };
    let (programs, judge, accesses, stored) = Default::default();
    is_played.then_some(Entries { copies, programs, judge, accesses, stored })
}

impl Cluster {
    pub(super) fn begin_entries(&mut self) {
        if self.entries.is_some() {
            self.at(1_000, Event::Entry(EntryEvent::Fault));
        }
    }

    /// True if a program uses data of its locks.
    pub(super) fn has_entries(&self, is_by_names: bool) -> bool {
        self.entries.is_some() && (!is_by_names || self.terms == Terms::Budget)
    }

    /// Number of holders of the region of locks at bytes.
    pub(super) fn copies_of_locks(&self) -> u8 {
        self.entries.as_ref().map_or(1, |entries| entries.copies)
    }

    pub(super) fn on_entry_event(&mut self, event: EntryEvent) -> Check {
        match event {
            EntryEvent::Access(access) => self.on_access(access),
            EntryEvent::Accessed(client, number, bytes) => self.on_accessed(client, number, &bytes),
            EntryEvent::Late(client, number) => self.on_access_late(client, number),
            EntryEvent::Put(extent, offset, byte) => {
                accesses::put(&extent, offset, byte);
                Ok(())
            }
            EntryEvent::Fault => self.on_entry_fault(),
        }
    }

    /// Mostly a program dies, or its connection breaks, that is in the middle of a release or fetches something.
    fn on_entry_fault(&mut self) -> Check {
        let Some(entries) = self.entries.as_ref().filter(|_| self.course.is_rough) else { return Ok(()) };
        let busy: Vec<u64> = entries.programs.iter().filter(|(_, me)| me.is_accessing()).map(|(client, _)| *client).collect();
        let after = self.dice.between(100, 1_500);
        self.at(after, Event::Entry(EntryEvent::Fault));
        if busy.is_empty() {
            return Ok(());
        }
        let client = self.dice.pick(&busy);
        if self.dice.chance(6_000) {
            self.count("programs that died with data");
            self.kill(client);
        } else {
            self.break_link_of(client);
        }
        Ok(())
    }

    /// The judge hears what a request did at once, before it hears what others are told.
    pub(super) fn judge_release(&mut self, link: u64, asks: &SyncRequest, own: Option<&Outcome<SyncAnswer>>) {
        let (Some(Entries { judge, .. }), Some(number), Some(Ok(_))) = (&mut self.entries, number_of(asks), own) else { return };
        let who = Claimant { link, number };
        match asks {
            SyncRequest::Publish { publication, .. } => {
                judge.on_published(who, matches!(publication.changes, Stores::Bytes(..)));
            }
            SyncRequest::Redone { .. } => judge.on_redone(who),
            SyncRequest::Unlock { .. } => judge.on_given_back(who),
            _ => {
                judge.on_published(who, true);
                judge.on_given_back(who);
            }
        }
    }

    /// A home gives a lock out. `begins` in its time as home with that.
    pub(super) fn judge_data(
        &mut self,
        (at, begins): (ProcessLife, bool),
        (lock, mode): (DataLock, Mode),
        who: Claimant,
        (abandoned, data): (bool, Option<&DataGrant>),
    ) -> Check {
        let Some(entries) = &mut self.entries else { return Ok(()) };
        if begins {
            entries.judge.on_first(lock, at, abandoned)?;
        }
        entries.judge.on_granted(who, lock, mode);
        let Some(grant) = data else { return Ok(()) };
        self.count(match &grant.changes {
            Stores::All => "grants with all",
            Stores::Ranges(_) => "grants with places",
            Stores::Bytes(ranges, _) if ranges.is_empty() => "grants with nothing more",
            Stores::Bytes(..) => "grants with bytes",
        });
        match &grant.condition {
            Condition::Whole => {}
            Condition::Redo(_) => self.count("releases redone"),
            Condition::Torn => self.count("torn releases"),
        }
        Ok(())
    }

    /// A connection ended for a home of locks.
    pub(super) fn end_entries_of(&mut self, link: u64) {
        self.entries.iter_mut().for_each(|entries| entries.judge.on_link_gone(link));
    }

    /// A home of locks is gone.
    pub(super) fn end_entries_at(&mut self, home: ProcessLife) {
        self.entries.iter_mut().for_each(|entries| entries.judge.on_home_gone(home));
    }

    /// At the end no program waits, and homes and copies have what was released.
    pub(super) fn judge_entries(&self) -> Check {
        let Some(entries) = &self.entries else { return Ok(()) };
        for (client, me) in &entries.programs {
            me.judge_at_rest(*client)?;
        }
        let home = self.home().ok_or("the coordinator is not back")?;
        let pages = |region| (0..PAGE_COUNT).map(move |page| (region, page));
        for (region, page) in home.coordinator.regions().flat_map(pages) {
            let lock = (region.name == locks::REGION).then_some(region.gid);
            if lock.is_none() && region.name != words::region_name(page) {
                continue;
            }
            let copies = region.holders.first().map_or(&[][..], |known| &known.copies);
            let holders = region.layout.extents().next().into_iter().chain(copies);
            let mut holders = holders.filter_map(|holder| self.holder(holder.node, region.gid, holder.slot));
            holders.try_for_each(|extent| entries.judge.judge_page(lock, page, accesses::page_of(extent, lock, page)))?;
        }
        Ok(())
    }
}

/// The number of the taking of a lock with which a request ends a release, or goes on with one.
fn number_of(asks: &SyncRequest) -> Option<u64> {
    match asks {
        SyncRequest::Publish { number, .. } | SyncRequest::Release { number, .. } => Some(*number),
        SyncRequest::Redone { number } | SyncRequest::Unlock { number } => Some(*number),
        _ => None,
    }
}
