//! Queues that spill, simulated. Programs open lanes, append in batches and read, over connections to the queues' homes. Those keep order and lose
//! nothing until they break. Queues with copies do not spill, and are in the world `cluster`.
//!
//! A connection ends for its two sides at different moments; what was under way is lost from some message on. A program whose connection
//! broke makes another, opens its lane again and repeats its append; one that dies has a successor with another number. Homes stop for a
//! while, and die with all that they hold.
//!
//! | module | holds |
//! |---|---|
//! | `home` | queues' memory, and the home that nodes run |
//! | `programs` | what writers and readers do, and what comes of answers |
//! | `judge` | each committed block read once, in the order of its port, as long as its home lives |

mod block;
mod home;
mod judge;
mod programs;

use crate::check::Check;
use crate::dice::Dice;
use crate::harness::{Course, World, defects, on_course};
use crate::network::Ordered;
use hanare_protocol::Result as Outcome;
use home::{Answer, QueueNode, Request};
use judge::Judge;
use programs::Program;
use std::collections::BTreeMap;

/// Programs of each queue: one reads, the others write.
const PROGRAM_COUNT: u64 = 4;

#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// A message of a program arrives.
    ToHome { link: u64, request: Request },
    /// An answer arrives.
    ToProgram { link: u64, answer: Outcome<Answer> },
    /// A home sees that a connection has ended.
    ClosedAtHome { link: u64 },
    /// A program sees that a connection has ended.
    ClosedAtProgram { link: u64 },
    /// A program does its next thing.
    Next { program: u64, life: u64 },
    /// Something goes wrong.
    Fault,
}

defects! {
    /// The spill gives its youngest unit first.
    SpillBackwards,
    /// The spill loses a unit when it is full.
    DropWhenFull,
}

/// A connection of a program to its queue's home.
#[derive(Clone, Copy, Debug)]
struct Wire {
    program: u64,
    life: u64,
    /// Messages that would arrive after that are lost.
    cut_ms: Option<u64>,
    path: Ordered,
    is_open_at_home: bool,
}

/// Queues.
#[derive(Debug)]
pub(crate) struct QueueWorld {
    course: Course<Event, Defect>,
    nodes: Vec<QueueNode>,
    programs: BTreeMap<u64, Program>,
    links: BTreeMap<u64, Wire>,
    /// Connections of each program that its home takes for open.
    open: BTreeMap<u64, Vec<u64>>,
    next_number: u64,
    judge: Judge,
}

on_course!(QueueWorld);

impl World for QueueWorld {
    const NAME: &'static str = "queues";
    type Event = Event;
    type Defect = Defect;

    fn begin(mut course: Course<Event, Defect>) -> QueueWorld {
        course.dice = Dice::new(course.plan.seed ^ 0x71_7565_7565);
        let (node_count, defect) = (course.plan.nodes, course.defect);
        let nodes = (0..node_count).map(|number| QueueNode::new(number as usize, defect)).collect();
        course.throw_weather();
        let mut world = QueueWorld {
            course,
            nodes,
            programs: BTreeMap::new(),
            links: BTreeMap::new(),
            open: BTreeMap::new(),
            next_number: 0,
            judge: Judge::default(),
        };
        for program in 0..u64::from(node_count) * PROGRAM_COUNT {
            world.begin(program);
        }
        world.at(10, Event::Fault);
        world
    }

    fn act(&mut self, event: Event) -> Check {
        self.note(format!("{event:?}"));
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
                    self.at(pause_ms, Event::Fault);
                }
                Ok(())
            }
        }
    }

    fn calm(&mut self) -> Check {
        Ok(())
    }

    fn judge_rest(&mut self) -> Check {
        self.judge.at_rest(self.nodes.iter().map(QueueNode::waiting).sum())
    }
}

impl QueueWorld {
    fn fault(&mut self) {
        let program = self.course.dice.below(self.programs.len() as u64);
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
            self.throw_weather();
        }
    }

    /// A home dies: what its queues held is gone, and all its programs learn of it.
    fn kill_home(&mut self, node: usize) {
        let still_ms = self.nodes[node].still_until_ms;
        self.nodes[node] = QueueNode::new(node, self.course.defect);
        self.judge.on_home_death(node);
        self.nodes[node].still_until_ms = still_ms;
        let its: Vec<u64> = self.programs.keys().copied().filter(|program| self.node_of(*program) == node).collect();
        for program in its {
            let link = self.programs[&program].link;
            self.open.remove(&program);
            if let Some(link) = self.links.get_mut(&link) {
                (link.cut_ms, link.is_open_at_home) = (Some(self.course.now_ms), false);
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
        found.cut_ms = Some(self.course.now_ms + some_ms);
        self.at(some_ms + home_ms, Event::ClosedAtHome { link });
        self.at(some_ms + program_ms, Event::ClosedAtProgram { link });
    }

    fn connect(&mut self, program: u64, life: u64) -> u64 {
        self.next_number += 1;
        let link = Wire { program, life, cut_ms: None, path: Ordered::default(), is_open_at_home: true };
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
        let delay_ms = self.delay_ms();
        let Some(found) = self.links.get_mut(&link) else { return };
        let after = found.path.there(self.course.now_ms, delay_ms);
        self.at(after, Event::ToHome { link, request });
    }

    fn on_request(&mut self, link: u64, request: Request) -> Check {
        let found = self.links[&link];
        if found.cut_ms.is_some_and(|cut_ms| self.now_ms > cut_ms) {
            self.count("messages lost with their connection");
            return Ok(());
        }
        let node = self.node_of(found.program);
        if self.nodes[node].still_until_ms > self.now_ms {
            let after = self.nodes[node].still_until_ms - self.now_ms;
            self.at(after, Event::ToHome { link, request });
            return Ok(());
        }
        // A program's next connection ends the one before, wherever its bytes are (`protocol::session`).
        let is_older = |at: &u64| *at < link && self.links[at].life == found.life;
        let older: Vec<u64> = self.open.get(&found.program).into_iter().flatten().copied().filter(is_older).collect();
        older.into_iter().for_each(|link| self.close_at_home(link));
        if !self.links[&link].is_open_at_home {
            return Ok(());
        }
        let answer = self.nodes[node].on_request(link, request, &mut self.judge, &mut self.course.counts)?;
        let delay_ms = self.delay_ms();
        let found = self.links.get_mut(&link).expect("it was there");
        let after = found.path.back(self.course.now_ms, delay_ms);
        self.at(after, Event::ToProgram { link, answer });
        Ok(())
    }
}

#[cfg(test)]
mod tests;
