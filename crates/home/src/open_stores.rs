//! Stores of programs whose last part has not come, by the link that the parts come on. When it ends, they are dropped.

use hanare_protocol::copies::UpdateCall;
use hanare_protocol::id::{Gid, Slot};
use hanare_protocol::limits::STORE_PARTS_AT_ONCE;
use hanare_protocol::{Error, Result};
use std::collections::BTreeMap;

/// A call that stores to an extent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoresAt {
    pub gid: Gid,
    pub slot: Slot,
    pub call: UpdateCall,
}

/// An extent, and a program's sequence of calls.
type Key = (Gid, Slot, u64, u16);

#[derive(Debug, Default)]
struct LinkStores {
    /// Parts that are not answered.
    under_way: usize,
    /// Calls whose last part has not come.
    calls: BTreeMap<Key, StoresAt>,
}

/// The stores of all links.
#[derive(Debug, Default)]
pub(crate) struct OpenStores(BTreeMap<u64, LinkStores>);

impl OpenStores {
    /// A part comes on a link.
    ///
    /// **Errors**: [`Error::LimitReached`] where too many are under way.
    pub fn begin(&mut self, link: u64, at: StoresAt) -> Result<()> {
        let stores = self.0.entry(link).or_default();
        if stores.under_way >= STORE_PARTS_AT_ONCE {
            let what = "parts of stores of one connection that are under way".to_owned();
            return Err(Error::LimitReached { what, limit: STORE_PARTS_AT_ONCE as u64 });
        }
        stores.under_way += 1;
        stores.calls.insert(key(&at), at);
        Ok(())
    }

    /// A part was answered. The call `is_over` with its last part, and with a refusal.
    pub fn end(&mut self, link: u64, at: &StoresAt, is_over: bool) {
        let Some(stores) = self.0.get_mut(&link) else { return };
        stores.under_way = stores.under_way.saturating_sub(1);
        if is_over && stores.calls.get(&key(at)).is_some_and(|open| open.call.number == at.call.number) {
            stores.calls.remove(&key(at));
        }
        if stores.under_way == 0 && stores.calls.is_empty() {
            self.0.remove(&link);
        }
    }

    /// A link has ended. Gives the calls whose last part will not come on it.
    pub fn forget(&mut self, link: u64) -> impl Iterator<Item = StoresAt> {
        self.0.remove(&link).unwrap_or_default().calls.into_values()
    }
}

fn key(at: &StoresAt) -> Key {
    (at.gid, at.slot, at.call.client, at.call.sequence)
}
