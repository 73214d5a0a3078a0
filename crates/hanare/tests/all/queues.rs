//! Queues over real nodes: what is committed is read once and in order, wherever writer, queue and reader are, and whoever dies.

use crate::holder;
use crate::support;

use hanare::{CreateOptions, Error, Overflow, Placement, Pool, Queue, QueueForm, ReadPort, Rights, Unit, WritePort};
use std::time::{Duration, Instant};
use support::{TestPool, on, pattern};

const SOON: Option<Duration> = Some(Duration::from_secs(20));

fn blocks(len: u32, depth: u32, ports: u32, overflow: Overflow) -> QueueForm {
    QueueForm { unit: Unit::Blocks { len }, depth, ports, overflow }
}

fn records(len_max: u32, depth: u32, overflow: Overflow) -> QueueForm {
    QueueForm { unit: Unit::Records { len_max }, depth, ports: 2, overflow }
}

fn block(number: u64) -> Vec<u8> {
    [number.to_le_bytes(), (!number).to_le_bytes()].concat()
}

fn receive(reader: &mut ReadPort) -> Vec<u8> {
    let mut unit = Vec::new();
    reader.receive(&mut unit, SOON).unwrap();
    unit
}

/// Sends numbers 0 to `count` while they are received.
fn stream(mut writer: WritePort, mut reader: ReadPort, count: u64) {
    let sending = std::thread::spawn(move || {
        for number in 0..count {
            match number % 3 {
                0 => writer.send(&block(number)).unwrap(),
                _ => {
                    writer.claim(16, None).unwrap();
                    writer.fill(0, &block(number));
                    writer.keep();
                }
            }
        }
        writer.close().unwrap();
    });
    for number in 0..count {
        assert_eq!(receive(&mut reader), block(number));
    }
    sending.join().unwrap();
    assert_eq!(reader.try_see().unwrap().map(|unread| unread.len()), None);
}

// FEATURE: VQ-F5 VQ-F9
#[test]
fn blocks_arrive_in_order_wherever_writer_queue_and_reader_are() {
    let pool = TestPool::start(3, 32 << 20);
    for overflow in [Overflow::Wait, Overflow::Spill] {
        for (writer, home, reader) in [(0, 0, 0), (1, 0, 0), (0, 0, 1), (0, 1, 2), (1, 0, 1)] {
            let clients = [pool.client(writer), pool.client(reader)];
            let name = format!("q{writer}{home}{reader}{overflow:?}");
            let form = blocks(16, 8, 1, overflow);
            let queue = clients[0].create_queue(&name, &form, &on(home)).unwrap();
            let read = clients[1].open_queue(&name).unwrap().reader().unwrap();
            stream(queue.writer().unwrap(), read, 300);
        }
    }
}

// FEATURE: D3-F6
#[test]
fn records_of_many_lengths_arrive_whole_and_stay_where_they_arrived() {
    let pool = TestPool::start(2, 32 << 20);
    for (name, client, overflow) in [("near", 0, Overflow::Wait), ("far", 1, Overflow::Wait), ("spilt", 1, Overflow::Spill)] {
        let queue = pool.client(0).create_queue(name, &records(5000, 3, overflow), &on(0)).unwrap();
        let mut reader = queue.reader().unwrap();
        let far = pool.client(client).open_queue(name).unwrap();
        let sending = std::thread::spawn(move || {
            let mut writer = far.writer().unwrap();
            for k in 0..200 {
                writer.send(&pattern(k * 613 % 5001, k as u64)).unwrap();
            }
        });
        let region = pool.client(0).open(name).unwrap();
        for k in 0..200 {
            let unread = reader.see(SOON).unwrap();
            assert_eq!(unread.len(), k * 613 % 5001);
            let mut there = vec![0; unread.len()];
            region.get(unread.offset(), &mut there).unwrap();
            assert_eq!(there, pattern(there.len(), k as u64), "record {k} of {name} lies where the port says");
            reader.free(&unread).unwrap();
        }
        sending.join().unwrap();
    }
}

// FEATURE: VQ-F7 VQ-F8 VQ-F10 VQ-F18
#[test]
fn a_writer_fills_in_place_abandons_and_publishes_together() {
    let pool = TestPool::start(2, 32 << 20);
    for client in [0, 1] {
        let name = format!("q{client}");
        let queue = pool.client(0).create_queue(&name, &blocks(16, 4, 1, Overflow::Refuse), &on(0)).unwrap();
        let mut reader = queue.reader().unwrap();
        let mut writer = pool.client(client).open_queue(&name).unwrap().writer().unwrap();
        assert!(writer.try_claim(16).unwrap());
        writer.fill(0, &block(99));
        writer.abandon();
        for number in 0..4 {
            assert!(writer.try_claim(16).unwrap());
            // SAFETY: the window is used before the block is kept.
            unsafe { writer.window() }.write_from(&block(number)).unwrap();
            writer.keep();
        }
        assert!(!writer.try_claim(16).unwrap(), "a lane of four");
        assert_eq!(writer.claim(16, None), Err(Error::QueueFull { queue: format!("'{name}'") }));
        writer.publish().unwrap();
        let seen: Vec<_> = (0..4).map(|_| reader.see(SOON).unwrap()).collect();
        assert!(reader.try_see().unwrap().is_none());
        assert!(!writer.try_send(&block(4)).unwrap(), "nothing was freed");
        for (number, unread) in seen.iter().enumerate() {
            let mut bytes = [0; 16];
            reader.read(unread, 0, &mut bytes);
            assert_eq!(bytes[..], block(number as u64));
        }
        reader.free(&seen[3]).unwrap();
        assert!(writer.try_send(&block(4)).unwrap());
        assert_eq!(receive(&mut reader), block(4));
    }
}

// FEATURE: VQ-F17 VQ-F20
#[test]
fn what_overflows_is_spilled_and_comes_back_in_order_after_its_writer_and_its_reader_went() {
    let pool = TestPool::start(2, 32 << 20);
    for client in [0, 1] {
        let name = format!("q{client}");
        let queue = pool.client(0).create_queue(&name, &blocks(16, 2, 1, Overflow::Spill), &on(0)).unwrap();
        let writers = pool.client(client).open_queue(&name).unwrap();
        let mut writer = writers.writer().unwrap();
        (0..1000).for_each(|number| writer.send(&block(number)).unwrap());
        writer.close().unwrap();
        assert_eq!(queue.stat().unwrap().lanes[0].spilled, 998);
        assert_eq!(queue.stat().unwrap().blocks(queue.form()), Some(1000));
        let mut reader = queue.reader().unwrap();
        (0..500).for_each(|number| assert_eq!(receive(&mut reader), block(number)));
        drop(reader);
        let mut writer = writers.writer().unwrap();
        let mut reader = queue.reader().unwrap();
        for number in 500..1000 {
            writer.send(&block(number + 500)).unwrap();
            assert_eq!(receive(&mut reader), block(number));
        }
        (1000..1500).for_each(|number| assert_eq!(receive(&mut reader), block(number)));
        assert_eq!(queue.stat().unwrap().lanes[0].spilled, 0);
        writer.send(&block(7)).unwrap();
        assert_eq!((receive(&mut reader), queue.stat().unwrap().lanes[0].spilled), (block(7), 0), "directly again");
    }
}

/// A reader waits for a block as long as it says, and a writer for room. Neither loses anything by it.
// FEATURE: VQ-F19
#[test]
fn a_wait_for_a_block_or_for_room_ends_with_its_grace() {
    let pool = TestPool::start(2, 32 << 20);
    let grace = Duration::from_millis(60);
    for client in [0, 1] {
        let name = format!("q{client}");
        let queue = pool.client(0).create_queue(&name, &blocks(16, 2, 1, Overflow::Wait), &on(0)).unwrap();
        let mut reader = queue.reader().unwrap();
        let mut writer = pool.client(client).open_queue(&name).unwrap().writer().unwrap();
        let empty = reader.see(Some(grace)).map(drop);
        assert!(matches!(empty, Err(Error::NotInTime { .. })), "{empty:?}");
        (0..2).for_each(|number| writer.send(&block(number)).unwrap());
        let begun = Instant::now();
        let full = writer.claim(16, Some(grace));
        assert!(matches!(full, Err(Error::NotInTime { .. })) && begun.elapsed() >= grace, "{full:?}");
        let reading = std::thread::spawn(move || {
            std::thread::sleep(grace / 2);
            (0..3).for_each(|number| assert_eq!(receive(&mut reader), block(number)));
        });
        writer.claim(16, SOON).unwrap();
        writer.fill(0, &block(2));
        writer.keep();
        writer.close().unwrap();
        reading.join().unwrap();
    }
}

#[test]
fn a_pool_without_room_refuses_to_spill_and_loses_nothing() {
    let pool = TestPool::start(1, 4 << 20);
    let queue = pool.client(0).create_queue("q", &blocks(4096, 2, 1, Overflow::Spill), &on(0)).unwrap();
    let mut writer = queue.writer().unwrap();
    let mut sent = 0u64;
    while writer.send(&pattern(4096, sent)).is_ok() {
        sent += 1;
        assert!(sent < 2000, "4 MiB are lent");
    }
    assert_eq!(writer.send(&pattern(4096, sent)), Err(Error::QueueFull { queue: "'q'".to_owned() }));
    let mut reader = queue.reader().unwrap();
    assert_eq!(receive(&mut reader), pattern(4096, 0));
    for number in 1..sent {
        assert_eq!(receive(&mut reader), pattern(4096, number), "block {number} of {sent}");
    }
    assert!(reader.try_see().unwrap().is_none());
    writer.send(&pattern(4096, sent)).unwrap();
}

#[test]
fn many_writers_keep_their_own_order() {
    let pool = TestPool::start(2, 32 << 20);
    let queue = pool.client(0).create_queue("q", &blocks(16, 8, 4, Overflow::Wait), &on(0)).unwrap();
    let mut reader = queue.reader().unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let queue = pool.client(thread as usize % 2).open_queue("q").unwrap();
            scope.spawn(move || {
                let mut writer = queue.writer().unwrap();
                (0..200).for_each(|number| writer.send(&[thread.to_le_bytes(), u64::to_le_bytes(number)].concat()).unwrap());
            });
        }
        let mut next = [0u64; 4];
        for _ in 0..800 {
            let unit = receive(&mut reader);
            let (thread, number) = unit.split_at(8);
            let thread = u64::from_le_bytes(thread.try_into().unwrap()) as usize;
            assert_eq!(u64::from_le_bytes(number.try_into().unwrap()), next[thread]);
            next[thread] += 1;
        }
        assert_eq!(next, [200; 4]);
    });
}

// FEATURE: VQ-F14
#[test]
fn one_reader_waits_for_any_of_many_queues() {
    let pool = TestPool::start(2, 256 << 20);
    let form = blocks(16, 2, 1, Overflow::Wait);
    let queues = pool.client(0).create_queues("many", 100_000, &form, &on(0)).unwrap();
    let mut set = queues.set().unwrap();
    assert!(set.try_see().unwrap().is_none());
    let sending = std::thread::spawn({
        let queues = [pool.client(0).open_queues("many", 0).unwrap(), pool.client(1).open_queues("many", 0).unwrap()];
        move || {
            let writers = [7, 64, 4095, 99_999].map(|index| queues[index as usize % 2].queue(index).unwrap().writer().unwrap());
            let mut writers = writers;
            for number in 0..200 {
                for writer in &mut writers {
                    writer.send(&block(number)).unwrap();
                }
            }
        }
    });
    let mut next = std::collections::BTreeMap::<u64, u64>::new();
    for _ in 0..800 {
        let unread = set.see(SOON).unwrap();
        let mut bytes = [0; 16];
        set.read(&unread, 0, &mut bytes);
        set.free(&unread).unwrap();
        let number = next.entry(unread.queue()).or_default();
        assert_eq!(bytes[..], block(*number), "queue {}", unread.queue());
        *number += 1;
    }
    sending.join().unwrap();
    assert_eq!(next.into_iter().collect::<Vec<_>>(), [7, 64, 4095, 99_999].map(|index| (index, 200)));
    // What one set leaves the next finds.
    queues.queue(12_345).unwrap().writer().unwrap().send(&block(1)).unwrap();
    assert_eq!(set.see(SOON).unwrap().queue(), 12_345);
    drop(set);
    assert_eq!(queues.set().unwrap().see(SOON).unwrap().queue(), 12_345);
}

// FEATURE: VQ-F4 VQ-F14
#[test]
fn a_million_queues_are_made_at_once() {
    let pool = TestPool::start(1, 512 << 20);
    let form = blocks(16, 4, 1, Overflow::Refuse);
    let queues = pool.client(0).create_queues("million", 1_000_000, &form, &CreateOptions::default()).unwrap();
    let beyond = form.array_len(1_000_000).unwrap() - 64_000_000;
    assert!(beyond <= 256_000_000, "{beyond} bytes beyond their blocks");
    drop(queues);
    holder::kill(holder::start(concat!(module_path!(), "::uses_some_of_a_million"), pool.nodes[0].socket()));
}

/// A program of its own, because tests of one program share its descriptors.
pub fn uses_some_of_a_million() {
    let queues = Pool::attach().unwrap().open_queues("million", 0).unwrap();
    let before = std::fs::read_dir("/proc/self/fd").unwrap().count();
    let mut set = queues.set().unwrap();
    for index in [999_999, 0, 500_000] {
        queues.queue(index).unwrap().writer().unwrap().send(&block(index)).unwrap();
        let unread = set.see(SOON).unwrap();
        assert_eq!(unread.queue(), index);
        set.free(&unread).unwrap();
    }
    assert!(std::fs::read_dir("/proc/self/fd").unwrap().count() < before + 20, "idle queues have no descriptors");
    holder::wait_for_death();
}

// FEATURE: VQ-F15
#[test]
fn queues_lie_at_any_place_of_a_region() {
    let pool = TestPool::start(1, 32 << 20);
    let client = pool.client(0);
    let region = client.create("r", 1 << 20, &CreateOptions::default()).unwrap();
    region.fill(hanare::Strided::contiguous(0, 1 << 20), &[0xa5]).unwrap();
    let form = blocks(24, 3, 2, Overflow::Refuse);
    region.make_queues(4096, 3, &form).unwrap();
    let queue = client.open_queues("r", 4096).unwrap().queue(2).unwrap();
    assert_eq!(queue.form(), &form);
    let (mut writer, mut reader) = (queue.writer().unwrap(), queue.reader().unwrap());
    writer.send(&pattern(24, 1)).unwrap();
    assert_eq!(receive(&mut reader), pattern(24, 1));
    let no_queue = |offset| matches!(client.open_queues("r", offset), Err(Error::NoQueue { .. }));
    assert!(no_queue(0) && no_queue(64) && no_queue(1) && no_queue(u64::MAX - 63) && no_queue(1 << 20));
    assert!(matches!(region.make_queues(8, 1, &form), Err(Error::BadUse { .. })));
    assert!(matches!(region.make_queues(1 << 20, 1, &form), Err(Error::OutOfRange { .. })));
    assert!(matches!(client.open_queues("r", 4096).unwrap().queue(3), Err(Error::NoQueue { .. })));
}

// FEATURE: VQ-F16
#[test]
fn bad_use_gets_its_own_error() {
    let pool = TestPool::start(2, 32 << 20);
    let (near, far) = (pool.client(0), pool.client(1));
    let queue = near.create_queue("q", &blocks(16, 2, 1, Overflow::Refuse), &on(0)).unwrap();
    let elsewhere = far.open_queue("q").unwrap();
    let (mut writer, reader) = (queue.writer().unwrap(), queue.reader().unwrap());
    for queue in [&queue, &elsewhere] {
        assert_eq!(queue.reader().map(drop), Err(Error::SecondReader { queue: "'q'".to_owned() }));
        assert!(matches!(queue.writer(), Err(Error::LimitReached { limit: 1, .. })));
    }
    for len in [0, 15, 17, 5000] {
        let bad = Error::BadBlock { queue: "'q'".to_owned(), len, limit: 16 };
        assert_eq!(writer.send(&vec![0; len as usize]), Err(bad));
    }
    assert!(matches!(near.open_queue("none"), Err(Error::UnknownRegion { .. })));
    near.create("plain", 4096, &CreateOptions::default()).unwrap();
    assert!(matches!(near.open_queue("plain"), Err(Error::NoQueue { .. })));
    let spread = CreateOptions { placement: Placement::Interleave(4096), ..CreateOptions::default() };
    let wide = blocks(4096, 16, 4, Overflow::Refuse);
    assert!(matches!(near.create_queue("spread", &wide, &spread), Err(Error::BadUse { .. })));
    assert!(matches!(near.open("spread"), Err(Error::UnknownRegion { .. })), "no half of it is left");
    assert!(matches!(far.open_queues("q", 0).unwrap().set(), Err(Error::SecondReader { .. })));
    let reading = near.open_for("q", Rights::Read).unwrap();
    assert!(matches!(reading.make_queues(0, 1, &blocks(16, 2, 1, Overflow::Wait)), Err(Error::BadUse { .. })));
    // A port that is closed makes room for the next.
    drop((writer, reader));
    assert!(elsewhere.reader().is_ok() && elsewhere.writer().is_ok());
}

/// A program that becomes a writer, commits two blocks, claims a third, and is killed.
pub fn writes_and_dies() {
    let pool = Pool::attach().unwrap();
    let mut writer = pool.open_queue("q").unwrap().writer().unwrap();
    writer.send(&block(1)).unwrap();
    writer.send(&block(2)).unwrap();
    assert!(writer.try_claim(16).unwrap());
    writer.fill(0, &block(3)[..8]);
    holder::wait_for_death();
}

#[test]
fn a_dead_writer_delays_nobody_and_is_told_of() {
    let pool = TestPool::start(2, 32 << 20);
    for node in [0, 1] {
        let client = pool.client(0);
        let queue = client.create_queue("q", &blocks(16, 4, 2, Overflow::Wait), &on(0)).unwrap();
        let mut reader = queue.reader().unwrap();
        let dying = holder::start(concat!(module_path!(), "::writes_and_dies"), pool.nodes[node].socket());
        let mut other = queue.writer().unwrap();
        other.send(&block(10)).unwrap();
        let mut got: Vec<_> = (0..3).map(|_| receive(&mut reader)).collect();
        got.sort();
        assert_eq!(got, {
            let mut all = [block(1), block(2), block(10)];
            all.sort();
            all
        });
        holder::kill(dying);
        other.send(&block(11)).unwrap();
        assert_eq!(receive(&mut reader), block(11));
        let told = reader.see(SOON).map(drop).unwrap_err();
        assert!(matches!(told, Error::WriterGone { .. }), "{told}");
        assert!(reader.see(Some(Duration::from_millis(200))).map(drop).unwrap_err().to_string().contains("within 200 ms"));
        drop((reader, other));
        client.remove("q").unwrap();
    }
}

/// A program that becomes the reader, frees one block, sees another, and is killed.
pub fn reads_and_dies() {
    let pool = Pool::attach().unwrap();
    let mut reader = pool.open_queue("q").unwrap().reader().unwrap();
    assert_eq!(receive(&mut reader), block(0));
    reader.see(SOON).unwrap();
    // What was freed of a queue elsewhere is told with the next look.
    assert!(reader.see(Some(Duration::from_millis(50))).is_err());
    holder::wait_for_death();
}

#[test]
fn the_successor_of_a_dead_reader_goes_on_where_it_was() {
    let pool = TestPool::start(2, 32 << 20);
    for node in [0, 1] {
        let client = pool.client(0);
        let queue = client.create_queue("q", &blocks(16, 2, 1, Overflow::Wait), &on(0)).unwrap();
        let mut writer = queue.writer().unwrap();
        (0..2).for_each(|number| writer.send(&block(number)).unwrap());
        let dying = holder::start(concat!(module_path!(), "::reads_and_dies"), pool.nodes[node].socket());
        writer.send_within(&block(2), SOON).unwrap();
        holder::kill(dying);
        let told = writer.claim(16, SOON);
        assert_eq!(told, Err(Error::ReaderGone { queue: "'q'".to_owned() }));
        let mut reader = successor(&queue);
        assert_eq!([receive(&mut reader), receive(&mut reader)], [block(1), block(2)]);
        writer.send_within(&block(3), SOON).unwrap();
        assert_eq!(receive(&mut reader), block(3));
        drop((reader, writer));
        client.remove("q").unwrap();
    }
}

/// The next reader, once the node knows that the last has died.
fn successor(queue: &Queue) -> ReadPort {
    loop {
        match queue.reader() {
            Err(Error::SecondReader { .. }) => std::thread::yield_now(),
            other => return other.unwrap(),
        }
    }
}

#[test]
fn what_a_program_scribbles_hurts_its_queue_alone() {
    let pool = TestPool::start(2, 32 << 20);
    let (near, far) = (pool.client(0), pool.client(1));
    for seed in 0..40 {
        let form = if seed % 2 == 0 { blocks(16, 4, 2, Overflow::Spill) } else { records(100, 4, Overflow::Spill) };
        let queue = near.create_queue("bad", &form, &on(0)).unwrap();
        let elsewhere = far.open_queue("bad").unwrap();
        let sound = near.create_queue("good", &form, &on(0)).unwrap();
        let mut ports = (queue.writer().unwrap(), elsewhere.writer().unwrap(), queue.reader().unwrap());
        let unit = pattern(16, seed);
        (0..20).for_each(|_| ports.0.send(&unit).unwrap());
        let region = near.open("bad").unwrap();
        let garbage = pattern(region.len() as usize, seed + 1);
        // Small numbers reach further than large ones.
        let garbage: Vec<u8> =
            garbage.iter().enumerate().map(|(k, byte)| if seed % 3 == 0 || k % 8 == 0 { *byte } else { 0 }).collect();
        let from = if seed % 5 == 0 { 0 } else { 192 };
        region.put(from, &garbage[from as usize..]).unwrap();
        for _ in 0..10 {
            let _ = (ports.0.try_send(&unit), ports.1.try_send(&unit));
            if let Ok(Some(unread)) = ports.2.try_see() {
                let _ = ports.2.free(&unread);
            }
        }
        let (_, _) = (queue.stat(), elsewhere.stat());
        drop(ports);
        let (mut writer, mut reader) = (sound.writer().unwrap(), sound.reader().unwrap());
        writer.send(&unit).unwrap();
        assert_eq!(receive(&mut reader), unit);
        drop((writer, reader));
        near.remove("bad").unwrap();
        near.remove("good").unwrap();
    }
}

#[test]
fn a_node_that_is_lost_is_told_of() {
    let mut pool = TestPool::start(2, 32 << 20);
    let far = pool.client(0);
    let queue = far.create_queue("q", &blocks(16, 2, 1, Overflow::Wait), &on(1)).unwrap();
    let (mut writer, mut reader) = (queue.writer().unwrap(), queue.reader().unwrap());
    writer.send(&block(1)).unwrap();
    drop(pool.nodes.pop());
    assert!(writer.send(&block(2)).is_err());
    assert!(reader.see(SOON).map(drop).is_err() || reader.see(SOON).map(drop).is_err());
}

#[test]
fn ports_of_a_queue_that_was_removed_close_without_an_error() {
    let pool = TestPool::start(2, 32 << 20);
    for home in 0..2 {
        let (near, far) = (pool.client(0), pool.client(1));
        let queue = near.create_queue("q", &blocks(16, 2, 2, Overflow::Wait), &on(home)).unwrap();
        let (mut writer, mut reader) = (queue.writer().unwrap(), queue.reader().unwrap());
        writer.send(&block(1)).unwrap();
        assert_eq!(receive(&mut reader), block(1));
        far.remove("q").unwrap();
        writer.close().unwrap();
        reader.close().unwrap();
    }
}
