//! Dictionaries over real nodes: what calls do, for one program and for many; and what is left of programs and nodes that end.

mod copies;
mod ends;
mod forks;
mod grows;
mod nodes;
mod one_program;
mod programs;

hanare_testkit::actors!(nodes::node_process, programs::counts, programs::writes, programs::grows, programs::sweeps);
