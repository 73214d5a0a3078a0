//! Shared regions on this node: the homes of pages that lie here, and the hosts' side of regions that clients here map.
//!
//! Runs in the service thread. Requests of clients' threads come over links of their own ([`SharedRegions::on_page_requests`]);
//! everything between hosts and homes is a [`NodeMessage`](hanare_protocol::wire::page::NodeMessage), to another node or to this very one.
//!
//! | module | holds |
//! |---|---|
//! | `outgoing` | a message, where it goes, and its page |
//! | `request` | requests of clients |
//! | `memory` | the pages that lie here: read, written, taken out of mappings |
//! | `reply` | the reply to a thread's page requests, while this node has a say in it |
//! | `home` | a region's directory where its pages lie |
//! | `host` | a region's page words and frames where it is mapped |
//! | `wires` | numbered messages over connections that break and are made anew |
//! | `delivery` | messages of homes and hosts: what each comes to, and how they leave |
//! | `joins` | clients that will map: their host joins homes |
//! | `leaves` | clients that unmap, or are gone: their host leaves homes |
//! | `guests` | hosts that join homes of this node and leave them |
//! | `recall` | pages that are brought home for commands |
//! | `holds` | pages that are kept for a while although other hosts wait for them |
//! | `looks` | what programs are told of pages |
//! | `returns` | nodes that were taken for lost and are back: as homes, as hosts, and what the others do |

mod delivery;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
mod guests;
mod holds;
mod home;
mod host;
mod joins;
mod leaves;
mod looks;
mod memory;
mod outgoing;
mod recall;
mod reply;
mod request;
mod returns;
#[cfg(test)]
mod tests;
mod wires;

use crate::extents::Extents;
use guests::PendingJoin;
use hanare_protocol::id::{ClientId, Epoch, Gid, Incarnation, NodeId};
pub(crate) use hanare_protocol::page::share::Over;
use hanare_protocol::page::share::{Dismissed, HandedShares, Lobby};
use hanare_protocol::page::{Face, HostId, Recalls};
use hanare_protocol::wire::control::Answer;
use hanare_protocol::wire::page::{PageRequest, Settled, decode_frame};
use hanare_protocol::{Error, Result};
use home::Home;
use host::Host;
use looks::Past;
use memory::HomeMemory;
use outgoing::Outgoing;
pub(crate) use recall::Asker;
pub(crate) use reply::SealedReply;
use reply::{ClosedReply, OpenReply, PageReply};
use request::HostKey;
pub(crate) use request::RegionRequest;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wires::{Brought, Wires};

/// What the service does for shared regions.
pub(crate) enum Action {
    /// Connect to a node, and say so to [`SharedRegions::dialed`].
    Dial { node: NodeId, address: String },
    /// Send a frame over a connection to or from another node.
    Send { place: u64, bytes: Vec<u8> },
    /// Close such a connection.
    Close { place: u64 },
    /// Reply to the page requests of a thread.
    Grant { session: u64, seq: u64, reply: SealedReply },
    /// Pages that a stage of a command waits for are at home, or will not come.
    Recalled { asker: Asker, face: Face, outcome: Result<()> },
    /// End the link of a client that sent nonsense.
    End { session: u64, error: Error },
    /// Answer a client's request.
    Reply { client: ClientId, result: Result<Answer>, fds: Vec<OwnedFd> },
}

/// Shared regions on this node.
pub(crate) struct SharedRegions {
    me: Option<(NodeId, Epoch)>,
    life: Incarnation,
    address: String,
    extents: Arc<Extents>,
    bound: Duration,
    /// What the times of rules are counted from.
    began: Instant,
    frames_max: u64,
    /// Whether programs of this host map its own memory as it is: where the kernel maps what is in a file without asking (Linux
    /// 6.1) this host is to its home like any other.
    maps_own: bool,
    wires: Wires,
    homes: HashMap<Gid, Home>,
    shares: HashMap<u64, (Gid, HostId)>,
    hosts: HashMap<HostKey, Host>,
    keys: HashMap<u64, (HostKey, usize)>,
    /// When pages that hosts keep for a while are to be given, and where the first of them is.
    holds: BTreeSet<(u64, HostKey)>,
    /// Hosts that wait to be let in at homes here.
    lobby: Lobby<PendingJoin>,
    /// Homes that are back, and have got what was here.
    handed: HandedShares<(NodeId, String), Arc<Outgoing>>,
    /// Hosts that could not be reached, and are members of the pool as far as is known: they are told that homes here do without them.
    dismissed: Dismissed<Outgoing>,
    /// Messages of this node to itself.
    local: VecDeque<Outgoing>,
    actions: VecDeque<Action>,
    /// The reply that is being put together.
    open_reply: Option<OpenReply>,
    /// Stages of commands whose pages are asked for or held.
    recalls: Recalls<Asker, Gid, Error>,
    /// Regions whose pages come home before the node ends, which keeps its bytes; nobody gets a page of them any more.
    ending: Option<Vec<(Face, Arc<HomeMemory>)>>,
    past: Past,
}

impl SharedRegions {
    pub fn new(
        extents: Arc<Extents>,
        address: String,
        life: Incarnation,
        bound: Duration,
        (frames_max, maps_own): (u64, bool),
    ) -> SharedRegions {
        SharedRegions {
            me: None,
            life,
            address,
            extents,
            bound,
            began: Instant::now(),
            frames_max,
            maps_own,
            wires: Wires::new(life),
            homes: HashMap::new(),
            shares: HashMap::new(),
            hosts: HashMap::new(),
            keys: HashMap::new(),
            holds: BTreeSet::new(),
            lobby: Lobby::new(bound.as_millis() as u64 / 2),
            handed: HandedShares::default(),
            dismissed: Dismissed::default(),
            local: VecDeque::new(),
            actions: VecDeque::new(),
            open_reply: None,
            // Who asked hears which host was silent before it gives up itself.
            recalls: Recalls::new((bound - bound / 4).as_millis() as u64),
            ending: None,
            past: Past::default(),
        }
    }

    /// The node has joined its pool, perhaps anew.
    pub fn set_identity(&mut self, node: NodeId, epoch: Epoch) {
        let was = self.me.replace((node, epoch));
        self.wires.set_me(node);
        if let Some((was, _)) = was.filter(|was| *was != (node, epoch)) {
            self.begin_anew(was);
            self.settle();
        }
    }

    /// The time, as rules are told it.
    fn now_ms(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }

    /// The next thing to do; drained after every input.
    pub fn poll(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Whether pages may be asked for at any moment.
    pub fn is_sharing(&self) -> bool {
        !self.hosts.is_empty() || !self.homes.is_empty()
    }

    /// Whether [`SharedRegions::turn`] has to be called again and again.
    pub fn is_busy(&self) -> bool {
        self.hosts.values().any(Host::is_taking)
    }

    /// Whether [`SharedRegions::tick`] has to be called soon.
    pub fn waits(&self) -> bool {
        !self.lobby.is_empty()
            || self.hosts.values().any(|host| host.sharing.waits())
            || !self.dismissed.is_empty()
            || self.homes.values().any(|home| home.is_returning() || home.draining().next().is_some())
            || self.recalls.any_wait()
            || self.wires.waits()
    }

    /// Whether hosts wait to be let in, for commands that came before them.
    pub fn lets_wait(&self) -> bool {
        !self.lobby.is_empty()
    }

    /// A thread of a client wants pages of a share; answered by [`Action::Grant`].
    pub fn on_page_requests(&mut self, session: u64, seq: u64, share: u64, requests: &[PageRequest]) {
        let outcome = self.begin_page_requests(session, seq, share, requests);
        self.end_request(session, outcome);
    }

    /// A thread of a client has installed grants of a share.
    pub fn on_settled(&mut self, session: u64, share: u64, settled: &[Settled]) {
        // After the end of the share nobody waits for that.
        let outcome = self.with_home(share, |home, host, outgoing| {
            settled.iter().try_for_each(|settled| home.on_settled(host, settled, outgoing))
        });
        self.end_request(session, outcome.unwrap_or(Ok(())));
    }

    /// Clients of this host have more frames of a region than they may.
    pub fn on_crowded(&mut self, gid: Gid) {
        let those: Vec<HostKey> = self.hosts.keys().filter(|key| key.gid == gid).copied().collect();
        those.into_iter().for_each(|key| self.with_host(key, Host::on_crowded));
        self.settle();
    }

    /// A thread that asked for what it may not have loses its link.
    fn end_request(&mut self, session: u64, outcome: Result<()>) {
        self.actions.extend(outcome.err().map(|error| Action::End { session, error }));
        self.settle();
    }

    fn begin_page_requests(&mut self, session: u64, seq: u64, share: u64, requests: &[PageRequest]) -> Result<()> {
        let is_ending = self.ending.is_some();
        let known = self.shares.get(&share).copied();
        let home = known.and_then(|(gid, host)| Some((self.homes.get_mut(&gid)?, gid, host)));
        let Some((home, gid, host)) = home.filter(|(home, ..)| !home.is_returning() && !is_ending) else {
            // A page and the end of a share cross: the thread is told, and its link serves on.
            let reply = PageReply::not_shared(requests).seal();
            self.actions.push_back(Action::Grant { session, seq, reply });
            return Ok(());
        };
        let mut outgoing = Vec::new();
        let reply = home.on_page_requests(host, session, requests, &mut outgoing);
        let key = home.key_of(host);
        let reply = match (reply, key) {
            (Ok(reply), Some(key)) if reply.is_partial() => {
                self.open_reply = Some(OpenReply::new(key, reply));
                self.send_all(outgoing);
                self.finish_reply(session, gid, host)
            }
            (reply, _) => {
                self.send_all(outgoing);
                reply.map(Some)?
            }
        };
        self.actions.extend(reply.map(|reply| Action::Grant { session, seq, reply: reply.seal() }));
        Ok(())
    }

    /// Takes what this very node has to give for a reply, and puts it in.
    fn finish_reply(&mut self, session: u64, gid: Gid, host: HostId) -> Option<PageReply> {
        self.settle();
        let open = self.open_reply.take()?;
        if let Some(home) = self.homes.get_mut(&gid).filter(|_| !self.maps_own) {
            // A thread that dies with its reply has it sent again from there.
            for (page, bytes) in open.pages() {
                if let Err(error) = home.memory().write_page(page.0, bytes) {
                    tracing::warn!("a page that was passed on: {error}");
                }
            }
        }
        let ClosedReply { reply, firm, messages } = open.finish();
        if let Some(home) = self.homes.get_mut(&gid) {
            for (page, ticket, grant) in firm {
                home.await_thread(host, session, page, ticket, grant);
            }
        }
        self.send_all(messages);
        Some(reply)
    }

    /// A client's link has ended.
    pub fn on_session_closed(&mut self, session: u64) {
        let mut outgoing = Vec::new();
        for home in self.homes.values_mut() {
            if let Err(error) = home.on_session_closed(session, &mut outgoing) {
                tracing::warn!("a page of a thread that is gone: {error}");
            }
        }
        self.send_all(outgoing);
        self.settle();
    }

    /// Goes on with pages that are being taken. Returns whether anything moved.
    pub fn turn(&mut self) -> bool {
        let moved = self.take();
        self.settle();
        moved
    }

    /// Takes the pages that nobody maps at this moment, neighbours together. Returns whether there were any.
    fn take(&mut self) -> bool {
        let taking: Vec<HostKey> = self.hosts.iter().filter(|(_, host)| host.is_taking()).map(|(key, _)| *key).collect();
        let mut moved = false;
        for key in taking {
            self.with_host(key, |host, outputs| moved |= host.turn(outputs));
        }
        moved
    }

    /// Time passes.
    pub fn tick(&mut self) {
        let now_ms = self.now_ms();
        self.wires.tick(now_ms, &mut self.actions);
        self.try_pending_joins();
        self.let_leavers_go();
        self.go_on_leaving();
        self.go_on_handing();
        self.ask_again();
        self.end_returns();
        self.tick_recalls();
        self.settle();
    }

    /// A connection to a node was made, and has that place; or it was not.
    pub fn dialed(&mut self, node: NodeId, place: Option<u64>) {
        let now_ms = self.now_ms();
        let lost = self.wires.dialed(node, place, now_ms, &mut self.actions);
        if let Some(node) = lost {
            self.on_node_lost(node, Over::All);
        }
        self.settle();
    }

    /// A connection between nodes has ended.
    pub fn wire_ended(&mut self, place: u64) {
        let now_ms = self.now_ms();
        self.wires.ended(place, now_ms, &mut self.actions);
    }

    /// Frames of another node; what they want taken is taken together.
    pub fn on_frames(&mut self, place: u64, frames: &[Vec<u8>]) {
        frames.iter().for_each(|bytes| self.on_frame(place, bytes));
        self.settle();
    }

    fn on_frame(&mut self, place: u64, bytes: &[u8]) {
        let (frame, page) = match decode_frame(bytes) {
            Ok(frame) => frame,
            Err(malformed) => {
                tracing::warn!("a connection about pages was closed: {}", malformed.0);
                return self.actions.push_back(Action::Close { place });
            }
        };
        let page = (!page.is_empty()).then(|| page.into());
        match self.wires.hear(place, frame, &mut self.actions) {
            Brought::Message(from, life, message) => self.on_node_message((from, life), message, page),
            Brought::Another(node, life) => {
                tracing::info!("another process answers where {node} was");
                self.on_node_lost(node, Over::AllBut(life));
            }
            Brought::Nothing => {}
        }
    }

    /// Lives of a node are over, as the membership says, or because it cannot be reached any more, or another process is there.
    pub fn on_node_lost(&mut self, node: NodeId, over: Over) {
        let goes_on = |home: &Home| home.has_live(node, over);
        // Late news of a life before: what is said to the one that goes on is said still.
        let is_met = |host: &Host| {
            let mut doors = host.homes.iter().enumerate();
            doors.any(|(at, door)| door.node == node && !host.sharing.is_over(at, over))
        };
        let is_reached = self.hosts.values().any(is_met);
        if !is_reached && !self.homes.values().any(goes_on) {
            let unheard = self.wires.forget(node, &mut self.actions);
            self.keep_unsent(unheard);
        }
        let (mut outgoing, mut keys) = (Vec::new(), Vec::new());
        for home in self.homes.values_mut() {
            for host in home.hosts_over(node, over) {
                keys.extend(home.key_of(host));
                if over == Over::All {
                    home.dismiss(host, &self.address, &mut self.dismissed);
                }
                if home.is_returning() {
                    home.on_handed_over(host, true);
                    continue;
                }
                let left = home.leave(host, true, &mut outgoing);
                left.map(|(share, _)| self.shares.remove(&share));
            }
        }
        self.send_all(outgoing);
        self.let_wait_no_more(keys);
        self.dismissed.on_lives_over(node, over);
        self.lose_homes(node, over);
        self.end_returns();
        self.drop_left_homes();
        self.settle();
    }
}
