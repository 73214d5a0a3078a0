//! `hanare_shape` of the header, as the library knows shapes. Answers the crate's safety invariant 2.

use crate::argument::sized;
use crate::border::{Failure, Outcome};
use hanare_protocol::Error;
use hanare_protocol::limits::DIM_COUNT_MAX;
use hanare_protocol::shape::{Dim, Indexed, Indices, Shape, Strided, Subarray};
use std::borrow::Cow;
use std::ffi::c_void;

/// `hanare_dim` of the header.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct CDim {
    count: u64,
    stride: i64,
}

/// `hanare_shape` of the header.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CShape {
    struct_size: usize,
    kind: u32,
    dim_count: u32,
    offset: u64,
    block: u64,
    count: u64,
    stride: u64,
    indices: *const c_void,
    dims: [CDim; DIM_COUNT_MAX],
}

const STRIDED: u32 = 1;
const SUBARRAY: u32 = 2;
const INDEXED32: u32 = 3;
const INDEXED64: u32 = 4;

/// The caller's shape. Its index list is not copied, whatever the lifetime says.
///
/// # Safety
/// `ptr` is `NULL` or the caller's struct; its index list has as many indices as it says, and stays as it is while the
/// result is used.
pub unsafe fn shape(ptr: *const CShape, what: &str) -> Outcome<Shape<'static>> {
    // SAFETY: promised by the caller; the struct begins with its size.
    let given = unsafe { sized(ptr, what) }?;
    let CShape { offset, block, count, stride, .. } = given;
    match given.kind {
        STRIDED => Ok(Strided { offset, block, count, stride }.into()),
        SUBARRAY => subarray(&given),
        // SAFETY: promised by the caller.
        INDEXED32 => Ok(indexed(&given, Indices::Narrow(Cow::Borrowed(unsafe { list(&given, what) }?)))),
        // SAFETY: promised by the caller.
        INDEXED64 => Ok(indexed(&given, Indices::Wide(Cow::Borrowed(unsafe { list(&given, what) }?)))),
        other => Err(Failure::Argument(format!("{what}->kind is {other}: make shapes with hanare_shape_strided and its kin"))),
    }
}

/// A shape that may be left out.
///
/// # Safety
/// Like [`shape`].
pub unsafe fn shape_or_none(ptr: *const CShape, what: &str) -> Outcome<Option<Shape<'static>>> {
    // SAFETY: promised by the caller.
    if ptr.is_null() { Ok(None) } else { unsafe { shape(ptr, what) }.map(Some) }
}

fn subarray(given: &CShape) -> Outcome<Shape<'static>> {
    let dims = given.dims.map(|CDim { count, stride }| Dim { count, stride });
    let Some(dims) = dims.get(..given.dim_count as usize) else {
        let what = format!("a shape of {} dimensions", given.dim_count);
        return Err(Error::LimitReached { what, limit: DIM_COUNT_MAX as u64 }.into());
    };
    Ok(Subarray::new(given.offset, given.block, dims)?.into())
}

fn indexed(given: &CShape, indices: Indices<'static>) -> Shape<'static> {
    Indexed { offset: given.offset, block: given.block, scale: given.stride, indices }.into()
}

/// The caller's index list. `NULL` is allowed for none.
///
/// # Safety
/// Like [`shape`]; `T` is the list's kind of number.
unsafe fn list<T>(given: &CShape, what: &str) -> Outcome<&'static [T]> {
    if given.count == 0 {
        return Ok(&[]);
    }
    let ptr = given.indices.cast::<T>();
    let len = given.count.checked_mul(size_of::<T>() as u64).and_then(|len| isize::try_from(len).ok());
    match len {
        _ if ptr.is_null() => Err(Failure::Argument(format!("{what}->indices is NULL"))),
        _ if !ptr.is_aligned() => Err(Failure::Argument(format!("{what}->indices is no array of {} bytes each", size_of::<T>()))),
        None => Err(Failure::Argument(format!("{what}->count cannot be {}", given.count))),
        // SAFETY: promised by the caller; aligned, and within what a slice may have.
        Some(_) => Ok(unsafe { std::slice::from_raw_parts(ptr, given.count as usize) }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(kind: u32) -> CShape {
        CShape {
            struct_size: size_of::<CShape>(),
            kind,
            dim_count: 2,
            offset: 64,
            block: 8,
            count: 3,
            stride: 16,
            indices: std::ptr::null(),
            dims: [CDim { count: 4, stride: -32 }; DIM_COUNT_MAX],
        }
    }

    fn taken(given: &CShape) -> Outcome<Shape<'static>> {
        // SAFETY: the struct is there, and its list in every test below.
        unsafe { shape(given, "shape") }
    }

    fn refused(given: &CShape) -> String {
        match taken(given).unwrap_err() {
            Failure::Argument(text) => text,
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn every_kind_becomes_its_shape() {
        let strided = Strided { offset: 64, block: 8, count: 3, stride: 16 };
        assert_eq!(taken(&given(STRIDED)).unwrap(), strided.into());
        let dims = [Dim { count: 4, stride: -32 }; 2];
        assert_eq!(taken(&given(SUBARRAY)).unwrap(), Subarray::new(64, 8, &dims).unwrap().into());
        let (narrow, wide) = ([7u32, 0, 7], [7u64, 0, 7]);
        let listed = CShape { indices: narrow.as_ptr().cast(), ..given(INDEXED32) };
        let wanted = Indexed { offset: 64, block: 8, scale: 16, indices: narrow[..].into() };
        assert_eq!(taken(&listed).unwrap(), wanted.into());
        let listed = CShape { indices: wide.as_ptr().cast(), ..given(INDEXED64) };
        let wanted = Indexed { offset: 64, block: 8, scale: 16, indices: wide[..].into() };
        assert_eq!(taken(&listed).unwrap(), wanted.into());
    }

    #[test]
    fn what_is_no_shape_is_refused() {
        assert!(refused(&given(0)).contains("shape->kind is 0"));
        assert!(refused(&given(INDEXED32)).contains("shape->indices is NULL"));
        let list = [0u64; 2];
        let odd = CShape { indices: list.as_ptr().cast::<u8>().wrapping_add(1).cast(), ..given(INDEXED64) };
        assert!(refused(&odd).contains("8 bytes each"));
        let endless = CShape { indices: list.as_ptr().cast(), count: u64::MAX / 8, ..given(INDEXED64) };
        assert!(refused(&endless).contains("shape->count"));
        assert!(refused(&CShape { dim_count: 9, ..given(SUBARRAY) }).contains("9 dimensions"));
        assert!(refused(&CShape { struct_size: 0, ..given(STRIDED) }).contains("struct_size"));
    }
}
