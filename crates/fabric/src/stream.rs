//! A link over any stream of bytes: one buffer for heads and small bodies, the sink's windows for large bodies.
//!
//! ```text
//!  send    outbox: head, windows  --- one gathering call --->  stream
//!  receive stream --- one scattering call --->  [rest of the sink's window] [buffer]
//!                                                                            `-> heads, small bodies: copied once more
//! ```
//!
//! Safety invariants of this module:
//! 1. Windows are handed to the stream as they are, while link.rs's first invariant holds for them.
//! 2. The buffer is reached through its window only.

use crate::ending::Ending;
use crate::inbox::Inbox;
use crate::link::{FAIR_LEN, Link, LinkError, Progress, Sight, Sink, look_at};
use crate::outbox::{Outbox, Piece};
use hanare_memory::Window;
use hanare_protocol::wire::head::Head;
use std::cell::UnsafeCell;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};

/// Bytes received behind the sink's window when the next windows are not known yet. Few calls for a body that goes into many small windows.
const RECEIVE_LEN: usize = 32 << 10;

/// Bytes received where a message may begin. Many small messages in one call, and little of a large body copied twice.
const BEGIN_LEN: usize = 8 << 10;

/// Unsent bytes up to here are copied side by side. That costs less than a second piece in a system call.
const JOIN_LEN: usize = 512;

/// Pieces gathered by one call: the stack holds them, and a call's cost is spread over enough of them.
const GATHER_COUNT: usize = 64;

/// A two-way stream of bytes that never blocks.
pub trait Stream: Send + AsFd {
    /// Sends some of the pieces' bytes, in order; `WouldBlock` when none go.
    ///
    /// # Safety
    /// Each piece is a mapped range; its bytes may change meanwhile.
    unsafe fn send(&mut self, pieces: &[libc::iovec]) -> io::Result<usize>;

    /// Receives into the places, in order; `WouldBlock` when nothing is there, 0 at the stream's end.
    ///
    /// # Safety
    /// Each place is a mapped range that may be written to; its bytes may change meanwhile.
    unsafe fn receive(&mut self, places: &[libc::iovec]) -> io::Result<usize>;

    /// Sends bytes that [`Stream::send`] took and holds back. For a stream that has a form of its own on the wire.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Bytes that it holds back.
    fn unsent_len(&self) -> usize {
        0
    }

    /// True if one call to [`Stream::send`] takes all that there is room for.
    fn takes_all(&self) -> bool {
        true
    }
}

/// A [`Link`] over a [`Stream`].
pub struct StreamLink<S> {
    stream: S,
    peer: String,
    outbox: Outbox,
    inbox: Inbox,
    buffer: Box<[UnsafeCell<u8>]>,
    /// Range of buffered bytes that the sink has not taken.
    held: std::ops::Range<usize>,
    has_more: bool,
    /// Why sending failed: reported when nothing more arrives either.
    broken: Option<Ending>,
    end: Option<LinkError>,
}

impl<S: Stream> StreamLink<S> {
    /// A link over a stream that has been greeted already.
    pub fn new(stream: S, peer: String) -> StreamLink<S> {
        StreamLink {
            stream,
            peer,
            outbox: Outbox::new(),
            inbox: Inbox::new(),
            buffer: (0..RECEIVE_LEN).map(|_| UnsafeCell::new(0)).collect(),
            held: 0..0,
            has_more: false,
            broken: None,
            end: None,
        }
    }

    /// The stream of a link that nothing was sent over and nothing has come from, and the peer's name.
    pub(crate) fn into_stream(self) -> (S, String) {
        assert!(self.outbox.is_empty() && self.inbox.is_whole() && self.held.is_empty(), "the link is in use already");
        (self.stream, self.peer)
    }

    /// The stream, to set it up.
    pub(crate) fn stream_mut(&mut self) -> &mut S {
        &mut self.stream
    }

    /// The stream of a link that nothing was sent over and nothing has come from.
    pub fn into_channel(self) -> S {
        self.into_stream().0
    }

    /// Sends bytes while they go. A broken connection is no error here: the peer's earlier messages come first.
    fn push(&mut self, done: &mut Progress) -> Result<(), Ending> {
        if self.held_back_len() > 0 && !self.push_held_back(done)? {
            return Ok(());
        }
        while !self.outbox.is_empty() {
            let len = self.outbox.unsent_len();
            let (outcome, len) = if len <= JOIN_LEN as u64 { self.send_joined(len as usize)? } else { self.send_gathered() };
            match outcome {
                Ok(sent) => {
                    self.outbox.sent(sent);
                    done.sent_len += sent as u64;
                    if sent < len && (self.stream.takes_all() || self.stream.unsent_len() > 0) {
                        return Ok(());
                    }
                    if done.sent_len >= FAIR_LEN && !self.outbox.is_empty() {
                        self.has_more = true;
                        return Ok(());
                    }
                }
                Err(error) if is_wait(&error) => return Ok(()),
                Err(error) => self.lose(&error)?,
            }
        }
        Ok(())
    }

    /// Sends bytes that the stream holds back. Returns true if it holds none any more.
    #[cold]
    fn push_held_back(&mut self, done: &mut Progress) -> Result<bool, Ending> {
        let before = self.stream.unsent_len();
        if let Err(error) = self.stream.flush() {
            self.lose(&error)?;
        }
        let after = self.held_back_len();
        done.sent_len += before.saturating_sub(after) as u64;
        Ok(after == 0)
    }

    /// Records that sending is over; the peer's earlier messages come first.
    #[cold]
    fn lose(&mut self, error: &io::Error) -> Result<(), Ending> {
        match Ending::of_call("sending", error) {
            ending @ Ending::Closed(_) => {
                self.broken = Some(ending);
                self.outbox.clear();
                Ok(())
            }
            ending => Err(ending),
        }
    }

    /// Bytes that the stream holds back and may still send.
    fn held_back_len(&self) -> usize {
        if self.broken.is_some() || self.end.is_some() { 0 } else { self.stream.unsent_len() }
    }

    /// Sends few bytes in one call, put side by side: the kernel takes one piece faster than several.
    #[inline]
    fn send_joined(&mut self, len: usize) -> Result<(io::Result<usize>, usize), Ending> {
        let mut joined = [const { MaybeUninit::<u8>::uninit() }; JOIN_LEN];
        // SAFETY: the array outlives the window, which is written before it is read.
        let window = unsafe { Window::new(joined.as_mut_ptr().cast(), len) };
        self.outbox.copy_to(window)?;
        // SAFETY: as above.
        Ok((unsafe { self.stream.send(&[iovec(window)]) }, len))
    }

    /// Sends as many pieces as one call takes.
    fn send_gathered(&mut self) -> (io::Result<usize>, usize) {
        let mut pieces = [NOTHING; GATHER_COUNT];
        let (count, len) = gather(&self.outbox, &mut pieces);
        // SAFETY: invariant 1; heads lie in the outbox, which is not touched during the call.
        (unsafe { self.stream.send(&pieces[..count]) }, len)
    }

    /// Receives what is there and hands it to the sink.
    fn pull(&mut self, sink: &mut dyn Sink, done: &mut Progress) -> Result<(), Ending> {
        let buffer = self.buffer_window();
        loop {
            if !self.held.is_empty() {
                let from = buffer.slice(self.held.start, self.held.len());
                self.held.start += self.inbox.take(from, sink, done)?;
                if !self.held.is_empty() {
                    return Ok(());
                }
            }
            if self.inbox.is_between() && !sink.may_begin() || !self.inbox.has_place(sink)? {
                return Ok(());
            }
            if done.is_fair_share() || sink.has_enough() {
                self.has_more = true;
                return Ok(());
            }
            let straight = self.inbox.rest().unwrap_or(Window::empty());
            let behind = buffer.slice(0, if self.inbox.has_windows_to_come() { RECEIVE_LEN } else { BEGIN_LEN });
            let Some(len) = self.receive(straight, behind)? else { return Ok(()) };
            done.received_len += len as u64;
            if !straight.is_empty() {
                self.inbox.filled(len.min(straight.len()), sink, done)?;
            }
            self.held = 0..len.saturating_sub(straight.len());
            let from = buffer.slice(0, self.held.len());
            self.held.start = self.inbox.take(from, sink, done)?;
            if len < straight.len() + behind.len() {
                // Sealed bytes that are not open yet come with the next call.
                done.is_drained = self.held.is_empty() && self.stream.takes_all();
                return Ok(());
            }
        }
    }

    /// Receives by one call; none when nothing is there.
    fn receive(&mut self, straight: Window, behind: Window) -> Result<Option<usize>, Ending> {
        let places = [iovec(straight), iovec(behind)];
        let places = if straight.is_empty() { &places[1..] } else { &places[..] };
        // SAFETY: invariants 1 and 2.
        match unsafe { self.stream.receive(places) } {
            Ok(0) => Err(self.ended()),
            Ok(len) => Ok(Some(len)),
            Err(error) if is_wait(&error) => match self.broken.take() {
                Some(ending) => Err(ending),
                None => Ok(None),
            },
            Err(error) => Err(Ending::of_call("receiving", &error)),
        }
    }

    #[cold]
    fn ended(&mut self) -> Ending {
        match self.broken.take() {
            Some(ending) => ending,
            None if self.inbox.is_whole() => Ending::Closed("it closed the connection".into()),
            None => Ending::Closed("it closed the connection in the middle of a message".into()),
        }
    }

    /// Ends the link. Progress made in this call is reported first.
    #[cold]
    fn finish(&mut self, ending: Ending, done: Progress) -> Result<Progress, LinkError> {
        self.outbox.clear();
        let end = ending.at(&self.peer);
        self.end = Some(end.clone());
        if done.is_idle() { Err(end) } else { Ok(Progress { has_more: true, ..done }) }
    }

    fn push_now(&mut self) -> Result<(), LinkError> {
        match self.push(&mut Progress::default()) {
            Ok(()) => Ok(()),
            Err(ending) => self.finish(ending, Progress::default()).map(drop),
        }
    }
}

impl<S: Stream> Link for StreamLink<S> {
    unsafe fn send(&mut self, head: &Head, body: &[Window]) -> Result<(), LinkError> {
        self.check_open()?;
        if self.broken.is_some() {
            return Ok(());
        }
        let was_empty = self.outbox.is_empty();
        self.outbox.begin(head, body);
        // Earlier bytes still wait, so these would too: `progress` tries again.
        if was_empty { self.push_now() } else { Ok(()) }
    }

    unsafe fn send_later(&mut self, head: &Head, body: &[Window]) -> Result<(), LinkError> {
        self.check_open()?;
        if self.broken.is_none() {
            self.outbox.begin(head, body);
        }
        Ok(())
    }

    unsafe fn extend(&mut self, body: &[Window]) -> Result<(), LinkError> {
        self.check_open()?;
        if self.broken.is_some() {
            return Ok(());
        }
        let was_empty = self.outbox.is_empty();
        self.outbox.extend(body);
        if was_empty { self.push_now() } else { Ok(()) }
    }

    fn unsent_len(&self) -> u64 {
        self.outbox.unsent_len() + self.held_back_len() as u64
    }

    fn progress(&mut self, sink: &mut dyn Sink) -> Result<Progress, LinkError> {
        self.check_open()?;
        self.has_more = false;
        let mut done = Progress::default();
        match self.push(&mut done).and_then(|()| self.pull(sink, &mut done)) {
            Ok(()) => Ok(Progress { has_more: self.has_more, ..done }),
            Err(ending) => self.finish(ending, done),
        }
    }

    fn event(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    fn needs_write_event(&self) -> bool {
        !self.outbox.is_empty() || self.held_back_len() > 0
    }

    fn doze(&mut self) -> bool {
        !self.has_more && self.end.is_none() && self.broken.is_none()
    }

    fn peer(&self) -> &str {
        &self.peer
    }

    fn checks_by_call(&self) -> bool {
        true
    }

    fn look(&self) -> Sight {
        look_at(self.stream.as_fd())
    }
}

impl<S> StreamLink<S> {
    fn buffer_window(&self) -> Window {
        // SAFETY: the buffer lives as long as the link, which keeps no copy of the window; cells may be written to.
        unsafe { Window::new(self.buffer.as_ptr().cast_mut().cast(), self.buffer.len()) }
    }

    fn check_open(&self) -> Result<(), LinkError> {
        match &self.end {
            None => Ok(()),
            Some(end) => Err(end.clone()),
        }
    }
}

const NOTHING: libc::iovec = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };

fn iovec(window: Window) -> libc::iovec {
    libc::iovec { iov_base: window.ptr().cast(), iov_len: window.len() }
}

/// Fills `pieces` from the outbox and returns their number and their length together.
fn gather(outbox: &Outbox, pieces: &mut [libc::iovec; GATHER_COUNT]) -> (usize, usize) {
    let (mut count, mut len) = (0, 0);
    for (place, (piece, skip)) in pieces.iter_mut().zip(outbox.pieces()) {
        *place = match piece {
            Piece::Head(bytes) => libc::iovec { iov_base: bytes[skip..].as_ptr().cast_mut().cast(), iov_len: bytes.len() - skip },
            Piece::Body(window) => iovec(window.slice(skip, window.len() - skip)),
        };
        count += 1;
        len += place.iov_len;
    }
    (count, len)
}

fn is_wait(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::{Store, body, head, send};
    use hanare_protocol::wire::head::HEAD_LEN;
    use std::sync::{Arc, Mutex};

    /// A stream in memory that counts its calls and can be told how much goes in one.
    struct Counted {
        event: std::os::fd::OwnedFd,
        out: Arc<Mutex<Vec<u8>>>,
        inn: Arc<Mutex<Vec<u8>>>,
        sends: usize,
        receives: usize,
        len_max: usize,
    }

    fn pair() -> (StreamLink<Counted>, StreamLink<Counted>) {
        let (one, other) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(Vec::new())));
        let make = |out: &Arc<Mutex<Vec<u8>>>, inn: &Arc<Mutex<Vec<u8>>>| {
            let event = std::fs::File::open("/dev/null").unwrap().into();
            let stream = Counted { event, out: out.clone(), inn: inn.clone(), sends: 0, receives: 0, len_max: usize::MAX };
            StreamLink::new(stream, "memory".into())
        };
        (make(&one, &other), make(&other, &one))
    }

    impl AsFd for Counted {
        fn as_fd(&self) -> BorrowedFd<'_> {
            self.event.as_fd()
        }
    }

    impl Stream for Counted {
        unsafe fn send(&mut self, pieces: &[libc::iovec]) -> io::Result<usize> {
            self.sends += 1;
            let mut out = self.out.lock().unwrap();
            let before = out.len();
            for piece in pieces {
                let len = piece.iov_len.min(self.len_max - (out.len() - before));
                // SAFETY: the caller's promise on the piece.
                out.extend_from_slice(unsafe { std::slice::from_raw_parts(piece.iov_base.cast(), len) });
            }
            match out.len() - before {
                0 => Err(io::ErrorKind::WouldBlock.into()),
                len => Ok(len),
            }
        }

        unsafe fn receive(&mut self, places: &[libc::iovec]) -> io::Result<usize> {
            self.receives += 1;
            let mut inn = self.inn.lock().unwrap();
            let mut done = 0;
            for place in places {
                let len = place.iov_len.min(inn.len());
                // SAFETY: the caller's promise on the place.
                unsafe { std::ptr::copy_nonoverlapping(inn.as_ptr(), place.iov_base.cast(), len) };
                inn.drain(..len);
                done += len;
            }
            if done == 0 { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(done) }
        }
    }

    #[test]
    fn a_small_message_is_one_call_on_each_side() {
        for len in [0, 8, 4096, BEGIN_LEN - HEAD_LEN - 1] {
            let (mut one, mut other) = pair();
            let bytes = body(0, len);
            send(&mut one, 0, &bytes).unwrap();
            let mut store = Store::new();
            let done = other.progress(&mut store).unwrap();
            assert_eq!((store.messages, done.is_drained), (vec![(head(0, len), bytes)], true));
            assert_eq!((one.stream.sends, other.stream.receives), (1, 1), "{len} bytes");
            assert_eq!((one.stream.receives, other.stream.sends), (0, 0), "{len} bytes");
        }
    }

    #[test]
    fn small_messages_that_wait_are_one_call_together() {
        let (mut one, mut other) = pair();
        let bytes = body(0, 100);
        one.stream.len_max = 0;
        for seq in 0..GATHER_COUNT as u64 / 2 {
            send(&mut one, seq, &bytes).unwrap();
        }
        one.stream.len_max = usize::MAX;
        one.stream.sends = 0;
        one.progress(&mut Store::new()).unwrap();
        let mut store = Store::new();
        other.progress(&mut store).unwrap();
        assert_eq!(store.messages.len(), GATHER_COUNT / 2);
        assert_eq!((one.stream.sends, other.stream.receives), (1, 1));
    }

    // FEATURE: RF-F2
    #[test]
    fn a_large_body_is_received_where_it_belongs_and_little_of_it_is_copied() {
        let (mut one, mut other) = pair();
        let bytes = body(0, 1 << 20);
        send(&mut one, 0, &bytes).unwrap();
        let mut store = Store::new();
        while store.messages.is_empty() {
            other.progress(&mut store).unwrap();
        }
        assert_eq!(other.stream.receives, 2, "the head with a buffer's worth of body, then all the rest");
        assert!(store.messages[0].1 == bytes);
    }

    #[test]
    fn small_windows_do_not_make_many_calls() {
        let (mut one, mut other) = pair();
        let bytes = body(0, 1 << 20);
        send(&mut one, 0, &bytes).unwrap();
        let mut store = Store::of_pieces(4096);
        while store.messages.is_empty() {
            other.progress(&mut store).unwrap();
        }
        assert!(other.stream.receives <= 3 + (1 << 20) / RECEIVE_LEN, "{} calls", other.stream.receives);
    }

    #[test]
    fn messages_that_may_wait_go_in_one_call_with_the_next_progress() {
        let (mut one, mut other) = pair();
        let bytes: Vec<Vec<u8>> = (0..5).map(|seq| body(seq, 48)).collect();
        for (seq, bytes) in bytes.iter().enumerate() {
            // SAFETY: the bytes outlive the link's use of them, and are only read.
            unsafe { one.send_later(&head(seq as u64, bytes.len()), &[Window::of(bytes)]).unwrap() };
        }
        assert_eq!(one.stream.sends, 0);
        one.progress(&mut Store::new()).unwrap();
        assert_eq!((one.stream.sends, one.unsent_len()), (1, 0));
        let mut store = Store::new();
        other.progress(&mut store).unwrap();
        assert!(store.messages.iter().zip(&bytes).all(|((_, got), sent)| got == sent) && store.messages.len() == 5);
    }

    #[test]
    fn nothing_to_do_is_one_call() {
        let (mut one, _other) = pair();
        assert!(one.progress(&mut Store::new()).unwrap().is_idle());
        assert_eq!((one.stream.sends, one.stream.receives), (0, 1));
    }

    #[test]
    fn a_stream_that_takes_any_few_bytes_gets_them_in_order() {
        for len_max in [1, 5, 33, 1000] {
            let (mut one, mut other) = pair();
            one.stream.len_max = len_max;
            let bytes: Vec<Vec<u8>> = (0..5).map(|seq| body(seq, 700)).collect();
            for (seq, bytes) in bytes.iter().enumerate() {
                send(&mut one, seq as u64, bytes).unwrap();
            }
            let mut store = Store::of_pieces(300);
            while store.messages.len() < 5 {
                assert!(one.unsent_len() > 0 || !other.inbox.is_whole() || !other.stream.inn.lock().unwrap().is_empty());
                one.progress(&mut Store::new()).unwrap();
                other.progress(&mut store).unwrap();
            }
            assert!(store.messages.iter().zip(&bytes).all(|((_, got), sent)| got == sent));
        }
    }
}
