//! Programs that send messages of commands in pieces, give up, and die: what was answered stays.
//!
//! Each *line* of programs writes versions 1, 2, 3 … of a block. It lies in a region of words, so it moves, and is copied, with that. Another
//! block of the line is in a second region: copies to the first are made from it, by its home's node. A program that gets no answer in time
//! gives its connection up. On the next one it asks that home what became of the command. A program that dies has a successor.
//!
//! A connection stands still for a while, or breaks. Its end is a reset. The kernels of homes know of the reset before a successor begins.
//! That is a known limit: a program may die while its packets are lost. A process that stands still finds all that came meanwhile, in any order.
//!
//! | module | holds |
//! |---|---|
//! | `blocks` | the judge's account of each block |
//! | `messages` | what a message has, writes and reads |
//! | `programs` | programs that begin, send, give up and die |
//! | `links` | connections: pieces in order, breaks, and who hears of them when |
//! | `service` | a node's side, as `hanare-node` drives it: sessions, rounds of turns, what is known of ended links |
//! | `sources` | links over which a node fetches bytes for copies from another home ([`hanare_home::FetchLink`]) |
//!
//! Senders have dice of their own, and runs with other defects have none. So the seeds that find those stay what they were.

mod blocks;
mod links;
mod messages;
mod programs;
mod service;
mod sources;

use super::commands::Piece;
use super::process::ProcessLife;
use super::{Cluster, Defect, Event, Terms, words};
use crate::Plan;
use crate::check::{Check, check};
use crate::dice::Dice;
use crate::links::Links;
use blocks::BlockLog;
use hanare_home::Memory;
use hanare_protocol::Result as Outcome;
use hanare_protocol::id::Rights;
use links::{FIRST_LINK, SendLink};
use messages::Route;
use programs::Line;
use service::CommandService;
pub(super) use service::is_of_sender;
use std::collections::{BTreeMap, BTreeSet};

/// Lines of programs.
const LINE_COUNT: usize = 8;
/// Part of a seed that dice of senders begin with.
const SALT: u64 = 0x7365_6e64;

/// An event of senders.
#[derive(Clone, Debug)]
pub(crate) enum SendEvent {
    /// A program begins in place of the last one.
    Begin { line: usize },
    /// A program does its next thing.
    Turn { line: usize, life: u64 },
    /// A program has had no answer for long.
    Late { line: usize, seq: u64 },
    /// A greeting, or a piece of a message, reaches the kernel of a home's host.
    ToHome { link: u64, piece: Option<Piece> },
    /// A piece of an answer reaches a program, or the kernel of a node's host.
    ToClient { link: u64, piece: Piece },
    /// The kernel of a home's host knows that a connection is closed.
    ClosedAtHome { link: u64 },
    /// A client sees that a connection has ended.
    ClosedAtClient { link: u64 },
    /// A node's service looks at what is there. It would at that moment, unless it stands still.
    Serve { at: ProcessLife, due_ms: u64 },
    /// A node's try to reach another for bytes ends.
    Dialed { at: ProcessLife, address: String },
    /// Pages that bytes of another node wait for are at home.
    PagesCame { at: ProcessLife, link: u64 },
    /// Something goes wrong.
    Fault,
}

/// All senders.
#[derive(Debug)]
pub(super) struct Senders {
    dice: Dice,
    lines: [Line; LINE_COUNT],
    programs_ever: u64,
    links: Links<SendLink>,
    /// Services of processes that run.
    services: BTreeMap<ProcessLife, CommandService>,
    /// The block that each line writes, and the block from which it has copies made.
    blocks: [[BlockLog; 2]; LINE_COUNT],
    /// Lines whose blocks may have changed at their homes.
    touched: BTreeSet<usize>,
}

/// The senders of a run that has some.
pub(super) fn senders(plan: Plan, terms: Terms, defect: Option<Defect>) -> Option<Senders> {
    let is_played = defect.map_or(plan.seed % 5 == 1, Defect::is_of_senders) && terms == Terms::Budget;
    let links = Links::numbered_after(FIRST_LINK);
    let (lines, programs_ever, services, blocks, touched) = Default::default();
    let dice = Dice::new(plan.seed ^ SALT);
    is_played.then_some(Senders { dice, lines, programs_ever, links, services, blocks, touched })
}

/// The region of the block that a line writes (`which` is 0), or of the source of its copies (1).
fn region_of(line: usize, which: usize) -> usize {
    let behind = if which == 0 { 0 } else { 1 + line / words::REGION_COUNT };
    (line + behind) % words::REGION_COUNT
}

impl Cluster {
    pub(super) fn begin_senders(&mut self) {
        if self.senders.is_none() {
            return;
        }
        (0..LINE_COUNT).for_each(|line| self.at(1_000, Event::Send(SendEvent::Begin { line })));
        self.at(2_000, Event::Send(SendEvent::Fault));
    }

    /// The senders; only called in runs that have some.
    fn senders_mut(&mut self) -> &mut Senders {
        self.senders.as_mut().expect("a run with senders")
    }

    /// The host whose process an event needs, if it needs one. Kernels take what comes while a process stands still.
    pub(super) fn host_of_sending(&self, event: &SendEvent) -> Option<usize> {
        match event {
            SendEvent::Serve { at, .. } | SendEvent::Dialed { at, .. } | SendEvent::PagesCame { at, .. } => Some(at.0),
            SendEvent::ClosedAtClient { link } => self.senders.as_ref()?.links.get(*link)?.client.node().map(|at| at.0),
            _ => None,
        }
    }

    pub(super) fn on_sending(&mut self, event: SendEvent) -> Check {
        match event {
            SendEvent::Begin { line } => self.begin_sender(line),
            SendEvent::Turn { line, life } => self.on_sender_turn(line, life),
            SendEvent::Late { line, seq } => self.on_sender_late(line, seq),
            SendEvent::ToHome { link, piece } => self.on_piece(link, piece),
            SendEvent::ToClient { link, piece } => self.on_answer_piece(link, piece),
            SendEvent::ClosedAtHome { link } => self.on_send_link_reset(link),
            SendEvent::ClosedAtClient { link } => self.on_send_link_lost(link),
            SendEvent::Serve { at, due_ms } => self.on_serve_links(at, due_ms),
            SendEvent::Dialed { at, address } => self.on_source_dialed(at, &address),
            SendEvent::PagesCame { at, link } => self.on_pages_came(at, link),
            SendEvent::Fault => self.on_sender_fault(),
        }
    }

    /// Something goes wrong, and the next thing is planned.
    fn on_sender_fault(&mut self) -> Check {
        if !self.is_rough {
            return Ok(());
        }
        let hosts = self.hosts.len() as u64;
        let dice = &mut self.senders_mut().dice;
        let (after, fault, line) = (dice.between(50, 1_500), dice.below(8), dice.below(LINE_COUNT as u64) as usize);
        let node = dice.below(hosts) as usize;
        self.at(after, Event::Send(SendEvent::Fault));
        match fault {
            0..3 => self.stall_send_link(),
            3 => self.break_send_link(),
            4..6 => self.kill_sender(line),
            _ if self.may_lose(node) => self.stop(node, &[20, 300, 1_500]),
            _ => {}
        }
        Ok(())
    }

    /// A process has died: programs of its host die with it, and connections to it end.
    pub(super) fn end_senders(&mut self, at: ProcessLife) {
        let Some(senders) = &mut self.senders else { return };
        senders.services.remove(&at);
        let is_there = |line: &usize| senders.lines[*line].program.as_ref().is_some_and(|program| program.at == at);
        let lines: Vec<usize> = (0..LINE_COUNT).filter(is_there).collect();
        lines.into_iter().for_each(|line| self.kill_sender(line));
        self.lose_send_links(at);
    }

    /// A home has no word that is older than what was answered, or was said not to be written.
    pub(super) fn judge_senders(&mut self) -> Check {
        let Some(senders) = self.senders.as_mut().filter(|senders| !senders.touched.is_empty()) else { return Ok(()) };
        let touched = std::mem::take(&mut senders.touched);
        let blocks = touched.into_iter().flat_map(|line| [(line, 0), (line, 1)]);
        blocks.into_iter().try_for_each(|(line, which)| self.judge_block(line, which))
    }

    fn judge_block(&mut self, line: usize, which: usize) -> Check {
        let region = region_of(line, which);
        for program in (region..words::PROGRAM_COUNT).step_by(words::REGION_COUNT) {
            let Some((home, Route { slot, grant, .. })) = self.route(program) else { continue };
            self.renew_lease(home);
            let extent = self.process(home).and_then(|process| process.lender.open(slot, grant, Rights::Read).ok());
            let log = &self.senders_mut().blocks[line][which];
            let held = extent.map_or(Ok(()), |extent| log.judge(line, which, &extent));
            held.map_err(|reason| format!("line {line}, region {region}: {reason}"))?;
        }
        Ok(())
    }

    /// At rest no line waits, and homes have what was answered. All holders have the same bytes ([`Cluster::judge_words`]).
    pub(super) fn judge_senders_at_rest(&mut self) -> Check {
        let since_ms = self.plan.rough_ms();
        let Some(senders) = &mut self.senders else { return Ok(()) };
        senders.touched.extend(0..LINE_COUNT);
        senders.lines.iter().enumerate().try_for_each(|(line, state)| {
            check(state.answered_ms > since_ms, || format!("line {line} has got no answer since the faults ended: {state:?}"))
        })?;
        self.judge_senders()
    }
}
