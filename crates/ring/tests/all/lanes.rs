//! Every order in which writers and a reader can meet in the lanes of a queue and at its board, by loom.

use crate::ordered;

use hanare_protocol::queue::layout::{Overflow, QueueForm, READER_BELL_AT, SET_BELL_AT, Unit};
use hanare_ring::Words;
use hanare_ring::array::{ALL_ASLEEP, Array, REMOTE, Wake};
use hanare_ring::lane::{LaneLayout, Reader, Writer};
use loom::thread;
use ordered::Ordered;

/// Lanes of blocks of two words.
fn form(depth: u32, ports: u32) -> QueueForm {
    QueueForm { unit: Unit::Blocks { len: 16 }, depth, ports, overflow: Overflow::Refuse }
}

fn memory(form: &QueueForm) -> Ordered {
    Ordered::new(form.queue_len() as usize / 8)
}

fn block(number: u8) -> [u8; 16] {
    [number; 16]
}

fn read(reader: &mut Reader<Ordered>) -> Option<u8> {
    let seen = reader.next().unwrap()?;
    let mut bytes = [0; 16];
    reader.read(&seen, 0, &mut bytes);
    reader.free(&seen);
    assert_eq!(bytes, block(bytes[0]), "a block is whole");
    Some(bytes[0])
}

/// A writer of three units in a lane of one: what is read is a beginning of what was written, and none is overwritten unread.
fn units_are_whole_in_order_and_once(form: QueueForm) {
    loom::model(move || {
        let (memory, place) = (memory(&form), LaneLayout::new(&form, 0, 0));
        let mut writer = Writer::new(memory.clone(), place).unwrap();
        let mut reader = Reader::new(memory, place).unwrap();
        let writing = thread::spawn(move || {
            let mut written = 0;
            for _ in 0..3 {
                written += u8::from(writer.push(&block(written + 1)).unwrap());
            }
            written
        });
        let mut wanted = 1;
        for _ in 0..2 {
            if let Some(number) = read(&mut reader) {
                assert_eq!(number, wanted);
                wanted += 1;
            }
        }
        let written = writing.join().unwrap();
        while let Some(number) = read(&mut reader) {
            assert_eq!(number, wanted);
            wanted += 1;
        }
        assert_eq!(wanted, written + 1);
    });
}

#[test]
fn blocks_are_whole_in_order_and_once_in_every_order() {
    units_are_whole_in_order_and_once(form(1, 1));
}

/// The second ends where the lane ends, and the third begins over the first.
#[test]
fn records_are_whole_in_order_and_once_in_every_order() {
    units_are_whole_in_order_and_once(QueueForm { unit: Unit::Records { len_max: 16 }, ..form(2, 1) });
}

/// Records that are published together are seen from the first to the last, or not at all.
#[test]
fn records_that_were_kept_are_there_at_once_in_every_order() {
    loom::model(|| {
        let form = QueueForm { unit: Unit::Records { len_max: 16 }, ..form(4, 1) };
        let (memory, place) = (memory(&form), LaneLayout::new(&form, 0, 0));
        let mut writer = Writer::new(memory.clone(), place).unwrap();
        let mut reader = Reader::new(memory, place).unwrap();
        let writing = thread::spawn(move || {
            for number in [1, 2] {
                assert!(writer.claim(16).unwrap());
                writer.fill(0, &block(number));
                writer.keep();
            }
            writer.publish();
        });
        let seen = read(&mut reader);
        let more = seen.and_then(|_| read(&mut reader));
        writing.join().unwrap();
        assert!((seen, more) == (None, None) || (seen, more) == (Some(1), Some(2)), "{seen:?}, {more:?}");
    });
}

/// Two writers, each in its own lane, and a reader: neither hinders the other.
#[test]
fn lanes_of_two_writers_are_apart_in_every_order() {
    loom::model(|| {
        let form = form(1, 2);
        let memory = memory(&form);
        let writers = [0u32, 1].map(|lane| {
            let mut writer = Writer::new(memory.clone(), LaneLayout::new(&form, 0, lane)).unwrap();
            thread::spawn(move || assert!(writer.push(&block(lane as u8 + 1)).unwrap()))
        });
        let mut readers = [0, 1].map(|lane| Reader::new(memory.clone(), LaneLayout::new(&form, 0, lane)).unwrap());
        let seen = [0, 1].map(|lane: usize| read(&mut readers[lane]));
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        for lane in 0..2 {
            let number = seen[lane].or_else(|| read(&mut readers[lane]));
            assert_eq!(number, Some(lane as u8 + 1));
        }
    });
}

/// A reader that leaves its queue to the board and looks again never misses a block: the board tells, or it saw the block.
#[test]
fn a_queue_with_something_is_on_the_board_or_was_seen() {
    loom::model(|| {
        let form = form(1, 1);
        let array = Array::new(Ordered::new(form.array_len(1).unwrap() as usize / 8), form, 1);
        let (memory, place, theirs) = (array.words().clone(), array.place(0, 0), array.clone());
        // Somebody committed before, and the reader has learnt of it from the board.
        array.committed(0);
        array.board().take(1, &mut Vec::new());
        let mut writer = Writer::new(memory.clone(), place).unwrap();
        let mut reader = Reader::new(memory, place).unwrap();
        let writing = thread::spawn(move || {
            assert!(writer.push(&block(1)).unwrap());
            theirs.committed(0);
        });
        array.leave(0);
        let saw = read(&mut reader).is_some();
        writing.join().unwrap();
        let mut ready = Vec::new();
        array.board().take(1, &mut ready);
        assert!(saw || ready == [0], "the block is there, nobody saw it, and the board does not tell");
    });
}

/// The same for one on another host, which has only its words stored at the queue's node and looks there once more.
#[test]
fn a_reader_that_waits_at_the_node_is_told_or_saw_the_block() {
    loom::model(|| {
        let form = form(1, 1);
        let array = Array::new(Ordered::new(form.array_len(1).unwrap() as usize / 8), form, 1);
        array.attend(0);
        let theirs = array.clone();
        let writing = thread::spawn(move || {
            let mut writer = Writer::new(theirs.words().clone(), theirs.place(0, 0)).unwrap();
            assert!(writer.push(&block(1)).unwrap());
            theirs.committed(0)
        });
        let mut reader = Reader::new(array.words().clone(), array.place(0, 0)).unwrap();
        array.words().swap((array.queue_at(0) + READER_BELL_AT) as usize / 8, REMOTE);
        // Messages lie between this and the look, for longer than a store takes to be seen.
        array.words().heavy_fence();
        let saw = read(&mut reader).is_some();
        let wake = writing.join().unwrap();
        assert!(saw || wake == Wake::Remote, "{wake:?}: it waits, and nobody rings the node");
    });
}

/// One who waits for all queues of an array, on this host or at the node, is told by the writer that finds its queue left to the board.
#[test]
fn a_set_that_sleeps_is_told_or_took_the_queue_from_the_board() {
    for is_remote in [false, true] {
        loom::model(move || {
            let form = form(1, 1);
            let array = Array::new(Ordered::new(form.array_len(1).unwrap() as usize / 8), form, 1);
            let theirs = array.clone();
            let writing = thread::spawn(move || {
                let mut writer = Writer::new(theirs.words().clone(), theirs.place(0, 0)).unwrap();
                assert!(writer.push(&block(1)).unwrap());
                theirs.committed(0)
            });
            if is_remote {
                array.words().swap(SET_BELL_AT as usize / 8, ALL_ASLEEP);
                array.words().fence();
            } else {
                array.announce_set();
                array.fence();
            }
            let mut ready = Vec::new();
            array.board().take(1, &mut ready);
            let wake = writing.join().unwrap();
            let wanted = if is_remote { Wake::SetRemote } else { Wake::Set };
            assert!(ready == [0] || wake == wanted, "{wake:?}: it waits, and nobody wakes it");
        });
    }
}

/// A reader with an event descriptor: a thread of its own waits at the bell, and makes the descriptor readable when the bell has changed.
/// The reader looks, arms, and looks again; the thread sees the bell change whenever the reader saw nothing.
#[test]
fn an_armed_reader_s_bell_changes_or_it_saw_the_block() {
    loom::model(|| {
        let form = form(1, 1);
        let array = Array::new(Ordered::new(form.array_len(1).unwrap() as usize / 8), form, 1);
        array.attend(0);
        let (theirs, watched) = (array.clone(), array.clone());
        let writing = thread::spawn(move || {
            let mut writer = Writer::new(theirs.words().clone(), theirs.place(0, 0)).unwrap();
            assert!(writer.push(&block(1)).unwrap());
            theirs.committed(0) == Wake::Reader
        });
        let mut reader = Reader::new(array.words().clone(), array.place(0, 0)).unwrap();
        array.doze(0);
        let saw = read(&mut reader).is_some();
        // The thread begins to watch after the reader has armed; it parks only while the bell says that nobody has committed.
        let parks = thread::spawn(move || watched.bell(Some(0)).is_asleep());
        let (parks, woke) = (parks.join().unwrap(), writing.join().unwrap());
        assert!(saw || !parks || woke, "the block is there, the thread parks, and nobody wakes it");
    });
}

/// A reader of two queues announces sleep at both, and one fence serves for both looks.
#[test]
fn a_reader_that_sleeps_at_two_queues_is_woken_at_each_or_saw_its_block() {
    let mut model = loom::model::Builder::new();
    // Three threads have too many orders for all of them.
    model.preemption_bound = Some(3);
    model.check(|| {
        let form = form(1, 1);
        let array = Array::new(Ordered::with_full_fences(form.array_len(2).unwrap() as usize / 8), form, 2);
        (0..2).for_each(|queue| array.attend(queue));
        let writers = [0, 1].map(|queue| {
            let array = array.clone();
            thread::spawn(move || {
                let mut writer = Writer::new(array.words().clone(), array.place(queue, 0)).unwrap();
                assert!(writer.push(&block(1)).unwrap());
                array.committed(queue) == Wake::Reader
            })
        });
        let mut readers = [0, 1].map(|queue| Reader::new(array.words().clone(), array.place(queue, 0)).unwrap());
        (0..2).for_each(|queue| array.announce(queue));
        array.fence();
        let saw = readers.each_mut().map(|reader| read(reader).is_some());
        let woke = writers.map(|writer| writer.join().unwrap());
        assert!((0..2).all(|queue| saw[queue] || woke[queue]), "it sleeps at a queue that has a block: {saw:?} {woke:?}");
    });
}

/// The same for one that sleeps at its queue, with two writers.
#[test]
fn a_reader_that_sleeps_is_woken_or_saw_the_block() {
    let mut model = loom::model::Builder::new();
    // Three threads have too many orders for all of them.
    model.preemption_bound = Some(3);
    model.check(|| {
        let form = form(1, 2);
        let array = Array::new(Ordered::with_full_fences(form.array_len(1).unwrap() as usize / 8), form, 1);
        array.attend(0);
        let writers = [0, 1].map(|lane| {
            let array = array.clone();
            thread::spawn(move || {
                let mut writer = Writer::new(array.words().clone(), array.place(0, lane)).unwrap();
                assert!(writer.push(&block(1)).unwrap());
                array.committed(0) == Wake::Reader
            })
        });
        let mut readers = [0, 1].map(|lane| Reader::new(array.words().clone(), array.place(0, lane)).unwrap());
        array.doze(0);
        let saw = readers.iter_mut().filter_map(read).count();
        let woke = writers.map(|writer| writer.join().unwrap());
        assert!(saw == 2 || woke != [false; 2], "it parked with {saw} seen, and nobody wakes it");
    });
}
