//! The link over shared memory.
//!
//! Safety invariants of this module:
//! 1. Windows of callers and sinks are used while link.rs's first invariant holds for them.
//! 2. A record's window is used between `peek` and `release` of that record, a claim's between `claim` and `commit`.

use super::layout::RECORD_LEN_MAX;
use super::side::{ShmParts, Side};
use crate::ending::{Ending, Steps};
use crate::inbox::Inbox;
use crate::link::{Link, LinkError, Progress, Sink};
use crate::outbox::Outbox;
use hanare_memory::Window;
use hanare_protocol::wire::head::Head;
use hanare_ring::Corrupt;
use std::os::fd::BorrowedFd;

/// Records taken by one `progress`: a peer that makes tiny ones gets no more of our time than others.
const RECORD_COUNT_MAX: u32 = 2048;

/// Shortest record of a longer body.
const RECORD_LEN_MIN: usize = 4 << 10;

/// Idle looks between two at the peer's life, for a thread that never parks: a look costs a system call.
const LIFE_INTERVAL: u32 = 1 << 12;

/// A [`Link`] between two processes of one host.
pub struct ShmLink {
    side: Side,
    peer: String,
    outbox: Outbox,
    inbox: Inbox,
    /// Bytes of the first record that the inbox has taken; the rest waits for the sink.
    taken: usize,
    /// True if bytes wait for the sink.
    is_held: bool,
    dozed: bool,
    peer_lives: bool,
    has_more: bool,
    idle_count: u32,
    end: Option<LinkError>,
}

impl ShmLink {
    /// Makes the shared memory of a link, and what the other process needs to open it.
    pub fn create(peer: &str) -> hanare_protocol::Result<(ShmLink, ShmParts)> {
        let (side, parts) = Side::make()?;
        Ok((ShmLink::new(side, peer), parts))
    }

    /// Opens a link that the other process made.
    ///
    /// **Errors**: [`hanare_protocol::Error::Garbage`] for a file that is no link of this version, or not sealed.
    pub fn open(parts: ShmParts, peer: &str) -> hanare_protocol::Result<ShmLink> {
        Ok(ShmLink::new(Side::open(parts)?, peer))
    }

    fn new(side: Side, peer: &str) -> ShmLink {
        ShmLink {
            side,
            peer: peer.to_owned(),
            outbox: Outbox::new(),
            inbox: Inbox::new(),
            taken: 0,
            is_held: false,
            dozed: false,
            peer_lives: true,
            has_more: false,
            idle_count: 0,
            end: None,
        }
    }

    /// Least room for a record: small pieces of a long body would cost more than a wait for the reader.
    fn room_wanted(&self) -> usize {
        self.outbox.unsent_len().min(RECORD_LEN_MIN as u64) as usize
    }

    /// True if sending can go on, or the ring makes no sense: then `progress` returns the error.
    fn has_room(&mut self) -> bool {
        let enough = self.room_wanted();
        self.side.producer.room(enough).map_or(true, |room| room.unwrap_or(0) >= enough)
    }

    /// Puts records into the ring while there is room.
    fn push(&mut self, done: &mut Progress) -> Result<(), Ending> {
        let sent_before = done.sent_len;
        while !self.outbox.is_empty() {
            let enough = self.room_wanted();
            let room = self.side.producer.room(enough).map_err(corrupt)?.unwrap_or(0);
            if room < enough {
                break;
            }
            let len = self.outbox.unsent_len().min(room.min(RECORD_LEN_MAX) as u64) as usize;
            if !self.side.producer.claim(len).map_err(corrupt)? {
                break;
            }
            self.outbox.copy_to(self.side.producer.window())?;
            self.side.producer.commit(len);
            self.outbox.sent(len);
            done.sent_len += len as u64;
        }
        if done.sent_len > sent_before {
            self.side.ring_data();
        }
        Ok(())
    }

    /// Takes records out of the ring and hands them to the sink. Returns true if no record is left.
    fn pull(&mut self, sink: &mut dyn Sink, done: &mut Progress) -> Result<bool, Ending> {
        let mut records = 0;
        self.is_held = false;
        let is_empty = loop {
            if self.inbox.is_between() && !sink.may_begin() || !self.inbox.has_place(sink)? {
                self.is_held = true;
                break false;
            }
            if done.is_fair_share() || records == RECORD_COUNT_MAX {
                self.has_more = true;
                break false;
            }
            let Some(record) = self.side.consumer.peek().map_err(corrupt)? else { break true };
            if record.is_empty() {
                return Err(Ending::Garbage("a record without bytes".into()));
            }
            let from = self.side.consumer.window(&record);
            let rest = from.slice(self.taken, from.len() - self.taken);
            let used = self.inbox.take(rest, sink, done)?;
            self.taken += used;
            done.received_len += used as u64;
            if self.taken < from.len() {
                self.is_held = true;
                break false;
            }
            self.taken = 0;
            self.side.consumer.release(record);
            records += 1;
        };
        if records > 0 {
            self.side.ring_space();
        }
        Ok(is_empty)
    }

    /// Checks the peer's life when nothing is there. After the peer went, looks at the ring once more, for its last messages.
    fn check_life(&mut self, sink: &mut dyn Sink, done: &mut Progress) -> Result<(), Ending> {
        let ending = match (self.side.is_closed(), self.peer_lives) {
            (false, true) => return Ok(()),
            (true, _) => "it closed the link",
            (false, false) => "its process ended",
        };
        if !self.pull(sink, done)? || !done.is_idle() {
            self.has_more = true;
            return Ok(());
        }
        let place = if self.inbox.is_whole() { "" } else { " in the middle of a message" };
        Err(Ending::Closed(format!("{ending}{place}")))
    }

    /// Takes the announcement of sleep back. Looks at the peer's life after a sleep, and from time to time while idle.
    fn rouse(&mut self) {
        if self.dozed {
            self.dozed = false;
            self.side.rouse();
            self.peer_lives &= self.side.bell.take();
        } else if self.idle_count >= LIFE_INTERVAL {
            self.idle_count = 0;
            self.peer_lives &= self.side.bell.lives();
        }
    }

    fn push_now(&mut self) -> Result<(), LinkError> {
        self.push(&mut Progress::default()).map_err(|ending| self.finish(ending))
    }
}

impl Steps for ShmLink {
    fn step(&mut self, sink: &mut dyn Sink, done: &mut Progress) -> Result<(), Ending> {
        self.rouse();
        self.push(done)?;
        let is_empty = self.pull(sink, done)?;
        self.idle_count = if done.is_idle() { self.idle_count + 1 } else { 0 };
        if is_empty { self.check_life(sink, done) } else { Ok(()) }
    }

    fn has_more(&mut self) -> &mut bool {
        &mut self.has_more
    }

    fn check_open(&self) -> Result<(), LinkError> {
        match &self.end {
            None => Ok(()),
            Some(end) => Err(end.clone()),
        }
    }

    #[cold]
    fn finish(&mut self, ending: Ending) -> LinkError {
        self.outbox.clear();
        let end = ending.at(&self.peer);
        self.end = Some(end.clone());
        end
    }
}

impl Link for ShmLink {
    unsafe fn send(&mut self, head: &Head, body: &[Window]) -> Result<(), LinkError> {
        self.check_open()?;
        self.outbox.begin(head, body);
        self.push_now()
    }

    unsafe fn extend(&mut self, body: &[Window]) -> Result<(), LinkError> {
        self.check_open()?;
        self.outbox.extend(body);
        self.push_now()
    }

    fn unsent_len(&self) -> u64 {
        self.outbox.unsent_len()
    }

    fn progress(&mut self, sink: &mut dyn Sink) -> Result<Progress, LinkError> {
        self.progress_by_step(sink)
    }

    fn event(&self) -> BorrowedFd<'_> {
        self.side.bell.descriptor()
    }

    fn needs_write_event(&self) -> bool {
        // The bell rings for room too.
        false
    }

    fn doze(&mut self) -> bool {
        if self.has_more || self.end.is_some() {
            return false;
        }
        let for_space = !self.outbox.is_empty();
        self.side.doze(for_space);
        self.dozed = true;
        let is_news = self.side.is_closed()
            || (!self.is_held && !matches!(self.side.consumer.peek(), Ok(None)))
            || (for_space && self.has_room());
        !is_news
    }

    fn nudge(&self) {
        self.side.bell.ring();
    }

    fn peer(&self) -> &str {
        &self.peer
    }
}

#[cold]
fn corrupt(corrupt: Corrupt) -> Ending {
    Ending::Garbage(corrupt.0.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::{Store, body, pump, send};
    use proptest::prelude::*;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    fn is_rung(link: &ShmLink) -> bool {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut [PollFd::from_borrowed_fd(link.event(), PollFlags::IN)], Some(&now)).unwrap() > 0
    }

    // FEATURE: RF-F1
    #[test]
    fn nobody_rings_while_both_are_awake() {
        let (mut one, parts) = ShmLink::create("the opener").unwrap();
        let mut other = ShmLink::open(parts, "the maker").unwrap();
        let (mut one_store, mut other_store) = (Store::new(), Store::new());
        let bytes = body(0, 300_000);
        for seq in 0..20 {
            send(&mut one, seq, &bytes).unwrap();
            send(&mut other, seq, &bytes[..100]).unwrap();
            pump((&mut one, &mut one_store), (&mut other, &mut other_store), |one, other| {
                one.messages.len() == other.messages.len() && one.messages.len() > seq as usize
            });
        }
        assert!(!is_rung(&one) && !is_rung(&other));
    }

    #[test]
    fn a_reader_is_not_woken_for_room_that_it_does_not_need() {
        let (mut one, parts) = ShmLink::create("the opener").unwrap();
        let mut other = ShmLink::open(parts, "the maker").unwrap();
        send(&mut one, 0, &[]).unwrap();
        assert!(one.doze());
        let mut store = Store::new();
        other.progress(&mut store).unwrap();
        assert_eq!(store.messages.len(), 1);
        assert!(!is_rung(&one), "taking a request does not wake who waits for the answer");
        send(&mut other, 0, &[]).unwrap();
        assert!(is_rung(&one));
    }

    #[test]
    fn a_nudge_wakes_a_peer_that_sleeps_and_says_nothing() {
        let (mut one, parts) = ShmLink::create("the opener").unwrap();
        let other = ShmLink::open(parts, "the maker").unwrap();
        assert!(one.doze() && !is_rung(&one));
        other.nudge();
        assert!(is_rung(&one));
        let mut store = Store::new();
        assert!(one.progress(&mut store).unwrap().is_idle() && store.messages.is_empty());
        assert!(!is_rung(&one), "it was heard");
    }

    #[test]
    fn a_process_that_dies_without_a_word_is_noticed_asleep_and_awake() {
        for sleeps in [true, false] {
            let (mut one, parts) = ShmLink::create("the opener").unwrap();
            let mut store = Store::new();
            if sleeps {
                assert!(one.doze());
            }
            // The kernel does the same for a process that is killed: its descriptors close, its memory says nothing.
            drop(parts);
            assert!(!sleeps || is_rung(&one));
            let looks = if sleeps { 1 } else { LIFE_INTERVAL + 2 };
            let end = (0..looks).find_map(|_| one.progress(&mut store).err());
            assert!(matches!(&end, Some(LinkError::Closed { reason, .. }) if reason == "its process ended"), "{end:?}");
        }
    }

    #[test]
    fn a_record_without_bytes_ends_the_link() {
        let (mut one, parts) = ShmLink::create("the opener").unwrap();
        let mut raw = Side::open(parts).unwrap();
        assert!(raw.producer.push(&[]).unwrap());
        assert!(matches!(one.progress(&mut Store::new()), Err(LinkError::Garbage { .. })));
    }

    #[test]
    fn memory_that_is_no_link_is_refused() {
        let (_maker, parts) = ShmLink::create("the opener").unwrap();
        let memory = hanare_memory::file::create("nothing", super::super::layout::FILE_LEN as u64).unwrap();
        assert!(ShmLink::open(ShmParts { memory, ..parts }, "the maker").is_err());
        let (_maker, parts) = ShmLink::create("the opener").unwrap();
        let memory = hanare_memory::file::create("short", 4096).unwrap();
        assert!(ShmLink::open(ShmParts { memory, ..parts }, "the maker").is_err());
    }

    proptest! {
        #[test]
        fn whatever_a_peer_writes_is_messages_or_an_end(
            scribbles in prop::collection::vec((0..super::super::layout::FILE_LEN - 64, prop::collection::vec(any::<u8>(), 1..64)), 1..20),
        ) {
            let (mut one, parts) = ShmLink::create("the opener").unwrap();
            let memory = parts.memory.try_clone().unwrap();
            let mut other = ShmLink::open(parts, "the maker").unwrap();
            let bytes = body(0, 3000);
            let mut store = Store { body_len_max: 1 << 20, ..Store::new() };
            for (at, noise) in scribbles {
                let _ = send(&mut other, 0, &bytes);
                let _ = send(&mut one, 0, &bytes);
                rustix::io::pwrite(&memory, &noise, at as u64).unwrap();
                one.doze();
                if one.progress(&mut store).is_err() {
                    prop_assert_eq!(one.unsent_len(), 0);
                    break;
                }
            }
        }
    }

    #[test]
    fn a_ring_scribbled_over_ends_the_link() {
        let (mut one, parts) = ShmLink::create("the opener").unwrap();
        let whole = super::super::layout::FILE_LEN;
        let noise = vec![0xa5; whole - 4096];
        assert_eq!(rustix::io::pwrite(&parts.memory, &noise, 4096).unwrap(), noise.len());
        assert!(matches!(one.progress(&mut Store::new()), Err(LinkError::Garbage { .. })));
        // Nor is anything sent into it.
        let bytes = body(0, 64);
        assert!(matches!(send(&mut one, 0, &bytes), Err(LinkError::Garbage { .. })));
    }
}
