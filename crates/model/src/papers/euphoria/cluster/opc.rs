//! OPC: one access of its processor at a time, from the line request to the end notice.
//!
//! The processor offers its cast-outs first, then a new store miss, then a load, then a store miss it offered before: a
//! retried store loses its priority to a load [EU §5.3]. OPC gives the store's line back unused and asks again later.
use super::arbiter::Message;
use super::log::Part;
use super::{Cluster, Event, Kind, Mesi, Running};
use crate::papers::euphoria::flow::{self, Cause, Place};
use crate::papers::euphoria::timing::Access;
use crate::papers::euphoria::{bus, timing::Timing};
use crate::time::Picos;

impl Cluster {
    /// The processor offers an access to other memory.
    pub(super) fn offer(&mut self, access: usize) {
        let Running { node, kind, .. } = self.running[access];
        self.nodes[node].queued.push(access);
        if kind == Kind::Load {
            self.overtake(node);
        }
        self.serve(node);
    }

    /// A load overtakes a store that waits for its line the first time.
    fn overtake(&mut self, node: usize) {
        if let Some(active) = self.nodes[node].opc_busy.filter(|_| self.has_overtaking) {
            let running = &mut self.running[active];
            if running.kind == Kind::Store && !running.is_overtaken && !running.was_overtaken && running.channel.is_none() {
                running.is_overtaken = true;
                self.counts.overtaken += 1;
            }
        }
    }

    /// Takes the next access where OPC is free.
    fn serve(&mut self, node: usize) {
        if self.nodes[node].opc_busy.is_some() {
            return;
        }
        let rank = |access: usize| match (self.running[access].kind, self.running[access].was_overtaken) {
            (Kind::CastOut | Kind::Demanded(_), _) => 0,
            (Kind::Store, false) => 1,
            (Kind::Load, _) => 2,
            (Kind::Store, true) => 3,
        };
        let queued = &self.nodes[node].queued;
        let Some(position) = (0..queued.len()).min_by_key(|index| rank(queued[*index])) else { return };
        let access = self.nodes[node].queued.remove(position);
        self.nodes[node].opc_busy = Some(access);
        let waits_a_load = self.nodes[node].queued.iter().any(|other| self.running[*other].kind == Kind::Load);
        self.request_line(access);
        if waits_a_load {
            self.overtake(node);
        }
    }

    /// Sends the line request, which stands for the coherence request too.
    // FEATURE: EU-F14
    pub(super) fn request_line(&mut self, access: usize) {
        let node = self.running[access].node;
        let arrives = self.control(access, node, "line request");
        self.engine.schedule(arrives, Event::AtArbiter(Message::Line(access)));
    }

    /// The arbiter gave a line that must be set up: both ends lock, then each sends checks until it hears the other's.
    // FEATURE: EU-F9
    pub(super) fn set_up_line(&mut self, access: usize) {
        self.counts.set_ups += 1;
        let Running { node, .. } = self.running[access];
        let heard = self.control(access, node, "line set-up");
        let locked = self.step(access, Part::DataLine, "PLL lock", Cause::SetUp, heard, self.timing.lock);
        let check = self.timing.byte * self.timing.p_control + self.timing.data_line();
        let checked = self.step(access, Part::DataLine, "initialisation check", Cause::SetUp, locked, check);
        let answered = self.step(access, Part::DataLine, "initialisation check back", Cause::SetUp, checked, check);
        self.engine.schedule(answered, Event::LineUp(access));
    }

    /// Both ends are ready: the access itself, or the line's return where the processor went ahead with another.
    pub(super) fn on_line_up(&mut self, access: usize) {
        let Running { node, kind, is_overtaken, .. } = self.running[access];
        if is_overtaken {
            self.running[access].is_overtaken = false;
            self.running[access].was_overtaken = true;
            self.end(access);
            self.unlock(access);
            self.nodes[node].queued.push(access);
            self.nodes[node].opc_busy = None;
            self.serve(node);
            return;
        }
        let access_kind = if kind.is_write_back() { Access::BURST_WRITE } else { Access::BURST_READ };
        let flow = flow::remote(&self.timing, access_kind);
        let mut at = self.engine.now();
        if self.is_overlapped && !kind.is_write_back() {
            // The address packet left with the line request: what has passed since counts.
            at = self.running[access].started.max(at.since(flow::total(&flow.response)));
        }
        at = self.log_phases(access, &flow.response, at);
        at += self.snoop_home(access, at);
        at = at.max(self.engine.now());
        if kind.is_write_back() {
            self.counts.write_backs += 1;
            let behind = flow::total(&flow.interval).since(flow::total(&flow.response));
            self.engine.schedule(at + behind, Event::Answer(access));
        } else {
            self.engine.schedule(at, Event::Answer(access));
        }
    }

    fn log_phases(&mut self, access: usize, phases: &[flow::Phase], start: Picos) -> Picos {
        let Running { node, block, .. } = self.running[access];
        let mut at = start;
        for phase in phases {
            let place = if phase.place == Place::Home { block.home() } else { node };
            let part = match (phase.place, phase.cause) {
                (Place::Line, _) => Part::DataLine,
                (_, Cause::Opc) => Part::Opc(place),
                _ => Part::Bus(place),
            };
            at = self.step(access, part, phase.name, phase.cause, at, phase.span);
        }
        at
    }

    /// The home's own cache is snooped by the proxy's bus access; a dirty block is written to memory first.
    fn snoop_home(&mut self, access: usize, at: Picos) -> Picos {
        let Running { block, kind, .. } = self.running[access];
        let home = block.home();
        let held = self.nodes[home].cache.state(block);
        match kind {
            Kind::Load if held.is_some() => self.nodes[home].cache.set_state(block, Mesi::Shared),
            Kind::Store => {
                self.nodes[home].cache.remove(block);
            }
            _ => {}
        }
        let span = if held == Some(Mesi::Modified) && !kind.is_write_back() { snoop_push(&self.timing) } else { Picos::ZERO };
        self.step(access, Part::Bus(home), "snoop write-back", Cause::Node, at, span) - at
    }

    /// The access has its answer: the directory knows, the line is given back, the processor goes on.
    pub(super) fn on_answer(&mut self, access: usize) {
        let Running { node, block, kind, .. } = self.running[access];
        if let Kind::Demanded(waiting) = kind {
            self.release_later(access);
            self.issue_done(node, waiting);
            return;
        }
        if kind.is_write_back() {
            let entry = self.directory.entry(block).or_default();
            if entry.owner == Some(node) {
                entry.owner = None;
            }
            self.release_later(access);
        } else {
            self.record_holder(access);
            self.end(access);
            self.unlock(access);
        }
        self.nodes[node].opc_busy = None;
        if kind.is_write_back() {
            self.answer_departed(node, block);
        } else {
            self.finish(access);
        }
        self.serve(node);
    }

    /// The end notice of a read; the arbiter gives the line back when it has taken it in.
    // FEATURE: EU-F16
    fn end(&mut self, access: usize) {
        let node = self.running[access].node;
        let arrives = self.control(access, node, "read end");
        self.engine.schedule(arrives, Event::AtArbiter(Message::End(access)));
    }

    fn release_later(&mut self, access: usize) {
        let node = self.running[access].node;
        let arrives = self.control(access, node, "write end");
        let event = if self.has_write_end { Event::AtArbiter(Message::End(access)) } else { Event::Release(access) };
        self.engine.schedule(arrives, event);
    }
}

/// A retried access and the write-back that goes before it.
fn snoop_push(timing: &Timing) -> Picos {
    timing.bus(timing.address_tenure + timing.back_off + bus::response(timing, Access::BURST_WRITE, true))
}
