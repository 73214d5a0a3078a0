//! Software Distributed Shared Memory on an Optical Network Interface with FPGA: RHiNET/NI-NPC and Fagus.
//!
//! Bus, interface, link and Ethernet are in [`transport`]; the primitives ([`primitives`]), cache control ([`coherence`]),
//! the barrier ([`barrier`]) and LU ([`lu`]) run over them on events. The bus defect ([`bus_lock`]) and the Network Page
//! Cache ([`page_cache`]) stand by themselves.
use crate::experiment::{Experiment, Paper};

pub mod barrier;
pub mod bus_lock;
pub mod claims;
pub mod coherence;
pub mod decomposition;
pub mod lu;
pub mod measurements;
pub mod page_cache;
pub mod parameters;
pub mod primitives;
pub mod transport;

/// The model of the paper.
pub static PAPER: Paper = Paper {
    id: "rhinet-fagus",
    title: "Software Distributed Shared Memory on an Optical Network Interface with FPGA",
    summary: "User-level zero-copy primitives with a page cache on the interface, and a distributed shared memory over them",
    parameters: parameters::parameters,
    experiments: &[
        Experiment {
            name: "primitives",
            shows: "latency and bandwidth of Push, Pull, Push Page in its three modes, and Send (figure 2)",
            takes_network: false,
            run: measurements::primitives,
        },
        Experiment {
            name: "coherence",
            shows: "invalidation and update times of 2 to 4 nodes on RHiNET and Ethernet (figures 3 and 4)",
            takes_network: false,
            run: measurements::coherence,
        },
        Experiment {
            name: "barrier",
            shows: "throughput of a barrier that transfers 1 to 512 KB on RHiNET and Ethernet (figure 5)",
            takes_network: false,
            run: measurements::barrier_throughput,
        },
        Experiment {
            name: "lu",
            shows: "LU decomposition on 1 to 4 nodes by network, completion and order of release (figure 6)",
            takes_network: false,
            run: decomposition::lu,
        },
        Experiment {
            name: "bus-lock",
            shows: "the PCI controller's defect: polling or interrupts, as built or repaired",
            takes_network: false,
            run: bus_lock::bus_lock,
        },
        Experiment {
            name: "page-cache",
            shows: "hit ratio of the Network Page Cache by program and capacity",
            takes_network: false,
            run: page_cache::hit_ratios,
        },
    ],
};
