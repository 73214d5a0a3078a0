//! Secrets of connections: a keyed hash over both hellos, so that it is good for these two alone.
//!
//! The pool's key itself proves nothing. The secret of nodes comes from one key derived from it and that of clients from another, so
//! that nobody who has a client's secret is taken for a node.

use super::{Caller, Hellos, Secret};
use hanare_protocol::wire::Malformed;
use hanare_protocol::wire::greeting::{HELLO_LEN, Hello, Role, Sealing};

/// What a node proves to others, for itself and for its clients.
#[derive(Clone)]
pub struct Keys {
    node: [u8; 32],
    client: [u8; 32],
    sealing: Sealing,
}

impl Keys {
    /// The keys that follow from the pool's, of a node that seals these connections.
    pub fn of(pool: &[u8; 32], sealing: Sealing) -> Keys {
        Keys {
            sealing,
            node: blake3::derive_key("hanare 2026-11 greeting of a node", pool),
            client: blake3::derive_key("hanare 2026-11 greeting of a client", pool),
        }
    }

    /// Which connections are sealed.
    pub fn sealing(&self) -> Sealing {
        self.sealing
    }

    /// The node as a connector.
    pub fn caller(&self, role: Role, from: u64) -> Caller {
        Caller { role, from, client: 0, sealing: self.sealing }
    }

    /// The secret of these hellos: by the clients' key where the connector names a client.
    ///
    /// **Errors**: the first is no hello, or names a client for what only nodes do.
    pub fn secret(&self, hellos: &Hellos) -> Result<Secret, Malformed> {
        let connector = connector(hellos)?;
        let key = match (connector.client, connector.role) {
            (0, _) => &self.node,
            (_, Role::Data) => &self.client,
            _ => return Err(Malformed("a client with a node's role")),
        };
        Ok(*blake3::keyed_hash(key, hellos).as_bytes())
    }

    /// The secret of a client's own data link.
    ///
    /// **Errors**: it is not for a data link, or names another client, or a node.
    pub fn secret_of(&self, client: u64, hellos: &Hellos) -> Result<Secret, Malformed> {
        let connector = connector(hellos)?;
        if client == 0 || connector.client != client || connector.role != Role::Data {
            return Err(Malformed("the secret of another than its own data link"));
        }
        self.secret(hellos)
    }
}

fn connector(hellos: &Hellos) -> Result<Hello, Malformed> {
    let first: &[u8; HELLO_LEN] = hellos.first_chunk().expect("hellos are two hellos long");
    Hello::decode(first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hanare_protocol::wire::greeting::NONCE_LEN;

    fn hellos(role: Role, client: u64, nonce: u8) -> Hellos {
        let hello = Hello { client, ..Hello::new(role, 0, [nonce; NONCE_LEN]) };
        super::super::join(&hello.encode(), &hello.encode())
    }

    #[test]
    fn a_secret_is_of_one_pool_and_one_pair_of_hellos() {
        let [keys, others] = [1, 2].map(|byte| Keys::of(&[byte; 32], Sealing::Auto));
        let ours = hellos(Role::Control, 0, 3);
        let secret = keys.secret(&ours).unwrap();
        assert_eq!(keys.secret(&ours), Ok(secret));
        assert_ne!(others.secret(&ours), Ok(secret));
        assert_ne!(keys.secret(&hellos(Role::Control, 0, 4)), Ok(secret));
        assert_ne!(keys.secret(&hellos(Role::Pages, 0, 3)), Ok(secret));
    }

    #[test]
    fn a_client_gets_no_secret_but_of_a_data_link_of_its_own() {
        let keys = Keys::of(&[1; 32], Sealing::Auto);
        let own = hellos(Role::Data, 7, 3);
        assert_eq!(keys.secret_of(7, &own), keys.secret(&own));
        for wrong in [hellos(Role::Control, 0, 3), hellos(Role::Pages, 7, 3), hellos(Role::Data, 0, 3), hellos(Role::Data, 8, 3)]
        {
            assert!(keys.secret_of(7, &wrong).is_err());
        }
        assert!(keys.secret_of(0, &hellos(Role::Data, 0, 3)).is_err());
        assert!(keys.secret_of(7, &[9; 2 * HELLO_LEN]).is_err());
        let as_node = hellos(Role::Data, 0, 3);
        let forged = *blake3::keyed_hash(&keys.client, &as_node).as_bytes();
        assert_ne!(keys.secret(&as_node), Ok(forged), "the clients' key makes no node's secret");
    }
}
