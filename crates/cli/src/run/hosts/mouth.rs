//! A deputy's voice: frames to its launcher, in order, written by a thread of their own.
//!
//! Whoever decides never waits for a launcher that reads slowly; ranks that print faster than it reads do.

use super::link::{Frame, Kind};
use hanare_protocol::id::Rank;
use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Bytes of output that may be on their way.
const UNSENT_LEN_MAX: usize = 1 << 20;

/// The voice; its clones speak in turn.
#[derive(Clone)]
pub struct Mouth {
    queue: Sender<Frame>,
    unsent: Arc<Unsent>,
}

#[derive(Default)]
struct Unsent {
    /// `None` when nobody listens any more.
    len: Mutex<Option<usize>>,
    changed: Condvar,
}

impl Unsent {
    fn len(&self) -> MutexGuard<'_, Option<usize>> {
        self.len.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Mouth {
    /// Speaks into `to` from here on, until all clones are gone; the thread's end is told on the channel.
    pub fn open(to: impl io::Write + Send + 'static) -> io::Result<(Mouth, Receiver<()>)> {
        let (queue, frames) = channel();
        let (ended, is_ended) = channel();
        let unsent = Arc::new(Unsent { len: Mutex::new(Some(0)), changed: Condvar::new() });
        let shared = unsent.clone();
        std::thread::Builder::new().name("mouth".to_owned()).spawn(move || {
            speak(&frames, to, &shared);
            drop(ended);
        })?;
        Ok((Mouth { queue, unsent }, is_ended))
    }

    /// Says something, without waiting.
    pub fn say(&self, frame: Frame) {
        let _ = self.queue.send(frame);
    }

    /// What passes a rank's standard output on.
    pub fn output(&self, rank: Rank) -> impl FnMut(&[u8]) -> io::Result<()> + Send + 'static {
        let mouth = self.clone();
        move |line| mouth.pass(Kind::Output, rank, line)
    }

    /// What passes its standard error output on.
    pub fn errors(&self, rank: Rank) -> impl FnMut(&[u8]) -> io::Result<()> + Send + 'static {
        let mouth = self.clone();
        move |line| mouth.pass(Kind::Errors, rank, line)
    }

    /// Passes output on when there is room.
    fn pass(&self, kind: Kind, rank: Rank, bytes: &[u8]) -> io::Result<()> {
        let mut len = self.unsent.len();
        loop {
            match &mut *len {
                None => return Err(io::ErrorKind::BrokenPipe.into()),
                Some(unsent) if *unsent < UNSENT_LEN_MAX => {
                    *unsent += bytes.len();
                    break;
                }
                Some(_) => len = self.unsent.changed.wait(len).unwrap_or_else(PoisonError::into_inner),
            }
        }
        self.say(Frame::new(kind, rank.0, bytes.to_vec()));
        Ok(())
    }
}

fn speak(frames: &Receiver<Frame>, mut to: impl io::Write, unsent: &Unsent) {
    for frame in frames {
        let is_out = frame.write(&mut to).is_ok();
        let is_output = matches!(frame.kind, Kind::Output | Kind::Errors);
        let mut len = unsent.len();
        *len = len.filter(|_| is_out).map(|len| if is_output { len - frame.body.len() } else { len });
        drop(len);
        unsent.changed.notify_all();
        if !is_out {
            return;
        }
    }
}
