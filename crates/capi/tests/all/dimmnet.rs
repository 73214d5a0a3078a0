//! The calls of `dimmnet.h`, on ranks of one host and of several, on regions of every placement.

use crate::stage;

// FEATURE: D2-F5 D2-F6 D2-F7 D2-F8
#[test]
fn shared_regions_keep_what_every_rank_flushed() {
    let Some(program) = stage::program("shared") else { return };
    stage::Stage::of(2).pass(&program, &[], 2);
    stage::Stage::of(2).pass(&program, &["more-ranks-than-nodes"], 5);
    stage::Stage::of(1).pass(&program, &["all-on-one-node"], 2);
}

// FEATURE: D2-F7
#[test]
fn shared_regions_work_where_some_bytes_are_mapped_and_some_are_copied() {
    let Some(program) = stage::program("shared") else { return };
    for place in ["interleave=4096", "interleave=8192", "node=1"] {
        let stage = stage::Stage::of(2).with("HANARE_PLACE", place);
        stage.pass(&program, &["placed"], 3);
    }
}

// FEATURE: D2-F6
#[test]
fn a_coherent_map_beside_shared_regions_is_refused_on_every_host() {
    let Some(program) = stage::program("one_way") else { return };
    for place in ["node=1", "interleave=4096"] {
        stage::Stage::of(3).with("HANARE_PLACE", place).pass(&program, &[], 4);
    }
}

// FEATURE: D2-F11
#[test]
fn vector_memory_is_there_without_dn_init() {
    let Some(program) = stage::program("vector_memory") else { return };
    stage::Stage::of(1).pass(&program, &["alone"], 1);
}

// FEATURE: D2-F12
#[test]
fn vector_memory_of_other_ranks_is_reached() {
    let Some(program) = stage::program("vector_memory") else { return };
    stage::Stage::of(2).pass(&program, &[], 2);
    stage::Stage::of(2).pass(&program, &[], 3);
}

// FEATURE: D2-F23
#[test]
fn ranks_pass_messages_through_vector_memory() {
    let Some(program) = stage::program("vector_messages") else { return };
    stage::Stage::of(2).pass(&program, &[], 2);
    stage::Stage::of(2).pass(&program, &[], 3);
}

/// Named regions stay; what belongs to a rank goes with it, with `dn_finalize` and without.
#[test]
fn nothing_of_a_rank_is_left_in_the_pool_when_it_has_ended() {
    let (Some(shared), Some(vectors)) = (stage::program("shared"), stage::program("vector_memory")) else { return };
    let stage = stage::Stage::of(2);
    stage.pass(&shared, &[], 2);
    stage.pass(&vectors, &[], 2);
    let names: Vec<String> = stage.attach(1).list().unwrap().into_iter().map(|region| region.name).collect();
    assert!(names.contains(&"table".to_owned()), "{names:?}");
    assert_eq!(names.iter().find(|name| name.starts_with("dimmnet.")), None, "{names:?}");
}

// FEATURE: D2-F9
#[test]
fn commands_on_this_hosts_memory_make_no_system_call() {
    let Some(program) = stage::program("no_system_call") else { return };
    let output = &stage::Stage::of(1).run(&program, &[], 1)[0];
    match output.status.code() {
        Some(77) => hanare_testkit::unable("the kernel has no seccomp"),
        code => assert_eq!(code, Some(0), "{} {}", output.status, String::from_utf8_lossy(&output.stderr)),
    }
}
