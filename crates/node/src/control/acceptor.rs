//! TCP connections from elsewhere: greeted by one thread that waits for none of them, then handed on.
//!
//! Unauthenticated peers cost a descriptor each, so there are few places for them. A peer whose address has no place left takes that of
//! the longest silent one of that address, who has had its time. Else the listener rests until a place is free.

use crate::notice_queue::NoticeQueue;
use crate::notices::ToControl;
use hanare_fabric::tcp::{Greeted, Incoming, Keys, Listener, Step};
use hanare_fabric::{Link, agree};
use hanare_protocol::id::{ClientId, NodeId};
use hanare_protocol::limits::{AGREEING_COUNT_MAX, GREETING_COUNT_MAX, GREETING_MS, HOST_GREETING_COUNT_MAX, PROVING_MS};
use hanare_protocol::session::Series;
use hanare_protocol::wire::greeting::{Hello, Role};
use hanare_protocol::{Error, Result};
use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// On what terms strangers are let in.
#[derive(Clone)]
pub(crate) struct GreetingTerms {
    /// Keys that they must prove.
    pub keys: Keys,
    /// Address for nodes to go to instead, if this node is no coordinator.
    pub join: Option<String>,
    /// Time to agree on a fabric.
    pub bound: Duration,
    /// The choice of a fabric for commands.
    pub fabric: agree::Choice,
}

/// The thread that greets; it ends when this is dropped.
pub(crate) struct Acceptor {
    stop: Arc<NoticeQueue<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Acceptor {
    /// Greets who connects there, and hands notices about them to `notices`.
    pub fn start(listener: Listener, terms: GreetingTerms, notices: Arc<NoticeQueue<ToControl>>) -> Result<Acceptor> {
        let stop = Arc::new(NoticeQueue::new()?);
        let mut acceptor = AcceptorLoop::new(listener, terms, notices, &stop)?;
        let thread = std::thread::Builder::new()
            .name("hanare-acceptor".to_owned())
            .spawn(move || acceptor.run())
            .map_err(|error| Error::System { what: "start a thread".to_owned(), reason: error.to_string() })?;
        Ok(Acceptor { stop, thread: Some(thread) })
    }
}

impl Drop for Acceptor {
    fn drop(&mut self) {
        self.stop.send(());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Epoll's names; strangers count up from zero.
const LISTENER: u64 = u64::MAX;
const STOP: u64 = u64::MAX - 1;

/// Time that an unauthenticated peer keeps its place when others of its address want one: before its hello, and before its proof.
const SILENT_MIN: Duration = Duration::from_millis(20);
const UNPROVED_MIN: Duration = Duration::from_millis(100);

/// Time between looks for places while the listener rests.
const REST: Duration = Duration::from_millis(5);

/// At most one line about refused strangers in so long.
const COMPLAINT_TIME: Duration = Duration::from_secs(1);

struct AcceptorLoop {
    listener: Listener,
    terms: GreetingTerms,
    notices: Arc<NoticeQueue<ToControl>>,
    epoll: OwnedFd,
    /// The oldest first.
    greetings: BTreeMap<u64, Greeting>,
    next_id: u64,
    /// An accepted peer without a place: the listener rests.
    parked: Option<Incoming>,
    is_listening: bool,
    agreeing: Arc<AtomicUsize>,
    complained: Option<Instant>,
    unsaid: u64,
}

struct Greeting {
    incoming: Incoming,
    host: IpAddr,
    /// When it came, or said hello.
    since: Instant,
}

impl Greeting {
    fn patience(&self) -> Duration {
        Duration::from_millis(if self.incoming.has_said_hello() { PROVING_MS } else { GREETING_MS })
    }

    /// True if it makes way for another; the silent first.
    fn makes_way(&self, after_hello: bool) -> bool {
        let least = if after_hello { UNPROVED_MIN } else { SILENT_MIN };
        self.incoming.has_said_hello() == after_hello && self.since.elapsed() >= least
    }
}

impl AcceptorLoop {
    fn new(
        listener: Listener,
        terms: GreetingTerms,
        notices: Arc<NoticeQueue<ToControl>>,
        stop: &NoticeQueue<()>,
    ) -> Result<AcceptorLoop> {
        let system =
            |errno: rustix::io::Errno| Error::System { what: "watch for strangers".to_owned(), reason: errno.to_string() };
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(system)?;
        epoll::add(&epoll, stop.bell(), EventData::new_u64(STOP), EventFlags::IN).map_err(system)?;
        epoll::add(&epoll, listener.event(), EventData::new_u64(LISTENER), EventFlags::IN).map_err(system)?;
        Ok(AcceptorLoop {
            listener,
            terms,
            notices,
            epoll,
            greetings: BTreeMap::new(),
            next_id: 0,
            parked: None,
            is_listening: true,
            agreeing: Arc::default(),
            complained: None,
            unsaid: 0,
        })
    }

    fn run(&mut self) {
        loop {
            let mut events: Vec<epoll::Event> = Vec::with_capacity(64);
            let _ = epoll::wait(&self.epoll, spare_capacity(&mut events), self.patience().as_ref());
            let mut is_resting = false;
            for event in &events {
                match event.data.u64() {
                    STOP => return,
                    LISTENER => {}
                    id => self.go_on(id),
                }
            }
            self.give_up_the_late();
            if let Err(error) = self.take_in() {
                self.complain(&error.to_string());
                is_resting = true;
            }
            self.listen(self.parked.is_none() && !is_resting);
        }
    }

    fn patience(&self) -> Option<Timespec> {
        let patience = if self.is_listening {
            let due =
                self.greetings.values().map(|greeting| greeting.patience().saturating_sub(greeting.since.elapsed())).min()?;
            due + Duration::from_millis(1)
        } else {
            REST
        };
        Some(Timespec { tv_sec: patience.as_secs() as i64, tv_nsec: patience.subsec_nanos().into() })
    }

    /// A listener that is not watched costs nothing, however many wait there.
    fn listen(&mut self, is_listening: bool) {
        if is_listening != self.is_listening {
            let flags = if is_listening { EventFlags::IN } else { EventFlags::empty() };
            if epoll::modify(&self.epoll, self.listener.event(), EventData::new_u64(LISTENER), flags).is_ok() {
                self.is_listening = is_listening;
            }
        }
    }

    /// Takes in who waits, as far as there are places.
    fn take_in(&mut self) -> Result<()> {
        loop {
            let incoming = match self.parked.take() {
                Some(incoming) => incoming,
                None => match self.listener.accept()? {
                    Some(incoming) => incoming,
                    None => return Ok(()),
                },
            };
            if !self.makes_room(incoming.host()) {
                self.parked = Some(incoming);
                return Ok(());
            }
            let id = self.next_id;
            self.next_id += 1;
            if let Err(errno) = epoll::add(&self.epoll, incoming.event(), EventData::new_u64(id), EventFlags::IN) {
                return Err(Error::System { what: "watch a stranger".to_owned(), reason: errno.to_string() });
            }
            let host = incoming.host();
            self.greetings.insert(id, Greeting { incoming, host, since: Instant::now() });
            self.go_on(id);
        }
    }

    /// True if there is a place for one more of that address, perhaps because another has lost its own.
    fn makes_room(&mut self, host: IpAddr) -> bool {
        let is_own_full = self.greetings.values().filter(|greeting| greeting.host == host).count() >= HOST_GREETING_COUNT_MAX;
        if !is_own_full && self.greetings.len() < GREETING_COUNT_MAX {
            return true;
        }
        let who = |after_hello| {
            let mut all = self.greetings.iter().filter(|(_, greeting)| !is_own_full || greeting.host == host);
            all.find(|(_, greeting)| greeting.makes_way(after_hello)).map(|(id, _)| *id)
        };
        let Some(id) = who(false).or_else(|| who(true)) else { return false };
        if let Some(gone) = self.greetings.remove(&id) {
            self.complain(&format!("{} said nothing while others waited", gone.incoming.peer()));
        }
        true
    }

    /// A stranger has said more, or has gone.
    fn go_on(&mut self, id: u64) {
        let Some(Greeting { incoming, host, since }) = self.greetings.remove(&id) else { return };
        let (peer, had_said) = (incoming.peer().to_owned(), incoming.has_said_hello());
        let join = self.terms.join.clone();
        match incoming.step(&self.terms.keys, &|hello| admit(join.as_deref(), hello)) {
            Ok(Step::Waits(incoming)) => {
                let since = if incoming.has_said_hello() == had_said { since } else { Instant::now() };
                self.greetings.insert(id, Greeting { incoming, host, since });
            }
            Ok(Step::Greeted(greeted)) => {
                let _ = epoll::delete(&self.epoll, greeted.link.event());
                self.hand_on(greeted);
            }
            Err(error) => self.complain(&format!("a connection from {peer} was refused: {error}")),
        }
    }

    fn give_up_the_late(&mut self) {
        let late: Vec<u64> =
            self.greetings.iter().filter(|(_, it)| it.since.elapsed() >= it.patience()).map(|(id, _)| *id).collect();
        for id in late {
            if let Some(gone) = self.greetings.remove(&id) {
                self.complain(&format!("a connection from {} was closed: no greeting in time", gone.incoming.peer()));
            }
        }
    }

    /// Hands on a peer that has proved its role.
    fn hand_on(&mut self, greeted: Greeted) {
        match greeted.hello.role {
            Role::Control => self.notices.send(ToControl::Greeted(greeted)),
            Role::Keeper => self.notices.send(ToControl::KeeperCame(greeted)),
            role @ (Role::Pages | Role::Copies) => {
                let node = NodeId(u32::try_from(greeted.hello.from).unwrap_or(u32::MAX));
                self.notices.send(ToControl::Wired(role, node, Box::new(greeted.link)));
            }
            Role::Link => self.notices.send(ToControl::HandOver(Box::new(greeted))),
            Role::Data => self.agree(greeted),
        }
    }

    /// Agreeing on a fabric may wait for the other side, so it has a thread.
    fn agree(&mut self, greeted: Greeted) {
        if self.agreeing.fetch_add(1, Ordering::Relaxed) >= AGREEING_COUNT_MAX {
            self.agreeing.fetch_sub(1, Ordering::Relaxed);
            return self.complain("a connection was closed: too many agree on a fabric at once");
        }
        let (notices, agreeing, fabric, bound) =
            (self.notices.clone(), self.agreeing.clone(), self.terms.fabric, self.terms.bound);
        let (client, user) = (ClientId(greeted.hello.client), greeted.hello.asks_for());
        let series = (greeted.hello.from > 0).then_some(Series(greeted.hello.from));
        let agree = move || {
            match agree::agree(greeted, fabric, Instant::now() + bound) {
                Ok(agreed) => notices.send(ToControl::Linked { link: agreed.link, series, client, user }),
                Err(error) => tracing::warn!("a connection was refused: {error}"),
            }
            agreeing.fetch_sub(1, Ordering::Relaxed);
        };
        if let Err(error) = std::thread::Builder::new().name("hanare-greeting".to_owned()).spawn(agree) {
            self.agreeing.fetch_sub(1, Ordering::Relaxed);
            self.complain(&format!("a connection was closed, for no thread could be started: {error}"));
        }
    }

    /// Says so, unless something like it was said a moment ago: strangers do not fill the log.
    fn complain(&mut self, what: &str) {
        if self.complained.is_some_and(|last| last.elapsed() < COMPLAINT_TIME) {
            self.unsaid += 1;
            return;
        }
        match std::mem::take(&mut self.unsaid) {
            0 => tracing::warn!("{what}"),
            more => tracing::warn!("{what} (and {more} more)"),
        }
        self.complained = Some(Instant::now());
    }
}

/// Checks that a peer with the key may come in.
fn admit(join: Option<&str>, hello: &Hello) -> Result<()> {
    match (hello.role, join) {
        (Role::Control, Some(coordinator)) => Err(Error::BadSetting {
            key: "--join".to_owned(),
            value: "this node".to_owned(),
            reason: format!("it is not the pool's coordinator; join {coordinator}"),
        }),
        (Role::Keeper, Some(_)) => Err(Error::BadSetting {
            key: "--keepers".to_owned(),
            value: "this node".to_owned(),
            reason: "it is none of its pool's keepers".to_owned(),
        }),
        _ => Ok(()),
    }
}
