//! Clients' requests, and the node's own replies: attaching, mapping, proving. The rest goes to the coordinator.

use super::client::{Client, DetachedClient};
use super::event_loop::{ControlLoop, LISTENER};
use crate::notices::ToService;
use crate::pages::RegionRequest;
use hanare_fabric::shm::ShmLink;
use hanare_fabric::tcp::Hellos;
use hanare_memory::frames::ClientFrames;
use hanare_memory::uffd::{Features, Span, Uffd};
use hanare_protocol::id::{ClientId, JobRank, User};
use hanare_protocol::limits::{ACCEPT_PAUSE_MS, CLIENT_TURN_COUNT, UNREAD_MS};
use hanare_protocol::page::Consistency;
use hanare_protocol::tenant::{TENANT_NUMBERS, is_tenant, who};
use hanare_protocol::versions::Versions;
use hanare_protocol::wire::control::{Answer, Attached, OwnStatus, RegionView, Request};
use hanare_protocol::wire::link::LinkSocket;
use hanare_protocol::wire::look::ProgramStat;
use hanare_protocol::{Error, Result};
use hanare_ring::thread_slots::ThreadSlots;
use rustix::event::epoll::EventFlags;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// Number in place of a member's request, for a client that waits for the service.
const SERVICE: u64 = u64::MAX;

/// New clients that are taken in before others have their turn.
const ACCEPT_TURN_COUNT: usize = 16;

/// Time of clients' turns before the membership and other nodes come first again.
const CLIENTS_TIME: Duration = Duration::from_millis(1);

/// An answer and the descriptors that go with it.
pub(super) type Reply = (Result<Answer>, Vec<OwnedFd>);

pub(super) fn plain(answer: Result<Answer>) -> Reply {
    (answer, Vec::new())
}

impl ControlLoop {
    /// Takes new clients in: as many as wait, in turns.
    pub(super) fn accept_clients(&mut self) {
        self.turns.begin();
        for _ in 0..ACCEPT_TURN_COUNT {
            let Some(listener) = &self.listener else { return };
            match listener.accept() {
                Ok(Some(socket)) => self.accept_client(socket),
                Ok(None) => return,
                Err(errno) => {
                    tracing::warn!("clients cannot attach for {ACCEPT_PAUSE_MS} ms: {errno}");
                    // A waiting connection keeps the socket ready without end.
                    self.unwatch(listener.fd());
                    return self.listens_at_ms = Some(self.now_ms().saturating_add(ACCEPT_PAUSE_MS));
                }
            }
        }
    }

    /// Goes on taking clients in, if that is due.
    pub(super) fn listen_again(&mut self, now_ms: u64) {
        let Some(listener) = self.listener.as_ref().filter(|_| self.listens_at_ms.is_some_and(|at| at <= now_ms)) else { return };
        if self.watch(listener.fd(), LISTENER, EventFlags::IN) {
            self.listens_at_ms = None;
        }
    }

    fn accept_client(&mut self, socket: OwnedFd) {
        let (node, _) = self.member.identity().expect("the socket listens from the first welcome on");
        self.clients_ever += 1;
        let id = ClientId::at(node, self.clients_ever);
        let key = self.next_key();
        match Client::new(socket, id) {
            Ok(client) if is_tenant(client.user.uid) => {
                let uid = client.user.uid;
                tracing::warn!(
                    "user {uid} is refused: numbers of users from {} to {} are tenants'",
                    TENANT_NUMBERS.start(),
                    TENANT_NUMBERS.end()
                );
            }
            Ok(client) if *self.users.get(&client.user.uid).unwrap_or(&0) >= self.user_clients_max => {
                tracing::warn!(
                    "user {} has {} programs attached already, and no more are taken",
                    client.user.uid,
                    self.user_clients_max
                );
            }
            Ok(client) if self.watch(client.fd(), key, client.interest) => {
                self.turns.took(client.user.uid);
                self.count_client(client.user.uid, true);
                self.clients.insert(key, client);
            }
            Ok(_) => {}
            Err(error) => tracing::warn!("a client was not taken in: {error}"),
        }
    }

    /// A client's socket has something, or room; or it has ended. It has its turn when others of its user, and other users, had theirs.
    pub(super) fn want_turn(&mut self, key: u64, has_ended: bool) {
        let Some(client) = self.clients.get_mut(&key) else { return };
        client.has_ended |= has_ended;
        if !std::mem::replace(&mut client.wants_turn, true) {
            self.turns.push(client.user.uid, key);
        }
    }

    /// Gives clients their turns, users one after another, until the membership and other nodes come first again.
    pub(super) fn serve_clients(&mut self) {
        let begun = Instant::now();
        self.turns.begin();
        while let Some((uid, key)) = self.turns.next(self.is_alone()) {
            self.on_turn(key);
            self.turns.took(uid);
            if begun.elapsed() >= CLIENTS_TIME {
                return;
            }
        }
    }

    /// True if one user alone has programs that this node serves.
    fn is_alone(&self) -> bool {
        self.extents.members.user_count() <= 1
    }

    /// The time of the next turn of a client, or at which new ones are taken in again.
    pub(super) fn clients_due_ms(&self) -> Option<u64> {
        let wait = self.turns.wait(self.is_alone());
        let turn_ms = wait.map(|wait| self.now_ms().saturating_add(wait.as_micros().div_ceil(1000) as u64));
        turn_ms.into_iter().chain(self.listens_at_ms).chain(self.refusals.due_ms()).min()
    }

    fn on_turn(&mut self, key: u64) {
        let Some(client) = self.clients.get_mut(&key) else { return };
        client.wants_turn = false;
        // Requests sent before its end are read as long as possible; then nobody is left to hear a reply.
        let is_over = client.has_ended && client.waits();
        let served = if is_over { Err(io::ErrorKind::UnexpectedEof.into()) } else { self.serve_client(key) };
        if let Err(error) = served {
            self.client_gone(key, &error);
        }
    }

    /// Answers some requests; who has more has its next turn when others had theirs.
    fn serve_client(&mut self, key: u64) -> io::Result<()> {
        for _ in 0..CLIENT_TURN_COUNT {
            let Some(client) = self.clients.get_mut(&key) else { return Ok(()) };
            client.flush()?;
            let Some((request, fds)) = client.next_request()? else {
                self.rewatch_client(key);
                return Ok(());
            };
            if let Some((answer, fds)) = self.answer(key, request, fds) {
                self.clients.get_mut(&key).expect("still there").answer(&answer, fds)?;
            }
        }
        self.rewatch_client(key);
        self.want_turn(key, false);
        Ok(())
    }

    /// Answers a client that has waited. Its next request waits for its turn; of one that is not received yet an event tells.
    pub(super) fn answer_later(&mut self, key: u64, result: &Result<Answer>, fds: Vec<OwnedFd>) {
        let Some(client) = self.clients.get_mut(&key) else { return };
        client.waits_for = None;
        match client.answer(result, fds) {
            Ok(()) => {
                let has_received = client.has_received();
                self.rewatch_client(key);
                if has_received {
                    self.want_turn(key, false);
                }
            }
            Err(error) => self.client_gone(key, &error),
        }
    }

    /// Cuts off clients that do not read their answers: each holds memory, and maybe descriptors.
    pub(super) fn cut_off_unread(&mut self, now_ms: u64) {
        let is_late = |since: &u64| now_ms.saturating_sub(*since) > UNREAD_MS;
        let late: Vec<u64> = self.unread.iter().filter(|(_, since)| is_late(since)).map(|(key, _)| *key).collect();
        for key in late {
            self.client_gone(key, &io::Error::new(io::ErrorKind::TimedOut, "it does not read its answers"));
        }
    }

    /// The node's own answer; `None` when the coordinator was asked.
    fn answer(&mut self, key: u64, request: Request, mut fds: Vec<OwnedFd>) -> Option<Reply> {
        let client = self.clients.get_mut(&key).expect("the caller looked");
        client.has_memory |= matches!(request, Request::Map { .. } | Request::Share { .. } | Request::ShareFollowing { .. });
        let user = client.user;
        match request {
            Request::Attach { versions, .. } | Request::AttachAs { versions, .. } if client.attached.is_none() => {
                self.begin_attach(key, request, versions)
            }
            _ if client.attached.is_none() => Some(plain(Err(nonsense("a request before it attached")))),
            Request::Attach { .. } | Request::AttachAs { .. } => Some(plain(Err(nonsense("it attached twice")))),
            Request::Detach => {
                client.has_detached = true;
                None
            }
            Request::Leave => {
                client.has_left = true;
                None
            }
            Request::Map { slot, grant, pins } => Some(match self.extents.files((slot, grant), client.id, pins) {
                Ok(files) => {
                    let (fds, parts) = files.into_iter().unzip();
                    (Ok(Answer::Files(parts)), fds)
                }
                Err(error) => plain(Err(error)),
            }),
            Request::Release { gid, keeps } => {
                match keeps {
                    true => self.extents.unpin(client.id, gid),
                    false => self.extents.forget_direct(client.id, Some(gid)),
                }
                Some(plain(Ok(Answer::Ok)))
            }
            Request::Share { view, consistency } => self.ask_to_share(key, (view, consistency), false),
            Request::ShareFollowing { view, consistency } => self.ask_to_share(key, (view, consistency), true),
            Request::Hold { gid, start, len, features } => match fds.pop() {
                Some(fd) => {
                    let features = Features::from_bits_truncate(features as u32);
                    let mapping = ClientFrames { uffd: Uffd::adopt(fd, features), span: Span { start, len } };
                    self.ask_service(key, RegionRequest::Hold { gid, mapping })
                }
                None => Some(plain(Err(nonsense("a mapping without its descriptor")))),
            },
            Request::Link(door) => self.ask_for_links(key, door, fds.pop()),
            Request::Own => Some(self.own_status(&user)),
            Request::Unshare { gid } => self.ask_service(key, RegionRequest::Unshare { gid }),
            Request::FlushShared { gid } => self.ask_service(key, RegionRequest::Flush { gid }),
            Request::Prove { hellos } => Some(plain(match Hellos::try_from(hellos.as_slice()) {
                Ok(hellos) => {
                    self.keys.secret_of(client.id.0, client.user, &hellos).map(Answer::Proof).map_err(|why| nonsense(why.0))
                }
                Err(_) => Err(nonsense("hellos of another length")),
            })),
            // The answers name regions of all users, and tenants.
            Request::Drain { .. } | Request::Rebalance(_) | Request::Keepers { .. } | Request::Tenants(_) if !operates(&user) => {
                Some(plain(Err(no_operator(&user))))
            }
            Request::Reserve { .. } | Request::ProveTenant { .. } => Some(plain(Err(nonsense("what a node alone asks")))),
            other => {
                let (user, id) = (client.asker(), client.id);
                let request = self.member.ask(self.now_ms(), user, id, other);
                self.clients.get_mut(&key).expect("the caller looked").waits_for = Some(request);
                self.asks.insert(request, key);
                None
            }
        }
    }

    fn own_status(&self, user: &User) -> Reply {
        let away = || Error::NoCoordinator { reason: "this node has not joined its pool yet".to_owned() };
        let status = self.member.own_status().map(|status| {
            // Numbers of others' regions are no business of a user's.
            let regions = if operates(user) { status.regions } else { 0 };
            OwnStatus { keepers: self.keeper_status(&status), regions, ..status }
        });
        plain(status.map(Answer::Own).ok_or_else(away))
    }

    /// Has the service hand connections of writers to a client, which waits for its answer.
    fn ask_for_links(&mut self, key: u64, door: LinkSocket, socket: Option<OwnedFd>) -> Option<Reply> {
        let Some(socket) = socket else { return Some(plain(Err(nonsense("a queue's links without their socket")))) };
        let client = self.clients.get_mut(&key).expect("the caller looked");
        client.waits_for = Some(SERVICE);
        self.service.notify(ToService::LinkSocket { client: client.id, door, socket });
        None
    }

    /// Has the service see to what a client wants of a shared region; the client waits for its answer.
    fn ask_service(&mut self, key: u64, request: RegionRequest) -> Option<Reply> {
        let client = self.clients.get_mut(&key).expect("the caller looked");
        client.waits_for = Some(SERVICE);
        self.service.notify(ToService::Request { client: client.id, request });
        None
    }

    fn ask_to_share(&mut self, key: u64, (view, consistency): (RegionView, Consistency), follows: bool) -> Option<Reply> {
        let uid = self.clients.get(&key).expect("the caller looked").user.uid;
        self.ask_service(key, RegionRequest::Share { view: Box::new(view), consistency, uid, follows })
    }

    /// The service has answered.
    pub(super) fn shared(&mut self, id: ClientId, result: &Result<Answer>, fds: Vec<OwnedFd>) {
        let key = self.clients.iter().find(|(_, client)| client.id == id).map(|(key, _)| *key);
        if let Some(key) = key {
            self.answer_later(key, result, fds);
        }
    }

    /// Takes a program in that speaks these versions, or has the key of its tenant looked at before.
    fn begin_attach(&mut self, key: u64, request: Request, ours: Versions) -> Option<Reply> {
        let (peer, theirs) = ("this host's node", self.keys.versions());
        let spoken = ours.spoken_with(theirs).ok_or(Error::VersionMismatch { peer: peer.to_owned(), ours, theirs });
        if let Err(error) = spoken.and_then(|spoken| request.check_known(peer, spoken)) {
            return Some(plain(Err(error)));
        }
        match request {
            Request::Attach { job, .. } => Some(self.attach(key, job)),
            Request::AttachAs { job, tenant, key: secret, .. } => self.prove_tenant(key, job, (tenant, secret)),
            _ => Some(plain(Err(nonsense("a request before it attached")))),
        }
    }

    pub(super) fn attach(&mut self, key: u64, job: Option<JobRank>) -> Reply {
        let (Some((node, epoch)), Some(home)) = (self.member.identity(), self.member.home().cloned()) else {
            return plain(Err(Error::NoCoordinator { reason: "this node has not joined its pool yet".to_owned() }));
        };
        let client = self.clients.get_mut(&key).expect("the caller looked");
        let made = ShmLink::create(&client.id.to_string()).and_then(|link| Ok((link, ThreadSlots::make()?)));
        let ((link, parts), (thread_slots, slots_memory)) = match made {
            Ok(made) => made,
            Err(error) => return plain(Err(error)),
        };
        client.attached = Some(job);
        let (id, user) = (client.id, client.user);
        self.extents.thread_slots().enter(id, thread_slots);
        self.extents.members.enter(ProgramStat { client: id, process: client.process, user: user.uid, job });
        self.service.notify(ToService::Serve { link: Box::new(link), series: None, client: id, user });
        if let Some(job) = job {
            self.member.client_came(self.now_ms(), id, job);
        }
        let attached =
            Attached { client: id, user, node, epoch, home, sealing: self.keys.sealing(), versions: self.keys.versions() };
        (Ok(Answer::Attached(attached)), vec![parts.memory, parts.bell, slots_memory])
    }

    /// The coordinator has answered, or was given up.
    pub(super) fn ask_done(&mut self, request: u64, result: Result<Answer>) {
        if let Some(uid) = self.spill_asks.remove(&request) {
            let answer = match result {
                Ok(Answer::Reserved { granted, elsewhere }) => Some((granted, elsewhere)),
                _ => None,
            };
            return self.extents.spills.answered(uid, answer);
        }
        let Some(key) = self.asks.remove(&request) else { return };
        if let Some(job) = self.clients.get_mut(&key).and_then(|client| client.proves.take()) {
            return self.proved_tenant(key, job, result);
        }
        self.answer_later(key, &result, Vec::new());
    }

    /// A client has ended, or said nonsense.
    fn client_gone(&mut self, key: u64, error: &io::Error) {
        let Some(client) = self.clients.remove(&key) else { return };
        self.unwatch(client.fd());
        self.unread.remove(&key);
        self.extents.members.strike(client.id);
        self.part(key, DetachedClient::new(&client));
        if error.kind() != io::ErrorKind::UnexpectedEof {
            tracing::warn!("{} of user {} was cut off: {error}", client.id, client.user.uid);
        }
        if let Some(Some(job)) = client.attached {
            let in_order = client.has_detached || client.has_left;
            let reason = if in_order { "its program has detached" } else { "its program has ended" };
            self.member.client_gone(self.now_ms(), client.id, job, reason, !in_order);
        }
    }
}

pub(super) fn nonsense(reason: &str) -> Error {
    Error::Garbage { peer: "the client".to_owned(), reason: reason.to_owned() }
}

fn no_operator(user: &User) -> Error {
    let what = "a drain, a rebalancing, or a change of the keepers or of tenants";
    let reason = "root and the user that runs this host's node may do that".to_owned();
    Error::BadSetting { key: what.to_owned(), value: format!("of {}", who(user.uid)), reason }
}

/// True for root and for who runs this node.
fn operates(user: &User) -> bool {
    [0, rustix::process::geteuid().as_raw()].contains(&user.uid)
}
