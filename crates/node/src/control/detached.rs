//! Programs whose connection has ended and that live: what they have of the node's memory is theirs until they end.
//!
//! The kernel closes the connection of a program that ends. One that lives has closed it itself, as after an answer that came too late, or was
//! cut off. Its mappings are there, and its threads may be at work on them. So the node goes on as before: it takes rights back in the
//! words of the program's thread_slots, and pages from its mappings. Who says that it detaches has no mappings any more.

use super::client::DetachedClient;
use super::event_loop::ControlLoop;
use crate::notices::ToService;
use rustix::event::epoll::EventFlags;
use rustix::process::{PidfdFlags, pidfd_open};
use std::os::fd::AsFd;

impl ControlLoop {
    /// A client's connection has ended: what it has goes now, or with its process. It counts among those of its user as long.
    pub(super) fn part(&mut self, key: u64, mut parted: DetachedClient) {
        if !parted.lives() {
            return self.let_go(&parted);
        }
        let end = parted.process.and_then(|process| pidfd_open(process, PidfdFlags::empty()).ok());
        parted.end = end.filter(|end| self.watch(end.as_fd(), key, EventFlags::IN));
        self.parted.insert(key, parted);
    }

    /// The process of a client that has no connection has ended.
    pub(super) fn process_ended(&mut self, key: u64) {
        let Some(parted) = self.parted.remove(&key) else { return };
        if let Some(end) = &parted.end {
            self.unwatch(end.as_fd());
        }
        self.let_go(&parted);
    }

    /// Looks at those whose end no event tells of.
    pub(super) fn look_at_detached(&mut self) {
        let unwatched = self.parted.iter().filter(|(_, parted)| parted.end.is_none() && !parted.lives());
        let ended: Vec<u64> = unwatched.map(|(key, _)| *key).collect();
        ended.into_iter().for_each(|key| self.process_ended(key));
    }

    fn let_go(&mut self, parted: &DetachedClient) {
        self.count_client(parted.user, false);
        self.extents.forget_direct(parted.id, None);
        self.service.notify(ToService::ClientGone(parted.id));
    }

    /// A user has one client more, or one less.
    pub(super) fn count_client(&mut self, uid: u32, has_come: bool) {
        let count = self.users.entry(uid).or_default();
        *count = if has_come { count.saturating_add(1) } else { count.saturating_sub(1) };
        if *count == 0 {
            self.users.remove(&uid);
        }
    }
}
