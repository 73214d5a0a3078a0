//! The coordinator of a pool with keepers, where this node is one of them: it is here while this keeper leads.

use super::coordination::Coordination;
use super::event_loop::ControlLoop;
use super::home::CoordinatorLink;
use crate::control_link::ControlLink;
use crate::keepers::Rule;
use crate::notices::ToService;
use hanare_fabric::tcp::Greeted;
use hanare_protocol::Result;
use hanare_protocol::coordinator::Reign;
use hanare_protocol::keeper_list::KeeperList;
use hanare_protocol::limits::{KEEPER_CALLER_COUNT_MAX, LEASE_MS};
use hanare_protocol::member::Phase;
use hanare_protocol::wire::control::{FromNode, KeeperStatus, OwnStatus, ToNode};
use rustix::event::epoll::EventFlags;

impl ControlLoop {
    /// A keeper's time passes.
    pub(super) fn tick_keeper(&mut self, now_ms: u64) {
        let Some(reigns) = &mut self.reigns else { return };
        let is_tick = reigns.keepers.tick(now_ms);
        let is_home = reigns.names_at_ms.is_some_and(|at_ms| at_ms <= now_ms) && self.member.phase() == Phase::Member;
        if is_home != reigns.is_home {
            reigns.is_home = is_home;
            self.service.notify(ToService::PoolHome(is_home));
        }
        if let Some(coordination) = &mut self.coordination {
            if is_tick {
                coordination.set_keepers(reigns.keepers.known());
            }
            return;
        }
        // A look at each tick would go back to a leader that has just sent this node on.
        let leader = reigns.keepers.leader();
        if leader == reigns.leader {
            return;
        }
        reigns.leader.clone_from(&leader);
        if let (Some(leader), Some(home)) = (leader, &self.home)
            && home.address() != leader
        {
            self.go_elsewhere(Some(&leader));
        }
    }

    /// The keeper says what it has to say, and its reign begins or ends. Returns true if there is more to do.
    pub(super) fn turn_keeper(&mut self) -> bool {
        let now_ms = self.now_ms();
        let Some(reigns) = &mut self.reigns else { return false };
        let reign = if let Rule::Reigns(reign) = reigns.keepers.rule() { Some(reign) } else { None };
        let has_changed = reign != reigns.reign;
        if has_changed {
            self.end_reign();
            reign.into_iter().for_each(|reign| self.begin_reign(now_ms, reign));
        }
        let mut failed = Vec::new();
        let has_read = self.reigns.as_mut().is_some_and(|reigns| reigns.keepers.turn(&mut failed));
        let news = self.reigns.as_mut().and_then(|reigns| reigns.keepers.take_news());
        if let (Some(addresses), Some(home)) = (news, &mut self.home) {
            home.set_keepers(addresses);
        }
        for (key, reason) in failed {
            self.close_keeper_link(key, &reason);
        }
        has_changed || has_read
    }

    fn begin_reign(&mut self, now_ms: u64, reign: Reign) {
        self.lose_home("this keeper leads");
        let Some(reigns) = &mut self.reigns else { return };
        tracing::warn!("this keeper leads from here on (edition {}, term {})", reign.edition, reign.term >> 32);
        let engine = reigns.keepers.engine().clone();
        let mut coordination = Coordination::begin_reign(reigns.settings.clone(), engine, now_ms);
        coordination.set_keepers(reigns.keepers.known());
        // Before the first reign of all nobody was home.
        let pause_ms = if coordination.began_again() { LEASE_MS } else { 0 };
        (reigns.reign, reigns.names_at_ms) = (Some(reign), Some(now_ms.saturating_add(pause_ms)));
        let callers = std::mem::take(&mut reigns.callers);
        callers.values().for_each(|link| self.unwatch(link.event()));
        self.coordination = Some(coordination);
        self.member.connected(now_ms, self.keys.versions().newest);
    }

    /// The service has stopped to answer for names, because it stood still for a lease.
    pub(super) fn names_lapsed(&mut self) {
        if let Some(reigns) = &mut self.reigns {
            reigns.is_home = false;
        }
    }

    fn end_reign(&mut self) {
        let Some(reigns) = &mut self.reigns else { return };
        if reigns.reign.take().is_none() {
            return;
        }
        tracing::warn!("this keeper leads no more; data go on, naming waits for the next");
        (reigns.names_at_ms, reigns.is_home) = (None, false);
        let leader = reigns.keepers.leader();
        self.service.notify(ToService::PoolHome(false));
        self.member.disconnected();
        for (key, peer) in self.coordination.take().map(Coordination::into_links).unwrap_or_default() {
            self.send_elsewhere(key, peer.link, leader.clone());
        }
    }

    /// Waits until a majority of the keepers has what the coordinator here said last.
    pub(super) fn await_keepers(&mut self, until_ms: u64) -> Result<()> {
        while self.now_ms() < until_ms && self.reigns.as_ref().is_some_and(|reigns| reigns.reign.is_some() && reigns.waits()) {
            self.wait();
            self.tick();
            self.settle()?;
        }
        Ok(())
    }

    /// A node wants a coordinator, and this keeper is none.
    pub(super) fn send_caller_on(&mut self, key: u64, link: ControlLink) {
        let leader = self.reigns.as_ref().and_then(|reigns| reigns.keepers.leader());
        // A node that is no keeper any more still knows where it went.
        let home = self.home.as_ref().filter(|_| self.member.phase() == Phase::Member && !self.is_keeper());
        self.send_elsewhere(key, link, leader.or(home.map(|home| home.address().to_owned())));
    }

    fn send_elsewhere(&mut self, key: u64, mut link: ControlLink, leader: Option<String>) {
        let is_said = link.send(&ToNode::Elsewhere { leader }).is_ok();
        match &mut self.reigns {
            Some(reigns) if is_said && reigns.callers.len() < KEEPER_CALLER_COUNT_MAX => drop(reigns.callers.insert(key, link)),
            _ => self.unwatch(link.event()),
        }
    }

    /// Something happened on a link of a keeper, or of a node that was sent elsewhere. Returns false where it is neither.
    pub(super) fn on_keeper_event(&mut self, key: u64) -> bool {
        let now_ms = self.now_ms();
        let Some(reigns) = &mut self.reigns else { return false };
        if let Some(link) = reigns.callers.get_mut(&key) {
            // The node repeats its messages to the keeper that leads.
            if link.receive::<FromNode>().1.is_err()
                && let Some(link) = reigns.callers.remove(&key)
            {
                self.unwatch(link.event());
            }
            return true;
        }
        if !reigns.keepers.has_link(key) {
            return false;
        }
        match reigns.keepers.on_event(now_ms, key) {
            Ok(has_more) => self.eager.extend(has_more.then_some(key)),
            Err(reason) => self.close_keeper_link(key, &reason),
        }
        true
    }

    fn close_keeper_link(&mut self, key: u64, reason: &str) {
        if let Some(link) = self.reigns.as_mut().and_then(|reigns| reigns.keepers.close(key)) {
            if !reason.is_empty() {
                tracing::warn!("the connection with keeper {} ended: {reason}", link.link.peer());
            }
            self.unwatch(link.link.event());
        }
    }

    /// True at a keeper, and at one that waits for the others at their first start.
    pub(super) fn is_keeper(&self) -> bool {
        self.reigns.as_ref().is_some_and(|reigns| reigns.keepers.is_keeper())
    }

    /// Says that this member can be a keeper, or not, and asks which nodes are. A node that was started with `--join` learns them here.
    pub(super) fn ask_for_keepers(&mut self) {
        let disk = self.reigns.as_ref().map(|reigns| reigns.keepers.disk());
        if disk.is_some() || self.home.is_some() {
            self.tell_coordinator(FromNode::Keeper { disk });
        }
    }

    /// The coordinator says which nodes are keepers.
    pub(super) fn learn_keepers(&mut self, list: &KeeperList) {
        let mut addresses = list.addresses();
        if let Some(reigns) = &mut self.reigns {
            reigns.keepers.learn(list);
            addresses.retain(|address| address != reigns.keepers.address());
        }
        if let Some(home) = &mut self.home {
            home.set_keepers(addresses);
        }
    }

    /// The keepers of the pool, if there are several, as far as this node knows.
    pub(super) fn keeper_status(&self, status: &OwnStatus) -> Vec<KeeperStatus> {
        if let Some(keepers) = self.reigns.as_ref().and_then(|reigns| reigns.keepers.status()) {
            return keepers;
        }
        let named = self.home.as_ref().map_or(&[][..], CoordinatorLink::keepers);
        let leads = |address: &String| status.own.alive && status.coordinator.address == *address;
        named.iter().map(|address| KeeperStatus { address: address.clone(), leads: leads(address), is_reached: None }).collect()
    }

    /// Another keeper has connected.
    pub(super) fn keeper_came(&mut self, greeted: Greeted) {
        let key = self.next_key();
        let Some(reigns) = &mut self.reigns else { return };
        if reigns.keepers.came(key, greeted) {
            self.watch_keeper(key);
        }
    }

    /// A try to reach a keeper ended.
    pub(super) fn keeper_dialed(&mut self, address: &str, outcome: Result<Greeted>) {
        let (now_ms, key) = (self.now_ms(), self.next_key());
        let Some(reigns) = &mut self.reigns else { return };
        if reigns.keepers.dialed(now_ms, address, key, outcome) {
            self.watch_keeper(key);
        }
    }

    fn watch_keeper(&mut self, key: u64) {
        let link = self.reigns.as_ref().and_then(|reigns| reigns.keepers.link(key));
        let is_watched = link.is_some_and(|link| self.watch(link.link.event(), key, EventFlags::IN));
        if !is_watched && let Some(reigns) = &mut self.reigns {
            reigns.keepers.close(key);
        }
    }
}
