//! The process as a rank of its job: `dn_init` to `dn_finalize`.

use super::board::Boards;
use super::report::code_of;
use crate::argument::write_sized;
use crate::border::{Failure, Outcome, enter};
use crate::code;
use crate::pool::CTraffic;
use hanare::face::{ProgramFace, use_as};
use hanare::{Pool, SharedMapping, launch, settings};
use std::collections::BTreeMap;
use std::ffi::{c_char, c_int};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Once, PoisonError, RwLock};

/// A rank's state.
pub struct Rank {
    /// Its attachment.
    pub pool: Pool,
    /// Tells its unnamed regions and its vector memory from those of other jobs and ranks.
    pub prefix: String,
    /// Its shared regions, by address; each as often as it was asked for.
    pub shared: RwLock<BTreeMap<usize, Vec<Arc<SharedMapping>>>>,
    /// Number of its unnamed regions.
    pub unnamed_count: AtomicU64,
    /// Vector memory, its own and others'.
    pub boards: Boards,
}

static RANK: RwLock<Option<Arc<Rank>>> = RwLock::new(None);

impl Rank {
    fn attach() -> Outcome<Rank> {
        let job = launch::job_rank()?;
        use_as(ProgramFace::C);
        let pool = Pool::attach_to(&settings::node_socket(), job)?;
        let prefix = match job {
            Some(job) => format!("dimmnet.{:032x}", job.job.0),
            // Alone: no other client has this id.
            None => format!("dimmnet.{:x}", pool.client().0),
        };
        let boards = Boards::new(&prefix)?;
        Ok(Rank { pool, prefix, shared: RwLock::default(), unnamed_count: AtomicU64::new(0), boards })
    }
}

/// Runs work on the rank; before `dn_init` it is refused.
#[inline]
pub fn with<T>(work: impl FnOnce(&Rank) -> Outcome<T>) -> Outcome<T> {
    let rank = RANK.read().unwrap_or_else(PoisonError::into_inner);
    work(rank.as_ref().ok_or_else(|| Failure::Use("call dn_init first".to_owned()))?)
}

/// [`with`] for calls that need no `dn_init` before them.
#[inline]
pub fn with_or_init<T>(work: impl FnOnce(&Rank) -> Outcome<T>) -> Outcome<T> {
    let rank = RANK.read().unwrap_or_else(PoisonError::into_inner);
    if let Some(rank) = rank.as_ref() {
        return work(rank);
    }
    drop(rank);
    init()?;
    with(work)
}

/// Makes the process a rank, if it is none yet.
pub fn init() -> Outcome<()> {
    static AT_EXIT: Once = Once::new();
    let mut slot = RANK.write().unwrap_or_else(PoisonError::into_inner);
    if slot.is_none() {
        let rank = Rank::attach()?;
        if rank.pool.ranks() > 1 {
            // Others may reach for this rank's vector memory as soon as they know of it. A pool too full for it hurts
            // only programs that use it, and they are told when they do.
            let _ = rank.boards.own(&rank.pool);
        }
        *slot = Some(Arc::new(rank));
        OWNER.store(std::process::id(), Ordering::Relaxed);
        AT_EXIT.call_once(|| {
            // SAFETY: the function is there until the process ends. That there is no room for it is no reason to fail.
            let _ = unsafe { libc::atexit(at_exit) };
        });
    }
    Ok(())
}

/// The process that became the rank: a child that it forks is none.
static OWNER: AtomicU32 = AtomicU32::new(0);

fn leave(rank: Option<Arc<Rank>>) -> Outcome {
    rank.map_or(Ok(()), |rank| rank.boards.remove_own(&rank.pool))?;
    Ok(code::OK)
}

/// A program that ends without `dn_finalize` leaves no vector memory behind either.
extern "C" fn at_exit() {
    if OWNER.load(Ordering::Relaxed) != std::process::id() {
        return;
    }
    // Another thread may be in the middle of a call: the end of the process does not wait for it. And nobody is left
    // to be told of a failure.
    let _ = enter("dn_finalize", || RANK.try_write().map_or(Ok(code::OK), |mut slot| leave(slot.take())));
}

fn count(number: u32) -> c_int {
    c_int::try_from(number).unwrap_or(c_int::MAX)
}

/// See `dimmnet.h`.
// FEATURE: D2-F5
#[unsafe(no_mangle)]
pub extern "C" fn dn_init(_argc: c_int, _argv: *mut *mut c_char) -> c_int {
    code_of("dn_init", || init().map(|()| code::OK))
}

/// See `dimmnet.h`.
// FEATURE: D2-F5
#[unsafe(no_mangle)]
pub extern "C" fn dn_getrank() -> c_int {
    code_of("dn_getrank", || with(|rank| Ok(count(rank.pool.rank()))))
}

/// See `dimmnet.h`.
// FEATURE: D2-F5
#[unsafe(no_mangle)]
pub extern "C" fn dn_getnodesum() -> c_int {
    code_of("dn_getnodesum", || with(|rank| Ok(count(rank.pool.ranks()))))
}

/// See `dimmnet.h`.
// FEATURE: D2-F8
#[unsafe(no_mangle)]
pub extern "C" fn dn_barrier() -> c_int {
    // Not under the lock: other threads may work while this one waits.
    code_of("dn_barrier", || Ok(with(|rank| Ok(rank.pool.clone()))?.barrier().map(|()| code::OK)?))
}

/// See `dimmnet.h`.
#[unsafe(no_mangle)]
pub extern "C" fn dn_finalize() -> c_int {
    code_of("dn_finalize", || leave(RANK.write().unwrap_or_else(PoisonError::into_inner).take()))
}

/// See `dimmnet.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dn_traffic(traffic: *mut CTraffic) -> c_int {
    code_of("dn_traffic", || {
        with(|rank| {
            // SAFETY: the caller's struct, which begins with its size.
            unsafe { write_sized(&CTraffic::of(&rank.pool), traffic, "traffic") }.map(|()| code::OK)
        })
    })
}
