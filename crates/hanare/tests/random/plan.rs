//! What a seed stands for: nodes, programs and their deaths, and to whom each byte of the region belongs.

use crate::processes::Dice;
use hanare::{Consistency, NodeId, Placement};
use std::ops::Range;
use std::path::{Path, PathBuf};

pub const PAGE: u64 = 4096;
pub const REGION: &str = "memory";
/// Owner of bytes that are no one thread's.
pub const NOBODY: u8 = 255;
/// Words of a record under a lock.
pub const RECORD_WORDS: u64 = 12;
/// The record whose lock lies in the region; those before it have locks by name.
pub const REGION_LOCK_RECORD: u64 = 2;
pub const RECORDS: u64 = 3;
/// Most writes of a thread to bytes of its own: as many can be told apart.
pub const WRITES_MAX: u64 = 250;

/// A place for a program, and for those that follow when it is killed.
#[derive(Debug)]
pub struct Slot {
    pub node: usize,
    pub threads: usize,
    /// How many programs are started here one after another; all but perhaps the last are killed.
    pub lives: usize,
    /// Whether it maps the region, or uses commands alone.
    pub maps: bool,
}

/// One thread of one program: the writer of its own bytes.
#[derive(Clone, Copy, Debug)]
pub struct Hand {
    pub slot: usize,
    pub life: usize,
    pub thread: usize,
    /// The number of its process.
    pub process: usize,
    pub node: usize,
}

#[derive(Debug)]
pub struct Plan {
    pub seed: u64,
    pub mode: Consistency,
    pub nodes: usize,
    pub placement: Placement,
    /// Pages with cells.
    pub pages: u64,
    /// Bytes that are written, from the region's beginning.
    pub hot: u64,
    /// Pages behind those, which are only touched, to drive others out of the frames.
    pub cold: u64,
    pub frames: Option<u64>,
    pub slots: Vec<Slot>,
    pub hands: Vec<Hand>,
    /// The writer of each byte.
    pub owner: Vec<u8>,
    /// Whether it is written by commands; in `Coherent` that is all the same.
    pub by_command: Vec<bool>,
    /// Whether the test has the region mapped all the time: then programs may come that use commands alone. Else they might be in
    /// the midst of one, or sleep on a mapping of the memory as it is, while another begins to map it.
    pub is_pinned: bool,
    /// Whether nodes are stopped for a while.
    pub stops: bool,
}

impl Plan {
    pub fn new(seed: u64, mode: Consistency) -> Plan {
        let mut dice = Dice::new(seed * 2 + u64::from(mode == Consistency::Coherent));
        let nodes = 2 + dice.below(2) as usize;
        let placement = match dice.below(3) {
            0 => Placement::Node(NodeId(dice.below(nodes as u64) as u32)),
            1 => Placement::Interleave(2 * PAGE),
            _ => Placement::Interleave(PAGE),
        };
        let frames = dice.one_in(3).then_some(if mode == Consistency::Coherent { 16 * PAGE } else { 64 * PAGE });
        let cold = if frames.is_some() { 150 } else { 0 };
        let pages = 2 + dice.below(5);
        let hot = pages * PAGE + if cold == 0 { 1 + dice.below(PAGE) } else { 0 };
        let count = 3 + dice.below(2) as usize;
        let is_pinned = mode == Consistency::Coherent && dice.one_in(2);
        let mut slots = Vec::new();
        for k in 0..count {
            // Two at least stay, to meet.
            let lives = if k >= 2 { 2 + dice.below(2) as usize } else { 1 };
            let maps = !is_pinned || !dice.one_in(3);
            slots.push(Slot { node: (k + seed as usize) % nodes, threads: 1 + dice.below(2) as usize, lives, maps });
        }
        let (mut hands, mut process) = (Vec::new(), 0);
        for (slot, place) in slots.iter().enumerate() {
            for life in 0..place.lives {
                hands.extend((0..place.threads).map(|thread| Hand { slot, life, thread, process, node: place.node }));
                process += 1;
            }
        }
        let stops = dice.one_in(4);
        let (owner, by_command) = share_out(&mut dice, hot, hands.len() as u64, pages);
        Plan { seed, mode, nodes, placement, pages, hot, cold, frames, slots, hands, owner, by_command, is_pinned, stops }
    }

    pub fn len(&self) -> u64 {
        self.hot + self.cold * PAGE
    }

    pub fn log_of(&self, folder: &Path, hand: usize) -> PathBuf {
        let Hand { slot, life, thread, .. } = self.hands[hand];
        folder.join(format!("slot-{slot}-life-{life}-thread-{thread}"))
    }

    pub fn hands_of(&self, slot: usize, life: usize) -> Vec<usize> {
        (0..self.hands.len()).filter(|hand| (self.hands[*hand].slot, self.hands[*hand].life) == (slot, life)).collect()
    }

    /// Threads of programs that nobody kills.
    pub fn parties(&self) -> usize {
        self.slots.iter().filter(|slot| slot.lives == 1).map(|slot| slot.threads).sum()
    }

    /// The runs of bytes that a hand writes, by pointer or by command.
    pub fn runs_of(&self, hand: usize, by_command: Option<bool>) -> Vec<Range<u64>> {
        let mut runs: Vec<Range<u64>> = Vec::new();
        for at in 0..self.hot {
            let is_own =
                self.owner[at as usize] as usize == hand && by_command.is_none_or(|is| is == self.by_command[at as usize]);
            match runs.last_mut() {
                Some(run) if is_own && run.end == at => run.end += 1,
                _ if is_own => runs.push(at..at + 1),
                _ => {}
            }
        }
        runs
    }

    pub fn registers(&self) -> Vec<u64> {
        (0..self.pages).flat_map(|page| [register(page, 0), register(page, 1)]).collect()
    }

    pub fn counters(&self) -> Vec<u64> {
        (0..self.pages).map(counter).collect()
    }

    /// Where a word of a record is: on one page after another.
    pub fn record_word(&self, record: u64, k: u64) -> u64 {
        (k % self.pages) * PAGE + (40 + record * 16 + k) * 8
    }

    pub fn region_lock(&self) -> u64 {
        30 * 8
    }
}

impl std::fmt::Display for Plan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Plan { mode, nodes, placement, hot, cold, frames, slots, is_pinned, stops, .. } = self;
        write!(f, "{mode:?}, {nodes} nodes, {placement:?}, {hot} bytes and {cold} pages, frames {frames:?}, ")?;
        write!(f, "pinned {is_pinned}, nodes are stopped {stops}, {slots:?}")
    }
}

fn register(page: u64, which: u64) -> u64 {
    page * PAGE + [8, 301][which as usize] * 8
}

fn counter(page: u64) -> u64 {
    page * PAGE + 9 * 8
}

/// Shares bytes out in runs, long and short.
fn share_out(dice: &mut Dice, hot: u64, hands: u64, pages: u64) -> (Vec<u8>, Vec<bool>) {
    let (mut owner, mut by_command) = (Vec::new(), Vec::new());
    while (owner.len() as u64) < hot {
        let len = if dice.one_in(40) { 300 + dice.below(3000) } else { 1 + dice.below(40) };
        let (hand, is_command) = (dice.below(hands) as u8, dice.one_in(3));
        let len = len.min(hot - owner.len() as u64) as usize;
        owner.extend(std::iter::repeat_n(hand, len));
        by_command.extend(std::iter::repeat_n(is_command, len));
    }
    for page in 0..pages {
        let records = (page * PAGE + 40 * 8)..(page * PAGE + (40 + RECORDS * 16) * 8);
        let words = [register(page, 0), register(page, 1), counter(page), page * PAGE + 30 * 8];
        for at in words.into_iter().flat_map(|word| word..word + 8).chain(records) {
            owner[at as usize] = NOBODY;
        }
    }
    (owner, by_command)
}

/// The byte that a writer's so-manieth write leaves at a place: never zero, and another for each of its writes.
pub fn byte(number: u64, at: u64) -> u8 {
    assert!(number <= WRITES_MAX);
    1 + ((number + at * 31) % 251) as u8
}
