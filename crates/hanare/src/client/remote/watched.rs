//! Requests that are sent and not waited for. Their senders are told of the answers, and go on with something else meanwhile.

use super::{Inner, Patience, Remote};
use crate::client::session::check_lineage;
use hanare_memory::fork::Withheld;
use hanare_protocol::wire::exchange::Query;
use hanare_protocol::wire::sync::SyncRequest;
use hanare_protocol::{Error, Result};
use rustix::event::{EventfdFlags, eventfd};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A copy of a link's event descriptor.
pub(crate) type LinkEvent = (Withheld, OwnedFd);

/// A descriptor that is readable from then on, and the numbers of the requests that have an outcome.
pub(crate) struct Told {
    event: OwnedFd,
    has_news: AtomicBool,
    news: Mutex<Vec<(usize, u64)>>,
}

/// A request that is not waited for.
pub(super) struct Watched {
    seq: u64,
    key: usize,
    told: Arc<Told>,
}

impl Told {
    /// **Errors**: [`Error::System`].
    pub fn new() -> Result<Told> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let refused = |errno: rustix::io::Errno| Error::System { what: "make an event".to_owned(), reason: errno.to_string() };
        Ok(Told { event: event.map_err(refused)?, has_news: AtomicBool::new(false), news: Mutex::default() })
    }

    /// Readable from [`Told::raise`] to [`Told::clear`].
    pub fn event(&self) -> &OwnedFd {
        &self.event
    }

    /// Makes it readable.
    pub fn raise(&self) {
        // The only failure is a counter at its maximum, which is readable all the same.
        let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
    }

    /// Makes it unreadable.
    pub fn clear(&self) {
        let _ = rustix::io::read(&self.event, &mut [0; 8]);
    }

    fn tell(&self, key: usize, seq: u64) {
        self.news.lock().unwrap_or_else(PoisonError::into_inner).push((key, seq));
        // ORDERING: pairs with the swap in `take`.
        self.has_news.store(true, Ordering::Release);
        self.raise();
    }

    /// The keys and numbers of the requests that have an outcome since it was asked last. **Cost**: a load where there are none.
    pub fn take(&self) -> Vec<(usize, u64)> {
        if !self.has_news.load(Ordering::Relaxed) || !self.has_news.swap(false, Ordering::Acquire) {
            return Vec::new();
        }
        std::mem::take(&mut *self.news.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Remote {
    /// Asks for something that clients share. `told` is told under `key` once it has an outcome, which nobody takes: it is
    /// to be forsaken then. Somebody has to move the link, as its descriptor says: [`Remote::attend`].
    ///
    /// **Errors**: those of making a connection, and of sending.
    pub fn start_sync(&self, what: &SyncRequest, patience: Patience, (told, key): (&Arc<Told>, usize)) -> Result<u64> {
        check_lineage(self.lineage)?;
        let mut request = self.draft();
        request.set_query(&Query::Sync(what.clone()), patience);
        let mut inner = self.lock();
        self.connect(&mut inner, self.bound)?;
        // SAFETY: such a request has no memory but its own.
        let seq = unsafe { self.post_on(&mut inner, request) }?;
        inner.watched.push(Watched { seq, key, told: told.clone() });
        Ok(seq)
    }

    /// Drops the outcome of a request, present or not.
    pub fn forsake(&self, seq: u64) {
        let mut inner = self.lock();
        inner.watched.retain(|watched| watched.seq != seq);
        inner.pending.forsake(seq);
    }

    /// Moves the link as far as it goes. While requests are watched, its descriptor tells of what comes from here on. `None` if there is no
    /// connection.
    ///
    /// **Cost**: as of one look for an answer.
    pub fn attend(&self) -> Option<Arc<LinkEvent>> {
        let mut inner = self.lock();
        if self.lineage.is_here() {
            self.progress(&mut inner);
        }
        inner.event.clone()
    }
}

impl Inner {
    /// Tells of the watched requests that have an outcome.
    pub(super) fn tell_watched(&mut self) {
        let Inner { watched, pending, .. } = self;
        watched.retain(|Watched { seq, key, told }| {
            let is_over = pending.get(*seq).is_none_or(|request| request.is_over());
            if is_over {
                told.tell(*key, *seq);
            }
            !is_over
        });
    }
}
