//! `Explicit` mappings of regions with copies: stores that were flushed outlive the nodes that had them.

use crate::apart::{Apart, until};
use crate::support::Ends;
use hanare::{Consistency, CreateOptions, Explicit, MapOptions, Part, Placement, Pool, Result, SharedMapping, Strided};
use hanare_protocol::id::NodeId;
use hanare_protocol::limits::PAGE_LEN;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

const PAGE_COUNT: u64 = 700;
pub(crate) const LEN: u64 = PAGE_COUNT * PAGE_LEN;

fn copied() -> CreateOptions {
    CreateOptions { placement: Placement::Node(NodeId(1)), copies: 2, ..CreateOptions::default() }
}

/// A mapping whose stores are seen by others after a flush.
pub(crate) trait Flushed: Sync {
    fn at(&self) -> *mut u8;
    fn send(&self) -> Result<()>;
    fn look(&self) -> Result<()>;
}

impl Flushed for Explicit {
    fn at(&self) -> *mut u8 {
        self.ptr()
    }

    fn send(&self) -> Result<()> {
        self.flush(0, LEN)
    }

    fn look(&self) -> Result<()> {
        self.update(0, LEN)
    }
}

impl Flushed for SharedMapping {
    fn at(&self) -> *mut u8 {
        self.ptr()
    }

    fn send(&self) -> Result<()> {
        self.flush(0, LEN)
    }

    fn look(&self) -> Result<()> {
        self.update(0, LEN)
    }
}

/// The word of a page that holds the number of a round.
fn word(mapping: &impl Flushed, page: u64) -> &AtomicU64 {
    let at = (page * PAGE_LEN) as usize + 8 * (page % 500) as usize;
    // SAFETY: an aligned word of the mapping, which the borrow keeps; all who know of it use atomics.
    unsafe { AtomicU64::from_ptr(mapping.at().add(at).cast()) }
}

/// The pages of a step: all of them have had their turn after a few.
fn pages_of(round: u64) -> impl Iterator<Item = u64> {
    (0..PAGE_COUNT).filter(move |page| (page + round).is_multiple_of(5))
}

/// [`rounds`] by programs with that many frames.
fn rounds_through(
    pool: &mut Apart,
    (writer, reader): (&Pool, &Pool),
    frames: Option<u64>,
    fault: impl FnOnce(&mut Apart),
) -> u64 {
    let options = MapOptions { frames_len: frames.unwrap_or(LEN), ..MapOptions::new().unwrap() };
    let map = |program: &Pool| Explicit::with(&program.open("a").unwrap(), &options).unwrap();
    rounds(&map(writer), &map(reader), |goes_on| {
        goes_on();
        fault(pool);
        goes_on();
    })
}

/// Stores and flushes rounds, while `faults` happen, which get a way to wait until rounds have gone on. Meanwhile another program looks at what was
/// flushed. Returns the last round.
pub(crate) fn rounds<M: Flushed>(own: &M, other: &M, faults: impl FnOnce(&dyn Fn())) -> u64 {
    let (flushed, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let end = Ends(&is_over);
        let stores = scope.spawn(|| {
            let mut round = 0;
            while !is_over.load(SeqCst) {
                round += 1;
                pages_of(round).for_each(|page| word(own, page).store(round, SeqCst));
                own.send().unwrap();
                flushed.store(round, SeqCst);
                std::thread::sleep(Duration::from_millis(1));
            }
            round
        });
        let looks = scope.spawn(|| {
            let mut seen = vec![0; PAGE_COUNT as usize];
            while !is_over.load(SeqCst) {
                let round = flushed.load(SeqCst);
                other.look().unwrap();
                for page in 0..PAGE_COUNT {
                    let now = word(other, page).load(SeqCst);
                    let due = (round.saturating_sub(4)..=round).find(|round| (page + round).is_multiple_of(5)).unwrap_or(0);
                    let before = std::mem::replace(&mut seen[page as usize], now);
                    assert!(now >= before && now >= due, "page {page}: {now} after {before}, and {due} was flushed");
                }
            }
        });
        faults(&|| {
            let from = flushed.load(SeqCst);
            let is_done = || flushed.load(SeqCst) > from + 5 || stores.is_finished() || looks.is_finished();
            until("stores go on", is_done);
        });
        drop(end);
        looks.join().unwrap();
        stores.join().unwrap()
    })
}

/// Each page has the number of its last round, by a get of a program that has mapped nothing.
pub(crate) fn has_all(program: &Pool, last: u64) {
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

/// Counters that are bound to a lock: a holder raises all of them.
const COUNTERS: Strided = Strided { offset: 4000, block: 8, count: 64, stride: 1000 };

/// Takes the lock until it is told to stop, and raises the counters. Returns the number of its turns.
fn raise(program: &Pool, mapping: &SharedMapping, is_over: &AtomicBool, turns: &AtomicU64) {
    while !is_over.load(SeqCst) {
        let mut lock = program.lock("counters").unwrap();
        let count = |(offset, _)| {
            let mut word = [0; 8];
            lock.read(mapping, offset, &mut word).unwrap();
            (offset, u64::from_le_bytes(word))
        };
        let counts: Vec<(u64, u64)> = COUNTERS.blocks().map(count).collect();
        assert!(counts.iter().all(|(_, count)| *count == counts[0].1), "a mixture: {counts:?}");
        for (offset, count) in counts {
            lock.write(mapping, offset, &(count + 1).to_le_bytes()).unwrap();
        }
        lock.unlock().unwrap();
        turns.fetch_add(1, SeqCst);
    }
}

/// [`turns`] on a region with copies, while `fault` happens.
fn turns_through(fault: impl FnOnce(&mut Apart)) {
    let mut pool = Apart::start(3);
    let (one, other) = (pool.client(0), pool.client(2));
    one.create("a", LEN, &copied()).unwrap();
    turns(&one, &other, |goes_on| {
        goes_on();
        fault(&mut pool);
        goes_on();
    });
}

/// Two programs raise counters under a lock while `faults` happen, which get a way to wait until both have gone on. No turn is lost, and none is
/// seen half.
pub(crate) fn turns(one: &Pool, other: &Pool, faults: impl FnOnce(&dyn Fn())) {
    let region = one.open("a").unwrap();
    let mappings = [region.map(Consistency::Entry).unwrap(), other.open("a").unwrap().map(Consistency::Entry).unwrap()];
    let mut lock = one.lock("counters").unwrap();
    lock.bind(&[mappings[0].bytes(COUNTERS).unwrap()]).unwrap();
    lock.unlock().unwrap();
    let (turns, is_over) = ([AtomicU64::new(0), AtomicU64::new(0)], AtomicBool::new(false));
    std::thread::scope(|scope| {
        let end = Ends(&is_over);
        let programs = [one, other];
        let raisers: Vec<_> = (0..2)
            .map(|k| {
                let (program, mapping, turns, is_over) = (programs[k], &mappings[k], &turns[k], &is_over);
                scope.spawn(move || raise(program, mapping, is_over, turns))
            })
            .collect();
        faults(&|| {
            let before = [0, 1].map(|k| turns[k].load(SeqCst));
            let has_gone_on = |k: usize| turns[k].load(SeqCst) > before[k] + 5 || raisers[k].is_finished();
            until("both have turns", || has_gone_on(0) && has_gone_on(1));
        });
        drop(end);
        raisers.into_iter().for_each(|raiser| raiser.join().unwrap());
    });
    let due = turns.iter().map(|turns| turns.load(SeqCst)).sum::<u64>();
    let mut bytes = vec![0; LEN as usize];
    region.get(0, &mut bytes).unwrap();
    for (offset, len) in COUNTERS.blocks() {
        let word = &bytes[offset as usize..(offset + len) as usize];
        assert_eq!(u64::from_le_bytes(word.try_into().unwrap()), due, "at {offset}");
    }
}

#[test]
fn what_is_bound_to_a_lock_outlives_a_killed_home() {
    turns_through(|pool| pool.kill(1));
}

#[test]
fn what_is_bound_to_a_lock_outlives_a_home_that_stands_still() {
    turns_through(|pool| {
        pool.stop(1);
        pool.go_on(1);
    });
}

#[test]
fn stores_under_a_lock_are_seen_when_it_is_given_back_and_not_before() {
    let pool = Apart::start(3);
    let (one, other) = (pool.client(0), pool.client(2));
    let region = one.create("a", LEN, &copied()).unwrap();
    let mapping = region.map(Consistency::Entry).unwrap();
    let mut lock = one.lock("counters").unwrap();
    lock.bind(&[mapping.bytes(COUNTERS).unwrap()]).unwrap();
    lock.write(&mapping, 4000, &5u64.to_le_bytes()).unwrap();
    lock.unlock().unwrap();
    let mut lock = one.lock("counters").unwrap();
    lock.write(&mapping, 4000, &6u64.to_le_bytes()).unwrap();
    // Stores to bound bytes stay here, whatever is flushed.
    mapping.flush(0, LEN).unwrap();
    let mut word = [0; 8];
    other.open("a").unwrap().get(4000, &mut word).unwrap();
    assert_eq!(u64::from_le_bytes(word), 5);
    lock.unlock().unwrap();
    other.open("a").unwrap().get(4000, &mut word).unwrap();
    assert_eq!(u64::from_le_bytes(word), 6);
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
