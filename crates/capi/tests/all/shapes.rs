//! Commands on shapes, and batches, from C: on bytes of this host, of another, and of both.

use crate::stage;

// FEATURE: D3-F11 D3-F12 D3-F13 D3-F25 RF-F4
#[test]
fn shapes_and_batches_do_what_they_say_wherever_the_bytes_lie() {
    let Some(program) = stage::program("shapes") else { return };
    let stage = stage::Stage::of(2);
    for placement in ["local", "node=1", "interleave=4096", "interleave=65536"] {
        stage.pass(&program, &[placement], 1);
    }
}
