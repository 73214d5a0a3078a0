//! The system calls of a TCP link, and the options of its connection.
//!
//! Safety invariants of this module: those of [`Stream`], passed on to the kernel. The kernel makes no reference to the bytes, and returns
//! an error for a range that is not mapped.

use crate::stream::Stream;
use hanare_memory::fork::Withheld;
use hanare_protocol::limits::{ANSWER_MS, LEASE_MS};
use rustix::net::sockopt;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// A connected TCP socket that never blocks.
pub struct Socket {
    /// A child made by fork does not keep the connection open. Dropped before the descriptor.
    withheld: Withheld,
    fd: OwnedFd,
    /// True if closing it discards unsent bytes.
    ends_by_reset: bool,
    ours: SocketAddr,
    theirs: SocketAddr,
}

impl Socket {
    /// Takes a connection over: no delay for small messages, no blocking, and a time limit for a silent host.
    ///
    /// Unanswered keep-alives show that a host vanished when nothing is under way, and unacknowledged data otherwise. The kernel reports a
    /// process that died at once.
    pub fn new(stream: TcpStream) -> io::Result<Socket> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        let (ours, theirs) = (stream.local_addr()?, stream.peer_addr()?);
        let fd = OwnedFd::from(stream);
        let socket = Socket { withheld: Withheld::new(fd.as_fd()), fd, ends_by_reset: false, ours, theirs };
        sockopt::set_socket_keepalive(&socket, true)?;
        sockopt::set_tcp_keepidle(&socket, Duration::from_millis(LEASE_MS))?;
        sockopt::set_tcp_keepintvl(&socket, Duration::from_millis(LEASE_MS / 3))?;
        socket.limit_retransmission_time()?;
        sockopt::set_tcp_user_timeout(&socket, ANSWER_MS as u32)?;
        Ok(socket)
    }

    /// Addresses of this side, and of the other side.
    pub(crate) fn ends(&self) -> (SocketAddr, SocketAddr) {
        (self.ours, self.theirs)
    }

    /// Makes the kernel discard unsent bytes and reset the connection when it is closed or its process dies. The kernel waits for an
    /// acknowledgement at most `bound`.
    ///
    /// Without this the kernel goes on sending for [`ANSWER_MS`]. Commands that were given up would be carried out over newer ones.
    pub fn end_by_reset(&mut self, bound: Duration) -> io::Result<()> {
        sockopt::set_socket_linger(&*self, Some(Duration::ZERO))?;
        sockopt::set_tcp_user_timeout(&*self, bound.as_millis().clamp(1, ANSWER_MS.into()) as u32)?;
        self.ends_by_reset = true;
        Ok(())
    }

    /// True if [`Socket::end_by_reset`] was called.
    pub(crate) fn ends_by_reset(&self) -> bool {
        self.ends_by_reset
    }

    /// Makes the kernel send unacknowledged bytes again each second at least. After an outage a renewal must not wait as long as the outage
    /// did. Before Linux 6.15, few bytes under way are sent again at even distances for a while, which comes near.
    fn limit_retransmission_time(&self) -> io::Result<()> {
        /// The name in Linux's headers; libc has it not.
        const TCP_RTO_MAX_MS: libc::c_int = 44;
        const MOST_MS: libc::c_int = 1_000;
        let len = size_of::<libc::c_int>() as libc::socklen_t;
        // SAFETY: the value is read during the call, and has the length that is said.
        let done = unsafe {
            libc::setsockopt(self.fd.as_raw_fd(), libc::IPPROTO_TCP, TCP_RTO_MAX_MS, (&MOST_MS as *const libc::c_int).cast(), len)
        };
        if done == 0 { Ok(()) } else { Ok(sockopt::set_tcp_thin_linear_timeouts(self, true)?) }
    }
}

impl From<Socket> for OwnedFd {
    fn from(socket: Socket) -> OwnedFd {
        let Socket { withheld, fd, .. } = socket;
        drop(withheld);
        fd
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn what_is_not_acknowledged_is_sent_again_soon_after_an_outage() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = Socket::new(TcpStream::connect(listener.local_addr().unwrap()).unwrap()).unwrap();
        let (mut most_ms, mut len) = (0 as libc::c_int, size_of::<libc::c_int>() as libc::socklen_t);
        // SAFETY: both are written during the call, and the length is that of the value.
        let told = unsafe {
            libc::getsockopt(socket.fd.as_raw_fd(), libc::IPPROTO_TCP, 44, (&mut most_ms as *mut libc::c_int).cast(), &mut len)
        };
        // A kernel before 6.15 does not know the first.
        assert!(told == 0 && most_ms == 1_000 || sockopt::tcp_thin_linear_timeouts(&socket).unwrap());
    }
}
