//! Locks by name that a program keeps while nobody else wants them: no message to take them again, taken back when somebody asks, and
//! granted on as what they were when their program dies.

use crate::apart;
use crate::holder;
use crate::relay;
use crate::support;

use apart::until;
use hanare::node::{Node, NodeOptions};
use hanare::{Error, Pool};
use hanare_protocol::limits::LEASE_TAKING_COUNT;
use relay::{Mode, Relay};
use rustix::process::{Pid, Signal, kill_process};
use std::net::TcpListener;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use support::{TestPool, messages, options};

/// Takes a lock and gives it back so often that the program keeps it from then on.
fn keep(pool: &Pool, name: &str) {
    (0..LEASE_TAKING_COUNT).for_each(|_| pool.lock(name).unwrap().unlock().unwrap());
}

#[test]
fn a_lock_that_nobody_else_wants_is_taken_again_without_a_message() {
    let pool = TestPool::start(2, 32 << 20);
    for node in [0, 1] {
        let client = pool.client(node);
        keep(&client, "a");
        let again = || {
            for _ in 0..100 {
                let lock = client.lock("a").unwrap();
                lock.check().unwrap();
                assert!(!lock.was_abandoned());
                lock.unlock().unwrap();
                drop(client.try_lock("a").unwrap().unwrap());
                drop(client.lock_within("a", Duration::from_secs(1)).unwrap());
            }
            // Nor by another thread of the program.
            std::thread::scope(|scope| scope.spawn(|| client.lock("a").unwrap().unlock().unwrap()).join().unwrap());
        };
        assert_eq!(messages(&client, again), 0);
        // A lock beside it.
        let held = client.lock("a").unwrap();
        keep(&client, "b");
        assert_eq!(messages(&client, || drop(client.lock("b").unwrap())), 0);
        held.unlock().unwrap();
        assert_eq!(messages(&client, again), 0);
        // The next client's node gets both.
        let other = pool.client(1 - node);
        assert!(!other.lock("a").unwrap().was_abandoned() && !other.lock_shared("b").unwrap().was_abandoned());
        assert!(messages(&client, || drop(client.lock("a").unwrap())) > 0);
    }
}

#[test]
fn who_asks_for_a_lock_that_is_kept_gets_it_and_one_that_is_held_is_waited_for() {
    let pool = TestPool::start(2, 32 << 20);
    for (keeper, other) in [(0, 1), (1, 0), (1, 1)] {
        let (keeper, other) = (pool.client(keeper), pool.client(other));
        type Taking = fn(&Pool) -> Option<hanare::LockGuard>;
        let takings: [(&str, Taking); 6] = [
            ("waits", |pool| Some(pool.lock("waits").unwrap())),
            ("shares", |pool| Some(pool.lock_shared("shares").unwrap())),
            ("tries", |pool| pool.try_lock("tries").unwrap()),
            ("tries to share", |pool| pool.try_lock_shared("tries to share").unwrap()),
            ("waits a while", |pool| pool.lock_within("waits a while", Duration::from_secs(5)).ok()),
            ("shares a while", |pool| pool.lock_shared_within("shares a while", Duration::from_secs(5)).ok()),
        ];
        for (name, take) in takings {
            keep(&keeper, name);
            let taken = take(&other).unwrap_or_else(|| panic!("'{name}' is only kept"));
            assert!(!taken.was_abandoned());
            std::thread::scope(|scope| {
                // The keeper has no right of its own left.
                scope.spawn(|| assert!(keeper.try_lock(name).unwrap().is_none())).join().unwrap();
            });
            taken.unlock().unwrap();
        }
        keep(&keeper, "held");
        let held = keeper.lock("held").unwrap();
        assert!(other.try_lock("held").unwrap().is_none() && other.try_lock_shared("held").unwrap().is_none());
        assert!(matches!(other.lock_within("held", Duration::from_millis(5)), Err(Error::NotInTime { .. })));
        let misused = |outcome: Result<hanare::LockGuard, Error>| matches!(outcome, Err(Error::LockMisused { .. }));
        assert!(misused(keeper.lock("held")) && misused(keeper.lock_shared("held")), "a thread waits for itself");
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| other.lock("held").map(|lock| lock.was_abandoned()));
            held.unlock().unwrap();
            assert!(!waits.join().unwrap().unwrap());
        });
        // The keeper itself may share what it keeps, with others.
        keep(&keeper, "own");
        let own = keeper.lock_shared("own").unwrap();
        drop(other.lock_shared("own").unwrap());
        own.unlock().unwrap();
    }
}

#[test]
fn one_of_many_threads_is_in_at_a_time_while_locks_are_lent_and_recalled() {
    let pool = TestPool::start(2, 32 << 20);
    let clients: Vec<Pool> = (0..3).map(|k| pool.client(k % 2)).collect();
    // Not atomic together: two at once would lose a count.
    let counts = [const { AtomicU64::new(0) }; 2];
    std::thread::scope(|scope| {
        for thread in 0..6 {
            let (client, counts) = (&clients[thread % 3], &counts);
            scope.spawn(move || {
                for round in 0..120 {
                    // Bursts on one lock, which are lent, and others' bursts on it.
                    let which = (thread + round / 20) % 2;
                    let lock = client.lock(["even", "odd"][which]).unwrap();
                    assert!(!lock.was_abandoned());
                    let before = counts[which].load(Ordering::Relaxed);
                    if round % 7 == 0 {
                        std::thread::yield_now();
                    }
                    counts[which].store(before + 1, Ordering::Relaxed);
                    lock.unlock().unwrap();
                }
            });
        }
    });
    assert_eq!(counts.map(AtomicU64::into_inner).iter().sum::<u64>(), 6 * 120);
}

#[test]
fn many_locks_are_kept_and_those_beyond_the_words_are_given_back() {
    let pool = TestPool::start(1, 32 << 20);
    let client = pool.client(0);
    let count = hanare_protocol::limits::LEASE_COUNT + 20;
    (0..count).for_each(|number| keep(&client, &format!("lock{number}")));
    let again = || (0..count).for_each(|number| drop(client.lock(&format!("lock{number}")).unwrap()));
    assert!(messages(&client, again) < 100 * 6, "most are kept");
    let other = pool.client(0);
    (0..count).for_each(|number| assert!(!other.lock(&format!("lock{number}")).unwrap().was_abandoned()));
}

pub fn keeps_one_lock_and_holds_another() {
    let pool = Pool::attach_alone().unwrap();
    keep(&pool, "kept");
    keep(&pool, "held");
    let _held = pool.lock("held").unwrap();
    holder::wait_for_death();
}

const PROGRAM: &str = concat!(module_path!(), "::keeps_one_lock_and_holds_another");

#[test]
fn who_is_killed_abandons_what_it_held_and_not_what_it_kept() {
    let pool = TestPool::start(2, 32 << 20);
    for node in [0, 1] {
        for waits_before in [false, true] {
            let child = holder::start(PROGRAM, pool.nodes[node].socket());
            let (near, far) = (pool.client(0), pool.client(1));
            if waits_before {
                assert!(near.try_lock("held").unwrap().is_none());
            }
            holder::kill(child);
            assert!(!far.lock("kept").unwrap().was_abandoned(), "nobody had it");
            assert!(far.lock("held").unwrap().was_abandoned(), "its holder died");
            assert!(!near.lock("held").unwrap().was_abandoned(), "said once");
        }
    }
}

#[test]
fn a_program_that_is_stopped_keeps_no_lock_from_others() {
    let pool = TestPool::start(2, 32 << 20);
    for node in [0, 1] {
        let child = holder::start(PROGRAM, pool.nodes[node].socket());
        let process = Pid::from_child(&child);
        kill_process(process, Signal::STOP).unwrap();
        let (near, far) = (pool.client(0), pool.client(1));
        for client in [&near, &far] {
            let taken = client.try_lock("kept").unwrap().expect("nobody has it");
            assert!(!taken.was_abandoned());
            assert!(client.try_lock("held").unwrap().is_none(), "a stopped holder is one");
        }
        holder::kill(child);
        assert!(near.lock("held").unwrap().was_abandoned());
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
fn a_connection_that_breaks_takes_no_lock_that_is_kept_and_each_that_is_held() {
    let (home, other, relay) = pair();
    let (near, far) = (Pool::attach_to(home.socket(), None).unwrap(), Pool::attach_to(other.socket(), None).unwrap());
    keep(&far, "kept");
    keep(&far, "held");
    let held = far.lock("held").unwrap();
    relay.set(Mode::LoseRequest);
    let told = far.lock("b").unwrap_err();
    assert!(matches!(&told, Error::LockLost { name, .. } if name == "held"), "{told}");
    assert!(near.lock("held").unwrap().was_abandoned(), "others have it meanwhile");
    assert!(matches!(held.check(), Err(Error::LockLost { .. })));
    assert!(matches!(held.unlock(), Err(Error::LockLost { .. })));
    assert!(!near.lock("kept").unwrap().was_abandoned());
    keep(&far, "kept");
    // A release that is wanted goes by a message, which is lost.
    keep(&far, "wanted");
    let wanted = far.lock("wanted").unwrap();
    assert!(near.try_lock("wanted").unwrap().is_none());
    relay.set(Mode::LoseRequest);
    assert!(matches!(wanted.unlock(), Err(Error::LockLost { .. })));
    assert!(near.lock("wanted").unwrap().was_abandoned());
}

#[test]
fn a_home_that_began_again_lends_nothing_of_the_life_before() {
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
    let (keeper, next) = (Pool::attach_to(other.socket(), None).unwrap(), Pool::attach_to(other.socket(), None).unwrap());
    ["a", "b"].into_iter().for_each(|name| keep(&keeper, name));
    let held = keeper.lock("b").unwrap();
    drop(home);
    let home = start();
    let near = Pool::attach_to(home.socket(), None).unwrap();
    // The node is back in its pool, and has noticed that it was not.
    until("the node is a member", || near.status().unwrap().nodes.iter().filter(|node| node.alive).count() == 2);
    let taken = near.lock("a").unwrap();
    assert!(taken.was_abandoned(), "of a life before nothing is known");
    until("it connects again", || matches!(keeper.try_lock("a"), Ok(None)));
    taken.unlock().unwrap();
    assert!(near.lock("b").unwrap().was_abandoned());
    assert!(matches!(held.unlock(), Err(Error::LockLost { .. })));
    assert!(!keeper.lock("a").unwrap().was_abandoned());
    drop((next, other));
}

#[test]
fn a_node_that_is_gone_holds_its_clients_locks_for_a_while_and_they_count_as_abandoned() {
    let mut pool = TestPool::start(2, 32 << 20);
    let (near, far) = (pool.client(0), pool.client(1));
    keep(&far, "a");
    drop(pool.nodes.remove(1));
    assert!(near.lock("a").unwrap().was_abandoned(), "nobody can say");
    // The program lives, and takes nothing by what it was lent.
    let held = near.lock("a").unwrap();
    assert!(!matches!(far.try_lock("a"), Ok(Some(_))));
    held.unlock().unwrap();
}
