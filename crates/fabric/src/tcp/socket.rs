//! The system calls of a TCP link, and the options of its connection.
//!
//! Safety invariants of this module: those of [`Stream`], passed on to the kernel. It never makes a reference to the
//! bytes, and answers a range that is not mapped with an error.

use crate::stream::Stream;
use hanare_protocol::limits::{ANSWER_MS, LEASE_MS, RENEW_MS};
use rustix::net::sockopt;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// A connected TCP socket that never blocks.
pub struct Socket {
    fd: OwnedFd,
    ours: SocketAddr,
    theirs: SocketAddr,
}

impl Socket {
    /// Takes a connection over: no delay for small messages, no blocking, and an end to a silent peer's host.
    ///
    /// A host that vanished is noticed by unanswered keep-alives when nothing is under way, and by unacknowledged data
    /// otherwise; a process that died is told by the kernel at once.
    pub fn new(stream: TcpStream) -> io::Result<Socket> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        let (ours, theirs) = (stream.local_addr()?, stream.peer_addr()?);
        let socket = Socket { fd: stream.into(), ours, theirs };
        sockopt::set_socket_keepalive(&socket.fd, true)?;
        sockopt::set_tcp_keepidle(&socket.fd, Duration::from_millis(LEASE_MS))?;
        sockopt::set_tcp_keepintvl(&socket.fd, Duration::from_millis(RENEW_MS))?;
        sockopt::set_tcp_user_timeout(&socket.fd, ANSWER_MS as u32)?;
        Ok(socket)
    }

    /// This side's address, and the other side's.
    pub(crate) fn ends(&self) -> (SocketAddr, SocketAddr) {
        (self.ours, self.theirs)
    }
}

impl From<Socket> for OwnedFd {
    fn from(socket: Socket) -> OwnedFd {
        socket.fd
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Stream for Socket {
    unsafe fn send(&mut self, pieces: &[libc::iovec]) -> io::Result<usize> {
        let fd = self.fd.as_raw_fd();
        let sent = match pieces {
            // SAFETY: the caller's promise on the piece.
            [piece] => unsafe { libc::send(fd, piece.iov_base, piece.iov_len, libc::MSG_NOSIGNAL) },
            // SAFETY: the caller's promise on the pieces; the message lives on this stack.
            _ => unsafe { libc::sendmsg(fd, &message(pieces), libc::MSG_NOSIGNAL) },
        };
        length(sent)
    }

    unsafe fn receive(&mut self, places: &[libc::iovec]) -> io::Result<usize> {
        let fd = self.fd.as_raw_fd();
        let received = match places {
            // SAFETY: the caller's promise on the place.
            [place] => unsafe { libc::recv(fd, place.iov_base, place.iov_len, 0) },
            // SAFETY: the caller's promise on the places; the message lives on this stack.
            _ => unsafe { libc::recvmsg(fd, &mut message(places), 0) },
        };
        length(received)
    }
}

fn message(pieces: &[libc::iovec]) -> libc::msghdr {
    // SAFETY: all zeros are a message without address, pieces, control and flags.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = pieces.as_ptr().cast_mut();
    message.msg_iovlen = pieces.len() as _;
    message
}

fn length(returned: isize) -> io::Result<usize> {
    usize::try_from(returned).map_err(|_| io::Error::last_os_error())
}
