//! Proofs of the pool's key: a keyed hash over both hellos, so that neither side can use it anywhere else.
//!
//! The pool's key itself proves nothing. Nodes prove one key derived from it and clients another, so that nobody who has a
//! client's proof is taken for a node.

use super::{Hellos, Proof};
use hanare_protocol::wire::Malformed;
use hanare_protocol::wire::greeting::{HELLO_LEN, Hello, Role};

/// What a node proves to others, for itself and for its clients.
#[derive(Clone)]
pub struct Keys {
    node: [u8; 32],
    client: [u8; 32],
}

impl Keys {
    /// The keys that follow from the pool's.
    pub fn of(pool: &[u8; 32]) -> Keys {
        Keys {
            node: blake3::derive_key("hanare 2026-11 greeting of a node", pool),
            client: blake3::derive_key("hanare 2026-11 greeting of a client", pool),
        }
    }

    /// The proof that belongs to these hellos: by the clients' key where the connector names a client.
    ///
    /// **Errors**: the first is no hello, or names a client for what only nodes do.
    pub fn proof(&self, hellos: &Hellos) -> Result<Proof, Malformed> {
        let connector = connector(hellos)?;
        let key = match (connector.client, connector.role) {
            (0, _) => &self.node,
            (_, Role::Data) => &self.client,
            _ => return Err(Malformed("a client with a node's role")),
        };
        Ok(*blake3::keyed_hash(key, hellos).as_bytes())
    }

    /// The proof for a client's own data link.
    ///
    /// **Errors**: it is not for a data link, or names another client, or a node.
    pub fn proof_of(&self, client: u64, hellos: &Hellos) -> Result<Proof, Malformed> {
        let connector = connector(hellos)?;
        if client == 0 || connector.client != client || connector.role != Role::Data {
            return Err(Malformed("a proof for another than its own data link"));
        }
        self.proof(hellos)
    }

    /// Whether it is the proof that was asked for; takes the same time wherever it differs.
    pub fn is_proof(&self, hellos: &Hellos, given: &Proof) -> bool {
        self.proof(hellos).is_ok_and(|wanted| blake3::Hash::from_bytes(wanted) == blake3::Hash::from_bytes(*given))
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
    fn a_proof_is_good_for_one_key_and_one_pair_of_hellos() {
        let (keys, others) = (Keys::of(&[1; 32]), Keys::of(&[2; 32]));
        let ours = hellos(Role::Control, 0, 3);
        let given = keys.proof(&ours).unwrap();
        assert!(keys.is_proof(&ours, &given));
        assert!(!others.is_proof(&ours, &given));
        assert!(!keys.is_proof(&hellos(Role::Control, 0, 4), &given));
        assert!(!keys.is_proof(&hellos(Role::Pages, 0, 3), &given));
        assert!(!keys.is_proof(&ours, &[0; 32]));
    }

    #[test]
    fn a_client_gets_no_proof_but_for_a_data_link_of_its_own() {
        let keys = Keys::of(&[1; 32]);
        let own = hellos(Role::Data, 7, 3);
        assert_eq!(keys.proof_of(7, &own), keys.proof(&own));
        for wrong in [hellos(Role::Control, 0, 3), hellos(Role::Pages, 7, 3), hellos(Role::Data, 0, 3), hellos(Role::Data, 8, 3)]
        {
            assert!(keys.proof_of(7, &wrong).is_err());
        }
        assert!(keys.proof_of(0, &hellos(Role::Data, 0, 3)).is_err());
        assert!(keys.proof_of(7, &[9; 2 * HELLO_LEN]).is_err());
        let as_node = [own, hellos(Role::Data, 0, 3)].map(|hellos| *blake3::keyed_hash(&keys.client, &hellos).as_bytes());
        assert!(!keys.is_proof(&hellos(Role::Data, 0, 3), &as_node[1]), "a client's key proves no node");
    }
}
