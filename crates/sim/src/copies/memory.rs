//! The extents of a node.

use super::{EXTENT_COUNT, EXTENT_LEN, PROGRAM_COUNT, WORD_COUNT, WORD_STEP};
use hanare_home::CopyMemory;
use hanare_protocol::Result;
use hanare_protocol::element::{Element, Operator};
use hanare_protocol::limits::STAGE_LEN;
use hanare_protocol::wire::command::{Op, Update};
use hanare_protocol::wire::copies::ExtentWrite;
use std::collections::BTreeMap;

/// Bytes of extents, by number.
#[derive(Clone, Debug, Default)]
pub(super) struct ExtentMemory {
    extents: BTreeMap<usize, Vec<u8>>,
    is_open: [bool; EXTENT_COUNT],
    /// A defect: copies apply each write when the next one comes.
    pub is_late: bool,
    late: BTreeMap<usize, ExtentWrite>,
    /// A defect: writes that were applied before their time.
    pub applied: Vec<(usize, ExtentWrite)>,
}

fn word_at(word: usize) -> usize {
    word * WORD_STEP
}

fn count_at(program: usize) -> usize {
    const { assert!(2 * STAGE_LEN + 8 * PROGRAM_COUNT <= EXTENT_LEN, "counts lie in the last range") };
    2 * STAGE_LEN + 8 * program
}

/// Adds one to a word, and to the count of a program's additions.
pub(super) fn addition(word: usize, program: usize) -> ExtentWrite {
    let op = Op::Fetch(Update { operator: Operator::Add, element: Element::U64, is_same: true });
    let ranges = vec![(word_at(word) as u64, 8), (count_at(program) as u64, 8)];
    ExtentWrite { op, ranges, operand: 1u64.to_le_bytes().to_vec() }
}

impl ExtentMemory {
    /// The node has an extent of zeros.
    pub fn make(&mut self, extent: usize) {
        self.extents.insert(extent, vec![0; EXTENT_LEN]);
        self.late.remove(&extent);
    }

    pub fn is_open(&self, extent: usize) -> bool {
        self.is_open[extent]
    }

    pub fn word(&self, extent: usize, word: usize) -> u64 {
        self.load(extent, word_at(word))
    }

    /// Additions of a program that were applied.
    pub fn count(&self, extent: usize, program: usize) -> u64 {
        self.load(extent, count_at(program))
    }

    pub fn words(&self, extent: usize) -> [u64; WORD_COUNT] {
        std::array::from_fn(|word| self.word(extent, word))
    }

    pub fn bytes(&self, extent: usize) -> &[u8] {
        self.extents.get(&extent).map_or(&[], Vec::as_slice)
    }

    fn load(&self, extent: usize, at: usize) -> u64 {
        self.bytes(extent).get(at..at + 8).map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().expect("8 bytes")))
    }

    fn add(&mut self, extent: usize, entry: &ExtentWrite) -> Vec<u8> {
        let mut olds = Vec::new();
        let more = u64::from_le_bytes(entry.operand[..8].try_into().expect("8 bytes"));
        for (at, _) in &entry.ranges {
            let old = self.load(extent, *at as usize);
            olds.extend(old.to_le_bytes());
            if let Some(bytes) = self.extents.get_mut(&extent) {
                bytes[*at as usize..][..8].copy_from_slice(&(old + more).to_le_bytes());
            }
        }
        olds
    }
}

impl CopyMemory for ExtentMemory {
    type Extent = usize;

    fn len_bytes(&self, _extent: &usize) -> u64 {
        EXTENT_LEN as u64
    }

    fn has(&self, extent: &usize) -> bool {
        self.extents.contains_key(extent)
    }

    fn apply(&mut self, extent: &usize, entry: &ExtentWrite) -> Result<Vec<u8>> {
        if let Some(at) = self.applied.iter().position(|(at, applied)| at == extent && applied == entry) {
            self.applied.remove(at);
            return Ok(vec![0; 16]);
        }
        let late =
            if self.is_late && !self.is_open[*extent] { self.late.insert(*extent, entry.clone()) } else { Some(entry.clone()) };
        Ok(late.map_or_else(|| vec![0; 16], |entry| self.add(*extent, &entry)))
    }

    fn read(&self, extent: &usize, offset: u64, len: u64) -> Result<Vec<u8>> {
        Ok(self.bytes(*extent)[offset as usize..][..len as usize].to_vec())
    }

    fn write(&mut self, extent: &usize, offset: u64, bytes: &[u8]) -> Result<()> {
        self.extents.get_mut(extent).expect("it was made")[offset as usize..][..bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn set_open(&mut self, extent: &usize, is_open: bool) {
        self.is_open[*extent] = is_open;
    }
}
