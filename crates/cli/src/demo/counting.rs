//! A program that writes into a region with copies while one of its nodes is killed.

use anyhow::{Context, Result, ensure};
use hanare::{CreateOptions, NodeId, Placement, Pool, Region};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Bytes of the region: a word for each of the last numbers.
const LEN: u64 = 1 << 16;
/// Bytes of a word.
const WORD: u64 = size_of::<u64>() as u64;
/// Puts after a moment, for the program to have gone on.
const GOES_ON: u64 = 100;
/// Time for the program to go on before the demonstration gives up.
const PATIENCE: Duration = Duration::from_secs(30);

/// A thread that puts the numbers from 1 on into the words of a region, in turn.
pub struct Counting {
    region: Arc<Region>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<Result<Duration>>>,
}

#[derive(Default)]
struct Shared {
    answered: AtomicU64,
    is_over: AtomicBool,
}

/// Outcome of the puts.
pub struct Counted {
    /// Puts that were answered.
    pub answered: u64,
    /// The longest of them.
    pub longest: Duration,
}

impl Counting {
    /// Begins, in a region of two copies whose home is that node.
    pub fn start(pool: &Pool, name: &str, home: NodeId) -> Result<Counting> {
        let options = CreateOptions { placement: Placement::Node(home), copies: 2, ..CreateOptions::default() };
        let region = Arc::new(pool.create(name, LEN, &options)?);
        let shared = Arc::new(Shared::default());
        let thread = std::thread::spawn({
            let (region, shared) = (region.clone(), shared.clone());
            move || count(&region, &shared)
        });
        let counting = Counting { region, shared, thread: Some(thread) };
        counting.goes_on()?;
        Ok(counting)
    }

    /// Waits until it has put some more numbers.
    pub fn goes_on(&self) -> Result<()> {
        let (before, begun) = (self.shared.answered.load(Ordering::Relaxed), Instant::now());
        while self.shared.answered.load(Ordering::Relaxed) < before + GOES_ON {
            let is_over = self.thread.as_ref().is_none_or(JoinHandle::is_finished);
            ensure!(!is_over && begun.elapsed() < PATIENCE, "the program that counts does not go on");
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Ends it, and reads all words back. **Errors**: an error of a put; a word that lacks its last answered number.
    pub fn end(mut self) -> Result<Counted> {
        self.shared.is_over.store(true, Ordering::Relaxed);
        let thread = self.thread.take().context("it is ended once")?;
        let longest = thread.join().map_err(|_| anyhow::anyhow!("the program that counts has panicked"))??;
        let answered = self.shared.answered.load(Ordering::Relaxed);
        let mut bytes = vec![0; LEN as usize];
        self.region.get(0, &mut bytes)?;
        for (index, word) in bytes.as_chunks::<{ WORD as usize }>().0.iter().enumerate() {
            let (number, words, index) = (u64::from_le_bytes(*word), LEN / WORD, index as u64);
            let wanted = answered.checked_sub(index).map_or(0, |ahead| answered - ahead % words);
            ensure!(number == wanted, "put {wanted} was answered, and its word has {number}");
        }
        Ok(Counted { answered, longest })
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn count(region: &Region, shared: &Shared) -> Result<Duration> {
    let mut longest = Duration::ZERO;
    for number in 1.. {
        let begun = Instant::now();
        region.put(number % (LEN / WORD) * WORD, &number.to_le_bytes())?;
        longest = longest.max(begun.elapsed());
        shared.answered.store(number, Ordering::Relaxed);
        if shared.is_over.load(Ordering::Relaxed) {
            break;
        }
    }
    Ok(longest)
}
