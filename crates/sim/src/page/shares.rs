//! How hosts come to share the extents of homes, and leave them: programs map and unmap, hosts join and leave, homes know their guests.
//!
//! The machines are those that nodes run: [`Sharing`] at the host, [`Guests`] at the home. A node's connections keep order, and the
//! network of this world does not: a leave waits until the home has confirmed all before it, and a message brings along who it names.
//!
//! [`Guests`]: hanare_protocol::page::share::Guests

use super::{Defect, Life, Mapped, OWN, PAGE_COUNT, PageWorld, Parcel, Process, SEAT_COUNT, What};
use crate::check::{Check, check};
use hanare_protocol::id::{ClientId, Epoch, Incarnation, NodeId, Rights};
use hanare_protocol::page::share::{Action, Guest, Joiner, Life as NodeLife, MapRequest, Over, Sharing};
use hanare_protocol::page::word::State;
use hanare_protocol::page::{Host, HostId, Page, Place, Plain};
use std::collections::{BTreeMap, BTreeSet};

/// How long a region that is left waits for pages that programs keep. No program of this world stands still, so it outlasts all delays.
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
pub(super) struct Share {
    pub(super) sharing: Sharing<Mapper, &'static str>,
    /// What the host is called in messages to it.
    pub(super) key: u64,
    /// Its number at the home.
    me: HostId,
    /// Programs that map the extent.
    pub(super) inside: BTreeSet<u64>,
    /// Programs that wait to map it, or for the end of their mapping.
    pub(super) waiting: BTreeSet<u64>,
}

/// Who is called how at a home.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    pub(super) host: HostId,
    pub(super) life: Life,
    pub(super) key: u64,
}

impl Peer {
    pub(super) fn of((host, guest): (HostId, &Guest)) -> Peer {
        Peer { host, life: guest.who.node.0 as Life, key: guest.who.key }
    }
}

impl Mapped {
    /// Whether the newest bytes of some pages are here alone.
    fn owns(&self) -> bool {
        let owned = |page: u64| matches!(self.place.look(Page(page)).state(), Ok(State::Owned | State::TakingOwned));
        (0..PAGE_COUNT).any(owned)
    }
}

impl Process {
    /// How a home calls the host that has this share.
    pub(super) fn guest_of(&self, share: u64) -> Option<HostId> {
        self.guests.iter().find(|(_, guest)| guest.share == share).map(|(host, _)| host)
    }

    /// The share by which the host of this life knows the home.
    pub(super) fn share_at(&self, home: Life) -> Option<u64> {
        self.shares.get(&home)?.sharing.share(0)
    }

    /// Whether a message to a host by that key is for what it shares of a home.
    pub(super) fn is_called(&self, home: Life, key: u64) -> bool {
        self.shares.get(&home).is_some_and(|share| share.key == key)
    }
}

impl PageWorld {
    fn draw(&mut self) -> u64 {
        self.drawn += 1;
        self.drawn
    }

    /// A program wants to map an extent, unless some do already.
    pub(super) fn map(&mut self, life: Life, home: Life) -> Check {
        let process = self.processes.get_mut(&life).expect("it lives");
        if process.shares.get(&home).is_some_and(|share| share.inside.len() + share.waiting.len() >= PROGRAM_COUNT) {
            return Ok(());
        }
        let program = Mapper(self.draw());
        self.share(life, home, program);
        self.drain_share(life, home)
    }

    /// It is a program's turn to map an extent, or it waits.
    fn share(&mut self, life: Life, home: Life, program: Mapper) {
        let key = self.draw();
        let process = self.processes.get_mut(&life).expect("it lives");
        let share = process.shares.entry(home).or_insert_with(|| Share {
            sharing: Sharing::new([NodeLife { epoch: Epoch(home.into()), process: None }], PATIENCE_MS),
            key,
            me: HostId(0),
            inside: BTreeSet::new(),
            waiting: BTreeSet::new(),
        });
        share.waiting.insert(program.0);
        let Some(program) = share.sharing.share_with(program) else { return };
        if share.sharing.lost().is_some() || process.lost.contains(&home) {
            share.waiting.remove(&program.0);
            return;
        }
        share.sharing.meet(0, Epoch(home.into()));
        share.sharing.ask(program);
    }

    /// A program unmaps an extent: with the last, threads that wait for its pages are gone, and the host leaves.
    pub(super) fn unmap(&mut self, life: Life, home: Life) -> Check {
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
        self.drain_share(life, home)
    }

    /// All programs that map an extent are gone.
    pub(super) fn end_programs(&mut self, life: Life, home: Life) -> Check {
        self.part_threads(life, home)?;
        let process = self.processes.get_mut(&life).expect("it lives");
        let Some(share) = process.shares.get_mut(&home) else { return Ok(()) };
        for program in std::mem::take(&mut share.inside) {
            share.sharing.on_client_gone(ClientId(program));
        }
        self.drain_share(life, home)
    }

    /// Does what the rules of a shared extent want.
    pub(super) fn drain_share(&mut self, life: Life, home: Life) -> Check {
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

    fn act_on(&mut self, life: Life, home: Life, action: Action<Mapper, &'static str>) -> Check {
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
                let (me, is_home) = (share.me, life == home);
                let process = self.processes.get_mut(&life).expect("it lives");
                process.mapped.entry(home).or_insert_with(|| Mapped {
                    rules: Host::default(),
                    place: Plain::new(me, is_home, PAGE_COUNT, SEAT_COUNT),
                    peers: BTreeMap::new(),
                });
                self.count("programs that mapped");
            }
            Action::Refuse(program, _) => {
                share.waiting.remove(&program.0);
                self.count("programs refused");
            }
            Action::Again(program) => self.share(life, home, program),
            Action::Tell { share: by, .. } if leaves_silently => {
                self.note(format!("{life} leaves {home} by {by} and does not say so"));
                share_of(self, life, home).sharing.on_left(0);
            }
            Action::Tell { share: by, .. } if leaves_early => self.tell(life, home, What::Leave, by),
            Action::Tell { share: by, .. } => {
                self.processes.get_mut(&life).expect("it lives").leaves.insert((home, by));
            }
            Action::Farewell { share: by, has_all, .. } => self.say_farewell(life, home, by, has_all),
            Action::Rename(_) => {
                let before = share.key;
                self.rename(life, home, before);
            }
            Action::Unmapped(client, failed) => {
                share.waiting.remove(&client.0);
                self.count(if failed.is_some() {
                    "programs told that stores are lost"
                } else {
                    "programs told that stores are kept"
                });
            }
            Action::End => return self.end_share(life, home),
        }
        Ok(())
    }

    /// Nothing is under way between a host and a home: the host has forgotten the extent.
    fn end_share(&mut self, life: Life, home: Life) -> Check {
        self.count("hosts that left");
        let process = self.processes.get_mut(&life).expect("it lives");
        process.mapped.remove(&home);
        process.kept.remove(&home);
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
    fn rename(&mut self, life: Life, home: Life, before: u64) {
        let key = self.draw();
        let process = self.processes.get_mut(&life).expect("it lives");
        process.mapped.remove(&home);
        if let Some(share) = process.shares.get_mut(&home).filter(|share| share.key == before) {
            share.key = key;
            share.inside.clear();
        }
    }

    fn say_farewell(&mut self, life: Life, home: Life, by: u64, has_all: bool) {
        let process = self.processes.get_mut(&life).expect("it lives");
        if has_all {
            process.leaves.insert((home, by));
        } else {
            self.tell(life, home, What::Forgot, by);
            self.forgive(life, home);
        }
    }

    /// A host does not know what it had of a home: pages that it was granted to write may be refused.
    pub(super) fn forgive(&mut self, life: Life, home: Life) {
        self.count("shares forgotten");
        for ((of, _), truth) in &mut self.truths {
            truth.is_forgotten |= *of == home && truth.writers.contains(&life);
        }
    }

    /// Says something to the life that is at a home's place by now.
    pub(super) fn tell(&mut self, life: Life, home: Life, what: What, by: u64) {
        let to = self.processes[&life].back.get(&home).copied().unwrap_or(home);
        self.send(life, to, Parcel { home, page: Page(0), what, value: None, by, peer: None });
    }

    /// Extents that are being left, and homes that have confirmed all that went to them: those are told that there is no more.
    pub(super) fn go_on_leaving(&mut self, life: Life) -> Check {
        let process = &self.processes[&life];
        let emptying = process.shares.iter().filter(|(_, share)| share.sharing.may_empty());
        let emptying: Vec<Life> = emptying.map(|(home, _)| *home).collect();
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
            self.drain_share(life, home)?;
        }
        let process = &self.processes[&life];
        let is_heard = |(home, _): &&(Life, u64)| {
            let to = process.back.get(home).copied().unwrap_or(*home);
            process.couriers.get(&to).is_none_or(|courier| courier.unconfirmed_count() == 0)
        };
        let heard: Vec<(Life, u64)> = process.leaves.iter().filter(is_heard).copied().collect();
        for (home, by) in heard {
            self.processes.get_mut(&life).expect("it lives").leaves.remove(&(home, by));
            self.tell(life, home, What::Leave, by);
        }
        Ok(())
    }

    /// A home that is lost has not got what was stored here: who unmaps is told.
    fn note_unsaved(&mut self, life: Life, home: Life) {
        let process = self.processes.get_mut(&life).expect("it lives");
        let Some(share) = process.shares.get_mut(&home).filter(|share| share.sharing.is_lost(0)) else { return };
        let has_unsent = process.kept.get(&home).is_some_and(|kept| !kept.is_empty());
        if has_unsent || process.mapped.get(&home).is_some_and(Mapped::owns) {
            share.sharing.fail("its home is lost");
        }
    }

    /// A host will map an extent that lies here.
    pub(super) fn on_join(&mut self, from: Life, home: Life, key: u64) -> Check {
        let (share, another) = (self.draw(), self.draw());
        let joins_anew = self.has(Defect::JoinAnew);
        let process = self.processes.get_mut(&home).expect("it lives");
        if process.returning.is_some() {
            self.send_to_guest(home, Peer { host: OWN, life: from, key }, What::Joined(None));
            return Ok(());
        }
        let life = NodeLife { epoch: Epoch(from.into()), process: Some(Incarnation(from.into())) };
        let is_here = process.guests.has_live(NodeId(from.into()), Over::AllBut(Incarnation(from.into())));
        let called = if joins_anew && is_here { another } else { key };
        let who = Joiner { node: NodeId(from.into()), life, address: String::new(), key: called, readers: None };
        for earlier in process.guests.earlier(&who) {
            self.lose_guest(home, earlier)?;
        }
        let process = self.processes.get_mut(&home).expect("it lives");
        let (host, share) = process.guests.join(who, (share, Rights::Write), from == home);
        self.send_to_guest(home, Peer { host, life: from, key }, What::Joined(Some((host, share))));
        Ok(())
    }

    /// A home has answered.
    pub(super) fn on_joined(&mut self, from: Life, life: Life, home: Life, key: u64, answer: Option<(HostId, u64)>) -> Check {
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
            // A guest that does not know it.
            self.tell(life, home, What::Forgot, by);
        }
        self.drain_share(life, home)
    }

    /// A host has let go of all, or does not know what it had.
    pub(super) fn on_leave(&mut self, home: Life, share: u64, has_all: bool) -> Check {
        let process = self.processes.get_mut(&home).expect("it lives");
        let Some(host) = process.guest_of(share) else { return Ok(()) };
        if !has_all {
            return self.lose_guest(home, host);
        }
        let peer = process.guests.get(host).map(|guest| Peer::of((host, guest))).expect("just seen");
        if process.guests.leave(host, process.directory.is_passing_on(host)).is_none() {
            self.count("leaves that waited for pages passed on");
            return Ok(());
        }
        process.directory.on_host_lost(host);
        self.send_to_guest(home, peer, What::Left);
        (0..PAGE_COUNT).try_for_each(|page| self.drain_home(home, Page(page)))
    }

    /// Guests whose last pages were on their way to others, once more.
    pub(super) fn let_leavers_go(&mut self, home: Life) -> Check {
        let process = &self.processes[&home];
        let draining = process.guests.draining().filter_map(|host| Some(process.guests.get(host)?.share));
        let draining: Vec<u64> = draining.collect();
        draining.into_iter().try_for_each(|share| self.on_leave(home, share, true))
    }

    /// A guest is gone, with what it had: the others are told.
    pub(super) fn lose_guest(&mut self, home: Life, host: HostId) -> Check {
        let process = self.processes.get_mut(&home).expect("it lives");
        let Some(gone) = process.guests.lose(host) else { return Ok(()) };
        self.note(format!("{home} does without life {} as {host:?}", gone.who.node.0));
        let process = self.processes.get_mut(&home).expect("it lives");
        process.directory.on_host_lost(host);
        let others: Vec<Peer> = process.guests.iter().map(Peer::of).collect();
        if host != OWN {
            others.into_iter().for_each(|peer| self.send_to_guest(home, peer, What::HostGone));
        }
        (0..PAGE_COUNT).try_for_each(|page| self.drain_home(home, Page(page)))
    }

    /// A home has forgotten this host.
    pub(super) fn on_left(&mut self, life: Life, home: Life, key: u64) -> Check {
        let process = self.processes.get_mut(&life).expect("it lives");
        let Some(share) = process.shares.get_mut(&home).filter(|share| share.key == key) else { return Ok(()) };
        share.sharing.on_left(0);
        self.drain_share(life, home)
    }

    /// A host hears that the life of a home is over.
    pub(super) fn on_home_lost(&mut self, life: Life, home: Life, may_return: bool) -> Check {
        let process = self.processes.get_mut(&life).expect("it lives");
        process.leaves.retain(|(of, _)| *of != home);
        let has_unsent = process.kept.get(&home).is_some_and(|kept| !kept.is_empty());
        let owns = process.mapped.get(&home).is_some_and(Mapped::owns);
        let Some(share) = process.shares.get_mut(&home) else { return Ok(()) };
        if share.sharing.is_over(0, Over::UpTo(Epoch(home.into()))) {
            if has_unsent || owns {
                share.sharing.fail("its home is lost");
            }
            share.sharing.on_lost(0);
        }
        self.drain_share(life, home)?;
        if may_return { Ok(()) } else { self.end_programs(life, home) }
    }

    pub(super) fn send_to_guest(&mut self, home: Life, peer: Peer, what: What) {
        self.send(home, peer.life, Parcel { home, page: Page(0), what, value: None, by: peer.key, peer: None });
    }

    /// At the end each home knows the hosts that know it, and nobody waits.
    pub(super) fn shares_are_at_rest(&self) -> Check {
        for (life, process) in &self.processes {
            for (home, share) in &process.shares {
                let is_still = share.waiting.is_empty() && !share.sharing.waits();
                check(is_still, || format!("programs of {life} wait to share {home}, or to leave it: {share:?}"))?;
            }
            check(process.leaves.is_empty(), || format!("{life} has not left {:?}", process.leaves))?;
            let known: BTreeSet<(Life, u64)> =
                process.guests.iter().map(|(_, guest)| (guest.who.node.0 as Life, guest.share)).collect();
            let sharers = self.processes.iter().filter_map(|(other, process)| Some((*other, process.share_at(*life)?)));
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

fn share_of(world: &mut PageWorld, life: Life, home: Life) -> &mut Share {
    let process = world.processes.get_mut(&life).expect("it lives");
    process.shares.get_mut(&home).expect("it is shared")
}
