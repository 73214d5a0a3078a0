//! A slow reader holds the sender back, and nothing blocks or is lost.

use super::*;

/// More than sockets and rings hold.
const COUNT: usize = 24;
const LEN: usize = 1 << 20;

fn overfill(one: &mut dyn Link, bytes: &[u8]) {
    for seq in 0..COUNT {
        send(one, seq as u64, bytes).unwrap();
    }
    // Until nothing goes any more, with the peer not looking.
    let mut store = Store::new();
    while !one.progress(&mut store).unwrap().is_idle() {}
}

fn drain(one: &mut dyn Link, other: &mut dyn Link, other_store: &mut Store, bytes: &[u8]) {
    pump((one, &mut Store::new()), (other, other_store), |_, other| other.messages.len() == COUNT);
    assert_eq!(other_store.seqs(), (0..COUNT as u64).collect::<Vec<_>>());
    assert!(other_store.messages.iter().all(|(_, got)| got == bytes));
}

pub(super) fn a_peer_that_does_not_read_holds_the_sender_back(fabric: &Fabric) {
    let (mut one, mut other) = fabric.pair();
    let bytes = body(0, LEN);
    overfill(&mut *one, &bytes);
    let unsent_len = one.unsent_len();
    assert!(unsent_len > 0, "{} MiB went nowhere", (COUNT * LEN) >> 20);
    assert!(unsent_len <= (COUNT * (LEN + 32)) as u64);
    drain(&mut *one, &mut *other, &mut Store::new(), &bytes);
    assert!(!one.needs_write_event());
}

pub(super) fn a_sink_that_lets_nothing_begin_holds_the_sender_back(fabric: &Fabric) {
    let (mut one, mut other) = fabric.pair();
    let bytes = body(0, LEN);
    let mut store = Store { lets_begin: false, ..Store::new() };
    overfill(&mut *one, &bytes);
    for _ in 0..100 {
        other.progress(&mut store).unwrap();
        one.progress(&mut Store::new()).unwrap();
    }
    assert_eq!(store.messages.len(), 0);
    assert!(one.unsent_len() > 0);
    store.lets_begin = true;
    drain(&mut *one, &mut *other, &mut store, &bytes);
}

pub(super) fn a_sink_without_a_place_yet_is_asked_again(fabric: &Fabric) {
    let (mut one, mut other) = fabric.pair();
    let bytes = body(0, LEN);
    let mut store = Store { left: u32::MAX, ..Store::of_pieces(10_007) };
    overfill(&mut *one, &bytes);
    for _ in 0..100 {
        other.progress(&mut store).unwrap();
        one.progress(&mut Store::new()).unwrap();
    }
    assert_eq!(store.messages.len(), 0);
    assert!(one.unsent_len() > 0, "the sender is held back");
    (store.left, store.not_yet) = (0, 2);
    drain(&mut *one, &mut *other, &mut store, &bytes);
}

pub(super) fn a_place_that_is_taken_back_is_asked_for_anew(fabric: &Fabric) {
    let (mut one, mut other) = fabric.pair();
    let bytes = body(0, LEN);
    let mut store = Store { takes_back: true, ..Store::new() };
    overfill(&mut *one, &bytes);
    drain(&mut *one, &mut *other, &mut store, &bytes);
}

pub(super) fn one_call_moves_a_fair_share_only(fabric: &Fabric) {
    let (mut one, mut other) = fabric.pair();
    let bytes = body(0, LEN);
    overfill(&mut *one, &bytes);
    let mut store = Store::new();
    let mut total = 0;
    while store.messages.len() < COUNT {
        let step = other.progress(&mut store).unwrap();
        // A share, and the last read of it.
        assert!(step.received_len <= 2 * LEN as u64 + (64 << 10), "{} bytes in one call", step.received_len);
        total += step.received_len;
        assert!(!step.has_more || !other.doze(), "nobody parks with more to do");
        one.progress(&mut Store::new()).unwrap();
    }
    assert_eq!(total, (COUNT * (LEN + 32)) as u64);
}
