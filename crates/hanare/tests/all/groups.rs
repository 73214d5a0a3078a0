//! Barriers of named groups: nobody passes before all parties have come, and one that is gone is named.

use crate::holder;
use crate::intruder::Intruder;
use crate::raw_link::Raw;
use crate::support;

use hanare::{Consistency, CreateOptions, Error, Group, Part, Placement, Pool, Rights, SharedMapping};
use hanare_protocol::id::{Grant, NodeId, PartyName};
use hanare_protocol::wire::carried::{Carried, ExtentAddress, PutRuns, WantedPages};
use hanare_protocol::wire::sync::{Party, SyncAddress, SyncAnswer, SyncRequest};
use std::sync::atomic::{AtomicU32, Ordering};
use support::{TestPool, messages, on, once_more_as_on_linux};

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

pub fn joins_and_dies() {
    let pool = Pool::attach_alone().unwrap();
    let group = pool.group("a", 3).unwrap();
    group.barrier().unwrap();
    holder::wait_for_death();
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

/// Mappings of a region, each in a way of its own. `Coherent` needs a newer kernel than the others.
fn ways() -> impl Iterator<Item = (&'static str, Consistency)> {
    let ways = [("explicit", Consistency::Explicit), ("entry", Consistency::Entry), ("coherent", Consistency::Coherent)];
    ways.into_iter().take(if std::env::var_os("HANARE_KERNEL").is_some() { 2 } else { 3 })
}

/// Parties store to parts of a region that meet within pages, so that several write one, and see all other parts behind each barrier.
fn carries(clients: &[Pool], group_of: impl Fn(&Pool, &str) -> Group + Sync, placement: Placement) {
    const PART: u64 = 3 * 4096 + 100;
    for (name, consistency) in ways() {
        let options = CreateOptions { placement, ..CreateOptions::default() };
        clients[0].create(name, 3 * PART, &options).unwrap();
        std::thread::scope(|scope| {
            for (party, client) in clients.iter().enumerate() {
                let group_of = &group_of;
                scope.spawn(move || {
                    let group = group_of(client, name);
                    let mapping = client.open(name).unwrap().map(consistency).unwrap();
                    let part = |party: usize| Part { mapping: &mapping, offset: party as u64 % 3 * PART, len: PART };
                    group.barrier().unwrap();
                    for round in 0..20u8 {
                        mapping.write(part(party).offset, &vec![round + party as u8; PART as usize]).unwrap();
                        // What arrives later does not undo what was there.
                        group.barrier_with(&[part(party)], &[part(party + 1), part(party + 2)]).unwrap();
                        let before = mapping.counts();
                        for other in [party + 1, party + 2] {
                            let mut seen = vec![0; PART as usize];
                            mapping.read(part(other).offset, &mut seen).unwrap();
                            let wanted = vec![round + other as u8 % 3; PART as usize];
                            assert!(seen == wanted, "{name}, round {round}: {party} of {other}");
                        }
                        if consistency != Consistency::Coherent {
                            assert_eq!(mapping.counts().fetches, before.fetches, "it came with the barrier");
                        }
                        group.barrier().unwrap();
                    }
                    let beyond = Part { offset: 3 * PART - 1, len: 2, ..part(0) };
                    assert!(matches!(group.barrier_with(&[beyond], &[]), Err(Error::OutOfRange { .. })));
                });
            }
        });
        clients[0].remove(name).unwrap();
    }
}

const PLACEMENTS: [Placement; 3] = [Placement::Interleave(8192), Placement::Node(NodeId(0)), Placement::Node(NodeId(1))];

#[test]
// FEATURE: RF-F15
fn a_barrier_carries_what_its_parties_have_stored() {
    let pool = TestPool::start(2, 16 << 20);
    let clients: Vec<Pool> = (0..3).map(|party| pool.client(party % 2)).collect();
    for placement in PLACEMENTS {
        carries(&clients, |client, name| client.group(name, 3).unwrap(), placement);
    }
}

#[test]
fn a_barrier_of_a_job_carries_what_its_ranks_have_stored() {
    let pool = TestPool::start(2, 16 << 20);
    let ranks = pool.job(3);
    for placement in PLACEMENTS {
        carries(&ranks, |client, _| client.job_group(), placement);
    }
}

#[test]
fn what_a_barrier_carries_is_carried_as_on_linux_6_1() {
    once_more_as_on_linux(module_path!(), "6.1", &["as_on_linux_6_1", "only_with_the_right"]);
}

/// Two parties on other nodes than the home of their barrier and of their region, of which each gives a half and takes the other.
fn halves(half: u64, act: impl Fn(usize, &Pool, &Group, &SharedMapping, [Part<'_>; 2]) + Sync) {
    let pool = TestPool::start(3, 32 << 20);
    let clients = [pool.client(1), pool.client(2)];
    clients[0].create("halves", 2 * half, &on(0)).unwrap();
    std::thread::scope(|scope| {
        for (party, client) in clients.iter().enumerate() {
            let act = &act;
            scope.spawn(move || {
                let group = client.group("halves", 2).unwrap();
                let mapping = client.open("halves").unwrap().map(Consistency::Explicit).unwrap();
                let part = |party: u64| Part { mapping: &mapping, offset: party % 2 * half, len: half };
                act(party, client, &group, &mapping, [part(party as u64), part(party as u64 + 1)]);
            });
        }
    });
}

#[test]
// FEATURE: RF-F15
fn a_barrier_whose_parts_lie_at_its_home_is_one_message_each_way() {
    const HALF: u64 = 64 << 10;
    halves(HALF, |party, client, group, mapping, [own, other]| {
        let mut bytes = vec![0; HALF as usize];
        for round in 1..6u8 {
            mapping.write(own.offset, &vec![10 * round + party as u8; HALF as usize]).unwrap();
            let count = messages(client, || group.barrier_with(&[own], &[other]).unwrap());
            assert_eq!(count, 2, "round {round}: there and back, with {HALF} bytes each way");
            mapping.read(other.offset, &mut bytes).unwrap();
            assert!(bytes == vec![10 * round + 1 - party as u8; HALF as usize], "round {round}");
            assert_eq!(messages(client, || mapping.flush(0, 2 * HALF).unwrap()), 0, "its stores are home");
            assert_eq!(messages(client, || group.barrier().unwrap()), 2);
        }
    });
}

/// What all parties store each time goes from and to its place, and not in messages of the barrier.
#[test]
fn a_barrier_carries_more_than_goes_with_its_messages() {
    const HALF: u64 = 256 << 10;
    halves(HALF, |party, _, group, mapping, [own, other]| {
        let mut bytes = vec![0; HALF as usize];
        for round in 1..6u8 {
            // Now all, now a page.
            let len = if round % 3 == 0 { 4096 } else { HALF };
            mapping.write(own.offset, &vec![10 * round + party as u8; len as usize]).unwrap();
            group.barrier_with(&[own], &[other]).unwrap();
            mapping.read(other.offset, &mut bytes).unwrap();
            assert!(bytes[..len as usize].iter().all(|byte| *byte == 10 * round + 1 - party as u8), "round {round}");
            let before = if round % 3 == 0 { round - 1 } else { round };
            assert!(bytes[len as usize..].iter().all(|byte| *byte == 10 * before + 1 - party as u8), "round {round}");
            group.barrier().unwrap();
        }
    });
}

#[test]
fn a_barrier_brings_the_pages_that_changed_and_no_others() {
    const HALF: u64 = 256 << 10;
    halves(HALF, |party, client, group, mapping, [own, other]| {
        let mut bytes = vec![0; HALF as usize];
        for round in 1..6u8 {
            mapping.write(own.offset + 4096 * u64::from(round) + 9, &[round; 8]).unwrap();
            let before = client.traffic();
            group.barrier_with(&[own], &[other]).unwrap();
            let after = client.traffic();
            let (sent, came) = (after.bytes_sent - before.bytes_sent, after.bytes_received - before.bytes_received);
            // The first time nothing is here. A page that is known costs its digest.
            assert!(round == 1 || sent < 2048 && came < 4096 + 256, "round {round}, party {party}: {sent} and {came} bytes");
            mapping.read(other.offset, &mut bytes).unwrap();
            assert_eq!(bytes[4096 * usize::from(round) + 9..][..8], [round; 8]);
        }
    });
}

/// Stores that go with an arrival are at home at once: another thread of the program that flushes their page meanwhile does not undo what
/// others have put there since.
#[test]
fn stores_that_are_under_way_undo_nothing() {
    let pool = TestPool::start(2, 32 << 20);
    let (near, far) = (pool.client(0), pool.client(1));
    near.create("data", 8192, &on(0)).unwrap();
    let region = near.open("data").unwrap();
    let mapping = far.open("data").unwrap().map(Consistency::Explicit).unwrap();
    let (ours, theirs) = (far.group("g", 2).unwrap(), near.group("g", 2).unwrap());
    let part = Part { mapping: &mapping, offset: 0, len: 8192 };
    for round in 1..5u8 {
        mapping.write(8, &[round; 8]).unwrap();
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| ours.barrier_with(&[part], &[part]).unwrap());
            let mut seen = [0; 8];
            while seen != [round; 8] {
                region.get(8, &mut seen).unwrap();
            }
            region.put(8, &[100 + round; 8]).unwrap();
            mapping.write(24, &[round; 8]).unwrap();
            mapping.flush(0, 8192).unwrap();
            region.get(8, &mut seen).unwrap();
            assert_eq!(seen, [100 + round; 8], "round {round}");
            region.get(24, &mut seen).unwrap();
            assert_eq!(seen, [round; 8]);
            theirs.barrier().unwrap();
            waits.join().unwrap();
        });
        let mut seen = [0; 8];
        mapping.read(8, &mut seen).unwrap();
        assert_eq!(seen, [100 + round; 8], "what came with the barrier");
        assert_eq!(messages(&far, || mapping.flush(0, 8192).unwrap()), 0);
    }
}

pub fn gives_again_and_again() {
    let pool = Pool::attach_alone().unwrap();
    let mapping = pool.open("data").unwrap().map(Consistency::Explicit).unwrap();
    let group = pool.group("alone", 1).unwrap();
    let part = Part { mapping: &mapping, offset: 100, len: 20_000 };
    let mut old = [0];
    mapping.read(100, &mut old).unwrap();
    for round in 1u8.. {
        mapping.write(100, &[old[0].wrapping_add(round); 20_000]).unwrap();
        group.barrier_with(&[part], &[]).unwrap();
        if round == 1 {
            println!("\nready");
        }
    }
}

#[test]
fn a_party_killed_at_any_moment_has_given_all_or_nothing() {
    let pool = TestPool::start(2, 32 << 20);
    let near = pool.client(0);
    let region = near.create("data", 32 << 10, &on(0)).unwrap();
    for turn in 0..20u64 {
        let child = holder::start(concat!(module_path!(), "::gives_again_and_again"), pool.nodes[1].socket());
        // Some moment of some arrival.
        std::thread::sleep(std::time::Duration::from_micros(turn * 137));
        holder::kill(child);
        // Once it is gone nothing of it comes any more.
        near.group("alone", 2).unwrap();
        let mut seen = [0; 20_000];
        region.get(100, &mut seen).unwrap();
        assert!(seen.iter().all(|byte| *byte == seen[0]), "turn {turn}: a mixture of {} and others", seen[0]);
    }
}

#[test]
fn a_party_brings_bytes_only_with_the_right_to_write_them_and_arrives_only_then() {
    let pool = TestPool::start(1, 32 << 20);
    let near = pool.client(0);
    let region = near.create("data", 1 << 20, &on(0)).unwrap();
    let mut node = Intruder::connect_as_we_are(pool.nodes[0].socket());
    let (writes, reads) = (node.open("data", Rights::Write), node.open("data", Rights::Read));
    let slot = writes.layout.extents().next().unwrap().slot;
    let (write, read) = (writes.grants[0], reads.grants[0]);
    let at = |grant, offset| ExtentAddress { slot, grant, offset };
    let mut raw = Raw::connect_as(pool.nodes[0].address(), rustix::process::geteuid().as_raw());
    let client = PartyName { client: near.client(), rank: None, process: 1, node: near.node() };
    let join = SyncRequest::Join { address: SyncAddress::Name("g".to_owned()), parties: 2, number: 1, client };
    assert!(matches!(raw.ask(&join), Ok(SyncAnswer::Joined { .. })));
    let group = near.group("g", 2).unwrap();
    let carried = |puts: Vec<PutRuns>, bytes: &[u8], wants: Vec<WantedPages>| {
        SyncRequest::Arrive(Party::Place(1), Some(Box::new(Carried { puts, bytes: bytes.to_vec(), wants })))
    };
    let puts = |grant, offset, runs: &[(u32, u32)]| vec![PutRuns { at: at(grant, offset), runs: runs.to_vec() }];
    let wants = |grant, offset, len| vec![WantedPages { at: at(grant, offset), len, seed: [1; 16], known: Vec::new() }];
    let none = Grant([7; 16]);
    for (request, is_grant) in [
        (carried(puts(read, 0, &[(0, 2)]), b"xy", Vec::new()), true),
        (carried(puts(none, 0, &[(0, 2)]), b"xy", Vec::new()), true),
        (carried(puts(write, 0, &[(0, 2)]), b"xy", wants(none, 0, 8)), true),
        (carried(puts(write, (1 << 20) - 3, &[(0, 1), (1, 2)]), b"xyz", Vec::new()), false),
        (carried(puts(write, u64::MAX - 1, &[(0, 1), (1, 2)]), b"xyz", Vec::new()), false),
        (carried(puts(write, 0, &[(0, 2)]), b"xy", wants(read, (1 << 20) - 8, 9)), false),
        (carried(puts(write, 0, &[(0, 2)]), b"xy", wants(read, 0, u64::MAX)), false),
        (carried(puts(write, 0, &[(0, 3)]), b"xy", Vec::new()), false),
    ] {
        let refused = raw.ask(&request).unwrap_err();
        assert_eq!(matches!(refused, Error::GrantRefused { .. }), is_grant, "{request:?}: {refused}");
    }
    let mut seen = vec![0; 1 << 20];
    region.get(0, &mut seen).unwrap();
    assert!(seen.iter().all(|byte| *byte == 0), "nothing of that was put");
    // Neither had it arrived. What hosts map coherently may be elsewhere.
    let mapping = near.open("data").unwrap().map(Consistency::Coherent).unwrap();
    assert!(matches!(raw.ask(&carried(puts(write, 0, &[(0, 2)]), b"xy", Vec::new())), Err(Error::IsMapped { .. })));
    mapping.unmap().unwrap();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| group.barrier().unwrap());
        let good = carried(puts(write, 5, &[(1, 2), (0, 1)]), b"xyz", wants(read, 4, 8));
        let Ok(SyncAnswer::Met(brought)) = raw.ask(&good) else { panic!("it has arrived") };
        assert_eq!((&brought.changed[..], &brought.bytes[..]), (&[true][..], &b"\0\0xyz\0\0\0"[..]));
        waits.join().unwrap();
    });
}
