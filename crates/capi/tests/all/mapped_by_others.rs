//! Requests and batches from C on a region that another program maps coherently.

use crate::stage;

// FEATURE: EU-F17
#[test]
fn requests_on_what_another_rank_maps_are_done_once() {
    let Some(program) = stage::program("mapped_by_others") else { return };
    let stage = stage::Stage::of(2);
    for placement in ["node=0", "node=1", "interleave=4096"] {
        stage.pass(&program, &[placement], 2);
        let pool = stage.attach(0);
        ["plain", "mapped"].iter().for_each(|name| pool.remove(name).unwrap());
    }
}
