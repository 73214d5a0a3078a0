//! Read-ahead: faults show threads that read or write page after page. Each such stream gets a window that doubles.
//!
//! A stream stands at its next expected fault, the first page behind the last fetch. Pages that were fetched ahead are mapped and do not
//! fault. A stream may start again where it started before, as at the border of a grid, once an iteration. Then it gets its former need at
//! once: up to its last fault, without the window that was fetched behind that in vain. A program may take its own chunks of an interleaved
//! region in turn. Then the stream goes on in the next chunk of the same home.
//!
//! Streams are a guess: two threads that change one at a time may lose it, no more.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Streams followed at a time; a fault that goes on with none takes the place of the oldest.
const STREAM_COUNT: usize = 16;

/// Longest window: pages fetched behind the one that is touched.
const WINDOW_MAX: u64 = (1 << WINDOW_BITS) - 1;

/// Every 16th restart fetches only half, to notice programs that need less now.
const DOUBT_COUNT: u64 = 16;

/// Bits of a stream's `next` that hold its last window.
const WINDOW_BITS: u32 = 8;

/// Bits of a stream's `run` that hold its length.
const RUN_BITS: u32 = 20;

/// The streams of a mapping.
#[derive(Default)]
pub struct Streams {
    streams: [State; STREAM_COUNT],
    oldest: AtomicU64,
    again: AtomicU64,
}

/// A stream. Its two words are read and written apart, and a mix of two states is one more guess.
#[derive(Default)]
struct State {
    /// Its next page plus 1, whether it has gone on yet, and its last window; 0 for none.
    next: AtomicU64,
    /// Its first page plus 1, and how many pages its last fault was behind that.
    run: AtomicU64,
}

/// A fault's place among the streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    index: usize,
    course: Course,
    /// Pages to fetch behind the touched one.
    pub ahead: u64,
    /// True if more than this one fault shows that it goes on: its next pages are worth taking from others.
    pub is_sure: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Course {
    Begins,
    BeginsAgain,
    GoesOn,
}

impl Streams {
    /// The stream that a fault on `page` goes on with, or begins; one that begins gets `first` pages ahead.
    pub fn find(&self, page: u64, first: u64) -> Stream {
        let place = |of: fn(&State) -> &AtomicU64, bits: u32| {
            self.streams.iter().position(|stream| of(stream).load(Relaxed) >> bits == page + 1)
        };
        if let Some(index) = place(|stream| &stream.next, WINDOW_BITS + 1) {
            let last = self.streams[index].next.load(Relaxed) & WINDOW_MAX;
            return Stream { index, course: Course::GoesOn, ahead: (2 * last + 1).min(WINDOW_MAX), is_sure: true };
        }
        if let Some(index) = place(|stream| &stream.run, RUN_BITS) {
            let stream = &self.streams[index];
            let went_on = stream.next.load(Relaxed) >> WINDOW_BITS & 1 == 1;
            let len = self.doubted(stream);
            if went_on && len > 0 {
                return Stream { index, course: Course::BeginsAgain, ahead: len.min(WINDOW_MAX), is_sure: true };
            }
            return Stream { index, course: Course::Begins, ahead: first, is_sure: false };
        }
        let index = self.oldest.fetch_add(1, Relaxed) as usize % STREAM_COUNT;
        Stream { index, course: Course::Begins, ahead: first, is_sure: false }
    }

    /// Distance of a stream's last fault from its first. At each doubted restart half of it is the limit from then on.
    fn doubted(&self, stream: &State) -> u64 {
        let run = stream.run.load(Relaxed);
        let len = run & ((1 << RUN_BITS) - 1);
        if len == 0 || !(self.again.fetch_add(1, Relaxed) + 1).is_multiple_of(DOUBT_COUNT) {
            return len;
        }
        stream.run.store(run - len + len / 2, Relaxed);
        len / 2
    }

    /// `period`, if the pages up to the end of the home's chunk were fetched: the distance from a page to its like in the home's next
    /// chunk.
    pub fn go_on(&self, stream: Stream, page: u64, next: u64, period: Option<u64>) {
        let Stream { index, course, ahead, .. } = stream;
        let State { next: next_word, run } = &self.streams[index];
        let first = match course {
            Course::Begins => page,
            Course::BeginsAgain | Course::GoesOn => (run.load(Relaxed) >> RUN_BITS).saturating_sub(1).min(page),
        };
        let went_on = u64::from(course != Course::Begins);
        let (next, window) = match (course, period) {
            (_, Some(period)) => (first + period, ahead),
            // The stream ended here, or goes on from here slowly.
            (Course::BeginsAgain, None) => (next, 0),
            (_, None) => (next, ahead),
        };
        next_word.store((next + 1) << (WINDOW_BITS + 1) | went_on << WINDOW_BITS | window, Relaxed);
        match (course, period) {
            (_, Some(_)) => run.store((next + 1) << RUN_BITS, Relaxed),
            (Course::BeginsAgain, None) => {}
            _ => run.store((first + 1) << RUN_BITS | (page - first).min((1 << RUN_BITS) - 1), Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Faults of a thread that reads `pages` once, each page of which may fault; the windows they got.
    fn read(streams: &Streams, pages: std::ops::Range<u64>) -> Vec<u64> {
        let (mut page, mut windows) = (pages.start, Vec::new());
        while page < pages.end {
            let stream = streams.find(page, 0);
            windows.push(stream.ahead);
            let next = page + 1 + stream.ahead;
            streams.go_on(stream, page, next, None);
            page = next;
        }
        windows
    }

    #[test]
    fn windows_of_streams_double_and_strangers_get_one_page() {
        let streams = Streams::default();
        let (mut one, mut two) = (100, 5000);
        let mut windows = Vec::new();
        for turn in 0..11 {
            for next in [&mut one, &mut two] {
                let stream = streams.find(*next, 0);
                let behind = *next + 1 + stream.ahead;
                streams.go_on(stream, *next, behind, None);
                *next = behind;
                windows.push(stream.ahead);
            }
            // A page here and there, beside the streams.
            assert_eq!(streams.find(1_000_000 + 7 * turn, 0).ahead, 0);
        }
        assert_eq!(windows[..6], [0, 0, 1, 1, 3, 3]);
        assert_eq!(windows[18..], [WINDOW_MAX; 4]);
    }

    #[test]
    fn a_stream_that_begins_again_gets_what_it_needs_and_no_more() {
        let streams = Streams::default();
        assert_eq!(read(&streams, 100..132), [0, 1, 3, 7, 15, 31], "fetched up to page 162");
        assert_eq!(read(&streams, 100..132), [31], "which is all of it");
        // A stream that does not end at a power of two is found step by step.
        assert_eq!(read(&streams, 500..540), [0, 1, 3, 7, 15, 31]);
        for _ in 0..8 {
            read(&streams, 500..540);
        }
        assert_eq!(read(&streams, 500..540), [39]);
    }

    #[test]
    fn what_is_needed_no_more_is_forgotten() {
        let streams = Streams::default();
        read(&streams, 100..228);
        for _ in 0..20 * DOUBT_COUNT {
            read(&streams, 100..102);
        }
        let fetched: u64 = (0..DOUBT_COUNT).map(|_| read(&streams, 100..102)[0]).max().unwrap();
        assert!(fetched <= 3, "{fetched}");
    }

    #[test]
    fn a_page_that_comes_and_goes_is_no_stream() {
        let streams = Streams::default();
        for _ in 0..100 {
            let stream = streams.find(7, 15);
            assert_eq!((stream.ahead, stream.is_sure), (15, false));
            streams.go_on(stream, 7, 23, None);
        }
    }

    #[test]
    fn chunks_of_one_home_are_gone_through_in_turn() {
        // Chunks of four pages, of two homes in turn; the first page of each chunk is not touched.
        let (streams, chunk, period) = (Streams::default(), 4, 8);
        let mut faults = Vec::new();
        for turn in 0..10 {
            let end = turn * period + chunk;
            let (mut page, mut count) = (turn * period + 1, 0);
            while page < end {
                let stream = streams.find(page, 0);
                let next = (page + 1 + stream.ahead).min(end);
                streams.go_on(stream, page, next, (next == end).then_some(period));
                (page, count) = (next, count + 1);
            }
            faults.push(count);
        }
        assert_eq!(faults[0], 2);
        assert_eq!(faults[1..], [1; 9]);
    }
}
