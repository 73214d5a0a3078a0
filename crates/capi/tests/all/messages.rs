//! Messages, from C.

use crate::stage;

#[test]
fn ranks_send_heads_and_bodies_to_each_other() {
    let Some(program) = stage::program("messages") else { return };
    stage::Stage::of(2).pass(&program, &[], 3);
}
