//! What is sent again, and when: decides for one direction of a line that loses, repeats and reorders frames.
//!
//! The sender numbers frames from 0 and keeps each until it is acknowledged. Acknowledgements are cumulative: one says how many frames
//! have arrived without a gap. When none has come for the retry time, everything that is not acknowledged goes again and the retry
//! time doubles, up to a bound; news makes it short again; silence through all tries is the end.
//!
//! **Source**: `[D2 eq (8)]`: the time of a transfer counts retransmissions by software, longer the more there were; hardware that
//! loses nothing needs none.
//!
//! ```text
//!              Sent                      Late (what is kept goes again, the retry time doubles)
//!   Quiet ---------------> Waiting -----------+
//!     ^                    |  |  ^            |
//!     +--------------------+  |  +------------+
//!          AllArrived         |     Sent, Arrived
//!                             +----------------> GivenUp
//!                                  Silent
//! ```
//!
//! A sender that may not send because the receiver has no room waits too: what it sends again then is an empty question, since the
//! answer that there is room may have been lost.

use hanare_protocol::table::{self, Row};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Where a direction is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Nothing is waited for.
    Quiet,
    /// An acknowledgement, or room, is waited for.
    Waiting,
    /// The other side has been silent through all tries.
    GivenUp,
}

/// What happens to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A frame is sent for the first time, or one could be if the receiver had room.
    Sent,
    /// An acknowledgement comes, and something is still waited for.
    Arrived,
    /// An acknowledgement comes, and nothing is waited for any more.
    AllArrived,
    /// The retry time is over.
    Late,
    /// It is over for the last time.
    Silent,
}

/// Every transition.
pub const TABLE: &[Row<Phase, Event>] = &[
    Row { event: Event::Sent, from: &[Phase::Quiet, Phase::Waiting], to: Phase::Waiting },
    Row { event: Event::Arrived, from: &[Phase::Waiting], to: Phase::Waiting },
    Row { event: Event::AllArrived, from: &[Phase::Quiet, Phase::Waiting], to: Phase::Quiet },
    Row { event: Event::Late, from: &[Phase::Waiting], to: Phase::Waiting },
    Row { event: Event::Silent, from: &[Phase::Waiting], to: Phase::GivenUp },
];

/// Most frames under way or kept out of order: half a MiB of frames on either side.
pub const WINDOW: u64 = 32;

/// First retry time: many times the way there and back, and the time a busy host takes to look.
pub const RETRY_FIRST: Duration = Duration::from_millis(20);

/// Longest retry time.
pub const RETRY_MAX: Duration = Duration::from_millis(1000);

/// Tries without any sign of the other side: 7 s in all, less than an answer is waited for.
pub const TRY_COUNT_MAX: u32 = 11;

/// What a sender is to do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Nothing; if at all, at this time.
    Nothing(Option<Instant>),
    /// Everything that is kept goes again; where nothing is, an empty frame, which is answered.
    Again,
    /// The other side is gone.
    GiveUp,
}

enum State {
    Quiet,
    Waiting { due: Instant, retry: Duration, tries: u32 },
    GivenUp,
}

/// The sending side of a direction; it keeps `F`, a frame, until it is acknowledged.
///
/// - Frames `acknowledged ..` are in `kept`, in order; the next gets number `acknowledged + kept.len()`.
/// - Those below `room` may be sent.
pub struct Sending<F> {
    state: State,
    kept: VecDeque<F>,
    acknowledged: u64,
    room: u64,
}

impl<F> Sending<F> {
    /// A sender that has sent nothing.
    pub fn new() -> Sending<F> {
        Sending { state: State::Quiet, kept: VecDeque::with_capacity(WINDOW as usize), acknowledged: 0, room: WINDOW }
    }

    /// Where it is.
    pub fn phase(&self) -> Phase {
        match self.state {
            State::Quiet => Phase::Quiet,
            State::Waiting { .. } => Phase::Waiting,
            State::GivenUp => Phase::GivenUp,
        }
    }

    fn allows(&self, event: Event, to: Phase) -> bool {
        table::next(TABLE, self.phase(), event) == Some(to)
    }

    /// The number of the next new frame.
    pub fn next(&self) -> u64 {
        self.acknowledged + self.kept.len() as u64
    }

    /// Whether a new frame may be sent.
    pub fn has_room(&self) -> bool {
        self.next() < self.room && (self.kept.len() as u64) < WINDOW && self.phase() != Phase::GivenUp
    }

    /// Keeps a new frame, which is sent now.
    pub fn on_sent(&mut self, frame: F, now: Instant) {
        assert!(self.has_room(), "a frame was sent where there is no room");
        self.kept.push_back(frame);
        self.begin(now);
    }

    /// A frame waits for room.
    pub fn on_blocked(&mut self, now: Instant) {
        self.begin(now);
    }

    fn begin(&mut self, now: Instant) {
        if matches!(self.state, State::Quiet) && self.allows(Event::Sent, Phase::Waiting) {
            self.state = State::Waiting { due: now + RETRY_FIRST, retry: RETRY_FIRST, tries: 0 };
        }
    }

    /// The other side says that `arrived` frames are there without a gap, and that it took `taken` of them: returns what need
    /// not be kept any more. Numbers that make no sense, or are old, change nothing.
    pub fn on_arrived(&mut self, arrived: u64, taken: u64, now: Instant) -> impl Iterator<Item = F> {
        let is_sense = arrived <= self.next() && taken <= arrived && self.phase() != Phase::GivenUp;
        let news = if is_sense { arrived.saturating_sub(self.acknowledged) } else { 0 };
        if is_sense {
            let (next, room_before) = (self.next(), self.room);
            self.room = self.room.max(taken + WINDOW);
            self.acknowledged += news;
            self.settle(news > 0 || self.room > room_before, self.acknowledged == next && next < self.room, now);
        }
        self.kept.drain(..news as usize)
    }

    fn settle(&mut self, is_news: bool, is_all: bool, now: Instant) {
        if is_all && self.allows(Event::AllArrived, Phase::Quiet) {
            self.state = State::Quiet;
        } else if self.allows(Event::Arrived, Phase::Waiting)
            && let State::Waiting { due, retry, tries } = &mut self.state
        {
            // Any sign of life counts; only news makes the retry time short again.
            *tries = 0;
            if is_news {
                (*due, *retry) = (now + RETRY_FIRST, RETRY_FIRST);
            }
        }
    }

    /// What is due at this time; asked again and again.
    pub fn on_time(&mut self, now: Instant) -> Due {
        let State::Waiting { due, retry, tries } = &mut self.state else {
            return if matches!(self.state, State::GivenUp) { Due::GiveUp } else { Due::Nothing(None) };
        };
        if now < *due {
            return Due::Nothing(Some(*due));
        }
        if *tries >= TRY_COUNT_MAX {
            assert!(self.allows(Event::Silent, Phase::GivenUp), "who waits may give up");
            self.state = State::GivenUp;
            return Due::GiveUp;
        }
        *tries += 1;
        *retry = (*retry * 2).min(RETRY_MAX);
        *due = now + *retry;
        assert!(self.allows(Event::Late, Phase::Waiting), "who waits may be late");
        Due::Again
    }

    /// Puts off what is due, since the line is busy with what was sent before: no try, and no sign of anything.
    pub fn put_off(&mut self, now: Instant) {
        if let State::Waiting { due, retry, .. } = &mut self.state {
            *due = now + *retry;
        }
    }

    /// When it next wants to be asked.
    pub fn due(&self) -> Option<Instant> {
        match self.state {
            State::Waiting { due, .. } => Some(due),
            State::Quiet | State::GivenUp => None,
        }
    }

    /// What is kept, oldest first, with its numbers.
    pub fn kept(&self) -> impl Iterator<Item = (u64, &F)> {
        (self.acknowledged..).zip(&self.kept)
    }

    /// Frames that are kept.
    pub fn kept_count(&self) -> usize {
        self.kept.len()
    }

    /// Everything that is kept, taken out: the line has ended.
    pub fn take_kept(&mut self) -> impl Iterator<Item = F> {
        self.kept.drain(..)
    }
}

impl<F> Default for Sending<F> {
    fn default() -> Sending<F> {
        Sending::new()
    }
}

/// The receiving side of a direction: frames in order and once, however they come.
///
/// - Frame `taken + k` is at `(taken + k) % WINDOW`; `taken <= arrived`, and all between are there.
pub struct Receiving<F> {
    taken: u64,
    arrived: u64,
    frames: [Option<F>; WINDOW as usize],
}

impl<F> Receiving<F> {
    /// A receiver that has got nothing.
    pub fn new() -> Receiving<F> {
        Receiving { taken: 0, arrived: 0, frames: [const { None }; WINDOW as usize] }
    }

    /// A frame arrives; it comes back where it is not wanted: it came before, or there is no room for it.
    pub fn on_frame(&mut self, seq: u64, frame: F) -> Option<F> {
        if seq < self.arrived || seq >= self.taken + WINDOW {
            return Some(frame);
        }
        let place = &mut self.frames[(seq % WINDOW) as usize];
        if place.is_some() {
            return Some(frame);
        }
        *place = Some(frame);
        while self.arrived < self.taken + WINDOW && self.frames[(self.arrived % WINDOW) as usize].is_some() {
            self.arrived += 1;
        }
        None
    }

    /// The next frame in order, if it is there.
    pub fn first(&self) -> Option<&F> {
        if self.taken < self.arrived { self.frames[(self.taken % WINDOW) as usize].as_ref() } else { None }
    }

    /// Takes it.
    pub fn take(&mut self) -> Option<F> {
        self.first()?;
        let frame = self.frames[(self.taken % WINDOW) as usize].take();
        self.taken += 1;
        frame
    }

    /// How many frames have arrived without a gap: what is acknowledged.
    pub fn arrived(&self) -> u64 {
        self.arrived
    }

    /// How many were taken: the window of room begins there.
    pub fn taken(&self) -> u64 {
        self.taken
    }
}

impl<F> Default for Receiving<F> {
    fn default() -> Receiving<F> {
        Receiving::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_table() {
        let expected = "\
Sent           Quiet, Waiting                     -> Waiting
Arrived        Waiting                            -> Waiting
AllArrived     Quiet, Waiting                     -> Quiet
Late           Waiting                            -> Waiting
Silent         Waiting                            -> GivenUp
";
        assert_eq!(table::print(TABLE), expected);
        assert_eq!(table::contradiction(TABLE), None);
    }

    /// FEATURE: D2-F14
    #[test]
    fn the_retry_time_grows_to_its_bound_and_then_the_line_is_given_up() {
        let begun = Instant::now();
        let (mut now, mut sending, mut gaps) = (begun, Sending::new(), Vec::new());
        sending.on_sent('a', now);
        loop {
            match sending.on_time(now) {
                Due::Nothing(due) => {
                    let due = due.expect("something is waited for");
                    gaps.push(due - now);
                    now = due;
                }
                Due::Again => assert_eq!(sending.kept().collect::<Vec<_>>(), [(0, &'a')]),
                Due::GiveUp => break,
            }
        }
        assert_eq!(gaps.len(), TRY_COUNT_MAX as usize + 1);
        assert_eq!(gaps[..4], [1, 2, 4, 8].map(|times| RETRY_FIRST * times));
        assert!(gaps.windows(2).all(|pair| pair[1] == (pair[0] * 2).min(RETRY_MAX)));
        assert_eq!(sending.phase(), Phase::GivenUp);
        assert_eq!(sending.on_time(now), Due::GiveUp);
        let whole = now - begun;
        assert!(whole < Duration::from_millis(hanare_protocol::limits::ANSWER_MS), "{whole:?}");
    }

    #[test]
    fn a_sign_of_life_keeps_the_line_and_news_makes_the_retry_time_short() {
        let mut now = Instant::now();
        let mut sending = Sending::new();
        sending.on_sent('a', now);
        sending.on_sent('b', now);
        for _ in 0..5 * TRY_COUNT_MAX {
            now += RETRY_MAX;
            assert_eq!(sending.on_time(now), Due::Again);
            assert_eq!(sending.on_arrived(0, 0, now).count(), 0);
        }
        assert_eq!(sending.on_arrived(1, 1, now).collect::<Vec<_>>(), ['a']);
        assert_eq!(sending.due(), Some(now + RETRY_FIRST));
        assert_eq!(sending.on_arrived(2, 2, now).collect::<Vec<_>>(), ['b']);
        assert_eq!((sending.phase(), sending.due()), (Phase::Quiet, None));
    }

    #[test]
    fn acknowledgements_of_what_was_never_sent_change_nothing() {
        let now = Instant::now();
        let mut sending = Sending::new();
        sending.on_sent('a', now);
        assert_eq!(sending.on_arrived(2, 0, now).count(), 0);
        assert_eq!(sending.on_arrived(1, 2, now).count(), 0);
        assert_eq!(sending.kept_count(), 1);
    }

    /// A frame or its acknowledgement on the line.
    #[derive(Clone, Debug)]
    enum Flying {
        Frame(u64, u32),
        Answer(u64, u64),
    }

    #[derive(Clone, Debug)]
    enum Step {
        Send,
        /// Something on the line, chosen by its place, arrives, and stays there if it is said twice.
        Deliver(usize, bool),
        Lose(usize),
        Take,
        Pass(u16),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            4 => Just(Step::Send),
            6 => (any::<usize>(), any::<bool>()).prop_map(|(at, twice)| Step::Deliver(at, twice)),
            2 => any::<usize>().prop_map(Step::Lose),
            3 => Just(Step::Take),
            3 => (0..100u16).prop_map(Step::Pass),
        ];
        prop::collection::vec(step, 0..400)
    }

    struct Line {
        now: Instant,
        sending: Sending<u32>,
        receiving: Receiving<u32>,
        flying: Vec<Flying>,
        sent: u32,
        got: Vec<u32>,
    }

    impl Line {
        fn send(&mut self) {
            if self.sending.has_room() {
                self.flying.push(Flying::Frame(self.sending.next(), self.sent));
                self.sending.on_sent(self.sent, self.now);
                self.sent += 1;
            } else {
                self.sending.on_blocked(self.now);
            }
        }

        fn deliver(&mut self, at: usize, twice: bool) {
            if self.flying.is_empty() {
                return;
            }
            let at = at % self.flying.len();
            let flying = if twice { self.flying[at].clone() } else { self.flying.swap_remove(at) };
            match flying {
                Flying::Frame(seq, frame) => {
                    self.receiving.on_frame(seq, frame);
                    self.answer();
                }
                Flying::Answer(arrived, taken) => drop(self.sending.on_arrived(arrived, taken, self.now)),
            }
        }

        fn answer(&mut self) {
            self.flying.push(Flying::Answer(self.receiving.arrived(), self.receiving.taken()));
        }

        fn pass(&mut self, ms: u16) {
            self.now += Duration::from_millis(ms.into());
            if self.sending.on_time(self.now) == Due::Again {
                let again: Vec<_> = self.sending.kept().map(|(seq, frame)| Flying::Frame(seq, *frame)).collect();
                if again.is_empty() {
                    // An empty frame is answered, whatever its number.
                    self.answer();
                }
                self.flying.extend(again);
            }
        }
    }

    proptest! {
        /// FEATURE: D2-F14
        #[test]
        fn whatever_the_line_does_all_comes_once_and_in_order(steps in steps()) {
            let mut line = Line {
                now: Instant::now(), sending: Sending::new(), receiving: Receiving::new(), flying: Vec::new(), sent: 0, got: Vec::new(),
            };
            for step in steps {
                match step {
                    Step::Send => line.send(),
                    Step::Deliver(at, twice) => line.deliver(at, twice),
                    Step::Lose(at) if !line.flying.is_empty() => {
                        let at = at % line.flying.len();
                        line.flying.swap_remove(at);
                    }
                    Step::Take | Step::Lose(_) => line.got.extend(line.receiving.take()),
                    Step::Pass(ms) => line.pass(ms),
                }
                prop_assert!(line.sending.kept_count() as u64 <= WINDOW);
                if line.sending.phase() == Phase::GivenUp {
                    return Ok(());
                }
            }
            // From here on nothing is lost: all of it must come.
            for _ in 0..1000 {
                while !line.flying.is_empty() {
                    line.deliver(0, false);
                    line.got.extend(line.receiving.take());
                }
                while let Some(frame) = line.receiving.take() {
                    line.got.push(frame);
                }
                if line.got.len() == line.sent as usize && line.sending.kept_count() == 0 {
                    break;
                }
                line.pass(100);
            }
            prop_assert_eq!(line.got, (0..line.sent).collect::<Vec<_>>());
            prop_assert_eq!(line.sending.kept_count(), 0);
        }
    }
}
