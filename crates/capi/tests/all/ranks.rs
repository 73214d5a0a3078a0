//! Several ranks of one job, from C.

use crate::stage;

// FEATURE: D2-F8 RF-F5
#[test]
fn what_a_rank_puts_before_a_barrier_is_there_after_it() {
    let Some(program) = stage::program("ranks") else { return };
    stage::Stage::of(2).pass(&program, &[], 2);
    stage::Stage::of(1).pass(&program, &[], 3);
}

// FEATURE: D2-F8
#[test]
fn a_dead_rank_ends_the_barrier_of_all_others_and_is_named() {
    let Some(program) = stage::program("dead_rank") else { return };
    let stage = stage::Stage::of(2);
    let outputs = stage.run(&program, &[], 3);
    for (rank, output) in outputs.iter().enumerate() {
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.success(), rank != 1, "rank {rank}: {} {said}", output.status);
    }
}
