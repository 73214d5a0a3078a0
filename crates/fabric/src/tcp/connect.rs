//! The side that begins: connect, say hello, prove the key, and wait for the first message.

use super::exact::Exact;
use super::{Caller, Greeted, Hellos, Proof, Socket, TcpLink, join, random};
use hanare_protocol::wire::control;
use hanare_protocol::wire::greeting::{HELLO_LEN, Hello};
use hanare_protocol::wire::head::{HEAD_LEN, Head, Kind};
use hanare_protocol::wire::{Malformed, VERSION};
use hanare_protocol::{Error, Result};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Instant;

/// Longest refusal taken from a peer at the greeting; an error is a few hundred bytes.
const REFUSAL_LEN_MAX: u64 = 64 << 10;

/// Connects to a node at `host:port`, greets it, and proves the pool's key by `prove`.
///
/// It waits, at most until `deadline` (the look-up of a host's name aside), for the connection and for three messages
/// one after another.
///
/// **Errors**: [`Error::NoNode`] where nobody listens or the connection ends; [`Error::VersionMismatch`];
/// [`Error::Timeout`]; [`Error::Garbage`] where something else than a node answers; what `prove` returns; what the node
/// refused with, as [`Error::KeyRefused`].
pub fn connect(address: &str, caller: Caller, prove: &dyn Fn(&Hellos) -> Result<Proof>, deadline: Instant) -> Result<Greeted> {
    let begun = Instant::now();
    let socket = open(address, begun, deadline)?;
    let exact = Exact { socket: &socket, peer: address, begun, deadline };

    let ours = Hello { client: caller.client, ..Hello::new(caller.role, caller.from, random()?) }.encode();
    exact.send(&ours)?;
    let mut theirs = [0; HELLO_LEN];
    exact.receive(&mut theirs)?;
    let hello = Hello::decode(&theirs).map_err(|malformed| garbage(address, malformed))?;
    if hello.version != VERSION {
        return Err(Error::VersionMismatch { peer: address.to_owned(), ours: VERSION, theirs: hello.version });
    }
    exact.send(&prove(&join(&ours, &theirs))?)?;
    welcome(&exact)?;
    Ok(Greeted { link: TcpLink::new(socket, address.to_owned()), hello })
}

/// Tries the addresses of the name one after another.
fn open(address: &str, begun: Instant, deadline: Instant) -> Result<Socket> {
    let no_node = |reason: String| Error::NoNode { address: address.to_owned(), reason };
    let mut last = no_node("the name has no address".into());
    for candidate in address.to_socket_addrs().map_err(|error| no_node(error.to_string()))? {
        let rest = deadline.saturating_duration_since(Instant::now());
        if rest.is_zero() {
            let after_ms = deadline.saturating_duration_since(begun).as_millis() as u64;
            return Err(Error::Timeout { peer: address.to_owned(), what: "connecting".into(), after_ms });
        }
        match TcpStream::connect_timeout(&candidate, rest).and_then(Socket::new) {
            Ok(socket) => return Ok(socket),
            Err(error) => last = no_node(error.to_string()),
        }
    }
    Err(last)
}

/// The acceptor's first message: welcome, or a refusal that says why.
fn welcome(exact: &Exact) -> Result<()> {
    let mut bytes = [0; HEAD_LEN];
    exact.receive(&mut bytes)?;
    let head = Head::decode(&bytes).map_err(|malformed| garbage(exact.peer, malformed))?;
    match head.kind {
        Kind::Pong => Ok(()),
        Kind::Refused if head.body_len <= REFUSAL_LEN_MAX => {
            let mut body = vec![0; head.body_len as usize];
            exact.receive(&mut body)?;
            let refusal = control::decode::<Error>(&body).map_err(|malformed| garbage(exact.peer, malformed))?;
            Err(match refusal {
                // The acceptor cannot know by which name it was reached.
                Error::KeyRefused { .. } => Error::KeyRefused { peer: exact.peer.to_owned() },
                other => other,
            })
        }
        _ => Err(garbage(exact.peer, Malformed("no welcome after the greeting"))),
    }
}

fn garbage(peer: &str, malformed: Malformed) -> Error {
    Error::Garbage { peer: peer.to_owned(), reason: malformed.0.to_owned() }
}
