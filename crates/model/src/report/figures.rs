//! The figures of the papers that are lost and showed results; each is to be drawn again by an experiment.

/// A lost figure: paper id, name as plots carry it, and what its caption says.
pub(super) struct Lost {
    /// The paper's id.
    pub paper: &'static str,
    /// `D2 figure 6`, as in [`Plot::figure`](crate::outcome::Plot::figure).
    pub name: &'static str,
    /// What it showed.
    pub showed: &'static str,
}

const fn lost(paper: &'static str, name: &'static str, showed: &'static str) -> Lost {
    Lost { paper, name, showed }
}

/// Figures of structure and of program text are not in the list: they showed no results.
pub(super) const LOST: &[Lost] = &[
    lost("dimmnet3", "D3 figure 3", "bandwidth of Cell's bus against the size of an access"),
    lost("dimmnet3", "D3 figure 4", "servers for one amount of memory, with and without extended memory"),
    lost("dimmnet3", "D3 figure 5", "halo exchange"),
    lost("dimmnet3", "D3 figure 6", "random remote updates"),
    lost("dimmnet3", "D3 figure 7", "ping-pong latency of the four conditions"),
    lost("rhinet-fagus", "RF figure 2", "bandwidth and latency of the primitives"),
    lost("rhinet-fagus", "RF figure 3", "invalidation time"),
    lost("rhinet-fagus", "RF figure 4", "update time"),
    lost("rhinet-fagus", "RF figure 5", "barrier throughput"),
    lost("rhinet-fagus", "RF figure 6", "LU times"),
    lost("dimmnet2-drivers", "D2 figure 5", "disk access time against the number of calls"),
    lost("dimmnet2-drivers", "D2 figure 6", "transfer rate between SO-DIMM and host"),
    lost("dimmnet2-drivers", "D2 figure 7", "disk performance"),
    lost("dimmnet2-drivers", "D2 figure 8", "local matrix product"),
    lost("dimmnet2-drivers", "D2 figure 9", "distributed matrix product"),
    lost("dimmnet2-drivers", "D2 figure 11", "Wisconsin queries"),
    lost("dimmnet2-drivers", "D2 figure 12", "Himeno"),
    lost("euphoria", "EU figure 5", "components of the line's delay"),
    lost("euphoria", "EU figure 6", "delay by phase"),
    lost("euphoria", "EU figure 7", "timeline of a burst write"),
    lost("euphoria", "EU figure 8", "delays of coherence operations"),
    lost("euphoria", "EU figure 9", "phases of a burst read"),
    lost("euphoria", "EU figure 10", "optimised response against line rate"),
    lost("euphoria", "EU figure 11", "optimised response against distance"),
    lost("virtual-queue", "VQ figure 6", "efficiency of the four schemes against the number of processors"),
];

/// Whether a plot re-draws this figure: by its exact name, or by a part of it (`EU figure 8a`, `RF figure 2 (latency)`).
pub(super) fn is_of(figure: &str, lost: &Lost) -> bool {
    figure.strip_prefix(lost.name).is_some_and(|rest| !rest.starts_with(|letter: char| letter.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_not_taken_for_a_longer_number() {
        let one = lost("euphoria", "EU figure 1", "");
        assert!(is_of("EU figure 1", &one) && is_of("EU figure 1b", &one) && !is_of("EU figure 10", &one));
    }
}
