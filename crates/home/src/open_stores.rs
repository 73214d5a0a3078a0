//! Stores of programs whose last part has not come, by the link that the parts come on. When it ends, they are dropped.
//!
//! Each user has a part of the room of this home. So nobody keeps other users' releases from being whole.

use hanare_protocol::copies::UpdateCall;
use hanare_protocol::id::{Gid, Slot};
use hanare_protocol::limits::{PENDING_NODE_LEN_MAX, PENDING_USER_LEN_MAX, STORE_PARTS_AT_ONCE};
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
    user: u32,
    /// Parts that are not answered.
    under_way: usize,
    /// Calls whose last part has not come, with the memory of their parts.
    calls: BTreeMap<Key, (StoresAt, u64)>,
}

/// The stores of all links.
#[derive(Debug, Default)]
pub(crate) struct OpenStores {
    links: BTreeMap<u64, LinkStores>,
    /// Memory of each user's parts.
    users: BTreeMap<u32, u64>,
}

impl OpenStores {
    /// A part comes on a link of that user.
    ///
    /// **Errors**: [`Error::LimitReached`] where too many are under way, or too many bytes wait. The call is not over by that.
    pub fn begin(&mut self, (link, user): (u64, u32), at: StoresAt, (memory_len, is_last): (u64, bool)) -> Result<()> {
        let full = |what: &str, limit: u64| Err(Error::LimitReached { what: what.to_owned(), limit });
        let under_way = self.links.get(&link).map_or(0, |stores| stores.under_way);
        if under_way >= STORE_PARTS_AT_ONCE {
            return full("parts of stores of one connection that are under way", STORE_PARTS_AT_ONCE as u64);
        }
        let memory_len = if is_last { 0 } else { memory_len };
        let own = self.users.get(&user).copied().unwrap_or(0) + memory_len;
        let all = self.users.values().sum::<u64>() + memory_len;
        if !is_last && (own > PENDING_USER_LEN_MAX || all > PENDING_NODE_LEN_MAX) {
            return full("bytes of stores that wait for the last part of their release", PENDING_USER_LEN_MAX);
        }
        let stores = self.links.entry(link).or_insert_with(|| LinkStores { user, ..LinkStores::default() });
        stores.under_way += 1;
        let call = stores.calls.entry(key(&at)).or_insert((at, 0));
        if call.0.call.number != at.call.number {
            // The call of before will not end.
            self.users.entry(user).and_modify(|len| *len -= call.1);
            *call = (at, 0);
        }
        call.1 += memory_len;
        *self.users.entry(user).or_default() += memory_len;
        Ok(())
    }

    /// A part was answered. The call `is_over` with its last part, and where one was refused for good. Returns true if the call was not over before.
    pub fn end(&mut self, link: u64, at: &StoresAt, is_over: bool) -> bool {
        let Some(stores) = self.links.get_mut(&link) else { return false };
        stores.under_way = stores.under_way.saturating_sub(1);
        let was_open = is_over && self.end_call(link, at);
        self.links.retain(|of, stores| *of != link || stores.under_way > 0 || !stores.calls.is_empty());
        was_open
    }

    /// No further part of a call counts. Returns true if it was not over before.
    pub fn end_call(&mut self, link: u64, at: &StoresAt) -> bool {
        let Some(stores) = self.links.get_mut(&link) else { return false };
        let is_open = stores.calls.get(&key(at)).is_some_and(|(open, _)| open.call.number == at.call.number);
        if is_open {
            let len = stores.calls.remove(&key(at)).map_or(0, |(_, len)| len);
            let user = stores.user;
            self.give_back(user, len);
        }
        is_open
    }

    /// A user's parts wait no more.
    fn give_back(&mut self, user: u32, len: u64) {
        let left = self.users.get(&user).copied().unwrap_or(0) - len;
        match left {
            0 => drop(self.users.remove(&user)),
            left => drop(self.users.insert(user, left)),
        }
    }

    /// A link has ended. Gives the calls whose last part will not come on it.
    pub fn forget(&mut self, link: u64) -> Vec<StoresAt> {
        let Some(LinkStores { user, calls, .. }) = self.links.remove(&link) else { return Vec::new() };
        self.give_back(user, calls.values().map(|(_, len)| len).sum());
        calls.into_values().map(|(at, _)| at).collect()
    }
}

fn key(at: &StoresAt) -> Key {
    (at.gid, at.slot, at.call.client, at.call.sequence)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(client: u64, number: u64) -> StoresAt {
        StoresAt { gid: Gid(1), slot: Slot(0), call: UpdateCall { client, sequence: 0, number, is_repeat: false } }
    }

    const LEN: u64 = 1 << 20;

    /// Sends parts on links of a user until one is refused. Returns how many bytes wait.
    fn fill(stores: &mut OpenStores, user: u32) -> u64 {
        for part in 0.. {
            let link = (u64::from(user) << 32) | (part % 7);
            if stores.begin((link, user), at(link, 1), (LEN, false)).is_err() {
                break;
            }
            stores.end(link, &at(link, 1), false);
        }
        stores.users.get(&user).copied().unwrap_or(0)
    }

    #[test]
    fn a_user_leaves_room_for_others_and_all_have_a_bound() {
        let mut stores = OpenStores::default();
        let one = fill(&mut stores, 7);
        assert!(one <= PENDING_USER_LEN_MAX && one > PENDING_USER_LEN_MAX / 2, "{one}");
        let other = fill(&mut stores, 8);
        assert!(one + other <= PENDING_NODE_LEN_MAX && other > PENDING_NODE_LEN_MAX / 8, "{other}");
        let links: Vec<u64> = stores.links.keys().copied().collect();
        let open: usize = links.into_iter().map(|link| stores.forget(link).len()).sum();
        assert!(open >= 12 && stores.users.is_empty() && stores.links.is_empty(), "{open}: {stores:?}");
        assert_eq!(fill(&mut stores, 8), one);
    }

    #[test]
    fn calls_that_are_over_and_begun_again_leave_nothing() {
        let mut stores = OpenStores::default();
        for (number, is_last) in [(1, false), (1, false), (2, false), (2, true)] {
            stores.begin((5, 7), at(3, number), (LEN, is_last)).unwrap();
            stores.end(5, &at(3, number), is_last);
        }
        assert!(stores.users.is_empty() && stores.links.is_empty(), "{stores:?}");
        stores.begin((5, 7), at(3, 3), (LEN, false)).unwrap();
        stores.end(5, &at(3, 3), true);
        assert!(stores.users.is_empty() && stores.forget(5).is_empty(), "a refusal ends it: {stores:?}");
    }

    #[test]
    fn parts_under_way_on_one_link_have_a_bound() {
        let mut stores = OpenStores::default();
        let sent = (0..100).take_while(|_| stores.begin((5, 7), at(3, 1), (1, false)).is_ok()).count();
        assert_eq!(sent, STORE_PARTS_AT_ONCE);
        stores.end(5, &at(3, 1), false);
        assert!(stores.begin((5, 7), at(3, 1), (1, true)).is_ok());
    }
}
