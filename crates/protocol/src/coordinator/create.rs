//! Creating regions and making them longer: choosing nodes, ordering extents, and undoing it all when one of them fails.

use super::asks::{AskKey, Task};
use super::journal::GID_RESERVE;
use super::naming::{self, Event, Growth, Part};
use super::placement::{self, Plan, Room};
use super::records::{Record, RegionRecord};
use super::roster::Phase;
use super::{Coordinator, Step, copy_count, permission, quota};
use crate::attributes::Attributes;
use crate::copies::{HolderSet, Term};
use crate::error::{Error, Result};
use crate::id::{Asker, Gid, NodeId, Rights};
use crate::limits::{REGION_COUNT_MAX, REGION_LEN_MAX, SPAN_COUNT_MAX};
use crate::placement::{Layout, Placement};
use crate::size::Size;
use crate::table;
use crate::wire::control::{Existing, Memory, Order, ReportedExtent};
use crate::wire::copies::CopiedExtent;
use std::collections::BTreeSet;

/// Terms of a region to create.
#[derive(Clone, Copy)]
pub(super) struct CreateRequest<'a> {
    pub name: &'a str,
    pub len: u64,
    pub placement: Placement,
    pub copies: u8,
    pub mode: u32,
    pub attributes: &'a Attributes,
    pub existing: Existing,
}

impl Coordinator {
    /// Creates a region, or opens it where that is asked for.
    pub(super) fn create(&mut self, now_ms: u64, key: AskKey, task: &Task, request: CreateRequest<'_>) -> Step {
        if let Err(error) = check(&request) {
            return error.into();
        }
        if self.growths.values().any(|growth| !growth.grows && growth.name == request.name) {
            return Step::Park;
        }
        let mut instead = None;
        if let Some(region) = self.ledger.region_named(request.name) {
            let (gid, len) = (region.gid, region.layout.len());
            if request.existing == Existing::Refuse {
                return Error::NameTaken { name: request.name.to_owned(), len }.into();
            }
            let may_renew = request.existing == Existing::AttachOrRenew && permission::is_master(region, &task.user);
            match self.open_named(request.name, &task.user, None) {
                Step::Done(Err(Error::RegionLost { .. })) if may_renew => instead = Some(gid),
                Step::Done(Ok(_)) if len != request.len => {
                    let reason = format!("it exists with {:#}", Size(len));
                    return Error::BadLength { name: request.name.to_owned(), len: request.len, reason }.into();
                }
                step => return step,
            }
            if self.growths.contains_key(&gid) {
                return Step::Park;
            }
        }
        if matches!(request.placement, Placement::Interleave(_)) && self.roster.gathers() {
            return Step::Park;
        }
        match self.begin_create(now_ms, key, task, request, instead) {
            Ok(()) => Step::Ordered,
            Err(error) => self.refused_plan(error),
        }
    }

    /// The step of a request for which no nodes were found. After a change of coordinators nodes are still on their way here: the request
    /// waits for them.
    pub(super) fn refused_plan(&self, error: Error) -> Step {
        let is_of_nodes = matches!(error, Error::NodeLost { .. } | Error::PoolFull { .. } | Error::BadPlacement { .. });
        if is_of_nodes && self.roster.awaits() { Step::Park } else { error.into() }
    }

    fn begin_create(
        &mut self,
        now_ms: u64,
        key: AskKey,
        task: &Task,
        request: CreateRequest<'_>,
        instead: Option<Gid>,
    ) -> Result<()> {
        if self.ledger.regions.len().saturating_add(self.growths.len()) >= REGION_COUNT_MAX {
            return Err(Error::LimitReached { what: "regions of a pool".to_owned(), limit: REGION_COUNT_MAX as u64 });
        }
        let uid = task.user.user.uid;
        self.check_journal()?;
        quota::check_count(uid, self.owned_or_asked(uid))?;
        let asked =
            self.growths.values().filter(|growth| growth.owner.uid == uid).map(|growth| growth.attributes.len_bytes() as u64);
        let noted = asked.fold(self.noted(uid), u64::saturating_add);
        quota::check_noted(uid, noted, request.attributes.len_bytes() as u64)?;
        // The bytes of a region that is replaced are gone already.
        let gone = instead.and_then(|gid| self.ledger.regions.get(&gid)).filter(|region| region.owner.uid == uid);
        let all = |len: u64, copies: u8| len.saturating_mul(copies.max(1).into());
        let used = self.used_or_asked(uid).saturating_sub(gone.map_or(0, |region| all(region.layout.len(), region.copies)));
        quota::check(self.quota_of(uid), uid, used, all(request.len, request.copies))?;
        let plan = self.plan(request.placement, request.len, task.node)?;
        let copies = self.plan_copies(&plan, request.copies, request.copies > 1)?;
        check_len(request.name, request.len)?;
        let gid = self.take_gid();
        let growth = Growth {
            gid,
            name: request.name.to_owned(),
            by: key,
            owner: task.user.user,
            mode: request.mode,
            placement: request.placement,
            copies: request.copies,
            has_holders: request.copies > 1,
            attributes: request.attributes.clone(),
            instead,
            chunk: plan.chunk,
            parts: Vec::new(),
            grows: false,
            since_ms: now_ms,
        };
        self.begin(now_ms, growth, (plan, copies), Event::Create);
        Ok(())
    }

    /// Makes a region longer by a span placed like the region.
    pub(super) fn resize(&mut self, now_ms: u64, key: AskKey, task: &Task, name: &str, len: u64) -> Step {
        let gid = match self.settled_region(name) {
            Ok(Some(region)) if matches!(region.placement, Placement::Interleave(_)) && self.roster.gathers() => {
                return Step::Park;
            }
            Ok(Some(region)) => region.gid,
            Ok(None) => return Step::Park,
            Err(error) => return error.into(),
        };
        match self.begin_resize(now_ms, key, &task.user, gid, len) {
            Ok(true) => Step::Ordered,
            Ok(false) => self.open_named(name, &task.user, None),
            Err(error) => self.refused_plan(error),
        }
    }

    /// Begins to grow a region; `false` when it has that length already.
    fn begin_resize(&mut self, now_ms: u64, key: AskKey, user: &Asker, gid: Gid, len: u64) -> Result<bool> {
        let region = self.ledger.regions[&gid].clone();
        permission::rights(&region, user, Some(Rights::Write))?;
        if let Some(node) = region.lost.first() {
            return Err(Error::RegionLost { region: region.name, node: *node });
        }
        let now = region.layout.len();
        if len < now {
            let reason = format!("it has {:#}, and regions only grow", Size(now));
            return Err(Error::BadLength { name: region.name, len, reason });
        }
        if len == now {
            return Ok(false);
        }
        let more = len.saturating_sub(now);
        self.check_journal()?;
        if region.layout.spans.len() >= SPAN_COUNT_MAX {
            return Err(Error::LimitReached {
                what: format!("resizes of region '{}'", region.name),
                limit: SPAN_COUNT_MAX as u64,
            });
        }
        let all = more.saturating_mul(region.copies.max(1).into());
        quota::check(self.quota_of(region.owner.uid), region.owner.uid, self.used_or_asked(region.owner.uid), all)?;
        let first = region.layout.extents().next().expect("a region has extents").node;
        let plan = self.plan(region.placement, more, first)?;
        let has_holders = !region.holders.is_empty();
        let copied = self.plan_copies(&plan, region.copies, has_holders)?;
        check_len(&region.name, len)?;
        let RegionRecord { name, owner, mode, placement, copies, attributes, .. } = region;
        let growth = Growth {
            gid,
            name,
            by: key,
            owner,
            mode,
            placement,
            copies,
            has_holders,
            attributes,
            instead: None,
            chunk: plan.chunk,
            parts: Vec::new(),
            grows: true,
            since_ms: now_ms,
        };
        self.begin(now_ms, growth, (plan, copied), Event::Grow);
        Ok(true)
    }

    /// Orders the extents of a plan, each with its copies on those nodes.
    fn begin(&mut self, now_ms: u64, mut growth: Growth, (plan, copies): (Plan, Vec<Vec<NodeId>>), event: Event) {
        let gid = growth.gid;
        let from = naming::phase(&self.ledger, None, gid);
        let first = self.ledger.regions.get(&gid).map_or(0, |region| region.layout.extents().count());
        let set = |at: usize, home: NodeId| {
            let copies: &Vec<NodeId> = copies.get(at)?;
            let extent = CopiedExtent { gid, index: first.saturating_add(at) as u32 };
            Some((extent, HolderSet { term: Term::FIRST, home, copies: copies.iter().copied().collect() }))
        };
        let homes = plan.parts.iter().enumerate().map(|(at, (home, len))| (*home, *len, None, set(at, *home)));
        let copy = |at: usize| {
            let (home, len) = plan.parts[at];
            copies[at].iter().map(move |node| (*node, len, Some(at), (at, home)))
        };
        let copied = (0..copies.len()).flat_map(copy).map(|(node, len, of, (at, home))| (node, len, of, set(at, home)));
        let parts: Vec<_> = homes.chain(copied).collect();
        for (node, len, copy_of, copied) in parts {
            let order = self.order(now_ms, node, Order::Make { gid, lens: vec![len], copied });
            growth.parts.push(Part { node, len, order, made: None, copy_of });
        }
        self.growths.insert(gid, growth);
        self.assert_step(from, event, gid);
    }

    /// Chooses nodes for `len` bytes; `local` is the node that "local" means.
    fn plan(&self, placement: Placement, len: u64, local: NodeId) -> Result<Plan> {
        let is_drained = |node: &NodeId| self.ledger.draining.contains_key(node);
        let drained = |node: NodeId| {
            let reason = format!("{node} is being drained; name another, or end that by `hanare node drain {} --stop`", node.0);
            Error::BadPlacement { placement: placement.to_string(), reason }
        };
        let on_node = |node: NodeId| match self.roster.phase(node) {
            Phase::Member if is_drained(&node) => Err(drained(node)),
            Phase::Member => placement::on_node(self.room(node), len),
            Phase::Absent => Err(placement::unknown(placement, node)),
            _ => Err(Error::NodeLost { node, reason: "it is not a member at present".to_owned() }),
        };
        match placement {
            Placement::Local if is_drained(&local) || self.lends_too_little(local, len) => {
                on_node(self.roomiest().unwrap_or(local))
            }
            Placement::Local => on_node(local),
            Placement::Node(node) => on_node(node),
            Placement::Interleave(chunk) => {
                let rooms: Vec<Room> = self.roster.members().map(|(node, _)| self.room(node)).collect();
                placement::interleave(&rooms, chunk, len, self.gid_next)
            }
            Placement::Nodes(list, chunk) => {
                let member = |node: &NodeId| match self.roster.phase(*node) {
                    Phase::Member if is_drained(node) => Err(drained(*node)),
                    Phase::Member => Ok(self.room(*node)),
                    Phase::Absent => Err(placement::unknown(placement, *node)),
                    _ => Err(Error::NodeLost { node: *node, reason: "it is not a member at present".to_owned() }),
                };
                placement::over(&list.nodes().iter().map(member).collect::<Result<Vec<_>>>()?, chunk, len)
            }
        }
    }

    /// True of a node that has its part in the pool without memory. The same holds where its host runs short, and that many bytes find no room.
    fn lends_too_little(&self, node: NodeId, len: u64) -> bool {
        let is_short = |memory: &Memory| memory.withheld() > 0 && self.room(node).free < len;
        self.roster.seat(node).is_some_and(|seat| !seat.memory.is_lender() || is_short(&seat.memory))
    }

    /// The node with most room.
    fn roomiest(&self) -> Option<NodeId> {
        let rooms = self.roster.members().map(|(node, _)| self.room(node));
        rooms.max_by_key(|room| (room.free, std::cmp::Reverse(room.node))).map(|room| room.node)
    }

    /// Bytes of a member that are in no extent, spilled by no queue, and promised to none. A node that is drained has none.
    pub(super) fn room(&self, node: NodeId) -> Room {
        if self.ledger.draining.contains_key(&node) {
            return Room { node, free: 0, withheld: 0 };
        }
        let memory = self.roster.seat(node).map_or(Memory::default(), |seat| seat.memory);
        let (lent, withheld) = (memory.lent.saturating_sub(memory.spilled), memory.withheld());
        let allotted = self.ledger.allotted.get(&node).copied().unwrap_or(0);
        let parts = self.growths.values().flat_map(|growth| &growth.parts);
        let promised = parts.filter(|part| part.node == node).map(|part| part.len).fold(0, u64::saturating_add);
        let remade = self.copied.promised_to(node);
        Room { node, free: lent.saturating_sub(allotted).saturating_sub(promised).saturating_sub(remade), withheld }
    }

    /// Bytes that a user has, and is about to have.
    pub(super) fn used_or_asked(&self, uid: u32) -> u64 {
        let growing = self.growths.values().filter(|growth| growth.owner.uid == uid);
        growing.map(Growth::len).fold(self.used(uid).saturating_add(self.reserved(uid)), u64::saturating_add)
    }

    /// Regions that a user has, and is about to have.
    pub(super) fn owned_or_asked(&self, uid: u32) -> u64 {
        let growing = self.growths.values().filter(|growth| !growth.grows && growth.owner.uid == uid).count();
        self.ledger.owned.get(&uid).copied().unwrap_or(0).saturating_add(growing as u64)
    }

    /// Refuses what makes the journal longer while its disk is full.
    pub(super) fn check_journal(&self) -> Result<()> {
        match self.journal_is_full {
            false => Ok(()),
            true => Err(Error::LimitReached {
                what: "bytes of the disk that holds the coordinator's journal; make room there, or remove regions".to_owned(),
                limit: 0,
            }),
        }
    }

    /// A GID that was never used.
    fn take_gid(&mut self) -> Gid {
        if self.gid_next >= self.ledger.gids_below {
            self.record(Record::GidsReserved { below: self.gid_next.saturating_add(GID_RESERVE) });
        }
        let gid = Gid(self.gid_next);
        self.gid_next = self.gid_next.saturating_add(1);
        gid
    }

    /// A node carried an order out, or could not.
    pub(super) fn on_obeyed(&mut self, now_ms: u64, node: NodeId, order: u64, result: Result<Vec<ReportedExtent>>) {
        let Some(pending) = self.orders.obeyed(node, order) else { return };
        let (gid, lens) = match pending.what {
            Order::Make { gid, lens, .. } => (gid, lens),
            Order::MakeReady { .. } => return self.on_made_ready(now_ms, order, &pending, result),
            Order::Free { .. } => return self.on_freed(node, order),
        };
        let result = result.and_then(|made| self.check_made(node, gid, &lens, &made).map(|()| made));
        if self.copied.is_remade_by(order) {
            return self.on_copy_extent(now_ms, node, order, result);
        }
        let part = self.growths.get_mut(&gid).and_then(|growth| growth.parts.iter_mut().find(|part| part.order == order));
        match (part, result) {
            (Some(part), Ok(made)) => {
                part.made = made.first().copied();
                self.complete(now_ms, gid);
            }
            (Some(_), Err(error)) => self.undo(now_ms, gid, error),
            // The region was given up while this part was being made.
            (None, Ok(made)) => {
                self.free(now_ms, node, made.iter().map(|extent| extent.slot).collect());
            }
            (None, Err(_)) => {}
        }
    }

    /// A node must make what it was ordered, in slots that no region has.
    fn check_made(&self, node: NodeId, gid: Gid, lens: &[u64], made: &[ReportedExtent]) -> Result<()> {
        let fits = made.len() == lens.len() && made.iter().zip(lens).all(|(made, len)| made.gid == gid && made.len == *len);
        let is_free = |extent: &ReportedExtent| !self.ledger.extents.contains_key(&(node, extent.slot));
        match fits && made.iter().all(is_free) {
            true => Ok(()),
            false => {
                Err(Error::Garbage { peer: node.to_string(), reason: format!("it made other extents for {gid} than ordered") })
            }
        }
    }

    /// Gives the region its name, or its new length, once all parts are made.
    fn complete(&mut self, now_ms: u64, gid: Gid) {
        let Some((span, holders)) = self.growths[&gid].span() else { return };
        if let Some(error) = self.growths[&gid].instead.and_then(|lost| self.has_come_back(lost)) {
            return self.undo(now_ms, gid, error);
        }
        let from = naming::phase(&self.ledger, self.growths.get(&gid), gid);
        let growth = self.growths.remove(&gid).expect("just seen");
        for part in &growth.parts {
            if let (Some(seat), Some(made)) = (self.roster.seat_mut(part.node), &part.made) {
                seat.add_grants(made);
            }
        }
        let by = growth.by;
        if growth.grows {
            self.record(Record::Resized { gid, span, holders, by });
            self.assert_step(from, Event::Grown, gid);
        } else {
            let Growth { name, placement, copies, owner, mode, attributes, instead, .. } = growth;
            let (layout, lost) = (Layout { spans: vec![span] }, BTreeSet::new());
            let region = RegionRecord { gid, name, placement, owner, mode, layout, copies, holders, lost, attributes };
            let replaced = instead.and_then(|lost| self.ledger.regions.get(&lost)).cloned();
            let was = replaced.as_ref().map(|lost| naming::phase(&self.ledger, None, lost.gid));
            self.record(Record::Created { region, by: Some(by), instead });
            self.assert_step(from, Event::Made, gid);
            if let (Some(lost), Some(was)) = (&replaced, was) {
                self.assert_step(was, Event::Remove, lost.gid);
                self.forget_holders(now_ms, lost.gid);
                self.free_extents(now_ms, lost);
            }
        }
        self.take_up_holders(now_ms, gid);
        self.changed = true;
        // The asker is answered like one that repeats: from the effect.
        self.asks.park(by);
    }

    /// The refusal to replace a region whose bytes were lost, if its node has brought them back meanwhile.
    fn has_come_back(&self, gid: Gid) -> Option<Error> {
        let region = self.ledger.regions.get(&gid)?;
        let is_lost = matches!(self.open_region(region, &region.owner.into(), None), Step::Done(Err(Error::RegionLost { .. })));
        (!is_lost).then(|| Error::NameTaken { name: region.name.clone(), len: region.layout.len() })
    }

    /// Gives up what is being made for a region: what is made is freed, what is still being made will be.
    fn undo(&mut self, now_ms: u64, gid: Gid, error: Error) {
        let from = naming::phase(&self.ledger, self.growths.get(&gid), gid);
        let Some(growth) = self.growths.remove(&gid) else { return };
        for part in &growth.parts {
            if let Some(made) = part.made {
                self.free(now_ms, part.node, vec![made.slot]);
            }
        }
        self.assert_step(from, if growth.grows { Event::GrowFails } else { Event::CreateFails }, gid);
        self.answer(growth.by, Err(error));
        self.changed = true;
    }

    /// Gives up all that needs a node whose epoch ended.
    pub(super) fn undo_makes_on(&mut self, now_ms: u64, node: NodeId, reason: &str) {
        let needs = |growth: &&Growth| growth.parts.iter().any(|part| part.node == node);
        let gids: Vec<Gid> = self.growths.values().filter(needs).map(|growth| growth.gid).collect();
        for gid in gids {
            self.undo(now_ms, gid, Error::NodeLost { node, reason: reason.to_owned() });
        }
    }

    /// Gives up what a live node does not get done.
    pub(super) fn give_up_slow_makes(&mut self, now_ms: u64) {
        let after_ms = self.settings.make_ms;
        let slow = self.growths.values().filter(|growth| growth.since_ms.saturating_add(after_ms) <= now_ms);
        let slow: Vec<(Gid, Error)> = slow
            .map(|growth| {
                let part = growth.parts.iter().find(|part| part.made.is_none()).expect("a complete growth is none");
                let what = format!("make {} for region '{}'", Size(part.len), growth.name);
                (growth.gid, Error::Timeout { peer: part.node.to_string(), what, after_ms })
            })
            .collect();
        for (gid, error) in slow {
            self.undo(now_ms, gid, error);
        }
    }

    /// Orders a node to free extents, by the order that is returned. One that is away frees them when it joins again.
    pub(super) fn free(&mut self, now_ms: u64, node: NodeId, slots: Vec<crate::id::Slot>) -> Option<u64> {
        let is_member = self.roster.phase(node) == Phase::Member && !slots.is_empty();
        is_member.then(|| self.order(now_ms, node, Order::Free { slots }))
    }

    /// Checks a transition that was made against the table of `naming`.
    pub(super) fn assert_step(&self, from: naming::Phase, event: Event, gid: Gid) {
        let to = naming::phase(&self.ledger, self.growths.get(&gid), gid);
        assert_eq!(table::next(naming::TABLE, from, event), Some(to), "{event:?} in {from:?}");
    }
}

fn check_len(name: &str, len: u64) -> Result<()> {
    if len <= REGION_LEN_MAX {
        return Ok(());
    }
    Err(Error::LimitReached { what: format!("bytes of region '{name}'"), limit: REGION_LEN_MAX })
}

/// Refuses what can be refused without looking at the pool.
fn check(request: &CreateRequest<'_>) -> Result<()> {
    crate::tenant::check_full(request.name)?;
    request.attributes.check()?;
    request.placement.check()?;
    copy_count::check(request.copies)?;
    if request.len == 0 {
        let reason = "a region has at least one byte".to_owned();
        return Err(Error::BadLength { name: request.name.to_owned(), len: 0, reason });
    }
    permission::check_mode(request.mode)
}
