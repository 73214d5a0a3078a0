//! `hanare.h`, "Locks, groups, words" and "Heap".

use crate::argument::{give, items, place, reference, take, text};
use crate::border::{Failure, code_of};
use crate::code;
use crate::map::{of_shared, shared};
use crate::pool::CPool;
use crate::region::CRegion;
use hanare::{LockGuard, Part, SharedMapping, Strided, Wait, Word};
use hanare_protocol::lock::Mode;
use std::ffi::{c_char, c_int};
use std::sync::Arc;
use std::time::Duration;

const EXCLUSIVE: c_int = 1;
const SHARED: c_int = 2;

const ABANDONED: c_int = 1;

const WAIT_EQUAL: c_int = 1;
const WAIT_NOT_EQUAL: c_int = 2;
const WAIT_AT_LEAST: c_int = 3;
const WAIT_AT_MOST: c_int = 4;
const WAIT_GREATER: c_int = 5;
const WAIT_LESS: c_int = 6;
const WAIT_SIGNED: c_int = 0x100;

/// Target of `hanare_held *`.
pub struct CHeld {
    guard: LockGuard,
}

/// A bound as the header has it.
pub(crate) fn bound(ms: u64) -> Option<Duration> {
    (ms != u64::MAX).then(|| Duration::from_millis(ms))
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_lock(
    pool: *mut CPool,
    name: *const c_char,
    mode: c_int,
    bound_ms: u64,
    held: *mut *mut CHeld,
) -> c_int {
    code_of("hanare_lock", || {
        // SAFETY: the caller's handle and string.
        let (pool, name) = unsafe { (&reference(pool, "pool")?.pool, text(name, "name")?) };
        let into = place(held, "held")?;
        let guard = match (mode_of(mode)?, bound(bound_ms)) {
            (Mode::Exclusive, None) => pool.lock(name)?,
            (Mode::Exclusive, Some(bound)) => pool.lock_within(name, bound)?,
            (Mode::Shared, None) => pool.lock_shared(name)?,
            (Mode::Shared, Some(bound)) => pool.lock_shared_within(name, bound)?,
            (Mode::OneOf(count), bound) => pool.one_of(name, count, bound)?,
        };
        // SAFETY: not NULL, so it is the caller's variable.
        Ok(unsafe { hold(guard, into) })
    })
}

/// The mode for a number of the header.
fn mode_of(mode: c_int) -> Result<Mode, Failure> {
    match mode {
        EXCLUSIVE => Ok(Mode::Exclusive),
        SHARED => Ok(Mode::Shared),
        count if count < 0 => Ok(Mode::OneOf(count.unsigned_abs())),
        _ => Err(Failure::Argument(format!("mode {mode} is none of HANARE_EXCLUSIVE, HANARE_SHARED and HANARE_ONE_OF(count)"))),
    }
}

/// Gives a lock to the caller, and says whether it was abandoned.
///
/// # Safety
/// `into` is the caller's variable.
unsafe fn hold(guard: LockGuard, into: *mut *mut CHeld) -> c_int {
    let code = if guard.was_abandoned() { ABANDONED } else { code::OK };
    // SAFETY: promised by the caller.
    unsafe { give(CHeld { guard }, into) };
    code
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_lock_at(
    region: *mut CRegion,
    offset: u64,
    mode: c_int,
    bound_ms: u64,
    held: *mut *mut CHeld,
) -> c_int {
    code_of("hanare_lock_at", || {
        // SAFETY: the caller's handle.
        let region = unsafe { reference(region, "region") }?;
        let into = place(held, "held")?;
        let lock = region.region.lock_at(offset);
        let lock = match mode_of(mode)? {
            Mode::Exclusive => lock,
            Mode::Shared => lock.shared(),
            Mode::OneOf(count) => lock.one_of(count),
        };
        let guard = match bound(bound_ms) {
            None => lock.lock()?,
            Some(bound) => lock.lock_within(bound)?,
        };
        // SAFETY: not NULL, so it is the caller's variable.
        Ok(unsafe { hold(guard, into) })
    })
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_wait_condition(held: *mut CHeld, condition: u64, bound_ms: u64) -> c_int {
    code_of("hanare_wait_condition", || {
        // SAFETY: not NULL, so it is the caller's handle, which one thread uses at a time.
        let guard = &mut unsafe { &mut *place(held, "held")? }.guard;
        if !guard.wait(condition, bound(bound_ms))? {
            let what = format!("condition {condition} of lock '{}'", guard.name());
            return Err(hanare::Error::NotInTime { what, after_ms: bound_ms }.into());
        }
        Ok(if guard.was_abandoned() { ABANDONED } else { code::OK })
    })
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_notify(held: *const CHeld, condition: u64, all: c_int) -> c_int {
    code_of("hanare_notify", || {
        // SAFETY: the caller's handle.
        let guard = &unsafe { reference(held, "held") }?.guard;
        if all == 0 {
            guard.notify_one(condition)?
        } else {
            guard.notify_all(condition)?
        }
        Ok(code::OK)
    })
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_permit(pool: *mut CPool, name: *const c_char, mode: u32) -> c_int {
    code_of("hanare_permit", || {
        // SAFETY: the caller's handle and string.
        let (pool, name) = unsafe { (&reference(pool, "pool")?.pool, text(name, "name")?) };
        pool.permit(name, mode)?;
        Ok(code::OK)
    })
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_unlock(held: *mut CHeld) -> c_int {
    code_of("hanare_unlock", || {
        // SAFETY: the header makes this the handle's last call.
        unsafe { take(held, "held") }?.guard.unlock()?;
        Ok(code::OK)
    })
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_group_barrier(pool: *mut CPool, name: *const c_char, parties: u32) -> c_int {
    code_of("hanare_group_barrier", || {
        // SAFETY: the caller's handle and string.
        let (pool, name) = unsafe { (reference(pool, "pool")?, text(name, "name")?) };
        let group = pool.groups.join(&pool.pool, name, parties)?;
        if let Err(error) = group.barrier() {
            pool.groups.leave(&group);
            return Err(error.into());
        }
        Ok(code::OK)
    })
}

/// `hanare_part`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CPart {
    region: *mut CRegion,
    offset: u64,
    len: u64,
}

/// The parts of a list whose mappings these are.
fn parts<'a>(list: &[CPart], mappings: &'a [Arc<SharedMapping>]) -> Vec<Part<'a>> {
    list.iter().zip(mappings).map(|(part, mapping)| Part { mapping, offset: part.offset, len: part.len }).collect()
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_group_barrier_with(
    pool: *mut CPool,
    name: *const c_char,
    parties: u32,
    gives: *const CPart,
    give_count: usize,
    takes: *const CPart,
    take_count: usize,
) -> c_int {
    code_of("hanare_group_barrier_with", || {
        // SAFETY: the caller's handle, string and lists.
        let (pool, name) = unsafe { (reference(pool, "pool")?, text(name, "name")?) };
        // SAFETY: as above.
        let (gives, takes) = unsafe { (items(gives, give_count, "gives")?, items(takes, take_count, "takes")?) };
        let group = pool.groups.join(&pool.pool, name, parties)?;
        let carried = || -> Result<(), Failure> {
            let kept = |parts: &[CPart]| parts.iter().map(|part| shared(part.region)).collect::<Result<Vec<_>, Failure>>();
            let (given, taken) = (kept(gives)?, kept(takes)?);
            Ok(group.barrier_with(&parts(gives, &given), &parts(takes, &taken))?)
        };
        if let Err(failure) = carried() {
            pool.groups.leave(&group);
            return Err(failure);
        }
        Ok(code::OK)
    })
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_bind(held: *mut CHeld, parts: *const CPart, part_count: usize) -> c_int {
    code_of("hanare_bind", || {
        // SAFETY: the caller's list.
        let parts = unsafe { items(parts, part_count, "parts") }?;
        let shape = |part: &CPart| of_shared(part.region, |mapping| mapping.bytes(Strided::contiguous(part.offset, part.len)));
        let shapes = parts.iter().map(shape).collect::<Result<Vec<_>, Failure>>()?;
        // SAFETY: not NULL, so it is the caller's handle, which one thread uses at a time.
        unsafe { &mut *place(held, "held")? }.guard.bind(&shapes)?;
        Ok(code::OK)
    })
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_is_torn(held: *const CHeld) -> c_int {
    code_of("hanare_is_torn", || {
        // SAFETY: the caller's handle.
        Ok(c_int::from(unsafe { reference(held, "held") }?.guard.is_torn()))
    })
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_wait_word(
    region: *mut CRegion,
    offset: u64,
    size: usize,
    how: c_int,
    value: u64,
    bound_ms: u64,
) -> c_int {
    code_of("hanare_wait_word", || {
        // SAFETY: the caller's handle.
        let region = unsafe { reference(region, "region") }?;
        let until = wait_of(size, how, value)?;
        region.region.wait_until(offset, until, bound(bound_ms))?;
        Ok(code::OK)
    })
}

/// The condition on a word of `size` bytes.
fn wait_of(size: usize, how: c_int, value: u64) -> Result<Wait, Failure> {
    let is_signed = how & WAIT_SIGNED != 0;
    let long = || Failure::Argument(format!("value {value} has more than {size} bytes"));
    // A value with a sign comes as C makes an unsigned number of it.
    let word = match (size, is_signed) {
        (2, false) => Word::U16(u16::try_from(value).map_err(|_| long())?),
        (4, false) => Word::U32(u32::try_from(value).map_err(|_| long())?),
        (8, false) => Word::U64(value),
        (2, true) => Word::I16(i16::try_from(value.cast_signed()).map_err(|_| long())?),
        (4, true) => Word::I32(i32::try_from(value.cast_signed()).map_err(|_| long())?),
        (8, true) => Word::I64(value.cast_signed()),
        _ => return Err(Failure::Argument(format!("size {size} is none of 2, 4 and 8"))),
    };
    Ok(match how & !WAIT_SIGNED {
        WAIT_EQUAL => Wait::Equal(word),
        WAIT_NOT_EQUAL => Wait::NotEqual(word),
        WAIT_AT_LEAST => Wait::AtLeast(word),
        WAIT_AT_MOST => Wait::AtMost(word),
        WAIT_GREATER => Wait::Greater(word),
        WAIT_LESS => Wait::Less(word),
        _ => return Err(Failure::Argument(format!("how {how} is none of HANARE_WAIT_…"))),
    })
}

/// `hanare_word`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CWord {
    offset: u64,
    size: usize,
    how: c_int,
    value: u64,
}

/// The words of a call.
///
/// # Safety
/// There are so many at `words`.
unsafe fn words(words: *const CWord, count: usize) -> Result<Vec<(u64, Wait)>, Failure> {
    // SAFETY: promised by the caller.
    let words = unsafe { items(words, count, "words") }?;
    words.iter().map(|word| Ok((word.offset, wait_of(word.size, word.how, word.value)?))).collect()
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_wait_any_word(
    region: *mut CRegion,
    list: *const CWord,
    count: usize,
    bound_ms: u64,
    which: *mut usize,
) -> c_int {
    code_of("hanare_wait_any_word", || {
        // SAFETY: the caller's handle, and its words.
        let (region, list) = unsafe { (reference(region, "region")?, words(list, count)?) };
        let into = place(which, "which")?;
        let (found, _) = region.region.wait_for_any(&list, bound(bound_ms))?;
        // SAFETY: not NULL, so it is the caller's variable.
        unsafe { into.write(found) };
        Ok(code::OK)
    })
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_wait_all_words(region: *mut CRegion, list: *const CWord, count: usize, bound_ms: u64) -> c_int {
    code_of("hanare_wait_all_words", || {
        // SAFETY: the caller's handle, and its words.
        let (region, list) = unsafe { (reference(region, "region")?, words(list, count)?) };
        region.region.wait_for_all(&list, bound(bound_ms))?;
        Ok(code::OK)
    })
}

/// Every type of C is at home at a multiple of this, and no block begins elsewhere.
const ALIGN: u64 = hanare_protocol::limits::GRANULE_LEN_MIN;

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_block_size(region: *mut CRegion, offset: u64, size: *mut u64) -> c_int {
    code_of("hanare_block_size", || {
        // SAFETY: the caller's handle.
        let region = unsafe { reference(region, "region") }?;
        let into = place(size, "size")?;
        let len = region.region.heap().block_len(offset)?;
        // SAFETY: not NULL, so it is the caller's variable.
        unsafe { into.write(len) };
        Ok(code::OK)
    })
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_malloc(region: *mut CRegion, size: u64, offset: *mut u64) -> c_int {
    code_of("hanare_malloc", || {
        // SAFETY: the caller's handle.
        let region = unsafe { reference(region, "region") }?;
        let into = place(offset, "offset")?;
        let block = region.region.heap().allocate(size, ALIGN)?;
        // SAFETY: not NULL, so it is the caller's variable.
        unsafe { into.write(block) };
        Ok(code::OK)
    })
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_malloc_aligned(region: *mut CRegion, size: u64, align: u64, offset: *mut u64) -> c_int {
    code_of("hanare_malloc_aligned", || {
        // SAFETY: the caller's handle.
        let region = unsafe { reference(region, "region") }?;
        let into = place(offset, "offset")?;
        let block = region.region.heap().allocate(size, align)?;
        // SAFETY: not NULL, so it is the caller's variable.
        unsafe { into.write(block) };
        Ok(code::OK)
    })
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_free(region: *mut CRegion, offset: u64) -> c_int {
    code_of("hanare_free", || {
        // SAFETY: the caller's handle.
        unsafe { reference(region, "region") }?.region.heap().free(offset)?;
        Ok(code::OK)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The header's text after `#define HANARE_<name> `.
    fn in_header(name: &str) -> &'static str {
        let start = format!("#define HANARE_{name} ");
        let line = include_str!("../include/hanare.h").lines().find_map(|line| line.strip_prefix(&start));
        line.and_then(|rest| rest.split_whitespace().next()).unwrap_or_default()
    }

    #[test]
    fn the_numbers_are_the_headers() {
        let numbers = [
            ("EXCLUSIVE", EXCLUSIVE),
            ("SHARED", SHARED),
            ("ABANDONED", ABANDONED),
            ("WAIT_EQUAL", WAIT_EQUAL),
            ("WAIT_NOT_EQUAL", WAIT_NOT_EQUAL),
            ("WAIT_AT_LEAST", WAIT_AT_LEAST),
            ("WAIT_AT_MOST", WAIT_AT_MOST),
            ("WAIT_GREATER", WAIT_GREATER),
            ("WAIT_LESS", WAIT_LESS),
        ];
        for (name, number) in numbers {
            assert_eq!(in_header(name), number.to_string(), "{name}");
        }
        assert_eq!(in_header("WAIT_SIGNED"), format!("{WAIT_SIGNED:#x}"));
        assert_eq!((in_header("FOREVER"), bound(u64::MAX), bound(3)), ("UINT64_MAX", None, Some(Duration::from_millis(3))));
    }
}
