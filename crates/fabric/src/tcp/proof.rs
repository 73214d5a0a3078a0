//! Secrets of connections: a keyed hash over both hellos, so that it is good for these two alone.
//!
//! The pool's key itself proves nothing. Secrets of nodes come from one key derived from it, those of clients from another. So nobody who
//! has a client's secret is taken for a node.
//!
//! While a pool's key is replaced a node has several keys. An acceptor believes each, and names them in its hello, where a connector has
//! its number and client. The names are keyed hashes of the connector's hello, which mean nothing without the key. So the connector
//! proves a key that both sides have.

use super::{Caller, Hellos, Secret};
use hanare_protocol::id::User;
use hanare_protocol::limits::KEY_COUNT_MAX;
use hanare_protocol::versions::Versions;
use hanare_protocol::wire::Malformed;
use hanare_protocol::wire::greeting::{HELLO_LEN, Hello, NONCE_LEN, Role, Sealing};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

/// A node's proofs to others, for itself and for its clients. Copies share the keys, and see them change.
#[derive(Clone)]
pub struct Keys {
    all: Arc<RwLock<Vec<Derived>>>,
    sealing: Sealing,
    versions: Versions,
}

/// Content of the file with a pool's key.
pub enum PoolKeys {
    /// Drawn keys, [`KEY_COUNT_MAX`] at most: all are believed, and the first is proved where the other side has it.
    Drawn(Vec<[u8; 32]>),
    /// The key that a passphrase gives.
    Passphrase([u8; 32]),
}

impl From<&[u8; 32]> for PoolKeys {
    fn from(key: &[u8; 32]) -> PoolKeys {
        PoolKeys::Drawn(vec![*key])
    }
}

/// Keys derived from one pool key.
struct Derived {
    node: [u8; 32],
    client: [u8; 32],
    /// Names the key to peers that have it; none where that would help to guess a passphrase.
    name: Option<[u8; 32]>,
}

/// The name of a key, for one connector's hello alone; 0 for none.
type Name = u32;

impl Derived {
    fn of(pool: &[u8; 32], is_named: bool) -> Derived {
        Derived {
            node: blake3::derive_key("hanare 2026-11 greeting of a node", pool),
            client: blake3::derive_key("hanare 2026-11 greeting of a client", pool),
            name: is_named.then(|| blake3::derive_key("hanare 2026-11 name of a key", pool)),
        }
    }

    fn name(&self, connector: &[u8; HELLO_LEN]) -> Name {
        let hash = self.name.map(|name| blake3::keyed_hash(&name, connector));
        hash.map_or(0, |hash| Name::from_le_bytes(*hash.as_bytes().first_chunk().expect("a hash is longer")).max(1))
    }

    fn secret(&self, connector: &Hello, hellos: &Hellos) -> Result<Secret, Malformed> {
        let key = match (connector.client, connector.role) {
            (0, _) => &self.node,
            (_, Role::Data | Role::Link) => &self.client,
            _ => return Err(Malformed("a client with a node's role")),
        };
        Ok(*blake3::keyed_hash(key, hellos).as_bytes())
    }
}

impl Keys {
    /// The keys that follow from the pool's, of a node that seals these connections.
    pub fn of(pool: impl Into<PoolKeys>, sealing: Sealing) -> Keys {
        let keys = Keys { all: Arc::default(), sealing, versions: Versions::BUILD };
        keys.replace(pool.into());
        keys
    }

    /// The same keys of a node that speaks these versions of the wire, and not all of its build.
    pub fn speaking(self, versions: Versions) -> Keys {
        Keys { versions, ..self }
    }

    /// Versions of the wire that the node speaks.
    pub fn versions(&self) -> Versions {
        self.versions
    }

    /// Replaces all keys. Connections that are there go on; new ones are proved with the new keys.
    pub fn replace(&self, pool: PoolKeys) {
        *self.all.write().unwrap_or_else(PoisonError::into_inner) = match pool {
            PoolKeys::Drawn(keys) => keys.iter().take(KEY_COUNT_MAX).map(|key| Derived::of(key, true)).collect(),
            PoolKeys::Passphrase(key) => vec![Derived::of(&key, false)],
        };
    }

    /// The connections to seal.
    pub fn sealing(&self) -> Sealing {
        self.sealing
    }

    /// The node as a connector.
    pub fn caller(&self, role: Role, from: u64) -> Caller {
        Caller { role, from, client: 0, user: User { uid: 0, gid: 0 }, sealing: self.sealing, versions: self.versions }
    }

    /// The acceptor's hello, which names its keys to peers that have one of them, and to nobody else.
    pub(super) fn acceptor(&self, connector: &Hello, nonce: [u8; NONCE_LEN]) -> Hello {
        let (all, theirs) = (self.read(), connector.encode());
        let name = |index: usize| all.get(index).map_or(0, |key| u64::from(key.name(&theirs)));
        let two = |index: usize| name(index) | name(index + 1) << 32;
        Hello { versions: self.versions, client: two(2), ..Hello::new(connector.role, two(0), nonce) }
    }

    /// The secret of these hellos, of the first key that the acceptor names too. It comes from the clients' key where the connector names a
    /// client.
    ///
    /// **Errors**: one of the two is no hello, or the first names a client in a role of nodes.
    pub fn secret(&self, hellos: &Hellos) -> Result<Secret, Malformed> {
        let (first, second) = split(hellos);
        let (connector, acceptor) = (Hello::decode(first)?, Hello::decode(second)?);
        let named =
            [acceptor.from as Name, (acceptor.from >> 32) as Name, acceptor.client as Name, (acceptor.client >> 32) as Name];
        let all = self.read();
        let key = all.iter().find(|key| key.name.is_some() && named.contains(&key.name(first))).or(all.first());
        key.ok_or(Malformed("no key"))?.secret(&connector, hellos)
    }

    /// The secrets of these hellos that an acceptor believes: one for each key.
    ///
    /// **Errors**: as for [`Keys::secret`].
    pub(super) fn secrets(&self, hellos: &Hellos) -> Result<Vec<Secret>, Malformed> {
        let connector = Hello::decode(split(hellos).0)?;
        self.read().iter().map(|key| key.secret(&connector, hellos)).collect()
    }

    /// The secret of a client's own data link.
    ///
    /// **Errors**: the first hello is not for a data link, or names another client, another user, or a node.
    pub fn secret_of(&self, client: u64, user: User, hellos: &Hellos) -> Result<Secret, Malformed> {
        let connector = Hello::decode(split(hellos).0)?;
        if client == 0
            || (connector.client, connector.user) != (client, user)
            || !matches!(connector.role, Role::Data | Role::Link)
        {
            return Err(Malformed("the secret of another than its own data link"));
        }
        self.secret(hellos)
    }

    fn read(&self) -> RwLockReadGuard<'_, Vec<Derived>> {
        self.all.read().unwrap_or_else(PoisonError::into_inner)
    }
}

fn split(hellos: &Hellos) -> (&[u8; HELLO_LEN], &[u8; HELLO_LEN]) {
    let (first, second) = hellos.split_first_chunk().expect("hellos are two hellos long");
    (first, second.first_chunk().expect("hellos are two hellos long"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hanare_protocol::wire::greeting::NONCE_LEN;

    const USER: User = User { uid: 10, gid: 20 };

    fn hellos(role: Role, client: u64, nonce: u8) -> Hellos {
        let hello = Hello { client, user: USER, ..Hello::new(role, 0, [nonce; NONCE_LEN]) };
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
        assert_eq!(keys.secret_of(7, USER, &own), keys.secret(&own));
        for wrong in [hellos(Role::Control, 0, 3), hellos(Role::Pages, 7, 3), hellos(Role::Data, 0, 3), hellos(Role::Data, 8, 3)]
        {
            assert!(keys.secret_of(7, USER, &wrong).is_err());
        }
        assert!(keys.secret_of(0, USER, &hellos(Role::Data, 0, 3)).is_err());
        for user in [User { uid: 0, ..USER }, User { gid: 0, ..USER }] {
            assert!(keys.secret_of(7, user, &own).is_err(), "another user's");
        }
        assert!(keys.secret_of(7, USER, &[9; 2 * HELLO_LEN]).is_err());
        let as_node = hellos(Role::Data, 0, 3);
        let forged = *blake3::keyed_hash(&keys.read()[0].client, &as_node).as_bytes();
        assert_ne!(keys.secret(&as_node), Ok(forged), "the clients' key makes no node's secret");
    }

    #[test]
    fn a_connector_proves_a_key_that_both_have_and_an_acceptor_believes_each() {
        let drawn = |keys: &[u8]| Keys::of(PoolKeys::Drawn(keys.iter().map(|key| [*key; 32]).collect()), Sealing::Auto);
        let met = |one: &Keys, other: &Keys| {
            let connector = Hello::new(Role::Control, 0, [3; NONCE_LEN]);
            let hellos = super::super::join(&connector.encode(), &other.acceptor(&connector, [4; NONCE_LEN]).encode());
            let place = other.secrets(&hellos).unwrap().iter().position(|secret| *secret == one.secret(&hellos).unwrap());
            place.map(|place| place + 1)
        };
        let (old, both, new) = (drawn(&[1]), drawn(&[2, 1]), drawn(&[2]));
        assert_eq!(
            [met(&old, &both), met(&both, &old), met(&new, &both), met(&both, &new)],
            [Some(2), Some(1), Some(1), Some(1)]
        );
        assert_eq!([met(&old, &new), met(&new, &old)], [None, None]);
        let last = drawn(&[9, 8, 7, 1]);
        assert_eq!((met(&last, &old), met(&old, &last)), (Some(1), Some(4)));
        let copy = old.clone();
        old.replace(PoolKeys::Drawn(vec![[2; 32]]));
        assert_eq!(met(&copy, &new), Some(1), "copies see it");
        let phrase = Keys::of(PoolKeys::Passphrase([5; 32]), Sealing::Auto);
        let connector = Hello::new(Role::Control, 0, [3; NONCE_LEN]);
        let said = phrase.acceptor(&connector, [4; NONCE_LEN]);
        assert_eq!((said.from, said.client), (0, 0), "a passphrase is not named");
        assert_eq!(met(&phrase, &phrase), Some(1));
    }
}
