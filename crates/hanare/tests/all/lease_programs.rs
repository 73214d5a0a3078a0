//! Programs of chance that take locks which are lent and recalled, by seed, killed at random moments and others started in their place: one
//! program has a lock at a time, and who died with one in hand is told of, once.
//!
//! The oracle is a file that no part of the pool knows. It has a word for each lock, written by who has the lock, and one for each program,
//! which says what that is about to do. What a killed program wrote stays.

use crate::processes::{Dice, Nodes, Process, end_with_the_test, say_ready};
use crate::support;
use hanare::{Error, LockGuard, Pool, Region};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Duration;

/// The actor that is a program.
const PROGRAM: &str = "lease_programs::lease_program";
/// One at a name, and one at a byte of a region on each node.
const LOCKS: u64 = 3;
/// Programs at a time, and how many of each are killed.
const SLOTS: u64 = 3;
const LIVES: u64 = 5;
/// Bursts of a program that lives to its end. It takes one lock some times in each.
const BURSTS: u64 = 40;

/// What a program says that it is about to do with a lock, or was when it was killed.
const NOTHING: u64 = 0;
const TAKES: u64 = 1;
const HAS: u64 = 2;
const GIVES: u64 = 3;

/// The file of the oracle.
struct Words(File);

impl Words {
    fn open(path: &str) -> Words {
        Words(File::options().read(true).write(true).create(true).truncate(false).open(path).unwrap())
    }

    fn get(&self, at: u64) -> u64 {
        let mut word = [0; 8];
        // What nobody wrote yet is zero.
        self.0.read_at(&mut word, at * 8).unwrap();
        u64::from_le_bytes(word)
    }

    fn set(&self, at: u64, value: u64) {
        self.0.write_all_at(&value.to_le_bytes(), at * 8).unwrap();
    }

    /// Program `who` is about to do that with a lock.
    fn say(&self, who: u64, lock: u64, what: u64) {
        self.set(LOCKS + who, lock << 2 | what);
    }

    /// Whether a program was killed while it took a lock, or gave it back: nobody can say whether it had it.
    fn may_be_abandoned(&self, lock: u64) -> bool {
        let killed = (1..who_of(SLOTS, 0)).filter(|who| self.get(killed_at(*who)) == 1);
        killed.map(|who| self.get(LOCKS + who)).any(|says| [TAKES, GIVES].contains(&(says ^ lock << 2)))
    }
}

/// A program's number, from 1 on.
fn who_of(slot: u64, life: u64) -> u64 {
    1 + slot * LIVES + life
}

/// Where the test says that a program was killed.
fn killed_at(who: u64) -> u64 {
    LOCKS + who_of(SLOTS, 0) + who
}

/// A program has a lock: nobody else does, and it was told of who died with it.
fn use_lock(words: &Words, dice: &mut Dice, (who, lock): (u64, u64), was_abandoned: bool) {
    let before = words.get(lock);
    words.set(lock, who);
    words.say(who, lock, HAS);
    if before != 0 {
        assert!(was_abandoned, "lock {lock} was {before}'s, and {who} has it");
    } else if was_abandoned {
        assert!(words.may_be_abandoned(lock), "{who} is told that lock {lock} was abandoned, by nobody");
    }
    if dice.one_in(4) {
        std::thread::yield_now();
    }
    assert_eq!(words.get(lock), who, "two have lock {lock}");
    words.say(who, lock, GIVES);
    words.set(lock, 0);
}

/// Takes a lock, tries to, or waits a while.
fn take(pool: &Pool, regions: &[Region], dice: &mut Dice, lock: u64) -> Option<LockGuard> {
    let (how, bound) = (dice.below(8), Duration::from_millis(dice.below(3)));
    let late = |taken: Result<LockGuard, Error>| match taken {
        Ok(taken) => Some(taken),
        Err(Error::NotInTime { .. }) => None,
        Err(error) => panic!("{error}"),
    };
    let at = lock.checked_sub(1).map(|node| regions[node as usize].lock_at(8));
    match (at, how) {
        (Some(at), 0) => at.try_lock().unwrap(),
        (Some(at), 1) => late(at.lock_within(bound)),
        (Some(at), _) => Some(at.lock().unwrap()),
        (None, 0) => pool.try_lock(NAME).unwrap(),
        (None, 1) => late(pool.lock_within(NAME, bound)),
        (None, _) => Some(pool.lock(NAME).unwrap()),
    }
}

/// The lock at a name, and what the regions are called.
const NAME: &str = "lock";

fn region_of(node: u64) -> String {
    format!("region{node}")
}

fn regions_of(pool: &Pool) -> Vec<Region> {
    (0..LOCKS - 1).map(|node| pool.open(&region_of(node)).unwrap()).collect()
}

pub fn lease_program() {
    let Ok(text) = std::env::var("TEST_LEASES") else { return };
    end_with_the_test();
    let [seed, who]: [u64; 2] = std::array::from_fn(|at| text.split(' ').nth(at).unwrap().parse().unwrap());
    let (words, mut dice) = (Words::open(&std::env::var("TEST_WORDS").unwrap()), Dice::new(seed << 8 | who));
    let pool = Pool::attach_to(&std::env::var("TEST_SOCKET").unwrap(), None).unwrap();
    let regions = regions_of(&pool);
    say_ready("");
    for _ in 0..BURSTS {
        let lock = dice.below(LOCKS);
        for _ in 0..1 + dice.below(20) {
            words.say(who, lock, TAKES);
            if let Some(taken) = take(&pool, &regions, &mut dice, lock) {
                use_lock(&words, &mut dice, (who, lock), taken.was_abandoned());
                taken.unlock().unwrap();
            }
            words.say(who, 0, NOTHING);
        }
    }
    drop((regions, pool));
    // The test does not read on, so nothing more may be printed.
    std::process::exit(0);
}

/// Starts the programs of a slot one after another, each when the one before was killed; the last lives to its end.
fn keep(nodes: &Nodes, path: &str, (seed, slot): (u64, u64)) {
    let (words, mut dice) = (Words::open(path), Dice::new(seed << 16 | slot));
    for life in 0..LIVES {
        let who = who_of(slot, life);
        let socket = &nodes.sockets[slot as usize % nodes.sockets.len()];
        let number = format!("{seed} {who}");
        let (program, _) = Process::start(PROGRAM, &[("TEST_LEASES", &*number), ("TEST_WORDS", path), ("TEST_SOCKET", socket)]);
        if life + 1 == LIVES {
            program.join(Duration::from_secs(90), &format!("seed {seed}, program {who}"));
            continue;
        }
        std::thread::sleep(Duration::from_micros(dice.below(30_000)));
        // It may have ended by itself; what it said then is nothing.
        words.set(killed_at(who), 1);
        program.kill();
    }
}

#[test]
fn one_has_a_lock_at_a_time_and_the_next_is_told_of_who_died_with_it() {
    for seed in 0..4 {
        let folder = tempfile::tempdir().unwrap();
        let (nodes, path) = (Nodes::start(2, None), folder.path().join("words"));
        let path = path.to_str().unwrap();
        let pool = Pool::attach_to(&nodes.sockets[0], None).unwrap();
        (0..LOCKS - 1).for_each(|node| drop(pool.create(&region_of(node), 4096, &support::on(node as u32)).unwrap()));
        std::thread::scope(|scope| {
            for slot in 0..SLOTS {
                let nodes = &nodes;
                scope.spawn(move || keep(nodes, path, (seed, slot)));
            }
        });
        let (words, regions) = (Words::open(path), regions_of(&pool));
        for lock in 0..LOCKS {
            let taken = match lock.checked_sub(1) {
                Some(node) => regions[node as usize].lock_at(8).lock().unwrap(),
                None => pool.lock(NAME).unwrap(),
            };
            assert!(words.get(lock) == 0 || taken.was_abandoned(), "seed {seed}: nobody is told that lock {lock} was abandoned");
        }
    }
}
