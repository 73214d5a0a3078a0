//! Any bytes, in pieces of any length, are messages and an end; how they are cut changes nothing.
#![no_main]

use hanare_fabric::stream::{Stream, StreamLink};
use hanare_fabric::{Link, LinkError};
use libfuzzer_sys::fuzz_target;
use sink::Body;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// A stream that brings the given bytes, cut as told at first and then all at once, and then ends.
struct Given<'a> {
    event: File,
    bytes: &'a [u8],
    cuts: &'a [u8],
}

impl AsFd for Given<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

impl Stream for Given<'_> {
    unsafe fn send(&mut self, _: &[libc::iovec]) -> io::Result<usize> {
        Err(io::ErrorKind::WouldBlock.into())
    }

    unsafe fn receive(&mut self, places: &[libc::iovec]) -> io::Result<usize> {
        let mut len = self.bytes.len();
        if let Some((cut, later)) = self.cuts.split_first() {
            (len, self.cuts) = (len.min(usize::from(*cut) + 1), later);
        }
        let before = self.bytes.len();
        for place in places {
            let (now, later) = self.bytes.split_at(len.min(place.iov_len));
            // SAFETY: the caller's promise on the place.
            unsafe { std::ptr::copy_nonoverlapping(now.as_ptr(), place.iov_base.cast(), now.len()) };
            self.bytes = later;
            len -= now.len();
        }
        Ok(before - self.bytes.len())
    }
}

fn feed(bytes: &[u8], cuts: &[u8]) -> (usize, LinkError) {
    let event = File::open("/dev/null").expect("a descriptor");
    let mut body = Body::default();
    let mut link = StreamLink::new(Given { event, bytes, cuts }, "given".into());
    loop {
        if let Err(end) = link.progress(&mut body) {
            return (body.count, end);
        }
    }
}

fuzz_target!(|input: (&[u8], &[u8])| {
    let (cuts, bytes) = input;
    let whole = feed(bytes, &[]);
    assert!(matches!(whole.1, LinkError::Closed { .. } | LinkError::Garbage { .. }));
    assert_eq!(feed(bytes, cuts), whole);
});
