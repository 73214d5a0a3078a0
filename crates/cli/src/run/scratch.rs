//! A folder for the shared memory of a launch's UCX, so that nothing of it stays.
//!
//! UCX makes a file and takes its name away in two steps; a process that is killed between them leaves the file behind.

use anyhow::{Context, Result};
use std::ffi::OsStr;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// Setting by which UCX names the folder.
const VARIABLE: &str = "UCX_POSIX_DIR";
/// First part of the names of launches' folders; the rest is drawn.
const BEGINNING: &str = "/dev/shm/hanare-ucx-";

/// The folder; dropping it removes it with all that is in it.
pub struct Scratch(PathBuf);

impl Scratch {
    /// Makes one for the processes of a launch, where `fabric` is UCX and the user has named no folder.
    pub fn make(fabric: Option<&OsStr>) -> Result<Option<Scratch>> {
        if fabric != Some(OsStr::new("ucx")) || std::env::var_os(VARIABLE).is_some() {
            return Ok(None);
        }
        let path = PathBuf::from(format!("{BEGINNING}{:016x}", rand::random::<u64>()));
        DirBuilder::new().mode(0o700).create(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Some(Scratch(path)))
    }

    /// The one that this launch's guard has made: the guard may be killed before it can remove it.
    pub fn of_guard() -> Option<Scratch> {
        let path = std::env::var_os(VARIABLE).filter(|path| path.to_string_lossy().starts_with(BEGINNING));
        path.map(|path| Scratch(PathBuf::from(path)))
    }

    /// The variable that names it.
    pub fn variable(&self) -> (&'static str, &Path) {
        (VARIABLE, &self.0)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // The other of guard and launcher may have done it.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_in_the_folder_goes_with_it() {
        assert!(Scratch::make(None).unwrap().is_none() && Scratch::make(Some(OsStr::new("tcp"))).unwrap().is_none());
        let Some(scratch) = Scratch::make(Some(OsStr::new("ucx"))).unwrap() else { return };
        let path = scratch.variable().1.to_owned();
        std::fs::write(path.join("ucx_shm_posix_1"), [0; 100]).unwrap();
        drop(scratch);
        assert!(!path.exists());
    }
}
