//! Destinations of a message's bytes, and its requests.
//!
//! ```text
//! commands ──> lists ──> all admitted, or one refusal for all ──> operands: taken in as they arrive
//!                                                                   └─ pages elsewhere: "not yet" until they are at home
//! ```
//!
//! Puts are written as they arrive. Contiguous bytes go straight into the extent; others, and those of small extents, pass a staging
//! buffer. So do comparisons and updates. All commands are admitted before the first byte of an operand is taken. So a refusal means that
//! nothing was done. A message that is cut off by a dying peer was done in part.
//!
//! An extent that hosts map takes all bytes through the stage. When the stage is full the link leaves the rest where it is, until the
//! stage's pages are at home. The last stage goes with the message. So a node holds one stage for a client, and asks for pages
//! when their bytes are here.

use super::ahead::WritesAhead;
use super::command::AdmittedCommand;
use super::current::{at_once, direct_at_once};
use super::destination::{Buffers, Destination, in_place};
use super::memory::CommandMemory;
use super::sums::{CallWrites, Sums, unpaired};
use crate::memory::Need;
use hanare_protocol::error::Happened;
use hanare_protocol::id::{Gid, Slot};
use hanare_protocol::limits::{LINK_TURN_COUNT, LIST_LEN_MAX, STAGE_LEN};
use hanare_protocol::wire::Malformed;
use hanare_protocol::wire::command::{COMMAND_LEN, Command, Op};
use hanare_protocol::wire::copies::ExtentWrite;
use hanare_protocol::wire::exchange::Query;
use hanare_protocol::wire::head::{Head, Kind, MAY_WAIT, decode_call};
use hanare_protocol::wire::sync::SyncRequest;
use hanare_protocol::{Error, Result};

/// A message that has arrived whole, or why it is refused.
pub struct Finished<M: CommandMemory> {
    /// Its number.
    pub seq: u64,
    /// The answer may go together with later ones.
    pub may_wait: bool,
    /// The message.
    pub arrived: Result<Arrived<M>>,
}

/// The content of a message.
pub enum Arrived<M: CommandMemory> {
    /// Commands. What could be done as they came is done; the rest of these, and their results, are left.
    Commands(Vec<AdmittedCommand<M>>),
    /// Anything else.
    Query(Query),
}

/// Progress of a message of commands.
#[derive(Debug, Default)]
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
        direct_len: u64,
        /// The wait of the staged bytes that were not taken in.
        wait: StageWait,
    },
    /// The message is refused: nothing of it is done, and the rest of it goes nowhere.
    Refused(Error),
    /// Memory was lost under it: part of it may be done, and the rest of it goes nowhere.
    Lost(Error),
}

/// The wait of a full stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StageWait {
    Nothing,
    /// Pages that nobody was asked for yet.
    Unasked,
    Asked,
}

/// The messages that come in on one link.
pub struct Incoming<M: CommandMemory> {
    memory: M,
    taking: Taking,
    commands: Vec<AdmittedCommand<M>>,
    /// Messages that wait for their answer.
    pub(super) finished: Vec<Finished<M>>,
    /// Earlier messages still read memory, which a later one's operands must not change before.
    held_back: bool,
    /// True while programs of several users want turns: stages are short.
    is_shared: bool,
    /// True if a stage was taken in in this round.
    has_taken: bool,
    /// Hosts are about to map an extent, and wait for commands on it.
    gives_way: bool,
    /// The client's name for this connection.
    name: Option<u128>,
    /// The last message that was admitted or refused.
    last: u64,
    /// The extent of the writes to copies that are under way.
    pub(super) ahead: Option<(Gid, Slot)>,
}

impl<M: CommandMemory> Incoming<M> {
    /// An incoming to which nothing has come.
    pub(super) fn new(memory: M) -> Incoming<M> {
        Incoming {
            memory,
            taking: Taking::Commands,
            commands: Vec::new(),
            finished: Vec::new(),
            held_back: false,
            is_shared: false,
            has_taken: false,
            gives_way: false,
            name: None,
            last: 0,
            ahead: None,
        }
    }

    /// The client's name for this connection.
    pub fn name(&self) -> Option<u128> {
        self.name
    }

    /// The last message that was admitted or refused.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// The memory that the link's commands reach.
    pub fn memory(&self) -> &M {
        &self.memory
    }

    /// The command whose operand comes.
    pub fn current(&mut self) -> Option<&mut AdmittedCommand<M>> {
        let Taking::Operands { current, .. } = &self.taking else { return None };
        self.commands.get_mut(*current)
    }

    /// The place of a message's bytes from byte `at` of its body on. The buffers hold the bytes that were received before.
    ///
    /// **Errors**: [`Malformed`] ends the link.
    pub fn place(&mut self, head: &Head, at: u64, buffers: Buffers<'_>) -> Result<Destination, Malformed> {
        match head.kind {
            Kind::Commands => self.place_commands(head, at, buffers),
            kind if Query::is_of(kind) && at == 0 => Ok(Destination::Front(head.body_len)),
            _ => Err(Malformed("a message that only nodes send")),
        }
    }

    /// All bytes of a message are here.
    pub fn message(&mut self, head: &Head, buffers: Buffers<'_>) {
        let arrived = match head.kind {
            Kind::Commands => {
                self.end_commands(head, buffers);
                self.take_commands()
            }
            _ => self.take_query(head, buffers.front),
        };
        let may_wait = head.kind == Kind::Commands && head.detail & MAY_WAIT != 0;
        self.finished.push(Finished { seq: head.seq, may_wait, arrived });
    }

    /// Returns false if the link gives a window back of which `filled` bytes have come. Their extent is reached by pages from here on.
    pub fn keeps(&mut self, filled: u64) -> bool {
        if !std::mem::take(&mut self.gives_way) {
            return true;
        }
        let Taking::Operands { current, direct_len, .. } = &mut self.taking else { return true };
        self.commands.iter_mut().for_each(|command| command.give_way(&self.memory));
        let goes_back = *direct_len > 0 && self.commands[*current].is_by_pages();
        if goes_back {
            self.commands[*current].take_back(std::mem::take(direct_len) - filled);
        }
        !goes_back
    }

    /// Before the driver receives. See [`super::LinkCommands::begin_round`].
    pub(super) fn begin_round(&mut self, held_back: bool, is_shared: bool) {
        (self.held_back, self.is_shared, self.has_taken) = (held_back, is_shared, false);
    }

    /// Returns true when others have their turn before more is received.
    pub fn has_enough(&self) -> bool {
        self.is_shared && self.has_taken
    }

    /// Returns true if the link may begin to receive a further message.
    pub fn may_begin(&self) -> bool {
        let reads = |finished: &Finished<M>| matches!(&finished.arrived, Ok(Arrived::Commands(commands)) if !commands.is_empty());
        let weight =
            |finished: &Finished<M>| if let Ok(Arrived::Query(query)) = &finished.arrived { query_weight(query) } else { 0 };
        let asked: usize = self.finished.iter().map(weight).sum();
        !self.held_back && !self.finished.iter().any(reads) && asked < LINK_TURN_COUNT
    }

    /// The fate of the message that is on its way in, if it was admitted or refused.
    pub fn fate(&self) -> Option<(u64, Happened)> {
        match self.taking {
            Taking::Commands | Taking::Lists => None,
            Taking::Operands { .. } | Taking::Lost(_) => Some((self.last, Happened::Unknown)),
            Taking::Refused(_) => Some((self.last, Happened::No)),
        }
    }

    /// Hosts are about to map an extent: commands that came before them go on by pages. Returns true if some are on their way in, whose window
    /// the link has to give back first.
    pub(super) fn give_way(&mut self) -> bool {
        self.gives_way = matches!(self.taking, Taking::Operands { .. });
        self.gives_way
    }

    /// Returns true while the stage waits for pages, or for copies.
    pub(super) fn has_waiting_stage(&self) -> bool {
        matches!(self.taking, Taking::Operands { wait: StageWait::Unasked | StageWait::Asked, .. })
    }

    /// Returns true while the message waits for pages, or for writes of copies.
    pub fn waits_for_pages(&self) -> bool {
        self.has_waiting_stage() || self.is_behind_writes()
    }

    /// Returns true if the command that comes next is on another extent than the writes under way.
    fn is_behind_writes(&self) -> bool {
        let Taking::Operands { current, .. } = &self.taking else { return false };
        let mut left = self.commands[*current..].iter().filter(|command| command.operand_left() > 0);
        let next = left.next();
        self.ahead.is_some() && next.is_some_and(|command| command.copied_extent() != self.ahead)
    }

    /// Pages that have to come home before the message goes on, told once. A stage behind writes that are under way asks later.
    pub(super) fn need(&mut self, ahead: &WritesAhead) -> Option<Need> {
        let Taking::Operands { current, staged_len, settled_len, wait: wait @ StageWait::Unasked, .. } = &mut self.taking else {
            return None;
        };
        let command = &mut self.commands[*current];
        if !ahead.admit(command) {
            return None;
        }
        *wait = StageWait::Asked;
        Some(command.need((*staged_len - *settled_len) as u64 / command.op.operand_factor()))
    }

    /// The write that the message waits for, where the stage's extent has copies.
    pub(super) fn write(&self, stage: &[u8]) -> Option<ExtentWrite> {
        let Taking::Operands { current, staged_len, settled_len, .. } = &self.taking else { return None };
        let command = &self.commands[*current];
        command.has_copies().then(|| command.write_of(&stage[*settled_len..*staged_len]))
    }

    /// All copies and the home have done the stage that the message waits for.
    pub(super) fn set_applied(&mut self, olds: Vec<u8>) {
        if let Taking::Operands { current, .. } = &self.taking {
            self.commands[*current].set_applied(olds);
        }
    }

    /// The pages that the message waits for are at home, or will not come.
    pub(super) fn recalled(&mut self, outcome: Result<()>, stage: &[u8]) {
        let Taking::Operands { current, staged_len, settled_len, wait, .. } = &mut self.taking else { return };
        let command = &mut self.commands[*current];
        match outcome.and_then(|()| command.take_by_pages(&stage[*settled_len..*staged_len])) {
            Ok(len) => {
                (*settled_len, *wait) = (*settled_len + len, StageWait::Unasked);
                if settled_len == staged_len {
                    (*staged_len, *settled_len, *wait) = (0, 0, StageWait::Nothing);
                }
            }
            Err(error) => self.taking = Taking::Lost(error),
        }
    }

    /// The bytes of a message of commands from `at` on.
    fn place_commands(&mut self, head: &Head, at: u64, buffers: Buffers<'_>) -> Result<Destination, Malformed> {
        let front_len = u64::from(head.count) * COMMAND_LEN as u64;
        if at == 0 {
            if front_len == 0 || front_len > head.body_len {
                return Err(Malformed("no commands where some were announced"));
            }
            self.commands.clear();
            self.taking = Taking::Commands;
            return Ok(Destination::Front(front_len));
        }
        if matches!(self.taking, Taking::Commands) {
            self.taking = Taking::Lists;
            let list_len = list_len(buffers.front)?;
            if front_len + list_len > head.body_len {
                return Err(Malformed("lists longer than the message"));
            }
            if list_len > 0 {
                return Ok(Destination::Lists(list_len));
            }
        }
        self.go_on(head, buffers)?;
        if self.waits_for_pages() { Ok(Destination::Later) } else { self.place_rest(head.body_len - at) }
    }

    /// The bytes that were asked for are here: the lists, or a stage of the operands.
    fn go_on(&mut self, head: &Head, buffers: Buffers<'_>) -> Result<(), Malformed> {
        match self.taking {
            Taking::Commands | Taking::Lists => self.admit(head, buffers),
            Taking::Operands { .. } | Taking::Refused(_) | Taking::Lost(_) => {
                self.settle(buffers.stage);
                Ok(())
            }
        }
    }

    /// Admits the commands of a message; a refusal is remembered, nonsense ends the link.
    fn admit(&mut self, head: &Head, buffers: Buffers<'_>) -> Result<(), Malformed> {
        let mut sums = Sums::default();
        let (mut list_at, mut refused) = (0, None);
        let call = decode_call(head.detail, self.name.unwrap_or_default());
        if call.is_some() && self.name.is_none() {
            return Err(Malformed("a numbered call on a connection that has no name"));
        }
        let mut written = CallWrites::default();
        for k in 0..head.count as usize {
            let command = command(buffers.front, k)?;
            let words = command.list_len()? as usize / 8;
            let list = &buffers.lists[list_at..list_at + words];
            let shape = command.shape(list)?;
            list_at += words;
            if refused.is_none() {
                match AdmittedCommand::admit(&command, shape, &self.memory) {
                    Ok(mut admitted) => {
                        let place = call.map(|call| written.place(call, &admitted, command.written_before(list)));
                        admitted.set_call(place);
                        sums.add(&admitted);
                        self.commands.push(admitted);
                    }
                    Err(error) => refused = Some(error),
                }
            }
        }
        if refused.is_none() {
            let fronts = (buffers.front.len() + buffers.lists.len() * 8) as u64;
            if fronts.saturating_add(sums.operands) != head.body_len {
                return Err(Malformed("the bytes of the operands are not as many as the commands say"));
            }
            refused = unpaired(&self.commands).or_else(|| sums.beyond_limits());
        }
        self.last = head.seq;
        self.taking = match refused {
            None => Taking::Operands { current: 0, staged_len: 0, settled_len: 0, direct_len: 0, wait: StageWait::Nothing },
            Some(error) => {
                // Commands that were admitted before the refusal must not be held until the whole message is here.
                self.commands.clear();
                Taking::Refused(error)
            }
        };
        Ok(())
    }

    /// The place of the next bytes of the message's last part.
    fn place_rest(&mut self, left: u64) -> Result<Destination, Malformed> {
        let Taking::Operands { current, staged_len, direct_len, .. } = &mut self.taking else {
            return Ok(Destination::Nowhere(left.min(STAGE_LEN as u64)));
        };
        *direct_len = 0;
        while self.commands.get(*current).is_some_and(|command| command.operand_left() == 0) {
            *current += 1;
        }
        let command = self.commands.get_mut(*current).ok_or(Malformed("more bytes than the commands say"))?;
        let left = command.operand_left();
        if let Some((len, destination)) = in_place(command, left, direct_at_once(self.is_shared)) {
            command.take_in_place(len);
            *direct_len = len;
            return Ok(destination);
        }
        let most = if self.is_shared { at_once(command, true) } else { STAGE_LEN as u64 };
        *staged_len = left.min(most) as usize;
        Ok(Destination::Stage(*staged_len as u64))
    }

    /// Takes in what the staging buffer holds, unless that waits for pages.
    fn settle(&mut self, stage: &[u8]) {
        let Taking::Operands { current, staged_len, direct_len, wait, .. } = &mut self.taking else { return };
        self.has_taken |= *staged_len > 0 || *direct_len > 0;
        if *staged_len == 0 || *wait != StageWait::Nothing {
            return;
        }
        let command = &mut self.commands[*current];
        if command.waits_with_operand() {
            *wait = StageWait::Unasked;
            return;
        }
        if let Err(error) = command.take(&stage[..std::mem::take(staged_len)]) {
            self.taking = Taking::Lost(error);
        }
    }

    /// The last bytes of the message's operands go with their command.
    fn keep_rest(&mut self, stage: &[u8]) {
        if let Taking::Operands { current, staged_len, .. } = &mut self.taking
            && *staged_len > 0
        {
            self.commands[*current].keep_rest(&stage[..std::mem::take(staged_len)]);
        }
    }

    /// All bytes of a message of commands are here.
    fn end_commands(&mut self, head: &Head, buffers: Buffers<'_>) {
        let ended = match self.taking {
            _ if head.body_len == 0 => Err(Malformed("no commands")),
            // Its commands were its last bytes.
            Taking::Commands => match list_len(buffers.front) {
                Ok(0) => self.go_on(head, buffers),
                Ok(_) => Err(Malformed("lists that are not there")),
                Err(nonsense) => Err(nonsense),
            },
            _ => self.go_on(head, buffers),
        };
        match ended {
            Ok(()) => self.keep_rest(buffers.stage),
            Err(nonsense) => self.taking = Taking::Refused(garbage(nonsense)),
        }
    }

    /// The commands of the message that is here.
    fn take_commands(&mut self) -> Result<Arrived<M>> {
        match std::mem::take(&mut self.taking) {
            Taking::Refused(error) | Taking::Lost(error) => {
                self.commands.clear();
                Err(error)
            }
            Taking::Commands | Taking::Lists | Taking::Operands { .. } => {
                self.commands.iter_mut().for_each(AdmittedCommand::conclude);
                self.commands.retain(|command| command.is_left() || command.op == Op::CopyTo || command.result_len() > 0);
                Ok(Arrived::Commands(std::mem::take(&mut self.commands)))
            }
        }
    }

    /// The query that is here.
    fn take_query(&mut self, head: &Head, front: &[u8]) -> Result<Arrived<M>> {
        if head.kind == Kind::Sync {
            self.last = head.seq;
        }
        let query = Query::decode(head, front).map_err(garbage)?;
        match query {
            Query::Name(name) => self.name = Some(name),
            Query::Face(face) => self.memory.used_by(face),
            _ => {}
        }
        Ok(Arrived::Query(query))
    }
}

/// Command number `k` of a message.
fn command(front: &[u8], k: usize) -> Result<Command, Malformed> {
    Command::decode(front[k * COMMAND_LEN..].first_chunk().expect("as many as the head says"))
}

/// Bytes of all lists. Nonsense, or too many, end the link.
fn list_len(front: &[u8]) -> Result<u64, Malformed> {
    let mut sum = 0;
    for k in 0..front.len() / COMMAND_LEN {
        sum += command(front, k)?.list_len()?;
    }
    if sum > LIST_LEN_MAX { Err(Malformed("lists beyond the limit")) } else { Ok(sum) }
}

/// A query's part of a link's turn. A look goes through all that a node has, and a lock or a barrier may bring half a MiB.
pub(super) fn query_weight(query: &Query) -> usize {
    match query {
        Query::Look(_) | Query::Backing(_) | Query::Faces => LINK_TURN_COUNT,
        Query::Sync(SyncRequest::Lock { .. } | SyncRequest::Sleep { .. }) => LINK_TURN_COUNT / 4,
        Query::Sync(SyncRequest::Release { .. } | SyncRequest::Arrive(_, Some(_))) => LINK_TURN_COUNT / 4,
        _ => 1,
    }
}

fn garbage(malformed: Malformed) -> Error {
    Error::Garbage { peer: "a client".to_owned(), reason: malformed.0.to_owned() }
}
