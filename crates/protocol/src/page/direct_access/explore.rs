//! Every order of threads with direct access, their node, and hosts that want to map the region, by stateright.
//!
//! A program with two threads and one handle, its node, and hosts that map the region and leave it again. The machines are those that run:
//! [`DirectAccess`], [`Right`]. Each load and store of a word that both sides have is a step of its own. A thread may stop for ever at any
//! step. The program may die, lose its connection to the node, give out a pointer and take it back. The node may give up waiting.
//!
//! Held in every state: nobody stores past the pages of a region that hosts share. When no thread is at work, no host waits.
//!
//! The tests at the end put defects in, and expect a counterexample.

use super::{DirectAccess, Right, Standing};
use crate::explored::{Explored, Judged, holds, is_needed, nothing_is_wrong};
use stateright::{Model, Property};

/// The program.
const PROGRAM: u8 = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Off {
    Nothing,
    /// Threads do not say that they are at work.
    ThreadSlot,
    /// Threads do not look at the generation.
    Look,
    /// An answer counts though the right was taken back on its way.
    Answer,
    /// The node does not raise the generation.
    Generation,
    /// The node looks who is at work before it raises the generation.
    Order,
    /// The node does not wait for who is at work.
    Wait,
    /// A pointer is nothing special.
    Pin,
    /// A program without its connection counts as ended.
    Connection,
    /// The node does not look again whether who was at work has left.
    Settle,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum At {
    Away,
    /// It has said that it is at work.
    Entered,
    /// It has looked at the generation.
    Looked,
    /// It asks its node for the right.
    Asking {
        asked: u64,
    },
    /// It has been given it.
    Answered {
        asked: u64,
    },
    /// It has looked at the generation since.
    Opening {
        asked: u64,
    },
    /// It stores to the memory as it is.
    Working,
    /// The command is done, or goes to the home.
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Thread {
    at: At,
    /// How often it left its slot.
    left: u8,
}

/// What a world has room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Left {
    commands: u8,
    wants: u8,
    pins: u8,
    deaths: u8,
    connections: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    generation: u64,
    threads: [Thread; 2],
    right: Right,
    has_pointer: bool,
    is_dead: bool,
    direct_access: DirectAccess<u8>,
    is_wanted: bool,
    is_shared: bool,
    /// Whether the node has still to raise the generation, and to look who is at work.
    is_raising: bool,
    /// By thread, how often it had left when the node saw it at work.
    seen: Option<[Option<u8>; 2]>,
    left: Left,
    wrong: Option<&'static str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Thread(usize),
    Pin,
    Unpin,
    StoreByPointer,
    /// The program's connection to its node ends, and the program lives.
    HangUp,
    Die,
    Want,
    Raise,
    See,
    Settle,
    Share,
    GiveUp,
    Unshare,
}

struct Exploration {
    left: Left,
    off: Off,
}

impl World {
    fn new(left: Left) -> World {
        World {
            generation: 0,
            threads: [Thread { at: At::Away, left: 0 }; 2],
            right: Right::new(1, 0),
            has_pointer: false,
            is_dead: false,
            direct_access: DirectAccess::default(),
            is_wanted: false,
            is_shared: false,
            is_raising: false,
            seen: None,
            left,
            wrong: None,
        }
    }

    fn store(&mut self) {
        if self.is_shared {
            self.wrong = Some("a store goes past the pages of a shared region");
        }
    }

    fn thread(&mut self, which: usize, off: Off) {
        let is_by_pages = self.is_wanted || self.is_shared;
        self.threads[which].at = match self.threads[which].at {
            At::Away => {
                self.left.commands -= 1;
                At::Entered
            }
            At::Entered => {
                if off != Off::Look {
                    self.right.look(self.generation);
                }
                At::Looked
            }
            At::Looked if self.right.is_open(0) => At::Working,
            At::Looked => At::Asking { asked: self.generation },
            At::Asking { .. } if is_by_pages || self.left.connections == 0 => At::Done,
            At::Asking { asked } => {
                self.direct_access.map(PROGRAM, false);
                At::Answered { asked }
            }
            At::Answered { asked } => {
                self.right.look(self.generation);
                At::Opening { asked }
            }
            At::Opening { asked } => {
                let asked = if off == Off::Answer { self.right.generation } else { asked };
                if self.right.open(0, asked) { At::Working } else { At::Done }
            }
            At::Working => {
                self.store();
                At::Done
            }
            At::Done => {
                self.threads[which].left += 1;
                At::Away
            }
        };
    }

    fn see(&mut self, off: Off) {
        let at_work = |thread: &Thread| (thread.at != At::Away && off != Off::ThreadSlot).then_some(thread.left);
        self.seen = Some([at_work(&self.threads[0]), at_work(&self.threads[1])]);
    }

    fn have_left(&self, off: Off) -> bool {
        let Some(seen) = self.seen else { return false };
        let stays = |(thread, seen): (&Thread, Option<u8>)| seen == Some(thread.left) && thread.at != At::Away;
        off == Off::Wait || off != Off::Settle && !self.threads.iter().zip(seen).any(stays)
    }

    fn act(&mut self, step: Step, off: Off) {
        match step {
            Step::Thread(which) => self.thread(which, off),
            Step::Pin => {
                self.left.pins -= 1;
                self.direct_access.map(PROGRAM, off != Off::Pin);
                self.has_pointer = true;
            }
            Step::Unpin => {
                self.has_pointer = false;
                if self.left.connections > 0 {
                    self.direct_access.unpin(PROGRAM);
                }
            }
            Step::StoreByPointer => self.store(),
            Step::HangUp => {
                self.left.connections -= 1;
                if off == Off::Connection {
                    self.direct_access.release(PROGRAM);
                }
            }
            Step::Die => {
                self.left.deaths -= 1;
                (self.is_dead, self.has_pointer) = (true, false);
                self.threads.iter_mut().for_each(|thread| thread.at = At::Away);
                self.direct_access.release(PROGRAM);
            }
            Step::Want => {
                self.left.wants -= 1;
                self.is_wanted = true;
            }
            Step::Raise => {
                let revoked = self.direct_access.revoke();
                self.is_raising = !revoked.is_empty();
                match off {
                    Off::Order => self.see(off),
                    Off::Generation => {}
                    _ => self.generation += u64::from(self.is_raising),
                }
            }
            Step::See => {
                self.is_raising = false;
                match off {
                    Off::Order => self.generation += 1,
                    _ => self.see(off),
                }
            }
            Step::Settle => {
                self.direct_access.revoked().into_iter().for_each(|program| self.direct_access.settle(program));
                self.seen = None;
            }
            Step::Share => (self.is_shared, self.is_wanted) = (true, false),
            Step::GiveUp => self.is_wanted = false,
            Step::Unshare => self.is_shared = false,
        }
    }

    /// No thread is at work, and the node has done what it can.
    fn judge(&mut self, off: Off) {
        let is_still = self.threads.iter().all(|thread| thread.at == At::Away) && !self.has_pointer && !self.is_raising;
        let is_waiting = match self.direct_access.standing() {
            Standing::Free => false,
            Standing::Busy(_) => self.is_wanted,
            // Who cannot say that its pointer is gone is waited for by nobody: hosts are refused until it ends.
            Standing::Pinned(_) => self.is_wanted && self.left.connections > 0,
        };
        if is_still && is_waiting && self.direct_access.clone().revoke().is_empty() && !self.have_left(off) {
            self.wrong = Some("a host waits for nobody");
        }
    }
}

impl Judged for World {
    fn wrong(&self) -> Option<&'static str> {
        self.wrong
    }
}

impl Explored for Exploration {}

impl Model for Exploration {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(self.left)]
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        if world.wrong.is_some() {
            return;
        }
        if !world.is_dead {
            for (which, thread) in world.threads.iter().enumerate() {
                if thread.at != At::Away || world.left.commands > 0 {
                    steps.push(Step::Thread(which));
                }
            }
            if world.has_pointer {
                steps.extend([Step::Unpin, Step::StoreByPointer]);
            } else if world.left.pins > 0 && world.left.connections > 0 && !world.is_wanted && !world.is_shared {
                steps.push(Step::Pin);
            }
            if world.left.deaths > 0 {
                steps.push(Step::Die);
            }
            if world.left.connections > 0 {
                steps.push(Step::HangUp);
            }
        }
        if world.is_shared {
            steps.push(Step::Unshare);
        }
        if !world.is_wanted && !world.is_shared && world.left.wants > 0 {
            steps.push(Step::Want);
        }
        // The node's thread does one thing after the other.
        if world.is_raising {
            return steps.push(Step::See);
        }
        if world.is_wanted {
            steps.push(Step::GiveUp);
            if !world.direct_access.clone().revoke().is_empty() {
                steps.push(Step::Raise);
            }
            if !world.direct_access.revoked().is_empty() && world.have_left(self.off) {
                steps.push(Step::Settle);
            }
            if world.direct_access.standing() == Standing::Free {
                steps.push(Step::Share);
            }
        }
    }

    fn next_state(&self, world: &World, step: Step) -> Option<World> {
        let mut next = world.clone();
        next.act(step, self.off);
        next.judge(self.off);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        nothing_is_wrong()
    }
}

const ROOM: Left = Left { commands: 4, wants: 3, pins: 1, deaths: 1, connections: 1 };

#[test]
fn nobody_stores_past_the_pages_and_no_host_waits_for_nobody() {
    holds(Exploration { left: ROOM, off: Off::Nothing }, &format!("a program, its node and hosts with {ROOM:?}"), 10_000);
}

#[test]
fn each_rule_is_needed() {
    for off in [Off::ThreadSlot, Off::Look, Off::Answer, Off::Generation, Off::Order, Off::Wait, Off::Pin, Off::Connection] {
        is_needed(Exploration { left: ROOM, off }, off, "a store goes past the pages");
    }
    is_needed(Exploration { left: ROOM, off: Off::Settle }, Off::Settle, "a host waits for nobody");
}
