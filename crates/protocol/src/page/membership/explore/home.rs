//! Steps of a home: hosts that join, wait and leave; its silence and return.

use super::world::World;
use super::{Off, PATIENCE_MS, ToHome, ToHost};
use crate::id::{Epoch, NodeId, Rights};
use crate::page::hosts::HostId;
use crate::page::membership::join_queue::Tried;
use crate::page::membership::life::{Life, Over};
use crate::page::membership::sharers::{Joiner, Sharers};

impl super::world::Home {
    pub(super) fn is_owner(&self, host: HostId) -> bool {
        self.owner.is_some_and(|(owner, _)| owner == host)
    }
}

impl World {
    /// A home refuses the host that asks to join.
    pub(super) fn refuse(&mut self, home: usize) {
        self.left.refusals -= 1;
        if let Some(ToHome::Join { key, .. }) = self.parts[home].to_home.pop_front() {
            self.parts[home].to_host.push_back(ToHost::Joined { key, answer: None });
        }
    }

    /// A home has commands under way, and lets the host wait.
    pub(super) fn let_wait(&mut self, home: usize) {
        self.left.waits -= 1;
        if let Some(ToHome::Join { key, epoch }) = self.parts[home].to_home.pop_front() {
            let join_queue = &mut self.homes[home].join_queue;
            let waiting = join_queue.come((key, epoch), 0);
            assert_eq!(join_queue.tried::<(), _>(waiting, Tried::NotYet(()), 0), None);
        }
    }

    /// The host that waits is tried once more.
    pub(super) fn try_again(&mut self, home: usize, is_late: bool, off: Off) {
        for waiting in self.homes[home].join_queue.due() {
            if !is_late {
                let (key, epoch) = waiting.who;
                self.at_home(home, ToHome::Join { key, epoch }, off);
                continue;
            }
            let answered = self.homes[home].join_queue.tried::<(), _>(waiting, Tried::NotYet(()), PATIENCE_MS);
            let ((key, _), _) = answered.expect("it was too late");
            self.parts[home].to_host.push_back(ToHost::Joined { key, answer: None });
        }
    }

    pub(super) fn at_home(&mut self, home: usize, message: ToHome, off: Off) {
        let share = self.draw();
        let it = &mut self.homes[home];
        let by = |sharers: &Sharers, share: u64| sharers.iter().find(|(_, sharer)| sharer.share == share).map(|(host, _)| host);
        match message {
            ToHome::Join { key, epoch } => {
                let life = Life { epoch: Epoch(1), process: None };
                let who = Joiner { node: NodeId(1), life, address: String::new(), key, readers: None };
                if it.is_returning || it.epoch != epoch {
                    return self.parts[home].to_host.push_back(ToHost::Joined { key, answer: None });
                }
                for earlier in it.sharers.earlier(&who) {
                    it.sharers.lose(earlier);
                    if it.is_owner(earlier) {
                        (it.owner, it.is_lost) = (None, true);
                    }
                }
                let (_, share) = it.sharers.join(who, (share, Rights::Write), false);
                self.parts[home].to_host.push_back(ToHost::Joined { key, answer: Some((share, it.epoch)) });
            }
            ToHome::WriteBack { share, value } => {
                if let Some(host) = by(&it.sharers, share)
                    && it.is_owner(host)
                {
                    (it.value, it.owner) = (value, None);
                }
            }
            ToHome::Done { share } => {
                if let Some(host) = by(&it.sharers, share)
                    && it.is_owner(host)
                {
                    it.owner = Some((host, true));
                }
            }
            ToHome::Leave { share } => self.leave(home, (share, false), off),
            ToHome::Forgot { share } => {
                it.fenced.on_forgot(share);
                self.leave(home, (share, true), off)
            }
        }
    }

    pub(super) fn leave(&mut self, home: usize, (share, is_lost): (u64, bool), off: Off) {
        let it = &mut self.homes[home];
        let Some((host, key)) =
            it.sharers.iter().find(|(_, sharer)| sharer.share == share).map(|(host, sharer)| (host, sharer.who.key))
        else {
            return;
        };
        if off != Off::Waiting {
            it.join_queue.drop_those(|(waiting, _)| *waiting == key);
        }
        let had_page = it.is_owner(host);
        if it.is_returning {
            it.sharers.answer(host);
            // A host that leaves without a page which it never confirmed did not get the page.
            it.is_lost |= had_page && (is_lost || it.owner == Some((host, true)));
            if had_page {
                it.owner = None;
            }
            self.parts[home].to_host.push_back(ToHost::Left { key });
            return self.end_return(home);
        }
        if is_lost {
            drop(it.sharers.lose(host))
        } else {
            drop(it.sharers.leave(host, false))
        }
        it.is_lost |= had_page;
        if had_page {
            it.owner = None;
        }
        self.parts[home].to_host.push_back(ToHost::Left { key });
    }

    pub(super) fn come_back(&mut self, home: usize, off: Off) {
        let it = &mut self.homes[home];
        (it.is_silent, it.is_returning, it.epoch) = (false, true, it.epoch + 1);
        // Its unsent messages are void.
        self.parts[home].to_host.clear();
        it.join_queue.drop_those(|_| true);
        it.sharers.begin_return(NodeId(0), NodeId(0));
        let awaited = it.sharers.due(0);
        let messages: Vec<ToHost> = (awaited.iter().filter_map(|host| it.sharers.get(*host)))
            .map(|sharer| ToHost::Returned { key: sharer.who.key, share: sharer.share, takes: true })
            .collect();
        if off == Off::Asking {
            for host in awaited {
                it.sharers.answer(host);
            }
            it.owner = None;
        } else {
            self.parts[home].to_host.extend(messages);
        }
        self.end_return(home);
    }

    pub(super) fn ask_again(&mut self, home: usize) {
        let sharers = &mut self.homes[home].sharers;
        let due = sharers.due(u64::MAX);
        let messages = due.iter().filter_map(|host| sharers.get(*host)).map(|sharer| (sharer.who.key, sharer.share));
        let messages = messages.map(|(key, share)| ToHost::Returned { key, share, takes: true });
        self.parts[home].to_host.extend(messages);
    }

    pub(super) fn end_return(&mut self, home: usize) {
        let it = &mut self.homes[home];
        if it.sharers.awaited().next().is_some() {
            return;
        }
        it.sharers.end_return();
        it.is_returning = false;
        if !it.is_lost && it.value != it.last {
            self.fail("a home goes on with older bytes");
        }
    }

    /// A home could not reach the host, and does without it: it is told when it is reached again.
    pub(super) fn fence(&mut self, home: usize) {
        self.left.fences -= 1;
        let it = &mut self.homes[home];
        let all: Vec<HostId> = it.sharers.iter().map(|(host, _)| host).collect();
        for host in all {
            let Some(sharer) = it.sharers.lose(host) else { continue };
            it.join_queue.drop_those(|(waiting, _)| *waiting == sharer.who.key);
            if it.is_owner(host) {
                (it.owner, it.is_lost) = (None, true);
            }
            let notice = ToHost::Returned { key: sharer.who.key, share: sharer.share, takes: false };
            it.fenced.fence(&sharer, notice);
        }
    }

    /// The host that a home did without is told.
    pub(super) fn tell(&mut self, home: usize) {
        let due = self.homes[home].fenced.due(0);
        self.parts[home].to_host.extend(due);
    }

    /// All homes do without this host, and it is told.
    pub(super) fn cut(&mut self) {
        self.left.cuts -= 1;
        for (it, part) in self.homes.iter_mut().zip(&mut self.parts) {
            let all: Vec<HostId> = it.sharers.iter().map(|(host, _)| host).collect();
            for host in all {
                if !it.sharers.answer(host) {
                    it.sharers.lose(host);
                }
                it.is_lost |= it.is_owner(host);
            }
            it.owner = None;
            it.join_queue.drop_those(|_| true);
            it.fenced.on_lives_over(NodeId(1), Over::UpTo(Epoch(1)));
            part.to_home.clear();
            part.to_host.clear();
            part.unsent.clear();
            part.owned = None;
        }
        if let Some(sharing) = &mut self.sharing {
            sharing.begin_anew(0..self.homes.len());
            sharing.fail(());
        }
        for home in 0..self.homes.len() {
            if self.homes[home].is_returning {
                self.end_return(home);
            }
        }
    }
}
