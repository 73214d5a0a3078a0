//! A thread that looks after the loops: where a turn lasts, another thread takes the loop over.
//!
//! A command may wait for a node that died, read a whole store, or move much. It holds up its own client. The others of its loop wait
//! until the second look, at most.

use crate::event_loop::EventLoop;
use std::io;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{Builder, Thread};
use std::time::Duration;

/// Time between two looks. A turn that both of them see lasts. Where one lasted, the next ones may, too.
const LOOK: Duration = Duration::from_millis(50);
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Most threads at once whose loops others took over. Further turns that last hold up their loops.
const OUSTED: usize = 64;

/// Bytes of a thread's stack.
const STACK_LEN: usize = 512 << 10;

/// The loops of a service, and the threads that serve them.
pub struct Watch {
    loops: Vec<Arc<EventLoop>>,
    /// Threads beyond one for each loop.
    ousted: AtomicUsize,
    is_asleep: AtomicBool,
    thread: OnceLock<Thread>,
}

impl Watch {
    /// Starts a thread for each loop, and the one that looks after them.
    pub fn start(loops: usize) -> io::Result<Arc<Watch>> {
        let loops = (0..loops.max(1)).map(|_| EventLoop::new().map(Arc::new)).collect::<io::Result<Vec<_>>>()?;
        let watch = Watch { loops, ousted: AtomicUsize::new(0), is_asleep: AtomicBool::new(false), thread: OnceLock::new() };
        let watch = Arc::new(watch);
        watch.loops.iter().try_for_each(|each| watch.serve(each.clone(), 0))?;
        let its = watch.clone();
        let thread = Builder::new().name("clients-watch".to_owned()).stack_size(STACK_LEN).spawn(move || its.look())?;
        let _ = watch.thread.set(thread.thread().clone());
        Ok(watch)
    }

    /// The loop with the fewest connections.
    pub fn idlest(&self) -> &EventLoop {
        self.loops.iter().min_by_key(|each| each.count()).expect("there is one at least")
    }

    /// Starts a thread that serves a loop.
    fn serve(self: &Arc<Watch>, its: Arc<EventLoop>, number: u32) -> io::Result<()> {
        let watch = self.clone();
        let work = move || {
            its.serve(number, || watch.wake());
            // Another one serves.
            watch.ousted.fetch_sub(1, Ordering::Relaxed);
        };
        Builder::new().name("clients".to_owned()).stack_size(STACK_LEN).spawn(work).map(drop)
    }

    /// Wakes the thread that looks, where it sleeps because nothing happens. A loop calls it after it has said that a turn begins.
    pub fn wake(&self) {
        if self.is_asleep.load(Ordering::SeqCst)
            && let Some(thread) = self.thread.get()
        {
            thread.unpark();
        }
    }

    fn look(self: Arc<Watch>) {
        let (mut seen, mut pause) = (vec![0; self.loops.len()], LOOK);
        loop {
            // A loop says that a turn begins, then reads this word. So one of both sees the other.
            self.is_asleep.store(true, Ordering::SeqCst);
            if self.loops.iter().all(|each| each.turn() == 0) {
                std::thread::park();
            }
            self.is_asleep.store(false, Ordering::SeqCst);
            std::thread::sleep(pause);
            pause = LOOK;
            for (each, seen) in self.loops.iter().zip(&mut seen) {
                let turn = each.turn();
                if turn != 0 && turn == *seen {
                    self.relieve(each, turn);
                    pause = LOOK_AGAIN;
                }
                *seen = turn;
            }
        }
    }

    /// Has another thread take a loop over.
    fn relieve(self: &Arc<Watch>, its: &Arc<EventLoop>, turn: u64) {
        if self.ousted.load(Ordering::Relaxed) >= OUSTED {
            tracing::warn!("{OUSTED} commands last; clients beside the next one wait for it");
            return;
        }
        // Counted before, because the first thread may leave at once.
        self.ousted.fetch_add(1, Ordering::Relaxed);
        let is_taken = its.take_over(turn, |number| self.serve(its.clone(), number)).unwrap_or_else(|error| {
            tracing::warn!("no thread for clients beside a command that lasts: {error}");
            false
        });
        if !is_taken {
            self.ousted.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
