//! The Unix socket that clients attach to.

use crate::options::SocketAccess;
use hanare_fabric::control_socket::{socket, socket_address};
use hanare_protocol::{Error, Result};
use rustix::io::Errno;
use rustix::net::SocketFlags;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// The listening socket; its file goes with it.
pub(crate) struct UnixListener {
    socket: OwnedFd,
    file: Option<PathBuf>,
}

impl UnixListener {
    /// Listens at a path or `@name`. A socket file that nobody listens at any more is replaced.
    pub fn bind(name: &str, access: SocketAccess) -> Result<UnixListener> {
        let refuse = |reason: String| Error::BadSetting { key: "the node's socket".to_owned(), value: name.to_owned(), reason };
        let file = (!name.starts_with('@')).then(|| PathBuf::from(name));
        if let Some(path) = &file {
            clear_the_way(path).map_err(refuse)?;
        }
        let listen = || -> std::io::Result<OwnedFd> {
            let listener = socket()?;
            rustix::io::ioctl_fionbio(&listener, true)?;
            rustix::net::bind(&listener, &socket_address(name)?)?;
            if let Some(path) = &file {
                let group = access.group.map(rustix::fs::Gid::from_raw);
                rustix::fs::chown(path, None, group)?;
                access.mode.map_or(Ok(()), |mode| rustix::fs::chmod(path, rustix::fs::Mode::from_raw_mode(mode)))?;
            }
            rustix::net::listen(&listener, 128)?;
            Ok(listener)
        };
        let socket = listen().map_err(|error| match Errno::from_io_error(&error) {
            Some(Errno::ADDRINUSE) => refuse("a node listens there already".to_owned()),
            _ => refuse(error.to_string()),
        })?;
        Ok(UnixListener { socket, file })
    }

    /// The next connection, if one waits.
    pub fn accept(&self) -> Result<Option<OwnedFd>, Errno> {
        match rustix::net::accept_with(&self.socket, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
            Ok(fd) => Ok(Some(fd)),
            Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for UnixListener {
    fn drop(&mut self) {
        if let Some(file) = &self.file {
            let _ = std::fs::remove_file(file);
        }
    }
}

/// Makes the folder, for this user alone, and removes a socket that a dead node left.
fn clear_the_way(path: &Path) -> Result<(), String> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty() && !folder.exists()) {
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
        made.map_err(|error| format!("make the folder {}: {error}", folder.display()))?;
    }
    let connect =
        |path: &Path| -> std::io::Result<()> { Ok(rustix::net::connect(&socket()?, &socket_address(&path.to_string_lossy())?)?) };
    match connect(path) {
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path).map_err(|error| format!("remove what a dead node left: {error}"))
        }
        _ => Ok(()),
    }
}
