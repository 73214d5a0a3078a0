//! Memory that the kernel cannot supply: an error, never a signal, and never zeros in a message.

use super::*;
use crate::link::Refusal;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap};

const PAGE: usize = 4096;
const PAGES: usize = 20;

/// Pages of which only the first ten exist: touching the others is SIGBUS for us, and EFAULT for the kernel.
///
/// They stay mapped. Pages are known as lost by their addresses, and what another test maps there later is not lost.
struct Half(*mut u8);

impl Half {
    fn new() -> Half {
        let file = memfd_create("half", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&file, (PAGES / 2 * PAGE) as u64).unwrap();
        let both = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses a free range.
        let ptr = unsafe { mmap(std::ptr::null_mut(), PAGES * PAGE, both, MapFlags::SHARED, &file, 0) }.unwrap();
        Half(ptr.cast())
    }

    fn window(&self) -> Window {
        // SAFETY: the mapping stays to the end of the process; pages that do not exist are no breach.
        unsafe { Window::new(self.0, PAGES * PAGE) }
    }
}

/// Places every body in the half that is lost.
struct Lost(Half);

// SAFETY: the mapping stays.
unsafe impl Sink for Lost {
    fn place(&mut self, _: &Head, at: u64) -> Result<Window, Refusal> {
        let at = at as usize;
        Ok(self.0.window().slice(at, PAGES * PAGE - at))
    }
    fn message(&mut self, head: &Head) {
        panic!("{head:?} is not whole");
    }
}

pub(super) fn a_body_whose_memory_is_lost_ends_the_link(fabric: &Fabric) {
    let half = Half::new();
    let (mut one, mut other) = fabric.pair();
    let mut store = Store::new();
    // SAFETY: the mapping stays.
    let sent = unsafe { one.send(&head(0, PAGES * PAGE), &[half.window()]) };
    let end = soon();
    let error = loop {
        let step = sent.clone().and_then(|()| one.progress(&mut Store::new()));
        if let Err(error) = step {
            break error;
        }
        other.progress(&mut store).unwrap();
        assert!(Instant::now() < end, "nobody noticed");
    };
    assert!(matches!(&error, LinkError::System { .. }), "{error}");
    assert_eq!(one.unsent_len(), 0);
    drop(one);
    assert!(matches!(end_of(&mut *other, &mut store), LinkError::Closed { .. }));
    assert!(store.messages.is_empty(), "half a message is none");
}

pub(super) fn a_place_whose_memory_is_lost_ends_the_link(fabric: &Fabric) {
    let mut sink = Lost(Half::new());
    let (mut one, mut other) = fabric.pair();
    let bytes = body(0, PAGES * PAGE);
    send(&mut *one, 0, &bytes).unwrap();
    let end = soon();
    let error = loop {
        one.progress(&mut Store::new()).unwrap();
        if let Err(error) = other.progress(&mut sink) {
            break error;
        }
        assert!(Instant::now() < end, "nobody noticed");
    };
    assert!(matches!(&error, LinkError::System { .. }), "{error}");
    drop((one, other));
}
