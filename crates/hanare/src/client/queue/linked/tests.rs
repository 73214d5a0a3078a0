use super::*;
use hanare_protocol::limits::QUEUE_APPEND_LEN_MAX;

fn sink(ahead: Option<Window>) -> AppendSink {
    AppendSink::new(ahead, 1000)
}

fn head(kind: Kind, detail: u64, body_len: u64) -> Head {
    Head { detail, body_len, ..Head::new(kind, 0) }
}

#[test]
fn a_length_or_place_that_no_writer_sends_is_refused_before_a_byte_has_a_place() {
    let mut memory = [0; 128];
    // SAFETY: the memory outlives the sink.
    let mut sink = sink(Some(unsafe { Window::of_mut(&mut memory) }));
    for body_len in [0, 1, APPEND_FRONT_LEN as u64 - 1, 1001, QUEUE_APPEND_LEN_MAX] {
        assert!(sink.place(&head(Kind::Append, 0, body_len), 0).is_err(), "an append of {body_len} bytes");
    }
    for (at, len) in [(0, 129), (128, 1), (1, 128), (u64::MAX, 1), (u64::MAX - 7, 64)] {
        assert!(sink.place(&head(Kind::Ahead, at, len), 0).is_err(), "{len} bytes at {at}");
    }
    for kind in [Kind::Commands, Kind::Done, Kind::Sync, Kind::Control] {
        assert!(sink.place(&head(kind, 0, 100), 0).is_err(), "{kind:?}");
    }
    assert_eq!(sink.place(&head(Kind::Ahead, 64, 64), 0).map(|window| window.len()), Ok(64));
    assert_eq!(sink.place(&head(Kind::Append, 0, 1000), 0).map(|window| window.len()), Ok(1000));
    sink.message(&head(Kind::Append, 0, 1000));
    assert!(sink.came.len() == 1 && !sink.is_garbage);
    for kind in [Kind::Append, Kind::Ahead, Kind::Appended, Kind::Ping] {
        let mut sink = self::sink(None);
        sink.message(&head(kind, 0, 0));
        assert!(sink.is_garbage, "{kind:?} without a body");
    }
}

#[test]
fn bytes_ahead_are_refused_where_there_is_no_memory_for_them() {
    assert!(sink(None).place(&head(Kind::Ahead, 0, 8), 0).is_err());
}

#[test]
fn no_more_is_taken_in_while_appends_wait_for_room() {
    for (len, most) in [(APPEND_FRONT_LEN, QUEUE_BEGUN_COUNT_MAX), (500, 2), (1000, 1)] {
        let mut sink = sink(None);
        while sink.may_begin() {
            sink.place(&head(Kind::Append, 0, len as u64), 0).unwrap();
            sink.message(&head(Kind::Append, 0, len as u64));
        }
        assert_eq!(sink.came.len(), most, "appends of {len} bytes");
    }
}
