//! The side that waits: accept without blocking, then greet in a thread of its own, since a stranger may be slow.

use super::exact::Exact;
use super::{Greeted, Hellos, Proof, Socket, TcpLink, join, random};
use hanare_protocol::wire::VERSION;
use hanare_protocol::wire::control;
use hanare_protocol::wire::greeting::{HELLO_LEN, Hello, PROOF_LEN};
use hanare_protocol::wire::head::{Head, Kind};
use hanare_protocol::{Error, Result};
use std::io;
use std::net::{SocketAddr, TcpListener};
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

    /// Where it listens, with the port that the system chose.
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
                Ok(socket) => Ok(Some(Incoming { socket, peer: address.to_string() })),
                // It was reset before we looked at it.
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

/// A connection that nothing is known about.
pub struct Incoming {
    socket: Socket,
    peer: String,
}

impl Incoming {
    /// Where it comes from.
    pub fn peer(&self) -> &str {
        &self.peer
    }

    /// Greets the connector and checks its proof by `verify`; it is told what `verify` refuses with.
    ///
    /// It waits for the connector, at most until `deadline`.
    ///
    /// **Errors**: [`Error::VersionMismatch`], [`Error::Garbage`], [`Error::Timeout`], [`Error::NoNode`] where the
    /// connection ends, and what `verify` returned.
    pub fn greet(self, from: u64, verify: &dyn Fn(&Hello, &Hellos, &Proof) -> Result<()>, deadline: Instant) -> Result<Greeted> {
        let exact = Exact { socket: &self.socket, peer: &self.peer, begun: Instant::now(), deadline };
        let mut theirs = [0; HELLO_LEN];
        exact.receive(&mut theirs)?;
        let hello = Hello::decode(&theirs)
            .map_err(|malformed| Error::Garbage { peer: self.peer.clone(), reason: malformed.0.to_owned() })?;
        // Said to another version too: it must be able to name ours.
        let ours = Hello::new(hello.role, from, random()?).encode();
        exact.send(&ours)?;
        if hello.version != VERSION {
            return Err(Error::VersionMismatch { peer: self.peer, ours: VERSION, theirs: hello.version });
        }
        let mut proof = [0; PROOF_LEN];
        exact.receive(&mut proof)?;
        if let Err(refusal) = verify(&hello, &join(&theirs, &ours), &proof) {
            let body = control::encode(&refusal);
            let head = Head { body_len: body.len() as u64, ..Head::new(Kind::Refused, 0) };
            exact.send(&[&head.encode()[..], &body].concat())?;
            return Err(refusal);
        }
        exact.send(&Head::new(Kind::Pong, 0).encode())?;
        Ok(Greeted { link: TcpLink::new(self.socket, self.peer), hello })
    }
}
