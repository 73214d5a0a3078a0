//! Makes a link fail as networks and peers do, under a seed: it closes, bits flip, nothing moves for a while, messages are lost,
//! repeated, late or corrupt.

use super::alarm::Alarm;
use super::lossy::Lossy;
use crate::link::{Link, LinkError, Progress, Refusal, Sink};
use hanare_memory::Window;
use hanare_protocol::wire::head::{HEAD_LEN, Head};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

/// What goes wrong, and how often. Chances are between 0 and 1, for each message sent or received.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FaultPlan {
    /// The same seed makes the same faults at the same messages.
    pub seed: u64,
    /// Chance that the link closes, for both sides.
    pub close: f64,
    /// Chance that a bit of a received head flips.
    pub flip_head: f64,
    /// Chance that a bit of a received body flips.
    pub flip_body: f64,
    /// Chance that nothing moves for `stall_time`.
    pub stall: f64,
    /// How long a stall lasts.
    pub stall_time: Duration,
    /// Chance that a message is not sent at all. This and the three below are for messages whose body is given whole.
    pub drop: f64,
    /// Chance that it is sent twice.
    pub duplicate: f64,
    /// Chance that it is sent after the next one.
    pub reorder: f64,
    /// Chance that a bit of its body is flipped before it is sent.
    pub corrupt: f64,
}

impl FaultPlan {
    /// No faults.
    pub fn none(seed: u64) -> FaultPlan {
        FaultPlan {
            seed,
            close: 0.0,
            flip_head: 0.0,
            flip_body: 0.0,
            stall: 0.0,
            stall_time: Duration::ZERO,
            drop: 0.0,
            duplicate: 0.0,
            reorder: 0.0,
            corrupt: 0.0,
        }
    }
}

/// A link with faults.
pub struct Fault<L> {
    state: State<L>,
    peer: String,
    plan: FaultPlan,
    prng: Pcg64,
    receiving: Receiving,
    lossy: Lossy,
    alarm: Alarm,
}

enum State<L> {
    Open(L),
    /// Nothing moves before that time.
    Stalled(L, Instant),
    /// The link under it is dropped, so that its peer knows.
    Closed(LinkError),
}

/// The message that is arriving.
#[derive(Default)]
struct Receiving {
    /// Its head as the sink sees it, once its body has begun.
    head: Option<Head>,
    /// The last window that the sink gave for it.
    window: Option<Window>,
}

impl<L: Link> Fault<L> {
    /// Makes `link` fail by `plan`.
    pub fn over(link: L, plan: FaultPlan) -> Result<Fault<L>, LinkError> {
        let alarm = Alarm::beside(&link)?;
        let peer = link.peer().to_owned();
        let prng = Pcg64::seed_from_u64(plan.seed);
        Ok(Fault { state: State::Open(link), peer, plan, prng, receiving: Receiving::default(), lossy: Lossy::new(&plan), alarm })
    }

    /// Decides for one message whether the link closes or stalls.
    fn strike(&mut self) -> Result<(), LinkError> {
        // Both are drawn each time, so that one chance does not move the other's faults.
        let (closes, stalls) = (self.prng.random_bool(self.plan.close), self.prng.random_bool(self.plan.stall));
        if closes {
            let end = LinkError::Closed { peer: self.peer.clone(), reason: "a fault was asked for".into() };
            self.end(end)?;
        } else if stalls {
            let until = Instant::now() + self.plan.stall_time;
            if let State::Open(link) = self.take() {
                self.state = State::Stalled(link, until);
            }
        }
        Ok(())
    }

    /// Closes the link under this one, and signals that there is something to learn.
    fn end(&mut self, end: LinkError) -> Result<(), LinkError> {
        if let State::Open(link) | State::Stalled(link, _) = self.take() {
            self.alarm.ignore(&link)?;
        }
        self.state = State::Closed(end);
        self.alarm.set(Instant::now())
    }

    fn take(&mut self) -> State<L> {
        let between = LinkError::Closed { peer: String::new(), reason: String::new() };
        std::mem::replace(&mut self.state, State::Closed(between))
    }

    /// The link, stalled or not; why it is closed otherwise.
    fn link(&mut self) -> Result<&mut L, LinkError> {
        match &mut self.state {
            State::Open(link) | State::Stalled(link, _) => Ok(link),
            State::Closed(end) => Err(end.clone()),
        }
    }

    /// Ends a stall whose time is over; says whether bytes may move.
    fn moves(&mut self) -> Result<bool, LinkError> {
        match self.take() {
            State::Stalled(link, until) if until > Instant::now() => {
                self.state = State::Stalled(link, until);
                Ok(false)
            }
            State::Stalled(link, _) => {
                self.state = State::Open(link);
                self.alarm.clear()?;
                Ok(true)
            }
            other => {
                self.state = other;
                Ok(true)
            }
        }
    }
}

impl<L: Link> Link for Fault<L> {
    unsafe fn send(&mut self, head: &Head, body: &[Window]) -> Result<(), LinkError> {
        self.strike()?;
        let link = match &mut self.state {
            State::Open(link) | State::Stalled(link, _) => link,
            State::Closed(end) => return Err(end.clone()),
        };
        // SAFETY: the caller's promise is passed on.
        unsafe { self.lossy.send(link, head, body) }
    }

    unsafe fn extend(&mut self, body: &[Window]) -> Result<(), LinkError> {
        // SAFETY: the caller's promise is passed on.
        unsafe { self.link()?.extend(body) }
    }

    fn unsent_len(&self) -> u64 {
        match &self.state {
            State::Open(link) | State::Stalled(link, _) => link.unsent_len() + self.lossy.late_len(),
            State::Closed(_) => 0,
        }
    }

    fn progress(&mut self, sink: &mut dyn Sink) -> Result<Progress, LinkError> {
        if !self.moves()? {
            return Ok(Progress::default());
        }
        let (plan, prng, receiving) = (self.plan, &mut self.prng, &mut self.receiving);
        let done = match &mut self.state {
            State::Open(link) | State::Stalled(link, _) => {
                self.lossy.release(link)?;
                link.progress(&mut Flipping { sink, plan, prng, receiving })?
            }
            State::Closed(end) => return Err(end.clone()),
        };
        for _ in 0..done.messages {
            self.strike()?;
        }
        Ok(done)
    }

    fn event(&self) -> BorrowedFd<'_> {
        self.alarm.descriptor()
    }

    fn needs_write_event(&self) -> bool {
        // The alarm watches for it.
        false
    }

    fn doze(&mut self) -> bool {
        let armed = match &mut self.state {
            State::Closed(_) => return false,
            State::Stalled(link, until) => self.alarm.ignore(link).and_then(|()| self.alarm.set(*until)),
            State::Open(link) => self.alarm.watch(link),
        };
        match (&mut self.state, armed) {
            (State::Open(link), Ok(())) => self.lossy.late_len() == 0 && link.doze(),
            (_, Ok(())) => true,
            (_, Err(failure)) => {
                self.state = State::Closed(failure);
                false
            }
        }
    }

    fn peer(&self) -> &str {
        &self.peer
    }
}

/// The caller's sink, which sees flipped bits.
struct Flipping<'a> {
    sink: &'a mut dyn Sink,
    plan: FaultPlan,
    prng: &'a mut Pcg64,
    receiving: &'a mut Receiving,
}

impl Flipping<'_> {
    /// The head with a flipped bit, as a decoder sees it: most flips are refused there, and one in its length loses
    /// the place of all that follows.
    fn head(&mut self, head: &Head) -> Result<Head, Refusal> {
        if !self.prng.random_bool(self.plan.flip_head) {
            return Ok(*head);
        }
        let mut bytes = head.encode();
        let bit = self.prng.random_range(0..HEAD_LEN * 8);
        bytes[bit / 8] ^= 1 << (bit % 8);
        match Head::decode(&bytes) {
            Ok(flipped) if flipped.body_len == head.body_len => Ok(flipped),
            Ok(_) => Err(Refusal("a flipped length".into())),
            Err(malformed) => Err(Refusal(malformed.0.into())),
        }
    }

    /// Flips a bit of the window that has just become full.
    fn flip_body(&mut self) {
        let Some(window) = self.receiving.window.take() else { return };
        if self.prng.random_bool(self.plan.flip_body) {
            let at = self.prng.random_range(0..window.len());
            let mut byte = [0];
            // A window that is lost meanwhile has worse faults than a flipped bit.
            let _ = window.slice(at, 1).read_into(&mut byte);
            let _ = window.slice(at, 1).write_from(&[byte[0] ^ 1 << self.prng.random_range(0..8)]);
        }
    }
}

// SAFETY: the windows are the inner sink's, which promises the same; they are written before the sink is called next.
unsafe impl Sink for Flipping<'_> {
    fn place(&mut self, head: &Head, at: u64) -> Result<Window, Refusal> {
        self.flip_body();
        let head = match self.receiving.head {
            Some(head) if at > 0 => head,
            _ => self.head(head)?,
        };
        self.receiving.head = Some(head);
        let window = self.sink.place(&head, at)?;
        let rest = usize::try_from(head.body_len - at).unwrap_or(usize::MAX);
        self.receiving.window = Some(window.slice(0, window.len().min(rest)));
        Ok(window)
    }

    fn message(&mut self, head: &Head) {
        self.flip_body();
        // An empty message has no place to be refused at: its head comes as it is where the flip makes no sense.
        let seen = match self.receiving.head.take() {
            Some(head) => head,
            None => self.head(head).unwrap_or(*head),
        };
        self.sink.message(&seen);
    }

    fn may_begin(&self) -> bool {
        self.sink.may_begin()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::{SHM, Store, TCP, body, end_of, head, pump, send};
    use crate::wait::wait;

    /// What a receiver under the plan sees of forty messages: the messages, and how the link ended if it did.
    fn outcome(plan: FaultPlan) -> (Vec<(Head, Vec<u8>)>, Option<LinkError>) {
        let (mut one, other) = SHM.pair();
        let mut other = Fault::over(other, plan).unwrap();
        let bytes: Vec<Vec<u8>> = (0..40).map(|seq| body(seq, 100)).collect();
        for (seq, bytes) in bytes.iter().enumerate() {
            send(&mut *one, seq as u64, bytes).unwrap();
        }
        let mut store = Store::new();
        let end = loop {
            match wait(&mut other, &mut store, Some(Instant::now() + Duration::from_secs(20))) {
                Ok(_) if store.messages.len() == 40 => break None,
                Ok(_) => {}
                Err(end) => break Some(end),
            }
        };
        (store.messages, end)
    }

    #[test]
    fn the_same_seed_makes_the_same_faults() {
        for seed in 0..10 {
            let plan = FaultPlan { close: 0.01, flip_head: 0.02, flip_body: 0.1, ..FaultPlan::none(seed) };
            assert_eq!(outcome(plan), outcome(plan), "seed {seed}");
        }
    }

    #[test]
    fn a_flipped_body_differs_in_one_bit() {
        let (messages, end) = outcome(FaultPlan { flip_body: 1.0, ..FaultPlan::none(3) });
        assert_eq!((messages.len(), end), (40, None));
        for (seq, (_, bytes)) in messages.iter().enumerate() {
            let flips: u32 = bytes.iter().zip(body(seq as u64, 100)).map(|(one, other)| (one ^ other).count_ones()).sum();
            assert_eq!(flips, 1, "message {seq}");
        }
    }

    #[test]
    fn a_flipped_head_is_refused_or_differs() {
        let mut garbage = 0;
        for seed in 0..20 {
            let (messages, end) = outcome(FaultPlan { flip_head: 1.0, ..FaultPlan::none(seed) });
            garbage += usize::from(matches!(end, Some(LinkError::Garbage { .. })));
            for (seq, (seen, _)) in messages.iter().enumerate() {
                assert_ne!(*seen, head(seq as u64, 100));
            }
        }
        assert!(garbage > 0);
    }

    #[test]
    fn a_closing_fault_is_known_on_both_sides() {
        let (one, mut other) = TCP.pair();
        let mut one = Fault::over(one, FaultPlan { close: 1.0, ..FaultPlan::none(0) }).unwrap();
        assert!(matches!(send(&mut one, 0, &[]), Err(LinkError::Closed { .. })));
        assert!(matches!(one.progress(&mut Store::new()), Err(LinkError::Closed { .. })));
        assert!(matches!(end_of(&mut *other, &mut Store::new()), LinkError::Closed { .. }));
    }

    #[test]
    fn a_stall_ends() {
        let (one, mut other) = TCP.pair();
        let stall_time = Duration::from_millis(15);
        let mut one = Fault::over(one, FaultPlan { stall: 1.0, stall_time, ..FaultPlan::none(0) }).unwrap();
        let begun = Instant::now();
        send(&mut other, 0, &[]).unwrap();
        let mut store = Store::new();
        // The first message comes; the second waits for the end of the stall that the first one began.
        wait(&mut one, &mut store, Some(begun + Duration::from_secs(20))).unwrap();
        send(&mut other, 1, &[]).unwrap();
        assert!(one.progress(&mut store).unwrap().is_idle());
        let late = wait(&mut one, &mut store, Some(Instant::now() + Duration::from_millis(2)));
        assert!(matches!(late, Err(LinkError::Timeout { .. })), "{late:?}");
        wait(&mut one, &mut store, Some(begun + Duration::from_secs(20))).unwrap();
        assert!(begun.elapsed() >= stall_time);
        assert_eq!(store.seqs(), [0, 1]);
    }

    #[test]
    fn no_faults_change_nothing() {
        let (one, mut other) = TCP.pair();
        let mut one = Fault::over(one, FaultPlan::none(1)).unwrap();
        let bytes = body(0, 300_000);
        send(&mut other, 0, &bytes).unwrap();
        let mut store = Store::of_pieces(1000);
        pump((&mut one, &mut store), (&mut *other, &mut Store::new()), |one, _| one.messages.len() == 1);
        assert_eq!(store.messages[0], (head(0, 300_000), bytes));
    }
}
