//! Links that come, are watched, doze and end.

use super::*;

impl Desk {
    pub(super) fn seat(&mut self, seat: Seat) -> Option<u64> {
        let id = self.next_id;
        self.next_id += 1;
        let interest = EventFlags::IN;
        match epoll::add(&self.epoll, seat.event(), EventData::new_u64(id), interest) {
            Ok(()) => {
                self.places.insert(id, Place { seat, interest, is_awake: false });
                // It may have sent something before it was watched.
                self.wake(id);
                Some(id)
            }
            Err(errno) => {
                tracing::warn!("a link could not be watched and was closed: {errno}");
                None
            }
        }
    }

    pub(super) fn unseat(&mut self, id: u64) -> Option<Place> {
        let place = self.places.remove(&id)?;
        let _ = epoll::delete(&self.epoll, place.seat.event());
        Some(place)
    }

    pub(super) fn wake(&mut self, id: u64) {
        if let Some(place) = self.places.get_mut(&id)
            && !std::mem::replace(&mut place.is_awake, true)
        {
            self.awake.push(id);
        }
    }

    /// Sends to sleep every awake link that lets itself be.
    pub(super) fn doze_all(&mut self) {
        let awake = std::mem::take(&mut self.awake);
        for id in awake {
            let Some(place) = self.places.get_mut(&id) else { continue };
            // One that is held up is moved by others alone; what it sent meanwhile waits.
            let held_up = place.seat.is_held_up();
            if !place.seat.doze() && !held_up {
                self.awake.push(id);
                continue;
            }
            place.is_awake = false;
            let interest = match place.seat.needs_write_event() {
                true if held_up => EventFlags::OUT,
                true => EventFlags::IN | EventFlags::OUT,
                // Its end is found by the next sign of life at the latest.
                false if place.seat.waits_for_fetch() => EventFlags::empty(),
                false => EventFlags::IN,
            };
            if interest != place.interest {
                let watched = epoll::modify(&self.epoll, place.seat.event(), EventData::new_u64(id), interest);
                debug_assert!(watched.is_ok(), "it is watched since `seat`");
                place.interest = interest;
            }
        }
    }

    /// A link has ended by itself.
    pub(super) fn end(&mut self, id: u64, error: &LinkError) {
        tracing::debug!("a data link ended: {error}");
        if matches!(self.places.get(&id), Some(Place { seat: Seat::Wire(_), .. })) {
            drop(self.unseat(id));
            return self.pages.wire_ended(id);
        }
        if let Some(Place { seat: Seat::Peer(peer), .. }) = self.places.get(&id) {
            let error = match error {
                LinkError::Timeout { .. } => peer.silent(self.peers.bound()),
                other => peer.lost(other),
            };
            let Some(Place { seat: Seat::Peer(peer), .. }) = self.unseat(id) else { return };
            self.peers.forget(&peer.address);
            let ended = peer.fail(&error);
            return self.deliver(ended);
        }
        self.close(id);
    }

    pub(super) fn close(&mut self, id: u64) {
        if let Some(Place { seat: Seat::Client(session), .. }) = self.unseat(id) {
            self.graves.bury(&session);
            self.pages.on_session_closed(id);
        }
        self.sync.forget(id);
    }
}
