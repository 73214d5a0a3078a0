//! A client of this host on its Unix socket: what it asks, one thing at a time.

use crate::control_socket::{Frame, FrameSocket};
use hanare_protocol::id::{ClientId, JobRank, User};
use hanare_protocol::wire::control::{Answer, Request};
use hanare_protocol::{Error, Result};
use rustix::event::epoll::EventFlags;
use rustix::net::sockopt::socket_peercred;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

pub(crate) struct Client {
    socket: FrameSocket,
    pub user: User,
    pub id: ClientId,
    /// Whether it has said `Attach`, and its place in a job if it has one.
    pub attached: Option<Option<JobRank>>,
    /// Whether it has said that it detaches.
    pub has_detached: bool,
    /// A request that the coordinator works on: no other is read meanwhile.
    pub waits_for: Option<u64>,
    /// What epoll watches.
    pub interest: EventFlags,
}

impl Client {
    /// Takes a connection over; who it is, the kernel says.
    pub fn new(socket: OwnedFd, id: ClientId) -> io::Result<Client> {
        let credentials = socket_peercred(&socket)?;
        let user = User { uid: credentials.uid.as_raw(), gid: credentials.gid.as_raw() };
        Ok(Client {
            socket: FrameSocket::polled(socket),
            user,
            id,
            attached: None,
            has_detached: false,
            waits_for: None,
            interest: EventFlags::IN,
        })
    }

    /// The next request and its descriptors, unless one is being worked on, an answer is unread, or none is there.
    pub fn next_request(&mut self) -> io::Result<Option<(Request, Vec<OwnedFd>)>> {
        if self.waits() {
            return Ok(None);
        }
        self.socket.receive()?.map(|frame: Frame| Ok((frame.decode()?, frame.fds))).transpose()
    }

    /// Answers with descriptors.
    pub fn answer(&mut self, answer: &Result<Answer, Error>, fds: Vec<OwnedFd>) -> io::Result<()> {
        self.socket.send(answer, fds)
    }

    pub fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }

    /// Whether nothing more of it is read: a request is worked on, or it has not read its last answer. So no answers pile up.
    pub fn waits(&self) -> bool {
        self.waits_for.is_some() || self.has_unread()
    }

    /// Whether it has not read its last answer.
    pub fn has_unread(&self) -> bool {
        self.socket.has_unsent()
    }

    /// What epoll should watch: nothing to read while it waits, but always for the end.
    pub fn wanted_interest(&self) -> EventFlags {
        let mut flags = if self.waits() { EventFlags::empty() } else { EventFlags::IN };
        if self.has_unread() {
            flags |= EventFlags::OUT;
        }
        flags
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
