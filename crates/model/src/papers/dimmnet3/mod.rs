//! Network/Memory Architecture with Large Memory in addition to Main Memory: DIMMnet-2 as measured, DIMMnet-3 as planned.
//!
//! The ping-pong runs on events: hosts with their steps ([`programs`], [`exchange`]), boards and links ([`machine`],
//! [`boards`]), memory with banks and channels ([`banks`], [`vector`]). Around it stand the paper's arguments: over-fetch
//! ([`overfetch`]), pinning ([`rdma`]), descriptors on an I/O bus ([`io_bus`]), halos ([`halo`]), fewer hosts ([`servers`]).
use crate::experiment::{Experiment, Paper};

pub mod banks;
pub mod boards;
pub mod claims;
pub mod exchange;
pub mod halo;
pub mod io_bus;
pub mod machine;
pub mod overfetch;
pub mod parameters;
pub mod ping_pong;
pub mod programs;
pub mod rdma;
pub mod servers;
pub mod vector;
pub mod workloads;

/// The model of the paper.
pub static PAPER: Paper = Paper {
    id: "dimmnet3",
    title: "Network/Memory Architecture with Large Memory in addition to Main Memory",
    summary: "A memory and network board in a memory slot: message latency, vector commands over many banks, and fewer, larger hosts",
    parameters: parameters::parameters,
    experiments: &[
        Experiment {
            name: "ping-pong",
            shows: "latency of the four conditions from 8 to 128 B, step by step, with a timing chart (figure 7)",
            takes_network: true,
            run: ping_pong::conditions,
        },
        Experiment {
            name: "lengths",
            shows: "messages up to 64 KB: the window cuts BOTF, not LHC; processor time of the sender",
            takes_network: true,
            run: ping_pong::lengths,
        },
        Experiment {
            name: "control",
            shows: "short control messages, with AOTF and HTP beside the measured conditions",
            takes_network: true,
            run: ping_pong::control,
        },
        Experiment {
            name: "access-width",
            shows: "how the width of the host's uncached loads moves the four conditions",
            takes_network: true,
            run: ping_pong::access_width,
        },
        Experiment {
            name: "windows",
            shows: "uncached and write-combining windows, uncached and cached reads",
            takes_network: true,
            run: ping_pong::windows,
        },
        Experiment {
            name: "fit",
            shows: "the one public latency the interface's pipeline is fitted to, and two that are not",
            takes_network: false,
            run: ping_pong::fit,
        },
        Experiment {
            name: "boards",
            shows: "capacity and bandwidth of both boards from their parts (tables 2 and 3)",
            takes_network: false,
            run: boards::specification,
        },
        Experiment {
            name: "interfaces",
            shows: "what each host interface of table 1 leaves of the board's bandwidth behind its serial link",
            takes_network: false,
            run: boards::interfaces,
        },
        Experiment {
            name: "banks",
            shows: "scattered throughput of vector commands with 1 to 64 banks, by channel and stride",
            takes_network: false,
            run: vector::banks,
        },
        Experiment {
            name: "gather",
            shows: "vector load, VDDC and VCOPI against host software",
            takes_network: false,
            run: vector::gather,
        },
        Experiment {
            name: "over-fetch",
            shows: "bytes moved for each byte wanted, by stride and line, and TLB misses",
            takes_network: false,
            run: overfetch::lines,
        },
        Experiment {
            name: "cell-bus",
            shows: "bandwidth of Cell's internal bus against the size of a transfer (figure 3)",
            takes_network: false,
            run: overfetch::cell,
        },
        Experiment {
            name: "descriptors",
            shows: "chained descriptors on PCI and PCI Express against packing, by size of a piece",
            takes_network: false,
            run: io_bus::descriptors,
        },
        Experiment {
            name: "halo",
            shows: "host and board time of a four-dimensional halo exchange (figure 5)",
            takes_network: false,
            run: halo::halo,
        },
        Experiment {
            name: "remote-updates",
            shows: "random remote updates with a pin-down cache, Active Zero-copy and extended memory (figure 6)",
            takes_network: false,
            run: rdma::updates,
        },
        Experiment {
            name: "servers",
            shows: "few large hosts against many small ones: count, power, price (figure 4)",
            takes_network: false,
            run: servers::servers,
        },
        Experiment {
            name: "workloads",
            shows: "full scans, programs larger than main memory, and video delivery with extended memory",
            takes_network: false,
            run: workloads::workloads,
        },
    ],
};
