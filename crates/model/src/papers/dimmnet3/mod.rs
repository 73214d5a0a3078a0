//! Network/Memory Architecture with Large Memory in addition to Main Memory: DIMMnet-2 as measured, DIMMnet-3 as planned.
//!
//! The ping-pong runs on events: hosts with their steps ([`programs`], [`exchange`]), boards and links ([`machine`],
//! [`boards`]), memory with banks and channels ([`banks`], [`vector`]). Around it stand the paper's arguments: over-fetch
//! ([`overfetch`]), pinning ([`rdma`]), descriptors on an I/O bus ([`io_bus`]), halos ([`halo`]), fewer hosts ([`servers`]).
use crate::claim::Judge;
use crate::experiment::{Citation, Experiment, Paper};
use crate::parameters::Parameters;

pub mod banks;
pub mod boards;
pub mod claims;
pub mod exchange;
pub mod halo;
pub mod io_bus;
pub mod machine;
pub mod overfetch;
pub mod ping_pong;
pub mod programs;
pub mod rdma;
mod rules;
pub mod servers;
pub mod vector;
pub mod workloads;

/// The parameters with their defaults.
pub fn parameters() -> Parameters {
    Parameters::of("dimmnet3")
}

/// The model of the paper.
pub static PAPER: Paper = Paper {
    id: "dimmnet3",
    name: "DIMMnet-3",
    title: "Network/Memory Architecture with Large Memory in addition to Main Memory",
    citation: Citation {
        original_title: "主記憶以外に大容量メモリを有するメモリ/ネットワークアーキテクチャ",
        authors: "N. Tanabe (Toshiba), A. Kitamura, Y. Miyabe, T. Miyashiro, H. Amano (Keio University), Z. Luo, H. Nakajo (Tokyo University of Agriculture and Technology)",
        published: "Year and venue are not in the material this project has; the text speaks of hardware of 2005 and 2006",
        record: &[],
    },
    summary: "A memory and network board in a memory slot: message latency, vector commands over many banks, and fewer, larger hosts",
    rules: &rules::RULES,
    parameters,
    experiments: &[
        Experiment {
            name: "ping-pong",
            shows: "latency of the four conditions from 8 to 128 B, step by step, with a timing chart (figure 7)",
            takes_network: true,
            run: ping_pong::conditions,
            claims: &[
                Judge::new("D3-C1", claims::shortest),
                Judge::new("D3-C2", claims::near),
                Judge::new("D3-C3", claims::far),
                Judge::new("D3-C4", claims::two_reads),
                Judge::new("D3-C5", claims::behind_vector_load),
                Judge::new("D3-C8", claims::sizes),
                Judge::new("D3-C9", claims::step),
            ],
        },
        Experiment {
            name: "lengths",
            shows: "messages up to 64 KB: the window cuts BOTF, not LHC; processor time of the sender",
            takes_network: true,
            run: ping_pong::lengths,
            claims: &[Judge::new("D3-C6", claims::load), Judge::new("D3-C7", claims::whole_messages)],
        },
        Experiment {
            name: "control",
            shows: "short control messages, with AOTF and HTP beside the measured conditions",
            takes_network: true,
            run: ping_pong::control,
            claims: &[Judge::new("D3-C10", claims::control)],
        },
        Experiment {
            name: "access-width",
            shows: "how the width of the host's uncached loads moves the four conditions",
            takes_network: true,
            run: ping_pong::access_width,
            claims: &[],
        },
        Experiment {
            name: "windows",
            shows: "uncached and write-combining windows, uncached and cached reads",
            takes_network: true,
            run: ping_pong::windows,
            claims: &[],
        },
        Experiment {
            name: "fit",
            shows: "the one public latency the interface's pipeline is fitted to, and two that are not",
            takes_network: false,
            run: ping_pong::fit,
            claims: &[],
        },
        Experiment {
            name: "boards",
            shows: "capacity and bandwidth of both boards from their parts (tables 2 and 3)",
            takes_network: false,
            run: boards::specification,
            claims: &[],
        },
        Experiment {
            name: "interfaces",
            shows: "what each host interface of table 1 leaves of the board's bandwidth behind its serial link",
            takes_network: false,
            run: boards::interfaces,
            claims: &[],
        },
        Experiment {
            name: "banks",
            shows: "scattered throughput of vector commands with 1 to 64 banks, by channel and stride",
            takes_network: false,
            run: vector::banks,
            claims: &[Judge::new("D3-C16", vector::many_banks)],
        },
        Experiment {
            name: "gather",
            shows: "vector load, VDDC and VCOPI against host software",
            takes_network: false,
            run: vector::gather,
            claims: &[],
        },
        Experiment {
            name: "over-fetch",
            shows: "bytes moved for each byte wanted, by stride and line, and TLB misses",
            takes_network: false,
            run: overfetch::lines,
            claims: &[Judge::new("D3-C11", overfetch::whole_lines)],
        },
        Experiment {
            name: "cell-bus",
            shows: "bandwidth of Cell's internal bus against the size of a transfer (figure 3)",
            takes_network: false,
            run: overfetch::cell,
            claims: &[Judge::new("D3-C12", overfetch::granule), Judge::new("D3-C13", overfetch::gathered)],
        },
        Experiment {
            name: "descriptors",
            shows: "chained descriptors on PCI and PCI Express against packing, by size of a piece",
            takes_network: false,
            run: io_bus::descriptors,
            claims: &[Judge::new("D3-C18", io_bus::little_gain)],
        },
        Experiment {
            name: "halo",
            shows: "host and board time of a four-dimensional halo exchange (figure 5)",
            takes_network: false,
            run: halo::halo,
            claims: &[Judge::new("D3-C17", halo::packing_removed)],
        },
        Experiment {
            name: "remote-updates",
            shows: "random remote updates with a pin-down cache, Active Zero-copy and extended memory (figure 6)",
            takes_network: false,
            run: rdma::updates,
            claims: &[Judge::new("D3-C15", rdma::never_paged), Judge::new("D3-C20", rdma::pinned)],
        },
        Experiment {
            name: "servers",
            shows: "few large hosts against many small ones: count, power, price (figure 4)",
            takes_network: false,
            run: servers::servers,
            claims: &[Judge::new("D3-C14", servers::fewer_hosts), Judge::new("D3-C19", servers::same_memory)],
        },
        Experiment {
            name: "workloads",
            shows: "full scans, programs larger than main memory, and video delivery with extended memory",
            takes_network: false,
            run: workloads::workloads,
            claims: &[],
        },
    ],
};
