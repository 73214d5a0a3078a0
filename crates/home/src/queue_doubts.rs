//! Ports of which a home that follows another has not heard: the home before knew their connections. Their programs may live, and be idle.
//!
//! ```text
//! elected ──> look at the ports: not on a link here ──> ask the nodes of their programs ──┬─ it lives ──> look again later
//!                                                                                         └─ unknown, or no answer ──> gone
//! ```
//!
//! A port that asks something is on a link from then on, whose end tells that it is gone.

use crate::memory::{Bytes, Memory};
use crate::queue_ports::{GonePorts, QueuePorts};
use hanare_protocol::id::{ClientId, Gid, Slot};
use hanare_protocol::limits::LEASE_MS;
use hanare_protocol::lock::{Claimant, RecallDue, RecallTimes, Recalled};
use hanare_protocol::queue::OpenPort;
use std::collections::BTreeSet;
use std::time::Duration;

/// Time between looks at ports, at first. Each look that finds nobody gone doubles it.
const LOOK_PAUSE: Duration = Duration::from_millis(LEASE_MS / 3);

/// The longest time between looks.
const LONGEST_PAUSE: Duration = Duration::from_millis(4 * LEASE_MS);

/// The doubts of a home.
#[derive(Debug)]
pub(crate) struct PortDoubts {
    /// Extents with ports that may have no link here.
    extents: BTreeSet<(Gid, Slot)>,
    /// When they were looked at last, and the time to the next look.
    looked: Duration,
    pause: Duration,
    /// Programs whose nodes are asked.
    asked: RecallTimes,
    /// Programs that are gone.
    gone: BTreeSet<ClientId>,
}

impl Default for PortDoubts {
    fn default() -> PortDoubts {
        let (extents, looked, gone) = Default::default();
        PortDoubts { extents, looked, pause: LOOK_PAUSE, asked: RecallTimes::new(false), gone }
    }
}

impl PortDoubts {
    /// Ports of an extent may have no link here.
    pub fn add(&mut self, at: (Gid, Slot)) {
        self.extents.insert(at);
        self.pause = LOOK_PAUSE;
    }

    /// When [`PortDoubts::look`] is due, or [`PortDoubts::next_asked`].
    pub fn deadline(&self) -> Option<Duration> {
        let asks = self.asked.deadline().map(Duration::from_millis);
        let looks = (!self.extents.is_empty()).then(|| self.looked.saturating_add(self.pause));
        [asks, looks].into_iter().flatten().min()
    }

    /// The node is a member of its pool, or not any more: then it asks in vain.
    pub fn set_member(&mut self, now: Duration, is_member: bool) {
        self.asked.set_member(is_member, now.as_millis() as u64);
    }

    /// The node of a program says whether it lives. What nobody asked is not heard.
    pub fn on_answer(&mut self, client: ClientId, recalled: Recalled) {
        if !self.asked.has(claimant(client)) {
            return;
        }
        self.asked.end(claimant(client));
        if recalled == Recalled::Unknown {
            self.bury(client);
        }
    }

    /// A program is gone. The next look finds its ports.
    fn bury(&mut self, client: ClientId) {
        self.gone.insert(client);
        self.pause = LOOK_PAUSE;
    }

    /// The next program whose node is to be asked.
    pub fn next_asked(&mut self, now: Duration) -> Option<ClientId> {
        loop {
            match self.asked.next_due(now.as_millis() as u64)? {
                RecallDue::Ask(who) => return Some(ClientId(who.number)),
                RecallDue::Over(who) => self.bury(ClientId(who.number)),
            }
        }
    }

    /// Looks for ports without a link here, where that is due: has the nodes of their programs asked, and gives those that are gone. An extent that is
    /// not open waits; one of which this node `is_home` no more is another's care.
    ///
    /// **Cost**: a look at all ports of the extents in doubt.
    pub fn look<M: Memory>(
        &mut self,
        now: Duration,
        ports: &QueuePorts,
        memory: &M,
        is_home: impl Fn(Gid, Slot) -> bool,
    ) -> GonePorts {
        let (mut gone, mut asked) = (GonePorts::new(), BTreeSet::new());
        if now < self.looked.saturating_add(self.pause) {
            return gone;
        }
        let those_gone = std::mem::take(&mut self.gone);
        let pause = if those_gone.is_empty() { self.pause.saturating_mul(2).min(LONGEST_PAUSE) } else { LOOK_PAUSE };
        (self.looked, self.pause) = (now, pause);
        self.extents.retain(|(gid, slot)| {
            let Some(extent) = memory.find(*gid, *slot).filter(|_| is_home(*gid, *slot)) else { return false };
            let mut is_in_doubt = false;
            for table in extent.ports() {
                for OpenPort { queue, id, client } in table.open_ports().filter(|port| !ports.is_here(port.id, (*gid, *slot))) {
                    is_in_doubt = true;
                    match client.filter(|client| !those_gone.contains(client)) {
                        Some(client) => drop(asked.insert(client)),
                        None => gone.entry((*gid, *slot, table.at)).or_default().push((queue, id)),
                    }
                }
            }
            is_in_doubt
        });
        let now_ms = now.as_millis() as u64;
        for client in asked {
            if !self.asked.has(claimant(client)) {
                self.asked.begin(claimant(client), now_ms);
            }
        }
        gone
    }
}

/// A program, where questions are for takings of locks.
fn claimant(client: ClientId) -> Claimant {
    Claimant { link: 0, number: client.0 }
}
