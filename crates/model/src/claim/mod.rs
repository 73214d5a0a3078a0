//! Verdicts on the papers' claims: what a model shows, on which facts it rests, and whether it could have come out otherwise.
//!
//! A claim is judged by a function of the parameters alone ([`Judge`]), so everything it rests on is seen in what it reads
//! ([`crate::reads`]). A model that reads what the claim itself states repeats the claim: the verdict is then
//! [`Verdict::ByConstruction`]. A model that agrees in one allowed reading and not in another is said to do so.
use serde::{Deserialize, Serialize};

use crate::facts::facts;
use crate::parameters::Parameters;
use crate::reads::{Reads, during};

mod check;
mod decide;
mod joint;
pub mod record;

pub use check::{Check, Limit, Rules};
pub use decide::decide;
pub use joint::Joint;

/// What came of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The model, which read nothing of the claim, shows what the claim says in every reading the text allows.
    Reproduced,
    /// The model read the claim's own facts, or nothing that is open can change the answer.
    ByConstruction,
    /// It holds in the default reading of the text and fails in another that the text allows.
    InOneReading,
    /// It fails in the default reading and holds in another that the text allows.
    InAnotherReading,
    /// One step of one open parameter flips it, or less than half of the two-fold box agrees.
    KnifeEdge,
    /// The model shows something else; the reason says what.
    Differs,
    /// The claim says nothing that a model could miss.
    NothingToTest,
}

impl Verdict {
    /// All verdicts, in the order of a legend.
    pub const ALL: [Verdict; 7] = [
        Verdict::Reproduced,
        Verdict::ByConstruction,
        Verdict::InOneReading,
        Verdict::InAnotherReading,
        Verdict::KnifeEdge,
        Verdict::Differs,
        Verdict::NothingToTest,
    ];

    /// The words for people.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Reproduced => "reproduced",
            Verdict::ByConstruction => "by construction",
            Verdict::InOneReading => "in one reading",
            Verdict::InAnotherReading => "in another reading",
            Verdict::KnifeEdge => "knife-edge",
            Verdict::Differs => "differs",
            Verdict::NothingToTest => "nothing to test",
        }
    }
}

/// One reading of a claim: its name, empty for the only one, and its conditions, all of which must hold.
#[derive(Clone, Debug, Serialize)]
pub struct Reading {
    /// What distinguishes it.
    pub name: String,
    /// The conditions.
    pub checks: Vec<Check>,
}

impl Reading {
    /// Whether every condition holds.
    pub fn holds(&self) -> bool {
        self.checks.iter().all(Check::holds)
    }
}

/// What a model says of a claim, before its reads are weighed.
#[derive(Clone, Debug, Default)]
pub struct Judgement {
    /// The model's values in words and numbers, as one short text.
    pub model: String,
    /// How they come about, in one or two sentences.
    pub reason: String,
    /// The readings; the first is the one the model takes. None where there is nothing to test.
    pub readings: Vec<Reading>,
    /// Why the answer could not have come out otherwise, where that is known.
    pub identity: Option<String>,
    /// What was found beyond the verdict.
    pub finding: Option<String>,
}

impl Judgement {
    /// A judgement in one reading without a name.
    pub fn new(model: impl Into<String>, reason: impl Into<String>, checks: Vec<Check>) -> Judgement {
        let readings = vec![Reading { name: String::new(), checks }];
        Judgement { model: model.into(), reason: reason.into(), readings, ..Judgement::default() }
    }

    /// A claim that no model could miss.
    pub fn nothing(model: impl Into<String>, reason: impl Into<String>) -> Judgement {
        Judgement { model: model.into(), reason: reason.into(), ..Judgement::default() }
    }

    /// The same, with the first reading named and a further one that the text allows.
    pub fn or(mut self, first: &str, other: &str, checks: Vec<Check>) -> Judgement {
        self.readings[0].name = first.to_string();
        self.readings.push(Reading { name: other.to_string(), checks });
        self
    }

    /// The same, with the reason why it could not have come out otherwise.
    pub fn identity(self, why: impl Into<String>) -> Judgement {
        Judgement { identity: Some(why.into()), ..self }
    }

    /// The same, with a finding.
    pub fn finding(self, text: impl Into<String>) -> Judgement {
        Judgement { finding: Some(text.into()), ..self }
    }

    /// Whether the first reading holds.
    pub fn holds(&self) -> bool {
        self.readings.first().is_some_and(Reading::holds)
    }
}

/// Prepares the parameters for a claim: a fit to facts that the claim does not state.
#[derive(Clone, Copy, Debug)]
pub struct Fit {
    /// The fit.
    pub run: fn(&Parameters) -> Parameters,
    /// What is fitted to what, in one phrase.
    pub what: &'static str,
}

/// How a claim is judged. A function of the parameters alone: it can hide nothing that it reads.
#[derive(Clone, Copy, Debug)]
pub struct Judge {
    /// The claim, `D2-C10`.
    pub id: &'static str,
    /// The judgement; none where these parameters cannot be run together.
    pub run: fn(&Parameters) -> Option<Judgement>,
    /// The fit, where the defaults rest on what the claim states.
    pub fit: Option<Fit>,
}

impl Judge {
    /// A claim judged at the defaults.
    pub const fn new(id: &'static str, run: fn(&Parameters) -> Option<Judgement>) -> Judge {
        Judge { id, run, fit: None }
    }

    /// The same, left out of its own calibration: judged with parameters fitted to other facts.
    pub const fn fitted(self, what: &'static str, run: fn(&Parameters) -> Parameters) -> Judge {
        Judge { fit: Some(Fit { run, what }), ..self }
    }

    /// The judgement with its fit, and everything that both read.
    pub fn judge(&self, parameters: &Parameters) -> (Option<Judgement>, Reads) {
        self.judge_with(parameters, &[])
    }

    /// The same with other choices. The fit comes first, because a reading may be one of the parameters that it sets.
    pub(crate) fn judge_with(&self, parameters: &Parameters, choices: &[(&str, usize)]) -> (Option<Judgement>, Reads) {
        during(|| {
            let fitted = self.fit.map_or_else(|| parameters.clone(), |fit| (fit.run)(parameters));
            (self.run)(&choices.iter().fold(fitted, |chosen, (key, index)| chosen.with(key, *index as f64)))
        })
    }

    /// Facts that the claim itself states and the model read: directly, through facts derived from them, or by reading all that the
    /// paper computed them from.
    pub(crate) fn own_facts(&self, reads: &Reads) -> Vec<String> {
        let origins = facts().with_origins(reads.facts.iter().copied());
        let is_read = |fact: &&String| {
            let inputs = facts().computed_from(fact);
            origins.contains(fact.as_str()) || (!inputs.is_empty() && inputs.iter().all(|input| origins.contains(input.as_str())))
        };
        facts().stated_by(self.id).iter().filter(is_read).cloned().collect()
    }
}

/// The claim on one set of parameters for the whole paper, where its verdict rests on a fit of its own.
#[derive(Clone, Debug, Serialize)]
pub struct OnDefaults {
    /// The model's values.
    pub model: String,
    /// Whether the first reading holds.
    pub holds: bool,
}

/// A reading and what came of it.
#[derive(Clone, Debug, Serialize)]
pub struct ReadingResult {
    /// What distinguishes it: words, or `KEY = VALUE` of a parameter.
    pub name: String,
    /// Whether the claim holds in it.
    pub holds: bool,
}

/// A parameter that a claim read.
#[derive(Clone, Debug, Serialize)]
pub struct Used {
    /// Its key.
    pub key: &'static str,
    /// Its value, a choice by its name.
    pub value: String,
    /// Its unit.
    pub unit: &'static str,
    /// Where the value comes from.
    pub source: String,
    /// Whether it is in no paper.
    pub is_chosen: bool,
    /// The whole of an effort of which this run takes less.
    pub whole: Option<String>,
}

/// The result of a model for one claim.
#[derive(Clone, Debug, Serialize)]
pub struct ClaimResult {
    /// The claim, `D2-C10`.
    pub id: &'static str,
    /// The model's values in words and numbers, as one short text.
    pub model: String,
    /// The verdict.
    pub verdict: Verdict,
    /// Why, in a few sentences.
    pub reason: String,
    /// What was found beyond the verdict.
    pub finding: Option<String>,
    /// The conditions of the first reading.
    pub checks: Vec<Check>,
    /// Every reading; one at least where there is something to test.
    pub readings: Vec<ReadingResult>,
    /// Its structural switches together.
    pub joint: Joint,
    /// Keys of the facts the judgement read, seen and not typed.
    pub calibrated_on: Vec<&'static str>,
    /// Those of them that the claim itself states, or from which its own facts were derived.
    pub own: Vec<String>,
    /// What the parameters were fitted to for this claim alone.
    pub fit: Option<&'static str>,
    /// The claim at the paper's one default set, where `fit` says that it was judged on another.
    pub on_defaults: Option<OnDefaults>,
    /// The parameters the judgement read.
    pub parameters: Vec<Used>,
}
