//! The command, the launcher, what dies and comes back: a module a behaviour.
//!
//! Files beside this folder have a process of their own:
//!
//! | file | why |
//! |---|---|
//! | `benches_run_quickly` | benches would measure the other tests |
//! | `fault_matrix` | its cells have bounds, and its programs are this binary again |
//! | `tidy` | it parses the sources: nothing of it is linked with the others |

#[path = "../pool/mod.rs"]
mod pool;

mod a_key_always;
mod absence;
mod any_keeper_leads_to_the_pool;
mod bad_input_one_line;
mod bytes_are_spread;
mod chart;
mod clients_of_redis;
mod commands_over_ucx;
mod copies_are_compared;
mod copies_of_what_others_map;
mod crates_can_be_published;
mod demo_in_a_minute;
mod demo_multiplies_from_files_to_files;
mod demo_of_memory;
mod disks_by_nbdkit;
mod doctor_tries;
mod drains_of_nodes_that_keep;
mod failing_rank_is_named;
mod files_outlive_nodes;
mod first_put_and_get;
mod installed_program_finds_its_library;
mod journal_is_checked;
mod keepers;
mod keepers_begin_later;
mod kill_node_is_reported;
mod kill_rank_fails_barrier;
mod launch_uses_the_running_pool;
mod licences;
mod main_memory;
mod main_memory_programs;
mod manual_from_one_definition;
mod memory_goes_back;
mod memory_in_order;
mod metrics_by_face;
mod mounted_files;
mod mounts_of_others;
mod mounts_that_stop;
mod node_ends_in_good_order;
mod node_is_drained;
mod node_keeps_its_bytes;
mod nothing_is_left_behind;
mod nothing_is_left_on_hosts;
mod npy_round_trip;
mod one_timeline;
mod output_of_ranks;
mod prometheus_metrics;
mod queue_commands;
mod ranks_under_other_launchers;
mod region_commands;
mod regions_follow_their_users;
mod run_on_hosts;
mod run_on_hosts_apart;
mod run_on_hosts_by_sshd;
mod side_by_side;
mod signals_are_passed_on;
mod sim_explores_every_world;
mod status_at_once;
mod stores_are_listed;
mod tenants;
mod top;
mod two_versions_refuse;
mod what_goes_and_comes_back;
mod where_memory_lies;
mod words_of_run;

hanare_testkit::actors![
    kill_rank_fails_barrier::rank,
    one_timeline::rank_with_a_timeline,
    ranks_under_other_launchers::rank,
    run_on_hosts::rank,
    top::rank_that_shares_pages,
];
