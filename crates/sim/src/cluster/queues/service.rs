//! The home's side of queues: requests of ports, and commands of each link one after the other.

use super::links::{FIRST_LINK, QueueLink};
use super::{ARRAY_AT, Cluster, Outcome, ProcessLife, QueueAsk, QueueCommands, QueueMessage, QueueReply, region_of};
use crate::check::Check;
use crate::cluster::commands::LinkCommand;
use crate::cluster::memory::SimExtent;
use crate::cluster::served_link::LinkStep;
use crate::cluster::{Defect, words};
use hanare_home::{Bytes, Input, Memory, Waiter};
use hanare_protocol::copies::UpdateCall;
use hanare_protocol::id::{Gid, Grant, Rights, Slot, User};
use hanare_protocol::queue::PortId;
use hanare_protocol::queue::home::LaneState;
use hanare_protocol::queue::layout::{LANE_STATE_AT, WRITER_AT};
use hanare_protocol::shape::Shape;
use hanare_protocol::wire::command::Op;
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
    (FIRST_LINK..2 * FIRST_LINK).contains(&link)
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
        let Some(found @ QueueLink { home, id, .. }) = self.queue_link_at(link, true) else {
            self.count("messages of queues lost with their connection");
            return Ok(());
        };
        self.note(format!("link {link}: {message:?}"));
        self.end_older_links(link, found)?;
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
                self.queues_mut().commands.entry(link).or_insert_with(QueueCommands::new).waiting.push_back(message);
                return self.drive_queue_link(link, home);
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
        self.queues_mut().links.get(link).map_or(0, |link| region_of(link.program))
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

    /// A link takes what has come, gives writes to the home and answers, until it waits.
    fn drive_queue_link(&mut self, link: u64, home: ProcessLife) -> Check {
        let now_ms = self.now_ms;
        loop {
            let has_taken = self.take_queue_command(link, home)?;
            let Some(commands) = self.queues_mut().commands.get_mut(&link) else { return Ok(()) };
            match commands.served.step(now_ms)? {
                LinkStep::Write(place, write) => self.write_to_queue((home, link), place, write)?,
                LinkStep::Answer(seq, outcome) => self.answer_queue_command(link, seq, outcome)?,
                LinkStep::Told(seq, _) => return Err(format!("message {seq} is no question")),
                LinkStep::Nothing if has_taken => {}
                LinkStep::Nothing => return Ok(()),
            }
        }
    }

    /// Gives a link's next message to its commands, if they take one. Returns true if they did.
    fn take_queue_command(&mut self, link: u64, home: ProcessLife) -> Result<bool, String> {
        let waiting = self.queues_mut().commands.get(&link).and_then(|commands| commands.waiting.front());
        let Some(message) = waiting.cloned() else { return Ok(false) };
        let (region, extent) = (self.region_of_link(link), self.queue_extent(home, message.slot, message.grant));
        if let Ok(extent) = &extent {
            self.queues_mut().images[region].judge(region, extent)?;
        }
        let command = match message.what {
            QueueAsk::Get { offset, len } => (Op::Get, Shape::contiguous(offset, len), Vec::new()),
            QueueAsk::Make => {
                let line = self.queues_mut().form(region).encode(1).to_vec();
                (Op::Put, Shape::contiguous(ARRAY_AT, line.len() as u64), line)
            }
            QueueAsk::Append { lane, operand } => {
                let operand = extent.as_ref().map_or(operand.clone(), |extent| self.append_of(link, extent, lane, operand));
                (Op::Append { lane }, Shape::contiguous(ARRAY_AT, operand.len() as u64), operand)
            }
            QueueAsk::Port(_) | QueueAsk::Store(_) => return Err("a request among commands".to_owned()),
        };
        let (op, shape, operand) = command;
        let command = LinkCommand { op, at: (message.slot, message.grant), shape, operand, call: 0 };
        let is_refused = extent.is_err();
        let Some(commands) = self.queues_mut().commands.get_mut(&link) else { return Ok(false) };
        if !commands.served.takes(message.seq + 1, &command, extent)? {
            return Ok(false);
        }
        commands.under_way.extend(commands.waiting.pop_front());
        if is_refused {
            self.count("requests of queues that found no home");
        }
        Ok(true)
    }

    fn write_to_queue(&mut self, (home, link): (ProcessLife, u64), place: (Gid, Slot), write: ExtentWrite) -> Check {
        let now_ms = self.now_ms;
        let Some(process) = self.process(home) else { return Ok(()) };
        let outputs = process.served.write(now_ms, (link, place), write, &process.lender);
        self.take(home, outputs)?;
        self.drain_node(home.0)
    }

    /// All holders have done a link's first write, or it was refused.
    pub(in crate::cluster) fn on_queue_applied(&mut self, home: ProcessLife, link: u64, outcome: Outcome<Vec<u8>>) -> Check {
        let Some(commands) = self.queues_mut().commands.get_mut(&link) else { return Ok(()) };
        commands.served.applied(outcome);
        self.drive_queue_link(link, home)
    }

    fn answer_queue_command(&mut self, link: u64, seq: u64, outcome: Outcome<Vec<u8>>) -> Check {
        let commands = self.queues_mut().commands.get_mut(&link);
        let message = commands.and_then(|commands| commands.under_way.pop_front());
        let message = message.filter(|message| message.seq + 1 == seq).ok_or_else(|| format!("answer {seq} is to no command"))?;
        let reply = outcome.map(|bytes| match message.what {
            QueueAsk::Append { .. } => bytes.first_chunk().map(|bytes| QueueReply::Appended(decode_appended(bytes).0)),
            QueueAsk::Get { .. } => Some(QueueReply::Bytes(bytes)),
            _ => Some(QueueReply::Done),
        });
        let reply = match reply {
            Ok(reply) => Ok(reply.ok_or("an append is answered with fewer bytes")?),
            Err(error) => Err(error),
        };
        self.send_from_queue(link, message.seq, reply);
        Ok(())
    }

    /// The operand of an append, as defects have it.
    fn append_of(&mut self, link: u64, extent: &SimExtent, lane: u32, mut operand: Vec<u8>) -> Vec<u8> {
        if self.has(Defect::CountAgain)
            && let Ok((front, _)) = AppendFront::decode(&operand)
            && let Some(accepted) = self.accepted_at(link, extent, (lane, front.writer)).filter(|accepted| front.seq < *accepted)
        {
            operand[..APPEND_FRONT_LEN].copy_from_slice(&AppendFront { seq: accepted, ..front }.encode());
        }
        operand
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
