//! Serves a region at a TCP port of this host, to programs of this user and of root.
//!
//! Every user of a host reaches its loopback addresses, and TCP tells no user. The kernel's table of connections does: each row has the
//! user of the socket at its own end. Each connection that may come is served by an nbdkit of its own, which gets it as standard input.

use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::fs;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::process::{Child, Command};

/// Most connections at once.
const CONNECTIONS: usize = 64;

/// Most users of whom it is said that they were refused.
const REFUSALS_SAID: usize = 64;

/// The state of a connection that is open at both ends. In others a row may have the number of root, because its socket is no user's any more.
const ESTABLISHED: &str = "01";

/// A port at which connections are taken.
pub struct Port {
    listener: TcpListener,
    is_for_anyone: bool,
}

impl Port {
    /// Listens on loopback.
    pub fn open(port: u16, is_for_anyone: bool) -> Result<Port> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).with_context(|| format!("cannot listen at port {port}"))?;
        Ok(Port { listener, is_for_anyone })
    }

    /// Serves until the process ends. `nbdkit` is a command that serves its standard input.
    pub fn serve(&self, nbdkit: impl Fn() -> Command) -> Result<()> {
        let (mut served, mut refused) = (Vec::<Child>::new(), BTreeSet::new());
        loop {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::ConnectionAborted) => continue,
                Err(error) => return Err(error).context("cannot take a connection"),
            };
            served.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
            let user = peer_user(&stream).unwrap_or(None);
            if !self.may_come(user) {
                // A user that tries again and again fills no log.
                if refused.len() < REFUSALS_SAID && refused.insert(user) {
                    let whose = user.map_or_else(|| "of an unknown user".to_owned(), |uid| format!("of user {uid}"));
                    eprintln!("hanare: a connection {whose} is refused; --anyone lets all users of this host read and write");
                }
                continue;
            }
            if served.len() >= CONNECTIONS {
                continue;
            }
            match start(nbdkit(), stream) {
                Ok(child) => served.push(child),
                Err(error) if error.kind() == ErrorKind::NotFound => return Err(super::not_run(&error)),
                // Others may be served still.
                Err(error) => eprintln!("hanare: cannot serve a connection: {error}"),
            }
        }
    }

    /// True if a user is served: this one, and root, which could take what it wants.
    fn may_come(&self, user: Option<u32>) -> bool {
        self.is_for_anyone || user.is_some_and(|uid| uid == 0 || uid == rustix::process::geteuid().as_raw())
    }
}

fn start(mut nbdkit: Command, stream: TcpStream) -> io::Result<Child> {
    stream.set_nodelay(true)?;
    let output = OwnedFd::from(stream.try_clone()?);
    nbdkit.stdin(OwnedFd::from(stream)).stdout(output).spawn()
}

/// The user of the socket at the other end; `None` where that end is closed.
fn peer_user(stream: &TcpStream) -> io::Result<Option<u32>> {
    let (std::net::SocketAddr::V4(own), std::net::SocketAddr::V4(peer)) = (stream.local_addr()?, stream.peer_addr()?) else {
        return Ok(None);
    };
    Ok(user_in(&fs::read_to_string("/proc/self/net/tcp")?, peer, own))
}

/// The user of the open connection between two addresses, in the kernel's table.
fn user_in(table: &str, from: SocketAddrV4, to: SocketAddrV4) -> Option<u32> {
    let text = |at: SocketAddrV4| format!("{:08X}:{:04X}", u32::from_ne_bytes(at.ip().octets()), at.port());
    let (from, to) = (text(from), text(to));
    table.lines().skip(1).find_map(|line| {
        let words: Vec<&str> = line.split_ascii_whitespace().take(8).collect();
        let [_, local, remote, state, _, _, _, uid] = words[..] else { return None };
        if local == from && remote == to && state == ESTABLISHED { uid.parse().ok() } else { None }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_is_the_one_of_the_other_end_while_it_is_open() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().unwrap();
        let own = rustix::process::geteuid().as_raw();
        assert_eq!(peer_user(&stream).unwrap(), Some(own));
        drop(client);
        assert_eq!(peer_user(&stream).unwrap(), None, "a closed socket is no user's");
    }

    #[test]
    fn a_row_of_another_connection_or_state_says_nothing() {
        let at = |port| SocketAddrV4::new(Ipv4Addr::LOCALHOST, port);
        let address = |port: u16| format!("{:08X}:{port:04X}", u32::from_ne_bytes([127, 0, 0, 1]));
        let row = |from, to, state: &str| {
            format!(
                "  sl\n   0: {} {} {state} 00000000:00000000 00:00000000 00000000  1000        0 1 1\n",
                address(from),
                address(to)
            )
        };
        assert_eq!(user_in(&row(7, 8, "01"), at(7), at(8)), Some(1000));
        for table in [row(8, 7, "01"), row(7, 8, "06"), row(7, 9, "01"), String::new(), "  sl\n 0: x\n".to_owned()] {
            assert_eq!(user_in(&table, at(7), at(8)), None, "{table}");
        }
    }
}
