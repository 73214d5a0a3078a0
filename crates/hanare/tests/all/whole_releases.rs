//! A flush and a release of mapped memory with copies are whole: whoever dies within one, all of an extent's stores are there or none.

use crate::apart::Apart;
use crate::processes::{Dice, Process, end_with_the_test, say_ready};
use hanare::{Consistency, CreateOptions, Explicit, MapOptions, Placement, Pool, Strided};
use hanare_protocol::id::NodeId;
use hanare_protocol::limits::PAGE_LEN;
use std::time::Duration;

const PAGE_COUNT: u64 = 700;
const LEN: u64 = PAGE_COUNT * PAGE_LEN;
const PROGRAM: &str = "whole_releases::releases_until_it_is_killed";

fn create(pool: &Pool) {
    let options = CreateOptions { placement: Placement::Node(NodeId(1)), copies: 2, ..CreateOptions::default() };
    pool.create("a", LEN, &options).unwrap();
}

/// All bytes of a round: each word has its number.
fn page(round: u64) -> Vec<u8> {
    round.to_le_bytes().repeat(PAGE_LEN as usize / 8)
}

/// A program that stores a number to all words and releases that, again and again with the next number.
pub fn releases_until_it_is_killed() {
    let Ok(consistency) = std::env::var("TEST_CONSISTENCY") else { return };
    end_with_the_test();
    let pool = Pool::attach_to(&std::env::var("TEST_SOCKET").unwrap(), None).unwrap();
    let region = pool.open("a").unwrap();
    let before = image(&pool, "at its begin");
    // The test reads the first line alone.
    let say_once = |round: u64| {
        if round == before + 1 {
            say_ready("")
        }
    };
    let mut round = before;
    if consistency == "entry" {
        let mapping = region.map(Consistency::Entry).unwrap();
        loop {
            let mut lock = pool.lock("all").unwrap();
            lock.bind(&[mapping.bytes(Strided::contiguous(0, LEN)).unwrap()]).unwrap();
            round += 1;
            (0..PAGE_COUNT).for_each(|at| lock.write(&mapping, at * PAGE_LEN, &page(round)).unwrap());
            lock.unlock().unwrap();
            say_once(round);
        }
    }
    let mapping = Explicit::new(&region).unwrap();
    loop {
        round += 1;
        (0..PAGE_COUNT).for_each(|at| mapping.write(at * PAGE_LEN, &page(round)).unwrap());
        mapping.flush(0, LEN).unwrap();
        say_once(round);
    }
}

/// The round that all words of the region are of.
#[track_caller]
fn image(pool: &Pool, what: &str) -> u64 {
    let mut bytes = vec![0; LEN as usize];
    pool.open("a").unwrap().get(0, &mut bytes).unwrap();
    let words: Vec<u64> = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
    let other = words.iter().position(|word| *word != words[0]);
    assert_eq!(other.map(|at| (at / 512, words[at])), None, "{what}: a mixture with {}", words[0]);
    words[0]
}

/// Programs release again and again, and are killed at any moment.
fn programs_die(consistency: &str, lives: usize) {
    let pool = Apart::start(3);
    let program = pool.client(2);
    create(&program);
    let (mut dice, mut last) = (Dice::new(7), 0);
    for life in 0..lives {
        let variables = [("TEST_CONSISTENCY", consistency), ("TEST_SOCKET", pool.socket(0))];
        let (process, _) = Process::start(PROGRAM, &variables);
        std::thread::sleep(Duration::from_micros(dice.below(120_000)));
        process.kill();
        // What was answered is there, and the rest of the life whole or not at all.
        let round = image(&program, &format!("life {life}"));
        assert!(round > last, "life {life}: {round} after {last}");
        last = round;
    }
}

#[test]
fn a_program_that_dies_within_a_flush_leaves_the_image_of_a_release() {
    programs_die("explicit", 12);
}

#[test]
fn a_program_that_dies_while_it_gives_a_lock_back_leaves_the_image_of_a_release() {
    programs_die("entry", 6);
}

#[test]
fn a_program_and_a_home_that_die_together_leave_the_image_of_a_release() {
    for life in 0..3 {
        let mut pool = Apart::start(3);
        let program = pool.client(2);
        create(&program);
        let (process, _) = Process::start(PROGRAM, &[("TEST_CONSISTENCY", "explicit"), ("TEST_SOCKET", pool.socket(0))]);
        std::thread::sleep(Duration::from_millis(40 * life + 5));
        match life {
            // The program goes on for a moment at the next home.
            2 => {
                pool.kill(1);
                std::thread::sleep(Duration::from_millis(1200));
                process.kill();
            }
            1 => {
                pool.kill(1);
                process.kill();
            }
            _ => {
                process.kill();
                pool.kill(1);
            }
        }
        assert!(image(&program, &format!("life {life}")) > 0);
    }
}

#[test]
fn a_release_of_many_short_stores_and_of_more_than_a_home_keeps_for_it_is_there() {
    let pool = Apart::start(2);
    let program = pool.client(0);
    let options = CreateOptions { placement: Placement::Node(NodeId(1)), copies: 2, ..CreateOptions::default() };
    // Every other byte: each has a range of its own, and more memory than a home keeps for a release.
    let len = 10 << 20;
    let region = program.create("b", len, &options).unwrap();
    let mapping = Explicit::new(&region).unwrap();
    let bytes: Vec<u8> = (0..len).map(|at| u8::from(at % 2 == 0)).collect();
    mapping.write(0, &bytes).unwrap();
    mapping.flush(0, len).unwrap();
    let mut seen = vec![0; len as usize];
    pool.client(1).open("b").unwrap().get(0, &mut seen).unwrap();
    assert!(seen == bytes);
}

#[test]
fn pages_with_stores_do_not_make_room_before_their_flush() {
    let pool = Apart::start(2);
    let program = pool.client(0);
    create(&program);
    let options = MapOptions { frames_len: LEN / 8, ..MapOptions::new().unwrap() };
    let mapping = Explicit::with(&program.open("a").unwrap(), &options).unwrap();
    (0..PAGE_COUNT).for_each(|at| mapping.write(at * PAGE_LEN, &page(5)).unwrap());
    assert_eq!(image(&program, "before the flush"), 0);
    mapping.flush(0, LEN).unwrap();
    assert_eq!(image(&program, "after the flush"), 5);
}
