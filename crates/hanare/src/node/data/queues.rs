//! Ports of queues, by the connection that they came on: when it ends, they are gone.

use crate::node::extents::Extents;
use crate::node::held::Held;
use hanare_protocol::id::{Gid, Rights};
use hanare_protocol::limits::{QUEUE_LINK_PORT_COUNT_MAX, QUEUE_READY_COUNT_MAX};
use hanare_protocol::queue::PortId;
use hanare_protocol::wire::queue::{ArrayAt, QueueRequest};
use hanare_protocol::wire::sync::SyncAnswer;
use hanare_protocol::{Error, Result};
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

#[derive(Default)]
pub(crate) struct QueuePorts {
    /// Each with its extent, unless the region was removed.
    sessions: BTreeMap<u64, BTreeMap<Port, Weak<Held>>>,
}

/// A port, each once on its connection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Port {
    id: PortId,
    gid: Gid,
    at: u64,
    queue: u64,
    /// Of a writer.
    lane: Option<u32>,
}

impl QueuePorts {
    /// A port of that connection, of a program of that user, asks something.
    ///
    /// **Errors**: [`Error::GrantRefused`], [`Error::IsMapped`]; those of [`crate::node::queues::QueueHome`].
    pub fn on_request(
        &mut self,
        (session, uid): (u64, u32),
        at: ArrayAt,
        request: QueueRequest,
        extents: &Extents,
    ) -> Result<SyncAnswer> {
        let opened = extents.open(at.slot, at.grant, Rights::Write)?;
        let held = opened.held();
        if opened.is_by_pages() {
            return Err(Error::IsMapped { gid: held.gid() });
        }
        let offset = at.offset;
        match request {
            QueueRequest::OpenLane { queue, writer } => {
                self.check_room(session)?;
                let (lane, accepted) = held.with_queues(offset, |home| home.open_lane(queue, PortId(writer), uid))?;
                self.note(session, held, Port { id: PortId(writer), gid: held.gid(), at: offset, queue, lane: Some(lane) });
                return Ok(SyncAnswer::Lane { lane, accepted });
            }
            QueueRequest::ResumeLane { queue, lane, writer } => {
                self.check_room(session)?;
                let accepted = held.with_queues(offset, |home| home.resume_lane(queue, lane, PortId(writer)))?;
                self.note(session, held, Port { id: PortId(writer), gid: held.gid(), at: offset, queue, lane: Some(lane) });
                return Ok(SyncAnswer::Lane { lane, accepted });
            }
            QueueRequest::OpenReader { first, count, reader } => {
                self.check_room(session)?;
                held.with_queues(offset, |home| home.open_reader(first, count, PortId(reader)))?;
                self.note(session, held, Port { id: PortId(reader), gid: held.gid(), at: offset, queue: first, lane: None });
            }
            QueueRequest::CloseLane { queue, lane, writer } => {
                self.drop(session, Port { id: PortId(writer), gid: held.gid(), at: offset, queue, lane: Some(lane) });
                held.with_queues(offset, |home| {
                    home.close_lane(queue, lane, PortId(writer));
                    Ok(())
                })?;
            }
            QueueRequest::CloseReader { first, reader } => {
                self.drop(session, Port { id: PortId(reader), gid: held.gid(), at: offset, queue: first, lane: None });
                held.with_queues(offset, |home| {
                    home.close_reader(first, PortId(reader));
                    Ok(())
                })?;
            }
            QueueRequest::Free { queue, lane, reader, head } => {
                held.with_queues(offset, |home| home.free((queue, lane), PortId(reader), head))?;
            }
            QueueRequest::Leave { queue, reader } => {
                held.with_queues(offset, |home| home.leave(queue, PortId(reader)))?;
            }
            QueueRequest::TakeReady { reader } => {
                let ready = held.with_queues(offset, |home| home.take_ready(PortId(reader)))?;
                let mut queues = [0; QUEUE_READY_COUNT_MAX];
                queues.iter_mut().zip(&ready).for_each(|(to, from)| *to = *from);
                return Ok(SyncAnswer::Ready { count: ready.len() as u8, queues });
            }
            QueueRequest::Tell { queue, lane, reader } => {
                held.with_queues(offset, |home| home.tell((queue, lane), PortId(reader)))?;
            }
        }
        Ok(SyncAnswer::Done)
    }

    fn check_room(&self, session: u64) -> Result<()> {
        match self.sessions.get(&session) {
            Some(ports) if ports.len() >= QUEUE_LINK_PORT_COUNT_MAX => Err(Error::LimitReached {
                what: "ports of queues of one program at a node".to_owned(),
                limit: QUEUE_LINK_PORT_COUNT_MAX as u64,
            }),
            _ => Ok(()),
        }
    }

    fn note(&mut self, session: u64, held: &Arc<Held>, port: Port) {
        self.sessions.entry(session).or_default().insert(port, Arc::downgrade(held));
    }

    fn drop(&mut self, session: u64, port: Port) {
        if let Some(ports) = self.sessions.get_mut(&session) {
            ports.remove(&port);
        }
    }

    /// A link ended: writers on it are gone, and readers.
    pub fn forget(&mut self, session: u64) {
        for (port, held) in self.sessions.remove(&session).into_iter().flatten() {
            let Some(held) = held.upgrade() else { continue };
            // A queue that was overwritten meanwhile is nobody's.
            let _ = held.with_queues(port.at, |home| {
                match port.lane {
                    Some(lane) => home.break_lane(port.queue, lane, port.id),
                    None => home.break_reader(port.queue, port.id),
                }
                Ok(())
            });
        }
    }
}
