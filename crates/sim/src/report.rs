//! Results of a run: counts of events, or the one line that replays the failure.

use std::collections::BTreeMap;
use std::fmt;

/// The simulated plan.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// Seed of all chance.
    pub seed: u64,
    /// Nodes of the pool.
    pub nodes: u32,
    /// Virtual minutes under faults.
    pub minutes: f64,
}

impl Plan {
    /// Virtual milliseconds under faults.
    pub(crate) fn rough_ms(&self) -> u64 {
        (self.minutes * 60_000.0) as u64
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "hanare sim --seed {} --nodes {} --minutes {}", self.seed, self.nodes, self.minutes)
    }
}

/// Counts of events, by name.
pub type Counts = BTreeMap<&'static str, u64>;

/// A run in which every check held.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The simulated plan.
    pub plan: Plan,
    /// Counts of each world, by its name.
    pub worlds: BTreeMap<&'static str, Counts>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: every check held", self.plan)?;
        for (name, counts) in &self.worlds {
            writeln!(f, "{name}: {} events", counts.get("events").unwrap_or(&0))?;
            let others = counts.iter().filter(|(what, _)| **what != "events");
            others.into_iter().try_for_each(|(what, count)| writeln!(f, "{count:>10}  {what}"))?;
        }
        Ok(())
    }
}

/// A check that did not hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// The simulated plan.
    pub plan: Plan,
    /// The world in which it did not.
    pub world: &'static str,
    /// Virtual time of the failure, in milliseconds.
    pub at_ms: u64,
    /// The broken invariant.
    pub what: String,
    /// Last events, oldest first.
    pub trail: Vec<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.trail.iter().try_for_each(|line| writeln!(f, "  {line}"))?;
        writeln!(f, "after {} ms of virtual time, in '{}': {}", self.at_ms, self.world, self.what)?;
        write!(f, "replay: {}", self.plan)
    }
}

impl std::error::Error for Failure {}
