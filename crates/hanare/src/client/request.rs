//! Requests on their way to a node: what is sent, where the answer goes, and what came of it.

use hanare_fabric::Refusal;
use hanare_memory::Window;
use hanare_protocol::wire::command::{Command, Op};
use hanare_protocol::wire::control;
use hanare_protocol::wire::head::{Head, Kind};
use hanare_protocol::{Error, limits};

/// One message's worth of commands, and the state of its answer. Reused, so that the hot path allocates nothing.
#[derive(Debug, Default)]
pub(crate) struct Request {
    /// The encoded commands; a barrier's arrival instead, where `kind` says so.
    front: Vec<u8>,
    count: u32,
    /// Bytes to send, in command order.
    puts: Vec<Window>,
    put_len: u64,
    /// Where the answer's bytes go, in command order.
    gets: Vec<Window>,
    get_len: u64,
    /// The window of `gets` that is filled next.
    next: usize,
    refusal: Vec<u8>,
    /// What came of it, once it is known.
    pub outcome: Option<Result<(), Error>>,
    arrival: bool,
}

impl Request {
    /// Empties the request for its next use; capacities stay.
    pub fn clear(&mut self) {
        self.front.clear();
        self.puts.clear();
        self.gets.clear();
        self.refusal.clear();
        (self.count, self.put_len, self.get_len, self.next) = (0, 0, 0, 0);
        (self.outcome, self.arrival) = (None, false);
    }

    /// Whether a message has no room for another command (a copy takes two).
    pub fn is_full(&self) -> bool {
        self.count as usize + 2 > limits::BATCH_COUNT_MAX
    }

    /// Adds a command and the memory it reads (put) or fills (get); copies have none.
    pub fn push(&mut self, command: &Command, memory: Option<Window>) {
        self.front.extend_from_slice(&command.encode());
        self.count += 1;
        match (command.op, memory) {
            (Op::Get, Some(window)) => {
                self.get_len += window.len() as u64;
                self.gets.push(window);
            }
            (Op::Put, Some(window)) => {
                self.put_len += window.len() as u64;
                self.puts.push(window);
            }
            _ => {}
        }
    }

    /// Makes it a rank's arrival at a barrier.
    pub fn set_arrival(&mut self, arrival: &control::Arrival) {
        self.front = control::encode(arrival);
        self.arrival = true;
    }

    pub fn is_arrival(&self) -> bool {
        self.arrival
    }

    pub fn head(&self, seq: u64) -> Head {
        let kind = if self.arrival { Kind::Arrive } else { Kind::Commands };
        Head { kind, count: self.count, seq, body_len: self.front.len() as u64 + self.put_len, detail: 0 }
    }

    /// The message's body: the commands, then the bytes of the puts.
    pub fn body<'a>(&'a self, windows: &'a mut Vec<Window>) -> &'a [Window] {
        windows.clear();
        // SAFETY: the commands stay in the request, which is not touched until its answer is here or the link is dropped.
        windows.push(unsafe { Window::of(&self.front) });
        windows.extend_from_slice(&self.puts);
        windows
    }

    /// Where byte `at` of the answer and those after it go.
    pub fn place(&mut self, head: &Head, at: u64) -> Result<Window, Refusal> {
        match head.kind {
            Kind::Done if head.body_len == self.get_len => {
                if at == 0 {
                    self.next = 0;
                }
                // A window without bytes is never asked for, so it is stepped over.
                while self.gets.get(self.next).is_some_and(Window::is_empty) {
                    self.next += 1;
                }
                self.next += 1;
                self.gets.get(self.next - 1).copied().ok_or_else(|| refusal("an answer with more bytes than were asked for"))
            }
            Kind::Refused if at == 0 => {
                self.refusal.resize(head.body_len as usize, 0);
                // SAFETY: the buffer stays in the request, which is not touched until it is full or the link is dropped.
                Ok(unsafe { Window::of_mut(&mut self.refusal) })
            }
            _ => Err(refusal("an answer of another length than was asked for")),
        }
    }

    /// The whole answer is here. False: it is none that fits what was asked.
    pub fn answered(&mut self, head: &Head) -> bool {
        let outcome = match head.kind {
            Kind::Done if !self.arrival && head.body_len == self.get_len => Ok(()),
            Kind::Released if self.arrival => Ok(()),
            Kind::Refused => match control::decode(&self.refusal) {
                Ok(error) => Err(error),
                Err(_) => return false,
            },
            _ => return false,
        };
        self.outcome = Some(outcome);
        true
    }
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

    /// Enters a request and numbers it.
    pub fn enter(&mut self, request: Box<Request>) -> u64 {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() as u32 - 1
        });
        assert!(slot < 1 << SLOT_BITS, "a million requests in flight on one connection");
        self.slots[slot as usize] = Some(request);
        self.open += 1;
        self.counter += 1;
        self.counter << SLOT_BITS | u64::from(slot)
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

    /// Fails all that have no answer.
    pub fn fail_all(&mut self, error: &Error) {
        for request in self.slots.iter_mut().flatten() {
            if request.outcome.is_none() {
                request.outcome = Some(Err(error.clone()));
            }
        }
    }

    /// Whether any has no answer.
    pub fn any_unanswered(&self) -> bool {
        self.open > 0 && self.slots.iter().flatten().any(|request| request.outcome.is_none())
    }
}
