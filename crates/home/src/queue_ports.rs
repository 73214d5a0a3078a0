//! Ports of queues, by the link that they came on: when it ends, they are gone.

use crate::memory::{Bytes, Memory};
use hanare_protocol::id::{Gid, Rights, Slot};
use hanare_protocol::limits::{QUEUE_LINK_PORT_COUNT_MAX, QUEUE_READY_COUNT_MAX};
use hanare_protocol::queue::PortId;
use hanare_protocol::wire::queue::{ArrayAt, QueueRequest};
use hanare_protocol::wire::sync::SyncAnswer;
use hanare_protocol::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Default)]
pub(crate) struct QueuePorts {
    links: BTreeMap<u64, BTreeSet<Port>>,
}

/// A port, each once on its link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Port {
    id: PortId,
    gid: Gid,
    slot: Slot,
    at: u64,
    queue: u64,
    /// The lane of a writer.
    lane: Option<u32>,
}

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
        let first = Port { id: writer, gid: Gid(0), slot: Slot(0), at: 0, queue: 0, lane: None };
        self.links.iter().find_map(|(link, ports)| {
            let mut own = ports.range(first..).take_while(|port| port.id == writer);
            let (port, lane) = own.find_map(|port| Some((port, port.lane?)))?;
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
        let port = |id: u64, queue: u64, lane: Option<u32>| Port { id: PortId(id), gid, slot, at: offset, queue, lane };
        match request {
            QueueRequest::OpenLane { queue, writer } => {
                self.check_room(link)?;
                let (lane, accepted) = extent.with_queues(offset, |home| home.open_lane(queue, PortId(writer), uid))?;
                self.note(link, port(writer, queue, Some(lane)));
                return Ok(SyncAnswer::Lane { lane, accepted });
            }
            QueueRequest::ResumeLane { queue, lane, writer } => {
                self.check_room(link)?;
                let accepted = extent.with_queues(offset, |home| home.resume_lane(queue, lane, PortId(writer)))?;
                self.note(link, port(writer, queue, Some(lane)));
                return Ok(SyncAnswer::Lane { lane, accepted });
            }
            QueueRequest::OpenReader { first, count, reader } => {
                self.check_room(link)?;
                extent.with_queues(offset, |home| home.open_reader(first, count, PortId(reader)))?;
                self.note(link, port(reader, first, None));
            }
            QueueRequest::CloseLane { queue, lane, writer } => {
                self.drop(link, port(writer, queue, Some(lane)));
                extent.with_queues(offset, |home| {
                    home.close_lane(queue, lane, PortId(writer));
                    Ok(())
                })?;
            }
            QueueRequest::CloseReader { first, reader } => {
                self.drop(link, port(reader, first, None));
                extent.with_queues(offset, |home| {
                    home.close_reader(first, PortId(reader));
                    Ok(())
                })?;
            }
            QueueRequest::Free { queue, lane, reader, head } => {
                extent.with_queues(offset, |home| home.free((queue, lane), PortId(reader), head))?;
            }
            QueueRequest::Leave { queue, reader } => {
                extent.with_queues(offset, |home| home.leave(queue, PortId(reader)))?;
            }
            QueueRequest::TakeReady { reader } => {
                let ready = extent.with_queues(offset, |home| home.take_ready(PortId(reader)))?;
                let mut queues = [0; QUEUE_READY_COUNT_MAX];
                queues.iter_mut().zip(&ready).for_each(|(to, from)| *to = *from);
                return Ok(SyncAnswer::Ready { count: ready.len() as u8, queues });
            }
            QueueRequest::Tell { queue, lane, reader } => {
                extent.with_queues(offset, |home| home.tell((queue, lane), PortId(reader)))?;
            }
        }
        Ok(SyncAnswer::Done)
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
        self.links.entry(link).or_default().insert(port);
    }

    fn drop(&mut self, link: u64, port: Port) {
        if let Some(ports) = self.links.get_mut(&link) {
            ports.remove(&port);
        }
    }

    /// A link ended: writers on it are gone, and readers.
    pub fn forget(&mut self, link: u64, memory: &impl Memory) {
        for port in self.links.remove(&link).into_iter().flatten() {
            let Some(extent) = memory.find(port.gid, port.slot) else { continue };
            // A queue that was overwritten meanwhile is nobody's.
            let _ = extent.with_queues(port.at, |home| {
                match port.lane {
                    Some(lane) => home.break_lane(port.queue, lane, port.id),
                    None => home.break_reader(port.queue, port.id),
                }
                Ok(())
            });
        }
    }
}
