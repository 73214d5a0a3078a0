//! Programs as a line of text: `get 4KiB x1e4 depth 8 from 3 ranks`.
//!
//! ```text
//! pattern = phase { ";" phase }
//! phase   = step { "," step } { word }          steps of a phase are repeated together
//! step    = get SIZE | put SIZE | fetch | scan SIZE | copy SIZE
//!         | strided N of SIZE | gather N of SIZE | scatter N of SIZE | update N of SIZE
//!         | compute TIME | barrier | lock | unlock | touch | store | walk SIZE
//! word    = xN | depth N | from N ranks | near | far | spread
//! ```
use hanare_protocol::limits::{BATCH_COUNT_MAX, BODY_LEN_MAX, PAGE_LEN, RANK_COUNT_MAX, WHAT_IF_REPEAT_COUNT_MAX};

use super::WhatIfError;
use super::program::{Phase, Place, Program, Step, VectorCommand, Verb, walk};
use crate::time::Picos;
use crate::unit;

/// Names that stand for a pattern, each the inner loop of a program of `apps/` or of a bench, for 2 nodes and up.
///
/// Programs that compute have no name here: how long they do is a measurement, which a recording holds.
pub const APPS: &[(&str, &str, &str)] = &[
    ("gups", "random updates in batches over a table that all nodes share", "update 1024 of 8B x1000 spread"),
    ("gups-words", "random updates of single words", "fetch x10000 spread"),
    ("barrier", "empty barriers", "barrier x1000"),
    ("faults", "pages of another node, touched here and there", "touch x1000"),
    ("gather", "lists of random elements on another node", "gather 4096 of 8B x100"),
    ("scan", "a summary of a table that stays where it is", "scan 64MiB x100 spread"),
];

fn refuse(text: &str, problem: impl Into<String>) -> WhatIfError {
    WhatIfError::Pattern { text: text.to_string(), problem: problem.into() }
}

/// Reads a pattern.
///
/// **Errors**: [`WhatIfError::Pattern`], with the words that were not understood.
pub fn parse(text: &str) -> Result<Program, WhatIfError> {
    let mut rank_count = None;
    let phases = text.split(';').map(|part| phase(part, &mut rank_count)).collect::<Result<Vec<_>, _>>()?;
    Ok(Program { name: text.trim().to_string(), ranks: vec![phases], rank_count })
}

/// The words of a phase, taken one by one.
struct Words<'a> {
    text: &'a str,
    words: std::iter::Peekable<std::vec::IntoIter<&'a str>>,
}

impl<'a> Words<'a> {
    fn next(&mut self, what: &str) -> Result<&'a str, WhatIfError> {
        self.words.next().ok_or_else(|| refuse(self.text, format!("{what} is missing at the end")))
    }

    fn count(&mut self, what: &str, most: u64) -> Result<u64, WhatIfError> {
        let word = self.next(what)?;
        count(word, most).ok_or_else(|| refuse(self.text, format!("\"{word}\" is not {what} of 1 to {most}")))
    }

    fn size(&mut self) -> Result<u64, WhatIfError> {
        let word = self.next("a size")?;
        quantity(word, "B")
            .filter(|bytes| (1.0..=BODY_LEN_MAX as f64).contains(bytes) && bytes.fract() == 0.0)
            .map(|bytes| bytes as u64)
            .ok_or_else(|| refuse(self.text, format!("\"{word}\" is not a size of 1 B to 1024 GiB, as 4KiB")))
    }

    fn elements(&mut self) -> Result<(u64, u64), WhatIfError> {
        let elements = self.count("a count of elements", 1 << 32)?;
        match self.next("\"of\"")? {
            "of" => Ok((elements, self.size()?)),
            word => Err(refuse(self.text, format!("\"{word}\" stands where \"of\" is expected"))),
        }
    }
}

/// A whole number, which may be written `1e4`.
fn count(word: &str, most: u64) -> Option<u64> {
    let number: f64 = word.parse().ok()?;
    (number.fract() == 0.0 && (1.0..=most as f64).contains(&number)).then_some(number as u64)
}

/// A number with its unit behind it, `4KiB` or `2.5us`, in another unit.
fn quantity(word: &str, to: &str) -> Option<f64> {
    let split = word.find(|letter: char| letter.is_ascii_alphabetic() && letter != 'e').unwrap_or(word.len());
    unit::convert(word[..split].parse().ok()?, word[split..].trim(), to)
}

fn phase(text: &str, rank_count: &mut Option<usize>) -> Result<Phase, WhatIfError> {
    let spaced = text.replace(',', " , ");
    let all: Vec<&str> = spaced.split_whitespace().collect();
    let mut words = Words { text, words: all.into_iter().peekable() };
    let mut phase = Phase { steps: Vec::new(), times: 1, depth: 1 };
    let mut place = Place::Far;
    loop {
        let verb = words.next("a step")?;
        match verb {
            "walk" => phase.steps.extend(walk(words.size()?.div_ceil(PAGE_LEN))),
            _ => phase.steps.push(step(verb, &mut words)?),
        }
        if words.words.next_if(|word| *word == ",").is_none() {
            break;
        }
    }
    while let Some(word) = words.words.next() {
        match word {
            "near" => place = Place::Near,
            "far" => place = Place::Far,
            "spread" => place = Place::Spread,
            "depth" => phase.depth = words.count("a depth", BATCH_COUNT_MAX as u64)?,
            "from" => {
                *rank_count = Some(words.count("a count of ranks", u64::from(RANK_COUNT_MAX))? as usize);
                words.words.next_if(|word| matches!(*word, "ranks" | "rank"));
            }
            _ => {
                phase.times = word
                    .strip_prefix('x')
                    .and_then(|times| count(times, WHAT_IF_REPEAT_COUNT_MAX))
                    .ok_or_else(|| refuse(text, format!("\"{word}\" is none of xN, depth N, from N ranks, near, far, spread")))?;
            }
        }
    }
    check_locks(&phase).map_err(|problem| refuse(text, problem))?;
    for step in &mut phase.steps {
        match step {
            Step::Command(VectorCommand { place: there, .. }) | Step::Touch { place: there, .. } => *there = place,
            Step::Bring { .. } if place != Place::Far => {
                return Err(refuse(text, "a walk is through pages of another node: far"));
            }
            _ => {}
        }
    }
    Ok(phase)
}

/// A turn of a phase takes the lock before it gives it back, and ends without it.
fn check_locks(phase: &Phase) -> Result<(), &'static str> {
    let mut has_lock = false;
    for step in &phase.steps {
        match (step, has_lock) {
            (Step::Lock, false) | (Step::Unlock, true) => has_lock = !has_lock,
            (Step::Lock, true) => return Err("a rank that has the lock would wait for itself: unlock comes first"),
            (Step::Unlock, false) => return Err("unlock gives back what lock took before"),
            (Step::Barrier, true) => return Err("who has the lock keeps the others from the barrier: unlock comes first"),
            _ => {}
        }
    }
    if has_lock { Err("each lock needs its unlock in the same phase") } else { Ok(()) }
}

fn step(word: &str, words: &mut Words<'_>) -> Result<Step, WhatIfError> {
    let command = |verb, elements, len| Step::Command(VectorCommand { verb, elements, len, place: Place::Far });
    match word {
        "barrier" => return Ok(Step::Barrier),
        "lock" => return Ok(Step::Lock),
        "unlock" => return Ok(Step::Unlock),
        "touch" | "store" => return Ok(Step::Touch { writes: word == "store", place: Place::Far }),
        "compute" => {
            let given = words.next("a time")?;
            let span = quantity(given, "ps").filter(|span| (0.0..1e15).contains(span));
            let span = span.ok_or_else(|| refuse(words.text, format!("\"{given}\" is not a time below 1000 s, as 2.5us")))?;
            return Ok(Step::Compute(Picos(span.round() as u64)));
        }
        _ => {}
    }
    let Some((_, verb)) = Verb::ALL.iter().find(|(name, _)| *name == word) else {
        let known = Verb::ALL.map(|(name, _)| name).join(", ");
        return Err(refuse(
            words.text,
            format!("\"{word}\" is none of {known}, compute, barrier, lock, unlock, touch, store, walk"),
        ));
    };
    Ok(match verb {
        Verb::Get | Verb::Put | Verb::Scan | Verb::Copy => command(*verb, 1, words.size()?),
        Verb::Fetch => command(*verb, 1, 8),
        _ => {
            let (elements, len) = words.elements()?;
            command(*verb, elements, len)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_issues_example_is_read() {
        let program = parse("get 4KiB x1e4 depth 8 from 3 ranks").unwrap();
        let get = VectorCommand { verb: Verb::Get, elements: 1, len: 4096, place: Place::Far };
        assert_eq!(program.rank_count, Some(3));
        assert_eq!(program.ranks, [[Phase { steps: vec![Step::Command(get)], times: 10_000, depth: 8 }]]);
    }

    #[test]
    fn steps_of_a_phase_are_repeated_together() {
        let program = parse("compute 2.5us, gather 64 of 8B, barrier x10 spread; scan 1MiB near").unwrap();
        let [first, second] = &program.ranks[0][..] else { panic!("there are two phases") };
        assert_eq!((first.steps.len(), first.times, &first.steps[0]), (3, 10, &Step::Compute(Picos::ns(2_500))));
        assert!(matches!(first.steps[1], Step::Command(VectorCommand { place: Place::Spread, elements: 64, .. })));
        assert!(matches!(second.steps[0], Step::Command(VectorCommand { place: Place::Near, verb: Verb::Scan, .. })));
        assert_eq!(program.step_count(0), 31);
    }

    #[test]
    fn refusals_are_one_line_with_the_word() {
        for (text, word) in [
            ("fly 4KiB", "fly"),
            ("get 4KiB deep 8", "deep"),
            ("get 4", "\"4\""),
            ("get", "a size"),
            ("gather 8 by 8B", "by"),
            ("get 4KiB x0", "x0"),
            ("get 4KiB depth 1e9", "4096"),
            ("compute 4KiB", "4KiB"),
            ("get 8B,", "a step"),
            ("lock, get 8B", "needs its unlock"),
            ("unlock", "took before"),
            ("lock, lock, unlock", "wait for itself"),
            ("lock, barrier, unlock", "the others from the barrier"),
            ("", "a step"),
        ] {
            let line = parse(text).unwrap_err().to_string();
            assert!(line.contains(word) && !line.contains('\n'), "{text}: {line}");
        }
    }

    #[test]
    fn every_app_is_a_pattern() {
        for (name, _, text) in APPS {
            assert!(parse(text).is_ok(), "{name}");
        }
    }
}
