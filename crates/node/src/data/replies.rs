//! Answers under way on one link: what is left of commands done, copies made, gets gathered, a stage at a time.
//!
//! One answer is made at a time, and its next stage is gathered when the one before has left, so that a client that
//! reads slowly holds one staging buffer and nobody up. While a copy waits for bytes of another node, or a command for pages that
//! hosts have, nothing else of this link is answered; others are.

use super::fetches::Fetch;
use super::gathering::{WINDOWS_AT_ONCE, copy_range, direct_len, gather, give};
use super::later::LaterAnswers;
use super::reach;
use super::work::Work;
use crate::extents::Extents;
use crate::lost::lost_memory;
use crate::pages::SealedReply;
use hanare_fabric::{Link, LinkError};
use hanare_home::Need;
use hanare_memory::Window;
use hanare_protocol::error::Happened;
use hanare_protocol::limits::{PAGE_LEN, STAGE_LEN};
use hanare_protocol::page::Access;
use hanare_protocol::wire::command::Op;
use hanare_protocol::wire::exchange::{Reply, granted_head};
use hanare_protocol::wire::head::{Head, Kind};
use hanare_protocol::{Error, Result};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Answers of up to this many bytes are gathered into one buffer, whatever their parts.
const SMALL_LEN: u64 = 1 << 10;

/// Bytes copied, filled or looked at before others get their turn; and blocks, each of which may be a line of memory of its own.
const WORK_LEN_AT_ONCE: u64 = 1 << 20;
const BLOCKS_AT_ONCE: u64 = 8192;

/// Blocks of at least this many bytes leave from where they lie.
const DIRECT_BLOCK_MIN: u64 = 1024;

/// How often a client that waits for long work hears that it goes on.
const SIGN_OF_LIFE: Duration = Duration::from_secs(1);

/// Failures remembered for clients that ask after their connection broke.
const FAILURES_MAX: usize = 256;

/// What goes out in answer to a message.
pub(crate) enum Response {
    /// Commands: what is left of them is done first, and their results are sent; where they `may_wait`, together with later ones.
    Work {
        work: Vec<Work>,
        may_wait: bool,
    },
    Reply(Reply),
    /// What was granted to a thread, and the pages that go with it.
    Granted(SealedReply),
}

#[derive(Default)]
pub(crate) struct Replies {
    /// Each with the number of its message.
    queue: VecDeque<(u64, Response)>,
    current: Option<Current>,
    /// Those that nobody waits for just now.
    later: LaterAnswers,
    /// Gathered bytes of gets, one filled while the other leaves; of full length once used.
    stages: [Vec<u8>; 2],
    /// Which is filled next.
    next_stage: usize,
    /// Bytes given to the link last: what was given before has left when no more than these are unsent.
    given_len: u64,
    /// A reply's bytes.
    small: Vec<u8>,
    /// What was granted to a thread, and the pages that go with it.
    granted: Option<SealedReply>,
    windows: Vec<Window>,
    /// Copies whose bytes another node has, for the service to fetch.
    pub fetches: Vec<Fetch>,
    /// Pages that the answer under way waits for, for the service to bring home.
    pub need: Option<Need>,
    /// The last request whose failure is not remembered any more.
    pub forgotten: u64,
    /// Requests that were refused, or failed: whether anything of them was done.
    failed: VecDeque<(u64, Happened)>,
}

/// What pumping brought.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Pumped {
    Nothing,
    Something,
    /// A stage of long work: others have their turn first.
    Work,
}

/// The answer that is being made.
struct Current {
    seq: u64,
    work: Vec<Work>,
    /// The command that comes next, and its byte that comes next.
    index: usize,
    at: u64,
    /// Fetches from other nodes under way.
    fetching: usize,
    /// Pages that are being brought home, and what for.
    pages: StagePages,
    failed: Option<Error>,
    /// Whether nobody waits for it just now.
    may_wait: bool,
    /// Whether the head has left.
    begun: bool,
    /// When the client last heard of it.
    heard: Instant,
}

/// What an answer waits for pages for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StagePages {
    Nothing,
    /// A stage of the first command that is left.
    Stage,
    /// The bytes of a copy up to there: to be read, and then to be written.
    Source {
        end: u64,
    },
    Target {
        end: u64,
    },
}

/// What is next of the commands that are left.
enum Step {
    Nothing,
    Done(Result<()>),
    Waits(Need),
}

impl Replies {
    pub fn push(&mut self, seq: u64, what: Response) {
        if let Response::Reply(Reply::Refused(error)) = &what {
            self.note_failure(seq, error.happened());
        }
        self.queue.push_back((seq, what));
    }

    fn note_failure(&mut self, seq: u64, happened: Happened) {
        self.failed.push_back((seq, happened));
        if self.failed.len() > FAILURES_MAX {
            self.forgotten = self.failed.pop_front().map_or(self.forgotten, |(seq, _)| seq);
        }
    }

    /// Hosts are about to map an extent: what was not begun on it, and each next stage, is done by pages.
    pub fn give_way(&mut self, extents: &Extents) {
        let queued =
            self.queue.iter_mut().filter_map(|(_, what)| if let Response::Work { work, .. } = what { Some(work) } else { None });
        let is_between = |current: &&mut Current| current.fetching == 0 && current.pages == StagePages::Nothing;
        let current = self.current.as_mut().filter(is_between).map(|current| &mut current.work);
        queued.chain(current).flatten().for_each(|work| work.give_way(extents));
    }

    /// Whether nothing is under way.
    pub fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.current.is_none()
    }

    /// Whether the answer under way waits for bytes of another node, or for pages.
    pub fn waits_for_others(&self) -> bool {
        self.current.as_ref().is_some_and(|current| current.fetching > 0 || current.pages != StagePages::Nothing)
    }

    /// What became of the requests that were not simply done: refused, or not yet done to the end.
    pub fn fates(&self) -> Vec<(u64, Happened)> {
        let is_left = |work: &[Work]| work.iter().any(Work::is_left);
        let failed = self.failed.iter().copied();
        let queued = self.queue.iter().filter(|(_, what)| matches!(what, Response::Work { work, .. } if is_left(work)));
        let current = self.current.iter().filter(|current| is_left(&current.work) || current.fetching > 0);
        let partly = queued.map(|(seq, _)| *seq).chain(current.map(|current| current.seq));
        failed.chain(partly.map(|seq| (seq, Happened::Unknown))).collect()
    }

    /// A fetch for the answer under way has ended.
    pub fn fetched(&mut self, outcome: Result<()>) {
        if let Some(current) = &mut self.current {
            current.fetching = current.fetching.saturating_sub(1);
            current.failed = current.failed.take().or(outcome.err());
        }
    }

    /// Pages that the answer under way waits for are at home, or will not come.
    pub fn recalled(&mut self, outcome: Result<()>) {
        let Some(current) = &mut self.current else { return };
        let pages = std::mem::replace(&mut current.pages, StagePages::Nothing);
        match outcome.map(|()| current.go_on(pages)) {
            Ok(Step::Waits(need)) => self.need = Some(need),
            Ok(Step::Done(done)) => current.failed = done.err(),
            Ok(Step::Nothing) => {}
            Err(error) => current.failed = Some(error),
        }
    }

    /// Whether an answer is under way, or comes next, that somebody waits for.
    fn is_awaited(&self) -> bool {
        let awaited = |what: &Response| !matches!(what, Response::Work { may_wait: true, .. });
        let next = || self.queue.front().is_some_and(|(_, what)| awaited(what));
        self.current.as_ref().map_or_else(next, |current| !current.may_wait)
    }

    /// Whether answers were held back for long enough.
    pub fn is_due(&self) -> bool {
        self.later.is_due()
    }

    /// Whether answers are held back.
    pub fn holds_back(&self) -> bool {
        !self.later.is_empty()
    }

    /// Before the thread sleeps: whether answers were held back, which go with the next turn.
    pub fn hurry(&mut self) -> bool {
        self.later.hurry()
    }

    /// Moves answers on as far as the link takes them.
    pub fn pump(&mut self, link: &mut dyn Link) -> Result<Pumped, LinkError> {
        let mut pumped = Pumped::Nothing;
        while self.may_go_on(link.unsent_len()) {
            if self.waits_for_others() {
                return Ok(pumped);
            }
            if !self.later.is_empty() && (self.later.is_due() || self.is_awaited()) {
                self.later.leave(link)?;
            } else if self.current.is_none() {
                let Some((seq, what)) = self.queue.pop_front() else { break };
                self.begin(seq, what, link)?;
            } else if self.step(link)? {
                return Ok(Pumped::Work);
            }
            pumped = Pumped::Something;
        }
        Ok(pumped)
    }

    /// What was given to the link must have left, since its buffers are used again; of an answer under way the last part may still leave.
    fn may_go_on(&self, unsent_len: u64) -> bool {
        let is_under_way = |current: &Current| current.begun && !current.is_at_end();
        unsent_len == 0 || (unsent_len <= self.given_len && self.current.as_ref().is_some_and(is_under_way))
    }

    /// Lets the client know that its request is being worked on.
    pub fn show_life(&mut self, link: &mut dyn Link) -> Result<(), LinkError> {
        let Some(current) = self.current.as_mut().filter(|current| !current.begun && link.unsent_len() == 0) else {
            return Ok(());
        };
        if current.heard.elapsed() < SIGN_OF_LIFE {
            return Ok(());
        }
        current.heard = Instant::now();
        // SAFETY: there is no body.
        unsafe { link.send(&Head::new(Kind::Working, current.seq), &[]) }
    }

    fn begin(&mut self, seq: u64, what: Response, link: &mut dyn Link) -> Result<(), LinkError> {
        match what {
            Response::Work { work, .. } if work.is_empty() => self.reply(link, seq, &Reply::Done),
            Response::Work { mut work, may_wait } => {
                let fetches = Fetch::all(&mut work);
                let fetching = fetches.len();
                self.fetches.extend(fetches);
                let heard = Instant::now();
                let (pages, failed) = (StagePages::Nothing, None);
                self.current =
                    Some(Current { seq, work, index: 0, at: 0, fetching, pages, failed, may_wait, begun: false, heard });
                Ok(())
            }
            Response::Reply(reply) => self.reply(link, seq, &reply),
            Response::Granted(answers) => {
                let granted = self.granted.insert(answers);
                self.windows.clear();
                // SAFETY: the records are not touched again before they have left.
                self.windows.push(unsafe { Window::of(&granted.records) });
                self.windows.extend_from_slice(&granted.pages);
                // SAFETY: the answers, which keep what is shown, are replaced only when the link has nothing unsent; the session drops
                // the link before them.
                unsafe { link.send(&granted_head(seq, granted.count, granted.pages_len()), &self.windows) }
            }
        }
    }

    fn refuse(&mut self, link: &mut dyn Link, seq: u64, error: Error) -> Result<(), LinkError> {
        self.reply(link, seq, &Reply::Refused(error))
    }

    fn reply(&mut self, link: &mut dyn Link, seq: u64, reply: &Reply) -> Result<(), LinkError> {
        let head;
        (head, self.small) = reply.encode(seq);
        // SAFETY: the buffer is used again only when the link has nothing unsent; the session drops the link before it.
        unsafe { link.send(&head, &[Window::of(&self.small)]) }
    }

    /// Does the next stage of the current answer. True when others should have their turn first.
    fn step(&mut self, link: &mut dyn Link) -> Result<bool, LinkError> {
        let current = self.current.as_mut().expect("the caller looked");
        let step = match current.failed.take() {
            Some(error) => Step::Done(Err(error)),
            None => current.work_some(),
        };
        match step {
            Step::Done(Ok(())) if current.is_short() => Ok(false),
            Step::Done(Ok(())) => {
                self.show_life(link)?;
                Ok(true)
            }
            Step::Waits(need) => {
                self.need = Some(need);
                Ok(true)
            }
            Step::Done(Err(error)) => {
                let seq = current.seq;
                self.current = None;
                self.note_failure(seq, Happened::Unknown);
                self.refuse(link, seq, error).map(|()| false)
            }
            Step::Nothing if current.may_wait && current.is_append() => {
                self.hold_back();
                Ok(false)
            }
            Step::Nothing => self.send_some(link).map(|()| false),
        }
    }

    fn hold_back(&mut self) {
        let current = self.current.take().expect("the caller looked");
        let result = current.work.into_iter().next().map(|work| work.result);
        self.later.hold(current.seq, result.unwrap_or_default());
    }

    fn send_some(&mut self, link: &mut dyn Link) -> Result<(), LinkError> {
        let current = self.current.as_mut().expect("the caller looked");
        let total: u64 = current.work.iter().map(Work::result_len).sum();
        self.windows.clear();
        let stage = &mut self.stages[self.next_stage];
        let gathered = match current.fill(stage, &mut self.windows, total) {
            Ok(gathered) => gathered,
            Err(error) => return self.fail(link, error),
        };
        if gathered > 0 {
            // SAFETY: the stage is filled again after the other one, when no more than that is unsent; the session drops the link first.
            self.windows.push(unsafe { Window::of(&stage[..gathered]) });
            self.next_stage = 1 - self.next_stage;
        }
        self.given_len = self.windows.iter().map(|window| window.len() as u64).sum();
        let begun = std::mem::replace(&mut current.begun, true);
        // SAFETY: windows of extents and of results are kept by `work`, which stays in `current` until the link has nothing unsent; the
        // stage as above.
        unsafe {
            match begun {
                true if self.windows.is_empty() => {}
                true => link.extend(&self.windows)?,
                false => link.send(&Head { body_len: total, ..Head::new(Kind::Done, current.seq) }, &self.windows)?,
            }
        }
        if current.is_at_end() && link.unsent_len() == 0 {
            self.current = None;
        }
        Ok(())
    }

    /// The memory went away while an answer was read from it: too late for a refusal if its head has left.
    fn fail(&mut self, link: &mut dyn Link, error: Error) -> Result<(), LinkError> {
        let current = self.current.take().expect("the caller looked");
        match current.begun {
            false => self.refuse(link, current.seq, error),
            true => Err(LinkError::System { what: "reading lent memory".to_owned(), reason: error.to_string() }),
        }
    }
}

/// Bytes of a command's stream that are done before others get their turn.
fn at_once(work: &Work) -> u64 {
    BLOCKS_AT_ONCE.saturating_mul(work.shape.shape().block().max(1)).min(WORK_LEN_AT_ONCE)
}

impl Current {
    /// Whether it is an append alone: its answer is short, and the node's to keep.
    fn is_append(&self) -> bool {
        matches!(&self.work[..], [only] if matches!(only.op, Op::Append { .. }))
    }

    /// Whether it is one command of few bytes, behind one that was done as its bytes came or alone: its answer may follow in the same turn.
    fn is_short(&self) -> bool {
        matches!(&self.work[..], [last] | [Work { op: Op::Put, .. }, last] if last.len() <= PAGE_LEN)
    }

    fn is_at_end(&self) -> bool {
        self.index >= self.work.len()
    }

    /// Does a stage of the first command that is left, or says what pages it needs.
    fn work_some(&mut self) -> Step {
        let Some(index) = self.work.iter().position(Work::is_left) else { return Step::Nothing };
        let work = &mut self.work[index];
        if matches!(work.op, Op::CopyFrom { .. }) {
            let end = (self.at + at_once(work)).min(work.len());
            return self.copy_some(index, end);
        }
        if !work.is_by_pages() {
            return Step::Done(work.step(at_once(work)));
        }
        self.pages = StagePages::Stage;
        Step::Waits(work.next_need(at_once(work)))
    }

    /// Goes on with what waited for pages.
    fn go_on(&mut self, pages: StagePages) -> Step {
        let Some(index) = self.work.iter().position(Work::is_left) else { return Step::Nothing };
        match pages {
            StagePages::Nothing => Step::Nothing,
            StagePages::Stage => Step::Done(self.work[index].step_by_pages().map_err(|lost| lost_memory(&lost))),
            StagePages::Source { end } => self.copy_to(index, end),
            StagePages::Target { end } => Step::Done(self.copy_now(index, end)),
        }
    }

    /// Copies the next bytes, at most up to `end`: those that are read come home first, then those that are written.
    fn copy_some(&mut self, index: usize, end: u64) -> Step {
        let from = &self.work[index];
        if !from.is_by_pages() {
            return self.copy_to(index, end);
        }
        let (len, need) = reach::need(from.opened(), &from.shape, (self.at, end - self.at, 1), Access::Read);
        self.pages = StagePages::Source { end: self.at + len };
        Step::Waits(need)
    }

    fn copy_to(&mut self, index: usize, end: u64) -> Step {
        let to = &self.work[index + 1];
        if !to.is_by_pages() {
            return Step::Done(self.copy_now(index, end));
        }
        let (len, need) = reach::need(to.opened(), &to.shape, (self.at, end - self.at, 1), Access::Write);
        self.pages = StagePages::Target { end: self.at + len };
        Step::Waits(need)
    }

    fn copy_now(&mut self, index: usize, end: u64) -> Result<()> {
        let copied = copy_range(&self.work[index], &self.work[index + 1], self.at, end);
        self.at = end;
        if end == self.work[index].len() {
            self.work[index].finish();
            self.at = 0;
        }
        copied
    }

    /// Gives the next windows, or gathers into the stage; returns the bytes gathered. Windows and gathered bytes never mix in one call.
    fn fill(&mut self, stage: &mut Vec<u8>, windows: &mut Vec<Window>, total: u64) -> Result<usize> {
        stage.resize(STAGE_LEN, 0);
        let (mut gathered, mut most) = (0, STAGE_LEN);
        while let Some(work) = self.work.get(self.index) {
            let left = work.result_len() - self.at;
            if left == 0 {
                (self.index, self.at) = (self.index + 1, 0);
                continue;
            }
            let is_direct = total > SMALL_LEN && direct_len(work) >= DIRECT_BLOCK_MIN;
            if is_direct && gathered > 0 {
                break;
            } else if is_direct {
                self.at += give(work, self.at, windows);
            } else if !windows.is_empty() || gathered >= most {
                break;
            } else {
                most = most.min(gathered + at_once(work) as usize);
                let len = (left as usize).min(most - gathered);
                gather(work, self.at, &mut stage[gathered..gathered + len])?;
                gathered += len;
                self.at += len as u64;
            }
            if windows.len() as u64 >= WINDOWS_AT_ONCE {
                break;
            }
        }
        while self.work.get(self.index).is_some_and(|work| self.at == work.result_len()) {
            (self.index, self.at) = (self.index + 1, 0);
        }
        Ok(gathered)
    }
}
