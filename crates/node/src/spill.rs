//! Units that queues of this node have spilled: pool memory of this node, by the user whose writers did. [`Allowances`] decides how much.
//!
//! Safety: windows are of pieces that the spill owns.

use hanare_memory::{Extent, Lender, Window};
use hanare_protocol::limits::QUEUE_SPILL_LEN;
use hanare_protocol::queue::allowance::{Allowances, SpillQuestion};
use hanare_protocol::queue::{NoSpill, Store};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// The memory of all spilled units of this node.
pub(crate) struct Spills {
    lender: Arc<Lender>,
    begun: Instant,
    allowances: Mutex<Allowances>,
    /// The coordinator is to be asked something, and the thread that does it was not called.
    calls: AtomicBool,
}

impl Spills {
    pub fn new(lender: Arc<Lender>) -> Arc<Spills> {
        let (allowances, calls) = Default::default();
        Arc::new(Spills { lender, begun: Instant::now(), allowances, calls })
    }

    /// The lender of extents and spilled units.
    pub fn lender(&self) -> &Arc<Lender> {
        &self.lender
    }

    /// Bytes that are spilled.
    pub fn len(&self) -> u64 {
        self.allowances().total()
    }

    /// The node is a member, of a pool with that quota for each user.
    pub fn set_quota(&self, quota: Option<u64>) {
        self.allowances().set_quota(quota);
    }

    /// True if the thread that asks the coordinator is to be called; told once.
    pub fn take_call(&self) -> bool {
        self.calls.load(Ordering::Relaxed) && self.calls.swap(false, Ordering::Relaxed)
    }

    /// Questions to the coordinator.
    pub fn due(&self) -> Vec<SpillQuestion> {
        self.allowances().due()
    }

    /// The answer to one of them.
    pub fn answered(&self, uid: u32, answer: Option<(u64, u64)>) {
        let now_ms = self.now_ms();
        self.allowances().answered(now_ms, uid, answer);
    }

    /// From time to time: gives back what users do not need any more.
    pub fn trim(&self) {
        self.allowances().trim();
    }

    fn now_ms(&self) -> u64 {
        self.begun.elapsed().as_millis() as u64
    }

    fn allowances(&self) -> MutexGuard<'_, Allowances> {
        self.allowances.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Memory for `len` bytes of a user's units.
    fn take(self: &Arc<Spills>, uid: u32, len: u64) -> Result<Piece, NoSpill> {
        let now_ms = self.now_ms();
        let (taken, is_due) = {
            let mut allowances = self.allowances();
            (allowances.take(now_ms, uid, len), allowances.is_due())
        };
        if is_due {
            self.calls.store(true, Ordering::Relaxed);
        }
        taken?;
        let taken = SpillCharge { spills: self.clone(), uid, len };
        // Why there is none is no business of the writer's.
        let extent = self.lender.make(len).map_err(|_| NoSpill::PoolFull)?;
        Ok(Piece { extent, begin: 0, end: 0, taken })
    }
}

/// Memory that counts as a user's as long as this is there.
struct SpillCharge {
    spills: Arc<Spills>,
    uid: u32,
    len: u64,
}

impl Drop for SpillCharge {
    fn drop(&mut self) {
        self.spills.allowances().give_back(self.uid, self.len);
    }
}

struct Piece {
    // Dropped first: what is given back can be taken.
    extent: Extent,
    begin: usize,
    end: usize,
    taken: SpillCharge,
}

impl Piece {
    fn window(&self) -> Window {
        // SAFETY: the piece owns the extent, and the window is used before it goes.
        unsafe { self.extent.window() }
    }

    /// The unit whose length word is at byte `at`.
    fn unit(&self, at: usize) -> Vec<u8> {
        let (window, mut word) = (self.window(), [0; size_of::<u64>()]);
        // The piece is this node's alone. Bytes that cannot be read were lost with the machine's memory, which ends the node.
        window.slice(at, word.len()).read_into(&mut word).expect("memory of this node alone");
        let mut unit = vec![0; u64::from_le_bytes(word) as usize];
        window.slice(at + word.len(), unit.len()).read_into(&mut unit).expect("memory of this node alone");
        unit
    }
}

/// Spilled units of one lane: pieces with a length word before each unit.
pub(crate) struct Spill {
    spills: Arc<Spills>,
    pieces: VecDeque<Piece>,
    count: u64,
    /// The first unit, once it was asked for.
    front: Option<Vec<u8>>,
}

impl Spill {
    pub fn new(spills: Arc<Spills>) -> Spill {
        Spill { spills, pieces: VecDeque::new(), count: 0, front: None }
    }

    /// Calls `with` for each unit and its user, the first first. **Errors**: its own, which end it.
    pub fn each(&self, mut with: impl FnMut(&[u8], u32) -> std::io::Result<()>) -> std::io::Result<()> {
        for piece in &self.pieces {
            let mut at = piece.begin;
            while at < piece.end {
                let unit = piece.unit(at);
                at += size_of::<u64>() + unit.len();
                with(&unit, piece.taken.uid)?;
            }
        }
        Ok(())
    }
}

impl Store for Spill {
    fn push(&mut self, unit: &[u8], uid: u32) -> Result<(), NoSpill> {
        let len = size_of::<u64>() + unit.len();
        let has_room = |piece: &Piece| piece.taken.uid == uid && piece.extent.len() as usize - piece.end >= len;
        if !self.pieces.back().is_some_and(has_room) {
            let piece = self.spills.take(uid, QUEUE_SPILL_LEN.max(len as u64))?;
            self.pieces.push_back(piece);
        }
        let piece = self.pieces.back_mut().expect("one was just made");
        let window = piece.window();
        let word = window.slice(piece.end, size_of::<u64>()).write_from(&(unit.len() as u64).to_le_bytes());
        let rest = window.slice(piece.end + size_of::<u64>(), unit.len()).write_from(unit);
        word.and(rest).map_err(|_| NoSpill::PoolFull)?;
        piece.end += len;
        self.count += 1;
        Ok(())
    }

    fn front(&mut self) -> Option<&[u8]> {
        if self.front.is_none() {
            let piece = self.pieces.front()?;
            self.front = Some(piece.unit(piece.begin));
        }
        self.front.as_deref()
    }

    fn pop(&mut self) {
        let Some(len) = self.front().map(<[u8]>::len) else { return };
        self.front = None;
        self.count -= 1;
        let piece = self.pieces.front_mut().expect("it has the first unit");
        piece.begin += size_of::<u64>() + len;
        if piece.begin == piece.end {
            self.pieces.pop_front();
        }
    }

    fn count(&self) -> u64 {
        self.count
    }
}
