//! Ends of a request for a page, and its deadline.

use crate::client::shared::endpoint::Broken;
use crate::client::shared::fault_contexts::Renewals;
use hanare_protocol::page::{Access, Version};
use rustix::io::Errno;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// A page that this slot claimed.
pub(super) struct Claimed {
    pub page: u64,
    /// The version of the copy that is here.
    pub has: Option<Version>,
    /// The access to ask for: to write where the page is migratory, whatever the thread does.
    pub access: Access,
    /// True if nothing may overtake the grant.
    pub firm: bool,
}

/// Why a page cannot be had.
pub(super) enum Denied {
    /// Its home cannot be reached.
    Home(usize, Broken),
    /// Its newest bytes went with the host that had them.
    Gone,
    /// The host's own state is of no use, or nobody answered within the bound.
    Here(Here),
}

/// Why a page cannot be had though its home can be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Here {
    Late,
    Ended,
    NoMemory,
    NotMapped,
    Damaged,
}

impl Here {
    pub(super) fn words(self) -> &'static str {
        match self {
            Here::Late => "it did not come within HANARE_ANSWER_MS, twice",
            Here::Ended => "this host's node has ended",
            Here::NoMemory => "this host has no memory for it",
            Here::NotMapped => "the kernel would not map it",
            Here::Damaged => "its page words are damaged",
        }
    }
}

impl Denied {
    /// The same for messages.
    pub(super) fn words(&self) -> &'static str {
        match self {
            Denied::Home(_, broken) => broken.words(),
            Denied::Gone => "its newest bytes went with the host that had it",
            Denied::Here(why) => why.words(),
        }
    }
}

/// The last page that could not be had, and why: the error of whoever touched it by a guarded copy. Made inside a signal handler.
#[derive(Default)]
pub(super) struct Denials(AtomicU64);

/// Low bits of a denial: why.
const WHY_BITS: u32 = 8;

impl Denials {
    /// Denials, stored by their numbers from 1 on in this order.
    const ALL: [Denied; 11] = [
        Denied::Gone,
        Denied::Home(0, Broken::Closed),
        Denied::Home(0, Broken::TimedOut),
        Denied::Home(0, Broken::System(Errno::IO)),
        Denied::Home(0, Broken::Nonsense),
        Denied::Home(0, Broken::NotShared),
        Denied::Here(Here::Late),
        Denied::Here(Here::Ended),
        Denied::Here(Here::NoMemory),
        Denied::Here(Here::NotMapped),
        Denied::Here(Here::Damaged),
    ];

    pub(super) fn note(&self, page: u64, denied: &Denied) {
        let why = Denials::ALL.iter().position(|known| known.words() == denied.words()).map_or(0, |at| at + 1);
        self.0.store(page << WHY_BITS | why as u64, Relaxed);
    }

    /// The page and the reason, if there was any.
    pub(super) fn last(&self) -> Option<(u64, &'static Denied)> {
        let last = self.0.load(Relaxed);
        let why = (last & ((1 << WHY_BITS) - 1)) as usize;
        Some((last >> WHY_BITS, Denials::ALL.get(why.checked_sub(1)?)?))
    }
}

/// The outcome of a question.
pub(super) enum Asked {
    /// Granted and mapped.
    Mapped,
    /// Perhaps here, or to be asked for again.
    Again,
    /// An invalidation overtook the grant: the next request for it is one that nothing overtakes.
    Overtaken,
    /// The node gets it.
    Later,
}

/// Deadline of a fault, and connections that were made again for it.
pub(super) struct ClaimPatience {
    pub renewals: Renewals,
    since: Option<Instant>,
    bound: Duration,
    tries: u32,
}

impl ClaimPatience {
    pub(super) fn new(bound: Duration) -> ClaimPatience {
        ClaimPatience { renewals: Renewals::default(), since: None, bound, tries: 0 }
    }

    /// Something happened.
    pub(super) fn begin_anew(&mut self) {
        self.since = None;
    }

    /// Looks at the clock now and then.
    pub(super) fn check(&mut self) -> Result<(), Denied> {
        self.tries = self.tries.wrapping_add(1);
        if self.tries > 1 && self.since.get_or_insert_with(Instant::now).elapsed() > self.bound {
            return Err(Denied::Here(Here::Late));
        }
        Ok(())
    }
}
