//! Fuzz targets: memory that another process scribbles over, under each side of lanes and boards, and under words of leases.
#![allow(missing_docs, reason = "a target's name says what it feeds")]

use crate::array::Array;
use crate::lane::{Reader, Writer};
use crate::layout::WORD_LEN;
use crate::lease::{LEASES_LEN, Leases};
use crate::testing::Steps;
use crate::words::Words;
use hanare_protocol::limits::LEASE_COUNT;
use hanare_protocol::lock::lease::LeaseEvent;
use hanare_protocol::queue::layout::{Overflow, QueueForm, Unit};

/// A target's name, and what tries its input.
type FuzzTarget = (&'static str, fn(&[u8]));

/// All of them, by name.
pub const TARGETS: &[FuzzTarget] = &[("lanes", lanes), ("leases", leases)];

/// Bytes of a step: a kind, a number, and a value.
const STEP_LEN: usize = 12;

/// Steps: a kind, a number that may be an offset, and a value.
fn steps(bytes: &[u8]) -> impl Iterator<Item = (u8, usize, u64)> + '_ {
    let step = |step: &[u8; STEP_LEN]| {
        let (value, at) = (u64::from_le_bytes(*step.last_chunk().expect("eight bytes")), [step[1], step[2]]);
        (step[0], usize::from(u16::from_le_bytes(at)), value)
    };
    bytes.as_chunks().0.iter().map(step)
}

/// A lane with its two sides.
struct Sides {
    writer: Option<Writer<Steps>>,
    reader: Option<Reader<Steps>>,
}

/// Most bytes of a unit that is pushed.
const UNIT_LEN: usize = 40;

/// Steps of an array of queues with a form that the first bytes choose. Its sides work while somebody stores anything anywhere.
pub fn lanes(bytes: &[u8]) {
    let Some(([kind, depth, count], rest)) = bytes.split_first_chunk() else { return };
    let unit = match kind % 3 {
        0 => Unit::Blocks { len: 24 },
        1 => Unit::Blocks { len: 8 },
        _ => Unit::Records { len_max: UNIT_LEN as u32 },
    };
    let form = QueueForm { unit, depth: u32::from(depth % 9) + 1, ports: 2, overflow: Overflow::Refuse };
    let count = u64::from(count % 70) + 1;
    let Ok(len) = form.array_len(count) else { return };
    let memory = Steps::new(len as usize);
    let array = Array::new(memory.clone(), form, count);
    let place = array.place(count - 1, 1);
    let fresh = || Sides { writer: Writer::new(memory.clone(), place).ok(), reader: Reader::new(memory.clone(), place).ok() };
    let mut sides = fresh();
    for (kind, at, value) in steps(rest) {
        match kind % 12 {
            0 | 1 => memory.store(at % memory.count(), value),
            2 => read(&mut sides, value),
            3 => write(&mut sides, unit, value),
            4 => sides = fresh(),
            5 => {
                let _ = sides.reader.as_mut().map(|reader| reader.free_to(value));
            }
            6 => place.settle_tail(&memory),
            7 => {
                let _ = sides.writer.as_mut().map(Writer::catch_up);
            }
            8 => array.board().set(value % count),
            9 => {
                let mut found = Vec::new();
                array.board().take(at % 100, &mut found);
                assert!(found.len() <= at % 100 && found.iter().all(|queue| *queue < count), "a queue that there is not");
            }
            10 => {
                let _ = (array.committed(value % count), array.call_set(value % count));
            }
            _ => {
                let _ = array.news(value % count);
                array.leave(value % count);
                array.tell_news(value % count);
            }
        }
    }
}

fn read(sides: &mut Sides, value: u64) {
    let Some(reader) = &mut sides.reader else { return };
    let _ = reader.has_more();
    if value.is_multiple_of(3) {
        reader.rewind();
    }
    match reader.next() {
        Ok(Some(seen)) => {
            assert!(seen.len() <= UNIT_LEN, "a longer unit than the queue has");
            reader.read(&seen, 0, &mut [0; UNIT_LEN][..seen.len()]);
            if value.is_multiple_of(2) {
                reader.free(&seen);
            }
        }
        Ok(None) => {}
        // A side that finds nonsense gives the lane up.
        Err(_) => sides.reader = None,
    }
}

fn write(sides: &mut Sides, unit: Unit, value: u64) {
    let Some(writer) = &mut sides.writer else { return };
    let len = if let Unit::Blocks { len } = unit { len as usize } else { value as usize % (UNIT_LEN + 1) };
    let bytes = &[value as u8; UNIT_LEN][..len];
    let done = match value >> 8 & 3 {
        0 => writer.claim(len).map(|has_room| {
            if has_room {
                writer.fill(0, bytes);
                writer.keep();
            }
        }),
        1 => writer.claim(len).map(|_| writer.abandon()),
        2 => {
            writer.commit();
            Ok(())
        }
        _ => writer.push(bytes).map(drop),
    };
    if done.is_err() {
        sides.writer = None;
    }
}

/// Steps of a program and of its node on words of leases in which somebody stores anything.
pub fn leases(bytes: &[u8]) {
    const EVENTS: [LeaseEvent; 6] =
        [LeaseEvent::Ask, LeaseEvent::Lend, LeaseEvent::Keep, LeaseEvent::Take, LeaseEvent::Recall, LeaseEvent::End];
    let memory = Steps::new(LEASES_LEN + WORD_LEN);
    let [program, node] = [Leases::new(memory.clone(), 1), Leases::new(memory.other_process(), 1)];
    for (kind, at, value) in steps(bytes) {
        match kind % 8 {
            // Nonsense beside words that are some.
            0 => memory.store(at % memory.count(), value),
            1 => memory.store(1 + at % (memory.count() - 1), value % 64),
            2 => {
                let _ = (program.ask(at, value), program.phase(at, value));
            }
            3 | 4 => {
                let _ = program.step(at, value, EVENTS[kind as usize / 8 % EVENTS.len()]);
            }
            5 => {
                let _ = node.recall(value);
            }
            6 => {
                let all = node.recall_all();
                assert!(all.len() <= LEASE_COUNT, "more locks than there are words");
            }
            _ => {
                node.hold_until(value);
                assert_eq!(program.holds(u64::from(kind)), u64::from(kind) < value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hanare_fuzz::{Counting, drive};

    #[global_allocator]
    static COUNTING: Counting = Counting;

    fn step(kind: u8, at: u16, value: u64) -> Vec<u8> {
        [&[kind][..], &at.to_le_bytes(), &[0], &value.to_le_bytes()].concat()
    }

    #[test]
    fn memory_of_lanes_and_boards() {
        let traffic: Vec<u8> = (0..6).flat_map(|k| [step(3, 0, 0x300 | k), step(2, 0, k)].concat()).collect();
        let claimed = [step(3, 0, 9), step(3, 0, 0x200), step(2, 0, 2), step(8, 0, 5), step(9, 9, 0), step(6, 0, 0)].concat();
        let scribbled =
            [&traffic[..], &step(0, 40, u64::MAX), &step(4, 0, 0), &step(5, 0, 24), &step(7, 0, 0), &claimed].concat();
        let seeds: Vec<Vec<u8>> = (0..3).map(|kind| [&[kind, 3, 69][..], &scribbled].concat()).collect();
        drive("lanes", &seeds, 4 << 20, lanes);
    }

    #[test]
    fn words_of_leases() {
        let life: Vec<u8> = (0..6).flat_map(|event| step(3 + 8 * event, 3, 7)).collect();
        let seed = [&step(2, 3, 7)[..], &life, &step(5, 0, 7), &step(6, 0, 0), &step(0, 4, u64::MAX), &step(7, 0, 9)].concat();
        drive("leases", &[seed], 1 << 20, leases);
    }
}
