//! The side that waits: accept and greet. Neither step waits for a stranger, who may be slow.

use super::exact::Exact;
use super::handshake::{FIRST_LEN, Handshake};
use super::path::{PlainOver, cover};
use super::{Channel, Greeted, Hellos, Keys, Secret, Socket, TcpLink, join, random, spoken};
use hanare_protocol::wire::control;
use hanare_protocol::wire::greeting::{HELLO_LEN, Hello};
use hanare_protocol::{Error, Result};
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

/// Waits for connections at an address.
pub struct Listener(TcpListener);

impl Listener {
    /// Listens at `host:port`; port 0 lets the system choose.
    pub fn bind(address: &str) -> Result<Listener> {
        let refused = |error: io::Error| Error::BadSetting {
            key: "the address to listen at".into(),
            value: address.to_owned(),
            reason: error.to_string(),
        };
        let listener = TcpListener::bind(address).map_err(refused)?;
        listener.set_nonblocking(true).map_err(refused)?;
        Ok(Listener(listener))
    }

    /// Address of the listener, with the port that the system chose.
    pub fn address(&self) -> SocketAddr {
        self.0.local_addr().expect("a bound socket has an address")
    }

    /// Readable when somebody connects.
    pub fn event(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// Takes the next connection, if one waits. Never blocks.
    ///
    /// **Errors**: [`Error::System`], such as too many open descriptors; the listener goes on, and the connection waits.
    pub fn accept(&self) -> Result<Option<Incoming>> {
        match self.0.accept() {
            Ok((stream, address)) => match Socket::new(stream) {
                Ok(socket) => {
                    let peer = address.to_string();
                    Ok(Some(Incoming { socket, peer, stage: Stage::Hello, bytes: [0; HELLO_LEN], have: 0 }))
                }
                // The connection was reset before we looked at it.
                Err(_) => Ok(None),
            },
            Err(error) if is_none(&error) => Ok(None),
            Err(error) => Err(Error::System { what: "accepting a connection".into(), reason: error.to_string() }),
        }
    }
}

fn is_none(error: &io::Error) -> bool {
    use io::ErrorKind::*;
    matches!(error.kind(), WouldBlock | Interrupted | ConnectionAborted | ConnectionReset)
}

/// Reply to a peer without the key: no message follows.
const REFUSED: [u8; 2] = [0; 2];

/// A connection whose greeting is not yet through, so that nothing is known about its peer.
///
/// ```text
/// Hello --64 bytes, version--> Key --48 bytes that open--> greeted
///   |                           |
///   +--- anything else ---------+---------------------> an error, and the connection closes
/// ```
pub struct Incoming {
    socket: Socket,
    peer: String,
    stage: Stage,
    bytes: [u8; HELLO_LEN],
    have: usize,
}

enum Stage {
    /// The connector has to say hello.
    Hello,
    /// Both have, and the connector has to prove that it has the key.
    Key { connector: Hello, acceptor: Hello, spoken: u32 },
}

/// Result of a greeting's step.
pub enum Step {
    /// The connector has to say more.
    Waits(Incoming),
    /// Both sides know each other.
    Greeted(Greeted),
}

impl Incoming {
    /// Address of the peer.
    pub fn peer(&self) -> &str {
        &self.peer
    }

    /// The host that it comes from.
    pub fn host(&self) -> IpAddr {
        self.socket.ends().1.ip().to_canonical()
    }

    /// True if it has said hello.
    pub fn has_said_hello(&self) -> bool {
        matches!(self.stage, Stage::Key { .. })
    }

    /// Readable when it says more.
    pub fn event(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Goes on with the greeting as far as the connector has come. A connector that has the key gets the error of `admit`.
    ///
    /// Never waits. **Errors**: [`Error::VersionMismatch`], [`Error::Garbage`], [`Error::KeyRefused`]; [`Error::NoNode`] where the
    /// connection ends or takes nothing; those of `admit`. **Cost**: some hashes for a stranger, two public-key operations for others.
    pub fn step(mut self, keys: &Keys, admit: &dyn Fn(&Hello) -> Result<()>) -> Result<Step> {
        let wanted = if self.has_said_hello() { FIRST_LEN } else { HELLO_LEN };
        while self.have < wanted {
            match recv(&self.socket, &mut self.bytes[self.have..wanted], RecvFlags::DONTWAIT) {
                Ok((0, _)) => return Err(self.gone("it closed the connection during the greeting")),
                Ok((len, _)) => self.have += len,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(Step::Waits(self)),
                Err(errno) => return Err(self.gone(&errno.to_string())),
            }
        }
        match self.stage {
            Stage::Hello => self.on_hello(keys)?.step(keys, admit),
            Stage::Key { connector, acceptor, spoken } => self.on_key(keys, admit, (connector, acceptor, spoken)),
        }
    }

    fn on_hello(self, keys: &Keys) -> Result<Incoming> {
        let connector = Hello::decode(&self.bytes).map_err(|malformed| self.garbage(malformed.0))?;
        let (here, there) = self.socket.ends();
        let plain = keys.sealing().plain_over(there, here);
        // Said also where there is no common version: the other side names ours.
        let acceptor = Hello { plain, ..keys.acceptor(&connector, random()?) };
        self.send(&acceptor.encode())?;
        let spoken = spoken(&acceptor, &connector, &self.peer)?;
        Ok(Incoming { stage: Stage::Key { connector, acceptor, spoken }, have: 0, ..self })
    }

    fn on_key(
        self,
        keys: &Keys,
        admit: &dyn Fn(&Hello) -> Result<()>,
        (connector, acceptor, spoken): (Hello, Hello, u32),
    ) -> Result<Step> {
        let hellos = join(&connector.encode(), &acceptor.encode());
        let secrets = match keys.secrets(&hellos) {
            Ok(secrets) => secrets,
            Err(malformed) => {
                self.send(&REFUSED)?;
                return Err(self.garbage(malformed.0));
            }
        };
        let Some(mut handshake) = self.opened(&hellos, &secrets)? else {
            self.send(&REFUSED)?;
            return Err(Error::KeyRefused { peer: self.peer });
        };
        let refusal = admit(&connector).err();
        let message = handshake.second(&refusal.as_ref().map_or(Vec::new(), control::encode))?;
        let len = u16::try_from(message.len()).expect("a refusal is a few hundred bytes");
        self.send(&[&len.to_le_bytes()[..], &message].concat())?;
        if let Some(refusal) = refusal {
            return Err(refusal);
        }
        let cover = cover(&connector, &acceptor, handshake.keys()?);
        let link = TcpLink::new(Channel::new(self.socket, cover), self.peer);
        Ok(Step::Greeted(Greeted { link, hello: connector, spoken }))
    }

    /// The handshake of the key that the connector has proved.
    fn opened(&self, hellos: &Hellos, secrets: &[Secret]) -> Result<Option<Handshake>> {
        for secret in secrets {
            let mut handshake = Handshake::acceptor(hellos, secret)?;
            if handshake.take_first(self.bytes.first_chunk().expect("a hello is longer")).is_ok() {
                return Ok(Some(handshake));
            }
        }
        Ok(None)
    }

    /// Sends to a connection that has room for a whole greeting, unless its peer means no good.
    fn send(&self, bytes: &[u8]) -> Result<()> {
        match send(&self.socket, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
            Ok(len) if len == bytes.len() => Ok(()),
            Ok(_) => Err(self.gone("it takes no greeting")),
            Err(errno) => Err(self.gone(&errno.to_string())),
        }
    }

    fn gone(&self, reason: &str) -> Error {
        Error::NoNode { address: self.peer.clone(), reason: reason.to_owned() }
    }

    fn garbage(&self, reason: &str) -> Error {
        Error::Garbage { peer: self.peer.clone(), reason: reason.to_owned() }
    }

    /// [`Incoming::step`] to the end, waiting for the connector until `deadline` at most.
    ///
    /// **Errors**: as those of a step, and [`Error::Timeout`].
    pub fn greet(mut self, keys: &Keys, admit: &dyn Fn(&Hello) -> Result<()>, deadline: Instant) -> Result<Greeted> {
        let begun = Instant::now();
        loop {
            self = match self.step(keys, admit)? {
                Step::Greeted(greeted) => return Ok(greeted),
                Step::Waits(incoming) => incoming,
            };
            let peer = self.peer.clone();
            Exact { stream: &mut self.socket, peer: &peer, begun, deadline }.wait(PollFlags::IN)?;
        }
    }
}
