//! The supply of a lender's files: main memory, perhaps of some NUMA nodes, or ranges of a DAX device or file.

use super::dax::DaxFile;
use crate::capacity;
use crate::file::{self, Pages};
use crate::mapping::Mapping;
use crate::numa;
use hanare_protocol::id::Rights;
use hanare_protocol::limits::PAGE_LEN;
use hanare_protocol::numa::{NumaSet, NumaWish};
use hanare_protocol::size::Size;
use hanare_protocol::wire::backing::BackingKind;
use hanare_protocol::wire::control::FilePart;
use hanare_protocol::{Error, Result};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;

/// Memory that a lender is to lend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Main memory: of these NUMA nodes, or as the kernel chooses.
    Memory(Option<NumaWish>),
    /// A DAX device, or a file.
    Dax(PathBuf),
}

impl Default for Source {
    fn default() -> Source {
        Source::Memory(None)
    }
}

/// The source, found and checked.
#[derive(Debug)]
pub enum Supply {
    Memory(Option<NumaSet>),
    Dax(Arc<DaxFile>),
}

/// Memory of one slab.
#[derive(Debug)]
pub enum Backed {
    /// A memory file of its own.
    File(OwnedFd),
    /// Ranges of a file that others share, given back when it is dropped.
    Ranges(Arc<DaxFile>, Vec<Range<u64>>),
}

impl Supply {
    /// Finds a source of so many bytes.
    pub fn find(source: &Source, bytes: u64) -> Result<Supply> {
        match source {
            Source::Dax(path) => DaxFile::open(path, bytes).map(|dax| Supply::Dax(Arc::new(dax))),
            Source::Memory(wish) => {
                check_bytes(bytes, capacity::available())?;
                Ok(Supply::Memory(wish.as_ref().map(|wish| choose(wish, bytes)).transpose()?))
            }
        }
    }

    /// The DAX device or file, if there is one.
    pub fn dax(&self) -> Option<&Arc<DaxFile>> {
        match self {
            Supply::Dax(dax) => Some(dax),
            Supply::Memory(_) => None,
        }
    }

    /// The NUMA nodes that all memory is to come from.
    pub fn numa(&self) -> Option<&NumaSet> {
        match self {
            Supply::Memory(numa) => numa.as_ref(),
            Supply::Dax(_) => None,
        }
    }

    /// The kind of its memory.
    pub fn kind(&self) -> BackingKind {
        self.dax().map_or(BackingKind::Memory, |dax| dax.kind())
    }

    /// Bytes of which all lengths are multiples.
    pub fn grain(&self) -> u64 {
        self.dax().map_or(PAGE_LEN, |dax| dax.grain())
    }

    /// Memory of `len` bytes, all zero.
    pub fn take(&self, len: u64, pages: Pages) -> Result<Backed> {
        match self {
            Supply::Dax(dax) => match dax.take(len) {
                Some(ranges) => Ok(Backed::Ranges(dax.clone(), ranges)),
                None => Err(Error::PoolFull { asked: len, free: 0, withheld: 0 }),
            },
            Supply::Memory(numa) if pages == Pages::Huge => {
                numa::within(numa.as_ref(), || file::create_huge("hanare", len)).map(Backed::File)
            }
            Supply::Memory(numa) => {
                let file = file::create("hanare", len)?;
                numa.as_ref().map_or(Ok(()), |numa| numa::bind(file.as_fd(), len, numa))?;
                Ok(Backed::File(file))
            }
        }
    }
}

impl Backed {
    /// Its file, where no other extent has bytes in it.
    pub fn file(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Backed::File(file) => Some(file.as_fd()),
            Backed::Ranges(..) => None,
        }
    }

    /// Maps it at byte `at` of a mapping.
    pub fn map_into(&self, mapping: &mut Mapping, at: u64, len: u64) -> Result<()> {
        match self {
            Backed::File(file) => mapping.map_file(at, file.as_fd(), FilePart { offset: 0, len, map_len: len }, Rights::Write),
            Backed::Ranges(dax, ranges) => dax.map(ranges, mapping, at),
        }
    }
}

impl Drop for Backed {
    fn drop(&mut self) {
        if let Backed::Ranges(dax, ranges) = self {
            dax.give_back(std::mem::take(ranges));
        }
    }
}

/// The NUMA nodes of a wish, bound once for a try.
fn choose(wish: &NumaWish, bytes: u64) -> Result<NumaSet> {
    let shown = match wish {
        NumaWish::All => "all".to_owned(),
        NumaWish::These(set) => set.to_string(),
    };
    let refused = |reason: String| Error::BadSetting { key: "numa".to_owned(), value: shown.clone(), reason };
    let set = numa::topology().choose(wish, bytes).map_err(refused)?;
    let probe = file::create("hanare-probe", PAGE_LEN)?;
    let help = "in a container allow mbind: its seccomp profile, or CAP_SYS_NICE";
    numa::bind(probe.as_fd(), PAGE_LEN, &set).map_err(|error| refused(format!("{error}; {help}")))?;
    Ok(set)
}

/// Refuses more than the machine has.
pub(super) fn check_bytes(bytes: u64, available: Option<u64>) -> Result<()> {
    let refused = |reason: String| Err(Error::BadSetting { key: "memory".to_owned(), value: Size(bytes).to_string(), reason });
    match available {
        _ if (1..PAGE_LEN).contains(&bytes) => refused(format!("a node lends at least {}, or 0", Size(PAGE_LEN))),
        Some(available) if bytes > available => {
            refused(format!("this machine (or its control group) has {} free", Size(available)))
        }
        _ => Ok(()),
    }
}
