//! Options of a node, and the checks that refuse them at once.

use super::persistence::Persist;
use hanare_fabric::settings;
use hanare_memory::file::Huge;
use hanare_memory::{HostTerms, Source};
use hanare_protocol::versions::Versions;
use hanare_protocol::wire::greeting::Sealing;
use hanare_protocol::{Error, Result};
use std::net::SocketAddr;
use std::num::NonZero;
use std::path::PathBuf;

/// Users besides the node's that may connect to its socket file. A region's mode says what each may do with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SocketAccess {
    /// The file's mode bits; `None` leaves them to the umask.
    pub mode: Option<u32>,
    /// The file's group.
    pub group: Option<u32>,
}

/// Options of a node.
#[derive(Clone, Debug)]
pub struct NodeOptions {
    /// Bytes to lend; 0 for a node that has its part in the pool without memory.
    pub memory: u64,
    /// The memory that is lent.
    pub source: Source,
    /// `host:port` to listen at; port 0 lets the system choose.
    pub listen: String,
    /// `host:port` told to others; `None` for the listening address, with the host's name where that is every address.
    pub advertise: Option<String>,
    /// The coordinator's address; `None` makes this node the coordinator.
    pub join: Option<String>,
    /// The addresses of the keepers, which hold the coordinator's journal together; none where the coordinator alone has it. A node is one of
    /// them if its own address is in the list. Others join the pool by them.
    pub keepers: Vec<String>,
    /// File with the pool's key; `None` for [`super::default_key_file`], which a coordinator draws where it is not there.
    pub key: Option<PathBuf>,
    /// The connections to seal.
    pub sealing: Sealing,
    /// Versions of the wire that it speaks.
    pub versions: Versions,
    /// Its name in listings.
    pub name: String,
    /// The number that it would have in the pool that it joins; `None` for the next one. One that another node has is not given.
    pub number: Option<u32>,
    /// Address for clients: a path, or `@name`.
    pub socket: String,
    /// The coordinator's journal, or this keeper's part of it; names end with the process where there is `None`.
    pub journal: Option<PathBuf>,
    /// The journal of the coordinator that this node may have been, before it was a keeper.
    pub former_journal: Option<FormerJournal>,
    /// Folder for its extents at a good end, read at its start; `None` lets them go with the process.
    pub persist: Option<Persist>,
    /// Use of huge pages.
    pub huge: Huge,
    /// Bytes of the lent memory that are taken from the machine at the start. The rest comes as regions are made.
    pub ahead: u64,
    /// Folder where this user's nodes on this host tell each other of the memory that they may take. `None` leaves this one out.
    pub promises: Option<PathBuf>,
    /// Memory that stays free for others on this host: beyond it the node lends less, and gives memory back.
    pub host: HostTerms,
    /// Bytes a second that go to copies that are made, as by a drain; `None` for no bound.
    pub copy_rate: Option<NonZero<u64>>,
    /// Threads that move the bytes of its links.
    pub threads: NonZero<usize>,
    /// Users besides its own that may connect to the socket.
    pub access: SocketAccess,
    /// Bytes of regions that one user may own (coordinator).
    pub quota: Option<u64>,
    /// Bytes of main memory for pages of other nodes, of all mapped regions together, before some are given back.
    pub frames: u64,
}

/// The journal of a coordinator that was alone.
#[derive(Clone, Debug)]
pub struct FormerJournal {
    /// Its file, which may be none.
    pub path: PathBuf,
    /// True if the keepers' log is to begin with it. Else no empty log begins beside it.
    pub is_wanted: bool,
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
            source: Source::default(),
            ahead: memory,
            promises: None,
            host: HostTerms { keep_free: settings::keep_free()?, told: None },
            copy_rate: settings::copy_rate(settings::size("HANARE_COPY_RATE", None)?.unwrap_or(0))?,
            threads: settings::node_threads()?,
            access: SocketAccess::default(),
            listen: "127.0.0.1:0".to_owned(),
            advertise: settings::text("HANARE_ADVERTISE"),
            join: None,
            keepers: Vec::new(),
            key: settings::text("HANARE_KEY").map(PathBuf::from),
            sealing: sealing()?,
            versions: settings::versions()?,
            name: host_name(),
            number: None,
            socket: settings::node_socket(),
            journal: None,
            former_journal: None,
            persist: None,
            huge,
            quota: settings::size("HANARE_QUOTA", None)?,
            frames: settings::frames_len()?,
        })
    }

    /// Address told to others for a node that listens at `bound`.
    pub(crate) fn advertised(&self, bound: SocketAddr) -> String {
        match &self.advertise {
            Some(address) => address.clone(),
            None if bound.ip().is_unspecified() => format!("{}:{}", host_name(), bound.port()),
            None => bound.to_string(),
        }
    }
}

/// The connections to seal.
fn sealing() -> Result<Sealing> {
    match settings::text("HANARE_SEAL").as_deref() {
        None | Some("auto") => Ok(Sealing::Auto),
        Some("always") => Ok(Sealing::Always),
        Some("plain") => Ok(Sealing::Plain),
        Some(other) => Err(Error::BadSetting {
            key: "HANARE_SEAL".to_owned(),
            value: other.to_owned(),
            reason: "it must be auto, always or plain".to_owned(),
        }),
    }
}

fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

fn bad(key: &str, value: &str, reason: &str) -> Error {
    Error::BadSetting { key: key.to_owned(), value: value.to_owned(), reason: format!("it must be {reason}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_listens_everywhere_is_reached_by_its_hosts_name() {
        let mut options = NodeOptions { advertise: None, ..NodeOptions::new(1 << 20).unwrap() };
        assert_eq!(options.advertised("127.0.0.1:7".parse().unwrap()), "127.0.0.1:7");
        assert_eq!(options.advertised("0.0.0.0:7".parse().unwrap()), format!("{}:7", host_name()));
        options.advertise = Some("a.example:9".to_owned());
        assert_eq!(options.advertised("0.0.0.0:7".parse().unwrap()), "a.example:9");
    }
}
