//! Every order in which faulting threads and the node can meet at a page word, by loom; and deaths at each step among them.

use hanare_protocol::Corrupt;
use hanare_protocol::page::word::{Changed, Fault, Fill, Installed, Invalidated, State, TakeOutcome};
use hanare_protocol::page::{Access, Version};
use hanare_ring::page_word::{PageWords, page_words_len};
use hanare_ring::{Exchange, Words};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering, fence};
use loom::thread;
use std::sync::atomic::AtomicUsize as Plain;

/// What the node does to a word.
trait Node {
    fn invalidate(&self, page: u64, version: Version) -> Result<Invalidated, Corrupt>;
    fn take_owned(&self, page: u64, era: Version) -> Result<TakeOutcome, Corrupt>;
    fn drop_taken(&self, page: u64, floor: Version) -> Result<Changed, Corrupt>;
    fn unfill(&self, page: u64, slot: u16) -> Result<(), Corrupt>;
}

impl<W: Exchange> Node for PageWords<W> {
    fn invalidate(&self, page: u64, version: Version) -> Result<Invalidated, Corrupt> {
        self.change(page, |word| word.invalidate(version)).map(|(_, found)| found)
    }

    fn take_owned(&self, page: u64, era: Version) -> Result<TakeOutcome, Corrupt> {
        self.change(page, |word| word.take_owned(era)).map(|(_, found)| found)
    }

    fn drop_taken(&self, page: u64, floor: Version) -> Result<Changed, Corrupt> {
        self.change(page, |word| word.drop_taken(floor)).map(|(changed, ())| changed)
    }

    fn unfill(&self, page: u64, slot: u16) -> Result<(), Corrupt> {
        self.change(page, |word| word.unfill(slot)).map(|_| ())
    }
}

/// Words whose every order of visibility loom tries; a side that dies makes only its first writes.
#[derive(Clone)]
struct Ordered {
    words: Arc<Vec<AtomicU64>>,
    left: std::sync::Arc<Plain>,
    /// Exchanges order nothing: what a test switches off.
    is_relaxed: bool,
}

impl Ordered {
    fn new(pages: u64, slots: u16) -> Ordered {
        let count = page_words_len(pages, slots) / 8;
        Ordered { words: Arc::new((0..count).map(|_| AtomicU64::new(0)).collect()), left: plain(usize::MAX), is_relaxed: false }
    }

    /// The same memory for a process that dies after `writes` of its writes.
    fn dying_after(&self, writes: usize) -> Ordered {
        Ordered { words: Arc::clone(&self.words), left: plain(writes), is_relaxed: self.is_relaxed }
    }

    fn may_write(&self) -> bool {
        use std::sync::atomic::Ordering::Relaxed;
        self.left.fetch_update(Relaxed, Relaxed, |left| Some(left.saturating_sub(1))).unwrap() > 0
    }

    fn is_dead(&self) -> bool {
        self.left.load(std::sync::atomic::Ordering::Relaxed) == 0
    }
}

fn plain(value: usize) -> std::sync::Arc<Plain> {
    std::sync::Arc::new(Plain::new(value))
}

impl Words for Ordered {
    fn count(&self) -> usize {
        self.words.len()
    }

    fn load(&self, word: usize) -> u64 {
        self.words[word].load(Ordering::Acquire)
    }

    fn store(&self, word: usize, value: u64) {
        if self.may_write() {
            self.words[word].store(value, Ordering::Release);
        }
    }

    fn swap(&self, word: usize, value: u64) -> u64 {
        match self.may_write() {
            true => self.words[word].swap(value, Ordering::SeqCst),
            false => self.load(word),
        }
    }

    fn fence(&self) {
        fence(Ordering::SeqCst);
    }

    fn read(&self, _: usize, _: &mut [u8]) {
        unreachable!("a page word has no bytes");
    }

    fn write(&self, _: usize, _: &[u8]) {
        unreachable!("a page word has no bytes");
    }
}

impl Exchange for Ordered {
    fn compare_exchange(&self, word: usize, old: u64, new: u64) -> Result<u64, u64> {
        let (order, seen) = match self.is_relaxed {
            false => (Ordering::AcqRel, Ordering::Acquire),
            true => (Ordering::Relaxed, Ordering::Relaxed),
        };
        match self.may_write() {
            true => self.words[word].compare_exchange(old, new, order, seen),
            // Lost, as all that the dead would have done.
            false => Ok(old),
        }
    }
}

/// The frame of the page and one process's mapping of it, as the kernel would have them. They have no order of their own, so
/// a missing acquire or release in the word shows as a frame that is not the one that was published.
#[derive(Clone)]
struct Frame {
    /// The version of the bytes in the frame; 0 when it is punched.
    bytes: Arc<AtomicU64>,
    /// Whether the page is mapped.
    mapped: Arc<AtomicU64>,
}

impl Frame {
    fn new(version: u64) -> Frame {
        Frame { bytes: Arc::new(AtomicU64::new(version)), mapped: Arc::new(AtomicU64::new(0)) }
    }

    fn map(&self, at_least: Version) {
        let bytes = self.bytes.load(Ordering::Relaxed);
        assert!(bytes >= u64::from(at_least.0), "version {bytes} is mapped where {at_least:?} was published");
        self.mapped.store(bytes, Ordering::Relaxed);
    }

    fn punch(&self) {
        self.bytes.store(0, Ordering::Relaxed);
        self.mapped.store(0, Ordering::Relaxed);
    }
}

const READ: Access = Access::Read;
const WRITE: Access = Access::Write;

fn pages(slots: u16) -> PageWords<Ordered> {
    PageWords::new(Ordered::new(1, slots), 1, slots)
}

/// A page that is here in `version`, as the node fetched it with slot `slot`.
fn fetched(pages: &PageWords<Ordered>, slot: u16, version: Version, access: Access) {
    assert!(matches!(pages.fault(0, slot, access), Ok(Fault::Fetch { .. })));
    assert!(matches!(pages.grant(0, slot, version, access), Ok(Installed::Here(_))));
    // The node maps nothing; its slot is free again.
    assert!(matches!(pages.fault(0, slot, access), Ok(Fault::Map(_))));
    assert!(pages.leave(0, slot).is_ok());
}

fn model(check: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(check);
}

#[test]
fn a_page_that_was_taken_is_mapped_by_nobody() {
    for access in [READ, WRITE] {
        model(move || {
            let (pages, frame) = (pages(2), Frame::new(5));
            fetched(&pages, 1, Version(5), access);
            let (client, mapping) = (pages.clone(), frame.clone());
            let faulting = thread::spawn(move || {
                if let Fault::Map(_) = client.fault(0, 0, READ).unwrap() {
                    mapping.map(Version(5));
                    let _ = client.leave(0, 0).unwrap();
                }
            });
            let is_marked = match access {
                READ => pages.invalidate(0, Version(5)) == Ok(Invalidated::Take),
                WRITE => pages.take_owned(0, Version(5)) == Ok(TakeOutcome::Take),
            };
            assert!(is_marked);
            let was_clear = pages.is_clear(0);
            if was_clear {
                frame.punch();
                let _ = pages.drop_taken(0, Version(5)).unwrap();
            }
            faulting.join().unwrap();
            if was_clear {
                assert_eq!(frame.mapped.load(Ordering::Relaxed), 0, "a punched page is mapped");
            } else {
                assert!(pages.is_clear(0), "everybody has left");
            }
        });
    }
}

#[test]
fn two_threads_that_touch_an_absent_page_fetch_it_once() {
    model(|| {
        let (pages, frame) = (pages(2), Frame::new(0));
        let touch = |slot: u16| {
            let (pages, frame) = (pages.clone(), frame.clone());
            move || match pages.fault(0, slot, READ).unwrap() {
                Fault::Fetch { floor, .. } => {
                    assert_eq!(pages.fill(0, slot, floor.next(), READ), Ok(Fill::Go));
                    frame.bytes.store(1, Ordering::Relaxed);
                    assert!(matches!(pages.filled(0, slot, floor.next()), Ok(Installed::Here(_))));
                    1
                }
                Fault::Wait(_) => 0,
                Fault::Map(_) => {
                    frame.map(Version(1));
                    let _ = pages.leave(0, slot).unwrap();
                    0
                }
                Fault::Upgrade { .. } => panic!("to read"),
            }
        };
        let other = thread::spawn(touch(0));
        let fetches = touch(1)() + other.join().unwrap();
        assert_eq!(fetches, 1);
        assert_eq!(pages.look(0).state(), Ok(State::Shared));
    });
}

#[test]
fn an_invalidation_and_the_grant_that_it_overtakes() {
    an_invalidation_meets_a_grant(false);
}

#[test]
#[should_panic = "what was installed is seen by who takes it"]
fn without_order_the_taker_reads_an_older_frame() {
    an_invalidation_meets_a_grant(true);
}

fn an_invalidation_meets_a_grant(is_relaxed: bool) {
    model(move || {
        let (pages, frame) = (PageWords::new(Ordered { is_relaxed, ..Ordered::new(1, 1) }, 1, 1), Frame::new(0));
        assert!(matches!(pages.fault(0, 0, READ), Ok(Fault::Fetch { .. })));
        let (client, mapping) = (pages.clone(), frame.clone());
        let faulting = thread::spawn(move || {
            mapping.bytes.store(5, Ordering::Relaxed);
            client.grant(0, 0, Version(5), READ).unwrap()
        });
        let found = pages.invalidate(0, Version(5)).unwrap();
        if found == Invalidated::Take {
            assert!(pages.is_clear(0));
            assert_eq!(frame.bytes.load(Ordering::Relaxed), 5, "what was installed is seen by who takes it");
            frame.punch();
            let _ = pages.drop_taken(0, Version(5)).unwrap();
        }
        let granted = faulting.join().unwrap();
        let word = pages.look(0);
        match granted {
            Installed::Void => assert_eq!((found, word.state()), (Invalidated::Nothing, Ok(State::Fetching))),
            _ => assert_eq!((found, word.state()), (Invalidated::Take, Ok(State::Absent))),
        }
        assert_eq!(word.floor(), Version(5), "the version never comes back");
    });
}

/// Nothing may be in the file that was not granted, or that an invalidation has found nowhere.
#[test]
fn an_invalidation_and_the_filling_of_a_frame() {
    model(|| {
        let (pages, frame) = (pages(1), Frame::new(0));
        assert!(matches!(pages.fault(0, 0, READ), Ok(Fault::Fetch { .. })));
        let (client, mapping) = (pages.clone(), frame.clone());
        let faulting = thread::spawn(move || {
            let begun = client.fill(0, 0, Version(5), READ).unwrap();
            if begun == Fill::Go {
                mapping.bytes.store(5, Ordering::Relaxed);
                assert!(matches!(client.filled(0, 0, Version(5)), Ok(Installed::Here(_))));
            }
            begun
        });
        let mut found = pages.invalidate(0, Version(5)).unwrap();
        let was_late = found == Invalidated::Later;
        let begun = faulting.join().unwrap();
        if was_late {
            found = pages.invalidate(0, Version(5)).unwrap();
            assert_eq!((begun, found), (Fill::Go, Invalidated::Take), "it was granted, and is taken when it is here");
        }
        match found {
            Invalidated::Take => {
                assert_eq!(frame.bytes.load(Ordering::Relaxed), 5, "what was filled is seen by who takes it");
                frame.punch();
                let _ = pages.drop_taken(0, Version(5)).unwrap();
            }
            other => assert_eq!((other, begun), (Invalidated::Nothing, Fill::Void)),
        }
        assert_eq!(frame.bytes.load(Ordering::Relaxed), 0, "an invalidated page is left in the file");
    });
}

/// Two answers to one claim, the thread's own and one that came to the node: one of them goes into the frame.
#[test]
fn two_answers_to_one_claim_fill_the_frame_once() {
    model(|| {
        let (pages, filled) = (pages(1), Arc::new(AtomicU64::new(0)));
        assert!(matches!(pages.fault(0, 0, READ), Ok(Fault::Fetch { .. })));
        let answer = |version: Version| {
            let (pages, filled) = (pages.clone(), Arc::clone(&filled));
            move || {
                if pages.fill(0, 0, version, READ).unwrap() == Fill::Go {
                    filled.fetch_add(1, Ordering::Relaxed);
                    assert!(matches!(pages.filled(0, 0, version), Ok(Installed::Here(_))));
                }
            }
        };
        let other = thread::spawn(answer(Version(5)));
        answer(Version(6))();
        other.join().unwrap();
        assert_eq!((filled.load(Ordering::Relaxed), pages.look(0).state()), (1, Ok(State::Shared)));
    });
}

#[test]
fn two_faulting_threads_and_a_taker() {
    model(|| {
        let (pages, frame) = (pages(3), Frame::new(5));
        fetched(&pages, 2, Version(5), READ);
        let faulting = [(0, READ), (1, WRITE)].map(|(slot, access)| {
            let (pages, frame) = (pages.clone(), frame.clone());
            thread::spawn(move || {
                if let Fault::Map(_) = pages.fault(0, slot, access).unwrap() {
                    frame.map(Version(5));
                    let _ = pages.leave(0, slot).unwrap();
                }
            })
        });
        assert_eq!(pages.invalidate(0, Version(5)), Ok(Invalidated::Take));
        let was_clear = pages.is_clear(0);
        if was_clear {
            frame.punch();
            let _ = pages.drop_taken(0, Version(5)).unwrap();
        }
        for thread in faulting {
            thread.join().unwrap();
        }
        if was_clear {
            assert_eq!(frame.mapped.load(Ordering::Relaxed), 0, "a punched page is mapped");
        }
        let state = pages.look(0).state().unwrap();
        assert_ne!(state, State::Shared, "the copy does not stay");
    });
}

#[test]
fn a_parked_thread_is_woken_or_sees_the_change() {
    model(|| {
        let pages = pages(2);
        assert!(matches!(pages.fault(0, 0, READ), Ok(Fault::Fetch { .. })));
        let client = pages.clone();
        let fetching = thread::spawn(move || match client.grant(0, 0, Version(1), READ).unwrap() {
            Installed::Here(changed) => changed.wakes,
            other => panic!("{other:?}"),
        });
        let parks = match pages.fault(0, 1, READ).unwrap() {
            Fault::Wait(seen) => pages.doze(0, seen).is_some(),
            Fault::Map(_) => false,
            other => panic!("{other:?}"),
        };
        let woken = fetching.join().unwrap();
        assert!(woken || !parks, "it parks, and nobody wakes it");
    });
}

/// A thread dies at any of its writes, while the node takes the page; once the node knows, nobody is kept waiting.
fn a_thread_dies(writes: usize, access: Access) {
    model(move || {
        let pages = pages(3);
        fetched(&pages, 2, Version(5), READ);
        let mortal = PageWords::new(pages.memory().dying_after(writes), 1, 3);
        let faulting = thread::spawn(move || {
            let is_dead = || mortal.memory().is_dead();
            match mortal.fault(0, 0, access) {
                _ if is_dead() => {}
                Ok(Fault::Map(_)) => drop(mortal.leave(0, 0)),
                Ok(Fault::Upgrade { .. }) => {
                    assert!(mortal.memory().is_dead() || mortal.fill(0, 0, Version(6), access) != Ok(Fill::Go));
                    let _ = mortal.grant(0, 0, Version(6), access);
                }
                _ => {}
            }
        });
        let is_marked = pages.invalidate(0, Version(5)) == Ok(Invalidated::Take);
        faulting.join().unwrap();
        // Dead, or done; the node hears of a death.
        if let Some(page) = pages.end_slot(0).unwrap()
            && pages.look(page).is_being_filled()
        {
            pages.unfill(page, 0).unwrap();
        }
        let word = pages.look(0);
        match word.state().unwrap() {
            State::TakingShared | State::TakingUpgrade => {
                assert!(is_marked && pages.is_clear(0), "the dead hold the page: {word:?}");
                let _ = pages.drop_taken(0, Version(5)).unwrap();
            }
            _ => assert!(!is_marked, "{word:?}"),
        }
        let word = pages.look(0);
        if word.state() == Ok(State::FetchingWrite) {
            assert_eq!(word.claimer(), 0, "the node goes on in the name of the dead");
            assert!(matches!(pages.grant(0, 0, Version(6), WRITE), Ok(Installed::Here(_))));
        }
        // Whatever it is by now, it can be had.
        match pages.fault(0, 1, READ).unwrap() {
            Fault::Map(_) => assert!(pages.leave(0, 1).is_ok()),
            Fault::Fetch { floor, .. } => assert_eq!(floor, Version(5)),
            other => panic!("{other:?} {:?}", pages.look(0)),
        }
    });
}

#[test]
fn a_reader_that_dies_at_any_write_holds_nobody_up() {
    (0..5).for_each(|writes| a_thread_dies(writes, READ));
}

#[test]
fn a_writer_that_dies_at_any_write_holds_nobody_up() {
    (0..4).for_each(|writes| a_thread_dies(writes, WRITE));
}
