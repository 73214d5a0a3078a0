//! The calls of `rhinet.h`, on ranks of one host and of several, with both ways of waiting.

use crate::stage;

// FEATURE: RF-F7 RF-F8 RF-F9 RF-F10 RF-F11 RF-F12 RF-F17 RF-F24
#[test]
fn pages_are_pushed_kept_and_sent_again_and_messages_come_to_their_buffer() {
    let Some(program) = stage::program("rhinet") else { return };
    stage::Stage::of(2).pass(&program, &["poll"], 2);
    stage::Stage::of(2).pass(&program, &["sleep"], 3);
    stage::Stage::of(1).pass(&program, &["poll"], 1);
}
