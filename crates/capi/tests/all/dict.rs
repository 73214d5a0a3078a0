//! Dictionaries, from C.

use crate::stage;

#[test]
fn ranks_share_a_dictionary_that_grows() {
    let Some(program) = stage::program("dict") else { return };
    stage::Stage::of(2).pass(&program, &[], 4);
    stage::Stage::of(1).pass(&program, &[], 2);
}
