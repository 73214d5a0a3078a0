//! A paper's model as a table of experiments.
use crate::claim::{Judge, Rules, decide};
use crate::outcome::Outcome;
use crate::parameters::Parameters;

/// The name of the experiment that runs the product's own protocol on a paper's hardware: `--protocol product`.
pub const PRODUCT: &str = "product-rules";

/// One question a model answers.
pub struct Experiment {
    /// The name a user runs it by: lower case, words joined by hyphens.
    pub name: &'static str,
    /// What a reader learns from it, in one sentence.
    pub shows: &'static str,
    /// Whether it uses [`Parameters::network`] where a user brought a network.
    pub takes_network: bool,
    /// Runs it: same parameters, same outcome, byte for byte.
    pub run: fn(&Parameters) -> Outcome,
    /// The claims it speaks of, and how each is judged.
    pub claims: &'static [Judge],
}

impl Experiment {
    /// Runs it and judges its claims. A user's own network has no claims: they are about the paper's.
    pub fn outcome(&self, parameters: &Parameters) -> Outcome {
        let mut outcome = (self.run)(parameters);
        if outcome.refused.is_none() && parameters.network().is_none() {
            outcome.claims = self.claims.iter().filter_map(|judge| decide(judge, parameters)).collect();
        }
        outcome
    }
}

/// Where a paper comes from.
#[derive(Debug)]
pub struct Citation {
    /// The title in the language of the paper.
    pub original_title: &'static str,
    /// The authors, with their institutions.
    pub authors: &'static str,
    /// Year and venue, or what is known of them.
    pub published: &'static str,
    /// The fields of its record that this project knows, beside title and authors: `year`, `journal` and so on; in order.
    pub record: &'static [(&'static str, &'static str)],
}

/// The model of one paper.
pub struct Paper {
    /// The id of the command line and of the facts file, `dimmnet2-drivers`.
    pub id: &'static str,
    /// What people call it, for navigation.
    pub name: &'static str,
    /// The paper's title.
    pub title: &'static str,
    /// Who wrote it, when and where it appeared.
    pub citation: Citation,
    /// What is modelled, in one sentence.
    pub summary: &'static str,
    /// The paper's words and numbers as limits.
    pub rules: &'static Rules,
    /// The parameters with their defaults.
    pub parameters: fn() -> Parameters,
    /// The experiments, in the order of the paper.
    pub experiments: &'static [Experiment],
}

impl Paper {
    /// Every claim's judge with the experiment it belongs to.
    pub fn judges(&self) -> impl Iterator<Item = (&'static Experiment, &'static Judge)> {
        self.experiments.iter().flat_map(|experiment| experiment.claims.iter().map(move |judge| (experiment, judge)))
    }

    /// An experiment by name.
    pub fn experiment(&self, name: &str) -> Option<&'static Experiment> {
        self.experiments.iter().find(|experiment| experiment.name == name)
    }
}
