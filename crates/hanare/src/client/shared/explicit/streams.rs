//! Which pages to fetch ahead: threads that read or write page after page are recognised by their faults, and each gets a window
//! that doubles.
//!
//! A stream is where its next fault is expected, which is the first page behind what was fetched last: pages that were fetched
//! ahead are mapped and do not fault. Streams are a guess: two threads that change one at a time may lose it, no more.

use crate::client::shared::lanes::LANE_PAGE_COUNT;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Streams followed at a time; a fault that goes on with none takes the place of the oldest.
const STREAM_COUNT: usize = 8;

/// Bits of a stream that hold its window.
const WINDOW_BITS: u32 = 8;

const _: () = assert!(LANE_PAGE_COUNT < 1 << WINDOW_BITS);

/// The streams of a mapping.
#[derive(Default)]
pub(super) struct Streams {
    /// For each its next page plus 1, and its last window in the low bits; 0 for none.
    streams: [AtomicU64; STREAM_COUNT],
    oldest: AtomicU64,
}

/// A fault's place among the streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stream {
    index: usize,
    /// Pages to fetch, the touched one among them.
    pub window: usize,
}

impl Streams {
    /// The stream that a fault on `page` goes on with, or begins.
    pub fn find(&self, page: u64) -> Stream {
        let goes_on = |stream: &AtomicU64| Some(stream.load(Relaxed)).filter(|stream| stream >> WINDOW_BITS == page + 1);
        let found = self.streams.iter().enumerate().find_map(|(index, stream)| Some((index, goes_on(stream)?)));
        match found {
            Some((index, stream)) => {
                let last = (stream & ((1 << WINDOW_BITS) - 1)) as usize;
                Stream { index, window: (2 * last).min(LANE_PAGE_COUNT) }
            }
            None => Stream { index: self.oldest.fetch_add(1, Relaxed) as usize % STREAM_COUNT, window: 1 },
        }
    }

    /// The stream goes on at `next`, with what was fetched as its last window.
    pub fn go_on(&self, stream: Stream, next: u64, fetched: usize) {
        self.streams[stream.index].store((next + 1) << WINDOW_BITS | fetched as u64, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_of_streams_double_and_strangers_get_one_page() {
        let streams = Streams::default();
        let (mut one, mut two) = (100, 5000);
        let mut windows = Vec::new();
        for turn in 0..9 {
            for next in [&mut one, &mut two] {
                let stream = streams.find(*next);
                *next += stream.window as u64;
                streams.go_on(stream, *next, stream.window);
                windows.push(stream.window);
            }
            // A page here and there, beside the streams.
            let stranger = streams.find(1_000_000 + 7 * turn);
            assert_eq!(stranger.window, 1);
        }
        assert_eq!(windows[..6], [1, 1, 2, 2, 4, 4]);
        assert_eq!(windows[14..], [64; 4]);
        assert_eq!(streams.find(100).window, 1, "what was passed is not gone on with");
    }
}
