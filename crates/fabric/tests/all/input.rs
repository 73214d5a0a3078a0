//! Any bytes from a peer are messages or an end: the same as the long runs of the fuzz targets, in short.

use hanare_fabric::stream::{Stream, StreamLink};
use hanare_fabric::{Link, LinkError, Refusal, Sink};
use hanare_memory::Window;
use hanare_protocol::wire::greeting::{HELLO_LEN, Hello};
use hanare_protocol::wire::head::{Head, Kind};
use proptest::prelude::*;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

const BODY_LEN_MAX: u64 = 64 << 10;

/// A stream that brings the given bytes in pieces of the given lengths, and then ends.
struct Given {
    event: File,
    bytes: Vec<u8>,
    at: usize,
    cuts: Vec<u8>,
}

impl AsFd for Given {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

impl Stream for Given {
    unsafe fn send(&mut self, _: &[libc::iovec]) -> io::Result<usize> {
        Err(io::ErrorKind::WouldBlock.into())
    }

    unsafe fn receive(&mut self, places: &[libc::iovec]) -> io::Result<usize> {
        let cut = self.cuts.pop().map_or(usize::MAX, |cut| usize::from(cut) + 1);
        let mut len = cut.min(self.bytes.len() - self.at);
        let begun = self.at;
        for place in places {
            let now = len.min(place.iov_len);
            // SAFETY: the caller's promise on the place.
            unsafe { std::ptr::copy_nonoverlapping(self.bytes[self.at..].as_ptr(), place.iov_base.cast(), now) };
            self.at += now;
            len -= now;
        }
        Ok(self.at - begun)
    }
}

struct Store {
    body: Vec<u8>,
    count: usize,
}

// SAFETY: the body's memory stays until the message is complete; the store outlives its link.
unsafe impl Sink for Store {
    fn place(&mut self, head: &Head, at: u64) -> Result<Window, Refusal> {
        if head.body_len > BODY_LEN_MAX {
            return Err(Refusal("too long".into()));
        }
        if at == 0 {
            self.body = vec![0; head.body_len as usize];
        }
        let at = at as usize;
        let len = (self.body.len() - at).min(100);
        // SAFETY: the body is kept, and not used until the message is complete.
        Ok(unsafe { Window::of_mut(&mut self.body) }.slice(at, len))
    }
    fn message(&mut self, _: &Head) {
        self.count += 1;
    }
}

/// Feeds the bytes to a link until it ends, and returns how many messages came and why it ended.
fn feed(bytes: Vec<u8>, cuts: Vec<u8>) -> (usize, LinkError) {
    let event = File::open("/dev/null").unwrap();
    let mut store = Store { body: Vec::new(), count: 0 };
    let mut link = StreamLink::new(Given { event, bytes, at: 0, cuts }, "given".into());
    loop {
        if let Err(end) = link.progress(&mut store) {
            return (store.count, end);
        }
    }
}

/// Bytes that are heads more often than not.
fn mostly_messages() -> impl Strategy<Value = Vec<u8>> {
    let message = (0..300u64, any::<u64>()).prop_map(|(body_len, seq)| {
        let head = Head { body_len, ..Head::new(Kind::Control, seq) };
        [&head.encode()[..], &vec![9; body_len as usize]].concat()
    });
    let noise = prop::collection::vec(any::<u8>(), 0..80);
    prop::collection::vec(prop_oneof![4 => message, 1 => noise], 0..12).prop_map(|parts| parts.concat())
}

proptest! {
    #[test]
    fn any_bytes_are_a_hello_or_refused(bytes: [u8; 32], more: [u8; 32], is_named: bool) {
        let mut whole = [bytes, more].concat();
        if is_named {
            whole[..8].copy_from_slice(b"HANARE\r\n");
        }
        let whole: [u8; HELLO_LEN] = whole.try_into().unwrap();
        if let Ok(hello) = Hello::decode(&whole) {
            prop_assert!(is_named);
            prop_assert_eq!(hello.versions.newest, u32::from(u16::from_le_bytes(whole[8..10].try_into().unwrap())));
        }
    }

    #[test]
    fn any_stream_is_messages_and_an_end(bytes in mostly_messages(), cuts in prop::collection::vec(any::<u8>(), 0..40)) {
        let (count, end) = feed(bytes.clone(), cuts);
        let is_end = matches!(end, LinkError::Closed { .. } | LinkError::Garbage { .. });
        prop_assert!(is_end);
        // However the stream is cut, it says the same.
        let (again, end_again) = feed(bytes, Vec::new());
        prop_assert_eq!((count, end), (again, end_again));
    }
}
