//! Waits for a word of a region, here and elsewhere, changed by commands and by stores.

use crate::intruder;
use crate::support;

use hanare::{CreateOptions, Error, JobId, JobRank, NodeId, Operator, Placement, Pool, Rank, Region, Wait, Word};
use hanare_protocol::versions::Versions;
use hanare_protocol::wire::control::{Answer, Request};
use intruder::Intruder;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use support::TestPool;

fn region(client: &Pool, name: &str, len: u64, node: u32) -> Region {
    let options = CreateOptions { placement: Placement::Node(NodeId(node)), ..CreateOptions::default() };
    client.create(name, len, &options).unwrap()
}

#[test]
fn a_word_is_passed_to_and_fro() {
    let pool = TestPool::start(2, 32 << 20);
    // Both sides near and far by turns; one region too small to be mapped at once.
    for (name, len, node) in [("large", 1 << 20, 0), ("far", 1 << 20, 1), ("small", 4096, 1)] {
        let (near, far) = (pool.client(0), pool.client(1));
        let ping = region(&near, name, len, node);
        let pong = far.open(name).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 0..100 {
                    ping.wait_until(8, Wait::Equal(Word::U64(2 * round)), None).unwrap();
                    ping.put(8, &(2 * round + 1).to_le_bytes()).unwrap();
                }
            });
            for round in 0..100 {
                let seen = pong.wait_until(8, Wait::AtLeast(Word::U64(2 * round + 1)), None).unwrap();
                assert_eq!(seen, 2 * round + 1, "{name}");
                pong.fetch_word(8, Operator::Add, 1).unwrap();
            }
        });
    }
}

#[test]
fn a_store_that_no_node_sees_ends_a_wait_from_elsewhere() {
    let pool = TestPool::start(2, 32 << 20);
    let (near, far) = (pool.client(0), pool.client(1));
    let here = region(&far, "a", 1 << 20, 1);
    let map = here.map_local().unwrap();
    let there = near.open("a").unwrap();
    let sent = near.traffic().messages_sent;
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| there.wait_until(4, Wait::NotEqual(Word::U32(0)), Some(Duration::from_secs(60))).unwrap());
        while near.traffic().messages_sent == sent {
            std::thread::yield_now();
        }
        // The question has left. Were it slow to arrive, it would be answered at once, and this test prove less.
        std::thread::sleep(Duration::from_millis(20));
        // SAFETY: a word of the map, aligned, and atomic to all who change it.
        unsafe { AtomicU32::from_ptr(map.window().ptr().cast::<u32>().add(1)) }.store(77, Ordering::SeqCst);
        assert_eq!(waits.join().unwrap(), 77);
        // Where nobody looked, the client would have asked anew after its bound and that of an answer.
        assert!(begun.elapsed() < Duration::from_secs(50), "nobody looked at the word");
    });
}

#[test]
fn what_does_not_come_within_the_bound_is_said() {
    let pool = TestPool::start(2, 32 << 20);
    for node in [0, 1] {
        let region = region(&pool.client(0), &format!("r{node}"), 1 << 20, node);
        let late = region.wait_until(16, Wait::Equal(Word::U64(1)), Some(Duration::from_millis(5))).unwrap_err();
        assert!(matches!(&late, Error::NotInTime { what, after_ms: 5 } if what.contains("offset 16")), "{late}");
        let now = region.wait_until(16, Wait::NotEqual(Word::U32(0)), Some(Duration::ZERO)).unwrap_err();
        assert!(matches!(now, Error::NotInTime { .. }), "{now}");
        assert_eq!(region.wait_until(16, Wait::Equal(Word::U64(0)), Some(Duration::ZERO)), Ok(0));
        for (offset, word) in [(4, Word::U64(0)), (2, Word::U32(0))] {
            assert!(matches!(region.wait_until(offset, Wait::Equal(word), None), Err(Error::BadElement { .. })));
        }
        let beyond = region.wait_until(1 << 20, Wait::Equal(Word::U32(0)), None);
        assert!(matches!(beyond, Err(Error::OutOfRange { .. })));
    }
}

#[test]
fn a_wait_elsewhere_ends_when_the_region_is_removed() {
    let pool = TestPool::start(2, 32 << 20);
    let (near, far) = (pool.client(0), pool.client(1));
    let region = region(&near, "a", 1 << 20, 1);
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| region.wait_until(0, Wait::Equal(Word::U64(1)), None));
        far.remove("a").unwrap();
        assert!(matches!(waits.join().unwrap(), Err(Error::UnknownRegion { .. })));
    });
}

#[test]
fn a_wait_elsewhere_ends_when_the_node_goes() {
    let mut pool = TestPool::start(2, 32 << 20);
    let client = pool.client(0);
    let region = region(&client, "a", 1 << 20, 1);
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| region.wait_until(0, Wait::Equal(Word::U64(1)), None));
        drop(pool.nodes.remove(1));
        assert!(matches!(waits.join().unwrap(), Err(Error::NodeLost { node, .. }) if node.0 == 1));
    });
}

#[test]
fn a_word_in_the_middle_of_an_interleaved_region_is_found() {
    let pool = TestPool::start(2, 32 << 20);
    let client = pool.client(0);
    let options = CreateOptions { placement: Placement::Interleave(4096), ..CreateOptions::default() };
    let region = client.create("a", 1 << 20, &options).unwrap();
    for offset in [4088, 4096, 8192, 12_288 + 8] {
        region.put(offset, &offset.to_le_bytes()).unwrap();
        assert_eq!(region.wait_until(offset, Wait::Equal(Word::U64(offset)), None), Ok(offset));
    }
}

#[test]
fn a_rank_hears_that_another_died_and_not_that_one_detached() {
    let pool = TestPool::start(2, 32 << 20);
    let who = |rank| JobRank { job: JobId(u128::MAX), rank: Rank(rank), ranks: 4 };
    let rank = |node: usize, number| Pool::attach_to(pool.nodes[node].socket(), Some(who(number))).unwrap();
    let (near, far, detached) = (rank(0, 0), rank(1, 1), rank(1, 2));
    let mut dies = Intruder::connect(pool.nodes[1].socket());
    assert!(matches!(dies.ask(&Request::Attach { versions: Versions::BUILD, job: Some(who(3)) }), Ok(Answer::Attached(_))));
    // A word here and one elsewhere.
    let here = region(&near, "a", 1 << 20, 0);
    let there = far.open("a").unwrap();
    let alone = pool.client(0).open("a").unwrap();
    let wanted = Wait::Equal(Word::U64(1));
    drop(detached);
    let second = Some(Duration::from_secs(1));
    for region in [&here, &there] {
        let late = region.wait_until(8, wanted, second).unwrap_err();
        assert!(matches!(late, Error::NotInTime { after_ms: 1000, .. }), "{late}");
    }
    std::thread::scope(|scope| {
        let waits = [
            scope.spawn(|| here.wait_until(8, wanted, None).map(drop)),
            scope.spawn(|| there.wait_until(8, wanted, None).map(drop)),
        ];
        let not_of_the_job = scope.spawn(|| alone.wait_until(8, wanted, None));
        dies.hang_up();
        for wait in waits {
            let told = wait.join().unwrap().unwrap_err();
            assert!(matches!(&told, Error::RankGone { rank, .. } if rank.0 == 3), "{told}");
        }
        here.put(8, &1u64.to_le_bytes()).unwrap();
        assert_eq!(not_of_the_job.join().unwrap(), Ok(1));
    });
    // What is there already needs nobody.
    assert_eq!(there.wait_until(8, wanted, None), Ok(1));
}

#[test]
fn words_are_compared_in_all_ways_and_lengths_here_and_elsewhere() {
    let pool = TestPool::start(2, 16 << 20);
    for node in 0..2 {
        let client = pool.client(node);
        let region = client.create_or_attach("w", 1 << 20, &CreateOptions::default()).unwrap();
        region.put(64, &(-3i16).to_le_bytes()).unwrap();
        for (until, is_met) in [
            (Wait::Less(Word::I16(0)), true),
            (Wait::Less(Word::U16(0xfffd)), false),
            (Wait::AtMost(Word::U16(0xfffd)), true),
            (Wait::Greater(Word::I16(-4)), true),
            (Wait::Greater(Word::I16(-3)), false),
            (Wait::AtLeast(Word::I16(-3)), true),
        ] {
            let seen = region.wait_until(64, until, Some(Duration::ZERO));
            assert_eq!(seen.is_ok(), is_met, "{until:?} on node {node}: {seen:?}");
        }
        assert!(matches!(region.wait_until(65, Wait::Equal(Word::U16(0)), None), Err(Error::BadElement { .. })));
    }
}

#[test]
fn any_of_several_words_ends_a_wait_wherever_they_lie_and_all_do() {
    let pool = TestPool::start(3, 16 << 20);
    let (waiter, writer) = (pool.client(0), pool.client(1));
    // Places of 64 KiB on three nodes by turns.
    let spread = CreateOptions { placement: hanare::Placement::Interleave(64 << 10), ..CreateOptions::default() };
    let region = waiter.create("spread", 1 << 20, &spread).unwrap();
    let other = writer.open("spread").unwrap();
    let places: Vec<u64> = (0..4).map(|place| place << 16).collect();
    for (round, changed) in [2usize, 0, 3, 1].into_iter().enumerate() {
        let words: Vec<(u64, Wait)> = places.iter().map(|place| (*place, Wait::Equal(Word::U64(round as u64 + 7)))).collect();
        let late = region.wait_for_any(&words, Some(Duration::from_millis(3)));
        assert!(matches!(late, Err(Error::NotInTime { .. })), "{late:?}");
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| region.wait_for_any(&words, Some(Duration::from_secs(20))));
            other.put(places[changed], &(round as u64 + 7).to_le_bytes()).unwrap();
            assert_eq!(waits.join().unwrap(), Ok((changed, round as u64 + 7)));
        });
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| region.wait_for_all(&words, Some(Duration::from_secs(20))));
            for place in &places {
                other.put(*place, &(round as u64 + 7).to_le_bytes()).unwrap();
            }
            assert_eq!(waits.join().unwrap(), Ok(vec![round as u64 + 7; 4]));
        });
    }
    for wrong in [vec![], vec![(0, Wait::Equal(Word::U64(0))); 9]] {
        assert!(matches!(region.wait_for_any(&wrong, None), Err(Error::LimitReached { .. })));
        assert!(matches!(region.wait_for_all(&wrong, None), Err(Error::LimitReached { .. })));
    }
}
