//! Users whose programs connect to a port of this host's loopback.
//!
//! Every user of a host reaches its loopback addresses, and TCP tells no user. The kernel's table of connections does: each row has the
//! user of the socket at its own end.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};

/// Most users of whom it is said that they were refused.
const REFUSALS_SAID: usize = 64;

/// The state of a connection that is open at both ends. In others a row may have the number of root, because its socket is no user's any more.
const ESTABLISHED: &str = "01";

/// The users that are served.
pub struct Callers {
    are_all: bool,
    refused: BTreeSet<Option<u32>>,
}

impl Callers {
    /// All users.
    pub fn anyone() -> Callers {
        Callers { are_all: true, refused: BTreeSet::new() }
    }

    /// The program's own user, and root, which could take anything.
    pub fn own() -> Callers {
        Callers { are_all: false, refused: BTreeSet::new() }
    }

    /// True if the program at the other end is served. Says of each user once that it is refused.
    pub fn may_come(&mut self, stream: &TcpStream) -> bool {
        if self.are_all {
            return true;
        }
        let user = peer_user(stream).unwrap_or(None);
        if user.is_some_and(|uid| uid == 0 || uid == rustix::process::geteuid().as_raw()) {
            return true;
        }
        // A user that tries again and again fills no log.
        if self.refused.len() < REFUSALS_SAID && self.refused.insert(user) {
            let whose = user.map_or_else(|| "of an unknown user".to_owned(), |uid| format!("of user {uid}"));
            eprintln!("hanare: a connection {whose} is refused; --anyone lets all users of this host read and write");
        }
        false
    }
}

/// The user of the socket at the other end; `None` where that end is closed.
fn peer_user(stream: &TcpStream) -> io::Result<Option<u32>> {
    let (own, peer) = (stream.local_addr()?, stream.peer_addr()?);
    let table = if peer.is_ipv4() { "/proc/self/net/tcp" } else { "/proc/self/net/tcp6" };
    Ok(user_in(&fs::read_to_string(table)?, peer, own))
}

/// An address as the kernel's table has it: words of the host's byte order.
fn text(at: SocketAddr) -> String {
    let octets = match at.ip() {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    let (words, _) = octets.as_chunks::<4>();
    let words: String = words.iter().map(|word| format!("{:08X}", u32::from_ne_bytes(*word))).collect();
    format!("{words}:{:04X}", at.port())
}

/// The user of the open connection between two addresses, in the kernel's table.
fn user_in(table: &str, from: SocketAddr, to: SocketAddr) -> Option<u32> {
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
    use std::net::{Ipv4Addr, Ipv6Addr, TcpListener};

    #[test]
    fn the_user_is_the_one_of_the_other_end_while_it_is_open() {
        for host in [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)] {
            // A machine may have no IPv6.
            let Ok(listener) = TcpListener::bind((host, 0)) else { continue };
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (stream, _) = listener.accept().unwrap();
            let own = rustix::process::geteuid().as_raw();
            assert_eq!(peer_user(&stream).unwrap(), Some(own));
            assert!(Callers::own().may_come(&stream));
            drop(client);
            assert_eq!(peer_user(&stream).unwrap(), None, "a closed socket is no user's");
            assert!(!Callers::own().may_come(&stream) && Callers::anyone().may_come(&stream));
        }
    }

    #[test]
    fn a_row_of_another_connection_or_state_says_nothing() {
        let at = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let row = |from, to, state: &str| {
            let (from, to) = (text(at(from)), text(at(to)));
            format!("  sl\n   0: {from} {to} {state} 00000000:00000000 00:00000000 00000000  1000        0 1 1\n")
        };
        assert_eq!(user_in(&row(7, 8, "01"), at(7), at(8)), Some(1000));
        for table in [row(8, 7, "01"), row(7, 8, "06"), row(7, 9, "01"), String::new(), "  sl\n 0: x\n".to_owned()] {
            assert_eq!(user_in(&table, at(7), at(8)), None, "{table}");
        }
    }
}
