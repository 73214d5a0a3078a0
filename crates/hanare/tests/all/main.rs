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
//! | `judged_copies` | its programs are this binary again, in networks of their own |
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
#[path = "../support/networks.rs"]
mod networks;
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
mod coherent_copies;
mod collectives;
mod commands;
mod copied_heaps;
mod copied_mappings;
mod copied_queues;
mod copies;
mod copies_end;
mod cost;
mod entry;
mod entry_programs;
mod equal_addresses;
mod faces;
mod fault_steps;
mod fault_steps_of_nodes;
mod fetched_bodies;
mod first_copies;
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
mod links;
mod locks;
mod looks;
mod mapped_memory;
mod messages;
mod moved_mappings;
mod names;
mod node_threads;
mod nodes_that_come_back;
mod nonblocking_on_mapped;
mod on_a_dax_file;
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
mod tenants;
mod threads;
mod timeline;
mod trust;
mod wait_word;
mod who_gets_in;
mod whole_releases;

hanare_testkit::actors![
    actor::acts,
    apart::serves,
    at_home::names_a_silent_owner,
    at_home::owns_all_pages,
    at_home::puts_without_an_end,
    coherent::counts_up_until_it_is_killed,
    collectives::takes_part_and_dies,
    entry::keeps_a_lock_with_data_and_dies,
    entry::releases_again_and_again,
    entry::stores_and_does_not_release,
    groups::gives_again_and_again,
    groups::joins_and_dies,
    lease_programs::lease_program,
    leases::keeps_one_lock_and_holds_another,
    links::reads_by_a_link_and_dies,
    links::sends_by_a_link_and_dies,
    locks::takes_a_lock_and_dies,
    messages::dies_without_a_word,
    messages::sends_and_dies,
    nonblocking_on_mapped::maps_and_counts,
    processes::node_process,
    queue_failures::empties_a_queue_and_dies,
    queue_failures::waits_too_long,
    queue_sets::reads_a_hundred_queues,
    queue_sets::reads_a_set_and_dies,
    queue_steps::acts,
    queues::reads_and_dies,
    queues::uses_some_of_a_million,
    queues::writes_and_dies,
    region_locks::takes_locks_of_a_region_and_dies,
    region_locks::takes_the_lock_that_others_wait_under_and_dies,
    taken_back::has_memory_and_is_idle,
    taken_back::works_on_its_memory,
    timeline::program,
    whole_releases::releases_until_it_is_killed,
];
