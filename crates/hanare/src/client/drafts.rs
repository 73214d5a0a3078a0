//! The requests that one call of the user becomes: at most one for each node touched, unless there are thousands of commands or long lists.

use super::remote::Remote;
use super::request::Request;
use crate::trace::Span;
use hanare_memory::Window;
use hanare_protocol::wire::command::{Command, Op};
use hanare_protocol::{Error, Result};
use std::sync::Arc;

/// What is done with the answers once all of them are here: spread, merged, handed over.
pub(crate) type After<'b> = Box<dyn FnOnce() -> Result<()> + Send + 'b>;

/// A shape's list, as it goes into a request.
pub(crate) enum ListBytes {
    None,
    /// Outer dimensions, written out.
    Dims(Vec<u8>),
    /// The request's own index lists.
    Narrow(Vec<u32>),
    Wide(Vec<u64>),
    /// The caller's index list.
    Borrowed(Window),
}

/// Requests being filled. One node's is held in place, so that the usual call allocates nothing.
pub(crate) struct Drafts<'b> {
    first: Option<(Arc<Remote>, Box<Request>)>,
    rest: Vec<(Arc<Remote>, Box<Request>)>,
    after: Vec<After<'b>>,
    /// On the timeline, if there is one.
    span: Option<Box<Span>>,
}

impl Default for Drafts<'_> {
    fn default() -> Self {
        Drafts { first: None, rest: Vec::new(), after: Vec::new(), span: Span::begin() }
    }
}

/// Requests that were sent and are waited for, and what is done then.
#[derive(Default)]
pub(crate) struct Tickets<'b> {
    first: Option<(Arc<Remote>, u64)>,
    rest: Vec<(Arc<Remote>, u64)>,
    after: Vec<After<'b>>,
    span: Option<Box<Span>>,
    /// Whether they are kept, to be waited for later.
    is_kept: bool,
}

/// How the waiting for several requests ended.
pub(crate) struct Settled {
    /// The first error.
    pub outcome: Result<()>,
    /// Whether any request was carried out.
    pub any_done: bool,
}

impl<'b> Drafts<'b> {
    /// Adds a get or put without a list, with the memory that it fills or reads. Goes on with the command before where it can.
    pub fn push_plain(&mut self, remote: &Arc<Remote>, command: &Command, memory: Window) {
        self.open(remote, 0, 0).push_plain(command, memory);
    }

    /// Adds a command with its list, its operand and the place of its result. What is `packed` is kept for the operand's sake; where the operand
    /// is empty it is the operand.
    pub fn push(
        &mut self,
        remote: &Arc<Remote>,
        command: &Command,
        list: ListBytes,
        operand: Window,
        result: Window,
        packed: Vec<u8>,
    ) {
        let list_len = command.list_len().expect("lists go in pieces");
        self.open(remote, list_len, result.len() as u64).push(command, list, operand, result, packed);
    }

    /// Adds two commands that must travel together, and the operand of the first.
    pub fn push_pair(&mut self, remote: &Arc<Remote>, from: (&Command, ListBytes, Vec<u8>), to: (&Command, ListBytes)) {
        let list_len = |command: &Command| command.list_len().expect("lists go in pieces");
        let request = self.open(remote, list_len(from.0) + list_len(to.0), 0);
        request.push(from.0, from.1, Window::empty(), Window::empty(), from.2);
        request.push(to.0, to.1, Window::empty(), Window::empty(), Vec::new());
    }

    /// Has something done when all answers are here, after what was added before.
    pub fn after(&mut self, then: After<'b>) {
        self.after.push(then);
    }

    /// Has the timeline tell of a command.
    #[inline]
    pub fn note(&mut self, op: Op, region: &str, len: u64) {
        if let Some(span) = &mut self.span {
            span.note(op, region, len);
        }
    }

    /// Nothing of it is sent, because of that error.
    pub fn refuse(self, error: Error) -> Error {
        if let Some(span) = self.span {
            span.end(&Err(error.clone()));
        }
        error
    }

    /// The request of that node with room in it.
    fn open(&mut self, remote: &Arc<Remote>, list_len: u64, result_len: u64) -> &mut Request {
        let fits =
            |(to, request): &(Arc<Remote>, Box<Request>)| Arc::ptr_eq(to, remote) && request.has_room(list_len, result_len);
        if self.first.is_none() {
            self.first = Some((remote.clone(), remote.draft()));
        }
        if self.first.as_ref().is_some_and(fits) {
            return &mut self.first.as_mut().expect("just seen").1;
        }
        // Only a node's last request may take more, so that its commands keep their order.
        let last = self.rest.iter().rposition(|(to, _)| Arc::ptr_eq(to, remote));
        let position = last.filter(|position| fits(&self.rest[*position])).unwrap_or_else(|| {
            self.rest.push((remote.clone(), remote.draft()));
            self.rest.len() - 1
        });
        &mut self.rest[position].1
    }

    /// Sends everything. What could not be sent is an error in the end, but what was is in the tickets and must be waited for.
    ///
    /// # Safety
    /// As for [`Remote::post`]: the memory stays valid, and that of results unused by others, until the tickets were waited for.
    pub unsafe fn post(self, tickets: &mut Tickets<'b>) -> Result<()> {
        let mut outcome = Ok(());
        tickets.after.extend(self.after);
        tickets.span = self.span;
        if let Some(span) = &mut tickets.span {
            span.sent(self.first.iter().chain(&self.rest).map(|(remote, _)| remote.node()), !tickets.is_kept);
        }
        for (remote, request) in self.first.into_iter().chain(self.rest) {
            // SAFETY: promised by the caller.
            match unsafe { remote.post(request) } {
                Ok(seq) => tickets.push(remote, seq),
                Err(error) => outcome = outcome.and(Err(error)),
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
        Tickets { is_kept: true, ..Tickets::default() }
    }

    pub(crate) fn push(&mut self, remote: Arc<Remote>, seq: u64) {
        match self.first {
            None => self.first = Some((remote, seq)),
            Some(_) => self.rest.push((remote, seq)),
        }
    }

    /// Waits for all; the first error is returned once all are settled.
    pub fn wait(&mut self) -> Result<()> {
        self.settle().outcome
    }

    /// As [`Tickets::wait`], and says whether anything was done.
    pub fn settle(&mut self) -> Settled {
        let mut settled = Settled { outcome: Ok(()), any_done: false };
        for (remote, seq) in self.first.take().into_iter().chain(self.rest.drain(..)) {
            let outcome: Result<(), Error> = remote.wait(seq);
            settled.any_done |= outcome.is_ok();
            settled.outcome = settled.outcome.and(outcome);
        }
        let after = std::mem::take(&mut self.after);
        if settled.outcome.is_ok() {
            settled.outcome = after.into_iter().try_for_each(|then| then());
        }
        if let Some(span) = self.span.take() {
            span.end(&settled.outcome);
        }
        settled
    }

    /// Whether all answers are here.
    pub fn are_done(&self) -> bool {
        self.first.iter().chain(&self.rest).all(|(remote, seq)| remote.is_done(*seq))
    }
}
