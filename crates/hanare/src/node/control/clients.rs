//! What clients ask, and what the node answers by itself: attaching, mapping, proving. The rest goes to the coordinator.

use super::client::Client;
use super::desk::Desk;
use crate::node::data::Mail;
use crate::node::pages::Wish;
use hanare_fabric::shm::ShmLink;
use hanare_fabric::tcp::Hellos;
use hanare_memory::frames::ClientFrames;
use hanare_memory::uffd::{Features, Span, Uffd};
use hanare_protocol::id::{ClientId, JobRank};
use hanare_protocol::page::Consistency;
use hanare_protocol::wire::VERSION;
use hanare_protocol::wire::control::{Answer, Attached, Request};
use hanare_protocol::{Error, Result};
use std::io;
use std::os::fd::OwnedFd;

/// What a client waits for that waits for the service: no request of the member has this number.
const WISH: u64 = u64::MAX;

/// An answer and the descriptors that go with it.
type Reply = (Result<Answer>, Vec<OwnedFd>);

fn plain(answer: Result<Answer>) -> Reply {
    (answer, Vec::new())
}

impl Desk {
    /// Takes new clients in.
    pub(super) fn accept_clients(&mut self) {
        while let Some(listener) = &self.listener {
            match listener.accept() {
                Ok(Some(socket)) => self.accept_client(socket),
                Ok(None) => return,
                Err(errno) => return tracing::warn!("clients cannot attach: {errno}"),
            }
        }
    }

    fn accept_client(&mut self, socket: OwnedFd) {
        let (node, _) = self.member.identity().expect("the socket listens from the first welcome on");
        self.clients_ever += 1;
        let id = ClientId(u64::from(node.0) << 32 | self.clients_ever);
        let key = self.next_key();
        match Client::new(socket, id) {
            Ok(client) if self.watch(client.fd(), key, client.interest) => {
                self.clients.insert(key, client);
            }
            Ok(_) => {}
            Err(error) => tracing::warn!("a client was not taken in: {error}"),
        }
    }

    /// A client's socket has something, or room.
    pub(super) fn on_client(&mut self, key: u64) {
        if let Err(error) = self.serve_client(key) {
            self.client_gone(key, &error);
        }
    }

    fn serve_client(&mut self, key: u64) -> io::Result<()> {
        loop {
            let Some(client) = self.clients.get_mut(&key) else { return Ok(()) };
            client.flush()?;
            let Some((request, fds)) = client.next_request()? else { break };
            if let Some((answer, fds)) = self.answer(key, request, fds) {
                self.clients.get_mut(&key).expect("still there").answer(&answer, fds)?;
            }
        }
        self.rewatch_client(key);
        Ok(())
    }

    /// The node's own answer; `None` when the coordinator was asked.
    fn answer(&mut self, key: u64, request: Request, mut fds: Vec<OwnedFd>) -> Option<Reply> {
        let client = self.clients.get(&key).expect("the caller looked");
        match request {
            Request::Attach { version, .. } if version != VERSION => {
                Some(plain(Err(Error::VersionMismatch { peer: "this host's node".to_owned(), ours: version, theirs: VERSION })))
            }
            Request::Attach { job, .. } if client.attached.is_none() => Some(self.attach(key, job)),
            _ if client.attached.is_none() => Some(plain(Err(nonsense("a request before it attached")))),
            Request::Attach { .. } => Some(plain(Err(nonsense("it attached twice")))),
            Request::Map { slot, grant } => Some(match self.extents.files(slot, grant, client.id) {
                Ok(files) => {
                    let (fds, parts) = files.into_iter().unzip();
                    (Ok(Answer::Files(parts)), fds)
                }
                Err(error) => plain(Err(error)),
            }),
            Request::Release { gid } => {
                self.extents.forget_direct(client.id, Some(gid));
                Some(plain(Ok(Answer::Ok)))
            }
            Request::Share { view, consistency } => {
                if consistency == Consistency::Coherent {
                    self.extents.forget_direct(client.id, Some(view.gid));
                }
                self.wish(key, Wish::Share { view: Box::new(view), consistency })
            }
            Request::Hold { gid, start, len, features } => match fds.pop() {
                Some(fd) => {
                    let features = Features::from_bits_truncate(features as u32);
                    let frames = ClientFrames { uffd: Uffd::adopt(fd, features), span: Span { start, len } };
                    self.wish(key, Wish::Hold { gid, frames })
                }
                None => Some(plain(Err(nonsense("a mapping without its descriptor")))),
            },
            Request::Pages => self.wish(key, Wish::Stat),
            Request::Unshare { gid } => self.wish(key, Wish::Unshare { gid }),
            Request::Prove { hellos } => Some(plain(match Hellos::try_from(hellos.as_slice()) {
                Ok(hellos) => self.keys.secret_of(client.id.0, &hellos).map(Answer::Proof).map_err(|why| nonsense(why.0)),
                Err(_) => Err(nonsense("hellos of another length")),
            })),
            other => {
                let (user, id) = (client.user, client.id);
                let request = self.member.ask(self.now_ms(), user, id, other);
                self.clients.get_mut(&key).expect("the caller looked").waits_for = Some(request);
                self.asks.insert(request, key);
                None
            }
        }
    }

    /// Has the service see to what a client wants of a shared region; the client waits for its answer.
    fn wish(&mut self, key: u64, wish: Wish) -> Option<Reply> {
        let client = self.clients.get_mut(&key).expect("the caller looked");
        client.waits_for = Some(WISH);
        self.service.post(Mail::Wish { client: client.id, wish });
        None
    }

    /// The service has answered.
    pub(super) fn shared(&mut self, id: ClientId, result: &Result<Answer>, fds: Vec<OwnedFd>) {
        let Some((key, client)) = self.clients.iter_mut().find(|(_, client)| client.id == id) else { return };
        let key = *key;
        client.waits_for = None;
        match client.answer(result, fds) {
            Ok(()) => self.on_client(key),
            Err(error) => self.client_gone(key, &error),
        }
    }

    fn attach(&mut self, key: u64, job: Option<JobRank>) -> Reply {
        let (Some((node, epoch)), Some(home)) = (self.member.identity(), self.member.home().cloned()) else {
            return plain(Err(Error::NoCoordinator { reason: "this node has not joined its pool yet".to_owned() }));
        };
        let client = self.clients.get_mut(&key).expect("the caller looked");
        let (link, parts) = match ShmLink::create(&client.id.to_string()) {
            Ok(made) => made,
            Err(error) => return plain(Err(error)),
        };
        client.attached = Some(job);
        let id = client.id;
        self.service.post(Mail::Serve(Box::new(link)));
        if let Some(job) = job {
            self.member.client_came(self.now_ms(), id, job);
        }
        let attached = Attached { client: id, node, epoch, home, sealing: self.keys.sealing() };
        (Ok(Answer::Attached(attached)), vec![parts.memory, parts.bell])
    }

    /// The coordinator has answered, or was given up.
    pub(super) fn ask_done(&mut self, request: u64, result: Result<Answer>) {
        let Some(key) = self.asks.remove(&request) else { return };
        let Some(client) = self.clients.get_mut(&key) else { return };
        client.waits_for = None;
        match client.answer(&result, Vec::new()) {
            Ok(()) => self.on_client(key),
            Err(error) => self.client_gone(key, &error),
        }
    }

    /// A client has ended, or said nonsense.
    fn client_gone(&mut self, key: u64, error: &io::Error) {
        let Some(client) = self.clients.remove(&key) else { return };
        self.unwatch(client.fd());
        self.extents.forget_direct(client.id, None);
        self.service.post(Mail::ClientGone(client.id));
        if error.kind() != io::ErrorKind::UnexpectedEof {
            tracing::warn!("{} of user {} was cut off: {error}", client.id, client.user.uid);
        }
        if let Some(Some(job)) = client.attached {
            let reason = "its program has ended or detached";
            self.member.client_gone(self.now_ms(), client.id, job, reason);
        }
    }
}

fn nonsense(reason: &str) -> Error {
    Error::Garbage { peer: "the client".to_owned(), reason: reason.to_owned() }
}
