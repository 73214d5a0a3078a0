//! Verdicts on the papers' claims, and the refusal of circular ones.
//!
//! A model that was fitted to a number cannot reproduce that number: it repeats it. So every verdict names the facts the
//! model was calibrated on, and [`ClaimResult::admit`] refuses a `Reproduced` whose calibration reaches, directly or
//! through derived facts, a fact that the claim itself states.
use serde::Serialize;
use thiserror::Error;

use crate::facts::facts;

/// What came of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The model, calibrated on other facts, shows what the claim says.
    Reproduced,
    /// The model shows something else; the reason says what.
    Differs,
    /// Only the papers' hardware could show it.
    HardwareOnly,
    /// No model shows it; the reason says why.
    NotTried,
}

impl Verdict {
    /// All verdicts, in the order of a legend.
    pub const ALL: [Verdict; 4] = [Verdict::Reproduced, Verdict::Differs, Verdict::HardwareOnly, Verdict::NotTried];

    /// The words for people.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Reproduced => "reproduced",
            Verdict::Differs => "differs",
            Verdict::HardwareOnly => "hardware only",
            Verdict::NotTried => "not tried",
        }
    }
}

/// The result of a model for one claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ClaimResult {
    /// The claim, `D2-C10`.
    pub id: &'static str,
    /// The model's value in words and numbers, as one short text.
    pub model: String,
    /// What came of it.
    pub verdict: Verdict,
    /// Why, in one or two sentences.
    pub reason: String,
    /// Keys of the facts the model was calibrated on: its inputs, besides free choices.
    pub calibrated_on: Vec<&'static str>,
    /// Keys of further facts that are the claim itself, besides those of `facts/claims.toml`.
    pub states: Vec<&'static str>,
}

/// A verdict that proves nothing.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{id}: \"reproduced\" rests on a fit to its own claim: {fact} is what the claim states")]
pub struct Circular {
    /// The claim.
    pub id: &'static str,
    /// The fact that is both calibration and claim.
    pub fact: String,
}

impl ClaimResult {
    /// A result; nothing is checked until [`admit`](ClaimResult::admit).
    pub fn new(
        id: &'static str,
        verdict: Verdict,
        model: impl Into<String>,
        reason: impl Into<String>,
        calibrated_on: &[&'static str],
    ) -> ClaimResult {
        ClaimResult {
            id,
            model: model.into(),
            verdict,
            reason: reason.into(),
            calibrated_on: calibrated_on.to_vec(),
            states: Vec::new(),
        }
    }

    /// `Reproduced` where `holds`, else `Differs`: the model decides, not its author.
    pub fn judged(
        id: &'static str,
        holds: bool,
        model: impl Into<String>,
        reason: impl Into<String>,
        calibrated_on: &[&'static str],
    ) -> ClaimResult {
        let verdict = if holds { Verdict::Reproduced } else { Verdict::Differs };
        ClaimResult::new(id, verdict, model, reason, calibrated_on)
    }

    /// Only the hardware could show it.
    pub fn hardware_only(id: &'static str, reason: impl Into<String>) -> ClaimResult {
        ClaimResult::new(id, Verdict::HardwareOnly, "", reason, &[])
    }

    /// The same result with further facts that are the claim itself.
    pub fn stating(self, facts: &[&'static str]) -> ClaimResult {
        ClaimResult { states: facts.to_vec(), ..self }
    }

    /// Accepts the result, or says why it proves nothing.
    ///
    /// **Errors**: [`Circular`], where a `Reproduced` is calibrated on a fact the claim states, or on one derived from it.
    pub fn admit(&self) -> Result<(), Circular> {
        if self.verdict != Verdict::Reproduced {
            return Ok(());
        }
        let origins = facts().with_origins(self.calibrated_on.iter().copied());
        let stated = facts().stated_by(self.id).iter().map(String::as_str).chain(self.states.iter().copied());
        match stated.into_iter().find(|fact| origins.contains(fact)) {
            Some(fact) => Err(Circular { id: self.id, fact: fact.to_string() }),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fit_to_the_own_claim_is_refused() {
        let fit = ClaimResult::judged("D2-C10", true, "1.99", "fitted", &["d2.mm.speedup2"]);
        assert_eq!(fit.admit().unwrap_err().fact, "d2.mm.speedup2");
        let other = ClaimResult::judged("D2-C10", true, "1.99", "other facts", &["d2.t5.read"]);
        assert_eq!(other.admit(), Ok(()));
    }

    #[test]
    fn a_fit_through_a_derived_fact_is_refused() {
        let fit = ClaimResult::judged("D2-C14", true, "0.82", "solved from table 8", &["d2.calib.read_512B"]);
        assert!(fit.admit().is_err());
    }

    #[test]
    fn facts_named_by_the_result_count_too() {
        let fit = ClaimResult::judged("D2-C20", true, "", "", &["d2.page"]).stating(&["d2.page"]);
        assert!(fit.admit().is_err());
    }

    #[test]
    fn only_reproduced_can_be_circular() {
        assert_eq!(ClaimResult::judged("D2-C10", false, "1", "", &["d2.mm.speedup2"]).admit(), Ok(()));
    }
}
