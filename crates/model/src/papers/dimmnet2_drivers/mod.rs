//! DIMMnet-2 on Windows: AT-dRAM, ATR-DSM and MT-dNET as the equations and tables of their paper.
use crate::claim::Judge;
use crate::experiment::{Citation, Experiment, Paper};
use crate::parameters::Parameters;

mod barrier;
mod calibration;
mod cluster;
mod disk;
mod equations;
mod himeno;
mod local;
mod matrix;
mod overhead;
mod retransmission;
mod rules;
mod windows;
mod wisconsin;

/// The parameters with their defaults.
pub fn parameters() -> Parameters {
    Parameters::of("dimmnet2-drivers")
}

/// The model of the paper.
pub static PAPER: Paper = Paper {
    id: "dimmnet2-drivers",
    name: "DIMMnet-2 drivers",
    title: "Implementation and Evaluation of DIMMnet-2 Device Drivers for Microsoft Windows",
    citation: Citation {
        original_title: "DIMMnet-2 用 Windows ドライバの実装と評価",
        authors: "J. Kanai, T. Mori, T. Araki, H. Nakajo, M. Namiki (Tokyo University of Agriculture and Technology), N. Tanabe (Toshiba)",
        published: "Year and venue are not in the material this project has; a short report of the same authors on it is of June 2006",
        record: &[],
    },
    summary: "A RAM disk, a distributed shared memory and user-level commands over memory on a network card in a DIMM slot.",
    rules: &rules::RULES,
    parameters,
    experiments: &[
        Experiment {
            name: "os-overhead",
            shows: "what the operating system costs for a call and for a page, estimated from Table 4 (Table 5, figure 5)",
            takes_network: false,
            run: overhead::run,
            claims: &[
                Judge::new("D2-C1", overhead::linear),
                Judge::new("D2-C2", overhead::pages_cost_more),
                Judge::new("D2-C19", overhead::consistent),
            ],
        },
        Experiment {
            name: "passes",
            shows: "from which pass over a file a mapping is faster than calls",
            takes_network: false,
            run: overhead::run_passes,
            claims: &[Judge::new("D2-C3", overhead::repeated)],
        },
        Experiment {
            name: "windows",
            shows: "transfer rate between SO-DIMM and host with uncached and with the intended windows (figure 6)",
            takes_network: false,
            run: windows::run,
            claims: &[Judge::new("D2-C4", windows::improves)],
        },
        Experiment {
            name: "disk",
            shows: "AT-dRAM as a disk beside raw transfers and file sharing over Gigabit Ethernet, or your network (figure 7)",
            takes_network: true,
            run: disk::run,
            claims: &[Judge::new("D2-C5", disk::close_to_raw), Judge::new("D2-C6", disk::against_sharing)],
        },
        Experiment {
            name: "local",
            shows: "the local matrix product in four forms (figure 8)",
            takes_network: false,
            run: local::run,
            claims: &[
                Judge::new("D2-C7", local::as_fast),
                Judge::new("D2-C8", local::stride),
                Judge::new("D2-C20", local::one_text),
            ],
        },
        Experiment {
            name: "beyond-memory",
            shows: "what AT-dRAM gains when data outgrow main memory",
            takes_network: false,
            run: local::run_beyond,
            claims: &[Judge::new("D2-C9", local::beyond)],
        },
        Experiment {
            name: "matrix",
            shows: "the matrix product on 1 to 16 nodes and beyond, on the paper's network or yours (Table 6, figure 9)",
            takes_network: true,
            run: matrix::run,
            claims: &[Judge::new("D2-C10", matrix::two_nodes), Judge::new("D2-C11", matrix::more_nodes)],
        },
        Experiment {
            name: "wisconsin",
            shows: "database queries over hard disk and over the pool, one and two nodes (Table 7, figure 11)",
            takes_network: true,
            run: wisconsin::run,
            claims: &[Judge::new("D2-C12", wisconsin::against_disk), Judge::new("D2-C13", wisconsin::joins)],
        },
        Experiment {
            name: "himeno",
            shows: "Himeno M on one node and more against main memory (Table 8, figure 12)",
            takes_network: true,
            run: himeno::run,
            claims: &[
                Judge::new("D2-C14", himeno::one_node),
                Judge::new("D2-C15", himeno::two_nodes),
                Judge::new("D2-C16", himeno::two_over_one),
                Judge::new("D2-C17", himeno::order)
                    .fitted("operation times from the Wisconsin query's table", himeno::on_wisconsin),
            ],
        },
        Experiment {
            name: "retransmission",
            shows: "what lost remote operations cost when software sends them again, waiting longer each time",
            takes_network: false,
            run: retransmission::run,
            claims: &[],
        },
        Experiment {
            name: "barrier",
            shows: "both readings of the barrier's equation, and how little of its millisecond remote operations explain",
            takes_network: false,
            run: barrier::run,
            claims: &[Judge::new("D2-C18", barrier::at_least)],
        },
    ],
};

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::claim::Verdict;
    use crate::facts::{Status, facts};
    use crate::network::Network;
    use crate::parameters::{Parameters, Source};
    use crate::time::Picos;

    fn defaults() -> Parameters {
        (PAPER.parameters)()
    }

    #[test]
    fn every_printed_fact_is_met() {
        for experiment in PAPER.experiments {
            let lines = experiment.outcome(&defaults()).disagreements();
            assert!(lines.is_empty(), "{}: {lines:#?}", experiment.name);
        }
    }

    /// Printed facts that say nothing of time: the environment, the queries' text, and ratios whose claims differ and say why.
    const NOT_MODELLED: &[&str] = &[
        "d2.windows_share",
        "d2.latency_vs_bus_nic",
        "d2.env.os",
        "d2.env.tools",
        "d2.mm.predicted_nodes",
        "d2.wis.q1_range",
        "d2.wis.q2_range",
        "d2.wis.q3_key",
        "d2.wis.q6_const",
        "d2.wis.queries",
        "d2.atdram_vs_smb",
        "d2.stride_gain",
        "d2.wis.q1_vs_hdd",
        "d2.testfile_caption",
    ];

    #[test]
    fn no_printed_fact_is_forgotten() {
        let parameters = defaults();
        let cited =
            parameters.iter().filter_map(|parameter| if let Source::Fact(key) = parameter.source { Some(key) } else { None });
        let mut known: BTreeSet<&str> = cited.chain(NOT_MODELLED.iter().copied()).collect();
        for experiment in PAPER.experiments {
            known.extend(experiment.outcome(&parameters).produced.iter().map(|produced| produced.fact));
        }
        let printed = facts().facts.values().filter(|fact| fact.paper == PAPER.id && fact.status == Status::Printed);
        let forgotten: Vec<&str> = printed.map(|fact| fact.key.as_str()).filter(|key| !known.contains(key)).collect();
        assert!(forgotten.is_empty(), "{forgotten:?}");
    }

    #[test]
    fn a_fit_to_the_own_table_is_by_construction() {
        let own = defaults().with("transfer.from", 4.0);
        let claims = PAPER.experiment("himeno").unwrap().outcome(&own).claims;
        let result = claims.iter().find(|claim| claim.id == "D2-C14").unwrap();
        assert_eq!((result.verdict, result.own.is_empty()), (Verdict::ByConstruction, false));
    }

    #[test]
    fn a_fast_network_speeds_two_nodes_up_and_a_slow_one_does_not() {
        let with = |latency: Picos| {
            let mut parameters = defaults();
            let (name, bytes_per_second, overhead) = ("test".to_string(), 1_000_000_000, Picos::ZERO);
            parameters.set_network(Network { name, latency, bytes_per_second, overhead, ..Network::here() });
            cluster::predict(calibration::Program::Himeno, 2, &parameters).parts.transfer
        };
        let paper = cluster::predict(calibration::Program::Himeno, 2, &defaults()).parts.transfer;
        assert!(with(Picos::ns(100)) < paper && paper < with(Picos::us(100)));
    }
}
