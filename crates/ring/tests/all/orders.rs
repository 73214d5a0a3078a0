//! Every order in which two threads can meet in a ring or at a doorbell, by loom.

use crate::ordered;

use hanare_ring::bell::Flag;
use hanare_ring::layout::{CAPACITY_MIN, WORD_LEN, ring_len};
use hanare_ring::{Consumer, Producer, spsc};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;
use ordered::Ordered;

fn ring(warm_up: usize) -> (Producer<Ordered>, Consumer<Ordered>) {
    let words = Ordered::new(ring_len(CAPACITY_MIN) / WORD_LEN);
    spsc::format(&words, CAPACITY_MIN);
    let (mut producer, mut consumer) = (Producer::new(words.clone()).unwrap(), Consumer::new(words).unwrap());
    for _ in 0..warm_up {
        assert!(producer.push(&[&[0xff; 8]]).unwrap());
        let record = consumer.peek().unwrap().unwrap();
        consumer.release(record);
    }
    (producer, consumer)
}

fn pop(consumer: &mut Consumer<Ordered>) -> Option<Vec<u8>> {
    let record = consumer.peek().unwrap()?;
    let mut bytes = vec![0; record.len()];
    consumer.read(&record, 0, &mut bytes);
    consumer.release(record);
    Some(bytes)
}

/// What the consumer sees of two records is a beginning of what was sent, byte for byte.
fn records_are_whole_and_in_order(warm_up: usize, len: usize) {
    loom::model(move || {
        let (mut producer, mut consumer) = ring(warm_up);
        let sender = thread::spawn(move || {
            for byte in [1u8, 2] {
                assert!(producer.push(&[&vec![byte; len]]).unwrap());
            }
        });
        let mut wanted = 1;
        for _ in 0..3 {
            if let Some(bytes) = pop(&mut consumer) {
                assert_eq!(bytes, vec![wanted; len]);
                wanted += 1;
            }
        }
        sender.join().unwrap();
        while let Some(bytes) = pop(&mut consumer) {
            assert_eq!(bytes, vec![wanted; len]);
            wanted += 1;
        }
        assert_eq!(wanted, 3, "both arrived");
    });
}

#[test]
fn records_are_whole_in_every_order() {
    records_are_whole_and_in_order(0, 16);
}

#[test]
fn records_are_whole_over_old_bytes_and_padding() {
    // The first record ends shortly before the end of the data; the second needs padding.
    records_are_whole_and_in_order(13, 24);
}

#[test]
fn a_full_ring_is_not_overwritten_before_it_is_read() {
    loom::model(|| {
        let (mut producer, mut consumer) = ring(0);
        for byte in [1u8, 2] {
            assert!(producer.push(&[&[byte; 104]]).unwrap());
        }
        let reader = thread::spawn(move || {
            assert_eq!(pop(&mut consumer), Some(vec![1; 104]));
            consumer
        });
        let pushed = producer.push(&[&[3; 96]]).unwrap();
        let mut consumer = reader.join().unwrap();
        assert_eq!(pop(&mut consumer), Some(vec![2; 104]));
        assert_eq!(pop(&mut consumer).is_some(), pushed);
    });
}

#[test]
fn a_sleeper_is_woken_or_sees_what_arrived() {
    loom::model(|| {
        let words = Ordered::new(8);
        let arrived = Arc::new(AtomicU64::new(0));
        let (bell, flag) = (Flag::new(words.clone()), Arc::clone(&arrived));
        let sender = thread::spawn(move || {
            flag.store(1, Ordering::Release);
            bell.ring()
        });
        let bell = Flag::new(words);
        bell.doze();
        let would_park = arrived.load(Ordering::Acquire) == 0;
        let woke = sender.join().unwrap();
        assert!(woke || !would_park, "the sleeper parked and nobody wakes it");
        bell.rouse();
    });
}
