//! Any 32 bytes are a head that encodes to themselves, or refused.
#![no_main]

use hanare_protocol::wire::head::{HEAD_LEN, Head};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: [u8; HEAD_LEN]| {
    if let Ok(head) = Head::decode(&bytes) {
        assert_eq!(head.encode(), bytes);
    }
});
