//! Shared regions at one node: the homes of pages that lie here, and this host's side of mapped regions.
//!
//! A node's [`Home`](crate::Home) has one [`Pages`]. It hands it requests of clients, frames of other nodes and the time.
//!
//! Everything between hosts and homes is a [`NodeMessage`], to another node or to this very one.
//!
//! | module | holds |
//! |---|---|
//! | `events` | inputs and outputs |
//! | `memory` | calls of shared regions on pages that lie here, and on frames of pages that are mapped here |
//! | `vectors` | such memory, for the simulator and tests |
//! | `outgoing` | a message, where it goes, and its page |
//! | `request` | requests of clients |
//! | `reply` | the reply to a thread's page requests, while this node has a say in it |
//! | `routes` | which pages of a region lie here |
//! | `home` | a region's directory where its pages lie |
//! | `host` | a region where it is mapped |
//! | `wires` | numbered messages over connections that break and are made anew |
//! | `delivery` | messages of homes and hosts: the effect of each, and how they leave |
//! | `copied_homes` | homes whose bytes have copies on other nodes |
//! | `flushes` | stores of this host that go to all holders |
//! | `joins` | clients that will map: their host joins homes |
//! | `leaves` | clients that unmap, or are gone: their host leaves homes |
//! | `sharers` | hosts that join homes of this node and leave them |
//! | `recall` | pages that are brought home for commands |
//! | `holds` | pages that are kept for a while although other hosts wait for them |
//! | `looks` | counts of pages for programs that look at the node |
//! | `returns` | nodes that were taken for lost and are back: as homes, as hosts, and the part of the others |

mod copied_homes;
mod delivery;
mod events;
mod flushes;
mod holds;
mod home;
mod host;
mod joins;
mod leaves;
mod looks;
mod memory;
mod outgoing;
mod recall;
mod reply;
mod request;
mod returns;
mod routes;
mod sharers;
#[cfg(test)]
mod tests;
mod vectors;
mod wires;

pub(crate) use copied_homes::WriteOfPages;
pub(crate) use events::Asker;
pub use events::{PageInput, PageOutput, PageTerms};
pub use host::{NODE_SLOTS, SLOTS};
pub use memory::{FileParts, FrameTerms, HomePages, HostFrames, NotShared, PageBytes, PageMemory};
pub use reply::{PageBody, PageReply};
pub use request::RegionRequest;
pub use vectors::{PageVectors, VectorFrames, VectorPages};

use crate::wire_output::WireOutput;
use hanare_protocol::id::{ClientId, Epoch, Gid, NodeId};
use hanare_protocol::page::membership::{FencedHosts, JoinQueue, Over, ReturnedPages};
use hanare_protocol::page::{Face, HostId, Recalls};
use hanare_protocol::wire::page::{NodeMessage, Outcome, PageRequest, Settled, decode_frame};
use hanare_protocol::{Error, Result};
use home::PageHome;
use host::PageHost;
use looks::Past;
use outgoing::{Arrival, Outgoing};
use reply::{ClosedReply, OpenReply};
use request::HostKey;
use sharers::PendingJoin;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use wires::{Brought, Wires};

/// Time from one look at hosts that wait, regions that are left and nodes that are dialed to the next.
const LOOK_PAUSE: Duration = Duration::from_millis(5);

/// Shared regions on one node.
pub struct Pages<M: PageMemory> {
    memory: M,
    terms: PageTerms,
    /// The time of the event that is handled.
    now: Duration,
    /// When those that wait were looked at last.
    looked: Duration,
    me: Option<(NodeId, Epoch)>,
    wires: Wires,
    homes: BTreeMap<Gid, PageHome<M::Pages>>,
    shares: BTreeMap<u64, (Gid, HostId)>,
    hosts: BTreeMap<HostKey, PageHost<M::Frames>>,
    keys: BTreeMap<u64, (HostKey, usize)>,
    /// When pages that hosts keep for a while are to be given, and where the first of them is.
    holds: BTreeSet<(u64, HostKey)>,
    /// Hosts that wait to be let in at homes here.
    join_queue: JoinQueue<PendingJoin>,
    /// Homes that are back, and have got what was here.
    returned: ReturnedPages<(NodeId, String), Arc<Outgoing>>,
    /// Members that could not be reached, as far as is known. They are told that homes here do without them.
    fenced: FencedHosts<Outgoing>,
    /// Messages of this node to itself.
    local: VecDeque<Outgoing>,
    outputs: VecDeque<PageOutput<M>>,
    /// Recalls for words that are at home, or will not be.
    of_words: VecDeque<(Face, Result<()>)>,
    /// The reply that is being put together.
    open_reply: Option<OpenReply<M::Pages>>,
    /// Stages of commands whose pages are asked for or held.
    recalls: Recalls<Asker, Gid, Error>,
    /// Regions whose pages come home before the node ends, which keeps its bytes. Nobody gets a page of them any more.
    ending: Option<Vec<(Face, M::Pages)>>,
    past: Past,
    /// The message of another node that is heard.
    hearing: Option<Arrival>,
    /// Memberships at homes that have gone to other nodes. Those speak to the hosts.
    silent_shares: VecDeque<u64>,
    /// Messages to such homes that are not confirmed, and until when.
    held_late: Vec<(u64, Arrival)>,
    /// Number of homes that were ever begun.
    homes_begun: u64,
    /// Lives of nodes that ended lately.
    lives_over: VecDeque<(NodeId, Over)>,
}

impl<M: PageMemory> Pages<M> {
    /// No region is shared, and the node has not joined its pool.
    pub fn new(terms: PageTerms, memory: M) -> Pages<M> {
        let (life, answer) = (terms.life, terms.answer);
        Pages {
            memory,
            now: Duration::ZERO,
            looked: Duration::ZERO,
            me: None,
            wires: Wires::new(life, terms.address.clone()),
            homes: BTreeMap::new(),
            shares: BTreeMap::new(),
            hosts: BTreeMap::new(),
            keys: BTreeMap::new(),
            holds: BTreeSet::new(),
            join_queue: JoinQueue::new(answer.as_millis() as u64 / 2),
            returned: ReturnedPages::default(),
            fenced: FencedHosts::default(),
            local: VecDeque::new(),
            outputs: VecDeque::new(),
            of_words: VecDeque::new(),
            open_reply: None,
            // The requester hears which host was silent before its own deadline.
            recalls: Recalls::new((answer - answer / 4).as_millis() as u64),
            ending: None,
            past: Past::default(),
            hearing: None,
            silent_shares: VecDeque::new(),
            held_late: Vec::new(),
            homes_begun: 0,
            lives_over: VecDeque::new(),
            terms,
        }
    }

    /// An event happens; [`Pages::poll`] and [`Pages::poll_word`] give what comes of it.
    pub(crate) fn handle(&mut self, now: Duration, input: PageInput<'_, M>) {
        self.now = self.now.max(now);
        match input {
            PageInput::Identity { node, epoch } => self.set_identity(node, epoch),
            PageInput::NodeLost { node, over } => self.on_node_lost(node, over),
            PageInput::Request { client, request } => self.on_request(client, request),
            PageInput::ClientGone(client) => self.on_client_gone(client),
            PageInput::PageRequests { session, seq, share, requests } => self.on_page_requests(session, seq, share, requests),
            PageInput::Settled { session, share, settled } => self.on_settled(session, share, settled),
            PageInput::Crowded(gid) => self.on_crowded(gid),
            PageInput::TakeOver { client, gid, slots } => self.take_over(client, gid, slots),
            PageInput::Dialed { node, place, spoken } => self.dialed(node, place.map(|place| (place, spoken))),
            PageInput::Frames { place, frames } => {
                frames.iter().for_each(|bytes| self.on_frame(place, bytes));
                // The pages that they want taken are taken together.
                self.settle();
            }
            PageInput::WireGone { place } => {
                self.forget_link(place);
                self.wires.ended(place, self.now.as_millis() as u64, &mut self.outputs);
            }
            PageInput::Release(face) => self.release(face),
            PageInput::Stop { keeps } => self.stop(keeps),
        }
    }

    /// The next output, drained after each input.
    pub(crate) fn poll(&mut self) -> Option<PageOutput<M>> {
        self.outputs.pop_front()
    }

    /// The next recall for a word that is at home, or will not be. [`Pages::release`] follows.
    pub(crate) fn poll_word(&mut self) -> Option<(Face, Result<()>)> {
        self.of_words.pop_front()
    }

    /// When [`Pages::tick`] is due; `None` for never.
    pub(crate) fn deadline(&self) -> Option<Duration> {
        let look = self.waits().then(|| self.looked + LOOK_PAUSE);
        let hold = self.holds.first().map(|(until_us, _)| Duration::from_micros(*until_us));
        look.into_iter().chain(hold).min()
    }

    /// True if a page request may come at any moment.
    pub fn is_sharing(&self) -> bool {
        !self.hosts.is_empty() || !self.homes.is_empty()
    }

    /// True if [`Home::turn`](crate::Home::turn) must be called without a pause.
    pub fn is_busy(&self) -> bool {
        self.hosts.values().any(PageHost::is_taking)
    }

    /// Goes on with pages that are being taken. Returns whether anything moved.
    pub(crate) fn turn(&mut self, now: Duration) -> bool {
        self.now = self.now.max(now);
        let moved = self.take();
        self.settle();
        moved
    }

    fn set_identity(&mut self, node: NodeId, epoch: Epoch) {
        let was = self.me.replace((node, epoch));
        self.wires.set_me(node);
        if let Some((was, _)) = was.filter(|was| *was != (node, epoch)) {
            self.begin_anew(was);
            self.settle();
        }
    }

    /// The time, as rules are told it that count in milliseconds.
    fn now_ms(&self) -> u64 {
        self.now.as_millis() as u64
    }

    /// The time, as rules are told it that count in microseconds.
    fn now_us(&self) -> u64 {
        self.now.as_micros() as u64
    }

    /// Time to wait for others.
    fn answer_ms(&self) -> u64 {
        self.terms.answer.as_millis() as u64
    }

    /// True if a client waits to share or leave a region, for pages, or for a node to be reached again.
    fn waits(&self) -> bool {
        !self.join_queue.is_empty()
            || self.hosts.values().any(|host| host.sharing.waits())
            || !self.fenced.is_empty()
            || self.homes.values().any(|home| home.is_returning() || home.waits_for_clock() || home.draining().next().is_some())
            || self.hosts.values().any(|host| host.awaits_home() || host.flushes.is_asked())
            || self.recalls.any_wait()
            || !self.held_late.is_empty()
            || self.wires.waits()
    }

    /// Extents are no more.
    pub(crate) fn on_freed(&mut self, now: Duration) {
        self.now = self.now.max(now);
        self.drop_left_homes();
    }

    /// Time has passed.
    pub(crate) fn tick(&mut self, now: Duration) {
        self.now = self.now.max(now);
        self.end_holds();
        if !self.waits() || self.now < self.looked + LOOK_PAUSE {
            return;
        }
        self.looked = self.now;
        self.wires.tick(self.now_ms(), &mut self.outputs);
        self.let_late_go();
        self.write_again();
        self.try_pending_joins();
        self.let_leavers_go();
        self.give_up_homes();
        self.go_on_leaving();
        self.go_on_handing();
        self.ask_again();
        self.end_returns();
        self.tick_recalls();
        self.settle();
        if !self.join_queue.is_empty() {
            self.outputs.push_back(PageOutput::GiveWay);
        }
    }

    fn on_settled(&mut self, session: u64, share: u64, settled: &[Settled]) {
        // After the end of the share nobody waits for that.
        let outcome = self.with_home(share, |home, host, outgoing| {
            settled.iter().try_for_each(|settled| home.on_settled(host, settled, outgoing))
        });
        self.end_request(session, outcome.unwrap_or(Ok(())));
    }

    fn on_crowded(&mut self, gid: Gid) {
        let those: Vec<HostKey> = self.hosts.keys().filter(|key| key.gid == gid).copied().collect();
        those.into_iter().for_each(|key| self.with_host(key, PageHost::on_crowded));
        self.settle();
    }

    fn take_over(&mut self, client: ClientId, gid: Gid, slots: Range<u16>) {
        // Programs may say so again and again. Where homes have not confirmed as many requests as there are slots, no more are made. Threads
        // wait for their claims until their own deadline.
        let is_heard = self.wires.unconfirmed_count() < usize::from(SLOTS);
        if let Some(key) = self.place_of(client, gid).filter(|_| is_heard) {
            self.with_host(key, |host, outputs| host.take_over(client, slots, outputs));
        }
        self.settle();
    }

    fn on_page_requests(&mut self, session: u64, seq: u64, share: u64, requests: &[PageRequest]) {
        let outcome = self.begin_page_requests(session, seq, share, requests);
        self.end_request(session, outcome);
    }

    /// A thread that asked for what it may not have loses its link.
    fn end_request(&mut self, session: u64, outcome: Result<()>) {
        self.outputs.extend(outcome.err().map(|error| PageOutput::End { session, error }));
        self.settle();
    }

    fn begin_page_requests(&mut self, session: u64, seq: u64, share: u64, requests: &[PageRequest]) -> Result<()> {
        let is_ending = self.ending.is_some();
        let mut outgoing = self.outbox();
        let known = self.shares.get(&share).copied();
        let home = known.and_then(|(gid, host)| Some((self.homes.get_mut(&gid)?, gid, host)));
        let Some((home, gid, host)) = home.filter(|(home, ..)| !home.is_returning() && !is_ending) else {
            // A page and the end of a share cross: the thread is told, and its link serves on.
            let reply = PageReply::all(requests, Outcome::NotShared);
            self.outputs.push_back(PageOutput::Grant { session, seq, reply });
            return Ok(());
        };
        if !home.answers() {
            // The thread asks again.
            let reply = PageReply::all(requests, Outcome::NotNow);
            self.outputs.push_back(PageOutput::Grant { session, seq, reply });
            return Ok(());
        }
        let reply = home.on_page_requests(host, session, requests, &mut outgoing);
        let key = home.key_of(host);
        let reply = match (reply, key) {
            (Ok(reply), Some(key)) if reply.is_partial() => {
                self.open_reply = Some(OpenReply::new(key, reply));
                self.post(outgoing);
                self.finish_reply(session, gid, host)
            }
            (reply, _) => {
                self.post(outgoing);
                reply.map(Some)?
            }
        };
        self.outputs.extend(reply.map(|reply| PageOutput::Grant { session, seq, reply }));
        Ok(())
    }

    /// Takes what this very node has to give for a reply, and puts it in.
    fn finish_reply(&mut self, session: u64, gid: Gid, host: HostId) -> Option<PageReply<M::Pages>> {
        self.settle();
        let open = self.open_reply.take()?;
        let ClosedReply { reply, firm, messages } = open.finish();
        let mut outgoing = self.outbox();
        if let Some(home) = self.homes.get_mut(&gid) {
            for (page, ticket, grant) in firm {
                if let Err(error) = home.await_thread((host, session), page, ticket, grant, &mut outgoing) {
                    tracing::warn!("a page that a thread was granted before: {error}");
                }
            }
        }
        self.post(outgoing);
        self.send_all(messages);
        Some(reply)
    }

    /// A client's link has ended.
    pub(crate) fn on_link_gone(&mut self, now: Duration, link: u64) {
        self.now = self.now.max(now);
        self.forget_link(link);
        let mut outgoing = self.outbox();
        for home in self.homes.values_mut() {
            if let Err(error) = home.on_session_closed(link, &mut outgoing) {
                tracing::warn!("a page of a thread that is gone: {error}");
            }
        }
        self.post(outgoing);
        self.settle();
    }

    /// Takes the pages that nobody maps at this moment, neighbours together. Returns whether there were any.
    fn take(&mut self) -> bool {
        let taking: Vec<HostKey> = self.hosts.iter().filter(|(_, host)| host.is_taking()).map(|(key, _)| *key).collect();
        let mut moved = false;
        for key in taking {
            self.with_host(key, |host, outputs| moved |= host.turn(outputs));
        }
        moved
    }

    fn dialed(&mut self, node: NodeId, made: Option<(u64, u32)>) {
        let now_ms = self.now_ms();
        let lost = self.wires.dialed(node, made, now_ms, &mut self.outputs);
        if let Some(node) = lost {
            self.on_node_lost(node, Over::All);
        }
        self.settle();
    }

    fn on_frame(&mut self, place: u64, bytes: &[u8]) {
        let (frame, page) = match decode_frame(bytes) {
            Ok(frame) => frame,
            Err(malformed) => {
                tracing::warn!("a connection about pages was closed: {}", malformed.0);
                return self.outputs.push_back(WireOutput::Close { place }.into());
            }
        };
        let page = (!page.is_empty()).then(|| page.into());
        match self.wires.hear(place, frame, &mut self.outputs) {
            Brought::Message(arrival, message) => {
                let (from, life, _) = arrival.from;
                self.hearing = Some(arrival);
                self.on_node_message((from, life), message, page);
                self.hearing = None;
            }
            Brought::Another(node, life) => {
                tracing::info!("another process answers where {node} was");
                self.on_node_lost(node, Over::AllBut(life));
            }
            Brought::Nothing => {}
        }
    }

    /// Ends lives of a node: membership says so, it cannot be reached, or another process has its place.
    fn on_node_lost(&mut self, node: NodeId, over: Over) {
        self.note_over(node, over);
        let goes_on = |home: &PageHome<M::Pages>| home.has_live(node, over);
        // Late news of a life before: what is said to the one that goes on is said still.
        let is_met = |host: &PageHost<M::Frames>| {
            let mut routes = host.homes.iter().enumerate();
            routes.any(|(at, route)| route.node == node && !host.sharing.is_over(at, over))
        };
        let is_reached = self.hosts.values().any(is_met);
        let mut again = Vec::new();
        if !is_reached && !self.homes.values().any(goes_on) {
            let unheard = self.wires.forget(node, &mut self.outputs);
            if over != Over::All {
                again = self.for_next_life(&unheard);
            }
            self.keep_unsent(unheard);
        }
        let (mut outgoing, mut keys) = (self.outbox(), Vec::new());
        for home in self.homes.values_mut() {
            for host in home.hosts_over(node, over) {
                keys.extend(home.key_of(host));
                if over == Over::All {
                    home.fence(host, &self.terms.address, &mut self.fenced);
                }
                if home.is_returning() {
                    home.on_handed_over(host, true);
                    continue;
                }
                let left = home.leave(host, true, &mut outgoing);
                left.map(|(share, _)| self.shares.remove(&share));
            }
        }
        self.post(outgoing);
        self.let_wait_no_more(keys);
        self.fenced.on_lives_over(node, over);
        self.lose_homes(node, over);
        self.end_returns();
        self.drop_left_homes();
        self.send_all(again);
        self.settle();
    }

    /// Messages to a node that its next life may wait for, because it may have begun again. They are replies to its requests, and messages
    /// to hosts that remote homes introduced. Messages for its life before find no host.
    fn for_next_life(&self, unheard: &[Arc<Outgoing>]) -> Vec<Outgoing> {
        let routes = self.hosts.values().flat_map(|host| &host.homes);
        let peers: BTreeSet<u64> = routes.flat_map(|route| route.peers.values().map(|peer| peer.key)).collect();
        let is_waited_for = |outgoing: &&Arc<Outgoing>| match &outgoing.message {
            NodeMessage::ToHost { key, .. } => peers.contains(key),
            NodeMessage::Joined { result, .. } => result.is_err(),
            NodeMessage::Left { .. } | NodeMessage::NotShared { .. } => true,
            _ => false,
        };
        unheard.iter().filter(is_waited_for).map(|outgoing| Outgoing::clone(outgoing)).collect()
    }
}
