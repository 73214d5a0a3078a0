//! Random bytes from the kernel, for what must not be guessed.

use hanare_protocol::{Error, Result};
use rustix::rand::{GetRandomFlags, getrandom};

/// Fresh random bytes.
pub fn bytes<const LEN: usize>() -> Result<[u8; LEN]> {
    const { assert!(LEN <= 256, "the kernel gives up to 256 bytes whole") };
    let mut bytes = [0; LEN];
    match getrandom(&mut bytes, GetRandomFlags::empty()) {
        Ok(len) if len == LEN => Ok(bytes),
        other => Err(Error::System { what: "random bytes".to_owned(), reason: format!("{other:?}") }),
    }
}
