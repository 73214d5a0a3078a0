//! A body that its receiver fetches from where it lies: the sender's description of it, and the receiver's reply.
//!
//! Both are input: any program that may write the group's regions may have written them.

use crate::error::Error;
use crate::id::Gid;
use crate::limits::MESSAGE_INLINE_LEN_MAX;
use crate::shape::{Dim, Indexed, Indices, Shape, Strided, Subarray};
use crate::wire::Malformed;
use crate::wire::control;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Bytes that a body is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BodyPart {
    /// The sender's number of the part, which the receiver's answer names.
    pub number: u64,
    /// The region.
    pub gid: Gid,
    blocks: Blocks,
}

/// A shape as it travels in a header.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Blocks {
    Strided(Strided),
    Subarray { offset: u64, block: u64, dims: Vec<(u64, i64)> },
    Indexed { offset: u64, block: u64, scale: u64, indices: Vec<u64> },
}

impl BodyPart {
    /// A part of a region.
    pub fn new(number: u64, gid: Gid, shape: &Shape<'_>) -> BodyPart {
        let blocks = match shape {
            Shape::Strided(shape) => Blocks::Strided(*shape),
            Shape::Subarray(shape) => {
                let dims = shape.dims().iter().map(|dim| (dim.count, dim.stride)).collect();
                Blocks::Subarray { offset: shape.offset(), block: shape.block(), dims }
            }
            Shape::Indexed(Indexed { offset, block, scale, indices }) => {
                let indices = (0..indices.len()).map(|k| indices.get(k)).collect();
                Blocks::Indexed { offset: *offset, block: *block, scale: *scale, indices }
            }
        };
        BodyPart { number, gid, blocks }
    }

    /// Its shape, which nobody has checked. **Errors**: [`Error::LimitReached`] for too many dimensions.
    pub fn shape(&self) -> Result<Shape<'static>, Error> {
        Ok(match &self.blocks {
            Blocks::Strided(shape) => Shape::Strided(*shape),
            Blocks::Subarray { offset, block, dims } => {
                let dims: Vec<Dim> = dims.iter().map(|&(count, stride)| Dim { count, stride }).collect();
                Subarray::new(*offset, *block, &dims)?.into()
            }
            Blocks::Indexed { offset, block, scale, indices } => {
                let indices = Indices::Wide(Cow::Owned(indices.clone()));
                Indexed { offset: *offset, block: *block, scale: *scale, indices }.into()
            }
        })
    }

    /// The bytes behind the head; `None` where a header has no room for them, because the shape has many indices.
    pub fn encode(&self) -> Option<Vec<u8>> {
        // An index takes a byte at least.
        let is_long = matches!(&self.blocks, Blocks::Indexed { indices, .. } if indices.len() > MESSAGE_INLINE_LEN_MAX);
        let bytes = if is_long { None } else { Some(control::encode(self)) };
        bytes.filter(|bytes| bytes.len() <= MESSAGE_INLINE_LEN_MAX)
    }

    /// Reads what [`BodyPart::encode`] made.
    pub fn decode(bytes: &[u8]) -> Result<BodyPart, Malformed> {
        control::decode(bytes)
    }
}

/// The receiver's answer, once it has fetched a part or cannot: the bytes of its header. **Errors** that are too long lose their own words.
pub fn encode_outcome(outcome: &Result<(), Error>) -> Vec<u8> {
    let bytes = control::encode(outcome);
    if bytes.len() <= MESSAGE_INLINE_LEN_MAX {
        return bytes;
    }
    let what = "fetch a message's body".to_owned();
    control::encode(&Err::<(), Error>(Error::System { what, reason: "its receiver could not".to_owned() }))
}

/// Reads what [`encode_outcome`] made.
pub fn decode_outcome(bytes: &[u8]) -> Result<Result<(), Error>, Malformed> {
    control::decode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn round_trip(shape: Shape<'_>) {
        let part = BodyPart::new(7, Gid(9), &shape);
        let read = BodyPart::decode(&part.encode().unwrap()).unwrap();
        assert_eq!(read, part);
        let (read, given) = (read.shape().unwrap().check("r", 1 << 20), shape.check("r", 1 << 20));
        match (read, given) {
            (Ok(read), Ok(given)) => assert!(read.block_offsets().eq(given.block_offsets()) && read.len() == given.len()),
            (read, given) => assert!(read.is_err() && given.is_err()),
        }
    }

    proptest! {
        #[test]
        fn a_part_is_the_shape_that_it_was_made_of(
            offset in 0u64..1 << 19, block in 0u64..5000, count in 0u64..50, stride in 0i64..5000,
            indices in proptest::collection::vec(0u32..1000, 0..50),
        ) {
            round_trip(Strided { offset, block, count, stride: stride as u64 }.into());
            let dims = [Dim { count, stride: -stride }, Dim { count: 3, stride: 8 }];
            round_trip(Subarray::new(offset, block, &dims).unwrap().into());
            round_trip(Indexed::elements(offset, block, &indices[..]).into());
        }

        #[test]
        fn any_bytes_are_a_part_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            if let Ok(shape) = BodyPart::decode(&bytes).map_err(drop).and_then(|part| part.shape().map_err(drop)) {
                let _ = shape.check("r", 4096);
            }
            let _ = decode_outcome(&bytes);
        }
    }

    #[test]
    fn a_part_of_many_indices_has_no_room_in_a_header() {
        let indices: Vec<u64> = (0..5000).collect();
        assert_eq!(BodyPart::new(0, Gid(1), &Indexed::elements(0, 8, &indices[..]).into()).encode(), None);
    }

    #[test]
    fn an_outcome_fits_a_note_and_says_what_happened() {
        let named = |name: String| Err(Error::UnknownRegion { name });
        for outcome in [Ok(()), named("r".to_owned())] {
            assert_eq!(decode_outcome(&encode_outcome(&outcome)), Ok(outcome));
        }
        let long = encode_outcome(&named("r".repeat(5000)));
        assert!(long.len() <= MESSAGE_INLINE_LEN_MAX && matches!(decode_outcome(&long), Ok(Err(Error::System { .. }))));
    }
}
