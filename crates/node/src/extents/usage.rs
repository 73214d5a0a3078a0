//! Rounds that find extents which other hosts use most ([`hanare_protocol::usage`]).

use super::{Entry, Extents};
use hanare_protocol::id::{ClientId, Gid, NodeId, Slot};
use hanare_protocol::limits::USED_ELSEWHERE_COUNT_MAX;
use hanare_protocol::usage::{ROUND_MS, UsedElsewhere};
use hanare_ring::revoke::SeenSlots;
use std::collections::{BTreeMap, BTreeSet};

/// When the next round ends, and the threads of this host's programs as the last one found them.
#[derive(Default)]
pub(crate) struct UsageRounds {
    due_ms: u64,
    seen: BTreeMap<ClientId, SeenSlots>,
}

/// Direct accesses of this host's programs in a round.
#[derive(Default)]
struct DirectUse {
    regions: BTreeSet<Gid>,
    /// Programs that may have reached any region that they have mapped.
    anywhere: BTreeSet<ClientId>,
}

impl DirectUse {
    fn reached(&self, entry: &Entry) -> bool {
        self.regions.contains(&entry.held.gid()) || entry.direct.all().any(|client| self.anywhere.contains(&client))
    }
}

impl UsageRounds {
    /// Ends a round where that is due. Returns extents that other hosts use most.
    ///
    /// **Cost**: every [`ROUND_MS`] a look at each extent, and at some 100 words of each program.
    pub fn tick(&mut self, now_ms: u64, extents: &Extents) -> Vec<UsedElsewhere> {
        if now_ms < self.due_ms {
            return Vec::new();
        }
        self.due_ms = now_ms.saturating_add(ROUND_MS);
        let direct = self.direct_use(extents);
        extents.end_round(&direct)
    }

    fn direct_use(&mut self, extents: &Extents) -> DirectUse {
        let slots = extents.thread_slots();
        let clients = slots.clients();
        self.seen.retain(|client, _| clients.contains_key(client));
        let mut direct = DirectUse::default();
        for (client, slots) in clients {
            let worked = slots.words().worked(self.seen.entry(*client).or_default());
            direct.regions.extend(worked.regions.into_iter().map(Gid));
            direct.anywhere.extend(worked.may_be_others.then_some(*client));
        }
        direct
    }
}

impl Extents {
    fn end_round(&self, direct: &DirectUse) -> Vec<UsedElsewhere> {
        let entries = self.read();
        let here = entries.node;
        let used = entries.slots.iter().enumerate().filter_map(|(slot, entry)| {
            let entry = entry.as_ref()?;
            let by: NodeId = entry.held.usage().round(here, entry.held.len(), direct.reached(entry))?;
            Some(UsedElsewhere { gid: entry.held.gid(), slot: Slot(slot as u32), by })
        });
        // Each extent has its round; further ones are told another time.
        let mut used: Vec<UsedElsewhere> = used.collect();
        used.truncate(USED_ELSEWHERE_COUNT_MAX);
        used
    }
}
