//! The extents of a node.

use super::{EXTENT_LEN, PROGRAM_COUNT, WORD_COUNT, WORD_STEP, name};
use hanare_home::{Bytes, Memory, QueueArray, Vector, Vectors};
use hanare_protocol::element::{Element, Operator};
use hanare_protocol::id::{Gid, Grant, NodeId, Rights, Slot};
use hanare_protocol::limits::STAGE_LEN;
use hanare_protocol::wire::command::{Op, Update};
use hanare_protocol::wire::copies::ExtentWrite;
use hanare_protocol::{Error, Result};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// An extent: bytes, and what a fault or a defect makes of them.
#[derive(Clone, Debug)]
pub(super) struct SimExtent {
    number: usize,
    bytes: Vector,
    faults: Rc<Faults>,
}

#[derive(Debug, Default)]
struct Faults {
    /// The next write fails.
    fails: Cell<bool>,
    /// A write has failed, or will.
    has_failed: Cell<bool>,
    /// A defect: copies apply each write when the next one comes.
    is_late: bool,
    late: RefCell<Option<ExtentWrite>>,
    /// A defect: writes that were applied before their time.
    applied: RefCell<Vec<ExtentWrite>>,
}

/// The extents of a node, by number.
#[derive(Clone, Debug, Default)]
pub(super) struct ExtentMemory {
    extents: BTreeMap<usize, SimExtent>,
    /// A defect: copies apply each write when the next one comes.
    pub is_late: bool,
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
    ExtentWrite { op, ranges, operand: 1u64.to_le_bytes().to_vec(), once: None }
}

impl ExtentMemory {
    /// The node has an extent of zeros.
    pub fn make(&mut self, number: usize) {
        let (_, bytes) = Vectors::of(name(number).gid, EXTENT_LEN);
        let faults = Rc::new(Faults { is_late: self.is_late, ..Faults::default() });
        self.extents.insert(number, SimExtent { number, bytes, faults });
    }

    pub fn is_open(&self, extent: usize) -> bool {
        self.extents.get(&extent).is_some_and(|extent| extent.bytes.is_open())
    }

    /// The next write to an extent fails.
    pub fn fail_next(&self, extent: usize) {
        if let Some(SimExtent { faults, .. }) = self.extents.get(&extent) {
            faults.fails.set(true);
            faults.has_failed.set(true);
        }
    }

    /// True if a write to it has failed, or will.
    pub fn has_failed(&self, extent: usize) -> bool {
        self.extents.get(&extent).is_some_and(|extent| extent.faults.has_failed.get())
    }

    /// A defect: a write is applied before its time.
    pub fn apply_early(&self, extent: usize, write: &ExtentWrite) -> Vec<u8> {
        let extent = self.extents.get(&extent).expect("it was made");
        let olds = extent.bytes.apply(write).expect("vectors do not fail");
        extent.faults.applied.borrow_mut().push(write.clone());
        olds
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

    pub fn bytes(&self, extent: usize) -> Vec<u8> {
        let Some(extent) = self.extents.get(&extent) else { return Vec::new() };
        let mut bytes = vec![0; EXTENT_LEN];
        extent.bytes.read(0, &mut bytes).expect("a vector has its bytes");
        bytes
    }

    fn load(&self, extent: usize, at: usize) -> u64 {
        self.extents.get(&extent).map_or(0, |extent| extent.bytes.load_word(at as u64, 8).expect("a vector has its bytes"))
    }
}

impl Memory for ExtentMemory {
    type Extent = SimExtent;

    fn open(&self, slot: Slot, _grant: Grant, _need: Rights) -> Result<SimExtent> {
        let gid = name(slot.0 as usize).gid;
        self.find(gid, slot).ok_or(Error::GrantRefused { gid, node: NodeId(0) })
    }

    fn find(&self, gid: Gid, slot: Slot) -> Option<SimExtent> {
        self.extents.get(&(slot.0 as usize)).filter(|extent| Bytes::gid(*extent) == gid).cloned()
    }

    fn has(&self, gid: Gid, slot: Slot) -> bool {
        self.find(gid, slot).is_some()
    }
}

impl Bytes for SimExtent {
    type Queues = <Vector as Bytes>::Queues;

    fn gid(&self) -> Gid {
        Bytes::gid(&self.bytes)
    }

    fn slot(&self) -> Slot {
        Slot(self.number as u32)
    }

    fn len_bytes(&self) -> u64 {
        self.bytes.len_bytes()
    }

    fn is_by_pages(&self) -> bool {
        false
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        self.bytes.read(offset, into)
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.fail_once()?;
        self.bytes.write(offset, bytes)
    }

    fn apply(&self, write: &ExtentWrite) -> Result<Vec<u8>> {
        self.fail_once()?;
        let mut applied = self.faults.applied.borrow_mut();
        if let Some(at) = applied.iter().position(|applied| applied == write) {
            applied.remove(at);
            return Ok(vec![0; 16]);
        }
        if !self.faults.is_late || self.bytes.is_open() {
            return self.bytes.apply(write);
        }
        match self.faults.late.replace(Some(write.clone())) {
            Some(before) => self.bytes.apply(&before),
            None => Ok(vec![0; 16]),
        }
    }

    fn set_open(&self, is_open: bool) {
        self.bytes.set_open(is_open);
    }

    fn load_word(&self, offset: u64, len: u64) -> Result<u64> {
        self.bytes.load_word(offset, len)
    }

    fn begin_heap(&self) -> Result<()> {
        self.bytes.begin_heap()
    }

    fn with_queues<T>(&self, offset: u64, with: impl FnOnce(&mut QueueArray<'_, Self::Queues>) -> Result<T>) -> Result<T> {
        self.bytes.with_queues(offset, with)
    }
}

impl SimExtent {
    fn fail_once(&self) -> Result<()> {
        match self.faults.fails.take() {
            true => Err(Error::System { what: "write".to_owned(), reason: "no memory".to_owned() }),
            false => Ok(()),
        }
    }
}
