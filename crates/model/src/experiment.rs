//! A paper's model as a table of experiments.
use crate::outcome::Outcome;
use crate::parameters::Parameters;

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
}

/// The model of one paper.
pub struct Paper {
    /// The id of the command line and of the facts file, `dimmnet2-drivers`.
    pub id: &'static str,
    /// The paper's title.
    pub title: &'static str,
    /// What is modelled, in one sentence.
    pub summary: &'static str,
    /// The parameters with their defaults.
    pub parameters: fn() -> Parameters,
    /// The experiments, in the order of the paper.
    pub experiments: &'static [Experiment],
}

impl Paper {
    /// An experiment by name.
    pub fn experiment(&self, name: &str) -> Option<&'static Experiment> {
        self.experiments.iter().find(|experiment| experiment.name == name)
    }
}
