//! The home's side of queues: requests of ports, and commands of each link one after the other.

use super::links::FIRST_LINK;
use super::{ARRAY_AT, Cluster, Outcome, ProcessLife, QueueAsk, QueueMessage, QueueReply, region_of};
use crate::check::Check;
use crate::cluster::memory::SimExtent;
use crate::cluster::{Defect, words};
use hanare_home::{Bytes, Input, Memory, Waiter};
use hanare_protocol::copies::UpdateCall;
use hanare_protocol::id::{Gid, Grant, Rights, Slot, User};
use hanare_protocol::queue::PortId;
use hanare_protocol::queue::home::LaneState;
use hanare_protocol::queue::layout::{LANE_STATE_AT, WRITER_AT};
use hanare_protocol::wire::control::{decode, encode};
use hanare_protocol::wire::copies::{CopyFrame, ExtentCall, ExtentWrite, ToCopy};
use hanare_protocol::wire::queue::{
    APPEND_FRONT_LEN, AppendFront, ArrayAt, QueueCall, QueueChange, QueueRequest, decode_appended,
};
use hanare_protocol::wire::sync::{SyncAnswer, SyncRequest};
use hanare_protocol::{Error, Result};
use std::sync::Arc;

/// True for the link of a program of queues.
pub(in crate::cluster) fn is_of_queue(link: u64) -> bool {
    link >= FIRST_LINK
}

/// The error for memory that went away.
fn broken(reason: String) -> Error {
    Error::System { what: "a command on a queue".to_owned(), reason }
}

/// A request that changes nothing, in place of one that frees units.
fn without_free(request: QueueRequest) -> QueueRequest {
    match request {
        QueueRequest::Free { queue, .. } => QueueRequest::CloseReader { first: queue, reader: 0 },
        other => other,
    }
}

impl Cluster {
    /// A message reaches a home.
    pub(super) fn on_queue_message(&mut self, link: u64, message: QueueMessage) -> Check {
        let Some((home, id)) = self.home_of_link(link) else {
            self.count("messages of queues lost with their connection");
            return Ok(());
        };
        self.note(format!("link {link}: {message:?}"));
        self.end_older_links(link, (home, id))?;
        let QueueMessage { slot, grant, .. } = message;
        let request = match message.what {
            QueueAsk::Port(request) => {
                let request = if self.has(Defect::ForgetFrees) { without_free(request) } else { request };
                SyncRequest::Queue(ArrayAt { slot, grant, offset: ARRAY_AT }, request)
            }
            QueueAsk::Store(part) => {
                if let Ok(extent) = self.queue_extent(home, slot, grant) {
                    self.store_early(&extent, &part);
                }
                SyncRequest::Store { slot, grant, part }
            }
            _ => {
                let commands = self.queues_mut().commands.entry(link).or_default();
                commands.push_back(message);
                return if commands.len() == 1 { self.next_queue_command(link, home) } else { Ok(()) };
            }
        };
        let (region, now_ms) = (self.region_of_link(link), self.now_ms);
        let uid = words::user_of_region(region);
        let Some(process) = self.process(home) else { return Ok(()) };
        process.lender.has_lease = process.member.homes_until_ms() > now_ms;
        let input = Input::Request { waiter: Waiter { link, seq: message.seq }, from: (id, User { uid, gid: uid }), request };
        let outputs = process.served.tell(now_ms, input, &process.lender);
        self.take(home, outputs)?;
        self.drain_node(home.0)
    }

    fn region_of_link(&mut self, link: u64) -> usize {
        self.program_at(link).map_or(0, region_of)
    }

    /// A home answers a port, or a part of stores.
    pub(in crate::cluster) fn on_queue_answered(&mut self, waiter: Waiter, outcome: Outcome<SyncAnswer>) -> Check {
        let reply = match outcome {
            Ok(SyncAnswer::Done) => Ok(QueueReply::Done),
            Ok(SyncAnswer::Lane { lane, accepted }) => Ok(QueueReply::Lane { lane, accepted }),
            Ok(other) => return Err(format!("a port is answered {other:?}")),
            Err(error) => Err(error),
        };
        self.send_from_queue(waiter.link, waiter.seq, reply);
        Ok(())
    }

    /// The extent of a command, while its home is open.
    fn queue_extent(&mut self, home: ProcessLife, slot: Slot, grant: Grant) -> Result<SimExtent> {
        let now_ms = self.now_ms;
        let process = self.process(home).ok_or_else(|| broken("its process is gone".to_owned()))?;
        process.lender.has_lease = process.member.homes_until_ms() > now_ms;
        process.lender.open(slot, grant, Rights::Write)
    }

    /// Does the first command of a link, and the next ones while each has its answer at once.
    fn next_queue_command(&mut self, link: u64, home: ProcessLife) -> Check {
        while let Some(message) = self.queues_mut().commands.get(&link).and_then(|all| all.front()).cloned() {
            let extent = match self.queue_extent(home, message.slot, message.grant) {
                Ok(extent) => extent,
                Err(error) => {
                    self.count("requests of queues that found no home");
                    self.answer_queue_command(link, Err(error));
                    continue;
                }
            };
            let region = self.region_of_link(link);
            self.queues_mut().images[region].judge(region, &extent)?;
            let write = match message.what {
                QueueAsk::Get { offset, len } => {
                    let mut bytes = vec![0; len as usize];
                    let read = extent.read(offset, &mut bytes).map(|()| QueueReply::Bytes(bytes));
                    self.answer_queue_command(link, read);
                    continue;
                }
                QueueAsk::Make => {
                    let line = self.queues_mut().form(region).encode(1);
                    ExtentWrite::put(vec![(ARRAY_AT, line.len() as u64)], line.to_vec())
                }
                QueueAsk::Append { lane, operand } => self.append_of(link, &extent, lane, operand),
                QueueAsk::Port(_) | QueueAsk::Store(_) => return Err("a request among commands".to_owned()),
            };
            return self.write_to_queue((home, link), (Bytes::gid(&extent), message.slot), write);
        }
        Ok(())
    }

    fn write_to_queue(&mut self, (home, link): (ProcessLife, u64), place: (Gid, Slot), write: ExtentWrite) -> Check {
        let now_ms = self.now_ms;
        let Some(process) = self.process(home) else { return Ok(()) };
        let outputs = process.served.write(now_ms, (link, place), write, &process.lender);
        self.take(home, outputs)?;
        self.drain_node(home.0)
    }

    /// All holders have done a link's first command, or it was refused.
    pub(in crate::cluster) fn on_queue_applied(&mut self, home: ProcessLife, link: u64, outcome: Outcome<Vec<u8>>) -> Check {
        let commands = self.queues_mut().commands.get(&link);
        let Some(message) = commands.and_then(|all| all.front()) else { return Ok(()) };
        let is_append = matches!(message.what, QueueAsk::Append { .. });
        let reply = match outcome {
            Ok(bytes) if is_append => {
                let bytes = bytes[..].try_into().map_err(|_| format!("an append is answered {bytes:?}"))?;
                Ok(QueueReply::Appended(decode_appended(bytes).0))
            }
            Ok(_) => Ok(QueueReply::Done),
            Err(error) => Err(error),
        };
        self.answer_queue_command(link, reply);
        self.next_queue_command(link, home)
    }

    fn answer_queue_command(&mut self, link: u64, outcome: Outcome<QueueReply>) {
        let done = self.queues_mut().commands.get_mut(&link).and_then(|all| all.pop_front());
        if let Some(message) = done {
            self.send_from_queue(link, message.seq, outcome);
        }
    }

    /// The write of an append, as defects have it.
    fn append_of(&mut self, link: u64, extent: &SimExtent, lane: u32, mut operand: Vec<u8>) -> ExtentWrite {
        if self.has(Defect::CountAgain)
            && let Ok((front, _)) = AppendFront::decode(&operand)
            && let Some(accepted) = self.accepted_at(link, extent, (lane, front.writer)).filter(|accepted| front.seq < *accepted)
        {
            operand[..APPEND_FRONT_LEN].copy_from_slice(&AppendFront { seq: accepted, ..front }.encode());
        }
        let what = QueueChange::Append { lane, operand };
        ExtentWrite::call(ExtentCall::Queue(QueueCall { offset: ARRAY_AT, what }))
    }

    fn lane_word(&mut self, link: u64, extent: &SimExtent, lane: u32, at: u64) -> u64 {
        let region = self.region_of_link(link);
        let queues = self.queues_mut();
        extent.word(queues.queue_at(region) + queues.form(region).lane_at(lane) + at)
    }

    /// Units that count of a writer whose lane has its connection.
    fn accepted_at(&mut self, link: u64, extent: &SimExtent, (lane, writer): (u32, PortId)) -> Option<u64> {
        let is_its = self.lane_word(link, extent, lane, WRITER_AT) == writer.0
            && self.lane_word(link, extent, lane, LANE_STATE_AT) == LaneState::Open as u64;
        if !is_its {
            return None;
        }
        extent.with_queues(ARRAY_AT, |array| array.resume_lane(0, lane, writer)).ok()
    }

    /// A frame to a copy, as defects have it: copies do not hear that a reader frees units, or do not hear a part of stores.
    pub(in crate::cluster) fn tampered_call(&self, bytes: Vec<u8>) -> Vec<u8> {
        let Ok(CopyFrame::ToCopy(extent, ToCopy::Write { term, position, stable, entry })) = decode::<CopyFrame>(&bytes) else {
            return bytes;
        };
        let call = match &entry.call {
            Some(ExtentCall::Queue(QueueCall { offset, what: QueueChange::Port { request, uid, client } }))
                if self.has(Defect::ForgetHeads) =>
            {
                let what = QueueChange::Port { request: without_free(*request), uid: *uid, client: *client };
                ExtentCall::Queue(QueueCall { offset: *offset, what })
            }
            Some(ExtentCall::Store { is_last: false }) if self.has(Defect::LosePart) => {
                ExtentCall::ForgetStores(UpdateCall { client: 0, sequence: 0, number: 0, is_repeat: false })
            }
            _ => return bytes,
        };
        let entry = Arc::new(ExtentWrite::call(call));
        encode(&CopyFrame::ToCopy(extent, ToCopy::Write { term, position, stable, entry }))
    }
}
