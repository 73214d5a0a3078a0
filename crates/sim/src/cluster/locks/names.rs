//! The home of names: the coordinator's node, or the node of the keeper that leads.
//!
//! Several nodes may take themselves for it where keepers hold the journal. Each is home as long as it is a member by its own clock. The next one
//! answers a lease later.

use super::judge::is_word;
use super::{Cluster, Event, LockEvent, ProcessLife};
use crate::check::Check;
use crate::cluster::keepers::Keepers;
use crate::cluster::process::Process;
use hanare_home::Input;
use hanare_protocol::id::NodeId;
use hanare_protocol::limits::LEASE_MS;
use hanare_protocol::member::Phase;
use hanare_protocol::name::extent_of_name;

impl Cluster {
    /// A process begins in a pool with keepers: it is no home of names until its keeper leads.
    pub(in crate::cluster) fn begin_without_names(&mut self, at: ProcessLife) -> Check {
        if self.keepers.is_none() {
            return Ok(());
        }
        self.tell(at, Input::PoolHome(NodeId(0), false))
    }

    /// Another node goes on as the coordinator: names follow when no lease of the home before holds.
    pub(in crate::cluster) fn plan_names(&mut self, at: ProcessLife) {
        self.at(LEASE_MS, Event::Lock(LockEvent::Names { at }));
    }

    pub(super) fn on_names(&mut self, at: ProcessLife) -> Check {
        if self.keepers.is_some() {
            return self.turn_names(at.0);
        }
        if !self.homes.contains_key(&at.0) {
            return Ok(());
        }
        let Some(process) = self.process(at) else { return Ok(()) };
        let me = process.member.identity().filter(|_| process.member.phase() == Phase::Member);
        let Some((me, _)) = me else {
            self.at(100, Event::Lock(LockEvent::Names { at }));
            return Ok(());
        };
        self.note(format!("names are at {me}"));
        self.locks.names = Some(at);
        self.judge_names(at);
        self.tell(at, Input::PoolHome(me, true))
    }

    /// A keeper's reign begins or ends: its node is the home of names from that moment on, or not any more.
    pub(in crate::cluster) fn plan_reign_of_names(&mut self, host: usize, from_ms: Option<u64>) -> Check {
        let Some(keeper) = self.keepers_mut().running.get_mut(&host) else { return Ok(()) };
        let at = (host, keeper.life);
        keeper.names_at_ms = from_ms;
        if let Some(from_ms) = from_ms {
            let after = from_ms.saturating_sub(self.now_ms);
            self.at(after, Event::Lock(LockEvent::Names { at }));
        }
        self.turn_names(host)
    }

    /// A keeper's node is home of names, or not any more. A node that stood still for a lease is none: another may be, by now.
    pub(in crate::cluster) fn turn_names(&mut self, host: usize) -> Check {
        let now_ms = self.now_ms;
        let Some(Process { member, .. }) = &self.hosts[host].process else { return Ok(()) };
        let (has_lease, was_member) = (member.leases_until_ms(now_ms) > now_ms, member.phase() == Phase::Member);
        let me = member.identity().map(|(me, _)| me).filter(|_| has_lease);
        let Some(keeper) = self.keepers.as_mut().and_then(|keepers| keepers.running.get_mut(&host)) else { return Ok(()) };
        let is_home = keeper.names_at_ms.is_some_and(|at_ms| at_ms <= now_ms) && me.is_some();
        if keeper.is_home == is_home {
            return Ok(());
        }
        keeper.is_home = is_home;
        let at = (host, keeper.life);
        if !has_lease && was_member {
            self.count("homes of names that stood still");
        }
        self.set_names(at, me.unwrap_or_default(), is_home)
    }

    fn set_names(&mut self, at: ProcessLife, me: NodeId, is_home: bool) -> Check {
        if is_home {
            self.note(format!("names are at {me}"));
            self.count("homes of names");
            self.locks.names = Some(at);
            self.judge_names(at);
        } else {
            self.note(format!("names are at host {} no more", at.0));
            self.locks.names.take_if(|home| *home == at);
        }
        if let Some(home) = self.homes.get_mut(&at.0) {
            let answers = home.jobs.set_home(self.course.now_ms, me, is_home);
            self.tell_ranks(answers)?;
        }
        self.tell(at, Input::PoolHome(me, is_home))
    }

    /// A node is the home of names, and another may have been. What programs have from its own time as home before is void.
    fn judge_names(&mut self, at: ProcessLife) {
        self.begin_granting(at, is_word);
        self.locks.homes.entry(at).or_default().model.doubt_words();
    }

    /// True if a node answers for locks at names by its own clock. One that stands still would, and its lease ends meanwhile.
    pub(super) fn may_answer_names(&self, at: ProcessLife) -> bool {
        let process = self.hosts[at.0].process.as_ref().filter(|process| process.life == at.1);
        let has_lease = process.is_some_and(|process| process.member.leases_until_ms(self.now_ms) > self.now_ms);
        self.keepers.is_none() || (has_lease && self.has_names(at))
    }

    /// True if a node answers for the lock at a byte: it has the extent, and the home lease where other nodes have copies.
    pub(super) fn may_answer_byte(&self, at: ProcessLife, name: &str) -> bool {
        let process = self.hosts[at.0].process.as_ref().filter(|process| process.life == at.1);
        let extent = process.zip(extent_of_name(name)).and_then(|(process, (gid, slot))| process.lender.bytes(gid, slot));
        let has_lease = process.is_some_and(|process| process.member.homes_until_ms() > self.now_ms);
        extent.is_some_and(|extent| !extent.is_copied() || (has_lease && extent.is_open()))
    }

    /// True if a node takes itself for the home of names.
    pub(super) fn has_names(&self, at: ProcessLife) -> bool {
        let is_home = |keepers: &Keepers| keepers.running.get(&at.0).is_some_and(|keeper| keeper.life == at.1 && keeper.is_home);
        self.keepers.as_ref().is_none_or(is_home)
    }
}
