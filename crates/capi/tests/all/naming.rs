//! What is kept with a region's name, from C.

use crate::stage;

#[test]
fn attributes_mode_name_and_number() {
    let Some(program) = stage::program("naming") else { return };
    stage::Stage::of(1).pass(&program, &[], 1);
}
