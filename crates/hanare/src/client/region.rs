//! A region as a client holds it: where its bytes are reached, and the commands on it.

use super::drafts::{self, Drafts, Tickets, post};
use super::mapping::{LocalMapping, map_extent};
use super::pool::Shared;
use super::remote::Remote;
use super::shared::coherent::Coherent;
use super::shared::{DirectHold, SharedMapping};
use hanare_memory::{Lost, Mapping, Window};
use hanare_protocol::id::{Gid, Grant, NodeId, Rights, Slot};
use hanare_protocol::limits::SMALL_REGION_LEN;
use hanare_protocol::page::Consistency;
use hanare_protocol::place::{Extent, Layout, Span};
use hanare_protocol::shape::Strided;
use hanare_protocol::wire::control::RegionView;
use hanare_protocol::{Error, Result};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// An open region.
///
/// Offsets and lengths are in bytes. Calls on ranges that lie on this host cost a bounds check and the copy; ranges
/// elsewhere cost one message each way for each node touched. Any number of threads may use a region.
///
/// The handle keeps seeing the length it was opened with; [`crate::Pool::resize`] and a new open return longer ones.
///
/// FEATURE: EU-F3 D3-F1
pub struct Region {
    pub(crate) shared: Arc<Shared>,
    name: String,
    gid: Gid,
    rights: Rights,
    created: bool,
    len: u64,
    layout: Layout,
    /// How each extent is reached by commands; grants change when a node gets a new epoch.
    doors: RwLock<Vec<Door>>,
    /// How many grants of any region had been refused when it last asked for its own.
    refusals: AtomicU64,
    /// Extents of this host, mapped at their first use; and whether the node knows that.
    mapped: RwLock<Extents>,
    /// The whole region, where it is one mapped extent, or mapped coherently.
    direct: Direct,
    /// How often coherent mappings of this program had begun or ended when this was decided.
    mappings_seen: AtomicU64,
    /// How its bytes lie while it is mapped coherently: one after another.
    flat: Layout,
    is_coherent: AtomicBool,
    /// A coherent mapping that this handle made by itself, since others have the region mapped so.
    joined: Mutex<Option<Arc<Coherent>>>,
    /// Uses of small unmapped extents; the busy get mapped.
    uses: AtomicU32,
}

/// Extents of this host that a handle has mapped as they are.
struct Extents {
    mappings: Vec<Option<Mapping>>,
    /// Dropped after them: the node is told.
    hold: Option<DirectHold>,
}

impl Drop for Region {
    fn drop(&mut self) {
        let joined = self.joined.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        self.shared.mapped.let_go(self.gid, joined);
    }
}

/// Where a region's bytes are reached at once; looked at by every short command.
#[derive(Default)]
struct Direct(AtomicPtr<u8>);

impl Direct {
    #[inline]
    fn get(&self, len: u64) -> Option<Window> {
        let ptr = self.0.load(Ordering::Acquire);
        // SAFETY: it was set from a window of the whole region, which stays mapped until it is cleared or the region is dropped.
        (!ptr.is_null()).then(|| unsafe { Window::new(ptr, len as usize) })
    }

    fn set(&self, window: Window) {
        self.0.store(window.ptr(), Ordering::Release);
    }

    fn clear(&self) {
        self.0.store(std::ptr::null_mut(), Ordering::Release);
    }
}

#[derive(Clone)]
struct Door {
    remote: Arc<Remote>,
    grant: Grant,
    /// Where other nodes reach the extent's node.
    address: Arc<str>,
}

/// How commands reach an extent, and what they name it by.
pub(crate) struct ExtentDoor {
    pub remote: Arc<Remote>,
    pub node: u32,
    pub slot: Slot,
    pub grant: Grant,
    pub address: Arc<str>,
}

/// A small extent that is used this often is worth a file of its own.
const BUSY_USES: u32 = 64;

impl Region {
    pub(crate) fn new(shared: Arc<Shared>, view: RegionView) -> Result<Region> {
        let refusals = AtomicU64::new(shared.refusals.load(Ordering::Relaxed));
        let doors = doors(&shared, &view)?;
        let mapped = RwLock::new(Extents { mappings: doors.iter().map(|_| None).collect(), hold: None });
        let here = Extent { node: shared.attached.node, slot: Slot(0), len: view.layout.len() };
        let flat = Layout { spans: vec![Span { len: here.len, chunk: here.len, extents: vec![here] }] };
        let region = Region {
            shared,
            name: view.name,
            gid: view.gid,
            rights: view.rights,
            created: view.created,
            len: view.layout.len(),
            layout: view.layout,
            doors: RwLock::new(doors),
            refusals,
            mapped,
            direct: Direct::default(),
            mappings_seen: AtomicU64::new(0),
            flat,
            is_coherent: AtomicBool::new(false),
            joined: Mutex::new(None),
            uses: AtomicU32::new(0),
        };
        Ok(region)
    }

    /// The region's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its global id.
    pub fn gid(&self) -> Gid {
        self.gid
    }

    /// Its length in bytes when it was opened.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Always false: no region has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How its bytes lie on nodes.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// What this handle may do.
    pub fn rights(&self) -> Rights {
        self.rights
    }

    /// Whether the call that returned this handle made the region.
    pub fn created(&self) -> bool {
        self.created
    }

    /// Whether all bytes are on this host's node.
    pub fn is_local(&self) -> bool {
        self.layout.extents().all(|extent| extent.node == self.shared.attached.node)
    }

    /// Reads `into.len()` bytes at `offset`.
    ///
    /// **Cost**: on this host the copy; else one message each way for each node touched, no copy but the kernel's.
    /// **Errors**: [`Error::OutOfRange`], [`Error::NodeLost`], [`Error::RegionLost`], [`Error::Timeout`]; then the buffer's content is unspecified.
    /// **Source**: [D2 Table 2] VL, RVL; [RHiNET §3] Pull.
    ///
    /// FEATURE: RF-F6
    #[inline]
    pub fn get(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        if let Some(window) = self.reach(offset, into.len()) {
            return window.read_into(into).map_err(|lost| self.lost(lost));
        }
        self.get_strided(Strided::contiguous(offset, into.len() as u64), into)
    }

    /// Writes `bytes` at `offset`; returns when they are at their home, visible to every later get.
    ///
    /// **Cost**, **Errors**: as for [`Region::get`]; after an error any part of the bytes may have been written.
    /// **Source**: [D2 Table 2] VS, RVS; [RHiNET §3] Push.
    ///
    /// FEATURE: RF-F5
    #[inline]
    pub fn put(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        if self.rights == Rights::Write
            && let Some(window) = self.reach(offset, bytes.len())
        {
            return window.write_from(bytes).map_err(|lost| self.lost(lost));
        }
        self.put_strided(Strided::contiguous(offset, bytes.len() as u64), bytes)
    }

    /// All bytes, if the region is one mapped extent.
    #[inline]
    pub(crate) fn mapped_whole(&self) -> Option<Window> {
        self.keep_up();
        self.direct.get(self.len)
    }

    /// Takes note of coherent mappings that this program has made or ended since the last look.
    #[inline]
    pub(crate) fn keep_up(&self) {
        if self.mappings_seen.load(Ordering::Relaxed) != self.shared.mapped.changes() {
            self.look_for_mapping();
        }
    }

    #[cold]
    fn look_for_mapping(&self) {
        self.mappings_seen.store(self.shared.mapped.changes(), Ordering::Relaxed);
        let coherent = self.shared.mapped.of(self.gid);
        let was_coherent = self.is_coherent.swap(coherent.is_some(), Ordering::Relaxed);
        match coherent {
            // SAFETY: the mapping ends after its change was counted, and nobody uses the region meanwhile (`Region::map`).
            Some(coherent) => self.direct.set(unsafe { coherent.window() }),
            None if was_coherent => self.direct.clear(),
            None => return,
        }
        // What was mapped as it is must not be used beside the pages; afterwards the node is asked anew.
        let mut mapped = self.mapped.write().unwrap_or_else(PoisonError::into_inner);
        mapped.mappings.iter_mut().for_each(|mapping| *mapping = None);
        mapped.hold = None;
    }

    /// Whether its bytes are reached through a coherent mapping.
    pub(crate) fn is_coherent(&self) -> bool {
        self.keep_up();
        self.is_coherent.load(Ordering::Relaxed)
    }

    /// How its bytes are reached: as they lie, or one after another where they are mapped coherently.
    pub(crate) fn reached_layout(&self) -> &Layout {
        if self.is_coherent() { &self.flat } else { &self.layout }
    }

    /// Others have the region mapped coherently: this handle maps it too, for its own commands.
    fn join_mapping(&self) -> Result<()> {
        let coherent = self.shared.mapped.get_or_make(self)?;
        *self.joined.lock().unwrap_or_else(PoisonError::into_inner) = Some(coherent);
        Ok(())
    }

    /// The bytes, if they are within a region that is one mapped extent.
    #[inline]
    fn reach(&self, offset: u64, len: usize) -> Option<Window> {
        let direct = self.mapped_whole()?;
        let fits = offset.checked_add(len as u64).is_some_and(|end| end <= self.len);
        fits.then(|| direct.slice(offset as usize, len))
    }

    /// A plain pointer to the whole region, wherever its bytes are, with that promise to the programs that map it. A region is
    /// mapped in one way at a time, by all programs of all hosts: to change it, all unmap it, meet at a barrier, and map it
    /// anew. Mapping it twice in one program gives the same mapping.
    ///
    /// **Cost**: a message each way to each home of its bytes, and a few connections there. Waits some seconds for programs of
    /// the homes' hosts that reach the memory as it is, since they may be about to map it too. No other thread of this program
    /// uses the region meanwhile. **Errors**: [`Error::BadUse`] where it is mapped otherwise, or used as it is.
    ///
    /// FEATURE: EU-F3 D2-F6
    pub fn map(&self, consistency: Consistency) -> Result<SharedMapping> {
        SharedMapping::new(self, consistency)
    }

    /// A plain pointer to the whole region, all of whose bytes are on this host.
    ///
    /// **Errors**: [`Error::BadUse`] where some bytes are on other nodes.
    pub fn map_local(&self) -> Result<LocalMapping> {
        LocalMapping::whole(self)
    }

    /// Runs blocking commands that `draft` makes, once more with the grants of today where those of yesterday were refused.
    ///
    /// # Safety
    /// What `draft` gives windows of is valid, and unused by others where it is written, until this returns.
    pub(crate) unsafe fn run<'b>(&self, is_once: bool, draft: impl FnMut(&mut Drafts<'b>) -> Result<()>) -> Result<()> {
        // SAFETY: promised by the caller.
        unsafe { drafts::run(is_once, |error| self.refresh_after(error), draft) }
    }

    /// Begins the commands that `draft` makes. Local parts are done when it returns.
    ///
    /// # Safety
    /// As for [`Region::run`], but until the tickets were waited for.
    pub(crate) unsafe fn start<'b>(&self, draft: impl FnOnce(&mut Drafts<'b>) -> Result<()>) -> Result<Tickets<'b>> {
        let mut tickets = Tickets::to_keep();
        // SAFETY: promised by the caller.
        match unsafe { post(draft, &mut tickets) } {
            Ok(()) => Ok(tickets),
            Err(error) => {
                // What did leave must be settled before the caller takes its memory back.
                let _ = tickets.wait();
                Err(error)
            }
        }
    }

    /// The node of this host.
    pub(crate) fn here(&self) -> NodeId {
        self.shared.attached.node
    }

    /// How commands reach an extent.
    pub(crate) fn door(&self, extent: usize) -> ExtentDoor {
        let at = self.layout.extents().nth(extent).expect("parts come from this layout");
        let doors = self.doors.read().unwrap_or_else(PoisonError::into_inner);
        let Door { remote, grant, address } = doors[extent].clone();
        ExtentDoor { remote, node: at.node.0, slot: at.slot, grant, address }
    }

    /// The extent's bytes, if they are mapped here or can be.
    pub(crate) fn local(&self, extent: usize) -> Result<Option<Window>> {
        if self.is_coherent() {
            return Ok(self.direct.get(self.len));
        }
        if let Some(mapping) = &self.mapped.read().unwrap_or_else(PoisonError::into_inner).mappings[extent] {
            return Ok(Some(self.window(extent, mapping)));
        }
        let at = self.layout.extents().nth(extent).expect("parts come from this layout");
        if at.node != self.shared.attached.node {
            return Ok(None);
        }
        if at.len < SMALL_REGION_LEN && self.uses.fetch_add(1, Ordering::Relaxed) < BUSY_USES {
            return Ok(None);
        }
        self.map_now(extent).map(Some)
    }

    #[cold]
    fn map_now(&self, extent: usize) -> Result<Window> {
        // What this client began by commands comes before what it does to the memory itself.
        self.door(extent).remote.quiesce()?;
        let mapping = match self.try_map(extent) {
            Err(Error::GrantRefused { .. }) => {
                self.refresh()?;
                self.try_map(extent)?
            }
            other => other?,
        };
        let mut mapped = self.mapped.write().unwrap_or_else(PoisonError::into_inner);
        mapped.hold.get_or_insert_with(|| DirectHold::new(&self.shared, self.gid, false));
        let window = self.window(extent, mapped.mappings[extent].get_or_insert(mapping));
        // A timeline has every command in it: none goes the way past drafting.
        if mapped.mappings.len() == 1 && crate::trace::current().is_none() {
            self.direct.set(window);
        }
        Ok(window)
    }

    /// The bytes of a mapped extent.
    fn window(&self, extent: usize, mapping: &Mapping) -> Window {
        let len = self.layout.extents().nth(extent).expect("as many mappings as extents").len;
        // SAFETY: all of it is mapped; windows of it are used only while the region, which keeps it, is borrowed.
        unsafe { mapping.window() }.slice(0, len as usize)
    }

    fn try_map(&self, extent: usize) -> Result<Mapping> {
        let at = self.layout.extents().nth(extent).expect("parts come from this layout");
        let grant = self.grant(extent);
        map_extent(&self.shared, at, grant, self.rights)
    }

    pub(crate) fn grant(&self, extent: usize) -> Grant {
        self.doors.read().unwrap_or_else(PoisonError::into_inner)[extent].grant
    }

    /// The region as it is today.
    ///
    /// **Errors**: [`Error::UnknownRegion`] when it is another one; [`Error::BadUse`] when it was resized.
    pub(crate) fn fresh_view(&self) -> Result<RegionView> {
        let view = self.shared.open(&self.name, Some(self.rights))?;
        if view.gid != self.gid {
            return Err(Error::UnknownRegion { name: self.name.clone() });
        }
        if view.layout != self.layout {
            let reason = "it was resized since it was opened; open it again".to_owned();
            return Err(Error::BadUse { region: self.name.clone(), reason });
        }
        Ok(view)
    }

    /// Asks for the grants and addresses of today.
    ///
    /// **Errors**: [`Error::UnknownRegion`] when it is another region by now.
    pub(crate) fn refresh(&self) -> Result<()> {
        self.refusals.store(self.shared.refusals.load(Ordering::Relaxed), Ordering::Relaxed);
        let view = self.shared.open(&self.name, Some(self.rights))?;
        if view.gid != self.gid {
            return Err(Error::UnknownRegion { name: self.name.clone() });
        }
        let mut fresh = doors(&self.shared, &view)?;
        // A resize since then has appended extents that this handle does not see.
        fresh.truncate(self.layout.extents().count());
        *self.doors.write().unwrap_or_else(PoisonError::into_inner) = fresh;
        Ok(())
    }

    /// As [`Region::refresh`], if a grant was refused since the last time. What may not be done twice, or was not waited for, is not tried again with
    /// the grants of today; the next command is.
    ///
    /// **Errors**: [`Error::UnknownRegion`], [`Error::RegionLost`]; where nobody can be asked the nodes have the word.
    pub(crate) fn refresh_if_refused(&self) -> Result<()> {
        if self.refusals.load(Ordering::Relaxed) == self.shared.refusals.load(Ordering::Relaxed) {
            return Ok(());
        }
        match self.refresh() {
            Err(error @ (Error::UnknownRegion { .. } | Error::RegionLost { .. })) => Err(error),
            _ => Ok(()),
        }
    }

    /// As [`Region::refresh`], where that can help. Where the coordinator's own node is lost nobody answers: it is dialed again, no more.
    pub(crate) fn refresh_after(&self, error: &Error) -> Result<()> {
        match error {
            Error::NodeLost { node, .. } if *node == self.shared.attached.home.node => Ok(()),
            Error::IsMapped { gid } if *gid == self.gid => self.join_mapping(),
            Error::IsMapped { .. } => Ok(()),
            _ => self.refresh(),
        }
    }

    /// The error for memory of this host that is gone.
    #[cold]
    pub(crate) fn lost(&self, _lost: Lost) -> Error {
        Error::RegionLost { region: self.name.clone(), node: self.shared.attached.node }
    }
}

impl std::fmt::Debug for Region {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Region").field("name", &self.name).field("gid", &self.gid).field("len", &self.len).finish_non_exhaustive()
    }
}

fn doors(shared: &Arc<Shared>, view: &RegionView) -> Result<Vec<Door>> {
    let door = |(extent, grant): (&hanare_protocol::place::Extent, &Grant)| {
        let address = view.nodes.iter().find(|node| node.node == extent.node);
        let remote = shared.remote(extent.node, address.map(|node| node.address.as_str()))?;
        let address = address.map_or("", |node| node.address.as_str()).into();
        Ok(Door { remote, grant: *grant, address })
    };
    view.layout.extents().zip(&view.grants).map(door).collect()
}
