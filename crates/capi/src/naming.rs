//! `hanare.h`, "Naming": the calls that make, find, describe and remove regions.

use crate::argument::{place, reference, sized, text, write_sized};
use crate::attribute::{CAttribute, attributes};
use crate::border::{Failure, Outcome, code_of};
use crate::code;
use crate::pool::CPool;
use crate::region::CRegion;
use hanare::{CreateOptions, Placement, Pool, Region};
use hanare_protocol::id::{Gid, Rights};
use hanare_protocol::wire::control::RegionStat;
use std::ffi::{c_char, c_int, c_void};

/// `hanare_create_options` of the header.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CCreateOptions {
    struct_size: usize,
    placement: *const c_char,
    mode: u32,
    refuse_lost: u32,
    attributes: *const CAttribute,
    attribute_count: usize,
    copies: u32,
}

/// # Safety
/// `NULL`, or the caller's struct that begins with its size.
unsafe fn options(ptr: *const CCreateOptions) -> Outcome<CreateOptions> {
    if ptr.is_null() {
        return Ok(CreateOptions::default());
    }
    // SAFETY: promised by the caller.
    let given = unsafe { sized(ptr, "options") }?;
    // A number above 255 is refused as too many copies.
    let copies = u8::try_from(given.copies).unwrap_or(u8::MAX);
    let mut options = CreateOptions { copies, mode: given.mode, refuse_lost: given.refuse_lost != 0, ..CreateOptions::default() };
    // SAFETY: the caller's list.
    for (name, value) in unsafe { attributes(given.attributes, given.attribute_count) }? {
        let value = value.ok_or_else(|| Failure::Argument(format!("the value of attribute '{name}' is NULL")))?;
        options.attributes.set(&name, value);
    }
    if !given.placement.is_null() {
        // SAFETY: the caller's string.
        options = options.at(unsafe { text(given.placement, "options->placement") }?.parse()?);
    }
    if options.mode & !0o777 != 0 {
        return Err(Failure::Argument(format!("options->mode {:#o} has bits beyond 0777", options.mode)));
    }
    Ok(options)
}

/// # Safety
/// `NULL`, or the caller's string.
pub(crate) unsafe fn placement(ptr: *const c_char) -> Outcome<Placement> {
    if ptr.is_null() {
        return Ok(Placement::Local);
    }
    // SAFETY: promised by the caller.
    Ok(unsafe { text(ptr, "options->placement") }?.parse()?)
}

/// Makes or finds a region and gives its handle to C.
///
/// # Safety
/// All pointers are the caller's, as the header says.
unsafe fn obtain(
    call: &'static str,
    pool: *mut CPool,
    name: *const c_char,
    region: *mut *mut CRegion,
    how: impl FnOnce(&Pool, &str) -> Outcome<Region>,
) -> c_int {
    code_of(call, || {
        // SAFETY: the caller's handle and string.
        let (pool, name) = unsafe { (&reference(pool, "pool")?.pool, text(name, "name")?) };
        let into = place(region, "region")?;
        let region = how(pool, name)?;
        // SAFETY: not NULL, so it is the caller's variable.
        unsafe { CRegion::give(pool, region, into) };
        Ok(code::OK)
    })
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_create(
    pool: *mut CPool,
    name: *const c_char,
    len: u64,
    how: *const CCreateOptions,
    region: *mut *mut CRegion,
) -> c_int {
    // SAFETY: the caller's pointers.
    unsafe { obtain("hanare_create", pool, name, region, |pool, name| Ok(pool.create(name, len, &options(how)?)?)) }
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_create_or_attach(
    pool: *mut CPool,
    name: *const c_char,
    len: u64,
    how: *const CCreateOptions,
    region: *mut *mut CRegion,
) -> c_int {
    // SAFETY: the caller's pointers.
    unsafe {
        let call = "hanare_create_or_attach";
        obtain(call, pool, name, region, |pool, name| Ok(pool.create_or_attach(name, len, &options(how)?)?))
    }
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_open(pool: *mut CPool, name: *const c_char, rights: c_int, region: *mut *mut CRegion) -> c_int {
    let open = |pool: &Pool, name: &str| match rights_of(rights)? {
        None => Ok(pool.open(name)?),
        Some(rights) => Ok(pool.open_for(name, rights)?),
    };
    // SAFETY: the caller's pointers.
    unsafe { obtain("hanare_open", pool, name, region, open) }
}

fn rights_of(number: c_int) -> Outcome<Option<Rights>> {
    match number {
        0 => Ok(None),
        1 => Ok(Some(Rights::Read)),
        2 => Ok(Some(Rights::Write)),
        other => Err(Failure::Argument(format!("rights {other} is none of HANARE_MOST, HANARE_READ, HANARE_WRITE"))),
    }
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_open_gid(pool: *mut CPool, gid: u64, rights: c_int, region: *mut *mut CRegion) -> c_int {
    code_of("hanare_open_gid", || {
        // SAFETY: the caller's handle.
        let pool = unsafe { &reference(pool, "pool")?.pool };
        let into = place(region, "region")?;
        let opened = pool.open_gid(Gid(gid), rights_of(rights)?)?;
        // SAFETY: not NULL, so it is the caller's variable.
        unsafe { CRegion::give(pool, opened, into) };
        Ok(code::OK)
    })
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_resize(pool: *mut CPool, name: *const c_char, len: u64, region: *mut *mut CRegion) -> c_int {
    code_of("hanare_resize", || {
        // SAFETY: the caller's handle and string.
        let (pool, name) = unsafe { (&reference(pool, "pool")?.pool, text(name, "name")?) };
        let longer = pool.resize(name, len)?;
        if !region.is_null() {
            // SAFETY: not NULL, so it is the caller's variable.
            unsafe { CRegion::give(pool, longer, region) };
        }
        Ok(code::OK)
    })
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_remove(pool: *mut CPool, name: *const c_char) -> c_int {
    code_of("hanare_remove", || {
        // SAFETY: the caller's handle and string.
        unsafe { reference(pool, "pool")?.pool.remove(text(name, "name")?)? };
        Ok(code::OK)
    })
}

/// `hanare_region_stat` of the header.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CRegionStat {
    struct_size: usize,
    gid: u64,
    len: u64,
    owner: u32,
    mode: u32,
    node_count: u32,
    lost_node: i32,
    name: [c_char; 256],
    placement: [c_char; 192],
    copies: u32,
    whole_copies: u32,
}

impl CRegionStat {
    fn of(stat: &RegionStat) -> CRegionStat {
        CRegionStat {
            struct_size: size_of::<CRegionStat>(),
            gid: stat.gid.0,
            len: stat.len,
            owner: stat.owner,
            mode: stat.mode,
            node_count: stat.nodes.len() as u32,
            lost_node: stat.lost.map_or(-1, |node| node.0 as i32),
            name: c_array(&stat.name),
            placement: c_array(&stat.placement.to_string()),
            copies: stat.copies.into(),
            whole_copies: stat.whole_copies.into(),
        }
    }
}

/// The text with a zero byte behind it; cut where it is too long, which limits forbid.
fn c_array<const LEN: usize>(text: &str) -> [c_char; LEN] {
    let mut array = [0; LEN];
    for (to, from) in array[..LEN - 1].iter_mut().zip(text.bytes()) {
        *to = from as c_char;
    }
    array
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_stat(pool: *mut CPool, name: *const c_char, stat: *mut CRegionStat) -> c_int {
    code_of("hanare_stat", || {
        // SAFETY: the caller's handle and string.
        let (pool, name) = unsafe { (&reference(pool, "pool")?.pool, text(name, "name")?) };
        let into = place(stat, "stat")?;
        // SAFETY: the caller's struct, which begins with its size.
        unsafe { write_sized(&CRegionStat::of(&pool.stat(name)?), into, "stat") }?;
        Ok(code::OK)
    })
}

/// `hanare_node_bytes` of the header.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CNodeBytes {
    node: u32,
    bytes: u64,
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_stat_nodes(pool: *mut CPool, name: *const c_char, nodes: *mut CNodeBytes, max: usize) -> c_int {
    code_of("hanare_stat_nodes", || {
        // SAFETY: the caller's handle and string.
        let (pool, name) = unsafe { (&reference(pool, "pool")?.pool, text(name, "name")?) };
        if max > 0 {
            place(nodes, "nodes")?;
        }
        let mut lies = pool.stat(name)?.nodes;
        lies.sort_unstable();
        for (index, (node, bytes)) in lies.iter().enumerate().take(max) {
            // SAFETY: not NULL, and room for `max` of them, as the caller says.
            unsafe { nodes.add(index).write(CNodeBytes { node: node.0, bytes: *bytes }) };
        }
        // At most NODE_COUNT_MAX.
        Ok(lies.len() as c_int)
    })
}

/// A caller's function for each region of `hanare_list`.
pub type CEach = Option<unsafe extern "C" fn(stat: *const CRegionStat, closure: *mut c_void) -> c_int>;

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_list(pool: *mut CPool, each: CEach, closure: *mut c_void) -> c_int {
    code_of("hanare_list", || {
        // SAFETY: the caller's handle.
        let pool = unsafe { &reference(pool, "pool")?.pool };
        let each = each.ok_or_else(|| Failure::Argument("each is NULL".to_owned()))?;
        for stat in pool.list()? {
            // SAFETY: the header says what it is called with; the struct is valid during the call.
            let answer = unsafe { each(&CRegionStat::of(&stat), closure) };
            if answer != 0 {
                return Ok(answer);
            }
        }
        Ok(code::OK)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use hanare_protocol::limits::NAME_LEN_MAX;

    const _: () = assert!(NAME_LEN_MAX < 256, "a name and its zero byte fit hanare_region_stat");

    #[test]
    fn texts_end_with_a_zero_byte() {
        assert_eq!(c_array::<4>("ab"), [b'a' as c_char, b'b' as c_char, 0, 0]);
        assert_eq!(c_array::<3>("abcd")[2], 0);
    }
}
