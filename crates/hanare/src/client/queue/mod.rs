//! Queues in regions: streams of blocks or records from any number of writers to one reader.
//!
//! ```text
//! WritePort ──┬─ on this host: its lane in the mapped region ──────────────────────> ReadPort, QueueSet on this host
//!             └─ elsewhere, or spilled: batches by `append` ──> the queue's node ──> its lane ── get ──> ReadPort elsewhere
//! ```
//!
//! | module | holds |
//! |---|---|
//! | `reach` | an array of queues as a program reaches it: mapped, or by its node |
//! | `remote` | lanes of other hosts: what a port knows of one without its memory |
//! | `writer`, `room`, `reader`, `all` | the ports: of one queue, and of all of an array |
//! | `appends` | what a write port sends to a queue elsewhere, and what came of it |
//! | `links`, `appending` | appends of a write port that go straight to the reader's program |
//! | `linked`, `merged` | what comes so to a read port, beside what lies in its lanes |
//! | `prefix`, `suffix` | bytes that go before an append in its message, and the units behind them |
//! | `set` | several of those for one thread |
//! | `watch` | waiting at a bell, and event descriptors |
//! | `lanes` | the lanes of one queue, read in turns |
//!
//! The queue's node ([`hanare_protocol::queue::home`]) decides which writer has which lane, and who reads.

mod all;
mod appending;
mod appends;
mod lanes;
mod linked;
mod links;
mod merged;
mod prefix;
mod reach;
mod reader;
mod remote;
mod room;
mod set;
mod suffix;
mod watch;
mod writer;

pub use lanes::Unread;
pub(crate) use prefix::BodyPrefix;
pub use reader::ReadPort;
pub use set::QueueSet;
pub use watch::QueueEvent;
pub use writer::WritePort;

use super::create_options::CreateOptions;
use super::pool::Pool;
use super::region::Region;
use hanare_protocol::id::User;
use hanare_protocol::queue::Overflow;
use hanare_protocol::queue::layout::{LANE_STATE_AT, LINE_LEN, QueueForm, READER_AT, SPILLED_AT, TAIL_AT, Unit};
use hanare_protocol::shape::Strided;
use hanare_protocol::{Error, Result};
use reach::QueueReach;
use std::sync::Arc;

/// An array of queues of one form, in a region.
#[derive(Clone)]
pub struct Queues {
    reach: Arc<QueueReach>,
}

/// A queue: blocks of one length, or records, from any number of writers to one reader.
///
/// Units of one writer are read in the order of their commits, each once. Between writers there is no order. A unit is read whole or not at
/// all. A queue is a part of a region. All who use it need the right to write the region, readers too.
///
/// FEATURE: VQ-F5 VQ-F14 VQ-F15
#[derive(Clone)]
pub struct Queue {
    reach: Arc<QueueReach>,
    index: u64,
}

/// Contents of a queue at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueStat {
    /// True if it has a reader.
    pub has_reader: bool,
    /// Contents of each lane.
    pub lanes: Vec<LaneStat>,
}

/// Contents of a lane at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneStat {
    /// True if it has a writer.
    pub has_writer: bool,
    /// Bytes that were committed and not freed. A block counts its length, up to a multiple of 8; a record counts 8 more.
    pub bytes: u64,
    /// Bytes that were committed since the lane was made.
    pub bytes_ever: u64,
    /// Units in the spill.
    pub spilled: u64,
}

impl QueueStat {
    /// Blocks that wait, of a queue of blocks. **Source**: [VQ §5] the command that counts. FEATURE: VQ-F17
    pub fn blocks(&self, form: &QueueForm) -> Option<u64> {
        let Unit::Blocks { len } = form.unit else { return None };
        Some(self.lanes.iter().map(|lane| lane.bytes / form.frame_len(len.into()) + lane.spilled).sum())
    }
}

impl Pool {
    /// Makes a queue as a region of its own. Its node is that of the placement: this program's, unless another is named.
    ///
    /// The queue has copies if the options name them, whatever `hanare run --copies` says. Then all goes by messages to its home, on every host.
    ///
    /// **Errors**: those of [`Pool::create`]; [`Error::BadSetting`] for a form that cannot be; [`Error::BadUse`] for a placement on
    /// several nodes, and for queues with copies that spill.
    pub fn create_queue(&self, name: &str, form: &QueueForm, options: &CreateOptions) -> Result<Queue> {
        self.create_queues(name, 1, form, options)?.queue(0)
    }

    /// Makes `count` queues as a region of its own. **Cost**: that of making the region, for any number of queues. An idle queue takes at
    /// most 192 bytes, a cache line for each further writer, its part of the board, and its blocks. **Errors**: as for
    /// [`Pool::create_queue`].
    ///
    /// FEATURE: VQ-F3 VQ-F4
    pub fn create_queues(&self, name: &str, count: u64, form: &QueueForm, options: &CreateOptions) -> Result<Queues> {
        let options = CreateOptions { copies: options.copies.max(1), ..options.clone() };
        let region = self.create(name, form.array_len(count)?, &options)?;
        let made = check_form(&region, form).and_then(|()| region.put(0, &form.encode(count)));
        if let Err(error) = made {
            drop(region);
            self.remove(name)?;
            return Err(error);
        }
        Queues::at(region, 0)
    }

    /// Opens a queue that is a region of its own, or the first of an array.
    ///
    /// **Errors**: those of [`Pool::open`]; [`Error::NoQueue`]; [`Error::NotTrusted`] where another user made it, and is not named by
    /// [`Pool::trusting`]: who sends tells that user, and who receives acts upon its word.
    pub fn open_queue(&self, name: &str) -> Result<Queue> {
        Queues::at(self.open_trusted(name)?, 0)?.queue(0)
    }

    /// Opens the array of queues that begins at byte `offset` of a region. **Errors**: as for [`Pool::open_queue`].
    pub fn open_queues(&self, name: &str, offset: u64) -> Result<Queues> {
        Queues::at(self.open_trusted(name)?, offset)
    }
}

/// Refuses queues that cannot lie in a region.
fn check_form(region: &Region, form: &QueueForm) -> Result<()> {
    check_placement(region)?;
    if region.copies() > 1 && form.overflow == Overflow::Spill {
        let reason = "queues with copies do not spill; let their writers wait, or create them without copies".to_owned();
        return Err(Error::BadUse { region: region.name().to_owned(), reason });
    }
    Ok(())
}

/// Queues lie whole at one node.
fn check_placement(region: &Region) -> Result<()> {
    if region.layout().extents().count() == 1 {
        return Ok(());
    }
    let reason = "queues lie on one node: create their region with the placement local or node=K, and do not resize it";
    Err(Error::BadUse { region: region.name().to_owned(), reason: reason.to_owned() })
}

impl Region {
    /// Makes `count` queues in this region from byte `offset` on, a multiple of 64. What was there is gone.
    ///
    /// **Cost**: that of filling their memory with zeros. **Errors**: [`Error::BadSetting`]; [`Error::OutOfRange`]; [`Error::BadUse`].
    pub fn make_queues(&self, offset: u64, count: u64, form: &QueueForm) -> Result<()> {
        check_form(self, form)?;
        let len = form.array_len(count)?;
        if !offset.is_multiple_of(LINE_LEN) {
            let reason = format!("queues begin at a multiple of {LINE_LEN}, not at {offset}");
            return Err(Error::BadUse { region: self.name().to_owned(), reason });
        }
        // The first line goes last: until then no queue is there.
        self.fill(Strided::contiguous(offset, len), &[0; LINE_LEN as usize])?;
        self.put(offset, &form.encode(count))
    }
}

impl Queues {
    fn at(region: Region, offset: u64) -> Result<Queues> {
        check_placement(&region)?;
        Ok(Queues { reach: Arc::new(QueueReach::new(region, offset)?) })
    }

    /// The number of queues.
    pub fn count(&self) -> u64 {
        self.reach.count()
    }

    /// Their form.
    pub fn form(&self) -> &QueueForm {
        self.reach.form()
    }

    /// The queue of an index. **Errors**: [`Error::NoQueue`] beyond the last.
    pub fn queue(&self, index: u64) -> Result<Queue> {
        self.reach.check(index)?;
        Ok(Queue { reach: self.reach.clone(), index })
    }

    /// Becomes the reader of all of them. **Errors**: as for [`Queue::reader`].
    pub fn set(&self) -> Result<QueueSet> {
        let mut set = QueueSet::default();
        set.add(self)?;
        Ok(set)
    }
}

impl Queue {
    /// Its name: that of its region, and its number where the region has several.
    pub fn name(&self) -> String {
        self.reach.name(self.index)
    }

    /// Its form.
    pub fn form(&self) -> &QueueForm {
        self.reach.form()
    }

    /// The user that owned its region when it was opened.
    pub fn owner(&self) -> User {
        self.reach.region().owner()
    }

    /// Becomes a writer of it, in a lane of its own.
    ///
    /// **Cost**: a message each way. **Errors**: [`Error::LimitReached`] if every lane has a writer. [`Error::BadUse`] if the region was
    /// opened for reading. [`Error::IsMapped`] if programs have it mapped coherently. [`Error::NodeLost`].
    ///
    /// FEATURE: VQ-F16
    pub fn writer(&self) -> Result<WritePort> {
        WritePort::new(self.reach.clone(), self.index)
    }

    /// Becomes its reader, and goes on with what the one before has not freed.
    ///
    /// **Cost**: a message each way. **Errors**: [`Error::SecondReader`]; else as for [`Queue::writer`].
    pub fn reader(&self) -> Result<ReadPort> {
        ReadPort::new(self.reach.clone(), self.index)
    }

    /// Its contents. Takes no part in it, and needs the right to read only.
    ///
    /// **Cost**: that of a get, on a queue of many lanes of two. **Errors**: those of [`Region::get`].
    pub fn stat(&self) -> Result<QueueStat> {
        let form = self.form();
        let mut bytes = vec![0; form.bytes_at(0) as usize];
        self.reach.region().get(self.reach.offset(self.index), &mut bytes)?;
        let word = |at: u64| u64::from_le_bytes(*bytes[at as usize..].first_chunk().expect("within the queue's first part"));
        let lane = |lane: u32| {
            let line = form.lane_at(lane);
            let (head, tail) = (word(form.head_at(lane)), word(line + TAIL_AT));
            LaneStat {
                has_writer: word(line + LANE_STATE_AT) == 1,
                // A record is read as soon as its word is there. Then the tail is behind the head for a moment.
                bytes: Some(tail.wrapping_sub(head)).filter(|bytes| *bytes <= form.lane_len()).unwrap_or(0),
                bytes_ever: tail,
                spilled: word(line + SPILLED_AT),
            }
        };
        let has_reader = word(READER_AT) == 1 || self.reach.reader_of_all()? == 1;
        Ok(QueueStat { has_reader, lanes: (0..form.ports).map(lane).collect() })
    }
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue").field("name", &self.name()).field("form", self.form()).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Queues {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queues").field("count", &self.count()).field("form", self.form()).finish_non_exhaustive()
    }
}
