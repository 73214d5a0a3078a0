//! A region as a client holds it: how its bytes lie, and where they are reached.

use super::attachment::{DirectHold, Shared};
use super::door::ExtentDoor;
use super::mapping::map_extent;
use super::remote::Remote;
use hanare_memory::{Lost, Mapping, Window};
use hanare_protocol::attributes::Attributes;
use hanare_protocol::id::{Gid, Grant, NodeId, Rights, Slot};
use hanare_protocol::limits::SMALL_REGION_LEN;
use hanare_protocol::place::{Extent, Layout, Routes, Span};
use hanare_protocol::wire::command::Op;
use hanare_protocol::wire::control::{Made, RegionView, Which};
use hanare_protocol::{Error, Result};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use zerocopy::{FromBytes, Immutable, IntoBytes};

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
    /// How its bytes lie on nodes.
    routes: Routes,
    rights: Rights,
    pub(super) made: Made,
    pub(super) attributes: Attributes,
    len: u64,
    /// How each extent is reached by commands; grants change when a node gets a new epoch.
    doors: RwLock<Vec<Door>>,
    /// How many grants of any region had been refused when it last asked for its own.
    refusals: AtomicU64,
    /// Extents of this host, mapped at their first use; and whether the node knows that.
    mapped: RwLock<MappedExtents>,
    /// The whole region, where it is one mapped extent, or mapped coherently.
    direct: Direct,
    /// How often coherent mappings of this program had begun or ended when this was decided.
    mappings_seen: AtomicU64,
    /// How its bytes lie while it is mapped coherently: one after another.
    flat: Routes,
    /// Where they do, as long as it is.
    coherent: Direct,
    /// Uses of small unmapped extents; the busy get mapped.
    uses: AtomicU32,
    /// How many more commands go to the home since hosts had it mapped, before this host's node is asked for its memory again.
    by_pages: AtomicU32,
}

/// Extents of this host that a handle has mapped as they are.
struct MappedExtents {
    mappings: Vec<Option<Mapping>>,
    /// Dropped after them: the node is told.
    hold: Option<DirectHold>,
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

/// How one call reaches a region: decided once for all its parts, since others may make it another way meanwhile.
#[derive(Clone, Copy)]
pub(crate) struct Way<'r> {
    region: &'r Region,
    /// All bytes one after another, where the region is mapped coherently.
    flat: Option<Window>,
}

impl<'r> Way<'r> {
    /// Whether the region is mapped coherently.
    pub fn is_flat(self) -> bool {
        self.flat.is_some()
    }

    /// How the bytes lie: on extents, or one after another.
    pub fn routes(self) -> &'r Routes {
        if self.flat.is_some() { &self.region.flat } else { self.region.routes() }
    }

    /// The bytes of an extent of that layout, where they are reached directly.
    pub fn local(self, extent: usize) -> Result<Option<Window>> {
        match self.flat {
            Some(flat) => Ok(Some(flat)),
            None => self.region.local(extent),
        }
    }
}

/// Commands that go to the home of what hosts map, for one question whether they still do.
const BY_PAGES_USES: u32 = 256;

/// A small extent that is used this often is worth a file of its own.
const BUSY_USES: u32 = 64;

impl Region {
    pub(crate) fn new(shared: Arc<Shared>, view: RegionView) -> Result<Region> {
        view.layout.check().map_err(|malformed| shared.session.garbage(malformed.0))?;
        view.attributes.check()?;
        let refusals = AtomicU64::new(shared.refusals.load(Ordering::Relaxed));
        let doors = doors(&shared, &view)?;
        let mapped = RwLock::new(MappedExtents { mappings: doors.iter().map(|_| None).collect(), hold: None });
        let here = Extent { node: shared.attached.node, slot: Slot(0), len: view.layout.len() };
        let flat = Layout { spans: vec![Span { len: here.len, chunk: here.len, extents: vec![here] }] }.into();
        let region = Region {
            shared,
            name: view.name,
            gid: view.gid,
            rights: view.rights,
            made: view.made,
            attributes: view.attributes,
            len: view.layout.len(),
            routes: view.layout.into(),
            by_pages: AtomicU32::new(0),
            doors: RwLock::new(doors),
            refusals,
            mapped,
            direct: Direct::default(),
            mappings_seen: AtomicU64::new(0),
            flat,
            coherent: Direct::default(),
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
        self.routes().layout()
    }

    /// The same, with its tables.
    pub(crate) fn routes(&self) -> &Routes {
        &self.routes
    }

    /// What this handle may do.
    pub fn rights(&self) -> Rights {
        self.rights
    }

    /// Whether the call that returned this handle made the region.
    pub fn created(&self) -> bool {
        self.made != Made::Found
    }

    /// Whether all bytes are on this host's node.
    pub fn is_local(&self) -> bool {
        self.routes().extents().iter().all(|extent| extent.node == self.shared.attached.node)
    }

    /// Reads as many values as `into` has, from byte `offset` on. Values are as they lie in memory: all programs of a pool have the
    /// same byte order.
    ///
    /// Other commands take values as bytes, too: `values.as_bytes()` of [`crate::zerocopy::IntoBytes`]. The type stands in the name
    /// and not in [`Region::get`], where a list of plain numbers would silently become one of `i32`.
    ///
    /// **Cost**, **Errors**: as for [`Region::get`].
    #[inline]
    pub fn get_values<T: FromBytes + IntoBytes>(&self, offset: u64, into: &mut [T]) -> Result<()> {
        self.get(offset, into.as_mut_bytes())
    }

    /// Writes values from byte `offset` on, as [`Region::get_values`] reads them. **Cost**, **Errors**: as for [`Region::put`].
    #[inline]
    pub fn put_values<T: IntoBytes + Immutable>(&self, offset: u64, values: &[T]) -> Result<()> {
        self.put(offset, values.as_bytes())
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
        let changes = self.shared.mapped.changes();
        // A mapping that allows less than this handle is none for its commands.
        let (coherent, others) = match self.shared.mapped.of(self.gid) {
            Some(coherent) if coherent.rights() >= self.rights => (Some(coherent), None),
            other => (None, other),
        };
        if coherent.is_some() {
            // What this client began by commands comes before what it does to the memory itself.
            self.quiesce();
        }
        self.mappings_seen.store(changes, Ordering::Relaxed);
        let was_coherent = self.coherent.get(self.len).is_some();
        match &coherent {
            Some(coherent) => {
                // SAFETY: it ends after its change was counted, and nobody uses the region meanwhile (`Region::map`).
                let window = unsafe { coherent.window() };
                self.coherent.set(window);
                self.direct.set(window);
            }
            None if was_coherent => {
                self.coherent.clear();
                self.direct.clear();
            }
            None => {}
        }
        if coherent.is_some() || was_coherent {
            // What was mapped as it is must not be used beside the pages; afterwards the node is asked anew.
            let mut mapped = self.mapped.write().unwrap_or_else(PoisonError::into_inner);
            mapped.mappings.iter_mut().for_each(|mapping| *mapping = None);
            mapped.hold = None;
        }
        self.shared.mapped.let_go(self.gid, coherent.or(others));
    }

    /// Waits until all commands that this client began on nodes of its bytes are done. What failed is reported where it is
    /// waited for.
    pub(crate) fn quiesce(&self) {
        let remotes: Vec<Arc<Remote>> = self.doors().iter().map(|door| door.remote.clone()).collect();
        remotes.iter().for_each(|remote| drop(remote.quiesce()));
    }

    /// Whether its bytes are reached through a coherent mapping.
    pub(crate) fn is_coherent(&self) -> bool {
        self.way().is_flat()
    }

    /// How its bytes are reached just now.
    pub(crate) fn way(&self) -> Way<'_> {
        self.keep_up();
        Way { region: self, flat: self.coherent.get(self.len) }
    }

    /// The bytes, if they are within a region that is one mapped extent.
    #[inline]
    pub(crate) fn reach(&self, offset: u64, len: usize) -> Option<Window> {
        let direct = self.mapped_whole()?;
        let fits = offset.checked_add(len as u64).is_some_and(|end| end <= self.len);
        fits.then(|| direct.slice(offset as usize, len))
    }

    /// Refuses commands that write where the handle only reads. **Errors**: [`Error::BadUse`].
    pub(crate) fn check_rights(&self, op: Op) -> Result<()> {
        if op.writes() && self.rights != Rights::Write {
            let reason = "it was opened for reading; open it for writing to change it".to_owned();
            return Err(Error::BadUse { region: self.name().to_owned(), reason });
        }
        Ok(())
    }

    /// The node of this host.
    pub(crate) fn here(&self) -> NodeId {
        self.shared.attached.node
    }

    /// How commands reach an extent.
    pub(crate) fn door(&self, extent: usize) -> ExtentDoor {
        let at = self.routes().extent(extent);
        let Door { remote, grant, address } = self.doors()[extent].clone();
        ExtentDoor { remote, node: at.node.0, slot: at.slot, grant, address }
    }

    /// What opens an extent of it on a node, if there is one.
    pub(crate) fn key_on(&self, node: NodeId) -> Option<(Slot, Grant)> {
        let at = self.routes().extents().iter().position(|extent| extent.node == node)?;
        Some((self.routes().extent(at).slot, self.doors()[at].grant))
    }

    /// The extent's bytes, if they are mapped here as they are, or can be.
    fn local(&self, extent: usize) -> Result<Option<Window>> {
        if let Some(mapping) = &self.mapped.read().unwrap_or_else(PoisonError::into_inner).mappings[extent] {
            return Ok(Some(self.window(extent, mapping)));
        }
        let at = self.routes().extent(extent);
        if at.node != self.shared.attached.node {
            return Ok(None);
        }
        if at.len < SMALL_REGION_LEN && self.uses.fetch_add(1, Ordering::Relaxed) < BUSY_USES {
            return Ok(None);
        }
        let left = self.by_pages.load(Ordering::Relaxed);
        if left > 0 {
            self.by_pages.store(left - 1, Ordering::Relaxed);
            return Ok(None);
        }
        match self.map_now(extent) {
            // Hosts map it coherently: its home does commands on it.
            Err(Error::IsMapped { .. }) => {
                self.by_pages.store(BY_PAGES_USES, Ordering::Relaxed);
                Ok(None)
            }
            mapped => mapped.map(Some),
        }
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
        let len = self.routes().extent(extent).len;
        // SAFETY: all of it is mapped; windows of it are used only while the region, which keeps it, is borrowed.
        unsafe { mapping.window() }.slice(0, len as usize)
    }

    fn try_map(&self, extent: usize) -> Result<Mapping> {
        let at = self.routes().extent(extent);
        let grant = self.grant(extent);
        map_extent(&self.shared, at, grant, self.rights)
    }

    fn doors(&self) -> RwLockReadGuard<'_, Vec<Door>> {
        self.doors.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn grant(&self, extent: usize) -> Grant {
        self.doors()[extent].grant
    }

    /// The region as it is today.
    ///
    /// **Errors**: [`Error::UnknownRegion`] when it is another one; [`Error::BadUse`] when it was resized.
    pub(crate) fn fresh_view(&self) -> Result<RegionView> {
        let view = self.view_of_today()?;
        if view.layout != *self.routes.layout() {
            let reason = "it was resized since it was opened; open it again".to_owned();
            return Err(Error::BadUse { region: self.name.clone(), reason });
        }
        Ok(view)
    }

    /// The same, however long it is by now.
    fn view_of_today(&self) -> Result<RegionView> {
        // By its number: its name may be another region's.
        self.shared.open(Which::Gid(self.gid), Some(self.rights)).map_err(|error| match error {
            Error::UnknownRegion { .. } => Error::UnknownRegion { name: self.name.clone() },
            other => other,
        })
    }

    /// Asks for the grants and addresses of today.
    ///
    /// **Errors**: [`Error::UnknownRegion`] when it is another region by now.
    pub(crate) fn refresh(&self) -> Result<()> {
        self.refusals.store(self.shared.refusals.load(Ordering::Relaxed), Ordering::Relaxed);
        let view = self.view_of_today()?;
        let mut fresh = doors(&self.shared, &view)?;
        // A resize since then has appended extents that this handle does not see.
        fresh.truncate(self.routes().extents().len());
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
            _ => self.refresh(),
        }
    }

    /// The error for bytes of this program's memory that are gone: pages of a mapping that their home does not give, or memory of
    /// this host's node.
    #[cold]
    pub(crate) fn lost(&self, _lost: Lost) -> Error {
        let Some(coherent) = self.shared.mapped.of(self.gid) else {
            return Error::RegionLost { region: self.name.clone(), node: self.here() };
        };
        let error = coherent.lost();
        self.shared.mapped.let_go(self.gid, Some(coherent));
        error
    }
}

impl std::fmt::Debug for Region {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Region")
            .field("name", &self.name())
            .field("gid", &self.gid)
            .field("len", &self.len)
            .finish_non_exhaustive()
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
