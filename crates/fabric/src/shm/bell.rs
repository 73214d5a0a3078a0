//! Wakes a sleeping side, and tells of the other side's death: one end of a socket pair.
//!
//! An event descriptor would do for waking, but a peer that shares it can make writing to it block. A socket can be told at each call not
//! to wait. The kernel hangs up on it when the peer's process is gone.

use hanare_protocol::{Error, Result};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// An end.
pub(super) struct Bell(OwnedFd);

/// Makes both ends.
pub(super) fn pair() -> Result<(OwnedFd, OwnedFd)> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)
        .map_err(|errno| Error::System { what: "making a link's bell".into(), reason: errno.to_string() })
}

impl Bell {
    pub(super) fn new(end: OwnedFd) -> Bell {
        Bell(end)
    }

    /// Wakes the other side. A full socket has woken it already; a closed one is found when we look at its life.
    #[cold]
    pub(super) fn ring(&self) {
        let _ = send(&self.0, &[0], SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
    }

    /// Clears the bell, and returns true while the other side lives. One system call.
    pub(super) fn take(&self) -> bool {
        self.is_open(RecvFlags::DONTWAIT)
    }

    /// True while the other side lives. One system call.
    pub(super) fn lives(&self) -> bool {
        self.is_open(RecvFlags::DONTWAIT | RecvFlags::PEEK)
    }

    fn is_open(&self, flags: RecvFlags) -> bool {
        matches!(recv(&self.0, &mut [0u8; 64], flags), Ok((1.., _)) | Err(Errno::AGAIN | Errno::INTR))
    }

    /// Readable when rung, and when the other side is gone.
    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bell_rings_without_waiting_and_hangs_up() {
        let (one, other) = pair().unwrap();
        let (one, other) = (Bell::new(one), Bell::new(other));
        // Far more than the socket holds: whoever does not listen cannot make us wait.
        (0..100_000).for_each(|_| one.ring());
        assert!(other.lives() && other.take());
        drop(one);
        while other.take() {}
        assert!(!other.lives());
        other.ring();
    }
}
