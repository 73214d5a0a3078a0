//! An extent of this node: its bytes and their state.

use super::image::Image;
use super::queues::{ExtentQueues, SharedQueues};
use super::spill::{Spill, Spills};
use hanare_home::{QueueArray, QueueArrays};
use hanare_memory::{Extent, Window, vector};
use hanare_protocol::id::Gid;
use hanare_protocol::limits::SMALL_REGION_LEN;
use hanare_protocol::queue::PortTable;
use hanare_protocol::queue::layout::{LINE_LEN, MAGIC};
use hanare_protocol::usage::Usage;
use hanare_protocol::wire::backing::Residence;
use hanare_protocol::wire::queue::{APPENDED_LEN, encode_appended};
use hanare_protocol::{Error, Result};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Called with each spilled unit: the first byte of its array, its queue, its lane, and its bytes with their user.
pub(crate) type SpilledUnit<'a> = dyn FnMut((u64, u64, u32), (&[u8], u32)) -> std::io::Result<()> + 'a;

/// An extent of this node.
pub(crate) struct NodeExtent {
    gid: Gid,
    len: u64,
    memory: Memory,
    spills: Arc<Spills>,
    /// A block of the region's heap, which begins here, was asked for.
    has_heap: AtomicBool,
    /// Users of queues that lie in it, and units that those spilled.
    queues: Mutex<QueueArrays<Spill>>,
    /// Held while pages are taken out of mappings, when they are holes for a moment. Readers beside the service hold it, too.
    steady: Mutex<()>,
    /// Commands under way that change its bytes.
    writers: AtomicUsize,
    /// Its bytes at a moment, while they are written down.
    image: Image,
    /// True if newer bytes of its pages are on hosts that did not return them before this node's end.
    lacks_pages: AtomicBool,
    /// A heap began here whose table went with the process before: no more blocks of it are given out.
    lost_heap: bool,
    /// True while this node is home of the extent and answers; `None` for an extent without copies.
    answers: Option<AtomicBool>,
    /// True while no other node has an extent that could have copies: this one writes it down.
    is_alone: AtomicBool,
    /// Bytes that commands moved of late, by host.
    usage: Mutex<Usage>,
}

/// A command under way that changes bytes of an extent as they are; nobody begins to share it meanwhile.
pub(crate) struct Writing(Arc<NodeExtent>);

impl Writing {
    pub fn new(held: &Arc<NodeExtent>) -> Writing {
        held.writers.fetch_add(1, Ordering::Relaxed);
        Writing(held.clone())
    }

    /// The same for a write in its region's order, which comes while the table of extents is locked, too.
    pub fn ordered(held: &Arc<NodeExtent>) -> Writing {
        let writing = Writing::new(held);
        // ORDERING: pairs with the fence in `Extents::begin_image`.
        fence(Ordering::SeqCst);
        writing
    }
}

impl Clone for Writing {
    fn clone(&self) -> Writing {
        Writing::new(&self.0)
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        // ORDERING: pairs with the load in `NodeExtent::is_written`: what the command wrote is seen by whoever shares the extent then.
        self.0.writers.fetch_sub(1, Ordering::Release);
    }
}

enum Memory {
    /// An extent with files of its own: it stays where it is.
    Whole(Extent, Window),
    /// A small extent: it moves when it gets a file of its own, so commands on it hold the lock.
    Small(Mutex<Extent>),
}

/// A window that stays good while this is held.
pub(crate) enum Reach<'a> {
    Whole(Window),
    Small(MutexGuard<'a, Extent>),
}

impl Reach<'_> {
    pub fn window(&self) -> Window {
        match self {
            Reach::Whole(window) => *window,
            Reach::Small(extent) => window_of(extent),
        }
    }
}

/// The service mapping's bytes.
fn window_of(extent: &Extent) -> Window {
    // SAFETY: the extent is alive where this is used: a `NodeExtent` keeps it until no command uses it any more.
    unsafe { extent.window() }
}

impl NodeExtent {
    /// An extent of a region, made by the lender of what its queues spill.
    pub fn new(gid: Gid, len: u64, extent: Extent, spills: Arc<Spills>) -> NodeExtent {
        let memory = match len {
            0..SMALL_REGION_LEN => Memory::Small(Mutex::new(extent)),
            _ => {
                let window = window_of(&extent);
                Memory::Whole(extent, window)
            }
        };
        let (has_heap, queues, steady, image) = Default::default();
        NodeExtent {
            gid,
            len,
            memory,
            spills,
            has_heap,
            queues,
            steady,
            writers: AtomicUsize::new(0),
            image,
            lacks_pages: AtomicBool::new(false),
            lost_heap: false,
            answers: None,
            is_alone: AtomicBool::new(false),
            usage: Mutex::default(),
        }
    }

    /// Bytes that commands moved of late, by host. They end with this node's life.
    pub fn usage(&self) -> MutexGuard<'_, Usage> {
        self.usage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An extent with copies on other nodes. Nothing is answered before [`NodeExtent::set_open`].
    pub fn copied(self) -> NodeExtent {
        NodeExtent { answers: Some(AtomicBool::new(false)), ..self }
    }

    /// The same for one that was made without. Its writes have an order from here on, and no other node has it yet.
    pub fn take_copies(&mut self) {
        (self.answers, self.is_alone) = (Some(AtomicBool::new(false)), AtomicBool::new(true));
    }

    /// Ends that: nobody else has it, and its writes have no order any more.
    pub fn end_copies(&mut self) {
        self.answers = None;
    }

    /// True if programs use arrays of queues in it.
    pub fn uses_queues(&self) -> bool {
        !self.queues().is_empty()
    }

    /// True if it begins with an array of queues that was read back, with words of the life before.
    pub fn has_restored_queues(&self) -> bool {
        let begins = || vector::load_word(self.reach().window(), 0, 8).is_ok_and(|word| word == MAGIC);
        self.queues().are_restored() && self.len >= LINE_LEN && begins()
    }

    /// True if other nodes have copies of it.
    pub fn has_copies(&self) -> bool {
        self.answers.is_some()
    }

    /// Says whether this node is the only holder of an extent with copies. Returns what was said before.
    pub fn set_alone(&self, is_alone: bool) -> bool {
        self.is_alone.swap(is_alone, Ordering::Relaxed)
    }

    /// True if no other node has its bytes.
    pub fn is_alone(&self) -> bool {
        !self.has_copies() || self.is_alone.load(Ordering::Relaxed)
    }

    /// Says whether this node is home of an extent with copies, and answers.
    pub fn set_open(&self, is_open: bool) {
        if let Some(answers) = &self.answers {
            answers.store(is_open, Ordering::Relaxed);
        }
    }

    /// True if this node may answer for an extent with copies, as long as its lease lasts. True for one without.
    pub fn is_open(&self) -> bool {
        self.answers.as_ref().is_none_or(|answers| answers.load(Ordering::Relaxed))
    }

    /// Refuses links of queues' ports, of which other holders would not know.
    pub fn check_links(&self) -> Result<()> {
        let reason = || "ports of queues with copies have no links".to_owned();
        if self.has_copies() { Err(Error::BadUse { region: self.gid.to_string(), reason: reason() }) } else { Ok(()) }
    }

    /// The region that it is of.
    pub fn gid(&self) -> Gid {
        self.gid
    }

    /// Its length in bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Notes that the region's heap begins here: the home has its table.
    ///
    /// **Errors**: [`Error::BadUse`] where the table went with the process before.
    pub fn begin_heap(&self) -> Result<()> {
        if self.lost_heap {
            let reason = "its bytes were read back from disk, and which blocks of its heap are given out is not among them; make a new region";
            return Err(Error::BadUse { region: self.gid.to_string(), reason: reason.to_owned() });
        }
        self.has_heap.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Runs `with` on the array of queues that begins at `at`.
    ///
    /// **Errors**: [`Error::NoQueue`] where none begins there.
    pub fn with_queues<T>(&self, at: u64, with: impl FnOnce(&mut QueueArray<'_, SharedQueues>) -> Result<T>) -> Result<T> {
        let (mut queues, reach) = (self.queues(), self.reach());
        queues.with((self.gid, at), &ExtentQueues { gid: self.gid, window: reach.window(), spills: &self.spills }, with)
    }

    /// The ports of its arrays of queues that are in use.
    pub fn ports(&self) -> Vec<PortTable> {
        self.queues().tables()
    }

    /// Takes the ports that a home has told of, in place of its own. False for those that no home has.
    pub fn set_ports(&self, ports: &[PortTable]) -> bool {
        self.queues().set_tables((self.gid, self.len), ports)
    }

    fn queues(&self) -> MutexGuard<'_, QueueArrays<Spill>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `with` for each unit that queues here have spilled, the first of a lane first. It gets the first byte of the array, the queue
    /// and the lane.
    ///
    /// **Errors**: those of `with`, which end it.
    pub fn each_spilled(&self, with: &mut SpilledUnit<'_>) -> std::io::Result<()> {
        let queues = self.queues();
        queues.spills().try_for_each(|(at, spill)| spill.each(|unit, uid| with(at, (unit, uid))))
    }

    /// Appends what a command brings to a lane of the array of queues that begins at `at`.
    ///
    /// **Errors**: those of [`NodeExtent::with_queues`] and [`QueueArray::append`].
    pub fn append(&self, at: u64, lane: u32, operand: &[u8]) -> Result<[u8; APPENDED_LEN as usize]> {
        self.with_queues(at, |home| home.append(lane, operand)).map(|(appended, head)| encode_appended(&appended, head))
    }

    /// While this is held no page is a hole because it is being taken out of mappings.
    pub fn steady(&self) -> MutexGuard<'_, ()> {
        self.steady.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Window that commands may leave with a link; a small extent's is only good under its lock.
    pub fn stays(&self) -> Option<Window> {
        match &self.memory {
            Memory::Whole(_, window) => Some(*window),
            Memory::Small(_) => None,
        }
    }

    pub fn reach(&self) -> Reach<'_> {
        match &self.memory {
            Memory::Whole(_, window) => Reach::Whole(*window),
            Memory::Small(extent) => Reach::Small(extent.lock().unwrap_or_else(PoisonError::into_inner)),
        }
    }

    /// Looks where the extent's bytes lie, at `page_count_max` pages at most.
    pub fn residence(&self, page_count_max: usize) -> Residence {
        let _steady = self.steady();
        match &self.memory {
            Memory::Whole(extent, _) => extent.residence(page_count_max),
            Memory::Small(extent) => extent.lock().unwrap_or_else(PoisonError::into_inner).residence(page_count_max),
        }
    }

    /// Runs `with` on the extent, which has files of its own by then.
    pub fn with_own_file<T>(&self, with: impl FnOnce(&Extent) -> Result<T>) -> Result<T> {
        match &self.memory {
            Memory::Whole(extent, _) => with(extent),
            Memory::Small(extent) => {
                let mut extent = extent.lock().unwrap_or_else(PoisonError::into_inner);
                self.spills.lender().own_file(&mut extent)?;
                with(&extent)
            }
        }
    }

    /// The moment whose bytes [`NodeExtent::read_image`] reads is now. A small extent is read in one step.
    pub fn begin_image(&self) {
        if self.stays().is_some() {
            self.image.begin(self.len);
        }
    }

    /// Bytes as they were at the moment of [`NodeExtent::begin_image`], in order.
    pub fn read_image(&self, offset: u64, into: &mut [u8]) -> std::io::Result<()> {
        let (reach, _steady) = (self.reach(), self.steady());
        self.image.read(reach.window(), offset, into)
    }

    /// All was read. Says whether it was of one moment, as far as commands of the node go.
    pub fn end_image(&self) -> bool {
        self.image.end()
    }

    /// Bytes are about to change: of each range the first one, and how many.
    #[inline]
    pub fn will_write(&self, ranges: impl IntoIterator<Item = (u64, u64)>) {
        if let Memory::Whole(_, window) = &self.memory {
            self.image.will_write(*window, ranges);
        }
    }

    /// A restored extent: its heap's table went with the process before, if it had one.
    pub fn restored(self, has_heap: bool) -> NodeExtent {
        NodeExtent { lost_heap: has_heap, queues: Mutex::new(QueueArrays::restored()), ..self }
    }

    /// True if a heap began here whose table went with the process before.
    pub fn has_lost_heap(&self) -> bool {
        self.lost_heap
    }

    /// True if the region's heap began here.
    pub fn has_heap(&self) -> bool {
        self.lost_heap || self.has_heap.load(Ordering::Relaxed)
    }

    /// Says whether newer bytes of its pages are elsewhere, and stay there.
    pub fn set_lacks_pages(&self, lacks: bool) {
        self.lacks_pages.store(lacks, Ordering::Relaxed);
    }

    /// True if newer bytes of its pages are elsewhere: its own are not the programs' last stores.
    pub fn lacks_pages(&self) -> bool {
        self.lacks_pages.load(Ordering::Relaxed)
    }

    /// True if commands that change its bytes as they are are under way.
    pub fn is_written(&self) -> bool {
        // ORDERING: pairs with the end of `Writing`.
        self.writers.load(Ordering::Acquire) > 0
    }
}
