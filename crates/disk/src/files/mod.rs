//! A file system whose bytes lie in the pool, and which several hosts mount at once.
//!
//! ```text
//! kernel ── fuser ──> mount ──> Files ──┬─ names, attributes, locks: Ledger, a log that all mounts share ── Tree, what it builds
//!                                       └─ bytes: Open (written, not yet told) ── Store (blocks of data regions) ── put, get
//!                                  ticker: tells what was written, ends mounts that died, frees what nobody uses any more
//!                                  watch: proves that this mount lives
//! ```
//!
//! docs/files.md is for users; ARCHITECTURE.md tells the effect of a death at each step.

mod answers;
mod blocks;
mod bytes;
mod calls;
mod gate;
mod ledger;
mod locks;
mod log;
mod mount;
mod names;
mod open;
mod owners;
mod parts;
mod plain;
mod record;
mod refusal;
mod session;
mod space;
mod store;
mod tree;
mod turn;
mod users;
mod waits;

#[cfg(any(test, fuzzing))]
pub(crate) use log::fuzz_log;
#[cfg(test)]
pub(crate) use log::fuzz_seeds;
pub use mount::{MountOptions, Mounted, mount};

use bytes::Source;
use gate::Gate;
use hanare::{Error, Pool, Trust};
use ledger::Ledger;
use log::View;
use open::Open;
use owners::Owners;
use record::{Ino, Record, SessionId, Stamp};
use refusal::Result;
use rustix::io::Errno;
use session::Standing;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use store::Store;
use tree::{Inode, Tree};

/// The extended attribute with the placement of a file's bytes. It counts before the first write; things made in a folder inherit it.
pub const PLACE: &[u8] = b"user.hanare.place";

/// A mounted file system, without the kernel.
pub struct Files {
    pool: Pool,
    ledger: Ledger,
    store: Store,
    gate: Gate,
    standing: Standing,
    opens: Mutex<HashMap<Ino, Arc<Open>>>,
    owners: Owners,
    /// True if other mounts see each write at once.
    is_coherent: bool,
}

impl Files {
    /// Opens a file system, or makes it; this does not yet join its mounts. Each of its regions has to belong to this user or a trusted
    /// one.
    ///
    /// **Errors**: the pool's; [`Error::NotTrusted`]; [`Error::BadUse`] for a file system that has another number of copies.
    pub fn open(pool: &Pool, name: &str, options: &MountOptions) -> Result<Files, Error> {
        let MountOptions { trusted, copies, is_coherent, .. } = options;
        let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let pool = pool.trusting(trusted.iter().fold(Trust::own(pool), |trust, uid| trust.and_user(*uid)));
        let ledger = Ledger::open(&pool, name, *copies, || Tree::new(uid, gid, 0o755, Stamp::now()))?;
        let owners = Owners::new(&pool, [ledger.front(), &ledger.known().log], trusted);
        Ok(Files {
            store: Store::new(&pool, ledger.parts()),
            pool,
            ledger,
            owners,
            gate: Gate::default(),
            standing: Standing::new(name),
            opens: Mutex::default(),
            is_coherent: *is_coherent,
        })
    }

    /// Removes a file system that this process made and nobody has used, after its mount failed.
    fn remove_unused(&self) {
        if let Err(error) = self.ledger.remove_unused() {
            tracing::warn!("the regions of {} stay: {error}", self.ledger.parts().name());
        }
    }

    /// The mount's number. **Errors**: `EIO` while it has none, because others may take it for dead.
    fn session(&self) -> Result<SessionId> {
        self.standing.session()
    }

    fn opens(&self) -> MutexGuard<'_, HashMap<Ino, Arc<Open>>> {
        self.opens.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The mount's state of a file beyond the log, if there is any.
    fn opened(&self, ino: Ino) -> Option<Arc<Open>> {
        self.opens().get(&ino).cloned()
    }

    /// [`Files::opened`], made where it is not there.
    fn open_entry(&self, ino: Ino) -> Arc<Open> {
        self.opens().entry(ino).or_insert_with(|| Arc::new(Open::new(ino))).clone()
    }

    /// Opens a file. Returns true if the kernel's cached pages still have its bytes.
    pub fn open_file(&self, ino: Ino) -> Result<bool> {
        let change = {
            let view = self.ledger.view()?;
            view.tree.inode(ino).ok_or(Errno::STALE)?.change
        };
        let open = self.open_entry(ino);
        let mut pending = open.write();
        pending.handles += 1;
        let is_cached = pending.cached == Some(change);
        pending.cached = Some(change);
        Ok(is_cached)
    }

    /// Closes a handle, whose writes went to the log at the flush before.
    pub fn close_file(&self, ino: Ino) {
        let Some(open) = self.opened(ino) else { return };
        let is_last = {
            let mut pending = open.write();
            pending.handles = pending.handles.saturating_sub(1);
            pending.handles == 0
        };
        if is_last {
            // The ticker tries failures of this again.
            let _ = self.flush(ino);
            self.let_go(&open);
        }
    }

    /// Forgets a file that is open nowhere and has nothing to tell.
    fn let_go(&self, open: &Arc<Open>) {
        let mut pending = open.write();
        if pending.handles > 0 || pending.is_dirty() {
            return;
        }
        if pending.is_held
            && let Ok(session) = self.session()
            && self.ledger.commit(|_| Ok((vec![Record::Release { session, ino: open.ino }], ()))).is_ok()
        {
            pending.is_held = false;
        }
        // The change that the kernel's pages show stays known, while there is room for it.
        let mut opens = self.opens();
        let is_used = Arc::strong_count(open) > 2;
        if !is_used && (pending.cached.is_none() || opens.len() > CACHED_COUNT_MAX) {
            opens.remove(&open.ino);
        }
    }

    /// Looks at a file, link or folder as this mount sees it, with its writes that are not in the log yet.
    pub fn with<T>(&self, ino: Ino, look: impl FnOnce(&Inode, &Source<'_>) -> T) -> Result<T> {
        drop(self.view()?);
        self.with_known(ino, look)
    }

    /// [`Files::with`], without a look at later records of others.
    fn with_known<T>(&self, ino: Ino, look: impl FnOnce(&Inode, &Source<'_>) -> T) -> Result<T> {
        let open = self.opened(ino);
        let pending = open.as_ref().map(|open| open.read());
        let view = self.ledger.known();
        let inode = view.tree.inode(ino).ok_or(Errno::NOENT)?;
        Ok(look(inode, &Source { inode, pending: pending.as_deref() }))
    }

    /// The state, with all records of others.
    fn view(&self) -> Result<std::sync::RwLockReadGuard<'_, View>> {
        self.ledger.view()
    }

    /// True if other mounts may change bytes that this one's kernel has cached.
    pub fn is_shared(&self) -> bool {
        self.is_coherent || self.ledger.known().tree.sessions.len() > 1
    }

    /// True if each write is told at once.
    pub fn is_coherent(&self) -> bool {
        self.is_coherent
    }
}

/// Most closed files whose state in the kernel's page cache is remembered.
const CACHED_COUNT_MAX: usize = 1 << 16;
