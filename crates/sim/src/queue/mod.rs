//! Queues, simulated: programs open lanes, append in batches and read, over connections to the queues' homes that keep order and lose
//! nothing until they break.
//!
//! A connection ends for its two sides at different moments; what was under way is lost from some message on. A program whose connection
//! broke makes another, opens its lane again and repeats its append; one that dies has a successor with another number. Homes stop for a
//! while, and die with all that they hold.
//!
//! | module | holds |
//! |---|---|
//! | `home` | queues' memory, and the product's [`hanare_protocol::queue::Home`] driven as a node drives it |
//! | `programs` | what writers and readers do, and what comes of answers |
//! | `judge` | each committed block read once, in the order of its port, as long as its home lives |

mod home;
mod judge;
mod programs;

use crate::check::{Check, all_held};
use crate::dice::Dice;
use crate::network::Weather;
use crate::report::{Counts, Failure, Plan};
use hanare_protocol::Result as Outcome;
use home::{Answer, QueueNode, Request};
use judge::Judge;
use programs::Program;
use std::collections::{BTreeMap, VecDeque};

/// Programs of each queue: one reads, the others write.
const PROGRAM_COUNT: u64 = 4;
/// Virtual time after the faults in which everything must come to rest.
const QUIET_MS: u64 = 60_000;
/// How many of the last events a failure shows.
const TRAIL_LEN: usize = 60;

#[derive(Clone, Debug)]
enum Event {
    ToHome {
        link: u64,
        request: Request,
    },
    ToProgram {
        link: u64,
        answer: Outcome<Answer>,
    },
    ClosedAtHome {
        link: u64,
    },
    ClosedAtProgram {
        link: u64,
    },
    /// A program does its next thing.
    Next {
        program: u64,
        life: u64,
    },
    Fault,
    Calm,
}

/// A defect put in on purpose: the checks must find it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sabotage {
    /// None: the real thing.
    None,
    /// Appends are not told apart by their numbers.
    #[cfg(test)]
    ForgetNumbers,
    /// Units are freed when they are fetched, not when their reader says so.
    #[cfg(test)]
    FreeUnread,
    /// The spill gives its youngest unit first.
    #[cfg(test)]
    SpillBackwards,
    /// The spill loses a unit when it is full.
    #[cfg(test)]
    DropWhenFull,
}

/// A connection of a program to its queue's home.
#[derive(Clone, Copy, Debug)]
struct Wire {
    program: u64,
    life: u64,
    /// Messages that would arrive after that are lost.
    cut_ms: Option<u64>,
    /// When the last message of each direction arrives: none overtakes another.
    to_home_ms: u64,
    to_program_ms: u64,
    is_open_at_home: bool,
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
    nodes: Vec<QueueNode>,
    programs: BTreeMap<u64, Program>,
    links: BTreeMap<u64, Wire>,
    /// Those of each program that its home takes for open.
    open: BTreeMap<u64, Vec<u64>>,
    next_number: u64,
    judge: Judge,
    is_rough: bool,
    counts: Counts,
    trail: VecDeque<String>,
}

/// Simulates a plan.
pub(crate) fn run(plan: Plan, progress: &mut dyn FnMut(f64)) -> Result<Counts, Failure> {
    World::new(plan, Sabotage::None).run(progress)
}

impl World {
    fn new(plan: Plan, sabotage: Sabotage) -> World {
        let mut dice = Dice::new(plan.seed ^ 0x71_7565_7565);
        let nodes = (0..plan.nodes).map(|number| QueueNode::new(number as usize, &mut dice, sabotage)).collect();
        let weather = Weather::throw(&mut dice);
        let mut world = World {
            plan,
            sabotage,
            dice,
            weather,
            now_ms: 0,
            events: BTreeMap::new(),
            event_count: 0,
            nodes,
            programs: BTreeMap::new(),
            links: BTreeMap::new(),
            open: BTreeMap::new(),
            next_number: 0,
            judge: Judge::default(),
            is_rough: true,
            counts: Counts::new(),
            trail: VecDeque::new(),
        };
        for program in 0..u64::from(plan.nodes) * PROGRAM_COUNT {
            world.begin(program);
        }
        world.after(10, Event::Fault);
        world
    }

    fn run(mut self, progress: &mut dyn FnMut(f64)) -> Result<Counts, Failure> {
        let rough_ms = (self.plan.minutes * 60_000.0) as u64;
        self.after(rough_ms, Event::Calm);
        let held = all_held(|| self.play(rough_ms, progress));
        let Err(what) = held else { return Ok(self.counts) };
        let (plan, trail) = (self.plan, self.trail.into_iter().collect());
        Err(Failure { plan, world: "queues", at_ms: self.now_ms, what, trail })
    }

    fn play(&mut self, rough_ms: u64, progress: &mut dyn FnMut(f64)) -> Check {
        let end_ms = rough_ms + QUIET_MS;
        while let Some(((at_ms, _), event)) = self.events.pop_first() {
            if at_ms > end_ms {
                break;
            }
            self.now_ms = at_ms;
            self.trail.push_back(format!("{at_ms} {event:?}"));
            if self.trail.len() > TRAIL_LEN {
                self.trail.pop_front();
            }
            self.count("events");
            if self.counts["events"].is_multiple_of(4096) {
                progress(at_ms as f64 / end_ms as f64);
            }
            self.on_event(event)?;
        }
        progress(1.0);
        let left = |node: &QueueNode| node.waiting();
        self.judge.at_rest(self.nodes.iter().map(left).sum())
    }

    fn on_event(&mut self, event: Event) -> Check {
        match event {
            Event::ToHome { link, request } => self.on_request(link, request),
            Event::ToProgram { link, answer } => self.on_answer(link, answer),
            Event::ClosedAtHome { link } => {
                self.close_at_home(link);
                Ok(())
            }
            Event::ClosedAtProgram { link } => self.on_closed(link),
            Event::Next { program, life } => self.on_next(program, life),
            Event::Fault => {
                if self.is_rough {
                    self.fault();
                    let pause_ms = self.dice.between(1, 4000);
                    self.after(pause_ms, Event::Fault);
                }
                Ok(())
            }
            Event::Calm => {
                self.is_rough = false;
                self.weather = Weather::FAIR;
                Ok(())
            }
        }
    }

    fn fault(&mut self) {
        let program = self.dice.below(self.programs.len() as u64);
        let link = self.programs[&program].link;
        match self.dice.below(10) {
            0..5 => {
                self.count("connections broken");
                self.cut(link);
            }
            5..8 => {
                self.count("program deaths");
                self.cut(link);
                self.begin(program);
            }
            8 => {
                self.count("homes that stood still");
                let node = self.node_of(program);
                self.nodes[node].still_until_ms = self.now_ms + self.dice.between(100, 5000);
            }
            _ => {
                self.count("home deaths");
                let node = self.node_of(program);
                self.kill_home(node);
            }
        }
        if self.dice.chance(1000) {
            self.weather = Weather::throw(&mut self.dice);
        }
    }

    /// A home dies: what its queues held is gone, and all its programs learn of it.
    fn kill_home(&mut self, node: usize) {
        let still_ms = self.nodes[node].still_until_ms;
        self.nodes[node] = QueueNode::new(node, &mut self.dice, self.sabotage);
        self.judge.on_home_death(node);
        self.nodes[node].still_until_ms = still_ms;
        let its: Vec<u64> = self.programs.keys().copied().filter(|program| self.node_of(*program) == node).collect();
        for program in its {
            let link = self.programs[&program].link;
            self.open.remove(&program);
            if let Some(link) = self.links.get_mut(&link) {
                (link.cut_ms, link.is_open_at_home) = (Some(self.now_ms), false);
            }
            self.begin(program);
        }
    }

    fn node_of(&self, program: u64) -> usize {
        (program / PROGRAM_COUNT) as usize
    }

    /// A connection breaks: of what is under way some arrives, and each side hears of it at its own time.
    fn cut(&mut self, link: u64) {
        let (some_ms, home_ms, program_ms) = (self.dice.between(0, 20), self.dice.between(1, 3000), self.dice.between(1, 500));
        let Some(found) = self.links.get_mut(&link).filter(|link| link.cut_ms.is_none()) else { return };
        found.cut_ms = Some(self.now_ms + some_ms);
        self.after(some_ms + home_ms, Event::ClosedAtHome { link });
        self.after(some_ms + program_ms, Event::ClosedAtProgram { link });
    }

    fn connect(&mut self, program: u64, life: u64) -> u64 {
        self.next_number += 1;
        let now = self.now_ms;
        let link = Wire { program, life, cut_ms: None, to_home_ms: now, to_program_ms: now, is_open_at_home: true };
        self.links.insert(self.next_number, link);
        self.open.entry(program).or_default().push(self.next_number);
        self.next_number
    }

    /// A home hears that a connection is gone.
    fn close_at_home(&mut self, link: u64) {
        let Some(found) = self.links.get_mut(&link) else { return };
        if std::mem::replace(&mut found.is_open_at_home, false) {
            self.open.entry(found.program).or_default().retain(|open| *open != link);
            let node = self.node_of(self.links[&link].program);
            self.nodes[node].forget(link);
        }
    }

    fn send(&mut self, link: u64, request: Request) {
        let delay_ms = self.dice.between(0, self.weather.delay_ms_max);
        let Some(found) = self.links.get_mut(&link) else { return };
        found.to_home_ms = found.to_home_ms.max(self.now_ms + delay_ms);
        let at_ms = found.to_home_ms;
        self.at(at_ms, Event::ToHome { link, request });
    }

    fn on_request(&mut self, link: u64, request: Request) -> Check {
        let found = self.links[&link];
        if found.cut_ms.is_some_and(|cut_ms| self.now_ms > cut_ms) {
            self.count("messages lost with their connection");
            return Ok(());
        }
        let node = self.node_of(found.program);
        if self.nodes[node].still_until_ms > self.now_ms {
            let at_ms = self.nodes[node].still_until_ms;
            self.at(at_ms, Event::ToHome { link, request });
            return Ok(());
        }
        // A program's next connection ends the one before, wherever its bytes are (`protocol::session`).
        let is_older = |at: &u64| *at < link && self.links[at].life == found.life;
        let older: Vec<u64> = self.open.get(&found.program).into_iter().flatten().copied().filter(is_older).collect();
        older.into_iter().for_each(|link| self.close_at_home(link));
        if !self.links[&link].is_open_at_home {
            return Ok(());
        }
        let answer = self.nodes[node].on_request(link, request, &mut self.judge, &mut self.counts)?;
        let delay_ms = self.dice.between(0, self.weather.delay_ms_max);
        let found = self.links.get_mut(&link).expect("it was there");
        found.to_program_ms = found.to_program_ms.max(self.now_ms + delay_ms);
        let at_ms = found.to_program_ms;
        self.at(at_ms, Event::ToProgram { link, answer });
        Ok(())
    }

    fn after(&mut self, ms: u64, event: Event) {
        self.at(self.now_ms + ms, event);
    }

    fn at(&mut self, at_ms: u64, event: Event) {
        self.event_count += 1;
        self.events.insert((at_ms, self.event_count), event);
    }

    fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }
}

#[cfg(test)]
mod tests;
