//! A peer that goes: its last messages are delivered, and then every call says that it is gone.

use super::*;

fn is_closed(error: &LinkError, words: &str) -> bool {
    matches!(error, LinkError::Closed { reason, .. } if reason.contains(words))
}

pub(super) fn the_last_messages_come_before_the_end(fabric: &Fabric) {
    let (mut one, mut other) = fabric.pair();
    let bodies: Vec<Vec<u8>> = (0..20).map(|seq| body(seq, 1000)).collect();
    let mut store = Store::new();
    for (seq, bytes) in bodies.iter().enumerate() {
        send(&mut *one, seq as u64, bytes).unwrap();
    }
    let end = soon();
    while one.unsent_len() > 0 {
        wait(&mut *one, &mut Store::new(), Some(end)).unwrap();
    }
    drop(one);
    let error = end_of(&mut *other, &mut store);
    assert!(is_closed(&error, "closed") && !is_closed(&error, "middle"), "{error}");
    assert_eq!(store.seqs(), (0..20).collect::<Vec<_>>());
    assert_eq!(other.progress(&mut store), Err(error.clone()), "it stays ended");
    assert_eq!(send(&mut *other, 0, &[]), Err(error));
}

pub(super) fn a_peer_may_die_in_a_head(fabric: &Fabric) {
    let (mut link, mut raw) = fabric.raw();
    raw.send(&head(0, 5).encode());
    raw.send(&body(0, 5));
    raw.send(&head(1, 0).encode()[..31]);
    drop(raw);
    let mut store = Store::new();
    let error = end_of(&mut *link, &mut store);
    assert!(is_closed(&error, "middle"), "{error}");
    assert_eq!(store.seqs(), [0]);
}

pub(super) fn a_peer_may_die_in_a_body(fabric: &Fabric) {
    let (mut link, mut raw) = fabric.raw();
    raw.send(&head(0, 50_000).encode());
    raw.send(&body(0, 40_000));
    drop(raw);
    let mut store = Store::new();
    let error = end_of(&mut *link, &mut store);
    assert!(is_closed(&error, "middle"), "{error}");
    assert!(store.messages.is_empty());
}

pub(super) fn sending_to_a_dead_peer_ends(fabric: &Fabric) {
    let (mut one, other) = fabric.pair();
    drop(other);
    let bytes = body(0, 10 << 20);
    let mut seq = 0;
    let end = soon();
    let error = loop {
        let sent = send(&mut *one, seq, &bytes).and_then(|()| one.progress(&mut Store::new()));
        if let Err(error) = sent {
            break error;
        }
        seq += 1;
        assert!(Instant::now() < end, "nobody noticed");
    };
    assert!(is_closed(&error, ""), "{error}");
    assert_eq!(one.unsent_len(), 0, "an ended link holds no window");
}
