//! Programs that map regions and unmap them, and the touches of their threads.

use super::installs::{Claim, ThreadWork};
use super::node::{Mapped, address_of};
use super::*;
use hanare_home::{PageInput, RegionRequest, VectorFrames};
use hanare_protocol::id::{ClientId, Epoch, Grant, NodeId, Rights, Slot, User};
use hanare_protocol::limits::PAGE_LEN;
use hanare_protocol::page::word::{Fault, PageWord, State};
use hanare_protocol::page::{Access, Consistency, HostMemory};
use hanare_protocol::placement::{Extent, Layout, Span};
use hanare_protocol::wire::control::{Answer as ControlAnswer, Made, NodeAddress, RegionView};
use hanare_protocol::{Error, Result as Outcome};

/// Programs of one host that map a region, or wait to, at most.
const PROGRAM_COUNT: usize = 2;
/// Threads of a program.
const THREAD_COUNT: usize = 2;
/// The user of all programs.
const UID: u32 = 1000;

/// The layout of the region at a node.
pub(super) fn layout_at(node: usize) -> Layout {
    let len = PAGE_COUNT * PAGE_LEN;
    let extents = vec![Extent { node: NodeId(node as u32), slot: Slot(0), len }];
    Layout { spans: vec![Span { len, chunk: PAGE_LEN, extents }] }
}

impl PageWorld {
    pub(super) fn inside(&mut self, life: Life, client: u64) -> Option<&mut Inside> {
        match &mut self.processes.get_mut(&life)?.programs.get_mut(&client)?.phase {
            Phase::Inside(inside) => Some(inside),
            Phase::Asks | Phase::Leaves => None,
        }
    }

    /// Programs of a node do something.
    pub(super) fn on_program(&mut self, life: Life) -> Check {
        let is_over = !self.is_rough && self.now_ms > self.plan.rough_ms() + LAST_TOUCHES_MS;
        if is_over || !self.processes.contains_key(&life) {
            return Ok(());
        }
        let storm = self.storm.filter(|(gid, until_ms)| self.now_ms < *until_ms && self.home_of(*gid).is_some());
        let after = if storm.is_some() { 1 } else { self.dice.pick(&[1, 5, 20, 100]) };
        self.at(after, Event::Program { life });
        let going = self.nodes.iter().flatten().map(|at| Gid(*at));
        let gids: BTreeSet<Gid> = going.chain(self.processes[&life].mapped.keys().copied()).collect();
        let gid = storm.map_or_else(|| self.dice.pick(&gids.into_iter().collect::<Vec<_>>()), |(gid, _)| gid);
        if self.apart.is_some_and(|(of, until_ms)| of == life && self.now_ms < until_ms) {
            return Ok(());
        }
        let programs = &self.processes[&life].programs;
        let its: Vec<u64> = programs.iter().filter(|(_, program)| program.gid == gid).map(|(client, _)| *client).collect();
        let is_inside = |client: &&u64| matches!(programs[client].phase, Phase::Inside(_));
        let inside: Vec<u64> = its.iter().filter(is_inside).copied().collect();
        if self.is_rough && its.len() < PROGRAM_COUNT && (inside.is_empty() || self.dice.chance(100)) {
            return self.map(life, gid);
        }
        if inside.is_empty() {
            return Ok(());
        }
        let client = self.dice.pick(&inside);
        // Programs give up a region whose home is dead, or goes on without their host.
        let is_over = self.inside(life, client).is_some_and(|inside| inside.is_over);
        let is_of_use = self.home_of(gid).is_some() && !is_over;
        let leaves = if is_of_use { 100 } else { 1_000 };
        if self.is_rough && self.dice.chance(leaves) {
            return self.unmap(life, client);
        }
        if self.is_rough && self.dice.chance(50) {
            return self.kill(life, client);
        }
        if self.is_rough && self.dice.chance(500) {
            self.count("evictions");
            return self.tell(life, PageInput::Crowded(gid));
        }
        let thread = self.dice.below(THREAD_COUNT as u64) as usize;
        if self.is_rough && self.dice.chance(100) {
            self.break_link(life, client, thread);
        }
        let page = self.pick_page(gid);
        let access = if self.dice.chance(if storm.is_some() { 8_000 } else { 4_000 }) { Access::Write } else { Access::Read };
        self.touch((life, client, thread), page, access, false)?;
        self.judge(gid, page)
    }

    /// A program wants to map a region whose home is a member.
    fn map(&mut self, life: Life, gid: Gid) -> Check {
        let home = self.home_of(gid).filter(|home| !self.still.contains_key(home));
        let Some(home) = home.and_then(|home| self.processes.get(&home)) else { return Ok(()) };
        let (node, address) = (NodeId(home.node as u32), address_of(home.node));
        let view = RegionView {
            copies: 1,
            name: "region".to_owned(),
            gid,
            owner: User { uid: UID, gid: UID },
            mode: 0o600,
            rights: Rights::Write,
            layout: layout_at(home.node),
            grants: vec![Grant::default()],
            nodes: vec![NodeAddress { node, epoch: Epoch(home.epoch), address }],
            attributes: Default::default(),
            made: Made::Found,
        };
        let mut programs = self.processes.values().flat_map(|process| process.programs.values());
        if programs.all(|program| program.gid != gid) && self.dice.chance(3_000) {
            self.use_past_pages(gid.0);
        }
        let client = self.draw();
        let process = self.processes.get_mut(&life).expect("the caller saw it");
        process.programs.insert(client, MappingProgram { gid, phase: Phase::Asks });
        let request = RegionRequest::Share { view: Box::new(view), consistency: Consistency::Coherent, uid: UID, follows: false };
        self.tell(life, PageInput::Request { client: ClientId(client), request })
    }

    /// A program unmaps its region, once its threads wait for nothing.
    pub(super) fn unmap(&mut self, life: Life, client: u64) -> Check {
        let Some(inside) = self.inside(life, client) else { return Ok(()) };
        if inside.threads.iter().any(|thread| !matches!(thread.doing, ThreadWork::Nothing)) {
            return self.kill(life, client);
        }
        self.count("programs that unmapped");
        let gid = self.part(life, client);
        let process = self.processes.get_mut(&life).expect("the caller saw it");
        process.programs.insert(client, MappingProgram { gid, phase: Phase::Leaves });
        self.tell(life, PageInput::Request { client: ClientId(client), request: RegionRequest::Unshare { gid } })
    }

    /// A program ends in the middle of what it does.
    fn kill(&mut self, life: Life, client: u64) -> Check {
        self.count("programs killed");
        self.part(life, client);
        if self.has(Defect::KeepPrograms) {
            return Ok(());
        }
        self.tell(life, PageInput::ClientGone(ClientId(client)))
    }

    /// A program's mapping and links end. Returns its region.
    fn part(&mut self, life: Life, client: u64) -> Gid {
        let now_ms = self.now_ms;
        let process = self.processes.get_mut(&life).expect("the caller saw it");
        let MappingProgram { gid, phase } = process.programs.remove(&client).expect("the caller saw it");
        self.note(format!("program {client} of {life} leaves {}", gid.0));
        let Phase::Inside(inside) = phase else { return gid };
        for number in inside.threads.iter().filter_map(|thread| thread.link) {
            let after = self.links.get_mut(&number).map(|link| link.link.end_at_client(now_ms));
            after.into_iter().for_each(|after| self.at(after, Event::LinkEnded { link: number, at_home: true }));
        }
        let process = self.processes.get_mut(&life).expect("just seen");
        let is_inside = |program: &MappingProgram| program.gid == gid && matches!(program.phase, Phase::Inside(_));
        if !process.programs.values().any(is_inside) {
            process.mapped.remove(&gid);
        }
        gid
    }

    /// A node answers a program.
    pub(super) fn on_reply(
        &mut self,
        life: Life,
        client: u64,
        result: Outcome<ControlAnswer>,
        files: Option<VectorFrames>,
    ) -> Check {
        let Some(process) = self.processes.get_mut(&life) else { return Ok(()) };
        let Some(MappingProgram { gid, phase }) = process.programs.get_mut(&client) else { return Ok(()) };
        let gid = *gid;
        match (&phase, result) {
            (Phase::Asks, Ok(ControlAnswer::Shared(view))) => {
                let (frames, share) = (files.ok_or("a program is let in without frames")?, view.homes[0].share);
                let threads = (0..THREAD_COUNT).map(|_| PageThread::default()).collect();
                process.mapped.insert(gid, Mapped::new(frames.clone(), share));
                *phase = Phase::Inside(Inside { slot_first: view.slot_first, share, frames, threads, is_over: false });
                self.count("programs that mapped");
                self.tell(
                    life,
                    PageInput::Request { client: ClientId(client), request: RegionRequest::Hold { gid, mapping: () } },
                )
            }
            (Phase::Asks, Err(error)) => {
                process.programs.remove(&client);
                let is_cut_off = matches!(&error, Error::NodeLost { node, .. } if node.0 as usize == process.node);
                self.count(if is_cut_off { "programs cut off with their host" } else { "programs refused" });
                Ok(())
            }
            (Phase::Leaves, result) => {
                process.programs.remove(&client);
                self.count(match result {
                    Ok(_) => "programs told that stores are kept",
                    Err(_) => "programs told that stores are lost",
                });
                Ok(())
            }
            (Phase::Inside(_), Ok(ControlAnswer::Ok)) => Ok(()),
            (_, result) => Err(format!("life {life} answers {client}: {result:?}")),
        }
    }

    /// A thread touches a page, unless it waits for something.
    pub(super) fn touch(&mut self, (life, client, thread): (Life, u64, usize), page: Page, access: Access, firm: bool) -> Check {
        let Some(inside) = self.inside(life, client) else { return Ok(()) };
        if !matches!(inside.threads[thread].doing, ThreadWork::Nothing) {
            return Ok(());
        }
        let slot = inside.slot(thread);
        let fault = inside.frames.fault(page, slot, access).map_err(|corrupt| corrupt.0.to_owned())?;
        let number = inside.frames.number(slot);
        let gid = self.processes[&life].programs[&client].gid;
        let (access, has) = match fault {
            Fault::Wait(_) => return Ok(()),
            Fault::Map(_) => {
                self.leave((life, client), page, slot)?;
                self.count("hits");
                return self.use_page(life, gid, page, access);
            }
            Fault::Fetch { access, .. } => (access, None),
            Fault::Upgrade { has } => (Access::Write, Some(has)),
        };
        let mut claims = vec![Claim { page, slot, number, access, has, firm }];
        let beside = if self.dice.chance(3_000) { self.dice.below(LANE_LEN) } else { 0 };
        for k in 1..=beside.min(PAGE_COUNT - 1 - page.0) {
            match self.claim_beside((life, client), Page(page.0 + k), slot + k as u16, access)? {
                Some(claim) => claims.push(claim),
                None => break,
            }
        }
        // Its home may hear that the membership is void after it granted the page.
        let (era, is_void) = ((life, self.processes[&life].epoch), self.is_fenced(life, gid));
        for claim in claims.iter().filter(|claim| claim.access == Access::Write) {
            if let Some(truth) = self.truths.get_mut(&(gid, claim.page)) {
                truth.writers.insert(era);
                truth.is_forgotten |= is_void;
            }
        }
        self.ask((life, client, thread), claims)
    }

    /// Claims a page beside the one that was touched. The page must not be here in that way, and no thread may be at it.
    fn claim_beside(
        &mut self,
        (life, client): (Life, u64),
        page: Page,
        slot: u16,
        access: Access,
    ) -> Result<Option<Claim>, String> {
        let Some(inside) = self.inside(life, client) else { return Ok(None) };
        let is_wanted = match inside.frames.look(page).state() {
            Ok(State::Absent) => true,
            Ok(State::Shared) => access == Access::Write,
            _ => false,
        };
        if !is_wanted {
            return Ok(None);
        }
        let fault = inside.frames.fault(page, slot, access).map_err(|corrupt| corrupt.0.to_owned())?;
        let number = inside.frames.number(slot);
        Ok(match fault {
            Fault::Fetch { access, .. } => Some(Claim { page, slot, number, access, has: None, firm: false }),
            Fault::Upgrade { has } => Some(Claim { page, slot, number, access, has: Some(has), firm: false }),
            Fault::Map(_) => {
                self.leave((life, client), page, slot)?;
                None
            }
            Fault::Wait(_) => None,
        })
    }

    /// A thread that was let in has mapped the page.
    pub(super) fn leave(&mut self, (life, client): (Life, u64), page: Page, slot: u16) -> Check {
        let Some(inside) = self.inside(life, client) else { return Ok(()) };
        inside.frames.change(page, PageWord::leave).map_err(|corrupt| corrupt.0.to_owned())?;
        inside.frames.clear_slot(slot);
        Ok(())
    }

    /// A thread uses what is here: it sees what was stored last, and stores.
    pub(super) fn use_page(&mut self, life: Life, gid: Gid, page: Page, access: Access) -> Check {
        let Some(mapped) = self.processes.get(&life).and_then(|process| process.mapped.get(&gid)) else { return Ok(()) };
        let (read, last) = (mapped.value(page), self.truths.get(&(gid, page)).map(|truth| truth.last));
        // A host that does not know yet that others do without it may have older bytes.
        let Some(last) = last.filter(|_| !self.is_told_later(life, gid)) else { return Ok(()) };
        check(read == Some(last), || {
            format!("life {life} has {read:?} of page {} of {}, and {last} was stored last", page.0, gid.0)
        })?;
        if access == Access::Read {
            return Ok(());
        }
        if self.home_of(gid).is_some_and(|home| self.still.contains_key(&home)) {
            self.count("stores while the home is away");
        }
        let value = self.next_value();
        self.count("stores");
        self.processes[&life].mapped[&gid].frames.store(page, page_of(value));
        self.truths.get_mut(&(gid, page)).expect("just seen").last = value;
        Ok(())
    }

    /// A value that nobody stored before.
    pub(super) fn next_value(&mut self) -> u64 {
        self.next_value += 1;
        self.next_value
    }
}
