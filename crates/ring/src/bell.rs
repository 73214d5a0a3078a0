//! A doorbell: tells a sleeping process that something arrived, and costs no system call while it is awake.
//!
//! The side that waits sets a flag in shared memory, looks once more whether something has arrived, and parks. The
//! other side, after making something visible, takes the flag; only if it was set does it wake the sleeper.
//!
//! ```text
//! waiter:  flag = 1; fence; look; park           sender:  make visible; fence; if flag { flag = 0; wake }
//! ```
//!
//! Either the waiter's look sees what was made visible, or the sender sees the flag: never neither.
//!
//! Safety invariant of this module: the futex word is the low half of a doorbell's first word, in a window that
//! stays mapped.

use crate::words::{Shared, Words};
use hanare_memory::Window;
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::io::Errno;
use rustix::thread::futex;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::AtomicU32;

const FLAG_WORD: usize = 0;
const AWAKE: u64 = 0;
const ASLEEP: u64 = 1;

/// Whether the flag protocol calls for a wake; the part of a doorbell that model checkers see.
#[derive(Clone, Copy, Debug)]
pub struct Flag<W> {
    words: W,
}

impl<W: Words> Flag<W> {
    /// The flag in the first word of `words`.
    pub fn new(words: W) -> Flag<W> {
        Flag { words }
    }

    /// Waiter: announces sleep. The caller looks once more for what it waits for before it parks.
    pub fn doze(&self) {
        self.words.swap(FLAG_WORD, ASLEEP);
        // ORDERING: pairs with the fence in `ring`: the flag is visible before the caller's next look is made.
        self.words.fence();
    }

    /// Waiter: is awake again (or did not park).
    pub fn rouse(&self) {
        self.words.store(FLAG_WORD, AWAKE);
    }

    /// Sender: says whether the other side sleeps and has to be woken; what was stored before is visible to its look.
    #[inline]
    pub fn ring(&self) -> bool {
        // ORDERING: pairs with the fence in `doze`.
        self.words.fence();
        self.words.load(FLAG_WORD) != AWAKE && self.words.swap(FLAG_WORD, AWAKE) != AWAKE
    }
}

/// What wakes the sleeper.
#[derive(Debug)]
enum Wake {
    /// The flag's own word, as a futex shared between processes.
    Futex(Window),
    /// An event descriptor that both processes hold.
    Event(OwnedFd),
}

/// A doorbell in [`crate::layout::BELL_LEN`] bytes of shared memory. Either side has its own `Doorbell` over the same bytes.
#[derive(Debug)]
pub struct Doorbell {
    flag: Flag<Shared>,
    wake: Wake,
}

impl Doorbell {
    /// A doorbell whose sleeper parks on a futex: for a thread that waits for nothing else.
    pub fn futex(window: Window) -> Doorbell {
        Doorbell { flag: Flag::new(Shared::new(window)), wake: Wake::Futex(window) }
    }

    /// A doorbell whose sleeper parks on an event descriptor, alone or among others.
    pub fn event(window: Window, event: OwnedFd) -> Doorbell {
        Doorbell { flag: Flag::new(Shared::new(window)), wake: Wake::Event(event) }
    }

    /// A fresh event descriptor for [`Doorbell::event`]; the peer gets a duplicate of it.
    pub fn make_event() -> std::io::Result<OwnedFd> {
        Ok(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)
    }

    /// Sender: wakes the other side if it sleeps.
    ///
    /// **Cost**: a fence and one shared word read while the other side is awake; a system call only when it sleeps.
    #[inline]
    pub fn ring(&self) -> std::io::Result<()> {
        if self.flag.ring() { self.wake() } else { Ok(()) }
    }

    #[cold]
    fn wake(&self) -> std::io::Result<()> {
        match &self.wake {
            Wake::Futex(window) => futex::wake(futex_word(window), futex::Flags::empty(), 1).map(drop)?,
            // A full counter is a bell that was rung already.
            Wake::Event(event) => match rustix::io::write(event, &1u64.to_ne_bytes()) {
                Ok(_) | Err(Errno::AGAIN) => {}
                Err(errno) => return Err(errno.into()),
            },
        }
        Ok(())
    }

    /// Waiter: announces sleep. The caller looks once more for what it waits for before it parks, and calls
    /// [`Doorbell::rouse`] in any case afterwards.
    pub fn doze(&self) {
        self.flag.doze();
    }

    /// Waiter: is awake again; an event that was signalled meanwhile is taken.
    pub fn rouse(&self) {
        self.flag.rouse();
        if let Wake::Event(event) = &self.wake {
            let _ = rustix::io::read(event, &mut [0; 8]);
        }
    }

    /// Waiter: the descriptor that becomes readable when the bell rings; `None` for a futex.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match &self.wake {
            Wake::Futex(_) => None,
            Wake::Event(event) => Some(event.as_fd()),
        }
    }

    /// Waiter: parks until the bell rings or `timeout` passes; may return early. Call [`Doorbell::doze`] and look first.
    pub fn sleep(&self, timeout: Option<std::time::Duration>) -> std::io::Result<()> {
        let timeout = timeout.map(|time| Timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos()) });
        let slept = match &self.wake {
            Wake::Futex(window) => {
                futex::wait(futex_word(window), futex::Flags::empty(), ASLEEP as u32, timeout.as_ref()).map(drop)
            }
            Wake::Event(event) => {
                let mut polled = [rustix::event::PollFd::new(event, rustix::event::PollFlags::IN)];
                rustix::event::poll(&mut polled, timeout.as_ref()).map(drop)
            }
        };
        match slept {
            // Rung between the look and the park, out of time, or a signal: the caller looks again.
            Ok(()) | Err(Errno::AGAIN | Errno::TIMEDOUT | Errno::INTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }
}

fn futex_word(window: &Window) -> &AtomicU32 {
    let word = window.slice(FLAG_WORD, 8);
    // SAFETY: the low half of an aligned word in a window that stays mapped; words are little-endian (layout).
    unsafe { AtomicU32::from_ptr(word.ptr().cast()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::BELL_LEN;
    use std::time::Duration;

    fn line() -> (Vec<u64>, Window) {
        let mut memory = vec![0u64; BELL_LEN / 8];
        // SAFETY: the tests keep the memory as long as the window, and use it through the window only.
        let window = unsafe { Window::new(memory.as_mut_ptr().cast(), BELL_LEN) };
        (memory, window)
    }

    fn wakes_a_sleeper(waiter: &Doorbell, sender: Doorbell) {
        waiter.doze();
        let ringing = std::thread::spawn(move || sender.ring().unwrap());
        waiter.sleep(Some(Duration::from_secs(30))).unwrap();
        ringing.join().unwrap();
        waiter.rouse();
        assert!(!waiter.flag.ring(), "nobody sleeps any more");
    }

    #[test]
    fn a_futex_bell_wakes_a_sleeper() {
        let (_memory, window) = line();
        wakes_a_sleeper(&Doorbell::futex(window), Doorbell::futex(window));
    }

    #[test]
    fn an_event_bell_wakes_a_sleeper_and_is_silent_while_it_is_awake() {
        let (_memory, window) = line();
        let event = Doorbell::make_event().unwrap();
        let waiter = Doorbell::event(window, event.try_clone().unwrap());
        let sender = Doorbell::event(window, event.try_clone().unwrap());
        sender.ring().unwrap();
        assert!(rustix::io::read(&event, &mut [0; 8]).is_err(), "no system call for a side that is awake");
        wakes_a_sleeper(&waiter, sender);
        assert!(rustix::io::read(&event, &mut [0; 8]).is_err(), "waking took the event");
    }

    #[test]
    fn a_bell_that_does_not_ring_lets_sleep_until_the_time_is_over() {
        let (_memory, window) = line();
        let bell = Doorbell::futex(window);
        bell.doze();
        bell.sleep(Some(Duration::from_millis(1))).unwrap();
        bell.rouse();
    }
}
