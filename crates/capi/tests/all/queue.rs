//! Queues, from C.

use crate::stage;

#[test]
fn ranks_send_blocks_and_records_to_one_of_them() {
    let Some(program) = stage::program("queue") else { return };
    stage::Stage::of(2).pass(&program, &["2"], 4);
    stage::Stage::of(1).pass(&program, &["1"], 2);
}
