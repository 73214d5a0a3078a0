//! Two programs, a lock that is leased, every order of messages, recalls, deaths and broken connections, by stateright. The lock and the
//! words are the machines that run. A recall is answered at any moment after it was asked, any number of times, or never.
#![allow(clippy::arithmetic_side_effects, reason = "numbers of a test")]

use super::lease::{LeaseEvent, LeasePhase, LeaseWord};
use super::*;
use crate::explored::{Explored, Judged, holds, is_needed, nothing_is_wrong};
use stateright::{Model, Property};

const PROGRAMS: usize = 2;
const NAME: &str = "a";

/// A rule that is switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Off {
    /// A word is begun before the request leaves.
    AskAhead,
    /// A node that says that a lock is kept takes it back.
    TakeBack,
    /// A home asks about a lock of a connection that ended.
    AskOfDead,
    /// A node knows words of programs that have ended.
    RememberDead,
}

/// How often each program takes the lock, how many die, and how many connections break.
#[derive(Clone)]
struct Lending {
    takes: u8,
    deaths: u8,
    breaks: u8,
    off: Option<Off>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum ToHome {
    Lock { number: u64, returns: Option<u64> },
    Unlock { number: u64 },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum ToProgram {
    Granted { number: u64, leased: bool },
    GivenBack { number: u64 },
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
enum Doing {
    #[default]
    Nothing,
    /// It waits for an answer.
    Asks,
    Has {
        number: u64,
        link: u64,
        leased: bool,
    },
    Dead,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Program {
    link: u64,
    doing: Doing,
    /// The taking that it was leased the lock by, and its connection.
    leased: Option<(u64, u64)>,
    words: BTreeMap<u64, LeasePhase>,
    to_home: VecDeque<ToHome>,
    from_home: VecDeque<ToProgram>,
    takes: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    locks: Locks,
    programs: Vec<Program>,
    /// What the home asks nodes.
    asked: BTreeSet<Claimant>,
    /// What they have said, which the home may hear.
    said: BTreeSet<(u64, u64, bool)>,
    /// Whether one died with the lock in hand for sure, and whether one may have.
    died: (bool, bool),
    numbers: u64,
    deaths: u8,
    breaks: u8,
    wrong: Option<&'static str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Action {
    Take(usize),
    Give(usize),
    ToHome(usize),
    ToProgram(usize),
    Answer(Claimant),
    Hear(u64, u64, bool),
    Die(usize),
    Break(usize),
}

impl Program {
    fn step(&mut self, number: u64, event: LeaseEvent) -> Option<LeasePhase> {
        let phase = self.words.get(&number).copied().unwrap_or(LeasePhase::Empty);
        let next = LeaseWord { number, phase }.after(event)?.phase;
        if next == LeasePhase::Empty {
            self.words.remove(&number);
        } else {
            self.words.insert(number, next);
        }
        Some(next)
    }

    fn phase(&self, number: u64) -> LeasePhase {
        self.words.get(&number).copied().unwrap_or(LeasePhase::Empty)
    }

    fn connect(&mut self, link: u64) {
        self.link = link;
        self.to_home.clear();
        self.from_home.clear();
    }
}

impl Judged for World {
    fn wrong(&self) -> Option<&'static str> {
        self.wrong
    }
}

impl World {
    fn who(&self, program: usize, number: u64) -> Claimant {
        Claimant { link: self.programs[program].link, number }
    }

    /// Of those that have the lock over connections that the home has not given up, there is one at most.
    fn judge_alone(&mut self) {
        let has = |program: &&Program| matches!(program.doing, Doing::Has { link, .. } if link == program.link);
        if self.programs.iter().filter(has).count() > 1 {
            self.wrong.get_or_insert("two have the lock");
        }
    }

    fn take(&mut self, off: Option<Off>, at: usize) {
        let program = &mut self.programs[at];
        program.takes += 1;
        let mut returns = None;
        if let Some((number, link)) = program.leased {
            if program.step(number, LeaseEvent::Take).is_some() {
                program.doing = Doing::Has { number, link, leased: true };
                return self.judge_alone();
            }
            returns = Some(number);
        }
        self.numbers += 1;
        let number = self.numbers;
        if off != Some(Off::AskAhead) {
            program.step(number, LeaseEvent::Ask);
        }
        program.doing = Doing::Asks;
        program.to_home.push_back(ToHome::Lock { number, returns });
    }

    fn give(&mut self, at: usize) {
        let program = &mut self.programs[at];
        let Doing::Has { number, link, leased } = program.doing else { return };
        program.doing = Doing::Nothing;
        if leased && program.step(number, LeaseEvent::Keep).is_some() {
            return;
        }
        if link == program.link {
            program.doing = Doing::Asks;
            program.to_home.push_back(ToHome::Unlock { number });
        }
    }

    fn settle(&mut self) {
        while let Some(step) = self.locks.poll_recall() {
            match step {
                RecallStep::Begin(who) => self.asked.insert(who),
                RecallStep::End(who) => self.asked.remove(&who),
            };
        }
        while let Some(LockGrant { who, abandoned }) = self.locks.poll() {
            self.granted(who, abandoned, false);
        }
    }

    fn granted(&mut self, who: Claimant, abandoned: bool, leased: bool) {
        let (surely, perhaps) = std::mem::take(&mut self.died);
        if surely && !abandoned {
            self.wrong.get_or_insert("nobody is told of a holder that died");
        }
        if abandoned && !perhaps {
            self.wrong.get_or_insert("a lock that nobody held counts as abandoned");
        }
        if let Some(program) = self.programs.iter_mut().find(|program| program.link == who.link) {
            program.from_home.push_back(ToProgram::Granted { number: who.number, leased });
        }
    }

    fn hear_program(&mut self, at: usize) {
        let Some(message) = self.programs[at].to_home.pop_front() else { return };
        match message {
            ToHome::Lock { number, returns } => {
                if let Some(before) = returns {
                    self.locks.on_recalled(self.who(at, before), Recalled::Kept);
                }
                let who = self.who(at, number);
                match self.locks.on_lock(NAME, Claim { who, thread: number, mode: Mode::Exclusive }, true) {
                    Ok(Claimed::Granted { abandoned }) => {
                        let leased = self.locks.on_lend(who);
                        self.granted(who, abandoned, leased);
                    }
                    Ok(_) => {}
                    Err(_) => self.wrong = Some("a taking is refused"),
                }
            }
            ToHome::Unlock { number } => {
                if self.locks.on_unlock(self.who(at, number)).is_err() {
                    self.wrong.get_or_insert("who gives a lock back is refused");
                }
                self.programs[at].from_home.push_back(ToProgram::GivenBack { number });
            }
        }
        self.settle();
    }

    fn hear_home(&mut self, off: Option<Off>, at: usize) {
        let program = &mut self.programs[at];
        let Some(message) = program.from_home.pop_front() else { return };
        match message {
            ToProgram::Granted { number, leased } => {
                if let Some((before, link)) = program.leased.take()
                    && link == program.link
                {
                    program.step(before, LeaseEvent::End);
                }
                if off == Some(Off::AskAhead) {
                    program.step(number, LeaseEvent::Ask);
                }
                program.step(number, if leased { LeaseEvent::Lend } else { LeaseEvent::End });
                program.leased = leased.then_some((number, program.link));
                program.doing = Doing::Has { number, link: program.link, leased };
                self.judge_alone();
            }
            ToProgram::GivenBack { number } => {
                program.step(number, LeaseEvent::End);
                program.leased = program.leased.filter(|(leased, _)| *leased != number);
                program.doing = Doing::Nothing;
            }
        }
    }

    /// A node looks at a word.
    fn answer(&mut self, off: Option<Off>, who: Claimant) {
        // Numbers are not used twice here, so they name the program.
        let Some(program) = self.programs.iter_mut().find(|program| program.words.contains_key(&who.number)) else {
            // Without the rule that is switched off a node takes what it does not know for what is not held.
            if off == Some(Off::AskAhead) {
                self.said.insert((who.link, who.number, false));
            }
            return;
        };
        if off == Some(Off::RememberDead) && program.doing == Doing::Dead {
            self.said.insert((who.link, who.number, false));
            return;
        }
        let kept = program.phase(who.number) == LeasePhase::Kept;
        if off == Some(Off::TakeBack) && kept {
            self.said.insert((who.link, who.number, false));
        } else if let Some(phase) = program.step(who.number, LeaseEvent::Recall) {
            self.said.insert((who.link, who.number, phase == LeasePhase::Wanted));
        }
    }

    fn hear(&mut self, (link, number, is_held): (u64, u64, bool)) {
        let who = Claimant { link, number };
        let recalled = if is_held { Recalled::Held } else { Recalled::Kept };
        if self.asked.contains(&who) {
            self.locks.on_recalled(who, recalled);
            self.settle();
        }
    }

    /// A program dies, or its connection ends for both sides.
    fn part(&mut self, off: Option<Off>, at: usize, dies: bool) {
        let link = self.programs[at].link;
        let program = &mut self.programs[at];
        let is_kept = |number: u64| program.phase(number) == LeasePhase::Kept || program.phase(number) == LeasePhase::Gone;
        let has = matches!(program.doing, Doing::Has { link: on, .. } if on == link);
        let held: Vec<Claimant> = self.locks.claims.range(Claimant::all_of(link)).map(|(who, _)| *who).collect();
        let held: Vec<Claimant> = held.into_iter().filter(|who| self.locks.has(*who)).collect();
        // A grant or a release under way may be lost with its connection.
        let perhaps = has || held.iter().any(|who| !is_kept(who.number)) || held.iter().any(|who| self.asked.contains(who));
        // The one that lives may take what it keeps before its node is asked.
        let perhaps = perhaps || !dies && !held.is_empty();
        self.died = (self.died.0 || has && dies, self.died.1 || perhaps);
        if dies {
            program.doing = Doing::Dead;
            program.connect(0);
        } else {
            self.numbers += 1;
            program.connect(self.numbers);
            program.doing = Doing::Nothing;
        }
        self.locks.on_link_gone(link);
        if off == Some(Off::AskOfDead) {
            while let Some(step) = self.locks.poll_recall() {
                if let RecallStep::Begin(who) = step {
                    self.locks.on_recalled(who, Recalled::Unknown);
                }
            }
        }
        self.settle();
    }
}

impl Model for Lending {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        let program = |link| Program { link, ..Program::default() };
        vec![World {
            locks: Locks::new(),
            programs: (0..PROGRAMS as u64).map(|at| program(1_000 + at)).collect(),
            asked: BTreeSet::new(),
            said: BTreeSet::new(),
            died: (false, false),
            numbers: 0,
            deaths: 0,
            breaks: 0,
            wrong: None,
        }]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        for (at, program) in world.programs.iter().enumerate() {
            match program.doing {
                Doing::Dead => continue,
                Doing::Nothing if program.takes < self.takes => actions.push(Action::Take(at)),
                Doing::Has { .. } => actions.push(Action::Give(at)),
                Doing::Nothing | Doing::Asks => {}
            }
            actions.extend((!program.to_home.is_empty()).then_some(Action::ToHome(at)));
            actions.extend((!program.from_home.is_empty()).then_some(Action::ToProgram(at)));
            actions.extend((world.deaths < self.deaths).then_some(Action::Die(at)));
            actions.extend((world.breaks < self.breaks).then_some(Action::Break(at)));
        }
        actions.extend(world.asked.iter().map(|who| Action::Answer(*who)));
        actions.extend(world.said.iter().map(|(link, number, is_held)| Action::Hear(*link, *number, *is_held)));
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let mut next = world.clone();
        match action {
            Action::Take(at) => next.take(self.off, at),
            Action::Give(at) => next.give(at),
            Action::ToHome(at) => next.hear_program(at),
            Action::ToProgram(at) => next.hear_home(self.off, at),
            Action::Answer(who) => next.answer(self.off, who),
            Action::Hear(link, number, is_held) => next.hear((link, number, is_held)),
            Action::Die(at) => {
                next.deaths += 1;
                next.part(self.off, at, true);
            }
            Action::Break(at) => {
                next.breaks += 1;
                next.part(self.off, at, false);
            }
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        nothing_is_wrong()
    }
}

impl Explored for Lending {}

const LENDING: Lending = Lending { takes: 2, deaths: 0, breaks: 0, off: None };

#[test]
fn one_at_a_time_has_a_leased_lock_and_the_dead_are_told_of() {
    holds(LENDING, "a lock that is leased", 100);
    holds(Lending { deaths: 1, ..LENDING }, "a lock that is leased, and a death", 100);
    holds(Lending { breaks: 1, ..LENDING }, "a lock that is leased, and a connection that breaks", 100);
}

#[test]
fn each_rule_is_needed() {
    for (off, deaths, wrong) in [
        (Off::AskAhead, 0, "two have the lock"),
        (Off::TakeBack, 0, "two have the lock"),
        (Off::RememberDead, 1, "nobody is told of a holder that died"),
        (Off::AskOfDead, 1, "a lock that nobody held counts as abandoned"),
    ] {
        is_needed(Lending { deaths, off: Some(off), ..LENDING }, off, wrong);
    }
}
