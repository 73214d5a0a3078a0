//! Writers' and readers' acts, and effects of replies.

use super::home::{Answer, Request};
use super::judge::Judge;
use super::{PROGRAM_COUNT, QueueWorld};
use crate::check::Check;
use hanare_protocol::queue::PortId;
use hanare_protocol::{Error, Result as Outcome};
use std::collections::{BTreeMap, VecDeque};

/// A program, in the life that it has.
#[derive(Debug)]
pub(super) struct Program {
    pub port: PortId,
    pub life: u64,
    pub link: u64,
    role: Role,
    /// The requests that were sent and not answered, in their order; they are repeated over the next connection.
    asked: VecDeque<Request>,
}

/// Appends of a writer that are under way at most.
const BEGUN_COUNT: usize = 3;

#[derive(Debug)]
enum Role {
    Writer {
        lane: Option<u32>,
        /// Blocks that were answered for, and those that were sent.
        known: u64,
        sent: u64,
        /// Blocks that it is going to write.
        goal: u64,
        /// True if it says that it leaves.
        is_leaving: bool,
        /// Its lane is resumed before its appends are repeated.
        is_resuming: bool,
    },
    Reader {
        is_open: bool,
        is_reopening: bool,
        /// Bytes that it has read of each lane.
        freed: BTreeMap<u32, u64>,
    },
}

impl Program {
    /// True if it waits for nothing: a writer goes on while some of its appends are under way.
    fn may_ask(&self) -> bool {
        let is_append = |request: &Request| matches!(request, Request::Append { .. });
        self.asked.is_empty() || self.asked.len() < BEGUN_COUNT && self.asked.iter().all(is_append)
    }
}

impl QueueWorld {
    /// A program begins, or the successor of one.
    pub(super) fn begin(&mut self, program: u64) {
        self.next_number += 1;
        let life = self.next_number;
        let link = self.connect(program, life);
        let role = match program % PROGRAM_COUNT {
            0 => Role::Reader { is_open: false, is_reopening: false, freed: BTreeMap::new() },
            _ => {
                let goal = self.dice.between(1, 40);
                Role::Writer { lane: None, known: 0, sent: 0, goal, is_leaving: false, is_resuming: false }
            }
        };
        self.programs.insert(program, Program { port: PortId(life), life, link, role, asked: VecDeque::new() });
        let pause_ms = self.dice.between(0, 200);
        self.at(pause_ms, super::Event::Next { program, life });
    }

    /// A program does its next thing.
    pub(super) fn on_next(&mut self, at: u64, life: u64) -> Check {
        let is_rough = self.is_rough;
        let take = self.dice.between(1, 5);
        let Some(program) = self.programs.get_mut(&at).filter(|program| program.life == life && program.may_ask()) else {
            return Ok(());
        };
        let port = program.port;
        let request = match &mut program.role {
            Role::Writer { lane: None, .. } if !is_rough => return Ok(()),
            Role::Writer { lane: None, .. } => Request::OpenLane { writer: port },
            Role::Writer { lane: Some(lane), sent, goal, is_leaving, .. } if *sent >= *goal || !is_rough => {
                // The writer leaves when all that it sent was answered.
                if !program.asked.is_empty() {
                    return Ok(());
                }
                *is_leaving = true;
                Request::CloseLane { lane: *lane, writer: port }
            }
            Role::Writer { lane: Some(lane), sent, .. } => {
                let numbers = (*sent + 1..).take(take as usize).collect();
                let seq = std::mem::replace(sent, *sent + take);
                Request::Append { lane: *lane, writer: port, seq, numbers }
            }
            Role::Reader { is_open: false, .. } => Request::OpenReader { reader: port },
            // Now and then a reader leaves in good order.
            Role::Reader { is_open, .. } if is_rough && take == 5 && self.course.dice.chance(323) => {
                *is_open = false;
                Request::CloseReader { reader: port }
            }
            Role::Reader { freed, .. } => Request::Next { reader: port, freed: freed.clone() },
        };
        let is_append = matches!(request, Request::Append { .. });
        self.ask(at, request);
        if is_append && self.dice.chance(400) {
            // The program does not wait for the reply.
            self.count("appends that were not waited for");
            let pause_ms = self.dice.between(0, 20);
            self.at(pause_ms, super::Event::Next { program: at, life });
        }
        Ok(())
    }

    fn ask(&mut self, at: u64, request: Request) {
        let program = self.programs.get_mut(&at).expect("it asks");
        program.asked.push_back(request.clone());
        let link = program.link;
        self.send(link, request);
    }

    /// A program hears that its connection is gone: it makes another and repeats what was not answered.
    pub(super) fn on_closed(&mut self, link: u64) -> Check {
        let (at, life) = (self.links[&link].program, self.links[&link].life);
        if self.programs[&at].link != link || self.programs[&at].life != life {
            return Ok(());
        }
        let fresh = self.connect(at, life);
        let program = self.programs.get_mut(&at).expect("it was there");
        program.link = fresh;
        let asked = program.asked.clone();
        asked.into_iter().for_each(|request| self.send(fresh, request));
        Ok(())
    }

    pub(super) fn on_answer(&mut self, link: u64, answer: Outcome<Answer>) -> Check {
        let found = self.links[&link];
        if found.cut_ms.is_some_and(|cut_ms| self.now_ms > cut_ms) {
            return Ok(());
        }
        let at = found.program;
        let Some(program) = self.programs.get_mut(&at).filter(|program| program.link == link && program.life == found.life)
        else {
            return Ok(());
        };
        let asked = program.asked.pop_front();
        let pause_ms = match program.role {
            Role::Writer { .. } => self.on_answer_to_writer(at, asked, answer)?,
            Role::Reader { .. } => self.on_answer_to_reader(at, asked.as_ref(), answer)?,
        };
        if let Some(pause_ms) = pause_ms {
            let (life, think_ms) = (self.programs[&at].life, self.dice.between(0, 200));
            self.at(pause_ms + think_ms, super::Event::Next { program: at, life });
        }
        Ok(())
    }

    /// Time that the writer waits before its next act; `None` where it has asked again, or another has begun in its place.
    fn on_answer_to_writer(&mut self, at: u64, asked: Option<Request>, answer: Outcome<Answer>) -> Result<Option<u64>, String> {
        let program = self.programs.get_mut(&at).expect("it was there");
        let (port, is_idle) = (program.port, program.asked.is_empty());
        let Role::Writer { lane, known, sent, is_leaving, is_resuming, .. } = &mut program.role else { return Ok(None) };
        match answer {
            Ok(Answer::Lane { lane: given, accepted }) => {
                Judge::on_told(*known, accepted)?;
                (*lane, *known, *is_resuming) = (Some(given), accepted, false);
                *sent = (*sent).max(accepted);
                Ok(Some(0))
            }
            Ok(Answer::Appended { appended, is_reader_dead }) => {
                Judge::on_told(*known, appended.accepted)?;
                *known = appended.accepted;
                let is_whole = asked.is_some_and(|asked| asked.end() <= appended.accepted);
                if !is_whole {
                    // Appends behind it are refused.
                    self.count(if is_reader_dead { "writers told of a dead reader" } else { "appends without room" });
                    return Ok(self.begin_anew(at, 20));
                }
                self.count("appends");
                Ok(is_idle.then_some(0))
            }
            Err(Error::Garbage { .. }) if matches!(asked, Some(Request::Append { .. })) => {
                self.count("appends behind a refused one");
                Ok(self.begin_anew(at, 0))
            }
            Ok(Answer::Done) if *is_leaving => {
                self.begin(at);
                Ok(None)
            }
            Err(Error::NotAWriter { .. }) if matches!(asked, Some(Request::ResumeLane { .. })) => {
                // The writer was taken for dead.
                self.count("lanes lost");
                self.begin(at);
                Ok(None)
            }
            Err(Error::NotAWriter { lane, .. }) => {
                // The first of several resumes the lane; they follow in their order.
                if !std::mem::replace(is_resuming, true) {
                    self.ask(at, Request::ResumeLane { lane, writer: port });
                }
                if let Some(append @ Request::Append { .. }) = asked {
                    self.ask(at, append);
                }
                Ok(None)
            }
            Err(Error::LimitReached { .. }) => Ok(Some(100)),
            other => Err(format!("{other:?} in answer to a writer")),
        }
    }

    /// When a writer whose append was refused goes on, once all that followed it are: with the first block that does not count.
    fn begin_anew(&mut self, at: u64, pause_ms: u64) -> Option<u64> {
        let program = self.programs.get_mut(&at).expect("it was there");
        let is_idle = program.asked.is_empty();
        if let (Role::Writer { known, sent, .. }, true) = (&mut program.role, is_idle) {
            *sent = *known;
        }
        is_idle.then_some(pause_ms)
    }

    /// [`QueueWorld::on_answer_to_writer`] for a reader.
    fn on_answer_to_reader(&mut self, at: u64, asked: Option<&Request>, answer: Outcome<Answer>) -> Result<Option<u64>, String> {
        let program = self.programs.get_mut(&at).expect("it was there");
        let port = program.port;
        let Role::Reader { is_open, is_reopening, freed } = &mut program.role else { return Ok(None) };
        match answer {
            Ok(Answer::Done) => {
                if matches!(asked, Some(Request::OpenReader { .. })) {
                    (*is_open, *is_reopening) = (true, false);
                }
                Ok(Some(0))
            }
            Ok(Answer::Units { lanes, dead }) => {
                for (lane, (first, blocks)) in lanes {
                    let mut before = BTreeMap::new();
                    for block in &blocks {
                        Judge::on_seen(before.insert(block.writer.0, block.number), *block)?;
                    }
                    freed.insert(lane, first + blocks.len() as u64);
                    *self.course.counts.entry("blocks seen").or_default() += blocks.len() as u64;
                }
                let Some(lane) = dead.first() else { return Ok(Some(0)) };
                self.ask(at, Request::Tell { lane: *lane, reader: port });
                Ok(None)
            }
            Err(Error::SecondReader { .. }) => {
                if *is_reopening {
                    // Another reads by now: it begins as one that comes later.
                    freed.clear();
                }
                let pause_ms = if *is_reopening { 100 } else { 0 };
                (*is_open, *is_reopening) = (false, true);
                Ok(Some(pause_ms))
            }
            other => Err(format!("{other:?} in answer to a reader")),
        }
    }
}
