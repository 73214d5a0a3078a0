//! Barriers of named groups: nobody passes before all parties have come, and one that is gone is named.

use crate::holder;
use crate::support;

use hanare::{Error, Part, Pool};
use std::sync::atomic::{AtomicU32, Ordering};
use support::TestPool;

#[test]
fn nobody_passes_before_all_have_come() {
    let pool = TestPool::start(2, 32 << 20);
    let clients: Vec<Pool> = (0..3).map(|k| pool.client(k % 2)).collect();
    let arrived = AtomicU32::new(0);
    std::thread::scope(|scope| {
        // Two parties of one client among them.
        for thread in 0..4 {
            let (client, arrived) = (&clients[thread % 3], &arrived);
            scope.spawn(move || {
                let group = client.group("team", 4).unwrap();
                for round in 1..=100 {
                    arrived.fetch_add(1, Ordering::SeqCst);
                    group.barrier().unwrap();
                    assert!(arrived.load(Ordering::SeqCst) >= 4 * round, "one passed early");
                    group.barrier().unwrap();
                }
            });
        }
    });
    // All have left: the name is free for another number.
    clients[0].group("team", 1).unwrap().barrier().unwrap();
}

#[test]
fn groups_of_other_names_do_not_wait_for_each_other() {
    let pool = TestPool::start(1, 32 << 20);
    let client = pool.client(0);
    let _waited_for = client.group("a", 2).unwrap();
    client.group("b", 1).unwrap().barrier().unwrap();
}

#[test]
fn another_number_and_one_party_too_many_are_refused() {
    let pool = TestPool::start(2, 32 << 20);
    let (near, far) = (pool.client(0), pool.client(1));
    let _first = near.group("a", 2).unwrap();
    let other = far.group("a", 3).unwrap_err();
    assert!(matches!(&other, Error::BadGroup { asked: 3, parties: 2, .. }), "{other}");
    let _second = far.group("a", 2).unwrap();
    assert!(matches!(far.group("a", 2), Err(Error::BadGroup { .. })));
    assert!(matches!(far.group("b", 0), Err(Error::BadGroup { .. })));
    assert!(matches!(far.group("a/b", 1), Err(Error::BadName { .. })));
}

#[test]
fn who_leaves_is_named_and_the_others_meet_again_without_it() {
    let pool = TestPool::start(2, 32 << 20);
    let (near, far) = (pool.client(0), pool.client(1));
    let (stays, leaves) = (near.group("a", 2).unwrap(), far.group("a", 2).unwrap());
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| stays.barrier());
        drop(leaves);
        let gone = waits.join().unwrap().unwrap_err();
        assert!(matches!(&gone, Error::PartyGone { party, .. } if *party == far.client()), "{gone}");
        let process = format!("process {} on the host of node 1: it left", std::process::id());
        assert!(gone.to_string().contains(&process), "{gone}");
    });
    assert!(matches!(stays.barrier(), Err(Error::PartyGone { .. })));
    drop(stays);
    near.group("a", 1).unwrap().barrier().unwrap();
}

#[test]
#[ignore = "the program of the other test"]
fn joins_and_dies() {
    if holder::is_started() {
        let pool = Pool::attach_alone().unwrap();
        let group = pool.group("a", 3).unwrap();
        group.barrier().unwrap();
        holder::wait_for_death();
    }
}

#[test]
fn a_killed_party_fails_those_who_wait_and_those_who_come() {
    let pool = TestPool::start(2, 32 << 20);
    for node in [0, 1] {
        let (near, far) = (pool.client(0), pool.client(1));
        let groups = [near.group("a", 3).unwrap(), far.group("a", 3).unwrap()];
        std::thread::scope(|scope| {
            let first: Vec<_> = groups.iter().map(|group| scope.spawn(|| group.barrier())).collect();
            let child = holder::start(concat!(module_path!(), "::joins_and_dies"), pool.nodes[node].socket());
            first.into_iter().for_each(|wait| wait.join().unwrap().unwrap());
            let waits = scope.spawn(|| groups[0].barrier());
            holder::kill(child);
            assert!(matches!(waits.join().unwrap(), Err(Error::PartyGone { group, .. }) if group == "a"));
        });
        assert!(matches!(groups[1].barrier(), Err(Error::PartyGone { .. })));
    }
}

#[test]
fn who_waits_is_told_when_the_home_goes() {
    let mut pool = TestPool::start(2, 32 << 20);
    let client = pool.client(1);
    let group = client.group("a", 2).unwrap();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| group.barrier());
        drop(pool.nodes.remove(0));
        assert!(matches!(waits.join().unwrap(), Err(Error::NodeLost { node, .. }) if node.0 == 0));
    });
    assert!(matches!(group.barrier(), Err(Error::PartyGone { party, .. }) if party == client.client()));
}

#[test]
// FEATURE: RF-F15
fn a_barrier_carries_what_its_parties_have_stored() {
    const PART: u64 = 3 * 4096 + 100;
    let pool = TestPool::start(2, 16 << 20);
    let clients: Vec<Pool> = (0..3).map(|party| pool.client(party % 2)).collect();
    for (name, consistency) in [("explicit", hanare::Consistency::Explicit), ("coherent", hanare::Consistency::Coherent)] {
        let placement = hanare::Placement::Interleave(8192);
        let options = hanare::CreateOptions { placement, ..hanare::CreateOptions::default() };
        clients[0].create(name, 3 * PART, &options).unwrap();
        std::thread::scope(|scope| {
            for (party, client) in clients.iter().enumerate() {
                scope.spawn(move || {
                    let group = client.group(name, 3).unwrap();
                    let mapping = client.open(name).unwrap().map(consistency).unwrap();
                    let part = |party: usize| Part { mapping: &mapping, offset: party as u64 % 3 * PART, len: PART };
                    group.barrier().unwrap();
                    for round in 0..20u8 {
                        mapping.write(part(party).offset, &vec![round + party as u8; PART as usize]).unwrap();
                        // Parts meet within pages, so that several write one; what arrives later does not undo what was there.
                        group.barrier_with(&[part(party)], &[part(party + 1), part(party + 2)]).unwrap();
                        let before = mapping.counts();
                        for other in [party + 1, party + 2] {
                            let mut seen = vec![0; PART as usize];
                            mapping.read(part(other).offset, &mut seen).unwrap();
                            assert_eq!(
                                seen,
                                vec![round + other as u8 % 3; PART as usize],
                                "{name}, round {round}: {party} of {other}"
                            );
                        }
                        if consistency == hanare::Consistency::Explicit {
                            assert_eq!(mapping.counts().fetches, before.fetches, "it came with the barrier");
                        }
                        group.barrier().unwrap();
                    }
                    let beyond = Part { offset: 3 * PART - 1, len: 2, ..part(0) };
                    assert!(matches!(group.barrier_with(&[beyond], &[]), Err(Error::OutOfRange { .. })));
                });
            }
        });
    }
}
