//! Stores, from C.

use crate::stage;

#[test]
fn ranks_share_a_store_whose_keys_leave() {
    let Some(program) = stage::program("store") else { return };
    stage::Stage::of(2).pass(&program, &[], 3);
    stage::Stage::of(1).pass(&program, &[], 2);
}
