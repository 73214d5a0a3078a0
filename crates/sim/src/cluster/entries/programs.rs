//! Programs' acts with the data of their locks: they look at them, change them, and release them; each step in its turn, as `hanare`'s library does.

use super::accesses::{Access, offset_of};
use super::frames::{Frames, LOCK_COUNT, PAGE_COUNT, places};
use super::{Cluster, Defect, Entries, Event, ProcessLife, number_of};
use crate::check::{Check, check};
use crate::cluster::locks::LockEvent;
use hanare_protocol::entry::{Condition, DataGrant, Stamp, Stores};
use hanare_protocol::id::{ClientId, Gid};
use hanare_protocol::lock::{Claimant, Mode};
use hanare_protocol::wire::control::RegionView;
use hanare_protocol::wire::sync::{SyncAnswer, SyncRequest};
use hanare_protocol::{Error, Result as Outcome};
use std::collections::{BTreeMap, VecDeque};

/// A program with locks that have data, of one thread.
#[derive(Debug, Default)]
pub(super) struct EntryProgram {
    pub at: ProcessLife,
    pub id: ClientId,
    pub link: Option<u64>,
    /// The region of its locks, if they are bytes.
    pub region: Option<Gid>,
    /// The regions of its pages, as it opened them last.
    pub views: [Option<RegionView>; PAGE_COUNT],
    pub frames: Frames,
    known: [Option<Stamp>; LOCK_COUNT],
    /// Locks that it has, in the order of their takings.
    sections: Vec<Section>,
    pub todo: VecDeque<Todo>,
    /// Requests under way at the homes of data, by number.
    pub accesses: BTreeMap<u64, Access>,
}

/// A lock that a program has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Section {
    pub lock: usize,
    pub who: Claimant,
    pub is_alone: bool,
    /// True if the program stores all data and binds them with that, because none are bound, or they are torn.
    pub rebinds: bool,
}

/// Next act of a program.
#[derive(Clone, Debug)]
pub(super) enum Todo {
    Update(usize),
    /// Puts at their homes what one before it left half-done.
    Redo(Claimant, Vec<(usize, u8)>),
    SayRedone(Claimant),
    /// The bytes of a lock are here, as of a version. True if it is told that they are torn.
    Enter(usize, Option<Stamp>, bool),
    See(usize),
    /// Some bytes, or all.
    Store(usize, bool),
    /// True if the stores may go along with the lock.
    Release(usize, bool),
    Send(Claimant, Vec<(usize, u8)>),
    Unlock(Claimant),
}

impl EntryProgram {
    fn new((at, id): (ProcessLife, ClientId), region: Option<Gid>) -> EntryProgram {
        EntryProgram { at, id, region, ..EntryProgram::default() }
    }

    /// True if a request at a home of data is under way.
    pub fn is_accessing(&self) -> bool {
        !self.accesses.is_empty()
    }

    pub fn section(&self, lock: usize) -> Option<Section> {
        self.sections.iter().copied().find(|section| section.lock == lock)
    }

    /// The bytes of stores, one by one.
    fn each_byte(&self, stores: &Stores) -> Vec<(usize, u8)> {
        let first = offset_of(self.region, 0);
        let bytes = stores.pieces().flat_map(|(range, bytes)| (range.offset - first..).zip(bytes.iter().copied()));
        bytes.map(|(at, byte)| (at as usize, byte)).collect()
    }

    /// A lock is lost, and what was stored under it is taken back.
    fn lose(&mut self, Section { lock, is_alone, .. }: Section, keeps_version: bool) {
        if is_alone {
            self.frames.discard(lock);
            if !keeps_version {
                self.known[lock] = None;
            }
        }
    }

    /// At the end it waits for nothing.
    pub fn judge_at_rest(&self, client: u64) -> Check {
        let is_idle = self.sections.is_empty() && self.todo.is_empty() && self.accesses.is_empty();
        check(is_idle || self.link.is_none(), || format!("program {client} has not come to its end: {self:?}"))
    }
}

impl Cluster {
    pub(super) fn entry(&mut self, client: u64) -> Option<&mut EntryProgram> {
        self.entries.as_mut()?.programs.get_mut(&client)
    }

    /// A program with data connects to the home of its locks. It forgets its data where their region is another one.
    pub(crate) fn begin_entry(&mut self, client: u64, link: u64, who: (ProcessLife, ClientId), view: Option<RegionView>) {
        let Some(entries) = &mut self.entries else { return };
        let region = view.as_ref().map(|view| view.gid);
        let me = entries.programs.entry(client).or_insert_with(|| EntryProgram::new(who, region));
        if me.region != region {
            *me = EntryProgram::new(who, region);
        }
        me.link = Some(link);
        if view.is_some() {
            me.views = std::array::from_fn(|_| view.clone());
        }
    }

    /// The version that a program has of the data of a lock.
    pub(crate) fn known_of(&mut self, client: u64, lock: usize) -> Option<Stamp> {
        self.entry(client)?.known[lock]
    }

    /// A program's connection is over: what it held is lost to it, and it takes its stores back.
    pub(crate) fn lose_entry(&mut self, client: u64) {
        let keeps_version = self.has(Defect::KeepVersion);
        let Some(me) = self.entry(client) else { return };
        me.link = None;
        me.accesses.clear();
        me.todo.clear();
        std::mem::take(&mut me.sections).into_iter().for_each(|section| me.lose(section, keeps_version));
    }

    /// A program has died.
    pub(crate) fn end_entry(&mut self, client: u64) {
        self.entries.iter_mut().for_each(|entries| drop(entries.programs.remove(&client)));
    }

    /// A program goes on with the data of its locks. Returns false where it has nothing to do with them: it may take another lock.
    pub(crate) fn step_entry(&mut self, client: u64) -> Result<bool, String> {
        let Some(me) = self.entry(client) else { return Ok(false) };
        if me.is_accessing() {
            return Ok(true);
        }
        if me.todo.is_empty() {
            self.decide_entry(client);
        }
        let Some(todo) = self.entry(client).and_then(|me| me.todo.pop_front()) else { return Ok(false) };
        self.note(format!("program {client}: {todo:?}"));
        self.do_entry(client, todo)?;
        if !self.is_waiting(client) && self.entry(client).is_some_and(|me| !me.is_accessing()) {
            let after = self.dice.pick(&[0, 0, 1, 20]);
            self.at(after, Event::Lock(LockEvent::Thread { client, thread: 0 }));
        }
        Ok(true)
    }

    /// Decides a program's next act.
    fn decide_entry(&mut self, client: u64) {
        let Cluster { course, entries, .. } = self;
        let Some(me) = entries.as_mut().and_then(|entries| entries.programs.get_mut(&client)) else { return };
        if course.dice.chance(1_000) {
            me.frames.give_up(course.dice.below(PAGE_COUNT as u64) as usize);
        }
        let Some(Section { lock, is_alone, .. }) = me.sections.last().copied() else { return };
        match course.dice.below(10) {
            0 | 1 if course.is_rough && lock + 1 < LOCK_COUNT => {}
            2 | 3 => me.todo.push_back(Todo::See(lock)),
            4..=7 if is_alone && course.is_rough => me.todo.push_back(Todo::Store(lock, false)),
            _ => me.todo.push_back(Todo::Release(lock, true)),
        }
    }

    fn do_entry(&mut self, client: u64, todo: Todo) -> Check {
        let (keeps_stale, skips) = (self.has(Defect::KeepStale), self.has(Defect::SkipRedo));
        let Some(me) = self.entry(client) else { return Ok(()) };
        let needs_all = matches!(todo, Todo::Enter(..) | Todo::See(_) | Todo::Store(..) | Todo::Release(..));
        if let Some(page) = me.frames.missing().filter(|_| needs_all) {
            me.todo.push_front(todo);
            return self.access_data(client, Access::Fetch(page));
        }
        match todo {
            Todo::Update(page) if me.frames.is_dirty(page) => self.access_data(client, Access::Fetch(page)),
            Todo::Update(page) => {
                if !keeps_stale {
                    me.frames.give_up(page);
                }
                Ok(())
            }
            Todo::Redo(who, puts) => {
                puts.iter().filter(|_| !skips).for_each(|(at, byte)| me.frames.patch(*at, *byte, true));
                if skips { Ok(()) } else { self.send_stores(client, who, puts) }
            }
            Todo::SayRedone(who) => self.ask_about_lock(client, SyncRequest::Redone { number: who.number }),
            Todo::Enter(lock, stamp, is_torn) => {
                me.known[lock] = stamp;
                self.see(client, lock, is_torn)
            }
            Todo::See(lock) if me.frames.changed(Some(lock)).is_empty() => self.see(client, lock, true),
            Todo::See(_) => Ok(()),
            Todo::Store(lock, is_all) => {
                self.store(client, lock, is_all);
                Ok(())
            }
            Todo::Release(lock, may_go_along) => self.release(client, lock, may_go_along),
            Todo::Send(who, puts) => self.send_stores(client, who, puts),
            Todo::Unlock(who) => self.ask_about_lock(client, SyncRequest::Unlock { number: who.number }),
        }
    }

    pub(super) fn send_stores(&mut self, client: u64, who: Claimant, puts: Vec<(usize, u8)>) -> Check {
        puts.into_iter().try_for_each(|(at, byte)| self.access_data(client, Access::Put { at, byte, who }))
    }

    /// A holder looks at what is bound to its lock.
    fn see(&mut self, client: u64, lock: usize, is_told_torn: bool) -> Check {
        self.count("looks at bound data");
        let Some(Entries { judge, programs, .. }) = &mut self.entries else { return Ok(()) };
        let seen = programs.get(&client).and_then(|me| Some((me.section(lock)?.who, me.frames.bound(lock))));
        seen.map_or(Ok(()), |(who, sees)| judge.on_seen(who, sees, is_told_torn))
    }

    fn store(&mut self, client: u64, lock: usize, is_all: bool) {
        let Cluster { course, entries: Some(entries), .. } = self else { return };
        let Some(me) = entries.programs.get_mut(&client) else { return };
        let before = me.frames.bound(lock);
        for (at, before) in places(lock).zip(before) {
            if is_all || course.dice.chance(5_000) {
                entries.stored = entries.stored.wrapping_add(1);
                if entries.stored == before {
                    entries.stored = entries.stored.wrapping_add(1);
                }
                me.frames.own[at] = entries.stored;
            }
        }
    }

    /// A program has a lock: it takes in the data, or brings them.
    pub(crate) fn enter(&mut self, client: u64, who: Claimant, (lock, mode): (usize, Mode), data: Option<DataGrant>) -> Check {
        let [forgets, frames_alone] = [Defect::ForgetBytes, Defect::PatchFramesAlone].map(|defect| self.has(defect));
        let Some(me) = self.entry(client) else { return Ok(()) };
        let (stamp, changes) = (data.as_ref().map(|data| data.stamp), data.as_ref().map(|data| &data.changes));
        let (is_alone, condition) = (mode == Mode::Exclusive, data.as_ref().map(|data| &data.condition));
        let is_torn = condition == Some(&Condition::Torn);
        let rebinds = is_alone && (data.is_none() || is_torn);
        me.sections.push(Section { lock, who, is_alone, rebinds });
        match changes {
            Some(Stores::Bytes(..)) if forgets => {}
            Some(changes @ Stores::Bytes(..)) => {
                let bytes = me.each_byte(changes);
                bytes.into_iter().for_each(|(at, byte)| me.frames.patch(at, byte, !frames_alone));
            }
            _ => me.todo.extend((0..PAGE_COUNT).map(Todo::Update)),
        }
        if let Some(Condition::Redo(stores)) = condition {
            let puts = me.each_byte(stores);
            me.todo.extend([Todo::Redo(who, puts), Todo::SayRedone(who)]);
        }
        me.todo.push_back(Todo::Enter(lock, stamp, is_torn));
        if rebinds {
            me.todo.push_back(Todo::Store(lock, true));
        }
        Ok(())
    }

    /// A request about a lock that a program has is answered.
    pub(crate) fn on_asked_about(&mut self, client: u64, asks: &SyncRequest, answer: &Outcome<SyncAnswer>) -> Check {
        let (Some(me), Some(number)) = (self.entry(client), number_of(asks)) else { return Ok(()) };
        let at = me.sections.iter().position(|section| section.who.number == number).ok_or("an answer about no lock")?;
        let section @ Section { lock, .. } = me.sections[at];
        match (asks, answer) {
            (SyncRequest::Publish { .. }, Ok(SyncAnswer::Published { stamp })) => me.known[lock] = Some(*stamp),
            (SyncRequest::Redone { .. }, Ok(SyncAnswer::Done)) => {}
            (SyncRequest::Unlock { .. }, Ok(SyncAnswer::Done)) => drop(me.sections.remove(at)),
            (SyncRequest::Release { publication, .. }, Ok(SyncAnswer::Released(stamp, _))) => {
                let bytes = me.each_byte(&publication.changes);
                bytes.into_iter().for_each(|(at, byte)| me.frames.twin[at] = byte);
                me.known[lock] = Some(*stamp);
                me.sections.remove(at);
            }
            (SyncRequest::Unlock { .. } | SyncRequest::Release { .. }, Err(Error::LockMisused { .. })) => {
                me.sections.remove(at);
                me.lose(section, false);
            }
            (SyncRequest::Release { .. }, Err(_)) => me.todo.push_front(Todo::Release(lock, false)),
            (asks, answer) => return Err(format!("{asks:?} is answered {answer:?}")),
        }
        Ok(())
    }
}
