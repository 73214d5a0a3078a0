//! The world, one step of it, and the rules for a state with nothing under way.

use super::{Left, OWN, Off, PATIENCE_MS, Program, Step, ToHome, ToHost};
use crate::explored::Judged;
use crate::id::ClientId;
use crate::page::hosts::HostId;
use crate::page::membership::fenced::FencedHosts;
use crate::page::membership::join_queue::JoinQueue;
use crate::page::membership::sharers::Sharers;
use crate::page::membership::sharing::Sharing;
use crate::page::membership::table::Phase;
use std::collections::{BTreeSet, VecDeque};

/// A home of one page.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Home {
    pub(super) sharers: Sharers,
    /// False while it is a home; a silent one gets no messages.
    pub(super) is_silent: bool,
    pub(super) is_dead: bool,
    pub(super) epoch: u64,
    pub(super) is_returning: bool,
    pub(super) value: u8,
    /// The page's owner, and whether it has confirmed that.
    pub(super) owner: Option<(HostId, bool)>,
    pub(super) is_lost: bool,
    /// The last store anywhere.
    pub(super) last: u8,
    /// Hosts that wait to be let in: their keys, and the epochs of their grants.
    pub(super) join_queue: JoinQueue<(u64, u64)>,
    /// The host, where this home did without it.
    pub(super) fenced: FencedHosts<ToHost>,
}

/// The host's state for one home.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Part {
    pub(super) key: u64,
    pub(super) owned: Option<u8>,
    pub(super) to_home: VecDeque<ToHome>,
    pub(super) to_host: VecDeque<ToHost>,
    /// Pages that a home that was lost may not have heard.
    pub(super) unsent: Vec<ToHome>,
    /// The host's keys and memberships when it had returned its pages.
    pub(super) returned: Vec<(u64, u64)>,
    /// The epoch whose end the host is to hear of.
    pub(super) unheard: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct World {
    /// The region on the host, as long as there is one.
    pub(super) sharing: Option<Sharing<Program, ()>>,
    pub(super) homes: Vec<Home>,
    pub(super) parts: Vec<Part>,
    /// Programs that map it.
    pub(super) inside: BTreeSet<u64>,
    /// Programs that wait for an answer: to map, and to unmap.
    pub(super) waiting: BTreeSet<u64>,
    pub(super) unmapping: BTreeSet<u64>,
    pub(super) drawn: u64,
    pub(super) left: Left,
    wrong: Option<&'static str>,
}

impl Judged for World {
    fn wrong(&self) -> Option<&'static str> {
        self.wrong
    }
}

impl World {
    pub(super) fn new(homes: usize, left: Left) -> World {
        let home = Home {
            sharers: Sharers::new(OWN),
            is_silent: false,
            is_dead: false,
            epoch: 1,
            is_returning: false,
            value: 0,
            owner: None,
            is_lost: false,
            last: 0,
            join_queue: JoinQueue::new(PATIENCE_MS),
            fenced: FencedHosts::default(),
        };
        let part = Part {
            key: 0,
            owned: None,
            to_home: VecDeque::new(),
            to_host: VecDeque::new(),
            unsent: Vec::new(),
            returned: Vec::new(),
            unheard: None,
        };
        World {
            sharing: None,
            homes: vec![home; homes],
            parts: vec![part; homes],
            inside: BTreeSet::new(),
            waiting: BTreeSet::new(),
            unmapping: BTreeSet::new(),
            drawn: 0,
            left,
            wrong: None,
        }
    }

    pub(super) fn draw(&mut self) -> u64 {
        self.drawn += 1;
        self.drawn
    }

    pub(super) fn fail(&mut self, what: &'static str) {
        self.wrong.get_or_insert(what);
    }

    /// Runs one step.
    pub(super) fn act(&mut self, step: Step, off: Off) {
        match step {
            Step::Map(_) | Step::Unmap(_) | Step::End(_) | Step::GiveUp => self.act_by_program(step),
            Step::Store(home) => self.store(home),
            Step::Turn { is_late } => self.turn(is_late),
            Step::ToHome(home) => {
                if let Some(message) = self.parts[home].to_home.pop_front() {
                    self.at_home(home, message, off);
                }
            }
            Step::Refuse(home) => self.refuse(home),
            Step::Wait(home) => self.let_wait(home),
            Step::Try { home, is_late } => self.try_again(home, is_late, off),
            Step::ToHost(home) => {
                if let Some(message) = self.parts[home].to_host.pop_front() {
                    self.at_host(home, message, off);
                }
            }
            Step::Silence(home) => {
                self.left.silences -= 1;
                (self.homes[home].is_silent, self.parts[home].unheard) = (true, Some(self.homes[home].epoch));
            }
            Step::Return(home) => self.come_back(home, off),
            Step::Repeat(home) => self.ask_again(home),
            Step::Die(home) => {
                self.left.deaths -= 1;
                let it = &mut self.homes[home];
                (it.is_dead, it.is_silent) = (true, true);
                self.parts[home].to_host.clear();
                self.parts[home].unheard = Some(self.homes[home].epoch);
            }
            Step::Hear(home) => self.hear_of_loss(home),
            Step::Dismiss(home) => self.fence(home),
            Step::Tell(home) => self.tell(home),
            Step::Cut => self.cut(),
        }
        self.drain(off);
    }

    pub(super) fn act_by_program(&mut self, step: Step) {
        match step {
            Step::Map(program) => {
                self.left.maps -= 1;
                self.waiting.insert(program);
                self.begin(Program(program));
            }
            Step::Unmap(program) => {
                self.inside.remove(&program);
                self.unmapping.insert(program);
                let is_unused = self.inside.is_empty();
                if let Some(sharing) = &mut self.sharing {
                    sharing.unmap(ClientId(program), is_unused, 0);
                }
            }
            Step::End(program) => {
                self.left.ends -= 1;
                self.inside.remove(&program);
                self.waiting.remove(&program);
                if let Some(sharing) = &mut self.sharing {
                    sharing.on_client_gone(ClientId(program));
                }
            }
            _ => {
                self.left.gives_up -= 1;
                self.inside.clear();
                if let Some(sharing) = &mut self.sharing {
                    sharing.give_up(0);
                }
            }
        }
    }

    /// True if nothing is under way and no step is left that needs no outside event.
    pub(super) fn is_quiet(&self) -> bool {
        let is_idle = |part: &Part| part.to_home.is_empty() && part.to_host.is_empty() && part.unheard.is_none();
        let may_turn = self.sharing.as_ref().is_some_and(|sharing| sharing.may_empty() || sharing.handing().next().is_some());
        self.parts.iter().all(is_idle)
            && !may_turn
            && self.homes.iter().all(|home| home.is_dead || home.join_queue.is_empty())
            && self.homes.iter().all(|home| home.is_dead || home.fenced.clone().due(0).is_empty())
            && self.homes.iter().all(|home| home.is_dead || !home.is_returning)
            && self.homes.iter().all(|home| home.is_dead || !home.is_silent)
    }

    pub(super) fn judge(&mut self) {
        if !self.is_quiet() {
            return;
        }
        if !self.waiting.is_empty() || !self.unmapping.is_empty() {
            return self.fail("a program waits for nothing");
        }
        if self.sharing.as_ref().is_some_and(|sharing| sharing.phase() != Phase::Rest) {
            return self.fail("a region waits for nothing");
        }
        for home in 0..self.homes.len() {
            if self.homes[home].is_dead {
                continue;
            }
            if !self.homes[home].fenced.is_empty() {
                return self.fail("a host that was done without is told for ever");
            }
            let share = self.sharing.as_ref().and_then(|sharing| sharing.share(home));
            let known: Vec<u64> = self.homes[home].sharers.iter().map(|(_, sharer)| sharer.share).collect();
            if known != Vec::from_iter(share) {
                return self.fail("a home knows a host that does not know it, or the other way round");
            }
        }
    }
}
