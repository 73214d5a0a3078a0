//! Every order of takings, stores, releases, evictions, recalls and a death, by stateright. Two hosts use two locks whose bytes lie in one
//! page.
#![allow(clippy::arithmetic_side_effects, reason = "numbers of a test")]

mod checks;

use super::*;
use crate::id::Gid;
use crate::lock::{Claim, Claimed, RecallStep, Recalled};
use crate::shape::Strided;
use std::collections::BTreeSet;

const HOSTS: usize = 2;
const LOCKS: usize = 2;
/// Bytes of each lock, side by side in the page.
const LEN: usize = 2;

type Page = [u8; LOCKS * LEN];

/// How often each host takes each lock, and which rule is switched off.
#[derive(Clone, Default)]
struct Two {
    takes: [[u8; LOCKS]; HOSTS],
    deaths: u8,
    evictions: u8,
    /// The second host reads.
    shares: bool,
    /// A release names places, and not the bytes.
    hides_bytes: bool,
    /// A release sends all that was changed in its pages.
    sends_pages: bool,
    /// A holder that is to redo a release says so at once.
    skips_redo: bool,
    /// Locks are leased. How messages of recalls may cross is explored in `lock`; here an answer comes at once.
    lends: bool,
    /// A lock that is leased is kept before what was published is at home.
    keeps_early: bool,
    /// Releases take their stores along.
    along: bool,
    /// The home puts none of those in place.
    forgets: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Frame {
    own: Page,
    /// Of a dirty page.
    twin: Option<Page>,
}

/// What one that has a lock is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Doing {
    /// It puts at home what one before it left half-done.
    Redoes(Vec<(usize, u8)>),
    Works,
    /// It puts its changes at home.
    Sends {
        left: Vec<usize>,
        stamp: Stamp,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Held {
    number: u64,
    doing: Doing,
    /// What it must see.
    sees: [u8; LEN],
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Host {
    link: u64,
    frame: Option<Frame>,
    known: [Option<Stamp>; LOCKS],
    held: [Option<Held>; LOCKS],
    waits: [Option<u64>; LOCKS],
    taken: [u8; LOCKS],
    /// The takings by which locks are leased to it.
    leased: [Option<u64>; LOCKS],
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    locks: Locks,
    data: BoundData,
    base: Page,
    hosts: Vec<Host>,
    /// What the last release of each lock left.
    released: [[u8; LEN]; LOCKS],
    stores: u8,
    deaths: u8,
    evictions: u8,
    numbers: u64,
    /// Takings of which nodes are asked, and whether hosts that died kept those that were theirs.
    asked: BTreeSet<Claimant>,
    ended: BTreeMap<Claimant, bool>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Action {
    Take(usize, usize),
    Touch(usize),
    Evict(usize),
    Store(usize, usize),
    Publish(usize, usize),
    Release(usize, usize),
    Send(usize, usize),
    Redo(usize, usize),
    Give(usize, usize),
    Answer(Claimant),
    Die(usize),
}

fn name(lock: usize) -> String {
    format!("{lock}")
}

fn bytes_of(lock: usize) -> std::ops::Range<usize> {
    lock * LEN..(lock + 1) * LEN
}

fn range_at(at: usize) -> BoundRange {
    BoundRange { gid: Gid(1), offset: at as u64, len: 1 }
}

impl Host {
    fn view(&self, base: &Page, lock: usize) -> [u8; LEN] {
        let page = self.frame.as_ref().map_or(base, |frame| &frame.own);
        page[bytes_of(lock)].try_into().unwrap()
    }

    /// As `update`: a clean page is forgotten, a dirty one takes the home's bytes and keeps its stores.
    fn update(&mut self, base: &Page) {
        let Some(Frame { own, twin: Some(twin) }) = &mut self.frame else {
            self.frame = None;
            return;
        };
        for at in 0..own.len() {
            if own[at] == twin[at] {
                own[at] = base[at];
            }
        }
        *twin = *base;
    }

    /// As `take_in`.
    fn patch(&mut self, at: usize, byte: u8) {
        if let Some(frame) = &mut self.frame {
            frame.own[at] = byte;
            if let Some(twin) = &mut frame.twin {
                twin[at] = byte;
            }
        }
    }
}

impl World {
    fn who(&self, host: usize, lock: usize) -> Claimant {
        Claimant { link: self.hosts[host].link, number: self.hosts[host].held[lock].as_ref().unwrap().number }
    }

    fn enter(&mut self, model: &Two, host: usize, lock: usize, number: u64) {
        let grant = self.data.on_grant(&name(lock), self.hosts[host].known[lock], 7).expect("it has data");
        let (me, base) = (&mut self.hosts[host], self.base);
        me.waits[lock] = None;
        match grant.changes.ranges() {
            Some([]) => {}
            Some(_) if matches!(grant.changes, Stores::Bytes(..)) => {
                grant.changes.pieces().for_each(|(range, bytes)| me.patch(range.offset as usize, bytes[0]));
            }
            _ => me.update(&base),
        }
        let is_whole = grant.condition == Condition::Whole;
        let doing = match &grant.condition {
            Condition::Redo(stores) if !model.skips_redo => {
                Doing::Redoes(stores.pieces().map(|(range, bytes)| (range.offset as usize, bytes[0])).collect())
            }
            _ => Doing::Works,
        };
        me.known[lock] = Some(grant.stamp);
        me.held[lock] = Some(Held { number, doing, sees: self.released[lock] });
        let who = self.who(host, lock);
        if model.skips_redo {
            self.data.on_redone(&self.locks, who).unwrap();
        }
        if model.lends && is_whole && self.locks.on_lend(who) {
            self.hosts[host].leased[lock] = Some(number);
        }
    }

    /// A host's node looks at the word of a lock that is leased.
    fn answer(&mut self, model: &Two, who: Claimant) {
        let found = |(host, lock): &(usize, usize)| {
            (self.hosts[*host].link, self.hosts[*host].leased[*lock]) == (who.link, Some(who.number))
        };
        let all = (0..HOSTS).flat_map(|host| (0..LOCKS).map(move |lock| (host, lock)));
        let is_kept = match all.into_iter().find(found) {
            Some((host, lock)) => {
                self.hosts[host].leased[lock] = None;
                self.hosts[host].held[lock].is_none()
            }
            None => self.ended.remove(&who).expect("the host died"),
        };
        if is_kept {
            self.data.on_yield(&self.locks, who);
        }
        self.locks.on_recalled(who, if is_kept { Recalled::Kept } else { Recalled::Held });
        self.settle(model);
    }

    /// Those who waited get their locks.
    fn settle(&mut self, model: &Two) {
        while let Some(step) = self.locks.poll_recall() {
            match step {
                RecallStep::Begin(who) => self.asked.insert(who),
                RecallStep::End(who) => self.asked.remove(&who),
            };
        }
        while let Some(grant) = self.locks.poll() {
            let host = self.hosts.iter().position(|host| host.link == grant.who.link).expect("nobody who is gone");
            let lock = self.hosts[host].waits.iter().position(|number| *number == Some(grant.who.number)).unwrap();
            self.enter(model, host, lock, grant.who.number);
        }
    }

    fn publish(&mut self, model: &Two, host: usize, lock: usize) -> Option<()> {
        let frame = self.hosts[host].frame.as_ref()?;
        let twin = frame.twin.as_ref()?;
        let changed = |range: std::ops::Range<usize>| range.filter(|at| frame.own[*at] != twin[*at]).collect::<Vec<usize>>();
        let named = changed(bytes_of(lock));
        let ranges: Vec<BoundRange> = named.iter().map(|at| range_at(*at)).collect();
        let bytes = named.iter().map(|at| frame.own[*at]).collect();
        let changes = if model.hides_bytes { Stores::Ranges(ranges) } else { Stores::Bytes(ranges, bytes) };
        let left = if model.sends_pages { changed(0..LOCKS * LEN) } else { named.clone() };
        if named.is_empty() {
            return None;
        }
        let who = self.who(host, lock);
        let stamp = self.data.on_publish(&self.locks, who, 7, Publication { changes, binding: None }).unwrap();
        self.hosts[host].held[lock].as_mut()?.doing = Doing::Sends { left, stamp };
        Some(())
    }

    /// The same in one message, whose stores the home puts in place. If its answer says that the lock is kept, the host gives it back by
    /// its word. It sends a message if the lock was asked for meanwhile.
    fn release(&mut self, model: &Two, host: usize, lock: usize) -> Option<()> {
        let who = self.who(host, lock);
        self.publish(model, host, lock)?;
        let held = self.hosts[host].held[lock].as_mut()?;
        let Doing::Sends { left, .. } = &mut held.doing else { return None };
        let left = std::mem::take(left);
        for at in left {
            self.put(host, at, !model.forgets)?;
        }
        if self.locks.may_keep(who) {
            self.data.on_put(&self.locks, who);
            self.released[lock] = self.hosts[host].held[lock].as_ref()?.sees;
            return Some(());
        }
        self.hosts[host].leased[lock] = None;
        self.give(model, host, lock);
        Some(())
    }

    /// A byte that a host stored goes home.
    fn put(&mut self, host: usize, at: usize, arrives: bool) -> Option<()> {
        let frame = self.hosts[host].frame.as_mut()?;
        if arrives {
            self.base[at] = frame.own[at];
        }
        let twin = frame.twin.as_mut()?;
        twin[at] = frame.own[at];
        // A page without stores is clean.
        if *twin == frame.own {
            frame.twin = None;
        }
        Some(())
    }

    fn give(&mut self, model: &Two, host: usize, lock: usize) {
        let who = self.who(host, lock);
        let me = &mut self.hosts[host];
        let held = me.held[lock].take().unwrap();
        if let Doing::Sends { stamp, .. } = held.doing {
            me.known[lock] = Some(stamp);
            self.released[lock] = held.sees;
        }
        if me.leased[lock] == Some(held.number) {
            return;
        }
        self.data.on_unlock(&self.locks, who);
        self.locks.on_unlock(who).unwrap();
        self.settle(model);
    }

    fn die(&mut self, model: &Two, host: usize) {
        let link = self.hosts[host].link;
        for lock in 0..LOCKS {
            // From the moment on at which it was named, a release counts.
            if let Some(Held { doing: Doing::Sends { .. }, sees, .. }) = &self.hosts[host].held[lock] {
                self.released[lock] = *sees;
            }
        }
        let Host { taken, leased, held, .. } = &self.hosts[host];
        let words =
            leased.iter().zip(held).filter_map(|(leased, held)| Some((Claimant { link, number: (*leased)? }, held.is_none())));
        self.ended.extend(words);
        let taken = *taken;
        self.hosts[host] = Host { link: link + HOSTS as u64, taken, ..Host::default() };
        self.deaths += 1;
        self.data.on_link_gone(link);
        self.locks.on_link_gone(link);
        self.settle(model);
    }

    /// What a lock's holder may do next.
    fn acts_of(&self, model: &Two, host: usize, lock: usize, acts: &mut Vec<Action>) {
        let me = &self.hosts[host];
        let Some(held) = &me.held[lock] else {
            if me.waits[lock].is_none() && me.taken[lock] < model.takes[host][lock] {
                acts.push(Action::Take(host, lock));
            }
            return;
        };
        let reads = model.shares && host == 1;
        match &held.doing {
            Doing::Redoes(_) => acts.push(Action::Redo(host, lock)),
            Doing::Sends { left, .. } if left.is_empty() || model.keeps_early => acts.push(Action::Give(host, lock)),
            Doing::Sends { .. } => acts.push(Action::Send(host, lock)),
            Doing::Works => {
                let has_stored = me.view(&self.base, lock) != self.released[lock];
                if !reads && !has_stored && me.frame.is_some() {
                    acts.push(Action::Store(host, lock));
                }
                acts.push(match has_stored {
                    true if model.along => Action::Release(host, lock),
                    true => Action::Publish(host, lock),
                    false => Action::Give(host, lock),
                });
            }
        }
    }

    fn act(&mut self, model: &Two, action: Action) -> Option<()> {
        match action {
            Action::Take(host, lock) if self.hosts[host].leased[lock].is_some() => {
                let (me, sees) = (&mut self.hosts[host], self.released[lock]);
                me.taken[lock] += 1;
                me.held[lock] = me.leased[lock].map(|number| Held { number, doing: Doing::Works, sees });
            }
            Action::Take(host, lock) => {
                self.numbers += 1;
                let number = self.numbers;
                let mode = if model.shares && host == 1 { Mode::Shared } else { Mode::Exclusive };
                let who = Claimant { link: self.hosts[host].link, number };
                self.hosts[host].taken[lock] += 1;
                match self.locks.on_lock(&name(lock), Claim { who, thread: lock as u64, mode }, true).unwrap() {
                    Claimed::Granted { .. } => self.enter(model, host, lock, number),
                    _ => {
                        self.hosts[host].waits[lock] = Some(number);
                        self.settle(model);
                    }
                }
            }
            Action::Answer(who) => self.answer(model, who),
            Action::Touch(host) => self.hosts[host].frame = Some(Frame { own: self.base, twin: None }),
            Action::Evict(host) => {
                self.hosts[host].frame = None;
                self.evictions += 1;
            }
            Action::Store(host, lock) => {
                self.stores += 1;
                let (value, me) = ([self.stores; LEN], &mut self.hosts[host]);
                let frame = me.frame.as_mut()?;
                frame.twin.get_or_insert(frame.own);
                frame.own[bytes_of(lock)].copy_from_slice(&value);
                me.held[lock].as_mut()?.sees = value;
            }
            Action::Publish(host, lock) => self.publish(model, host, lock)?,
            Action::Release(host, lock) => self.release(model, host, lock)?,
            Action::Send(host, lock) => {
                let me = &mut self.hosts[host];
                let Doing::Sends { left, .. } = &mut me.held[lock].as_mut()?.doing else { return None };
                let at = left.pop()?;
                self.put(host, at, true)?;
            }
            Action::Redo(host, lock) => {
                let who = self.who(host, lock);
                let me = &mut self.hosts[host];
                let held = me.held[lock].as_mut()?;
                let Doing::Redoes(left) = &mut held.doing else { return None };
                match left.pop() {
                    Some((at, byte)) => {
                        self.base[at] = byte;
                        me.patch(at, byte);
                    }
                    None => {
                        held.doing = Doing::Works;
                        self.data.on_redone(&self.locks, who).unwrap();
                    }
                }
            }
            Action::Give(host, lock) => self.give(model, host, lock),
            Action::Die(host) => self.die(model, host),
        }
        Some(())
    }
}
