//! What a client or a node says of a region: what passes the check breaks nothing that is made of it.
#![no_main]

use hanare_protocol::place::Layout;
use hanare_protocol::wire::control;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(layout) = control::decode::<Layout>(bytes) else { return };
    if layout.check().is_err() {
        return;
    }
    let len = layout.len();
    for at in [0, len / 2, len - 1] {
        let _ = layout.period(at);
        for piece in layout.pieces(at, (len - at).min(1 << 16)) {
            let (place, _) = layout.places(piece.extent, piece.offset, piece.len).next().expect("a piece has bytes");
            assert_eq!(place, at + piece.at);
        }
    }
});
