//! The arbiter: one piece of work at a time, each a step of its program or of its logic.
//!
//! A line request costs a look at the block's directory entry, then, when the coherence work is done, a wavelength
//! arbitration unless the pair's line is up. A write-back comes from the block's only owner and needs no look.
use std::collections::VecDeque;

use super::lines::Grant;
use super::log::Part;
use super::{Cluster, Event, Kind, Running};
use crate::papers::euphoria::flow::Cause;
use crate::time::Picos;

/// What reaches the arbiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// A node wants a line, and the coherence work of the access it is for.
    Line(usize),
    /// A home wants the coherence work of an access to its own memory.
    Coherence(usize),
    /// A home sent a directory entry.
    Entry(usize),
    /// A node has done what it was asked for an access.
    Done(usize),
    /// An access is over.
    End(usize),
    /// A node synchronises: its deferred stores, as one message.
    Batch(usize),
    /// A node has invalidated a batch of the given node.
    BatchDone(usize),
    /// Work of the arbiter itself: the wavelengths of an access.
    Wavelengths(usize),
}

/// The arbiter's queue.
// FEATURE: EU-F10
#[derive(Default)]
pub(super) struct Arbiter {
    current: Option<Message>,
    waiting: VecDeque<Message>,
    /// Accesses that wait for a channel.
    pub(super) lineless: VecDeque<usize>,
    /// Requests that wait for their block.
    blocked: Vec<Message>,
}

impl Cluster {
    /// A packet arrived, or the arbiter found work for itself.
    pub(super) fn on_message(&mut self, message: Message) {
        if self.arbiter.current.is_some() {
            self.arbiter.waiting.push_back(message);
        } else {
            self.take_in(message);
        }
    }

    fn take_in(&mut self, message: Message) {
        let (access, name, span) = match message {
            Message::Line(access) if self.running[access].kind.is_write_back() => (access, "take in", Picos::ZERO),
            Message::Wavelengths(access) => (access, "wavelength arbitration", self.timing.arbitration),
            Message::Line(access) | Message::Coherence(access) => (access, "look at the entry", self.timing.step),
            Message::Entry(access) => (access, "fill ICC, decide", self.timing.step),
            Message::Done(access) => (access, "coherence done", self.timing.step),
            Message::End(access) => (access, "give the line back", self.timing.step),
            Message::Batch(node) | Message::BatchDone(node) => (node, "batch", self.timing.step),
        };
        self.arbiter.current = Some(message);
        let done = self.step(access, Part::Arbiter, name, Cause::Arbiter, self.engine.now(), span);
        self.engine.schedule(done, Event::Arbiter);
    }

    /// A piece of work is done: act on it, and take the next.
    pub(super) fn on_arbiter_done(&mut self) {
        let message = self.arbiter.current.take().expect("the arbiter ends only what it began");
        match message {
            Message::Line(access) if self.running[access].kind.is_write_back() => self.find_line(access),
            Message::Line(access) | Message::Coherence(access) => self.look(access, message),
            Message::Entry(access) => {
                self.icc.fill(self.running[access].block);
                self.decide(access);
            }
            Message::Done(access) => self.on_done(access),
            Message::End(access) => self.release_channel(access),
            Message::Wavelengths(access) => self.allot(access),
            Message::Batch(node) => self.on_batch(node),
            Message::BatchDone(node) => self.on_batch_done(node),
        }
        if self.arbiter.current.is_none()
            && let Some(next) = self.arbiter.waiting.pop_front()
        {
            self.take_in(next);
        }
    }

    fn look(&mut self, access: usize, message: Message) {
        self.counts.requests += 1;
        let block = self.running[access].block;
        if !self.locked.insert(block) {
            self.arbiter.blocked.push(message);
            return;
        }
        self.running[access].has_lock = true;
        if self.icc.is_hit(block) {
            self.decide(access);
            return;
        }
        self.counts.icc_misses += 1;
        let home = block.home();
        let asked = self.control(access, home, "directory request");
        let read = self.step(access, Part::Bus(home), "directory read", Cause::Node, asked, self.timing.bus(self.timing.check));
        let (serial, rest) = (self.timing.byte * self.timing.p_control, self.timing.arbitration_const);
        let sent = self.step(access, Part::ArbitrationLine(home), "directory entry", Cause::Serial, read, serial);
        let converted = self.step(access, Part::ArbitrationLine(home), "directory entry", Cause::Conversion, sent, rest);
        let fibre = self.timing.arbiter_fibre;
        let arrives = self.step(access, Part::ArbitrationLine(home), "directory entry", Cause::Fibre, converted, fibre);
        self.engine.schedule(arrives, Event::AtArbiter(Message::Entry(access)));
    }

    /// The access is done with its block; the next request for the block is taken in again.
    pub(super) fn unlock(&mut self, access: usize) {
        let Running { block, has_lock, .. } = self.running[access];
        if !has_lock {
            return;
        }
        self.running[access].has_lock = false;
        self.locked.remove(&block);
        let of = |message: &Message| match message {
            Message::Line(access) | Message::Coherence(access) => Some(*access),
            _ => None,
        };
        let position =
            self.arbiter.blocked.iter().position(|message| of(message).is_some_and(|access| self.running[access].block == block));
        if let Some(position) = position {
            let message = self.arbiter.blocked.remove(position);
            self.on_message(message);
        }
    }

    /// The coherence work of an access is done: its result, or its line.
    pub(super) fn grant(&mut self, access: usize) {
        let Running { node, block, .. } = self.running[access];
        if block.home() == node {
            let arrives = self.control(access, node, "coherence result");
            self.engine.schedule(arrives, Event::Result(access));
        } else {
            self.find_line(access);
        }
    }

    /// The line of a pair: up already, or a matter of wavelengths.
    fn find_line(&mut self, access: usize) {
        let Running { node, block, .. } = self.running[access];
        if self.lines.is_up(node, block.home()) {
            self.allot(access);
        } else if self.arbiter.current.is_none() {
            self.take_in(Message::Wavelengths(access));
        } else {
            self.arbiter.waiting.push_front(Message::Wavelengths(access));
        }
    }

    fn allot(&mut self, access: usize) {
        let Running { node, block, kind, .. } = self.running[access];
        match self.lines.take(node, block.home()) {
            Grant::Busy => self.arbiter.lineless.push_back(access),
            Grant::SetUp(channel) => {
                self.running[access].channel = Some(channel);
                self.set_up_line(access);
            }
            Grant::Held(channel) => {
                self.running[access].channel = Some(channel);
                let granted = self.control(access, node, "line grant");
                self.engine.schedule(granted, Event::LineUp(access));
            }
        }
        debug_assert!(kind != Kind::Store || self.locked.contains(&block), "a store got a line without its block");
    }

    /// A channel is free again; an access that waited for one gets it.
    pub(super) fn release_channel(&mut self, access: usize) {
        if let Some(channel) = self.running[access].channel.take() {
            self.lines.release(channel, self.is_line_kept);
        }
        if let Some(next) = self.arbiter.lineless.pop_front() {
            self.on_message(Message::Wavelengths(next));
        }
    }
}
