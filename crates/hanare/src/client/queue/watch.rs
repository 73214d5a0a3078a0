//! Bells that one reader waits for: of queues and arrays on any host, with one descriptor.
//!
//! ```text
//! of this host:  a thread, one for all of them, sleeps at all bells at once; the first that rings raises the event
//! of others:     a wait for the bell's word, at its node, that nobody waits for; its answer raises the event
//! ```
//!
//! The reader announces sleep at the bells before it arms, and looks once more afterwards. So nothing is missed (`hanare_ring::array`). A
//! raised event says that a look may pay. If there may be remote bells, the descriptor is an `epoll`'s. Then it is readable, too, as soon
//! as a connection has something, which the reader's next look takes. A timer makes it readable when a node has said nothing for too long:
//! the reader's next look finds the next home, or says what is wrong. Without a descriptor the program needs no thread, and sleeps at the
//! bells itself.

use super::reach::QueueReach;
use crate::client::remote::{LinkEvent, Remote, Told};
use crate::client::repetition::{Breaks, is_moving};
use crate::client::request::Patience;
use crate::client::threads;
use hanare_protocol::limits::{LATE_MS, LEASE_MS, QUEUE_NAP_MS};
use hanare_protocol::wire::sync::{SyncRequest, Wait, WaitedWord, Word};
use hanare_protocol::{Error, Result};
use hanare_ring::Shared;
use hanare_ring::array::REMOTE;
use hanare_ring::park::{self, Call, park_at_any};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A bell of this host.
type Bell = park::Bell<Shared>;

/// Bytes of the thread's stack: it waits for words.
const STACK_LEN: usize = 256 << 10;

/// Time without units after which a reader looks unasked.
const LOOK: Duration = Duration::from_millis(LEASE_MS / 3);

/// Time a thread sleeps before it looks at the bells by itself: a writer may die between its commit and the wake.
const NAP: Duration = Duration::from_millis(QUEUE_NAP_MS);

/// A descriptor that is readable once a queue may have something: see [`super::ReadPort::arm`]. Only to be waited for, not to be read.
#[derive(Clone)]
pub struct QueueEvent {
    told: Arc<Told>,
    /// There may be bells of other hosts.
    shown: Option<Arc<Shown>>,
}

/// An `epoll` that shows a reader's event, those of its connections, and a timer for silent nodes.
struct Shown {
    epoll: OwnedFd,
    timer: OwnedFd,
}

impl QueueEvent {
    /// For bells of this host alone, or of others too.
    fn new(is_here: bool) -> Result<QueueEvent> {
        let told = Arc::new(Told::new()?);
        let shown = if is_here { None } else { Some(Arc::new(shows(&told).map_err(|errno| system("make an event", errno))?)) };
        Ok(QueueEvent { told, shown })
    }
}

fn shows(told: &Told) -> rustix::io::Result<Shown> {
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
    for shown in [told.event().as_fd(), timer.as_fd()] {
        epoll::add(&epoll, shown, EventData::new_u64(0), EventFlags::IN)?;
    }
    Ok(Shown { epoll, timer })
}

impl Shown {
    /// Has the timer end after `left`, or never.
    fn set_timer(&self, left: Option<Duration>) -> Result<()> {
        // No time at all would stop the timer.
        let left = left.map_or(Duration::ZERO, |left| left.max(Duration::from_nanos(1)));
        let it_value = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
        let it_interval = Timespec { tv_sec: 0, tv_nsec: 0 };
        let set = timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &Itimerspec { it_interval, it_value });
        set.map(drop).map_err(|errno| system("set a timer", errno))
    }
}

fn system(what: &str, errno: rustix::io::Errno) -> Error {
    Error::System { what: what.to_owned(), reason: errno.to_string() }
}

impl AsFd for QueueEvent {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shown.as_ref().map_or_else(|| self.told.event().as_fd(), |shown| shown.epoll.as_fd())
    }
}

impl AsRawFd for QueueEvent {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

impl std::fmt::Debug for QueueEvent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("QueueEvent").field(&self.as_raw_fd()).finish()
    }
}

/// The bell of a queue, or of who reads all queues of an array. **Errors**: those of [`QueueReach::here`].
fn bell_here(reach: &QueueReach, queue: Option<u64>) -> Result<Option<Bell>> {
    Ok(reach.here()?.map(|array| array.bell(queue)))
}

/// The word to wait for at the node of a bell, and until what.
fn bell_remote(reach: &QueueReach, queue: Option<u64>) -> (u64, Wait) {
    match queue {
        Some(queue) => (reach.reader_bell(queue), Wait::NotEqual(Word::U64(REMOTE))),
        None => (reach.set_bell(), Wait::Equal(Word::U64(0))),
    }
}

/// Waits at a bell at which sleep was announced, of a queue or of all, for `nap` at most.
pub(super) fn wait_once(reach: &QueueReach, queue: Option<u64>, nap: Duration) -> Result<()> {
    if let Some(bell) = bell_here(reach, queue)? {
        park_at_any(&[bell], None, nap);
        return Ok(());
    }
    let (bell, until) = bell_remote(reach, queue);
    match reach.region().wait_until(bell, until, Some(nap)) {
        Ok(_) | Err(Error::NotInTime { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

/// The bells of one reader.
pub(super) struct BellWatch {
    event: QueueEvent,
    bells: Vec<WatchedBell>,
    /// Once a descriptor is waited for beside bells of this host.
    desk: Option<Arc<Desk>>,
    /// Connections whose descriptors the event shows.
    links: Vec<(Arc<Remote>, Arc<LinkEvent>)>,
    /// When the first of the nodes that were asked is late.
    late: Option<Instant>,
}

struct WatchedBell {
    reach: Arc<QueueReach>,
    queue: Option<u64>,
    /// The wait at the node of another host.
    asked: Option<AskedBell>,
}

struct AskedBell {
    remote: Arc<Remote>,
    seq: u64,
    until: Instant,
}

impl BellWatch {
    /// For bells of this host alone, or for remote ones too. **Errors**: [`Error::System`].
    pub fn new(is_here: bool) -> Result<BellWatch> {
        Ok(BellWatch { event: QueueEvent::new(is_here)?, bells: Vec::new(), desk: None, links: Vec::new(), late: None })
    }

    /// Adds the bell of a queue, or of an array. Returns its index.
    pub fn add(&mut self, reach: Arc<QueueReach>, queue: Option<u64>) -> Result<usize> {
        if let (Some(desk), Some(bell)) = (&self.desk, bell_here(&reach, queue)?) {
            desk.add((reach.clone(), bell));
        }
        self.bells.push(WatchedBell { reach, queue, asked: None });
        Ok(self.bells.len() - 1)
    }

    pub fn event(&self) -> &QueueEvent {
        &self.event
    }

    /// True if a remote bell is waited for and its node has said nothing.
    pub fn is_asked(&self, index: usize) -> bool {
        self.bells[index].asked.is_some()
    }

    /// Takes what nodes have said. **Cost**: a load where they have said nothing.
    #[inline]
    pub fn hear(&mut self) {
        for (index, seq) in self.event.told.take() {
            if let Some(bell) = self.bells.get_mut(index) {
                bell.forsake(|asked| asked.seq == seq);
            }
        }
    }

    /// Takes what is on its way from nodes, and gives up silent ones. A look by message says why.
    pub fn hear_remote(&mut self) {
        let links = self.links.iter().map(|(remote, _)| remote.attend()).collect::<Vec<_>>();
        for (at, event) in links.into_iter().enumerate().rev() {
            if !event.is_some_and(|event| Arc::ptr_eq(&event, &self.links[at].1)) {
                // Its connection broke, and with it its waits.
                let (_, shown) = self.links.swap_remove(at);
                self.unshow(&shown.1);
            }
        }
        self.hear();
        let now = Instant::now();
        self.bells.iter_mut().for_each(|bell| bell.forsake(|asked| asked.until <= now));
        if let Err(error) = self.set_timer() {
            tracing::warn!("a queue's reader may wait for a silent node: {error}");
        }
    }

    /// Has the event become readable when the first of the nodes that were asked is late.
    fn set_timer(&mut self) -> Result<()> {
        let Some(shown) = &self.event.shown else { return Ok(()) };
        let until = self.bells.iter().filter_map(|bell| bell.asked.as_ref()).map(|asked| asked.until).min();
        if std::mem::replace(&mut self.late, until) == until {
            return Ok(());
        }
        shown.set_timer(until.map(|until| until.saturating_duration_since(Instant::now())))
    }

    fn unshow(&self, link: &OwnedFd) {
        if let Some(shown) = &self.event.shown {
            // A closed descriptor is no longer shown.
            let _ = epoll::delete(&shown.epoll, link);
        }
    }

    /// Asks the node of another host to say when a bell rings at which sleep was announced. Asks once until it has.
    ///
    /// **Cost**: a message. **Errors**: those of the node.
    pub fn ask(&mut self, index: usize) -> Result<()> {
        let WatchedBell { reach, queue, asked: None } = &self.bells[index] else { return Ok(()) };
        let ((offset, until), mut breaks) = (bell_remote(reach, *queue), Breaks::default());
        let (route, seq) = loop {
            let route = reach.region().extent_route(0);
            let word = WaitedWord { slot: route.slot, grant: route.grant, offset, until };
            let request = SyncRequest::Wait { words: vec![word], bound_ms: Some(LOOK.as_millis() as u64) };
            match route.remote.start_sync(&request, Patience::UpTo(LOOK), (&self.event.told, index)) {
                Ok(seq) => break (route, seq),
                Err(error) if reach.moves() && is_moving(&error) && breaks.may_repeat_moved() => reach.find_home()?,
                Err(error) => return Err(error),
            }
        };
        let until = Instant::now() + LOOK + Duration::from_millis(LATE_MS);
        self.bells[index].asked = Some(AskedBell { remote: route.remote.clone(), seq, until });
        self.set_timer()?;
        self.show(route.remote)
    }

    /// Has the event show a connection.
    fn show(&mut self, remote: Arc<Remote>) -> Result<()> {
        let (Some(shown), Some(event)) = (&self.event.shown, remote.attend()) else { return Ok(()) };
        if self.links.iter().any(|(_, link)| Arc::ptr_eq(link, &event)) {
            return Ok(());
        }
        epoll::add(&shown.epoll, &event.1, EventData::new_u64(0), EventFlags::IN)
            .map_err(|errno| system("watch a connection", errno))?;
        self.links.push((remote, event));
        Ok(())
    }

    /// Has the event show a link, too; once.
    pub fn show_link(&self, link: BorrowedFd<'_>) -> Result<()> {
        let Some(shown) = &self.event.shown else { return Ok(()) };
        match epoll::add(&shown.epoll, link, EventData::new_u64(0), EventFlags::IN) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => Ok(()),
            Err(errno) => Err(system("watch a connection", errno)),
        }
    }

    /// Makes the event unreadable, before sleep is announced.
    pub fn clear(&self) {
        self.event.told.clear();
    }

    /// Makes it readable: something is there already.
    pub fn raise(&self) {
        self.event.told.raise();
    }

    /// From here on the event is raised when a bell of this host rings, too. **Cost**: at the first call, a thread. **Errors**:
    /// [`Error::System`].
    pub fn arm_here(&mut self) -> Result<()> {
        if self.desk.is_none() {
            let bells = self.bells_here()?;
            if !bells.is_empty() {
                self.desk = Some(Desk::start(bells, self.event.told.clone())?);
            }
        }
        if let Some(desk) = &self.desk {
            desk.arm();
        }
        Ok(())
    }

    fn bells_here(&self) -> Result<Vec<BellHere>> {
        let bell = |bell: &WatchedBell| Ok(bell_here(&bell.reach, bell.queue)?.map(|here| (bell.reach.clone(), here)));
        self.bells.iter().filter_map(|watched| bell(watched).transpose()).collect()
    }

    /// Sleeps until a bell rings, for `nap` at most.
    pub fn sleep(&mut self, nap: Duration) -> Result<()> {
        if self.bells.iter().all(|bell| bell.asked.is_none()) {
            let bells: Vec<Bell> = self.bells_here()?.into_iter().map(|(_, bell)| bell).collect();
            park_at_any(&bells, None, nap);
            return Ok(());
        }
        self.arm_here()?;
        let nap = Timespec { tv_sec: nap.as_secs() as i64, tv_nsec: i64::from(nap.subsec_nanos()) };
        // The next look says more than the outcome.
        let _ = poll(&mut [PollFd::new(&self.event, PollFlags::IN)], Some(&nap));
        Ok(())
    }
}

impl WatchedBell {
    fn forsake(&mut self, is_meant: impl FnOnce(&AskedBell) -> bool) {
        if let Some(asked) = self.asked.take_if(|asked| is_meant(asked)) {
            asked.remote.forsake(asked.seq);
        }
    }
}

impl Drop for BellWatch {
    fn drop(&mut self) {
        self.bells.iter_mut().for_each(|bell| bell.forsake(|_| true));
        if let Some(desk) = &self.desk {
            desk.end();
        }
    }
}

/// A bell, and what keeps its memory.
type BellHere = (Arc<QueueReach>, Bell);

/// State that a reader and its thread share.
///
/// ```text
/// reader:  idle --arm--> armed                    thread:  armed --a bell has rung, or it is time for a look unasked--> idle, and the event is raised
/// ```
struct Desk {
    told: Arc<Told>,
    state: Mutex<DeskState>,
    changed: Condvar,
    /// Calls the thread back from the bells.
    call: Call,
}

#[derive(Default)]
struct DeskState {
    bells: Vec<BellHere>,
    is_armed: bool,
    is_over: bool,
}

impl Desk {
    fn start(bells: Vec<BellHere>, told: Arc<Told>) -> Result<Arc<Desk>> {
        let state = DeskState { bells, ..DeskState::default() };
        let desk = Arc::new(Desk { told, state: Mutex::new(state), changed: Condvar::new(), call: Call::default() });
        let its = desk.clone();
        threads::start("hanare-queue", STACK_LEN, move || its.run())?;
        Ok(desk)
    }

    fn lock(&self) -> MutexGuard<'_, DeskState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn arm(&self) {
        let was_armed = std::mem::replace(&mut self.lock().is_armed, true);
        if !was_armed {
            self.changed.notify_one();
        }
    }

    fn add(&self, bell: BellHere) {
        self.lock().bells.push(bell);
        self.call.call();
    }

    fn end(&self) {
        self.lock().is_over = true;
        self.changed.notify_one();
        self.call.call();
    }

    fn run(&self) {
        loop {
            // A call from here on is not missed.
            let calls = self.call.count();
            let mut state = self.lock();
            while !state.is_armed && !state.is_over {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            if state.is_over {
                return;
            }
            let bells = state.bells.clone();
            drop(state);
            self.wait(&bells, calls);
            let mut state = self.lock();
            // Another bell may have come, whose reader waits for a thread that sleeps at it.
            if state.bells.len() == bells.len() && state.is_armed && !state.is_over {
                state.is_armed = false;
                self.told.raise();
            }
        }
    }

    /// Until a bell has rung, the thread is called, or it is time for a look unasked. The bells lie on one host: its node is asked whether it
    /// lives.
    fn wait(&self, bells: &[BellHere], calls: u32) {
        let begun = Instant::now();
        let words: Vec<Bell> = bells.iter().map(|(_, bell)| *bell).collect();
        while self.call.count() == calls && words.iter().all(Bell::is_asleep) {
            if begun.elapsed() >= LOOK {
                // The reader's next look says what is wrong.
                let _ = bells.first().map(|(reach, _)| reach.ping(0));
                return;
            }
            park_at_any(&words, Some((&self.call, calls)), NAP);
        }
    }
}
