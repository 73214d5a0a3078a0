//! Where a message's bytes go, and what it asks for.
//!
//! ```text
//! commands ──> lists ──> all admitted, or one refusal for all ──> operands: taken in as they arrive
//!                                                                   └─ pages elsewhere: "not yet" until they are at home
//! ```
//!
//! Puts are written as they arrive: straight into the extent where they are contiguous, through a staging buffer where
//! they are not or the extent is small. Comparisons and updates pass through the stage too. All commands are admitted before the first
//! byte of an operand is taken, so a refusal means that nothing was done. A message that is cut off by a dying peer was done in part.
//!
//! An extent that hosts map takes all of it through the stage. When the stage is full the link leaves the rest where it is, until the
//! pages of the stage's bytes are at home; the last stage goes with the message. So a node holds one stage for a client, and pages
//! are asked for when their bytes are here.

use super::sums::{Sums, unpaired};
use super::work::Work;
use crate::extents::Extents;
use crate::lost::lost_memory;
use hanare_fabric::{Refusal, Sink};
use hanare_home::Need;
use hanare_memory::Window;
use hanare_protocol::error::Happened;
use hanare_protocol::limits::{LINK_TURN_COUNT, LIST_LEN_MAX, STAGE_LEN};
use hanare_protocol::wire::command::{COMMAND_LEN, Command, Op};
use hanare_protocol::wire::control::CommandOrigin;
use hanare_protocol::wire::exchange::Query;
use hanare_protocol::wire::head::{Head, Kind, MAY_WAIT};
use hanare_protocol::wire::sync::SyncRequest;
use hanare_protocol::{Error, Result};
use std::sync::Arc;
use zerocopy::IntoBytes;

/// A message that has arrived whole, or why it is refused.
pub(crate) struct Finished {
    pub seq: u64,
    /// Whether nobody waits for the answer just now.
    pub may_wait: bool,
    pub arrived: Result<Arrived>,
}

/// What has arrived.
pub(crate) enum Arrived {
    /// Commands. What could be done as they came is done; the rest of these, and their results, are left.
    Commands(Vec<Work>),
    /// Anything else.
    Query(Query),
}

/// Puts of up to this many bytes in a row are asked of a link at once.
const DIRECT_BLOCK_MIN: u64 = 4096;

/// How far a message of commands has come.
#[derive(Default)]
enum Taking {
    /// Its commands come, or none is under way.
    #[default]
    Commands,
    /// Its lists come.
    Lists,
    /// All its commands are admitted, and their operands come.
    Operands {
        /// The command whose operand is taken in.
        current: usize,
        /// Bytes of the operand in the staging buffer, and how many of them were taken in.
        staged_len: usize,
        settled_len: usize,
        /// Bytes of a window of the extent, or of what is held, that the link has, where it has one.
        direct_len: usize,
        /// Whether the others wait for pages.
        wait: StageWait,
    },
    /// Nothing of it is done, and the rest of it goes nowhere.
    Refused(Error),
    /// Memory was lost under it: part of it may be done, and the rest of it goes nowhere.
    Lost(Error),
}

/// What a full stage waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StageWait {
    Nothing,
    /// Pages that nobody was asked for yet.
    Unasked,
    Asked,
}

/// The sink of one link.
pub(crate) struct Inbox {
    extents: Arc<Extents>,
    from: CommandOrigin,
    taking: Taking,
    /// Commands of the message under way, or the body of a query.
    front: Vec<u8>,
    lists: Vec<u64>,
    work: Vec<Work>,
    stage: Vec<u8>,
    /// Messages that wait for their answer.
    pub finished: Vec<Finished>,
    /// Whether earlier messages still read memory, which a later one's operands must not change before.
    pub held_back: bool,
    /// Whether hosts are about to map an extent, and wait for commands on it.
    gives_way: bool,
    /// What the client calls this connection.
    pub name: Option<u128>,
    /// The last message that was admitted or refused.
    pub last: u64,
}

impl Inbox {
    pub fn new(extents: Arc<Extents>, from: CommandOrigin) -> Inbox {
        Inbox {
            extents,
            from,
            taking: Taking::Commands,
            front: Vec::new(),
            lists: Vec::new(),
            work: Vec::new(),
            stage: Vec::new(),
            finished: Vec::new(),
            held_back: false,
            gives_way: false,
            name: None,
            last: 0,
        }
    }

    /// Command number `k` of the message.
    fn command(&self, k: usize) -> Result<Command, Refusal> {
        let bytes = self.front[k * COMMAND_LEN..].first_chunk().expect("as many as the head says");
        Command::decode(bytes).map_err(|malformed| refusal(malformed.0))
    }

    /// Bytes of all lists. Nonsense, or too many, end the link.
    fn list_len(&self) -> Result<u64, Refusal> {
        let mut sum = 0;
        for k in 0..self.front.len() / COMMAND_LEN {
            sum += self.command(k)?.list_len().map_err(|malformed| refusal(malformed.0))?;
        }
        if sum > LIST_LEN_MAX { Err(refusal("lists beyond the limit")) } else { Ok(sum) }
    }

    /// Admits the commands of a message; a refusal is remembered, nonsense ends the link.
    fn admit(&mut self, head: &Head) -> Result<(), Refusal> {
        let mut sums = Sums::default();
        let (mut list_at, mut refused) = (0, None);
        for k in 0..head.count as usize {
            let command = self.command(k)?;
            let words = command.list_len().map_err(|malformed| refusal(malformed.0))? as usize / 8;
            let shape = command.shape(&self.lists[list_at..list_at + words]).map_err(|malformed| refusal(malformed.0))?;
            list_at += words;
            if refused.is_none() {
                match Work::admit(&command, shape, self.from, &self.extents) {
                    Ok(work) => {
                        sums.add(&work);
                        self.work.push(work);
                    }
                    Err(error) => refused = Some(error),
                }
            }
        }
        if refused.is_none() {
            let fronts = (self.front.len() + self.lists.len() * 8) as u64;
            if fronts.saturating_add(sums.operands) != head.body_len {
                return Err(refusal("the bytes of the operands are not as many as the commands say"));
            }
            refused = unpaired(&self.work).or_else(|| sums.beyond_limits());
        }
        self.last = head.seq;
        self.taking = match refused {
            None => Taking::Operands { current: 0, staged_len: 0, settled_len: 0, direct_len: 0, wait: StageWait::Nothing },
            Some(error) => {
                // What was admitted before the refusal must not be held until the whole message is here.
                self.work.clear();
                Taking::Refused(error)
            }
        };
        Ok(())
    }

    /// What became of the message that is on its way in, if it was admitted or refused.
    pub fn fate(&self) -> Option<(u64, Happened)> {
        match self.taking {
            Taking::Commands | Taking::Lists => None,
            Taking::Operands { .. } | Taking::Lost(_) => Some((self.last, Happened::Unknown)),
            Taking::Refused(_) => Some((self.last, Happened::No)),
        }
    }

    /// The place of the next bytes of the message's last part.
    fn place_rest(&mut self, left: u64) -> Result<Window, Refusal> {
        let Taking::Operands { current, staged_len, direct_len, .. } = &mut self.taking else { return Ok(self.scratch(left)) };
        *direct_len = 0;
        let left = |work: &Work| work.operand_len() - work.taken;
        while self.work.get(*current).is_some_and(|work| left(work) == 0) {
            *current += 1;
        }
        let work = self.work.get_mut(*current).ok_or_else(|| refusal("more bytes than the commands say"))?;
        let left = left(work);
        if let Some(window) = direct_place(work, left).or_else(|| work.held_place()) {
            work.taken += window.len() as u64;
            *direct_len = window.len();
            return Ok(window);
        }
        self.stage.resize(STAGE_LEN, 0);
        *staged_len = left.min(STAGE_LEN as u64) as usize;
        // SAFETY: the stage is not touched until the link has filled the window and asks again, or is dropped.
        Ok(unsafe { Window::of_mut(&mut self.stage) }.slice(0, *staged_len))
    }

    /// Takes in what the staging buffer holds, unless that waits for pages.
    fn settle(&mut self) {
        let Taking::Operands { current, staged_len, wait, .. } = &mut self.taking else { return };
        if *staged_len == 0 || *wait != StageWait::Nothing {
            return;
        }
        let work = &mut self.work[*current];
        if work.waits_with_operand() {
            *wait = StageWait::Unasked;
            return;
        }
        // SAFETY: the buffer is ours, and only read here.
        let bytes = unsafe { Window::of(&self.stage) }.slice(0, std::mem::take(staged_len));
        if let Err(lost) = work.take(bytes) {
            self.taking = Taking::Lost(lost_memory(&lost));
        }
    }

    /// Hosts are about to map an extent: commands that came before them go on by pages. Returns whether some are on their way in, whose window
    /// the link has to give back first.
    pub fn give_way(&mut self) -> bool {
        self.gives_way = matches!(self.taking, Taking::Operands { .. });
        self.gives_way
    }

    /// Whether the stage waits for pages.
    pub fn waits_for_pages(&self) -> bool {
        matches!(self.taking, Taking::Operands { wait: StageWait::Unasked | StageWait::Asked, .. })
    }

    /// Pages that have to come home before the message goes on, told once.
    pub fn need(&mut self) -> Option<Need> {
        let Taking::Operands { current, staged_len, settled_len, wait: wait @ StageWait::Unasked, .. } = &mut self.taking else {
            return None;
        };
        *wait = StageWait::Asked;
        let work = &mut self.work[*current];
        Some(work.need((*staged_len - *settled_len) as u64 / work.op.operand_factor()))
    }

    /// They are at home, or will not come.
    pub fn recalled(&mut self, outcome: Result<()>) {
        let Taking::Operands { current, staged_len, settled_len, wait, .. } = &mut self.taking else { return };
        // SAFETY: the buffer is ours, and only read here.
        let bytes = unsafe { Window::of(&self.stage) }.slice(*settled_len, *staged_len - *settled_len);
        let work = &mut self.work[*current];
        match outcome.and_then(|()| work.take_by_pages(bytes).map_err(|lost| lost_memory(&lost))) {
            Ok(len) => {
                (*settled_len, *wait) = (*settled_len + len, StageWait::Unasked);
                if settled_len == staged_len {
                    (*staged_len, *settled_len, *wait) = (0, 0, StageWait::Nothing);
                }
            }
            Err(error) => self.taking = Taking::Lost(error),
        }
    }

    /// The last bytes of the message's operands go with their command.
    fn keep_rest(&mut self) {
        if let Taking::Operands { current, staged_len, .. } = &mut self.taking
            && *staged_len > 0
        {
            self.work[*current].keep_rest(&self.stage[..std::mem::take(staged_len)]);
        }
    }

    /// A place for bytes that nobody wants.
    fn scratch(&mut self, left: u64) -> Window {
        self.stage.resize(STAGE_LEN, 0);
        // SAFETY: as in `place_rest`.
        unsafe { Window::of_mut(&mut self.stage) }.slice(0, left.min(STAGE_LEN as u64) as usize)
    }

    fn place_front(&mut self, len: u64) -> Window {
        self.front.resize(len as usize, 0);
        // SAFETY: the buffer is not touched until the link has filled it and asks again, or is dropped.
        unsafe { Window::of_mut(&mut self.front) }
    }

    /// The bytes of a message of commands from `at` on.
    fn place_commands(&mut self, head: &Head, at: u64) -> Result<Window, Refusal> {
        let front_len = (head.count as usize * COMMAND_LEN) as u64;
        if at == 0 {
            if front_len == 0 || front_len > head.body_len {
                return Err(refusal("no commands where some were announced"));
            }
            self.work.clear();
            self.lists.clear();
            self.taking = Taking::Commands;
            return Ok(self.place_front(front_len));
        }
        if matches!(self.taking, Taking::Commands) {
            self.taking = Taking::Lists;
            let list_len = self.list_len()?;
            if front_len + list_len > head.body_len {
                return Err(refusal("lists longer than the message"));
            }
            if list_len > 0 {
                self.lists.resize(list_len as usize / 8, 0);
                // SAFETY: as in `place_front`.
                return Ok(unsafe { Window::of_mut(self.lists.as_mut_bytes()) });
            }
        }
        self.go_on(head)?;
        if self.waits_for_pages() { Ok(Window::empty()) } else { self.place_rest(head.body_len - at) }
    }

    /// What was asked for is here: the lists, or a stage of the operands.
    fn go_on(&mut self, head: &Head) -> Result<(), Refusal> {
        match self.taking {
            Taking::Commands | Taking::Lists => self.admit(head),
            Taking::Operands { .. } | Taking::Refused(_) | Taking::Lost(_) => {
                self.settle();
                Ok(())
            }
        }
    }

    /// All bytes of a message of commands are here.
    fn end_commands(&mut self, head: &Head) {
        let ended = match self.taking {
            _ if head.body_len == 0 => Err(refusal("no commands")),
            // Its commands were its last bytes.
            Taking::Commands => match self.list_len() {
                Ok(0) => self.go_on(head),
                Ok(_) => Err(refusal("lists that are not there")),
                Err(nonsense) => Err(nonsense),
            },
            _ => self.go_on(head),
        };
        match ended {
            Ok(()) => self.keep_rest(),
            Err(nonsense) => self.taking = Taking::Refused(garbage(&nonsense.0)),
        }
    }

    /// The commands of the message that is here.
    fn take_commands(&mut self) -> Result<Arrived> {
        match std::mem::take(&mut self.taking) {
            Taking::Refused(error) | Taking::Lost(error) => {
                self.work.clear();
                Err(error)
            }
            Taking::Commands | Taking::Lists | Taking::Operands { .. } => {
                self.work.iter_mut().for_each(Work::conclude);
                self.work.retain(|work| work.is_left() || work.op == Op::CopyTo || work.result_len() > 0);
                Ok(Arrived::Commands(std::mem::take(&mut self.work)))
            }
        }
    }

    /// The query that is here.
    fn take_query(&mut self, head: &Head) -> Result<Arrived> {
        if head.kind == Kind::Sync {
            self.last = head.seq;
        }
        let query = Query::decode(head, &self.front).map_err(|malformed| garbage(malformed.0))?;
        if let Query::Name(name) = query {
            self.name = Some(name);
        }
        Ok(Arrived::Query(query))
    }
}

/// How much of a link's turn a query takes: a look goes through all that a node has, and a lock or a barrier may bring half a MiB.
pub(crate) fn weight(query: &Query) -> usize {
    match query {
        Query::Look(_) => LINK_TURN_COUNT,
        Query::Sync(SyncRequest::Lock { .. } | SyncRequest::Sleep { .. }) => LINK_TURN_COUNT / 4,
        Query::Sync(SyncRequest::Release { .. } | SyncRequest::MeetWith(..) | SyncRequest::ArriveWith(..)) => LINK_TURN_COUNT / 4,
        _ => 1,
    }
}

/// Where the next bytes of a put belong, if they can go there without the stage.
fn direct_place(work: &Work, left: u64) -> Option<Window> {
    if work.op != Op::Put {
        return None;
    }
    let window = work.opened().stays()?;
    if let Some((offset, _)) = work.shape.range() {
        work.opened().held().will_write([(offset + work.taken, left)]);
        return Some(window.slice((offset + work.taken) as usize, left as usize));
    }
    let block = work.shape.shape().block();
    let begins = work.taken.is_multiple_of(block);
    (block >= DIRECT_BLOCK_MIN && begins).then(|| {
        let offset = work.shape.block_offset(work.taken / block);
        work.opened().held().will_write([(offset, block)]);
        window.slice(offset as usize, block as usize)
    })
}

// SAFETY: windows are of extents that `work` keeps alive until the message is whole, or of buffers of this inbox that stay as they are
// until the link asks again; the session drops the link before the inbox.
unsafe impl Sink for Inbox {
    fn place(&mut self, head: &Head, at: u64) -> Result<Window, Refusal> {
        match head.kind {
            Kind::Commands => self.place_commands(head, at),
            kind if Query::is_of(kind) && at == 0 => Ok(self.place_front(head.body_len)),
            _ => Err(refusal("a message that only nodes send")),
        }
    }

    fn message(&mut self, head: &Head) {
        let arrived = match head.kind {
            Kind::Commands => {
                self.end_commands(head);
                self.take_commands()
            }
            _ => self.take_query(head),
        };
        self.front.clear();
        let may_wait = head.kind == Kind::Commands && head.detail == MAY_WAIT;
        self.finished.push(Finished { seq: head.seq, may_wait, arrived });
    }

    fn keeps(&mut self, filled: usize) -> bool {
        if !std::mem::take(&mut self.gives_way) {
            return true;
        }
        let Taking::Operands { current, direct_len, .. } = &mut self.taking else { return true };
        self.work.iter_mut().for_each(|work| work.give_way(&self.extents));
        let goes_back = *direct_len > 0 && self.work[*current].is_by_pages();
        if goes_back {
            self.work[*current].taken -= (std::mem::take(direct_len) - filled) as u64;
        }
        !goes_back
    }

    fn may_begin(&self) -> bool {
        let reads = |finished: &Finished| matches!(&finished.arrived, Ok(Arrived::Commands(work)) if !work.is_empty());
        let weight = |finished: &Finished| if let Ok(Arrived::Query(query)) = &finished.arrived { weight(query) } else { 0 };
        let asked: usize = self.finished.iter().map(weight).sum();
        !self.held_back && !self.finished.iter().any(reads) && asked < LINK_TURN_COUNT
    }
}

fn garbage(reason: &str) -> Error {
    Error::Garbage { peer: "a client".to_owned(), reason: reason.to_owned() }
}

fn refusal(reason: &str) -> Refusal {
    Refusal(reason.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hanare_memory::file::Huge;
    use hanare_memory::{Lender, LenderOptions};
    use hanare_protocol::id::{Grant, Slot};
    use hanare_protocol::shape::Shape;

    #[test]
    fn a_message_that_was_refused_and_then_cut_off_did_nothing() {
        let lender =
            Lender::new(&LenderOptions { bytes: 1 << 20, slab_len: None, huge: Huge::Never, ahead: 1 << 20, promises: None })
                .unwrap();
        let mut inbox = Inbox::new(Arc::new(Extents::new(Arc::new(lender))), CommandOrigin::OtherHost);
        let put = Command::new(Op::Put, 0, Slot(7), Grant([0; 16]), &Shape::contiguous(0, 1000));
        let head = Head { count: 1, body_len: COMMAND_LEN as u64 + 1000, ..Head::new(Kind::Commands, 5) };
        inbox.place(&head, 0).unwrap().write_from(&put.encode()).unwrap();
        assert_eq!(inbox.fate(), None);
        inbox.place(&head, COMMAND_LEN as u64).unwrap();
        assert_eq!(inbox.fate(), Some((5, Happened::No)), "no such extent");
        inbox.message(&head);
        assert_eq!(inbox.fate(), None);
        assert!(matches!(inbox.finished.pop().unwrap().arrived, Err(Error::GrantRefused { .. })));
    }
}
