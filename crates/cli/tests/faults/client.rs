//! The process that runs one kind of command over and over, and says what came of each round, one line each.
//!
//! ```text
//! ready | begin ROUND | ok ROUND MICROSECONDS | err ROUND MICROSECONDS HAPPENED VARIANT message | wrong ROUND what | end
//! ```

use super::kind::{Kind, PATTERN_WORDS, Part, bytes, copy_source, elements, filled, indices, spread, spread_words, word, words};
use super::ledger::Ledger;
use hanare::{Element, Error, Happened, Modify, Operator, Pool, Range, Region, Strided, Summary, Value};
use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Where the driver puts the task: the node's socket, and the kind.
pub const TASK: &str = "FAULT_CLIENT";

/// Begins its lines; others are the test harness's.
pub const MARK: &str = "client: ";

const ADD: Modify = Modify { operator: Operator::Add, element: Element::U64 };

/// Does the task until standard input ends.
pub fn run(task: &str) {
    let (socket, kind) = task.split_once(' ').unwrap();
    let pool = Pool::attach_to(socket, None).unwrap();
    let mut work = Work::open(pool, kind.parse().unwrap());
    let stop = Arc::new(AtomicBool::new(false));
    let told = stop.clone();
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        told.store(true, Ordering::SeqCst);
    });
    // The test harness has written half a line.
    println!();
    say("ready");
    for round in 1.. {
        if stop.load(Ordering::SeqCst) {
            break;
        }
        work.prepare(round);
        say(&format!("begin {round}"));
        let begun = Instant::now();
        let outcome = work.act(round);
        let us = begun.elapsed().as_micros();
        match outcome {
            Ok(()) => {
                say(&format!("ok {round} {us}"));
                if let Err(what) = work.verify() {
                    say(&format!("wrong {round} {what}"));
                }
                work.ledger.note(round, Happened::Yes);
            }
            Err(error) => {
                let happened = error.happened();
                let debugged = format!("{error:?}");
                let variant = debugged.split([' ', '{', '(']).next().unwrap();
                say(&format!("err {round} {us} {happened:?} {variant} {error}"));
                work.failed(happened);
                work.ledger.note(round, happened);
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
    say("end");
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    if writeln!(out, "{MARK}{line}").and_then(|()| out.flush()).is_err() {
        // The driver has failed.
        std::process::exit(1);
    }
}

struct Work {
    kind: Kind,
    pool: Pool,
    region: Region,
    from: Option<Region>,
    words: u64,
    indices: Vec<u32>,
    ledger: Ledger,
    /// What a command brings.
    operand: Vec<u8>,
    /// What it gives.
    result: Vec<u8>,
    told: Told,
    /// What a batch compares with.
    still: Vec<u8>,
    /// The words before a compare-and-swap, as far as they are known.
    current: Vec<u64>,
}

/// What comparisons and reductions tell.
#[derive(Default)]
struct Told {
    difference: Option<u64>,
    summary: Option<Summary>,
}

impl Work {
    fn open(pool: Pool, kind: Kind) -> Work {
        let (name, from) = kind.names();
        let region = pool.open(&name).unwrap();
        let from = kind.copies().then(|| pool.open(&from).unwrap());
        let words = region.len() / 8;
        let (mut operand, mut result) = (Vec::new(), Vec::new());
        match kind {
            Kind::Get => result = vec![0; region.len() as usize],
            Kind::GetStrided => result = vec![0; words as usize / 5 * 16],
            Kind::Gather => result = vec![0; words as usize * 2],
            Kind::Fetch | Kind::Swap => result = vec![0; region.len() as usize],
            Kind::Compare => {
                operand = bytes((0..words).map(|i| word(0, i)));
                let len = operand.len();
                operand[len - 8] ^= 1;
            }
            _ => {}
        }
        let eighth = words / Part::COUNT;
        let still = bytes((6 * eighth..7 * eighth).map(|i| word(0, i)));
        let current = if kind == Kind::Swap { vec![0; words as usize] } else { Vec::new() };
        let (indices, ledger, told) = (indices(words), Ledger::default(), Told::default());
        Work { kind, pool, region, from, words, indices, ledger, operand, result, told, still, current }
    }

    /// Makes what the round brings.
    fn prepare(&mut self, round: u64) {
        let words = self.words;
        match self.kind {
            Kind::Put => self.operand = bytes((0..words).map(|i| word(round, i))),
            Kind::PutStrided => self.operand = bytes(spread_words(words, 2).map(|i| word(round, i))),
            Kind::Scatter => self.operand = bytes(self.indices.iter().map(|i| word(round, u64::from(*i)))),
            Kind::Fill => self.operand = bytes((0..PATTERN_WORDS).map(|i| filled(round, i))),
            // One operand for all is applied when the message is there, one for each as they come.
            Kind::Update | Kind::Fetch => {
                self.operand = bytes(std::iter::repeat_n(1, if round.is_multiple_of(2) { 1 } else { words as usize }))
            }
            Kind::Swap => self.operand = bytes(self.current.iter().map(|word| word + 1)),
            Kind::Batch => {
                let eighth = words / Part::COUNT;
                let put = (0..eighth).map(|i| word(round, i));
                let fill = (0..PATTERN_WORDS).map(|i| filled(round, i));
                let strided = spread_words(eighth, 2).map(|i| word(round, 5 * eighth + i));
                self.operand = bytes(put.chain(fill).chain([1]).chain(strided));
                self.result = vec![0; eighth as usize * 8];
                self.told = Told::default();
            }
            _ => {}
        }
    }

    /// The command itself.
    fn act(&mut self, round: u64) -> Result<(), Error> {
        let (region, words) = (&self.region, self.words);
        let whole = Strided::contiguous(0, words * 8);
        match self.kind {
            Kind::Get => region.get(0, &mut self.result),
            Kind::Put => region.put(0, &self.operand),
            Kind::GetStrided => region.get_strided(spread(0, words, 2), &mut self.result),
            Kind::PutStrided => region.put_strided(spread(0, words, 2), &self.operand),
            Kind::Gather => region.get_shape(elements(&self.indices), &mut self.result),
            Kind::Scatter => region.put_shape(elements(&self.indices), &self.operand),
            Kind::Copy => self.pool.copy(self.from(), copy_source(round, 0, words), region, whole),
            Kind::CopyStrided => self.pool.copy(self.from(), copy_source(round, 0, words / 5 * 3), region, spread(0, words, 3)),
            Kind::Fill => region.fill(whole, &self.operand),
            Kind::Compare => region.compare(whole, &self.operand).map(|found| self.told.difference = found),
            Kind::Reduce => {
                let summary = region.reduce(whole, Element::U64, Range::all(Element::U64))?;
                self.told.summary = Some(summary);
                Ok(())
            }
            Kind::Update => region.update(whole, ADD, &self.operand),
            Kind::Fetch => region.fetch(whole, ADD, &self.operand, &mut self.result),
            Kind::Swap => {
                let expected = bytes(self.current.iter().copied());
                region.compare_and_swap(whole, Element::U64, &expected, &self.operand, &mut self.result)
            }
            Kind::Batch => self.act_batch(round),
        }
    }

    fn act_batch(&mut self, round: u64) -> Result<(), Error> {
        let eighth = self.words / Part::COUNT;
        let len = eighth as usize * 8;
        let at = |part: u64| part * eighth * 8;
        let part = |part: u64| Strided::contiguous(at(part), eighth * 8);
        let (put, rest) = self.operand.split_at(len);
        let (fill, rest) = rest.split_at(PATTERN_WORDS as usize * 8);
        let (one, strided) = rest.split_at(8);
        let (region, from) = (&self.region, self.from.as_ref().unwrap());
        let (result, told, still) = (&mut self.result, &mut self.told, &self.still);
        self.pool.batch(|batch| {
            batch.put(region, 0, put)?;
            batch.get(region, at(1), result)?;
            batch.fill(region, part(2), fill)?;
            batch.update(region, part(3), ADD, one)?;
            batch.copy(from, copy_source(round, 4 * eighth, eighth), region, part(4))?;
            batch.put_strided(region, spread(5 * eighth, eighth, 2), strided)?;
            batch.compare(region, part(6), still, &mut told.difference)?;
            batch.reduce(region, part(7), Element::U64, Range::all(Element::U64), &mut told.summary)
        })
    }

    fn from(&self) -> &Region {
        self.from.as_ref().expect("it copies")
    }

    /// Whether what the command gave is what is there; called before the round is entered in the ledger.
    fn verify(&mut self) -> Result<(), String> {
        let words = self.words;
        match self.kind {
            Kind::Get => equal(&self.result, (0..words).map(|i| word(0, i))),
            Kind::GetStrided => equal(&self.result, spread_words(words, 2).map(|i| word(0, i))),
            Kind::Gather => equal(&self.result, self.indices.iter().map(|i| word(0, u64::from(*i)))),
            Kind::Compare if self.told.difference != Some((words - 1) * 8) => {
                Err(format!("difference {:?}", self.told.difference))
            }
            Kind::Reduce => check_sum(&self.told, 0..words),
            Kind::Fetch => {
                let counts = self.ledger.counts();
                match self::words(&self.result).enumerate().find(|(_, old)| !counts.contains(old)) {
                    Some((i, old)) => Err(format!("word {i} was {old}, not in {counts:?}")),
                    None => Ok(()),
                }
            }
            Kind::Swap => self.verify_swap(),
            Kind::Batch => {
                let eighth = words / Part::COUNT;
                equal(&self.result, (eighth..2 * eighth).map(|i| word(0, i)))?;
                match self.told.difference {
                    Some(difference) => Err(format!("a difference at {difference}")),
                    None => check_sum(&self.told, 7 * eighth..words),
                }
            }
            _ => Ok(()),
        }
    }

    /// Words that were as expected have been swapped; others were swapped by a round that may have happened.
    fn verify_swap(&mut self) -> Result<(), String> {
        let slack = u64::from(!self.ledger.unknown.is_empty());
        for (i, (current, old)) in self.current.iter_mut().zip(words(&self.result)).enumerate() {
            if !(*current..=*current + slack).contains(&old) {
                return Err(format!("word {i} was {old}, not {current} (or {slack} more)"));
            }
            // Either way it is one more than was expected.
            *current += 1;
        }
        Ok(())
    }

    /// Takes in what an error says.
    fn failed(&mut self, happened: Happened) {
        if self.kind == Kind::Swap && happened == Happened::Yes {
            self.current.iter_mut().for_each(|word| *word += 1);
        }
    }
}

fn equal(found: &[u8], wanted: impl Iterator<Item = u64>) -> Result<(), String> {
    match words(found).zip(wanted).enumerate().find(|(_, (found, wanted))| found != wanted) {
        Some((k, (found, wanted))) => Err(format!("word {k} is {found:x}, not {wanted:x}")),
        None => Ok(()),
    }
}

fn check_sum(told: &Told, range: std::ops::Range<u64>) -> Result<(), String> {
    let wanted: i128 = range.map(|i| i128::from(word(0, i))).sum();
    match told.summary.as_ref().map(Summary::sum) {
        Some(Value::Whole(sum)) if sum == wanted => Ok(()),
        other => Err(format!("the sum is {other:?}, not {wanted}")),
    }
}
