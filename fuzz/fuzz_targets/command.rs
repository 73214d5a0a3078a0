//! Any 64 bytes are a command that encodes to themselves, or refused; its shape can be checked against any region.
#![no_main]

use hanare_protocol::wire::command::{COMMAND_LEN, Command};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: ([u8; COMMAND_LEN], u64)| {
    let (bytes, limit) = input;
    if let Ok(command) = Command::decode(&bytes) {
        assert_eq!(command.encode(), bytes);
        if let Ok(len) = command.shape.check("region", limit) {
            assert!(len <= limit, "{len} bytes lie in {limit}");
        }
    }
});
