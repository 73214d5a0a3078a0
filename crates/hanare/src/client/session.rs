//! The control connection of a client to its host's node: one question at a time, answered in order.

use hanare_fabric::control_socket::{Frame, FrameSocket, socket, socket_address};
use hanare_fabric::settings;
use hanare_fabric::tenant_file::{Tenant, TenantFile};
use hanare_memory::fork::Lineage;
use hanare_protocol::id::JobRank;
use hanare_protocol::versions::{OLDEST, Versions};
use hanare_protocol::wire::control::{Answer, Attached, Request};
use hanare_protocol::{Error, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

/// Checks the peer of an unnamed node: it must be this user's or root's. In a folder whose name is known, under `/tmp`, anybody may
/// listen first.
fn check_peer(address: &str, usual: &Path, socket: &OwnedFd) -> Result<()> {
    if Path::new(address).parent() != Some(usual) {
        return Ok(());
    }
    let no_node = |reason: String| Error::NoNode { address: address.to_owned(), reason };
    let peer = rustix::net::sockopt::socket_peercred(socket).map_err(|errno| no_node(errno.to_string()))?.uid;
    if peer == rustix::process::geteuid() || peer.is_root() {
        return Ok(());
    }
    let user = peer.as_raw();
    Err(no_node(format!("user {user} listens there; if that is meant to be, name it in HANARE_NODE by another path to it")))
}

/// The connection. It ends with the client; its end is how the node learns of that.
pub(crate) struct NodeSession {
    address: String,
    bound: Duration,
    /// The process that attached: a child made by fork would take its parent's answers.
    lineage: Lineage,
    versions: Versions,
    /// Version of the wire that both speak.
    spoken: u32,
    socket: Mutex<Option<FrameSocket>>,
}

impl NodeSession {
    /// Attaches to the node at `address` and returns what it said, with the descriptors of the shm link.
    pub fn attach(
        address: &str,
        job: Option<JobRank>,
        tenant: Option<&TenantFile>,
        bound: Duration,
    ) -> Result<(NodeSession, Attached, Vec<OwnedFd>)> {
        let versions = settings::versions()?;
        let request = match tenant.map(TenantFile::read).transpose()? {
            None => Request::Attach { versions, job },
            Some(Tenant { name, key }) => Request::AttachAs { versions, job, tenant: name, key },
        };
        request.check_known("this program", versions.newest)?;
        let no_node = |error: io::Error| match error.kind() {
            io::ErrorKind::PermissionDenied => Error::BadSetting {
                key: "the node's socket".to_owned(),
                value: address.to_owned(),
                reason: "this user may not connect there; who runs the node lets others in with --socket-mode or --socket-group"
                    .to_owned(),
            },
            _ => Error::NoNode { address: address.to_owned(), reason: error.to_string() },
        };
        let fd = socket().map_err(no_node)?;
        // The node answers for the coordinator within the bound; a little more lets that answer arrive.
        let patience = Some(bound + Duration::from_secs(1));
        rustix::net::sockopt::set_socket_timeout(&fd, rustix::net::sockopt::Timeout::Recv, patience)
            .map_err(|e| no_node(e.into()))?;
        rustix::net::sockopt::set_socket_timeout(&fd, rustix::net::sockopt::Timeout::Send, patience)
            .map_err(|e| no_node(e.into()))?;
        socket_address(address).and_then(|at| Ok(rustix::net::connect(&fd, &at)?)).map_err(no_node)?;
        check_peer(address, &settings::runtime_folder(), &fd)?;
        let mut session = NodeSession {
            address: address.to_owned(),
            bound,
            lineage: Lineage::here(),
            versions,
            spoken: OLDEST,
            socket: Mutex::new(Some(FrameSocket::waiting(fd))),
        };
        // The node's versions come with its answer. A node that does not know the request ends the connection.
        session.spoken = request.since();
        let (answer, fds) = session.ask_with_fds(&request, Vec::new()).map_err(|error| session.first_refused(&request, error))?;
        match (answer, fds) {
            (Answer::Attached(attached), fds) => {
                session.spoken = session.spoken_with(attached.versions)?;
                Ok((session, attached, fds))
            }
            (other, _) => Err(session.nonsense(&other)),
        }
    }

    /// The error of a first request. A node that ended the connection may be too old to know tenants.
    fn first_refused(&self, request: &Request, error: Error) -> Error {
        match (request, error) {
            (Request::AttachAs { .. }, Error::NoNode { address, reason }) => {
                Error::NoNode { address, reason: format!("{reason}; a node of an older build knows no tenants (HANARE_TENANT)") }
            }
            (_, error) => error,
        }
    }

    fn spoken_with(&self, theirs: Versions) -> Result<u32> {
        let (peer, ours) = (format!("the node at {}", self.address), self.versions);
        ours.spoken_with(theirs).ok_or(Error::VersionMismatch { peer, ours, theirs })
    }

    /// Versions of the wire that this program speaks.
    pub fn versions(&self) -> Versions {
        self.versions
    }

    /// The version of the wire that this program and its node speak.
    pub fn spoken(&self) -> u32 {
        self.spoken
    }

    /// Asks, and waits for the answer.
    pub fn ask(&self, request: &Request) -> Result<Answer> {
        self.ask_with_fds(request, Vec::new()).map(|(answer, _)| answer)
    }

    /// Asks, handing descriptors over, and waits for the answer and its descriptors.
    pub fn ask_with_fds(&self, request: &Request, fds: Vec<OwnedFd>) -> Result<(Answer, Vec<OwnedFd>)> {
        check_lineage(self.lineage)?;
        request.check_known("this host's node", self.spoken)?;
        let mut guard = self.socket.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let socket = guard.as_mut().ok_or_else(|| self.gone("the connection was closed before"))?;
        match exchange(socket, request, fds) {
            Ok((answer, fds)) => answer.map(|answer| (answer, fds)),
            Err(error) => {
                // A late answer would be taken for that of the next question.
                *guard = None;
                Err(self.failed(&error))
            }
        }
    }

    /// Says if the node is known to have ended the connection. **Cost**: one call. A thread that waits for an answer finds out by itself.
    pub fn has_ended(&self) -> bool {
        let Ok(socket) = self.socket.try_lock() else { return false };
        let Some(socket) = socket.as_ref() else { return true };
        let mut ends = [PollFd::new(socket, PollFlags::empty())];
        matches!(poll(&mut ends, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })), Ok(1)) && ends[0].revents().contains(PollFlags::HUP)
    }

    /// Closes what has ended, for good.
    pub fn close(&self) {
        *self.socket.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = None;
    }

    /// Says that the program's end is no death from here on.
    pub fn leave(&self) {
        let mut socket = self.socket.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if self.lineage.is_here()
            && let Some(socket) = socket.as_mut()
        {
            // A node that is gone has told of the end itself.
            let _ = socket.send(&Request::Leave, Vec::new());
        }
    }

    /// The error for an answer of the wrong kind.
    pub fn nonsense(&self, answer: &Answer) -> Error {
        let kind = format!("{answer:?}");
        let kind = kind.split([' ', '(', '{']).next().unwrap_or_default();
        self.garbage(&format!("unexpected answer {kind}"))
    }

    /// The error for an answer that means nothing.
    pub fn garbage(&self, reason: &str) -> Error {
        Error::Garbage { peer: format!("the node at {}", self.address), reason: reason.to_owned() }
    }

    fn gone(&self, reason: &str) -> Error {
        Error::NoNode { address: self.address.clone(), reason: reason.to_owned() }
    }

    fn failed(&self, error: &io::Error) -> Error {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Error::Timeout {
                peer: format!("the node at {}", self.address),
                what: "a control request".to_owned(),
                after_ms: self.bound.as_millis() as u64,
            },
            io::ErrorKind::UnexpectedEof => self.gone("it closed the connection"),
            io::ErrorKind::InvalidData => {
                Error::Garbage { peer: format!("the node at {}", self.address), reason: error.to_string() }
            }
            _ => self.gone(&error.to_string()),
        }
    }
}

impl Drop for NodeSession {
    fn drop(&mut self) {
        // A child made by fork, or a thread that panics, does not speak for the program.
        if self.lineage.is_here()
            && !std::thread::panicking()
            && let Some(socket) = self.socket.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner())
        {
            let _ = socket.send(&Request::Detach, Vec::new());
        }
    }
}

/// Refuses handles of this process's parent.
pub(crate) fn check_lineage(lineage: Lineage) -> Result<()> {
    match lineage.is_here() {
        true => Ok(()),
        false => Err(Error::BadUse {
            region: "of its parent".to_owned(),
            reason: "this process was made by fork, and must attach anew".to_owned(),
        }),
    }
}

fn exchange(socket: &mut FrameSocket, request: &Request, fds: Vec<OwnedFd>) -> io::Result<(Result<Answer>, Vec<OwnedFd>)> {
    socket.send(request, fds)?;
    // A socket with a receive time-out reports its end as "try again".
    let frame: Frame = socket.receive()?.ok_or(io::Error::from(Errno::AGAIN))?;
    let answer = frame.decode()?;
    Ok((answer, frame.fds))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::{UnixListener, UnixStream};

    #[test]
    fn where_no_node_is_named_another_user_is_no_node() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("node.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let connected = || OwnedFd::from(UnixStream::connect(&path).unwrap());
        let check = |usual: &Path, socket: &OwnedFd| check_peer(path.to_str().unwrap(), usual, socket);
        check(folder.path(), &connected()).unwrap();
        if !rustix::process::geteuid().is_root() {
            return hanare_testkit::unable("only root may listen as another user");
        }
        let listen = move || {
            let (user, group) = (rustix::process::Uid::from_raw(65_534), rustix::process::Gid::from_raw(65_534));
            rustix::thread::set_thread_res_gid(group, group, group).unwrap();
            rustix::thread::set_thread_res_uid(user, user, user).unwrap();
            // The last caller of `listen` is the listener.
            rustix::net::listen(&listener, 8).unwrap();
            listener
        };
        let _listener = std::thread::spawn(listen).join().unwrap();
        let socket = connected();
        assert!(matches!(check(folder.path(), &socket), Err(Error::NoNode { .. })));
        check(Path::new("/elsewhere"), &socket).unwrap();
    }
}
