//! The reader's end of links: units that come straight from writers' programs, each lane's in a ring of its own.
//!
//! ```text
//! socket ── HandOver, descriptor ──> link ── when the lane was seen up to the tail of the hand-over ──> appends ── commit ──> ring ──> the port
//! ```
//!
//! [`hanare_protocol::queue::link`] has the rules. What a writer sends is input: lengths, numbers and places are checked before a byte moves.
//!
//! Safety: windows are of memory that a link's sink keeps, or of [`ReadLinks`]' mapping. Links go before both.

use super::reach::QueueReach;
use super::watch::BellWatch;
use crate::client::attachment::FaultTraffic;
use crate::client::local::LocalMapping;
use hanare_fabric::control_socket::FrameSocket;
use hanare_fabric::tcp::{GreetedParts, TcpLink};
use hanare_fabric::{Link, Progress, Refusal, Sink};
use hanare_memory::Window;
use hanare_protocol::limits::QUEUE_BEGUN_COUNT_MAX;
use hanare_protocol::queue::QueueForm;
use hanare_protocol::queue::layout::{LINK_AT, WORD_LEN};
use hanare_protocol::queue::link::{LINK_ANSWER_COUNT, LINK_ANSWER_LEN, LinkWord, READER_LINK_COUNT, has_reached};
use hanare_protocol::wire::head::{Head, Kind, MAY_WAIT};
use hanare_protocol::wire::link::HandOver;
use hanare_protocol::wire::queue::{APPEND_FRONT_LEN, AppendFront, units};
use hanare_protocol::{Error, Result};
use hanare_ring::array::Array;
use hanare_ring::lane::{LaneLayout, Reader, Seen, Writer};
use hanare_ring::{Exchange, Shared, Words};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::cell::UnsafeCell;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// Links of a read port's writers.
pub(super) struct ReadLinks {
    socket: FrameSocket,
    /// The count of the home's news at which the socket was looked at.
    looked_at: Option<u64>,
    lanes: Vec<Option<LinkedLane>>,
    count: usize,
    /// Memory for bytes that go before appends. After the links.
    ahead: Option<LocalMapping>,
    /// Once the port has slept with links.
    watch: Option<BellWatch>,
}

/// A lane that had a link.
struct LinkedLane {
    /// Before the ring: it is read from there.
    link: Option<LaneLink>,
    ring: LinkRing,
}

/// Units that count and were not freed, in memory of this program. The words go before their memory.
struct LinkRing {
    writer: Writer<Shared>,
    reader: Reader<Shared>,
    _memory: Box<[UnsafeCell<u64>]>,
}

struct LaneLink {
    link: TcpLink,
    sink: AppendSink,
    said: HandOver,
    /// The number of the next unit.
    next: u64,
    /// Appends that were not answered, and their bytes.
    unanswered: u32,
    unanswered_len: usize,
}

/// An append that has come whole.
struct CameAppend {
    bytes: Vec<u8>,
    may_wait: bool,
    /// Units of it that are in the ring.
    taken: usize,
}

/// Sink of a link's bytes.
struct AppendSink {
    ahead: Option<Window>,
    len_max: usize,
    coming: Vec<u8>,
    came: VecDeque<CameAppend>,
    /// Bytes of those.
    came_len: usize,
    spare: Vec<Vec<u8>>,
    is_garbage: bool,
}

/// Memory of appends that is kept for those that come.
const SPARE_COUNT: usize = 4;

/// Result of a look at a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pumped {
    /// Going on.
    Open,
    /// Ended, or its lane was taken back.
    Ended,
}

// SAFETY: bodies go to a vector that stays as it is until the sink is called next, or to memory that `ReadLinks` keeps longer than the link.
unsafe impl Sink for AppendSink {
    fn place(&mut self, head: &Head, at: u64) -> Result<Window, Refusal> {
        match head.kind {
            Kind::Append if at == 0 && (APPEND_FRONT_LEN as u64..=self.len_max as u64).contains(&head.body_len) => {
                self.coming = self.spare.pop().unwrap_or_default();
                self.coming.resize(head.body_len as usize, 0);
                // SAFETY: the bytes stay where they are until all have come.
                Ok(unsafe { Window::of_mut(&mut self.coming) })
            }
            Kind::Ahead if at == 0 => {
                let memory = self
                    .ahead
                    .filter(|memory| head.detail.checked_add(head.body_len).is_some_and(|end| end <= memory.len() as u64));
                let memory = memory.ok_or_else(|| Refusal("bytes for memory that there is not".to_owned()))?;
                Ok(memory.slice(head.detail as usize, head.body_len as usize))
            }
            _ => Err(Refusal("what no writer of a queue sends".to_owned())),
        }
    }

    fn message(&mut self, head: &Head) {
        match head.kind {
            Kind::Append if head.body_len > 0 => {
                let (bytes, may_wait) = (std::mem::take(&mut self.coming), head.detail == MAY_WAIT);
                self.came_len += bytes.len();
                self.came.push_back(CameAppend { bytes, may_wait, taken: 0 });
            }
            Kind::Ahead if head.body_len > 0 => {}
            _ => self.is_garbage = true,
        }
    }

    fn may_begin(&self) -> bool {
        self.came.len() < QUEUE_BEGUN_COUNT_MAX && self.came_len < self.len_max
    }
}

impl AppendSink {
    fn new(ahead: Option<Window>, len_max: usize) -> AppendSink {
        let (coming, came, spare) = Default::default();
        AppendSink { ahead, len_max, coming, came, came_len: 0, spare, is_garbage: false }
    }
}

impl LinkRing {
    fn new(form: &QueueForm) -> Result<LinkRing, hanare_ring::Corrupt> {
        let form = QueueForm { ports: 1, ..*form };
        let memory: Box<[UnsafeCell<u64>]> = (0..form.queue_len().div_ceil(WORD_LEN)).map(|_| UnsafeCell::new(0)).collect();
        let len = memory.len() * WORD_LEN as usize;
        // SAFETY: the memory lives as long as the words, which are changed through the window alone; cells may be written to.
        let words = Shared::new(unsafe { Window::new(memory.as_ptr().cast_mut().cast(), len) });
        let place = LaneLayout::new(&form, 0, 0);
        Ok(LinkRing { writer: Writer::new(words, place)?, reader: Reader::new(words, place)?, _memory: memory })
    }
}

impl LaneLink {
    /// Takes what has come, as far as the ring has room. Returns whether any unit counts since.
    fn pump(&mut self, ring: &mut LinkRing, lane: &LaneOfLink<'_>, took: &mut bool) -> Pumped {
        let mut is_drained = false;
        loop {
            // Bytes of one that was taken back would go to memory that its writer gives others by now.
            if lane.word().generation != self.said.generation {
                return Pumped::Ended;
            }
            match self.take(ring, lane, took) {
                Ok(true) if is_drained => return Pumped::Open,
                Ok(true) => {}
                Ok(false) => return Pumped::Open,
                Err(reason) => {
                    tracing::warn!("a link of {} was closed: {reason}", self.said.peer);
                    return Pumped::Ended;
                }
            }
            let progress = self.link.progress(&mut self.sink);
            if let Ok(Progress { messages, received_len, .. }) = progress
                && received_len > 0
            {
                lane.traffic.received(messages, received_len);
            }
            match progress {
                Ok(_) if self.sink.is_garbage => return Pumped::Ended,
                Ok(progress) if progress.messages == 0 && !progress.has_more => return Pumped::Open,
                // To look again would be a system call.
                Ok(progress) => is_drained = progress.is_drained,
                Err(error) => {
                    tracing::debug!("a link of a queue's writer ended: {error}");
                    return Pumped::Ended;
                }
            }
        }
    }

    /// Commits appends that have come whole. False where the ring has no room. **Errors**: it is no append that comes next.
    fn take(&mut self, ring: &mut LinkRing, lane: &LaneOfLink<'_>, took: &mut bool) -> Result<bool, &'static str> {
        while let Some(append) = self.sink.came.front_mut() {
            let (front, rest) = AppendFront::decode(&append.bytes).map_err(|bad| bad.0)?;
            let is_next = front.seq.checked_add(append.taken as u64) == Some(self.next);
            if !is_next || front.queue != lane.queue || front.writer.0 != self.said.writer {
                return Err("an append that is not the next one");
            }
            let all = units(rest, lane.form).map_err(|bad| bad.0)?;
            let mut kept = 0;
            for unit in &all[append.taken..] {
                if !ring.writer.claim(unit.len()).map_err(|bad| bad.0)? {
                    break;
                }
                ring.writer.fill(0, unit);
                ring.writer.keep();
                kept += 1;
            }
            if kept > 0 && !lane.commit(self.said.generation, kept) {
                let _ = ring.writer.catch_up();
                return Err("its lane was taken back");
            }
            ring.writer.publish();
            (append.taken, self.next, *took) = (append.taken + kept as usize, self.next + u64::from(kept), *took || kept > 0);
            if append.taken < all.len() {
                return Ok(false);
            }
            let CameAppend { bytes, may_wait, .. } = self.sink.came.pop_front().expect("it was just seen");
            (self.unanswered, self.unanswered_len) = (self.unanswered + 1, self.unanswered_len + bytes.len());
            self.sink.came_len -= bytes.len();
            if self.sink.spare.len() < SPARE_COUNT {
                self.sink.spare.push(bytes);
            }
            if !may_wait || self.unanswered >= LINK_ANSWER_COUNT || self.unanswered_len >= LINK_ANSWER_LEN {
                self.answer();
            }
        }
        Ok(true)
    }

    /// Says how many units count. The link's end is told by its progress.
    fn answer(&mut self) {
        if std::mem::take(&mut self.unanswered) > 0 {
            self.unanswered_len = 0;
            // SAFETY: there is no body.
            let _ = unsafe { self.link.send(&Head::new(Kind::Appended, self.next), &[]) };
        }
    }
}

/// State of a linked lane that the reader shares with the queue's home.
struct LaneOfLink<'a> {
    array: &'a Array<Shared>,
    form: &'a QueueForm,
    queue: u64,
    word: usize,
    traffic: &'a FaultTraffic,
}

impl LaneOfLink<'_> {
    fn word(&self) -> LinkWord {
        LinkWord::decode(self.array.words().load(self.word))
    }

    /// Counts `units`, unless the lane was taken back.
    fn commit(&self, generation: u32, units: u32) -> bool {
        let old = self.word();
        // ORDERING: one order with the swap of the home, which reads how many count.
        old.commit(generation, units)
            .is_some_and(|new| self.array.words().compare_exchange(self.word, old.encode(), new.encode()).is_ok())
    }
}

impl ReadLinks {
    /// Links that come on a socket, to a queue with so many lanes.
    pub fn new(socket: FrameSocket, lanes: u32) -> ReadLinks {
        let lanes = (0..lanes).map(|_| None).collect();
        ReadLinks { socket, looked_at: None, lanes, count: 0, ahead: None, watch: None }
    }

    /// Bytes that go before appends land there.
    pub fn set_ahead(&mut self, memory: LocalMapping) {
        self.ahead = Some(memory);
    }

    /// True if any is open.
    pub fn are_open(&self) -> bool {
        self.count > 0
    }

    /// True if a lane's is open.
    pub fn is_open(&self, lane: usize) -> bool {
        self.lanes[lane].as_ref().is_some_and(|lane| lane.link.is_some())
    }

    /// The next unit that was not seen, and its lane.
    pub fn next(&mut self) -> Result<Option<(usize, Seen)>, hanare_ring::Corrupt> {
        for (number, lane) in self.lanes.iter_mut().enumerate() {
            if let Some(lane) = lane
                && let Some(seen) = lane.ring.reader.next()?
            {
                return Ok(Some((number, seen)));
            }
        }
        Ok(None)
    }

    /// Takes in links that were handed over, if the home's news say so, and what has come on all of them. `seen` is the position up to
    /// which a lane was seen. Returns true if any unit counts since.
    pub fn pump(&mut self, reach: &QueueReach, queue: u64, seen: impl Fn(usize) -> u64) -> Result<bool> {
        let Some(array) = reach.here()? else { return Ok(false) };
        let news = array.news(queue);
        if self.looked_at != Some(news) {
            self.looked_at = Some(news);
            self.take_in(reach.form());
        }
        let mut took = false;
        if self.count == 0 {
            return Ok(false);
        }
        for (number, lane) in self.lanes.iter_mut().enumerate() {
            let Some(LinkedLane { link: place @ Some(_), ring }) = lane else { continue };
            let link = place.as_mut().expect("it was just seen");
            if !has_reached(seen(number), link.said.tail) {
                continue;
            }
            let word = ((array.queue_at(queue) + reach.form().lane_at(number as u32) + LINK_AT) / WORD_LEN) as usize;
            let traffic = &*reach.region().shared.links;
            let lane = LaneOfLink { array, form: reach.form(), queue, word, traffic };
            if link.pump(ring, &lane, &mut took) == Pumped::Ended {
                *place = None;
                self.count -= 1;
            }
        }
        Ok(took)
    }

    #[cold]
    fn take_in(&mut self, form: &QueueForm) {
        loop {
            match self.socket.receive() {
                Ok(Some(mut frame)) => {
                    let link = frame.decode::<HandOver>().ok().zip(frame.fds.pop());
                    if let Some((said, fd)) = link
                        && let Err(error) = self.enter(form, said, fd)
                    {
                        tracing::debug!("a link of a queue's writer was closed: {error}");
                    }
                }
                Ok(None) => return,
                // The node has ended, which the next call says.
                Err(_) => return,
            }
        }
    }

    /// A link of a lane. It takes the place of an earlier one, from which the home has taken the lane back.
    fn enter(&mut self, form: &QueueForm, said: HandOver, fd: std::os::fd::OwnedFd) -> Result<(), String> {
        if self.count >= READER_LINK_COUNT {
            return Err("there are too many".to_owned());
        }
        let lane = self.lanes.get_mut(said.lane as usize).ok_or("there is no such lane")?;
        let handed = GreetedParts { fd, keys: said.keys, peer: said.peer.clone() };
        let link = TcpLink::adopt(handed).map_err(|error| error.to_string())?;
        // SAFETY: the mapping goes after the links.
        let ahead = self.ahead.as_ref().map(|memory| unsafe { memory.window() });
        let len_max = form.lane_len().saturating_add(APPEND_FRONT_LEN as u64);
        let len_max = usize::try_from(len_max).unwrap_or(usize::MAX);
        let sink = AppendSink::new(ahead, len_max);
        let next = said.accepted;
        let link = LaneLink { link, sink, said, next, unanswered: 0, unanswered_len: 0 };
        if let Some(lane) = lane {
            self.count -= usize::from(lane.link.replace(link).is_some());
        } else {
            let ring = LinkRing::new(form).map_err(|bad| bad.to_string())?;
            *lane = Some(LinkedLane { link: Some(link), ring });
        }
        self.count += 1;
        let added = self.watch.as_ref().map_or(Ok(()), |watch| self.watch_links(watch));
        added.map_err(|error| error.to_string())
    }

    fn links(&self) -> impl Iterator<Item = &LaneLink> {
        self.lanes.iter().flatten().filter_map(|lane| lane.link.as_ref())
    }

    /// Watches the links; already watched ones stay so.
    fn watch_links(&self, watch: &BellWatch) -> Result<()> {
        self.links().try_for_each(|link| watch.show_link(link.link.event()))
    }

    pub fn read(&self, lane: u32, seen: &Seen, at: usize, into: &mut [u8]) {
        self.ring(lane).reader.read(seen, at, into);
    }

    fn ring(&self, lane: u32) -> &LinkRing {
        &self.lanes[lane as usize].as_ref().expect("a unit was seen there").ring
    }

    pub fn free(&mut self, lane: u32, seen: &Seen) {
        let lane = self.lanes[lane as usize].as_mut().expect("a unit was seen there");
        lane.ring.reader.free(seen);
    }

    /// True if a unit was not seen.
    pub fn have_more(&mut self) -> Result<bool, hanare_ring::Corrupt> {
        for lane in self.lanes.iter_mut().flatten() {
            if lane.ring.reader.has_more()? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Makes what is to be waited for unable to end the next wait because of earlier news.
    pub fn clear(&self) {
        if let Some(watch) = &self.watch {
            watch.clear();
        }
    }

    /// Sleeps at the queue's bell, at which sleep was announced, and at all links, for `nap` at most.
    pub fn sleep(&mut self, reach: &Arc<QueueReach>, queue: u64, nap: Duration) -> Result<()> {
        // A writer that waits for a reply need not wait for the next unit.
        self.lanes.iter_mut().flatten().filter_map(|lane| lane.link.as_mut()).for_each(LaneLink::answer);
        if self.watch.is_none() {
            let mut watch = BellWatch::new(false)?;
            watch.add(reach.clone(), Some(queue))?;
            self.watch_links(&watch)?;
            self.watch = Some(watch);
        }
        let watch = self.watch.as_mut().expect("it was just made");
        watch.arm_here()?;
        let nap = Timespec { tv_sec: nap.as_secs() as i64, tv_nsec: i64::from(nap.subsec_nanos()) };
        // The next look says more than the outcome.
        let _ = poll(&mut [PollFd::new(watch.event(), PollFlags::IN)], Some(&nap));
        Ok(())
    }
}

/// The socket on which links come, and the end of it that goes to the node. **Errors**: [`Error::System`].
pub(super) fn socket_pair() -> Result<(FrameSocket, std::os::fd::OwnedFd)> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let pair = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None);
    let (own, other) = pair.map_err(|errno| Error::System { what: "make a socket".to_owned(), reason: errno.to_string() })?;
    Ok((FrameSocket::polled(own), other))
}

#[cfg(test)]
mod tests;
