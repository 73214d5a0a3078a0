//! A stream of blocks, as every contestant sends and takes it. It goes as fast as it can, or at a pace, with the time that each was on its
//! way.

use crate::turns::{Figures, median};
use anyhow::{Context, Result, ensure};
use std::time::Duration;

/// Bytes of a block.
pub const BLOCK_LEN: usize = 64;

/// A block: its number, the time at which it was due, and zeros.
pub type Block = [u8; BLOCK_LEN];

/// Nanoseconds of the clock that all processes of a machine have in common.
fn now() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Waits as our ports do while the other side is awake.
fn pass(looks: &mut u32) {
    *looks += 1;
    if *looks < 20 { std::hint::spin_loop() } else { rustix::thread::sched_yield() }
}

/// Sends `count` blocks; with a pace one every so many nanoseconds, and each says when it was due.
pub fn send(count: u64, pace_ns: u64, mut push: impl FnMut(u64, &Block) -> Result<()>) -> Result<()> {
    let begun = now();
    let mut block = [0; BLOCK_LEN];
    for number in 0..count {
        block[..8].copy_from_slice(&number.to_le_bytes());
        if pace_ns > 0 {
            let due = begun + number * pace_ns;
            let mut looks = 0;
            while now() < due {
                pass(&mut looks);
            }
            block[8..16].copy_from_slice(&due.to_le_bytes());
        }
        push(number, &block)?;
    }
    Ok(())
}

/// Tries until there is something.
pub fn until<T>(mut attempt: impl FnMut() -> Option<T>) -> T {
    let mut looks = 0;
    loop {
        if let Some(value) = attempt() {
            return value;
        }
        pass(&mut looks);
    }
}

/// Takes `count` blocks of `writers` writers, each of whom sends as many. Returns begin and end, and how late the blocks were if they came
/// at a pace.
pub fn take(count: u64, writers: u64, mut pop: impl FnMut(&mut Block) -> Result<()>) -> Result<Figures> {
    let (mut block, mut sum, mut late, mut begun) = ([0; BLOCK_LEN], 0u64, Vec::new(), 0);
    for taken in 0..count {
        pop(&mut block)?;
        if taken == 0 {
            begun = now();
        }
        let [number, due] = [0, 8].map(|at| u64::from_le_bytes(*block[at..].first_chunk().expect("a block has two words")));
        sum += number;
        if due > 0 {
            late.push(now().saturating_sub(due) as f64);
        }
    }
    let ended = now();
    let each = count / writers;
    ensure!(sum == writers * (each * (each - 1) / 2), "the blocks that came are not those that were sent");
    let mut figures = Figures::from([("begun".to_owned(), begun as f64), ("ended".to_owned(), ended as f64)]);
    if !late.is_empty() {
        late.sort_by(f64::total_cmp);
        let beyond = late[late.len() - 1 - late.len() / 1000];
        figures.extend([("p50".to_owned(), median(late)), ("p999".to_owned(), beyond)]);
    }
    Ok(figures)
}

/// Millions of blocks a second of several readers that took `count` together.
pub fn rate(count: u64, readers: &[Figures]) -> Result<f64> {
    let all = |key: &str| readers.iter().map(|figures| figures.get(key).copied()).collect::<Option<Vec<f64>>>();
    let (begun, ended) = (all("begun").context("no begin")?, all("ended").context("no end")?);
    let ns = ended.into_iter().fold(0.0, f64::max) - begun.into_iter().fold(f64::INFINITY, f64::min);
    let time = Duration::from_nanos(ns.max(1.0) as u64);
    Ok(count as f64 / time.as_secs_f64() / 1e6)
}
