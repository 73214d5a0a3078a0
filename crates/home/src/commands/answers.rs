//! Answers under way on one link. A stage at a time, commands are done, copies made and results sent.
//!
//! A link makes one answer at a time, and gathers its next stage when the one before has left. So a client that reads slowly holds one
//! staging buffer, and keeps no other client waiting. While a copy waits for bytes of another node, or a command for pages of hosts,
//! nothing else of this link is answered. Other links are. Appends to one extent with copies wait for these together, and have their answers in
//! their order.

use super::ahead::WritesAhead;
use super::command::AdmittedCommand;
use super::current::{Current, Filling, Part, Step};
use super::fetch::Fetch;
use super::later::LaterAnswers;
use super::memory::{CommandMemory, Execution};
use crate::memory::Need;
use hanare_protocol::error::Happened;
use hanare_protocol::wire::copies::ExtentWrite;
use hanare_protocol::wire::exchange::Reply;
use hanare_protocol::{Error, Result};
use std::collections::VecDeque;
use std::time::Duration;

/// Time between signs of life to a client that waits for long work.
const SIGN_OF_LIFE: Duration = Duration::from_secs(1);

/// Failures remembered for clients that ask after their connection broke.
const FAILURES_MAX: usize = 256;

/// Content of a reply to a message. `G` is the driver's grants to threads.
#[allow(clippy::large_enum_variant, reason = "a reply is moved once, and on the heap each command would cost an allocation")]
pub enum Response<M: CommandMemory, G> {
    /// Commands: what is left of them is done first, and their results are sent.
    Commands {
        /// The commands.
        commands: Vec<AdmittedCommand<M>>,
        /// True if no client waits for the reply at present: it may go together with later ones.
        may_wait: bool,
    },
    /// Anything else.
    Reply(Reply),
    /// Pages, and what was granted to a thread.
    Granted(G),
}

/// Next action of a link's driver, with the number of the message that is answered.
#[allow(clippy::large_enum_variant, reason = "a reply is moved once, and on the heap each command would cost an allocation")]
pub enum Next<G> {
    /// No action, before something else happens.
    Nothing,
    /// A step was made: it asks again.
    Again,
    /// A stage of long work was done, or waits for others: other links have their turn first.
    Others,
    /// Send the delayed replies: [`Answers::leave`].
    Later,
    /// Send a reply.
    Reply(u64, Reply),
    /// Send a grant.
    Granted(u64, G),
    /// Send the next bytes of the reply under way: [`Answers::begin_parts`].
    Send,
}

/// The answers of one link.
pub struct Answers<M: CommandMemory, G> {
    /// Each with the number of its message.
    queue: VecDeque<(u64, Response<M, G>)>,
    current: Option<Current<M>>,
    /// Appends that wait for copies together. The first `applied_count` of them have their outcomes.
    appends: VecDeque<Current<M>>,
    applied_count: usize,
    /// Replies that no client waits for at present.
    later: LaterAnswers<<M::Execution as Execution>::Result>,
    /// Bytes given to the link last: what was given before has left when no more than these are unsent.
    given_len: u64,
    /// True if others have their turn before more of the answer under way is given.
    others_first: bool,
    /// True while programs of several users want turns: stages are short.
    pub(super) is_shared: bool,
    /// Copies whose bytes another node has, for the driver to fetch.
    fetches: Vec<Fetch<M::Extent>>,
    /// Pages that the answer under way waits for, for the driver to bring home.
    need: Option<Need>,
    /// Writes to copies that are under way.
    pub(super) ahead: WritesAhead,
    /// The last request whose failure is not remembered any more.
    forgotten: u64,
    /// Requests that were refused, or failed: whether anything of them was done.
    failed: VecDeque<(u64, Happened)>,
}

impl<M: CommandMemory, G> Default for Answers<M, G> {
    fn default() -> Answers<M, G> {
        Answers {
            queue: VecDeque::new(),
            current: None,
            appends: VecDeque::new(),
            applied_count: 0,
            later: LaterAnswers::default(),
            given_len: 0,
            others_first: false,
            is_shared: false,
            fetches: Vec::new(),
            need: None,
            ahead: WritesAhead::default(),
            forgotten: 0,
            failed: VecDeque::new(),
        }
    }
}

impl<M: CommandMemory, G> Answers<M, G> {
    /// A message is to be answered, behind those before it.
    pub fn push(&mut self, seq: u64, what: Response<M, G>) {
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

    /// Hosts are about to map an extent. What was not begun on it, and each next stage, is done by pages.
    pub(super) fn give_way(&mut self, memory: &M) {
        let queued = self.queue.iter_mut().filter_map(|(_, what)| match what {
            Response::Commands { commands, .. } => Some(commands),
            Response::Reply(_) | Response::Granted(_) => None,
        });
        let current = self.current.as_mut().filter(|current| !current.waits()).map(|current| &mut current.commands);
        queued.chain(current).flatten().for_each(|command| command.give_way(memory));
    }

    /// Returns true when nothing is under way.
    pub fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.current.is_none()
    }

    /// Returns true while the answer under way waits for bytes of another node, for pages, or for writes of copies.
    pub fn waits_for_others(&self) -> bool {
        self.current.as_ref().is_some_and(Current::waits) || self.is_behind_writes()
    }

    /// Returns true while appends wait for copies, or their answers for their turn.
    pub fn has_appends(&self) -> bool {
        !self.appends.is_empty()
    }

    /// Returns true if the next answer waits for writes that are under way. A stage that the same copies have next does not wait for them.
    fn is_behind_writes(&self) -> bool {
        if self.ahead.extent().is_none() || self.is_idle() {
            return false;
        }
        let commands = match (&self.current, self.queue.front()) {
            (Some(current), _) => &current.commands[..],
            (None, Some((_, Response::Commands { commands, .. }))) => commands,
            (None, _) => &[],
        };
        if !self.appends.is_empty() {
            return self.current.is_none() && !self.ahead.admits_append(commands);
        }
        let next = commands.iter().find(|command| command.is_left());
        !next.is_some_and(|command| self.ahead.admit(command))
    }

    /// The requests that were refused or are not wholly done, with their outcomes, and the last request that is forgotten.
    pub(super) fn fates(&self) -> (Vec<(u64, Happened)>, u64) {
        let is_left = |commands: &[AdmittedCommand<M>]| commands.iter().any(AdmittedCommand::is_left);
        let queued = self.queue.iter();
        let queued = queued.filter(|(_, what)| matches!(what, Response::Commands { commands, .. } if is_left(commands)));
        let current = self.appends.iter().chain(&self.current);
        let current = current.filter(|current| is_left(&current.commands) || current.fetching > 0);
        let partly = queued.map(|(seq, _)| *seq).chain(current.map(|current| current.seq));
        let failed = self.failed.iter().copied();
        (failed.chain(partly.map(|seq| (seq, Happened::Unknown))).collect(), self.forgotten)
    }

    /// Copies whose bytes another node has; told once.
    pub fn take_fetches(&mut self) -> Vec<Fetch<M::Extent>> {
        std::mem::take(&mut self.fetches)
    }

    /// Pages that the answer under way waits for; told once.
    pub(super) fn need(&mut self) -> Option<Need> {
        self.need.take()
    }

    /// A fetch for the answer under way has ended.
    pub fn fetched(&mut self, outcome: Result<()>) {
        if let Some(current) = &mut self.current {
            current.fetching = current.fetching.saturating_sub(1);
            current.failed = current.failed.take().or(outcome.err());
        }
    }

    /// The write that the answer under way waits for, where the stage's extent has copies.
    pub(super) fn write(&self) -> Result<Option<ExtentWrite>> {
        self.current.as_ref().map_or(Ok(None), Current::write)
    }

    /// The write that the answer under way waits for was given to its home. Returns true if further appends may come before it is applied.
    pub(super) fn append_goes_ahead(&mut self, write: &ExtentWrite) -> bool {
        let goes_ahead = |current: &mut Current<M>| current.is_append() && self.ahead.add(&current.commands[0], write);
        let Some(current) = self.current.take_if(goes_ahead) else { return false };
        self.appends.push_back(current);
        true
    }

    /// The first append under way has its outcome.
    pub(super) fn append_applied(&mut self, outcome: Result<Vec<u8>>) {
        let Some(append) = self.appends.get_mut(self.applied_count) else { return };
        self.applied_count += 1;
        append.failed = append.applied(outcome).err();
    }

    /// All copies and the home have done the stage that the answer under way waits for.
    pub(super) fn set_applied(&mut self, olds: Vec<u8>) {
        if let Some(current) = &mut self.current {
            current.set_applied(olds);
        }
    }

    /// Pages that the answer under way waits for are at home, or will not come.
    pub(super) fn recalled(&mut self, outcome: Result<()>) {
        let Some(current) = &mut self.current else { return };
        if let Err(error) = outcome {
            return current.fail_wait(error);
        }
        match current.recalled() {
            Step::Waits(need) => self.need = Some(need),
            Step::Done(done) => current.failed = current.failed.take().or(done.err()),
            Step::Nothing => {}
        }
    }

    /// Returns true when an answer is under way, or comes next, that somebody waits for.
    fn is_awaited(&self) -> bool {
        let is_awaited = |what: &Response<M, G>| !matches!(what, Response::Commands { may_wait: true, .. });
        let next = || self.queue.front().is_some_and(|(_, what)| is_awaited(what));
        self.current.as_ref().map_or_else(next, |current| !current.may_wait)
    }

    /// Returns true when answers were held back for long enough.
    pub fn is_due(&self, now: Duration) -> bool {
        self.later.is_due(now)
    }

    /// Returns true while answers are held back.
    pub fn holds_back(&self) -> bool {
        !self.later.is_empty()
    }

    /// Before the driver's thread sleeps: answers that were held back go with the next turn. Returns true if there are any.
    pub fn hurry(&mut self) -> bool {
        self.later.hurry()
    }

    /// Gives the answers that were held back to the driver, which sends them in one call.
    pub fn leave(&mut self, into: &mut Vec<(u64, <M::Execution as Execution>::Result)>) {
        self.later.leave(into);
    }

    /// The next step of the driver, whose link has `unsent_len` bytes unsent.
    pub fn next(&mut self, now: Duration, unsent_len: u64) -> Next<G> {
        if !self.may_go_on(unsent_len) {
            return Next::Nothing;
        }
        if self.current.is_none() && self.applied_count > 0 {
            return self.answer_append(now);
        }
        if self.waits_for_others() {
            return Next::Nothing;
        }
        if std::mem::take(&mut self.others_first) {
            return Next::Others;
        }
        if !self.later.is_empty() && (self.later.is_due(now) || self.is_awaited()) {
            return Next::Later;
        }
        if self.current.is_some() {
            return self.step(now);
        }
        match self.queue.pop_front() {
            Some((seq, what)) => self.begin(now, seq, what),
            None => Next::Nothing,
        }
    }

    /// Checks that earlier buffers have left the link, because they are used again. The last part of a reply under way may still leave.
    fn may_go_on(&self, unsent_len: u64) -> bool {
        let is_under_way = |current: &Current<M>| current.is_begun && !current.is_at_end();
        unsent_len == 0 || (unsent_len <= self.given_len && self.current.as_ref().is_some_and(is_under_way))
    }

    fn begin(&mut self, now: Duration, seq: u64, what: Response<M, G>) -> Next<G> {
        match (what, self.ahead.take_failure()) {
            (Response::Commands { .. }, Some(error)) => self.refuse(seq, error),
            (Response::Commands { commands, .. }, None) if commands.is_empty() => Next::Reply(seq, Reply::Done),
            (Response::Commands { mut commands, may_wait }, None) => {
                let fetches = Fetch::all(&mut commands);
                self.current = Some(Current::new(now, (seq, may_wait), commands, fetches.len()));
                self.fetches.extend(fetches);
                Next::Again
            }
            // A message that was refused has heard of one failure.
            (Response::Reply(reply), _) => Next::Reply(seq, reply),
            (Response::Granted(granted), _) => Next::Granted(seq, granted),
        }
    }

    /// Answers the first append of those that have waited together.
    fn answer_append(&mut self, now: Duration) -> Next<G> {
        // Earlier answers leave before one that somebody waits for.
        if !self.later.is_empty() && self.appends.front().is_some_and(|append| !append.may_wait) {
            return Next::Later;
        }
        self.applied_count -= 1;
        let Some(mut append) = self.appends.pop_front() else { return Next::Nothing };
        match append.failed.take() {
            Some(error) => self.refuse(append.seq, error),
            None if append.may_wait => self.hold_append(now, append),
            None => {
                self.current = Some(append);
                Next::Send
            }
        }
    }

    /// The answer of an append goes with later ones.
    fn hold_append(&mut self, now: Duration, Current { seq, commands, .. }: Current<M>) -> Next<G> {
        commands.into_iter().for_each(|command| self.later.hold(now, seq, command.execution.into_result()));
        Next::Again
    }

    /// Does the next stage of the answer under way.
    fn step(&mut self, now: Duration) -> Next<G> {
        let current = self.current.as_mut().expect("the caller looked");
        // An answer that has begun is of an earlier message than puts that failed since.
        let failure = current.failed.take().or_else(|| if current.is_begun { None } else { self.ahead.take_failure() });
        let step = match failure {
            Some(error) => Step::Done(Err(error)),
            None => current.step(self.is_shared),
        };
        match step {
            Step::Done(Ok(())) if current.is_short() => Next::Again,
            Step::Done(Ok(())) => Next::Others,
            Step::Waits(need) => {
                self.need = Some(need);
                Next::Others
            }
            Step::Done(Err(error)) => {
                let seq = current.seq;
                self.current = None;
                self.refuse(seq, error)
            }
            Step::Nothing if current.may_wait && current.is_append() => {
                let current = self.current.take().expect("just seen");
                self.hold_append(now, current)
            }
            Step::Nothing => Next::Send,
        }
    }

    /// The answer is a refusal: part of its request may be done.
    fn refuse(&mut self, seq: u64, error: Error) -> Next<G> {
        self.note_failure(seq, Happened::Unknown);
        Next::Reply(seq, Reply::Refused(error))
    }

    /// Returns the number of a message whose client waits, and has heard nothing for `SIGN_OF_LIFE`. The driver tells it that work goes on.
    pub fn sign_of_life(&mut self, now: Duration) -> Option<u64> {
        let current = match &mut self.current {
            Some(current) if current.is_begun => return None,
            current => self.appends.front_mut().or(current.as_mut())?,
        };
        if now.saturating_sub(current.heard) < SIGN_OF_LIFE {
            return None;
        }
        current.heard = now;
        Some(current.seq)
    }

    /// Begins to give bytes of the answer under way to the link. Only after [`Next::Send`].
    pub fn begin_parts(&mut self) -> Parts<'_, M> {
        let current = self.current.as_mut().expect("an answer is under way");
        let filling = current.begin_parts(self.is_shared);
        Parts { current, filling, given_len: &mut self.given_len }
    }

    /// The driver has given the parts to its link, which has `unsent_len` bytes unsent. An answer of which more is left lets others have
    /// their turn. A program that reads as fast as this node gathers would have the thread to the answer's end.
    pub fn end_parts(&mut self, unsent_len: u64) {
        let is_at_end = self.current.as_ref().is_some_and(Current::is_at_end);
        self.others_first = !is_at_end;
        if unsent_len == 0 && is_at_end {
            self.current = None;
        }
    }

    /// Memory went away while bytes of the answer under way were read.
    ///
    /// **Errors**: the same error where its head has left: that is too late for a refusal, and ends the link.
    pub fn fail_parts(&mut self, error: Error) -> std::result::Result<(u64, Reply), Error> {
        let current = self.current.take().expect("an answer is under way");
        if current.is_begun { Err(error) } else { Ok((current.seq, Reply::Refused(error))) }
    }
}

/// The next bytes of the answer under way, part by part.
pub struct Parts<'a, M: CommandMemory> {
    current: &'a mut Current<M>,
    filling: Filling,
    given_len: &'a mut u64,
}

impl<M: CommandMemory> Parts<'_, M> {
    /// The next part; `None` when there are no more for this time.
    pub fn next_part(&mut self) -> Option<(Part, &AdmittedCommand<M>)> {
        let part = self.current.next_part(&mut self.filling)?;
        Some((part, &self.current.commands[part.index]))
    }

    /// All parts of this time are known, and have `len` bytes. Returns the number of the message and the bytes of the whole answer where
    /// it begins with them.
    pub fn give(self, len: u64) -> Option<(u64, u64)> {
        *self.given_len = len;
        let is_begun = std::mem::replace(&mut self.current.is_begun, true);
        (!is_begun).then_some((self.current.seq, self.filling.total))
    }
}
