//! Links between any two machines: a TCP connection, greeted and proved.
//!
//! | module | holds |
//! |---|---|
//! | `socket` | the two system calls, and the options of a connection |
//! | `connect` | the side that begins |
//! | `listen` | the side that waits: accept, then greet in a thread of its own |
//! | `proof` | the keyed hash over both hellos |
//! | `exact` | sending and receiving a known length before a deadline |

mod connect;
pub(crate) mod exact;
mod listen;
mod proof;
mod socket;

pub use connect::connect;
pub use listen::{Incoming, Listener};
pub use proof::Keys;
pub use socket::Socket;

use crate::stream::StreamLink;
use hanare_protocol::wire::greeting::{HELLO_LEN, Hello, PROOF_LEN, Role};
use std::io;
use std::time::Duration;

/// A link over TCP.
pub type TcpLink = StreamLink<Socket>;

/// Both hellos, the connector's first: what a proof is made over.
pub type Hellos = [u8; 2 * HELLO_LEN];

/// The connector's proof that it has the pool's key, or a node that has it behind it.
pub type Proof = [u8; PROOF_LEN];

/// What a connector says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    /// What for.
    pub role: Role,
    /// Its id, as far as it has one.
    pub from: u64,
    /// The client that it is, and 0 for a node.
    pub client: u64,
}

impl Caller {
    /// A node.
    pub fn node(role: Role, from: u64) -> Caller {
        Caller { role, from, client: 0 }
    }
}

/// A connection on which both sides know each other.
pub struct Greeted {
    /// The link, ready for messages.
    pub link: TcpLink,
    /// What the other side said of itself.
    pub hello: Hello,
}

impl Greeted {
    /// Has closing the connection, or the death of this process, discard what was not sent; waits for an acknowledgement no longer than
    /// `bound`. For a side that asks, and gives up.
    pub fn end_by_reset(&mut self, bound: Duration) -> hanare_protocol::Result<()> {
        let failed =
            |error: io::Error| hanare_protocol::Error::System { what: "set up a connection".into(), reason: error.to_string() };
        self.link.stream_mut().end_by_reset(bound).map_err(failed)
    }
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
