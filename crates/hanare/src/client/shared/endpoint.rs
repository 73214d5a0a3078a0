//! The connection to one node on which a faulting thread speaks for itself, inside the SIGBUS handler.
//!
//! Every call but [`Endpoint::connect`] is async-signal-safe: no allocation, lock, thread-local or panic. The system calls are `sendmsg`,
//! `send`, `recv`, `poll`, `sched_yield` and `clock_gettime`. Messages are sealed as on other connections. The keys are made when it
//! connects, and sealing takes nothing but memory that is there. An endpoint is always TCP, whatever `HANARE_FABRIC` and the node say. A
//! fault may happen inside any library, so none can be called, and an RDMA library takes locks.
//!
//! An endpoint has one request at a time under way, by the one thread that holds its context. Parts of one release go together. After one loss
//! the endpoint stays lost until there is another connection. A late reply would pass for the next one's.
//!
//! Safety invariant of this module: one thread at a time uses an endpoint (it is not `Sync`). Its callees never come back to it, so
//! nobody else looks at its buffer.

use crate::client::attachment::{FaultTraffic, Shared, count};
use crate::face;
use hanare_fabric::agree;
use hanare_fabric::tcp::{Channel, Greeted};
use hanare_protocol::id::NodeId;
use hanare_protocol::limits::{PAGE_LEN, SPIN_ANSWER_US};
use hanare_protocol::versions::OLDEST;
use hanare_protocol::wire::control::SharedHome;
use hanare_protocol::wire::head::{HEAD_LEN, Head, Kind};
use hanare_protocol::{Error, Result};
use hanare_ring::wait::{Backoff, Step};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, Shutdown, recv, shutdown};
use std::cell::{Cell, UnsafeCell};
use std::io::IoSlice;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Why an endpoint is of no more use. A plain value, made and looked at inside a signal handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Broken {
    /// The node closed the connection, or is gone.
    Closed,
    /// No byte moved within the bound.
    TimedOut,
    /// The kernel refused a step.
    System(Errno),
    /// The received bytes are no message, or none that answers ours.
    Nonsense,
    /// The home does not share the region with this host any more. The connection serves on.
    NotShared,
}

impl Broken {
    /// The same for messages.
    pub fn words(self) -> &'static str {
        match self {
            Broken::Closed => "the connection ended",
            Broken::TimedOut => "it did not answer within HANARE_ANSWER_MS",
            Broken::System(_) => "a system call on the connection failed",
            Broken::Nonsense => "what it answered is no answer",
            Broken::NotShared => "it does not share the region with this host any more; unmap it and map it again",
        }
    }

    /// The error for the node at the other end.
    pub fn error(self, node: NodeId) -> Error {
        let reason = match self {
            Broken::System(errno) => format!("{}: {errno}", self.words()),
            _ => self.words().to_owned(),
        };
        Error::NodeLost { node, reason }
    }
}

/// Bytes received at once where little is asked for: a head and a page behind it cost one call.
const BUFFER_LEN: usize = PAGE_LEN as usize + 2 * HEAD_LEN;

/// Pieces sent by one call: they lie on a small stack.
const GATHER_COUNT: usize = 8;

/// Bytes that were received and not asked for yet.
struct Buffer {
    bytes: [u8; BUFFER_LEN],
    from: usize,
    to: usize,
}

/// A connection to one node, for one thread at a time.
pub(crate) struct Endpoint {
    node: NodeId,
    share: u64,
    spoken: u32,
    channel: UnsafeCell<Channel>,
    bound: Duration,
    traffic: Arc<FaultTraffic>,
    broken: Cell<Option<Broken>>,
    buffer: Box<UnsafeCell<Buffer>>,
}

impl Endpoint {
    /// Connects to a node, and proves the pool's key. Each answer has a time of `bound`. Not for a signal handler.
    ///
    /// **Cost**: five round trips at most. **Errors**: [`Error::NodeLost`] where nobody listens; as every connection's.
    pub fn connect(shared: &Shared, home: &SharedHome, bound: Duration) -> Result<Endpoint> {
        Endpoint::connect_within(shared, home, bound, shared.bound)
    }

    /// [`Endpoint::connect`], in a time of its own.
    pub fn connect_within(shared: &Shared, home: &SharedHome, bound: Duration, patience: Duration) -> Result<Endpoint> {
        let SharedHome { node, ref address, share } = *home;
        let deadline = Instant::now() + patience;
        let agree = |greeted: Greeted| Ok((greeted.spoken, agree::take_channel(greeted, deadline)?));
        let (spoken, channel) = shared.greet(node, address, None, deadline, agree)?;
        let endpoint = Endpoint { spoken, share, ..Endpoint::over(node, channel, bound, shared.faults.clone()) };
        // No traffic of the mapping: it goes with the connection. One that breaks under it is found broken later.
        let told = face::told(spoken).map_or(Ok(()), |head| endpoint.send_all(&[&head.encode()]));
        let _ = told.map_err(|why| endpoint.give_up(why));
        Ok(endpoint)
    }

    /// An endpoint over a stream that does not block.
    fn over(node: NodeId, channel: Channel, bound: Duration, traffic: Arc<FaultTraffic>) -> Endpoint {
        let buffer = Box::new(UnsafeCell::new(Buffer { bytes: [0; BUFFER_LEN], from: 0, to: 0 }));
        Endpoint {
            node,
            share: 0,
            spoken: OLDEST,
            channel: UnsafeCell::new(channel),
            bound,
            traffic,
            broken: Cell::new(None),
            buffer,
        }
    }

    /// The stream, for one call.
    #[allow(clippy::mut_from_ref, reason = "the module's invariant")]
    fn channel(&self) -> &mut Channel {
        // SAFETY: this thread alone uses the endpoint, and no call on the stream calls back (the module's invariant).
        unsafe { &mut *self.channel.get() }
    }

    fn socket(&self) -> BorrowedFd<'_> {
        // SAFETY: as above; the descriptor stays the same and open.
        unsafe { &*self.channel.get() }.as_fd()
    }

    /// The node at the other end.
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// Key of this host in messages on pages that go over it. Another membership there has another connection.
    pub fn share(&self) -> u64 {
        self.share
    }

    /// The version of the wire that both sides speak.
    pub fn spoken(&self) -> u32 {
        self.spoken
    }

    /// Time for each of its answers.
    pub fn bound(&self) -> Duration {
        self.bound
    }

    /// Why it is of no more use, if it is.
    #[allow(dead_code, reason = "for resolvers that look before they send")]
    pub fn broken(&self) -> Option<Broken> {
        self.broken.get()
    }

    /// True if it is known to be of no more use, without a message. An end that came while no thread listened counts.
    ///
    /// **Cost**: one call.
    pub fn is_ended(&self) -> bool {
        let look = || recv(self.socket(), &mut [0; 1][..], RecvFlags::PEEK | RecvFlags::DONTWAIT);
        // Between requests there is nothing to be read: bytes would be the answer to nothing.
        self.broken.get().is_some() || !matches!(look(), Err(Errno::AGAIN | Errno::INTR))
    }

    /// Gives the connection up, for what an answer said or did not say. Returns the first reason.
    pub fn give_up(&self, why: Broken) -> Broken {
        let first = self.broken.get().unwrap_or(why);
        if self.broken.replace(Some(first)).is_none() {
            // The node must not wait for what this side will not say any more.
            let _ = shutdown(self.socket(), Shutdown::Both);
        }
        first
    }

    /// Sends a message: all bytes of the pieces, in order.
    ///
    /// **Cost**: one call for up to 8 pieces that the socket takes. **Errors**: also what broke it before.
    pub fn send(&self, pieces: &[&[u8]]) -> Result<(), Broken> {
        self.broken.get().map_or(Ok(()), Err)?;
        self.traffic.sent(self.node, pieces.iter().map(|piece| piece.len() as u64).sum());
        self.send_all(pieces).map_err(|why| self.give_up(why))
    }

    /// Receives as many bytes as there is room for.
    ///
    /// **Cost**: no call if the bytes came with earlier ones. Else one, and one copy more for up to a page. **Errors**: also what broke it
    /// before; the bytes are then unspecified.
    pub fn receive(&self, into: &mut [u8]) -> Result<(), Broken> {
        self.broken.get().map_or(Ok(()), Err)?;
        count(&self.traffic.bytes_received, into.len() as u64);
        self.receive_all(into).map_err(|why| self.give_up(why))
    }

    /// Counts pages that the home grants later.
    pub fn count_later(&self, pages: u64) {
        count(&self.traffic.pages_later, pages);
    }

    /// Receives the head of the answer to request `seq`; signs of life before it begin the bound anew.
    pub fn receive_head(&self, seq: u64) -> Result<Head, Broken> {
        self.receive_head_of(|of| of == seq)
    }

    /// [`Endpoint::receive_head`] of any request that is expected.
    pub fn receive_head_of(&self, is_expected: impl Fn(u64) -> bool) -> Result<Head, Broken> {
        loop {
            let mut bytes = [0; HEAD_LEN];
            self.receive(&mut bytes)?;
            count(&self.traffic.messages_received, 1);
            match Head::decode(&bytes) {
                Ok(head) if head.kind == Kind::Working => {}
                Ok(head) if is_expected(head.seq) => return Ok(head),
                _ => return Err(self.give_up(Broken::Nonsense)),
            }
        }
    }

    /// Receives bytes that nobody wants, so that the next message is found.
    pub fn skip(&self, mut len: u64) -> Result<(), Broken> {
        let mut bytes = [0; 256];
        while len > 0 {
            let part = len.min(bytes.len() as u64) as usize;
            self.receive(&mut bytes[..part])?;
            len -= part as u64;
        }
        Ok(())
    }

    fn send_all(&self, pieces: &[&[u8]]) -> Result<(), Broken> {
        let mut wait = Wait::new(self.bound);
        let mut rest = pieces;
        // Bytes of the first piece that have left.
        let mut sent = 0;
        while let Some(first) = rest.first() {
            if sent >= first.len() {
                (rest, sent) = (&rest[1..], sent - first.len());
                continue;
            }
            let mut slices = [IoSlice::new(&[]); GATHER_COUNT];
            for (slice, piece) in slices.iter_mut().zip(rest) {
                *slice = IoSlice::new(piece);
            }
            slices[0] = IoSlice::new(&first[sent..]);
            let count = rest.len().min(GATHER_COUNT);
            match self.channel().send_slices(&slices[..count]) {
                Ok(len) => {
                    sent += len;
                    wait = Wait::new(self.bound);
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => wait.step(self.socket(), PollFlags::OUT)?,
                Err(errno) => return Err(after(errno)),
            }
        }
        while !self.channel().flush_sealed().map_err(after)? {
            wait.step(self.socket(), PollFlags::OUT)?;
        }
        Ok(())
    }

    fn receive_all(&self, into: &mut [u8]) -> Result<(), Broken> {
        // SAFETY: this thread alone uses the endpoint, and nothing below calls back (the module's invariant).
        let buffer = unsafe { &mut *self.buffer.get() };
        let mut wait = Wait::new(self.bound);
        let mut have = 0;
        loop {
            let held = &buffer.bytes[buffer.from..buffer.to];
            let len = held.len().min(into.len() - have);
            into[have..have + len].copy_from_slice(&held[..len]);
            (have, buffer.from) = (have + len, buffer.from + len);
            if have == into.len() {
                return Ok(());
            }
            let rest = &mut into[have..];
            let is_direct = rest.len() >= BUFFER_LEN;
            let place = if is_direct { rest } else { &mut buffer.bytes[..] };
            match self.channel().receive_slice(place) {
                Ok(0) => return Err(Broken::Closed),
                Ok(len) if is_direct => have += len,
                Ok(len) => (buffer.from, buffer.to) = (0, len),
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => {
                    wait.step(self.socket(), PollFlags::IN)?;
                    continue;
                }
                Err(errno) => return Err(after(errno)),
            }
            wait = Wait::new(self.bound);
        }
    }
}

/// Verdict of a refused call on the node.
fn after(errno: Errno) -> Broken {
    match errno {
        Errno::PIPE | Errno::CONNRESET | Errno::CONNABORTED | Errno::NOTCONN | Errno::HOSTUNREACH | Errno::NETUNREACH => {
            Broken::Closed
        }
        Errno::TIMEDOUT => Broken::TimedOut,
        Errno::BADMSG => Broken::Nonsense,
        errno => Broken::System(errno),
    }
}

/// A wait: pauses, then yields, then parks, until the deadline.
struct Wait {
    backoff: Backoff,
    /// When it parked first: before that next to no time has passed.
    since: Option<Instant>,
    bound: Duration,
}

impl Wait {
    fn new(bound: Duration) -> Wait {
        Wait { backoff: Backoff::with_budget(Duration::from_micros(SPIN_ANSWER_US)), since: None, bound }
    }

    fn step(&mut self, socket: BorrowedFd<'_>, flags: PollFlags) -> Result<(), Broken> {
        if self.backoff.step_after(true) == Step::Again {
            return Ok(());
        }
        let rest = self.bound.saturating_sub(self.since.get_or_insert_with(Instant::now).elapsed());
        if rest.is_zero() {
            return Err(Broken::TimedOut);
        }
        let timeout = Timespec { tv_sec: rest.as_secs() as i64, tv_nsec: rest.subsec_nanos().into() };
        match poll(&mut [PollFd::from_borrowed_fd(socket, flags)], Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(Broken::System(errno)),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use hanare_fabric::tcp::Socket;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::thread;

    /// An endpoint, and its peer.
    pub fn pair(bound: Duration) -> (Endpoint, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let ours = Channel::plain(Socket::new(ours).unwrap());
        (Endpoint::over(NodeId(7), ours, bound, Arc::default()), listener.accept().unwrap().0)
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn what_is_sent_in_pieces_arrives_in_order_beyond_the_socket_s_room() {
        let (endpoint, mut peer) = pair(LONG);
        let bytes: Vec<u8> = (0..8 << 20).map(|at: u32| (at / 3) as u8).collect();
        let wanted = bytes.clone();
        let reader = thread::spawn(move || {
            let mut got = vec![0; wanted.len()];
            peer.read_exact(&mut got).unwrap();
            assert!(got == wanted);
            peer
        });
        // Uneven pieces, more of them than one call takes, some without bytes.
        let mut pieces: Vec<&[u8]> = bytes.chunks(100_003).collect();
        pieces.insert(5, &[]);
        pieces.push(&[]);
        endpoint.send(&pieces).unwrap();
        reader.join().unwrap();
    }

    #[test]
    fn heads_and_bodies_come_however_the_stream_is_cut() {
        let (endpoint, mut peer) = pair(LONG);
        let body: Vec<u8> = (0..3 * BUFFER_LEN).map(|at| (at % 251) as u8).collect();
        let sent = body.clone();
        let writer = thread::spawn(move || {
            let head = |kind, seq, len: usize| Head { body_len: len as u64, ..Head::new(kind, seq) }.encode();
            let mut stream = head(Kind::Working, 0, 0).to_vec();
            for (seq, len) in [(1, 10), (2, BUFFER_LEN), (3, sent.len())] {
                stream.extend(head(Kind::Done, seq, len));
                stream.extend(&sent[..len]);
            }
            for part in stream.chunks(1000) {
                peer.write_all(part).unwrap();
            }
            peer
        });
        for (seq, skipped) in [(1, 0), (2, 300), (3, 1)] {
            let head = endpoint.receive_head(seq).unwrap();
            endpoint.skip(skipped).unwrap();
            let mut got = vec![0; head.body_len as usize - skipped as usize];
            endpoint.receive(&mut got).unwrap();
            assert!(got == body[skipped as usize..head.body_len as usize], "body {seq}");
        }
        writer.join().unwrap();
    }

    #[test]
    fn a_silent_peer_is_given_up_and_stays_so() {
        let (endpoint, mut peer) = pair(Duration::from_millis(5));
        assert_eq!(endpoint.receive(&mut [0; 4]), Err(Broken::TimedOut));
        peer.write_all(&[1; 4]).unwrap();
        assert_eq!(endpoint.receive(&mut [0; 4]), Err(Broken::TimedOut), "what comes late answers nothing");
        assert_eq!(endpoint.send(&[&[1]]), Err(Broken::TimedOut));
        assert!(matches!(endpoint.broken().unwrap().error(NodeId(7)), Error::NodeLost { node: NodeId(7), .. }));
    }

    #[test]
    fn a_peer_that_is_gone_or_answers_another_is_told_apart() {
        let (endpoint, mut peer) = pair(LONG);
        peer.write_all(&Head::new(Kind::Done, 1).encode()).unwrap();
        assert_eq!(endpoint.receive_head(2), Err(Broken::Nonsense));
        let (endpoint, peer) = pair(LONG);
        assert!(!endpoint.is_ended());
        drop(peer);
        while !endpoint.is_ended() {
            thread::yield_now();
        }
        assert_eq!(endpoint.receive(&mut [0; 4]), Err(Broken::Closed));
    }
}
