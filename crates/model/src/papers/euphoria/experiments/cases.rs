//! One access in a chosen state of the cluster.
use crate::papers::euphoria::cluster::{Answered, Block, Cluster, Op};
use crate::papers::euphoria::flow::Cause;
use crate::parameters::Parameters;
use crate::time::Picos;

/// The state in which a burst read is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    /// Own memory instead of another node's.
    pub is_own: bool,
    /// Dirty in a third node.
    pub is_dirty: bool,
    /// The directory entry is in ICC.
    pub is_icc_hit: bool,
    /// The lines the case needs are up.
    pub is_line_up: bool,
}

impl Case {
    /// A clean block of another node, ICC hit, line up.
    pub const BEST: Case = Case { is_own: false, is_dirty: false, is_icc_hit: true, is_line_up: true };
    /// A dirty block of another node, ICC miss, lines up.
    pub const WORST: Case = Case { is_dirty: true, is_icc_hit: false, ..Case::BEST };

    /// The words of the figures.
    pub fn name(self) -> String {
        let memory = if self.is_own { "own" } else { "other" };
        let state = if self.is_dirty { "dirty" } else { "clean" };
        let icc = match (self.is_icc_hit, self.is_own && !self.is_dirty) {
            (_, true) => "no ICC access",
            (true, _) => "ICC hit",
            (false, _) => "ICC miss",
        };
        format!("{memory}, {state}, {icc}")
    }
}

/// The cluster after the access, and the access.
pub struct Measured {
    /// The cluster, with its log.
    pub cluster: Cluster,
    /// Request and answer.
    pub answered: Answered,
}

impl Measured {
    /// From request to answer.
    pub fn response(&self) -> Picos {
        self.answered.end - self.answered.start
    }

    /// The response by cause.
    pub fn by_cause(&self) -> Vec<(Cause, Picos)> {
        self.cluster.log().by_cause(self.answered.start, self.answered.end)
    }

    /// The time of the response spent on one cause.
    pub fn share(&self, cause: Cause) -> Picos {
        self.by_cause().iter().find(|entry| entry.0 == cause).map_or(Picos::ZERO, |entry| entry.1)
    }
}

/// Reads one block from node 0: its own, or node 1's; a dirty one is in node 2.
// FEATURE: EU-F23
pub fn measure(parameters: &Parameters, case: Case) -> Measured {
    let mut cluster = Cluster::new(parameters);
    cluster.keep_log();
    let home = if case.is_own { 0 } else { 1 };
    let block = Block::of(home, 5);
    if case.is_line_up {
        cluster.bring_up(0, if case.is_own { 2 } else { 1 });
        if case.is_dirty && !case.is_own {
            cluster.bring_up(1, 2);
        }
    }
    if case.is_icc_hit {
        cluster.warm_icc(block);
    }
    if case.is_dirty {
        cluster.make_dirty(2, block);
    }
    cluster.load_program(0, [Op::Read(block)]);
    cluster.run();
    let answered = cluster.answered()[0];
    Measured { cluster, answered }
}
