//! Drives functions that read what others wrote: any bytes, a kept corpus and changes of it, with a bound on what they allocate.
//!
//! A *target* is a plain function of bytes, in the module `fuzz` of the crate whose parser it feeds; it panics where the parser breaks its
//! promise. Tests drive each for a moment, `make nightly` for a minute each (`FUZZ_SECONDS`), and `fuzz/` hands the same functions to
//! libFuzzer. Inputs are the seeds that the target's test gives, the files in `fuzz/corpus/TARGET`, and mutations of both. One that fails
//! is kept there, and is tried first from then on.
//!
//! Safety invariant of this crate: the allocator passes each call on to the system's as it came, and counts beside it.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Inputs of a run in tests.
const COUNT: u64 = 20_000;

/// Longest run in tests, whatever was reached: targets that make system calls are slower on a loaded machine.
const MOST: Duration = Duration::from_secs(3);

/// Longest input that mutations make.
const INPUT_LEN: usize = 64 << 10;

/// An input that takes so long is taken for one that never ends.
const HANG: Duration = Duration::from_secs(60);

/// The system's allocator, with a count of what each thread has. A crate's tests make it theirs: `#[global_allocator]`.
pub struct Counting;

thread_local! {
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

fn count(more: isize) {
    // A thread that ends frees memory when its own counts are gone.
    let _ = LIVE.try_with(|live| {
        live.set(live.get().wrapping_add(more));
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(live.get())));
    });
}

// SAFETY: each call is the system's own.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: passed on.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, len: usize) -> *mut u8 {
        count(len as isize - layout.size() as isize);
        // SAFETY: passed on.
        unsafe { System.realloc(at, layout, len) }
    }
}

/// Feeds a target, which may have `most` bytes allocated at a time. `FUZZ_SEED` chooses the mutations.
///
/// # Panics
/// Where the target does, or allocates more; the input is in the message and, as a file, in the corpus then.
pub fn drive(name: &str, seeds: &[Vec<u8>], most: usize, target: fn(&[u8])) {
    let number = |variable: &str| std::env::var(variable).ok().and_then(|text| text.parse::<u64>().ok());
    let seed = number("FUZZ_SEED").unwrap_or(1);
    let (count, until) = match number("FUZZ_SECONDS") {
        Some(seconds) => (u64::MAX, Duration::from_secs(seconds)),
        None => (COUNT, MOST),
    };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(name);
    let corpus: Vec<Vec<u8>> = seeds.iter().cloned().chain(kept(&folder)).collect();
    assert!(!corpus.is_empty(), "{name} has no seeds");
    let (watched, begun) = (Watched::start(name), Instant::now());
    let feed = |input: &[u8]| {
        watched.begin();
        feed(name, &folder, most, target, input);
        watched.end();
    };
    corpus.iter().for_each(|input| feed(input));
    let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut done = 0;
    while done < count && begun.elapsed() < until {
        feed(&dice.mutation(&corpus));
        done += 1;
    }
    println!("{name}: {} inputs as they are, {done} mutations, FUZZ_SEED={seed}", corpus.len());
}

/// The files of the corpus, in the order of their names.
fn kept(folder: &Path) -> Vec<Vec<u8>> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.sort();
    files.iter().map(|file| std::fs::read(file).expect("a file of the corpus")).collect()
}

fn feed(name: &str, folder: &Path, most: usize, target: fn(&[u8]), input: &[u8]) {
    let before = LIVE.get();
    PEAK.set(before);
    let outcome = catch_unwind(AssertUnwindSafe(|| target(input)));
    let peak = PEAK.get().wrapping_sub(before).max(0) as usize;
    if outcome.is_ok() && peak <= most {
        return;
    }
    let hash = input.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3));
    let file = folder.join(format!("failed-{hash:016x}"));
    let kept = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&file, input));
    let hex: String = input.iter().take(512).map(|byte| format!("{byte:02x}")).collect();
    eprintln!("{name} fails with {} bytes, kept in {} ({kept:?}): {hex}", input.len(), file.display());
    match outcome {
        Err(panic) => resume_unwind(panic),
        Ok(()) => panic!("{name} had {peak} bytes allocated, and may have {most}"),
    }
}

/// A thread that ends the process where an input never ends.
struct Watched(std::sync::Arc<AtomicU64>);

impl Watched {
    fn start(name: &str) -> Watched {
        // Counts begins and ends; odd while an input is fed.
        let turns = std::sync::Arc::new(AtomicU64::new(0));
        let (name, watched) = (name.to_owned(), std::sync::Arc::downgrade(&turns));
        std::thread::spawn(move || {
            let mut seen = u64::MAX;
            while let Some(now) = watched.upgrade().map(|turns| turns.load(Ordering::Relaxed)) {
                if now == seen && now % 2 == 1 {
                    eprintln!("{name} has not come to an end with an input for {} s", HANG.as_secs());
                    std::process::abort();
                }
                seen = now;
                std::thread::sleep(HANG);
            }
        });
        Watched(turns)
    }

    fn begin(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn end(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Random numbers by xorshift.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number below `end`; 0 where that is 0.
    fn below(&mut self, end: usize) -> usize {
        if end == 0 { 0 } else { (self.next() % end as u64) as usize }
    }

    /// A number at which something ends more often than elsewhere.
    fn edge(&mut self) -> u64 {
        let near =
            [0, 1, 7, 8, 63, 64, 127, 128, 255, 256, 4095, 4096, 65_535, 65_536, 1 << 31, 1 << 32, 1 << 44, 1 << 63, u64::MAX];
        near[self.below(near.len())].wrapping_add(self.below(3) as u64).wrapping_sub(1)
    }

    /// An input of the corpus with one change, or several.
    fn mutation(&mut self, corpus: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = corpus[self.below(corpus.len())].clone();
        for _ in 0..=self.below(4) {
            self.mutate(&mut bytes, corpus);
        }
        bytes.truncate(INPUT_LEN);
        bytes
    }

    fn mutate(&mut self, bytes: &mut Vec<u8>, corpus: &[Vec<u8>]) {
        let at = self.below(bytes.len());
        match self.below(9) {
            0 if !bytes.is_empty() => bytes[at] ^= 1 << self.below(8),
            1 if !bytes.is_empty() => bytes[at] = self.next() as u8,
            2 => drop(bytes.drain(at..at + self.below(bytes.len() - at).min(16))),
            3 => {
                let more: Vec<u8> = (0..=self.below(16)).map(|_| self.next() as u8).collect();
                bytes.splice(at..at, more);
            }
            4 => {
                // A number of fixed length in the place of what is there.
                let number = self.edge().to_le_bytes();
                let len = [1, 2, 4, 8][self.below(4)].min(bytes.len() - at);
                bytes[at..at + len].copy_from_slice(&number[..len]);
            }
            5 => {
                // A number of as many bytes as it needs, as postcard writes it.
                let mut number = self.edge();
                let mut written = Vec::new();
                while number > 127 {
                    written.push(number as u8 | 128);
                    number >>= 7;
                }
                written.push(number as u8);
                bytes.splice(at..(at + 1).min(bytes.len()), written);
            }
            6 => {
                let end = at + self.below(bytes.len() - at);
                let part = bytes[at..end].to_vec();
                let to = self.below(bytes.len());
                bytes.splice(to..to, part);
            }
            7 => {
                let other = &corpus[self.below(corpus.len())];
                bytes.truncate(at);
                bytes.extend_from_slice(&other[self.below(other.len())..]);
            }
            _ => bytes.truncate(at),
        }
    }
}
