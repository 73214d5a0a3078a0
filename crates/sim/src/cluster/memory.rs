//! The bytes of an extent, and what faults and defects make of them.

use hanare_home::{Bytes, QueueArray, Vector, Vectors};
use hanare_protocol::id::{Gid, Slot};
use hanare_protocol::queue::PortTable;
use hanare_protocol::wire::copies::ExtentWrite;
use hanare_protocol::{Error, Result};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// An extent; a clone is the same bytes.
#[derive(Clone, Debug)]
pub(crate) struct SimExtent {
    slot: Slot,
    bytes: Vector,
    faults: Rc<Faults>,
    /// Hosts map it, as far as this clone knows. True while the pages of a stage are away.
    away: Option<Rc<Cell<bool>>>,
}

/// Defects of an extent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ExtentDefects {
    /// Copies apply each write when the next one comes.
    pub is_late: bool,
    /// Copies that are made do not hear of ports.
    pub forgets_ports: bool,
}

#[derive(Debug, Default)]
struct Faults {
    /// Other nodes may have copies.
    is_copied: Cell<bool>,
    /// The next write fails.
    fails: Cell<bool>,
    /// A write has failed, or will.
    has_failed: Cell<bool>,
    defects: ExtentDefects,
    late: RefCell<Option<ExtentWrite>>,
    /// A defect: writes that were applied before their time.
    applied: RefCell<Vec<ExtentWrite>>,
}

impl SimExtent {
    /// An extent of zeros.
    pub fn new(gid: Gid, slot: Slot, len: u64, defects: ExtentDefects) -> SimExtent {
        let (_, bytes) = Vectors::of(gid, len as usize);
        SimExtent { slot, bytes, faults: Rc::new(Faults { defects, ..Faults::default() }), away: None }
    }

    /// Other nodes may have copies from here on, or have none any more.
    pub fn set_copied(&self, is_copied: bool) {
        self.faults.is_copied.set(is_copied);
    }

    /// True if other nodes may have copies.
    pub fn is_copied(&self) -> bool {
        self.faults.is_copied.get()
    }

    /// The same extent where hosts map it, if it has no copies. Its pages are away while `away` is true.
    pub fn mapped(&self, away: &Rc<Cell<bool>>) -> SimExtent {
        SimExtent { away: Some(away.clone()), ..self.clone() }
    }

    /// True if hosts map it.
    pub fn is_mapped(&self) -> bool {
        self.away.is_some()
    }

    /// True while pages that hosts map are away.
    pub fn is_away(&self) -> bool {
        self.away.as_ref().is_some_and(|away| away.get())
    }

    /// True if commands that are under way have it open.
    pub fn is_in_use(&self) -> bool {
        Rc::strong_count(&self.faults) > 1
    }

    /// True if commands on it are admitted.
    pub fn is_open(&self) -> bool {
        !self.is_copied() || self.bytes.is_open()
    }

    /// The next write to it fails.
    pub fn fail_next(&self) {
        self.faults.fails.set(true);
        self.faults.has_failed.set(true);
    }

    /// True if a write to it has failed, or will.
    pub fn has_failed(&self) -> bool {
        self.faults.has_failed.get()
    }

    /// A defect: a write is applied before its time.
    pub fn apply_early(&self, write: &ExtentWrite) -> Vec<u8> {
        self.faults.applied.borrow_mut().push(write.clone());
        self.bytes.apply(write).expect("vectors do not fail")
    }

    /// The word at an offset.
    pub fn word(&self, at: u64) -> u64 {
        self.bytes.load_word(at, 8).expect("a vector has its bytes")
    }

    /// All its bytes.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len_bytes() as usize];
        self.bytes.read(0, &mut bytes).expect("a vector has its bytes");
        bytes
    }

    fn fail_once(&self) -> Result<()> {
        match self.faults.fails.take() {
            true => Err(Error::System { what: "write".to_owned(), reason: "no memory".to_owned() }),
            false => Ok(()),
        }
    }
}

impl Bytes for SimExtent {
    type Queues = <Vector as Bytes>::Queues;

    fn gid(&self) -> Gid {
        Bytes::gid(&self.bytes)
    }

    fn slot(&self) -> Slot {
        self.slot
    }

    fn len_bytes(&self) -> u64 {
        self.bytes.len_bytes()
    }

    /// Holders of copies have all writes in one order, so none goes beside it.
    fn is_by_pages(&self) -> bool {
        self.is_copied()
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
        if !self.faults.defects.is_late || self.is_open() {
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

    fn ports(&self) -> Vec<PortTable> {
        self.bytes.ports()
    }

    fn set_ports(&self, ports: &[PortTable]) -> bool {
        self.faults.defects.forgets_ports || self.bytes.set_ports(ports)
    }
}
