//! The requests that one call of the user becomes: at most one for each node touched, unless there are thousands of commands.

use super::remote::Remote;
use super::request::Request;
use hanare_memory::Window;
use hanare_protocol::wire::command::Command;
use hanare_protocol::{Error, Result};
use std::sync::Arc;

/// Requests being filled. One node's is held in place, so that the usual call allocates nothing.
#[derive(Default)]
pub(crate) struct Drafts {
    first: Option<(Arc<Remote>, Box<Request>)>,
    rest: Vec<(Arc<Remote>, Box<Request>)>,
}

/// Requests that were sent and are waited for.
#[derive(Default)]
pub(crate) struct Tickets {
    first: Option<(Arc<Remote>, u64)>,
    rest: Vec<(Arc<Remote>, u64)>,
}

impl Drafts {
    /// Adds a command for a node, with the memory that it reads or fills.
    pub fn push(&mut self, remote: &Arc<Remote>, command: &Command, memory: Option<Window>) {
        self.open(remote).push(command, memory);
    }

    /// Adds two commands that must travel together.
    pub fn push_pair(&mut self, remote: &Arc<Remote>, from: &Command, to: &Command) {
        let request = self.open(remote);
        request.push(from, None);
        request.push(to, None);
    }

    /// The request of that node with room in it.
    fn open(&mut self, remote: &Arc<Remote>) -> &mut Request {
        let fits = |(to, request): &(Arc<Remote>, Box<Request>)| Arc::ptr_eq(to, remote) && !request.is_full();
        if self.first.is_none() {
            self.first = Some((remote.clone(), remote.draft()));
        }
        if self.first.as_ref().is_some_and(fits) {
            return &mut self.first.as_mut().expect("just seen").1;
        }
        let position = self.rest.iter().rposition(fits).unwrap_or_else(|| {
            self.rest.push((remote.clone(), remote.draft()));
            self.rest.len() - 1
        });
        &mut self.rest[position].1
    }

    /// Sends everything. What could not be sent is an error in the end, but what was is in the tickets and must be waited for.
    ///
    /// # Safety
    /// As for [`Remote::post`]: the memory stays valid, and that of gets unused by others, until the tickets were waited for.
    pub unsafe fn post(self, tickets: &mut Tickets) -> Result<()> {
        let mut outcome = Ok(());
        for (remote, request) in self.first.into_iter().chain(self.rest) {
            // SAFETY: promised by the caller.
            match unsafe { remote.post(request) } {
                Ok(seq) => tickets.push(remote, seq),
                Err(error) => outcome = outcome.and(Err(error)),
            }
        }
        outcome
    }
}

impl Tickets {
    pub(crate) fn push(&mut self, remote: Arc<Remote>, seq: u64) {
        match self.first {
            None => self.first = Some((remote, seq)),
            Some(_) => self.rest.push((remote, seq)),
        }
    }

    /// Waits for all; the first error is returned once all are settled.
    pub fn wait(&mut self) -> Result<()> {
        let mut outcome: Result<(), Error> = Ok(());
        for (remote, seq) in self.first.take().into_iter().chain(self.rest.drain(..)) {
            outcome = outcome.and(remote.wait(seq));
        }
        outcome
    }

    /// Whether all answers are here.
    pub fn are_done(&self) -> bool {
        self.first.iter().chain(&self.rest).all(|(remote, seq)| remote.is_done(*seq))
    }
}
