//! The requests of one connection.

use super::request::Request;
use hanare_fabric::{Refusal, Sink};
use hanare_memory::Window;
use hanare_protocol::Error;
use hanare_protocol::wire::head::{Head, Kind};

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
    /// Number of requests that no caller waits for any longer.
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
        let seq = self.counter << SLOT_BITS | u64::from(slot);
        request.post(seq);
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

    /// Marks a request that no caller waits for any longer.
    pub fn forsake(&mut self, seq: u64) {
        if let Some(request) = self.get(seq) {
            request.forsake();
            self.forsaken += 1;
        }
    }

    /// True if there is a request that no caller waits for.
    pub fn any_forsaken(&self) -> bool {
        self.forsaken > 0
    }

    /// Puts aside answered requests for which nobody waits, if their link shows nothing of them since it has sent so many bytes.
    pub fn sweep(&mut self, sent_len: u64) {
        let spent = self.slots.iter().flatten().filter(|request| request.is_spent(sent_len));
        let spent: Vec<u64> = spent.map(|request| request.seq).collect();
        self.forsaken -= spent.len();
        for seq in spent {
            if let Some(mut request) = self.take(seq) {
                // The outcome is not wanted.
                let _ = request.take_outcome();
                self.keep(request);
            }
        }
    }

    /// Fails all that have no answer.
    pub fn fail_all(&mut self, error: &Error) {
        self.slots.iter_mut().flatten().for_each(|request| request.lose(error));
    }

    fn any(&self, is_one: impl Fn(&Request) -> bool) -> bool {
        self.open > 0 && self.slots.iter().flatten().any(|request| is_one(request))
    }

    /// True if a request without a reply will have one by itself.
    pub fn any_unanswered(&self) -> bool {
        self.any(Request::is_awaited)
    }
}

/// Puts answers where their requests want them.
pub(crate) struct Answers<'a> {
    pending: &'a mut Pending,
    /// Requests whose outcome came.
    pub completed: usize,
    /// True if a reply came that fits no request.
    pub nonsense: bool,
}

impl<'a> Answers<'a> {
    pub fn to(pending: &'a mut Pending) -> Answers<'a> {
        Answers { pending, completed: 0, nonsense: false }
    }
}

// SAFETY: windows come from requests that stay in the table until they are answered or the link is dropped; their owners keep the
// memory until then (see `Remote::post`).
unsafe impl Sink for Answers<'_> {
    fn place(&mut self, head: &Head, at: u64) -> Result<Window, Refusal> {
        match self.pending.get(head.seq) {
            Some(request) if request.is_sent() => request.place(head, at),
            _ => Err(Refusal("an answer to nothing that was asked".to_owned())),
        }
    }

    fn message(&mut self, head: &Head) {
        if head.kind == Kind::Working {
            return;
        }
        let fits = match self.pending.get(head.seq) {
            Some(request) if request.is_sent() => request.answered(head),
            _ => false,
        };
        self.completed += usize::from(fits);
        self.nonsense |= !fits;
    }
}
