//! The library over real nodes: a module a subject.
//!
//! Files beside this folder have a process of their own:
//!
//! | file | why |
//! |---|---|
//! | `dlopened` | it loads a library whose threads and constructors fault |
//! | `explicit` | its allocator forbids allocations in signal handlers, and its threads measure their signal stacks |
//! | `fabric_beside_faults` | UCX replaces the signal handlers of the whole process |
//! | `five_hundred` | its hostile programs leave the others no processor |
//! | `forks` | it makes children by fork, which keep what other tests hold |
//! | `histories` | its programs are this binary again, as nodes and threads |
//! | `late_commands` | its programs are this binary again, in networks of their own |
//! | `random_programs` | its programs are this binary again, as nodes and ranks |
//! | `random_queues` | its programs are this binary again, as nodes and ports |
//! | `returning_home` | its programs are this binary again |

#[path = "../support/actor.rs"]
mod actor;
#[path = "../support/apart.rs"]
mod apart;
#[path = "../support/between.rs"]
mod between;
#[path = "../support/holder.rs"]
mod holder;
#[path = "../support/intruder.rs"]
mod intruder;
#[path = "../support/processes.rs"]
mod processes;
#[path = "../support/raw_link.rs"]
mod raw_link;
#[path = "../support/relay.rs"]
mod relay;
#[path = "../support/scene.rs"]
mod scene;
#[path = "../support/mod.rs"]
mod support;
#[path = "../support/traced.rs"]
mod traced;

mod at_home;
mod atomics;
mod barrier;
mod broken;
mod coherent;
mod collectives;
mod commands;
mod cost;
mod entry;
mod entry_programs;
mod equal_addresses;
mod fault_steps;
mod fault_steps_of_nodes;
mod fetched_bodies;
mod groups;
mod heap;
mod hostile;
mod hostile_clients;
mod hostile_mappings;
mod hostile_tables;
mod kept;
mod kept_pages;
mod keys_change;
mod lease_programs;
mod leases;
mod locks;
mod looks;
mod mapped_memory;
mod messages;
mod names;
mod nonblocking_on_mapped;
mod on_the_wire;
mod put_and_get;
mod queue_failures;
mod queue_sets;
mod queue_steps;
mod queues;
mod region_locks;
mod spill_quota;
mod taken_back;
mod taken_for_lost;
mod threads;
mod timeline;
mod trust;
mod wait_word;
mod who_gets_in;
