//! Many threads of one client share its connections: nobody waits for an answer that another thread has taken in.

use crate::support;

use hanare::{CreateOptions, NodeId, Placement};
use std::time::{Duration, Instant};
use support::{TestPool, pattern};

#[test]
fn every_thread_gets_its_own_answers_and_soon() {
    let pool = TestPool::start(2, 64 << 20);
    let client = pool.client(0);
    let placed = |node| CreateOptions { placement: Placement::Node(NodeId(node)), ..CreateOptions::default() };
    let far = client.create("far", 1 << 20, &placed(1)).unwrap();
    let bytes = pattern(1 << 20, 3);
    far.put(0, &bytes).unwrap();
    // A lost wake-up is found by its thread when the bound of 10 s ends, so no wake-up is lost where each answer is there before.
    let soon = |begun: Instant| assert!(begun.elapsed() < Duration::from_secs(9), "a thread slept over its answer");
    std::thread::scope(|scope| {
        for thread in 0..6 {
            let (far, bytes, client) = (&far, &bytes, &client);
            scope.spawn(move || {
                let mut buffer = vec![0; 3000];
                for round in 0..300 {
                    let at = (thread * 7919 + round * 104_729) % (bytes.len() - buffer.len());
                    let begun = Instant::now();
                    far.get(at as u64, &mut buffer).unwrap();
                    soon(begun);
                    assert!(buffer == bytes[at..at + buffer.len()], "thread {thread}, round {round}");
                    if round % 50 == 0 {
                        // Small and new each time: reached through the node, over shared memory.
                        let name = format!("small{thread}-{round}");
                        let small = client.create(&name, 100, &placed(0)).unwrap();
                        small.put(thread as u64, &[thread as u8]).unwrap();
                        let begun = Instant::now();
                        let get = small.start_get(thread as u64, vec![0]).unwrap();
                        while !get.is_done() {
                            std::thread::yield_now();
                        }
                        assert_eq!(get.wait().unwrap(), [thread as u8]);
                        soon(begun);
                    }
                }
            });
        }
    });
}
