//! Data bound to locks, simulated. Programs take locks whose bytes lie side by side in the same pages, and store. They release the bytes
//! page by page at two regions' homes, or all at once at the locks' home, and give the locks back. Connections keep order and lose
//! nothing until they break.
//!
//! Programs die at any moment, nodes with all of theirs. Connections break, seen by either side at its own time. The pool's home dies and
//! comes back knowing nothing of locks.
//!
//! The home lends no lock with data, so there are no leases here.
//!
//! Unfinished accesses of a program at the regions' homes are dropped once the locks' home has seen its end. The product has that by its
//! connections ending together; that a path between two hosts may be slower is a known limit of it, and not in this world.
//!
//! | module | holds |
//! |---|---|
//! | `service` | the process of the locks' home: drives the home that nodes run |
//! | `programs` | what programs do, and what comes of answers |
//! | `frames` | pages of a program, and what an update, a release and a loss do to them |
//! | `links` | connections: messages in order, breaks, and who hears of them when |
//! | `judge` | what each lock's bytes are to be |

mod frames;
mod judge;
mod links;
mod programs;
mod service;

use crate::check::{Check, check};
use crate::harness::{Course, World, defects, on_course};
use crate::links::Links;
use frames::{Bound, LEN, LOCK_COUNT, Page, bound_of};
use hanare_home::{Vector, Vectors};
use hanare_protocol::Result as Outcome;
use hanare_protocol::wire::sync::{SyncAnswer, SyncRequest};
use judge::LocksTruth;
use programs::{GID, Holder};
use service::EntryService;
use std::collections::BTreeMap;

/// Programs of each node.
const PROGRAM_COUNT: u64 = 2;
/// Most programs of a pool.
const PROGRAMS_OF_POOL: u64 = 12;

/// Request to a region's home.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Access {
    /// The bytes of a page.
    Fetch(usize),
    /// A byte at a place.
    Put(usize, u8),
}

#[derive(Clone, Debug)]
pub(crate) enum Event {
    ToHome {
        link: u64,
        seq: u64,
        request: SyncRequest,
    },
    ToProgram {
        link: u64,
        seq: u64,
        answer: Outcome<SyncAnswer>,
    },
    /// A region's home is asked by one that has this connection to the locks' home.
    Access {
        link: u64,
        access: Access,
    },
    /// The home answers.
    Accessed {
        link: u64,
        access: Access,
        bytes: Page,
    },
    ClosedAtHome {
        link: u64,
    },
    ClosedAtProgram {
        link: u64,
    },
    Connect {
        program: u64,
    },
    /// A program does its next thing.
    Step {
        program: u64,
        link: u64,
    },
    /// The home's deadline has come.
    Tick {
        life: u64,
    },
    /// A byte of a release that was answered reaches its region's home.
    Put {
        at: usize,
        byte: u8,
    },
    Begin {
        node: u64,
    },
    HomeBegins,
    Fault,
}

defects! {
    /// A holder that is to redo a release says so at once.
    SkipRedo,
    /// A release sends all that was stored in its pages.
    SendPages,
    /// Stores are sent before the release is named.
    SendBeforePublish,
    /// Bytes that come with a lock are not taken in.
    ForgetBytes,
    /// A release in one message puts some of its bytes.
    PutHalf,
    /// A release in one message is answered before its bytes are put.
    AnswerBeforePut,
    /// An update leaves pages without stores as they are.
    KeepStale,
    /// A program that lost a lock takes its bytes for those of the version that it had named.
    KeepVersion,
    /// Bytes that come for a page with stores leave the clean bytes as they were.
    PatchFramesAlone,
    /// Stores of the dead arrive after others have the lock.
    LetDeadWrite,
    /// Connections that end are not told to the data bound to locks.
    DieQuietly,
}

/// Locks with data.
#[derive(Debug)]
pub(crate) struct EntryWorld {
    course: Course<Event, Defect>,
    home: Option<EntryService>,
    home_lives: u64,
    /// Connections, each with its program.
    links: Links<u64>,
    programs: BTreeMap<u64, Holder>,
    program_count: u64,
    /// Memory of the regions' homes.
    memory: Vectors,
    region: Vector,
    /// The last byte that was stored.
    stored: u8,
    truth: LocksTruth,
    /// Bytes of a lock once a release under way counts: by its connection and the number of its taking.
    drafts: BTreeMap<(u64, u64), Bound>,
}

on_course!(EntryWorld);

impl World for EntryWorld {
    const NAME: &'static str = "entry";
    type Event = Event;
    type Defect = Defect;

    fn begin(mut course: Course<Event, Defect>) -> EntryWorld {
        course.throw_weather();
        let nodes = u64::from(course.plan.nodes);
        let (memory, region) = Vectors::of(GID, LEN);
        let mut world = EntryWorld {
            course,
            home: None,
            home_lives: 0,
            links: Links::default(),
            programs: BTreeMap::new(),
            program_count: 0,
            memory,
            region,
            stored: 0,
            truth: LocksTruth::default(),
            drafts: BTreeMap::new(),
        };
        world.at(0, Event::HomeBegins);
        let programs = (nodes * PROGRAM_COUNT).min(PROGRAMS_OF_POOL);
        (0..programs).for_each(|program| world.at(program, Event::Begin { node: program % nodes }));
        world.at(1_000, Event::Fault);
        world
    }

    fn act(&mut self, event: Event) -> Check {
        match event {
            Event::ToHome { link, seq, request } => self.on_request(link, seq, request),
            Event::ToProgram { link, seq, answer } => self.on_answer(link, seq, answer),
            Event::Access { link, access } => self.on_access(link, access),
            Event::Accessed { link, access, bytes } => self.on_accessed(link, access, bytes),
            Event::ClosedAtHome { link } => self.on_closed_at_home(link),
            Event::ClosedAtProgram { link } => self.on_closed_at_program(link),
            Event::Connect { program } => self.on_connect(program),
            Event::Step { program, link } => self.on_step(program, link),
            Event::Tick { life } => self.on_tick(life),
            Event::Put { at, byte } => {
                self.put(at, byte);
                Ok(())
            }
            Event::Begin { node } => self.on_begin(node),
            Event::HomeBegins => self.on_home_begins(),
            Event::Fault => self.on_fault(),
        }
    }

    fn calm(&mut self) -> Check {
        self.at(0, Event::HomeBegins);
        Ok(())
    }

    fn judge(&mut self) -> Check {
        let base = self.base();
        for lock in 0..LOCK_COUNT {
            let (is, wanted) = (bound_of(&base, lock), self.truth.at_homes(lock));
            check(wanted.is_none_or(|wanted| is == wanted), || {
                format!("homes have {is:?} of lock {lock} in place of {wanted:?}")
            })?;
        }
        Ok(())
    }

    fn judge_rest(&mut self) -> Check {
        self.is_at_rest()
    }
}

impl EntryWorld {
    /// Something goes wrong, and the next thing is planned.
    fn on_fault(&mut self) -> Check {
        if !self.is_rough {
            return Ok(());
        }
        let after = self.dice.between(50, 1_500);
        self.at(after, Event::Fault);
        let programs: Vec<u64> = self.programs.keys().copied().collect();
        // Mostly those that are in the middle of a release, or fetch something.
        let busy: Vec<u64> = programs.iter().copied().filter(|program| self.programs[program].is_accessing()).collect();
        let programs = if !busy.is_empty() && self.dice.chance(7_000) { busy } else { programs };
        match self.dice.below(12) {
            0 => self.throw_weather(),
            1 | 2 => self.stall_one(),
            3 | 4 if !programs.is_empty() => {
                let program = self.dice.pick(&programs);
                self.break_one(program);
            }
            5..=8 if !programs.is_empty() => {
                let program = self.dice.pick(&programs);
                self.kill(program);
                self.count("program deaths");
            }
            9 | 10 => {
                let node = self.course.dice.below(u64::from(self.course.plan.nodes));
                self.note(format!("node {node} dies"));
                self.count("node deaths");
                let all: Vec<u64> = self.programs.keys().copied().collect();
                let those = all.into_iter().filter(|program| self.programs[program].node == node).collect::<Vec<u64>>();
                those.into_iter().for_each(|program| self.kill(program));
            }
            11 => self.kill_home(),
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
