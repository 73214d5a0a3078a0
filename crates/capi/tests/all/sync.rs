//! Locks, groups, words and a heap, from C.

use crate::stage;

#[test]
fn ranks_share_locks_groups_words_and_a_heap() {
    let Some(program) = stage::program("sync") else { return };
    stage::Stage::of(2).pass(&program, &[], 3);
    stage::Stage::of(1).pass(&program, &[], 2);
}

#[test]
fn a_rank_that_dies_leaves_its_lock_and_its_group_to_the_others() {
    let Some(program) = stage::program("sync") else { return };
    let outputs = stage::Stage::of(2).run(&program, &["die"], 3);
    for (rank, output) in outputs.iter().enumerate() {
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.success(), rank != 1, "rank {rank}: {} {said}", output.status);
    }
}
