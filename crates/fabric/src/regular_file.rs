//! Files that are opened by name, where others may have put something else. A pipe would hold the opener, and a device do more.

use rustix::fs::OFlags;
use std::fs::{File, OpenOptions};
use std::io::{Error, Result};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Mode of a file that only its owner reads.
pub const OWN_MODE: u32 = 0o600;

/// The last part of the path may be a link: its owner is checked by who opens the file.
pub const FOLLOWS_LINKS: OFlags = OFlags::empty();

/// Opens a regular file at once. A file that this makes is of mode [`OWN_MODE`].
///
/// **Errors**: the system's. One that says so if the path leads to a pipe, a socket, a device or a folder.
pub fn open(path: &Path, how: &mut OpenOptions, flags: OFlags) -> Result<File> {
    let flags = flags | OFlags::NONBLOCK | OFlags::NOCTTY;
    let opened = how.mode(OWN_MODE).custom_flags(flags.bits() as i32).open(path);
    // A pipe without a reader, and a socket.
    let is_none = |error: &Error| error.raw_os_error() == Some(libc::ENXIO);
    match opened {
        Ok(file) if file.metadata()?.is_file() => Ok(file),
        Err(error) if !is_none(&error) => Err(error),
        _ => Err(Error::other("it is no regular file; somebody has put a pipe, a folder or a device there")),
    }
}
