//! The host's side of sharing: programs map extents and unmap them, so that their host joins homes and leaves them, or drops all when its
//! node was taken for lost. The machine is that which nodes run: [`Sharing`].
//!
//! A node's connections keep order, and the network of this world does not. So a leave waits until the home has confirmed all before it,
//! and a message brings along the host that it names.

use super::returns::is_page;
use super::{Defect, Extent, Life, Mapped, PAGE_COUNT, PageWorld, Parcel, Process, SEAT_COUNT, What};
use crate::check::{Check, check};
use hanare_protocol::id::{ClientId, Epoch, Incarnation, Rights};
use hanare_protocol::page::membership::table::HomePhase;
use hanare_protocol::page::membership::{Action, Life as NodeLife, MapRequest, Over, Refused, Sharing};
use hanare_protocol::page::word::State;
use hanare_protocol::page::{Host, HostId, HostMemory, Page, Plain};
use std::collections::{BTreeMap, BTreeSet};

/// Time that a region that is left waits for pages that programs keep. No program of this world stands still, so it outlasts all delays.
const PATIENCE_MS: u64 = 30_000;
/// Programs of one host that map an extent, or wait to, at most.
const PROGRAM_COUNT: usize = 2;

/// A program that maps an extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Mapper(u64);

impl MapRequest for Mapper {
    fn client(&self) -> ClientId {
        ClientId(self.0)
    }

    fn rights(&self) -> Rights {
        Rights::Write
    }
}

/// The extent of a home as a host shares it.
#[derive(Debug)]
pub(super) struct HomeMembership {
    pub(super) sharing: Sharing<Mapper, &'static str>,
    /// The host's key in messages to it.
    pub(super) key: u64,
    /// The life in which its home is reached.
    pub(super) at: Life,
    /// Its number at the home.
    me: HostId,
    /// Pages that were sent to the home, which may not have heard them before it was lost.
    unsent: Vec<Parcel>,
    /// Programs that map the extent.
    pub(super) inside: BTreeSet<u64>,
    /// Programs that wait to map it, or for the end of their mapping.
    pub(super) waiting: BTreeSet<u64>,
}

impl Process {
    /// The share by which the host of this life knows the home.
    pub(super) fn share_at(&self, home: Extent) -> Option<u64> {
        self.shares.get(&home)?.sharing.share(0)
    }

    /// True if a message to a host by that key is for its membership at a home.
    pub(super) fn is_called(&self, home: Extent, key: u64) -> bool {
        self.shares.get(&home).is_some_and(|share| share.key == key)
    }

    /// Keeps the pages among messages that a home may not have heard before it was lost, for its return.
    pub(super) fn keep_unsent(&mut self, unheard: impl IntoIterator<Item = Parcel>) {
        for parcel in unheard.into_iter().filter(is_page) {
            let known = self.shares.get_mut(&parcel.home).filter(|share| share.sharing.share(0) == Some(parcel.by));
            match known {
                Some(share) => share.unsent.push(parcel),
                None => drop(self.handed.keep_unsent(parcel.by, parcel)),
            }
        }
    }

    /// Drops the pages of all extents whose homes do without this host. Returns those, and whether stores go with them.
    pub(super) fn drop_others_pages(&mut self) -> BTreeMap<Extent, bool> {
        let knows = |home: Extent, share: &HomeMembership| self.extent == home && self.guests.knows(share.key);
        let others: Vec<Extent> =
            (self.shares.iter()).filter(|(home, share)| !knows(**home, share)).map(|(home, _)| *home).collect();
        let others: BTreeMap<Extent, bool> = others.into_iter().map(|home| (home, self.has_unsaved(home))).collect();
        self.mapped.retain(|home, _| !others.contains_key(home));
        self.threads.iter_mut().for_each(|thread| drop(thread.take_if(|waiting| others.contains_key(&waiting.home))));
        others
    }

    /// True if stores of programs here would be lost with a home, or with this host's pages of it.
    pub(super) fn has_unsaved(&self, home: Extent) -> bool {
        let owned =
            |place: &Plain<u64>, page: u64| matches!(place.look(Page(page)).state(), Ok(State::Owned | State::TakingOwned));
        let owns = self.mapped.get(&home).is_some_and(|mapped| (0..PAGE_COUNT).any(|page| owned(&mapped.place, page)));
        owns || self.shares.get(&home).is_some_and(|share| !share.unsent.is_empty())
    }
}

impl PageWorld {
    pub(super) fn draw(&mut self) -> u64 {
        self.drawn += 1;
        self.drawn
    }

    /// A program wants to map an extent, unless some do already.
    pub(super) fn map(&mut self, life: Life, home: Extent) -> Check {
        let process = self.processes.get_mut(&life).expect("it lives");
        if process.shares.get(&home).is_some_and(|share| share.inside.len() + share.waiting.len() >= PROGRAM_COUNT) {
            return Ok(());
        }
        let program = Mapper(self.draw());
        self.share(life, home, program);
        self.drain_membership(life, home)
    }

    /// Gives a program its turn to map an extent, or has it wait.
    fn share(&mut self, life: Life, home: Extent, program: Mapper) {
        let (key, at) = (self.draw(), self.life_of(home));
        let process = self.processes.get_mut(&life).expect("it lives");
        let at = at.filter(|at| !process.lost.contains(at));
        let share = process.shares.entry(home).or_insert_with(|| {
            let at = at.unwrap_or(home);
            let sharing = Sharing::new([NodeLife { epoch: Epoch(at.into()), process: None }], PATIENCE_MS);
            let (inside, waiting) = (BTreeSet::new(), BTreeSet::new());
            HomeMembership { sharing, key, at, me: HostId(0), unsent: Vec::new(), inside, waiting }
        });
        share.waiting.insert(program.0);
        let Some(program) = share.sharing.share_with(program) else { return };
        let Some(at) = at.filter(|_| share.sharing.lost().is_none()) else {
            share.waiting.remove(&program.0);
            return;
        };
        if share.sharing.share(0).is_none() {
            // A home that is back is reached in another life.
            share.at = at;
            share.sharing.meet(0, Epoch(at.into()));
        }
        share.sharing.ask(program);
    }

    /// A program unmaps an extent: with the last, threads that wait for its pages are gone, and the host leaves.
    pub(super) fn unmap(&mut self, life: Life, home: Extent) -> Check {
        let process = self.processes.get_mut(&life).expect("it lives");
        let Some(share) = process.shares.get_mut(&home) else { return Ok(()) };
        let Some(program) = share.inside.pop_first() else { return Ok(()) };
        let is_unused = share.inside.is_empty();
        self.count("programs that unmapped");
        if is_unused {
            self.part_threads(life, home)?;
        }
        let now_ms = self.now_ms;
        let process = self.processes.get_mut(&life).expect("it lives");
        let share = process.shares.get_mut(&home).expect("just seen");
        share.waiting.insert(program);
        share.sharing.unmap(ClientId(program), is_unused, now_ms);
        self.drain_membership(life, home)
    }

    /// All programs that map an extent are gone.
    fn end_programs(&mut self, life: Life, home: Extent) -> Check {
        self.part_threads(life, home)?;
        let process = self.processes.get_mut(&life).expect("it lives");
        let Some(share) = process.shares.get_mut(&home) else { return Ok(()) };
        for program in std::mem::take(&mut share.inside) {
            share.sharing.on_client_gone(ClientId(program));
        }
        self.drain_membership(life, home)
    }

    /// Does what the rules of a shared extent want.
    pub(super) fn drain_membership(&mut self, life: Life, home: Extent) -> Check {
        let poll = |world: &mut PageWorld| world.processes.get_mut(&life)?.shares.get_mut(&home)?.sharing.poll();
        while let Some(action) = poll(self) {
            self.note(format!("{life} of {home}: {action:?}"));
            self.act_on(life, home, action)?;
        }
        let now_ms = self.now_ms;
        let Some(share) = self.processes.get_mut(&life).and_then(|process| process.shares.get_mut(&home)) else { return Ok(()) };
        if share.inside.is_empty() {
            share.sharing.on_unused(now_ms);
        }
        Ok(())
    }

    fn act_on(&mut self, life: Life, home: Extent, action: Action<Mapper, &'static str>) -> Check {
        let (leaves_silently, leaves_early) = (self.has(Defect::LeaveSilently), self.has(Defect::LeaveEarly));
        let share = share_of(self, life, home);
        match action {
            Action::Ask => {
                let key = share.key;
                self.count("hosts that asked to join");
                self.tell(life, home, What::Join, key);
            }
            Action::Admit(program) => {
                share.waiting.remove(&program.0);
                share.inside.insert(program.0);
                let me = share.me;
                let process = self.processes.get_mut(&life).expect("it lives");
                let is_home = process.extent == home;
                process.mapped.entry(home).or_insert_with(|| Mapped {
                    rules: Host::default(),
                    place: Plain::new(me, is_home, PAGE_COUNT, SEAT_COUNT),
                    peers: BTreeMap::new(),
                });
                self.count("programs that mapped");
            }
            Action::Refuse(program, refused) => {
                share.waiting.remove(&program.0);
                self.count(if refused == Refused::CutOff { "programs cut off with their host" } else { "programs refused" });
            }
            Action::Again(program) => self.share(life, home, program),
            Action::Tell { share: by, .. } if leaves_silently => {
                self.note(format!("{life} leaves {home} by {by} and does not say so"));
                share_of(self, life, home).sharing.on_left(0);
            }
            Action::Tell { share: by, .. } if leaves_early => self.tell(life, home, What::Leave, by),
            Action::Tell { share: by, .. } => {
                let at = share.at;
                self.processes.get_mut(&life).expect("it lives").leaves.insert((at, home, by));
            }
            Action::Farewell { share: by, has_all, .. } => self.say_farewell(life, home, by, has_all),
            Action::Rename(_) => self.rename(life, home),
            Action::Unmapped(client, failed) => {
                share.waiting.remove(&client.0);
                self.count(unmapped(failed));
            }
            Action::End => return self.end_share(life, home),
        }
        Ok(())
    }

    /// Ends a membership with nothing under way: the host has forgotten the extent.
    fn end_share(&mut self, life: Life, home: Extent) -> Check {
        self.count("hosts that left");
        let process = self.processes.get_mut(&life).expect("it lives");
        process.mapped.remove(&home);
        let Some(mut share) = process.shares.remove(&home) else { return Ok(()) };
        while let Some(action) = share.sharing.poll() {
            match action {
                Action::Unmapped(_, failed) => self.count(unmapped(failed)),
                Action::Again(program) => self.share(life, home, program),
                other => return Err(format!("{life} has left {home}, and its rules want {other:?}")),
            }
        }
        Ok(())
    }

    /// A home knows this host no more: it may be joined by another key.
    fn rename(&mut self, life: Life, home: Extent) {
        let key = self.draw();
        self.processes.get_mut(&life).expect("it lives").mapped.remove(&home);
        let share = share_of(self, life, home);
        share.key = key;
        share.unsent.clear();
    }

    /// A home that is back is told whether it has all that was here.
    fn say_farewell(&mut self, life: Life, home: Extent, by: u64, has_all: bool) {
        let share = share_of(self, life, home);
        let is_told = share.sharing.home(0) == HomePhase::Told;
        let (key, at, unsent) = (share.key, share.at, std::mem::take(&mut share.unsent));
        if !has_all {
            self.tell(life, home, What::Forgot, by);
            return self.forgive(life, home);
        }
        unsent.into_iter().for_each(|parcel| self.send(life, at, parcel));
        let process = self.processes.get_mut(&life).expect("it lives");
        process.leaves.insert((at, home, by));
        if !is_told {
            process.handed.keep((key, by), at);
        }
    }

    /// A host does not know what it had of a home: pages that it was granted to write may be refused.
    pub(super) fn forgive(&mut self, life: Life, home: Extent) {
        self.count("shares forgotten");
        self.excuse(life, home);
    }

    /// Pages that a host was granted to write may be refused.
    pub(super) fn excuse(&mut self, life: Life, home: Extent) {
        for ((of, _), truth) in &mut self.truths {
            truth.is_forgotten |= *of == home && truth.writers.contains(&life);
        }
    }

    /// Says something to a home where it is reached.
    fn tell(&mut self, life: Life, home: Extent, what: What, by: u64) {
        let at = share_of(self, life, home).at;
        self.send(life, at, Parcel { home, page: Page(0), what, value: None, by, peer: None });
    }

    /// Extents that are being left, and homes that have confirmed all that went to them: those are told that there is no more.
    pub(super) fn go_on_leaving(&mut self, life: Life) -> Check {
        let process = &self.processes[&life];
        let emptying = process.shares.iter().filter(|(_, share)| share.sharing.may_empty());
        let emptying: Vec<Extent> = emptying.map(|(home, _)| *home).collect();
        for home in emptying {
            self.note_unsaved(life, home);
            let mut is_empty = true;
            self.with_host(life, home, |rules, place, outputs| {
                is_empty = rules.empty(place, None, outputs)?;
                Ok(())
            })?;
            let now_ms = self.now_ms;
            if let Some(share) = self.processes.get_mut(&life).and_then(|process| process.shares.get_mut(&home)) {
                share.sharing.on_emptied(is_empty, now_ms, || "a program keeps pages");
            }
            self.note_unsaved(life, home);
            self.drain_membership(life, home)?;
        }
        let process = &self.processes[&life];
        let is_heard = |(at, ..): &&(Life, Extent, u64)| process.unconfirmed_count(*at) == 0;
        let heard: Vec<(Life, Extent, u64)> = process.leaves.iter().filter(is_heard).copied().collect();
        for (at, home, by) in heard {
            self.processes.get_mut(&life).expect("it lives").leaves.remove(&(at, home, by));
            self.send(life, at, Parcel { home, page: Page(0), what: What::Leave, value: None, by, peer: None });
        }
        Ok(())
    }

    /// A home that is lost has not got what was stored here: who unmaps is told.
    fn note_unsaved(&mut self, life: Life, home: Extent) {
        let process = self.processes.get_mut(&life).expect("it lives");
        let has_unsaved = process.has_unsaved(home);
        if let Some(share) = process.shares.get_mut(&home).filter(|share| has_unsaved && share.sharing.is_lost(0)) {
            share.sharing.fail("its home is lost");
        }
    }

    /// A home has answered.
    pub(super) fn on_joined(
        &mut self,
        (from, life): (Life, Life),
        home: Extent,
        key: u64,
        answer: Option<(HostId, u64)>,
    ) -> Check {
        let process = self.processes.get_mut(&life).expect("it lives");
        let share = process.shares.get_mut(&home).filter(|share| share.key == key);
        let is_known = match (share, answer) {
            (Some(share), Some((me, by))) => {
                share.me = me;
                share.sharing.on_accepted(0, Incarnation(from.into()), (by, Rights::Write))
            }
            (Some(share), None) => {
                share.sharing.on_refused(0, "it is coming back");
                true
            }
            (None, answer) => answer.is_none(),
        };
        if let Some((_, by)) = answer.filter(|_| !is_known) {
            // A sharer that does not know it.
            self.send(life, from, Parcel { home, page: Page(0), what: What::Forgot, value: None, by, peer: None });
        }
        self.drain_membership(life, home)
    }

    /// A home has forgotten this host.
    pub(super) fn on_left(&mut self, life: Life, home: Extent, key: u64) -> Check {
        let process = self.processes.get_mut(&life).expect("it lives");
        let Some(share) = process.shares.get_mut(&home).filter(|share| share.key == key) else { return Ok(()) };
        share.sharing.on_left(0);
        self.drain_membership(life, home)
    }

    /// A host hears that the life of a home is over.
    pub(super) fn on_home_lost(&mut self, life: Life, home: Extent, lost: Life) -> Check {
        if self.processes[&life].mapped.contains_key(&home) {
            self.refuse_all(life, home)?;
        }
        let process = self.processes.get_mut(&life).expect("it lives");
        let has_unsaved = process.has_unsaved(home);
        let Some(share) = process.shares.get_mut(&home) else { return Ok(()) };
        if share.sharing.is_over(0, Over::UpTo(Epoch(lost.into()))) {
            if has_unsaved {
                share.sharing.fail("its home is lost");
            }
            share.sharing.on_lost(0);
        }
        self.drain_membership(life, home)?;
        // A home that may come back keeps its programs.
        if self.life_of(home).is_some() { Ok(()) } else { self.end_programs(life, home) }
    }

    /// Drops all memberships at others' extents, whose pages are gone already: this node was taken for lost.
    pub(super) fn leave_others_homes(&mut self, life: Life, others: &BTreeMap<Extent, bool>) -> Check {
        let shared: Vec<Extent> = self.processes[&life].shares.keys().copied().collect();
        for home in shared {
            let has_unsaved = others.get(&home);
            let sharing = &mut share_of(self, life, home).sharing;
            if has_unsaved == Some(&true) {
                sharing.fail("this node was cut off");
            }
            sharing.begin_anew(has_unsaved.map(|_| 0));
            self.drain_membership(life, home)?;
        }
        Ok(())
    }

    /// At the end each home knows the hosts that know it, and nobody waits.
    pub(super) fn shares_are_at_rest(&self) -> Check {
        for (life, process) in &self.processes {
            for (home, share) in &process.shares {
                let is_still = share.waiting.is_empty() && !share.sharing.waits();
                check(is_still, || format!("programs of {life} wait to share {home}, or to leave it: {share:?}"))?;
            }
            check(process.leaves.is_empty(), || format!("{life} has not left {:?}", process.leaves))?;
            check(process.lobby.is_empty(), || format!("hosts wait to be let in at {life}: {:?}", process.lobby))?;
            let known: BTreeSet<(Life, u64)> =
                process.guests.iter().map(|(_, guest)| (guest.who.node.0 as Life, guest.share)).collect();
            let extent = process.extent;
            let sharers = self.processes.iter().filter_map(|(other, process)| Some((*other, process.share_at(extent)?)));
            let sharers: BTreeSet<(Life, u64)> = sharers.collect();
            check(known == sharers, || format!("{life} knows {known:?} as sharers, and {sharers:?} share it"))?;
        }
        Ok(())
    }
}

/// The answer to a program that unmapped, in words.
fn unmapped(failed: Option<&'static str>) -> &'static str {
    if failed.is_some() { "programs told that stores are lost" } else { "programs told that stores are kept" }
}

fn share_of(world: &mut PageWorld, life: Life, home: Extent) -> &mut HomeMembership {
    let process = world.processes.get_mut(&life).expect("it lives");
    process.shares.get_mut(&home).expect("it is shared")
}
