//! Group ranks of a pool's handle.

use crate::border::Outcome;
use hanare::{Group, Pool};
use hanare_protocol::Error;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The places in groups that a pool's handle has, by the groups' names.
#[derive(Default)]
pub struct GroupRanks(Mutex<BTreeMap<String, Arc<Group>>>);

impl GroupRanks {
    fn groups(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Arc<Group>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The place in a group, taken at the first call.
    pub(crate) fn join(&self, pool: &Pool, name: &str, parties: u32) -> Outcome<Arc<Group>> {
        let mut groups = self.groups();
        if let Some(group) = groups.get(name) {
            if group.parties() == parties {
                return Ok(group.clone());
            }
            let reason = "this handle gave that number first; use another name for another group".to_owned();
            let error = Error::BadGroup { name: name.to_owned(), asked: parties, parties: group.parties(), reason };
            return Err(error.into());
        }
        let group = Arc::new(pool.group(name, parties)?);
        groups.insert(name.to_owned(), group.clone());
        Ok(group)
    }

    /// A group that failed is left, so that the next call joins anew.
    pub(crate) fn leave(&self, failed: &Arc<Group>) {
        let mut groups = self.groups();
        if groups.get(failed.name()).is_some_and(|group| Arc::ptr_eq(group, failed)) {
            groups.remove(failed.name());
        }
    }
}
