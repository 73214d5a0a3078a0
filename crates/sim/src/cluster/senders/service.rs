//! A node's side of links of commands: what lies in its kernel, and the service that drives the home's commands as `hanare-node` does.

use super::links::{FIRST_LINK, LinkClient};
use super::sources::Sources;
use super::{Cluster, Defect, Event, Outcome, Piece, ProcessLife, SendEvent};
use crate::check::{Check, check};
use crate::cluster::served_link::{CommandLink, LinkStep};
use crate::cluster::words;
use hanare_home::{EndedLinks, Input, Memory, Rounds};
use hanare_protocol::error::Happened;
use hanare_protocol::id::Rights;
use hanare_protocol::session::{Series, Sessions};
use hanare_protocol::wire::command::{COMMAND_LEN, Command};
use hanare_protocol::wire::exchange::{Question, Reply};
use hanare_protocol::wire::head::{Head, Kind};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use std::time::Duration;

/// Time for which links that are awake have turns before the service takes events.
const LOOK_PAUSE_MS: u64 = 2;

/// The user of links of nodes.
const NODE_UID: u32 = 0;

/// The kernel's part of a connection.
#[derive(Debug, Default)]
struct Buffer {
    /// Pieces of messages, and the greeting as `None`.
    unread: VecDeque<Option<Piece>>,
    is_reset: bool,
}

/// Links of commands of a node, and what is known of those that ended.
#[derive(Debug, Default)]
pub(super) struct CommandService {
    sessions: Sessions,
    buffers: BTreeMap<u64, Buffer>,
    links: BTreeMap<u64, CommandLink>,
    ended_links: EndedLinks,
    pub sources: Sources,
    rounds: Rounds,
    /// Links that the rounds have, and their users.
    awake: BTreeMap<u64, Option<u32>>,
    /// Links of which events tell.
    told: BTreeSet<u64>,
    /// True if the service is to run.
    is_awake: bool,
    /// When it took events last.
    looked_ms: u64,
}

impl CommandService {
    /// True if a link's commands are carried out.
    pub fn serves(&self, link: u64) -> bool {
        self.sessions.serves(link)
    }

    /// True if the kernel knows that the other end of a link is closed.
    pub fn is_reset(&self, link: u64) -> bool {
        self.buffers.get(&link).is_some_and(|buffer| buffer.is_reset)
    }
}

/// True for the link of a sender.
pub(in crate::cluster) fn is_of_sender(link: u64) -> bool {
    link >= FIRST_LINK
}

/// True for a piece whose commands give no results.
fn gives_nothing(piece: &Piece) -> bool {
    let mut commands = piece.bytes.chunks_exact(COMMAND_LEN).take(piece.head.count as usize);
    let is_silent = |bytes: &[u8]| {
        let command = bytes.first_chunk().and_then(|bytes| Command::decode(bytes).ok());
        command.is_some_and(|command| command.op.result_len(1) == 0)
    };
    piece.begins && piece.head.kind == Kind::Commands && commands.all(is_silent)
}

impl Cluster {
    /// The service of a process.
    pub(super) fn service(&mut self, at: ProcessLife) -> Option<&mut CommandService> {
        self.process(at)?;
        Some(self.senders_mut().services.entry(at).or_default())
    }

    /// True if the kernel of a link's home knows that its client has closed it.
    pub(super) fn is_reset(&self, link: u64) -> bool {
        let Some(home) = self.send_link(link).map(|link| link.home) else { return true };
        let service = self.senders.as_ref().and_then(|senders| senders.services.get(&home));
        service.is_none_or(|service| service.is_reset(link))
    }

    /// A process is a member by its own clock, or is not.
    pub(super) fn renew_lease(&mut self, at: ProcessLife) {
        let now_ms = self.now_ms;
        if let Some(process) = self.process(at) {
            process.lender.has_lease = process.member.homes_until_ms() > now_ms;
        }
    }

    /// Something of a link is in the kernel of its home's host.
    pub(super) fn on_piece(&mut self, link: u64, piece: Option<Piece>) -> Check {
        let Some(home) = self.send_link_at(link, true).map(|link| link.home) else { return Ok(()) };
        let buffer = self.service(home).map(|service| service.buffers.entry(link).or_default());
        buffer.into_iter().filter(|buffer| !buffer.is_reset).for_each(|buffer| buffer.unread.push_back(piece.clone()));
        self.wake(home, link);
        Ok(())
    }

    pub(super) fn on_send_link_reset(&mut self, link: u64) -> Check {
        let Some(home) = self.send_link(link).map(|link| link.home) else { return Ok(()) };
        self.service(home).into_iter().for_each(|service| service.buffers.entry(link).or_default().is_reset = true);
        self.wake(home, link);
        Ok(())
    }

    /// The service is to run; once is enough.
    pub(super) fn wake(&mut self, at: ProcessLife, link: u64) {
        let due_ms = self.now_ms;
        let Some(service) = self.service(at) else { return };
        service.told.insert(link);
        if !std::mem::replace(&mut service.is_awake, true) {
            self.at(0, Event::Send(SendEvent::Serve { at, due_ms }));
        }
    }

    /// The service takes events at times, and gives the links that are awake a round of turns. One that stood still goes on with its turns.
    pub(super) fn on_serve_links(&mut self, at: ProcessLife, due_ms: u64) -> Check {
        let now_ms = self.now_ms;
        let Some(service) = self.service(at) else { return Ok(()) };
        service.is_awake = false;
        if service.rounds.is_empty() || (due_ms == now_ms && service.looked_ms + LOOK_PAUSE_MS <= now_ms) {
            self.take_events(at)?;
        }
        self.round(at)?;
        let has_more = |service: &&mut CommandService| !service.rounds.is_empty() || !service.told.is_empty();
        if self.service(at).filter(has_more).is_some_and(|service| !std::mem::replace(&mut service.is_awake, true)) {
            self.at(1, Event::Send(SendEvent::Serve { at, due_ms: now_ms + 1 }));
        }
        Ok(())
    }

    /// The service takes events: links end whose clients are gone, and the others wake, in any order.
    fn take_events(&mut self, at: ProcessLife) -> Check {
        let now_ms = self.now_ms;
        let Some(service) = self.service(at) else { return Ok(()) };
        service.sessions.on_waited(now_ms);
        service.looked_ms = now_ms;
        let mut told: Vec<u64> = std::mem::take(&mut service.told).into_iter().collect();
        if self.looks() {
            self.end_reset_links(at)?;
        }
        for place in (1..told.len()).rev() {
            let other = self.senders_mut().dice.below(place as u64 + 1) as usize;
            told.swap(place, other);
        }
        for link in told {
            let user = self.user_of_link(at, link);
            if let Some(service) = self.service(at).filter(|service| !service.awake.contains_key(&link)) {
                service.awake.insert(link, user);
                service.rounds.push(user, link);
            }
        }
        Ok(())
    }

    fn end_reset_links(&mut self, at: ProcessLife) -> Check {
        let Some(service) = self.service(at) else { return Ok(()) };
        let gone = service.buffers.iter().filter(|(_, buffer)| buffer.is_reset).map(|(link, _)| *link);
        let gone: Vec<u64> = gone.collect();
        gone.into_iter().try_for_each(|link| self.end_link(at, link))
    }

    /// The user of a link at one of its ends; none for a node's own.
    fn user_of_link(&self, at: ProcessLife, link: u64) -> Option<u32> {
        match self.send_link(link)?.client {
            LinkClient::Program { line, .. } => Some(words::user_of_region(super::region_of(line, 0))),
            LinkClient::Node(own) if own == at => None,
            LinkClient::Node(_) => Some(NODE_UID),
        }
    }

    fn round(&mut self, at: ProcessLife) -> Check {
        let mut now = Duration::from_millis(self.now_ms);
        let Some(service) = self.service(at) else { return Ok(()) };
        service.rounds.begin();
        let mut without: BTreeSet<Option<u32>> = service.awake.values().copied().collect();
        while let Some((user, link)) = self.service(at).and_then(|service| service.rounds.next(now)) {
            without.remove(&user);
            self.look_after_pause(at)?;
            let has_moved = self.turn_of_link(at, link)?;
            now += Duration::from_micros(self.senders_mut().dice.between(1, 60));
            let Some(service) = self.service(at) else { return Ok(()) };
            service.rounds.had_turn(user, has_moved);
            match has_moved {
                true => service.rounds.push(user, link),
                false => drop(service.awake.remove(&link)),
            }
            if self.has(Defect::ServeOneUser) {
                break;
            }
        }
        check(without.is_empty(), || format!("users {without:?} of {at:?} had no turn in a round"))
    }

    /// After a pause of the service all links end whose clients are gone.
    fn look_after_pause(&mut self, at: ProcessLife) -> Check {
        let now_ms = self.now_ms;
        let Some(service) = self.service(at) else { return Ok(()) };
        if !service.sessions.on_turn(now_ms) {
            return Ok(());
        }
        self.count("pauses of services");
        if self.looks() { self.end_reset_links(at) } else { Ok(()) }
    }

    pub(super) fn looks(&self) -> bool {
        !self.has(Defect::ServeTheDead)
    }

    /// A node closes a link: nothing in its buffer is read.
    pub(super) fn end_link(&mut self, at: ProcessLife, link: u64) -> Check {
        let keeps_fetching = self.has(Defect::KeepFetching);
        let Some(service) = self.service(at) else { return Ok(()) };
        service.sessions.on_ended(link);
        if let Some(served) = service.links.remove(&link) {
            let (name, outcomes) = served.end();
            service.ended_links.remember(name, outcomes);
        }
        service.buffers.remove(&link);
        if !keeps_fetching {
            self.end_fetches(at, link)?;
        }
        self.close_send_link(link);
        self.tell(at, Input::LinkGone { link })
    }

    /// A link's turn: a greeting, or a piece, and its effect. Returns true if anything moved.
    fn turn_of_link(&mut self, at: ProcessLife, link: u64) -> Result<bool, String> {
        let client = self.send_link(link).map(|link| link.client);
        if client == Some(LinkClient::Node(at)) {
            return self.receive_source(at, link);
        }
        let looks = self.looks() && !client.is_some_and(LinkClient::is_ring);
        let Some(buffer) = self.service(at).and_then(|service| service.buffers.get_mut(&link)) else { return Ok(false) };
        if buffer.is_reset && (looks || buffer.unread.is_empty()) {
            self.end_link(at, link)?;
            return Ok(true);
        }
        if let Some(None) = buffer.unread.front() {
            buffer.unread.pop_front();
            self.greet(at, link)?;
            return Ok(true);
        }
        let has_taken = self.take_piece(at, link)?;
        Ok(self.go_on(at, link)? || has_taken)
    }

    /// A link takes the next piece, if it may.
    fn take_piece(&mut self, at: ProcessLife, link: u64) -> Result<bool, String> {
        self.renew_lease(at);
        let Cluster { hosts, senders, .. } = self;
        let lender = hosts[at.0].process.as_ref().filter(|process| process.life == at.1).map(|process| &process.lender);
        let service = senders.as_mut().and_then(|senders| senders.services.get_mut(&at));
        let (Some(lender), Some(service)) = (lender, service) else { return Ok(false) };
        let is_shared = service.rounds.is_shared();
        let (Some(buffer), Some(served)) = (service.buffers.get_mut(&link), service.links.get_mut(&link)) else {
            // Bytes on a link that the node has closed are discarded.
            return Ok(service.buffers.remove(&link).is_some());
        };
        let Some(Some(piece)) = buffer.unread.front().cloned() else { return Ok(false) };
        let has_taken = served.receives(&piece, is_shared, |slot, grant| lender.open(slot, grant, Rights::Write))?;
        if has_taken {
            buffer.unread.pop_front();
        }
        for (seq, question) in served.take_questions()? {
            let happened = self.inquire(at, question)?;
            let served = self.service(at).and_then(|service| service.links.get_mut(&link));
            served.into_iter().for_each(|served| served.tell(seq, happened));
        }
        if has_taken && self.has(Defect::AnswerFirst) && gives_nothing(&piece) {
            self.send_answer(link, answer(piece.head.seq, Vec::new()));
        }
        Ok(has_taken)
    }

    /// The outcome of another link's request. That link ends if it has not yet.
    fn inquire(&mut self, at: ProcessLife, question: Question) -> Result<Happened, String> {
        let other = question.connection as u64;
        if self.service(at).is_some_and(|service| service.links.contains_key(&other)) && !self.has(Defect::ServeBoth) {
            self.end_link(at, other)?;
        }
        Ok(self.service(at).map_or(Happened::Unknown, |service| service.ended_links.happened(question)))
    }

    /// The rest of a link's messages is done, writes go to homes, and answers leave. Returns true if anything moved.
    fn go_on(&mut self, at: ProcessLife, link: u64) -> Result<bool, String> {
        let (now_ms, mut has_moved) = (self.now_ms, false);
        loop {
            let Some(served) = self.service(at).and_then(|service| service.links.get_mut(&link)) else { return Ok(has_moved) };
            match served.step(now_ms)? {
                LinkStep::Write(place, write) => {
                    let Some(process) = self.process(at) else { return Ok(has_moved) };
                    let outputs = process.served.write(now_ms, (link, place), write, &process.lender);
                    self.take(at, outputs)?;
                    self.drain_node(at.0)?;
                }
                LinkStep::Answer(seq, Ok(results)) => self.send_results(link, seq, &results),
                LinkStep::Answer(seq, Err(error)) => self.send_answer(link, whole(Reply::Refused(error).encode(seq))),
                LinkStep::Told(seq, happened) => self.send_answer(link, whole(Reply::Told(happened).encode(seq))),
                LinkStep::Nothing => {
                    let fetches = served.take_fetches();
                    fetches.into_iter().try_for_each(|fetch| self.fetch(at, link, fetch))?;
                    self.touch_link(link);
                    return Ok(has_moved);
                }
            }
            has_moved = true;
        }
    }

    /// Sends results: to another node in two pieces.
    fn send_results(&mut self, link: u64, seq: u64, results: &[u8]) {
        let is_node = self.send_link(link).is_some_and(|link| link.client.node().is_some());
        let half = if is_node { results.len() / 16 * 8 } else { 0 };
        let whole = answer(seq, results.to_vec());
        if half > 0 {
            self.send_answer(link, Piece { bytes: results[..half].into(), ..whole.clone() });
        }
        self.send_answer(link, Piece { begins: half == 0, bytes: results[half..].into(), ..whole });
    }

    /// The blocks of a link's line may have changed.
    pub(super) fn touch_link(&mut self, link: u64) {
        if let Some(LinkClient::Program { line, .. }) = self.send_link(link).map(|link| link.client) {
            self.senders_mut().touched.insert(line);
        }
    }

    /// A home has done a link's first write, or has not; or a write of bytes that it fetched.
    pub(in crate::cluster) fn on_sender_applied(&mut self, at: ProcessLife, link: u64, outcome: Outcome<Vec<u8>>) -> Check {
        if self.send_link(link).is_some_and(|link| link.client == LinkClient::Node(at)) {
            return self.on_fetched_applied(at, link, outcome.map(drop));
        }
        let served = self.service(at).and_then(|service| service.links.get_mut(&link));
        served.into_iter().for_each(|served| served.applied(outcome.clone()));
        self.touch_link(link);
        self.wake(at, link);
        Ok(())
    }

    fn greet(&mut self, at: ProcessLife, link: u64) -> Check {
        let Some(found) = self.send_link(link) else { return Ok(()) };
        let series = match found.client {
            LinkClient::Program { is_ring: true, .. } => None,
            LinkClient::Program { life, .. } => Some(Series(life)),
            LinkClient::Node(_) => Some(Series(link)),
        };
        let Some(service) = self.service(at) else { return Ok(()) };
        let earlier = service.sessions.on_greeted(link, series);
        service.links.insert(link, CommandLink::named(link.into())?);
        match earlier.filter(|_| !self.has(Defect::ServeBoth)) {
            Some(earlier) => {
                self.count("links ended by their successor");
                self.end_link(at, earlier)
            }
            None => Ok(()),
        }
    }

    /// All bytes of a fetch are in their place, or will not come.
    pub(super) fn fetched(&mut self, at: ProcessLife, session: u64, outcome: Outcome<()>) {
        let served = self.service(at).and_then(|service| service.links.get_mut(&session));
        served.into_iter().for_each(|served| served.fetched(outcome.clone()));
        self.touch_link(session);
        self.wake(at, session);
    }
}

/// The whole answer with these results.
fn answer(seq: u64, results: Vec<u8>) -> Piece {
    whole((Head { body_len: results.len() as u64, ..Head::new(Kind::Done, seq) }, results))
}

fn whole((head, body): (Head, Vec<u8>)) -> Piece {
    Piece { head, begins: true, bytes: Rc::from(body) }
}
