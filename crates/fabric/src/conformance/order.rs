//! Messages arrive whole, once, and in order.

use super::*;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

/// A seeded source of randomness; the seed is printed, so that a failure can be run again.
pub(super) fn seeded(name: &str) -> Pcg64 {
    let seed = std::env::var("SEED").map_or(7, |text| text.parse().expect("SEED is a number"));
    println!("{name}: SEED={seed}");
    Pcg64::seed_from_u64(seed)
}

pub(super) fn small_messages_arrive_in_order_both_ways(fabric: &Fabric) {
    let mut prng = seeded("small messages");
    let (mut one, mut other) = fabric.pair();
    let (mut one_store, mut other_store) = (Store::new(), Store::new());
    let sizes: Vec<usize> = (0..500).map(|_| prng.random_range(0..600)).collect();
    let bodies: Vec<Vec<u8>> = sizes.iter().enumerate().map(|(seq, len)| body(seq as u64, *len)).collect();
    for (seq, bytes) in bodies.iter().enumerate() {
        send(&mut *one, seq as u64, bytes).unwrap();
        send(&mut *other, seq as u64, bytes).unwrap();
        if prng.random_range(0..7) == 0 {
            other.progress(&mut other_store).unwrap();
        }
    }
    pump((&mut *one, &mut one_store), (&mut *other, &mut other_store), |one, other| {
        one.messages.len() == bodies.len() && other.messages.len() == bodies.len()
    });
    for store in [one_store, other_store] {
        for (seq, (got, bytes)) in store.messages.iter().enumerate() {
            assert_eq!(*got, head(seq as u64, sizes[seq]));
            assert!(*bytes == bodies[seq], "the body of message {seq}");
        }
    }
}

pub(super) fn large_messages_cross_each_other(fabric: &Fabric) {
    let (mut one, mut other) = fabric.pair();
    let (mut one_store, mut other_store) = (Store::new(), Store::of_pieces(100_000));
    let bodies: Vec<Vec<u8>> = (0..4).map(|seq| body(seq, (4 << 20) + seq as usize)).collect();
    for (seq, bytes) in bodies.iter().enumerate() {
        send(&mut *one, seq as u64, bytes).unwrap();
        send(&mut *other, seq as u64, bytes).unwrap();
    }
    pump((&mut *one, &mut one_store), (&mut *other, &mut other_store), |one, other| {
        one.messages.len() == bodies.len() && other.messages.len() == bodies.len()
    });
    for store in [one_store, other_store] {
        assert_eq!(store.seqs(), [0, 1, 2, 3]);
        assert!(store.messages.iter().zip(&bodies).all(|((_, got), bytes)| got == bytes), "bodies arrive as they were");
    }
}
