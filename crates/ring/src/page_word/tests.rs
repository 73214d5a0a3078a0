//! Safety invariant of this module: the words of a test that has real memory are used through their window only.

use super::*;
use crate::testing::Steps;
use crate::words::{Shared, Words};
use hanare_protocol::page::word::{Invalidated, State, TakeOutcome};
use std::cell::Cell;

const PAGES: u64 = 3;
const SLOTS: u16 = 4;
/// The node's own slot.
const NODE: u16 = 3;

/// What the node does to a word.
impl<W: Exchange> PageWords<W> {
    fn invalidate(&self, page: u64, version: Version) -> Result<Invalidated, Corrupt> {
        self.change(page, |word| word.invalidate(version)).map(|(_, found)| found)
    }

    fn take_owned(&self, page: u64, era: Version) -> Result<TakeOutcome, Corrupt> {
        self.change(page, |word| word.take_owned(era)).map(|(_, found)| found)
    }

    fn take_to_evict(&self, page: u64) -> Result<Option<PageWord>, Corrupt> {
        self.change(page, PageWord::take_to_evict).map(|(_, was)| was)
    }

    fn drop_taken(&self, page: u64, floor: Version) -> Result<Changed, Corrupt> {
        self.change(page, |word| word.drop_taken(floor)).map(|(changed, ())| changed)
    }

    fn keep_taken(&self, page: u64) -> Result<Changed, Corrupt> {
        self.change(page, PageWord::keep_taken).map(|(changed, ())| changed)
    }

    fn unfill(&self, page: u64, slot: u16) -> Result<(), Corrupt> {
        self.change(page, |word| word.unfill(slot)).map(|_| ())
    }
}

fn pages() -> PageWords<Steps> {
    PageWords::new(Steps::new(page_words_len(PAGES, SLOTS) as usize), PAGES, SLOTS)
}

fn other(pages: &PageWords<Steps>) -> PageWords<Steps> {
    PageWords::new(pages.words.other_process(), PAGES, SLOTS)
}

/// The page in a state, in version 5, with nobody at it.
fn page_in(state: State) -> PageWords<Steps> {
    let pages = pages();
    let claim = |pages: &PageWords<Steps>| assert!(matches!(pages.fault(1, NODE, Access::Read), Ok(Fault::Fetch { .. })));
    match state {
        State::Absent => {}
        State::Shared => {
            claim(&pages);
            assert!(matches!(pages.grant(1, NODE, Version(5), Access::Read), Ok(Installed::Here(_))));
        }
        State::Owned => {
            assert!(matches!(pages.fault(1, NODE, Access::Write), Ok(Fault::Fetch { .. })));
            assert!(matches!(pages.grant(1, NODE, Version(5), Access::Write), Ok(Installed::Here(_))));
        }
        other => panic!("{other:?} has somebody at it"),
    }
    pages.clear_slot(NODE);
    pages
}

#[test]
fn a_page_is_fetched_once_and_mapped_by_all() {
    let pages = pages();
    assert_eq!(pages.fault(1, 0, Access::Read), Ok(Fault::Fetch { floor: Version(0), access: Access::Read }));
    let Ok(Fault::Wait(seen)) = pages.fault(1, 1, Access::Read) else { panic!("another fetches it") };
    assert!(pages.doze(1, seen).is_some());
    assert_eq!(pages.grant(1, 0, Version(1), Access::Read), Ok(Installed::Here(Changed { wakes: true })));
    assert_eq!(pages.doze(1, seen), None, "it is another word");
    assert_eq!(pages.fault(1, 0, Access::Read), Ok(Fault::Map(Access::Read)));
    assert_eq!(pages.fault(1, 1, Access::Read), Ok(Fault::Map(Access::Read)));
    assert_eq!(pages.look(1).installers(), 2);
    assert_eq!(pages.leave(1, 0), Ok(Changed { wakes: false }));
    assert_eq!(pages.leave(1, 1), Ok(Changed { wakes: false }));
    assert_eq!(pages.fault(1, 1, Access::Write), Ok(Fault::Upgrade { has: Version(1) }));
    assert_eq!(pages.fault(1, 0, Access::Read), Ok(Fault::Map(Access::Read)), "the copy stays until it is answered");
    assert!(matches!(pages.fault(1, 2, Access::Write), Ok(Fault::Wait(_))));
    assert_eq!(pages.grant(1, 1, Version(2), Access::Write), Ok(Installed::Here(Changed { wakes: false })));
    assert_eq!(pages.fault(1, 2, Access::Write), Ok(Fault::Map(Access::Write)));
    assert_eq!(pages.look(2), PageWord::NEVER, "another page");
}

#[test]
fn a_page_that_is_being_mapped_is_not_taken() {
    let pages = page_in(State::Owned);
    assert_eq!(pages.fault(1, 0, Access::Write), Ok(Fault::Map(Access::Write)));
    assert_eq!(pages.take_owned(1, Version(4)), Ok(TakeOutcome::Elsewhere { floor: Version(4) }), "an older era");
    assert_eq!(pages.take_owned(1, Version(5)), Ok(TakeOutcome::Take));
    assert!(!pages.is_clear(1));
    assert!(matches!(pages.fault(1, 1, Access::Read), Ok(Fault::Wait(_))), "nobody enters any more");
    assert_eq!(pages.take_owned(1, Version(5)), Ok(TakeOutcome::Later));
    assert_eq!(pages.invalidate(1, Version(5)), Ok(Invalidated::Later));
    let seen = pages.look(1);
    assert!(pages.doze(1, seen).is_some());
    assert_eq!(pages.leave(1, 0), Ok(Changed { wakes: true }), "the node may be parked");
    assert!(pages.is_clear(1));
    assert_eq!(pages.keep_taken(1), Ok(Changed { wakes: false }));
    assert_eq!(pages.fault(1, 1, Access::Read), Ok(Fault::Map(Access::Read)));
    assert!(pages.leave(1, 1).is_ok());
    assert_eq!(pages.invalidate(1, Version(5)), Ok(Invalidated::Take));
    assert!(pages.is_clear(1) && pages.drop_taken(1, Version(5)).is_ok());
    assert_eq!(pages.fault(1, 1, Access::Read), Ok(Fault::Fetch { floor: Version(5), access: Access::Read }));
    assert_eq!(pages.take_owned(1, Version(5)), Ok(TakeOutcome::Elsewhere { floor: Version(5) }));
}

#[test]
// FEATURE: EU-F13
fn a_grant_that_an_invalidation_overtook_is_void() {
    let pages = pages();
    assert!(matches!(pages.fault(1, 0, Access::Read), Ok(Fault::Fetch { .. })));
    assert_eq!(pages.invalidate(1, Version(7)), Ok(Invalidated::Nothing));
    assert_eq!(pages.invalidate(1, Version(6)), Ok(Invalidated::Nothing), "an older one raises nothing");
    assert_eq!(pages.grant(1, 0, Version(7), Access::Read), Ok(Installed::Void));
    assert_eq!(pages.grant(1, 2, Version(8), Access::Read), Ok(Installed::Gone), "of another slot");
    assert_eq!(pages.grant(1, 0, Version(8), Access::Read), Ok(Installed::Here(Changed { wakes: false })));
}

#[test]
// FEATURE: EU-F13
fn what_is_being_filled_was_granted_and_is_nobody_else_s() {
    let pages = pages();
    assert!(matches!(pages.fault(1, 0, Access::Read), Ok(Fault::Fetch { .. })));
    assert_eq!(pages.invalidate(1, Version(6)), Ok(Invalidated::Nothing));
    assert_eq!(pages.fill(1, 0, Version(6), Access::Read), Ok(Fill::Void), "it was overtaken");
    assert_eq!(pages.fill(1, 1, Version(7), Access::Read), Ok(Fill::Gone), "of another slot");
    assert_eq!(pages.fill(1, 0, Version(7), Access::Write), Ok(Fill::Gone), "more than was asked for");
    assert_eq!(pages.fill(1, 0, Version(7), Access::Read), Ok(Fill::Go));
    assert_eq!(pages.fill(1, 0, Version(8), Access::Read), Ok(Fill::Gone), "another answer to the same claim");
    assert_eq!(pages.invalidate(1, Version(7)), Ok(Invalidated::Later));
    assert!(matches!(pages.fault(1, 1, Access::Read), Ok(Fault::Wait(_))));
    assert_eq!(pages.take_to_evict(1), Ok(None));
    assert_eq!(pages.fail(1, 0), Ok(None), "who does not wait any more leaves it to the filler");
    assert_eq!(pages.grant(1, 0, Version(7), Access::Read), Ok(Installed::Gone), "its bytes are not all there");
    assert_eq!(pages.filled(1, 1, Version(7)), Ok(Installed::Gone), "of another slot");
    assert_eq!(pages.filled(1, 0, Version(7)), Ok(Installed::Here(Changed { wakes: false })));
    assert_eq!(pages.invalidate(1, Version(7)), Ok(Invalidated::Take));
    assert!(pages.drop_taken(1, Version(7)).is_ok());

    assert!(matches!(pages.fault(1, 0, Access::Write), Ok(Fault::Fetch { .. })));
    assert_eq!(pages.fill(1, 0, Version(9), Access::Write), Ok(Fill::Go));
    assert_eq!(pages.invalidate(1, Version(7)), Ok(Invalidated::Nothing), "of before it was granted");
    assert!(pages.unfill(1, 1).is_err() && pages.unfill(1, 0).is_ok(), "its thread is dead");
    assert_eq!(pages.filled(1, 0, Version(9)), Ok(Installed::Gone), "nothing is in the frame");
    assert!(pages.unfill(1, 0).is_err() && pages.fail_fill(1, 0).is_err());
    assert_eq!(pages.fill(1, 0, Version(9), Access::Write), Ok(Fill::Go));
    assert!(pages.fail_fill(1, 0).is_ok(), "there was no memory for it");
    assert_eq!((pages.look(1).state(), pages.look(1).floor()), (Ok(State::Absent), Version(7)));

    let pages = page_in(State::Shared);
    assert!(matches!(pages.fault(1, 0, Access::Write), Ok(Fault::Upgrade { .. })));
    assert_eq!(pages.fill(1, 0, Version(6), Access::Write), Ok(Fill::Has));
    assert_eq!(pages.look(1).state(), Ok(State::Upgrading), "the copy stays what it is");
}

#[test]
fn an_upgrade_whose_copy_is_taken_fetches() {
    let pages = page_in(State::Shared);
    assert_eq!(pages.fault(1, 0, Access::Write), Ok(Fault::Upgrade { has: Version(5) }));
    assert_eq!(pages.invalidate(1, Version(4)), Ok(Invalidated::Nothing), "an older copy");
    assert_eq!(pages.invalidate(1, Version(5)), Ok(Invalidated::Take));
    assert!(pages.is_clear(1), "who waits for an answer does not map");
    assert!(pages.drop_taken(1, Version(5)).is_ok());
    assert_eq!(pages.look(1).state(), Ok(State::FetchingWrite));
    assert_eq!(pages.grant(1, 0, Version(6), Access::Read), Ok(Installed::Gone), "less than was asked for");
    assert_eq!(pages.grant(1, 0, Version(7), Access::Write), Ok(Installed::Here(Changed { wakes: false })));
    assert_eq!(pages.look(1).state(), Ok(State::Owned));
}

#[test]
fn who_reads_what_was_written_here_asks_to_write_until_the_guess_was_wrong() {
    let pages = page_in(State::Shared);
    assert_eq!(pages.fault(1, 0, Access::Write), Ok(Fault::Upgrade { has: Version(5) }));
    assert!(matches!(pages.grant(1, 0, Version(6), Access::Write), Ok(Installed::Here(_))));
    let take = |era: Version| {
        assert_eq!(pages.take_owned(1, era), Ok(TakeOutcome::Take));
        assert!(pages.drop_taken(1, era).is_ok());
    };
    take(Version(6));
    assert_eq!(pages.fault(1, 0, Access::Read), Ok(Fault::Fetch { floor: Version(6), access: Access::Read }), "once is no habit");
    assert!(matches!(pages.grant(1, 0, Version(7), Access::Read), Ok(Installed::Here(_))));
    assert_eq!(pages.fault(1, 0, Access::Write), Ok(Fault::Upgrade { has: Version(7) }));
    assert!(matches!(pages.grant(1, 0, Version(8), Access::Write), Ok(Installed::Here(_))));
    take(Version(8));
    // It was read and then written twice: both at once from now on.
    assert_eq!(pages.fault(1, 0, Access::Read), Ok(Fault::Fetch { floor: Version(8), access: Access::Write }));
    assert!(matches!(pages.grant(1, 0, Version(10), Access::Write), Ok(Installed::Here(_))));
    assert_eq!(pages.fault(1, 0, Access::Read), Ok(Fault::Map(Access::Read)));
    assert!(pages.leave(1, 0).is_ok() && !pages.look(1).is_written(), "nobody has stored yet");
    assert_eq!(pages.fault(1, 0, Access::Write), Ok(Fault::Map(Access::Write)));
    assert!(pages.leave(1, 0).is_ok() && pages.look(1).is_written());
    take(Version(10));
    assert_eq!(pages.fault(1, 0, Access::Read), Ok(Fault::Fetch { floor: Version(10), access: Access::Write }));
    assert!(matches!(pages.grant(1, 0, Version(12), Access::Write), Ok(Installed::Here(_))));
    // It was only read.
    take(Version(12));
    assert_eq!(pages.fault(1, 0, Access::Read), Ok(Fault::Fetch { floor: Version(12), access: Access::Read }));
}

#[test]
fn a_page_is_evicted() {
    let pages = page_in(State::Shared);
    assert_eq!(pages.fault(1, 0, Access::Read), Ok(Fault::Map(Access::Read)));
    assert!(pages.take_to_evict(1).unwrap().is_some() && !pages.is_clear(1));
    assert!(pages.leave(1, 0).is_ok(), "its installer is stopped, and goes on");
    let word = pages.look(1);
    assert!(pages.is_clear(1) && pages.drop_taken(1, word.floor()).is_ok());
    assert_eq!(
        pages.fault(1, 0, Access::Read),
        Ok(Fault::Fetch { floor: Version(4), access: Access::Read }),
        "the same version is good again"
    );
    assert_eq!(pages.take_to_evict(1), Ok(None));
    assert!(pages.fail(1, 0).is_ok());
    assert_eq!(pages.look(1).state(), Ok(State::Absent));
}

#[test]
fn nonsense_in_the_words_is_refused() {
    for value in [11, 0xf, u64::MAX] {
        let pages = pages();
        pages.words.store(pages.at(1), value);
        let corrupt = pages.fault(1, 0, Access::Read).is_err()
            && pages.grant(1, 0, Version(1), Access::Read).is_err()
            && pages.invalidate(1, Version(1)).is_err()
            && pages.take_owned(1, Version(1)).is_err()
            && pages.take_to_evict(1).is_err();
        assert!(corrupt && pages.leave(1, 0).is_err() && pages.fail(1, 0).is_err());
        assert!(pages.drop_taken(1, Version(1)).is_err() && pages.keep_taken(1).is_err());
        assert_eq!(pages.words.load(pages.at(1)), value, "nothing is done to it");
    }
    let pages = page_in(State::Owned);
    assert!(pages.leave(1, 0).is_err(), "nobody maps it");
    assert!(pages.invalidate(1, Version(5)).is_err(), "it is owned");
    for place in [u64::MAX, PAGES + 1, MAPS] {
        pages.words.store(pages.slot_at(2), place);
        assert_eq!(pages.end_slot(2), Ok(None));
    }
}

/// What a thread that claimed a page asks for.
fn asks(fault: Fault) -> Access {
    match fault {
        Fault::Fetch { access, .. } => access,
        _ => Access::Write,
    }
}

/// What a thread does at one fault, to its end, as long as its process lives.
fn fault_to_the_end(pages: &PageWords<Steps>, slot: u16, access: Access, mapped: &Cell<bool>) {
    for _ in 0..3 {
        match pages.fault(1, slot, access) {
            Ok(Fault::Map(_)) => {
                mapped.set(!pages.words.has_stopped());
                let _ = pages.leave(1, slot);
                return;
            }
            Ok(fault @ (Fault::Fetch { floor: before, .. } | Fault::Upgrade { has: before })) => {
                let access = asks(fault);
                let _ = match pages.fill(1, slot, before.next(), access) {
                    Ok(Fill::Go) => pages.filled(1, slot, before.next()),
                    _ => pages.grant(1, slot, before.next(), access),
                };
            }
            // A dead process does nothing more.
            _ if pages.words.has_stopped() => return,
            other => panic!("{other:?}"),
        }
    }
}

/// The node takes the page, whatever is there, and the page is free for others after.
fn take_all(node: &PageWords<Steps>) {
    let word = node.look(1);
    let is_taken = match word.state().unwrap() {
        State::Absent | State::Fetching | State::FetchingWrite | State::Filling | State::FillingWrite => return,
        State::Owned => node.take_owned(1, word.version()) == Ok(TakeOutcome::Take),
        _ => node.invalidate(1, word.version()) == Ok(Invalidated::Take),
    };
    assert!(is_taken && node.is_clear(1), "nobody who lives maps it: {:?}", node.look(1));
    assert!(node.drop_taken(1, word.version()).is_ok());
    assert_eq!(node.look(1).installers(), 0);
}

#[test]
fn a_thread_that_dies_at_any_step_of_a_fault_stops_nobody() {
    for state in [State::Absent, State::Shared, State::Owned] {
        for access in [Access::Read, Access::Write] {
            for dies_after in 0..14 {
                for dead_before_taking in [true, false] {
                    let pages = page_in(state);
                    let (client, node) = (other(&pages), other(&pages));
                    client.words.stop_after(dies_after);
                    let mapped = Cell::new(false);
                    fault_to_the_end(&client, 0, access, &mapped);
                    let is_dead = client.words.has_stopped();
                    let is_marked = !dead_before_taking && {
                        let word = node.look(1);
                        let mark = match word.state().unwrap() {
                            State::Owned => node.take_owned(1, word.version()) == Ok(TakeOutcome::Take),
                            State::Shared | State::Upgrading => node.invalidate(1, word.version()) == Ok(Invalidated::Take),
                            _ => false,
                        };
                        mark && (is_dead || node.is_clear(1))
                    };
                    // The node hears of the death, and goes on with what was asked for.
                    if let Some(page) = node.end_slot(0).unwrap()
                        && node.look(page).is_being_filled()
                    {
                        assert!(node.unfill(page, 0).is_ok());
                    }
                    if is_marked {
                        assert!(node.is_clear(1));
                        assert!(node.drop_taken(1, node.look(1).version()).is_ok());
                    }
                    let word = node.look(1);
                    if matches!(word.state().unwrap(), State::Fetching | State::FetchingWrite | State::Upgrading) {
                        assert_eq!(word.claimer(), 0, "in the name of the dead: {word:?}");
                        let granted = node.grant(1, 0, word.version().next(), access);
                        assert!(matches!(granted, Ok(Installed::Here(_))));
                    }
                    take_all(&node);
                    // Another thread gets the page, to write.
                    fault_to_the_end(&other(&pages), 1, Access::Write, &mapped);
                    assert!(mapped.get(), "{state:?} {access:?} {dies_after}");
                    take_all(&node);
                    assert_eq!(node.look(1).state(), Ok(State::Absent));
                }
            }
        }
    }
}

#[test]
fn a_claim_has_a_number_of_its_own_from_the_step_that_makes_it() {
    for state in [State::Absent, State::Shared] {
        let pages = page_in(state);
        // The slot's thread before asked for something, and its home remembers the number.
        assert!(matches!(pages.fault(2, 0, Access::Read), Ok(Fault::Fetch { .. })));
        let asked = pages.number(0);
        assert!(pages.fail(2, 0).is_ok());
        let client = other(&pages);
        for dies_after in 0..4 {
            client.words.stop_after(dies_after);
            let _ = client.fault(1, 0, Access::Write);
            if pages.end_slot(0).unwrap().is_some() {
                assert!(pages.number(0) > asked, "{state:?}, dead after {dies_after} writes");
                assert!(pages.fail(1, 0).is_ok());
                break;
            }
            assert!(dies_after < 3, "it never claimed");
        }
    }
}

#[test]
fn who_waits_for_an_answer_is_not_waited_for_where_the_dead_are_counted() {
    let pages = page_in(State::Shared);
    assert_eq!(pages.fault(1, 0, Access::Read), Ok(Fault::Map(Access::Read)));
    assert_eq!(pages.end_slot(0), Ok(None));
    assert_eq!(pages.look(1).installers(), 1, "it died while it was counted");
    assert_eq!(pages.fault(1, 1, Access::Write), Ok(Fault::Upgrade { has: Version(5) }));
    assert_eq!(pages.invalidate(1, Version(5)), Ok(Invalidated::Take));
    // Its answer may wait for this very invalidation.
    assert!(pages.is_clear(1));
}

#[test]
fn a_stopped_thread_holds_up_its_page_alone() {
    let pages = page_in(State::Owned);
    assert_eq!(pages.fault(1, 0, Access::Write), Ok(Fault::Map(Access::Write)));
    assert_eq!(pages.take_owned(1, Version(5)), Ok(TakeOutcome::Take));
    assert!(!pages.is_clear(1));
    assert!(matches!(pages.fault(2, 1, Access::Write), Ok(Fault::Fetch { .. })));
    assert!(matches!(pages.grant(2, 1, Version(9), Access::Write), Ok(Installed::Here(_))));
    assert_eq!(pages.fault(2, 1, Access::Write), Ok(Fault::Map(Access::Write)));
    assert!(!pages.is_clear(1), "it is still at it");
    assert!(pages.leave(1, 0).is_ok());
    assert!(pages.is_clear(1));
}

#[test]
fn two_threads_and_a_taker_in_real_memory() {
    let (pages, slots) = (2, 3);
    let mut memory = vec![0u64; page_words_len(pages, slots) as usize / WORD_LEN];
    // SAFETY: the memory outlives all threads, which use it through the window only.
    let window = unsafe { hanare_memory::Window::new(memory.as_mut_ptr().cast(), page_words_len(pages, slots) as usize) };
    let words = PageWords::new(Shared::new(window), pages, slots);
    let rounds = if cfg!(miri) { 20 } else { 20_000 };
    // Who maps the page at this moment; the taker must see nobody.
    let inside = std::sync::atomic::AtomicU64::new(0);
    let order = std::sync::atomic::Ordering::SeqCst;
    std::thread::scope(|scope| {
        let threads = [0, 1u16].map(|slot| {
            let (words, inside) = (words.clone(), &inside);
            scope.spawn(move || {
                for round in 0..rounds {
                    let access = if (round + u64::from(slot)) % 3 == 0 { Access::Write } else { Access::Read };
                    loop {
                        match words.fault(1, slot, access).unwrap() {
                            Fault::Map(_) => break,
                            fault @ (Fault::Fetch { floor: before, .. } | Fault::Upgrade { has: before }) => {
                                let access = asks(fault);
                                // While the copy is taken that is to be written, nothing is granted, and the claim stays.
                                if words.fill(1, slot, before.next(), access) == Ok(Fill::Go) {
                                    assert!(matches!(words.filled(1, slot, before.next()), Ok(Installed::Here(_))));
                                    continue;
                                }
                                while words.grant(1, slot, before.next(), access) == Ok(Installed::Gone) {
                                    std::thread::yield_now();
                                }
                            }
                            Fault::Wait(_) => std::thread::yield_now(),
                        }
                    }
                    inside.fetch_add(1, order);
                    inside.fetch_sub(1, order);
                    let _ = words.leave(1, slot).unwrap();
                }
            })
        });
        while threads.iter().any(|thread| !thread.is_finished()) {
            let word = words.look(1);
            let is_taken = match word.state().unwrap() {
                State::Owned => words.take_owned(1, word.version()) == Ok(TakeOutcome::Take),
                // It may have become owned since.
                State::Shared | State::Upgrading => words.invalidate(1, word.version()) == Ok(Invalidated::Take),
                _ => false,
            };
            if is_taken {
                while !words.is_clear(1) {
                    std::thread::yield_now();
                }
                assert_eq!(inside.load(order), 0, "somebody maps a page that is taken");
                let _ = words.drop_taken(1, words.look(1).version()).unwrap();
            }
            std::thread::yield_now();
        }
    });
}
