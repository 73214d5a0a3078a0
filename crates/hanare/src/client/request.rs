//! Requests on their way to a node: what is sent, where the answer goes, and what came of it.

use super::drafts::ListBytes;
use super::plan;
use super::subject::{About, Subject, Subjects};
use crate::trace::Sent;
use hanare_fabric::Refusal;
use hanare_memory::{Window, fault};
use hanare_protocol::error::Happened;
use hanare_protocol::id::Gid;
use hanare_protocol::page::Access;
use hanare_protocol::shape::{Checked, Strided};
use hanare_protocol::wire::command::{COMMAND_LEN, Command, Form, Op};
use hanare_protocol::wire::control;
use hanare_protocol::wire::head::{Head, Kind};
use hanare_protocol::wire::sync::{SyncAnswer, SyncRequest};
use hanare_protocol::{Error, limits};
use std::sync::Arc;
use std::time::{Duration, Instant};
use zerocopy::IntoBytes;

/// One message's worth of commands, and the state of its answer. Reused, so that the hot path allocates nothing.
#[derive(Debug, Default)]
pub(crate) struct Request {
    what: What,
    /// The encoded commands; the body of what is no command.
    front: Vec<u8>,
    count: u32,
    /// What each command is about: the number of its subject, and the extent there.
    abouts: Vec<(u32, u32)>,
    subjects: Subjects,
    /// The commands' lists, in order.
    lists: Vec<Window>,
    list_len: u64,
    /// Bytes to send, in command order.
    operands: Vec<Window>,
    operand_len: u64,
    /// Those that the node holds until the message is whole.
    held_len: u64,
    /// Where the answer's bytes go, in command order.
    results: Vec<Window>,
    result_len: u64,
    /// Memory of this request's own that its windows show.
    own: Vec<Own>,
    /// How long its answer may take.
    patience: Patience,
    /// When nobody waits for it any longer, where its patience has an end of its own.
    until: Option<Instant>,
    /// Whether nobody waits for it any longer: it stays until its answer is here, or its connection is gone.
    is_forsaken: bool,
    /// Whether it must not be carried out twice.
    is_once: bool,
    /// Whether another node than the one it is sent to may have to be asked: that may refuse when all else is done.
    has_copy: bool,
    /// Its number.
    seq: u64,
    /// Whether a refusal since its region is mapped is for its sender to deal with, and for nobody else.
    pub is_sent_again: bool,
    /// Whether it was refused so, and is just carried out by this program: an empty one keeps its place meanwhile.
    is_under_way: bool,
    /// Whether that is over: its outcome is the last.
    is_done_here: bool,
    /// The window of `results` that is filled next.
    next: usize,
    /// A refusal, or what was told.
    said: Vec<u8>,
    /// The name of the connection that it was sent on, where it must not be carried out twice.
    pub connection: Option<u128>,
    /// Bytes given to its link up to its last; none once the link is gone.
    pub posted_len: u64,
    /// On the timeline, if there is one.
    pub sent: Option<Sent>,
    /// What came of it, once it is known.
    pub outcome: Option<Result<(), Error>>,
}

/// What a command needs of a message, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Needs {
    pub list_len: u64,
    /// Of an operand that the node holds.
    pub held_len: u64,
    pub result_len: u64,
    /// Whether it must not be done twice.
    pub is_once: bool,
    pub is_copy: bool,
}

/// What a request asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum What {
    #[default]
    Commands,
    /// A rank arrives at a barrier.
    Arrival,
    /// What became of a request of a connection that broke.
    Question,
    /// Something that clients share.
    Sync,
}

/// How long an answer may take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Patience {
    /// As long as any peer's answer.
    #[default]
    Usual,
    /// As long as others make it wait, for so long at most, and [`limits::LATE_MS`] more for the answer that says so.
    UpTo(Duration),
    /// As long as others make it wait.
    Endless,
}

impl Patience {
    /// When one that begins at this moment ends, where it has an end of its own.
    pub fn end(self) -> Option<Instant> {
        match self {
            Patience::UpTo(time) => Instant::now().checked_add(time.checked_add(Duration::from_millis(limits::LATE_MS))?),
            Patience::Usual | Patience::Endless => None,
        }
    }
}

/// Heap memory that stays where it is while its owner moves.
#[derive(Debug)]
#[expect(dead_code, reason = "it is held, and seen through windows alone")]
enum Own {
    Bytes(Vec<u8>),
    Narrow(Vec<u32>),
    Wide(Vec<u64>),
}

/// What fills an odd list of 32-bit indices up.
static ZEROS: [u8; 4] = [0; 4];

impl Request {
    /// Empties the request for its next use; capacities stay.
    pub fn clear(&mut self) {
        self.front.clear();
        self.abouts.clear();
        self.subjects = Subjects::default();
        self.lists.clear();
        self.operands.clear();
        self.results.clear();
        self.own.clear();
        self.said.clear();
        self.posted_len = 0;
        (self.count, self.list_len, self.operand_len, self.held_len, self.result_len, self.next) = (0, 0, 0, 0, 0, 0);
        (self.outcome, self.what, self.is_once, self.connection, self.sent) = (None, What::Commands, false, None, None);
        (self.patience, self.until, self.is_forsaken) = (Patience::Usual, None, false);
        (self.has_copy, self.seq) = (false, 0);
        (self.is_sent_again, self.is_under_way, self.is_done_here) = (false, false, false);
    }

    /// Whether a message has room for another command, or two, of such needs.
    pub fn has_room(&self, needs: Needs) -> bool {
        let lists_fit = needs.list_len == 0 || self.list_len + needs.list_len <= limits::LIST_LEN_MAX;
        let operands_fit = needs.held_len == 0 || self.held_len + needs.held_len <= limits::HELD_LEN_MAX;
        let results_fit = !self.is_once || self.result_len + needs.result_len <= limits::OLD_LEN_MAX;
        // What is refused when part of the message is done is done again as a whole.
        let may_repeat = !(self.is_once && needs.is_copy || self.has_copy && needs.is_once);
        self.count as usize + 2 <= limits::BATCH_COUNT_MAX && lists_fit && operands_fit && results_fit && may_repeat
    }

    /// Adds a get or put without a list. Where it goes on with the command before, that one becomes longer instead.
    pub fn push_plain(&mut self, command: &Command, about: &About, memory: Window) {
        if !self.join(command) {
            self.push_front(command, about);
        }
        match command.op {
            Op::Get => self.push_result(memory),
            _ => self.push_operand(memory),
        }
    }

    /// Makes the last command longer by one that goes on where it ends: pieces of an interleaved region that lie side by side.
    fn join(&mut self, next: &Command) -> bool {
        let Some(last) = self.front.last_chunk::<COMMAND_LEN>() else { return false };
        let Ok(before) = Command::decode(last) else { return false };
        let strided = |command: &Command| {
            let Command { offset, block, count, stride, .. } = *command;
            Strided { offset, block, count, stride }
        };
        let is_alike = (before.op, before.slot, before.grant, before.form) == (next.op, next.slot, next.grant, Form::Strided);
        let Some(Strided { offset, block, count, stride }) =
            is_alike.then(|| plan::join(&strided(&before), &strided(next))).flatten()
        else {
            return false;
        };
        let at = self.front.len() - COMMAND_LEN;
        self.front[at..].copy_from_slice(&Command { offset, block, count, stride, ..before }.encode());
        true
    }

    /// Adds any command; see [`super::drafts::Drafts::push`].
    pub fn push(&mut self, command: &Command, about: &About, list: ListBytes, operand: Window, result: Window, packed: Vec<u8>) {
        self.push_front(command, about);
        self.push_list(command.list_len().expect("lists go in pieces"), list);
        // SAFETY: the heap memory stays where it is while its owner moves, and the owner stays until the request is cleared.
        let operand = if operand.is_empty() { unsafe { Window::of(&packed) } } else { operand };
        self.push_operand(operand);
        self.held_len += if command.op.streams_operand() { 0 } else { operand.len() as u64 };
        self.push_result(result);
        if !packed.is_empty() {
            self.own.push(Own::Bytes(packed));
        }
    }

    fn push_front(&mut self, command: &Command, (subject, extent): &About) {
        self.front.extend_from_slice(&command.encode());
        self.count += 1;
        self.is_once |= command.op.is_once();
        self.has_copy |= matches!(command.op, Op::CopyFrom { .. });
        let number = self.subjects.enter(subject);
        self.abouts.push((number, *extent));
    }

    /// Adds a command of another request again, whose memory that one keeps.
    pub fn push_again(&mut self, entry: &Entry<'_>) {
        self.push_front(&entry.command, &(entry.subject.clone(), entry.extent as u32));
        let len = |windows: &[Window]| windows.iter().map(|window| window.len() as u64).sum::<u64>();
        self.list_len += len(&entry.list);
        self.operand_len += len(&entry.operand);
        self.held_len += if entry.command.op.streams_operand() { 0 } else { len(&entry.operand) };
        self.result_len += len(&entry.result);
        self.lists.extend_from_slice(&entry.list);
        self.operands.extend_from_slice(&entry.operand);
        self.results.extend_from_slice(&entry.result);
    }

    /// Whether it has no commands.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// What its commands are about.
    pub fn subjects(&self) -> &Subjects {
        &self.subjects
    }

    /// Takes them out, since nothing of it is left to do.
    pub fn take_subjects(&mut self) -> Subjects {
        std::mem::take(&mut self.subjects)
    }

    /// Its commands one by one, each with its memory.
    ///
    /// **Errors**: those of [`hanare_protocol::shape::Shape::check`], where the caller's index list has changed meanwhile.
    pub fn entries(&self) -> impl Iterator<Item = Result<Entry<'_>, Error>> {
        let (mut lists, mut operands, mut results) = (Cut::of(&self.lists), Cut::of(&self.operands), Cut::of(&self.results));
        let (commands, _) = self.front.as_chunks::<COMMAND_LEN>();
        commands.iter().zip(&self.abouts).map(move |(bytes, (subject, extent))| {
            let command = Command::decode(bytes).expect("this program wrote it");
            let list = lists.take(command.list_len().expect("lists go in pieces"));
            let (subject, extent) = (self.subjects.get(*subject), *extent as usize);
            let limit = subject.layout.extents().nth(extent).expect("it was drafted for this layout").len;
            let shape = command.shape(&words_of(&list)).expect("this program wrote it").check(&subject.name, limit)?;
            let operand = operands.take(command.op.operand_len(shape.len()).expect("it was checked when it was drafted"));
            let result = results.take(command.op.result_len(shape.len()));
            Ok(Entry { command, shape, subject, extent, list, operand, result })
        })
    }

    fn push_list(&mut self, len: u64, list: ListBytes) {
        // SAFETY: heap memory stays where it is while its owner moves, and `own` keeps it until the request is cleared.
        let heap = |bytes: &[u8]| unsafe { Window::of(bytes) };
        let (window, own) = match list {
            ListBytes::None => return,
            ListBytes::Borrowed(window) => (window, None),
            ListBytes::Dims(bytes) => (heap(&bytes), Some(Own::Bytes(bytes))),
            ListBytes::Narrow(list) => (heap(list.as_bytes()), Some(Own::Narrow(list))),
            ListBytes::Wide(list) => (heap(list.as_bytes()), Some(Own::Wide(list))),
        };
        self.lists.push(window);
        if (window.len() as u64) < len {
            // SAFETY: a static that nobody writes.
            self.lists.push(unsafe { Window::of(&ZEROS) });
        }
        self.list_len += len;
        self.own.extend(own);
    }

    fn push_operand(&mut self, operand: Window) {
        fault::bring(operand, Access::Read);
        self.operand_len += operand.len() as u64;
        self.operands.push(operand);
    }

    fn push_result(&mut self, result: Window) {
        fault::bring(result, Access::Write);
        self.result_len += result.len() as u64;
        self.results.push(result);
    }

    /// Makes it a rank's arrival at a barrier.
    pub fn set_arrival(&mut self, arrival: &control::Arrival) {
        (self.front, self.what, self.patience) = (control::encode(arrival), What::Arrival, Patience::Endless);
    }

    /// Makes it a question for what became of a request.
    pub fn set_question(&mut self, question: &control::Question) {
        (self.front, self.what) = (control::encode(question), What::Question);
    }

    /// Makes it ask for something that clients share.
    pub fn set_sync(&mut self, request: &SyncRequest, patience: Patience) {
        (self.front, self.what, self.patience, self.is_once) = (control::encode(request), What::Sync, patience, true);
        self.until = patience.end();
    }

    /// How long its answer may take while nothing moves, where `usual` is how long any may; `None` for ever.
    pub fn patience(&self, usual: Duration) -> Option<Duration> {
        (self.patience == Patience::Usual).then_some(usual)
    }

    /// When nobody waits for it any longer, whatever moves.
    pub fn until(&self) -> Option<Instant> {
        self.until
    }

    /// Whether that is over, and its answer not here.
    pub fn is_late(&self) -> bool {
        self.outcome.is_none() && self.until.is_some_and(|until| Instant::now() >= until)
    }

    /// Whether it must not be carried out twice.
    pub fn is_once(&self) -> bool {
        self.is_once
    }

    /// What was told in answer to a question.
    pub fn told(&self) -> Option<Happened> {
        control::decode(&self.said).ok()
    }

    /// What was answered where something that clients share was asked for.
    pub fn synced(&self) -> Option<SyncAnswer> {
        (self.what == What::Sync).then(|| control::decode(&self.said).ok()).flatten()
    }

    /// The region whose being mapped by others it was refused for, if it was and its commands are still to be done.
    pub fn refused_for(&self) -> Option<Gid> {
        match self.outcome {
            Some(Err(Error::IsMapped { gid })) if self.what == What::Commands && !self.is_done_here => Some(gid),
            _ => None,
        }
    }

    /// Whether anybody may carry it out.
    fn is_refused(&self) -> bool {
        !self.is_sent_again && self.refused_for().is_some()
    }

    /// Whether its outcome is one that this program has still to see to.
    pub fn is_left(&self) -> bool {
        self.is_under_way || self.is_refused()
    }

    pub fn head(&self, seq: u64) -> Head {
        let kind = match self.what {
            What::Commands => Kind::Commands,
            What::Arrival => Kind::Arrive,
            What::Question => Kind::Ask,
            What::Sync => Kind::Sync,
        };
        let body_len = self.front.len() as u64 + self.list_len + self.operand_len;
        Head { kind, count: self.count, seq, body_len, detail: 0 }
    }

    /// The message's body: the commands, their lists, their operands.
    pub fn body<'a>(&'a self, windows: &'a mut Vec<Window>) -> &'a [Window] {
        windows.clear();
        // SAFETY: the commands stay in the request, which is not touched until its answer is here or the link is dropped.
        windows.push(unsafe { Window::of(&self.front) });
        windows.extend_from_slice(&self.lists);
        windows.extend_from_slice(&self.operands);
        windows
    }

    /// Where byte `at` of the answer and those after it go.
    pub fn place(&mut self, head: &Head, at: u64) -> Result<Window, Refusal> {
        match head.kind {
            Kind::Done if head.body_len == self.result_len => {
                if at == 0 {
                    self.next = 0;
                }
                // A window without bytes is never asked for, so it is stepped over.
                while self.results.get(self.next).is_some_and(Window::is_empty) {
                    self.next += 1;
                }
                self.next += 1;
                self.results.get(self.next - 1).copied().ok_or_else(|| refusal("an answer with more bytes than were asked for"))
            }
            Kind::Refused | Kind::Told | Kind::Synced if at == 0 => {
                self.said.resize(head.body_len as usize, 0);
                // SAFETY: the buffer stays in the request, which is not touched until it is full or the link is dropped.
                Ok(unsafe { Window::of_mut(&mut self.said) })
            }
            _ => Err(refusal("an answer of another length than was asked for")),
        }
    }

    /// The whole answer is here. False: it is none that fits what was asked.
    pub fn answered(&mut self, head: &Head) -> bool {
        let outcome = match head.kind {
            Kind::Done if self.what == What::Commands && head.body_len == self.result_len => Ok(()),
            Kind::Released if self.what == What::Arrival => Ok(()),
            Kind::Told if self.what == What::Question && self.told().is_some() => Ok(()),
            Kind::Synced if self.synced().is_some() => Ok(()),
            Kind::Refused => match control::decode(&self.said) {
                Ok(error) => Err(error),
                Err(_) => return false,
            },
            _ => return false,
        };
        self.settle(outcome);
        true
    }

    fn settle(&mut self, outcome: Result<(), Error>) {
        if let Some(sent) = self.sent.take() {
            sent.end(&outcome);
        }
        self.outcome = Some(outcome);
    }
}

/// A command of a request, with its memory.
pub(crate) struct Entry<'r> {
    pub command: Command,
    /// Its bytes on the extent.
    pub shape: Checked<'static>,
    pub subject: &'r Arc<Subject>,
    pub extent: usize,
    list: Vec<Window>,
    pub operand: Vec<Window>,
    pub result: Vec<Window>,
}

/// Takes windows apart from the front.
pub(crate) struct Cut<'w> {
    windows: &'w [Window],
    /// Bytes of the first that were taken.
    taken: usize,
}

impl<'w> Cut<'w> {
    pub fn of(windows: &'w [Window]) -> Cut<'w> {
        Cut { windows, taken: 0 }
    }

    /// The next bytes, at most so many, that lie in one window.
    fn next(&mut self, most: u64) -> Window {
        let mut first = self.windows.first().expect("as many bytes as the commands say");
        while first.len() == self.taken {
            (self.windows, self.taken) = (&self.windows[1..], 0);
            first = self.windows.first().expect("as many bytes as the commands say");
        }
        let len = (first.len() - self.taken).min(most as usize);
        self.taken += len;
        first.slice(self.taken - len, len)
    }

    /// The next bytes, of a command whose bytes lie in one window.
    pub fn whole(&mut self, len: u64) -> Window {
        let window = self.next(len);
        assert_eq!(window.len() as u64, len, "only plain gets and puts are joined");
        window
    }

    /// Runs `with` for the next bytes, window by window: each with the place of its first byte among them.
    pub fn each<E>(&mut self, len: u64, mut with: impl FnMut(u64, Window) -> Result<(), E>) -> Result<(), E> {
        let mut at = 0;
        while at < len {
            let window = self.next(len - at);
            with(at, window)?;
            at += window.len() as u64;
        }
        Ok(())
    }

    /// The next bytes, in as many windows as they lie in.
    fn take(&mut self, len: u64) -> Vec<Window> {
        let mut taken = Vec::new();
        let mut left = len;
        while left > 0 {
            taken.push(self.next(left));
            left -= taken.last().map_or(0, |window| window.len() as u64);
        }
        taken
    }
}

/// A list's words. Of a list in memory that is lost the indices are zero, as a node would have got them.
fn words_of(list: &[Window]) -> Vec<u64> {
    let mut bytes = vec![0; list.iter().map(Window::len).sum()];
    let mut at = 0;
    for window in list {
        let _ = window.read_into(&mut bytes[at..at + window.len()]);
        at += window.len();
    }
    bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("8 bytes"))).collect()
}

fn refusal(reason: &str) -> Refusal {
    Refusal(reason.to_owned())
}

/// The requests of one connection that wait for their answers, found by their sequence number.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    slots: Vec<Option<Box<Request>>>,
    free: Vec<u32>,
    /// Emptied requests for the next use.
    #[expect(clippy::vec_box, reason = "requests wander between tables and drafts: as pointers, not as 200 bytes")]
    spare: Vec<Box<Request>>,
    counter: u64,
    open: usize,
    /// How many of them nobody waits for any longer.
    forsaken: usize,
}

/// Low bits of a sequence number: the slot. The rest is a counter, so that a late answer finds nobody.
const SLOT_BITS: u32 = 20;

impl Pending {
    /// A request to fill, an old one if there is.
    pub fn draft(&mut self) -> Box<Request> {
        self.spare.pop().unwrap_or_default()
    }

    /// Puts an emptied request aside for its next use.
    pub fn keep(&mut self, mut request: Box<Request>) {
        request.clear();
        if self.spare.len() < 16 {
            self.spare.push(request);
        }
    }

    /// Enters a request and numbers it. **Errors**: [`Error::LimitReached`] with a million in flight.
    pub fn enter(&mut self, mut request: Box<Request>) -> Result<u64, Error> {
        if self.free.is_empty() && self.slots.len() >= 1 << SLOT_BITS {
            return Err(Error::LimitReached { what: "requests in flight to one node".to_owned(), limit: 1 << SLOT_BITS });
        }
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() as u32 - 1
        });
        self.counter += 1;
        request.seq = self.counter << SLOT_BITS | u64::from(slot);
        let seq = request.seq;
        self.slots[slot as usize] = Some(request);
        self.open += 1;
        Ok(seq)
    }

    fn slot(&self, seq: u64) -> Option<usize> {
        Some((seq & ((1 << SLOT_BITS) - 1)) as usize).filter(|slot| *slot < self.slots.len())
    }

    /// The request of that number, if it still waits here.
    pub fn get(&mut self, seq: u64) -> Option<&mut Request> {
        let slot = self.slot(seq)?;
        self.slots[slot].as_deref_mut()
    }

    /// Takes a request out, whatever its state.
    pub fn take(&mut self, seq: u64) -> Option<Box<Request>> {
        let slot = self.slot(seq)?;
        let request = self.slots[slot].take()?;
        self.free.push(slot as u32);
        self.open -= 1;
        Some(request)
    }

    /// Nobody waits for it any longer.
    pub fn forsake(&mut self, seq: u64) {
        if let Some(request) = self.get(seq) {
            request.is_forsaken = true;
            self.forsaken += 1;
        }
    }

    /// Whether there is any that nobody waits for.
    pub fn any_forsaken(&self) -> bool {
        self.forsaken > 0
    }

    /// Puts aside what nobody waits for and was answered, where its link shows nothing of it since it has sent so many bytes.
    pub fn sweep(&mut self, sent_len: u64) {
        let is_over = |request: &Request| request.is_forsaken && request.outcome.is_some() && request.posted_len <= sent_len;
        let requests = self.slots.iter().flatten();
        let over: Vec<u64> = requests.filter(|request| is_over(request)).map(|request| request.seq).collect();
        self.forsaken -= over.len();
        for seq in over {
            if let Some(request) = self.take(seq) {
                self.keep(request);
            }
        }
    }

    /// Fails all that have no answer.
    pub fn fail_all(&mut self, error: &Error) {
        for request in self.slots.iter_mut().flatten() {
            request.posted_len = 0;
            if request.outcome.is_none() && !request.is_under_way {
                request.settle(Err(error.clone()));
            }
        }
    }

    /// Whether any has no answer that will have one by itself: what waits for other clients may wait for this one.
    pub fn any_unanswered(&self) -> bool {
        let is_open =
            |request: &Request| request.outcome.is_none() && !request.is_under_way && request.patience == Patience::Usual;
        self.open > 0 && self.slots.iter().flatten().any(|request| is_open(request))
    }

    /// Whether some were refused since their region is mapped, and this program has not done them yet, or not to the end.
    pub fn any_refused(&self) -> bool {
        self.open > 0 && self.slots.iter().flatten().any(|request| request.is_left())
    }

    /// Takes out the request of those that was sent first; its place stays taken.
    pub fn take_refused(&mut self) -> Option<(u64, Box<Request>)> {
        let refused = self.slots.iter_mut().flatten().filter(|request| request.is_refused());
        let first = refused.min_by_key(|request| request.seq)?;
        let seq = first.seq;
        let mut place = self.spare.pop().unwrap_or_default();
        (place.seq, place.is_under_way, place.posted_len) = (seq, true, first.posted_len);
        Some((seq, std::mem::replace(first, place)))
    }

    /// Puts it back with what came of it.
    pub fn put_back(&mut self, seq: u64, mut request: Box<Request>, outcome: Result<(), Error>) {
        request.outcome = Some(outcome);
        request.is_done_here = true;
        let slot = self.slot(seq).and_then(|slot| self.slots[slot].as_mut()).expect("its place stayed taken");
        // The connection may have ended meanwhile.
        request.posted_len = slot.posted_len;
        let place = std::mem::replace(slot, request);
        self.keep(place);
    }
}
