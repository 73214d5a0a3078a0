//! Bad input from C: a code and a message for each, and nothing else disturbed.

use crate::stage;

#[test]
fn bad_input_gets_a_code_and_words() {
    let Some(program) = stage::program("refusals") else { return };
    let stage = stage::Stage::of(1);
    stage.pass(&program, &[], 1);
}
