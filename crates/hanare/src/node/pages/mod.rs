//! Shared regions on this node: the homes of pages that lie here, and the hosts' side of regions that clients here map.
//!
//! Runs in the service thread. What clients' threads ask comes over links of their own ([`Pages::on_wants`]); everything between
//! hosts and homes is a [`Letter`], to another node or to this very one.
//!
//! | module | holds |
//! |---|---|
//! | `asking` | the answer to a thread, while this node has a say in it |
//! | `home` | a region's directory where its pages lie |
//! | `host` | a region's page words and frames where it is mapped |
//! | `memory` | the pages that lie here: read, written, taken out of mappings |
//! | `recall` | pages that are brought home for commands |
//! | `looks` | what programs are told of pages |
//! | `joins` | clients that will map, hosts that join homes and leave them |
//! | `returns` | nodes that were taken for lost and are back: as homes, as hosts, and what the others do |
//! | `wires` | letters between nodes |

mod asking;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
mod home;
mod host;
mod joins;
mod looks;
mod memory;
mod recall;
mod returns;
mod wires;

use crate::node::extents::Extents;
use asking::Asking;
use hanare_memory::frames::ClientFrames;
use hanare_protocol::id::{ClientId, Epoch, Gid, Incarnation, NodeId};
pub(crate) use hanare_protocol::page::share::Over;
use hanare_protocol::page::{Face, HostId, Say};
use hanare_protocol::wire::control::{Answer, RegionView};
use hanare_protocol::wire::page::{Letter, Settled, Want, decode_frame};
use hanare_protocol::{Error, Result, page::Consistency};
pub(crate) use home::Sealed;
use home::{Answers, Home, PageBytes, Post};
use host::Host;
use joins::{HostKey, PendingJoin};
use looks::Past;
use recall::Recalls;
pub(crate) use recall::{Asker, Need, Recall};
use returns::{Dismissed, Handed};
use std::collections::{HashMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wires::{Brought, Errand, Wires};

/// What a client asks of its node about shared regions.
pub(crate) enum Wish {
    Share { view: Box<RegionView>, consistency: Consistency, uid: u32 },
    Hold { gid: Gid, frames: ClientFrames },
    Unshare { gid: Gid },
}

/// What the service does for shared regions.
pub(crate) enum Deed {
    /// Connect to a node, and say so to [`Pages::dialed`].
    Dial { node: NodeId, address: String },
    /// Send a frame over a connection to or from another node.
    Send { place: u64, bytes: Vec<u8> },
    /// Close such a connection.
    Close { place: u64 },
    /// Answer records of a thread.
    Grant { session: u64, seq: u64, answers: Sealed },
    /// Pages that a stage of a command waits for are at home, or will not come.
    Recalled { asker: Asker, face: Face, outcome: Result<()> },
    /// End the link of a client that sent nonsense.
    End { session: u64, error: Error },
    /// Answer a client's wish.
    Reply { client: ClientId, result: Result<Answer>, fds: Vec<OwnedFd> },
}

/// Shared regions on this node.
pub(crate) struct Pages {
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
    pending: Vec<PendingJoin>,
    /// Homes that are back, and have got what was here.
    handed: VecDeque<Handed>,
    /// Hosts that could not be reached, and are members of the pool as far as is known: they are told that homes here do without them.
    dismissed: Vec<Dismissed>,
    /// Letters of this node to itself.
    local: VecDeque<(Letter, Option<PageBytes>)>,
    deeds: VecDeque<Deed>,
    /// The answer that is being put together.
    asking: Option<Asking>,
    recalls: Recalls,
    past: Past,
}

impl Pages {
    pub fn new(
        extents: Arc<Extents>,
        address: String,
        life: Incarnation,
        bound: Duration,
        (frames_max, maps_own): (u64, bool),
    ) -> Pages {
        Pages {
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
            pending: Vec::new(),
            handed: VecDeque::new(),
            dismissed: Vec::new(),
            local: VecDeque::new(),
            deeds: VecDeque::new(),
            asking: None,
            recalls: Recalls::default(),
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
    pub fn poll(&mut self) -> Option<Deed> {
        self.deeds.pop_front()
    }

    /// Whether pages may be asked for at any moment.
    pub fn is_sharing(&self) -> bool {
        !self.hosts.is_empty() || !self.homes.is_empty()
    }

    /// Whether [`Pages::turn`] has to be called again and again.
    pub fn is_busy(&self) -> bool {
        self.hosts.values().any(Host::is_taking)
    }

    /// Whether [`Pages::tick`] has to be called soon.
    pub fn waits(&self) -> bool {
        !self.pending.is_empty()
            || self.hosts.values().any(|host| host.sharing.waits())
            || !self.dismissed.is_empty()
            || self.homes.values().any(|home| home.is_returning() || home.draining().next().is_some())
            || self.recalls.any_wait()
            || self.wires.waits()
    }

    /// A thread of a client wants pages of a share; answered by [`Deed::Grant`].
    pub fn on_wants(&mut self, session: u64, seq: u64, share: u64, wants: &[Want]) {
        let outcome = self.begin_wants(session, seq, share, wants);
        self.end_ask(session, outcome);
    }

    /// A thread of a client has installed grants of a share.
    pub fn on_settled(&mut self, session: u64, share: u64, settled: &[Settled]) {
        let outcome = self
            .with_home(share, |home, host, posts| settled.iter().try_for_each(|settled| home.on_settled(host, settled, posts)));
        self.end_ask(session, outcome);
    }

    /// Clients of this host have more frames of a region than they may.
    pub fn on_crowded(&mut self, gid: Gid) {
        let those: Vec<HostKey> = self.hosts.keys().filter(|key| key.gid == gid).copied().collect();
        those.into_iter().for_each(|key| self.with_host(key, Host::on_crowded));
        self.settle();
    }

    /// A thread that asked for what it may not have loses its link.
    fn end_ask(&mut self, session: u64, outcome: Result<()>) {
        self.deeds.extend(outcome.err().map(|error| Deed::End { session, error }));
        self.settle();
    }

    fn begin_wants(&mut self, session: u64, seq: u64, share: u64, wants: &[Want]) -> Result<()> {
        let (gid, host) = self.shares.get(&share).copied().ok_or_else(not_shared)?;
        let home = self.homes.get_mut(&gid).filter(|home| !home.is_returning()).ok_or_else(not_shared)?;
        let mut posts = Vec::new();
        let answers = home.on_wants(host, session, wants, &mut posts);
        let key = home.key_of(host);
        let answers = match (answers, key) {
            (Ok(answers), Some(key)) if answers.is_partial() => {
                self.asking = Some(Asking::new(key, answers));
                self.post(posts);
                self.finish_asking(session, gid, host)
            }
            (answers, _) => {
                self.post(posts);
                answers.map(Some)?
            }
        };
        self.deeds.extend(answers.map(|answers| Deed::Grant { session, seq, answers: answers.seal() }));
        Ok(())
    }

    /// Takes what this very node has to give for an answer, and puts it in.
    fn finish_asking(&mut self, session: u64, gid: Gid, host: HostId) -> Option<Answers> {
        self.settle();
        let asking = self.asking.take()?;
        if let Some(home) = self.homes.get_mut(&gid).filter(|_| !self.maps_own) {
            // A thread that dies with its answer has it sent again from there.
            for (page, bytes) in asking.pages() {
                if let Err(error) = home.memory().write_page(page.0, bytes) {
                    tracing::warn!("a page that was passed on: {error}");
                }
            }
        }
        let answered = asking.finish();
        if let Some(home) = self.homes.get_mut(&gid) {
            for (page, ticket, grant) in answered.firm {
                home.await_thread(host, session, page, ticket, grant);
            }
        }
        self.post(answered.letters);
        Some(answered.answers)
    }

    /// A client's link has ended.
    pub fn on_session_closed(&mut self, session: u64) {
        let mut posts = Vec::new();
        for home in self.homes.values_mut() {
            if let Err(error) = home.on_session_closed(session, &mut posts) {
                tracing::warn!("a page of a thread that is gone: {error}");
            }
        }
        self.post(posts);
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
            self.with_host(key, |host, says| moved |= host.turn(says));
        }
        moved
    }

    /// Time passes.
    pub fn tick(&mut self) {
        let mut errands = Vec::new();
        self.wires.tick(&mut errands);
        self.run(errands);
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
        let mut errands = Vec::new();
        let lost = self.wires.dialed(node, place, &mut errands);
        self.run(errands);
        if let Some(node) = lost {
            self.on_node_lost(node, Over::All);
        }
        self.settle();
    }

    /// A connection between nodes has ended.
    pub fn wire_ended(&mut self, place: u64) {
        let mut errands = Vec::new();
        self.wires.ended(place, &mut errands);
        self.run(errands);
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
                return self.deeds.push_back(Deed::Close { place });
            }
        };
        let page = (!page.is_empty()).then(|| page.into());
        let mut errands = Vec::new();
        let brought = self.wires.hear(place, frame, &mut errands);
        self.run(errands);
        match brought {
            Brought::Letter(from, life, letter) => self.on_letter((from, life), letter, page),
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
            let mut errands = Vec::new();
            let unheard = self.wires.forget(node, &mut errands);
            self.run(errands);
            self.keep_unsent(unheard);
        }
        let mut posts = Vec::new();
        for home in self.homes.values_mut() {
            for host in home.hosts_over(node, over) {
                let may_live = over == Over::All;
                self.dismissed.extend(home.dismissal(host, &self.address).filter(|_| may_live).map(Dismissed::new));
                if home.is_returning() {
                    home.on_handed_over(host, true);
                    continue;
                }
                let left = home.leave(host, true, &mut posts);
                left.map(|(share, _)| self.shares.remove(&share));
            }
        }
        self.post(posts);
        if over != Over::All {
            self.dismissed.retain(|dismissed| !dismissed.is_at(node));
        }
        self.lose_homes(node, over);
        self.end_returns();
        self.drop_left_homes();
        self.settle();
    }

    /// All letters of this node to itself, what they want taken, and what comes of that.
    fn settle(&mut self) {
        self.settle_but(None);
    }

    /// The same while a stage asks for its pages, which is told by the answer to that.
    fn settle_but(&mut self, asking: Option<Face>) {
        loop {
            while let Some((letter, bytes)) = self.local.pop_front() {
                let me = self.me.map_or(NodeId(0), |(node, _)| node);
                self.on_letter((me, self.life), letter, bytes);
            }
            if self.take() {
                continue;
            }
            self.hear_of_recalls(asking);
            if self.local.is_empty() {
                return;
            }
        }
    }

    fn on_letter(&mut self, (from, life): (NodeId, Incarnation), letter: Letter, bytes: Option<PageBytes>) {
        let outcome = match letter {
            Letter::Join(join) => {
                self.on_join(from, life, join);
                Ok(())
            }
            Letter::Joined { key, result } => {
                self.on_joined(key, (from, life), result);
                Ok(())
            }
            Letter::Returned { key, share, address, takes } => {
                self.on_returned((from, &address), (key, share), takes);
                Ok(())
            }
            Letter::Leave { share } => {
                self.on_leave(share);
                Ok(())
            }
            Letter::Forgot { share } => {
                self.on_forgot(share);
                Ok(())
            }
            Letter::Left { key } => {
                self.on_left(key);
                Ok(())
            }
            Letter::Introduce { key, host, node, address, its_key } => {
                if let Some((to, home)) = self.keys.get(&key).copied()
                    && let Some(known) = self.hosts.get_mut(&to)
                {
                    known.homes[home].peers.insert(host, host::PeerHost { node, address, key: its_key });
                }
                Ok(())
            }
            Letter::ToHome { share, page, message } => {
                self.with_home(share, |home, host, posts| home.on_message(host, page, message, bytes.as_deref(), posts))
            }
            Letter::ToHost { key, page, message } => {
                let mut outcome = Ok(());
                match self.keys.get(&key).copied() {
                    Some((to, home)) => {
                        self.with_host(to, |host, says| outcome = host.on_message(home, page, message, bytes, says));
                    }
                    None => self.give_straight_back(key, page, &message, bytes),
                }
                outcome
            }
            Letter::HostGone { key } => {
                if let Some((to, home)) = self.keys.get(&key).copied() {
                    self.with_host(to, |host, says| host.on_host_gone(home, says));
                }
                Ok(())
            }
        };
        if let Err(error) = outcome {
            tracing::warn!("{from} about pages: {error}");
        }
    }

    /// Runs `with` on the home that a share is for, and posts what comes of it. Shares that are over are passed over.
    fn with_home(&mut self, share: u64, with: impl FnOnce(&mut Home, HostId, &mut Vec<Post>) -> Result<()>) -> Result<()> {
        let known = self.shares.get(&share).copied();
        let Some((home, host)) = known.and_then(|(gid, host)| Some((self.homes.get_mut(&gid)?, host))) else {
            return Err(not_shared());
        };
        let mut posts = Vec::new();
        let outcome = with(home, host, &mut posts);
        self.post(posts);
        outcome
    }

    fn with_host(&mut self, key: HostKey, with: impl FnOnce(&mut Host, &mut Vec<Say<PageBytes>>)) {
        let now_ms = self.now_ms();
        let Some(host) = self.hosts.get_mut(&key) else { return };
        let mut says = Vec::new();
        with(host, &mut says);
        let is_left = host.part_stuck(&mut says) && host.is_unused();
        if host.is_given_up() || is_left {
            // The homes must not wait for what it does not know any more.
            host.sharing.give_up(now_ms);
        }
        self.say(key, says);
    }

    /// Letters of a host to its homes, and to other hosts.
    fn say(&mut self, key: HostKey, says: Vec<Say<PageBytes>>) {
        for say in says {
            let Some(host) = self.hosts.get(&key) else { return };
            let (node, address, letter, bytes) = match say {
                Say::Home { page, message, bytes } => {
                    let home = host.home_of_page(page.0);
                    let (door, Some(share)) = (&host.homes[home], host.sharing.share(home)) else { continue };
                    (door.node, door.address.clone(), Letter::ToHome { share, page, message }, bytes)
                }
                Say::Host { to, page, message, bytes } => {
                    let Some(peer) = host.homes[host.home_of_page(page.0)].peers.get(&to) else { continue };
                    (peer.node, peer.address.clone(), Letter::ToHost { key: peer.key, page, message }, bytes)
                }
            };
            self.send(Post { node, address, letter, bytes });
        }
    }

    fn post(&mut self, posts: Vec<Post>) {
        posts.into_iter().for_each(|post| self.send(post));
    }

    fn send(&mut self, post: Post) {
        let post = match &mut self.asking {
            Some(asking) => asking.keep(post),
            None => Some(post),
        };
        let Some(Post { node, address, letter, bytes }) = post else { return };
        if letter.has_bytes() && bytes.is_none() {
            // Whoever waits for it is told by its bound: bytes are not made up.
            return tracing::error!("a page for {node} could not be read, and is not sent");
        }
        if self.me.is_some_and(|(me, _)| me == node) {
            return self.local.push_back((letter, bytes));
        }
        let mut errands = Vec::new();
        self.wires.send(node, &address, letter, bytes, &mut errands);
        self.run(errands);
    }

    fn run(&mut self, errands: Vec<Errand>) {
        self.deeds.extend(errands.into_iter().map(|errand| match errand {
            Errand::Dial(node, address) => Deed::Dial { node, address },
            Errand::Send(place, bytes) => Deed::Send { place, bytes },
            Errand::Close(place) => Deed::Close { place },
        }));
    }
}

fn not_shared() -> Error {
    let reason = "pages of a region that it does not share (any more)".to_owned();
    Error::Garbage { peer: "a host".to_owned(), reason }
}
