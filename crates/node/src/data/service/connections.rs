//! Links that come, are watched, doze and end.

use super::*;

impl ServiceLoop {
    pub(super) fn seat(&mut self, seat: Connection) -> Option<u64> {
        let id = self.next_id;
        self.next_id += 1;
        let interest = EventFlags::IN | EventFlags::RDHUP;
        let watched = epoll::add(&self.epoll, seat.event(), EventData::new_u64(id), interest).and_then(|()| match seat.life() {
            // The descriptor that tells of the client's end must do so while the link is not looked at.
            Some(life) => epoll::add(&self.epoll, life, EventData::new_u64(id), EventFlags::RDHUP),
            None => Ok(()),
        });
        match watched {
            Ok(()) => {
                let user = if let Connection::Client(session) = &seat { Some(session.user().uid) } else { None };
                self.count_user(user, true);
                self.places.insert(id, SeatedLink { seat, user, interest, is_awake: false });
                // The client may have sent something before it was watched.
                self.wake(id);
                Some(id)
            }
            Err(errno) => {
                tracing::warn!("a link could not be watched and was closed: {errno}");
                None
            }
        }
    }

    /// Serves a link of a client, and ends the one that it gave up before.
    pub(super) fn serve(&mut self, link: Box<dyn Link>, series: Option<Series>, who: (ClientId, User)) {
        // A ring is looked at after pauses alone: there a system call costs as much as a message.
        let looks = series.is_some();
        let session = Session::new(link, self.extents.clone(), who, looks);
        let Some(id) = self.seat(Connection::Client(Box::new(session))) else { return };
        if let Some(earlier) = self.sessions.on_greeted(id, series) {
            self.close(earlier);
        }
    }

    /// Closes a client's link of which the kernel knows that the other end is closed.
    pub(super) fn close_client(&mut self, id: u64) {
        if matches!(self.places.get(&id), Some(SeatedLink { seat: Connection::Client(session), .. }) if session.ends_with_client())
        {
            self.close(id);
        }
    }

    /// Closes the links of all clients that are gone. **Cost**: a system call a client.
    pub(super) fn close_ended(&mut self) {
        let ended = |place: &SeatedLink| matches!(&place.seat, Connection::Client(session) if session.has_gone());
        let ended: Vec<u64> = self.places.iter().filter(|(_, place)| ended(place)).map(|(id, _)| *id).collect();
        ended.into_iter().for_each(|id| self.close(id));
    }

    pub(super) fn unseat(&mut self, id: u64) -> Option<SeatedLink> {
        let place = self.places.remove(&id)?;
        self.count_user(place.user, false);
        let _ = epoll::delete(&self.epoll, place.seat.event());
        if let Some(life) = place.seat.life() {
            let _ = epoll::delete(&self.epoll, life);
        }
        Some(place)
    }

    /// A user has one more link, or one less.
    fn count_user(&mut self, user: Option<u32>, has_come: bool) {
        let Some(uid) = user else { return };
        let count = self.users.entry(uid).or_default();
        *count = if has_come { *count + 1 } else { *count - 1 };
        if *count == 0 {
            self.users.remove(&uid);
        }
        self.extents.members.set_user_count(self.users.len());
    }

    pub(super) fn wake(&mut self, id: u64) {
        if let Some(place) = self.places.get_mut(&id)
            && !std::mem::replace(&mut place.is_awake, true)
        {
            self.awake.push(place.user, id);
        }
    }

    /// Sends to sleep every awake link that lets itself be.
    pub(super) fn doze_all(&mut self) {
        let awake: Vec<(Option<u32>, u64)> = self.awake.drain().collect();
        awake.into_iter().for_each(|(user, id)| self.doze(user, id));
    }

    /// Sends a link to sleep that was awake, if it lets itself be.
    pub(super) fn doze(&mut self, user: Option<u32>, id: u64) {
        let Some(place) = self.places.get_mut(&id) else { return };
        // A link that is held up is moved by others alone; its messages wait.
        let held_up = place.seat.is_held_up();
        if !place.seat.doze() && !held_up {
            return self.awake.push(user, id);
        }
        place.is_awake = false;
        let interest = match place.seat.needs_write_event() {
            true if held_up => EventFlags::OUT | EventFlags::RDHUP,
            true => EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP,
            false if place.seat.waits_for_others() => EventFlags::RDHUP,
            false => EventFlags::IN | EventFlags::RDHUP,
        };
        if interest != place.interest {
            let watched = epoll::modify(&self.epoll, place.seat.event(), EventData::new_u64(id), interest);
            debug_assert!(watched.is_ok(), "it is watched since `seat`");
            place.interest = interest;
        }
    }

    /// A link has ended by itself.
    pub(super) fn end(&mut self, id: u64, error: &LinkError) {
        tracing::debug!("a data link ended: {error}");
        if let Some(SeatedLink { seat: Connection::Wire(role, _), .. }) = self.places.get(&id) {
            let is_of_copies = *role == Role::Copies;
            drop(self.unseat(id));
            return match is_of_copies {
                true => self.tell_home(CopyInput::Gone { place: id }),
                false => self.tell_home(PageInput::WireGone { place: id }),
            };
        }
        if let Some(SeatedLink { seat: Connection::Peer(peer), .. }) = self.places.get(&id) {
            let error = match error {
                LinkError::Timeout { .. } => peer.silent(self.peers.bound()),
                other => peer.lost(other),
            };
            let Some(SeatedLink { seat: Connection::Peer(peer), .. }) = self.unseat(id) else { return };
            self.peers.fetches.forget(&peer.address);
            let ended = peer.into_fetches().fail(&error);
            return self.deliver(ended);
        }
        self.close(id);
    }

    pub(super) fn close(&mut self, id: u64) {
        if let Some(SeatedLink { seat: Connection::Client(session), .. }) = self.unseat(id) {
            if let Some(name) = session.name() {
                self.ended_links.remember(name, session.outcomes());
            }
            self.sessions.on_ended(id);
            self.end_fetches(id);
            self.extents.closer.drop_later(session);
        }
        self.tell_home(Input::LinkGone { link: id });
    }
}
