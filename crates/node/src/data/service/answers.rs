//! Results of links' turns, and replies to waiting clients.

use super::*;
use hanare_protocol::wire::sync::SyncRequest;
use std::time::{SystemTime, UNIX_EPOCH};

impl ServiceLoop {
    /// Acts on what a turn brought. Returns whether anything moved.
    pub(super) fn act(&mut self, id: u64, did: Did) -> bool {
        match did {
            Did::Client(turn) => {
                for (seq, query) in turn.queries {
                    self.on_query(id, seq, query);
                }
                for fetch in turn.fetches {
                    self.fetch(id, fetch);
                }
                let goes_on = turn.need.is_some_and(|need| self.recall(id, need));
                if turn.moved {
                    self.tell_home(Input::Changed);
                }
                turn.moved || goes_on
            }
            Did::Peer(moved, ended, need) => {
                self.deliver(ended);
                need.is_some_and(|need| self.recall(id, need)) || moved
            }
            Did::Wire(role, frames, ending) => {
                let moved = !frames.is_empty();
                match role {
                    Role::Copies => {
                        // A copy is filled when the coordinator knows it: the notice that tells of it is there by now.
                        if self.notices.has_some() {
                            self.read_mail();
                        }
                        self.tell_home(CopyInput::Frames { place: id, frames: &frames });
                    }
                    _ => self.tell_home(PageInput::Frames { place: id, frames: &frames }),
                }
                self.serve_home();
                if let Some(SeatedLink { seat: Connection::Wire(_, wire), .. }) = self.places.get_mut(&id) {
                    wire.reuse(frames);
                }
                if let Err(error) = ending {
                    self.end(id, &error);
                }
                moved
            }
        }
    }

    /// Acts on what a client asks beside commands.
    fn on_query(&mut self, id: u64, seq: u64, query: Query) {
        // A query before may have ended the link, and with it what was taken on it.
        if !self.places.contains_key(&id) {
            return;
        }
        match query {
            Query::Ping => {
                let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                self.answer(id, seq, Response::Reply(Reply::Pong { unix_ns: since.as_nanos() as u64 }));
            }
            // Its inbox keeps the name, and the face.
            Query::Name(_) | Query::Face(_) => {}
            Query::Ask(question) => {
                let happened = self.inquire(question);
                self.answer(id, seq, Response::Reply(Reply::Told(happened)));
            }
            Query::Sync(request) => {
                let Some(SeatedLink { seat: Connection::Client(session), .. }) = self.places.get_mut(&id) else { return };
                if let SyncRequest::Store { part, .. } = &request {
                    session.watch_stores(seq, part);
                }
                let from = (session.client(), session.user());
                self.tell_home(Input::Request { waiter: Waiter { link: id, seq }, from, request });
            }
            Query::Pages(share, requests) => {
                self.tell_home(PageInput::PageRequests { session: id, seq, share, requests: &requests });
            }
            Query::Settled(share, settled) => self.tell_home(PageInput::Settled { session: id, share, settled: &settled }),
            Query::Crowded(gid) => self.tell_home(PageInput::Crowded(gid)),
            Query::TakeOver { gid, first, count } => {
                let Some(SeatedLink { seat: Connection::Client(session), .. }) = self.places.get(&id) else { return };
                let (client, slots) = (session.client(), first..first.saturating_add(count));
                self.tell_home(PageInput::TakeOver { client, gid, slots });
            }
            Query::Look(_) | Query::Backing(_) | Query::Faces => {
                let reply = self.look_in_turn(id, &query).unwrap_or_else(Reply::Refused);
                self.answer(id, seq, Response::Reply(reply));
            }
        }
        self.serve_home();
    }

    /// Outcome of another connection's request, which ends here if it has not yet.
    pub(super) fn inquire(&mut self, question: Question) -> Happened {
        let alive = self.places.iter().find(|(_, place)| place.seat.name() == Some(question.connection));
        if let Some(id) = alive.map(|(id, _)| *id) {
            self.close(id);
        }
        self.ended_links.happened(question)
    }

    /// Has pages brought home for commands of a link, and goes on with what needs nobody else. Returns whether all of it did: then
    /// the link has to have a turn, because bytes that it left where they were are no event.
    pub(super) fn recall(&mut self, id: u64, need: Need) -> bool {
        let mut next = Some(need);
        while let Some(need) = next {
            next = match self.write_of(id) {
                Ok(Some(write)) => {
                    self.write_to_copies(id, &need, write);
                    None
                }
                Ok(None) => match self.home.recall(self.now, id, need) {
                    Ok(Recall::Waits(_)) => return false,
                    Ok(Recall::Ready(face)) => {
                        let next = self.go_on(id, Ok(()));
                        self.tell_home(PageInput::Release(face));
                        next
                    }
                    Err(error) => self.go_on(id, Err(error)),
                },
                Err(error) => self.go_on(id, Err(error)),
            };
        }
        true
    }

    /// A link's commands go on, with their pages or without. Returns what they need next.
    pub(super) fn go_on(&mut self, id: u64, outcome: Result<()>) -> Option<Need> {
        let next = self.places.get_mut(&id)?.seat.recalled(self.now, outcome);
        self.wake(id);
        next
    }

    /// Pages that a link's commands waited for are at home, or will not come.
    fn recalled(&mut self, id: u64, face: Face, outcome: Result<()>) {
        // Others may have been answered since its client has gone.
        self.look_who_fetches(id);
        if matches!(self.places.get(&id), Some(SeatedLink { seat: Connection::Client(session), .. }) if session.has_gone()) {
            self.close(id);
        }
        let next = self.go_on(id, outcome);
        self.tell_home(PageInput::Release(face));
        if let Some(need) = next {
            self.recall(id, need);
        }
    }

    /// Does what the home orders, until nothing is left. A link that ends meanwhile may leave more to do.
    pub(super) fn serve_home(&mut self) {
        if self.home.deadline().is_some_and(|due| due <= self.now) {
            self.tell_home(Input::Tick);
        }
        while let Some(output) = self.home.poll(&*self.extents) {
            match output {
                Output::Sync(output) => self.do_sync(output),
                Output::Pages(output) => self.do_pages(output),
                Output::Copies(output) => self.do_copies(output),
            }
        }
    }

    fn do_sync(&mut self, output: SyncOutput) {
        match output {
            SyncOutput::Answer(Waiter { link, seq }, outcome) => {
                let reply = outcome.map_or_else(Reply::Refused, Reply::Synced);
                self.answer(link, seq, Response::Reply(reply));
            }
            SyncOutput::Recall { client, number } => self.control.send(ToControl::Recall { client, number }),
            SyncOutput::LeaseLost(_) => {
                tracing::warn!("no node says whether a lock is held whose lease was granted, and it counts as abandoned");
            }
        }
    }

    pub(super) fn answer(&mut self, id: u64, seq: u64, what: NodeResponse) {
        let Some(SeatedLink { seat: Connection::Client(session), .. }) = self.places.get_mut(&id) else { return };
        match session.answer(self.now, seq, what) {
            Ok(()) => self.await_more(id),
            Err(_) => self.close(id),
        }
    }

    /// Something was sent on a link: it is awake for what comes next, unless an event tells of that.
    pub(super) fn await_more(&mut self, id: u64) {
        let rests = self.rests && self.places.get(&id).is_some_and(|place| place.seat.can_rest());
        if !rests {
            self.wake(id);
        }
    }

    /// Commands that are under way go on by pages where hosts are about to map their extents: who does not move a command on keeps nobody.
    fn give_way(&mut self) {
        let gives = |(id, place): (&u64, &mut SeatedLink)| place.seat.give_way().then_some(*id);
        let those: Vec<u64> = self.places.iter_mut().filter_map(gives).collect();
        those.into_iter().for_each(|id| self.wake(id));
    }

    fn do_pages(&mut self, output: PageOutput<NodePages>) {
        match output {
            PageOutput::Wire(output) => self.do_wire(Role::Pages, output),
            PageOutput::Grant { session, seq, reply } => {
                self.answer(session, seq, Response::Granted(SealedReply::new(reply)));
            }
            PageOutput::End { session, error } => {
                tracing::warn!("a thread's link was closed: {error}");
                self.close(session);
            }
            PageOutput::Recalled { link, face, outcome } => self.recalled(link, face, outcome),
            PageOutput::Reply { client, result, files: fds } => self.control.send(ToControl::Shared { client, result, fds }),
            PageOutput::GiveWay => self.give_way(),
        }
    }
}
