//! Words read in one step, 128-bit elements, and puts with a signal, from C.

use crate::stage;

// FEATURE: RF-F4
#[test]
fn whoever_sees_the_signal_sees_the_bytes_and_no_word_is_half_old() {
    let Some(program) = stage::program("signal") else { return };
    stage::Stage::of(2).pass(&program, &[], 2);
    stage::Stage::of(1).pass(&program, &[], 2);
}
