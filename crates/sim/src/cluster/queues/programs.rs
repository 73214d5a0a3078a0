//! Programs of queues: how they begin and end, and calls that go to the next home where one is lost.

use super::links::QueueLink;
use super::readers::QueueReader;
use super::stores::{Storer, is_gone};
use super::writers::QueueWriter;
use super::{
    ARRAY_AT, Cluster, Event, Outcome, ProcessLife, QueueAsk, QueueEvent, QueueMessage, QueueReply, is_reader, is_storer,
    region_of,
};
use crate::check::Check;
use crate::cluster::process::Opener;
use crate::cluster::words;
use hanare_protocol::Error;
use hanare_protocol::error::Happened;
use hanare_protocol::id::{ClientId, NodeId};
use hanare_protocol::limits::{LEASE_MS, RENEW_MS};
use hanare_protocol::queue::layout::LINE_LEN;
use hanare_protocol::queue::{PortId, QueueForm};
use hanare_protocol::wire::control::{Answer, RegionView};
use hanare_ring::lease::{LEASES_LEN, Leases};
use hanare_ring::testing::Steps;
use std::collections::BTreeMap;

/// Clients of queues: numbers that no other program of a node has.
const FIRST_CLIENT: u32 = 1 << 24;
/// Longest silence of a home, as for a program of the product.
const SILENT_MS: u64 = LEASE_MS + RENEW_MS / 2;

/// Times from one question for the next home to another.
const PAUSES: [u64; 3] = [5, 10, 50];

/// A program with a port.
#[derive(Debug)]
pub(super) struct QueueProgram {
    /// Its node.
    pub at: ProcessLife,
    pub id: ClientId,
    pub port: PortId,
    /// Its connections, by home.
    pub links: BTreeMap<ProcessLife, u64>,
    /// The home as it knows it.
    view: Option<RegionView>,
    is_opening: bool,
    next_seq: u64,
    /// The call that it waits for.
    call: Option<QueueCallOut>,
    /// True if it has seen the array's first line.
    has_array: bool,
    pub role: QueueRole,
}

/// A call of a program: sent, or to be sent.
#[derive(Debug)]
struct QueueCallOut {
    ask: QueueAsk,
    sent: Option<(u64, u64)>,
}

#[derive(Debug)]
pub(super) enum QueueRole {
    Writer(QueueWriter),
    Reader(QueueReader),
    Storer(Storer),
}

impl QueueProgram {
    /// Numbers and links of its messages without an answer.
    fn unanswered(&mut self) -> Vec<(u64, u64)> {
        let mut all: Vec<(u64, u64)> = self.call.iter().filter_map(|call| call.sent).collect();
        if let QueueRole::Writer(writer) = &mut self.role {
            all.extend(writer.unanswered());
        }
        all
    }

    /// True if it waits for nothing, and reads.
    pub fn is_done_reading(&self) -> bool {
        self.call.is_none() && matches!(&self.role, QueueRole::Reader(reader) if reader.is_open)
    }
}

/// The error of a call whose connection ended.
fn cut_off() -> Error {
    let (what, reason) = ("a call on a queue".to_owned(), "its connection ended".to_owned());
    Error::Broken { node: NodeId(0), what, reason, happened: Happened::Unknown }
}

/// True for the errors of a home that is lost, or is home no more.
fn is_moving(error: &Error) -> bool {
    matches!(error, Error::GrantRefused { .. } | Error::NodeLost { .. } | Error::Timeout { .. } | Error::Broken { .. })
}

impl Cluster {
    /// A program begins, on a host whose node takes part.
    pub(super) fn begin_queue_program(&mut self, program: usize) -> Check {
        if !self.is_rough && !is_reader(program) {
            return Ok(());
        }
        let node = |host: usize| {
            let process = self.hosts[host].process.as_ref().filter(|_| !self.hosts[host].is_stopped)?;
            Some(((host, process.life), process.member.identity()?.0))
        };
        let nodes: Vec<(ProcessLife, NodeId)> = (0..self.hosts.len()).filter_map(node).collect();
        if nodes.is_empty() {
            self.at(100, Event::Queue(QueueEvent::Begin { program }));
            return Ok(());
        }
        let queues = self.queues_mut();
        let (at, node) = queues.dice.pick(&nodes);
        queues.programs_ever += 1;
        let number = FIRST_CLIENT + queues.programs_ever;
        let (id, port) = (ClientId::at(node, number), PortId(number.into()));
        let role = match program {
            reader if is_reader(reader) => QueueRole::Reader(QueueReader::default()),
            storer if is_storer(storer) => QueueRole::Storer(Storer::default()),
            _ => QueueRole::Writer(QueueWriter::new(queues.dice.between(1, 40))),
        };
        let (links, view, is_opening, next_seq, call) = Default::default();
        let has_array = is_storer(program);
        queues.programs.insert(program, QueueProgram { at, id, port, links, view, is_opening, next_seq, call, has_array, role });
        queues.judge.on_begun(port);
        let leases = Leases::new(Steps::new(LEASES_LEN), 0);
        if let Some(process) = self.process(at) {
            process.leases.enter(id, leases);
        }
        self.at(0, Event::Queue(QueueEvent::Turn { program, id }));
        Ok(())
    }

    /// A program dies: its host may be gone with what it had sent.
    pub(super) fn kill_queue_program(&mut self, program: usize) {
        let is_cut = self.queues_mut().dice.chance(5_000);
        self.end_queue_program(program, is_cut);
    }

    /// A program has ended, and another begins in its place.
    pub(super) fn end_queue_program(&mut self, program: usize, is_cut: bool) {
        let queues = self.queues_mut();
        let Some(me) = queues.programs.remove(&program) else { return };
        let (next, seen) = (queues.dice.pick(&[1, 500, 3_000]), queues.dice.pick(&[0, 5, 200]));
        self.at(next, Event::Queue(QueueEvent::Begin { program }));
        self.at(seen, Event::Queue(QueueEvent::Ended { at: me.at, id: me.id }));
        me.links.into_values().for_each(|link| self.end_queue_link(link, is_cut));
    }

    /// The program of that client, while it runs.
    pub(super) fn queue_program(&mut self, program: usize, id: ClientId) -> Option<&mut QueueProgram> {
        self.queues_mut().programs.get_mut(&program).filter(|me| me.id == id)
    }

    /// The writer of a program, with its port.
    pub(super) fn writer(&mut self, program: usize) -> Option<(PortId, &mut QueueWriter)> {
        match self.queues_mut().programs.get_mut(&program)? {
            QueueProgram { port, role: QueueRole::Writer(writer), .. } => Some((*port, writer)),
            _ => None,
        }
    }

    /// The reader of a program, with its port.
    pub(super) fn reader(&mut self, program: usize) -> Option<(PortId, &mut QueueReader)> {
        match self.queues_mut().programs.get_mut(&program)? {
            QueueProgram { port, role: QueueRole::Reader(reader), .. } => Some((*port, reader)),
            _ => None,
        }
    }

    /// The flush of a program, with its name.
    pub(super) fn storer(&mut self, program: usize) -> Option<(ClientId, &mut Storer)> {
        match self.queues_mut().programs.get_mut(&program)? {
            QueueProgram { id, role: QueueRole::Storer(storer), .. } => Some((*id, storer)),
            _ => None,
        }
    }

    /// A program has its next turn after a while.
    pub(super) fn plan_queue_turn(&mut self, program: usize, pauses: &[u64]) {
        let queues = self.queues_mut();
        let Some(id) = queues.programs.get(&program).map(|me| me.id) else { return };
        let after = queues.dice.pick(pauses);
        self.at(after, Event::Queue(QueueEvent::Turn { program, id }));
    }

    pub(super) fn on_queue_turn(&mut self, program: usize, id: ClientId) -> Check {
        let Some(me) = self.queue_program(program, id) else { return Ok(()) };
        match &me.call {
            Some(call) if call.sent.is_none() => self.send_queue_call(program),
            Some(_) => Ok(()),
            None => self.go_on_with_queue(program),
        }
    }

    /// A program does its next thing, if it waits for no call.
    pub(super) fn go_on_with_queue(&mut self, program: usize) -> Check {
        let Some(me) = self.queues_mut().programs.get(&program).filter(|me| me.call.is_none()) else { return Ok(()) };
        if !me.has_array {
            return self.call_queue(program, QueueAsk::Get { offset: ARRAY_AT, len: LINE_LEN });
        }
        match program {
            reader if is_reader(reader) => self.go_on_reading(reader),
            storer if is_storer(storer) => self.go_on_storing(storer),
            writer => self.go_on_writing(writer),
        }
    }

    /// A program asks something, and waits for the answer. It asks the home of each moment.
    pub(super) fn call_queue(&mut self, program: usize, ask: QueueAsk) -> Check {
        if let Some(me) = self.queues_mut().programs.get_mut(&program) {
            me.call = Some(QueueCallOut { ask, sent: None });
        }
        self.send_queue_call(program)
    }

    fn send_queue_call(&mut self, program: usize) -> Check {
        let Some(me) = self.queues_mut().programs.get_mut(&program) else { return Ok(()) };
        let knows_home = me.view.is_some();
        let Some(ask) = me.call.as_ref().map(|call| call.ask.clone()) else { return Ok(()) };
        match self.send_queue_ask(program, ask) {
            Some(sent) => {
                let me = self.queues_mut().programs.get_mut(&program);
                if let Some(call) = me.and_then(|me| me.call.as_mut()) {
                    call.sent = Some(sent);
                }
            }
            // The home is not there: the program asks for the next one after a pause.
            None if knows_home => self.plan_queue_turn(program, &PAUSES),
            None => return self.look_for_queue(program),
        }
        Ok(())
    }

    /// Sends to the home that a program knows, if it knows one that is there. Returns the number and the link.
    pub(super) fn send_queue_ask(&mut self, program: usize, what: QueueAsk) -> Option<(u64, u64)> {
        let me = self.queues_mut().programs.get(&program)?;
        let (id, route) =
            (me.id, me.view.as_ref().and_then(|view| view.layout.extents().next().map(|home| (home.slot, view.clone()))));
        let (slot, view) = route?;
        let Some(home) = self.home_of_view(&view) else {
            self.forget_queue_home(program);
            return None;
        };
        let grant = *view.grants.first()?;
        let link = self.queue_link(program, home);
        let me = self.queues_mut().programs.get_mut(&program)?;
        let seq = me.next_seq;
        me.next_seq += 1;
        self.send_to_queue(link, QueueMessage { seq, slot, grant, what });
        let after = self.queues_mut().dice.pick(&[SILENT_MS / 2, SILENT_MS]);
        self.at(after, Event::Queue(QueueEvent::Late { program, id, seq }));
        Some((seq, link))
    }

    /// A program looks for the home of its region at its own node.
    fn look_for_queue(&mut self, program: usize) -> Check {
        let Some(me) = self.queues_mut().programs.get(&program) else { return Ok(()) };
        let (at, id, is_opening) = (me.at, me.id, me.is_opening);
        if is_opening {
            return Ok(());
        }
        if self.hosts[at.0].is_stopped {
            self.plan_queue_turn(program, &[50, 300]);
            return Ok(());
        }
        if let Some(me) = self.queue_program(program, id) {
            me.is_opening = true;
        }
        let region = region_of(program);
        let by = (words::user_of_region(region), id);
        self.ask_region(at.0, by, self.word_request(region), Opener::Queues(program, id))
    }

    /// A program has an answer about its region.
    pub(in crate::cluster) fn on_queue_opened(&mut self, program: usize, id: ClientId, result: Outcome<Answer>) -> Check {
        let Some(me) = self.queue_program(program, id) else { return Ok(()) };
        me.is_opening = false;
        match result {
            Ok(Answer::Region(view)) if view.copies > 1 => {
                me.view = Some(view);
                self.on_queue_turn(program, id)
            }
            Err(Error::RegionLost { region, node }) => {
                Err(format!("'{region}' is lost with {node}, and one of its holders was well"))
            }
            _ => {
                self.plan_queue_turn(program, &[10, 100, 500]);
                Ok(())
            }
        }
    }

    /// A program's home is lost, or is none any more.
    pub(super) fn forget_queue_home(&mut self, program: usize) {
        if let Some(me) = self.queues_mut().programs.get_mut(&program) {
            me.view = None;
        }
    }

    /// A reply reaches a program.
    pub(super) fn on_queue_reply(&mut self, link: u64, seq: u64, outcome: Outcome<QueueReply>) -> Check {
        self.note(format!("link {link}: {seq} is answered {outcome:?}"));
        match self.queue_link_at(link, false) {
            Some(QueueLink { program, id, .. }) if self.queue_program(program, id).is_some() => {
                self.on_queue_outcome(program, seq, outcome)
            }
            _ => {
                self.count("messages of queues lost with their connection");
                Ok(())
            }
        }
    }

    /// A program has no answer yet. It resets its connection, so nothing that it sent is done later.
    pub(super) fn on_queue_late(&mut self, program: usize, id: ClientId, seq: u64) -> Check {
        let Some(me) = self.queue_program(program, id) else { return Ok(()) };
        match me.unanswered().into_iter().find(|sent| sent.0 == seq) {
            Some((_, link)) => self.reset_queue_link(link),
            None => Ok(()),
        }
    }

    /// A program's connection has ended: its calls there are without an answer.
    pub(super) fn on_queue_link_lost(&mut self, (program, id): (usize, ClientId), (link, home): (u64, ProcessLife)) -> Check {
        let Some(me) = self.queue_program(program, id) else { return Ok(()) };
        me.links.extract_if(home..=home, |_, other| *other == link).for_each(drop);
        let seqs: Vec<u64> = me.unanswered().into_iter().filter(|sent| sent.1 == link).map(|sent| sent.0).collect();
        seqs.into_iter().try_for_each(|seq| self.on_queue_outcome(program, seq, Err(cut_off())))
    }

    /// A message of a program has an answer, or has none for a reason.
    fn on_queue_outcome(&mut self, program: usize, seq: u64, outcome: Outcome<QueueReply>) -> Check {
        let Some(me) = self.queues_mut().programs.get_mut(&program) else { return Ok(()) };
        let is_of_call = |call: &mut QueueCallOut| call.sent.is_some_and(|(other, _)| other == seq);
        let Some(call) = me.call.take_if(is_of_call) else { return self.on_append_outcome(program, seq, outcome) };
        match outcome {
            Err(error) if is_moving(&error) && !is_gone(&error) => {
                let mut ask = call.ask;
                if let QueueAsk::Store(part) = &mut ask {
                    part.once.call.is_repeat = true;
                }
                (me.call, me.view) = (Some(QueueCallOut { ask, sent: None }), None);
                self.count("calls on queues that are sent again");
                self.plan_queue_turn(program, &PAUSES);
                Ok(())
            }
            outcome if me.has_array => self.on_queue_called(program, call.ask, outcome),
            Ok(QueueReply::Bytes(bytes)) => {
                let line = bytes[..].try_into().map_err(|_| "a get of a line gives another length".to_owned())?;
                me.has_array = QueueForm::decode(line).is_ok();
                if me.has_array { self.go_on_with_queue(program) } else { self.call_queue(program, QueueAsk::Make) }
            }
            _ => {
                self.plan_queue_turn(program, &[10, 100]);
                Ok(())
            }
        }
    }

    fn on_queue_called(&mut self, program: usize, ask: QueueAsk, outcome: Outcome<QueueReply>) -> Check {
        match program {
            reader if is_reader(reader) => self.on_reader_called(reader, ask, outcome),
            storer if is_storer(storer) => self.on_stored(storer, outcome),
            writer => self.on_writer_called(writer, &ask, outcome),
        }
    }
}
