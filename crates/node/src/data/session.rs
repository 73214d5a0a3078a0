//! A client's link, with its requests and replies.

use super::fetches::NodeFetch;
use super::inbox::Inbox;
use super::replies::{NodeAnswers, NodeResponse, Pumped, Replies, show_life};
use crate::extents::Extents;
use hanare_fabric::{Link, LinkError, Sight};
use hanare_home::{CommandMemory, LinkCommands, LinkOutcomes, Need};
use hanare_protocol::Error;
use hanare_protocol::id::{ClientId, User};
use hanare_protocol::wire::control::CommandOrigin;
use hanare_protocol::wire::copies::ExtentWrite;
use hanare_protocol::wire::exchange::{Query, Reply};
use hanare_protocol::wire::head::{Head, Kind};
use hanare_protocol::wire::stores::StorePart;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Rounds of one turn before others get theirs.
const ROUNDS_MAX: u32 = 16;

/// Longest time from a turn's first round to its last one. A round may gather thousands of elements, or open sealed bytes.
const TURN_TIME: Duration = Duration::from_micros(50);

/// The same while several users want turns.
const SHARED_TURN_TIME: Duration = Duration::from_micros(10);

/// Bytes of a turn that are worth a thread's hand-over: some 15 us of copying.
const MUCH_LEN: u64 = 64 << 10;

pub(crate) struct Session {
    // Dropped first: it may hold windows of the others.
    link: Box<dyn Link>,
    inbox: Inbox,
    replies: Replies,
    /// Parts of stores without an answer: the request's number, the bytes, and when it came.
    stores: Vec<(u64, u64, Instant)>,
    /// The program, 0 for a node, and its user.
    who: (ClientId, User),
    /// True if each turn begins with a check that the client is there.
    looks: bool,
    /// Bytes of the last turn in which something moved.
    moved_len: u64,
    /// True if the last turn left nothing to move, and nothing was done with the session after it.
    is_drained: bool,
}

/// Result of a turn.
pub(crate) struct Turn {
    /// True if anything moved.
    pub moved: bool,
    /// Queries of the client, with the number of each.
    pub queries: Vec<(u64, Query)>,
    /// Bytes to fetch from other nodes.
    pub fetches: Vec<NodeFetch>,
    /// Pages to bring home, for [`Session::recalled`].
    pub need: Option<Need>,
}

impl Session {
    pub fn new(link: Box<dyn Link>, extents: Arc<Extents>, who: (ClientId, User), looks: bool) -> Session {
        // Programs of this host have no series: their link ends with them.
        let from = if looks { CommandOrigin::OtherHost } else { CommandOrigin::OwnHost };
        let (inbox, replies) = (Inbox::new(extents, from, who), Replies::default());
        Session { link, inbox, replies, stores: Vec::new(), who, looks, moved_len: 0, is_drained: false }
    }

    fn answers(&self) -> &NodeAnswers {
        &self.inbox.commands.answers
    }

    /// The user of the client's process.
    pub fn user(&self) -> User {
        self.who.1
    }

    /// The program's number in the pool; 0 for a node.
    pub fn client(&self) -> ClientId {
        self.who.0
    }

    /// True if the client has closed its end, or its process is gone.
    pub fn has_ended(&self) -> bool {
        self.link.has_ended()
    }

    /// True if its unread messages go with its client: commands do, threads' messages on pages do not.
    pub fn ends_with_client(&self) -> bool {
        self.looks || !self.link.checks_by_call()
    }

    /// True if its client is gone, with its unread messages.
    pub fn has_gone(&self) -> bool {
        self.ends_with_client() && self.has_ended()
    }

    /// Moves messages and answers as far as they go, within a bound. No command is taken from a client that is gone: others may have
    /// been answered since. While several users want turns it ends soon. Returns whether anything moved; [`Session::take_turn`] has the rest.
    pub fn advance(&mut self, now: Duration, is_shared: bool) -> Result<bool, LinkError> {
        let sight = if self.looks { self.link.look() } else { Sight::Something };
        match sight {
            Sight::End => {
                return Err(LinkError::Closed { peer: self.link.peer().to_owned(), reason: "it is gone".to_owned() });
            }
            // The same call tells that there is nothing to receive.
            Sight::Nothing if self.is_drained && self.link.unsent_len() == 0 && !self.answers().is_due(now) => {
                return Ok(false);
            }
            _ => {}
        }
        let (mut moved_len, mut since, mut has_moved) = (0, None, false);
        let most = if is_shared { SHARED_TURN_TIME } else { TURN_TIME };
        self.is_drained = false;
        for _ in 0..ROUNDS_MAX {
            self.inbox.commands.begin_round(is_shared);
            let progress = self.link.progress(&mut self.inbox)?;
            self.inbox.commands.end_round();
            let pumped = self.replies.pump(&mut self.inbox.commands.answers, &mut *self.link, now)?;
            if progress.is_idle() && pumped == Pumped::Nothing {
                self.is_drained = true;
                break;
            }
            has_moved = true;
            moved_len += progress.received_len + self.replies.take_given_len();
            if pumped == Pumped::Work || progress.messages == 0 && self.link.unsent_len() > 0 {
                break;
            }
            // To look for more would be a system call.
            if progress.is_drained {
                self.is_drained = true;
                break;
            }
            // Queries are acted on when the turn is over, and some take long.
            if self.inbox.commands.asks_enough() || since.get_or_insert_with(Instant::now).elapsed() >= most {
                break;
            }
        }
        if has_moved {
            self.moved_len = moved_len;
        }
        Ok(has_moved)
    }

    /// True if its last turn moved so much that another thread is worth the hand-over. A turn of a link that is no socket's may touch
    /// what others share.
    pub fn moves_much(&self) -> bool {
        self.moved_len >= MUCH_LEN && self.checks_by_call()
    }

    /// Takes what turns have brought for others. If its link ends before, it is as if it had not come.
    pub fn take_turn(&mut self, moved: bool) -> Turn {
        let fetches = self.inbox.commands.answers.take_fetches();
        let need = self.need();
        Turn { moved, queries: self.inbox.commands.take_queries(), fetches, need }
    }

    /// A part of stores comes. Its answer follows.
    pub fn watch_stores(&mut self, seq: u64, part: &StorePart) {
        self.stores.push((seq, part.operand.len() as u64, Instant::now()));
    }

    /// Answers a query.
    pub fn answer(&mut self, now: Duration, seq: u64, what: NodeResponse) -> Result<(), LinkError> {
        if let Some(at) = self.stores.iter().position(|(of, ..)| *of == seq) {
            let ((_, len, begun), memory) = (self.stores.swap_remove(at), self.inbox.commands.incoming.memory());
            match &what {
                NodeResponse::Reply(Reply::Refused(error)) => memory.refused(error),
                _ => memory.stored(len, begun),
            }
        }
        let answers = &mut self.inbox.commands.answers;
        answers.push(seq, what);
        self.is_drained &= self.replies.pump(answers, &mut *self.link, now)? != Pumped::Work;
        Ok(())
    }

    /// A fetch that it waited for has ended.
    pub fn fetched(&mut self, outcome: Result<(), Error>) {
        self.is_drained = false;
        self.inbox.commands.answers.fetched(outcome);
    }

    /// Pages that its message, or its answer, waits for; told once.
    pub fn need(&mut self) -> Option<Need> {
        self.inbox.commands.need()
    }

    /// The pages are at home, or will not come.
    pub fn recalled(&mut self, outcome: Result<(), Error>) {
        self.is_drained = false;
        self.inbox.commands.recalled(outcome, &self.inbox.stage);
    }

    /// The write that its message, or its answer, waits for, where the extent has copies.
    pub fn write(&self) -> Result<Option<ExtentWrite>, Error> {
        self.inbox.commands.write(&self.inbox.stage)
    }

    /// The write of [`Session::write`] is under way. Returns true if the session goes on before it is applied.
    pub fn goes_ahead(&mut self, write: &ExtentWrite) -> bool {
        let goes_ahead = self.inbox.commands.goes_ahead(write, &self.inbox.stage);
        self.is_drained &= !goes_ahead;
        goes_ahead
    }

    /// The session's first write under way was done, with the elements before it, or was not.
    pub fn applied(&mut self, outcome: Result<Vec<u8>, Error>) {
        self.is_drained = false;
        self.inbox.commands.applied(outcome, &self.inbox.stage);
    }

    /// Hosts are about to map an extent: commands that came before them go on by pages. Returns whether it has to have a turn for that.
    pub fn give_way(&mut self) -> bool {
        self.is_drained = false;
        self.inbox.commands.give_way()
    }

    /// Lets a client that waits for long work know that it goes on.
    pub fn show_life(&mut self, now: Duration) -> Result<(), LinkError> {
        let LinkCommands { incoming, answers, .. } = &mut self.inbox.commands;
        if incoming.waits_for_pages() && answers.is_idle() && self.link.unsent_len() == 0 {
            // SAFETY: there is no body.
            return unsafe { self.link.send(&Head::new(Kind::Working, incoming.last()), &[]) };
        }
        show_life(answers, &mut *self.link, now)
    }

    /// The client's name for this connection.
    pub fn name(&self) -> Option<u128> {
        self.inbox.commands.incoming.name()
    }

    /// Outcomes to remember if this connection ended.
    pub fn outcomes(&self) -> LinkOutcomes {
        self.inbox.commands.outcomes()
    }

    /// True if a reply waits for the client to read.
    pub fn is_blocked(&self) -> bool {
        (!self.answers().is_idle() && !self.answers().waits_for_others()) || self.link.unsent_len() > 0
    }

    /// True if its message or its reply waits for another node's bytes, or for pages.
    pub fn waits_for_others(&self) -> bool {
        self.inbox.commands.waits_for_others()
    }

    /// True while appends wait for copies.
    pub fn has_appends(&self) -> bool {
        self.answers().has_appends()
    }

    pub fn checks_by_call(&self) -> bool {
        self.link.checks_by_call()
    }

    /// True if its event alone tells of the next message: a turn before that would move nothing.
    pub fn can_rest(&self) -> bool {
        self.is_drained && self.checks_by_call() && !self.is_blocked() && !self.waits_for_others() && !self.answers().holds_back()
    }

    pub fn needs_write_event(&self) -> bool {
        self.link.needs_write_event()
    }

    pub fn doze(&mut self) -> bool {
        !self.inbox.commands.answers.hurry() && self.link.doze()
    }

    /// Descriptor of the client's end, where [`Session::event`] does not tell of it.
    pub fn life(&self) -> Option<BorrowedFd<'_>> {
        let life = self.link.life();
        (life.as_raw_fd() != self.link.event().as_raw_fd()).then_some(life)
    }

    pub fn event(&self) -> BorrowedFd<'_> {
        self.link.event()
    }
}
