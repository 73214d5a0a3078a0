//! Makes a line that loses, repeats, reorders and corrupts messages a link.
//!
//! The stream of messages is cut into frames, each a message of the line: a check over all of it, its number, what has arrived from the
//! other side, and bytes of the stream.
//!
//! ```text
//!   body of a message of the line:  [check, 8][number, 8][arrived, 8][taken, 8][asks, 8][bytes of the stream, up to 8 KiB]
//! ```
//!
//! A frame whose check fails is as good as lost. When what goes again is decided in [`rule`].
//!
//! Both sides of a line have this layer or neither.

pub mod rule;

use super::alarm::Alarm;
use crate::ending::Ending;
use crate::inbox::Inbox;
use crate::link::{FAIR_LEN, Link, LinkError, Progress, Refusal, Sink};
use crate::outbox::Outbox;
use hanare_memory::Window;
use hanare_protocol::wire::head::{Head, Kind};
use rule::{Due, Phase, Receiving, Sending};
use std::cell::UnsafeCell;
use std::os::fd::BorrowedFd;
use std::time::Instant;

/// Bytes of a frame before those of the stream.
const FRAME_HEAD_LEN: usize = 40;

/// Most bytes of the stream in a frame.
const PAYLOAD_LEN: usize = 8 << 10;

/// Unsent bytes of the line up to which more is given to it: a slow line is not filled with the same frames again and again.
const LINE_LEN: u64 = 256 << 10;

/// Frames kept for the line though they are done with, before nothing is given to it until it has sent all.
const SPENT_COUNT_MAX: usize = 4 * rule::WINDOW as usize;

/// Memory of one frame, head and bytes.
struct Frame {
    bytes: Box<[UnsafeCell<u8>]>,
    len: usize,
}

// SAFETY: plain memory, reached through the link that owns it.
unsafe impl Send for Frame {}

impl Frame {
    fn new() -> Frame {
        Frame { bytes: (0..FRAME_HEAD_LEN + PAYLOAD_LEN).map(|_| UnsafeCell::new(0)).collect(), len: FRAME_HEAD_LEN }
    }

    /// All the memory.
    fn room(&self) -> Window {
        // SAFETY: the bytes stay where they are as long as the frame; cells may be written to.
        unsafe { Window::new(self.bytes.as_ptr().cast_mut().cast(), self.bytes.len()) }
    }

    fn window(&self) -> Window {
        self.room().slice(0, self.len)
    }

    fn payload(&self) -> Window {
        self.room().slice(FRAME_HEAD_LEN, self.len - FRAME_HEAD_LEN)
    }

    /// Writes the head, and the check over everything behind it.
    fn seal(&mut self, numbers: Numbers) -> Result<(), Ending> {
        let Numbers { seq, arrived, taken, asks } = numbers;
        let words = [seq, arrived, taken, asks.into()].map(u64::to_le_bytes).concat();
        self.room().slice(8, words.len()).write_from(&words)?;
        let check = self.check()?;
        self.room().slice(0, 8).write_from(&check)?;
        Ok(())
    }

    /// The head of a frame that has arrived whole; none where its bytes are not what was sent.
    fn open(&self) -> Result<Option<Numbers>, Ending> {
        if self.len < FRAME_HEAD_LEN {
            return Ok(None);
        }
        let mut head = [0; FRAME_HEAD_LEN];
        self.room().slice(0, FRAME_HEAD_LEN).read_into(&mut head)?;
        if head[..8] != self.check()? {
            return Ok(None);
        }
        let word = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().expect("eight bytes"));
        Ok(Some(Numbers { seq: word(8), arrived: word(16), taken: word(24), asks: word(32) != 0 }))
    }

    fn check(&self) -> Result<[u8; 8], Ending> {
        let mut hasher = blake3::Hasher::new();
        let mut copy = [0; 1024];
        let all = self.window().slice(8, self.len - 8);
        for at in (0..all.len()).step_by(copy.len()) {
            let len = copy.len().min(all.len() - at);
            all.slice(at, len).read_into(&mut copy[..len])?;
            hasher.update(&copy[..len]);
        }
        Ok(hasher.finalize().as_bytes()[..8].try_into().expect("eight bytes"))
    }
}

/// What a frame says in its head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Numbers {
    /// Its number; that of the next new frame where it has no bytes.
    seq: u64,
    /// Frames of the other side that have arrived without a gap.
    arrived: u64,
    /// Those of them that were taken: so far the window of the other side is open.
    taken: u64,
    /// Whether an answer is wanted, by one that waits for room.
    asks: bool,
}

/// A link over a line that loses, repeats, reorders and corrupts messages.
///
/// **Ordering**, **Errors**: as every link; [`LinkError::Closed`] too when the other side was silent through all tries.
/// **Cost**: a copy and a hash of every byte on either side. Memory: two windows of 256 KiB, whatever is sent.
///
/// **Ownership**: windows are free when their bytes were copied to frames, which is what `unsent_len` counts. Frames that are not
/// acknowledged ([`Retransmit::unacknowledged_count`]) are lost with a link that is dropped.
///
/// FEATURE: D2-F14
pub struct Retransmit<L> {
    /// None once the link has ended.
    line: Option<L>,
    alarm: Alarm,
    peer: String,
    outbox: Outbox,
    inbox: Inbox,
    sending: Sending<Frame>,
    receiving: Receiving<Frame>,
    /// Bytes of the first received frame that the inbox has taken.
    used: usize,
    /// Frames that the line may be reading still, though they are done with.
    spent: Vec<Frame>,
    free: Vec<Frame>,
    /// The frame that is arriving.
    arriving: Option<Frame>,
    /// Whether the other side is to be told what has arrived and was taken.
    owes_answer: bool,
    /// Whether to ask it for the same.
    asks: bool,
    told_taken: u64,
    is_held: bool,
    has_more: bool,
    again_count: u64,
    /// Why the line has ended, while what came before is handed out.
    line_end: Option<LinkError>,
    /// Why the link will have ended, once it has said what was done before.
    failed: Option<Ending>,
    end: Option<LinkError>,
}

impl<L: Link> Retransmit<L> {
    /// A link over `line`.
    pub fn over(line: L) -> Result<Retransmit<L>, LinkError> {
        let alarm = Alarm::beside(&line)?;
        let peer = line.peer().to_owned();
        Ok(Retransmit {
            line: Some(line),
            alarm,
            peer,
            outbox: Outbox::new(),
            inbox: Inbox::new(),
            sending: Sending::new(),
            receiving: Receiving::new(),
            used: 0,
            spent: Vec::new(),
            free: Vec::new(),
            arriving: None,
            owes_answer: false,
            asks: false,
            told_taken: 0,
            is_held: false,
            has_more: false,
            again_count: 0,
            line_end: None,
            failed: None,
            end: None,
        })
    }

    /// Frames that are sent and not acknowledged.
    pub fn unacknowledged_count(&self) -> usize {
        self.sending.kept_count()
    }

    /// Frames that were sent again so far.
    pub fn again_count(&self) -> u64 {
        self.again_count
    }

    fn numbers(&self, seq: u64) -> Numbers {
        Numbers { seq, arrived: self.receiving.arrived(), taken: self.receiving.taken(), asks: false }
    }

    /// Gives the line a frame.
    fn give(line: &mut L, frame: &Frame) -> Result<(), LinkError> {
        let window = frame.window();
        let head = Head { body_len: window.len() as u64, ..Head::new(Kind::Control, 0) };
        // SAFETY: a frame given to the line is kept, or spent, until the line has nothing unsent.
        unsafe { line.send(&head, &[window]) }
    }

    /// Whether the line takes more; frames that it has sent are free.
    fn has_line_room(&mut self) -> bool {
        let Some(line) = &self.line else { return false };
        let unsent_len = line.unsent_len();
        if unsent_len == 0 {
            self.free.append(&mut self.spent);
        }
        unsent_len < LINE_LEN && self.spent.len() < SPENT_COUNT_MAX
    }

    /// Sends new frames while there is room.
    fn push(&mut self, done: &mut Progress, now: Instant) -> Result<(), Ending> {
        while !self.outbox.is_empty() && self.line_end.is_none() {
            if done.sent_len >= FAIR_LEN {
                self.has_more = true;
                return Ok(());
            }
            if !self.sending.has_room() {
                self.sending.on_blocked(now);
                return Ok(());
            }
            if !self.has_line_room() {
                return Ok(());
            }
            let len = self.outbox.unsent_len().min(PAYLOAD_LEN as u64) as usize;
            let mut frame = self.free.pop().unwrap_or_else(Frame::new);
            frame.len = FRAME_HEAD_LEN + len;
            self.outbox.copy_to(frame.payload())?;
            frame.seal(self.numbers(self.sending.next()))?;
            self.outbox.sent(len);
            done.sent_len += len as u64;
            self.note_told();
            if let Some(line) = &mut self.line {
                self.line_end = Self::give(line, &frame).err();
            }
            self.sending.on_sent(frame, now);
        }
        Ok(())
    }

    fn note_told(&mut self) {
        self.owes_answer = false;
        self.told_taken = self.receiving.taken();
    }

    /// Sends again what is due.
    fn push_again(&mut self, now: Instant) -> Result<(), Ending> {
        match self.sending.on_time(now) {
            Due::Nothing(_) => Ok(()),
            Due::GiveUp => Err(Ending::Closed("it does not answer, however often it is asked".into())),
            Due::Again if !self.is_line_empty() => {
                // What was sent has not left: the line is slow, or its reader; that is no loss.
                self.sending.put_off(now);
                Ok(())
            }
            Due::Again => {
                self.asks = self.sending.kept_count() == 0;
                let Some(line) = &mut self.line else { return Ok(()) };
                for (_, frame) in self.sending.kept() {
                    self.again_count += 1;
                    // As they were: what they say of the other side's frames is old, which is known there.
                    self.line_end = self.line_end.take().or(Self::give(line, frame).err());
                }
                Ok(())
            }
        }
    }

    fn is_line_empty(&self) -> bool {
        self.line.as_ref().is_none_or(|line| line.unsent_len() == 0)
    }

    /// Tells the other side what has arrived, where no frame with bytes has told it.
    fn answer(&mut self) -> Result<(), Ending> {
        let has_room_news = self.receiving.taken() - self.told_taken >= rule::WINDOW / 2;
        if !(self.owes_answer || self.asks || has_room_news) || self.line_end.is_some() || !self.has_line_room() {
            return Ok(());
        }
        let mut frame = self.free.pop().unwrap_or_else(Frame::new);
        frame.len = FRAME_HEAD_LEN;
        let asks = std::mem::take(&mut self.asks);
        frame.seal(Numbers { asks, ..self.numbers(self.sending.next()) })?;
        self.note_told();
        if let Some(line) = &mut self.line {
            self.line_end = Self::give(line, &frame).err();
        }
        self.spent.push(frame);
        Ok(())
    }

    /// Moves the line, and takes note of the frames that come.
    fn move_line(&mut self, now: Instant) -> Result<(), Ending> {
        let Some(mut line) = self.line.take() else { return Ok(()) };
        let mut arriving = Arriving { link: self, failure: None, now };
        let outcome = line.progress(&mut arriving);
        let failure = arriving.failure;
        self.line = Some(line);
        match outcome {
            Ok(step) => self.has_more |= step.has_more,
            Err(end) => self.line_end = Some(end),
        }
        failure.map_or(Ok(()), Err)
    }

    /// A frame is there, whole: one that is not as it was sent is as good as lost.
    fn on_frame(&mut self, frame: Frame, now: Instant) -> Result<(), Ending> {
        let Some(numbers) = frame.open()? else {
            self.free.push(frame);
            return Ok(());
        };
        self.spent.extend(self.sending.on_arrived(numbers.arrived, numbers.taken, now));
        if frame.len == FRAME_HEAD_LEN {
            self.owes_answer |= numbers.asks;
            self.free.push(frame);
            return Ok(());
        }
        self.owes_answer = true;
        self.free.extend(self.receiving.on_frame(numbers.seq, frame));
        Ok(())
    }

    /// Hands what has arrived to the sink.
    fn pull(&mut self, sink: &mut dyn Sink, done: &mut Progress) -> Result<(), Ending> {
        self.is_held = false;
        while let Some(first) = self.receiving.first() {
            if self.inbox.is_between() && !sink.may_begin() {
                self.is_held = true;
                return Ok(());
            }
            if done.is_fair_share() {
                self.has_more = true;
                return Ok(());
            }
            let bytes = first.payload();
            let used = self.inbox.take(bytes.slice(self.used, bytes.len() - self.used), sink, done)?;
            self.used += used;
            done.received_len += used as u64;
            if self.used < bytes.len() {
                self.is_held = true;
                return Ok(());
            }
            self.used = 0;
            self.free.extend(self.receiving.take());
        }
        Ok(())
    }

    fn step(&mut self, sink: &mut dyn Sink, done: &mut Progress) -> Result<(), Ending> {
        self.alarm.clear().map_err(alarm_failed)?;
        let now = Instant::now();
        if self.line_end.is_none() {
            self.move_line(now)?;
            self.push_again(now)?;
        }
        self.push(done, now)?;
        self.pull(sink, done)?;
        if self.line_end.is_none() { self.answer() } else { Ok(()) }
    }

    /// The line's end becomes ours when everything that came before it was handed out.
    fn check_line(&self, done: &Progress) -> Option<LinkError> {
        let end = self.line_end.as_ref()?;
        if !done.is_idle() || self.receiving.first().is_some() {
            return None;
        }
        Some(match end.clone() {
            LinkError::Closed { peer, reason } if !self.inbox.is_whole() && !reason.contains("middle") => {
                LinkError::Closed { peer, reason: format!("{reason} in the middle of a message") }
            }
            other => other,
        })
    }

    #[cold]
    fn finish(&mut self, end: LinkError) -> LinkError {
        if let Some(line) = &self.line {
            // The other side learns of it by the line's end; an alarm that fails has no more to tell.
            let _ = self.alarm.ignore(line);
        }
        self.line = None;
        self.outbox.clear();
        self.end = Some(end.clone());
        end
    }

    fn check_open(&self) -> Result<(), LinkError> {
        match &self.end {
            None => Ok(()),
            Some(end) => Err(end.clone()),
        }
    }

    fn push_now(&mut self) -> Result<(), LinkError> {
        self.push(&mut Progress::default(), Instant::now()).map_err(|ending| self.finish(ending.at(&self.peer.clone())))
    }
}

fn alarm_failed(error: LinkError) -> Ending {
    Ending::System { what: "a layer's alarm", reason: error.to_string() }
}

/// The sink of the line: puts frames together.
struct Arriving<'a, L> {
    link: &'a mut Retransmit<L>,
    failure: Option<Ending>,
    now: Instant,
}

// SAFETY: windows are those of the arriving frame, which is kept until it is whole, and the line is dropped before the link.
unsafe impl<L: Link> Sink for Arriving<'_, L> {
    fn place(&mut self, head: &Head, at: u64) -> Result<Window, Refusal> {
        if head.body_len > (FRAME_HEAD_LEN + PAYLOAD_LEN) as u64 {
            return Err(Refusal("a frame longer than frames are".into()));
        }
        let link = &mut self.link;
        let frame = link.arriving.get_or_insert_with(|| link.free.pop().unwrap_or_else(Frame::new));
        frame.len = head.body_len as usize;
        Ok(frame.window().slice(at as usize, frame.len - at as usize))
    }

    fn message(&mut self, _: &Head) {
        if let Some(frame) = self.link.arriving.take()
            && self.failure.is_none()
        {
            self.failure = self.link.on_frame(frame, self.now).err();
        }
    }
}

impl<L: Link> Link for Retransmit<L> {
    unsafe fn send(&mut self, head: &Head, body: &[Window]) -> Result<(), LinkError> {
        self.check_open()?;
        if self.line_end.is_some() || self.failed.is_some() {
            return Ok(());
        }
        self.outbox.begin(head, body);
        self.push_now()
    }

    unsafe fn extend(&mut self, body: &[Window]) -> Result<(), LinkError> {
        self.check_open()?;
        if self.line_end.is_some() || self.failed.is_some() {
            return Ok(());
        }
        self.outbox.extend(body);
        self.push_now()
    }

    fn unsent_len(&self) -> u64 {
        // What the line has not sent is counted too: a link whose line is dropped with it loses that.
        self.outbox.unsent_len() + self.line.as_ref().map_or(0, |line| line.unsent_len())
    }

    fn progress(&mut self, sink: &mut dyn Sink) -> Result<Progress, LinkError> {
        self.check_open()?;
        self.has_more = false;
        let mut done = Progress::default();
        let outcome = self.failed.take().map_or(Ok(()), Err).and_then(|()| self.step(sink, &mut done));
        match outcome {
            Err(ending) if done.is_idle() => return Err(self.finish(ending.at(&self.peer.clone()))),
            Err(ending) => {
                self.failed = Some(ending);
                return Ok(Progress { has_more: true, ..done });
            }
            Ok(()) => {}
        }
        if self.line_end.is_some() {
            self.outbox.clear();
        }
        match self.check_line(&done) {
            Some(end) => Err(self.finish(end)),
            None => Ok(Progress { has_more: self.has_more || self.line_end.is_some(), ..done }),
        }
    }

    fn event(&self) -> BorrowedFd<'_> {
        self.alarm.descriptor()
    }

    fn needs_write_event(&self) -> bool {
        // The alarm watches for it.
        false
    }

    fn doze(&mut self) -> bool {
        if self.has_more || self.end.is_some() || self.line_end.is_some() || self.failed.is_some() {
            return false;
        }
        if self.receiving.first().is_some() && !self.is_held {
            return false;
        }
        let Some(line) = &mut self.line else { return false };
        let now = Instant::now();
        let armed = match self.sending.due() {
            Some(due) if due <= now => return false,
            Some(due) => self.alarm.set(due),
            None => Ok(()),
        };
        match armed.and_then(|()| self.alarm.watch(line)) {
            Ok(()) => line.doze() && self.sending.phase() != Phase::GivenUp,
            Err(end) => {
                self.line_end = Some(end);
                false
            }
        }
    }

    fn peer(&self) -> &str {
        &self.peer
    }
}

/// What a raw peer sends through this layer: frames as they should be, with bytes as it likes.
#[cfg(test)]
pub(crate) fn raw_frames(seq: &mut u64, bytes: &[u8]) -> Vec<u8> {
    let mut stream = Vec::new();
    for piece in bytes.chunks(PAYLOAD_LEN) {
        let mut frame = Frame::new();
        frame.len = FRAME_HEAD_LEN + piece.len();
        frame.payload().write_from(piece).unwrap();
        frame.seal(Numbers { seq: *seq, arrived: 0, taken: 0, asks: false }).unwrap();
        *seq += 1;
        let mut whole = vec![0; frame.len];
        frame.window().read_into(&mut whole).unwrap();
        stream.extend_from_slice(&Head { body_len: whole.len() as u64, ..Head::new(Kind::Control, 0) }.encode());
        stream.extend_from_slice(&whole);
    }
    stream
}

#[cfg(test)]
mod tests;
