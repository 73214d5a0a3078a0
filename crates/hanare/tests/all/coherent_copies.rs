//! `Coherent` mappings of regions with copies: what was released outlives any node, and programs go on where a home is lost.

use crate::actor::{Act, Actor, WORD, WORDS, word};
use crate::apart::{Apart, until};
use crate::copied_mappings::{LEN as ROUNDS_LEN, has_all, rounds};
use crate::copies::copied;
use crate::support::{Ends, TestPool};
use hanare::{Consistency, CreateOptions, DrainWish, Placement, Pool, SharedMapping};
use hanare_protocol::id::{NodeId, Rights};
use hanare_protocol::limits::PAGE_LEN;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

const PAGES: u64 = 64;
const LEN: u64 = PAGES * PAGE_LEN;
/// Milliseconds that an actor waits for an answer.
const BOUND_MS: u64 = 10_000;

fn map(program: &Pool) -> SharedMapping {
    program.open("a").unwrap().map(Consistency::Coherent).unwrap()
}

/// Programs add to a word of each page in turn, while `faults` happen, which get a way to wait until all of them have gone on. Returns how often
/// they added.
fn counts<'m>(mappings: &[&'m SharedMapping], faults: impl FnOnce(&dyn Fn())) -> u64 {
    let added: Vec<AtomicU64> = mappings.iter().map(|_| AtomicU64::new(0)).collect();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let end = Ends(&is_over);
        let add = |(mapping, added): (&&'m SharedMapping, _)| {
            let (mapping, added, is_over): (&SharedMapping, &AtomicU64, _) = (mapping, added, &is_over);
            scope.spawn(move || {
                while !is_over.load(SeqCst) {
                    word(mapping, added.load(SeqCst) % PAGES, WORD).fetch_add(1, SeqCst);
                    added.fetch_add(1, SeqCst);
                }
            })
        };
        let threads: Vec<_> = mappings.iter().zip(&added).map(add).collect();
        faults(&|| {
            let before: Vec<u64> = added.iter().map(|added| added.load(SeqCst)).collect();
            let go_on = || added.iter().zip(&before).all(|(now, before)| now.load(SeqCst) > before + 2 * PAGES);
            until("all programs go on", || go_on() || threads.iter().any(|thread| thread.is_finished()));
        });
        drop(end);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
    added.iter().map(|added| added.load(SeqCst)).sum()
}

/// The sum of the words, through a mapping.
fn sum(mapping: &SharedMapping) -> u64 {
    (0..PAGES).map(|page| word(mapping, page, WORD).load(SeqCst)).sum()
}

/// The word of each page, by a get of a program that has mapped nothing.
fn words_at(program: &Pool, name: &str) -> Vec<u64> {
    let mut bytes = vec![0; LEN as usize];
    program.open(name).unwrap().get(0, &mut bytes).unwrap();
    let words = bytes.as_chunks::<8>().0;
    (0..PAGES).map(|page| u64::from_le_bytes(words[(page * WORDS + WORD) as usize])).collect()
}

#[test]
fn programs_of_all_hosts_count_in_one_memory() {
    let pool = TestPool::start(3, 16 << 20);
    let programs: Vec<Pool> = (0..3).map(|node| pool.client(node)).collect();
    programs[0].create("a", LEN, &copied(1, 2)).unwrap();
    let mappings: Vec<SharedMapping> = programs.iter().map(map).collect();
    let added = counts(&mappings.iter().collect::<Vec<_>>(), |goes_on| goes_on());
    mappings.iter().for_each(|mapping| assert_eq!(sum(mapping), added));
    assert_eq!(words_at(&pool.client(0), "a").iter().sum::<u64>(), added, "a get brings pages home");
    mappings.into_iter().for_each(|mapping| mapping.unmap().unwrap());
    assert_eq!(words_at(&programs[2], "a").iter().sum::<u64>(), added);
}

#[test]
fn copies_of_several_extents_are_refused() {
    let pool = TestPool::start(3, 16 << 20);
    let spread = CreateOptions { placement: Placement::Interleave(PAGE_LEN), copies: 2, ..CreateOptions::default() };
    let refused = pool.client(0).create("a", LEN, &spread).unwrap().map(Consistency::Coherent).map(drop).unwrap_err();
    assert!(refused.to_string().contains("copies"), "{refused}");
}

/// No count is lost, flushed or not, of programs that live, and none of them sees an error. `lose` has its home lost.
fn counts_through(lose: impl FnOnce(&mut Apart, &dyn Fn())) {
    let mut pool = Apart::start(4);
    let programs = [pool.client(0), pool.client(2), pool.client(2)];
    programs[0].create("a", LEN, &copied(1, 2)).unwrap();
    let mappings: Vec<SharedMapping> = programs.iter().map(map).collect();
    let added = counts(&mappings.iter().collect::<Vec<_>>(), |goes_on| {
        goes_on();
        lose(&mut pool, goes_on);
        goes_on();
    });
    mappings.iter().for_each(|mapping| assert_eq!(sum(mapping), added));
    mappings.iter().for_each(|mapping| mapping.flush(0, LEN).unwrap());
    let late = map(&pool.client(3));
    assert_eq!(sum(&late), added, "of who maps it at the next home");
    drop((mappings, late));
    assert_eq!(words_at(&pool.client(0), "a").iter().sum::<u64>(), added);
}

#[test]
fn programs_go_on_when_the_home_is_killed() {
    counts_through(|pool, _| pool.kill(1));
}

#[test]
fn programs_go_on_when_the_home_stands_still_and_comes_back() {
    counts_through(|pool, goes_on| {
        pool.stop(1);
        goes_on();
        pool.go_on(1);
    });
}

#[test]
fn flushes_go_on_while_the_home_is_killed_and_a_program_reads() {
    let mut pool = Apart::start(3);
    let (writer, reader) = (pool.client(0), pool.client(2));
    writer.create("a", ROUNDS_LEN, &copied(1, 2)).unwrap();
    let own = map(&writer);
    let other = reader.open_for("a", Rights::Read).unwrap().map(Consistency::Coherent).unwrap();
    let last = rounds(&own, &other, |goes_on| {
        goes_on();
        pool.kill(1);
        goes_on();
    });
    has_all(&reader, last);
}

#[test]
fn a_host_that_dies_takes_no_flushed_store_with_it_and_no_page() {
    let mut pool = Apart::start(3);
    let (program, reader) = (pool.client(0), pool.client(0));
    program.create("a", LEN, &copied(1, 2)).unwrap();
    let mapping = map(&program);
    let mut actor = Actor::start(pool.socket(2), "a", BOUND_MS);
    for act in [Act::Map, Act::WriteOn(0, PAGES, 1)] {
        actor.act(act);
    }
    // A program that dies alone leaves its pages to its node.
    actor.strike();
    actor.end();
    assert_eq!(words_at(&reader, "a"), vec![1; PAGES as usize]);
    let mut actor = Actor::start(pool.socket(2), "a", BOUND_MS);
    for act in [Act::Map, Act::WriteOn(0, PAGES, 2), Act::Flush, Act::WriteOn(0, PAGES / 2, 3)] {
        actor.act(act);
    }
    actor.strike();
    pool.kill(2);
    let mut seen = vec![0; LEN as usize];
    mapping.read(0, &mut seen).unwrap();
    let seen = seen.as_chunks::<8>().0;
    for page in 0..PAGES {
        let (value, newest) = (u64::from_le_bytes(seen[(page * WORDS + WORD) as usize]), if page < PAGES / 2 { 3 } else { 2 });
        assert!((2..=newest).contains(&value), "page {page}: {value}");
    }
    // The pages are as others': this program stores to them, and flushes.
    (0..PAGES).for_each(|page| word(&mapping, page, WORD).store(4, SeqCst));
    mapping.flush(0, LEN).unwrap();
    assert_eq!(words_at(&reader, "a"), vec![4; PAGES as usize]);
}

#[test]
fn what_a_host_flushed_outlives_it_and_the_home_at_once() {
    let mut pool = Apart::start(4);
    let program = pool.client(0);
    program.create("a", LEN, &copied(1, 3)).unwrap();
    let mapping = map(&program);
    let mut actor = Actor::start(pool.socket(2), "a", BOUND_MS);
    for act in [Act::Map, Act::WriteOn(0, PAGES, 1), Act::Flush] {
        actor.act(act);
    }
    actor.strike();
    pool.kill(2);
    pool.kill(1);
    (0..PAGES).for_each(|page| assert_eq!(word(&mapping, page, WORD).load(SeqCst), 1, "page {page}"));
    assert_eq!(words_at(&program, "a"), vec![1; PAGES as usize]);
}

/// A way to release stores. Gives the mapping back where it goes on.
type Release = fn(&Pool, SharedMapping) -> Option<SharedMapping>;

#[test]
fn each_release_puts_stores_where_the_death_of_their_host_leaves_them() {
    let releases: [(&str, Release); 8] = [
        ("flush", |_, mapping| mapping.flush(0, LEN).map(|()| mapping).ok()),
        ("all", |pool, mapping| pool.flush().map(|()| mapping).ok()),
        ("barrier", |pool, mapping| pool.barrier().map(|()| mapping).ok()),
        ("group", |pool, mapping| pool.group("alone", 1).unwrap().barrier().map(|()| mapping).ok()),
        ("unlock", |pool, mapping| pool.lock("unlock").unwrap().unlock().map(|()| mapping).ok()),
        ("drop", |pool, mapping| {
            drop(pool.lock("drop").unwrap());
            Some(mapping)
        }),
        ("leave", |pool, mapping| {
            pool.leave();
            Some(mapping)
        }),
        ("unmap", |_, mapping| mapping.unmap().map(|()| None).unwrap()),
    ];
    let mut pool = Apart::start(3);
    let maker = pool.client(0);
    let mut kept = Vec::new();
    for (name, release) in releases {
        maker.create(name, LEN, &copied(1, 2)).unwrap();
        let (program, beside) = (pool.client(2), pool.client(2));
        let map = |program: &Pool| program.open(name).unwrap().map(Consistency::Coherent).unwrap();
        let (mapping, other) = (map(&program), map(&beside));
        (0..PAGES).for_each(|page| word(&mapping, page, WORD).store(page + 1, SeqCst));
        let mapping = release(&program, mapping);
        assert!(mapping.is_some() || name == "unmap", "{name} fails");
        kept.push((program, mapping, beside, other));
    }
    pool.kill(2);
    for (name, _) in releases {
        assert_eq!(words_at(&maker, name), (1..=PAGES).collect::<Vec<_>>(), "{name}");
    }
}

#[test]
fn a_drain_of_the_home_disturbs_nobody() {
    let pool = Apart::start(3);
    let (one, other, mover) = (pool.client(0), pool.client(2), pool.client(0));
    one.create("a", LEN, &copied(1, 2)).unwrap();
    let mappings = [map(&one), map(&other)];
    let added = counts(&[&mappings[0], &mappings[1]], |goes_on| {
        goes_on();
        let look = |wish: DrainWish| mover.drain(NodeId(1), &wish).unwrap();
        look(DrainWish::Begin { to: BTreeSet::new() });
        until("it has moved, or is said to stay", || {
            let status = look(DrainWish::Look);
            status.left == 0 || status.stays.iter().any(|region| region.name == "a")
        });
        goes_on();
    });
    mappings.iter().for_each(|mapping| assert_eq!(sum(mapping), added));
    drop(mappings);
    until("nothing keeps it there any more", || mover.drain(NodeId(1), &DrainWish::Look).unwrap().left == 0);
    assert_eq!(words_at(&mover, "a").iter().sum::<u64>(), added);
}
