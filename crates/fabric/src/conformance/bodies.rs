//! Bodies of every size, from and into any number of windows.

use super::*;

/// Around every limit inside: heads, records, the receive buffer, a fair share; up to 64 MiB.
const LENS: [usize; 19] = [
    0,
    1,
    7,
    8,
    31,
    32,
    33,
    4095,
    4096,
    (8 << 10) - 32,
    (8 << 10) - 31,
    16_352,
    16_353,
    (32 << 10) - 32,
    (32 << 10) + 1,
    (128 << 10) + 5,
    1 << 20,
    (1 << 20) + 3,
    64 << 20,
];

fn through(fabric: &Fabric, store: Store, lens: &[usize]) {
    let (mut one, mut other) = fabric.pair();
    let (mut one_store, mut other_store) = (Store::new(), store);
    for (seq, len) in lens.iter().enumerate() {
        let bytes = body(seq as u64, *len);
        send(&mut *one, seq as u64, &bytes).unwrap();
        pump((&mut *one, &mut one_store), (&mut *other, &mut other_store), |_, other| other.messages.len() == 1);
        let (got_head, got) = other_store.messages.pop().unwrap();
        assert_eq!(got_head, head(seq as u64, *len));
        assert!(got == bytes, "a body of {len} bytes");
    }
}

pub(super) fn bodies_of_every_size_arrive(fabric: &Fabric) {
    through(fabric, Store::new(), &LENS);
}

pub(super) fn a_body_goes_into_windows_of_any_size(fabric: &Fabric) {
    through(fabric, Store::of_pieces(1), &[0, 1, 5000]);
    through(fabric, Store::of_pieces(1000), &[1000, 1001, 300_000]);
    through(fabric, Store::of_pieces(32 << 10), &[32 << 10, (64 << 10) - 1, 300_000]);
}

pub(super) fn a_body_comes_from_many_windows(fabric: &Fabric) {
    let (mut one, mut other) = fabric.pair();
    let (mut one_store, mut other_store) = (Store::new(), Store::new());
    let bytes = body(0, 100_000);
    // Far more pieces than one system call takes; some are empty.
    let pieces = bytes.chunks(37).flat_map(|part| [part, &part[..0]]);
    // SAFETY: the bytes live to the end of the test, and are only read.
    let windows: Vec<Window> = pieces.map(|part| unsafe { Window::of(part) }).collect();
    // SAFETY: the bytes live to the end of the test.
    unsafe { one.send(&head(0, bytes.len()), &windows) }.unwrap();
    let after = body(1, 3);
    send(&mut *one, 1, &after).unwrap();
    pump((&mut *one, &mut one_store), (&mut *other, &mut other_store), |_, other| other.messages.len() == 2);
    assert!(other_store.messages[0].1 == bytes);
    assert_eq!(other_store.messages[1].1, after);
}

pub(super) fn a_body_may_come_in_stages(fabric: &Fabric) {
    let (mut one, mut other) = fabric.pair();
    let (mut one_store, mut other_store) = (Store::new(), Store::new());
    let bytes = body(0, 3 << 20);
    let mut stages = bytes.chunks(200_000);
    // SAFETY: the bytes live to the end of the test.
    unsafe { one.send(&head(0, bytes.len()), &[]) }.unwrap();
    for stage in &mut stages {
        // SAFETY: as above.
        unsafe { one.extend(&[Window::of(stage)]) }.unwrap();
        pump((&mut *one, &mut one_store), (&mut *other, &mut other_store), |_, _| true);
    }
    pump((&mut *one, &mut one_store), (&mut *other, &mut other_store), |_, other| other.messages.len() == 1);
    assert!(other_store.messages[0].1 == bytes);
}
