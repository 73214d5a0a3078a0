//! Short turns on the processor, for threads that wait for each other.
//!
//! Linux charges a yield with a whole turn, which has 3 ms where a thread asked for nothing else. Two threads that share a processor and
//! wait for each other by yields need turns of one length. Otherwise the one with short turns yields some thirty times before the other
//! runs.

use std::sync::atomic::{AtomicBool, Ordering};

/// Length of a turn that is asked for: the shortest that the kernel gives. It answers some ten requests.
const TURN_NS: u64 = 100_000;

/// Kernel's policy for threads that have none of their own.
const SCHED_OTHER: u32 = libc::SCHED_OTHER as u32;

/// Asks the kernel for short turns on the processor soon, in place of long ones later. The thread `thread` of this process, 0 for the
/// caller, waits for others, or others wait for it. Its share, niceness and policy stay the same. Threads with another policy than the
/// usual one are left alone. The call needs no privilege; kernels before 6.12 ignore it. A signal handler may call it.
///
/// **Cost**: a system call, and a second one the first time in a thread.
///
/// Measured beside 500 busy threads on 2 cores. A round trip of two threads that both do so takes a fiftieth of the time.
pub fn shorten_turns(thread: u32) {
    static IGNORED: AtomicBool = AtomicBool::new(false);
    if IGNORED.load(Ordering::Relaxed) {
        return;
    }
    let Some(before) = turns(thread).filter(|before| before.policy == SCHED_OTHER && before.runtime_ns != TURN_NS) else {
        return;
    };
    shorten(thread, before);
    if turns(thread).is_some_and(|after| after.runtime_ns != TURN_NS) {
        IGNORED.store(true, Ordering::Relaxed);
    }
}

/// A thread's turns.
fn turns(thread: u32) -> Option<Attributes> {
    let mut attributes = Attributes::default();
    // SAFETY: the kernel writes at most the given number of bytes.
    let done = unsafe { libc::syscall(libc::SYS_sched_getattr, thread, &raw mut attributes, size_of::<Attributes>(), 0) };
    (done == 0).then_some(attributes)
}

/// Leaves everything but the length of its turns as it is.
fn shorten(thread: u32, turns: Attributes) {
    let attributes = Attributes { size: size_of::<Attributes>() as u32, runtime_ns: TURN_NS, ..turns };
    // SAFETY: the kernel reads `size` bytes of a structure that lives for the call. Where it refuses, the thread is as it was.
    unsafe { libc::syscall(libc::SYS_sched_setattr, thread, &raw const attributes, 0) };
}

/// `struct sched_attr`, of the length that all kernels know.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime_ns: u64,
    deadline_ns: u64,
    period_ns: u64,
}

const _: () = assert!(size_of::<Attributes>() == 48);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_length_of_turns_changes() {
        std::thread::spawn(|| {
            // SAFETY: changes the niceness of this thread, which ends soon.
            assert_eq!(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 7) }, 0);
            let before = turns(0).unwrap();
            shorten_turns(0);
            shorten_turns(0);
            let after = turns(0).unwrap();
            assert_eq!(after.nice, 7);
            assert_eq!(Attributes { runtime_ns: before.runtime_ns, ..after }, before);
            if before.runtime_ns == 0 {
                eprintln!("this kernel knows no lengths of turns");
            } else {
                assert_eq!(after.runtime_ns, TURN_NS);
            }
        })
        .join()
        .unwrap();
    }

    #[test]
    fn another_policy_is_left_alone() {
        std::thread::spawn(|| {
            let attributes = Attributes { size: 48, policy: libc::SCHED_BATCH as u32, ..Attributes::default() };
            // SAFETY: the kernel reads `size` bytes of a structure that lives for the call.
            assert_eq!(unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) }, 0);
            let before = turns(0).unwrap();
            shorten_turns(0);
            assert_eq!(turns(0).unwrap(), before);
        })
        .join()
        .unwrap();
    }
}
