//! The first bytes of every connection: who is there, which versions it speaks, and both sides' proof that they have the pool's key.
//!
//! ```text
//! connector                       acceptor
//!    Hello (nonce c)      --->
//!                         <---    Hello (nonce a)          either side stops here without a common version
//!    48 bytes             --->                             Noise NNpsk0: that the connector has the key of its kind
//!                         <---    a length of 2 bytes      0: refused; else that the acceptor has it too, and what it refuses
//!    sealed records       <-->    sealed records           unless both hellos say the same of doing without
//! ```
//!
//! The magic and the versions keep their place for ever. So any two builds can refuse each other in one line.

use super::Malformed;
use crate::id::User;
use crate::versions::Versions;
use serde::{Deserialize, Serialize};
use zerocopy::byteorder::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Bytes of a hello.
pub const HELLO_LEN: usize = 64;

/// Bytes of the secret of one pair of hellos.
pub const SECRET_LEN: usize = 32;

/// Random bytes of a hello: two of them never meet again.
pub const NONCE_LEN: usize = 16;

/// The user of a node's own connections: a node is trusted with any.
const ROOT: User = User { uid: 0, gid: 0 };

const MAGIC: [u8; 8] = *b"HANARE\r\n";

/// Purpose of the connector's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Role {
    /// Vector commands and barriers of a client, or of a node that copies.
    Data = 1,
    /// A node's control messages to its coordinator.
    Control = 2,
    /// A node's messages about the pages of shared regions to another.
    Pages = 3,
    /// Appends of a client to a queue whose reader gets the connection: see [`super::link`].
    Link = 4,
    /// Writes from homes of extents to their copies: see [`super::copies`].
    Copies = 5,
    /// A keeper's messages to another keeper of the pool's journal.
    Keeper = 6,
}

/// Connections that a node seals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sealing {
    /// Connections that leave its host, or pass through somebody on it.
    #[default]
    Auto,
    /// All.
    Always,
    /// No connections, where the other side says so too.
    Plain,
}

/// The first message of either side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Versions of the wire that the sender speaks.
    pub versions: Versions,
    /// The connection's purpose.
    pub role: Role,
    /// For a node's messages about pages or copies: the node's number. For commands: the [series](crate::session::Series) that the
    /// connection continues, or 0 for a new one. The node ends the connection before. For a link: the number of the write port. For an
    /// acceptor: the names of its first two keys.
    pub from: u64,
    /// The user whose program the client is, as its node's kernel says; of no meaning where there is no client. The client's proof says it,
    /// because its node proves no other user.
    pub user: User,
    /// Fresh random bytes.
    pub nonce: [u8; NONCE_LEN],
    /// The client that the connection is for, and 0 for a node's own. Each has another key, so a client's proof says which it is. Of an
    /// acceptor: the names of its next two keys.
    pub client: u64,
    /// The sender's reason to do without sealing: see [`Hello::is_plain_with`]. 0 where it insists.
    pub plain: u64,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct RawHello {
    magic: [u8; 8],
    versions: U32,
    role: U32,
    from: U64,
    uid: U32,
    gid: U32,
    nonce: [u8; NONCE_LEN],
    client: U64,
    plain: U64,
}

const _: () = assert!(size_of::<RawHello>() == HELLO_LEN);

impl Hello {
    /// A hello of this build, of a node that insists on sealing.
    pub fn new(role: Role, from: u64, nonce: [u8; NONCE_LEN]) -> Hello {
        Hello { versions: Versions::BUILD, role, from, user: ROOT, nonce, client: 0, plain: 0 }
    }

    /// True if both sides would do without sealing, for the same reason.
    pub fn is_plain_with(&self, other: &Hello) -> bool {
        self.plain != 0 && self.plain == other.plain
    }

    /// The user for whom the connector asks, once it has proved what it says. A node asks for nobody in particular, and may do all.
    pub fn asks_for(&self) -> User {
        if self.client == 0 { ROOT } else { self.user }
    }

    /// The bytes to send.
    pub fn encode(&self) -> [u8; HELLO_LEN] {
        let raw = RawHello {
            magic: MAGIC,
            versions: self.versions.pack().into(),
            role: (self.role as u32).into(),
            from: self.from.into(),
            uid: self.user.uid.into(),
            gid: self.user.gid.into(),
            nonce: self.nonce,
            client: self.client.into(),
            plain: self.plain.into(),
        };
        zerocopy::transmute!(raw)
    }

    /// Reads a hello of any version; the caller compares it with its own.
    pub fn decode(bytes: &[u8; HELLO_LEN]) -> Result<Hello, Malformed> {
        let raw: RawHello = zerocopy::transmute!(*bytes);
        if raw.magic != MAGIC {
            return Err(Malformed("not a hanare peer"));
        }
        let versions = Versions::unpack(raw.versions.get());
        let role = [Role::Data, Role::Control, Role::Pages, Role::Link, Role::Copies, Role::Keeper]
            .into_iter()
            .find(|role| *role as u32 == raw.role.get());
        match role {
            Some(role) => {
                let (client, plain) = (raw.client.get(), raw.plain.get());
                let user = User { uid: raw.uid.get(), gid: raw.gid.get() };
                Ok(Hello { versions, role, from: raw.from.get(), user, nonce: raw.nonce, client, plain })
            }
            // A build that shares no version may know more roles: its versions are what matters.
            None if versions.spoken_with(Versions::BUILD).is_none() => {
                Ok(Hello { versions, ..Hello::new(Role::Data, 0, raw.nonce) })
            }
            None => Err(Malformed("unknown role")),
        }
    }
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "numbers of a test")]
mod tests {
    use super::*;

    #[test]
    fn a_hello_survives_the_wire() {
        let hello = Hello::new(Role::Control, 7, [3; NONCE_LEN]);
        assert_eq!(Hello::decode(&hello.encode()), Ok(hello));
    }

    #[test]
    fn another_version_is_read_whatever_else_it_says() {
        let mut bytes = Hello::new(Role::Data, 7, [3; NONCE_LEN]).encode();
        bytes[8..12].copy_from_slice(&[99, 0, 99, 0]);
        bytes[12] = 77;
        assert_eq!(Hello::decode(&bytes).unwrap().versions.newest, 99);
    }

    #[test]
    fn what_is_not_hanare_is_refused() {
        assert!(
            Hello::decode(b"GET / HTTP/1.1\r\nHost: localhost:80\r\nAccept: */*\r\nUser-Agent: x\r\n"[..64].try_into().unwrap())
                .is_err()
        );
    }
}
