//! Ports of queues, by the link that they came on: when it ends, they are gone.

use crate::memory::{Bytes, Memory};
use hanare_protocol::id::{Gid, Rights, Slot};
use hanare_protocol::limits::QUEUE_LINK_PORT_COUNT_MAX;
use hanare_protocol::queue::PortId;
use hanare_protocol::wire::queue::{AppendFront, ArrayAt, QueueCall, QueueChange, QueueRequest};
use hanare_protocol::wire::sync::SyncAnswer;
use hanare_protocol::{Error, Result};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Default)]
pub(crate) struct QueuePorts {
    links: BTreeMap<u64, BTreeSet<Port>>,
    /// Ports of extents, each with how often it is on links.
    here: BTreeMap<(PortId, Gid, Slot), usize>,
}

/// A port, each once on its link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Port {
    id: PortId,
    gid: Gid,
    slot: Slot,
    at: u64,
    queue: u64,
    /// The lane of a writer. `None` for readers, and for all ports that came by a call which holders of copies carry out.
    lane: Option<u32>,
}

/// Ports that are gone, each with its queue, by extent and the first byte of their array.
pub(crate) type GonePorts = BTreeMap<(Gid, Slot, u64), Vec<(u64, PortId)>>;

/// The lane of a writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneAt {
    /// The link that the writer came on.
    pub link: u64,
    /// The region.
    pub gid: Gid,
    /// The extent.
    pub slot: Slot,
    /// The first byte of the array in it.
    pub at: u64,
    /// The queue.
    pub queue: u64,
    /// The lane.
    pub lane: u32,
}

impl QueuePorts {
    /// The lane of a writer that is here. **Cost**: a search in the ports of each link.
    pub fn lane_of(&self, writer: PortId) -> Option<LaneAt> {
        self.links.iter().find_map(|(link, ports)| {
            let (port, lane) = of_id(ports, writer).find_map(|port| Some((port, port.lane?)))?;
            Some(LaneAt { link: *link, gid: port.gid, slot: port.slot, at: port.at, queue: port.queue, lane })
        })
    }

    /// A port of that link, of a program of that user, asks something.
    ///
    /// **Errors**: [`Error::GrantRefused`], [`Error::IsMapped`]; those of [`QueueArray`](crate::QueueArray).
    pub fn on_request(
        &mut self,
        (link, uid): (u64, u32),
        at: ArrayAt,
        request: QueueRequest,
        memory: &impl Memory,
    ) -> Result<SyncAnswer> {
        let extent = memory.open(at.slot, at.grant, Rights::Write)?;
        if extent.is_by_pages() {
            return Err(Error::IsMapped { gid: extent.gid() });
        }
        let (gid, slot, offset) = (extent.gid(), extent.slot(), at.offset);
        let (queue, id) = request.port();
        if request.opens() {
            self.check_room(link)?;
        }
        if request.closes() {
            self.drop(link, id, |port| (port.gid, port.slot, port.at, port.queue) == (gid, slot, offset, queue));
        }
        let answer = extent.with_queues(offset, |array| array.answer(request, uid))?;
        if request.opens() {
            let lane = if let SyncAnswer::Lane { lane, .. } = answer { Some(lane) } else { None };
            self.note(link, Port { id, gid, slot, at: offset, queue, lane });
        }
        Ok(answer)
    }

    /// A port of that link asks something, or appends, and all holders of its extent carry that out. It is gone when the link ends.
    ///
    /// **Errors**: [`Error::LimitReached`] for a port that comes.
    pub fn on_call(&mut self, link: u64, at: (Gid, Slot), call: &QueueCall) -> Result<()> {
        let (gid, slot) = at;
        let (queue, id, opens) = match &call.what {
            QueueChange::Port { request, .. } if request.closes() => {
                self.drop(link, request.port().1, |port| (port.gid, port.slot, port.at) == (gid, slot, call.offset));
                return Ok(());
            }
            QueueChange::Port { request, .. } => (request.port().0, request.port().1, request.opens()),
            QueueChange::Append { operand, .. } => match AppendFront::decode(operand) {
                Ok((front, _)) => (front.queue, front.writer, false),
                Err(_) => return Ok(()),
            },
            QueueChange::Gone { .. } => return Ok(()),
        };
        if self.links.get(&link).is_some_and(|ports| has(ports, id, at)) {
            return Ok(());
        }
        match self.check_room(link) {
            Err(full) if opens => return Err(full),
            Err(_) => {}
            Ok(()) => self.note(link, Port { id, gid, slot, at: call.offset, queue, lane: None }),
        }
        Ok(())
    }

    /// A port that was to come on that link did not.
    pub fn refused(&mut self, link: u64, id: PortId) {
        self.drop(link, id, |_| true);
    }

    /// True if a port of an extent is on a link of this home.
    pub fn is_here(&self, id: PortId, at: (Gid, Slot)) -> bool {
        self.here.contains_key(&(id, at.0, at.1))
    }

    /// Number of ports of a link.
    #[cfg(test)]
    pub fn count(&self, link: u64) -> usize {
        self.links.get(&link).map_or(0, BTreeSet::len)
    }

    fn check_room(&self, link: u64) -> Result<()> {
        match self.links.get(&link) {
            Some(ports) if ports.len() >= QUEUE_LINK_PORT_COUNT_MAX => Err(Error::LimitReached {
                what: "ports of queues of one program at a node".to_owned(),
                limit: QUEUE_LINK_PORT_COUNT_MAX as u64,
            }),
            _ => Ok(()),
        }
    }

    fn note(&mut self, link: u64, port: Port) {
        if self.links.entry(link).or_default().insert(port) {
            *self.here.entry((port.id, port.gid, port.slot)).or_default() += 1;
        }
    }

    /// A port is not on a link any more.
    fn leave(&mut self, port: &Port) {
        if let Entry::Occupied(mut count) = self.here.entry((port.id, port.gid, port.slot)) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }

    fn drop(&mut self, link: u64, id: PortId, is_its: impl Fn(&Port) -> bool) {
        let Some(ports) = self.links.get_mut(&link) else { return };
        let those: Vec<Port> = of_id(ports, id).filter(|port| is_its(port)).copied().collect();
        for port in &those {
            ports.remove(port);
        }
        those.iter().for_each(|port| self.leave(port));
    }

    /// A link ended: writers on it are gone, and readers. Gives those whose extents have copies, which are to be told. A port that has come on
    /// another link is not gone.
    pub fn forget(&mut self, link: u64, memory: &impl Memory, has_copies: impl Fn(Gid, Slot) -> bool) -> GonePorts {
        let (mut gone, ports) = (GonePorts::new(), self.links.remove(&link).unwrap_or_default());
        ports.iter().for_each(|port| self.leave(port));
        for port in ports {
            let at = (port.gid, port.slot);
            if has_copies(port.gid, port.slot) {
                if !self.is_here(port.id, at) {
                    gone.entry((port.gid, port.slot, port.at)).or_default().push((port.queue, port.id));
                }
                continue;
            }
            let Some(extent) = memory.find(port.gid, port.slot) else { continue };
            // A queue that was overwritten meanwhile is nobody's.
            let _ = extent.with_queues(port.at, |array| {
                match port.lane {
                    Some(lane) => array.break_lane(port.queue, lane, port.id),
                    None => array.break_port(port.queue, port.id),
                }
                Ok(())
            });
        }
        gone
    }
}

/// The ports of a link with that number.
fn of_id(ports: &BTreeSet<Port>, id: PortId) -> impl Iterator<Item = &Port> {
    let first = Port { id, gid: Gid(0), slot: Slot(0), at: 0, queue: 0, lane: None };
    ports.range(first..).take_while(move |port| port.id == id)
}

fn has(ports: &BTreeSet<Port>, id: PortId, (gid, slot): (Gid, Slot)) -> bool {
    of_id(ports, id).any(|port| (port.gid, port.slot) == (gid, slot))
}
