//! A connection that one process greets and another of its host goes on with: descriptor, and keys of its records.
//!
//! Records are counted from 0 on either side, so a connection is handed over before the first.

use super::{Channel, Greeted, Socket, TcpLink};
use crate::tcp::channel::Cover;
use crate::tcp::seal_keys::SealKeys;
use hanare_protocol::wire::link::LinkKeys;
use hanare_protocol::{Error, Result};
use std::net::TcpStream;
use std::os::fd::OwnedFd;

/// A greeted connection as it goes from process to process.
pub struct GreetedParts {
    /// The connection.
    pub fd: OwnedFd,
    /// The keys of its records; `None` where its bytes are not sealed.
    pub keys: Option<LinkKeys>,
    /// The other end, for messages to people.
    pub peer: String,
}

impl Greeted {
    /// The connection without its link. Panics where the link was used.
    pub fn hand_over(self) -> GreetedParts {
        let (channel, peer) = self.link.into_stream();
        let (socket, keys) = channel.into_parts();
        GreetedParts { fd: socket.into(), keys: keys.map(|keys| keys.keys()), peer }
    }
}

impl TcpLink {
    /// Goes on with a connection that another process greeted.
    ///
    /// **Errors**: [`Error::System`] where it has ended meanwhile.
    pub fn adopt(handed: GreetedParts) -> Result<TcpLink> {
        let GreetedParts { fd, keys, peer } = handed;
        let socket = Socket::new(TcpStream::from(fd))
            .map_err(|error| Error::System { what: "take over a connection".into(), reason: error.to_string() })?;
        let cover = keys.map_or(Cover::Bare, |keys| Cover::Sealed(SealKeys::new(keys)));
        Ok(TcpLink::new(Channel::new(socket, cover), peer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::fabrics::sockets;
    use crate::conformance::{Store, body, head, send};
    use crate::link::Link;
    use crate::tcp::channel::covered_pair;
    use hanare_protocol::versions::NEWEST;
    use hanare_protocol::wire::greeting::{Hello, Role};

    /// Bytes sent at one end arrive at the end that was handed over, and back.
    fn goes_on(cover: fn(SealKeys) -> Cover, is_sealed: bool) {
        let (one, other) = covered_pair(sockets(), cover);
        let mut one = TcpLink::new(one, "other".into());
        let greeted =
            Greeted { link: TcpLink::new(other, "one".into()), hello: Hello::new(Role::Link, 7, [0; 16]), spoken: NEWEST };
        let handed = greeted.hand_over();
        assert_eq!((handed.keys.is_some(), handed.peer.as_str()), (is_sealed, "one"));
        let mut other = TcpLink::adopt(handed).unwrap();
        for (from, to) in [(0usize, 1usize), (1, 0), (0, 1)] {
            let bytes = body(from as u64, 20_000);
            let links = [&mut one, &mut other];
            send(links[from], from as u64, &bytes).unwrap();
            let mut store = Store::new();
            while store.messages.is_empty() {
                links[from].progress(&mut Store::new()).unwrap();
                links[to].progress(&mut store).unwrap();
            }
            assert!(store.messages == [(head(from as u64, 20_000), bytes)]);
        }
    }

    #[test]
    fn a_connection_goes_on_in_other_hands_sealed_or_not() {
        goes_on(|_| Cover::Bare, false);
        goes_on(Cover::Told, false);
        goes_on(Cover::Sealed, true);
    }
}
