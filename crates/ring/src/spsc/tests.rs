use super::*;
use crate::layout::CAPACITY_MIN;
use crate::testing::Steps;
use proptest::prelude::*;
use std::collections::VecDeque;

/// A ring in memory in which a side can be stopped.
fn ring(capacity: usize) -> Steps {
    let steps = Steps::new(ring_len(capacity));
    format(&steps, capacity);
    steps
}

fn pair(capacity: usize) -> (Producer<Steps>, Consumer<Steps>) {
    let memory = ring(capacity);
    (Producer::new(memory.clone()).unwrap(), Consumer::new(memory.other_process()).unwrap())
}

fn pop(consumer: &mut Consumer<Steps>) -> Option<Vec<u8>> {
    let record = consumer.peek().unwrap()?;
    let mut bytes = vec![0; record.len()];
    consumer.read(&record, 0, &mut bytes);
    consumer.release(record);
    Some(bytes)
}

/// Bytes that look like a committed record wherever they are read.
fn forged(len: usize) -> Vec<u8> {
    let word = (1u64 << LEN_SHIFT | IS_RECORD).to_le_bytes();
    word.iter().copied().cycle().take(len).collect()
}

proptest! {
    #[test]
    fn records_come_out_as_they_went_in(steps in prop::collection::vec((any::<bool>(), 0..140usize), 1..400)) {
        let (mut producer, mut consumer) = pair(CAPACITY_MIN);
        // Padding takes somewhat more than half the capacity from the longest record that is certain to fit.
        let longest = CAPACITY_MIN / 2 - 2 * 8;
        let mut model = VecDeque::new();
        for (is_push, len) in steps {
            if is_push {
                let room = producer.room(usize::MAX).unwrap();
                let pushed = producer.push(&[&forged(len)]).unwrap();
                prop_assert_eq!(pushed, room.is_some_and(|room| room >= len), "room says what can be claimed");
                if pushed {
                    model.push_back(forged(len));
                }
                prop_assert!(pushed || !model.is_empty() || len > longest, "an empty ring takes the longest record");
            } else {
                prop_assert_eq!(pop(&mut consumer), model.pop_front());
            }
        }
        while let Some(wanted) = model.pop_front() {
            prop_assert_eq!(pop(&mut consumer), Some(wanted));
        }
        prop_assert_eq!(pop(&mut consumer), None);
    }

    #[test]
    fn a_ring_full_of_anything_is_read_or_refused(bytes in prop::collection::vec(any::<u8>(), CAPACITY_MIN), aligned: bool, head: u64) {
        let (mut producer, mut consumer) = pair(CAPACITY_MIN);
        let memory = consumer.words().clone();
        let bytes = if aligned { bytes.chunks(8).flat_map(|c| [1, c[0] & 3, 0, 0, 0, 0, 0, 0]).collect() } else { bytes };
        memory.write(DATA_WORD * WORD_LEN, &bytes);
        memory.store(HEAD_WORD, head);
        for _ in 0..100 {
            let Ok(Some(record)) = consumer.peek() else { break };
            consumer.read(&record, 0, &mut vec![0; record.len()]);
            consumer.release(record);
        }
        let _ = producer.push(&[&[0; 50]]);
        let _ = producer.room(usize::MAX);
    }
}

#[test]
fn a_producer_that_dies_at_any_step_loses_at_most_its_own_record() {
    // Start places that meet padding, an exact end, and bytes of an earlier lap.
    for start in 0..CAPACITY_MIN / WORD_LEN {
        for dies_after in 0..90 {
            let (mut producer, mut consumer) = pair(CAPACITY_MIN);
            for _ in 0..start + CAPACITY_MIN / WORD_LEN {
                assert!(producer.push(&[&[]]).unwrap());
                assert!(pop(&mut consumer).is_some());
            }
            assert!(producer.push(&[&forged(24)]).unwrap());
            producer.words().stop_after(dies_after);
            let last = forged(80);
            assert!(producer.push(&[&last]).unwrap());
            let is_dead = producer.words().has_stopped();
            drop(producer);
            assert_eq!(pop(&mut consumer), Some(forged(24)), "the record before is not lost");
            match pop(&mut consumer) {
                Some(bytes) => assert_eq!(bytes, last, "a record is whole or not there"),
                None => assert!(is_dead, "only a dead producer's record is missing"),
            }
            assert_eq!(pop(&mut consumer), None);
        }
    }
}

#[test]
fn a_consumer_that_dies_at_any_step_frees_only_what_it_read() {
    for dies_after in 0..4 {
        let (mut producer, mut consumer) = pair(CAPACITY_MIN);
        for _ in 0..3 {
            assert!(producer.push(&[&[1; 56]]).unwrap());
        }
        consumer.words().stop_after(dies_after);
        for _ in 0..3 {
            assert!(pop(&mut consumer).is_some());
        }
        let room = producer.room(usize::MAX).unwrap().unwrap_or(0);
        assert!(room <= 64 * dies_after.min(3) + 64, "{room} bytes after {dies_after} releases");
    }
}

#[test]
fn what_was_not_committed_is_not_seen_and_less_than_claimed_may_be() {
    let (mut producer, mut consumer) = pair(CAPACITY_MIN);
    assert!(producer.claim(100).unwrap());
    producer.write(0, &[1; 100]);
    assert_eq!(pop(&mut consumer), None);
    producer.commit(3);
    assert_eq!(pop(&mut consumer), Some(vec![1; 3]));
    assert!(producer.claim(8).unwrap());
    producer.write(0, &[2; 8]);
    assert!(producer.push(&[&[3], &[4, 5]]).unwrap());
    assert_eq!(pop(&mut consumer), Some(vec![3, 4, 5]), "a claim given up leaves nothing");
}

#[test]
fn a_ring_of_another_version_or_none_is_refused() {
    let none = Steps::new(1024);
    assert!(Producer::new(none).is_err());
    for (word, value) in [(VERSION_WORD, VERSION + 1), (CAPACITY_WORD, 1 << 20), (CAPACITY_WORD, 300), (CAPACITY_WORD, u64::MAX)]
    {
        let memory = Steps::new(CAPACITY_MIN);
        memory.store(word, value);
        assert!(Consumer::new(memory).is_err(), "{word} {value}");
    }
}

#[test]
fn a_consumer_that_lies_about_its_place_is_found() {
    let (mut producer, consumer) = pair(CAPACITY_MIN);
    assert!(producer.push(&[&[1; 40]]).unwrap());
    for head in [8_000, 50, u64::MAX, u64::MAX - 7] {
        consumer.words().store(HEAD_WORD, head);
        assert!(producer.room(usize::MAX).is_err(), "{head}");
    }
}

#[test]
fn two_threads_pass_records_through_real_memory() {
    let capacity = 4096;
    let mut memory = vec![0u64; ring_len(capacity) / WORD_LEN];
    // SAFETY: the memory outlives both threads, which use it through the window only.
    let window = unsafe { Window::new(memory.as_mut_ptr().cast(), ring_len(capacity)) };
    format(&Shared::new(window), capacity);
    let count = if cfg!(miri) { 50u32 } else { 200_000 };
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut producer = Producer::new(Shared::new(window)).unwrap();
            for k in 0..count {
                while !producer.push(&[&k.to_le_bytes(), &vec![k as u8; k as usize % 300]]).unwrap() {
                    std::thread::yield_now();
                }
            }
        });
        let mut consumer = Consumer::new(Shared::new(window)).unwrap();
        for k in 0..count {
            let record = loop {
                match consumer.peek().unwrap() {
                    Some(record) => break record,
                    None => std::thread::yield_now(),
                }
            };
            let mut bytes = vec![0; record.len()];
            consumer.window(&record).read_into(&mut bytes).unwrap();
            consumer.release(record);
            assert_eq!(bytes[..4], k.to_le_bytes());
            assert!(bytes.len() == 4 + k as usize % 300 && bytes[4..].iter().all(|byte| *byte == k as u8));
        }
    });
}
