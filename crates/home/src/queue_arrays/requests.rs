//! Requests of ports.

use super::QueueArray;
use crate::queue_words::QueueWords;
use hanare_protocol::Result;
use hanare_protocol::limits::QUEUE_READY_COUNT_MAX;
use hanare_protocol::queue::PortId;
use hanare_protocol::wire::queue::QueueRequest;
use hanare_protocol::wire::sync::SyncAnswer;

impl<W: QueueWords> QueueArray<'_, W> {
    /// A port asks something.
    ///
    /// **Errors**: those of the request.
    pub fn answer(&mut self, request: QueueRequest, uid: u32) -> Result<SyncAnswer> {
        match request {
            QueueRequest::OpenLane { queue, writer } => {
                let (lane, accepted) = self.open_lane(queue, PortId(writer), uid)?;
                return Ok(SyncAnswer::Lane { lane, accepted });
            }
            QueueRequest::ResumeLane { queue, lane, writer } => {
                let accepted = self.resume_lane(queue, lane, PortId(writer))?;
                return Ok(SyncAnswer::Lane { lane, accepted });
            }
            QueueRequest::OpenReader { first, count, reader } => self.open_reader(first, count, PortId(reader))?,
            QueueRequest::CloseLane { queue, lane, writer } => self.close_lane(queue, lane, PortId(writer)),
            QueueRequest::CloseReader { first, reader } => self.close_reader(first, PortId(reader)),
            QueueRequest::Free { queue, lane, reader, head } => self.free((queue, lane), PortId(reader), head)?,
            QueueRequest::Leave { queue, reader } => self.leave(queue, PortId(reader))?,
            QueueRequest::TakeReady { reader } => {
                let ready = self.take_ready(PortId(reader))?;
                let mut queues = [0; QUEUE_READY_COUNT_MAX];
                queues.iter_mut().zip(&ready).for_each(|(to, from)| *to = *from);
                return Ok(SyncAnswer::Ready { count: ready.len() as u8, queues });
            }
            QueueRequest::Tell { queue, lane, reader } => self.tell((queue, lane), PortId(reader))?,
        }
        Ok(SyncAnswer::Done)
    }
}
