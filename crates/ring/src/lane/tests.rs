use super::*;
use crate::testing::Steps;
use crate::words::Words;
use hanare_protocol::queue::layout::Overflow;
use proptest::prelude::*;
use std::collections::VecDeque;

fn form(unit: Unit, depth: u32) -> QueueForm {
    QueueForm { unit, depth, ports: 2, overflow: Overflow::Refuse }
}

struct Pair {
    memory: Steps,
    place: LaneLayout,
    writer: Writer<Steps>,
    reader: Reader<Steps>,
}

fn pair(form: &QueueForm) -> Pair {
    let memory = Steps::new(form.queue_len() as usize);
    let place = LaneLayout::new(form, 0, 1);
    let writer = Writer::new(memory.clone(), place).unwrap();
    let reader = Reader::new(memory.other_process(), place).unwrap();
    Pair { memory, place, writer, reader }
}

fn bytes(reader: &Reader<Steps>, seen: &Seen) -> Vec<u8> {
    let mut bytes = vec![0; seen.len()];
    reader.read(seen, 0, &mut bytes);
    bytes
}

/// A unit that is told from all others.
fn unit(unit: Unit, number: u64, len: usize) -> Vec<u8> {
    let len = match unit {
        Unit::Blocks { len } => len as usize,
        Unit::Records { len_max } => len % (len_max as usize + 1),
    };
    (0..len as u64).map(|k| (number * 31 + k) as u8 | 1).collect()
}

#[derive(Clone, Debug)]
enum Step {
    Claim(usize),
    Abandon,
    Keep,
    Publish,
    See,
    Free(usize),
    NextWriter,
    NextReader,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => (0..200usize).prop_map(Step::Claim),
        1 => Just(Step::Abandon),
        8 => Just(Step::Keep),
        4 => Just(Step::Publish),
        8 => Just(Step::See),
        6 => (1..5usize).prop_map(Step::Free),
        1 => Just(Step::NextWriter),
        1 => Just(Step::NextReader),
    ];
    prop::collection::vec(step, 1..300)
}

/// What a lane is, as two plain deques.
#[derive(Default)]
struct Model {
    /// Committed and not freed, and how many of them were seen.
    units: VecDeque<Vec<u8>>,
    seen: usize,
    kept: Vec<Vec<u8>>,
}

proptest! {
    #[test]
    fn a_lane_is_a_deque(steps in steps(), depth in 2u32..6, is_blocks: bool, len in prop::sample::select(vec![16u32, 24, 72])) {
        let kind = if is_blocks { Unit::Blocks { len } } else { Unit::Records { len_max: len } };
        let form = form(kind, depth);
        let Pair { memory, place, mut writer, mut reader } = pair(&form);
        let (mut model, mut number, mut claimed) = (Model::default(), 0, None);
        let mut sights: VecDeque<Seen> = VecDeque::new();
        for step in steps {
            match step {
                Step::Claim(len) => {
                    number += 1;
                    let unit = unit(kind, number, len);
                    let has_room = writer.claim(unit.len()).unwrap();
                    let held = model.units.len() + model.kept.len();
                    if is_blocks {
                        prop_assert_eq!(has_room, held < depth as usize, "a lane holds as many blocks as it is deep");
                    }
                    prop_assert!(has_room || held > 0, "an empty lane takes any unit");
                    claimed = has_room.then(|| {
                        writer.fill(0, &unit);
                        unit
                    });
                }
                Step::Abandon => {
                    writer.abandon();
                    claimed = None;
                }
                Step::Keep => {
                    prop_assert_eq!(writer.keep(), claimed.is_some());
                    model.kept.extend(claimed.take());
                }
                Step::Publish => {
                    writer.publish();
                    model.units.extend(model.kept.drain(..));
                }
                Step::See => match reader.next().unwrap() {
                    Some(seen) => {
                        prop_assert_eq!(&bytes(&reader, &seen), &model.units[model.seen]);
                        sights.push_back(seen);
                        model.seen += 1;
                    }
                    None => prop_assert_eq!(model.seen, model.units.len()),
                },
                Step::Free(count) => {
                    let count = count.min(model.seen);
                    let last = sights.drain(..count).next_back();
                    if let Some(last) = last {
                        reader.free(&last);
                    }
                    model.units.drain(..count);
                    model.seen -= count;
                }
                Step::NextWriter => {
                    writer = Writer::new(memory.clone(), place).unwrap();
                    model.kept.clear();
                    claimed = None;
                }
                Step::NextReader => {
                    reader = Reader::new(memory.other_process(), place).unwrap();
                    sights.clear();
                    model.seen = 0;
                }
            }
        }
        while let Some(seen) = reader.next().unwrap() {
            prop_assert_eq!(&bytes(&reader, &seen), &model.units[model.seen]);
            model.seen += 1;
        }
        prop_assert_eq!(model.seen, model.units.len());
    }

    #[test]
    fn a_lane_full_of_anything_is_read_or_refused(words in prop::collection::vec(any::<u64>(), 64), small: bool, is_blocks: bool) {
        let kind = if is_blocks { Unit::Blocks { len: 24 } } else { Unit::Records { len_max: 40 } };
        let Pair { memory, place, mut writer, mut reader } = pair(&form(kind, 3));
        for (word, value) in (0..memory.count()).zip(words.iter().cycle()) {
            memory.store(word, if small { value % 256 / 8 * 8 } else { *value });
        }
        let fresh = (Writer::new(memory.clone(), place), Reader::new(memory.clone(), place));
        for reader in [Some(&mut reader), fresh.1.ok().as_mut()].into_iter().flatten() {
            for _ in 0..100 {
                let Ok(Some(seen)) = reader.next() else { break };
                bytes(reader, &seen);
                reader.free(&seen);
            }
        }
        for writer in [Some(&mut writer), fresh.0.ok().as_mut()].into_iter().flatten() {
            for _ in 0..10 {
                let Ok(true) = writer.push(&unit(kind, 1, 40)) else { break };
            }
        }
    }
}

// FEATURE: VQ-F1
#[test]
fn a_writer_that_dies_at_any_store_loses_at_most_what_it_had_not_committed() {
    for kind in [Unit::Blocks { len: 24 }, Unit::Records { len_max: 40 }] {
        for start in 0..8 {
            for dies_after in 0..70 {
                let Pair { memory, place, mut writer, mut reader } = pair(&form(kind, 3));
                for number in 0..start {
                    assert!(writer.push(&unit(kind, number, number as usize * 11)).unwrap());
                    let seen = reader.next().unwrap().unwrap();
                    reader.free(&seen);
                }
                let (first, second) = (unit(kind, 100, 40), unit(kind, 101, 17));
                assert!(writer.push(&first).unwrap());
                memory.stop_after(dies_after);
                assert!(writer.push(&second).unwrap());
                memory.stop_after(usize::MAX);
                let mut read = Vec::new();
                while let Some(seen) = reader.next().unwrap() {
                    read.push(bytes(&reader, &seen));
                    reader.free(&seen);
                }
                assert!(read == [first.clone()] || read == [first.clone(), second.clone()], "after {dies_after}: {read:?}");
                // Its home counts what was read, and its successor goes on.
                place.settle_tail(&memory);
                assert_eq!(memory.load(place.tail), reader.head());
                let mut next = Writer::new(memory, place).unwrap();
                assert!(next.push(&second).unwrap());
                let seen = reader.next().unwrap().unwrap();
                assert_eq!(bytes(&reader, &seen), second);
            }
        }
    }
}

#[test]
fn a_reader_that_dies_at_any_store_leaves_the_rest_to_its_successor() {
    let kind = Unit::Blocks { len: 16 };
    for dies_after in 0..4 {
        let Pair { memory, place, mut writer, .. } = pair(&form(kind, 4));
        (0..4).for_each(|number| assert!(writer.push(&unit(kind, number, 0)).unwrap()));
        let dying = memory.other_process();
        dying.stop_after(dies_after);
        let mut reader = Reader::new(dying, place).unwrap();
        for _ in 0..3 {
            let seen = reader.next().unwrap().unwrap();
            reader.free(&seen);
        }
        let mut reader = Reader::new(memory, place).unwrap();
        for number in dies_after.min(3)..4 {
            let seen = reader.next().unwrap().unwrap();
            assert_eq!(bytes(&reader, &seen), unit(kind, number as u64, 0));
        }
        assert_eq!(reader.next(), Ok(None));
    }
}
