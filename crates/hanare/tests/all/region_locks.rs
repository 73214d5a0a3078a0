//! Locks, semaphores, conditions and barriers at bytes of regions: kept at the byte's node, fair, within bounds, granted on when their holder
//! is gone, told of the region's end.

use crate::holder;
use crate::raw_link;
use crate::support;

use hanare::{Consistency, Error, Pool, Region, Rights, Strided};
use hanare_protocol::id::{Grant, Slot};
use hanare_protocol::limits::LEASE_TAKING_COUNT;
use hanare_protocol::wire::control::{Request, Which};
use hanare_protocol::wire::sync::{LeaseWish, Mode, SyncAddress, SyncRequest};
use raw_link::Raw;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};
use std::time::Duration;
use support::{TestPool, messages};

const LONG: Option<Duration> = Some(Duration::from_secs(60));

fn on(client: &Pool, name: &str, node: u32) -> Region {
    client.create(name, 1 << 16, &support::on(node)).unwrap()
}

#[test]
fn one_is_in_at_a_time_wherever_the_byte_lies() {
    let pool = TestPool::start(2, 32 << 20);
    let clients: Vec<Pool> = (0..4).map(|k| pool.client(k % 2)).collect();
    for node in 0..2 {
        let name = &format!("r{node}");
        on(&clients[0], name, node);
        // Not atomic together: two at once would lose a count. Neighbouring bytes have locks of their own.
        let counts = [const { AtomicU64::new(0) }; 2];
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let (client, counts) = (&clients[thread % 4], &counts);
                scope.spawn(move || {
                    let region = client.open(name).unwrap();
                    for turn in 0..60 {
                        let at = (turn + thread) % 2;
                        let lock = region.lock_at(777 + at as u64).lock().unwrap();
                        assert!(!lock.was_abandoned());
                        let before = counts[at].load(SeqCst);
                        std::thread::yield_now();
                        counts[at].store(before + 1, SeqCst);
                        lock.unlock().unwrap();
                    }
                });
            }
        });
        assert_eq!(counts.map(AtomicU64::into_inner), [240, 240]);
        // The bytes themselves are nobody's business.
        let mut bytes = [1; 4];
        clients[0].open(name).unwrap().get(776, &mut bytes).unwrap();
        assert_eq!(bytes, [0; 4]);
    }
}

/// Requests for a lock and for what is bound to it, from two hosts: each gets what the one before it left, in the order of arrival.
#[test]
// FEATURE: RF-F16
fn who_comes_first_is_served_first() {
    const TURNS: u8 = 6;
    let pool = TestPool::start(2, 32 << 20);
    let (near, far) = (pool.client(0), pool.client(1));
    let (here, there) = (on(&near, "a", 1), far.open("a").unwrap());
    let mappings = [here.map(Consistency::Entry).unwrap(), there.map(Consistency::Entry).unwrap()];
    let mut held = here.lock_at(8).lock().unwrap();
    held.bind(&[mappings[0].bytes(Strided::contiguous(100, u64::from(TURNS))).unwrap()]).unwrap();
    std::thread::scope(|scope| {
        for turn in 0..TURNS {
            let (region, mapping) = [(&here, &mappings[0]), (&there, &mappings[1])][usize::from(turn % 2)];
            let before = messages_of_both(&near, &far);
            scope.spawn(move || {
                let mut lock = region.lock_at(8).lock_within(Duration::from_secs(60)).unwrap();
                let mut seen = [0; TURNS as usize];
                lock.read(mapping, 100, &mut seen).unwrap();
                let expected: Vec<u8> = (1..=TURNS).map(|other| if other <= turn { other } else { 0 }).collect();
                assert_eq!(seen[..], expected, "request {turn}");
                lock.write(mapping, 100 + u64::from(turn), &[turn + 1]).unwrap();
                lock.unlock().unwrap();
            });
            while messages_of_both(&near, &far) == before {
                std::thread::yield_now();
            }
            // The request has left; its node has it before it answers what is asked next over the same links. A lock that was taken before
            // may be on lease, and ask nothing.
            drop(here.lock_at(20 + u64::from(turn)).lock().unwrap());
            drop(there.lock_at(40 + u64::from(turn)).lock().unwrap());
        }
        held.unlock().unwrap();
    });
}

fn messages_of_both(near: &Pool, far: &Pool) -> u64 {
    near.traffic().messages_sent + far.traffic().messages_sent
}

#[test]
fn locks_of_a_region_are_shared_bounded_lent_and_misused_as_those_at_names_are() {
    let pool = TestPool::start(2, 32 << 20);
    let (near, far) = (pool.client(0), pool.client(1));
    for node in 0..2 {
        let name = &format!("r{node}");
        let (here, there) = (on(&near, name, node), far.open(name).unwrap());
        let shared = here.lock_at(0).shared().lock().unwrap();
        assert_eq!(shared.name(), format!("{name}+0"));
        there.lock_at(0).shared().try_lock().unwrap().unwrap().unlock().unwrap();
        assert!(there.lock_at(0).try_lock().unwrap().is_none());
        let late = there.lock_at(0).lock_within(Duration::from_millis(5)).unwrap_err();
        assert!(matches!(&late, Error::NotInTime { what, after_ms: 5 } if what.contains(&format!("{name}+0"))), "{late}");
        let misused = here.lock_at(0).lock().unwrap_err();
        assert!(matches!(&misused, Error::LockMisused { name: lock, .. } if *lock == format!("{name}+0")), "{misused}");
        shared.unlock().unwrap();
        assert!(matches!(here.lock_at(1 << 16).lock(), Err(Error::OutOfRange { .. })));
        assert!(matches!(here.lock_at(u64::MAX).lock(), Err(Error::OutOfRange { .. })));
        // Any home lends it; two regions' locks at one place are two.
        (0..LEASE_TAKING_COUNT).for_each(|_| here.lock_at(64).lock().unwrap().unlock().unwrap());
        let again = messages(&near, || (0..10).for_each(|_| here.lock_at(64).lock().unwrap().unlock().unwrap()));
        assert_eq!(again, 0);
        assert!(!there.lock_at(64).lock().unwrap().was_abandoned());
    }
}

#[test]
fn who_may_read_a_region_shares_its_locks_and_no_more() {
    let pool = TestPool::start(2, 32 << 20);
    let (near, far) = (pool.client(0), pool.client(1));
    on(&near, "a", 0);
    let readable = far.open_for("a", Rights::Read).unwrap();
    drop(readable.lock_at(3).shared().lock().unwrap());
    assert!(matches!(readable.lock_at(3).lock(), Err(Error::BadUse { .. })));
    assert!(matches!(readable.lock_at(3).one_of(2).try_lock(), Err(Error::BadUse { .. })));
    assert!(matches!(readable.group_at(3, 1), Err(Error::BadUse { .. })));
}

pub fn takes_locks_of_a_region_and_dies() {
    let pool = Pool::attach_alone().unwrap();
    let region = pool.open("a").unwrap();
    let _lock = region.lock_at(8).lock().unwrap();
    let _place = region.lock_at(16).one_of(2).lock().unwrap();
    let _read = region.lock_at(24).shared().lock().unwrap();
    // It keeps this one, and has not got it.
    (0..LEASE_TAKING_COUNT).for_each(|_| region.lock_at(32).lock().unwrap().unlock().unwrap());
    holder::wait_for_death();
}

#[test]
fn a_killed_holders_lock_goes_on_and_the_next_is_told_once() {
    let pool = TestPool::start(2, 32 << 20);
    // The region on the killed one's node and on the other; at the pool's home and elsewhere.
    for (node, at) in [(0, 0), (1, 0), (0, 1), (1, 1)] {
        let (near, far) = (pool.client(0), pool.client(1));
        let (here, there) = (on(&near, "a", at), far.open("a").unwrap());
        let mine = here.lock_at(16).one_of(2).lock().unwrap();
        let child = holder::start(concat!(module_path!(), "::takes_locks_of_a_region_and_dies"), pool.nodes[node].socket());
        assert!(here.lock_at(8).try_lock().unwrap().is_none());
        assert!(there.lock_at(16).one_of(2).try_lock().unwrap().is_none(), "both places are taken");
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| there.lock_at(8).lock_within(Duration::from_secs(60)).map(|lock| lock.was_abandoned()));
            let place = scope.spawn(|| there.lock_at(16).one_of(2).lock().map(|place| place.was_abandoned()));
            holder::kill(child);
            assert!(waits.join().unwrap().unwrap() && place.join().unwrap().unwrap(), "the first after it is told");
        });
        assert!(!here.lock_at(8).lock().unwrap().was_abandoned(), "the next is not");
        assert!(!there.lock_at(16).one_of(2).lock().unwrap().was_abandoned());
        assert!(!here.lock_at(24).lock().unwrap().was_abandoned(), "who only read leaves nothing half-written");
        assert!(!here.lock_at(32).lock().unwrap().was_abandoned(), "who only kept it neither");
        mine.unlock().unwrap();
        near.remove("a").unwrap();
    }
}

#[test]
fn so_many_have_a_place_at_a_time() {
    let pool = TestPool::start(2, 32 << 20);
    let clients: Vec<Pool> = (0..3).map(|k| pool.client(k % 2)).collect();
    on(&clients[0], "a", 1);
    let (inside, most) = (AtomicU32::new(0), AtomicU32::new(0));
    std::thread::scope(|scope| {
        for thread in 0..9 {
            let (client, inside, most) = (&clients[thread % 3], &inside, &most);
            scope.spawn(move || {
                let region = client.open("a").unwrap();
                for _ in 0..30 {
                    let place = match thread {
                        // By name it is another.
                        0 => client.one_of("places", 3, LONG).unwrap(),
                        _ => region.lock_at(40).one_of(3).lock().unwrap(),
                    };
                    if thread > 0 {
                        most.fetch_max(inside.fetch_add(1, SeqCst) + 1, SeqCst);
                        std::thread::yield_now();
                        inside.fetch_sub(1, SeqCst);
                    }
                    place.unlock().unwrap();
                }
            });
        }
    });
    assert!(most.into_inner() <= 3, "more than three were in at a time");
    let region = clients[0].open("a").unwrap();
    assert!(matches!(region.lock_at(40).one_of(0).lock(), Err(Error::LockMisused { .. })));
}

/// A bounded buffer of one place: producers and consumers wait for conditions, on two hosts.
#[test]
fn conditions_pass_a_value_from_hand_to_hand() {
    const TURNS: u64 = 60;
    let pool = TestPool::start(2, 32 << 20);
    let clients: Vec<Pool> = (0..4).map(|k| pool.client(k % 2)).collect();
    let (full, empty) = (1, 0);
    for at in [0, 1] {
        let name = &format!("r{at}");
        on(&clients[0], name, at);
        let sum = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for (thread, client) in clients.iter().enumerate() {
                let sum = &sum;
                scope.spawn(move || {
                    let region = client.open(name).unwrap();
                    let value = || {
                        let mut word = [0u64];
                        region.get_values(0, &mut word).unwrap();
                        word[0]
                    };
                    for turn in 1..=TURNS {
                        let mut lock = region.lock_at(0).lock().unwrap();
                        let (mine, theirs) = if thread < 2 { (empty, full) } else { (full, empty) };
                        while (value() == 0) != (mine == empty) {
                            assert!(lock.wait(mine, LONG).unwrap(), "nobody notified within a minute");
                        }
                        if mine == full {
                            sum.fetch_add(value(), SeqCst);
                        }
                        region.put_values(0, &[if mine == empty { turn } else { 0 }]).unwrap();
                        lock.notify_one(theirs).unwrap();
                        lock.unlock().unwrap();
                    }
                });
            }
        });
        assert_eq!(sum.into_inner(), TURNS * (TURNS + 1));
    }
}

#[test]
fn a_wait_for_a_condition_has_a_bound_and_gives_the_lock_back_meanwhile() {
    let pool = TestPool::start(2, 32 << 20);
    let (near, far) = (pool.client(0), pool.client(1));
    let (here, there) = (on(&near, "a", 1), far.open("a").unwrap());
    // Lent or not, at a byte or a name.
    for at_name in [false, true] {
        for takings in [1, LEASE_TAKING_COUNT + 1] {
            let take = |pool: &Pool, region: &Region| if at_name { pool.lock("n") } else { region.lock_at(8).lock() }.unwrap();
            (1..takings).for_each(|_| drop(take(&near, &here)));
            let mut lock = take(&near, &here);
            assert!(!lock.wait(5, Some(Duration::from_millis(20))).unwrap(), "nobody notified it");
            lock.check().unwrap();
            let other = |client: &Pool, region: &Region| match at_name {
                true => client.try_lock("n").unwrap().is_some(),
                false => region.lock_at(8).try_lock().unwrap().is_some(),
            };
            assert!(!other(&far, &there), "it is held again");
            std::thread::scope(|scope| {
                let notifies = scope.spawn(|| {
                    let lock = take(&far, &there);
                    lock.notify_all(5).unwrap();
                    lock.unlock().unwrap();
                });
                assert!(lock.wait(5, LONG).unwrap());
                notifies.join().unwrap();
            });
            assert!(!lock.was_abandoned());
            lock.unlock().unwrap();
            assert!(other(&far, &there));
        }
    }
    let mut shared = here.lock_at(9).shared().lock().unwrap();
    assert!(matches!(shared.wait(5, LONG), Err(Error::LockMisused { .. })));
    assert!(matches!(shared.notify_all(5), Err(Error::LockMisused { .. })));
    shared.unlock().unwrap();
}

pub fn takes_the_lock_that_others_wait_under_and_dies() {
    let pool = Pool::attach_alone().unwrap();
    let _lock = pool.open("a").unwrap().lock_at(8).lock().unwrap();
    holder::wait_for_death();
}

#[test]
fn who_waits_for_a_condition_is_woken_when_the_locks_holder_dies() {
    let pool = TestPool::start(2, 32 << 20);
    let (near, far) = (pool.client(0), pool.client(1));
    let (here, there) = (on(&near, "a", 0), far.open("a").unwrap());
    let waiting = AtomicU32::new(0);
    let told = std::thread::scope(|scope| {
        let waits: Vec<_> = [&here, &there]
            .into_iter()
            .map(|region| {
                let waiting = &waiting;
                scope.spawn(move || {
                    let mut lock = region.lock_at(8).lock().unwrap();
                    waiting.fetch_add(1, SeqCst);
                    assert!(lock.wait(1, LONG).unwrap());
                    lock.was_abandoned()
                })
            })
            .collect();
        while waiting.load(SeqCst) < 2 {
            std::thread::yield_now();
        }
        // It gets the lock when both have given it back, and wait.
        let child =
            holder::start(concat!(module_path!(), "::takes_the_lock_that_others_wait_under_and_dies"), pool.nodes[1].socket());
        holder::kill(child);
        waits.into_iter().map(|wait| u32::from(wait.join().unwrap())).sum::<u32>()
    });
    assert_eq!(told, 1, "the first of them is told");
}

/// What is bound to a lock is published before a wait gives the lock back, and comes with it again.
#[test]
fn bound_bytes_come_and_go_with_a_lock_of_a_region_through_a_wait_too() {
    let pool = TestPool::start(2, 32 << 20);
    let (near, far) = (pool.client(0), pool.client(1));
    for at in [0, 1] {
        let name = &format!("r{at}");
        let (here, there) = (on(&near, name, at), far.open(name).unwrap());
        let (mine, theirs) = (here.map(Consistency::Entry).unwrap(), there.map(Consistency::Entry).unwrap());
        let mut lock = here.lock_at(100).lock().unwrap();
        lock.bind(&[mine.bytes(Strided::contiguous(100, 64)).unwrap()]).unwrap();
        lock.unlock().unwrap();
        let mut lock = here.lock_at(100).lock().unwrap();
        lock.write(&mine, 100, &[1; 8]).unwrap();
        std::thread::scope(|scope| {
            let answers = scope.spawn(|| {
                let mut seen = [0; 8];
                let mut lock = there.lock_at(100).lock().unwrap();
                lock.read(&theirs, 100, &mut seen).unwrap();
                assert_eq!(seen, [1; 8], "the wait released it");
                lock.write(&theirs, 108, &[2; 8]).unwrap();
                lock.notify_one(7).unwrap();
                lock.unlock().unwrap();
            });
            assert!(lock.wait(7, LONG).unwrap());
            answers.join().unwrap();
        });
        let mut seen = [0; 16];
        lock.read(&mine, 100, &mut seen).unwrap();
        assert_eq!(seen, [[1; 8], [2; 8]].concat()[..]);
        lock.unlock().unwrap();
    }
}

#[test]
fn who_waits_at_a_region_is_told_that_it_is_removed() {
    let pool = TestPool::start(2, 32 << 20);
    let (near, far) = (pool.client(0), pool.client(1));
    for at in [0, 1] {
        let (here, there) = (on(&near, "a", at), far.open("a").unwrap());
        let held = here.lock_at(8).lock().unwrap();
        let slept = AtomicU32::new(0);
        std::thread::scope(|scope| {
            let lock = scope.spawn(|| there.lock_at(8).lock().map(drop));
            let asleep = scope.spawn(|| {
                let mut lock = there.lock_at(16).lock().unwrap();
                slept.store(1, SeqCst);
                lock.wait(1, LONG).map(drop)
            });
            let group = there.group_at(24, 2).unwrap();
            let meets = scope.spawn(move || group.barrier());
            while slept.load(SeqCst) == 0 || here.lock_at(16).try_lock().unwrap().is_none() {
                std::thread::yield_now();
            }
            // All three wait, or ask for what is not there.
            near.remove("a").unwrap();
            for wait in [lock, asleep, meets] {
                let told = wait.join().unwrap();
                assert!(matches!(&told, Err(Error::UnknownRegion { .. })), "{told:?}");
            }
        });
        held.unlock().unwrap();
        assert!(matches!(there.lock_at(8).lock(), Err(Error::UnknownRegion { name }) if name == "a"));
    }
}

#[test]
fn parties_meet_at_a_byte_and_one_that_dies_is_named() {
    let pool = TestPool::start(2, 32 << 20);
    let clients: Vec<Pool> = (0..3).map(|k| pool.client(k % 2)).collect();
    on(&clients[0], "a", 1);
    let arrived = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for client in &clients {
            let arrived = &arrived;
            scope.spawn(move || {
                let group = client.open("a").unwrap().group_at(5, 3).unwrap();
                assert_eq!(group.name(), "a+5");
                for round in 1..=30 {
                    arrived.fetch_add(1, SeqCst);
                    group.barrier().unwrap();
                    assert!(arrived.load(SeqCst) >= 3 * round, "one passed early");
                    group.barrier().unwrap();
                }
                let mut sum = [u64::from(group.number())];
                group.all_reduce(hanare::Operator::Add, &mut sum).unwrap();
                assert_eq!(sum, [3]);
            });
        }
    });
    let region = clients[0].open("a").unwrap();
    let (stays, leaves) = (region.group_at(5, 2).unwrap(), clients[1].open("a").unwrap().group_at(5, 2).unwrap());
    assert!(matches!(region.group_at(5, 3), Err(Error::BadGroup { name, .. }) if name == "a+5"));
    drop(leaves);
    assert!(matches!(stays.barrier(), Err(Error::PartyGone { .. })));
}

#[test]
fn hostile_places_are_refused_and_leave_nothing() {
    let pool = TestPool::start(1, 32 << 20);
    let client = pool.client(0);
    let region = on(&client, "a", 0);
    let mut node = crate::intruder::Intruder::connect_as_we_are(pool.nodes[0].socket());
    let view = node.region(&Request::Open { which: Which::Gid(region.gid()), rights: Some(Rights::Read) });
    let (slot, reads) = (view.layout.extents().next().unwrap().slot, view.grants[0]);
    let mut raw = Raw::connect(pool.nodes[0].address());
    let mut number = 0;
    let mut ask = |slot, grant, offset, mode| {
        number += 1;
        let (address, lease) = (SyncAddress::Byte { slot, grant, offset }, LeaseWish::default());
        raw.ask(&SyncRequest::Lock { address, mode, number, thread: 1, bound_ms: Some(0), known: None, lease })
    };
    assert!(ask(slot, reads, 0, Mode::Shared).is_ok());
    for mode in [Mode::Exclusive, Mode::OneOf(1)] {
        assert!(matches!(ask(slot, reads, 1, mode), Err(Error::GrantRefused { .. })), "it may only read");
    }
    for (slot, grant) in [(slot, Grant([7; 16])), (Slot(slot.0 + 1), reads), (Slot(u32::MAX), reads)] {
        assert!(matches!(ask(slot, grant, 0, Mode::Shared), Err(Error::GrantRefused { .. })));
    }
    for offset in [1 << 16, u64::MAX] {
        assert!(matches!(ask(slot, reads, offset, Mode::Shared), Err(Error::BadUse { .. })));
    }
    // No name is that of a byte.
    let forged = format!("/{}/{}/8", region.gid().0, slot.0);
    assert!(matches!(client.lock(&forged), Err(Error::BadName { .. })));
    let _held = region.lock_at(8).lock().unwrap();
    for request in [
        SyncRequest::Sleep { number: 77, condition: 0, next: 78, thread: 1, bound_ms: None, known: None },
        SyncRequest::Notify { number: 77, condition: 0, all: true },
    ] {
        assert!(matches!(raw.ask(&request), Err(Error::LockMisused { .. })), "{request:?}");
    }
}
