//! The keys of what follows a greeting: whoever seals or opens says under which number.
//!
//! | numbers | of |
//! |---|---|
//! | below 2^63 | records on the connection itself, counted |
//! | from 2^63 on | frames of another fabric that goes beside it, by their own numbers |
//!
//! No number is used twice in a direction, so what is sealed under one opens nowhere else.

use snow::StatelessTransportState;
use std::sync::Arc;

/// Bytes that a seal adds.
pub(crate) const TAG_LEN: usize = 16;

/// The first number of frames.
const FRAMES: u64 = 1 << 63;

/// It does not open: it is none of the other side's, or of another number; or all numbers are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unsealed;

/// The keys of both directions of one connection.
#[derive(Clone)]
pub(crate) struct SealKeys(Arc<StatelessTransportState>);

impl SealKeys {
    pub(crate) fn new(keys: StatelessTransportState) -> SealKeys {
        SealKeys(Arc::new(keys))
    }

    /// Seals record `number`; `sealed` has room for a tag more. Returns how long it is. Neither allocates nor locks.
    pub(crate) fn seal_record(&self, number: u64, plain: &[u8], sealed: &mut [u8]) -> Result<usize, Unsealed> {
        self.seal(Some(number).filter(|number| *number < FRAMES), plain, sealed)
    }

    /// Opens record `number`. Neither allocates nor locks.
    pub(crate) fn open_record(&self, number: u64, sealed: &[u8], plain: &mut [u8]) -> Result<usize, Unsealed> {
        self.open(Some(number).filter(|number| *number < FRAMES), sealed, plain)
    }

    /// As [`SealKeys::seal_record`], of a frame.
    pub(crate) fn seal_frame(&self, number: u64, plain: &[u8], sealed: &mut [u8]) -> Result<usize, Unsealed> {
        self.seal(FRAMES.checked_add(number), plain, sealed)
    }

    /// As [`SealKeys::open_record`], of a frame.
    pub(crate) fn open_frame(&self, number: u64, sealed: &[u8], plain: &mut [u8]) -> Result<usize, Unsealed> {
        self.open(FRAMES.checked_add(number), sealed, plain)
    }

    fn seal(&self, number: Option<u64>, plain: &[u8], sealed: &mut [u8]) -> Result<usize, Unsealed> {
        self.0.write_message(number.ok_or(Unsealed)?, plain, sealed).map_err(|_| Unsealed)
    }

    fn open(&self, number: Option<u64>, sealed: &[u8], plain: &mut [u8]) -> Result<usize, Unsealed> {
        self.0.read_message(number.ok_or(Unsealed)?, sealed, plain).map_err(|_| Unsealed)
    }
}
