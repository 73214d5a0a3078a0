//! Direct access of this host's clients to an extent, and its revocation by the node. It has the rules of
//! [`hanare_protocol::page::direct_access`], on the words that each client shares with the node.

use hanare_protocol::id::{ClientId, Gid};
use hanare_protocol::page::direct_access::{DirectAccess, Standing};
use hanare_ring::revoke::Entered;
use hanare_ring::thread_slots::ThreadSlots;
use std::collections::BTreeMap;

/// The clients that have one extent mapped as it is.
#[derive(Default)]
pub(crate) struct Programs {
    direct_access: DirectAccess<ClientId>,
    /// Threads of clients that were at work when the right was taken back.
    entered: BTreeMap<ClientId, Entered>,
}

impl Programs {
    pub fn is_empty(&self) -> bool {
        self.all().next().is_none()
    }

    pub fn all(&self) -> impl Iterator<Item = ClientId> + '_ {
        self.direct_access.programs()
    }

    /// A client maps it; `pins` if it gives a pointer out.
    pub fn map(&mut self, client: ClientId, pins: bool) {
        self.direct_access.map(client, pins);
        self.entered.remove(&client);
    }

    /// A client's pointers are gone.
    pub fn unpin(&mut self, client: ClientId) {
        self.direct_access.unpin(client);
    }

    /// A client maps it no more, or has ended.
    pub fn release(&mut self, client: ClientId) {
        self.direct_access.release(client);
        self.entered.remove(&client);
    }

    /// Takes the right back from all, and says whether commands of theirs may be under way that began before.
    pub fn take_back(&mut self, gid: Gid, slots: &BTreeMap<ClientId, ThreadSlots>) -> Standing {
        let revoked = self.direct_access.revoke();
        let their_slots: Vec<&ThreadSlots> = revoked.iter().filter_map(|client| slots.get(client)).collect();
        their_slots.iter().for_each(|slots| slots.words().revoke(gid.0));
        // A single barrier serves all.
        their_slots.first().inspect(|slots| slots.words().barrier());
        for client in revoked {
            self.entered.extend(slots.get(&client).map(|slots| (client, slots.words().entered(gid.0))));
        }
        for client in self.direct_access.revoked() {
            // A client without slots has ended, and its mappings with it.
            let is_done = match (slots.get(&client), self.entered.get_mut(&client)) {
                (Some(slots), Some(entered)) => slots.words().have_left(entered),
                _ => true,
            };
            if is_done {
                self.direct_access.settle(client);
                self.entered.remove(&client);
            }
        }
        self.direct_access.standing()
    }
}
