//! Fuzz targets. Any bytes of a peer are messages or an end, and nothing of an unauthenticated peer is taken for a proof.
#![allow(missing_docs, reason = "a target's name says what it feeds")]

use crate::link::{Link, LinkError, Refusal, Sink};
use crate::shm::ShmLink;
use crate::stream::{Stream, StreamLink};
use crate::tcp::{Keys, Listener, Step, sealed_pair};
use hanare_memory::Window;
use hanare_protocol::wire::greeting::Sealing;
use hanare_protocol::wire::head::{Head, Kind};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, IoSlice, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// A target's name, and what tries its input.
type FuzzTarget = (&'static str, fn(&[u8]));

/// All of them, by name.
pub const TARGETS: &[FuzzTarget] =
    &[("stream", stream), ("shared", shared), ("greeting", greeting), ("sealed", sealed), ("offer", offer)];

/// Bodies longer than this are refused, so that a run measures the link and not the allocator.
const BODY_LEN: u64 = 64 << 10;

/// Keeps the body that arrives, in small windows, and counts messages.
#[derive(Default)]
struct Body {
    bytes: Vec<u8>,
    count: usize,
}

// SAFETY: the bytes stay until the message is complete; targets keep the sink longer than the link.
unsafe impl Sink for Body {
    fn place(&mut self, head: &Head, at: u64) -> Result<Window, Refusal> {
        if head.body_len > BODY_LEN {
            return Err(Refusal("too long".into()));
        }
        if at == 0 {
            self.bytes = vec![0; head.body_len as usize];
        }
        let at = at as usize;
        let len = (self.bytes.len() - at).min(100);
        // SAFETY: the bytes are kept, and not used until the message is complete.
        Ok(unsafe { Window::of_mut(&mut self.bytes) }.slice(at, len))
    }

    fn message(&mut self, _: &Head) {
        self.count += 1;
    }
}

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
            let (now, later) = self.bytes.split_at(len.min(place.iov_len).min(self.bytes.len()));
            // SAFETY: the caller's promise on the place.
            unsafe { std::ptr::copy_nonoverlapping(now.as_ptr(), place.iov_base.cast(), now.len()) };
            self.bytes = later;
            len -= now.len();
        }
        Ok(before - self.bytes.len())
    }
}

fn feed_stream(bytes: &[u8], cuts: &[u8]) -> (usize, LinkError) {
    let event = File::open("/dev/null").expect("a descriptor");
    let mut body = Body::default();
    let mut link = StreamLink::new(Given { event, bytes, cuts }, "given".into());
    loop {
        if let Err(end) = link.progress(&mut body) {
            return (body.count, end);
        }
    }
}

/// The first byte says how many cuts there are, which follow it.
pub fn stream(bytes: &[u8]) {
    let Some((count, rest)) = bytes.split_first() else { return };
    let (cuts, bytes) = rest.split_at(usize::from(*count).min(rest.len()));
    let whole = feed_stream(bytes, &[]);
    assert!(matches!(whole.1, LinkError::Closed { .. } | LinkError::Garbage { .. }));
    assert_eq!(feed_stream(bytes, cuts), whole);
}

/// Writes of a peer into the shared memory of a link, while messages pass. 6 bytes have the place, the length, and the number of messages
/// before.
pub fn shared(bytes: &[u8]) {
    let (mut one, parts) = ShmLink::create("opener").expect("a link");
    let memory = parts.memory.try_clone().expect("a descriptor");
    let mut other = ShmLink::open(parts, "maker").expect("a link");
    let len = rustix::fs::fstat(&memory).expect("a file").st_size as u64;
    let (mut body, mut rest) = (Body::default(), bytes);
    while let Some(([a, b, c, d, count, noise_len], more)) = rest.split_first_chunk() {
        let (noise, more) = more.split_at(usize::from(*noise_len).min(more.len()));
        rest = more;
        for seq in 0..u64::from(count % 8) {
            // SAFETY: there are no windows.
            let _ = unsafe { other.send(&Head::new(Kind::Ping, seq), &[]) };
            // SAFETY: as above.
            let _ = unsafe { one.send(&Head::new(Kind::Pong, seq), &[]) };
        }
        // Near the start of a ring as often as anywhere: there is what matters.
        let at = u32::from_le_bytes([*a, *b, *c, *d]);
        let at = if at % 2 == 0 { u64::from(at / 2) % 512 } else { u64::from(at / 2) % len };
        let at = if count & 64 == 0 { at } else { (at + 4096) % len };
        let _ = rustix::io::pwrite(&memory, noise, at.min(len - noise.len() as u64));
        one.doze();
        if one.progress(&mut body).is_err() {
            assert_eq!(one.unsent_len(), 0);
            return;
        }
    }
}

/// Ends a connection by reset, so that its port is free at once.
fn reset(stream: TcpStream) {
    rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).expect("a socket");
}

/// A stranger says anything to one who accepts: it is nobody.
pub fn greeting(bytes: &[u8]) {
    let listener = Listener::bind("127.0.0.1:0").expect("a port");
    let mut stranger = TcpStream::connect(listener.address()).expect("a connection");
    let keys = Keys::of(&[1; 32], Sealing::Auto);
    let mut incoming = loop {
        if let Some(incoming) = listener.accept().expect("a descriptor") {
            break incoming;
        }
    };
    stranger.write_all(bytes.get(..4096).unwrap_or(bytes)).expect("room");
    let mut stranger = Some(stranger);
    let until = Instant::now() + Duration::from_secs(10);
    loop {
        match incoming.step(&keys, &|_| Ok(())) {
            Err(_) => return stranger.into_iter().for_each(reset),
            Ok(Step::Greeted(_)) => panic!("a stranger has proved the key"),
            Ok(Step::Waits(more)) => incoming = more,
        }
        stranger.take().into_iter().for_each(reset);
        assert!(Instant::now() < until, "a connection that ended is waited for");
    }
}

/// On the wire of a sealed connection: as many sealed bytes as the first byte says. Of those that follow nothing is passed on.
pub fn sealed(bytes: &[u8]) {
    let Some((honest, noise)) = bytes.split_first() else { return };
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let feed = TcpStream::connect(listener.local_addr().expect("bound")).expect("a connection");
    let there = listener.accept().expect("a descriptor").0;
    let mut raw = feed.try_clone().expect("a descriptor");
    let (mut here, mut there) = sealed_pair(feed, there);
    let said = vec![7; usize::from(*honest)];
    if !said.is_empty() {
        assert_eq!(here.send_slices(&[IoSlice::new(&said)]), Ok(said.len()));
    }
    let _ = raw.write_all(noise.get(..32 << 10).unwrap_or(noise));
    let (mut heard, mut into, mut raw) = (0, [0; 4096], Some((raw, here)));
    let until = Instant::now() + Duration::from_secs(10);
    loop {
        match there.receive_slice(&mut into) {
            Ok(len) if len > 0 => heard += len,
            Err(Errno::AGAIN) => raw.take().into_iter().for_each(|(raw, _)| reset(raw)),
            _ => break,
        }
        assert!(heard <= said.len(), "{heard} bytes were taken, and {} said", said.len());
        assert!(Instant::now() < until, "a connection that ended is waited for");
    }
    assert_eq!(heard, said.len());
    raw.into_iter().for_each(|(raw, _)| reset(raw));
}

/// Offers of two sides before they decide on a fabric, and the head of a frame of UCX.
pub fn offer(bytes: &[u8]) {
    crate::offer::fuzz_offer(crate::agree::FABRICS, bytes);
    crate::ucx::fuzz_frame(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use hanare_fuzz::{Counting, drive};
    use hanare_protocol::wire::greeting::{Hello, NONCE_LEN, Role};

    #[global_allocator]
    static COUNTING: Counting = Counting;

    const MOST: usize = 1 << 20;

    #[test]
    fn a_stream_and_shared_memory() {
        let message = |len: u64| {
            let head = Head { body_len: len, ..Head::new(Kind::Control, len) };
            [&head.encode()[..], &vec![9; len as usize]].concat()
        };
        let seed = [&[3, 1, 40, 7][..], &message(5), &message(0), &message(300)].concat();
        drive("stream", &[seed], MOST, stream);
        drive(
            "shared",
            &[[0, 0, 0, 0, 3, 8, 1, 2, 3, 4, 5, 6, 7, 8].repeat(3), vec![129, 0, 0, 0, 65, 4, 255, 255, 255, 255]],
            4 << 20,
            shared,
        );
    }

    #[test]
    fn strangers() {
        let hello = Hello::new(Role::Data, 7, [3; NONCE_LEN]).encode();
        let seeds = [hello.to_vec(), [&hello[..], &[5; 48]].concat()];
        drive("greeting", &seeds, MOST, greeting);
        let record = |len: u16| [&[100][..], &len.to_le_bytes(), &vec![6; usize::from(len)]].concat();
        drive("sealed", &[record(48), record(16), [record(17), record(16_400)].concat(), vec![0]], MOST, sealed);
        drive("offer", &[crate::offer::fuzz_seed()], MOST, offer);
    }
}
