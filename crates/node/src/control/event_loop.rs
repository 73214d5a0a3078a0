//! The control thread's loop: events in, machines driven, outputs acted on, until nothing is left to do.

mod host;
mod links;
mod watch;

use super::acceptor::Acceptor;
use super::client::{Client, DetachedClient, LateRefusals};
use super::client_turns::ClientTurns;
use super::coordination::{Coordination, CoordinatorAction};
use super::descriptors;
use super::home::CoordinatorLink;
use super::keeper_state::Reigns;
use super::listener::UnixListener;
use super::readying_extents::{CopiedSlots, ReadyingExtents};
use crate::data::Service;
use crate::extents::{Extents, UsageRounds};
use crate::key::KeyFile;
use crate::notice_queue::NoticeQueue;
use crate::notices::{ToControl, ToService};
use crate::options::SocketAccess;
use crate::persistence::{Keeper, Schedule};
use hanare_fabric::tcp::Keys;
use hanare_memory::{HostWatch, Lender};
use hanare_protocol::id::{ClientId, Epoch, NodeId, User};
use hanare_protocol::limits::{ANSWER_MS, KEY_LOOK_MS};
use hanare_protocol::member::{Member, Output, Phase};
use hanare_protocol::queue::allowance::SpillQuestion;
use hanare_protocol::wire::control::{FromNode, Memory, Request, ToNode};
use hanare_protocol::wire::greeting::Sealing;
use hanare_protocol::{Error, Result};
use host::HostMemory;
use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, EventFlags};
use std::collections::{BTreeSet, HashMap};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Instant;

/// The loop's parts.
pub(crate) struct Parts {
    pub member: Member,
    /// The folder for extents at the end, if there is one.
    pub keeper: Option<Arc<Keeper>>,
    pub schedule: Option<Schedule>,
    pub coordination: Option<Coordination>,
    pub reigns: Option<Reigns>,
    pub home: Option<CoordinatorLink>,
    pub acceptor: Acceptor,
    pub extents: Arc<Extents>,
    pub lender: Arc<Lender>,
    /// Lends less where this host's memory runs short.
    pub host_watch: Option<HostWatch>,
    pub service: Service,
    pub notices: Arc<NoticeQueue<ToControl>>,
    pub keys: Keys,
    pub key_file: KeyFile,
    pub socket: String,
    pub access: SocketAccess,
    /// Told once: that the node is a member and its socket listens, or why it never will be.
    pub ready: Sender<Result<NodeId>>,
    pub begun: Instant,
}

/// The thread's own state.
pub(crate) struct ControlLoop {
    pub(super) member: Member,
    pub(super) keeper: Option<Arc<Keeper>>,
    pub(super) schedule: Option<Schedule>,
    /// The coordinator, while it is here.
    pub(super) coordination: Option<Coordination>,
    /// Present at keepers.
    pub(super) reigns: Option<Reigns>,
    pub(super) home: Option<CoordinatorLink>,
    /// Greets who connects, for as long as the node lives.
    _acceptor: Acceptor,
    pub(super) extents: Arc<Extents>,
    lender: Arc<Lender>,
    host: HostMemory,
    pub(super) service: Service,
    notices: Arc<NoticeQueue<ToControl>>,
    pub(super) keys: Keys,
    key_file: KeyFile,
    /// When the file is looked at again, and whether users need what their queues may spill.
    key_look_ms: u64,
    socket: String,
    access: SocketAccess,
    ready: Option<Sender<Result<NodeId>>>,
    begun: Instant,
    epoll: OwnedFd,
    pub(super) listener: Option<UnixListener>,
    /// When new clients are taken in again, after descriptors ran out.
    pub(super) listens_at_ms: Option<u64>,
    pub(super) clients: HashMap<u64, Client>,
    /// Clients without a connection that live.
    pub(super) parted: HashMap<u64, DetachedClient>,
    pub(super) clients_ever: u32,
    /// Clients of each user, and the most of one.
    pub(super) users: HashMap<u32, usize>,
    pub(super) user_clients_max: usize,
    /// Links of other nodes that may have more to be read that no event tells of: their turn was cut short.
    pub(super) eager: BTreeSet<u64>,
    pub(super) turns: ClientTurns,
    pub(super) readying: Vec<ReadyingExtents>,
    pub(super) copied_slots: CopiedSlots,
    /// Since when clients have not read their answers.
    pub(super) unread: HashMap<u64, u64>,
    /// The client that waits for each request of the member.
    pub(super) asks: HashMap<u64, u64>,
    /// Requests for an allowance of spilled units, with their users.
    pub(super) spill_asks: HashMap<u64, u32>,
    /// Refused keys of tenants.
    pub(super) refusals: LateRefusals,
    usage: UsageRounds,
    keys_ever: u64,
    stopping: bool,
}

/// Epoll's names; clients and links of other nodes count up from 1.
const BELL: u64 = u64::MAX;
pub(super) const LISTENER: u64 = u64::MAX - 1;
const HOME: u64 = u64::MAX - 2;

/// Time between looks at the clock when nothing else is due.
const TICK_MS: u64 = 1000;

impl ControlLoop {
    pub fn new(parts: Parts) -> Result<ControlLoop> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|errno| system("make an epoll", errno))?;
        let Parts {
            member,
            keeper,
            schedule,
            coordination,
            reigns,
            home,
            acceptor,
            extents,
            lender,
            host_watch: watch,
            service,
            notices,
            keys,
            key_file,
            socket,
            access,
            ready,
            begun,
        } = parts;
        let desk = ControlLoop {
            member,
            keeper,
            schedule,
            coordination,
            reigns,
            home,
            _acceptor: acceptor,
            extents,
            lender,
            host: HostMemory::new(watch),
            service,
            notices,
            keys,
            key_file,
            key_look_ms: 0,
            socket,
            access,
            ready: Some(ready),
            begun,
            epoll,
            listener: None,
            listens_at_ms: None,
            clients: HashMap::new(),
            parted: HashMap::new(),
            clients_ever: 0,
            users: HashMap::new(),
            user_clients_max: descriptors::most_clients(),
            eager: BTreeSet::new(),
            turns: ClientTurns::new(),
            readying: Vec::new(),
            copied_slots: CopiedSlots::default(),
            unread: HashMap::new(),
            asks: HashMap::new(),
            spill_asks: HashMap::new(),
            refusals: LateRefusals::default(),
            usage: UsageRounds::default(),
            keys_ever: 0,
            stopping: false,
        };
        let watched = desk.watch(std::os::fd::AsFd::as_fd(desk.notices.bell()), BELL, EventFlags::IN);
        if watched { Ok(desk) } else { Err(system("watch the node's sockets", rustix::io::Errno::NOSPC)) }
    }

    pub(super) fn now_ms(&self) -> u64 {
        self.begun.elapsed().as_millis() as u64
    }

    pub(super) fn next_key(&mut self) -> u64 {
        self.keys_ever += 1;
        self.keys_ever
    }

    /// Runs until told to stop. **Errors**: the journal's.
    pub fn run(&mut self) -> Result<()> {
        self.tell_memory();
        if self.coordination.is_some() {
            self.member.connected(self.now_ms(), self.keys.versions().newest);
        } else if self.reigns.is_some() || self.home.as_ref().is_some_and(CoordinatorLink::has_keepers) {
            // Programs may take it for the home that it was before it began again.
            self.service.notify(ToService::PoolHome(false));
        }
        while !self.stopping {
            self.tick();
            self.settle()?;
            self.hold_leases();
            self.wait();
        }
        self.say_goodbye()
    }

    fn tell_memory(&mut self) {
        let is_plain = self.keys.sealing() == Sealing::Plain;
        let (clients, spilled) = (self.clients.len() as u32, self.extents.spills.len());
        let versions = self.keys.versions();
        let memory = Memory { clients, spilled, is_plain, versions, ..self.lender.memory() };
        self.host.tell(&memory, &self.lender);
        self.member.set_memory(memory);
    }

    pub(super) fn tick(&mut self) {
        let now_ms = self.now_ms();
        self.tell_memory();
        self.member.tick(now_ms);
        if let Some(coordination) = &mut self.coordination {
            coordination.tick(now_ms);
        }
        self.tick_keeper(now_ms);
        if self.member.phase() != Phase::Member && self.home.as_ref().is_some_and(|home| home.is_silent(now_ms)) {
            self.lose_home("it does not answer");
        }
        let asks_keepers = self.asks_keepers();
        if let Some(home) = self.home.as_mut().filter(|_| self.coordination.is_none()) {
            home.dial(now_ms);
            if asks_keepers {
                home.ask_another(now_ms);
            }
        }
        self.tick_readying();
        self.listen_again(now_ms);
        self.cut_off_unread(now_ms);
        self.refuse_tenants(now_ms);
        let used = self.usage.tick(now_ms, &self.extents);
        self.member.say_used_elsewhere(used);
        self.look_at_detached();
        if now_ms >= self.key_look_ms {
            self.key_look_ms = now_ms.saturating_add(KEY_LOOK_MS);
            if let Some(keys) = self.key_file.look() {
                self.keys.replace(keys);
            }
            self.extents.spills.trim();
            self.ask_for_spills();
        }
    }

    /// Acts on all outputs of both machines.
    pub(super) fn settle(&mut self) -> Result<()> {
        loop {
            let mut is_idle = true;
            while let Some(output) = self.member.poll() {
                is_idle = false;
                self.act(output);
            }
            for action in self.coordinate()? {
                is_idle = false;
                match action {
                    CoordinatorAction::Own(ToNode::Keepers(list)) => self.learn_keepers(&list),
                    CoordinatorAction::Own(message) => self.member.handle(self.now_ms(), message),
                    CoordinatorAction::Tell(notice) => self.service.notify(notice),
                }
            }
            is_idle &= !self.turn_keeper();
            if is_idle {
                self.rewatch_links();
                return Ok(());
            }
        }
    }

    fn coordinate(&mut self) -> Result<Vec<CoordinatorAction>> {
        let mut failed = Vec::new();
        let Some(coordination) = &mut self.coordination else { return Ok(Vec::new()) };
        let actions = coordination.act(&mut failed)?;
        for (id, reason) in failed {
            self.close_link(id, &reason);
        }
        Ok(actions)
    }

    fn act(&mut self, output: Output) {
        match output {
            Output::Send(message) => self.tell_coordinator(message),
            Output::Make { order, gid, lens, copied } => self.make_extents(order, gid, &lens, copied),
            Output::MakeReady { order, gid, set, extents } => self.begin_ready(order, gid, set, extents),
            Output::Holder { extent, nodes, message } => {
                self.note_holders(extent, &message);
                self.service.notify(ToService::Holder { extent, nodes, message });
            }
            Output::Free { slots } => self.free_extents(&slots),
            Output::NewEpoch { node, epoch, .. } => {
                self.cancel_all_ready();
                self.regrant(node, epoch);
            }
            Output::Joined { node, epoch, quota } => {
                self.cancel_all_ready();
                self.extents.spills.set_quota(quota);
                self.service.notify(ToService::Member(true));
                self.ask_for_spills();
                self.joined(node, epoch);
            }
            Output::Refused(error) => self.refused(error),
            Output::AskDone { request, result, .. } => self.ask_done(request, result),
            Output::Home(_) => {}
            Output::NodeLost { node, epoch, reason } => {
                tracing::info!("{node} has gone: {reason}");
                // The client may have forgotten its leases.
                self.extents.thread_slots().recall_words();
                self.service.notify(ToService::NodeLost(node, epoch));
            }
            Output::Recall { client, number, home } => self.recall(home, client, number),
            Output::Recalled { client, number, recalled } => {
                self.service.notify(ToService::Recalled { client, number, recalled });
            }
            Output::RecallAll => self.lapsed(),
        }
    }

    /// Asks the coordinator how much queues may spill, where that is due.
    fn ask_for_spills(&mut self) {
        for SpillQuestion { uid, used, wanted } in self.extents.spills.due() {
            let user = User { uid, gid: uid };
            let request = self.member.ask(self.now_ms(), user, ClientId(0), Request::Reserve { used, wanted });
            self.spill_asks.insert(request, uid);
        }
    }

    pub(super) fn tell_coordinator(&mut self, message: FromNode) {
        let now_ms = self.now_ms();
        if let Some(coordination) = &mut self.coordination {
            return coordination.on_own_message(now_ms, message);
        }
        let link = self.home.as_mut().and_then(|home| home.link.as_mut());
        if let Some(Err(error)) = link.map(|link| link.send(&message)) {
            self.lose_home(&error.to_string());
        }
    }

    fn regrant(&mut self, node: NodeId, epoch: Epoch) {
        self.service.notify(ToService::Identity { node, epoch });
        match self.extents.renew_grants(node) {
            Ok(held) => self.member.regranted(self.now_ms(), epoch, held),
            // Without fresh grants nobody gets in, which is safe; the kernel's generator does not fail once it is seeded.
            Err(error) => tracing::error!("grants could not be made anew: {error}"),
        }
    }

    /// The node is a member: clients may come.
    fn joined(&mut self, node: NodeId, epoch: Epoch) {
        tracing::info!("this is {node} in {epoch}");
        self.ask_for_keepers();
        if let Some(keeper) = &self.keeper {
            keeper.on_joined();
        }
        if self.listener.is_some() {
            return;
        }
        match UnixListener::bind(&self.socket, self.access) {
            Ok(listener) => {
                self.watch(listener.fd(), LISTENER, EventFlags::IN);
                self.listener = Some(listener);
                self.announce(Ok(node));
            }
            Err(error) => {
                self.stopping = true;
                self.announce(Err(error));
            }
        }
    }

    fn refused(&mut self, error: Error) {
        // A keeper that was killed may be back before the next coordinator knows that it was.
        if self.ready.is_some() && self.is_keeper() && self.now_ms() < ANSWER_MS {
            return tracing::warn!("{error}");
        }
        self.fail_start(error);
    }

    /// Ends a node that cannot start. Later, the same failure is tried again.
    fn fail_start(&mut self, error: Error) {
        if self.ready.is_none() {
            return tracing::error!("the coordinator refuses this node: {error}");
        }
        self.stopping = true;
        self.announce(Err(error));
    }

    fn announce(&mut self, outcome: Result<NodeId>) {
        if let Some(ready) = self.ready.take() {
            let _ = ready.send(outcome);
        }
    }

    /// Sleeps until something happens or is due, and takes it in.
    pub(super) fn wait(&mut self) {
        let patience = self.patience_ms();
        let patience = Timespec { tv_sec: (patience / 1000) as i64, tv_nsec: (patience % 1000 * 1_000_000) as i64 };
        let mut events: Vec<epoll::Event> = Vec::with_capacity(64);
        if epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&patience)).is_err() {
            return;
        }
        // The membership and other nodes come first, so that no number of clients costs a lease; then clients have turns.
        let mut eager = std::mem::take(&mut self.eager);
        let mut is_knocking = false;
        for event in &events {
            let key = event.data.u64();
            eager.remove(&key);
            match key {
                BELL => self.read_notices(),
                LISTENER => is_knocking = true,
                HOME => self.on_home(),
                key if self.clients.contains_key(&key) => {
                    self.want_turn(key, { event.flags }.intersects(EventFlags::HUP | EventFlags::ERR));
                }
                key if self.parted.contains_key(&key) => self.process_ended(key),
                key => self.on_link(key),
            }
        }
        for key in eager {
            match key {
                HOME => self.on_home(),
                key => self.on_link(key),
            }
        }
        self.serve_clients();
        if is_knocking {
            self.accept_clients();
        }
    }

    fn patience_ms(&self) -> u64 {
        let coordinator = self.coordination.as_ref().and_then(Coordination::next_deadline);
        let asks_keepers = self.asks_keepers();
        let home = self.home.as_ref().filter(|_| self.coordination.is_none());
        let home = home.and_then(|home| home.next_deadline(asks_keepers));
        let keeper = self.reigns.as_ref().map(|reigns| reigns.keepers.next_deadline());
        if !self.eager.is_empty() {
            return 0;
        }
        let due = [self.member.next_deadline(), coordinator, home, keeper, self.clients_due_ms(), self.readying_due_ms()]
            .into_iter()
            .flatten()
            .min();
        due.map_or(TICK_MS, |due| due.saturating_sub(self.now_ms())).min(TICK_MS)
    }

    fn read_notices(&mut self) {
        for notice in self.notices.take() {
            match notice {
                ToControl::Greeted(greeted) => self.welcome(greeted),
                ToControl::Linked { link, series, client, user } => {
                    self.service.notify(ToService::Serve { link, series, client, user });
                }
                ToControl::Wired(role, node, link) => self.service.notify(ToService::wired_by(role, node, link)),
                ToControl::Holder(extent, message) => self.member.say_as_holder(extent, message),
                ToControl::HandOver(greeted) => self.service.notify(ToService::HandOver(greeted)),
                ToControl::Shared { client, result, fds } => self.shared(client, &result, fds),
                ToControl::Dialed(outcome) => self.dialed(outcome),
                ToControl::Leads(leader) => self.heard_of_leader(leader),
                ToControl::NamesLapsed => self.names_lapsed(),
                ToControl::KeeperCame(greeted) => self.keeper_came(greeted),
                ToControl::KeeperDialed(address, outcome) => self.keeper_dialed(&address, outcome),
                ToControl::Recall { client, number } => self.recall_lock(client, number),
                ToControl::Spills => self.ask_for_spills(),
                ToControl::Stop => self.stopping = true,
            }
        }
    }
}

fn system(what: &str, errno: rustix::io::Errno) -> Error {
    Error::System { what: what.to_owned(), reason: errno.to_string() }
}
