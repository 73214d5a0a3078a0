//! The end of a non-blocking command, and its result.

use super::Started;
use hanare_protocol::Result;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A command under way. Dropping it waits for its end.
///
/// A region that hosts have mapped coherently has no other way. Its home does the command, and gets the pages from them.
#[must_use = "a completion that is dropped at once makes the command a blocking one"]
pub struct Completion<T> {
    started: Started<'static>,
    /// The caller's result: its buffer, or a value. Until the end the buffer is held here.
    brings: Option<Box<dyn FnOnce() -> T + Send>>,
}

impl<T> Completion<T> {
    pub(super) fn new(started: Started<'static>, brings: impl FnOnce() -> T + Send + 'static) -> Completion<T> {
        Completion { started, brings: Some(Box::new(brings)) }
    }

    /// True if all is done, so that `wait` returns at once. Where the home of bytes with copies was lost, `wait` runs the command again.
    /// Moves messages along, and waits for no reply.
    pub fn is_done(&self) -> bool {
        self.started.are_done()
    }

    /// Sleeps until something of it has come, for `bound` at most.
    pub(crate) fn nap(&self, bound: Duration) {
        self.started.nap(bound);
    }

    /// Waits for the end and gives what the command brings. **Errors**: as for the blocking call; those of
    /// [`crate::Region::map`] where the region is mapped otherwise by then.
    pub fn wait(mut self) -> Result<T> {
        let outcome = self.started.finish();
        outcome.map(|()| self.brings.take().expect("only wait takes it")())
    }
}

impl<T> Drop for Completion<T> {
    fn drop(&mut self) {
        // The node may write into the buffer until its answer is here. An error was the caller's to ask for.
        self.started.settle();
    }
}

/// Result of a command, filled when its replies are here.
pub(super) struct ResultCell<T>(Arc<Mutex<Option<T>>>);

impl<T> Default for ResultCell<T> {
    fn default() -> ResultCell<T> {
        ResultCell(Arc::default())
    }
}

impl<T: Send + 'static> ResultCell<T> {
    pub(super) fn setter(&self) -> impl Fn(T) + Send + Sync + 'static {
        let cell = self.0.clone();
        move |value| *cell.lock().unwrap_or_else(PoisonError::into_inner) = Some(value)
    }

    pub(super) fn take(&self) -> T {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take().expect("a command that succeeded has told")
    }
}
