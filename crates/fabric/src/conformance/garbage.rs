//! What a peer sends is input: any bytes end in messages or in a clear end of the link.

use super::order::seeded;
use super::*;
use hanare_protocol::limits::{BODY_LEN_MAX, CONTROL_LEN_MAX};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use rand::RngExt;

fn is_garbage(error: &LinkError) -> bool {
    matches!(error, LinkError::Garbage { .. })
}

pub(super) fn garbage_ends_the_link(fabric: &Fabric) {
    let mut prng = seeded("garbage");
    for _ in 0..20 {
        let (mut link, mut raw) = fabric.raw();
        raw.send(&head(4, 0).encode());
        let noise: Vec<u8> = (0..prng.random_range(32..2000)).map(|_| prng.random()).collect();
        raw.send(&noise);
        let mut store = Store::new();
        let error = end_of(&mut *link, &mut store);
        assert!(is_garbage(&error), "{error}");
        assert_eq!(store.seqs(), [4], "what came before is delivered");
        assert_eq!(link.progress(&mut store), Err(error), "it stays ended");
    }
}

pub(super) fn lengths_beyond_the_limits_end_the_link(fabric: &Fabric) {
    for (kind, body_len) in [
        (Kind::Commands, BODY_LEN_MAX + 1),
        (Kind::Commands, u64::MAX),
        (Kind::Control, CONTROL_LEN_MAX as u64 + 1),
        (Kind::Ping, 1),
    ] {
        let (mut link, mut raw) = fabric.raw();
        raw.send(&Head { body_len, ..Head::new(kind, 0) }.encode());
        let error = end_of(&mut *link, &mut Store::new());
        assert!(is_garbage(&error), "{error}");
    }
}

pub(super) fn what_the_sink_refuses_ends_the_link(fabric: &Fabric) {
    let (mut one, mut other) = fabric.pair();
    let bytes = body(0, 1001);
    send(&mut *one, 0, &bytes[..1000]).unwrap();
    send(&mut *one, 1, &bytes).unwrap();
    let mut store = Store { body_len_max: 1000, ..Store::new() };
    let end = soon();
    while one.unsent_len() > 0 {
        wait(&mut *one, &mut Store::new(), Some(end)).unwrap();
    }
    let error = end_of(&mut *other, &mut store);
    assert!(matches!(&error, LinkError::Garbage { reason, .. } if reason.contains("too long for this store")), "{error}");
    assert_eq!(store.seqs(), [0]);
}

pub(super) fn bytes_may_come_one_by_one(fabric: &Fabric) {
    let (mut link, mut raw) = fabric.raw();
    let mut store = Store::new();
    let mut stream = Vec::new();
    for (seq, len) in [3, 0, 70].into_iter().enumerate() {
        stream.extend_from_slice(&head(seq as u64, len).encode());
        stream.extend_from_slice(&body(seq as u64, len));
    }
    for byte in stream {
        assert!(store.messages.len() < 3);
        raw.send(&[byte]);
        link.progress(&mut store).unwrap();
    }
    receive(&mut *link, &mut store, 3);
    assert_eq!(store.seqs(), [0, 1, 2]);
    assert!(store.messages.iter().all(|(head, bytes)| *bytes == body(head.seq, head.body_len as usize)));
}

pub(super) fn cuts_anywhere_change_nothing(fabric: &Fabric) {
    let mut runner = TestRunner::new(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() });
    let lens = prop::collection::vec(0..300usize, 1..8);
    let cuts = prop::collection::vec(1..400usize, 1..8);
    let outcome = runner.run(&(lens, cuts, 1..200usize), |(lens, cuts, piece_len)| {
        let (mut link, mut raw) = fabric.raw();
        let mut store = Store::of_pieces(piece_len);
        let stream: Vec<u8> = lens
            .iter()
            .enumerate()
            .flat_map(|(seq, len)| [head(seq as u64, *len).encode().to_vec(), body(seq as u64, *len)].concat())
            .collect();
        let mut rest = &stream[..];
        for cut in cuts.iter().cycle() {
            let (now, later) = rest.split_at((*cut).min(rest.len()));
            raw.send(now);
            link.progress(&mut store).unwrap();
            rest = later;
            if rest.is_empty() {
                break;
            }
        }
        receive(&mut *link, &mut store, lens.len());
        for (seq, (got, bytes)) in store.messages.iter().enumerate() {
            prop_assert_eq!(*got, head(seq as u64, lens[seq]));
            prop_assert_eq!(bytes, &body(seq as u64, lens[seq]));
        }
        Ok(())
    });
    outcome.unwrap();
}
