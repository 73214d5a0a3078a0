//! Vector memory: the "SO-DIMM" on a rank's board, a region on that rank's node.

use crate::border::{Failure, Outcome};
use hanare::settings;
use hanare::{CreateOptions, LocalMapping, Pool, Region};
use hanare_memory::Window;
use hanare_protocol::Error;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

/// Bytes of a rank's vector memory where `HANARE_SODIMM` does not say. The paper's boards have several hundred MB;
/// this holds its three matrices of 1024 rows and costs a small pool little.
const LEN: &str = "64M";

/// The rank's vector memory, mapped.
pub struct Board {
    region: Region,
    /// The mapping's bytes.
    window: Window,
    /// Keeps them mapped.
    _mapping: LocalMapping,
}

impl Board {
    /// Its bytes.
    ///
    /// # Safety
    /// No copy of the window is used after the board is dropped.
    #[inline]
    pub unsafe fn window(&self) -> Window {
        self.window
    }

    /// The name of its region.
    pub fn name(&self) -> &str {
        self.region.name()
    }
}

/// The boards that a rank uses.
pub struct Boards {
    prefix: String,
    len: u64,
    own: OnceLock<Board>,
    making: Mutex<()>,
    others: RwLock<BTreeMap<u32, Arc<Region>>>,
}

impl Boards {
    /// No board in use yet. **Errors**: [`Error::BadSetting`] for `HANARE_SODIMM`.
    pub fn new(prefix: &str) -> Outcome<Boards> {
        let len = settings::size("HANARE_SODIMM", Some(LEN))?.unwrap_or_default();
        let others = RwLock::default();
        Ok(Boards { prefix: prefix.to_owned(), len, own: OnceLock::new(), making: Mutex::default(), others })
    }

    fn name(&self, rank: u32) -> String {
        format!("{}.{rank}", self.prefix)
    }

    /// The rank's board, made at the first call.
    #[inline]
    pub fn own(&self, pool: &Pool) -> Outcome<&Board> {
        match self.own.get() {
            Some(board) => Ok(board),
            None => self.make(pool),
        }
    }

    #[cold]
    fn make(&self, pool: &Pool) -> Outcome<&Board> {
        let _alone = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        if self.own.get().is_none() {
            let region =
                pool.create(&self.name(pool.rank()), self.len, &CreateOptions { copies: 1, ..CreateOptions::default() })?;
            let mapping = region.map_local()?;
            // SAFETY: it leaves the board only by `Board::window`.
            let window = unsafe { mapping.window() };
            let _ = self.own.set(Board { region, window, _mapping: mapping });
        }
        Ok(self.own.get().expect("just made"))
    }

    /// Another rank's board.
    pub fn other(&self, pool: &Pool, rank: u32) -> Outcome<Arc<Region>> {
        if let Some(region) = self.others.read().unwrap_or_else(PoisonError::into_inner).get(&rank) {
            return Ok(region.clone());
        }
        let region = match pool.open_trusted(&self.name(rank)) {
            Err(Error::UnknownRegion { .. }) => {
                let reason = "it gets it in dn_init; wait for it with dn_barrier";
                return Err(Failure::Use(format!("rank {rank} has no vector memory (any more, or yet): {reason}")));
            }
            other => Arc::new(other?),
        };
        self.others.write().unwrap_or_else(PoisonError::into_inner).insert(rank, region.clone());
        Ok(region)
    }

    /// Removes this rank's board from the pool.
    pub fn remove_own(&self, pool: &Pool) -> Outcome<()> {
        match self.own.get() {
            Some(board) => Ok(pool.remove(board.name())?),
            None => Ok(()),
        }
    }
}
