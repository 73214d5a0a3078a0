//! The extents that a node holds, found by slot and opened by grant.
//!
//! A caller that finds an extent keeps it alive. Removing one from the table frees its memory when the last command on it has ended.

mod backing;
mod ready;
mod sharing;
mod usage;
mod written;

pub(crate) use ready::{Readiness, ReadyExtents};
pub(crate) use usage::UsageRounds;
pub(crate) use written::Described;

use super::closer::Closer;
use super::counts::AllCounts;
use super::direct_access::Programs;
use super::extent::{NodeExtent, Writing};
use super::member_list::MemberList;
use super::spill::Spills;
use hanare_memory::{Lender, Window};
use hanare_protocol::id::{ClientId, Gid, Grant, NodeId, Rights, Slot};
use hanare_protocol::page::direct_access::Standing;
use hanare_protocol::shape::{Checked, Shape};
use hanare_protocol::wire::command::Command;
use hanare_protocol::wire::control::{FilePart, ReportedExtent};
use hanare_protocol::{Error, Result};
use hanare_ring::lease::clients::LeasesOfClients;
use hanare_ring::thread_slots::{ThreadSlots, monotonic_ns};
use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use written::InFiles;

/// The table.
pub(crate) struct Extents {
    /// Units that queues in them spill, and the memory of both.
    pub spills: Arc<Spills>,
    pub counts: AllCounts,
    /// State shared with clients of this host.
    thread_slots: Mutex<LeasesOfClients<ThreadSlots>>,
    /// The attached programs.
    pub members: MemberList,
    /// Takes what they leave.
    pub closer: Closer,
    entries: RwLock<Entries>,
}

struct Entries {
    node: NodeId,
    slots: Vec<Option<Entry>>,
    /// The empty ones.
    free: Vec<usize>,
    in_files: Mutex<InFiles>,
    /// Extents of removed regions that clients may still have mapped, with these clients. Their memory is lent as long as that.
    lingering: Vec<(Arc<NodeExtent>, BTreeSet<ClientId>)>,
    /// Until when the node is a member, by its own clock.
    lease_until_ns: AtomicU64,
    /// Until when it answers for extents with copies.
    homes_until_ns: AtomicU64,
}

impl Entries {
    /// The extent of that slot, if the grant allows what is needed.
    fn hold(&self, slot: Slot, grant: Grant, need: Rights) -> Result<Arc<NodeExtent>> {
        match self.slots.get(slot.0 as usize).and_then(Option::as_ref) {
            Some(entry) if entry.allows(grant).is_some_and(|rights| rights >= need) && self.answers(entry) => {
                Ok(entry.held.clone())
            }
            Some(entry) => Err(Error::GrantRefused { gid: entry.held.gid(), node: self.node }),
            None => Err(Error::GrantRefused { gid: Gid(0), node: self.node }),
        }
    }

    /// True if commands on an extent are admitted.
    fn answers(&self, entry: &Entry) -> bool {
        !entry.is_closed && self.is_home(entry)
    }

    /// True if this node answers for an extent. Another node may be home of one with copies when the lease is over.
    fn is_home(&self, Entry { held, .. }: &Entry) -> bool {
        let is_home = || held.is_open() && monotonic_ns() < self.homes_until_ns.load(Ordering::Relaxed);
        !held.has_copies() || is_home()
    }

    /// The same for who reaches its bytes by commands. Writes of an extent with copies wait for those, as for pages.
    fn open(&self, slot: Slot, grant: Grant, need: Rights) -> Result<Opened> {
        let held = self.hold(slot, grant, need)?;
        let entry = self.slots.get(slot.0 as usize).and_then(Option::as_ref);
        let is_by_pages = entry.is_some_and(Entry::is_by_pages) || (need == Rights::Write && held.has_copies());
        Ok(Opened { held, slot, is_by_pages })
    }

    /// A region's extent in that slot. The slot may be another region's by now.
    fn of(&self, gid: Gid, slot: Slot) -> Option<&Entry> {
        self.slots.get(slot.0 as usize)?.as_ref().filter(|entry| entry.held.gid() == gid)
    }

    fn of_mut(&mut self, gid: Gid, slot: Slot) -> Option<&mut Entry> {
        self.slots.get_mut(slot.0 as usize)?.as_mut().filter(|entry| entry.held.gid() == gid)
    }

    /// Enters an extent and says where.
    fn enter(&mut self, entry: Entry) -> ReportedExtent {
        let in_files = self.in_files.get_mut().unwrap_or_else(PoisonError::into_inner);
        let is_fresh = |slot: &usize| !in_files.has(Slot(*slot as u32), entry.held.gid());
        let slot = self.free.iter().rposition(is_fresh).map(|at| self.free.remove(at)).unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        let report = entry.report(slot);
        self.slots[slot] = Some(entry);
        report
    }

    /// Takes an extent out, if there is one.
    fn take(&mut self, slot: Slot) -> Option<Entry> {
        let slot = slot.0 as usize;
        let entry = self.slots.get_mut(slot)?.take()?;
        self.free.push(slot);
        Some(entry)
    }
}

struct Entry {
    held: Arc<NodeExtent>,
    read: Grant,
    write: Grant,
    /// Clients of this host that have it mapped as it is.
    direct: Programs,
    /// Number of live homes. Above 0, only the page protocol may touch the bytes. A home that all hosts have left may last beside the
    /// next until its last replies have left.
    shares: usize,
    /// Mappings of hosts whose programs get and put pages by commands, and do not follow them to another node.
    mappings: usize,
    /// A host is about to share it, and waits for commands under way. Later commands are done by pages, and no client gets direct access.
    is_wanted: bool,
    /// The extent is made ready for copies, and waits for commands under way. Later ones are refused, and so is direct access.
    is_closed: bool,
}

/// An extent as a command reaches it.
#[derive(Clone)]
pub(crate) struct Opened {
    held: Arc<NodeExtent>,
    slot: Slot,
    is_by_pages: bool,
}

impl Opened {
    /// The extent.
    pub fn held(&self) -> &Arc<NodeExtent> {
        &self.held
    }

    /// Its place in the table.
    pub fn slot(&self) -> Slot {
        self.slot
    }

    /// True if hosts map it, or are about to: each stage recalls its pages first.
    pub fn is_by_pages(&self) -> bool {
        self.is_by_pages
    }

    /// Hosts may be about to map it: then it is reached by pages from here on. Says whether it is.
    pub fn give_way(&mut self, extents: &Extents) -> bool {
        let entries = extents.read();
        let entry = entries.slots.get(self.slot.0 as usize).and_then(Option::as_ref);
        self.is_by_pages |= entry.is_some_and(|entry| Arc::ptr_eq(&entry.held, &self.held) && entry.is_by_pages());
        self.is_by_pages
    }

    /// [`NodeExtent::stays`], but never for an extent that is reached by pages, which are taken out of mappings at times.
    pub fn stays(&self) -> Option<Window> {
        if self.is_by_pages { None } else { self.held.stays() }
    }
}

/// Files of an extent, in order.
pub(crate) type ExtentFiles = Vec<(OwnedFd, FilePart)>;

impl Extents {
    pub fn new(lender: Arc<Lender>) -> Extents {
        Extents {
            spills: Spills::new(lender),
            counts: AllCounts::default(),
            thread_slots: Mutex::default(),
            members: MemberList::default(),
            closer: Closer::start(),
            entries: RwLock::new(Entries {
                node: NodeId(0),
                slots: Vec::new(),
                free: Vec::new(),
                in_files: Mutex::default(),
                lingering: Vec::new(),
                lease_until_ns: AtomicU64::new(0),
                homes_until_ns: AtomicU64::new(0),
            }),
        }
    }

    /// The node is a member for so many milliseconds, and answers for extents with copies for so many.
    pub fn hold_leases(&self, left_ms: u64, homes_left_ms: u64) {
        let (now_ns, entries) = (monotonic_ns(), self.read());
        let until_ns = |left_ms: u64| now_ns.saturating_add(left_ms.saturating_mul(1_000_000));
        entries.lease_until_ns.store(until_ns(left_ms), Ordering::Relaxed);
        entries.homes_until_ns.store(until_ns(homes_left_ms), Ordering::Relaxed);
    }

    /// True if the node is a member by its own clock.
    pub fn has_lease(&self) -> bool {
        monotonic_ns() < self.read().lease_until_ns.load(Ordering::Relaxed)
    }

    /// Makes extents for a region, all or none; `copied` if other nodes have copies.
    pub fn make(&self, gid: Gid, lens: &[u64], copied: bool) -> Result<Vec<ReportedExtent>> {
        let mut made = Vec::new();
        for len in lens {
            made.push((*len, self.spills.lender().make(*len)?));
        }
        let mut entries = self.write();
        made.into_iter()
            .map(|(len, extent)| {
                let held = NodeExtent::new(gid, len, extent, self.spills.clone());
                let held = Arc::new(if copied { held.copied() } else { held });
                let (read, write) = (fresh_grant()?, fresh_grant()?);
                Ok(entries.enter(Entry::new(held, (read, write))))
            })
            .collect()
    }

    /// Lets go of extents; unknown slots are none.
    pub fn free(&self, slots: &[Slot]) {
        let taken: Vec<Option<Entry>> = {
            let mut entries = self.write();
            let taken: Vec<Option<Entry>> = slots.iter().map(|slot| entries.take(*slot)).collect();
            let mapped = taken.iter().flatten().filter(|entry| !entry.direct.is_empty());
            let lingering: Vec<_> = mapped.map(|entry| (entry.held.clone(), entry.direct.all().collect())).collect();
            entries.lingering.extend(lingering);
            taken
        };
        // Memory is given back outside the lock.
        drop(taken);
    }

    /// All extents with their grants.
    pub fn held(&self) -> Vec<ReportedExtent> {
        let entries = self.read();
        entries.slots.iter().enumerate().filter_map(|(slot, entry)| Some(entry.as_ref()?.report(slot))).collect()
    }

    /// Makes all grants anew, for a new epoch of the node: those of the epoch before fail from here on.
    pub fn renew_grants(&self, node: NodeId) -> Result<Vec<ReportedExtent>> {
        let mut entries = self.write();
        entries.node = node;
        for entry in entries.slots.iter_mut().flatten() {
            entry.renew_grants()?;
        }
        drop(entries);
        Ok(self.held())
    }

    /// The extent that a command names, if its grant allows the command, and the shape, if it lies inside. With them a token that says,
    /// until it is dropped, that the command changes bytes directly.
    pub fn admit(&self, command: &Command, shape: Shape<'static>) -> Result<(Opened, Checked<'static>, Option<Writing>)> {
        let need = if command.op.writes() { Rights::Write } else { Rights::Read };
        let entries = self.read();
        let opened = entries.open(command.slot, command.grant, need)?;
        // The locked table keeps hosts from sharing it.
        let writing = (command.op.writes() && !opened.is_by_pages).then(|| Writing::new(&opened.held));
        drop(entries);
        // The library has checked it against the region; only others are told by their extent's region.
        let shape = shape.check("of a peer", opened.held.len())?.joined();
        Ok((opened, shape, writing))
    }

    /// The extent of that slot, if the grant allows what is needed.
    pub fn open(&self, slot: Slot, grant: Grant, need: Rights) -> Result<Opened> {
        self.read().open(slot, grant, need)
    }

    /// The same for what touches none of its bytes.
    pub fn hold(&self, slot: Slot, grant: Grant, need: Rights) -> Result<Arc<NodeExtent>> {
        self.read().hold(slot, grant, need)
    }

    /// State shared by each client of this host and the node: its threads' slots, and the locks leased to it.
    pub fn thread_slots(&self) -> MutexGuard<'_, LeasesOfClients<ThreadSlots>> {
        self.thread_slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The files of an extent, for a client of this host to map as its grant allows, until a host shares the extent. `pins` if the client
    /// gives a pointer out. The extent counts as mapped by that client until [`Extents::forget_direct`].
    pub fn files(&self, (slot, grant): (Slot, Grant), client: ClientId, pins: bool) -> Result<ExtentFiles> {
        let mut entries = self.write();
        let Opened { held, is_by_pages, .. } = entries.open(slot, grant, Rights::Read)?;
        if pins {
            self.check_gives_files(held.gid())?;
        }
        // A program without a pointer goes on by commands.
        if is_by_pages || held.has_copies() || !self.spills.lender().gives_files() {
            return Err(Error::IsMapped { gid: held.gid() });
        }
        let rights = match entries.hold(slot, grant, Rights::Write) {
            Ok(_) => Rights::Write,
            Err(_) => Rights::Read,
        };
        // The locked table keeps hosts from sharing it.
        if let Some(Some(entry)) = entries.slots.get_mut(slot.0 as usize) {
            entry.direct.map(client, pins);
        }
        drop(entries);
        held.with_own_file(|extent| extent.files(rights))
    }

    /// **Errors**: [`Error::BadUse`] where no program may map memory of this node as it is.
    fn check_gives_files(&self, gid: Gid) -> Result<()> {
        if self.spills.lender().gives_files() {
            return Ok(());
        }
        let reason =
            "its node lends a DAX device or a file, whose descriptor opens all of it; use commands, or map it explicit or entry";
        Err(Error::BadUse { region: gid.to_string(), reason: reason.to_owned() })
    }

    /// A client has no pointer to extents of a region any more.
    pub fn unpin(&self, client: ClientId, gid: Gid) {
        let mut entries = self.write();
        let those = entries.slots.iter_mut().flatten().filter(|entry| entry.held.gid() == gid);
        those.for_each(|entry| entry.direct.unpin(client));
    }

    /// A client has no mapping of extents any more: of a region's, or of any, because it has ended.
    pub fn forget_direct(&self, client: ClientId, gid: Option<Gid>) {
        let mut entries = self.write();
        for entry in entries.slots.iter_mut().flatten() {
            if gid.is_none_or(|gid| entry.held.gid() == gid) {
                entry.direct.release(client);
            }
        }
        for (held, clients) in &mut entries.lingering {
            if gid.is_none_or(|gid| held.gid() == gid) {
                clients.remove(&client);
            }
        }
        let gone: Vec<_> = entries.lingering.extract_if(.., |(_, clients)| clients.is_empty()).collect();
        drop(entries);
        if gid.is_none() {
            self.closer.drop_later(self.thread_slots().end(client));
        }
        // Memory is given back outside the lock.
        drop(gone);
    }

    /// Clients lose the right to reach all extents as they are, except those of which somebody gave a pointer out. Returns how many earlier
    /// commands may be under way, as a count of extents and clients. It is called again until there is none.
    pub fn take_rights_back(&self) -> usize {
        let mut entries = self.write();
        let thread_slots = self.thread_slots();
        let take_back = |entry: &mut Entry| match entry.direct.take_back(entry.held.gid(), thread_slots.clients()) {
            Standing::Busy(count) => count,
            Standing::Free | Standing::Pinned(_) => 0,
        };
        entries.slots.iter_mut().flatten().map(take_back).sum()
    }

    /// The extent of a region at a slot, for who was let in before.
    pub fn find(&self, gid: Gid, slot: Slot) -> Option<Opened> {
        let entries = self.read();
        let entry = entries.of(gid, slot)?;
        Some(Opened { held: entry.held.clone(), slot, is_by_pages: entry.is_by_pages() })
    }

    /// True if a region has that extent here.
    pub fn has(&self, gid: Gid, slot: Slot) -> bool {
        self.read().of(gid, slot).is_some()
    }

    /// False for an extent with copies of which another node may be home.
    pub fn answers(&self, gid: Gid, slot: Slot) -> bool {
        let entries = self.read();
        entries.of(gid, slot).is_none_or(|entry| entries.is_home(entry))
    }

    /// The rights of a grant for an extent of a region. A length that is not the extent's is refused like a false grant.
    pub fn rights(&self, gid: Gid, (slot, len): (Slot, u64), grant: Grant) -> Result<Rights> {
        let entries = self.read();
        let entry = entries.of(gid, slot).filter(|entry| entry.held.len() == len);
        entry.and_then(|entry| entry.allows(grant)).ok_or(Error::GrantRefused { gid, node: entries.node })
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, Entries> {
        self.entries.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, Entries> {
        self.entries.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    fn new(held: Arc<NodeExtent>, (read, write): (Grant, Grant)) -> Entry {
        Entry { held, read, write, direct: Programs::default(), shares: 0, mappings: 0, is_wanted: false, is_closed: false }
    }

    fn is_by_pages(&self) -> bool {
        self.shares > 0 || self.is_wanted
    }

    /// Grants of before fail from here on.
    fn renew_grants(&mut self) -> Result<()> {
        (self.read, self.write) = (fresh_grant()?, fresh_grant()?);
        Ok(())
    }

    fn allows(&self, grant: Grant) -> Option<Rights> {
        match grant {
            grant if grant == self.write => Some(Rights::Write),
            grant if grant == self.read => Some(Rights::Read),
            _ => None,
        }
    }

    fn report(&self, slot: usize) -> ReportedExtent {
        ReportedExtent { slot: Slot(slot as u32), gid: self.held.gid(), len: self.held.len(), read: self.read, write: self.write }
    }
}

fn fresh_grant() -> Result<Grant> {
    hanare_memory::random::bytes().map(Grant)
}
