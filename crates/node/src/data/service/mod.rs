//! The thread that serves data links: moves those that are awake, parks when all have been quiet for a while.
//!
//! A link is *awake* from its first sign of activity until a spin's length without any; the others announced that they
//! doze, and wake the thread through epoll. Where several links are awake whose turns are system calls, those of which events tell all *rest*:
//! one call looks for all of them, each round.
//!
//! | module | holds |
//! |---|---|
//! | `answers` | what turns of links bring, and the answers to those who wait |
//! | `links` | connections of writers that readers of queues get |
//! | `looks` | what a program is told that looks at the node |
//! | `peers` | bytes of other nodes |
//! | `copies` | extents with copies on other nodes |
//! | `connections` | links that come, are watched, doze and end |
//! | `turns` | turns of links, also on several threads at once |

mod answers;
mod connections;
mod copies;
mod links;
mod looks;
mod peers;
mod turns;

use super::connection::{Connection, Did};
use super::fetches::NodeFetch;
use super::peers::{DialTerms, Peers};
use super::replies::NodeResponse;
use super::session::Session;
use crate::control_link::ControlLink;
use crate::extents::Extents;
use crate::notice_queue::NoticeQueue;
use crate::notices::{ToControl, ToService};
use crate::pages::{HomeInput, NodeHome, NodePages, SealedReply};
use crate::user_times::UserTimes;
use hanare_fabric::agree::Choice;
use hanare_fabric::tcp::Keys;
use hanare_fabric::{Link, LinkError};
use hanare_home::{
    CopyInput, EndedFetch, EndedLinks, Input, LockTerms, Need, Output, PageInput, PageOutput, PageTerms, Pages, Recall, Response,
    Rounds, SyncOutput, Waiter,
};
use hanare_protocol::error::Happened;
use hanare_protocol::id::{ClientId, NodeId, User};
use hanare_protocol::page::Face;
use hanare_protocol::page::membership::Over;
use hanare_protocol::session::{Series, Sessions};
use hanare_protocol::wire::exchange::{Query, Question, Reply};
use hanare_protocol::wire::greeting::Role;
use hanare_protocol::{Error, Result};
use hanare_ring::wait::{Backoff, Step};
use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};
use std::collections::{BTreeMap, HashMap};
use std::num::NonZero;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use turns::TurnThreads;

/// The service's surroundings.
pub(crate) struct ServiceTerms {
    pub extents: Arc<Extents>,
    /// Proved to other nodes.
    pub keys: Keys,
    /// Time to wait for them.
    pub bound: Duration,
    pub fabric: Choice,
    pub locks: LockTerms,
    pub pages: PageTerms,
    /// Bytes a second to copies that are made; `None` for no bound.
    pub copy_rate: Option<NonZero<u64>>,
    /// Threads that move bytes of links.
    pub threads: NonZero<usize>,
}

/// The service, as the rest of the node sees it.
pub(crate) struct Service {
    notices: Arc<NoticeQueue<ToService>>,
    thread: Option<JoinHandle<()>>,
}

impl Service {
    /// Starts the thread. What clients asked about shared regions it answers by notices to `control`.
    pub fn start(terms: ServiceTerms, control: Arc<NoticeQueue<ToControl>>) -> Result<Service> {
        let notices = Arc::new(NoticeQueue::new()?);
        let ServiceTerms { extents, keys, bound, fabric, locks, pages, copy_rate, threads } = terms;
        let pages = Pages::new(pages, NodePages::new(extents.clone()));
        let mut home = NodeHome::new(locks, u64::from_le_bytes(hanare_memory::random::bytes()?), pages);
        home.set_copy_rate(copy_rate);
        let dial = DialTerms { keys, bound, fabric, notices: notices.clone() };
        let mut service = ServiceLoop::new(extents, notices.clone(), dial, home, control)?;
        let thread = std::thread::Builder::new()
            .name("hanare-service".to_owned())
            .spawn(move || {
                hanare_memory::vital::is_vital();
                hanare_memory::prompt::shorten_turns(0);
                service.threads = TurnThreads::start(threads);
                service.run();
            })
            .map_err(|error| Error::System { what: "start a thread".to_owned(), reason: error.to_string() })?;
        Ok(Service { notices, thread: Some(thread) })
    }

    /// Hands over mail and wakes the thread.
    pub fn notify(&self, notice: ToService) {
        self.notices.send(notice);
    }
}

impl Service {
    /// Ends the thread, when pages of other nodes are at their homes; and where the node `keeps` its bytes, its own are here.
    pub fn end(&mut self, keeps: bool) {
        self.notify(ToService::Stop { keeps });
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.end(false);
    }
}

/// Epoll's name for the bell; links count up from zero.
const BELL: u64 = u64::MAX;

/// Rounds of the awake before the dozing are looked at, where the rounds are short.
const ROUNDS_PER_LOOK: u32 = 32;

/// Time between looks at dozing links: a look costs a system call.
const LOOK_PAUSE: Duration = Duration::from_micros(100);

/// Added to that for each link: a look sees all links with something to read, the awake too.
const LOOK_PAUSE_PER_LINK: Duration = Duration::from_nanos(200);

/// Awake links whose turns are system calls, from which on they rest.
const REST_FROM: usize = 3;

/// Links with which none rest: a look sees all that have something.
const REST_UP_TO: usize = 64;

/// For a look that waits for nothing.
const AT_ONCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// Time a client may leave a reply in shared memory before another look at it: it cannot always ring.
const BLOCKED_LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };

/// Time the thread checks and yields while regions are shared: an access may wait for three nodes in a row, and each that has parked
/// costs it a wake.
const SHARING_SPIN: Duration = Duration::from_micros(200);

/// Time that a node that ends in good order waits for pages of other nodes to be taken home.
const STOP_MAX: Duration = Duration::from_secs(2);

/// Time between looks at long work: signs of life for clients, and deadlines of other nodes.
const LOOK_AFTER: Duration = Duration::from_secs(1);

/// The thread's own state.
struct ServiceLoop {
    extents: Arc<Extents>,
    notices: Arc<NoticeQueue<ToService>>,
    epoll: OwnedFd,
    places: HashMap<u64, SeatedLink>,
    /// Links of each user.
    users: BTreeMap<u32, usize>,
    /// Sessions whose commands are carried out.
    sessions: Sessions,
    begun: Instant,
    /// Time since then, read once a turn of a link and after each look.
    now: Duration,
    next_id: u64,
    awake: Rounds,
    threads: TurnThreads,
    /// True if links rest.
    rests: bool,
    /// When the dozing were looked at last.
    glanced: Instant,
    home: NodeHome,
    look_times: UserTimes,
    peers: Peers,
    ended_links: EndedLinks,
    /// Number of this node in its pool.
    me: NodeId,
    /// True at the pool's home, where another node is to be home when this one's lease is over.
    is_leased_home: bool,
    /// True where another node is the pool's home, and this one may become it.
    refuses_names: bool,
    link_sockets: links::LinkSockets,
    control: Arc<NoticeQueue<ToControl>>,
    /// When work that takes long was looked at last.
    looked: Instant,
    /// When the thread ends, whether or not pages of other nodes are all back at their homes.
    stop_at: Option<Instant>,
}

struct SeatedLink {
    seat: Connection,
    /// The link's user; a link to another node has none.
    user: Option<u32>,
    interest: EventFlags,
    is_awake: bool,
}

impl ServiceLoop {
    fn new(
        extents: Arc<Extents>,
        notices: Arc<NoticeQueue<ToService>>,
        dial: DialTerms,
        home: NodeHome,
        control: Arc<NoticeQueue<ToControl>>,
    ) -> Result<ServiceLoop> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|errno| system("make an epoll", errno))?;
        epoll::add(&epoll, notices.bell(), EventData::new_u64(BELL), EventFlags::IN)
            .map_err(|errno| system("watch the bell", errno))?;
        Ok(ServiceLoop {
            extents,
            notices,
            epoll,
            places: HashMap::new(),
            users: BTreeMap::new(),
            sessions: Sessions::default(),
            begun: Instant::now(),
            now: Duration::ZERO,
            next_id: 0,
            awake: Rounds::default(),
            threads: TurnThreads::default(),
            rests: false,
            glanced: Instant::now(),
            home,
            look_times: UserTimes::new(looks::LOOK_SHARE),
            peers: Peers::new(dial),
            ended_links: EndedLinks::default(),
            me: NodeId(0),
            is_leased_home: false,
            refuses_names: false,
            link_sockets: links::LinkSockets::default(),
            control,
            looked: Instant::now(),
            stop_at: None,
        })
    }

    fn run(&mut self) {
        let mut backoff = Backoff::new();
        let mut rounds = 0u32;
        let mut shares = false;
        // Room for what a look brings.
        let mut events = Vec::new();
        while !self.is_over() {
            if shares != self.home.pages().is_sharing() {
                shares = !shares;
                backoff = if shares { Backoff::with_budget(SHARING_SPIN) } else { Backoff::new() };
            }
            self.serve_home();
            if self.awake.is_empty() && !self.rests && !self.home.pages().is_busy() {
                let patience = self.patience();
                self.look_around(&mut events, patience.as_ref());
                backoff.reset();
                continue;
            }
            rounds = rounds.wrapping_add(1);
            if rounds.is_multiple_of(ROUNDS_PER_LOOK) || self.is_look_due() {
                self.look_around(&mut events, Some(&AT_ONCE));
            } else if self.rests {
                self.look(&mut events, Some(&AT_ONCE));
            }
            if self.move_awake() | self.home.turn(self.now) {
                backoff.reset();
            } else if backoff.step_after(self.checks_by_call()) == Step::Park && self.awake.is_quiet() {
                self.rests = false;
                self.doze_all();
                if self.home.pages().is_busy() {
                    // A page is mapped by a thread that does not run: it cannot say when it has left.
                    self.look(&mut events, Some(&BLOCKED_LOOK));
                }
            }
        }
    }

    /// True if the node was told to end, and has no pages or requests of others any more, or no time.
    fn is_over(&self) -> bool {
        self.stop_at.is_some_and(|stop_at| self.home.pages().is_left() || Instant::now() >= stop_at)
    }

    /// Without end, unless a client holds an answer up, waits for bytes of another node, or has a bound or a word to be looked at.
    fn patience(&mut self) -> Option<Timespec> {
        self.read_clock();
        let mut patience = self.home.deadline().map(|due| timespec(due.saturating_sub(self.now)));
        for place in self.places.values() {
            if place.seat.is_blocked() && !place.seat.needs_write_event() {
                return patience.min(Some(BLOCKED_LOOK)).or(Some(BLOCKED_LOOK));
            }
            if place.seat.waits() {
                let soon = Some(timespec(self.look_after_pause()));
                patience = patience.min(soon).or(soon);
            }
        }
        patience
    }

    /// Clients are told of life before they give up.
    fn look_after_pause(&self) -> Duration {
        LOOK_AFTER.min(self.peers.bound() / 4)
    }

    /// Once in a while: clients that wait for bytes of other nodes hear that it goes on, and silent nodes are given up.
    fn look_after(&mut self) {
        if self.looked.elapsed() < self.look_after_pause() {
            return;
        }
        self.looked = Instant::now();
        let waiting: Vec<u64> = self.places.iter().filter(|(_, place)| place.seat.waits()).map(|(id, _)| *id).collect();
        for id in waiting {
            let Some(place) = self.places.get_mut(&id) else { continue };
            match place.seat.look_after(self.now, self.peers.bound()) {
                Ok(()) => {}
                Err(error) => self.end(id, &error),
            }
        }
    }

    /// True if a look at the awake links was a system call.
    fn checks_by_call(&self) -> bool {
        self.rests || self.checked_by_call().next().is_some()
    }

    /// The awake links whose turns are system calls.
    fn checked_by_call(&self) -> impl Iterator<Item = u64> {
        self.awake.iter().filter(|id| self.places.get(id).is_some_and(|place| place.seat.checks_by_call()))
    }

    /// True if dozing links wait for a look: many awake ones make long rounds.
    fn is_look_due(&self) -> bool {
        self.glanced.elapsed() >= LOOK_PAUSE + LOOK_PAUSE_PER_LINK * self.places.len() as u32
    }

    /// Takes events, waiting for one as long as `patience` says, and does what is done once in a while.
    fn look_around(&mut self, events: &mut Vec<epoll::Event>, patience: Option<&Timespec>) {
        self.look(events, patience);
        self.glanced = Instant::now();
        self.read_clock();
        self.look_after();
    }

    /// Takes events, waiting for one as long as `patience` says.
    fn look(&mut self, events: &mut Vec<epoll::Event>, patience: Option<&Timespec>) {
        events.clear();
        // All at once: whoever is gone goes before anybody is served, because what it sent lies beside what its successor sends.
        events.reserve(2 * self.places.len() + 1);
        let looked = epoll::wait(&self.epoll, spare_capacity(events), patience);
        if let Err(errno) = looked {
            debug_assert_eq!(errno, rustix::io::Errno::INTR);
        } else {
            self.take_events(events, patience);
        }
    }

    fn take_events(&mut self, events: &[epoll::Event], patience: Option<&Timespec>) {
        self.read_clock();
        self.sessions.on_waited(self.now.as_millis() as u64);
        let gone = EventFlags::HUP | EventFlags::RDHUP | EventFlags::ERR;
        events.iter().filter(|event| { event.flags }.intersects(gone)).for_each(|event| self.close_client(event.data.u64()));
        for event in events {
            match event.data.u64() {
                BELL => self.read_mail(),
                id => self.wake(id),
            }
        }
        if !events.is_empty() {
            // A client may have changed words of mapped memory, and woken this thread for nothing else.
            self.tell_home(Input::Changed);
        }
        if events.is_empty() && patience.is_some_and(|patience| patience.tv_nsec > 0) {
            let blocked: Vec<u64> = self.places.iter().filter(|(_, place)| place.seat.is_blocked()).map(|(id, _)| *id).collect();
            blocked.into_iter().for_each(|id| self.wake(id));
        }
    }

    fn read_clock(&mut self) {
        self.now = self.begun.elapsed();
        self.check_home_lease();
    }

    /// The node is the pool's home of names from here on, or not any more.
    fn set_pool_home(&mut self, is_home: bool) {
        (self.is_leased_home, self.refuses_names) = (is_home, !is_home);
        self.tell_home(Input::PoolHome(self.me, is_home));
    }

    /// The pool's home is it by a lease alone, where another node may become it. A thread that stood still is none any more.
    fn check_home_lease(&mut self) {
        if self.is_leased_home && !self.extents.has_lease() {
            self.set_pool_home(false);
            self.control.send(ToControl::NamesLapsed);
        }
    }

    /// The home hears of an event; what comes of it leaves by [`ServiceLoop::serve_home`].
    fn tell_home<'a>(&mut self, input: impl Into<HomeInput<'a>>) {
        self.home.handle(self.now, input.into(), &*self.extents);
    }

    fn read_mail(&mut self) {
        for notice in self.notices.take() {
            match notice {
                ToService::Serve { link, series, client, user } => self.serve(link, series, (client, user)),
                ToService::Dialed { address, link } => self.dialed(&address, link),
                ToService::Wired { role, node, is_ours, link, spoken } => self.wired(role, (node, is_ours), link, spoken),
                ToService::Copied { extent, set, order, slot } => self.tell_home(CopyInput::Made { extent, set, order, slot }),
                ToService::CopiesEnd { extent } => self.tell_home(CopyInput::Ended { extent }),
                ToService::Holder { extent, nodes, message } => self.tell_home(CopyInput::Holder { extent, nodes, message }),
                ToService::LinkSocket { client, door, socket } => self.open_door(client, door, socket),
                ToService::HandOver(greeted) => self.hand_over(*greeted),
                ToService::Identity { node, epoch } => {
                    self.me = node;
                    self.tell_home(PageInput::Identity { node, epoch });
                    if self.refuses_names {
                        self.set_pool_home(false);
                    }
                }
                ToService::NodeLost(node, epoch) => {
                    self.tell_home(PageInput::NodeLost { node, over: Over::UpTo(epoch) });
                }
                ToService::Freed => self.tell_home(Input::Freed),
                ToService::Request { client, request } => self.tell_home(PageInput::Request { client, request }),
                ToService::ClientGone(client) => {
                    self.link_sockets.close(client);
                    self.tell_home(PageInput::ClientGone(client));
                }
                ToService::RankGone { job, rank, ranks, reason, died } => {
                    self.tell_home(Input::RankGone { job, rank, ranks, reason, died });
                }
                ToService::Recalled { client, number, recalled } => {
                    self.tell_home(Input::LeaseAnswer { client, number, recalled });
                }
                ToService::PoolHome(is_home) => self.set_pool_home(is_home),
                ToService::Member(is_member) => self.tell_home(Input::Member(is_member)),
                ToService::Stop { keeps } => {
                    self.tell_home(PageInput::Stop { keeps });
                    self.stop_at.get_or_insert(Instant::now() + STOP_MAX);
                }
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
