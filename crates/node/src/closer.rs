//! The thread that gives back to the kernel what programs leave that are gone: memory, and descriptors.
//!
//! Unmapping memory has the kernel interrupt each processor that runs a thread of this process, and wait for it. Threads that serve others hand that
//! over.

use std::sync::mpsc::{SyncSender, sync_channel};

/// Most things that wait to be dropped; above that the bringer drops its own.
const WAITING_COUNT: usize = 1024;

/// Something that is of no use any more.
type Leaving = Box<dyn Send>;

/// The way to the thread, which ends with it.
pub(crate) struct Closer(Option<SyncSender<Leaving>>);

impl Closer {
    /// Starts the thread; where that fails, who brings something drops it.
    pub fn start() -> Closer {
        let (sender, receiver) = sync_channel::<Leaving>(WAITING_COUNT);
        let started =
            std::thread::Builder::new().name("hanare-closer".to_owned()).spawn(move || receiver.into_iter().for_each(drop));
        Closer(started.ok().map(|_| sender))
    }

    /// Has something dropped, soon. **Cost**: an allocation.
    pub fn drop_later(&self, leaving: impl Send + 'static) {
        if let Some(sender) = &self.0 {
            // Things beyond the thread's queue are dropped here.
            let _ = sender.try_send(Box::new(leaving));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::thread::{ThreadId, current};
    use std::time::Duration;

    /// Says which thread drops it.
    struct Told(std::sync::mpsc::Sender<ThreadId>);

    impl Drop for Told {
        fn drop(&mut self) {
            let _ = self.0.send(current().id());
        }
    }

    #[test]
    fn what_is_left_is_dropped_by_another_thread() {
        let (closer, (say, hear)) = (Closer::start(), channel());
        closer.drop_later(Told(say));
        let by = hear.recv_timeout(Duration::from_secs(60)).unwrap();
        assert_ne!(by, current().id());
    }
}
