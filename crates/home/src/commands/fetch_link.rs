//! Fetches over a link to one other node. They decide where the bytes of its replies belong, when they wait for pages, and which nobody
//! wants.
//!
//! ```text
//! FetchLink::ask(fetch)                  sent to the node that has the bytes, as gets of a client
//! FetchLink::place(head, at, stage)      where the next bytes of a reply belong: the driver receives them there
//!   └─ need() ──> pages that hosts have come home ──> recalled()
//! FetchLink::message(head, front, stage) the reply is whole
//! FetchLink::take_ended()                who goes on
//! ```
//!
//! The node replies in the order in which it was asked. Bytes of an extent that hosts map go through the stage, and wait there until their
//! pages are at home. Nothing more is received over the link meanwhile.

use super::destination::Destination;
use super::fetch::{Fetch, FetchTarget};
use super::memory::CommandExtent;
use super::stage_pages::{runs, stage_pages};
use crate::memory::Need;
use hanare_protocol::limits::STAGE_LEN;
use hanare_protocol::page::Access;
use hanare_protocol::wire::Malformed;
use hanare_protocol::wire::copies::ExtentWrite;
use hanare_protocol::wire::exchange::Reply;
use hanare_protocol::wire::head::{Head, Kind};
use hanare_protocol::{Error, Result};
use std::collections::VecDeque;
use std::time::Duration;

/// A fetch that has ended, and whose it was.
#[derive(Debug)]
pub struct EndedFetch {
    /// The link whose commands wait for it.
    pub session: u64,
    /// The error says why the bytes are not all in their place.
    pub outcome: Result<()>,
}

/// Reason of a pause in received bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pause {
    Nothing,
    /// Pages that nobody was asked for yet.
    Unasked,
    /// Pages of that many bytes are wanted.
    Asked(u64),
}

/// The fetches over a link to another node.
#[derive(Debug)]
pub struct FetchLink<E> {
    waiting: VecDeque<WaitingFetch<E>>,
    /// The number of the last request.
    asked: u64,
    /// When the node gave its last sign of life, or had no request before.
    heard: Duration,
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
    /// A reply that is whole but for those.
    whole: Option<Head>,
    failed: Option<Error>,
    ended: Vec<EndedFetch>,
    /// Replied to, but perhaps not all sent. A node may reply early, and the link still shows what it was to send.
    spent: Vec<Fetch<E>>,
}

#[derive(Debug)]
struct WaitingFetch<E> {
    seq: u64,
    session: u64,
    /// True while the session lives.
    is_wanted: bool,
    fetch: Fetch<E>,
}

impl<E> Default for FetchLink<E> {
    fn default() -> FetchLink<E> {
        FetchLink {
            waiting: VecDeque::new(),
            asked: 0,
            heard: Duration::ZERO,
            is_begun: false,
            target: 0,
            at: 0,
            staged_len: 0,
            settled_len: 0,
            wait: Pause::Nothing,
            whole: None,
            failed: None,
            ended: Vec::new(),
            spent: Vec::new(),
        }
    }
}

impl<E: CommandExtent> FetchLink<E> {
    /// Asks for bytes on behalf of a session. Returns the head of the request, whose body are the commands and the lists of the fetch. They
    /// stay where they are until [`FetchLink::sent`], or until this is dropped.
    pub fn ask(&mut self, now: Duration, session: u64, fetch: Fetch<E>) -> (Head, &Fetch<E>) {
        self.asked += 1;
        if self.waiting.is_empty() {
            self.heard = now;
        }
        let body_len = (fetch.commands.len() + fetch.lists.len()) as u64;
        let head = Head { count: fetch.command_count(), body_len, ..Head::new(Kind::Commands, self.asked) };
        self.waiting.push_back(WaitingFetch { seq: self.asked, session, is_wanted: true, fetch });
        (head, &self.waiting.back().expect("just pushed").fetch)
    }

    /// All that was asked for has left the link.
    pub fn sent(&mut self) {
        self.spent.clear();
    }

    /// Something came over the link.
    pub fn heard(&mut self, now: Duration) {
        self.heard = now;
    }

    /// The fetches that have ended since it was asked last.
    pub fn take_ended(&mut self) -> Vec<EndedFetch> {
        std::mem::take(&mut self.ended)
    }

    /// A session has ended: what it waits for is written nowhere. Returns false where its bytes may be on their way into an extent. The
    /// link must be dropped, and what others wait for ([`FetchLink::others`]) asked for anew.
    #[must_use]
    pub fn cancel(&mut self, session: u64) -> bool {
        let is_begun = self.is_begun && self.waiting.front().is_some_and(|waiting| waiting.session == session);
        let theirs = self.waiting.iter_mut().filter(|waiting| waiting.session == session);
        theirs.for_each(|waiting| waiting.is_wanted = false);
        !is_begun
    }

    /// Fetches of sessions that live, once the link is dropped.
    pub fn others(self) -> Vec<(u64, Fetch<E>)> {
        let wanted = self.waiting.into_iter().filter(|waiting| waiting.is_wanted);
        wanted.map(|waiting| (waiting.session, waiting.fetch)).collect()
    }

    /// The fetches of a link that was dropped fail.
    pub fn fail(self, error: &Error) -> Vec<EndedFetch> {
        let failed = self.waiting.iter().map(|waiting| EndedFetch { session: waiting.session, outcome: Err(error.clone()) });
        self.ended.into_iter().chain(failed).collect()
    }

    /// The session whose bytes come next, if it lives.
    pub fn session(&self) -> Option<u64> {
        self.waiting.front().filter(|waiting| waiting.is_wanted).map(|waiting| waiting.session)
    }

    /// Returns true if no request is out.
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Returns true if the node gave no sign of life for `bound` while a request was out.
    pub fn is_silent(&self, now: Duration, bound: Duration) -> bool {
        !self.is_idle() && !self.waits_for_pages() && now.saturating_sub(self.heard) >= bound
    }

    /// Returns true if received bytes wait for pages.
    pub fn waits_for_pages(&self) -> bool {
        self.wait != Pause::Nothing
    }

    /// Returns true if the link may begin to receive a further message.
    pub fn may_begin(&self) -> bool {
        self.whole.is_none()
    }

    /// Pages that received bytes wait for; told once.
    pub fn need(&mut self) -> Option<Need> {
        if self.wait != Pause::Unasked {
            return None;
        }
        let left = (self.staged_len - self.settled_len) as u64;
        let target = self.current().expect("a stage is filled for somebody");
        let (len, need) = stage_pages(&target.extent, &target.shape, (self.at, left, 1), Access::Write);
        self.wait = Pause::Asked(len);
        Some(need)
    }

    /// The write of the bytes that [`FetchLink::need`] has told of, where their extent has copies.
    pub fn write_of_stage(&self, stage: &[u8]) -> Option<ExtentWrite> {
        let Pause::Asked(len) = self.wait else { return None };
        let target = self.current().filter(|target| target.extent.has_copies())?;
        let operand = stage[self.settled_len..][..len as usize].to_vec();
        let once = target.call.map(|first| first.behind(self.at));
        Some(ExtentWrite { once, ..ExtentWrite::put(runs(&target.shape, self.at, len).collect(), operand) })
    }

    /// The write of [`FetchLink::write_of_stage`] was done by all copies and the home, or was not, or may not be.
    pub fn applied(&mut self, now: Duration, outcome: Result<()>) {
        self.heard = now;
        let Pause::Asked(len) = std::mem::replace(&mut self.wait, Pause::Nothing) else { return };
        self.failed = self.failed.take().or(outcome.err());
        self.settle_some(len);
        self.go_on();
    }

    /// The pages of [`FetchLink::need`] are at home, or will not come.
    pub fn recalled(&mut self, now: Duration, outcome: Result<()>, stage: &[u8]) {
        self.heard = now;
        let Pause::Asked(len) = std::mem::replace(&mut self.wait, Pause::Nothing) else { return };
        match outcome {
            Ok(()) => self.write(len, stage),
            Err(error) => {
                self.failed = self.failed.take().or(Some(error));
                self.settle_some(len);
            }
        }
        self.go_on();
    }

    /// Goes on with the rest of the stage, or ends a reply that is whole.
    fn go_on(&mut self) {
        if self.staged_len > 0 {
            self.wait = Pause::Unasked;
        } else if let Some(head) = self.whole.take() {
            self.end(&head, &[]);
        }
    }

    /// The target whose bytes come.
    pub fn current(&self) -> Option<&FetchTarget<E>> {
        self.waiting.front()?.fetch.targets.get(self.target)
    }

    /// The place of a reply's bytes from byte `at` of its body on. `Extent` is of [`FetchLink::current`], and `Front` holds a refusal.
    ///
    /// **Errors**: [`Malformed`] ends the link.
    pub fn place(&mut self, head: &Head, at: u64, stage: &[u8]) -> Result<Destination, Malformed> {
        let waiting = self.waiting.front().filter(|waiting| waiting.seq == head.seq);
        let waiting = waiting.ok_or(Malformed("a reply to nothing that was asked"))?;
        match head.kind {
            Kind::Done if head.body_len != waiting.fetch.stream_len() => {}
            // The session has ended.
            Kind::Done if !waiting.is_wanted => return Ok(Destination::Nowhere((head.body_len - at).min(STAGE_LEN as u64))),
            Kind::Done => {
                if at == 0 {
                    self.is_begun = true;
                    (self.target, self.at) = (0, 0);
                } else {
                    self.settle(stage);
                }
                return if self.wait == Pause::Nothing { self.place_bytes() } else { Ok(Destination::Later) };
            }
            Kind::Refused if at == 0 => return Ok(Destination::Front(head.body_len)),
            _ => {}
        }
        Err(Malformed("a reply of another length than was asked for"))
    }

    fn place_bytes(&mut self) -> Result<Destination, Malformed> {
        while self.current().is_some_and(|target| self.at == target.shape.len()) {
            (self.target, self.at) = (self.target + 1, 0);
        }
        let target = self.current().ok_or(Malformed("more bytes than were asked for"))?;
        let left = target.shape.len() - self.at;
        if let Some((offset, _)) = target.shape.range().filter(|_| target.extent.stays()) {
            let offset = offset + self.at;
            self.at += left;
            return Ok(Destination::Extent { offset, len: left });
        }
        self.staged_len = left.min(STAGE_LEN as u64) as usize;
        Ok(Destination::Stage(self.staged_len as u64))
    }

    /// All bytes of a message are here. `front` holds a refusal.
    pub fn message(&mut self, head: &Head, front: &[u8], stage: &[u8]) {
        if head.kind == Kind::Working || self.waiting.front().is_none_or(|waiting| waiting.seq != head.seq) {
            return;
        }
        self.settle(stage);
        match self.wait {
            Pause::Nothing => self.end(head, front),
            Pause::Unasked | Pause::Asked(_) => self.whole = Some(*head),
        }
    }

    /// Writes what the stage holds where it belongs, unless it has to wait.
    fn settle(&mut self, stage: &[u8]) {
        if self.staged_len == 0 || self.wait != Pause::Nothing {
            return;
        }
        if self.current().is_some_and(|target| target.extent.is_by_pages()) {
            self.wait = Pause::Unasked;
        } else {
            self.write(self.staged_len as u64, stage);
        }
    }

    /// Writes the next `len` bytes of the stage.
    fn write(&mut self, len: u64, stage: &[u8]) {
        let target = self.current().expect("a stage is filled for somebody");
        let bytes = &stage[self.settled_len..][..len as usize];
        if let Err(error) = target.extent.write_stream(&target.shape, self.at, bytes) {
            self.failed = self.failed.take().or(Some(error));
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

    /// All of a reply is where it belongs.
    fn end(&mut self, head: &Head, front: &[u8]) {
        self.is_begun = false;
        let WaitingFetch { session, fetch, .. } = self.waiting.pop_front().expect("just seen");
        let outcome = self.outcome(head, front, fetch.stream_len());
        self.ended.push(EndedFetch { session, outcome });
        self.spent.push(fetch);
    }

    fn outcome(&mut self, head: &Head, front: &[u8], len: u64) -> Result<()> {
        let garbage = |reason: &str| Error::Garbage { peer: "another node".to_owned(), reason: reason.to_owned() };
        match Reply::decode(head, front) {
            Ok(Reply::Refused(error)) => Err(error),
            Ok(Reply::Done) if head.body_len == len => self.failed.take().map_or(Ok(()), Err),
            Ok(_) => Err(garbage("an answer that fits nothing that was asked")),
            Err(malformed) => Err(garbage(malformed.0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Bytes;
    use crate::pages::VectorPages;
    use crate::vectors::{Vector, Vectors};
    use hanare_protocol::id::{Gid, NodeId};
    use hanare_protocol::limits::PAGE_LEN;
    use hanare_protocol::shape::{Shape, Strided};
    use hanare_protocol::wire::control;

    const NOW: Duration = Duration::from_secs(1);
    const BOUND: Duration = Duration::from_secs(10);

    /// A fetch into the bytes of shapes.
    fn fetch(extent: &Vector, shapes: Vec<Shape<'static>>) -> Fetch<Vector> {
        let target = |shape: Shape<'static>| FetchTarget {
            extent: extent.clone(),
            shape: shape.check("r", extent.len_bytes()).unwrap(),
            call: None,
        };
        let targets = shapes.into_iter().map(target).collect();
        Fetch { address: "there".to_owned(), node: NodeId(1), commands: Vec::new(), lists: Vec::new(), targets }
    }

    fn done(seq: u64, body_len: u64) -> Head {
        Head { body_len, ..Head::new(Kind::Done, seq) }
    }

    /// Receives a reply of bytes of ones up to where they wait. Returns the number received.
    fn receive(link: &mut FetchLink<Vector>, head: &Head, from: u64, stage: &mut [u8]) -> u64 {
        let mut at = from;
        while at < head.body_len {
            at += match link.place(head, at, stage).unwrap() {
                Destination::Extent { offset, len } => {
                    link.current().unwrap().extent.write(offset, &vec![1; len as usize]).unwrap();
                    len
                }
                Destination::Stage(len) => {
                    stage[..len as usize].fill(1);
                    len
                }
                Destination::Nowhere(len) => len,
                Destination::Later => return at,
                other => panic!("{other:?}"),
            };
        }
        link.message(head, &[], stage);
        at
    }

    fn ones(extent: &Vector, offset: u64, len: u64) -> bool {
        let mut bytes = vec![0; len as usize];
        extent.read(offset, &mut bytes).unwrap();
        bytes.iter().all(|byte| *byte == 1)
    }

    #[test]
    fn bytes_of_an_extent_that_hosts_map_wait_for_their_pages() {
        let len = STAGE_LEN as u64 + PAGE_LEN;
        let (_, extent) = Vectors::of_pages(Gid(1), len / PAGE_LEN, VectorPages::default());
        let (mut link, mut stage) = (FetchLink::default(), vec![0; STAGE_LEN]);
        link.ask(NOW, 7, fetch(&extent, vec![Shape::contiguous(0, len)]));
        let head = done(1, len);
        assert_eq!(receive(&mut link, &head, 0, &mut stage), STAGE_LEN as u64, "the rest stays with the link");
        let need = link.need().unwrap();
        assert_eq!((need.access, need.pages.len() as u64), (Access::Write, STAGE_LEN as u64 / PAGE_LEN));
        assert!(link.need().is_none(), "it is told once");
        assert!(!ones(&extent, 0, 1) && !link.is_silent(NOW + 2 * BOUND, BOUND), "who waits for pages is not waited for");
        link.recalled(NOW + 2 * BOUND, Ok(()), &stage);
        assert!(ones(&extent, 0, STAGE_LEN as u64) && !link.waits_for_pages());

        assert_eq!(receive(&mut link, &head, STAGE_LEN as u64, &mut stage), len);
        assert!(link.take_ended().is_empty() && !link.may_begin(), "its last page is to be written");
        assert_eq!(link.need().unwrap().pages, [STAGE_LEN as u64 / PAGE_LEN]);
        let lost = Error::NodeLost { node: NodeId(3), reason: "gone".to_owned() };
        link.recalled(NOW + 2 * BOUND, Err(lost.clone()), &stage);
        let ended = link.take_ended();
        assert!(matches!(&ended[..], [EndedFetch { session: 7, outcome: Err(error) }] if *error == lost), "{ended:?}");
        assert!(link.is_idle() && link.may_begin());
    }

    #[test]
    fn a_session_s_end_cancels_what_has_not_begun_and_drops_the_link_under_what_has() {
        let (_, extent) = Vectors::of(Gid(1), 4096);
        let (mut link, mut stage) = (FetchLink::default(), vec![0; STAGE_LEN]);
        let ask = |link: &mut FetchLink<Vector>, session| {
            link.ask(NOW, session, fetch(&extent, vec![Shape::contiguous(8 * session, 8)]));
        };
        (1..=3).for_each(|session| ask(&mut link, session));
        assert!(link.cancel(1), "nothing of it has a place");
        assert_eq!((link.session(), receive(&mut link, &done(1, 8), 0, &mut stage)), (None, 8));
        assert!(!ones(&extent, 8, 1) && link.take_ended().len() == 1);
        assert!(matches!(link.place(&done(2, 8), 0, &stage), Ok(Destination::Extent { offset: 16, len: 8 })));
        assert!(link.cancel(3));
        ask(&mut link, 4);
        assert!(!link.cancel(2), "the link has a window of the extent");
        let others: Vec<u64> = link.others().into_iter().map(|(session, _)| session).collect();
        assert_eq!(others, [4]);
    }

    #[test]
    fn replies_that_fit_nothing_end_the_link_or_their_fetch() {
        let (_, extent) = Vectors::of(Gid(1), 4096);
        let (mut link, mut stage) = (FetchLink::default(), vec![0; STAGE_LEN]);
        assert!(link.place(&done(1, 8), 0, &stage).is_err(), "nothing was asked");
        let shape: Shape<'static> = Strided { offset: 0, block: 8, count: 4, stride: 16 }.into();
        link.ask(NOW, 1, fetch(&extent, vec![shape, Shape::contiguous(512, 8)]));
        link.ask(NOW, 2, fetch(&extent, vec![Shape::contiguous(1024, 8)]));
        assert!(link.place(&done(1, 48), 0, &stage).is_err() && link.place(&done(2, 8), 0, &stage).is_err());
        assert!(!link.is_silent(NOW + BOUND / 2, BOUND) && link.is_silent(NOW + BOUND, BOUND));
        assert_eq!(receive(&mut link, &done(1, 40), 0, &mut stage), 40);
        assert!((0..4).all(|block| ones(&extent, 16 * block, 8) && !ones(&extent, 16 * block + 8, 1)) && ones(&extent, 512, 8));
        let refusal = control::encode(&Error::SecondReader { queue: "q".to_owned() });
        let head = Head { body_len: refusal.len() as u64, ..Head::new(Kind::Refused, 2) };
        assert_eq!(link.place(&head, 0, &stage).unwrap(), Destination::Front(head.body_len));
        link.message(&head, &refusal, &stage);
        let outcomes: Vec<_> = link.take_ended().into_iter().map(|ended| ended.outcome).collect();
        assert!(matches!(&outcomes[..], [Ok(()), Err(Error::SecondReader { .. })]), "{outcomes:?}");
    }
}
