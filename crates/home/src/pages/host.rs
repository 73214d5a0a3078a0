//! A region on this host: its pages' homes, the programs that map it, and messages of homes and hosts about its pages.
//!
//! [`hanare_protocol::page::Host`] has the rules of its pages. They work on [`HostFrames`].

mod flushing;
mod room;

use super::memory::{FileParts, FrameTerms, HostFrames, PageBytes, PageMemory};
use super::outgoing::Outgoing;
use super::request::JoinRequest;
pub(super) use flushing::Flushes;
use hanare_protocol::id::{ClientId, Gid, NodeId};
use hanare_protocol::limits::{FLUSH_PAGE_COUNT_MAX, PAGE_LEN};
use hanare_protocol::page::host::Manner;
use hanare_protocol::page::membership::Sharing;
use hanare_protocol::page::word::{PageWord, State};
use hanare_protocol::page::{Consistency, Host as Rules, HostId, HostOutput, Page, ToHost};
use hanare_protocol::placement::Layout;
use hanare_protocol::wire::control::PageStat;
use hanare_protocol::{Corrupt, Error, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

/// Slots of the node itself.
pub const NODE_SLOTS: u16 = 8;

/// Slots of one client: those of its lanes, each with one for every page of a message.
pub(super) const CLIENT_SLOTS: u16 = 512;

/// Most clients of a host that map one region.
const CLIENT_COUNT_MAX: u16 = 64;

/// Slots of all.
pub const SLOTS: u16 = NODE_SLOTS + CLIENT_COUNT_MAX * CLIENT_SLOTS;

/// A region on this host.
#[derive(Debug)]
pub(super) struct PageHost<F: HostFrames> {
    gid: Gid,
    pub name: String,
    pub consistency: Consistency,
    layout: Layout,
    pub homes: Vec<HomeRoute<F::Home>>,
    /// The program whose turn it is to map the region, what each home knows, and when the region is left.
    pub sharing: Sharing<JoinRequest, Error>,
    /// For each extent of the layout, its home.
    home_of: Vec<usize>,
    clients: Vec<HostClient>,
    /// From the first client on: its homes agree that the region is as long as that client says.
    pages: Option<MappedPages<F>>,
    frames_max: u64,
    /// Clients wrote nonsense into the words: the region is of no more use here.
    is_given_up: bool,
    /// True if its bytes have copies: then all homes' pages are in frames, and another node may become home.
    pub is_copied: bool,
    pub flushes: Flushes,
}

/// The pages of a coherent region.
#[derive(Debug)]
struct MappedPages<F> {
    frames: F,
    rules: Rules<PageBytes>,
    /// End of the last eviction.
    hand: u64,
}

/// A home of the region, as this host knows it.
#[derive(Debug)]
pub(super) struct HomeRoute<H> {
    pub node: NodeId,
    pub address: String,
    /// The host's key at this home.
    pub key: u64,
    me: HostId,
    pub peers: BTreeMap<HostId, PeerHost>,
    /// Pages that were sent to it before it was lost, and that it may not have got. A home that comes back gets them.
    pub unsent: Vec<Arc<Outgoing>>,
    /// The membership that this node had when it was taken for lost, until the home has heard so.
    pub forgotten: Option<u64>,
    /// Bytes that lie on this very node.
    own: Option<H>,
}

impl<H> HomeRoute<H> {
    /// A home that has not been asked yet.
    pub fn new(node: NodeId, address: String, key: u64) -> HomeRoute<H> {
        HomeRoute { node, address, key, me: HostId(0), peers: BTreeMap::new(), unsent: Vec::new(), forgotten: None, own: None }
    }
}

/// Another host, as a home introduced it.
#[derive(Debug)]
pub(super) struct PeerHost {
    pub node: NodeId,
    pub address: String,
    pub key: u64,
}

#[derive(Debug)]
struct HostClient {
    id: ClientId,
    /// Its first slot.
    slot: u16,
    /// True once it has said how its node reaches its mapping.
    holds: bool,
}

/// The part of the answer that lets a client map the region.
pub(super) struct Admission<F> {
    pub slot_first: u16,
    pub frames_max: u64,
    pub parts: FileParts,
    pub files: F,
}

impl<F: HostFrames<Home: Clone>> PageHost<F> {
    /// A region that no client maps yet.
    pub fn new(
        (gid, name): (Gid, String),
        consistency: Consistency,
        layout: Layout,
        (homes, sharing): (Vec<HomeRoute<F::Home>>, Sharing<JoinRequest, Error>),
        (frames_max, is_copied): (u64, bool),
    ) -> PageHost<F> {
        let home_of = layout
            .extents()
            .map(|extent| homes.iter().position(|home| home.node == extent.node).expect("each extent's node is a home"))
            .collect();
        let (clients, is_given_up) = (Vec::new(), false);
        let (pages, flushes) = (None, Flushes::default());
        PageHost {
            gid,
            name,
            consistency,
            layout,
            homes,
            sharing,
            home_of,
            clients,
            pages,
            frames_max,
            is_given_up,
            is_copied,
            flushes,
        }
    }

    /// Frames that it may fill.
    pub fn frames_max(&self) -> u64 {
        self.frames_max
    }

    /// Does something by the rules. `None` if a client wrote nonsense into the words, and the region is given up. Or it has no pages here.
    fn with_rules<T>(&mut self, act: impl FnOnce(&mut Rules<PageBytes>, &mut F) -> Result<T, Corrupt>) -> Option<T> {
        let MappedPages { rules, frames, .. } = self.pages.as_mut()?;
        match act(rules, frames) {
            Ok(value) => Some(value),
            Err(corrupt) => {
                self.give_up(&corrupt);
                None
            }
        }
    }

    /// Makes the page words and the frames of a coherent region.
    pub fn begin(&mut self, memory: &mut impl PageMemory<Frames = F>) -> Result<()> {
        if self.consistency != Consistency::Coherent || self.pages.is_some() || self.is_given_up {
            return Ok(());
        }
        let (layout, home_of, home_count) = (&self.layout, &self.home_of[..], self.homes.len());
        let mut frames = memory.make_frames(FrameTerms { name: &self.name, layout, home_of, home_count, slots: SLOTS })?;
        for (home, route) in self.homes.iter().enumerate() {
            frames.set_home(home, route.me, route.own.clone());
        }
        self.pages = Some(MappedPages { frames, rules: Rules::default(), hand: 0 });
        Ok(())
    }

    /// A home calls this host `me`; `own` where its bytes lie on this very node.
    pub fn set_home(&mut self, home: usize, me: HostId, own: Option<F::Home>) {
        let route = &mut self.homes[home];
        (route.me, route.own) = (me, own);
        if let Some(MappedPages { frames, .. }) = &mut self.pages {
            frames.set_home(home, route.me, route.own.clone());
        }
    }

    pub fn gid(&self) -> Gid {
        self.gid
    }

    /// The layout of its bytes.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// True if no client of this host maps it.
    pub fn is_unused(&self) -> bool {
        self.clients.is_empty()
    }

    /// The programs that map it.
    pub fn client_ids(&self) -> impl Iterator<Item = ClientId> + '_ {
        self.clients.iter().map(|client| client.id)
    }

    /// True if a client maps it.
    pub fn has(&self, client: ClientId) -> bool {
        self.clients.iter().any(|known| known.id == client)
    }

    /// Lets a client in, for whom the homes have agreed. It says what the region is called: one that was refused may have said something
    /// else.
    pub fn admit(&mut self, id: ClientId) -> Result<Admission<F::Files>> {
        if let Some(MappedPages { rules, frames, .. }) = &mut self.pages {
            rules.settle_dead_slots(frames);
        }
        if let Some(client) = self.clients.iter().find(|client| client.id == id) {
            // The program follows the region to its next home.
            let slot_first = client.slot;
            let (parts, files) = match &self.pages {
                Some(MappedPages { frames, .. }) => frames.files()?,
                None => (vec![None; self.home_of.len()], F::Files::default()),
            };
            return Ok(Admission { slot_first, frames_max: self.frames_max, parts, files });
        }
        let is_free = |slot: u16| {
            let is_claimed = self.pages.as_ref().is_some_and(|pages| !pages.rules.is_free(slot..slot + CLIENT_SLOTS));
            !is_claimed && self.clients.iter().all(|client| client.slot != slot)
        };
        let slot = (0..CLIENT_COUNT_MAX).map(|k| NODE_SLOTS + k * CLIENT_SLOTS).find(|slot| is_free(*slot));
        let slot_first = slot.ok_or_else(|| Error::LimitReached {
            what: format!("programs of one host that map region '{}'", self.name),
            limit: u64::from(CLIENT_COUNT_MAX),
        })?;
        let (parts, files) = match &self.pages {
            Some(MappedPages { frames, .. }) => frames.files()?,
            None => (vec![None; self.home_of.len()], F::Files::default()),
        };
        self.clients.push(HostClient { id, slot: slot_first, holds: false });
        let frames_max = if self.pages.is_some() { self.frames_max } else { 0 };
        Ok(Admission { slot_first, frames_max, parts, files })
    }

    /// A client has mapped the region.
    pub fn hold(&mut self, id: ClientId, mapping: F::Mapping) -> Result<()> {
        let client = self.clients.iter_mut().find(|client| client.id == id && !client.holds);
        let (Some(client), Some(MappedPages { frames, .. })) = (client, &mut self.pages) else {
            return Err(garbage("a mapping of what it does not share"));
        };
        frames.hold(id, mapping)?;
        client.holds = true;
        Ok(())
    }

    /// A client has unmapped the region, or is dead. What it was at goes on without it.
    pub fn part(&mut self, id: ClientId, outputs: &mut Vec<HostOutput<PageBytes>>) {
        self.part_one(id, true, outputs);
    }

    /// Detaches a client from the region. If its process may go on, its open fills end with the rest.
    fn part_one(&mut self, id: ClientId, is_over: bool, outputs: &mut Vec<HostOutput<PageBytes>>) {
        let Some(at) = self.clients.iter().position(|client| client.id == id) else { return };
        let HostClient { slot, .. } = self.clients.remove(at);
        let Some(MappedPages { rules, frames, .. }) = &mut self.pages else { return };
        frames.part(id);
        if let Err(corrupt) = rules.part(frames, slot..slot + CLIENT_SLOTS, is_over, outputs) {
            tracing::warn!("a page of a program that is gone: {}", corrupt.0);
        }
    }

    /// The node goes on in the names of those slots, as far as they are the client's, which lives.
    pub fn take_over(&mut self, id: ClientId, slots: Range<u16>, outputs: &mut Vec<HostOutput<PageBytes>>) {
        let Some(first) = self.clients.iter().find(|client| client.id == id).map(|client| client.slot) else { return };
        let slots = slots.start.max(first)..slots.end.min(first + CLIENT_SLOTS);
        self.with_rules(|rules, here| rules.take_over(here, slots, outputs));
    }

    /// Parts programs that hold up steps on their mappings: all others of the host wait for each. Says whether there were any.
    pub fn part_stuck(&mut self, outputs: &mut Vec<HostOutput<PageBytes>>) -> bool {
        let stuck = self.pages.as_mut().map(|pages| pages.frames.stuck()).unwrap_or_default();
        for id in &stuck {
            tracing::warn!("{id} holds up its mapping of region '{}' and is parted from it", self.name);
            self.part_one(*id, false, outputs);
        }
        !stuck.is_empty()
    }

    /// All clients count as gone; their mappings lose their pages as these are taken.
    pub fn part_all(&mut self, outputs: &mut Vec<HostOutput<PageBytes>>) {
        if let Some(MappedPages { frames, .. }) = &mut self.pages {
            frames.part_all();
        }
        let clients: Vec<ClientId> = self.clients.iter().map(|client| client.id).collect();
        clients.into_iter().for_each(|client| self.part_one(client, false, outputs));
    }

    /// A message of a home, or of another host.
    ///
    /// **Errors**: [`Error::Garbage`] for what no correct one sends; the region's own memory is the input of its clients.
    // FEATURE: EU-F12 EU-F13
    pub fn on_message(
        &mut self,
        (home, page): (usize, Page),
        message: ToHost,
        bytes: Option<PageBytes>,
        now_us: u64,
        outputs: &mut Vec<HostOutput<PageBytes>>,
    ) -> Result<()> {
        // Slots come from clients by way of their home.
        let slot = match &message {
            ToHost::Grant { ticket, .. } | ToHost::OwnerGone { ticket, .. } | ToHost::Refused { ticket, .. } => ticket.slot,
            ToHost::Invalidate { .. } | ToHost::Forward { .. } | ToHost::Recall { .. } | ToHost::Ack { .. } => 0,
        };
        if slot >= SLOTS {
            return Err(garbage("a request of a slot that there is not"));
        }
        let is_here = page.0 < self.layout.len().div_ceil(PAGE_LEN) && self.home_of_page(page) == home;
        if !is_here || self.pages.is_none() {
            return Err(garbage("a message about a page that is not the home's"));
        }
        self.with_rules(|rules, here| rules.on_message_at(here, (page, message, bytes), now_us, outputs));
        Ok(())
    }

    /// Another host is gone: it may have been the one that was to send a page.
    pub fn on_host_gone(&mut self, home: usize, outputs: &mut Vec<HostOutput<PageBytes>>) {
        if let Some(MappedPages { rules, frames, .. }) = &mut self.pages {
            rules.on_host_gone(frames, home, outputs);
        }
    }

    /// A home is gone: what was asked of it does not come. Who waits asks it again, and finds out.
    pub fn on_home_lost(&mut self, home: usize) {
        self.sharing.on_lost(home);
        self.fail_claims(home);
    }

    /// Claims of pages of a home fail: no reply to them comes.
    pub fn fail_claims(&mut self, home: usize) {
        if let Some(MappedPages { rules, frames, .. }) = &mut self.pages {
            rules.on_home_lost(frames, home);
        }
    }

    /// True while pages are being taken, or their filling is waited for.
    pub fn is_taking(&self) -> bool {
        self.pages.as_ref().is_some_and(|pages| pages.rules.is_taking())
    }

    /// Goes on with pages that are being taken. Returns whether anything moved.
    pub fn turn(&mut self, outputs: &mut Vec<HostOutput<PageBytes>>) -> bool {
        self.with_rules(|rules, here| rules.turn(here, outputs)).unwrap_or(false)
    }

    /// Until when the first page is kept that another host waits for.
    pub fn holds_until_us(&self) -> Option<u64> {
        self.pages.as_ref().and_then(|pages| pages.rules.holds_until_us())
    }

    /// Gives pages that were kept for long enough to hosts that wait.
    pub fn end_holds(&mut self, now_us: u64, outputs: &mut Vec<HostOutput<PageBytes>>) {
        self.with_rules(|rules, here| rules.end_holds(here, now_us, outputs));
    }

    /// Lets go of all pages, or of those of one home. Returns whether all are home, or on their way.
    pub fn empty(&mut self, of: Option<usize>, outputs: &mut Vec<HostOutput<PageBytes>>) -> bool {
        self.with_rules(|rules, here| rules.empty(here, of, outputs)).unwrap_or(true)
    }

    /// The home that a page belongs to.
    pub fn home_of_page(&self, page: Page) -> usize {
        self.home_of[self.layout.pieces(page.0 * PAGE_LEN, 1).next().expect("pages are checked before").extent]
    }

    /// True if none of its pages can be used again.
    pub fn is_lost(&self) -> bool {
        self.pages.is_none() || (0..self.homes.len()).all(|home| self.sharing.is_lost(home))
    }

    /// True if its page words can be dropped.
    pub fn is_given_up(&self) -> bool {
        self.is_given_up
    }

    /// Drops all pages of some homes, unsaved. Either this node was taken for lost, and they are not its own any more. Or their users do
    /// not let go of them. Programs that touch one ask its home, and are refused; they are told that stores were lost, if any were.
    /// Returns true if so.
    pub fn drop_pages(&mut self, homes: &BTreeSet<usize>) -> bool {
        let mut has_lost = homes.iter().any(|at| !self.homes[*at].unsent.is_empty());
        let used = self.used_of(|home| homes.contains(&home));
        let Some(MappedPages { rules, frames, .. }) = &mut self.pages else { return false };
        frames.let_fills_end(&used);
        rules.forget(|page| homes.contains(&frames.home_of(page)));
        for page in used {
            let home = frames.home_of(page);
            // Bytes of this node's own memory stay in place.
            let is_elsewhere = self.homes[home].own.is_none();
            has_lost |= is_elsewhere && matches!(frames.look(page).state(), Ok(State::Owned | State::TakingOwned));
            frames.take(page.0..page.0 + 1, Manner { home, keeps: false, wants_bytes: true });
            frames.forget(page);
        }
        if has_lost {
            // Programs learn it at their next barrier, unlock, flush, unmap or detach.
            frames.tell_loss();
        }
        has_lost
    }

    /// Pages that ever were here, of the homes that `is_meant` admits.
    fn used_of(&self, is_meant: impl Fn(usize) -> bool) -> Vec<Page> {
        let Some(MappedPages { frames, .. }) = &self.pages else { return Vec::new() };
        let pages = (0..frames.page_count()).map(Page);
        pages.filter(|page| frames.look(*page) != PageWord::NEVER && is_meant(frames.home_of(*page))).collect()
    }

    /// Lets go of all pages of a home that is back. Nobody here gets a page of it, and what this host owns goes there. Returns whether all
    /// are home, or on their way.
    pub fn hand_over(&mut self, home: usize, outputs: &mut Vec<HostOutput<PageBytes>>) -> bool {
        self.with_rules(|rules, here| rules.hand_over(here, home, outputs)).unwrap_or(true)
    }

    /// The home knows nothing of this host any more. It may be joined again, by another name. Messages to the host under its old name are
    /// not for the new membership.
    pub fn begin_anew_with(&mut self, home: usize, key: u64) {
        let used = self.used_of(|of| of == home);
        if let Some(MappedPages { rules, frames, .. }) = &mut self.pages {
            rules.forget(|page| frames.home_of(page) == home);
            used.into_iter().for_each(|page| frames.forget(page));
        }
        let me = self.homes[home].me;
        self.set_home(home, me, None);
        let route = &mut self.homes[home];
        route.key = key;
        route.unsent.clear();
        route.peers.clear();
    }

    /// A lost home, or one of these, that has not got all stores of programs here. Any home, if nobody knows what they stored.
    pub fn unsaved(&self, lost: &[usize]) -> Option<NodeId> {
        if self.is_given_up {
            return self.homes.first().map(|route| route.node);
        }
        let has_page = |home: usize| {
            self.pages.as_ref().is_some_and(|MappedPages { frames, .. }| {
                let is_owned = |page: Page| matches!(frames.look(page).state(), Ok(State::Owned | State::TakingOwned));
                (0..frames.page_count()).map(Page).any(|page| is_owned(page) && frames.home_of(page) == home)
            })
        };
        let is_lost = |at: usize| self.sharing.is_lost(at) || lost.contains(&at);
        let lost = self.homes.iter().enumerate().filter(|(at, _)| is_lost(*at));
        lost.filter(|(at, route)| !route.unsent.is_empty() || has_page(*at)).map(|(_, route)| route.node).next()
    }

    /// Clients wrote nonsense into the words: the region is of no more use on this host. It is unknown which stores are not at home. So
    /// all programs are told that stores were lost, and their next touch of a remote page is an error.
    fn give_up(&mut self, corrupt: &Corrupt) {
        tracing::error!("region '{}' is given up on this host: {}", self.name, corrupt.0);
        self.is_given_up = true;
        let all: BTreeSet<usize> = (0..self.homes.len()).collect();
        let is_told = self.drop_pages(&all);
        if let Some(pages) = self.pages.take().filter(|_| !is_told) {
            pages.frames.tell_loss();
        }
    }

    /// Counts of page actions on this host.
    pub fn stat(&self) -> PageStat {
        let mut stat = PageStat::new(self.gid, self.name.clone(), self.consistency);
        stat.programs = self.clients.len() as u32;
        if let Some(MappedPages { frames, .. }) = &self.pages {
            stat.frames = frames.present_count();
            frames.add_counts(&mut stat);
        }
        stat
    }
}

fn garbage(reason: &str) -> Error {
    Error::Garbage { peer: "a home of a shared region".to_owned(), reason: reason.to_owned() }
}

#[cfg(test)]
mod tests;
