//! Lets contestants run in turn (ours, peer, ours, peer …), so that a disturbance hits all. Takes medians.

use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Results of a turn: a figure for each key.
pub type Figures = BTreeMap<String, f64>;

/// A measured side.
pub struct Contestant<'a> {
    /// Its name, with a version where it has one.
    pub name: String,
    /// True if the bench fails when it does: our own side must not.
    pub is_ours: bool,
    /// Takes a turn, or says why it cannot.
    pub turn: Box<dyn FnMut() -> Result<Figures> + 'a>,
}

impl<'a> Contestant<'a> {
    /// Our side.
    pub fn ours(name: &str, turn: impl FnMut() -> Result<Figures> + 'a) -> Contestant<'a> {
        Contestant { name: name.to_owned(), is_ours: true, turn: Box::new(turn) }
    }

    /// A peer that is there, or the reason why it is not.
    pub fn peer(name: &str, turn: Result<impl FnMut() -> Result<Figures> + 'a>) -> Contestant<'a> {
        let turn: Box<dyn FnMut() -> Result<Figures> + 'a> = match turn {
            Ok(turn) => Box::new(turn),
            Err(error) => {
                let reason = format!("{error:#}");
                Box::new(move || Err(anyhow::anyhow!("{reason}")))
            }
        };
        Contestant { name: name.to_owned(), is_ours: false, turn }
    }
}

/// A contestant's results over all rounds.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Its name.
    pub name: String,
    /// Its medians, or why it is missing.
    pub medians: Result<Figures, String>,
}

impl Outcome {
    /// The median of a key; the reason where there is none.
    pub fn median(&self, key: &str) -> Result<f64, &str> {
        let medians = self.medians.as_ref().map_err(String::as_str)?;
        medians.get(key).copied().ok_or("it does not measure this")
    }
}

/// Runs `rounds` rounds in which each contestant has one turn; a peer that fails once has no more turns.
///
/// **Errors**: a failure of our own side.
pub fn take_turns(rounds: usize, contestants: Vec<Contestant<'_>>, progress: &mut dyn FnMut(&str)) -> Result<Vec<Outcome>> {
    let mut entrants: Vec<_> = contestants.into_iter().map(|contestant| (contestant, Ok(Vec::new()))).collect();
    for round in 1..=rounds {
        for (contestant, turns) in &mut entrants {
            let Ok(so_far) = turns else { continue };
            progress(&format!("round {round} of {rounds}: {}", contestant.name));
            match (contestant.turn)() {
                Ok(figures) => so_far.push(figures),
                Err(error) if contestant.is_ours => return Err(error).with_context(|| contestant.name.clone()),
                Err(error) => *turns = Err(one_line(&format!("{error:#}"))),
            }
        }
    }
    let outcome = |(contestant, turns): (Contestant<'_>, Result<Vec<Figures>, String>)| {
        let medians = match turns {
            Ok(turns) => Ok(medians(&turns)?),
            Err(reason) => Err(reason),
        };
        Ok(Outcome { name: contestant.name, medians })
    };
    entrants.into_iter().map(outcome).collect()
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The median of each key over all turns, which must all have the same keys.
fn medians(turns: &[Figures]) -> Result<Figures> {
    let keys = turns.first().map(|turn| turn.keys().cloned().collect::<Vec<_>>()).unwrap_or_default();
    let mut figures = Figures::new();
    for key in keys {
        let values: Vec<f64> = turns.iter().filter_map(|turn| turn.get(&key).copied()).collect();
        ensure!(values.len() == turns.len(), "'{key}' was not measured in every turn");
        figures.insert(key, median(values));
    }
    Ok(figures)
}

/// The middle value; of two middle ones, the lower.
pub fn median(mut values: Vec<f64>) -> f64 {
    assert!(!values.is_empty(), "a median is of something");
    values.sort_by(f64::total_cmp);
    values[(values.len() - 1) / 2]
}

/// Most repetitions of a step that are counted.
const STEP_COUNT_MAX: usize = 1000;

/// The median time of a step in ns, repeated for about `budget` but three times at least. The first is not counted.
pub fn time_step(budget: Duration, mut step: impl FnMut() -> hanare::Result<()>) -> Result<f64> {
    let begin = Instant::now();
    step()?;
    let mut times = Vec::with_capacity(STEP_COUNT_MAX);
    while times.len() < STEP_COUNT_MAX && (times.len() < 3 || begin.elapsed() < budget) {
        let start = Instant::now();
        step()?;
        times.push(start.elapsed().as_nanos() as f64);
    }
    Ok(median(times))
}

/// Numbers that look random, cheap to make, the same in every run; as in the peers' programs.
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    /// First state of a bench's random numbers.
    pub const SEED: Random = Random(88_172_645_463_325_252);

    /// The next one, never 0. The state must not be 0.
    #[expect(clippy::should_implement_trait, reason = "it never ends")]
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// The next one below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    fn figures(value: f64) -> Figures {
        Figures::from([("k".to_owned(), value)])
    }

    #[test]
    fn turns_alternate_and_medians_are_of_all_rounds() {
        let order = RefCell::new(String::new());
        let values = RefCell::new(vec![5.0, 1.0, 9.0]);
        let ours = Contestant::ours("a", || {
            order.borrow_mut().push('a');
            Ok(figures(values.borrow_mut().pop().unwrap()))
        });
        let peer = Contestant::peer(
            "b",
            Ok(|| {
                order.borrow_mut().push('b');
                Ok(figures(2.0))
            }),
        );
        let outcomes = take_turns(3, vec![ours, peer], &mut |_| {}).unwrap();
        assert_eq!(*order.borrow(), "ababab");
        assert_eq!((outcomes[0].median("k"), outcomes[1].median("k")), (Ok(5.0), Ok(2.0)));
        assert!(outcomes[0].median("other").is_err());
    }

    #[test]
    fn a_peer_that_is_missing_or_fails_is_named_and_ours_must_not() {
        let absent: Result<fn() -> Result<Figures>> = Err(anyhow::anyhow!("no\n mpicc"));
        let outcomes = take_turns(2, vec![Contestant::peer("b", absent)], &mut |_| {}).unwrap();
        assert_eq!(outcomes[0].median("k"), Err("no mpicc"));
        let failing = Contestant::ours("a", || anyhow::bail!("broken"));
        assert!(format!("{:#}", take_turns(2, vec![failing], &mut |_| {}).unwrap_err()).contains("broken"));
    }

    #[test]
    fn the_median_is_a_measured_value() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0]), 1.0);
    }

    #[test]
    fn a_step_is_repeated_and_its_failure_told() {
        let mut count = 0;
        let step = || {
            count += 1;
            Ok(())
        };
        assert!(time_step(Duration::ZERO, step).unwrap() >= 0.0);
        assert_eq!(count, 4);
        assert!(time_step(Duration::ZERO, || Err(hanare::Error::UnknownRegion { name: "x".into() })).is_err());
    }
}
