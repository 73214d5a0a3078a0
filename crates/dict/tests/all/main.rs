//! Dictionaries over real nodes: what calls do, for one program and for many; and what is left of programs and nodes that end.

mod copies;
mod ends;
mod forks;
mod grows;
mod nodes;
mod one_program;
mod programs;
mod store;

hanare_testkit::actors!(
    nodes::node_process,
    programs::counts,
    programs::writes,
    programs::grows,
    programs::sweeps,
    store::programs::puts,
    store::programs::puts_some,
    store::programs::puts_and_sweeps
);
