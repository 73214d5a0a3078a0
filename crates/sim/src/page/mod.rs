//! Pages shared by hosts, simulated: every node is home to an extent and maps those of all others, over a network that loses,
//! repeats, delays and reorders, with couriers between; threads of programs claim pages, put them into frames, load and store, and are
//! killed in the middle; gets and puts come by command, pages are evicted, nodes die at any moment and come back as new lives. Some only stand still for so long that they
//! are taken for lost, and come back with their bytes, while others own pages of them and go on storing. The first node is the
//! coordinator's: nobody is told of its death when its next life begins soon.
//!
//! A naive model knows of each page what was stored last. After every event: whatever may be loaded is that; a host that may
//! store is the only one that has the page; a page is refused or lost only where a node died that had been granted writing.
//! At the end all faults stop and nobody may be left waiting.

mod faults;
mod judge;
mod letters;
mod machines;
mod programs;
mod returns;
mod stages;

use crate::check::{Check, all_held, check};
use crate::dice::Dice;
use crate::network::Weather;
use crate::report::{Counts, Failure, Plan};
use hanare_protocol::id::Incarnation;
use hanare_protocol::page::directory::{Output, Phase};
use hanare_protocol::page::word::{Fault, Fill, State};
use hanare_protocol::page::{Access, Answering, Courier, Directory, Face, Heard, Host, HostId, Page, Place, Plain, Receipt};
use hanare_protocol::page::{Returning, Say, Ticket, ToHome, ToHost, Version};
use stages::Stage;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Pages of each extent.
const PAGE_COUNT: u64 = 6;
/// The node whose deaths the membership does not tell of, if it is back soon.
const COORDINATOR: usize = 0;
/// How long a node that cannot be reached counts as there.
const SILENCE_MS: u64 = 3_500;
/// Threads of each node's programs.
const THREAD_COUNT: u16 = 3;
/// Seats of each region on a host: the node's own, and two for each thread, since a killed one's is kept while its claim is open.
const SEAT_COUNT: u16 = 1 + 2 * THREAD_COUNT;
/// How often a node sends again what was not confirmed, and confirms.
const TICK_MS: u64 = 40;
/// Virtual time after the faults in which everything must come to rest.
const QUIET_MS: u64 = 60_000;
/// How many of the last events a failure shows.
const TRAIL_LEN: usize = 60;

/// A life of a node's process; also its number at every directory. Never given again.
type Life = u16;

/// What travels between two lives: about a page of the extent whose home is `home`.
#[derive(Clone, Debug)]
struct Parcel {
    home: Life,
    page: Page,
    what: What,
    value: Option<u64>,
}

#[derive(Clone, Debug)]
enum What {
    ToHome(ToHome),
    ToHost(ToHost),
    /// The home, another life by now, is back.
    Returned,
    /// A host has sent all that it had of it.
    Leave,
}

#[derive(Clone, Debug)]
enum Event {
    Arrive {
        from: Life,
        to: Life,
        number: u64,
        parcel: Parcel,
    },
    /// What a home and its own host say to each other arrives once, in any order.
    Local {
        life: Life,
        parcel: Parcel,
    },
    Receipt {
        from: Life,
        to: Life,
        receipt: Receipt,
    },
    Tick {
        life: Life,
    },
    Program {
        life: Life,
    },
    /// A thread has put what it was granted into the frame.
    Filled {
        life: Life,
        thread: usize,
        ticket: Ticket,
    },
    Command {
        life: Life,
    },
    Release {
        life: Life,
        page: Page,
        face: Face,
    },
    Fault,
    Restart {
        node: usize,
    },
    /// A life hears that another is over.
    Lost {
        life: Life,
        lost: Life,
    },
    /// A life that stood still is taken in again.
    Return {
        node: usize,
        life: Life,
    },
    /// A life dials again where it had a connection to the coordinator's.
    Answer {
        life: Life,
        before: Life,
    },
    Calm,
}

/// What a node has of the extent of a home: its rules, and the words and frames that they work on.
#[derive(Debug)]
struct Mapped {
    rules: Host<u64>,
    place: Plain<u64>,
}

/// What a thread waits for.
#[derive(Clone, Debug)]
struct Waiting {
    home: Life,
    page: Page,
    seat: u16,
    /// The grant whose bytes it puts into the frame.
    fills: Option<ToHost>,
}

/// A node's process.
#[derive(Debug)]
struct Process {
    directory: Directory,
    memory: Vec<u64>,
    /// What it has of the extents of each home.
    mapped: BTreeMap<Life, Mapped>,
    couriers: BTreeMap<Life, Courier<Parcel>>,
    lost: BTreeSet<Life>,
    threads: Vec<Option<Waiting>>,
    /// Gets and puts that are under way.
    faces: BTreeMap<Face, Stage>,
    /// Pages that were sent to homes which were lost, and may not have come.
    kept: BTreeMap<Life, Vec<Parcel>>,
    /// Homes that are back, by which life, and those that are still to be left.
    back: BTreeMap<Life, Life>,
    farewells: BTreeSet<Life>,
    /// What this home was before it was taken for lost, and what it waits for.
    returning: Option<(Life, Returning)>,
}

/// What is known of a page without any rule.
#[derive(Debug, Default)]
struct Truth {
    last: u64,
    /// Who was ever granted writing.
    writers: BTreeSet<Life>,
}

/// A defect put in on purpose: the checks must find it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sabotage {
    None,
    /// Repetitions of the network are taken for new messages.
    HearTwice,
    /// What was lost is not sent again.
    SendOnce,
    /// The home is not told of deaths.
    KeepDead,
    /// A home that is back forgets who had newer bytes.
    ForgetOwners,
    /// The coordinator's next life is taken for the one before.
    TakeForOld,
    /// A stage asks for a page when it holds the one before, in any order.
    AskInTurns,
}

#[derive(Debug)]
struct World {
    plan: Plan,
    sabotage: Sabotage,
    dice: Dice,
    weather: Weather,
    now_ms: u64,
    events: BTreeMap<(u64, u64), Event>,
    event_count: u64,
    processes: BTreeMap<Life, Process>,
    /// The life of each node, if it has one.
    nodes: Vec<Option<Life>>,
    next_life: Life,
    next_value: u64,
    next_face: u64,
    /// Stages that let go of their pages before all had come.
    given_up: BTreeSet<Face>,
    truths: BTreeMap<(Life, Page), Truth>,
    dead: BTreeSet<Life>,
    /// Lives that stand still, and until when.
    still: BTreeMap<Life, u64>,
    is_rough: bool,
    counts: Counts,
    trail: VecDeque<String>,
}

/// Virtual minutes of a round: lives are numbered, and no number is given again, so a long run is many rounds.
const ROUND_MINUTES: f64 = 20.0;

/// Simulates so many nodes for so many virtual minutes, then until all is quiet.
///
/// **Cost**: about a second for ten virtual minutes of three nodes. **Errors**: the first check that did not hold.
pub(crate) fn run(plan: Plan, progress: &mut dyn FnMut(f64)) -> Result<Counts, Failure> {
    run_sabotaged(plan, Sabotage::None, progress)
}

fn run_sabotaged(plan: Plan, sabotage: Sabotage, progress: &mut dyn FnMut(f64)) -> Result<Counts, Failure> {
    let mut counts = Counts::new();
    let rounds = (plan.minutes / ROUND_MINUTES).ceil().max(1.0);
    let mut seeds = Dice::new(plan.seed);
    for round in 0..rounds as u64 {
        let minutes = (plan.minutes - round as f64 * ROUND_MINUTES).min(ROUND_MINUTES);
        let mut world = World::new(Plan { seed: seeds.next(), minutes, ..plan }, sabotage);
        if let Err(what) = all_held(|| world.run(&mut |share| progress((round as f64 + share) / rounds))) {
            let at_ms = (round as f64 * ROUND_MINUTES * 60_000.0) as u64 + world.now_ms;
            return Err(Failure { plan, world: "pages", at_ms, what, trail: world.trail.into() });
        }
        world.counts.into_iter().for_each(|(what, count)| *counts.entry(what).or_default() += count);
    }
    Ok(counts)
}

impl World {
    fn new(plan: Plan, sabotage: Sabotage) -> World {
        let mut dice = Dice::new(plan.seed);
        let weather = Weather::throw(&mut dice);
        let mut world = World {
            plan,
            sabotage,
            dice,
            weather,
            now_ms: 0,
            events: BTreeMap::new(),
            event_count: 0,
            processes: BTreeMap::new(),
            nodes: vec![None; plan.nodes as usize],
            next_life: 0,
            next_value: 1,
            next_face: 0,
            given_up: BTreeSet::new(),
            truths: BTreeMap::new(),
            dead: BTreeSet::new(),
            still: BTreeMap::new(),
            is_rough: true,
            counts: BTreeMap::new(),
            trail: VecDeque::new(),
        };
        (0..world.nodes.len()).for_each(|node| world.start(node));
        world.at(2_000, Event::Fault);
        world.at((plan.minutes * 60_000.0) as u64, Event::Calm);
        world
    }

    fn at(&mut self, after_ms: u64, event: Event) {
        self.event_count += 1;
        self.events.insert((self.now_ms + after_ms, self.event_count), event);
    }

    fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_insert(0) += 1;
    }

    fn note(&mut self, line: String) {
        if self.trail.len() == TRAIL_LEN {
            self.trail.pop_front();
        }
        self.trail.push_back(format!("{:>8} {line}", self.now_ms));
    }

    fn start(&mut self, node: usize) {
        let life = self.next_life;
        self.next_life += 1;
        self.nodes[node] = Some(life);
        let process = Process {
            directory: Directory::new(PAGE_COUNT, HostId(life)),
            memory: vec![0; PAGE_COUNT as usize],
            mapped: BTreeMap::new(),
            couriers: BTreeMap::new(),
            lost: self.dead.clone(),
            threads: vec![None; usize::from(THREAD_COUNT)],
            faces: BTreeMap::new(),
            kept: BTreeMap::new(),
            back: BTreeMap::new(),
            farewells: BTreeSet::new(),
            returning: None,
        };
        self.processes.insert(life, process);
        for page in 0..PAGE_COUNT {
            self.truths.insert((life, Page(page)), Truth::default());
        }
        self.note(format!("life {life} of node {node} begins"));
        self.set_going(life);
    }

    /// What happens in a life again and again begins.
    fn set_going(&mut self, life: Life) {
        self.at(0, Event::Tick { life });
        for _ in 0..THREAD_COUNT {
            self.at(1, Event::Program { life });
        }
        self.at(1, Event::Command { life });
    }

    fn run(&mut self, progress: &mut dyn FnMut(f64)) -> Check {
        let end_ms = (self.plan.minutes * 60_000.0) as u64 + QUIET_MS;
        let mut steps = 0_u64;
        while let Some(((now_ms, _), event)) = self.events.pop_first() {
            if now_ms > end_ms {
                break;
            }
            self.now_ms = now_ms;
            self.act(event)?;
            steps += 1;
            if steps.is_multiple_of(4096) {
                progress((now_ms as f64 / end_ms as f64).min(1.0));
            }
        }
        self.counts.insert("events", steps);
        progress(1.0);
        self.judge_rest()
    }

    fn act(&mut self, event: Event) -> Check {
        if self.is_deferred(&event) {
            return Ok(());
        }
        match event {
            Event::Arrive { from, to, number, parcel } => self.on_arrive(from, to, number, parcel),
            Event::Local { life, .. } if !self.processes.contains_key(&life) => Ok(()),
            Event::Local { life, parcel } => self.on_parcel(life, life, parcel),
            Event::Receipt { from, to, receipt } => {
                let Some(process) = self.processes.get_mut(&to) else { return Ok(()) };
                if let Some(courier) = process.couriers.get_mut(&from) {
                    courier.confirm(&receipt);
                }
                Ok(())
            }
            Event::Tick { life } => self.on_tick(life),
            Event::Program { life } => self.on_program(life),
            Event::Filled { life, thread, ticket } => self.on_filled(life, thread, ticket),
            Event::Command { life } => self.on_command(life),
            Event::Release { life, page, face } => {
                let Some(process) = self.processes.get_mut(&life) else { return Ok(()) };
                process.directory.release(page, face);
                self.drain_home(life, page)
            }
            Event::Fault => self.on_fault(),
            Event::Restart { node } => {
                if self.nodes[node].is_none() {
                    self.start(node);
                }
                Ok(())
            }
            Event::Lost { life, lost } => self.on_lost(life, lost),
            Event::Return { node, life } => self.on_return(node, life),
            Event::Answer { life, before } => {
                self.on_answer(life, before);
                Ok(())
            }
            Event::Calm => {
                self.note("all faults end".to_owned());
                (self.is_rough, self.weather) = (false, Weather::FAIR);
                (0..self.nodes.len()).for_each(|node| self.at(0, Event::Restart { node }));
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests;
