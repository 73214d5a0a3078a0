//! The requests that one call of the user becomes: at most one for each node, unless there are thousands of commands or long lists.

use super::message::{CommandMessage, ListBytes, Needs, PLACE_LEN};
use super::remote::{NotPosted, Remote};
use super::request::Request;
use super::route::ExtentRoute;
use crate::trace::Span;
use hanare_memory::Window;
use hanare_protocol::error::Happened;
use hanare_protocol::id::{NodeId, Slot};
use hanare_protocol::wire::command::{Command, Op};
use hanare_protocol::{Error, Result};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Use of the replies once all of them are here: spread, merged, handed over.
pub(crate) type After<'b> = Box<dyn FnOnce() -> Result<()> + Send + 'b>;

/// Requests being filled. One node's is held in place, so that the usual call allocates nothing.
pub(crate) struct Drafts<'b> {
    first: Option<(Arc<Remote>, Box<Request>)>,
    rest: Vec<(Arc<Remote>, Box<Request>)>,
    after: Vec<After<'b>>,
    /// Set if a command among them must not be repeated; with the outcome of those that were done at once.
    is_once: bool,
    effect: CallEffect,
    /// True if a command among them changes memory.
    writes: bool,
    /// Commands in requests.
    count: u64,
    call: DraftedCall,
    /// On the timeline, if there is one.
    span: Option<Box<Span>>,
}

impl Default for Drafts<'_> {
    fn default() -> Self {
        let (is_once, writes, effect) = (false, false, CallEffect::default());
        let call = DraftedCall::default();
        Drafts { first: None, rest: Vec::new(), after: Vec::new(), is_once, effect, writes, count: 0, call, span: Span::begin() }
    }
}

/// A place between two commands of drafts.
pub(crate) struct DraftMark {
    count: u64,
    after_count: usize,
    effect: CallEffect,
    is_once: bool,
    writes: bool,
}

/// Requests that were sent and are waited for, and what is done then.
#[derive(Default)]
pub(crate) struct Tickets<'b> {
    first: Option<(Arc<Remote>, u64)>,
    rest: Vec<(Arc<Remote>, u64)>,
    after: Vec<After<'b>>,
    is_once: bool,
    /// True if their updates count once though they are sent again.
    pub is_numbered: bool,
    effect: CallEffect,
    writes: bool,
    span: Option<Box<Span>>,
    /// True if they are kept, to be waited for later.
    is_kept: bool,
    /// Longest silence of a node, where that is shorter than usual.
    pub patience: Option<Duration>,
}

/// The numbered call that is drafted. Homes know its writes by their places among those of their extents. They are the same in each round, however
/// the extents lie on nodes.
#[derive(Default)]
struct DraftedCall {
    /// Its place in a head's detail; 0 for none.
    detail: u64,
    /// Bytes that are written on each extent.
    written: BTreeMap<(NodeId, Slot), u64>,
}

impl DraftedCall {
    /// A command on `len` bytes of an extent. Returns the bytes that the call writes there before it.
    fn note(&mut self, op: Op, at: (NodeId, Slot), len: u64) -> u64 {
        if self.detail == 0 || !op.writes() {
            return 0;
        }
        let written = self.written.entry(at).or_default();
        std::mem::replace(written, *written + len)
    }
}

/// Outcome of all parts of a call together.
#[derive(Clone, Copy, Default)]
pub(super) struct CallEffect {
    happened: Option<Happened>,
    /// A node where a part was done or failed.
    node: Option<NodeId>,
}

impl CallEffect {
    pub fn note(&mut self, node: NodeId, part: Happened) {
        let known = self.happened.get_or_insert(part);
        if *known != part {
            *known = Happened::Unknown;
        }
        self.node.get_or_insert(node);
    }

    /// True if an outcome was noted.
    pub fn is_known(&self) -> bool {
        self.happened.is_some()
    }

    /// The error of one part says what happened there. If other parts fared otherwise, nobody may take it for the whole call's.
    pub fn explain(&self, is_once: bool, error: Error) -> Error {
        match (self.happened, self.node, error.happened()) {
            (Some(whole), Some(node), part @ (Happened::No | Happened::Yes)) if is_once && whole != part => {
                let reason = format!("in one of its parts, while others were done: {error}");
                Error::Broken { node, what: "an update".to_owned(), reason, happened: Happened::Unknown }
            }
            _ => error,
        }
    }
}

/// Drafts and posts.
///
/// # Safety
/// See [`Drafts::post`].
pub(crate) unsafe fn post<'b>(draft: impl FnOnce(&mut Drafts<'b>) -> Result<()>, tickets: &mut Tickets<'b>) -> Result<()> {
    // SAFETY: promised by the caller.
    unsafe { post_drafts(Drafts::default(), draft, tickets) }
}

/// Drafts and posts, where the drafts know their call.
///
/// # Safety
/// See [`Drafts::post`].
pub(super) unsafe fn post_drafts<'b>(
    mut drafts: Drafts<'b>,
    draft: impl FnOnce(&mut Drafts<'b>) -> Result<()>,
    tickets: &mut Tickets<'b>,
) -> Result<()> {
    if let Err(error) = draft(&mut drafts) {
        return Err(drafts.refuse(error));
    }
    // SAFETY: promised by the caller.
    unsafe { drafts.post(tickets) }
}

/// Effect of an error on the message that `node` was sent. Another node can refuse only the source of a copy. All else in the message was
/// admitted, and may be done.
fn happened_at(node: NodeId, error: &Error) -> Happened {
    match error {
        Error::GrantRefused { node: refuser, .. } if *refuser != node => Happened::Unknown,
        other => other.happened(),
    }
}

/// The error of one part as that of the whole call. If others may have written, it must not say that nothing happened.
pub(super) fn admit(has_written: bool, error: Error) -> Error {
    let reason = match &error {
        Error::GrantRefused { .. } | Error::RegionLost { .. } if has_written => error.to_string(),
        _ => return error,
    };
    match error {
        Error::GrantRefused { node, .. } | Error::RegionLost { node, .. } => {
            Error::Broken { node, what: "a command in parts".to_owned(), reason, happened: Happened::Unknown }
        }
        other => other,
    }
}

impl<'b> Drafts<'b> {
    /// Drafts of a numbered call, as a head's detail has it; 0 for none.
    pub fn of_call(detail: u64) -> Drafts<'b> {
        let mut drafts = Drafts::default();
        drafts.call.detail = detail;
        drafts
    }

    /// True if they are those of a numbered call.
    pub fn is_numbered(&self) -> bool {
        self.call.detail != 0
    }

    /// The place behind what was added so far.
    pub fn mark(&self) -> DraftMark {
        let Drafts { count, effect, is_once, writes, .. } = *self;
        DraftMark { count, after_count: self.after.len(), effect, is_once, writes }
    }

    /// Ends the command behind that place, if it was done at once: the rest knows nothing of it. Returns true if it was.
    ///
    /// **Errors**: that of the use of its results.
    pub fn settle(&mut self, before: DraftMark) -> Result<bool> {
        if self.count > before.count {
            return Ok(false);
        }
        (self.effect, self.is_once, self.writes) = (before.effect, before.is_once, before.writes);
        self.after.split_off(before.after_count).into_iter().try_for_each(|then| then())?;
        Ok(true)
    }

    /// Adds a get or put without a list, with the memory that it fills or reads. Goes on with the command before where it can.
    pub fn push_plain(&mut self, route: &ExtentRoute, command: &Command, memory: Window) {
        self.writes |= command.op.writes();
        let before = self.call.note(command.op, (route.remote.node(), command.slot), memory.len() as u64);
        let needs = Needs { list_len: PLACE_LEN, ..Needs::default() };
        self.count += 1;
        self.open(&route.remote, needs).push_plain(command, before, memory);
    }

    /// Adds a command on `len` bytes, with its list, its operand and the place of its result. What is `packed` is kept for the operand's sake;
    /// where the operand is empty it is the operand.
    pub fn push(
        &mut self,
        route: &ExtentRoute,
        command: &Command,
        (len, list): (u64, ListBytes),
        operand: Window,
        result: Window,
        packed: Vec<u8>,
    ) {
        self.is_once |= command.op.is_once();
        self.writes |= command.op.writes();
        let before = self.call.note(command.op, (route.remote.node(), command.slot), len);
        let list_len = command.list_len().expect("lists go in pieces") + PLACE_LEN;
        self.count += 1;
        let held_len = if command.op.streams_operand() { 0 } else { operand.len().max(packed.len()) as u64 };
        let needs = Needs { list_len, held_len, result_len: result.len() as u64, is_once: command.op.is_once(), is_copy: false };
        self.open(&route.remote, needs).push(command, before, list, operand, result, packed);
    }

    /// Adds two commands, and the operand of the first. They must travel together to the node of the second. Only a numbered call gives `len`, the
    /// bytes that they copy.
    pub fn push_pair(
        &mut self,
        len: u64,
        from: (&ExtentRoute, &Command, ListBytes, Vec<u8>),
        to: (&ExtentRoute, &Command, ListBytes),
    ) {
        let list_len = |command: &Command| command.list_len().expect("lists go in pieces");
        let (list_len, held_len) = (list_len(from.1) + list_len(to.1) + PLACE_LEN, from.3.len() as u64);
        let before = self.call.note(to.1.op, (to.0.remote.node(), to.1.slot), len);
        let needs = Needs { list_len, held_len, is_copy: true, ..Needs::default() };
        self.writes = true;
        self.count += 1;
        let message = self.open(&to.0.remote, needs);
        message.push(from.1, 0, from.2, Window::empty(), Window::empty(), from.3);
        message.push(to.1, before, to.2, Window::empty(), Window::empty(), Vec::new());
    }

    /// Allows delayed replies. The caller does not wait for them at present, and their nodes may send them together with later ones.
    pub fn let_wait(&mut self) {
        self.first.iter_mut().chain(&mut self.rest).for_each(|(_, request)| request.message.may_wait = true);
    }

    /// Has something done when all answers are here, after what was added before.
    pub fn after(&mut self, then: After<'b>) {
        self.after.push(then);
    }

    /// Keeps bytes that commands read until all answers are here.
    pub fn keep(&mut self, bytes: Vec<u8>) {
        self.after(Box::new(move || {
            drop(bytes);
            Ok(())
        }));
    }

    /// Notes that a share on this host was done at once. From then on the call cannot say that nothing was done.
    pub fn note_done(&mut self, op: Op, here: NodeId) {
        if op.writes() {
            (self.is_once, self.writes) = (self.is_once | op.is_once(), true);
            self.effect.note(here, Happened::Yes);
        }
    }

    /// Has the timeline tell of a command.
    #[inline]
    pub fn note(&mut self, op: Op, region: &str, len: u64) {
        if let Some(span) = &mut self.span {
            span.note(op, region, len);
        }
    }

    /// Drops the call before anything is sent, because of that error.
    pub fn refuse(self, error: Error) -> Error {
        let error = self.effect.explain(self.is_once, error);
        if let Some(span) = self.span {
            span.end(&Err(error.clone()));
        }
        error
    }

    /// The message to that node with room in it.
    fn open(&mut self, remote: &Arc<Remote>, needs: Needs) -> &mut CommandMessage {
        let fits = |(to, request): &(Arc<Remote>, Box<Request>)| Arc::ptr_eq(to, remote) && request.message.has_room(needs);
        if self.first.is_none() {
            self.first = Some((remote.clone(), remote.draft()));
        }
        if self.first.as_ref().is_some_and(fits) {
            return &mut self.first.as_mut().expect("just seen").1.message;
        }
        // Only a node's last request may take more, so that its commands keep their order.
        let last = self.rest.iter().rposition(|(to, _)| Arc::ptr_eq(to, remote));
        let position = last.filter(|position| fits(&self.rest[*position])).unwrap_or_else(|| {
            self.rest.push((remote.clone(), remote.draft()));
            self.rest.len() - 1
        });
        &mut self.rest[position].1.message
    }

    /// Sends everything. What could not be sent is an error in the end. What was sent is in the tickets, and must be waited for.
    ///
    /// # Safety
    /// See [`Remote::post`]: the memory stays valid, and that of results unused by others, until the tickets were waited for.
    pub unsafe fn post(self, tickets: &mut Tickets<'b>) -> Result<()> {
        let mut outcome = Ok(());
        tickets.is_numbered = self.is_numbered();
        tickets.after.extend(self.after);
        // A numbered call is repeated until it is done.
        tickets.is_once = self.is_once && !tickets.is_numbered;
        (tickets.effect, tickets.writes) = (self.effect, self.writes);
        tickets.span = self.span;
        if let Some(span) = &mut tickets.span {
            span.sent(self.first.iter().chain(&self.rest).map(|(remote, _)| remote.node()), !tickets.is_kept);
        }
        for (remote, mut request) in self.first.into_iter().chain(self.rest) {
            request.message.call = self.call.detail;
            // SAFETY: promised by the caller.
            match unsafe { remote.post(request) } {
                Ok(seq) => tickets.push(remote, seq),
                Err(NotPosted { error, happened }) => {
                    tickets.effect.note(remote.node(), happened);
                    outcome = outcome.and(Err(error));
                }
            }
        }
        if let (Some(span), Err(error)) = (&mut tickets.span, &outcome) {
            span.fail(error);
        }
        outcome
    }
}

impl Tickets<'_> {
    /// For requests that are waited for later.
    pub fn to_keep() -> Self {
        let mut tickets = Tickets::default();
        tickets.is_kept = true;
        tickets
    }

    pub(crate) fn push(&mut self, remote: Arc<Remote>, seq: u64) {
        match self.first {
            None => self.first = Some((remote, seq)),
            Some(_) => self.rest.push((remote, seq)),
        }
    }

    fn pop(&mut self) -> Option<(Arc<Remote>, u64)> {
        self.first.take().or_else(|| self.rest.pop())
    }

    /// Waits for all; the first error is returned once all are settled.
    pub fn wait(&mut self) -> Result<()> {
        let mut outcome: Result<()> = Ok(());
        self.rest.reverse();
        while let Some((remote, seq)) = self.pop() {
            let part = match self.patience {
                None => remote.wait(seq),
                Some(patience) => remote.wait_within(seq, patience),
            };
            let happened = part.as_ref().map_or_else(|error| happened_at(remote.node(), error), |()| Happened::Yes);
            self.effect.note(remote.node(), happened);
            outcome = outcome.and(part);
        }
        let after = std::mem::take(&mut self.after);
        if outcome.is_ok() {
            outcome = after.into_iter().try_for_each(|then| then());
        }
        let outcome = self.explain(outcome);
        if let Some(span) = self.span.take() {
            span.end(&outcome);
        }
        outcome
    }

    /// Waits for all, where nobody tries again.
    pub fn finish(&mut self) -> Result<()> {
        let outcome = self.wait();
        outcome.map_err(|error| admit(self.may_have_written(), error))
    }

    /// True if a part of it changes memory.
    pub fn writes(&self) -> bool {
        self.writes
    }

    /// True if a part of it may have changed memory; asked when all were waited for.
    pub fn may_have_written(&self) -> bool {
        self.writes && !matches!(self.effect.happened, None | Some(Happened::No))
    }

    /// Adds to a call's outcome the state of all its parts.
    pub fn explain(&self, outcome: Result<()>) -> Result<()> {
        outcome.map_err(|error| self.effect.explain(self.is_once, error))
    }

    /// Sleeps until one of them has its answer, for `bound` at most.
    pub fn nap(&self, bound: Duration) {
        if let Some((remote, seq)) = self.first.iter().chain(&self.rest).next() {
            remote.nap(*seq, bound);
        }
    }

    /// True if all replies are here.
    pub fn are_done(&self) -> bool {
        self.first.iter().chain(&self.rest).all(|(remote, seq)| remote.is_done(*seq))
    }
}

/// A panic on the way must not give memory back that a node may still write into.
impl Drop for Tickets<'_> {
    fn drop(&mut self) {
        while let Some((remote, seq)) = self.pop() {
            let _ = remote.wait(seq);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hanare_protocol::id::Gid;

    /// Error for the caller of a command with such parts, the last of which failed with `error`.
    fn told(parts: &[Happened], error: &Error) -> Happened {
        let mut effect = CallEffect::default();
        parts.iter().for_each(|part| effect.note(NodeId(0), *part));
        effect.note(NodeId(1), error.happened());
        effect.explain(true, error.clone()).happened()
    }

    #[test]
    fn a_put_done_in_part_is_not_told_to_have_done_nothing() {
        let refused = Error::GrantRefused { gid: Gid(1), node: NodeId(1) };
        assert_eq!(admit(true, refused.clone()).happened(), Happened::Unknown);
        assert_eq!(admit(false, refused.clone()), refused);
        assert_eq!(happened_at(NodeId(1), &refused), Happened::No);
        assert_eq!(happened_at(NodeId(2), &refused), Happened::Unknown, "what was put beside a refused copy is there");
        let taken = Error::UnknownRegion { name: "a".to_owned() };
        assert_eq!(admit(true, taken.clone()), taken);
    }

    #[test]
    fn an_update_done_in_part_is_not_told_to_have_done_nothing() {
        use Happened::{No, Unknown, Yes};
        let refused = Error::GrantRefused { gid: Gid(1), node: NodeId(1) };
        let broken = |happened| Error::Broken { node: NodeId(1), what: String::new(), reason: String::new(), happened };
        assert_eq!(told(&[], &refused), No);
        assert_eq!(told(&[No], &refused), No);
        assert_eq!(told(&[Yes], &refused), Unknown);
        assert_eq!(told(&[Yes], &broken(No)), Unknown);
        assert_eq!(told(&[No], &broken(Yes)), Unknown);
        assert_eq!(told(&[Yes], &broken(Yes)), Yes);
        let mut effect = CallEffect::default();
        effect.note(NodeId(0), Yes);
        assert_eq!(effect.explain(false, refused.clone()), refused, "what may be repeated is repeated");
    }
}
