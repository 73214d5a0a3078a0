//! Any 64 bytes are a hello of some version, or refused.
#![no_main]

use hanare_protocol::wire::VERSION;
use hanare_protocol::wire::greeting::{HELLO_LEN, Hello};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: [u8; HELLO_LEN]| {
    if let Ok(hello) = Hello::decode(&bytes) {
        let again = Hello::decode(&hello.encode()).expect("what was read can be said");
        assert!(again == hello || hello.version != VERSION);
    }
});
