//! The vector commands from C, on bytes of this host, of another, and of both.

use crate::stage;

// FEATURE: D3-F1 RF-F5 RF-F6
#[test]
fn commands_do_what_they_say_wherever_the_bytes_lie() {
    let Some(program) = stage::program("commands") else { return };
    let stage = stage::Stage::of(2);
    for placement in ["local", "node=1", "interleave=4096", "interleave=65536"] {
        stage.pass(&program, &[placement], 1);
    }
}
