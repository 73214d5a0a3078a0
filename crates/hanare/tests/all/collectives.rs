//! Collective operations over real nodes: what a plain loop over all vectors gives, the same bits at every party; and who is gone is named.

use crate::{holder, relay, support};

use hanare::{Error, Group, JobId, JobRank, Operator, Pool, Rank, Result};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use support::{Ends, TestPool};

/// Runs `what` at each party at once; their results in the order of the parties.
fn at_all<T: Send>(groups: &[Group], what: impl Fn(&Group) -> T + Sync) -> Vec<T> {
    std::thread::scope(|scope| {
        let what = &what;
        let running: Vec<_> = groups.iter().map(|group| scope.spawn(move || what(group))).collect();
        running.into_iter().map(|running| running.join().unwrap()).collect()
    })
}

/// Numbers of a party that no two parties, places or seeds have in common, and whose sum depends on its order.
fn values(party: u32, len: usize, seed: u64) -> Vec<f64> {
    (0..len as u64)
        .map(|place| {
            let bits = (u64::from(party) << 40 | place << 8 | seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            (bits >> 11) as f64 * 10f64.powi((bits % 13) as i32 - 6)
        })
        .collect()
}

/// The sum over parties, each on one of `nodes` in turn, within hosts and then over hosts.
fn sum(parties: u32, nodes: u32, len: usize, seed: u64) -> Vec<f64> {
    let add = |mut sum: Vec<f64>, next: Vec<f64>| {
        sum.iter_mut().zip(next).for_each(|(sum, next)| *sum += next);
        sum
    };
    let host = |host: u32| (host..parties).step_by(nodes as usize).map(|party| values(party, len, seed)).reduce(add);
    (0..nodes).filter_map(host).reduce(add).unwrap()
}

fn bits(values: &[f64]) -> Vec<u64> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// Writers are opened, and vectors exchanged, while dials are cut in their greetings and requests at any place.
#[test]
fn ranks_go_on_while_connections_between_their_nodes_are_cut_every_few_milliseconds() {
    let (first, second, relay) = relay::nodes_beside_relay();
    let rank = |rank: u32| JobRank { job: JobId(9), rank: Rank(rank), ranks: 4 };
    let nodes = [&first, &second];
    let pools: Vec<Pool> = (0..4).map(|k| Pool::attach_to(nodes[k as usize % 2].socket(), Some(rank(k))).unwrap()).collect();
    let groups: Vec<Group> = pools.iter().map(Pool::job_group).collect();
    let (relay, is_over, done) = (&relay, AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let end = Ends(&is_over);
        scope.spawn(|| {
            let (mut before, mut in_vain) = (0, 0);
            for pause_ms in (5..25).cycle() {
                if is_over.load(Ordering::Relaxed) {
                    return;
                }
                std::thread::sleep(Duration::from_millis(pause_ms));
                let now = done.load(Ordering::Relaxed);
                in_vain = if now == before { in_vain + 1 } else { 0 };
                before = now;
                // Where processors are busy a dial may take longer than all pauses. A host that is not reached for seconds is lost.
                if in_vain < 40 {
                    relay.cut();
                }
            }
        });
        let outcomes = at_all(&groups, |group| {
            for (seed, len) in (0..300).map(|seed| (seed, [1, 3000][seed as usize % 2])) {
                let mut all = values(group.number(), len, seed);
                group.all_reduce(Operator::Add, &mut all)?;
                assert_eq!(bits(&all), bits(&sum(4, 2, len, seed)), "operation {seed}");
                done.fetch_add(1, Ordering::Relaxed);
            }
            // A part that the relay has acknowledged and lost comes with the sender's next call, or when it leaves.
            pools[group.number() as usize].leave();
            Ok::<(), Error>(())
        });
        drop(end);
        outcomes.into_iter().for_each(|outcome| outcome.unwrap());
    });
}

#[test]
fn a_rank_that_another_takes_for_lost_does_not_wait_for_that_one() {
    let (first, second, relay) = relay::nodes_beside_relay();
    let rank = |rank: u32| JobRank { job: JobId(9), rank: Rank(rank), ranks: 2 };
    let pools = [(&first, 0), (&second, 1)].map(|(node, k)| Pool::attach_to(node.socket(), Some(rank(k))).unwrap());
    let groups: Vec<Group> = pools.iter().map(Pool::job_group).collect();
    at_all(&groups, |group| group.all_reduce(Operator::Add, &mut [1u32]).unwrap());
    // The first host reaches the second no more, and that one reaches it.
    relay.set(relay::Mode::Dead);
    relay.cut();
    let outcomes = at_all(&groups, |group| (0..100).try_for_each(|_| group.all_reduce(Operator::Add, &mut [1u32])));
    for (party, outcome) in outcomes.iter().enumerate() {
        let names = |rank: &Rank| rank.0 as usize == 1 - party;
        assert!(matches!(outcome, Err(Error::RankGone { rank, .. }) if names(rank)), "party {party}: {outcome:?}");
    }
}

#[test]
fn every_operation_is_a_plain_loop_over_all_vectors() {
    for (nodes, parties) in [(1, 1), (1, 3), (2, 2), (2, 5), (3, 4)] {
        let pool = TestPool::start(nodes as usize, 64 << 20);
        let ranks = pool.job(parties);
        let groups: Vec<Group> = ranks.iter().map(Pool::job_group).collect();
        // Shorter than an element a host, than a piece, and longer than several.
        for (seed, len) in [0usize, 1, 2, 1000, 70_001].into_iter().enumerate() {
            let seed = seed as u64;
            let root = seed as u32 % parties;
            at_all(&groups, |group| check_all(group, nodes, root, len, seed).unwrap());
        }
    }
}

fn check_all(group: &Group, nodes: u32, root: u32, len: usize, seed: u64) -> Result<()> {
    let (me, parties) = (group.number(), group.parties());
    let what = format!("{nodes} nodes, party {me} of {parties}, root {root}, {len} numbers");
    let own = || values(me, len, seed);
    let blocks = || (0..parties).flat_map(|party| values(party, len, seed)).collect::<Vec<f64>>();
    let total = sum(parties, nodes, len, seed);

    let mut vector = own();
    group.all_reduce(Operator::Add, &mut vector)?;
    assert_eq!(bits(&vector), bits(&total), "all-reduce: {what}");
    let mut vector = own();
    group.reduce(Operator::Add, &mut vector, root)?;
    assert!(me != root || bits(&vector) == bits(&total), "reduce: {what}");
    let mut vector = own();
    group.broadcast(&mut vector, root)?;
    assert_eq!(vector, values(root, len, seed), "broadcast: {what}");
    let mut largest: Vec<u32> = (0..len as u32).map(|place| place ^ me).collect();
    group.all_reduce(Operator::Max, &mut largest)?;
    assert!(largest.iter().zip(0..).all(|(value, place)| *value == (0..parties).map(|party| place ^ party).max().unwrap()));

    let mut gathered = vec![0f64; if me == root { len * parties as usize } else { 0 }];
    group.gather(&own(), &mut gathered, root)?;
    assert!(me != root || gathered == blocks(), "gather: {what}");
    let mut part = vec![0f64; len];
    group.scatter(&if me == root { blocks() } else { Vec::new() }, &mut part, root)?;
    assert_eq!(part, own(), "scatter: {what}");
    let mut gathered = vec![0f64; len * parties as usize];
    group.all_gather(&own(), &mut gathered)?;
    assert_eq!(gathered, blocks(), "all-gather: {what}");
    // Block `k` of a party is its own numbers with seed `k`.
    let from: Vec<f64> = (0..parties).flat_map(|to| values(me, len, u64::from(to))).collect();
    let wanted: Vec<f64> = (0..parties).flat_map(|from| values(from, len, u64::from(me))).collect();
    group.all_to_all(&from, &mut gathered)?;
    assert_eq!(gathered, wanted, "all-to-all: {what}");
    Ok(())
}

#[test]
fn who_joins_under_a_name_exchanges_too_and_leaves_nothing() {
    let pool = TestPool::start(2, 64 << 20);
    let clients: Vec<Pool> = (0..3).map(|party| pool.client(party % 2)).collect();
    for round in 0..2u64 {
        let groups: Vec<Group> = clients.iter().map(|client| client.group("g", 3).unwrap()).collect();
        assert_eq!(groups.iter().map(Group::number).collect::<Vec<_>>(), [0, 1, 2]);
        let sums = at_all(&groups, |group| {
            let mut sum = [round + u64::from(group.number()), 7];
            group.all_reduce(Operator::Add, &mut sum).map(|()| sum)
        });
        assert_eq!(sums, vec![Ok([3 * round + 3, 21]); 3]);
        drop(groups);
        assert_eq!(clients[0].list().unwrap(), [], "its regions went with it");
    }
}

#[test]
fn calls_that_do_not_fit_together_fail_at_all() {
    let pool = TestPool::start(2, 64 << 20);
    let ranks = pool.job(3);
    let groups: Vec<Group> = ranks.iter().map(Pool::job_group).collect();
    let outcomes = at_all(&groups, |group| {
        let mut vector = vec![1u64; if group.number() == 2 { 5 } else { 4 }];
        group.all_reduce(Operator::Add, &mut vector)
    });
    for (party, outcome) in outcomes.iter().enumerate() {
        assert!(matches!(outcome, Err(Error::BadGroup { reason, .. }) if reason.contains("party 2")), "{party}: {outcome:?}");
    }
    let again = at_all(&groups, |group| group.broadcast(&mut [0u8; 4], 0));
    assert!(again.iter().all(|outcome| matches!(outcome, Err(Error::BadGroup { .. }))), "the group has failed: {again:?}");
}

#[test]
fn bad_use_is_refused_before_anything_happens() {
    let pool = TestPool::start(1, 64 << 20);
    let ranks = pool.job(2);
    let groups: Vec<Group> = ranks.iter().map(Pool::job_group).collect();
    let outcomes = at_all(&groups, |group| {
        assert!(matches!(group.broadcast(&mut [1u8], 2), Err(Error::BadGroup { .. })));
        assert!(matches!(group.all_gather(&[1u8, 2], &mut [0; 3]), Err(Error::BadGroup { .. })));
        assert!(matches!(group.all_to_all(&[1u8, 2, 3], &mut [0; 3]), Err(Error::BadGroup { .. })));
        assert!(matches!(group.all_reduce(Operator::Xor, &mut [1f32]), Err(Error::BadElement { .. })));
        assert!(matches!(group.all_reduce(Operator::Swap, &mut [1u32]), Err(Error::BadElement { .. })));
        let mut value = [5u16];
        group.all_reduce(Operator::Min, &mut value).map(|()| value)
    });
    assert_eq!(outcomes, [Ok([5]), Ok([5])], "and the next works");
}

/// A party that takes part once, and is killed while the others wait for it.
pub fn takes_part_and_dies() {
    let pool = Pool::attach().unwrap();
    let group = pool.group("g", 4).unwrap();
    println!("\nnumber {} client {}", group.number(), pool.client().0);
    let mut value = [1u64];
    group.all_reduce(Operator::Add, &mut value).unwrap();
    assert_eq!(value, [4]);
    holder::wait_for_death();
}

#[test]
fn a_party_that_is_killed_is_named_to_all() {
    let pool = TestPool::start(2, 64 << 20);
    let clients: Vec<Pool> = (0..3).map(|party| pool.client(party % 2)).collect();
    let groups: Vec<Group> = clients.iter().map(|client| client.group("g", 4).unwrap()).collect();
    let socket = pool.nodes[1].socket().to_owned();
    let starting = std::thread::spawn(move || holder::start(concat!(module_path!(), "::takes_part_and_dies"), &socket));
    let once = at_all(&groups, |group| {
        let mut value = [1u64];
        group.all_reduce(Operator::Add, &mut value).map(|()| value)
    });
    assert_eq!(once, vec![Ok([4]); 3]);
    holder::kill(starting.join().unwrap());
    let begun = Instant::now();
    // Each waits for another party, or through another, for the dead one.
    let outcomes = at_all(&groups, |group| group.all_reduce(Operator::Add, &mut vec![1u64; 100_000]));
    for (party, outcome) in outcomes.iter().enumerate() {
        let is_named =
            matches!(outcome, Err(Error::PartyGone { party, .. }) if clients.iter().all(|client| client.client() != *party));
        assert!(is_named, "party {party}: {outcome:?}");
    }
    assert!(begun.elapsed() < Duration::from_secs(60), "it was known within the bound");
    assert!(matches!(groups[0].barrier(), Err(Error::PartyGone { .. })));
}

#[test]
fn a_rank_that_leaves_while_others_need_it_is_named_to_all() {
    let pool = TestPool::start(3, 64 << 20);
    let mut ranks = pool.job(6);
    let groups: Vec<Group> = ranks.iter().map(Pool::job_group).collect();
    at_all(&groups, |group| group.all_reduce(Operator::Add, &mut [1u32]).unwrap());
    let (mut groups, last) = (groups, ranks.pop().unwrap());
    // It may go as soon as its part is done: the root still takes what it sent.
    let staying = groups.split_off(5);
    std::thread::scope(|scope| {
        let gathering = scope.spawn(|| {
            at_all(&groups, |group| {
                let root = group.number() == 0;
                if root {
                    std::thread::sleep(Duration::from_millis(300));
                }
                let mut into = vec![0u32; if root { 6 } else { 0 }];
                group.gather(&[group.number()], &mut into, 0).map(|()| into)
            })
        });
        staying[0].gather(&[5u32], &mut [], 0).unwrap();
        drop((staying, last));
        let gathered = gathering.join().unwrap();
        assert_eq!(gathered[0], Ok(vec![0, 1, 2, 3, 4, 5]));
        assert!(gathered[1..].iter().all(Result::is_ok));
    });
    let outcomes = at_all(&groups, |group| group.all_gather(&[1u8], &mut [0; 6]));
    for (party, outcome) in outcomes.iter().enumerate() {
        assert!(matches!(outcome, Err(Error::RankGone { rank, .. }) if rank.0 == 5), "party {party}: {outcome:?}");
    }
}
