//! Structural switches of a claim varied together: two readings that each leave a verdict as it is may change it as a pair.
use std::collections::BTreeSet;

use serde::Serialize;

use super::Judge;
use crate::parameters::{Parameter, Parameters};
use crate::sequence::Sequence;

/// Most combinations that are all tried; of more, a sample of this size is.
pub const COMBINATIONS_MOST: usize = 64;
/// Combinations that are named.
const NAMED_MOST: usize = 3;
/// The sample never changes.
const SEED: u64 = 33;

/// Outcomes of a claim in combinations of its structural switches, each of at least two switches off their defaults.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Joint {
    /// The switches that the claim reads.
    pub switches: Vec<&'static str>,
    /// Combinations of two and more other choices.
    pub combinations: usize,
    /// The number tried that read nothing that the claim states.
    pub tried: usize,
    /// The number in which the claim holds.
    pub held: usize,
    /// Combinations in which it comes out as in none of their choices alone: `KEY = CHOICE, KEY = CHOICE`.
    pub unforeseen: Vec<String>,
}

impl Joint {
    /// True if only a sample was tried.
    pub fn is_sample(&self) -> bool {
        self.combinations > COMBINATIONS_MOST
    }

    /// The sentence for people; none where there was nothing to combine.
    pub fn sentence(&self) -> Option<String> {
        let Joint { switches, combinations, tried, held, unforeseen } = self;
        let of = if self.is_sample() { format!(", a sample of {combinations}") } else { String::new() };
        let more =
            if unforeseen.is_empty() { String::new() } else { format!(", unlike each alone with {}", unforeseen.join("; ")) };
        (*tried > 0).then(|| format!("Together ({}): holds in {held} of {tried} combinations{of}{more}.", switches.join(", ")))
    }
}

/// The combination of this number, as digits of the choices' counts.
fn combination(switches: &[&Parameter], mut number: usize) -> Vec<usize> {
    let digit = |switch: &&Parameter| {
        let index = number % switch.choices.len();
        number /= switch.choices.len();
        index
    };
    switches.iter().map(digit).collect()
}

/// The choices off their defaults.
fn changed(switches: &[&Parameter], indices: &[usize]) -> Vec<(&'static str, usize)> {
    let pairs = switches.iter().zip(indices).filter(|(switch, index)| **index as f64 != switch.value);
    pairs.map(|(switch, index)| (switch.key, *index)).collect()
}

/// The combinations to try, by their numbers.
fn numbers(switches: &[&Parameter]) -> (usize, Vec<usize>) {
    let all: usize = switches.iter().map(|switch| switch.choices.len()).product();
    let is_joint = |number: &usize| changed(switches, &combination(switches, *number)).len() > 1;
    let count = (0..all).filter(is_joint).count();
    if count <= COMBINATIONS_MOST {
        return (count, (0..all).filter(is_joint).collect());
    }
    let (mut sequence, mut sample) = (Sequence::new(SEED), BTreeSet::new());
    while sample.len() < COMBINATIONS_MOST {
        sample.extend(Some(sequence.below(all as u64) as usize).filter(is_joint));
    }
    (count, sample.into_iter().collect())
}

/// Tries the switches that a claim reads together. `alone` says how the claim comes out with one choice; none where it was not to be run.
pub(super) fn joint(
    judge: &Judge,
    parameters: &Parameters,
    switches: &[&Parameter],
    alone: &dyn Fn(&'static str, usize) -> Option<bool>,
) -> Joint {
    let (combinations, numbers) = numbers(switches);
    let mut joint = Joint { switches: switches.iter().map(|switch| switch.key).collect(), combinations, ..Joint::default() };
    for number in numbers {
        let choices = changed(switches, &combination(switches, number));
        let (judgement, reads) = judge.judge_with(parameters, &choices);
        // A choice that reads what the claim states repeats the claim.
        let Some(judgement) = judgement.filter(|_| judge.own_facts(&reads).is_empty()) else { continue };
        let holds = judgement.holds();
        joint.tried += 1;
        joint.held += usize::from(holds);
        let is_foreseen = choices.iter().any(|(key, index)| alone(key, *index) == Some(holds));
        if !is_foreseen && joint.unforeseen.len() < NAMED_MOST {
            let name = |(key, index): &(&'static str, usize)| {
                let switch = switches.iter().find(|switch| switch.key == *key);
                format!("{key} = {}", switch.map_or("", |switch| switch.choices[*index]))
            };
            joint.unforeseen.push(choices.iter().map(name).collect::<Vec<_>>().join(", "));
        }
    }
    joint
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(choices: &str, count: usize) -> Parameters {
        let row = |number| {
            format!(
                r#"{{ key = "s{number}", value = "a", choices = {choices}, why = "not stated", reading = true, meaning = "m" }}"#
            )
        };
        Parameters::of_rows(&(0..count).map(row).collect::<Vec<_>>().join(", "))
    }

    #[test]
    fn few_combinations_are_all_tried_and_many_are_sampled_alike() {
        let few = table(r#"["a", "b", "c"]"#, 3);
        let switches: Vec<&Parameter> = few.iter().collect();
        let (count, all) = numbers(&switches);
        // The 27 include one without another choice and six with one.
        assert_eq!((count, all.len()), (20, 20));
        let many = table(r#"["a", "b"]"#, 10);
        let switches: Vec<&Parameter> = many.iter().collect();
        let (count, sample) = numbers(&switches);
        assert_eq!((count, sample.len()), (1024 - 11, COMBINATIONS_MOST));
        assert_eq!(numbers(&switches).1, sample);
        assert!(sample.iter().all(|number| changed(&switches, &combination(&switches, *number)).len() > 1));
    }
}
