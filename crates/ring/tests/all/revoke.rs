//! Every order in which a thread that works without a message and its node meet, by loom.

use hanare_ring::revoke::{REVOKE_LEN, Revoke};
use hanare_ring::{Exchange, Words};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering, fence};
use loom::thread;

const REGION: u64 = 64;
const SLOT: usize = 0;
const SHARED_SLOT: usize = hanare_memory::thread_slot::SHARED;

/// The words that one region, a slot and the shared ones have, and no others.
#[derive(Clone)]
struct Few {
    generation: Arc<AtomicU64>,
    slot: Arc<AtomicU64>,
    region: Arc<AtomicU64>,
    turn: Arc<AtomicU64>,
    shared_slots: [Arc<AtomicU64>; 2],
    /// What the node says of its barriers.
    barriers: Arc<AtomicU64>,
    /// Stands for the kernel's barrier, which is one of all threads: each light fence exchanges it, and so does the node's.
    everywhere: Arc<AtomicU64>,
    fences: Fences,
}

/// What a test switches off.
#[derive(Clone, Copy, PartialEq)]
enum Fences {
    Full,
    /// The thread's are no more than an order for the compiler, unless the kernel passes one for it.
    Light,
    /// So, and the kernel passes none.
    LightAlone,
    None,
}

impl Few {
    fn new(fences: Fences) -> Few {
        let word = || Arc::new(AtomicU64::new(0));
        let (generation, slot, region, turn) = (word(), word(), word(), word());
        Few { generation, slot, region, turn, shared_slots: [word(), word()], barriers: word(), everywhere: word(), fences }
    }

    fn at(&self, word: usize) -> Option<&AtomicU64> {
        match word {
            0 => Some(&self.barriers),
            1 => Some(&self.turn),
            8 => Some(&self.generation),
            72 => Some(&self.slot),
            73 => Some(&self.region),
            word if word == REVOKE_LEN / 8 - 16 => Some(&self.shared_slots[0]),
            word if word == REVOKE_LEN / 8 - 8 => Some(&self.shared_slots[1]),
            _ => None,
        }
    }
}

impl Words for Few {
    fn count(&self) -> usize {
        REVOKE_LEN / 8
    }

    fn load(&self, word: usize) -> u64 {
        self.at(word).map_or(0, |word| word.load(Ordering::Acquire))
    }

    fn store(&self, word: usize, value: u64) {
        if let Some(word) = self.at(word) {
            word.store(value, Ordering::Release);
        }
    }

    fn swap(&self, _: usize, _: u64) -> u64 {
        unreachable!("nothing is swapped");
    }

    fn fence(&self) {
        if self.fences != Fences::None {
            fence(Ordering::SeqCst);
        }
    }

    fn light_fence(&self) {
        match self.fences {
            Fences::Light => drop(self.everywhere.fetch_add(1, Ordering::AcqRel)),
            Fences::LightAlone => {}
            _ => self.fence(),
        }
    }

    fn heavy_fence(&self) {
        self.fence();
        if self.fences == Fences::Light {
            self.everywhere.fetch_add(1, Ordering::AcqRel);
        }
    }

    fn read(&self, _: usize, _: &mut [u8]) {
        unreachable!("rights have no bytes");
    }

    fn write(&self, _: usize, _: &[u8]) {
        unreachable!("rights have no bytes");
    }
}

impl Exchange for Few {
    fn compare_exchange(&self, word: usize, old: u64, new: u64) -> Result<u64, u64> {
        let word = self.at(word).expect("a slot");
        word.compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire)
    }
}

/// Memory that whoever may touch it has alone: loom finds two that touch it unordered.
struct Memory(UnsafeCell<u64>);

// SAFETY: that nobody else touches it meanwhile is what the test is about.
unsafe impl Sync for Memory {}
// SAFETY: as above.
unsafe impl Send for Memory {}

impl Memory {
    fn touch(&self) {
        // SAFETY: as above; loom checks.
        self.0.with_mut(|value| unsafe { *value += 1 });
    }
}

/// A thread with that many commands, while its node takes the right back.
fn meet(slot: usize, commands: usize, fences: Fences) {
    loom::model(move || {
        let words = Few::new(fences);
        let memory = Arc::new(Memory(UnsafeCell::new(0)));
        let node = Revoke::make(words.clone(), [Fences::Light, Fences::LightAlone].contains(&fences));
        let (program, bytes) = (Revoke::open(words.clone()), memory.clone());
        let thread = thread::spawn(move || {
            for _ in 0..commands {
                let slot = program.enter(slot, REGION);
                if program.generation(REGION) == 0 {
                    bytes.touch();
                }
                program.leave(slot);
            }
        });
        node.revoke(REGION);
        node.barrier();
        let mut entered = node.entered(REGION);
        if node.have_left(&mut entered) || node.have_left(&mut entered) {
            memory.touch();
        }
        thread.join().unwrap();
        assert!(node.have_left(&mut entered));
        memory.touch();
    });
}

#[test]
fn the_node_never_meets_a_thread_that_began_before() {
    meet(SLOT, 2, Fences::Full);
}

#[test]
fn at_the_shared_slots_it_is_the_same() {
    meet(SHARED_SLOT, 2, Fences::Full);
}

#[test]
fn the_kernels_barrier_stands_for_the_fences_of_threads() {
    meet(SLOT, 2, Fences::Light);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn without_the_kernels_barrier_it_does_not() {
    meet(SLOT, 1, Fences::LightAlone);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn without_barriers_they_meet() {
    meet(SLOT, 1, Fences::None);
}

/// Each with memory of its own; the node sends who comes to the other slot while it waits.
#[test]
fn both_of_two_threads_at_the_shared_slots_are_waited_for() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let (words, memory) = (Few::new(Fences::Full), [0, 1].map(|_| Arc::new(Memory(UnsafeCell::new(0)))));
        let threads = memory.clone().map(|bytes| {
            let program = Revoke::open(words.clone());
            thread::spawn(move || {
                let slot = program.enter(SHARED_SLOT, REGION);
                if program.generation(REGION) == 0 {
                    bytes.touch();
                }
                program.leave(slot);
            })
        });
        let node = Revoke::make(words.clone(), false);
        node.revoke(REGION);
        node.barrier();
        let mut entered = node.entered(REGION);
        if (0..3).any(|_| node.have_left(&mut entered)) {
            memory.iter().for_each(|bytes| bytes.touch());
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(node.have_left(&mut entered));
    });
}
