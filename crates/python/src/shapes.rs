//! Shapes as tuples: `(offset, block, [(count, stride), ...])` for a sub-array, `(offset, block, scale, indices)` for a list of indices.

use crate::errors::raise;
use crate::memory::ObjectBytes;
use hanare::{Dim, Indexed, Shape, Subarray};
use pyo3::prelude::*;

/// A shape as Python gives it.
#[derive(FromPyObject)]
pub enum ShapeTuple<'py> {
    /// Blocks of a sub-array.
    Subarray(u64, u64, Vec<(u64, i64)>),
    /// Blocks where a list of indices says.
    Indexed(u64, u64, u64, Bound<'py, PyAny>),
}

/// A shape, with the memory of its index list.
pub enum OwnedShape {
    Subarray(Subarray),
    Indexed { offset: u64, block: u64, scale: u64, list: ObjectBytes },
}

impl ShapeTuple<'_> {
    /// The shape, with its index list borrowed of the object that has it.
    ///
    /// **Errors**: `LimitReached` beyond 8 dimensions; those of [`ObjectBytes::new`].
    pub fn hold(self) -> PyResult<OwnedShape> {
        match self {
            ShapeTuple::Subarray(offset, block, dims) => {
                let dims: Vec<Dim> = dims.into_iter().map(|(count, stride)| Dim { count, stride }).collect();
                Subarray::new(offset, block, &dims).map(OwnedShape::Subarray).map_err(raise)
            }
            ShapeTuple::Indexed(offset, block, scale, list) => {
                Ok(OwnedShape::Indexed { offset, block, scale, list: ObjectBytes::new(&list)? })
            }
        }
    }
}

impl OwnedShape {
    /// The shape as commands take it.
    ///
    /// **Errors**: those of [`ObjectBytes::indices`].
    pub fn shape(&self) -> PyResult<Shape<'_>> {
        Ok(match self {
            OwnedShape::Subarray(shape) => Shape::from(*shape).joined(),
            OwnedShape::Indexed { offset, block, scale, list } => {
                Indexed { offset: *offset, block: *block, scale: *scale, indices: list.indices()? }.into()
            }
        })
    }
}
