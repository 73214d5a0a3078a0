//! Software Distributed Shared Memory on an Optical Network Interface with FPGA: RHiNET/NI-NPC and Fagus.
//!
//! Bus, interface, link and Ethernet are in [`transport`]; the primitives ([`primitives`]), cache control ([`coherence`]),
//! the barrier ([`barrier`]) and LU ([`lu`]) run over them on events. The bus defect ([`bus_lock`]) and the Network Page
//! Cache ([`page_cache`]) stand by themselves.
use crate::claim::Judge;
use crate::experiment::{Citation, Experiment, Paper};
use crate::parameters::Parameters;

pub mod barrier;
pub mod bus_lock;
pub mod claims;
pub mod coherence;
pub mod decomposition;
pub mod lock_rules;
pub mod lu;
pub mod measurements;
pub mod page_cache;
pub mod primitives;
mod rules;
mod tables;
pub mod transport;

const ON_PUSH: &str = "DMA set-up fitted to the write bandwidth of 48 MB/s";

/// The parameters with their defaults.
pub fn parameters() -> Parameters {
    Parameters::of("rhinet-fagus")
}

/// The model of the paper.
pub static PAPER: Paper = Paper {
    id: "rhinet-fagus",
    name: "RHiNET and Fagus",
    title: "Implementation and Evaluation of a Software Distributed Shared Memory System by a Optical Network Interface with FPGA",
    citation: Citation {
        original_title: "FPGA 実装型光通信ネットワークインタフェースによるソフトウェア分散共有メモリシステムの実装と評価",
        authors: "M. Ishii, H. Nakajo (Tokyo University of Agriculture and Technology), S. Saito, T. Uehara, Y. Kunieda (Wakayama University)",
        published: "March 2003, IPSJ SIG Technical Reports, Computer Architecture 152",
        record: &[("year", "2003"), ("month", "3"), ("howpublished", "IPSJ SIG Technical Reports, Computer Architecture 152")],
    },
    summary: "User-level zero-copy primitives with a page cache on the interface, and a distributed shared memory over them",
    rules: &rules::RULES,
    parameters,
    experiments: &[
        Experiment {
            name: "primitives",
            shows: "latency and bandwidth of Push, Pull, Push Page in its three modes, and Send (figure 2)",
            takes_network: false,
            run: measurements::primitives,
            claims: &[
                Judge::new("RF-C1", claims::write).fitted("DMA set-up fitted to the read bandwidth of 45 MB/s", claims::on_pull),
                Judge::new("RF-C2", claims::read).fitted(ON_PUSH, claims::on_push),
                Judge::new("RF-C3", claims::pull_latency).fitted(ON_PUSH, claims::on_push),
                Judge::new("RF-C4", claims::send_latency).fitted(ON_PUSH, claims::on_push),
                Judge::new("RF-C5", claims::from_cache).fitted(ON_PUSH, claims::on_push),
                Judge::new("RF-C6", claims::caching_is_free).fitted(ON_PUSH, claims::on_push),
            ],
        },
        Experiment {
            name: "coherence",
            shows: "invalidation and update times of 2 to 4 nodes on RHiNET and Ethernet (figures 3 and 4)",
            takes_network: false,
            run: measurements::coherence,
            claims: &[Judge::new("RF-C7", claims::in_arrival_order), Judge::new("RF-C8", claims::reported)],
        },
        Experiment {
            name: "barrier",
            shows: "throughput of a barrier that transfers 1 to 512 KB on RHiNET and Ethernet (figure 5)",
            takes_network: false,
            run: measurements::barrier_throughput,
            claims: &[
                Judge::new("RF-C9", claims::barrier_rhinet).fitted(ON_PUSH, claims::on_push),
                Judge::new("RF-C10", claims::barrier_ethernet),
                Judge::new("RF-C11", claims::nearly_all),
            ],
        },
        Experiment {
            name: "lu",
            shows: "LU decomposition on 1 to 4 nodes by network, completion and order of release (figure 6)",
            takes_network: false,
            run: decomposition::lu,
            claims: &[
                Judge::new("RF-C12", claims::lu_takes_longer),
                Judge::new("RF-C13", claims::excess_is_in_barriers),
                Judge::new("RF-C14", claims::interrupts_cure_it),
            ],
        },
        Experiment {
            name: "bus-lock",
            shows: "the PCI controller's defect: polling or interrupts, as built or repaired",
            takes_network: false,
            run: bus_lock::bus_lock,
            claims: &[],
        },
        Experiment {
            name: "page-cache",
            shows: "hit ratio of the Network Page Cache by program and capacity",
            takes_network: false,
            run: page_cache::hit_ratios,
            claims: &[],
        },
        Experiment {
            name: crate::experiment::PRODUCT,
            shows: "the variable of figures 3 and 4 bound to a lock of the product, beside the paper's invalidation and update",
            takes_network: false,
            run: measurements::under_each_rule,
            claims: &[],
        },
    ],
};
