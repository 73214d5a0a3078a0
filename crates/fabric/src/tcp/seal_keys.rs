//! The keys of records and frames after a greeting. Each is sealed and opened under a number.
//!
//! | numbers | of |
//! |---|---|
//! | below 2^63 | records on the connection itself, counted |
//! | from 2^63 on | frames of another fabric that goes beside it, by their own numbers |
//!
//! No number is used twice in a direction, so what is sealed under one opens nowhere else.

use hanare_protocol::wire::link::LinkKeys;
use snow::params::CipherChoice;
use snow::resolvers::{CryptoResolver, RingResolver};
use snow::types::Cipher;
use std::sync::Arc;

/// Bytes that a seal adds.
pub(crate) const TAG_LEN: usize = 16;

/// The first number of frames.
const FRAMES: u64 = 1 << 63;

/// Most bytes of a record or frame with its tag. SOURCE: [Noise, revision 34, §3]
const LONGEST_SEALED_LEN: usize = 65_535;

/// The record does not open, because it is not the other side's or has another number. Or all numbers are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unsealed;

/// The keys of both directions of one connection.
#[derive(Clone)]
pub(crate) struct SealKeys(Arc<Ciphers>);

struct Ciphers {
    keys: LinkKeys,
    seals: Box<dyn Cipher>,
    opens: Box<dyn Cipher>,
}

impl SealKeys {
    /// The ciphers of a handshake's keys.
    pub(crate) fn new(keys: LinkKeys) -> SealKeys {
        let cipher = |key: &[u8; 32]| {
            let mut cipher = RingResolver.resolve_cipher(&CipherChoice::AESGCM).expect("ring has it");
            cipher.set(key);
            cipher
        };
        SealKeys(Arc::new(Ciphers { seals: cipher(&keys.seals), opens: cipher(&keys.opens), keys }))
    }

    /// The keys themselves, for the process that gets the connection.
    pub(crate) fn keys(&self) -> LinkKeys {
        self.0.keys
    }

    /// Seals record `number`; `sealed` has room for a tag more. Returns its length. Neither allocates nor locks.
    pub(crate) fn seal_record(&self, number: u64, plain: &[u8], sealed: &mut [u8]) -> Result<usize, Unsealed> {
        self.seal(Some(number).filter(|number| *number < FRAMES), plain, sealed)
    }

    /// Opens record `number`. Neither allocates nor locks.
    pub(crate) fn open_record(&self, number: u64, sealed: &[u8], plain: &mut [u8]) -> Result<usize, Unsealed> {
        self.open(Some(number).filter(|number| *number < FRAMES), sealed, plain)
    }

    /// [`SealKeys::seal_record`] for a frame.
    pub(crate) fn seal_frame(&self, number: u64, plain: &[u8], sealed: &mut [u8]) -> Result<usize, Unsealed> {
        self.seal(FRAMES.checked_add(number), plain, sealed)
    }

    /// [`SealKeys::open_record`] for a frame.
    pub(crate) fn open_frame(&self, number: u64, sealed: &[u8], plain: &mut [u8]) -> Result<usize, Unsealed> {
        self.open(FRAMES.checked_add(number), sealed, plain)
    }

    fn seal(&self, number: Option<u64>, plain: &[u8], sealed: &mut [u8]) -> Result<usize, Unsealed> {
        let number = number.filter(|number| *number < u64::MAX).ok_or(Unsealed)?;
        if plain.len() + TAG_LEN > sealed.len().min(LONGEST_SEALED_LEN) {
            return Err(Unsealed);
        }
        Ok(self.0.seals.encrypt(number, &[], plain, sealed))
    }

    fn open(&self, number: Option<u64>, sealed: &[u8], plain: &mut [u8]) -> Result<usize, Unsealed> {
        let number = number.filter(|number| *number < u64::MAX).ok_or(Unsealed)?;
        let fits = sealed.len() <= LONGEST_SEALED_LEN && sealed.len().checked_sub(TAG_LEN).is_some_and(|len| len <= plain.len());
        if !fits {
            return Err(Unsealed);
        }
        self.0.opens.decrypt(number, &[], sealed, plain).map_err(|_| Unsealed)
    }
}
