//! An array of queues as a program reaches it: mapped on its own host, and by its node.
//!
//! Safety: windows of the mapping are used by ports, which keep the reach that keeps the mapping.

use super::prefix::BodyPrefix;
use crate::client::drafts::{self, Drafts, Tickets};
use crate::client::local::LocalMapping;
use crate::client::locks::ended;
use crate::client::message::ListBytes;
use crate::client::region::Region;
use crate::client::remote::Remote;
use crate::client::repetition::{Breaks, Refusals, Repetition, SILENT_MS, is_moving};
use crate::client::request::Patience;
use crate::client::rounds;
use crate::client::route::ExtentRoute;
use hanare_fabric::tcp::TcpLink;
use hanare_memory::Window;
use hanare_protocol::queue::layout::{LINE_LEN, QueueForm, READER_BELL_AT, SET_BELL_AT, WORD_LEN};
use hanare_protocol::queue::{Appended, PortId, Unit};
use hanare_protocol::shape::Shape;
use hanare_protocol::wire::command::{Command, Op};
use hanare_protocol::wire::queue::{APPENDED_LEN, ArrayAt, QueueRequest, decode_appended};
use hanare_protocol::wire::sync::{SyncAnswer, SyncRequest};
use hanare_protocol::{Error, Result};
use hanare_ring::array::Array;
use hanare_ring::{Corrupt, Shared};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

pub(super) struct QueueReach {
    region: Region,
    at: u64,
    form: QueueForm,
    count: u64,
    /// Once a port was opened: the array, where the region lies on this host. Regions move; ports stay with the way by which they began.
    here: OnceLock<Option<ArrayHere>>,
}

/// An array in memory of this host. The mapping goes after what is in it.
struct ArrayHere {
    array: Array<Shared>,
    _mapping: LocalMapping,
    /// The host's node, which frees the ports when the connection to it ends.
    node: Arc<Remote>,
}

/// An append that was sent, and whose answer was not waited for.
pub(super) struct SentAppend {
    /// Dropped before what they show: they wait for the answer then.
    tickets: Tickets<'static>,
    /// Why it was not sent.
    refused: Option<Error>,
    /// Its bytes, of which so many are sent. Not touched before its end.
    pub operand: Vec<u8>,
    pub len: usize,
    /// Bytes to put before it.
    pub ahead: Option<BodyPrefix>,
    answer: Box<[u8; APPENDED_LEN as usize]>,
}

impl Default for SentAppend {
    fn default() -> SentAppend {
        let answer = Box::new([0; APPENDED_LEN as usize]);
        SentAppend { tickets: Tickets::default(), refused: None, operand: Vec::new(), len: 0, ahead: None, answer }
    }
}

impl SentAppend {
    /// An append that is to be sent.
    pub fn of(operand: Vec<u8>) -> SentAppend {
        SentAppend { len: operand.len(), operand, ..SentAppend::default() }
    }

    /// Waits for the answer. **Errors**: as for [`QueueReach::append`], without a second try.
    pub fn finish(&mut self) -> Result<(Appended, u64)> {
        match self.refused.take() {
            Some(error) => Err(error),
            None => self.tickets.finish().map(|()| decode_appended(&self.answer)),
        }
    }

    pub fn is_done(&self) -> bool {
        self.refused.is_some() || self.tickets.are_done()
    }

    /// Sleeps until the answer is here, for `bound` at most.
    pub fn nap(&self, bound: Duration) {
        if self.refused.is_none() {
            self.tickets.nap(bound);
        }
    }

    /// True if bytes went before it.
    pub fn has_ahead(&self) -> bool {
        self.ahead.is_some()
    }

    /// Puts what went before it alone.
    pub fn put_ahead(&self) -> Result<()> {
        self.ahead.as_ref().map_or(Ok(()), BodyPrefix::put)
    }

    /// The bytes that were sent.
    pub fn sent(&self) -> &[u8] {
        &self.operand[..self.len]
    }
}

impl QueueReach {
    /// The array that begins at `at` of the region. **Errors**: [`Error::NoQueue`].
    pub fn new(region: Region, at: u64) -> Result<QueueReach> {
        let no_queue = |reason: &str| Error::NoQueue { region: region.name().to_owned(), offset: at, reason: reason.to_owned() };
        let mut line = [0; LINE_LEN as usize];
        if !at.is_multiple_of(LINE_LEN) || region.len().checked_sub(LINE_LEN).is_none_or(|last| at > last) {
            return Err(no_queue("queues begin at multiples of 64 within their region"));
        }
        region.get(at, &mut line)?;
        let (form, count) = QueueForm::decode(&line).map_err(no_queue)?;
        if form.array_len(count)? > region.len() - at {
            return Err(no_queue("it is longer than its region"));
        }
        Ok(QueueReach { region, at, form, count, here: OnceLock::new() })
    }

    pub fn region(&self) -> &Region {
        &self.region
    }

    pub fn form(&self) -> &QueueForm {
        &self.form
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    /// True if queues take units of that length.
    #[inline]
    pub fn takes(&self, len: usize) -> bool {
        match self.form.unit {
            Unit::Blocks { len: block } => len == block as usize,
            Unit::Records { len_max } => len <= len_max as usize,
        }
    }

    /// First byte of a queue in the region.
    pub fn offset(&self, queue: u64) -> u64 {
        self.at + self.form.queue_at(self.count, queue)
    }

    pub fn name(&self, queue: u64) -> String {
        match (self.count, self.at) {
            (1, 0) => format!("'{}'", self.region.name()),
            (_, 0) => format!("{queue} of '{}'", self.region.name()),
            (_, at) => format!("{queue} at offset {at} of '{}'", self.region.name()),
        }
    }

    pub fn check(&self, queue: u64) -> Result<()> {
        if queue < self.count {
            return Ok(());
        }
        let reason = format!("there are {} queues, and no number {queue}", self.count);
        Err(Error::NoQueue { region: self.region.name().to_owned(), offset: self.at, reason })
    }

    /// The array's memory, where it is on this host, for a program that may write it. **Cost**: maps the region the first time; looks at
    /// this program's own memory from then on. **Errors**: [`Error::NodeLost`] once the connection to this host's node has ended. It is not
    /// made again, because others may have the ports' places.
    #[inline]
    pub fn here(&self) -> Result<Option<&Array<Shared>>> {
        // A mapped array stays, because an extent in use stays on its node. A client that may write it mapped it.
        match self.here.get() {
            Some(Some(ArrayHere { node, .. })) if node.has_detached() => Err(detached(node)),
            Some(here) => Ok(here.as_ref().map(|here| &here.array)),
            None => self.map_here(),
        }
    }

    #[cold]
    fn map_here(&self) -> Result<Option<&Array<Shared>>> {
        self.region.check_rights(Op::Put)?;
        let here = self.mapped_here()?;
        Ok(self.here.get_or_init(|| here).as_ref().map(|here| &here.array))
    }

    /// The array, where it is on this host. Where others have copies of it all goes by message.
    fn mapped_here(&self) -> Result<Option<ArrayHere>> {
        if self.moves() || !self.region.is_local() {
            return Ok(None);
        }
        let mapping = match self.region.map_local() {
            Ok(mapping) => mapping,
            // The region may have copies by now, or be about to move.
            Err(Error::BadUse { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let (node, len) = (self.region.extent_route(0).remote, self.form.array_len(self.count)?);
        // SAFETY: the mapping is kept beside the array, and ports keep both.
        let window: Window = unsafe { mapping.window() }.slice(self.at as usize, len as usize);
        let array = Array::new(Shared::new(window), self.form, self.count);
        Ok(Some(ArrayHere { array, _mapping: mapping, node }))
    }

    /// True if other nodes have copies of it: one of them becomes its home when that is lost.
    pub fn moves(&self) -> bool {
        self.region.copies() > 1
    }

    /// Asks for the home of today. The coordinator names it, so that one is waited for. **Errors**: the region is no more.
    pub fn find_home(&self) -> Result<()> {
        match self.region.refresh() {
            Ok(()) | Err(Error::NoCoordinator { .. } | Error::Timeout { .. }) => Ok(()),
            Err(gone) => Err(gone),
        }
    }

    /// A fresh number for a port, not zero.
    pub fn port() -> Result<PortId> {
        Ok(PortId(u64::from_le_bytes(hanare_memory::random::bytes()?).max(1)))
    }

    /// Asks the queues' node. Where the connection ends meanwhile it asks again: all that a port asks of a queue happens once. **Errors**: the node's,
    /// by the names that this program uses.
    pub fn ask(&self, queue: u64, request: QueueRequest) -> Result<SyncAnswer> {
        let (mut refusals, mut breaks) = (Refusals::default(), Breaks::default());
        // A batch of ready queues is handed out once.
        let may_repeat = !matches!(request, QueueRequest::TakeReady { .. });
        if self.moves() && may_repeat {
            let ask = |slot, grant| SyncRequest::Queue(ArrayAt { slot, grant, offset: self.at }, request);
            return self.region.ask_home(0, true, ask).map_err(|error| self.named(queue, ended(error)));
        }
        loop {
            let route = self.region.extent_route(0);
            let at = ArrayAt { slot: route.slot, grant: route.grant, offset: self.at };
            match route.remote.ask_sync(&SyncRequest::Queue(at, request), Patience::Usual) {
                Ok((answer, _)) => return Ok(answer),
                Err(Error::GrantRefused { .. }) if refusals.may_repeat() => self.region.refresh()?,
                Err(Error::Broken { .. }) if may_repeat && breaks.may_repeat() => {}
                // Its region moved while nobody used it.
                Err(Error::NodeLost { .. }) if refusals.may_repeat() && self.has_moved(&route) => {}
                Err(error) => return Err(self.named(queue, ended(error))),
            }
        }
    }

    /// True if the array is elsewhere by now.
    fn has_moved(&self, before: &ExtentRoute) -> bool {
        let today = || self.region.extent_route(0);
        let is_same = |now: ExtentRoute| (now.node, now.slot, now.grant) == (before.node, before.slot, before.grant);
        self.region.refresh().is_ok() && !is_same(today())
    }

    /// Ends a port after what it `told` last. A queue that was removed meanwhile needs to be told nothing: its ports have ended.
    pub fn end_port(&self, queue: u64, told: Result<()>, request: QueueRequest) -> Result<()> {
        let asked = self.ask(queue, request).map(drop);
        match told.and(asked) {
            Err(Error::UnknownRegion { .. }) => Ok(()),
            other => other,
        }
    }

    /// Appends units, which follow their numbers in `operand`; gives the lane's head, too. Repeated as often as needed: they count once.
    pub fn append(&self, queue: u64, lane: u32, operand: &[u8]) -> Result<(Appended, u64)> {
        let mut result = [0; APPENDED_LEN as usize];
        // SAFETY: both outlive the call, which returns when the node has answered or the connection is closed; one is only read.
        let (from, into) = unsafe { (Window::of(operand), Window::of_mut(&mut result)) };
        let refresh = |error: &_| self.region.refresh_after(error);
        let repetition = || Repetition { moves: self.moves(), ..Repetition::default() };
        // SAFETY: as above.
        let run = unsafe { rounds::run(repetition, refresh, |drafts| self.draft_append(drafts, lane, (None, from), into)) };
        run.map_err(|error| self.named(queue, error))?;
        Ok(decode_appended(&result))
    }

    /// After an append that was sent has failed: asks for the grants of today. **Errors**: why it is of no use to send it again.
    pub fn refresh_after(&self, queue: u64, error: &Error) -> Result<()> {
        match error {
            // The repetition asks for the next home as long as that may take.
            error if self.moves() && is_moving(error) => Ok(()),
            Error::NodeLost { .. } | Error::GrantRefused { .. } => {
                self.region.refresh_after(error).map(drop).map_err(|error| self.named(queue, error))
            }
            _ => Ok(()),
        }
    }

    /// Sends an append. Its outcome is told when it is waited for. If it `may_wait`, the node may take its time for the reply.
    pub fn start_append(&self, lane: u32, append: &mut SentAppend, may_wait: bool) {
        let SentAppend { tickets, refused, operand, answer, len, ahead } = append;
        // SAFETY: the bytes are on the heap, where they stay while the append moves, and nobody touches them before its tickets were waited
        // for, which they are when it is dropped at the latest.
        let (from, into) = unsafe { (Window::of(&operand[..*len]), Window::of_mut(&mut **answer)) };
        *tickets = Tickets::to_keep();
        tickets.patience = self.moves().then(|| Duration::from_millis(SILENT_MS));
        let draft = |drafts: &mut Drafts<'_>| {
            self.draft_append(drafts, lane, (ahead.as_ref(), from), into)?;
            if may_wait {
                drafts.let_wait();
            }
            Ok(())
        };
        // SAFETY: as above.
        let posted = unsafe { drafts::post(draft, tickets) };
        *refused = posted.err();
    }

    fn draft_append(
        &self,
        drafts: &mut Drafts<'_>,
        lane: u32,
        (ahead, operand): (Option<&BodyPrefix>, Window),
        answer: Window,
    ) -> Result<()> {
        self.region.refresh_if_refused()?;
        if let Some(ahead) = ahead {
            ahead.draft(drafts)?;
        }
        let (route, shape) = (self.region.extent_route(0), Shape::contiguous(self.at, operand.len() as u64));
        let command = Command::new(Op::Append { lane }, route.node, route.slot, route.grant, &shape);
        drafts.note(command.op, self.region.name(), operand.len() as u64);
        drafts.push(&route, &command, (operand.len() as u64, ListBytes::None), operand, answer, Vec::new());
        Ok(())
    }

    /// On the queues' host: something was committed; wakes the reader, wherever it is.
    #[inline]
    pub fn tell_reader(&self, array: &Array<Shared>, queue: u64) {
        if array.tell_reader(queue) {
            self.nudge();
        }
    }

    /// On the queues' host: something was freed; wakes writers that wait for room, wherever they are.
    #[inline]
    pub fn tell_writers(&self, array: &Array<Shared>, queue: u64) {
        if array.tell_writers(queue) {
            self.nudge();
        }
    }

    /// Has the queues' node look at once at the words that others wait for there.
    #[cold]
    fn nudge(&self) {
        self.region.extent_route(0).remote.nudge();
    }

    /// A connection to the program that reads the queue, by which units of a port may go. **Cost**: that of a connection to the node, greeted, which
    /// hands it on. **Errors**: as for [`Region::get`]; [`Error::BadSetting`] where commands may go by another fabric than TCP.
    pub fn dial_reader(&self, port: PortId) -> Result<TcpLink> {
        let route = self.region.extent_route(0);
        self.region.shared.link(route.remote.node(), &route.address, port)
    }

    /// Asks the queues' node whether it lives. **Errors**: [`Error::NodeLost`].
    pub fn ping(&self, queue: u64) -> Result<()> {
        // Number 0 is no reader's: nothing is closed.
        self.ask(queue, QueueRequest::CloseReader { first: queue, reader: 0 }).map(drop)
    }

    /// First byte of the array in the region.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// The node calls queues by the numbers of their regions.
    fn named(&self, queue: u64, error: Error) -> Error {
        let name = || self.name(queue);
        match error {
            Error::SecondReader { .. } => Error::SecondReader { queue: name() },
            Error::NotAWriter { lane, .. } => Error::NotAWriter { queue: name(), lane },
            Error::NoQueue { reason, .. } => Error::NoQueue { region: self.region.name().to_owned(), offset: self.at, reason },
            Error::LimitReached { limit, what } if what.starts_with("writers at once") => {
                Error::LimitReached { what: format!("writers at once of queue {}", name()), limit }
            }
            other => other,
        }
    }

    /// The error for memory of a queue that makes no sense.
    #[cold]
    pub fn corrupt(&self, bad: Corrupt) -> Error {
        Error::NoQueue { region: self.region.name().to_owned(), offset: self.at, reason: bad.to_string() }
    }

    /// The state of who reads all queues of the array at once, as a word.
    pub fn reader_of_all(&self) -> Result<u64> {
        let mut word = [0; WORD_LEN as usize];
        self.region.get(self.set_bell() + WORD_LEN, &mut word)?;
        Ok(u64::from_le_bytes(word))
    }

    /// In the region: the bell of who reads all queues of the array.
    pub fn set_bell(&self) -> u64 {
        self.at + SET_BELL_AT
    }

    /// In the region: the bell of who reads one queue.
    pub fn reader_bell(&self, queue: u64) -> u64 {
        self.offset(queue) + READER_BELL_AT
    }
}

#[cold]
fn detached(node: &Remote) -> Error {
    Error::NodeLost { node: node.node(), reason: "the connection to it has ended".to_owned() }
}
