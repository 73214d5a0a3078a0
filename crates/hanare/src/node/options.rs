//! How a node is started, and what is refused at once.

use crate::settings;
use hanare_memory::file::Huge;
use hanare_memory::uffd::Features;
use hanare_protocol::{Error, Result};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};

/// How a node is started.
#[derive(Clone, Debug)]
pub struct NodeOptions {
    /// Bytes to lend.
    pub memory: u64,
    /// `host:port` to listen at; port 0 lets the system choose. Other hosts than this one need a key.
    pub listen: String,
    /// `host:port` told to others; `None` for the listening address, with the host's name where that is every address.
    pub advertise: Option<String>,
    /// The coordinator's address; `None` makes this node the coordinator.
    pub join: Option<String>,
    /// File with the pool's key.
    pub key: Option<PathBuf>,
    /// Its name in listings.
    pub name: String,
    /// The number that it would have in the pool that it joins; `None` for the next one. One that another node has is not given.
    pub number: Option<u32>,
    /// Where clients attach: a path, or `@name`.
    pub socket: String,
    /// The coordinator's journal; `None` keeps it in memory, so that names end with the process.
    pub journal: Option<PathBuf>,
    /// Whether huge pages are tried.
    pub huge: Huge,
    /// Bytes of regions that one user may own (coordinator).
    pub quota: Option<u64>,
    /// Bytes of main memory for the pages of one mapped region that lie on other nodes, before some are given back.
    pub frames: u64,
}

impl NodeOptions {
    /// A coordinator on loopback that lends so many bytes, its other settings from the environment.
    pub fn new(memory: u64) -> Result<NodeOptions> {
        let huge = match settings::text("HANARE_HUGE").as_deref() {
            None | Some("auto") => Huge::Auto,
            Some("never") => Huge::Never,
            Some(other) => return Err(bad("HANARE_HUGE", other, "auto or never")),
        };
        Ok(NodeOptions {
            memory,
            listen: "127.0.0.1:0".to_owned(),
            advertise: settings::text("HANARE_ADVERTISE"),
            join: None,
            key: settings::text("HANARE_KEY").map(PathBuf::from),
            name: host_name(),
            number: None,
            socket: settings::node_socket(),
            journal: None,
            huge,
            quota: settings::size("HANARE_QUOTA", None)?,
            frames: settings::frames_len()?,
        })
    }

    /// Whether programs of this host may have its memory in their mappings as it is. Where this process may not even ask, theirs
    /// might: then not.
    pub(crate) fn maps_own() -> Result<bool> {
        match settings::userfaultfd() {
            Ok(features) => Ok(features.contains(Features::CONTINUE_PROTECTED)),
            Err(error @ Error::BadSetting { .. }) => Err(error),
            Err(_) => Ok(false),
        }
    }

    /// Where others are told to reach a node that listens at `bound`.
    pub(crate) fn advertised(&self, bound: SocketAddr) -> String {
        match &self.advertise {
            Some(address) => address.clone(),
            None if bound.ip().is_unspecified() => format!("{}:{}", host_name(), bound.port()),
            None => bound.to_string(),
        }
    }

    /// The pool's key, if one is set: a hash of the file's bytes. Refuses an address beyond loopback without a key.
    pub(crate) fn pool_key(&self) -> Result<Option<[u8; 32]>> {
        let key = self.key.as_deref().map(read_key).transpose()?;
        if key.is_none() && !is_loopback(&self.listen) {
            return Err(bad(
                "--listen",
                &self.listen,
                "an address of this host alone (127.0.0.1, ::1), unless --key FILE gives the pool's key",
            ));
        }
        Ok(key)
    }
}

fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Whether every address of the name is of this host alone.
fn is_loopback(address: &str) -> bool {
    match address.to_socket_addrs() {
        Ok(mut addresses) => addresses.all(|address| address.ip().is_loopback()),
        Err(_) => false,
    }
}

/// Reads a key file; refuses one that others may read, or that is too short to be a secret.
fn read_key(path: &Path) -> Result<[u8; 32]> {
    use std::os::unix::fs::PermissionsExt;
    let text = path.to_string_lossy();
    let refuse =
        |reason: &str| Error::BadSetting { key: "--key".to_owned(), value: text.clone().into_owned(), reason: reason.to_owned() };
    let permissions = std::fs::metadata(path).map_err(|error| refuse(&error.to_string()))?.permissions();
    if permissions.mode() & 0o077 != 0 {
        return Err(refuse("others may read it; make it mode 0600"));
    }
    let bytes = std::fs::read(path).map_err(|error| refuse(&error.to_string()))?;
    if bytes.len() < 16 {
        return Err(refuse("a key has at least 16 bytes; make one with `head -c 32 /dev/urandom > FILE`"));
    }
    Ok(*blake3::hash(&bytes).as_bytes())
}

fn bad(key: &str, value: &str, reason: &str) -> Error {
    Error::BadSetting { key: key.to_owned(), value: value.to_owned(), reason: format!("it must be {reason}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn an_address_beyond_this_host_needs_a_key() {
        let mut options = NodeOptions::new(1 << 20).unwrap();
        options.key = None;
        assert!(options.pool_key().is_ok());
        options.listen = "0.0.0.0:0".to_owned();
        assert!(options.pool_key().unwrap_err().to_string().contains("--key"));
    }

    #[test]
    fn a_node_that_listens_everywhere_is_reached_by_its_hosts_name() {
        let mut options = NodeOptions { advertise: None, ..NodeOptions::new(1 << 20).unwrap() };
        assert_eq!(options.advertised("127.0.0.1:7".parse().unwrap()), "127.0.0.1:7");
        assert_eq!(options.advertised("0.0.0.0:7".parse().unwrap()), format!("{}:7", host_name()));
        options.advertise = Some("a.example:9".to_owned());
        assert_eq!(options.advertised("0.0.0.0:7".parse().unwrap()), "a.example:9");
    }

    #[test]
    fn a_key_that_others_may_read_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        std::fs::write(&path, [7; 32]).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
        assert!(read_key(&path).unwrap_err().to_string().contains("0600"));
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
        assert!(read_key(&path).is_ok());
        std::fs::write(&path, [7; 3]).unwrap();
        assert!(read_key(&path).unwrap_err().to_string().contains("16 bytes"));
    }
}
