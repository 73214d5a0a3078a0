//! `hanare.h`, "Pool".

use crate::argument::{give, items, place, reference, take, text, write_sized};
use crate::border::{Failure, Outcome, code_of};
use crate::code;
use crate::group_ranks::GroupRanks;
use hanare::face::{ProgramFace, use_as};
use hanare::tenant_file::TenantFile;
use hanare::{Pool, Trust};
use std::ffi::{c_char, c_int};

/// Target of `hanare_pool *`. A clone is the same attachment.
pub struct CPool {
    pub(crate) pool: Pool,
    /// Left when the handle goes.
    pub(crate) groups: GroupRanks,
    /// Made by `hanare_trusting`: its end is not that of the program's part in groups.
    is_second: bool,
}

impl CPool {
    fn new(pool: Pool) -> CPool {
        CPool { pool, groups: GroupRanks::default(), is_second: false }
    }
}

/// See `hanare.h`.
#[unsafe(no_mangle)]
pub extern "C" fn hanare_use_as(face: c_int) -> c_int {
    code_of("hanare_use_as", || {
        let face = match face {
            4 => ProgramFace::C,
            5 => ProgramFace::Fortran,
            7 => ProgramFace::OpenShmem,
            other => return Err(Failure::Argument(format!("face {other} is none of HANARE_FACE_C … HANARE_FACE_OPENSHMEM"))),
        };
        use_as(face);
        Ok(code::OK)
    })
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_attach(pool: *mut *mut CPool) -> c_int {
    code_of("hanare_attach", || {
        let into = place(pool, "pool")?;
        use_as(ProgramFace::C);
        // SAFETY: not NULL, so it is the caller's variable.
        unsafe { give(CPool::new(Pool::attach()?), into) };
        Ok(code::OK)
    })
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_attach_to(address: *const c_char, pool: *mut *mut CPool) -> c_int {
    code_of("hanare_attach_to", || {
        let into = place(pool, "pool")?;
        // SAFETY: the caller's string.
        let address = unsafe { text(address, "address") }?;
        use_as(ProgramFace::C);
        // SAFETY: not NULL, so it is the caller's variable.
        unsafe { give(CPool::new(Pool::attach_to(address, None)?), into) };
        Ok(code::OK)
    })
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_attach_as(address: *const c_char, tenant_file: *const c_char, pool: *mut *mut CPool) -> c_int {
    code_of("hanare_attach_as", || {
        let into = place(pool, "pool")?;
        // SAFETY: the caller's strings.
        let file = unsafe { text(tenant_file, "tenant_file") }?;
        let address = match address.is_null() {
            true => hanare::settings::node_socket(),
            // SAFETY: the same.
            false => unsafe { text(address, "address") }?.to_owned(),
        };
        use_as(ProgramFace::C);
        // SAFETY: not NULL, so it is the caller's variable.
        unsafe { give(CPool::new(Pool::attach_as(&address, None, Some(TenantFile(file.into())))?), into) };
        Ok(code::OK)
    })
}

/// `HANARE_ANYONE` of the header.
const ANYONE: u32 = u32::MAX;

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_trusting(pool: *mut CPool, users: *const u32, count: usize, trusting: *mut *mut CPool) -> c_int {
    code_of("hanare_trusting", || {
        // SAFETY: the caller's handle.
        let pool = unsafe { &reference(pool, "pool")?.pool };
        let into = place(trusting, "trusting")?;
        // SAFETY: the caller's numbers.
        let users = unsafe { items(users, count, "users") }?;
        let trust = users.iter().fold(Trust::own(pool), |trust, user| match *user {
            ANYONE => trust.and_anyone(),
            uid => trust.and_user(uid),
        });
        // SAFETY: not NULL, so it is the caller's variable.
        unsafe { give(CPool { is_second: true, ..CPool::new(pool.trusting(trust)) }, into) };
        Ok(code::OK)
    })
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_detach(pool: *mut CPool) -> c_int {
    code_of("hanare_detach", || {
        // SAFETY: the header makes this the handle's last call.
        let pool = unsafe { take(pool, "pool") }?;
        if !pool.is_second {
            pool.pool.leave();
        }
        pool.pool.check_stores()?;
        Ok(code::OK)
    })
}

/// Answers a question about a pool with a number.
///
/// # Safety
/// The handle is `NULL` or valid.
unsafe fn ask(call: &'static str, pool: *const CPool, question: impl FnOnce(&Pool) -> Outcome) -> c_int {
    code_of(call, || {
        // SAFETY: promised by the caller.
        question(unsafe { &reference(pool, "pool")?.pool })
    })
}

pub(crate) fn count(number: u32) -> c_int {
    c_int::try_from(number).unwrap_or(c_int::MAX)
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_rank(pool: *const CPool) -> c_int {
    // SAFETY: the caller's handle.
    unsafe { ask("hanare_rank", pool, |pool| Ok(count(pool.rank()))) }
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_ranks(pool: *const CPool) -> c_int {
    // SAFETY: the caller's handle.
    unsafe { ask("hanare_ranks", pool, |pool| Ok(count(pool.ranks()))) }
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_node(pool: *const CPool) -> c_int {
    // SAFETY: the caller's handle.
    unsafe { ask("hanare_node", pool, |pool| Ok(count(pool.node().0))) }
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_barrier(pool: *mut CPool) -> c_int {
    // SAFETY: the caller's handle.
    unsafe { ask("hanare_barrier", pool, |pool| Ok(pool.barrier().map(|()| code::OK)?)) }
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_abort(pool: *mut CPool, status: c_int) -> c_int {
    let abort = |pool: &Pool| -> Outcome { pool.abort(status) };
    // SAFETY: the caller's handle.
    unsafe { ask("hanare_abort", pool, abort) }
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_fence(pool: *mut CPool) -> c_int {
    let fence = |pool: &Pool| {
        pool.fence();
        Ok(code::OK)
    };
    // SAFETY: the caller's handle.
    unsafe { ask("hanare_fence", pool, fence) }
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_flush(pool: *mut CPool) -> c_int {
    // SAFETY: the caller's handle.
    unsafe { ask("hanare_flush", pool, |pool| Ok(pool.flush().map(|()| code::OK)?)) }
}

/// `hanare_traffic` of the header.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CTraffic {
    struct_size: usize,
    messages_sent: u64,
    bytes_sent: u64,
    messages_received: u64,
    bytes_received: u64,
}

impl CTraffic {
    pub(crate) fn of(pool: &Pool) -> CTraffic {
        let traffic = pool.traffic();
        CTraffic {
            struct_size: size_of::<CTraffic>(),
            messages_sent: traffic.messages_sent,
            bytes_sent: traffic.bytes_sent,
            messages_received: traffic.messages_received,
            bytes_received: traffic.bytes_received,
        }
    }
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_get_traffic(pool: *const CPool, traffic: *mut CTraffic) -> c_int {
    let fill = |pool: &Pool| {
        // SAFETY: the caller's struct, which begins with its size.
        unsafe { write_sized(&CTraffic::of(pool), traffic, "traffic") }?;
        Ok(code::OK)
    };
    // SAFETY: the caller's handle.
    unsafe { ask("hanare_get_traffic", pool, fill) }
}
