//! A rank: its steps in turn, what it waits for, and what it takes in.
use std::collections::VecDeque;

use hanare_protocol::id::{JobId, JobRank, Rank};
use hanare_protocol::limits::SPIN_ANSWER_US;
use hanare_protocol::lock::lease::LeaseWord;
use hanare_protocol::page::{Access, Page};
use hanare_protocol::wire::control;
use hanare_protocol::wire::head::HEAD_LEN;
use hanare_protocol::wire::sync::{Arrival, Party, SyncRequest};

use super::{Body, Event, LockMessage, Message, Outgoing, World};
use crate::time::Picos;
use crate::what_if::path::{Expense, Path};
use crate::what_if::program::Step;

/// What a rank is at.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum Doing {
    /// It has come to its next step.
    #[default]
    Next,
    /// It makes requests; then they leave.
    Post(Vec<Outgoing>),
    /// It says that it is at the barrier; then that leaves.
    Arrive,
    /// It asks for the lock, or gives it back; then that leaves.
    AskHome(LockMessage),
    /// It has faulted; then the page is asked for.
    Touch,
    /// It takes an answer in.
    Take,
    /// It waits for a message.
    Waits,
    /// The rank has ended.
    Ended,
}

/// A page that a rank has touched and cannot use yet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Touching {
    /// The page; its number tells its home.
    pub page: Page,
    /// What for.
    pub access: Access,
    /// Since when.
    pub begun: Picos,
}

/// A step for which a rank ends all that it has begun.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Meeting {
    Barrier,
    Lock,
    Unlock,
}

/// A rank in a run.
#[derive(Default)]
pub(super) struct Process {
    phase: usize,
    pub(super) round: u64,
    step: usize,
    pub(super) doing: Doing,
    /// Requests that are not answered.
    pub(super) under_way: u64,
    /// Requests of the last command.
    pub(super) fan: u64,
    answers: VecDeque<Message>,
    since: Picos,
    pub(super) path: Path,
    generation: u64,
    /// The step that comes once nothing is under way.
    meets: Option<Meeting>,
    /// The word of the lock that it shares with its node, once it has asked.
    pub(super) lease: Option<LeaseWord>,
    /// It waits until at most so many requests are under way.
    waits_for: Option<u64>,
    /// The moment that it waits for.
    hears: Option<u32>,
    pub(super) touched: u64,
    pub(super) touching: Option<Touching>,
}

impl Process {
    /// Its thread works, or waits and has not parked.
    pub(super) fn is_awake(&self, now: Picos) -> bool {
        match self.doing {
            Doing::Ended => false,
            Doing::Waits => now.since(self.since) <= Picos::us(SPIN_ANSWER_US),
            _ => true,
        }
    }
}

impl World<'_> {
    /// A rank works for a while; then it goes on with what it is doing.
    pub(super) fn rank_works(&mut self, rank: usize, cause: Expense, span: Picos, doing: Doing) {
        self.rank_works_from(rank, self.engine.now(), cause, span, doing);
    }

    /// The same from a later time on; until then it wakes up.
    fn rank_works_from(&mut self, rank: usize, asked: Picos, cause: Expense, span: Picos, doing: Doing) {
        let (start, end) = self.work(self.node_of(rank), asked, span);
        let woke = asked - self.engine.now();
        let process = &mut self.ranks[rank];
        process.path.add(Expense::Waking, woke);
        process.path.add(Expense::Processor, start - asked);
        process.path.add(cause, span);
        process.doing = doing;
        if self.trace.is_some() {
            self.chart(&format!("rank {rank}"), "program", cause.name(), start, end);
        }
        self.engine.schedule(end, Event::Ready(rank));
    }

    pub(super) fn on_ready(&mut self, rank: usize) {
        debug_assert_eq!(self.ranks[rank].path.total(), self.engine.now(), "a path adds up to the time");
        match std::mem::take(&mut self.ranks[rank].doing) {
            Doing::Post(requests) => self.post(rank, requests),
            Doing::Arrive => return self.arrive(rank),
            Doing::AskHome(message) => return self.ask_home(rank, message),
            Doing::Touch => return self.touch(rank),
            Doing::Take | Doing::Next => {}
            Doing::Waits | Doing::Ended => unreachable!("a rank that waits has no work to end"),
        }
        self.go_on(rank);
    }

    /// The rank's next piece of work, or what it waits for.
    pub(super) fn go_on(&mut self, rank: usize) {
        while self.takes_no_time(rank) {}
    }

    /// Begins the rank's next piece of work, or has it wait; true where that took no time, and more can follow at once.
    fn takes_no_time(&mut self, rank: usize) -> bool {
        if let Some(answer) = self.ranks[rank].answers.pop_front() {
            self.take_in(rank, &answer);
            return false;
        }
        let process = &self.ranks[rank];
        if process.touching.is_some() {
            self.touch(rank);
            return false;
        }
        let depth = self.program.phases(rank).get(process.phase).map_or(1, |phase| phase.depth);
        let is_full = process.under_way + process.fan > depth * process.fan.max(1) && process.under_way > 0;
        let waits_for_answers = (process.under_way > 0 && (process.meets.is_some() || is_full))
            || process.waits_for.is_some_and(|left| process.under_way > left);
        if waits_for_answers || process.hears.is_some_and(|moment| !self.told.contains(&moment)) {
            self.wait(rank);
            return false;
        }
        match self.ranks[rank].meets.take() {
            Some(Meeting::Barrier) => return self.and_waits(|world| world.begin_arrival(rank)),
            Some(Meeting::Lock) => return self.begin_lock(rank),
            Some(Meeting::Unlock) => return self.begin_unlock(rank),
            None => {}
        }
        (self.ranks[rank].waits_for, self.ranks[rank].hears) = (None, None);
        let Some(step) = self.next_step(rank) else {
            if self.ranks[rank].under_way > 0 {
                self.wait(rank);
            } else {
                self.ranks[rank].doing = Doing::Ended;
                self.note_start(rank);
            }
            return false;
        };
        self.note_start(rank);
        self.begin_step(rank, step)
    }

    /// Begins a step; true where it is no work.
    fn begin_step(&mut self, rank: usize, step: Step) -> bool {
        match step {
            Step::Barrier => self.ranks[rank].meets = Some(Meeting::Barrier),
            Step::Lock => self.ranks[rank].meets = Some(Meeting::Lock),
            Step::Unlock => self.ranks[rank].meets = Some(Meeting::Unlock),
            Step::Wait { left } => self.ranks[rank].waits_for = Some(left),
            Step::Hear(moment) => self.ranks[rank].hears = Some(moment),
            Step::Tell(moment) => self.tell(rank, moment),
            Step::Compute(span) => return self.compute(rank, Expense::Computing, span),
            Step::Local(span) => return self.compute(rank, Expense::Memory, span),
            Step::Kept(span) => return self.compute(rank, Expense::Kept, span),
            Step::Touch { writes, place } => return self.and_waits(|world| world.begin_touch(rank, writes, place)),
            Step::Bring { pages } => return self.and_waits(|world| world.bring(rank, pages)),
            Step::Command(command) => return self.and_waits(|world| world.begin(rank, command)),
            Step::Requests(requests) => return self.and_waits(|world| world.begin_requests(rank, &requests)),
        }
        true
    }

    /// Begins what takes time.
    fn and_waits(&mut self, begin: impl FnOnce(&mut Self)) -> bool {
        begin(self);
        false
    }

    /// The program works by itself. What a recording says that this took was with all that had the processors there.
    fn compute(&mut self, rank: usize, cause: Expense, span: Picos) -> bool {
        if self.computing_takes_processors && cause != Expense::Kept {
            self.rank_works(rank, cause, span, Doing::Next);
            return false;
        }
        let start = self.engine.now();
        let process = &mut self.ranks[rank];
        process.path.add(cause, span);
        process.doing = Doing::Next;
        if self.trace.is_some() {
            self.chart(&format!("rank {rank}"), "program", cause.name(), start, start + span);
        }
        self.engine.schedule(start + span, Event::Ready(rank));
        false
    }

    /// A rank has come to a moment: who waits for it goes on.
    fn tell(&mut self, rank: usize, moment: u32) {
        self.told.insert(moment);
        let (from, now, path) = (self.node_of(rank), self.engine.now(), self.ranks[rank].path.clone());
        let hearing =
            self.ranks.iter().enumerate().filter(|(_, other)| other.hears == Some(moment) && other.doing == Doing::Waits);
        for other in hearing.map(|(other, _)| other).collect::<Vec<_>>() {
            let (to, path) = (self.node_of(other), path.clone());
            let message =
                Message { rank: other, from, to, bytes: 0, kind: "moment", begun: now, arrived: now, path, body: Body::Told };
            self.engine.schedule(now, Event::AtRank(Box::new(message)));
        }
    }

    fn note_start(&mut self, rank: usize) {
        if let Some(starts) = self.starts.get_mut(rank) {
            starts.push(self.engine.now());
        }
    }

    pub(super) fn wait(&mut self, rank: usize) {
        self.ranks[rank].doing = Doing::Waits;
        self.ranks[rank].since = self.engine.now();
    }

    /// The step that comes next, if any is left. A phase begins when what the one before began is over.
    fn next_step(&mut self, rank: usize) -> Option<Step> {
        let phases = self.program.phases(rank);
        let process = &mut self.ranks[rank];
        while let Some(phase) = phases.get(process.phase) {
            if process.round < phase.times
                && let Some(step) = phase.steps.get(process.step)
            {
                process.step += 1;
                if process.step == phase.steps.len() {
                    (process.step, process.round) = (0, process.round + 1);
                }
                return Some(step.clone());
            }
            if process.under_way > 0 {
                return None;
            }
            (process.phase, process.round, process.step) = (process.phase + 1, 0, 0);
        }
        None
    }

    pub(super) fn on_rank(&mut self, message: Message) {
        let rank = message.rank;
        if let Body::Letter(letter) = message.body {
            // What the thread that waits for a page is told, it takes in itself.
            return self.hear(letter, message.begun, &message.path, message.bytes);
        }
        if matches!(message.body, Body::Told) {
            return self.hear_of(rank, message);
        }
        if self.ranks[rank].doing == Doing::Waits {
            // Nothing but this message lets the rank go on: its path becomes the rank's.
            self.ranks[rank].path = message.path.clone();
            self.take_in(rank, &message);
        } else {
            self.ranks[rank].answers.push_back(message);
        }
    }

    /// The rank goes on from a moment that it waited for; who has gone on already has heard of it.
    fn hear_of(&mut self, rank: usize, message: Message) {
        let now = self.engine.now();
        let process = &mut self.ranks[rank];
        if process.doing == Doing::Waits && process.hears.is_some() {
            process.path = message.path;
            let is_parked = now.since(process.since) > Picos::us(SPIN_ANSWER_US);
            let wake = if is_parked { Picos::from_ns_f64(self.setting.costs.wake) } else { Picos::ZERO };
            self.rank_works_from(rank, now + wake, Expense::Library, Picos::ZERO, Doing::Next);
        }
    }

    /// The rank takes an answer in: half of its work for a request, after waking up where it waited too long.
    fn take_in(&mut self, rank: usize, message: &Message) {
        let now = self.engine.now();
        let Message { from, to, bytes, begun, .. } = *message;
        let costs = &self.setting.costs;
        let mut span = Picos::from_ns_f64(self.software(from, to).client / 2.0) + self.at_the_end(from, to, bytes);
        let wake = Picos::from_ns_f64(costs.wake);
        let is_store = self.ranks[rank].touching.is_some_and(|touching| touching.access == Access::Write);
        let call = if is_store { self.software(from, to).client + self.software(from, to).node } else { 0.0 };
        let fault = Picos::from_ns_f64(costs.fault + call);
        // While bytes come in nobody parks: what counts is the silence before them.
        let streams = self.setting.network.on_line(bytes) + self.at_one_end(from, to, bytes);
        let process = &mut self.ranks[rank];
        let is_parked = process.doing == Doing::Waits && now.since(process.since + streams) > Picos::us(SPIN_ANSWER_US);
        let mut next = Doing::Take;
        match message.body {
            // Time at a barrier is the others' time, and no answer's.
            Body::Released => process.generation += 1,
            Body::Lock(said, _) => self.take_lock(rank, said),
            Body::Installed => {
                span += fault;
                next = Doing::Touch;
            }
            _ => process.under_way -= 1,
        }
        if !matches!(message.body, Body::Released | Body::Lock(..)) {
            self.times.push(now - begun);
        }
        let held_up = Picos::from_ns_f64(if self.setting.is_held_up { costs.held_up.mean } else { 0.0 });
        let asked = if is_parked { now + wake } else { now };
        self.rank_works_from(rank, asked + held_up, Expense::Library, span, next);
    }

    fn arrival_of(&self, rank: usize) -> Arrival {
        let who = JobRank { job: JobId(1), rank: Rank(rank as u32), ranks: self.setting.ranks as u32 };
        Arrival { who, generation: self.ranks[rank].generation }
    }

    fn arrival_len(&self, rank: usize) -> u64 {
        (HEAD_LEN + control::encode(&SyncRequest::Arrive(Party::Rank(self.arrival_of(rank)), None)).len()) as u64
    }

    /// The rank has reached a barrier and has nothing under way.
    fn begin_arrival(&mut self, rank: usize) {
        let (here, bytes) = (self.node_of(rank), self.arrival_len(rank));
        let span = Picos::from_ns_f64(self.software(here, 0).client / 2.0) + self.at_one_end(here, 0, bytes);
        self.rank_works(rank, Expense::Library, span, Doing::Arrive);
    }

    /// It tells the jobs' home, node 0, and waits for its release.
    fn arrive(&mut self, rank: usize) {
        let (from, bytes, now) = (self.node_of(rank), self.arrival_len(rank), self.engine.now());
        let body = Body::Arrive(self.arrival_of(rank));
        let path = self.ranks[rank].path.clone();
        self.send(Message { rank, from, to: 0, bytes, kind: "barrier", begun: now, arrived: now, path, body }, false);
        self.wait(rank);
    }
}
