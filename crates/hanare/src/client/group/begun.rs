//! Sends that are begun and waited for later.
//!
//! ```text
//! start ──┬─ bytes, in one message with the head ───────────────────> posted ── its unit counts ──> over
//!         └─ waits: its body moves, or that of one before it does ──────^
//! ```
//!
//! Heads for one party are posted in the order in which their sends were begun. Posted ones count in that order, too.

use super::failure::{Failure, Outcome};
use super::peers::Parties;
use super::sending::Outbox;
use super::sends::{LastingBody, Moving, SendId, SendStage, Sending, short_part};
use crate::client::queue::{BodyPrefix, WritePort};
use hanare_protocol::Error;
use hanare_protocol::error::Happened;
use hanare_protocol::limits::{MESSAGE_BEGUN_COUNT_MAX, MESSAGE_INLINE_LEN_MAX};
use hanare_protocol::message::header::{BodyLocation, Front};
use hanare_protocol::shape::Shape;
use std::borrow::Cow;
use std::collections::VecDeque;
use std::time::Duration;

impl Outbox {
    /// Begins to send.
    pub fn start(&mut self, peers: &mut Parties, to: u32, front: Front, head: &[u8], body: LastingBody<'_>) -> Outcome<SendId> {
        let begun = self.over.len() + self.under_way.values().map(VecDeque::len).sum::<usize>();
        if begun >= MESSAGE_BEGUN_COUNT_MAX {
            let what = "sends that were begun and not waited for".to_owned();
            return Err(Failure::from(Error::LimitReached { what, limit: MESSAGE_BEGUN_COUNT_MAX as u64 }));
        }
        self.send_on(peers, to, false);
        let (place, stage, lent) = self.start_body(peers, to, &front, head, body)?;
        let id = SendId(self.next);
        self.next += 1;
        self.under_way.entry(to).or_default().push_back(Sending { id, front: Front { body: place, ..front }, lent, stage });
        self.send_on(peers, to, false);
        Ok(id)
    }

    fn start_body(
        &mut self,
        peers: &mut Parties,
        to: u32,
        front: &Front,
        head: &[u8],
        body: LastingBody<'_>,
    ) -> Outcome<(BodyLocation, SendStage, Option<u64>)> {
        let len = front.body_len;
        match body {
            LastingBody::Bytes(bytes) if bytes.len() <= MESSAGE_INLINE_LEN_MAX => {
                Ok((BodyLocation::Here, SendStage::waits(head, bytes, None), None))
            }
            LastingBody::Part(region, shape) if len <= MESSAGE_INLINE_LEN_MAX as u64 => {
                let bytes = short_part(region, &shape, len)?;
                Ok((BodyLocation::Here, SendStage::waits(head, Cow::Owned(bytes), None), None))
            }
            body => {
                if let LastingBody::Part(region, shape) = &body
                    && let Some((number, part)) = self.lend(region, shape)?
                {
                    return Ok((BodyLocation::Part(part.len()), SendStage::waits(head, Cow::Owned(part), None), Some(number)));
                }
                self.start_to_land(peers, to, front, head, body).map(|(place, stage)| (place, stage, None))
            }
        }
    }

    /// Has a body begin to move to the receiver's host, with its head if none waits before it.
    fn start_to_land(
        &mut self,
        peers: &mut Parties,
        to: u32,
        front: &Front,
        head: &[u8],
        body: LastingBody<'_>,
    ) -> Outcome<(BodyLocation, SendStage)> {
        let len = front.body_len;
        let room = self.peer_memories.take(peers, to, len)?;
        let body = match body {
            LastingBody::Part(region, shape) => match room.read_part(region, &shape, len) {
                Ok(Some(bytes)) => LastingBody::Bytes(Cow::Owned(bytes)),
                Ok(None) => LastingBody::Part(region, shape),
                Err(failure) => {
                    self.peer_memories.give_back(to, room.place);
                    return Err(failure);
                }
            },
            body => body,
        };
        let is_next = self.under_way.get(&to).is_none_or(|line| line.iter().all(Sending::is_posted));
        let begun = match body {
            LastingBody::Bytes(bytes) if is_next && room.takes_ahead => {
                let front = Front { body: room.place, ..*front };
                let ahead = BodyPrefix::new(&room.region, room.at, bytes);
                self.send_header(peers, to, (&front, head, &[]), |writer| writer.commit_behind_started(ahead))?;
                return Ok((room.place, SendStage::Posted(peers.writer(to)?.sent())));
            }
            LastingBody::Bytes(Cow::Owned(bytes)) => room.region.start_put(room.at, bytes).map(Moving::Bytes),
            LastingBody::Bytes(Cow::Borrowed(bytes)) => {
                peers.pool().start_batch(|batch| batch.put(&room.region, room.at, bytes)).map(Moving::Lasting)
            }
            LastingBody::Part(region, shape) => {
                let target = Shape::contiguous(room.at, len);
                peers.pool().start_copy(region, shape, &room.region, target).map(Moving::Part)
            }
        };
        match begun {
            Ok(moves) => Ok((room.place, SendStage::waits(head, Cow::Borrowed(&[]), Some(moves)))),
            Err(error) => {
                self.peer_memories.give_back(to, room.place);
                Err(Failure::on_the_way(to, error))
            }
        }
    }

    /// Sends on what was begun, to all parties: what may go, or with `waits` all.
    pub fn send_on_all(&mut self, peers: &mut Parties, waits: bool) {
        if self.is_sending() {
            let parties: Vec<u32> = self.under_way.keys().copied().collect();
            parties.into_iter().for_each(|to| self.send_on(peers, to, waits));
        }
    }

    /// Posts heads, in their order, whose bodies are there; with `waits` all. Notes which of those that were posted are over.
    pub(super) fn send_on(&mut self, peers: &mut Parties, to: u32, waits: bool) {
        while let Some((mut sending, SendStage::Waits { head, behind, moves })) = self.take_ready(to, waits) {
            let front = sending.front;
            let moved =
                moves.map_or(Ok(()), |moves| moves.wait(to)).inspect_err(|_| self.peer_memories.give_back(to, front.body));
            // Before it goes: the receiver may have fetched the part before this is known to count.
            self.lent.extend(sending.lent.map(|number| ((to, number), Some(sending.id))));
            let sent = moved.and_then(|()| self.send_header(peers, to, (&front, &head, &behind), WritePort::commit_started));
            match sent.and_then(|()| Ok(peers.writer(to)?.sent())) {
                Ok(units) => {
                    sending.stage = SendStage::Posted(units);
                    let line = self.under_way.entry(to).or_default();
                    let behind = line.iter().position(|other| !other.is_posted()).unwrap_or(line.len());
                    line.insert(behind, sending);
                }
                Err(failure) => self.end(to, &sending, Err(failure)),
            }
        }
        self.hear(peers, to);
    }

    /// The next send whose head may go to this party, and what it sends. With `waits`, its body need not be there.
    fn take_ready(&mut self, to: u32, waits: bool) -> Option<(Sending, SendStage)> {
        let line = self.under_way.get_mut(&to)?;
        let next = line.iter().position(|sending| !sending.is_posted())?;
        let is_ready = match &line[next].stage {
            SendStage::Waits { moves: Some(moves), .. } => waits || moves.is_done(),
            _ => true,
        };
        let mut sending = if is_ready { line.remove(next)? } else { return None };
        let stage = std::mem::replace(&mut sending.stage, SendStage::Posted(0));
        Some((sending, stage))
    }

    /// Notes which of the posted sends to a party are over. Whether any of them failed.
    pub(super) fn hear(&mut self, peers: &mut Parties, to: u32) -> bool {
        let Some(line) = self.under_way.get_mut(&to) else { return false };
        let Ok(writer) = peers.writer(to) else { return false };
        let mut over = Vec::new();
        while let Some(SendStage::Posted(units)) = line.front().map(|first| &first.stage)
            // A failure is the port's.
            && writer.counts(*units) == Ok(true)
        {
            over.extend(line.pop_front().map(|sending| (sending, Ok(()))));
        }
        let failed = if line.front().is_some_and(Sending::is_posted) { writer.failure() } else { None };
        if let Some(error) = &failed {
            while let Some(SendStage::Posted(units)) = line.front().map(|first| &first.stage) {
                let outcome =
                    if writer.counts(*units) == Ok(true) { Ok(()) } else { Err(Failure::on_the_way(to, error.clone())) };
                over.extend(line.pop_front().map(|sending| (sending, outcome)));
            }
        }
        let happened = failed.as_ref().map(|error| writer.what_happened(error));
        if line.is_empty() {
            self.under_way.remove(&to);
        }
        for (sending, outcome) in over {
            if outcome.is_err() && happened == Some(Happened::No) {
                self.peer_memories.give_back(to, sending.front.body);
            }
            self.end(to, &sending, outcome);
        }
        failed.is_some()
    }

    /// Notes what came of a send. One whose part is fetched is over when it was.
    fn end(&mut self, to: u32, sending: &Sending, outcome: Outcome<()>) {
        let is_fetched = match sending.lent {
            Some(_) if outcome.is_ok() => return,
            Some(number) => self.lent.remove(&(to, number)).is_none(),
            None => false,
        };
        if !is_fetched {
            self.over.insert(sending.id, outcome);
        }
    }

    /// Sleeps until something of what is under way has come, for `bound` at most.
    pub fn nap(&mut self, peers: &mut Parties, bound: Duration) {
        let Some((to, first)) = self.under_way.iter().find_map(|(to, line)| Some((*to, line.front()?))) else { return };
        match (&first.stage, peers.writer(to)) {
            (SendStage::Waits { moves: Some(moves), .. }, _) => moves.nap(bound),
            (_, Ok(writer)) => writer.nap(bound),
            (_, Err(_)) => std::thread::sleep(bound),
        }
    }
}
