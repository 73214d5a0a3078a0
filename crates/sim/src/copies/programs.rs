//! Programs: each adds to a word of its extent or reads one, and tries again until it has an answer. An addition answers with the value before.

use super::{CopyWorld, Event, WORD_COUNT};
use crate::check::{Check, check};
use hanare_protocol::copies::UpdateCall;

/// Longest time until a program asks again, at the home of that moment.
const PATIENCE_MS: u64 = 1500;

/// A program.
#[derive(Clone, Debug)]
pub(super) struct CopyProgram {
    extent: usize,
    /// The home as it knows it: it asks for today's home when it has no answer.
    home: usize,
    /// Number of its request of today, or of its last.
    number: u64,
    /// Additions that it has asked for: the number of its call.
    additions: u64,
    /// True if its request was sent before.
    has_asked: bool,
    request: Option<CopyRequest>,
}

#[derive(Clone, Copy, Debug)]
struct CopyRequest {
    word: usize,
    is_addition: bool,
    /// The least that the answer may be: it was seen before the request.
    floor: u64,
}

impl CopyProgram {
    pub fn new(extent: usize, home: usize) -> CopyProgram {
        CopyProgram { extent, home, number: 0, additions: 0, has_asked: false, request: None }
    }
}

impl CopyWorld {
    /// A program has its turn.
    pub(super) fn on_program(&mut self, program: usize) {
        self.ask(program);
        let pause_ms = self.dice.between(PATIENCE_MS / 3, PATIENCE_MS);
        self.at(pause_ms, Event::Program(program));
    }

    /// A program asks for the next thing, or asks again.
    fn ask(&mut self, program: usize) {
        let extent = self.programs[program].extent;
        if self.programs[program].request.is_none() {
            if !self.is_rough {
                return;
            }
            let (word, is_addition) = (self.dice.below(WORD_COUNT as u64) as usize, self.dice.chance(6000));
            if is_addition {
                self.asked[extent][word] += 1;
            }
            let floor = self.seen[extent][word];
            let this = &mut self.programs[program];
            this.number += 1;
            this.additions += u64::from(is_addition);
            this.request = Some(CopyRequest { word, is_addition, floor });
            this.has_asked = false;
        } else {
            self.programs[program].home = self.coordinator.home(extent);
            self.programs[program].has_asked = true;
        }
        let (number, at) = (self.programs[program].number, self.programs[program].home);
        let after = self.delay_ms();
        self.at(after, Event::Ask { program, number, at });
    }

    /// A request comes to a node.
    pub(super) fn on_ask(&mut self, program: usize, number: u64, at: usize) {
        let this = &self.programs[program];
        let Some(request) = this.request.filter(|_| this.number == number) else { return };
        let extent = this.extent;
        if self.hosts[at].is_dead || self.hosts[at].is_still || !self.is_open(at, extent) {
            return;
        }
        if request.is_addition {
            let call =
                UpdateCall { client: program as u64, number: this.additions, lowest: this.additions, is_repeat: this.has_asked };
            self.add(at, extent, (program, number, request.word), call);
        } else {
            let value = self.hosts[at].memory.word(extent, request.word);
            self.answer(program, number, value);
        }
    }

    /// A home answers.
    pub(super) fn answer(&mut self, program: usize, number: u64, value: u64) {
        let after = self.delay_ms();
        self.at(after, Event::Answer { program, number, value });
    }

    pub(super) fn on_answer(&mut self, program: usize, number: u64, value: u64) -> Check {
        let this = &mut self.programs[program];
        let (extent, is_of_today) = (this.extent, this.number == number);
        let Some(request) = this.request.filter(|_| is_of_today) else { return Ok(()) };
        this.request = None;
        let (word, asked) = (request.word, self.asked[extent][request.word]);
        check(value >= request.floor, || format!("word {word} of extent {extent} is {value} where {} was seen", request.floor))?;
        check(value <= asked, || format!("word {word} of extent {extent} is {value}, and {asked} were added"))?;
        let mut seen = value;
        if request.is_addition {
            self.count("additions");
            check(self.results.insert((extent, word, value)), || {
                format!("two additions to word {word} of extent {extent} saw {value}")
            })?;
            seen += 1;
        } else {
            self.count("reads");
        }
        self.seen[extent][word] = self.seen[extent][word].max(seen);
        // The next request goes out at once in half of all cases.
        if self.dice.chance(5000) {
            self.ask(program);
        }
        Ok(())
    }

    /// Each program has its answer.
    pub(super) fn judge_programs(&self) -> Check {
        let waits = self.programs.iter().position(|program| program.request.is_some());
        check(waits.is_none(), || format!("program {waits:?} waits for ever: {:?}", self.programs[waits.unwrap_or_default()]))
    }
}
