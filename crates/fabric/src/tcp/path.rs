//! Paths without sealing: the number for them in each side's hello.

use super::channel::Cover;
use super::seal_keys::SealKeys;
use hanare_protocol::wire::greeting::{Hello, Sealing};
use std::net::SocketAddr;

/// The number of a side whose setting is to do without.
const PLAIN: u64 = u64::MAX;

/// A side's reason to do without sealing, as it goes into its hello. Both sides do without if both say the same.
pub(crate) trait PlainOver {
    /// The reason for a connection between these ends, as this side sees them. 0: none.
    fn plain_over(self, connector: SocketAddr, acceptor: SocketAddr) -> u64;
}

impl PlainOver for Sealing {
    fn plain_over(self, connector: SocketAddr, acceptor: SocketAddr) -> u64 {
        let ends = [connector, acceptor].map(|end| SocketAddr::new(end.ip().to_canonical(), end.port()));
        match self {
            Sealing::Plain => PLAIN,
            Sealing::Always => 0,
            Sealing::Auto if ends.iter().all(|end| end.ip().is_loopback()) => of_path(ends),
            Sealing::Auto => 0,
        }
    }
}

/// Cover of a connection after these hellos.
pub(super) fn cover(connector: &Hello, acceptor: &Hello, keys: SealKeys) -> Cover {
    match (connector.is_plain_with(acceptor), connector.plain) {
        (false, _) => Cover::Sealed(keys),
        (true, PLAIN) => Cover::Told(keys),
        (true, _) => Cover::Bare,
    }
}

/// A number for a path inside one kernel, where only a reader of its memory sees the bytes. A relay makes two connections of it, with
/// other ends, so the sides do not say the same and seal.
fn of_path(ends: [SocketAddr; 2]) -> u64 {
    let mut hash = blake3::Hasher::new_derive_key("hanare 2026-11 connection on one host");
    for end in ends {
        hash.update(end.to_string().as_bytes()).update(b" ");
    }
    let number = u64::from_le_bytes(*hash.finalize().as_bytes().first_chunk().expect("a hash is longer"));
    // Neither 0 nor `PLAIN`.
    (number | 1) & !(1 << 63)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(address: &str) -> SocketAddr {
        address.parse().unwrap()
    }

    #[test]
    fn only_one_host_s_own_connections_are_plain_unless_told() {
        let (one, other) = (at("127.0.0.1:5"), at("127.0.0.1:6"));
        let direct = Sealing::Auto.plain_over(one, other);
        assert_ne!(direct, 0);
        assert_eq!(Sealing::Auto.plain_over(at("[::ffff:127.0.0.1]:5"), other), direct);
        // A relay has ends of its own, on each side.
        assert_ne!(Sealing::Auto.plain_over(at("127.0.0.1:7"), other), direct);
        assert_ne!(Sealing::Auto.plain_over(one, at("127.0.0.2:6")), direct);
        assert_eq!(Sealing::Auto.plain_over(one, at("10.0.0.1:6")), 0);
        assert_eq!(Sealing::Always.plain_over(one, other), 0);
        let told = Sealing::Plain.plain_over(at("10.0.0.1:5"), at("10.0.0.2:6"));
        assert_eq!(told, Sealing::Plain.plain_over(one, other));
        assert_ne!(told, direct, "one side alone is not enough");
    }
}
