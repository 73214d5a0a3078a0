//! Collective operations, from C.

use crate::stage;

#[test]
fn ranks_and_parties_reduce_gather_and_exchange() {
    let Some(program) = stage::program("collectives") else { return };
    stage::Stage::of(2).pass(&program, &[], 3);
    stage::Stage::of(1).pass(&program, &[], 1);
}
