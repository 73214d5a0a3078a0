//! C programs over the library: a module a subject.

#[path = "../stage/mod.rs"]
mod stage;

mod abort;
mod apps;
mod book;
mod collectives;
mod commands;
mod dict;
mod dimmnet;
mod examples;
mod faces;
mod first;
mod fortran;
mod halo;
mod headers;
mod himeno;
mod launched;
mod lost_node;
mod lu;
mod mapped_by_others;
mod matmul;
mod messages;
mod naming;
mod ported;
mod queue;
mod quicksort;
mod ranks;
mod refusals;
mod rhinet;
mod shapes;
mod shmem;
mod signal;
mod store;
mod streams;
mod sync;
mod table4;
mod tenants;
mod wisconsin;

hanare_testkit::actors![examples::a_rank_in_rust, stage::node_process,];
