//! A client of this host on its Unix socket: what it asks, one thing at a time.

use hanare_fabric::control_socket::{Frame, FrameSocket};
use hanare_protocol::id::{Asker, ClientId, JobRank, User};
use hanare_protocol::limits::USER_GROUP_COUNT_MAX;
use hanare_protocol::wire::control::{Answer, Request};
use hanare_protocol::{Error, Result};
use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use rustix::process::{Pid, test_kill_process};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

pub(crate) struct Client {
    socket: FrameSocket,
    /// Its user as the kernel says, or the tenant whose key it has proved.
    pub user: User,
    /// Its process, as the kernel said when it connected.
    pub process: u32,
    /// Its supplementary groups.
    pub groups: Vec<u32>,
    pub id: ClientId,
    /// Set once it has said `Attach`; inside, its place in a job if it has one.
    pub attached: Option<Option<JobRank>>,
    /// Its place in a job while the coordinator looks at the key of a tenant that it would be of.
    pub proves: Option<Option<JobRank>>,
    /// True if it has said that it detaches.
    pub has_detached: bool,
    /// The program has said that its end is no death.
    pub has_left: bool,
    /// True if it asked for memory of the node, to map it or to share it with other hosts.
    pub has_memory: bool,
    /// A request that the coordinator works on: no other is read meanwhile.
    pub waits_for: Option<u64>,
    /// Events that epoll watches.
    pub interest: EventFlags,
    /// True if it has closed its end, or has died.
    pub has_ended: bool,
    /// True if it stands among those that want a turn.
    pub wants_turn: bool,
}

impl Client {
    /// Takes a connection over; who it is, the kernel says.
    pub fn new(socket: OwnedFd, id: ClientId) -> io::Result<Client> {
        let credentials = socket_peercred(&socket)?;
        let user = User { uid: credentials.uid.as_raw(), gid: credentials.gid.as_raw() };
        let process = credentials.pid.as_raw_nonzero().get().unsigned_abs();
        let groups = peer_groups(socket.as_fd())?;
        Ok(Client {
            socket: FrameSocket::polled(socket),
            user,
            process,
            groups,
            id,
            attached: None,
            proves: None,
            has_detached: false,
            has_left: false,
            has_memory: false,
            waits_for: None,
            interest: EventFlags::IN,
            has_ended: false,
            wants_turn: false,
        })
    }

    /// The user with its groups, as the kernel said when the program connected. A tenant has none.
    pub fn asker(&self) -> Asker {
        Asker { user: self.user, groups: self.groups.clone() }
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

    /// True if its socket is not read: a request is worked on, or its last reply is unread. So no replies pile up.
    pub fn waits(&self) -> bool {
        self.waits_for.is_some() || self.has_unread()
    }

    /// True if it has not read its last reply.
    pub fn has_unread(&self) -> bool {
        self.socket.has_unsent()
    }

    /// True if bytes of its next request are here, of which no event tells.
    pub fn has_received(&self) -> bool {
        self.socket.has_received()
    }

    /// Events for epoll to watch: nothing to read while it waits, but always the end.
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

/// Refusals of keys, each with its time and the key of its client: a wrong key costs who tries it a while.
#[derive(Default)]
pub(super) struct LateRefusals(pub VecDeque<(u64, u64, Error)>);

impl LateRefusals {
    /// When the first one is due.
    pub fn due_ms(&self) -> Option<u64> {
        self.0.front().map(|(due_ms, ..)| *due_ms)
    }
}

/// A client that has no connection any more.
pub(super) struct DetachedClient {
    pub id: ClientId,
    pub user: u32,
    /// Unless it has nothing, or says so.
    pub process: Option<Pid>,
    /// Readable when the process has ended; the process is looked at again and again where there is none.
    pub end: Option<OwnedFd>,
}

impl DetachedClient {
    pub fn new(client: &Client) -> DetachedClient {
        let process = Pid::from_raw(client.process as i32).filter(|_| client.has_memory && !client.has_detached);
        DetachedClient { id: client.id, user: client.user.uid, process, end: None }
    }

    /// True while its process is there, as far as it is waited for.
    pub fn lives(&self) -> bool {
        self.process.is_some_and(|process| test_kill_process(process) != Err(Errno::SRCH))
    }
}

/// The supplementary groups of who connected; of one who has more than count, the first.
fn peer_groups(socket: BorrowedFd<'_>) -> io::Result<Vec<u32>> {
    let mut groups = vec![0u32; USER_GROUP_COUNT_MAX];
    loop {
        let mut len = (groups.len() * size_of::<u32>()) as libc::socklen_t;
        // SAFETY: the option's value is an array of group ids; the kernel writes at most `len` bytes, which the vector has.
        let done = unsafe {
            let (fd, to) = (std::os::fd::AsRawFd::as_raw_fd(&socket), groups.as_mut_ptr().cast());
            libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_PEERGROUPS, to, &raw mut len)
        };
        let count = len as usize / size_of::<u32>();
        if done == 0 {
            groups.truncate(count.min(USER_GROUP_COUNT_MAX));
            return Ok(groups);
        }
        let error = io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::ERANGE) || count <= groups.len() {
            return Err(error);
        }
        groups.resize(count, 0);
    }
}
