//! Fuzz targets: what a mount finds in a file system's log.
#![allow(missing_docs, reason = "a target's name says what it feeds")]

use crate::files;

/// A target's name, and what tries its input.
type FuzzTarget = (&'static str, fn(&[u8]));

/// All of them, by name.
pub const TARGETS: &[FuzzTarget] = &[("files", files::fuzz_log)];

#[cfg(test)]
mod tests {
    use super::*;
    use hanare_fuzz::{Counting, drive};

    #[global_allocator]
    static COUNTING: Counting = Counting;

    #[test]
    fn what_is_in_a_log_of_files() {
        drive("files", &files::fuzz_seeds(), 16 << 20, files::fuzz_log);
    }
}
