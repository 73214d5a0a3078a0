//! A region as a client holds it: how its bytes lie, and where they are reached.

mod reach;

use super::attachment::Shared;
use super::remote::Remote;
use super::route::ExtentRoute;
use hanare_memory::Lost;
use hanare_protocol::attributes::Attributes;
use hanare_protocol::id::{Gid, Grant, NodeId, Rights, Slot, User};
use hanare_protocol::placement::{Extent, Layout, Routes, Span};
use hanare_protocol::wire::command::Op;
use hanare_protocol::wire::control::{Made, RegionView, Which};
use hanare_protocol::{Error, Result};
use reach::{Direct, MappedExtents};
pub(crate) use reach::{InReach, Way};
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// An open region.
///
/// Offsets and lengths are in bytes. Calls on ranges of this host cost a bounds check and the copy. Ranges elsewhere cost one message each
/// way for each node. Any number of threads may use a region.
///
/// The handle keeps seeing the length it was opened with; [`crate::Pool::resize`] and a new open return longer ones.
///
/// FEATURE: EU-F3 D3-F1
pub struct Region {
    pub(crate) shared: Arc<Shared>,
    name: Arc<str>,
    gid: Gid,
    owner: User,
    mode: u32,
    /// Layout of its bytes on nodes.
    routes: Routes,
    rights: Rights,
    pub(super) made: Made,
    pub(super) attributes: Attributes,
    /// The count in the coordinator's last answer.
    copies: AtomicU8,
    len: u64,
    /// Routes of commands to each extent; grants change when a node gets a new epoch.
    extent_routes: RwLock<Vec<RegionRoute>>,
    /// Number of refused grants of any region when it last asked for its own.
    refusals: AtomicU64,
    /// Extents of this host, mapped at their first use. They know which of them may be used, and if the node knows that.
    mapped: RwLock<MappedExtents>,
    /// The whole region, where it is one mapped extent, or mapped coherently.
    direct: Direct,
    /// Value of [`Shared::changes`] at the time of this decision.
    changes_seen: AtomicU64,
    /// Layout of its bytes while it is mapped coherently: contiguous.
    flat: Routes,
    /// Address of the coherent mapping, while there is one.
    coherent: Direct,
    /// Uses of small unmapped extents; the busy get mapped.
    uses: AtomicU32,
    /// Number of further commands that go to the home because hosts had it mapped. Then this host's node is asked for its memory again.
    by_pages: AtomicU32,
}

#[derive(Clone)]
struct RegionRoute {
    remote: Arc<Remote>,
    slot: Slot,
    grant: Grant,
    /// Address of the extent's node for other nodes.
    address: Arc<str>,
}

impl RegionRoute {
    /// The extent of that length, with its grant.
    fn at(&self, len: u64) -> (Extent, Grant) {
        (Extent { node: self.remote.node(), slot: self.slot, len }, self.grant)
    }
}

impl Region {
    pub(crate) fn new(shared: Arc<Shared>, view: RegionView) -> Result<Region> {
        view.layout.check().map_err(|malformed| shared.life().session.garbage(malformed.0))?;
        view.attributes.check()?;
        let refusals = AtomicU64::new(shared.refusals.load(Ordering::Relaxed));
        let extent_routes = extent_routes(&shared, &view)?;
        let mapped = RwLock::new(MappedExtents::new(extent_routes.len(), shared.life(), view.gid));
        let here = Extent { node: shared.node, slot: Slot(0), len: view.layout.len() };
        let flat = Layout { spans: vec![Span { len: here.len, chunk: here.len, extents: vec![here] }] }.into();
        let region = Region {
            shared,
            name: view.name.into(),
            gid: view.gid,
            owner: view.owner,
            mode: view.mode,
            rights: view.rights,
            made: view.made,
            attributes: view.attributes,
            copies: AtomicU8::new(view.copies),
            len: view.layout.len(),
            routes: view.layout.into(),
            by_pages: AtomicU32::new(0),
            extent_routes: RwLock::new(extent_routes),
            refusals,
            mapped,
            direct: Direct::default(),
            changes_seen: AtomicU64::new(0),
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

    /// The name, for a handle that outlives this one.
    pub(crate) fn shared_name(&self) -> Arc<str> {
        self.name.clone()
    }

    /// Its global id.
    pub fn gid(&self) -> Gid {
        self.gid
    }

    /// The user that owned it when it was opened: its maker, unless root gave it to another.
    pub fn owner(&self) -> User {
        self.owner
    }

    /// Its mode bits when it was opened: who may read and write, as a file's.
    pub fn mode(&self) -> u32 {
        self.mode
    }

    /// Its length in bytes when it was opened.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Nodes that are to hold each of its bytes ([`CreateOptions::copies`](crate::CreateOptions::copies)), as far as this handle knows. 2 where
    /// it is one and its home may change.
    pub fn copies(&self) -> u8 {
        self.copies.load(Ordering::Relaxed)
    }

    /// Always false: no region has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Layout of its bytes on nodes.
    pub fn layout(&self) -> &Layout {
        self.routes().layout()
    }

    /// The same, with its tables.
    pub(crate) fn routes(&self) -> &Routes {
        &self.routes
    }

    /// Rights of this handle.
    pub fn rights(&self) -> Rights {
        self.rights
    }

    /// True if the call that returned this handle made the region.
    pub fn created(&self) -> bool {
        self.made != Made::Found
    }

    /// True if all bytes are on this host's node.
    pub fn is_local(&self) -> bool {
        self.extent_routes().iter().all(|route| route.remote.node() == self.shared.node)
    }

    /// Reads as many values as `into` has, from byte `offset` on. Values are as they lie in memory: all programs of a pool have the
    /// same byte order.
    ///
    /// Other commands take values as bytes, too: `values.as_bytes()` of [`crate::zerocopy::IntoBytes`]. The type stands in the name,
    /// because [`Region::get`] would silently take a list of plain numbers for `i32`.
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

    /// Waits until all commands that this client began on nodes of its bytes are done. What failed is reported where it is
    /// waited for.
    pub(crate) fn quiesce(&self) {
        let remotes: Vec<Arc<Remote>> = self.extent_routes().iter().map(|route| route.remote.clone()).collect();
        remotes.iter().for_each(|remote| drop(remote.quiesce()));
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
        self.shared.node
    }

    /// The route of commands to an extent.
    pub(crate) fn extent_route(&self, extent: usize) -> ExtentRoute {
        let RegionRoute { remote, slot, grant, address } = self.extent_routes()[extent].clone();
        let node = remote.node().0;
        ExtentRoute { remote, node, slot, grant, address }
    }

    /// Slot and grant of an extent of it on a node, if there is one.
    pub(crate) fn key_on(&self, node: NodeId) -> Option<(Slot, Grant)> {
        let routes = self.extent_routes();
        let route = routes.iter().find(|route| route.remote.node() == node)?;
        Some((route.slot, route.grant))
    }

    /// The extents as the handle knows them today: they may have moved since it was opened.
    pub(crate) fn extents_today(&self) -> Vec<(Extent, Grant)> {
        let (routes, known) = (self.extent_routes(), self.routes().extents());
        routes.iter().zip(known).map(|(route, known)| route.at(known.len)).collect()
    }

    /// The same of one extent.
    pub(crate) fn extent_today(&self, extent: usize) -> (Extent, Grant) {
        self.extent_routes()[extent].at(self.routes().extent(extent).len)
    }

    fn extent_routes(&self) -> RwLockReadGuard<'_, Vec<RegionRoute>> {
        self.extent_routes.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The region as it is today, to be mapped.
    ///
    /// **Errors**: [`Error::UnknownRegion`] when it is another one. [`Error::BadUse`] when it was resized.
    pub(crate) fn fresh_view(&self) -> Result<RegionView> {
        let view = self.view_of_today()?;
        self.copies.store(view.copies, Ordering::Relaxed);
        // Other nodes may be homes by now.
        if !view.layout.has_same_chunks(self.routes.layout()) {
            let reason = "it was resized since it was opened; open it again".to_owned();
            return Err(Error::BadUse { region: self.name().to_owned(), reason });
        }
        self.take_routes(&view)?;
        Ok(view)
    }

    /// The same, however long it is by now.
    fn view_of_today(&self) -> Result<RegionView> {
        Region::view_of(&self.shared, (self.gid, &self.name), self.rights)
    }

    /// A region as it is today. Its number is asked for, because the name may be another region's.
    pub(crate) fn view_of(shared: &Shared, (gid, name): (Gid, &str), rights: Rights) -> Result<RegionView> {
        shared.open(Which::Gid(gid), Some(rights)).map_err(|error| match error {
            Error::UnknownRegion { .. } => Error::UnknownRegion { name: name.to_owned() },
            other => other,
        })
    }

    /// Asks for the grants and addresses of today.
    ///
    /// **Errors**: [`Error::UnknownRegion`] when it is another region by now.
    pub(crate) fn refresh(&self) -> Result<()> {
        self.refusals.store(self.shared.refusals.load(Ordering::Relaxed), Ordering::Relaxed);
        let view = self.view_of_today()?;
        self.take_routes(&view)?;
        self.copies.store(view.copies, Ordering::Relaxed);
        Ok(())
    }

    /// Goes by the grants and addresses of a view. A resize since the handle was opened has appended extents that it does not see.
    fn take_routes(&self, view: &RegionView) -> Result<()> {
        let mut fresh = extent_routes(&self.shared, view)?;
        fresh.truncate(self.routes().extents().len());
        *self.extent_routes.write().unwrap_or_else(PoisonError::into_inner) = fresh;
        Ok(())
    }

    /// [`Region::refresh`], if a grant was refused since the last time. Updates and started commands are not retried. This refreshes the
    /// grants for the next command.
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

    /// [`Region::refresh`], where that can help. Without the coordinator's own node nobody replies: it is dialed again, no more. Bytes with
    /// copies may have another home by then, which another coordinator names. Returns false where a silent node has the bytes still.
    pub(crate) fn refresh_after(&self, error: &Error) -> Result<bool> {
        match error {
            Error::NodeLost { node, .. } if self.copies() <= 1 && *node == self.shared.life().attached.home.node => Ok(true),
            Error::Timeout { .. } if self.copies() <= 1 => {
                let nodes = || -> Vec<NodeId> { self.extent_routes().iter().map(|route| route.remote.node()).collect() };
                let before = nodes();
                self.refresh()?;
                Ok(nodes() != before)
            }
            _ => self.refresh().map(|()| true),
        }
    }

    /// The error for bytes of this program's memory that are gone: pages that their home does not give, or memory of this host's node.
    #[cold]
    pub(crate) fn lost(&self, _lost: Lost) -> Error {
        let Some(coherent) = self.shared.mapped.of(self.gid) else {
            return Error::RegionLost { region: self.name().to_owned(), node: self.here() };
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

fn extent_routes(shared: &Arc<Shared>, view: &RegionView) -> Result<Vec<RegionRoute>> {
    let route = |(extent, grant): (&Extent, &Grant)| {
        let address = view.nodes.iter().find(|node| node.node == extent.node);
        let remote = shared.remote(extent.node, address.map(|node| node.address.as_str()))?;
        let address = address.map_or("", |node| node.address.as_str()).into();
        Ok(RegionRoute { remote, slot: extent.slot, grant: *grant, address })
    };
    view.layout.extents().zip(&view.grants).map(route).collect()
}
