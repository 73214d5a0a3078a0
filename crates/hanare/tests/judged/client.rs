//! A program of many threads that use a few words of a region with copies, and write down each call.

use super::history::{Call, End, Notes};
use crate::processes::{Dice, end_with_the_test};
use hanare::{Element, Operator, Pool, Region, Strided};
use std::io::BufRead;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Words of a round, each in another extent.
pub const WORDS: u64 = 4;
/// Bytes of an extent's part of the region; the words of all rounds lie side by side in it.
pub const CHUNK: u64 = 64 << 10;
/// Rounds of a region.
pub const ROUNDS: u64 = CHUNK / 8;

/// To a client's process.
pub const SOCKET: &str = "JUDGED_SOCKET";
pub const FOLDER: &str = "JUDGED_FOLDER";
/// `NODE.LIFE`: names its files, and what it puts.
pub const NAME: &str = "JUDGED_NAME";
pub const SEED: &str = "JUDGED_SEED";
pub const THREADS: &str = "JUDGED_THREADS";
/// The round that goes on when it starts.
pub const ROUND: &str = "JUDGED_ROUND";

/// The region of all words.
pub const REGION: &str = "words";

/// Where a word is.
fn offset(word: u64) -> u64 {
    word % WORDS * CHUNK + word / WORDS * 8
}

/// What the threads of a program have in common.
struct Common {
    round: AtomicU64,
    is_over: AtomicBool,
}

/// One thread's use of words.
struct User<'c> {
    common: &'c Common,
    region: Region,
    notes: Notes,
    dice: Dice,
    /// The number of its next put, which no other has.
    next: u64,
    /// The word of its last call, where that failed.
    failed: Option<u64>,
    /// The last words that it saw of this round.
    round: u64,
    seen: [u64; WORDS as usize],
}

impl User<'_> {
    /// Calls one after another, with short pauses, until the program is to end; a thread of a quiet kind sleeps between a few of them.
    fn use_words(mut self, is_quiet: bool) {
        while !self.common.is_over.load(Ordering::Relaxed) {
            if is_quiet {
                self.sleep(self.dice.clone().below(4_000));
                (0..3).for_each(|_| self.call());
            } else {
                self.sleep(1 + self.dice.clone().below(8));
            }
            self.call();
        }
    }

    fn sleep(&mut self, ms: u64) {
        self.dice.next();
        std::thread::sleep(Duration::from_millis(ms));
    }

    fn call(&mut self) {
        let round = self.common.round.load(Ordering::Relaxed);
        if round != self.round {
            (self.round, self.seen) = (round, [0; WORDS as usize]);
        }
        let at = self.failed.unwrap_or_else(|| self.dice.below(WORDS));
        let (word, seen) = (round * WORDS + at, self.seen[at as usize]);
        self.next += 1;
        let call = match self.dice.below(20) {
            // Until a get is answered there it only asks: each write could leave another call open, and the judge tries all of them.
            _ if self.failed.is_some() => Call::Get,
            0..=7 => Call::Get,
            8 => Call::Fetch,
            9..=12 => Call::Put(self.next),
            13..=16 => Call::Add(1 + self.dice.below(1000)),
            _ => Call::Swap { expected: seen, new: self.next },
        };
        self.notes.begin(word, call);
        let end = match make(&self.region, offset(word), call) {
            Ok(told) => End::Done(told),
            Err(error) => End::Failed(error.happened(), error.to_string()),
        };
        self.notes.end(&end);
        self.failed = matches!(end, End::Failed(..)).then_some(at);
        match end {
            End::Done(told) => {
                self.seen[at as usize] = match (call, told) {
                    (Call::Put(new), _) => new,
                    (Call::Add(more), Some(old)) => old.wrapping_add(more),
                    (Call::Swap { expected, new }, Some(old)) if old == expected => new,
                    (_, told) => told.unwrap_or(seen),
                };
            }
            End::Failed(..) => self.sleep(50),
        }
    }
}

fn make(region: &Region, offset: u64, call: Call) -> hanare::Result<Option<u64>> {
    match call {
        Call::Get => {
            let mut word = [0; 8];
            region.get(offset, &mut word)?;
            Ok(Some(u64::from_le_bytes(word)))
        }
        Call::Fetch => region.read_word(offset).map(Some),
        Call::Put(value) => region.put(offset, &value.to_le_bytes()).map(|()| None),
        Call::Add(value) => region.fetch_word(offset, Operator::Add, value).map(Some),
        Call::Swap { expected, new } => {
            let mut old = [0; 8];
            let (expected, new) = (expected.to_le_bytes(), new.to_le_bytes());
            region.compare_and_swap(Strided::contiguous(offset, 8), Element::U64, &expected, &new, &mut old)?;
            Ok(Some(u64::from_le_bytes(old)))
        }
    }
}

/// A program that starts while nodes are away tries again.
fn till_it_works<T>(mut with: impl FnMut() -> hanare::Result<T>) -> T {
    loop {
        match with() {
            Ok(done) => return done,
            Err(_) => std::thread::sleep(Duration::from_millis(100)),
        }
    }
}

pub fn process() {
    let variable = |name: &str| std::env::var(name).ok();
    let (Some(socket), Some(name)) = (variable(SOCKET), variable(NAME)) else { return };
    end_with_the_test();
    let number = |name: &str| variable(name).unwrap().parse::<u64>().unwrap();
    let (folder, seed, threads) = (variable(FOLDER).unwrap(), number(SEED), number(THREADS));
    let pool = till_it_works(|| Pool::attach_to(&socket, None));
    let common = Common { round: AtomicU64::new(number(ROUND)), is_over: AtomicBool::new(false) };
    let (node, life) = name.split_once('.').unwrap();
    let whose = node.parse::<u64>().unwrap() << 16 | life.parse::<u64>().unwrap() << 8;
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (region, notes) =
                (till_it_works(|| pool.open(REGION)), Notes::create(Path::new(&folder), &format!("{name}.{thread}")));
            let whose = whose | thread;
            let dice = Dice::new(seed << 24 | whose);
            let user = User {
                common: &common,
                region,
                notes,
                dice,
                next: whose << 32,
                failed: None,
                round: 0,
                seen: [0; WORDS as usize],
            };
            // Every third is of a quiet kind: it does not hear of a lost home before it calls again.
            scope.spawn(move || user.use_words(thread % 3 == 2));
        }
        for order in std::io::stdin().lock().lines() {
            match order.unwrap().split_once(' ') {
                Some(("round", round)) => common.round.store(round.parse().unwrap(), Ordering::Relaxed),
                _ => break,
            }
        }
        common.is_over.store(true, Ordering::Relaxed);
    });
    std::process::exit(0);
}
