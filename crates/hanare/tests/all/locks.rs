//! Locks by name: one at a time or shared, in order, within a bound, and granted on when their holder is gone.

use crate::holder;
use crate::relay;
use crate::support;

use hanare::node::{Node, NodeOptions};
use hanare::{Error, Pool};
use relay::{Mode, Relay};
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use support::{TestPool, options};

#[test]
fn one_of_many_threads_of_many_clients_is_in_at_a_time() {
    let pool = TestPool::start(2, 32 << 20);
    let clients: Vec<Pool> = (0..4).map(|k| pool.client(k % 2)).collect();
    // Not atomic together: two at once would lose a count.
    let count = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (client, count) = (&clients[thread % 4], &count);
            scope.spawn(move || {
                for _ in 0..100 {
                    let lock = client.lock("count").unwrap();
                    assert!(!lock.was_abandoned());
                    let before = count.load(Ordering::Relaxed);
                    std::thread::yield_now();
                    count.store(before + 1, Ordering::Relaxed);
                    lock.unlock().unwrap();
                }
            });
        }
    });
    assert_eq!(count.into_inner(), 800);
}

#[test]
fn a_lock_that_is_taken_first_costs_one_message_each_way_to_take_and_to_give_back() {
    let pool = TestPool::start(2, 32 << 20);
    for node in [0, 1] {
        let client = pool.client(node);
        // The first carries the connection's name.
        drop(client.lock("a").unwrap());
        let before = client.traffic();
        drop(client.lock("b").unwrap());
        let after = client.traffic();
        assert_eq!((after.messages_sent - before.messages_sent, after.messages_received - before.messages_received), (2, 2));
    }
}

#[test]
fn readers_share_and_do_not_overtake_a_writer_that_waits() {
    let pool = TestPool::start(2, 32 << 20);
    let (near, far) = (pool.client(0), pool.client(1));
    let first = near.lock_shared("a").unwrap();
    let second = far.lock_shared("a").unwrap();
    let has_written = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let lock = far.lock("a").unwrap();
            has_written.store(true, Ordering::SeqCst);
            drop(lock);
        });
        // Once a reader would have to wait, the writer is known to wait.
        while !would_wait(&near) {
            std::thread::yield_now();
        }
        let reader = scope.spawn(|| {
            let _lock = near.lock_shared("a").unwrap();
            assert!(has_written.load(Ordering::SeqCst), "a reader overtook the writer");
        });
        assert!(!has_written.load(Ordering::SeqCst), "readers are in");
        drop(first);
        second.unlock().unwrap();
        writer.join().unwrap();
        reader.join().unwrap();
    });
    assert!(near.try_lock("a").unwrap().is_some());
}

/// Whether another reader would have to wait.
fn would_wait(client: &Pool) -> bool {
    std::thread::scope(|scope| scope.spawn(|| client.try_lock_shared("a").unwrap().is_none()).join().unwrap())
}

#[test]
fn what_cannot_be_had_within_the_bound_is_said_and_the_queue_goes_on() {
    let pool = TestPool::start(2, 32 << 20);
    let (near, far) = (pool.client(0), pool.client(1));
    let held = near.lock("a").unwrap();
    assert!(far.try_lock("a").unwrap().is_none());
    assert!(far.try_lock_shared("a").unwrap().is_none());
    let late = far.lock_within("a", Duration::from_millis(20)).unwrap_err();
    assert!(matches!(&late, Error::NotInTime { what, after_ms } if what.contains("'a'") && *after_ms == 20), "{late}");
    assert!(late.may_retry());
    // A bound that is not over is none.
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| far.lock_within("a", Duration::MAX).map(drop));
        held.unlock().unwrap();
        waits.join().unwrap().unwrap();
    });
    assert!(near.try_lock("a").unwrap().is_some());
}

#[test]
fn misuse_and_bad_names_are_errors() {
    let pool = TestPool::start(1, 32 << 20);
    let client = pool.client(0);
    let shared = client.lock_shared("a").unwrap();
    for refused in [client.lock("a"), client.lock_shared("a")] {
        assert!(matches!(refused.unwrap_err(), Error::LockMisused { name, .. } if name == "a"));
    }
    shared.check().unwrap();
    shared.unlock().unwrap();
    assert!(matches!(client.lock("a/b"), Err(Error::BadName { .. })));
    assert!(matches!(client.lock(""), Err(Error::BadName { .. })));
    // The same client's other thread is another.
    let _held = client.lock("a").unwrap();
    std::thread::scope(|scope| scope.spawn(|| assert!(client.try_lock("a").unwrap().is_none())).join().unwrap());
}

#[test]
fn a_flush_beside_a_wait_for_a_lock_does_not_wait_for_it() {
    let pool = TestPool::start(2, 32 << 20);
    let (near, far) = (pool.client(0), pool.client(1));
    let held = far.lock_shared("a").unwrap();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| far.lock("a").map(drop));
        // Once a reader would have to wait, the other thread is known to wait.
        while !would_wait(&near) {
            std::thread::yield_now();
        }
        far.flush().unwrap();
        held.unlock().unwrap();
        waits.join().unwrap().unwrap();
    });
}

pub fn takes_a_lock_and_dies() {
    let pool = Pool::attach_alone().unwrap();
    let _lock = pool.lock("a").unwrap();
    let _read = pool.lock_shared("read").unwrap();
    holder::wait_for_death();
}

#[test]
fn a_killed_holders_lock_goes_on_and_the_next_is_told_once() {
    let pool = TestPool::start(2, 32 << 20);
    // At home over shared memory, elsewhere over TCP.
    for node in [0, 1] {
        let child = holder::start(concat!(module_path!(), "::takes_a_lock_and_dies"), pool.nodes[node].socket());
        let (near, far) = (pool.client(0), pool.client(1));
        assert!(near.try_lock("a").unwrap().is_none());
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| far.lock("a").map(|lock| lock.was_abandoned()));
            holder::kill(child);
            assert!(waits.join().unwrap().unwrap(), "the first after it is told");
        });
        assert!(!near.lock("a").unwrap().was_abandoned(), "the next is not");
        assert!(!near.lock("read").unwrap().was_abandoned(), "who only read leaves nothing half-written");
    }
}

/// A home behind a relay, and a node beside it.
fn pair() -> (Node, Node, Relay) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let advertise = Some(listener.local_addr().unwrap().to_string());
    let port = hanare_testkit::free_address();
    let home = Node::start(NodeOptions { advertise, listen: port.to_string(), ..options(16 << 20) }).unwrap();
    let other = Node::start(NodeOptions { join: Some(port.to_string()), ..options(16 << 20) }).unwrap();
    (home, other, Relay::start(listener, port))
}

#[test]
fn who_lost_its_lock_with_the_connection_is_told_by_its_next_call() {
    let (home, other, relay) = pair();
    let (near, far) = (Pool::attach_to(home.socket(), None).unwrap(), Pool::attach_to(other.socket(), None).unwrap());
    let lock = far.lock("a").unwrap();
    lock.check().unwrap();
    relay.set(Mode::LoseRequest);
    let told = far.lock("b").unwrap_err();
    assert!(matches!(&told, Error::LockLost { name, .. } if name == "a"), "{told}");
    assert!(near.lock("a").unwrap().was_abandoned(), "others have it meanwhile");
    assert!(matches!(lock.check(), Err(Error::LockLost { .. })));
    far.lock("b").unwrap().unlock().unwrap();
    assert!(matches!(lock.unlock(), Err(Error::LockLost { .. })));

    let lock = far.lock("c").unwrap();
    relay.set(Mode::LoseRequest);
    assert!(matches!(lock.unlock(), Err(Error::LockLost { .. })), "it was never given back");
    assert!(near.lock("c").unwrap().was_abandoned());

    let lock = far.lock("d").unwrap();
    relay.set(Mode::LoseAnswer);
    lock.unlock().unwrap();
    assert!(!near.lock("d").unwrap().was_abandoned(), "it was given back; only the answer was lost");
}

#[test]
fn a_taking_that_is_repeated_takes_the_lock_once() {
    let (home, other, relay) = pair();
    let (near, far) = (Pool::attach_to(home.socket(), None).unwrap(), Pool::attach_to(other.socket(), None).unwrap());
    far.lock("a").unwrap().unlock().unwrap();
    // The second of them asks for a lease, too.
    for (name, mode) in [("a", Mode::LoseRequest), ("a", Mode::LoseAnswer), ("b", Mode::LoseAnswer)] {
        relay.set(mode);
        let lock = far.lock(name).unwrap();
        assert!(near.try_lock(name).unwrap().is_none());
        lock.unlock().unwrap();
        near.try_lock(name).unwrap().expect("nobody has it").unlock().unwrap();
    }
}

#[test]
fn a_home_that_does_not_answer_holds_nobody_beyond_the_bound_nor_takes_other_locks_away() {
    let (home, other, relay) = pair();
    let (near, far) = (Pool::attach_to(home.socket(), None).unwrap(), Pool::attach_to(other.socket(), None).unwrap());
    let kept = far.lock("kept").unwrap();
    for name in ["free", "taken"] {
        let taken = (name == "taken").then(|| near.lock("taken").unwrap());
        relay.set(Mode::Silent);
        let begun = Instant::now();
        let late = far.lock_within(name, Duration::from_secs(1)).unwrap_err();
        assert!(matches!(&late, Error::NotInTime { after_ms: 1000, .. }), "{late}");
        assert!(begun.elapsed() < Duration::from_secs(9), "the usual 10 s are none of the bound: {:?}", begun.elapsed());
        relay.set(Mode::Pass);
        drop(taken);
        // What arrives late is withdrawn, whether it was granted or would have waited; and it says nothing of an abandonment.
        let lock = near.lock(name).unwrap();
        assert!(!lock.was_abandoned(), "'{name}'");
        lock.unlock().unwrap();
        far.lock(name).unwrap().unlock().unwrap();
    }
    assert!(near.try_lock("kept").unwrap().is_none());
    kept.unlock().unwrap();
}

#[test]
fn a_home_that_began_again_says_so_to_the_first_taker_of_each_lock() {
    let folder = tempfile::tempdir().unwrap();
    let at = hanare_testkit::free_address().to_string();
    let first_life = options(16 << 20);
    let start = || {
        let journal = Some(folder.path().join("journal"));
        let again = NodeOptions { journal, listen: at.clone(), name: first_life.name.clone(), ..options(16 << 20) };
        Node::start(again).unwrap()
    };
    let home = start();
    let other = Node::start(NodeOptions { join: Some(at.clone()), ..options(16 << 20) }).unwrap();
    let (holder, next) = (Pool::attach_to(other.socket(), None).unwrap(), Pool::attach_to(other.socket(), None).unwrap());
    let held = holder.lock("a").unwrap();
    assert!(!held.was_abandoned(), "a pool that begins has no holders from before");
    drop(home);
    let _home = start();
    // The holder is inside still, and knows nothing.
    let taken = loop {
        match next.lock("a") {
            Ok(taken) => break taken,
            // Its own connection broke, too.
            Err(Error::NodeLost { .. }) => std::thread::sleep(Duration::from_millis(5)),
            Err(error) => panic!("{error}"),
        }
    };
    assert!(taken.was_abandoned(), "the one before may be inside");
    assert!(matches!(held.unlock(), Err(Error::LockLost { .. })));
    taken.unlock().unwrap();
    assert!(!next.lock("a").unwrap().was_abandoned(), "said once");
    assert!(next.lock_shared("b").unwrap().was_abandoned());
    assert!(!next.lock("b").unwrap().was_abandoned());
}

#[test]
fn who_waits_is_told_when_the_home_goes() {
    let mut pool = TestPool::start(2, 32 << 20);
    let (first, second) = (pool.client(1), pool.client(1));
    let lock = first.lock("a").unwrap();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| second.lock("a").map(drop));
        drop(pool.nodes.remove(0));
        assert!(matches!(waits.join().unwrap(), Err(Error::NodeLost { node, .. }) if node.0 == 0));
    });
    assert!(matches!(lock.unlock(), Err(Error::LockLost { .. })));
    assert!(matches!(first.lock("a"), Err(Error::NodeLost { .. })));
}
