//! Commands that are begun and not waited for, on regions that other programs map coherently: they go through the page directory
//! like all else, and each is done once.

use crate::holder;
use crate::support;

use hanare::node::{Node, NodeOptions};
use hanare::{
    Completion, Consistency, CreateOptions, Dim, Element, Error, Indexed, Indices, Modify, Operator, Placement, Pool, Range,
    Region, Rights, Shape, SharedMapping, Strided, Subarray, Wait, Word,
};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};
use support::{Ends, TestPool, on, options, pattern};

const PAGE: u64 = 4096;

static ONE: [u8; 8] = 1u64.to_le_bytes();

fn spread() -> CreateOptions {
    CreateOptions { placement: Placement::Interleave(PAGE), ..CreateOptions::default() }
}

fn map(client: &Pool, name: &str) -> SharedMapping {
    client.open(name).unwrap().map(Consistency::Coherent).unwrap()
}

fn word(mapping: &SharedMapping, at: u64) -> &AtomicU64 {
    // SAFETY: an aligned word inside the mapping, which is borrowed as long; all use atomics.
    unsafe { AtomicU64::from_ptr(mapping.ptr().add(at as usize * 8).cast()) }
}

fn add() -> Modify {
    Modify { operator: Operator::Add, element: Element::U64 }
}

fn bytes_of(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn words_of(bytes: &[u8]) -> Vec<u64> {
    bytes.chunks(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect()
}

/// What a region should hold, and the loads that tell whether it does.
struct Expected<'m> {
    bytes: Vec<u8>,
    mapping: &'m SharedMapping,
}

impl Expected<'_> {
    fn put(&mut self, shape: &Shape<'_>, bytes: &[u8]) {
        let block = shape.block() as usize;
        let checked = shape.by_ref().check("", self.bytes.len() as u64).unwrap();
        for (offset, bytes) in checked.block_offsets().zip(bytes.chunks(block)) {
            self.bytes[offset as usize..][..block].copy_from_slice(bytes);
        }
    }

    fn get(&self, shape: &Shape<'_>) -> Vec<u8> {
        let checked = shape.by_ref().check("", self.bytes.len() as u64).unwrap();
        checked.block_offsets().flat_map(|at| self.bytes[at as usize..][..shape.block() as usize].to_vec()).collect()
    }

    #[track_caller]
    fn check(&self, what: &str) {
        let mut seen = vec![0; self.bytes.len()];
        self.mapping.read(0, &mut seen).unwrap();
        let wrong = (0..seen.len()).find(|at| seen[*at] != self.bytes[*at]);
        assert_eq!(wrong, None, "{what}: the first byte that the mapping shows wrong");
    }
}

/// Shapes of 64-bit words that cross pages, in a region of 40 pages.
fn shapes() -> Vec<(&'static str, Shape<'static>)> {
    let dims = [Dim { count: 3, stride: 3 * PAGE as i64 }, Dim { count: 20, stride: 1000 }];
    let list: Vec<u32> = (0..700).map(|k| k * 7919 % (40 * 512)).collect();
    let backward: Vec<u64> = (0..30).rev().map(|k| k * 5000).collect();
    vec![
        ("a range", Shape::contiguous(PAGE - 16, 9 * PAGE)),
        ("a stride", Strided { offset: 8, block: 16, count: 900, stride: 168 }.into()),
        ("long blocks", Strided { offset: 4000, block: 4800, count: 20, stride: 6000 }.into()),
        ("a sub-array", Subarray::new(64, 24, &dims).unwrap().into()),
        ("indices", Indexed { offset: 0, block: 8, scale: 8, indices: Indices::Narrow(list.into()) }.into()),
        ("long indices", Indexed { offset: 8, block: 4088, scale: 1, indices: Indices::Wide(backward.into()) }.into()),
    ]
}

#[test]
// FEATURE: EU-F17
fn started_commands_of_any_kind_see_and_change_what_others_map() {
    let pool = TestPool::start(3, 32 << 20);
    let clients: Vec<Pool> = (0..3).map(|node| pool.client(node)).collect();
    let len = 40 * PAGE + 104;
    for (round, options) in [on(0), on(1), on(2), spread()].into_iter().enumerate() {
        let name = format!("r{round}");
        clients[0].create(&name, len, &options).unwrap().put(0, &pattern(len as usize, 1)).unwrap();
        let side = format!("s{round}");
        clients[0].create(&side, len, &spread()).unwrap();
        let mapping = &map(&clients[1], &name);
        let mut expected = Expected { bytes: pattern(len as usize, 1), mapping };
        // A handle of a program that has not mapped it, as each was closed before the next is opened.
        let open = |k: usize| clients[[0, 2][k % 2]].open(&name).unwrap();
        for (k, (what, shape)) in shapes().into_iter().enumerate() {
            let what = &format!("{what} of {options:?}");
            let count = shape.by_ref().check("", len).unwrap().len() as usize;
            let bytes = pattern(count, k as u64 + 5);
            open(k).start_put_shape(shape.clone(), bytes.clone()).unwrap().wait().unwrap();
            expected.put(&shape, &bytes);
            expected.check(&format!("a put of {what}"));

            word(mapping, 700 + k as u64).store(k as u64, SeqCst);
            expected.bytes[(700 + k) * 8..][..8].copy_from_slice(&(k as u64).to_le_bytes());
            let seen = open(k + 1).start_get_shape(shape.clone(), vec![0; count]).unwrap().wait().unwrap();
            assert_eq!(seen, expected.get(&shape), "a get of {what}");

            let same = open(k).start_compare(shape.clone(), seen.clone()).unwrap().wait().unwrap();
            assert_eq!(same, None, "a compare of {what}");
            let mut other = seen.clone();
            other[count - 3] ^= 1;
            let first = open(k).start_compare(shape.clone(), other).unwrap().wait().unwrap();
            assert_eq!(first, Some(count as u64 - 3), "a compare of {what}");

            let range = Range::Whole(0, 1 << 63);
            let summary = open(k).start_reduce(shape.clone(), Element::U64, range).unwrap().wait().unwrap();
            let within: Vec<u64> = words_of(&seen).into_iter().filter(|word| *word <= 1 << 63).collect();
            assert_eq!(summary.count, within.len() as u64, "a reduction of {what}");

            let ones: Vec<u64> = (1..=count as u64 / 8).collect();
            open(k).start_update(shape.clone(), add(), bytes_of(&ones)).unwrap().wait().unwrap();
            for (at, one) in shape.by_ref().check("", len).unwrap().block_offsets().enumerate().flat_map(|(n, offset)| {
                let per_block = shape.block() / 8;
                (0..per_block).map(move |k| (offset + k * 8, n as u64 * per_block + k + 1))
            }) {
                let word = &mut expected.bytes[at as usize..][..8];
                let sum = u64::from_le_bytes(word.try_into().unwrap()).wrapping_add(one);
                word.copy_from_slice(&sum.to_le_bytes());
            }
            expected.check(&format!("an update of {what}"));

            let before = expected.get(&shape);
            let olds = open(k + 1).start_fetch(shape.clone(), add(), 3u64.to_le_bytes().to_vec()).unwrap().wait().unwrap();
            assert_eq!(olds, before, "a fetch of {what}");
            let now = olds.chunks(8).flat_map(|old| (u64::from_le_bytes(old.try_into().unwrap()).wrapping_add(3)).to_le_bytes());
            let now: Vec<u8> = now.collect();
            expected.put(&shape, &now);
            expected.check(&format!("a fetch of {what}"));

            let new = pattern(count, k as u64 + 90);
            let olds = open(k).start_compare_and_swap(shape.clone(), Element::U64, &now, &new).unwrap().wait().unwrap();
            assert_eq!(olds, now, "a swap of {what}");
            expected.put(&shape, &new);
            expected.check(&format!("a swap of {what}"));

            let dot = [7u8, 1, 2, 3, 4, 5, 6, 9];
            open(k).start_fill(shape.clone(), dot.to_vec()).unwrap().wait().unwrap();
            expected.put(&shape, &dot.repeat(count / 8));
            expected.check(&format!("a fill of {what}"));

            // To a region that nobody maps and back.
            let client = &clients[k % 3];
            let other = client.open(&side).unwrap();
            let flat = Shape::contiguous(40, count as u64);
            client.start_copy(&client.open(&name).unwrap(), shape.clone(), &other, flat.clone()).unwrap().wait().unwrap();
            let mut copied = vec![0; count];
            other.get(40, &mut copied).unwrap();
            assert_eq!(copied, expected.get(&shape), "a copy from {what}");
            let fresh = pattern(count, k as u64 + 40);
            other.put(40, &fresh).unwrap();
            client.start_copy(&other, flat, &client.open(&name).unwrap(), shape.clone()).unwrap().wait().unwrap();
            expected.put(&shape, &fresh);
            expected.check(&format!("a copy to {what}"));
        }
        // Within it, from one end to the other.
        let client = &clients[2];
        let handle = client.open(&name).unwrap();
        let (from, to) = (Shape::contiguous(100, 6000), Shape::contiguous(20 * PAGE + 1, 6000));
        client.start_copy(&handle, from.clone(), &handle, to.clone()).unwrap().wait().unwrap();
        let moved = expected.get(&from);
        expected.put(&to, &moved);
        expected.check("a copy within");
    }
}

#[test]
fn a_batch_is_done_where_part_of_it_is_on_regions_that_others_map() {
    let pool = TestPool::start(3, 16 << 20);
    let clients: Vec<Pool> = (0..3).map(|node| pool.client(node)).collect();
    for name in ["plain", "one", "two"] {
        clients[0].create(name, 30 * PAGE, &spread()).unwrap();
    }
    let (one, two) = (map(&clients[1], "one"), map(&clients[1], "two"));
    for round in 1..=4u64 {
        let client = &clients[[0, 2][round as usize % 2]];
        let handles: Vec<Region> = ["plain", "one", "two"].iter().map(|name| client.open(name).unwrap()).collect();
        let bytes: &'static [u8] = Vec::leak(pattern(5 * 3000, round));
        let blocks = Strided { offset: 10 * PAGE + 512, block: 3000, count: 5, stride: PAGE };
        let olds: Vec<&'static mut [u8]> = (0..3).map(|_| &mut *Vec::leak(vec![0; 8 * 30])).collect();
        let seen: *mut Vec<&'static mut [u8]> = Box::leak(Box::new(olds));
        let every_page = Strided { offset: 256, block: 8, count: 30, stride: PAGE };
        let fill = |batch: &mut hanare::Batch<'static>| {
            // SAFETY: the buffers are leaked, and looked at when the batch has ended.
            let olds = unsafe { &mut *seen };
            for (handle, olds) in handles.iter().zip(olds) {
                batch.put_strided(handle, blocks, bytes)?;
                batch.fetch(handle, every_page, add(), &ONE, olds)?;
            }
            batch.copy(&handles[1], Shape::contiguous(0, 100), &handles[0], Shape::contiguous(PAGE * 20, 100))
        };
        if round < 3 {
            client.start_batch(fill).unwrap().wait().unwrap();
        } else {
            client.batch(fill).unwrap();
        }
        // SAFETY: as above.
        for olds in unsafe { &*seen } {
            assert_eq!(words_of(olds), vec![round - 1; 30], "round {round}: each counted once");
        }
        let mut read = vec![0; 3000];
        for (k, bytes) in bytes.chunks(3000).enumerate() {
            for mapping in [&one, &two] {
                mapping.read((10 + k as u64) * PAGE + 512, &mut read).unwrap();
                assert!(read == bytes, "round {round}: the mapping shows the put");
            }
            handles[0].get((10 + k as u64) * PAGE + 512, &mut read).unwrap();
            assert!(read == bytes, "round {round}: a region that nobody maps");
        }
    }
}

#[test]
fn started_updates_of_two_programs_count_once_while_mappings_come_and_go() {
    let pool = TestPool::start(3, 16 << 20);
    let clients: Vec<Pool> = (0..3).map(|node| pool.client(node)).collect();
    clients[0].create("counters", 12 * PAGE, &spread()).unwrap();
    const ROUNDS: u64 = 60;
    let is_over = AtomicBool::new(false);
    let mapped = std::thread::scope(|scope| {
        let end = Ends(&is_over);
        let count = |client: &Pool| {
            for _ in 0..ROUNDS {
                // Each time a handle that has not mapped it; a word of each page, so that every node has a part.
                let handle = client.open("counters").unwrap();
                let words = Strided { offset: 64, block: 8, count: 12, stride: PAGE };
                let started: Vec<Completion<Vec<u8>>> =
                    (0..8).map(|_| handle.start_fetch(words, add(), 1u64.to_le_bytes().to_vec()).unwrap()).collect();
                let same = handle.start_update(words, add(), bytes_of(&[1; 12])).unwrap();
                drop(handle);
                // One after the other counts: no two see the same.
                let seen: Vec<Vec<u64>> = started.into_iter().map(|started| words_of(&started.wait().unwrap())).collect();
                for page in 0..12 {
                    let mut olds: Vec<u64> = seen.iter().map(|olds| olds[page]).collect();
                    olds.sort_unstable();
                    olds.dedup();
                    assert_eq!(olds.len(), 8, "an update that was done twice or not at all: {olds:?}");
                }
                same.wait().unwrap();
            }
        };
        let counting: Vec<_> = [&clients[0], &clients[2]].map(|client| scope.spawn(move || count(client))).into();
        let mapper = scope.spawn(|| {
            let mut mapped = 0;
            while !is_over.load(SeqCst) {
                let mapping = map(&clients[1], "counters");
                for page in 0..12 {
                    word(&mapping, page * 512 + 8).fetch_add(1, SeqCst);
                }
                mapped += 1;
            }
            mapped
        });
        counting.into_iter().for_each(|thread| thread.join().unwrap());
        drop(end);
        mapper.join().unwrap()
    });
    let mapping = map(&clients[1], "counters");
    for page in 0..12 {
        assert_eq!(word(&mapping, page * 512 + 8).load(SeqCst), 2 * 9 * ROUNDS + mapped, "page {page}");
    }
    assert!(mapped > 0);
}

#[test]
fn requests_are_settled_in_whatever_way_they_are_waited_for() {
    let pool = TestPool::start(2, 16 << 20);
    let (near, far) = (pool.client(0), pool.client(1));
    for (round, options) in [on(0), on(1), spread()].into_iter().enumerate() {
        let name = format!("r{round}");
        near.create(&name, 128 * PAGE, &options).unwrap();
        let mapping = map(&far, &name);
        let handle = near.open(&name).unwrap();
        let bytes = |k: u64| pattern(PAGE as usize + 8, k + 1);
        let mut started: Vec<_> = (0..60).map(|k| Some(handle.start_put(k * 2 * PAGE, bytes(k)).unwrap())).collect();
        drop(handle);
        // Waited for from the last, polled, dropped, or left to a flush.
        for (k, started) in started.iter_mut().enumerate().rev() {
            match k % 4 {
                0 => drop(started.take().unwrap().wait().unwrap()),
                1 => {
                    let completion = started.take().unwrap();
                    while !completion.is_done() {
                        std::thread::yield_now();
                    }
                    drop(completion.wait().unwrap());
                }
                2 => drop(started.take()),
                _ => {}
            }
        }
        near.flush().unwrap();
        for k in 0..60 {
            let mut seen = vec![0; PAGE as usize + 8];
            mapping.read(k * 2 * PAGE, &mut seen).unwrap();
            assert!(seen == bytes(k), "put {k} on {options:?}");
        }
        for completion in started.into_iter().flatten() {
            assert!(completion.is_done(), "a flush waits for all");
            completion.wait().unwrap();
        }
    }
}

#[test]
fn what_was_begun_first_is_done_first() {
    let pool = TestPool::start(2, 16 << 20);
    let (near, far) = (pool.client(0), pool.client(1));
    for (round, options) in [on(0), on(1), spread()].into_iter().enumerate() {
        let name = format!("r{round}");
        near.create(&name, 8 * PAGE, &options).unwrap();
        let mapping = map(&far, &name);
        for k in 1..=20u64 {
            let handle = near.open(&name).unwrap();
            let first = handle.start_put(PAGE, bytes_of(&[3 * k])).unwrap();
            let second = handle.start_put(PAGE, bytes_of(&[3 * k + 1])).unwrap();
            match k % 3 {
                0 => handle.put(PAGE, &bytes_of(&[3 * k + 2])).unwrap(),
                1 => near.open(&name).unwrap().put(PAGE, &bytes_of(&[3 * k + 2])).unwrap(),
                _ => word(&handle.map(Consistency::Coherent).unwrap(), 512).store(3 * k + 2, SeqCst),
            }
            second.wait().unwrap();
            first.wait().unwrap();
            assert_eq!(word(&mapping, 512).load(SeqCst), 3 * k + 2, "round {k} on {options:?}");
        }
    }
}

#[test]
fn requests_end_well_though_all_others_unmap_or_die_meanwhile() {
    let pool = TestPool::start(3, 16 << 20);
    let clients: Vec<Pool> = (0..3).map(|node| pool.client(node)).collect();
    clients[0].create("counters", 12 * PAGE, &spread()).unwrap();
    let words = Strided { offset: 0, block: 8, count: 12, stride: PAGE };
    let mut total = 0;
    for round in 0..10 {
        let child =
            (round % 2 == 0).then(|| holder::start(concat!(module_path!(), "::maps_and_counts"), pool.nodes[round % 3].socket()));
        let mapping = child.is_none().then(|| map(&clients[1], "counters"));
        let handle = clients[0].open("counters").unwrap();
        let begin = || handle.start_fetch(words, add(), 1u64.to_le_bytes().to_vec()).unwrap();
        let mut started: Vec<_> = (0..6).map(|_| begin()).collect();
        if round % 4 < 2 {
            drop(mapping);
            child.into_iter().for_each(holder::kill);
            started.extend((0..6).map(|_| begin()));
            started.into_iter().for_each(|started| drop(started.wait().unwrap()));
        } else {
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    drop(mapping);
                    child.into_iter().for_each(holder::kill);
                });
                started.extend((0..6).map(|_| begin()));
                started.into_iter().for_each(|started| drop(started.wait().unwrap()));
            });
        }
        total += 12;
        drop(handle);
        let mut seen = vec![0; 12 * PAGE as usize];
        clients[2].open("counters").unwrap().get(0, &mut seen).unwrap();
        for page in 0..12 {
            let word = u64::from_le_bytes(seen[page * PAGE as usize..][..8].try_into().unwrap());
            assert_eq!(word, total, "round {round}, page {page}");
        }
    }
}

pub fn maps_and_counts() {
    let pool = Pool::attach_alone().unwrap();
    let mapping = map(&pool, "counters");
    std::thread::scope(|scope| {
        let mapping = &mapping;
        scope.spawn(move || {
            for k in 0.. {
                word(mapping, k % 12 * 512 + 1).fetch_add(1, SeqCst);
            }
        });
        holder::wait_for_death();
    });
}

#[test]
fn commands_need_no_mapping_of_their_own_and_go_on_when_others_change_theirs() {
    let pool = TestPool::start(2, 16 << 20);
    let (near, far) = (pool.client(0), pool.client(1));
    let region = near.create("a", 8 * PAGE, &on(1)).unwrap();
    let mapping = map(&far, "a");
    let started: Vec<_> = (0..2).map(|_| region.start_put(0, vec![7; 100]).unwrap()).collect();
    let update = region.start_update(Strided::contiguous(0, 8), add(), bytes_of(&[1])).unwrap();
    drop(mapping);
    let explicit = far.open("a").unwrap().map(Consistency::Explicit).unwrap();
    started.into_iter().for_each(|started| drop(started.wait().unwrap()));
    update.wait().unwrap();
    drop(explicit);
    let mut seen = [0; 100];
    region.get(0, &mut seen).unwrap();
    assert_eq!(seen[..2], [8, 7], "each was done once");

    let mapping = map(&far, "a");
    region.put(0, &[1]).unwrap();
    far.remove("a").unwrap();
    let error = region.put(0, &[2]).unwrap_err();
    assert!(matches!(error, Error::UnknownRegion { .. }), "{error}");
    drop(mapping);
}

#[test]
fn a_handle_that_reads_leaves_the_way_open_to_one_that_writes() {
    let pool = TestPool::start(2, 16 << 20);
    let (near, far) = (pool.client(0), pool.client(1));
    near.create("a", 8 * PAGE, &on(1)).unwrap();
    let mapping = map(&far, "a");
    let reads = near.open_for("a", Rights::Read).unwrap();
    assert_eq!(reads.start_get(0, vec![1; 3]).unwrap().wait().unwrap(), [0; 3]);
    let writes = near.open_for("a", Rights::Write).unwrap();
    writes.start_put(PAGE, vec![5; 3]).unwrap().wait().unwrap();
    writes.put(PAGE + 3, &[6; 3]).unwrap();
    assert_eq!(word(&mapping, 512).load(SeqCst).to_le_bytes(), [5, 5, 5, 6, 6, 6, 0, 0]);
    assert!(reads.start_put(0, vec![1]).is_err());
    drop((reads, writes));
    // A pointer for reading is not in the way of a handle that writes.
    let pointer = near.open_for("a", Rights::Read).unwrap().map(Consistency::Coherent).unwrap();
    let writes = near.open("a").unwrap();
    writes.start_put(0, vec![1]).unwrap().wait().unwrap();
    let mut seen = [0];
    pointer.read(0, &mut seen).unwrap();
    assert_eq!((seen, word(&mapping, 0).load(SeqCst)), ([1], 1));
    writes.put(0, &[2]).unwrap();
    pointer.read(0, &mut seen).unwrap();
    assert_eq!(seen, [2]);
}

#[test]
fn words_are_waited_for_and_locked_on_regions_that_others_map() {
    let pool = TestPool::start(3, 16 << 20);
    let clients: Vec<Pool> = (0..3).map(|node| pool.client(node)).collect();
    for (round, options) in [on(0), on(1), spread()].into_iter().enumerate() {
        let name = &format!("r{round}");
        clients[0].create(name, 12 * PAGE, &options).unwrap();
        let mapping = &map(&clients[1], name);
        // The word of page 5 tells, the lock lies at page 7, the word of page 8 is guarded by it.
        std::thread::scope(|scope| {
            for client in &clients {
                let handle = client.open(name).unwrap();
                scope.spawn(move || {
                    let seen = handle.wait_until(5 * PAGE + 8, Wait::Equal(Word::U64(9)), Some(Duration::from_secs(60)));
                    assert_eq!(seen.unwrap(), 9);
                    for _ in 0..20 {
                        let lock = handle.lock_at(7 * PAGE).lock_within(Duration::from_secs(60)).unwrap();
                        let mut count = [0; 8];
                        handle.get(8 * PAGE, &mut count).unwrap();
                        let more = (u64::from_le_bytes(count) + 1).to_le_bytes().to_vec();
                        handle.start_put(8 * PAGE, more).unwrap().wait().unwrap();
                        lock.unlock().unwrap();
                    }
                });
            }
            word(mapping, 5 * 512 + 1).store(9, SeqCst);
        });
        assert_eq!(word(mapping, 8 * 512).load(SeqCst), 60, "{options:?}");
    }
}

#[test]
fn one_who_waits_for_a_word_when_others_begin_to_map_sees_it() {
    let pool = TestPool::start(2, 16 << 20);
    let (near, far) = (pool.client(0), pool.client(1));
    let handle = near.create("a", 8 * PAGE, &on(1)).unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| handle.wait_until(PAGE, Wait::Equal(Word::U64(4)), Some(Duration::from_secs(60))));
        let mapping = map(&far, "a");
        for value in 1..=4 {
            word(&mapping, 512).store(value, SeqCst);
        }
        assert_eq!(waiting.join().unwrap().unwrap(), 4);
    });
}

#[test]
fn puts_that_are_under_way_when_a_mapping_begins_are_seen_by_it() {
    let mut pool = TestPool::start(2, 80 << 20);
    let far = pool.client(1);
    let len = 32u64 << 20;
    for name in ["one", "both"] {
        let options = if name == "one" { on(0) } else { spread() };
        far.create(name, len, &options).unwrap();
    }
    // On a node that has no bytes of them: all of it travels.
    pool.nodes.push(Node::start(NodeOptions { join: Some(pool.nodes[0].address().to_owned()), ..options(64 << 20) }).unwrap());
    let near = pool.client(2);
    for round in 0..6 {
        let name = ["one", "both"][round % 2];
        let is_mapped = AtomicBool::new(false);
        let handle = near.open(name).unwrap();
        let bytes = pattern(len as usize, round as u64);
        let started = handle.start_put(0, bytes.clone()).unwrap();
        let mapping = std::thread::scope(|scope| {
            let mapping = scope.spawn(|| {
                let mapping = map(&far, name);
                let mut early = vec![0; len as usize];
                mapping.read(0, &mut early).unwrap();
                is_mapped.store(true, SeqCst);
                mapping
            });
            // More of it than the system takes at once is still here; a mapping that does not wait for that has the time to begin.
            let begun = Instant::now();
            while !is_mapped.load(SeqCst) && begun.elapsed() < Duration::from_millis(300) {
                std::thread::yield_now();
            }
            started.wait().unwrap();
            mapping.join().unwrap()
        });
        let mut seen = vec![0; len as usize];
        mapping.read(0, &mut seen).unwrap();
        let wrong = (0..seen.len()).find(|at| seen[*at] != bytes[*at]);
        assert_eq!(wrong, None, "round {round}: the first byte that was lost");
    }
}

/// Who maps and who gives commands, each time anew, and where the counters are.
struct Comers {
    options: CreateOptions,
    mappers: &'static [usize],
    commanders: &'static [usize],
}

#[test]
fn what_is_mapped_by_some_and_commanded_by_others_counts_while_all_come_and_go() {
    const ROUNDS: u64 = 60;
    let pool = TestPool::start(3, 16 << 20);
    let clients: Vec<Pool> = (0..3).map(|node| pool.client(node)).collect();
    let count = |Comers { options, mappers, commanders }: Comers, round: usize| {
        let name = &format!("r{round}");
        clients[0].create(name, 12 * PAGE, &options).unwrap();
        std::thread::scope(|scope| {
            for client in mappers.iter().map(|k| &clients[*k]) {
                scope.spawn(move || {
                    for _ in 0..ROUNDS {
                        let mapping = map(client, name);
                        for page in 0..12 {
                            word(&mapping, page * 512 + 8).fetch_add(1, SeqCst);
                        }
                    }
                });
            }
            for client in commanders.iter().map(|k| &clients[*k]) {
                scope.spawn(move || {
                    for round in 0..ROUNDS {
                        let handle = client.open(name).unwrap();
                        for page in 0..12 {
                            let word = Strided::contiguous(64 + page * PAGE, 8);
                            if round % 2 == 0 {
                                drop(handle.start_fetch(word, add(), bytes_of(&[1])).unwrap().wait().unwrap());
                            } else {
                                handle.fetch_word(word.offset, Operator::Add, 1).unwrap();
                            }
                        }
                    }
                });
            }
        });
        let mapping = map(&clients[1], name);
        let counts: Vec<u64> = (0..12).map(|page| word(&mapping, page * 512 + 8).load(SeqCst)).collect();
        assert_eq!(counts, [ROUNDS * (mappers.len() + commanders.len()) as u64; 12], "{mappers:?} map, {commanders:?} command");
    };
    for round in 0..3 {
        count(Comers { options: on(0), mappers: &[1], commanders: &[2] }, round * 3);
        count(Comers { options: on(1), mappers: &[1], commanders: &[0] }, round * 3 + 1);
        count(Comers { options: spread(), mappers: &[1, 2], commanders: &[0] }, round * 3 + 2);
    }
}
