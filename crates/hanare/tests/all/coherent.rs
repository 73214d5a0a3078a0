//! Coherent mappings: a pointer to one region on many hosts, and what programs see of each other's stores.

use crate::holder;
use crate::processes::Dice;
use crate::support;

use hanare::{Consistency, CreateOptions, NodeId, Placement, Pool, SharedMapping};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use support::{TestPool, on};

const PAGE: u64 = 4096;

fn map(client: &Pool, name: &str) -> SharedMapping {
    client.open(name).unwrap().map(Consistency::Coherent).unwrap()
}

fn word(mapping: &SharedMapping, at: u64) -> &AtomicU64 {
    // SAFETY: an aligned word inside the mapping, which is borrowed as long; all use atomics.
    unsafe { AtomicU64::from_ptr(mapping.ptr().add(at as usize * 8).cast()) }
}

// FEATURE: EU-F12
#[test]
fn what_one_stores_another_loads() {
    let pool = TestPool::start(2, 16 << 20);
    let (near, far) = (pool.client(0), pool.client(1));
    near.create("a", 64 * PAGE, &on(0)).unwrap();
    near.open("a").unwrap().put(5, b"before").unwrap();
    let far_map = std::thread::scope(|scope| {
        let far_map = scope.spawn(|| map(&far, "a"));
        let near_map = map(&near, "a");
        let far_map = far_map.join().unwrap();
        let mut bytes = [0; 6];
        far_map.read(5, &mut bytes).unwrap();
        assert_eq!(&bytes, b"before");
        for k in 0..64 {
            word(&far_map, k * 512 + 7).store(k + 1, SeqCst);
        }
        for k in 0..64 {
            assert_eq!(word(&near_map, k * 512 + 7).load(SeqCst), k + 1, "page {k}");
            word(&near_map, k * 512 + 8).store(k + 100, SeqCst);
        }
        for k in 0..64 {
            assert_eq!(word(&far_map, k * 512 + 8).load(SeqCst), k + 100, "page {k}");
            assert_eq!(word(&far_map, k * 512 + 7).load(SeqCst), k + 1, "page {k}");
        }
        far_map
    });
    drop(far_map);
    let mut back = [0; 8];
    far.open("a").unwrap().get((9 * 512 + 8) * 8, &mut back).unwrap();
    assert_eq!(u64::from_le_bytes(back), 109, "all is home when the last mapping is gone");
}

#[test]
// FEATURE: EU-F15 EU-F17
fn commands_and_pointers_see_the_same_bytes() {
    let pool = TestPool::start(3, 16 << 20);
    let clients: Vec<Pool> = (0..3).map(|node| pool.client(node)).collect();
    let options = CreateOptions { placement: Placement::Interleave(PAGE), ..CreateOptions::default() };
    let len = 24 * PAGE + 100;
    clients[0].create("mixed", len, &options).unwrap();
    let mapping = map(&clients[1], "mixed");
    // One that does not map it by itself, on each host.
    let others: Vec<_> = clients.iter().map(|client| client.open("mixed").unwrap()).collect();
    let mut expected = vec![0u8; len as usize];
    for round in 0..60u64 {
        let other = &others[round as usize % 3];
        let at = (round * 1237) % (len - 5000);
        let bytes: Vec<u8> = (0..4321).map(|k| (k * 7 + round * 13) as u8).collect();
        match round % 4 {
            0 => mapping.write(at, &bytes).unwrap(),
            1 => other.put(at, &bytes).unwrap(),
            2 => {
                other.update(hanare::Strided::contiguous(at / 8 * 8, 8), add(), &3u64.to_le_bytes()).unwrap();
                let word = &mut expected[at as usize / 8 * 8..][..8];
                let sum = u64::from_le_bytes(word.try_into().unwrap()).wrapping_add(3);
                word.copy_from_slice(&sum.to_le_bytes());
            }
            _ => {
                clients[0].copy(other, (0u64, 2000u64).to_shape(), other, (at.max(2000), 2000).to_shape()).unwrap();
                let source = expected[..2000].to_vec();
                expected[at.max(2000) as usize..][..2000].copy_from_slice(&source);
            }
        }
        if round % 4 < 2 {
            expected[at as usize..][..4321].copy_from_slice(&bytes);
        }
        let mut seen = vec![0; len as usize];
        others[(round as usize + 1) % 3].get(0, &mut seen).unwrap();
        assert!(seen == expected, "round {round}: a get");
        mapping.read(0, &mut seen).unwrap();
        assert!(seen == expected, "round {round}: loads");
    }
}

#[test]
fn the_end_of_a_removed_region_leaves_the_next_one_in_its_place_shared() {
    let pool = TestPool::start(2, 16 << 20);
    let (near, far) = (pool.client(0), pool.client(1));
    near.create("removed", 64 * PAGE, &on(0)).unwrap();
    let removed = map(&far, "removed");
    word(&removed, 0).store(1, SeqCst);
    near.remove("removed").unwrap();
    // Its extent has the place in its node's table that has become free.
    let region = near.create("next", 64 * PAGE, &on(0)).unwrap();
    let mapping = map(&far, "next");
    word(&mapping, 0).store(1, SeqCst);
    removed.unmap().unwrap();
    for round in 2..600 {
        region.put(0, &u64::to_le_bytes(round)).unwrap();
        assert_eq!(word(&mapping, 0).load(SeqCst), round, "what a command puts, the host that owned the page loads");
        word(&mapping, 0).store(round + 1000, SeqCst);
        let mut back = [0; 8];
        region.get(0, &mut back).unwrap();
        assert_eq!(u64::from_le_bytes(back), round + 1000);
    }
}

fn add() -> hanare::Modify {
    hanare::Modify { operator: hanare::Operator::Add, element: hanare::Element::U64 }
}

trait ToShape {
    fn to_shape(self) -> hanare::Strided;
}

impl ToShape for (u64, u64) {
    fn to_shape(self) -> hanare::Strided {
        hanare::Strided::contiguous(self.0, self.1)
    }
}

#[test]
fn atomics_of_threads_on_three_hosts_all_count() {
    let pool = TestPool::start(3, 16 << 20);
    let clients: Vec<Pool> = (0..3).map(|node| pool.client(node)).collect();
    clients[0].create("counters", 8 * PAGE, &on(1)).unwrap();
    const ROUNDS: u64 = 400;
    std::thread::scope(|scope| {
        for client in &clients {
            scope.spawn(move || {
                let mapping = &map(client, "counters");
                std::thread::scope(|threads| {
                    for _ in 0..2 {
                        threads.spawn(move || {
                            for round in 0..ROUNDS {
                                word(mapping, round % 8 * 512).fetch_add(1, SeqCst);
                            }
                        });
                    }
                });
            });
        }
    });
    let mapping = map(&clients[2], "counters");
    let sum: u64 = (0..8).map(|page| word(&mapping, page * 512).load(SeqCst)).sum();
    assert_eq!(sum, 6 * ROUNDS);
}

#[test]
fn one_way_at_a_time_and_its_reasons() {
    let pool = TestPool::start(2, 16 << 20);
    let (near, far) = (pool.client(0), pool.client(1));
    let region = near.create("a", 64 * PAGE, &on(0)).unwrap();
    let pointer = region.map_local().unwrap();
    let refused = far.open("a").unwrap().map(Consistency::Coherent).map(drop).unwrap_err().to_string();
    assert!(refused.contains("as it is"), "{refused}");
    let refused = region.map(Consistency::Coherent).map(drop).unwrap_err().to_string();
    assert!(refused.contains("pointer"), "{refused}");
    drop(pointer);
    let mapping = far.open("a").unwrap().map(Consistency::Coherent).unwrap();
    assert!(near.open("a").unwrap().map_local().is_err(), "not beside the pages");
    word(&mapping, 3).store(77, SeqCst);
    let again = far.open("a").unwrap().map(Consistency::Coherent).unwrap();
    assert_eq!(again.ptr(), mapping.ptr(), "mapping twice gives the same");
    drop(mapping);
    assert_eq!(word(&again, 3).load(SeqCst), 77);
    drop(again);
    let pointer = near.open("a").unwrap().map_local().unwrap();
    // SAFETY: a word of the mapping.
    assert_eq!(unsafe { AtomicU64::from_ptr(pointer.ptr().add(24).cast()) }.load(SeqCst), 77);
}

#[test]
// FEATURE: EU-F12 EU-F13 EU-F14
fn any_order_of_accesses_by_anybody_shows_one_memory() {
    for seed in 1..=12 {
        let pool = TestPool::start(3, 16 << 20);
        let clients: Vec<Pool> = (0..4).map(|k| pool.client(k % 3)).collect();
        let options = CreateOptions { placement: Placement::Interleave(PAGE), ..CreateOptions::default() };
        let words = 6 * 512 + 17;
        clients[0].create("one", words * 8, &options).unwrap();
        let mappings: Vec<_> = clients.iter().map(|client| map(client, "one")).collect();
        let regions: Vec<_> = clients.iter().map(|client| client.open("one").unwrap()).collect();
        let (mut dice, mut model) = (Dice::new(seed * 77), vec![0u64; words as usize]);
        for step in 0..600 {
            let (who, at) = (dice.below(4) as usize, dice.below(words));
            let (wanted, what) = (model[at as usize], dice.below(6));
            let seen = match what {
                0 => word(&mappings[who], at).swap(step, SeqCst),
                1 => word(&mappings[who], at).fetch_add(step, SeqCst),
                2 => {
                    word(&mappings[who], at).store(step, SeqCst);
                    wanted
                }
                3 => {
                    regions[who].put(at * 8, &step.to_le_bytes()).unwrap();
                    wanted
                }
                4 => {
                    let mut bytes = [0; 8];
                    regions[who].get(at * 8, &mut bytes).unwrap();
                    assert_eq!(u64::from_le_bytes(bytes), wanted, "seed {seed}, step {step}");
                    continue;
                }
                _ => {
                    assert_eq!(word(&mappings[who], at).load(SeqCst), wanted, "seed {seed}, step {step}");
                    continue;
                }
            };
            assert_eq!(seen, wanted, "seed {seed}, step {step}");
            model[at as usize] = match what {
                1 => wanted.wrapping_add(step),
                _ => step,
            };
        }
    }
}

#[test]
// FEATURE: D2-F4 D3-F20
fn more_pages_than_frames_come_and_go() {
    let pool = TestPool::start_with_frames(2, 64 << 20, 1 << 20);
    let (near, far) = (pool.client(0), pool.client(1));
    let pages = 4096;
    near.create("large", pages * PAGE, &on(0)).unwrap();
    let mapping = map(&far, "large");
    for round in 1..=3 {
        for page in 0..pages {
            assert_eq!(
                word(&mapping, page * 512 + 3).swap(page * 10 + round, SeqCst),
                page * 10 * u64::from(round > 1) + round - 1
            );
        }
    }
    let region = near.open("large").unwrap();
    drop(mapping);
    let mut bytes = [0; 8];
    for page in 0..pages {
        region.get(page * PAGE + 24, &mut bytes).unwrap();
        assert_eq!(u64::from_le_bytes(bytes), page * 10 + 3);
    }
}

#[test]
// FEATURE: EU-F13
fn what_the_processors_order_promises_holds_between_hosts() {
    use std::sync::Barrier;
    use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
    const ROUNDS: u64 = 150;
    let pool = TestPool::start(3, 16 << 20);
    let clients: Vec<Pool> = (0..3).map(|node| pool.client(node)).collect();
    clients[0].create("litmus", 64 * PAGE, &on(2)).unwrap();
    let maps: Vec<_> = clients.iter().map(|client| map(client, "litmus")).collect();
    let meet = Barrier::new(3);
    // Words on pages of their own.
    let at = |mapping: usize, page: u64| word(&maps[mapping], page * 512);
    std::thread::scope(|scope| {
        let (at, meet) = (&at, &meet);
        let mine = scope.spawn(move || {
            for round in 1..=ROUNDS {
                meet.wait();
                // Message passing: data before flag.
                at(0, 0).store(round, Relaxed);
                at(0, 1).store(round, Release);
                // Store buffering: own store, then the other's.
                at(0, 2).store(round, SeqCst);
                at(0, 4).store(u64::from(at(0, 3).load(SeqCst) == round), Relaxed);
                // Independent writes.
                at(0, 6).store(round, SeqCst);
                meet.wait();
                meet.wait();
            }
        });
        let other = scope.spawn(move || {
            for round in 1..=ROUNDS {
                meet.wait();
                at(1, 3).store(round, SeqCst);
                at(1, 5).store(u64::from(at(1, 2).load(SeqCst) == round), Relaxed);
                at(1, 7).store(round, SeqCst);
                let (six, seven) = (at(1, 6).load(SeqCst), at(1, 7).load(SeqCst));
                assert!(seven == round && six + 1 >= round, "its own store first: {six} {seven}");
                meet.wait();
                meet.wait();
            }
        });
        for round in 1..=ROUNDS {
            meet.wait();
            let flag = at(2, 1).load(Acquire);
            let data = at(2, 0).load(Relaxed);
            assert!(data >= flag, "round {round}: the flag {flag} came before its data {data}");
            let (first, second) = (at(2, 6).load(SeqCst), at(2, 6).load(SeqCst));
            assert!(second >= first, "a location never goes back");
            meet.wait();
            let both_missed = at(2, 4).load(SeqCst) == 0 && at(2, 5).load(SeqCst) == 0;
            assert!(!both_missed, "round {round}: both loads passed the other's store");
            assert_eq!((at(2, 0).load(Relaxed), at(2, 1).load(Relaxed)), (round, round));
            meet.wait();
        }
        mine.join().unwrap();
        other.join().unwrap();
    });
}

pub fn counts_up_until_it_is_killed() {
    let pool = Pool::attach_alone().unwrap();
    let mapping = map(&pool, "counters");
    let mut dice = Dice::new(u64::from(std::process::id()));
    std::thread::scope(|scope| {
        let mapping = &mapping;
        for thread in 0..3 {
            let mut dice = Dice::new(dice.below(1 << 40) + thread + 1);
            scope.spawn(move || {
                loop {
                    word(mapping, dice.below(16) * 512 + 1).fetch_add(1, SeqCst);
                }
            });
        }
        holder::wait_for_death();
    });
}

#[test]
fn programs_killed_at_any_moment_hold_nothing_up() {
    let pool = TestPool::start(3, 16 << 20);
    let near = pool.client(0);
    near.create("counters", 16 * PAGE, &on(0)).unwrap();
    let mapping = map(&near, "counters");
    let mut seen = [0u64; 16];
    for round in 0..12 {
        // On the home's own host and on others.
        let children: Vec<_> = (0..2)
            .map(|k| {
                holder::start(concat!(module_path!(), "::counts_up_until_it_is_killed"), pool.nodes[(round + k) % 3].socket())
            })
            .collect();
        for _ in 0..round * 3 {
            for page in 0..16 {
                word(&mapping, page * 512).fetch_add(1, SeqCst);
            }
        }
        children.into_iter().for_each(holder::kill);
        for (page, seen) in seen.iter_mut().enumerate() {
            let counted = word(&mapping, page as u64 * 512 + 1).load(SeqCst);
            assert!(counted >= *seen, "page {page} went back");
            *seen = counted;
        }
    }
    let mine: u64 = (0..16).map(|page| word(&mapping, page * 512).load(SeqCst)).sum();
    assert_eq!(mine, (0..12).map(|round| round * 3 * 16).sum::<u64>());
    assert!(seen.iter().sum::<u64>() > 0, "they did count");
}

#[test]
fn a_home_that_is_lost_is_an_error_and_what_is_here_stays() {
    let mut pool = TestPool::start(2, 16 << 20);
    let (near, far) = (pool.client(0), pool.client(1));
    let region = near.create("far", 64 * PAGE, &on(1)).unwrap();
    let mapping = map(&near, "far");
    mapping.write(5 * PAGE, &[7; 100]).unwrap();
    drop(far);
    drop(pool.nodes.pop());
    let error = mapping.read(40 * PAGE, &mut [0; 8]).unwrap_err();
    assert!(matches!(error, hanare::Error::NodeLost { node: NodeId(1), .. }), "{error}");
    let again = mapping.read(40 * PAGE + 100, &mut [0; 8]).unwrap_err();
    assert!(matches!(again, hanare::Error::NodeLost { node: NodeId(1), .. }), "{again}");
    // Commands name the home too, and what helps: the caller's own node lives.
    for refused in [
        region.get(40 * PAGE, &mut [0; 8]),
        region.put(40 * PAGE, &[1; 8]),
        region.fetch_word(41 * PAGE, hanare::Operator::Add, 1).map(drop),
    ] {
        let error = refused.unwrap_err();
        assert!(matches!(error, hanare::Error::NodeLost { node: NodeId(1), .. }), "{error}");
        assert!(error.to_string().contains("open the region again"), "{error}");
    }
    let mut bytes = [0; 100];
    mapping.read(5 * PAGE, &mut bytes).unwrap();
    assert_eq!(bytes, [7; 100], "a page that is here stays");
}

#[test]
fn a_node_that_ends_in_good_order_takes_its_pages_home() {
    let mut pool = TestPool::start(2, 16 << 20);
    let (near, far) = (pool.client(0), pool.client(1));
    near.create("a", 64 * PAGE, &on(0)).unwrap();
    let (near_map, far_map) = (map(&near, "a"), map(&far, "a"));
    for page in 0..64 {
        word(&far_map, page * 512).store(page + 5, SeqCst);
    }
    drop(pool.nodes.pop());
    for page in 0..64 {
        assert_eq!(word(&near_map, page * 512).load(SeqCst), page + 5, "page {page}");
    }
}

#[test]
fn programs_of_any_host_come_and_go_while_those_of_others_stay() {
    let pool = TestPool::start(2, 16 << 20);
    let clients: Vec<Pool> = (0..2).map(|node| pool.client(node)).collect();
    for (name, home, leaver) in [("a", 0, 0), ("b", 0, 1), ("c", 1, 0), ("d", 1, 1)] {
        clients[0].create(name, 6 * PAGE, &on(home)).unwrap();
        let stays = map(&clients[1 - leaver], name);
        for round in 0..4 {
            // The host has let go of all when its last program has, and joins anew with the next.
            let comes = map(&clients[leaver], name);
            for page in 0..6 {
                let mut seen = [0; 8];
                comes.read(page * PAGE, &mut seen).unwrap_or_else(|error| panic!("{name}, round {round}: {error}"));
                assert_eq!(u64::from_le_bytes(seen), 2 * round, "{name}, page {page}");
                assert_eq!(word(&comes, page * 512).fetch_add(1, SeqCst), 2 * round, "{name}, page {page}");
            }
            drop(comes);
            (0..6).for_each(|page| assert_eq!(word(&stays, page * 512).fetch_add(1, SeqCst), 2 * round + 1, "{name}"));
        }
    }
}

#[test]
// FEATURE: EU-F23
fn messages_are_as_many_as_the_protocol_says() {
    let pool = TestPool::start(4, 16 << 20);
    let clients: Vec<Pool> = (0..4).map(|node| pool.client(node)).collect();
    clients[0].create("counted", 64 * PAGE, &on(0)).unwrap();
    let maps: Vec<_> = clients.iter().map(|client| map(client, "counted")).collect();
    let stat = |node: usize| clients[node].page_stats().unwrap().pop().unwrap();
    let at = |node: usize, page: u64| word(&maps[node], page * 512);
    // Three copies, then their home's own host writes: each is dropped once.
    (1..4).for_each(|node| assert_eq!(at(node, 0).load(SeqCst), 0));
    at(0, 0).store(1, SeqCst);
    assert_eq!([0, 1, 2, 3].map(|node| stat(node).invalidated), [0, 1, 1, 1]);
    // Written there, read by a third: passed on once each time, and no copy is dropped.
    at(1, 0).store(2, SeqCst);
    assert_eq!(at(2, 0).load(SeqCst), 2);
    assert_eq!([0, 1, 2, 3].map(|node| stat(node).forwarded), [1, 1, 0, 0]);
    // And by their home's own host: it has been written back with that.
    assert_eq!(at(0, 0).load(SeqCst), 2);
    assert_eq!([1, 2].map(|node| stat(node).recalled), [0, 0]);
    // Dirty in another, wanted at home: recalled.
    at(3, 40).store(3, SeqCst);
    at(0, 40).store(4, SeqCst);
    assert_eq!(stat(3).recalled, 1);
    // A page that is here costs nothing.
    let before = stat(0).faults;
    at(0, 40).store(5, SeqCst);
    assert_eq!((at(0, 40).load(SeqCst), stat(0).faults), (5, before));
    // Each page came once to each host that asked others for it; one comes back now.
    assert_eq!(stat(0).contended, []);
    at(3, 40).store(6, SeqCst);
    at(0, 40).store(7, SeqCst);
    let to_and_fro: Vec<(u64, u64)> = stat(0).contended.iter().map(|run| (run.first, run.returns)).collect();
    assert_eq!(to_and_fro, [(40, 1)]);
}

#[test]
fn what_the_home_s_own_host_has_comes_with_the_answer() {
    // As many pages as a message asks for.
    const LEN: usize = 64 * PAGE as usize;
    let pool = TestPool::start(2, 16 << 20);
    let (own, other) = (pool.client(0), pool.client(1));
    own.create("beside", LEN as u64, &on(0)).unwrap();
    let (at_home, far) = (map(&own, "beside"), map(&other, "beside"));
    let mut bytes = vec![0; LEN];
    at_home.write(0, &[7; LEN]).unwrap();
    far.touch(0, LEN as u64).unwrap();
    far.read(0, &mut bytes).unwrap();
    assert!(bytes.iter().all(|byte| *byte == 7));
    // All of it was asked for, without a fault; nothing came later by the node.
    let counts = far.counts();
    assert_eq!((counts.fetches, counts.faults, counts.waits), (64, 0, 0));
    // The copies that are left at home are dropped before the answer, too.
    far.write(0, &[8; LEN]).unwrap();
    let counts = far.counts();
    assert_eq!((counts.upgrades, counts.faults, counts.waits), (64, 0, 0));
    at_home.read(0, &mut bytes).unwrap();
    assert!(bytes.iter().all(|byte| *byte == 8));
}

#[test]
fn a_page_of_the_home_s_own_program_that_another_has_comes_without_its_neighbours() {
    let pool = TestPool::start(2, 16 << 20);
    let (own, other) = (pool.client(0), pool.client(1));
    own.create("apart", 64 * PAGE, &on(0)).unwrap();
    let (at_home, far) = (map(&own, "apart"), map(&other, "apart"));
    word(&far, 20 * 512).store(1, SeqCst);
    assert_eq!(word(&at_home, 20 * 512).load(SeqCst), 1);
    // Nobody at home has those behind it.
    (21..64).for_each(|page| word(&far, page * 512).store(1, SeqCst));
    assert_eq!(own.page_stats().unwrap()[0].invalidated, 0);
    // Where nobody has to be asked for the first, they come along.
    let before = at_home.counts().faults;
    (0..16).for_each(|page| assert_eq!(word(&at_home, page * 512).load(SeqCst), 0));
    assert!(at_home.counts().faults - before < 16);
}

#[test]
fn words_beside_each_other_never_go_back_whoever_writes_them() {
    const HOSTS: usize = 3;
    const THREADS: u64 = 2;
    const ROUNDS: u64 = 400;
    let pool = TestPool::start(HOSTS, 16 << 20);
    let clients: Vec<Pool> = (0..HOSTS).map(|node| pool.client(node)).collect();
    let options = CreateOptions { placement: Placement::Interleave(PAGE), ..CreateOptions::default() };
    clients[0].create("versions", 6 * PAGE, &options).unwrap();
    let maps: Vec<_> = clients.iter().map(|client| map(client, "versions")).collect();
    // Each thread writes a word of its own on every page, twice: first the one, then the other.
    let place = |writer: u64, page: u64, second: u64| page * 512 + writer * 2 + second * 100;
    std::thread::scope(|scope| {
        for (host, mapping) in maps.iter().enumerate() {
            for thread in 0..THREADS {
                let me = host as u64 * THREADS + thread;
                scope.spawn(move || {
                    let mut dice = Dice::new(me * 7919 + 1);
                    let mut seen = [[0u64; 6]; HOSTS * THREADS as usize];
                    for round in 1..=ROUNDS {
                        let page = dice.below(6);
                        word(mapping, place(me, page, 0)).store(round, SeqCst);
                        word(mapping, place(me, page, 1)).store(round, SeqCst);
                        let (writer, page) = (dice.below(HOSTS as u64 * THREADS), dice.below(6));
                        let second = word(mapping, place(writer, page, 1)).load(SeqCst);
                        let first = word(mapping, place(writer, page, 0)).load(SeqCst);
                        let known = &mut seen[writer as usize][page as usize];
                        assert!(first >= second && second >= *known, "writer {writer}: {first}, {second}, {known}");
                        *known = second;
                    }
                });
            }
        }
    });
}

/// The memory of a region's page words in this process.
fn page_words(name: &str) -> &'static [AtomicU64] {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let line = maps.lines().rfind(|line| line.contains(&format!("{name}.words"))).expect("a mapping of the words");
    let (start, end) = line.split(' ').next().unwrap().split_once('-').unwrap();
    let (start, end) = (usize::from_str_radix(start, 16).unwrap(), usize::from_str_radix(end, 16).unwrap());
    // SAFETY: a shared mapping of this process, as long as the test uses it; it is reached by atomics alone.
    unsafe { std::slice::from_raw_parts(std::ptr::with_exposed_provenance(start), (end - start) / 8) }
}

#[test]
fn a_program_that_scribbles_over_page_words_loses_its_own_region_alone() {
    let pool = TestPool::start(2, 16 << 20);
    let (near, far) = (pool.client(0), pool.client(1));
    for name in ["scribbled", "whole"] {
        near.create(name, 32 * PAGE, &on(0)).unwrap();
    }
    let (scribbled, whole) = (map(&far, "scribbled"), map(&far, "whole"));
    for page in 0..32 {
        word(&scribbled, page * 512).store(page, SeqCst);
        word(&whole, page * 512).store(page, SeqCst);
    }
    let mut dice = Dice::new(5);
    for word in page_words("scribbled") {
        word.store(dice.below(u64::MAX) << 1 | dice.below(2), SeqCst);
    }
    let other = map(&near, "whole");
    for page in 0..32 {
        assert_eq!(word(&other, page * 512).fetch_add(1, SeqCst), page);
        assert_eq!(word(&whole, page * 512).fetch_add(1, SeqCst), page + 1);
    }
    // What becomes of the scribbled one is open, but letting it go comes to an end, and the node serves on.
    drop(scribbled);
    assert!(far.status().is_ok() && near.open("whole").unwrap().get(0, &mut [0; 8]).is_ok());
}

#[test]
fn a_stopped_program_delays_its_page_alone_and_goes_on_as_if_nothing_were() {
    use rustix::process::{Pid, Signal, kill_process};
    let pool = TestPool::start(2, 16 << 20);
    let near = pool.client(0);
    near.create("counters", 16 * PAGE, &on(0)).unwrap();
    let mapping = map(&near, "counters");
    let child = holder::start(concat!(module_path!(), "::counts_up_until_it_is_killed"), pool.nodes[1].socket());
    let pid = Pid::from_child(&child);
    let mut seen = [0u64; 16];
    for _ in 0..8 {
        kill_process(pid, Signal::STOP).unwrap();
        let pages = std::thread::scope(|scope| {
            let pages = scope
                .spawn(|| std::array::from_fn::<u64, 16, _>(|page| word(&mapping, page as u64 * 512 + 1).fetch_add(0, SeqCst)));
            // Whatever it was doing with a page when it was stopped, it does now.
            std::thread::sleep(std::time::Duration::from_millis(30));
            kill_process(pid, Signal::CONT).unwrap();
            pages.join().unwrap()
        });
        assert!(pages.iter().zip(seen).all(|(now, before)| *now >= before), "{pages:?} after {seen:?}");
        seen = pages;
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    holder::kill(child);
    let last = std::array::from_fn::<u64, 16, _>(|page| word(&mapping, page as u64 * 512 + 1).load(SeqCst));
    assert!(last.iter().sum::<u64>() > seen.iter().sum::<u64>() / 2 && last.iter().zip(seen).all(|(now, before)| *now >= before));
}

#[test]
fn a_program_s_traffic_has_the_pages_that_its_faults_brought_whichever_way() {
    const PAGES: u64 = 8;
    let pool = TestPool::start(3, 16 << 20);
    let clients: Vec<Pool> = (0..3).map(|node| pool.client(node)).collect();
    let beside = pool.client(0);
    clients[1].create("a", 128 * PAGE, &on(1)).unwrap();
    let received = |client: &Pool, what: &dyn Fn()| {
        let before = client.traffic();
        what();
        let after = client.traffic();
        (after.messages_received - before.messages_received, after.bytes_received - before.bytes_received)
    };
    let owner = map(&clients[2], "a");
    let (reader, other) = (map(&clients[0], "a"), map(&beside, "a"));
    // Pages apart, so that nothing is asked for ahead.
    let pages = || (0..PAGES).map(|k| k * 9);
    pages().for_each(|page| word(&owner, page * 512).store(page + 1, SeqCst));
    let read = |mapping: &SharedMapping| pages().for_each(|page| assert_eq!(word(mapping, page * 512).load(SeqCst), page + 1));
    // Each is promised by the home, and sent by the host that had it to the reader's node.
    let (messages, bytes) = received(&clients[0], &|| read(&reader));
    assert_eq!(messages, 2 * PAGES);
    assert!((PAGES * PAGE..PAGES * (PAGE + 256)).contains(&bytes), "{bytes}");
    assert_eq!(received(&beside, &|| read(&other)), (0, 0), "they are on this host");
    // The home itself has these.
    let (messages, bytes) =
        received(&clients[0], &|| pages().for_each(|page| assert_eq!(word(&reader, (page + 4) * 512).load(SeqCst), 0)));
    assert_eq!(messages, PAGES);
    assert!((PAGES * PAGE..PAGES * (PAGE + 256)).contains(&bytes), "{bytes}");
    let before = clients[0].traffic();
    drop(reader);
    assert!(clients[0].traffic().bytes_received >= before.bytes_received, "what a mapping moved stays");
}

#[test]
fn faults_over_sealed_connections() {
    support::once_more_sealed(
        module_path!(),
        &[
            "what_one_stores_another_loads",
            "commands_and_pointers_see_the_same_bytes",
            "any_order_of_accesses_by_anybody_shows_one_memory",
            "more_pages_than_frames_come_and_go",
            "programs_killed_at_any_moment_hold_nothing_up",
            "a_home_that_is_lost_is_an_error_and_what_is_here_stays",
        ],
    );
}

#[test]
fn before_linux_6_4_the_other_ways_are_named() {
    if std::env::var_os("HANARE_KERNEL").is_none() {
        let those = ["before_linux_6_4_the_other_ways_are_named"];
        return support::once_more_with(("HANARE_KERNEL", "6.3"), module_path!(), &those);
    }
    let pool = TestPool::start(1, 16 << 20);
    let region = pool.client(0).create("a", 4 * PAGE, &on(0)).unwrap();
    let refused = region.map(Consistency::Coherent).map(drop).unwrap_err().to_string();
    assert!(refused.contains("Linux 6.4") && refused.contains("Explicit or Entry"), "{refused}");
    region.map(Consistency::Explicit).unwrap();
}
