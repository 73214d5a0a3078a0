//! What messages say, and that they travel.

use super::*;

#[test]
fn messages_name_region_offset_and_limit() {
    let text = Error::OutOfRange { region: "a".into(), offset: 8, len: 4, limit: 10 }.to_string();
    for part in ["'a'", "offset 8", "10 bytes"] {
        assert!(text.contains(part), "{text} lacks {part}");
    }
}

#[test]
fn an_error_survives_the_wire() {
    let error = Error::NodeLost { node: NodeId(2), reason: "connection reset".into() };
    let bytes = postcard::to_stdvec(&error).unwrap();
    assert_eq!(postcard::from_bytes::<Error>(&bytes).unwrap(), error);
    assert_eq!(error.happened(), Happened::Unknown);
    assert!(error.may_retry());
}
