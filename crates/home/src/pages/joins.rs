//! Start of sharing: the host joins all homes of a region's pages, again for each client. `leaves` is the way back.

use super::Pages;
use super::events::PageOutput;
use super::host::{Admission, CLIENT_SLOTS, HomeRoute, PageHost, SLOTS};
use super::memory::{HostFrames, PageMemory};
use super::outgoing::Outgoing;
use super::request::{HostKey, JoinRequest, RegionRequest};
use super::routes;
use super::sharers::check_layout;
use hanare_protocol::id::{ClientId, Gid, Incarnation, NodeId};
use hanare_protocol::limits::{FRAME_COUNT_MIN, PAGE_LEN};
use hanare_protocol::name::check_name;
use hanare_protocol::page::Consistency;
use hanare_protocol::page::membership::table::HomePhase;
use hanare_protocol::page::membership::{self, Life, Refused, Sharing};
use hanare_protocol::wire::control::{Answer, RegionView, SharedHome, SharedView};
use hanare_protocol::wire::page::{Join, Joined, NodeMessage};
use hanare_protocol::{Error, Result};

/// A program's mapping, as its node reaches it.
type Mapping<M> = <<M as PageMemory>::Frames as HostFrames>::Mapping;
/// Files for a program that maps a region.
type Files<M> = <<M as PageMemory>::Frames as HostFrames>::Files;

impl<M: PageMemory> Pages<M> {
    /// A client wants to share a region, or not any more. Answered by [`PageOutput::Reply`].
    pub(super) fn on_request(&mut self, client: ClientId, request: RegionRequest<Mapping<M>>) {
        match request {
            RegionRequest::Share { view, consistency, uid, follows } => match check_view(&view) {
                Ok(()) => {
                    let wanted = JoinRequest { client, uid, view: *view, consistency, follows };
                    let key = wanted.key();
                    self.share(wanted);
                    self.act(key);
                }
                Err(error) => self.reply(client, Err(error)),
            },
            RegionRequest::Hold { gid, mapping } => {
                let result = self.hold(client, gid, mapping);
                self.reply(client, result.map(|()| Answer::Ok));
            }
            RegionRequest::Unshare { gid } => self.unshare(client, gid, true),
            RegionRequest::Flush { gid } => self.begin_flush(client, gid),
        }
        self.settle();
    }

    /// A client has ended.
    pub(super) fn on_client_gone(&mut self, client: ClientId) {
        self.hosts.values_mut().for_each(|host| host.sharing.on_client_gone(client));
        let shared: Vec<Gid> = self.hosts.values().filter(|host| host.has(client)).map(PageHost::gid).collect();
        for gid in shared {
            self.unshare(client, gid, false);
        }
        self.settle();
    }

    /// Answers a client that maps nothing by the answer.
    pub(super) fn reply(&mut self, client: ClientId, result: Result<Answer>) {
        self.reply_with(client, result, Files::<M>::default());
    }

    fn reply_with(&mut self, client: ClientId, result: Result<Answer>, files: Files<M>) {
        self.outputs.push_back(PageOutput::Reply { client, result, files });
    }

    /// Begins to share a region, or puts the program into its queue. What the rules want then is for [`Pages::act`], which this does not
    /// call. Programs decide how long the queue is, and each would be a level of the stack.
    pub(super) fn share(&mut self, wanted: JoinRequest) {
        let (key, client) = (wanted.key(), wanted.client);
        let its_turn = match self.hosts.get_mut(&key) {
            Some(host) => host.sharing.share_with(wanted),
            None => Some(wanted),
        };
        let Some(wanted) = its_turn else { return };
        if let Err(error) = self.begin_share(wanted) {
            self.reply(client, Err(error));
        }
    }

    /// Has the homes asked for a client, each time: nobody else can say what its grants are good for. Before they have answered, the client
    /// hears nothing of how other programs map the region.
    fn begin_share(&mut self, wanted: JoinRequest) -> Result<()> {
        let (key, view, now_ms) = (wanted.key(), &wanted.view, self.now_ms());
        let is_other = |host: &PageHost<M::Frames>| host.consistency != wanted.consistency || *host.layout() != view.layout;
        if let Some(host) = self.hosts.get_mut(&key).filter(|host| host.is_unused() && is_other(host)) {
            // Somebody who was not let in said something else of it.
            host.sharing.leave_for(wanted, now_ms);
            return Ok(());
        }
        if self.me.is_none() {
            return Err(Error::NoCoordinator { reason: "this node has not joined its pool".to_owned() });
        }
        if !self.hosts.contains_key(&key) {
            let host = self.make_host(&wanted)?;
            for (at, route) in host.homes.iter().enumerate() {
                self.keys.insert(route.key, (key, at));
            }
            self.hosts.insert(key, host);
        }
        let Some(host) = self.hosts.get_mut(&key) else { unreachable!("just made") };
        if host.is_copied {
            Self::follow(host, view)?;
        }
        if let Some(at) = host.sharing.lost() {
            // Its directory begins anew, and knows nothing of the copies that are here.
            let reason =
                "programs of this host have mapped it since before that node was lost: let them unmap it first".to_owned();
            return Err(Error::NodeLost { node: host.homes[at].node, reason });
        }
        for (at, route) in host.homes.iter_mut().enumerate() {
            // A home that is back may be reached elsewhere.
            let known = view.nodes.iter().find(|known| known.node == route.node && host.sharing.share(at).is_none());
            if let Some(known) = known {
                route.address = known.address.clone();
                host.sharing.meet(at, known.epoch);
            }
        }
        host.sharing.ask(wanted);
        Ok(())
    }

    /// A program says where a region's bytes are today. **Errors**: [`Error::NodeLost`] while the next home has not got the pages here.
    fn follow(host: &mut PageHost<M::Frames>, view: &RegionView) -> Result<()> {
        let known = view.layout.extents().next().and_then(|extent| view.nodes.iter().find(|known| known.node == extent.node));
        let Some(known) = known else { return Ok(()) };
        if !host.layout().has_same_chunks(&view.layout) {
            let reason = "programs of this host map it with another length; let them unmap it first".to_owned();
            return Err(Error::BadUse { region: view.name.clone(), reason });
        }
        if host.sharing.home(0) == HomePhase::Stranger {
            host.follow(&view.layout, known.node, &known.address);
        } else if host.awaits_home() || host.homes[0].node != known.node {
            let reason = "its next home has not got the pages of this host yet; it is asked again".to_owned();
            return Err(Error::NodeLost { node: known.node, reason });
        }
        Ok(())
    }

    /// Does what the rules of a region on this host want.
    pub(super) fn act(&mut self, place: HostKey) {
        while let Some(action) = self.hosts.get_mut(&place).and_then(|host| host.sharing.poll()) {
            match action {
                membership::Action::Ask => self.join_all(place),
                membership::Action::Admit(wanted) => {
                    let client = wanted.client;
                    let (result, files) = match self.admit(wanted, place) {
                        Ok((view, files)) => (Ok(Answer::Shared(view)), files),
                        Err(error) => (Err(error), Files::<M>::default()),
                    };
                    self.reply_with(client, result, files);
                }
                membership::Action::Refuse(wanted, refused) => {
                    let error = self.why(place, refused);
                    self.reply(wanted.client, Err(error));
                }
                membership::Action::Again(wanted) => self.share(wanted),
                membership::Action::Tell { home, share } => self.tell(place, home, NodeMessage::Leave { share }),
                membership::Action::Farewell { home, share, has_all } => self.part_from(place, home, (share, has_all)),
                membership::Action::Rename(home) => self.begin_anew_with(place, home),
                membership::Action::Unmapped(client, failed) => self.reply(client, failed.map_or(Ok(Answer::Ok), Err)),
                membership::Action::End => self.end(place),
            }
        }
        let now_ms = self.now_ms();
        if let Some(host) = self.hosts.get_mut(&place).filter(|host| host.is_unused()) {
            host.sharing.on_unused(now_ms);
        }
    }

    fn tell(&mut self, place: HostKey, home: usize, message: NodeMessage) {
        let Some(route) = self.hosts.get(&place).and_then(|host| host.homes.get(home)) else { return };
        let (node, address) = (route.node, route.address.clone());
        self.send(Outgoing { node, address, message, bytes: None });
    }

    /// The error for a program that may not map a region.
    fn why(&self, place: HostKey, refused: Refused<Error>) -> Error {
        let node = |home: usize| self.hosts.get(&place).map_or(NodeId(0), |host| host.homes[home].node);
        match refused {
            Refused::ByHome(error) => error,
            Refused::Rights(home) => Error::GrantRefused { gid: place.gid, node: node(home) },
            Refused::Lost(home) => {
                let reason = "it was lost while a region of it was being mapped".to_owned();
                Error::NodeLost { node: node(home), reason }
            }
            Refused::CutOff => {
                let node = self.me.map_or(NodeId(0), |(me, _)| me);
                let reason = "this host's node was taken for lost while a region was being mapped; map it again".to_owned();
                Error::NodeLost { node, reason }
            }
        }
    }

    /// Asks all homes, with the grants of the client whose turn it is.
    fn join_all(&mut self, place: HostKey) {
        let (Some(host), Some((node, epoch))) = (self.hosts.get(&place), self.me) else { return };
        let Some(JoinRequest { view, follows, .. }) = host.sharing.wanted() else { return };
        let join = |key: u64| {
            let join = Join {
                gid: view.gid,
                name: view.name.clone(),
                layout: view.layout.clone(),
                grants: view.grants.clone(),
                consistency: host.consistency,
                node,
                epoch,
                readers: place.readers,
                address: self.terms.address.clone(),
                key,
            };
            if *follows { NodeMessage::JoinFollowing(join) } else { NodeMessage::Join(join) }
        };
        let to = |route: &HomeRoute<M::Pages>| Outgoing {
            node: route.node,
            address: route.address.clone(),
            message: join(route.key),
            bytes: None,
        };
        let outgoing: Vec<Outgoing> = host.homes.iter().map(to).collect();
        self.send_all(outgoing);
    }

    fn make_host(&mut self, JoinRequest { view, consistency, .. }: &JoinRequest) -> Result<PageHost<M::Frames>> {
        let (mut homes, mut lives): (Vec<HomeRoute<M::Pages>>, Vec<Life>) = (Vec::new(), Vec::new());
        for extent in view.layout.extents() {
            if homes.iter().any(|home| home.node == extent.node) {
                continue;
            }
            let lost = || Error::NodeLost { node: extent.node, reason: "its address is not known".to_owned() };
            let known = view.nodes.iter().find(|known| known.node == extent.node).ok_or_else(lost)?;
            homes.push(HomeRoute::new(extent.node, known.address.clone(), self.memory.draw()?));
            lives.push(Life { epoch: known.epoch, process: None });
        }
        let frames_max = match consistency {
            Consistency::Coherent => self.reserve_frames(view.layout.len().div_ceil(PAGE_LEN))?,
            // Its programs have copies of their own.
            Consistency::Explicit | Consistency::Entry => 0,
        };
        let sharing = Sharing::new(lives, self.answer_ms() / 2);
        let is_copied = *consistency == Consistency::Coherent && view.copies > 1;
        if is_copied && homes.len() > 1 {
            return Err(routes::several_extents(&view.name));
        }
        let terms = (frames_max, is_copied);
        Ok(PageHost::new((view.gid, view.name.clone()), *consistency, view.layout.clone(), (homes, sharing), terms))
    }

    /// Frames for a region of `pages` pages, from the rest that earlier mappings have left. The region gets as many as it has pages, or
    /// half of the rest. So the next one finds some, too.
    fn reserve_frames(&self, pages: u64) -> Result<u64> {
        let left = self.terms.frames_max.saturating_sub(self.hosts.values().map(PageHost::frames_max).sum());
        let least = FRAME_COUNT_MIN.min(self.terms.frames_max).min(pages);
        if left < least {
            let what = "frames of all mappings of this host together (HANARE_FRAMES of its node)".to_owned();
            return Err(Error::LimitReached { what, limit: self.terms.frames_max });
        }
        Ok(pages.min((left / 2).max(FRAME_COUNT_MIN.min(left))))
    }

    /// A home's answer.
    pub(super) fn on_joined(&mut self, key: u64, (from, process): (NodeId, Incarnation), result: Result<Joined>) {
        let Some((place, at)) = self.keys.get(&key).copied() else { return self.give_back(from, result) };
        let Some(host) = self.hosts.get_mut(&place) else { return };
        match result {
            Ok(Joined { host: me, share, rights, epoch }) => {
                let life = Life { epoch, process: Some(process) };
                if !host.sharing.on_accepted(at, life, (share, rights)) {
                    return self.give_back(from, result);
                }
                let is_own =
                    place.readers.is_none() && !host.is_copied && self.me.is_some_and(|(node, _)| node == host.homes[at].node);
                let own = self.homes.get(&place.gid).filter(|_| is_own);
                let own = own.filter(|home| home.consistency() == Consistency::Coherent).map(|home| home.memory().clone());
                host.set_home(at, me, own);
                host.flushes.waits_since_ms = None;
            }
            Err(error) => host.sharing.on_refused(at, error),
        }
        self.act(place);
    }

    /// A home has taken in a host that there is no more: it is told so.
    fn give_back(&mut self, from: NodeId, result: Result<Joined>) {
        if let (Ok(Joined { share, .. }), Some(address)) = (result, self.wires.address_of(from)) {
            self.send(Outgoing { node: from, address, message: NodeMessage::Forgot { share }, bytes: None });
        }
    }

    /// Refuses a client that would map a region in another way than other programs of this host. Its homes have accepted its grants.
    fn check_way(&self, wanted: &JoinRequest, place: HostKey) -> Result<()> {
        let bad_use = |reason: String| Err(Error::BadUse { region: wanted.view.name.clone(), reason });
        for (key, host) in self.hosts.iter().filter(|(key, host)| key.gid == place.gid && (**key == place || !host.is_unused())) {
            if host.consistency != wanted.consistency {
                return bad_use(format!(
                    "programs of this host map it {}; it is mapped in one way at a time: let them unmap it first",
                    host.consistency
                ));
            }
            if host.has(wanted.client) && !host.is_copied {
                return bad_use("this program has it mapped already".to_owned());
            }
            if *key == place && !host.consistency.allows_both(host.layout(), &wanted.view.layout) {
                return bad_use(
                    "programs of this host map it as it was before it was resized; let them unmap it first".to_owned(),
                );
            }
        }
        Ok(())
    }

    fn admit(&mut self, wanted: JoinRequest, place: HostKey) -> Result<(SharedView, Files<M>)> {
        self.check_way(&wanted, place)?;
        let Some(host) = self.hosts.get_mut(&place) else { unreachable!("the caller has just joined") };
        host.name = wanted.view.name;
        host.begin(&mut self.memory)?;
        let Admission { slot_first, frames_max, parts, files } = host.admit(wanted.client)?;
        let homes = host.homes.iter().enumerate().map(|(at, route)| SharedHome {
            node: route.node,
            address: route.address.clone(),
            share: host.sharing.share(at).unwrap_or_default(),
        });
        let view = SharedView {
            slot_first,
            slot_count: CLIENT_SLOTS,
            slots: SLOTS,
            homes: homes.collect(),
            files: parts,
            frames_max,
            address: self.terms.address.clone(),
        };
        Ok((view, files))
    }

    /// The client's entry for a region.
    pub(super) fn place_of(&self, client: ClientId, gid: Gid) -> Option<HostKey> {
        self.hosts.iter().find(|(key, host)| key.gid == gid && host.has(client)).map(|(key, _)| *key)
    }

    fn hold(&mut self, client: ClientId, gid: Gid, mapping: Mapping<M>) -> Result<()> {
        let none = || Error::BadUse { region: gid.to_string(), reason: "this program does not share it".to_owned() };
        let place = self.place_of(client, gid).ok_or_else(none)?;
        self.hosts.get_mut(&place).ok_or_else(none)?.hold(client, mapping)
    }
}

/// Refuses what a client says of a region where no coordinator said it.
fn check_view(view: &RegionView) -> Result<()> {
    check_layout(&view.layout, &view.grants)?;
    // The name is part of messages and of files' names.
    check_name(&view.name)
}
