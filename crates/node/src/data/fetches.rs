//! Links to other nodes that copies fetch bytes over. [`hanare_home::FetchLink`] says where the bytes belong.

use super::execution::ReachedExtent;
use hanare_fabric::{Link, LinkError, Refusal, Sink};
use hanare_home::{Destination, EndedFetch, Fetch, FetchLink, Need};
use hanare_memory::Window;
use hanare_protocol::id::NodeId;
use hanare_protocol::limits::STAGE_LEN;
use hanare_protocol::wire::copies::ExtentWrite;
use hanare_protocol::wire::head::Head;
use hanare_protocol::{Error, Result};
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// Bytes that one request asks another node for.
pub(crate) type NodeFetch = Fetch<ReachedExtent>;

/// Another node, asked for bytes.
pub(crate) struct Peer {
    // Dropped first: it may hold windows of the sink.
    link: Box<dyn Link>,
    pub address: String,
    node: NodeId,
    sink: Arrivals,
}

/// The sink of such a link.
#[derive(Default)]
struct Arrivals {
    fetches: FetchLink<ReachedExtent>,
    stage: Vec<u8>,
    refusal: Vec<u8>,
}

impl Peer {
    pub fn new(link: Box<dyn Link>, address: String, node: NodeId) -> Peer {
        Peer { link, address, node, sink: Arrivals::default() }
    }

    /// Asks for bytes on behalf of a session.
    pub fn ask(&mut self, now: Duration, session: u64, fetch: NodeFetch) -> Result<(), LinkError> {
        let (head, asked) = self.sink.fetches.ask(now, session, fetch);
        // SAFETY: the vectors' heap memory stays with the fetch until nothing is unsent, or the link, which is dropped first, is gone.
        unsafe { self.link.send(&head, &[Window::of(&asked.commands), Window::of(&asked.lists)]) }
    }

    /// Moves answers on. Returns whether anything moved, and what has ended.
    pub fn turn(&mut self, now: Duration) -> Result<(bool, Vec<EndedFetch>), LinkError> {
        let progress = self.link.progress(&mut self.sink)?;
        let fetches = &mut self.sink.fetches;
        if !progress.is_idle() {
            fetches.heard(now);
        }
        if self.link.unsent_len() == 0 {
            fetches.sent();
        }
        Ok((!progress.is_idle(), fetches.take_ended()))
    }

    /// Its fetches, to look at.
    pub fn fetches(&self) -> &FetchLink<ReachedExtent> {
        &self.sink.fetches
    }

    /// See [`FetchLink::cancel`].
    pub fn cancel(&mut self, session: u64) -> bool {
        self.sink.fetches.cancel(session)
    }

    /// Its fetches, once the link is dropped: their extents are those of the link's windows.
    pub fn into_fetches(self) -> FetchLink<ReachedExtent> {
        drop(self.link);
        self.sink.fetches
    }

    /// Pages that received bytes wait for; told once.
    pub fn need(&mut self) -> Option<Need> {
        self.sink.fetches.need()
    }

    /// The pages are at home, or will not come.
    pub fn recalled(&mut self, now: Duration, outcome: Result<()>) {
        self.sink.fetches.recalled(now, outcome, &self.sink.stage);
    }

    /// The write that received bytes wait for, where their extent has copies.
    pub fn write(&self) -> Option<ExtentWrite> {
        self.sink.fetches.write_of_stage(&self.sink.stage)
    }

    /// The write of [`Peer::write`] was done, or was not.
    pub fn applied(&mut self, now: Duration, outcome: Result<()>) {
        self.sink.fetches.applied(now, outcome);
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

// SAFETY: windows are of extents that the fetch at the front keeps until its answer is here, or of buffers that stay as they are until
// the link asks again; the peer drops the link before the sink.
unsafe impl Sink for Arrivals {
    fn place(&mut self, head: &Head, at: u64) -> Result<Window, Refusal> {
        let placed = self.fetches.place(head, at, &self.stage);
        Ok(match placed.map_err(|malformed| Refusal(malformed.0.to_owned()))? {
            Destination::Extent { offset, len } => {
                let opened = &self.fetches.current().expect("its bytes come").extent.opened;
                opened.held().will_write([(offset, len)]);
                opened.stays().expect("only memory that stays is filled in place").slice(offset as usize, len as usize)
            }
            Destination::Front(len) => {
                self.refusal.resize(len as usize, 0);
                // SAFETY: the buffer is not touched until the link has filled it and asks again, or is dropped.
                unsafe { Window::of_mut(&mut self.refusal) }
            }
            Destination::Stage(len) | Destination::Nowhere(len) => {
                self.stage.resize(STAGE_LEN, 0);
                // SAFETY: as for the refusal.
                unsafe { Window::of_mut(&mut self.stage) }.slice(0, len as usize)
            }
            Destination::Lists(_) | Destination::Held(_) | Destination::Later => Window::empty(),
        })
    }

    fn message(&mut self, head: &Head) {
        self.fetches.message(head, &self.refusal, &self.stage);
        self.refusal.clear();
    }

    fn may_begin(&self) -> bool {
        self.fetches.may_begin()
    }
}
