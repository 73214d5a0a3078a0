//! Links between nodes: those of other nodes to the coordinator here, and the one to a coordinator elsewhere.

use super::{ControlLoop, HOME};
use crate::control::CoordinatorLink;
use crate::control_link::ControlLink;
use hanare_fabric::tcp::Greeted;
use hanare_protocol::limits::ANSWER_MS;
use hanare_protocol::member::Phase;
use hanare_protocol::wire::control::ToNode;
use hanare_protocol::{Error, Result};
use rustix::event::epoll::{self, EventData, EventFlags};

/// Time in which a node that starts finds a coordinator, while keepers of its pool answer.
const LEADER_MS: u64 = 3 * ANSWER_MS;

impl ControlLoop {
    pub(super) fn welcome(&mut self, greeted: Greeted) {
        let key = self.next_key();
        let link = ControlLink::new(Box::new(greeted.link));
        if !self.watch(link.event(), key, EventFlags::IN) {
            return;
        }
        if let Some(coordination) = &mut self.coordination {
            coordination.add_link(key, link, EventFlags::IN);
            self.on_link(key);
        } else {
            self.send_caller_on(key, link);
        }
    }

    /// A link of another node has something, or room.
    pub(super) fn on_link(&mut self, key: u64) {
        let now_ms = self.now_ms();
        if self.on_keeper_event(key) {
            return;
        }
        let Some(coordination) = &mut self.coordination else { return };
        match coordination.on_event(now_ms, key) {
            Ok(has_more) => self.eager.extend(has_more.then_some(key)),
            Err(error) => self.close_link(key, &error.to_string()),
        }
    }

    pub(super) fn close_link(&mut self, key: u64, reason: &str) {
        let now_ms = self.now_ms();
        let closed = self.coordination.as_mut().and_then(|coordination| coordination.close(now_ms, key, reason));
        if let Some(peer) = closed {
            self.unwatch(peer.link.event());
        }
    }

    pub(super) fn dialed(&mut self, outcome: Result<Greeted>) {
        let now_ms = self.now_ms();
        let Some(home) = &mut self.home else { return };
        match home.dialed(now_ms, outcome) {
            // The keeper here leads meanwhile.
            Ok(_) if self.coordination.is_some() => drop(home.lost(now_ms)),
            Ok(spoken) => {
                let event = home.link.as_ref().expect("just connected").event();
                if epoll::add(&self.epoll, event, EventData::new_u64(HOME), EventFlags::IN).is_ok() {
                    self.member.connected(now_ms, spoken);
                    self.on_home();
                }
            }
            Err(error @ (Error::NoNode { .. } | Error::Timeout { .. })) => {
                tracing::debug!("the coordinator is not there: {error}");
                let addresses = home.addresses();
                // Keepers wait for each other.
                if self.ready.is_some() && now_ms > ANSWER_MS && !self.is_keeper() {
                    self.fail_start(Error::NoCoordinator { reason: format!("{addresses} cannot be reached: {error}") });
                }
            }
            Err(error) => self.fail_start(error),
        }
    }

    pub(super) fn on_home(&mut self) {
        let now_ms = self.now_ms();
        let Some(link) = self.home.as_mut().and_then(|home| home.link.as_mut()) else { return };
        let (messages, ending) = link.receive::<ToNode>();
        self.eager.extend(link.has_more().then_some(HOME));
        if let Some(home) = self.home.as_mut().filter(|_| !messages.is_empty()) {
            home.heard(now_ms);
        }
        for message in messages {
            match message {
                ToNode::Elsewhere { leader } => return self.go_elsewhere(leader.as_deref()),
                ToNode::Keepers(list) => self.learn_keepers(&list),
                message => self.member.handle(self.now_ms(), message),
            }
        }
        if let Err(error) = ending {
            self.lose_home(&error.to_string());
        }
    }

    /// The keeper at the other end does not lead.
    pub(in crate::control) fn go_elsewhere(&mut self, leader: Option<&str>) {
        self.lose_home("another keeper leads");
        let now_ms = self.now_ms();
        if self.ready.is_some() && now_ms > LEADER_MS && !self.is_keeper() {
            let addresses = self.home.as_ref().map_or_else(String::new, CoordinatorLink::addresses);
            let leads =
                leader.map_or_else(|| "none of them leads".to_owned(), |leader| format!("{leader} is to lead, and does not"));
            let reason = format!("{addresses}: keepers answer, but {leads}; see whether a majority of the keepers runs");
            return self.fail_start(Error::NoCoordinator { reason });
        }
        if let (Some(home), Some(leader)) = (&mut self.home, leader) {
            home.go_to(now_ms, leader);
        }
    }

    /// True if this node asks keepers who leads where the coordinator is silent. A keeper knows by itself.
    pub(super) fn asks_keepers(&self) -> bool {
        self.coordination.is_none() && self.member.phase() == Phase::Member && !self.is_keeper()
    }

    /// A keeper was asked who leads, because the coordinator is silent.
    pub(super) fn heard_of_leader(&mut self, leader: Option<String>) {
        let now_ms = self.now_ms();
        let Some(leader) = self.home.as_mut().and_then(|home| home.other_leader(now_ms, leader)) else { return };
        if self.coordination.is_none() {
            self.go_elsewhere(Some(&leader));
        }
    }

    pub(in crate::control) fn lose_home(&mut self, reason: &str) {
        let now_ms = self.now_ms();
        let Some(link) = self.home.as_mut().and_then(|home| home.lost(now_ms)) else { return };
        if self.member.phase() == Phase::Member {
            tracing::warn!("the coordinator is away ({reason}); data go on, naming waits");
        }
        self.unwatch(link.event());
        self.member.disconnected();
    }
}
