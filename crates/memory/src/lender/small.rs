//! Pieces of shared files, for extents too small for a file of their own. A million of them need some hundred descriptors.
//!
//! A file's pieces are all of one size class; four classes for each doubling waste a fifth at most. Files of a class
//! double up to [`SHARED_LEN_MAX`].

use super::slab::SlabFile;
use super::stock::Stock;
use crate::mapping::Mapping;
use crate::window::Window;
use hanare_protocol::limits::SMALL_REGION_LEN;
use hanare_protocol::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Bytes of a class's first shared file: the largest class fits.
const SHARED_LEN_MIN: u64 = SMALL_REGION_LEN;

/// Bytes of a shared file at most.
const SHARED_LEN_MAX: u64 = 4 << 20;

/// Alignment of a piece's begin and end.
const PIECE_ALIGN: u64 = 16;

/// The shared files of a lender.
#[derive(Debug, Default)]
pub struct Small {
    classes: BTreeMap<u64, Class>,
    /// Number of the next file; never used twice.
    next: u64,
}

#[derive(Debug, Default)]
struct Class {
    files: BTreeMap<u64, Shared>,
    /// Numbers of the files with a free piece.
    open: BTreeSet<u64>,
}

#[derive(Debug)]
struct Shared {
    memory: Arc<SharedMemory>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct SharedMemory {
    file: Arc<SlabFile>,
    mapping: Mapping,
}

/// A piece of a shared file.
#[derive(Debug)]
pub struct Piece {
    class_len: u64,
    number: u64,
    index: u32,
    memory: Arc<SharedMemory>,
}

impl Piece {
    /// Takes a piece of at least `len` bytes, all zero.
    pub fn take(stock: &Stock, len: u64) -> Result<Piece> {
        let class_len = class_len(len);
        let mut state = stock.lock();
        if state.small.classes.entry(class_len).or_default().open.is_empty() {
            drop(state);
            add_file(stock, class_len, len)?;
            state = stock.lock();
        }
        let class = state.small.classes.entry(class_len).or_default();
        let Some(&number) = class.open.first() else {
            // Another maker was faster with all the pieces that were just added.
            drop(state);
            return Piece::take(stock, len);
        };
        let shared = class.files.get_mut(&number).expect("open files are files");
        let index = shared.free.pop().expect("open files have free pieces");
        if shared.free.is_empty() {
            class.open.remove(&number);
        }
        Ok(Piece { class_len, number, index, memory: Arc::clone(&shared.memory) })
    }

    /// Its bytes, `len` of them.
    ///
    /// # Safety
    /// Not used any more once the piece was given back.
    pub unsafe fn window(&self, len: u64) -> Window {
        // SAFETY: the mapping lives as long as the piece; the rest is the caller's promise.
        let whole = unsafe { self.memory.mapping.window() };
        whole.slice(self.index as usize * self.class_len as usize, self.class_len as usize).slice(0, len as usize)
    }

    /// Wipes the piece and gives it back.
    pub fn give_back(self, stock: &Stock) {
        // SAFETY: nobody uses the piece any more; this window is used here only.
        let wiped = unsafe { self.window(self.class_len) }.wipe();
        let mut state = stock.lock();
        let class = state.small.classes.get_mut(&self.class_len).expect("a piece has a class");
        let shared = class.files.get_mut(&self.number).expect("a piece has a file");
        let is_last = shared.free.len() as u64 + 1 == pieces_in(shared.memory.file.len, self.class_len);
        if is_last {
            class.open.remove(&self.number);
            let shared = class.files.remove(&self.number).expect("just found");
            let len = shared.memory.file.len;
            drop(state);
            stock.give_back(len, Vec::new());
        } else if wiped.is_ok() {
            // A piece with a broken page is never given again.
            shared.free.push(self.index);
            class.open.insert(self.number);
        }
    }
}

/// Bytes of the smallest class that holds `len`.
fn class_len(len: u64) -> u64 {
    if len <= 4 * PIECE_ALIGN {
        return len.next_multiple_of(PIECE_ALIGN);
    }
    len.next_multiple_of(len.next_power_of_two() / 8)
}

fn pieces_in(file_len: u64, class_len: u64) -> u64 {
    file_len / class_len
}

/// Makes another file for a class: as large as the class deserves, or as there is room for.
fn add_file(stock: &Stock, class_len: u64, asked: u64) -> Result<()> {
    let file_count = stock.lock().small.classes.get(&class_len).map_or(0, |class| class.files.len());
    let least = SHARED_LEN_MIN.max(stock.supply.grain());
    let mut len = (least << file_count.min(16)).min(SHARED_LEN_MAX.max(least));
    loop {
        match stock.take(asked, len, 0) {
            Err(Error::PoolFull { .. }) if len > least => len /= 2,
            Err(error) => return Err(error),
            Ok(_) => break,
        }
    }
    let memory = stock.make_file(len).and_then(|file| Ok(SharedMemory { mapping: file.map()?, file }));
    let memory = match memory {
        Ok(memory) => Arc::new(memory),
        Err(error) => {
            stock.give_back(len, Vec::new());
            return Err(error);
        }
    };
    stock.populate_first(std::iter::once(Arc::clone(&memory.file)));
    let free = (0..pieces_in(len, class_len) as u32).rev().collect();
    let mut state = stock.lock();
    let number = state.small.next;
    state.small.next += 1;
    let class = state.small.classes.entry(class_len).or_default();
    class.files.insert(number, Shared { memory, free });
    class.open.insert(number);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_waste_a_fifth_at_most_and_keep_the_alignment() {
        for len in 1..SMALL_REGION_LEN {
            let class = class_len(len);
            assert!(class >= len && class.is_multiple_of(PIECE_ALIGN) && class <= SHARED_LEN_MIN, "{len} {class}");
            assert!(len <= 64 || (class - len) * 5 <= class, "{len} {class}");
        }
    }
}
