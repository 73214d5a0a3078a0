//! Faults in the timeline: noted by the threads that fault, inside a signal handler, and written at an ordinary moment.
//!
//! Each mapping has a ring of fixed records, made with it where a timeline is wanted. A fault takes a place by one exchange. In a full ring
//! it is counted and not noted: nobody waits for a timeline. The rings go to the file with the thread's next event of another kind, with a
//! look at counts, and at a mapping's end. So they do when the process ends by `exit` or the end of `main`. A killed process's last faults
//! are not in its file.
//!
//! ```text
//! fault ── head: a place ── record ── turn := filled          turn of a place   free for lap k = 2k, filled in lap k = 2k + 1
//!                                                             lap of position p  p / places
//! ordinary moment ── tail: filled? ── event ── turn := free for the next lap
//! ```

use super::{Trace, current, duration};
use hanare_protocol::limits::PAGE_LEN;
use hanare_protocol::page::Access;
use serde_json::json;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// Faults that a mapping's ring holds until they are written. They last a quarter of a second at the speed of this host's pages.
const RECORD_COUNT: u64 = 1 << 14;

/// Means by which a fault was resolved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Means {
    /// The page was here: in this host's frames or its own memory, of an explicit mapping in the process's.
    #[default]
    Mapped,
    /// First store to a page of an explicit mapping: its clean bytes were kept.
    Twinned,
    /// The home gave it.
    Fetched,
    /// The home gave leave to store to the copy that was here.
    Upgraded,
    /// Others had it: on other hosts, or other threads of this one.
    Waited,
    /// No node could supply it.
    Lost,
}

impl Means {
    const ALL: [Means; 6] = [Means::Mapped, Means::Twinned, Means::Fetched, Means::Upgraded, Means::Waited, Means::Lost];

    fn name(self) -> &'static str {
        match self {
            Means::Mapped => "fault, mapped",
            Means::Twinned => "fault, twin made",
            Means::Fetched => "fault, fetched",
            Means::Upgraded => "fault, upgraded",
            Means::Waited => "fault, waited",
            Means::Lost => "fault, lost",
        }
    }
}

/// Notes on a fault while it is resolved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    means: Means,
    /// Pages mapped or asked for behind the one that was touched.
    pub ahead: u16,
}

impl Seen {
    /// Another step was this; the dearest of them is the fault's.
    pub fn by(&mut self, means: Means) {
        if means as u8 > self.means as u8 {
            self.means = means;
        }
    }
}

/// A fault as it is noted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Record {
    begin_ns: u64,
    end_ns: u64,
    page: u64,
    thread: i32,
    access: Access,
    seen: Seen,
}

/// A place of the ring. It is words, so a half-written one is never more than nonsense, and its turn keeps that from being read.
#[derive(Default)]
struct TraceSlot {
    turn: AtomicU64,
    begin_ns: AtomicU64,
    end_ns: AtomicU64,
    page: AtomicU64,
    /// Thread 32 bits, pages ahead 16, means 8, whether it was a store 8.
    rest: AtomicU64,
}

/// Records of one mapping.
pub(super) struct Ring {
    region: Box<str>,
    places: Box<[TraceSlot]>,
    /// Position of the next record.
    head: AtomicU64,
    dropped: AtomicU64,
    /// State of the reader that takes them over.
    taken: Mutex<DrainedRecords>,
}

#[derive(Default)]
struct DrainedRecords {
    tail: u64,
    dropped: u64,
}

impl Ring {
    fn new(region: &str, count: u64) -> Ring {
        let places = (0..count).map(|_| TraceSlot::default()).collect();
        Ring { region: region.into(), places, head: AtomicU64::new(0), dropped: AtomicU64::new(0), taken: Default::default() }
    }

    fn place(&self, position: u64) -> (&TraceSlot, u64) {
        let count = self.places.len() as u64;
        (&self.places[(position % count) as usize], position / count)
    }

    /// Notes a fault, or counts it where there is no room. Async-signal-safe, and lock-free. A thread may be interrupted between taking a
    /// place and filling it. It then keeps places behind it from being taken over, and nobody from noting.
    fn note(&self, record: Record) {
        let mut position = self.head.load(Relaxed);
        let place = loop {
            let (place, lap) = self.place(position);
            // ORDERING: pairs with the store in `take`: what was in this place has been read.
            let turn = place.turn.load(Acquire);
            if turn < 2 * lap {
                self.dropped.fetch_add(1, Relaxed);
                return;
            }
            let is_free = turn == 2 * lap;
            position = match is_free.then(|| self.head.compare_exchange_weak(position, position + 1, Relaxed, Relaxed)) {
                Some(Ok(_)) => break place,
                Some(Err(now)) => now,
                None => self.head.load(Relaxed),
            };
        };
        let Record { begin_ns, end_ns, page, thread, access, seen } = record;
        place.begin_ns.store(begin_ns, Relaxed);
        place.end_ns.store(end_ns, Relaxed);
        place.page.store(page, Relaxed);
        let rest = u64::from(thread as u32) << 32 | u64::from(seen.ahead) << 16 | (seen.means as u64) << 8;
        place.rest.store(rest | u64::from(access == Access::Write), Relaxed);
        // ORDERING: pairs with the load in `take`: the record is whole.
        place.turn.store(2 * (position / self.places.len() as u64) + 1, Release);
    }

    /// Takes over what was noted, oldest first, and tells how many were dropped since the last time.
    fn take(&self, mut each: impl FnMut(Record)) -> u64 {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let (place, lap) = self.place(taken.tail);
            // ORDERING: pairs with the store in `note`.
            if place.turn.load(Acquire) != 2 * lap + 1 {
                break;
            }
            let rest = place.rest.load(Relaxed);
            let means = Means::ALL[(rest >> 8 & 0xff) as usize];
            let record = Record {
                begin_ns: place.begin_ns.load(Relaxed),
                end_ns: place.end_ns.load(Relaxed),
                page: place.page.load(Relaxed),
                thread: (rest >> 32) as i32,
                access: if rest & 1 == 0 { Access::Read } else { Access::Write },
                seen: Seen { means, ahead: (rest >> 16) as u16 },
            };
            // ORDERING: pairs with the load in `note`: the record was read before another takes its place.
            place.turn.store(2 * (lap + 1), Release);
            taken.tail += 1;
            each(record);
        }
        let dropped = self.dropped.load(Relaxed);
        dropped - std::mem::replace(&mut taken.dropped, dropped)
    }
}

/// Ring of a mapping's faults; its end takes them over.
pub(crate) struct Faults {
    trace: &'static Trace,
    ring: Arc<Ring>,
}

impl Faults {
    /// For a mapping of that region, if a timeline is wanted.
    ///
    /// **Cost**: 640 KiB as long as the mapping is there.
    pub fn of(region: &str) -> Option<Faults> {
        let trace = current()?;
        let ring = Arc::new(Ring::new(region, RECORD_COUNT));
        trace.rings().push(ring.clone());
        Some(Faults { trace, ring })
    }

    /// Notes a fault that ends at this moment. Async-signal-safe.
    ///
    /// **Cost**: a look at the clock, and the system call that tells the thread's number.
    #[cold]
    pub fn note(&self, begin: Instant, page: u64, access: Access, mut seen: Seen, is_lost: bool) {
        if is_lost {
            seen.by(Means::Lost);
        }
        let since = |at: Instant| at.saturating_duration_since(self.trace.origin).as_nanos() as u64;
        let (begin_ns, end_ns) = (since(begin), since(Instant::now()));
        let thread = rustix::thread::gettid().as_raw_nonzero().get();
        self.ring.note(Record { begin_ns, end_ns, page, thread, access, seen });
    }
}

impl Drop for Faults {
    fn drop(&mut self) {
        self.trace.take_over();
        self.trace.rings().retain(|ring| !Arc::ptr_eq(ring, &self.ring));
    }
}

/// Writes the faults that were noted so far. Not for a signal handler.
pub(crate) fn take_over() {
    if let Some(trace) = current() {
        trace.take_over();
    }
}

impl Trace {
    fn rings(&self) -> std::sync::MutexGuard<'_, Vec<Arc<Ring>>> {
        self.rings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes the faults that were noted so far, of all mappings.
    pub(super) fn take_over(&self) {
        if self.process != std::process::id() {
            return;
        }
        for ring in self.rings().iter() {
            let region = &ring.region;
            let dropped = ring.take(|fault| {
                let (begin, end) = (self.at(fault.begin_ns), self.at(fault.end_ns));
                let access = if fault.access == Access::Write { "write" } else { "read" };
                let args = json!({
                    "region": region, "offset": fault.page * PAGE_LEN, "access": access, "pages_ahead": fault.seen.ahead,
                });
                let mut more = json!({ "dur": duration(begin, end), "args": args });
                // The first has the messages of all that are written together: which of them were whose, nobody counts.
                if let Some(pages) = self.exchanged() {
                    more["pages"] = pages;
                }
                self.event_of(fault.thread, "X", fault.seen.means.name(), "fault", begin, more);
            });
            if dropped > 0 {
                let more = json!({ "s": "p", "args": { "region": region, "faults_dropped": dropped } });
                self.event_of(super::thread(), "i", "faults dropped", "fault", self.now(), more);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::sync::atomic::AtomicBool;
    use std::thread;

    fn record(page: u64) -> Record {
        let access = if page.is_multiple_of(2) { Access::Read } else { Access::Write };
        let seen = Seen { means: Means::ALL[page as usize % 6], ahead: (page * 7) as u16 };
        Record { begin_ns: page * 3, end_ns: page * 5, page, thread: page as i32 - 50, access, seen }
    }

    fn taken(ring: &Ring) -> (Vec<Record>, u64) {
        let mut records = Vec::new();
        let dropped = ring.take(|record| records.push(record));
        (records, dropped)
    }

    #[test]
    fn what_was_noted_is_taken_once_in_order_and_what_does_not_fit_is_counted() {
        let ring = Ring::new("r", 8);
        assert_eq!(taken(&ring), (vec![], 0));
        for lap in 0..5 {
            // The ring's count of records, and 3 more.
            (0..11).for_each(|k| ring.note(record(lap * 100 + k)));
            let (records, dropped) = taken(&ring);
            assert_eq!(records, (0..8).map(|k| record(lap * 100 + k)).collect::<Vec<_>>());
            assert_eq!(dropped, 3, "those since the last time");
            assert_eq!(taken(&ring), (vec![], 0));
            // The places of the next lap do not begin at the first.
            (0..3).for_each(|k| ring.note(record(k)));
            assert_eq!(taken(&ring).0.len(), 3);
        }
    }

    #[test]
    fn every_fault_of_many_threads_is_taken_once_or_counted() {
        const EACH: u64 = 3000;
        let (ring, is_over) = (Ring::new("r", 64), AtomicBool::new(false));
        let (mut records, mut dropped) = (Vec::new(), 0);
        thread::scope(|scope| {
            let threads: Vec<_> = (0..3)
                .map(|thread| {
                    let ring = &ring;
                    scope.spawn(move || (0..EACH).for_each(|k| ring.note(record(thread * EACH + k))))
                })
                .collect();
            let reader = scope.spawn(|| {
                let mut all = (Vec::new(), 0);
                loop {
                    let is_last = is_over.load(Acquire);
                    let (records, dropped) = taken(&ring);
                    all.0.extend(records);
                    all.1 += dropped;
                    if is_last {
                        return all;
                    }
                    thread::yield_now();
                }
            });
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            is_over.store(true, Release);
            (records, dropped) = reader.join().unwrap();
        });
        assert!(records.iter().all(|seen| *seen == record(seen.page)), "no record is two faults' halves");
        let pages: BTreeSet<u64> = records.iter().map(|record| record.page).collect();
        assert_eq!(pages.len(), records.len(), "none is taken twice");
        assert_eq!(records.len() as u64 + dropped, 3 * EACH);
        // Records of one thread are in order.
        for thread in 0..3 {
            let own = records.iter().map(|record| record.page).filter(|page| page / EACH == thread);
            assert!(own.is_sorted());
        }
    }

    #[test]
    fn a_fault_is_called_by_the_dearest_of_its_steps() {
        let mut seen = Seen::default();
        seen.by(Means::Fetched);
        seen.by(Means::Mapped);
        assert_eq!(seen.means, Means::Fetched);
        seen.by(Means::Waited);
        seen.by(Means::Upgraded);
        assert_eq!((seen.means, seen.means.name()), (Means::Waited, "fault, waited"));
        assert!(Means::ALL.iter().enumerate().all(|(index, means)| *means as usize == index));
    }
}
