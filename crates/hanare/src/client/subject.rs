//! What a command is about, kept as long as the command is under way: handles may be closed before.

use super::pool::Shared;
use super::shared::coherent::Coherent;
use hanare_memory::{Lost, Window};
use hanare_protocol::id::{Gid, Rights};
use hanare_protocol::place::Routes;
use hanare_protocol::wire::control::{RegionView, Which};
use hanare_protocol::{Error, Result};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A region as its handle and its commands know it. A mapping that was joined since others have the region mapped
/// coherently lasts as long.
pub(crate) struct Subject {
    pub shared: Arc<Shared>,
    pub name: String,
    pub gid: Gid,
    pub rights: Rights,
    pub routes: Routes,
    joined: Mutex<Option<Arc<Coherent>>>,
}

impl Subject {
    pub fn new(shared: Arc<Shared>, view: &RegionView) -> Subject {
        let RegionView { name, gid, rights, layout, .. } = view;
        let routes = layout.clone().into();
        Subject { shared, name: name.clone(), gid: *gid, rights: *rights, routes, joined: Mutex::new(None) }
    }

    fn joined(&self) -> MutexGuard<'_, Option<Arc<Coherent>>> {
        self.joined.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The region as it is today, for those rights or the most that this user has.
    ///
    /// **Errors**: [`Error::UnknownRegion`] when it is another one; [`Error::BadUse`] when it was resized.
    pub fn fresh_view(&self, rights: Option<Rights>) -> Result<RegionView> {
        let view = self.view_of_today(rights)?;
        if view.layout != *self.routes.layout() {
            let reason = "it was resized since it was opened; open it again".to_owned();
            return Err(Error::BadUse { region: self.name.clone(), reason });
        }
        Ok(view)
    }

    /// The same, however long it is by now.
    pub fn view_of_today(&self, rights: Option<Rights>) -> Result<RegionView> {
        // By its number: its name may be another region's.
        self.shared.open(Which::Gid(self.gid), rights).map_err(|error| match error {
            Error::UnknownRegion { .. } => Error::UnknownRegion { name: self.name.clone() },
            other => other,
        })
    }

    /// Others have the region mapped coherently: this program maps it too, for its own commands, and keeps that as long as
    /// this is there.
    ///
    /// **Cost**: once, a message each way to each home of its bytes, and a few connections there. **Errors**: those of
    /// [`crate::Region::map`]; [`Error::UnknownRegion`].
    pub fn join(&self) -> Result<Window> {
        let mut joined = self.joined();
        let coherent = match &*joined {
            Some(coherent) => coherent,
            None => {
                // A home waits for what this program has begun there, which this thread alone may be moving.
                self.routes
                    .extents()
                    .iter()
                    .filter_map(|at| self.shared.remote(at.node, None).ok())
                    .for_each(|at| drop(at.drain()));
                joined.insert(self.shared.mapped.join(self)?)
            }
        };
        // SAFETY: the mapping is kept until this is dropped; whoever has the window keeps this.
        Ok(unsafe { coherent.window() })
    }

    /// All its bytes one after another, if this program has it mapped coherently.
    pub fn window(&self) -> Result<Option<Window>> {
        let is_mapped = self.joined().is_some() || self.shared.mapped.is_mapped(self.gid);
        is_mapped.then(|| self.join()).transpose()
    }

    /// The error for bytes of this program's memory that are gone: pages of a mapping that their home does not give, or memory of
    /// this host's node.
    #[cold]
    pub fn lost(&self, _lost: Lost) -> Error {
        let joined = self.joined().clone().or_else(|| self.shared.mapped.of(self.gid));
        let Some(coherent) = joined else {
            return Error::RegionLost { region: self.name.clone(), node: self.shared.attached.node };
        };
        let error = coherent.lost(&self.name);
        self.shared.mapped.let_go(self.gid, Some(coherent));
        error
    }

    /// Keeps a mapping that another handle of this program has joined.
    pub fn keep(&self, coherent: &Arc<Coherent>) {
        self.joined().get_or_insert_with(|| coherent.clone());
    }
}

impl Drop for Subject {
    fn drop(&mut self) {
        let joined = self.joined.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        self.shared.mapped.let_go(self.gid, joined);
    }
}

impl std::fmt::Debug for Subject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Subject").field("name", &self.name).field("gid", &self.gid).finish_non_exhaustive()
    }
}

/// What a command is about: a region, and the number of the extent there.
pub(crate) type About = (Arc<Subject>, u32);

/// The subjects of one message's commands: of most there is one.
#[derive(Debug, Default)]
pub(crate) struct Subjects {
    first: Option<Arc<Subject>>,
    rest: Vec<Arc<Subject>>,
}

impl Subjects {
    /// The number of a subject, entered if it is new.
    pub fn enter(&mut self, subject: &Arc<Subject>) -> u32 {
        let Some(first) = &self.first else {
            self.first = Some(subject.clone());
            return 0;
        };
        if Arc::ptr_eq(first, subject) {
            return 0;
        }
        let known = self.rest.iter().position(|known| Arc::ptr_eq(known, subject));
        let position = known.unwrap_or_else(|| {
            self.rest.push(subject.clone());
            self.rest.len() - 1
        });
        position as u32 + 1
    }

    /// The subject of that number.
    pub fn get(&self, number: u32) -> &Arc<Subject> {
        self.iter().nth(number as usize).expect("it was entered")
    }

    pub fn iter(&self) -> impl Iterator<Item = &Arc<Subject>> {
        self.first.iter().chain(&self.rest)
    }
}
