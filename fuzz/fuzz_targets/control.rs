//! Any bytes are a control message that survives the wire, or refused.
#![no_main]

use hanare_protocol::Error;
use hanare_protocol::wire::control::{Answer, Arrival, FromNode, Request, ToNode, decode, encode};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(value) = decode::<Request>(bytes) {
        assert_eq!(decode(&encode(&value)), Ok(value));
    }
    if let Ok(value) = decode::<Result<Answer, Error>>(bytes) {
        assert_eq!(decode(&encode(&value)), Ok(value));
    }
    if let Ok(value) = decode::<FromNode>(bytes) {
        assert_eq!(decode(&encode(&value)), Ok(value));
    }
    if let Ok(value) = decode::<ToNode>(bytes) {
        assert_eq!(decode(&encode(&value)), Ok(value));
    }
    if let Ok(value) = decode::<Arrival>(bytes) {
        assert_eq!(decode(&encode(&value)), Ok(value));
    }
});
