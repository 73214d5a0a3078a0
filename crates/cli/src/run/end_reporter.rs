//! Tells the pool of ranks that ended, so that barriers fail instead of waiting for them.
//!
//! In a thread of its own: a pool that does not answer must not keep the launcher from its other ranks.

use super::children::End;
use anyhow::Result;
use hanare::Pool;
use hanare_protocol::id::{JobId, Rank};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// Time for the last words when the job is over.
const FINISH_MAX: Duration = Duration::from_secs(1);

/// The thread's end of a channel.
pub struct EndReporter {
    /// `None` when all is told.
    words: Option<Sender<(JobId, Rank, End)>>,
    done: Receiver<()>,
}

impl EndReporter {
    /// Attaches to the pool at `socket`.
    ///
    /// **Errors**: where no node answers there.
    pub fn start(socket: &str) -> Result<EndReporter> {
        let pool = Pool::attach_as(socket, None, None)?;
        let (words, ends) = channel::<(JobId, Rank, End)>();
        let (finished, done) = channel();
        std::thread::Builder::new().name("reporter".to_owned()).spawn(move || {
            for (job, rank, end) in ends {
                // A pool that is gone has no barrier that could wait.
                let _ = pool.rank_ended(job, rank, &end.to_string(), end.status() != 0);
            }
            drop(finished);
        })?;
        Ok(EndReporter { words: Some(words), done })
    }

    /// Tells the pool that a rank has ended.
    pub fn report(&self, job: JobId, rank: Rank, end: End) {
        let _ = self.words.as_ref().map(|words| words.send((job, rank, end)));
    }

    /// Waits until everything is told, within a bound.
    pub fn finish(&mut self) {
        self.words = None;
        let _ = self.done.recv_timeout(FINISH_MAX);
    }
}
