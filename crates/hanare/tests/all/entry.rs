//! Data bound to locks: brought with the lock, seen after its release, whole or not at all where a holder dies.

use crate::apart::{self, Apart};
use crate::holder;
use crate::intruder::Intruder;
use crate::raw_link::Raw;
use crate::support;

use hanare::{Consistency, CreateOptions, Error, LockGuard, Placement, Pool, Rights, SharedMapping, Strided};
use hanare_protocol::entry::{BoundRange, BoundShape, DataGrant, Publication, Stores};
use hanare_protocol::id::NodeId;
use hanare_protocol::limits::{LEASE_TAKING_COUNT_MAX, RELEASE_LEN_MAX};
use hanare_protocol::wire::carried::ExtentAddress;
use hanare_protocol::wire::sync::{LeaseWish, Mode, SyncAddress, SyncAnswer, SyncRequest};
use support::{TestPool, on, pattern};

const PAGE: u64 = 4096;

fn map(client: &Pool) -> SharedMapping {
    client.open("data").unwrap().map(Consistency::Entry).unwrap()
}

fn bytes(offset: u64, len: u64) -> Strided {
    Strided::contiguous(offset, len)
}

fn bind(client: &Pool, name: &str, mapping: &SharedMapping, shapes: &[Strided]) {
    let mut lock = client.lock(name).unwrap();
    let shapes: Vec<BoundShape> = shapes.iter().map(|shape| mapping.bytes(*shape).unwrap()).collect();
    lock.bind(&shapes).unwrap();
    lock.unlock().unwrap();
}

fn read(lock: &LockGuard, mapping: &SharedMapping, offset: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    lock.read(mapping, offset, &mut bytes).unwrap();
    bytes
}

/// What is at home, whatever anybody has of it.
fn at_home(client: &Pool, offset: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    client.open("data").unwrap().get(offset, &mut bytes).unwrap();
    bytes
}

#[test]
// FEATURE: RF-F14
fn stores_are_seen_by_the_next_holder_and_by_nobody_before_the_release() {
    let pool = TestPool::start(2, 32 << 20);
    let (near, far) = (pool.client(0), pool.client(1));
    // At home of the writer, of the reader.
    for node in [0, 1] {
        near.create("data", 4 * PAGE, &on(node)).unwrap();
        let (here, there) = (map(&near), map(&far));
        bind(&near, "a", &here, &[bytes(100, 50), bytes(PAGE, 2 * PAGE)]);
        for turn in 1..6u8 {
            let mut lock = near.lock("a").unwrap();
            lock.write(&here, 100, &[turn; 50]).unwrap();
            lock.write(&here, PAGE + 7, &[turn; PAGE as usize]).unwrap();
            assert_eq!(at_home(&far, 100, 50), [turn - 1; 50], "nobody sees it before the release");
            lock.unlock().unwrap();
            assert_eq!(at_home(&far, 100, 50), [turn; 50]);
            let lock = far.lock_shared("a").unwrap();
            assert!(!lock.was_abandoned() && !lock.is_torn());
            assert_eq!(read(&lock, &there, 100, 50), [turn; 50]);
            assert_eq!(read(&lock, &there, PAGE + 7, PAGE as usize), [turn; PAGE as usize]);
            lock.unlock().unwrap();
        }
        drop((here, there));
        bind_nothing(&near);
        near.remove("data").unwrap();
    }
}

/// A program that alone wants a lock keeps it, with what is bound to it: who only reads sends nothing, and who stores releases as ever.
#[test]
fn a_leased_lock_has_its_data_as_they_were_left() {
    let pool = TestPool::start(2, 32 << 20);
    let (near, far) = (pool.client(0), pool.client(1));
    for node in [0, 1] {
        near.create("data", PAGE, &on(node)).unwrap();
        let (here, there) = (map(&near), map(&far));
        bind(&near, "a", &here, &[bytes(100, 50)]);
        for turn in 1..5u8 {
            // So often is a lock asked for before it is leased, however often it was recalled; the first taking hears of the last recall.
            let sees = |value: u8| {
                let lock = far.lock("a").unwrap();
                assert!(!lock.was_abandoned() && !lock.is_torn());
                assert_eq!(read(&lock, &there, 100, 50), [value; 50]);
                lock.unlock().unwrap();
            };
            (0..=LEASE_TAKING_COUNT_MAX).for_each(|_| sees(turn - 1));
            assert_eq!(messages(&far, || (0..10).for_each(|_| sees(turn - 1))), (0, 0), "it is leased");
            for value in [100 + turn, 200 + turn] {
                let stores = || {
                    let mut lock = far.lock("a").unwrap();
                    lock.write(&there, 100, &[value; 50]).unwrap();
                    lock.unlock().unwrap();
                };
                // What lies at the lock's home goes there in one message, and the lock stays leased.
                let (sent, answered) = messages(&far, stores);
                assert!(node != 0 || (sent, answered) == (1, 1), "{sent} sent, {answered} answered");
                assert_eq!(at_home(&near, 100, 50), [value; 50]);
                assert_eq!(messages(&far, || sees(value)), (0, 0), "it is leased");
            }
            // Somebody else wants it, and has it.
            let mut lock = near.lock("a").unwrap();
            assert!(!lock.was_abandoned() && !lock.is_torn());
            assert_eq!(read(&lock, &here, 100, 50), [200 + turn; 50]);
            lock.write(&here, 100, &[turn; 50]).unwrap();
            lock.unlock().unwrap();
        }
        drop((here, there));
        bind_nothing(&near);
        near.remove("data").unwrap();
    }
}

pub fn keeps_a_lock_with_data_and_dies() {
    let pool = Pool::attach_alone().unwrap();
    let mapping = map(&pool);
    let store = |name: &str, value: u8| {
        let mut lock = pool.lock(name).unwrap();
        lock.write(&mapping, if name == "kept" { 0 } else { 100 }, &[value; 50]).unwrap();
        lock
    };
    for turn in 1..4 {
        ["kept", "held"].into_iter().for_each(|name| store(name, turn).unlock().unwrap());
    }
    let _held = store("held", 9);
    holder::wait_for_death();
}

#[test]
fn who_dies_with_a_lock_that_is_lent_has_released_what_it_gave_back_and_nothing_else() {
    let pool = TestPool::start(2, 32 << 20);
    for node in [0, 1] {
        let (near, far) = (pool.client(0), pool.client(1));
        near.create("data", PAGE, &on(node)).unwrap();
        let (here, there) = (map(&near), map(&far));
        bind(&near, "kept", &here, &[bytes(0, 50)]);
        bind(&near, "held", &here, &[bytes(100, 50)]);
        let child = holder::start(concat!(module_path!(), "::keeps_a_lock_with_data_and_dies"), pool.nodes[1].socket());
        holder::kill(child);
        for (client, mapping, is_first) in [(&near, &here, true), (&far, &there, false)] {
            for (name, offset) in [("kept", 0), ("held", 100)] {
                let lock = client.lock(name).unwrap();
                assert_eq!(lock.was_abandoned(), is_first && name == "held", "{name}");
                assert!(!lock.is_torn());
                assert_eq!(read(&lock, mapping, offset, 50), [3; 50], "{name}");
                lock.unlock().unwrap();
            }
        }
        drop((here, there));
        for name in ["kept", "held"] {
            let mut lock = near.lock(name).unwrap();
            lock.bind(&[]).unwrap();
            lock.unlock().unwrap();
        }
        near.remove("data").unwrap();
    }
}

/// A part of what is bound to a lock is flushed in its section, by this thread or another: the next holder has a page of it.
#[test]
fn a_flush_in_a_section_hides_nothing_from_the_next_holder() {
    let pool = TestPool::start(3, 32 << 20);
    let (near, far) = (pool.client(0), pool.client(1));
    near.create("data", 4 * PAGE, &on(2)).unwrap();
    let (here, there) = (map(&near), map(&far));
    bind(&near, "a", &here, &[bytes(100, 50), bytes(PAGE, PAGE)]);
    for turn in 1..4u8 {
        assert_eq!(read(&far.lock_shared("a").unwrap(), &there, 100, 50), [turn - 1; 50], "it has the version before");
        let mut lock = near.lock("a").unwrap();
        lock.write(&here, 100, &[turn; 50]).unwrap();
        here.write(50, &[turn; 50]).unwrap();
        here.flush(0, 4 * PAGE).unwrap();
        assert_eq!(at_home(&far, 50, 50), [turn; 50], "what is bound to nothing went home");
        lock.unlock().unwrap();
        assert_eq!(read(&far.lock_shared("a").unwrap(), &there, 100, 50), [turn; 50]);
    }
}

fn bind_nothing(client: &Pool) {
    let mut lock = client.lock("a").unwrap();
    lock.bind(&[]).unwrap();
    lock.unlock().unwrap();
}

/// Messages that a client sends and receives meanwhile.
fn messages(client: &Pool, work: impl FnOnce()) -> (u64, u64) {
    let before = client.traffic();
    work();
    let after = client.traffic();
    (after.messages_sent - before.messages_sent, after.messages_received - before.messages_received)
}

#[test]
// FEATURE: RF-F7 RF-F11 RF-F14
fn what_has_changed_comes_with_the_grant_and_what_has_not_costs_nothing() {
    let pool = TestPool::start(3, 32 << 20);
    let (near, far) = (pool.client(0), pool.client(1));
    near.create("data", 4 * PAGE, &on(2)).unwrap();
    let (here, there) = (map(&near), map(&far));
    bind(&near, "a", &here, &[bytes(0, 2 * PAGE)]);
    let take = || read(&far.lock_shared("a").unwrap(), &there, 0, PAGE as usize);
    take();
    assert_eq!(messages(&far, || drop(take())), (2, 2), "taken again: the lock, and back");
    let fetched = there.counts().fetches;
    let page = pattern(PAGE as usize, 7);
    let mut lock = near.lock("a").unwrap();
    lock.write(&here, 0, &page).unwrap();
    assert_eq!(messages(&near, || lock.unlock().unwrap()).0, 2, "what is published, and what is sent home: the lock is leased");
    assert_eq!(messages(&far, || assert_eq!(take(), page)), (2, 2), "a page came with the lock");
    assert_eq!(there.counts().fetches, fetched, "and nothing was fetched");
    let lock = near.lock("a").unwrap();
    assert_eq!(messages(&near, || lock.unlock().unwrap()).0, 1, "nothing was stored, and the lock was wanted elsewhere");
}

#[test]
// FEATURE: RF-F7
fn a_release_of_bytes_that_lie_at_the_locks_home_is_one_message() {
    let pool = TestPool::start(2, 32 << 20);
    let (near, far) = (pool.client(0), pool.client(1));
    near.create("data", 80 * PAGE, &on(0)).unwrap();
    let (here, there) = (map(&near), map(&far));
    bind(&far, "a", &there, &[bytes(10, 70 * PAGE)]);
    assert_eq!(read(&near.lock_shared("a").unwrap(), &here, 10, 1), [0]);
    for turn in 1..4u8 {
        let mut lock = far.lock("a").unwrap();
        lock.write(&there, 100, &[turn; 2 * PAGE as usize]).unwrap();
        // What is bound to nothing, in the same page, stays.
        there.write(3, &[turn; 4]).unwrap();
        assert_eq!(messages(&far, || lock.unlock().unwrap()), (1, 1), "turn {turn}");
        assert_eq!(at_home(&near, 100, 2 * PAGE as usize), [turn; 2 * PAGE as usize]);
        assert_eq!(at_home(&near, 3, 4), [turn - 1; 4]);
        let fetched = here.counts().fetches;
        assert_eq!(read(&near.lock_shared("a").unwrap(), &here, 100, 2 * PAGE as usize), [turn; 2 * PAGE as usize]);
        assert!(turn == 1 || here.counts().fetches == fetched, "it came with the lock");
        // The pages are clean then, but for what is bound to nothing.
        assert_eq!(messages(&far, || there.flush(PAGE, 60 * PAGE).unwrap()), (0, 0));
        there.flush(0, PAGE).unwrap();
        assert_eq!(at_home(&near, 3, 4), [turn; 4]);
    }
    // More than goes with a message: as if it lay elsewhere.
    let mut lock = far.lock("a").unwrap();
    lock.write(&there, 100, &[9; 65 * PAGE as usize]).unwrap();
    assert!(messages(&far, || lock.unlock().unwrap()).0 >= 3);
    assert!(read(&near.lock("a").unwrap(), &here, 100, 65 * PAGE as usize) == [9; 65 * PAGE as usize]);
}

/// Where a byte of the region lies, which is one extent, as the library knows it.
fn place_of(node: &str, offset: u64) -> ExtentAddress {
    let view = Intruder::connect_as_we_are(node).open("data", Rights::Write);
    ExtentAddress { slot: view.layout.extents().next().unwrap().slot, grant: view.grants[0], offset }
}

#[test]
fn bytes_come_with_an_unlock_only_from_its_holder_with_the_right_to_write_them() {
    let pool = TestPool::start(1, 32 << 20);
    let near = pool.client(0);
    near.create("data", PAGE, &on(0)).unwrap();
    let here = map(&near);
    bind(&near, "a", &here, &[bytes(10, 100)]);
    let gid = here.bytes(bytes(0, 1)).unwrap().gid;
    let mut raw = Raw::connect_as(pool.nodes[0].address(), rustix::process::geteuid().as_raw());
    let good = place_of(pool.nodes[0].socket(), 11);
    let release = |number, ranges: &[(u64, u64)], bytes: &[u8], places: &[ExtentAddress]| {
        let ranges = ranges.iter().map(|(offset, len)| BoundRange { gid, offset: *offset, len: *len }).collect();
        let publication = Publication { changes: Stores::Bytes(ranges, bytes.to_vec()), binding: None };
        SyncRequest::Release { number, publication, places: places.to_vec(), keeps: true }
    };
    let refused = raw.ask(&release(1, &[(11, 2)], b"xy", &[good]));
    assert!(matches!(refused, Err(Error::LockMisused { .. })), "it has not got the lock: {refused:?}");
    let (address, mode) = (SyncAddress::Name("a".to_owned()), Mode::Exclusive);
    let lock =
        SyncRequest::Lock { address, mode, number: 1, thread: 1, bound_ms: None, known: None, lease: LeaseWish::default() };
    assert!(raw.ask(&lock).is_ok());
    let forged = ExtentAddress { grant: hanare_protocol::id::Grant([7; 16]), ..good };
    let beyond = [ExtentAddress { offset: PAGE - 1, ..good }, ExtentAddress { offset: u64::MAX, ..good }];
    for place in beyond {
        assert!(matches!(raw.ask(&release(1, &[(11, 2)], b"xy", &[place])), Err(Error::BadUse { .. })), "{place:?}");
    }
    assert!(matches!(raw.ask(&release(1, &[(11, 2)], b"xy", &[forged])), Err(Error::GrantRefused { .. })));
    for places in [&[][..], &[good, good]] {
        assert!(matches!(raw.ask(&release(1, &[(11, 2)], b"xy", places)), Err(Error::Garbage { .. })));
    }
    assert!(matches!(raw.ask(&release(1, &[(11, 3)], b"xy", &[good])), Err(Error::Garbage { .. })));
    assert!(matches!(raw.ask(&release(1, &[(200, 2)], b"xy", &[good])), Err(Error::LockMisused { .. })), "not bound to it");
    assert_eq!(at_home(&near, 0, 256), [0; 256], "nothing of that happened");
    assert!(near.try_lock("a").unwrap().is_none(), "and it has the lock");
    assert!(matches!(raw.ask(&release(1, &[(11, 2)], b"xy", &[good])), Ok(SyncAnswer::Released(_, false))));
    assert_eq!(at_home(&near, 10, 4), [0, b'x', b'y', 0]);
    assert_eq!(read(&near.try_lock("a").unwrap().unwrap(), &here, 10, 4), [0, b'x', b'y', 0]);
}

#[test]
fn bytes_of_two_locks_in_one_page_both_survive_and_neither_release_shows_the_others() {
    let pool = TestPool::start(2, 32 << 20);
    let (near, far) = (pool.client(0), pool.client(1));
    near.create("data", PAGE, &on(1)).unwrap();
    let (here, there) = (map(&near), map(&far));
    // Bytes by turns.
    bind(&near, "even", &here, &[Strided { offset: 0, block: 1, count: 2048, stride: 2 }]);
    bind(&near, "odd", &here, &[Strided { offset: 1, block: 1, count: 2048, stride: 2 }]);
    let stored = |lock: &mut LockGuard, mapping: &SharedMapping, first: u64, value: u8| {
        (first..PAGE).step_by(2).for_each(|at| lock.write(mapping, at, &[value]).unwrap());
    };
    let (mut even, mut odd) = (near.lock("even").unwrap(), far.lock("odd").unwrap());
    stored(&mut even, &here, 0, 1);
    stored(&mut odd, &there, 1, 2);
    odd.unlock().unwrap();
    even.unlock().unwrap();
    assert_eq!(at_home(&near, 0, PAGE as usize), [1, 2].repeat(2048));
    // One program with both: a release of one sends nothing of the other.
    let (mut even, mut odd) = (far.lock("even").unwrap(), far.lock("odd").unwrap());
    assert_eq!(read(&even, &there, 0, 1), [1]);
    stored(&mut even, &there, 0, 3);
    stored(&mut odd, &there, 1, 4);
    even.unlock().unwrap();
    assert_eq!(at_home(&near, 0, PAGE as usize), [3, 2].repeat(2048));
    let again = near.lock("even").unwrap();
    assert_eq!(read(&again, &here, 2, 1), [3]);
    odd.unlock().unwrap();
    assert_eq!(read(&near.lock("odd").unwrap(), &here, 4095, 1), [4]);
    let refused = again.read(&here, 4095, &mut [0]).unwrap_err();
    assert!(matches!(&refused, Error::BadUse { reason, .. } if reason.contains("not bound to lock 'even'")), "{refused}");
}

#[test]
fn a_lock_may_be_bound_to_other_bytes_which_are_brought_and_those_of_before_are_kept() {
    let pool = TestPool::start(2, 32 << 20);
    let (near, far) = (pool.client(0), pool.client(1));
    near.create("data", 4 * PAGE, &on(0)).unwrap();
    let (here, there) = (map(&near), map(&far));
    bind(&near, "a", &here, &[bytes(0, 10)]);
    assert_eq!(read(&far.lock("a").unwrap(), &there, 0, 10), [0; 10]);
    // Pages that are here and get old.
    let mut seen = [0; 10];
    there.read(PAGE, &mut seen).unwrap();
    near.open("data").unwrap().put(PAGE, &[5; 10]).unwrap();
    let mut lock = near.lock("a").unwrap();
    lock.write(&here, 0, &[1; 10]).unwrap();
    lock.bind(&[here.bytes(bytes(PAGE, 10)).unwrap()]).unwrap();
    assert_eq!(read(&lock, &here, PAGE, 10), [5; 10], "it is as it is at home");
    lock.write(&here, PAGE + 3, &[6]).unwrap();
    lock.unlock().unwrap();
    assert_eq!(at_home(&far, 0, 10), [1; 10], "what was bound before is released too");
    let lock = far.lock("a").unwrap();
    assert_eq!(read(&lock, &there, PAGE, 10), [5, 5, 5, 6, 5, 5, 5, 5, 5, 5]);
    assert!(lock.read(&there, 0, &mut [0]).is_err(), "that is bound no more");
}

#[test]
fn what_may_not_be_bound_or_changed_is_refused() {
    let pool = TestPool::start(2, 32 << 20);
    let (near, far) = (pool.client(0), pool.client(1));
    near.create("data", PAGE, &on(0)).unwrap();
    near.create("other", PAGE, &on(0)).unwrap();
    let (here, there) = (map(&near), map(&far));
    let explicit = near.open("other").unwrap().map(Consistency::Explicit).unwrap();
    assert!(matches!(explicit.bytes(bytes(0, 1)), Err(Error::BadUse { .. })));
    assert!(matches!(here.bytes(bytes(PAGE, 1)), Err(Error::OutOfRange { .. })));
    bind(&near, "a", &here, &[bytes(0, 10)]);
    let mut lock = far.lock_shared("a").unwrap();
    assert!(matches!(lock.write(&there, 0, &[1]), Err(Error::LockMisused { .. })));
    assert!(matches!(lock.bind(&[]), Err(Error::LockMisused { .. })));
    assert!(matches!(lock.read(&there, 5, &mut [0; 6]), Err(Error::BadUse { .. })));
    lock.unlock().unwrap();
    let mut lock = far.lock("a").unwrap();
    let many = vec![there.bytes(bytes(0, 1)).unwrap(); 65];
    assert!(matches!(lock.bind(&many), Err(Error::LimitReached { .. })));
    // A region is mapped in one way at a time.
    let refused = far.open("data").unwrap().map(Consistency::Explicit).map(drop).unwrap_err();
    assert!(matches!(refused, Error::BadUse { .. }), "{refused}");
}

#[test]
fn readers_share_what_is_bound_and_a_program_that_may_only_read_sees_it() {
    let pool = TestPool::start(3, 32 << 20);
    let clients: Vec<Pool> = (0..3).map(|node| pool.client(node)).collect();
    clients[0].create("data", 2 * PAGE, &on(1)).unwrap();
    let here = map(&clients[0]);
    bind(&clients[0], "a", &here, &[bytes(8, PAGE)]);
    let others: Vec<SharedMapping> = clients[1..]
        .iter()
        .map(|client| client.open_for("data", Rights::Read).unwrap().map(Consistency::Entry).unwrap())
        .collect();
    for turn in 1..5u8 {
        let mut lock = clients[0].lock("a").unwrap();
        lock.write(&here, 8, &[turn; PAGE as usize]).unwrap();
        lock.unlock().unwrap();
        let held: Vec<LockGuard> = clients[1..].iter().map(|client| client.lock_shared("a").unwrap()).collect();
        for (lock, mapping) in held.iter().zip(&others) {
            assert_eq!(read(lock, mapping, 8, PAGE as usize), [turn; PAGE as usize]);
        }
        assert!(clients[0].try_lock("a").unwrap().is_none());
    }
}

#[test]
fn more_than_goes_with_a_lock_goes_by_the_homes_of_three_nodes() {
    let pool = TestPool::start(3, 64 << 20);
    let len = 8 * RELEASE_LEN_MAX as u64;
    let placement = Placement::Interleave(2 * PAGE);
    let clients: Vec<Pool> = (0..3).map(|node| pool.client(node)).collect();
    clients[0].create("data", len, &CreateOptions { placement, ..CreateOptions::default() }).unwrap();
    let mappings: Vec<SharedMapping> = clients.iter().map(map).collect();
    bind(&clients[0], "a", &mappings[0], &[bytes(100, len - 200)]);
    for turn in 0..6 {
        let (writer, reader) = (turn % 3, (turn + 1) % 3);
        let contents = pattern(len as usize - 200, turn as u64);
        let mut lock = clients[writer].lock("a").unwrap();
        lock.write(&mappings[writer], 100, &contents).unwrap();
        lock.unlock().unwrap();
        let lock = clients[reader].lock("a").unwrap();
        assert!(read(&lock, &mappings[reader], 100, contents.len()) == contents, "turn {turn}");
    }
    // A byte of each third page: more ranges than go with a lock.
    let mut lock = clients[0].lock("a").unwrap();
    for page in (1..len / PAGE - 1).step_by(3) {
        lock.write(&mappings[0], page * PAGE, &[page as u8 ^ 0x55]).unwrap();
    }
    lock.unlock().unwrap();
    let lock = clients[1].lock("a").unwrap();
    assert!((1..len / PAGE - 1).step_by(3).all(|page| read(&lock, &mappings[1], page * PAGE, 1) == [page as u8 ^ 0x55]));
}

#[test]
fn a_mapping_that_is_made_anew_and_a_program_that_maps_later_see_the_last_release() {
    let pool = TestPool::start(2, 32 << 20);
    let (near, far) = (pool.client(0), pool.client(1));
    near.create("data", PAGE, &on(1)).unwrap();
    let here = map(&near);
    bind(&near, "a", &here, &[bytes(0, 100)]);
    let mut there = map(&far);
    for turn in 1..5u8 {
        let mut lock = near.lock("a").unwrap();
        lock.write(&here, 0, &[turn; 100]).unwrap();
        lock.unlock().unwrap();
        // It knows the version, and has nothing mapped meanwhile.
        drop(there);
        drop(far.lock("a").unwrap());
        there = map(&far);
        assert_eq!(read(&far.lock("a").unwrap(), &there, 0, 100), [turn; 100]);
    }
}

const STEP: u64 = 5 * PAGE + 300;

pub fn stores_and_does_not_release() {
    let pool = Pool::attach_alone().unwrap();
    let mapping = map(&pool);
    let mut lock = pool.lock("a").unwrap();
    let old = read(&lock, &mapping, 0, STEP as usize);
    lock.write(&mapping, 0, &vec![old[0] + 1; STEP as usize / 2]).unwrap();
    holder::wait_for_death();
}

#[test]
fn after_a_killed_holder_there_is_what_was_released_last_and_the_next_is_told() {
    let pool = TestPool::start(2, 32 << 20);
    let (near, far) = (pool.client(0), pool.client(1));
    near.create("data", 8 * PAGE, &CreateOptions { placement: Placement::Interleave(PAGE), ..CreateOptions::default() }).unwrap();
    let (here, there) = (map(&near), map(&far));
    bind(&near, "a", &here, &[bytes(0, STEP)]);
    for turn in 1..4u8 {
        let mut lock = near.lock("a").unwrap();
        lock.write(&here, 0, &vec![turn; STEP as usize]).unwrap();
        lock.unlock().unwrap();
        let node = usize::from(turn) % 2;
        let name = concat!(module_path!(), "::stores_and_does_not_release");
        holder::kill(holder::start(name, pool.nodes[node].socket()));
        let lock = far.lock("a").unwrap();
        assert!(lock.was_abandoned() && !lock.is_torn());
        assert_eq!(read(&lock, &there, 0, STEP as usize), vec![turn; STEP as usize]);
        lock.unlock().unwrap();
        assert_eq!(at_home(&near, 0, STEP as usize), vec![turn; STEP as usize]);
    }
}

pub fn releases_again_and_again() {
    let pool = Pool::attach_alone().unwrap();
    let mapping = map(&pool);
    let mut is_ready = false;
    loop {
        let mut lock = pool.lock("a").unwrap();
        let old = read(&lock, &mapping, 0, STEP as usize);
        assert!(old.iter().all(|byte| *byte == old[0]), "the last release is whole");
        lock.write(&mapping, 0, &vec![old[0].wrapping_add(1); STEP as usize]).unwrap();
        lock.unlock().unwrap();
        if !std::mem::replace(&mut is_ready, true) {
            println!("\nready");
        }
    }
}

#[test]
fn a_holder_killed_at_any_moment_has_released_all_or_nothing() {
    kill_holders(CreateOptions { placement: Placement::Interleave(PAGE), ..CreateOptions::default() });
}

#[test]
fn a_holder_killed_at_any_moment_of_a_release_to_the_locks_home_has_released_all_or_nothing() {
    kill_holders(on(0));
}

fn kill_holders(options: CreateOptions) {
    let pool = TestPool::start(2, 32 << 20);
    let (near, far) = (pool.client(0), pool.client(1));
    near.create("data", 8 * PAGE, &options).unwrap();
    let (here, there) = (map(&near), map(&far));
    bind(&near, "a", &here, &[bytes(0, STEP)]);
    for turn in 0..30u64 {
        let name = concat!(module_path!(), "::releases_again_and_again");
        let child = holder::start(name, pool.nodes[turn as usize % 2].socket());
        // Some moment of some section.
        std::thread::sleep(std::time::Duration::from_micros(turn * 137));
        holder::kill(child);
        let (client, mapping) = if turn % 4 < 2 { (&near, &here) } else { (&far, &there) };
        let lock = client.lock("a").unwrap();
        assert!(!lock.is_torn());
        let seen = read(&lock, mapping, 0, STEP as usize);
        assert!(seen.iter().all(|byte| *byte == seen[0]), "turn {turn}: a mixture of {} and others", seen[0]);
        lock.unlock().unwrap();
        assert_eq!(at_home(client, 0, STEP as usize), seen, "turn {turn}");
    }
}

/// A program of this user that speaks the protocol takes the lock, and says what it will put at home.
fn publishes(address: &str, changes: Stores) -> (Raw, DataGrant) {
    publishes_as(rustix::process::geteuid().as_raw(), address, changes)
}

/// The same of another user.
fn publishes_as(uid: u32, address: &str, changes: Stores) -> (Raw, DataGrant) {
    let mut raw = Raw::connect_as(address, uid);
    let (address, mode, number) = (SyncAddress::Name("a".to_owned()), Mode::Exclusive, 1);
    let lock = SyncRequest::Lock { address, mode, number, thread: 1, bound_ms: None, known: None, lease: LeaseWish::default() };
    let Ok(SyncAnswer::Granted { data: Some(data), .. }) = raw.ask(&lock) else { panic!("it has data") };
    let publish = SyncRequest::Publish { number, publication: Publication { changes, binding: None } };
    assert!(matches!(raw.ask(&publish), Ok(SyncAnswer::Published { .. })));
    (raw, *data)
}

#[test]
fn what_a_dead_holder_had_published_is_redone_by_the_next_and_what_it_had_not_is_said() {
    let pool = TestPool::start(2, 32 << 20);
    let (near, far) = (pool.client(0), pool.client(1));
    near.create("data", PAGE, &on(1)).unwrap();
    near.permit("a", 0o666).unwrap();
    let (here, there) = (map(&near), map(&far));
    bind(&near, "a", &here, &[bytes(10, 100)]);
    let gid = here.bytes(bytes(0, 1)).unwrap().gid;
    let places = |offset, len| vec![BoundRange { gid, offset, len }];
    assert_eq!(read(&far.lock("a").unwrap(), &there, 10, 4), [0; 4]);
    let (dies, _) = publishes(pool.nodes[0].address(), Stores::Bytes(places(11, 2), b"xy".to_vec()));
    drop(dies);
    // Who may only read cannot redo it, and takes nothing from who can.
    let lock = far.lock("a").unwrap();
    assert!(lock.was_abandoned() && !lock.is_torn());
    assert_eq!(read(&lock, &there, 10, 4), [0, b'x', b'y', 0]);
    lock.unlock().unwrap();
    assert_eq!(at_home(&near, 10, 4), [0, b'x', b'y', 0], "it was put at home");
    assert_eq!(read(&near.lock("a").unwrap(), &here, 10, 4), [0, b'x', b'y', 0]);

    let (dies, told) = publishes(pool.nodes[0].address(), Stores::Ranges(places(20, 50)));
    assert_eq!(told.bound.unwrap(), [here.bytes(bytes(10, 100)).unwrap()]);
    drop(dies);
    assert!(near.lock_shared("a").unwrap().is_torn());
    assert!(far.lock("a").unwrap().is_torn());
    assert!(!near.lock("a").unwrap().is_torn(), "it was given back by one that knew");
}

/// Another user may take the lock, and may not write the region: the next holder writes nothing for it, and sees nothing of it.
#[test]
fn what_another_user_had_published_goes_nowhere_by_others_hands() {
    let pool = TestPool::start(2, 32 << 20);
    let (near, far) = (pool.client(0), pool.client(1));
    near.create("data", PAGE, &on(1)).unwrap();
    near.permit("a", 0o666).unwrap();
    let (here, there) = (map(&near), map(&far));
    bind(&near, "a", &here, &[bytes(10, 100)]);
    let gid = here.bytes(bytes(0, 1)).unwrap().gid;
    let evil = || Stores::Bytes(vec![BoundRange { gid, offset: 11, len: 2 }], b"xy".to_vec());
    let other = rustix::process::geteuid().as_raw() + 1;
    assert_eq!(read(&far.lock("a").unwrap(), &there, 10, 4), [0; 4]);
    // It dies in the middle; it gives the lock back in good order.
    drop(publishes_as(other, pool.nodes[0].address(), evil()));
    assert!(far.lock("a").unwrap().is_torn());
    let (mut raw, _) = publishes_as(other, pool.nodes[0].address(), evil());
    assert!(raw.ask(&SyncRequest::Unlock { number: 1 }).is_ok());
    for (client, mapping) in [(&far, &there), (&near, &here)] {
        assert_eq!(read(&client.lock("a").unwrap(), mapping, 10, 4), [0; 4]);
    }
    assert_eq!(at_home(&near, 10, 4), [0; 4]);
}

#[test]
fn who_may_only_read_takes_no_lock_that_is_to_be_redone_and_leaves_it_to_others() {
    let pool = TestPool::start(2, 32 << 20);
    let (near, far) = (pool.client(0), pool.client(1));
    near.create("data", PAGE, &on(1)).unwrap();
    near.permit("a", 0o666).unwrap();
    let here = map(&near);
    bind(&near, "a", &here, &[bytes(10, 100)]);
    let gid = here.bytes(bytes(0, 1)).unwrap().gid;
    let range = BoundRange { gid, offset: 11, len: 2 };
    drop(publishes(pool.nodes[0].address(), Stores::Bytes(vec![range], b"xy".to_vec())));
    let there = far.open_for("data", Rights::Read).unwrap().map(Consistency::Entry).unwrap();
    let refused = far.lock_shared("a").unwrap_err();
    assert!(matches!(&refused, Error::LockMisused { reason, .. } if reason.contains("may not write")), "{refused}");
    assert_eq!(read(&near.lock("a").unwrap(), &here, 11, 2), b"xy");
    assert_eq!(read(&far.lock_shared("a").unwrap(), &there, 11, 2), b"xy");
}

/// What a dead holder had published has no home any more: the next holder is told, and the lock goes on with other bytes.
#[test]
fn a_lock_whose_bytes_were_to_be_redone_in_a_removed_region_goes_on() {
    let pool = TestPool::start(2, 32 << 20);
    let (near, far) = (pool.client(0), pool.client(1));
    for still_maps in [false, true] {
        near.create("data", PAGE, &on(1)).unwrap();
        let (here, there) = (map(&near), map(&far));
        bind(&near, "a", &here, &[bytes(10, 100)]);
        let gid = here.bytes(bytes(0, 1)).unwrap().gid;
        let range = BoundRange { gid, offset: 11, len: 2 };
        drop(publishes(pool.nodes[0].address(), Stores::Bytes(vec![range], b"xy".to_vec())));
        let there = Some(there).filter(|_| still_maps);
        drop(here);
        near.remove("data").unwrap();
        assert!(far.lock("a").unwrap().is_torn(), "its bytes are no more");
        drop(there);

        near.create("data", PAGE, &on(1)).unwrap();
        let (here, there) = (map(&near), map(&far));
        bind(&near, "a", &here, &[bytes(0, 50)]);
        let mut lock = far.lock("a").unwrap();
        assert!(!lock.was_abandoned() && !lock.is_torn());
        lock.write(&there, 0, &[7; 50]).unwrap();
        lock.unlock().unwrap();
        assert_eq!(read(&near.lock("a").unwrap(), &here, 0, 50), [7; 50]);
        drop((here, there));
        bind_nothing(&near);
        near.remove("data").unwrap();
    }
}

#[test]
fn a_lock_whose_bytes_were_to_be_redone_on_a_lost_node_goes_on() {
    let mut nodes = Apart::start(2);
    let pool = nodes.client(0);
    pool.create("data", PAGE, &on(1)).unwrap();
    let mapping = map(&pool);
    bind(&pool, "a", &mapping, &[bytes(10, 100)]);
    let range = BoundRange { gid: mapping.bytes(bytes(0, 1)).unwrap().gid, offset: 11, len: 2 };
    drop(publishes(nodes.address(0), Stores::Bytes(vec![range], b"xy".to_vec())));
    nodes.kill(1);
    let refused = pool.lock("a").unwrap_err();
    assert!(matches!(refused, Error::NodeLost { node: NodeId(1), .. }), "this program has it mapped: {refused}");
    drop(mapping);
    apart::until("its bytes are lost", || pool.lock("a").unwrap().is_torn());
    bind_nothing(&pool);
    assert!(!pool.lock("a").unwrap().is_torn());
}

#[test]
fn all_of_it_as_on_linux_6_1() {
    support::once_more_as_on_linux(module_path!(), "6.1", &["as_on_linux"]);
}
