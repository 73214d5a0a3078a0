//! Programs that work on memory of their host as it is, while others come to map the region: idle, at work, stopped, killed, and lying.

use crate::holder;
use crate::intruder::Intruder;
use crate::support;

use hanare::{Consistency, CreateOptions, Error, Pool, Region, Shape, SharedMapping, Strided, Wait, Word};
use hanare_memory::Mapping;
use hanare_protocol::id::Rights;
use hanare_protocol::versions::Versions;
use hanare_protocol::wire::command::{COMMAND_LEN, Command, Op};
use hanare_protocol::wire::control::{Answer, FilePart, Request};
use hanare_protocol::wire::head::{HEAD_LEN, Head, Kind};
use hanare_ring::revoke::REVOKE_LEN;
use rustix::net::{Shutdown, SocketAddrUnix, getpeername, shutdown};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;
use support::{Ends, TestPool, on};

const PAGE: u64 = 4096;
/// What a program puts in one command that takes long.
const LONG_LEN: usize = 32 << 20;

fn map(client: &Pool, name: &str) -> Result<SharedMapping, Error> {
    client.open(name).unwrap().map(Consistency::Coherent)
}

fn get_word(region: &Region, page: u64) -> u64 {
    let mut word = [0; 8];
    region.get(page * PAGE, &mut word).unwrap();
    u64::from_le_bytes(word)
}

fn word(mapping: &SharedMapping, page: u64) -> &AtomicU64 {
    mapping.word(page * PAGE).unwrap()
}

/// Whether commands on a region are messages at this moment.
fn sends(client: &Pool, region: &Region) -> bool {
    let before = client.traffic().messages_sent;
    region.put(8, b"x").unwrap();
    client.traffic().messages_sent > before
}

#[test]
fn an_idle_program_is_not_asked_and_its_next_command_goes_to_the_home() {
    let pool = TestPool::start(2, 16 << 20);
    let (near, far) = (pool.client(0), pool.client(1));
    let region = near.create("a", 64 * PAGE, &on(0)).unwrap();
    let other = near.create("b", 64 * PAGE, &on(0)).unwrap();
    for region in [&region, &other] {
        region.put(0, &7u64.to_le_bytes()).unwrap();
        assert!(!sends(&near, region), "it works without messages");
    }
    for round in 1..4 {
        let mapping = map(&far, "a").unwrap();
        assert_eq!(word(&mapping, 0).swap(round, SeqCst), 7);
        assert_eq!(get_word(&region, 0), round, "its next look sees what another host stored");
        assert!(sends(&near, &region));
        region.put(0, &8u64.to_le_bytes()).unwrap();
        assert_eq!(word(&mapping, 0).swap(7, SeqCst), 8, "and its store is seen there");
        assert!(!sends(&near, &other), "another region is its own still");
        mapping.unmap().unwrap();
        assert_eq!(get_word(&region, 0), 7);
        // It asks its node from time to time.
        assert!((0..1000).any(|_| !sends(&near, &region)), "afterwards it works without messages again");
    }
}

#[test]
fn its_own_mapping_and_those_of_programs_beside_it_take_its_memory_back_too() {
    let pool = TestPool::start(1, 16 << 20);
    let (one, beside) = (pool.client(0), pool.client(0));
    let (region, handle) = (one.create("a", 64 * PAGE, &on(0)).unwrap(), beside.open("a").unwrap());
    region.put(0, &1u64.to_le_bytes()).unwrap();
    assert_eq!(get_word(&handle, 0), 1);
    let mapping = map(&one, "a").unwrap();
    handle.put(0, &2u64.to_le_bytes()).unwrap();
    assert_eq!(word(&mapping, 0).load(SeqCst), 2);
    region.put(0, &3u64.to_le_bytes()).unwrap();
    assert_eq!(get_word(&handle, 0), 3);
    drop(mapping);
    assert_eq!(get_word(&region, 0), 3);
}

#[test]
fn threads_at_work_lose_no_store_while_others_map_and_unmap() {
    const THREADS: u64 = 4;
    let pool = TestPool::start(2, 16 << 20);
    let (near, far) = (pool.client(0), pool.client(1));
    near.create("a", 64 * PAGE, &on(0)).unwrap();
    let is_over = AtomicBool::new(false);
    let last: Vec<u64> = std::thread::scope(|scope| {
        let end = Ends(&is_over);
        let writers: Vec<_> = (0..THREADS)
            .map(|page| {
                let (region, is_over) = (near.open("a").unwrap(), &is_over);
                scope.spawn(move || {
                    let mut number = 0u64;
                    while !is_over.load(SeqCst) {
                        number += 1;
                        region.put(page * PAGE, &number.to_le_bytes()).unwrap();
                        assert_eq!(get_word(&region, page), number, "who puts gets it back");
                    }
                    number
                })
            })
            .collect();
        let mut seen = [0; THREADS as usize];
        for _ in 0..25 {
            let mapping = map(&far, "a").unwrap();
            for _ in 0..20 {
                for page in 0..THREADS {
                    let now = word(&mapping, page).load(SeqCst);
                    assert!(now >= seen[page as usize], "page {page} went back");
                    seen[page as usize] = now;
                    // The page becomes the other host's, and nothing of it changes.
                    word(&mapping, page).fetch_add(0, SeqCst);
                }
            }
            mapping.unmap().unwrap();
        }
        drop(end);
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    });
    let region = far.open("a").unwrap();
    let home: Vec<u64> = (0..THREADS).map(|page| get_word(&region, page)).collect();
    assert_eq!(home, last);
}

pub fn works_on_its_memory() {
    let pool = Pool::attach_alone().unwrap();
    let idle = pool.open("idle").unwrap();
    idle.put(0, b"here").unwrap();
    let long = pool.open("long").unwrap();
    // All of it has bytes, and the command's own are here, before anybody is stopped.
    let bytes = [1, 2].map(|byte| vec![byte; LONG_LEN]);
    long.put(0, &bytes[0]).unwrap();
    std::thread::spawn(move || {
        // Nearly all its time is spent in the command.
        loop {
            bytes.iter().for_each(|bytes| long.put(0, bytes).unwrap());
        }
    });
    holder::wait_for_death();
}

/// Regions for programs that are stopped.
fn with_regions() -> TestPool {
    let pool = TestPool::start(2, 80 << 20);
    let near = pool.client(0);
    near.create("idle", 64 * PAGE, &on(0)).unwrap();
    near.create("long", LONG_LEN as u64, &on(0)).unwrap();
    pool
}

/// A program that has memory of both regions, and is stopped: of one in the middle of a command.
fn stopped(pool: &TestPool) -> std::process::Child {
    let child = holder::start(concat!(module_path!(), "::works_on_its_memory"), pool.nodes[0].socket());
    std::thread::sleep(Duration::from_millis(50));
    kill_process(Pid::from_child(&child), Signal::STOP).unwrap();
    child
}

#[test]
fn a_program_stopped_in_a_command_keeps_its_region_and_it_alone_from_others() {
    let pool = with_regions();
    let far = pool.client(1);
    // One that is stopped between two commands is another test.
    let (child, refused) = (0..10)
        .find_map(|_| {
            let child = stopped(&pool);
            match map(&far, "long") {
                Err(refused) => Some((child, refused.to_string())),
                Ok(mapping) => {
                    holder::kill(child);
                    drop(mapping);
                    None
                }
            }
        })
        .expect("one is in the middle of its command");
    let pid = Pid::from_child(&child);
    assert!(refused.contains("do not end a command"), "{refused}");
    map(&far, "idle").unwrap();
    let waits = std::thread::scope(|scope| {
        let waits = scope.spawn(|| map(&far, "long"));
        std::thread::sleep(Duration::from_millis(100));
        kill_process(pid, Signal::CONT).unwrap();
        waits.join().unwrap()
    });
    // Its command ended where it was, and those after it go to the home: each page is one of its bytes all over.
    let mapping = waits.unwrap();
    let mut page = [0; PAGE as usize];
    for at in (0..LONG_LEN as u64).step_by(1 << 20) {
        mapping.read(at, &mut page).unwrap();
        assert!(page.iter().all(|byte| *byte == page[0]) && page[0] != 0, "offset {at}");
    }
    holder::kill(child);
}

#[test]
fn a_program_stopped_beside_its_memory_keeps_nobody_from_it() {
    let pool = TestPool::start(2, 16 << 20);
    let (near, far) = (pool.client(0), pool.client(1));
    near.create("only", 64 * PAGE, &on(0)).unwrap();
    let child = holder::start(concat!(module_path!(), "::has_memory_and_is_idle"), pool.nodes[0].socket());
    kill_process(Pid::from_child(&child), Signal::STOP).unwrap();
    let mapping = map(&far, "only").unwrap();
    let mut bytes = [0; 4];
    mapping.read(0, &mut bytes).unwrap();
    assert_eq!(&bytes, b"here");
    holder::kill(child);
}

pub fn has_memory_and_is_idle() {
    let pool = Pool::attach_alone().unwrap();
    let region = pool.open("only").unwrap();
    region.put(0, b"here").unwrap();
    holder::wait_for_death();
}

/// Ends this process's connections to the node there, as a program does that has waited for an answer for too long.
fn hang_up(socket: &str) {
    let name = socket.strip_prefix('@').unwrap().as_bytes();
    for entry in std::fs::read_dir("/proc/self/fd").unwrap() {
        let fd: i32 = entry.unwrap().file_name().to_str().unwrap().parse().unwrap();
        // SAFETY: it is looked at and, where it is one of this test's own, shut down; its owner closes it.
        let fd = unsafe { BorrowedFd::borrow_raw(fd) };
        let peer = getpeername(fd).ok().flatten().and_then(|peer| SocketAddrUnix::try_from(peer).ok());
        if peer.is_some_and(|peer| peer.abstract_name() == Some(name)) {
            shutdown(fd, Shutdown::Both).unwrap();
        }
    }
}

#[test]
fn a_program_that_lives_without_its_connection_puts_nothing_past_the_pages() {
    let pool = TestPool::start(2, 16 << 20);
    let (near, far) = (pool.client(0), pool.client(1));
    let region = near.create("a", 64 * PAGE, &on(0)).unwrap();
    region.put(0, &1u64.to_le_bytes()).unwrap();
    assert!(!sends(&near, &region));
    hang_up(pool.nodes[0].socket());
    // The node hears of it.
    std::thread::sleep(Duration::from_millis(200));
    region.put(0, &7u64.to_le_bytes()).unwrap();
    let mapping = map(&far, "a").unwrap();
    assert_eq!(word(&mapping, 0).swap(8, SeqCst), 7);
    for number in 10u64..20 {
        let is_put = region.put(0, &number.to_le_bytes()).is_ok();
        let expected = if is_put { number } else { 8 };
        assert_eq!(word(&mapping, 0).load(SeqCst), expected, "what is told to be put is there");
    }
}

#[test]
fn a_program_killed_in_a_command_keeps_nobody_from_its_region() {
    let pool = with_regions();
    let far = pool.client(1);
    let child = stopped(&pool);
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| map(&far, "long"));
        std::thread::sleep(Duration::from_millis(100));
        holder::kill(child);
        waits.join().unwrap().unwrap();
    });
}

#[test]
fn a_program_that_lies_about_its_work_harms_its_regions_alone() {
    let pool = TestPool::start(2, 16 << 20);
    let (near, far) = (pool.client(0), pool.client(1));
    let mine = near.create("mine", 64 * PAGE, &on(0)).unwrap();
    near.create("its", 64 * PAGE, &CreateOptions { mode: 0o666, ..on(0) }).unwrap();
    mine.put(0, b"mine").unwrap();
    let mut liar = Intruder::connect(pool.nodes[0].socket());
    let (answer, fds) = liar.ask_with_fds(&Request::Attach { versions: Versions::BUILD, job: None });
    assert!(matches!(answer, Ok(Answer::Attached(_))));
    let len = REVOKE_LEN as u64;
    let mut slots = Mapping::reserve(len).unwrap();
    slots.map_file(0, fds[2].as_fd(), FilePart { offset: 0, len, map_len: len }, Rights::Write).unwrap();
    // SAFETY: used while the mapping is there.
    unsafe { slots.window() }.slice(0, REVOKE_LEN).write_from(&vec![0xff; REVOKE_LEN]).unwrap();
    let view = liar.open("its", Rights::Write);
    let slot = view.layout.extents().next().unwrap().slot;
    assert!(matches!(liar.ask(&Request::Map { slot, grant: view.grants[0], pins: false }), Ok(Answer::Files(_))));
    map(&far, "mine").unwrap().unmap().unwrap();
    assert!(map(&far, "its").is_err(), "it says that it is at work");
    map(&far, "mine").unwrap().unmap().unwrap();
    drop((liar, fds));
    map(&far, "its").unwrap();
}

#[test]
fn a_command_of_another_host_that_is_not_moved_on_goes_on_by_pages() {
    const LEN: u64 = 64 * PAGE;
    const FIRST: usize = 10_000;
    let pool = TestPool::start(2, 16 << 20);
    let (near, far) = (pool.client(0), pool.client(1));
    let region = near.create("a", LEN, &CreateOptions { mode: 0o666, ..on(0) }).unwrap();
    let mut opener = Intruder::attach(pool.nodes[0].socket());
    let view = opener.open("a", Rights::Write);
    let slot = view.layout.extents().next().unwrap().slot;
    // Bytes in a row go to where they belong as they come, and blocks through the node's stage.
    let blocks = Strided { offset: 0, block: 8, count: LEN / 8, stride: 8 };
    for (byte, shape) in [(7, Shape::contiguous(0, LEN)), (9, Shape::from(blocks))] {
        let mut slow = support::data_link(pool.nodes[0].address());
        slow.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let put = Command::new(Op::Put, 0, slot, view.grants[0], &shape);
        let head = Head { count: 1, body_len: COMMAND_LEN as u64 + LEN, ..Head::new(Kind::Commands, 5) };
        slow.write_all(&[&head.encode()[..], &put.encode(), &[byte; FIRST]].concat()).unwrap();
        if byte == 7 {
            let until = |at: u64| {
                while get_byte(&region, at) != byte {
                    std::thread::yield_now()
                }
            };
            until(FIRST as u64 - 1);
        } else {
            std::thread::sleep(Duration::from_millis(100));
        }
        let mapping = map(&far, "a").unwrap();
        word(&mapping, 63).store(1, SeqCst);
        slow.write_all(&vec![byte; LEN as usize - FIRST]).unwrap();
        let mut answer = [0; HEAD_LEN];
        loop {
            slow.read_exact(&mut answer).unwrap();
            let answer = Head::decode(&answer).unwrap();
            if answer.kind != Kind::Working {
                assert_eq!((answer.kind, answer.body_len), (Kind::Done, 0));
                break;
            }
        }
        let mut bytes = vec![0; LEN as usize];
        mapping.read(0, &mut bytes).unwrap();
        assert!(bytes.iter().all(|is| *is == byte), "all of the command is there, over what was stored before it went on");
        mapping.unmap().unwrap();
    }
}

fn get_byte(region: &Region, at: u64) -> u8 {
    let mut byte = [0];
    region.get(at, &mut byte).unwrap();
    byte[0]
}

#[test]
fn who_waits_for_a_word_here_goes_on_waiting_at_its_home() {
    let pool = TestPool::start(2, 16 << 20);
    let (near, far) = (pool.client(0), pool.client(1));
    let region = near.create("a", 64 * PAGE, &on(0)).unwrap();
    region.put(0, &1u64.to_le_bytes()).unwrap();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| region.wait_until(0, Wait::Equal(Word::U64(9)), Some(Duration::from_secs(20))));
        std::thread::sleep(Duration::from_millis(50));
        let mapping = map(&far, "a").unwrap();
        std::thread::sleep(Duration::from_millis(20));
        word(&mapping, 0).store(9, SeqCst);
        assert_eq!(waits.join().unwrap().unwrap(), 9);
    });
}
