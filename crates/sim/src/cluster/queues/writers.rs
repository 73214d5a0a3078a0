//! Writers of queues: appends under way, sent again by the rule of the product.

use super::{Cluster, Outcome, QueueAsk, QueueReply, region_of};
use crate::check::{Check, check};
use hanare_protocol::limits::ANSWER_MS;
use hanare_protocol::queue::{AppendOrder, AppendStep, AppendTerms, Appended, BegunAppend, PortId};
use hanare_protocol::wire::queue::{AppendFront, QueueRequest};
use hanare_protocol::{Error, Result};

/// Appends under way at most.
const BEGUN_COUNT: usize = 3;

/// State of a writer.
#[derive(Debug, Default)]
pub(super) struct QueueWriter {
    lane: Option<u32>,
    /// Units that it is going to write.
    goal: u64,
    order: AppendOrder<SimAppend>,
    /// The append that it waits for, and since when.
    waits: Option<(BegunAppend<SimAppend>, u64)>,
    /// An append was given up: the writer asks which units count, when the others have their answers.
    has_given_up: bool,
    /// Times that it began again behind the units that count.
    generation: u64,
}

/// An append that was sent: its bytes, its number and link, and its answer.
#[derive(Clone, Debug)]
struct SimAppend {
    operand: Vec<u8>,
    sent: Option<(u64, u64)>,
    outcome: Option<Outcome<Appended>>,
}

impl QueueWriter {
    pub fn new(goal: u64) -> QueueWriter {
        QueueWriter { goal, ..QueueWriter::default() }
    }

    /// Numbers and links of appends that have no answer.
    pub fn unanswered(&mut self) -> impl Iterator<Item = (u64, u64)> {
        self.order.under_way().filter(|begun| begun.what.outcome.is_none()).filter_map(|begun| begun.what.sent)
    }
}

/// The operand of an append: units of a writer from one number on.
fn operand(writer: PortId, generation: u64, seq: u64, count: u64) -> Vec<u8> {
    let units = (seq + 1..=seq + count).flat_map(|number| [writer.0, generation << 32 | number]).flat_map(u64::to_le_bytes);
    AppendFront { queue: 0, writer, seq }.encode().into_iter().chain(units).collect()
}

/// The appended units of a reply.
fn appended(outcome: Outcome<QueueReply>) -> Result<Outcome<Appended>, String> {
    match outcome {
        Ok(QueueReply::Appended(appended)) => Ok(Ok(appended)),
        Ok(other) => Err(format!("an append is answered {other:?}")),
        Err(error) => Ok(Err(error)),
    }
}

impl Cluster {
    /// A writer does its next thing.
    pub(super) fn go_on_writing(&mut self, program: usize) -> Check {
        let is_rough = self.is_rough;
        let Some((PortId(writer), me)) = self.writer(program) else { return Ok(()) };
        let Some(lane) = me.lane else {
            if !is_rough {
                self.end_queue_program(program, false);
                return Ok(());
            }
            let (region, now_ms) = (region_of(program), self.now_ms);
            self.queues_mut().judge.on_opening(region, PortId(writer), now_ms);
            return self.call_queue(program, QueueAsk::Port(QueueRequest::OpenLane { queue: 0, writer }));
        };
        if let Some((waits, _)) = &me.waits {
            let operand = waits.what.operand.clone();
            return self.call_queue(program, QueueAsk::Append { lane, operand });
        }
        if me.has_given_up {
            if me.order.under_way().any(|begun| begun.what.outcome.is_none()) {
                return Ok(());
            }
            me.order.give_up();
            return self.call_queue(program, QueueAsk::Port(QueueRequest::ResumeLane { queue: 0, lane, writer }));
        }
        if me.order.oldest().is_some_and(|oldest| oldest.what.outcome.is_some()) {
            return self.take_oldest(program);
        }
        let is_done = me.order.sent() >= me.goal || !is_rough;
        if is_done && me.order.is_idle() {
            return self.call_queue(program, QueueAsk::Port(QueueRequest::CloseLane { queue: 0, lane, writer }));
        }
        if !is_done && me.order.count() < BEGUN_COUNT && !me.order.is_full(0) {
            self.begin_append(program, lane);
            self.plan_queue_turn(program, &[0, 5, 50, 500]);
        }
        Ok(())
    }

    /// A writer sends an append, and does not wait for it.
    fn begin_append(&mut self, program: usize, lane: u32) {
        let count = self.queues_mut().dice.between(1, 5);
        let Some((port, me)) = self.writer(program) else { return };
        let operand = operand(port, me.generation, me.order.sent(), count);
        let sent = self.send_queue_ask(program, QueueAsk::Append { lane, operand: operand.clone() });
        // An append without a known home is sent when it is waited for.
        let lost = || Err(Error::NotInTime { what: "a home".to_owned(), after_ms: 0 });
        let outcome = if sent.is_none() { Some(lost()) } else { None };
        let Some((port, me)) = self.writer(program) else { return };
        me.order.begin(count, operand.len(), SimAppend { operand, sent, outcome });
        let sent = me.order.sent();
        self.queues_mut().judge.on_sent(port, sent);
        self.count("appends of units");
    }

    /// An append has an answer, or has none for a reason.
    pub(super) fn on_append_outcome(&mut self, program: usize, seq: u64, outcome: Outcome<QueueReply>) -> Check {
        let Some((_, me)) = self.writer(program) else { return Ok(()) };
        let is_it = |begun: &&mut BegunAppend<SimAppend>| {
            begun.what.outcome.is_none() && begun.what.sent.is_some_and(|(other, _)| other == seq)
        };
        let Some(begun) = me.order.under_way().find(is_it) else { return Ok(()) };
        begun.what.outcome = Some(appended(outcome)?);
        self.go_on_with_queue(program)
    }

    /// A writer has the answer to its oldest append.
    fn take_oldest(&mut self, program: usize) -> Check {
        let now_ms = self.now_ms;
        let Some((_, me)) = self.writer(program) else { return Ok(()) };
        let Some(mut oldest) = me.order.take_oldest() else { return Ok(()) };
        let outcome = oldest.what.outcome.take().ok_or("an append is taken without its answer")?;
        me.waits = Some((oldest, now_ms));
        self.on_appended(program, &outcome, true)
    }

    /// The append that a writer waits for is answered.
    fn on_appended(&mut self, program: usize, outcome: &Outcome<Appended>, is_first: bool) -> Check {
        let (now_ms, region) = (self.now_ms, region_of(program));
        let overflow = self.queues_mut().overflows[region];
        let Some((port, me)) = self.writer(program) else { return Ok(()) };
        let (end, since_ms) = me.waits.as_ref().map(|(waits, since)| (waits.end, *since)).ok_or("an answer to no append")?;
        let is_patient = now_ms < since_ms + ANSWER_MS;
        let terms = AppendTerms { is_first, moves: true, overflow, may_resume: true, is_patient };
        let step = me.order.step(end, outcome.as_ref(), terms);
        let lane = me.lane.ok_or("an append without a lane")?;
        self.note(format!("program {program}: its append up to {end} is answered {outcome:?}: {step:?}"));
        if let Ok(appended) = outcome {
            self.queues_mut().judge.on_told(port, appended.accepted, is_first)?;
        }
        match step {
            AppendStep::Counted => {
                if let Some((_, me)) = self.writer(program) {
                    me.waits = None;
                }
                self.count("appends that count");
                self.go_on_with_queue(program)
            }
            AppendStep::Again => {
                self.count("appends that are sent again");
                self.forget_queue_home(program);
                self.go_on_with_queue(program)
            }
            AppendStep::Resume => {
                self.call_queue(program, QueueAsk::Port(QueueRequest::ResumeLane { queue: 0, lane, writer: port.0 }))
            }
            AppendStep::Pause => {
                self.count("appends without room");
                self.plan_queue_turn(program, &[10, 50, 200]);
                Ok(())
            }
            AppendStep::GiveUp => {
                self.count("appends given up");
                if let Some((_, me)) = self.writer(program) {
                    (me.waits, me.has_given_up) = (None, true);
                }
                self.plan_queue_turn(program, &[20, 200, 1_000]);
                Ok(())
            }
        }
    }

    /// A writer's call is answered.
    pub(super) fn on_writer_called(&mut self, program: usize, ask: &QueueAsk, outcome: Outcome<QueueReply>) -> Check {
        let region = region_of(program);
        let request = match ask {
            QueueAsk::Append { .. } => return self.on_appended(program, &appended(outcome)?, false),
            QueueAsk::Port(request) => request,
            other => return Err(format!("a writer called {other:?}")),
        };
        let Some((port, me)) = self.writer(program) else { return Ok(()) };
        match (request, outcome) {
            (QueueRequest::OpenLane { .. }, Ok(QueueReply::Lane { lane, accepted })) => {
                check(accepted == 0, || format!("{accepted} units count of {port:?}, which has sent none"))?;
                me.lane = Some(lane);
                self.queues_mut().judge.on_lane((region, lane), port);
                self.count("lanes opened");
            }
            (QueueRequest::ResumeLane { .. }, Ok(QueueReply::Lane { accepted, .. })) => {
                let begins_again = std::mem::take(&mut me.has_given_up);
                if begins_again {
                    me.order.restart(accepted);
                    me.generation += 1;
                }
                let judge = &mut self.queues_mut().judge;
                judge.on_told(port, accepted, false)?;
                if begins_again {
                    judge.on_restart(port, accepted);
                }
                self.count("lanes resumed");
            }
            (QueueRequest::ResumeLane { lane, .. }, Err(Error::NotAWriter { .. })) => {
                let now_ms = self.now_ms;
                self.queues_mut().judge.on_lane_lost((region, *lane), port, now_ms)?;
                self.count("lanes lost");
                self.end_queue_program(program, false);
                return Ok(());
            }
            (QueueRequest::CloseLane { .. }, Ok(_)) => {
                self.count("lanes closed");
                self.end_queue_program(program, false);
                return Ok(());
            }
            (request, Err(_)) => {
                if matches!(request, QueueRequest::OpenLane { .. }) {
                    self.queues_mut().judge.on_no_lane(port);
                }
                self.count("calls of writers that failed");
                self.plan_queue_turn(program, &[20, 100, 400]);
                return Ok(());
            }
            (request, outcome) => return Err(format!("{request:?} is answered {outcome:?}")),
        }
        self.go_on_with_queue(program)
    }
}
