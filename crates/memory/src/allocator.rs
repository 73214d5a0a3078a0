//! The process's allocator, in a process that receives and sends long messages all the time.

/// Most free bytes at the end of a thread's heap that stay for what comes next.
#[cfg(target_env = "gnu")]
const KEPT_BYTES: libc::c_int = 16 << 20;

/// Shorter blocks come from heaps.
#[cfg(target_env = "gnu")]
const MAPPED_LEN: libc::c_int = 4 << 20;

/// From here on freed memory stays with the process, up to some MiB for each thread. Otherwise glibc gives a long message's buffer back to the
/// kernel, and gets new pages for the next one. Programs that embed a node decide about their allocator themselves; other C libraries have no
/// such setting.
///
/// Measured: a put of 1 MiB to two copies takes three quarters of the nodes' processor time.
pub fn keep_freed_memory() {
    #[cfg(target_env = "gnu")]
    for (parameter, value) in [(libc::M_TRIM_THRESHOLD, KEPT_BYTES), (libc::M_MMAP_THRESHOLD, MAPPED_LEN)] {
        // SAFETY: the call takes two numbers, and the allocator locks what it changes.
        let is_set = unsafe { libc::mallopt(parameter, value) };
        debug_assert_eq!(is_set, 1, "these are values of these parameters");
    }
}
