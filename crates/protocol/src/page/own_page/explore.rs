//! Every order of two threads that load and store, a flush, evictions, and another process's store at the home, by stateright. Fetches and
//! sends may fail.
//!
//! Each party that holds the page takes the steps that [`next_step`] says, and nothing else. The parts of a step between which others run are steps
//! of the world. A page has a byte for each thread, and one for the other process. With twins, bytes that differ go home; without twins the
//! whole page goes, and no other process stores to it.
//!
//! Held in every state: a thread sees all stores of its process. A page that nobody holds is as its state says. No store is undone.
//!
//! The tests at the end switch rules off, and expect a counterexample.

use super::{Aim, PageStep, State, next_step};
use crate::explored::{Explored, Judged, holds, is_needed, nothing_is_wrong};
use crate::page::Access;
use stateright::{Model, Property};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Off {
    Nothing,
    /// A page is for the one who holds it.
    Hold,
    /// Bytes are in the frame before the page is said to be there.
    Fill,
    /// The frame of a fetch that failed goes.
    Undo,
    /// The twin is made before a store.
    Twin,
    /// The page is protected before it is read.
    Close,
    /// A page that could not be sent stays.
    Stay,
    /// A page whose stores are not home is not dropped.
    Send,
}

/// A byte of each thread, and one of the other process.
type Bytes = [u8; 3];

/// The byte that another process stores to.
const OTHER: usize = 2;

const LOST: &str = "a store is lost";
const UNDONE: &str = "another's store is undone";
const UNLIKE: &str = "a page is not as its state says";

/// A party: its next step, where it holds the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Party {
    Away,
    Holds(Aim),
    /// Bytes are fetched, and not in the frame.
    Fetched(Aim, Bytes),
    /// Bytes were read, and are not home.
    Read(Aim, Bytes),
    /// A touch whose page was mapped before its twin is made. A defect.
    MapsFirst,
}

/// Steps that are left to a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Left {
    /// Loads and stores of each thread: stores and loads in turn.
    accesses: [u8; 2],
    flushes: u8,
    evictions: u8,
    others: u8,
    failures: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    state: State,
    frame: Option<Bytes>,
    mapped: Option<Access>,
    twin: Option<Bytes>,
    home: Bytes,
    /// The newest store to each byte.
    stored: Bytes,
    /// Two threads, the flush, the eviction.
    parties: [Party; 4],
    left: Left,
    wrong: Option<&'static str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// A thread loads or stores, or faults.
    Access(usize),
    Begin(usize, Aim),
    Go(usize),
    Fail(usize),
    Other,
}

struct Exploration {
    left: Left,
    has_twins: bool,
    off: Off,
}

impl Exploration {
    fn is_off(&self, off: Off) -> bool {
        self.off == off
    }

    fn hold(&self, world: &mut World, party: usize, aim: Aim) -> Option<()> {
        match world.state.after(super::Event::Hold) {
            Some(held) => world.state = held,
            None if self.is_off(Off::Hold) => {}
            None => return None,
        }
        world.parties[party] = Party::Holds(aim);
        Some(())
    }

    /// A thread does its next access where the page table lets it, or faults.
    fn access(&self, world: &mut World, thread: usize) -> Option<()> {
        let wanted = if world.left.accesses[thread].is_multiple_of(2) { Access::Write } else { Access::Read };
        let may = world.mapped == Some(Access::Write) || world.mapped.is_some() && wanted == Access::Read;
        if !may {
            return self.hold(world, thread, Aim::Touch(wanted));
        }
        world.left.accesses[thread] -= 1;
        let Some(frame) = world.frame.as_mut() else {
            // The kernel plants zeros.
            world.wrong = Some(LOST);
            return Some(());
        };
        if frame[..OTHER] != world.stored[..OTHER] {
            world.wrong = Some(LOST);
        }
        if wanted == Access::Write {
            world.stored[thread] += 1;
            frame[thread] = world.stored[thread];
        }
        Some(())
    }

    fn after(&self, world: &mut World, step: PageStep) {
        let to = step.event().and_then(|event| world.state.after(event));
        // The table may not allow a step that breaks a rule.
        let without = match (self.off, step) {
            (Off::Close, PageStep::Send) => Some(State::HeldClean),
            (Off::Send, PageStep::Drop) => Some(State::HeldAbsent),
            _ => None,
        };
        world.state = to.or(without).unwrap_or(world.state);
    }

    fn next(&self, world: &World, aim: Aim) -> PageStep {
        match next_step(aim, world.state) {
            PageStep::Close if self.is_off(Off::Close) => PageStep::Send,
            PageStep::Send if self.is_off(Off::Send) && aim == Aim::Evict => PageStep::Drop,
            step => step,
        }
    }

    /// A party takes its next step, or the part of it that others may come between.
    fn go(&self, world: &mut World, party: usize) -> Option<()> {
        match world.parties[party] {
            Party::Away => return None,
            Party::Fetched(aim, bytes) => {
                world.frame = Some(bytes);
                self.after(world, PageStep::Fetch);
                world.parties[party] = Party::Holds(aim);
            }
            Party::Read(aim, bytes) => {
                for (at, byte) in bytes.into_iter().enumerate() {
                    if world.twin.is_none_or(|twin| twin[at] != byte) {
                        world.home[at] = byte;
                    }
                }
                world.twin = None;
                self.after(world, PageStep::Send);
                world.parties[party] = Party::Holds(aim);
            }
            Party::MapsFirst => {
                world.twin = world.frame;
                self.after(world, PageStep::Open);
                world.parties[party] = Party::Away;
                self.release(world);
            }
            Party::Holds(aim) => self.take(world, party, aim),
        }
        Some(())
    }

    fn take(&self, world: &mut World, party: usize, aim: Aim) {
        let step = self.next(world, aim);
        match step {
            PageStep::Fetch => {
                if self.is_off(Off::Fill) {
                    world.frame = Some(Bytes::default());
                    world.mapped = Some(Access::Read);
                }
                world.parties[party] = Party::Fetched(aim, world.home);
            }
            PageStep::Open if self.has_twins && self.is_off(Off::Twin) => {
                world.mapped = Some(Access::Write);
                world.parties[party] = Party::MapsFirst;
            }
            PageStep::Open => {
                world.twin = world.frame.filter(|_| self.has_twins);
                self.after(world, step);
            }
            PageStep::Map(access) => {
                world.mapped = Some(access);
                world.parties[party] = Party::Away;
                self.release(world);
            }
            PageStep::Close => {
                world.mapped = world.mapped.map(|_| Access::Read);
                self.after(world, step);
            }
            PageStep::Send => match world.frame {
                Some(frame) => world.parties[party] = Party::Read(aim, frame),
                None => world.wrong = Some(UNLIKE),
            },
            PageStep::Drop => {
                (world.frame, world.mapped, world.twin) = (None, None, None);
                self.after(world, step);
            }
            PageStep::Release => {
                world.parties[party] = Party::Away;
                self.release(world);
            }
        }
    }

    /// A fetch fails when some bytes are in the frame; a send when none is home.
    fn fail(&self, world: &mut World, party: usize) -> Option<()> {
        match world.parties[party] {
            Party::Fetched(..) => world.frame = Some(Bytes::default()).filter(|_| self.is_off(Off::Undo)),
            Party::Read(..) if self.is_off(Off::Stay) => {
                (world.frame, world.mapped, world.twin, world.state) = (None, None, None, State::HeldAbsent);
            }
            Party::Read(..) => {}
            _ => return None,
        }
        world.left.failures -= 1;
        world.parties[party] = Party::Away;
        self.release(world);
        Some(())
    }

    fn release(&self, world: &mut World) {
        world.state = world.state.after(super::Event::Release).unwrap_or(world.state);
    }

    /// A page that nobody holds is as its state says.
    fn judge(&self, world: &mut World) {
        let is_free = world.parties.iter().all(|party| *party == Party::Away);
        if world.wrong.is_some() || !is_free {
            return;
        }
        let is_newest = |bytes: Option<Bytes>| bytes.is_some_and(|bytes| bytes[..OTHER] == world.stored[..OTHER]);
        let (here, mapped) = (world.frame, world.mapped);
        let is_like = match world.state {
            State::Absent => here.is_none() && mapped.is_none() && world.twin.is_none(),
            State::Clean => here.is_some() && mapped != Some(Access::Write) && world.twin.is_none(),
            State::Dirty => here.is_some() && world.twin.is_some() == self.has_twins,
            _ => false,
        };
        let is_home = is_newest(Some(world.home));
        world.wrong = match world.state {
            _ if world.home[OTHER] != world.stored[OTHER] => Some(UNDONE),
            State::Absent if !is_home => Some(LOST),
            State::Clean if !is_home || here.is_some() && !is_newest(here) => Some(LOST),
            State::Dirty if here.is_some() && !is_newest(here) => Some(LOST),
            // Two holders leave any state behind, and pages that were not closed stay writable. Stores are lost later.
            _ if matches!(self.off, Off::Hold | Off::Close) => None,
            _ => (!is_like).then_some(UNLIKE),
        };
    }
}

impl Model for Exploration {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        let (frame, mapped, twin, home, stored, wrong) = Default::default();
        vec![World { state: State::Absent, frame, mapped, twin, home, stored, parties: [Party::Away; 4], left: self.left, wrong }]
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        if world.wrong.is_some() {
            return;
        }
        for (party, at) in world.parties.iter().enumerate() {
            let begins = match party {
                0 | 1 => (world.left.accesses[party] > 0).then_some(Step::Access(party)),
                2 => (world.left.flushes > 0).then_some(Step::Begin(party, Aim::Flush)),
                _ => (world.left.evictions > 0).then_some(Step::Begin(party, Aim::Evict)),
            };
            match at {
                Party::Away => steps.extend(begins),
                _ => steps.push(Step::Go(party)),
            }
            if world.left.failures > 0 && matches!(at, Party::Fetched(..) | Party::Read(..)) {
                steps.push(Step::Fail(party));
            }
        }
        if world.left.others > 0 && self.has_twins {
            steps.push(Step::Other);
        }
    }

    fn next_state(&self, last: &World, step: Step) -> Option<World> {
        let mut world = last.clone();
        match step {
            Step::Access(thread) => self.access(&mut world, thread)?,
            Step::Begin(party, aim) => {
                self.hold(&mut world, party, aim)?;
                let left = if aim == Aim::Flush { &mut world.left.flushes } else { &mut world.left.evictions };
                *left -= 1;
            }
            Step::Go(party) => self.go(&mut world, party)?,
            Step::Fail(party) => self.fail(&mut world, party)?,
            Step::Other => {
                world.left.others -= 1;
                world.stored[OTHER] += 1;
                world.home[OTHER] = world.stored[OTHER];
            }
        }
        self.judge(&mut world);
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        nothing_is_wrong()
    }
}

impl Judged for World {
    fn wrong(&self) -> Option<&'static str> {
        self.wrong
    }
}

impl Explored for Exploration {}

fn exploration(has_twins: bool, off: Off) -> Exploration {
    // The others go wrong without a failure.
    let failures = u8::from(matches!(off, Off::Nothing | Off::Undo | Off::Stay));
    Exploration { left: Left { accesses: [3, 2], flushes: 1, evictions: 2, others: 1, failures }, has_twins, off }
}

#[test]
fn no_store_is_lost_in_any_order() {
    holds(exploration(true, Off::Nothing), "a page with twins", 7000);
    holds(exploration(false, Off::Nothing), "a page without twins", 2500);
}

#[test]
fn every_rule_is_needed() {
    let rules = [
        (true, Off::Hold, LOST),
        (true, Off::Fill, LOST),
        (true, Off::Undo, UNLIKE),
        (true, Off::Twin, LOST),
        (true, Off::Close, LOST),
        (true, Off::Stay, LOST),
        (true, Off::Send, LOST),
        (false, Off::Hold, LOST),
        (false, Off::Close, LOST),
        (false, Off::Send, LOST),
    ];
    for (has_twins, off, wrong) in rules {
        is_needed(exploration(has_twins, off), off, wrong);
    }
}
