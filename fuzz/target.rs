//! Hands the target of this program's name to libFuzzer. What targets check is in the modules `fuzz` of their crates.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let [protocol, fabric] = [hanare_protocol::fuzz::TARGETS, hanare_fabric::fuzz::TARGETS];
    let [memory, ring] = [hanare_memory::fuzz::TARGETS, hanare_ring::fuzz::TARGETS];
    let all = [protocol, memory, ring, fabric, hanare_node::fuzz::TARGETS, hanare_disk::fuzz::TARGETS].concat();
    let (_, target) = all.iter().find(|(name, _)| *name == env!("CARGO_BIN_NAME")).expect("each program is a target");
    target(bytes);
});
