//! Descriptors that the kernel watches for the loop.

use super::{ControlLoop, HOME};
use crate::control::home::CoordinatorLink;
use crate::control_link::ControlLink;
use rustix::event::epoll::{self, EventData, EventFlags};
use std::os::fd::BorrowedFd;

impl ControlLoop {
    pub(in crate::control) fn watch(&self, fd: BorrowedFd<'_>, key: u64, interest: EventFlags) -> bool {
        match epoll::add(&self.epoll, fd, EventData::new_u64(key), interest) {
            Ok(()) => true,
            Err(errno) => {
                tracing::warn!("a connection could not be watched and was closed: {errno}");
                false
            }
        }
    }

    pub(in crate::control) fn unwatch(&self, fd: BorrowedFd<'_>) {
        let _ = epoll::delete(&self.epoll, fd);
    }

    pub(in crate::control) fn rewatch_client(&mut self, key: u64) {
        let now_ms = self.now_ms();
        if let Some(client) = self.clients.get_mut(&key) {
            match client.has_unread() {
                true => drop(self.unread.entry(key).or_insert(now_ms)),
                false => drop(self.unread.remove(&key)),
            }
            let wanted = client.wanted_interest();
            if wanted != client.interest && epoll::modify(&self.epoll, client.fd(), EventData::new_u64(key), wanted).is_ok() {
                client.interest = wanted;
            }
        }
    }

    /// Links that wait for their peer to read are watched for writing.
    pub(super) fn rewatch_links(&mut self) {
        let epoll = &self.epoll;
        let rewatch = |key: u64, link: &ControlLink, interest: &mut EventFlags| {
            let wanted = if link.needs_write_event() { EventFlags::IN | EventFlags::OUT } else { EventFlags::IN };
            if wanted != *interest && epoll::modify(epoll, link.event(), EventData::new_u64(key), wanted).is_ok() {
                *interest = wanted;
            }
        };
        if let Some(coordination) = &mut self.coordination {
            coordination.links().for_each(|(key, peer)| rewatch(key, &peer.link, &mut peer.interest));
        }
        if let Some(reigns) = &mut self.reigns {
            reigns.keepers.links().for_each(|(key, peer)| rewatch(key, &peer.link, &mut peer.interest));
        }
        if let Some(CoordinatorLink { link: Some(link), interest, .. }) = &mut self.home {
            rewatch(HOME, link, interest);
        }
    }
}
