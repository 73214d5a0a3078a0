//! Copies from other nodes: this node asks for the bytes as a client would, and has them written where they belong.
//!
//! ```text
//! Fetch ──> Peer: gets sent to the node that holds the bytes ──> answers written into our extents as they come ──> ended
//! ```

use super::execution::ReachedExtent;
use crate::lost::lost_memory;
use hanare_fabric::{Link, LinkError, Refusal, Sink};
use hanare_home::{CommandExtent, Fetch, FetchTarget, Need, runs, stage_pages};
use hanare_memory::{Lost, Window, vector};
use hanare_protocol::id::NodeId;
use hanare_protocol::limits::STAGE_LEN;
use hanare_protocol::page::Access;
use hanare_protocol::wire::exchange::Reply;
use hanare_protocol::wire::head::{Head, Kind};
use hanare_protocol::{Error, Result};
use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

/// Bytes that one request asks another node for.
pub(crate) type NodeFetch = Fetch<ReachedExtent>;

type Target = FetchTarget<ReachedExtent>;

/// Reason of a pause in received bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pause {
    Nothing,
    /// Pages that nobody was asked for yet.
    Unasked,
    /// Pages of that many bytes are wanted.
    Asked(u64),
}

/// A fetch that has ended, and whose it was.
pub(crate) struct Ended {
    pub session: u64,
    pub outcome: Result<()>,
}

/// The place of the next bytes of the stream, if they lie in a row and can be written as they come.
fn direct_place(target: &Target, at: u64) -> Option<Window> {
    let (window, (offset, len)) = (target.extent.opened.stays()?, target.shape.range()?);
    target.extent.opened.held().will_write([(offset + at, len - at)]);
    Some(window.slice((offset + at) as usize, (len - at) as usize))
}

/// Writes bytes of the stream from `at` on.
fn write(target: &Target, at: u64, bytes: Window) -> Result<(), Lost> {
    let held = target.extent.opened.held();
    held.will_write(runs(&target.shape, at, bytes.len() as u64));
    let reach = held.reach();
    vector::scatter_part(bytes, reach.window(), &target.shape, at)
}

/// Another node, asked for bytes.
pub(crate) struct Peer {
    // Dropped first: it may hold windows of the sink.
    link: Box<dyn Link>,
    pub address: String,
    node: NodeId,
    sink: Arrivals,
    counter: u64,
    moved: Instant,
}

/// Answers in the order of their requests.
struct Arrivals {
    waiting: VecDeque<WaitingFetch>,
    /// True if bytes of the first reply have places.
    is_begun: bool,
    /// The target that is written, and its byte that comes next.
    target: usize,
    at: u64,
    staged_len: usize,
    /// Number of those written.
    settled_len: usize,
    /// The pause of the others, for pages.
    wait: Pause,
    /// An answer that is whole but for those.
    whole: Option<Head>,
    stage: Vec<u8>,
    refusal: Vec<u8>,
    lost: Option<Error>,
    ended: Vec<Ended>,
    /// Answered, but perhaps not all sent: a peer may answer early, and the link still shows what it was to send.
    spent: Vec<NodeFetch>,
}

struct WaitingFetch {
    seq: u64,
    session: u64,
    /// True while the session lives.
    is_wanted: bool,
    fetch: NodeFetch,
}

impl Peer {
    pub fn new(link: Box<dyn Link>, address: String, node: NodeId) -> Peer {
        let sink = Arrivals {
            waiting: VecDeque::new(),
            is_begun: false,
            target: 0,
            at: 0,
            staged_len: 0,
            settled_len: 0,
            wait: Pause::Nothing,
            whole: None,
            stage: Vec::new(),
            refusal: Vec::new(),
            lost: None,
            ended: Vec::new(),
            spent: Vec::new(),
        };
        Peer { link, address, node, sink, counter: 0, moved: Instant::now() }
    }

    /// Asks for bytes on behalf of a session.
    pub fn ask(&mut self, session: u64, fetch: NodeFetch) -> Result<(), LinkError> {
        self.counter += 1;
        let count = fetch.command_count();
        let body_len = (fetch.commands.len() + fetch.lists.len()) as u64;
        let head = Head { count, body_len, ..Head::new(Kind::Commands, self.counter) };
        if self.sink.waiting.is_empty() {
            self.moved = Instant::now();
        }
        self.sink.waiting.push_back(WaitingFetch { seq: self.counter, session, is_wanted: true, fetch });
        let asked = &self.sink.waiting.back().expect("just pushed").fetch;
        // SAFETY: the vectors' heap memory stays with the fetch until it is answered and nothing is unsent, or the link, which is dropped
        // first, is gone.
        unsafe { self.link.send(&head, &[Window::of(&asked.commands), Window::of(&asked.lists)]) }
    }

    /// Moves answers on. Returns whether anything moved, and what has ended.
    pub fn turn(&mut self) -> Result<(bool, Vec<Ended>), LinkError> {
        let progress = self.link.progress(&mut self.sink)?;
        if !progress.is_idle() {
            self.moved = Instant::now();
        }
        if self.link.unsent_len() == 0 {
            self.sink.spent.clear();
        }
        Ok((!progress.is_idle(), std::mem::take(&mut self.sink.ended)))
    }

    /// A session has ended: what it waits for is written nowhere. False where its bytes may be on their way into an extent: the link must
    /// be dropped, and what others wait for ([`Peer::others`]) asked for anew.
    pub fn cancel(&mut self, session: u64) -> bool {
        let is_begun = self.sink.is_begun && self.sink.waiting.front().is_some_and(|waiting| waiting.session == session);
        let theirs = self.sink.waiting.iter_mut().filter(|waiting| waiting.session == session);
        theirs.for_each(|waiting| waiting.is_wanted = false);
        !is_begun
    }

    /// Fetches of sessions that live, once the link is dropped.
    pub fn others(mut self) -> Vec<(u64, NodeFetch)> {
        let waiting = std::mem::take(&mut self.sink.waiting);
        // The answers' windows are of extents that the fetches keep: the link goes first.
        drop(self);
        waiting.into_iter().filter(|waiting| waiting.is_wanted).map(|waiting| (waiting.session, waiting.fetch)).collect()
    }

    /// The session whose bytes come next, if it lives.
    pub fn session(&self) -> Option<u64> {
        self.sink.waiting.front().filter(|waiting| waiting.is_wanted).map(|waiting| waiting.session)
    }

    /// True if no request is out.
    pub fn is_idle(&self) -> bool {
        self.sink.waiting.is_empty()
    }

    /// True if it gave no sign of life for `bound` while a request was out.
    pub fn is_silent(&self, bound: Duration) -> bool {
        !self.is_idle() && !self.waits_for_pages() && self.moved.elapsed() >= bound
    }

    /// True if received bytes wait for pages.
    pub fn waits_for_pages(&self) -> bool {
        self.sink.wait != Pause::Nothing
    }

    /// Pages that those bytes wait for; told once.
    pub fn need(&mut self) -> Option<Need> {
        self.sink.need()
    }

    /// The pages are at home, or will not come.
    pub fn recalled(&mut self, outcome: Result<()>) {
        self.moved = Instant::now();
        self.sink.recalled(outcome);
    }

    /// The sessions that wait for it, which wait in vain.
    pub fn fail(mut self, error: &Error) -> Vec<Ended> {
        let waiting = std::mem::take(&mut self.sink.waiting);
        let mut ended = std::mem::take(&mut self.sink.ended);
        ended.extend(waiting.iter().map(|waiting| Ended { session: waiting.session, outcome: Err(error.clone()) }));
        // The answers' windows are of extents that the fetches keep: the link goes first.
        drop(self);
        drop(waiting);
        ended
    }

    /// The error for a link that has ended.
    pub fn lost(&self, error: &LinkError) -> Error {
        Error::NodeLost { node: self.node, reason: error.to_string() }
    }

    /// The error for a silent peer.
    pub fn silent(&self, bound: Duration) -> Error {
        let after_ms = bound.as_millis() as u64;
        Error::Timeout { peer: self.node.to_string(), what: "the source of a copy".to_owned(), after_ms }
    }

    pub fn needs_write_event(&self) -> bool {
        self.link.needs_write_event()
    }

    pub fn doze(&mut self) -> bool {
        self.link.doze()
    }

    pub fn event(&self) -> BorrowedFd<'_> {
        self.link.event()
    }
}

impl Arrivals {
    fn place_bytes(&mut self) -> Result<Window, Refusal> {
        let waiting = self.waiting.front().expect("the caller looked");
        while waiting.fetch.targets.get(self.target).is_some_and(|target| self.at == target.shape.len()) {
            (self.target, self.at) = (self.target + 1, 0);
        }
        let target = waiting.fetch.targets.get(self.target).ok_or_else(|| refusal("more bytes than were asked for"))?;
        let left = target.shape.len() - self.at;
        if let Some(place) = direct_place(target, self.at) {
            self.at += left;
            return Ok(place);
        }
        self.stage.resize(STAGE_LEN, 0);
        self.staged_len = left.min(STAGE_LEN as u64) as usize;
        // SAFETY: the stage is not touched until the link has filled the window and asks again, or is dropped.
        Ok(unsafe { Window::of_mut(&mut self.stage) }.slice(0, self.staged_len))
    }

    /// A place for bytes that nobody wants any more.
    fn scratch(&mut self, left: u64) -> Window {
        self.stage.resize(STAGE_LEN, 0);
        // SAFETY: as in `place_bytes`.
        unsafe { Window::of_mut(&mut self.stage) }.slice(0, left.min(STAGE_LEN as u64) as usize)
    }

    /// Writes what the stage holds where it belongs.
    fn settle(&mut self) {
        if self.staged_len == 0 || self.wait != Pause::Nothing {
            return;
        }
        if self.staged_target().extent.is_by_pages() {
            self.wait = Pause::Unasked;
        } else {
            self.write(self.staged_len as u64);
        }
    }

    fn staged_target(&self) -> &Target {
        &self.waiting.front().expect("a stage is filled for somebody").fetch.targets[self.target]
    }

    /// Writes the next `len` bytes of the stage.
    fn write(&mut self, len: u64) {
        // SAFETY: the buffer is ours, and only read here.
        let bytes = unsafe { Window::of(&self.stage) }.slice(self.settled_len, len as usize);
        if let Err(lost) = write(self.staged_target(), self.at, bytes) {
            self.lost = self.lost.take().or(Some(lost_memory(&lost)));
        }
        self.settle_some(len);
    }

    /// Counts `len` bytes of the stage as settled.
    fn settle_some(&mut self, len: u64) {
        (self.at, self.settled_len) = (self.at + len, self.settled_len + len as usize);
        if self.settled_len == self.staged_len {
            (self.staged_len, self.settled_len) = (0, 0);
        }
    }

    fn need(&mut self) -> Option<Need> {
        if self.wait != Pause::Unasked {
            return None;
        }
        let (target, left) = (self.staged_target(), (self.staged_len - self.settled_len) as u64);
        let (len, need) = stage_pages(&target.extent, &target.shape, (self.at, left, 1), Access::Write);
        self.wait = Pause::Asked(len);
        Some(need)
    }

    fn recalled(&mut self, outcome: Result<()>) {
        let Pause::Asked(len) = std::mem::replace(&mut self.wait, Pause::Nothing) else { return };
        match outcome {
            Ok(()) => self.write(len),
            Err(error) => {
                self.lost = self.lost.take().or(Some(error));
                self.settle_some(len);
            }
        }
        if self.staged_len > 0 {
            self.wait = Pause::Unasked;
        } else if let Some(head) = self.whole.take() {
            self.end(&head);
        }
    }

    fn outcome(&mut self, head: &Head, len: u64) -> Result<()> {
        match Reply::decode(head, &self.refusal) {
            Ok(Reply::Refused(error)) => Err(error),
            Ok(Reply::Done) if head.body_len == len => self.lost.take().map_or(Ok(()), Err),
            Ok(_) => Err(garbage("an answer that fits nothing that was asked")),
            Err(malformed) => Err(garbage(malformed.0)),
        }
    }
}

// SAFETY: windows are of extents that the fetch at the front keeps until its answer is here, or of buffers that stay as they are until
// the link asks again; the peer drops the link before the sink.
unsafe impl Sink for Arrivals {
    fn place(&mut self, head: &Head, at: u64) -> Result<Window, Refusal> {
        let waiting = self.waiting.front().filter(|waiting| waiting.seq == head.seq);
        let waiting = waiting.ok_or_else(|| refusal("an answer to nothing that was asked"))?;
        match head.kind {
            Kind::Done if head.body_len == waiting.fetch.stream_len() && !waiting.is_wanted => {
                Ok(self.scratch(head.body_len - at))
            }
            Kind::Done if head.body_len == waiting.fetch.stream_len() => {
                if at == 0 {
                    self.is_begun = true;
                    (self.target, self.at) = (0, 0);
                } else {
                    self.settle();
                }
                if self.wait == Pause::Nothing { self.place_bytes() } else { Ok(Window::empty()) }
            }
            Kind::Refused if at == 0 => {
                self.refusal.resize(head.body_len as usize, 0);
                // SAFETY: as for the stage.
                Ok(unsafe { Window::of_mut(&mut self.refusal) })
            }
            _ => Err(refusal("an answer of another length than was asked for")),
        }
    }

    fn message(&mut self, head: &Head) {
        if head.kind == Kind::Working || self.waiting.front().is_none_or(|waiting| waiting.seq != head.seq) {
            return;
        }
        self.settle();
        match self.wait {
            Pause::Nothing => self.end(head),
            Pause::Unasked | Pause::Asked(_) => self.whole = Some(*head),
        }
    }

    fn may_begin(&self) -> bool {
        self.whole.is_none()
    }
}

impl Arrivals {
    /// All of an answer is where it belongs.
    fn end(&mut self, head: &Head) {
        self.is_begun = false;
        let WaitingFetch { session, fetch, .. } = self.waiting.pop_front().expect("just seen");
        let outcome = self.outcome(head, fetch.stream_len());
        self.refusal.clear();
        self.ended.push(Ended { session, outcome });
        self.spent.push(fetch);
    }
}

fn refusal(reason: &str) -> Refusal {
    Refusal(reason.to_owned())
}

fn garbage(reason: &str) -> Error {
    Error::Garbage { peer: "another node".to_owned(), reason: reason.to_owned() }
}
