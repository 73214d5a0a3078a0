//! The thread that writes a node's extents down: on a schedule, and soon after the node has become the only holder of one.

use super::Keeper;
use crate::extents::Extents;
use hanare_protocol::{Error, Result};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Shortest pause before a write that is to be soon. Extents come in numbers, and one write takes all of them.
const SOON: Duration = Duration::from_secs(1);

/// A wish of the control thread.
enum Wish {
    WriteSoon,
    Stop,
}

/// Writes on a schedule, until it is stopped.
pub(crate) struct Schedule {
    wishes: SyncSender<Wish>,
    thread: Option<JoinHandle<()>>,
}

impl Schedule {
    pub fn start(keeper: Arc<Keeper>, extents: Arc<Extents>, every: Duration) -> Result<Schedule> {
        let (wishes, asked) = sync_channel(1);
        let run = move || {
            run(&asked, every, || {
                if let Err(error) = keeper.write(&extents) {
                    tracing::error!("{error}; what was written before stays");
                }
            })
        };
        let thread = std::thread::Builder::new().name("keeper".to_owned()).spawn(run);
        let thread = thread.map_err(|error| Error::System { what: "start a thread".to_owned(), reason: error.to_string() })?;
        Ok(Schedule { wishes, thread: Some(thread) })
    }

    /// The next write begins soon, and does not wait for its time. Returns at once.
    pub fn write_soon(&self) {
        // A wish that waits already is the same one.
        let _ = self.wishes.try_send(Wish::WriteSoon);
    }
}

/// Writes that are to be soon rest as long as the last one took: a disk that is slow is not kept busy by them alone.
fn run(asked: &Receiver<Wish>, every: Duration, mut write: impl FnMut()) {
    let (mut due, mut rest) = (Instant::now() + every, SOON);
    loop {
        match asked.recv_timeout(due.saturating_duration_since(Instant::now())) {
            Ok(Wish::WriteSoon) => due = due.min(Instant::now() + rest),
            Err(RecvTimeoutError::Timeout) => {
                let begun = Instant::now();
                write();
                (due, rest) = (Instant::now() + every, begun.elapsed().max(SOON));
            }
            Ok(Wish::Stop) | Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

impl Drop for Schedule {
    fn drop(&mut self) {
        let _ = self.wishes.send(Wish::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wishes_bring_the_next_write_forward_and_are_carried_out_together() {
        let ((wishes, asked), (told, writes)) = (sync_channel(1), std::sync::mpsc::channel());
        let begun = Instant::now();
        let thread = std::thread::spawn(move || run(&asked, Duration::from_secs(3600), || told.send(begun.elapsed()).unwrap()));
        for _ in 0..100 {
            let _ = wishes.try_send(Wish::WriteSoon);
        }
        let first = writes.recv_timeout(Duration::from_secs(60)).expect("it does not wait for an hour");
        assert!(first >= SOON, "{first:?}");
        wishes.send(Wish::Stop).unwrap();
        thread.join().unwrap();
        assert_eq!(writes.try_iter().count(), 0, "one write for all wishes");
    }
}
