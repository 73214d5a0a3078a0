//! A region at one of its homes: the directory of the pages here, and the hosts that map it.

mod copied;
mod faces;
mod returning;

use super::memory::{HomePages, PageBytes};
use super::outgoing::{Outbox, Outgoing};
use super::reply::{PageBody, PageReply};
use super::routes::PageRoutes;
use copied::CopiedPages;
use hanare_protocol::id::{Epoch, Gid, NodeId, Rights};
use hanare_protocol::limits::PAGE_RUN_COUNT_MAX;
use hanare_protocol::page::directory::Output;
use hanare_protocol::page::membership::{Joiner, Over, Sharer, Sharers};
use hanare_protocol::page::{
    Access, Again, Consistency, Directory, Directs, Face, Heard, HoldTimes, HostId, Moves, Page, Refusal, Returning, Ticket,
    ToHome, ToHost,
};
use hanare_protocol::wire::control::PageStat;
use hanare_protocol::wire::page::{Granted, Join, Joined, NodeMessage, Outcome, PageRequest, Settled};
use hanare_protocol::{Error, Result};
use std::collections::VecDeque;

/// The home's own host, whether or not its clients map the region.
const OWN: HostId = HostId(0);

/// A region at this node.
pub(super) struct PageHome<H> {
    gid: Gid,
    name: String,
    consistency: Consistency,
    routes: PageRoutes,
    memory: H,
    directory: Directory,
    moves: Moves,
    /// Decides which host may keep pages that go to and fro.
    hold_times: HoldTimes,
    sharers: Sharers,
    /// Grants given to threads themselves that the home waits for, and the session they went to.
    direct: Directs<u64>,
    /// While this node, which was taken for lost, gets the newest bytes from the hosts that have them.
    returning: Option<Returning>,
    /// The directory's replies to stages of commands.
    news: VecDeque<(Page, Face, Option<Refusal>)>,
    /// Writes of an extent with copies that not all holders have.
    copied: Option<CopiedPages>,
}

impl<H: HomePages> PageHome<H> {
    /// A region that nobody maps yet, and of which some pages are lost.
    pub fn new(join: &Join, (routes, memory): (PageRoutes, H), lost: Vec<Page>) -> PageHome<H> {
        PageHome::of(join.gid, (join.name.clone(), join.consistency), (routes, memory), lost)
    }

    /// [`PageHome::new`] for a region of that name, mapped in that way.
    pub fn of(
        gid: Gid,
        (name, consistency): (String, Consistency),
        (routes, memory): (PageRoutes, H),
        lost: Vec<Page>,
    ) -> PageHome<H> {
        let lost = lost.into_iter().filter(|page| routes.is_here(*page));
        let copied = memory.copied_slot().filter(|_| consistency == Consistency::Coherent).map(CopiedPages::new);
        let directory = Directory::after_return(routes.page_count(), OWN, lost);
        PageHome {
            gid,
            name,
            consistency,
            directory: if copied.is_some() { directory.with_copies() } else { directory },
            copied,
            moves: Moves::default(),
            hold_times: HoldTimes::default(),
            routes,
            memory,
            sharers: Sharers::new(OWN),
            direct: Directs::default(),
            returning: None,
            news: VecDeque::new(),
        }
    }

    /// Checks that another host may map the region in that way.
    pub fn check(&self, join: &Join) -> Result<()> {
        self.check_return()?;
        if self.is_left() && join.consistency != Consistency::Coherent && self.has_lost() {
            let reason = "pages of it went with the hosts that had them: map it coherent, where touching one is an error; or \
                          remove it and create it again";
            return Err(Error::BadUse { region: self.name.clone(), reason: reason.to_owned() });
        }
        if self.is_left() {
            return Ok(());
        }
        if !self.consistency.allows_both(self.routes.layout(), &join.layout) {
            let reason = "others map it as it was before it was resized; let them unmap it first".to_owned();
            return Err(Error::BadUse { region: self.name.clone(), reason });
        }
        if self.consistency == join.consistency {
            return Ok(());
        }
        let (mode, count) = (self.consistency, self.sharers.count());
        let reason = format!("{count} host(s) map it {mode}; it is mapped in one way at a time: unmap it there first");
        Err(Error::BadUse { region: self.name.clone(), reason })
    }

    /// True while a host maps it or a page that one passed on is under way.
    pub fn is_being_left(&self) -> bool {
        self.sharers.draining().count() == self.sharers.count()
    }

    /// True if no host maps it.
    pub fn is_left(&self) -> bool {
        self.returning.is_none() && self.sharers.is_empty()
    }

    /// True if no host maps it, nor is about to, and all holders know that.
    pub fn is_unused(&self) -> bool {
        self.is_left() && !self.has_writes() && !self.has_unjoined()
    }

    /// True if its state is no longer needed. Lost pages are remembered as long as the region exists.
    pub fn is_done_with(&self) -> bool {
        self.is_unused() && !(self.has_lost() && self.memory.is_held())
    }

    fn has_lost(&self) -> bool {
        self.directory.lost().next().is_some()
    }

    /// The pages that hosts may have, or are about to get.
    pub fn elsewhere(&self) -> Vec<Page> {
        self.directory.elsewhere().into_iter().collect()
    }

    /// The pages whose newest bytes are gone.
    pub fn lost(&self) -> Vec<Page> {
        self.directory.lost().collect()
    }

    /// Takes a host in, in this node's life of that epoch; `is_own` if it is this very node. A host that is here already keeps its number, and
    /// may come to write.
    pub fn join(&mut self, who: Joiner, (share, rights): (u64, Rights), (epoch, is_own): (Epoch, bool)) -> Joined {
        let node = who.node;
        let (host, share) = self.sharers.join(who, (share, rights), is_own);
        self.moves.on_host(host, node);
        Joined { host, share, rights, epoch }
    }

    /// True if the numbers for hosts are used up.
    pub fn is_full(&self) -> bool {
        self.sharers.is_full()
    }

    /// The hosts of those lives of a node that are over.
    pub fn hosts_over(&self, node: NodeId, over: Over) -> Vec<HostId> {
        self.sharers.over(node, over)
    }

    /// True if a life of the node that is not over maps it.
    pub fn has_live(&self, node: NodeId, over: Over) -> bool {
        self.sharers.has_live(node, over)
    }

    /// True if a host has that key.
    pub fn knows(&self, key: u64) -> bool {
        self.sharers.knows(key)
    }

    /// The hosts by which the node that joins was known before.
    pub fn earlier_hosts(&self, who: &Joiner) -> Vec<HostId> {
        self.sharers.earlier(who)
    }

    /// The shares of hosts that leave when what they passed on has come.
    pub fn draining(&self) -> impl Iterator<Item = u64> {
        self.sharers.draining().filter_map(|host| Some(self.sharers.get(host)?.share))
    }

    /// A host has let go of everything, or is lost with its node. Returns its membership, and the message to it if it lives. Nothing while
    /// pages that it passed on are on their way.
    pub fn leave(&mut self, host: HostId, is_lost: bool, outgoing: &mut Outbox) -> Option<(u64, Outgoing)> {
        if is_lost && self.loses_later(host) {
            return None;
        }
        let gone = match is_lost {
            true => self.sharers.lose(host),
            false => self.sharers.leave(host, self.directory.is_passing_on(host) || self.has_writes_of(host)),
        }?;
        self.make_unknown(gone.who.key);
        self.direct.on_host_gone(host);
        self.directory.on_host_lost(host);
        self.moves.on_host_gone(|page| self.directory.is_busy(page));
        self.hold_times.on_host_gone(host);
        self.drain(outgoing);
        if host != OWN && is_lost {
            // Only a lost host is announced. A leaving host's messages still come, and a repeated request would look for the page at the
            // wrong host.
            for (_, other) in self.sharers.iter() {
                outgoing.push(outgoing_to(other, NodeMessage::HostGone { key: other.who.key }, None));
            }
        }
        Some((gone.share, outgoing_to(&gone, NodeMessage::Left { key: gone.who.key }, None)))
    }

    /// Records of a thread: what can be granted at once is, the rest goes to its node later.
    ///
    /// **Errors**: [`Error::Garbage`] for pages that do not lie here.
    // FEATURE: EU-F14
    pub fn on_page_requests(
        &mut self,
        host: HostId,
        session: u64,
        requests: &[PageRequest],
        outgoing: &mut Outbox,
    ) -> Result<PageReply<H>> {
        let mut reply = PageReply::new();
        for request in requests {
            let (granted, bytes) = self.on_page_request(host, session, request, &reply, outgoing)?;
            reply.push(Page(request.page), request.ticket, granted, bytes);
        }
        Ok(reply)
    }

    fn on_page_request(
        &mut self,
        host: HostId,
        session: u64,
        request: &PageRequest,
        reply: &PageReply<H>,
        outgoing: &mut Outbox,
    ) -> Result<(Granted, PageBody<H::View>)> {
        let page = Page(request.page);
        if !self.routes.is_here(page) {
            return Err(garbage(format!("a request for page {} of {}, which is not at home here", request.page, self.gid)));
        }
        if request.access == Access::Write && self.sharer(host).is_none_or(|sharer| sharer.rights < Rights::Write) {
            return Ok((Granted::without(Outcome::Full), PageBody::None));
        }
        // Its thread waits for other hosts first, and may never come to the neighbours of that page.
        let is_beside_later = host == OWN && request.tries && reply.is_partial();
        if is_beside_later || request.tries && !self.directory.is_free_for(page, host, request.access) {
            return Ok((Granted::without(Outcome::NotNow), PageBody::None));
        }
        let message = ToHome::Request { ticket: request.ticket, access: request.access, has: request.has, firm: request.firm };
        self.hear(host, page, message, outgoing.now_us)?;
        let (mut direct, mut bytes) = (None, PageBody::None);
        while let Some(output) = self.directory.poll() {
            match output {
                Output::Send(to, at, ToHost::Grant { ticket, version, access, has_bytes, awaits, firm })
                    if (to, at, ticket) == (host, page, request.ticket) && awaits.is_empty() =>
                {
                    let outcome = if access == Access::Write { Outcome::Write } else { Outcome::Read };
                    direct = Some(Granted { outcome, version, has_bytes, firm });
                    if has_bytes {
                        bytes = PageBody::of(&self.memory, page)?;
                    }
                    if firm {
                        let grant = ToHost::Grant { ticket, version, access, has_bytes, awaits, firm };
                        self.await_thread((host, session), page, ticket, grant, outgoing)?;
                    }
                }
                Output::Send(to, at, ToHost::Refused { ticket, reason }) if (to, at, ticket) == (host, page, request.ticket) => {
                    direct = Some(Granted::without(if reason == Refusal::Lost { Outcome::Lost } else { Outcome::Full }));
                }
                other => self.act(other, outgoing)?,
            }
        }
        Ok((direct.unwrap_or(Granted::without(Outcome::Later)), bytes))
    }

    /// A grant goes to a thread itself, which is to acknowledge it.
    pub fn await_thread(
        &mut self,
        (host, session): (HostId, u64),
        page: Page,
        ticket: Ticket,
        grant: ToHost,
        outgoing: &mut Outbox,
    ) -> Result<()> {
        match self.direct.give(host, session, page, ticket, grant) {
            Some(Again { host, page, grant }) => self.act(Output::Send(host, page, grant), outgoing),
            None => Ok(()),
        }
    }

    /// The host's key in messages to it.
    pub fn key_of(&self, host: HostId) -> Option<u64> {
        Some(self.sharer(host)?.who.key)
    }

    /// A thread has installed what it was granted.
    pub fn on_settled(&mut self, host: HostId, settled: &Settled, outgoing: &mut Outbox) -> Result<()> {
        let Settled { page, ticket, version } = *settled;
        self.on_message(host, Page(page), ToHome::Done { ticket, version }, None, outgoing)
    }

    /// A message of a host, with a page's bytes where it has some.
    // FEATURE: EU-F15 EU-F16
    pub fn on_message(
        &mut self,
        host: HostId,
        page: Page,
        message: ToHome,
        bytes: Option<&[u8]>,
        outgoing: &mut Outbox,
    ) -> Result<()> {
        if !self.routes.is_here(page) {
            return Err(garbage(format!("a message about page {} of {}, which is not at home here", page.0, self.gid)));
        }
        let writes =
            matches!(message, ToHome::Request { access: Access::Write, .. } | ToHome::WriteBack { .. } | ToHome::Store { .. });
        if writes && self.sharer(host).is_none_or(|sharer| sharer.rights < Rights::Write) {
            return Err(garbage(format!("who may only read {} wrote to page {} of it", self.gid, page.0)));
        }
        if self.on_page_to_copies((host, page), message, bytes, outgoing) {
            return Ok(());
        }
        if self.is_returning() {
            return self.on_message_in_return(host, page, message, bytes);
        }
        let heard = self.hear(host, page, message, outgoing.now_us)?;
        if let Some(Again { host, page, grant }) = self.direct.on_message(host, page, &message, heard) {
            self.act(Output::Send(host, page, grant), outgoing)?;
        }
        if heard == Heard::Acted
            && host != OWN
            && let Some(bytes) = bytes
        {
            self.memory.write_page(page.0, bytes)?;
        }
        self.drain(outgoing);
        Ok(())
    }

    /// Has the directory act on a message, and counts how pages go to and fro.
    ///
    /// **Cost**: beside the directory's, a look-up where a page is under way between hosts.
    fn hear(&mut self, host: HostId, page: Page, message: ToHome, now_us: u64) -> Result<Heard> {
        let is_move = match message {
            ToHome::Request { access, .. } => !self.directory.is_free_for(page, host, access),
            _ => false,
        };
        let begins = !self.directory.is_busy(page);
        let heard = self.directory.handle(host, page, message)?;
        if heard == Heard::Acted && (is_move || self.moves.is_under_way(page)) {
            if is_move && self.moves.on_move(page, host, begins, now_us) {
                self.hold_times.on_return(now_us);
            }
            if !self.directory.is_busy(page) {
                self.moves.on_rest(page, now_us);
            }
        }
        Ok(heard)
    }

    /// A thread's connection has ended: what it was granted and has not acknowledged goes to its node.
    pub fn on_session_closed(&mut self, session: u64, outgoing: &mut Outbox) -> Result<()> {
        let again = self.direct.on_session_closed(session).into_iter();
        again.map(|Again { host, page, grant }| Output::Send(host, page, grant)).try_for_each(|output| self.act(output, outgoing))
    }

    fn drain(&mut self, outgoing: &mut Outbox) {
        self.drain_by(PageHome::act, outgoing);
    }

    fn drain_by(&mut self, act: fn(&mut PageHome<H>, Output, &mut Outbox) -> Result<()>, outgoing: &mut Outbox) {
        while let Some(output) = self.directory.poll() {
            if let Err(error) = act(self, output, outgoing) {
                tracing::warn!("pages of {}: {error}", self.gid);
            }
        }
    }

    /// Does what the directory wants for a host: owners may keep pages for a while that go to and fro.
    fn act(&mut self, output: Output, outgoing: &mut Outbox) -> Result<()> {
        let by = match &output {
            Output::Send(_, _, ToHost::Recall { .. }) => Some(OWN),
            Output::Send(_, _, ToHost::Forward { to, .. }) => Some(*to),
            _ => None,
        };
        let output = match (output, by) {
            (Output::Send(to, page, message), Some(by)) => {
                let hold_us = self.hold_times.on_demand(by, to, outgoing.now_us);
                Output::Send(to, page, message.held_for(hold_us))
            }
            (output, _) => output,
        };
        self.say(output, outgoing)
    }

    /// Turns what the directory wants into messages, and news for stages of commands.
    fn say(&mut self, output: Output, outgoing: &mut Outbox) -> Result<()> {
        let is_grant = matches!(output, Output::Send(_, _, ToHost::Grant { .. }));
        let Some(output) = self.may_say(output, is_grant) else { return Ok(()) };
        let (to, page, message) = match output {
            Output::Send(to, page, message) => (to, page, message),
            Output::Ready(page, face) => {
                self.news.push_back((page, face, None));
                return Ok(());
            }
            Output::Failed(page, face, refusal) => {
                self.news.push_back((page, face, Some(refusal)));
                return Ok(());
            }
        };
        let named = match &message {
            ToHost::Forward { to, .. } => Some(*to),
            ToHost::Invalidate { tell, .. } => *tell,
            _ => None,
        };
        if let Some(named) = named.filter(|named| *named != to) {
            self.introduce(to, named, outgoing);
        }
        let bytes = message.has_bytes().then(|| self.memory.read_page(page.0)).transpose()?;
        if let Some(sharer) = self.sharer(to) {
            outgoing.push(outgoing_to(sharer, NodeMessage::ToHost { key: sharer.who.key, page, message }, bytes));
        }
        Ok(())
    }

    fn introduce(&mut self, to: HostId, named: HostId, outgoing: &mut Outbox) {
        let Some(other) = self.sharers.introduce(to, named) else { return };
        if let Some(sharer) = self.sharer(to) {
            let Joiner { node, address, key: its_key, .. } = other.who;
            let message = NodeMessage::Introduce { key: sharer.who.key, host: named, node, address, its_key };
            outgoing.push(outgoing_to(sharer, message, None));
        }
    }

    fn sharer(&self, host: HostId) -> Option<&Sharer> {
        self.sharers.get(host)
    }

    /// Page counts as the home knows them, to be added to the host's.
    pub fn stat(&self) -> PageStat {
        PageStat {
            hosts: self.sharers.count() as u32,
            contended: self.moves.runs(PAGE_RUN_COUNT_MAX),
            ..PageStat::new(self.gid, self.name.clone(), self.consistency)
        }
    }

    /// Count of moves of its pages to and fro, summed into `cell_count` cells.
    pub fn map(&self, cell_count: usize) -> Vec<u32> {
        self.moves.map(self.routes.page_count(), cell_count)
    }

    /// False while another node may be home.
    pub fn answers(&self) -> bool {
        self.memory.answers()
    }

    /// The bytes that lie here.
    pub fn memory(&self) -> &H {
        &self.memory
    }

    /// Parts of the region that lie here.
    pub fn routes(&self) -> &PageRoutes {
        &self.routes
    }

    /// The mapping's promise.
    pub fn consistency(&self) -> Consistency {
        self.consistency
    }
}

/// A message to a host that maps the region.
fn outgoing_to(sharer: &Sharer, message: NodeMessage, bytes: Option<PageBytes>) -> Outgoing {
    Outgoing { node: sharer.who.node, address: sharer.who.address.clone(), message, bytes }
}

fn garbage(reason: String) -> Error {
    Error::Garbage { peer: "a host of a shared region".to_owned(), reason }
}
