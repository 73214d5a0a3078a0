//! The thread that serves data links: moves those that are awake, parks when all have been quiet for a while.
//!
//! A link is *awake* from its first sign of activity until a spin's length without any; the others announced that they
//! doze, and wake the thread through epoll.

use super::barriers::{Answered, Barriers, Waiter};
use super::fetches::{Ended, Fetch};
use super::graves::Graves;
use super::inbox::Asks;
use super::peers::{Dial, Peers};
use super::seat::{Did, Seat};
use super::session::Session;
use super::sync::Sync;
use crate::node::control::Letter;
use crate::node::control_link::ControlLink;
use crate::node::extents::Extents;
use crate::node::pages::{Deed, Pages, Wish};
use crate::node::post::Post;
use hanare_fabric::ucx::Choice;
use hanare_fabric::{Link, LinkError};
use hanare_protocol::error::Happened;
use hanare_protocol::id::{ClientId, Epoch, JobId, NodeId, Rank};
use hanare_protocol::wire::control::Question;
use hanare_protocol::{Error, Result};
use hanare_ring::wait::{Backoff, Step};
use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What other threads tell the service.
pub(crate) enum Mail {
    /// Serve this link.
    Serve(Box<dyn Link>),
    /// A try to reach another node ended.
    Dialed { address: String, link: Result<Box<dyn Link>> },
    /// A connection for letters about pages: of another node's making, or what came of a try to reach that node.
    Wired { node: Option<NodeId>, link: Result<Box<dyn Link>> },
    /// The node is a member, by that number in that epoch.
    Identity { node: NodeId, epoch: Epoch },
    /// Another node is lost.
    NodeLost(NodeId),
    /// A client of this host wants to share a region, or not any more.
    Wish { client: ClientId, wish: Wish },
    /// A client of this host has ended.
    ClientGone(ClientId),
    /// A rank of a job is gone: barriers of the job fail.
    RankGone { job: JobId, rank: Rank, ranks: Option<u32>, reason: String },
    /// End.
    Stop,
}

/// What the service works with.
pub(crate) struct Terms {
    pub extents: Arc<Extents>,
    /// Proved to other nodes.
    pub key: Option<[u8; 32]>,
    /// How long they are waited for.
    pub bound: Duration,
    pub fabric: Choice,
}

/// The service, as the rest of the node sees it.
pub(crate) struct Service {
    post: Arc<Post<Mail>>,
    thread: Option<JoinHandle<()>>,
}

impl Service {
    /// Starts the thread. What clients asked about shared regions it answers by letters to `control`.
    pub fn start(terms: Terms, pages: Pages, control: Arc<Post<Letter>>) -> Result<Service> {
        let post = Arc::new(Post::new()?);
        let Terms { extents, key, bound, fabric } = terms;
        let mut desk = Desk::new(extents, post.clone(), Dial { key, bound, fabric, post: post.clone() }, pages, control)?;
        let thread = std::thread::Builder::new()
            .name("hanare-service".to_owned())
            .spawn(move || desk.run())
            .map_err(|error| Error::System { what: "start a thread".to_owned(), reason: error.to_string() })?;
        Ok(Service { post, thread: Some(thread) })
    }

    /// Hands over mail and wakes the thread.
    pub fn post(&self, mail: Mail) {
        self.post.send(mail);
    }
}

impl Service {
    /// Ends the thread, when pages of other nodes are at their homes.
    pub fn end(&mut self) {
        self.post(Mail::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.end();
    }
}

/// Epoll's name for the bell; links count up from zero.
const BELL: u64 = u64::MAX;

/// Rounds of the awake before the dozing are looked at.
const ROUNDS_PER_LOOK: u32 = 32;

/// How long a client may sit on an answer over shared memory before it is looked at again: it cannot always ring.
const BLOCKED_LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };

/// How long the thread checks and yields while regions are shared: an access may wait for three nodes one after the other, and each
/// that has parked costs it a wake.
const SHARING_SPIN: Duration = Duration::from_micros(200);

/// How long a node that ends in good order waits for pages of other nodes to be taken home.
const STOP_MAX: Duration = Duration::from_secs(2);

/// How often pages are looked at while somebody waits to share or leave a region, or for a node to be reached again.
const PAGES_LOOK: Duration = Duration::from_millis(5);

/// How often work that takes long is looked at: signs of life for clients, and the patience with other nodes.
const LOOK_AFTER: Duration = Duration::from_secs(1);

/// The thread's own state.
struct Desk {
    extents: Arc<Extents>,
    post: Arc<Post<Mail>>,
    epoll: OwnedFd,
    places: HashMap<u64, Place>,
    next_id: u64,
    awake: Vec<u64>,
    barriers: Barriers,
    sync: Sync,
    peers: Peers,
    graves: Graves,
    pages: Pages,
    control: Arc<Post<Letter>>,
    /// When pages were looked at last.
    ticked: Instant,
    /// When work that takes long was looked at last.
    looked: Instant,
    /// When the thread ends, whether or not pages of other nodes are all back at their homes.
    stop_at: Option<Instant>,
}

struct Place {
    seat: Seat,
    interest: EventFlags,
    is_awake: bool,
}

impl Desk {
    fn new(extents: Arc<Extents>, post: Arc<Post<Mail>>, dial: Dial, pages: Pages, control: Arc<Post<Letter>>) -> Result<Desk> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|errno| system("make an epoll", errno))?;
        epoll::add(&epoll, post.bell(), EventData::new_u64(BELL), EventFlags::IN)
            .map_err(|errno| system("watch the bell", errno))?;
        Ok(Desk {
            extents,
            post,
            epoll,
            places: HashMap::new(),
            next_id: 0,
            awake: Vec::new(),
            barriers: Barriers::default(),
            sync: Sync::default(),
            peers: Peers::new(dial),
            graves: Graves::default(),
            pages,
            control,
            ticked: Instant::now(),
            looked: Instant::now(),
            stop_at: None,
        })
    }

    fn run(&mut self) {
        let mut backoff = Backoff::new();
        let mut rounds = 0u32;
        let mut shares = false;
        while !self.is_over() {
            if shares != self.pages.is_sharing() {
                shares = !shares;
                backoff = if shares { Backoff::with_budget(SHARING_SPIN) } else { Backoff::new() };
            }
            self.serve_pages();
            self.answer_syncs();
            if self.awake.is_empty() && !self.pages.is_busy() {
                self.look(self.patience().as_ref());
                self.look_after();
                self.sync.tick(&self.extents);
                backoff.reset();
                continue;
            }
            rounds = rounds.wrapping_add(1);
            if rounds.is_multiple_of(ROUNDS_PER_LOOK) {
                self.look(Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
                self.look_after();
                self.sync.tick(&self.extents);
            }
            if self.move_awake() | self.pages.turn() {
                backoff.reset();
            } else if backoff.step_after(self.checks_by_call()) == Step::Park {
                self.doze_all();
                if self.pages.is_busy() {
                    // A page is mapped by a thread that does not run: it cannot say when it has left.
                    self.look(Some(&BLOCKED_LOOK));
                }
            }
        }
    }

    /// Whether the node has been told to end, and has nothing of others any more, or no time.
    fn is_over(&self) -> bool {
        self.stop_at.is_some_and(|stop_at| self.pages.is_left() || Instant::now() >= stop_at)
    }

    /// Without end, unless a client holds an answer up, waits for bytes of another node, or has a bound or a word to be looked at.
    fn patience(&self) -> Option<Timespec> {
        let pages = self.pages.waits().then_some(PAGES_LOOK);
        let mut patience = [pages, self.sync.patience()].into_iter().flatten().min().map(timespec);
        for place in self.places.values() {
            if place.seat.is_blocked() && !place.seat.needs_write_event() {
                return patience.min(Some(BLOCKED_LOOK)).or(Some(BLOCKED_LOOK));
            }
            if place.seat.waits() {
                patience = patience.min(Some(timespec(LOOK_AFTER))).or(Some(timespec(LOOK_AFTER)));
            }
        }
        patience
    }

    /// Does what shared regions want done, until nothing is left.
    fn serve_pages(&mut self) {
        if self.pages.waits() && self.ticked.elapsed() >= PAGES_LOOK {
            self.ticked = Instant::now();
            self.pages.tick();
        }
        while let Some(deed) = self.pages.poll() {
            match deed {
                Deed::Dial { node, address } => self.peers.dial_wire(node, address),
                Deed::Send { place, bytes } => {
                    let Some(Place { seat: Seat::Wire(wire), .. }) = self.places.get_mut(&place) else { continue };
                    match wire.send_bytes(bytes) {
                        Ok(()) => self.wake(place),
                        Err(error) => self.end(place, &error),
                    }
                }
                Deed::Close { place } => drop(self.unseat(place)),
                Deed::Grant { session, seq, answers } => self.answer(session, seq, Asks::Granted(answers)),
                Deed::End { session, error } => {
                    tracing::warn!("a thread's link was closed: {error}");
                    self.close(session);
                }
                Deed::Reply { client, result, fds } => self.control.send(Letter::Shared { client, result, fds }),
            }
        }
    }

    /// Once in a while: clients that wait for bytes of other nodes hear that it goes on, and silent nodes are given up.
    fn look_after(&mut self) {
        if self.looked.elapsed() < LOOK_AFTER {
            return;
        }
        self.looked = Instant::now();
        let waiting: Vec<u64> = self.places.iter().filter(|(_, place)| place.seat.waits()).map(|(id, _)| *id).collect();
        for id in waiting {
            let Some(place) = self.places.get_mut(&id) else { continue };
            match place.seat.look_after(self.peers.bound()) {
                Ok(()) => {}
                Err(error) => self.end(id, &error),
            }
        }
    }

    /// Whether a look at the links that are awake was a system call.
    fn checks_by_call(&self) -> bool {
        self.awake.iter().any(|id| self.places.get(id).is_some_and(|place| place.seat.checks_by_call()))
    }

    /// One turn for every awake link. Returns whether anything moved.
    fn move_awake(&mut self) -> bool {
        let mut moved = false;
        let mut index = 0;
        while let Some(id) = self.awake.get(index).copied() {
            index += 1;
            let Some(place) = self.places.get_mut(&id) else { continue };
            match place.seat.turn() {
                Ok(did) => moved |= self.act(id, did),
                Err(error) => self.end(id, &error),
            }
        }
        let places = &self.places;
        self.awake.retain(|id| places.contains_key(id));
        moved
    }

    /// Acts on what a turn brought. Returns whether anything moved.
    fn act(&mut self, id: u64, did: Did) -> bool {
        match did {
            Did::Client(turn) => {
                for (seq, arrival) in turn.arrivals {
                    let answers = self.barriers.on_arrival(arrival, Waiter { session: id, seq });
                    self.answer_arrivals(answers);
                }
                for (seq, question) in turn.questions {
                    let happened = self.inquire(question);
                    self.answer(id, seq, Asks::Told(happened));
                }
                for (seq, about, ask) in turn.pages {
                    self.pages.on_ask(id, seq, about, ask);
                    self.serve_pages();
                }
                for (seq, request) in turn.syncs {
                    self.sync.on_request(Waiter { session: id, seq }, request, &self.extents);
                }
                for fetch in turn.fetches {
                    self.fetch(id, fetch);
                }
                if turn.moved {
                    self.sync.on_turn(&self.extents);
                }
                turn.moved
            }
            Did::Peer(moved, ended) => {
                self.deliver(ended);
                moved
            }
            Did::Wire(frames, ending) => {
                let moved = !frames.is_empty();
                self.pages.on_frames(id, &frames);
                self.serve_pages();
                if let Err(error) = ending {
                    self.end(id, &error);
                }
                moved
            }
        }
    }

    /// What became of a request of another connection, which ends here if it has not yet.
    fn inquire(&mut self, question: Question) -> Happened {
        let alive = self.places.iter().find(|(_, place)| place.seat.name() == Some(question.connection));
        if let Some(id) = alive.map(|(id, _)| *id) {
            self.close(id);
        }
        self.graves.happened(question)
    }

    /// Has bytes fetched from another node, over the link to it that is there or has to be made.
    fn fetch(&mut self, session: u64, fetch: Fetch) {
        let Some(id) = self.peers.place(&fetch.address) else { return self.dial(session, fetch) };
        self.ask_peer(id, session, fetch);
    }

    fn dial(&mut self, session: u64, fetch: Fetch) {
        if self.peers.is_full() {
            self.close_idle_peer();
        }
        if let Err(error) = self.peers.dial(session, fetch) {
            self.deliver(vec![Ended { session, outcome: Err(error) }]);
        }
    }

    /// Makes room for a link to a node that is needed.
    fn close_idle_peer(&mut self) {
        let is_idle = |place: &Place| matches!(&place.seat, Seat::Peer(peer) if peer.is_idle());
        let idle = self.places.iter().find(|(_, place)| is_idle(place)).map(|(id, _)| *id);
        if let Some(Place { seat: Seat::Peer(peer), .. }) = idle.and_then(|id| self.unseat(id)) {
            self.peers.forget(&peer.address);
        }
    }

    fn ask_peer(&mut self, id: u64, session: u64, fetch: Fetch) {
        // The link may have ended under another's request just before.
        let Some(Place { seat: Seat::Peer(peer), .. }) = self.places.get_mut(&id) else {
            return self.dial(session, fetch);
        };
        match peer.ask(session, fetch) {
            Ok(()) => self.wake(id),
            Err(error) => self.end(id, &error),
        }
    }

    /// Hands ended fetches to the sessions that wait for them.
    fn deliver(&mut self, ended: Vec<Ended>) {
        for Ended { session, outcome } in ended {
            if let Some(Place { seat: Seat::Client(waiting), .. }) = self.places.get_mut(&session) {
                waiting.fetched(outcome);
                self.wake(session);
            }
        }
    }

    fn answer_arrivals(&mut self, answers: Vec<Answered>) {
        for (waiter, outcome) in answers {
            self.answer(waiter.session, waiter.seq, outcome.map_or_else(Asks::Refused, |()| Asks::Released));
        }
    }

    /// Tells those who waited for what clients share. A link that ends meanwhile may leave more to tell.
    fn answer_syncs(&mut self) {
        while let Some((waiter, outcome)) = self.sync.poll() {
            self.answer(waiter.session, waiter.seq, outcome.map_or_else(Asks::Refused, Asks::Synced));
        }
    }

    fn answer(&mut self, id: u64, seq: u64, asks: Asks) {
        let Some(Place { seat: Seat::Client(session), .. }) = self.places.get_mut(&id) else { return };
        match session.answer(seq, asks) {
            Ok(()) => self.wake(id),
            Err(_) => self.close(id),
        }
    }

    /// A link has ended by itself.
    fn end(&mut self, id: u64, error: &LinkError) {
        tracing::debug!("a data link ended: {error}");
        if matches!(self.places.get(&id), Some(Place { seat: Seat::Wire(_), .. })) {
            drop(self.unseat(id));
            return self.pages.wire_ended(id);
        }
        if let Some(Place { seat: Seat::Peer(peer), .. }) = self.places.get(&id) {
            let error = match error {
                LinkError::Timeout { .. } => peer.silent(self.peers.bound()),
                other => peer.lost(other),
            };
            let Some(Place { seat: Seat::Peer(peer), .. }) = self.unseat(id) else { return };
            self.peers.forget(&peer.address);
            let ended = peer.fail(&error);
            return self.deliver(ended);
        }
        self.close(id);
    }

    fn close(&mut self, id: u64) {
        if let Some(Place { seat: Seat::Client(session), .. }) = self.unseat(id) {
            self.graves.bury(&session);
            self.pages.on_session_closed(id);
        }
        self.barriers.forget(id);
        self.sync.forget(id);
    }

    fn unseat(&mut self, id: u64) -> Option<Place> {
        let place = self.places.remove(&id)?;
        let _ = epoll::delete(&self.epoll, place.seat.event());
        Some(place)
    }

    fn wake(&mut self, id: u64) {
        if let Some(place) = self.places.get_mut(&id)
            && !std::mem::replace(&mut place.is_awake, true)
        {
            self.awake.push(id);
        }
    }

    /// Takes events, waiting for one as long as `patience` says.
    fn look(&mut self, patience: Option<&Timespec>) {
        let mut events: Vec<epoll::Event> = Vec::with_capacity(64);
        if let Err(errno) = epoll::wait(&self.epoll, spare_capacity(&mut events), patience) {
            debug_assert_eq!(errno, rustix::io::Errno::INTR);
            return;
        }
        for event in &events {
            match event.data.u64() {
                BELL => self.read_mail(),
                id => self.wake(id),
            }
        }
        if events.is_empty() && patience.is_some_and(|patience| patience.tv_nsec > 0) {
            let blocked: Vec<u64> = self.places.iter().filter(|(_, place)| place.seat.is_blocked()).map(|(id, _)| *id).collect();
            blocked.into_iter().for_each(|id| self.wake(id));
        }
    }

    fn read_mail(&mut self) {
        for letter in self.post.take() {
            match letter {
                Mail::Serve(link) => {
                    self.seat(Seat::Client(Box::new(Session::new(link, self.extents.clone()))));
                }
                Mail::Dialed { address, link } => self.dialed(&address, link),
                Mail::Wired { node, link } => self.wired(node, link),
                Mail::Identity { node, epoch } => self.pages.set_identity(node, epoch),
                Mail::NodeLost(node) => self.pages.on_node_lost(node),
                Mail::Wish { client, wish } => self.pages.on_wish(client, wish),
                Mail::ClientGone(client) => self.pages.on_client_gone(client),
                Mail::RankGone { job, rank, ranks, reason } => {
                    let answers = self.barriers.on_rank_gone(job, rank, ranks, &reason);
                    self.answer_arrivals(answers);
                }
                Mail::Stop => {
                    self.pages.stop();
                    self.stop_at.get_or_insert(Instant::now() + STOP_MAX);
                }
            }
        }
    }

    /// There is a connection for letters about pages, or there could not be.
    fn wired(&mut self, node: Option<NodeId>, link: Result<Box<dyn Link>>) {
        let place = match link {
            Ok(link) => self.seat(Seat::Wire(Box::new(ControlLink::new(link)))),
            Err(error) => {
                tracing::debug!("{node:?} was not reached about pages: {error}");
                None
            }
        };
        if let Some(node) = node {
            self.pages.dialed(node, place);
        }
    }

    /// Another node was reached, or not: those who wait for it go on.
    fn dialed(&mut self, address: &str, link: Result<Box<dyn Link>>) {
        let waiting = self.peers.dialed(address);
        let Some(node) = waiting.first().map(|(_, fetch)| fetch.node) else { return };
        let outcome = link.and_then(|link| {
            let peer = super::fetches::Peer::new(link, address.to_owned(), node);
            self.seat(Seat::Peer(Box::new(peer))).ok_or_else(|| system("watch a link", rustix::io::Errno::NOSPC))
        });
        match outcome {
            Ok(id) => {
                self.peers.enter(address, id);
                waiting.into_iter().for_each(|(session, fetch)| self.ask_peer(id, session, fetch));
            }
            Err(error) => {
                // Nobody listens where the node was: to those who wait that is a lost node.
                let error = match error {
                    Error::NoNode { reason, .. } => Error::NodeLost { node, reason },
                    other => other,
                };
                let failed = |(session, _): (u64, Fetch)| Ended { session, outcome: Err(error.clone()) };
                self.deliver(waiting.into_iter().map(failed).collect());
            }
        }
    }

    fn seat(&mut self, seat: Seat) -> Option<u64> {
        let id = self.next_id;
        self.next_id += 1;
        let interest = EventFlags::IN;
        match epoll::add(&self.epoll, seat.event(), EventData::new_u64(id), interest) {
            Ok(()) => {
                self.places.insert(id, Place { seat, interest, is_awake: false });
                // It may have sent something before it was watched.
                self.wake(id);
                Some(id)
            }
            Err(errno) => {
                tracing::warn!("a link could not be watched and was closed: {errno}");
                None
            }
        }
    }

    /// Sends to sleep every awake link that lets itself be.
    fn doze_all(&mut self) {
        let awake = std::mem::take(&mut self.awake);
        for id in awake {
            let Some(place) = self.places.get_mut(&id) else { continue };
            // One that is held up is moved by others alone; what it sent meanwhile waits.
            let held_up = place.seat.is_held_up();
            if !place.seat.doze() && !held_up {
                self.awake.push(id);
                continue;
            }
            place.is_awake = false;
            let interest = match place.seat.needs_write_event() {
                true if held_up => EventFlags::OUT,
                true => EventFlags::IN | EventFlags::OUT,
                // Its end is found by the next sign of life at the latest.
                false if place.seat.waits_for_fetch() => EventFlags::empty(),
                false => EventFlags::IN,
            };
            if interest != place.interest {
                let watched = epoll::modify(&self.epoll, place.seat.event(), EventData::new_u64(id), interest);
                debug_assert!(watched.is_ok(), "it is watched since `seat`");
                place.interest = interest;
            }
        }
    }
}

fn timespec(time: Duration) -> Timespec {
    Timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos()) }
}

fn system(what: &str, errno: rustix::io::Errno) -> Error {
    Error::System { what: what.to_owned(), reason: errno.to_string() }
}
