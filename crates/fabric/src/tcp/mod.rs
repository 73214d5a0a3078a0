//! Links between any two machines: a TCP connection, greeted, proved by both sides, and sealed where it leaves the host.
//!
//! | module | holds |
//! |---|---|
//! | `socket` | the two system calls, and the options of a connection |
//! | `connect` | the side that begins |
//! | `listen` | the side that waits: accept, then greet step by step |
//! | `proof` | the secret of both hellos |
//! | `handshake` | both sides prove that they have it, and get the keys of later records |
//! | `seal_keys` | the keys of both directions |
//! | `seal` | records |
//! | `channel` | the stream of a greeted connection, sealed or not |
//! | `path` | which connections are sealed |
//! | `handover` | a greeted connection that another process goes on with |
//! | `exact` | sending and receiving a known length before a deadline |

mod channel;
mod connect;
pub(crate) mod exact;
mod handover;
mod handshake;
mod listen;
mod path;
mod proof;
mod seal;
mod seal_keys;
mod socket;

pub use channel::Channel;
#[cfg(any(test, fuzzing))]
pub(crate) use channel::sealed_pair;
#[cfg(test)]
pub(crate) use channel::{Cover, covered_pair};
pub use connect::{connect, reach};
pub use handover::GreetedParts;
pub use listen::{Incoming, Listener, Step};
pub use proof::{Keys, PoolKeys};
pub(crate) use seal_keys::{SealKeys, TAG_LEN};
pub use socket::Socket;

use crate::stream::StreamLink;
use hanare_protocol::id::User;
use hanare_protocol::versions::Versions;
use hanare_protocol::wire::greeting::{HELLO_LEN, Hello, Role, SECRET_LEN, Sealing};
use std::io;
use std::time::Duration;

/// A link over TCP.
pub type TcpLink = StreamLink<Channel>;

/// Both hellos, the connector's first. A secret belongs to one such pair.
pub type Hellos = [u8; 2 * HELLO_LEN];

/// Secret of the two sides of one pair of hellos, and of holders of the key of the connector's kind.
pub type Secret = [u8; SECRET_LEN];

/// A connector's terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Purpose of the connection.
    pub role: Role,
    /// Its id, as far as it has one.
    pub from: u64,
    /// The client that it is, and 0 for a node.
    pub client: u64,
    /// The client's user, as its node says.
    pub user: User,
    /// Its reason to do without sealing.
    pub sealing: Sealing,
    /// Versions of the wire that it speaks.
    pub versions: Versions,
}

/// A connection on which both sides know each other.
pub struct Greeted {
    /// The link, ready for messages.
    pub link: TcpLink,
    /// The other side's hello.
    pub hello: Hello,
    /// The version of the wire that both speak.
    pub spoken: u32,
}

impl Greeted {
    /// Makes the kernel discard unsent bytes when the connection is closed or this process dies. The kernel waits for an acknowledgement no
    /// longer than `bound`. For a side that sends requests and may give them up.
    pub fn end_by_reset(&mut self, bound: Duration) -> hanare_protocol::Result<()> {
        let failed =
            |error: io::Error| hanare_protocol::Error::System { what: "set up a connection".into(), reason: error.to_string() };
        self.link.stream_mut().end_by_reset(bound).map_err(failed)
    }
}

/// The version of the wire that both sides speak.
fn spoken(ours: &Hello, theirs: &Hello, peer: &str) -> hanare_protocol::Result<u32> {
    let (ours, theirs) = (ours.versions, theirs.versions);
    let mismatch = || hanare_protocol::Error::VersionMismatch { peer: peer.to_owned(), ours, theirs };
    ours.spoken_with(theirs).ok_or_else(mismatch)
}

fn join(connector: &[u8; HELLO_LEN], acceptor: &[u8; HELLO_LEN]) -> Hellos {
    let mut hellos = [0; 2 * HELLO_LEN];
    hellos[..HELLO_LEN].copy_from_slice(connector);
    hellos[HELLO_LEN..].copy_from_slice(acceptor);
    hellos
}

/// Fresh random bytes from the kernel.
pub(crate) fn random<const LEN: usize>() -> hanare_protocol::Result<[u8; LEN]> {
    let mut bytes = [0; LEN];
    let len = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
        .map_err(|errno| hanare_protocol::Error::System { what: "random bytes".into(), reason: errno.to_string() })?;
    // Up to 256 bytes come whole once the kernel's generator is seeded, and the call waits for that.
    assert_eq!(len, bytes.len(), "the kernel gave fewer random bytes than asked");
    Ok(bytes)
}
