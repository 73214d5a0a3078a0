//! Programs' acts: they take a lock or several in their order, look at the bound data, change them, and release them; each step in its
//! turn, as `hanare`'s library does.

use super::frames::{Bound, Frames, LEN, LOCK_COUNT, PAGE_COUNT, PAGE_LEN, Page, bound_of, page_range, places};
use super::service::name_of;
use super::{Access, Defect, EntryWorld, Event};
use crate::check::{Check, check};
use hanare_protocol::Result as Outcome;
use hanare_protocol::entry::{BoundRange, BoundShape, Condition, DataGrant, Publication, Stamp, Stores};
use hanare_protocol::id::{Gid, Grant, Slot};
use hanare_protocol::lock::Mode;
use hanare_protocol::shape::Strided;
use hanare_protocol::wire::carried::ExtentAddress;
use hanare_protocol::wire::sync::{LeaseWish, SyncAddress, SyncAnswer, SyncRequest};
use std::collections::VecDeque;

pub(super) const GID: Gid = Gid(1);

/// A program attached to the pool, of one thread.
#[derive(Debug)]
pub(super) struct Holder {
    pub node: u64,
    pub link: Option<u64>,
    /// The next request or taking.
    next: u64,
    frames: Frames,
    known: [Option<Stamp>; LOCK_COUNT],
    held: Vec<LockedData>,
    todo: VecDeque<Todo>,
    /// The request under way at the locks' home.
    asks: Option<(u64, SyncRequest)>,
    /// Number of accesses under way at the regions' homes.
    accesses: usize,
}

/// A lock that a program has.
#[derive(Clone, Copy, Debug)]
struct LockedData {
    lock: usize,
    number: u64,
    mode: Mode,
    /// True if no data are bound yet: that is done when it is given back.
    binds: bool,
}

/// Next act of a program.
#[derive(Clone, Debug)]
enum Todo {
    Take(usize, Mode),
    Update(usize),
    Touch(usize),
    /// Puts at their homes what one before it left half-done.
    Redo(Vec<(usize, u8)>),
    SayRedone(LockedData),
    Enter {
        held: LockedData,
        stamp: Option<Stamp>,
        is_torn: bool,
    },
    See(LockedData),
    Store(LockedData),
    Publish(LockedData),
    Send(Vec<(usize, u8)>),
    Unlock(LockedData),
}

impl Holder {
    /// True if an access at the regions' homes is under way.
    pub fn is_accessing(&self) -> bool {
        self.accesses > 0
    }
}

impl EntryWorld {
    /// A program begins.
    pub(super) fn on_begin(&mut self, node: u64) -> Check {
        self.program_count += 1;
        let program = self.program_count;
        let (frames, todo) = (Frames::default(), VecDeque::new());
        let begun = Holder {
            node,
            link: None,
            next: 0,
            frames,
            known: Default::default(),
            held: Vec::new(),
            todo,
            asks: None,
            accesses: 0,
        };
        self.programs.insert(program, begun);
        self.at(0, Event::Connect { program });
        Ok(())
    }

    /// A program's connection is over: what it held is lost to it, and it takes its stores back.
    pub(super) fn on_link_lost(&mut self, program: u64, link: u64) {
        let keeps_version = self.has(Defect::KeepVersion);
        let Some(me) = self.programs.get_mut(&program).filter(|me| me.link == Some(link)) else { return };
        me.link = None;
        (me.asks, me.accesses) = (None, 0);
        me.todo.clear();
        let lost = std::mem::take(&mut me.held);
        for held in lost.iter().filter(|held| held.mode == Mode::Exclusive) {
            me.frames.discard(held.lock);
            if !keeps_version {
                me.known[held.lock] = None;
            }
        }
        lost.iter().for_each(|_| self.count("locks lost with their connection"));
        let after = self.dice.between(0, 300);
        self.at(after, Event::Connect { program });
    }

    /// A program does its next thing, if it waits for nothing.
    pub(super) fn on_step(&mut self, program: u64, link: u64) -> Check {
        let is_idle = |me: &Holder| me.link == Some(link) && me.asks.is_none() && me.accesses == 0;
        let Some(me) = self.programs.get(&program).filter(|me| is_idle(me)) else { return Ok(()) };
        if me.todo.is_empty() {
            self.decide(program);
        }
        let next = self.programs.get_mut(&program).and_then(|me| me.todo.pop_front());
        let Some(todo) = next else { return Ok(()) };
        self.note(format!("program {program}: {todo:?}"));
        self.act_on(program, link, todo)?;
        if is_idle(&self.programs[&program]) {
            let after = self.dice.pick(&[0, 0, 1, 20]);
            self.at(after, Event::Step { program, link });
        }
        Ok(())
    }

    /// Decides a program's next act.
    fn decide(&mut self, program: u64) {
        let EntryWorld { course, programs, .. } = self;
        let me = programs.get_mut(&program).expect("the caller looked");
        if course.dice.chance(1_000) {
            me.frames.give_up(course.dice.below(PAGE_COUNT as u64) as usize);
        }
        let mode = if course.dice.chance(7_000) { Mode::Exclusive } else { Mode::Shared };
        let Some(held) = me.held.last().copied() else {
            if course.is_rough {
                me.todo.push_back(Todo::Take(course.dice.below(LOCK_COUNT as u64) as usize, mode));
            }
            return;
        };
        let touched = (0..PAGE_COUNT).map(Todo::Touch);
        match course.dice.below(10) {
            0 | 1 if course.is_rough && held.lock + 1 < LOCK_COUNT => {
                let behind = course.dice.between(held.lock as u64 + 1, LOCK_COUNT as u64 - 1);
                me.todo.push_back(Todo::Take(behind as usize, mode));
            }
            2 | 3 => me.todo.extend(touched.chain([Todo::See(held)])),
            4..=7 if held.mode == Mode::Exclusive => me.todo.extend(touched.chain([Todo::Store(held)])),
            _ => me.todo.push_back(Todo::Publish(held)),
        }
    }

    fn act_on(&mut self, program: u64, link: u64, todo: Todo) -> Check {
        let keeps_stale = self.has(Defect::KeepStale);
        let me = self.programs.get_mut(&program).expect("the caller looked");
        match todo {
            Todo::Take(lock, mode) => {
                let (number, known) = (me.next + 1, me.known[lock]);
                let lease = LeaseWish::default();
                let address = SyncAddress::Name(name_of(lock));
                let request = SyncRequest::Lock { address, mode, number, thread: 0, bound_ms: None, known, lease };
                self.ask(program, link, request);
            }
            Todo::Update(page) if me.frames.is_dirty(page) => self.access(program, link, Access::Fetch(page)),
            Todo::Update(page) if !keeps_stale => me.frames.give_up(page),
            Todo::Touch(page) if !me.frames.is_here(page) => self.access(program, link, Access::Fetch(page)),
            Todo::Update(_) | Todo::Touch(_) => {}
            Todo::Redo(puts) => {
                puts.iter().for_each(|(at, byte)| me.frames.patch(*at, *byte, true));
                puts.into_iter().for_each(|(at, byte)| self.access(program, link, Access::Put(at, byte)));
            }
            Todo::SayRedone(held) => self.ask(program, link, SyncRequest::Redone { number: held.number }),
            Todo::Enter { held, stamp, is_torn } => {
                me.known[held.lock] = stamp;
                self.see(program, link, held, is_torn)?;
            }
            Todo::See(held) => {
                let has_stored = !me.frames.changed(Some(held.lock)).is_empty();
                if !has_stored {
                    self.see(program, link, held, true)?;
                }
            }
            Todo::Store(held) => {
                for at in places(held.lock) {
                    if self.course.dice.chance(5_000) {
                        self.stored = self.stored.wrapping_add(1);
                        me.frames.store(at, self.stored);
                    }
                }
            }
            Todo::Publish(held) => self.publish(program, link, held),
            Todo::Send(puts) => puts.into_iter().for_each(|(at, byte)| self.access(program, link, Access::Put(at, byte))),
            Todo::Unlock(held) => self.ask(program, link, SyncRequest::Unlock { number: held.number }),
        }
        Ok(())
    }

    /// A holder looks at what is bound to its lock. One whose end the home has seen may see anything.
    fn see(&mut self, program: u64, link: u64, held: LockedData, is_told_torn: bool) -> Check {
        if !self.links.is_open_at_home(link) {
            return Ok(());
        }
        self.count("looks at bound data");
        let sees = self.view(program, held.lock);
        self.truth.on_seen(held.lock, sees, is_told_torn)
    }

    fn view(&self, program: u64, lock: usize) -> Bound {
        let base = self.base();
        let region: [u8; LEN] = std::array::from_fn(|at| self.programs[&program].frames.load(at, &base));
        bound_of(&region, lock)
    }

    /// Names what was stored, where anything was, and gives the lock back after that.
    fn publish(&mut self, program: u64, link: u64, held: LockedData) {
        let view = self.view(program, held.lock);
        let (sends_pages, sends_first) = (self.has(Defect::SendPages), self.has(Defect::SendBeforePublish));
        // A release that is too long for a message names places.
        let is_long = self.dice.chance(2_500);
        let goes_along = self.dice.chance(3_000);
        let me = self.programs.get_mut(&program).expect("the caller looked");
        let changed = if held.mode == Mode::Exclusive { me.frames.changed(Some(held.lock)) } else { Vec::new() };
        if held.mode == Mode::Shared || changed.is_empty() && !held.binds {
            me.todo.push_back(Todo::Unlock(held));
            return;
        }
        let sent = if sends_pages { me.frames.changed(None) } else { changed.clone() };
        let ranges = changed.iter().map(|(at, _)| BoundRange { gid: GID, offset: *at as u64, len: 1 }).collect();
        let changes = match is_long && !changed.is_empty() {
            true => Stores::Ranges(ranges),
            false => Stores::Bytes(ranges, changed.iter().map(|(_, byte)| *byte).collect()),
        };
        let stride = LOCK_COUNT as u64;
        let shape = Strided { offset: held.lock as u64, block: 1, count: LEN as u64 / stride, stride };
        let binding = held.binds.then(|| vec![BoundShape { gid: GID, shape }]);
        self.drafts.insert((link, held.number), view);
        let publication = Publication { changes, binding };
        if goes_along && !sends_pages && matches!(&publication.changes, Stores::Bytes(ranges, _) if !ranges.is_empty()) {
            let place = |(at, _): &(usize, u8)| ExtentAddress { slot: Slot(0), grant: Grant::default(), offset: *at as u64 };
            let places = changed.iter().map(place).collect();
            self.count("releases in one message");
            self.ask(program, link, SyncRequest::Release { number: held.number, publication, places, keeps: false });
            return;
        }
        me.todo.extend([Todo::Send(sent.clone()), Todo::Unlock(held)]);
        if sends_first {
            sent.into_iter().for_each(|(at, byte)| self.access(program, link, Access::Put(at, byte)));
        }
        self.count("releases");
        self.ask(program, link, SyncRequest::Publish { number: held.number, publication });
    }

    fn ask(&mut self, program: u64, link: u64, request: SyncRequest) {
        let me = self.programs.get_mut(&program).expect("the caller looked");
        let seq = me.next;
        me.next += 2;
        me.asks = Some((seq, request.clone()));
        self.send_home(link, seq, request);
    }

    fn access(&mut self, program: u64, link: u64, access: Access) {
        self.programs.get_mut(&program).expect("the caller looked").accesses += 1;
        let after = self.delay_ms();
        self.at(after, Event::Access { link, access });
    }

    /// A region's home is asked. It takes nothing from one whose end the locks' home has seen.
    pub(super) fn on_access(&mut self, link: u64, access: Access) -> Check {
        let is_open = self.links.is_open_at_home(link);
        let page = match access {
            Access::Fetch(page) => page,
            Access::Put(at, byte) if is_open || self.has(Defect::LetDeadWrite) => {
                self.put(at, byte);
                at / PAGE_LEN
            }
            Access::Put(..) => {
                self.count("stores of the dead refused");
                return Ok(());
            }
        };
        let bytes: Page = self.base()[page_range(page)].try_into().expect("a page's length");
        let after = self.delay_ms();
        self.at(after, Event::Accessed { link, access, bytes });
        Ok(())
    }

    pub(super) fn on_accessed(&mut self, link: u64, access: Access, bytes: Page) -> Check {
        let Some(program) = self.links.get(link).copied() else { return Ok(()) };
        let Some(me) = self.programs.get_mut(&program).filter(|me| me.link == Some(link)) else { return Ok(()) };
        match access {
            Access::Fetch(page) => me.frames.come(page, bytes),
            Access::Put(at, byte) => me.frames.settle(at, byte),
        }
        me.accesses = me.accesses.checked_sub(1).ok_or("an answer to nobody")?;
        self.at(0, Event::Step { program, link });
        Ok(())
    }

    /// An answer of the locks' home arrives.
    pub(super) fn on_answer(&mut self, link: u64, seq: u64, answer: Outcome<SyncAnswer>) -> Check {
        let Some(program) = self.links.receiving(link, self.now_ms, false).copied() else {
            self.count("messages lost with their connection");
            return Ok(());
        };
        let me = self.programs.get_mut(&program).ok_or("an open connection of nobody")?;
        let asks = me.asks.take_if(|(other, _)| *other == seq);
        let (_, request) = asks.ok_or_else(|| format!("program {program} is answered twice: {answer:?}"))?;
        match (request, answer) {
            (SyncRequest::Lock { address: SyncAddress::Name(name), mode, number, .. }, Ok(SyncAnswer::Granted { data, .. })) => {
                let lock = (0..LOCK_COUNT).find(|lock| name_of(*lock) == name).expect("one of them");
                let binds = data.is_none() && mode == Mode::Exclusive;
                let held = LockedData { lock, number, mode, binds };
                self.enter(program, held, data.map(|data| *data));
            }
            (SyncRequest::Publish { number, .. }, Ok(SyncAnswer::Published { stamp })) => {
                let lock = me.held.iter().find(|held| held.number == number).ok_or("a release of no lock")?.lock;
                me.known[lock] = Some(stamp);
            }
            (SyncRequest::Release { number, publication, .. }, Ok(SyncAnswer::Released(stamp, _))) => {
                let at = me.held.iter().position(|held| held.number == number).ok_or("a release of no lock")?;
                me.known[me.held.swap_remove(at).lock] = Some(stamp);
                each_byte(&publication.changes).for_each(|(at, byte)| me.frames.settle(at, byte));
            }
            (SyncRequest::Redone { .. }, Ok(SyncAnswer::Done)) => {}
            (SyncRequest::Unlock { number }, Ok(SyncAnswer::Done)) => me.held.retain(|held| held.number != number),
            (request, answer) => return Err(format!("{request:?} is answered {answer:?}")),
        }
        self.at(0, Event::Step { program, link });
        Ok(())
    }

    /// Takes in the data of a lock, or brings them.
    fn enter(&mut self, program: u64, held: LockedData, data: Option<DataGrant>) {
        let [forgets, frames_alone, skips] =
            [Defect::ForgetBytes, Defect::PatchFramesAlone, Defect::SkipRedo].map(|defect| self.has(defect));
        let me = self.programs.get_mut(&program).expect("the caller looked");
        me.held.push(held);
        let Some(DataGrant { stamp, changes, condition, .. }) = data else {
            me.known[held.lock] = None;
            me.todo.extend((0..PAGE_COUNT).map(Todo::Update));
            me.todo.push_back(Todo::Enter { held, stamp: None, is_torn: false });
            return;
        };
        match &changes {
            Stores::Bytes(..) if forgets => {}
            Stores::Bytes(..) => each_byte(&changes).for_each(|(at, byte)| me.frames.patch(at, byte, !frames_alone)),
            _ => me.todo.extend((0..PAGE_COUNT).map(Todo::Update)),
        }
        if let Condition::Redo(stores) = &condition {
            let puts = if skips { Vec::new() } else { each_byte(stores).collect() };
            me.todo.extend([Todo::Redo(puts), Todo::SayRedone(held)]);
        }
        let is_torn = matches!(condition, Condition::Torn);
        me.todo.push_back(Todo::Enter { held, stamp: Some(stamp), is_torn });
    }

    /// At the end nobody waits, and the regions' homes have what was released.
    pub(super) fn is_at_rest(&self) -> Check {
        for (id, me) in &self.programs {
            let is_idle = me.held.is_empty() && me.todo.is_empty() && me.asks.is_none() && me.accesses == 0;
            check(is_idle, || format!("program {id} has not come to its end: {me:?}"))?;
        }
        let home = self.home.as_ref().ok_or("the home is not back")?;
        check(home.is_at_rest(), || format!("the home has somebody waiting for a lock: {home:?}"))
    }
}

/// The bytes of a release, one by one.
fn each_byte(stores: &Stores) -> impl Iterator<Item = (usize, u8)> + '_ {
    stores.pieces().flat_map(|(range, bytes)| (range.offset as usize..).zip(bytes.iter().copied()))
}
