//! Ports of queues after a failure: an append without an answer, a node of this host that stood still, a reader or writer that died.

use crate::queue_sets::block;
use crate::{holder, processes, relay, support};

use hanare::{Error, Overflow, Pool, QueueForm, QueueSet, Queues, ReadPort, Unit};
use hanare_protocol::queue::layout::{NEWS_AT, WRITER_AT};
use processes::{Nodes, Process, end_with_the_test, say_ready};
use relay::{Mode, nodes_beside_relay};
use std::time::{Duration, Instant};
use support::{TestPool, on};

const SOON: Option<Duration> = Some(Duration::from_secs(20));

fn form(depth: u32, overflow: Overflow) -> QueueForm {
    QueueForm { unit: Unit::Blocks { len: 16 }, depth, ports: 1, overflow }
}

fn receive(reader: &mut ReadPort) -> u64 {
    let mut unit = Vec::new();
    reader.receive(&mut unit, SOON).unwrap();
    let number = u64::from_le_bytes(*unit.first_chunk().unwrap());
    assert_eq!(unit, block(number), "a block is whole");
    number
}

#[test]
fn after_an_append_without_an_answer_the_next_units_count() {
    let (first, second, relay) = nodes_beside_relay();
    let (far, near) = (Pool::attach_to(first.socket(), None).unwrap(), Pool::attach_to(second.socket(), None).unwrap());
    for overflow in [Overflow::Wait, Overflow::Spill] {
        let name = format!("{overflow:?}");
        let queue = near.create_queue(&name, &form(4, overflow), &on(1)).unwrap();
        let (mut reader, mut writer) = (queue.reader().unwrap(), far.open_queue(&name).unwrap().writer().unwrap());
        writer.send(&block(0)).unwrap();
        relay.set(Mode::LastRequest);
        writer.send(&block(1)).unwrap_err();
        relay.set(Mode::Pass);
        writer.send(&block(2)).unwrap();
        writer.send(&block(3)).unwrap();
        assert_eq!(writer.appended(), 4);
        assert_eq!([(); 4].map(|()| receive(&mut reader)), [0, 1, 2, 3], "{overflow:?}");
        drop((reader, writer));
    }
}

#[test]
fn units_that_never_arrived_take_no_room() {
    let (first, second, relay) = nodes_beside_relay();
    let (far, near) = (Pool::attach_to(first.socket(), None).unwrap(), Pool::attach_to(second.socket(), None).unwrap());
    let queue = near.create_queue("q", &form(1, Overflow::Wait), &on(1)).unwrap();
    let (mut reader, mut writer) = (queue.reader().unwrap(), far.open_queue("q").unwrap().writer().unwrap());
    relay.set(Mode::Dead);
    writer.send(&block(0)).unwrap_err();
    relay.set(Mode::Pass);
    writer.send_within(&block(1), SOON).unwrap();
    assert_eq!(receive(&mut reader), 1);
}

/// A writer opens the lane of one that has left units in the spill, while the reader makes room for them.
#[test]
fn who_opens_a_lane_while_its_spilled_units_come_back_goes_behind_them() {
    let pool = TestPool::start(1, 32 << 20);
    let queue = pool.client(0).create_queue("q", &form(2, Overflow::Spill), &on(0)).unwrap();
    let theirs = pool.client(0).open_queue("q").unwrap();
    for round in 0..400 {
        let mut writer = queue.writer().unwrap();
        (0..3).for_each(|number| writer.send(&block(number)).unwrap());
        writer.close().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut reader = theirs.reader().unwrap();
                assert_eq!([(); 5].map(|()| receive(&mut reader)), [0, 1, 2, 3, 4], "round {round}");
                reader.close().unwrap();
            });
            let mut writer = queue.writer().unwrap();
            (3..5).for_each(|number| writer.send(&block(number)).unwrap());
            writer.close().unwrap();
        });
    }
}

/// As of a program that was stopped for so long that its node gave the lane to another.
#[test]
fn a_writer_whose_lane_is_another_s_learns_of_it_at_its_commit() {
    let pool = TestPool::start(1, 16 << 20);
    for unit in [Unit::Blocks { len: 16 }, Unit::Records { len_max: 16 }] {
        let (name, form) = (format!("{unit:?}"), QueueForm { unit, ..form(4, Overflow::Wait) });
        let queue = pool.client(0).create_queue(&name, &form, &on(0)).unwrap();
        let (mut reader, mut writer) = (queue.reader().unwrap(), queue.writer().unwrap());
        writer.send(&block(0)).unwrap();
        // What the node shows then: another's number, and one more piece of news.
        let region = pool.client(0).open(&name).unwrap();
        let first = form.queue_at(1, 0);
        let mut news = [0u64];
        region.get_values(first + NEWS_AT, &mut news).unwrap();
        region.put_values(first + form.lane_at(0) + WRITER_AT, &[7u64]).unwrap();
        region.put_values(first + NEWS_AT, &[news[0] + 1]).unwrap();
        for _ in 0..2 {
            let error = writer.send(&block(1)).unwrap_err();
            assert!(matches!(error, Error::NotAWriter { lane: 0, .. }), "{error}");
        }
        assert_eq!(receive(&mut reader), 0);
        assert!(reader.try_see().unwrap().is_none(), "what it did not commit is not there");
    }
}

/// A program whose node stands still for longer than it waits for an answer.
pub fn waits_too_long() {
    end_with_the_test();
    let pool = Pool::attach().unwrap();
    let [sends, reads] = ["sends", "reads"].map(|name| pool.create_queue(name, &form(4, Overflow::Wait), &on(0)).unwrap());
    let (mut writer, mut reader, mut of_other) = (sends.writer().unwrap(), reads.reader().unwrap(), reads.writer().unwrap());
    writer.send(&block(0)).unwrap();
    (0..2).for_each(|number| of_other.send(&block(number)).unwrap());
    let seen = reader.see(SOON).unwrap();
    say_ready("");
    let begun = Instant::now();
    // A port more is asked for at the node; what is read may be read without it.
    while !matches!(sends.writer(), Err(Error::NodeLost { .. })) {
        assert!(begun.elapsed() < SOON.unwrap(), "the node answers");
    }
    let is_told = |outcome: Result<(), Error>| matches!(outcome, Err(Error::NodeLost { .. }));
    assert!(is_told(writer.try_claim(16).map(drop)), "another may have its lane");
    assert!(is_told(reader.free(&seen)), "another may read its queue");
    assert!(is_told(of_other.send(&block(2))));
    // Nobody reads what the harness would print.
    std::process::exit(0);
}

#[test]
fn ports_end_when_the_connection_to_their_node_does() {
    let nodes = Nodes::start(1, None);
    let variables = [("HANARE_NODE", nodes.sockets[0].as_str()), ("HANARE_ANSWER_MS", "500")];
    let (mut program, _) = Process::start("queue_failures::waits_too_long", &variables);
    // Again, where the program had no processor meanwhile.
    let begun = Instant::now();
    while program.ended().is_none() && begun.elapsed() < SOON.unwrap() {
        nodes.processes[0].pause(Duration::from_millis(1500));
        std::thread::sleep(Duration::from_millis(100));
    }
    program.join(SOON.unwrap(), "the program");
}

fn take(set: &mut QueueSet) -> (u64, u64) {
    let unread = set.see(SOON).unwrap();
    let mut bytes = [0; 16];
    set.read(&unread, 0, &mut bytes);
    set.free(&unread).unwrap();
    let number = u64::from_le_bytes(*bytes.first_chunk().unwrap());
    assert_eq!(bytes, block(number), "a block is whole");
    (unread.queue(), number)
}

/// The set of a reader that has died.
fn successor(queues: &Queues) -> QueueSet {
    let begun = Instant::now();
    loop {
        match queues.set() {
            Err(Error::SecondReader { .. }) if begun.elapsed() < SOON.unwrap() => std::thread::sleep(Duration::from_millis(1)),
            set => return set.unwrap(),
        }
    }
}

/// A program that reads an array as a set, takes all that a queue has, and is killed before it looks again.
pub fn empties_a_queue_and_dies() {
    let mut set = Pool::attach().unwrap().open_queues("many", 0).unwrap().set().unwrap();
    assert_eq!(take(&mut set), (7, 0));
    holder::wait_for_death();
}

#[test]
fn what_comes_to_a_queue_that_a_dead_set_had_emptied_is_seen() {
    let pool = TestPool::start(2, 64 << 20);
    for next in [0, 1] {
        let queues = pool.client(0).create_queues("many", 100, &form(4, Overflow::Wait), &on(0)).unwrap();
        let mut writer = queues.queue(7).unwrap().writer().unwrap();
        writer.send(&block(0)).unwrap();
        holder::kill(holder::start(concat!(module_path!(), "::empties_a_queue_and_dies"), pool.nodes[0].socket()));
        let mut set = successor(&pool.client(next).open_queues("many", 0).unwrap());
        for number in 1..4 {
            assert!(set.try_see().unwrap().is_none());
            writer.send(&block(number)).unwrap();
            assert_eq!(take(&mut set), (7, number), "read from node {next}");
        }
        drop((set, writer));
        pool.client(0).remove("many").unwrap();
    }
}

/// A set's question for what is on the board is carried out, and its answer lost.
#[test]
fn what_was_taken_from_the_board_by_a_question_without_an_answer_is_seen() {
    let (first, second, relay) = nodes_beside_relay();
    let (far, near) = (Pool::attach_to(first.socket(), None).unwrap(), Pool::attach_to(second.socket(), None).unwrap());
    let queues = near.create_queues("many", 100, &form(4, Overflow::Wait), &on(1)).unwrap();
    let mut set = far.open_queues("many", 0).unwrap().set().unwrap();
    let mut writers = [3, 70].map(|queue| queues.queue(queue).unwrap().writer().unwrap());
    for number in 0..3 {
        writers.iter_mut().for_each(|writer| writer.send(&block(number)).unwrap());
        relay.set(Mode::LoseAnswer);
        set.try_see().map(drop).unwrap_err();
        let mut seen = [(); 2].map(|()| take(&mut set));
        seen.sort_unstable();
        assert_eq!(seen, [(3, number), (70, number)]);
        assert!(set.try_see().unwrap().is_none());
    }
}

/// The last unit of a lane is held while those before it were freed: what is spilled comes into their room.
#[test]
fn what_is_spilled_comes_behind_a_unit_that_is_held() {
    let pool = TestPool::start(2, 32 << 20);
    for client in [0, 1] {
        let name = format!("q{client}");
        let queue = pool.client(0).create_queue(&name, &form(4, Overflow::Spill), &on(0)).unwrap();
        let mut writer = queue.writer().unwrap();
        (0..5).for_each(|number| writer.send(&block(number)).unwrap());
        let mut reader = pool.client(client).open_queue(&name).unwrap().reader().unwrap();
        let seen = [(); 4].map(|()| reader.see(SOON).unwrap());
        reader.free(&seen[2]).unwrap();
        let unread = reader.see(SOON).unwrap();
        let mut bytes = [0; 16];
        reader.read(&unread, 0, &mut bytes);
        assert_eq!(bytes, block(4), "read from node {client}");
        reader.free(&unread).unwrap();
        assert!(reader.try_see().unwrap().is_none());
    }
}
