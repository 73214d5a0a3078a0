//! The Unix socket between a client and its node: frames of postcard, and the descriptors that belong to them.
//!
//! A frame is its length (4 bytes, little-endian), how many descriptors come with it (4 bytes), and the value. Descriptors arrive with the
//! frame's first bytes, at most `FDS_PER_MESSAGE` at a time. A frame with more spreads them over several one-byte messages behind its
//! value. A node takes few of them, and short frames: see `Most`.

use hanare_memory::fork::Withheld;
use hanare_protocol::limits::CONTROL_LEN_MAX;
use hanare_protocol::limits::{REQUEST_FD_COUNT_MAX, REQUEST_LEN_MAX};
use hanare_protocol::wire::control;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    SocketAddrUnix, SocketFlags, SocketType,
};
use serde::{Serialize, de::DeserializeOwned};
use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Most descriptors in one `sendmsg` (the kernel allows 253).
const FDS_PER_MESSAGE: usize = 128;
const PREFIX_LEN: usize = 8;

/// The most that the other side may send in one frame.
#[derive(Clone, Copy, Debug)]
struct Most {
    len: usize,
    fds: usize,
}

/// Limits on a reply from the node, which a client has to trust.
const ANSWER: Most = Most { len: CONTROL_LEN_MAX, fds: 1 << 16 };

/// Limits on a client's request.
const REQUEST: Most = Most { len: REQUEST_LEN_MAX, fds: REQUEST_FD_COUNT_MAX };

/// The address of a node's socket: a path, or `@name` for one without a file.
pub fn socket_address(name: &str) -> io::Result<SocketAddrUnix> {
    Ok(match name.strip_prefix('@') {
        Some(name) => SocketAddrUnix::new_abstract_name(name.as_bytes())?,
        None => SocketAddrUnix::new(name)?,
    })
}

/// A fresh stream socket.
pub fn socket() -> io::Result<OwnedFd> {
    Ok(rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?)
}

/// A side's view of the connection: reads whole frames, whether the socket blocks or not.
#[derive(Debug)]
pub struct FrameSocket {
    /// Children made by fork do not keep it open. Dropped before the descriptor.
    _withheld: Withheld,
    fd: OwnedFd,
    /// True if calls on the socket wait; then "try again" means that they waited too long.
    waits: bool,
    most: Most,
    bytes: Vec<u8>,
    fds: Vec<OwnedFd>,
    queue: VecDeque<UnsentMessage>,
}

/// Bytes on their way, and the descriptors that leave with the first of them.
#[derive(Debug)]
struct UnsentMessage {
    bytes: Vec<u8>,
    fds: Vec<OwnedFd>,
    sent: usize,
}

/// A whole frame.
#[derive(Debug)]
pub struct Frame {
    value: Vec<u8>,
    /// The descriptors that came with it.
    pub fds: Vec<OwnedFd>,
}

impl Frame {
    /// Reads the frame's value.
    pub fn decode<T: DeserializeOwned>(&self) -> io::Result<T> {
        control::decode(&self.value).map_err(|malformed| io::Error::new(io::ErrorKind::InvalidData, malformed.0))
    }
}

impl FrameSocket {
    /// Takes over a client's socket, whose calls wait.
    pub fn waiting(fd: OwnedFd) -> FrameSocket {
        FrameSocket {
            _withheld: Withheld::new(fd.as_fd()),
            fd,
            waits: true,
            most: ANSWER,
            bytes: Vec::new(),
            fds: Vec::new(),
            queue: VecDeque::new(),
        }
    }

    /// Takes over a node's socket, whose calls never wait.
    pub fn polled(fd: OwnedFd) -> FrameSocket {
        FrameSocket { waits: false, most: REQUEST, ..FrameSocket::waiting(fd) }
    }

    /// Queues one frame and sends what goes at once: all of it where the socket blocks.
    pub fn send<T: Serialize>(&mut self, value: &T, mut fds: Vec<OwnedFd>) -> io::Result<()> {
        let value = control::encode(value);
        let mut bytes = Vec::with_capacity(PREFIX_LEN + value.len());
        bytes.extend_from_slice(&(value.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&(fds.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&value);
        let mut rest = fds.split_off(fds.len().min(FDS_PER_MESSAGE));
        self.queue.push_back(UnsentMessage { bytes, fds, sent: 0 });
        while !rest.is_empty() {
            let after = rest.split_off(rest.len().min(FDS_PER_MESSAGE));
            self.queue.push_back(UnsentMessage { bytes: vec![0], fds: rest, sent: 0 });
            rest = after;
        }
        self.flush()
    }

    /// True if bytes wait for the peer to read.
    pub fn has_unsent(&self) -> bool {
        !self.queue.is_empty()
    }

    /// True if bytes of a next frame were received, of which the kernel tells no more.
    pub fn has_received(&self) -> bool {
        !self.bytes.is_empty()
    }

    /// Sends as much of the queue as goes.
    pub fn flush(&mut self) -> io::Result<()> {
        while let Some(first) = self.queue.front_mut() {
            match send_some(&self.fd, &first.bytes[first.sent..], &first.fds) {
                Ok(sent) => {
                    // Descriptors leave with the first byte.
                    first.fds.clear();
                    first.sent += sent;
                    if first.sent == first.bytes.len() {
                        self.queue.pop_front();
                    }
                }
                Err(Errno::AGAIN) => return if self.waits { Err(Errno::AGAIN.into()) } else { Ok(()) },
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    /// The next whole frame. `Ok(None)` when the socket does not block and has no more; `UnexpectedEof` when the peer is gone.
    pub fn receive(&mut self) -> io::Result<Option<Frame>> {
        loop {
            if let Some(frame) = self.take_frame()? {
                return Ok(Some(frame));
            }
            match self.receive_some() {
                // Descriptors come with the frames that name them: no more of them wait here.
                Ok(_) if self.fds.len() > self.most.fds => return Err(beyond_limits()),
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => {}
                Err(Errno::AGAIN) => return Ok(None),
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    fn take_frame(&mut self) -> io::Result<Option<Frame>> {
        let Some(prefix) = self.bytes.get(..PREFIX_LEN) else { return Ok(None) };
        let number = |at: usize| u32::from_le_bytes(prefix[at..at + 4].try_into().expect("4 bytes")) as usize;
        let (len, fd_count) = (number(0), number(4));
        if len > self.most.len || fd_count > self.most.fds {
            return Err(beyond_limits());
        }
        let carriers = fd_count.saturating_sub(1) / FDS_PER_MESSAGE;
        let whole = PREFIX_LEN + len + carriers;
        if self.bytes.len() < whole || self.fds.len() < fd_count {
            return Ok(None);
        }
        let value = self.bytes[PREFIX_LEN..PREFIX_LEN + len].to_vec();
        self.bytes.drain(..whole);
        Ok(Some(Frame { value, fds: self.fds.drain(..fd_count).collect() }))
    }

    fn receive_some(&mut self) -> Result<usize, Errno> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_PER_MESSAGE))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut buffer = [0; 4096];
        let received = retry(|| {
            rustix::net::recvmsg(&self.fd, &mut [IoSliceMut::new(&mut buffer)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)
        })?;
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(fds) = message {
                self.fds.extend(fds);
            }
        }
        self.bytes.extend_from_slice(&buffer[..received.bytes]);
        Ok(received.bytes)
    }
}

fn beyond_limits() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "a frame beyond the limits")
}

impl AsFd for FrameSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn send_some(socket: &OwnedFd, bytes: &[u8], fds: &[OwnedFd]) -> Result<usize, Errno> {
    let fds: Vec<BorrowedFd<'_>> = fds.iter().map(OwnedFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_PER_MESSAGE))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() {
        assert!(ancillary.push(SendAncillaryMessage::ScmRights(&fds)), "the buffer has room for {FDS_PER_MESSAGE}");
    }
    retry(|| rustix::net::sendmsg(socket, &[IoSlice::new(bytes)], &mut ancillary, SendFlags::NOSIGNAL))
}

fn retry<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            other => return other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hanare_protocol::wire::control::Request;

    fn pair() -> (FrameSocket, FrameSocket) {
        let (a, b) = rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
        (FrameSocket::waiting(a), FrameSocket::waiting(b))
    }

    #[test]
    fn frames_keep_their_order_and_their_descriptors() {
        let (mut a, mut b) = pair();
        let file = std::fs::File::open("/dev/null").unwrap();
        let files = |count| (0..count).map(|_| OwnedFd::from(file.try_clone().unwrap())).collect::<Vec<_>>();
        let (two, many) = (files(2), files(300));
        let sender = std::thread::spawn(move || {
            a.send(&Request::Status, two).unwrap();
            a.send(&Request::Stat { name: "x".repeat(10_000) }, Vec::new()).unwrap();
            a.send(&Request::Status, many).unwrap();
        });
        let first = b.receive().unwrap().unwrap();
        assert_eq!((first.decode::<Request>().unwrap(), first.fds.len()), (Request::Status, 2));
        let second = b.receive().unwrap().unwrap();
        assert!(matches!(second.decode::<Request>().unwrap(), Request::Stat { name } if name.len() == 10_000));
        assert_eq!(second.fds.len(), 0);
        assert_eq!(b.receive().unwrap().unwrap().fds.len(), 300);
        sender.join().unwrap();
        assert_eq!(b.receive().unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn a_node_keeps_no_descriptors_that_a_client_piles_up() {
        let (mut a, b) = pair();
        let mut node = FrameSocket::polled(b.fd);
        rustix::io::ioctl_fionbio(&node.fd, true).unwrap();
        let file = std::fs::File::open("/dev/null").unwrap();
        let open = || std::fs::read_dir("/proc/self/fd").unwrap().count();
        let before = open();
        // A frame that never ends, and descriptors with each of its bytes.
        rustix::io::write(&a.fd, &[0xff, 0, 0, 0, REQUEST_FD_COUNT_MAX as u8, 0, 0, 0]).unwrap();
        for _ in 0..3 {
            let fds = (0..FDS_PER_MESSAGE).map(|_| file.try_clone().unwrap().into()).collect();
            a.queue.push_back(UnsentMessage { bytes: vec![0], fds, sent: 0 });
        }
        a.flush().unwrap();
        assert_eq!(node.receive().unwrap_err().kind(), io::ErrorKind::InvalidData);
        drop(node);
        // Other tests of this process open and close theirs meanwhile.
        assert!(open() < before + FDS_PER_MESSAGE, "{before} before, {} after", open());
    }

    #[test]
    fn a_frame_beyond_the_limits_is_refused_before_it_is_read() {
        let (a, mut b) = pair();
        rustix::io::write(&a.fd, &[0xff; 8]).unwrap();
        assert_eq!(b.receive().unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
