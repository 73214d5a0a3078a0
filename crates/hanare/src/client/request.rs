//! A request on its way to a node: its content, where it is in its life, and its answer.

use super::message::CommandMessage;
use crate::trace::Sent;
use hanare_fabric::Refusal;
use hanare_memory::Window;
use hanare_protocol::Error;
use hanare_protocol::limits::LATE_MS;
use hanare_protocol::request::RequestLife;
use hanare_protocol::wire::exchange::{Query, Reply};
use hanare_protocol::wire::head::{Head, Kind, MAY_WAIT};
use std::time::{Duration, Instant};

/// A request, and its answer as it comes. Reused, so that the hot path allocates nothing.
#[derive(Debug, Default)]
pub(crate) struct Request {
    what: Payload,
    life: RequestLife,
    /// Its vector commands, if it has some.
    pub message: CommandMessage,
    /// The body of a query.
    form: Vec<u8>,
    /// Its number.
    pub seq: u64,
    /// The window of the results that is filled next.
    next: usize,
    /// The body of a reply that is no results.
    said: Vec<u8>,
    /// The reply to a query.
    reply: Option<Reply>,
    /// The name of the connection that it was sent on, where it must not be carried out twice.
    pub connection: Option<u128>,
    /// Bytes given to its link up to its last; none once the link is gone.
    pub posted_len: u64,
    /// On the timeline, if there is one.
    pub sent: Option<Sent>,
}

/// Content of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Payload {
    /// Vector commands.
    #[default]
    Commands,
    Query {
        /// Without its number.
        head: Head,
        /// The kind of its answer.
        reply: Option<Kind>,
        is_once: bool,
        patience: Patience,
        /// When nobody waits for it any longer, where its patience has an end of its own.
        until: Option<Instant>,
    },
}

/// Time for a reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Patience {
    /// The time for any peer's reply.
    #[default]
    Usual,
    /// The time that others make it wait, at most this, and [`LATE_MS`] more for the reply that says so.
    UpTo(Duration),
    /// The time that others make it wait.
    Endless,
}

impl Patience {
    /// When one that begins at this moment ends, where it has an end of its own.
    pub fn end(self) -> Option<Instant> {
        match self {
            Patience::UpTo(time) => Instant::now().checked_add(time.checked_add(Duration::from_millis(LATE_MS))?),
            Patience::Usual | Patience::Endless => None,
        }
    }
}

impl Request {
    /// Empties a request whose outcome was taken, for its next use; capacities stay.
    pub fn clear(&mut self) {
        self.message.clear();
        self.form.clear();
        self.said.clear();
        (self.what, self.next, self.seq, self.posted_len) = (Payload::Commands, 0, 0, 0);
        (self.connection, self.sent, self.reply) = (None, None, None);
    }

    /// Makes it a query.
    pub fn set_query(&mut self, query: &Query, patience: Patience) {
        let head;
        (head, self.form) = query.encode(0);
        let (reply, is_once, until) = (query.reply_kind(), query.is_once(), patience.end());
        self.what = Payload::Query { head, reply, is_once, patience, until };
    }

    fn own_patience(&self) -> Patience {
        match self.what {
            Payload::Commands => Patience::Usual,
            Payload::Query { patience, .. } => patience,
        }
    }

    /// Time for its reply while nothing moves, where `usual` is the time for any; `None` for ever.
    pub fn patience(&self, usual: Duration) -> Option<Duration> {
        (self.own_patience() == Patience::Usual).then_some(usual)
    }

    /// When nobody waits for it any longer, whatever moves.
    pub fn until(&self) -> Option<Instant> {
        match self.what {
            Payload::Commands => None,
            Payload::Query { until, .. } => until,
        }
    }

    /// True if that is over, and its reply not here.
    pub fn is_late(&self) -> bool {
        !self.is_over() && self.until().is_some_and(|until| Instant::now() >= until)
    }

    /// Marks that no caller waits for it any longer.
    pub fn forsake(&mut self) {
        self.life.on_forsake();
    }

    /// True if no caller waits for it, and neither its node nor its link needs it after `sent_len` bytes.
    pub fn is_spent(&self, sent_len: u64) -> bool {
        self.life.is_spent() && self.posted_len <= sent_len
    }

    /// True if it must not be carried out twice.
    pub fn is_once(&self) -> bool {
        match self.what {
            Payload::Commands => self.message.is_once(),
            Payload::Query { is_once, .. } => is_once,
        }
    }

    /// Takes the reply to a query.
    pub fn take_reply(&mut self) -> Option<Reply> {
        self.reply.take()
    }

    pub fn head(&self) -> Head {
        let Request { message, seq, .. } = self;
        match self.what {
            Payload::Commands => {
                let detail = message.call | if message.may_wait { MAY_WAIT } else { 0 };
                Head { count: message.count(), body_len: message.len(), detail, ..Head::new(Kind::Commands, *seq) }
            }
            Payload::Query { head, .. } => Head { seq: *seq, ..head },
        }
    }

    /// The bytes to send.
    pub fn body<'a>(&'a self, windows: &'a mut Vec<Window>) -> &'a [Window] {
        windows.clear();
        match self.what {
            Payload::Commands => self.message.show(windows),
            // SAFETY: the form stays in the request, which is not touched until its answer is here or the link is dropped.
            Payload::Query { .. } => windows.push(unsafe { Window::of(&self.form) }),
        }
        windows
    }

    /// Window for byte `at` of the reply and those after it.
    pub fn place(&mut self, head: &Head, at: u64) -> Result<Window, Refusal> {
        let results = self.message.results();
        match head.kind {
            Kind::Done if head.body_len == self.message.result_len() => {
                if at == 0 {
                    self.next = 0;
                }
                // A window without bytes is never asked for, so it is stepped over.
                while results.get(self.next).is_some_and(Window::is_empty) {
                    self.next += 1;
                }
                self.next += 1;
                results.get(self.next - 1).copied().ok_or_else(|| refusal("an answer with more bytes than were asked for"))
            }
            kind if at == 0 && self.awaits(kind) => {
                self.said.resize(head.body_len as usize, 0);
                // SAFETY: the buffer stays in the request, which is not touched until it is full or the link is dropped.
                Ok(unsafe { Window::of_mut(&mut self.said) })
            }
            _ => Err(refusal("an answer of another length than was asked for")),
        }
    }

    /// True if a reply of that kind, whose body is no results, answers it.
    fn awaits(&self, kind: Kind) -> bool {
        let awaited = match self.what {
            Payload::Commands => None,
            Payload::Query { reply, .. } => reply,
        };
        kind == Kind::Refused || awaited == Some(kind)
    }

    /// Gives it to a connection, by that number.
    pub fn post(&mut self, seq: u64) {
        self.seq = seq;
        self.life.on_post();
    }

    /// The whole answer is here. False: it is none that fits what was asked.
    pub fn answered(&mut self, head: &Head) -> bool {
        let Ok(reply) = Reply::decode(head, &self.said) else { return false };
        let outcome = match (reply, self.what) {
            (Reply::Done, Payload::Commands) if head.body_len == self.message.result_len() => Ok(()),
            (Reply::Refused(error), what) => {
                if what == Payload::Commands {
                    // The node has said what became of them, and need not be asked.
                    self.connection = None;
                }
                Err(error)
            }
            (reply, Payload::Query { .. }) if self.awaits(head.kind) => {
                self.reply = Some(reply);
                Ok(())
            }
            _ => return false,
        };
        self.note_end(&outcome, head.body_len);
        self.life.on_answer(outcome);
        true
    }

    /// Its connection has ended.
    pub fn lose(&mut self, error: &Error) {
        self.posted_len = 0;
        if self.life.is_sent() {
            self.note_end(&Err(error.clone()), 0);
            self.life.on_lose(error.clone());
        }
    }

    fn note_end(&mut self, outcome: &Result<(), Error>, received: u64) {
        if let Some(sent) = self.sent.take() {
            sent.end(outcome, received);
        }
    }

    /// Takes its outcome.
    pub fn take_outcome(&mut self) -> Result<(), Error> {
        self.life.on_clear()
    }

    /// True if its node may still reply.
    pub fn is_sent(&self) -> bool {
        self.life.is_sent()
    }

    /// True if its node may still reply, and does so by itself. A request that waits for other clients may wait for this one.
    pub fn is_awaited(&self) -> bool {
        self.life.is_sent() && self.own_patience() == Patience::Usual
    }

    /// True if its outcome is known.
    pub fn is_over(&self) -> bool {
        self.life.outcome().is_some()
    }
}

fn refusal(reason: &str) -> Refusal {
    Refusal(reason.to_owned())
}
