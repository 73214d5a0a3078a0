//! `Explicit` mappings of regions with copies: stores that were flushed outlive the nodes that had them.

use crate::apart::{Apart, until};
use hanare::{Consistency, CreateOptions, Explicit, MapOptions, Part, Placement, Pool};
use hanare_protocol::id::NodeId;
use hanare_protocol::limits::PAGE_LEN;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

const PAGE_COUNT: u64 = 700;
const LEN: u64 = PAGE_COUNT * PAGE_LEN;

fn copied() -> CreateOptions {
    CreateOptions { placement: Placement::Node(NodeId(1)), copies: 2, ..CreateOptions::default() }
}

/// The word of a page that holds the number of a round.
fn word(explicit: &Explicit, page: u64) -> &AtomicU64 {
    let at = (page * PAGE_LEN) as usize + 8 * (page % 500) as usize;
    // SAFETY: an aligned word of the mapping, which the borrow keeps; all who know of it use atomics.
    unsafe { AtomicU64::from_ptr(explicit.ptr().add(at).cast()) }
}

/// The pages of a step: all of them have had their turn after a few.
fn pages_of(round: u64) -> impl Iterator<Item = u64> {
    (0..PAGE_COUNT).filter(move |page| (page + round).is_multiple_of(5))
}

/// Stores and flushes rounds, while `fault` happens and until rounds go on after it. Meanwhile another program looks at what was flushed. Returns
/// the last round.
fn rounds_through(
    pool: &mut Apart,
    (writer, reader): (&Pool, &Pool),
    frames: Option<u64>,
    fault: impl FnOnce(&mut Apart),
) -> u64 {
    let options = MapOptions { frames_len: frames.unwrap_or(LEN), ..MapOptions::new().unwrap() };
    let own = Explicit::with(&writer.open("a").unwrap(), &options).unwrap();
    let other = Explicit::with(&reader.open("a").unwrap(), &options).unwrap();
    let (flushed, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let stores = scope.spawn(|| {
            let mut round = 0;
            while !is_over.load(SeqCst) {
                round += 1;
                pages_of(round).for_each(|page| word(&own, page).store(round, SeqCst));
                own.flush(0, LEN).unwrap();
                flushed.store(round, SeqCst);
                std::thread::sleep(Duration::from_millis(1));
            }
            round
        });
        let looks = scope.spawn(|| {
            let mut seen = vec![0; PAGE_COUNT as usize];
            while !is_over.load(SeqCst) {
                let round = flushed.load(SeqCst);
                other.update(0, LEN).unwrap();
                for page in 0..PAGE_COUNT {
                    let now = word(&other, page).load(SeqCst);
                    let due = (round.saturating_sub(4)..=round).find(|round| (page + round).is_multiple_of(5)).unwrap_or(0);
                    let before = std::mem::replace(&mut seen[page as usize], now);
                    assert!(now >= before && now >= due, "page {page}: {now} after {before}, and {due} was flushed");
                }
            }
        });
        let goes_on = |from: u64| {
            let is_done = || flushed.load(SeqCst) > from + 5 || stores.is_finished() || looks.is_finished();
            until("stores go on", is_done);
        };
        goes_on(0);
        fault(pool);
        goes_on(flushed.load(SeqCst));
        is_over.store(true, SeqCst);
        looks.join().unwrap();
        stores.join().unwrap()
    })
}

/// Each page has the number of its last round, by a get of a program that has mapped nothing.
fn has_all(program: &Pool, last: u64) {
    let mut bytes = vec![0; LEN as usize];
    program.open("a").unwrap().get(0, &mut bytes).unwrap();
    for (page, bytes) in bytes.chunks(PAGE_LEN as usize).enumerate() {
        let at = 8 * (page % 500);
        let due = (last - 4..=last).find(|round| (page as u64 + round).is_multiple_of(5)).unwrap();
        assert_eq!(u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()), due, "page {page}");
    }
}

#[test]
fn flushed_stores_outlive_a_killed_home() {
    let mut pool = Apart::start(3);
    let (writer, reader) = (pool.client(0), pool.client(2));
    writer.create("a", LEN, &copied()).unwrap();
    let last = rounds_through(&mut pool, (&writer, &reader), None, |pool| pool.kill(1));
    has_all(&writer, last);
}

#[test]
fn pages_leave_few_frames_while_a_home_is_killed() {
    let mut pool = Apart::start(3);
    let (writer, reader) = (pool.client(0), pool.client(2));
    writer.create("a", LEN, &copied()).unwrap();
    // An eighth of the pages: faults send others home, to a home that is lost at any moment.
    let last = rounds_through(&mut pool, (&writer, &reader), Some(LEN / 8), |pool| pool.kill(1));
    has_all(&reader, last);
}

#[test]
fn flushed_stores_outlive_a_home_that_stands_still() {
    let mut pool = Apart::start(3);
    let (writer, reader) = (pool.client(0), pool.client(2));
    writer.create("a", LEN, &copied()).unwrap();
    let last = rounds_through(&mut pool, (&writer, &reader), None, |pool| pool.stop(1));
    pool.go_on(1);
    has_all(&writer, last);
}

#[test]
fn what_a_barrier_gives_outlives_the_home() {
    let mut pool = Apart::start(3);
    let (one, other) = (pool.client(0), pool.client(2));
    let region = one.create("a", LEN, &copied()).unwrap();
    let mapping = region.map(Consistency::Explicit).unwrap();
    assert_eq!(region.map(Consistency::Explicit).unwrap().ptr(), mapping.ptr(), "mapping twice gives the same");
    let theirs = other.open("a").unwrap().map(Consistency::Explicit).unwrap();
    let mut bytes = [0; 6];
    theirs.read(5000, &mut bytes).unwrap();
    std::thread::scope(|scope| {
        let giver = scope.spawn(|| {
            let given = Part { mapping: &mapping, offset: 5000, len: 6 };
            mapping.write(5000, b"stored").unwrap();
            one.group("both", 2).unwrap().barrier_with(&[given], &[]).unwrap();
        });
        let taken = Part { mapping: &theirs, offset: 5000, len: 6 };
        other.group("both", 2).unwrap().barrier_with(&[], &[taken]).unwrap();
        giver.join().unwrap();
    });
    theirs.read(5000, &mut bytes).unwrap();
    assert_eq!(&bytes, b"stored");
    theirs.unmap().unwrap();
    mapping.unmap().unwrap();
    pool.kill(1);
    // A handle from before is mapped, at the next home, which may not answer yet.
    let mapping = region.map(Consistency::Explicit).unwrap();
    let mut bytes = [0; 6];
    mapping.read(5000, &mut bytes).unwrap();
    assert_eq!(&bytes, b"stored");
    mapping.write(5000, b"later!").unwrap();
    mapping.flush(0, LEN).unwrap();
    region.get(5000, &mut bytes).unwrap();
    assert_eq!(&bytes, b"later!");
}
