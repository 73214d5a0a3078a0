//! The side that begins: connect, say hello, prove the key and have it proved.

use super::exact::Exact;
use super::handshake::{Handshake, SECOND_LEN_MAX};
use super::path::{PlainOver, cover};
use super::{Caller, Channel, Greeted, Hellos, Secret, Socket, TcpLink, join, random, spoken};
use hanare_protocol::limits::{DIAL_AGAIN_MS, REACH_MS};
use hanare_protocol::wire::Malformed;
use hanare_protocol::wire::control;
use hanare_protocol::wire::greeting::{HELLO_LEN, Hello};
use hanare_protocol::{Error, Result};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

/// Connects to a node at `host:port`, greets it, and proves the pool's key while the node proves the same. `secret` returns the secret
/// that only the two sides of these hellos know.
///
/// Waits at most until `deadline` (the look-up of a host's name aside), for the connection and for three messages one after another.
///
/// **Errors**: [`Error::NoNode`] where nobody listens or the connection ends. [`Error::VersionMismatch`]; [`Error::Timeout`].
/// [`Error::Garbage`] where something else than a node answers. [`Error::KeyRefused`] where the two sides have different keys. The errors
/// of `secret`, and the node's refusal.
pub fn connect(address: &str, caller: Caller, secret: &dyn Fn(&Hellos) -> Result<Secret>, deadline: Instant) -> Result<Greeted> {
    let begun = Instant::now();
    greet(open(address, begun, deadline)?, address, caller, secret, (begun, deadline))
}

/// [`connect`], and what the caller does `then`: again and again where the connection ends meanwhile, because the node may live. It counts as gone
/// where it does not listen, or after [`REACH_MS`].
pub fn reach<T>(
    address: &str,
    caller: Caller,
    secret: &dyn Fn(&Hellos) -> Result<Secret>,
    deadline: Instant,
    then: impl Fn(Greeted) -> Result<T>,
) -> Result<T> {
    let begun = Instant::now();
    let until = deadline.min(begun + Duration::from_millis(REACH_MS));
    loop {
        let socket = open(address, begun, deadline)?;
        match greet(socket, address, caller, secret, (begun, deadline)).and_then(&then) {
            Err(Error::NoNode { .. }) if Instant::now() < until => std::thread::sleep(Duration::from_millis(DIAL_AGAIN_MS)),
            outcome => return outcome,
        }
    }
}

fn greet(
    mut socket: Socket,
    address: &str,
    caller: Caller,
    secret: &dyn Fn(&Hellos) -> Result<Secret>,
    (begun, deadline): (Instant, Instant),
) -> Result<Greeted> {
    let (here, there) = socket.ends();
    let plain = caller.sealing.plain_over(here, there);
    let mut exact = Exact { stream: &mut socket, peer: address, begun, deadline };

    let Caller { client, user, versions, .. } = caller;
    let said = Hello { versions, client, user, plain, ..Hello::new(caller.role, caller.from, random()?) };
    let ours = said.encode();
    exact.send(&ours)?;
    let mut theirs = [0; HELLO_LEN];
    exact.receive(&mut theirs)?;
    let hello = Hello::decode(&theirs).map_err(|malformed| garbage(address, malformed))?;
    let spoken = spoken(&said, &hello, address)?;
    let hellos = join(&ours, &theirs);
    let mut handshake = Handshake::connector(&hellos, &secret(&hellos)?)?;
    exact.send(&handshake.first()?)?;
    welcome(&mut exact, &mut handshake)?;
    let cover = cover(&said, &hello, handshake.keys()?);
    Ok(Greeted { link: TcpLink::new(Channel::new(socket, cover), address.to_owned()), hello, spoken })
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

/// The acceptor's message: its proof, and a welcome or a refusal that says why.
fn welcome(exact: &mut Exact<Socket>, handshake: &mut Handshake) -> Result<()> {
    let refused = |exact: &Exact<Socket>| Error::KeyRefused { peer: exact.peer.to_owned() };
    let mut len = [0; 2];
    exact.receive(&mut len)?;
    let len = usize::from(u16::from_le_bytes(len));
    // Anybody may say that it refuses: nothing else is believed without a proof.
    if len == 0 {
        return Err(refused(exact));
    }
    if len > SECOND_LEN_MAX {
        return Err(garbage(exact.peer, Malformed("no welcome after the greeting")));
    }
    let mut message = vec![0; len];
    exact.receive(&mut message)?;
    let said = handshake.take_second(&message).map_err(|_| refused(exact))?;
    if said.is_empty() {
        return Ok(());
    }
    Err(control::decode::<Error>(&said).unwrap_or_else(|malformed| garbage(exact.peer, malformed)))
}

fn garbage(peer: &str, malformed: Malformed) -> Error {
    Error::Garbage { peer: peer.to_owned(), reason: malformed.0.to_owned() }
}
