//! The thread that serves data links: moves those that are awake, parks when all have been quiet for a while.
//!
//! A link is *awake* from its first sign of activity until a spin's length without any; the others announced that they
//! doze, and wake the thread through epoll.

use super::barriers::{Answered, Barriers, Waiter};
use super::session::Session;
use crate::node::extents::Extents;
use crate::node::post::Post;
use hanare_fabric::Link;
use hanare_protocol::id::{JobId, Rank};
use hanare_protocol::{Error, Result};
use hanare_ring::wait::{Backoff, Step};
use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::JoinHandle;

/// What other threads tell the service.
pub(crate) enum Mail {
    /// Serve this link.
    Serve(Box<dyn Link>),
    /// A rank of a job is gone: barriers of the job fail.
    RankGone { job: JobId, rank: Rank, ranks: Option<u32>, reason: String },
    /// End.
    Stop,
}

/// The service, as the rest of the node sees it.
pub(crate) struct Service {
    post: Arc<Post<Mail>>,
    thread: Option<JoinHandle<()>>,
}

impl Service {
    pub fn start(extents: Arc<Extents>) -> Result<Service> {
        let post = Arc::new(Post::new()?);
        let mut desk = Desk::new(extents, post.clone())?;
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

impl Drop for Service {
    fn drop(&mut self) {
        self.post(Mail::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Epoll's name for the bell; sessions count up from zero.
const BELL: u64 = u64::MAX;

/// Rounds of the awake before the dozing are looked at.
const ROUNDS_PER_LOOK: u32 = 32;

/// How long a client may sit on an answer over shared memory before it is looked at again: it cannot always ring.
const BLOCKED_LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };

/// The thread's own state.
struct Desk {
    extents: Arc<Extents>,
    post: Arc<Post<Mail>>,
    epoll: OwnedFd,
    sessions: HashMap<u64, Place>,
    next_id: u64,
    awake: Vec<u64>,
    barriers: Barriers,
    stopping: bool,
}

struct Place {
    session: Session,
    interest: EventFlags,
    is_awake: bool,
}

impl Desk {
    fn new(extents: Arc<Extents>, post: Arc<Post<Mail>>) -> Result<Desk> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|errno| system("make an epoll", errno))?;
        epoll::add(&epoll, post.bell(), EventData::new_u64(BELL), EventFlags::IN)
            .map_err(|errno| system("watch the bell", errno))?;
        let sessions = HashMap::new();
        Ok(Desk { extents, post, epoll, sessions, next_id: 0, awake: Vec::new(), barriers: Barriers::default(), stopping: false })
    }

    fn run(&mut self) {
        let mut backoff = Backoff::new();
        let mut rounds = 0u32;
        while !self.stopping {
            if self.awake.is_empty() {
                self.look(self.patience().as_ref());
                backoff.reset();
                continue;
            }
            rounds = rounds.wrapping_add(1);
            if rounds.is_multiple_of(ROUNDS_PER_LOOK) {
                self.look(Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
            }
            if self.move_awake() {
                backoff.reset();
            } else if backoff.step() == Step::Park {
                self.doze_all();
            }
        }
    }

    /// Without end, unless a client holds an answer up.
    fn patience(&self) -> Option<Timespec> {
        let is_blocked = |place: &Place| place.session.is_blocked() && !place.session.needs_write_event();
        self.sessions.values().any(is_blocked).then_some(BLOCKED_LOOK)
    }

    /// One turn for every awake session. Returns whether anything moved.
    fn move_awake(&mut self) -> bool {
        let mut moved = false;
        let mut index = 0;
        while let Some(id) = self.awake.get(index).copied() {
            index += 1;
            let Some(place) = self.sessions.get_mut(&id) else { continue };
            match place.session.turn() {
                Ok(turn) => {
                    moved |= turn.moved;
                    for (seq, arrival) in turn.arrivals {
                        let answers = self.barriers.on_arrival(arrival, Waiter { session: id, seq });
                        self.answer(answers);
                    }
                }
                Err(ending) => {
                    tracing::debug!("a data link ended: {ending}");
                    self.close(id);
                }
            }
        }
        let sessions = &self.sessions;
        self.awake.retain(|id| sessions.contains_key(id));
        moved
    }

    fn answer(&mut self, answers: Vec<Answered>) {
        for (waiter, outcome) in answers {
            let Some(place) = self.sessions.get_mut(&waiter.session) else { continue };
            if place.session.answer_arrival(waiter.seq, outcome).is_err() {
                self.close(waiter.session);
            } else {
                self.wake(waiter.session);
            }
        }
    }

    fn close(&mut self, id: u64) {
        if let Some(place) = self.sessions.remove(&id) {
            let _ = epoll::delete(&self.epoll, place.session.event());
        }
        self.barriers.forget(id);
    }

    fn wake(&mut self, id: u64) {
        if let Some(place) = self.sessions.get_mut(&id)
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
            let blocked: Vec<u64> =
                self.sessions.iter().filter(|(_, place)| place.session.is_blocked()).map(|(id, _)| *id).collect();
            blocked.into_iter().for_each(|id| self.wake(id));
        }
    }

    fn read_mail(&mut self) {
        for letter in self.post.take() {
            match letter {
                Mail::Serve(link) => self.serve(link),
                Mail::RankGone { job, rank, ranks, reason } => {
                    let answers = self.barriers.on_rank_gone(job, rank, ranks, &reason);
                    self.answer(answers);
                }
                Mail::Stop => self.stopping = true,
            }
        }
    }

    fn serve(&mut self, link: Box<dyn Link>) {
        let session = Session::new(link, self.extents.clone());
        let id = self.next_id;
        self.next_id += 1;
        let interest = EventFlags::IN;
        match epoll::add(&self.epoll, session.event(), EventData::new_u64(id), interest) {
            Ok(()) => {
                self.sessions.insert(id, Place { session, interest, is_awake: false });
                // It may have sent something before it was watched.
                self.wake(id);
            }
            Err(errno) => tracing::warn!("a link could not be watched and was closed: {errno}"),
        }
    }

    /// Sends to sleep every awake session that lets itself be.
    fn doze_all(&mut self) {
        let awake = std::mem::take(&mut self.awake);
        for id in awake {
            let Some(place) = self.sessions.get_mut(&id) else { continue };
            // A blocked one is moved by its client's reading alone; what it sent meanwhile waits. It dozes to be told of room.
            let blocked = place.session.is_blocked();
            if !place.session.doze() && !blocked {
                self.awake.push(id);
                continue;
            }
            place.is_awake = false;
            let interest = match place.session.needs_write_event() {
                true if blocked => EventFlags::OUT,
                true => EventFlags::IN | EventFlags::OUT,
                false => EventFlags::IN,
            };
            if interest != place.interest {
                let watched = epoll::modify(&self.epoll, place.session.event(), EventData::new_u64(id), interest);
                debug_assert!(watched.is_ok(), "it is watched since `serve`");
                place.interest = interest;
            }
        }
    }
}

fn system(what: &str, errno: rustix::io::Errno) -> Error {
    Error::System { what: what.to_owned(), reason: errno.to_string() }
}
