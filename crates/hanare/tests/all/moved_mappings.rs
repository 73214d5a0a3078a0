//! Mappings of regions without copies go on where the region moves to another node, or gets copies.

use crate::apart::{Apart, until};
use crate::copied_mappings::{LEN, has_all, rounds, turns};
use crate::copies::{copied, drained};
use crate::support::Ends;
use hanare::{Changes, Consistency, CreateOptions, DrainWish, Error, Explicit, MapOptions, Part, Placement, Pool, SharedMapping};
use hanare_protocol::id::NodeId;
use hanare_protocol::limits::PAGE_LEN;
use hanare_protocol::wire::control::WhyStays;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

/// The node that has the region.
fn home(program: &Pool) -> NodeId {
    program.stat("a").unwrap().nodes[0].0
}

fn is_plain(program: &Pool) -> bool {
    program.open("a").is_ok_and(|region| region.copies() == 1)
}

/// Moves the region to a node.
fn move_to(program: &Pool, to: u32) {
    let from = home(program);
    program.drain(from, &DrainWish::Begin { to: BTreeSet::from([NodeId(to)]) }).unwrap();
    until("it has moved", || program.drain(from, &DrainWish::Look).unwrap().left == 0);
    program.drain(from, &DrainWish::Stop).unwrap();
}

fn copies(program: &Pool, copies: u8) {
    program.alter("a", &Changes { copies: Some(copies), ..Changes::default() }).unwrap();
    match copies {
        1 => until("it has no copies", || is_plain(program)),
        _ => until("it has its copies", || program.stat("a").is_ok_and(|stat| stat.whole_copies == copies)),
    }
}

fn map(program: &Pool, consistency: Consistency) -> SharedMapping {
    program.open("a").unwrap().map(consistency).unwrap()
}

#[test]
fn flushes_and_updates_go_on_while_the_region_moves_from_node_to_node() {
    let pool = Apart::start(4);
    let (writer, reader, mover) = (pool.client(0), pool.client(2), pool.client(0));
    writer.create("a", LEN, &copied(1, 1)).unwrap();
    let (own, other) = (map(&writer, Consistency::Explicit), map(&reader, Consistency::Explicit));
    let last = rounds(&own, &other, |goes_on| {
        goes_on();
        // Away, to the host of one of the programs, and back.
        for to in [3, 2, 1] {
            move_to(&mover, to);
            goes_on();
        }
        until("it is plain again", || is_plain(&mover));
        goes_on();
        move_to(&mover, 3);
        goes_on();
    });
    assert_eq!(home(&mover), NodeId(3));
    has_all(&mover, last);
    own.unmap().unwrap();
    other.unmap().unwrap();
}

#[test]
fn pages_leave_few_frames_while_their_extents_move_and_get_copies() {
    let mut pool = Apart::start(4);
    let (writer, reader, mover) = (pool.client(0), pool.client(0), pool.client(0));
    let spread = CreateOptions { placement: Placement::Interleave(65536), ..CreateOptions::default() };
    writer.create("a", LEN, &spread).unwrap();
    // An eighth of the pages has frames.
    let options = MapOptions { frames_len: LEN / 8, lanes: 2, ..MapOptions::new().unwrap() };
    // No page is this host's, which would be mapped as it is.
    let others = BTreeSet::from([NodeId(1), NodeId(2), NodeId(3)]);
    mover.drain(NodeId(0), &DrainWish::Begin { to: others }).unwrap();
    until("this host has none of it", || mover.drain(NodeId(0), &DrainWish::Look).unwrap().left == 0);
    mover.drain(NodeId(0), &DrainWish::Stop).unwrap();
    until("it is plain again", || is_plain(&mover));
    let map = |program: &Pool| Explicit::with(&program.open("a").unwrap(), &options).unwrap();
    let (own, other) = (map(&writer), map(&reader));
    let last = rounds(&own, &other, |goes_on| {
        goes_on();
        drained(&mover, 2);
        goes_on();
        mover.drain(NodeId(2), &DrainWish::Stop).unwrap();
        copies(&mover, 2);
        goes_on();
        pool.kill(3);
        goes_on();
    });
    has_all(&mover, last);
}

#[test]
fn what_is_bound_to_a_lock_moves_with_its_region() {
    for from in [1, 0] {
        // At node 0, which has the lock, stores go along with the release until the region moves.
        let pool = Apart::start(3);
        let (one, other, mover) = (pool.client(0), pool.client(2), pool.client(0));
        one.create("a", LEN, &copied(from, 1)).unwrap();
        turns(&one, &other, |goes_on| {
            goes_on();
            move_to(&mover, 2);
            goes_on();
            copies(&mover, 2);
            goes_on();
            copies(&mover, 1);
            goes_on();
        });
    }
}

#[test]
fn what_barriers_carry_is_kept_where_the_region_moves_while_other_threads_flush() {
    // A move has one arrival refused, or two.
    (0..4).for_each(|_| barriers_through_moves());
}

fn barriers_through_moves() {
    const WORDS: u64 = 64;
    let pool = Apart::start(3);
    let (far, other, mover) = (pool.client(1), pool.client(2), pool.client(0));
    // At node 0, which has the groups, too.
    far.create("a", LEN, &copied(0, 1)).unwrap();
    let mappings = [map(&far, Consistency::Explicit), map(&other, Consistency::Explicit)];
    let (rounds, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    let put = |mapping: &SharedMapping, offset: u64, round: u64| mapping.write(offset, &round.to_le_bytes()).unwrap();
    let meet = |k: usize, program: &Pool| {
        let (mapping, group) = (&mappings[k], program.group("both", 2).unwrap());
        let mut round = 0;
        loop {
            round += 1;
            // The words of a program are its own; another page says whether it is the last round.
            let own = |word: u64| (k as u64 * WORDS + word) * 8;
            let theirs = |word: u64| ((1 - k as u64) * WORDS + word) * 8;
            (0..WORDS).for_each(|word| put(mapping, own(word), round));
            if k == 0 && is_over.load(SeqCst) {
                put(mapping, PAGE_LEN, 1);
            }
            let page = Part { mapping, offset: 0, len: 2 * PAGE_LEN };
            group.barrier_with(&[page], &[page]).unwrap();
            let read = |offset: u64| {
                let mut bytes = [0; 8];
                mapping.read(offset, &mut bytes).unwrap();
                u64::from_le_bytes(bytes)
            };
            (0..WORDS).for_each(|word| assert_eq!(read(theirs(word)), round, "word {word} of {}", 1 - k));
            let is_last = read(PAGE_LEN) == 1;
            // Nobody stores the next round before both have looked.
            group.barrier_with(&[], &[]).unwrap();
            rounds.store(round, SeqCst);
            if is_last {
                return round;
            }
        }
    };
    std::thread::scope(|scope| {
        let end = Ends(&is_over);
        let both = [scope.spawn(|| meet(0, &far)), scope.spawn(|| meet(1, &other))];
        let flushes = scope.spawn(|| {
            while !is_over.load(SeqCst) {
                mappings.iter().for_each(|mapping| mapping.flush(0, LEN).unwrap());
                std::thread::yield_now();
            }
        });
        let goes_on = || {
            let from = rounds.load(SeqCst);
            let has_gone_on = || rounds.load(SeqCst) > from + 20 || both.iter().any(|thread| thread.is_finished());
            until("barriers go on", has_gone_on);
        };
        goes_on();
        move_to(&mover, 1);
        goes_on();
        copies(&mover, 2);
        goes_on();
        drop(end);
        let ended = both.map(|thread| thread.join().unwrap());
        flushes.join().unwrap();
        let mut bytes = vec![0; 16 * WORDS as usize];
        mover.open("a").unwrap().get(0, &mut bytes).unwrap();
        assert!(bytes.chunks(8).all(|word| u64::from_le_bytes(word.try_into().unwrap()) == ended[0]));
    });
}

#[test]
fn flushed_stores_outlive_the_home_once_the_region_has_got_copies() {
    let mut pool = Apart::start(3);
    let (writer, reader, mover) = (pool.client(0), pool.client(2), pool.client(0));
    writer.create("a", LEN, &copied(1, 1)).unwrap();
    let (own, other) = (map(&writer, Consistency::Explicit), map(&reader, Consistency::Explicit));
    let last = rounds(&own, &other, |goes_on| {
        goes_on();
        copies(&mover, 2);
        goes_on();
        pool.kill(1);
        goes_on();
    });
    has_all(&mover, last);
}

#[test]
fn a_mapping_that_was_idle_finds_its_pages_when_their_former_node_is_gone() {
    const FAR: u64 = 300 * PAGE_LEN;
    let mut pool = Apart::start(3);
    let (program, near, mover) = (pool.client(0), pool.client(0), pool.client(0));
    let region = program.create("a", LEN, &copied(1, 1)).unwrap();
    region.put(0, &[1; PAGE_LEN as usize]).unwrap();
    let mapping = map(&program, Consistency::Explicit);
    let mut bytes = [0; 4];
    mapping.read(0, &mut bytes).unwrap();
    mapping.write(8, b"kept").unwrap();
    move_to(&mover, 2);
    until("it is plain again", || is_plain(&mover));
    // A program of the same host maps it where it is today, beside the one that knows nothing of the move.
    let later = map(&near, Consistency::Explicit);
    later.write(FAR, b"later").unwrap();
    later.flush(0, LEN).unwrap();
    pool.kill(1);
    let mut bytes = [0; 5];
    // A page that was not here: the thread that touches it finds it.
    // SAFETY: a byte of the mapping.
    assert_eq!(unsafe { mapping.ptr().add(FAR as usize).read_volatile() }, b'l');
    mapping.read(FAR, &mut bytes).unwrap();
    assert_eq!(&bytes, b"later");
    mapping.flush(0, LEN).unwrap();
    region.get(8, &mut bytes[..4]).unwrap();
    assert_eq!(&bytes[..4], b"kept");
    region.put(FAR, b"again").unwrap();
    mapping.update(0, LEN).unwrap();
    mapping.read(FAR, &mut bytes).unwrap();
    assert_eq!(&bytes, b"again");
    later.unmap().unwrap();
    mapping.unmap().unwrap();
    // Nobody maps it: it is mapped in another way, where the kernel can.
    match near.open("a").unwrap().map(Consistency::Coherent) {
        Err(Error::System { .. }) => {}
        coherent => {
            coherent.unwrap().read(FAR, &mut bytes).unwrap();
            assert_eq!(&bytes, b"again");
        }
    }
}

#[test]
fn a_mapping_that_was_idle_finds_its_pages_when_their_former_node_stands_still() {
    let pool = Apart::start(3);
    let (program, mover) = (pool.client(0), pool.client(0));
    let region = program.create("a", LEN, &copied(1, 1)).unwrap();
    region.put(0, &[1; LEN as usize]).unwrap();
    let mapping = map(&program, Consistency::Explicit);
    let mut byte = [0];
    mapping.read(0, &mut byte).unwrap();
    move_to(&mover, 2);
    pool.stop(1);
    // The former node does not even say that it knows nothing of the page.
    // SAFETY: a byte of the mapping.
    assert_eq!(unsafe { mapping.ptr().add(LEN as usize / 2).read_volatile() }, 1);
    mapping.write(5, &[2]).unwrap();
    mapping.flush(0, LEN).unwrap();
    mover.open("a").unwrap().get(5, &mut byte).unwrap();
    assert_eq!(byte, [2]);
    pool.go_on(1);
}

#[test]
fn faults_on_a_region_that_moves_wait_and_are_not_lost() {
    let pool = Apart::start(3);
    let (program, mover) = (pool.client(0), pool.client(0));
    let region = program.create("a", LEN, &copied(1, 1)).unwrap();
    let bytes: Vec<u8> = (0..LEN).map(|at| (at / PAGE_LEN) as u8 | 1).collect();
    region.put(0, &bytes).unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let end = Ends(&is_over);
        let threads: Vec<_> = (0..3)
            .map(|k| {
                let (program, is_over) = (&program, &is_over);
                scope.spawn(move || {
                    let mut count = 0u64;
                    while !is_over.load(SeqCst) {
                        let options = MapOptions { lanes: 2, ..MapOptions::new().unwrap() };
                        let mapping = Explicit::with(&program.open("a").unwrap(), &options).unwrap();
                        for page in (k..LEN / PAGE_LEN).step_by(7) {
                            // SAFETY: a byte of the mapping.
                            let byte = unsafe { mapping.ptr().add((page * PAGE_LEN) as usize).read_volatile() };
                            assert_eq!(byte, page as u8 | 1, "page {page}");
                            count += 1;
                        }
                    }
                    count
                })
            })
            .collect();
        for to in [2, 1, 2, 1] {
            move_to(&mover, to);
        }
        drop(end);
        assert!(threads.into_iter().all(|thread| thread.join().unwrap() > 0));
    });
}

#[test]
fn programs_that_do_not_follow_keep_the_region_in_its_place() {
    // The program of this build speaks the version of its node, which is of the release before.
    let mut pool = Apart::start_kept_on(None, 3, true);
    pool.kill(1);
    pool.upgrade(1);
    let (old, mover) = (pool.client(2), pool.client(0));
    until("the upgraded node is back", || old.create("a", LEN, &copied(1, 1)).is_ok());
    let mapping = map(&old, Consistency::Explicit);
    mapping.write(0, b"old").unwrap();
    mapping.flush(0, LEN).unwrap();
    mover.drain(NodeId(1), &DrainWish::Begin { to: BTreeSet::new() }).unwrap();
    let is_told = |why: &WhyStays| matches!(why, WhyStays::NotReady(why) if why.contains("cannot follow"));
    until("the reason is told", || {
        mover.drain(NodeId(1), &DrainWish::Look).unwrap().stays.iter().any(|region| is_told(&region.why))
    });
    mapping.write(0, b"was").unwrap();
    mapping.flush(0, LEN).unwrap();
    drop(mapping);
    until("the node holds nothing", || mover.drain(NodeId(1), &DrainWish::Look).unwrap().left == 0);
    let mut bytes = [0; 3];
    mover.open("a").unwrap().get(0, &mut bytes).unwrap();
    assert_eq!(&bytes, b"was");
}

#[test]
fn a_mapping_goes_on_beside_one_with_pointers_that_keeps_the_region() {
    let pool = Apart::start(3);
    let (near, far, mover) = (pool.client(1), pool.client(0), pool.client(0));
    let spread = CreateOptions { placement: Placement::Interleave(PAGE_LEN * 8), ..CreateOptions::default() };
    far.create("a", LEN, &spread).unwrap();
    let pinned = map(&near, Consistency::Explicit);
    let reader = pool.client(0);
    let (own, other) = (map(&far, Consistency::Explicit), map(&reader, Consistency::Explicit));
    let last = rounds(&own, &other, |goes_on| {
        mover.drain(NodeId(2), &DrainWish::Begin { to: BTreeSet::new() }).unwrap();
        let is_told = |why: &WhyStays| matches!(why, WhyStays::NotReady(why) if why.contains("have pointers to its memory"));
        // Two tries, each with other grants.
        for _ in 0..2 {
            until("the reason is told", || {
                mover.drain(NodeId(2), &DrainWish::Look).unwrap().stays.iter().any(|region| is_told(&region.why))
            });
            goes_on();
            std::thread::sleep(std::time::Duration::from_millis(3500));
            goes_on();
        }
    });
    has_all(&mover, last);
    drop(pinned);
}
