//! Holes of a disk: runs of zeros, which a program that copies the disk need not read.
//!
//! A region has memory for all its bytes, and nobody notes which were ever written. So the memory's nodes are asked: for one word of each
//! cell, and, where that is zero, for how many words of the cell are not.

use hanare::{Element, Pool, Range, Region, Result, Strided, Summary};

/// Bytes of a cell, which is a hole or not: so many come in the time of one more request.
const CELL_LEN: u64 = 64 << 10;

/// Most bytes of which one answer tells; their nodes read them in a small part of a second.
const LOOK_LEN: u64 = 256 << 20;

/// The same length, where the client asks for one place.
const LOOK_ONE_LEN: u64 = 16 << 20;

/// Most cells whose words are counted by one message.
const COUNTED_TOGETHER: usize = 1024;

/// Bytes of a word.
const WORD_LEN: u64 = 8;

/// A part of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// First byte.
    pub offset: u64,
    /// Length in bytes.
    pub len: u64,
    /// All of it is zero.
    pub is_hole: bool,
}

/// Tells what is where in `len` bytes from `offset` on, or in the first of them: parts without gaps, neighbours of different kinds.
pub fn find(pool: &Pool, region: &Region, offset: u64, len: u64, is_one: bool) -> Result<Vec<Part>> {
    let most = if is_one { LOOK_ONE_LEN } else { LOOK_LEN };
    let end = offset.saturating_add(len.min(most)).min(region.len());
    let mut cells = cells(offset, end);
    let whole = |cell: &Part| cell.offset.is_multiple_of(CELL_LEN) && cell.len.is_multiple_of(WORD_LEN);
    let first = cells.iter().position(whole).unwrap_or(cells.len());
    let count = cells[first..].iter().take_while(|cell| whole(cell)).count();
    let wanted = &mut cells[first..first + count];
    if let Some(Part { offset, .. }) = wanted.first() {
        let mut words = vec![0; count * WORD_LEN as usize];
        let probe = Strided { offset: *offset, block: WORD_LEN, count: count as u64, stride: CELL_LEN };
        region.get_strided(probe, &mut words)?;
        for (cell, word) in wanted.iter_mut().zip(words.chunks_exact(WORD_LEN as usize)) {
            cell.is_hole = word.iter().all(|byte| *byte == 0);
        }
    }
    let mut open: Vec<&mut Part> = wanted.iter_mut().filter(|cell| cell.is_hole).collect();
    for open in open.chunks_mut(COUNTED_TOGETHER) {
        let mut counts: Vec<Option<Summary>> = vec![None; open.len()];
        pool.batch(|batch| {
            open.iter().zip(&mut counts).try_for_each(|(cell, count)| {
                let shape = Strided::contiguous(cell.offset, cell.len);
                batch.reduce(region, shape, Element::U64, Range::Whole(1, u64::MAX.into()), count)
            })
        })?;
        for (cell, count) in open.iter_mut().zip(counts) {
            cell.is_hole = count.is_some_and(|count| count.count == 0);
        }
    }
    Ok(joined(cells))
}

/// The cells of a range, none of them known as a hole.
fn cells(offset: u64, end: u64) -> Vec<Part> {
    let mut cells = Vec::new();
    let mut at = offset;
    while at < end {
        let next = (at / CELL_LEN + 1).saturating_mul(CELL_LEN).min(end);
        cells.push(Part { offset: at, len: next - at, is_hole: false });
        at = next;
    }
    cells
}

/// Neighbours of one kind as one part.
fn joined(cells: Vec<Part>) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    for cell in cells {
        match parts.last_mut().filter(|last| last.is_hole == cell.is_hole) {
            Some(last) => last.len += cell.len,
            None => parts.push(cell),
        }
    }
    parts
}
