//! One link of a client, with what it asks and what it is told.

use super::fetches::Fetch;
use super::inbox::{Arrived, Inbox, weight};
use super::replies::{Pumped, Replies, Response};
use crate::extents::Extents;
use hanare_fabric::{Link, LinkError, Sight};
use hanare_home::Need;
use hanare_protocol::Error;
use hanare_protocol::error::Happened;
use hanare_protocol::id::{ClientId, User};
use hanare_protocol::limits::LINK_TURN_COUNT;
use hanare_protocol::wire::control::CommandOrigin;
use hanare_protocol::wire::exchange::{Query, Reply};
use hanare_protocol::wire::head::{Head, Kind};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Rounds of one turn before others get theirs.
const ROUNDS_MAX: u32 = 16;

/// Longest time from a turn's first round to its last one. A round may gather thousands of elements, or open sealed bytes.
const TURN_TIME: Duration = Duration::from_micros(50);

pub(crate) struct Session {
    // Dropped first: it may hold windows of the others.
    link: Box<dyn Link>,
    inbox: Inbox,
    replies: Replies,
    /// Queries that are not acted on yet, with the number of each.
    queries: Vec<(u64, Query)>,
    /// The program, 0 for a node, and its user.
    who: (ClientId, User),
    /// Whether each turn begins with a look whether the client is gone.
    looks: bool,
    /// Whether the last turn left nothing to be moved, and nothing was done with the session since.
    is_drained: bool,
}

/// What a turn did.
#[derive(Default)]
pub(crate) struct Turn {
    /// Whether anything moved.
    pub moved: bool,
    /// Queries of the client, with the number of each.
    pub queries: Vec<(u64, Query)>,
    /// Bytes to fetch from other nodes.
    pub fetches: Vec<Fetch>,
    /// Pages to bring home, for [`Session::recalled`].
    pub need: Option<Need>,
}

impl Session {
    pub fn new(link: Box<dyn Link>, extents: Arc<Extents>, who: (ClientId, User), looks: bool) -> Session {
        // Programs of this host have no series: their link ends with them.
        let from = if looks { CommandOrigin::OtherHost } else { CommandOrigin::OwnHost };
        Session {
            link,
            inbox: Inbox::new(extents, from),
            replies: Replies::default(),
            queries: Vec::new(),
            who,
            looks,
            is_drained: false,
        }
    }

    /// Whose program the client is.
    pub fn user(&self) -> User {
        self.who.1
    }

    /// The program's number in the pool; 0 for a node.
    pub fn client(&self) -> ClientId {
        self.who.0
    }

    /// Whether the client has closed its end, or its process is gone.
    pub fn has_ended(&self) -> bool {
        self.link.has_ended()
    }

    /// Whether what it has said and was not read goes with its client: so it is with commands, and not with what threads say of pages.
    pub fn ends_with_client(&self) -> bool {
        self.looks || !self.link.checks_by_call()
    }

    /// Whether its client is gone, and what it has said and was not read with it.
    pub fn has_gone(&self) -> bool {
        self.ends_with_client() && self.has_ended()
    }

    /// Moves messages and answers as far as they go, within a bound. No command is taken from a client that is gone: others may have
    /// been answered since.
    pub fn turn(&mut self) -> Result<Turn, LinkError> {
        let sight = if self.looks { self.link.look() } else { Sight::Something };
        match sight {
            Sight::End => {
                return Err(LinkError::Closed { peer: self.link.peer().to_owned(), reason: "it is gone".to_owned() });
            }
            // The same call tells that there is nothing to receive.
            Sight::Nothing if self.is_drained && self.link.unsent_len() == 0 && !self.replies.is_due() => {
                return Ok(Turn::default());
            }
            _ => {}
        }
        let (mut turn, mut since) = (Turn::default(), None);
        self.is_drained = false;
        for _ in 0..ROUNDS_MAX {
            self.inbox.held_back = !self.replies.is_idle();
            let progress = self.link.progress(&mut self.inbox)?;
            for finished in self.inbox.finished.drain(..) {
                match finished.arrived {
                    Ok(Arrived::Commands(work)) => {
                        self.replies.push(finished.seq, Response::Work { work, may_wait: finished.may_wait });
                    }
                    Ok(Arrived::Query(query)) => self.queries.push((finished.seq, query)),
                    Err(error) => self.replies.push(finished.seq, Response::Reply(Reply::Refused(error))),
                }
            }
            let pumped = self.replies.pump(&mut *self.link)?;
            if progress.is_idle() && pumped == Pumped::Nothing {
                self.is_drained = true;
                break;
            }
            turn.moved = true;
            if pumped == Pumped::Work || progress.messages == 0 && self.link.unsent_len() > 0 {
                break;
            }
            // To look for more would be a system call.
            if progress.is_drained {
                self.is_drained = true;
                break;
            }
            // Queries are acted on when the turn is over, and some take long.
            let asked: usize = self.queries.iter().map(|(_, query)| weight(query)).sum();
            if asked >= LINK_TURN_COUNT || since.get_or_insert_with(Instant::now).elapsed() >= TURN_TIME {
                break;
            }
        }
        turn.fetches = std::mem::take(&mut self.replies.fetches);
        turn.need = self.need();
        turn.queries = std::mem::take(&mut self.queries);
        Ok(turn)
    }

    /// Answers a query.
    pub fn answer(&mut self, seq: u64, what: Response) -> Result<(), LinkError> {
        self.replies.push(seq, what);
        self.is_drained &= self.replies.pump(&mut *self.link)? != Pumped::Work;
        Ok(())
    }

    /// A fetch that it waited for has ended.
    pub fn fetched(&mut self, outcome: Result<(), Error>) {
        self.is_drained = false;
        self.replies.fetched(outcome);
    }

    /// Pages that its message, or its answer, waits for; told once.
    pub fn need(&mut self) -> Option<Need> {
        self.replies.need.take().or_else(|| self.inbox.need())
    }

    /// Those pages are at home, or will not come.
    pub fn recalled(&mut self, outcome: Result<(), Error>) {
        self.is_drained = false;
        match self.inbox.waits_for_pages() {
            true => self.inbox.recalled(outcome),
            false => self.replies.recalled(outcome),
        }
    }

    /// Hosts are about to map an extent: commands that came before them go on by pages. Returns whether it has to have a turn for that.
    pub fn give_way(&mut self, extents: &Extents) -> bool {
        self.is_drained = false;
        self.replies.give_way(extents);
        self.inbox.give_way()
    }

    /// Lets a client that waits for long work know that it goes on.
    pub fn show_life(&mut self) -> Result<(), LinkError> {
        if self.inbox.waits_for_pages() && self.replies.is_idle() && self.link.unsent_len() == 0 {
            // SAFETY: there is no body.
            return unsafe { self.link.send(&Head::new(Kind::Working, self.inbox.last), &[]) };
        }
        self.replies.show_life(&mut *self.link)
    }

    /// What the client calls this connection.
    pub fn name(&self) -> Option<u128> {
        self.inbox.name
    }

    /// What would be known of this connection if it ended.
    pub fn outcomes(&self) -> LinkOutcomes {
        let mut replies = self.replies.fates();
        replies.extend(self.inbox.fate());
        // What came with the link's end was not acted on.
        let unheard = self.inbox.finished.iter().filter(|finished| matches!(finished.arrived, Ok(Arrived::Query(_))));
        let unheard = unheard.map(|finished| finished.seq).chain(self.queries.iter().map(|(seq, _)| *seq));
        replies.extend(unheard.map(|seq| (seq, Happened::No)));
        LinkOutcomes { last: self.inbox.last, forgotten: self.replies.forgotten, replies }
    }

    /// Whether an answer waits for the client to read.
    pub fn is_blocked(&self) -> bool {
        (!self.replies.is_idle() && !self.replies.waits_for_others()) || self.link.unsent_len() > 0
    }

    /// Whether its message or its answer waits for bytes of another node, or for pages.
    pub fn waits_for_others(&self) -> bool {
        self.replies.waits_for_others() || self.inbox.waits_for_pages()
    }

    pub fn checks_by_call(&self) -> bool {
        self.link.checks_by_call()
    }

    /// Whether nothing but its event tells of what comes next: a turn before that would move nothing.
    pub fn can_rest(&self) -> bool {
        self.is_drained && self.checks_by_call() && !self.is_blocked() && !self.waits_for_others() && !self.replies.holds_back()
    }

    pub fn needs_write_event(&self) -> bool {
        self.link.needs_write_event()
    }

    pub fn doze(&mut self) -> bool {
        !self.replies.hurry() && self.link.doze()
    }

    /// What tells of the client's end, where that is not [`Session::event`].
    pub fn life(&self) -> Option<BorrowedFd<'_>> {
        let life = self.link.life();
        (life.as_raw_fd() != self.link.event().as_raw_fd()).then_some(life)
    }

    pub fn event(&self) -> BorrowedFd<'_> {
        self.link.event()
    }
}

/// What is known of a connection's requests after its end.
pub(crate) struct LinkOutcomes {
    /// The last request that was begun.
    last: u64,
    /// The last request whose failure is not remembered any more.
    forgotten: u64,
    /// Those that were refused, or not done to the end.
    replies: Vec<(u64, Happened)>,
}

impl LinkOutcomes {
    /// What became of a request.
    pub fn happened(&self, seq: u64) -> Happened {
        match self.replies.iter().find(|(known, _)| *known == seq) {
            _ if seq > self.last => Happened::No,
            Some((_, happened)) => *happened,
            None if seq <= self.forgotten => Happened::Unknown,
            None => Happened::Yes,
        }
    }
}
