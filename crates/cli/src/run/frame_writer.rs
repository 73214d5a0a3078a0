//! A deputy's frames to its launcher: queued in order, and written by a thread of their own.
//!
//! A deputy that decides never waits for a launcher that reads slowly. Ranks wait that print faster than it reads.

use super::link::{Frame, Kind};
use hanare_protocol::id::Rank;
use std::io::{self, BufWriter, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Bytes of output that may be on their way.
const UNSENT_LEN_MAX: usize = 1 << 20;
/// Bytes that leave together where several frames wait.
const BUFFER_LEN: usize = 64 << 10;

/// The queue of frames. Clones share it.
#[derive(Clone)]
pub struct FrameWriter {
    queue: Sender<Frame>,
    unsent: Arc<Unsent>,
}

#[derive(Default)]
struct Unsent {
    /// Bytes of output on their way; `None` when the launcher reads no more.
    len: Mutex<Option<usize>>,
    changed: Condvar,
    /// True if output, or error output, is read no more.
    is_closed: [AtomicBool; 2],
}

impl Unsent {
    fn len(&self) -> MutexGuard<'_, Option<usize>> {
        self.len.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FrameWriter {
    /// Starts the thread that writes to `to` until all clones are gone. The channel ends with the thread.
    pub fn open(to: impl io::Write + Send + 'static) -> io::Result<(FrameWriter, Receiver<()>)> {
        let (queue, frames) = channel();
        let (ended, is_ended) = channel();
        let unsent = Arc::new(Unsent { len: Mutex::new(Some(0)), ..Unsent::default() });
        let shared = unsent.clone();
        std::thread::Builder::new().name("frames".to_owned()).spawn(move || {
            write_all(&frames, to, &shared);
            drop(ended);
        })?;
        Ok((FrameWriter { queue, unsent }, is_ended))
    }

    /// Sends a frame, without waiting.
    pub fn send(&self, frame: Frame) {
        let _ = self.queue.send(frame);
    }

    /// Output (1) or error output (2) is read no more: whoever writes it is told so, as by a pipe.
    pub fn close(&self, stream: u32) {
        // Under the lock: whoever has looked and found room missing is waiting by then.
        let _len = self.unsent.len();
        self.unsent.is_closed[usize::from(stream == 2)].store(true, Ordering::Relaxed);
        self.unsent.changed.notify_all();
    }

    /// Writer for a rank's standard output.
    pub fn output(&self, rank: Rank) -> impl FnMut(&[u8]) -> io::Result<()> + Send + 'static {
        let writer = self.clone();
        move |line| writer.pass(Kind::Output, rank, line)
    }

    /// Writer for its standard error output.
    pub fn errors(&self, rank: Rank) -> impl FnMut(&[u8]) -> io::Result<()> + Send + 'static {
        let writer = self.clone();
        move |line| writer.pass(Kind::Errors, rank, line)
    }

    /// Passes output on when there is room.
    fn pass(&self, kind: Kind, rank: Rank, bytes: &[u8]) -> io::Result<()> {
        let mut len = self.unsent.len();
        loop {
            match &mut *len {
                _ if self.unsent.is_closed[usize::from(kind == Kind::Errors)].load(Ordering::Relaxed) => {
                    return Err(io::ErrorKind::BrokenPipe.into());
                }
                None => return Err(io::ErrorKind::BrokenPipe.into()),
                Some(unsent) if *unsent < UNSENT_LEN_MAX => {
                    *unsent += weight(bytes);
                    break;
                }
                Some(_) => len = self.unsent.changed.wait(len).unwrap_or_else(PoisonError::into_inner),
            }
        }
        self.send(Frame::new(kind, rank.0, bytes.to_vec()));
        Ok(())
    }
}

fn write_all(frames: &Receiver<Frame>, to: impl io::Write, unsent: &Unsent) {
    let mut to = BufWriter::with_capacity(BUFFER_LEN, to);
    while let Ok(first) = frames.recv() {
        // Other waiting frames leave with it.
        let is_out = std::iter::once(first).chain(frames.try_iter()).all(|frame| {
            let is_out = frame.write(&mut to).is_ok();
            if is_out {
                unsent.on_written(&frame);
            }
            is_out
        });
        if !is_out || to.flush().is_err() {
            return unsent.on_reader_gone();
        }
    }
}

impl Unsent {
    fn on_written(&self, frame: &Frame) {
        if matches!(frame.kind, Kind::Output | Kind::Errors) {
            let mut len = self.len();
            *len = len.map(|len| len - weight(&frame.body));
            self.changed.notify_all();
        }
    }

    fn on_reader_gone(&self) {
        *self.len() = None;
        self.changed.notify_all();
    }
}

/// Weight of a waiting line.
fn weight(line: &[u8]) -> usize {
    line.len() + 64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// Takes what is written, a piece for each permit.
    struct Gate(Receiver<()>);

    impl io::Write for Gate {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.recv().map_err(io::Error::other)?;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn output_waits_for_room_and_other_words_do_not() {
        let (permit, gate) = channel();
        let (writer, ended) = FrameWriter::open(Gate(gate)).unwrap();
        let mut output = writer.output(Rank(0));
        let (passed, has_passed) = channel();
        let rank = std::thread::spawn(move || {
            let piece = vec![0; UNSENT_LEN_MAX];
            while output(&piece).is_ok() {
                passed.send(()).unwrap();
            }
        });
        has_passed.recv().unwrap();
        writer.send(Frame::new(Kind::Over, 0, Vec::new()));
        assert!(has_passed.try_recv().is_err(), "the second piece has no room before the first is out");
        // Head and body of the first.
        (0..2).for_each(|_| permit.send(()).unwrap());
        has_passed.recv().unwrap();
        writer.close(1);
        rank.join().unwrap();
        drop(permit);
        drop(writer);
        assert!(ended.recv_timeout(Duration::from_secs(60)).is_err(), "the thread ends when nobody reads");
    }
}
