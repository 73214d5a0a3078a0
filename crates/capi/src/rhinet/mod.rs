//! `rhinet.h`: the primitives of RHiNET over vector commands, a page cache and a mailbox.
//!
//! | module | holds |
//! |---|---|
//! | [`primitives`] | push, pull, push page |
//! | [`sends`] | send, and the calls that are called as those of sockets |

pub mod primitives;
pub mod sends;

use crate::argument::{give, place, reference, sized, take};
use crate::border::{Failure, Outcome, code_of};
use crate::code;
use crate::group::CGroup;
use crate::pool::CPool;
use hanare::{Gid, Mailbox, MailboxOptions, Message, PageCache, Pool, Region};
use std::collections::{BTreeMap, VecDeque};
use std::ffi::c_int;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Target of `rhinet *`.
pub struct CNet {
    pool: Pool,
    cache: PageCache,
    mailbox: Mailbox,
    waits_by: Completing,
    /// Regions that were used, by their numbers.
    regions: Mutex<BTreeMap<Gid, Arc<Region>>>,
    /// The registered buffer: its first byte as a number, and its length.
    buffer: Mutex<(usize, usize)>,
    /// Messages that were too long for their room, which are the next: one of each thread that received meanwhile.
    next: Mutex<VecDeque<Message>>,
}

/// A party's way of waiting for a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Completing {
    Poll,
    Sleep,
}

/// `rhinet_options` of the header.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CNetOptions {
    struct_size: usize,
    lines: u32,
    completion: c_int,
    receive_len: u64,
}

/// Number of kept handles of regions: some KiB each.
const KEPT_REGIONS: usize = 1024;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl CNet {
    /// Does something with the region of a number. What failed once is opened anew the next time.
    fn with_region<T>(&self, gid: u64, what: impl FnOnce(&Region) -> hanare::Result<T>) -> Outcome<T> {
        let known = lock(&self.regions).get(&Gid(gid)).cloned();
        let region = match known {
            Some(region) => region,
            None => {
                let region = Arc::new(self.pool.open_gid(Gid(gid), None)?);
                let mut regions = lock(&self.regions);
                if regions.len() >= KEPT_REGIONS {
                    regions.clear();
                }
                regions.insert(Gid(gid), region.clone());
                region
            }
        };
        Ok(what(&region).inspect_err(|_| drop(lock(&self.regions).remove(&Gid(gid))))?)
    }
}

/// See `rhinet.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rhinet_open(
    pool: *mut CPool,
    group: *mut CGroup,
    options: *const CNetOptions,
    net: *mut *mut CNet,
) -> c_int {
    code_of("rhinet_open", || {
        // SAFETY: the caller's handles and struct.
        let (pool, group, given) =
            unsafe { (&reference(pool, "pool")?.pool, &reference(group, "group")?.0, sized(options, "options")?) };
        let into = place(net, "net")?;
        let waits_by = match given.completion {
            0 => Completing::Poll,
            1 => Completing::Sleep,
            other => {
                return Err(Failure::Argument(format!("options->completion {other} is neither RHINET_POLL nor RHINET_SLEEP")));
            }
        };
        let receive_len = given.receive_len;
        let messages = MailboxOptions { purpose: "rhinet-", receive_len, ..MailboxOptions::default() };
        let opened = CNet {
            pool: pool.clone(),
            cache: pool.page_cache(given.lines)?,
            mailbox: group.mailbox_with(&messages)?,
            waits_by,
            regions: Mutex::default(),
            buffer: Mutex::default(),
            next: Mutex::default(),
        };
        // SAFETY: not NULL, so it is the caller's variable.
        unsafe { give(opened, into) };
        Ok(code::OK)
    })
}

/// See `rhinet.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rhinet_close(net: *mut CNet) -> c_int {
    code_of("rhinet_close", || {
        // SAFETY: the header makes this the handle's last call.
        drop(unsafe { take(net, "net") }?);
        Ok(code::OK)
    })
}
