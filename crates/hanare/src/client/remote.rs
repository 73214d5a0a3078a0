//! The connection to one node: sends requests, matches answers, waits.
//!
//! Any thread may post and wait. Whoever waits moves the link for all. The first that finds nothing to do parks on the link's event. The
//! others park on a condition variable until somebody's progress completes something. A thread may move the link while another is parked.
//! If that completed something, it nudges the other. Progress has taken the other's doze back, so the thread announces it again.
//!
//! A wait that exceeds its bound closes the connection: the node might still write into memory that the caller takes back. Pending requests
//! fail, and the next use connects again.

mod connecting;
mod questions;
mod sharing;
mod watched;

pub(crate) use connecting::NotPosted;
pub(crate) use sharing::PostedSync;
pub(crate) use watched::{LinkEvent, Told};

use super::pending::{Answers, Pending};
use super::request::{Patience, Request};
use super::session::check_lineage;
use hanare_fabric::Traffic;
use hanare_fabric::{Link, LinkError};
use hanare_memory::Window;
use hanare_memory::fork::Lineage;
use hanare_protocol::id::NodeId;
use hanare_protocol::limits::{ASK_MS, SPIN_ANSWER_US};
use hanare_protocol::wire::head::{HEAD_LEN, Kind};
use hanare_protocol::{Error, Result};
use hanare_ring::wait::{Backoff, Step};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Time for a node to say what became of a request of a connection that broke.
const ASK: Duration = Duration::from_millis(ASK_MS);

/// Makes a connection to the node within a time; called at the first use and after a loss.
pub(crate) type Dial = dyn Fn(Duration) -> Result<Box<dyn Link>> + Send + Sync;

/// A cause for the end of a connection that is not its node's fault, if there is one.
pub(crate) type Blame = dyn Fn() -> Option<Error> + Send + Sync;

/// A node as this process reaches it.
pub(crate) struct Remote {
    node: NodeId,
    dial: Box<Dial>,
    blame: Box<Blame>,
    bound: Duration,
    refusals: Arc<AtomicU64>,
    /// The attachment, for homes: the upper half of names of connections.
    client: u64,
    /// True for this host's node.
    is_own: bool,
    lineage: Lineage,
    inner: Mutex<Inner>,
    /// True if a connection has ended.
    has_detached: AtomicBool,
    completed: Condvar,
    /// Wakes the thread that is parked on the link's event.
    nudge: OwnedFd,
}

#[derive(Default)]
struct Inner {
    link: Option<Box<dyn Link>>,
    /// A copy of the link's event descriptor for the thread that parks.
    event: Option<Arc<LinkEvent>>,
    pending: Pending,
    /// Requests that nobody waits for, and who is told of their answers.
    watched: Vec<watched::Watched>,
    windows: Vec<Window>,
    parked: bool,
    waiting: usize,
    traffic: Traffic,
    /// Bytes given to this link so far.
    posted_len: u64,
    /// Name of this connection, once it carried a command that must not be repeated, or a numbered one.
    name: Option<u128>,
    /// A connection about which the node could not be asked. It is not waited for again for each of its requests.
    mute: Option<u128>,
    /// Another node has the part of this one: no connection is made any more.
    is_abandoned: bool,
}

impl Remote {
    /// A node that nobody is connected to yet. `refusals` counts the grants that it refuses, and `client` names the attachment.
    pub fn new(
        node: NodeId,
        bound: Duration,
        (dial, blame): (Box<Dial>, Box<Blame>),
        (refusals, client): (Arc<AtomicU64>, u64),
    ) -> Result<Remote> {
        let nudge =
            eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(|errno| system("make an event", &errno.into()))?;
        let (inner, has_detached, completed) = Default::default();
        let (is_own, lineage) = (false, Lineage::here());
        Ok(Remote { node, dial, blame, bound, refusals, client, is_own, lineage, inner, has_detached, completed, nudge })
    }

    /// The same as this host's node.
    pub fn of_this_host(self) -> Remote {
        Remote { is_own: true, ..self }
    }

    /// True if a connection to it has ended, of which the node may have known before this process. **Cost**: a load.
    #[inline]
    pub fn has_detached(&self) -> bool {
        self.has_detached.load(Ordering::Acquire)
    }

    /// Says if there is a connection, as far as is known.
    pub fn is_connected(&self) -> bool {
        self.lock().link.is_some()
    }

    /// The node.
    pub fn node(&self) -> NodeId {
        self.node
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// An empty request to fill.
    pub fn draft(&self) -> Box<Request> {
        if self.lineage.is_here() { self.lock().pending.draft() } else { Box::default() }
    }

    /// Sends a request and returns its number.
    ///
    /// # Safety
    /// The memory of its windows stays valid until [`Remote::wait`] returned for that number. Until then nobody else uses that of gets.
    pub unsafe fn post(&self, request: Box<Request>) -> Result<u64, NotPosted> {
        // SAFETY: promised by the caller.
        unsafe { self.post_within(request, self.bound) }
    }

    /// [`Remote::post`], with a time for making a connection.
    ///
    /// # Safety
    /// The caller keeps the promises of [`Remote::post`].
    unsafe fn post_within(&self, request: Box<Request>, patience: Duration) -> Result<u64, NotPosted> {
        check_lineage(self.lineage).map_err(NotPosted::before)?;
        let mut inner = self.lock();
        if request.is_once() {
            self.look_at_idle(&mut inner);
        }
        self.connect(&mut inner, patience).map_err(NotPosted::before)?;
        // SAFETY: promised by the caller.
        unsafe { self.post_on(&mut inner, request) }.map_err(NotPosted::of)
    }

    /// [`Remote::post`] on the present connection.
    ///
    /// # Safety
    /// The caller keeps the promises of [`Remote::post`].
    unsafe fn post_on(&self, inner: &mut Inner, mut request: Box<Request>) -> Result<u64> {
        let is_numbered = request.message.call != 0;
        if request.is_once() || is_numbered {
            let name = self.name(inner)?;
            // A numbered call is repeated where its home is lost. Homes know by the name whose call it is.
            request.connection = (!is_numbered).then_some(name);
        }
        let seq = inner.pending.enter(request)?;
        let request = inner.pending.get(seq).expect("it was just entered");
        let head = request.head();
        let body = request.body(&mut inner.windows);
        let link = inner.link.as_mut().expect("connected above");
        // SAFETY: the request owns the commands and stays in the table, boxed, until it is answered or the link is dropped; the
        // caller vouches for the rest.
        if let Err(error) = unsafe { link.send(&head, body) } {
            let request = inner.pending.take(seq);
            let error = self.lose(inner, error);
            // The link may show the request until it is dropped.
            drop(request);
            return Err(error);
        }
        // A question for the clock is asked for the timeline alone.
        if let Some(trace) = crate::trace::current().filter(|_| head.kind != Kind::Ping)
            && let Some(request) = inner.pending.get(seq)
        {
            request.sent = Some(trace.request(self.node, &head));
        }
        inner.posted_len += HEAD_LEN as u64 + head.body_len;
        if let Some(request) = inner.pending.get(seq) {
            request.posted_len = inner.posted_len;
        }
        inner.traffic.messages_sent += 1;
        inner.traffic.bytes_sent += HEAD_LEN as u64 + head.body_len;
        Ok(seq)
    }

    /// True if the request is done (moving the link once if its reply is not here).
    pub fn is_done(&self, seq: u64) -> bool {
        if !self.lineage.is_here() {
            // The wait that follows says why.
            return true;
        }
        let known = |inner: &mut Inner| inner.pending.get(seq).is_none_or(|request| request.is_over());
        let mut inner = self.lock();
        if !known(&mut inner) {
            self.progress(&mut inner);
        }
        known(&mut inner)
    }

    /// Sleeps until a request has its answer, for `bound` at most. Messages move along meanwhile.
    pub fn nap(&self, seq: u64, bound: Duration) {
        let until = Instant::now() + bound;
        let mut inner = self.lock();
        while self.lineage.is_here() && inner.pending.get(seq).is_some_and(|request| !request.is_over()) && Instant::now() < until
        {
            if !self.progress(&mut inner) {
                inner = self.park(inner, Some(until));
            }
        }
    }

    /// Waits for the reply, at most the bound since the last byte moved. A barrier's arrival is waited for without bound.
    ///
    /// Waits for a request. After a broken connection the node is asked what became of a command that must not be repeated.
    pub fn wait(&self, seq: u64) -> Result<()> {
        self.wait_within(seq, self.bound)
    }

    /// [`Remote::wait`] with another bound, if that is the shorter one. This host's node is waited for as long as usual: it alone can say which
    /// other node to ask, and its connection is made once.
    pub fn wait_within(&self, seq: u64, patience: Duration) -> Result<()> {
        let mut connection = None;
        let patience = if self.is_own { self.bound } else { patience.min(self.bound) };
        let outcome = self.settle(seq, patience, |request| connection = request.connection);
        self.explain(outcome, connection, seq, "an update", ASK)
    }

    /// Wakes the node, which then looks at the words that others wait for. Nothing where there is no connection: it looks unasked, later.
    ///
    /// **Cost**: one system call.
    pub fn nudge(&self) {
        if let Some(link) = self.lock().link.as_ref().filter(|_| self.lineage.is_here()) {
            link.nudge();
        }
    }

    /// The name of the connection, if there is one and it carried something that must not be repeated.
    pub fn connection(&self) -> Option<u128> {
        self.lock().name
    }

    /// Waits for a request's outcome, at most `patience` since the last byte moved. `look` sees it before it is put aside.
    fn settle(&self, seq: u64, patience: Duration, mut look: impl FnMut(&mut Request)) -> Result<()> {
        check_lineage(self.lineage)?;
        let mut inner = self.lock();
        let mut backoff = backoff();
        let mut deadline = None;
        loop {
            if let Some(outcome) = take_outcome(&mut inner, seq, &mut look) {
                return outcome;
            }
            if inner.pending.get(seq).is_some_and(|request| request.is_late()) {
                inner.pending.forsake(seq);
                return Err(Error::NotInTime { what: format!("an answer of {}", self.node), after_ms: 0 });
            }
            if self.progress(&mut inner) {
                backoff.reset();
                deadline = None;
                continue;
            }
            if backoff.step_after(checks_by_call(&inner)) == Step::Again {
                continue;
            }
            let request = inner.pending.get(seq);
            let (patience, own) = request.map_or((None, None), |request| (request.patience(patience), request.until()));
            let until = patience.and_then(|patience| *deadline.get_or_insert_with(|| Instant::now().checked_add(patience)));
            if until.is_some_and(|until| Instant::now() >= until) {
                self.give_up(&mut inner);
                continue;
            }
            inner = self.park(inner, until.or(own));
        }
    }

    /// Moves the link as far as it goes. Returns whether anything happened.
    fn progress(&self, inner: &mut Inner) -> bool {
        let mut moved = self.move_once(inner);
        while (inner.parked || !inner.watched.is_empty()) && inner.link.as_mut().is_some_and(|link| !link.doze()) {
            moved |= self.move_once(inner);
        }
        moved
    }

    fn move_once(&self, inner: &mut Inner) -> bool {
        let Some(link) = inner.link.as_mut() else { return false };
        let mut sink = Answers::to(&mut inner.pending);
        let moved = link.progress(&mut sink);
        let (completed, nonsense) = (sink.completed, sink.nonsense);
        if inner.pending.any_forsaken() {
            inner.pending.sweep(inner.posted_len.saturating_sub(link.unsent_len()));
        }
        if completed > 0 {
            self.tell(inner.parked, inner.waiting);
            inner.tell_watched();
        }
        let link = inner.link.as_mut().expect("it was just moved");
        match moved {
            Ok(_) if nonsense => {
                let peer = link.peer().to_owned();
                self.lose(inner, LinkError::Garbage { peer, reason: "an answer that fits nothing that was asked".to_owned() });
                true
            }
            Ok(progress) => {
                inner.traffic.messages_received += u64::from(progress.messages);
                inner.traffic.bytes_received += progress.received_len;
                !progress.is_idle()
            }
            Err(error) => {
                self.lose(inner, error);
                true
            }
        }
    }

    /// Something was completed that others may wait for.
    fn tell(&self, parked: bool, waiting: usize) {
        if waiting > 0 {
            self.completed.notify_all();
        }
        if parked {
            // The only failure is a counter at its maximum, which is readable all the same.
            let _ = rustix::io::write(&self.nudge, &1u64.to_ne_bytes());
        }
    }

    /// Sleeps until something may have changed.
    fn park<'a>(&'a self, mut inner: MutexGuard<'a, Inner>, until: Option<Instant>) -> MutexGuard<'a, Inner> {
        if inner.parked {
            inner.waiting += 1;
            let left = until.map_or(Duration::from_secs(3600), |until| until.saturating_duration_since(Instant::now()));
            inner = self.completed.wait_timeout(inner, left).unwrap_or_else(|poisoned| poisoned.into_inner()).0;
            inner.waiting -= 1;
            return inner;
        }
        let Some(link) = inner.link.as_mut() else { return inner };
        if !link.doze() {
            return inner;
        }
        let writing = link.needs_write_event();
        let event = inner.event.clone().expect("a link has its event");
        inner.parked = true;
        drop(inner);
        self.poll_event(&event.1, writing, until);
        inner = self.lock();
        inner.parked = false;
        if inner.waiting > 0 {
            // Another thread must take over the parking, should this one be done.
            self.completed.notify_all();
        }
        inner
    }

    /// The node did not answer in time: nothing of this connection is waited for any longer.
    fn give_up(&self, inner: &mut Inner) {
        let error = Error::Timeout {
            peer: self.node.to_string(),
            what: "a vector command".to_owned(),
            after_ms: self.bound.as_millis() as u64,
        };
        self.close(inner, &error);
    }

    fn lose(&self, inner: &mut Inner, error: LinkError) -> Error {
        let error = match error {
            LinkError::Garbage { peer, reason } => Error::Garbage { peer, reason },
            LinkError::Closed { reason, .. } => self.lost(reason),
            other => self.lost(other.to_string()),
        };
        self.close(inner, &error);
        error
    }

    fn lost(&self, reason: String) -> Error {
        (self.blame)().unwrap_or(Error::NodeLost { node: self.node, reason })
    }

    fn close(&self, inner: &mut Inner, error: &Error) {
        // Before the node can see it.
        self.has_detached.store(true, Ordering::Release);
        inner.link = None;
        inner.event = None;
        inner.name = None;
        inner.pending.fail_all(error);
        inner.tell_watched();
        inner.pending.sweep(u64::MAX);
        self.tell(inner.parked, inner.waiting);
    }

    /// Waits until every request is done. If an owner has left its request, the failure is not reported here but at the owner.
    pub fn quiesce(&self) -> Result<()> {
        check_lineage(self.lineage)?;
        let mut inner = self.lock();
        let mut backoff = backoff();
        let mut deadline = None;
        while inner.pending.any_unanswered() {
            if self.progress(&mut inner) {
                backoff.reset();
                deadline = None;
                continue;
            }
            if backoff.step_after(checks_by_call(&inner)) == Step::Park {
                let until = *deadline.get_or_insert_with(|| Instant::now() + self.bound);
                if Instant::now() >= until {
                    self.give_up(&mut inner);
                    return Err(Error::Timeout {
                        peer: self.node.to_string(),
                        what: "flush".to_owned(),
                        after_ms: self.bound.as_millis() as u64,
                    });
                }
                inner = self.park(inner, Some(until));
            }
        }
        Ok(())
    }

    fn poll_event(&self, event: &OwnedFd, writing: bool, until: Option<Instant>) {
        let flags = if writing { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let timeout = left.map(|left| Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) });
        let mut watched = [PollFd::new(event, flags), PollFd::new(&self.nudge, PollFlags::IN)];
        match poll(&mut watched, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            // Valid descriptors give no other error; a caller that loops finds out by progress.
            Err(_) => std::thread::yield_now(),
        }
        let _ = rustix::io::read(&self.nudge, &mut [0; 8]);
    }

    /// Messages and bytes both ways so far.
    pub fn traffic(&self) -> Traffic {
        self.lock().traffic
    }
}

fn checks_by_call(inner: &Inner) -> bool {
    inner.link.as_ref().is_some_and(|link| link.checks_by_call())
}

/// A client's pace of waiting for a node.
fn backoff() -> Backoff {
    Backoff::with_budget(Duration::from_micros(SPIN_ANSWER_US))
}

fn take_outcome(inner: &mut Inner, seq: u64, look: &mut impl FnMut(&mut Request)) -> Option<Result<()>> {
    let request = inner.pending.get(seq).filter(|request| request.is_over())?;
    // An answer may come early, from a node that breaks the rules. Until all was sent the link shows the caller's memory.
    let unsent_len = inner.link.as_ref().map_or(0, |link| link.unsent_len());
    if request.posted_len + unsent_len > inner.posted_len {
        return None;
    }
    look(request);
    let mut request = inner.pending.take(seq).expect("it was just seen");
    let taken = request.take_outcome();
    inner.pending.keep(request);
    Some(taken)
}

fn system(what: &str, error: &std::io::Error) -> Error {
    Error::System { what: what.to_owned(), reason: error.to_string() }
}
