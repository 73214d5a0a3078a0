//! Programs that wait for a lock on a file.

use super::Files;
use super::record::{Claim, Ino};
use fuser::{Errno as Code, ReplyEmpty};
use rustix::io::Errno;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Most that wait at once in one mount, each with a thread.
const WAITING_COUNT: usize = 1024;

/// Time between tries of a lock: short at first, because most are held for a moment.
const TRY_FIRST: Duration = Duration::from_millis(2);
const TRY_LAST: Duration = Duration::from_millis(100);

/// Answers when the lock is taken, when a signal waits for the caller, or when the lock cannot be had.
pub fn wait_for_lock(files: &Arc<Files>, ino: Ino, claim: Claim, reply: ReplyEmpty) {
    static WAITING: AtomicUsize = AtomicUsize::new(0);
    if WAITING.fetch_add(1, Ordering::Relaxed) >= WAITING_COUNT {
        WAITING.fetch_sub(1, Ordering::Relaxed);
        return reply.error(Code::ENOLCK);
    }
    let files = files.clone();
    let wait = move || {
        let mut pause = TRY_FIRST;
        let done = loop {
            std::thread::sleep(pause);
            pause = (pause * 2).min(TRY_LAST);
            match files.lock(ino, claim) {
                Err(Errno::AGAIN) if has_signal(claim.pid) => break Err(Errno::INTR),
                Err(Errno::AGAIN) => {}
                done => break done,
            }
        };
        WAITING.fetch_sub(1, Ordering::Relaxed);
        match done {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(Code::from_i32(error.raw_os_error())),
        }
    };
    if std::thread::Builder::new().name("lock".to_owned()).spawn(wait).is_err() {
        // The closure, and with it the answer, is gone: the library answers EIO for it.
        WAITING.fetch_sub(1, Ordering::Relaxed);
    }
}

/// True if a signal waits on which the process would act, or if it is gone. A request under way hides that from it.
fn has_signal(pid: u32) -> bool {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return true };
    threads.flatten().any(|thread| {
        let status = std::fs::read_to_string(thread.path().join("status")).unwrap_or_default();
        let set = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok()).unwrap_or(0)
        };
        (set("SigPnd:") | set("ShdPnd:")) & !(set("SigBlk:") | set("SigIgn:")) != 0
    })
}
